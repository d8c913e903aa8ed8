"""A GOAL file simulated, against the program that wrote it.

    python -m pybsp.benchmarks.studies.goal_schedules [-p 1024] [--messages 1000000] [--rounds 3] [--traffic ring]

Programs with a million messages (those of `logp_simulator`) are simulated, and their traces written as GOAL files. Then
each round takes in turn `simulate` of the program, and `Goal.load` and `Goal.simulate` of its file; medians. All of it
is timed: the file's text is read and looked at to its end each time. What the schedule simulates is compared: the
trace. Bar: reading and simulating together 10 times as fast as the program.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from pybsp import LogPMachine
from pybsp.compiled import goal as compiled
from pybsp.logp import Goal, simulate

from .frame import Study, timed
from .logp_simulator import all_to_all, hot_spots, random_dests, ring, scattered

BAR = 10.0


def compared(name: str, program: Callable[..., Any], args: tuple[Any, ...], machine: LogPMachine, rounds: int) -> Any:
    """A row: what the program takes, and what its file does."""
    with tempfile.TemporaryDirectory(prefix="pybsp-goal-") as folder:
        path = Path(folder, "program.goal")
        wrote = simulate(program, machine=machine, args=args)
        Goal.of(wrote.trace).save(path)
        taken = []
        for _ in range(rounds):
            done, seconds = timed(lambda: simulate(program, machine=machine, args=args))
            goal, loading = timed(lambda: Goal.load(path))
            again, playing = timed(partial(goal.simulate, machine))
            for column in ("source", "dest", "submission", "acceptance", "delivery", "acquisition"):
                if not np.array_equal(getattr(done.trace, column), getattr(again.trace, column)):
                    raise SystemExit(f"{name}: the schedule's {column} differs from the program's")
            taken.append((seconds, loading, playing, seconds / (loading + playing)))
        return (name, len(wrote.trace), path.stat().st_size / 1e6, *map(median, zip(*taken, strict=True)))


def main() -> None:
    """Print the table."""
    study = Study(__doc__, keep="--json", quick="few messages, in seconds")
    study.add_argument("-p", type=int, default=1024)
    study.add_argument("--messages", type=int, default=10**6)
    study.add_argument("--rounds", type=int, default=3)
    study.add_argument("--traffic", nargs="+", help="of these patterns alone; None: of all")
    options = study.begin()
    if min(options.messages, options.rounds) < 1 or options.p < 34:
        study.error("--messages and --rounds are whole numbers of at least 1, -p of at least 34")
    p, messages = (64, 6400) if options.quick else (options.p, options.messages)
    each = -(-messages // p)
    machine = LogPMachine(p, L=20, o=1, G=4, step=1e-6)
    patterns: list[tuple[str, Callable[..., None], tuple[Any, ...]]] = [
        ("all to all", all_to_all, (each,)),
        ("ring", ring, (each,)),
        ("random destinations", scattered, (random_dests(p, each),)),
        ("32 hot spots", hot_spots, (each * p // (p - 32) + 1, 32)),
        ("one hot spot", hot_spots, (each * p // (p - 1) + 1, 1)),
    ]
    names = [name for name, _, _ in patterns]
    if not set(options.traffic or names) <= set(names):
        study.error(f"--traffic: expected some of {', '.join(map(repr, names))}, got {' '.join(options.traffic)}")
    patterns = [pattern for pattern in patterns if pattern[0] in (options.traffic or names)]
    rows = [compared(*pattern, machine, options.rounds) for pattern in study.each(patterns)]
    head = "program | messages | file, MB [.0f] | program, s [.2f] | load, s [.2f] | simulate, s [.2f] | "
    head += "program / (load + simulate) [.1f]"
    how = "compiled" if compiled() is not None else "not compiled"
    study.rows("goal", f"GOAL files, {how}; wanted: {BAR:.0f} times", head, rows)
    study.end()


if __name__ == "__main__":
    main()
