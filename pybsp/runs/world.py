"""The ranks of this job: where they all meet, and how the job ends, well or badly.

All runs of a job use one transport of all ranks. An exception that nobody catches is reported to the others there, so
that they raise too, and printed once; and a rank that ends its program meets the others there once more. Only those
that cannot be met within the grace period are ended with the job.
"""

from __future__ import annotations

import atexit
import math
import os
import select
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, NoReturn

from ..errors import BSPError, LauncherError, SyncError, UsageError, usage_error, where
from ..ground import settings
from ..ground.announcing import announce, announce_error, flush
from ..ground.failures import Failure, culprit, failure_of, note_place, outcome, quiet, say_place, speaker
from ..messages import agreement
from ..messages.agreement import settle
from ..processes import leftovers, process, slurm
from ..processes.attendance import END, take_leave
from ..processes.process import launched
from ..supersteps.superstep import SuperstepEngine
from ..transport import EXIT, FAIL, KIND, Arrival
from ..transport.launcher import DRAIN, abort_job, check_launcher, library, load
from ..transport.medium import MPITransport
from ..transport.mpi import WATCH, duplicate
from ..transport.revocation import Revocation
from ..transport.window import free_windows
from . import signals
from .watch import running

_world: MPITransport | None = None  # of all ranks; made by the first run, used by all
_world_open = False  # whether all ranks still meet there
_abandoned = False  # ranks that it would need have ended before its first run
_elsewhere = False  # whether a transport has had ranks of several hosts
_refuses_to_vanish = False  # whether others stand in the place of os._exit and MPI.Finalize
_alone = False  # no MPI library can be loaded; printed once
_FIRST = 1.0  # seconds that others leave to the one that says why the job ends
_sessions = 0  # that have begun: what is known of an exception is known in one of them


def world_transport(operation: str = "pybsp.run") -> MPITransport | None:
    """The transport of all ranks; None where there is no MPI library, and none is needed."""
    global _world, _world_open, _alone
    require_processor(operation)
    install_hook()
    if _alone:
        return None
    if _abandoned:
        raise BSPError(f"{operation}: other ranks of this job have ended without a run; no run is possible")
    if _world is None:
        leftovers.make_room()
        try:
            mpi = usable_mpi(operation)
        except LauncherError as error:
            raise _printed_by_first(error) from None
        except (ImportError, RuntimeError, OSError) as error:
            size, _ = launched()
            if size > 1:
                raise _printed_by_first(
                    LauncherError(
                        f"pybsp: a launcher started {size} processes, but Python can load no MPI library "
                        f"({_first_line(error)}); install one: pip install mpich, and start with its mpiexec "
                        "(`pybsp run -n ...`)"
                    )
                ) from None
            announce(
                f"pybsp: no MPI library can be loaded ({_first_line(error)}); running on one virtual processor. "
                "pip install mpich brings one."
            )
            _alone = True
            return None
        require_launcher(mpi.COMM_WORLD.size)
        line = where()
        _world = duplicate(
            mpi.COMM_WORLD, operation, watch=lambda: _all_may_come(operation, line), graceful=grace_or_default
        )
        _world_open = True
        atexit.register(_leave_job)
        if _world.p > 1:
            refuse_to_vanish(_world)
        return _world
    usable_mpi(operation)
    if not _world_open:
        raise _ended_already(operation)
    return _renewed(_world, operation=operation)


def _ended_already(operation: str) -> BSPError:
    return BSPError(f"{operation}: other ranks of this job have ended already; no run is possible any more")


def _renewed(transport: MPITransport, waits: float | None = None, operation: str = "pybsp.run") -> MPITransport:
    """The transport of all ranks, made anew where the last run has left it revoked; collective.

    Raises:
        TimeoutError: not all have come in so many seconds.
        BSPError: a processor has ended its program meanwhile, and does not come.
    """
    global _world
    if transport.settled is not None:
        if transport.ended:
            _close_world()
            raise _ended_already(operation)
        try:
            _world = transport = transport.renewed(waits)
        except TimeoutError:
            raise
        except BaseException as error:
            _print_at_once(error)
            transport.abort(
                f"pybsp: processor {transport.pid} was interrupted while all made the transport of the next run; "
                "ending the job"
            )
            raise
    return transport


def refuse_to_vanish(transport: MPITransport) -> None:
    """Let no `os._exit` pass without a word, and no `os._exit(0)` for a good end of a job.

    MPICH's launcher then ends the others, with the status 0 too, and says nothing; those of other hosts it leaves.
    """
    global _elsewhere, _refuses_to_vanish
    _elsewhere = _elsewhere or len({*transport.hosts}) > 1
    if _refuses_to_vanish:
        return
    _refuses_to_vanish, leave = True, os._exit

    def _exit(status: int) -> NoReturn:
        try:
            if (_world_open or running) and process.takes_part() and _job_size() > 1:
                text = f"pybsp: processor {launched()[1]} called os._exit({status}) before the job has ended"
                if status == 0:
                    text, status = f"{text}; its status is 1", 1
                take_leave(END)
                os.write(2, f"{text}\n".encode())
                if _elsewhere:
                    time.sleep(DRAIN)
                    load().COMM_WORLD.Abort(status)
        finally:  # also where nobody reads what it says any more
            leave(status)

    os._exit = _exit
    mpi = load()
    mpi.Finalize = _outside_of_runs(mpi.Finalize)  # type: ignore[attr-defined]


def _outside_of_runs(finalize: Callable[[], None]) -> Callable[[], None]:
    """MPI.Finalize, which is refused inside of a run: MPI would end this process, and the others would wait for it."""

    def Finalize() -> None:
        if running:
            expected = "no run in this process, whose processors meet by MPI"
            way_out = "leave it out: MPI is finalized as Python ends"
            raise usage_error("MPI.Finalize", expected, f"a call inside of one, at {where()}", way_out)
        finalize()

    return Finalize


def _all_may_come(operation: str, line: str) -> None:
    """Raise SyncError where a rank of this host, which the first run waits for, will not come."""
    global _abandoned
    missing = process.siblings.ended(grace_or_default())
    if missing:
        _abandoned = True
        error = SyncError(_abandonment(missing, operation, line))
        mark(error, quiet=not process.speaks())
        outcome(error).alone = True
        raise error


def _abandonment(missing: list[int], operation: str, line: str) -> str:
    gone = "a processor of this host" if missing[0] < 0 else agreement.pids(missing)
    return (
        f"the processors did not do the same: {gone} ended without a run, or was killed before; processor "
        f"{launched()[1]} called {operation}, at {line}"
    )


def require_processor(operation: str) -> None:
    """Raise LauncherError in a process that a rank has started."""
    if not process.takes_part():
        size, rank = launched()
        raise LauncherError(
            f"{operation}: this process was started by processor {rank} of {size}, and is no processor itself: start "
            "it without the launcher's variables (PMI_*, PMIX_*, OMPI_*), or with mpiexec or `pybsp run`; "
            "pybsp.simulate works here"
        )


def tell_before_run(error: BaseException) -> None:
    """An exception came at the beginning of a run, where the others wait for this processor: they are told.

    Nothing happens where all know of it already, and where no run has met the others yet.
    """
    if _world is None or not _world_open or _job_size() == 1:  # as it is once MPI has been finalized
        return
    if agreed(error):
        return
    if isinstance(error, KeyboardInterrupt):  # as in a run: it ends the job, also where the program catches it
        end_interrupted(_world)
        return
    try:
        transport = _renewed(_world, grace_or_default())
    except TimeoutError:
        _end_late(_world, None, error)
        raise
    except BSPError:  # another has ended, and says what has failed
        return
    report_failure(transport, None, error)


def end_interrupted(transport: MPITransport) -> None:
    """End the job, of which this processor has been interrupted."""
    _let_first_end_it()
    transport.abort(f"pybsp: processor {transport.pid} was interrupted; ending the job")


def _let_first_end_it() -> None:
    """Who interrupts a step of Slurm (Ctrl-C, scancel) interrupts all of its tasks: one of them is enough to say so."""
    step = slurm.step()
    if step is not None and step.task != 0:
        time.sleep(_FIRST)


def usable_mpi(operation: str) -> Any:
    """The module mpi4py.MPI, with MPI initialised."""
    require_processor(operation)
    module = sys.modules.get("mpi4py.MPI")
    if process.siblings.several and (module is None or not module.Is_initialized()):
        library()  # what it cannot do, all find by themselves, however early the others end
        line = where()

        def verdict() -> str | None:
            missing = process.siblings.ended(grace_or_default())
            if not missing:
                return None
            return f"pybsp.errors.SyncError: {_abandonment(missing, operation, line)}\n" if process.speaks() else ""

        with _guard(verdict):
            load()
    mpi = load()
    if mpi.Is_finalized():
        raise BSPError(f"{operation}: MPI has been finalized in this process; call it before MPI.Finalize()")
    return mpi


def require_launcher(size: int) -> None:
    try:
        check_launcher(size)
    except LauncherError as error:
        raise _printed_by_first(error) from None


def _printed_by_first(error: LauncherError) -> LauncherError:
    """An error that all ranks find without being able to meet: the first prints it."""
    if launched()[1] != 0:
        mark(error, quiet=True)
        if "OMPI_COMM_WORLD_SIZE" in os.environ:
            time.sleep(
                grace_or_default()
            )  # this launcher ends all ranks as soon as one has ended so: let the first speak
        elif slurm.step() is not None:
            time.sleep(min(grace_or_default(), 1.0))  # srun does so where the site has it so (KillOnBadExit)
    else:
        mark(error, quiet=False)
    return error


def report_failure(
    transport: MPITransport, at: SuperstepEngine | None, error: BaseException, ends: bool = False, superstep: int = 0
) -> None:
    """A failure that only this processor knows of: tell the others, or end the job if they do not come.

    Args:
        transport: of those who learn of it.
        at: where it happened; None outside of a BSP run.
        error: the exception.
        ends: this process ends with it.
        superstep: outside of a BSP run, what to say of where; -1: nothing.
    """
    try:
        if at is not None:
            reported = at.report_failure(error)
            if reported is None:
                mark(error, quiet=False)  # the others have another error to tell
                _add_place(error, transport, at)
                return
            arrival = reported
        else:
            failure = failure_of(error, superstep, "")._replace(ends=ends)
            arrival = transport.exchange(FAIL, failure, {}, grace=grace_or_default())
    except TimeoutError:
        _end_late(transport, at, error)
        raise
    except BSPError:
        # All know of another failure.
        mark(error, quiet=speaker_of(error, at, transport) != transport.pid)
        return
    except BaseException as other:
        # Another exception came in between, of a signal's handler: the others can learn nothing any more.
        _print_at_once(error)
        transport.abort(
            f"pybsp: processor {transport.pid} failed, and again while it told the others ({other!r}); ending the job"
        )
        raise
    note_exits(arrival)
    notes = arrival.notes
    assert notes is not None
    speaks = culprit(notes) == transport.pid
    mark(error, quiet=not speaks)
    if speaks:
        _add_place(error, transport, at)
    if isinstance(error, SystemExit):
        # No hook sees it: Python ends with its status, and prints a status that is a text.
        together = all(isinstance(note, Failure) and note.exits for note in notes)
        if speaks and not together:
            _print_at_once(error)
        if isinstance(error.code, str) and not (speaks and together):
            error.code = 1  # has been printed, or will be


def _end_late(transport: MPITransport, at: SuperstepEngine | None, error: BaseException) -> None:
    """End the job, as the others do not come to where they would learn of a failure."""
    _add_place(error, transport, at)
    _print_at_once(error)
    transport.abort(
        f"pybsp: processor {transport.pid} failed, and not all others reached a sync within "
        f"{grace_or_default():g} s (PYBSP_GRACE); ending the job"
    )


def grace_or_default() -> float:
    """The grace period where nothing can be said any more of a wrong one."""
    try:
        return settings.seconds(settings.GRACE)
    except UsageError:
        return float(settings.DEFAULTS[settings.GRACE])


def _warn_after() -> float:
    """PYBSP_WARN_AFTER, in seconds, where nothing can be said any more of a wrong one."""
    try:
        return settings.seconds(settings.WARN_AFTER)
    except UsageError:
        return float(settings.DEFAULTS[settings.WARN_AFTER])


def _add_place(error: BaseException, transport: MPITransport, at: SuperstepEngine | None) -> None:
    """Say in the traceback where in the job it was."""
    explained = "" if at is None else at.explained(error)
    if transport.p > 1 or explained:
        place = "" if at is None else f", in {at.described(error)}{explained}"
        text = f"(on processor {transport.pid} of {transport.p}{place})"
        note_place(error, text)


def speaker_of(error: BaseException, at: SuperstepEngine | None, transport: MPITransport) -> int:
    """The processor that prints an error that all know of."""
    known = transport.settled or (at.gate.failed if at is not None else None) or error
    return speaker(known) if isinstance(known, BSPError) else 0


# -- what is printed, and how a job ends ------------------------------------------------------------------------------


def begin_session() -> None:
    """A run begins: of an exception that a program has kept from an earlier one, and raises again, nobody knows yet."""
    global _sessions
    _sessions += 1


def mark(error: BaseException, quiet: bool) -> None:
    """Note on an exception that all processors know of it, and whether this one leaves printing it to another."""
    record = outcome(error)
    record.agreed, record.quiet = _sessions, quiet


def mark_outside(error: BaseException, transport: MPITransport) -> None:
    """Note that ranks outside of the transport do not know."""
    from mpi4py import MPI

    outcome(error).alone = transport.p < MPI.COMM_WORLD.size


def agreed(error: BaseException) -> bool:
    return outcome(error).agreed == _sessions


_Hook = Callable[[type[BaseException], BaseException, TracebackType | None], Any]
_hooks: list[_Hook] = []  # ours; several, if the program has put its own over one of them
_ending = False


def install_hook() -> None:
    """See exceptions that nobody catches, before the hook that is there now."""
    previous = sys.excepthook
    if previous in _hooks:
        return

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        uncaught(error, lambda: previous(kind, error, trace))

    _hooks.append(hook)
    sys.excepthook = hook
    in_threads = threading.excepthook

    def thread_hook(uncaught: threading.ExceptHookArgs) -> None:
        if uncaught.exc_value is None or not quiet(uncaught.exc_value):
            in_threads(uncaught)

    threading.excepthook = thread_hook


def uncaught(error: BaseException, say: Callable[[], Any]) -> None:
    """An exception that nobody caught: print it once in the job, and leave no rank behind.

    Args:
        say: has the hook print it that was there before the one that calls this.
    """
    global _ending
    if _ending:  # called by the program's hook, which the outer one of ours has called
        say()
        return
    _ending = True

    def printed() -> None:
        try:
            say()
        except Exception as failure:  # of the program's own hook: the job is to end
            announce_error(failure)
            announce_error(error)
        else:
            if not flush():  # Python's says nothing of words that are lost
                announce_error(error)

    try:
        _end(error, printed)
    finally:
        _ending = False


def _end(error: BaseException, say: Callable[[], Any]) -> None:
    if not process.takes_part():
        say()
        return
    ends = isinstance(error, KeyboardInterrupt) or any(watch.in_another_thread for watch in running)
    if _job_size() > 1 and not agreed(error) and (ends or not _tell(error)):
        if isinstance(error, KeyboardInterrupt):
            _let_first_end_it()
        say()
        abort_job()
    record = outcome(error)
    if not record.quiet:
        say()
        say_place(error)
        flush()
    if record.alone:
        if record.quiet and not record.silent:
            time.sleep(_FIRST)  # who prints it ends the job; others would see this end first, and take it for the cause
        else:
            abort_job()  # the ranks outside of the attached communicator would wait for ever


def _tell(error: BaseException) -> bool:
    """Tell the other ranks of a failure outside of any run, in their next one; False if there is no meeting them."""
    if _world is not None and not _world_open:
        return False
    try:
        transport = _place_of_failure(error) if _world is None else _renewed(_world, grace_or_default())
    except Exception:
        return False
    _close_world()
    report_failure(transport, None, error, ends=True)
    return True


def _place_of_failure(error: BaseException) -> MPITransport:
    """`_meeting_place`, within the grace period; TimeoutError if the others do not come."""
    global _world
    module = sys.modules.get("mpi4py.MPI")
    if module is None or not module.Is_initialized():
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        until = time.monotonic() + grace_or_default()
        with _guard(lambda: text if time.monotonic() > until else None):
            load()
    _world = _meeting_place(grace_or_default())
    return _world


def _meeting_place(waits: float) -> MPITransport:
    """The transport that the others make in their first run; TimeoutError if they do not come in so many seconds."""
    for setting in settings.OF_TRANSPORT:
        os.environ.pop(setting, None)  # may be what is wrong
    return duplicate(load().COMM_WORLD, "pybsp.run", waits, graceful=grace_or_default)


@contextmanager
def _guard(verdict: Callable[[], str | None]) -> Iterator[None]:
    """End this process if there is a verdict while it is in the block, in which Python cannot run.

    MPI_Init waits for all ranks; those that never come to it leave no other way.

    Args:
        verdict: asked now and then, in a process forked here: None, or what is to be printed before the end.
    """
    reads, writes = os.pipe()
    flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a fork beside other threads; the child calls nothing that locks
        child = os.fork()
    if child == 0:
        try:
            os.close(writes)
            while not select.select([reads], [], [], WATCH)[0]:  # else it is done, or dead
                text = verdict()
                if text is not None:
                    signals.write(text)
                    time.sleep(DRAIN)
                    os.kill(os.getppid(), signal.SIGKILL)
                    time.sleep(DRAIN)  # nobody else gets to speak before the launcher has ended the job
                    break
        finally:
            os._exit(0)
    os.close(reads)
    try:
        yield
    finally:
        os.close(writes)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _print_at_once(error: BaseException) -> None:
    """Print an exception without waiting for it to leave the program."""
    announce_error(error)
    say_place(error)


def _job_size() -> int:
    module = sys.modules.get("mpi4py.MPI")
    if not process.takes_part() or (module is not None and module.Is_finalized()):
        return 1  # nobody can be met any more, and nobody waits
    if module is not None and module.Is_initialized():
        return int(module.COMM_WORLD.size)
    return 1 if _alone else launched()[0]


def _close_world() -> None:
    global _world_open
    _world_open = False


def note_exits(arrival: Arrival) -> None:
    """After a rank has left the job nobody meets there again."""
    if any(kind & KIND == EXIT for kind in arrival.kinds or ()) or any(
        isinstance(note, Failure) and note.ends for note in arrival.notes or ()
    ):
        _close_world()


def _leave_job() -> None:
    """At exit: meet the others, so that a rank that ends while others run is an error there and no hang."""
    if _world is None or not process.takes_part() or load().Is_finalized():
        return
    if any(watch.in_another_thread for watch in running):
        announce(
            f"pybsp: processor {_world.pid} ended its program while its run went on in another thread, which ends with "
            "it; join that thread first; ending the job"
        )
        abort_job()
    try:
        for revocation in Revocation.unsettled[:]:  # an exchange was left, and nobody has met since
            failure = failure_of(revocation.cause or BSPError("the exchange was left"), 0, "")
            revocation.agree(failure._replace(ends=True), revocation.grace())
        if not _world_open:
            return
        _close_world()
        meets = True
        while meets:
            # Failures are printed where they happened; ranks that have not ended raise SyncError.
            with suppress(BSPError):
                world = _renewed(_world)
                arrival = world.exchange(EXIT, None, {})
                settle(world.exchange, arrival, EXIT, "left the job", 0, "")
                world.free()
            # Another may have left its last exchange by an exception: it has told so here, and has yet to end itself.
            meets = _world.settled is not None and not _world.ended
    except (KeyboardInterrupt, SystemExit, TimeoutError):
        abort_job()
    except BaseException as error:
        # Whatever came in between: the others wait for this processor, and would do so for ever.
        _print_at_once(error)
        abort_job()
    finally:
        flush()


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0]


def leave_without_run() -> None:
    """At exit, where there was no run: others may be about to wait for this rank, in their first one."""
    if not process.takes_part():
        return
    if _abandoned:
        abort_job()
    if _world is None and not (process.siblings.elsewhere and _met_at_exit()):
        process.leave()


def _met_at_exit() -> bool:
    """Meet all ranks, of all hosts, each in its first run or at its end; False where that cannot be.

    No rank is waited for that ends by itself, which only its own host can see; and a program's own MPI is left alone.
    """
    module, step = sys.modules.get("mpi4py.MPI"), slurm.step()
    if module is not None and (module.Is_initialized() or module.Is_finalized()):
        return False
    if (step is not None and step.kind == "none") or process.siblings.ended(grace_or_default()):
        return False
    try:
        if library().Is_initialized():
            return False
        with _reporting_wait():
            transport = _meeting_place(math.inf)
    except (ImportError, RuntimeError, OSError, LauncherError):  # so it is on all, and in their first run
        return False
    try:
        with suppress(BSPError):  # ranks that have come to a run raise SyncError
            arrival = transport.exchange(EXIT, None, {})
            settle(transport.exchange, arrival, EXIT, "left the job", 0, "")
            transport.free()
        free_windows()  # at exit, as the others: what is registered there by now is not called any more
    except (KeyboardInterrupt, SystemExit):
        abort_job()
    return True


@contextmanager
def _reporting_wait() -> Iterator[None]:
    """Say once, after PYBSP_WARN_AFTER, that this rank waits in MPI_Init, where Python cannot run.

    Another process says it, which ends with this one: Python starts no threads at exit, and does not fork.
    """
    import subprocess  # nobody else needs it

    after = _warn_after()
    if after == 0:
        yield
        return
    size, rank = launched()
    text = (
        f"pybsp: processor {rank} has ended without a run, and has waited {after:g} s for the others of {size} to "
        "end or to begin one (MPI_Init); where one has ended before it imported pybsp, they never will: end the job\n"
    )
    flush()
    waits = "import select, sys; select.select([0], [], [], float(sys.argv[1]))[0] or sys.stderr.write(sys.argv[2])"
    command = [sys.executable, "-I", "-S", "-c", waits, f"{after}", text]
    with subprocess.Popen(command, stdin=subprocess.PIPE):  # which its end waits for
        yield
