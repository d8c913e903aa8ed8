"""The packet simulator does what its words say: held equal to a slow reference, and to steps counted by hand."""

from __future__ import annotations

import heapq
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pybsp.errors import RoutingError, UsageError
from pybsp.routing import Relation, relations
from pybsp.routing.networks.array import LinearArray
from pybsp.routing.networks.hypercube import Hypercube
from pybsp.routing.networks.network import Network
from pybsp.routing.networks.simulator import PORTS, QUEUES, Queues, Traffic, simulate

from ..tiers import some
from . import reference
from .reference import Graph, random_graph

BOTH = pytest.mark.parametrize(("queue", "ports"), [(queue, ports) for queue in QUEUES for ports in PORTS])


def agree(network: Network, relation: Relation, queue: str, ports: str, seed: int = 0) -> Traffic:
    """What the simulator says, after a look at whether the reference says so too."""
    traffic = network.route(relation, queue=queue, ports=ports, seed=seed, limit=10_000)
    begin, end = network.places[relation.sources].tolist(), network.places[relation.destinations].tolist()
    slow = reference.simulate(network, begin, end, queue, ports, np.random.default_rng(seed))
    assert traffic.steps == slow.steps
    assert traffic.delivered.tolist() == slow.delivered
    assert traffic.queue_length.tolist() == slow.queue_length
    assert traffic.link_load.tolist() == slow.link_load
    assert traffic.node_traffic.tolist() == slow.node_traffic
    return traffic


def path(nodes: int, *more: tuple[int, int]) -> Graph:
    """Nodes in a row, links up first, then links down."""
    return Graph(nodes, [*((i, i + 1) for i in range(nodes - 1)), *((i + 1, i) for i in range(nodes - 1)), *more])


# -- equal to the reference


@given(
    nodes=st.integers(1, 9),
    more=st.integers(0, 12),
    packets=st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), max_size=40),
    queue=st.sampled_from(QUEUES),
    ports=st.sampled_from(PORTS),
    draws=st.booleans(),
    seed=st.integers(0, 2**31),
)
@settings(max_examples=some(300), deadline=None)
def test_any_packets_on_any_graph(
    nodes: int, more: int, packets: list[tuple[int, int]], queue: str, ports: str, draws: bool, seed: int
) -> None:
    network = random_graph(nodes, more, seed, draws)
    sources, destinations = ([pair[end] % network.p for pair in packets] for end in (0, 1))
    agree(network, Relation(sources, destinations, network.p), queue, ports, seed)


@BOTH
@pytest.mark.parametrize("draws", [False, True])
def test_crowded_graphs(queue: str, ports: str, draws: bool) -> None:
    for seed in range(5):
        network = random_graph(12, 10, seed, draws)
        traffic = agree(network, relations.random_relation(network.p, 20, seed), queue, ports, seed)
        assert traffic.max_queue > 10


@BOTH
@pytest.mark.parametrize("order", ["fixed", "random"])
def test_hypercubes(queue: str, ports: str, order: str) -> None:
    for p, h in ((1, 2), (2, 5), (8, 6), (16, 4)):
        for make in (relations.random_relation, relations.uniform_destinations, relations.hot_spot):
            agree(Hypercube(p, order), make(p, h, seed=p), queue, ports)


@BOTH
def test_a_linear_array_and_a_star(queue: str, ports: str) -> None:
    star = Graph(7, [(0, k) for k in range(1, 7)] + [(k, 0) for k in range(6, 0, -1)])
    for network in (path(7), star):
        for relation in (
            relations.random_relation(7, 5),
            relations.all_to_one(7, 3, root=5),
            relations.one_to_all(7, 3, root=2),
            relations.unbalanced(7, 20, 4, 9),
        ):
            agree(network, relation, queue, ports)


@pytest.mark.parametrize("classes", [1, 2, 31, 33, 1024, 1025, 40_000])
def test_queues_give_the_highest_class_first_and_of_one_class_what_came_first(classes: int) -> None:
    rng = np.random.default_rng(classes)
    packets, size = 2000, 7
    queues = Queues(size, classes, packets)
    expected: list[list[tuple[int, int]]] = [[] for _ in range(size)]  # (-class, number of the packet)
    numbers = np.arange(packets)
    for new in np.split(numbers, range(50, packets, 50)):
        into, of = rng.integers(size, size=len(new)), rng.integers(classes, size=len(new))
        queues.put(new, into, None if classes == 1 else of)
        for packet, queue, number in zip(new.tolist(), into.tolist(), of.tolist(), strict=True):
            heapq.heappush(expected[queue], (-number, packet))
        for _ in range(rng.integers(12)):
            assert queues.active.tolist() == [queue for queue in range(size) if expected[queue]]
            assert queues.heads().tolist() == [heap[0][1] for heap in expected if heap]
            taken = queues.active[rng.random(len(queues.active)) < 0.7]
            queues.take(taken)
            for queue in taken.tolist():
                heapq.heappop(expected[queue])


@BOTH
def test_nothing_to_route(queue: str, ports: str) -> None:
    for network in (Graph(1, []), path(3), Hypercube(4)):
        for numbers in ([], [0, 0], list(range(network.p))):
            traffic = agree(network, Relation(numbers, numbers, network.p), queue, ports)
            assert traffic.steps == traffic.max_queue == traffic.max_link_load == 0
            assert traffic.node_traffic.sum() == len(numbers)


# -- by hand


def delivered(network: Network, packets: list[tuple[int, int]], **how: Any) -> list[int]:
    """The step in which each packet (from node, to node) arrived."""
    steps: list[int] = simulate(network, *np.array(packets, np.int64).T, **how).delivered.tolist()
    return steps


@pytest.mark.parametrize("ports", PORTS)
def test_fifo_packets_of_one_link_go_in_the_order_of_their_numbers(ports: str) -> None:
    assert delivered(path(4), [(0, 1), (0, 3), (0, 2)], ports=ports) == [1, 4, 4]


def test_furthest_first_the_furthest_packet_goes_and_of_equals_the_one_that_came_first() -> None:
    packets = [(0, 1), (0, 3), (0, 2), (0, 3)]
    assert delivered(path(4), packets, queue="fifo") == [1, 4, 4, 6]
    assert delivered(path(4), packets, queue="furthest-first") == [4, 3, 4, 4]


def test_furthest_first_a_late_packet_that_has_further_to_go_overtakes() -> None:
    # Packets 0 to 2 wait at node 1 for node 2; packet 3 comes there in step 1, when 0 has left.
    packets = [(1, 2), (1, 2), (1, 2), (0, 3)]
    assert delivered(path(4), packets, queue="fifo") == [1, 2, 3, 5]
    assert delivered(path(4), packets, queue="furthest-first") == [1, 3, 4, 3]


@pytest.mark.parametrize("lower", [0, 1])
def test_packets_that_come_at_once_wait_in_the_order_of_the_links_they_came_by(lower: int) -> None:
    # Both come to node 2 in step 1, by links 0 and 1; node 3 is further on.
    links = [(0, 2), (1, 2)] if lower == 0 else [(1, 2), (0, 2)]
    network = Graph(4, [*links, (2, 3), (3, 0), (3, 1)])
    assert delivered(network, [(0, 3), (1, 3)]) == ([2, 3] if lower == 0 else [3, 2])
    assert delivered(network, [(1, 3), (0, 3)]) == ([3, 2] if lower == 0 else [2, 3])


def test_packets_that_are_there_go_before_those_that_come() -> None:
    network = Graph(4, [(0, 2), (1, 2), (2, 3), (3, 0), (3, 1)])
    assert delivered(network, [(0, 3), (2, 3), (1, 3), (2, 3)]) == [3, 1, 4, 2]


def test_multi_port_a_node_uses_all_its_links_in_a_step_and_single_port_one() -> None:
    star = Graph(4, [(0, 1), (0, 2), (0, 3), (1, 0), (2, 0), (3, 0)])
    out = [(0, 1), (0, 2), (0, 3)]
    assert delivered(star, out, ports="multi") == [1, 1, 1]
    assert delivered(star, out, ports="single") == [1, 2, 3]


def test_single_port_a_node_takes_the_offer_of_the_links_in_turn() -> None:
    # Links 3 to 5 lead to node 0. (link + t) mod 6 is least for link 5 in step 1, 4 in step 2, and 3 in steps 3 and 4.
    star = Graph(4, [(0, 1), (0, 2), (0, 3), (1, 0), (2, 0), (3, 0)])
    into = [(1, 0), (2, 0), (3, 0)]
    assert delivered(star, into, ports="multi") == [1, 1, 1]
    assert delivered(star, into, ports="single") == [3, 2, 1]
    assert delivered(star, into * 2, ports="single") == [3, 2, 1, 4, 5, 6]


def test_single_port_a_node_sends_and_receives_in_one_step() -> None:
    assert delivered(path(2), [(0, 1), (1, 0)], ports="single") == [1, 1]


def test_single_port_a_packet_that_is_not_taken_holds_up_those_behind_it() -> None:
    # Node 1's packets for 0 and 2 wait in one queue. In step 1 node 0 takes link 4's: (4 + 1) mod 5 is 0.
    network = Graph(4, [(1, 0), (1, 2), (0, 1), (2, 3), (3, 0)])
    packets = [(1, 0), (1, 2), (3, 0)]
    assert delivered(network, packets, ports="multi") == [1, 1, 1]
    assert delivered(network, packets, ports="single") == [2, 3, 1]


# -- what is recorded


def test_queues_links_and_nodes_are_counted() -> None:
    traffic = simulate(path(4), np.array([0, 0, 0, 1, 3]), np.array([3, 3, 1, 2, 3]))
    assert traffic.queue_length.tolist() == [3, 1, 1, 0, 0, 0]
    assert traffic.max_queue == 3
    assert traffic.link_load.tolist() == [3, 3, 2, 0, 0, 0]
    assert traffic.node_traffic.tolist() == [3, 4, 3, 3]
    assert (traffic.max_link_load, traffic.max_node_traffic) == (3, 4)
    assert simulate(path(4), np.array([0, 0, 0, 1]), np.array([3, 3, 1, 2]), ports="single").max_queue == 3


@BOTH
def test_every_packet_takes_its_distance_and_no_link_is_used_twice_in_a_step(queue: str, ports: str) -> None:
    network = random_graph(30, 30, 4)
    relation = relations.random_relation(network.p, 10)
    far = network.far[network.places[relation.sources], network.places[relation.destinations]]
    traffic = network.route(relation, queue=queue, ports=ports)
    assert traffic.link_load.sum() == far.sum()
    assert (traffic.delivered >= far).all()
    assert traffic.steps == traffic.delivered.max() >= traffic.max_link_load
    assert traffic.node_traffic.sum() == relation.M + far.sum()


def test_two_phases_are_one_after_the_other() -> None:
    network, seed = Hypercube(16), 3
    relation = relations.transpose(16, 3)
    rng = np.random.default_rng(seed)
    via = rng.integers(16, size=relation.M)
    first = simulate(network, relation.sources, via, rng=rng)
    second = simulate(network, via, relation.destinations, rng=rng)
    both = network.route(relation, two_phase=True, seed=seed)
    assert both.steps == first.steps + second.steps
    assert np.array_equal(both.link_load, first.link_load + second.link_load)
    assert np.array_equal(both.queue_length, np.maximum(first.queue_length, second.queue_length))
    assert both.max_queue == max(first.max_queue, second.max_queue)
    moved = via != relation.destinations
    assert not moved.all()
    assert np.array_equal(both.delivered[moved], first.steps + second.delivered[moved])
    assert np.array_equal(both.delivered[~moved], first.delivered[~moved])  # which are there, and stay


def test_the_same_seed_the_same_steps() -> None:
    network = Hypercube(64, "random")
    relation = relations.random_relation(64, 10)
    one, same, other = (network.route(relation, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(one.delivered, same.delivered)
    assert not np.array_equal(one.delivered, other.delivered)


# -- size


@pytest.mark.whole
def test_a_million_packets_on_the_cube_of_two_to_the_fourteen() -> None:
    relation = relations.random_relation(1 << 14, 61)
    began = time.process_time()
    traffic = Hypercube(1 << 14).route(relation)
    assert time.process_time() - began < 20  # 1.4 s where nothing else runs
    assert (traffic.delivered > 0).sum() == relation.moving().M
    assert relation.M > 999_000
    assert traffic.link_load.sum() == np.bitwise_count(relation.sources ^ relation.destinations).sum()


@pytest.mark.whole
def test_furthest_first_is_not_slowed_by_how_far_packets_go() -> None:
    p = 2048
    relation = relations.random_relation(p, 4)
    began = time.process_time()
    LinearArray(p).route(relation, queue="furthest-first")
    assert time.process_time() - began < 6  # 1.1 s where nothing else runs


# -- what is refused


def test_what_cannot_be_simulated_is_refused() -> None:
    nothing = np.zeros(0, np.int64)
    with pytest.raises(UsageError, match="queue: expected one of fifo, furthest-first, got 'lifo'"):
        simulate(path(2), nothing, nothing, queue="lifo")
    with pytest.raises(UsageError, match="ports: expected one of multi, single, got 'some'"):
        simulate(path(2), nothing, nothing, ports="some")
    with pytest.raises(RoutingError, match="expected a relation of p = 4 processors, got one of p = 3"):
        Hypercube(4).route(relations.random_relation(3, 1))
    with pytest.raises(UsageError, match=r"hypercube of 4: route: relation: expected a Relation, got \(\[0\], \[1\]\)"):
        Hypercube(4).route(([0], [1]))  # type: ignore[arg-type]
    with pytest.raises(RoutingError, match="p must be a power of two, got 12; 8 and 16 would fit"):
        Hypercube(12)


def test_a_limit_of_steps() -> None:
    relation = relations.all_to_one(4)
    assert path(4).route(relation, limit=3).steps == 3
    with pytest.raises(RuntimeError, match="1 packets are on their way after 2 steps"):
        path(4).route(relation, limit=2)
