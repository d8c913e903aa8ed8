"""Notebooks, in a kernel of Jupyter: those of examples/notebooks/, and what pybsp says there."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed (extra test)")
nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed (extra test)")
pytest.importorskip("ipykernel", reason="ipykernel is not installed (extra test)")

# What a kernel of Jupyter itself warns of is no concern of ours.
pytestmark = [pytest.mark.whole, pytest.mark.timeout(200), pytest.mark.filterwarnings("default")]

EXAMPLES = sorted((Path(__file__).parent.parent / "examples" / "notebooks").glob("*.ipynb"))


def client_of(notebook: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What executes a notebook in a kernel of this Python."""
    spec = folder / "kernels" / "pybsp"
    spec.mkdir(parents=True)
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (spec / "kernel.json").write_text(json.dumps({"argv": command, "display_name": "", "language": "python"}))
    monkeypatch.setenv("JUPYTER_PATH", str(folder))
    monkeypatch.setenv("IPYTHONDIR", str(folder / "ipython"))
    return nbclient.NotebookClient(notebook, kernel_name="pybsp", timeout=120)


def executed(notebook: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What each cell with code prints and shows."""
    client_of(notebook, folder, monkeypatch).execute()
    return outputs(notebook)


def outputs(notebook: Any) -> list[str]:
    return [
        "".join(one.get("text", "") or one.get("data", {}).get("text/plain", "") for one in cell.outputs)
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


def cells(*sources: str) -> Any:
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_notebooks_of_the_examples_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = nbformat.read(path, 4)
    nbformat.validate(notebook)
    assert not any(cell.get("outputs") for cell in notebook.cells), "clear its outputs"
    printed = "".join(executed(notebook, tmp_path, monkeypatch))
    assert len(re.findall(r"^3\.141593 on ", printed, re.MULTILINE)) == 2
    assert "the variance is right" in printed
    assert "[1] processor 1 of 2\n" in printed
    assert "raised: a point outside of the circle" in printed


def test_a_kernel_shows_progress_tells_that_it_is_alone_and_shows_lines_of_cells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, alone, failing, lines = executed(
        cells(
            """
            import time, IPython.display, pybsp
            shown = []
            display = IPython.display.display
            def watched(content, **options):
                handle = display(content, **options)
                update = handle.update
                def noted(content, **options):
                    shown.append(content["text/plain"])
                    update(content, **options)
                handle.update = noted
                return handle
            IPython.display.display = watched
            def main(bsp):
                for k in range(40):
                    with bsp.superstep("slow"):
                        time.sleep(0.1)
            with pybsp.ranks(2) as ranks:
                ranks.run(main)
            print(shown[-2], "...", repr(shown[-1]))
            """.replace("\n            ", "\n"),
            "print(pybsp.run(lambda bsp: bsp.p)); pybsp.run(lambda bsp: bsp.p)",
            "def hot(bsp):\n    raise ValueError('too hot')  # here",
            "try:\n    pybsp.start_ranks(hot, n=1)\nexcept ValueError as error:\n    print(error.__cause__)",
        ),
        tmp_path,
        monkeypatch,
    )
    assert re.search(r"^2 processors, \d+\.\d s, superstep \d+( to \d+)? \(slow\) \.\.\. ''$", slow, re.MULTILINE), slow
    assert (
        alone.count("pybsp.run: one processor, as no launcher has started this notebook; pybsp.start_ranks(main") == 1
    )
    assert failing == ""
    assert "raise ValueError('too hot')  # here" in lines


def test_an_interrupt_of_the_kernel_ends_the_ranks_and_the_next_cell_has_new_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the kernel manager, as the square of Jupyter's toolbar does."""
    mark = tmp_path / "processes"
    notebook = cells(
        f"""
import os, time, pybsp
def main(bsp):
    with open({str(mark)!r}, "a") as file:
        file.write(f"{{os.getpid()}}\\n")
    time.sleep(600)
ranks = pybsp.ranks(2)
try:
    ranks.run(main)
except KeyboardInterrupt:
    print("interrupted")
""",
        "print(ranks.run(lambda bsp: bsp.pid).results); ranks.close()",
    )
    client = client_of(notebook, tmp_path, monkeypatch)

    def interrupt() -> None:
        while len(processes()) < 2:
            time.sleep(0.05)
        asyncio.run(client.km.interrupt_kernel())

    def processes() -> list[str]:
        return mark.read_text().split() if mark.exists() else []

    thread = threading.Thread(target=interrupt, daemon=True)
    thread.start()
    client.execute()
    assert outputs(notebook) == ["interrupted\n", "[0, 1]\n"]
    assert not any(Path(f"/proc/{process}").exists() for process in processes())
