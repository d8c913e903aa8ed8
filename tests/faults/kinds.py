"""Kinds of faults, and the outcome that is stated for each.

A fault inside of a run is a function of the machine (`pybsp.BSP` or a LogP processor) on all processors; one of them,
the victim, fails. Each is tried twice: nobody catches what comes of it, and it ends the job as its outcome says; and
all processors catch it outside of the run, and the next run is right (those with `recovers`).

Other faults are of the whole job: functions without arguments, called on all ranks.
"""

from __future__ import annotations

import atexit
import inspect
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import pybsp
from pybsp import collectives, logp
from pybsp.transport import arena, window
from pybsp.transport.memory import BufferPool
from pybsp.transport.pipe import Pipe

from .outcomes import ENDS, GOES_ON, GOES_ON_QUIETLY, Outcome, fails

VICTIM = 1
WORDS = 20_000
ROUTER = os.environ.get("FAULTS_ROUTER", "direct")
RANK = int(os.environ.get("PMI_RANK") or os.environ.get("OMPI_COMM_WORLD_RANK") or 0)
BOOM = "ValueError: boom"

Fault = Callable[..., Any]


class Kind(NamedTuple):
    """A kind of fault.

    inside: of a run; else of the job.
    recovers: whether the processors can catch it and go on; of those inside.
    media: "all"; "bsp": not LogP's runs; "messages": where data is received into memory of the processor.
    times: how often it is caught, one run after the other.
    """

    name: str
    fault: Fault
    outcome: Outcome
    inside: bool
    recovers: bool
    media: str
    times: int = 1


KINDS: dict[str, Kind] = {}


def inside(
    name: str, outcome: Outcome, recovers: bool = True, media: str = "all", times: int = 1
) -> Callable[[Fault], Fault]:
    """A fault inside of a run."""

    def add(fault: Fault) -> Fault:
        KINDS[name] = Kind(name, fault, outcome, True, recovers, media, times)
        return fault

    return add


def of_the_job(name: str, outcome: Outcome, media: str = "all") -> Callable[[Fault], Fault]:
    """A fault outside of a run, or of more than one."""

    def add(fault: Fault) -> Fault:
        KINDS[name] = Kind(name, fault, outcome, False, False, media)
        return fault

    return add


# -- what programs do -----------------------------------------------------------------------------------------------


def run(main: Fault, *args: Any) -> Any:
    """A run over what the medium has."""
    return logp.run(main, *args) if ROUTER == "logp.run" else pybsp.run(main, *args, router=ROUTER)


def meet(machine: Any, payload: Any) -> Any:
    """All send something to the next processor, and get what the one before sends."""
    machine.send((machine.pid + 1) % machine.p, payload)
    if ROUTER == "logp.run":
        return machine.recv().payload
    machine.sync()
    return machine.inbox[0].payload


def good(machine: Any, number: float) -> None:
    """A program whose results are checked."""
    before = (machine.pid - 1) % machine.p
    for step in range(3):
        got = meet(machine, np.full(WORDS, number + step + machine.pid))
        assert got.size == WORDS
        assert (got == number + step + before).all(), (got, number, step)
        assert meet(machine, ("small", number, machine.pid)) == ("small", number, before)


def others_meet_the_victim(machine: Any) -> bool:
    """Supersteps before a fault; whether this is the victim."""
    for step in range(2):
        meet(machine, np.full(WORDS, step + 0.5))
    return bool(machine.pid == VICTIM)


def while_it_waits(machine: Any, act: Callable[[], Any]) -> None:
    """The victim acts, from a thread, while it waits in an exchange for the others."""
    flag = Path(tempfile.gettempdir()) / f"{os.environ['FAULTS_MARK']}-acted"
    flag.unlink(missing_ok=True)
    if others_meet_the_victim(machine):

        def later() -> None:
            time.sleep(0.2)  # it is in the exchange by then, as a rule; what comes of it does not depend on it
            act()
            flag.touch()

        threading.Thread(target=later, daemon=True).start()
    else:
        until = time.monotonic() + 60
        while not flag.exists() and time.monotonic() < until:
            time.sleep(0.01)
    for _ in range(3):
        meet(machine, np.ones(WORDS))


def boom(*_: Any) -> Any:
    raise ValueError("boom")


# -- exceptions -----------------------------------------------------------------------------------------------------


@inside("raise, computing", fails(BOOM))
def _(machine: Any) -> None:
    if others_meet_the_victim(machine):
        boom()
    meet(machine, 1)


@inside("raise, before anything is exchanged", fails(BOOM))
def _(machine: Any) -> None:
    if machine.pid == VICTIM:
        boom()
    meet(machine, np.ones(WORDS))


@inside("raise, with messages unsent", fails(BOOM))
def _(machine: Any) -> None:
    victim = others_meet_the_victim(machine)
    machine.send((machine.pid + 1) % machine.p, np.full(WORDS, 66.6))
    if victim:
        boom()
    if ROUTER == "logp.run":
        machine.recv()
    else:
        machine.sync()
    meet(machine, 1)


@inside("raise, on all", fails(BOOM))
def _(machine: Any) -> None:
    others_meet_the_victim(machine)
    boom()


@inside("raise, on all but one", fails(BOOM))
def _(machine: Any) -> None:
    if not others_meet_the_victim(machine):
        boom()
    meet(machine, 1)
    meet(machine, 1)


@inside("raise, on the last one alone, as the others end", fails(BOOM))
def _(machine: Any) -> None:
    if others_meet_the_victim(machine):
        boom()


class Explodes:
    """Fails when it is pickled."""

    def __reduce__(self) -> Any:
        raise ValueError("boom")


class ExplodesThere:
    """Fails when it is unpickled."""

    def __reduce__(self) -> Any:
        return boom, ()


@inside("raise, pickling", fails(r"(pybsp\.errors\.UsageError|ValueError)"))
def _(machine: Any) -> None:
    if others_meet_the_victim(machine):
        meet(machine, Explodes())
    meet(machine, 1)


@inside("raise, unpickling at the receiver", fails(BOOM))
def _(machine: Any) -> None:
    others_meet_the_victim(machine)
    meet(machine, ExplodesThere() if machine.pid == (VICTIM - 1) % machine.p else np.full(WORDS, 66.6))
    meet(machine, np.full(WORDS, 66.6))


@inside("raise, in the handler of a timer", fails(BOOM))
def _(machine: Any) -> None:
    signal.signal(signal.SIGALRM, boom)
    while_it_waits(machine, lambda: os.kill(os.getpid(), signal.SIGALRM))


@inside("raise, in the handler of a fast timer", fails(BOOM))
def _(machine: Any) -> None:
    signal.signal(signal.SIGALRM, boom)
    if machine.pid == VICTIM:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
    until = time.monotonic() + 60
    while time.monotonic() < until:
        meet(machine, np.ones(WORDS))


@inside("SIGTERM with a handler that exits, waiting", fails("SystemExit: 143"))
def _(machine: Any) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    while_it_waits(machine, lambda: os.kill(os.getpid(), signal.SIGTERM))


@inside("SIGTERM with a handler that exits, computing", fails("SystemExit: 143"))
def _(machine: Any) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if others_meet_the_victim(machine):
        os.kill(os.getpid(), signal.SIGTERM)
    meet(machine, 1)


@inside("SIGTERM to all, with a handler that exits", Outcome("ends non-zero", False, None))
def _(machine: Any) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    others_meet_the_victim(machine)
    os.kill(os.getpid(), signal.SIGTERM)
    meet(machine, 1)


@inside("raise, between begin and end", fails(BOOM), media="bsp")
def _(bsp: pybsp.BSP) -> None:
    victim = others_meet_the_victim(bsp)
    bsp.send((bsp.pid + 1) % bsp.p, np.full(WORDS, 66.6))
    bsp.begin()
    if victim:
        boom()
    bsp.end()
    bsp.sync()


@inside("begin without end", fails(r"pybsp\.errors\.(UsageError|SyncError)"), media="bsp")
def _(bsp: pybsp.BSP) -> None:
    victim = others_meet_the_victim(bsp)
    bsp.begin()
    if not victim:
        bsp.end()


@inside("raise, entering a split", fails(r"pybsp\.errors\.UsageError"), media="bsp")
def _(bsp: pybsp.BSP) -> None:
    color: Any = [] if others_meet_the_victim(bsp) else 0
    with bsp.split(color) as part:
        part.sync()


@inside("raise, in the body of a split", fails(BOOM), media="bsp")
def _(bsp: pybsp.BSP) -> None:
    victim = others_meet_the_victim(bsp)
    with bsp.split(0) as part:
        meet(part, np.ones(WORDS))
        if victim:
            boom()
        meet(part, np.ones(WORDS))


@inside("raise, in a part, where others are in another", fails(BOOM), media="bsp")
def _(bsp: pybsp.BSP) -> None:
    victim = others_meet_the_victim(bsp)
    with bsp.split(bsp.pid % 2) as part:
        meet(part, np.ones(WORDS))
        if victim:
            boom()
        meet(part, np.ones(WORDS))
    bsp.sync()


@inside("raise, leaving a split", fails(r"pybsp\.errors\.UsageError"), media="bsp")
def _(bsp: pybsp.BSP) -> None:
    victim = others_meet_the_victim(bsp)
    with bsp.split(0) as part:
        part.sync()
        if victim:
            part.send(0, 1)


@inside("raise, in the op of a collective", fails(BOOM), media="bsp")
def _(bsp: pybsp.BSP) -> None:
    victim = others_meet_the_victim(bsp)

    def op(one: float, other: float) -> float:
        if victim:
            boom()
        return one + other

    collectives.allreduce(bsp, float(bsp.pid), op)
    if victim:  # an algorithm in which others combine
        boom()
    collectives.allreduce(bsp, float(bsp.pid), np.add)


@inside("raise, at the argument of a collective", fails(r"pybsp\.errors\."), media="bsp")
def _(bsp: pybsp.BSP) -> None:
    collectives.broadcast(bsp, 1, root=99 if others_meet_the_victim(bsp) else 0)
    bsp.sync()


@inside("raise, with a collective started", fails(BOOM), media="bsp")
def _(bsp: pybsp.BSP) -> None:
    victim = others_meet_the_victim(bsp)
    total = collectives.allreduce.start(bsp, np.full(WORDS, 66.6), np.add)
    meet(bsp, np.ones(WORDS))
    if victim:
        boom()
    total.finish()


def _fails_in_a_pipe(bsp: pybsp.BSP, root: int, method: str) -> None:
    """The victim fails when some pieces of a broadcast have gone through the pipe."""
    whole = getattr(Pipe, method)

    def some(of: Pipe, *arguments: Any) -> None:
        *where, data = arguments
        whole(of, *where, data[: len(data) // 3])
        boom()

    victim = others_meet_the_victim(bsp)
    if victim:
        setattr(Pipe, method, some)
    try:
        collectives.broadcast(bsp, np.full(100 * WORDS, 66.6), root)
    finally:
        setattr(Pipe, method, whole)
    if victim:  # where they do not all meet on one board
        boom()
    bsp.sync()


@inside("raise, sending through a pipe", fails(BOOM), media="bsp")
def _(bsp: pybsp.BSP) -> None:
    _fails_in_a_pipe(bsp, VICTIM, "send")


@inside("raise, receiving through a pipe", fails(BOOM), media="bsp")
def _(bsp: pybsp.BSP) -> None:
    _fails_in_a_pipe(bsp, 1 - VICTIM, "receive")


def explodes_at(victim: bool, one: Any, other: Any) -> Any:
    """The op of a collective that fails on one processor."""
    if victim:
        boom()
    return one + other


@inside("raise, in the op of a started collective", fails(BOOM), media="bsp")
def _(bsp: pybsp.BSP) -> None:
    victim = others_meet_the_victim(bsp)
    total = collectives.allreduce.start(bsp, float(bsp.pid), partial(explodes_at, victim))
    meet(bsp, np.ones(WORDS))
    total.finish()
    if victim:  # an algorithm in which others combine
        boom()
    meet(bsp, 1)


@inside("raise, in a collective of a grid's row", fails(BOOM), media="bsp")
def _(bsp: pybsp.BSP) -> None:
    victim = others_meet_the_victim(bsp)
    row = bsp.grid(1, bsp.p).row
    collectives.allreduce(row, np.full(WORDS, 66.6), np.add)
    collectives.allreduce(row, float(bsp.pid), partial(explodes_at, victim))
    if victim:  # an algorithm in which others combine
        boom()
    collectives.allreduce(row, float(bsp.pid), np.add)


@inside("raise, between a grid's collectives", fails(BOOM), media="bsp")
def _(bsp: pybsp.BSP) -> None:
    victim = others_meet_the_victim(bsp)
    grid = bsp.grid(bsp.p, 1)
    collectives.broadcast(grid.column, np.full(WORDS, 66.6))
    if victim:
        boom()
    collectives.allgather(grid.column, bsp.pid)
    bsp.sync()


@inside("raise, with values of a pattern under way", fails(BOOM), media="bsp")
def _(bsp: pybsp.BSP) -> None:
    array = bsp.array(bsp.p)
    bsp.sync()
    pattern = array.pattern(np.arange(bsp.p), bsp.pid)
    victim = others_meet_the_victim(bsp)
    pattern.put(np.full(bsp.p, 66.6), op=np.add)
    values = pattern.get()
    if victim:
        boom()
    bsp.sync()
    values.value.sum()


@inside("raise, in the op of a pattern", fails(r"pybsp\.errors\.UsageError"), media="bsp")
def _(bsp: pybsp.BSP) -> None:
    array = bsp.array(bsp.p)
    bsp.sync()
    pattern = array.pattern(np.arange(bsp.p), bsp.pid)
    victim = others_meet_the_victim(bsp)
    pattern.put(np.full(bsp.p, 66.6), op="no such op" if victim else np.add)  # type: ignore[arg-type]
    bsp.sync()


@inside("raise, on two at once", fails(BOOM))
def _(machine: Any) -> None:
    others_meet_the_victim(machine)
    if machine.pid <= VICTIM:
        boom()
    meet(machine, 1)


@inside("raise, and another exception on those that learn of it", fails(BOOM))
def _(machine: Any) -> None:
    try:
        if others_meet_the_victim(machine):
            boom()
        for _ in range(3):
            meet(machine, np.ones(WORDS))
    except pybsp.ProcessorError as error:
        raise KeyError("a second exception") from error


@inside(
    "raise, and again in a timer's handler while the others are told",
    Outcome("ends non-zero, with one traceback", False, BOOM),
    recovers=False,
)
def _(machine: Any) -> None:
    signal.signal(signal.SIGALRM, lambda *_: Explodes().__reduce__())
    if others_meet_the_victim(machine):
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        boom()
    time.sleep(1)
    meet(machine, 1)


@inside("raise, at the bounds of an array", fails(r"pybsp\.errors\.BoundsError"), media="bsp")
def _(bsp: pybsp.BSP) -> None:
    array = bsp.array(5)
    victim = others_meet_the_victim(bsp)
    ticket = array.get(0, at=99 if victim else 1)
    bsp.sync()
    ticket.value.sum()
    bsp.sync()


@inside("raise, in a labelled superstep", fails(BOOM), media="bsp")
def _(bsp: pybsp.BSP) -> None:
    victim = others_meet_the_victim(bsp)
    with bsp.superstep("exchange"):
        if victim:
            boom()
    bsp.sync()


@inside("raise, and a sync in `finally`", fails(BOOM), media="bsp")
def _(bsp: pybsp.BSP) -> None:
    victim = others_meet_the_victim(bsp)
    try:
        if victim:
            boom()
        bsp.sync()
    finally:
        bsp.sync()
    bsp.sync()


@inside("an error that the program swallows", fails(BOOM), media="bsp")
def _(bsp: pybsp.BSP) -> None:
    if others_meet_the_victim(bsp):
        boom()
    with suppress(pybsp.BSPError):
        bsp.sync()


@dataclass(frozen=True)
class FrozenError(Exception):
    """Refuses attributes."""

    why: str


class MuteError(Exception):
    """Cannot say what it is."""

    def __str__(self) -> str:
        raise ValueError("no words")


class OwnBaseError(BaseException):
    """No Exception."""


SAME = ValueError("boom")


@inside("raise, an exception that refuses attributes", fails(r"tests\.faults\.kinds\.FrozenError"))
def _(machine: Any) -> None:
    if others_meet_the_victim(machine):
        raise FrozenError("boom")
    meet(machine, 1)


@inside("raise, an exception that cannot say what it is", fails(r"tests\.faults\.kinds\.MuteError"))
def _(machine: Any) -> None:
    if others_meet_the_victim(machine):
        raise MuteError
    meet(machine, 1)


@inside("raise, a BaseException", fails(r"tests\.faults\.kinds\.OwnBaseError: boom"))
def _(machine: Any) -> None:
    if others_meet_the_victim(machine):
        raise OwnBaseError("boom")
    meet(machine, 1)


@inside("raise, StopIteration", fails("(StopIteration|RuntimeError)"))
def _(machine: Any) -> None:
    if others_meet_the_victim(machine):
        raise StopIteration("boom")
    meet(machine, 1)


@inside("raise, one with ten million characters", fails(r"ValueError: boom"))
def _(machine: Any) -> None:
    if others_meet_the_victim(machine):
        raise ValueError("boom" + "!" * 10_000_000)
    meet(machine, 1)


@inside("raise, the same exception in one run after the other", fails(BOOM), times=2)
def _(machine: Any) -> None:
    if others_meet_the_victim(machine):
        raise SAME
    meet(machine, 1)


room_left = 3  # frames of the stack, when the victim syncs; more each time


@inside("raise, on a full stack", fails("RecursionError"), media="bsp", times=30)
def _(bsp: pybsp.BSP) -> None:
    def deeper(frames: int) -> None:
        if frames:
            deeper(frames - 1)
        else:
            bsp.send((bsp.pid + 1) % bsp.p, np.ones(10))
            bsp.sync()

    global room_left
    victim = others_meet_the_victim(bsp)
    room_left += 1
    if victim:
        deeper(sys.getrecursionlimit() - len(inspect.stack(0)) - room_left)
        raise RecursionError("room enough")
    for _ in range(3):
        bsp.sync()


@inside("memory, computing", fails("(numpy.*MemoryError|MemoryError)"))
def _(machine: Any) -> None:
    if others_meet_the_victim(machine):
        limits = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (1 << 33, limits[1]))
        try:
            np.ones(1 << 40)
        finally:
            resource.setrlimit(resource.RLIMIT_AS, limits)
    meet(machine, 1)


@inside("memory, receiving", fails("MemoryError"), media="messages")
def _(machine: Any) -> None:
    taken = BufferPool.take

    def take(pool: BufferPool, size: int) -> Any:
        if size >= 8 * WORDS:
            raise MemoryError
        return taken(pool, size)

    victim = others_meet_the_victim(machine)
    machine.send((machine.pid + 1) % machine.p, np.full(WORDS, 66.6))
    if victim:
        BufferPool.take = take  # type: ignore[method-assign, assignment]
    try:
        meet(machine, 1)
        meet(machine, 1)
    finally:
        BufferPool.take = taken  # type: ignore[method-assign]


# -- exits ------------------------------------------------------------------------------------------------------------


@inside("sys.exit with 0", fails("SystemExit: 0"))
def _(machine: Any) -> None:
    if others_meet_the_victim(machine):
        sys.exit(0)
    meet(machine, 1)


@inside("sys.exit with a number", fails("SystemExit: 3"))
def _(machine: Any) -> None:
    if others_meet_the_victim(machine):
        sys.exit(3)
    meet(machine, 1)


@inside("sys.exit with a text", fails("SystemExit: bad input"))
def _(machine: Any) -> None:
    if others_meet_the_victim(machine):
        sys.exit("bad input")
    meet(machine, 1)


@inside("sys.exit on all alike", Outcome("an ordinary end, with that status", False, ""))
def _(machine: Any) -> None:
    others_meet_the_victim(machine)
    sys.exit(5)


@inside("ends early", fails(r"pybsp\.errors\.(SyncError|DeadlockError|UnreceivedError)"))
def _(machine: Any) -> None:
    if not others_meet_the_victim(machine):
        meet(machine, 1)
        meet(machine, 1)


@inside("syncs where others split", fails(r"pybsp\.errors\.SyncError"), media="bsp")
def _(bsp: pybsp.BSP) -> None:
    if others_meet_the_victim(bsp):
        bsp.sync()
    else:
        bsp.split(0).__enter__()


@inside("registers something else", fails(r"pybsp\.errors\.SyncError"), media="bsp")
def _(bsp: pybsp.BSP) -> None:
    bsp.array(3, np.int32 if others_meet_the_victim(bsp) else np.float64)
    bsp.sync()


@inside("os._exit with a number", ENDS, recovers=False)
def _(machine: Any) -> None:
    if others_meet_the_victim(machine):
        os._exit(3)
    meet(machine, 1)


@inside("os._exit with 0", ENDS, recovers=False)
def _(machine: Any) -> None:
    if others_meet_the_victim(machine):
        os._exit(0)
    meet(machine, 1)


@inside("abort", ENDS, recovers=False, media="bsp")
def _(bsp: pybsp.BSP) -> None:
    if others_meet_the_victim(bsp):
        bsp.abort("no such thing")
    bsp.sync()


@inside("raise, and the others never come", fails(BOOM), recovers=False)
def _(machine: Any) -> None:
    if others_meet_the_victim(machine):
        boom()
    time.sleep(1000)


# -- signals ----------------------------------------------------------------------------------------------------------


def _signals() -> None:
    for number, outcome in (
        (signal.SIGINT, Outcome("the job ends, with at most one traceback", False, None)),
        (signal.SIGTERM, ENDS),
        (signal.SIGKILL, ENDS),
    ):

        def computing(machine: Any, number: int = number) -> None:
            if others_meet_the_victim(machine):
                os.kill(os.getpid(), number)
                time.sleep(1000)
            meet(machine, 1)

        def waiting(machine: Any, number: int = number) -> None:
            while_it_waits(machine, lambda: os.kill(os.getpid(), number))

        inside(f"{number.name}, computing", outcome, recovers=False)(computing)
        inside(f"{number.name}, waiting", outcome, recovers=False)(waiting)


_signals()


@inside("SIGSTOP, and SIGCONT later", GOES_ON_QUIETLY, recovers=False)
def _(machine: Any) -> None:
    if others_meet_the_victim(machine):
        subprocess.Popen(["/bin/sh", "-c", f"sleep 1; kill -CONT {os.getpid()}"])
        os.kill(os.getpid(), signal.SIGSTOP)
    good(machine, 1.0)


# -- of the job -------------------------------------------------------------------------------------------------------


@of_the_job("raise, in the second run", fails(BOOM))
def _() -> None:
    run(good, 1.0)
    run(KINDS["raise, computing"].fault)


@of_the_job("raise, between two runs", fails(BOOM))
def _() -> None:
    run(good, 1.0)
    if RANK == VICTIM:
        boom()
    run(good, 2.0)


@of_the_job("sys.exit between two runs", fails(r"pybsp\.errors\.SyncError"))
def _() -> None:
    run(good, 1.0)
    if RANK == VICTIM:
        sys.exit(3)
    run(good, 2.0)


@of_the_job("falls off the end early", fails(r"pybsp\.errors\.SyncError"))
def _() -> None:
    run(good, 1.0)
    if RANK != VICTIM:
        run(good, 2.0)


@of_the_job("sys.exit before the first run", Outcome("ends non-zero, with at most one traceback", False, None))
def _() -> None:
    if RANK == VICTIM:
        sys.exit("no such file")
    run(good, 1.0)


@of_the_job("sys.exit, 0, before the first run", Outcome("ends non-zero, with at most one traceback", False, None))
def _() -> None:
    if RANK == VICTIM:
        sys.exit(0)
    run(good, 1.0)


@of_the_job("raise, in atexit", GOES_ON)
def _() -> None:
    if RANK == VICTIM:
        atexit.register(boom)
    run(good, 1.0)


@of_the_job("sys.exit in atexit", Outcome("goes on: all results are right", None, None, well=True))
def _() -> None:
    if RANK == VICTIM:
        atexit.register(sys.exit, 3)
    run(good, 1.0)


@of_the_job("raise, in another thread", GOES_ON)
def _() -> None:
    def main(machine: Any) -> None:
        if others_meet_the_victim(machine):
            thread = threading.Thread(target=boom)
            thread.start()
            thread.join()
        good(machine, 1.0)

    run(main)


@of_the_job("os.fork, and sys.exit in the child", GOES_ON_QUIETLY)
def _() -> None:
    def main(machine: Any) -> None:
        if others_meet_the_victim(machine) and os.fork() == 0:
            sys.exit(3)
        good(machine, 1.0)

    run(main)
    run(good, 2.0)


@of_the_job("os.fork after mpi4py began MPI, sys.exit in the child", GOES_ON_QUIETLY)
def _() -> None:
    from mpi4py import MPI

    assert MPI.Is_initialized()
    KINDS["os.fork, and sys.exit in the child"].fault()


@of_the_job("a subprocess that imports pybsp fails", GOES_ON)
def _() -> None:
    def main(machine: Any) -> None:
        if others_meet_the_victim(machine):
            done = subprocess.run([sys.executable, "-c", "import pybsp; 1 // 0"], capture_output=True, timeout=60)
            assert done.returncode == 1, done
            assert b"ZeroDivisionError" in done.stderr, done
        good(machine, 1.0)

    run(main)


@of_the_job("the disk is full where the ledger goes", GOES_ON_QUIETLY, media="bsp")
def _() -> None:
    os.environ["PYBSP_LEDGER"] = "/dev/full"
    run(good, 1.0)


@of_the_job("no folder where the ledger goes", fails(r"pybsp\.errors\.UsageError: PYBSP_LEDGER"), media="bsp")
def _() -> None:
    os.environ["PYBSP_LEDGER"] = "/nonexistent/ledger.json"
    run(good, 1.0)


@of_the_job("a run in a run", fails(r"pybsp\.errors\.UsageError"))
def _() -> None:
    run(lambda machine: run(good, 1.0))


def saving(state: Callable[[bool], Any], act: Callable[[], Any] = bool) -> None:
    """A run that saves twice: the victim acts in between, and its second state is another one."""

    def main(bsp: pybsp.BSP) -> None:
        bsp.restore(0)
        others_meet_the_victim(bsp)
        bsp.checkpoint(np.full(WORDS, bsp.pid))
        victim = others_meet_the_victim(bsp)
        if victim:
            act()
        bsp.checkpoint(state(victim))
        meet(bsp, 1)

    folder = Path(tempfile.gettempdir()) / f"{os.environ['FAULTS_MARK']}-checkpoints"
    pybsp.run(main, router=ROUTER, checkpoint=folder, every=1)


@of_the_job("raise, in a checkpoint", fails(r"pybsp\.errors\.UsageError: bsp\.checkpoint"), media="bsp")
def _() -> None:
    saving(lambda victim: Explodes() if victim else 1)


@of_the_job("raise, between two checkpoints", fails(BOOM), media="bsp")
def _() -> None:
    saving(int, boom)


@of_the_job("raise, in a checkpoint, caught on all", GOES_ON, media="bsp")
def _() -> None:
    for number in range(3):
        with suppress(pybsp.BSPError):
            saving(lambda victim: Explodes() if victim else 1)
        run(good, float(number))


@of_the_job("raise, in attach", fails(BOOM), media="bsp")
def _() -> None:
    from mpi4py import MPI

    with pybsp.attach(MPI.COMM_WORLD, router=ROUTER) as bsp:
        KINDS["raise, computing"].fault(bsp)


@of_the_job("sys.exit in attach", fails("SystemExit: 3"), media="bsp")
def _() -> None:
    from mpi4py import MPI

    with pybsp.attach(MPI.COMM_WORLD, router=ROUTER) as bsp:
        KINDS["sys.exit with a number"].fault(bsp)


@of_the_job("SIGSTOP, ended by a timeout", ENDS, media="bsp")
def _() -> None:
    def main(bsp: pybsp.BSP) -> None:
        if others_meet_the_victim(bsp):
            os.kill(os.getpid(), signal.SIGSTOP)
        bsp.sync()

    pybsp.run(main, router=ROUTER, timeout=1.0)


# -- settings, and shared memory --------------------------------------------------------------------------------------


@of_the_job("a setting of the run differs", fails(r"pybsp\.errors\.UsageError: .*PYBSP_CHECKED"))
def _() -> None:
    os.environ["PYBSP_CHECKED"] = "1" if RANK == VICTIM else "0"
    run(good, 1.0)


@of_the_job("a setting of the transport differs", fails(r"pybsp\.errors\.UsageError: .*PYBSP_WAIT"))
def _() -> None:
    os.environ["PYBSP_WAIT"] = "yield" if RANK == VICTIM else "sleep"
    run(good, 1.0)


@of_the_job("a setting is wrong on one", fails(r"pybsp\.errors\.UsageError: PYBSP_GRACE"))
def _() -> None:
    if RANK == VICTIM:
        os.environ["PYBSP_GRACE"] = "soon"
    run(good, 1.0)


def no_room() -> None:
    """From now on the system answers as where /dev/shm is full."""
    for module in (arena, window):
        for name, answer in (("populate", lambda memory: False), ("free_bytes", lambda: 0)):
            if hasattr(module, name):
                setattr(module, name, answer)


@of_the_job("no shared memory at the beginning", GOES_ON_QUIETLY)
def _() -> None:
    if RANK == VICTIM:
        no_room()
    run(good, 1.0)


@of_the_job("shared memory fills up in mid-run", GOES_ON_QUIETLY)
def _() -> None:
    def main(machine: Any) -> None:
        if others_meet_the_victim(machine):
            no_room()
        for number in range(4):
            good(machine, float(number))
            if ROUTER != "logp.run":
                with machine.split(machine.pid % 2) as part:
                    part.sync()

    run(main)
