"""Arguments of a processor's methods, the same on every machine; and the names of what is chosen for a machine."""

from __future__ import annotations

from typing import Any

from ..errors import argument_error, brief
from ..ground.convert import whole as whole

CAPACITIES = ("global", "window", "per-pair", None)  # how MPI ranks respect the capacity: see ranks.py
MOST_STEPS = (1 << 63) - 1
SCHEDULES = ("latest", "earliest", "random", "adversary")  # all that have names: see schedule.py


def destination(dest: Any, p: int, pid: int) -> int:
    """Another processor than pid; a UsageError where it is none."""
    number = whole(dest)
    if number is not None and 0 <= number < p and number != pid:
        return number
    others = f"from 0 to {p - 1} and not {pid} itself" if p > 1 else "and there is none: p = 1"
    way_out = "keep what is for this processor in a variable" * (number == pid)
    raise argument_error("proc.send", "dest", f"another processor, {others}", brief(dest), way_out)


def whole_steps(operation: str, argument: str, steps: Any, least: int | None = None) -> int:
    """A whole number of steps, at least `least`; a UsageError where it is none."""
    number = whole(steps)
    if number is not None and (least is None or number >= least) and abs(number) <= MOST_STEPS:
        return number
    expected = "a whole number of steps" + ("" if least is None else f" of at least {least}")
    expected += "" if number is None or abs(number) <= MOST_STEPS else ", below 2^63"
    raise argument_error(operation, argument, expected, brief(steps), "times are counted in steps")
