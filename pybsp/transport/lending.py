"""Data in shared memory that is read where its sender put it: what its readers hold, and what its sender has lent.

Who still reads what is told by a word for each sender: bit k where data of k exchanges ago is read, the highest (AGES)
for all that is older. Neither side looks through what is kept: a reader is told by weak references that data is no
longer referred to, and shifts its words by an exchange; a sender looks at bits that have gone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Any
from weakref import ref

from .memory import Bytes

AGES = 62  # exchanges that data is told apart by, as long as somebody reads it: a word has so many bits and a sign
OLDEST = 1 << AGES


def aged(bits: int, by: int) -> int:
    """A word of bits, so many exchanges later."""
    if not bits or not by:
        return bits
    if by >= AGES:
        return OLDEST
    bits <<= by
    return bits & (OLDEST - 1) | OLDEST if bits >= OLDEST else bits


class Lent:
    """What a processor has put where others read it.

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

    def release(self, number: int, reading: int) -> None:
        """Forget what nobody reads.

        Args:
            number: of this exchange.
            reading: the words of all readers, combined.
        """
        there = aged(self._bits, number - self._at)
        gone = there & ~reading
        self._bits, self._at = there & reading, number
        while gone:
            age = gone.bit_length() - 1
            gone ^= 1 << age
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


class Held:
    """What a processor reads where others have put it.

    Args:
        others: from how many.

    Attributes:
        entries: what is still referred to here, by its id: whose holder, from whom, of which exchange, and a weak
            reference.
    """

    def __init__(self, others: int) -> None:
        self.entries: dict[int, list[Any]] = {}
        self._words = [0] * others  # at the exchange of `_at`
        self._at = 0
        self._numbers: list[dict[int, int]] = [{} for _ in range(others)]  # exchange: how many pieces of data
        self._dropped: deque[list[Any]] = deque()  # not yet taken off: a reference may go at any moment, in any thread

    def hold(self, k: int, number: int, data: Bytes) -> None:
        """Data of a processor's has come in this exchange; it is held until nobody here refers to it."""
        entry = [self, k, number]
        entry.append(ref(data, partial(_drop, entry)))
        self.entries[id(entry)] = entry
        self._add(k, number)

    def _add(self, k: int, number: int) -> None:
        self._age(number)
        self._words[k] |= 1
        numbers = self._numbers[k]
        numbers[number] = numbers.get(number, 0) + 1

    def _age(self, number: int) -> None:
        if by := number - self._at:
            self._words = [aged(word, by) for word in self._words]
            self._at = number

    def words(self, number: int) -> Sequence[int]:
        """For each processor, the ages of its data that is read here, in the exchange of this number."""
        self._age(number)
        while self._dropped:
            _, k, sent, _ = self._dropped.popleft()
            numbers = self._numbers[k]
            numbers[sent] -= 1
            if not numbers[sent]:
                del numbers[sent]
                age = number - sent
                # Numbers ascend: the first is the oldest.
                if age < AGES or number - next(iter(numbers), number) < AGES:
                    self._words[k] &= ~(1 << min(age, AGES))
        return self._words

    def hand_over(self, heir: Held, number: int, places: Sequence[int]) -> None:
        """From now on what is held here is the heir's, as if it had come in the exchange of this number.

        Args:
            places: of the processors, where the heir has them.
        """
        self.words(self._at)
        for key, entry in list(self.entries.items()):
            if (data := entry[3]()) is not None:  # and cannot go meanwhile
                entry[:3] = heir, places[entry[1]], number
                heir.entries[key] = entry
                heir._add(entry[1], number)
                del data
        self.entries.clear()


def _drop(entry: list[Any], _: object) -> None:
    held: Held = entry[0]
    held._dropped.append(held.entries.pop(id(entry)))
