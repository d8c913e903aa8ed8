"""Supersteps of short records for a group (shown.py): where all of the machine meet on one board, groups do too.

All show their records in one superstep, those of all groups; each reads its own group's. A group that has more to say
rides in the same exchange: then the others go on with it until all groups are done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from .account import clock
from .group_rides import Numbering, group_signature
from .ledger import COLUMNS, Log, pack_row
from .rides import Supersteps
from .shown import NOT_SHOWN, Counts, Shown
from .transport import FLAG_MORE, RIDES, Arrival
from .transport.media.near import Near

if TYPE_CHECKING:
    from .superstep import SuperstepEngine

Result = TypeVar("Result")

_CHUNK = Log.CHUNK


class GroupShown(Shown):
    """The records of the processors of a group: as `Shown`, by the group's numbers."""

    on_group = True

    def __init__(self, engine: SuperstepEngine, transport: Near, group: Numbering) -> None:
        super().__init__(engine, transport)
        self._group, members = group, group.members
        self.pid = group.own
        self.parts = [self.parts[pid] for pid in members]
        self.words = [self.words[pid] for pid in members]
        self.others = [number for number in range(len(members)) if number != self.pid]
        self._theirs = [self.words[number] for number in self.others]
        self._calls = engine.rides.group_calls.on(members)
        self._came: tuple[Arrival, float]
        if not self.others and not group.singles:
            self.idle = [(False, [], [0], (0.0,) * 6)]

    @classmethod
    def on(cls, engine: SuperstepEngine, group: Numbering) -> GroupShown | None:
        """Of a group; None as of `Shown.of`."""
        transport = engine.transport
        if engine.shown is None or not isinstance(transport, Near):
            return None
        return cls(engine, transport, group)

    def signature(self, name: str, arguments: dict[str, str]) -> int:
        return group_signature(self._group.members, name, arguments)

    def begin(self, name: str, arguments: dict[str, str], of_call: int) -> int:
        engine = self._engine
        if engine.registrations.declared or not engine.gate.limit:
            return -1
        return engine.rides.begin_on(self._calls, name, arguments, of_call)

    def sync(self, name: str, label: float, signature: int, at: int, counts: Sequence[float]) -> None:
        if self._group.singles:
            return
        # Time counts here, as in `Shown.sync`.
        engine = self._engine
        try:
            enter = clock()
            arrival = self._show(RIDES)
            place = at >> 3
            if arrival is None:
                account = engine.account
                log, left = account.log, account.left
                account.left = leave = clock()
                row = log.end
                pack_row(
                    log.memory,
                    8 * row,
                    account.label_number or label,
                    account.work,
                    enter - left,
                    leave - left,
                    *counts,
                )
                account.work = 0.0
                log.end = row = row + COLUMNS
                if row == _CHUNK:
                    log.turn()
                for words in self._theirs:
                    if words[place] != signature:
                        self._differ(name, place, signature)
                return
            engine.settle(arrival, RIDES, f"is in {engine.rides.last_call().described()}")
            if any(words[place] != signature for words in self._theirs):
                self._differ(name, place, signature)
            self._go_on(name, arrival, enter, counts)
        except BaseException as error:
            self._leave(error, name)
            raise

    def hear(self, name: str, label: float, signature: int, at: int, read: Callable[[int], tuple[Any, Counts]]) -> Any:
        engine = self._engine
        try:
            enter = clock()
            arrival = self._show(RIDES)
            place = at >> 3
            if arrival is not None and any(words[place] != signature for words in self._theirs):
                self._came = arrival, enter - engine.account.left
                return NOT_SHOWN
            for words in self._theirs:
                if words[place] != signature:
                    self._differ(name, place, signature)
            found, counts = read(at)
            if arrival is None:
                self._write(label, enter, counts)
                return found
            engine.settle(arrival, RIDES, f"is in {engine.rides.last_call().described()}")
            self._go_on(name, arrival, enter, counts)
            return found
        except BaseException as error:
            self._leave(error, name)
            raise

    def heard(self, name: str, steps: Callable[[], Supersteps[Result]]) -> Result:
        calls = self._engine.group_rides
        assert calls is not None
        self._calls.take_back()
        arrival, seconds = self._came
        return calls.came(self._group, name, steps(), arrival, seconds)

    def _write(self, label: float, enter: float, counts: Sequence[float]) -> None:
        """The superstep's row of the ledger."""
        account = self._engine.account
        log, left = account.log, account.left
        account.left = leave = clock()
        row = log.end
        pack_row(log.memory, 8 * row, account.label_number or label, account.work, enter - left, leave - left, *counts)
        account.work = 0.0
        log.end = row = row + COLUMNS
        if row == _CHUNK:
            log.turn()

    def _go_on(self, name: str, arrival: Arrival, enter: float, counts: Sequence[float]) -> None:
        """This group is done, and others ride."""
        engine = self._engine
        if arrival.parcels:
            engine.agreement.differ(f"{name}: processors of this one's group call it with other arguments")
        assert engine.group_rides is not None
        self._write(float(self.label(name)), enter, counts)
        if arrival.kinds is not None and any(word & FLAG_MORE for word in arrival.kinds):
            engine.group_rides.wait(name)
