"""Functions that ride, called on groups: their messages by the numbers of a group, and when they are over everywhere.

What is called on a group rides with all that rides in the machine's supersteps. A plain call has supersteps of its own,
in which what was started goes on too, and nothing of the program's travels. As groups may have called different
things, or some more of them than others, each exchange of these says whether a plain call on any group goes on after it
(`FLAG_MORE`): so all leave together. The same says, of `finish`, whether anything that was started on any group does.

The calls on a group are counted by themselves, and their signatures hold its members: processors that belong to several
groups need not call on them in one order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, SupportsIndex, TypeVar

import numpy as np

from ..errors import UsageError, brief
from ..ground.chunk import Counted
from ..rides.ride import Letter, Ride, Rides, Stream, Supersteps, signature
from ..transport import Arrival

if TYPE_CHECKING:
    from ..supersteps.superstep import SuperstepEngine

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

    def refusal(self, operation: str, argument: str, number: Any) -> UsageError:
        """The error for a number that the group has not."""
        return UsageError(
            f"{operation}: argument {argument}: expected a number of the group from 0 to {len(self.members) - 1}, got "
            f"{brief(number)}"
        )


class GroupStream(Stream):
    """The messages of one call on a group: processors are the group's numbers."""

    __slots__ = ("_group",)

    def __init__(self, rides: Rides, name: str, mine: int, group: Numbering) -> None:
        super().__init__(rides, name, mine)
        self._group, self.pid = group, group.own

    def send(self, dest: SupportsIndex, payload: Any, note: Any = None) -> None:
        members = self._group.members
        if type(dest) is not int or not 0 <= dest < len(members):
            dest = self._number("send", "dest", dest)
        super().send(members[dest], payload, note)

    def _pids(self, dests: Iterable[SupportsIndex]) -> list[int]:
        members = self._group.members
        p = len(members)
        return [
            members[dest if type(dest) is int and 0 <= dest < p else self._number("send_all", "dests", dest)]
            for dest in dests
        ]

    def _number(self, operation: str, argument: str, dest: SupportsIndex) -> int:
        """A destination that is no plain int in range: an integer of numpy, or an error."""
        if isinstance(dest, np.integer) and 0 <= dest < len(self._group.members):
            return int(dest)
        raise self._group.refusal(f"{self._name}: stream.{operation}", argument, dest)

    def refuse(self) -> None:
        self._rides.refuse(self._signature, self._group.members)

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

    def __init__(self, calls: GroupRides, name: str, steps: Supersteps[Result_co], group: Numbering):
        super().__init__(calls.rides, name, steps)
        self._calls, self._group = calls, group
        self._number = calls.began()

    @property
    def goes_on(self) -> bool:
        """Whether it goes on after the next superstep, as far as this processor knows."""
        if self.done:
            return False
        return not self.announced if self.supersteps is None else self.supersteps > self.ended

    @property
    def _alone(self) -> bool:
        """Whether no group has a superstep for it, as all of them know: each is a processor alone, and has no need."""
        return self._group.singles and self.done

    def finish(self) -> Result_co:
        if not self._alone:
            self._calls.settle(self.name, self._number)
        return self._result("ticket.finish")

    def whole(self, more: bool = True) -> Result_co:
        """Go on in supersteps of its own, a plain call, until it is over, and so is what other groups have called.

        Args:
            more: whether there is a superstep after what has come.
        """
        if not self._alone:
            while more:
                more = self._rides.sync(self.name, self.goes_on)
            if not self.done:
                self._calls.differ(self.name)
        return self._result(self.name)

    def advance(self) -> None:
        for stream in self.streams:
            if stream.arrived:
                stream.renumber()  # type: ignore[attr-defined]
        super().advance()


class GroupRides:
    """What is called on the groups of a machine, on this processor; `rides`: all that rides there."""

    def __init__(self, engine: SuperstepEngine) -> None:
        self.rides = engine.rides
        # How many calls have begun, and how many of these are known to be over on all groups.
        self._began = self._settled = 0

    def began(self) -> int:
        """A call begins; returns its number."""
        self._began += 1
        return self._began

    def start(self, group: Numbering, name: str, steps: Supersteps[Result]) -> GroupRide[Result]:
        """Start a function on a group, in the machine's supersteps."""
        return self.rides.begun(GroupRide(self, name, steps, group))

    def carry_out(self, group: Numbering, name: str, steps: Supersteps[Result]) -> Result:
        """Run a function on a group in supersteps of its own, until all groups are done."""
        return self.start(group, name, steps).whole()

    def came(
        self, group: Numbering, name: str, steps: Supersteps[Result], arrival: Arrival, seconds: float, sent: Counted
    ) -> Result:
        """A function that begins with what came: see `SuperstepEngine.take_rides` and `carry_out`."""
        ride = self.start(group, name, steps)
        return ride.whole(self.rides.take(name, arrival, seconds, sent))

    def wait(self, name: str) -> None:
        """Other groups go on with what this one called by that name."""
        while self.rides.sync(name, False):
            pass

    def settle(self, name: str, number: int) -> None:
        """Go on until the call of that number is over, and all that was started on any group."""
        while number > self._settled:
            started = [ride for ride in self.rides.riding if isinstance(ride, GroupRide)]
            if self.rides.sync(name, any(ride.goes_on for ride in started)):
                continue
            for ride in started:
                if not ride.done:
                    self.differ(ride.name)
            self._settled = self._began

    def differ(self, name: str) -> NoReturn:
        """All others have left: processors of this group do not all know that it goes on.

        Raises:
            UsageError: what was different.
        """
        self.rides.differ(f"{name}: the processors of a group have called different functions")

    def stream(self, group: Numbering, name: str, arguments: Mapping[str, str]) -> GroupStream:
        """The stream of a call of the function whose generator runs."""
        rides = self.rides
        ride = rides.running("group")
        arguments = dict(arguments)
        of_call = signature(name, arguments, group.members)
        calls = self.rides.group_calls.on(group.members)
        stream = GroupStream(rides, name, self.rides.begin_on(calls, name, arguments, of_call), group)
        ride.streams.append(stream)
        return stream
