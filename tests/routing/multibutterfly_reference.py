"""The multibutterfly protocol once more, slowly: node by node, with a list of buffers for each port.

It has what `pybsp.routing.multibutterfly.protocol` decides where the paper leaves it open, and shares no code with it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass
class Buffer:
    message: int | None  # None: a ghost
    alive: bool = True
    assigned: int | None = None  # number k of an edge


@dataclass
class Port:
    buffers: list[Buffer] = field(default_factory=list)  # full ones
    W: int = 0
    F: int = 0
    selected: list[int] = field(default_factory=list)

    def ghosts(self) -> list[Buffer]:
        return [buffer for buffer in self.buffers if buffer.message is None]


def next_power(number: int) -> int:
    power = 1
    while power <= number:
        power *= 2
    return power


class Reference:
    """Messages from rows to rows; `stage()` until all have `arrived`: the stage of each, or -1."""

    def __init__(
        self,
        heads: NDArray[np.int32],
        sources: list[int],
        ends: list[int],
        h: int,
        R: int,
        Z: int,
        Y: int,
        in_turn: bool,
    ) -> None:
        self.heads, self.ends, self.h, self.R, self.Z, self.Y = heads, ends, h, R, Z, Y
        self.n, self.N, twice_d = heads.shape
        self.d = twice_d // 2
        self.turns = [(0,), (1,)] if in_turn else [(0, 1)]
        self.i = 0
        self.ports = {(r, c, s): Port() for c in range(self.n + 1) for r in range(self.N) for s in (0, 1)}
        self.g1 = {(r, c): 0 for c in range(self.n + 1) for r in range(self.N)}
        self.g2 = dict(self.g1)
        self.arrived = [-1 if self.n else 0] * len(ends)
        for message, row in enumerate(sources):
            self.ports[row, 0, self.side(message, 0)].buffers.append(Buffer(message))
        for r in range(self.N):
            self.weigh(r, 0)

    def side(self, message: int, c: int) -> int:
        return self.ends[message] >> (self.n - 1 - c) & 1 if c < self.n else 0

    def weigh(self, r: int, c: int) -> None:
        for s in (0, 1):
            self.ports[r, c, s].W = next_power(len(self.ports[r, c, s].buffers))

    def head(self, r: int, c: int, s: int, k: int) -> tuple[int, int]:
        return int(self.heads[c, r, s * self.d + k]), c + 1

    def inputs(self) -> list[tuple[int, int, int]]:
        return [(r, c, s) for c in range(min(self.i + 1, self.n)) for r in range(self.N) for s in (0, 1)]

    def stage(self) -> None:
        new: list[tuple[int, int, int]] = []
        # Phase 1, step 1
        for at in self.inputs():
            port = self.ports[at]
            if not port.F and self.h >= port.W:
                port.selected, port.F = list(range(self.R)), 1
                new.append(at)
        # Step 2
        standing: dict[tuple[int, int], dict[tuple[int, int, int], tuple[int, int]]] = {}
        for _ in range(self.Z):
            asking = [at for at in self.inputs() if not self.ports[at].F and self.h < self.ports[at].W]
            asked: dict[tuple[int, int], list[tuple[int, tuple[int, int, int], int]]] = {}
            for at in asking:
                for k in range(self.d):
                    asked.setdefault(self.head(*at, k), []).append((max(1, self.ports[at].W // self.R), at, k))
            permitted: dict[tuple[int, int, int], list[int]] = {at: [] for at in asking}
            for requests in asked.values():
                for size, at, k in requests:
                    if all(other == at for size_asked, other, _ in requests if size_asked == size):
                        permitted[at].append(k)
            for at in asking:
                if len(permitted[at]) >= self.R:
                    self.ports[at].selected, self.ports[at].F = sorted(permitted[at])[: self.R], 1
                    new.append(at)
            standing = {}
            for output, requests in asked.items():
                for size, at, _ in requests:
                    if not self.ports[at].F:
                        edges = standing.setdefault(output, {}).get(at, (size, 0))[1]
                        standing[output][at] = (size, min(edges + 1, self.R))
        # Step 3
        for at in new:
            port = self.ports[at]
            for t, buffer in enumerate(port.buffers):
                buffer.assigned = port.selected[t % self.R]
            for k in port.selected:
                assert sum(buffer.assigned == k for buffer in port.buffers) <= max(1, port.W // self.R)
        # Step 4
        for output in self.g1:
            most: dict[int, int] = {}
            for size, edges in standing.get(output, {}).values():
                most[size] = max(most.get(size, 0), edges)
            self.g1[output] = sum(size * edges for size, edges in most.items())
        # Step 5
        if self.i < self.n:
            expected = self.expected()
            for r in range(self.N):
                self.g2[r, self.i + 1] = expected[r, self.i + 1]
                for s in (0, 1):
                    ghosts = self.g1[r, self.i + 1] + self.g2[r, self.i + 1]
                    self.ports[r, self.i + 1, s].buffers = [Buffer(None) for _ in range(ghosts)]
        # Phase 2
        for sides in self.turns:
            for _ in range(self.Y):
                self.move(sides)
            if self.i < self.n:
                for r in range(self.N):
                    self.weigh(r, self.i + 1)
        self.i += 1

    def expected(self) -> Counter[tuple[int, int]]:
        """Live buffers of inputs that are assigned to each output."""
        return Counter(
            self.head(*at, buffer.assigned)
            for at in self.inputs()
            for buffer in self.ports[at].buffers
            if buffer.alive and buffer.assigned is not None
        )

    def move(self, sides: tuple[int, ...]) -> None:
        coming: list[tuple[tuple[int, int], tuple[int, int, int], int, int]] = []
        for at in self.inputs():
            if at[2] in sides and self.ports[at].F:
                for buffer in self.ports[at].buffers:
                    if buffer.message is not None and buffer.alive:
                        assert buffer.assigned is not None
                        coming.append((self.head(*at, buffer.assigned), at, buffer.assigned, buffer.message))
                        buffer.alive = False
        outputs = [
            (r, c)
            for c in range(1, min(self.i + 1, self.n) + 1)
            for r in range(self.N)
            if r >> (self.n - c) & 1 in sides
        ]
        expected = self.expected()
        for output in outputs:
            self.g2[output] = expected[output]
        for (r, c), _, _, message in sorted(coming, key=lambda what: (what[0], what[1], what[2])):
            buffer = self.ports[r, c, self.side(message, c)].ghosts()[0]
            buffer.message = message
            if c == self.n:
                assert r == self.ends[message]
                self.arrived[message] = self.i
        for r, c in outputs:
            for s in (0, 1):
                port = self.ports[r, c, s]
                excess = len(port.ghosts()) - self.g1[r, c] - self.g2[r, c]
                assert excess >= 0
                for buffer in port.ghosts()[::-1][:excess]:
                    port.buffers = [other for other in port.buffers if other is not buffer]
