"""What is known of an exception that leaves a program: here, by the others, and by those who are to print it.

A processor that fails tells the others a `Failure`; they raise a ProcessorError, which is a SyncError too where that
failed by one. Whatever each knows of its own exception, or of the one that it raises, is in one record, its `Outcome`,
which is kept with it.

An exception may refuse attributes: a frozen dataclass does, or a class whose `__setattr__` raises. What Python's own
`__notes__` and traceback are kept in is written past such refusals.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

from greenlet import GreenletExit

from ..errors import BSPError, LearnedSyncError, ProcessorError, SyncError, describe
from .announcing import announce

_KEY = "__pybsp_outcome__"
_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep

# The modules by which exchanges go.
_EXCHANGING = tuple(
    f"pybsp.{name}"
    for name in ("groups", "messages.agreement", "parts", "rides", "runs.session", "supersteps.superstep", "transport")
)

T = TypeVar("T")

# -- what others learn -------------------------------------------------------------------------------------------------


class Failure(NamedTuple):
    """What a failing processor says of itself; superstep -1: there are none."""

    superstep: int
    label: str
    primary: bool  # False where it fails because another processor of a part did
    summary: str
    ends: bool = False  # outside of any run: its process ends
    mismatch: bool = False  # it is a SyncError

    @property
    def exits(self) -> bool:
        """Whether it asked Python to exit, which then prints no traceback."""
        return self.summary.startswith("SystemExit")


def is_lone_exit(error: BaseException, errors: Iterable[BaseException | None]) -> bool:
    """Whether it asked Python to exit, and not all have.

    Args:
        errors: of all that count; None of who ended well.
    """
    return isinstance(error, SystemExit) and not all(isinstance(e, SystemExit) for e in errors)


def exited_alone(error: BaseException, errors: Iterable[BaseException | None]) -> bool:
    """Whether it asked Python for a good end, and not all have: that of one processor is none. Arguments as there."""
    return isinstance(error, SystemExit) and not error.code and is_lone_exit(error, errors)


def failure_of(error: BaseException, superstep: int, label: str) -> Failure:
    """What to tell the others about an exception."""
    summary = "".join(traceback.format_exception_only(type(error), error)).strip()
    mismatch = isinstance(error, SyncError)
    return Failure(superstep, label, not (mismatch or isinstance(error, ProcessorError)), summary, mismatch=mismatch)


def culprit(notes: Sequence[Any]) -> int:
    """The lowest pid that failed of itself, else the lowest that failed."""
    failed = [pid for pid, note in enumerate(notes) if isinstance(note, Failure)]
    return next((pid for pid in failed if notes[pid].primary), failed[0])


def processor_error(notes: Sequence[Any]) -> ProcessorError:
    """The error of the processors that did not fail."""
    pid = culprit(notes)
    failure: Failure = notes[pid]
    place = "" if failure.superstep < 0 else f" in {describe(failure.superstep, failure.label)}"
    if failure.ends:
        place = " outside of a run"
    text = f"processor {pid} failed{place}: {failure.summary}"
    kind = LearnedSyncError if failure.mismatch else ProcessorError
    error = kind(text, pid, max(failure.superstep, 0), failure.label)
    outcome(error).failure = failure
    return error


def learned(error: ProcessorError, known: ProcessorError) -> None:
    """Let an error say what all know, in place of the report of one failing processor."""
    error.args, error.pid = known.args, known.pid
    outcome(error).failure = outcome(known).failure


# -- what an exception has with it -------------------------------------------------------------------------------------


class Outcome:
    """What is known of one exception.

    Attributes:
        label: of the superstep that it left, the innermost one; None where it left none.
        agreed: the number of the session in which all processors have come to know of it; -1: none.
        quiet: whether this processor leaves printing it to another.
        alone: whether the job has ranks that do not know of it, and would wait for ever.
        failure: of a ProcessorError, the report of the processor that failed.
        speaker: the processor that prints it, where all raise the same.
        place: where in the job it was.
        pid: the processor that it comes from, where the run that it has left says so.
        expected: whether a test expects it.
        origin: file and line that it comes from, where that was in another process.
        lone_exit: whether it asked Python to exit, and not all virtual processors have; Python prints nothing of it.
    """

    label: str | None = None
    quiet = alone = False
    failure: Failure | None = None
    agreed = -1
    speaker = 0
    place = ""
    pid: int | None = None
    origin: tuple[str, int] | None = None
    expected = lone_exit = False

    @property
    def silent(self) -> bool:
        """Whether the one that is to print it will not, as its process exits: it has done so already."""
        return self.failure is not None and self.failure.exits


def is_ours(trace: TracebackType) -> bool:
    """Whether that step of a traceback is in pybsp."""
    return trace.tb_frame.f_code.co_filename.startswith(_PACKAGE)


def came_in_an_exchange(error: BaseException | None) -> bool:
    """Whether an exception, or one of those that were handled as it came, has passed what exchanges; None: no."""
    found: set[int] = set()
    while error is not None and id(error) not in found:
        found.add(id(error))
        for frame, _ in traceback.walk_tb(error.__traceback__):
            if str(frame.f_globals.get("__name__", "")).startswith(_EXCHANGING):
                return True
        error = error.__context__
    return False


def from_the_program(trace: TracebackType | None) -> TracebackType | None:
    """A traceback from where the program begins; None where all of it is in pybsp."""
    while trace is not None and is_ours(trace):
        trace = trace.tb_next
    return trace


def shorten(error: BaseException, called: bool = False) -> None:
    """Leave out of its traceback, and of those of what it came from, the steps of pybsp that lead to the program's.

    What pybsp does below the program's last step stays, but for errors of its own, which say what is wrong there; so do
    tracebacks that have no step of the program.

    Args:
        called: the program's own steps are above: the traceback of an error of pybsp's own need not have any.
    """
    found: set[int] = set()
    chain: list[BaseException | None] = [error]
    while chain:
        one = chain.pop()
        if one is not None and id(one) not in found:
            found.add(id(one))
            BaseException.with_traceback(one, _shortened(one.__traceback__, isinstance(one, BSPError), called))
            chain += one.__cause__, one.__context__


def _shortened(trace: TracebackType | None, is_own: bool, called: bool) -> TracebackType | None:
    steps = []
    while trace is not None:
        steps.append(trace)
        trace = trace.tb_next
    runpy = [n for n, step in enumerate(steps) if step.tb_frame.f_globals.get("__name__") == "runpy"]
    program = [n for n, step in enumerate(steps) if not (n in runpy or is_ours(step))]
    first, last = (program[0], program[-1]) if program else (max(runpy, default=-1) + 1, -1)
    short: TracebackType | None = None
    for n in reversed(range(first, last + 1 if is_own and (program or called) else len(steps))):
        if n > last or not is_ours(steps[n]):
            short = TracebackType(short, steps[n].tb_frame, steps[n].tb_lasti, steps[n].tb_lineno)
    return short


def origin(error: BaseException) -> tuple[str, int] | None:
    """File and line that an exception comes from: those of the last step that is neither in pybsp nor hidden by pytest.

    None where there is no such step.
    """
    found, trace = outcome(error).origin, error.__traceback__
    while trace is not None:
        frame = trace.tb_frame
        if not is_ours(trace) and not {**frame.f_globals, **frame.f_locals}.get("__tracebackhide__"):
            found = frame.f_code.co_filename, trace.tb_lineno
        trace = trace.tb_next
    return found


def outcome(error: BaseException) -> Outcome:
    """The record of an exception; it is the same at each call, and may be written to."""
    attributes = BaseException.__getattribute__(error, "__dict__")
    found = attributes.get(_KEY)
    if found is None:
        found = attributes[_KEY] = Outcome()
    return found  # type: ignore[no-any-return]


def without_outcome(error: BaseException, pickled: Callable[[BaseException], T]) -> T:
    """What is made of an exception while it has no record, as where it goes to another process."""
    attributes = BaseException.__getattribute__(error, "__dict__")
    record = attributes.pop(_KEY, None)
    try:
        return pickled(error)
    finally:
        if record is not None:
            attributes[_KEY] = record


def quiet(error: BaseException) -> bool:
    """Whether an exception is printed by another processor."""
    return outcome(error).quiet


def note_place(error: BaseException, text: str) -> None:
    """Say in its traceback where in the job an exception was raised."""
    if hasattr(BaseException, "add_note"):
        notes = getattr(error, "__notes__", None)
        BaseException.__setattr__(error, "__notes__", [*(notes if isinstance(notes, list) else ()), text])
    else:
        record = outcome(error)
        record.place = f"{record.place}\n{text}".lstrip()


def say_place(error: BaseException) -> None:
    """Print the place of an exception below its traceback, once: on Python 3.10, whose tracebacks have no notes."""
    record = outcome(error)
    if record.place:
        announce(record.place)
        record.place = ""


@cache
def place_uncaught() -> None:
    """From now on `say_place` of exceptions that nobody catches."""
    previous = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        previous(kind, error, trace)
        say_place(error)

    sys.excepthook = hook


def note_label(error: BaseException, label: str) -> None:
    """Keep with an exception the label of the superstep that it leaves, the innermost one."""
    record = outcome(error)
    if record.label is None:
        record.label = label


def label_of(error: BaseException, label: str) -> str:
    """The label of the superstep in which it was raised; `label`, the current one, where none was left."""
    left = outcome(error).label
    return label if left is None else left


def speaker(error: BSPError) -> int:
    """The processor that prints an error which all processors raise."""
    return error.pid if isinstance(error, ProcessorError) else outcome(error).speaker


def killed(error: BaseException | None) -> bool:
    """Whether the virtual machine is being taken down around this processor."""
    return isinstance(error, GreenletExit)
