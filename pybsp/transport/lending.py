"""Data in shared memory that is read where its sender put it: what its readers borrow, and what its sender has lent.

A reader posts a word for each sender: bit k if it reads data of k exchanges ago, the highest bit (AGES) for all older
data. Neither side looks through all data: weak references tell a reader that data is no longer referred to, and it
shifts its words by an exchange; a sender looks at bits that have gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from weakref import ref

from .memory import Bytes
from .wire import AGES

OLDEST = 1 << AGES


def aged(bits: int, by: int) -> int:
    """A word of bits, so many exchanges later."""
    if not bits or not by:
        return bits
    # All that there was is old now: one bit stands for it.
    if by >= AGES:
        return OLDEST
    # What is shifted out joins the oldest.
    bits <<= by
    return bits & (OLDEST - 1) | OLDEST if bits >= OLDEST else bits


class Lent:
    """Data that a processor has put where others read it.

    Attributes:
        data: by the number of the exchange that sent it, ascending.
    """

    __slots__ = ("_at", "_bits", "data")

    def __init__(self) -> None:
        self.data: dict[int, list[Bytes]] = {}
        self._bits = self._at = 0  # the ages that there are, at the exchange of this number

    def lend(self, number: int, data: Sequence[Bytes]) -> None:
        """Data goes out in an exchange, the last one so far."""
        self.data.setdefault(number, []).extend(data)
        self._bits, self._at = aged(self._bits, number - self._at) | 1, number

    def reclaim(self, number: int, reading: int) -> None:
        """Forget what nobody reads.

        Args:
            number: of this exchange.
            reading: the words of all readers, combined.
        """
        # Lent memory is free when all have posted in this exchange what they borrow; what this exchange sends counts
        # as borrowed (bit 0), as its readers post it from the next one on.
        there = aged(self._bits, number - self._at)
        gone = there & ~reading
        self._bits, self._at = there & reading, number
        while gone:
            age = gone.bit_length() - 1
            gone ^= 1 << age
            # No reader has this bit. With the list go the last references, by which the pool knows that memory is free.
            if age < AGES:
                del self.data[number - age]
            else:
                for old in list(self.data):
                    if number - old < AGES:
                        break
                    del self.data[old]

    def clear(self) -> list[Bytes]:
        """Forget everything; returns what was there."""
        found = [one for data in self.data.values() for one in data]
        self.data.clear()
        self._bits = 0
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
        self._numbers: list[dict[int, int]] = [{} for _ in range(others)]  # exchange: how many pieces of data

    def borrow(self, k: int, number: int, data: Bytes) -> None:
        """Data of a processor's that came in the exchange of this number is borrowed until nobody here refers to it."""
        entry = _Entry(self, k, number)
        # The callback is not Python's: no handler of a signal, whose exception would be lost there, runs in it.
        entry.reference = ref(data, partial(dropped.__setitem__, id(entry)))
        self._add(entry)

    def _add(self, entry: _Entry) -> None:
        self.entries[id(entry)] = _entries[id(entry)] = entry
        if entry.number > self._at:
            self._age(entry.number)
        # The sender counts the same exchanges, so the bit of this age means the same data to both.
        self._words[entry.k] |= aged(1, self._at - entry.number)
        numbers = self._numbers[entry.k]
        numbers[entry.number] = numbers.get(entry.number, 0) + 1

    def _age(self, number: int) -> None:
        if by := number - self._at:
            self._words = [aged(word, by) for word in self._words]
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
        del self.entries[id(entry)]
        numbers = self._numbers[entry.k]
        numbers[entry.number] -= 1
        # The last piece of that exchange: its bit goes, but for the oldest one, where other old data shares it.
        if not numbers[entry.number]:
            del numbers[entry.number]
            age = self._at - entry.number
            # Numbers ascend: the first is the oldest.
            if age < AGES or self._at - next(iter(numbers), self._at) < AGES:
                self._words[entry.k] &= ~(1 << min(age, AGES))

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
