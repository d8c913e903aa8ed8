"""The protocol that routes an h-relation on a multibutterfly, to the letter (*Deterministic Routing of h-relations on
the Multibutterfly*, section 3), for all nodes and columns at a time.

The buffers of a port (a node's upper, or its lower ones) are used in this order, so that four counters say it all:

    0 .. sent       dead: messages that have gone on
    sent .. got     messages, alive
    got .. top      ghosts; a message that comes takes the place of the first, and the last are deleted
    top ..          empty; up to `announced` are deleted ghosts, of which the outputs that expect them do not know yet

Buffer t of a port whose flag is set is assigned to the (t mod R)-th of its R selected edges.

Where the paper leaves it open, or the scan is damaged:

- In phase 1, "W <= h" and "2^j > h/R" are with h, not h-bar: no W is beyond that (Lemma 3).
- "Smallest power of two greater than" is strict: 1 for no messages, 2h for h of them where h is a power of two.
- What is arbitrary is by lowest edge number. Step 1 so uses R of the d butterflies, and is even.
- R counts edges. An output's requests from parallel edges are one input's, and do not conflict; g' keeps as many
  ghosts for an input as it may send by all of them.
- W/R below 1 counts 1, and those batches are of one size.
- g'' counts messages and ghosts in buffers of the inputs that are assigned to the output and have not been sent: what
  the output has to expect. Phase 2 keeps it by subtracting what comes, messages and notices of deleted ghosts.
- A message that comes replaces a ghost in a buffer of its side; on the other side one is deleted.
- Both sides' repetitions of phase 2 go on at the same time (`in_turn` has the lower after the upper, as printed: a
  message whose sides alternate then moves at most two columns in a stage, however large Y). Step 2 sets W_u and W_l of
  all nodes; what counts is what it sets in the end, when the messages of both sides have come.
- Substeps 2.1 to 2.3 are repeated until nothing changes, if that is earlier than Z times: the rest would be the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ...errors import RoutingError
from ..ranges import ranges
from .parameters import Parameters
from .wiring import Ints, Wiring

SIZES = 64  # sizes of batches are powers of two below 2^64
GHOST = -1


class Outcome(NamedTuple):
    """Of a run, what the process knows that holds some of the rows.

    stages: until the last message was delivered; the same for all processes.
    numbers, rows, stage: of the messages delivered here, by row: which, where, and in which stage; shape (m,).
    through: messages that have been at each node, shape (columns + 1, rows held here).
    W: the largest of a port of a splitter's input here.

    Examples:
        >>> from pybsp.routing import relations
        >>> from pybsp.routing.multibutterfly import Multibutterfly, route
        >>> outcome = route(Multibutterfly(N=64, d=20), relations.random_relation(2, h=3), L=32)
        >>> outcome.stages, outcome.numbers.shape, int(outcome.through.max()) <= 6
        (6, (6,), True)
    """

    stages: int
    numbers: Ints
    rows: Ints
    stage: Ints
    through: Ints
    W: int


class BlockedError(RoutingError):
    """Messages are on their way that never arrive; the attributes say in which stage, and how many.

    Examples:
        >>> from pybsp.routing.multibutterfly import BlockedError
        >>> error = BlockedError(stage=7, left=3)
        >>> error.stage, error.left
        (7, 3)
    """

    def __init__(self, stage: int, left: int) -> None:
        super().__init__(
            f"multibutterfly: stage {stage} changed nothing, and {left} messages are not delivered; with a larger L "
            "(fewer active rows) or a larger d they would be"
        )
        self.stage, self.left = stage, left

    def __reduce__(self) -> tuple[type[BlockedError], tuple[int, int]]:
        return BlockedError, (self.stage, self.left)  # pickle would give it the text


def h_bar(h: int, d: int, R: int) -> int:
    """The smallest power of two greater than 4dh/(R - 4): a port's buffers (section 3).

    Examples:
        >>> from pybsp.routing.multibutterfly import h_bar
        >>> h_bar(h=1, d=20, R=8)
        32
    """
    return 1 << (4 * d * h // (R - 4)).bit_length()


def greater_power(numbers: Ints) -> Ints:
    """The smallest power of two greater than each."""
    return np.int64(1) << np.frexp(numbers)[1].astype(np.int64)


class Protocol:
    """The nodes of the rows of a wiring, and what they do.

    Args:
        wiring: carries everything between columns.
        h: of the relation.
        parameters: R, Z, Y.
        rows, ends, numbers: of each message that begins here: the row, that to which it goes, and its number, from 0
            on, which no other has; shape (m,). In column c it goes by bit columns - 1 - c of `ends`.

    Attributes:
        stage: the next.
        F, W, sent, got, top, announced: of each port.
        g1, g2: the paper's g' and g'', of each node.
        left: messages that began here, less those delivered here.
        unset: ports of splitters' inputs that are active and whose flags are 0.
    """

    def __init__(self, wiring: Wiring, h: int, parameters: Parameters, rows: Ints, ends: Ints, numbers: Ints) -> None:
        parameters.check(wiring.d)
        self.wiring, self.h, self.parameters = wiring, h, parameters
        self.R, self.d, self.rows, self.columns = parameters.R, wiring.d, wiring.rows, wiring.columns
        nodes = (self.columns + 1) * self.rows
        self.stage = 0
        self.F = np.zeros(2 * nodes, bool)
        self.W, self.sent, self.got, self.top, self.announced, self._start = np.zeros((6, 2 * nodes), np.int64)
        self.g1, self.g2 = np.zeros((2, nodes), np.int64)
        self.unset = np.arange(2 * self.rows * min(self.columns, 1))
        self._edges = np.zeros((2 * self.columns * self.rows, self.R), np.int64)  # selected
        # Of each node, the side on which it is an output.
        column, row = np.divmod(np.arange(nodes), max(self.rows, 1))
        self._side = (row + wiring.low) >> (self.columns - column) & 1

        # Inputs have their messages.
        self._buffered, self._ends = np.empty(0, np.int64), np.empty(0, np.int64)
        self._arrived: list[tuple[Ints, Ints, Ints]] = []
        self.left = len(numbers)
        port = self._ports(rows - wiring.low, ends)
        self._activate(0, np.bincount(port, minlength=2 * self.rows)[: 2 * self.rows])
        self._store(port, numbers, ends)
        self._weigh(slice(0, 2 * self.rows))

    # -- a stage

    def run(self, watch: Callable[[Protocol], None] | None = None) -> Outcome:
        """All stages; `watch` is called at the beginning of each and at the end.

        Raises:
            BlockedError: messages are left that never move.
        """
        left = self.wiring.total(self.left)[0]
        while left:
            if watch:
                watch(self)
            changes = self.phase_1() + self.phase_2()
            self.stage += 1
            left, changes = self.wiring.total(self.left, changes)
            if left and not changes and self.stage > self.columns:
                raise BlockedError(self.stage - 1, left)
        if watch:
            watch(self)
        stage, numbers, nodes = (np.concatenate(arrays) for arrays in zip(*self._arrived, strict=True))
        order = np.lexsort((numbers, nodes))
        through = self.got.reshape(self.columns + 1, self.rows, 2).sum(axis=2)
        rows = nodes[order] - self.columns * self.rows + self.wiring.low
        W = int(self.W[: 2 * self.columns * self.rows].max(initial=0))
        return Outcome(self.stage, numbers[order], rows, stage[order], through, W)

    def phase_1(self) -> int:
        """Neighbours are selected, and ghosts trace the paths; for both sides at a time. Returns the flags set."""
        # 1. Ports with few messages select any neighbours.
        few = self.W[self.unset] <= self.h
        ports, asking = self.unset[few], self.unset[~few]
        flagged = [ports]
        self._edges[ports] = ports[:, None] * self.d + np.arange(self.R)

        # 2. The others ask for permission.
        requests, sizes, withdrawn = (np.empty(0, np.int64),) * 3
        before = -1
        for _ in range(self.parameters.Z):
            (now,) = self.wiring.total(len(asking))
            if now in (0, before):
                break
            before = now
            requests, sizes, withdrawn, ports, asking = self._ask(asking)
            flagged.append(ports)
        self.unset = asking

        # 3. Those who have selected neighbours assign their buffers to them.
        ports = np.concatenate(flagged)
        self.F[ports] = True
        self.announced[ports] = self.top[ports]
        assigned = (self.top[ports][:, None] + np.arange(self.R)[::-1]) // self.R
        slots, counts = self.wiring.forward(self._edges[ports][assigned > 0], assigned[assigned > 0])
        np.add.at(self.g2, self._output(slots), counts)

        # 4. Requests that stand: as long as they do, ghosts stay for them.
        stand = ~np.isin(requests, withdrawn)
        self._reserve(requests[stand], sizes[stand])

        # 5. In the next column ghosts wait for messages.
        if self.stage < self.columns:
            column = slice((self.stage + 1) * self.rows, (self.stage + 2) * self.rows)
            self._activate(self.stage + 1, np.repeat(self.g1[column] + self.g2[column], 2))
        return len(ports)

    def phase_2(self) -> int:
        """Messages move. Returns how many have."""
        moved = 0
        turns = ((0,), (1,)) if self.parameters.in_turn else ((0, 1),)
        active = min(self.stage + 2, self.columns + 1) * self.rows  # nodes
        for sides in turns:
            ports = np.tile(np.isin((0, 1), sides), active - self.rows)
            outputs = self.rows + np.flatnonzero(np.isin(self._side[self.rows : active], sides))
            # 1. Y times: messages go on, and replace ghosts; ghosts that nobody needs are deleted.
            for _ in range(self.parameters.Y):
                moved += self._move(ports)
                expected = self.g1[outputs] + self.g2[outputs]
                for side in range(2):
                    self.top[2 * outputs + side] = self.got[2 * outputs + side] + expected
        # 2. The next column's ports know what they may have to send.
        if self.stage < self.columns:
            self._weigh(slice(2 * (active - self.rows), 2 * active))
        if self.stage + 1 < self.columns:
            self.unset = np.concatenate((self.unset, np.arange(2 * (active - self.rows), 2 * active)))
        return moved

    # -- steps

    def _ask(self, asking: Ints) -> tuple[Ints, Ints, Ints, Ints, Ints]:
        """Substeps 2.1 to 2.3: slots of requests, their sizes, slots of those withdrawn; ports that succeed or not."""
        # 2.1. Requests to all neighbours, each with the logarithm of the batch's size.
        size = np.frexp(np.maximum(self.W[asking] // self.R, 1))[1].astype(np.int64) - 1
        edges = asking[:, None] * self.d + np.arange(self.d)
        requests, sizes = self.wiring.forward(edges.ravel(), np.repeat(size, self.d))

        # 2.2. Outputs permit each batch that is the only one of its size.
        first = self.wiring.first[requests]
        _, batch, inputs = _counted(self._output(requests) * SIZES + sizes, first)
        (permitted,) = self.wiring.back(requests[inputs[batch] == 1])

        # 2.3. Ports with R permissions select the first R, and withdraw all their requests.
        ports, begin, count = np.unique(permitted // self.d, return_index=True, return_counts=True)
        ports, begin = ports[count >= self.R], begin[count >= self.R]
        self._edges[ports] = permitted[begin[:, None] + np.arange(self.R)]
        (withdrawn,) = self.wiring.forward((ports[:, None] * self.d + np.arange(self.d)).ravel())
        return requests, sizes, withdrawn, ports, np.setdiff1d(asking, ports, assume_unique=True)

    def _reserve(self, requests: Ints, sizes: Ints) -> None:
        """g' of each output: for each size, ghosts for one of the inputs whose requests stand."""
        self.g1[:] = 0
        first = np.flatnonzero(self.wiring.first[requests])
        parallel = np.minimum(np.diff(first, append=len(requests)), self.R)
        keys, batch, _ = _counted(self._output(requests[first]) * SIZES + sizes[first])
        most = np.zeros(len(keys), np.int64)
        np.maximum.at(most, batch, parallel)
        np.add.at(self.g1, keys // SIZES, most << keys % SIZES)

    def _move(self, ports: np.ndarray) -> int:
        """Substep 1.1, and of 1.2 that messages are stored and g'' is updated; `ports`: whether each takes part."""
        n = len(ports)
        news = self.F[:n] & ports & ((self.got[:n] > self.sent[:n]) | (self.announced[:n] > self.top[:n]))
        busy = np.flatnonzero(news)
        # 1.1. Messages, which leave dead buffers, and notices of deleted ghosts.
        until = self._until(busy)
        port, t = ranges_of(busy, self.sent[busy], until)
        place = self._start[port] + t
        lost, of = ranges_of(busy, self.top[busy], self.announced[busy])
        self.sent[busy], self.announced[busy] = until, self.top[busy]
        slots, numbers, ends = self.wiring.carry(
            self._edges[np.concatenate((port, lost)), np.concatenate((t, of)) % self.R],
            np.concatenate((self._buffered[place], np.full(len(lost), GHOST))),
            np.concatenate((self._ends[place], np.zeros(len(lost), np.int64))),
        )
        # 1.2. What has come is no more expected; messages are where ghosts were.
        node = self._output(slots)
        np.subtract.at(self.g2, node, 1)
        real = numbers != GHOST
        self._store(self._ports(node[real], ends[real]), numbers[real], ends[real])
        return len(place)

    def _until(self, ports: Ints) -> Ints:
        """Of each port, before which buffer messages may go on."""
        return self.got[ports]

    # -- buffers

    def _activate(self, column: int, full: Ints) -> None:
        """The ports of a column get full buffers."""
        ports = slice(2 * self.rows * column, 2 * self.rows * (column + 1))
        self._start[ports] = len(self._buffered) + np.cumsum(full) - full
        self.top[ports] = full
        more = np.full(int(full.sum()), GHOST)
        self._buffered, self._ends = np.concatenate((self._buffered, more)), np.concatenate((self._ends, more))

    def _weigh(self, ports: slice) -> None:
        self.W[ports] = greater_power(self.top[ports])

    def _store(self, ports: Ints, numbers: Ints, ends: Ints) -> None:
        """Messages in place of the first ghosts, in order."""
        order = np.argsort(ports, kind="stable")
        ports, count = np.unique(ports[order], return_counts=True)
        port, t = ranges_of(ports, self.got[ports], self.got[ports] + count)
        place = self._start[port] + t
        self._buffered[place], self._ends[place] = numbers[order], ends[order]
        self.got[ports] += count
        there = port >= 2 * self.columns * self.rows
        self._arrived.append((np.full(np.count_nonzero(there), self.stage), numbers[order][there], port[there] // 2))
        self.left -= int(np.count_nonzero(there))

    def _ports(self, nodes: Ints, ends: Ints) -> Ints:
        """Where messages are put at nodes; in the last column all with the upper."""
        shift = self.columns - 1 - nodes // max(self.rows, 1)
        return 2 * nodes + np.where(shift >= 0, ends >> np.maximum(shift, 0) & 1, 0)

    def _output(self, slots: Ints) -> Ints:
        return slots // (2 * self.d) + self.rows


def ranges_of(of: Ints, begin: Ints, end: Ints) -> tuple[Ints, Ints]:
    """All numbers from each begin to each end, and to which of `of` they belong."""
    return np.repeat(of, end - begin), ranges(begin, end - begin)


def _counted(keys: Ints, counts: np.ndarray | None = None) -> tuple[Ints, Ints, Ints]:
    """The different keys, ascending; of each key its place among them; and of those the sum of what counts."""
    different, place = np.unique(keys, return_inverse=True)
    return different, place, np.bincount(place, counts, len(different)).astype(np.int64)
