"""`run` and `attach`: a program on MPI ranks, from its beginning to its end, good or bad.

When a processor fails, all of them learn of it in their next exchange, all raise, and the launcher sees a non-zero
status of each. Only if some do not come to an exchange within the grace period is the job aborted. The same holds
outside of `run`: once pybsp is imported under a launcher, an exception that nobody catches is reported to the
others, and so is a program that ends early.
"""

from __future__ import annotations

import atexit
import os
import select
import signal
import socket
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from . import agreement, ledger
from .agreement import Failure, culprit, settle
from .bsp import BSP, _killed, grace_period
from .errors import BSPError, LauncherError, UsageError, describe
from .machine import BSPMachine, machine_in_force
from .routing import router
from .simulation import run_simulated, settings
from .transport import BEGIN, EXIT, FAIL, KIND, Arrival
from .transport.mpi import MPITransport, abort_job, check_launcher, launched, load

if TYPE_CHECKING:
    from mpi4py import MPI

Result = TypeVar("Result")

_world: MPITransport | None = None  # of all ranks; made by the first run, used by all
_world_open = False  # whether all ranks still meet there
_running = False
_alone = False  # no MPI library can be loaded; said once
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
        machine: its parameters; None: from the file that PYBSP_MACHINE names, else nominal. Processor 0's is used
            by all.
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
    _install_hook()
    _check_launcher(_usable_mpi("pybsp.attach").COMM_WORLD.size)
    transport = MPITransport.duplicate(comm)
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
    global _world, _world_open, _alone
    _install_hook()
    if _alone:
        return None
    if _world is None:
        try:
            mpi = _usable_mpi("pybsp.run")
        except LauncherError as error:
            raise _said_by_first(error) from None
        except (ImportError, RuntimeError, OSError) as error:
            size, _ = launched()
            if size > 1:
                raise _said_by_first(
                    LauncherError(
                        f"pybsp: a launcher started {size} processes, but Python can load no MPI library "
                        f"({_first_line(error)}); install one: pip install 'pybsp[mpich]', and start with its mpiexec "
                        "(`pybsp run -n ...`)"
                    )
                ) from None
            print(
                f"pybsp: no MPI library can be loaded ({_first_line(error)}); running on one virtual processor. "
                "pip install 'pybsp[mpich]' brings one.",
                file=sys.stderr,
            )
            _alone = True
            return None
        _check_launcher(mpi.COMM_WORLD.size)
        _world = MPITransport.duplicate(mpi.COMM_WORLD)
        _world_open = True
        atexit.register(_leave_job)
        return _world
    _usable_mpi("pybsp.run")
    if not _world_open:
        raise BSPError("pybsp.run: other ranks of this job have ended already; no run is possible any more")
    return _world


def _usable_mpi(operation: str) -> Any:
    mpi = load()
    if mpi.Is_finalized():
        raise BSPError(f"{operation}: MPI has been finalized in this process; call it before MPI.Finalize()")
    return mpi


def _check_launcher(size: int) -> None:
    try:
        check_launcher(size)
    except LauncherError as error:
        raise _said_by_first(error) from None


def _said_by_first(error: LauncherError) -> LauncherError:
    """An error that all ranks find without being able to meet: the first prints it."""
    if launched()[1] != 0:
        _mark(error, quiet=True)
        if "OMPI_COMM_WORLD_SIZE" in os.environ:
            time.sleep(_grace())  # this launcher ends all ranks as soon as one has ended so: let the first speak
    else:
        _mark(error, quiet=False)
    return error


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
    grace_period()  # a wrong PYBSP_GRACE is an error now, not when it is needed
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
        _note_exits(arrival)
        _mark(error, quiet=agreement.speaker(error) != transport.pid)
        raise
    assert notes is not None
    for name, index in (("router", 2), ("checked", 3)):
        if any(said[index] != notes[0][index] for said in notes):
            differing = UsageError(
                f"{operation}: argument {name}: expected the same on all processors, got "
                f"{[said[index] for said in notes]}"
            )
            _mark(differing, quiet=transport.pid != 0)
            raise differing
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
            ledger.append_run(path, combined.as_json(hosts, bsp._router.name), first=_runs_recorded == 0)
        _runs_recorded += 1


def _report(transport: MPITransport, bsp: BSP | None, error: BaseException, ends: bool = False) -> None:
    """A failure that only this processor knows of: tell the others, or end the job if they do not come.

    Args:
        transport: of those who are told.
        bsp: where it happened; None outside of a run.
        error: the exception.
        ends: this process ends with it.
    """
    try:
        if bsp is not None:
            notes = bsp._report_failure(error)
        else:
            failure = agreement.failure_of(error, 0, "")._replace(ends=ends)
            arrival = transport.exchange(FAIL, failure, {}, grace=_grace())
            _note_exits(arrival)
            assert arrival.notes is not None
            notes = arrival.notes
    except TimeoutError:
        _add_place(error, transport, bsp)
        _print_at_once(error)
        transport.abort(
            f"pybsp: processor {transport.pid} failed, and not all others reached a sync within {_grace():g} s "
            "(PYBSP_GRACE); ending the job"
        )
        raise
    speaks = culprit(notes) == transport.pid
    _mark(error, quiet=not speaks)
    if speaks:
        _add_place(error, transport, bsp)
    if isinstance(
        error, SystemExit
    ):  # no hook sees it: Python ends with its status, and prints a status that is a text
        together = all(isinstance(note, Failure) and note.summary.startswith("SystemExit") for note in notes)
        if speaks and not together:
            _print_at_once(error)
        if isinstance(error.code, str) and not (speaks and together):
            error.code = 1  # has been printed, or will be


def _grace() -> float:
    """The grace period where nothing can be said any more of a wrong one."""
    try:
        return grace_period()
    except UsageError:
        return agreement.GRACE


def _add_place(error: BaseException, transport: MPITransport, bsp: BSP | None) -> None:
    """Say in the traceback where in the job it was."""
    if transport.p > 1 and hasattr(error, "add_note"):
        place = "" if bsp is None else f", in {describe(bsp._superstep, agreement.label_of(error, bsp._label))}"
        error.add_note(f"(on processor {transport.pid} of {transport.p}{place})")


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


def _agreed(error: BaseException) -> bool:
    return bool(getattr(error, "__pybsp_agreed__", False))


_Hook = Callable[[type[BaseException], BaseException, TracebackType | None], Any]
_hooks: list[_Hook] = []  # ours; several, if the program has put its own over one of them
_ending = False


def _install_hook() -> None:
    """See exceptions that nobody catches, before the hook that is there now."""
    previous = sys.excepthook
    if previous in _hooks:
        return

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        global _ending
        if _ending:  # called by the program's hook, which the outer one of ours has called
            previous(kind, error, trace)
            return
        _ending = True
        try:
            _uncaught(error, lambda: previous(kind, error, trace))
        finally:
            _ending = False

    _hooks.append(hook)
    sys.excepthook = hook


def _uncaught(error: BaseException, say: Callable[[], Any]) -> None:
    """An exception that nobody caught: print it once in the job, and leave no rank behind."""
    if _job_size() > 1 and not _agreed(error) and (isinstance(error, KeyboardInterrupt) or not _tell(error)):
        say()
        abort_job()
    if not getattr(error, "__pybsp_quiet__", False):
        say()
        sys.stderr.flush()
        if getattr(error, "__pybsp_alone__", False):
            abort_job()  # the ranks outside of the attached communicator would wait for ever


def _tell(error: BaseException) -> bool:
    """Tell the other ranks of a failure outside of any run, in their next one; False if there is no meeting them."""
    if _world is not None and not _world_open:
        return False
    try:
        transport = _world or _meeting_place(error)
    except Exception:
        return False
    _close_world()
    _report(transport, None, error, ends=True)
    return True


def _meeting_place(error: BaseException) -> MPITransport:
    """The transport that the others make in their first run; TimeoutError if they do not come."""
    os.environ.pop("PYBSP_WAIT", None)  # may be what is wrong
    module = sys.modules.get("mpi4py.MPI")
    if module is None or not module.Is_initialized():
        with _guard("".join(traceback.format_exception(type(error), error, error.__traceback__))):
            module = load()
    assert module is not None
    return MPITransport.duplicate(module.COMM_WORLD, grace=_grace())


@contextmanager
def _guard(text: str) -> Iterator[None]:
    """Print the text and end this process if the block, in which Python cannot run, exceeds the grace period.

    MPI_Init waits for all ranks; those that never come to it leave no other way.
    """
    reads, writes = os.pipe()
    sys.stderr.flush()
    sys.stdout.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a fork beside other threads; the child calls nothing that locks
        child = os.fork()
    if child == 0:
        try:
            os.close(writes)
            if not select.select([reads], [], [], _grace())[0]:  # else it is done, or dead
                os.write(2, text.encode())
                os.kill(os.getppid(), signal.SIGKILL)
        finally:
            os._exit(0)
    os.close(reads)
    try:
        yield
    finally:
        os.close(writes)
        os.waitpid(child, 0)


def _print_at_once(error: BaseException) -> None:
    """Print an exception without waiting for it to leave the program."""
    traceback.print_exception(type(error), error, error.__traceback__)
    sys.stderr.flush()


def _job_size() -> int:
    module = sys.modules.get("mpi4py.MPI")
    if module is not None and module.Is_finalized():
        return 1  # nobody can be met any more, and nobody waits
    if module is not None and module.Is_initialized():
        return int(module.COMM_WORLD.size)
    return 1 if _alone else launched()[0]


def _close_world() -> None:
    global _world_open
    _world_open = False


def _note_exits(arrival: Arrival) -> None:
    """After a rank has left the job nobody meets there again."""
    if any(kind & KIND == EXIT for kind in arrival.kinds or ()) or any(
        isinstance(note, Failure) and note.ends for note in arrival.notes or ()
    ):
        _close_world()


def _leave_job() -> None:
    """At exit: meet the others, so that a rank that ends while others run is an error there and no hang."""
    if _world is None or not _world_open or _job_size() != _world.p:
        return
    _close_world()
    with suppress(BSPError):  # a failure is printed where it happened; the ranks that have not ended raise a SyncError
        try:
            arrival = _world.exchange(EXIT, None, {})
            settle(_world, arrival, EXIT, "left the job", 0, "")
            _world.free()
        except KeyboardInterrupt:
            abort_job()
    sys.stdout.flush()


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0]


if launched()[0] > 1:
    _install_hook()


__all__ = ["Failure", "attach", "run"]
