"""Bringing equal keys together: distinct keys are sorted by regular sampling, and equal ones go to one processor.

As in `sample_sort`, but for a cut between processors, which lies before all keys that are equal to its splitter. As a
processor sends each of its keys once, that moves p - 1 keys at most.
"""

from __future__ import annotations

from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..machines.cost import Cost, Machine
from ..rides.ride import Supersteps
from .arguments import integer
from .blocks import Ints
from .one_superstep import word_counts
from .plan import Plan, Step, joined
from .primitive import Call
from .regular_sampling import Keys, most, sample_places, split
from .sample_sort import cost_of as cost_of_sorting
from .sample_sort import merging, sorting, splitting
from .sample_sort import plan_of as plan_of_sorting
from .values import packed, unpacked


class Grouped(NamedTuple):
    """This processor's part: the distinct keys in order, and what their values are combined to.

    indices: where each key of this processor's is among the distinct ones of all, shape (n,), if asked for.
    """

    keys: Keys
    values: NDArray[Any] | None
    indices: Ints | None


def plan(name: str, p: int, counts: ArrayLike, indexed: bool = False) -> Plan:
    """Who sends what to whom: samples (items of the sender's), then keys (items: places in the sender's sorted ones).

    Args:
        name: of the primitive.
        p: processors.
        counts: distinct keys of processor i that go to j, shape (p, p), those that stay included.
        indexed: then indices go back (items: places among the keys that came to the sender, by their sources).
    """
    known = plan_of_sorting(name, p, counts)
    return joined(p, [*known, _back(np.asarray(counts))]) if indexed and p > 1 else known


def _back(counts: Ints) -> Step:
    """Who sends the indices of how many keys to whom, for `counts` of keys that have come."""
    p, last = len(counts), np.cumsum(counts, axis=0)
    there, here = np.divmod(np.arange(p * p), p)
    return Step.of(here, there, (last - counts).ravel(), last.ravel())


def cost(
    name: str,
    machine: Machine,
    keys: ArrayLike,
    counts: ArrayLike | None,
    itemsize: int,
    values: int | None,
    indexed: bool = False,
) -> Cost:
    """What it costs: exactly if the counts are given, else the supersteps exactly, and no less of all else."""
    p = machine.p
    n = word_counts(f"{name}.cost", keys, (p,), "keys")
    first = max(map(sorting, n.tolist()))
    if p == 1:
        return Cost(machine, (), first)
    if counts is not None:
        known = cost_of_sorting(name, machine, None, counts, itemsize, values)
        steps, after = (known[0]._replace(w=first), known[1]), known.after
        if not indexed:
            return Cost(machine, steps, after)
        back = _back(np.asarray(counts))
        third = back.counted((back.last - back.first).astype(np.int64))
    else:
        known = cost_of_sorting(name, machine, n, None, itemsize, values)
        sizes = [itemsize] if values is None else [itemsize, integer(f"{name}.cost", "values", values, 0)]
        total = int(n.sum())
        into = min(most(p, n) + p - 1, total)
        words = sum(-(-into * size // 8) + (min(p - 1, into) if size % 8 else 0) for size in sizes)
        steps, after = (known[0], known[1]._replace(h_in=words)), merging(p, into)
        if not indexed:
            return Cost(machine, steps, after)
        third = known[1]._replace(h_out=into, h_in=int(n.max()), messages=p - 1, M=total)
    return Cost(machine, (*steps, third._replace(w=after)), 0.0)


def run(
    call: Call,
    keys: Keys,
    values: NDArray[Any] | None,
    op: np.ufunc,
    counted: bool = False,
    indexed: bool = False,
) -> Supersteps[Grouped]:
    """The distinct keys in order, this processor's part, and what op makes of the values of each.

    Args:
        call: of the primitive.
        keys: shape (n,).
        values: shape (n, ...); None: none.
        op: combines the values of a key.
        counted: how often each key is there are its values.
        indexed: whether to say where each key of this processor's is among all distinct ones.
    """
    bsp = call.bsp
    p, pid = bsp.p, bsp.pid
    # 1. Sort the block, and combine what is equal here.
    bsp.work(sorting(len(keys)))
    here = _combined(call, keys, values, op, counted, indexed)
    if p == 1:
        return here
    keys, values, _ = here
    n = len(keys)

    # 2. All get samples of the distinct keys of all.
    call.ends(3 if indexed else 2)
    samples = keys[sample_places(p, n)]
    parcel = packed(samples, call.name, "keys")
    others = [dest for dest in range(p) if dest != pid]
    call.send_all(others, parcel, str(n))
    letters = yield from call.sync(others)
    sizes = [int(letter.note) for letter in letters]
    sizes.insert(pid, n)
    pieces = [unpacked(letter.payload) for letter in letters]
    pieces.insert(pid, samples)
    together = _joined(pieces)

    # 3. They determine the splitters, which cut the block before keys that are equal to them.
    splitters = call.own(lambda: _places(keys, split(together, sizes, pid).keys), "keys")
    bounds = [0, *splitters.tolist(), *[n] * (p - splitters.size)]
    bsp.work(splitting(p, n, together.size))

    # 4. Each part goes where it belongs.
    columns = [keys] if values is None else [keys, values]
    for dest in others:
        first, last = bounds[dest], bounds[dest + 1]
        if first < last:
            for column, what in zip(columns, ("keys", "values"), strict=False):
                call.send(dest, packed(column[first:last], call.name, what))
    letters = yield from call.sync()

    # 5. What came, and what stayed, is merged, and combined where it is equal.
    sources = [letter.source for letter in letters[:: len(columns)]]
    below = sum(source < pid for source in sources)
    sources.insert(below, pid)
    runs = []
    for place, column in enumerate(columns):
        runs.append([unpacked(letter.payload) for letter in letters[place :: len(columns)]])
        runs[place].insert(below, column[bounds[pid] : bounds[pid + 1]])
    came = _joined(runs[0]).astype(together.dtype, copy=False)
    bsp.work(merging(p, len(came)))
    part = _combined(call, came, None if values is None else _joined(runs[1]), op, indexed=indexed)
    if part.indices is None or here.indices is None:
        return part

    # 6. Each learns where its keys are in the parts, and how long these are.
    counts = np.zeros(p, np.int64)
    counts[sources] = [len(run) for run in runs[0]]
    back = np.split(part.indices, np.cumsum(counts)[:-1])
    for dest in others:
        call.send(dest, back[dest], str(len(part.keys)))
    letters = yield from call.sync(others)
    places = [letter.payload for letter in letters]
    places.insert(pid, back[pid])
    lengths = [int(letter.note) for letter in letters]
    lengths.insert(pid, len(part.keys))
    before = np.repeat(np.cumsum(lengths) - lengths, [len(some) for some in places])
    return part._replace(indices=(before + np.concatenate(places))[here.indices])


def _places(keys: Keys, splitters: Keys) -> NDArray[np.intp]:
    """Where splitters lie in distinct keys, as np.searchsorted; one NaN is as good as another."""
    found = np.searchsorted(keys, splitters)
    if keys.dtype.kind == "c":  # numpy orders those of complex numbers by their parts
        found[splitters != splitters] = len(keys) - np.count_nonzero(keys[-1:] != keys[-1:])
    return found


def _joined(pieces: list[NDArray[Any]]) -> NDArray[Any]:
    """Blocks of one dtype, but for the lengths of strings, in one."""
    return np.concatenate(pieces, dtype=max((piece.dtype for piece in pieces), key=attrgetter("itemsize")))


def _combined(
    call: Call,
    keys: Keys,
    values: NDArray[Any] | None,
    op: np.ufunc,
    counted: bool = False,
    indexed: bool = False,
) -> Grouped:
    """The distinct keys in order, and what op makes of the values of each, in their order."""
    order = None
    if values is None and not indexed:
        keys = call.own(partial(np.sort, keys), "keys")
    else:
        order = call.own(partial(np.argsort, keys, kind="stable"), "keys")
        keys, values = keys[order], None if values is None else values[order]
    starts = call.own(partial(_starts, keys), "keys")
    often, indices = np.diff(np.append(starts, len(keys))), None
    if indexed:
        indices = np.empty(len(keys), np.int64)
        indices[order] = np.repeat(np.arange(len(starts)), often)
    if counted:
        values = often
    elif values is not None:
        values = call.own(partial(_reduced, op, values, starts), "values")
    return Grouped(keys[starts], values, indices)


def _starts(keys: Keys) -> Ints:
    """Where a key is another than that before it, in sorted ones; NaNs are one, but in structures, as for np.unique."""
    other = np.asarray(keys[1:] != keys[:-1], np.bool_)
    if keys.dtype.kind in "fcmM":
        other &= (keys[1:] == keys[1:]) | (keys[:-1] == keys[:-1])
    return np.append(np.zeros(min(1, len(keys)), np.int64), 1 + np.flatnonzero(other))


def _reduced(op: np.ufunc, values: NDArray[Any], starts: Ints) -> NDArray[Any]:
    """What op makes of the values from each start to the next."""
    return np.asarray(op.reduceat(values, starts, axis=0))
