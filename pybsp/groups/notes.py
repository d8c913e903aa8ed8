"""Notes by the numbers of a group: what is started on it, and is a number or a short array (rides/notes.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..rides.ride import signature
from .rides import GroupRide, GroupRides, Numbering

if TYPE_CHECKING:
    from ..rides.ride import Ride, Supersteps


class GroupNotes:
    """The notes of what rides on a group in the machine's supersteps, on one processor: as `Notes`."""

    def __init__(self, calls: GroupRides, group: Numbering) -> None:
        self._calls, self._group, self._rides = calls, group, calls.rides
        self._of_group = calls.rides.group_calls.on(group.members)
        self._notes = calls.rides.notes
        self.log, self.gate = self._notes.log, self._notes.gate

    def signature(self, name: str, agreed: dict[str, str]) -> int:
        """That of a call."""
        return signature(name, agreed, self._group.members)

    def ride(self, name: str, steps: Supersteps[Any], supersteps: int) -> Ride[Any]:
        """`Group.ride` of a function that is over after so many supersteps."""
        self._rides.check(name)
        ride = GroupRide(self._calls, name, steps, self._group)
        return self._rides.start_noted(name, steps, supersteps, ride)

    def begin(self, name: str, agreed: dict[str, str], of_call: int) -> int:
        """A call begins: see `Rides.begin`."""
        return self._rides.begin_on(self._of_group, name, agreed, of_call)

    def send(
        self, name: str, dests: Sequence[int], signature: int, value: Any, note: Callable[[Any], Any], words: int
    ) -> None:
        """A value that counts so many words goes to numbers of the group with this superstep; see `Notes.send`."""
        members = self._group.members
        self._notes.send(name, [members[dest] for dest in dests], signature, value, note, words)

    def take_from(self, signature: int, source: int, name: str) -> Any:
        """The note of a call's superstep from a number of the group; see `Notes.take_from`."""
        return self._notes.take_from(signature, self._group.members[source], name)

    def take(self, signature: int, sources: Sequence[int], name: str) -> list[tuple[int, Any]]:
        """`take_from` several, with these."""
        return [(source, self.take_from(signature, source, name)) for source in sources]
