"""Traffic in time does what flow.py's words say: held equal to a naive simulator, to `route`, and to closed forms."""

from __future__ import annotations

from collections import defaultdict, deque
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pybsp.benchmarks.studies import traffic_in_time
from pybsp.errors import RoutingError, UsageError
from pybsp.routing import networks, relations
from pybsp.routing.networks import Array, Hypercube, Injections, LinearArray, Network, Torus, flow, network
from pybsp.routing.networks.adaptive import Ways

from ..tiers import some

NETWORKS = ("torus", "array", "hypercube", "butterfly", "dragonfly", "k-ary-fat-tree", "ring")


def made(name: str) -> Network:
    """A small network."""
    own: dict[str, Network] = {"torus": Torus((4, 3)), "array": Array((3, 4)), "ring": Torus((6,))}
    sizes = {"hypercube": 8, "butterfly": 8, "dragonfly": 6, "k-ary-fat-tree": 16}
    return own[name] if name in own else network(name, sizes[name])


def fits(name: str, p: int) -> bool:
    try:
        network(name, p)
    except RoutingError:
        return False
    return True


def naive(
    net: Network, injections: Injections, period: list[int], delay: list[int], buffers: int | None, seed: int
) -> tuple[list[int], list[int], list[int]]:
    """When each packet arrives, how many leave over each link, the longest queues: one packet at a time, greedily."""
    channels = 1 if buffers is None else net.channels
    room = buffers or 10**9
    links, tails, heads = range(len(net.tails)), net.tails.tolist(), net.heads.tolist()
    rng = np.random.default_rng(seed)
    at, end = net.places[injections.sources].tolist(), net.ends[injections.destinations].tolist()
    state, hops, over = [0] * len(at), [0] * len(at), [-1] * len(at)
    delivered, load, longest = [-1] * len(at), [0] * len(tails), [0] * len(tails)
    queues: dict[tuple[int, int], deque[int]] = defaultdict(deque)
    places: dict[Any, int] = defaultdict(int)  # in use, by (link, channel) or ("node", node)
    held: dict[int, Any] = {}
    source: dict[int, deque[int]] = defaultdict(deque)
    free_at, turn = [0] * len(tails), [0] * len(tails)
    coming: dict[int, list[int]] = defaultdict(list)
    now = -1
    while min(delivered, default=0) < 0:
        now += 1
        assert now < 5000
        going = []
        for i in sorted(coming[now], key=lambda i: over[i]):
            at[i] = heads[over[i]]
            hops[i] += 1
            if at[i] == end[i]:
                delivered[i] = now
                places[held[i]] -= 1
            else:
                going.append(i)
        for i in range(len(at)):
            if injections.times[i] == now and at[i] == end[i]:
                delivered[i] = now
            elif injections.times[i] == now:
                source[at[i]].append(i)
        fresh = []
        for node, waiting in source.items():
            use = places["node", node]
            while waiting and use < room:
                i = waiting.popleft()
                use += 1
                fresh.append(i)
                held[i] = "node", node
        for i in fresh:
            places[held[i]] += 1
        for group in (going, sorted(fresh)):
            if not group:
                continue
            here, there, before = (np.array([of[i] for i in group], np.int64) for of in (at, end, state))
            if group is not going:
                before = net.begin(here, there, rng)
            chosen, after = net.step(here, there, before, rng)
            channel = net.channel(here, there, chosen, np.array([hops[i] for i in group]))
            for k, i in enumerate(group):
                state[i], over[i] = int(after[k]), int(chosen[k])
                queues[over[i], int(channel[k]) if channels > 1 else 0].append(i)
        for link in links:
            longest[link] = max(longest[link], sum(len(queues[link, c]) for c in range(channels)))
        leaving = []
        for link in links:
            ready = [c for c in range(channels) if queues[link, c] and places[link, c] < room]
            if free_at[link] <= now and ready:
                c = min(ready, key=lambda c: (link * channels + c - turn[link]) % channels)
                turn[link] = c + 1 + link * channels
                leaving.append((link, c))
        for link, c in leaving:
            i = queues[link, c].popleft()
            load[link] += 1
            free_at[link] = now + period[link]
            coming[now + delay[link]].append(i)
            places[held[i]] -= 1
            held[i] = link, c
            places[link, c] += 1
            assert tails[link] == at[i]
    return delivered, load, longest


@given(
    name=st.sampled_from(NETWORKS),
    packets=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 99), st.integers(0, 99)), max_size=60),
    rates=st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4)), min_size=1, max_size=3),
    buffers=st.sampled_from([None, 1, 2, 5]),
)
@settings(max_examples=some(150), deadline=None)
def test_any_packets_at_any_times_go_as_they_do_one_at_a_time(
    name: str, packets: list[tuple[int, int, int]], rates: list[tuple[int, int]], buffers: int | None
) -> None:
    net = made(name)
    times, sources, destinations = np.array(packets, np.int64).reshape(-1, 3).T
    injections = Injections.at(times, sources % net.p, destinations % net.p, net.p)
    period, delay = np.resize(np.array(rates), (len(net.tails), 2)).T
    fast = flow(net, injections, period=period, delay=delay, buffers=buffers, seed=5)
    if name == "k-ary-fat-tree":  # which draws: a batch at a time here, as there
        return
    delivered, load, longest = naive(net, injections, period.tolist(), delay.tolist(), buffers, 5)
    assert fast.delivered.tolist() == delivered
    assert fast.link_load.tolist() == load
    assert fast.queue_length.tolist() == longest
    assert fast.steps == max(delivered, default=0)


@pytest.mark.parametrize("name", NETWORKS)
def test_packets_that_all_come_at_once_move_as_route_has_it(name: str) -> None:
    net = made(name)
    relation = relations.random_relation(net.p, 8, seed=3)
    batch = net.route(relation, seed=0)
    timed = flow(net, Injections.supersteps([relation], [0]))
    assert timed.steps == batch.steps
    if name != "k-ary-fat-tree":
        assert np.array_equal(timed.delivered, batch.delivered)
        assert np.array_equal(timed.link_load, batch.link_load)
        assert np.array_equal(timed.queue_length, batch.queue_length)


# -- virtual channels

SIZES = {"butterfly": 24, "cube-connected-cycles": 24, "k-ary-fat-tree": 54, "dragonfly": 72, "3d-array": 27}


def test_a_network_has_one_where_routes_have_an_order_two_on_tori_and_dragonflies_else_one_a_hop() -> None:
    by_hop = {"butterfly", "cube-connected-cycles", "shuffle-exchange", "multibutterfly"}
    for name in networks.NETWORKS:
        net = network(name, SIZES.get(name, 64))
        fixed = 2 if name in ("2d-torus", "3d-torus", "dragonfly") else 1
        assert net.channels == (net.diameter if name in by_hop else fixed), name


@pytest.mark.parametrize("name", [*networks.NETWORKS, "ring"])
def test_by_its_virtual_channels_no_packets_of_a_network_wait_in_a_circle(name: str) -> None:
    net = Torus((7,)) if name == "ring" else network(name, SIZES.get(name, 64))
    first, second = np.divmod(np.arange(net.p**2), net.p)
    at, to = net.places[first], net.ends[second]
    rng = np.random.default_rng(1)
    state, hops = net.begin(at, to, rng), np.zeros(len(at), np.int64)
    before = np.full(len(at), -1)
    waits: set[tuple[int, int]] = set()
    while len(on := np.flatnonzero(at != to)):
        link, state[on] = net.step(at[on], to[on], state[on], rng)
        channel = net.channel(at[on], to[on], link, hops[on])
        assert channel.min() >= 0
        assert channel.max() < net.channels
        queue = link * net.channels + channel
        waits |= {pair for pair in zip(before[on].tolist(), queue.tolist(), strict=True) if pair[0] >= 0}
        before[on], at[on] = queue, net.heads[link]
        hops[on] += 1
    behind: dict[int, set[int]] = defaultdict(set)
    left: dict[int, int] = defaultdict(int)
    for one, other in waits:
        behind[one].add(other)
        left[other] += 1
    todo = [one for one in behind if not left[one]]
    done = 0
    while todo:
        for other in behind[todo.pop()]:
            done += 1
            left[other] -= 1
            if not left[other]:
                todo.append(other)
    assert done == len(waits)


def test_on_a_ring_with_one_channel_packets_wait_in_a_circle_which_is_an_error() -> None:
    ring = Torus((6,))
    at = np.arange(6)
    around = Injections.at(np.zeros(18, int), np.tile(at, 3), np.tile((at + 2) % 6, 3), 6)
    with pytest.raises(RoutingError, match=r"deadlock on torus of 6 at step \d+: \d+ packets wait for places"):
        flow(ring, around, buffers=1, channels=1)
    assert flow(ring, around, buffers=1).delivered.min() > 0


@pytest.mark.parametrize("routing", ["greedy", "adaptive", "valiant", "ugal"])
@pytest.mark.parametrize("name", NETWORKS)
def test_all_arrive_through_the_smallest_buffers(name: str, routing: str) -> None:
    net = made(name)
    load = Injections.supersteps([relations.random_relation(net.p, 20, seed=1)], [0])
    done = flow(net, load, routing=routing, buffers=1)
    there = load.sources == load.destinations
    assert (done.delivered[~there] > 0).all()
    assert not done.hops[there].any()
    assert done.hops.sum() == done.link_load.sum()


# -- finite buffers


@pytest.mark.parametrize(
    ("delay", "buffers", "rate"), [(1, 1, 1 / 2), (1, 2, 1), (3, 2, 1 / 2), (3, 4, 1), (5, 3, 1 / 2)]
)
def test_a_link_is_kept_busy_from_one_place_more_than_its_delay_on(delay: int, buffers: int, rate: float) -> None:
    path, m = LinearArray(4), 300
    stream = Injections.at(np.zeros(m, int), np.zeros(m, int), np.full(m, 3), 4)
    assert flow(path, stream, delay=delay, buffers=buffers).steps == pytest.approx(m / rate, abs=5 * delay + 5)


def test_back_pressure_holds_packets_at_their_source() -> None:
    path, m = LinearArray(5), 60
    period = np.where(path.tails == 3, 5, 1)  # the last link is slow
    stream = Injections.at(np.zeros(m, int), np.zeros(m, int), np.full(m, 4), 5)
    endless, finite = (flow(path, stream, period=period, buffers=buffers) for buffers in (None, 3))
    up = [int(np.flatnonzero((path.tails == k) & (path.heads == k + 1))[0]) for k in range(4)]
    assert endless.queue_length[up[3]] > 40
    assert finite.queue_length[up].tolist() == [3, 3, 3, 3]
    assert endless.steps == finite.steps == 3 + 5 * (m - 1) + 1


# -- closed forms


@pytest.mark.parametrize(
    ("rho", "period"), [(0.3, 1), *(pytest.param(*case, marks=pytest.mark.whole) for case in ((0.7, 1), (0.8, 4)))]
)
def test_waiting_for_a_link_is_that_of_m_d_1(rho: float, period: int) -> None:
    p, steps = 512, 1200 * period
    cube = Hypercube(p)  # each processor sends over one link of its own
    load = Injections.open(p, rho / period, steps, destinations=np.arange(p) ^ 1, seed=2)
    done = flow(cube, load, period=period)
    assert done.mean_latency(steps // 5, steps * 4 // 5) - 1 == pytest.approx(rho * period / (2 * (1 - rho)), rel=0.04)
    assert done.utilization[done.link_load > 0].mean() == pytest.approx(rho, rel=0.03)


def test_a_link_that_is_busy_when_all_is_over_was_busy_until_then() -> None:
    pair, nine = networks.LinearArray(2), Injections.at([0] * 9, [0] * 9, [1] * 9, p=2)
    for until in None, 5, 21:
        done = flow(pair, nine, period=10, until=until)
        assert (done.busy.tolist(), done.utilization.tolist()) == ([done.steps, 0], [1.0, 0.0])
    alone = flow(pair, Injections.at([3], [0], [1], p=2), period=10)
    assert (alone.steps, alone.busy.tolist(), alone.utilization.tolist()) == (4, [1, 0], [0.25, 0.0])


@pytest.mark.whole
def test_a_torus_saturates_at_eight_over_its_side_of_uniform_traffic() -> None:
    torus = Torus((8, 8))
    assert networks.saturation_bound(torus) == 8 / 8
    assert networks.saturation(torus, steps=700, tolerance=0.015) == pytest.approx(1.0, rel=0.05)


@pytest.mark.whole
@pytest.mark.parametrize("k", [4, 8])
def test_a_mesh_saturates_where_half_of_all_packets_fill_its_bisection(k: int) -> None:
    mesh = Array((k, k))
    closed = 2 * mesh.bisection / (mesh.p / 2)  # one half sends half of its packets over `bisection` links
    assert networks.saturation_bound(mesh) == pytest.approx(closed)
    assert networks.saturation(mesh, steps=900, tolerance=0.03) == pytest.approx(closed, rel=0.05)


@pytest.mark.whole
def test_beyond_saturation_latency_has_no_end_and_throughput_stays() -> None:
    points = networks.latency_against_load(Array((4, 4)), [0.1, 0.8, 1.5, 1.9], steps=600)
    assert [point.latency < float("inf") for point in points] == [True, True, False, False]
    assert points[0].latency == pytest.approx(8 / 3, rel=0.05)  # the mean distance of others, and hardly any waiting
    assert points[1].throughput == pytest.approx(0.8, rel=0.03)
    assert 0.8 < points[3].throughput < 1.5
    assert points[3].busiest > 0.99


def test_ecmp_keeps_a_pair_on_one_way_at_all_times_so_that_the_bound_is_one() -> None:
    tree = networks.KaryFatTree(16)
    pair = Injections.at(np.arange(40) * 3, np.zeros(40, np.int64), np.full(40, 15), p=16)
    ways = {tuple(np.flatnonzero(flow(tree, pair, seed=seed).link_load)) for seed in range(3)}
    assert [len(way) for way in ways] == [6]
    others = {
        tuple(np.flatnonzero(flow(networks.KaryFatTree(16, salt=salt), pair).link_load)) for salt in range(2 * some(20))
    }
    assert len(others) == 4  # ways from pod to pod
    bound = networks.saturation_bound(tree)
    assert bound == networks.saturation_bound(tree, seed=5)
    busiest = flow(tree, Injections.open(16, 0.9 * bound, 600), seed=1).utilization.max()
    assert busiest == pytest.approx(0.9, rel=0.08)
    with pytest.raises(UsageError, match=r"salt: expected a whole number from 0 to 2\*\*63 - 1, got -1"):
        networks.KaryFatTree(16, salt=-1)


def test_a_network_that_carries_nothing_does_not_saturate() -> None:
    assert networks.saturation(Torus((4, 4)), destinations=np.arange(16), steps=30) == float("inf")


def test_saturation_is_sought_by_halving_twice_the_bound_of_the_same_seed() -> None:
    tree = networks.KaryFatTree(16, spread="packets")
    period = np.where((tree.tails < tree.p) | (tree.heads < tree.p), 1, 3)  # the switches' links are what saturates
    bound, other = (networks.saturation_bound(tree, period=period, seed=seed) for seed in (2, 0))
    load = networks.saturation(tree, seed=2, tolerance=0.9, steps=60, period=period)
    assert [(64 * load / begin).is_integer() for begin in (bound, other)] == [True, False]


@pytest.mark.whole
def test_a_load_whose_latency_grows_is_above_saturation() -> None:
    # Of 16 sources two have a link in common; nearly all packets come in time when it carries too many.
    into = np.arange(16) ^ 1
    into[:4] = 3
    load = networks.saturation(Hypercube(16), destinations=into, steps=1500, tolerance=0.03)
    assert networks.saturation_bound(Hypercube(16), into) == 0.5
    assert load == pytest.approx(0.5, rel=0.1)


# -- routing that sees queues


@pytest.mark.whole
def test_where_greedy_routing_is_bad_the_others_carry_more() -> None:
    # All of a group of a dragonfly send to the next group, over one link: 1/8 of a packet each.
    net = network("dragonfly", 72)
    next_group = (np.arange(72) + 8) % 72
    assert networks.saturation_bound(net, next_group) == 1 / 8
    found = {
        routing: networks.latency_against_load(net, [0.25], destinations=next_group, steps=450, routing=routing)[0]
        for routing in ("greedy", "valiant", "ugal")
    }
    assert found["greedy"].throughput == pytest.approx(1 / 8, rel=0.05)
    assert found["valiant"].throughput == pytest.approx(1 / 4, rel=0.05)
    assert found["ugal"].throughput > 0.17  # it sees its own queues alone


@pytest.mark.whole
def test_ugal_goes_by_the_short_way_where_there_is_room() -> None:
    net = network("dragonfly", 72)
    load = Injections.open(72, 0.1, 300, seed=3)
    short, between, ugal = (flow(net, load, routing=how) for how in ("greedy", "valiant", "ugal"))
    assert ugal.hops.mean() < short.hops.mean() + 0.1 * (between.hops.mean() - short.hops.mean())


@pytest.mark.whole
def test_adaptive_packets_take_shortest_ways_around_what_waits() -> None:
    mesh = Array((8, 8))
    transpose = np.arange(64).reshape(8, 8).T.ravel()
    load = Injections.open(64, 0.3, 600, transpose, seed=1)
    greedy, adaptive = (flow(mesh, load, routing=how) for how in ("greedy", "adaptive"))
    assert np.array_equal(greedy.hops, adaptive.hops)
    assert adaptive.mean_latency(100, 500) < 0.5 * greedy.mean_latency(100, 500)


@pytest.mark.parametrize("name", sorted(networks.NETWORKS))
def test_from_each_node_on_a_packets_way_a_link_leads_nearer_where_routing_may_adapt(name: str) -> None:
    """So adaptive packets are there after as many hops as their ends are far, at most."""
    net = network(name, next(p for p in (16, 27, 24, 6) if fits(name, p)))
    if not net.adaptive:
        return
    far = net.distance(net.places.repeat(net.p), np.tile(net.ends, net.p), np.zeros(net.p**2, np.int64))
    pairs = Injections.at(np.zeros(net.p**2, int), *np.divmod(np.arange(net.p**2), net.p), net.p)
    done = flow(net, pairs, routing="adaptive", buffers=1, until=5000)
    apart = pairs.sources != pairs.destinations
    assert (done.delivered[apart] > 0).all()
    assert (done.hops[apart] <= far[apart]).all()


class Astray(Torus):
    """All its nodes are as far from each other."""

    def distance(self, at: Any, to: Any, state: Any) -> Any:
        return np.ones_like(at)


def test_where_nothing_leads_nearer_adaptive_routing_says_so() -> None:
    with pytest.raises(UsageError, match=r"adaptive: expected a link that leads nearer .* none does from node 0 to 2"):
        flow(Astray((4,)), Injections.at([0], [0], [2], 4), routing="adaptive")


def test_a_function_of_ones_own_sees_queues() -> None:
    ring = Torus((5,))
    seen = []

    def up(at: Any, to: Any, waiting: Any, rng: np.random.Generator) -> Any:
        seen.append(waiting.max())
        return ring.link(at, np.ones(len(at), np.int64))

    done = flow(ring, Injections.at([0, 0, 1], [0, 0, 0], [4, 3, 1], 5), routing=up)
    assert done.hops.tolist() == [4, 3, 1]
    assert max(seen) == 1
    with pytest.raises(UsageError, match="the function gave links that do not begin where the packets are"):
        flow(ring, Injections.at([0], [0], [4], 5), routing=lambda at, to, waiting, rng: at * 0 + 9)
    for none in (-1, 10**6):
        with pytest.raises(UsageError, match="the function gave links that do not begin where the packets are"):
            flow(ring, Injections.at([0], [0], [4], 5), routing=lambda at, *_, none=none: at * 0 + none)


# -- what is injected


@pytest.mark.parametrize(
    "links",
    [
        pytest.param(lambda first: first.astype(float), id="no whole numbers"),
        pytest.param(lambda first: np.append(first, first), id="too many"),
        pytest.param(lambda first: first - 1, id="below 0"),
        pytest.param(lambda first: first + 4, id="beyond the last"),
        pytest.param(lambda first: first + 1, id="from elsewhere"),
    ],
)
def test_links_of_a_function_of_ones_own_begin_where_the_packets_are(links: Any) -> None:
    line, one = LinearArray(3), Injections.at([0], [0], [1], 3)
    first = np.flatnonzero(line.tails == 0)
    assert (first.tolist(), len(line.tails)) == ([0], 4)
    with pytest.raises(UsageError, match="routing: the function gave links that do not begin where the packets are"):
        flow(line, one, routing=lambda *_: links(first))
    assert flow(line, one, routing=lambda *_: first).steps == 1


def test_open_load_and_bursts_have_their_load_and_the_same_seed_the_same_packets() -> None:
    for make, more in ((Injections.open, {}), (Injections.bursts, {"length": 6})):
        one, same, other = (make(32, 0.25, 4000, seed=seed, **more) for seed in (1, 1, 2))
        assert one.packets / (32 * 4000) == pytest.approx(0.25, rel=0.03)
        assert np.array_equal(one.sources, same.sources)
        assert not np.array_equal(one.times[:100], other.times[:100])
        assert (np.diff(one.times) >= 0).all()


def test_a_burst_is_one_packet_a_step_to_one_processor() -> None:
    burst = Injections.bursts(1000, 0.001, 100, length=7, seed=4)
    sources, counts = np.unique(burst.sources, return_counts=True)
    alone = [burst.sources == source for source in sources[counts == 7]]  # of one burst each
    assert len(alone) > 5
    for packets in alone:
        assert np.diff(burst.times[packets]).tolist() == [1] * 6
        assert len(set(burst.destinations[packets].tolist())) == 1


def test_the_trace_of_a_program_is_its_supersteps_one_after_the_other() -> None:
    cube = Hypercube(16)
    steps = [relations.random_relation(16, 4, seed=seed) for seed in range(3)]
    alone = [cube.route(relation).steps for relation in steps]
    starts = np.cumsum([0, *alone[:-1]]).tolist()
    assert flow(cube, Injections.supersteps(steps, starts)).steps == sum(alone)
    assert flow(cube, Injections.supersteps(steps, [0, 1, 2])).steps < sum(alone)


def test_what_arrives_as_it_is_stopped_has_not_arrived() -> None:
    steps = flow(LinearArray(3), Injections.at([0], [0], [2], 3)).steps
    for until, arrives in ((steps, False), (steps + 1, True)):
        done = flow(LinearArray(3), Injections.at([0], [0], [2], 3), until=until)
        assert (done.delivered[0] == steps, done.steps) == (arrives, steps)


@pytest.mark.parametrize("figure", ["throughput", "mean_latency"])
@pytest.mark.parametrize("span", [(5, 5), (6, 5), (0, "5"), (0, 5.5)])
def test_a_span_of_time_has_a_step_at_least(figure: str, span: tuple[Any, Any]) -> None:
    done = flow(LinearArray(3), Injections.at([0], [0], [2], 3))
    with pytest.raises(UsageError, match=f"flow.{figure}: arguments begin and end: expected .*, got .* and '?5"):
        getattr(done, figure)(*span)


def test_figures_of_a_span_of_time_have_its_first_step_and_not_its_last() -> None:
    done = flow(LinearArray(3), Injections.at([4, 6, 6], [0, 0, 1], [2, 2, 1], 3))
    assert done.latency.tolist() == [2, 2, 0]
    assert (done.delivered.tolist(), done.steps) == ([6, 8, 6], 8)
    assert [done.throughput(begin, end) for begin, end in ((6, 8), (7, 9), (0, 6))] == pytest.approx([1 / 3, 1 / 6, 0])
    assert [done.mean_latency(begin, end) for begin, end in ((4, 6), (5, 7), (5, 6))] == [2.0, 2.0, 0.0]
    assert flow(LinearArray(3), done.injections, until=7).mean_latency(0, 9) == float("inf")
    assert "1 of them not there when it was stopped" in repr(flow(LinearArray(3), done.injections, until=7))


# -- what is refused


@pytest.mark.parametrize("name", ["open", "bursts"])
def test_loads_and_destinations_are_checked_by_name_before_they_are_drawn(name: str) -> None:
    make = partial(getattr(Injections, name), **({"length": 2} if name == "bursts" else {}))
    for load in (0, -1, float("inf"), float("nan"), "much", True, 1e6 + 1):
        with pytest.raises(
            UsageError, match=rf"^Injections\.{name}: load: expected packets for each .* at most 1e\+06"
        ):
            make(4, load, 10)
    for destinations in ([0, 1, 2, 4], [0, 1, 2, -1], [0, 1, 2]):
        with pytest.raises(UsageError, match=rf"^Injections\.{name}: .*destinations"):
            make(4, 0.1, 10, destinations=destinations)
    assert make(2, 1e6, 1, destinations=[1, 0]).packets > 1e6
    assert make(2, 0.5, 1, seed=3).load == 0.5


def test_what_is_no_network_no_injections_and_no_flow_is_refused_by_name(tmp_path: Path) -> None:
    one: Any = Injections.at([0], [0], [1], 4)
    wrong: Any = [1, 2]
    with pytest.raises(UsageError, match=r"^flow: network: expected a Network, got \[1, 2\]"):
        flow(wrong, one)
    with pytest.raises(UsageError, match=r"^flow: injections: expected Injections, got \[1, 2\]"):
        flow(Hypercube(4), wrong)
    with pytest.raises(
        UsageError,
        match=r"^heat_map: flow: expected a Flow, as networks\.flow\(network, injections\) gives, got <injections: 1 p",
    ):
        networks.heat_map(one, str(tmp_path / "load.svg"))


def test_what_cannot_be_is_an_error() -> None:
    cube = Hypercube(4)
    one = Injections.at([0], [0], [1], 4)
    for how, said in (
        ({"routing": "best"}, "routing: expected one of greedy, adaptive, valiant, ugal, or a function, got 'best'"),
        ({"buffers": 0}, "buffers: expected a whole number from 1 on, or None, got 0"),
        ({"channels": 0}, "channels: expected a whole number from 1 on, or None, got 0"),
        ({"until": -1}, "until: expected a whole number from 0 on, or None, got -1"),
        ({"period": 0}, "period: expected whole numbers from 1 on"),
        ({"delay": [1, 2]}, "delay: expected whole numbers from 1 on, one or one for each of 8 links"),
    ):
        with pytest.raises(UsageError, match=said):
            flow(cube, one, **how)
    with pytest.raises(
        UsageError, match=r"a load of 0\.6 packets for each processor and step is above what a source can"
    ):
        flow(network("k-ary-fat-tree", 16), Injections.open(16, 0.6, 10), period=2)
    with pytest.raises(RoutingError, match="expected injections for p = 4 processors, got some for p = 8"):
        flow(cube, Injections.open(8, 0.5, 10))
    with pytest.raises(UsageError, match="has no adaptive routing"):
        flow(network("shuffle-exchange", 4), one, routing="adaptive")
    with pytest.raises(UsageError, match=r"times: expected steps from 0 on, got -2 for packet 1: that is past"):
        Injections.at([3, -2], [0, 0], [1, 1], 4)
    assert Injections.at([1 << 62], [0], [1], 4).times.tolist() == [1 << 62]
    with pytest.raises(UsageError, match=r"times: expected steps up to 2\^62, got 4611686018427387905"):
        Injections.at([0, (1 << 62) + 1], [0, 0], [1, 1], 4)
    with pytest.raises(UsageError, match=r"times: expected integers of shape \(1,\)"):
        Injections.at([0.5], [0], [1], 4)
    for load in (0, -1, float("inf"), float("nan"), "much", True):
        with pytest.raises(UsageError, match="load: expected packets for each processor and step, above 0"):
            Injections.open(4, load, 10)  # type: ignore[arg-type]
    for tolerance in (0, -1, 1, "little", float("nan")):
        with pytest.raises(UsageError, match="tolerance: expected a part of the load"):
            networks.saturation(cube, tolerance=tolerance)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="steps: expected a whole number from 3 on, got 2"):
        networks.latency_against_load(cube, [0.1], steps=2)
    with pytest.raises(UsageError, match="period: expected whole numbers from 1 on"):
        networks.saturation(cube, period=0.5)
    with pytest.raises(UsageError, match="steps: expected a whole number from 1 on, got 0"):
        Injections.open(4, 0.1, 0)
    with pytest.raises(UsageError, match=r"Injections\.open: p: expected a whole number from 1 on, got 0"):
        Injections.open(0, 0.1, 10)
    with pytest.raises(UsageError, match=r"Injections\.bursts: p: expected a whole number from 1 on, got 0"):
        Injections.bursts(0, 0.1, 10, length=2)
    with pytest.raises(UsageError, match="length: expected a whole number from 1 on, got 0"):
        Injections.bursts(4, 0.1, 10, length=0)
    with pytest.raises(UsageError, match=r"Injections\.supersteps: starts: expected steps from 0 to 2\^62, got -3"):
        Injections.supersteps([relations.permutation(4)], [-3])
    with pytest.raises(UsageError, match=r"^Injections\.open: destinations: expected processors 0 to 3, got -1"):
        Injections.open(4, 0.1, 10, destinations=[0, 1, 2, -1])
    with pytest.raises(UsageError, match=r"latency_against_load: loads: expected numbers, got 0\.5"):
        networks.latency_against_load(cube, 0.5)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="latency_against_load: until: is `steps`"):
        networks.latency_against_load(cube, [0.1], until=5)
    with pytest.raises(UsageError, match="saturation: until: is `steps`"):
        networks.saturation(cube, until=5)
    with pytest.raises(UsageError, match="saturation: steps: expected a whole number from 3 on, got 2"):
        networks.saturation(cube, steps=2)
    with pytest.raises(UsageError, match=r"latency_against_load: loads: a load of 1e\+08 packets .* above what"):
        networks.latency_against_load(cube, [1e8])  # before they are drawn, which no memory would hold
    with pytest.raises(UsageError, match=r"load: expected packets for each processor and step, above 0 and at most"):
        Injections.open(4, 1e30, 10)
    for times in (np.array([5, 0]), np.array([-1, 3])):
        with pytest.raises(UsageError, match=r"flow: injections: times: expected steps from 0 on, ascending"):
            flow(cube, Injections(times, np.array([0, 0]), np.array([1, 1]), 4))
    with pytest.raises(UsageError, match=r"times: expected steps up to 2\^62, got 18446744073709551615"):
        Injections.at(np.array([2**64 - 1], np.uint64), [0], [1], 4)
    with pytest.raises(UsageError, match=r"relations: expected Relations"):
        Injections.supersteps([[1, 2]], [0])  # type: ignore[list-item]
    nothing: Any = None
    for call in (networks.saturation, networks.saturation_bound, partial(networks.latency_against_load, loads=[0.1])):
        with pytest.raises(UsageError, match="network: expected a Network, got None"):
            call(nothing)


def test_what_stays_where_it_is_takes_no_place() -> None:
    one = Injections.at([0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1], 16)
    for buffers in (None, 2, 1):
        assert flow(networks.Torus((4, 4)), one, buffers=buffers).delivered.tolist() == [0, 0, 0, 1]
    at_home = flow(networks.Torus((4, 4)), Injections.at([3], [0], [0], 16))
    assert (at_home.delivered.tolist(), at_home.steps, at_home.latency.tolist()) == ([3], 3, [0])
    with pytest.raises(UsageError, match="expected one or more relations and a start for each, got 1 and 2"):
        Injections.supersteps([relations.permutation(4)], [0, 1])
    with pytest.raises(UsageError, match=r"relations: expected all of one p, got p = \[4, 8\]"):
        Injections.supersteps([relations.permutation(4), relations.permutation(8)], [0, 1])


@pytest.mark.whole
def test_a_heat_map_of_any_network_is_drawn(tmp_path: Path) -> None:
    for net in (Array((3, 4)), Torus((3, 4)), Hypercube(8)):
        done = flow(net, Injections.open(net.p, 0.3, 50))
        figure = networks.heat_map(done, str(tmp_path / "load.png"))
        assert net.name in figure.axes[0].get_title()
        assert (tmp_path / "load.png").stat().st_size > 1000
    with pytest.raises(UsageError, match=r"heat_map: path: cannot write"):
        networks.heat_map(done, str(tmp_path / "missing" / "load.png"))


def test_valiant_needs_twice_the_channels() -> None:
    assert Ways(Torus((4,)), "valiant", 0).channels == 2 * Ways(Torus((4,)), "greedy", 0).channels == 4


@pytest.mark.whole
def test_the_study_is_within_its_bar(tmp_path: Path) -> None:
    assert traffic_in_time.main(["--quick", "--json", str(tmp_path / "kept.json")]) == 0
    assert (tmp_path / "kept.json").stat().st_size > 100
