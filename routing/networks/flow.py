"""Traffic in time: packets that come while others are on their way, over links with a rate and a delay, through finite
buffers.

A node keeps what waits for a link in queues at the link's tail, one for each of its virtual channels, first in, first
out. At a time t, in this order:

    1. Packets that have come over links arrive, in the order of the links; those at their ends leave the network.
    2. Packets that are due at t enter the network, in the order of their numbers, as far as their nodes have places.
    3. All of these choose a link, by what they see: how many packets waited for each link before step 1.
    4. Each link that is free carries off the first packet of one of its channels' queues, of those that take turns.

Over a link with period b and delay d a packet that leaves at t has come at t + d, and the next may leave at t + b. With
b = d = 1 and endless buffers packets that all come at time 0 move as `Network.route` has it, step for step.

Finite buffers: at the head of each channel of each link there are `buffers` places. A packet leaves by a channel only
if there is a place for it, has it from then on, and gives it back when it leaves the node, or the network. Places
given back in step 4 can be taken from the next step on. A node has as many places for packets of its own processor;
behind these, they wait at their source.

Source: Dally and Towles, *Principles and practices of interconnection networks*, chapters 14, 16 and 23 to 25.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ...errors import RoutingError, UsageError, brief, usage_error
from ...ground.convert import is_whole, whole
from ..seeds import Seed, generator
from .adaptive import ROUTINGS, Choice, Ways
from .graph import Ints
from .injections import Injections
from .network import Network, check_network
from .simulator import Queues, runs


class Flow(NamedTuple):
    """What became of some packets.

    network: on which.
    injections: the packets.
    steps: until the last packet was there, or until the simulation was stopped.
    delivered: when each packet arrived, shape (m,); -1 for one that had not when it was stopped.
    hops: links that each packet took so far, shape (m,).
    queue_length: packets that waited for each link at a time, at most, shape (links,).
    link_load: packets that left over each link, shape (links,).
    period: steps that a packet keeps each link busy, shape (links,).
    busy: steps up to `steps` in which each link was, shape (links,).

    Examples:
        >>> from pybsp.routing import networks
        >>> torus = networks.Torus((4, 4))
        >>> flow = networks.flow(torus, networks.Injections.open(16, load=0.5, steps=400), buffers=4)
        >>> flow.steps, flow.hops.max(), len(flow.latency), flow.queue_length.max(), flow.link_load.sum()
        (403, np.int64(4), 3201, np.int64(4), np.int64(6323))
        >>> round(flow.mean_latency(100, 300), 2), round(flow.throughput(100, 300), 2), flow.utilization.shape
        (2.41, 0.49, (64,))
    """

    network: Network
    injections: Injections
    steps: int
    delivered: Ints
    hops: Ints
    queue_length: Ints
    link_load: Ints
    period: Ints
    busy: Ints

    def __repr__(self) -> str:
        left = int((self.delivered < 0).sum())
        stopped = f", {left} of them not there when it was stopped" if left else ""
        return f"<flow on {self.network!r}: {len(self.delivered)} packets, {self.steps} steps{stopped}>"

    @property
    def latency(self) -> Ints:
        """Steps from when each packet was due to its arrival, at its source included; of those that arrived."""
        there = self.delivered >= 0
        return self.delivered[there] - self.injections.times[there]

    @property
    def utilization(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """The part of the time for which each link was busy, shape (links,)."""
        return self.busy / max(self.steps, 1)

    def mean_latency(self, begin: int, end: int) -> float:
        """Of packets due from step `begin` to `end`, and not at their ends at once; inf if some have not arrived.

        Raises:
            UsageError: no steps, or none between them.
        """
        _check_span("flow.mean_latency", begin, end)
        injections = self.injections
        due = (injections.times >= begin) & (injections.times < end)
        due &= injections.sources != injections.destinations
        if not due.any():
            return 0.0
        if (self.delivered[due] < 0).any():
            return float("inf")
        return float((self.delivered[due] - injections.times[due]).mean())

    def throughput(self, begin: int, end: int) -> float:
        """Packets that arrived from step `begin` to `end`, for each processor and step.

        Raises:
            UsageError: no steps, or none between them.
        """
        _check_span("flow.throughput", begin, end)
        arrived = np.count_nonzero((self.delivered >= begin) & (self.delivered < end))
        return float(arrived / (self.network.p * (end - begin)))


def _check_span(operation: str, begin: Any, end: Any) -> None:
    first, last = whole(begin), whole(end)
    if first is None or last is None or first >= last:
        raise UsageError(
            f"{operation}: arguments begin and end: expected whole numbers of steps, begin below end, got "
            f"{brief(begin)} and {brief(end)}"
        )


def flow(
    network: Network,
    injections: Injections,
    *,
    routing: str | Choice = "greedy",
    period: ArrayLike = 1,
    delay: ArrayLike = 1,
    buffers: int | None = None,
    channels: int | None = None,
    seed: Seed = 0,
    until: int | None = None,
) -> Flow:
    """Carry packets over a network in time.

    Args:
        network: where.
        injections: which packets, and when.
        routing: "greedy" (the network's `step`), "adaptive" (of all links that lead nearer that for which the fewest
            packets wait), "valiant" (by a node drawn of `middles`), "ugal" (greedy, or by Valiant where packets that
            wait times hops are fewer so; decided at the source), or a function `choose(at, to, waiting, rng)` that
            gives the link by which each packet goes on: arrays of shape (m,), and `waiting` the packets that wait for
            each link, of shape (links,).
        period: steps that a packet keeps a link busy: 1 over its rate. A whole number, or one for each link.
        delay: steps until a packet is at the other end, likewise.
        buffers: places for packets at the head of each virtual channel; None: endless. A link can be kept busy from
            delay + 1 places on, of all its channels.
        channels: virtual channels of each link, where buffers are finite. None: as many as it takes that packets never
            wait for each other in a circle: those of the network, twice as many by Valiant and UGAL, the diameter for
            adaptive routing; for a function of one's own too. With fewer, the last one
            has all that would be on those above.
        seed: of what is drawn.
        until: stop at this step; None: when all packets are there.

    Raises:
        UsageError: arguments that are none; no place in a buffer; a load above what the links of a processor carry.
        RoutingError: injections for another p; packets that wait for each other in a circle (the text says how many).

    Examples:
        >>> from pybsp.routing import networks
        >>> mesh = networks.Array((8, 8))
        >>> load = networks.Injections.open(64, load=0.3, steps=500)
        >>> for routing in "greedy", "adaptive", "valiant", "ugal":
        ...     done = networks.flow(mesh, load, routing=routing)
        ...     print(routing, round(done.mean_latency(100, 400), 1), round(done.hops.mean(), 1))
        greedy 6.9 5.2
        adaptive 6.9 5.2
        valiant 81.6 10.3
        ugal 7.2 5.5
    """
    _check(network, injections, routing, buffers, channels, until)
    period, delay = per_link(network, "period", period), per_link(network, "delay", delay)
    if injections.load is not None:
        check_load("flow: injections", network, injections.load, period)
    ways, rng = Ways(network, routing, injections.packets), generator("flow", seed)
    run = _FlowRun(network, injections, ways, period, delay, buffers, channels, rng)
    steps = run.run(until)
    busy = run.load * period - np.maximum(run.free_at - steps, 0)  # not what a link carries when all is over
    return Flow(network, injections, steps, run.delivered, run.hops, run.longest, run.load, period, busy)


def per_link(network: Network, name: str, given: ArrayLike) -> Ints:
    """The period, or delay, of each link, shape (links,); UsageError where there is none."""
    numbers, links = np.asarray(given), len(network.tails)
    if not np.issubdtype(numbers.dtype, np.integer) or numbers.shape not in ((), (links,)) or (numbers < 1).any():
        raise UsageError(f"flow: {name}: expected whole numbers from 1 on, one or one for each of {links} links")
    return np.broadcast_to(numbers.astype(np.int64), (links,))


def source_rate(network: Network, period: Ints) -> float:
    """Packets that the links of a processor can carry off in a step: of all processors the least."""
    return float(np.bincount(network.tails, 1 / period, network.nodes)[network.places].min())


def check_load(argument: str, network: Network, load: float, period: Ints) -> None:
    """Refuse a load above what a source can send, with a UsageError."""
    rate = source_rate(network, period)
    if load > rate * (1 + 1e-12) and network.p > 1:
        raise UsageError(
            f"{argument}: a load of {load:g} packets for each processor and step is above what a source can send: its "
            f"links carry {rate:g}"
        )


def _check(
    network: Network,
    injections: Injections,
    routing: str | Choice,
    buffers: int | None,
    channels: int | None,
    until: int | None,
) -> None:
    check_network("flow", network)
    if not isinstance(injections, Injections):
        raise usage_error("flow: injections", "Injections", brief(injections, 80))
    times = injections.times
    if len(times) and (times[0] < 0 or (times[1:] < times[:-1]).any()):
        expected = "steps from 0 on, ascending, as `Injections.at` makes them of any order"
        raise usage_error("flow: injections: times", expected, brief(times))
    if injections.p != network.p:
        raise RoutingError(f"flow: expected injections for p = {network.p} processors, got some for p = {injections.p}")
    if not callable(routing) and routing not in ROUTINGS:
        raise usage_error("flow: routing", f"one of {', '.join(ROUTINGS)}, or a function", f"{routing!r}")
    for name, number, least in (("buffers", buffers, 1), ("channels", channels, 1), ("until", until, 0)):
        if number is not None and not is_whole(number, least):
            raise usage_error(f"flow: {name}", f"a whole number from {least} on, or None", brief(number))


class _FlowRun:
    """The state of a network in time."""

    def __init__(
        self,
        network: Network,
        injections: Injections,
        ways: Ways,
        period: Ints,
        delay: Ints,
        buffers: int | None,
        channels: int | None,
        rng: np.random.Generator,
    ) -> None:
        self._network, self._ways, self._rng = network, ways, rng
        self._period, self._delay, self._buffers = period, delay, buffers
        links, packets = len(network.tails), injections.packets
        self._channels = 1 if buffers is None else ways.channels if channels is None else channels
        self._times = injections.times
        self._at, self._end = network.places[injections.sources], network.ends[injections.destinations]
        self._queue = np.full(packets, -1, np.int64)  # that each packet waits in: link * channels + channel
        self._place = np.full(packets, -1, np.int64)  # the places that it has one of: likewise, then those of nodes
        self.delivered = np.full(packets, -1, np.int64)
        self.hops = np.zeros(packets, np.int64)
        self._queues = Queues(links * self._channels, 1, packets)
        self._waiting = np.zeros(links, np.int64)
        self.longest = np.zeros(links, np.int64)
        self.load = np.zeros(links, np.int64)
        self.free_at = np.zeros(links, np.int64)
        self._turn = np.zeros(links, np.int64)
        self._taken = np.zeros(links * self._channels + network.nodes, np.int64)  # places
        self._coming: dict[int, list[Ints]] = {}  # by time
        # Packets of each node by number, without those that are at their ends: which is the next to enter, and how many
        # are due.
        away = np.flatnonzero(self._at != self._end)
        self._by_node = away[np.argsort(self._at[away], kind="stable")]
        self._first = np.searchsorted(self._at[self._by_node], np.arange(network.nodes))
        self._entered, self._due = np.zeros(network.nodes, np.int64), np.zeros(network.nodes, np.int64)
        self._begun = 0  # packets that are due
        self._arrived: Ints = np.empty(0, np.int64)  # now, and go on

    def run(self, until: int | None) -> int:
        """Until all packets are there, or that step; which it was."""
        now, left, last = 0, len(self._at), 0
        while left:
            if until is not None and now >= until:
                return until
            arrived = self._arrive(now)
            entered, at_once = self._enter(now)
            left -= arrived + at_once
            if arrived or at_once:
                last = now
            moved = self._leave(now)
            if moved or arrived or entered:
                now += 1
                continue
            # Nothing happens before the next packet comes or is due, or a link is free.
            events = [min(self._coming)] if self._coming else []
            if self._begun < len(self._times):
                events.append(int(self._times[self._begun]))
            busy = self.free_at[self.free_at > now]
            if len(busy):
                events.append(int(busy.min()))
            if left and not events:
                raise RoutingError(
                    f"flow: deadlock on {self._network.name} at step {now}: {left} packets wait for places that others "
                    f"of them have; more virtual channels than {self._channels} are needed, or larger buffers"
                )
            now = min(events, default=now)
        return last

    # -- what happens in a step

    def _arrive(self, now: int) -> int:
        """Packets come over their links; how many are at their ends."""
        coming = self._coming.pop(now, [])
        if not coming:
            return 0
        packets = np.concatenate(coming)
        over = self._queue[packets] // self._channels
        packets = packets[np.argsort(over, kind="stable")]
        self._at[packets] = self._network.heads[self._queue[packets] // self._channels]
        self.hops[packets] += 1
        there = self._at[packets] == self._end[packets]
        there &= self._ways.via[packets] < 0
        arrived = packets[there]
        self.delivered[arrived] = now
        self._give_back(arrived)
        self._arrived = packets[~there]
        return len(arrived)

    def _enter(self, now: int) -> tuple[int, int]:
        """Packets that are due enter as far as there are places, and all new ones choose their links.

        Returns:
            how many went on, and how many were at their ends at once.
        """
        end = int(np.searchsorted(self._times, now, side="right"))
        fresh, self._begun = np.arange(self._begun, end), end
        there = self._at[fresh] == self._end[fresh]
        here = fresh[there]
        self.delivered[here] = now
        np.add.at(self._due, self._at[fresh[~there]], 1)
        room = self._due - self._entered
        nodes = np.flatnonzero(room)
        room = room[nodes]
        if self._buffers is not None:
            free = self._buffers - self._taken[len(self.load) * self._channels + nodes]
            room = np.minimum(room, free)
        start = np.repeat(self._first[nodes] + self._entered[nodes] - np.cumsum(room) + room, room)
        chosen = np.sort(self._by_node[start + np.arange(len(start))])
        self._entered[nodes] += room
        entered = len(self._arrived) + len(chosen)
        self._place[chosen] = len(self.load) * self._channels + self._at[chosen]
        np.add.at(self._taken, self._place[chosen], 1)
        waiting = self._waiting.copy()
        self._choose(self._arrived, waiting, fresh=False)
        self._choose(chosen, waiting, fresh=True)
        self._arrived = self._arrived[:0]
        np.maximum(self.longest, self._waiting, out=self.longest)
        return entered, len(here)

    def _choose(self, packets: Ints, waiting: Ints, fresh: bool) -> None:
        """These packets enter queues of links."""
        if not len(packets):
            return
        at, end = self._at[packets], self._end[packets]
        link, channel = self._ways.choose(packets, at, end, waiting, fresh, self._rng)
        queue = link * self._channels + np.minimum(channel, self._channels - 1)
        self._queue[packets] = queue
        self._queues.put(packets, queue)
        np.add.at(self._waiting, link, 1)

    def _leave(self, now: int) -> int:
        """Each free link carries a packet off; how many."""
        active = self._queues.active
        if not len(active):
            return 0
        link = active // self._channels
        ready = self.free_at[link] <= now
        if self._buffers is not None:
            ready &= self._taken[active] < self._buffers
        if not ready.all():
            heads = self._queues.heads()[ready]
            active, link = active[ready], link[ready]
        else:
            heads = self._queues.heads()
        if self._channels > 1 and len(active):
            # Of its channels that which is next in turn.
            turn = (active - self._turn[link]) % self._channels
            order = np.lexsort((turn, link))
            chosen = order[runs(link[order])[0]]
            active, link, heads = active[chosen], link[chosen], heads[chosen]
            self._turn[link] = (active + 1) % self._channels
        if not len(active):
            return 0
        self._queues.take(active)
        self._waiting[link] -= 1
        self.load[link] += 1
        self.free_at[link] = now + self._period[link]
        self._give_back(heads)
        self._place[heads] = active
        self._taken[active] += 1
        arrival = now + self._delay[link]
        for when in np.unique(arrival).tolist():
            self._coming.setdefault(when, []).append(heads[arrival == when])
        return len(active)

    def _give_back(self, packets: Ints) -> None:
        """The places that these packets have."""
        np.subtract.at(self._taken, self._place[packets], 1)
