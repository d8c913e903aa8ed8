"""What goes over the wire: the page has the layouts' constants, and what is packed is read again."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybsp.messages.mail import MUCH, SHORT
from pybsp.transport import GETS, JOINED, MAIL, NOTES, PUTS, READS, Parcel, Section, wire
from pybsp.transport.medium import COPYING, INLINE_DATA, INLINE_DATA_MOST, MPITransport
from pybsp.transport.neighbours import INLINE_DATA_NEAR

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "explanation" / "wire.md").read_text()


def rows(section: str) -> dict[str, list[str]]:
    """Of the tables of a section of the page: their rows, by the first cell."""
    text = PAGE.split(f"\n## {section}\n")[1].split("\n## ")[0]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    return {first: others for first, *others in cells}


def test_the_page_has_the_tags() -> None:
    told = rows("Tags")
    del told["use"], told["---"]
    uses = [
        wire.HEADS,
        wire.MANIFESTS,
        wire.DATA,
        (wire.BESIDE, wire.BESIDE + 1),
        (wire.SPARSE_HEADS, wire.SPARSE_HEADS + 1),
        wire.SPARSE_WORDS,
        wire.SPARSE_NOTES,
        wire.LEADERS,
        wire.LEADER_TEXTS,
        wire.CLOCKS,
        wire.NO_MESSAGE,
    ]
    assert [cell for (cell,) in told.values()] == [str(use).strip("()") for use in uses]
    numbers = [int(number) for (cell,) in told.values() for number in cell.split(", ")]
    assert numbers == list(range(wire.TAGS))  # no two uses share one, nor two contexts
    assert f"tag = {wire.TAGS} × context + use" in PAGE
    assert wire.tag(3, wire.DATA) == 3 * wire.TAGS + wire.DATA


def test_the_page_has_the_bits_of_words() -> None:
    assert list(rows("The word of a head"))[2:] == [
        f"0 to {wire.EPOCH_SHIFT - 1}",
        f"{wire.EPOCH_SHIFT} to {wire.BYTES_SHIFT - 1}",
        f"{wire.BYTES_SHIFT} to {wire.SHOWN.bit_length() - 2}",
        f"{wire.SHOWN.bit_length() - 1}",
    ]
    board = list(rows("The board"))
    bits = [word.bit_length() - 1 for word in (wire.KIND_AND_FLAGS, wire.SOMETHING, wire.BORROWS, wire.SHOWS)]
    assert board[-5:] == [f"0 to {bits[0]}", *map(str, bits[1:]), f"{wire.STATUS_EPOCH_SHIFT} to 62"]
    assert (
        f"shifted by {wire.TAG_EPOCH_SHIFT}, and whether there is a manifest (bit {wire.HAS.bit_length() - 1})" in PAGE
    )


def test_the_page_has_the_bits_of_packed_mail() -> None:
    packed = rows("Packed mail")
    assert packed["1"] == [
        f"{wire.PACKED} in bits 0 to {wire.CHAR_SHIFT - 1}; "
        f"in bits {wire.CHAR_SHIFT} to 55 how many numbers without tags there are"
    ]
    assert wire.PACKED_HEADER == wire.WORD * (1 + 2)
    assert list(packed)[-5:] == [
        f"0 to {wire.CHAR_SHIFT - 1}",
        f"{wire.CHAR_SHIFT} to {wire.NDIM_SHIFT - 1}",
        f"{wire.NDIM_SHIFT} to {wire.NDIM_SHIFT + 7}",
        f"{wire.TAG_SHIFT} to {wire.TAG_SHIFT + wire.TAG_MOST.bit_length() - 1}",
        f"{wire.SIZE_SHIFT} to 62",
    ]
    kinds = (
        f"{wire.ARRAY_KIND}: an array; {wire.NUMBER_KIND}: a number of Python; {wire.SCALAR_KIND}: a scalar of numpy; "
        f"{wire.BYTES_KIND}: bytes; {wire.PICKLE_KIND}: a pickle"
    )
    assert packed[list(packed)[-5]] == [kinds]


def test_the_page_has_how_much_is_packed() -> None:
    core = (ROOT / "pybsp" / "core.c").read_text()
    defined = dict(re.findall(r"^#define (PACKED_[A-Z]+) \((\d+ << \d+)\)", core, re.M))
    most, alone, small, many = (eval(defined[f"PACKED_{name}"]) for name in ("MOST", "ONE", "SMALL", "MANY"))
    numbers = re.search(r"^#define PACKED_NUMBERS (\d+)$", core, re.M)
    assert numbers is not None
    page = " ".join(PAGE.split())
    assert f"up to {small} bytes, and pickles of up to {SHORT}," in page
    assert f"Tags are plain, and take at most {wire.TAG_MOST} bytes." in page
    assert f"At most {most} bytes go so to a destination, {alone} to the only one; of what takes up to " in page
    assert f"up to {small}, 2^{many.bit_length() - 1}; of numbers without tags {numbers[1]}, as more of them" in page
    assert f"those for each processor are at most {MUCH} messages and words" in page


def test_what_says_where_mail_lies_is_read_again() -> None:
    page = " ".join(PAGE.split())
    assert f"in as few words: {wire.LENT}; words and messages; the bytes of the data" in page
    assert f"Mail of more than {INLINE_DATA_NEAR} bytes" in page
    records = [(2, "tag", 24, 0, "d", (3,)), (-3, b"pickled", 7, 32)]
    data = np.arange(48, dtype=np.uint8)
    text = memoryview(wire.lent_text(records, 4, 2, data.size, 1 << 40))
    assert wire.read(text) == (None, (data.size, [(MAIL, records, 4, 2, data.size, 1 << 40)]))
    assert wire.data_with(text, *wire.read(text)[1]) is None
    arrived = wire.parcels_here(
        [(3, text)], lambda k, at, size: data if (k, at, size) == (3, 1 << 40, 48) else data[:0]
    )
    assert arrived is not None
    ((source, parcel),) = arrived
    assert (source, [*parcel]) == (3, [MAIL])
    assert parcel[MAIL][:3] == (records, 4, 2)
    assert parcel[MAIL].data is data


def test_runs_of_puts_are_read_as_they_were_written_without_descriptors() -> None:
    puts = [(4, 7, 1, b"12345678"), (5, 0, 3, b"123"), (4, 2, 9, bytes(20))]
    runs = wire.add_run(None, *puts[0])
    for put in puts[1:]:
        assert wire.add_run(runs, *put) is runs
    assert wire.end_runs(runs) == (1 + 1 + 3, 3)
    text = bytes(runs)
    assert wire.puts_alone([(0, Section(text, 0, 0, None))]) == (1 + 1 + 3, 3, [(text, None, wire.PLAIN_HEADER)])
    assert list(wire.runs_of(text)) == puts
    ((stream, section),) = wire.plain_sections(text).items()
    assert (stream, section.descriptors, section.words, section.messages) == (PUTS, None, 5, 3)
    assert section.data is not None
    assert list(wire.runs_of(section.data.data, 0)) == puts


@pytest.mark.parametrize("noted", [False, True])
def test_sections_of_several_streams_for_one_processor_are_one_text(noted: bool) -> None:
    queue = wire.plain_text(JOINED + 1, None, 2, 1, 3, (b"123",))
    puts = wire.plain_puts([(4, slice(0, 9, 3), 0, (3,))], 5, np.arange(16, dtype=np.uint8))
    mail = wire.written([(1, 2, 3)], 7, 1)
    texts = {1: mail, 2: queue}
    for more in ({1: queue}, {1: puts, 3: puts}, {1: wire.plain_reads((4, 2))}):
        wire.lay_beside(texts, more)
    assert (texts[2], texts[3]) == (queue, puts)
    assert wire.records_of(bytes(mail)) == [(1, 2, 3)]  # as it was: what is laid stays until it goes out
    text = bytes(wire.noted_text(wire.marshalled({5: 1.5}), 1, 1, texts[1]) if noted else texts[1])
    assert np.frombuffer(text, np.int64, 2, wire.WORD).tolist() == [2 + 5 + 7 + noted, 1 + 1 + 1 + noted]
    found = wire.plain_sections(text)
    assert list(found) == [MAIL, JOINED + 1, PUTS, READS, *[NOTES] * noted]
    assert [tuple(section[1:3]) for section in found.values()] == [(7, 1), (2, 3), (5, 1), (0, 0), *[(1, 1)] * noted]
    assert wire.records_of(found[MAIL][0]) == [(1, 2, 3)]
    queued = found[JOINED + 1].data
    assert queued is not None
    assert bytes(queued) == b"123"
    assert found[PUTS].descriptors == [(4, slice(0, 9, 3), 0, (3,))]
    assert wire.read_reads(found[READS]) == (4, 2)
    # Who reads manifests one by one finds the data of all behind each other.
    total, contents = wire.read(memoryview(text))[1]
    data = wire.data_with(memoryview(text), total, contents)
    assert data is not None
    assert bytes(data) == b"123" + bytes(range(16)) + np.array([4, 2]).tobytes()
    assert [entry[4] for entry in contents] == [0, 3, 16, 16, *[0] * noted]


def test_the_page_has_the_words_of_a_plain_section() -> None:
    assert rows("Plain sections")["1"] == [str(wire.PLAIN)]
    assert f"a word, which is {wire.SEVERAL}" in " ".join(PAGE.split())
    assert wire.PLAIN_HEADER == wire.WORD * (1 + 2 + 3)
    assert f"at most {wire.PLAIN_MOST} bytes of content" in " ".join(PAGE.split())


def plain(data: Any) -> Any:
    return data.tolist()


@pytest.mark.parametrize("descriptors", [None, ("minimum",)])
def test_a_plain_section_is_read_as_it_was(descriptors: Any) -> None:
    content = [np.arange(5, dtype=np.uint8), np.arange(3, dtype=np.uint8)]
    text = bytes(wire.plain_text(-7, descriptors, 3, 1, 2, content))
    joined = [0, 1, 2, 3, 4, 0, 1, 2]
    stream, section = wire.plain_section(text)
    assert (stream, section[:3], plain(section.data)) == (-7, (descriptors, 3, 2), joined)
    arrived = wire.parcels_here([(4, memoryview(text))], lambda *_: content[0])
    assert arrived is not None
    assert [(source, list(parcel)) for source, parcel in arrived] == [(4, [-7])]
    note, (size, found) = wire.read(memoryview(text))
    assert (note, size, found) == (None, 8, [(-7, descriptors, 3, 2, 8, wire.WITH_MANIFEST)])
    assert plain(wire.data_with(memoryview(text), size, found)) == joined


@pytest.mark.parametrize("notes", [{1 << 61: 2.5}, {5: b"12345678", 6: (1.0,)}])
@pytest.mark.parametrize("beside", [False, True])
def test_notes_beside_a_plain_section_are_read_as_they_were(notes: Any, beside: bool) -> None:
    content = [np.arange(5, dtype=np.uint8), np.arange(3, dtype=np.uint8)]
    behind = wire.plain_text(9, None, 3, 1, 2, content) if beside else None
    text = bytes(wire.noted_text(wire.marshalled(notes), len(notes), 4, behind))
    assert wire.packed_section(text)[1:3] == ((7, len(notes) + 1) if beside else (4, len(notes)))
    queue = [(9, (None, 3, 2))] if beside else []
    expected = [*queue, (NOTES, (notes, 4, len(notes)))]
    sections = wire.plain_sections(text)
    assert [(stream, section[:3]) for stream, section in sections.items()] == expected
    for found in (  # with the compiled core, and without it
        wire.parcels_here([(4, memoryview(text))], lambda *_: content[0]),
        wire.parcels_of([(4, wire.packed_section(text))]),
    ):
        assert found is not None
        ((source, parcel),) = found
        assert (source, [(stream, section[:3]) for stream, section in parcel.items()]) == (4, expected)
    note, (size, entries) = wire.read(memoryview(text))
    assert note is None
    assert [(stream, tuple(entry)) for stream, *entry, _, _ in entries] == expected
    if beside:
        assert plain(wire.data_with(memoryview(text), size, entries)) == [0, 1, 2, 3, 4, 0, 1, 2]
    else:
        assert size == 0


def test_the_page_has_the_sizes() -> None:
    page, sizes = " ".join(PAGE.split()), [1 << power for power in wire.BLOCK_POWERS]
    for text in (
        f"modulo {wire.EPOCH_MASK + 1}",
        f"at most {wire.LONGEST_HEAD} bytes: a manifest of up to {wire.MANIFEST_BEHIND_HEAD}",
        f"of up to {wire.HEAD} bytes is sent by a persistent request",
        f"{wire.BY_MESSAGE} for a message of its own, {wire.WITH_MANIFEST} for behind the manifest",
        f"as up to {INLINE_DATA} bytes are to other nodes and up to {INLINE_DATA_NEAR} on a node",
        f"longer than 2^{wire.CHUNK.bit_length() - 1} bytes goes in pieces",
        f"a board for each of {wire.CONTEXTS} contexts",
        f"| {wire.AREA} bytes |",
        f"| {wire.SLOT} (n + 1) |",
        f"0 to {wire.AGES - 1}, data that came so many exchanges ago is read; {wire.AGES} to "
        f"{wire.AGES + wire.BLOCKS - 1}, data of one of the {wire.BLOCKS} blocks of {sizes[0]} exchanges before those, "
        f"then of {wire.BLOCKS} blocks of {sizes[1]}, of {sizes[2]}, of {sizes[3]} and of {sizes[4]:,} each; bit "
        f"{wire.AGES + wire.BLOCKS * len(sizes)}, older data",
        f"Up to {wire.MOST} bytes are one message",
        f"({wire.HAS_NOTE}: somebody says something to all)",
        f"**Notices** (tag {wire.NOTICE}), what each processor says when all meet (tag {wire.FAILURE}) and probes of "
        f"waits that cross (tag {wire.PROBE};",
        f"has tag {wire.LAST}",
    ):
        assert text in page, text


def test_what_lies_on_a_board_does_not_overlap() -> None:
    for size in (2, 3, 7):
        used: list[range] = []
        for context in (0, 1, wire.CONTEXTS - 1):
            lies = wire.board(size, context)
            words = [lies.status, lies.release, *lies.borrows, *lies.slots]
            assert [part.stop - part.start for part in words] == [2, 3, size, size] + [wire.SLOT * (size + 1)] * 2
            used += [range(part.start * wire.WORD, part.stop * wire.WORD) for part in words]
            used += [range(area, area + wire.AREA) for area in lies.areas]
            assert used[-1].stop == wire.board_bytes(size) * (context + 1)
        used.sort(key=lambda part: part.start)
        assert all(one.stop <= another.start for one, another in itertools.pairwise(used))


@given(st.integers(0, 255), st.integers(0, 1 << 40), st.integers(0, 1 << 37))
def test_the_word_of_a_head_is_read_again(kind: int, number: int, size: int) -> None:
    word = wire.head(kind, number, size)
    assert wire.parts_of(word) == (kind, number & wire.EPOCH_MASK, size)
    assert word < 1 << 63
    assert word & wire.HEADER_MASK == wire.head(kind, number)


def sections(data: st.SearchStrategy[bytes | None]) -> st.SearchStrategy[Parcel]:
    one = st.builds(
        lambda descriptors, words, found: Section(
            descriptors, words, 0, None if found is None else np.frombuffer(found, np.uint8)
        ),
        st.lists(st.integers()),
        st.integers(0, 99),
        data,
    )
    return st.dictionaries(st.sampled_from([MAIL, PUTS, GETS]), one, min_size=1)


@given(sections(st.none() | st.binary(max_size=60)), st.none() | st.text(max_size=5), st.sampled_from([0, 1000]))
def test_a_manifest_is_read_again(parcel: Parcel, note: str | None, along: int) -> None:
    late: list[object] = []
    text = memoryview(wire.manifest(note, parcel, along, late))  # type: ignore[arg-type]
    said, (total, found) = wire.read(text)
    assert said == note
    assert [entry[:4] for entry in found] == [(stream, *section[:3]) for stream, section in parcel.items()]
    data = [b"" if section.data is None else bytes(section.data) for section in parcel.values()]
    assert [entry[4] for entry in found] == [len(one) for one in data]
    behind = wire.data_with(text, total, found)
    if along:
        assert not late
        assert b"".join(data) == (b"" if behind is None else bytes(behind))
    else:
        assert total == 0 or behind is None
        assert [bytes(one) for one in late] == [one for one in data if one]  # type: ignore[call-overload]


@given(st.booleans(), st.dictionaries(st.integers(2, 6), st.binary(min_size=1, max_size=9)))
def test_what_is_said_to_other_nodes_reaches_whom_it_is_for(says: bool, manifests: dict[int, bytes]) -> None:
    groups, note = [[0, 1], [2, 3, 4], [5, 6]], b"to all" * says
    text = wire.outgoing(note, manifests, groups, [1, 2])
    table = wire.chunk_table(text, len(groups))
    for g in (1, 2):
        chunk = text[table[2 * g] : table[2 * g + 1]]
        body = wire.body([5, 6], [0, len(chunk)], [chunk])  # processor 1 says it
        released = wire.release_text([wire.head(5, 1, len(body)), *[wire.head(7, 1)] * 2], [body])
        for place, d in enumerate(groups[g]):
            kinds = [0] * 7
            found = wire.read_release(released, groups, g, place, kinds, [])
            expected = manifests.get(d, note)
            assert {s: bytes(manifest) for s, manifest in found.items()} == ({1: expected} if expected else {})
            assert kinds[:2] == [5, 6]
            assert all(kinds[other] == 7 for other in groups[3 - g])


MANY = list(range(2, 4 + wire.MANY))  # of a node, after one of two, and before one of one


@given(st.data())
def test_what_is_shown_to_other_nodes_lies_in_rows_and_is_told_from_what_goes_beside_it(data: st.DataObject) -> None:
    far = [*MANY, MANY[-1] + 1]
    alike, quiet = data.draw(st.booleans()), data.draw(st.booleans())
    least, most = (data.draw(st.integers(0, 40)),) * 2 if alike else (0, 40)
    shown = st.binary(min_size=least, max_size=most)
    records = [data.draw(shown if alike else st.none() | shown) for _ in far]
    texts, doing = st.sampled_from([b"", b"for 1"]), st.sampled_from([3, 4])
    beside = [data.draw(texts)] * len(far) if alike else [data.draw(texts) for _ in far]
    kinds = [*[data.draw(doing)] * len(MANY), data.draw(doing)] if alike else [data.draw(doing) for _ in far]
    if quiet:
        records[-1], beside[-1] = None, b""  # the last node says nothing at all
    groups, chunks = [[0, 1], MANY, far[-1:]], []
    for record, text in zip(records, beside, strict=True):
        outgoing = wire.outgoing(b"", {1: text}, groups, [0]) if text else b""
        begin, end = wire.chunk_table(outgoing, 3)[:2] if text else (0, 0)
        chunks.append((b"" if record is None else wire.shown(record)) + outgoing[begin:end])
    marked = [k if record is None else k | wire.SHOWN for k, record in zip(kinds, records, strict=True)]
    bodies = [wire.body(marked[a:b], list(map(len, chunks[a:b])), chunks[a:b]) for a, b in ((0, -1), (-1, None))]
    if quiet:
        bodies[1] = b""
    heads = [wire.head(3, 1), *[wire.head(kinds[k], 1, len(body)) for k, body in zip((0, -1), bodies, strict=True)]]
    released = wire.release_text(heads, bodies)

    found = [3] * (2 + len(far))
    table, other = (np.full((len(found), 64), 255, np.uint8) for _ in range(2))
    rows = [row.data for row in table]
    manifests = wire.read_release(released, groups, 0, 1, found, [row.data for row in other])
    all_do_so = wire.read_records(released, groups, 0, 3, rows, table)
    assert found[2:] == kinds
    assert {s: bytes(text) for s, text in manifests.items()} == {
        s: text for s, text in zip(far, beside, strict=True) if text
    }
    for s, record in enumerate([None, None, *records]):
        size = wire.WORD + len(record or b"")
        assert bytes(rows[s][wire.WORD : size]) == (record or b"")
        assert (table[s, size:] == 255).all()
        assert (table[s, : wire.WORD] == 255).all()
    assert (table == other).all()
    assert all_do_so == (None not in records and not any(beside) and set(kinds) == {3})


def test_what_goes_inline_to_other_nodes_takes_no_longer_to_copy_than_its_message() -> None:
    """On both sides, where messages were measured; what always did, does so however cheap they are."""
    sizes = []
    for o_msg in np.geomspace(1e-9, 1e-3, 50):
        there: Any = SimpleNamespace()
        MPITransport.tune(there, o_msg)
        sizes.append(there.inline_data)
        assert there.inline_data == INLINE_DATA or 2 * there.inline_data * COPYING <= o_msg
    assert sizes == sorted(sizes)
    assert (sizes[0], sizes[-1]) == (INLINE_DATA, INLINE_DATA_MOST)
    assert any(INLINE_DATA < size < INLINE_DATA_MOST for size in sizes)
