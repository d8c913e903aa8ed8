"""Table 1 of *BSP vs LogP* by measurement, and Observation 1.

    python -m pybsp.benchmarks.studies.network_parameters [--quick] [--seeds 2] [--most 4608] [--json FILE]

Random h-relations are routed on each network, packet by packet, for some h and p; for each p T(h) = gamma*h + delta is
fitted by least squares of relative residuals, and then gamma and delta over p: as a * p^e, as a * (log2 p)^e, and as
a * x + b with x the table's entry. Where some relations are bad for greedy routing, two phases are shown beside it, and
what both take for copies of one bad permutation. Observation 1: for each c = ceil(L/G) the least L is c*gamma + delta,
with G = L/c; shown is the c for which the larger of G/g* and L/(l* + g*) is least.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from pybsp.routing import Relation, relations
from pybsp.routing.networks import Network, network

from .frame import Study, cells, table

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
H = (1, 2, 4, 8, 16, 32, 64)
FEW = 30_000  # packets
BAD = 2048  # the largest p for bad relations


class Topology(NamedTuple):
    """A row of the table."""

    name: str
    p: tuple[int, ...]
    gamma: str  # the table's entries, as text
    delta: str
    ports: str = "multi"
    two_phase: bool = False  # whether some relations are bad for greedy routing
    h: tuple[int, ...] = H  # of the relations; to see a gamma below 1, larger ones are needed

    @property
    def title(self) -> str:
        """The name, for tables."""
        return self.name.replace("-", " ") + (f" ({self.ports}-port)" if self.name == "hypercube" else "")


POWERS = (32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
CYCLES = (24, 64, 160, 384, 896, 2048, 4608, 10240)  # n * 2^n
SQUARES = (16, 64, 256, 1024, 4096)
TOPOLOGIES = (
    Topology("linear-array", (16, 32, 64, 128, 256, 512), "p", "p"),
    Topology("2d-array", SQUARES, "p^1/2", "p^1/2"),
    Topology("3d-array", (27, 64, 216, 512, 1000, 1728, 4096), "p^1/3", "p^1/3", two_phase=True),
    Topology("hypercube", POWERS, "1", "log p", two_phase=True, h=(*H, 128, 256, 512)),
    Topology("hypercube", POWERS, "log p", "log p", "single", two_phase=True),
    Topology("butterfly", CYCLES, "log p", "log p", two_phase=True),
    Topology("cube-connected-cycles", CYCLES, "log p", "log p", two_phase=True),
    Topology("shuffle-exchange", POWERS, "log p", "log p", two_phase=True),
    Topology("pruned-butterfly", SQUARES, "p^1/2", "log p"),
    Topology("mesh-of-trees", SQUARES, "p^1/2", "log p"),
)


# -- relations ----------------------------------------------------------------------------------------------------


def bad_relation(net: Network, h: int) -> Relation:
    """h copies of a permutation that is bad for greedy routing.

    On three dimensions: a layer to a line. Else: node numbers, or rows', with their bits reversed.
    """
    if net.name.startswith(("hypercube", "shuffle-exchange")):
        return relations.bit_reversal(net.p, h)
    v = np.arange(net.p)
    if net.name.startswith("array"):
        side = round(net.p ** (1 / 3))
        x, y, z = v // side**2, v // side % side, v % side
        to = (z * side + (y + side // 2) % side) * side + x
    else:
        n = next(n for n in range(2, net.p) if n << n == net.p)
        reversal = relations.bit_reversal(1 << n).destinations
        butterfly = net.name.startswith("butterfly")
        to = v >> n << n | reversal[v & (1 << n) - 1] if butterfly else reversal[v // n] * n + v % n
    return Relation(np.tile(v, h), np.tile(to, h), net.p)


# -- fits ---------------------------------------------------------------------------------------------------------


class Line(NamedTuple):
    """T(h) = gamma*h + delta; worst: the largest residual, relative to T."""

    gamma: float
    delta: float
    worst: float


def fit_line(h: Sequence[int] | Floats, times: Sequence[float] | Floats) -> Line:
    """The line whose relative residuals have the least squares."""
    T = np.asarray(times)
    columns = np.stack((np.asarray(h, float), np.ones(len(T))), axis=1) / T[:, None]
    gamma, delta = np.linalg.lstsq(columns, np.ones(len(T)), rcond=None)[0]
    return Line(float(gamma), float(delta), float(np.abs(columns @ (gamma, delta) - 1).max()))


class Growth(NamedTuple):
    """a * x^e; error: root of the mean square of the logarithms' residuals, about the relative error."""

    factor: float
    power: float
    error: float


def fit_growth(x: Sequence[float] | Floats, values: Sequence[float] | Floats) -> Growth:
    """The power of x that is nearest to some values, by logarithms."""
    x, y = np.log(x), np.log(values)
    power, factor = np.polyfit(x, y, 1)
    return Growth(float(np.exp(factor)), float(power), float(np.sqrt(np.mean((y - power * x - factor) ** 2))))


class Row(NamedTuple):
    """What was measured of a topology, with greedy routing or two phases, random or bad relations."""

    topology: Topology
    two_phase: bool
    bad: bool
    p: tuple[int, ...]
    mean: Floats  # steps for each p and h, shape (len(p), len(topology.h))
    longest: Ints

    @property
    def lines(self) -> list[Line]:
        """T(h), for each p."""
        return [fit_line(self.topology.h, times) for times in self.mean]

    def of(self, name: str) -> Floats:
        """gamma or delta, of each p."""
        return np.array([getattr(line, name) for line in self.lines])

    @property
    def how(self) -> tuple[str, str]:
        """The network and the routing, for tables."""
        return self.topology.title, "two phases" if self.two_phase else "greedy"

    def growth(self, values: Floats) -> dict[str, Growth]:
        """Of gamma or delta over p, and over log p."""
        return {"p": fit_growth(self.p, values), "log p": fit_growth(np.log2(self.p), values)}

    def entries(self, of: str) -> Floats:
        """The table's entries of gamma or delta, with constant 1."""
        if of == "gamma" and self.topology.ports == "single":
            of = "delta"  # log p, as its delta; the network's own gamma is that of many ports
        return np.array([getattr(network(self.topology.name, p), of) for p in self.p])


def measure(topology: Topology, two_phase: bool, bad: bool, seeds: int, most: int) -> Row:
    """Route so many relations for each h and each p up to `most`, or more, where there are few packets."""
    sizes = tuple(p for p in topology.p if p <= most)
    mean = np.empty((len(sizes), len(topology.h)))
    longest = np.empty(mean.shape, np.int64)
    for i, p in enumerate(sizes):
        net = network(topology.name, p)
        for j, h in enumerate(topology.h):
            runs = 1 if bad else max(seeds, min(10 * seeds, FEW // (p * h)))
            taken = [route(topology, net, two_phase, bad, h, seed) for seed in range(runs)]
            mean[i, j], longest[i, j] = np.mean(taken), max(taken)
    return Row(topology, two_phase, bad, sizes, mean, longest)


def route(topology: Topology, net: Network, two_phase: bool, bad: bool, h: int, seed: int) -> int:
    """The steps that one relation takes."""
    relation = bad_relation(net, h) if bad else relations.random_relation(net.p, h, seed)
    return net.route(relation, ports=topology.ports, two_phase=two_phase, seed=seed).steps


# -- Observation 1 ------------------------------------------------------------------------------------------------


class Best(NamedTuple):
    """The best parameters of a network: of BSP g and l, of stall-free LogP G and L with c = ceil(L/G)."""

    g: float
    l: float  # noqa: E741
    c: int
    G: float
    L: float

    @property
    def ratios(self) -> tuple[float, float]:
        """G*/g* and L*/(l* + g*)."""
        return self.G / self.g, self.L / (self.l + self.g)


def best(gamma: float, delta: float) -> Best:
    """Observation 1: g = gamma, l = delta, and the L >= ceil(L/G)*gamma + delta that is nearest to both lower bounds.

    With c = ceil(L/G) packets to route, L = c*gamma + delta is the least, and then G = L/c. G is above gamma whatever
    c, and L at least gamma + delta. c = ceil(delta/gamma) would be enough for at most twice of both.
    """
    choices = (
        Best(gamma, delta, c, gamma + delta / c, c * gamma + delta)
        for c in range(1, max(1, math.ceil(delta / gamma)) + 1)
    )
    return min(choices, key=lambda choice: max(choice.ratios))


def observe(row: Row, seeds: int) -> list[dict[str, float]]:
    """Observation 1 for each p; longest: the most steps of some more random c-relations, over L*.

    g* is gamma; l* is enough for all that was routed, and for a barrier, which takes a diameter.
    """
    found = []
    for p, line, longest in zip(row.p, row.lines, row.longest, strict=True):
        net = network(row.topology.name, p)
        beside = longest - line.gamma * np.array(row.topology.h)
        here = best(line.gamma, max(float(beside.max()), net.diameter))
        again = max(route(row.topology, net, row.two_phase, False, here.c, seed) for seed in range(100, 100 + seeds))
        of_G, of_L = here.ratios
        found.append({"p": p, **here._asdict(), "of G": of_G, "of L": of_L, "longest": again / here.L})
    return found


# -- tables -------------------------------------------------------------------------------------------------------


def _forms(growth: dict[str, Growth]) -> str:
    """Both, and their relative errors; the nearer one is marked."""
    nearer = min(growth, key=lambda form: growth[form].error)
    return cells(
        f"{found.factor:.2g} {name}^{found.power:.2f} ±{found.error:.0%}{'*' if form == nearer else ' '}"
        for form, name, found in (("p", "p", growth["p"]), ("log p", "(log p)", growth["log p"]))
    )


def _range(values: Floats | Sequence[float]) -> str:
    """From the least to the largest."""
    return f"{min(values):.2f} - {max(values):.2f}"


def parameters(rows: Sequence[Row], of: str) -> Table:
    """Table 1's entries of gamma, or of delta, and what was measured."""
    lines = []
    for row in rows:
        values, entries = row.of(of), row.entries(of)
        line = fit_line(entries, values) if np.ptp(entries) else None
        straight = f"{line.gamma:.2f} x {line.delta:+.1f} ±{line.worst:.0%}" if line else ""
        which = cells((*row.how, f"{row.p[0]} - {row.p[-1]}", getattr(row.topology, of), _forms(row.growth(values))))
        lines.append(f"{which} | {straight} | {values[0]:.2f}, {values[-1]:.2f} | {_range(values / entries)}")
    return table(
        f"{of}(p) of T(h, p) = gamma(p) h + delta(p), random h-relations (* the nearer of two forms)",
        "network | routing | p | Table 1 | a p^e | a (log p)^e | a x + b, x the entry | least, largest p | over x",
        lines,
    )


def observation(row: Row, points: Sequence[dict[str, float]]) -> tuple[object, ...]:
    """Observation 1: the figures at the largest p, and the ratios over all p."""
    ranges = (_range([point[name] for point in points]) for name in ("of G", "of L", "longest"))
    return *row.how, *(points[-1][name] for name in ("p", "g", "l", "c", "G", "L")), *ranges


def as_dict(row: Row) -> dict[str, Any]:
    """A row as the JSON file has it."""
    return {
        "network": row.topology.name, "ports": row.topology.ports, "routing": row.how[1],
        "relation": "bad" if row.bad else "random", "h": row.topology.h, "p": row.p,
        "steps": row.mean, "longest": row.longest, "lines": row.lines, "gamma": row.growth(row.of("gamma")),
    }  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print the tables."""
    study = Study(__doc__, keep="--json", quick="less, in seconds")
    study.add_argument("--seeds", type=int, help="random relations for each h and p (default: 2; quick: 1)")
    study.add_argument("--most", type=int, help="the largest p, up to 10240 (default: 4608; quick: 600)")
    options = study.begin(arguments)
    seeds, most = (1, 600) if options.quick else (2, 4608)
    seeds, most = options.seeds or seeds, options.most or most
    if seeds < 1:
        study.error(f"--seeds: expected at least 1, got {seeds}")
    if most < 256:
        study.error(f"--most: expected at least 256, for three p of each network, got {most}")

    phases = [(topology, two) for topology in TOPOLOGIES for two in (False, True) if topology.two_phase or not two]
    rows = [measure(topology, two, False, seeds, most) for topology, two in study.each(phases)]
    bad = [measure(topology, two, True, 1, min(most, BAD)) for topology, two in phases if topology.two_phase]
    found = [(row, observe(row, 3)) for row in rows if row.two_phase == row.topology.two_phase]
    study.show(
        parameters(rows, "gamma"),
        parameters(rows, "delta"),
        table(
            "T(h) against its line, for all p",
            "network | routing | largest residual [.0%] | at p",
            ((*r.how, *max((line.worst, p) for line, p in zip(r.lines, r.p, strict=True))) for r in rows),
        ),
        table(
            "gamma(p) for h copies of a bad permutation (* the nearer of two forms)",
            "network | routing | a p^e | a (log p)^e | at the largest p",
            (cells((*r.how, _forms(r.growth(of := r.of("gamma"))), f"{of[-1]:.2f}")) for r in bad),
        ),
        table(
            "Observation 1: figures at the largest p, ratios over all p",
            "network | routing | p | g* [.2f] | l* [.1f] | ceil(L/G) | G* [.2f] | L* [.1f] | G*/g* | L*/(l* + g*) | "
            "c-relations, / L*",
            (observation(*one) for one in found),
        ),
    )
    observed = [
        {"network": row.topology.name, "ports": row.topology.ports, **point}
        for row, points in found
        for point in points
    ]
    study.end({"rows": [as_dict(row) for row in (*rows, *bad)], "observation 1": observed})


if __name__ == "__main__":
    main()
