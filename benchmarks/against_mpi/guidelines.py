"""Self-consistent guidelines: a collective takes no longer than what does the same by other means.

Each collective against the same by `send` and `sync`, and by other collectives, as the guidelines for MPI of Träff,
Gropp and Thakur have it (*Self-consistent MPI performance guidelines*, 2010), and ReproMPI's pgchecker tries it. All
ways of a collective begin with the same values and end with the same ones, to be kept: what arrives by hand lasts until
the next sync, so it is copied. A way is a function of what is given on this processor; the root is processor 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from pybsp import BSP
from pybsp.collectives import (
    allgather,
    allgather_blocks,
    allreduce,
    bitonic_sort,
    broadcast,
    exclusive_prefix,
    gather,
    gather_blocks,
    prefix,
    reduce,
    reduce_scatter,
    scatter,
    scatter_blocks,
    sort,
    total_exchange,
    total_exchange_blocks,
)

from .variants import OURS, WORD, Array, ComparisonJob, Prepared, Variant, Work, against, each, values

NUMBER = 0  # the size that stands for a float
SIZES = {
    "quick": (NUMBER, 1, 1 << 9),
    "all": (NUMBER, 1, 1 << 4, 1 << 9, 1 << 13, 1 << 17, 1 << 20),
    "hosts": (NUMBER, 1, 1 << 4, 1 << 9, 1 << 13),
}
COPIES = 12  # of what is given, that the ways of a collective hold at most

BY_HAND = "send and sync"
LOCAL = "allgather, local"

Way = Callable[[Any], Any]
Ways = dict[str, Way]


class Guided(NamedTuple):
    """A collective and what it may not be slower than.

    given: what a processor has, of pid, p, words, and the number of the repetition.
    ways: the collective (`OURS`) and the others, for values of so many words on this processor.
    for_each: whether a processor has such a value for each of all.
    numbers: whether it takes numbers.
    """

    given: Callable[[int, int, int, int], Any]
    ways: Callable[[BSP, int], Ways]
    for_each: bool = False
    numbers: bool = True


def works(sizes: str) -> Iterator[Work]:
    """All collectives at the sizes "quick" (few), "all", or "hosts"."""
    for name, guided in GUIDED.items():
        for words in SIZES[sizes]:
            if words == NUMBER and not guided.numbers:
                continue
            what = "a number" if words == NUMBER else f"{words:,} word{'s' * (words > 1)}"
            each_of = " for each" if guided.for_each else ""

            def space(p: int, words: int = words, guided: Guided = guided) -> int:
                return COPIES * WORD * words * p * (p if guided.for_each else 1)

            def make(job: ComparisonJob, words: int, guided: Guided = guided) -> Prepared:
                return prepared(job, guided, words)

            yield Work(name, words, f"{name} of {what}{each_of}", make, space)


def prepared(job: ComparisonJob, guided: Guided, words: int) -> Prepared:
    """All ways, with other values in every second repetition."""
    given = [guided.given(job.pid, job.p, words, turn) for turn in (0, 1)]
    found: list[Any] = [None]

    def repeated(way: Way) -> Callable[[int], None]:
        def run(number: int) -> None:
            found[0] = way(given[number % 2])

        return run

    got = lambda: flat(found[0])  # noqa: E731
    variants = {name: Variant(each(repeated(way)), got) for name, way in guided.ways(job.bsp, words).items()}
    return Prepared(variants, against(*[name for name in variants if name != OURS]))


def flat(found: Any) -> list[Array]:
    """A result as one array, whatever it is made of; nothing of None."""
    if found is None:
        return []
    parts = found if isinstance(found, list) else [found]
    return [np.concatenate([np.ravel(part) for part in parts])]


# -- what is given -----------------------------------------------------------------------------------------------------


def _value(pid: int, p: int, words: int, turn: int) -> Any:
    return 7.0 * pid + turn if words == NUMBER else values(words, pid) + turn


def _of_root(pid: int, p: int, words: int, turn: int) -> Any:
    return _value(pid, p, words, turn) if pid == 0 else None


def _for_each(pid: int, p: int, words: int, turn: int) -> Any:
    """A list of p numbers, or p rows."""
    if words == NUMBER:
        return (values(p, pid) + turn).tolist()
    return (values(p * words, pid) + turn).reshape(p, words)


def _for_each_of_root(pid: int, p: int, words: int, turn: int) -> Any:
    return _for_each(pid, p, words, turn) if pid == 0 else None


def _keys(pid: int, p: int, words: int, turn: int) -> Any:
    keys = np.random.default_rng((words, pid, turn)).integers(0, 1 << 40, max(words, 1)).astype(np.float64)
    return keys.item() if words == NUMBER else keys


# -- by hand -----------------------------------------------------------------------------------------------------------


def _own(payload: Any) -> Any:
    return payload.copy() if isinstance(payload, np.ndarray) else payload


def _to_each(bsp: BSP, parts: Any, keep: bool = False) -> list[Any]:
    """Send part i to processor i; the parts for this one, which are its own if it keeps them."""
    for dest in range(bsp.p):
        if dest != bsp.pid:
            bsp.send(dest, parts[dest])
    bsp.sync()
    found = [_own(message.payload) if keep else message.payload for message in bsp.inbox]
    found.insert(bsp.pid, parts[bsp.pid])
    return found


def _to_all(bsp: BSP, value: Any, keep: bool = False) -> list[Any]:
    """The values of all processors."""
    return _to_each(bsp, [value] * bsp.p, keep)


def _to_root(bsp: BSP, value: Any, keep: bool = False) -> list[Any] | None:
    """The values of all processors, on the root."""
    if bsp.pid:
        bsp.send(0, value)
    bsp.sync()
    if bsp.pid:
        return None
    return [value, *(_own(message.payload) if keep else message.payload for message in bsp.inbox)]


def _from_root(bsp: BSP, parts: Any) -> Any:
    """Part pid of the root's."""
    if bsp.pid == 0:
        for dest in range(1, bsp.p):
            bsp.send(dest, parts[dest])
    bsp.sync()
    return _own(bsp.inbox[0].payload) if bsp.pid else parts[0]


def _from_below(bsp: BSP, value: Any) -> list[Any]:
    """The values of the processors before this one."""
    for dest in range(bsp.pid + 1, bsp.p):
        bsp.send(dest, value)
    bsp.sync()
    return [message.payload for message in bsp.inbox]


def _sum(parts: list[Any]) -> Any:
    """Of one part a copy."""
    if len(parts) == 1:
        return _own(parts[0])
    total = parts[0] + parts[1]
    for part in parts[2:]:
        total += part
    return total


def _blocks(array: Array, p: int) -> list[Array]:
    """As collectives cut it: block i begins at item i*n div p."""
    cuts = [i * len(array) // p for i in range(p + 1)]
    return [array[first:last] for first, last in pairwise(cuts)]


def _on_root(bsp: BSP, value: Any) -> Any:
    return None if bsp.pid else value


def _gathered(bsp: BSP, block: Any) -> Any:
    """All blocks as one array, on the root."""
    found = gather_blocks(bsp, block)
    return None if found is None else found[0]


# -- the ways ----------------------------------------------------------------------------------------------------------


def _broadcast(bsp: BSP, words: int) -> Ways:
    ways: Ways = {
        OURS: lambda x: broadcast(bsp, x),
        BY_HAND: lambda x: _from_root(bsp, [x] * bsp.p),
        "allgather": lambda x: allgather(bsp, x)[0],
    }
    if words >= bsp.p:
        ways["scatter_blocks, allgather_blocks"] = lambda x: allgather_blocks(bsp, scatter_blocks(bsp, x))[0]
    return ways


def _reduce(bsp: BSP, words: int) -> Ways:
    def by_hand(x: Any) -> Any:
        parts = _to_root(bsp, x)
        return None if parts is None else _sum(parts)

    ways: Ways = {
        OURS: lambda x: reduce(bsp, x, np.add),
        BY_HAND: by_hand,
        "allreduce": lambda x: _on_root(bsp, allreduce(bsp, x, np.add)),
    }
    if words >= bsp.p:
        ways["reduce_scatter, gather_blocks"] = lambda x: _gathered(bsp, reduce_scatter(bsp, x, np.add))
    return ways


def _allreduce(bsp: BSP, words: int) -> Ways:
    ways: Ways = {
        OURS: lambda x: allreduce(bsp, x, np.add),
        BY_HAND: lambda x: _sum(_to_all(bsp, x)),
        "reduce, broadcast": lambda x: broadcast(bsp, reduce(bsp, x, np.add)),
        LOCAL: lambda x: _sum(allgather(bsp, x)),
    }
    if words >= bsp.p:
        ways["reduce_scatter, allgather_blocks"] = lambda x: allgather_blocks(bsp, reduce_scatter(bsp, x, np.add))[0]
    return ways


def _prefix(bsp: BSP, words: int) -> Ways:
    return {
        OURS: lambda x: prefix(bsp, x, np.add),
        BY_HAND: lambda x: _sum([*_from_below(bsp, x), x]),
        LOCAL: lambda x: _sum(allgather(bsp, x)[: bsp.pid + 1]),
        "exclusive_prefix, local": lambda x: exclusive_prefix(bsp, x, np.add) + x,
    }


def _exclusive_prefix(bsp: BSP, words: int) -> Ways:
    nothing = np.zeros(words) if words else 0.0

    def shifted(x: Any) -> Any:
        total = prefix(bsp, x, np.add)
        if bsp.pid < bsp.p - 1:
            bsp.send(bsp.pid + 1, total)
        bsp.sync()
        return _own(bsp.inbox[0].payload) if bsp.pid else _own(nothing)

    return {
        OURS: lambda x: exclusive_prefix(bsp, x, np.add),
        BY_HAND: lambda x: _sum(_from_below(bsp, x) or [nothing]),
        LOCAL: lambda x: _sum(allgather(bsp, x)[: bsp.pid] or [nothing]),
        "prefix, send to the next": shifted,
    }


def _reduce_scatter(bsp: BSP, words: int) -> Ways:
    p, pid = bsp.p, bsp.pid
    return {
        OURS: lambda x: reduce_scatter(bsp, x, np.add),
        BY_HAND: lambda x: _sum(_to_each(bsp, _blocks(x, p))),
        "reduce, scatter_blocks": lambda x: scatter_blocks(bsp, reduce(bsp, x, np.add)),
        "allreduce, local": lambda x: _blocks(allreduce(bsp, x, np.add), p)[pid],
    }


def _scatter(bsp: BSP, words: int) -> Ways:
    ways: Ways = {
        OURS: lambda x: scatter(bsp, x),
        BY_HAND: lambda x: _from_root(bsp, x),
        "broadcast, local": lambda x: broadcast(bsp, x)[bsp.pid],
    }
    if words:
        ways["scatter_blocks"] = lambda x: scatter_blocks(bsp, x)[0]
    return ways


def _gather(bsp: BSP, words: int) -> Ways:
    ways: Ways = {
        OURS: lambda x: gather(bsp, x),
        BY_HAND: lambda x: _to_root(bsp, x, keep=True),
        "allgather": lambda x: _on_root(bsp, allgather(bsp, x)),
    }
    if words:
        ways["gather_blocks"] = lambda x: _gathered(bsp, x)
    return ways


def _allgather(bsp: BSP, words: int) -> Ways:
    ways: Ways = {
        OURS: lambda x: allgather(bsp, x),
        BY_HAND: lambda x: _to_all(bsp, x, keep=True),
        "gather, broadcast": lambda x: broadcast(bsp, gather(bsp, x)),
        "total_exchange": lambda x: total_exchange(bsp, [x] * bsp.p),
    }
    if words:
        ways["allgather_blocks"] = lambda x: allgather_blocks(bsp, x)[0]
    return ways


def _total_exchange(bsp: BSP, words: int) -> Ways:
    ways: Ways = {
        OURS: lambda x: total_exchange(bsp, x),
        BY_HAND: lambda x: _to_each(bsp, x, keep=True),
        LOCAL: lambda x: [row[bsp.pid] for row in allgather(bsp, x)],
    }
    if words:
        ways["total_exchange_blocks"] = lambda x: total_exchange_blocks(bsp, x)[0]
    return ways


def _scatter_blocks(bsp: BSP, words: int) -> Ways:
    p, pid = bsp.p, bsp.pid

    def cut(x: Any) -> Any:
        return None if x is None else _blocks(x, p)

    def by_hand(x: Any) -> Any:
        found = _from_root(bsp, cut(x))
        return found if pid else found.copy()

    return {
        OURS: lambda x: scatter_blocks(bsp, x),
        BY_HAND: by_hand,
        "scatter": lambda x: scatter(bsp, cut(x)),
        "broadcast, local": lambda x: _blocks(broadcast(bsp, x), p)[pid],
    }


def _gather_blocks(bsp: BSP, words: int) -> Ways:
    def joined(parts: list[Any] | None) -> Any:
        return None if parts is None else np.concatenate(parts)

    return {
        OURS: lambda x: _gathered(bsp, x),
        BY_HAND: lambda x: joined(_to_root(bsp, x)),
        "gather, local": lambda x: joined(gather(bsp, x)),
        "allgather_blocks": lambda x: _on_root(bsp, allgather_blocks(bsp, x)[0]),
    }


def _allgather_blocks(bsp: BSP, words: int) -> Ways:
    return {
        OURS: lambda x: allgather_blocks(bsp, x)[0],
        BY_HAND: lambda x: np.concatenate(_to_all(bsp, x)),
        "allgather, local": lambda x: np.concatenate(allgather(bsp, x)),
        "gather_blocks, broadcast": lambda x: broadcast(bsp, _gathered(bsp, x)),
    }


def _total_exchange_blocks(bsp: BSP, words: int) -> Ways:
    return {
        OURS: lambda x: total_exchange_blocks(bsp, x)[0],
        BY_HAND: lambda x: np.concatenate(_to_each(bsp, x)),
        "total_exchange, local": lambda x: np.concatenate(total_exchange(bsp, x)),
    }


def _sort(bsp: BSP, words: int) -> Ways:
    pid = bsp.pid
    ways: Ways = {OURS: lambda x: sort(bsp, x), "bitonic_sort": lambda x: bitonic_sort(bsp, x)}
    if words == NUMBER:
        return {
            **ways,
            BY_HAND: lambda x: sorted(_to_all(bsp, x))[pid],
            LOCAL: lambda x: sorted(allgather(bsp, x))[pid],
        }

    def mine(everything: Array) -> Array:
        everything.sort()
        return everything[words * pid : words * (pid + 1)]

    def by_root(x: Any) -> Any:
        found = _gathered(bsp, x)
        return scatter_blocks(bsp, None if found is None else np.sort(found))

    return {
        **ways,
        "by sampling": lambda x: sort(bsp, x, algorithm="sample"),
        BY_HAND: lambda x: mine(np.concatenate(_to_all(bsp, x))),
        "gather_blocks, local, scatter_blocks": by_root,
    }


GUIDED = {
    "broadcast": Guided(_of_root, _broadcast),
    "reduce": Guided(_value, _reduce),
    "allreduce": Guided(_value, _allreduce),
    "prefix": Guided(_value, _prefix),
    "exclusive_prefix": Guided(_value, _exclusive_prefix),
    "reduce_scatter": Guided(_value, _reduce_scatter, numbers=False),
    "scatter": Guided(_for_each_of_root, _scatter, for_each=True),
    "gather": Guided(_value, _gather, for_each=True),
    "allgather": Guided(_value, _allgather, for_each=True),
    "total_exchange": Guided(_for_each, _total_exchange, for_each=True),
    "scatter_blocks": Guided(_of_root, _scatter_blocks, numbers=False),
    "gather_blocks": Guided(_value, _gather_blocks, numbers=False),
    "allgather_blocks": Guided(_value, _allgather_blocks, for_each=True, numbers=False),
    "total_exchange_blocks": Guided(_for_each, _total_exchange_blocks, for_each=True, numbers=False),
    "sort": Guided(_keys, _sort),
}
