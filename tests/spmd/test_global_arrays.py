"""Arrays with global indices, arrays that the program has, values that come where they are used, and `x[pid][...]`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pybsp
from pybsp import collectives
from pybsp.layouts import Block, BlockCyclic, Cyclic, Layout
from pybsp.messages.outgoing import Outgoing
from tests.conftest import Spmd

from .programs import caught, plain

LAYOUTS: dict[str, Callable[[int], Layout]] = {
    "block": lambda p: Block(11, p),
    "cyclic": lambda p: Cyclic(11, p),
    "fewer": lambda p: BlockCyclic(11, (p + 1) // 2, block=2),
    "rows": lambda p: Cyclic((4, 5), (p, 1)),
    "columns": lambda p: BlockCyclic((4, 5), (1, p), block=(1, 2)),
}


def some_of(layout: Layout, pid: int) -> Any:
    """Indices of some items; of several axes with shapes that broadcast."""
    if len(layout.shape) == 1:
        return np.random.default_rng(pid).integers(0, layout.shape[0], (2, 4))
    return np.ix_([3, pid % 4], [0, 4, 1])


def test_equal_layouts_are_one_however_processors_write_them(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        layout = BlockCyclic(11, bsp.p, 1) if bsp.pid % 2 else Cyclic(11, bsp.p)
        x = bsp.array(layout, np.int64)
        x.local[:] = np.arange(11)[layout.part(bsp.pid)]
        bsp.sync()
        ticket = x.global_get(None)
        bsp.sync()
        dealt = collectives.redistribute(bsp, x.local, layout, Block(11, bsp.p))
        return plain(ticket.value.tolist() == [*range(11)]), plain(dealt)

    p = spmd.p
    assert spmd(main) == [(plain(True), plain(np.arange(11)[Block(11, p).part(pid)])) for pid in range(p)]


# -- global indices ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
def test_items_are_found_by_their_global_indices(spmd: Spmd, layout: str) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        x = bsp.array(LAYOUTS[layout](bsp.p), np.int32)
        whole = np.arange(np.prod(x.layout.shape)).reshape(x.layout.shape)
        x.local[...] = whole[x.layout.part(bsp.pid)]
        indices = some_of(x.layout, bsp.pid)
        early = x.global_pattern(indices)  # its layout says where they are, before the array can be used
        bsp.sync()
        pattern = x.global_pattern(indices)
        into = np.zeros(whole[indices].shape)
        tickets = [x.global_get(indices), x.global_get(indices, into=into)]
        bsp.sync()
        tickets += [early.get(), pattern.get()]
        bsp.sync()
        expected = whole[indices].tolist()
        found = [ticket.value.tolist() == expected for ticket in tickets], tickets[1].value is into
        if bsp.pid == 0:
            x.global_put(indices, -1 - whole[indices])
        bsp.sync()
        return *found, plain(x.local.copy())

    results, made = spmd(main), LAYOUTS[layout](spmd.p)
    whole = np.arange(np.prod(made.shape), dtype=np.int32).reshape(made.shape)
    whole[some_of(made, 0)] = -1 - whole[some_of(made, 0)]
    assert results == [([True] * 4, True, plain(whole[made.part(pid)])) for pid in range(spmd.p)]


def test_slices_numbers_and_nothing_are_indices_too(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        x = bsp.register(np.arange(9.0)[Cyclic(9, bsp.p).part(bsp.pid)].copy(), Cyclic(9, bsp.p))
        bsp.sync()
        indices: list[Any] = [slice(2, 9, 3), 4, [], np.array([7]), slice(None)]
        tickets = [x.global_get(at) for at in indices]
        early = caught(lambda: tickets[0].value).kind
        x.global_put(slice(0, 0), [])
        bsp.sync()
        if bsp.pid == bsp.p - 1:
            x.global_put(slice(0, 3), 5)
            x.global_put([8, 8], [1, 2])  # of equal indices the last value counts
        bsp.sync()
        return early, [ticket.value.tolist() for ticket in tickets], x.local.tolist()

    after = np.array([5, 5, 5, 3, 4, 5, 6, 7, 2.0])
    for pid, (early, values, local) in enumerate(spmd(main)):
        assert early is pybsp.TicketError
        assert values == [[2.0, 5.0, 8.0], 4.0, [], [7.0], list(range(9))]
        assert local == after[Cyclic(9, spmd.p).part(pid)].tolist()


@pytest.mark.parametrize(
    "make",
    [
        lambda p: BlockCyclic((7, 9), (1, p), (2, 2)),
        lambda p: Block((7, 9), (1, p)),
        lambda p: Block((7, 9), (p, 1)),
        lambda p: Cyclic((7, 9), (1, p)),
    ],
    ids=["block-cyclic", "block", "rows", "cyclic"],
)
def test_global_indices_are_those_of_numpy_on_every_axis(spmd: Spmd, make: Callable[[int], Layout]) -> None:
    whole = np.arange(7 * 9.0).reshape(7, 9)
    chosen: list[Any] = [
        (slice(1, 6, 2), -1),
        (-2, slice(None, None, -4)),
        (slice(5), [0, -3]),
        ([[1], [-1]], [0, 8]),
        3,
        slice(-3, None),
        (..., 2),
        None,
    ]

    def main(bsp: pybsp.BSP) -> Any:
        layout = make(bsp.p)
        x = bsp.register(whole[layout.part(bsp.pid)].copy(), layout)
        bsp.sync()
        patterns = [x.global_pattern(at) for at in chosen]
        bsp.sync()
        places = [np.empty(whole[() if at is None else at].shape) for at in chosen]
        tickets = [x.global_get(at) for at in chosen] + [pattern.get() for pattern in patterns]
        tickets += [x.global_get(at, into=into) for at, into in zip(chosen, places, strict=True)]
        bsp.sync()
        values = [plain(ticket.value) for ticket in tickets]
        assert values[-len(places) :] == [plain(into) for into in places]
        if bsp.pid == 0:
            x.global_put((slice(2, 4), slice(-2, None)), [[1], [2]])
        bsp.sync()
        return values, plain(x.local)

    expected = [plain(whole[() if at is None else at]) for at in chosen]
    after = whole.copy()
    after[2:4, -2:] = [[1], [2]]
    layout = make(spmd.p)
    for pid, (values, local) in enumerate(spmd(main)):
        assert values == expected * 3
        assert local == plain(after[layout.part(pid)])


OUTSIDE: list[Any] = [7, -8, (0, 9), slice(8), slice(-8, None), (slice(None), slice(0, 10)), [7], ([0], [-10])]
NONE: list[Any] = [(0, 0, 0), True, (0, np.True_), 1.0, "1", slice(0, 1.0), slice(0, 4, 0), {}]


def test_global_indices_outside_of_the_array_and_what_is_none_are_refused(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        x = bsp.array(Block((7, 9), (1, bsp.p)))
        bsp.sync()
        calls: list[Callable[[Any], Any]] = [x.global_get, lambda at: x.global_put(at, 1.0), x.global_pattern]
        errors = [[caught(call, at) for at in (*OUTSIDE, *NONE)] for call in calls]
        bsp.sync()
        return errors

    for errors in spmd(main):
        for name, of_call in zip(("get", "put", "pattern"), errors, strict=True):
            for at, error in zip((*OUTSIDE, *NONE), of_call, strict=True):
                assert error.kind is (pybsp.UsageError if any(at is one for one in NONE) else pybsp.BoundsError), at
                assert error.text.startswith(f"array.global_{name}: argument indices: expected "), (at, error)


def test_indices_of_more_axes_than_there_are_are_counted(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        x = bsp.array(Block((7, 9), (1, bsp.p)))
        bsp.sync()
        errors = [caught(x.global_get, at) for at in ((slice(None), 1, 2), (..., [0], 1, [2], 3))]
        bsp.sync()
        return [error.text for error in errors]

    for texts in spmd(main):
        assert [f"indices of {named} axes" in text for named, text in zip((3, 4), texts, strict=True)] == [True] * 2


@pytest.mark.parametrize("nothing", [[], [[]], [[], []]], ids=str)
def test_lists_of_nothing_are_indices_of_any_shape_as_in_numpy(spmd: Spmd, nothing: list[Any]) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        x = bsp.array(Cyclic(5, bsp.p))
        bsp.sync()
        x.global_put(nothing, 1.0)
        by_index, by_owner = x.global_pattern(nothing), x.pattern(np.array(nothing, np.intp), nothing)
        ticket = x.global_get(nothing)
        bsp.sync()
        return ticket.value.shape, by_index.shape, by_owner.shape, x.local.any()

    shape = np.arange(5)[nothing].shape
    assert spmd(main) == [(shape, shape, shape, False)] * spmd.p


def test_what_ints_and_slices_select_goes_without_indices(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        x = bsp.array(Block((200, 300), (bsp.p, 1)))
        bsp.sync()
        x.global_put(slice(None), 1.0)
        bytes_out = sum(out.used for out in x._superstep.accesses.puts.values() if isinstance(out, Outgoing))
        bsp.sync()
        return bytes_out, bool((x.local == 1.0).all())

    assert spmd(main) == [(8 * 200 * 300, True)] * spmd.p


def test_gets_by_global_indices_write_into_an_array_in_their_turn(spmd: Spmd) -> None:
    """By source, then by call: a global one with the last of the processors that have some of it."""

    def main(bsp: pybsp.BSP) -> Any:
        x, y = bsp.array(Block(bsp.p, bsp.p)), bsp.array(1)
        x.local[:], y.local[:] = bsp.pid, 100 + bsp.pid
        bsp.sync()
        one, other, last = np.zeros(1), np.zeros(2), bsp.p - 1
        y.get(0, into=one)
        x.global_get([0], into=one)
        x.global_get([0, last], into=other)
        y.get(0, into=other[:1])
        y.get(last, into=other[1:])
        bsp.sync()
        return one.tolist(), other.tolist()

    last = spmd.p - 1
    # The get from processor 0 comes before the last one's part of the global one, unless that is processor 0.
    assert spmd(main) == [([0], [0 if last else 100, 100 + last])] * spmd.p


def test_layouts_that_do_not_fit_are_refused_on_all(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        x = bsp.array(Block(4, bsp.p))
        early = caught(x.global_get, 0)
        bsp.sync()
        return [
            early,
            caught(bsp.array, Block(9, bsp.p + 1)),
            caught(bsp.register, np.zeros(3), Cyclic(9, (bsp.p + 1,))),
            caught(bsp.register, np.zeros(5), Block(4, bsp.p)),
            caught(bsp.register, np.zeros(5), 4),
            caught(x.global_put, [0, 4], 1.0),
            caught(x.global_get, -5),
            caught(x.global_get, slice(2, 5)),
            caught(x.global_pattern, [9]),
            caught(x.global_get, (0, 1)),
            caught(x.global_get, 0.5),
            caught(x.global_put, [0, 1], [1.0, 2.0, 3.0]),
            caught(x.global_get, [0, 1], np.zeros(3)),
        ]

    texts = [
        "is not registered yet",
        f"argument shape: expected a layout of at most {spmd.p} processors",
        f"argument layout: expected a layout of at most {spmd.p} processors",
        "argument array: expected shape",
        "argument layout: expected a layout",
        "array.global_put: argument indices: expected indices from -4 to 3",
        "array.global_get: argument indices: expected indices from -4 to 3",
        "array.global_get: argument indices: expected an index within shape (4,) of Block(4, ",
        "array.global_pattern: argument indices: expected indices from -4 to 3",
        "array.global_get: argument indices: expected a tuple with integers for each of 1 axes",
        "argument indices: expected an int or integers",
        "argument values: expected shape (2,)",
        "argument into: expected a numpy array of shape (2,)",
    ]
    for found in spmd(main):
        for error, text in zip(found, texts, strict=True):
            assert error.kind in (pybsp.UsageError, pybsp.BoundsError)
            assert text in error.text


def test_other_layouts_on_other_processors_are_an_error_on_all(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> None:
        bsp.array((Block if bsp.pid else Cyclic)(6, bsp.p))
        bsp.sync()

    if spmd.p > 1:
        errors = spmd.errors(main)
        assert any(f"float64 in Cyclic(6, {spmd.p})" in str(error) for error in errors)
        assert all(isinstance(error, pybsp.SyncError) for error in errors if error is not None)


# -- existing memory --------------------------------------------------------------------------------------------------


def test_a_registered_array_is_the_programs_own(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        mine = 10.0 * bsp.pid + np.arange(4 + bsp.pid).reshape(2, -1) if bsp.pid % 2 == 0 else np.full((1, 4), -1.0)
        x = bsp.register(mine)
        y = bsp.array(2)
        bsp.sync()
        x.put((bsp.pid + 1) % bsp.p, 99, at=(0, 1))
        ticket = x.get(0, at=(0, 0))
        y.put(bsp.pid, mine[0, :2])
        bsp.sync()
        return x.local is mine, mine[0, 1], float(ticket.value), y.local[0] == mine[0, 0]

    assert spmd(main) == [(True, 99.0, 0.0, True)] * spmd.p


def test_what_cannot_be_registered_is_refused(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        fixed = np.zeros(3)
        fixed.flags.writeable = False
        wrong = ([1.0], np.zeros((3, 3))[:, 0], np.zeros((3, 3)).T[:2], fixed, np.array([None]), np.ma.zeros(3))
        return [caught(bsp.register, one) for one in wrong]

    for found in spmd(main):
        assert [error.kind for error in found] == [pybsp.UsageError] * 6
        assert all("bsp.register: argument array: expected" in error.text for error in found)


def test_get_into_writes_where_the_program_says_before_puts_are_written(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        x = bsp.array((2, 3), np.float32)
        x.local[:] = 10 * bsp.pid + np.arange(6).reshape(2, 3)
        bsp.sync()
        right = (bsp.pid + 1) % bsp.p
        frame = np.zeros((4, 5))
        tickets = x.get(right, into=frame[1:3, 1:4]), x.get(right, at=(0, [2, 0]), into=frame[:2, 0])
        x.get(right, at=(0, 0), into=x.local[0, 0:1].reshape(()))
        x.put(right, -1.0, at=(1, 1))
        bsp.sync()
        refused = [
            caught(x.get, 0, None, np.zeros((3, 2))),
            caught(x.get, 0, 0, [1.0]),
            caught(x.get, 0, None, np.zeros((2, 3), np.int32)),
            caught(x.get, 0, None, np.broadcast_to(0.0, (2, 3))),
        ]
        return frame, [ticket.value.base is frame for ticket in tickets], x.local[:, :2], refused

    for pid, (frame, same, local, refused) in enumerate(spmd(main)):
        right = 10 * ((pid + 1) % spmd.p)
        expected = np.zeros((4, 5))
        expected[1:3, 1:4] = right + np.arange(6).reshape(2, 3)
        expected[:2, 0] = right + 2, right
        assert frame.tolist() == expected.tolist()
        assert same == [True, True]
        assert local.tolist() == [[right, 10 * pid + 1], [10 * pid + 3, -1]]
        assert [error.kind for error in refused] == [pybsp.UsageError] * 4
        assert all("array.get: argument into: expected" in error.text for error in refused)


def test_indexing_by_processor_is_put_and_get(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        x = bsp.array(6, np.int64)
        y = bsp.array((2, 2))
        bsp.sync()
        left = np.int64((bsp.pid - 1) % bsp.p)
        x[left][2:5] = 10 * bsp.pid + np.arange(3)
        x[left][[0, 5]] = 7
        x[left][1].put(8)
        y[left] = bsp.pid
        bsp.sync()
        mine = np.zeros(3)
        tickets = x[left][2:4].get(), x[left].get(), x[left][2:5].get(into=mine), y[left][0, 1].get()
        bsp.sync()
        found = [ticket.value.tolist() for ticket in tickets]
        return found, mine.tolist(), caught(lambda: x[left][1][2]), caught(iter, x), caught(iter, x[0]), repr(x[0][1:2])

    p = spmd.p
    for pid, (found, mine, *errors, shown) in enumerate(spmd(main)):
        by = 10 * pid
        whole = [7, 8, by, by + 1, by + 2, 7]
        assert found == [whole[2:4], whole, [float(one) for one in whole[2:5]], float(pid)] or p == 1
        assert mine == [by, by + 1, by + 2]
        assert [error.kind for error in errors] == [pybsp.UsageError, TypeError, pybsp.UsageError]
        assert "slice(1, 2, None) of processor 0's part" in shown


# -- redistribution ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("to", ["block", "cyclic", "fewer"])
def test_an_array_is_redistributed(spmd: Spmd, to: str) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        one, other = Block(11, bsp.p), LAYOUTS[to](bsp.p)
        whole = np.arange(22, dtype=">f4").reshape(11, 2)
        mine = whole[one.part(bsp.pid)].copy()
        ticket = collectives.redistribute.start(bsp, mine, one, other)
        mine[:] = -1  # it was copied
        bsp.send(0, "beside")
        while not ticket.done:
            bsp.sync()
        back = collectives.redistribute(bsp, ticket.value, other, one)
        again = collectives.redistribute(bsp, back, one, one)
        same = again is not back and plain(again) == plain(whole[one.part(bsp.pid)])
        bsp.sync()
        return same, plain(ticket.value.copy())

    whole, layout = np.arange(22, dtype=">f4").reshape(11, 2), LAYOUTS[to](spmd.p)
    assert spmd(main) == [(True, plain(whole[layout.part(pid)])) for pid in range(spmd.p)]


WRONG: dict[str, Callable[..., Any]] = {
    "array": lambda bsp, one, other: (np.zeros(99), one, other),
    "objects": lambda bsp, one, other: (np.array([None]), one, other),
    "list": lambda bsp, one, other: ([1.0], one, other),
    "from_layout": lambda bsp, one, other: (np.zeros(1), Block(8, bsp.p + 1), other),
    "to_layout": lambda bsp, one, other: (np.zeros(one.local_shape(bsp.pid)), one, Block(9, bsp.p)),
    "no layout": lambda bsp, one, other: (np.zeros(one.local_shape(bsp.pid)), one, bsp.p),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_cannot_be_redistributed_is_refused_on_all(spmd: Spmd, wrong: str) -> None:
    def main(bsp: pybsp.BSP) -> None:
        one, other = Block(8, bsp.p), Cyclic(8, bsp.p)
        if bsp.pid == 0:
            collectives.redistribute(bsp, *WRONG[wrong](bsp, one, other))
        else:
            collectives.redistribute(bsp, np.zeros(one.local_shape(bsp.pid)), one, other)

    argument = {"objects": "array", "list": "array", "no layout": "to_layout"}.get(wrong, wrong)
    found = [str(error) for error in spmd.errors(main) if error is not None]
    assert any(f"redistribute: argument {argument}: expected" in text for text in found)


def test_a_masked_array_is_refused_with_what_makes_one_without_a_mask(spmd: Spmd) -> None:
    masked = np.ma.array(np.zeros(2), mask=True)

    def main(bsp: pybsp.BSP) -> None:
        layout = Block(2 * bsp.p, bsp.p)
        collectives.redistribute(bsp, masked, layout, layout)

    for error in spmd.errors(main):
        assert "argument array: expected an array without a mask, got a masked one; use .compressed()" in str(error)


def test_redistributions_that_differ_are_an_error_on_all(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> None:
        one, other = Block(8, bsp.p), Cyclic(8, bsp.p) if bsp.pid else BlockCyclic(8, bsp.p, 2)
        collectives.redistribute(bsp, np.zeros(one.local_shape(bsp.pid)), one, other)

    if spmd.p > 1:
        errors = spmd.errors(main)
        assert any("redistribute: argument to_layout: expected the same" in str(error) for error in errors)
        assert None not in errors or not spmd.mpi


def test_of_memory_in_fortrans_order_the_transpose_is_registered(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        mine = np.asfortranarray(np.zeros((2, 3)))
        refused = caught(bsp.register, mine), caught(bsp.register, np.zeros((2, 6))[:, ::2])
        x = bsp.register(mine.T)
        bsp.sync()
        x.put((bsp.pid + 1) % bsp.p, [1.0, 2.0], at=2)
        bsp.sync()
        return refused, mine.tolist()

    for refused, mine in spmd(main):
        for error in refused:
            assert "expected a C-contiguous numpy array" in error.text
            assert "array.T is one where array is in Fortran's order" in error.text
        assert mine == [[0, 0, 1], [0, 0, 2]]
