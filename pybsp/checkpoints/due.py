"""When a checkpoint is due: every n supersteps, every t seconds, or as often as costs least where failures come."""

from __future__ import annotations

import math
import re
from typing import Any, NamedTuple

from ..errors import UsageError, brief
from ..ground import settings

EVERY = "mtbf=24h"  # unless something else is said
_UNITS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*(ms|s|min|h|d)")
FIRST_COST = 1e-3  # seconds that a checkpoint is taken to cost before one was measured


class Every(NamedTuple):
    """How often checkpoints are due; one of the three is above 0.

    supersteps: so many.
    seconds: so many.
    mtbf: seconds between failures of the whole job, in the mean: due at Daly's interval.
    """

    supersteps: int = 0
    seconds: float = 0.0
    mtbf: float = 0.0

    def interval(self, cost: float) -> float:
        """Seconds from one checkpoint to the next, where one costs so many; inf where supersteps decide."""
        if self.supersteps:
            return math.inf
        return self.seconds or daly(cost, self.mtbf)


def daly(cost: float, mtbf: float) -> float:
    """The interval between checkpoints with which a job is expected to end first.

    Args:
        cost: of a checkpoint, in seconds.
        mtbf: mean time between failures, in seconds.

    Returns:
        Seconds of computing between two checkpoints; Young's sqrt(2 cost mtbf) with Daly's next two terms (J. T. Daly:
        A higher order estimate of the optimum checkpoint interval for restart dumps, FGCS 22, 2006).
    """
    if cost >= 2 * mtbf:
        return mtbf
    ratio = math.sqrt(cost / (2 * mtbf))
    return math.sqrt(2 * cost * mtbf) * (1 + ratio / 3 + ratio * ratio / 9) - cost


def expected(segments: list[float], cost: float, restart: float, mtbf: float) -> float:
    """The expected seconds of a job whose failures come by a Poisson process.

    Args:
        segments: seconds of computing between its checkpoints, and after the last.
        cost, restart, mtbf: seconds of a checkpoint, from a failure until the job goes on, between failures.
    """
    last = len(segments) - 1
    attempts = sum(math.expm1((one + cost * (k < last)) / mtbf) for k, one in enumerate(segments))
    return (mtbf + restart) * attempts


def parse(operation: str, every: Any) -> Every:
    """What the argument `every` says; a UsageError where it says nothing that is known."""
    if type(every) is int and every > 0:
        return Every(supersteps=every)
    if isinstance(every, str):
        text = every.strip()
        supersteps = settings.whole(text)
        if supersteps > 0:
            return Every(supersteps=supersteps)
        name, equals, rest = text.rpartition("=")
        found = _DURATION.fullmatch(rest.strip())
        seconds = float(found[1]) * _UNITS[found[2]] if found else 0.0
        if seconds > 0 and not equals:
            return Every(seconds=seconds)
        if seconds > 0 and name.strip() == "mtbf":
            return Every(mtbf=seconds)
    raise UsageError(
        f"{operation}: argument every: expected a number of supersteps, a time (as '30s', '5min', '2h') or the mean "
        f"time between failures (as 'mtbf=24h', from which the best interval follows), got {brief(every)}"
    )
