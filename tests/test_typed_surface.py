"""The types are whole, seen from outside: pyright finds nothing in a user's program that has every public name."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

import pybsp
from pybsp import collectives, layouts, logp
from pybsp.collectives import baselines, ebsp

from .launching import run

ROOT = Path(__file__).parent.parent
PROGRAM = Path(__file__).parent / "typed" / "program.py"


def test_the_program_has_every_public_name() -> None:
    text = PROGRAM.read_text()
    modules = (pybsp, collectives, ebsp, baselines, layouts, logp)
    names = [f"{module.__name__.rpartition('.')[2]}.{name}" for module in modules for name in module.__all__]
    names.remove("pybsp.logp")
    assert [name for name in names if not re.search(rf"\b{re.escape(name)}\b", text)] == []


@pytest.mark.whole
def test_pyright_finds_nothing_in_it_in_strict_mode(tmp_path: Path) -> None:
    """By basedpyright, which is pyright with its own node: it needs no network."""
    pytest.importorskip("basedpyright", reason="the extra dev is not installed")
    # A folder of its own, in which pybsp is a package as in site-packages, through its links.
    (tmp_path / "installed").mkdir()
    (tmp_path / "installed" / "pybsp").symlink_to(ROOT / "pybsp")
    (tmp_path / "program.py").write_text(PROGRAM.read_text())
    options = {"include": ["program.py"], "extraPaths": ["installed"], "typeCheckingMode": "strict"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(options))
    checker = [sys.executable, "-m", "basedpyright", "--project", str(tmp_path), "--pythonpath", sys.executable]
    ended = run([*checker, "--outputjson"])
    found = json.loads(ended.out)
    problems = [f"{one['range']['start']['line'] + 1}: {one['message']}" for one in found["generalDiagnostics"]]
    assert (problems, found["summary"]["filesAnalyzed"]) == ([], 1)
