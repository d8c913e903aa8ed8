"""A rank that was started by started.py: it runs what comes on its line, and waits without a processor in between.

    from pybsp.runs.serving import main; main()      under mpiexec; PYBSP_RANKS says where to meet who has started it

Its output goes to that process, by the number of the rank. It ends when its line does.
"""

from __future__ import annotations

import os
import socket
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from itertools import accumulate
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from ..errors import UsageError
from ..ground import settings
from ..ground.announcing import flush
from ..ground.failures import failure_of, from_the_program, origin, outcome, without_outcome
from ..ground.managed import managed
from ..processes.shipping import Line, Parcel, Received, Sender, connect, pickled
from ..transport.launcher import last_words
from . import threads

if TYPE_CHECKING:
    from ..bsp import BSP
    from ..ground.by_value import Classes

ADDRESS = "PYBSP_RANKS"
PROGRESS = 0.5  # seconds between two words about where a processor is
_ABSENT: Final = object()  # an attribute that a module has not


@dataclass
class Hello:
    """What a rank says first."""

    pid: int
    p: int
    host: str
    process: int
    library: str


@dataclass
class RunRequest:
    """A run: what all processors need to know before it begins.

    operation, line: that the user has called, and where, for errors.
    options: router, machine, checked, timeout.
    settings: the variables of pybsp that are set where the run is asked for.
    path, folder: where modules and files are looked for.
    mark: what is written to both outputs after it.
    """

    operation: str
    line: str
    options: Mapping[str, Any]
    settings: Mapping[str, str]
    path: list[str]
    folder: str
    mark: bytes


@dataclass
class At:
    """Where a processor is."""

    superstep: int
    label: str


@dataclass
class Raised:
    """How main has ended on a processor that failed.

    own: it failed of itself, not since another did.
    expected: a test expects it (`raises_on`).
    text: of the exception, in a line.
    origin: file and line that it comes from, where these are known.
    trace: how it came about: a pickled TracebackException, to be worded where the program's text is; or its text.
    """

    own: bool
    expected: bool
    text: str
    origin: tuple[str, int] | None
    trace: bytes | str


@dataclass
class Done:
    """How a run has ended on a processor; what comes with it is its result and the ledger, or the exception.

    in_use: whether something still uses the memory that the arguments came in.
    """

    failed: Raised | None = None
    in_use: bool = False


@dataclass
class Aborted:
    """A processor ends the job."""

    why: str


@dataclass
class _Server:
    line: Line
    progress: bool  # whether to say now and then where this processor is
    processor: BSP | None = None
    runs: bool = False  # a program, now
    process: int = field(default_factory=os.getpid)

    def serve(self) -> None:
        """Run what comes, until nothing more can."""
        threads.beside(self._look, "pybsp line").start()
        with suppress(EOFError, OSError):
            while True:
                call, program = self.line.receive()
                if call is None:
                    return
                self._answer(call, program)
                del program

    def _answer(self, call: RunRequest, program: Received) -> None:
        sys.path[:] = call.path
        with suppress(OSError):  # another host may have no such folder, or it is gone
            os.chdir(call.folder)
        for name in settings.OF_RUN:
            os.environ.pop(name, None)
        os.environ.update(call.settings)
        self.runs = True
        done, value = self._run(call, program)
        self.runs, self.processor = False, None
        try:
            parcel = value if isinstance(value, Parcel) else pickled(value)
        except Exception as error:
            unsent = TypeError(
                f"the result cannot be sent: expected what cloudpickle can pickle, got {error!r}; return arrays, "
                "numbers and what is made of them"
            )
            done.failed, parcel = _raised(unsent), pickled(unsent)
        del value
        done.in_use = not program.release()
        flush()
        for file in (1, 2):
            with suppress(OSError):
                os.write(file, call.mark)
        arena = Sender().put(parcel) if self.line.near else None
        self.line.send(done, parcel, arena)
        if arena is not None:
            arena.free()

    def _run(self, call: RunRequest, program: Received) -> tuple[Done, Any]:
        """How the run has ended here; the result and the ledger, or the exception as a parcel."""
        from .launch import run_recorded

        def main(bsp: BSP) -> Any:
            self.processor = bsp
            try:
                function, args, kwargs, classes = _loaded(call.operation, bsp.pid, program)
                with _defined(classes):
                    result = function(bsp, *args, **kwargs)
                self._end_child(None)
                return result
            except BaseException as error:
                self._end_child(error)
                # The run may end with the job: the first failure is printed at once.
                self.line.send(_raised(error), _parcel(error))
                raise

        try:
            return Done(), run_recorded(call.operation, main, call.line, **call.options)
        except BaseException as error:
            failed, known = _raised(error), _parcel(error)
            return Done(failed), known

    def last_word(self, why: str) -> None:
        """This processor is about to end the job."""
        if why:
            self.line.send(Aborted(why), pickled(None))

    def _end_child(self, error: BaseException | None) -> None:
        """Where this process is a child that leaves the program now: end it as Python does, by nothing or an error.

        It has the rank's line too, and its place in the run, which are not for it.
        """
        if os.getpid() == self.process:
            return
        if isinstance(error, SystemExit):
            end = error.code
        else:
            end = None if error is None else "".join(_traced(error).format()).rstrip()
        try:
            if end is not None and not isinstance(end, int):
                print(end, file=sys.stderr)
            flush()
        finally:
            os._exit(end & 0xFF if isinstance(end, int) else int(end is not None))

    def _look(self) -> None:
        """In a thread: end this process where the other end is gone while a program runs; say where that is."""
        while not self.line.hung_up(PROGRESS if self.progress else None):
            bsp = self.processor
            if bsp is not None:
                account = bsp._superstep.account
                with suppress(OSError):
                    self.line.send(At(account.superstep, account.label))
        if self.runs:
            os._exit(1)


def _loaded(operation: str, pid: int, program: Received) -> tuple[Any, Any, Any, Any]:
    """The program, its arguments, and the classes among all these that have come by value."""
    try:
        found: tuple[Any, Any, Any, Any] = program.load()
    except Exception as error:
        raise UsageError(
            f"{operation}: arguments main, args, kwargs: expected what can be unpickled on the ranks, got "
            f"{type(error).__name__} on processor {pid}: {error}; make on the ranks what cannot be sent, and give "
            "them the modules that it needs"
        ) from error
    return found


@managed
def _defined(classes: Classes) -> Iterator[None]:
    """In this block classes of a notebook, of a script, or of a module of tests, which have come by value, are in
    modules of the same names: pickles of messages look for them there.

    A module that is not loaded is one that has these classes, until the block ends, and is imported where more of it is
    asked for; its packages, which pickle imports, are empty where they are not found.
    """
    before: list[tuple[ModuleType, str, Any]] = []
    modules: list[str] = []
    try:
        for (name, attribute), one in classes.items():
            *packages, whole = accumulate(name.split("."), "{}.{}".format)
            missing = [package for package in packages if not _importable(package)]
            for absent in (*missing, *(() if whole in sys.modules else (whole,))):
                sys.modules[absent] = _stand_in(absent)
                modules.append(absent)
            module = sys.modules[whole]
            before.append((module, attribute, vars(module).get(attribute, _ABSENT)))
            setattr(module, attribute, one)
        yield
    finally:
        for module, attribute, known in before:
            if known is _ABSENT:
                vars(module).pop(attribute, None)
            else:
                setattr(module, attribute, known)
        for name in modules:
            sys.modules.pop(name, None)


def _stand_in(name: str) -> ModuleType:
    """A module of that name: what nobody has put there it looks for in the real one, where that can be imported."""
    module = ModuleType(name)

    def look_up(attribute: str) -> Any:
        missing = AttributeError(f"module {name!r} has no attribute {attribute!r}", name=attribute, obj=module)
        if attribute.startswith("__") or vars(module).pop("__getattr__", None) is None:
            raise missing
        del sys.modules[name]
        try:
            there = vars(import_module(name))
        except ImportError:
            raise missing from None
        finally:
            sys.modules[name] = module
        vars(module).update((known, one) for known, one in there.items() if known not in vars(module))
        if attribute not in there:
            raise missing
        return there[attribute]

    vars(module)["__getattr__"] = look_up
    return module


def _importable(name: str) -> bool:
    try:
        import_module(name)
    except Exception:
        return False
    return True


def _traced(error: BaseException) -> traceback.TracebackException:
    """An exception with its traceback from where the program begins."""
    trace = from_the_program(error.__traceback__) or error.__traceback__
    return traceback.TracebackException(type(error), error, trace, lookup_lines=False)


def _raised(error: BaseException) -> Raised:
    import cloudpickle

    worded = _traced(error)
    failure = failure_of(error, 0, "")
    known = failure.primary, outcome(error).expected, failure.summary, origin(error)
    try:
        return Raised(*known, cloudpickle.dumps(worded))
    except Exception:
        return Raised(*known, "".join(worded.format()))


def _parcel(error: BaseException) -> Parcel:
    """An exception; None where it cannot be pickled."""
    try:
        return without_outcome(error, pickled)
    except Exception:
        return pickled(None)


def main() -> None:
    """Meet who has started this rank, and serve until that one ends it."""
    address, progress, operation = os.environ.pop(ADDRESS).rsplit(" ", 2)
    line = connect(address)
    own = f"{socket.gethostname()} {os.getpid()}"
    lines = []
    for number in (0, 1, 2):  # the conversation, and both outputs
        lines.append(line())
        lines[number].send((own, number))
        if number:
            lines[number].become(number)
    with open(os.devnull) as nothing:  # the launcher leaves all but rank 0 a pipe that nobody writes to, or closes
        os.dup2(nothing.fileno(), 0)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="replace", line_buffering=True)  # type: ignore[union-attr]
    from .world import usable_mpi

    mpi = usable_mpi(operation)
    library = mpi.Get_library_version().split("\n")[0].strip("\0 ")
    world = mpi.COMM_WORLD
    lines[0].send(Hello(world.rank, world.size, socket.gethostname(), os.getpid(), library))
    server = _Server(lines[0], progress == "1")
    last_words.append(server.last_word)
    server.serve()
