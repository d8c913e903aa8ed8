"""What is installed: one top-level package, which works without the checkout; and what it exports."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pytest

import pybsp

from .launching import mpiexec, python, run

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    ended = run([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(folder), str(ROOT)], 240)
    assert ended.code == 0, ended.err
    (made,) = folder.glob("*.whl")
    return made


@pytest.mark.whole
def test_wheel_holds_exactly_one_top_level_package(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"pybsp"}
    for part in ("py.typed", "routing/sparse.py", "collectives/__init__.py", "benchmarks/calibration/command.py"):
        assert f"pybsp/{part}" in names
    assert not [name for name in names if "/studies/" in name or "/against_mpi/" in name]


@pytest.mark.whole
def test_wheel_works_outside_the_checkout(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    target = ["--no-deps", "--quiet", "--target", str(site)]
    ended = run([sys.executable, "-m", "pip", "install", *target, str(wheel)], 120)
    assert ended.code == 0, ended.err
    program = tmp_path / "program.py"
    program.write_text(
        "import pybsp\n"
        "def main(bsp):\n"
        "    bsp.send(0, 1)\n"
        "    bsp.sync()\n"
        "    return sum(m.payload for m in bsp.inbox)\n"
        "if pybsp.run(main) == 3:\n"
        "    print(pybsp.__file__)\n"
    )
    for command in (
        [*mpiexec(3), *python(program)],
        [sys.executable, "-m", "pybsp", "simulate", "-p", "3", str(program)],
    ):
        ended = run(["env", "-C", str(tmp_path), *command], PYTHONPATH=str(site))
        assert ended.code == 0, ended.err
        assert ended.out.strip() == str(site / "pybsp" / "__init__.py"), ended.out + ended.err


def test_all_public_names_are_exported_and_documented() -> None:
    names = vars(pybsp)["__all__"]
    assert sorted(names) == sorted(set(names))
    for name in names:
        thing = getattr(pybsp, name)
        assert name == "__version__" or thing.__doc__, f"{name} has no docstring"


def test_importing_pybsp_does_not_initialise_mpi() -> None:
    code = "import sys, pybsp; sys.exit('mpi4py.MPI' in sys.modules)"
    assert run([sys.executable, "-c", code]).code == 0


def test_the_version_is_the_same_wherever_it_stands() -> None:
    citation = dict(line.split(": ", 1) for line in (ROOT / "CITATION.cff").read_text().splitlines() if ": " in line)
    assert citation["version"] == pybsp.__version__
    headings = [line for line in (ROOT / "CHANGELOG.md").read_text().splitlines() if line.startswith("## ")]
    released = [heading for heading in headings if heading != "## Unreleased"]
    assert released[0] == f"## {pybsp.__version__} ({citation['date-released']})"
