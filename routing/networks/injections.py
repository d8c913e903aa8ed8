"""Which packets come to a network, and when: open load, bursts, the supersteps of a program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ...errors import brief, usage_error
from ...ground.convert import is_whole
from ..decomposition import relation as checked_relation
from ..relation import Relation
from ..seeds import Seed, generator
from .graph import Ints

_LAST = 1 << 62  # step at which a packet may be due
_MOST = 1e6  # packets for each processor and step: more than any network carries


class Injections(NamedTuple):
    """Packets, each with the step at which its source has it ready; sorted by that.

    Attributes:
        times, sources, destinations: of each packet, shape (m,).
        p: processors.
        load: packets that each processor sends a step, on average; None where it is not the same at all times.

    Examples:
        >>> from pybsp.routing import relations
        >>> from pybsp.routing.networks import Injections
        >>> Injections.at([5, 0], [0, 1], [1, 0], p=2).times.tolist()
        [0, 5]
        >>> Injections.open(64, load=0.3, steps=1000, seed=1).packets
        19335
        >>> Injections.bursts(64, load=0.3, steps=1000, length=8, seed=1).packets
        18760
        >>> trace = Injections.supersteps([relations.random_relation(4, h=3), relations.permutation(4)], starts=[0, 50])
        >>> trace.packets, int(trace.times.max())
        (16, 50)
    """

    times: Ints
    sources: Ints
    destinations: Ints
    p: int
    load: float | None = None

    def __repr__(self) -> str:
        load = "" if self.load is None else f", load {self.load:.4g}"
        return f"<injections: {len(self.times)} packets of {self.p} processors{load}>"

    @property
    def packets(self) -> int:
        """How many packets there are."""
        return len(self.times)

    @classmethod
    def at(cls, times: ArrayLike, sources: ArrayLike, destinations: ArrayLike, p: int) -> Injections:
        """Packets at given times.

        Args:
            times: whole numbers from 0 on, in any order, shape (m,).
            sources, destinations: processors, shape (m,).

        Raises:
            UsageError: times before 0, which are past when the network begins; other shapes or numbers.
        """
        out, into = checked_relation("Injections.at", sources, destinations, p)
        when = np.asarray(times)
        if when.shape != out.shape or not (np.issubdtype(when.dtype, np.integer) or not when.size):
            expected = f"integers of shape {out.shape}, as sources"
            raise usage_error("Injections.at: times", expected, f"{when.dtype} of shape {when.shape}")
        if when.size and when.min() < 0:
            first = int(np.flatnonzero(when < 0)[0])
            got = f"{when[first]} for packet {first}: that is past when the network begins"
            raise usage_error("Injections.at: times", "steps from 0 on", got)
        if when.size and when.max() > _LAST:
            raise usage_error("Injections.at: times", "steps up to 2^62", when.max())
        order = np.argsort(when, kind="stable")
        return cls(when[order].astype(np.int64), out[order], into[order], int(p))

    @classmethod
    def open(cls, p: int, load: float, steps: int, destinations: ArrayLike | None = None, seed: Seed = 0) -> Injections:
        """Open load: every processor gets packets at random times, whatever became of those before (Poisson).

        Args:
            load: packets for each processor and step, on average.
            steps: so long.
            destinations: of each processor's packets, shape (p,); None: drawn for each packet, of all processors
                (uniform traffic; one in p stays where it is).

        Raises:
            UsageError: no load above 0, no steps, destinations that are none.
        """
        _positive("Injections.open", p=p, steps=steps)
        _load("Injections.open", load)
        rng = generator("Injections.open", seed)
        counts = rng.poisson(load, size=(steps, p))
        times, sources = (np.repeat(each, counts.ravel()) for each in np.indices(counts.shape).reshape(2, -1))
        return cls(times, sources, _destinations("Injections.open", p, sources, destinations, rng), p, float(load))

    @classmethod
    def bursts(
        cls, p: int, load: float, steps: int, length: int, destinations: ArrayLike | None = None, seed: Seed = 0
    ) -> Injections:
        """Bursts at random times (Poisson): of `length` packets, one a step, all of a burst to one processor.

        Args, raises: as `open`; `length` from 1 on. Bursts may begin up to `steps`, and end later.
        """
        _positive("Injections.bursts", p=p, steps=steps, length=length)
        _load("Injections.bursts", load)
        rng = generator("Injections.bursts", seed)
        counts = rng.poisson(load / length, size=(steps, p))
        begins, sources = (np.repeat(each, counts.ravel()) for each in np.indices(counts.shape).reshape(2, -1))
        into = _destinations("Injections.bursts", p, sources, destinations, rng)
        times = (begins[:, None] + np.arange(length)).ravel()
        order = np.argsort(times, kind="stable")
        return cls(times[order], np.repeat(sources, length)[order], np.repeat(into, length)[order], p, float(load))

    @classmethod
    def supersteps(cls, relations: Sequence[Relation], starts: Sequence[int]) -> Injections:
        """The trace of a program: the packets of superstep i are ready at starts[i], all at once.

        That of a program that was simulated on a network: `pybsp.on_network.Steps.injections`.

        Raises:
            UsageError: no relations, of several p, or as many starts as there are none.
        """
        if not (isinstance(relations, Sequence) and all(isinstance(one, Relation) for one in relations)):
            raise usage_error("Injections.supersteps: relations", "Relations", brief(relations, 80))
        if not isinstance(starts, (Sequence, np.ndarray)):
            raise usage_error("Injections.supersteps: starts", "a step for each relation", brief(starts, 80))
        if not len(relations) or len(relations) != len(starts):
            expected = "one or more relations and a start for each"
            raise usage_error("Injections.supersteps", expected, f"{len(relations)} and {len(starts)}")
        sizes = sorted({relation.p for relation in relations})
        if len(sizes) > 1:
            raise usage_error("Injections.supersteps: relations", "all of one p", f"p = {sizes}")
        for start in starts:
            if not is_whole(start, 0) or start > _LAST:
                raise usage_error("Injections.supersteps: starts", "steps from 0 to 2^62", brief(start))
        return cls.at(
            np.repeat(np.asarray(starts, np.int64), [relation.M for relation in relations]),
            np.concatenate([relation.sources for relation in relations]),
            np.concatenate([relation.destinations for relation in relations]),
            sizes[0],
        )


def _positive(operation: str, **numbers: object) -> None:
    for name, number in numbers.items():
        if not is_whole(number, 1):
            raise usage_error(f"{operation}: {name}", "a whole number from 1 on", brief(number))


def _load(operation: str, load: object) -> None:
    if isinstance(load, bool) or not isinstance(load, (int, float, np.number)) or not 0 < load <= _MOST:
        expected = f"packets for each processor and step, above 0 and at most {_MOST:g}"
        raise usage_error(f"{operation}: load", expected, brief(load))


def _destinations(
    operation: str, p: int, sources: Ints, destinations: ArrayLike | None, rng: np.random.Generator
) -> Ints:
    """The destination of each packet."""
    if destinations is None:
        return rng.integers(p, size=len(sources))
    of_each = checked_relation(operation, np.arange(p), destinations, p)[1]
    return of_each[sources]
