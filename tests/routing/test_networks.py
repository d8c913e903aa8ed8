"""The networks: every way is followed, and every figure is counted on the graph."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pybsp.errors import RoutingError, UsageError
from pybsp.routing import Relation, relations
from pybsp.routing.networks import (
    NETWORKS,
    Array,
    Dragonfly,
    FatTree,
    Hypercube,
    KaryFatTree,
    LinearArray,
    MeshOfTrees,
    Network,
    PrunedButterfly,
    ShuffleExchange,
    SquareArray,
    SquareTorus,
    Torus,
    network,
)
from pybsp.routing.networks.simulator import PORTS, QUEUES

from . import reference

Ints = NDArray[np.int64]

SIZES = {
    "linear-array": (1, 2, 3, 7, 20),
    "2d-array": (1, 4, 9, 25),
    "3d-array": (1, 8, 27, 64),
    "hypercube": (1, 2, 4, 32, 64),
    "butterfly": (8, 24, 64, 160),
    "cube-connected-cycles": (8, 24, 64, 160),
    "shuffle-exchange": (1, 2, 4, 8, 16, 32, 128),
    "mesh-of-trees": (1, 4, 16, 64),
    "pruned-butterfly": (1, 4, 16, 64),
    "fat-tree": (1, 2, 4, 8, 64),
    "k-ary-fat-tree": (2, 16, 54),
    "2d-torus": (1, 4, 9, 16, 25),
    "3d-torus": (1, 8, 27, 64),
    "dragonfly": (6, 72),
}
CASES = [pytest.param(lambda name=name, p=p: network(name, p), id=f"{name} {p}") for name in SIZES for p in SIZES[name]]
CASES += [
    pytest.param(lambda sides=sides: Array(sides), id=f"array {sides}")
    for sides in ((5, 1, 2), (3, 4), (2, 3, 5), (3, 3, 3, 2), (1,))
]
CASES += [
    *(
        pytest.param(lambda s=sides: Torus(s), id=f"torus {sides}")
        for sides in ((5, 1, 2), (6, 4), (3, 2, 5), (4,) * 4)
    ),
    *(
        pytest.param(lambda s=shape, p=p: Dragonfly(p, s), id=f"dragonfly {shape}")
        for p, shape in ((6, (1, 3, 1)), (12, (3, 1, 1)), (42, (3, 2, 2)), (8, (1, 2, 3)))
    ),
    pytest.param(lambda: KaryFatTree(54, "packets"), id="k-ary fat tree 54 packets"),
]
CASES += [
    pytest.param(lambda: FatTree(8, [3, 1, 4]), id="fat tree 3, 1, 4"),
    pytest.param(lambda: Hypercube(32, order="random"), id="hypercube 32 random"),
]
Make = Callable[[], Network]


def distances(net: Network) -> Ints:
    """Of processors to processors on the graph, shape (p, p), by breadth first search."""
    near: list[set[int]] = [set() for _ in range(net.nodes)]
    for tail, head in zip(net.tails.tolist(), net.heads.tolist(), strict=True):
        near[tail].add(head)
    found = np.full((net.p, net.nodes), -1)
    for processor, start in enumerate(net.places.tolist()):
        found[processor, start] = 0
        todo = deque([start])
        while todo:
            node = todo.popleft()
            for other in near[node]:
                if found[processor, other] < 0:
                    found[processor, other] = found[processor, node] + 1
                    todo.append(other)
    return found[:, net.places]


def all_pairs(net: Network) -> tuple[Ints, Ints]:
    """The processors of all pairs."""
    first, second = np.divmod(np.arange(net.p**2), net.p)
    return first, second


@pytest.mark.parametrize("make", CASES)
def test_every_pair_finds_its_end_and_knows_how_far_it_is(make: Make) -> None:
    net = make()
    first, second = all_pairs(net)
    at, to = net.places[first], net.places[second]
    rng = np.random.default_rng(1)
    state = net.begin(at, to, rng)
    taken = np.zeros(len(at), np.int64)
    legs = []
    while len(on := np.flatnonzero(at != to)):
        link, state[on] = net.step(at[on], to[on], state[on], rng)
        np.testing.assert_array_equal(net.tails[link], at[on])
        legs.append((on, taken[on] + net.distance(at[on], to[on], state[on])))
        at[on] = net.heads[link]
        taken[on] += 1
        assert len(legs) <= net.diameter
    for on, length in legs:
        np.testing.assert_array_equal(length, taken[on])
    least = distances(net)
    assert (taken.reshape(least.shape) >= least).all()
    assert taken.max() == net.diameter
    beyond = net.diameter - least.max()
    assert beyond == (1 if net.name in ("cube-connected cycles of 64", "cube-connected cycles of 160") else 0)


@pytest.mark.parametrize("make", CASES)
@pytest.mark.parametrize("ports", ["multi", "single"])
@pytest.mark.parametrize("two_phase", [False, True])
def test_all_pairs_are_routed_and_none_is_faster_than_its_way(make: Make, ports: str, two_phase: bool) -> None:
    net = make()
    first, second = all_pairs(net)
    keep = np.random.default_rng(2).permutation(len(first))[:2000]
    relation = Relation(first[keep], second[keep], net.p)
    traffic = net.route(relation, ports=ports, two_phase=two_phase, limit=10000)
    assert (traffic.delivered >= distances(net)[relation.sources, relation.destinations]).all()
    assert traffic.steps >= traffic.max_link_load


@pytest.mark.parametrize("name", sorted(SIZES))
@pytest.mark.parametrize("queue", QUEUES)
@pytest.mark.parametrize("ports", PORTS)
def test_networks_route_as_the_reference_does(name: str, queue: str, ports: str) -> None:
    net = network(name, SIZES[name][-1] if name not in ("butterfly", "cube-connected-cycles") else 24)
    relation = relations.random_relation(net.p, 4, seed=5)
    fast = net.route(relation, queue=queue, ports=ports, seed=6)
    begin, end = net.places[relation.sources].tolist(), net.places[relation.destinations].tolist()
    slow = reference.simulate(net, begin, end, queue, ports, np.random.default_rng(6))
    assert fast.delivered.tolist() == slow.delivered
    assert fast.link_load.tolist() == slow.link_load


@pytest.mark.parametrize("make", CASES)
def test_every_link_has_one_back(make: Make) -> None:
    net = make()
    there = Counter(zip(net.tails.tolist(), net.heads.tolist(), strict=True))
    assert there == Counter(zip(net.heads.tolist(), net.tails.tolist(), strict=True))
    assert all(tail != head for tail, head in there)
    assert len(set(net.places.tolist())) == net.p
    assert net.nodes > net.places.max()


@pytest.mark.parametrize(
    ("name", "p", "degree", "links"),
    [
        ("linear-array", 7, 2, 12),
        ("2d-array", 25, 4, 80),
        ("3d-array", 27, 6, 108),
        ("hypercube", 64, 6, 384),
        ("butterfly", 64, 4, 256),
        ("cube-connected-cycles", 64, 3, 192),
        ("shuffle-exchange", 16, 3, 44),  # nodes 0 and 15 are shuffled onto themselves
        ("mesh-of-trees", 16, 3, 96),  # 8 trees of 6 edges
        ("pruned-butterfly", 16, 4, 96),
        ("fat-tree", 16, 8, 2 * (16 * 1 + 8 * 2 + 4 * 2 + 2 * 4)),
        ("k-ary-fat-tree", 16, 4, 2 * 3 * 16),
        ("3d-torus", 27, 6, 162),
        ("3d-torus", 8, 3, 24),
        ("dragonfly", 72, 7, 2 * 72 + 36 * (3 + 2)),
    ],
)
def test_degrees_and_numbers_of_links(name: str, p: int, degree: int, links: int) -> None:
    net = network(name, p)
    assert net.degree == degree
    assert len(net.tails) == len(net.heads) == links


def halves(nodes: int, places: Ints) -> Ints:
    """All divisions of the nodes whose two sides have halves of the processors, as bit masks; the last node is at 0."""
    masks = np.arange(1 << nodes - 1)
    inside = np.bitwise_count(masks & sum(1 << place for place in places.tolist()))
    return np.asarray(masks[inside == len(places) // 2])


@pytest.mark.parametrize(
    "make",
    [
        *(pytest.param(lambda p=p: LinearArray(p), id=f"linear array {p}") for p in (1, 2, 3, 9)),
        *(
            pytest.param(lambda sides=sides: Array(sides), id=f"array {sides}")
            for sides in ((3, 3), (4, 4), (3, 5), (2, 7), (3, 4), (1, 5), (2, 2, 3), (3, 3, 2), (2, 2, 2, 2))
        ),
        *(pytest.param(lambda p=p: Hypercube(p), id=f"hypercube {p}") for p in (1, 2, 4, 8, 16)),
        *(pytest.param(lambda p=p: ShuffleExchange(p), id=f"shuffle-exchange {p}") for p in (1, 2, 4, 8, 16)),
        pytest.param(lambda: network("butterfly", 8), id="butterfly 8"),
        pytest.param(lambda: network("cube-connected-cycles", 8), id="cube-connected cycles 8"),
        pytest.param(lambda: network("butterfly", 24), id="butterfly 24"),
        pytest.param(lambda: network("cube-connected-cycles", 24), id="cube-connected cycles 24"),
        *(pytest.param(lambda p=p: MeshOfTrees(p), id=f"mesh of trees {p}") for p in (1, 4)),
        *(pytest.param(lambda p=p: PrunedButterfly(p), id=f"pruned butterfly {p}") for p in (1, 4)),
        *(
            pytest.param(lambda c=c: FatTree(1 << len(c), c), id=f"fat tree {c}")
            for c in ([], [3], [1, 2], [2, 1], [1, 2, 2], [1, 1, 9], [5, 1, 7], [2, 3, 1], [1, 2, 4])
        ),
        *(
            pytest.param(lambda s=sides: Torus(s), id=f"torus {sides}")
            for sides in ((3, 3), (4, 4), (5, 3), (4, 3), (2, 3), (2, 2, 3), (7,), (1,))
        ),
        pytest.param(lambda: KaryFatTree(2), id="k-ary fat tree 2"),
        pytest.param(lambda: Dragonfly(6), id="dragonfly 6"),
        pytest.param(lambda: Dragonfly(8, (1, 2, 3)), id="dragonfly 8"),
        pytest.param(lambda: Dragonfly(6, (1, 3, 1)), id="dragonfly 6 of 2 groups"),
    ],
)
def test_the_bisection_is_the_smallest_cut_into_halves(make: Make) -> None:
    net = make()
    masks = halves(net.nodes, net.places)
    cut = np.zeros(len(masks), np.int64)
    for tail, head in zip(net.tails.tolist(), net.heads.tolist(), strict=True):
        if tail < head:
            cut += (masks >> tail ^ masks >> head) & 1
    assert net.bisection == cut.min()


@pytest.mark.whole
@pytest.mark.parametrize("make", [lambda: MeshOfTrees(16), lambda: PrunedButterfly(16)])
def test_no_halves_of_sixteen_leaves_have_a_smaller_flow_than_the_bisection(make: Make) -> None:
    net = make()
    links = list(zip(net.tails.tolist(), net.heads.tolist(), strict=True))
    least = min(flow(net.nodes, links, {0, *rest}, net.p, net.bisection) for rest in combinations(range(1, 16), 7))
    assert least == net.bisection


def flow(nodes: int, links: list[tuple[int, int]], sources: set[int], p: int, enough: int) -> int:
    """The largest flow from leaves of `sources` to the other leaves of 0 to p - 1; one more than enough will do."""
    free: list[dict[int, int]] = [{} for _ in range(nodes)]
    for tail, head in links:
        free[tail][head] = free[tail].get(head, 0) + 1
    for value in range(enough + 1):
        came = dict.fromkeys(sources, -1)
        todo = list(sources)
        end = -1
        for node in todo:
            if node < p and node not in sources:
                end = node
                break
            for other, left in free[node].items():
                if left and other not in came:
                    came[other] = node
                    todo.append(other)
        if end < 0:
            return value
        while came[end] >= 0:
            free[came[end]][end] -= 1
            free[end][came[end]] += 1
            end = came[end]
    return enough + 1


@pytest.mark.fast
@pytest.mark.parametrize(
    ("name", "p", "near"),
    [
        ("linear-array", 0, "1"),
        ("2d-array", 10, "9 and 16"),
        ("3d-array", 9, "8 and 27"),
        ("hypercube", 12, "8 and 16"),
        ("hypercube", 0, "1"),
        ("butterfly", 1, "8"),
        ("butterfly", 100, "64 and 160"),
        ("cube-connected-cycles", 32, "24 and 64"),
        ("shuffle-exchange", 17, "16 and 32"),
        ("mesh-of-trees", 8, "4 and 16"),
        ("pruned-butterfly", 32, "16 and 64"),
        ("fat-tree", 7, "4 and 8"),
        ("fat-tree", -8, "1"),
        ("k-ary-fat-tree", 17, "16 and 54"),
        ("2d-torus", 10, "9 and 16"),
        ("dragonfly", 64, "6 and 72"),
    ],
)
def test_a_p_that_does_not_fit_names_those_that_do(name: str, p: int, near: str) -> None:
    with pytest.raises(RoutingError, match=rf"p must be .*, got {p}; {near} would fit"):
        network(name, p)


@pytest.mark.fast
@pytest.mark.parametrize("name", sorted(SIZES))
@pytest.mark.parametrize("p", ["16", 16.0, None, True])
def test_a_p_that_is_no_whole_number_is_an_error(name: str, p: object) -> None:
    with pytest.raises(RoutingError, match=rf"p must be a whole number, .*, got {p!r}$"):
        network(name, p)  # type: ignore[arg-type]


def test_a_p_beyond_all_machines_is_an_error() -> None:
    with pytest.raises(RoutingError, match=r"hypercube: p must be at most 2147483647, got 4611686018427387904"):
        network("hypercube", 2**62)


def test_other_arguments_that_cannot_be_right_are_errors() -> None:
    for name in ("ring", None, ["hypercube"]):
        with pytest.raises(RoutingError, match=rf"expected one of .*hypercube.*, got {re.escape(repr(name))}"):
            network(name, 16)  # type: ignore[arg-type]
    for sides in ((), (3, 0), (2.5,), 5):
        with pytest.raises(UsageError, match="array: sides: expected one or more whole numbers from 1 on, got"):
            Array(sides)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="torus: sides: expected one or more whole numbers from 1 on, got"):
            Torus(sides)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="d: expected a whole number from 1 on, got 0"):
        SquareArray(4, 0)
    with pytest.raises(UsageError, match="0-d torus: d: expected a whole number from 1 on, got 0"):
        SquareTorus(4, 0)
    with pytest.raises(UsageError, match="k-ary fat tree: spread: expected one of ecmp, packets, got 'both'"):
        KaryFatTree(16, "both")
    wrong: Any = np.arange(2)
    with pytest.raises(UsageError, match="k-ary fat tree: spread: expected one of ecmp, packets, got array"):
        KaryFatTree(16, wrong)
    with pytest.raises(UsageError, match="hypercube: order: expected one of fixed, random, got array"):
        Hypercube(16, wrong)
    for shape in ((2, 1), (2, 0, 1), "abc", (2.0, 1, 1)):
        with pytest.raises(UsageError, match=r"dragonfly: shape: expected three whole numbers from 1 on, \(a, t, h\)"):
            Dragonfly(6, shape)  # type: ignore[arg-type]
    with pytest.raises(RoutingError, match=r"p must be a t \(a h \+ 1\) = 6 for shape \(2, 1, 1\), got 7"):
        Dragonfly(7, (2, 1, 1))
    for capacities in ([1], [1, 0], [1, 2, 3], [1, 2.0], 2):
        with pytest.raises(UsageError, match="fat tree: capacities: expected log p = 2 whole numbers from 1 on"):
            FatTree(4, capacities)  # type: ignore[arg-type]


def test_every_name_makes_a_network_of_that_many_processors() -> None:
    for name in NETWORKS:
        p = {"k-ary-fat-tree": 54, "dragonfly": 72}.get(name, 64)
        assert network(name, p).p == p
        assert repr(network(name, p)) == f"<{network(name, p).name}>"


def test_numpy_numbers_of_processors_do() -> None:
    assert network("butterfly", np.int64(24)).p == 24  # type: ignore[arg-type]


# -- what the docstrings say of loads


def test_rows_and_columns_carry_at_most_the_side_times_h_on_the_array_and_the_mesh_of_trees() -> None:
    k, h = 8, 5
    row, column = np.divmod(np.arange(k * k), k)
    bad = {
        "a row to a column": column * k + row,
        "random": np.random.default_rng(3).permutation(k * k),
        "reversed": np.arange(k * k)[::-1],
    }
    for to in bad.values():
        relation = Relation(np.tile(np.arange(k * k), h), np.tile(to, h), k * k)
        for net in (SquareArray(k * k), MeshOfTrees(k * k)):
            assert 0 < net.route(relation).max_link_load <= k * h


def test_on_three_dimensions_some_permutations_load_a_link_with_half_a_layer() -> None:
    k = 8
    net = SquareArray(k**3, 3)
    x, y, z = net.coordinates.T
    to = (z * k + (y + k // 2) % k) * k + x  # a layer to a line, all of it across the line's middle
    relation = Relation(np.arange(k**3), to, k**3)
    assert relation.h == 1
    assert relation.full
    assert net.route(relation).max_link_load == k * k // 2


def test_on_the_pruned_butterfly_every_permutation_spreads_over_the_links_of_a_subtree() -> None:
    p, h = 256, 64
    net = PrunedButterfly(p)
    for to in (np.arange(p) ^ p // 2, np.arange(p)[::-1]):  # all over the root
        relation = Relation(np.tile(np.arange(p), h), np.tile(to, h), p)
        traffic = net.route(relation)
        even = h * (p // 2) / net.bisection
        assert even <= traffic.max_link_load < 1.2 * even


def test_parallel_links_of_a_fat_tree_share_the_packets() -> None:
    p, h = 16, 100
    relation = Relation(np.tile(np.arange(p), h), np.tile(np.arange(p) ^ p // 2, h), p)
    thin, fat = FatTree(p, [1, 1, 1, 1]).route(relation), FatTree(p, [1, 2, 4, 8]).route(relation)
    assert thin.max_link_load == h * p // 2
    assert fat.max_link_load < 150  # 100 are drawn to a link on average, with a deviation below 10
    assert thin.steps > 5 * fat.steps


def test_furthest_first_is_faster_than_fifo_where_those_behind_have_far_to_go() -> None:
    # Nine packets from processor 0 to 1 are in the way of one to the end, that came last.
    p = 20
    relation = Relation(np.zeros(10, np.int64), [1] * 9 + [p - 1], p)
    net = LinearArray(p)
    assert net.route(relation).steps == 9 + p - 1
    assert net.route(relation, queue="furthest-first").steps == p - 1


def test_gamma_and_delta_are_those_of_table_1() -> None:
    table = {
        "linear-array": (16, 16, 16),
        "2d-array": (16, 4, 4),
        "3d-array": (64, 4, 4),
        "hypercube": (16, 1, 4),
        "butterfly": (64, 6, 6),
        "cube-connected-cycles": (64, 6, 6),
        "shuffle-exchange": (16, 4, 4),
        "mesh-of-trees": (16, 4, 4),
        "pruned-butterfly": (16, 4, 4),
        "fat-tree": (16, 2, 4),  # of capacities 1, 2, 2, 4: 4/2 processors a link
        "multibutterfly": (16, 1, 4),
        "k-ary-fat-tree": (16, 1, 6),
        "2d-torus": (16, 4, 4),
        "3d-torus": (64, 4, 4),
        "dragonfly": (72, 1, 5),
    }
    for name, (p, gamma, delta) in table.items():
        net = network(name, p)
        assert (net.gamma, net.delta) == pytest.approx((gamma, delta)), name


# -- the networks that clusters have


@pytest.mark.parametrize("sides", [(8, 8), (4, 5), (5, 3), (3, 4, 2)])
def test_uniform_traffic_loads_all_links_of_an_axis_of_a_torus_alike(sides: tuple[int, ...]) -> None:
    net = Torus(sides)
    first, second = all_pairs(net)
    load = net.route(Relation(first, second, net.p)).link_load
    axis = (net.coordinates[net.tails] != net.coordinates[net.heads]).argmax(axis=1)
    for i, side in enumerate(sides):
        # Mean distance on a ring: side/4, or (side^2 - 1) / (4 side); by two directions (of which sides of 2 have one).
        far = side / 4 if side % 2 == 0 else (side * side - 1) / (4 * side)
        assert set(load[axis == i].tolist()) == {round(net.p * far / (1 if side == 2 else 2))}


def test_ecmp_keeps_a_pair_on_one_way_and_spreads_pairs() -> None:
    p, h = 128, 50
    net = KaryFatTree(p)
    one = Relation(np.zeros(h, np.int64), np.full(h, p - 1), p)
    assert set(net.route(one).link_load.tolist()) == {0, h}
    assert net.route(one).steps == 6 + h - 1
    # The way of each pair is hashed: with the salt it changes.
    ways = {tuple(np.flatnonzero(KaryFatTree(p, salt=salt).route(one).link_load)) for salt in range(20)}
    assert len(ways) > 5
    first, second = all_pairs(net)
    both = Relation(first, second, p)
    up = slice(p, 3 * p)  # from edge and aggregation switches; 7/8 of all pairs go over the core
    load = net.route(both).link_load[up]
    spread = KaryFatTree(p, "packets").route(both).link_load[up]
    assert load.sum() == spread.sum()
    assert 75 < load.min() <= load.max() < 175  # 112 and 125 on average


def test_two_phases_spread_what_one_group_of_a_dragonfly_sends_to_the_next() -> None:
    net = Dragonfly(72)
    relation = Relation(np.tile(np.arange(72), 20), np.tile((np.arange(72) + 8) % 72, 20), 72)
    greedy, valiant = net.route(relation), net.route(relation, two_phase=True)
    assert greedy.max_link_load == 8 * 20  # all that a group sends goes over one link
    assert valiant.max_link_load < 100


@pytest.mark.parametrize("shape", [(4, 2, 2), (2, 3, 1)])
def test_a_dragonfly_has_its_second_channel_over_and_behind_the_link_between_groups(
    shape: tuple[int, int, int],
) -> None:
    a, t, h = shape
    net = Dragonfly(a * t * (a * h + 1), shape)
    group = np.where(net.heads < net.p, net.heads // (a * t), (net.heads - net.p) // a)
    for to in range(net.p):
        channel = net.channel(net.tails, np.full_like(net.tails, to), np.arange(len(net.heads)), net.tails)
        assert np.array_equal(channel, group == to // (a * t))
