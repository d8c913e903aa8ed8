"""Deterministic routing of h-relations on LogP (*BSP vs LogP*, section 4.2)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...errors import UsageError
from ...logp.processor import Message
from ...machines.logp import LogPMachine
from . import combine_broadcast
from .combine_broadcast import combine_start
from .phases import Phases, period
from .pipelined import pipelined
from .sorting.networks import depth
from .sorting.schemes import choose, sort
from .sorting.steps import Keyed, sequential, transfer_time

# Bytes in a message of step 1 that say how much is received: a constant, as the model's messages are short.
DIGEST = 64


def route_sorted(phases: Phases, packets: Sequence[tuple[int, Any]]) -> list[Message]:
    """Route any relation, without knowledge of it and without stalling; collective.

    The degree h becomes known on the way. What a processor sends to itself crosses no network and counts nowhere.

    Args:
        phases: this processor's.
        packets: (destination, payload).

    Returns:
        the messages for this processor, in any order.

    Raises:
        UsageError: no such processor. The others then wait for this one.

    LogP cost, from the last joining, at most `bound(machine, r, s)`: formula (2) for r messages sent, s received at
    most. At most `direct_bound(machine, r, s)` where h <= ceil(L/G) is seen in step 1: always for p <= 64 and
    ceil(L/G) < 255.

    Source: section 4.2, formula (2).
    """
    proc, machine = phases.proc, phases.proc.machine
    for dest, _ in packets:
        if not 0 <= dest < proc.p:
            raise UsageError(f"route_sorted: packets: expected destinations 0 to {proc.p - 1}, got {dest!r}")
    own = [Message(proc.pid, payload) for dest, payload in packets if dest == proc.pid]
    packets = [packet for packet in packets if packet[0] != proc.pid]
    if proc.p == 1:
        return own
    # 1. r, and an upper bound on s that is too high only where destinations share a counter.
    digest = _digest(machine, [dest for dest, _ in packets])
    (r, counts), start = combine_start(phases, (len(packets), digest), _most_and_sum)
    if r == 0:
        return own
    if max(r, int(counts.max())) <= machine.capacity:
        # No more than the capacity is ever sent to a processor: in any order.
        direct = [(slot, dest, payload) for slot, (dest, payload) in enumerate(packets)]
        received = own + pipelined(phases, direct, start, r)
        # Several may have arrived in the last step, and are acquired one every G.
        while proc.timed and (message := phases.recv(proc.time - 1)) is not None:
            received.append(message)
        return received
    proc.compute(r)
    # 2. Sort by destination, with dummies: processor pid ends with the ranks from pid * per_active on.
    items: list[Keyed] = [(dest, (proc.pid, payload)) for dest, payload in packets]
    scheme = choose(machine, r)
    per_active = scheme.keys_per_active(r)
    items, _ = sort(phases, items, r, scheme, start + r)
    # 3. s, by the runs of equal destinations.
    proc.compute(per_active)
    runs, start = combine_start(phases, runs_of([dest for dest, _ in items if dest < proc.p]), join)
    h = max(per_active, runs.longest)
    # 4. h cycles: each processor has at most one message of a cycle, as it holds at most h successive ranks; so does
    # each destination, whose messages have at most h successive ranks.
    ranked = [((proc.pid * per_active + k) % h, dest, item) for k, (dest, item) in enumerate(items) if dest < proc.p]
    routed = pipelined(phases, sorted(ranked, key=lambda send: send[0]), start, h)
    return own + [Message(*message.payload) for message in routed]


class Runs(NamedTuple):
    """Of a piece of a sorted sequence: the first and the last run of equal keys, and the longest's length.

    With one run only, the first is the last. Keys are -1 where the piece is empty.
    """

    first: int
    first_length: int
    last: int
    last_length: int
    longest: int


def runs_of(keys: Sequence[int]) -> Runs:
    """The runs of sorted keys, at least 0."""
    if not len(keys):
        return Runs(-1, 0, -1, 0, 0)
    _, lengths = np.unique(np.asarray(keys), return_counts=True)
    return Runs(int(keys[0]), int(lengths[0]), int(keys[-1]), int(lengths[-1]), int(lengths.max()))


def join(a: Runs, b: Runs) -> Runs:
    """The runs of a piece and of the piece that follows it: associative."""
    a, b = Runs(*a), Runs(*b)
    if a.first < 0 or b.first < 0:
        return b if a.first < 0 else a
    meets = a.last == b.first
    first = a.first_length + b.first_length if meets and a.first == a.last else a.first_length
    last = a.last_length + b.last_length if meets and b.first == b.last else b.last_length
    across = a.last_length + b.first_length if meets else 0
    return Runs(a.first, first, b.last, last, max(a.longest, b.longest, across))


def _digest(machine: LogPMachine, dests: Sequence[int]) -> NDArray[np.unsignedinteger[Any]]:
    """Messages for each destination, up to the capacity + 1; where p is large, destinations share counters."""
    dtype = np.min_scalar_type(machine.capacity + 1)
    counters = DIGEST // dtype.itemsize
    counts = np.bincount(np.asarray(dests, np.int64) % counters, minlength=min(counters, machine.p))
    return np.minimum(counts, machine.capacity + 1).astype(dtype)


def _most_and_sum(a: tuple[int, Any], b: tuple[int, Any]) -> tuple[int, Any]:
    """The larger number, and the sum of the counters, which stop at their type's largest value."""
    limit = np.iinfo(a[1].dtype).max
    return max(a[0], b[0]), a[1] + np.minimum(b[1], limit - a[1])


# -- cost ---------------------------------------------------------------------------------------------------------


def degrees(p: int, sources: ArrayLike, destinations: ArrayLike) -> tuple[int, int]:
    """r and s of a relation: messages that a processor sends and receives at most, those to itself apart."""
    ends = np.asarray(sources), np.asarray(destinations)
    away = ends[0] != ends[1]
    r, s = (int(np.bincount(end[away], minlength=p).max()) for end in ends)
    return r, s


def synchronisation_bound(machine: LogPMachine) -> float:
    """T_CB, and T_synch of Proposition 2: of a combine-and-broadcast, from the last joining."""
    return combine_broadcast.bound(machine)


def direct_bound(machine: LogPMachine, r: int, s: int) -> float:
    """T_rout where h <= ceil(L/G): T_CB, then 4o + max(G, 2o)(r-1) + L + G(s-1).

    The paper has 2o + G(h-1) + L, which overlooks that all s messages for a processor may be sent last by their senders
    and arrive together: they can only be acquired one every G. As G(h-1) < L, it is O(L) all the same.
    """
    last = transfer_time(machine, r) + machine.G * (s - 1) if r else 0
    return synchronisation_bound(machine) + last


def bound(machine: LogPMachine, r: int, s: int) -> float:
    """T_rout, formula (2): 2 T_CB + T_sort(r, p) + 4o + (max(G, 2o) + 2)h + L, h = max(r, s).

    With max(G, 2o) for the paper's G and 4o for its 2o, since a processor that both sends and acquires h messages is
    busy 2oh steps. T_sort is the time of the scheme that is chosen. One T_CB where nothing is sent.

    Args:
        machine: the LogP machine.
        r, s: messages that a processor sends and receives at most, those to itself apart.
    """
    if not r or machine.p == 1:
        return synchronisation_bound(machine)
    h = max(r, s)
    routing = 4 * machine.o + (period(machine) + 2) * h + machine.L
    return 2 * synchronisation_bound(machine) + choose(machine, r).time(machine, r) + routing


def superstep_bound(machine: LogPMachine, w: int, r: int, s: int) -> float:
    """A BSP superstep on LogP: w of local work, the synchronisation of Proposition 2, and the routing."""
    return w + synchronisation_bound(machine) + bound(machine, r, s)


@lru_cache(maxsize=4096)
def slowdown(machine: LogPMachine, h: int) -> float:
    """S(L, G, p, h) of Theorem 2, log p of the sorting replaced by the depth of the network; h at least 1.

    L log p / ((Gh + L) log(1 + ceil(L/G))) + min{depth, (log ph / log(h+1))^2 ceil(T_seq-sort(h) / (Gh + L))}, with
    max(G, 2o) for G where time is charged for messages. The second is Cubesort's term, without its constant.
    """
    p = machine.p
    if p == 1:
        return 1.0
    step = period(machine) * h + machine.L
    wait = machine.L * math.log2(p) / (step * math.log2(1 + machine.capacity))
    cubesort = (math.log2(p * h) / math.log2(h + 1)) ** 2 * max(1, math.ceil(sequential(h, p) / step))
    return wait + min(depth(p), cubesort)
