"""Who the processors are, and how what one hands over reaches the others.

A transport knows one operation, `exchange`: every processor calls it, says what it is doing (a *kind*), hands over
a *parcel* for each processor that it has something for, and gets what the others said and sent. A `swap` is the same
between two processors. Everything above - routers, the BSP interface - is built from these, so another transport is
one more class here.

    virtual.py     the processors are greenlets in this process, and time is the machine's
    mpi.py         the processors are MPI ranks: the transport of all, and which medium a transport has
    medium.py      what all media have in common
    media/         the media: one class each, with an exchange of its own
    wire.py        what MPI ranks say to each other, bit by bit; no other file knows a layout

of MPI ranks, on one node

    window.py      shared memory of the ranks of a node
    board.py       where they meet in it
    neighbours.py  what a processor puts there for others, and finds
    arena.py       buffers in shared memory for what a program sends
    lending.py     which data in shared memory others read, and which of theirs is read here
    populating.py  memory whose pages are made before they are touched

of MPI ranks, by messages

    heads.py       one from each processor to each
    placement.py   which ranks are on which node
    leaders.py     one from each node to each, in place of those
    sparse.py      how ranks with few partners meet, without messages to all
    flight.py      messages that follow heads: posted, received, completed
    delivery.py    brings what arrives where it is to be read

and beside exchanges

    launcher.py    the MPI library, and whether it belongs to the launcher
    pmi.py         what it asks Slurm while it starts
    revocation.py  what happens when an exception leaves an exchange
    crossing.py    processors that wait for each other in different transports
    probes.py      what they ask each other about that, on its way
    waiting.py     how an MPI rank waits without standing in the way of the others
    patience.py    what becomes of a wait that takes long
    memory.py      buffers that are used again when nobody holds on to them
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from ..errors import BSPError
from .memory import BufferPool
from .memory import Bytes as Bytes

# What a processor is doing when it enters an exchange. All must do the same; flags may differ.
# LOGP begins a LogP program, DRAIN ends it. PASS: in a swap, what somebody did is in the note, if anywhere.
# RIDES ends a superstep of collectives alone. DIFFER: what came is not what they expect; all say what they called.
# SAVE: about checkpoints.
SYNC, SPLIT, END, FAIL, BEGIN, REPLY, LEDGER, EXPLAIN, EXIT, LOGP, DRAIN, PASS, RIDES, DIFFER, SAVE = range(1, 16)
FLAG_GETS = 16  # "I have asked for data: take part in the exchange of replies that follows"
FLAG_PACKETS = 32  # of routers that forward: "I have packets, which others are to pass on"
FLAG_MORE = 64  # of RIDES: "what I have called on a group goes on after this exchange"
FLAG_COMPARE = 64  # of others: "let us all say what we have called, as no message says it of what I have"
FLAG_MEET = 128  # "let us all meet in the next call of bsp.checkpoint"
KIND = 15  # the mask of the kind without the flags

# Streams: a parcel has at most one section of each. Queues have JOINED and up, one stream each; patterns PATTERNED and
# down, two each.
MAIL, PUTS, GETS, REPLIES, LETTERS, NOTES, INDICES, READS = range(8)
JOINED = 8
PATTERNED = -2


class Section(NamedTuple):
    """One stream's part of a parcel: what lies in `data` (described by `descriptors`), and what it counts.

    messages: from JOINED on, the items of the queue.
    """

    descriptors: Any
    words: int
    messages: int
    data: Bytes | None

    def copied(self) -> Section:
        """The same, in other memory."""
        return self if self.data is None else self._replace(data=self.data.copy())


new_tuple = tuple.__new__  # a named tuple, in half the time that its class takes

Parcel = dict[int, Section]
Parcels = Mapping[int, Parcel]


class Charge(NamedTuple):
    """What a processor did in the superstep that it ends; a virtual clock runs by it."""

    seconds: float
    counts: bool  # whether this exchange ends a superstep (control exchanges cost nothing)


FREE = Charge(0.0, counts=False)


class Arrival(NamedTuple):
    """What an exchange brings.

    kinds: what each processor was doing, by pid; None where all did the same, without flags and notes.
    notes: of each processor to all, by pid; None likewise.
    parcels: (source, parcel) in the order of sources.
    joined: for streams from JOINED on that arrived in one piece, the data of all sources in order.
    """

    kinds: Sequence[int] | None
    notes: Sequence[Any] | None
    parcels: Sequence[tuple[int, Parcel]]
    joined: Mapping[int, Bytes]


QUIET = Arrival(None, None, (), {})  # all did the same; there are no notes and no parcels


class Transport(Protocol):
    """The processors of one BSP machine, as one of them sees them."""

    p: int
    pid: int
    pool: BufferPool

    def exchange(
        self, kind: int, note: object, parcels: Parcels, charge: Charge = FREE, grace: float | None = None
    ) -> Arrival:
        """Meet all processors; returns when everything for this one has arrived.

        Args:
            kind: what this processor is doing, with its flags.
            note: something small and picklable for all processors, or None.
            parcels: by destination.
            charge: what the superstep so far has cost here.
            grace: seconds after which TimeoutError is raised if not all have come; None waits for ever.
        """

    def post(self, kind: int, note: object, parcels: Parcels) -> Callable[..., Arrival]:
        """Begin an exchange, which goes on meanwhile as far as it can.

        Returns:
            What completes it, to be called with `exchange`'s charge or grace, before any other exchange.
        """

    def swap(
        self, partner: int, kind: int, note: object, parcel: Parcel | None, grace: float | None = None
    ) -> tuple[int, Any, Parcel]:
        """Meet one other processor alone, which swaps with this one.

        Only whoever takes part knows of it: it is no exchange, and costs nothing on a virtual clock.

        Args:
            partner: the other one's pid.
            kind, note, parcel, grace: as in `exchange`; the parcel is for the partner, of streams below JOINED.

        Returns:
            the partner's kind, note and parcel (empty where it has none).
        """

    def subset(self, members: Sequence[int], context: int) -> Transport:
        """The transport of some of the processors (in the order given), of which this one is a member.

        `context` tells apart transports that share processors; equal on all members.
        """

    def watch_crossing(self, where: Callable[[], str]) -> None:
        """Parts are entered without all others from now on: who waits for each other in different machines learns it.

        Args:
            where: this processor is, in words.
        """

    @property
    def hosts(self) -> Sequence[str]:
        """The name of each processor's host."""

    @property
    def one_clock(self) -> bool | None:
        """Whether all processors compute by one clock; None where their time is virtual."""

    def clocks(self) -> list[float]:
        """Seconds by which each processor's clock is ahead of processor 0's: on that one. Collective."""

    def time(self) -> float:
        """Seconds on this processor's clock; virtual on virtual processors."""

    def abort(self, message: str) -> None:
        """End all processors now, without their help."""

    def revoke(self, cause: BaseException) -> None:
        """An exception has left what consists of exchanges: nothing is exchanged any more, and all are to know."""

    @property
    def revoked(self) -> bool:
        """Whether that has happened, here or elsewhere."""

    @property
    def settled(self) -> BSPError | None:
        """Of what was revoked: the error that all processors know of, once they have met."""

    def free(self) -> None:
        """Give back what the transport holds; it is not used afterwards."""
