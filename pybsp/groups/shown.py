"""Supersteps of short records for a group (rides/shown.py): where all show each other records, so do groups.

All show their records in one superstep, those of all groups; each reads its own group's. What has no room in a record
is sent in the same exchange, and a group that takes more supersteps rides in it: then the others go on with it until
all groups are done, once they have read (`to_the_end`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from ..ground.chunk import Counted, pack_counts
from ..ground.short_records import Showable
from ..rides.ride import Supersteps, signature
from ..rides.shown import Begin, Counts, Read, Shown
from ..transport import Arrival
from ..transport.media.showing import Showing
from ..ways import BY_RECORD
from .rides import Numbering

if TYPE_CHECKING:
    from ..supersteps.superstep import SuperstepEngine

Result = TypeVar("Result")


class GroupShown(Shown):
    """The records of the processors of a group: as `Shown`, by the group's numbers."""

    def __init__(self, engine: SuperstepEngine, transport: Showing, group: Numbering) -> None:
        super().__init__(engine, transport)
        self._group, members = group, group.members
        self.pid = group.own
        self.parts = [self.parts[pid] for pid in members]
        self.words = [self.words[pid] for pid in members]
        self.pids = members
        self.others = [number for number in range(len(members)) if number != self.pid]
        self._theirs = [self.words[number] for number in self.others]
        self._members = tuple(members[number] for number in self.others)
        self._pids: dict[tuple[int, ...], tuple[int, ...]] = {}  # of sources, which are the group's numbers
        self._calls = engine.rides.group_calls.on(members)
        self._called = False  # whether a plain call goes on, see `to_the_end`
        self._more = False  # whether other groups go on after the superstep that has ended last
        if not self.others and not group.singles:
            self.idle = [([], [], [0], pack_counts(0, 0, 0, 0, BY_RECORD))]

    @classmethod
    def on(cls, engine: SuperstepEngine, group: Numbering) -> GroupShown | None:
        """Of a group; None as of `Shown.of`."""
        transport = engine.transport
        if engine.shown is None or not isinstance(transport, Showing):
            return None
        return cls(engine, transport, group)

    def signature(self, name: str, arguments: dict[str, str]) -> int:
        return signature(name, arguments, self._group.members)

    @property
    def begin(self) -> Begin:
        return self._begin

    def _begin(self, name: str, arguments: dict[str, str], of_call: int) -> int:
        engine = self._engine
        if engine.registrations.declared or not engine.gate.limit:
            return -1
        return engine.rides.begin_on(self._calls, name, arguments, of_call)

    def trace(self, name: str, dests: Sequence[int], words: int) -> None:
        super().trace(name, [self._group.members[dest] for dest in dests], words)

    def heard(self, name: str, steps: Callable[[], Supersteps[Result]]) -> Result:
        calls = self._engine.group_rides
        assert calls is not None
        self._calls.take_back()
        return calls.came(self._group, name, steps(), *self.taken())

    def show_record(
        self,
        name: str,
        label: float,
        signature: int,
        counts: Counts,
        value: Showable,
        sources: tuple[int, ...],
        read: Read | None = None,
        like: bytes | None = None,
    ) -> Any:
        pids = self._pids.get(sources)
        if pids is None:
            pids = self._pids[sources] = tuple(self._group.members[source] for source in sources)
        return super().show_record(name, label, signature, counts, value, pids, read, like)

    def to_the_end(self, name: str, call: Callable[..., Result], *args: Any, **kwargs: Any) -> Result:
        """A plain call, which ends when those of other groups do: after all has been read, combined and charged.

        Records, and what has come, are written over where others go on; and what is charged belongs to the superstep
        that others may have then.
        """
        if self._called:
            return call(*args, **kwargs)
        self._called = True
        try:
            return call(*args, **kwargs)
        finally:  # an op that raises keeps nobody waiting
            self._called = False
            more, self._more = self._more, False
            calls = self._engine.group_rides
            if more and calls is not None:
                calls.wait(name)

    def _take(
        self, name: str, arrival: Arrival, seconds: float, sent: Counted, got: Counted, differs: str = ""
    ) -> bool:
        self._more = super()._take(name, arrival, seconds, sent, got, differs)
        return self._more
