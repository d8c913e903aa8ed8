"""A piece of work in several variants: pybsp's, raw mpi4py's, numpy's.

A repetition of a variant fills what it sends, with values that depend on the repetition's number; brings it to where it
goes; and reads all of what arrived there (a sum). So no buffer stays in the reader's cache from one repetition to the
next, and every variant that is compared with another does the same work: `got` says what was read, and is compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import pybsp

WORD = 8
OURS = "pybsp"

Array = NDArray[Any]
Batch = Callable[[int, int], None]


class Variant(NamedTuple):
    """One way to do a piece of work.

    batch: runs so many repetitions, from a number on.
    got: what the last repetition read here, always in the same order; collective. None: nothing to compare. An empty
        list: nothing was read by this processor in this variant.
    after: runs after each repetition, and is not timed.
    """

    batch: Batch
    got: Callable[[], Sequence[Array]] | None = None
    after: Callable[[], None] | None = None


def each(run: Callable[[int], object]) -> Batch:
    """Repetitions of a function of the repetition's number."""

    def batch(first: int, count: int) -> None:
        for number in range(first, first + count):
            run(number)

    return batch


class Prepared(NamedTuple):
    """A piece of work that is ready to run.

    variants: by name.
    pairs: variants that are compared with each other: (one, against).
    sent: bytes that one processor sends in a repetition; 0: not what it is about.
    items: messages that one processor sends in a repetition; 0: not what it is about.
    """

    variants: dict[str, Variant]
    pairs: list[tuple[str, str]]
    sent: int = 0
    items: int = 0


@dataclass(frozen=True)
class Work:
    """A piece of work.

    name, size: which one; size 0 where there is but one.
    title: for people.
    make: makes its variants for that size; collective.
    space: bytes that all p processors need for it.
    """

    name: str
    size: int
    title: str
    make: Callable[[ComparisonJob, int], Prepared]
    space: Callable[[int], int] = lambda p: 0


@dataclass
class ComparisonJob:
    """The ranks that measure, as one of them sees them.

    Attributes:
        partners: every other processor; where there is none, this one.
        closing: what gives back what a work's variants hold; run after it.
    """

    bsp: pybsp.BSP
    comm: Any
    closing: list[Callable[[], object]] = field(default_factory=list)
    _queues: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.p, self.pid = self.bsp.p, self.bsp.pid
        self.partners = [d for d in range(self.p) if d != self.pid] or [0]
        self.next = (self.pid + 1) % self.p
        self.previous = (self.pid - 1) % self.p

    def array(self, words: int) -> Any:
        """A registered array of float64, until the work's end."""
        array = self.bsp.array(words)
        self.closing.append(array.free)
        self.bsp.sync()
        return array

    def queue(self) -> Any:
        """A queue of float64; the same one for all works, since queues are for good."""
        if "d" not in self._queues:
            self._queues["d"] = self.bsp.queue(np.float64)
            self.bsp.sync()
        return self._queues["d"]

    def close(self) -> None:
        """Give back what the last work's variants held; collective."""
        for close in self.closing:
            close()
        self.closing.clear()
        self.bsp.sync()


def against(*others: str) -> list[tuple[str, str]]:
    """pybsp's variant against others."""
    return [(OURS, other) for other in others]


def compared(
    runs: Mapping[str, Callable[[int], object]],
    got: Callable[[], Sequence[Array]],
    silent: Sequence[str] = (),
    sent: int = 0,
    items: int = 0,
) -> Prepared:
    """Functions of the repetition's number, the first of them pybsp's, against which all others are.

    Args:
        runs: by variant.
        got: what each of them has read, but those that are silent.
        sent, items: see `Prepared`.
    """
    variants = {name: Variant(each(run), None if name in silent else got) for name, run in runs.items()}
    return Prepared(variants, against(*list(runs)[1:]), sent, items)


def values(words: int, seed: int) -> Array:
    """Where a fill begins: whole numbers, so that sums are exact in any order, as float64."""
    return np.arange(seed * 7, seed * 7 + words, dtype=np.float64)


def layout(counts: Sequence[int] | Array) -> tuple[Array, Array]:
    """Counts and displacements as MPI takes them."""
    found = np.asarray(counts, np.int32)
    starts = np.zeros(len(found), np.int32)
    np.cumsum(found[:-1], out=starts[1:])
    return found, starts
