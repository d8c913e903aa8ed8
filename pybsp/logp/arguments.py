"""Arguments of a processor's methods, the same on every machine."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import UsageError


def destination(dest: Any, p: int, pid: int) -> int:
    """Another processor than pid.

    Raises:
        UsageError: it is none.
    """
    if isinstance(dest, (int, np.integer)) and not isinstance(dest, bool) and 0 <= dest < p and dest != pid:
        return int(dest)
    raise UsageError(
        f"proc.send: argument dest: expected another processor, from 0 to {p - 1} and not {pid} itself, got {dest!r}; "
        "keep what is for this processor in a variable"
    )


def whole_steps(operation: str, argument: str, steps: Any, least: int | None = None) -> int:
    """A whole number of steps, at least `least`.

    Raises:
        UsageError: it is none.
    """
    if isinstance(steps, (int, np.integer)) and not isinstance(steps, bool) and (least is None or steps >= least):
        return int(steps)
    expected = "a whole number of steps" + ("" if least is None else f" of at least {least}")
    raise UsageError(
        f"{operation}: argument {argument}: expected {expected}, got {steps!r}; times are counted in steps"
    )
