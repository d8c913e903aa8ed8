"""`run`: a LogP program on MPI ranks, from its beginning to its end, good or bad.

As in a BSP run, the processors agree at the beginning and at the end (pybsp/runs/session.py). Between the two they do
not meet, so one that fails tells the others by a message, which makes them leave what they wait in.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from ..errors import ProcessorError, UsageError, argument_error
from ..ground import settings
from ..ground.announcing import announce, announce_once
from ..ground.clocks import Clock
from ..ground.convert import check_program
from ..ground.failures import Failure, failure_of, learned, processor_error, shorten, speaker
from ..ground.files import require_outputs
from ..ground.versions import now, versions
from ..ledger import chrome
from ..ledger.recording import acknowledge
from ..machines.logp import LogPMachine
from ..machines.machine_file import require_machine
from ..runs import simulation
from ..runs.session import Session
from ..runs.world import mark, report_failure, usable_mpi
from ..transport import END, FAIL, KIND, LOGP, Arrival
from ..transport.clocks import clocks
from .arguments import CAPACITIES
from .ranks import RankProcessor
from .recording import TracedProcessor, gather
from .replay import predict
from .simulation import machine_in_force, simulate
from .termination import Detection
from .timeline import Timeline
from .traced_run import TracedRun

if TYPE_CHECKING:
    from mpi4py import MPI

OPERATION = "pybsp.logp.run"
Result = TypeVar("Result")

_ledger_noted = False


@dataclass(frozen=True)
class Traced(Generic[Result]):
    """What `run(trace=True)` gives.

    Attributes:
        result: this processor's.
        timeline: what all processors did, on processor 0; None on others.

    Examples:
        >>> traced = pybsp.logp.run(lambda proc: proc.compute(5) or proc.p, trace=True)
        >>> traced.result, len(traced.timeline)  # this process alone: a processor, and no message
        (1, 0)
    """

    result: Result
    timeline: Timeline | None


@overload
def run(
    program: Callable[..., Result],
    *args: Any,
    machine: LogPMachine | None = None,
    capacity: str | None = "global",
    pace: bool = False,
    comm: MPI.Intracomm | None = None,
    trace: Literal[False] = False,
    **kwargs: Any,
) -> Result: ...


@overload
def run(
    program: Callable[..., Result],
    *args: Any,
    machine: LogPMachine | None = None,
    capacity: str | None = "global",
    pace: bool = False,
    comm: MPI.Intracomm | None = None,
    trace: Literal[True],
    **kwargs: Any,
) -> Traced[Result]: ...


def run(
    program: Callable[..., Result],
    *args: Any,
    machine: LogPMachine | None = None,
    capacity: str | None = "global",
    pace: bool = False,
    comm: MPI.Intracomm | None = None,
    trace: bool = False,
    **kwargs: Any,
) -> Result | Traced[Result]:
    """Run a LogP program on MPI ranks: `program(proc, *args, **kwargs)` on each.

    Without a launcher there is one processor. Under `pybsp simulate`, and without an MPI library, the machine is
    simulated, and the result is processor 0's. May be called any number of times. A ledger (PYBSP_LEDGER) holds
    BSP runs alone; where one is asked for, processor 0 says so. A trace (PYBSP_TRACE, `pybsp run --trace`) has LogP
    runs, too.

    A message is in flight from its submission until it is in its destination's input buffer; there it comes when the
    destination calls something of its `proc`, or waits in it. `machine.capacity` bounds the messages in flight
    to one destination; a sender that would exceed it stalls (`proc.stalls`, `proc.stalled_seconds`).

    Args:
        program: the same on all processors.
        machine: its parameters; None: the file that PYBSP_MACHINE names, if it has them, else nominal ones. Processor
            0's is used by all. Where max{2, o} <= G <= L does not hold, a warning says so; where the machine is
            simulated, that is an error.
        capacity: how it is kept, equal on all processors. "global", over all senders: the destination grants as many
            credits, ahead to those that send, so that a lone sender has `machine.capacity` messages under way, and of
            several each its share (with p = 2, where it has one sender: as "per-pair"). "window": likewise, with
            ceil(round trip / G) credits, which keep a lone sender at a message each G; that is more than the model
            allows. "per-pair": each sender keeps the capacity by itself, at next to no cost; all senders together may
            exceed it (p - 1)-fold. None: nobody keeps it.
        pace: whether the processors keep the gap between submissions and between acquisitions, and overheads and
            `compute` take their steps, of `machine.step` seconds; else those take what they take. Equal on all
            processors.
        comm: a communicator, duplicated here, whose ranks are the processors; collective over these alone. None: all
            ranks of the job.
        trace: whether to keep when each message was sent, arrived and was acquired; equal on all processors. Of the
            first `max(1024, 2^18 // p)` messages that a processor sends, and as many that it acquires, 32 bytes each
            (and 32 of an arrival): 25 MB of all processors, up to p = 256. Of more messages the run's beginning is
            kept. The timeline is made when the program has ended, in a collective exchange with processor 0.

    Returns:
        this processor's result; with `trace=True` a `Traced`, which has that and the timeline.

    Raises:
        Exception: what the program raised, on its processor.
        ProcessorError: another processor failed.
        DeadlockError: processors wait for messages, all others have ended or wait too, and nothing is in transit; on
            all processors.
        UnreceivedError: the program has ended, and messages are left that nobody has received; on all.
        UsageError: wrong arguments, or different ones on different processors; a simulated machine without
            max{2, o} <= G <= L.
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
    session = _LogPSession(machine, capacity, pace, trace)

    def check() -> None:
        check_program(OPERATION, "program", program, "LogP processor")

    def virtual(simulated: simulation.SimulateOptions | None) -> Result:
        session.arguments()  # raises where they are wrong
        p = 1 if simulated is None else simulated.p
        chosen, warnings = _machine(machine, p)
        chosen.require(f"{OPERATION}: on a simulated machine")
        warnings += _without_ledger(settings.text(settings.LEDGER) if simulated is None else simulated.ledger)
        for warning in (*settings.warnings(), *warnings):
            announce_once(f"pybsp: {warning}")
        found = simulate(program, p, chosen, args=args, kwargs=kwargs)
        path = settings.text(settings.TRACE) if simulated is None else simulated.trace
        if trace or path:
            try:
                session.timeline = Timeline.of(found)
            except UsageError as error:
                if trace:
                    raise
                acknowledge(settings.TRACE_WRITTEN)
                announce(f"pybsp: there is no trace {path} of this run: {error}")
        if path and session.timeline is not None:
            file = chrome.trace_file if simulated is None else simulated.file_of_traces()
            file.add_logp(
                path, TracedRun(session.timeline, "global", True, ["virtual"] * p, now(), versions(virtual=True))
            )
        result: Result = found.results[0]
        return result

    if comm is None:
        try:
            result = session.run(lambda proc: program(proc, *args, **kwargs), check, virtual)
        except BaseException as error:
            shorten(error, called=True)
            raise
    else:
        check()
        with session.on(comm) as proc:
            result = program(proc, *args, **kwargs)
    return Traced(result, session.timeline) if trace else result


class _LogPSession(Session[RankProcessor]):
    """A LogP machine on MPI ranks. Args: see `run`."""

    operation = OPERATION
    kind = LOGP
    instead = "comm= takes a part of its ranks"

    def __init__(self, machine: LogPMachine | None, capacity: str | None, pace: bool, trace: bool) -> None:
        self._machine, self._capacity, self._pace, self._trace = machine, capacity, pace, trace
        self._warnings: list[str] = []
        self._detection: Detection
        self._clocks: tuple[float, Mapping[int, Clock]]
        self.timeline: Timeline | None = None

    def arguments(self) -> dict[str, Any]:
        machine, capacity, pace = self._machine, self._capacity, self._pace
        if machine is not None:
            require_machine(OPERATION, machine, LogPMachine)
        if not isinstance(capacity, str | None) or capacity not in CAPACITIES:
            raise argument_error(OPERATION, "capacity", '"global", "window", "per-pair" or None', f"{capacity!r}")
        if type(pace) is not bool:
            raise argument_error(OPERATION, "pace", "True or False", f"{pace!r}")
        if type(self._trace) is not bool:
            raise argument_error(OPERATION, "trace", "True or False", f"{self._trace!r}")
        return {"capacity": capacity, "pace": pace, "trace": self._trace}

    def decide(self) -> LogPMachine:
        machine, self._warnings = _machine(self._machine, self.transport.p)
        self._warnings += _without_ledger(settings.text(settings.LEDGER))
        return machine

    def begun(self, arrival: Arrival) -> None:
        _raise_failure(arrival)

    def warnings(self) -> Sequence[str]:
        return self._warnings

    def make(self, decided: LogPMachine, arguments: Mapping[str, Any]) -> RankProcessor:
        if not (self._trace or self._file()):
            return RankProcessor(self.transport, decided, self._capacity, self._pace)
        self._clocks = time.perf_counter(), clocks(self.transport)
        return TracedProcessor(self.transport, decided, self._capacity, self._pace)

    def watched(self, processor: RankProcessor) -> tuple[Callable[[], str], Callable[[], str], float | None]:
        return str, str, None  # there are no supersteps

    def ready(self) -> None:
        assert self.processor is not None
        self._detection = Detection(self.processor)
        path = self._file()
        if path and self.transport.pid == 0:
            # Before the work that it is to be about.
            require_outputs([(settings.TRACE, path)], [(settings.MACHINE, settings.text(settings.MACHINE))])
        if isinstance(self.processor, TracedProcessor):
            self.processor.begins()

    def end(self, processor: RankProcessor) -> None:
        traced = processor if isinstance(processor, TracedProcessor) else None
        if traced is not None:
            traced.ends()
        self._detection.end()
        processor.close()
        if traced is not None:
            self.timeline = gather(traced, self.transport, *self._clocks)
            if self.timeline is not None and (path := self._file()):
                self._write(path, self.timeline)

    def _file(self) -> str:
        """Where a trace of this run goes; "": nowhere. Parts of the ranks would write over each other's files."""
        whole = self.world or self.transport.p == usable_mpi(self.operation).COMM_WORLD.size
        return settings.text(settings.TRACE) if whole else ""

    def _write(self, path: str, timeline: Timeline) -> None:
        """Write the trace, and what the model predicts where there is a machine that was measured."""
        predicted = None
        if timeline.machine.calibrated:
            try:
                predicted = predict(timeline)
            except UsageError as error:
                announce(f"pybsp: the trace {path} has no prediction: {error}")
        traced = TracedRun(timeline, self._capacity, False, self.hosts, now(), versions(virtual=False), predicted)
        chrome.trace_file.add_logp(path, traced)

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
            if transport.p == 1:
                processor.close()  # which a revocation does for several
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
    acknowledge()
    return [
        f"a LogP run has no supersteps, and writes nothing to the ledger {path}; `pybsp run --trace FILE` keeps every "
        "message, which `pybsp report FILE` shows, and pybsp.routing.logp_on_bsp makes a BSP program with a ledger"
    ]


def _machine(argument: LogPMachine | None, p: int) -> tuple[LogPMachine, list[str]]:
    """The machine of a run of p processors, and the warnings about it."""
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
