"""How long `pybsp predict` takes for very many processors, one after the other in this process.

    python -m pybsp.benchmarks.studies.predicting [-p 1024] [--programs 'program.py ARGUMENTS' ...]

Wanted: under 60 s each for p = 1024 of PageRank, sample sort and LU.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import pybsp

from .frame import Study

SECONDS = 60.0  # wanted
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PROGRAMS = ("pagerank.py", "textbook/record_sort.py", "textbook/lu.py")
MACHINE = pybsp.BSPMachine(p=8, g=8e-9, l=2e-5, r=1e10, o_msg=1e-6)  # any


def main(arguments: Sequence[str] | None = None) -> None:
    study = Study(__doc__, keep="--json")
    study.add_argument("-p", type=int, nargs="+", default=[1024], help="processors")
    study.add_argument("--programs", nargs="+", help="each with its arguments in one word (default: the three)")
    options = study.begin(arguments)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        machine = str(Path(folder, "machine.json"))
        MACHINE.save(machine)
        for program in study.each(options.programs or [str(EXAMPLES / one) for one in PROGRAMS]):
            numbers = list(map(str, options.p))
            command = ["predict", "-p", *numbers, "--machine", machine, "--", *program.split()]
            begin = time.perf_counter()
            subprocess.run([sys.executable, "-m", "pybsp", *command], check=True, stdout=subprocess.DEVNULL)
            taken = time.perf_counter() - begin
            rows.append((Path(program.split()[0]).stem, " ".join(numbers), taken, "yes" if taken < SECONDS else "no"))
    study.rows("predicting", "pybsp predict", "program | p | seconds [.1f] | under 60 s", rows)
    study.end()


if __name__ == "__main__":
    main()
