"""put and get: the order inside one superstep, indices, dtypes, errors."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import numpy as np
import pytest

import pybsp
from pybsp.supersteps.superstep import SuperstepEngine
from tests.conftest import Spmd

from .programs import caught, plain

POINT = np.dtype([("name", "S3"), ("at", "f4", (2,)), ("n", "i2")])


def test_put_copies_its_source_at_the_call(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        x = bsp.array(3, np.int64)
        bsp.sync()
        values, where = np.array([1, 2, 3]), np.array([2, 1, 0])
        x.put((bsp.pid + 1) % bsp.p, values, at=where)
        values[:], where[:] = 99, 0
        bsp.sync()
        return x.local.tolist()

    assert spmd(main) == [[3, 2, 1]] * spmd.p


def test_get_copies_its_index_at_the_call(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        x = bsp.array(3, np.int64)
        x.local[:] = [5, 6, 7]
        bsp.sync()
        where = np.array([2, 0])
        ticket = x.get((bsp.pid + 1) % bsp.p, at=where)
        where[:] = 1
        bsp.sync()
        return ticket.value.tolist()

    assert spmd(main) == [[7, 5]] * spmd.p


def test_nothing_is_visible_at_the_destination_before_the_sync(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        x, go = bsp.array(2, np.int64), bsp.array(1, np.int64)
        bsp.sync()
        for dest in range(bsp.p):
            x.put(dest, bsp.pid + 1, at=0)
        go.local[0] = 1
        before = x.local.tolist()
        bsp.sync()
        return before, x.local.tolist()

    assert spmd(main) == [([0, 0], [spmd.p, 0])] * spmd.p


def test_get_reads_its_source_as_it_is_when_all_have_ended_the_superstep(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        x = bsp.array(1, np.int64)
        x.local[0] = -1
        bsp.sync()
        tickets = [x.get(k, at=0) for k in range(bsp.p)]
        x.local[0] = 100 + bsp.pid  # after the call, before the sync
        bsp.sync()
        x.local[0] = -2
        return [int(ticket.value) for ticket in tickets]

    assert spmd(main) == [[100 + k for k in range(spmd.p)]] * spmd.p


def test_get_from_a_cell_that_is_also_put_sees_the_old_value(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        x = bsp.array(1, np.int64)
        x.local[0] = 10 + bsp.pid
        bsp.sync()
        right = (bsp.pid + 1) % bsp.p
        x.put(right, 50 + bsp.pid, at=0)
        ticket = x.get(right, at=0)
        bsp.sync()
        return int(ticket.value), int(x.local[0])

    for pid, result in enumerate(spmd(main)):
        assert result == (10 + (pid + 1) % spmd.p, 50 + (pid - 1) % spmd.p)


def test_a_put_beats_a_get_on_the_same_destination(spmd: Spmd) -> None:
    """A get brings a ticket; a program that stores its value after the sync does so after the puts by design."""

    def main(bsp: pybsp.BSP) -> Any:
        x = bsp.array(2, np.int64)
        x.local[:] = [1, 2]
        bsp.sync()
        ticket = x.get(bsp.pid, at=1)
        x.put(bsp.pid, 7, at=0)
        x.put(bsp.pid, 8, at=1)
        bsp.sync()
        return x.local.tolist(), int(ticket.value)

    assert spmd(main) == [([7, 8], 2)] * spmd.p


def test_overlapping_puts_by_source_then_by_call(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        x = bsp.array(6, np.int64)
        bsp.sync()
        for dest in reversed(range(bsp.p)):
            x.put(dest, 10 * bsp.pid + 1)
            x.put(dest, 10 * bsp.pid + 2, at=slice(bsp.pid % 6, None))
            x.put(dest, [10 * bsp.pid + 3] * 2, at=[0, bsp.pid % 6])
        bsp.sync()
        return x.local.tolist()

    expected = np.zeros(6, np.int64)
    for source in range(spmd.p):
        expected[:] = 10 * source + 1
        expected[source % 6 :] = 10 * source + 2
        expected[[0, source % 6]] = 10 * source + 3
    assert spmd(main) == [expected.tolist()] * spmd.p


def test_one_put_that_writes_a_cell_twice_leaves_the_last_value(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        x = bsp.array(3, np.int64)
        bsp.sync()
        x.put(bsp.pid, [1, 2, 3, 4], at=[1, 1, 2, 1])
        bsp.sync()
        return x.local.tolist()

    assert spmd(main) == [[0, 4, 3]] * spmd.p


def test_overlapping_gets_all_see_the_same(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        x = bsp.array(10, np.int64)
        x.local[:] = np.arange(10) + 100 * bsp.pid
        bsp.sync()
        last = bsp.p - 1
        tickets = [x.get(last), x.get(last, at=slice(2, 5)), x.get(last, at=[3, 3, 2]), x.get(last, at=3)]
        bsp.sync()
        return [ticket.value.tolist() for ticket in tickets]

    base = 100 * (spmd.p - 1)
    whole = list(range(base, base + 10))
    assert spmd(main) == [[whole, whole[2:5], [base + 3, base + 3, base + 2], base + 3]] * spmd.p


def test_a_processor_may_address_itself_by_the_same_rules(spmd: Spmd) -> None:
    """A put's value is that at the call, a get's value that at the end."""

    def main(bsp: pybsp.BSP) -> Any:
        x = bsp.array(3, np.int64)
        bsp.sync()
        x.local[:] = [1, 2, 3]
        x.put(bsp.pid, x.local[:2], at=slice(1, 3))
        ticket = x.get(bsp.pid)
        x.local[:] = [4, 5, 6]
        before = x.local.tolist()
        bsp.sync()
        return before, ticket.value.tolist(), x.local.tolist()

    assert spmd(main) == [([4, 5, 6], [4, 5, 6], [4, 1, 2])] * spmd.p


def test_a_transfer_of_zero_bytes_is_legal_anywhere_and_does_nothing(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        x = bsp.array(4, np.int64)
        x.local[:] = 5
        bsp.sync()
        right = (bsp.pid + 1) % bsp.p
        nowhere: list[Any] = [slice(4, 4), slice(0, 0), [], np.empty(0, np.int64), slice(3, 1)]
        for at in nowhere:
            x.put(right, [], at=at)
        x.put(right, 9, at=[])
        nowhere = [slice(4, 4), [], np.empty((2, 0), np.intp)]
        tickets = [x.get(right, at=at) for at in nowhere]
        bsp.sync()
        shapes = [ticket.value.shape for ticket in tickets]
        x.put(right, [], at=[])  # also where nothing follows
        return shapes, x.local.tolist()

    assert spmd(main) == [([(0,), (0,), (2, 0)], [5] * 4)] * spmd.p


def test_many_small_transfers(spmd: Spmd) -> None:
    n = 600

    def main(bsp: pybsp.BSP) -> Any:
        x = bsp.array(n * bsp.p, np.int64)
        bsp.sync()
        for k in range(n):
            x.put((bsp.pid + k) % bsp.p, k, at=bsp.pid * n + k)
        bsp.sync()
        tickets = [x.get((bsp.pid + k) % bsp.p, at=bsp.pid * n + k) for k in range(n)]
        bsp.sync()
        return [int(ticket.value) for ticket in tickets]

    assert spmd(main) == [list(range(n))] * spmd.p


INDICES: dict[str, Any] = {
    "none": None,
    "int": 2,
    "negative int": -1,
    "numpy int": np.int8(1),
    "slice": slice(1, 3),
    "slice to the end": slice(2, None),
    "slice with step": slice(0, 4, 2),
    "negative step": slice(None, None, -1),
    "negative step with ends": slice(3, 0, -2),
    "negative ends": slice(-3, -1),
    "index array": np.array([3, 0, 2]),
    "negative indices": np.array([-1, 0, -2]),
    "unsigned indices": np.array([3, 1], np.uint8),
    "index array of two dimensions": np.array([[0, 1], [2, 3]]),
    "list": [1, 3],
    "empty list": [],
    "ellipsis": Ellipsis,
    "ellipsis then int": (Ellipsis, 2),
    "two ints": (1, 2),
    "int and slice": (1, slice(0, 5, 2)),
    "slice and int": (slice(None), -1),
    "two slices": (slice(1, 3), slice(None, None, -1)),
    "tuple of index arrays": (np.array([0, 3, 1]), np.array([4, 0, 0])),
    "tuple of lists": ([0, 1], [1, 2]),
    "index array and slice": (np.array([0, 2]), slice(1, 4)),
    "slice and index array": (slice(0, 2), [4, 0]),
    "open mesh": np.ix_([0, 2], [1, 3, 4]),
    "empty tuple": (),
    "new axis": (None, 1),
}


@pytest.mark.parametrize("at", INDICES.values(), ids=INDICES.keys())
def test_put_and_get_at_every_kind_of_index(spmd: Spmd, at: Any) -> None:
    before = np.arange(20, dtype=np.int32).reshape(4, 5)
    chosen = before if at is None else before[at]
    expected = before.copy()
    if at is None:
        expected[:] = 100 + np.arange(chosen.size).reshape(chosen.shape)
    else:
        expected[at] = 100 + np.arange(chosen.size).reshape(chosen.shape)

    def main(bsp: pybsp.BSP) -> Any:
        x = bsp.array((4, 5), np.int32)
        x.local[:] = np.arange(20).reshape(4, 5)
        bsp.sync()
        ticket = x.get((bsp.pid + 1) % bsp.p, at=at)
        x.put((bsp.pid + 1) % bsp.p, 100 + np.arange(chosen.size).reshape(chosen.shape), at=at)
        bsp.sync()
        return plain(ticket.value.copy()), plain(x.local)

    assert spmd(main) == [(plain(np.asarray(chosen).copy()), plain(expected))] * spmd.p


BLOCKS: list[Any] = [
    *(1, (1, 2), (1, 2, 3), slice(1, 2), slice(0, 2), slice(1, 1), (slice(1, 3), slice(None))),
    *((1, slice(0, 2)), (slice(2, 3), slice(1, 2), slice(0, 3)), (-1, -1, slice(-2, None))),
    *((slice(0, 2), 1), (slice(0, 2), slice(0, 2)), (1, slice(None), 2), (slice(None), slice(None), slice(0, 3))),
    *((1, slice(0, 2), slice(1, 3)), (slice(0, 2), slice(None), 0), (1, slice(0, 3, 2)), (slice(1, 2), ..., 1)),
    *((slice(0, 1), None, 2), (None, 1), (), (slice(0, 2), slice(0, 0))),
]


@pytest.mark.parametrize(("shape", "blocks"), [((3, 3, 4), [None, *BLOCKS]), ((), [None, (), ...])], ids=["3", "0"])
def test_blocks_of_an_array_of_several_axes_or_none_are_put_where_numpy_writes_them(
    spmd: Spmd, shape: tuple[int, ...], blocks: list[Any]
) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        x = bsp.array(shape, np.int16)
        bsp.sync()
        expected = np.zeros(shape, np.int16)
        for k, at in enumerate(blocks):
            there = () if at is None else at
            values = np.arange(np.zeros(shape)[there].size).reshape(np.zeros(shape)[there].shape) + 100 * k
            x.put((bsp.pid + 1) % bsp.p, values, at=at)
            expected[there] = values
            if k % 3:
                bsp.sync()
                assert x.local.tolist() == expected.tolist(), at
        bsp.sync()
        return x.local.tolist() == expected.tolist()

    assert spmd(main) == [True] * spmd.p


def test_what_goes_to_items_at_equal_distances_is_written_out_at_the_call(spmd: Spmd) -> None:
    """An edge of a grid is, a corner of several rows and columns is none; either way all come in the order of calls."""

    def main(bsp: pybsp.BSP) -> Any:
        x = bsp.array((6, 7))
        bsp.sync()
        puts = bsp._superstep.accesses.puts
        edges: list[Any] = [(slice(1, -1), -1), (slice(1, -1), 0), (-1, slice(1, -1)), 0, (slice(None, None, 2), 3)]
        for k, at in enumerate(edges):
            x.put(0, k + np.arange(x.local[at].size), at=at)
        runs = isinstance(puts[0], bytearray)
        x.put(0, 0.5, at=(slice(0, 2), slice(0, 2)))
        x.put(0, bsp.pid, at=(slice(0, 2), 0))
        others = not isinstance(puts[0], bytearray)
        bsp.sync()
        return runs, others, x.local.tolist()

    expected = np.zeros((6, 7))
    expected[1:-1, -1] = 0 + np.arange(4)
    expected[1:-1, 0] = 1 + np.arange(4)
    expected[-1, 1:-1] = 2 + np.arange(5)
    expected[0] = 3 + np.arange(7)
    expected[::2, 3] = 4 + np.arange(3)
    expected[:2, :2] = 0.5
    expected[:2, 0] = spmd.p - 1
    zeros = np.zeros((6, 7)).tolist()
    assert spmd(main) == [(True, True, expected.tolist()), *[(True, True, zeros)] * (spmd.p - 1)]


DTYPES: dict[str, Any] = {
    "bool": np.array([True, False, True]),
    "int8": np.array([-1, 2, 3], np.int8),
    "uint64": np.array([2**64 - 1, 0, 1], np.uint64),
    "float16": np.array([0.5, -1, np.inf], np.float16),
    "longdouble": np.array([1, 2, 3], np.longdouble) / 3,
    "complex": np.array([1 + 2j, -3j, 0]),
    "datetime64": np.array(["2001-01-01", "1969-07-20", "NaT"], "M8[D]"),
    "timedelta64": np.array([1, 2, 3], "m8[ms]"),
    "bytes": np.array([b"a", b"bcd", b""], "S3"),
    "str": np.array(["é", "xy", ""], "U4"),
    "big endian": np.array([1, 2, 3], ">i4"),
    "void": np.array([b"ab", b"cd", b"ef"], "V2"),
    "structured": np.array([(b"abc", (1, 2), 3), (b"d", (3, 4), -5), (b"", (0, 0), 0)], POINT),
    "aligned structure": np.array([(1, 2.5), (3, 4.5), (5, 6.5)], np.dtype("i1,f8", align=True)),
}


@pytest.mark.parametrize("size", [1, 7, 1024, 2047, 2048, 2049, 5000])
@pytest.mark.parametrize(
    "at", [None, slice(None), slice(1, -1), slice(None, None, -1), slice(0, None, 2), -1], ids=lambda at: f"{at}"
)
def test_puts_of_few_and_of_many_items_arrive_in_the_order_of_calls(spmd: Spmd, size: int, at: Any) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        x = bsp.array(size)
        bsp.sync()
        dest = (bsp.pid + 1) % bsp.p
        values = np.arange(size, dtype=float) + bsp.pid
        x.put(dest, values)
        x.put(dest, -values[() if at is None else at], at=at)
        x.put(dest, 0.5, at=0)
        bsp.sync()
        return x.local.tolist()

    for pid, found in enumerate(spmd(main)):
        expected = np.arange(size, dtype=float) + (pid - 1) % spmd.p
        expected[() if at is None else at] *= -1
        expected[0] = 0.5
        assert found == expected.tolist()


@pytest.mark.parametrize("values", DTYPES.values(), ids=DTYPES.keys())
def test_put_and_get_on_any_dtype(spmd: Spmd, values: Any) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        x = bsp.array(7, values.dtype)
        bsp.sync()
        right = (bsp.pid + 1) % bsp.p
        x.put(right, values, at=slice(0, 3))
        x.put(right, values[1], at=3)
        x.put(right, values[::-1], at=[6, 5, 4])
        bsp.sync()
        tickets = [x.get(right), x.get(right, at=1), x.get(right, at=[4, 0])]
        bsp.sync()
        return [plain(ticket.value) for ticket in tickets]

    whole = np.zeros(7, values.dtype)
    whole[:3], whole[3], whole[[6, 5, 4]] = values, values[1], values[::-1]
    one = np.asarray(whole[1], values.dtype)
    assert spmd(main) == [[plain(whole), plain(one), plain(whole[[4, 0]])]] * spmd.p


def test_put_into_one_field_by_a_whole_item(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        x = bsp.array(2, POINT)
        bsp.sync()
        x.put(bsp.pid, (b"abc", (1.0, 2.0), 3), at=0)
        x.put(bsp.pid, [(b"x", (4.0, 5.0), 6)], at=slice(1, 2))
        bsp.sync()
        return x.local.tolist()

    expected = np.array([(b"abc", (1.0, 2.0), 3), (b"x", (4.0, 5.0), 6)], POINT).tolist()
    assert [plain(result) for result in spmd(main)] == [plain(expected)] * spmd.p


def test_a_scalar_and_a_row_broadcast_to_the_indexed_shape(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        x = bsp.array((3, 4))
        bsp.sync()
        x.put(bsp.pid, 1)
        x.put(bsp.pid, [1, 2, 3, 4], at=slice(0, 2))
        x.put(bsp.pid, [[7], [8]], at=(slice(1, 3), [0, 3]))
        bsp.sync()
        return x.local.tolist()

    assert spmd(main) == [[[1, 2, 3, 4], [7, 2, 3, 7], [8, 1, 1, 8]]] * spmd.p


def test_an_index_of_none_is_a_new_axis_as_of_numpy(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        x = bsp.array(3)
        bsp.sync()
        x[bsp.pid][None] = [[1, 2, 3]]
        bsp.sync()
        ticket, whole = x[bsp.pid][None].get(), x[bsp.pid].get()
        bsp.sync()
        return ticket.value.tolist(), whole.value.tolist()

    assert spmd(main) == [([[1.0, 2.0, 3.0]], [1.0, 2.0, 3.0])] * spmd.p


def test_values_may_have_any_layout(spmd: Spmd) -> None:
    base = np.arange(24).reshape(4, 6)

    def main(bsp: pybsp.BSP) -> Any:
        x = bsp.array((2, 3), np.int64)
        seen = []
        bsp.sync()
        for values in (base[::2, ::2], np.asfortranarray(base[:2, :3]), base[::-2, 5::-2], base.T[:2, :3]):
            x.put(bsp.pid, values)
            bsp.sync()
            seen.append(bool((x.local == values).all()))
        return seen

    assert spmd(main) == [[True] * 4] * spmd.p


def test_casting_is_same_kind(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        floats, ints, flags = bsp.array(2, np.float32), bsp.array(2, np.int16), bsp.array(2, bool)
        bsp.sync()
        me = bsp.pid
        floats.put(me, np.array([0.5, 1.5]))
        floats.put(me, 3, at=0)
        ints.put(me, np.array([70000, 1]), at=slice(None))  # as numpy: same_kind may lose bits
        ints.put(me, [5, 6])
        flags.put(me, [True, False])
        wrong = [
            caught(ints.put, me, 1.5, at=0),
            caught(ints.put, me, [1.0, 2.0]),
            caught(ints.put, me, np.array([1j, 2j])),
            caught(ints.put, me, 10**6, at=0),
            caught(ints.put, me, "one", at=0),
            caught(ints.put, me, None, at=0),
            caught(flags.put, me, [1, 0]),
            caught(floats.put, me, 1j, at=0),
            caught(floats.put, me, [[1.0], [2.0, 3.0]]),
            caught(floats.put, me, np.array(["2001-01-01"], "M8[D]"), at=slice(0, 1)),
        ]
        bsp.sync()
        return floats.local.tolist(), ints.local.tolist(), flags.local.tolist(), wrong

    for floats, ints, flags, wrong in spmd(main):
        assert (floats, ints, flags) == ([3.0, 1.5], [5, 6], [True, False])
        assert [error.kind for error in wrong] == [pybsp.UsageError] * len(wrong)
        assert all(error.text.startswith("array.put: argument values: expected ") for error in wrong)
        assert all("got " in error.text for error in wrong)
        assert "expected int16 or what casts to it (same_kind), got float 1.5" in wrong[0].text


def test_masked_values_are_refused_where_their_mask_would_be_lost(spmd: Spmd) -> None:
    masked = np.ma.array([1.0, 2.0], mask=[False, True])

    def main(bsp: pybsp.BSP) -> Any:
        x, queue = bsp.array(2), bsp.queue()
        layout = pybsp.layouts.Block(2 * bsp.p, bsp.p)
        divided = bsp.array(layout)
        bsp.sync()
        pattern, fixed = x.pattern(0, slice(0, 2)), queue.pattern([0, 0])
        bsp.sync()
        errors = [
            caught(x.put, 0, masked),
            caught(x.put, 0, masked[1:], at=[1]),
            caught(divided.global_put, [0, 1], masked),
            caught(queue.send, 0, masked),
            caught(queue.send, np.array([0, 0]), masked),
            caught(pattern.put, masked, np.add),
            caught(fixed.send, masked),
        ]
        bsp.sync()
        return errors, x.local.tolist(), divided.local.tolist(), queue.values.tolist()

    for errors, *untouched in spmd(main):
        assert [error.kind for error in errors] == [pybsp.UsageError] * len(errors)
        assert all("argument values: expected an array without a mask, got a masked" in error.text for error in errors)
        assert untouched == [[0.0, 0.0], [0.0, 0.0], []]


def test_values_of_a_wrong_shape_are_an_error_at_the_call(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        x = bsp.array((2, 3))
        bsp.sync()
        wrong = [
            caught(x.put, 0, np.zeros(2)),
            caught(x.put, 0, np.zeros((3, 2))),
            caught(x.put, 0, np.zeros((1, 2, 3))),
            caught(x.put, 0, [1, 2], at=(0, 0)),
            caught(x.put, 0, [], at=0),
            caught(x.put, 0, [1, 2, 3], at=([0, 1], [0, 1])),
        ]
        bsp.sync()
        return wrong, x.local.any()

    for wrong, touched in spmd(main):
        assert [error.kind for error in wrong] == [pybsp.UsageError] * len(wrong)
        assert all("array.put: argument values: expected shape" in error.text for error in wrong)
        assert "expected shape (2, 3)" in wrong[0].text
        assert "got (2,)" in wrong[0].text
        assert not touched


OUTSIDE: dict[str, Any] = {
    "int": 4,
    "negative int": -5,
    "huge int": 2**40,
    "second axis": (0, 5),
    "slice end": slice(0, 5),
    "slice start": slice(5, None),
    "negative slice end": slice(-5, None),
    "slice end on the second axis": (slice(None), slice(2, 6)),
    "slice end after an ellipsis": (Ellipsis, slice(0, 6)),
    "index array": np.array([0, 4]),
    "negative index array": np.array([-5]),
    "list": [0, 1, 7],
    "tuple of index arrays": ([0, 1], [0, 5]),
    "three axes": (0, 0, 0),
    "three slices": (slice(None), slice(None), slice(None)),
    "arrays that do not broadcast": ([0, 1], [0, 1, 2]),
}


@pytest.mark.parametrize("at", OUTSIDE.values(), ids=OUTSIDE.keys())
def test_out_of_bounds_is_an_error_at_the_call(spmd: Spmd, at: Any) -> None:
    """Reading and writing; nothing of it is transferred."""

    def main(bsp: pybsp.BSP) -> Any:
        x = bsp.array((4, 5), np.int64)
        bsp.sync()
        errors = caught(x.put, bsp.p - 1, 1, at=at), caught(x.get, bsp.p - 1, at=at)
        bsp.sync()
        return errors, bool(x.local.any()), len(bsp.inbox)

    for (put, get), touched, messages in spmd(main):
        assert put.kind is get.kind is pybsp.BoundsError
        assert issubclass(pybsp.BoundsError, IndexError)
        for error, name in ((put, "array.put"), (get, "array.get")):
            assert error.text.startswith(f"{name}: argument at: expected an index within shape (4, 5)")
            assert f"processor {spmd.p - 1}'s part" in error.text
            assert "got " in error.text
            assert "test_put_get.py:" in error.text
        assert not touched
        assert not messages


@pytest.mark.parametrize(
    "at",
    [
        1.0,
        "0",
        True,
        slice("a"),
        slice(0.0, 2),
        slice(0, 2, 0),
        np.array([True, False, True, False]),
        np.array([0.5]),
        np.empty(0),
        [0.0],
        {0},
        (0, "x"),
        (0, None, 1.5),
    ],
    ids=repr,
)
def test_an_index_of_a_wrong_type_is_an_error_at_the_call(spmd: Spmd, at: Any) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        x = bsp.array((4, 5), np.int64)
        bsp.sync()
        return caught(x.put, 0, 1, at=at), caught(x.get, 0, at=at)

    for errors in spmd(main):
        for error in errors:
            assert error.kind is pybsp.UsageError
            assert "argument at: expected " in error.text
            assert "got " in error.text


@pytest.mark.parametrize(
    ("at", "said"),
    [
        ([[0, 1], [2]], "expected integers of one shape"),
        ([2**63], "9223372036854775808"),
        ((2**70,), "1180591620717411303424"),
        (np.array([[2**64 - 1]], np.uint64), "18446744073709551615"),
        (np.array([2**64 - 1], np.uint64), "18446744073709551615"),
    ],
    ids=["ragged", "in a list", "in a tuple", "of two axes", "unsigned"],
)
def test_an_index_beyond_all_arrays_is_an_error_that_says_so(spmd: Spmd, at: Any, said: str) -> None:
    def main(bsp: pybsp.BSP) -> None:
        x = bsp.array(4)
        bsp.sync()
        with pytest.raises((pybsp.BoundsError, pybsp.UsageError), match=rf"array\.get: argument at: .*{said}"):
            x.get(0, at)
        with pytest.raises((pybsp.BoundsError, pybsp.UsageError), match=rf"array\.put: argument at: .*{said}"):
            x.put(0, 1.0, at)

    spmd(main)


def test_gets_into_one_array_are_by_source_then_by_call(spmd: Spmd) -> None:
    """Also where some are read in shared memory, and others are sent."""

    def main(bsp: pybsp.BSP) -> Any:
        few, many = bsp.array(2, np.int64), bsp.array(50_000, np.int64)
        few.local[:], many.local[:] = 10 * bsp.pid + np.arange(2), 7 + bsp.pid
        bsp.sync()
        last, one, other = bsp.p - 1, np.zeros(2, np.int64), np.zeros(2, np.int64)
        many.get(0, slice(0, 2), into=one)
        few.get(0, into=one)
        for source in (last, 0):
            few.get(source, into=other)
            many.get(source, slice(0, 1), into=other[:1])
        bsp.sync()
        return one.tolist(), other.tolist()

    last = spmd.p - 1
    assert spmd(main) == [([0, 1], [7 + last, 10 * last + 1])] * spmd.p


@pytest.mark.parametrize(
    "operation",
    [
        "put",
        "many puts",
        "pattern put",
        "array.get",
        "array.get into a room",
        "array.global_get",
        "array.global_get of two",
        "pattern.get",
    ],
)
def test_memory_that_can_no_longer_be_written_to_is_refused_by_name(spmd: Spmd, operation: str) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        mine, into = np.zeros(20_000), np.zeros(2)
        x = bsp.register(mine)
        laid_out = bsp.array(pybsp.layouts.Cyclic(bsp.p + 1, bsp.p))
        bsp.sync()
        pattern = x.pattern(0, [0, 2])
        bsp.sync()
        if operation == "array.get":
            x.get(0, slice(0, 2), into=into)
        elif operation == "array.get into a room":
            x.get(0, slice(0, 2), into=bsp.room(0, 2))
        elif "global_get" in operation:
            laid_out.global_get([0, 1] if "two" in operation else [0, bsp.p], into=into)
        elif operation == "pattern.get":
            pattern.get(into=into)
        else:
            mine.flags.writeable = bsp.pid > 0
            if operation == "pattern put":
                pattern.put(1.0)
            else:
                x.put(0, 1.0, at=None if operation == "many puts" else 0)
        into.flags.writeable = False
        bsp.sync()

    called, *_ = operation.split()
    into_text = f"{called}: argument into, of the call in superstep 2: expected"
    with pytest.raises(pybsp.BSPError, match=into_text if "get" in operation else "array.local to be writeable"):
        spmd(main)


def test_an_into_that_is_read_only_by_the_sync_is_one_error_without_that_of_numpy(spmd: Spmd) -> None:
    printed: list[str] = []  # on this rank; an error that comes from another one has no traceback

    def main(bsp: pybsp.BSP) -> None:
        x, into = bsp.array(3), np.zeros(3)
        bsp.sync()
        x.get(0, into=into)
        into.flags.writeable = False
        try:
            bsp.sync()
        except pybsp.UsageError:
            printed.append(traceback.format_exc())
            raise

    with pytest.raises(pybsp.UsageError, match="argument into, of the call in superstep 1: expected an array that can"):
        spmd(main)
    assert printed or spmd.mpi  # another rank's may have come first
    assert all(text.count("Traceback") == 1 for text in printed), printed


@pytest.mark.parametrize("operation", ["put", "get", "get all"])
def test_an_array_that_was_resized_is_neither_written_nor_read(spmd: Spmd, operation: str) -> None:
    def main(bsp: pybsp.BSP) -> None:
        mine = np.zeros(4)
        x = bsp.register(mine)
        bsp.sync()
        if bsp.pid == 0:
            mine.resize((2,), refcheck=False)
        if bsp.pid == bsp.p - 1:
            if operation == "put":
                x.put(0, 7.0, 3)
            else:
                x.get(0, 3 if operation == "get" else None)
        bsp.sync()

    errors = spmd.errors(main)
    assert all(error is not None for error in errors)
    assert "expected array.local to have shape (4,), with which it was registered, got (2,)" in str(errors[0])


@pytest.mark.parametrize("pid", ["p", -1, "1", 0.0, None, True, [0], np.float64(0)], ids=repr)
def test_pid_equal_to_nprocs_and_what_is_no_processor_is_rejected(spmd: Spmd, pid: Any) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        x = bsp.array(1)
        bsp.sync()
        wrong = bsp.p if pid == "p" else pid
        return caught(x.put, wrong, 1.0), caught(x.get, wrong)

    for put, get in spmd(main):
        assert put.kind is get.kind is pybsp.UsageError
        assert put.text.startswith(f"array.put: argument dest: expected a processor from 0 to {spmd.p - 1}, got ")
        assert get.text.startswith(f"array.get: argument source: expected a processor from 0 to {spmd.p - 1}, got ")


def test_a_processor_may_be_an_integer_of_numpy(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        x = bsp.array(1, np.int64)
        bsp.sync()
        last: Any = np.uint8(bsp.p - 1)
        me: Any = np.int64(bsp.pid)
        x.put(last, 4)
        ticket = x.get(me)
        bsp.sync()
        return int(x.local[0]), ticket.value.tolist()

    assert spmd(main) == [(4 if pid == spmd.p - 1 else 0, [0]) for pid in range(spmd.p)]


def test_a_ticket_read_too_early_is_an_error(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        x = bsp.array(2)
        bsp.sync()
        ticket = x.get(0)
        early = caught(lambda: ticket.value)
        bsp.sync()
        return early, ticket.value.tolist(), ticket.value.flags.writeable, caught(ticket.value.fill, 1)

    for early, value, writeable, write in spmd(main):
        assert early.kind is pybsp.TicketError
        assert "superstep 1" in early.text
        assert "bsp.sync()" in early.text
        assert value == [0.0, 0.0]
        assert not writeable
        assert write.kind is ValueError


def test_a_ticket_is_filled_on_a_processor_that_alone_asks(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        x = bsp.array(1, np.int64)
        x.local[0] = bsp.pid
        bsp.sync()
        tickets = [x.get(k, at=0) for k in range(bsp.p)] if bsp.pid == bsp.p - 1 else []
        bsp.sync()
        return [int(ticket.value) for ticket in tickets]

    assert spmd(main) == [[]] * (spmd.p - 1) + [list(range(spmd.p))]


def test_only_a_superstep_with_gets_answers_them(spmd: Spmd, monkeypatch: pytest.MonkeyPatch) -> None:
    answered: list[int] = []
    reply = SuperstepEngine._reply

    def counted(engine: SuperstepEngine, parcels: Any, by_others: Any) -> Any:
        answered.append(engine.pid)
        return reply(engine, parcels, by_others)

    monkeypatch.setattr(SuperstepEngine, "_reply", counted)

    def main(bsp: pybsp.BSP) -> int:
        x, queue = bsp.array(3), bsp.queue()
        bsp.sync()
        for _ in range(3):
            ticket = x.get((bsp.pid + 1) % bsp.p)
            bsp.sync()
            queue.send(0, ticket.value.sum())
            bsp.sync()
        return answered.count(bsp.pid)

    assert spmd(main) == [3] * spmd.p


def test_a_kept_ticket_value_is_poisoned_in_checked_mode(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        x = bsp.array(4, np.uint8)
        x.local[:] = 7
        bsp.sync()
        ticket = x.get((bsp.pid + 1) % bsp.p)
        bsp.sync()
        kept, copied = ticket.value, ticket.value.copy()
        bsp.sync()
        return kept.tolist(), copied.tolist()

    for kept, copied in spmd(main):
        assert copied == [7] * 4
        if spmd.checked:
            assert kept == [0xA5] * 4


def test_kept_ticket_values_of_floats_are_poisoned_with_nan_in_checked_mode(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        x, n = bsp.array(4), bsp.array(3, np.uint8)
        bsp.sync()
        right = (bsp.pid + 1) % bsp.p
        tickets = [x.get(right, at=0), n.get(right), x.get(right)]  # in one piece of memory
        bsp.sync()
        kept = [ticket.value for ticket in tickets]
        x.get(right, at=[])  # brings no memory that could be filled
        bsp.sync()
        bsp.sync()
        return bool(np.isnan(kept[0])), kept[1].tolist(), np.isnan(kept[2]).tolist()

    if spmd.checked:
        assert spmd(main) == [(True, [0xA5] * 3, [True] * 4)] * spmd.p


def test_puts_gets_messages_and_queues_share_a_superstep(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        x, q = bsp.array(2, np.int64), bsp.queue(np.int32)
        x.local[:] = bsp.pid
        bsp.sync()
        right = (bsp.pid + 1) % bsp.p
        x.put(right, 100 + bsp.pid, at=1)
        bsp.send(right, "hello")
        ticket = x.get(right, at=1)
        q.send(right, bsp.pid)
        bsp.send(right, np.arange(3))
        bsp.sync()
        payloads = [plain(m.payload) for m in bsp.inbox]
        return x.local.tolist(), int(ticket.value), q.values.tolist(), payloads

    for pid, result in enumerate(spmd(main)):
        left, right = (pid - 1) % spmd.p, (pid + 1) % spmd.p
        assert result == ([pid, 100 + left], right, [left], [plain("hello"), plain(np.arange(3))])


@pytest.mark.parametrize("size", [3, 500, 40_000])
def test_parts_are_swapped_by_gets_into_them(spmd: Spmd, size: int) -> None:
    """What is read is what was there when the superstep ended, wherever it lies, and counts at its source."""

    def main(bsp: pybsp.BSP) -> Any:
        right, left = (bsp.pid + 1) % bsp.p, (bsp.pid - 1) % bsp.p
        x = bsp.array(size, dtype=np.int32)
        x.local[:] = bsp.pid + np.arange(size)
        chosen = np.arange(0, size, 2)
        bsp.sync()
        ticket = x.get(right, into=x.local)
        some, one = x.get(left, at=chosen), x.get(right, at=-1)
        chosen[:] = 0  # it was said what is wanted
        x.put(right, -1, at=0)
        bsp.sync()
        assert ticket.value is x.local
        assert x.local[1:].tolist() == (right + np.arange(1, size)).tolist()
        assert x.local[0] == -1  # puts are written after gets have read
        assert some.value.tolist() == (left + np.arange(0, size, 2)).tolist()
        assert one.value == right + size - 1
        record = bsp.ledger[-1]
        return record.h_out, record.h_in, record.messages, record.M

    p = spmd.p
    words = (-(-4 * size // 8)) + (-(-4 * (-(-size // 2)) // 8)) + 1 + 1
    assert set(spmd(main)) == {(words, words, 4, p * words) if p > 1 else (0, 0, 0, 0)}


SIZES = [(1, 1), (2, 13), (33, 8), (2, 8192), (2, 16384), (3, 16000), (5, 8192)]  # how many puts, and of how many bytes


@pytest.mark.whole
@pytest.mark.parametrize(
    ("who", "beside"),
    [
        ("all", "nothing"),
        ("one", "nothing"),
        ("one", "mail"),
        ("one", "a queue"),
        ("one", "another get"),
        ("none", "mail"),
    ],
)
def test_puts_that_go_as_they_are_and_reads_count_as_everywhere(spmd: Spmd, who: str, beside: str) -> None:
    """Of few bytes and of many, by all or one processor, where other processors do something else."""

    def main(bsp: pybsp.BSP) -> Any:
        x, far, q = bsp.array(48_000, np.int8), bsp.array(40_000, np.int64), bsp.queue(np.int16)
        far.local[:] = bsp.pid
        bsp.sync()
        found = []
        for k, (count, size) in enumerate(SIZES * 2):
            other = (bsp.pid + 1) % bsp.p
            tickets = []
            if who == "all" or (who == "one" and bsp.pid == bsp.p - 1):
                for one in range(count):
                    at = slice(one * size, (one + 1) * size)
                    x.put(other, np.full(size, k + one + bsp.pid, np.int8), at=at)
                tickets = [x.get(pid, at=slice(0, size)) for pid in range(bsp.p)] if k % 3 else []
            elif beside == "mail":
                bsp.send(other, k)
            elif beside == "a queue":
                q.send(other, k)
            elif beside == "another get":
                tickets = [far.get(other, at=[k, 5])]  # from memory that nobody else sees
            bsp.sync()
            read = [one.value.tolist() for one in tickets]
            found.append((read, x.local[: count * size].tolist(), q.values.tolist(), list(bsp.inbox)))
        rows = [(one.h_out, one.h_in, one.M, one.messages, one.items, one.ways) for one in bsp.ledger]
        return sha256(repr(found).encode()).hexdigest(), rows

    assert spmd(main) == pybsp.simulate(main, p=spmd.p, checked=spmd.checked).results


def test_numpy_reads_queues_and_tickets_and_of_what_lies_elsewhere_it_says_where(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        x, queue = bsp.array(2), bsp.queue()
        x.local[:] = bsp.pid
        queue.send(list(range(bsp.p)), 1.5)
        bsp.sync()
        ticket, early = x.get(bsp.p - 1), caught(lambda: np.asarray(x.get(0)))
        total = float(np.sum(queue))
        bsp.sync()
        y = np.zeros(2)
        y[:] = ticket
        x.local += 1.0  # sets the same array, too
        x.local -= 1.0
        assert np.asarray(ticket, np.int64).dtype == np.int64

        def replace() -> None:
            x.local = y

        def write() -> None:
            y[:] = x[0][1]

        def put(at: Any) -> None:
            x[at] = 1

        wrong = [
            caught(call)
            for call in (lambda: np.asarray(x), lambda: np.add(x, 1.0), write, lambda: np.sum(x[0]), replace)
        ]
        wrong += [caught(put, slice(None)), caught(put, (0, 1)), caught(lambda: x[0:1].get())]  # type: ignore[index]
        return total, y.tolist(), early, wrong

    for total, values, early, wrong in spmd(main):
        assert (total, values) == (1.5 * spmd.p, [spmd.p - 1.0] * 2)
        assert early.kind is pybsp.TicketError
        assert {error.kind for error in wrong} == {pybsp.UsageError}
        ways = ["x.local is this one's part"] * 2 + ["ticket = x[pid][...].get()"] * 2 + ["x.local[...] = values"]
        ways += ["as in x[pid][2:5]"] * 3
        assert all(way in error.text for way, error in zip(ways, wrong, strict=True)), wrong


def add_to(there: Any, values: Any) -> None:
    there += values


OPERATORS: dict[str, Callable[[Any], Any]] = {
    "equal": lambda part: part == 0,
    "not equal": lambda part: part != 0,
    "equal to none": lambda part: part == None,  # noqa: E711
    "in": lambda part: part in [0, 1],
    "if": lambda part: 1 if part else 0,
    "less": lambda part: part < np.ones(2),
    "from the right": lambda part: np.ones(2) == part,
    "plus": lambda part: 1 + part,
    "minus": lambda part: -part,
    "plus in place": lambda part: add_to(part, 1),
    "plus in place from the right": lambda part: add_to(np.ones(2), part),
}


@pytest.mark.parametrize("what", OPERATORS)
def test_what_is_computed_of_another_processors_part_says_how_it_is_got(spmd: Spmd, what: str) -> None:
    """Without operators of its own it would be equal to nothing, and true."""

    def main(bsp: pybsp.BSP) -> Any:
        x = bsp.array(3)
        bsp.sync()
        return caught(OPERATORS[what], x[bsp.p - 1][1:3])

    for error in spmd(main):
        assert error.kind is pybsp.UsageError
        assert "ticket = x[pid][...].get() asks for it" in error.text
        assert ("its put(values, np.add)" in error.text) == (what == "plus in place"), error.text
