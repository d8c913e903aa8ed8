"""The LogP examples on the simulated machine: the steps that each takes, and how many of them processors stall.

    python -m pybsp.benchmarks.studies.logp_examples [-p 16 64 256]

On the nominal machine (`LogPMachine.nominal`), under the schedule "latest". The examples lie beside the checkout's
folder `benchmarks`; an installed pybsp has none.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import runpy
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from pybsp import LogPMachine
from pybsp.logp import Program, simulate

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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-p", type=int, nargs="+", default=[16, 64, 256], help="processors (default 16 64 256)")
    options = parser.parse_args()
    if not EXAMPLES.is_dir():
        sys.exit(f"logp_examples: there is no folder {EXAMPLES}; run it from a checkout")
    programs: dict[str, Program] = {
        name: runpy.run_path(str(EXAMPLES / f"{name}.py"))["main"] for name in {example for _, example, _ in COLUMNS}
    }
    table = Table(title="steps (of them stalled, all processors)")
    for name in ("p", *(column for column, _, _ in COLUMNS)):
        table.add_column(name, justify="right")
    for p in options.p:
        machine = LogPMachine.nominal(p)
        row = []
        for _, example, arguments in COLUMNS:
            with contextlib.redirect_stdout(io.StringIO()):  # what the example says
                done = simulate(programs[example], machine=machine, args=arguments)
            done._check()
            row.append(f"{done.time} ({done.stalled})")
        table.add_row(f"{p}", *row)
    Console(width=None if sys.stdout.isatty() else 160).print(table)


if __name__ == "__main__":
    main()
