"""Random BSP programs and what they must give: played on the ranks of a job, beside a sequential model of BSP.

    mpiexec -n P python -m tests.soak_programs SEED SECONDS

SEED gives all programs of the job, SECONDS is the time after which it prints where everybody is, and ends.

A program is a list of steps. `Model`, which knows nothing of how pybsp works, does them for all processors one after
the other; `Player` does those of one processor on pybsp, and compares all that it sees. Of what arrived it keeps views,
over supersteps, parts and runs, and looks whether they change.
"""

from __future__ import annotations

import array
import faulthandler
import json
import operator
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import pybsp
from pybsp import collectives

from .spmd.programs import filled, index, plain, whole

PAIR = np.dtype([("a", "i4"), ("b", "f4")])
DTYPES: list[np.dtype[Any]] = [np.dtype(code) for code in ("i8", "f4", "u1", "c16")] + [PAIR]
# Bytes: around those from which data goes another way.
SIZES = [0, 1, 8, 100, 121, 1000, 1025, 4096, 16_384, 16_385, 32_760, 33_000, 65_536, 70_000, 150_000, 400_000]
MOST = 1 << 20  # bytes that a processor sends in a superstep, about
KEPT = 1 << 22  # bytes of views that a processor keeps, about

# Routers, with the part of MOST that a superstep has on them: some send packets one by one.
ROUTERS = {
    "direct": 1.0,
    "sparse": 1.0,
    "two-phase": 0.3,
    "hypercube": 0.3,
    "multibutterfly": 0.02,
    "logp-sorted": 0.02,
    "logp-random": 0.02,
    "logp-offline": 0.02,
}

# -- values -----------------------------------------------------------------------------------------------------------

PAYLOADS: dict[str, Callable[[int, int], Any]] = {
    "nothing": lambda size, seed: None,
    "int": lambda size, seed: seed,
    "long int": lambda size, seed: seed << 8 * min(size, 5000),
    "float": lambda size, seed: seed / 3,
    "complex": lambda size, seed: complex(seed, -seed),
    "bool": lambda size, seed: seed % 2 == 0,
    "text": lambda size, seed: f"{seed}é" * (size // 8),
    "bytes": lambda size, seed: filled(np.dtype("u1"), (size,), seed).tobytes(),
    "bytearray": lambda size, seed: bytearray(filled(np.dtype("u1"), (size,), seed).tobytes()),
    "array.array": lambda size, seed: array.array("i", range(seed, seed + size // 4)),
    "memoryview": lambda size, seed: memoryview(filled(np.dtype("i2"), (size // 2,), seed)),
    "numpy number": lambda size, seed: np.float32(seed),
    "no axis": lambda size, seed: np.array(seed),
    "floats": lambda size, seed: filled(np.dtype("f8"), (size // 8,), seed),
    "fortran": lambda size, seed: np.asfortranarray(filled(np.dtype("i4"), (size // 12, 3), seed)),
    "every other": lambda size, seed: filled(np.dtype("i8"), (size // 4,), seed)[::2],
    "pairs": lambda size, seed: filled(PAIR, (size // 8,), seed),
    "big endian": lambda size, seed: filled(np.dtype(">i4"), (size // 4,), seed),
    "texts": lambda size, seed: filled(np.dtype("i4"), (size // 40,), seed).astype("U10"),
    "dates": lambda size, seed: filled(np.dtype("i8"), (size // 8,), seed).astype("M8[s]"),
    "objects": lambda size, seed: np.array([None, "x" * (size % 300), seed], object),
    "nested": lambda size, seed: {"n": seed, "x": [filled(np.dtype("f4"), (size // 4,), seed), (seed, "é")]},
}
TAGS: list[Any] = [None, None, None, 0, 7.5, "tag", b"tag", (1, "two"), "long" * 300]


def arriving(payload: Any) -> Any:
    """What arrives of a payload."""
    return memoryview(payload) if isinstance(payload, (bytearray, array.array)) else payload


def sealed(thing: Any) -> bool:
    """Whether it cannot be written to, where that can be told."""
    if isinstance(thing, np.ndarray):
        return not thing.flags.writeable or thing.dtype.hasobject
    return not isinstance(thing, memoryview) or thing.readonly


# -- programs ---------------------------------------------------------------------------------------------------------


class Superstep(NamedTuple):
    """What processors do, and how each ends it.

    made: (dtype, shapes by processor) of new arrays, (dtype, None) of new queues.
    operations: (who, what, more), in the order of calls.
    freed: the arrays that are freed, by number.
    label: "" or that of all.
    begins: who calls begin and end instead of sync.
    """

    made: list[tuple[np.dtype[Any], list[tuple[int, ...]] | None]]
    operations: list[tuple[Any, ...]]
    freed: list[int]
    label: str
    begins: list[bool]


class Collective(NamedTuple):
    """A call of a primitive: its name, and where its arguments come from."""

    name: str
    root: int
    size: int
    seed: int


class Split(NamedTuple):
    """Parts by color, None for no part; keys, or None; what each part does."""

    colors: list[int | None]
    keys: list[int] | None
    programs: dict[int, list[Any]]


class AskLedger(NamedTuple):
    """All ask for the ledger."""


Step = Superstep | Collective | Split | AskLedger


class Author:
    """Writes programs.

    Args:
        rng: all that is at random.
        most: bytes that a processor sends in a superstep, about.
    """

    def __init__(self, rng: random.Random, most: int) -> None:
        self._rng, self._most = rng, most

    def program(self, p: int, length: int, depth: int = 0) -> list[Step]:
        """So many steps on p processors, in a part of that depth."""
        rng = self._rng
        steps: list[Step] = []
        arrays: dict[int, list[tuple[int, ...]]] = {}  # those that there are: shapes
        dtypes: list[np.dtype[Any]] = []
        queues: list[np.dtype[Any]] = []
        for _ in range(length):
            draw = rng.random()
            if draw < 0.12:
                name = rng.choice(list(COLLECTIVES))
                steps.append(Collective(name, rng.randrange(p), self._size(p), rng.randrange(1000)))
            elif draw < 0.24 and depth < 3:
                steps.append(self._split(p, length, depth))
            elif draw < 0.26:
                steps.append(AskLedger())
            else:
                steps.append(self._superstep(p, arrays, dtypes, queues))
        return steps

    def _split(self, p: int, length: int, depth: int) -> Split:
        rng = self._rng
        colors = [rng.choice([0, 0, 1, 1, 2, None]) for _ in range(p)]
        programs = {
            color: self.program(colors.count(color), rng.randint(0, max(1, length // 2)), depth + 1)
            for color in sorted({color for color in colors if color is not None})
        }
        return Split(colors, [rng.randrange(3) for _ in range(p)] if rng.random() < 0.5 else None, programs)

    def _superstep(
        self,
        p: int,
        arrays: dict[int, list[tuple[int, ...]]],
        dtypes: list[np.dtype[Any]],
        queues: list[np.dtype[Any]],
    ) -> Superstep:
        rng = self._rng
        made: list[tuple[np.dtype[Any], list[tuple[int, ...]] | None]] = []
        usable = list(arrays)
        if rng.random() < 0.15 and len(dtypes) < 12:
            shapes = [rng.choice([(5,), (3,), (0,), (2, 4), (1, 3), (2000,), (3000, 2)]) for _ in range(p)]
            made.append((rng.choice(DTYPES), shapes))
            arrays[len(dtypes)] = shapes
            dtypes.append(made[-1][0])
        if rng.random() < 0.15:
            for _ in range(rng.choice([1, 1, 2, 40])):
                if len(queues) < 60:
                    made.append((rng.choice(DTYPES), None))
                    queues.append(made[-1][0])
        freed = [rng.choice(usable)] if usable and rng.random() < 0.05 else []
        number = 0 if rng.random() < 0.15 else rng.choice([1, 3, 8, 30])
        busy = rng.sample(range(p), rng.randint(1, p))  # the others say nothing
        funnel = rng.randrange(p) if rng.random() < 0.3 else None  # all to one
        operations = []
        for _ in range(number):
            what = rng.choice(SENDING + QUEUEING * bool(queues) + PUTTING * bool(usable))
            who, dest = rng.choice(busy), rng.randrange(p) if funnel is None else funnel
            size, seed = self._size(p) // max(1, number // 3), rng.randrange(1000)
            more: tuple[Any, ...]
            if what == "send":
                more = dest, rng.choice(list(PAYLOADS)), size, rng.choice(TAGS), seed
            elif what == "room":
                more = dest, rng.choice(DTYPES), size, rng.choice(TAGS), seed
            elif what == "numbers":
                more = dest, rng.choice([1, 2, 50]), seed
            elif what == "queue":
                more = rng.randrange(len(queues)), dest, rng.choice(["one", "to one", "to all"]), size, seed
            elif what == "every queue":
                more = dest, min(1000, size), seed
            else:
                at = rng.choice(INDICES), [rng.randrange(41) for _ in range(rng.randint(2, 4))]
                more = who if what == "write" else dest, rng.choice(usable), at, seed
            operations.append((who, what, *more))
        for array_number in freed:
            del arrays[array_number]
        begins = [rng.random() < 0.5 for _ in range(p)] if rng.random() < 0.1 else [False] * p
        label = rng.choice(["", "", "", "label", "other"]) if not any(begins) else ""
        return Superstep(made, operations, freed, label, begins)

    def _size(self, p: int) -> int:
        return min(self._rng.choice(SIZES), self._most // p)


SENDING = ["send"] * 4 + ["room", "numbers"]
QUEUEING = ["queue"] * 3 + ["every queue"]
PUTTING = ["put", "put one", "get", "write", "get", "put"]
INDICES = ["all", "int", "slice", "reversed", "array", "list", "last axis", "tuple"]

# -- collectives ------------------------------------------------------------------------------------------------------


def numbers(size: int, seed: int, pid: int) -> Any:
    """Integers of a processor, some of them equal."""
    return np.random.default_rng((seed, pid)).integers(-50, 50, size // 8)


def uneven(size: int, seed: int, pid: int) -> Any:
    """The same, of another number on each processor."""
    return numbers(size * (1 + (seed + pid) % 3) // 3, seed, pid)


def several(p: int, size: int, seed: int, pid: int) -> list[Any]:
    """A value for each processor; of those that can be pickled."""
    kinds = [kind for kind in PAYLOADS if kind != "memoryview"]
    return [PAYLOADS[kinds[(seed + pid + k) % len(kinds)]](size // p, seed + k) for k in range(p)]


def value(size: int, seed: int, pid: int) -> Any:
    """A value of some kind."""
    return several(1, size, seed, pid)[0]


def words(seed: int, pid: int) -> list[str]:
    """Texts, as many on each processor, whose sum depends on the order."""
    return [f"{pid}.{k} " for k in range(1 + seed % 9)]


def shared_out(parts: list[Any], pid: int) -> Any:
    """The part of a processor where all have equally many, of what these have together."""
    together = [item for part in parts for item in part]
    most = -(-len(together) // len(parts))
    return together[pid * most : (pid + 1) * most]


def blocks(parts: list[Any], pid: int) -> Any:
    """What a processor has of all sorted, where each has as many as before."""
    before = sum(part.size for part in parts[:pid])
    return np.sort(np.concatenate(parts))[before : before + parts[pid].size]


class Way(NamedTuple):
    """How a primitive is called, and what it gives: with c the call, of processor pid of p."""

    call: Callable[[pybsp.BSP, Collective], Any]
    gives: Callable[[Collective, int, int], Any]


def _all(make: Callable[..., Any], c: Collective, p: int) -> list[Any]:
    return [make(c.size, c.seed, pid) for pid in range(p)]


COLLECTIVES: dict[str, Way] = {
    "broadcast": Way(
        lambda bsp, c: collectives.broadcast(bsp, value(c.size, c.seed, bsp.pid), c.root),
        lambda c, p, pid: value(c.size, c.seed, c.root),
    ),
    "broadcast_items": Way(
        lambda bsp, c: collectives.broadcast_items(bsp, numbers(c.size, c.seed, bsp.pid), c.root),
        lambda c, p, pid: numbers(c.size, c.seed, c.root),
    ),
    "reduce": Way(
        lambda bsp, c: collectives.reduce(bsp, "".join(words(c.seed, bsp.pid)), operator.add, c.root),
        lambda c, p, pid: "".join("".join(words(c.seed, k)) for k in range(p)) if pid == c.root else None,
    ),
    "allreduce": Way(
        lambda bsp, c: collectives.allreduce(bsp, numbers(c.size, c.seed, bsp.pid), np.add),
        lambda c, p, pid: np.sum(_all(numbers, c, p), axis=0),
    ),
    "prefix": Way(
        lambda bsp, c: collectives.prefix(bsp, numbers(c.size, c.seed, bsp.pid), np.maximum),
        lambda c, p, pid: np.max(_all(numbers, c, pid + 1), axis=0),
    ),
    "prefix_2d": Way(
        lambda bsp, c: collectives.prefix_2d(bsp, words(c.seed, bsp.pid), operator.add),
        lambda c, p, pid: ["".join(column) for column in zip(*(words(c.seed, k) for k in range(pid + 1)), strict=True)],
    ),
    "scatter": Way(
        lambda bsp, c: collectives.scatter(bsp, several(bsp.p, c.size, c.seed, bsp.pid), c.root),
        lambda c, p, pid: several(p, c.size, c.seed, c.root)[pid],
    ),
    "gather": Way(
        lambda bsp, c: collectives.gather(bsp, value(c.size, c.seed, bsp.pid), c.root),
        lambda c, p, pid: _all(value, c, p) if pid == c.root else None,
    ),
    "allgather": Way(
        lambda bsp, c: collectives.allgather(bsp, value(c.size, c.seed, bsp.pid)),
        lambda c, p, pid: _all(value, c, p),
    ),
    "total_exchange": Way(
        lambda bsp, c: collectives.total_exchange(bsp, several(bsp.p, c.size, c.seed, bsp.pid)),
        lambda c, p, pid: [several(p, c.size, c.seed, k)[pid] for k in range(p)],
    ),
    "bitonic_sort": Way(
        lambda bsp, c: collectives.bitonic_sort(bsp, uneven(c.size, c.seed, bsp.pid)),
        lambda c, p, pid: blocks(_all(uneven, c, p), pid),
    ),
    "sample_sort": Way(  # how many keys each gets is its own affair
        lambda bsp, c: np.concatenate(
            collectives.allgather(bsp, collectives.sample_sort(bsp, uneven(c.size, c.seed, bsp.pid)))
        ),
        lambda c, p, pid: np.sort(np.concatenate(_all(uneven, c, p))),
    ),
    "duplicate": Way(
        lambda bsp, c: collectives.duplicate(bsp, words(c.seed, bsp.pid), [c.seed % 3] * len(words(c.seed, bsp.pid))),
        lambda c, p, pid: shared_out([[w for w in words(c.seed, k) for _ in range(c.seed % 3)] for k in range(p)], pid),
    ),
}

# -- the model --------------------------------------------------------------------------------------------------------


class Seen(NamedTuple):
    """What a processor sees after a superstep: messages (source, tag, payload), of each queue (values, sources), the
    values of its tickets."""

    inbox: list[tuple[int, Any, Any]]
    queues: list[tuple[Any, list[int]]]
    tickets: list[Any]


class Model:
    """All processors of a machine, one after the other.

    Attributes:
        arrays: of each array that was made, the parts of all processors.
    """

    def __init__(self, p: int) -> None:
        self.p = p
        self.arrays: list[list[Any]] = []
        self.queues: list[np.dtype[Any]] = []

    def superstep(self, step: Superstep, pid: int) -> Seen:
        """Do a superstep; what one processor sees then."""
        inbox: list[tuple[int, Any, Any]] = []
        gets: list[tuple[Any, Any]] = []
        puts: list[tuple[Any, Any, Any]] = []
        for dtype, shapes in step.made:
            if shapes is None:
                self.queues.append(dtype)
            else:
                self.arrays.append([np.zeros(shape, dtype) for shape in shapes])
        queued: list[list[tuple[int, Any]]] = [[] for _ in self.queues]
        for source in range(self.p):  # by source, then by call
            for who, what, dest, *more in step.operations:
                if who != source:
                    continue
                if what == "send":
                    kind, size, tag, seed = more
                    if dest == pid:
                        inbox.append((source, tag, arriving(PAYLOADS[kind](size, seed))))
                elif what == "room":
                    dtype, size, tag, seed = more
                    if dest == pid:
                        inbox.append((source, tag, filled(dtype, (size // dtype.itemsize,), seed)))
                elif what == "numbers":
                    count, seed = more
                    if dest == pid:
                        inbox += [(source, None, seed + k) for k in range(count)]
                elif what in ("queue", "every queue"):
                    for number, dests, items in queue_sends(self.queues, self.p, what, (dest, *more)):
                        queued[number] += [(source, items[k : k + 1]) for k in np.flatnonzero(dests == pid)]
                else:
                    number, at, seed = more
                    local = self.arrays[number][dest]
                    at = whole(index(at, local.shape))
                    if what == "get":
                        if source == pid:
                            gets.append((local, at))
                    elif what == "write":
                        local[at] = filled(local.dtype, local[at].shape, seed)
                    else:
                        one = what == "put one"
                        values = filled(local.dtype, (1,) if one else local[at].shape, seed)
                        puts.append((local, at, values[0] if one else values))
        tickets = [np.array(local[at], local.dtype) for local, at in gets]
        for local, at, values in puts:
            local[at] = values
        queues = [
            (np.concatenate([np.empty(0, dtype), *(item for _, item in some)]), [source for source, _ in some])
            for dtype, some in zip(self.queues, queued, strict=True)
        ]
        return Seen(inbox, queues, tickets)


def queue_sends(
    queues: list[np.dtype[Any]], p: int, what: str, more: tuple[Any, ...]
) -> Iterator[tuple[int, Any, Any]]:
    """The sends of an operation: (queue, a destination for each item, items)."""
    if what == "every queue":
        dest, size, seed = more
        for number, dtype in enumerate(queues):
            items = filled(dtype, (size // dtype.itemsize,), seed + number)
            yield number, np.full(items.size, dest), items
        return
    number, dest, how, size, seed = more
    dtype = queues[number]
    items = filled(dtype, (1 if how == "one" else size // dtype.itemsize,), seed)
    dests = (dest + np.arange(items.size) * (how == "to all")) % p
    yield number, dests, items


# -- the player -------------------------------------------------------------------------------------------------------


class Keeper:
    """What a processor keeps a view of, for a while, with what it was.

    Attributes:
        supersteps: how many were compared.
        kept: how many views were kept.
        looks: how often one was looked at.
    """

    def __init__(self, seed: int, pid: int) -> None:
        self._rng = random.Random(f"{seed} {pid}")
        self._views: list[tuple[Any, Any, int, str]] = []  # view, what it was, until when, where it is from
        self._size = 0
        self.supersteps = self.kept = self.looks = 0

    def keep(self, view: Any, where: str) -> None:
        """Keep it, now and then, if it is a view of anything."""
        size = getattr(view, "nbytes", 0)
        if size and self._rng.random() < 0.2 and self._size + size < KEPT:
            self._views.append((view, plain(view), self.supersteps + self._rng.choice([1, 2, 3, 8, 70]), where))
            self._size += size
            self.kept += 1

    def look(self, now: str) -> None:
        """Look at all, and let those go whose time is over."""
        self.supersteps += 1
        self.looks += len(self._views)
        for view, was, _, where in self._views:
            if plain(view) != was:
                raise AssertionError(
                    f"{now}: what was kept of {where} has changed: {str(was)[:200]}, now {view!r:.200}"
                )
        self._views = [entry for entry in self._views if entry[2] > self.supersteps]
        self._size = sum(view.nbytes for view, *_ in self._views)


class Player:
    """Does what one processor does in a program, and compares what it sees.

    Args:
        keeper: of views; None: they are not to be kept (in checked mode they are written over).
        path: which part of which run, in words.
    """

    def __init__(self, bsp: pybsp.BSP, keeper: Keeper | None, path: str) -> None:
        self._bsp, self._keeper, self._path = bsp, keeper, path
        self._model = Model(bsp.p)
        self._arrays: list[Any] = []
        self._queues: list[Any] = []
        self._freed: set[int] = set()

    def play(self, program: list[Step]) -> int:
        """Do all steps; returns how many supersteps were compared, those of parts too."""
        compared = 0
        for number, step in enumerate(program):
            where = f"{self._path}, step {number}"
            if isinstance(step, Superstep):
                self._superstep(step, where)
                compared += 1
            elif isinstance(step, Collective):
                way = COLLECTIVES[step.name]
                found = plain(way.call(self._bsp, step))
                self._compare(f"{where}, {step}", found, plain(way.gives(step, self._bsp.p, self._bsp.pid)))
            elif isinstance(step, Split):
                compared += self._split(step, where)
            else:
                found = len(self._bsp.ledger)
                self._compare(f"{where}, ledger", found, len(self._bsp.ledger))
            if self._keeper is not None:
                self._keeper.look(where)
        return compared

    def _split(self, step: Split, where: str) -> int:
        bsp, pid = self._bsp, self._bsp.pid
        color = step.colors[pid]
        with bsp.split(color, None if step.keys is None else step.keys[pid]) as part:
            if color is None:
                return 0
            members = [k for k in range(bsp.p) if step.colors[k] == color]
            if step.keys is not None:
                members.sort(key=lambda k: (step.keys or [])[k])
            self._compare(f"{where}, split", (part.p, part.pid), (len(members), members.index(pid)))
            return Player(part, self._keeper, f"{where}, part {color}").play(step.programs[color])

    def _superstep(self, step: Superstep, where: str) -> None:
        bsp = self._bsp
        for dtype, shapes in step.made:
            if shapes is None:
                self._queues.append(bsp.queue(dtype))
            else:
                self._arrays.append(bsp.array(shapes[bsp.pid], dtype))
        tickets: list[Any] = []
        rooms: list[tuple[Any, Any]] = []
        for who, what, *more in step.operations:
            if who == bsp.pid:
                self._operate(what, more, tickets, rooms)
        for room, values in rooms:
            room[...] = values
        for number in step.freed:
            self._arrays[number].free()
            self._freed.add(number)
        if step.begins[bsp.pid]:
            bsp.begin()
            bsp.end()
        elif step.label:
            with bsp.superstep(step.label):
                pass
        else:
            bsp.sync()
        expected = self._model.superstep(step, bsp.pid)
        self._see(expected, tickets, where)

    def _operate(self, what: str, more: list[Any], tickets: list[Any], rooms: list[tuple[Any, Any]]) -> None:
        bsp = self._bsp
        if what == "send":
            dest, kind, size, tag, seed = more
            payload = PAYLOADS[kind](size, seed)
            bsp.send(dest, payload, tag)
            spoil(payload)
        elif what == "room":
            dest, dtype, size, tag, seed = more
            values = filled(dtype, (size // dtype.itemsize,), seed)
            rooms.append((bsp.room(dest, values.shape, dtype, tag), values))
        elif what == "numbers":
            dest, count, seed = more
            for k in range(count):
                bsp.send(dest, seed + k)
        elif what in ("queue", "every queue"):
            dtypes = [queue.dtype for queue in self._queues]
            for number, dests, items in queue_sends(dtypes, bsp.p, what, tuple(more)):
                if what == "every queue" or more[2] == "to one":
                    self._queues[number].send(more[0] if what == "every queue" else more[1], items)
                elif more[2] == "one":
                    self._queues[number].send(int(dests[0]), items[0])
                else:
                    self._queues[number].send(dests, items)
                spoil(items)
        else:
            dest, number, at, seed = more
            made = self._arrays[number]
            shape, dtype = made.shapes[dest], made.local.dtype
            if what == "write":
                chosen = whole(index(at, made.local.shape))
                made.local[chosen] = filled(dtype, made.local[chosen].shape, seed)
            elif what == "get":
                tickets.append(made.get(dest, index(at, shape)))
            else:
                one = what == "put one"
                values = filled(dtype, (1,) if one else np.empty(shape, bool)[whole(index(at, shape))].shape, seed)
                made.put(dest, values[0] if one else values, index(at, shape))
                spoil(values)

    def _see(self, expected: Seen, tickets: list[Any], where: str) -> None:
        bsp, pid = self._bsp, self._bsp.pid
        views: list[Any] = []
        self._compare(f"{where}, messages", len(bsp.inbox), len(expected.inbox))
        for k, (message, (source, tag, payload)) in enumerate(zip(bsp.inbox, expected.inbox, strict=True)):
            found = message.source, message.tag, plain(message.payload), sealed(message.payload)
            self._compare(f"{where}, message {k}", found, (source, tag, plain(payload), True))
            views.append(message.payload)
        for k, (queue, (values, sources)) in enumerate(zip(self._queues, expected.queues, strict=True)):
            self._compare(f"{where}, queue {k}", plain(queue.values), plain(values))
            self._compare(f"{where}, sources of queue {k}", queue.sources.tolist(), sources)
            views += [queue.values, queue.sources]
        for k, (ticket, values) in enumerate(zip(tickets, expected.tickets, strict=True)):
            self._compare(f"{where}, ticket {k}", plain(ticket.value), plain(values))
            views.append(ticket.value)
        for k, (made, parts) in enumerate(zip(self._arrays, self._model.arrays, strict=True)):
            self._compare(f"{where}, array {k}", plain(made.local), plain(parts[pid]))
        if self._keeper is not None:
            for view in views:
                self._keeper.keep(view, where)

    def _compare(self, where: str, found: Any, expected: Any) -> None:
        if found != expected:
            raise AssertionError(f"{where}: expected {expected!r:.500}, got {found!r:.500}")


def spoil(payload: Any) -> None:
    """Change what was sent: it was copied."""
    if isinstance(payload, bytearray):
        payload[:] = bytes(len(payload))
    elif isinstance(payload, np.ndarray) and payload.dtype.kind != "O":
        payload[...] = np.zeros((), payload.dtype)


# -- a job ------------------------------------------------------------------------------------------------------------


class Run(NamedTuple):
    """A run of a job: on which router, whether it is checked, whether inside `attach`, and what is done."""

    router: str
    checked: bool
    attached: bool
    program: list[Step]


def runs_of(seed: int, p: int) -> list[Run]:
    """The runs of a job with that seed on p processors."""
    rng = random.Random(seed)
    found = []
    for _ in range(rng.randint(1, 8)):
        router = rng.choice(["direct"] * 8 + list(ROUTERS))
        author = Author(rng, int(MOST * ROUTERS[router]))
        length = rng.choice([5, 15, 30]) if ROUTERS[router] > 0.1 else 4
        found.append(Run(router, rng.random() < 0.15, rng.random() < 0.2, author.program(p, length)))
    return found


def played(bsp: pybsp.BSP, run: Run, keeper: Keeper | None, number: int) -> int:
    """Do a run on this processor; returns how many supersteps were compared."""
    where = f"processor {bsp.pid}, run {number} on {run.router}{', checked' * run.checked}"
    return Player(bsp, None if run.checked else keeper, where).play(run.program)


def main(seed: int, seconds: float) -> None:
    """A job, on these ranks."""
    faulthandler.dump_traceback_later(seconds, exit=True)
    rank, p = pybsp.run(lambda bsp: (bsp.pid, bsp.p))
    keeper, compared = Keeper(seed, rank), 0
    for number, run in enumerate(runs_of(seed, p)):
        if run.attached:
            from mpi4py import MPI

            with pybsp.attach(MPI.COMM_WORLD, router=run.router, checked=run.checked) as bsp:
                compared += played(bsp, run, keeper, number)
        else:
            compared += pybsp.run(played, run, keeper, number, router=run.router, checked=run.checked)
    totals = pybsp.run(lambda bsp: collectives.allreduce(bsp, np.array([keeper.kept, keeper.looks]), np.add))
    if rank == 0:
        print(json.dumps({"supersteps": compared, "kept": int(totals[0]), "looks": int(totals[1])}))
    faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
