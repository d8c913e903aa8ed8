"""Packed mail: what the compiled core makes of small arrays and numbers, and what reads it."""

from __future__ import annotations

import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import pybsp
from pybsp.compiled import core
from pybsp.ground.failures import outcome
from pybsp.messages.mail import (
    PACKED,
    PLAIN_TAGS,
    SHORT_ARRAY,
    Inbox,
    Mail,
    Message,
    _unpack_packed,
    has_pickles,
    unpack,
    unpack_packed,
)
from pybsp.messages.outgoing import Outgoing
from pybsp.transport import MAIL, Section, wire
from pybsp.transport.memory import BufferPool

from .launching import ended_well, mpiexec, python, run

built = pytest.mark.skipif(core is None, reason="the compiled core was not built: no compiler, or PYBSP_COMPILED=0")

PLAIN = st.sampled_from([np.dtype(code) for code in "?bBhHiIlLqQefd"])
SMALL = arrays.arrays(PLAIN, arrays.array_shapes(min_dims=0, min_side=0, max_side=4))
NUMBERS = st.integers(-(1 << 63), (1 << 63) - 1) | st.floats()
SHORT = st.text(max_size=3) | st.booleans() | st.binary(max_size=9) | st.tuples(st.integers(), st.text(max_size=2))
OTHERS = SHORT | st.integers(1 << 63, 1 << 70) | st.complex_numbers()
PLAIN_TAG = st.none() | st.integers() | st.text(max_size=9) | st.floats() | st.booleans() | st.binary(max_size=2)


class Broken:
    """What is pickled, and cannot be read."""

    def __reduce__(self) -> Any:
        return divmod, (1, 0)


def content(payload: Any) -> object:
    """What a payload is, bit by bit."""
    if isinstance(payload, np.ndarray):
        return payload.dtype.str, payload.shape, payload.tobytes()
    return type(payload), struct.pack("d", payload) if isinstance(payload, float) else pickle.dumps(payload)


def sent(mail: Mail, payloads: list[Any], packs: bool, tags: list[Any] | None = None) -> Section:
    """The section of what is sent to processor 1, as `BSP.send` does."""
    for payload, tag in zip(payloads, tags or [None] * len(payloads), strict=True):
        plain = packs and mail.pack_payload is not None and type(tag) in PLAIN_TAGS
        if not (plain and mail.pack_payload(mail.outgoing, 1, payload, tag)):  # type: ignore[misc]
            mail.send(1, payload, tag)
    parcels, counts = mail.pack(0)
    section = parcels[1][MAIL]
    assert counts[:2] == (section.words, section.messages)
    assert not mail.outgoing
    assert not mail.runs
    return section


@pytest.mark.whole
@built
@given(st.lists(st.tuples(SMALL | NUMBERS | OTHERS, PLAIN_TAG | st.tuples(st.integers())), min_size=1, max_size=30))
def test_what_is_packed_arrives_as_records_do(messages: list[tuple[Any, Any]]) -> None:
    payloads, tags = [list(each) for each in zip(*messages, strict=True)]
    packed = sent(Mail(BufferPool(), packs=True), payloads, True, tags)
    records = sent(Mail(BufferPool()), payloads, False, tags)
    assert type(records.descriptors) is list
    assert (packed.words, packed.messages) == (records.words, records.messages)
    assert packed.messages == len(payloads)
    assert Inbox([(3, packed)]).nbytes == Inbox([(3, records)]).nbytes
    assert has_pickles(packed) is has_pickles(records)
    for section in (packed, records):
        got: list[Message] = []
        unpack(3, section, got)
        assert [content(message.payload) for message in got] == [content(payload) for payload in payloads]
        assert [content(message.tag) for message in got] == [content(tag) for tag in tags]
        assert all(message.source == 3 and type(message) is Message for message in got)
        assert not any(m.payload.flags.writeable for m in got if isinstance(m.payload, np.ndarray))


@built
@given(st.lists(st.tuples(SMALL | NUMBERS | SHORT, PLAIN_TAG), min_size=1, max_size=12))
def test_what_is_packed_is_read_alike_with_the_core_and_without(messages: list[tuple[Any, Any]]) -> None:
    payloads, tags = [list(each) for each in zip(*messages, strict=True)]
    section = sent(Mail(BufferPool(), packs=True), payloads, True, tags)
    assert type(section.descriptors) is bytes
    assert section.descriptors[wire.WRITTEN] == 0
    got: list[Message] = []
    twin: list[Message] = []
    unpack_packed(5, section.descriptors, got)
    _unpack_packed(5, section.descriptors, twin)
    assert [(one.source, content(one.tag), content(one.payload)) for one in got] == [
        (one.source, content(one.tag), content(one.payload)) for one in twin
    ]
    assert [content(one.payload) for one in got] == [content(payload) for payload in payloads]
    note, (_, ((stream, *found),)) = wire.read(memoryview(section.descriptors))
    assert (note, stream, *found[:3]) == (None, MAIL, *section[:3])


@built
@pytest.mark.parametrize(
    ("payload", "tag"),
    [(1.5, "t" * 300), (b"x" * 1025, None), ("x" * (1 << 14), None), ([np.zeros(9)], None), (1.5, (1,))],
    ids=["a long tag", "long bytes", "a long pickle", "an array in a list", "a tag that is pickled"],
)
def test_what_is_too_long_or_not_plain_goes_as_a_record_behind_what_is_packed(payload: Any, tag: Any) -> None:
    section = sent(Mail(BufferPool(), packs=True), ["first", payload, "last"], True, [7, tag, None])
    assert type(section.descriptors) is list
    first, one, last = Inbox([(2, section)])
    assert (first, last) == ((2, 7, "first"), (2, None, "last"))
    assert (one.tag, repr(one.payload)) == (tag, repr(payload))


@built
def test_an_object_that_cannot_be_made_anew_is_said_to_be_in_a_message_and_of_whom() -> None:
    section = sent(Mail(BufferPool(), packs=True), [(Broken(),)], True)
    assert type(section.descriptors) is bytes
    with pytest.raises(ZeroDivisionError) as caught:
        unpack(4, section, [])
    places = getattr(caught.value, "__notes__", [outcome(caught.value).place])  # Python 3.10 has no notes
    assert "in a message of processor 4" in "".join(places)


@built
def test_much_to_one_processor_becomes_records() -> None:
    mail = Mail(BufferPool(), packs=True)
    assert mail.pack_payload is not None
    row, short = np.arange(512.0), np.arange(100.0)
    assert type(sent(mail, [row] * 29, True).descriptors) is bytes
    assert type(sent(mail, [row] * 30, True).descriptors) is list  # beyond what is packed for the only destination
    assert type(sent(mail, [*[row] * 29, *[short] * 150], True).descriptors) is bytes  # but what is small
    for others, packed in ((15, True), (16, False)):  # beyond what is packed for one of several
        mail.send(2, 1.5, None)
        assert all(mail.pack_payload(mail.outgoing, 1, row) for _ in range(others)) is packed
        mail.pack(0)
    much = sent(mail, [short] * 1000, True)
    assert [record[0] for record in much.descriptors[:2]] == [PACKED, SHORT_ARRAY]
    got: list[Message] = []
    unpack(0, much, got)
    assert (much.words, much.messages, len(got)) == (100_000, 1000, 1000)
    assert all(np.array_equal(message.payload, short) for message in got)
    assert Inbox([(0, much)]).nbytes == 8 * much.words
    assert type(sent(mail, [1.5] * 16, True).descriptors) is bytes
    assert type(sent(mail, [1.5] * 17, True).descriptors) is list  # a list takes numbers more quickly


@built
@pytest.mark.parametrize("payload", [np.arange(24.0).reshape(4, 6)[1:-1, 1], np.arange(6).reshape(2, 3).T], ids=str)
def test_what_is_not_contiguous_is_packed_after_a_copy(payload: Any) -> None:
    mail = Mail(BufferPool(), packs=True)
    section = sent(mail, [payload, 2.5], True)
    assert type(section.descriptors) is bytes
    got: list[Message] = []
    unpack(0, section, got)
    assert [content(message.payload) for message in got] == [content(payload), content(2.5)]
    assert type(sent(mail, [1j, payload], True).descriptors) is list  # behind a record it is one


TAGS = st.none() | st.integers() | st.text(max_size=3) | st.tuples(st.integers(), st.binary(max_size=2))


@built
@given(st.lists(st.tuples(SMALL | NUMBERS | OTHERS, TAGS), min_size=1, max_size=20))
def test_records_that_are_written_out_say_the_same(messages: list[tuple[Any, Any]]) -> None:
    def packed(writes: bool) -> Section:
        mail = Mail(BufferPool(), packs=True)
        assert mail.pack_payload is not None
        for payload, tag in messages:
            if tag is not None or not mail.pack_payload(mail.outgoing, 1, payload):
                mail.send(1, payload, tag)
        if writes:
            lies_apart = isinstance(mail.outgoing[1], Outgoing) and mail.outgoing[1].used > 0
            assert mail.write() is mail.packed is not lies_apart
        section: Section = mail.pack(0)[0][1][MAIL]
        assert mail.packed
        return section

    written, records = packed(True), packed(False)
    assert written[1:3] == records[1:3]
    if type(written.descriptors) is bytes:
        _, (_, ((_, *found),)) = wire.read(memoryview(written.descriptors))
        assert tuple(found[:3]) == written[:3]
    ours, theirs = Inbox([(3, written)]), Inbox([(3, records)])
    assert [(m.source, m.tag, content(m.payload)) for m in ours] == [
        (m.source, m.tag, content(m.payload)) for m in theirs
    ]
    assert ours.nbytes == theirs.nbytes
    assert has_pickles(written) is has_pickles(records)
    assert repr(ours.arrived) == repr(theirs.arrived)  # a NaN is not equal to itself


@built
@pytest.mark.parametrize(("payload", "count"), [(np.zeros(3000), 1), (b"x" * 2000, 1), (1j, 5000)])
def test_what_lies_beside_records_and_what_is_much_is_not_written_out(payload: Any, count: int) -> None:
    mail = Mail(BufferPool(), packs=True)
    for _ in range(count):
        mail.send(1, payload, "tag")
    assert not mail.write()
    assert not mail.packed
    assert mail.pack(0)[1][1] == count


@built
@pytest.mark.parametrize("beside", [False, True], ids=["alone", "before a record"])
@pytest.mark.parametrize("tag", [None, "a tag"])
@pytest.mark.parametrize("shape", [(0,), (), (5,), (2, 3)], ids=str)
def test_what_is_filled_in_a_small_room_is_packed_as_the_superstep_ends(
    shape: tuple[int, ...], tag: Any, beside: bool
) -> None:
    mail = Mail(BufferPool(), packs=True)
    mail.send(1, "first", 7)
    rooms = [mail.room(1, shape, np.dtype(code), tag) for code in ("f8", "i2")]
    if beside:
        mail.send(1, 1j, None)
    for number, room in enumerate(rooms):
        room[...] = number + np.arange(room.size).reshape(shape)
    assert not mail.packed
    assert mail.write()
    (section,) = mail.pack(0)[0][1].values()
    assert not any(room.flags.writeable for room in rooms)
    first, *got = Inbox([(0, section)])
    assert first[1:] == (7, "first")
    assert [one.tag for one in got] == [tag, tag, *[None] * beside]
    assert [content(one.payload) for one in got] == [*map(content, rooms), *[content(1j)] * beside]


@built
def test_what_is_filled_in_rooms_is_there_where_the_mail_becomes_records() -> None:
    mail = Mail(BufferPool(), packs=True)
    room, large = mail.room(1, (4,), np.dtype("f8"), None), mail.room(1, (1 << 15,), np.dtype("f8"), (1, 2))
    room[:], large[:] = 1.5, 2.5
    assert not mail.write()
    (section,) = mail.pack(0)[0][1].values()
    assert not any(one.flags.writeable for one in (room, large))
    assert [(one.tag, one.payload.tolist()) for one in Inbox([(0, section)])] == [
        (None, [1.5] * 4),
        ((1, 2), [2.5] * (1 << 15)),
    ]


@built
def test_numbers_that_are_sent_after_records_were_written_out_are_new_ones() -> None:
    mail = Mail(BufferPool(), packs=True)
    for numbers in ((0, 1), (2,), (3, 4)):
        mail.send(1, 1j, "records")
        for number in numbers:
            mail.send(1, number, None)
        assert mail.write()
        section = mail.pack(0)[0][1][MAIL]
        assert [message.payload for message in Inbox([(0, section)])] == [1j, *numbers]


@built
def test_what_cannot_be_pickled_leaves_nothing_behind() -> None:
    class Odd(np.float64):
        def __reduce__(self) -> Any:
            raise TypeError

    mail = Mail(BufferPool(), packs=True)
    for payload in (Odd(1.0), [lambda: 1]):
        with pytest.raises(pybsp.UsageError, match="argument payload"):
            mail.send(1, payload, None)
        assert not mail.outgoing


@built
@pytest.mark.parametrize("payload", [np.zeros(2, ">i4"), np.array([None]), np.zeros(2, "M8[s]"), np.zeros(1, "i4, f8")])
def test_what_is_no_plain_number_is_not_packed(payload: Any) -> None:
    section = sent(Mail(BufferPool(), packs=True), [payload], True)
    got: list[Message] = []
    unpack(0, section, got)
    assert type(section.descriptors) is (bytes if payload.dtype.hasobject else list)  # that is a pickle
    assert got[0].payload.dtype == payload.dtype
    assert got[0].payload.tolist() == payload.tolist()


def test_what_follows_in_a_superstep_keeps_its_order() -> None:
    def main(bsp: pybsp.BSP) -> list[object]:
        other = (bsp.pid + 1) % bsp.p
        for payload in (1, 2.5, np.arange(3), 4, 5):
            bsp.send(other, payload)
        bsp.send(other, "text", tag="t")
        bsp.send(other, 6)
        room = bsp.room(other, 2)
        room[:] = 7
        bsp.send(bsp.pid, 8)
        bsp.sync()
        assert bsp.inbox.nbytes == 8 * 6 + 8 * 3 + len(pickle.dumps("text", 5)) + 8 * 2
        return [payload.tolist() if isinstance(payload, np.ndarray) else payload for _, _, payload in bsp.inbox]

    other = [1, 2.5, [0, 1, 2], 4, 5, "text", 6, [7, 7]]
    assert pybsp.simulate(main, p=2).results == [[8, *other], [*other, 8]]
    assert pybsp.simulate(main, p=2, checked=True).results == [[8, *other], [*other, 8]]


MIXTURE = """
import numpy as np, pybsp

def main(bsp):
    for k in range(60):
        bsp.send((bsp.pid + 1) % bsp.p, np.arange(k * 450) * bsp.pid)  # up to what is no longer packed
        if k % 3 == bsp.pid:
            bsp.send((bsp.pid + 2) % bsp.p, {"k": k})
        if k % 7 == 0:
            bsp.send(bsp.pid, float(k))
        bsp.sync()
        got = [message.payload for message in bsp.inbox]
        sums = sum(one.sum() for one in got if isinstance(one, np.ndarray))
        assert sums == sum(range(k * 450)) * ((bsp.pid - 1) % bsp.p), (k, got)
        assert ({"k": k} in [one for one in got if isinstance(one, dict)]) == (k % 3 == (bsp.pid - 2) % bsp.p)
        assert (float(k) in [one for one in got if isinstance(one, float)]) == (k % 7 == 0)
    return bsp.pid, tuple((one.h_out, one.h_in, one.M, one.messages) for one in bsp.ledger)

pid, rows = pybsp.run(main)
if pid == 0:
    print(hash(rows))
"""


@built
def test_processors_that_pack_and_those_that_do_not_understand_each_other(tmp_path: Path) -> None:
    program = tmp_path / "mixture.py"
    program.write_text(MIXTURE)
    launcher = mpiexec(1)
    plain = ["env", "PYBSP_COMPILED=0", *python(program)]
    mixed = run([*launcher, *python(program), ":", *launcher[1:], *plain, ":", *launcher[1:], *python(program)])
    assert ended_well(run([*mpiexec(3), *plain])).split() == ended_well(mixed).split() != []
