"""Which points are timed at each level.

Messages and words are swept independently, from nothing sent at all, with sizes on both sides of where MPI libraries
change what they do: some hundred bytes to 1 KiB (what rides with the head), 8 to 64 KiB (eager or not), up to 1 MiB.
What is held out has sizes in between, which nothing is fitted from. The order is shuffled, so that a drift of the
machine cannot look like a trend in h.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from pybsp.errors import argument_error

from . import patterns
from .patterns import WORD
from .samples import EXCHANGE, Point
from .sampling import LEVELS

PARTS = ("rate", "bsp", "unbalanced", "class", "held-out", "queue", "way", "repeat")

ALONE = ("way", "held-out-way", "after", "held-out-after")  # experiments of exchanges alone
AFTER = (4e-5, 1e-4, 3e-4, 1e-3, 5e-3)  # seconds of computing before these
AFTER_LONG = 6e-2  # so long that who computes less sleeps meanwhile (waiting.py): each way once, as it takes long
AFTER_YIELDING = 2e-2  # so that this one has all but fallen asleep: of what waits cost alone
AFTER_OTHER = (2e-4, 2e-3)
AFTER_WAYS = ("put", "get", "pattern-get", "pattern-put", "making", "collective", "gather", "note")
AFTER_LONG_WAYS = ("put", "get", "pattern-put", "making", "gather", "note")


class _LevelSizes(NamedTuple):
    """Words (of the size asked for) and messages of a level; see `all_points`."""

    words: tuple[int, ...]  # of a message
    few: tuple[int, ...]  # where fewer sizes will do
    messages: tuple[int, ...]  # that each pair exchanges, where they are small
    most: int  # words of a message where there are the most messages
    held_out: tuple[int, ...]
    queue: tuple[int, ...]  # items from each
    vectors: tuple[int, ...]  # bytes that axpy and dot work on
    matrices: tuple[int, ...]  # rows of the matrices that matmul works on


_KI = 1 << 10
_LEVELS = {
    "quick": _LevelSizes(
        words=(1, 32, 96, 256, _KI, 4 * _KI, 14 * _KI, 16 * _KI, 32 * _KI, 64 * _KI),
        few=(32, 2 * _KI, 16 * _KI),
        messages=(1, 8),
        most=256,
        held_out=(12, 700, 9000),
        queue=(2000,),
        vectors=(32 * _KI, 64 * _KI * _KI),
        matrices=(64, 512),
    ),
    "default": _LevelSizes(
        words=(1, 16, 96, 256, _KI, 4 * _KI, 14 * _KI, 16 * _KI, 64 * _KI, 128 * _KI),
        few=(1, 32, 256, 2 * _KI, 8 * _KI, 64 * _KI),
        messages=(1, 4, 16),
        most=_KI,
        held_out=(12, 180, 700, 3000, 9000, 40000),
        queue=(1000, 20000),
        vectors=(16 * _KI, 256 * _KI, 2 * _KI * _KI, 64 * _KI * _KI),
        matrices=(32, 128, 512, 1024),
    ),
    "thorough": _LevelSizes(
        words=(*(1 << k for k in range(14)), 14 * _KI, *(1 << k for k in range(14, 18))),
        few=(1, 8, 32, 96, 256, _KI, 2 * _KI, 4 * _KI, 8 * _KI, 16 * _KI, 64 * _KI, 128 * _KI),
        messages=(1, 2, 4, 16, 64),
        most=_KI,
        held_out=(12, 50, 180, 360, 700, 1500, 3000, 6000, 9000, 24000, 40000, 100000),
        queue=(100, 1000, 20000, 100000),
        vectors=(16 * _KI, 64 * _KI, 256 * _KI, _KI * _KI, 4 * _KI * _KI, 16 * _KI * _KI, 128 * _KI * _KI),
        matrices=(32, 64, 128, 256, 512, 1024, 1536),
    ),
}


def all_points(
    p: int,
    level: str,
    only: Sequence[str] = (),
    word: int = 8,
    nodes: Sequence[int] | None = None,
    seed: int = 0,
) -> list[Point]:
    """All points of the BSP side, in shuffled order, with what they send counted.

    Patterns that are the same for this p (on two processors most are) are timed once, under the first's name.

    Args:
        p: processors. Of one, its rates and the empty superstep are what there is to measure.
        level: "quick", "default" or "thorough".
        only: of PARTS; all of them where empty. "repeat" always comes along.
        word: bytes of what programs send: the sizes are multiples of it.
        nodes: the node of each processor; classes are timed where a node has several and there are several nodes.
        seed: of the order. Equal on all processors, as everything else.

    Raises:
        UsageError: a level or part that there is none of, or another argument that cannot be.
    """
    if level not in _LEVELS:
        raise argument_error("all_points", "level", f"one of {', '.join(LEVELS)}", f"{level!r}")
    unknown = [part for part in only if part not in PARTS]
    if unknown:
        raise argument_error("all_points", "only", f"some of {', '.join(PARTS)}", ", ".join(unknown))
    if type(word) is not int or word < 1:
        raise argument_error("all_points", "word", "bytes, a whole number of at least 1", f"{word!r}")
    if nodes is not None and len(nodes) != p:
        raise argument_error("all_points", "nodes", f"the node of each of the {p} processors", len(nodes))
    sizes = _LEVELS[level]
    parts = {*(only or PARTS), "repeat"}
    points: list[Point] = []
    if "rate" in parts:
        points += _rates(sizes)
    if "bsp" in parts:
        points += _bsp(p, sizes, word)
    if p > 1:
        if "unbalanced" in parts:
            points += _unbalanced(p, sizes, word)
        if "held-out" in parts:
            points += _held_out(sizes, word)
        if "queue" in parts:
            points += [Point("queue", "queue", "bsp", size=word, messages=m) for m in sizes.queue]
        if "way" in parts:
            points += _ways(sizes, word)
        if "class" in parts and nodes is not None and len(nodes) > len(set(nodes)) > 1:
            points += _class(sizes, word)
    points += _repeat(p, word)
    different = _different(points, p, nodes)
    shuffled = np.random.default_rng(seed).permutation(len(points)).tolist()
    found = [points[index] for index in shuffled if index in different]
    return [point if point.experiment == "rate" else patterns.counted(point, p, nodes) for point in found]


def order(points: Sequence[Point], seed: int, launch: int, visit: int) -> list[Point]:
    """The order of one round of visits: shuffled anew; a "repeat" point first, and again after every 16 others."""
    rng = np.random.default_rng((seed, launch, visit))
    repeat = [point for point in points if point.experiment == "repeat"]
    others = [point for point in points if point.experiment != "repeat"]
    found: list[Point] = []
    for number, index in enumerate(rng.permutation(len(others)).tolist()):
        if number % 16 == 0:
            found += repeat
        found.append(others[index])
    return found or repeat


def _rates(level: _LevelSizes) -> list[Point]:
    vectors = [
        Point("rate", kernel, size=size, work=2.0 * (size // 16))
        for kernel in ("axpy", "dot")
        for size in level.vectors
    ]
    keys = level.vectors[0] // 16  # in cache: of as many keys as in memory a sort takes too long
    sorts = [Point("rate", "sort", size=16 * keys, work=keys * math.log2(keys))]  # comparisons
    matrices = [Point("rate", "matmul", size=24 * n * n, work=2.0 * n**3) for n in level.matrices]
    return vectors + sorts + matrices


def _swept(experiment: str, pattern: str, words: Iterable[int], m: int, word: int, where: str = "") -> list[Point]:
    return [Point(experiment, pattern, "bsp", where, size=word * w, messages=m) for w in words]


def _bsp(p: int, level: _LevelSizes, word: int) -> list[Point]:
    points = [Point("bsp", "empty", "bsp")]
    if p == 1:
        return points
    # Of two processors, what each may send to is the other: all balanced patterns are exchanges.
    balanced = ("exchange",) if p == 2 else ("exchange", "permutation", "sparse", "shift")
    for pattern in (*balanced, "many-to-one"):
        words = level.words if pattern == "exchange" else level.few
        for m in level.messages:
            # Many messages only of small words, few of large ones: h is no function of m, nor of the size.
            allowed = [w for w in words if m == 1 or w <= level.most * level.messages[-1] // m]
            points += _swept("bsp", pattern, allowed if m == 1 or pattern == "exchange" else allowed[::2], m, word)
    points += _swept("bsp", "exchange", [w for w in level.words if w > level.most], 2, word)
    return points


def _unbalanced(p: int, level: _LevelSizes, word: int) -> list[Point]:
    points: list[Point] = []
    senders = 1
    while senders <= p // 2:
        points += _swept("unbalanced", f"senders-{senders}", level.few, 1, word)
        senders *= 2
    points += _swept("unbalanced", "scatter", level.few, 1, word)
    points += _swept("unbalanced", "few", level.few[1:], 4, word)
    return points


def _held_out(level: _LevelSizes, word: int) -> list[Point]:
    points: list[Point] = []
    for pattern in ("halo", "sample-sort"):
        points += _swept("held-out", pattern, level.held_out, 1, word)
    # Of an even number of words, so that what the two phases send has a whole mean.
    even = [-(-word * w // (2 * WORD)) * 2 * WORD for w in level.held_out]
    points += [Point("held-out", "two-phase", "bsp", size=size, messages=1) for size in even]
    return points + _swept("held-out", "random", level.held_out, 3, word)


def _ways(level: _LevelSizes, word: int) -> list[Point]:
    """Of exchanges alone: those that o_way is fitted from, and some held out."""
    points = [Point("way", "agreement", "bsp", EXCHANGE)]
    points += _swept("way", "making", (20, 500, 20_000), 1, word, EXCHANGE)
    points += _swept("held-out-way", "making", (100, 5000), 1, word, EXCHANGE)
    points += _swept("way", "gather", level.few, 1, word, EXCHANGE)
    for pattern in ("put", "get", "pattern-get", "pattern-put", "record", "note"):
        points += _swept("way", pattern, (4, 200), 1, word, EXCHANGE)
        points += _swept("held-out-way", pattern, (50,), 1, word, EXCHANGE)
    for pattern in ("put", "get"):
        points += _swept("way", pattern, (20_000, 100_000), 1, word, EXCHANGE)
        points += _swept("held-out-way", pattern, (50_000,), 1, word, EXCHANGE)
    points += _swept("way", "collective", level.few, 1, word, EXCHANGE)
    points += _swept("way", "exchange", level.few[-1:], 1, word, EXCHANGE)
    points += _swept("way", "queue-and-own", (4, 40), 1, word, EXCHANGE)
    points += _swept("held-out-way", "queue-and-own", (12, 400), 1, word, EXCHANGE)
    for pattern in ("put+get", "pattern+note"):
        points += _swept("way", pattern, (4, 200), 1, word, EXCHANGE)
    for pattern in ("put+get", "pattern+queue", "riding", "pattern+note"):
        points += _swept("held-out-way", pattern, (30,), 1, word, EXCHANGE)
    points += _after(AFTER, "after", AFTER_WAYS, 100, word) + _mail_after(AFTER, "after", 100, word)
    points += _delayed(_swept("after", "exchange", level.few[-1:], 1, word, EXCHANGE), (*AFTER, AFTER_LONG))
    points += _after((AFTER_LONG,), "after", AFTER_LONG_WAYS, 100, word)
    points += _delayed(_waits("after", word), (AFTER_YIELDING,))
    others = ("put+get", "pattern+queue", "riding", "gather", "record")
    points += _after(AFTER_OTHER, "held-out-after", others, 60, word)
    return points + _mail_after(AFTER_OTHER, "held-out-after", 60, word)


def _after(delays: Sequence[float], experiment: str, ways: Sequence[str], words: int, word: int) -> list[Point]:
    """Exchanges after so many seconds of computing."""
    points = [
        *(Point(experiment, way, "bsp", EXCHANGE, size=word * words, messages=1) for way in ways),
        Point(experiment, "agreement", "bsp", EXCHANGE),
        Point(experiment, "queue-and-own", "bsp", EXCHANGE, size=word * words, messages=1),
        *_waits(experiment, word),
    ]
    return _delayed(points, delays)


def _waits(experiment: str, word: int) -> list[Point]:
    """Exchanges that are little else than a wait."""
    return [
        Point(experiment, "empty", "bsp", EXCHANGE),
        Point(experiment, "exchange", "bsp", EXCHANGE, size=word, messages=1),
    ]


def _mail_after(delays: Sequence[float], experiment: str, words: int, word: int) -> list[Point]:
    """The same of more mail, and of larger."""
    points = [
        Point(experiment, "exchange", "bsp", EXCHANGE, size=8 * words * word, messages=1),
        Point(experiment, "exchange", "bsp", EXCHANGE, size=words * word, messages=8),
    ]
    return _delayed(points, delays)


def _delayed(points: Sequence[Point], delays: Sequence[float]) -> list[Point]:
    return [point._replace(delay=delay) for point in points for delay in delays]


def _class(level: _LevelSizes, word: int) -> list[Point]:
    points = [Point("class", "empty", "bsp", "intra")]  # of a node alone; between nodes it is that of "bsp"
    for where in ("intra", "inter", "inter-all"):
        points += _swept("class", "exchange", level.few, 1, word, where)
        points += _swept(
            "class", "exchange", [w for w in level.few if w <= level.most], level.messages[-1], word, where
        )
    return points


def _repeat(p: int, word: int) -> list[Point]:
    if p == 1:
        return [Point("repeat", "empty", "bsp")]
    return [Point("repeat", "empty", "bsp"), Point("repeat", "exchange", "bsp", size=2048 * word, messages=1)]


def _different(points: Sequence[Point], p: int, nodes: Sequence[int] | None) -> set[int]:
    """Numbers of the points whose relations differ within their experiment; of equal ones that of the first."""
    first: dict[object, int] = {}
    for number, point in enumerate(points):
        key: object = point
        if point.experiment != "rate":
            steps = patterns.relations(point, p, nodes)
            sent = tuple(tuple(part.tobytes() for part in step) for step in steps)
            way = point.pattern if point.where == EXCHANGE or point.pattern == "queue" else ""
            indices = point.size if point.pattern == "making" else 0
            key = (point.experiment, point.where, way, point.delay, indices, sent)
        first.setdefault(key, number)
    return set(first.values())
