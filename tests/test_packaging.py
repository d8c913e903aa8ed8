"""What docs/howto/packaging.md says: scripts with their needs run under uv, and the recipes' commands are some."""

from __future__ import annotations

import configparser
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pybsp.transport.launcher import look_beside

from .launching import ended_well, run

CHECKOUT = Path(__file__).parents[1]
PAGE = (CHECKOUT / "docs" / "howto" / "packaging.md").read_text()


def tool(name: str) -> str:
    """A command beside this Python or on PATH; empty where there is none."""
    return shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name) or ""


def block(kind: str) -> str:
    """The page's only block of a language."""
    (text,) = re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return str(text)


def setup() -> configparser.ConfigParser:
    found = configparser.ConfigParser()
    found.read(CHECKOUT / "setup.cfg")
    return found


@pytest.mark.whole
@pytest.mark.skipif(not tool("uv"), reason="uv is not installed")
def test_a_script_with_its_needs_runs_under_uv_and_finds_the_launcher(tmp_path: Path) -> None:
    if not (CHECKOUT / ".git").exists():
        pytest.skip("no clone")
    subprocess.run(["git", "clone", "--quiet", str(CHECKOUT), str(tmp_path / "pybsp")], check=True)
    (tmp_path / "program.py").write_text(block("python"))
    commands = re.findall(r"`uv (run [^`]*program\.py)`", PAGE.replace("\n", " "))
    assert len(commands) == 2
    printed = []
    for command in commands:
        # The library is uv's, and none that the tests have.
        start = ["env", "-C", str(tmp_path), "-u", "PYTHONPATH", "-u", "VIRTUAL_ENV", tool("uv")]
        printed.append(sorted(re.findall(r"\d", ended_well(run([*start, *shlex.split(command)])))))
    assert printed == [["0", "1"], sorted("0123" + "4" * 4)]


@pytest.mark.parametrize("own", [False, True])
def test_in_layers_the_library_beside_mpi4py_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: bool
) -> None:
    lower, upper = tmp_path / "lower", tmp_path / "upper"
    module = lower / "lib" / "python3.12" / "site-packages" / "mpi4py" / "__init__.py"
    module.parent.mkdir(parents=True)
    (upper / "lib").mkdir(parents=True)
    for layer in (lower, upper)[: 1 + own]:
        (layer / "lib" / "libmpi.so.12").touch()
    monkeypatch.setattr(sys, "prefix", str(upper))
    monkeypatch.setattr(os, "environ", {})
    look_beside(module)
    assert os.environ == ({} if own else {"MPI4PY_LIBMPI": str(lower / "lib")})


@pytest.mark.whole
def test_the_recipes_install_what_there_is() -> None:
    extras, scripts = setup()["options.extras_require"], setup()["options.entry_points"]["console_scripts"]
    docker, apptainer = block("dockerfile"), block("ini")
    installs = re.findall(r"^(?:RUN|  *)\s*(pip .*)$", docker + apptainer, re.MULTILINE)
    assert len(installs) == 2
    for command in installs:
        pip, install, *options, source = shlex.split(command)
        (extra,) = re.findall(r"^/src\[(\w+)\]$", source)
        assert (pip, install) == ("pip", "install")
        assert extra in extras
        # Without something to install, pip tells of options that it does not know, or of what it lacks.
        said = run([sys.executable, "-m", "pip", install, *options]).err
        assert "You must give at least one requirement" in said, said
    assert "pybsp =" in scripts
    assert 'ENTRYPOINT ["pybsp"]' in docker
    assert 'exec pybsp "$@"' in apptainer


def test_advice_names_projects_that_pybsp_needs_or_can_use_and_not_itself() -> None:
    """Which are on PyPI, where pybsp is not."""
    needs = [setup()["options"]["install_requires"], *setup()["options.extras_require"].values()]
    known = {re.split(r"[ ;<>=~!]", line)[0] for text in needs for line in text.split("\n") if line}
    for folder in ("pybsp", "collectives", "routing", "benchmarks"):
        for source in (CHECKOUT / folder).rglob("*.py"):
            advised = re.findall(r"pip install ([\w'][^\s;,)\"]*)", source.read_text())
            assert set(advised) <= known, source


def test_the_recipe_for_docker_is_one() -> None:
    lines = block("dockerfile").splitlines()
    assert [line.split()[0] for line in lines] == ["FROM", "COPY", "RUN", "ENV", "WORKDIR", "ENTRYPOINT"]
    assert re.fullmatch(r"FROM python:3\.\d+-slim", lines[0])  # a version, not what is newest on some day


@pytest.mark.skipif(not tool("hadolint"), reason="hadolint is not installed")
def test_the_recipe_for_docker_is_linted(tmp_path: Path) -> None:
    recipe = tmp_path / "Dockerfile"
    recipe.write_text(block("dockerfile"))
    assert ended_well(run([tool("hadolint"), str(recipe)])) == ""


def test_the_recipes_are_alike() -> None:
    docker, apptainer = block("dockerfile"), block("ini")
    sections = re.findall(r"^%(\w+)$", apptainer, re.MULTILINE)
    assert sections == ["files", "post", "environment", "runscript"]
    (image,) = re.findall(r"^FROM (.*)$", docker, re.MULTILINE)
    (header,) = re.findall(r"^From: (.*)$", apptainer, re.MULTILINE)
    assert header == image
    assert re.findall(r"OMP_NUM_THREADS=\d+", docker) == re.findall(r"OMP_NUM_THREADS=\d+", apptainer)
