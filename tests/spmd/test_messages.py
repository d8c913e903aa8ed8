"""send and inbox: delivery, order, tags, every kind of payload, errors."""

from __future__ import annotations

import array
import ctypes
import datetime
import pickle
import sys
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import pybsp
from pybsp import collectives
from tests.conftest import Spmd

from .programs import caught, plain


class Named(NamedTuple):
    x: int
    y: Any


class Digest(bytes):
    """Of a program's own."""


class Tagged(np.ndarray[Any, Any]):
    """A numpy subclass."""


class Stubborn:
    """Cannot be pickled."""

    def __reduce__(self) -> Any:
        raise RuntimeError("not me")


def view(array: Any) -> memoryview:
    """An array as a memoryview; numpy's types say nothing of buffers before Python 3.12."""
    return memoryview(array)


def around(bsp: pybsp.BSP, payload: Any, tag: Any = None) -> pybsp.Message:
    """Send to the right, and the message from the left."""
    bsp.send((bsp.pid + 1) % bsp.p, payload, tag)
    bsp.sync()
    (message,) = bsp.inbox
    return message


def test_delivery_is_for_the_next_superstep_only_and_unread_messages_are_discarded(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        lengths = [len(bsp.inbox)]
        bsp.send((bsp.pid + 1) % bsp.p, "x")
        lengths.append(len(bsp.inbox))
        bsp.sync()
        lengths.append(len(bsp.inbox))
        bsp.sync()  # nothing has been read
        lengths.append(len(bsp.inbox))
        return lengths, list(bsp.inbox), bsp.inbox.nbytes

    assert spmd(main) == [([0, 0, 1, 0], [], 0)] * spmd.p


def test_send_copies_tag_and_payload_at_the_call(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        dest = (bsp.pid + 1) % bsp.p
        payloads: list[Any] = [np.arange(4), bytearray(b"abc"), [1, [2]], {"k": np.zeros(3)}, array.array("i", [1, 2])]
        payloads.append(memoryview(bytearray(b"xyz")))
        tag = [1, 2]
        for payload in payloads:
            bsp.send(dest, payload, tag)
        tag.append(3)
        payloads[0][:] = 9
        payloads[1][0] = 0
        payloads[2][1].append(5)
        payloads[3]["k"][:] = 7
        payloads[4][0] = 6
        payloads[5][0] = 1
        bsp.sync()
        return [(m.tag, plain(m.payload)) for m in bsp.inbox]

    expected = [
        np.arange(4),
        memoryview(b"abc"),
        [1, [2]],
        {"k": np.zeros(3)},
        memoryview(array.array("i", [1, 2])),
        memoryview(b"xyz"),
    ]
    assert spmd(main) == [[([1, 2], plain(payload)) for payload in expected]] * spmd.p


def test_a_message_to_oneself_is_a_copy(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        values, thing = np.arange(3), [1]
        bsp.send(bsp.pid, values)
        bsp.send(bsp.pid, thing)
        values[0], thing[0] = 9, 9
        bsp.sync()
        first, second = (m.payload for m in bsp.inbox)
        return first.tolist(), second, second is thing

    assert spmd(main) == [([0, 1, 2], [1], False)] * spmd.p


def test_an_object_sent_to_several_arrives_as_one_of_each(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        thing = {"n": [bsp.pid]}
        for dest in range(bsp.p):
            bsp.send(dest, thing)
        bsp.sync()
        for m in bsp.inbox:
            m.payload["n"].append(bsp.pid)  # what arrived is this processor's own
        return [m.payload["n"] for m in bsp.inbox]

    assert spmd(main) == [[[source, pid] for source in range(spmd.p)] for pid in range(spmd.p)]


def test_the_inbox_is_ordered_by_source_then_by_send(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        for k in range(3):
            for dest in reversed(range(bsp.p)):
                bsp.send(dest, np.array(k) if k % 2 else k, tag=k)
        bsp.sync()
        return [(m.source, m.tag, int(m.payload)) for m in bsp.inbox]

    assert spmd(main) == [[(source, k, k) for source in range(spmd.p) for k in range(3)]] * spmd.p


def test_an_empty_payload_is_still_a_message(spmd: Spmd) -> None:
    empty: list[Any] = [b"", np.empty(0), bytearray(), np.empty((3, 0), np.int8), None, "", [], (), memoryview(b"")]

    def main(bsp: pybsp.BSP) -> Any:
        for payload in empty:
            bsp.send((bsp.pid + 1) % bsp.p, payload)
        bsp.sync()
        return len(bsp.inbox), [plain(m.payload) for m in bsp.inbox]

    expected = [memoryview(payload) if isinstance(payload, bytearray) else payload for payload in empty]
    assert spmd(main) == [(len(empty), [plain(payload) for payload in expected])] * spmd.p


@pytest.mark.parametrize("payload", [b"", np.empty(0)], ids=["bytes", "array"])
def test_an_empty_payload_alone_is_still_a_message(spmd: Spmd, payload: Any) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        message = around(bsp, payload)
        return message.source, message.tag, plain(message.payload), len(bsp.inbox), bsp.inbox.nbytes

    for pid, result in enumerate(spmd(main)):
        assert result == ((pid - 1) % spmd.p, None, plain(payload), 1, 0)


def test_none_sent_one_sent_and_many(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        seen = []
        for n in (0, 1, 1500):
            for k in range(n):
                bsp.send(k % bsp.p, (bsp.pid, k))
            bsp.sync()
            seen.append([m.payload for m in bsp.inbox])
        return seen

    for pid, seen in enumerate(spmd(main)):
        for n, messages in zip((0, 1, 1500), seen, strict=True):
            assert messages == [(source, k) for source in range(spmd.p) for k in range(n) if k % spmd.p == pid]


def test_the_size_of_the_inbox_is_known_without_consuming_it(spmd: Spmd) -> None:
    """Messages and bytes; a number is 8 bytes, other objects their pickle."""

    def main(bsp: pybsp.BSP) -> Any:
        right = (bsp.pid + 1) % bsp.p
        for payload in (5, np.zeros(3, np.int16), b"12345", {"a": 1}):
            bsp.send(right, payload, tag="a long tag that counts nothing")
        bsp.sync()
        size = len(bsp.inbox), bsp.inbox.nbytes
        return size, (len(bsp.inbox), bsp.inbox.nbytes), len(list(bsp.inbox)), len(list(bsp.inbox))

    size = (4, 8 + 6 + 5 + len(pickle.dumps({"a": 1}, 5)))
    assert spmd(main) == [(size, size, 4, 4)] * spmd.p


def test_reading_twice_by_index_negative_index_and_slice(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        for k in range(5):
            bsp.send((bsp.pid + 1) % bsp.p, k)
        bsp.sync()
        inbox = bsp.inbox
        return (
            [m.payload for m in inbox] + [m.payload for m in inbox],
            [inbox[k].payload for k in (0, 4, -1, -5)],
            [[m.payload for m in inbox[part]] for part in (slice(1, 3), slice(None, None, -2), slice(7, 9))],
            [inbox.index(inbox[2]), inbox[3] in inbox, [m.payload for m in reversed(inbox)]],
        )

    assert (
        spmd(main)
        == [
            (
                [*range(5), *range(5)],
                [0, 4, 4, 0],
                [[1, 2], [4, 2, 0], []],
                [2, True, [4, 3, 2, 1, 0]],
            )
        ]
        * spmd.p
    )


def test_reading_past_the_end_is_an_error(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        errors = [caught(lambda: bsp.inbox[0]), caught(lambda: bsp.inbox[-1])]
        bsp.send((bsp.pid + 1) % bsp.p, 1)
        bsp.sync()
        errors += [caught(lambda: bsp.inbox[1]), caught(lambda: bsp.inbox[-2])]
        bsp.sync()
        return [*errors, caught(lambda: bsp.inbox[0])]

    for errors in spmd(main):
        for error, index, there in zip(errors, (0, -1, 1, -2, 0), (0, 0, 1, 1, 0), strict=True):
            assert error.kind is pybsp.BoundsError
            expected = "an index from -1 to 0, of 1 message;" if there else "a message, but none has arrived;"
            assert error.text.startswith(f"bsp.inbox[{index}]: expected {expected}")


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 255, 256, 1000, 1024, 5000, 100_000])
def test_tags_and_payloads_of_every_size(spmd: Spmd, size: int) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        right = (bsp.pid + 1) % bsp.p
        data = bytes(range(256)) * (size // 256 + 1)
        bsp.send(right, data[:size], tag=data[:size])
        bsp.send(right, "é" * size, tag="ü" * size)
        bsp.send(right, list(data[:size]), tag=tuple(data[:size]))
        bsp.send(right, np.frombuffer(data[:size], np.uint8), tag=-size)
        bsp.sync()
        return [(m.tag, m.payload.tobytes() if isinstance(m.payload, np.ndarray) else m.payload) for m in bsp.inbox]

    data = (bytes(range(256)) * (size // 256 + 1))[:size]
    expected = [(data, data), ("ü" * size, "é" * size), (tuple(data), list(data)), (-size, data)]
    assert spmd(main) == [expected] * spmd.p


TAGS = [
    None,
    0,
    -1,
    2**80,
    1.5,
    True,
    "",
    "tag",
    b"",
    (),
    (1, "a", (2.0, None)),
    Named(1, 2),
    frozenset({1}),
    [1],
    {"a": 1},
]


def test_any_picklable_value_is_a_tag(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        for tag in TAGS:
            bsp.send((bsp.pid + 1) % bsp.p, 0, tag)
        bsp.send((bsp.pid + 1) % bsp.p, np.arange(2), tag=np.arange(3))
        bsp.sync()
        return [plain(m.tag) for m in bsp.inbox]

    assert spmd(main) == [[plain(tag) for tag in [*TAGS, np.arange(3)]]] * spmd.p


def _subclass(values: Any) -> Any:
    return np.asarray(values).view(Tagged)


STRUCTURE = np.dtype([("a", "i4"), ("b", "f8", (2,)), ("c", "S5")])
ARRAYS: dict[str, Any] = {
    **{
        kind: np.arange(5).astype(kind)
        for kind in ("b", "B", "h", "H", "i", "I", "q", "Q", "e", "f", "d", "F", "D", "?", ">i4", ">f8", "U3", "S4")
    },
    "datetime64": np.array(["2020-02-29T12", "NaT"], "M8[h]"),
    "timedelta64 of 25 s": np.array([1, 2], "m8[25s]"),
    "void": np.array([b"abc", b"def"], "V3"),
    "structured": np.array([(1, (2, 3), b"four"), (5, (6, 7), b"eight")], STRUCTURE),
    "one structured item": np.array((1, (2, 3), b"four"), STRUCTURE),
    "nested structure": np.zeros(3, np.dtype([("s", STRUCTURE), ("t", "M8[D]")])),
    "structure with gaps": np.zeros(3, np.dtype({"names": ["x"], "formats": ["i2"], "offsets": [4], "itemsize": 10})),
    "0-d": np.array(3.5),
    "0-d bool": np.array(True),
    "empty": np.empty(0, np.int16),
    "empty of two axes": np.empty((0, 7), complex),
    "five axes": np.arange(32).reshape(2, 2, 2, 2, 2),
    "Fortran order": np.asfortranarray(np.arange(12.0).reshape(3, 4)),
    "transposed": np.arange(12).reshape(3, 4).T,
    "strided": np.arange(20)[1::3],
    "reversed": np.arange(5)[::-1],
    "broadcast": np.broadcast_to(np.array([1, 2, 3]), (4, 3)),
    "read-only": np.frombuffer(b"abcdefgh", np.int32),
    "unaligned": np.frombuffer(b"x" + np.arange(3.0).tobytes(), np.float64, offset=1),
    "a large one": np.arange(70_000),
}


@pytest.mark.parametrize("payload", ARRAYS.values(), ids=ARRAYS.keys())
def test_a_numpy_array_arrives_as_a_read_only_array_of_the_same_dtype_and_shape(spmd: Spmd, payload: Any) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        got = around(bsp, payload).payload
        return plain(got), got.flags.writeable, caught(got.fill, 0).kind, got.flags.aligned

    for got in spmd(main):
        assert got == (plain(payload), False, ValueError, True)


OBJECTS: dict[str, Any] = {
    "int": 5,
    "large int": 10**40,
    "float": -0.0,
    "complex": 1 - 2j,
    "bool": True,
    "none": None,
    "ellipsis": Ellipsis,
    "str": "grüße \U0001f600",
    "bytes": b"\x00\xff",
    "numpy int8": np.int8(-3),
    "numpy uint64": np.uint64(2**64 - 1),
    "numpy float16": np.float16(0.5),
    "numpy bool": np.bool_(False),
    "numpy complex": np.complex64(1j),
    "numpy datetime64": np.datetime64("2020-01-01"),
    "numpy timedelta64": np.timedelta64(3, "ms"),
    "numpy str": np.str_("abc"),
    "numpy bytes": np.bytes_(b"abc"),
    "numpy void": np.void(b"abcd"),
    "numpy structured item": np.array([(1, (2, 3), b"four")], STRUCTURE)[0],
    "numpy dtype": np.dtype("f4"),
    "numpy subclass": _subclass([1.5, 2.5]),
    "numpy subclass of a filled masked array": np.ma.MaskedArray([1, 2, 3], [False, True, False])
    .filled(9)
    .view(Tagged),
    "masked array": np.ma.MaskedArray([1, 2, 3], [False, True, False]),
    "record array": np.rec.array([(1, 2.0)], dtype="i4,f8"),
    "object array": np.array([1, "two", [3], None], object),
    "structured with objects": np.array([(1, "x")], [("a", "i4"), ("b", object)]),
    "bytes of a class": Digest(b"abc"),
    "tuple": (1, (2, "three")),
    "named tuple": Named(1, [2]),
    "list": [1, [2, {"three": 4}]],
    "dict": {"a": 1, 2: (3,)},
    "set": {1, 2, 3},
    "ordered dict": OrderedDict(b=1, a=2),
    "date": datetime.date(2020, 1, 1),
    "range": range(3, 9, 2),
    "class": OrderedDict,
    "exception": KeyError,
    "large list": list(range(5000)),
    "array in a dict": {"x": np.arange(4.0), "y": [np.arange(3, dtype=np.int8), "z"]},
    "large arrays in a tuple": (np.arange(3000), np.arange(2000.0).reshape(2, 1000).T, b"q" * 3000),
    "strided array in a list": [np.arange(10)[::3]],
    "bytearray in a list": [bytearray(b"abc")],
    "empty array in a list": [np.empty(0), np.empty((2, 0), np.int8)],
}


@pytest.mark.parametrize("payload", OBJECTS.values(), ids=OBJECTS.keys())
def test_any_picklable_object_arrives_equal_and_of_the_same_type(spmd: Spmd, payload: Any) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        return plain(around(bsp, payload).payload)

    assert spmd(main) == [plain(payload)] * spmd.p


def test_an_array_that_lies_in_a_file_arrives_as_any_array(spmd: Spmd, tmp_path: Path) -> None:
    np.save(tmp_path / "array.npy", np.arange(60).reshape(6, 10))

    def main(bsp: pybsp.BSP) -> Any:
        lying = np.load(tmp_path / "array.npy", mmap_mode="r")
        payload = around(bsp, lying[1:3, ::2], "tag").payload
        return type(payload), payload.tolist(), bsp.ledger[0].M

    words = 10 * (spmd.p if spmd.p > 1 else 0)
    assert spmd(main) == [(np.ndarray, [[10, 12, 14, 16, 18], [20, 22, 24, 26, 28]], words)] * spmd.p


def test_arrays_within_objects_travel_out_of_band_and_are_read_only(spmd: Spmd) -> None:
    """Their pickle has no room for them, and what arrives is a view of the receive buffer."""

    def main(bsp: pybsp.BSP) -> Any:
        message = around(bsp, {"x": np.arange(1000.0), "n": 3})
        x = message.payload["x"]
        return x.flags.writeable, x.flags.owndata, float(x.sum()), bsp.inbox.nbytes

    pickled = len(pickle.dumps({"x": np.arange(1000.0), "n": 3}, 5, buffer_callback=lambda _: None))
    assert spmd(main) == [(False, False, 499500.0, pickled + 8000)] * spmd.p


BUFFERS: dict[str, Any] = {
    "bytearray": bytearray(b"abc"),
    "empty bytearray": bytearray(),
    "memoryview": memoryview(b"abcd"),
    "slice of a memoryview": memoryview(b"abcdefgh")[1:7:2],
    "reversed memoryview": memoryview(b"abc")[::-1],
    "shorts": memoryview(array.array("h", [1, -2, 3])),
    "array.array of doubles": array.array("d", [1.5, 2.5]),
    "empty array.array": array.array("d"),
    "two axes": view(np.arange(6.0).reshape(2, 3)),
    "Fortran order": view(np.asfortranarray(np.arange(6, dtype=np.int32).reshape(2, 3))),
    "no axes": view(np.array(2.5)),
    "bools": view(np.array([True, False])),
    "characters": memoryview(b"abc").cast("c"),
    "large": bytearray(range(256)) * 300,
}


@pytest.mark.parametrize("payload", BUFFERS.values(), ids=BUFFERS.keys())
def test_other_buffers_arrive_as_read_only_memoryviews(spmd: Spmd, payload: Any) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        got = around(bsp, payload).payload
        return plain(got), got.readonly, bsp.inbox.nbytes

    sent = view(payload)
    assert spmd(main) == [(("memoryview", sent.format, sent.shape, sent.tobytes()), True, sent.nbytes)] * spmd.p


EXOTIC: dict[str, Any] = {
    "ctypes": (ctypes.c_int32 * 3)(1, 2, 3),
    "big endian": view(np.array([1, 2], ">i4")),
    "structure": view(np.array([(1, 2.0)], "i4,f8")),
    "strided structure": view(np.array([(1, 2.0), (3, 4.0), (5, 6.0)], "i4,f8")[::2]),
    "complex": view(np.array([1j, 2])),
    "half": view(np.array([0.5, 2], np.float16)),
    "zero by three": view(np.empty((0, 3), np.int32)),
    "empty big endian": view(np.empty(0, ">i4")),
}


@pytest.mark.parametrize("payload", EXOTIC.values(), ids=EXOTIC.keys())
def test_buffers_of_a_format_that_memoryview_cannot_make_arrive_with_their_bytes(spmd: Spmd, payload: Any) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        got = around(bsp, payload).payload
        return type(got), got.readonly, got.tobytes(), bsp.inbox.nbytes

    data = memoryview(payload).tobytes()
    assert spmd(main) == [(memoryview, True, data, len(data))] * spmd.p


def test_an_inbox_read_after_a_forgotten_sync_says_what_is_pending(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        errors = [caught(lambda: bsp.inbox[0])]
        around(bsp, 1)
        for _ in range(2):  # with an empty inbox, and with one that is not
            errors.append(caught(lambda: bsp.inbox[1]))
            bsp.send(bsp.pid, 1)
            errors.append(caught(lambda: bsp.inbox[1]))
            bsp.sync()
            bsp.sync()
        return errors

    for errors in spmd(main):
        assert [error.kind for error in errors] == [pybsp.BoundsError] * 5
        said = ["(bsp.send) has not arrived; call bsp.sync() first" in error.text for error in errors]
        assert said == [False, False, True, False, True]


def test_a_view_kept_past_the_next_sync_is_poisoned_in_checked_mode(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        right = (bsp.pid + 1) % bsp.p
        bsp.send(right, np.full(5, 3, np.uint8))
        bsp.send(right, bytearray(b"abc"))
        bsp.send(right, [np.full(4, 7, np.uint8)])
        bsp.send(right, b"bytes are copies")
        bsp.sync()
        kept = [m.payload for m in bsp.inbox]
        copied = kept[0].copy()
        bsp.sync()
        return kept[0].tolist(), kept[1].tobytes(), kept[2][0].tolist(), kept[3], copied.tolist()

    for first, second, third, data, copied in spmd(main):
        assert data == b"bytes are copies"
        assert copied == [3] * 5
        if spmd.checked:
            assert first == [0xA5] * 5
            assert second == b"\xa5" * 3
            assert third == [0xA5] * 4


FLOATS: dict[str, Any] = {
    "float64": np.ones(5),
    "float16": np.ones((2, 3), np.float16),
    "other byte order": np.ones(3, ">f4"),
    "complex": np.full(2, 1 + 1j),
    "long double": np.ones(3, np.longdouble),
    "array.array": array.array("d", [1.0, 2.0]),
}


@pytest.mark.parametrize("payload", FLOATS.values(), ids=FLOATS.keys())
def test_kept_floats_are_poisoned_with_nan_in_checked_mode(spmd: Spmd, payload: Any) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        right = (bsp.pid + 1) % bsp.p
        bsp.send(right, np.full(3, 7, np.uint8))  # others in the same memory are as ever
        bsp.send(right, payload)
        bsp.send(right, np.full(3, 7, np.uint8))
        bsp.sync()
        first, kept, last = (np.asarray(message.payload) for message in bsp.inbox)
        bsp.sync()
        parts = (kept.real, kept.imag) if kept.dtype.kind == "c" else (kept,)
        return first.tolist(), [bool(np.isnan(part).all()) for part in parts], last.tolist()

    if spmd.checked:
        parts = 2 if np.asarray(payload).dtype.kind == "c" else 1
        assert spmd(main) == [([0xA5] * 3, [True] * parts, [0xA5] * 3)] * spmd.p


def test_a_kept_structure_is_poisoned_field_by_field_in_checked_mode(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        values = np.ones(3, [("a", np.uint8), ("b", np.float64, (2,)), ("c", [("d", np.float32)])])
        bsp.send(bsp.pid, values)
        bsp.sync()
        kept = bsp.inbox[0].payload
        bsp.sync()
        return kept["a"].tolist(), bool(np.isnan(kept["b"]).all()), bool(np.isnan(kept["c"]["d"]).all())

    if spmd.checked:
        assert spmd(main) == [([0xA5] * 3, True, True)] * spmd.p


def test_views_stay_valid_while_the_superstep_lasts_whatever_is_sent(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        right = (bsp.pid + 1) % bsp.p
        good = []
        for k in range(6):
            bsp.send(right, np.full(40_000, k))
            bsp.sync()
            view = bsp.inbox[0].payload
            bsp.send(right, np.full(40_000, -1))
            bsp.send(bsp.pid, np.full(40_000, -2))
            good.append(bool((view == k).all()))
            bsp.sync()
        return good

    assert spmd(main) == [[True] * 6] * spmd.p


@pytest.mark.parametrize("dest", ["p", -1, "0", 0.0, None, True, [0], np.float64(0), np.int64(-1)], ids=repr)
def test_pid_equal_to_nprocs_and_what_is_no_processor_is_rejected(spmd: Spmd, dest: Any) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        error = caught(bsp.send, bsp.p if dest == "p" else dest, 1)
        bsp.sync()
        return error, len(bsp.inbox)

    for error, messages in spmd(main):
        assert error.kind is pybsp.UsageError
        assert error.text.startswith(f"bsp.send: argument dest: expected a processor from 0 to {spmd.p - 1}, got ")
        assert messages == 0


def test_a_destination_may_be_an_integer_of_numpy(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        kinds: list[Any] = [np.int8, np.uint8, np.int64, np.uint64, np.intp]
        for kind in kinds:
            bsp.send(kind((bsp.pid + 1) % bsp.p), 1)
        bsp.sync()
        return len(bsp.inbox)

    assert spmd(main) == [5] * spmd.p


def test_what_cannot_be_pickled_is_an_error_at_the_call_and_nothing_is_sent(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        errors = []
        for payload, tag in ((lambda: 0, None), (Stubborn(), 1), (1, Stubborn()), (np.zeros(2), lambda: 0)):
            errors.append(caught(bsp.send, 0, payload, tag))
        bsp.sync()
        before = len(bsp.inbox)
        caught(bsp.send, 0, Stubborn())
        with bsp.split(0) as part:  # nothing was sent, so a split is allowed
            inside = part.p
        caught(bsp.send, 0, 1, Stubborn())  # and so is the end
        return errors, before, inside

    for errors, messages, inside in spmd(main):
        assert [error.kind for error in errors] == [pybsp.UsageError] * 4
        for error, argument in zip(errors, ("payload", "payload", "tag", "tag"), strict=True):
            assert f"bsp.send: argument {argument}: expected something that can be pickled, got " in error.text
        assert messages == 0
        assert inside == spmd.p


def test_unequal_traffic(spmd: Spmd) -> None:
    """Only some send; manifests that fit into a head and such that do not."""

    def main(bsp: pybsp.BSP) -> Any:
        got = []
        for k in range(4):
            if bsp.pid == k % bsp.p:
                for _ in range(10**k // 2):
                    bsp.send(0, k, tag="t" * k)
            bsp.sync()
            got.append([(m.source, m.tag, m.payload) for m in bsp.inbox])
        return got

    expected = [[(k % spmd.p, "t" * k, k)] * (10**k // 2) for k in range(4)]
    assert spmd(main) == [expected] + [[[]] * 4] * (spmd.p - 1)


class _Unreadable:
    def __reduce__(self) -> Any:
        return int, ("no number",)


def test_a_payload_that_cannot_be_read_is_an_error_at_every_reading(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        for payload in (1, _Unreadable(), 3):
            bsp.send(bsp.pid, payload)
        bsp.sync()
        return [caught(list, bsp.inbox).kind, caught(list, bsp.inbox).kind, len(bsp.inbox)]

    assert spmd(main) == [[ValueError, ValueError, 3]] * spmd.p


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exceptions take no notes")
def test_what_cannot_be_read_says_whose_it_is(spmd: Spmd) -> None:
    def notes_of(reading: Callable[[], Any]) -> list[str]:
        try:
            reading()
        except ValueError as error:
            return [note.partition(";")[0] for note in vars(error)["__notes__"]]
        return []

    def main(bsp: pybsp.BSP) -> Any:
        last = bsp.p - 1
        bsp.send(0, 1, tag=_Unreadable() if bsp.pid == last else None)
        bsp.sync()
        return notes_of(lambda: list(bsp.inbox)) + notes_of(lambda: collectives.gather(bsp, _Unreadable(), root=last))

    expected: list[list[str]] = [[] for _ in range(spmd.p)]
    expected[0].append(f"(unpickling what is in a message of processor {spmd.p - 1}")
    expected[-1] += ["(unpickling what was sent"] * (spmd.p > 1)
    assert spmd(main) == expected


def test_structures_arrive_bit_for_bit_gaps_included(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> bytes:
        gapped = np.dtype([("a", np.int8), ("b", np.int64)], align=True)
        made = np.arange(64, dtype=np.uint8).view(gapped)
        bsp.send((bsp.pid + 1) % bsp.p, made)
        bsp.sync()
        payload: np.ndarray[Any, Any] = bsp.inbox[0].payload
        return payload.tobytes()

    assert spmd(main) == [bytes(range(64))] * spmd.p


class Celsius(np.float64):
    """A scalar of a class of its own, which numpy's own pickles forget."""

    def __reduce__(self) -> Any:
        return Celsius, (float(self),)


SCALARS: list[Any] = [np.dtype(code).type(3) for code in "?bBhHiIlLqQefdgFDG"]
SCALARS += [np.float64("nan"), np.float32(-0.0), np.datetime64("2026-11-26"), np.timedelta64(3, "s"), np.bool_(False)]
SCALARS += [np.str_("abc"), np.bytes_(b"ab"), np.void(b"abc"), np.array((1, 2.5), "i4, f8")[()], Celsius(21.5)]


@pytest.mark.parametrize("tag", [None, "t"])
def test_a_scalar_of_numpy_arrives_as_one(spmd: Spmd, tag: Any) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        for one in SCALARS:
            bsp.send((bsp.pid + 1) % bsp.p, one, tag=tag)
        bsp.sync()
        alone = []
        for one, message in zip(SCALARS, list(bsp.inbox), strict=True):
            bsp.send(0, one, tag=tag)
            alone.append(message.payload)
            bsp.sync()
            alone += [message.payload for message in bsp.inbox[:1]]
        return [repr((type(one), one)) for one in alone]

    expected = [repr((type(one), one)) for one in SCALARS]
    for pid, found in enumerate(spmd(main)):
        assert found == ([one for one in expected for _ in range(2)] if pid == 0 else expected)


def test_dtypes_that_numpy_takes_for_equal_arrive_as_they_are(spmd: Spmd) -> None:
    forms = [
        np.dtype([("a", "f8")], metadata={"unit": "m"}),
        np.dtype([("a", "f8")]),
        np.dtype([("a", "f8")], align=True),
        np.dtype([("a", np.dtype("f8", metadata={"unit": "s"}))]),
        np.dtype((np.record, [("a", "f8")])),
    ]

    def main(bsp: pybsp.BSP) -> Any:
        found = []
        for _ in range(2):
            for form in forms:
                bsp.send((bsp.pid + 1) % bsp.p, np.zeros(2, form))
            bsp.sync()
            found += [one.payload.dtype for one in bsp.inbox]
        return [said(one) for one in found]

    def said(form: np.dtype[Any]) -> Any:
        return form.isalignedstruct, form.type, dict(form.metadata or {}), dict(form["a"].metadata or {})

    assert spmd(main) == [[said(form) for form in forms] * 2] * spmd.p


def test_a_scalar_is_eight_bytes_of_the_inbox(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        found = []
        for tag in None, "t":
            for one in np.float32(1.5), np.bool_(True), np.float64(2), 3, np.float16(1):
                bsp.send((bsp.pid + 1) % bsp.p, one, tag=tag)
                bsp.sync()
                found.append(bsp.inbox.nbytes)
        return found

    assert spmd(main) == [[8] * 10] * spmd.p


STRUCTURES = [
    np.dtype("i4, f8"),
    np.dtype("i1, f8", align=True),
    np.dtype([("a", ">i2"), ("b", "U3"), ("c", [("x", "f4", 2), ("t", "M8[s]")])]),
    np.dtype({"names": ["a", "b"], "formats": ["i4", "i2"], "offsets": [0, 2], "itemsize": 8}),
    np.dtype({"names": ["a"], "formats": ["f4"], "titles": ["long name"]}),
    np.dtype([("a", np.dtype("i4", metadata={"unit": "m"}))]),
    np.dtype([("a", "V3"), ("é", "S2")]),
    np.dtype([]),
    np.dtype("V5"),
    np.dtype("U4"),
    np.dtype("U0"),
    np.dtype(">f8"),
    np.dtype("M8[ns]"),
]


@pytest.mark.parametrize("tag", [None, "t"])
@pytest.mark.parametrize("size", [1, 700])
def test_arrays_of_any_dtype_arrive_as_they_are(spmd: Spmd, size: int, tag: Any) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        found = []
        for dtype in STRUCTURES:
            content = np.resize(np.arange(97, 107, dtype=np.uint8), size * dtype.itemsize).tobytes()
            bsp.send(
                (bsp.pid + 1) % bsp.p, np.ndarray(size, dtype, content or bytes(1), strides=dtype.itemsize), tag=tag
            )
            bsp.sync()
            (message,) = bsp.inbox
            found.append((message.payload.dtype, message.payload.shape, message.payload.tobytes() == content))
        return [
            (dtype == form, dtype.isalignedstruct, repr(dtype), *rest)
            for form, (dtype, *rest) in zip(STRUCTURES, found, strict=True)
        ]

    expected = [(True, form.isalignedstruct, repr(form), (size,), True) for form in STRUCTURES]
    assert spmd(main) == [expected] * spmd.p


@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 900, 1007, 1008, 1009, 1023, 1024, 1025, 1040, 3000])
def test_messages_queue_items_and_puts_of_one_superstep_arrive_whatever_their_size(spmd: Spmd, size: int) -> None:
    """Little data goes along with its description, more in messages of its own."""

    def main(bsp: pybsp.BSP) -> bool:
        right, left = (bsp.pid + 1) % bsp.p, (bsp.pid - 1) % bsp.p
        x, q = bsp.array(3000, np.uint8), bsp.queue(np.uint8)
        bsp.sync()
        ok = True
        for parts in ((1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 1)):
            mail, queued, put = (part * size // sum(parts) for part in parts)
            data = np.random.default_rng([size, bsp.pid]).integers(0, 255, size, np.uint8)
            due = np.random.default_rng([size, left]).integers(0, 255, size, np.uint8)
            x.local[:] = 0
            bsp.sync()
            bsp.send(right, data[:mail])
            q.send(right, data[:queued])
            x.put(right, data[:put], at=slice(0, put))
            ticket = x.get(right, at=slice(0, size))
            bsp.sync()
            ok = ok and np.array_equal(bsp.inbox[0].payload, due[:mail]) and np.array_equal(q.values, due[:queued])
            ok = ok and np.array_equal(x.local[:put], due[:put]) and not x.local[put:].any() and not ticket.value.any()
        return bool(ok)

    assert all(spmd(main))


MANY: dict[
    str, Callable[[int], list[tuple[Any, Any]]]
] = {  # messages of so many bytes in all, tags included, to one processor
    "arrays": lambda size: [(np.full(120, float(k)), None) for k in range(size // 1000)],
    "tags": lambda size: [(k, ("a tag", k, "number")) for k in range(size // 60)],
    "long tag": lambda size: [(1, "x" * size)],
}


@pytest.mark.whole
@pytest.mark.parametrize("beside", ["nothing", "queue", "label", "get", "collective"])
@pytest.mark.parametrize("what", MANY)
def test_more_mail_than_a_board_has_room_for_goes_to_one_beside_what_else_takes_part(
    spmd: Spmd, what: str, beside: str
) -> None:
    """A superstep has a shorter way for little mail beside other things."""

    def main(bsp: pybsp.BSP) -> bool:
        queue, x = bsp.queue(), bsp.array(1)
        x.local[:] = bsp.pid
        bsp.sync()
        ok = True
        for size in (60_000, 125_000, 190_000, 270_000):
            sent = MANY[what](size)
            if beside == "queue":
                queue.send(bsp.pid, 1.0)
                bsp.sync()  # what came by it is forgotten with the next one
            for payload, tag in sent:
                bsp.send((bsp.pid + 1) % bsp.p, payload, tag=tag)
            ticket = total = None
            if beside == "label":
                bsp.label("much")
            elif beside == "get":
                ticket = x.get(bsp.pid)
            elif beside == "collective":
                total = pybsp.collectives.allreduce.start(bsp, 1, np.add)
            bsp.sync()
            ok = ok and [m.tag for m in bsp.inbox] == [tag for _, tag in sent]
            ok = ok and all(np.array_equal(m.payload, due) for m, (due, _) in zip(bsp.inbox, sent, strict=True))
            ok = ok and (ticket is None or ticket.value[0] == bsp.pid)
            while total is not None and not total.done:
                bsp.sync()
            ok = ok and (total is None or total.value == bsp.p)
        return bool(ok)

    assert all(spmd(main))


@pytest.mark.parametrize(
    "payload",
    [1.5, "text", np.arange(8000.0), np.arange(30_000.0), {"an": np.arange(9000.0)}],
    ids=["number", "text", "packed", "large", "object"],
)
@pytest.mark.parametrize("who", ["all", "first", "last"])
def test_what_one_sends_itself_comes_among_what_others_send(spmd: Spmd, payload: Any, who: str) -> None:
    """Own messages are small, those of the others large or small: an exchange has a way of its own for each."""

    def main(bsp: pybsp.BSP) -> Any:
        found = []
        for _ in range(3):
            if who == "all" or bsp.pid == (0 if who == "first" else bsp.p - 1):
                for dest in range(bsp.p):
                    bsp.send(dest, payload if dest != bsp.pid else bsp.pid)
            else:
                bsp.send(bsp.pid, bsp.pid)
            bsp.send(bsp.pid, "own", tag=bsp.pid)
            bsp.sync()
            found.append([(m.source, m.tag, m.payload if m.source == bsp.pid else repr(m.payload)) for m in bsp.inbox])
        return found

    senders = {"all": range(spmd.p), "first": [0], "last": [spmd.p - 1]}[who]
    for pid, found in enumerate(spmd(main)):
        expected: list[Any] = []
        for source in range(spmd.p):
            if source == pid:
                expected += [(pid, None, pid), (pid, pid, "own")]
            elif source in senders:
                expected.append((source, None, repr(payload)))
        assert found == [expected] * 3
