"""What a network does under more and more load: latency, throughput, where it saturates."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ...errors import UsageError, brief
from ...ground.convert import is_whole
from ..decomposition import relation as checked_relation
from ..seeds import generator
from .flow import Flow, check_load, flow, per_link, source_rate
from .injections import Injections
from .network import Network, check_network


class LoadPoint(NamedTuple):
    """A network under open load.

    load: packets that each processor is given a step, as was asked for.
    latency: mean steps from when packets are due to their arrival; inf where some of them did not arrive.
    throughput: packets that arrived, for each processor and step.
    busiest: the part of the time for which the busiest link was busy.

    Examples:
        >>> from pybsp.routing import networks
        >>> (point,) = networks.latency_against_load(networks.Torus((4, 4)), [0.25], steps=300)
        >>> f"{point.load} {point.latency:.2f} {point.throughput:.2f} {point.busiest:.2f}"
        '0.25 2.30 0.24 0.16'
    """

    load: float
    latency: float
    throughput: float
    busiest: float


def latency_against_load(
    network: Network,
    loads: Iterable[float],
    *,
    destinations: ArrayLike | None = None,
    steps: int = 900,
    seed: int = 0,
    **how: Any,
) -> list[LoadPoint]:
    """Latency and throughput over load, up to saturation and beyond.

    Args:
        loads: packets for each processor and step.
        destinations: of each processor's packets, shape (p,); None: uniform traffic.
        steps: that traffic goes on; what is due, and what arrives, in the middle third of them is measured.
        seed: of what is drawn.
        how: `flow`'s: routing, period, delay, buffers, channels.

    Raises:
        UsageError: as `flow` and `Injections.open`; a load above what a source can send; fewer than 3 steps.

    Examples:
        >>> from pybsp.routing import networks
        >>> torus = networks.Torus((4, 4))
        >>> for point in networks.latency_against_load(torus, [0.2, 0.8, 1.6], steps=600):
        ...     print(f"{point.load} {point.latency:.2f} {point.throughput:.2f} {point.busiest:.2f}")
        0.2 2.16 0.20 0.13
        0.8 2.79 0.81 0.47
        1.6 6.21 1.63 0.89
    """
    _steps("latency_against_load", steps, how)
    points = []
    if not isinstance(loads, Iterable):
        raise UsageError(f"latency_against_load: loads: expected numbers, got {brief(loads, 80)}")
    period = per_link(check_network("latency_against_load", network), "period", how.get("period", 1))
    for load in loads:
        if isinstance(load, (int, float, np.number)) and not isinstance(load, bool):  # else `Injections.open` says it
            check_load("latency_against_load: loads", network, float(load), period)
        injections = Injections.open(network.p, load, steps, destinations, seed)
        done = flow(network, injections, seed=seed, until=steps, **how)
        window = steps // 3, 2 * steps // 3
        points.append(
            LoadPoint(
                float(load),
                done.mean_latency(*window),
                done.throughput(*window),
                float(done.utilization.max(initial=0)),
            )
        )
    return points


def _steps(operation: str, steps: Any, how: dict[str, Any]) -> None:
    """Check for how long traffic is to go on."""
    if not is_whole(steps, 3):
        raise UsageError(f"{operation}: steps: expected a whole number from 3 on, got {brief(steps)}")
    if "until" in how:
        raise UsageError(f"{operation}: until: is `steps`; what comes until then is measured")


def saturation(
    network: Network,
    *,
    destinations: ArrayLike | None = None,
    steps: int = 900,
    seed: int = 0,
    tolerance: float = 0.01,
    **how: Any,
) -> float:
    """The load at which a network saturates: the largest that it keeps up with.

    It does if of what is due in the last half 97 % arrive, and what is due in the second quarter of the time and in the
    third all arrives, the latter at most 1.3 times as late on average. (As an open load is drawn, and the time is
    finite, the load that is found may be above the least at which queues grow without end: by a few per cent, and by
    more where few packets take the links that are too busy, as by hashed ways.)

    Args:
        destinations, steps, seed, how: as in `latency_against_load`.
        tolerance: of the load, as a part of it; found by halving.

    Raises:
        UsageError: as there.

    Returns:
        the load; inf where no packet takes a link.

    Examples:
        >>> from pybsp.routing import networks
        >>> mesh = networks.Array((6, 6))
        >>> bound = networks.saturation_bound(mesh)
        >>> bound, bool(0.93 * bound < networks.saturation(mesh, steps=300, tolerance=0.03) <= 1.05 * bound)
        (0.6666666666666666, True)
        >>> networks.saturation(mesh, destinations=range(36))  # all keep what they have
        inf
    """
    if isinstance(tolerance, bool) or not isinstance(tolerance, (int, float)) or not 1e-6 <= tolerance < 1:
        raise UsageError(f"saturation: tolerance: expected a part of the load, 1e-6 to 1, got {brief(tolerance)}")
    _steps("saturation", steps, how)
    period = how.get("period", 1)
    low, high = 0.0, source_rate(network, per_link(check_network("saturation", network), "period", period))
    if how.get("routing", "greedy") == "greedy":
        bound = saturation_bound(network, destinations, period, seed=seed)
        if bound == float("inf"):
            return bound
        high = min(high, 2 * bound)
    while high - low > tolerance * high:
        load = (low + high) / 2
        injections = Injections.open(network.p, load, steps, destinations, seed)
        if _keeps_up(flow(network, injections, seed=seed, until=steps, **how), steps):
            low = load
        else:
            high = load
    return (low + high) / 2


def _keeps_up(done: Flow, steps: int) -> bool:
    half = steps // 2
    due = np.count_nonzero(done.injections.times >= half) / (done.network.p * (steps - half))
    before, after = done.mean_latency(steps // 4, half), done.mean_latency(half, 3 * steps // 4)
    return bool(done.throughput(half, steps) >= 0.97 * due and after < float("inf") and after <= 1.3 * before)


def saturation_bound(
    network: Network, destinations: ArrayLike | None = None, period: ArrayLike = 1, *, seed: int = 0
) -> float:
    """The load at which the busiest link of a network is always busy, by greedy routing: above, its queue has no end.

    Args:
        destinations: of each processor's packets, shape (p,); None: uniform traffic.
        period: as in `flow`.
        seed: where packets draw their ways. Each pair's draws once here: an estimate, and no bound.

    Follows the packets of all pairs, p^2 (or p) of them.

    Examples:
        >>> from pybsp.routing import networks
        >>> networks.saturation_bound(networks.Torus((8, 8, 8))), networks.saturation_bound(networks.Array((8, 8)))
        (1.0, 0.5)
    """
    p = check_network("saturation_bound", network).p
    if destinations is None:
        sources, into = (each.ravel() for each in np.indices((p, p)))
    else:
        sources, into = checked_relation("saturation_bound", np.arange(p), destinations, p)
    at, end = network.places[sources], network.ends[into]
    rng = generator("saturation_bound", seed)
    at = at.copy()
    state = network.begin(at, end, rng)
    load = np.zeros(len(network.tails))
    while len(on := np.flatnonzero(at != end)):
        link, state[on] = network.step(at[on], end[on], state[on], rng)
        at[on] = network.heads[link]
        load += np.bincount(link, minlength=len(load))
    busiest = float((load * per_link(network, "period", period)).max(initial=0.0)) * p / len(sources)
    return 1 / busiest if busiest else float("inf")
