"""Relations to try networks and routers with.

    random_relation          every processor sends exactly h packets and receives exactly h
    uniform_destinations     every processor sends h, each to a processor drawn at random
    permutation              drawn at random
    bit_reversal             from processor b_1 b_2 .. b_n to b_n .. b_2 b_1
    transpose                from processor (i, j) of a square to (j, i)
    hot_spot                 every processor sends h, a share of which goes to one processor
    one_to_all, all_to_one   h packets to, or from, every other processor
    unbalanced               a random (M, k1, k2)-relation
    local                    every processor sends exactly h and receives exactly h, none of which goes far

Equal arguments give equal relations, in every process. `seed` is what `numpy.random.default_rng` takes; a generator is
drawn from, and so gives another relation each time. h = 0 gives the empty relation. Packets are in the order of rounds,
or of sources.

Raises:
    RoutingError: bit_reversal and transpose: p does not fit; the text says what would.
    UsageError: an argument out of its range, which the text says.
"""

from __future__ import annotations

import numpy as np

from ..errors import UsageError, brief
from ..ground.convert import is_whole
from .networks.fit import fit
from .relation import Ints, Relation
from .seeds import Seed, generator


def random_relation(p: int, h: int, seed: Seed = 0) -> Relation:
    """A random full h-relation: the h*p packets' destinations, each processor h times, in random order.

    Source: the h-relations of *Experiences with a model for parallel computation*, section 1.

    Examples:
        >>> from pybsp.routing import relations
        >>> relations.random_relation(p=8, h=3)
        <relation of p = 8: M = 24, k1 = 3, k2 = 3, locality 7, full>
    """
    sources = _rounds("random_relation", p, h)
    return Relation(sources, generator("random_relation", seed).permutation(sources), p)


def uniform_destinations(p: int, h: int, seed: Seed = 0) -> Relation:
    """Every processor sends h packets, each to a processor drawn at random (itself included).

    Examples:
        >>> from pybsp.routing import relations
        >>> relations.uniform_destinations(p=8, h=3).k1
        3
    """
    sources = _rounds("uniform_destinations", p, h)
    return Relation(sources, generator("uniform_destinations", seed).integers(p, size=len(sources)), p)


def permutation(p: int, h: int = 1, seed: Seed = 0) -> Relation:
    """h times one permutation of the processors, drawn at random (fixed points included).

    Examples:
        >>> from pybsp.routing import relations
        >>> relations.permutation(p=4, seed=2).destinations.tolist()
        [3, 2, 0, 1]
    """
    sources = _rounds("permutation", p, h)
    return Relation(sources, generator("permutation", seed).permutation(p)[sources], p)


def bit_reversal(p: int, h: int = 1) -> Relation:
    """h packets from each processor to that whose number has the same bits in reverse; p is a power of two.

    Examples:
        >>> from pybsp.routing import relations
        >>> relations.bit_reversal(p=8).destinations.tolist()
        [0, 4, 2, 6, 1, 5, 3, 7]
    """
    n = fit("bit_reversal", p, "a power of two", lambda n: 1 << n)
    sources = _rounds("bit_reversal", p, h)
    destinations = np.zeros_like(sources)
    for bit in range(n):
        destinations |= (sources >> bit & 1) << n - 1 - bit
    return Relation(sources, destinations, p)


def transpose(p: int, h: int = 1) -> Relation:
    """h packets from each processor i*k + j to j*k + i, p = k*k: a square matrix, an element on each processor.

    Where p is a power of two, the halves of a processor's number change places.

    Examples:
        >>> from pybsp.routing import relations
        >>> relations.transpose(p=9).destinations.tolist()
        [0, 3, 6, 1, 4, 7, 2, 5, 8]
    """
    k = fit("transpose", p, "a square", lambda k: k * k, first=1)
    sources = _rounds("transpose", p, h)
    return Relation(sources, sources % k * k + sources // k, p)


def hot_spot(p: int, h: int, share: float = 0.1, spot: int = 0, seed: Seed = 0) -> Relation:
    """Every processor sends h packets, each with probability `share` to `spot`, else to a processor drawn at random.

    Examples:
        >>> from pybsp.routing import relations
        >>> relations.hot_spot(p=8, h=10, share=1.0, spot=3).received.tolist()
        [0, 0, 0, 80, 0, 0, 0, 0]
    """
    sources = _rounds("hot_spot", p, h)
    number = isinstance(share, (int, float, np.integer, np.floating)) and not isinstance(share, bool)
    if not number or not 0 <= share <= 1:
        raise UsageError(f"hot_spot: share: expected a number from 0 to 1, got {brief(share)}")
    _whole("hot_spot", "spot", spot, 0, p - 1)
    rng = generator("hot_spot", seed)
    hot = rng.random(len(sources)) < share
    return Relation(sources, np.where(hot, spot, rng.integers(p, size=len(sources))), p)


def one_to_all(p: int, h: int = 1, root: int = 0) -> Relation:
    """h packets from the root to every other processor: the paper's personalized broadcast.

    Source: *The E-BSP model*, section 1.

    Examples:
        >>> from pybsp.routing import relations
        >>> relations.one_to_all(p=4).destinations.tolist()
        [1, 2, 3]
    """
    others = _others("one_to_all", p, h, root)
    return Relation(np.full_like(others, root), others, p)


def all_to_one(p: int, h: int = 1, root: int = 0) -> Relation:
    """h packets from every other processor to the root.

    Examples:
        >>> from pybsp.routing import relations
        >>> relations.all_to_one(p=4).sources.tolist()
        [1, 2, 3]
    """
    others = _others("all_to_one", p, h, root)
    return Relation(others, np.full_like(others, root), p)


def unbalanced(p: int, M: int, k1: int, k2: int, seed: Seed = 0) -> Relation:
    """M packets, of which the busiest sender sends exactly k1, and the busiest receiver receives exactly k2.

    One processor drawn at random sends k1; the others' packets are drawn from k1 that each could send. The same for
    k2; which packet goes to which destination is drawn last. M is from max{k1, k2} to p*min{k1, k2}: there are no
    others. With k1 = k2 = 1 it is a partial permutation.

    Source: the (M, k1, k2)-relations of *The E-BSP model*, Definition 2.

    Examples:
        >>> from pybsp.routing import relations
        >>> relations.unbalanced(p=8, M=12, k1=4, k2=3)
        <relation of p = 8: M = 12, k1 = 4, k2 = 3, locality 6>
    """
    _whole("unbalanced", "p", p, 1)
    _whole("unbalanced", "k1", k1, 0)
    _whole("unbalanced", "k2", k2, 0)
    if p * min(k1, k2) < max(k1, k2):
        raise UsageError(f"unbalanced: k1, k2: of p = {p} processors there is no relation with k1 = {k1} and k2 = {k2}")
    _whole("unbalanced", "M", M, max(k1, k2), p * min(k1, k2))
    rng = generator("unbalanced", seed)
    sources, destinations = _filled(p, M, k1, rng), _filled(p, M, k2, rng)
    return Relation(sources, rng.permutation(destinations), p)


def local(p: int, h: int, locality: int, seed: Seed = 0) -> Relation:
    """A full h-relation in which no number of a source differs from its destination's by more than `locality`.

    In each of h rounds the processors are cut into blocks of locality + 1, from a random place on, and each block is
    permuted at random.

    Source: the h-relations with locality L of *The E-BSP model*, section 3.

    Examples:
        >>> from pybsp.routing import relations
        >>> relations.local(p=8, h=2, locality=1).locality <= 1
        True
    """
    sources = _rounds("local", p, h)
    _whole("local", "locality", locality, 0)
    rng = generator("local", seed)
    width = int(locality) + 1
    block = (np.arange(p) + rng.integers(width, size=(h, 1))) // width
    return Relation(sources, np.argsort(block + rng.random((h, p)), axis=1, kind="stable").ravel(), p)


def _rounds(operation: str, p: int, h: int) -> Ints:
    """Every processor, h times."""
    _whole(operation, "p", p, 1)
    _whole(operation, "h", h, 0)
    return np.tile(np.arange(p), h)


def _others(operation: str, p: int, h: int, root: int) -> Ints:
    """Every processor but the root, h times."""
    _whole(operation, "p", p, 1)
    _whole(operation, "h", h, 0)
    _whole(operation, "root", root, 0, p - 1)
    return np.tile(np.delete(np.arange(p), root), h)


def _filled(p: int, packets: int, most: int, rng: np.random.Generator) -> Ints:
    """The processors of so many packets, in ascending order: one has `most` of them, and none has more."""
    full = rng.integers(p)
    rest = rng.choice((p - 1) * most, packets - most, replace=False, shuffle=False) // max(most, 1)
    return np.sort(np.concatenate((np.full(most, full), rest + (rest >= full))))


def _whole(operation: str, argument: str, value: int, least: int, most: int | None = None) -> None:
    """UsageError, unless this is a whole number from `least` to `most`."""
    if not is_whole(value, least) or (most is not None and value > most):
        fits = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise UsageError(f"{operation}: {argument}: expected a whole number {fits}, got {brief(value)}")
