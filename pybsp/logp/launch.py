"""`run`: a LogP program on MPI ranks, from its beginning to its end, good or bad.

As in a BSP run, the processors agree at the beginning and at the end. Between the two they do not meet, so one that
fails tells the others by a message, which makes them leave what they wait in.
"""

from __future__ import annotations

import dataclasses
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import ref

from .. import agreement, launch, process, settings, signals, simulation
from ..agreement import Failure, failure_of, processor_error, settle
from ..errors import BSPError, ProcessorError, UsageError
from ..machine import LogPMachine
from ..outcome import outcome
from ..transport import END, FAIL, KIND, LOGP, Arrival
from ..transport.mpi import MPITransport
from ..transport.revocation import RevokedError
from ..watch import Watch
from ..world import (
    agreed,
    begin_session,
    grace_or_default,
    install_hook,
    mark,
    mark_outside,
    note_exits,
    report_failure,
    require_launcher,
    tell_before_run,
    usable_mpi,
    world_transport,
)
from .ranks import CAPACITIES, RankProcessor
from .simulation import machine_in_force, simulate
from .termination import Detection

if TYPE_CHECKING:
    from mpi4py import MPI

OPERATION = "pybsp.logp.run"
Result = TypeVar("Result")

_said_of_ledger = False


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
        what the program raised, on its processor; ProcessorError on the others.
        DeadlockError: processors wait for messages, all others have ended or wait too, and nothing is in transit; on
            all processors.
        UnreceivedError: the program has ended, and messages are left that nobody has received; on all.
        UsageError: wrong arguments, or different ones on different processors.
        LauncherError: the launcher and the MPI library do not belong together.
    """
    if comm is not None:
        _callable(program)
        return _on_communicator(program, args, kwargs, machine, capacity, pace, comm)
    inside, simulated, this = launch.is_running(), None, launch._Run()
    try:
        _callable(program)
        if inside:
            raise UsageError(f"{OPERATION}: a run is going on in this process; comm= takes a part of its ranks")
        launch._running = ref(this)
        simulated = simulation.settings()
        transport = None if simulated is not None else world_transport(OPERATION)
        if transport is None:
            _check(capacity, pace)
            for warning in _without_ledger(settings.text(settings.LEDGER) if simulated is None else simulated.ledger):
                print(f"pybsp: {warning}", file=sys.stderr)
            p = 1 if simulated is None else simulated.p
            result: Result = simulate(program, p, machine, args=args, kwargs=kwargs).results[0]
            return result
        return _session(transport, program, args, kwargs, machine, capacity, pace, world=True)
    except BaseException as error:
        if not inside and simulated is None:
            tell_before_run(error)
        raise
    finally:
        if not inside:
            launch._running = None


def _callable(program: object) -> None:
    if not callable(program):
        raise UsageError(f"{OPERATION}: argument program: expected a function of a LogP processor, got {program!r}")


def _on_communicator(
    program: Callable[..., Result],
    args: Any,
    kwargs: Any,
    machine: LogPMachine | None,
    capacity: str | None,
    pace: bool,
    comm: MPI.Intracomm,
) -> Result:
    """On the ranks of a communicator, as `pybsp.attach`."""
    install_hook()
    require_launcher(usable_mpi(OPERATION).COMM_WORLD.size)
    transport = MPITransport.duplicate(comm, OPERATION, graceful=grace_or_default)
    usable = False
    try:
        result = _session(transport, program, args, kwargs, machine, capacity, pace, world=False)
        usable = True
        return result
    except BaseException as error:
        usable = agreed(error)
        raise
    finally:
        if usable:
            transport.free()


def _session(
    transport: MPITransport,
    program: Callable[..., Result],
    args: Any,
    kwargs: Any,
    machine: LogPMachine | None,
    capacity: str | None,
    pace: bool,
    world: bool,
) -> Result:
    """From the beginning of a run, agreed by all, to its end, agreed by all."""
    proc: RankProcessor | None = None
    begin_session()
    signals.install()
    watch = Watch(alone=transport.p == 1)
    try:
        proc = _begin(transport, machine, capacity, pace, watch)
        detection = Detection(proc)
        result = program(proc, *args, **kwargs)
        detection.end()
        proc.close()
        return result
    except BaseException as error:
        if not process.takes_part():
            raise
        if isinstance(error, KeyboardInterrupt):
            if transport.p > 1:
                transport.abort(f"pybsp: processor {transport.pid} was interrupted; ending the job")
            raise
        if isinstance(error, RevokedError):
            error = _learned(transport, error)
        if proc is not None:
            _fail(transport, proc, error)
        elif not agreed(error):
            transport.revoke(error)  # others may have begun
            report_failure(transport, None, error)
        if not world and isinstance(error, Exception):
            mark_outside(error, transport)
        raise error
    finally:
        watch.end()


def _learned(transport: MPITransport, error: RevokedError) -> BaseException:
    """What all know of, where this processor found in a wait that another has failed."""
    try:
        transport.left(error)
    except BSPError as known:
        return known
    raise AssertionError  # it raises


def _check(capacity: str | None, pace: bool) -> None:
    if capacity not in CAPACITIES:
        raise UsageError(f'{OPERATION}: argument capacity: expected "global", "per-pair" or None, got {capacity!r}')
    if type(pace) is not bool:
        raise UsageError(f"{OPERATION}: argument pace: expected True or False, got {pace!r}")


def _begin(
    transport: MPITransport, machine: LogPMachine | None, capacity: str | None, pace: bool, watch: Watch
) -> RankProcessor:
    """Agree on the machine, and how its capacity and gap are kept."""
    _check(capacity, pace)
    (
        settings.seconds(settings.GRACE),
        settings.seconds(settings.WARN_AFTER),
    )  # a wrong setting is an error now, not when it is needed
    warnings: list[str] = []
    if transport.pid == 0:
        machine, warnings = _machine(machine, transport.p)
        warnings += _without_ledger(settings.text(settings.LEDGER))
    else:
        machine = None  # processor 0's is everybody's, equal bit for bit
    note = (socket.gethostname(), machine, capacity, pace, settings.told(settings.OF_RUN), watch.address)
    arrival = transport.exchange(LOGP, note, {})
    try:
        _raise_failure(arrival)
        notes = settle(transport.exchange, arrival, LOGP, f"called {OPERATION}", 0, "")
    except BSPError as error:
        note_exits(arrival)
        mark(error, quiet=agreement.speaker(error) != transport.pid)
        raise
    assert notes is not None
    try:
        settings.agree(OPERATION, settings.OF_RUN, [said[4] for said in notes])
        for name, index in (("capacity", 2), ("pace", 3)):
            if any(said[index] != notes[0][index] for said in notes):
                raise UsageError(
                    f"{OPERATION}: argument {name}: expected the same on all processors, got "
                    f"{[said[index] for said in notes]}"
                )
    except UsageError as differing:
        mark(differing, quiet=transport.pid != 0)
        raise
    hosts = [said[0] for said in notes]
    if hosts.count(hosts[transport.pid]) > process.cores():
        transport.waiter.crowd()
    for warning in warnings:
        print(f"pybsp: {warning}", file=sys.stderr)
    watch.begin(transport, [said[5] for said in notes], hosts, superstep=str, heard=str)
    return RankProcessor(transport, notes[0][1], capacity, pace)


def _without_ledger(path: str | None) -> list[str]:
    """What is to be said where a ledger is asked for; once, however many runs there are."""
    global _said_of_ledger
    if not path or _said_of_ledger:
        return []
    _said_of_ledger = True
    return [
        f"a LogP run has no supersteps, and writes nothing to the ledger {path}; the trace of pybsp.logp.simulate has "
        "every message, and pybsp.routing.logp_on_bsp makes a BSP program with a ledger"
    ]


def _machine(argument: LogPMachine | None, p: int) -> tuple[LogPMachine, list[str]]:
    """The machine of a run of p processors, and what is to be said of it."""
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


def _fail(transport: MPITransport, proc: RankProcessor, error: BaseException) -> None:
    """The end of a run that failed, here or elsewhere: all learn how."""
    known = proc.failure
    if known is None and transport.settled is None:
        # The others leave what they wait in, and this run's messages behind: whatever this processor was doing, nothing
        # of it is completed.
        with suppress(Exception):
            proc.tell_failure(failure_of(error, 0, "").summary)
        transport.revoke(error)
        report_failure(transport, None, error, superstep=-1)
    elif known is None or isinstance(known, ProcessorError):
        try:
            _raise_failure(transport.exchange(END, None, {}))
        except ProcessorError as told:
            # In place of what one of those that failed said: what is known of all.
            if known is not None:
                known.args, known.pid = told.args, told.pid
                outcome(known).silent = outcome(told).silent
        mark(error, quiet=True)
    else:
        mark(error, quiet=agreement.speaker(known) != transport.pid)
        proc.close()


def _raise_failure(arrival: Arrival) -> None:
    """Raise ProcessorError where a processor says that it failed."""
    if arrival.kinds is not None and any(kind & KIND == FAIL for kind in arrival.kinds):
        assert arrival.notes is not None
        raise processor_error(
            [note._replace(superstep=-1) if isinstance(note, Failure) else note for note in arrival.notes]
        )
