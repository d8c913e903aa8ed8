"""Times supersteps and kernels, on any BSP machine: MPI ranks, or virtual processors by their virtual time.

A superstep is timed as a program has it: every message is filled, sent by `bsp.send` (or through a queue), and what
arrived is read, each message at a place of its own in memory. A visit to a point runs its supersteps back to back,
with the garbage collector off: some to come into step, then sample after sample, each of K supersteps. Only then are
the times put together, so that nothing stands between the samples. A sample is the largest of the processors'
durations: no common clock is needed, since a sample ends where the next one begins, and processors that are ahead of
others at both ends gain nothing. (Of two processors the one that comes late is the first in the next superstep, and
so on for ever: there K is even.)

Where some processors only send (`Point.uneven`), an empty superstep follows each, and is taken off again: the lower
decile of empty ones over the last visits, in each of which as many are timed. (On a quiet machine that is some percent
of l below the median; on a busy one a median would now and then leave less than nothing.) Without it those that send
run ahead of those that receive, as no superstep waits for word that its data has arrived, and the latency of one hides
behind the words of the next: on an emulated cluster of 2 ms and 200 Mbit/s, 128 KiB from one processor to another seem
to take 5.5 ms, against 8.0 where all send and receive as much. A program's next superstep goes elsewhere, and waits.
"""

from __future__ import annotations

import itertools
import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

import pybsp
from pybsp import collectives
from pybsp.errors import UsageError
from pybsp.ground.chunk import COLUMNS
from pybsp.ledger.combining import clocks_ahead
from pybsp.ledger.log import MEASURED, SECONDS, spans

from . import patterns
from .patterns import WORD
from .samples import EXCHANGE, Point, Sample
from .sampling import SamplingLevel, Timer, timer, undisturbed

Operation = Callable[[pybsp.BSP], object]  # one superstep on a machine, or one run of a kernel

MAILED = ("empty", "exchange", "sparse", "random")  # patterns of exchanges alone that go by mail
KERNEL_SECONDS = 2e-3  # a sample of a kernel lasts so long: processors that begin apart must still compute at once
STEADY = 2e-3  # seconds that a visit's supersteps run before they are timed: the first some dozen are a quarter slower
QUEUED = 1e-7  # seconds that an item of a queue may take, roughly: no statement is run for each
LAST = 25  # visits: what they have in common is steady, and still follows a machine that changes
SETTLED = 0.02  # drift over the last five batches, relative, at which a machine counts as warm
EXCHANGED = ("bsp", "held-out", "queue")  # experiments of which the exchange alone is noted too
COMPARED = 16  # visits to exchanges after which clocks are compared again, where there are several
ROUNDS = 4  # of supersteps in a sample whose exchanges are noted: an even number, as of all samples of two processors
LONG = 1e-3  # seconds of computing before each, from which on one will do
MEMORY = 1 << 26  # bytes that computing goes through, PIECE by piece: more than caches hold
PIECE = 1 << 16
# What a program computes with: its code goes through the caches as its data does.
COMPUTING: tuple[Callable[[NDArray[np.float64]], object], ...] = (
    lambda piece: np.sqrt(piece, out=piece),
    lambda piece: piece[piece > 0.5].sum(),
    lambda piece: np.concatenate((piece[::2], piece[1::2])),
    lambda piece: np.bincount(piece.astype(np.int64)),
    lambda piece: piece.reshape(128, -1) @ piece[:64],
    lambda piece: np.where(piece < 2, piece, -piece).max(),
    lambda piece: [value * 2 for value in piece[:100].tolist()],
    lambda piece: np.unique(piece[:256]),
    lambda piece: piece[np.argsort(piece[:256])],
    lambda piece: f"{piece[0]:.3f} {piece.mean():.3g}",
    lambda piece: sorted({str(n): n for n in range(20)}),
    lambda piece: np.add(piece, 0.0, out=piece),
)
_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


class Bench:
    """Times points on one BSP machine, in one launch. Every method is collective; all arguments equal everywhere.

    Args:
        bsp: the machine.
        settings: what the level affords.
        launch: the number of this launch.
        nodes: the node of each processor; needed for points within and between nodes.

    Attributes:
        exchanged: what the last visit's supersteps took less computing: sending and reading are that, for a ledger; of
            exchanges that are timed alone what the first took.
        timer: of `bsp.time`; the worst processor's, so equal on all.
    """

    def __init__(
        self, bsp: pybsp.BSP, settings: SamplingLevel, launch: int = 0, nodes: Sequence[int] | None = None
    ) -> None:
        self.bsp, self.settings, self.launch = bsp, settings, launch
        self._nodes = None if nodes is None else tuple(nodes)
        self._seconds: dict[Point, float] = {}  # that one operation took when last seen
        self._queues: dict[int, pybsp.Queue] = {}
        # Of so many words, with a pattern of those that these processors send to.
        self._arrays: dict[tuple[int, tuple[int, ...]], tuple[pybsp.Array, Any, pybsp.Queue]] = {}
        self._memory: NDArray[np.float64] | None = None
        self._idle: deque[NDArray[np.float64]] = deque(maxlen=LAST)  # of empty supersteps, as the last visits had them
        self._line = (0.0, 0.0, 0.0)  # l, o_msg, g: roughly, by `pilot`
        # Of the supersteps that were timed last, with those before them.
        self._noted: NDArray[np.float64] = np.empty((0, 3))
        # Visits to exchanges; by how much each processor's clock is ahead of processor 0's, None where they have one.
        self._visits = 0
        self._ahead: list[float] | None = None
        self.exchanged: list[Sample] = []
        self.timer = Timer(*self._together(list(timer(bsp.time))).max(axis=0).tolist())

    # -- what a level affords -------------------------------------------------------------------------------------

    def warm(self) -> bool:
        """Send between all pairs until the last five batches drift by less than 2 %, or the level's time is over.

        Returns:
            whether they did: False where the machine is not steady.
        """
        if self.bsp.p == 1:
            return True
        operations = self._supersteps(Point("", "exchange", "bsp", size=1 << 14, messages=1))
        medians: list[float] = []
        spent = 0.0
        while spent < self.settings.warm:
            stamps = self._stamps(operations, 5, 2, 0)
            durations = np.diff(self._together(stamps)).max(axis=0)
            spent += float(durations.sum())
            medians.append(float(np.median(durations)))
            if len(medians) >= 5 and drift(medians[-5:]) <= SETTLED:
                return True
        return False

    def pilot(self) -> None:
        """Learn roughly what a superstep costs, with messages of growing size, up to what the level affords."""
        p = self.bsp.p
        empty = self._once(Point("", "empty", "bsp"))
        self._line = (empty, 0.0, 0.0)
        if p == 1:
            return
        single, many = (patterns.counted(Point("", "exchange", "bsp", size=WORD, messages=m), p) for m in (1, 17))
        o_msg = max(0.0, self._once(many) - self._once(single)) / (many.busiest - single.busiest)
        g = 0.0
        for words in (1 << k for k in range(8, 18, 3)):
            point = patterns.counted(Point("", "exchange", "bsp", size=WORD * words, messages=1), p)
            seconds = self._once(point)
            g = max(0.0, seconds - empty) / point.h
            if seconds > self.settings.slowest / 8:
                break
        self._line = (empty, o_msg, g)

    def affordable(self, points: Sequence[Point]) -> tuple[list[Point], list[Point]]:
        """Those of the points that the level can afford, by what `pilot` saw before, and those that it cannot.

        Kernels are all affordable: no level has one that takes long on any machine of today.
        """
        l, o_msg, g = self._line  # noqa: E741 - the model's own name
        fast: list[Point] = []
        slow: list[Point] = []
        for point in points:
            seconds = l + o_msg * point.busiest + g * point.h + QUEUED * point.items
            fits = point.experiment == "rate" or seconds <= self.settings.slowest
            (fast if fits else slow).append(point)
        return fast, slow

    # -- measuring ------------------------------------------------------------------------------------------------

    def measure(self, point: Point, batch: int) -> list[Sample]:
        """One visit to a point: its samples, right after one another. The same list on all processors.

        Args:
            point: a superstep or a kernel.
            batch: the number of the visit in this launch.

        Raises:
            UsageError: a point that is none of these.
        """
        if point.where == EXCHANGE:
            self.exchanged = []
            begin = float(self._together([self.bsp.time()])[0, 0])  # by the clock of processor 0, as below
            return self._exchanges(point, self._supersteps(point), batch, self.settings.batch, begin)
        kernel = point.experiment == "rate"
        operations = [self._kernel(point)] if kernel else self._supersteps(point)
        if point not in self._seconds:
            stamps = self._stamps(operations, 2, 1, 1, point.where)
            self._seconds[point] = float(np.diff(self._together(stamps)).max(axis=0).min()) / len(operations)
        seconds = self._seconds[point]
        repeats = self.timer.repeats(seconds)
        if kernel:
            if self.timer.runs and seconds > 0:
                repeats = max(repeats, math.ceil(KERNEL_SECONDS / seconds))
        else:
            repeats = self._whole(repeats, len(operations), point.where)
        count = self.settings.batch
        if seconds > 0:
            count = max(1, min(count, int(self.settings.visit / (repeats * seconds))))
        before = self._whole(math.ceil(STEADY / seconds) if seconds > 0 else 1, len(operations), point.where)
        rounds, before = repeats // len(operations), before // len(operations)
        idle = [self._mailed(patterns.EMPTY)] if point.uneven else []
        stamps = self._stamps(operations + idle, count, rounds, before, point.where)
        if idle:
            stamps += self._stamps(idle, count, rounds, before)
        together = self._together(stamps)
        durations = np.diff(together[:, : count + 1]) / repeats
        worst = durations.max(axis=0)
        self._seconds[point] = float(np.median(worst))  # with the idle ones: by it time is shared out
        if idle:
            self._idle.append(np.diff(together[:, count + 1 :]).max(axis=0) / repeats)
            worst -= np.quantile(np.concatenate(self._idle), 0.1)
        begin = together[0].tolist()
        self.exchanged = []
        if point.experiment in EXCHANGED:
            self.exchanged = self._exchanges(point, operations, batch, count, begin[0])
        if kernel:
            return [
                Sample(point, self.launch, batch, repeats, float(durations[pid, n]), begin[n], pid)
                for n in range(count)
                for pid in range(self.bsp.p)
            ]
        return [Sample(point, self.launch, batch, repeats, float(worst[n]), begin[n]) for n in range(count)]

    def _exchanges(
        self, point: Point, operations: Sequence[Operation], batch: int, count: int, at: float
    ) -> list[Sample]:
        """The exchanges of a point's supersteps: each as measured, less computing, as the ledger has it.

        Before each superstep the processors compute for the point's `delay`, as a program does, which puts other data
        into their caches. Each sample is the mean of some runs of the operations. What the first took, after other
        points have been visited, is another one.
        """
        rounds, before = ROUNDS if point.delay < LONG else 1, 1
        if point.delay >= patterns.SLEEPING:
            count, before = max(1, min(count, int(self.settings.visit / point.delay))), 0
        after = [self._after(point.delay, one) for one in operations] if point.delay else list(operations)
        self._stamps(after, count, rounds, before)
        noted = self._together(self._noted.ravel().tolist()).reshape(self.bsp.p, -1, 3)
        if self._visits % COMPARED == 0:
            self._ahead = clocks_ahead(self.bsp._superstep)
        self._visits += 1
        begins, computing, whole = np.moveaxis(noted, 2, 0)
        computed, measured, _ = spans(begins, computing, whole, self._ahead)
        # An operation may be several supersteps. What comes before the samples is one round of all.
        of_rounds = (measured - computed).reshape(before + count * rounds, -1)
        alone, repeats = point._replace(where=EXCHANGE), rounds * len(operations)
        samples = of_rounds[before:].reshape(count, -1).mean(axis=1).tolist()
        if point.experiment == "way" and before:
            first, took = point._replace(experiment="first"), float(of_rounds[0].mean())
            self.exchanged = [Sample(first, self.launch, batch, len(operations), took, at)]
        return [Sample(alone, self.launch, batch, repeats, seconds, at) for seconds in samples]

    def _after(self, seconds: float, operation: Operation) -> Operation:
        """The operation, after so many seconds of computing; of less of them where others take longer, in turns."""
        if self._memory is None:
            self._memory = np.ones((MEMORY // PIECE, PIECE // 8))
        pieces, steps, clock = itertools.cycle(self._memory), itertools.cycle(COMPUTING), time.perf_counter
        lasting = itertools.cycle([seconds, seconds - patterns.spared(seconds)][:: 1 if self.bsp.pid % 2 else -1])

        def superstep(machine: pybsp.BSP) -> None:
            end = clock() + next(lasting)
            while clock() < end:
                next(steps)(next(pieces))
            operation(machine)

        return superstep

    def _whole(self, repeats: int, steps: int, where: str) -> int:
        """Supersteps of a sample: whole rounds of an algorithm, and an even number of them on two processors."""
        unit = math.lcm(steps, 2) if self.bsp.p == 2 or where == "intra" else steps
        return unit * math.ceil(repeats / unit)

    def _once(self, point: Point) -> float:
        """Seconds of a superstep, roughly: the shorter of two, after one that is not timed."""
        stamps = self._stamps(self._supersteps(point), 2, 2, 1)
        return float(np.diff(self._together(stamps)).max(axis=0).min()) / 2

    def _stamps(
        self, operations: Sequence[Operation], count: int, rounds: int, before: int, where: str = ""
    ) -> list[float]:
        """This processor's times around each of `count` samples of so many rounds of operations, after some rounds."""
        sample = [*operations] * rounds
        with undisturbed(), self._machine(where) as machine:
            if machine is None:
                return [self.bsp.time()] * (count + 1)
            clock = machine.time  # a virtual part has a clock of its own
            machine.sync()
            log = machine._superstep.account.log
            first = len(log)
            for operation in [*operations] * before:
                operation(machine)
            stamps = [clock()]
            for _ in range(count):
                for operation in sample:
                    operation(machine)
                stamps.append(clock())
            virtual = machine._superstep.transport.one_clock is None
            self._noted = log.timed(first, virtual)[:, [COLUMNS, SECONDS, MEASURED]]
        return stamps

    @contextmanager
    def _machine(self, where: str) -> Iterator[pybsp.BSP | None]:
        """Whose supersteps are timed: within nodes those of a node alone, the first that has several processors.

        None on the processors of others, which are quiet meanwhile: none waits for the network, and where what seems to
        be a node shares cores with others (containers, emulated hosts) none takes another's.
        """
        if where != "intra" or self._nodes is None:
            yield self.bsp
            return
        nodes = self._nodes
        chosen = next((node for node in nodes if nodes.count(node) > 1), nodes[0])
        mine = nodes[self.bsp.pid]
        with self.bsp.split(mine) as part:
            yield part if mine == chosen else None

    def _together(self, values: Sequence[float]) -> NDArray[np.float64]:
        """What each processor has, on all of them: shape (p, values)."""
        mine = np.array(values, np.float64)
        for dest in range(self.bsp.p):
            self.bsp.send(dest, mine)
        self.bsp.sync()
        return np.array([message.payload for message in self.bsp.inbox])

    # -- supersteps -----------------------------------------------------------------------------------------------

    def _supersteps(self, point: Point) -> list[Operation]:
        """The point's supersteps on this processor, ready to run."""
        steps = patterns.relations(point, self.bsp.p, self._nodes)
        if point.pattern == "queue":
            return [self._queued(step, point.size) for step in steps]
        if point.where == EXCHANGE and point.pattern not in MAILED:
            return [self._going(point.pattern, point.size // WORD, steps[0])]
        return [self._mailed(step, self._numbers(point.where)) for step in steps]

    def _numbers(self, where: str) -> Sequence[int]:
        """Each processor's number on the machine whose supersteps are timed."""
        if where != "intra" or self._nodes is None:
            return range(self.bsp.p)
        return [self._nodes[:pid].count(node) for pid, node in enumerate(self._nodes)]

    def _mailed(self, relation: patterns.PatternRelation, numbers: Sequence[int] | None = None) -> Operation:
        bsp = self.bsp
        sends = relation.sends(bsp.pid)
        out = np.zeros(sum(count * each for _, count, each in sends), np.uint8)
        mine: list[tuple[int, NDArray[np.uint8]]] = []
        used = 0
        for dest, count, each in sends:
            for _ in range(count):
                mine.append((dest if numbers is None else numbers[dest], out[used : used + each]))
                used += each
        to_me = relation.dests == bsp.pid
        into = np.zeros(int((relation.counts * relation.sizes)[to_me].sum()), np.uint8)

        def superstep(machine: pybsp.BSP) -> None:
            send = machine.send
            for dest, data in mine:
                data.fill(1)
                send(dest, data)
            machine.sync()
            used = 0
            for message in machine.inbox:
                data = message.payload
                into[used : used + data.size] = data
                used += data.size

        return superstep

    def _queued(self, relation: patterns.PatternRelation, size: int) -> Operation:
        bsp = self.bsp
        dtype: Any = _UNSIGNED.get(size, f"V{size}")
        if size not in self._queues:
            self._queues[size] = bsp.queue(dtype)
        queue = self._queues[size]
        sends = relation.sends(bsp.pid)
        # In mixed order, as they come in a program.
        dests = np.repeat([dest for dest, _, _ in sends], [count for _, count, _ in sends]).astype(np.int64)
        np.random.default_rng(bsp.pid).shuffle(dests)
        items = np.zeros(dests.size, dtype)
        into = np.zeros(int(relation.counts[relation.dests == bsp.pid].sum()), dtype)

        def superstep(machine: pybsp.BSP) -> None:
            items.view(np.uint8).fill(1)
            queue.send(dests, items)
            machine.sync()
            into[:] = queue.values

        return superstep

    def _going(self, way: str, words: int, relation: patterns.PatternRelation) -> Operation:
        """A superstep whose data goes in a way, or in two; of agreement two supersteps."""
        bsp = self.bsp
        values, degree = np.ones(words), max(2, bsp.p)  # with which an allreduce is over with one superstep
        alone: dict[str, Operation] = {
            "record": lambda machine: collectives.allreduce(machine, values, np.add, degree=degree),
            "agreement": _agree,
        }
        if way in alone:
            return alone[way]
        # The one of its permutation, to whom it sends most; the next one, to whom the indices of a pattern that is made
        # go. Of all processors, which make what they keep together.
        everybody = tuple(
            max(relation.sends(pid), key=itemgetter(1), default=((pid + 1) % bsp.p,))[0] for pid in range(bsp.p)
        )
        dest, key = everybody[bsp.pid], (words, everybody)
        # A program's patterns and queues have something for itself too.
        dests, items, twice = np.repeat([dest, bsp.pid], words), np.tile(np.arange(words), 2), np.ones(2 * words)
        if key not in self._arrays:
            array = bsp.array(words)
            bsp.sync()
            self._arrays[key] = array, array.pattern(dests, items), bsp.queue()
            bsp.sync()
        array, pattern, queue = self._arrays[key]
        patterns: list[Any] = []

        def make(machine: pybsp.BSP) -> None:
            if patterns:
                patterns.pop().free()
            patterns.append(array.pattern(dests, items))

        def start(collective: Any, given: Callable[[], Any]) -> Operation:
            # Started, it goes by messages, as the first call of one does; of those prepared small ones are records.
            return lambda machine: collective.start(machine, given())

        def note(machine: pybsp.BSP) -> None:
            collectives.allreduce.start(machine, values, np.add, degree=degree)

        def ride(machine: pybsp.BSP) -> None:
            machine.send(dest, values)
            note(machine)

        sends: dict[str, Operation] = {
            "put": lambda machine: array.put(dest, values, at=slice(0, words)),
            "get": lambda machine: array.get(dest, at=slice(0, words)),
            **dict.fromkeys(("pattern", "pattern-get"), lambda machine: pattern.get()),
            "pattern-put": lambda machine: pattern.put(twice, np.add),
            **dict.fromkeys(("queue", "queue-and-own"), lambda machine: queue.send(dests, twice)),
            "making": make,
            "note": note,
            "riding": ride,
            "gather": start(collectives.gather, lambda: values),
            "collective": start(collectives.total_exchange, lambda: [values] * bsp.p),
        }
        calls = [sends[name] for name in way.split("+")]

        def superstep(machine: pybsp.BSP) -> None:
            for own in (values, twice, array.local):
                own.fill(1)  # as a program does, so that it is in this processor's cache alone
            for call in calls:
                call(machine)
            machine.sync()

        return superstep

    # -- kernels --------------------------------------------------------------------------------------------------

    def _kernel(self, point: Point) -> Operation:
        """A kernel over its working set; it charges its work, by which virtual time goes."""
        work = point.work
        if point.pattern not in KERNELS:
            raise UsageError(f"rate: argument point: expected a kernel of {', '.join(KERNELS)}, got {point.pattern!r}")
        if not self.timer.runs:
            return lambda machine: machine.work(work)
        compute = KERNELS[point.pattern](point.size)

        def run(machine: pybsp.BSP) -> None:
            compute()
            machine.work(work)

        return run


def _agree(machine: pybsp.BSP) -> None:
    """All make an array, and free it."""
    array = machine.array(1)
    machine.sync()
    array.free()
    machine.sync()


def _axpy(size: int) -> Callable[[], object]:
    n = size // 16
    x, y = np.full(n, 1e-9), np.ones(n)
    # In pieces, so that the product never leaves the cache: numpy has no axpy, and two passes would count memory twice.
    piece = min(n, 4096)
    product = np.empty(piece)
    pieces = [(x[at : at + piece], y[at : at + piece], product[: min(piece, n - at)]) for at in range(0, n, piece)]

    def axpy() -> None:
        for some, sums, products in pieces:
            np.multiply(some, 1.5, out=products)
            np.add(sums, products, out=sums)

    return axpy


def _dot(size: int) -> Callable[[], object]:
    n = size // 16
    return partial(np.dot, np.full(n, 1e-9), np.ones(n))


def _matmul(size: int) -> Callable[[], object]:
    n = math.isqrt(size // 24)
    return partial(np.matmul, np.full((n, n), 1e-9), np.ones((n, n)), out=np.zeros((n, n)))


def _sort(size: int) -> Callable[[], object]:
    keys = np.random.default_rng(0).random(size // 16)
    own = np.empty_like(keys)

    def sort() -> None:
        own[:] = keys
        own.sort()

    return sort


KERNELS: dict[str, Callable[[int], Callable[[], object]]] = {
    "axpy": _axpy,
    "dot": _dot,
    "matmul": _matmul,
    "sort": _sort,
}


def drift(values: Sequence[float]) -> float:
    """How far a straight line through successive values goes from the first to the last, relative to their median."""
    n = np.arange(len(values)) - (len(values) - 1) / 2
    middle = float(np.median(values))
    if not middle > 0:
        return 0.0
    slope = float(n @ np.asarray(values) / (n @ n))
    return abs(slope) * (len(values) - 1) / middle
