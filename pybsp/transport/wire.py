"""What MPI ranks say to each other, bit by bit. No other file knows a layout; docs/explanation/wire.md has pictures.

All words are signed integers of 8 bytes in the processor's own order. A *kind* is what a processor is doing, with its
flags, as `Transport.exchange` has it; a *manifest* says what one processor sends to another one in an exchange.

    tags           which message of which transport
    heads          the word with which a message begins that every other processor gets in each exchange
    manifests      three layouts, which differ in length once they are unpickled
    the board      words in shared memory, and where they lie
    aggregated     what the processors of a node have for others, and what leaders say to each other
    sparse         heads to partners alone, and the words of the dissemination
    revocation     tags of what is sent when an exchange was left

Functions here are the layouts' specification. Where a call would cost too much the constants are used in their place:
in the quiet exchanges of board.py and heads.py, where each word is compared as a whole.
"""

from __future__ import annotations

import marshal
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from operator import itemgetter
from struct import Struct, pack, unpack_from
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import MAIL, NOTES, PUTS, READS, Parcel, Section, new_tuple
from .memory import ALIGN, Bytes

WORD = 8  # bytes
SIZE = Struct("q")  # of what follows it
_totals = Struct("3q")  # what packed mail and plain sections begin with: a word, the words and messages that they count
CHUNK = 1 << 30  # bytes of one MPI message, at most: counts beyond 2^31 do not work everywhere

dumps, loads = pickle.dumps, pickle.loads  # always of protocol 5


def chunks(data: Any) -> Iterable[Any]:
    """Data in pieces as large as a message may be: they go one after the other, with the same tag."""
    size = len(data)
    if size <= CHUNK:
        return (data,) if size else ()
    data = memoryview(data)
    return [data[at : at + CHUNK] for at in range(0, size, CHUNK)]


# -- tags: 12 of each context, on the communicator that all transports of some ranks share ----------------------------
#
# A context is the number of a transport among those that share processors. Messages of two transports never have the
# same tag; those of one, with the same tag and between the same two, MPI keeps in their order.

TAGS = 13
HEADS, MANIFESTS, DATA = 0, 1, 2
BESIDE = 3  # and 4: of what runs beside exchanges (LogP)
SPARSE_HEADS = 5  # and 6: of exchanges with even and with odd numbers
SPARSE_WORDS, SPARSE_NOTES = 7, 8
LEADERS, LEADER_TEXTS = 9, 10
CLOCKS = 11  # questions for the time, and answers
NO_MESSAGE = 12  # nothing has this one


def tag(context: int, use: int) -> int:
    """The tag of a transport's messages for one of the uses above."""
    return TAGS * context + use


# -- heads ------------------------------------------------------------------------------------------------------------
#
# bits  0 to  7   kind and flags
#       8 to 23   number of the exchange, modulo 2^16: enough, as nobody is two exchanges ahead of another
#      24 to 61   bytes of the manifest, or of what follows
#      62         SHOWN: a record lies behind the word; the manifest follows as a message
#
# A manifest of at most MANIFEST_BEHIND_HEAD bytes lies behind the word; a longer one follows as a message of its own.

EPOCH_SHIFT, BYTES_SHIFT = 8, 24  # what these are shifted by
KIND_AND_FLAGS = (1 << EPOCH_SHIFT) - 1
EPOCH_MASK = 0xFFFF
HEADER_MASK = KIND_AND_FLAGS | EPOCH_MASK << EPOCH_SHIFT  # all but the size
# Bytes of a head that is always sent from the same memory. Over TCP, libfabric reports a longer message as sent only
# when it has been acknowledged, a second latency later: no exchange could begin before.
HEAD = 128
SHOWN = 1 << 62
MANIFEST_IN_HEAD = HEAD - WORD
# And of one that is sent from memory of its own: what is inline in a manifest (`INLINE_DATA`), and as much beside.
LONGEST_HEAD = 1 << 11
MANIFEST_BEHIND_HEAD = LONGEST_HEAD - WORD
STRIDE = LONGEST_HEAD // WORD


def head(kind: int, number: int, size: int = 0) -> int:
    """The word of a head."""
    return kind | (number & EPOCH_MASK) << EPOCH_SHIFT | size << BYTES_SHIFT


def parts_of(word: int) -> tuple[int, int, int]:
    """Kind, number (modulo 2^16) and bytes in the word of a head."""
    return word & KIND_AND_FLAGS, word >> EPOCH_SHIFT & EPOCH_MASK, word >> BYTES_SHIFT


# -- manifests --------------------------------------------------------------------------------------------------------
#
# A pickle, of protocol 5, of one of these, the shortest that serves:
#
#   (descriptors, words, messages, None)       mail without data, and no note
#   (note, ((stream, descriptors, words, messages), ...))
#                                              sections without data
#   (note, ((stream, descriptors, words, messages, size, at), ...))
#                                              and with it: its bytes, and where they are
#
# note: for all processors; in an exchange each manifest of a processor has the same one. The rest as `Section` has it.
# at: a place in the sender's part of shared memory, counted in bytes; BY_MESSAGE; or WITH_MANIFEST, which all sections
# have if one has it: then their data lies behind the pickle, in their order.
#
# On a board, mail that the compiled core has packed, or that lies in shared memory, goes as it is (below): its first
# byte is that of no pickle.
# Bytes count: what fits into a head takes no message of its own.

BY_MESSAGE, WITH_MANIFEST = -1, -2  # the first also as the place of a manifest on a board
MAIL_ALONE = 4  # length of the first; the others have two
NO_DATA = 4  # and of an entry without data

Contents = list[tuple[int, Any, int, int, int, int]]  # of a manifest: stream, descriptors, words, messages, size, at
Arrived = list[tuple[int, Parcel]]  # by source, ascending


def note_to_all(note: object) -> bytes:
    """A manifest of nothing but a note."""
    return dumps((note, ()), 5)


def manifest(
    note: object,
    parcel: Parcel,
    inline: int,
    late: list[Bytes],
    place: Callable[[Bytes], int] | None = None,
    shared: list[Bytes] | None = None,
) -> bytes:
    """The manifest of a parcel, with a little data inline.

    Args:
        inline: bytes of data that do, at most.
        late: gets the data that is to go as messages.
        place: says where data lies in shared memory, if its destination can read it there.
        shared: gets the data that does.
    """
    if note is None and len(parcel) == 1:
        mail = parcel.get(MAIL)
        if mail is not None and mail[3] is None:
            return dumps(mail[:], 5)  # a tuple, which takes fewer bytes than a named one
    entries = []
    for stream, section in parcel.items():
        if section[3] is not None:
            break
        entries.append((stream, section[0], section[1], section[2]))
    else:
        return dumps((note, entries), 5)
    if len(parcel) == 1 and section[3].size <= inline:
        # One piece of data, as below.
        entry = (stream, section[0], section[1], section[2], section[3].size, WITH_MANIFEST)
        return dumps((note, [entry]), 5) + section[3].tobytes()
    if len(parcel) == 1 and section[3].size > inline and place is not None:
        # Likewise.
        at = place(section[3])
        if at != BY_MESSAGE and shared is not None:
            shared.append(section[3])
            return dumps((note, [(stream, section[0], section[1], section[2], section[3].size, at)]), 5)
    total, with_manifest, behind = 0, [], []
    for stream, (descriptors, words, messages, data) in parcel.items():
        size = 0
        if data is not None:
            size = data.size
            behind.append(data.data)
        total += size
        with_manifest.append((stream, descriptors, words, messages, size, WITH_MANIFEST))
    if total <= inline:
        return dumps((note, with_manifest), 5) + b"".join(behind)
    total, found = contents(parcel)
    for k, (stream, (descriptors, words, messages, data)) in enumerate(parcel.items()):
        if data is not None and data.size:
            at = BY_MESSAGE if place is None else place(data)
            if at == BY_MESSAGE or shared is None:
                late.append(data)
            else:
                found[k] = stream, descriptors, words, messages, data.size, at
                shared.append(data)
    return dumps((note, found), 5)


def contents(parcel: Parcel) -> tuple[int, Contents]:
    """What is in a parcel, with the bytes of all its data before it."""
    total, found = 0, []
    for stream, (descriptors, words, messages, data) in parcel.items():
        size = 0 if data is None else data.size
        total += size
        found.append((stream, descriptors, words, messages, size, BY_MESSAGE))
    return total, found


def read(text: memoryview) -> tuple[Any, tuple[int, Contents]]:
    """The note of a manifest, and the contents with the bytes of all data before them."""
    if PLAIN <= text[0] <= SEVERAL:
        total, within = contents(plain_sections(bytes(text)))
        return None, (total, [(*entry[:5], WITH_MANIFEST if entry[4] else BY_MESSAGE) for entry in within])
    if text[0] == LENT:
        lent = read_lent(text)
        return None, (lent[3], [(MAIL, *lent)])
    found: tuple[Any, ...] = packed_section(text) if text[0] == PACKED else loads(text)
    if len(found) == MAIL_ALONE:
        return None, (0, [(MAIL, *found[:3], 0, BY_MESSAGE)])
    note, entries = found
    if entries and len(entries[0]) == NO_DATA:
        return note, (0, [(*entry, 0, BY_MESSAGE) for entry in entries])
    return note, (sum(entry[4] for entry in entries), entries)


def data_with(text: memoryview, total: int, found: Contents) -> Bytes | None:
    """The data that lies behind a manifest; None where it goes another way."""
    if NOTED <= text[0] <= SEVERAL:  # it lies behind the header of each: a copy, where processors do different things
        each = [one.data for one in plain_sections(bytes(text)).values() if one.data is not None]
        return np.concatenate(each) if each else None
    if not found or found[0][5] != WITH_MANIFEST:
        return None
    return np.frombuffer(text, np.uint8, total, len(text) - total)


def parcels_here(
    texts: Sequence[tuple[int, memoryview | Section]], read: Callable[[int, int, int], Bytes]
) -> Arrived | None:
    """The parcels of manifests whose data came with them, or is to be read where it lies: those of a board.

    None where there is a note, or data that goes as messages.

    Args:
        texts: (from whom, text); in the place of packed mail, and of what lies in shared memory, may be its section.
    """
    if type(texts) is tuple:
        return parcels_of(texts)
    arrived: Arrived = []
    for k, text in texts:
        if isinstance(text, Section):
            arrived += parcels_of(((k, text),)) if text[3] is None else [(k, {MAIL: text})]
            continue
        begins = text[0]  # a pickle's first byte is neither
        if begins == PACKED:
            arrived.append((k, {MAIL: packed_section(text)}))
            continue
        if PLAIN <= begins <= SEVERAL:
            arrived.append((k, plain_sections(bytes(text))))
            continue
        if begins == LENT:
            descriptors, words, messages, size, at = read_lent(text)
            arrived.append((k, {MAIL: new_tuple(Section, (descriptors, words, messages, read(k, at, size)))}))
            continue
        found = loads(text)
        if len(found) == MAIL_ALONE:
            arrived.append((k, {MAIL: new_tuple(Section, found)}))
            continue
        note, entries = found
        if note is not None:
            return None
        parcel = {}
        end = len(text)
        for entry in reversed(entries):
            if len(entry) == NO_DATA:
                stream, descriptors, words, messages = entry
                data = None
            else:
                stream, descriptors, words, messages, size, at = entry
                if not size:
                    data = None
                elif at >= 0:
                    data = read(k, at, size)
                elif at == WITH_MANIFEST:
                    end -= size
                    data = np.frombuffer(text, np.uint8, size, end).copy()  # the manifest's memory is used again
                else:
                    return None
            parcel[stream] = new_tuple(Section, (descriptors, words, messages, data))
        if len(parcel) > 1:
            parcel = dict(reversed(parcel.items()))  # in the order in which the sender has them
        arrived.append((k, parcel))
    return arrived


def parcels_of(sections: Iterable[tuple[int, Section]], noted: dict[int, Any] | None = None) -> Arrived:
    """The parcels of packed mail and plain sections, as the compiled core gathers them.

    Args:
        noted: gets the notes, by source; None: their sections are in the parcels.
    """
    arrived: Arrived = []
    for k, section in sections:
        text = section[0]
        if text[0] == PACKED:
            arrived.append((k, {MAIL: section}))
        elif text[0] == NOTED and noted is not None:
            noted[k], at = notes_of(text)
            if at < len(text):
                arrived.append((k, plain_sections(text, at)))
        else:
            arrived.append((k, plain_sections(text)))
    return arrived


def sections_by_stream(
    sections: Iterable[tuple[int, Section]], noted: dict[int, Any]
) -> dict[int, list[tuple[int, Section]]]:
    """By stream, the sections by source of packed mail and plain sections, as the compiled core gathers them.

    Args:
        noted: gets the notes beside them, by source.
    """
    found: dict[int, list[tuple[int, Section]]] = {}
    for k, gathered in sections:
        text, at = gathered[0], 0
        if text[0] == NOTED:
            noted[k], at = notes_of(text)
            if at == len(text):
                continue
        begins = text[at]
        if begins == SEVERAL:
            each: Iterable[tuple[int, Section]] = map(plain_section, _several(text, at + SEVERAL_HEADER))
        elif begins == PACKED and not at:
            each = ((MAIL, gathered),)
        else:
            each = (plain_section(text, at),)
        for stream, section in each:
            if stream in found:
                found[stream].append((k, section))
            else:
                found[stream] = [(k, section)]
    return found


source = itemgetter(0)  # of what has arrived


# -- packed mail ------------------------------------------------------------------------------------------------------
#
# What small arrays, numbers, bytes and pickles are sent as, by pybsp/core.c: made as the program sends, and read as it
# reads. It is the descriptors of a section of mail without data, and alone on a board it is the manifest.
#
#   word            PACKED in bits 0 to 7; in bits 8 to 55 how many numbers without tags there are
#   2 words         words and messages, as of a section
#   records         1 word       bits  0 to  7   ARRAY_KIND, NUMBER_KIND: of Python, SCALAR_KIND: of numpy, BYTES_KIND,
#                                                or PICKLE_KIND
#                                      8 to 15   the type's character, as numpy and struct have it
#                                     16 to 23   axes
#                                     24 to 31   bytes of the tag; 0: it has none
#                                     32 to 62   bytes
#                   words        the array's shape
#                   content      padded to words
#                   tag          as marshal writes it, padded to words
#
# Or, where bit 56 of the first word is set: instead of these what marshal writes of a section's descriptors, which are
# records of Python (messages/mail.py) that say all.

PACKED = 1
PACKED_HEADER = 3 * WORD
PACKED_ONE = 15 << 13  # bytes of packed mail for a processor, at most, but of what is small
WRITTEN = 7  # the byte that has that bit
ARRAY_KIND, NUMBER_KIND, SCALAR_KIND, BYTES_KIND, PICKLE_KIND = range(7, 12)
CHAR_SHIFT, NDIM_SHIFT, TAG_SHIFT, SIZE_SHIFT = 8, 16, 24, 32
TAG_MOST = 255  # bytes of a tag; one that has more goes in records of Python


def packed_section(mail: bytes | bytearray | memoryview) -> Section:
    """The section that packed mail is; it is copied."""
    _, words, messages = _totals.unpack_from(mail)
    return new_tuple(Section, (bytes(mail), words, messages, None))


def written(records: list[tuple[Any, ...]], words: int, messages: int) -> bytearray:
    """Packed mail of records of Python; a ValueError where marshal does not know something in them."""
    mail = bytearray(pack("3q", PACKED | 1 << 8 * WRITTEN, words, messages))
    mail += marshal.dumps(records, MARSHAL)
    return mail


def records_of(mail: bytes) -> list[tuple[Any, ...]]:
    """The records of such mail."""
    found: list[tuple[Any, ...]] = marshal.loads(memoryview(mail)[PACKED_HEADER:])
    return found


# Where mail lies beside its records, in the sender's part, the compiled core sends that alone on a board as
#
#   word            LENT
#   2 words         words and messages, as of a section
#   2 words         bytes of the data; where it lies in the part
#   records         of Python, as marshal writes them

LENT = 5
_lent_header = Struct("5q")


def lent_text(records: list[tuple[Any, ...]], words: int, messages: int, size: int, at: int) -> bytearray:
    """What says where mail lies; a ValueError where marshal does not know something in its records."""
    return bytearray().join((_lent_header.pack(LENT, words, messages, size, at), marshal.dumps(records, MARSHAL)))


def read_lent(text: bytes | memoryview) -> tuple[list[tuple[Any, ...]], int, int, int, int]:
    """Records, words, messages, bytes, and where these lie."""
    _, words, messages, size, at = _lent_header.unpack_from(text)
    return marshal.loads(text[_lent_header.size :]), words, messages, size, at


def packed_records(mail: bytes | bytearray) -> Iterator[tuple[int, str, int, tuple[int, ...], int, Any]]:
    """The records of packed mail: kind, character, bytes, shape, where the content begins, and the tag."""
    at = PACKED_HEADER
    while at < len(mail):
        (word,) = unpack_from("q", mail, at)
        kind, size, axes = word & 255, word >> SIZE_SHIFT, word >> NDIM_SHIFT & 255
        shape = unpack_from(f"{axes}q", mail, at + WORD)
        begin = at + WORD * (1 + axes)
        at = begin + (size + WORD - 1 & -WORD)
        tagged = word >> TAG_SHIFT & TAG_MOST
        tag = marshal.loads(mail[at : at + tagged]) if tagged else None
        at += tagged + WORD - 1 & -WORD
        yield kind, chr(word >> CHAR_SHIFT & 255), size, shape, begin, tag


# -- a plain section --------------------------------------------------------------------------------------------------
#
# What a queue, a pattern, puts or gets have for one processor of the board, where that is little: it is the manifest,
# or one of several sections in it (below). Its first byte is that of no pickle, and of no packed mail.
#
#   word            PLAIN
#   2 words         words and messages that it counts
#   3 words         stream; messages, or items of a queue, as of a section; bytes of the descriptors, padded
#   descriptors     a pickle; none where they are None
#   content         to the end

PLAIN, NOTED, SEVERAL = 2, 3, 4
PLAIN_HEADER = 6 * WORD
PLAIN_MOST = 1 << 16  # bytes of content
LAID_MOST = 1 << 16  # bytes of all that a processor sends so, where that is for several, or has notes
ITEMS = 256  # processors, at most, that one sends so to
_plain_header, _plain_header_into = Struct("6q").pack, Struct("6q").pack_into
_plain_words = Struct("6q").unpack_from
NOTED_HEADER = 3 * WORD
MARSHAL = 2  # what is written so all Python releases read; in half a pickle's time


def _pickled(descriptors: Any) -> bytes:
    text = dumps(descriptors, 5)
    return text + bytes(-len(text) % ALIGN)


_described = lru_cache(maxsize=64)(_pickled)
_read_again = lru_cache(maxsize=64)(loads)  # of a program there are few, and nobody changes them


def plain_text(
    stream: int, descriptors: Any, words: int, messages: int, items: int, content: Iterable[Any]
) -> bytearray:
    """A plain section.

    Args:
        descriptors: something hashable.
        words, messages: that it counts.
        items: as of a section: the items of a queue, or messages.
        content: buffers, one behind the other.
    """
    return _plain(b"" if descriptors is None else _described(descriptors), stream, words, messages, items, content)


def _plain(text: bytes, stream: int, words: int, messages: int, items: int, content: Iterable[Any]) -> bytearray:
    return bytearray().join((_plain_header(PLAIN, words, messages, stream, items, len(text)), text, *content))


# The content of one of puts, where each is a *run*, of items at equal distances: of each 4 words, which are the number
# of its array, the first item, how far it is to the next, and the bytes of its values, and these, padded to words.
# Where some are none it has descriptors, which are the records of all. Of what is read where it lies it is 2 words:
# words and messages.

PUT_HEADER = 4 * WORD
_run_words, run_at = Struct("4q").pack, Struct("4q").unpack_from
_first_run_words = Struct("10q").pack
_PADDING = [bytes(-k % WORD) for k in range(WORD)]
_reads, _words_of_reads = Struct("8q"), Struct("2q").unpack_from


def add_run(text: bytearray | None, number: int, first: int, step: int, values: bytes) -> bytearray:
    """A put more in the plain section of runs for a processor, which may be the first one; returns the section."""
    size = len(values)
    if text is None:
        words = _first_run_words(PLAIN, (size + 7) >> 3, 1, PUTS, 1, 0, number, first, step, size)
        return bytearray().join((words, values, _PADDING[size % WORD]))
    text += _run_words(number, first, step, size)
    text += values
    text += _PADDING[size % WORD]
    return text


def end_runs(text: bytearray) -> tuple[int, int]:
    """Nothing more comes in such a section: its header, which that of one run has. Returns words and messages."""
    count, at, end = 0, PLAIN_HEADER, len(text)
    while at < end:
        at += PUT_HEADER + (run_at(text, at)[3] + WORD - 1 & -WORD)
        count += 1
    words = (end - PLAIN_HEADER - PUT_HEADER * count) // WORD  # what is padded counts whole
    if count > 1:
        _plain_header_into(text, 0, PLAIN, words, count, PUTS, count, 0)
    return words, count


def runs_of(text: bytes | bytearray | memoryview, at: int = PLAIN_HEADER) -> Iterator[tuple[int, int, int, bytes]]:
    """Array, first item, distance and values of each, from there on."""
    while at < len(text):
        number, first, step, size = run_at(text, at)
        at += PUT_HEADER
        yield number, first, step, bytes(text[at : at + size])
        at += size + WORD - 1 & -WORD


def plain_puts(puts: Sequence[tuple[Any, ...]], words: int, data: Bytes) -> bytearray:
    """The plain section of puts, which count so many words; data: what their records refer to."""
    return _plain(_pickled(puts), PUTS, words, len(puts), len(puts), (data,))


def puts_alone(
    sections: Sequence[tuple[int, Section]],
) -> tuple[int, int, list[tuple[bytes, Sequence[tuple[Any, ...]] | None, int]]] | None:
    """Words and messages of plain sections, as the compiled core gathers them, where puts are all that is in them; and
    of each its text, the records, or None where they are runs, and where these, or its data, begin. Else None.
    """
    words = messages = 0
    found = []
    for _, section in sections:
        text: bytes = section[0]
        if text[0] != PLAIN:
            return None
        _, of_one, _, stream, count, size = _plain_words(text)
        if stream != PUTS:
            return None
        words, messages = words + of_one, messages + count
        records = _read_again(text[PLAIN_HEADER : PLAIN_HEADER + size]) if size else None
        found.append((text, records, PLAIN_HEADER + size))
    return words, messages, found


def plain_reads(counts: Sequence[int]) -> bytearray:
    """The plain section that says what is read where it lies."""
    return bytearray(_reads.pack(PLAIN, 0, 0, READS, 0, 0, *counts))  # as `plain_text` has it, in one step


def read_reads(section: Section) -> tuple[int, int]:
    """Words and messages that a section says are read, as it is or with descriptors."""
    words, messages = section[0] if section[3] is None else _words_of_reads(section[3].data)
    return words, messages


def reads_alone(sections: Iterable[tuple[int, Section]]) -> tuple[int, int] | None:
    """Words and messages that plain sections, as the compiled core gathers them, say are read, where they say no more;
    else None.
    """
    words = messages = 0
    for _, (text, *_) in sections:
        if len(text) != _reads.size:
            return None
        kind, _, _, stream, _, _, of_one, count = _reads.unpack(text)
        if kind != PLAIN or stream != READS:
            return None
        words, messages = words + of_one, messages + count
    return words, messages


def plain_section(text: bytes, at: int = 0) -> tuple[int, Section]:
    """The stream and the section of what begins there: a plain one, whose data is read in the text, or packed mail."""
    if text[at] == PACKED:
        return MAIL, packed_section(text[at:])
    _, words, _, stream, items, size = _plain_words(text, at)
    at += PLAIN_HEADER
    descriptors = _read_again(text[at : at + size]) if size else None
    data = np.frombuffer(text, np.uint8, -1, at + size)
    return stream, new_tuple(Section, (descriptors, words, items, data))


def marshalled(notes: Any) -> bytes:
    """The content of a section of notes."""
    return marshal.dumps(notes, MARSHAL)


def noted_text(written: bytes, count: int, words: int, plain: bytearray | None) -> bytearray:
    """A section of so many notes, which count so many words, and perhaps a plain one, or packed mail, behind it."""
    size = len(written)
    if plain is None:
        return bytearray().join((_totals.pack(NOTED | size << 8, words, count), written))
    _, more_words, more_messages = _totals.unpack_from(plain)
    head = _totals.pack(NOTED | size << 8, words + more_words, count + more_messages)
    return bytearray().join((head, written, _PADDING[size % WORD], plain))


def notes_of(text: bytes) -> tuple[Any, int]:
    """The notes of such a section, and where the plain one behind it begins, or the text ends."""
    end = NOTED_HEADER + (_totals.unpack_from(text)[0] >> 8)
    return marshal.loads(text[NOTED_HEADER:end]), end if end == len(text) else end + -end % WORD


def plain_sections(text: bytes, at: int = 0) -> Parcel:
    """The sections, by stream, of a text that is a plain one, has notes too, or is several; data is read in the text.

    Args:
        at: where it begins.
    """
    if text[at] == SEVERAL:
        return dict(plain_section(one) for one in _several(text, at + SEVERAL_HEADER))
    if text[at] != NOTED:
        return dict((plain_section(text, at),))
    words = _totals.unpack_from(text)[1]
    notes, at = notes_of(text)
    parcel = plain_sections(text, at) if at < len(text) else {}
    words -= sum(section[1] for section in parcel.values())
    parcel[NOTES] = new_tuple(Section, (notes, words, len(notes), None))
    return parcel


# Where plain sections of several streams, or packed mail beside them, are for one processor:
#
#   word            SEVERAL
#   2 words         words and messages that all of them count
#   sections        a word, which is the bytes of the section; itself, padded to words

SEVERAL_HEADER = 3 * WORD


def lay_beside(texts: dict[int, bytearray], more: dict[int, bytearray]) -> None:
    """Add plain sections to those that are there, by destination."""
    for dest, text in more.items():
        there = texts.get(dest)
        if there is None:
            texts[dest] = text
            continue
        if there[0] != SEVERAL:
            _, words, messages = _totals.unpack_from(there)
            first, there = there, bytearray(_totals.pack(SEVERAL, words, messages))
            _add(there, first)
            texts[dest] = there
        _, words, messages = _totals.unpack_from(there)
        _, more_words, more_messages = _totals.unpack_from(text)
        _totals.pack_into(there, 0, SEVERAL, words + more_words, messages + more_messages)
        _add(there, text)


def _add(there: bytearray, text: bytearray) -> None:
    there += SIZE.pack(len(text))
    there += text
    there += _PADDING[len(text) % WORD]


def _several(text: bytes, at: int) -> Iterator[bytes]:
    """The sections, from there on: copies, as a section's data goes to its end."""
    while at < len(text):
        (size,) = SIZE.unpack_from(text, at)
        at += WORD
        yield text[at : at + size]
        at += size + -size % WORD


# -- the board --------------------------------------------------------------------------------------------------------
#
# A processor's part of a node's shared memory has a board for each of CONTEXTS contexts, and behind them an arena. On a
# board of a node with n processors lie (two of what each parity of an exchange's number has):
#
#   status   2 words          what this processor is doing: below
#   release  3 words          of a leader: as its status; where a text for all lies; bytes of it
#   borrows  2 x n words      for each processor of the board, which of its data is still read here: below
#   slots    2 x (n + 1) x 3  for each processor of the board, and then for all other nodes: where the manifest for it
#                             begins in this part; its tag; bytes
#   areas    2 x AREA bytes   manifests, and small data behind them; the text of a release
#
# status: bits  0 to  7   kind and flags
#         8               SOMETHING: this processor says or sends something
#         9               BORROWS: and some word of its borrows is not 0
#        10               SHOWS: this processor shows all others a record, at the beginning of its area. Where all
#                         processors meet there, and no more; where others meet elsewhere, a word says its bytes first
#        16 to 62         number of the exchange, which only grows: whoever is ahead has a larger status
# tag:    bit   0         HAS: there is a manifest in the slot
#         1 to 62         number of the exchange
# borrows: bits 0 to 31   data that came so many exchanges ago is read: AGES
#        32 to 61         data that is older is, that came so many blocks of exchanges ago: BLOCKS of each size
#        62               data that is still older is

CONTEXTS = 32  # boards of a processor; a part that is split off deeper meets by messages
AREA = 1 << 17  # bytes of a board's area for manifests, each parity
SLOT = 3  # words
TAG, BYTES = 1, 2  # of which these are the second and the third
HAS = 1
SOMETHING, BORROWS, SHOWS = 1 << 8, 1 << 9, 1 << 10
STATUS_EPOCH_SHIFT = 16  # bits that the number is shifted by in a status
TAG_EPOCH_SHIFT = 1  # and in a tag
AGES = 32  # exchanges of which borrowed data has a bit of its own
BLOCKS = 6  # blocks of exchanges of each size, which have one
BLOCK_POWERS = 2, 4, 6, 8, 10  # of 2: so many exchanges are in them; with the oldest a word has 63 bits, and a sign
NO_BOARD = -1  # instead of the number of an exchange: there is no memory for the board


def status(kind: int, number: int, flags: int = 0) -> int:
    """The status of a processor that has entered an exchange."""
    return kind | flags | number << STATUS_EPOCH_SHIFT


class BoardLayout(NamedTuple):
    """Where things lie in a processor's part, for one context: words, but areas, which are in bytes.

    Pairs are by parity.
    """

    status: slice
    release: slice
    borrows: tuple[slice, slice]
    slots: tuple[slice, slice]
    areas: tuple[int, int]


@cache
def board(size: int, context: int) -> BoardLayout:
    """The layout of a board on a node with so many processors in its window."""
    at = board_bytes(size) // WORD * context
    row, slots = size, (size + 1) * SLOT
    status, release, borrows = at, at + 2, at + 5
    first = borrows + 2 * row
    end = board_bytes(size) * (context + 1)
    return BoardLayout(
        slice(status, release),
        slice(release, borrows),
        (slice(borrows, borrows + row), slice(borrows + row, first)),
        (slice(first, first + slots), slice(first + slots, first + 2 * slots)),
        (end - 2 * AREA, end - AREA),
    )


def board_bytes(size: int) -> int:
    """Bytes of a board on a node with so many processors; the words before the areas end with a cache line."""
    return (5 * WORD + 2 * size * WORD + 2 * (size + 1) * SLOT * WORD + 63 & -64) + 2 * AREA


# -- aggregated -------------------------------------------------------------------------------------------------------
#
# What a processor has for other nodes, n nodes in all (*outgoing*):
#
#   2 x n words     for each node where its chunk begins and ends in this text; 0 and 0 where there is nothing for it
#   chunks          1 word          how many manifests there are
#                   2 words each    for whom, by its place on that node, or EVERYONE, which comes last; bytes
#                   manifests       one behind the other
#
# A message from leader to leader is a word as of a head, and behind it, of so many bytes as that says, a *body*. If
# all processors of the node do the same and have nothing for the other one, there is none, and the kind in the word is
# that of all. A body of more than MOST - 8 bytes goes as a message of its own.
#
#   words           for each processor of the sender's node, as of a head: kind, bytes of its chunk; with SHOWN its
#                   record lies ahead of the chunk, and counts among these bytes: a word that says how many, and these
#   chunks          those for the receiver's node
#
# What a leader lays down for its node (the text of a release): the words of all leaders, by node, and the bodies, by
# node. Its own node's word has no body.

MOST = 1 << 13  # bytes of a message from leader to leader
LEADER_STRIDE = MOST // WORD
MANY = 8  # processors of a node whose records are copied at once, where they are of one size
EVERYONE = -1  # of a node, but for those that have a manifest of their own


def outgoing(
    note: bytes, manifests: Mapping[int, bytes], groups: Sequence[Sequence[int]], others: Sequence[int]
) -> bytes:
    """What a processor has for other nodes.

    Args:
        note: for all processors that no manifest is for; empty: nothing.
        manifests: by processor of another node.
        groups: the processors of each node.
        others: the other nodes.
    """
    table = [0] * (2 * len(groups))
    at = first = WORD * len(table)
    found = []
    shared = 0  # where the chunk ends that only has the note, the same for several nodes
    if note:
        found = [pack("3q", 1, EVERYONE, len(note)), note]
        shared = at = first + 3 * WORD + len(note)
    for g in others:
        members = groups[g]
        entries = [(k, manifests[d]) for k, d in enumerate(members) if d in manifests]
        if not entries:
            table[2 * g : 2 * g + 2] = (first, shared) if note else (0, 0)
            continue
        if note and len(entries) < len(members):
            entries.append((EVERYONE, note))
        numbers = [len(entries)]
        for k, text in entries:
            numbers += k, len(text)
        chunk = b"".join([pack(f"{len(numbers)}q", *numbers), *(text for _, text in entries)])
        found.append(chunk)
        table[2 * g : 2 * g + 2] = at, at + len(chunk)
        at += len(chunk)
    return b"".join([pack(f"{len(table)}q", *table), *found])


def chunk_table(text: bytes | memoryview, nodes: int) -> tuple[int, ...]:
    """Where the chunks of an outgoing text begin and end, node by node."""
    return unpack_from(f"{2 * nodes}q", text)


def shown(record: bytes | memoryview) -> bytes:
    """A record, as it lies ahead of a chunk."""
    return SIZE.pack(len(record)) + record


def body(kinds: Sequence[int], sizes: Sequence[int], found: Sequence[bytes | memoryview]) -> bytes:
    """The body of a message to another leader: what each processor does, with SHOWN, and the chunks, of those sizes."""
    each = [kind | size << BYTES_SHIFT for kind, size in zip(kinds, sizes, strict=True)]
    return b"".join([pack(f"{len(each)}q", *each), *found])


def release_text(heads: Sequence[int], bodies: Sequence[bytes | memoryview]) -> bytes:
    """The text that a leader lays down for its node; bodies only of those nodes whose word says so."""
    return b"".join([pack(f"{len(heads)}q", *heads), *bodies])


def read_release(
    text: bytes | memoryview,
    groups: Sequence[Sequence[int]],
    own: int,
    place: int,
    kinds: list[int],
    rows: Sequence[memoryview],
) -> dict[int, memoryview]:
    """The manifests for a processor from other nodes, by source.

    Args:
        groups: the processors of each node.
        own: its node; place: on that node.
        kinds: by processor; gets those of other nodes.
        rows: by processor; get the records of other nodes (host_pads.py).
    """
    text = memoryview(text)
    found: dict[int, memoryview] = {}
    heads = unpack_from(f"{len(groups)}q", text)
    at = WORD * len(heads)
    for g, members in enumerate(groups):
        kind, _, size = parts_of(heads[g])
        if g == own:
            continue
        if not size:
            for s in members:
                kinds[s] = kind
            continue
        words = unpack_from(f"{len(members)}q", text, at)
        at += WORD * len(words)
        for s, word in zip(members, words, strict=True):
            kinds[s] = word & KIND_AND_FLAGS
            end = at + ((word & ~SHOWN) >> BYTES_SHIFT)
            if word & SHOWN:
                at = _copy_record(text, at, rows[s])
            if at < end:
                mine = _manifest_in(text, at, place)
                if mine is not None:
                    found[s] = mine
                at = end
    return found


def read_records(
    text: bytes | memoryview,
    groups: Sequence[Sequence[int]],
    own: int,
    kind: int,
    rows: Sequence[memoryview],
    table: NDArray[np.uint8],
) -> bool:
    """Copy the records of other nodes into rows.

    Args:
        groups, own: as of `read_release`.
        rows: as of `read_release`; table: the same.

    Returns:
        Whether all of these processors show one in an exchange of that kind, and say nothing else.
    """
    text = memoryview(text)
    heads = unpack_from(f"{len(groups)}q", text)
    at, alike = WORD * len(heads), True
    for g, members in enumerate(groups):
        if g == own:
            continue
        if not parts_of(heads[g])[2]:
            alike = False
            continue
        n = len(members)
        words = unpack_from(f"{n}q", text, at)
        at += WORD * n
        if n >= MANY and words.count(words[0]) == n and words[0] & SHOWN:
            size = (words[0] & ~SHOWN) >> BYTES_SHIFT
            block = np.frombuffer(text, np.uint8, n * size, at).reshape(n, size)
            if (block[:, :WORD].view(np.int64) == size - WORD).all():  # they say nothing else
                table[members, WORD:size] = block[:, WORD:]
                alike &= words[0] & KIND_AND_FLAGS == kind
                at += n * size
                continue
        for s, word in zip(members, words, strict=True):
            end = at + ((word & ~SHOWN) >> BYTES_SHIFT)
            if word & SHOWN:
                at = _copy_record(text, at, rows[s])
            alike &= at == end and word & (SHOWN | KIND_AND_FLAGS) == SHOWN | kind
            at = end
    return alike


def _copy_record(text: memoryview, at: int, row: memoryview) -> int:
    """Copy the record ahead of a chunk; returns where the chunk begins."""
    start = at + WORD
    size = SIZE.unpack_from(text, at)[0]
    row[WORD : WORD + size] = text[start : start + size]
    return int(start + size)


def _manifest_in(text: memoryview, at: int, place: int) -> memoryview | None:
    """A processor's manifest in a chunk."""
    (count,) = unpack_from("q", text, at)
    entries = unpack_from(f"{2 * count}q", text, at + WORD)
    at += WORD + 2 * WORD * count
    for k in range(0, 2 * count, 2):
        size = entries[k + 1]
        if entries[k] in (place, EVERYONE):
            return text[at : at + size]
        at += size
    return None


# -- sparse -----------------------------------------------------------------------------------------------------------
#
# A head to a partner: the number of the exchange; 0, and the manifest behind it; or the bytes of the manifest, which
# follows as a message of its own.
#
# A word of the dissemination is four: the least kind, the largest kind (both without flags), the flags of all, with
# HAS_NOTE where any has a note; and the number of the exchange.

SPARSE_HEADER = 2 * WORD
SPARSE_WORD = 4 * WORD
LEAST, LARGEST, FLAGS, EXCHANGE = range(4)
HAS_NOTE = 1 << 8  # a flag beside the kind: this processor says something to all


def sparse_head(number: int, size: int, text: bytes) -> bytes:
    """A head; size: of the manifest where it follows, else 0."""
    return pack("2q", number, size) + text


def read_sparse_head(text: memoryview) -> tuple[int, int, memoryview]:
    """Number, bytes of what follows, and the manifest."""
    number, size = unpack_from("2q", text)
    return number, size, text[SPARSE_HEADER:]


# -- revocation -------------------------------------------------------------------------------------------------------
#
# NOTICE and WORD go over a communicator that is used for nothing else. A notice is a pickle of what left the exchange,
# in words; a word one of a `Failure`, or None. LAST goes over the communicator that is given up, and is empty: MPI
# keeps the order of two ranks' messages, so behind it nothing comes.

NOTICE, FAILURE, PROBE = 1, 2, 3
LAST = (1 << 15) - 1  # which no posted receive has; all libraries allow it
