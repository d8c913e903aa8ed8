"""The offset between the clocks of two processors, so that something may begin on several at one moment.

One asks the other for the time, several times; the answer belongs to the middle of the question's round trip if both
ways take as long. The round trips that took longest were delayed somewhere, and are left out.

Source: Cristian, *Probabilistic clock synchronization*; Hunold and Carpen-Amarie, *ReproMPI*.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .layers import WORD, Layer

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


def ask(layer: Layer, pid: int, rounds: int = ROUNDS) -> Clock:
    """What processor `pid`'s clock is against this one's, while that one answers; both get the same."""
    clock, send, receive = layer.clock, layer.sender(pid, WORD), layer.receiver(pid, WORD)
    layer.tell(pid, rounds)
    layer.hear(pid)
    asked, answered = np.empty(rounds), np.empty(rounds)
    for number in range(rounds):
        asked[number] = clock()
        send()
        receive()
        answered[number] = clock()
    found = offset(asked, np.array(layer.hear(pid)), answered)
    layer.tell(pid, found)
    return found


def answer(layer: Layer, pid: int) -> Clock:
    """This processor's clock against that of processor `pid`, which asks."""
    clock, send, receive = layer.clock, layer.sender(pid, WORD), layer.receiver(pid, WORD)
    rounds = layer.hear(pid)
    layer.tell(pid, None)
    stamps = []
    for _ in range(rounds):
        receive()
        stamps.append(clock())
        send()
    layer.tell(pid, stamps)
    found: Clock = layer.hear(pid)
    return found


def offset(asked: np.ndarray, stamps: np.ndarray, answered: np.ndarray) -> Clock:
    """The offset that the time of each question, the answer, and the time at which it came say; seconds."""
    trips = answered - asked
    shortest = np.argsort(trips, kind="stable")[: min(SHORTEST, trips.size)]
    offsets = (stamps - (asked + answered) / 2)[shortest]
    return Clock(float(np.median(offsets)), float(trips.min()))
