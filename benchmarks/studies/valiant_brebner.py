"""Valiant-Brebner in simulation (*Experiences with a model for parallel computation*, section 2): all its figures.

    python -m pybsp.benchmarks.studies.valiant_brebner [--quick] [--most 14] [--plot FILE.png] [--json FILE]

    steps           r(n, h) and packets through a node d(n, h) over n and h, phase 2 alone and both phases, on the
                    paper's network with uniform destinations and on the bare cube with exact h-relations; the fits
                    r = a h + b n (+ c) and d = (c + e n) h beside the paper's 1.22 h + 1.6 n and (1.1 + 0.7 n) h
    seconds         T(n, m, h) for n = 2 and 3 with the paper's B and t_d, beside its model and what it measured; and
                    the effective rates of the links
    permutations    transpose and bit reversal: greedy (dimensions in fixed order), drawn order, and two phases
    tails           how often routing takes long (Theorems 1 and 2)

Steps are packet steps; a step of a link takes m/B seconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from pybsp.routing.networks.application_cube import ApplicationCube
from pybsp.routing.networks.hypercube import Hypercube
from pybsp.routing.networks.network import Network
from pybsp.routing.relation import Relation
from pybsp.routing.relations import bit_reversal, random_relation, transpose, uniform_destinations
from pybsp.routing.seeds import Seed

from .frame import Study, cells, heads, table

Floats = NDArray[np.float64]

B = 0.625  # bytes/us of a link of the paper's machine
T_D = 14.5  # us that it took a node to route a packet
UNIT = 8  # bytes of a packet of the barrier: "a synchronization packet of one unit"
LENGTHS = (8, 16, 32, 64)  # bytes of packets
PAPER_R, PAPER_D = (1.22, 1.6), (1.1, 0.7)
# a and b of T(n, m, h) = a h + b in us, section 2.3: what its model predicts, and what it measured; and the rates of
# the external links for h = 100, in bytes/s.
PAPER_MODEL = {
    2: ((51.9, 41), (67.5, 82), (98.8, 164), (161.2, 328)),
    3: ((62.0, 61), (77.6, 123), (108.9, 246), (171.3, 492)),
}
PAPER_MEASURED = {
    2: ((42.2, 183), (55.8, 227), (88.7, 348), (149.0, 534)),
    3: ((53.4, 255), (83.1, 372), (102.5, 506), (157.3, 747)),
}
PAPER_RATES = {2: (1.82e5, 2.75e5, 3.47e5, 4.15e5), 3: (1.43e5, 1.85e5, 2.98e5, 3.89e5)}

HS = (1, 2, 4, 8, 16, 32, 64)
FEW = (2, 3)  # n of the paper's machine
LONG = (10, 20, 30, 40, 50, 60, 70, 80, 90, 100)  # h of its figure 3, as far as is known
RANGES_N = ((2, 3), (2, 6), (2, 10), (2, 14))
RANGES_H = ((1, 64), (1, 16), (8, 64))


# -- steps --------------------------------------------------------------------------------------------------------


class Setting(NamedTuple):
    """A network and its relations: the paper's, or the bare cube."""

    name: str
    network: Callable[[int], Network]
    relation: Callable[[int, int, Seed], Relation]


SETTINGS = (
    Setting("the paper's network, uniform", ApplicationCube, uniform_destinations),
    Setting("bare cube, exact h-relation", lambda p: Hypercube(p, "random"), random_relation),
)
PHASES = {"phase 2": False, "both phases": True}


class Point(NamedTuple):
    """Means over some runs; packets are those through a node of the cube."""

    n: int
    h: int
    runs: int
    steps: float  # until all packets are there
    busiest: float
    mean: float


def point(setting: Setting, n: int, h: int, two_phase: bool, runs: int) -> Point:
    """Route so many relations."""
    p = 1 << n
    network, found = setting.network(p), []
    for seed in range(runs):
        relation = setting.relation(p, h, (n, h, seed))
        traffic = network.route(relation, two_phase=two_phase, seed=seed)
        through = traffic.node_traffic[:p]
        found.append((traffic.steps, through.max(), through.mean()))
    return Point(n, h, runs, *(float(mean) for mean in np.mean(found, axis=0)))


def sweep(setting: Setting, two_phase: bool, ns: Iterable[int], hs: Sequence[int], packets: int) -> list[Point]:
    """All n and h, each up to 20 times, but no more than so many packets if two runs have fewer."""
    return [point(setting, n, h, two_phase, max(2, min(20, packets // (h << n)))) for n in ns for h in hs]


class Fit(NamedTuple):
    """Least squares: coefficients, and the root of the mean square of the residuals, of the fit and of the paper's."""

    coefficients: tuple[float, ...]
    residual: float
    paper: float


def fit(columns: Sequence[Floats], values: Floats, paper: tuple[float, float]) -> Fit:
    """Values by a linear combination of columns; the paper's has those of the first two."""
    matrix = np.stack(columns, axis=1)
    coefficients = np.linalg.lstsq(matrix, values, rcond=None)[0]
    theirs = matrix[:, :2] @ np.array(paper)
    return Fit(
        tuple(float(c) for c in coefficients),
        float(np.sqrt(np.mean((matrix @ coefficients - values) ** 2))),
        float(np.sqrt(np.mean((theirs - values) ** 2))),
    )


class Fits(NamedTuple):
    """The fits to the points with n and h in ranges; residuals of d are of d/h."""

    ns: tuple[int, int]
    hs: tuple[int, int]
    r: Fit  # a h + b n
    shifted: Fit  # a h + b n + c
    busiest: Fit  # (c + e n) h
    mean: Fit


def fits(points: Sequence[Point], ns: tuple[int, int], hs: tuple[int, int]) -> Fits:
    """Fit r and d; each point counts the same, of d after division by h."""
    used = [at for at in points if ns[0] <= at.n <= ns[1] and hs[0] <= at.h <= hs[1]]
    n, h, steps, busiest, mean = columns(used)
    one = np.ones(len(used))
    r, shifted = fit((h, n), steps, PAPER_R), fit((h, n, one), steps, PAPER_R)
    return Fits(ns, hs, r, shifted, fit((one, n), busiest / h, PAPER_D), fit((one, n), mean / h, PAPER_D))


def columns(points: Sequence[Point]) -> Iterator[Floats]:
    """n, h, steps, busiest and mean of points."""
    return (np.array([float(getattr(at, name)) for at in points]) for name in ("n", "h", "steps", "busiest", "mean"))


# -- seconds ------------------------------------------------------------------------------------------------------


class Seconds(NamedTuple):
    """T(n, m, h) = a h + b in us; the barrier's time is in all b but those of the paper's model."""

    n: int
    m: int
    model: tuple[float, float]  # the paper's, and what it measured
    measured: tuple[float, float]
    busiest: tuple[float, float]  # simulated: r m/B + d t_d + barrier, d that of the busiest node; and the mean of d
    mean: tuple[float, float]
    barrier: float  # 2 n steps of a packet of one unit, each with t_d
    rates: tuple[
        float, float, float
    ]  # m h/T of an external link, h = 100, bytes/s: the paper's, with busiest, with mean


def seconds(points: Sequence[Point]) -> list[Seconds]:
    """From simulated steps on the paper's network, for its n and packets."""
    found = []
    for n in FEW:
        _, h, steps, busiest, mean = columns([at for at in points if at.n == n])
        barrier = 2 * n * (UNIT / B + T_D)
        for i, m in enumerate(LENGTHS):
            lines, rates = [], []
            for through in (busiest, mean):
                times = steps * m / B + through * T_D + barrier
                a, b = np.polyfit(h, times, 1)
                lines.append((float(a), float(b)))
                rates.append(float(m * 100 / times[h == 100][0] * 1e6))
            rate = (PAPER_RATES[n][i], rates[0], rates[1])
            found.append(Seconds(n, m, PAPER_MODEL[n][i], PAPER_MEASURED[n][i], lines[0], lines[1], barrier, rate))
    return found


# -- permutations -------------------------------------------------------------------------------------------------


class Permuted(NamedTuple):
    """Steps on the bare cube: greedy, one phase with drawn order, and two phases with fixed and with drawn order."""

    n: int
    greedy: float
    drawn: float
    two_phase: float
    two_phase_drawn: float
    busiest_link: int  # of greedy
    busiest_node: float  # with drawn order


def permuted(relation: Relation, runs: int) -> Permuted:
    """Means over seeds of what is drawn."""
    fixed, random = Hypercube(relation.p, "fixed"), Hypercube(relation.p, "random")

    def route(network: Network, two_phase: bool) -> tuple[float, float]:
        found = [network.route(relation, two_phase=two_phase, seed=seed) for seed in range(runs)]
        return float(np.mean([it.steps for it in found])), float(np.mean([it.max_node_traffic for it in found]))

    greedy, (drawn, node) = fixed.route(relation), route(random, False)
    twice, twice_drawn = (route(network, True)[0] for network in (fixed, random))
    return Permuted(fixed.n, greedy.steps, drawn, twice, twice_drawn, greedy.max_link_load, node)


def through_zero(n: int) -> float:
    """Packets of the transpose that node 0, as every node with equal halves, can expect with drawn order.

    A packet from a number with k ones goes through it if none of these lies where the other half has one, and all are
    cleared before any of the k others is set: of all orders of 2k dimensions, one in C(2k, k).
    """
    return float(sum(math.comb(n // 2, k) * 2**k / math.comb(2 * k, k) for k in range(n // 2 + 1)))


def growth(rows: Sequence[Permuted], least: int = 6) -> tuple[list[float], list[float]]:
    """Exponents s of 2^(s n) of ROUTES, and slopes of steps over n, by least squares over n from `least` on."""
    used = [row for row in rows if row.n >= least]
    n, steps = [row.n for row in used], np.array([[getattr(row, name) for name in ROUTES] for row in used])
    return tuple(np.polyfit(n, values, 1)[0].tolist() for values in (np.log2(steps), steps))


ROUTES = ("greedy", "drawn", "two_phase", "two_phase_drawn")
PERMUTATIONS: dict[str, Callable[[int], Relation]] = {"bit reversal": bit_reversal, "transpose": transpose}


# -- tails --------------------------------------------------------------------------------------------------------


CONSTANTS = (1.25, 1.5, 1.75, 2.0, 2.25, 2.5)


def show_tails(
    study: Study, theorem: str, scale: str, cases: Iterable[tuple[int, int, int, Callable[[Seed], Relation]]], runs: int
) -> None:
    """Steps of both phases on the bare cube, dimensions drawn; shares of runs that took more than multiples of `scale`.

    Args:
        cases: n, h, the scale, and relations to draw from.
    """
    rows = []
    for n, h, unit, relation in cases:
        network = Hypercube(1 << n, "random")
        steps = np.array([network.route(relation((n, h, s)), two_phase=True, seed=s).steps for s in range(runs)])
        median, most = float(np.median(steps)), int(steps.max())
        beyond = (float(np.mean(steps > constant * unit)) for constant in CONSTANTS)
        rows.append((n, h, runs, median, median / unit, most, most / unit, *beyond))
    beyond_heads = heads((f"> {constant:g} ({scale})" for constant in CONSTANTS), ".3g")
    head = f"n | h | runs | median [g] | over {scale} [.2f] | most | over {scale} [.2f] | {beyond_heads}"
    study.rows(theorem.split(":")[0].lower(), theorem, head, rows)


# -- what is shown ------------------------------------------------------------------------------------------------


def _line(coefficients: Sequence[float], *names: str) -> str:
    """A sum, as it is written."""
    text = " ".join(f"{'-' if c < 0 else '+'} {abs(c):.2f}{name}" for c, name in zip(coefficients, names, strict=True))
    return text.removeprefix("+ ")


def fits_table(name: str, found: Sequence[Fits]) -> Table:
    """The fits of a setting."""

    def cell(fitted: Fit, digits: int, *names: str, paper: int | None = None) -> str:
        beside = "" if paper is None else f" ({fitted.paper:.{paper}f})"
        return f"{_line(fitted.coefficients, *names)} | {fitted.residual:.{digits}f}{beside}"

    return table(
        f"{name}: fits, and roots of mean squares of their residuals (in brackets: of the paper's constants)",
        "n | h | r, steps | residual | r with a constant | residual | d/h, busiest node | residual | "
        "d/h, mean | residual",
        (
            f"{row.ns[0]} to {row.ns[1]} | {row.hs[0]} to {row.hs[1]} | {cell(row.r, 1, ' h', ' n', paper=1)} | "
            f"{cell(row.shifted, 1, ' h', ' n', '')} | {cell(row.busiest, 2, '', ' n', paper=2)} | "
            f"{cell(row.mean, 3, '', ' n', paper=2)}"
            for row in found
        ),
    )


def points_table(name: str, points: Sequence[Point]) -> Table:
    """r, and d/h of the busiest node, over n and h."""
    rows: dict[int, list[str]] = {}
    for at in points:
        rows.setdefault(at.n, [f"{at.n}"]).append(f"{at.steps:.1f} / {at.busiest / at.h:.2f}")
    head = cells(("n", *(f"h = {h}" for h in sorted({at.h for at in points}))))
    return table(f"{name}: steps r / packets d/h through the busiest node", head, rows.values())


def seconds_table(found: Sequence[Seconds]) -> Table:
    """T and rates."""
    rows = []
    for row in found:
        beyond, at_50 = row.measured[1] - row.model[1], row.measured[0] * 50 + row.measured[1]
        lines = (f"{a:.1f} h + {b:.0f}" for a, b in (row.model, row.measured, row.busiest, row.mean))
        rates = (rate / 1e5 for rate in row.rates)
        rows.append((row.n, row.m, *lines, beyond, beyond / (2 * row.n), beyond / at_50, row.barrier, *rates))
    return table(
        "T(n, m, h) = a h + b, us, of phase 2 on the paper's network; rates of external links at h = 100, 10^5 bytes/s",
        "n | m | paper's model | measured | simulated, busiest node | simulated, mean node | b measured - model "
        "[.0f] | each of 2 n [.0f] | of T(50) [.1%] | barrier [.0f] | rate: paper [.2f] | busiest [.2f] | mean [.2f]",
        rows,
    )


def slopes_table(found: Sequence[Seconds]) -> Table:
    """How far models are from the slopes that the paper measured, and how far these are from straight lines over m."""
    names = {"model": "paper's model", "busiest": "simulated, busiest node", "mean": "simulated, mean node"}
    rows = [(name, *(getattr(row, of)[0] / row.measured[0] for row in found)) for of, name in names.items()]
    lines = []
    for row in found:
        others = [other for other in found if other.n == row.n and other.m != row.m]
        line = np.polyfit([other.m for other in others], [other.measured[0] for other in others], 1)
        lines.append(float(np.polyval(line, row.m)) / row.measured[0])
    rows.append(("line through the measured ones of the other m", *lines))
    head = f"of | {heads((f'n = {row.n}, m = {row.m}' for row in found), '.2f')}"
    return table("Slopes a over the paper's measured ones", head, rows)


def permuted_table(name: str, rows: Sequence[Permuted]) -> Table:
    """Steps over n."""
    lines: list[tuple[object, ...]] = [
        (r.n, r.greedy, r.busiest_link, r.drawn, r.busiest_node, r.two_phase, r.two_phase_drawn, r.greedy / r.two_phase)
        for r in rows
    ]
    for what, of in zip(("s of 2^(s n), n >= 6", "steps a dimension, n >= 6"), growth(rows), strict=True):
        greedy, *others = (f"{value:.2f}" for value in of)
        lines.append((what, greedy, None, others[0], None, *others[1:], None))
    return table(
        f"{name}: steps on the bare cube",
        "n | greedy [.0f] | its busiest link | drawn order [.1f] | its busiest node [.1f] | two phases [.1f] | "
        "two phases, drawn [.1f] | greedy / two phases [.2f]",
        lines,
    )


def draw(pyplot: Any, points: Sequence[Point], found: dict[str, list[Permuted]]) -> Any:
    """r/h and d/h of the paper's network over n with its lines; and steps of permutations."""
    figure, (left, middle, right) = pyplot.subplots(1, 3, figsize=(16, 5), layout="constrained")
    ns = np.array(sorted({at.n for at in points}))
    for h, colour in zip((4, 16, 64), "bgr", strict=True):
        mine = [at for at in points if at.h == h]
        left.plot(ns, [at.steps / h for at in mine], colour + "o-", label=f"h = {h}")
        left.plot(ns, PAPER_R[0] + PAPER_R[1] * ns / h, colour + "--")
        middle.plot(ns, [at.busiest / h for at in mine], colour + "o-", label=f"busiest, h = {h}")
    middle.plot(ns, [at.mean / 64 for at in points if at.h == 64], "k.-", label="mean, h = 64")
    middle.plot(ns, PAPER_D[0] + PAPER_D[1] * ns, "k--", label="paper")
    left.plot([], [], "k--", label="paper")
    left.set(title="Steps, phase 2", xlabel="n", ylabel="r / h")
    middle.set(title="Packets through a node, phase 2", xlabel="n", ylabel="d / h")
    for (name, rows), style in zip(found.items(), ("-", ":"), strict=True):
        for route, colour in zip(ROUTES, "rbgk", strict=True):
            label = f"{name}, {route.replace('_', ' ')}"
            right.plot([row.n for row in rows], [getattr(row, route) for row in rows], f"{colour}.{style}", label=label)
    right.set(title="Permutations", xlabel="n", ylabel="steps", yscale="log")
    return figure


def main() -> None:
    """Route, and print the tables."""
    study = Study(__doc__, keep="--json", plot="the curves", quick="n to 8, and fewer runs: some seconds")
    study.add_argument("--most", type=int, default=14, help="largest n")
    options = study.begin()
    if options.most < 8:
        study.error(f"--most must be at least 8, got {options.most}")
    most = 8 if options.quick else options.most
    packets, runs, many = (1 << 13, 3, 50) if options.quick else (1 << 17, 20, 1000)

    swept: dict[str, list[Point]] = {}
    fitted: dict[str, list[Fits]] = {}
    ranges = [(low, min(high, most)) for low, high in RANGES_N]
    for setting, (phases, two_phase) in study.each(product(SETTINGS, PHASES.items())):
        name = f"{setting.name}, {phases}"
        swept[name] = sweep(setting, two_phase, range(2, most + 1), HS, packets)
        fitted[name] = [fits(swept[name], ns, hs) for ns in dict.fromkeys(ranges) for hs in RANGES_H]
        study.show(points_table(name, swept[name]), fits_table(name, fitted[name]))
    long = sweep(SETTINGS[0], False, FEW, LONG, 1 << 16)
    of_paper = fits(long, (2, 3), (min(LONG), max(LONG)))
    times = seconds(long)
    study.show(fits_table("the paper's network, its n and h", [of_paper]), seconds_table(times), slopes_table(times))

    routed: dict[str, list[Permuted]] = {}
    for name, permutation in PERMUTATIONS.items():
        routed[name] = [
            permuted(permutation(1 << n), max(2, min(runs, 2 * packets >> n))) for n in range(2, most + 3, 2)
        ]
        study.show(permuted_table(name, routed[name]))
    expected = ", ".join(f"{through_zero(n):.0f} (n = {n})" for n in range(10, 31, 4))
    slope = growth(routed["transpose"])[1][ROUTES.index("two_phase")]
    beyond = next(n for n in range(2, 100, 2) if through_zero(n) / n > slope * n)
    study.show(
        f"transpose, drawn order: through node 0 {expected}; a link more than {slope:.1f} n from n = {beyond} on\n"
    )
    study.results = {
        "points": swept,
        "fits": fitted,
        "paper's n and h": {"points": long, "fits": of_paper, "seconds": times},
        "permutations": routed,
    }
    reversals = ((n, 1, n, lambda _, p=1 << n: bit_reversal(p)) for n in range(2, min(most, 10) + 1, 2))
    show_tails(study, "Theorem 1: bit reversal in two phases", "n", reversals, many)
    relations = ((6, h, h + 6, partial(random_relation, 1 << 6, h)) for h in (1, 4, 8, 16, 32, 64))
    show_tails(study, "Theorem 2: exact h-relations in two phases", "h + n", relations, many // 2)
    study.end(draw=lambda pyplot: draw(pyplot, next(iter(swept.values())), routed))


if __name__ == "__main__":
    main()
