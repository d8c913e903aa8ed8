"""`run` and `attach`: a program on MPI ranks, from its beginning to its end, good or bad.

When a processor fails, all of them learn of it in their next exchange, all raise, and the launcher sees a non-zero
status of each. Only if some do not come to an exchange within the grace period is the job aborted. The same holds
outside of `run`: once pybsp is imported under a launcher, an exception that nobody catches is reported to the
others, and so is a program that ends early.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from . import agreement, ledger, signals
from .agreement import settle
from .bsp import BSP, _killed, checks_wanted, grace_period
from .errors import BSPError, UsageError, describe
from .keywords import check_keywords, timeout_of
from .machine import BSPMachine, machine_in_force
from .routing import Routing, named, resolved, router
from .simulation import run_simulated, settings
from .transport import BEGIN, LEDGER
from .transport.mpi import MPITransport
from .watch import Watch, warn_after
from .world import (
    agreed,
    grace_or_default,
    install_hook,
    mark,
    mark_outside,
    note_exits,
    report_failure,
    require_launcher,
    speaker_of,
    usable_mpi,
    world_transport,
)

if TYPE_CHECKING:
    from mpi4py import MPI

Result = TypeVar("Result")

_running = False
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
    if not callable(main):
        raise UsageError(f"pybsp.run: argument main: expected a function of a BSP machine, got {main!r}")
    if _running:
        raise UsageError("pybsp.run: a run is going on in this process; call functions of its bsp instead")
    timeout = timeout_of("pybsp.run", timeout)
    ours = {"router": router != "direct", "machine": machine, "checked": checked is not None, "timeout": timeout}
    check_keywords("pybsp.run", main, args, ours)
    _running = True
    try:
        simulated = settings()
        transport = None if simulated is not None else world_transport()
        if transport is None:
            result: Result = run_simulated(
                main, args, kwargs, router=router, machine=machine, checked=checked, settings=simulated
            )
            return result
        with _session(transport, "pybsp.run", router, machine, checked, timeout, world=True) as bsp:
            return main(bsp, *args, **kwargs)
    finally:
        _running = False


@contextmanager
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
    transport = MPITransport.duplicate(comm, graceful=grace_or_default)
    made: BSP | None = None
    usable = False
    try:
        with _session(transport, "pybsp.attach", router, machine, checked, timeout, world=False) as made:
            yield made
        usable = True
    except Exception as error:
        usable = getattr(error, "__pybsp_agreed__", False)
        raise
    finally:
        if usable:
            if made is not None:
                made._move()
            transport.free()


@contextmanager
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
    hosts: list[str] = []
    signals.install()
    watch = Watch(alone=transport.p == 1)
    try:
        bsp, hosts = _begin(transport, operation, chosen, machine, checked, timeout, watch)
        yield bsp
        transport.hear()  # whether others have waited for too long already
        # Parts of the job that are attached at the same time would write over each other.
        _end(bsp, hosts, records=world or transport.p == usable_mpi(operation).COMM_WORLD.size)
        bsp._router.close()
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) or _killed(error):
            if transport.p > 1:
                transport.abort(f"pybsp: processor {transport.pid} was interrupted; ending the job")
            raise
        if agreed(error) or transport.settled is not None or (bsp is not None and bsp._failed is not None):
            mark(error, quiet=speaker_of(error, bsp, transport) != transport.pid)
        else:
            report_failure(transport, bsp, error)
        if bsp is not None and not transport.revoked:
            bsp._router.close()
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
) -> tuple[BSP, list[str]]:
    """Agree on the machine, the router and the checks."""
    named(chosen)  # raises where there is none
    grace_period(), warn_after()  # a wrong setting is an error now, not when it is needed
    checked = checks_wanted(checked)
    warning = None
    if transport.pid == 0:
        machine, warning = machine_in_force(machine, transport.p)
        routing: Routing | None = resolved(chosen, machine, transport.apart)
    else:
        machine = routing = None  # processor 0's are everybody's, equal bit for bit
    note = (socket.gethostname(), machine, chosen, checked, routing, timeout, watch.address)
    arrival = transport.exchange(BEGIN, note, {})
    try:
        notes = settle(transport.exchange, arrival, BEGIN, f"called {operation}", 0, "")
    except BSPError as error:
        note_exits(arrival)
        mark(error, quiet=agreement.speaker(error) != transport.pid)
        raise
    assert notes is not None
    for name, index in (("router", 2), ("checked", 3), ("timeout", 5)):
        if any(said[index] != notes[0][index] for said in notes):
            differing = UsageError(
                f"{operation}: argument {name}: expected the same on all processors, got "
                f"{[said[index] for said in notes]}"
            )
            mark(differing, quiet=transport.pid != 0)
            raise differing
    hosts = [said[0] for said in notes]
    if hosts.count(hosts[transport.pid]) > (os.cpu_count() or 1):
        transport.waiter.crowd()
    if notes[0][1].calibrated:
        transport.tune(notes[0][1].o_msg)
    if transport.pid == 0 and machine is not None:
        warning = warning or machine.elsewhere(hosts)
    if warning is not None:
        print(f"pybsp: {warning}", file=sys.stderr)
    bsp = BSP(transport, router(notes[0][4], transport), notes[0][1], checked)
    watch.begin(transport, [said[6] for said in notes], hosts, partial(_superstep, bsp), partial(_heard, bsp), timeout)
    return bsp, hosts


def _superstep(bsp: BSP) -> str:
    """The superstep that goes on, in words."""
    while bsp._part is not None:
        bsp = bsp._part
    return describe(bsp._superstep, bsp._label) + " of a part" * bool(bsp._members)


def _heard(bsp: BSP) -> str:
    """When all others were last heard of: whoever leaves an exchange knows that they entered it."""
    while bsp._part is not None:
        bsp = bsp._part
    ended = f"superstep {bsp._superstep - 1} ended" if bsp._superstep else "it began"
    return f"was last heard of when {ended}, {time.perf_counter() - bsp._left:.0f} s ago"


def _end(bsp: BSP, hosts: list[str], records: bool) -> None:
    """Agree that the program has ended; processor 0 writes the ledger where it is asked for.

    Raises:
        UsageError: the ledger cannot be written; on all processors.
    """
    global _runs_recorded
    bsp._finish()
    path = os.environ.get("PYBSP_LEDGER")
    if path and records:
        bsp._exchange_ledger()
        trouble = None
        if bsp.pid == 0:
            combined = ledger.Ledger(bsp.machine, bsp._combined)
            try:
                ledger.append_run(path, combined.as_json(hosts, bsp._router.name), first=_runs_recorded == 0)
            except (OSError, UsageError) as error:
                trouble = f"PYBSP_LEDGER: expected a file that can be written, got {path} ({error})"
        _runs_recorded += 1
        notes = bsp._route(LEDGER, trouble, {}).notes
        if notes is not None:
            failed = UsageError(notes[0])
            mark(failed, quiet=bsp.pid != 0)
            raise failed
