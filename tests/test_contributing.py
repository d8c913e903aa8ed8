"""What CONTRIBUTING.md tells a contributor to do works, on a copy of this folder: its four recipes, as they stand."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from .launching import ended_well, mpiexec, run

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
PROGRAMS = dict(re.findall(r"`(\S+\.py)`:\n\n```python\n(.*?)```", TEXT, re.DOTALL))  # by the file they are for
ENTRIES = dict(re.findall(r"`(docs/reference/\S+\.md)`[^`]*:\n\n```text\n(.*?)```", TEXT, re.DOTALL))
MAKE = re.findall(r"```python\n(    if routing .*?)```", TEXT, re.DOTALL)[0]

# What the recipes put in words: a line, and the one before which it goes.
LINES = {
    "collectives/__init__.py": {
        "    from .sort import sort as sort\n": "    from .shift import shift as shift\n",
        '            ".sort": ("sort",),\n': '            ".shift": ("shift",),\n',
    },
    "routing/networks/__init__.py": {
        "    from .torus import SquareTorus as SquareTorus\n": "    from .star import Star as Star\n",
        '            ".torus": (': '            ".star": ("Star",),\n',
    },
    "routing/networks/by_name.py": {
        "from .torus import": "from .star import Star\n",
        '    "hypercube": Hypercube,\n': '    "star": Star,\n',
    },
    "tests/routing/test_networks.py": {
        '    "linear-array": (1, 2,': '    "star": (1, 2, 3, 8),\n',
    },
    "routing/choice.py": {
        '    "sparse",\n': '    "counting",\n',
        '    if isinstance(routing, str):\n        return SparseRouter': MAKE,
    },
}  # fmt: skip


def insert(path: Path, lines: Mapping[str, str]) -> None:
    text = path.read_text()
    for before, line in lines.items():
        assert text.count(before) == 1, (path, before)
        text = text.replace(before, line + before)
    path.write_text(text)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of this folder, with all that the recipes make."""
    assert len(PROGRAMS) == 7
    assert len(ENTRIES) == 2
    copy = tmp_path / "pybsp"
    shutil.copytree(ROOT, copy, symlinks=True, ignore=shutil.ignore_patterns(".*", "build", "__pycache__"))
    for name, program in PROGRAMS.items():
        (copy / name).write_text(program)
    for name, entry in ENTRIES.items():
        (copy / name).write_text((copy / name).read_text() + "\n" + entry)
    for name, lines in LINES.items():
        insert(copy / name, lines)
    return copy


@pytest.mark.whole
def test_the_recipes_work_as_they_stand(copy: Path) -> None:
    session = [sys.executable, "-m", "pytest", "-q", "--all", "-p", "no:xdist", "-p", "no:cacheprovider"]
    here = ["env", "-C", str(copy)]
    tests = [name for name in PROGRAMS if name.startswith("tests/")]
    printed = ended_well(run([*here, *session, "-rA", *tests]))
    assert [name for name in tests if f"PASSED {name}::" not in printed] == []
    layers = ["tests/test_layers.py", "tests/test_reference.py", "tests/routing/test_networks.py"]
    chosen = "shift or star or Star or ring or little or offer or up_or_around or in_the_reference"
    assert " passed" in ended_well(run([*here, *session, *layers, "-k", chosen]))
    on_ranks = [*mpiexec(3), *here, *session, "--with-mpi", "tests/spmd/test_counting.py"]
    assert "1 passed" in ended_well(run(on_ranks))


@pytest.mark.whole
def test_types_of_the_recipes_are_right(copy: Path) -> None:
    pytest.importorskip("mypy", reason="the extra dev is not installed")
    modules = [re.sub("^(collectives|routing)/", r"pybsp/\1/", name) for name in PROGRAMS]  # as they are imported
    ended_well(run(["env", "-C", str(copy), sys.executable, "-m", "mypy", *modules]))
