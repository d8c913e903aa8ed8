"""python -m tests.model: see the package's text."""

from __future__ import annotations

import argparse
import sys
import time

from .machine import CELLS, Explored
from .mutants import MUTANTS, rank_of
from .worlds import QUICK, explored, larger

LARGER = 2 * CELLS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.model", description="Explore the model of the exchanges.")
    parser.add_argument("--ranks", type=int, help="ranks of larger worlds than the tests'")
    parser.add_argument("--exchanges", type=int, default=3, help="their exchanges (default: 3)")
    parser.add_argument("--says", default="quiet,data", help="what may be said, of protocol.py's (default: quiet,data)")
    parser.add_argument("--raises", type=int, default=0, help="exceptions in an exchange (default: 0)")
    parser.add_argument("--limit", type=int, default=20_000_000, help="states of a world, at most (default: 20000000)")
    parser.add_argument("--mutants", action="store_true", help="explore the wrong protocols instead")
    chosen = parser.parse_args()
    if chosen.mutants:
        missed = 0
        for mutant in MUTANTS:
            found = explored(QUICK[mutant.world], rank_of(mutant))
            missed += not found.wrong
            print(f"{mutant.wrong}: {found.states} states: {found.wrong or 'NOT FOUND'}")
        print(f"{len(MUTANTS) - missed} of {len(MUTANTS)} mutants are found")
        return missed
    says = tuple(chosen.says.split(","))
    worlds = QUICK if chosen.ranks is None else larger(chosen.ranks, chosen.exchanges, says, chosen.raises)
    wrong = 0
    for name, world in worlds.items():
        began = time.perf_counter()
        try:
            found = explored(world, limit=chosen.limit, cells=LARGER if chosen.ranks else CELLS)
        except MemoryError as error:
            print(f"{name}: {error}: not explored to the end", flush=True)
            continue
        wrong += bool(found.wrong)
        print(f"{name}: {_summary(found)}, {time.perf_counter() - began:.1f} s", flush=True)
        if found.wrong:
            print("\n".join(f"    {line}" for line in [*found.trace, found.wrong]))
    return wrong


def _summary(found: Explored) -> str:
    return f"{found.states} states, {found.ends} ends, {found.aborts} of them aborted jobs"


if __name__ == "__main__":
    sys.exit(main())
