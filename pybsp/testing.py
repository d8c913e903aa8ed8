"""What tests of programs say: `raises_on`; and how one processor runs a test of the pytest plugin."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ContextDecorator
from typing import TYPE_CHECKING, Any, NamedTuple

from .errors import ProcessorError, UsageError
from .ground.failures import outcome
from .processes.process import launched
from .runs.watch import running
from .transport.virtual import current_pid

if TYPE_CHECKING:
    from .bsp import BSP

Errors = type[BaseException] | tuple[type[BaseException], ...]


def raises_on(pid: int, expected: Errors, match: str | None = None) -> Expectation:
    """Assert that a block fails on one processor, and on the others since that one does.

    Around a run (`pybsp.run`, `simulate`, `start_ranks`) the failure ends in the block. Inside of one, as in a test of
    the pytest plugin, a processor that fails ends the run on all, so the block is the last that the program does: the
    plugin lets such a test pass.

    Args:
        pid: of the processor that fails.
        expected: its exception's class, or several.
        match: a regular expression that is found in the exception's text.

    Raises:
        AssertionError: nothing was raised, or it was by another processor, or its text does not match.
        Exception: what was raised instead.
        UsageError: a pid that is none.

    Examples:
        >>> def main(bsp):
        ...     if bsp.pid == 2:
        ...         raise ValueError("too hot")
        ...     bsp.sync()
        >>> with pybsp.raises_on(2, ValueError, match="hot"):
        ...     pybsp.simulate(main, p=4)
    """
    if type(pid) is not int or pid < 0:
        raise UsageError(f"pybsp.raises_on: argument pid: expected a processor, from 0 on, got {pid!r}")
    return Expectation(pid, expected, match)


class Expectation(ContextDecorator, AbstractContextManager[None]):
    """What `raises_on` gives; a class, as contextlib's generators set attributes of an error, which it may refuse."""

    def __init__(self, pid: int, expected: Errors, match: str | None) -> None:
        self._pid, self._expected, self._match = pid, expected, match

    def __enter__(self) -> None:
        """Nothing is kept: as a decorator one serves all virtual processors."""

    # By a bool alone type checkers would take what the block binds as unbound behind it.
    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool | None:
        __tracebackhide__ = True  # by pytest
        own = running[-1].pid if running else current_pid()
        pid, expected = self._pid, self._expected
        if error is None:
            if own is None or own == pid:
                raise AssertionError(
                    f"pybsp.raises_on: expected {_names(expected)} on processor {pid}, nothing was raised"
                )
            return False
        if own is not None:
            if own == pid and isinstance(error, Exception) and isinstance(error, expected):
                _require_match(error, self._match)
                outcome(error).expected = True
            return False
        failed = _failed(error)
        if isinstance(error, ProcessorError) and failed == pid:
            return True  # this rank knows its text alone
        if not (isinstance(error, Exception) and isinstance(error, expected)):
            return False
        if failed != pid:
            raise AssertionError(
                f"pybsp.raises_on: expected {_names(expected)} on processor {pid}, got it on processor {failed}"
            ) from error
        _require_match(error, self._match)
        return True


def _failed(error: BaseException) -> int:
    """The processor that an exception came from, which has left a run."""
    known = outcome(error).pid
    if known is not None:
        return known
    return error.pid if isinstance(error, ProcessorError) else launched()[1]


def _require_match(error: BaseException, match: str | None) -> None:
    if match is not None and re.search(match, str(error)) is None:
        raise AssertionError(f"pybsp.raises_on: expected a text that matches {match!r}, got {str(error)!r}") from error


def _names(expected: Errors) -> str:
    return " or ".join(one.__name__ for one in (expected if isinstance(expected, tuple) else (expected,)))


class PytestOutcome(BaseException):
    """What pytest.skip, xfail and fail raise, and hypothesis's assume, on its way from a rank.

    Of the former the classes cannot be pickled.
    """

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(kind, text)


def on_processor(bsp: BSP, test: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Run a test on one processor."""
    test(*args, **{**kwargs, "bsp": bsp})


def knows(bsp: BSP, test: Callable[..., Any]) -> None:
    """A processor that has this has loaded what the test needs."""


Filter = tuple[Any, str, Any, str, int]


def warning_filters() -> list[Filter]:
    """The filters of warnings that are in force here, as arguments of `warnings.filterwarnings`."""

    def text(pattern: Any) -> str:
        return getattr(pattern, "pattern", pattern) or ""  # Python's own filters have a text, others a compiled one

    return [
        (action, text(message), category, text(module), line)
        for action, message, category, module, line in warnings.filters
    ]


class RankWarning(NamedTuple):
    """A warning that a test gave on a rank.

    classes: module and name of each that it is of, from its own on: pytest's process need not know them all.
    """

    text: str
    classes: tuple[tuple[str, str], ...]
    file: str
    line: int

    def show(self) -> None:
        """Give it here: on the rank it has passed the filters."""
        known = (getattr(sys.modules.get(module), name, None) for module, name in self.classes)
        category = next(one for one in known if isinstance(one, type) and issubclass(one, Warning))
        warnings.showwarning(self.text, category, self.file, self.line)


_patches: list[Any] = []  # of the test that runs on this rank


def own_patches() -> Any:
    """A MonkeyPatch of this rank, in the place of that of pytest's process: it is undone after the test."""
    import pytest

    _patches.append(pytest.MonkeyPatch())
    return _patches[-1]


def on_rank(
    bsp: BSP, filters: Sequence[Filter], test: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[RankWarning]:
    """Run a test on a rank that was started for it; what it has warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.resetwarnings()
        for one in filters:
            warnings.filterwarnings(*one, append=True)
        try:
            on_processor(bsp, test, args, kwargs)
        except BaseException as error:
            for given in caught:  # no result takes them along
                sys.stderr.write(
                    warnings.formatwarning(given.message, given.category, given.filename, given.lineno, given.line)
                )
            ends = verdict(error)
            if ends is not None:
                raise ends.with_traceback(error.__traceback__) from None
            raise
        finally:
            while _patches:
                _patches.pop().undo()
    return [
        RankWarning(
            str(given.message),
            tuple((one.__module__, one.__qualname__) for one in given.category.__mro__),
            given.filename,
            given.lineno,
        )
        for given in caught
    ]


# What says of a test what one of pytest's exceptions would say, or what hypothesis is to hear: module, class, and kind.
OTHERS = (
    ("unittest", "SkipTest", "Skipped"),
    ("hypothesis.errors", "UnsatisfiedAssumption", "UnsatisfiedAssumption"),
)


def verdict(error: BaseException) -> PytestOutcome | None:
    """What an exception says of a test, if it is one of pytest's, or unittest's SkipTest, or hypothesis's `assume`."""
    for module, name, kind in OTHERS:
        if isinstance(error, getattr(sys.modules.get(module), name, ())):
            return PytestOutcome(kind, str(error))
    outcomes = sys.modules.get("_pytest.outcomes")
    if outcomes is None or not isinstance(error, outcomes.OutcomeException):
        return None
    return PytestOutcome(type(error).__name__, str(error))


def of_all(bsp: BSP, value: Any) -> list[Any]:
    """The values of all processors, by pid."""
    for pid in range(bsp.p):
        bsp.send(pid, value)
    bsp.sync()
    return [message.payload for message in bsp.inbox]
