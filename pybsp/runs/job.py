"""The ranks that one mpiexec has started for this process, from the first of them to the last.

What they run is in serving.py. This process is no rank: it meets each of them at a socket, and waits there.
"""

from __future__ import annotations

import codecs
import os
import re
import selectors
import signal
import subprocess
import sys
import time
import weakref
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, NoReturn

from ..errors import AbortError, LauncherError, ProcessorError, SyncError, UsageError, where
from ..ground import settings
from ..ground.failures import outcome
from ..processes.mpiexec import FOREIGN, launcher
from ..processes.notebook import CellProgress, in_notebook
from ..processes.shipping import Line, Parcel, Received, Rendezvous, Sender
from . import signals, threads
from .serving import ADDRESS, Aborted, At, Done, Hello, Raised, RunRequest

if TYPE_CHECKING:
    from ..ledger.ledger import Ledger

STARTING = 120.0  # seconds that ranks get to start in
ENDING = 5.0  # seconds that they get to end in, and as much again their launcher
LOOK = 0.2  # seconds between two looks whether the launcher is there
REPORTING = 1.0  # seconds that ranks get to say where they are
LONGEST = 1 << 16  # bytes of a line that is printed as a whole

_ALLOCATIONS = ("SLURM_JOB_ID", "PBS_NODEFILE", "LSB_DJOB_HOSTFILE", "PE_HOSTFILE")  # of several hosts, maybe
_SERVE = (
    "import sys; sys.path.insert(0, {!r}); import pybsp; del sys.path[0]; from pybsp.runs.serving import main; main()"
)

_NEXT_LINE = re.compile(rb"(\n|\r(?!\n))(?=.)", re.DOTALL)


class Ended(NamedTuple):
    """How a run has ended on one processor.

    own: it failed, and of itself, not since another did.
    expected: a test expects that.
    """

    result: Any = None
    error: BaseException | None = None
    own: bool = False
    expected: bool = False


class OnRank(Exception):  # noqa: N818 - no error of its own: the cause that Python prints above one
    """Where on a rank an exception came from; the cause of what is raised in the process that started it."""

    def __str__(self) -> str:
        return "\n" + str(self.args[0]).rstrip()


class _Output:
    """What a rank prints on one of its two outputs: it comes line by line, with the rank's number before each.

    A line may end with a carriage return, as those of progress bars do; one that is too long comes in pieces.
    """

    def __init__(self, line: Line, pid: int, number: int) -> None:
        self.line, self.pid, self._number = line, pid, number
        self._rest = bytearray()  # it has come, and is not printed
        self._last = b"\n"  # byte that was printed
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self.over = False  # nothing comes any more

    def read(self, mark: bytes) -> bool:
        """Print what is there; whether the mark was, or nothing comes any more."""
        try:
            data = os.read(self.line.fileno(), 1 << 16)
        except OSError:
            data = b""
        self.over, rest, old = not data, self._rest, len(self._rest)
        rest += data
        marked = rest.find(mark, max(old - len(mark), 0)) if mark else -1
        ends = self.over or marked >= 0
        if ends:
            size = marked if marked >= 0 else len(rest)
        else:
            size = max(rest.rfind(b"\n", old), rest.rfind(b"\r", old)) + 1
            if len(rest) - size > LONGEST:
                size = len(rest) - len(mark)  # the mark may have begun
        text = bytes(rest[:size])
        del rest[: size + (len(mark) if marked >= 0 else 0)]
        if ends and (self._last + text)[-1:] != b"\n":
            text += b"\n"
        if text:
            self._print(text)
        return ends

    def _print(self, text: bytes) -> None:
        """Print it as far as that can be done: no run fails for its output."""
        numbered = _NEXT_LINE.sub(rb"\1[%d] " % self.pid, self._last + text)[1:]
        self._last = text[-1:]
        to = sys.stdout if self._number == 1 else sys.stderr
        if to is None:
            return
        encoding = getattr(to, "encoding", None) or "utf-8"
        with suppress(OSError, ValueError):  # a full disk, a reader that has gone; a closed file
            to.write(self._decoder.decode(numbered).encode(encoding, "backslashreplace").decode(encoding))
            to.flush()


class _StartedRank(NamedTuple):
    """One of the ranks that were started."""

    hello: Hello
    line: Line
    outputs: tuple[_Output, _Output]


_jobs: weakref.WeakSet[Job] = weakref.WeakSet()


def _leave_to_the_parent() -> None:
    """In a child that was forked: have none of the lines, whose ranks end with the parent as they close."""
    for job in _jobs:
        for line in job._lines:
            line.leave()


os.register_at_fork(after_in_child=_leave_to_the_parent)


class Job:
    """Ranks that one mpiexec has started. It is over when they have ended, or were ended.

    One thread uses it at a time. Any may set `stopping`: what goes on ends at its next look.

    Args (here and in methods):
        operation: that the user has called, for errors.
        owner: who uses them: they end with it, and with Python.
    """

    def __init__(self, p: int, hosts: str, operation: str, owner: object) -> None:
        self.p, self.over, self.stopping = p, False, False
        self._process = os.getpid()
        self._progress = in_notebook()
        self._ranks: list[_StartedRank] = []
        self._lines: list[Line] = []  # of all of them, three of each
        self._sender = Sender()
        self._mark = b"\x1e" + os.urandom(12).hex().encode() + b"\n"
        self._printed: deque[str] = deque(maxlen=40)  # lines of the launcher
        far = bool(hosts) or any(name in os.environ for name in _ALLOCATIONS)
        environment = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
        if not far:
            environment.update(threads.of_ranks(p))
        forwarded = [ADDRESS, *(name for name in environment if name.startswith("PYBSP_") or name == "PYTHONPATH")]
        root = str(Path(__file__).parents[2])
        command = [*launcher(p, forwarded, hosts), sys.executable, "-c", _SERVE.format(root)]
        self._meeting: Rendezvous | None = Rendezvous(far)
        environment[ADDRESS] = f"{self._meeting.address} {self._progress:d} {operation}"
        try:
            self._mpiexec = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # an interrupt of the terminal is for this process, which tells them
            )
        except OSError as error:
            self._meeting.close()
            raise LauncherError(f"{operation}: {command[0]} cannot be started: {error}") from None
        assert self._mpiexec.stdout is not None
        self._output: IO[bytes] = self._mpiexec.stdout
        os.set_blocking(self._output.fileno(), False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._output, selectors.EVENT_READ, self._hear)
        self._end_with_owner = weakref.finalize(owner, self.kill)
        _jobs.add(self)

    @property
    def inherited(self) -> bool:
        """Whether this process is a child that was forked since: the ranks are its parent's."""
        return os.getpid() != self._process

    @property
    def lost(self) -> bool:
        """Whether ranks that were there have ended, or their launcher has, while nothing ran."""
        there = self._meeting is None
        return there and (self._mpiexec.poll() is not None or any(rank.line.hung_up(0) for rank in self._ranks))

    def ready(self, operation: str) -> None:
        """Wait until all ranks are there; the job is over where this raises."""
        try:
            if self._meeting is not None:
                self._meet(operation)
        except BaseException:
            self.kill()
            raise

    def _hear(self) -> None:
        """Keep what the launcher says."""
        data = b""
        with suppress(BlockingIOError):
            data = os.read(self._output.fileno(), 1 << 16)
            if not data:
                self._selector.unregister(self._output)
        self._printed.extend(data.decode(errors="replace").splitlines())

    # -- the beginning ------------------------------------------------------------------------------------------------

    def _meet(self, operation: str) -> None:
        """Wait until all ranks are there."""
        meeting = self._meeting
        assert meeting is not None
        for file in meeting.files():
            self._selector.register(file, selectors.EVENT_READ, None)
        came: dict[str, dict[int, Line]] = {}
        found: dict[int, _StartedRank] = {}
        until = time.monotonic() + STARTING
        while len(found) < self.p:
            for key, _ in self._selector.select(LOOK):
                if isinstance(key.data, str):
                    lines = came[key.data]
                    try:
                        hello, _received = lines[0].receive()
                    except (EOFError, OSError):
                        self._not_started(operation, "a rank ended", came)
                    self._selector.unregister(lines[0])
                    if hello.p != self.p:
                        self._not_started(
                            operation,
                            f"the launcher started {self.p} processes, but MPI ({hello.library}) says of one that it "
                            f"is rank {hello.pid} of {hello.p}",
                            came,
                        )
                    outputs = _Output(lines[1], hello.pid, 1), _Output(lines[2], hello.pid, 2)
                    found[hello.pid] = _StartedRank(hello, lines[0], outputs)
                elif key.data is not None:
                    key.data()
                elif (line := meeting.accept()) is not None:
                    self._lines.append(line)
                    try:
                        (who, number), _received = line.receive()
                    except (EOFError, OSError):
                        self._not_started(operation, "a rank ended", came)
                    came.setdefault(who, {})[number] = line
                    if not number:
                        self._selector.register(line, selectors.EVENT_READ, who)
            if self._mpiexec.poll() is not None:
                self._not_started(operation, f"the launcher ended with the status {self._mpiexec.returncode}", came)
            if self.stopping:
                raise UsageError(f"{operation}: these ranks were closed while they started; pybsp.ranks starts others")
            if time.monotonic() > until:
                self._not_started(operation, f"{len(found)} of {self.p} ranks came within {STARTING:.0f} s", came)
        for file in meeting.files():
            self._selector.unregister(file)
        meeting.close()
        self._meeting = None
        self._ranks = [rank for _, rank in sorted(found.items())]
        for rank in self._ranks:
            self._selector.register(rank.line, selectors.EVENT_READ, rank)
            for output in rank.outputs:
                self._selector.register(output.line, selectors.EVENT_READ, output)

    def _not_started(self, operation: str, why: str, came: dict[str, dict[int, Line]]) -> NoReturn:
        """The ranks do not come to be; the way out is in what they, or their launcher, say."""
        until = time.monotonic() + ENDING
        while self._mpiexec.poll() is None and time.monotonic() < until and why == "a rank ended":
            time.sleep(LOOK / 4)
        if self._output in self._selector.get_map():
            self._hear()
        lines_printed = [*self._printed]
        for lines in came.values():
            for number in (1, 2):
                if number in lines:
                    os.set_blocking(lines[number].fileno(), False)
                    with suppress(OSError):
                        lines_printed += os.read(lines[number].fileno(), 1 << 16).decode(errors="replace").splitlines()
        self.kill()
        text = "".join(f"\n  {line}" for line in lines_printed)
        raise LauncherError(
            f"{operation}: {self.p} ranks could not be started: {why}; `pybsp run -n {self.p} program.py` should work "
            f"first{'; this was said:' * bool(lines_printed)}{text}"
        )

    # -- a run --------------------------------------------------------------------------------------------------------

    def run(
        self, program: Parcel, options: dict[str, Any], name: str, limit: float | None, operation: str
    ) -> tuple[list[Ended], Ledger | None]:
        """See `Ranks.attempt`; the job is over where this raises."""
        __tracebackhide__ = True  # by pytest
        self.ready(operation)
        try:
            return self._run(program, options, name, limit, operation)
        except BaseException:
            self.kill()
            raise

    def _run(
        self, program: Parcel, options: dict[str, Any], name: str, limit: float | None, operation: str
    ) -> tuple[list[Ended], Ledger | None]:
        __tracebackhide__ = True  # by pytest
        folder = ""
        with suppress(FileNotFoundError):  # it is gone
            folder = os.getcwd()
        call = RunRequest(
            operation, where(), options, settings.set_here(settings.OF_RUN), sys.path[:], folder, self._mark
        )
        arena = self._sender.put(program)
        for rank in self._ranks:
            with suppress(OSError):  # one that has died is noticed below
                rank.line.send(call, program, arena)
        progress = CellProgress(self.p)
        done: dict[int, tuple[Done, Received]] = {}
        first: list[tuple[int, Raised, Received]] = []  # that failed of themselves
        aborted: list[str] = []  # why processors end the job
        printed = {output for rank in self._ranks for output in rank.outputs if output.over}
        until = None if limit is None else time.monotonic() + limit
        gone = -1
        try:
            while len(done) < self.p or len(printed) < 2 * self.p:
                for key, _ in self._selector.select(LOOK):
                    at = key.data
                    if isinstance(at, _Output):
                        if at.read(self._mark):
                            printed.add(at)
                        if at.over:
                            self._selector.unregister(at.line)
                    elif isinstance(at, _StartedRank):
                        try:
                            about, received = at.line.receive()
                        except (EOFError, OSError):
                            gone = at.hello.pid
                            break
                        if isinstance(about, At):
                            progress.at(at.hello.pid, about.superstep, about.label)
                        elif isinstance(about, Raised):
                            first.append((at.hello.pid, about, received))
                        elif isinstance(about, Aborted):
                            aborted.append(about.why)
                        else:
                            done[at.hello.pid] = about, received
                    else:
                        at()
                if gone >= 0 or self._mpiexec.poll() is not None:
                    self._lost(gone, name, first, aborted)
                if self.stopping:
                    raise UsageError(
                        f"{operation}: {name} was ended, as its ranks were closed while it ran; pybsp.ranks starts "
                        "others"
                    )
                if until is not None and time.monotonic() > until:
                    self._late(limit or 0.0, name, [pid for pid in range(self.p) if pid not in done])
                progress.show()
        finally:
            progress.end()
        if any(one.in_use for one, _ in done.values()):
            self._sender.forget()
        return self._ended(operation, done)

    def _ended(self, operation: str, done: dict[int, tuple[Done, Received]]) -> tuple[list[Ended], Ledger | None]:
        from ..ground.by_value import loads_back

        found: list[Ended] = []
        ledger = None
        for pid in range(self.p):
            how, received = done[pid]
            if how.failed is not None:
                error = _exception(pid, how.failed, received)
                found.append(Ended(None, error, how.failed.own, how.failed.expected))
                continue
            try:
                result, of_all = received.load(loads_back)
            except Exception as error:
                found.append(Ended(error=_unloaded(operation, pid, error), own=True))
                continue
            ledger = of_all if pid == 0 else ledger
            found.append(Ended(result))
        return found, ledger

    def _lost(
        self, gone: int, name: str, first: list[tuple[int, Raised, Received]], aborted: Sequence[str] = ()
    ) -> NoReturn:
        """A rank has ended while a program ran: raise why, if it is known."""
        __tracebackhide__ = True  # by pytest
        self._drain(ENDING)
        own = [one for one in first if one[1].own]
        if own:
            pid, raised, received = min(own, key=lambda one: one[0])
            raise _exception(pid, raised, received)
        for pid, raised, received in sorted(first, key=lambda one: one[0]):
            error = _exception(pid, raised, received)
            if isinstance(error, SyncError) and not isinstance(error, ProcessorError):
                raise error  # others did not come in time, and were ended with the job
        if aborted:
            raise AbortError(aborted[0])
        with suppress(subprocess.TimeoutExpired):  # it has closed its output, and is about to end
            self._mpiexec.wait(ENDING)
        status = self._mpiexec.poll()
        lines_printed = "".join(f"\n  {line}" for line in self._printed if line.strip(" ="))
        place = f"processor {gone}" if gone >= 0 else "a processor"
        ending = "" if status is None else f"; the launcher ended with the status {status}"
        raise ProcessorError(f"{place} ended while {name} ran{ending}{lines_printed}", max(gone, 0), 0, "")

    def _late(self, limit: float, name: str, absent: Sequence[int]) -> NoReturn:
        """A program has outlasted its limit: ranks say where they are, and are ended."""
        __tracebackhide__ = True  # by pytest
        number = signals.configured_signal()
        for rank in self._ranks:
            if rank.line.near and number is not None:
                with suppress(OSError):
                    os.kill(rank.hello.process, number)
        self._drain(REPORTING)
        names = ", ".join(map(str, absent))
        raise TimeoutError(f"{name} took longer than {limit:g} s, its limit; not at its end: processors {names}")

    def _drain(self, seconds: float) -> None:
        """Print what is on its way, until nothing comes any more or it has taken so long."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and self._selector.get_map():
            ready = self._selector.select(LOOK)
            for key, _ in ready:
                at = key.data
                if isinstance(at, _Output):
                    if at.read(b""):
                        self._selector.unregister(at.line)
                elif isinstance(at, _StartedRank):
                    self._selector.unregister(at.line)
                elif at is not None:
                    at()
            if self._mpiexec.poll() is not None and not ready:
                return

    # -- the end ------------------------------------------------------------------------------------------------------

    def end(self) -> None:
        """Let the ranks end, as they do where a program ends."""
        if self.over or self.inherited:
            return
        try:
            with suppress(OSError, subprocess.TimeoutExpired):  # they have ended otherwise
                for rank in self._ranks:
                    rank.line.send(None)
                if self._ranks:
                    self._drain(ENDING)
                    self._mpiexec.wait(ENDING)
        finally:
            self.kill()

    def kill(self) -> None:
        """End the ranks wherever they are, unless they have ended."""
        if self.over or self.inherited:
            return
        self.over = True
        self._end_with_owner.detach()
        if self._meeting is not None:
            self._meeting.close()
        for line in self._lines:
            line.close()  # which ends a rank that runs a program
        if self._mpiexec.poll() is None:
            self._mpiexec.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._mpiexec.wait(ENDING)
        if self._mpiexec.poll() is None:
            for rank in self._ranks:
                if rank.line.near:
                    with suppress(OSError):
                        os.kill(rank.hello.process, signal.SIGKILL)
            self._mpiexec.kill()
            self._mpiexec.wait()
        self._output.close()
        self._selector.close()
        self._sender.forget()


def _unloaded(operation: str, pid: int, cause: Exception) -> ProcessorError:
    """The error of a result that has come, and cannot be made here."""
    error = ProcessorError(
        f"{operation}: the result of processor {pid}: expected what can be unpickled in this process, got "
        f"{type(cause).__name__}: {cause}; return numbers, arrays or other plain values, or make its classes and their "
        "modules known here too",
        pid,
        0,
        "",
    )
    error.__cause__ = cause
    outcome(error).pid = pid
    return error


def _exception(pid: int, raised: Raised, received: Received) -> BaseException:
    """What a processor raised; a ProcessorError where that did not come whole."""
    from ..ground.by_value import loads_back

    error: BaseException | None = None
    with suppress(Exception):
        error = received.load(loads_back)
    if error is None:
        error = ProcessorError(f"processor {pid} failed: {raised.text}", pid, 0, "")
    try:
        text = raised.trace if isinstance(raised.trace, str) else "".join(loads_back(raised.trace).format())
    except Exception:
        text = raised.text
    error.__cause__ = OnRank(text)
    outcome(error).pid, outcome(error).origin = pid, raised.origin
    return error
