"""The offset between the clocks of two processors: one asks the other for the time, several times.

The answer belongs to the middle of the question's round trip if both ways take as long. The round trips that took
longest were delayed somewhere, and are left out.

Source: Cristian, *Probabilistic clock synchronization*; Hunold and Carpen-Amarie, *ReproMPI*.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

ROUNDS = 12
SHORTEST = 4  # of these, those with the shortest round trips


class Clock(NamedTuple):
    """A processor's clock against that of the one which asked.

    Args:
        offset: seconds: this clock's reading minus the other's at the same moment; wrong by half of a round trip at
            most, however long each way takes.
        round_trip: seconds, the shortest.
    """

    offset: float
    round_trip: float

    def own(self, moment: float) -> float:
        """This clock's reading at a moment of the other's."""
        return moment + self.offset


def offset(sent: NDArray[np.float64], stamps: NDArray[np.float64], answered: NDArray[np.float64]) -> Clock:
    """The offset that the time of each question, the answer, and the time at which it came say; seconds."""
    trips = answered - sent
    shortest = np.argsort(trips, kind="stable")[: min(SHORTEST, trips.size)]
    offsets = (stamps - (sent + answered) / 2)[shortest]
    return Clock(float(np.median(offsets)), float(trips.min()))
