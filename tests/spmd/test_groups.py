"""Groups and grids: collectives by the numbers of some processors, plain and started, on all groups at once."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any

import numpy as np
import pytest

import pybsp
from pybsp import collectives
from pybsp.collectives import ebsp
from pybsp.layouts import Block
from pybsp.rides.ride import Supersteps
from tests.conftest import Spmd, on_processors

from .programs import LONG, caught

Machine = pybsp.BSP | pybsp.Group


def last(_: Any, b: Any) -> Any:
    """An operator for which order matters."""
    return b


CALLS: dict[str, tuple[Any, Callable[[Machine], tuple[Any, ...]]]] = {
    "broadcast": (collectives.broadcast, lambda g: (np.arange(5.0) if g.pid == g.p - 1 else None, g.p - 1)),
    "broadcast of a number": (collectives.broadcast, lambda g: (2.5 if g.pid == 0 else None,)),
    "broadcast of an object": (collectives.broadcast, lambda g: ({"of": g.p} if g.pid == 0 else None,)),
    "broadcast of much": (collectives.broadcast, lambda g: (np.arange(LONG) if g.pid == 0 else None,)),
    "broadcast in trees": (collectives.broadcast, lambda g: ("text" if g.pid == 0 else None, 0, 2)),
    "broadcast of what all know": (
        collectives.broadcast,
        lambda g: (np.arange(3.0) if g.pid == 0 else None, 0, None, None, np.zeros(3)),
    ),
    "broadcast_items": (collectives.broadcast_items, lambda g: ([1, 2, 3] if g.pid == 0 else None,)),
    "reduce": (collectives.reduce, lambda g: (float(g.pid), np.add, g.p - 1)),
    "reduce of arrays": (collectives.reduce, lambda g: (np.full(7, g.pid), np.maximum, 0)),
    "allreduce": (collectives.allreduce, lambda g: (float(g.pid), np.add)),
    "allreduce of the last": (collectives.allreduce, lambda g: (float(g.pid), last)),
    "allreduce in order": (collectives.allreduce, lambda g: ([g.pid], operator.add)),
    "allreduce in trees": (collectives.allreduce, lambda g: (np.full(3, 1.5) * g.pid, np.add, 2)),
    "allreduce of much": (collectives.allreduce, lambda g: (np.arange(float(LONG)) * g.pid, np.add)),
    "prefix": (collectives.prefix, lambda g: (g.pid, operator.add)),
    "exclusive_prefix": (collectives.exclusive_prefix, lambda g: (str(g.pid), operator.add)),
    "prefix_2d": (collectives.prefix_2d, lambda g: (np.arange(6) + g.pid, np.add)),
    "segmented_prefix": (
        collectives.segmented_prefix,
        lambda g: (np.arange(4) + g.pid, np.array([g.pid == 1, False, True, False]), np.add),
    ),
    "scatter": (collectives.scatter, lambda g: (list(range(10, 10 + g.p)) if g.pid == 0 else None,)),
    "gather": (collectives.gather, lambda g: (g.pid, g.p - 1)),
    "allgather": (collectives.allgather, lambda g: ("x" * g.pid,)),
    "total_exchange": (collectives.total_exchange, lambda g: ([g.pid * 10 + q for q in range(g.p)],)),
    "gather_blocks": (collectives.gather_blocks, lambda g: (np.arange(g.pid + 1),)),
    "allgather_blocks": (collectives.allgather_blocks, lambda g: (np.arange(g.pid + 1),)),
    "scatter_blocks": (
        collectives.scatter_blocks,
        lambda g: (np.arange(3 * g.p), [3] * g.p) if g.pid == 0 else (None, None),
    ),
    "total_exchange_blocks": (
        collectives.total_exchange_blocks,
        lambda g: (np.arange(2 * g.p) + g.pid, [2] * g.p),
    ),
    "reduce_scatter": (collectives.reduce_scatter, lambda g: (np.arange(2 * g.p) + g.pid, np.add)),
    "sort": (collectives.sort, lambda g: (np.array([7 - g.pid, g.pid, 3]),)),
    "sort of one that is longer": (collectives.sort, lambda g: (np.arange(3000 if g.pid else 2) * (g.pid - 5) % 1009,)),
    "sort by samples": (collectives.sort, lambda g: (np.arange(8) * (g.pid - 5), None, "sample")),
    "argsort": (collectives.argsort, lambda g: (np.array([7 - g.pid, g.pid]),)),
    "balanced_sort": (collectives.balanced_sort, lambda g: (np.arange(g.pid + 2)[::-1],)),
    "sample_sort": (collectives.sample_sort, lambda g: (np.arange(9) * (5 - g.pid),)),
    "bitonic_sort": (collectives.bitonic_sort, lambda g: (np.array([5 - g.pid, g.pid]),)),
    "duplicate": (collectives.duplicate, lambda g: ([g.pid], [2])),
    "argmin": (collectives.argmin, lambda g: (np.array([5.0 - g.pid, 9.0]),)),
    "argmax": (collectives.argmax, lambda g: (np.array([5.0 - g.pid, 1.0]),)),
    "top_k": (collectives.top_k, lambda g: (np.arange(4) * g.pid, 3)),
    "unique": (collectives.unique, lambda g: (np.arange(g.pid, g.pid + 3), True, True)),
    "group_by": (collectives.group_by, lambda g: (np.arange(3), np.full(3, g.pid), np.add)),
    "histogram": (collectives.histogram, lambda g: (np.arange(4.0) + g.pid, 3)),
    "random_permutation": (collectives.random_permutation, lambda g: (7, 1)),
    "gossip": (ebsp.gossip, lambda g: (np.arange(2) + g.pid,)),
}


def plain(value: Any) -> Any:
    """A result that compares as a whole."""
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return value


def alone(name: str, p: int, checked: bool) -> tuple[list[Any], int]:
    """What a machine of that size has for a call: results by pid, and supersteps."""
    function, arguments = CALLS[name]
    simulation = pybsp.simulate(lambda bsp: plain(function(bsp, *arguments(bsp))), p=p, checked=checked)
    return simulation.results, len(simulation.ledger)


def halves(p: int) -> list[tuple[int, ...]]:
    """Groups of unequal sizes, of all processors, numbered downwards."""
    return [tuple(range(p - 1, p // 3 - 1, -1)), *([tuple(range(p // 3))] if p // 3 else [])]


@pytest.mark.parametrize("function", [collectives.allreduce, collectives.prefix])
def test_on_a_group_of_one_each_result_is_an_array_of_its_own(spmd: Spmd, function: Any) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        group = bsp.group([0] if bsp.pid == 0 else range(1, bsp.p))
        value = np.ones(3)
        for _ in range(3):
            result = function(group, value, np.add)
            result[:] = -1.0
        return value.tolist()

    assert spmd(main) == [[1.0] * 3] * spmd.p


@pytest.mark.parametrize("name", CALLS)
def test_on_groups_of_unequal_sizes_a_collective_gives_what_machines_of_their_sizes_have(spmd: Spmd, name: str) -> None:
    function, arguments = CALLS[name]
    groups = halves(spmd.p)

    def main(bsp: pybsp.BSP) -> Any:
        group = bsp.group(next(members for members in groups if bsp.pid in members))
        bsp.send(bsp.pid, "pending")
        found = plain(function(group, *arguments(group)))
        supersteps = len(bsp.ledger)
        bsp.sync()
        assert [message.payload for message in bsp.inbox] == ["pending"]
        return found, supersteps

    results = spmd(main)
    of_groups = [alone(name, len(members), spmd.checked) for members in groups]
    for members, (expected, _) in zip(groups, of_groups, strict=True):
        assert [results[pid][0] for pid in members] == expected
    longest = max(supersteps for _, supersteps in of_groups)
    assert {supersteps for _, supersteps in results} == {max(longest, int(spmd.p > 1))}


@pytest.mark.parametrize("name", CALLS)
def test_started_on_groups_it_rides_beside_the_programs_messages(spmd: Spmd, name: str) -> None:
    function, arguments = CALLS[name]
    groups = halves(spmd.p)

    def main(bsp: pybsp.BSP) -> Any:
        group = bsp.group(next(members for members in groups if bsp.pid in members))
        beside = collectives.allreduce.start(bsp, bsp.pid, np.add)
        ticket = function.start(group, *arguments(group))
        group.send(0, group.pid, "own")
        bsp.sync()
        assert [(tag, group.members.index(source)) for source, tag, _ in bsp.inbox] == (
            [] if group.pid else [("own", group.members.index(pid)) for pid in sorted(group.members)]
        )
        found = plain(ticket.finish())
        assert int(beside.finish()) == sum(range(bsp.p))
        return found, plain(ticket.value)

    results = spmd(main)
    for members in groups:
        expected, _ = alone(name, len(members), spmd.checked)
        assert [results[pid] for pid in members] == [(one, one) for one in expected]


def shapes(p: int) -> list[tuple[int, int]]:
    return [(rows, p // rows) for rows in range(1, p + 1) if p % rows == 0]


def test_rows_and_columns_are_used_side_by_side(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        found = []
        for rows, columns in shapes(bsp.p):
            grid = bsp.grid(rows, columns)
            i, j = grid.column.pid, grid.row.pid
            assert (grid.rows, grid.columns, grid.row.p, grid.column.p) == (rows, columns, columns, rows)
            assert grid.at(i, j) == bsp.pid
            down = collectives.broadcast.start(grid.column, (i, j), root=rows - 1)
            across = collectives.broadcast(grid.row, (i, j), root=columns - 1)
            for k in range(5):
                total = collectives.allreduce(grid.row, float(j + k), np.add)
                best = collectives.allreduce(grid.column, np.array([i + k, -i]), np.maximum)
                assert (total, best.tolist()) == (sum(range(k, k + columns)), [rows - 1 + k, 0])
            assert down.finish() == (rows - 1, j)
            assert across == (i, columns - 1)
            found.append((i, j))
        return found

    for pid, found in enumerate(spmd(main)):
        assert found == [divmod(pid, columns) for _, columns in shapes(spmd.p)]


def test_columns_of_one_processor_each_take_no_superstep(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        grid = bsp.grid(1, bsp.p)
        x = np.ones(2)
        found = [
            collectives.broadcast(grid.column, x),
            collectives.allreduce(grid.column, x, np.add),
            collectives.allreduce.start(grid.column, x, np.add).finish(),
            collectives.gather(grid.column, 1.0),
        ]
        return plain(found), found[1] is x, len(bsp.ledger)

    assert spmd(main) == [([[1.0, 1.0], [1.0, 1.0], [1.0, 1.0], [1.0]], False, 0)] * spmd.p


def test_neighbourhoods_overlap(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        p, pid = bsp.p, bsp.pid
        # Of each processor with those beside it on a line: one at an end is in fewer of them.
        around = {
            q: bsp.group([r for r in (q + 1, q, q - 1) if 0 <= r < p]) for q in (pid - 1, pid, pid + 1) if 0 <= q < p
        }
        first = {q: collectives.allreduce.start(group, pid, operator.add) for q, group in around.items()}
        bsp.sync()
        # Each in an order of its own.
        second = {q: collectives.gather.start(around[q], pid) for q in sorted(around, key=lambda q: (q + pid) % 3)}
        gathered = {q: ticket.finish() for q, ticket in second.items()}
        return {q: ticket.value for q, ticket in first.items()}, gathered[pid], gathered

    p = spmd.p
    results = spmd(main)
    for pid, (sums, _, gathered) in enumerate(results):
        members = {q: [r for r in (q + 1, q, q - 1) if 0 <= r < p] for q in range(p)}
        assert sums == {q: sum(members[q]) for q in (pid - 1, pid, pid + 1) if 0 <= q < p}
        assert gathered == {q: members[q] if members[q][0] == pid else None for q in sums}


def test_groups_call_different_functions_and_wait_for_the_longest(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        members = [pid for pid in range(bsp.p) if (pid < 2) == (bsp.pid < 2)]
        if bsp.pid == 2:
            members = [2]
        elif bsp.pid > 2:
            members.remove(2)
        group = bsp.group(members)
        counts = []
        for k in range(4):
            before = len(bsp.ledger)
            if bsp.pid < 2:
                found: Any = collectives.allreduce(group, k, operator.add)
            elif bsp.pid == 2:
                found = collectives.broadcast(group, k)
            else:
                found = collectives.broadcast(
                    group, np.full(LONG * (k % 2) + 1, k) if group.pid == 0 else None, degree=2
                )
                found = (len(found), int(found[-1]))
            counts.append(len(bsp.ledger) - before)
        return found, counts

    p = spmd.p
    results = spmd(main)
    height = max(p - 3 - 1, 0).bit_length() if p > 3 else 0
    for pid, (found, counts) in enumerate(results):
        assert found == (3 * min(p, 2) if pid < 2 else 3 if pid == 2 else (LONG + 1, 3))
        assert counts == [max(height, int(p > 1))] * 4


OF_ONE_SUPERSTEP: dict[str, Callable[[Machine, float], Any]] = {
    "allreduce": lambda g, x: collectives.allreduce(g, x, np.add),
    "of an array": lambda g, x: collectives.allreduce(g, np.full(3, x), np.add).tolist(),
    "in a fixed order": lambda g, x: collectives.allreduce(
        g, np.full(2, x), lambda a, b: a + b, order="fixed"
    ).tolist(),
    "reduce": lambda g, x: collectives.reduce(g, x, np.add, root=1),
    "prefix": lambda g, x: collectives.prefix(g, x, np.add),
    "broadcast": lambda g, x: collectives.broadcast(g, x, root=1),
    "allgather": lambda g, x: collectives.allgather(g, x),
    "of arrays": lambda g, x: plain(collectives.allgather(g, np.full(3, x))),
    "of objects": lambda g, x: collectives.gather(g, str(x), root=1),
    "exchange": lambda g, x: plain(collectives.total_exchange(g, [np.full(q + 1, x) for q in range(g.p)])),
    "of blocks": lambda g, x: plain(collectives.allgather_blocks(g, np.full(g.pid + 1, x))),
    "of pairs": lambda g, x: collectives.allreduce(g, (x, g.pid), max),
    "of long arrays": lambda g, x: collectives.allreduce(g, np.full(LONG, x), np.add)[::LONG].tolist(),
    "prefix of pairs": lambda g, x: collectives.prefix(g, (x,), lambda a, b: a + b),
    "exclusive": lambda g, x: float(collectives.exclusive_prefix(g, x, np.add)),
    "by blocks": lambda g, x: collectives.reduce_scatter(g, np.full(5, x), np.add).tolist(),
    "by long blocks": lambda g, x: collectives.reduce_scatter(g, np.full(2 * LONG, x), np.add)[::LONG].tolist(),
    "argmax": lambda g, x: tuple(map(float, collectives.argmax(g, np.full(g.pid + 1, x)))),
    "argmin": lambda g, x: tuple(map(float, collectives.argmin(g, np.full(g.pid + 1, x)))),
    "top_k": lambda g, x: collectives.top_k(g, np.full(2, x), 3).tolist(),
    "segments": lambda g, x: collectives.segmented_prefix(g, np.full(3, x), np.arange(3) == 1, np.add).tolist(),
}


LONGER: dict[str, Callable[[Machine], Any]] = {
    "sort": lambda g: collectives.sort(g, np.arange(3.0), algorithm="sample"),
    "argsort": lambda g: collectives.argsort(g, np.arange(3.0)),
    "unique": lambda g: collectives.unique(g, np.arange(3.0)),
    "group_by": lambda g: collectives.group_by(g, np.arange(3), np.arange(3), np.add),
    "random_permutation": lambda g: collectives.random_permutation(g, 7, 1),
}


@pytest.mark.parametrize("beside", LONGER)
def test_a_group_has_read_all_before_it_waits_for_others_that_take_longer(spmd: Spmd, beside: str) -> None:
    """Its next call writes over what the one before has shown."""
    if spmd.p < 4:
        return
    sums = [200.0 * k + 1 for k in range(8)]

    def main(bsp: pybsp.BSP) -> Any:
        group = bsp.group([pid for pid in range(bsp.p) if (pid < 2) == (bsp.pid < 2)])
        found = []
        for name, call in OF_ONE_SUPERSTEP.items():
            for k in range(8):
                if bsp.pid < 2:
                    found.append((name, call(group, 100.0 * k + bsp.pid)))
                else:
                    LONGER[beside](group)
        return found, [record.work for record in bsp.ledger]

    results = spmd(main)
    by_call = pybsp.simulate(main, p=spmd.p, machine=pybsp.BSPMachine.nominal(spmd.p)).results
    assert [found for found, _ in results] == [found for found, _ in by_call]
    assert [one for name, one in results[1][0] if name in ("allreduce", "reduce", "prefix")] == sums * 3
    assert [one for name, one in results[1][0] if name == "of an array"] == [[one] * 3 for one in sums]
    assert len({tuple(work) for _, work in results}) == 1
    assert results[0][1] == by_call[0][1]


def passing(bsp: pybsp.BSP) -> Supersteps[None]:
    """Six supersteps, in which each sends something to the next one."""
    stream = bsp.stream("passing")
    for _ in range(6):
        stream.send((bsp.pid + 1) % bsp.p, np.full(500, -1.0))
        yield


OF_ALL: dict[str, Callable[[Machine, int], Any]] = {
    "of a number": lambda g, k: collectives.allgather(g, g.pid + k),
    "of arrays": lambda g, k: collectives.allgather(g, np.full(300, g.pid + k)),
    "of unlike arrays": lambda g, k: collectives.allgather(g, np.full(300 + g.pid, k)),
    "of objects": lambda g, k: collectives.gather(g, {k: np.arange(5)}, root=1),
    "one for each": lambda g, k: collectives.total_exchange(g, [np.full(100 * q + 1, k + g.pid) for q in range(g.p)]),
    "of one that has no room": lambda g, k: collectives.allgather(g, np.full(LONG if g.pid else 3, k)),
    "for one that has no room": lambda g, k: collectives.total_exchange(g, [k, np.full(LONG + 1, k)]),
    "of blocks": lambda g, k: collectives.allgather_blocks(g, np.full((g.pid + 1, 3), k)),
    "at one": lambda g, k: collectives.gather_blocks(g, np.full(70, k + g.pid), root=1),
    "from one": lambda g, k: collectives.scatter(g, [k, np.arange(k)] if g.pid == 0 else None),
}


@pytest.mark.parametrize("name", OF_ALL)
def test_what_a_group_has_read_stays_while_other_groups_and_what_was_started_go_on(spmd: Spmd, name: str) -> None:
    """Some of it is shown, and some sent; and what goes out later lies where records did."""

    def main(bsp: pybsp.BSP) -> Any:
        groups = [(1, 0), tuple(range(2, bsp.p))] if bsp.p > 3 else [(pid,) for pid in range(bsp.p)]
        group = bsp.group(next(members for members in groups if bsp.pid in members))
        found = []
        for k in range(4):
            tickets = [bsp.ride("passing", passing(bsp))] if k % 2 else []
            if group.p == 2 and group.members == (1, 0):
                found.append(plain(OF_ALL[name](group, k)))
            else:
                LONGER["argsort"](group)
            for ticket in tickets:
                ticket.finish()
        rows = [(one.h_out, one.h_in, one.messages, one.work) for one in bsp.ledger]
        return sha256(repr((found, rows)).encode()).hexdigest(), found if name == "of arrays" else None

    results = spmd(main)
    assert results == pybsp.simulate(main, p=spmd.p, checked=spmd.checked).results
    if spmd.p > 3 and name == "of arrays":
        assert results[0][1] == [[[k] * 300, [k + 1] * 300] for k in range(4)]


def test_the_ledger_is_the_cost_of_all_groups_together(spmd: Spmd) -> None:
    groups = halves(spmd.p)

    def main(bsp: pybsp.BSP) -> Any:
        group = bsp.group(next(members for members in groups if bsp.pid in members))
        collectives.allreduce(group, np.ones(10 * group.p), np.add, degree=2)
        plans = [
            (collectives.allreduce.plan(len(members), degree=2).among(members, bsp.p), 10 * len(members))
            for members in groups
        ]
        bsp.sync()
        return list(bsp.ledger), collectives.together(bsp.machine, *plans)

    for ledger, cost in spmd(main):
        steps = list(cost)
        assert len(ledger) == (len(steps) + 1 if spmd.p > 1 else 1)
        for record, step in zip(ledger, steps, strict=False):
            counted = (record.h_out, record.h_in, record.messages, record.M, record.work)
            assert counted == (step.h_out, step.h_in, step.messages, step.M, step.w)
        assert ledger[-1].work == cost.after


def thirds(p: int) -> list[tuple[int, ...]]:
    """Groups of unequal sizes, of all processors: the first has one."""
    return [members for members in ((0,), tuple(range(1, p // 2 + 1)), tuple(range(p // 2 + 1, p))) if members]


PLAIN: dict[str, Callable[[Machine], Any]] = {
    "small": lambda g: collectives.allreduce(g, float(g.pid), np.add),
    "of an array": lambda g: collectives.broadcast(g, np.arange(20.0) + g.p if g.pid == 0 else None),
    "of much": lambda g: collectives.broadcast(g, np.arange(LONG) + g.p if g.pid == 0 else None),
    "in trees": lambda g: collectives.prefix(g, np.full(3, g.pid), np.add, degree=2),
    "of blocks": lambda g: collectives.allgather_blocks(g, np.arange(g.pid + 1)),
}
# Beside each other: what the groups of `thirds` call.
BESIDE = [*([name] * 3 for name in PLAIN), ["small", "of much", "in trees"], ["in trees", "small", "of an array"]]


@pytest.mark.parametrize("names", BESIDE, ids=" | ".join)
def test_what_was_started_goes_on_while_plain_calls_on_groups_run(spmd: Spmd, names: list[str]) -> None:
    p, groups = spmd.p, thirds(spmd.p)
    height = max(p - 1, 0).bit_length()

    def main(bsp: pybsp.BSP, alone: bool = False) -> Any:
        which = next(k for k, members in enumerate(groups) if bsp.pid in members)
        group, call = bsp.group(groups[which]), PLAIN[names[which]]
        before = plain(call(group)), len(bsp.ledger)
        bsp.send(0, bsp.pid)  # waits for the program's own sync
        # On the machine; on one of the groups alone; and on neighbourhoods, of which processors are in one or two.
        everywhere = collectives.allreduce.start(bsp, np.full(2, bsp.pid), np.add, degree=2)
        here = collectives.allgather.start(group, bsp.pid) if which == len(groups) - 1 else None
        pairs = [bsp.group([q, q + 1]) for q in (bsp.pid - 1, bsp.pid) if q >= 0 and q + 1 < p]
        sums = [collectives.allreduce.start(pair, float(bsp.pid), np.add) for pair in pairs]
        found, lengths = [], []
        for _ in range(height + 1):
            found.append(plain(call(group)))
            lengths.append(len(bsp.ledger))
        assert everywhere.done
        assert here is None or here.done
        assert all(one.done for one in sums)
        # Ended after what began later: as soon as nothing of it is left, `finish` needs one superstep to learn so.
        late = collectives.allreduce.start(group, 1, operator.add, degree=2)
        found.append(plain(call(group)))
        assert late.finish() == group.p
        assert here is None or here.finish() == list(group.members)
        assert [one.finish() for one in sums] == [sum(pair.members) for pair in pairs]
        assert everywhere.finish().tolist() == [sum(range(p))] * 2
        pending = bsp.pending
        bsp.sync()
        assert [message.payload for message in bsp.inbox] == ([] if bsp.pid else list(range(p)))
        return before, found, lengths, pending

    results = spmd(main)
    (_, took), _, lengths, _ = results[0]
    assert lengths == [took * (k + 2) for k in range(height + 1)]  # they ride in supersteps that there are anyway
    for before, found, *others in results:
        assert found == [before[0]] * (height + 2)
        assert (before[1], *others) == (took, lengths, "bsp.send")


def test_what_only_some_groups_have_started_rides_beside_calls_on_the_machine(spmd: Spmd) -> None:
    values: list[Any] = [1.5, np.arange(4.0), np.zeros(LONG)]

    def main(bsp: pybsp.BSP) -> Any:
        last = bsp.pid == bsp.p - 1
        group = bsp.group([bsp.pid] if last else range(bsp.p - 1))
        found = []
        for value in values:
            tickets = [] if last else [collectives.allgather.start(group, bsp.pid)]
            sums = plain(collectives.allreduce(bsp, value, np.add))
            tickets += [] if last else [collectives.broadcast.start(group, "text" * group.p, degree=2)]
            passed = collectives.total_exchange(bsp, [(bsp.pid, dest) for dest in range(bsp.p)])
            given = plain(collectives.broadcast(bsp, value if last else None, bsp.p - 1))
            for _ in range(bsp.p):
                bsp.sync()
            found.append((sums, passed, given, [plain(ticket.value) for ticket in tickets]))
        return found, len(bsp.ledger)

    p = spmd.p
    results = spmd(main)
    for pid, (found, supersteps) in enumerate(results):
        of_group = [] if pid == p - 1 else [list(range(p - 1)), "text" * (p - 1)]
        passed = [(source, pid) for source in range(p)]
        assert found == [(plain(p * value), passed, plain(value), of_group) for value in values]
        assert supersteps == results[0][1]


def test_the_ledger_is_the_cost_of_what_was_started_and_of_plain_calls_together(spmd: Spmd) -> None:
    groups = halves(spmd.p)

    def main(bsp: pybsp.BSP) -> Any:
        group = bsp.group(next(members for members in groups if bsp.pid in members))
        bsp.ledger  # noqa: B018 - all combine it
        beside = collectives.allreduce.start(bsp, np.ones(7), np.add, degree=2)
        collectives.allreduce(group, np.ones(10 * group.p), np.add, degree=2)
        while not beside.done:
            bsp.sync()
        bsp.sync()
        plans = [
            (collectives.allreduce.plan(len(members), degree=2).among(members, bsp.p), 10.0 * len(members))
            for members in groups
        ]
        cost = collectives.together(bsp.machine, (collectives.allreduce.plan(bsp.p, degree=2), 7), *plans)
        return list(bsp.ledger), cost, bsp.ledger.riding

    for ledger, cost, rode in spmd(main):
        steps = list(cost)
        assert len(ledger) == len(steps) + 1
        for record, step in zip(ledger, steps, strict=False):
            counted = (record.h_out, record.h_in, record.messages, record.M, record.work)
            assert counted == (step.h_out, step.h_in, step.messages, step.M, step.w)
        assert ledger[-1].work == cost.after
        after = len(collectives.allreduce.plan(len(groups[0]), degree=2))
        assert sorted(rode) == list(range(after, len(steps)))  # in the plain call's, all is allreduce


def test_the_ledger_says_what_rode_beside_plain_calls_on_groups(spmd: Spmd) -> None:
    groups = thirds(spmd.p)

    def main(bsp: pybsp.BSP) -> Any:
        members = next(members for members in groups if bsp.pid in members)
        group = bsp.group(members)
        ticket = collectives.allgather.start(group, bsp.pid) if members == groups[-1] else None
        for _ in range(2):
            collectives.allreduce(group, float(bsp.pid), np.add, degree=spmd.p + 1)
        assert ticket is None or ticket.done
        return bsp.ledger.riding

    sums, gathered = (sum(len(one) * (len(one) - 1) for one in some) for some in (groups, groups[-1:]))
    words = {name: count for name, count in (("allgather", gathered), ("allreduce", sums)) if count}
    assert spmd(main) == [{0: words} if gathered else {}] * spmd.p


def test_the_ledger_says_what_rode_beside_a_group_whose_others_see_nothing_of_it(spmd: Spmd) -> None:
    p = spmd.p

    def main(bsp: pybsp.BSP) -> Any:
        if bsp.pid < 2:
            ticket = collectives.allgather.start(bsp.group(range(min(2, bsp.p))), bsp.pid)
        else:
            bsp.group([bsp.pid])
        collectives.allreduce(bsp, 1.0, np.add, degree=bsp.p + 1)
        assert bsp.pid > 1 or ticket.done
        return bsp.ledger.riding

    words = {"allgather": 2, "allreduce": p * (p - 1)}
    assert spmd(main) == [{0: words} if p > 1 else {}] * p


def misuse(bsp: pybsp.BSP, how: str) -> None:
    row = bsp.grid(1, bsp.p).row
    last = bsp.pid == bsp.p - 1
    if how == "another primitive":
        (collectives.reduce if last else collectives.allreduce)(row, 1.0, np.add)
    elif how == "another order":
        for primitive in (collectives.reduce, collectives.allreduce)[:: -1 if last else 1]:
            primitive(row, 1.0, np.add)
    elif how == "another shape":
        collectives.allreduce(row, np.zeros(3 if last else 2), np.add)
    elif how == "another root":
        collectives.broadcast(row, "x", root=int(last))
    elif how == "a much longer array":
        collectives.allreduce(row, np.zeros(100_000 if last else 2), np.add)
    elif how == "other members":
        collectives.allreduce(bsp.group(range(bsp.p - 1, -1, -1)) if last else row, 1.0, np.add)
    elif how == "one on the machine":
        collectives.allreduce(bsp if last else row, 1.0, np.add)
    elif how == "one syncs":
        if last:
            bsp.sync()
        else:
            collectives.allreduce(row, 1.0, np.add)
    elif how == "one on another group":
        collectives.broadcast(bsp.group([bsp.pid]) if last else row, 1.0)
    elif how == "one ends":
        if last:
            return
        collectives.allgather(row, 1.0)
    else:
        assert how == "started in another order"
        starts = [collectives.allreduce.start, collectives.prefix.start]
        tickets = [start(row, 1.0, np.add) for start in starts[:: -1 if last else 1]]
        bsp.sync()
        assert not tickets
    for _ in range(2):
        bsp.sync()


MISUSES: dict[str, Sequence[str]] = {
    "another primitive": ("allreduce", "reduce"),
    "another order": ("allreduce", "reduce"),
    "another shape": ("allreduce: argument value: expected the same on all processors of the group of processors 0",),
    "another root": ("broadcast: argument root: expected the same on all processors of the group of processors 0",),
    "a much longer array": ("allreduce: argument value: expected the same",),
    "other members": ("on the group of processors", "allreduce"),
    "one on the machine": ("allreduce", "group"),
    "one syncs": ("allreduce", "bsp.sync()"),
    "one on another group": ("broadcast", "on the group of processor"),
    "one ends": ("allgather", "ended"),
    "started in another order": ("allreduce", "prefix"),
}


@pytest.mark.parametrize("how", MISUSES)
def test_a_mismatch_in_a_group_is_an_error_on_all(spmd: Spmd, how: str) -> None:
    if spmd.p == 1:
        pytest.skip("one processor agrees with itself")
    errors = spmd.errors(misuse, how) if spmd.mpi else spmd.errors(lambda bsp, *_: misuse(bsp, how))
    assert all(isinstance(error, pybsp.BSPError) for error in errors)
    for part in MISUSES[how]:
        assert all(part in str(error) for error in errors)


def test_a_plain_call_on_groups_that_overlap_is_told_to_be_started(spmd: Spmd) -> None:
    if spmd.p < 3:
        pytest.skip("all groups are one")

    def main(bsp: pybsp.BSP) -> None:
        collectives.allreduce(bsp.group([bsp.pid, (bsp.pid + 1) % bsp.p]), bsp.pid, np.add)

    for error in spmd.errors(main):
        assert "where groups overlap, start it on each: allreduce.start(group, ...)" in str(error)


def test_a_mismatch_in_one_of_several_groups_is_an_error_on_all(spmd: Spmd) -> None:
    if spmd.p < 3:
        pytest.skip("there is one group of two")

    def main(bsp: pybsp.BSP) -> None:
        group = bsp.group([0, 1] if bsp.pid < 2 else [bsp.pid])
        collectives.allreduce(group, np.zeros(2), np.add)
        collectives.allreduce(group, np.zeros(3 if bsp.pid == 1 else 2), np.add)
        collectives.allreduce(group, np.zeros(2), np.add)
        bsp.sync()

    for error in spmd.errors(main):
        assert isinstance(error, pybsp.BSPError)
        assert "allreduce: argument value: expected the same on all processors of the group of processors 0-1" in str(
            error
        )


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            lambda g: collectives.sample_sort(g, np.arange(4).astype("U1" if g.pid else "i8")),
            "int64 on processor {last} and <U1 on processor {before}",
        ),
        (
            lambda g: collectives.sample_sort(g, np.arange(4), np.zeros((4, 2 if g.pid else 1))),
            "(1,) on processor {last} and (2,) on processor {before}",
        ),
        (
            lambda g: collectives.duplicate(g, np.zeros(1, "f4" if g.pid else "f8"), [1]),
            "of float64, items of shape (), on processor {last} and",
        ),
        (lambda g: collectives.scatter_blocks(g, root=0), "on the root, processor {last}, got None"),
        (
            lambda g: collectives.allreduce(g, g.pid, lambda a, b: a / 0),
            "op: raised ZeroDivisionError: division by zero",
        ),
    ],
    ids=["keys", "values", "items", "root", "op"],
)
def test_an_error_names_processors_by_their_pids_not_by_the_groups_numbers(
    spmd: Spmd, call: Callable[[Machine], Any], says: str
) -> None:
    if spmd.p == 1:
        pytest.skip("its number is its pid")
    last = spmd.p - 1
    errors = spmd.errors(lambda bsp: call(bsp.group(range(last, -1, -1))))
    texts = [str(error) for error in errors if type(error) is pybsp.UsageError]
    assert texts
    assert all(says.format(last=last, before=last - 1) in text for text in texts), texts
    assert not any("(on processor" in text for text in texts)


NUMBERS: dict[str, Callable[[pybsp.BSP, Any], Any]] = {
    "group.send: argument dest: expected a number of the group from 0 to": lambda bsp, n: bsp.grid(1, bsp.p).row.send(
        n, 1
    ),
    "bsp.grid: argument rows: expected a whole number of at least 1": lambda bsp, n: bsp.grid(n, bsp.p),
    "bsp.grid: argument columns: expected a whole number of at least 1": lambda bsp, n: bsp.grid(bsp.p, n),
    "grid.at: argument i: expected a whole number from 0 to 0": lambda bsp, n: bsp.grid(1, bsp.p).at(n, 0),
    "grid.at: argument j: expected a whole number from 0 to": lambda bsp, n: bsp.grid(1, bsp.p).at(0, n),
    "bsp.group: argument members: expected pids": lambda bsp, n: bsp.group([bsp.pid, n]),
    "layout.part: argument pid: expected a processor, 0 or more": lambda bsp, n: Block(7, bsp.p).part(n),
    "layout.local_shape: argument pid: expected a processor, 0 or more": lambda bsp, n: Block(7, bsp.p).local_shape(n),
    "layout.beside: argument pid: expected a processor, 0 or more": lambda bsp, n: Block(7, bsp.p).beside(n),
}


@on_processors
def test_what_is_no_whole_number_is_no_processor_and_no_size(bsp: pybsp.BSP) -> None:
    for text, call in NUMBERS.items():
        for wrong in ("1", 1.0, None):
            with pytest.raises(pybsp.UsageError, match=f"^{text}.*, got .*{wrong!r}"):
                call(bsp, wrong)


@on_processors
def test_a_group_refuses_what_cannot_be_pickled_by_the_name_of_its_own_call(bsp: pybsp.BSP) -> None:
    group = bsp.grid(1, bsp.p).row
    for argument, message in ("payload", (lambda: 3,)), ("tag", (3, lambda: 3)):
        with pytest.raises(pybsp.UsageError, match=f"^group.send: argument {argument}: expected something that can be"):
            group.send(0, *message)
    bsp.sync()
    assert not bsp.inbox


def test_what_makes_no_group_and_no_grid_names_the_argument(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        p, pid = bsp.p, bsp.pid
        group = bsp.group([pid])
        return [
            caught(bsp.grid, p + 1, 1),
            caught(bsp.grid, 0, p),
            caught(bsp.grid, p, 1.0),
            caught(bsp.group, [pid, p]),
            caught(bsp.group, [pid, -1]),
            caught(bsp.group, [pid, pid]),
            caught(bsp.group, [q for q in range(p) if q != pid]),
            caught(bsp.group, 3),
            caught(bsp.group, [True, 0]),
            caught(group.send, 1, "x"),
            caught(bsp.grid(1, p).at, 1, 0),
            caught(collectives.broadcast, group, 1, 1),
        ]

    for pid, errors in enumerate(spmd(main)):
        assert {error.kind for error in errors} == {pybsp.UsageError}
        parts = [
            f"bsp.grid: arguments rows and columns: expected rows * columns = p = {spmd.p}, got {spmd.p + 1} * 1",
            "bsp.grid: argument rows: expected a whole number of at least 1, got 0",
            "bsp.grid: argument columns: expected a whole number of at least 1, got 1.0",
            f"bsp.group: argument members: expected processors from 0 to {spmd.p - 1}, got {spmd.p} among",
            f"bsp.group: argument members: expected processors from 0 to {spmd.p - 1}, got -1 among",
            f"bsp.group: argument members: expected each processor once, got {pid} twice",
            f"bsp.group: argument members: expected this processor, {pid}, among them",
            "bsp.group: argument members: expected pids",
            "bsp.group: argument members: expected pids",
            "group.send: argument dest: expected a number of the group from 0 to 0, got 1",
            "grid.at: argument i: expected a whole number from 0 to 0, got 1",
            f"broadcast: argument root: expected a number of the group from 0 to 0, got 1; its processors are {pid}",
        ]
        for error, part in zip(errors, parts, strict=True):
            assert error.text.startswith(part), error.text


def test_nothing_rides_where_groups_call_several_primitives(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        group = bsp.group(range(bsp.pid % 2, bsp.p, 2))
        (collectives.prefix, collectives.allreduce)[bsp.pid % 2](group, 1.0, np.add)
        bsp.sync()
        return bsp.ledger.riding

    assert spmd(main) == [{}] * spmd.p


def test_what_a_group_combines_is_work_before_it_waits_for_other_groups(spmd: Spmd) -> None:
    """So the seconds of an op, and its flop, are in the superstep after the values came, on all media."""
    cut = min(2, spmd.p)

    def main(bsp: pybsp.BSP) -> Any:
        first = bsp.pid < cut
        group = bsp.group(range(cut) if first else range(cut, bsp.p))
        before = len(bsp.ledger)
        if first:
            value = collectives.allreduce(group, 5.0, np.add)
        else:
            value = collectives.broadcast(group, 3.0 if group.pid == 0 else None, degree=2)
        bsp.sync()
        return float(value), [(record.work, record.h) for record in bsp.ledger[before:]]

    found = spmd(main)
    assert [value for value, _ in found] == [5.0 * cut] * cut + [3.0] * (spmd.p - cut)
    works = [work for work, _ in found[0][1]]
    # One superstep of the sum; where there are more, it is over, and its flop are the next one's.
    assert works == ([0.0] if cut == 1 else [0.0, 1.0] + [0.0] * (len(works) - 2)), works
    assert all(rows == found[0][1] for _, rows in found)


def test_a_number_that_has_no_room_on_a_board_goes_on_a_group(spmd: Spmd) -> None:
    long = 1 << 1_200_000

    def main(bsp: pybsp.BSP) -> Any:
        group = bsp.group(range(bsp.pid % 2, bsp.p, 2))
        started = collectives.allreduce.start(group, long, operator.add).finish()
        # One of a pair has a short one.
        mixed = collectives.allreduce(group, long if group.pid else 1, operator.add)
        found = started, collectives.allreduce(group, long, operator.add), mixed
        return found == (group.p * long, group.p * long, (group.p - 1) * long + 1)

    assert all(spmd(main))
