"""Typed queues: whole arrays of small messages."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import pybsp
from pybsp.compiled import core
from pybsp.layouts import Block
from pybsp.transport.wire import PLAIN_HEADER, packed_section
from pybsp.ways import BY_QUEUE
from tests.conftest import Spmd, on_processors

from .programs import caught, plain

ITEM = np.dtype([("key", "i4"), ("value", "f8"), ("name", "S3")])


@on_processors
def test_items_are_ordered_by_source_then_by_send(bsp: pybsp.BSP) -> None:
    n = 500

    def dests(pid: int) -> Any:
        return np.random.default_rng(pid).integers(0, bsp.p, n)

    q = bsp.queue(np.int64)
    q.send(dests(bsp.pid), bsp.pid * n + np.arange(n))
    bsp.sync()
    expected = np.concatenate([s * n + np.flatnonzero(dests(s) == bsp.pid) for s in range(bsp.p)])
    assert plain(q.values) == plain(expected)
    assert plain(q.sources) == plain((expected // n).astype(np.intp))
    assert len(q) == expected.size


@on_processors
def test_scalar_and_array_sends_keep_the_order_of_calls_for_each_destination(bsp: pybsp.BSP) -> None:
    q = bsp.queue(np.float64)
    everybody = np.arange(bsp.p)
    for k in range(3):
        for dest in range(bsp.p):
            q.send(dest, 10 * k + 1)
        q.send(everybody, 10 * k + 2.0)
        q.send(everybody[::-1], np.full(bsp.p, 10 * k + 3))
        q.send(np.int64(0), np.float32(10 * k + 4))
        q.send(bsp.p - 1, [10 * k + 5, 10 * k + 6])
    bsp.sync()
    one = []
    for k in (0, 10, 20):
        one += [k + 1, k + 2, k + 3]
        one += [k + 4] if bsp.pid == 0 else []
        one += [k + 5, k + 6] if bsp.pid == bsp.p - 1 else []
    assert q.values.tolist() == one * bsp.p
    assert q.sources.tolist() == [s for s in range(bsp.p) for _ in one]


@on_processors
def test_what_several_sends_have_for_a_processor_lies_in_one_piece_before_the_sync(bsp: pybsp.BSP) -> None:
    n, dest = 20_000, (bsp.pid + 1) % bsp.p
    q = bsp.queue(np.int64)
    for k in range(5):
        q.send(dest, k * n + np.arange(n))
    q.send(np.full(n, dest), 5 * n + np.arange(n))
    ((to, (piece, used)),) = q._out.items()
    parcels: dict[int, Any] = {}
    q.pack(parcels)
    ((_, _, count, data),) = parcels[dest].values()
    assert (to, used, count) == (dest, 8 * 6 * n, 6 * n)
    assert np.shares_memory(data, piece)
    q._out = {to: (piece, used)}
    bsp.sync()
    assert np.array_equal(q.values, np.arange(6 * n))


@on_processors
def test_sending_copies_at_the_call(bsp: pybsp.BSP) -> None:
    q = bsp.queue(np.int64)
    dests, values = np.full(3, (bsp.pid + 1) % bsp.p), np.arange(3)
    q.send(dests, values)
    dests[:], values[:] = bsp.pid, 9
    bsp.sync()
    assert (q.values.tolist(), q.sources.tolist()) == ([0, 1, 2], [(bsp.pid - 1) % bsp.p] * 3)


def test_items_sent_one_at_a_time_arrive_however_many_they_are(spmd: Spmd) -> None:
    p, counts = spmd.p, (1, 4, 5, 40, 300)

    def main(bsp: pybsp.BSP) -> Any:
        queue, found = bsp.queue(np.int64), []
        for count in counts:
            for k in range(count):
                queue.send((bsp.pid + k) % p, k)
            bsp.sync()
            found.append(list(zip(queue.sources.tolist(), queue.values.tolist(), strict=True)))
        return found

    for pid, found in enumerate(spmd(main)):
        for count, came in zip(counts, found, strict=True):
            assert came == [(source, k) for source in range(p) for k in range(count) if (source + k) % p == pid]


def test_items_sent_one_at_a_time_are_laid_however_many_they_are() -> None:
    def main(bsp: pybsp.BSP) -> None:
        queue, other = bsp.queue(np.int64), 1 - bsp.pid
        for count in 1, 4, 5, 40:
            for k in range(count):
                queue.send(other, k)
            texts: dict[int, Any] = {}
            laid = queue.lay(texts, {})
            assert laid is not None
            assert laid[0] == count
            assert np.frombuffer(texts[other], np.int64, -1, PLAIN_HEADER).tolist() == list(range(count))
            bsp.sync()
            assert queue.values.tolist() == list(range(count))

    pybsp.simulate(main, p=2)


def test_what_several_sends_have_for_a_processor_is_laid_in_one_text_unless_it_is_long() -> None:
    def main(bsp: pybsp.BSP) -> None:
        queue, other = bsp.queue(np.int32), 1 - bsp.pid
        for count in 10, 200, 6000:
            values = np.arange(3 * count)
            for part in np.split(values, 3):
                queue.send(other, part)
            texts: dict[int, Any] = {}
            laid = queue.lay(texts, {})
            if count < 6000:
                assert laid == (3 * count, BY_QUEUE)
                assert packed_section(texts[other])[1:3] == (3 * count, 1)  # words, messages
                assert np.frombuffer(texts[other], np.int32, -1, PLAIN_HEADER).tolist() == values.tolist()
            else:
                assert laid is None
            bsp.sync()
            assert queue.values.tolist() == values.tolist()

    pybsp.simulate(main, p=2)


def test_a_single_item_is_copied_at_the_call_whatever_it_is_a_view_of(spmd: Spmd) -> None:
    class Tagged(np.ndarray[Any, Any]):
        pass

    class Holder:
        def __init__(self, array: Any) -> None:
            self.array = array

        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return self.array

    def main(bsp: pybsp.BSP) -> Any:
        numbers, items = bsp.queue(np.float64), bsp.queue(ITEM)
        dest = (bsp.pid + 1) % bsp.p
        value, table = np.array(1.0), np.array([(1, 2.0, b"x"), (3, 4.0, b"y")], ITEM)
        for single in (value, value.view(Tagged), memoryview(value), Holder(value)):  # type: ignore[arg-type]
            numbers.send(dest, single)
        items.send(dest, table[1])  # a scalar with fields is a view of its array
        value[()] = 9.0
        table[1] = (5, 6.0, b"z")
        bsp.sync()
        return numbers.values.tolist(), items.values.tolist()

    assert spmd(main) == [([1.0] * 4, [(3, 4.0, b"y")])] * spmd.p


def test_numbers_of_python_that_a_float_holds(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        queue = bsp.queue(np.float64)
        queue.send(bsp.pid, 2**64)
        queue.send([bsp.pid] * 2, [1.5, -(2**70)])
        bsp.sync()
        return queue.values.tolist(), str(caught(queue.send, 0, 2**2000)), str(caught(queue.send, [0, 0], [None, 1]))

    for values, too_large, none in spmd(main):
        assert values == [2.0**64, 1.5, -(2.0**70)]
        assert "int too large to convert to float" in too_large
        assert "expected float64 or what casts to it" in none


@on_processors
@pytest.mark.parametrize("kind", ["b", "B", "h", "H", "i", "I", "q", "Q", ">i4"])
def test_destinations_of_any_integer_dtype(bsp: pybsp.BSP, kind: str) -> None:
    q = bsp.queue(np.int64)
    q.send(np.arange(bsp.p).astype(kind), np.arange(bsp.p))
    q.send(np.array((bsp.pid + 1) % bsp.p).astype(kind), 100)
    q.send(list(range(bsp.p)), np.arange(bsp.p) + 50)
    bsp.sync()
    assert q.values.tolist() == [
        item for source in range(bsp.p) for item in (bsp.pid, *[100] * (bsp.pid == (source + 1) % bsp.p), bsp.pid + 50)
    ]


QUEUE_DTYPES: dict[str, Any] = {
    "int8": np.array([-1, 2], np.int8),
    "uint64": np.array([2**64 - 1, 0], np.uint64),
    "bool": np.array([True, False]),
    "float16": np.array([0.5, np.nan], np.float16),
    "complex": np.array([1j, 2.0]),
    "datetime64": np.array(["2001-01-01", "NaT"], "M8[D]"),
    "three bytes": np.array([b"abc", b"d"], "S3"),
    "str": np.array(["ä", "bc"], "U2"),
    "big endian": np.array([1, 2], ">i8"),
    "structured": np.array([(1, 2.5, b"abc"), (3, 4.5, b"d")], ITEM),
    "aligned": np.array([(1, 2.5), (3, 4.5)], np.dtype("i1,f8", align=True)),
}


@pytest.mark.parametrize("values", QUEUE_DTYPES.values(), ids=QUEUE_DTYPES.keys())
def test_queues_of_any_dtype(spmd: Spmd, values: Any) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        q = bsp.queue(values.dtype)
        q.send((bsp.pid + 1) % bsp.p, values)
        q.send([(bsp.pid + 1) % bsp.p] * 2, values[::-1])
        q.send((bsp.pid + 1) % bsp.p, values[1])
        bsp.sync()
        return plain(q.values.copy())

    expected = np.concatenate([values, values[::-1], values[1:]]).astype(values.dtype)  # numpy joins in native order
    assert spmd(main) == [plain(expected)] * spmd.p


def test_structured_items_one_at_a_time_as_tuples(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        q = bsp.queue(ITEM)
        q.send((bsp.pid + 1) % bsp.p, (1, 2.0, b"x"))
        q.send([(bsp.pid + 1) % bsp.p], [(3, 4.0, b"y")])
        bsp.sync()
        return q.values["key"].tolist(), q.values["name"].tolist()

    assert spmd(main) == [([1, 3], [b"x", b"y"])] * spmd.p


def test_empty_sends_are_legal_anywhere_and_do_nothing(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        q = bsp.queue(np.int32)
        q.send([], [])
        q.send(np.empty(0, np.int64), np.empty(0, np.int32))
        q.send(0, [])
        q.send([], 5)
        bsp.sync()
        sizes = (len(q), q.values.shape, q.sources.shape, str(q.values.dtype))
        q.send(0, 1) if bsp.pid == 0 else q.send([], [])
        bsp.sync()
        q.send([], [])  # also where nothing follows
        return sizes, q.values.tolist()

    expected = (0, (0,), (0,), "int32")
    assert spmd(main) == [(expected, [1])] + [(expected, [])] * (spmd.p - 1)


def test_a_queue_is_usable_at_once_and_never_fills_the_inbox(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        first = bsp.queue(np.int64)
        first.send((bsp.pid + 1) % bsp.p, 1)
        before = len(first)
        bsp.sync()
        second = bsp.queue(np.int64)  # made later, used beside the first
        counts = [(len(first), len(second), len(bsp.inbox))]
        second.send(bsp.pid, 2)
        bsp.send(bsp.pid, "mail")
        bsp.sync()
        counts.append((len(first), len(second), len(bsp.inbox)))
        bsp.sync()
        counts.append((len(first), len(second), len(bsp.inbox)))
        return before, counts

    assert spmd(main) == [(0, [(1, 0, 0), (0, 1, 1), (0, 0, 0)])] * spmd.p


def test_many_queues_at_once(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        queues = [bsp.queue(f"S{k}") for k in range(1, 40)]
        for k, queue in enumerate(reversed(queues)):
            queue.send((bsp.pid + k) % bsp.p, b"x" * 50)
        bsp.sync()
        return [(len(q), q.sources.tolist(), q.values.dtype.itemsize) for q in queues]

    for pid, got in enumerate(spmd(main)):
        assert got == [(1, [(pid - (38 - k)) % spmd.p], k + 1) for k in range(39)]


def test_values_and_sources_are_read_only(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        q = bsp.queue(np.int64)
        flags = [q.values.flags.writeable, q.sources.flags.writeable]
        q.send(np.arange(bsp.p), 1)
        bsp.sync()
        return [*flags, q.values.flags.writeable, q.sources.flags.writeable]

    assert spmd(main) == [[False] * 4] * spmd.p


def test_kept_values_are_poisoned_in_checked_mode(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        q = bsp.queue(np.uint8)
        q.send(np.arange(bsp.p), 7)
        bsp.sync()
        kept, copied = q.values, q.values.copy()
        bsp.sync()
        return kept.tolist(), copied.tolist(), q.values.tolist()

    for kept, copied, now in spmd(main):
        assert copied == [7] * spmd.p
        assert now == []
        if spmd.checked:
            assert kept == [0xA5] * spmd.p


@pytest.mark.parametrize("freed", [False, True], ids=["kept", "freed"])
def test_kept_floats_are_poisoned_with_nan_in_checked_mode(spmd: Spmd, freed: bool) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        floats, fields = bsp.queue(np.float32), bsp.queue([("a", np.float64), ("b", np.int32)])
        floats.send(np.arange(bsp.p), 1.0)
        fields.send((bsp.pid + 1) % bsp.p, np.ones(3, fields.dtype))
        if freed:
            floats.free()
            fields.free()
        bsp.sync()
        kept = floats.values, fields.values
        bsp.sync()
        return np.isnan(kept[0]).tolist(), np.isnan(kept[1]["a"]).tolist(), kept[1]["b"].tolist()

    if spmd.checked:
        odd = int(np.full(4, 0xA5, np.uint8).view(np.int32)[0])
        assert spmd(main) == [([True] * spmd.p, [True] * 3, [odd] * 3)] * spmd.p


def test_casting_is_same_kind(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        ints, floats = bsp.queue(np.int16), bsp.queue(np.float32)
        ints.send(bsp.pid, [1, 2])
        ints.send(bsp.pid, np.array([3], np.int64))
        floats.send(bsp.pid, 4)
        floats.send([bsp.pid], np.array([5.5]))
        wrong = [
            caught(ints.send, 0, 1.5),
            caught(ints.send, 0, [1.5]),
            caught(ints.send, 0, 10**6),
            caught(ints.send, 0, "x"),
            caught(ints.send, [0], np.array([1j])),
            caught(floats.send, 0, 1j),
            caught(floats.send, 0, None),
        ]
        bsp.sync()
        return ints.values.tolist(), floats.values.tolist(), wrong

    for ints, floats, wrong in spmd(main):
        assert (ints, floats) == ([1, 2, 3], [4.0, 5.5])
        assert [error.kind for error in wrong] == [pybsp.UsageError] * len(wrong)
        assert all(error.text.startswith("queue.send: argument values: expected ") for error in wrong)
        assert all("got " in error.text for error in wrong)


@pytest.mark.parametrize("kind", ["M", "m"])
def test_a_unit_of_time_that_a_queue_does_not_have_is_an_error(spmd: Spmd, kind: str) -> None:
    """numpy casts to no unit by taking that of the values: their bits would be read as others."""

    def main(bsp: pybsp.BSP) -> Any:
        q, values = bsp.queue(f"{kind}8"), np.array([3, 4], f"{kind}8[h]")
        q.send(0, np.zeros(1, f"{kind}8"))
        errors = [caught(q.send, dests, values) for dests in (0, [0, 0])]
        bsp.sync()
        return errors, len(q)

    name = {"M": "datetime64", "m": "timedelta64"}[kind]
    for pid, (errors, items) in enumerate(spmd(main)):
        assert items == (spmd.p if pid == 0 else 0)
        for error in errors:
            assert f"argument values: expected {name} or what casts to it (same_kind), got {name}[h]" in error.text
            assert error.text.endswith(f'give what gets them a unit of time, as "{kind}8[s]"')


WAYS = [
    ([0.0], ".astype(np.int64) makes such of an array"),
    (0.0, "int(...) makes one of a float"),
    ({0}, "list(...) makes such of a set, a range or a generator"),
    (map(int, "0"), "list(...) makes such of a set, a range or a generator"),
]


@pytest.mark.parametrize(("given", "way"), WAYS, ids=["floats", "float", "set", "iterator"])
def test_what_is_no_integers_is_refused_with_a_way_out(given: Any, way: str) -> None:
    """As destinations, indices of puts, and global indices."""

    def main(bsp: pybsp.BSP) -> Any:
        q, x = bsp.queue(), bsp.array(Block(4, bsp.p))
        bsp.sync()
        calls: list[Any] = [partial(q.send, given, 1), partial(q.pattern, given), partial(x.global_get, given)]
        return [caught(call).text for call in (*calls, partial(x.put, 0, 1, at=given))]

    for text in pybsp.simulate(main, p=2).results[0]:
        assert text.endswith(f"; {way}")


DESTS = ["p", -1, [0, "p"], [0, -1], 0.0, [0.5], "0", None, True, [True], [[0]], np.zeros((1, 1), int)]


@pytest.mark.parametrize("dests", DESTS, ids=repr)
def test_pid_equal_to_nprocs_and_what_is_no_processor_is_rejected(spmd: Spmd, dests: Any) -> None:
    """The whole send is refused: nothing of it is delivered."""

    def main(bsp: pybsp.BSP) -> Any:
        q = bsp.queue(np.int64)
        wrong = [bsp.p if d == "p" else d for d in dests] if isinstance(dests, list) else dests
        wrong = bsp.p if isinstance(dests, str) and dests == "p" else wrong
        errors = [caught(q.send, wrong, 1), caught(q.send, wrong, 1.5), caught(q.send, wrong, np.int64(1))]
        bsp.sync()
        return errors, len(q)

    for errors, items in spmd(main):
        for error in errors:
            assert error.kind is pybsp.UsageError
        assert errors[0].text.startswith("queue.send: argument dests: expected ")
        assert "got " in errors[0].text
        assert items == 0


def test_values_of_a_wrong_shape_are_an_error_at_the_call(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        q = bsp.queue(np.int64)
        wrong = [
            caught(q.send, [0, 0], [1, 2, 3]),
            caught(q.send, [0, 0], [1]),
            caught(q.send, [], [1]),
            caught(q.send, [0], [[1]]),
            caught(q.send, 0, [[1, 2]]),
        ]
        bsp.sync()
        return wrong, len(q)

    for wrong, items in spmd(main):
        assert [error.kind for error in wrong] == [pybsp.UsageError] * len(wrong)
        assert all("queue.send: argument values: expected a scalar or shape" in error.text for error in wrong)
        assert items == 0


@pytest.mark.parametrize("dtype", [object, "S0", "V0", "U", ("i4", (2,)), "no such", [("a", object)]], ids=repr)
def test_a_dtype_that_a_queue_cannot_have_is_an_error_at_the_call(spmd: Spmd, dtype: Any) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        return caught(bsp.queue, dtype)

    for error in spmd(main):
        assert error.kind is pybsp.UsageError
        assert error.text.startswith("bsp.queue: argument dtype: expected ")


@pytest.mark.parametrize("dtype", [str, bytes])
def test_a_queue_of_texts_is_told_to_say_how_long_they_are(dtype: Any) -> None:
    with pytest.raises(pybsp.UsageError, match=r"whose items have none; say how long texts are at most, as \"U20\"$"):
        pybsp.simulate(lambda bsp: bsp.queue(dtype), p=1)


def test_large_sends(spmd: Spmd) -> None:
    """Larger than any head, and than the buffers that are used again."""
    n = 60_000

    def main(bsp: pybsp.BSP) -> Any:
        q = bsp.queue(np.int64)
        sums = []
        for k in range(3):
            q.send(np.arange(n) % bsp.p, np.arange(n) + k)
            bsp.sync()
            sums.append((int(q.values.sum()), len(q), np.unique(q.sources).tolist()))
        return sums

    for pid, sums in enumerate(spmd(main)):
        mine = np.arange(pid, n, spmd.p)
        expected = [(spmd.p * int((mine + k).sum()), spmd.p * mine.size, list(range(spmd.p))) for k in range(3)]
        assert sums == expected


@pytest.mark.parametrize("sends", [[999], [1000], [5000], [3000, 3000, 3000, 100, 9000]], ids=str)
def test_many_items_arrive_in_the_order_of_sending_for_every_destination(spmd: Spmd, sends: list[int]) -> None:
    count = sum(sends)

    def main(bsp: pybsp.BSP) -> bool:
        dests = np.random.default_rng(bsp.pid).integers(0, bsp.p, count)
        items = np.arange(count) * bsp.p + bsp.pid
        q = bsp.queue(np.int64)
        for piece in np.split(np.arange(count), np.cumsum(sends)[:-1]):
            q.send(dests[piece], items[piece])
        bsp.sync()
        expected = [
            np.flatnonzero(np.random.default_rng(source).integers(0, bsp.p, count) == bsp.pid) * bsp.p + source
            for source in range(bsp.p)
        ]
        return np.array_equal(q.values, np.concatenate(expected))

    assert spmd(main) == [True] * spmd.p


@pytest.mark.parametrize("count", [7, 3000])
def test_what_several_sends_bring_together_stays_apart_by_destination(spmd: Spmd, count: int) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        queue = bsp.queue(np.int32)
        pattern = queue.pattern(np.arange(bsp.p))
        dests = np.arange(count) % bsp.p
        found = []
        for superstep in range(3):  # the memory of one is used again by a later one
            queue.send(dests, 1000 * superstep + np.arange(count, dtype=np.int32))
            queue.send((bsp.pid + 1) % bsp.p, [-1, -2])
            pattern.send(-3 - bsp.pid)
            queue.send(dests[::-1], np.int32(superstep))
            bsp.sync()
            found.append((queue.sources.copy(), queue.values.copy()))
        return found

    for pid, found in enumerate(spmd(main)):
        mine = np.arange(count)[np.arange(count) % spmd.p == pid]
        for superstep, (sources, values) in enumerate(found):
            for source in range(spmd.p):
                extra = [-1, -2] if (source + 1) % spmd.p == pid else []
                expected = [*(1000 * superstep + mine), *extra, -3 - source, *[superstep] * mine.size]
                assert values[sources == source].tolist() == expected


def test_freeing_a_queue_takes_effect_at_the_next_sync(spmd: Spmd) -> None:
    """What was sent before arrives, and can be read until the sync after it."""

    def main(bsp: pybsp.BSP) -> Any:
        q, other = bsp.queue(np.int64), bsp.queue(np.int64)
        right = (bsp.pid + 1) % bsp.p
        q.free()
        q.send(right, bsp.pid)
        other.send(right, -bsp.pid)
        bsp.sync()
        arrived = (q.values.tolist(), q.sources.tolist(), len(q), other.values.tolist())
        sends: list[tuple[Any, Any]] = [(0, 1), (0, [1, 2]), ([0], 1), ([], []), (-1, 1)]
        late = [caught(q.send, *what) for what in sends]
        bsp.sync()
        late += [caught(lambda: q.values), caught(lambda: q.sources), caught(len, q)]
        return arrived, late, repr(q)

    for pid, (arrived, late, text) in enumerate(spmd(main)):
        left = (pid - 1) % spmd.p
        assert arrived == ([left], [left], 1, [-left])
        for error in late:
            assert error.kind is pybsp.UsageError
            assert "freed" in error.text
            assert "test_queues.py:" in error.text
        assert text == "<freed queue of int64>"


def test_a_queue_to_which_nothing_came_is_empty_and_gone_alike(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        q = bsp.queue()
        bsp.sync()
        q.free()
        twice = caught(q.free)
        bsp.sync()
        empty = len(q)
        again = caught(q.free)
        bsp.sync()
        return empty, caught(len, q).kind, twice, again

    for empty, gone, *freed in spmd(main):
        assert (empty, gone) == (0, pybsp.UsageError)
        for error in freed:
            assert error.kind is pybsp.UsageError
            assert "queue.free: the queue made at" in error.text
            assert "freed already" in error.text


@pytest.mark.whole
def test_streams_of_freed_queues_are_used_again_and_mix_nothing(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        wrong: list[Any] = []
        kept = bsp.queue(np.int32)
        for k in range(40):
            queues = [bsp.queue(np.int64 if (k + n) % 2 else "S3") for n in range(4)]
            dests = np.arange(bsp.p)
            for n, queue in enumerate(queues):
                queue.send(dests, 100 * k + n if queue.dtype == np.int64 else f"{k},{n}".encode()[:3])
            kept.send(dests, k)
            for n in (2, 0, 3):
                queues[n].free()
            bsp.sync()
            fresh = bsp.queue(np.int8)  # by a stream whose last items can still be read
            fresh.send(bsp.pid, 1)
            for n, queue in enumerate(queues):
                expected = 100 * k + n if queue.dtype == np.int64 else f"{k},{n}".encode()[:3]
                if queue.values.tolist() != [expected] * bsp.p:
                    wrong.append((k, n, queue.values.tolist()))
            if kept.values.tolist() != [k] * bsp.p:
                wrong.append((k, "kept", kept.values.tolist()))
            queues[1].free()
            bsp.sync()
            if fresh.values.tolist() != [1]:
                wrong.append((k, "fresh", fresh.values.tolist()))
            fresh.free()
        return wrong, max(queue.number for queue in (fresh, *queues))

    for wrong, largest in spmd(main):
        assert wrong == []
        assert largest < 12


def test_processors_that_free_different_queues_are_told(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> None:
        queues = [bsp.queue(), bsp.queue()]
        bsp.sync()
        queues[bsp.pid % 2].free()
        bsp.sync()

    errors = spmd.errors(main)
    if spmd.p > 1:
        for error in errors:
            assert isinstance(error, pybsp.SyncError)
            assert "free of queue 0" in str(error)
            assert "free of queue 1" in str(error)


def test_what_is_sent_by_queues_and_mail_arrives_whatever_the_others_send(spmd: Spmd) -> None:
    """Little from queues alone takes a way of its own; others meet it with mail, much, nothing, and two queues."""
    few, much = np.arange(3.0), np.arange(5000.0)

    def sends(bsp: pybsp.BSP, queues: Any, what: str) -> None:
        one, other = queues
        everybody = np.arange(bsp.p)
        if what in ("few", "two queues"):
            one.send(everybody, everybody + 10.0 * bsp.pid)  # these in the order of calls
            one.send((bsp.pid + 1) % bsp.p, few)
            one.send(everybody, -1.0 - bsp.pid)
            one.send(everybody, everybody + 0.5)
        if what in ("two queues", "other"):
            other.send(everybody, everybody.astype(np.int32))
        if what == "much":
            one.send(everybody, np.full(bsp.p, 7.0))
            one.send(np.zeros(much.size, np.int64), much)
        if what == "mail":
            bsp.send(0, bsp.pid)

    def main(bsp: pybsp.BSP) -> Any:
        queues = bsp.queue(np.float64), bsp.queue(np.int32)
        found = []
        kinds = ("few", "nothing", "mail", "much", "two queues", "other")
        for shift in range(len(kinds)):
            sends(bsp, queues, kinds[(bsp.pid + shift) % len(kinds)])
            bsp.sync()
            arrived = [(one.sources.tolist(), one.values.tolist()) for one in queues]
            found.append((arrived, [message.payload for message in bsp.inbox]))
        return found, [(r.h, r.messages, r.items) for r in bsp.ledger]

    def expected(pid: int, p: int) -> Any:
        kinds = ("few", "nothing", "mail", "much", "two queues", "other")
        found = []
        for shift in range(len(kinds)):
            one: list[tuple[int, float]] = []
            other: list[tuple[int, int]] = []
            mail = []
            for source in range(p):
                what = kinds[(source + shift) % len(kinds)]
                if what in ("few", "two queues"):
                    values = [pid + 10.0 * source]
                    values += [0.0, 1.0, 2.0] * ((source + 1) % p == pid)
                    one += [(source, value) for value in [*values, -1.0 - source, pid + 0.5]]
                if what in ("two queues", "other"):
                    other.append((source, pid))
                if what == "much":
                    one += [(source, value) for value in [7.0, *(much.tolist() if pid == 0 else [])]]
                if what == "mail" and pid == 0:
                    mail.append(source)
            columns = [tuple(map(list, zip(*queue, strict=True))) or ([], []) for queue in (one, other)]
            found.append((columns, mail))
        return found

    results = spmd(main)
    for pid, (found, ledger) in enumerate(results):
        assert plain(found) == plain(expected(pid, spmd.p)), pid
        assert ledger == results[0][1]
    if spmd.p == 2:  # of the ledger's rows, by hand: superstep 0 has "few" of processor 0, nothing of processor 1
        assert results[0][1][:2] == [(6, 1, 6), (1, 1, 0)]


def test_what_one_sends_itself_is_there_whatever_else_comes(spmd: Spmd) -> None:
    """Who has a get sends in another way than who has none, and so the items of a queue come as one array."""

    def main(bsp: pybsp.BSP) -> Any:
        queue, array = bsp.queue(np.int64), bsp.array(1)
        bsp.sync()
        if bsp.pid == bsp.p - 1:
            queue.send(0, np.arange(1000))
            array.get(bsp.pid)
        queue.send(np.full(3, bsp.pid), np.full(3, -1))
        bsp.sync()
        return queue.values.tolist(), np.bincount(queue.sources).tolist()

    (values, sources), *others = spmd(main)
    if others:
        assert values == [-1] * 3 + list(range(1000))
        assert sources == [3] + [0] * (spmd.p - 2) + [1000]


@pytest.mark.skipif(core is None, reason="the compiled core was not built: no compiler, or PYBSP_COMPILED=0")
@pytest.mark.parametrize(
    ("dests", "values"),
    [
        ([1, 0, 1], [1.0, 2.0, 3.0]),
        (np.array([1, 0, 1], np.int32), np.array([1, 2, 3])),
        (np.array([1, 5, 0, 5, 1])[::2], np.array([1.0, 2.0, 3.0, 4.0, 5.0])[::2]),
        (range(2), 1.5),
    ],
)
def test_few_items_are_dealt_out_at_the_call_whatever_they_come_in(dests: Any, values: Any) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        queue = bsp.queue()
        queue.send(dests, values)
        dealt = bool(queue._texts) and not queue._out
        bsp.sync()
        return dealt, queue.values.tolist()

    items = np.broadcast_to(values, len(dests))
    expected = [(True, 2 * [float(one) for to, one in zip(dests, items, strict=True) if to == pid]) for pid in range(2)]
    assert pybsp.simulate(main, p=2).results == expected


@pytest.mark.parametrize("items", [1, 3, 100, 20_000])
def test_what_a_processor_sends_itself_alone_goes_by_the_queue_too(spmd: Spmd, items: int) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        q = bsp.queue()
        bsp.sync()
        q.send(bsp.pid, np.arange(float(items)))
        bsp.sync()
        bsp.label("dealt")
        q.send(np.full(items, bsp.pid), np.arange(float(items)))
        bsp.sync()
        return [(record.ways & BY_QUEUE > 0, record.h, record.items) for record in bsp.ledger[1:]], len(q)

    assert spmd(main) == [([(True, 0, 0)] * 2, items)] * spmd.p
