"""`run`: a LogP program on MPI ranks, from its beginning to its end, good or bad.

As in a BSP run, the processors agree at the beginning and at the end (pybsp/session.py). Between the two they do not
meet, so one that fails tells the others by a message, which makes them leave what they wait in.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from .. import settings, simulation
from ..errors import ProcessorError, UsageError
from ..failures import Failure, failure_of, learned, processor_error, speaker
from ..machine import LogPMachine
from ..session import Session
from ..transport import END, FAIL, KIND, LOGP, Arrival
from ..world import mark, report_failure
from .arguments import CAPACITIES
from .ranks import RankProcessor
from .simulation import machine_in_force, simulate
from .termination import Detection

if TYPE_CHECKING:
    from mpi4py import MPI

OPERATION = "pybsp.logp.run"
Result = TypeVar("Result")

_ledger_noted = False


def run(
    program: Callable[..., Result],
    *args: Any,
    machine: LogPMachine | None = None,
    capacity: str | None = "global",
    pace: bool = False,
    comm: MPI.Intracomm | None = None,
    **kwargs: Any,
) -> Result:
    """Run a LogP program on MPI ranks: `program(proc, *args, **kwargs)` on each.

    Without a launcher there is one processor. Under `pybsp simulate`, and without an MPI library, the machine is
    simulated, and the result is processor 0's. May be called any number of times. A ledger (PYBSP_LEDGER) holds
    BSP runs alone; where one is asked for, processor 0 says so.

    A message is in flight from its submission until it is in its destination's input buffer; there it comes when the
    destination calls something of its `proc`, or waits in it. `machine.capacity` bounds the messages in flight
    to one destination; a sender that would exceed it stalls (`proc.stalls`, `proc.stalled_seconds`).

    Args:
        program: the same on all processors.
        machine: its parameters; None: the file that PYBSP_MACHINE names, if it has them, else nominal ones. Processor
            0's is used by all. Where max{2, o} <= G <= L does not hold, a warning says so.
        capacity: how it is kept, equal on all processors. "global", over all senders: before each message its sender
            asks the destination for a credit, so a message takes three latencies instead of one, and as a credit
            is held for two of them, a destination gets at most capacity messages in that time (with p = 2, where it has
            one sender: as "per-pair"). "per-pair": each sender keeps it by itself, at next to no cost; all senders
            together may exceed it (p - 1)-fold. None: nobody keeps it.
        pace: whether the processors keep the gap between submissions and between acquisitions, and overheads and
            `compute` take their steps, of `machine.step` seconds; else those take what they take. Equal on all
            processors.
        comm: a communicator, duplicated here, whose ranks are the processors; collective over these alone. None: all
            ranks of the job.

    Returns:
        this processor's result.

    Raises:
        Exception: what the program raised, on its processor.
        ProcessorError: another processor failed.
        DeadlockError: processors wait for messages, all others have ended or wait too, and nothing is in transit; on
            all processors.
        UnreceivedError: the program has ended, and messages are left that nobody has received; on all.
        UsageError: wrong arguments, or different ones on different processors.
        LauncherError: the launcher and the MPI library do not belong together.

    Examples:
        >>> def program(proc):
        ...     if proc.pid > 0:
        ...         proc.send(0, proc.pid**2)
        ...         return None
        ...     return sum(proc.recv().payload for _ in range(proc.p - 1))
        >>> pybsp.logp.run(program)  # this process alone; under mpiexec each rank is a processor
        0
    """
    session = _LogPSession(machine, capacity, pace)

    def check() -> None:
        if not callable(program):
            raise UsageError(f"{OPERATION}: argument program: expected a function of a LogP processor, got {program!r}")

    def virtual(simulated: simulation.SimulateOptions | None) -> Result:
        session.arguments()  # raises where they are wrong
        for warning in _without_ledger(settings.text(settings.LEDGER) if simulated is None else simulated.ledger):
            print(f"pybsp: {warning}", file=sys.stderr)
        p = 1 if simulated is None else simulated.p
        result: Result = simulate(program, p, machine, args=args, kwargs=kwargs).results[0]
        return result

    if comm is None:
        return session.run(lambda proc: program(proc, *args, **kwargs), check, virtual)
    check()
    with session.on(comm) as proc:
        return program(proc, *args, **kwargs)


class _LogPSession(Session[RankProcessor]):
    """A LogP machine on MPI ranks. Args: see `run`."""

    operation = OPERATION
    kind = LOGP
    instead = "comm= takes a part of its ranks"

    def __init__(self, machine: LogPMachine | None, capacity: str | None, pace: bool) -> None:
        self._machine, self._capacity, self._pace = machine, capacity, pace
        self._warnings: list[str] = []
        self._detection: Detection

    def arguments(self) -> dict[str, Any]:
        capacity, pace = self._capacity, self._pace
        if capacity not in CAPACITIES:
            raise UsageError(f'{OPERATION}: argument capacity: expected "global", "per-pair" or None, got {capacity!r}')
        if type(pace) is not bool:
            raise UsageError(f"{OPERATION}: argument pace: expected True or False, got {pace!r}")
        return {"capacity": capacity, "pace": pace}

    def decide(self) -> LogPMachine:
        machine, self._warnings = _machine(self._machine, self.transport.p)
        self._warnings += _without_ledger(settings.text(settings.LEDGER))
        return machine

    def begun(self, arrival: Arrival) -> None:
        _raise_failure(arrival)

    def warnings(self) -> Sequence[str]:
        untraced = f"{settings.TRACE}: a LogP program has no supersteps, of which a trace is: none is written"
        return [*self._warnings, *([untraced] if settings.text(settings.TRACE) else [])]

    def make(self, decided: LogPMachine, arguments: Mapping[str, Any]) -> RankProcessor:
        return RankProcessor(self.transport, decided, self._capacity, self._pace)

    def watched(self, processor: RankProcessor) -> tuple[Callable[[], str], Callable[[], str], float | None]:
        return str, str, None  # there are no supersteps

    def ready(self) -> None:
        assert self.processor is not None
        self._detection = Detection(self.processor)

    def end(self, processor: RankProcessor) -> None:
        self._detection.end()
        processor.close()

    def fail(self, processor: RankProcessor, error: BaseException) -> None:
        transport = self.transport
        known = processor.failure
        if known is None and transport.settled is None:
            # The others leave what they wait in, and this run's messages behind: whatever this processor was doing,
            # nothing of it is completed.
            with suppress(Exception):
                processor.tell_failure(failure_of(error, 0, "").summary)
            transport.revoke(error)
            report_failure(transport, None, error, superstep=-1)
        elif known is None or isinstance(known, ProcessorError):
            try:
                _raise_failure(transport.exchange(END, None, {}))
            except ProcessorError as failure:
                if known is not None:
                    learned(known, failure)
            mark(error, quiet=True)
        else:
            mark(error, quiet=speaker(known) != transport.pid)
            processor.close()


def _without_ledger(path: str | None) -> list[str]:
    """The warning where a ledger is asked for; once, however many runs there are."""
    global _ledger_noted
    if not path or _ledger_noted:
        return []
    _ledger_noted = True
    return [
        f"a LogP run has no supersteps, and writes nothing to the ledger {path}; the trace of pybsp.logp.simulate has "
        "every message, and pybsp.routing.logp_on_bsp makes a BSP program with a ledger"
    ]


def _machine(argument: LogPMachine | None, p: int) -> tuple[LogPMachine, list[str]]:
    """The machine of a run of p processors, and the warnings about it."""
    if argument is not None and not isinstance(argument, LogPMachine):
        raise UsageError(f"{OPERATION}: argument machine: expected a pybsp.LogPMachine, got {type(argument).__name__}")
    machine, origin = argument, "the argument machine"
    if machine is None:
        machine, origin = machine_in_force(), settings.text(settings.MACHINE)
    if machine is None:
        machine = LogPMachine.nominal(p)
    warnings = [f"machine: {flag}" for flag in machine.flags]
    if machine.p != p:
        warnings.append(f"{origin} is for p = {machine.p}, this run has p = {p}: its parameters are another machine's")
        machine = dataclasses.replace(machine, p=p)
    return machine, warnings


def _raise_failure(arrival: Arrival) -> None:
    """Raise ProcessorError where a processor says that it failed."""
    if arrival.kinds is not None and any(kind & KIND == FAIL for kind in arrival.kinds):
        assert arrival.notes is not None
        raise processor_error(
            [note._replace(superstep=-1) if isinstance(note, Failure) else note for note in arrival.notes]
        )
