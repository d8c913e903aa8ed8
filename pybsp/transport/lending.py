"""Data in shared memory that is read where its sender put it: what its readers borrow, and what its sender has lent.

A reader posts a word for each sender, whose bits say how old the data is that it reads: a bit for each of the last
exchanges, then for blocks of exchanges, which are the longer the older (`bit`). So what moves on with a program, as a
window of what came last, is free again at any depth up to 7,000 exchanges: with the last of its block that is read, and
blocks are at most half as long as they are old.

Neither side looks through all data, if it is more than a little: weak references tell a reader that data is no longer
referred to, and it ages its words by an exchange; a sender looks at bits that have gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from typing import NamedTuple
from weakref import ref

from .memory import Bytes
from .wire import AGES, BLOCK_POWERS, BLOCKS


class _BlockSize(NamedTuple):
    """Bits of blocks of exchanges of one size; of the youngest a block is an exchange.

    power: a block is 2 to this power exchanges. Blocks begin at multiples of their size, and each size is one of the
        next: those of a block grow old together.
    first: the bit of the youngest.
    least, most: how many blocks ago they are.
    """

    power: int
    first: int
    least: int
    most: int


def _block_sizes() -> list[_BlockSize]:
    sizes = [_BlockSize(0, 0, 0, AGES - 1)]
    for power in BLOCK_POWERS:
        last = sizes[-1]
        least = last.most + 1 >> power - last.power  # what is no more of the last size is so many blocks ago at least
        sizes.append(_BlockSize(power, last.first + last.most - last.least + 1, least, least + BLOCKS - 1))
    return sizes


_SIZES = _block_sizes()
_SIZE_OF = [size for size in _SIZES for _ in range(size.least, size.most + 1)]  # by bit, but the oldest's
YOUNG = (1 << AGES) - 1  # what is older changes its bit where a block begins, and only there
_YOUNG_LAST = 1 << AGES - 1
_LAST = (1 << BLOCK_POWERS[0]) - 1  # of a smallest block, in a number's last bits
OLDEST = 1 << AGES + BLOCKS * len(BLOCK_POWERS)
FOR_EVER = 1 << 62  # a number of no exchange
FEW = 4  # exchanges whose data is lent: so many a sender looks through


def bit(sent: int, number: int) -> int:
    """The bit, in the exchange of a number, of data that was sent in an earlier one."""
    for power, first, least, most in _SIZES:
        ago = (number >> power) - (sent >> power)
        if ago <= most:
            return 1 << first - least + ago
    return OLDEST


def aged(word: int, at: int, number: int) -> int:
    """A word of the exchange `at`, in that of a number."""
    by = number - at
    if by == 1 and word < _YOUNG_LAST:
        return word << 1  # most often: all is young, and stays so
    if not word or not by:
        return word
    if by > 1:
        found = word & OLDEST
        for place in places(word ^ found):
            found |= bit(_sent_in(place, at)[0], number)
        return found
    if number & _LAST:  # as below, in fewer steps: no block begins, and what is young no more is of the youngest one
        young = (word & YOUNG) << 1
        return word & ~YOUNG | young & YOUNG | (YOUNG + 1 if young > YOUNG else 0)
    found = 0
    for power, first, least, most in _SIZES:
        of_size = word >> first & (2 << most - least) - 1
        if number & (1 << power) - 1:
            # No block of this size begins, and so none of a larger one.
            return found | word >> first << first
        found |= (of_size << 1 & (2 << most - least) - 1) << first
        if of_size >> most - least:
            found |= bit((number >> power) - most - 1 << power, number)
    return found | word & OLDEST


def places(word: int) -> Iterator[int]:
    """Those of the bits of a word, the highest first."""
    while word:
        place = word.bit_length() - 1
        word ^= 1 << place
        yield place


def _sent_in(place: int, number: int) -> range:
    """The exchanges whose data may have a bit in the exchange of a number; the first has it, if there is one."""
    power, first, least, _ = _SIZE_OF[place]
    block = (number >> power) - (place - first + least)
    return range(block << power, block + 1 << power)


def same_until(word: int, number: int) -> int:
    """The exchange before which a word of the exchange of a number stays what it is, if nothing comes or goes."""
    if word & YOUNG:
        return 0
    if word & (OLDEST - 1) == 0:
        return FOR_EVER
    power = _SIZE_OF[(word & -word).bit_length() - 1].power
    return (number >> power) + 1 << power


class Lent:
    """Data that a processor has put where others read it.

    Attributes:
        data: by the number of the exchange that sent it, ascending.
        word: the bits of all of it, at the exchange of the last number that was named here.
    """

    __slots__ = ("_at", "data", "word")

    def __init__(self) -> None:
        self.data: dict[int, list[Bytes]] = {}
        self.word = self._at = 0

    def lend(self, number: int, data: Sequence[Bytes]) -> None:
        """Data goes out in an exchange, the last one so far."""
        self.data[number] = [*self.data[number], *data] if number in self.data else [*data]
        word, by = self.word, number - self._at
        self.word = (word << 1 if by == 1 and word < _YOUNG_LAST else aged(word, self._at, number)) | 1
        self._at = number

    def reclaim(self, number: int, reading: int) -> None:
        """Forget what nobody reads.

        Args:
            number: of this exchange.
            reading: the words of all readers, combined.
        """
        # Lent memory is free when all have posted in this exchange what they borrow; what this exchange sends counts
        # as borrowed (bit 0), as its readers post it from the next one on.
        data = self.data
        if len(data) <= FEW and number - next(iter(data), number) < AGES:
            # As below, in fewer steps: most often there is no more than what came last, and all has bits of its own.
            word = 0
            for sent in [*data]:
                if reading & 1 << number - sent:
                    word |= 1 << number - sent
                else:
                    del data[sent]
            self.word, self._at = word, number
            return
        there = aged(self.word, self._at, number)
        gone = there & ~reading
        self.word, self._at = there & reading, number
        # No reader has these bits. With the list go the last references, by which the pool knows that memory is free.
        for place in places(gone):
            if place < AGES:
                del self.data[number - place]
                continue
            for sent in _sent_in(place, number) if 1 << place < OLDEST else list(self.data):
                # Those of a block that are younger have bits of their own.
                if sent in self.data and bit(sent, number) == 1 << place:
                    del self.data[sent]

    def clear(self) -> list[Bytes]:
        """Forget everything; returns what was there."""
        found = [one for data in self.data.values() for one in data]
        self.data.clear()
        self.word = 0
        return found


class Borrowed:
    """Data of others that a processor reads where they have put it.

    Args:
        others: from how many.

    Attributes:
        entries: what is referred to here, by a key; some may have been dropped since `words` was called.
    """

    def __init__(self, others: int) -> None:
        self.entries: dict[int, _Entry] = {}
        self._words = [0] * others  # at the exchange of `_at`
        self._at = 0
        # Of each: pieces of data by the number of their exchange; exchanges by the last number of their smallest block.
        # Both ascend: the first is the oldest.
        self._pieces: list[dict[int, int]] = [{} for _ in range(others)]
        self._blocks: list[dict[int, int]] = [{} for _ in range(others)]

    def borrow(self, k: int, number: int, data: Bytes) -> None:
        """Data of a processor's that came in the exchange of this number is borrowed until nobody here refers to it."""
        entry = _Entry(self, k, number)
        # The callback is not Python's: no handler of a signal, whose exception would be lost there, runs in it.
        entry.reference = ref(data, partial(dropped.__setitem__, id(entry)))
        self._add(entry)

    def _add(self, entry: _Entry) -> None:
        # The one that `words` looks in first: an exception may come in between.
        _entries[id(entry)] = self.entries[id(entry)] = entry
        if entry.number > self._at:
            self._age(entry.number)
        # The sender counts the same exchanges, so the bit of this age means the same data to both.
        self._words[entry.k] |= bit(entry.number, self._at)
        pieces = self._pieces[entry.k]
        if entry.number in pieces:
            pieces[entry.number] += 1
        else:
            pieces[entry.number] = 1
            blocks, block = self._blocks[entry.k], entry.number | _LAST
            blocks[block] = blocks.get(block, 0) + 1

    def _age(self, number: int) -> None:
        if number != self._at:
            self._words = [aged(word, self._at, number) for word in self._words]
            self._at = number

    def words(self, number: int) -> Sequence[int]:
        """For each processor, the ages of its data that is read here, in the exchange of this number."""
        self._age(number)
        # Data may be dropped at any moment, in any thread; what follows from it is done here alone.
        while dropped:
            entry = _entries.pop(dropped.popitem()[0])
            entry.borrower._take_off(entry)
        return self._words

    def _take_off(self, entry: _Entry) -> None:
        # An exception, as of a signal, may have left `_add`, or this, at any line. Nothing is exchanged then any more,
        # and all that is asked for is whether anything is still referred to.
        self.entries.pop(id(entry), None)
        pieces = self._pieces[entry.k]
        if entry.number not in pieces:
            return
        pieces[entry.number] -= 1
        if pieces[entry.number]:
            return
        # The last piece of that exchange.
        del pieces[entry.number]
        if self._at - entry.number < AGES:
            self._words[entry.k] &= ~(1 << self._at - entry.number)
        blocks, block = self._blocks[entry.k], entry.number | _LAST
        if block not in blocks:
            return
        blocks[block] -= 1
        if blocks[block]:
            return
        del blocks[block]
        # And of its smallest block, whose bit goes, if it does not share that of a larger one with others.
        found = bit(block - _LAST, self._at)
        alike = islice(blocks, 1) if found == OLDEST else _sent_in(found.bit_length() - 1, self._at)[_LAST :: _LAST + 1]
        if not any(other in blocks and bit(other - _LAST, self._at) == found for other in alike):
            self._words[entry.k] &= ~found

    def hand_over(self, heir: Borrowed, number: int, places: Sequence[int]) -> None:
        """From now on the heir borrows what is borrowed here, as if it had come in the exchange of this number.

        The sender lends it anew by the same number (`Board.retire`), so that both mean the same bit.

        Args:
            places: of the processors, where the heir has them.
        """
        self.words(self._at)
        for entry in self.entries.values():
            entry.borrower, entry.k, entry.number = heir, places[entry.k], number
            heir._add(entry)
        self.entries.clear()


class _Entry:
    """Data of processor k's of the exchange of a number, and who borrows it."""

    __slots__ = ("borrower", "k", "number", "reference")
    reference: object

    def __init__(self, borrower: Borrowed, k: int, number: int) -> None:
        self.borrower, self.k, self.number = borrower, k, number


_entries: dict[int, _Entry] = {}  # of this process, by id
dropped: dict[int, object] = {}  # of those, whose data is no longer referred to: at any moment, in any thread
