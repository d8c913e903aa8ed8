"""The offset between the clocks of two processors, so that something may begin on several at one moment.

See pybsp/ground/clocks.py for how it is found from questions and answers; here is who asks and answers on a layer.
"""

from __future__ import annotations

import numpy as np

from pybsp.ground.clocks import ROUNDS, Clock, offset

from .layers import WORD, Layer


def ask(layer: Layer, pid: int, rounds: int = ROUNDS) -> Clock:
    """What processor `pid`'s clock is against this one's, while that one answers; both get the same."""
    clock, send, receive = layer.clock, layer.sender(pid, WORD), layer.receiver(pid, WORD)
    layer.tell(pid, rounds)
    layer.hear(pid)
    sent, answered = np.empty(rounds), np.empty(rounds)
    for number in range(rounds):
        sent[number] = clock()
        send()
        receive()
        answered[number] = clock()
    found = offset(sent, np.array(layer.hear(pid)), answered)
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
