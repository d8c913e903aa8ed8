"""Contexts made of generators that let every exception through as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from types import TracebackType
from typing import Any, Generic, ParamSpec, TypeVar

from ..errors import usage_error

Entered = TypeVar("Entered")
Arguments = ParamSpec("Arguments")


class Managed(Generic[Entered]):
    """The context that a generator makes: entered at its `yield`, left by what follows."""

    def __init__(
        self, generator: Iterator[Entered], call: str = "", unentered: Callable[[str], None] | None = None
    ) -> None:
        """`unentered` gets the call that has made this, where it is dropped before it is entered."""
        self._generator: Any = generator
        self._call, self._unentered = call, unentered
        self._entered = False

    def __repr__(self) -> str:
        state = "to be entered by with"
        if self._entered:
            state = "left" if self._generator.gi_frame is None else "entered"
        return f"<{self._call or self._generator.gi_code.co_name}: {state}>"

    def __del__(self) -> None:
        if self._unentered is not None and not self._entered:
            self._unentered(self._call)

    def __enter__(self) -> Entered:
        if self._entered:
            name = self._call.partition("(")[0] or self._generator.gi_code.co_name
            raise usage_error(name, "a context that is entered once", "one that was before", f"call {name} again")
        self._entered = True
        try:
            entered: Entered = next(self._generator)
            return entered
        except BaseException as error:  # one of a signal's handler may come between the two, with all set up
            self.left_by(error)
            raise

    def left_by(self, error: BaseException) -> None:
        """That has left the block, and perhaps came before the generator could learn of it, of a signal's handler."""
        if self._entered and self._generator.gi_frame is not None:
            self.__exit__(type(error), error, error.__traceback__)

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
    def wrapper(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Managed[Entered]:
        return Managed(function(*args, **kwargs))

    return wrapper
