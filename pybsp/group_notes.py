"""Notes by the numbers of a group: what is started on it, and is a number or a short array (notes.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .group_rides import GroupRide, GroupRides, Numbering, group_signature
from .notes import Note

if TYPE_CHECKING:
    from .rides import Ride, Supersteps


class GroupNotes:
    """The notes of what rides on a group in the machine's supersteps, on one processor: as `Notes`."""

    def __init__(self, calls: GroupRides, group: Numbering) -> None:
        self._calls, self._group, self._rides = calls, group, calls.rides
        self._of_group = calls.rides.group_calls.on(group.members)
        self._notes = calls.rides.notes
        self.count = self._notes.count

    def signature(self, name: str, agreed: dict[str, str]) -> int:
        """That of a call."""
        return group_signature(self._group.members, name, agreed)

    def ride(self, name: str, steps: Supersteps[Any], supersteps: int) -> Ride[Any]:
        """`Group.ride` of a function that is over after so many supersteps."""
        self._rides.check(name)
        ride = GroupRide(self._calls, name, steps, self._group)
        return self._rides.start_noted(name, steps, supersteps, ride)

    def begin(self, name: str, agreed: dict[str, str], of_call: int) -> int:
        """A call begins: see `Rides.begin`."""
        return self._rides.begin_on(self._of_group, name, agreed, of_call)

    def send(self, dest: int, note: Note, words: int) -> None:
        """A note that counts so many words goes to a number of the group with this superstep."""
        self._notes.send(self._group.members[dest], note, words)

    def take(self, signature: int, expected: list[int], name: str) -> list[tuple[int, Note]]:
        """The notes of a call's superstep, with their sources, numbers of the group, in order; see `Notes.take`."""
        members, numbers = self._group.members, self._group.numbers
        pids = sorted(members[number] for number in expected)
        came = [(numbers[source], note) for source, note in self._notes.take(signature, pids, name)]
        return came if self._group.ascending else sorted(came, key=_source)


def _source(came: tuple[int, Note]) -> int:
    return came[0]
