"""The programs of cases.py on pybsp alone, one after the other in one run, for its ledger.

pybsp run -n 2 --ledger ledger.json benchmarks/programs/alone.py [--quick]
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import pybsp


def main(bsp: pybsp.BSP, quick: bool) -> None:
    """Run each of them once; their labels are their own."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the checkout, which has the examples
    from mpi4py import MPI

    from pybsp.benchmarks.programs.cases import cases

    for case in cases(bsp, MPI.COMM_WORLD, quick):
        case.ours()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="The programs, on pybsp alone.")
    parser.add_argument("--quick", action="store_true", help="small inputs")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    pybsp.run(main, parser.parse_args().quick)
