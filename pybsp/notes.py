"""Notes: what rides in supersteps and is a number or a short array, as most sums are.

A note is a tuple: the signature of the superstep of the call that it belongs to (rides.py), and what a function made of
the value. All notes for a processor travel in one section; none is copied into a buffer, described or looked at on its
way, so a note takes a tenth of a message's time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from .participant import Texts
from .transport import NOTES, Parcel, Section, new_tuple
from .transport.wire import noted_text
from .ways import BY_COLLECTIVE

if TYPE_CHECKING:
    from .rides import Finish, Ride, Rides, Supersteps

Note = tuple[Any, ...]


class Notes:
    """The notes of what rides on one processor."""

    __slots__ = ("_came", "_rides", "_sent", "_words")

    def __init__(self, rides: Rides) -> None:
        self._rides = rides
        self._sent: dict[int, list[Note]] = {}
        self._words: dict[int, int] = {}
        self._came: dict[int, list[tuple[int, Note]]] = {}

    def signature(self, name: str, agreed: dict[str, str]) -> int:
        """That of a call."""
        return self._rides.signature(name, agreed)

    def ride(self, name: str, steps: Supersteps[Any], supersteps: int) -> Ride[Any]:
        """`BSP.ride` of a function that is over after so many supersteps."""
        self._rides.check(name)
        return self._rides.start_noted(name, steps, supersteps)

    def ride_at_once(
        self,
        name: str,
        agreed: dict[str, str],
        of_call: int,
        notes: tuple[Sequence[int], Callable[[int, Any], Note], int],
        value: Any,
        finish: Finish,
    ) -> Ride[Any]:
        """Begin a call that is over with this superstep, and has sent all that it sends: see `NotedRide`.

        Args:
            name, agreed, of_call: as of `begin`.
            notes: to whom the value goes, what makes a note of it, and its words.
            value: of this processor.
            finish: gets that, and the signature.
        """
        # Time counts here: it is what a started collective adds to a superstep.
        rides = self._rides
        ride = rides.start_at_once(name, agreed, of_call, finish, value)
        dests, noted, words = notes
        if dests:
            note = noted(ride.signature, value)
            for dest in dests:
                sent = self._sent.get(dest)
                if sent is None:
                    self._sent[dest], self._words[dest] = [note], words
                else:
                    sent.append(note)
                    self._words[dest] += words
            rides.words[name] = rides.words.get(name, 0) + words * len(dests)
        return ride

    def take_from(self, signature: int, source: int, name: str) -> Note:
        """`take` of what one processor sent."""
        came = self._came.pop(signature, None)
        if came is None or len(came) != 1 or came[0][0] != source:
            self.differ(f"{name}: processor {source} is in another call than processor {self._rides.pid}")
        return came[0][1]

    def work(self, flops: float) -> None:
        """`BSP.work`."""
        self._rides.work(flops)

    def begin(self, name: str, agreed: dict[str, str], of_call: int) -> int:
        """A call begins: see `Rides.begin`."""
        return self._rides.begin(name, agreed, of_call)

    def send(self, dest: int, note: Note, words: int) -> None:
        """A note that counts so many words goes to a processor with this superstep."""
        sent = self._sent.get(dest)
        if sent is None:
            self._sent[dest], self._words[dest] = [note], words
        else:
            sent.append(note)
            self._words[dest] += words

    def count(self, name: str, words: int) -> None:
        """See `Rides.count`."""
        self._rides.count(name, words)

    def pending(self) -> bool:
        """Whether any go out with this superstep."""
        return bool(self._sent)

    def take(self, signature: int, expected: list[int], name: str) -> list[tuple[int, Note]]:
        """The notes of a call's superstep, with their sources in order.

        Raises:
            UsageError: they do not come from those that are expected, one from each.
        """
        came = self._came.pop(signature, [])
        if [source for source, _ in came] != expected:
            found = [source for source, _ in came]
            odd = sorted(set(expected).symmetric_difference(found)) or found
            self.differ(f"{name}: processor {odd[0]} is in another call than processor {self._rides.pid}")
        return came

    def differ(self, complaint: str) -> NoReturn:
        """See `Stream.differ`."""
        self._rides.differ(complaint)

    def pack(self, parcels: dict[int, Parcel]) -> None:
        """Put what goes out into the parcels, and start afresh."""
        if self._sent:
            for dest, notes in self._sent.items():
                parcels.setdefault(dest, {})[NOTES] = new_tuple(Section, (notes, self._words[dest], len(notes), None))
            self._sent, self._words = {}, {}

    def lay(self, texts: Texts) -> int:
        """`pack`, beside the plain sections that are there, and stay as it is until `laid`; returns the way."""
        for dest, notes in self._sent.items():
            texts[dest] = noted_text(notes, self._words[dest], texts.get(dest))
        return BY_COLLECTIVE if self._sent else 0

    def laid(self) -> None:
        """What `lay` has added goes out: start afresh."""
        self._sent, self._words = {}, {}

    def deliver(self, arrived: Sequence[tuple[int, Section]]) -> None:
        """What came with a superstep."""
        came = self._came = {}
        for source, section in arrived:
            for note in section.descriptors:
                waiting = came.get(note[0])
                if waiting is None:
                    came[note[0]] = [(source, note)]
                else:
                    waiting.append((source, note))

    def all_taken(self) -> None:
        """Everything has gone on: refuse what nobody here took.

        Raises:
            UsageError: something is left.
        """
        if self._came:
            (source, _), *_ = next(iter(self._came.values()))
            self._came = {}
            self.differ(f"processor {source} sent what processor {self._rides.pid} does not wait for")
