"""The protocol in the bit model and in the word model: messages as worms of a few bits a repetition.

In the bit model a bit crosses an edge in a step, in the word model a word of log N bits. A message is its address, a
bit for each column of splitters, and X bits of data. A repetition of phase 2 forwards `rate` bits of each message (two
in the paper), from the address bit that decides its next transition on; the bit that has decided is dropped. A buffer
has place for 2 * rate bits, so bits wait where the next node has no room, and a message waits whose next address bit is
not there.

A stage takes, with batches of at most B = max{1, h-bar/R} messages on an edge and the parameters Z and Y,

    request, permission and cancellation          Z (s + 1 + 1) bits, s for the logarithm of a batch's size
    how many buffers are assigned to an edge      c bits: a number up to h-bar
    ghosts deleted, and bits of messages          Y (c + rate * B) bits

where every node knows h, and so how long that is. This is what `provisioned` counts; `used` counts for the bits of
messages in each repetition only as many as the busiest edge carries, which no node knows. In the word model each of
these parts is packed into words.

Long messages can select their paths first, address and nothing else, and then be streamed: in a frame every edge has a
time slot for each message that crosses it, and carries a word in it. Local computation is then a step for a word.

Source: proof of Theorem 1 of *Deterministic Routing of h-relations on the Multibutterfly*.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pybsp.errors import UsageError
from pybsp.routing.multibutterfly.network import Multibutterfly
from pybsp.routing.multibutterfly.parameters import Parameters
from pybsp.routing.multibutterfly.protocol import Protocol, h_bar, ranges_of
from pybsp.routing.multibutterfly.wiring import Ints, LocalWiring


class Worms(LocalWiring):
    """The wiring that carries messages as bits: X = `size` of data, `rate` along an edge in a repetition.

    Attributes:
        sent: of each message, by column c: bits of it that have left column c, those dropped included.
        path: the edge by which it left; -1 before.
        busiest: bits on the edge that carries most of them, for each repetition.
    """

    def __init__(self, network: Multibutterfly, begin: int, messages: int, size: int, rate: int) -> None:
        super().__init__(network, begin)
        self.bits, self.rate = self.columns + size, rate
        self.sent: Ints = np.tile(np.arange(1, self.columns + 1), (messages, 1))
        self.path: Ints = np.full((messages, self.columns), -1)
        self.busiest: list[int] = []
        self._edges: Ints | None = None  # of all paths, numbered without gaps

    def carry(self, edges: Ints, messages: Ints, ends: Ints) -> tuple[Ints, Ints, Ints]:
        real = messages >= 0
        if real.any():
            self.path[messages[real], edges[real] // (2 * self.d * self.rows)] = edges[real]
            self._edges = None
        self.flow()
        return super().carry(edges, messages, ends)

    def ready(self, messages: Ints, columns: Ints) -> NDArray[np.bool_]:
        """Whether the first bit that they would send is where their heads are."""
        return np.asarray((columns == 0) | (self.sent[messages, columns - 1] > self.sent[messages, columns]))

    def flow(self) -> None:
        """One repetition: bits along all paths, as far as they go."""
        here = np.column_stack((np.full(len(self.sent), self.bits), self.sent[:, :-1]))  # have arrived at each column
        left = self.path >= 0
        # In a buffer: what has arrived and not gone on; the bit that decides as long as the head is there.
        buffered = self.sent[:, :-1] - np.where(left[:, 1:], self.sent[:, 1:], self.sent[:, 1:] - 1)
        room = np.column_stack((2 * self.rate - buffered, np.full(len(self.sent), self.rate)))
        bits = np.where(left, np.minimum(np.minimum(here - self.sent, room), self.rate), 0)
        self.sent += bits
        if self._edges is None:
            self._edges = np.unique(self.path, return_inverse=True)[1]
        self.busiest.append(int(np.bincount(self._edges.ravel(), bits.ravel(), 1).max()))

    @property
    def delivered(self) -> bool:
        """Whether all bits of all messages have arrived."""
        return bool((self.sent[:, -1:] == self.bits).all())

    @property
    def congestion(self) -> int:
        """Messages through an edge, at most."""
        return int(np.bincount(self.path[self.path >= 0], minlength=1).max())


class WormProtocol(Protocol):
    """The protocol over worms: a message goes on when its next bit is there, and those behind it in its port then."""

    wiring: Worms

    def phase_2(self) -> int:
        # While bits flow, those that wait for them are not blocked.
        return super().phase_2() + sum(self.wiring.busiest[-self.parameters.Y :])

    def _until(self, ports: Ints) -> Ints:
        until = super()._until(ports)
        place = np.repeat(np.arange(len(ports)), until - self.sent[ports])
        port, t = ranges_of(ports, self.sent[ports], until)
        ready = self.wiring.ready(self._buffered[self._start[port] + t], port // (2 * self.rows))
        np.minimum.at(until, place[~ready], t[~ready])
        return until


class Count(NamedTuple):
    """What a relation takes."""

    stages: int  # until the last bit has arrived
    heads: int  # until the first bit of each message has
    used: int  # steps of the bit model
    provisioned: int
    words_used: int  # steps of the word model
    words_provisioned: int
    congestion: int  # messages through an edge, at most
    through: int  # and through a node
    storage: int  # bits at a node: its buffers, counters, flags and selected neighbours


def count(
    network: Multibutterfly,
    rows: Ints,
    ends: Ints,
    h: int,
    size: int,
    parameters: Parameters,
    rate: int = 2,
    begin: int = 0,
) -> Count:
    """What it takes to route messages as worms; BlockedError where they never arrive.

    Args:
        network: its columns of splitters from `begin` on are used.
        rows, ends: of each message, shape (m,).
        size: bits of data of a message, X, at least 1.
        parameters: Z is how often requests are repeated in every stage; what one takes is with both sides at once.
        rate: bits of a message along an edge in a repetition.
    """
    if parameters.in_turn:
        raise UsageError("bits.count: parameters: expected in_turn=False, got True; stages are counted with both sides")
    worms = Worms(network, begin, len(rows), size, rate)
    protocol = WormProtocol(worms, h, parameters, rows, ends, np.arange(len(rows)))
    outcome = protocol.run()
    while not worms.delivered:
        worms.flow()
    counter = StepCounter(network, h, parameters, rate)
    busiest = np.array(worms.busiest, np.int64)
    busiest = np.append(busiest, np.zeros(-len(busiest) % parameters.Y, np.int64))
    return Count(
        stages=len(busiest) // parameters.Y,
        heads=outcome.stages,
        used=counter.stages(busiest),
        provisioned=counter.stages(np.full(len(busiest), rate * counter.batch)),
        words_used=counter.stages(busiest, counter.word),
        words_provisioned=counter.stages(np.full(len(busiest), rate * counter.batch), counter.word),
        congestion=worms.congestion,
        through=int(outcome.through.max(initial=0)),
        storage=counter.storage,
    )


class Streamed(NamedTuple):
    """What long messages take in the word model that select their paths first."""

    select: int  # steps until all have; provisioned as in `Count`
    select_provisioned: int
    stream: int  # steps then
    stream_provisioned: int
    local: int  # words that a node handles, and buffers that it looks through once a repetition, at most


def stream(network: Multibutterfly, rows: Ints, ends: Ints, h: int, size: int, parameters: Parameters) -> Streamed:
    """What it takes to select paths by addresses, a word each, and then to stream messages; see `count`."""
    counter = StepCounter(network, h, parameters, rate=max(1, network.n))
    selected = count(network, rows, ends, h, 1, parameters, rate=max(1, network.n))
    repetitions = selected.heads * parameters.Y
    words = -(-size // counter.word)
    frames = words + network.n - 1
    return Streamed(
        selected.words_used,
        selected.words_provisioned,
        selected.congestion * frames,
        counter.batch * frames,
        counter.buffers * 2 * repetitions + selected.through * words,
    )


class StepCounter:
    """How long stages last; `word`: its bits; `buffers`: of a side of a node, h-bar; `batch`: messages on an edge."""

    def __init__(self, network: Multibutterfly, h: int, parameters: Parameters, rate: int) -> None:
        self._parameters, self._rate, self._d = parameters, rate, network.d
        self.word = max(1, network.n)
        self.buffers = h_bar(h, network.d, parameters.R)
        self.batch = max(1, self.buffers // parameters.R)
        self._number = self.buffers.bit_length()  # bits of a number up to h-bar
        self._size = (self.buffers.bit_length()).bit_length()  # of its logarithm, or of none

    def stages(self, busiest: Ints, word: int = 1) -> int:
        """Steps of stages in whose repetitions of phase 2 so many bits of messages cross an edge, at most."""

        def packed(bits: Ints | int) -> int:
            return int(np.sum(-(-np.asarray(bits) // word)))

        Z, Y = self._parameters.Z, self._parameters.Y
        control = Z * (packed(self._size) + packed(1) + packed(1)) + packed(self._number)
        return len(busiest) // Y * control + packed(self._number + busiest)

    @property
    def storage(self) -> int:
        """Bits at a node.

        Of each of its 2 h-bar buffers the bits of a message, whether it is full, and whether it is dead; of each side R
        selected edges and the flag; four counters.
        """
        buffers = 2 * self.buffers * (2 * self._rate + 2)
        selected = 2 * (self._parameters.R * math.ceil(math.log2(self._d)) + 1)
        return buffers + selected + 4 * self._number
