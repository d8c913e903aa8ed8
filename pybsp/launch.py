"""`run` and `attach`: a program on MPI ranks, from its beginning to its end, good or bad.

When a processor fails, all of them learn of it in their next exchange, all raise, and the launcher sees a non-zero
status of each. Only if some do not come to an exchange within the grace period is the job aborted. The same holds
outside of `run`: once pybsp is imported under a launcher, an exception that nobody catches is reported to the
others, and so is a program that ends early.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import ref

from . import agreement, ledger, process, settings, signals, simulation
from .account import Account
from .agreement import settle
from .bsp import BSP
from .combining import exchange_ledger
from .errors import BSPError, UsageError
from .failures import killed
from .keywords import check_keywords, timeout_of
from .machine import BSPMachine, machine_in_force
from .outcome import managed
from .routing import Routing, named, resolved, router
from .settings import checks_wanted
from .superstep import Superstep
from .transport import BEGIN
from .transport.mpi import MPITransport
from .watch import Watch
from .world import (
    agreed,
    begin_session,
    grace_or_default,
    install_hook,
    mark,
    mark_outside,
    note_exits,
    report_failure,
    require_launcher,
    speaker_of,
    tell_before_run,
    usable_mpi,
    world_transport,
)

if TYPE_CHECKING:
    from mpi4py import MPI

Result = TypeVar("Result")

_runs_recorded = 0


def run(
    main: Callable[..., Result],
    *args: Any,
    router: Routing = "direct",
    machine: BSPMachine | None = None,
    checked: bool | None = None,
    timeout: float | None = None,
    **kwargs: Any,
) -> Result:
    """Run a program on the MPI ranks of this job: `main(bsp, *args, **kwargs)` on each.

    Without a launcher there is one processor; without an MPI library a virtual one. May be called any number of times.

    Args:
        main: the program; the same on all processors.
        router: how messages travel, equal on all processors: a name or a `pybsp.routing.*_router`; see
            `pybsp.routing`.
        machine: its parameters; None: from the file that PYBSP_MACHINE names, else nominal. Processor 0's is used
            by all.
        checked: whether to check what is too dear for every superstep; None: PYBSP_CHECKED.
        timeout: seconds, equal on all processors, that a processor waits for the others to end a superstep, before the
            run fails on all; None: for ever. Those that do not even come to learn of that within the grace period
            (PYBSP_GRACE) are ended with the job. Virtual processors wait for nobody.
        kwargs: main's; the names above are not (`pybsp.keywords`).

    Returns:
        this processor's result.

    Raises:
        what main raised, on its processor; ProcessorError on the others.
        SyncError: the processors did not do the same, or some did not come within the timeout.
        LauncherError: the launcher and the MPI library do not belong together.
    """
    global _running
    inside, simulated, this = is_running(), None, _Run()
    try:
        if not callable(main):
            raise UsageError(f"pybsp.run: argument main: expected a function of a BSP machine, got {main!r}")
        if inside:
            raise UsageError("pybsp.run: a run is going on in this process; call functions of its bsp instead")
        timeout = timeout_of("pybsp.run", timeout)
        ours = {"router": router != "direct", "machine": machine, "checked": checked is not None, "timeout": timeout}
        check_keywords("pybsp.run", main, args, ours)
        _running = ref(this)
        simulated = simulation.settings()
        transport = None if simulated is not None else world_transport()
        if transport is None:
            result: Result = simulation.run_simulated(
                main, args, kwargs, router=router, machine=machine, checked=checked, settings=simulated
            )
            return result
        with _session(transport, "pybsp.run", router, machine, checked, timeout, world=True) as bsp:
            return main(bsp, *args, **kwargs)
    except BaseException as error:
        if not inside and simulated is None:
            tell_before_run(error)
        raise
    finally:
        if not inside:
            _running = None


class _Run:
    """A run that goes on: it ends with the call, even where an exception keeps the call from saying so."""


_running: ref[_Run] | None = None


def is_running() -> bool:
    """Whether a run, BSP or LogP, goes on in this process."""
    return _running is not None and _running() is not None


@managed
def attach(
    comm: MPI.Intracomm,
    *,
    router: Routing = "direct",
    machine: BSPMachine | None = None,
    checked: bool | None = None,
    timeout: float | None = None,
) -> Iterator[BSP]:
    """A BSP machine of the ranks of a communicator, inside an MPI program: `with pybsp.attach(comm) as bsp`.

    The communicator is duplicated, and the duplicate freed at the end of the block. Collective over its ranks.

    Args, raises: as in `run`.
    """
    timeout = timeout_of("pybsp.attach", timeout)
    install_hook()
    require_launcher(usable_mpi("pybsp.attach").COMM_WORLD.size)
    transport = MPITransport.duplicate(comm, "pybsp.attach", graceful=grace_or_default)
    made: BSP | None = None
    usable = False
    try:
        with _session(transport, "pybsp.attach", router, machine, checked, timeout, world=False) as made:
            yield made
        usable = True
    except BaseException as error:
        usable = agreed(error)
        raise
    finally:
        if usable:
            if made is not None:
                made._superstep.move()
            transport.free()


@managed
def _session(
    transport: MPITransport,
    operation: str,
    chosen: Routing,
    machine: BSPMachine | None,
    checked: bool | None,
    timeout: float | None,
    world: bool,
) -> Iterator[BSP]:
    """From the beginning of a run, agreed by all, to its end, agreed by all."""
    bsp: BSP | None = None
    begin_session()
    signals.install()
    watch = Watch(alone=transport.p == 1)
    try:
        bsp, hosts, path = _begin(transport, operation, chosen, machine, checked, timeout, watch)
        if path and world and transport.pid == 0:
            ledger.require_place(path, "PYBSP_LEDGER")  # before the work that it is to be about
        yield bsp
        transport.hear()  # whether others have waited for too long already
        # Parts of the job that are attached at the same time would write over each other.
        records = world or transport.p == usable_mpi(operation).COMM_WORLD.size
        _end(bsp, hosts, path if records else "")
        bsp.router.close()
    except BaseException as error:
        if not process.takes_part():
            raise
        if isinstance(error, KeyboardInterrupt) or killed(error):
            if transport.p > 1:
                transport.abort(f"pybsp: processor {transport.pid} was interrupted; ending the job")
            raise
        if agreed(error) or transport.settled is not None or (bsp is not None and bsp._gate.failed is not None):
            mark(error, quiet=speaker_of(error, None if bsp is None else bsp._superstep, transport) != transport.pid)
        else:
            if bsp is None:
                transport.revoke(error)  # others may have begun, and exchange as their router does
            report_failure(transport, None if bsp is None else bsp._superstep, error)
        if bsp is not None and not transport.revoked:
            bsp.router.close()
        if not world and isinstance(error, Exception):
            mark_outside(error, transport)
        raise
    finally:
        watch.end()


def _begin(
    transport: MPITransport,
    operation: str,
    chosen: Routing,
    machine: BSPMachine | None,
    checked: bool | None,
    timeout: float | None,
    watch: Watch,
) -> tuple[BSP, list[str], str]:
    """Agree on the settings, the machine, the router and the checks; with the hosts, and where the ledger goes."""
    named(chosen)  # raises where there is none
    (
        settings.seconds(settings.GRACE),
        settings.seconds(settings.WARN_AFTER),
    )  # a wrong setting is an error now, not when it is needed
    warning = None
    if transport.pid == 0:
        machine, warning = machine_in_force(machine, transport.p)
        routing: Routing | None = resolved(chosen, machine, transport.apart)
    else:
        machine = routing = None  # processor 0's are everybody's, equal bit for bit
    told = settings.told(settings.OF_RUN)
    note = (socket.gethostname(), machine, chosen, checked, routing, told, timeout, watch.address)
    arrival = transport.exchange(BEGIN, note, {})
    try:
        notes = settle(transport.exchange, arrival, BEGIN, f"called {operation}", 0, "")
    except BSPError as error:
        note_exits(arrival)
        mark(error, quiet=agreement.speaker(error) != transport.pid)
        raise
    assert notes is not None
    try:
        settings.agree(operation, settings.OF_RUN, [said[5] for said in notes])
        routers, checks = [said[2] for said in notes], [checks_wanted(said[3]) for said in notes]
        timeouts = [said[6] for said in notes]
        for name, wishes in (("router", routers), ("checked", checks), ("timeout", timeouts)):
            if any(wish != wishes[0] for wish in wishes):
                raise UsageError(f"{operation}: argument {name}: expected the same on all processors, got {wishes}")
    except UsageError as differing:
        mark(differing, quiet=transport.pid != 0)
        raise
    hosts = [said[0] for said in notes]
    if hosts.count(hosts[transport.pid]) > process.cores():
        transport.waiter.crowd()
    if notes[0][1].calibrated:
        transport.tune(notes[0][1].o_msg)
    if transport.pid == 0 and machine is not None:
        warning = warning or machine.elsewhere(hosts)
    if warning is not None:
        print(f"pybsp: {warning}", file=sys.stderr)
    bsp = BSP(Superstep(transport, router(notes[0][4], transport), Account(transport), checks[0]), notes[0][1])
    watch.begin(
        transport, [said[7] for said in notes], hosts, bsp._superstep.whereabouts, bsp._superstep.heard, timeout
    )
    return bsp, hosts, settings.text(settings.LEDGER)


def _end(bsp: BSP, hosts: list[str], path: str) -> None:
    """Agree that the program has ended; processor 0 writes the ledger to the path, if there is one, or says why not."""
    global _runs_recorded
    bsp._superstep.finish()
    if path:
        exchange_ledger(bsp._superstep, everybody=False)
        if bsp.pid == 0:
            combined = ledger.Ledger(bsp.machine, bsp._account.log)
            _runs_recorded += ledger.record_run(path, combined, hosts, bsp.router.name, first=_runs_recorded == 0)
