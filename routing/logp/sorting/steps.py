"""The steps of sorting on LogP: relations known in advance, each followed by local work.

A processor holds r items, a list of (key, item) in order of the keys; equal keys stay in the order in which a step
arranges them, which is the same in every execution. All relations are of 1-relations, one a period.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, TypeVar

from ....machines.logp import LogPMachine
from ..phases import Phases, period
from ..pipelined import pipelined

Keyed = tuple[int, Any]  # key and item
Send = tuple[int, int, Any]  # slot, destination, payload
AnySortingStep = TypeVar("AnySortingStep", bound="SortingStep")
IDLE = -1
key_of = itemgetter(0)


def transfer_time(machine: LogPMachine, slots: int) -> int:
    """Of a relation of so many 1-relations, where processors both send and receive: 4o + max(G, 2o)(slots - 1) + L."""
    return 4 * machine.o + period(machine) * (slots - 1) + machine.L if slots else 0


def sequential(r: int, p: int) -> int:
    """Steps to sort r keys in 0..p on one processor: r min{log r, log(p+1) / log r}, by comparisons or by digits.

    Source: section 4.2, T_seq-sort.
    """
    if r < 2:
        return 0
    bits = (r - 1).bit_length()
    passes, sorted_by = 0, 1
    while sorted_by < p + 1:  # digits 0..r-1
        passes, sorted_by = passes + 1, sorted_by * r
    return r * min(bits, passes)


@dataclass(frozen=True)
class SortingStep(ABC):
    """One relation, on equal blocks of successive processors side by side.

    places: of each processor, its place in its block; IDLE where it is in none.
    """

    places: tuple[int, ...]

    @abstractmethod
    def slots(self, r: int) -> int:
        """1-relations that the relation has."""

    @abstractmethod
    def sends(self, place: int, items: list[Keyed]) -> Iterator[tuple[int, int, int]]:
        """What the processor at a place sends: slot, place of the receiver, index of the item."""

    @abstractmethod
    def work(self, r: int, p: int) -> int:
        """Steps of local work after the relation, for keys in 0..p."""

    @abstractmethod
    def after(self, place: int, items: list[Keyed], received: dict[int, list[Keyed]]) -> list[Keyed]:
        """The items after the step. `received`: by place of the sender, in the order of its slots."""

    @abstractmethod
    def comes(self, place: int, r: int) -> int:
        """How many items come to a place from others."""

    def time(self, machine: LogPMachine, r: int) -> int:
        """Steps it takes, from when the first message is prepared."""
        return transfer_time(machine, self.slots(r)) + self.work(r, machine.p)

    def run(self, phases: Phases, items: list[Keyed], r: int, start: int) -> list[Keyed]:
        """Do the step, r items a processor, the messages of slot 0 submitted at the start; collective."""
        proc = phases.proc
        place = self.places[proc.pid]
        first = proc.pid - place
        sends: list[Send] = []
        received: dict[int, list[tuple[int, Keyed]]] = {}
        if place != IDLE:
            for slot, to, index in self.sends(place, items):
                if to == place:
                    received.setdefault(place, []).append((slot, items[index]))
                else:
                    sends.append((slot, first + to, (slot, items[index])))
        expected = 0 if place == IDLE else self.comes(place, r)
        for message in pipelined(phases, sends, start, self.slots(r), expected):
            received.setdefault(message.source - first, []).append(message.payload)
        if not expected:
            return items
        # Messages of a pair come in any order: each says its slot, so that this is no sorting.
        in_order = {source: [item for _, item in sorted(came, key=key_of)] for source, came in received.items()}
        proc.compute(self.work(r, proc.p))
        return self.after(place, items, in_order)


def replicated(step: AnySortingStep, p: int, first: int, size: int) -> AnySortingStep:
    """The step of `size` processors on p, in each of the blocks of that size from processor `first` on that fit."""
    blocks = (p - first) // size
    places = (IDLE,) * first + step.places * blocks
    return replace(step, places=places + (IDLE,) * (p - len(places)))


def by_key(items: Iterable[Keyed]) -> list[Keyed]:
    """Sorted by key; equal keys in the order given. Sorted runs are merged."""
    return sorted(items, key=key_of)


@dataclass(frozen=True)
class MergeSplit(SortingStep):
    """A layer of a network: partners exchange all they have, the lower keeps the smaller half of both.

    partners: of each place, with whom it is compared; itself, if with nobody.
    """

    partners: tuple[int, ...]

    def slots(self, r: int) -> int:
        return r

    def work(self, r: int, p: int) -> int:
        return 2 * r

    def comes(self, place: int, r: int) -> int:
        return r if self.partners[place] != place else 0

    def sends(self, place: int, items: list[Keyed]) -> Iterator[tuple[int, int, int]]:
        partner = self.partners[place]
        if partner != place:
            yield from ((index, partner, index) for index in range(len(items)))

    def after(self, place: int, items: list[Keyed], received: dict[int, list[Keyed]]) -> list[Keyed]:
        partner = self.partners[place]
        if place < partner:
            return by_key(items + received[partner])[: len(items)]
        return by_key(received[partner] + items)[len(items) :]


def merge_split(layer: Iterable[tuple[int, int]], p: int) -> MergeSplit:
    """The step of a layer of a network on p processors."""
    partners = list(range(p))
    for i, j in layer:
        partners[i], partners[j] = j, i
    return MergeSplit(tuple(range(p)), tuple(partners))


@dataclass(frozen=True)
class Halves(SortingStep):
    """Steps 6 to 8 of columnsort, where a column is a processor: merge the lower half of each with the next's upper.

    Instead of a shift by half a column, a sort and a shift back, neighbours exchange the halves and keep their part.
    """

    def slots(self, r: int) -> int:
        return r // 2 * 2

    def work(self, r: int, p: int) -> int:
        return 2 * r

    def comes(self, place: int, r: int) -> int:
        return r // 2 * ((place > 0) + (place < max(self.places)))

    def sends(self, place: int, items: list[Keyed]) -> Iterator[tuple[int, int, int]]:
        half = len(items) // 2
        if place < max(self.places):
            yield from ((slot, place + 1, len(items) - half + slot) for slot in range(half))
        if place > 0:
            yield from ((half + slot, place - 1, slot) for slot in range(half))

    def after(self, place: int, items: list[Keyed], received: dict[int, list[Keyed]]) -> list[Keyed]:
        half = len(items) // 2
        upper, middle, lower = items[:half], items[half : len(items) - half], items[len(items) - half :]
        if place > 0:
            upper = by_key(received[place - 1] + upper)[half:]
        if place < max(self.places):
            lower = by_key(lower + received[place + 1])[:half]
        return upper + middle + lower


@dataclass(frozen=True)
class Relaid(SortingStep):
    """A step of columnsort that lays the keys down otherwise; a column is `members` successive processors."""

    columns: int
    members: int

    def work(self, r: int, p: int) -> int:
        return sequential(r, p)

    def after(self, place: int, items: list[Keyed], received: dict[int, list[Keyed]]) -> list[Keyed]:
        return by_key(item for source in sorted(received) for item in received[source])


@dataclass(frozen=True)
class Transpose(Relaid):
    """Step 2 of columnsort: take the keys column by column, and lay them down row by row.

    Which processor of a column holds a key does not matter, as columns are sorted next: so the s processors at the same
    place of their columns exchange r/s keys each.
    """

    def slots(self, r: int) -> int:
        return r - r // self.columns  # the rest stays where it is

    def comes(self, place: int, r: int) -> int:
        return r - r // self.columns

    def sends(self, place: int, items: list[Keyed]) -> Iterator[tuple[int, int, int]]:
        share = len(items) // self.columns
        column, member = divmod(place, self.members)
        for turn in range(1, self.columns + 1):
            to = (column + turn) % self.columns
            for k in range(share):
                yield (turn - 1) * share + k, to * self.members + member, to + k * self.columns


@dataclass(frozen=True)
class Untranspose(Relaid):
    """Step 4 of columnsort: take the keys row by row, and lay them down column by column.

    The rows of a processor are cut into s equal parts; part u of the processors at place m of their columns goes to
    processor m*s + u, which gives each processor of a column its share.
    """

    def slots(self, r: int) -> int:
        return r - r // self.columns if self.members == 1 else r

    def comes(self, place: int, r: int) -> int:
        own = place // self.columns == place % self.members
        return r - own * (r // self.columns)

    def sends(self, place: int, items: list[Keyed]) -> Iterator[tuple[int, int, int]]:
        share = len(items) // self.columns
        column, member = divmod(place, self.members)
        for turn in range(1, self.columns + 1):
            part = (column + turn) % self.columns
            for k in range(share):
                yield (turn - 1) * share + k, member * self.columns + part, part * share + k
