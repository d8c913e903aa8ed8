"""The communication algorithms of *The E-BSP model*, section 4, by count: the supersteps, and the bounds."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import pybsp
from pybsp import BSPMachine, Cost, EBSPMachine
from pybsp.collectives import broadcast
from pybsp.collectives.broadcast_items import plan as plan_2d
from pybsp.collectives.ebsp.gossip import gossip
from pybsp.collectives.ebsp.items_broadcast import items_broadcast, layout
from pybsp.collectives.ebsp.mesh_broadcast import mesh_broadcast
from pybsp.collectives.ebsp.personalised_broadcast import personalised_broadcast
from pybsp.collectives.ebsp.tree_broadcast import sizes, tree_broadcast, trimmed
from pybsp.collectives.plan import Plan, Step
from pybsp.machines.cost import Machine
from pybsp.rides.ride import Stream

from ..costs import assert_ledger_is, machine

NETWORKS = [EBSPMachine.linear_array, EBSPMachine.mesh]
POWERS = [2**k for k in range(1, 13)]
CUBES = [q**3 for q in range(2, 17)]


def log(x: float) -> float:
    return max(1.0, math.log2(x))


def pairs(step: Step) -> set[tuple[int, int]]:
    return set(zip(step.sources.tolist(), step.destinations.tolist(), strict=True))


def relations(cost: Cost) -> list[tuple[int, int, int, int]]:
    """(M, k1, k2) and the locality of each superstep."""
    return [(step.M, step.h_out, step.h_in, step.locality) for step in cost]


# -- the ledger -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", range(1, 65))
def test_ledger_is_what_cost_said(p: int) -> None:
    root, words = (7 * p) // 10, (5 * p) // 3
    on = machine(p, p % 3)
    value = np.arange(words)

    def check(cost: Cost, primitive: Callable[..., Any], *arguments: Any, expected: Any = value) -> None:
        results = assert_ledger_is(cost, primitive, *arguments, p=p, machine=on)
        assert all(np.array_equal(result, expected) for result in results)

    check(tree_broadcast.cost(on, words, root=root), tree_broadcast, value, root)
    check(mesh_broadcast.cost(on, words, root=root), mesh_broadcast, value, root)
    check(items_broadcast.cost(on, words, root), items_broadcast, value, root)
    few = p // 3
    check(items_broadcast.cost(on, few, root), items_broadcast, value[:few], root, expected=value[:few])
    cost = personalised_broadcast.cost(on, words, root)
    check(cost, personalised_broadcast, [value] * p, root)
    assert_ledger_is(gossip.cost(on, words), gossip, value, p=p, machine=on)


def test_ledger_is_what_cost_said_of_unequal_values() -> None:
    on = machine(9)
    sizes = [0, 3, 1, 7, 0, 2, 5, 1, 4]
    values = [np.arange(size) for size in sizes]
    assert_ledger_is(gossip.cost(on, sizes), lambda bsp: gossip(bsp, values[bsp.pid]), p=9, machine=on)
    cost = personalised_broadcast.cost(on, sizes, 4)
    assert_ledger_is(cost, lambda bsp: personalised_broadcast(bsp, values, 4), p=9, machine=on)


@pytest.mark.parametrize("p", [8, 27, 45, 64])
def test_what_is_sent_is_what_the_plan_says(p: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Destinations too, and so the locality, which no ledger counts."""
    sent: dict[tuple[int, int], list[tuple[int, int]]] = {}
    send = Stream.send

    def watched(stream: Stream, dest: int, payload: Any, note: Any = None) -> None:
        sent.setdefault((stream.superstep, stream.pid), []).append((dest, -(-np.asarray(payload).nbytes // 8)))
        send(stream, dest, payload, note)

    monkeypatch.setattr(Stream, "send", watched)
    root, words = p - 3, p // 2
    runs: list[tuple[Callable[..., Any], Plan, int]] = [
        (
            lambda bsp: tree_broadcast(bsp, np.arange(words), root, [3, 5, 5]),
            tree_broadcast.plan(p, [3, 5, 5], root),
            words,
        ),
        (lambda bsp: mesh_broadcast(bsp, np.arange(words), root), mesh_broadcast.plan(p, root=root), words),
        (
            lambda bsp: items_broadcast(bsp, np.arange(words), root, EBSPMachine.linear_array(p)),
            items_broadcast.plan(p, words, root=root),
            1,
        ),
        (lambda bsp: gossip(bsp, np.arange(words)), gossip.plan(p), words),
        (lambda bsp: personalised_broadcast(bsp, np.eye(p), root), personalised_broadcast.plan(p, root), p),
    ]
    for main, plan, size in runs:
        sent.clear()
        pybsp.simulate(main, p=p, machine=BSPMachine(p=p, g=1e-9, l=1.0, r=1e9))
        expected = {
            (number, pid): [(dest, (last - first) * size) for dest, first, last in step.sends(pid)]
            for number, step in enumerate(plan)
            for pid in range(p)
            if step.sends(pid)
        }
        assert sent == expected


@pytest.mark.whole
@pytest.mark.parametrize("p", [250, 1024])
def test_large_p(p: int) -> None:
    on = machine(p)
    value = np.arange(3 * p // 7)
    for primitive in (tree_broadcast, mesh_broadcast, items_broadcast):
        cost = primitive.cost(on, value.size, root=p // 3)
        results = assert_ledger_is(cost, functools.partial(primitive, root=p // 3), value, p=p, machine=on)
        assert all(np.array_equal(result, value) for result in results)


# -- one item, along a tree -----------------------------------------------------------------------------------------


def test_tree_broadcast_is_that_of_figure_2() -> None:
    first, second = tree_broadcast.plan(8, (4, 2))
    assert pairs(first) == {(0, 2), (0, 4), (0, 6)}
    assert pairs(second) == {(0, 1), (2, 3), (4, 5), (6, 7)}


@pytest.mark.parametrize("primitive", [tree_broadcast, mesh_broadcast])
def test_fan_outs_may_be_an_array(primitive: Any) -> None:
    machine, fan_outs = EBSPMachine.linear_array(6), np.array([2, 3])
    assert [*primitive.cost(machine, 5, fan_outs)] == [*primitive.cost(machine, 5, (2, 3))]
    assert pybsp.simulate(lambda bsp: primitive(bsp, 7, fan_outs=fan_outs), p=6).results == [7] * 6


@pytest.mark.parametrize("fan_outs", [(8,), (4, 2), (2, 4), (2, 2, 2), (5, 3, 7), (2, 1, 6, 1), (16, 16, 4)])
@pytest.mark.parametrize("words", [1, 3])
def test_tree_broadcast_makes_the_relations_of_the_paper(fan_outs: tuple[int, ...], words: int) -> None:
    p = math.prod(fan_outs)
    cost = tree_broadcast.cost(EBSPMachine.linear_array(p), words, fan_outs)
    used = [q for q in fan_outs if q > 1]
    expected = [
        (
            (math.prod(used[: i + 1]) - math.prod(used[:i])) * words,  # the paper's bound: q1 * ... * qi
            (q - 1) * words,
            words,
            (q - 1) * math.prod(used[i + 1 :]),  # the paper's bound: qi * ... * qd
        )
        for i, q in enumerate(used)
    ]
    assert relations(cost) == expected


@pytest.mark.parametrize("p", [5, 12, 30, 64, 100])
def test_no_message_leaves_its_group_whatever_the_root(p: int) -> None:
    fan_outs = trimmed(p, (3, 4, 10))
    for root in range(p):
        plan = tree_broadcast.plan(p, fan_outs, root)
        for step, (size, fan_out) in zip(plan, sizes(fan_outs), strict=True):
            assert np.array_equal(step.sources // (size * fan_out), step.destinations // (size * fan_out))


@pytest.mark.parametrize("p", [2, 3, 4, 7, 8, 27, 64, 100, 343, 512, 1000, 1024, 4096])
def test_on_a_linear_array_the_first_fan_out_is_p(p: int) -> None:
    cost = tree_broadcast.cost(EBSPMachine.linear_array(p))
    assert relations(cost) == [(p - 1, p - 1, 1, p - 1)]
    assert cost.seconds == 2 * p - 3


def sequences(p: int) -> Iterator[tuple[int, ...]]:
    """All fan-outs of at least 2 that p processors have a use for."""
    for d in range(1, p.bit_length() + 1):
        for fan_outs in itertools.product(range(2, p + 1), repeat=d):
            if math.prod(fan_outs) >= p > math.prod(fan_outs[1:]):
                yield fan_outs


@pytest.mark.parametrize("p", [2, 3, 5, 6, 8, 9, 12, 13])
@pytest.mark.parametrize("words", [1, 5])
def test_the_fan_outs_that_are_chosen_cost_least_of_all(p: int, words: int) -> None:
    machines: list[Machine] = [
        EBSPMachine.linear_array(p),
        EBSPMachine.mesh(p),
        EBSPMachine(p, 1.0, 0.2, 2.0),
        *map(machine, [p] * 3, range(3)),
    ]
    for on in machines:
        every = list(sequences(p))
        least = min(tree_broadcast.cost(on, words, fan_outs).seconds for fan_outs in every)
        assert tree_broadcast.cost(on, words).seconds == pytest.approx(least, rel=1e-12)
        least = min(mesh_broadcast.cost(on, words, fan_outs).seconds for fan_outs in every)
        assert mesh_broadcast.cost(on, words, "cheapest").seconds == pytest.approx(least, rel=1e-12)


# -- one item, on a mesh --------------------------------------------------------------------------------------------


def test_mesh_broadcast_is_that_of_the_paper() -> None:
    q = 3
    first, moved, second, moved_again, third = mesh_broadcast.plan(27)
    assert pairs(first) == {(0, 1), (0, 2)}
    assert pairs(moved) == {(i, i * 9) for i in range(1, q)}
    assert pairs(second) == {(i * 9, i * 9 + j) for i in range(q) for j in range(1, q)}
    assert pairs(moved_again) == {(i * 9 + j, i * 9 + j * 3) for i in range(q) for j in range(1, q)}
    assert pairs(third) == {(i * 3, i * 3 + j) for i in range(9) for j in range(1, q)}


@pytest.mark.parametrize("p", CUBES)
def test_mesh_broadcast_makes_five_supersteps(p: int) -> None:
    q = round(p ** (1 / 3))
    cost = mesh_broadcast.cost(EBSPMachine.mesh(p))
    assert relations(cost) == [
        (q - 1, q - 1, 1, q - 1),
        (q - 1, 1, 1, (q - 1) * (q * q - 1)),
        (q * (q - 1), q - 1, 1, q - 1),
        (q * (q - 1), 1, 1, (q - 1) * (q - 1)),
        (q * q * (q - 1), q - 1, 1, q - 1),
    ]


@pytest.mark.parametrize("p", [*range(1, 70), 100, 126, 500])
def test_mesh_broadcast_stays_in_its_groups_whatever_the_root(p: int) -> None:
    q = math.ceil(round(p ** (1 / 3), 9))
    for root in range(0, p, 1 + p // 30):
        plan = mesh_broadcast.plan(p, root=root)
        assert len(plan) <= 5
        heard = {root}
        for step in plan:
            assert {s for s, _ in pairs(step)} <= heard
            heard |= {d for _, d in pairs(step)}
            counts = step.counted()
            assert counts.h_in == 1
            assert counts.h_out == 1 or (counts.h_out < q and counts.locality < q)
        assert heard == set(range(p))


@pytest.mark.parametrize("p", [1000, 2197, 4096])
def test_on_a_large_mesh_three_fan_outs_of_the_cube_root_cost_least_of_all(p: int) -> None:
    on = EBSPMachine.mesh(p)
    assert mesh_broadcast.cost(on, 1, "cheapest").seconds == mesh_broadcast.cost(on).seconds


# -- many items -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [2, 4, 8, 16, 64])
@pytest.mark.parametrize("root", [0, 1])
def test_few_items_take_the_four_phases_of_the_paper(p: int, root: int) -> None:
    for n in (2**k for k in range(p.bit_length() - 1)):
        plan = items_broadcast.plan(p, n, root=root)
        each = p // n  # processors of a group
        heads = [root if root // each == i else i * each for i in range(n)]
        spread = {(root, head) for head in heads}
        within = {(head, i * each + j) for i, head in enumerate(heads) for j in range(each)}
        permuted = {(j, j % each * n + j // each) for j in range(p)}  # processor i gets D[i mod n]
        phases = [spread, within, permuted]
        phases += [{(j, j ^ (n >> (i + 1))) for j in range(p)} for i in range(n.bit_length() - 1)]
        phases = [{(s, d) for s, d in phase if s != d and d != root} for phase in phases]
        assert [pairs(step) for step in plan] == [phase for phase in phases if phase]
        # Superstep i of the butterfly moves 2^i items of each processor.
        butterfly = plan[len(plan) - (n.bit_length() - 1) :]
        for i, step in enumerate(butterfly):
            assert set((step.last - step.first).tolist()) == {2**i}
            assert step.counted().locality == n >> (i + 1)


@pytest.mark.parametrize("p", [2, 4, 8, 32, 256])
@pytest.mark.parametrize("each", [1, 3, 16])
def test_many_items_take_a_butterfly_alone(p: int, each: int) -> None:
    cost = items_broadcast.cost(EBSPMachine.mesh(p), each * p)
    first, *butterfly = relations(cost)
    n = each * p
    assert first == (n - each, n - each, each, p - 1)
    assert len(butterfly) == p.bit_length() - 1
    for i, (M, k1, k2, locality) in enumerate(butterfly):
        assert (k1, k2, locality) == (2**i * each, 2**i * each, p >> (i + 1))
        assert (p - 1) * 2**i * each == M  # nothing goes to the root, which has all


@pytest.mark.whole
@pytest.mark.parametrize("p", [*range(1, 40), 63, 65, 100, 127, 129])
def test_the_items_go_out_in_a_butterfly_of_any_size(p: int) -> None:
    for n in {*range(20), p // 2, p - 1, p, p + 1, 3 * p + 1}:
        packets = 1 << (max(1, min(n, p)).bit_length() - 1)
        most = -(-n // packets)
        plan = items_broadcast.plan(p, n, root=p // 2)
        has = np.zeros((p, n), bool)
        has[p // 2] = True
        levels = packets.bit_length() - 1
        for number, step in enumerate(plan):
            assert not np.any(step.destinations == p // 2)
            before = has.copy()
            for source, dest, items in step.messages():
                assert before[source, items].all()
                has[dest, items] = True
            i = number - (len(plan) - levels)
            if i >= 0:
                counts = step.counted()
                stride = packets >> (i + 1)
                whole = p % packets == 0
                assert counts.h_in <= 2**i * most
                assert counts.h_out <= 2**i * most * (1 if whole else 2)
                assert counts.locality <= (stride if whole else 2 * stride)
        assert has.all()


@pytest.mark.parametrize(("p", "n"), [(2, 1), (9, 1), (13, 2), (13, 3), (24, 4), (30, 5), (12, 12), (13, 40)])
def test_the_broadcast_within_groups_costs_least_of_all(p: int, n: int) -> None:
    groups = layout(p, n).groups
    every = list(sequences(int(groups.max()))) or [(1,)]
    for on in (EBSPMachine.linear_array(p), EBSPMachine.mesh(p), EBSPMachine(p, 1.0, 0.2, 2.0), machine(p)):
        costs = [items_broadcast.plan(p, n, q, moved).cost(on).seconds for q in every for moved in (False, True)]
        assert items_broadcast.cost(on, n).seconds == pytest.approx(min(costs), rel=1e-12)


# -- the theorems ---------------------------------------------------------------------------------------------------

SIZES = sorted({*POWERS, *CUBES, 3, 5, 7, 31, 33, 100, 1023, 1025, 3000, 4095})


@pytest.mark.parametrize("p", SIZES)
def test_one_item_takes_time_in_the_order_of_the_diameter(p: int) -> None:
    """O(P) on a linear array, with constant 2; O(sqrt(P)) on a mesh, with constant 8."""
    assert tree_broadcast.cost(EBSPMachine.linear_array(p)).seconds < 2 * p
    assert mesh_broadcast.cost(EBSPMachine.mesh(p)).seconds < 8 * math.sqrt(p)


@pytest.mark.parametrize("p", SIZES)
def test_the_bsp_tree_takes_log_p_times_as_long(p: int) -> None:
    """By a factor of at least log(P) / 2 on a linear array, and log(P) / 8 on a mesh."""
    array, mesh = EBSPMachine.linear_array(p), EBSPMachine.mesh(p)
    binary = broadcast.plan(p, 2)  # the best under the BSP model, where g = s
    assert binary.cost(array).seconds >= log(p) / 2 * tree_broadcast.cost(array).seconds
    assert binary.cost(array).seconds >= (p - 2) * log(p)
    assert binary.cost(mesh).seconds >= log(p) / 8 * mesh_broadcast.cost(mesh).seconds


def items(p: int) -> list[int]:
    """Numbers of items below, around and above p."""
    most = {1, 2, 3, p // 16, p - 1, p, 16 * p}
    if p <= 512:
        most |= {5, p // 5, p // 2, p // 2 + 1, p + 1, 2 * p, 3 * p + 1}
    return sorted(most - {0})


@pytest.mark.whole
@pytest.mark.parametrize("p", [p for p in SIZES if p <= 512 or p in (1000, 1023, 1024, 1025, 2048, 3000, 4095, 4096)])
def test_theorem_6(p: int) -> None:
    """Of N items: N < P: O(P log N) with constant 5, O(sqrt(NP)) with 9; N >= P: O(N log P) with 2.5, O(N) with 6.5.

    Where P and N are powers of two: 5, 8, 2 and 3.2.
    """
    array, mesh = EBSPMachine.linear_array(p), EBSPMachine.mesh(p)
    for n in items(p):
        even = p & (p - 1) == 0 and n & (n - 1) == 0
        on_array, on_mesh = items_broadcast.cost(array, n).seconds, items_broadcast.cost(mesh, n).seconds
        if n < p:
            assert on_array <= 5 * p * log(n)
            assert on_mesh <= (8 if even else 9) * math.sqrt(n * p)
        else:
            assert on_array <= (2 if even else 2.5) * n * log(p)
            assert on_mesh <= (3.2 if even else 6.5) * n


@pytest.mark.parametrize("p", [16, 64, 256, 1024])
def test_the_bsp_broadcast_of_many_items_takes_longer(p: int) -> None:
    """By N / log(N) on a linear array (N < P), and by sqrt(P) on a mesh (N >= P), with constants of 1/2 and 1/4."""
    array, mesh = EBSPMachine.linear_array(p), EBSPMachine.mesh(p)
    for n in (p // 8, p // 4, p // 2):
        bsp = plan_2d(p, n).cost(array).seconds
        assert bsp >= n / log(n) / 2 * items_broadcast.cost(array, n).seconds
    # What the BSP model charges: g = s = sqrt(P), two supersteps of h < N words each.
    charged = BSPMachine(p=p, g=math.sqrt(p), l=math.sqrt(p), r=1.0)
    for n in (p, 4 * p):
        assert plan_2d(p, n).cost(charged).seconds >= math.sqrt(p) / 4 * items_broadcast.cost(mesh, n).seconds


@pytest.mark.parametrize("p", [2, 3, 4, 7, 8, 27, 64, 125, 256, 1000, 1024])
def test_theorem_7(p: int) -> None:
    """Gossip of N items each: O(P (N + P)) and O(P (N + sqrt(P))), with constant 2; BSP has Theta(g P N)."""
    array, mesh = EBSPMachine.linear_array(p), EBSPMachine.mesh(p)
    for n in (1, p // 2, p, 4 * p):
        cost = gossip.cost(array, n)
        assert cost.supersteps == 2 * (p - 1)
        assert all(step.locality == 1 and step.h == n for step in cost)
        assert cost.seconds <= 2 * p * (n + p)
        assert gossip.cost(mesh, n).seconds <= 2 * p * (n + math.sqrt(p))


def test_gossip_moves_the_blocks_as_in_the_paper() -> None:
    p = 6
    plan = gossip.plan(p)
    for i in range(p - 1):
        assert plan[i].messages() == [(j, j + 1, range(j - i, j - i + 1)) for j in range(i, p - 1)]
        assert plan[p - 1 + i].messages() == [(j, j - 1, range(j + i, j + i + 1)) for j in range(1, p - i)]


@pytest.mark.parametrize("p", SIZES)
def test_personalised_broadcast_takes_order_p(p: int) -> None:
    """A (P - 1, P - 1, 1)-relation: 2P - 3 on a linear array, where the BSP model (g = s = P) charges P^2."""
    for network in NETWORKS:
        cost = personalised_broadcast.cost(network(p))
        assert relations(cost) == [(p - 1, p - 1, 1, p - 1)]
        assert cost.seconds <= 2 * p
    assert personalised_broadcast.cost(EBSPMachine.linear_array(p)).seconds == 2 * p - 3
    assert personalised_broadcast.cost(BSPMachine(p=p, g=p, l=p, r=1.0)).seconds == p * p


# -- bad input ------------------------------------------------------------------------------------------------------

BROADCASTS: list[Any] = [tree_broadcast, mesh_broadcast, items_broadcast]


@pytest.mark.parametrize("words", [-1, 0.5, None])
@pytest.mark.parametrize("primitive", [*BROADCASTS, gossip, personalised_broadcast])
def test_cost_refuses_words_that_are_none(primitive: Any, words: Any) -> None:
    with pytest.raises(pybsp.UsageError, match=f"{primitive.__name__}.cost: argument words"):
        primitive.cost(EBSPMachine.mesh(4), words)


@pytest.mark.parametrize("root", [-1, 4, "0"])
@pytest.mark.parametrize("primitive", [*BROADCASTS, personalised_broadcast])
def test_cost_refuses_a_root_that_is_no_processor(primitive: Any, root: Any) -> None:
    with pytest.raises(pybsp.UsageError, match=f"{primitive.__name__}.*: argument root"):
        primitive.cost(EBSPMachine.mesh(4), 1, root=root)
