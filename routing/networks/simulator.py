"""The synchronous packet simulator: whole arrays at a time, exact numbers of steps.

Store and forward: in a step each link carries one packet from its tail to its head. What waits for a link waits in a
queue at the link's tail.

    multi-port      a node uses all its links in a step; a queue for each link
    single-port     a node sends at most one packet and receives at most one in a step; a queue for each node. Of those
                    that offer a node a packet in step t, it takes that of the link with the least (link + t) mod links

    FIFO            of a queue the packet goes that has waited longest
    furthest first  of a queue the packet goes that has furthest to go; of these, that which has waited longest

Packets that enter a queue in the same step do so in the order of the links by which they came; at the start, in the
order of their numbers.
"""

from __future__ import annotations

from types import ModuleType
from typing import NamedTuple

import numpy as np

from ...compiled import kernels
from ...errors import UsageError
from .bits import bit_length
from .graph import Graph, Ints, Rule

QUEUES = ("fifo", "furthest-first")
PORTS = ("multi", "single")


class Traffic(NamedTuple):
    """What routing some packets took.

    steps: until the last packet was there.
    delivered: the step in which each packet arrived, shape (m,); 0 for one that is where it began.
    queue_length: packets that waited in each queue at a time, at most, over the whole run; shape (links,), or (nodes,)
        with single ports.
    link_load: packets that went over each link, shape (links,).
    node_traffic: packets that began at each node or came to it, shape (nodes,); one that comes again counts again.

    Examples:
        >>> from pybsp.routing import networks, relations
        >>> traffic = networks.Hypercube(16).route(relations.bit_reversal(16, h=4))
        >>> traffic.steps, traffic.max_queue, traffic.max_link_load, traffic.max_node_traffic
        (10, 4, 8, 16)
    """

    steps: int
    delivered: Ints
    queue_length: Ints
    link_load: Ints
    node_traffic: Ints

    def __repr__(self) -> str:
        return f"<traffic: {len(self.delivered)} packets over {len(self.link_load)} links, {self.steps} steps>"

    @property
    def max_queue(self) -> int:
        """Packets in the longest queue."""
        return int(self.queue_length.max(initial=0))

    @property
    def max_link_load(self) -> int:
        """Packets over the busiest link."""
        return int(self.link_load.max(initial=0))

    @property
    def max_node_traffic(self) -> int:
        """Packets at the busiest node."""
        return int(self.node_traffic.max(initial=0))

    def __add__(self, other: object) -> Traffic:
        """One after the other: the same packets go this way first, and when all are there, the other."""
        if not isinstance(other, Traffic):
            return NotImplemented
        return Traffic(
            self.steps + other.steps,
            np.where(other.delivered > 0, self.steps + other.delivered, self.delivered),
            np.maximum(self.queue_length, other.queue_length),
            self.link_load + other.link_load,
            self.node_traffic + other.node_traffic,
        )


def simulate(
    network: Graph,
    begin: Ints,
    end: Ints,
    queue: str = "fifo",
    ports: str = "multi",
    rng: np.random.Generator | None = None,
    limit: int | None = None,
) -> Traffic:
    """Route packets from nodes to nodes.

    Args:
        network: where.
        begin, end: the nodes of each packet, shape (m,).
        queue: "fifo" or "furthest-first".
        ports: "multi" or "single".
        rng: for networks whose packets draw their way; None: a new one with seed 0.
        limit: steps after which it gives up with a RuntimeError; None: never.

    Raises:
        UsageError: another queue, or ports.
    """
    if queue not in QUEUES:
        raise UsageError(f"simulate: queue: expected one of {', '.join(QUEUES)}, got {queue!r}")
    if ports not in PORTS:
        raise UsageError(f"simulate: ports: expected one of {', '.join(PORTS)}, got {ports!r}")
    rng = np.random.default_rng(0) if rng is None else rng
    begin, end = np.asarray(begin, np.int64), np.asarray(end, np.int64)
    rule = network.rule() if (queue, ports) == ("fifo", "multi") else None
    if rule is not None and (kernel := kernels()) is not None:
        return _compiled(kernel, network, rule, begin, end, limit)
    single = ports == "single"
    tails, heads, links = network.tails, network.heads, len(network.tails)

    # 1. All packets that have somewhere to go enter the queue of their first link.
    at, state = begin.copy(), network.begin(begin, end, rng)
    way = np.full(len(begin), -1, np.int64)  # the link that each packet waits for
    furthest = network.diameter if queue == "furthest-first" else 0
    queues = Queues(network.nodes if single else links, furthest + 1, len(begin))

    def enter(packets: Ints) -> None:
        here, there = at[packets], end[packets]
        way[packets], state[packets] = network.step(here, there, state[packets], rng)
        left = network.distance(here, there, state[packets]) if furthest else None
        queues.put(packets, tails[way[packets]] if single else way[packets], left)

    packets = np.flatnonzero(begin != end)
    enter(packets)
    delivered = np.zeros(len(begin), np.int64)
    load = np.zeros(links, np.int64)
    waiting, t = len(packets), 0

    while waiting:
        t += 1
        if limit is not None and t > limit:
            raise RuntimeError(f"{waiting} packets are on their way after {limit} steps on {network.name}")
        # 2. Of each queue one packet goes; with single ports only those that their receivers take.
        active = queues.active
        packets = queues.heads()
        if single:
            offered = way[packets]
            by = np.lexsort(((offered + t) % links, heads[offered]))
            receivers = heads[offered[by]]
            taken = np.zeros(len(by), bool)
            taken[by[runs(receivers)[0]]] = True
            active, packets = active[taken], packets[taken]
        queues.take(active)

        # 3. They are at the other end of their links, in the order of these.
        over = way[packets]
        if single:
            order = np.argsort(over)
            packets, over = packets[order], over[order]
        load[over] += 1
        at[packets] = heads[over]

        # 4. Those that are not at their ends enter their next queues.
        there = at[packets] == end[packets]
        arrived, packets = packets[there], packets[~there]
        delivered[arrived] = t
        waiting -= len(arrived)
        if len(packets):
            enter(packets)

    through = np.bincount(begin, minlength=network.nodes)
    np.add.at(through, heads, load)
    return Traffic(t, delivered, queues.longest, load, through)


def _compiled(kernel: ModuleType, network: Graph, rule: Rule, begin: Ints, end: Ints, limit: int | None) -> Traffic:
    """`simulate` by the compiled kernel."""
    links = len(network.tails)
    load, longest, delivered = (np.zeros(size, np.int64) for size in (links, links, len(begin)))
    arrays = (np.ascontiguousarray(each, np.int64) for each in (begin, end, network.heads))
    most = -1 if limit is None else limit
    kind, d, wrap, *of_rule = rule
    steps = kernel.route(*arrays, load, longest, delivered, kind, d, wrap, *of_rule, most)
    if steps < 0:
        raise RuntimeError(f"{-1 - steps} packets are on their way after {limit} steps on {network.name}")
    through = np.bincount(begin, minlength=network.nodes)
    np.add.at(through, network.heads, load)
    return Traffic(steps, delivered, longest, load, through)


def runs(values: Ints) -> tuple[Ints, Ints]:
    """The first and the last place of each run of equal values, of which there is one at least."""
    ends = np.flatnonzero(values[1:] != values[:-1])
    return np.concatenate(((0,), ends + 1)), np.concatenate((ends, (len(values) - 1,)))


class Queues:
    """Queues of packets, each of several classes; packets of a class leave in the order in which they came.

    A linked list for each class of each queue, so that an operation on many queues is a few operations on arrays. Which
    lists of a queue have packets is in bits, 32 to a word; which words have some, in those of the next level; and so
    on, to one word for a queue.

    Attributes:
        active: queues that are not empty, ascending.
        length, longest: of each queue, now and the longest that it has been.
    """

    def __init__(self, queues: int, classes: int, packets: int) -> None:
        self._classes = classes
        self._bits: list[tuple[Ints, int]] = []  # of each level the words, and how many a queue has
        width = classes
        while width > 1:
            width = -(-width // 32)
            self._bits.append((np.zeros(queues * width, np.int64), width))
        self._first = np.full(queues * classes, -1, np.int32)
        self._last = np.full(queues * classes, -1, np.int32)
        self._after = np.full(packets, -1, np.int32)
        self.length = np.zeros(queues, np.int64)
        self._top = np.zeros(queues, np.int64)  # the highest class that has a packet, of queues that are not empty
        self.active: Ints = np.empty(0, np.int64)
        self.longest = np.zeros(queues, np.int64)

    def put(self, packets: Ints, queues: Ints, classes: Ints | None = None) -> None:
        """Each packet at the end of its class of its queue; those of one class in the order given."""
        if not len(packets):
            return
        lists = queues if classes is None else queues * self._classes + classes
        order = np.argsort(lists, kind="stable")
        packets, lists = packets[order], lists[order]
        firsts, lasts = runs(lists)
        self._after[packets[:-1]] = packets[1:]
        self._after[packets[lasts]] = -1
        found = lists[firsts]
        empty = self._first[found] < 0
        self._first[found[empty]] = packets[firsts[empty]]
        queue, number = np.divmod(found[empty], self._classes)
        for bits, width in self._bits:
            np.bitwise_or.at(bits, queue * width + (number >> 5), 1 << (number & 31))
            number = number >> 5
        self._after[self._last[found[~empty]]] = packets[firsts[~empty]]
        self._last[found] = packets[lasts]

        queues = lists // self._classes
        firsts, lasts = runs(queues)
        found = queues[firsts]
        fresh = self.length[found] == 0
        highest = lists[lasts] % self._classes  # lists are sorted, so a queue's last has its highest class
        self._top[found] = np.where(fresh, highest, np.maximum(self._top[found], highest))
        self.length[found] += lasts - firsts + 1
        self.longest[found] = np.maximum(self.longest[found], self.length[found])
        if fresh.any():
            self.active = np.sort(np.concatenate((self.active, found[fresh])))

    def heads(self) -> Ints:
        """The packet that is to leave next of each active queue."""
        return np.asarray(self._first[self.active * self._classes + self._top[self.active]], np.int64)

    def take(self, queues: Ints) -> None:
        """The heads of these active queues leave."""
        lists = queues * self._classes + self._top[queues]
        self._first[lists] = self._after[self._first[lists]]
        self.length[queues] -= 1
        if not self.length[queues].all():
            self.active = self.active[self.length[self.active] > 0]
        # Where a class has become empty: its bit, and those of words in which it was the last.
        gone = empty = queues[self._first[lists] < 0]
        number = self._top[gone]
        for bits, width in self._bits:
            word = gone * width + (number >> 5)
            bits[word] ^= 1 << (number & 31)
            last = bits[word] == 0
            gone, number = gone[last], number[last] >> 5
        # The highest class that has a packet, from level to level.
        empty = empty[self.length[empty] > 0]
        number = np.zeros(len(empty), np.int64)
        for bits, width in reversed(self._bits):
            number = 32 * number + bit_length(bits[empty * width + number]) - 1
        self._top[empty] = number
