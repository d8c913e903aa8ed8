"""What exchanges carry, and what that costs: `g*h + l` for each of them, with the words that it really carries."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...errors import argument_error, brief
from ...machines.bsp import BSPMachine
from ...machines.ebsp import EBSPMachine
from ..relation import Relation

Ints = NDArray[np.int64]


class Load(NamedTuple):
    """What one processor sends and receives in one exchange: words, and messages (packets that go together are one)."""

    words_out: int = 0
    words_in: int = 0
    messages_out: int = 0
    messages_in: int = 0


NOTHING = Load()  # where a processor has no part in an exchange


def elapsed(
    machine: BSPMachine | EBSPMachine, loads: Ints, seconds: float = 0.0, messages: int = 0, items: int = 0
) -> float:
    """Seconds that a superstep takes, of which each exchange is a superstep of the machine.

    Args:
        loads: shape (exchanges, p, 4), the columns of `Load`.
        seconds: of computing before it, on the processor that computes longest.
        messages, items: of the program, that one processor sends or receives, at most: making and reading them takes
            what it takes with `direct`.
    """
    time = machine.o_msg * messages + machine.o_item * items
    for load in loads:
        most = load.max(axis=0).tolist()
        total = int(load[:, 0].sum())
        time += machine.elapsed(seconds, max(most[:2]), max(most[2:]), total)
        seconds = 0.0
    return time


class Routes(NamedTuple):
    """The packets of a superstep that leave their processors; each array has the shape (m,).

    words: that each packet counts.
    numbers: of the packets at their sources, 0 and up.
    """

    sources: Ints
    destinations: Ints
    words: Ints
    numbers: Ints


def routes(operation: str, relation: Relation, words: ArrayLike) -> Routes:
    """The packets of a relation, each with so many words: one number of them, or one for each; else a UsageError."""
    counts = np.asarray(words)
    if counts.dtype.kind not in "iu" or counts.shape not in ((), (len(relation),)) or counts.min(initial=0) < 0:
        expected = f"a whole number of at least 0, or one for each of {len(relation)} packets"
        raise argument_error(operation, "words", expected, brief(words, 80))
    away = relation.sources != relation.destinations
    sources = relation.sources[away]
    order = sources.argsort(kind="stable")
    sent = np.bincount(sources, minlength=relation.p)
    numbers = np.empty_like(sources)
    numbers[order] = np.arange(len(sources)) - np.repeat(sent.cumsum() - sent, sent)
    words_of = np.broadcast_to(counts, len(relation))[away].astype(np.int64)
    return Routes(sources, relation.destinations[away], words_of, numbers)


def exchanged(p: int, senders: Ints, receivers: Ints, words: Ints) -> Ints:
    """The loads of one exchange, shape (p, 4): packets from senders to receivers; those that stay count nothing."""
    away = senders != receivers
    senders, receivers, words = senders[away], receivers[away], words[away]
    pairs = np.unique(senders * p + receivers)
    return np.column_stack(
        [
            np.bincount(senders, words, p).astype(np.int64),
            np.bincount(receivers, words, p).astype(np.int64),
            np.bincount(pairs // p, minlength=p),
            np.bincount(pairs % p, minlength=p),
        ]
    )
