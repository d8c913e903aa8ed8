"""`start_ranks` and `ranks`: MPI ranks from a notebook, or from a script that no launcher has started.

This process starts them with mpiexec (serving.py is what they run), sends each the program (shipping.py), prints what
they print, and gives back their results. It is no rank itself, and loads no MPI library.
"""

from __future__ import annotations

import atexit
import inspect
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, NoReturn

from . import process, settings, signals
from .errors import LauncherError, ProcessorError, UsageError
from .keywords import check_keywords, timeout_of
from .mpiexec import launcher
from .notebook import Progress, in_notebook
from .serving import ADDRESS, At, Call, Done, Hello, Raised
from .session import is_running
from .shipping import Line, Meeting, Parcel, Received, Sender, pickled
from .transport.virtual import is_virtual

if TYPE_CHECKING:
    from .ledger import Ledger
    from .machine import BSPMachine
    from .routing.choice import Routing

STARTING = 120.0  # seconds that ranks get to start in
ENDING = 5.0  # seconds that they get to end in, and as much again their launcher
LOOK = 0.2  # seconds between two looks whether the launcher is there
REPORTING = 1.0  # seconds that ranks get to say where they are

# Of launchers and resource managers: what ranks inherit of them would be taken for a word about these ranks.
_OF_LAUNCHERS = ("PMI_", "PMIX_", "OMPI_COMM_WORLD_", "OMPI_UNIVERSE_", "MPI_LOCAL", "PYBSP_PROCESS")
_ALLOCATIONS = ("SLURM_JOB_ID", "PBS_NODEFILE", "LSB_DJOB_HOSTFILE", "PE_HOSTFILE")  # of several hosts, maybe
_SERVE = "import sys; sys.path.insert(0, {!r}); import pybsp; del sys.path[0]; from pybsp.serving import main; main()"


@dataclass(frozen=True)
class Execution:
    """What a run on ranks gives.

    results: of each processor, by pid.
    ledger: of all its supersteps, measured.

    Examples:
        >>> execution = pybsp.start_ranks(lambda bsp: bsp.sync(), n=2)
        >>> execution.results, len(execution.ledger)
        ([None, None], 1)
    """

    results: list[Any]
    ledger: Ledger


class Ended(NamedTuple):
    """How a run has ended on one processor.

    own: it failed, and of itself, not since another did.
    """

    result: Any
    error: BaseException | None
    own: bool


class OnRank(Exception):  # noqa: N818 - no error of its own: the cause that Python prints above one
    """Where on a rank an exception came from; the cause of what is raised in the process that started it."""

    def __str__(self) -> str:
        return "\n" + str(self.args[0]).rstrip()


def start_ranks(
    main: Callable[..., Any],
    *args: Any,
    n: int | None = None,
    hosts: str | Sequence[str] | None = None,
    router: Routing = "direct",
    machine: BSPMachine | None = None,
    checked: bool | None = None,
    timeout: float | None = None,
    **kwargs: Any,
) -> Execution:
    """Run a program on n new MPI ranks, from a notebook or a script: `main(bsp, *args, **kwargs)` on each.

    The ranks are processes of their own, started by mpiexec, and end with the call. The program and its arguments go to
    them by value (cloudpickle), so functions of a notebook and closures can be run; modules are imported there. What
    ranks print appears here, after the number of its processor. An interrupt, or the end of this process, ends them.

    Args:
        main: the program.
        n: ranks; None: as many as the allocation of a resource manager has tasks, or this computer cores.
        hosts: where they run: names as `"a,b"` or `["a", "b"]`, each with its number of ranks if wanted (`"a:4"`); None:
            here, or in the allocation.
        router, machine, checked, timeout: as in `pybsp.run`.
        kwargs: main's; the names above are not (`pybsp.keywords`).

    Returns:
        the results by pid, and the ledger.

    Raises:
        Exception: what main raised, on the lowest processor that failed of itself; the cause has its traceback there.
        ProcessorError: a processor ended, or its exception cannot be sent.
        SyncError: the processors did not do the same.
        UsageError: wrong arguments; called by a rank, or inside of a run.
        LauncherError: no ranks could be started.

    Examples:
        >>> def main(bsp, factor):
        ...     bsp.send((bsp.pid + 1) % bsp.p, factor * bsp.pid)
        ...     bsp.sync()
        ...     return bsp.inbox[0].payload
        >>> pybsp.start_ranks(main, 10, n=3).results
        [20, 0, 10]
    """
    _check("pybsp.start_ranks", main, args, timeout, n=n, hosts=hosts, router=router, machine=machine, checked=checked)
    with ranks(n, hosts=hosts) as started:
        return started.run(main, *args, router=router, machine=machine, checked=checked, timeout=timeout, **kwargs)


def ranks(n: int | None = None, *, hosts: str | Sequence[str] | None = None) -> Ranks:
    """MPI ranks that stay for several runs: `with pybsp.ranks(4) as ranks: ranks.run(main, ...)`.

    Args, raises: as in `start_ranks`.

    Examples:
        >>> with pybsp.ranks(2) as ranks:
        ...     [ranks.run(lambda bsp, k: k * bsp.pid, k).results for k in (1, 2, 3)]
        [[0, 1], [0, 2], [0, 3]]
    """
    return Ranks(n, hosts)


class Ranks:
    """MPI ranks that wait for programs, made by `pybsp.ranks`. While they wait they use no processor.

    What a program leaves in modules is there in the next one. Where a run has ended with the job (an interrupt, a
    processor that died), the next one gets new ranks.

    Attributes:
        p: how many.

    Examples:
        >>> ranks = pybsp.ranks(2)
        >>> ranks.run(lambda bsp: bsp.p).results, ranks.p
        ([2, 2], 2)
        >>> ranks.close()
    """

    def __init__(self, n: int | None, hosts: str | Sequence[str] | None) -> None:
        _require_outside("pybsp.ranks")
        self.p, self._hosts = _number(n), _hosts(hosts)
        self._job: _Job | None = _Job(self.p, self._hosts)
        self._closed = False

    def __enter__(self) -> Ranks:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(
        self,
        main: Callable[..., Any],
        *args: Any,
        router: Routing = "direct",
        machine: BSPMachine | None = None,
        checked: bool | None = None,
        timeout: float | None = None,
        **kwargs: Any,
    ) -> Execution:
        """Run a program on these ranks; see `start_ranks`."""
        timeout = _check("ranks.run", main, args, timeout, router=router, machine=machine, checked=checked)
        options = {"router": router, "machine": machine, "checked": checked, "timeout": timeout}
        ended, ledger = self.attempt(main, args, kwargs, options)
        first = next((one for one in ended if one.own), None) or next((one for one in ended if one.error), None)
        if first is not None:
            assert first.error is not None
            raise first.error
        assert ledger is not None
        return Execution([one.result for one in ended], ledger)

    def attempt(
        self,
        main: Callable[..., Any],
        args: Sequence[Any],
        kwargs: dict[str, Any],
        options: dict[str, Any],
        limit: float | None = None,
    ) -> tuple[list[Ended], Ledger | None]:
        """How a program ends on each of these ranks, and the ledger where it ends well on all.

        Args:
            options: as `run` has them, checked.
            limit: seconds after which the ranks are ended.

        Raises:
            TimeoutError: they were.
            ProcessorError, LauncherError: see `start_ranks`.
        """
        if self._closed:
            raise UsageError("ranks.run: these ranks have been closed; pybsp.ranks starts new ones")
        program = pickled((main, args, kwargs))
        if self._job is None:
            self._job = _Job(self.p, self._hosts)
        try:
            return self._job.run(program, options, getattr(main, "__qualname__", repr(main)), limit)
        finally:
            if self._job.over:
                self._job = None

    def close(self) -> None:
        """End the ranks. May be called more than once."""
        self._closed = True
        if self._job is not None:
            self._job.end()
            self._job = None


# -- arguments ---------------------------------------------------------------------------------------------------------


def _check(
    operation: str, main: Callable[..., Any], args: Sequence[Any], timeout: Any, **given: Any
) -> float | None:
    """Raise UsageError for wrong arguments; the timeout."""
    _require_outside(operation)
    if not callable(main):
        raise UsageError(f"{operation}: argument main: expected a function of a BSP machine, got {main!r}")
    timeout = timeout_of(operation, timeout)
    ours = {name: value is not None and value != "direct" for name, value in given.items()}
    check_keywords(operation, main, args, {**ours, "timeout": timeout})
    return timeout


def _require_outside(operation: str) -> None:
    if process.launched()[0] > 1:
        size, rank = process.launched()
        raise UsageError(
            f"{operation}: this process is processor {rank} of {size} of a job already; call pybsp.run(main), or start "
            "this program without mpiexec"
        )
    if is_virtual() or is_running():
        raise UsageError(f"{operation}: a run is going on in this process; call functions of its bsp instead")


def _number(n: int | None) -> int:
    if n is None:
        tasks = os.environ.get("SLURM_NTASKS", "")
        return int(tasks) if tasks.isdigit() else os.cpu_count() or 1
    if type(n) is not int or n < 1:
        raise UsageError(f"pybsp.ranks: argument n: expected a whole number of at least 1, got {n!r}")
    return n


def _hosts(hosts: str | Sequence[str] | None) -> str:
    names = hosts.split(",") if isinstance(hosts, str) else list(hosts or ())
    if (hosts is not None and not names) or not all(isinstance(one, str) and one.strip() for one in names):
        raise UsageError(f"pybsp.ranks: argument hosts: expected names of hosts, as 'a,b' or ['a', 'b'], got {hosts!r}")
    return ",".join(one.strip() for one in names)


# -- one job -----------------------------------------------------------------------------------------------------------


class _Output:
    """What a rank prints on one of its two outputs: it comes line by line, with the rank's number before each."""

    def __init__(self, line: Line, pid: int, number: int) -> None:
        self.line, self.pid, self._number = line, pid, number
        self._kept = b""

    def read(self, mark: bytes) -> bool:
        """Print what is there; whether the mark was, or nothing comes any more."""
        try:
            data = os.read(self.line.fileno(), 1 << 16)
        except OSError:
            data = b""
        text = self._kept + data
        ends = not data or bool(mark and mark in text)
        if ends:
            before, _, after = text.partition(mark) if mark else (text, b"", b"")
            text, self._kept = before + b"\n" * bool(before and before[-1:] != b"\n"), after
        else:
            text, newline, self._kept = text.rpartition(b"\n")
            text += newline
        if text:
            lines = text.decode(errors="replace").splitlines(keepends=True)
            to = sys.stdout if self._number == 1 else sys.stderr
            to.write("".join(f"[{self.pid}] {one}" for one in lines))
            to.flush()
        return ends


class _Rank(NamedTuple):
    """One of the ranks that were started."""

    hello: Hello
    line: Line
    outputs: tuple[_Output, _Output]


class _Job:
    """Ranks that one mpiexec has started. It is over when they have ended, or were ended."""

    def __init__(self, p: int, hosts: str) -> None:
        self.p, self.over = p, False
        self._progress = in_notebook()
        self._ranks: list[_Rank] = []
        self._sender = Sender()
        self._mark = b"\x1e" + os.urandom(12).hex().encode() + b"\n"
        self._said: deque[str] = deque(maxlen=40)  # lines of the launcher
        far = bool(hosts) or any(name in os.environ for name in _ALLOCATIONS)
        self._meeting: Meeting | None = Meeting(far)
        environment = {name: value for name, value in os.environ.items() if not name.startswith(_OF_LAUNCHERS)}
        environment[ADDRESS] = f"{self._meeting.address} {self._progress:d}"
        forwarded = [name for name in environment if name.startswith("PYBSP_") or name == "PYTHONPATH"]
        root = str(Path(__file__).parent.parent)
        command = [*launcher(p, forwarded, hosts), sys.executable, "-c", _SERVE.format(root)]
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
            raise LauncherError(f"pybsp.ranks: {command[0]} cannot be started: {error}") from None
        assert self._mpiexec.stdout is not None
        self._output: IO[bytes] = self._mpiexec.stdout
        os.set_blocking(self._output.fileno(), False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._output, selectors.EVENT_READ, self._hear)
        atexit.register(self.kill)

    def _hear(self) -> None:
        """Keep what the launcher says."""
        data = b""
        with suppress(BlockingIOError):
            data = os.read(self._output.fileno(), 1 << 16)
            if not data:
                self._selector.unregister(self._output)
        self._said.extend(data.decode(errors="replace").splitlines())

    # -- the beginning ------------------------------------------------------------------------------------------------

    def _meet(self) -> None:
        """Wait until all ranks are there."""
        meeting = self._meeting
        assert meeting is not None
        for file in meeting.files():
            self._selector.register(file, selectors.EVENT_READ, None)
        came: dict[str, dict[int, Line]] = {}
        found: dict[int, _Rank] = {}
        until = time.monotonic() + STARTING
        while len(found) < self.p:
            for key, _ in self._selector.select(LOOK):
                if isinstance(key.data, str):
                    lines = came[key.data]
                    try:
                        hello, _received = lines[0].receive()
                    except (EOFError, OSError):
                        self._not_started("a rank ended", came)
                    self._selector.unregister(lines[0])
                    if hello.p != self.p:
                        self._not_started(
                            f"the launcher started {self.p} processes, but MPI ({hello.library}) says of one that it "
                            f"is rank {hello.pid} of {hello.p}",
                            came,
                        )
                    outputs = _Output(lines[1], hello.pid, 1), _Output(lines[2], hello.pid, 2)
                    found[hello.pid] = _Rank(hello, lines[0], outputs)
                elif key.data is not None:
                    key.data()
                elif (line := meeting.accept()) is not None:
                    try:
                        (who, number), _received = line.receive()
                    except (EOFError, OSError):
                        self._not_started("a rank ended", came)
                    came.setdefault(who, {})[number] = line
                    if not number:
                        self._selector.register(line, selectors.EVENT_READ, who)
            if self._mpiexec.poll() is not None:
                self._not_started(f"the launcher ended with the status {self._mpiexec.returncode}", came)
            if time.monotonic() > until:
                self._not_started(f"{len(found)} of {self.p} ranks came within {STARTING:.0f} s", came)
        for file in meeting.files():
            self._selector.unregister(file)
        meeting.close()
        self._meeting = None
        self._ranks = [rank for _, rank in sorted(found.items())]
        for rank in self._ranks:
            self._selector.register(rank.line, selectors.EVENT_READ, rank)
            for output in rank.outputs:
                self._selector.register(output.line, selectors.EVENT_READ, output)

    def _not_started(self, why: str, came: dict[str, dict[int, Line]]) -> NoReturn:
        """The ranks do not come to be; the way out is in what they, or their launcher, say."""
        until = time.monotonic() + ENDING
        while self._mpiexec.poll() is None and time.monotonic() < until and why == "a rank ended":
            time.sleep(LOOK / 4)
        if self._output in self._selector.get_map():
            self._hear()
        said = [*self._said]
        for lines in came.values():
            for number in (1, 2):
                if number in lines:
                    os.set_blocking(lines[number].fileno(), False)
                    with suppress(OSError):
                        said += os.read(lines[number].fileno(), 1 << 16).decode(errors="replace").splitlines()
                    lines[number].close()
        self.kill()
        text = "".join(f"\n  {line}" for line in said)
        raise LauncherError(
            f"pybsp.ranks: {self.p} ranks could not be started: {why}; `pybsp run -n {self.p} program.py` should work "
            f"first{'; this was said:' * bool(said)}{text}"
        )

    # -- a run --------------------------------------------------------------------------------------------------------

    def run(
        self, program: Parcel, options: dict[str, Any], name: str, limit: float | None
    ) -> tuple[list[Ended], Ledger | None]:
        """See `Ranks.attempt`; the job is over where this raises."""
        try:
            if self._meeting is not None:
                self._meet()
            return self._run(program, options, name, limit)
        except BaseException:
            self.kill()
            raise

    def _run(
        self, program: Parcel, options: dict[str, Any], name: str, limit: float | None
    ) -> tuple[list[Ended], Ledger | None]:
        call = Call(options, settings.set_here(settings.OF_RUN), sys.path[:], os.getcwd(), self._mark)
        arena = self._sender.put(program)
        for rank in self._ranks:
            with suppress(OSError):  # one that has died is noticed below
                rank.line.send(call, program, arena)
        progress = Progress(self.p)
        done: dict[int, tuple[Done, Received]] = {}
        first: list[tuple[int, Raised, Received]] = []  # that failed of themselves
        printed = 0
        until = None if limit is None else time.monotonic() + limit
        gone = -1
        try:
            while len(done) < self.p or printed < 2 * self.p:
                for key, _ in self._selector.select(LOOK):
                    at = key.data
                    if isinstance(at, _Output):
                        printed += at.read(self._mark)
                    elif isinstance(at, _Rank):
                        try:
                            about, received = at.line.receive()
                        except (EOFError, OSError):
                            gone = at.hello.pid
                            break
                        if isinstance(about, At):
                            progress.at(at.hello.pid, about.superstep, about.label)
                        elif isinstance(about, Raised):
                            first.append((at.hello.pid, about, received))
                        else:
                            done[at.hello.pid] = about, received
                    else:
                        at()
                if gone >= 0 or self._mpiexec.poll() is not None:
                    self._lost(gone, name, first)
                if until is not None and time.monotonic() > until:
                    self._late(limit or 0.0, name, [pid for pid in range(self.p) if pid not in done])
                progress.show()
        finally:
            progress.end()
        if any(one.kept for one, _ in done.values()):
            self._sender.forget()
        return self._ended(done)

    def _ended(self, done: dict[int, tuple[Done, Received]]) -> tuple[list[Ended], Ledger | None]:
        found: list[Ended] = []
        ledger = None
        for pid in range(self.p):
            how, received = done[pid]
            if how.failed is not None:
                found.append(Ended(None, _exception(pid, how.failed, received), how.failed.own))
                continue
            result, of_all = received.load()
            ledger = ledger or of_all
            found.append(Ended(result, None, False))
        return found, ledger

    def _lost(self, gone: int, name: str, first: list[tuple[int, Raised, Received]]) -> NoReturn:
        """A rank has ended while a program ran: raise why, if it is known."""
        self._drain(ENDING)
        own = [one for one in first if one[1].own]
        if own:
            pid, raised, received = min(own, key=lambda one: one[0])
            raise _exception(pid, raised, received)
        status = self._mpiexec.poll()
        said = "".join(f"\n  {line}" for line in self._said if line.strip(" ="))
        place = f"processor {gone}" if gone >= 0 else "a processor"
        ending = "" if status is None else f"; the launcher ended with the status {status}"
        raise ProcessorError(f"{place} ended while {name} ran{ending}{said}", max(gone, 0), 0, "")

    def _late(self, limit: float, name: str, absent: Sequence[int]) -> NoReturn:
        """A program has outlasted its limit: ranks say where they are, and are ended."""
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
                elif isinstance(at, _Rank):
                    self._selector.unregister(at.line)
                elif at is not None:
                    at()
            if self._mpiexec.poll() is not None and not ready:
                return

    # -- the end ------------------------------------------------------------------------------------------------------

    def end(self) -> None:
        """Let the ranks end, as they do where a program ends."""
        if self.over:
            return
        try:
            if self._meeting is not None:
                self._meet()
            for rank in self._ranks:
                rank.line.send(None)
            self._drain(ENDING)
            with suppress(subprocess.TimeoutExpired):
                self._mpiexec.wait(ENDING)
        except (OSError, LauncherError):
            pass  # they have ended otherwise
        finally:
            self.kill()

    def kill(self) -> None:
        """End the ranks wherever they are, unless they have ended."""
        if self.over:
            return
        self.over = True
        atexit.unregister(self.kill)
        if self._meeting is not None:
            self._meeting.close()
        for rank in self._ranks:
            rank.line.close()  # which ends a rank that runs a program
            for output in rank.outputs:
                output.line.close()
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


def _exception(pid: int, raised: Raised, received: Received) -> BaseException:
    """What a processor raised; a ProcessorError where that did not come whole."""
    import cloudpickle

    try:
        error = received.load()
    except Exception:
        error = None
    if not isinstance(error, BaseException):
        error = ProcessorError(f"processor {pid} failed: {raised.text}", pid, 0, "")
    try:
        text = raised.trace if isinstance(raised.trace, str) else "".join(cloudpickle.loads(raised.trace).format())
    except Exception:
        text = raised.text
    error.__cause__ = OnRank(text)
    return error
