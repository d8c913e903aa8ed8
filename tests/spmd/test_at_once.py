"""Plain calls of primitives that are one superstep: what they show on a board, and send where it is long."""

from __future__ import annotations

import gc
import operator
import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import pybsp
from pybsp.collectives import (
    allgather,
    allgather_blocks,
    allreduce,
    argmax,
    argmin,
    broadcast,
    exclusive_prefix,
    gather,
    prefix,
    redistribute,
    reduce,
    reduce_scatter,
    scatter,
    segmented_prefix,
    sort,
    total_exchange,
    total_exchange_blocks,
)
from pybsp.collectives.record_layouts import SHAPES
from pybsp.collectives.shown_values import ShownValues
from pybsp.compiled import core
from pybsp.layouts import Block, Cyclic
from tests.conftest import Spmd

from ..costs import charged, counted
from .programs import LONG, plain


def concatenated(a: Any, b: Any) -> Any:
    return np.concatenate([a, b])


AT_ONCE: dict[str, Callable[[pybsp.BSP], tuple[Any, ...]]] = {
    "exclusive_prefix of floats": lambda bsp: (exclusive_prefix, bsp.pid / 3, np.add),
    "of ints of two sizes": lambda bsp: (exclusive_prefix, [1, 1 << 70][bsp.pid % 2], operator.add),
    "of numpy's numbers": lambda bsp: (exclusive_prefix, np.int64(bsp.pid), np.maximum),
    "of numbers with a first one": lambda bsp: (exclusive_prefix, bsp.pid, operator.add, -1),
    "of arrays": lambda bsp: (exclusive_prefix, np.full((2, 3), bsp.pid + 0.5), np.multiply),
    "of arrays, by a function": lambda bsp: (exclusive_prefix, np.arange(3) - bsp.pid, concatenated),
    "of long arrays": lambda bsp: (exclusive_prefix, np.full(LONG, bsp.pid), np.add),
    "of arrays, by blocks": lambda bsp: (exclusive_prefix, np.full(99, bsp.pid), np.add, None, None, "blocks"),
    "of objects": lambda bsp: (exclusive_prefix, f"<{bsp.pid}>", operator.add, ""),
    "reduce_scatter of fewer rows than processors": lambda bsp: (reduce_scatter, np.array([bsp.pid / 3]), np.add),
    "of rows": lambda bsp: (reduce_scatter, np.arange(21.0).reshape(7, 3) / (bsp.pid + 1), np.add),
    "of rows in the fixed order": lambda bsp: (reduce_scatter, np.arange(9.0) / (bsp.pid + 1), np.add, None, "fixed"),
    "of rows, by a function": lambda bsp: (reduce_scatter, np.arange(8) ^ bsp.pid, lambda a, b: a * 10 + b),
    "of blocks": lambda bsp: (reduce_scatter, np.arange(bsp.p) - bsp.pid, np.add, [1] * bsp.p),
    "of the bytes of another machine": lambda bsp: (reduce_scatter, np.arange(8, dtype=">i4"), np.logical_and),
    "of no rows": lambda bsp: (reduce_scatter, np.zeros((0, 2)), np.add),
    "of long ones": lambda bsp: (reduce_scatter, np.arange(LONG * bsp.p) * bsp.pid, np.add),
    "argmin": lambda bsp: (argmin, np.array([3.0, bsp.pid % 2, bsp.pid % 2])),
    "argmin of an empty block": lambda bsp: (
        (argmin, np.arange(bsp.pid, dtype=np.int16)) if bsp.p > 1 else (argmin, [1])
    ),
    "argmax with one that is not a number": lambda bsp: (
        argmax,
        np.array([1.0, np.nan if bsp.pid == bsp.p - 1 else 2]),
    ),
    "segmented_prefix": lambda bsp: (segmented_prefix, np.arange(4.0), np.arange(4) == bsp.pid, np.add),
    "segmented_prefix of numbers": lambda bsp: (segmented_prefix, bsp.pid / 7, bsp.pid == 1, np.add),
    "of rows, some without any": lambda bsp: (
        segmented_prefix,
        np.ones((bsp.pid % 2, 2), np.int8),
        np.zeros(bsp.pid % 2, bool),
        np.add,
    ),
    "sort of floats": lambda bsp: (sort, [0.5, -0.0, 0.0, -2.0][bsp.pid % 4]),
    "sort of one that is not a number": lambda bsp: (sort, float("nan") if bsp.pid == 0 else float(bsp.pid)),
    "sort of ints": lambda bsp: (sort, 7 * bsp.pid % 5 - (1 << 63)),
    "sort of blocks": lambda bsp: (sort, np.array([4.0, np.nan, -bsp.pid, 0.0, -0.0])),
    "sort of blocks of several sizes": lambda bsp: (sort, np.arange(bsp.pid * 3)[::-1]),
    "sort of nothing": lambda bsp: (sort, np.zeros(0, np.int16)),
    "sort of long ones": lambda bsp: (sort, np.arange(LONG) * (bsp.pid + 3) % 1009),
    "sort of short ones and a long one": lambda bsp: (
        sort,
        np.arange(LONG if bsp.pid == bsp.p - 1 else 5) * -7.0 % 1009,
    ),
    "sort of many": lambda bsp: (sort, (np.arange(40000, dtype=np.int32) * (bsp.pid + 3) % 10007)[: 40000 - bsp.pid]),
}


@pytest.mark.parametrize("name", AT_ONCE)
def test_what_is_shown_at_once_has_the_bits_and_the_ledger_of_what_rides(spmd: Spmd, name: str) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        def bits(value: Any) -> Any:
            return repr(plain(value)), isinstance(value, np.ndarray) and value.flags.writeable

        def once(call: Callable[..., Any]) -> Any:
            before = len(bsp.ledger)
            found = bits(call(bsp, *arguments))
            bsp.sync()  # has the work after the last superstep
            rows = bsp.ledger[before:]
            return found, [(r.label, r.h_out, r.h_in, r.messages, r.M, r.work) for r in rows]

        primitive, *arguments = AT_ONCE[name](bsp)
        riding = once(lambda *given: primitive.start(*given).finish())
        # The third of arrays of one form finds all prepared.
        assert [once(primitive) for _ in range(4)] == [riding] * 4
        return True

    assert spmd(main) == [True] * spmd.p


FORMS = [np.full(3, 1.5), np.full((2, 2), 7), 0.25, np.full(3, 2.5, np.float32), None, np.full(0, 1), np.int64(-1)]


@pytest.mark.whole
def test_what_all_show_may_change_its_form_and_differ(spmd: Spmd) -> None:
    # Forms stay for some calls, in which what is needed for the next one is prepared; then all have others, or one has.
    forms = [0, 0, 0, 0, 1, 1, 1, 0, 2, 0, 3, 3, 3, 5, 5, 5, 4, 5, 6, 1]

    def main(bsp: pybsp.BSP) -> Any:
        for odd in sorted({-1, 0, bsp.p // 2, bsp.p - 1}):
            for turn, form in enumerate(forms):
                shown = [FORMS[form if pid != odd or turn % 3 else (form + turn) % 7] for pid in range(bsp.p)]
                shown = [one + pid + turn if isinstance(one, np.ndarray) else one for pid, one in enumerate(shown)]
                found = allgather(bsp, shown[bsp.pid])
                assert repr(found) == repr(shown)
                assert all(one.flags.writeable for one in found if isinstance(one, np.ndarray))
                root = turn % bsp.p
                assert repr(gather(bsp, shown[bsp.pid], root)) == repr(shown if bsp.pid == root else None)
                assert repr(scatter(bsp, shown if bsp.pid == root else None, root)) == repr(shown[bsp.pid])
                root = bsp.p - 1
                assert repr(broadcast(bsp, shown[root] if bsp.pid == root else None, root)) == repr(shown[root])
                columns = [shown[(bsp.pid + dest) % bsp.p] for dest in range(bsp.p)]
                assert repr(total_exchange(bsp, columns)) == repr(columns)
        bsp.sync()
        return [(row.h_out, row.h_in, row.messages, row.M) for row in bsp.ledger]

    found = spmd(main)
    assert found == pybsp.simulate(main, p=spmd.p).results


def test_fields_that_get_other_names_are_shown_by_those(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        fields = np.zeros(2, np.dtype([("a", "i4"), ("b", "f8")]))
        found = [allgather(bsp, fields) for _ in range(4)]
        if bsp.pid == 0:
            fields.dtype.names = ("x", "y")
        found += [allgather(bsp, fields) for _ in range(3)]
        return [[one.dtype.names for one in one_call] for one_call in found]

    after = [("x", "y"), *[("a", "b")] * (spmd.p - 1)]
    for pid, found in enumerate(spmd(main)):
        assert found[4:] == [after] * 3
        assert pid == 0 or found[:4] == [[("a", "b")] * spmd.p] * 4  # on 0 its own array is among them


class Unreadable:
    """Its pickle can be made, and not read."""

    def __reduce__(self) -> Any:
        return int, ("no number",)


def test_a_value_that_cannot_be_read_is_an_error_of_who_reads_it_and_others_go_on(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        error = ""
        try:
            broadcast(bsp, Unreadable() if bsp.pid == 0 else None)
        except ValueError as raised:
            error = str(raised)
        return error.partition(":")[0], broadcast(bsp, bsp.pid)

    assert spmd(main) == [("invalid literal for int() with base 10" if pid else "", 0) for pid in range(spmd.p)]


class OfAClass(np.ndarray):
    """As a memory-mapped array."""


@pytest.mark.parametrize("size", [0, 1, 20, LONG])
def test_sort_takes_arrays_of_a_class_of_their_own_beside_others(spmd: Spmd, size: int) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        mine = (np.arange(size) * (bsp.pid + 3) % 1009).astype(float)
        found = sort(bsp, mine.view(OfAClass) if bsp.pid % 2 else mine)
        assert type(found) is np.ndarray
        return found.tolist()

    whole = sorted(float(i * (pid + 3) % 1009) for pid in range(spmd.p) for i in range(size))
    parts = [whole[size * pid : size * (pid + 1)] for pid in range(spmd.p)]
    assert spmd(main) == parts


def test_what_stands_before_the_first_one_is_of_the_dtype_that_numbers_have_now(spmd: Spmd) -> None:
    ints = [1, 1 << 63, 1 << 64, 2]  # of the large ones op takes no two: others have floats
    values = [np.timedelta64(1, "s"), np.timedelta64(1, "ms"), 2.0, np.int16(2), np.uint8(3)]

    def main(bsp: pybsp.BSP) -> Any:
        def firsts(call: Callable[..., Any]) -> list[str]:
            found = [call(bsp, 1.0 if bsp.pid else value, np.add) for value in ints]
            found += [call(bsp, value, np.add) for value in values]
            return [repr((type(one), getattr(one, "dtype", None), one)) for one in found]

        return firsts(exclusive_prefix), firsts(lambda *given: exclusive_prefix.start(*given).finish())

    for shown, riding in spmd(main):
        assert shown == riding


def test_records_of_numpy_come_as_such_whatever_was_shown_before(spmd: Spmd) -> None:
    # numpy takes the two dtypes for equal, but only items of the first have their fields as attributes.
    dtypes = [np.dtype((np.record, [("a", "i4")])), np.dtype([("a", "i4")])]

    def main(bsp: pybsp.BSP) -> None:
        for dtype in [*dtypes, *dtypes]:
            own = np.zeros(2, dtype)
            found = [broadcast(bsp, own if bsp.pid == 0 else None), *allgather(bsp, own)]
            found += [call(bsp, own, lambda a, b: b) for call in (allreduce, prefix)]
            found += [redistribute(bsp, own, Block(2 * bsp.p, bsp.p), Cyclic(2 * bsp.p, bsp.p))]
            assert {one.dtype.type for one in found} == {dtype.type}

    spmd(main)


@pytest.mark.parametrize("kind", [float, np.float64])
def test_products_that_are_too_small_are_said_where_numpy_says_them(spmd: Spmd, kind: type) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        with np.errstate(all="raise"):
            return float(allreduce(bsp, kind(1e-200), np.multiply))

    if spmd.p == 1:
        assert spmd(main) == [1e-200]
        return
    for error in spmd.errors(main):
        assert "allreduce: argument op: raised FloatingPointError: underflow" in str(error)


def of(pid: int, turn: int) -> Any:
    """What a processor has: something long, which has no room on a board and is sent, or something short."""
    return np.full(LONG if (pid + turn) % 2 else 2, pid)


def test_what_is_short_and_what_is_long_is_exchanged_in_one_superstep(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        root = bsp.p - 1
        everything = [of(pid, 0) for pid in range(bsp.p)]
        mine = everything[bsp.pid]
        assert plain(allgather(bsp, mine)) == plain(everything)
        assert plain(gather(bsp, mine, root)) == plain(everything if bsp.pid == root else None)
        assert plain(scatter(bsp, everything, root)) == plain(mine)
        columns = [[of(source, dest) for dest in range(bsp.p)] for source in range(bsp.p)]
        assert plain(total_exchange(bsp, columns[bsp.pid])) == plain([row[bsp.pid] for row in columns])
        bsp.sync()
        words = [one.size for one in everything]
        predicted = (
            allgather.cost(bsp.machine, words)
            + gather.cost(bsp.machine, words, root)
            + scatter.cost(bsp.machine, words, root)
            + total_exchange.cost(bsp.machine, np.array([[one.size for one in row] for row in columns]))
        )
        return counted(bsp.ledger, work=False), charged(predicted, work=False)

    for counts, predicted in spmd(main):
        assert counts == predicted


@pytest.mark.parametrize("turn", [0, 1])
def test_what_rides_goes_on_beside_what_is_shown_and_what_is_long(spmd: Spmd, turn: int) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        ticket = allreduce.start(bsp, bsp.pid, np.add, degree=8)
        short = allgather(bsp, bsp.pid / 3)
        done = ticket.done
        more = allreduce.start(bsp, "a", operator.add, degree=8)
        mixed = allgather(bsp, of(bsp.pid, turn))
        return short, plain(mixed), int(ticket.value), more.value, done

    p = spmd.p
    short, mixed = [pid / 3 for pid in range(p)], plain([of(pid, turn) for pid in range(p)])
    if p > 1:
        assert spmd(main) == [(short, mixed, p * (p - 1) // 2, "a" * p, True)] * p


LONG_INT = 1 << 1_200_000  # 150 KB
LONG_DTYPE = np.dtype([(f"f{k:06}", "f8") for k in range(8000)])
WITHOUT_ROOM: dict[str, Callable[[pybsp.BSP], tuple[Any, ...]]] = {
    "all": lambda bsp: (allreduce, LONG_INT, operator.add),
    "one of a board's": lambda bsp: (allreduce, LONG_INT if bsp.pid == bsp.p - 1 else 5, operator.add),
    "beside floats": lambda bsp: (allreduce, LONG_INT if bsp.pid == 0 else 2.5, max),
    "beside ints that have room": lambda bsp: (prefix, LONG_INT if bsp.pid == bsp.p // 2 else 1 << 70, max),
    "products that grow": lambda bsp: (allreduce, (1 << 400_000) + bsp.pid, operator.mul, 2),
    "sums below": lambda bsp: (prefix, (1 << 600_000) + 1, operator.mul),
    "at a root": lambda bsp: (reduce, LONG_INT + bsp.pid, operator.add, bsp.p - 1),
    "broadcast": lambda bsp: (broadcast, LONG_INT if bsp.pid == 0 else None),
    "broadcast of an array with many fields": lambda bsp: (
        broadcast,
        np.ones(2, LONG_DTYPE) if bsp.pid == bsp.p - 1 else None,
        bsp.p - 1,
    ),
}


@pytest.mark.whole
@pytest.mark.parametrize("name", WITHOUT_ROOM)
def test_a_number_or_a_description_that_has_no_room_on_a_board_is_sent(spmd: Spmd, name: str) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        def once(call: Callable[..., Any]) -> Any:
            before = len(bsp.ledger)
            found = call(bsp, *arguments)
            bsp.sync()  # has the work after the last superstep
            rows = bsp.ledger[before:]
            bits = found.tobytes() if isinstance(found, np.ndarray) else found
            return bits, [(r.label, r.h_out, r.h_in, r.messages, r.M, r.work) for r in rows]

        primitive, *arguments = WITHOUT_ROOM[name](bsp)
        riding = once(lambda *given: primitive.start(*given).finish())
        expected = [riding, riding, riding] == [once(primitive) for _ in range(3)]
        beside = allreduce.start(bsp, 1, np.add)
        return expected, once(primitive)[0] == riding[0], int(beside.finish())

    assert spmd(main) == [(True, True, spmd.p)] * spmd.p


@pytest.mark.parametrize("size", [2, LONG])
def test_who_calls_something_else_is_told_so_everywhere(spmd: Spmd, size: int) -> None:
    def main(bsp: pybsp.BSP) -> None:
        if bsp.pid == bsp.p - 1:
            allgather(bsp, np.zeros(2))
        else:
            total_exchange(bsp, [np.zeros(size)] * bsp.p)
        bsp.sync()

    if spmd.p > 1:
        for error in spmd.errors(main):
            assert "total_exchange" in str(error)
            assert "allgather" in str(error)


# Calls of Python's functions outside of the transport that all of a plain call takes, at most. Each takes a twentieth
# of a microsecond or more; by hand, with `bsp.send` and `bsp.sync`, all of it takes three.
STEPS: dict[str, tuple[Callable[[pybsp.BSP], Callable[[], Any]], int]] = {
    "allgather": (lambda bsp: partial(allgather, bsp, np.arange(16.0)), 13),
    "total_exchange": (lambda bsp: partial(total_exchange, bsp, np.ones((bsp.p, 16))), 15),
    "gather": (lambda bsp: partial(gather, bsp, np.arange(16.0)), 14),
    "allgather_blocks": (lambda bsp: partial(allgather_blocks, bsp, np.arange(16.0)), 14),
    "total_exchange_blocks": (lambda bsp: partial(total_exchange_blocks, bsp, np.ones((bsp.p, 16))), 16),
    "allreduce": (lambda bsp: partial(allreduce, bsp, np.arange(16.0), np.add), 9),
    "prefix": (lambda bsp: partial(prefix, bsp, np.arange(16.0), np.add), 9),
}


@pytest.mark.whole
def test_what_is_remembered_of_arrays_that_were_shown_is_bounded(spmd: Spmd) -> None:
    """Views of more shapes than are remembered, of each at two places, do not pile up."""

    def main(bsp: pybsp.BSP) -> tuple[bool, int]:
        right = True
        for size in range(1, SHAPES + 40):
            found = allgather(bsp, np.full((size, 1), bsp.pid))
            right &= [int(block.sum()) for block in found] == [size * pid for pid in range(bsp.p)]
        return right, max([len(one._read) for one in gc.get_objects() if isinstance(one, ShownValues)], default=0)

    for right, remembered in spmd(main):
        assert right
        assert remembered <= SHAPES


@pytest.mark.parametrize("name", STEPS)
def test_a_call_like_the_one_before_takes_few_steps(spmd: Spmd, name: str) -> None:
    if not spmd.mpi or spmd.p != 2 or spmd.checked:
        pytest.skip("nothing is shown, or to more than one")

    def main(bsp: pybsp.BSP) -> list[str]:
        if bsp._superstep.shown is None:
            return []
        call, _ = STEPS[name]
        prepared = call(bsp)
        for _ in range(3):  # records have two places
            prepared()
        found: list[list[str]] = []

        def note(frame: Any, event: str, _: Any) -> None:
            if event == "call" and f"{os.sep}transport{os.sep}" not in frame.f_code.co_filename:
                found[-1].append(frame.f_code.co_qualname if sys.version_info >= (3, 11) else frame.f_code.co_name)

        before = sys.getprofile()
        for _ in range(5):  # now and then memory is given back meanwhile
            found.append([])
            sys.setprofile(note)
            try:
                prepared()
            finally:
                sys.setprofile(before)
        return min(found, key=len)

    for steps in spmd(main):
        assert len(steps) <= STEPS[name][1] + (core is None), steps  # in Python the log's row is a step too


def test_blocks_of_objects_and_of_other_bytes_stay_what_they_are(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        objects = np.array([None, f"of {bsp.pid}", [bsp.pid]], object)[: bsp.pid + 1]
        numbers = np.asfortranarray((np.arange(6).reshape(3, 2) + bsp.pid).astype(">i4"))
        for _ in range(2):
            found = [allgather_blocks(bsp, objects)[0], total_exchange_blocks(bsp, np.resize(objects, bsp.p))[0]]
            joined = allgather_blocks(bsp, numbers)[0]
        bsp.sync()
        assert joined.flags.c_contiguous
        return [one.tolist() for one in found], joined.dtype.str, joined.tolist()

    p = spmd.p
    objects = [[None, f"of {pid}", [pid]][: pid + 1] for pid in range(p)]
    numbers = [[k + pid, k + pid + 1] for pid in range(p) for k in (0, 2, 4)]
    for pid, (found, form, joined) in enumerate(spmd(main)):
        assert found == [[one for mine in objects for one in mine], [mine[pid % len(mine)] for mine in objects]]
        assert (form, joined) == (">i4", numbers)


def test_blocks_whose_rows_differ_in_a_later_call_are_an_error_everywhere(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> None:
        for _ in range(2):  # the second finds all prepared
            assert allgather_blocks(bsp, np.ones((1, 2)))[0].shape == (bsp.p, 2)
        allgather_blocks(bsp, np.ones((1, 3)) if bsp.pid == bsp.p - 1 else np.ones((1, 2)))

    if spmd.p > 1:
        for error in spmd.errors(main):
            assert "allgather_blocks: argument array: expected the same on all processors" in str(error)
