"""BSP supersteps on LogP: the routers `logp-sorted`, `logp-offline` and `logp-random` (*BSP vs LogP*, section 4).

A superstep is a LogP program on all processors:

    1. a combine-and-broadcast synchronises (Proposition 2). It gives all processors the kinds and notes of all, and
       the most packets that one of them sends, so that a superstep without any ends here.
    2. a routing algorithm delivers the packets that the parcels have been cut into.

On virtual processors one simulated LogP machine executes it for all; on MPI ranks it runs over the ranks' LogP layer.
"""

from __future__ import annotations

import itertools
import math
import pickle
import random
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...errors import UsageError
from ...logp.arguments import MOST_STEPS
from ...logp.engine import Engine
from ...logp.processor import Message
from ...logp.ranks import RankProcessor
from ...logp.schedule import schedule_of
from ...logp.wording import too_long
from ...machines.logp import LogPMachine
from ...transport import FREE, KIND, Arrival, Charge, Parcel, Parcels, Transport
from ...transport.medium import MPITransport
from ...transport.memory import ALIGN, BufferPool
from ...transport.virtual import VirtualTransport
from ..parcels import parcel_of, pieces_of, undelivered
from .combine_broadcast import combine_broadcast
from .offline import learn, route_offline
from .options import LogPRouting
from .phases import Phases
from .random import route_random
from .sorted import route_sorted

# What a LogP message carries: source, number of the packet in its parcel, packets of the parcel, bytes.
Packet = tuple[int, int, int, bytes]
Packets = list[tuple[int, Packet]]  # with destinations
Algorithm = Callable[[Phases, Packets], list[Message]]


class Summary(NamedTuple):
    """The kinds and notes of successive processors, as the combine-and-broadcast combines them.

    words: kinds with flags, one byte a processor; or one for all, where they are equal.
    size: processors.
    notes: (pid, pickled note) of those that have one.
    most: packets of the processor that sends most.
    """

    words: bytes
    size: int
    notes: tuple[tuple[int, bytes], ...]
    most: int


def combined(first: Sequence[Any], second: Sequence[Any]) -> tuple[Any, ...]:
    """The summary of two neighbouring groups of processors; each a tuple, as they travel."""
    one, other = Summary(*first), Summary(*second)
    words = one.words
    if len(words) > 1 or words != other.words:
        words = _each(one) + _each(other)
    return words, one.size + other.size, one.notes + other.notes, max(one.most, other.most)


def _each(summary: Summary) -> bytes:
    return summary.words if len(summary.words) > 1 else summary.words * summary.size


class LogPExecution(NamedTuple):
    """What a superstep took on the virtual LogP machine; times in steps.

    kind: what the processors were doing, as in `pybsp.transport`.
    sent, received: packets that one processor sends, and receives, at most.
    steps: from the last joining to the end of the last processor.
    stalled: steps, of all processors.
    in_transit: messages to one destination at a time, at most.
    messages: in all, those that synchronise and sort too.
    """

    kind: int
    sent: int
    received: int
    steps: int
    stalled: int
    in_transit: int
    messages: int


class Routed(NamedTuple):
    """What a superstep brings a processor: kinds and notes of all (None: nobody has a note), and its packets."""

    words: list[int]
    notes: list[Any] | None
    packets: Sequence[Packet] = ()


class LogPRouter:
    """Supersteps by LogP messages alone.

    Args:
        transport: of virtual processors or MPI ranks.
        routing: the algorithm and its options, with a machine.

    Attributes:
        executions: of the supersteps so far, on virtual processors; what the run does beside supersteps included.
    """

    meets_to_close = True

    def __init__(self, transport: Transport, routing: LogPRouting) -> None:
        assert routing.machine is not None
        self.name, self.routing = routing.name, routing
        self._pid, self._p, self._pool = transport.pid, transport.p, transport.pool
        self._machine: _Simulated | _RankMedium
        if isinstance(transport, VirtualTransport):
            self._machine = _Simulated(transport, routing, routing.machine)
        else:
            assert isinstance(transport, MPITransport)
            self._machine = _RankMedium(transport, routing, routing.machine)

    @property
    def executions(self) -> list[LogPExecution]:
        return self._machine.executions

    @property
    def steps(self) -> int:
        """Of all supersteps, from the last joining of each."""
        return sum(execution.steps for execution in self.executions)

    @property
    def stalled(self) -> int:
        """Steps that processors stalled on virtual processors; on MPI ranks, messages of this one that did."""
        return self._machine.stalled

    @property
    def max_in_transit(self) -> int | None:
        """Messages to one destination at a time, at most; on MPI ranks to this one, None where nobody counts them."""
        return self._machine.max_in_transit

    def __repr__(self) -> str:
        return f"<router: {self.name}>"

    def route(
        self, kind: int, note: object, parcels: Parcels, charge: Charge = FREE, grace: float | None = None
    ) -> Arrival:
        packets = [
            (dest, (self._pid, number, len(chunks), chunk))
            for dest, parcel in parcels.items()
            if dest != self._pid
            for chunks in [cut(parcel, self.routing.packet)]
            for number, chunk in enumerate(chunks)
        ]
        packed_note = b"" if note is None else pickle.dumps(note, 5)
        words, notes, arrived = self._machine.execute(kind, packed_note, packets, charge, grace)
        uniform = notes is None and not words[0] & ~KIND and words.count(words[0]) == self._p
        received = put_together(arrived, self._pid, parcels.get(self._pid), self._pool)
        return Arrival(None if uniform else words, notes, received, {})

    def part(self, transport: Transport, members: Sequence[int]) -> LogPRouter:
        return LogPRouter(transport, self.routing.of(len(members)))

    def close(self) -> None:
        self._machine.close()


def superstep(
    phases: Phases, kind: int, note: bytes, packets: Packets, route: Algorithm
) -> tuple[Summary, list[Message]]:
    """A superstep as a LogP program; collective. Returns the summary of all, and the messages for this processor."""
    summary = Summary(bytes([kind]), 1, ((phases.proc.pid, note),) if note else (), len(packets))
    summary = Summary(*combine_broadcast(phases, tuple(summary), combined))
    # Where the processors do different things all raise next, and nobody looks at what would arrive.
    if summary.most == 0 or len({word & KIND for word in summary.words}) > 1:
        return summary, []
    return summary, route(phases, packets)


def algorithm(routing: LogPRouting, seed: int) -> Algorithm:
    """The routing algorithm of a superstep, with its options."""
    if routing.algorithm == "sorted":
        return route_sorted
    if routing.algorithm == "offline":
        # A BSP program does not say beforehand what it will send: the relation is gathered first.
        return lambda phases, packets: route_offline(phases, packets, learn(phases, packets))
    return lambda phases, packets: route_random(phases, packets, beta=routing.beta, seed=seed)


# -- the two machines -------------------------------------------------------------------------------------------------


class _Simulated:
    """One simulated LogP machine for all virtual processors, as one of them sees it."""

    def __init__(self, transport: VirtualTransport, routing: LogPRouting, machine: LogPMachine) -> None:
        self._transport, self._routing, self._logp = transport, routing, machine
        self.executions: list[LogPExecution] = []
        # In steps: when this processor ended the last superstep. A part begins when its last processor does.
        self._clock = round(transport.time() / machine.step)

    @property
    def stalled(self) -> int:
        return sum(execution.stalled for execution in self.executions)

    @property
    def max_in_transit(self) -> int:
        return max((execution.in_transit for execution in self.executions), default=0)

    def execute(self, kind: int, note: bytes, packets: Packets, charge: Charge, grace: float | None) -> Routed:
        computing = charge.seconds / self._logp.step
        if computing > MOST_STEPS:  # it may be infinite
            raise UsageError(f'router "{self._routing.name}": {too_long(self._logp.step)}')
        start = self._clock + math.ceil(round(computing, 6))  # a part of a step is one
        what: Routed
        what, messages, clock, execution = self._transport.together(
            (kind, note, packets, charge.counts, start), self._run
        )
        self.executions.append(execution)
        if charge.counts:
            self._clock = clock
        return what._replace(packets=[message.payload for message in messages])

    def _run(self, brought: Sequence[Any]) -> Sequence[Any]:
        """The last has come: execute the superstep of all."""
        machine = self._logp
        seed = random.Random(f"{self._routing.seed} {len(self.executions)}").getrandbits(32)
        schedule = schedule_of(self._routing.schedule, seed, f'router "{self._routing.name}"')
        route = algorithm(self._routing, seed)
        starts = [start for *_, start in brought]

        def body(proc: Any) -> tuple[Summary, list[Message]]:
            kind, note, packets, *_ = brought[proc.pid]
            return superstep(Phases(proc), kind, note, packets, route)

        done = Engine(machine, schedule).run([body] * machine.p, starts)
        # A processor goes on when it may submit and acquire again, as the next superstep is an execution of its own.
        trace, clocks = done.trace, done.finished.copy()
        np.maximum.at(clocks, trace.source, trace.submission + machine.G - machine.o)
        np.maximum.at(clocks, trace.dest, trace.acquisition - machine.o + machine.G)
        if all(counts for _, _, _, counts, _ in brought):
            self._transport.elapse(done.time * machine.step)
        summary, _ = done.results[0]
        messages = [messages for _, messages in done.results]
        execution = LogPExecution(
            brought[0][0] & KIND,
            summary.most,
            max(len(some) for some in messages),
            done.time - max(starts),
            done.stalled,
            done.max_in_transit,
            len(trace.source),
        )
        what = _outcome(summary)
        return [(what, messages[pid], int(clocks[pid]), execution) for pid in range(machine.p)]

    def close(self) -> None:
        pass


class _RankMedium:
    """The LogP layer of MPI ranks, as one of them sees it."""

    def __init__(self, transport: MPITransport, routing: LogPRouting, machine: LogPMachine) -> None:
        self._transport, self._routing = transport, routing
        self._proc = RankProcessor(transport, machine, routing.capacity)
        self._phases = Phases(self._proc)
        self._count = 0
        self.executions: list[LogPExecution] = []  # stays empty: nothing is timed here

    @property
    def stalled(self) -> int:
        return self._proc.stalls

    @property
    def max_in_transit(self) -> int | None:
        return self._proc.max_in_flight

    def execute(self, kind: int, note: bytes, packets: Packets, charge: Charge, grace: float | None) -> Routed:
        self._count += 1
        seed = random.Random(f"{self._routing.seed} {self._count}").getrandbits(32)
        route = algorithm(self._routing, seed)
        if grace is not None:
            self._proc.deadline = time.perf_counter() + grace
        try:
            summary, messages = superstep(self._phases, kind, note, packets, route)
        except BaseException as error:
            arrival = self._transport.left(error, kind, pickle.loads(note) if note else None)
            assert arrival.kinds is not None  # of a failure that this processor tells of
            return Routed(list(arrival.kinds), list(arrival.notes or ()))
        self._proc.deadline = None
        self._proc.rest()
        return _outcome(summary)._replace(packets=[message.payload for message in messages])

    def close(self) -> None:
        self._proc.close()


def _outcome(summary: Summary) -> Routed:
    """Kinds and notes of all, unpacked; without packets."""
    notes: list[Any] | None = None
    if summary.notes:
        notes = [None] * summary.size
        for pid, note in summary.notes:
            notes[pid] = pickle.loads(note)
    return Routed(list(_each(summary)), notes)


# -- parcels and packets ----------------------------------------------------------------------------------------------


def cut(parcel: Parcel, most: int) -> list[bytes]:
    """A parcel as packets of so many bytes at most: a description of its sections, then their data, all aligned."""
    padded: list[Any] = [part for piece in pieces_of(parcel) for part in (piece, bytes(-len(piece) % ALIGN))]
    text = b"".join(padded)
    return [text[at : at + most] for at in range(0, len(text), most)]


def put_together(packets: Sequence[Packet], pid: int, own: Parcel | None, pool: BufferPool) -> list[tuple[int, Parcel]]:
    """Parcels in the order of sources, with `own`, to itself; a DeliveryError where packets are missing or wrong."""
    arrived: list[tuple[int, Parcel]] = [] if own is None else [(pid, own)]
    for source, of_source in itertools.groupby(
        sorted(packets, key=lambda packet: packet[:2]), lambda packet: packet[0]
    ):
        here = list(of_source)
        chunks = [packet[3] for packet in here]
        if [packet[1] for packet in here] != list(range(here[0][2])):
            raise undelivered(pid, "packets")
        text = pool.take(sum(map(len, chunks)))
        text[:] = np.frombuffer(b"".join(chunks), np.uint8)
        arrived.append((source, parcel_of(text, pid)))
    return sorted(arrived, key=lambda pair: pair[0])
