"""python -m tests.mutants: draw mutants, try each, say what catches it.

The first run makes a map of which test reaches which line (minutes). The map and what has been tried are kept in
.mutants/, and a run that is stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import SimpleQueue

from . import reaching, trial
from .statements import ROOT, Mutant, drawn

EQUIVALENT = Path(__file__).parent / "equivalent.json"
KEPT = ROOT / ".mutants"
EQUAL = "equivalent"


@dataclass
class Row:
    """A mutant and what became of it."""

    file: str
    line: int
    before: str
    after: str
    caught: str
    by: str = ""
    reached: int = 0
    seconds: float = 0.0


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__.split("\n")[0])
    parser.add_argument("--number", type=int, default=150, help="mutants to try")
    parser.add_argument("--seed", type=int, default=1, help="of the drawing")
    parser.add_argument("--fast", action="store_true", help="try the fast tier alone")
    parser.add_argument("--workers", type=int, default=2, help="mutants, and parts of the map, at a time")
    parser.add_argument("--again", action="store_true", help="try again what survived")
    parser.add_argument("--map", action="store_true", help="make the map anew")
    parser.add_argument("--json", type=Path, help="where the outcomes are kept (.mutants/seed-S.json)")
    return parser.parse_args()


def main() -> None:
    chosen = options()
    path = chosen.json or KEPT / f"seed-{chosen.seed}.json"
    KEPT.mkdir(exist_ok=True)
    known = KEPT / "map.json"
    if chosen.map:
        known.unlink(missing_ok=True)
    reaching.make(known, chosen.workers)
    mutants = drawn(chosen.number, chosen.seed)
    rows = {key(row): row for row in (Row(**row) for row in (json.loads(path.read_text()) if path.exists() else []))}
    equal = {(case["file"], case["before"], case["after"]) for case in json.loads(EQUIVALENT.read_text())}
    open_cases = []
    for mutant in mutants:
        name = (mutant.file, mutant.line, mutant.after)
        if (mutant.file, mutant.before.strip(), mutant.after.strip()) in equal:
            rows[name] = Row(*mutant, EQUAL)
        elif name not in rows or (rows[name].caught in (trial.SURVIVED, EQUAL) and (chosen.again or not chosen.fast)):
            open_cases.append(mutant)
    tests, fast = reaching.Map(known), trial.fast_tier()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(chosen.workers) as pool:
        copies: SimpleQueue[trial.Copy] = SimpleQueue()
        for number in range(chosen.workers):
            copies.put(trial.Copy(Path(folder) / str(number), fast))

        def one(mutant: Mutant) -> None:
            copy = copies.get()
            try:
                row = Row(*mutant, *copy.tried(mutant, tests, not chosen.fast))
            finally:
                copies.put(copy)
            rows[key(row)] = row
            kept = path.with_suffix(f".{os.getpid()}")
            kept.write_text(json.dumps([asdict(row) for row in list(rows.values())], indent=1))
            kept.replace(path)
            print(f"{row.caught:10} {row.seconds:6.1f} s  {mutant.name}  {row.by}", flush=True)

        list(pool.map(one, open_cases))
    report([rows[mutant.file, mutant.line, mutant.after] for mutant in mutants])


def key(row: Row) -> tuple[str, int, str]:
    return row.file, row.line, row.after


def report(rows: list[Row]) -> None:
    """The table, and what survived."""
    count = Counter(row.caught for row in rows)
    caught = count[trial.FAST] + count[trial.WHOLE]
    for row in rows:
        if row.caught == trial.SURVIVED:
            print(f"\n{row.file}:{row.line} ({row.reached} tests reach it)\n- {row.before}\n+ {row.after}")
    print()
    for what in (trial.FAST, trial.WHOLE, trial.SURVIVED, EQUAL):
        print(f"{what:10} {count[what]:5}")
    if caught:
        print(f"the fast tier catches {count[trial.FAST] / caught:.1%} of what the whole catches")
        print(f"the whole catches {caught / (len(rows) - count[EQUAL]):.1%} of those that are not equivalent")


if __name__ == "__main__":
    main()
