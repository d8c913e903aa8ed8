"""`run` and `attach`: a program on MPI ranks, from its beginning to its end, good or bad.

When a processor fails, all of them learn of it in their next exchange, all raise, and the launcher sees a non-zero status of each. Only
if some do not come to an exchange within the grace period is the job aborted. The same holds outside of `run`: once pybsp is imported
under a launcher, an exception that nobody catches is reported to the others, and so is a program that ends early.
"""

from __future__ import annotations

import atexit
import os
import socket
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from . import agreement, ledger
from .agreement import Failure, culprit, settle
from .bsp import BSP, _killed, grace_period
from .errors import BSPError, LauncherError, ProcessorError, UsageError
from .machine import BSPMachine, machine_in_force
from .routing import router
from .simulation import run_simulated, settings
from .transport import BEGIN, EXIT, FAIL, KIND
from .transport.mpi import MPITransport, check_launcher, launched, load

if TYPE_CHECKING:
    from mpi4py import MPI

Result = TypeVar("Result")

_world: MPITransport | None = None  # of all ranks; made by the first run, used by all
_world_open = False  # whether all ranks still meet there
_running = False
_runs_recorded = 0


def run(
    main: Callable[..., Result],
    *args: Any,
    router: str = "direct",
    machine: BSPMachine | None = None,
    checked: bool | None = None,
    **kwargs: Any,
) -> Result:
    """Run a program on the MPI ranks of this job: `main(bsp, *args, **kwargs)` on each.

    Without a launcher there is one processor; without an MPI library a virtual one. May be called any number of times.

    Args:
        main: the program; the same on all processors.
        router: how messages travel, equal on all processors; see `pybsp.routing`.
        machine: its parameters; None: from the file that PYBSP_MACHINE names, else nominal. Processor 0's is used by all.
        checked: whether to check what is too dear for every superstep; None: PYBSP_CHECKED.

    Returns:
        this processor's result.

    Raises:
        what main raised, on its processor; ProcessorError on the others.
        SyncError: the processors did not do the same.
        LauncherError: the launcher and the MPI library do not belong together.
    """
    global _running
    simulated = settings()
    if simulated is not None:
        result: Result = run_simulated(
            main, args, kwargs, router=router, machine=machine, checked=checked, settings=simulated
        )
        return result
    if _running:
        raise UsageError("pybsp.run: a run is going on in this process; call functions of its bsp instead")
    transport = _world_transport()
    if transport is None:
        return run_simulated(main, args, kwargs, router=router, machine=machine, checked=checked, settings=None)  # type: ignore[no-any-return]
    _running = True
    try:
        with _session(transport, "pybsp.run", router, machine, checked, world=True) as bsp:
            return main(bsp, *args, **kwargs)
    finally:
        _running = False


@contextmanager
def attach(
    comm: MPI.Intracomm,
    *,
    router: str = "direct",
    machine: BSPMachine | None = None,
    checked: bool | None = None,
) -> Iterator[BSP]:
    """A BSP machine of the ranks of a communicator, inside an MPI program: `with pybsp.attach(comm) as bsp`.

    The communicator is duplicated, and the duplicate freed at the end of the block. Collective over its ranks.

    Args, raises: as in `run`.
    """
    load()
    transport = MPITransport.duplicate(comm)
    _install_hook()
    usable = False
    try:
        with _session(transport, "pybsp.attach", router, machine, checked, world=False) as bsp:
            yield bsp
        usable = True
    except Exception as error:
        usable = getattr(error, "__pybsp_agreed__", False)
        raise
    finally:
        if usable:
            transport.free()


def _world_transport() -> MPITransport | None:
    """The transport of all ranks; None where there is no MPI library, and none is needed."""
    global _world, _world_open
    if _world is None:
        try:
            mpi = load()
        except (ImportError, RuntimeError, OSError) as error:
            size, rank = launched()
            if size > 1:
                raise LauncherError(
                    f"pybsp: a launcher started {size} processes, but Python can load no MPI library ({error}); install one: "
                    "pip install 'pybsp[mpich]', and start with its mpiexec (`pybsp run -n ...`)"
                ) from None
            print(
                f"pybsp: no MPI library can be loaded ({_first_line(error)}); running on one virtual processor. "
                "pip install 'pybsp[mpich]' brings one.",
                file=sys.stderr,
            )
            _world_open = False
            return None
        try:
            check_launcher(mpi.COMM_WORLD.size)
        except LauncherError as error:
            if launched()[1] != 0:
                _silence(error)  # all say the same: the first does
            _install_hook()
            raise
        _world = MPITransport.duplicate(mpi.COMM_WORLD)
        _world_open = True
        _install_hook()
        atexit.register(_leave_job)
    elif not _world_open:
        raise BSPError("pybsp.run: other ranks of this job have ended already; no run is possible any more")
    return _world


@contextmanager
def _session(
    transport: MPITransport,
    operation: str,
    router_name: str,
    machine: BSPMachine | None,
    checked: bool | None,
    world: bool,
) -> Iterator[BSP]:
    """From the beginning of a run, agreed by all, to its end, agreed by all."""
    bsp: BSP | None = None
    hosts: list[str] = []
    try:
        bsp, hosts = _begin(transport, operation, router_name, machine, checked)
        yield bsp
        _end(bsp, hosts)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) or _killed(error):
            if transport.p > 1:
                transport.abort(f"pybsp: processor {transport.pid} was interrupted; ending the job")
            raise
        if _agreed(error) or (bsp is not None and bsp._failed is not None):
            _mark(error, quiet=_speaks(error, bsp) != transport.pid)
        else:
            _report(transport, bsp, error)
        if not world and isinstance(error, (BSPError, Exception)):
            _mark_outside(error, transport)
        raise


def _begin(
    transport: MPITransport, operation: str, router_name: str, machine: BSPMachine | None, checked: bool | None
) -> tuple[BSP, list[str]]:
    """Agree on the machine, the router and the checks."""
    router(router_name, transport)
    if checked is None:
        checked = os.environ.get("PYBSP_CHECKED", "") not in ("", "0")
    warning = None
    if transport.pid == 0:
        machine, warning = machine_in_force(machine, transport.p)
    else:
        machine = None  # processor 0's is everybody's, equal bit for bit
    note = (socket.gethostname(), machine, router_name, checked)
    arrival = transport.exchange(BEGIN, note, {})
    try:
        notes = settle(transport, arrival, BEGIN, f"called {operation}", 0, "")
    except BSPError as error:
        _note_exits(arrival.kinds)
        _mark(error, quiet=agreement.speaker(error) != transport.pid)
        raise
    assert notes is not None
    for name, index in (("router", 2), ("checked", 3)):
        if any(said[index] != notes[0][index] for said in notes):
            error = UsageError(
                f"{operation}: argument {name}: expected the same on all processors, got {[said[index] for said in notes]}"
            )
            _mark(error, quiet=transport.pid != 0)
            raise error
    hosts = [said[0] for said in notes]
    if hosts.count(hosts[transport.pid]) > (os.cpu_count() or 1):
        transport.waiter.crowd()
    if warning is not None:
        print(f"pybsp: {warning}", file=sys.stderr)
    return BSP(transport, router_name, notes[0][1], checked), hosts


def _end(bsp: BSP, hosts: list[str]) -> None:
    """Agree that the program has ended; processor 0 writes the ledger where it is asked for."""
    global _runs_recorded
    bsp._finish()
    path = os.environ.get("PYBSP_LEDGER")
    if path:
        bsp._exchange_ledger()
        if bsp.pid == 0:
            combined = ledger.Ledger(bsp.machine, bsp._combined)
            ledger.append_run(
                path, combined.as_json(hosts, bsp._router.name, virtual=False), first=_runs_recorded == 0
            )
        _runs_recorded += 1


def _report(transport: MPITransport, bsp: BSP | None, error: BaseException) -> None:
    """A failure that only this processor knows of: tell the others, or end the job if they do not come."""
    try:
        if bsp is not None:
            notes = bsp._report_failure(error)
        else:
            failure = agreement.failure_of(error, 0, "")
            arrival = transport.exchange(FAIL, failure, {}, grace=grace_period())
            _note_exits(arrival.kinds)
            assert arrival.notes is not None
            notes = arrival.notes
    except TimeoutError:
        traceback.print_exception(type(error), error, error.__traceback__)
        transport.abort(
            f"pybsp: processor {transport.pid} failed, and not all others reached a sync within {grace_period():g} s "
            "(PYBSP_GRACE); ending the job"
        )
        raise
    _mark(error, quiet=culprit(notes) != transport.pid)


def _speaks(error: BaseException, bsp: BSP | None) -> int:
    """The processor that prints an error that all know of."""
    known = error if isinstance(error, BSPError) else bsp._failed if bsp is not None else None
    return agreement.speaker(known) if isinstance(known, BSPError) else 0


# -- what is printed, and how a job ends ------------------------------------------------------------------------------


def _mark(error: BaseException, quiet: bool) -> None:
    """Note on an exception that all processors know of it, and whether this one leaves printing it to another."""
    error.__pybsp_agreed__ = True  # type: ignore[attr-defined]
    error.__pybsp_quiet__ = quiet  # type: ignore[attr-defined]


def _mark_outside(error: BaseException, transport: MPITransport) -> None:
    """Note that ranks outside of the transport do not know."""
    from mpi4py import MPI

    error.__pybsp_alone__ = transport.p < MPI.COMM_WORLD.size  # type: ignore[attr-defined]


def _silence(error: BaseException) -> None:
    _mark(error, quiet=True)


def _agreed(error: BaseException) -> bool:
    return bool(getattr(error, "__pybsp_agreed__", False))


_previous_hook: Any = None


def _install_hook() -> None:
    global _previous_hook
    if _previous_hook is None:
        _previous_hook = sys.excepthook
        sys.excepthook = _hook


def _hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """An exception that nobody caught: print it once in the job, and leave no rank behind."""
    speaking = not getattr(error, "__pybsp_quiet__", False)
    if not _agreed(error) and _job_size() > 1 and not issubclass(kind, KeyboardInterrupt):
        if _world_open and _world is not None:
            _close_world()
            _report(_world, None, error)
            speaking = not getattr(error, "__pybsp_quiet__", False)
        else:
            _print(kind, error, trace)
            load().COMM_WORLD.Abort(1)
    if speaking:
        _print(kind, error, trace)
    if getattr(error, "__pybsp_alone__", False) and speaking:
        load().COMM_WORLD.Abort(1)  # the ranks outside of the attached communicator would wait for ever


def _print(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    _previous_hook(kind, error, trace)
    sys.stderr.flush()
    sys.stdout.flush()


def _job_size() -> int:
    module = sys.modules.get("mpi4py.MPI")
    if module is not None and module.Is_initialized() and not module.Is_finalized():
        return int(module.COMM_WORLD.size)
    return launched()[0]


def _close_world() -> None:
    global _world_open
    _world_open = False


def _note_exits(kinds: Any) -> None:
    """After a rank has left the job, or failed outside of a run, nobody meets there again."""
    if kinds is not None and any(kind & KIND in (EXIT, FAIL) for kind in kinds):
        _close_world()


def _leave_job() -> None:
    """At exit: meet the others, so that a rank that ends while others run is an error there and no hang."""
    if _world is None or not _world_open or _world.p == 1:
        return
    _close_world()
    try:
        arrival = _world.exchange(EXIT, None, {})
        settle(_world, arrival, EXIT, "ended its program", 0, "")
    except ProcessorError:
        pass  # printed where it happened
    except BSPError:
        pass  # the ranks that have not ended raise it
    sys.stdout.flush()


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0]


if launched()[0] > 1:
    _install_hook()


__all__ = ["Failure", "attach", "run"]
