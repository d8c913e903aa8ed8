"""What a machine makes of sizes that no float can be."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

from ..errors import UsageError, brief
from .machine_file import is_finite

Sizes = ParamSpec("Sizes")


class TooLargeError(UsageError, OverflowError):
    """A method that another one calls gives it: the name in the text is that of the one that was called first."""


def pricing(price: Callable[Sizes, float]) -> Callable[Sizes, float]:
    """A method that gives seconds, and refuses a whole number too large for them in its own name.

    Raises:
        TooLargeError: it is.
    """
    code = price.__code__
    names = code.co_varnames[: code.co_argcount]

    @wraps(price)
    def priced(*args: Sizes.args, **kwargs: Sizes.kwargs) -> float:
        try:
            return price(*args, **kwargs)
        except OverflowError:
            _, *given = {**dict(zip(names, args, strict=False)), **kwargs}.items()  # without self
            name, size = next((name, size) for name, size in given if size is not None and not is_finite(size))
            raise TooLargeError(
                f"{price.__qualname__}: argument {name}: expected none beyond what a float can be, got {brief(size)}"
            ) from None

    return priced
