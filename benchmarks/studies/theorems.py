"""The theorems of *Communication primitives for BSP computers*, by count: cost over bound, and the constants.

    python -m pybsp.benchmarks.studies.theorems [--plot FILE.png] [--output FILE.json] [--most 4096]

Nothing is sent: all figures are made from the primitives' cost functions, which tests hold equal to the ledger. The
unit of time is g, the time of a word. Bounds take log x as max{1, log2 x}, as the paper does, and log P / log d with
its d = min{L/g, P}: where L/g is beyond P, log P / log(L/g) is less than the one superstep that anything takes.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pybsp import BSPMachine, Cost
from pybsp.collectives.baselines.bitonic_sort_few import bitonic_sort_few
from pybsp.collectives.baselines.broadcast_one_at_a_time import broadcast_one_at_a_time
from pybsp.collectives.baselines.prefix_pipelined import prefix_pipelined
from pybsp.collectives.bitonic_sort import bitonic_sort
from pybsp.collectives.bitonic_sort import choose as choose_levels
from pybsp.collectives.broadcast import broadcast
from pybsp.collectives.broadcast_items import broadcast_items
from pybsp.collectives.duplicate import choose as choose_duplicate
from pybsp.collectives.duplicate import duplicate
from pybsp.collectives.prefix import choose as choose_prefix
from pybsp.collectives.prefix import prefix
from pybsp.collectives.prefix_2d import prefix_2d

from .frame import Study, cells, heads, table

LIMIT = 8.0  # what every constant must be below
# L/g; with these and these P the constants are, to two decimals but a unit, those of all L/g to 256 and all P to 300.
RATIOS = (1, 1.5, 2, 3, 4, 5, 6, 8, 11, 14, 16, 17, 24, 30, 31, 32, 48, 64, 90, 96, 128, 181, 192, 225, 255, 256)
# Operations in the time of a word: 1 is the least that the paper's model admits, with 1000 they cost next to nothing.
SPEEDS = (1.0, 1000.0)
SMALL = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 14, 15, 16, 17, 24, 31, 32, 33, 60, 64, 82, 97, 100, 127, 128, 129, 152)
LARGE = (200, 251, 256, 257, 289, 500, 511, 512, 513, 729, 1000, 1021, 1024, 1025, 1536, 2039, 2048, 2049, 3000, 4093)
ITEMS = 1 << 16  # of all processors, at most, in a case of `duplicate`


def log(x: float) -> float:
    """The paper's: max{1, log2 x}."""
    return max(1.0, math.log2(x))


def bsp_machine(p: int, ratio: float, speed: float = 1.0) -> BSPMachine:
    """A machine on which a word takes time 1, a superstep L = ratio, and an operation 1/speed."""
    return BSPMachine(p=p, g=1.0, l=ratio, r=speed)


# -- the theorems -------------------------------------------------------------------------------------------------


class Case(NamedTuple):
    """What a primitive is given besides a machine."""

    label: str
    argument: Any = None
    items: float = 0.0  # what the bound multiplies by g: k, or (N + M)/P


NOTHING = Case("")  # to vary


class Theorem(NamedTuple):
    """A primitive and its bound, g * items + L * log^power P / log(min{L/g, P})."""

    name: str
    bound: str
    cost: Callable[[BSPMachine, Case], Cost]
    cases: Callable[[int], Sequence[Case]]
    power: int = 1

    def limit(self, p: int, ratio: float, case: Case) -> float:
        """The bound, in words' times."""
        return case.items + ratio * log(p) ** self.power / log(min(ratio, p))


def k_cases(p: int) -> list[Case]:
    """k from 1 to 16 P: both cases of the algorithms, and where P/k or k/P is no whole number."""
    root = math.isqrt(p)
    some = {1, 2, 3, root, root + 1, p // 16, p // 4, p // 2, p // 2 + 1, p - 1, p, p + 1, 2 * p - 1, 4 * p + 1, 16 * p}
    return [Case(f"k = {k}", k, k) for k in sorted(some) if 1 <= k <= 16 * p]


class Copies(NamedTuple):
    """An argument of `duplicate` that can be a key: p processors with n items each."""

    p: int
    n: int
    how: str

    def lists(self) -> list[NDArray[np.int64]]:
        """The copies of the items; where only one processor has items that are copied, the others' are left out."""
        counts = COPIES[self.how](self.p, self.n)
        if counts.ndim == 2:
            return list(counts)
        lists = [np.empty(0, np.int64)] * self.p
        lists[self.p // 2] = counts
        return lists

    def case(self) -> Case:
        """The case, with (N + M)/P."""
        total = sum(int(own.sum()) for own in self.lists())
        return Case(f"{self.n} items a processor, copies: {self.how}", self, self.n + total / self.p)


def _drawn(p: int, n: int) -> np.random.Generator:
    return np.random.default_rng(p + n)


# Of the items of one processor, shape (n,), or of all, (p, n).
COPIES: dict[str, Callable[[int, int], NDArray[np.int64]]] = {
    "4 P of one item": lambda p, n: 4 * p * (np.arange(n) == 0),
    "1 of each of one processor's": lambda p, n: np.full(n, 1),
    "P of each of one processor's": lambda p, n: np.full(n, p),
    "P of one processor's items": lambda p, n: np.diff(np.arange(n + 1) * p // n),  # as even as can be
    "none": lambda p, n: np.full((p, n), 0),
    "1 of each": lambda p, n: np.full((p, n), 1),
    "5 of each of every fourth processor's": lambda p, n: np.repeat(5 * (np.arange(p)[:, None] % 4 == 0), n, axis=1),
    "0 to 7": lambda p, n: _drawn(p, n).integers(0, 8, (p, n)),
    "Pareto": lambda p, n: np.minimum(_drawn(p, n).pareto(0.7, (p, n)), 1e6).astype(np.int64),
}
OF_ONE, OF_ALL = tuple(COPIES)[:4], tuple(COPIES)[4:]


def copies_cases(p: int) -> list[Case]:
    """Items a processor, up to 4 P, and their copies; P/2 items of one word make a message of P words.

    Of the P above 512, only some: a case takes longer than all of the other primitives'.
    """
    if p > 512 and p not in (1021, 4096):
        return []
    some = sorted({1, 2, p // 2, p, 4 * p} if p <= 512 else {1, p // 2, 4 * p})
    of_one = [Copies(p, n, how) for n in some if n for how in OF_ONE]
    of_all = [Copies(p, n, how) for n in some if 0 < n * p <= ITEMS for how in OF_ALL]
    return [copies.case() for copies in (Copies(p, 0, "none"), *of_all, *of_one)]


_choose_duplicate = lru_cache(maxsize=256)(choose_duplicate)


@lru_cache(maxsize=64)
def _duplicate(copies: Copies, degree: int) -> Cost:
    return duplicate.cost(bsp_machine(copies.p, 1.0), copies=copies.lists(), degree=degree)


def duplicate_cost(machine: BSPMachine, case: Case) -> Cost:
    """What `duplicate` costs; counted once for each degree."""
    steps = _duplicate(case.argument, _choose_duplicate(machine))
    return Cost(machine, tuple(steps), steps.after)


THEOREMS = (
    Theorem("broadcast", "L log P / log d", lambda on, _: broadcast.cost(on), lambda _: [NOTHING]),
    Theorem("broadcast_items", "g k + L log P / log d", lambda on, k: broadcast_items.cost(on, k.argument), k_cases),
    Theorem("prefix", "L log P / log d", lambda on, _: prefix.cost(on), lambda _: [NOTHING]),
    Theorem("prefix_2d", "g k + L log P / log d", lambda on, k: prefix_2d.cost(on, k.argument), k_cases),
    Theorem("bitonic_sort", "L log^2 P / log d", lambda on, _: bitonic_sort.cost(on), lambda _: [NOTHING], 2),
    Theorem("duplicate", "g (N+M)/P + L log P / log d", duplicate_cost, copies_cases),
)


# -- constants ----------------------------------------------------------------------------------------------------


class Constant(NamedTuple):
    """The largest of some ratios, and where it was found."""

    value: float = 0.0
    where: str = ""

    def or_else(self, value: float, p: int, ratio: float, speed: float, case: Case) -> Constant:
        """The larger of this and another."""
        if value <= self.value:
            return self
        label = f", {case.label}" if case.label else ""
        return Constant(value, f"P = {p}, L/g = {ratio:g}, {speed:g} op/word{label}")


QUANTITIES = ("g h + L", "supersteps * L", "g h", "w", "w + g h + L")


def quantities(cost: Cost, machine: BSPMachine) -> tuple[float, ...]:
    """Of a cost, what QUANTITIES names, in words' times; w in operations, of which a word's time holds at least one."""
    latency, h, w = cost.supersteps * machine.l, cost.h, cost.w
    return h + latency, latency, h, w, h + latency + w / machine.r


def processors(most: int) -> list[int]:
    """The sweep's: powers of two, primes and others."""
    return [p for p in (*SMALL, *LARGE, 4095, 4096) if p <= most]


def constants(theorem: Theorem, most: int = 4096) -> dict[str, Constant]:
    """For each of QUANTITIES the largest ratio to the bound, over all P, L/g, cases and speeds."""
    found = dict.fromkeys(QUANTITIES, Constant())
    for p in processors(most):
        machines = [(ratio, speed, bsp_machine(p, ratio, speed)) for ratio in RATIOS for speed in SPEEDS]
        for case in theorem.cases(p):
            for ratio, speed, machine in machines:
                limit = theorem.limit(p, ratio, case)
                for name, value in zip(QUANTITIES, quantities(theorem.cost(machine, case), machine), strict=True):
                    found[name] = found[name].or_else(value / limit, p, ratio, speed, case)
    return found


class Statement(NamedTuple):
    """What the paper says of computing, or of h in a superstep of the sort: a ratio that a constant bounds."""

    primitive: str
    ratio: str
    value: Callable[[BSPMachine], float]


def _busiest(cost: Cost) -> float:
    """The largest w of a superstep."""
    return max((*(step.w for step in cost), cost.after))


def _largest_h(cost: Cost) -> float:
    return max((step.h for step in cost), default=0)


def _work(machine: BSPMachine, degree: float) -> float:
    """w of a prefix over d log_d P, for d of at least 2."""
    d = max(2.0, degree)
    return prefix.cost(machine).w / (d * max(1.0, log(machine.p) / log(d)))


STATEMENTS = (
    Statement("prefix", "w / (d log_d P), with the d that it took", lambda on: _work(on, choose_prefix(on, 1)[1])),
    Statement("prefix", "w / (d log_d P), with d = min{L/g, P}", lambda on: _work(on, min(on.l, on.p))),
    Statement("bitonic_sort", "w of a superstep / (L/g)", lambda on: _busiest(bitonic_sort.cost(on)) / on.l),
    Statement("bitonic_sort", "h of a superstep / (L/g)", lambda on: _largest_h(bitonic_sort.cost(on)) / on.l),
)


def statements(most: int = 4096) -> list[Constant]:
    """The constant of each of STATEMENTS, over the same sweep."""
    found = [Constant()] * len(STATEMENTS)
    for p, ratio, speed in product(processors(most), RATIOS, SPEEDS):
        machine = bsp_machine(p, ratio, speed)
        for k, statement in enumerate(STATEMENTS):
            found[k] = found[k].or_else(statement.value(machine), p, ratio, speed, NOTHING)
    return found


def rounded_up(value: float) -> str:
    """Two decimals, none of which is too small."""
    return f"{math.ceil(100 * value - 1e-9) / 100:.2f}"


# -- what the paper argues against --------------------------------------------------------------------------------


class Comparison(NamedTuple):
    """Factors by which a primitive is cheaper than a baseline."""

    ratio: float
    one_at_a_time: float
    pipelined: float
    few: float
    few_work: float


COMPARED = (64, 1024)  # P and k of the broadcasts and prefixes
SORTED = 1024  # P of the sorts
SHOWN = (1, 4, 16, 64, 256)


def comparisons() -> Iterator[Comparison]:
    """Each with its cheapest parameters on each machine; an operation takes as long as a word."""
    p, k = COMPARED
    for ratio in SHOWN:
        machine = bsp_machine(p, ratio)
        sorting = bsp_machine(SORTED, ratio)
        levels = range(1, SORTED.bit_length())
        few = min(bitonic_sort_few.cost(sorting, 1, n).seconds for n in levels)
        same = choose_levels(sorting)
        yield Comparison(
            ratio,
            broadcast_one_at_a_time.cost(machine, k).seconds / broadcast_items.cost(machine, k).seconds,
            prefix_pipelined.cost(machine, k).seconds / prefix_2d.cost(machine, k).seconds,
            few / bitonic_sort.cost(sorting).seconds,
            bitonic_sort_few.cost(sorting, 1, same).w / bitonic_sort.cost(sorting, 1, same).w,
        )


# -- figure 5 -----------------------------------------------------------------------------------------------------


# g and L of networks, as the paper has them, in steps.
ARCHITECTURES: dict[str, tuple[Callable[[int], float], Callable[[int], float]]] = {
    "hypercube": (lambda p: 1.0, log),
    "butterfly": (log, log),
    "mesh": (math.sqrt, math.sqrt),
}


class Problem(NamedTuple):
    """A row of the table of results."""

    name: str
    theorem: Theorem
    case: Callable[[int], Case]  # for P processors
    times: tuple[str, str, str]  # the running times by architecture, as the paper prints them


_ONE = ("log^2 P / log log P", "log^2 P", "sqrt(P) log P")
_MANY = ("k + log^2 P / log log P", "k log P + log^2 P", "k sqrt(P) + sqrt(P) log P")
_SORT = ("log^3 P / log log P", "log^3 P", "sqrt(P) log^2 P")
_COPY = ("(N+M)/P + log^2 P / log log P", "(N+M)/P log P + log^2 P", "(N+M)/sqrt(P) + sqrt(P) log P")
_BY_NAME = {theorem.name: theorem for theorem in THEOREMS}


def _k(multiple: float, p: int) -> Case:
    k = round(multiple * p)
    return Case(f"k = {k}", k, k)


@lru_cache(maxsize=64)
def _some_copies(p: int) -> Case:
    return Copies(p, 4, "0 to 7").case()


_OF_K = ((0.25, "k = P/4"), (4, "k = 4 P"))
PROBLEMS = (
    *(Problem(name, _BY_NAME[name], lambda _: NOTHING, _ONE) for name in ("broadcast", "prefix")),
    *(
        Problem(f"{name}, {text}", _BY_NAME[name], partial(_k, multiple), _MANY)
        for name, (multiple, text) in product(("broadcast_items", "prefix_2d"), _OF_K)
    ),
    Problem("bitonic_sort", _BY_NAME["bitonic_sort"], lambda _: NOTHING, _SORT),
    Problem("duplicate, N = 4 P, 0 to 7 copies", _BY_NAME["duplicate"], _some_copies, _COPY),
)


class Counted(NamedTuple):
    """A running time of figure 5 against its count, for several P."""

    problem: str
    architecture: str
    time: str
    steps: list[float]
    ratios: list[float]  # to the paper's expression, without its O
    growth: float  # of these, from the smallest P to the largest
    last_doubling: float  # of P: about 1 or less where the ratio comes to a constant


def sizes(most: int) -> list[int]:
    """P in figure 5."""
    return [p for p in (64, 128, 256, 512, 1024, 2048, 4096) if p <= max(most, 128)]


def figure_5(most: int = 4096) -> Iterator[Counted]:
    """Exact times in steps, of which an operation takes one, with the paper's g and L of three networks."""
    for problem in PROBLEMS:
        for (name, (of_g, of_L)), expression in zip(ARCHITECTURES.items(), problem.times, strict=True):
            steps, ratios = [], []
            for p in sizes(most):
                g, L, case = of_g(p), of_L(p), problem.case(p)
                steps.append(problem.theorem.cost(BSPMachine(p=p, g=g, l=L, r=1.0), case).seconds)
                ratios.append(steps[-1] / (g * problem.theorem.limit(p, L / g, case)))
            growth, last_doubling = ratios[-1] / ratios[0], ratios[-1] / ratios[-2]
            yield Counted(problem.name, name, expression, steps, ratios, growth, last_doubling)


# -- what is shown ------------------------------------------------------------------------------------------------


def draw(pyplot: Any, most: int) -> Any:
    """g h + L over the bound against L/g: a panel for each primitive, a curve for each P and k."""
    figure, axes = pyplot.subplots(2, 3, figsize=(15, 8), sharex=True, layout="constrained")
    styles = ("-", "--", ":")
    for theorem, axis in zip(THEOREMS, axes.flat, strict=True):
        drawn = DRAWN.get(theorem.name, {"": lambda _: NOTHING})
        for p, colour in zip([p for p in (16, 64, 256, 1024, 4096) if p <= most], "bcgmr", strict=False):
            axis.plot([], [], colour, label=f"P = {p}")
            for case, style in zip((make(p) for make in drawn.values()), styles, strict=False):
                ratios = []
                for ratio in RATIOS:
                    machine = bsp_machine(p, ratio)
                    communication, *_ = quantities(theorem.cost(machine, case), machine)
                    ratios.append(communication / theorem.limit(p, ratio, case))
                axis.plot(RATIOS, ratios, colour + style)
        for label, style in zip(filter(None, drawn), styles, strict=False):
            axis.plot([], [], "k" + style, label=label)
        axis.set(title=f"{theorem.name}: over {theorem.bound}", xscale="log", ylim=(0, LIMIT))
        axis.set_xticks(ticks := [2**k for k in range(9)], labels=[str(tick) for tick in ticks])
        axis.legend(fontsize=8, ncols=2)
    for axis in axes[-1]:
        axis.set_xlabel("L/g")
    for axis in axes[:, 0]:
        axis.set_ylabel("(g h + L) / bound")
    return figure


_DRAWN_K: dict[str, Callable[[int], Case]] = {
    f"k = {text}": partial(_k, multiple) for text, multiple in (("P/4", 0.25), ("P", 1.0), ("16 P", 16.0))
}
DRAWN: dict[str, dict[str, Callable[[int], Case]]] = {
    "broadcast_items": _DRAWN_K,
    "prefix_2d": _DRAWN_K,
    "duplicate": {
        "4 items each, 0 to 7 copies": _some_copies,
        "P of each of 4 items of one processor": lambda p: Copies(p, 4, "P of each of one processor's").case(),
        "P in all of P/2 items of one processor": lambda p: Copies(p, p // 2, "P of one processor's items").case(),
    },
}


def main() -> None:
    """Count, and print the tables."""
    study = Study(__doc__, keep="--output", plot="the curves")
    study.add_argument("--most", type=int, default=4096, help="largest number of processors")
    options = study.begin()
    if options.most < 1:
        study.error(f"--most must be at least 1, got {options.most}")
    found = {theorem.name: constants(theorem, options.most) for theorem in study.each(THEOREMS)}
    shown = sizes(options.most)
    study.results = {"processors": processors(options.most), "ratios": RATIOS, "speeds": SPEEDS, "constants": found}
    study.show(
        table(
            "Cost over bound, the largest",
            f"primitive | bound | {cells(QUANTITIES)} | where g h + L is that large",
            (
                (of.name, of.bound, *(rounded_up(most.value) for most in largest.values()), largest["g h + L"].where)
                for of, largest in zip(THEOREMS, found.values(), strict=True)
            ),
        )
    )
    study.rows(
        "statements",
        "Computing, and h in a superstep of the sort",
        "primitive | ratio | largest | where",
        [(*of[:2], largest) for of, largest in zip(STATEMENTS, statements(options.most), strict=True)],
        lambda row: (*row[:2], rounded_up(row[2].value), row[2].where),
    )
    p, k = COMPARED
    study.rows(
        "comparisons",
        "How much cheaper than what the paper argues against",
        f"L/g [g] | broadcast_items: one at a time, P = {p}, k = {k} [.2f] | prefix_2d: pipelined, P = {p}, k = {k} "
        f"[.2f] | that over L/g [.2f] | bitonic_sort: few processors, P = {SORTED} [.2f] | its w at equal levels [.2f]",
        list(comparisons()),
        lambda row: (*row[:3], row.pipelined / row.ratio, *row[3:]),
    )
    study.rows(
        "figure 5",
        "Figure 5: steps counted over the paper's running time",
        f"problem | network | running time, O of | steps, P = {shown[-1]} [.0f] | "
        + heads((*(f"P = {p}" for p in shown), "growth", "last doubling"), ".2f"),
        list(figure_5(options.most)),
        lambda row: (*row[:3], row.steps[-1], *row.ratios, *row[5:]),
    )
    study.results["P of figure 5"] = shown
    study.end(draw=lambda pyplot: draw(pyplot, options.most))
    exceeded = [name for name, of in found.items() for key in QUANTITIES[:3] if of[key].value >= LIMIT]
    if exceeded:
        sys.exit(f"not below {LIMIT:g}: {', '.join(dict.fromkeys(exceeded))}")


if __name__ == "__main__":
    main()
