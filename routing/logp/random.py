"""An h-relation in random batches (*BSP vs LogP*, section 4.3, Theorem 3)."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from functools import lru_cache
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import UsageError, brief
from ...ground.convert import is_whole
from ...logp.processor import Message
from ...machines.logp import LogPMachine
from .combine_broadcast import combine_broadcast, combine_start, common_start
from .phases import Phases, wait_until
from .pipelined import pipelined
from .sorted import bound as sorting_bound
from .sorted import route_sorted, synchronisation_bound

Counts = NDArray[np.int64]

MARGIN = 0.8  # of the bound of sorting


def theorem_beta(machine: LogPMachine, c2: float = 1.0) -> float:
    """The beta with which Theorem 3 promises no stall with probability at least 1 - p^-c2: e*2^((c2+3)/c1) - 1.

    c1 is that of the machine, ceil(L/G) / log2 p. (The scan of the paper reads e^(2(c2+3)/c1) - 1, which agrees neither
    with its alpha = 4e*2^((c2+3)/c1) = 4(1+beta) nor with the step it is needed for: (e/(1+beta))^ceil(L/G) is
    2^(-(c2+3) ceil(L/G)/c1) = p^-(c2+3), and the factor 2Rp is at most p^3. For that 2R <= p^2 is enough; R <= p, which
    the paper uses, need not hold with this beta.)
    """
    if machine.p == 1:
        return 0.0
    return math.e * 2 ** ((c2 + 3) * math.log2(machine.p) / machine.capacity) - 1


def rounds(machine: LogPMachine, h: int, beta: float) -> int:
    """R: (1+beta) h / ceil(L/G), rounded up."""
    return math.ceil((1 + beta) * h / machine.capacity)


def round_length(machine: LogPMachine) -> int:
    """Steps of a round: 2(L+o).

    Enough, also where 2o is above G, for a processor to send and to acquire up to ceil(L/G) messages each. It sends
    them first, one every G, and submits the last less than o + L after the round's begin; so do all, and another L
    later everything has been delivered. Acquiring, one every G, has ended by 2o + G(ceil(L/G)-1) + L < 2(L+o). So no
    message is in transit from one round to the next.
    """
    return 2 * (machine.L + machine.o)


def cost(machine: LogPMachine, h: int, beta: float | None = None) -> int:
    """Steps of Step 2, from when its first messages are prepared: 2(L+o)R; beta None: Theorem 3's.

    At most 4LR <= 4(1+beta)Gh + 4L. The theorem's alpha*G*h, with alpha = 4(1+beta), takes R for a whole number; to
    round it up takes up to another round, so that here the constant is alpha + 4 (h being ceil(L/G) at least).
    """
    return round_length(machine) * rounds(machine, h, theorem_beta(machine) if beta is None else beta)


def failure(machine: LogPMachine, h: int, beta: float) -> float:
    """Theorem 3's bound on the probability of a message for Step 3, or of a (potential) stall.

    2Rp (e^beta / (1+beta)^(1+beta))^(C/(1+beta)), C = ceil(L/G); may be above 1.
    """
    exponent = machine.capacity / (1 + beta) * (beta - (1 + beta) * math.log1p(beta))
    return 2 * rounds(machine, h, beta) * machine.p * math.exp(exponent)


def worst_case(machine: LogPMachine, h: int, beta: float | None = None) -> int:
    """Steps that Steps 2 and 3 take in any execution: 2(L+o)R + Gh^2 + 2Gh + L + 2o.

    A processor stalls for one destination at most Gh steps altogether: while it does, ceil(L/G) messages are in transit
    there, each of the at most h for not more than L steps. It has at most h destinations: Gh^2. Beside that its sends
    take Gh, and after the last of all has arrived, L later, acquiring takes another Gh at most.
    """
    G, L, o = machine.G, machine.L, machine.o
    return cost(machine, h, beta) + G * h * h + 2 * G * h + L + 2 * o


def left_over(machine: LogPMachine, h: int, beta: float) -> tuple[float, float]:
    """Messages that are expected to be left for Step 3 to, or from, the processor that has most; and a bound on the
    probability that some are.

    Of h messages to a processor, Binomial(h, 1/R) are in a batch, of which those above ceil(L/G) are left. Batches are
    taken as independent, so that what is left of all is a sum of R such excesses; and of 2p of these, each processor's
    sent and received, the greatest is above k with a probability of at most 2p times that of one.

    Of many, more than 4096 and 8 ceil(L/G), as large a part is left as of so many: of more it is a little less.
    """
    capacity = machine.capacity
    counted = min(h, max(4096, 8 * capacity))
    R = rounds(machine, counted, beta)
    if R == 1 or h <= capacity:
        return float(max(0, h - capacity)), float(h > capacity)
    k = np.arange(1, counted + 1)
    ways = np.concatenate(([0.0], np.cumsum(np.log((counted + 1 - k) / k))))
    each = np.exp(ways + np.arange(counted + 1) * -math.log(R) + np.arange(counted, -1, -1) * math.log1p(-1 / R))
    excess = np.zeros(2 << (2 * counted).bit_length())
    excess[0] = each[: capacity + 1].sum()
    excess[1 : counted - capacity + 1] = each[capacity + 1 :]
    total = np.fft.irfft(np.fft.rfft(excess) ** R, len(excess))[: counted + 1].clip(0)
    above = np.minimum(1.0, 2 * machine.p * np.cumsum(total[:0:-1])[::-1])  # by k: that more than k are left
    return float(above.sum()) * h / counted, float(above[0])


def expected_time(machine: LogPMachine, h: int, beta: float) -> int:
    """Steps that Steps 2 and 3 are expected to take: `cost`, and for what is left G each and L + 2o."""
    most, some = left_over(machine, h, beta)
    return cost(machine, h, beta) + round(machine.G * most + some * (machine.L + 2 * machine.o))


@lru_cache(maxsize=4096)
def choose_beta(machine: LogPMachine, h: int, beta: float | None = None, r: int | None = None) -> float | None:
    """The beta of batches that are expected to take less than sorting; None where none are.

    A given one is kept: it is judged by `cost`. Else that of the betas 2^(k/4) is taken whose `expected_time` is least:
    a small one, with which some messages are left over and some processors stall for a while. To both come two
    combine-and-broadcasts (see `route_random`). Sorting takes `sorted.bound` at most, and a quarter less where most go
    to one: what is expected must be below `MARGIN` of it.

    Args:
        machine: the LogP machine.
        h: the relation's, above ceil(L/G).
        beta: what was asked for.
        r: messages that a processor sends at most: so many of each are sorted, where h is of what one receives. None:
            not known; it may be h.
    """
    if beta is None:
        best = min((2 ** (k / 4) for k in range(-16, 33)), key=lambda each: expected_time(machine, h, each))
        steps = expected_time(machine, h, best)
    else:
        best, steps = beta, cost(machine, h, beta)
    sorting = sorting_bound(machine, h if r is None else r, h) * (MARGIN if beta is None else 1)
    return best if steps + 2 * synchronisation_bound(machine) < sorting else None


def route_random(
    phases: Phases,
    packets: Sequence[tuple[int, Any]],
    h: int | None = None,
    *,
    expected: int | None = None,
    beta: float | None = None,
    seed: int = 0,
    start: int | None = None,
) -> list[Message]:
    """Route an h-relation in R random batches; collective.

    With Theorem 3's beta, or a large one, nobody stalls with high probability. Every execution ends with all messages
    where they should be.

    Args:
        phases: this processor's.
        packets: (dest, payload) of this processor. What goes to oneself costs nothing.
        h: the relation's, or more; equal on all processors. None: it is counted first.
        expected: messages that come from others. None: not known; what is given is ignored where h is counted, as this
            is then counted too. Given on all processors or on none.
        beta: more batches make stalls rarer; above 0, equal on all processors. None: Theorem 3's (`theorem_beta`) where
            a h below p is given, else what is expected to cost least.
        seed: of the batches, which depend on it, the pid and the phase; equal on all processors.
        start: when the first messages are submitted; equal on all processors, each at start - o at the latest, with the
            gap kept. None: processors come when they like and agree on a time (`common_start`), which costs a
            combine-and-broadcast. Where h is counted they agree on one anyway.

    Returns:
        the messages for this processor, in any order.

    Raises:
        UsageError: more than h packets; no such processor; an h, beta or seed that cannot be. The others then wait
            for this one.

    LogP cost: from start - o `cost(machine, h, beta)`, with probability at least 1 - `failure(machine, h, beta)`;
    `worst_case(machine, h, beta)` in any execution, if nothing else is in transit. With h <= ceil(L/G) all is sent
    directly, in 2o + G(h-1) + L; with h >= p, or where h is counted and no beta given, by batches or by sorting
    (`route_sorted`), whichever is expected to cost less (`choose_beta`): where h is counted, by how many a processor
    sends and receives at most, else by h. Some may stall for a while then.
    To these comes what the paper leaves out. Where only h is known, nobody knows how much it will receive, and a
    combine-and-broadcast of what is missing tells all that nothing is (a second one, of p words, where something is).
    Where h is None, a combine-and-broadcast of p words, what each processor is sent, is needed first: h is also the
    maximum of what is received, which no processor knows of itself. None is needed afterwards then.
    On a machine that is not timed there are no rounds, only the order of the batches.

    Source: section 4.3, Theorem 3.
    """
    proc, machine = phases.proc, phases.proc.machine
    if h is not None and not is_whole(h, 0):
        raise UsageError(f"route_random: argument h: expected a whole number of at least 0, or None, got {brief(h)}")
    if beta is not None and not (isinstance(beta, (int, float)) and math.isfinite(beta) and beta > 0):
        raise UsageError(f"route_random: argument beta: expected a number above 0, or None, got {brief(beta)}")
    if not is_whole(seed, 0):
        raise UsageError(f"route_random: argument seed: expected a whole number of at least 0, got {brief(seed)}")
    for dest, _ in packets:
        if not 0 <= dest < proc.p:
            raise UsageError(f"route_random: packets: expected destinations 0 to {proc.p - 1}, got {dest!r}")
    away = [packet for packet in packets if packet[0] != proc.pid]
    if h is not None and len(away) > h:
        raise UsageError(f"route_random: argument h: processor {proc.pid} has {len(away)} packets, more than h = {h}")
    received = [Message(proc.pid, payload) for dest, payload in packets if dest == proc.pid]
    r = None
    if h is None:
        (r, counts), start = combine_start(phases, (len(away), _counts(proc.p, away)), _counted)
        h, expected = max(r, int(counts.max())), int(counts[proc.pid])
    if h == 0:
        return received
    if machine.capacity < h and (proc.p <= h or (beta is None and r is not None)):
        # Theorem 3 is about h < p, and takes many rounds that nobody may stall: the costs say what is worth its time.
        beta = choose_beta(machine, h, beta, r)
        if beta is None:
            return received + route_sorted(phases, away)
    if start is None:
        start = common_start(phases)
    if h <= machine.capacity:
        sends = [(slot, *packet) for slot, packet in enumerate(away)]
        received += pipelined(phases, sends, start, h, expected, machine.G)
        # Several may have arrived in the last step, and are acquired one every G.
        return received + (_arrived(phases) if proc.timed else [])

    # 1. Random batches.
    R = rounds(machine, h, theorem_beta(machine) if beta is None else beta)
    if R * round_length(machine) >= 1 << 62:
        raise UsageError(
            f"route_random: with ceil(L/G) = {machine.capacity} and p = {machine.p}, Theorem 3 takes {R:.1e} rounds; "
            "give a smaller beta, or use route_sorted"
        )
    number = phases.begin()
    drawn = batches_of(seed, proc.pid, number, R, len(away))
    order = [int(i) for i in np.argsort(drawn, kind="stable")]
    if not proc.timed:
        for i in order:
            phases.send(*away[i])
        got: list[Message] = []
    else:
        batches: dict[int, deque[tuple[int, Any]]] = {}
        for i in order:
            batches.setdefault(int(drawn[i]), deque()).append(away[i])
        # 2. Rounds: up to ceil(L/G) messages of the batch, one every G.
        got = _rounds(phases, batches, start - machine.o)
        end = start - machine.o + R * round_length(machine)
        while (message := phases.recv(end - machine.o)) is not None:
            got.append(message)
        wait_until(proc, end)
        # 3. What remains, one every G.
        for batch in batches.values():
            for packet in batch:
                phases.send(*packet)
        got += _arrived(phases)
    if expected is None:
        # All know that all has come, or else how much will.
        missing = combine_broadcast(phases, len(away) - len(got), add) if proc.timed else 1
        if missing:
            counts = combine_broadcast(phases, _counts(proc.p, away), np.add)
            expected = int(counts[proc.pid])
        else:
            expected = len(got)
    got += [phases.recv(phase=number) for _ in range(expected - len(got))]
    return received + got


def batches_of(seed: int, pid: int, phase: int, R: int, messages: int) -> Counts:
    """The batch, 0 to R - 1, of each of a processor's messages (without those to itself) in a phase."""
    return np.random.default_rng((seed, pid, phase)).integers(R, size=messages)


def _rounds(phases: Phases, batches: dict[int, deque[tuple[int, Any]]], begin: int) -> list[Message]:
    """Step 2: takes out of the batches what it sends; what has stalled too long remains. Returns what has come."""
    proc, machine = phases.proc, phases.proc.machine
    got = []
    for r, batch in batches.items():
        first = begin + r * round_length(machine)
        last = first + (machine.capacity - 1) * machine.G
        for prepare in range(first, last + 1, machine.G):
            if not batch:
                break
            while proc.time <= prepare - machine.o and (message := phases.recv(prepare - machine.o)) is not None:
                got.append(message)
            wait_until(proc, prepare)
            if proc.time > last:
                break
            phases.send(*batch.popleft())
    return got


def _arrived(phases: Phases) -> list[Message]:
    """What has been delivered by now."""
    got = []
    now = phases.proc.time
    while (message := phases.recv(now - 1)) is not None:
        got.append(message)
    return got


def _counts(p: int, packets: Sequence[tuple[int, Any]]) -> Counts:
    return np.bincount(np.array([dest for dest, _ in packets], np.int64), minlength=p)


def _counted(first: tuple[int, Counts], second: tuple[int, Counts]) -> tuple[int, Counts]:
    return max(first[0], second[0]), first[1] + second[1]
