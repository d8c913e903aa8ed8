"""Patterns of arrays and queues: what they bring, combine and cost, in which order, and what they refuse."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pybsp
from pybsp.arrays.pattern import Pattern
from pybsp.layouts import Cyclic
from tests.conftest import Spmd

from .programs import caught, plain


def wanted(pid: int, p: int, sizes: list[int], regular: bool) -> tuple[Any, Any]:
    """Owners and indices that a processor asks for: of all, some of them several times, or a run of each."""
    if regular:
        owners = np.repeat(np.arange(p), [min(2, size) for size in sizes])
        return owners, np.concatenate([np.arange(min(2, size)) for size in sizes])
    rng = np.random.default_rng(pid)
    owners = rng.choice([k for k in range(p) if sizes[k]], 3 * p + pid)
    return owners, np.array([rng.integers(-sizes[k], sizes[k]) for k in owners], int)


@pytest.mark.parametrize("regular", [False, True])
def test_get_brings_what_array_get_brings(spmd: Spmd, regular: bool) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        x = bsp.array(4 * bsp.pid % 9, np.float32)
        x.local[:] = 100 * bsp.pid + np.arange(x.local.size)
        y = bsp.array(1)
        bsp.sync()
        x.local[:0] = y.local[:0]
        sizes = [shape[0] for shape in x.shapes]
        if not any(sizes):
            return True
        owners, at = wanted(bsp.pid, bsp.p, sizes, regular)
        pattern = x.pattern(owners, at)
        bsp.sync()
        same = []
        for k in range(3):
            x.local[:] += k
            expected = [x.get(int(owner), at=int(i)) for owner, i in zip(owners, at, strict=True)]
            into = np.zeros(owners.size) if k == 1 else None
            ticket = pattern.get(into=into)
            x.put(bsp.pid, -1)  # after what is read
            bsp.sync()
            values = [one.value for one in expected]
            same.append(ticket.value.tolist() == values and (into is None or ticket.value is into))
            x.local[:] = 100 * bsp.pid + np.arange(x.local.size)
        return same

    assert spmd(main) in ([[True] * 3] * spmd.p, [True] * spmd.p)


@pytest.mark.parametrize("op", [None, np.add, np.maximum, np.subtract])
@pytest.mark.parametrize("regular", [False, True])
def test_put_writes_by_source_then_by_call(spmd: Spmd, op: Any, regular: bool) -> None:
    sizes = [3] * spmd.p

    def values(pid: int, k: int) -> Any:
        owners, _ = wanted(pid, spmd.p, sizes, regular)
        return 10.0 * pid + k + np.arange(owners.size) % 4

    def main(bsp: pybsp.BSP) -> Any:
        x = bsp.array(3)
        x.local[:] = 5
        bsp.sync()
        pattern = x.pattern(*wanted(bsp.pid, bsp.p, sizes, regular))
        bsp.sync()
        for k in range(2):
            sent = values(bsp.pid, k)
            pattern.put(sent, op)
            sent[:] = -1  # they were copied
        x.put((bsp.pid + 1) % bsp.p, 7, at=0)  # before all patterns
        seen = x.local.tolist()
        bsp.sync()
        return seen, x.local.tolist()

    expected = np.full((spmd.p, 3), 5.0)
    expected[:, 0] = 7
    for pid in range(spmd.p):
        for k in range(2):
            for owner, at, value in zip(*wanted(pid, spmd.p, sizes, regular), values(pid, k), strict=True):
                expected[owner, at] = value if op is None else op(expected[owner, at], value)
    assert spmd(main) == [([5.0] * 3, row) for row in expected.tolist()]


def test_puts_of_several_patterns_are_written_by_source_then_by_call(spmd: Spmd) -> None:
    ops = np.subtract, np.maximum, np.add

    def main(bsp: pybsp.BSP) -> Any:
        x = bsp.array(1, np.int64)
        bsp.sync()
        patterns = [x.pattern(bsp.p - 1, [0]) for _ in ops]
        bsp.sync()
        x.local[:] = 10
        bsp.sync()
        for k in range(len(ops)):
            patterns[(k + bsp.pid) % 3].put(3 + 10 * bsp.pid + k, ops[(bsp.pid * k + k) % 3])
        bsp.sync()
        return int(x.local[0])

    expected = 10
    for pid in range(spmd.p):
        for k in range(len(ops)):
            expected = int(ops[(pid * k + k) % 3](expected, 3 + 10 * pid + k))
    assert spmd(main)[-1] == expected


def test_what_is_got_into_an_array_is_there_before_what_is_put_to_it(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        x = bsp.array(2, np.int64)
        bsp.sync()
        right = (bsp.pid + 1) % bsp.p
        get, put = x.pattern(right, None), x.pattern(right, None)
        bsp.sync()
        seen = []
        for by_pattern in (True, False):
            x.local[:] = np.arange(2) + 10 * bsp.pid
            bsp.sync()
            get.get(into=x.local)
            if by_pattern:
                put.put([100, 200], np.add)
            else:
                x.put(right, [7, 8])
            bsp.sync()
            seen.append(x.local.tolist())
        return seen

    p = spmd.p
    assert spmd(main) == [[[100 + 10 * (k % p), 201 + 10 * (k % p)], [7, 8]] for k in range(1, p + 1)]


def test_several_gets_of_one_superstep_bring_what_each_asks_for_before_what_is_put(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        x, y = bsp.array(2, np.int64), bsp.array(3, np.int64)
        bsp.sync()
        right = (bsp.pid + 1) % bsp.p
        first, put = x.pattern(right, [1, 1]), x.pattern(right, None)
        second = y.pattern([right, right, bsp.pid], [2, 0, 1])
        bsp.sync()
        seen = []
        for puts in ("", "array", "pattern", "array and pattern"):
            x.local[:], y.local[:] = np.arange(2) + 10 * bsp.pid, np.arange(3) - 10 * bsp.pid
            bsp.sync()
            first.get(into=x.local)
            ticket = second.get()
            if "array" in puts:
                x.put(right, [7, 8])
            if "pattern" in puts:
                put.put([100, 200], np.add)
            bsp.send(right, puts)
            bsp.sync()
            seen.append((x.local.tolist(), ticket.value.tolist(), bsp.inbox[0].payload))
        return seen

    for pid, seen in enumerate(spmd(main)):
        right = (pid + 1) % spmd.p
        second = [2 - 10 * right, -10 * right, 1 - 10 * pid]
        got = [10 * right + 1] * 2
        assert seen == [
            (got, second, ""),
            ([7, 8], second, "array"),
            ([got[0] + 100, got[1] + 200], second, "pattern"),
            ([107, 208], second, "array and pattern"),
        ]


def test_a_get_of_a_pattern_has_no_place_among_the_puts(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        x = bsp.array(2, np.int64)
        bsp.sync()
        first, second = x.pattern(0, [0]), x.pattern(0, [0])
        bsp.sync()
        first.get()
        second.put(1)
        first.put(2)
        bsp.sync()
        return int(x.local[0])

    assert spmd(main)[0] == 2


def test_what_a_pattern_brings_is_poisoned_in_checked_mode_but_where_the_program_has_it(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        x, into = bsp.array(3), np.zeros(3)
        x.local[:] = bsp.pid
        bsp.sync()
        pattern = x.pattern((bsp.pid + 1) % bsp.p, [0, 1, 2])
        bsp.sync()
        kept = pattern.get()
        bsp.sync()
        values = kept.value
        pattern.get(into=into)
        bsp.sync()
        bsp.sync()
        return np.isnan(values).tolist(), into.tolist()

    for pid, (poisoned, into) in enumerate(spmd(main)):
        assert into == [(pid + 1) % spmd.p] * 3
        if spmd.checked:
            assert poisoned == [True] * 3


def test_what_is_got_into_part_of_an_array_is_there_before_puts_too(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        x = bsp.array((3, 3), np.int64)
        bsp.sync()
        pattern, put = x.pattern(0, (slice(0, 2), slice(0, 2))), x.pattern(bsp.pid, ([1], [1]))
        bsp.sync()
        x.local[:] = np.arange(9).reshape(3, 3)
        pattern.get(into=x.local[:2, :2])
        x.put(bsp.pid, 100, at=(0, 0))
        put.put(200)
        bsp.sync()
        return x.local.tolist()

    assert spmd(main) == [[[100, 1, 2], [3, 200, 5], [6, 7, 8]]] * spmd.p


def test_several_axes_one_owner_and_shapes(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        x = bsp.array((3, 2 + bsp.pid), np.int64)
        x.local[:] = 100 * bsp.pid + np.arange(x.local.size).reshape(x.local.shape)
        bsp.sync()
        last = bsp.p - 1
        column = x.pattern(last, (slice(None), -1))
        several = x.pattern([[0], [last]], ([0, 2], [[1], [0]]))
        all_of_it = x.pattern(0, None)
        nothing = x.pattern([], ([], []))
        one = x.pattern(last, (1, 1))
        bsp.sync()
        tickets = [pattern.get() for pattern in (column, several, all_of_it, nothing, one)]
        strided = np.zeros((3, 2), np.int64)
        bsp.sync()
        found = [ticket.value.copy() for ticket in tickets]
        whole = all_of_it.get(into=strided[:, ::1])
        back = np.zeros((2, 3), np.int64).T
        bsp.sync()
        all_of_it.get(into=back)  # of another order in memory
        bsp.sync()
        return found, whole.value is not None, strided.tolist() == back.tolist() == found[2].tolist()

    results, p = spmd(main), spmd.p
    parts = [100 * k + np.arange(3 * (2 + k)).reshape(3, 2 + k) for k in range(p)]
    last = parts[-1]
    several = [[parts[0][0, 1], parts[0][2, 1]], [last[0, 0], last[2, 0]]]
    for found, *rest in results:
        expected = [last[:, -1], np.array(several), parts[0], np.empty(0, int), np.array(last[1, 1])]
        assert plain(found) == plain(expected)
        assert rest == [True, True]


SUBCLASSES: dict[str, Callable[[tuple[int, ...]], Any]] = {
    "matrix": lambda shape: np.zeros(shape).view(np.matrix),
    "recarray": lambda shape: np.zeros(shape).view(np.recarray),
    "masked": lambda shape: np.ma.array(np.zeros(shape), mask=True),
}


@pytest.mark.filterwarnings("ignore:the matrix subclass")
@pytest.mark.parametrize("kind", SUBCLASSES)
@pytest.mark.parametrize("columns", [[0, 1, 2], [2, 0, 0]])
def test_what_is_got_into_an_array_of_a_subclass_is_assigned_to_it(spmd: Spmd, kind: str, columns: list[int]) -> None:
    """A row of a matrix has two axes, and what is masked is none of the values."""

    def main(bsp: pybsp.BSP) -> Any:
        x = bsp.array((1, 3))
        x.local[:] = 10 * bsp.pid + np.arange(3)
        bsp.sync()
        owners = np.array([[0, bsp.p - 1, bsp.p - 1]])
        several, whole = x.pattern(owners, (0, columns)), x.pattern(0, None)
        bsp.sync()
        rooms = [SUBCLASSES[kind]((1, 3)) for _ in range(3)]
        tickets = several.get(into=rooms[0]), whole.get(into=rooms[1]), x.get(0, into=rooms[2])
        bsp.sync()
        assert all(ticket.value is room for ticket, room in zip(tickets, rooms, strict=True))
        return [room.tolist() for room in rooms]

    last = 10 * (spmd.p - 1)
    several = [columns[0], last + columns[1], last + columns[2]]
    assert spmd(main) == [[[several], [[0, 1, 2]], [[0, 1, 2]]]] * spmd.p


def test_queues_keep_destinations(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        kept, queue = bsp.queue(np.int64), bsp.queue(np.int64)
        dests = np.random.default_rng(bsp.pid).integers(0, bsp.p, 7)
        pattern, run, none = kept.pattern(dests), kept.pattern(np.repeat(np.arange(bsp.p), 2)), kept.pattern([])
        same = []
        for k in range(2):
            values = 1000 * bsp.pid + 10 * k + np.arange(7)
            pattern.send(values)
            kept.send(0, -k)
            run.send(np.arange(2 * bsp.p))
            run.send(5)
            none.send([])
            queue.send(dests, values)
            queue.send(0, -k)
            queue.send(np.repeat(np.arange(bsp.p), 2), np.arange(2 * bsp.p))
            queue.send(np.repeat(np.arange(bsp.p), 2), 5)
            values[:] = 0  # they were copied
            bsp.sync()
            same.append(plain((kept.values, kept.sources)) == plain((queue.values, queue.sources)))
        return same

    assert spmd(main) == [[True, True]] * spmd.p


def test_costs_are_those_of_the_ledger(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        x = bsp.array(5, np.float32)
        bsp.sync()
        begin = len(bsp.ledger)
        pattern = x.pattern(*wanted(bsp.pid, bsp.p, [5] * bsp.p, False))
        bsp.sync()
        pattern.get()
        bsp.sync()
        pattern.put(1.0)
        bsp.sync()
        pattern.put(1.0)
        pattern.put(2.0, np.add)
        pattern.get()
        bsp.sync()
        records = [(r.h_out, r.h_in, r.messages, r.M, r.items) for r in bsp.ledger[begin:]]
        costs = [
            (step.h_out, step.h_in, step.messages, step.M, step.items)
            for operation in ("get", "put")
            for step in pattern.cost(bsp.machine, operation)
        ]
        asked, _ = wanted(bsp.pid, bsp.p, [5] * bsp.p, False)
        indices = pattern.index_bytes == 8 * (asked != bsp.pid).sum()
        return (
            records[:3] == [(0,) * 5, *costs],
            records[3][3] == costs[0][3] + 2 * costs[1][3],
            indices,
            pattern.served,
        )

    results = spmd(main)
    assert [result[:3] for result in results] == [(True,) * 3] * spmd.p
    brought = np.bincount(np.concatenate([wanted(pid, spmd.p, [5] * spmd.p, False)[0] for pid in range(spmd.p)]))
    assert [result[3] for result in results] == brought.tolist()


def test_they_last_beside_collectives_parts_and_everything_else(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        from pybsp import collectives

        x = bsp.array(Cyclic(20, bsp.p))
        x.local[:] = np.arange(20)[x.layout.part(bsp.pid)]
        bsp.sync()
        some = x.global_pattern([3, 19, 0])
        collectives.allreduce(bsp, 1, np.add)  # in supersteps of its own: the pattern is made by the program's sync
        more = x.global_pattern(np.array([5]))
        bsp.sync()
        ticket = some.get()
        more.put(100 * bsp.pid)
        bsp.send(0, "beside")
        total = collectives.allreduce(bsp, 1, np.add)
        bsp.begin()
        bsp.end()
        first = ticket.value.tolist(), len(bsp.inbox)
        with bsp.split(0) as part:
            y = part.array(1)
            y.local[:] = part.pid
            part.sync()
            inner = y.pattern(part.p - 1, 0)
            part.sync()
            inside = inner.get()
            part.sync()
            inside = int(inside.value)
        again = some.get(), more.get()
        bsp.sync()
        return first, int(total), inside, [one.value.tolist() for one in again]

    p = spmd.p
    results = spmd(main)
    for pid, (first, total, inside, again) in enumerate(results):
        assert first == ([3.0, 19.0, 0.0], p if pid == 0 else 0)
        assert (total, inside, again) == (p, p - 1, [[3.0, 19.0, 0.0], [100.0 * (p - 1)]])


def test_what_goes_out_is_pending(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        x = bsp.array(2)
        bsp.sync()
        pattern = x.pattern(0, 1)
        bsp.sync()
        pattern.put(1.0)
        ticket = pattern.get()
        pending, early = bsp.pending, caught(lambda: ticket.value).kind
        bsp.sync()
        return pending, early, bsp.pending

    assert spmd(main) == [("pattern.put, pattern.get", pybsp.TicketError, "")] * spmd.p


def test_a_get_that_no_sync_follows_is_an_error(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> None:
        x = bsp.array(2)
        bsp.sync()
        pattern = x.pattern(0, 1)
        bsp.sync()
        pattern.get()

    refused(spmd, main, "pattern.get: something was sent")


# -- what they refuse -------------------------------------------------------------------------------------------------


def refused(spmd: Spmd, main: Any, *texts: str) -> None:
    """All processors raise, and at least one of them with one of these texts; none is left waiting."""
    errors = spmd.errors(main)
    assert all(isinstance(error, pybsp.BSPError) for error in errors if error is not None)
    if spmd.mpi:
        assert None not in errors
    found = " | ".join(str(error) for error in errors)
    for text in texts:
        assert text in found, found


CALLS: dict[str, tuple[Any, str]] = {
    "owner": (lambda x, p: x.pattern([0, p], [0, 0]), "argument owners: expected a processor"),
    "index": (lambda x, p: x.pattern([0, p - 1], [0, 3]), "argument at: expected an index within shape (3,)"),
    "negative": (lambda x, p: x.pattern([0, 0], [0, -4]), "index -4 on axis 0"),
    "after the least": (lambda x, p: x.pattern([0, 0], [-3, 3]), "index 3 on axis 0"),
    "unsigned": (lambda x, p: x.pattern([0], np.array([2**64 - 1], np.uint64)), "index 18446744073709551615 on axis 0"),
    "of one": (lambda x, p: x.pattern(0, slice(1, 4)), "argument at: expected an index within shape (3,)"),
    "float": (lambda x, p: x.pattern([0], [0.5]), "argument at: expected an int or integers"),
    "slice": (lambda x, p: x.pattern([0], slice(0, 1)), "one owner, an int"),
    "axes": (lambda x, p: x.pattern([0], ([0], [0])), "argument at: expected integers for each of 1 axes"),
    "shapes": (lambda x, p: x.pattern([0, 0], [0, 1, 2]), "argument at: expected what broadcasts with owners"),
    "global": (
        lambda x, p: x.global_pattern([0, 3 * p]),
        "array.global_pattern: argument indices: expected indices from -",
    ),
}


@pytest.mark.parametrize("call", CALLS)
def test_what_does_not_fit_the_array_is_refused(spmd: Spmd, call: str) -> None:
    make, text = CALLS[call]

    def main(bsp: pybsp.BSP) -> None:
        x = bsp.array(Cyclic(3 * bsp.p, bsp.p))
        bsp.sync()
        if bsp.pid == bsp.p - 1:
            make(x, bsp.p)
        bsp.sync()

    refused(spmd, main, text)


def test_parts_with_unlike_numbers_of_axes_are_asked_for_by_their_owners_axes(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        x = bsp.array((2, 3) if bsp.pid == bsp.p - 1 else (6,), np.int64)
        x.local[:] = (10 * bsp.pid + np.arange(6)).reshape(x.local.shape)
        bsp.sync()
        last = bsp.p - 1
        of_last = x.pattern([last, last], ([1, 0], [-1, 1]))
        of_first = x.pattern([0, 0], [5, 1]) if last else x.pattern([], [])
        bsp.sync()
        tickets = of_last.get(), of_first.get()
        bsp.sync()
        return [ticket.value.tolist() for ticket in tickets]

    last = spmd.p - 1
    assert spmd(main) == [[[10 * last + 5, 10 * last + 1], [5, 1] if last else []]] * spmd.p


def test_a_pattern_over_parts_with_unlike_numbers_of_axes_is_refused_with_the_way_out(spmd: Spmd) -> None:
    if spmd.p == 1:
        pytest.skip("one processor has one part")

    def main(bsp: pybsp.BSP) -> Any:
        x = bsp.array((3,) if bsp.pid == 0 else (2, 2))
        bsp.sync()
        both = [0, bsp.p - 1]
        return [caught(x.pattern, both, at) for at in ([0, 0], ([0, 0], [0, 0]))]

    for plainly, in_tuple in spmd(main):
        for error in (plainly, in_tuple):
            assert error.kind is pybsp.UsageError
            assert error.text.endswith("where parts have unlike numbers of axes: one owner, an int, per pattern")
        of_last = f"expected integers for each of 2 axes, which processor {spmd.p - 1}'s part, of shape (2, 2), has"
        assert f"array.pattern: argument at: {of_last}" in plainly.text
        assert "expected integers for each of 1 axes, which processor 0's part, of shape (3,), has" in in_tuple.text


USES: dict[str, tuple[Any, str]] = {
    "shape": (lambda pattern: pattern.put([1.0, 2.0]), "argument values: expected shape (3,), the pattern's"),
    "dtype": (lambda pattern: pattern.put(["a", "b", "c"]), "argument values: expected float64"),
    "op": (lambda pattern: pattern.put(1.0, max), "argument op: expected None, or a ufunc of numpy's own"),
    "op of one": (lambda pattern: pattern.put(1.0, np.negative), "argument op: expected None, or a ufunc of numpy's"),
    "op of ints": (lambda pattern: pattern.put(1.0, np.bitwise_or), "argument op: expected one that makes float64"),
    "op of arrays": (lambda pattern: pattern.put(1.0, np.matmul), "got np.matmul (matmul.at does not support"),
    "into": (lambda pattern: pattern.get(into=np.zeros(2)), "argument into: expected a numpy array of shape (3,)"),
    "into int": (lambda pattern: pattern.get(into=np.zeros(3, int)), "argument into: expected float64"),
    "twice": (lambda pattern: (pattern.get(), pattern.get()), "expected one get of a pattern in a superstep"),
    "cost": (lambda pattern: pattern.cost(None, "send"), 'argument operation: expected "get" or "put"'),
    "cost of an array": (
        lambda pattern: pattern.cost(None, np.array(["get", "put"])),
        'argument operation: expected "get" or "put", got array(',
    ),
}


@pytest.mark.parametrize("use", USES)
def test_what_does_not_fit_the_pattern_is_refused(spmd: Spmd, use: str) -> None:
    call, text = USES[use]

    def main(bsp: pybsp.BSP) -> None:
        x = bsp.array(3)
        bsp.sync()
        pattern = x.pattern(np.zeros(3, int), np.arange(3))
        bsp.sync()
        if bsp.pid == 0:
            call(pattern)
        bsp.sync()

    refused(spmd, main, text)


@pytest.mark.parametrize(
    ("dtype", "op", "value", "error"),
    [(np.int64, np.power, -1, "ValueError"), (np.float64, np.divide, 0, "RuntimeWarning")],
    ids=["error", "warning"],
)
@pytest.mark.filterwarnings("error")
def test_an_op_that_raises_at_the_owner_says_whose_values_they_were(
    spmd: Spmd, dtype: Any, op: np.ufunc, value: int, error: str
) -> None:
    def main(bsp: pybsp.BSP) -> None:
        x = bsp.array(3, dtype)
        x.local[:] = 2
        bsp.sync()
        asks = bsp.pid == bsp.p - 1
        pattern = x.pattern([0] * asks, [1] * asks)
        bsp.sync()
        if asks:
            pattern.put([value], op)
        bsp.sync()

    of = f"of values that processor {spmd.p - 1} put by the pattern made at {__file__}"
    refused(spmd, main, f"pattern.put: argument op: np.{op.__name__} raised {error}", of)


@pytest.mark.parametrize("op", [None, np.add])
@pytest.mark.parametrize("indices", [[0, 0, 2], [0, 1, 2]], ids=["equal", "regular"])
def test_nothing_is_put_to_what_is_read_only(spmd: Spmd, op: Any, indices: list[int]) -> None:
    left: list[list[float]] = []

    def main(bsp: pybsp.BSP) -> None:
        mine = np.zeros(3)
        x = bsp.register(mine)
        bsp.sync()
        pattern = x.pattern(0, indices)
        bsp.sync()
        mine.flags.writeable = bsp.pid > 0
        pattern.put(1.0, op)
        try:
            bsp.sync()
        finally:
            left.append(mine.tolist())

    refused(spmd, main, "pattern.put: the array made at", "expected array.local to be writeable")
    assert all(values == [0.0] * 3 for values in left)


def test_a_get_that_others_do_not_call_is_an_error_on_all(spmd: Spmd) -> None:
    for caller in {0, spmd.p - 1}:

        def main(bsp: pybsp.BSP, caller: int = caller) -> None:
            x = bsp.array(3)
            bsp.sync()
            pattern = x.pattern((bsp.pid + 1) % bsp.p, 0)
            bsp.sync()
            if bsp.pid == caller:
                pattern.get()
            bsp.sync()
            bsp.sync()

        if spmd.p > 1:
            refused(spmd, main, "all processors call it in the same superstep")


@pytest.mark.parametrize("what", ["array", "pattern"])
def test_patterns_of_what_was_freed_are_refused(spmd: Spmd, what: str) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        x, y = bsp.array(3), bsp.array(1)
        bsp.sync()
        pattern, other = x.pattern((bsp.pid + 1) % bsp.p, 0), y.pattern(0, 0)
        early = caught(pattern.get)
        bsp.sync()
        (x if what == "array" else pattern).free()
        pattern.put(4.0)  # it arrives with the sync that frees it
        bsp.sync()
        other.put(9.0)
        bsp.sync()
        late = [caught(pattern.get), caught(pattern.put, 1.0)]
        twice = caught((x if what == "array" else pattern).free)
        return early, late, twice, x.local[0], y.local[0]

    for pid, (early, late, twice, x, y) in enumerate(spmd(main)):
        assert early.kind is twice.kind is pybsp.UsageError
        assert "is not there yet" in early.text
        assert "freed already" in twice.text
        assert [error.kind for error in late] == [pybsp.UsageError] * 2
        assert all(f"the {what} made at" in error.text and "was freed" in error.text for error in late)
        assert (x, y) == (4.0, 9.0 if pid == 0 else 0.0)


def test_the_call_of_who_has_resized_its_array_is_refused(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> list[str]:
        mine = np.zeros(4)
        x = bsp.register(mine)
        bsp.sync()
        pattern = x.pattern([bsp.pid], [1])
        bsp.sync()
        mine.resize(2, refcheck=False)
        return [caught(pattern.put, 1.0).text, caught(pattern.get).text]

    for texts in spmd(main):
        for text, name in zip(texts, ("put", "get"), strict=True):
            assert f"pattern.{name}: the array made at" in text
            assert "expected array.local to have shape (4,), with which it was registered, got (2,)" in text


def test_what_an_array_was_resized_under_is_refused(spmd: Spmd) -> None:
    for operation in ("get", "put"):

        def main(bsp: pybsp.BSP, operation: str = operation) -> None:
            mine = np.zeros(3)
            x = bsp.register(mine)
            bsp.sync()
            pattern = x.pattern([0], [2])
            bsp.sync()
            if bsp.pid == 0:
                mine.resize(1, refcheck=False)
            if operation == "get" or bsp.pid == bsp.p - 1:
                pattern.get() if operation == "get" else pattern.put(1.0)
            bsp.sync()

        refused(spmd, main, "expected array.local to have shape (3,)")


@pytest.mark.parametrize("indices", [[29, 0, 29], [0, 29]], ids=["with equal ones", "that differ"])
def test_what_is_resized_before_the_sync_that_makes_a_pattern_is_refused(spmd: Spmd, indices: list[int]) -> None:
    def main(bsp: pybsp.BSP) -> None:
        mine = np.zeros(30)
        x = bsp.register(mine)
        bsp.sync()
        x.pattern(0, indices)
        if bsp.pid == 0:
            mine.resize(1, refcheck=False)
        bsp.sync()

    refused(spmd, main, "array.pattern: the array made at", "expected array.local to have shape (30,)", "got (1,)")


def test_what_is_resized_after_a_get_is_not_read(spmd: Spmd) -> None:
    for indices in ([0, 2], [0, 1, 3]):  # a slice, and no slice

        def main(bsp: pybsp.BSP, indices: list[int] = indices) -> None:
            mine = np.ones(4)
            x = bsp.register(mine)
            bsp.sync()
            pattern = x.pattern(0, indices)
            bsp.sync()
            pattern.get()
            if bsp.pid == 0:
                mine.resize(1, refcheck=False)
            bsp.sync()

        refused(spmd, main, "pattern.get", "expected array.local to have shape (4,)")


def test_the_cost_on_a_machine_of_other_processors_is_refused(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        x = bsp.array(2)
        bsp.sync()
        pattern = x.pattern(0, 1)
        bsp.sync()
        by_queue = bsp.queue(np.int64).pattern([0])
        machines = pybsp.BSPMachine.nominal(bsp.p + 1), "machine.json", None
        return [caught(one.cost, machine) for one in (pattern, by_queue) for machine in machines]

    for errors in spmd(main):
        for error, got in zip(errors, [f"p = {spmd.p + 1}", "str 'machine.json'", "NoneType None"] * 2, strict=True):
            assert error.kind is pybsp.UsageError
            assert f"argument machine: expected one of p = {spmd.p}, the number of processors" in error.text
            assert error.text.endswith(f"got {got}")


def test_processors_that_make_other_patterns_are_told(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> None:
        x, y = bsp.array(3), bsp.array(3)
        bsp.sync()
        (x if bsp.pid else y).pattern(0, 0)
        bsp.sync()

    if spmd.p > 1:
        refused(spmd, main, "the processors did not register the same", "pattern of array 0", "pattern of array 1")


def test_queue_patterns_refuse_what_queues_do(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        queue = bsp.queue()
        pattern = queue.pattern([0, 0])
        bsp.sync()
        found = [
            caught(queue.pattern, [0, bsp.p]),
            caught(queue.pattern, 0),
            caught(queue.pattern, [0.5]),
            caught(pattern.send, [1.0]),
            caught(pattern.send, ["a", "b"]),
        ]
        queue.free()
        bsp.sync()
        return [*found, caught(pattern.send, 1.0)]

    for found in spmd(main):
        assert [error.kind for error in found] == [pybsp.UsageError] * 6
        for error, text in zip(
            found,
            ["dests: expected a proc", "dests", "dests", "values: expected a scalar or shape (2,)", "values", "freed"],
            strict=True,
        ):
            assert text in error.text


@pytest.mark.parametrize("dtype", [np.float64, np.dtype("V20"), np.int8])
def test_a_queue_pattern_costs_what_the_ledger_counts(spmd: Spmd, dtype: Any) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        queue = bsp.queue(dtype)
        dests = np.arange(3 * bsp.pid) * 5 % (bsp.pid + 1)
        pattern = queue.pattern(dests)
        cost = pattern.cost(bsp.machine)
        for _ in range(2):
            pattern.send(np.zeros(dests.size, dtype))
            bsp.sync()
        wrong = caught(pattern.cost, pybsp.BSPMachine.nominal(bsp.p + 1))
        pattern.free()
        refused = caught(pattern.send, 0), caught(pattern.cost, bsp.machine), caught(pattern.free)
        queue.send(0, np.zeros((), dtype))  # the queue stays
        bsp.sync()
        return list(cost), list(bsp.ledger[:2]), wrong, refused, len(queue)

    for pid, (cost, records, wrong, refused, items) in enumerate(spmd(main)):
        (step,) = cost
        for record in records:
            found = record.h_out, record.h_in, record.messages, record.M, record.items
            assert found == (step.h_out, step.h_in, step.messages, step.M, step.items)
        assert f"argument machine: expected one of p = {spmd.p}" in wrong.text
        assert all(error.kind is pybsp.UsageError and "freed" in error.text for error in refused)
        assert items == (0 if pid else spmd.p)


def test_the_cost_of_a_queue_pattern_is_for_all_to_ask(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> None:
        pattern = bsp.queue().pattern([0])
        bsp.sync()
        if bsp.pid:
            pattern.cost(bsp.machine)
        len(bsp.ledger)

    if spmd.p > 1:
        refused(spmd, main, "cost of a pattern of queue of float64")


def test_the_ledger_says_how_many_bytes_of_indices_went_with_a_superstep(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        x = bsp.array(4)
        bsp.sync()
        patterns = [x.pattern(owner, [0, 2, 3]) for owner in ((bsp.pid + 1) % bsp.p, bsp.pid)]
        bsp.sync()
        patterns[0].put(1.0)
        bsp.sync()
        ledger = bsp.ledger
        return ledger.index_bytes, ledger.riding, ledger[1].h, sum(one.index_bytes for one in patterns)

    for told, riding, h, own in spmd(main):
        assert told == ({1: 24 * spmd.p} if spmd.p > 1 else {})
        assert (riding, h, own) == ({}, 0, 24 * (spmd.p > 1))


@pytest.mark.whole
@pytest.mark.parametrize(("slow", "mixed"), [("serve", False), ("complete", False), ("write", False), ("write", True)])
def test_what_a_pattern_does_with_what_has_come_is_computing(
    spmd: Spmd, monkeypatch: pytest.MonkeyPatch, slow: str, mixed: bool
) -> None:
    """As gathering is, before the exchange: of what follows."""

    def main(bsp: pybsp.BSP) -> Any:
        x, right = bsp.array(4), (bsp.pid + 1) % bsp.p
        bsp.sync()
        pattern = x.pattern(np.full(3, right), [0, 2, 0])
        bsp.sync()
        pattern.get()
        bsp.sync()
        pattern.put(1.0, np.add)
        if mixed:
            bsp.send(right, 1)
        bsp.sync()
        bsp.sync()
        return [record.seconds for record in bsp.ledger]

    def slowly(*args: Any) -> Any:
        time.sleep(0.01)
        return usual(*args)

    usual = getattr(Pattern, slow)
    monkeypatch.setattr(Pattern, slow, slowly)
    after = 2 + ["serve", "complete", "write"].index(slow)
    for seconds in spmd(main, **({} if spmd.mpi else {"measure": True})):
        assert seconds[after] >= 0.005  # half of it: the clocks of processors are put on one line


def test_what_one_put_brings_leaves_no_time_behind(spmd: Spmd, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who only receives it takes another way through the sync than who sends."""

    def main(bsp: pybsp.BSP) -> Any:
        x, queue = bsp.array(4), bsp.queue()
        bsp.sync()
        pattern = x.pattern(0 if bsp.p == 1 else 1, [0, 1])
        bsp.sync()
        if bsp.pid == 0:
            pattern.put(1.0)
        bsp.sync()
        queue.send(bsp.pid, 1.0)
        bsp.sync()
        bsp.sync()
        return [record.measured - record.seconds for record in bsp.ledger], [record.seconds for record in bsp.ledger]

    def slowly(*args: Any) -> Any:
        time.sleep(0.01)
        return usual(*args)

    usual = Pattern.write
    monkeypatch.setattr(Pattern, "write", slowly)
    for exchanges, computing in spmd(main, **({} if spmd.mpi else {"measure": True})):
        assert min(exchanges) >= 0
        assert computing[3] >= 0.005


def test_what_is_asked_for_several_times_comes_once(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        x = bsp.array(5, np.int64)
        x.local[:] = np.arange(5) + 10 * bsp.pid
        bsp.sync()
        right = (bsp.pid + 1) % bsp.p
        owners, at = np.array([right, bsp.pid, right, right, bsp.pid]), np.array([4, 1, 0, 4, 3])
        pattern = x.pattern(owners, at)
        bsp.sync()
        begin, found = len(bsp.ledger), []
        for into in (None, np.zeros(5, np.int64), np.zeros(5)):
            ticket = pattern.get(into=into)
            bsp.sync()
            found.append(ticket.value.tolist())
        pattern.put([1, 2, 3, 4, 5], np.subtract)  # each of them, one after the other
        bsp.sync()
        return found, (10 * owners + at).tolist(), x.local.tolist(), [r.h for r in bsp.ledger[begin:]], pattern.served

    far = spmd.p > 1
    for pid, (found, expected, local, h, served) in enumerate(spmd(main)):
        assert found == [expected] * 3
        assert local == [10 * pid - 3, 10 * pid - 1, 10 * pid + 2, 10 * pid - 2, 10 * pid - 1]
        assert h == [2 * far] * 3 + [3 * far]
        assert served == 5


@pytest.mark.parametrize("operation", ["get", "put"])
def test_a_pattern_beside_what_others_send(spmd: Spmd, operation: str) -> None:
    """Little of patterns alone takes a way of its own; others meet it with mail, with much, and with a queue."""

    def main(bsp: pybsp.BSP) -> Any:
        x, large = bsp.array(3, np.int64), bsp.array(3000)
        queue = bsp.queue(np.int64)
        bsp.sync()
        left = (bsp.pid - 1) % bsp.p
        pattern, much = x.pattern(left, [0, 2]), large.pattern(left, None)
        bsp.sync()
        begin, found = len(bsp.ledger), []
        for shift in range(5):
            x.local[:] = np.arange(3) + 10 * bsp.pid
            bsp.sync()
            kind = (bsp.pid + shift) % 5
            if operation == "get":
                ticket = pattern.get()
            elif kind != 4:
                pattern.put([5, -5], np.add)
            if kind == 1:
                bsp.send(left, shift)
            if kind == 2:
                queue.send([left], [shift])
            if kind == 3:
                much.put(1.0, np.add)
            bsp.sync()
            found.append(ticket.value.tolist() if operation == "get" else x.local.tolist())
            found.append([len(bsp.inbox), queue.values.tolist()])
        return found, large.local.sum(), [r.h for r in bsp.ledger[begin + 1 :: 2]]

    p = spmd.p
    for pid, (found, total, h) in enumerate(spmd(main)):
        right, left = (pid + 1) % p, (pid - 1) % p
        for shift in range(5):
            kind = (right + shift) % 5  # of who sends here
            got = [10 * left, 10 * left + 2]
            put = [10 * pid, 10 * pid + 1, 10 * pid + 2] if kind == 4 else [10 * pid + 5, 10 * pid + 1, 10 * pid - 3]
            assert found[2 * shift] == (got if operation == "get" else put)
            assert found[2 * shift + 1] == [int(kind == 1), [shift] * (kind == 2)]
        assert total == 3000
        kinds = [{(k + shift) % 5 for k in range(p)} for shift in range(5)]
        assert p == 1 or [words >= 3000 for words in h] == [3 in of_all for of_all in kinds]
