"""The keywords of `run`, `simulate`, `start_ranks` and `attach` that are pybsp's; all others go to the program.

The table of them is in docs/reference/settings.md.

A program that has a parameter of such a name gets it by position: `pybsp.run(main, 5)` for `def main(bsp, timeout)`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..errors import UsageError, argument_error, brief
from ..ground.convert import flag


def check_keywords(operation: str, main: Callable[..., Any], args: Sequence[Any], given: Mapping[str, bool]) -> None:
    """Refuse a keyword of ours that may have been meant for the program.

    Args:
        args: what the program gets by position, after its bsp.
        given: ours, whether each was given.

    Raises:
        UsageError: the program has a parameter of that name that it does not get by position.
    """
    names = [name for name, is_given in given.items() if is_given]
    if not names:
        return
    try:
        parameters = inspect.signature(main).parameters
    except (TypeError, ValueError):
        return  # nothing is known of it
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    placed = [name for name, one in parameters.items() if one.kind in by_position][: 1 + len(args)]
    for name in names:
        if name in parameters and name not in placed:
            raise UsageError(
                f"{operation}: argument {name}: expected it to be for {operation} alone, but "
                f"{getattr(main, '__qualname__', main)} has a parameter of this name too, and does not get it: give it "
                f"by position ({operation}(main, ...)), by functools.partial, or call it otherwise"
            )


def differs(value: Any, usual: Any) -> bool:
    """Whether an argument was given: it is not what it is otherwise. An array, which compares item by item, was."""
    return type(value) is not type(usual) or bool(value != usual)


def flag_of(operation: str, argument: str, value: Any) -> bool | None:
    """An argument that is true, false or None, as Python takes it; else a UsageError, as of an array of several."""
    return None if value is None else flag(operation, argument, value)


def takes(main: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether a program can be called with a bsp and these; True where nothing is known of it."""
    try:
        inspect.signature(main).bind(None, *args, **kwargs)
    except ValueError:
        return True
    except TypeError:
        return False
    return True


def stray(
    main: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], names: Sequence[str]
) -> tuple[str, str] | None:
    """The first of these names that is among the program's keywords, and what was expected; None where it takes them.

    These are what others call the number of processors, or where they are.
    """
    given = [name for name in names if name in kwargs]
    if not given or takes(main, args, kwargs):
        return None
    called = getattr(main, "__qualname__", main)
    return given[0], f"expected keywords of main alone, and {called} takes none of this name"


def timeout_of(operation: str, timeout: Any) -> float | None:
    """The argument timeout, checked; a UsageError where it is neither None nor a number of seconds above 0."""
    if timeout is None:
        return None
    try:
        seconds = float(timeout)
    except (TypeError, ValueError, OverflowError):
        seconds = 0.0
    if not seconds > 0:
        raise argument_error(operation, "timeout", "None or seconds, more than 0", brief(timeout))
    return seconds
