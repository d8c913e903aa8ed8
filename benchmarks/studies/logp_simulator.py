"""How long the LogP simulator takes: a million messages on 1024 processors, and random programs with every invariant.

    python -m pybsp.benchmarks.studies.logp_simulator [-p 1024] [--messages 1000000] [--programs 10000]

prints seconds for each pattern of traffic, with what was simulated and how long the check of its trace took; then
seconds for so many random programs on random machines, each checked against all invariants of the model.
"""

from __future__ import annotations

import platform
import random
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pybsp import LogPMachine
from pybsp.errors import DeadlockError, UnreceivedError
from pybsp.logp import Processor, simulate
from pybsp.logp.schedule import SCHEDULES

from .frame import Study, table, timed

BAR = 60.0  # seconds for a million messages on 1024 processors


def all_to_all(proc: Processor, count: int) -> None:
    """One message after the other, to all others in turn, each acquired soon."""
    for k in range(count):
        proc.send((proc.pid + 1 + k % (proc.p - 1)) % proc.p, k)
        proc.recv()


def ring(proc: Processor, count: int) -> None:
    """A message to the next processor, when one has come from the one before."""
    for k in range(count):
        proc.send((proc.pid + 1) % proc.p, k)
        proc.recv()


def scattered(proc: Processor, dests: NDArray[np.int64]) -> None:
    """Random destinations, dests[pid] this processor's: some stall now and then."""
    to_come = int((dests == proc.pid).sum())
    for dest in dests[proc.pid].tolist():
        proc.send(dest, proc.time)
        while to_come and proc.recv(until=proc.time):
            to_come -= 1
    for _ in range(to_come):
        proc.recv()


def random_dests(p: int, count: int) -> NDArray[np.int64]:
    """Other processors, shape (p, count)."""
    dests = np.random.default_rng(1).integers(p - 1, size=(p, count))
    return dests + (dests >= np.arange(p)[:, None])


def hot_spots(proc: Processor, count: int, spots: int) -> None:
    """All others send to a few that receive: the medium accepts one a gap for each, and nearly all stall."""
    if proc.pid < spots:
        for _ in range(count * len(range(spots + proc.pid, proc.p, spots))):
            proc.recv()
    else:
        for k in range(count):
            proc.send(proc.pid % spots, k)


def random_program(seed: int) -> tuple[LogPMachine, list[list[tuple[Any, ...]]], list[int]]:
    """A random machine, a list of operations for each of its processors, and times to start at.

    An operation is the name of a method and its arguments; "until" is recv until so many steps from then.
    """
    draw = random.Random(seed)
    p, G = draw.randint(2, 8), draw.choice((2, 2, 3, 5))
    machine = LogPMachine(p, L=draw.randint(G, G * draw.choice((1, 1, 2, 4))), o=draw.randint(0, G), G=G)
    programs: list[list[tuple[Any, ...]]] = [[] for _ in range(p)]
    most_to = draw.randrange(p)
    for pid, operations in enumerate(programs):
        for _ in range(draw.randint(0, 12)):
            kind = draw.random()
            if kind < 0.6:
                dest = most_to if kind < 0.3 and pid != most_to else (pid + draw.randrange(1, p)) % p
                operations.append(("send", dest))
            elif kind < 0.7:
                operations.append(("compute", draw.randint(0, 9)))
            elif kind < 0.85:
                operations.append(("poll",))
            else:
                operations.append(("until", draw.randint(-2, 2 * machine.L)))
    starts = [draw.randint(0, 20) if draw.random() < 0.3 else 0 for _ in range(p)]
    # In the end most receive what may still come; a few wait for a message that perhaps never comes, or for none.
    for pid, operations in enumerate(programs):
        to_come = sum(operation == ("send", pid) for others in programs for operation in others)
        operations += [("until", 200)] * to_come
        if draw.random() < 0.02:
            operations.insert(draw.randint(0, len(operations)), ("recv",))
    return machine, programs, starts


def interpret(proc: Processor, programs: Sequence[Sequence[tuple[Any, ...]]]) -> list[Any]:
    """Execute a processor's operations; after each, what it received, and the time."""
    seen: list[Any] = []
    for count, (name, *arguments) in enumerate(programs[proc.pid]):
        got: Any = None
        if name == "send":
            proc.send(arguments[0], (proc.pid, count))
        elif name == "until":
            got = proc.recv(until=proc.time + arguments[0])
        else:
            got = getattr(proc, name)(*arguments)
        seen.append((got and tuple(got), proc.time))
    return seen


def random_programs(count: int, first: int = 0) -> Counter[str]:
    """Execute random programs, each by one schedule, and check all invariants; how many did what."""
    seen: Counter[str] = Counter()
    for seed in range(first, first + count):
        machine, programs, starts = random_program(seed)
        schedule = SCHEDULES[seed % len(SCHEDULES)]
        try:
            done = simulate(
                interpret, machine=machine, schedule=schedule, seed=seed, starts=starts, kwargs={"programs": programs}
            )
        except (DeadlockError, UnreceivedError) as error:
            seen[type(error).__name__] += 1
            continue
        done._check()
        seen["ended"] += 1
        seen["stalled"] += done.stalled > 0
        seen["messages"] += len(done.trace)
    return seen


def main() -> None:
    study = Study(__doc__)
    study.add_argument("-p", type=int, default=1024)
    study.add_argument("--messages", type=int, default=10**6)
    study.add_argument("--programs", type=int, default=10**4)
    options = study.begin()
    p, each = options.p, -(-options.messages // options.p)
    machine = LogPMachine(p, L=20, o=1, G=4)
    dests = random_dests(p, each)
    patterns: list[tuple[str, Callable[..., None], tuple[Any, ...], str]] = [
        *(("all to all", all_to_all, (each,), schedule) for schedule in SCHEDULES),
        ("ring", ring, (each,), "latest"),
        *(("random dests", scattered, (dests,), schedule) for schedule in SCHEDULES),
        ("32 hot spots", hot_spots, (each * p // (p - 32) + 1, 32), "latest"),
        *(("one hot spot", hot_spots, (each * p // (p - 1) + 1, 1), schedule) for schedule in SCHEDULES),
    ]
    rows = []
    for name, program, args, schedule in study.each(patterns):
        done, seconds = timed(partial(simulate, program, machine=machine, schedule=schedule, args=args))
        _, checked = timed(done._check)
        rows.append((name, schedule, len(done.trace), done.time, done.stalled / 1e6, seconds, checked))
    title = f"{p} processors, L = {machine.L}, o = {machine.o}, G = {machine.G}; wanted: {BAR:.0f} s; "
    where = f"{platform.processor() or platform.machine()}, Python {platform.python_version()}"
    head = "traffic | schedule | messages | steps | stalled/10^6 [.1f] | seconds [.1f] | check, s [.1f]"
    study.show(table(title + where, head, rows))
    seen, seconds = timed(lambda: random_programs(options.programs))
    what = ", ".join(f"{name} {number}" for name, number in sorted(seen.items()))
    study.show(f"{options.programs} random programs: {seconds:.1f} s, every invariant held ({what})")


if __name__ == "__main__":
    main()
