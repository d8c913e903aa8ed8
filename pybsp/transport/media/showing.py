"""A medium on which each processor shows all others a record: near.py, messages.py, mixed.py, aggregated.py."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from ...ground.chunk import NO_COUNTS, Chunk
from ...ground.short_records import Showable
from .. import Arrival, Parcels
from ..medium import MPITransport
from ..pad import Pad

NO_PARCELS: Parcels = {}


class Showing(MPITransport):
    """A transport whose processors have a pad.

    Attributes:
        pad: where they show their records.
    """

    pad: Pad

    def show(
        self,
        kind: int,
        parcels: Parcels | None = None,
        log: Chunk | None = None,
        label: float = 0.0,
        counts: bytes = NO_COUNTS,
    ) -> Arrival | None:
        """An exchange in which each shows all others a record: see `Pad.show`.

        Args:
            parcels: that go beside it; None: nothing does.
            log, label, counts: as of `Pad.show`.

        Returns:
            None where all said nothing else: it is noted then. Else what the others did.
        """
        try:
            # As in `MPITransport.post`: of the exchanges before the last nothing is leaving any more.
            if self._unfinished:
                self._flight.see_off(1, self.waiter)
            if parcels:
                self._post_showing(kind, parcels)
                return self._complete(kind, None, parcels, None)
            if self.pad.show(kind, log, label, counts):
                return None
            # Somebody has not shown a record, or has said more: what all say is here, and is read as of any exchange.
            return self._receive(kind, None, NO_PARCELS)
        except BaseException as error:
            return self.left(error, kind)

    def show_record(
        self,
        kind: int,
        log: Chunk,
        label: float,
        counts: bytes,
        signature: int,
        value: Showable,
        like: bytes | None,
        sources: tuple[int, ...],
        members: tuple[int, ...],
    ) -> list[Any] | Arrival | None:
        """`show`, beside which nothing goes, of a record that is written here: see `Pad.show_record`.

        Returns:
            What the sources show: it is noted then. Else, as of `show`, but that nothing is noted.
        """
        try:
            if self._unfinished:  # as in `show`
                self._flight.see_off(1, self.waiter)
            found = self.pad.show_record(kind, log, label, counts, signature, value, like, sources, members)
            if type(found) is list:
                return found
            return None if found else self._receive(kind, None, NO_PARCELS)
        except BaseException as error:
            return self.left(error, kind)

    def _number(self) -> int:
        return self.pad.number

    @abstractmethod
    def _post_showing(self, kind: int, parcels: Parcels) -> None:
        """Post parcels, and this processor's record."""

    @abstractmethod
    def _receive(self, kind: int, note: object, parcels: Parcels) -> Arrival:
        """Receive, with all others here."""
