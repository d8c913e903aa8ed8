"""A user-space Ethernet switch whose latency and line rate are known.

A frame leaves its sender at the line rate, travels for the latency, and enters its receiver at the line rate; frames
that share a sender or a receiver queue for it. Lengths are those of Ethernet frames without preamble, checksum and
gap: 14 bytes more than the IP packet. No frame is dropped, and frames to the same host arrive in the order in which the
switch has read them.

The reachable rate is that of this machine: on 2 cores, shared with the ranks, about 6 Gbit/s of full frames, of one
stream as of all together. Where the switch cannot keep up, frames come late; `Switch.lateness` tells.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from select import select
from time import monotonic_ns

from .link import Change, Link

MTU = 9000
LAUNCHER = 0xFE  # the last byte of the launcher port's address; a host's is its index

AHEAD = 2_000_000  # ns; a port is read no further ahead of its line than this, so that its queue stays in its host
BURST = 16  # frames read from one port in a row; what is due waits for that long
IDLE = 100_000_000  # ns
SIZE = MTU + 200  # bytes of a frame, at most


class Lines:
    """When each host's line is free, and so when a frame arrives. Times in ns.

    Args:
        hosts: how many.
        link: what lies between them.
    """

    def __init__(self, hosts: int, link: Link) -> None:
        self.sending = [0] * hosts  # the line out of each host is free from then on
        self._receiving = [0] * hosts
        self.set(link)

    def set(self, link: Link) -> None:
        """From now on frames travel by another link; those under way stay as they are."""
        hosts = len(self.sending)
        self._ns_per_byte = 8e9 / link.rate
        self._delay = [[round(1e9 * link.delay(i, j, hosts)) for j in range(hosts)] for i in range(hosts)]

    def due(self, now: int, source: int, dest: int, size: int) -> int:
        """The time at which a frame of `size` bytes, ready to leave now, has arrived; both lines are taken for it."""
        serial = int(size * self._ns_per_byte)
        free = self.sending[source]
        left = (free if free > now else now) + serial
        self.sending[source] = left
        arrived = left + self._delay[source][dest]
        earliest = self._receiving[dest] + serial
        if arrived < earliest:
            arrived = earliest
        self._receiving[dest] = arrived
        return arrived


class Switch:
    """Forwards frames between ports.

    Args:
        ports: a file descriptor each, non-blocking, that reads and writes one frame at a time; the last one is the
            launcher's, which knows neither latency nor line rate.
        link: what lies between the others.
        changes: how it changes, in time from the first `run` on.
        clock: nanoseconds, which only grow.
    """

    def __init__(
        self, ports: Sequence[int], link: Link, changes: Sequence[Change] = (), clock: Callable[[], int] = monotonic_ns
    ) -> None:
        self._ports = list(ports)
        self._link, self._clock = link, clock
        self._lines = Lines(len(ports) - 1, link)
        self._changes = sorted(changes, key=lambda change: change.after, reverse=True)
        self._started: int | None = None
        self._heap: list[tuple[int, int, int, bytes]] = []  # due, number, port's index, frame
        self._number = 0
        self._delivered = 0
        self._late = 0

    @property
    def lateness(self) -> float:
        """Seconds by which frames were delivered later than they should have been, on average."""
        return 1e-9 * self._late / max(1, self._delivered)

    def run(self, wake: int) -> None:
        """Forward frames until there is something to read from the file descriptor `wake`."""
        if self._started is None:
            self._started = self._clock()
        collecting = gc.isenabled()
        gc.disable()  # a collection among thousands of frames takes milliseconds, and there is nothing to find
        try:
            self._forward(wake)
        finally:
            if collecting:
                gc.enable()

    def _forward(self, wake: int) -> None:
        heap, ports, sending = self._heap, self._ports, self._lines.sending
        hosts = len(sending)
        index = {port: i for i, port in enumerate(ports)}
        while True:
            self._deliver()
            now = self._clock()
            until = min(now + IDLE, heap[0][0]) if heap else now + IDLE
            limit = now + AHEAD
            listening = [wake, ports[hosts]]
            for port, free in zip(ports, sending, strict=False):
                if free < limit:
                    listening.append(port)
                elif free - AHEAD < until:
                    until = free - AHEAD
            ready = select(listening, (), (), max(0, until - self._clock()) * 1e-9)[0]
            if wake in ready:
                return
            self._change(self._clock())
            for port in ready:
                self._take(port, index[port])

    def _take(self, port: int, source: int) -> None:
        """Read what a port has to send."""
        hosts = len(self._lines.sending)
        for _ in range(BURST):
            try:
                frame = os.read(port, SIZE)
            except OSError:  # nothing more, or the host has ended
                return
            now = self._clock()
            last = frame[5]
            dests: Sequence[int]
            if frame[0] & 1:
                dests = [dest for dest in range(hosts + 1) if dest != source]
            elif last == LAUNCHER:
                dests = (hosts,)
            elif last < hosts:
                dests = (last,)
            else:
                continue
            for dest in dests:
                limited = source < hosts and dest < hosts
                due = self._lines.due(now, source, dest, len(frame)) if limited else now
                self._number += 1
                heappush(self._heap, (due, self._number, dest, frame))
            if source < hosts and self._lines.sending[source] >= now + AHEAD:
                return

    def _deliver(self) -> None:
        """Write what is due."""
        heap, ports = self._heap, self._ports
        now = self._clock()
        while heap and heap[0][0] <= now:
            due, _, dest, frame = heappop(heap)
            if frame[11] != LAUNCHER:  # the sender's
                self._late += now - due
                self._delivered += 1
            try:
                os.write(ports[dest], frame)
            except OSError:  # the host has ended
                continue

    def _change(self, now: int) -> None:
        assert self._started is not None
        while self._changes and now - self._started >= 1e9 * self._changes[-1].after:
            self._link = self._changes.pop().of(self._link)
            self._lines.set(self._link)
