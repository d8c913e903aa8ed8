"""Ranks on which one run after the other is left by an exception, each at another point, and a good run follows each.

    mpiexec -n 3 python -m tests.faults.points REPORT ERROR --router direct --every 10 --seed 1

One rank, the *victim*, counts the points of a small program that uses all that exchanges. Then each point is a case:
the victim raises there; all ranks catch what comes of it outside of `pybsp.run`; and the same program runs once more,
with other numbers, whose results and kept views are checked. A line is written to the file REPORT before each case,
and one after it. A job that was ended goes on, in another, behind the case that ended it (--first).

With --failing another rank fails in each of those runs, and the points are those at which the victim learns of it: a
second exception while all meet because of a first.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import random
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from mpi4py import MPI

import pybsp
from pybsp import collectives, logp

from .injection import InjectedError, Point, Tracer

TEXT = "injected by a test"
FIRST = "the first failure"
RAISES: dict[str, Callable[[], BaseException]] = {
    "raise": partial(InjectedError, TEXT),
    "exit": partial(SystemExit, 143),  # as of a handler of SIGTERM
    "interrupt": partial(KeyboardInterrupt, TEXT),
}
SAYS = {"raise": TEXT, "exit": "SystemExit: 143", "interrupt": TEXT}
LARGE = 30_000  # words
CASE = "-- a case"  # what the victim prints as one begins
KEPT = 4  # rounds whose views are kept

Views = list[tuple[Any, float]]  # and what is in them


class Outcome(NamedTuple):
    """Of a run on one rank: what it raised, if it did, and whether its result was right."""

    error: str  # the class
    text: str
    right: bool
    fired: bool
    pid: int  # of a ProcessorError


def program(bsp: pybsp.BSP, number: float, views: Views, failing: int = -1) -> list[float]:
    """All that exchanges; what it sends has the number of the run. One processor may fail in the middle."""
    p, pid = bsp.p, bsp.pid
    mine = number + pid
    queue = bsp.queue(np.float64)
    array = bsp.array(p + 1)
    array.local[p] = mine
    bsp.sync()
    found = [bsp.restore(-1.0)]
    total = collectives.allreduce.start(bsp, mine, np.add)
    owners = array.pattern(np.arange(p), p)
    for dest in range(p):
        bsp.send(dest, mine, tag="small")
        bsp.send(dest, np.full(LARGE, mine), tag="large")
        bsp.room(dest, 400, tag="room")[:] = mine
    queue.send(np.arange(p), np.full(p, mine))
    array.put((pid + 1) % p, mine, at=pid)
    ticket = array.get((pid + 1) % p, at=p)
    if pid == failing:
        raise InjectedError(FIRST)
    bsp.sync()
    for message in bsp.inbox:
        found.append(float(np.sum(message.payload)))
        if message.tag != "small":
            views.append((message.payload, number + message.source))
    found += [*queue.values.tolist(), *array.local.tolist(), *np.ravel(ticket.value).tolist()]
    with bsp.split(pid % 2) as part:
        part.send((part.pid + 1) % part.p, (mine, bytes(3000)))
        part.sync()
        found += [message.payload[0] for message in part.inbox]
    values = owners.get()
    bsp.send((pid + 1) % p, np.full(LARGE, mine))
    bsp.begin()
    bsp.end()
    found += [float(np.sum(message.payload)) for message in bsp.inbox]
    found += [*values.value.tolist(), total.finish()]
    bsp.send((pid + 1) % p, np.full(4, mine))
    bsp.sync()
    for message in bsp.inbox:
        found.append(float(np.sum(message.payload)))
        views.append((message.payload, number + message.source))
    with bsp.superstep("quiet"):
        pass
    found.append(len(bsp.ledger) > 4)
    found.append(collectives.allreduce(bsp, mine, np.add))
    found.append(collectives.allreduce(bsp.grid(1, p).row, mine, np.add))
    bsp.checkpoint(mine)
    return found


def expected(p: int, pid: int, number: float) -> list[float]:
    """What `program` returns."""
    mine, before, behind = number + pid, number + (pid - 1) % p, number + (pid + 1) % p
    found: list[float] = [-1.0]
    for source in range(p):
        found += [number + source, (number + source) * LARGE, (number + source) * 400]
    found += [number + source for source in range(p)]
    local = [0.0] * (p + 1)
    local[(pid - 1) % p] = before
    found += [*local[:p], mine, behind]
    part = [other for other in range(p) if other % 2 == pid % 2]
    found.append(number + part[(part.index(pid) - 1) % len(part)])
    each = [number + source for source in range(p)]
    return [*found, before * LARGE, *each, sum(each), 4 * before, True, sum(each), sum(each)]


def logp_program(proc: Any, number: float, views: Views, failing: int = -1) -> list[float]:
    """The same of LogP: short messages and long ones, to all and from all."""
    mine = number + proc.pid
    found = []
    for _ in range(2):
        for step in range(1, proc.p):
            dest = (proc.pid + step) % proc.p
            proc.send(dest, mine)
            proc.send(dest, np.full(LARGE, mine))
            proc.send(dest, (mine, bytes(3000)))
        if proc.pid == failing:
            raise InjectedError(FIRST)
        for _ in range(3 * (proc.p - 1)):
            message = proc.recv()
            value = message.payload[0] if isinstance(message.payload, tuple) else message.payload
            if isinstance(value, np.ndarray):
                views.append((value, number + message.source))
            found.append(float(np.sum(value)))
        proc.compute(3)
    return sorted(found)


def logp_expected(p: int, pid: int, number: float) -> list[float]:
    """What `logp_program` returns."""
    others = [number + source for source in range(p) if source != pid]
    return sorted(2 * [value for other in others for value in (other, other * LARGE, other)])


class Cases:
    """Of one rank; `run` runs a program, whose result `expected` has."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._comm = MPI.COMM_WORLD.Dup()  # not pybsp's: what is compared here does not depend on it
        self._p, self._pid, self._victim = self._comm.size, self._comm.rank, options.victim
        self._options = options
        self._number = 0.0
        self._views: list[Views] = []

    def all(self) -> None:
        options = self._options
        assert self._run(None).right
        counting = Tracer()
        assert self._run(counting).right
        counted = counting.points(options.visits)
        if options.failing >= 0:
            learning = Tracer()
            assert self._run(learning, options.failing).error
            assert self._run(None).right
            counted = sorted({*learning.points(options.visits)} - {*counted})
        points: list[Point] = self._comm.bcast(counted, root=self._victim)
        chosen = random.Random(options.seed).sample(range(len(points)), -(-len(points) // options.every))
        if options.only:
            chosen = [k for k, point in enumerate(points) if str(point) in options.only]
        if self._pid == self._victim:
            self._say(points=len(points), cases=len(chosen))
        for case, k in enumerate(sorted(chosen)):
            if case >= options.first:
                self._case(case, points[k])

    def _case(self, case: int, point: Point) -> None:
        if self._pid == self._victim:
            self._say(case=case, point=str(point))
            print(CASE, file=sys.stderr, flush=True)
        faulthandler.dump_traceback_later(self._options.stacks)  # where it hangs
        tracer = Tracer(point, RAISES[self._options.error])
        outcomes = self._gathered(self._run(tracer if self._pid == self._victim else None, self._options.failing))
        after = self._gathered(self._run(None))
        if self._pid == self._victim:
            self._say(case=case, outcome=self._judge(outcomes, after))

    def _judge(self, outcomes: list[Outcome], after: list[Outcome]) -> str:
        """In a word; or what is wrong."""
        if not all(one.right for one in after):
            return f"wrong: the next run: {after}; after {outcomes}"
        one = outcomes[self._victim]
        if self._options.failing >= 0:
            first = all(FIRST in outcome.text or TEXT in outcome.text for outcome in outcomes)
            return f"wrong: {outcomes}" if not first else "recovered" if one.fired else "not reached"
        others = [other for pid, other in enumerate(outcomes) if pid != self._victim]
        well = all(other.right for other in others)
        says = SAYS[self._options.error]
        if not one.fired:
            return "not reached" if one.right and well else f"wrong: {outcomes}"
        if well:
            return "absorbed" if one.right else "known to one" if says in one.text else f"wrong: {outcomes}"
        learned = all(
            other.error == "ProcessorError"
            and other.pid == self._victim
            and (says in other.text or "GeneratorExit" in other.text)  # before a `with` could tell its context
            for other in others
        )
        if says in one.text and learned:
            return "recovered"
        return f"wrong: {outcomes}"

    def _run(self, tracer: Tracer | None, failing: int = -1) -> Outcome:
        """A run of the next number, with a tracer where this is the victim, in which one processor may fail."""
        self._number += 1000.0
        number, options = self._number, self._options
        views: Views = []
        fails = tracer is not None and self._pid == self._victim
        try:
            with tracer if fails and tracer is not None else nullcontext():
                if options.router == "logp.run":
                    result = logp.run(logp_program, number, views, failing)
                else:
                    folder = f"{options.report}-checkpoints"
                    result = pybsp.run(
                        program, number, views, failing, router=options.router, checkpoint=folder, every=1
                    )
        except BaseException as error:
            chain: list[str] = []
            next_one: BaseException | None = error
            while next_one is not None:  # what was raised may be the cause of what came
                chain.append(f"{type(next_one).__name__}: {next_one}")
                next_one = next_one.__cause__ or next_one.__context__
            pid = getattr(error, "pid", -1)
            fired = tracer is not None and tracer.fired
            return Outcome(type(error).__name__, " < ".join(chain), False, fired, pid)
        wanted = (logp_expected if options.router == "logp.run" else expected)(self._p, self._pid, number)
        self._views = [*self._views, views][-KEPT:]
        kept = all((view == value).all() for one in self._views for view, value in one)
        text = "" if result == wanted and kept else f"got {result}, expected {wanted}; views as they were: {kept}"
        return Outcome("", text, not text, tracer is not None and tracer.fired, -1)

    def _gathered(self, outcome: Outcome) -> list[Outcome]:
        barrier = self._comm.Ibarrier()
        while not barrier.Test():  # politely: there are more ranks than cores
            time.sleep(1e-3)
        return self._comm.allgather(outcome)

    def _say(self, **what: Any) -> None:
        with open(self._options.report, "a") as report:
            report.write(json.dumps(what) + "\n")


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("report")
    parser.add_argument("error", choices=RAISES)
    parser.add_argument("--router", default="direct")
    parser.add_argument("--victim", type=int, default=0)
    parser.add_argument("--failing", type=int, default=-1, help="another rank, which fails in every case")
    parser.add_argument("--visits", type=int, default=2)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--stacks", type=float, default=15.0, help="seconds after which a case prints its stacks")
    parser.add_argument("--only", action="append", help='points, as "pybsp/bsp.py:100, visit 1"')
    Cases(parser.parse_args(arguments)).all()


if __name__ == "__main__":
    main(sys.argv[1:])
