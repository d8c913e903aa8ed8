"""Which p fit a network."""

from __future__ import annotations

from collections.abc import Callable

from ...errors import RoutingError, brief
from ...ground.convert import is_whole
from ...processes.process import MOST_PROCESSORS


def fit(name: str, p: int, rule: str, size: Callable[[int], int], first: int = 0) -> int:
    """The n at which a network has p processors.

    Args:
        name: of the network, and `rule`: which p fit it, both for the error.
        size: processors for n, growing with it; `first`: the least n.

    Raises:
        RoutingError: there is none; of a whole number the text names the nearest p below and above that would fit.
    """
    if not is_whole(p):
        raise RoutingError(f"{name}: p must be a whole number, {rule}, got {brief(p)}")
    if p > MOST_PROCESSORS:
        raise RoutingError(f"{name}: p must be at most {MOST_PROCESSORS}, got {brief(int(p))}")
    n = first
    while size(n) < p:
        n += 1
    if size(n) == p:
        return n
    near = f"{size(n - 1)} and {size(n)}" if n > first else f"{size(n)}"
    raise RoutingError(f"{name}: p must be {rule}, got {p}; {near} would fit")
