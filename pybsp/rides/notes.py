"""Notes: what rides in supersteps and is a number or a short array, as most sums are.

A note is what a function made of the value, under the signature of the superstep of the call that it belongs to
(ride.py). All notes for a processor travel in one section; none is copied into a buffer, described or looked at on its
way, so a note takes a tenth of a message's time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..supersteps.participant import Texts
from ..transport import NOTES, Parcel, Section, new_tuple
from ..transport.wire import marshalled, noted_text
from ..ways import BY_NOTE

if TYPE_CHECKING:
    from ..ledger.log import Log
    from .ride import Ride, Rides, Supersteps

Noted = dict[int, Any]  # notes by signature
_NOTHING: Noted = {}  # of who has sent none
# What goes out: to whom, the signature, a value, what makes a note of that if it is no float, and its words.
Sent = tuple[Sequence[int], int, Any, Callable[[Any], Any], int]
Going = tuple[Sequence[int], Noted, int]  # to whom, the notes, and their words


class Notes:
    """The notes of what rides on one processor.

    Attributes:
        gate: whether something may be called.
        sent: what goes out with this superstep.
        came: with the last superstep, by source; who takes one takes it out.
        starter: prepares a call that is over with the superstep: `Rides.starter`.
    """

    __slots__ = ("_rides", "came", "gate", "sent", "starter")

    def __init__(self, rides: Rides) -> None:
        self._rides, self.starter, self.gate = rides, rides.starter, rides.gate
        self.sent: list[Sent] = []
        self.came: dict[int, Noted] = {}

    @property
    def log(self) -> Log:
        """The machine's: what is charged to `work` there is as by `BSP.work`."""
        return self._rides.account.log

    def signature(self, name: str, agreed: dict[str, str]) -> int:
        """That of a call."""
        return self._rides.signature(name, agreed)

    def ride(self, name: str, steps: Supersteps[Any], supersteps: int) -> Ride[Any]:
        """`BSP.ride` of a function that is over after so many supersteps."""
        self._rides.check(name)
        return self._rides.start_noted(name, steps, supersteps)

    def take_from(self, signature: int, source: int, name: str) -> Any:
        """The note of a call's superstep from a processor; a UsageError where it has sent none."""
        note = self.came.get(source, _NOTHING).pop(signature, None)  # which no note is
        if note is None:
            self._rides.differ(
                f"{name}: processor {source} has sent nothing of it where processor {self._rides.pid} waits for it: it "
                "has called it in another superstep, or not at all; all processors must call it together"
            )
        return note

    def take(self, signature: int, sources: Sequence[int], name: str) -> list[tuple[int, Any]]:
        """`take_from` several, with these."""
        return [(source, self.take_from(signature, source, name)) for source in sources]

    def begin(self, name: str, agreed: dict[str, str], of_call: int) -> int:
        """A call begins: see `Rides.begin`."""
        return self._rides.begin(name, agreed, of_call)

    def send(
        self, name: str, dests: Sequence[int], signature: int, value: Any, note: Callable[[Any], Any], words: int
    ) -> None:
        """A value that counts so many words goes to processors with this superstep: see `Sent`, and `Rides.count`."""
        if dests:
            self.sent.append((dests, signature, value, note, words))
            self._rides.count(name, words * len(dests))

    def pending(self) -> bool:
        """Whether any go out with this superstep."""
        return bool(self.sent)

    def _going(self) -> list[Going]:
        """What goes out: to whom, and its words."""
        if not self.sent:
            return []
        together: Noted = {}
        total, first, alike = 0, self.sent[0][0], True
        for dests, signature, value, note_of, words in self.sent:
            together[signature] = value if type(value) is float else note_of(value)
            total += words
            alike = alike and dests == first
        if alike:  # as most often
            return [(first, together, total)]
        going: dict[int, Noted] = {}
        counts: dict[int, int] = {}
        for dests, signature, _, _, words in self.sent:
            for dest in dests:
                if dest in going:
                    going[dest][signature] = together[signature]
                    counts[dest] += words
                else:
                    going[dest], counts[dest] = {signature: together[signature]}, words
        return [((dest,), notes, counts[dest]) for dest, notes in going.items()]

    def pack(self, parcels: dict[int, Parcel]) -> None:
        """Put what goes out into the parcels, and start afresh."""
        for dests, notes, words in self._going():
            for dest in dests:
                # Copied for each: virtual processors get it as it is, and who takes a note takes it out.
                parcels.setdefault(dest, {})[NOTES] = new_tuple(Section, (dict(notes), words, len(notes), None))
        self.sent = []

    def lay(self, texts: Texts) -> int:
        """`pack`, beside the plain sections that are there, and stay as it is until `Rides.laid`; returns the way."""
        for dests, notes, words in self._going():
            written, alone = marshalled(notes), None
            for dest in dests:
                plain = texts.get(dest)
                if plain is not None:
                    texts[dest] = noted_text(written, len(notes), words, plain)
                    continue
                if alone is None:  # one for all to whom nothing else goes: the board writes it once
                    alone = noted_text(written, len(notes), words, None)
                texts[dest] = alone
        return BY_NOTE if self.sent else 0

    def all_taken(self) -> None:
        """Everything has gone on: refuse what nobody here took, with a UsageError."""
        for source, notes in self.came.items():
            for mine in notes:
                self._rides.differ(self._rides.unawaited(source, mine))
