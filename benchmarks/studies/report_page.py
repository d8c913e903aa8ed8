"""The page of a long run: 10^5 supersteps of 64 processors, with a trace. How large it is, and how soon it is there.

    python -m pybsp.benchmarks.studies.report_page [--picture page.png]

Wanted: at most 5 MB, and opened in 2 s. The run is one on virtual processors, recorded and traced as any. The browser,
a headless Chromium where there is one, starts anew for each time that is taken: a blank page tells what of it the
browser's own beginning is; the difference is what the page takes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

import pybsp

from .frame import Study, in_turns, spread

MODULE = "pybsp.benchmarks.studies.report_page"
BYTES, SECONDS = 5e6, 2.0  # wanted
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def program(bsp: pybsp.BSP, supersteps: int) -> None:
    """Some dozen labels, words from each to some others, and computing that is uneven."""
    words = np.zeros(64)
    for step in range(supersteps):
        with bsp.superstep(f"phase {step * 12 // supersteps}" if step % 3 else "exchange"):
            bsp.work(1e4 * (1 + (bsp.pid + step) % bsp.p))
            if step % 16 == 0:
                bsp.send((bsp.pid + 1 + step // 16) % bsp.p, words)


def command(*arguments: str) -> None:
    """Run `pybsp`."""
    subprocess.run([sys.executable, "-m", "pybsp", *arguments], check=True)


def opened(browser: str, page: str, folder: str) -> float:
    """Seconds in which a browser starts, draws a page and ends."""
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/profile"]
    shot = [f"--screenshot={folder}/shot.png", "--window-size=1200,3000"]
    begin = time.perf_counter()
    subprocess.run([browser, *options, *shot, page], check=True, capture_output=True, timeout=120)
    return time.perf_counter() - begin


def main(arguments: Sequence[str] | None = None) -> None:
    study = Study(__doc__, keep="--json")
    study.add_argument("-p", type=int, default=64, help="processors")
    study.add_argument("--supersteps", type=int, default=100_000)
    study.add_argument("--rounds", type=int, default=7, help="of opening it")
    study.add_argument("--browser", default=next(filter(None, map(shutil.which, BROWSERS)), None))
    study.add_argument("--picture", metavar="FILE", help="keep a picture of the page, as .png")
    options = study.begin(arguments)
    with tempfile.TemporaryDirectory() as folder:
        source, ledger, page = (Path(folder, name) for name in ("program.py", "ledger.json", "page.html"))
        source.write_text(f"import pybsp\nfrom {MODULE} import program\npybsp.run(program, {options.supersteps})\n")
        files = ["--ledger", str(ledger), "--trace", str(Path(folder, "trace.json"))]
        command("simulate", "-p", str(options.p), *files, str(source))
        begin = time.perf_counter()
        command("report", str(ledger), "--html", str(page))
        wrote, size = time.perf_counter() - begin, page.stat().st_size
        study.tell(
            "page",
            {"bytes": size, "written [s]": wrote},
            f"{options.supersteps} supersteps, p = {options.p}: a ledger of {ledger.stat().st_size / 1e6:.1f} MB; "
            f"the page has {size / 1e6:.2f} MB ({'held' if size <= BYTES else 'not held'}), written in {wrote:.1f} s",
        )
        if options.browser is None:
            study.show("there is no Chromium here: how soon it opens was not measured")
        else:
            blank = Path(folder, "blank.html")
            blank.write_text("<!DOCTYPE html><title>blank</title>")
            found = in_turns(
                {
                    name: partial(opened, options.browser, place.as_uri(), folder)
                    for name, place in (("blank", blank), ("page", page))
                },
                options.rounds,
            )
            taken = np.subtract(found["page"], found["blank"])
            held = "held" if np.median(found["page"]) <= SECONDS else "not held"
            study.tell(
                "opened",
                found,
                f"opened and drawn, the browser's start and end included: {spread(found['page'])} s ({held}); a blank "
                f"page {spread(found['blank'])} s; the difference {spread(taken)} s",
            )
            if options.picture:
                opened(options.browser, page.as_uri(), folder)
                os.replace(Path(folder, "shot.png"), options.picture)
    study.end()


if __name__ == "__main__":
    main()
