"""E-BSP on the linear array and the mesh, in simulated packet steps (*The E-BSP model*, sections 1 to 5).

    python -m pybsp.benchmarks.studies.ebsp_networks [--quick] [--json FILE]

Networks are multi-port, queues furthest first. A mesh has the paper's Peano indexing and spreads packets, where nothing
else is said. An algorithm's steps are those of its plan, routed superstep by superstep; a barrier after each takes
2*ceil(diameter/2) more: reports go to the middle along a tree, and its answer comes back.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pybsp import BSPMachine, EBSPMachine
from pybsp.benchmarks.studies.theory.linear_array_steps import least_steps
from pybsp.collectives.allgather import allgather
from pybsp.collectives.broadcast import broadcast
from pybsp.collectives.broadcast import choose as choose_broadcast
from pybsp.collectives.broadcast_items import broadcast_items
from pybsp.collectives.broadcast_items import choose as choose_items
from pybsp.collectives.ebsp import (
    gossip,
    items_broadcast,
    matrix_multiplication,
    mesh_broadcast,
    personalised_broadcast,
    stencil,
    stencil_grid,
    tree_broadcast,
)
from pybsp.collectives.ebsp.items_broadcast import MESH
from pybsp.collectives.ebsp.items_broadcast import choose as choose_phases
from pybsp.collectives.ebsp.partition import blocked
from pybsp.collectives.ebsp.tree_broadcast import choose as choose_tree
from pybsp.collectives.plan import Plan, Step, joined
from pybsp.routing.networks.array import LinearArray
from pybsp.routing.networks.indexing import INDEXINGS
from pybsp.routing.networks.mesh import ORDERS, Mesh
from pybsp.routing.networks.network import Network
from pybsp.routing.relation import Relation
from pybsp.routing.relations import local

from .frame import Study, cells, heads, table

Ints = NDArray[np.int64]
ARRAY, MESH_KIND = "linear array", "mesh"


# -- sampled relations --------------------------------------------------------------------------------------------


def sampled(rng: np.random.Generator, p: int, M: int, senders: int, receivers: int, L: int) -> Relation:
    """Up to M packets from some processors to some, no further than L."""
    source = rng.choice(rng.choice(p, senders, replace=False), M)
    ends = np.sort(rng.choice(p, receivers, replace=False))
    low, high = np.searchsorted(ends, source - L), np.searchsorted(ends, source + L, "right")
    near = high > low
    return Relation(source[near], ends[rng.integers(low[near], high[near])], p)


def samples(rng: np.random.Generator, p: int, number: int) -> Iterator[Relation]:
    """Relations of all kinds: 1 to 16*p packets, from and to 1 to p processors, of locality 1 to p - 1."""

    def size(most: int) -> int:
        """As often in each doubling."""
        return int(most ** rng.random())

    for _ in range(number):
        yield sampled(rng, p, size(16 * p), size(p), size(p), size(p - 1))


# -- Theorem 3 ----------------------------------------------------------------------------------------------------


def theorem_3(family: str, relations: Iterable[Relation]) -> tuple[object, ...]:
    """Route them: steps over the bound, and over the sharper one, both of which must hold; how often they are equal."""
    rows = []
    for relation in relations:
        if not relation.locality:
            continue
        p, far = relation.p, relation.locality
        bound = EBSPMachine.linear_array(p).time(relation.M, relation.k1, relation.k2, far)
        sharper = min(min(relation.k1, relation.k2) * far, relation.M + far - 1)
        steps, fifo = (LinearArray(p).route(relation, queue=queue).steps for queue in ("furthest-first", "fifo"))
        if steps != least_steps(relation) or steps > sharper or max(steps, fifo) > bound:
            raise AssertionError(f"{steps} steps, {fifo} with FIFO, against {bound}: {relation.sources}")
        rows.append((steps / bound, fifo / bound, steps / sharper))
    ratios = np.array(rows)
    (furthest, fifo, sharper), (equal, fifo_equal, _) = ratios.max(axis=0).tolist(), (ratios == 1).sum(axis=0).tolist()
    return family, len(rows), furthest, float(np.median(ratios[:, 0])), equal, fifo, fifo_equal, sharper


def nearest_first(p: int, k: int) -> Relation:
    """k packets from processor 0 to each of the others, those to the nearest first."""
    return Relation(np.zeros((p - 1) * k, np.int64), np.repeat(np.arange(1, p), k), p)


def end_to_end(p: int, k: int) -> Relation:
    """k packets from the first processor to the last."""
    return Relation(np.zeros(k, np.int64), np.full(k, p - 1), p)


def shift(p: int, L: int, k: int) -> Relation:
    """k packets from each processor to the one that is L further on."""
    source = np.repeat(np.arange(p - L), k)
    return Relation(source, source + L, p)


def theorem_3_families(quick: bool) -> list[tuple[object, ...]]:
    """Sampled relations, and families for which bounds are tight."""
    rng = np.random.default_rng(3)
    sizes = list(product((2, 3, 16, 61), (1, 2, 7)))
    return [
        *(theorem_3(f"sampled, P = {p}", samples(rng, p, 100 if quick else 1000)) for p in (2, 5, 16, 64, 101)),
        theorem_3("k packets from end to end", (end_to_end(p, k) for p, k in sizes)),
        theorem_3("processor 0 sends k to each, nearest first", (nearest_first(p, k) for p, k in sizes)),
        theorem_3("k from each to the one P/2 further on", (shift(p, p // 2, k) for p, k in sizes)),
    ]


# -- indexings ----------------------------------------------------------------------------------------------------


def distances(name: str, p: int) -> tuple[object, ...]:
    """Of pairs of numbers that differ by d the largest distance/sqrt(d), and where; the first d with more than 3."""
    at = INDEXINGS[name].coordinates(p)
    far = np.array([0] + [int(np.abs(at[d:] - at[:-d]).sum(axis=1).max()) for d in range(1, p)])
    steps = np.maximum(np.arange(p), 1)
    worst = int(np.argmax(far**2 / steps))
    first = next((f"{d}, {far[d]}" for d in np.flatnonzero(far**2 > 9 * steps)), "none")
    return name, p, float(far[worst] / math.sqrt(steps[worst])), f"{worst}, {far[worst]}", first


# -- Lemma 4 and Theorem 5 ----------------------------------------------------------------------------------------

SHAPES = ("scattered", "row", "column", "corner")
ORDERS_TRIED = (*ORDERS, "two-phase")  # the last is Valiant's


def placed(rng: np.random.Generator, side: int, shape: str, n: int) -> Ints:
    """n nodes of a mesh: anywhere, of a row or column and those after it, or of a square; row*side + column of each."""
    i = np.arange(n)
    if shape == "scattered":
        return rng.choice(side * side, n, replace=False)
    if shape in ("row", "column"):
        row, column = (side // 2 + i // side) % side, i % side
        return row * side + column if shape == "row" else column * side + row
    width = math.ceil(math.sqrt(n))
    return i // width * side + i % width


def lemma_4(p: int, k1: int, k2: int) -> tuple[float, ...]:
    """The largest steps over sqrt(k1*k2*P) of each of ORDERS_TRIED: full senders and receivers, all pairs of SHAPES."""
    rng = np.random.default_rng(4)
    side = math.isqrt(p)
    M = min(k1, k2) * p
    ratios = dict.fromkeys(ORDERS_TRIED, 0.0)
    networks = {order: Mesh(p, "row-major", order) for order in ORDERS}
    for sending, receiving in product(SHAPES, repeat=2):
        sources = np.repeat(placed(rng, side, sending, M // k1), k1)
        destinations = rng.permutation(np.repeat(placed(rng, side, receiving, M // k2), k2))
        relation = Relation(sources, destinations, p)
        for order in ratios:
            net = networks["rows first" if order == "two-phase" else order]
            steps = net.route(relation, queue="furthest-first", two_phase=order == "two-phase").steps
            ratios[order] = max(ratios[order], steps / math.sqrt(k1 * k2 * p))
    return p, k1, k2, *ratios.values()


def lemma_4_constants(quick: bool) -> list[tuple[float, ...]]:
    """Equal k1 and k2, and one of them larger: by a constant, and by sqrt(P)."""
    found = [lemma_4(256, *k) for k in ((1, 1), (4, 4), (1, 4), (4, 1), (1, 64), (64, 1))]
    sizes = (256, 1024) if quick else (256, 1024, 4096)
    return found + [lemma_4(p, *k) for p in sizes for k in ((1, math.isqrt(p)), (math.isqrt(p), 1))]


def theorem_5(name: str, p: int, kind: str, relations: Iterable[Relation], order: str = "spread") -> tuple[object, ...]:
    """Steps over the theorem's expression, with constants 1; over k_max*sqrt(L) + sqrt(P) where that is the less."""
    net, machine = Mesh(p, name, order), EBSPMachine.mesh(p)
    ratios, local = [], [0.0]
    for relation in relations:
        if relation.locality:
            steps = net.route(relation, queue="furthest-first").steps
            ratios.append(steps / machine.time(relation.M, relation.k1, relation.k2, relation.locality))
            near = relation.h * math.sqrt(relation.locality) + math.sqrt(p)
            if near <= math.sqrt(relation.k1 * relation.k2 * p):
                local.append(steps / near)
    return name, p, kind, len(ratios), max(ratios), float(np.median(ratios)), max(local)


def theorem_5_kinds(quick: bool) -> list[tuple[object, ...]]:
    """Sampled relations of all kinds, full h-relations of locality L, and shifts, under both indexings."""
    found = []
    for name, p in product(("peano", "snake"), (256, 1024)):
        rng = np.random.default_rng(5)
        found.append(theorem_5(name, p, "sampled", samples(rng, p, 50 if quick else 300)))
        for L in (3, 15, 63, p - 1):
            some = (local(p, h, L, rng) for h in (1, 4, 16, 64))
            found.append(theorem_5(name, p, f"full h-relations of locality {L}", some))
        some = (shift(p, 2**k, h) for k in range(p.bit_length() - 2) for h in (1, 8, 64))
        found.append(theorem_5(name, p, "shifts: h from each to the one 2^k further on", some))
    return found


# -- the counterexample to the Y-PRAM -----------------------------------------------------------------------------


class Corner(NamedTuple):
    """sqrt(P) processors in the upper left corner send sqrt(P) - 1 packets each to the processors outside."""

    p: int
    bound: float  # the paper's: P^(3/4)/2 - P^(1/4)/2
    y_pram: float  # with constants 1: beta*M/P + delta + m, where beta = delta = sqrt(P)
    theorem_5: float
    steps: dict[str, int]


def corner(p: int) -> Corner:
    """Route it; p is a power of 16, so that the corner is a square of whole side."""
    root = math.isqrt(p)
    rng = np.random.default_rng(6)
    # Under the Peano indexing the first sqrt(P) processors are the corner.
    relation = Relation(np.repeat(np.arange(root), root - 1), rng.permutation(np.arange(root, p)), p)
    steps = {order: Mesh(p, "peano", order).route(relation, queue="furthest-first").steps for order in ORDERS}
    y_pram = root * relation.M / p + root + relation.k1
    bound = p**0.75 / 2 - p**0.25 / 2
    return Corner(p, bound, y_pram, EBSPMachine.mesh(p).time(relation.M, relation.k1, relation.k2), steps)


# -- algorithms ---------------------------------------------------------------------------------------------------


@lru_cache(maxsize=32)
def network(kind: str, p: int) -> Network:
    """The network of a kind."""
    return LinearArray(p) if kind == ARRAY else Mesh(p, "peano", "spread")


def barrier(kind: str, p: int) -> int:
    """Steps of a barrier: along a tree all report to the middle, from which all hear of it."""
    across = p - 1 if kind == ARRAY else 2 * (math.isqrt(p) - 1)
    return 2 * -(-across // 2)


def ebsp_machine(kind: str, p: int) -> EBSPMachine:
    """The network as an E-BSP machine, in steps."""
    return EBSPMachine.linear_array(p) if kind == ARRAY else EBSPMachine.mesh(p)


def gap(kind: str, p: float) -> float:
    """g and s of the network as a BSP machine, in steps (section 1): P, or sqrt(P)."""
    return p if kind == ARRAY else math.sqrt(p)


def bsp_machine(kind: str, p: int) -> BSPMachine:
    """The network as a BSP machine; computing is free."""
    return BSPMachine(p=p, g=gap(kind, p), l=gap(kind, p), r=1e30)


class Routed(NamedTuple):
    """An algorithm on a network: supersteps, packet steps, those with barriers, and what BSP charges for it."""

    supersteps: int
    steps: int
    with_barriers: int
    charge: float


def routed(kind: str, plan: Plan) -> Routed:
    """Route a plan superstep by superstep; an item of the plan is a packet."""
    p, steps = plan.p, 0
    known: dict[int, int] = {}
    for step in plan:
        if id(step) not in known:
            sizes = step.last - step.first
            relation = Relation(np.repeat(step.sources, sizes), np.repeat(step.destinations, sizes), p)
            known[id(step)] = network(kind, p).route(relation, queue="furthest-first").steps
        steps += known[id(step)]
    return Routed(len(plan), steps, steps + len(plan) * barrier(kind, p), plan.cost(bsp_machine(kind, p)).seconds)


def widened(plan: Plan, widths: Iterable[int]) -> Plan:
    """A plan whose items have so many words in each superstep, as one whose items are words."""
    steps = [
        Step.of(step.sources, step.destinations, 0, (step.last - step.first).astype(np.int64) * width)
        for step, width in zip(plan, widths, strict=True)
    ]
    return joined(plan.p, steps)


# Each has a plan for a kind of network and p processors; items of these plans are words.


def ebsp_broadcast(kind: str, p: int) -> Plan:
    """On the array a tree, as chosen on the E-BSP machine; on the mesh the paper's three fan-outs of P^(1/3)."""
    return tree_broadcast.plan(p, choose_tree(ebsp_machine(kind, p), 1)) if kind == ARRAY else mesh_broadcast.plan(p)


def bsp_broadcast(kind: str, p: int) -> Plan:
    """The d-ary tree that is cheapest on the BSP machine."""
    return broadcast.plan(p, choose_broadcast(bsp_machine(kind, p), 1)[1])


def scatter(kind: str, p: int) -> Plan:
    """One superstep, whatever the machine."""
    return personalised_broadcast.plan(p)


def ebsp_items(kind: str, p: int, power: float) -> Plan:
    """P^power items, as chosen on the E-BSP machine."""
    n = round(p**power)
    how, fan_outs = choose_phases(ebsp_machine(kind, p), n)
    return items_broadcast.plan(p, n, fan_outs, how == MESH)


def bsp_items(kind: str, p: int, power: float) -> Plan:
    """2D-BCAST of P^power items with the degree that is cheapest on the BSP machine."""
    n = round(p**power)
    return broadcast_items.plan(p, n, choose_items(bsp_machine(kind, p), n))


def ebsp_gossip(kind: str, p: int, power: float) -> Plan:
    """P^power words from each processor to all."""
    plan = gossip.plan(p)
    return widened(plan, [round(p**power)] * len(plan))


def bsp_gossip(kind: str, p: int, power: float) -> Plan:
    """The same in one superstep."""
    return widened(allgather.plan(p), [round(p**power)])


def cube_root(p: int) -> int:
    """The divisor of p that is nearest to its cube root, by ratio."""
    return min((q for q in range(1, p + 1) if p % q == 0), key=lambda q: abs(math.log(q**3 / p)))


def ebsp_stencil(kind: str, p: int) -> Plan:
    """A step on a p x p matrix with the grid that is chosen on the E-BSP machine."""
    return stencil.plan(p, (p, p), stencil_grid(ebsp_machine(kind, p), (p, p)))


def hybrid_stencil(kind: str, p: int) -> Plan:
    """With q1 = P^(1/3)."""
    return stencil.plan(p, (p, p), (q1 := cube_root(p), p // q1))


def bsp_stencil(kind: str, p: int) -> Plan:
    """With square blocks."""
    return stencil.plan(p, (p, p), blocked(p))


def size(p: int, power: float) -> int:
    """N of a product: P, or with power 0.5 the least with a word for each message, 4 sqrt(P)."""
    return p if power == 1 else 4 * math.isqrt(p)


def ebsp_product(kind: str, p: int, power: float) -> Plan:
    """Of N x N matrices, with q1 = P on the array and P^(1/3) on the mesh."""
    q1, n = p if kind == ARRAY else cube_root(p), size(p, power)
    q2 = p // q1
    plan = matrix_multiplication.plan(p, (n, n, n), (q1, q2))
    along_rows = 2 * (q2 - 1)  # supersteps in which an item is a column of a block of A, of n/q1 words
    return widened(plan, [n // q1] * along_rows + [n // q2] * (len(plan) - along_rows))


def bsp_product(kind: str, p: int, power: float) -> Plan:
    """Of N x N matrices, with N^2/P^(2/3) words from and to a processor (McColl, as the paper cites it).

    Processors (x, y, z) in a box multiply block (x, z) of A by block (z, y) of B.

    1. The parts of a block of A are held by those with its x and z, of B by those with its z and y: each sends its own
       to the others.
    2. Block (x, y) of C is the sum over z: each of these adds up a part of it.
    """
    triples = (
        (a, b, p // (a * b)) for a in range(1, p + 1) if p % a == 0 for b in range(1, p // a + 1) if p // a % b == 0
    )
    number = np.arange(p).reshape(min(triples, key=sum))

    def exchanged(axis: int) -> Ints:
        """Each sends to all along an axis of the box: sources and destinations."""
        lines = np.moveaxis(number, axis, -1).reshape(-1, number.shape[axis])
        return np.stack((np.repeat(lines, lines.shape[1], axis=1).ravel(), np.tile(lines, (1, lines.shape[1])).ravel()))

    words = size(p, power) ** 2 // p  # of each part
    factors = np.concatenate((exchanged(1), exchanged(0)), axis=1)
    return joined(p, [Step.of(ends[0], ends[1], 0, words) for ends in (factors, exchanged(2))])


# A name, a plan, and what the paper says that it takes: a text, and a function of P and of g.
Algorithm = tuple[str, Callable[[str, int], Plan], str, Callable[[float, float], float]]
LINE, SQUARES = (32, 64, 128, 256, 512, 1024), (16, 64, 256, 1024, 4096)
log = math.log2

# A problem, a kind of network, and the P that are tried: the paper's algorithm, and others beside it.
PROBLEMS: dict[tuple[str, str, Sequence[int]], list[Algorithm]] = {
    ("broadcast", ARRAY, LINE): [
        ("tree_broadcast", ebsp_broadcast, "P", lambda p, g: p),
        ("BSP: broadcast", bsp_broadcast, "P log P", lambda p, g: g * log(p)),
    ],
    ("broadcast", MESH_KIND, SQUARES): [
        ("mesh_broadcast", ebsp_broadcast, "sqrt(P)", lambda p, g: g),
        ("BSP: broadcast", bsp_broadcast, "sqrt(P) log P", lambda p, g: g * log(p)),
    ],
    ("scatter", ARRAY, LINE): [("personalised_broadcast", scatter, "P", lambda p, g: p)],
    ("broadcast of sqrt(P) items", ARRAY, LINE): [
        ("items_broadcast", partial(ebsp_items, power=0.5), "P log N", lambda p, g: p * log(p)),
        ("BSP: broadcast_items", partial(bsp_items, power=0.5), "P N", lambda p, g: g * p**0.5),
    ],
    ("broadcast of sqrt(P) items", MESH_KIND, SQUARES): [
        ("items_broadcast", partial(ebsp_items, power=0.5), "sqrt(N P)", lambda p, g: p**0.75),
        ("BSP: broadcast_items", partial(bsp_items, power=0.5), "sqrt(P) (N + log P)", lambda p, g: g * (g + log(p))),
    ],
    ("broadcast of P items", ARRAY, LINE[:5]): [
        ("items_broadcast", partial(ebsp_items, power=1), "N log P", lambda p, g: p * log(p)),
        ("BSP: broadcast_items", partial(bsp_items, power=1), "P N", lambda p, g: g * p),
    ],
    ("broadcast of P items", MESH_KIND, SQUARES[:4]): [
        ("items_broadcast", partial(ebsp_items, power=1), "N", lambda p, g: p),
        ("BSP: broadcast_items", partial(bsp_items, power=1), "sqrt(P) N", lambda p, g: g * p),
    ],
    ("gossip, N = P", ARRAY, (8, 16, 32, 64)): [
        ("gossip", partial(ebsp_gossip, power=1), "P (N + P)", lambda p, g: 2 * p**2),
        ("BSP: allgather", partial(bsp_gossip, power=1), "P^2 N", lambda p, g: p**3),
    ],
    ("gossip, N = sqrt(P)", MESH_KIND, SQUARES[:3]): [
        ("gossip", partial(ebsp_gossip, power=0.5), "P (N + sqrt(P))", lambda p, g: 2 * p * g),
        ("BSP: allgather", partial(bsp_gossip, power=0.5), "P^(3/2) N", lambda p, g: p**2),
    ],
    ("stencil, N = P", ARRAY, LINE): [
        ("stencil", ebsp_stencil, "N + P", lambda p, g: 2 * p),
        ("BSP: blocked", bsp_stencil, "sqrt(P) N + P", lambda p, g: p**1.5 + p),
    ],
    ("stencil, N = P", MESH_KIND, SQUARES): [
        ("stencil", ebsp_stencil, "N/P^(1/3) + sqrt(P)", lambda p, g: p ** (2 / 3) + g),
        ("stencil, q1 = P^(1/3)", hybrid_stencil, "N/P^(1/3) + sqrt(P)", lambda p, g: p ** (2 / 3) + g),
        ("BSP: blocked", bsp_stencil, "N + sqrt(P)", lambda p, g: p + g),
    ],
    ("matrix product, N = P", ARRAY, LINE[:3]): [
        ("matrix_multiplication", partial(ebsp_product, power=1), "N^2", lambda p, g: p**2),
        ("BSP: blocks in a box", partial(bsp_product, power=1), "P^(1/3) N^2", lambda p, g: p ** (7 / 3)),
    ],
    ("matrix product, N = P", MESH_KIND, SQUARES[:3]): [
        ("matrix_multiplication", partial(ebsp_product, power=1), "N^2/P^(1/3)", lambda p, g: p ** (5 / 3)),
        ("BSP: blocks in a box", partial(bsp_product, power=1), "N^2/P^(1/6)", lambda p, g: p ** (11 / 6)),
    ],
    ("matrix product, N = 4 sqrt(P)", MESH_KIND, SQUARES): [
        ("matrix_multiplication", partial(ebsp_product, power=0.5), "N^2/P^(1/3)", lambda p, g: p ** (2 / 3)),
        ("BSP: blocks in a box", partial(bsp_product, power=0.5), "N^2/P^(1/6)", lambda p, g: p ** (5 / 6)),
    ],
}


def exponent(sizes: Sequence[int], values: Sequence[float]) -> float:
    """The slope of log values over log sizes."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


# -- tables -------------------------------------------------------------------------------------------------------

FACTORS = (64, 256, 1024, 4096)


def corner_rows(found: Sequence[Corner]) -> Iterator[tuple[object, ...]]:
    """The Y-PRAM's charge against the steps, and their growth."""
    of: dict[str, list[float]] = {
        "Y-PRAM's charge": [c.y_pram for c in found],
        "the paper's lower bound": [c.bound for c in found],
        "Theorem 5, constants 1": [c.theorem_5 for c in found],
        **{f"steps, {order}": [c.steps[order] for c in found] for order in ORDERS},
    }
    return ((name, *values, exponent([c.p for c in found], values)) for name, values in of.items())


def show_algorithms(study: Study, quick: bool) -> None:
    """Steps of all algorithms; and how many times as many the BSP algorithm takes, or is charged."""
    rows, factors = [], []
    study.results["algorithms"] = figures = []
    for (problem, kind, all_sizes), algorithms in study.each(PROBLEMS.items()):
        sizes, of = all_sizes[: -1 if quick else None], []
        for name, plan, claim, claimed in algorithms:
            found = [routed(kind, plan(kind, p)) for p in sizes]
            of.append(found)
            grown = ([claimed(p, gap(kind, p)) for p in sizes], *list(zip(*found, strict=True))[1:])
            exponents = [exponent(sizes, values) for values in grown]
            rows.append((problem, kind, name, claim, f"{sizes[0]} to {sizes[-1]}", *found[-1], *exponents))
            what = {"problem": problem, "kind": kind, "algorithm": name, "claim": claim, "sizes": sizes}
            named = dict(zip(("claimed", "steps", "with_barriers", "charge"), exponents, strict=True))
            figures.append({**what, "routed": found, **named})
        pairs = {
            p: f"{theirs.with_barriers / one.with_barriers:.2f}, {theirs.charge / one.with_barriers:.2f}"
            for p, theirs, one in zip(sizes, of[-1], of[0], strict=True)
        }
        factors.append((problem, kind, *(pairs.get(p, "") for p in FACTORS)))
    study.show(
        table(
            "Algorithms: steps, superstep by superstep",
            "problem | network | algorithm | claim | P | supersteps | steps | with barriers | BSP charge [.0f] | "
            + heads(("exponents: claim", "steps", "with barriers", "BSP charge"), ".2f"),
            rows,
        ),
        table(
            "Over the paper's algorithm, with barriers: the BSP algorithm, BSP's charge for it",
            cells(("problem", "network", *(f"P = {p}" for p in FACTORS))),
            factors,
        ),
    )


def main() -> None:
    """Route, and print the tables."""
    study = Study(__doc__, keep="--json", quick="fewer relations, and without the largest P")
    quick = study.begin().quick
    study.rows(
        "theorem 3",
        "Theorem 3: steps over min{k_min L, M} + P - 2",
        "relations | number | furthest first: largest [.3f] | median [.3f] | equal | FIFO: largest [.3f] | equal | "
        "furthest first over min{k_min L, M + L - 1}: largest [.3f]",
        theorem_3_families(quick),
    )
    pairs = [("peano", 4**n) for n in (2, 4, 6)] + [("true peano", 9**n) for n in (2, 3, 4)] + [("snake", 4**6)]
    study.rows(
        "distances",
        "Distance over sqrt(d), all pairs of numbers that differ by d",
        "indexing | P | largest [.4f] | d, distance | first d with distance > 3 sqrt(d), distance",
        [distances(*pair) for pair in pairs],
    )
    title = "Lemma 4: steps over sqrt(k1 k2 P), the largest"
    study.rows("lemma 4", title, f"P | k1 | k2 | {heads(ORDERS_TRIED, '.2f')}", lemma_4_constants(quick))
    study.rows(
        "theorem 5",
        "Theorem 5: steps over min{sqrt(k1 k2 P), k_max sqrt(L) + sqrt(P)}",
        "indexing | P | relations | number | largest [.2f] | median [.2f] | largest where the second is less [.2f]",
        theorem_5_kinds(quick),
    )
    corners = [corner(16**n) for n in ((1, 2, 3) if quick else (1, 2, 3, 4))]
    head = cells(("", heads((f"P = {c.p}" for c in corners), ".0f"), "exponent [.3f]"))
    title = "sqrt(P) processors in the corner send to all outside"
    study.tell("corner", corners, table(title, head, corner_rows(corners)))
    show_algorithms(study, quick)
    study.end()


if __name__ == "__main__":
    main()
