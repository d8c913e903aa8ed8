"""Functions that ride, called on groups: their messages by the numbers of a group, and when they are over everywhere.

What is started on a group rides with all that rides in the machine's supersteps. A plain call has supersteps of its
own, in which all that was started waits, and nothing of the program's travels. As groups may have called different
things, or some more of them than others, each exchange of these says whether anything on any group goes on after it
(`FLAG_MORE`): so all leave together.

The calls on a group are counted by themselves, and their signatures hold its members: processors that belong to several
groups need not call on them in one order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from .rides import Letter, Ride, Rides, Stream, Supersteps, signature
from .transport import Arrival

if TYPE_CHECKING:
    from .superstep import SuperstepEngine

Result = TypeVar("Result")
Result_co = TypeVar("Result_co", covariant=True)


class Numbering:
    """The processors of a group.

    Args:
        members: their pids, in the order of the group's numbers.
        pid: of this processor.
        singles: whether this one and all groups that are called on beside it have one member, which all know.

    Attributes:
        own: the number of this processor.
        numbers: by pid.
        ascending: whether numbers are in the order of pids.
    """

    __slots__ = ("ascending", "members", "numbers", "own", "singles")

    def __init__(self, members: tuple[int, ...], pid: int, singles: bool) -> None:
        self.members, self.singles = members, singles
        self.numbers = {member: number for number, member in enumerate(members)}
        self.own = self.numbers[pid]
        self.ascending = list(members) == sorted(members)


class GroupStream(Stream):
    """The messages of one call on a group: processors are the group's numbers."""

    __slots__ = ("_group",)

    def __init__(self, rides: Rides, name: str, mine: int, group: Numbering) -> None:
        super().__init__(rides, name, mine)
        self._group, self.pid = group, group.own

    def send(self, dest: int, payload: Any, note: Any = None) -> None:
        super().send(self._group.members[dest], payload, note)

    def renumber(self) -> None:
        """What arrived is from the group's numbers, and in their order."""
        numbers = self._group.numbers
        self.arrived = [Letter(numbers[source], note, payload) for source, note, payload in self.arrived]
        if not self._group.ascending:
            self.arrived.sort(key=_source)


def _source(letter: Letter) -> int:
    return letter.source


class GroupRide(Ride[Result_co]):
    """A function that was called on a group: a ticket for its result, with `finish` for all groups at once."""

    def __init__(self, calls: GroupRides, rides: Rides, name: str, steps: Supersteps[Result_co], group: Numbering):
        super().__init__(rides, name, steps)
        self.supersteps = 0 if len(group.members) == 1 else None
        self._calls, self._group = calls, group
        self._number = calls.began(rides)

    @property
    def goes_on(self) -> bool:  # type: ignore[override]
        """Whether it goes on after the next superstep, as far as this processor knows."""
        return not self.told if self.supersteps is None else self.supersteps > self.ended

    def finish(self) -> Result_co:
        if not self._group.singles:
            while not self._calls.settled(self._rides, self._number):
                self._calls.sync(self._rides, self.name)
        return self._value

    def advance(self) -> None:
        for stream in self.streams:
            if stream.arrived:
                stream.renumber()  # type: ignore[attr-defined]
        super().advance()


class GroupRides:
    """What is called on the groups of a machine, on this processor.

    Attributes:
        rides: all that rides in the machine's supersteps, what was started on groups with it.
        apart: a plain call on a group, which has its own.
    """

    def __init__(self, engine: SuperstepEngine) -> None:
        self.rides, self.apart = engine.rides, Rides(engine)
        self.apart.group_calls = engine.rides.group_calls
        # Of each: how many calls have begun, and how many of these are known to be over on all groups.
        self._began = {self.rides: 0, self.apart: 0}
        self._settled = {self.rides: 0, self.apart: 0}

    def began(self, rides: Rides) -> int:
        """A call begins; returns its number."""
        self._began[rides] += 1
        return self._began[rides]

    def settled(self, rides: Rides, number: int) -> bool:
        """Whether the call of that number is over, and all beside it on other groups."""
        return number <= self._settled[rides]

    def start(self, group: Numbering, name: str, steps: Supersteps[Result]) -> GroupRide[Result]:
        """Start a function on a group, in the machine's supersteps."""
        return self.rides.begun(GroupRide(self, self.rides, name, steps, group))

    def carry_out(self, group: Numbering, name: str, steps: Supersteps[Result]) -> Result:
        """Run a function on a group in supersteps of its own, until all groups are done."""
        return self.apart.begun(GroupRide(self, self.apart, name, steps, group)).finish()

    def came(self, group: Numbering, name: str, steps: Supersteps[Result], arrival: Arrival, seconds: float) -> Result:
        """A function that begins with what came, after so many seconds of computing; see `carry_out`."""
        ride = self.apart.begun(GroupRide(self, self.apart, name, steps, group))
        self._ended(self.apart, self.rides.take_apart(name, arrival, seconds, self.apart))
        return ride.finish()

    def wait(self, name: str) -> None:
        """Other groups go on with what this one called by that name."""
        while self.apart.sync(name, on_groups=True):
            pass

    def sync(self, rides: Rides, name: str) -> None:
        """End a superstep for what was called on groups."""
        self._ended(rides, rides.sync(name, on_groups=True))

    def _ended(self, rides: Rides, more: bool) -> None:
        """A superstep has ended, after which something on some group goes on, or not."""
        if more:
            return
        left = [ride.name for ride in rides.riding if isinstance(ride, GroupRide)]
        if left:
            # All others have left: processors of this group do not all know that it goes on.
            rides.differ(f"{left[0]}: the processors of a group have called different functions")
        self._settled[rides] = self._began[rides]

    def stream(self, group: Numbering, name: str, arguments: Mapping[str, str]) -> GroupStream:
        """The stream of a call of the function whose generator runs."""
        rides = self.rides if self.apart.starting is None else self.apart
        assert rides.starting is not None
        arguments = dict(arguments)
        of_call = group_signature(group.members, name, arguments)
        calls = self.rides.group_calls.on(group.members)
        stream = GroupStream(rides, name, self.rides.begin_on(calls, name, arguments, of_call), group)
        rides.starting.streams.append(stream)
        return stream


def group_signature(members: tuple[int, ...], name: str, arguments: Mapping[str, str]) -> int:
    """`signature` of a call on a group."""
    return signature(f"{name} on {members}", arguments)
