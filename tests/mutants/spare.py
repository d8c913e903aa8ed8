"""python -m tests.mutants.spare LOG: tests that take long and reach nothing that many others do not reach too.

LOG is what `python -m pytest --durations=0 --durations-min=0.005` printed. Such tests are left to the whole tier, the
longest first; what is left counts. The map is that of `python -m tests.mutants`.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter, defaultdict
from pathlib import Path

from .__main__ import KEPT
from .reaching import IMPORT, STARTERS

TOOK = re.compile(r"\s*([\d.]+)s (?:call|setup|teardown)\s+(tests/[^\[\s]+)")

Line = tuple[str, int]


def seconds_of(log: str) -> dict[str, float]:
    """By test, all its cases together."""
    took: dict[str, float] = defaultdict(float)
    for seconds, test in TOOK.findall(log):
        took[test] += float(seconds)
    return took


def lines_of(path: Path) -> dict[str, set[Line]]:
    """By test, what its cases reach; one that runs on ranks too is another there."""
    reached: dict[str, set[Line]] = defaultdict(set)
    for part in json.loads(path.read_text()).values():
        for file, tests in part.items():
            for case, lines in tests.items():
                if case != IMPORT:
                    reached[case.partition("[")[0]].update((file, line) for line in lines)
    return reached


def spare(took: dict[str, float], reached: dict[str, set[Line]], others: int, least: float) -> list[tuple[str, float]]:
    """Those that take so many seconds, each line of which so many others reach that stay."""
    staying = Counter(line for lines in reached.values() for line in lines)
    found = []
    for test, seconds in sorted(took.items(), key=lambda item: item[1], reverse=True):
        lines = reached.get(test, set())
        if seconds < least or not lines or test.startswith(STARTERS):
            continue
        if all(staying[line] > others for line in lines):
            staying.subtract(lines)
            found.append((test, seconds))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.spare", description=__doc__.split("\n")[0])
    parser.add_argument("log", type=Path, help="with durations")
    parser.add_argument("--others", type=int, default=6, help="that reach each line too")
    parser.add_argument("--least", type=float, default=0.45, help="seconds that a test takes")
    chosen = parser.parse_args()
    found = spare(
        seconds_of(chosen.log.read_text(errors="replace")), lines_of(KEPT / "map.json"), chosen.others, chosen.least
    )
    for test, seconds in found:
        print(f"{seconds:6.2f}  {test}")
    print(f"{sum(seconds for _, seconds in found):6.1f} s of {len(found)} tests")


if __name__ == "__main__":
    main()
