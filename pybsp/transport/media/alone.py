"""One processor."""

from __future__ import annotations

from typing import ClassVar

from .. import FREE, KIND, QUIET, Arrival, Charge, Parcels
from ..medium import MPITransport


class Alone(MPITransport):
    """A processor that meets nobody; what it sends to itself is handed over."""

    moves_by_mpi: ClassVar[bool] = False

    def exchange(
        self, kind: int, note: object, parcels: Parcels, charge: Charge = FREE, grace: float | None = None
    ) -> Arrival:
        try:
            if self._unfinished:
                self._flight.see_off(1, self.waiter)  # it may be a part of what is revoked
            if not parcels and note is None and not kind & ~KIND:
                return QUIET
            return self._complete(kind, note, parcels, grace)
        except BaseException as error:
            return self.left(error, kind, note)

    def _post(self, kind: int, note: object, parcels: Parcels) -> None:
        pass

    def _complete(self, kind: int, note: object, parcels: Parcels, grace: float | None) -> Arrival:
        return self._delivery.complete([kind], note, parcels.get(0), {}, (), self.waiter)
