"""The pages of docs/: programs run and print what stands below them, lines are short, every page is in the site."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

import pybsp
from pybsp import collectives
from pybsp.cli import main

from .launching import ended_well, mpiexec, python, run

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "docs").rglob("*.md"))
MARKDOWN = [*sorted(ROOT.glob("*.md")), *PAGES]  # beside them may be anything: an environment, notes


class Block(NamedTuple):
    """A program of a page, and what it prints on four processors, if the page says so."""

    page: str
    number: int
    code: str
    printed: str | None

    @property
    def kind(self) -> str:
        """How it is run: on virtual processors, on ranks alone, by itself, or by pytest."""
        if "start_ranks(" in self.code or "pybsp.ranks(" in self.code:
            return "script"
        return "pytest" if "import pytest" in self.code else "ranks" if "attach(" in self.code else "virtual"

    def write(self, folder: Path) -> Path:
        """The program as a file."""
        name = re.sub(r"\W", "_", self.page.removesuffix(".md"))
        path = folder / f"test_{name}_{self.number}.py"
        path.write_text(self.code)
        return path


def blocks_of(page: Path) -> list[Block]:
    """The page's programs; what one prints is in the block of text that follows before the next program."""
    found = re.findall(r"^```(python|text)\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)
    blocks: list[Block] = []
    for language, text in found:
        if language == "python":
            blocks.append(Block(str(page.relative_to(ROOT / "docs")), len(blocks), text, None))
        elif blocks and blocks[-1].printed is None and "pybsp: processor" not in text:
            blocks[-1] = blocks[-1]._replace(printed=text)
    return blocks


BLOCKS = [block for page in PAGES for block in blocks_of(page)]


def test_the_tour_has_every_call() -> None:
    tour = (ROOT / "docs" / "tutorial" / "tour.md").read_text()
    calls = [*dir(pybsp.BSP), *vars(pybsp.GlobalArray), *dir(collectives)]
    missing = [name for name in calls if not name.startswith("_") and not re.search(rf"\b{name}\b", tour)]
    assert missing == []


@pytest.mark.parametrize(
    "block",
    [block for block in BLOCKS if block.kind == "virtual"],
    ids=lambda block: f"{block.page}-{block.number}",
)
def test_a_program_of_a_page_runs_on_virtual_processors_and_prints_what_the_page_says(
    block: Block, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", sys.argv)
    monkeypatch.setattr(sys, "path", [*sys.path])
    path = block.write(tmp_path)
    assert main(["simulate", "-p", "4", str(path)]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    if block.printed is not None:
        assert printed.out.replace(str(path), "program.py") == block.printed


ON_RANKS = """
import contextlib, io, json, runpy, sys
from mpi4py import MPI

printed = []
for path in sys.argv[1:]:
    with contextlib.redirect_stdout(io.StringIO()) as text:
        runpy.run_path(path, run_name="__main__")
    printed.append(text.getvalue())
everywhere = MPI.COMM_WORLD.gather(printed)
if everywhere is not None:
    print(json.dumps(["".join(of_all) for of_all in zip(*everywhere)]))
"""


@pytest.mark.whole
def test_programs_that_call_run_print_the_same_on_ranks(tmp_path: Path) -> None:
    """All in one job of four ranks."""
    blocks = [b for b in BLOCKS if b.kind == "ranks" or "pybsp.run(" in b.code or "pybsp.logp.run(" in b.code]
    assert len(blocks) >= 8
    runner = tmp_path / "runner.py"
    runner.write_text(ON_RANKS)
    ended = run([*mpiexec(4), *python(runner, *[str(block.write(tmp_path)) for block in blocks])])
    for block, printed in zip(blocks, json.loads(ended_well(ended)), strict=True):
        if block.printed is not None:
            assert printed == block.printed, block.page


@pytest.mark.whole
@pytest.mark.parametrize("block", [block for block in BLOCKS if block.kind == "script"], ids=lambda block: block.page)
def test_a_program_of_a_page_that_starts_ranks_prints_what_the_page_says(block: Block, tmp_path: Path) -> None:
    assert ended_well(run(python(block.write(tmp_path)))) == block.printed


def test_tests_of_the_pages_pass(tmp_path: Path) -> None:
    files = [str(block.write(tmp_path)) for block in BLOCKS if block.kind == "pytest"]
    assert files
    printed = ended_well(
        run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "pybsp.pytest_plugin", *files])
    )
    assert re.search(r"^\d+ passed", printed, re.MULTILINE)


def test_every_step_of_the_tutorial_says_what_it_prints() -> None:
    tutorial = blocks_of(ROOT / "docs" / "tutorial" / "index.md")
    assert len(tutorial) >= 9
    assert all(block.printed for block in tutorial)


def test_lines_of_markdown_have_at_most_120_characters() -> None:
    lines = [(path, number, line) for path in MARKDOWN for number, line in enumerate(path.read_text().splitlines(), 1)]
    assert [f"{path.relative_to(ROOT)}:{number}" for path, number, line in lines if len(line) > 120] == []


def test_every_page_is_in_the_site_and_every_study_opens_with_its_claims() -> None:
    site = (ROOT / "mkdocs.yml").read_text()
    assert [str(page) for page in PAGES if f"- {page.relative_to(ROOT / 'docs')}\n" not in site] == []
    for page in (ROOT / "docs" / "studies").glob("*.md"):
        if page.name != "index.md":
            headings = re.findall(r"^## (.*)$", page.read_text(), re.MULTILINE)
            assert headings[0] == "Claims", page


def test_pages_that_are_named_exist() -> None:
    """In code, tests and the README: `docs/...md`."""
    folders = ("pybsp", "collectives", "routing", "benchmarks", "tests", "examples")
    files = [*ROOT.glob("*.md"), *(path for folder in folders for path in (ROOT / folder).rglob("*.py"))]
    assert len(files) > 300
    named = {(path, name) for path in files for name in re.findall(r"docs/[\w/-]+\.md", path.read_text())}
    assert {(str(path), name) for path, name in named if not (ROOT / name).exists()} == set()


@pytest.mark.whole
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    """A broken link, an unknown name of the reference, a page that no menu has: each is a warning, and so an error."""
    pytest.importorskip("mkdocs", reason="the extra docs is not installed")
    pytest.importorskip("mkdocstrings", reason="the extra docs is not installed")
    build = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--config-file", str(ROOT / "mkdocs.yml")]
    ended_well(run([*build, "--site-dir", str(tmp_path / "site")], NO_MKDOCS_2_WARNING="1"))
    assert (tmp_path / "site" / "reference" / "bsp.html").exists()
