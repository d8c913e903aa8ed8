"""Supersteps in which each processor shows all others a short record: what a small collective is made of.

Where all processors meet on one board, such a superstep needs no parcel: each writes its record where all see it, and
reads those that it wants. A record begins with the signature of the call (rides.py), so a call that differs is found as
elsewhere. Not in checked mode, on virtual processors, or with a router that forwards: there a collective rides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

from .account import clock
from .failures import note_label
from .ledger import COLUMNS, Log, pack_row
from .rides import Supersteps, signature
from .transport import QUIET, RIDES, Arrival, Bytes
from .transport.arena import SMALLEST, SharedPool
from .transport.media.near import Near
from .transport.router import Direct
from .transport.wire import BY_MESSAGE

if TYPE_CHECKING:
    from .superstep import SuperstepEngine

Result = TypeVar("Result")

NOT_SHOWN: Final = object()
ELSEWHERE: Final = BY_MESSAGE  # where memory lies that others do not see
_CHUNK = Log.CHUNK


Counts = tuple[float, float, float, float, float, float]  # the end of a row of the ledger, from words_out on


class Shown:
    """The records of all processors of a machine, as one of them sees them; made by `Shown.of`.

    Attributes:
        parts: where they write, by processor, as bytes.
        words: the same as words of 8 bytes.
        places: where a record begins there, in bytes, by the parity of an exchange's number.
        most: bytes of a record.
        others: all but this processor.
        idle: the scheme of a call (collectives/small.py) for which this processor needs nobody, and keeps in step.
    """

    on_group = False  # group_shown.py

    def __init__(self, engine: SuperstepEngine, transport: Near) -> None:
        self._engine, self._show, self._board = engine, transport.show, transport.board
        self.parts, self.places, self.most = self._board.shown()
        self.words = [part.cast("q") for part in self.parts]
        self.mine, self.pid = self.parts[engine.pid], engine.pid
        self.others = [pid for pid in range(engine.p) if pid != engine.pid]
        self._theirs = [self.words[pid] for pid in self.others]
        self._came: tuple[Arrival, float]
        self.idle: list[tuple[bool, list[int], list[int], Counts]] = []

    @classmethod
    def of(cls, engine: SuperstepEngine) -> Shown | None:
        """Of a machine; None where its processors do not meet so, which all of them find alike."""
        transport = engine.transport
        if not isinstance(transport, Near) or not isinstance(engine.router, Direct) or engine.checked:
            return None
        return cls(engine, transport)

    def quiet(self) -> Arrival:
        """An exchange of what rides alone, in which this processor says nothing."""
        arrival = self._show(RIDES)
        return QUIET if arrival is None else arrival

    def signature(self, name: str, arguments: dict[str, str]) -> int:
        """That of a call."""
        return signature(name, arguments)

    def memory(self, size: int) -> tuple[int, Bytes]:
        """Memory of so many bytes where all see it, and its place in this processor's part; else `ELSEWHERE`."""
        pool = self._engine.pool
        memory = pool.take(max(size, SMALLEST))
        return pool.place(memory) if isinstance(pool, SharedPool) else ELSEWHERE, memory[:size]

    def parity(self) -> int:
        """That of the next superstep."""
        return self._board.number + 1 & 1

    def begin(self, name: str, arguments: dict[str, str], of_call: int) -> int:
        """A call begins: see `Rides.begin`.

        Returns:
            The signature of its first superstep; -1 where something else has to travel with it, on all processors.
        """
        engine = self._engine
        rides = engine.rides
        if rides.riding or engine.registrations.declared or not engine.gate.limit:
            return -1
        return rides.begin(name, arguments, of_call)

    def work(self, flops: float) -> None:
        """`BSP.work`."""
        self._engine.account.work += flops

    def sync(self, name: str, label: float, signature: int, at: int, counts: Sequence[float]) -> None:
        """End a superstep, once this processor's record is written.

        Args:
            name, label: label it where the program has no label; see `label`.
            signature: with which all records are to begin.
            at: where this one begins, in bytes.
            counts: of this processor, as `Counts`.
        """
        # Time counts here: it is what a collective of a number takes.
        engine = self._engine
        try:
            enter = clock()
            arrival = self._show(RIDES)
            if arrival is not None:
                self._refuse(arrival)
            account = engine.account
            log, left = account.log, account.left
            account.left = leave = clock()
            row = log.end
            # As `SuperstepEngine.sync` writes it.
            pack_row(
                log.memory, 8 * row, account.label_number or label, account.work, enter - left, leave - left, *counts
            )
            account.work = 0.0
            log.end = row = row + COLUMNS
            if row == _CHUNK:
                log.turn()
            place = at >> 3
            for words in self._theirs:
                if words[place] != signature:
                    self._differ(name, place, signature)
        except BaseException as error:
            self._leave(error, name)
            raise

    def hear(self, name: str, label: float, signature: int, at: int, read: Callable[[int], tuple[Any, Counts]]) -> Any:
        """`sync` of a processor that does not know whether the others show anything, and has nothing to say.

        Args:
            name, label, signature, at: as of `sync`.
            read: of the records at that place, what is wanted of them, and what this processor counts.

        Returns:
            What was read; `NOT_SHOWN` where they do not: then what came is `heard`.
        """
        engine = self._engine
        account = engine.account
        try:
            enter = clock()
            arrival = self._show(RIDES)
            if arrival is not None:
                self._came = arrival, enter - account.left
                return NOT_SHOWN
            place = at >> 3
            for words in self._theirs:
                if words[place] != signature:
                    self._differ(name, place, signature)
            found, counts = read(at)
            log, left = account.log, account.left
            account.left = leave = clock()
            row = log.end
            pack_row(
                log.memory, 8 * row, account.label_number or label, account.work, enter - left, leave - left, *counts
            )
            account.work = 0.0
            log.end = row = row + COLUMNS
            if row == _CHUNK:
                log.turn()
            return found
        except BaseException as error:
            self._leave(error, name)
            raise

    def heard(self, name: str, steps: Callable[[], Supersteps[Result]]) -> Result:
        """The call rides, and begins with what came instead of a record."""
        engine = self._engine
        engine.rides.take_back()
        riding = engine.rides.start(name, steps())
        arrival, seconds = self._came
        engine.take_rides(name, arrival, seconds, engine.rides)
        return riding.finish()

    def label(self, name: str) -> float:
        """The number of a label in the ledger."""
        labels = self._engine.account.log.labels
        return float(labels.setdefault(name, len(labels)))

    def _differ(self, name: str, place: int, signature: int) -> None:
        for pid in self.others:
            if self.words[pid][place] != signature:
                self._engine.agreement.differ(f"{name}: processor {pid} is in another call than processor {self.pid}")

    def _leave(self, error: BaseException, name: str) -> None:
        note_label(error, self._engine.account.label or name)
        self._engine.agreement.leave(error)

    def _refuse(self, arrival: Arrival) -> NoReturn:
        """Another processor did something else, or showed nothing."""
        engine = self._engine
        call = engine.rides.last_call()
        if arrival.kinds is not None:
            engine.settle(arrival, RIDES, f"is in {call.described()}")
        engine.agreement.differ(f"{call.name}: another processor calls it with other arguments than {engine.pid}")
