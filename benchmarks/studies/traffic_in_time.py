"""Traffic in time, beside closed forms: waiting for a link, saturation, latency against load.

    python -m pybsp.benchmarks.studies.traffic_in_time [--quick] [--json FILE]

Waiting for a link at which packets come at random and which each keeps busy for b steps: rho b / (2 (1 - rho)), M/D/1.
Saturation, the load at which a network no longer carries what it is given, under uniform traffic by dimension order: 8
over the side of a torus whose side is a multiple of 4, 4 over that of a mesh (one half of its processors sends half of
its packets over the bisection); of a dragonfly whose groups send to the next: 1/(a t), and by Valiant as much as the
links between groups carry in two hops. Of uniform traffic on a fat tree whose hashes spread pairs of processors
unevenly, and on a dragonfly, there is no closed form: beside the simulated load stands that at which the busiest link
is always busy, counted over all pairs (`saturation_bound`). Status 1 where a torus is more than 5 % off.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np

from pybsp.routing import networks
from pybsp.routing.networks import Array, Dragonfly, Hypercube, Injections, KaryFatTree, Network, Torus, flow

from .frame import Study


def waiting(rho: float, period: int, steps: int) -> float:
    """Mean steps that packets wait for a link that is busy for a part rho of the time: 512 links, each apart."""
    p = 512
    load = Injections.open(p, rho / period, steps * period, destinations=np.arange(p) ^ 1, seed=2)
    done = flow(Hypercube(p), load, period=period)
    return done.mean_latency(steps * period // 5, steps * period * 4 // 5) - 1


def main(arguments: Sequence[str] | None = None) -> int:
    """The tables."""
    study = Study(__doc__, keep="--json", quick="smaller networks, for a shorter time")
    options = study.begin(arguments)
    steps = 600 if options.quick else 900
    links = [
        (rho, period, rho * period / (2 * (1 - rho)), waiting(rho, period, 2 * steps))
        for rho, period in study.each([(0.3, 1), (0.5, 1), (0.7, 1), (0.8, 1), (0.7, 4)])
    ]
    dragonfly = Dragonfly(72)
    a, t, h = dragonfly.shape
    next_group = (np.arange(72) + a * t) % 72
    tree = KaryFatTree(54)
    cases: list[tuple[Network, str, str, np.ndarray | None, int | None, float]] = [
        (Torus((4, 4, 4)), "uniform", "greedy", None, None, 2.0),
        (Array((8, 8)), "uniform", "greedy", None, None, 1 / 2),
        (Hypercube(64), "uniform", "greedy", None, None, 2.0),
        (dragonfly, "uniform", "greedy", None, None, networks.saturation_bound(dragonfly)),
        (tree, "uniform", "greedy", None, None, networks.saturation_bound(tree)),
        (dragonfly, "to the next group", "greedy", next_group, None, 1 / (a * t)),
        (dragonfly, "to the next group", "valiant", next_group, None, h / (2 * t)),
    ]
    if not options.quick:
        cases += [
            (Torus((8, 8)), "uniform", "greedy", None, None, 1.0),
            (Torus((8, 8, 8)), "uniform", "greedy", None, None, 1.0),
            (Torus((8, 8, 8)), "uniform", "greedy", None, 8, 1.0),
        ]
    found = []
    for net, traffic, routing, destinations, buffers, closed in study.each(cases):
        load = networks.saturation(
            net, destinations=destinations, steps=steps, tolerance=0.01, routing=routing, buffers=buffers
        )
        name = f"{net.name} ({net.spread})" if isinstance(net, KaryFatTree) else net.name
        found.append((name, traffic, routing, buffers or "endless", closed, load, load / closed))
    torus = Torus((4, 4, 4) if options.quick else (8, 8, 8))
    bound = networks.saturation_bound(torus)
    loads = [part * bound for part in (0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 1.05, 1.2)]
    points = networks.latency_against_load(torus, loads, steps=steps)
    study.rows(
        "waiting",
        "mean steps that packets wait for a link",
        "rho [.1f] | period | M/D/1 [.3f] | simulated [.3f] | ratio [.3f]",
        [(*row, row[3] / row[2]) for row in links],
    )
    study.rows(
        "saturation",
        "saturation, packets for each processor and step",
        "network | traffic | routing | buffers | closed form, or counted [.3f] | simulated [.3f] | ratio [.3f]",
        found,
    )
    head = "load [.2f] | latency [.2f] | throughput [.3f] | busiest link [.2f]"
    study.rows("load", f"{torus.name}, uniform traffic, dimension order", head, points)
    study.end()
    return int(any(name.startswith("torus") and buffers == "endless" and abs(ratio - 1) > 0.05
                   for name, _, _, buffers, _, _, ratio in found))  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
