"""The LogP examples on the simulated machine: the steps that each takes, and how many of them processors stall.

    python -m pybsp.benchmarks.studies.logp_examples [-p 16 64 256]

On the nominal machine (`LogPMachine.nominal`), under the schedule "latest". The examples lie beside the checkout's
folder `benchmarks`; an installed pybsp has none.
"""

from __future__ import annotations

import contextlib
import io
import runpy
from pathlib import Path

from pybsp import LogPMachine
from pybsp.logp import Program, simulate

from .frame import Study, cells, table

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "logp"
# What a column is called, the example, and the arguments of its main.
COLUMNS: tuple[tuple[str, str, tuple[int | bool, ...]], ...] = (
    ("broadcast", "broadcast", ()),
    ("summation of 1000", "summation", (1000,)),
    ("all-to-all, staggered", "all_to_all", ()),
    ("obvious", "all_to_all", (True,)),
    ("ring", "ring", ()),
    ("stencil, 256 points, 50 time steps", "stencil", (256, 50)),
    ("many to one, 4 each", "many_to_one", (4,)),
)


def main() -> None:
    """Print the table."""
    study = Study(__doc__)
    study.add_argument("-p", type=int, nargs="+", default=[16, 64, 256], help="processors")
    options = study.begin()
    if not EXAMPLES.is_dir():
        study.error(f"there is no folder {EXAMPLES}; run it from a checkout")
    programs: dict[str, Program] = {
        name: runpy.run_path(str(EXAMPLES / f"{name}.py"))["main"] for name in {example for _, example, _ in COLUMNS}
    }
    rows = []
    for p in study.each(options.p):
        found = []
        for _, example, arguments in COLUMNS:
            with contextlib.redirect_stdout(io.StringIO()):  # what the example says
                done = simulate(programs[example], machine=LogPMachine.nominal(p), args=arguments)
            done._check()
            found.append(f"{done.time} ({done.stalled})")
        rows.append(cells((p, *found)))
    study.show(table("steps (of them stalled, all processors)", cells(("p", *(name for name, _, _ in COLUMNS))), rows))


if __name__ == "__main__":
    main()
