"""What is known of an exception that leaves a program: kept with it, whatever it allows.

An exception may refuse attributes: a frozen dataclass does, or a class whose `__setattr__` raises. What Python's own
`__notes__` and traceback are kept in is written past such refusals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from types import TracebackType
from typing import Any, Generic, ParamSpec, TypeVar

Entered = TypeVar("Entered")
Arguments = ParamSpec("Arguments")

_KEY = "__pybsp_outcome__"


class Outcome:
    """What is known of one exception.

    Attributes:
        label: of the superstep that it left, the innermost one; None where it left none.
        agreed: the number of the session in which all processors have come to know of it; -1: none.
        quiet: whether this processor leaves printing it to another.
        alone: whether the job has ranks that do not know of it, and would wait for ever.
        silent: whether the one that is to print it will not, as its process exits: it has done so already.
        speaker: the processor that prints it, where all raise the same.
        place: where in the job it was.
    """

    label: str | None = None
    quiet = alone = silent = False
    agreed = -1
    speaker = 0
    place = ""


def outcome(error: BaseException) -> Outcome:
    """The record of an exception; it is the same at each call, and may be written to."""
    held = BaseException.__getattribute__(error, "__dict__")
    found = held.get(_KEY)
    if found is None:
        found = held[_KEY] = Outcome()
    return found  # type: ignore[no-any-return]


def quiet(error: BaseException) -> bool:
    """Whether an exception is printed by another processor."""
    return outcome(error).quiet


def note_place(error: BaseException, text: str) -> None:
    """Say in its traceback where in the job an exception was raised."""
    if hasattr(BaseException, "add_note"):
        notes = getattr(error, "__notes__", None)
        BaseException.__setattr__(error, "__notes__", [*(notes if isinstance(notes, list) else ()), text])
    else:
        outcome(error).place = text


class Managed(Generic[Entered]):
    """The context that a generator makes: entered at its `yield`, left by what follows."""

    def __init__(self, generator: Iterator[Entered]) -> None:
        self._generator: Any = generator

    def __enter__(self) -> Entered:
        entered: Entered = next(self._generator)
        return entered

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            next(self._generator, None)
            return
        try:
            self._generator.throw(error)
        except BaseException as raised:
            # A generator turns a StopIteration that leaves it into a RuntimeError (PEP 479).
            if raised is not error and not (isinstance(error, StopIteration) and raised.__cause__ is error):
                raise
            error.with_traceback(trace)  # without the generator's frames


def managed(function: Callable[Arguments, Iterator[Entered]]) -> Callable[Arguments, Managed[Entered]]:
    """As `contextlib.contextmanager`, for generators that let every exception through.

    That one assigns to the exception's `__traceback__`: it turns one that is frozen into FrozenInstanceError.
    """

    @wraps(function)
    def made(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Managed[Entered]:
        return Managed(function(*args, **kwargs))

    return made
