"""One clock for all processors: how far each one's is from processor 0's, and how sure that is.

Processor 0 asks each other one for the time, several times; the answer belongs to the middle of the question's round
trip if both ways take as long. The round trips that took longest were held up somewhere, and are left out.

Source: Cristian, *Probabilistic clock synchronization*; Hunold and Carpen-Amarie, *ReproMPI*.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .layers import WORD, Layer

ROUNDS = 12
KEPT = 4  # of these, those with the shortest round trips


class Clock(NamedTuple):
    """A processor's clock against processor 0's.

    Args:
        offset: seconds: this clock's reading minus processor 0's at the same moment.
        error: seconds: how far the offsets of the shortest round trips were from their median, at most: the error, if
            both ways take as long.
        bound: seconds: half of the shortest round trip: the error, however long each way takes.
        round_trip: seconds, the shortest.
        at: when, by processor 0's clock; clocks drift apart, by up to some 50 us a second.
    """

    offset: float = 0.0
    error: float = 0.0
    bound: float = 0.0
    round_trip: float = 0.0
    at: float = 0.0

    def common(self, moment: float) -> float:
        """Processor 0's reading at a moment of this clock."""
        return moment - self.offset

    def own(self, moment: float) -> float:
        """This clock's reading at a moment of processor 0's."""
        return moment + self.offset

    def serves(self, seconds: float, share: float = 0.05) -> bool:
        """Whether a time so long may be taken with it: the error is at most this share of it."""
        return self.error <= share * seconds


def synchronise(layer: Layer, rounds: int = ROUNDS) -> Clock:
    """This processor's clock against processor 0's. Collective; `rounds` is equal on all processors.

    Processor 0 asks one after another: p - 1 times `rounds` round trips.
    """
    if layer.pid:
        return answer(layer, 0)
    for pid in range(1, layer.p):
        ask(layer, pid, rounds)
    return Clock(at=layer.clock())


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
    kept = np.argsort(trips, kind="stable")[: min(KEPT, trips.size)]
    offsets = (stamps - (asked + answered) / 2)[kept]
    middle = float(np.median(offsets))
    error = float(np.abs(offsets - middle).max()) if kept.size > 1 else math.inf
    shortest = float(trips.min())
    return Clock(middle, error, shortest / 2, shortest, float(answered[-1]))
