"""Expansion and the neighbour property: the bounds, and splitters measured (*Deterministic Routing of h-relations on
the Multibutterfly*, section 2).

With the paper's example, d = 40, alpha = 1/(48 e^2), beta = 24, R = 8, Fact 1 asks for d > 39.4, and Lemma 1 gives
delta >= 1/33, as printed: neither formula is damaged.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pybsp.routing.multibutterfly.wiring import Ints, Narrow
from pybsp.routing.seeds import generator

EXACT = 16  # inputs of a splitter, at most, whose subsets are all looked at


def least_d(alpha: float, beta: float) -> float:
    """Fact 1: a random splitter has (alpha, beta)-expansion with nonzero probability if d is greater than this.

    beta + 1 + (beta + 1 + ln(2 beta)) / ln(1 / (2 alpha beta)); 2 alpha beta is between 0 and 1.
    """
    return beta + 1 + (beta + 1 + math.log(2 * beta)) / math.log(1 / (2 * alpha * beta))


def least_delta(beta: float, d: int, R: int) -> float:
    """Lemma 1: a splitter with (alpha, beta)-expansion has the (alpha, delta, R)-neighbour property with this delta.

    (2 beta - d - R + 1) / (d - R + 1), R at most d: of k inputs' dk edges to beta k outputs, at least (2 beta - d)k end
    where no other does, of which delta k inputs have at most d each, and the others at most R - 1. Below 0 it says
    nothing.
    """
    return (2 * beta - d - R + 1) / (d - R + 1)


def repetitions(delta: float, d: int, R: int) -> int:
    """Theorem 2: the least Z, log(32 d/R) / log(1/(1 - delta)); delta is between 0 and 1."""
    return math.ceil(math.log(32 * d / R) / -math.log1p(-delta))


class Measured(NamedTuple):
    """Of a splitter and sets X of up to alpha |U| inputs: the least of them, or upper bounds from those looked at."""

    beta: float  # outputs of one side adjacent to X, over |X|
    delta: float  # inputs in X with R edges or more to outputs that have no other neighbour in X, over |X|
    exact: bool  # whether all sets have been looked at


def measure(splitter: Narrow, alpha: float, R: int, samples: int = 200, seed: int = 0) -> Measured:
    """The expansion of a splitter, shape (2, inputs, d), and its neighbour property with R edges.

    Of sets of up to alpha * inputs all are looked at where there are at most 16 inputs, at O(2^inputs); else `samples`
    random ones, and as many that grow greedily, by the input that makes beta, or delta, worst at once:
    O(samples * (alpha inputs)^2 * inputs * d), so for small alpha.
    """
    inputs = splitter.shape[1]
    most = math.floor(alpha * inputs + 1e-9)
    if most < 1:
        return Measured(math.inf, math.inf, True)
    if inputs <= EXACT:
        sides = [_all_sets(side, most, R) for side in splitter]
    else:
        rng = generator("expansion", seed)
        sides = [_some_sets(side, most, R, samples, rng) for side in splitter]
    return Measured(min(side[0] for side in sides), min(side[1] for side in sides), inputs <= EXACT)


def matrix(side: Narrow) -> NDArray[np.int16]:
    """Edges from each input to each output, given the output of edge k of input i at [i, k]."""
    joined = np.zeros((len(side), int(side.max()) + 1), np.int16)
    np.add.at(joined, (np.arange(len(side))[:, None], side), 1)
    return joined


def _all_sets(side: Narrow, most: int, R: int) -> tuple[float, float]:
    """Over all sets of up to `most` inputs, each a number of bits; outputs too."""
    inputs, parallel = len(side), matrix(side)
    # once, twice: outputs with at least so many neighbours in each set; from the set without its last input.
    once, twice = np.zeros((2, 1 << inputs), np.uint32)
    for i in range(inputs):
        below, mask = slice(0, 1 << i), np.uint32((1 << np.flatnonzero(parallel[i])).sum())
        here = slice(1 << i, 2 << i)
        once[here], twice[here] = once[below] | mask, twice[below] | (once[below] & mask)
    sets = np.arange(1 << inputs)
    size = np.bitwise_count(sets)
    sets = sets[(size > 0) & (size <= most)]
    size, alone = size[sets], once[sets] & ~twice[sets]
    good = np.zeros(len(sets), np.int64)
    for i in range(inputs):
        edges = np.zeros(len(sets), np.int64)
        for times in range(1, int(parallel[i].max()) + 1):
            edges += np.bitwise_count(alone & np.uint32((1 << np.flatnonzero(parallel[i] >= times)).sum()))
        good += (edges >= R) & (sets >> i & 1 > 0)
    return float((np.bitwise_count(once[sets]) / size).min()), float((good / size).min())


def _some_sets(side: Narrow, most: int, R: int, samples: int, rng: np.random.Generator) -> tuple[float, float]:
    """Over random sets, and sets that grow greedily."""
    inputs = len(side)
    beta = delta = math.inf
    for _ in range(samples):
        chosen = rng.choice(inputs, int(rng.integers(1, most + 1)), replace=False)
        beta, delta = _lower(beta, delta, matrix(side[chosen]), R)
    for start in rng.permutation(inputs)[:samples]:
        for by_beta in (True, False):
            chosen = np.array([start])
            beta, delta = _lower(beta, delta, matrix(side[chosen]), R)
            while len(chosen) < most:
                chosen = np.append(chosen, worst(side, chosen, by_beta))
                beta, delta = _lower(beta, delta, matrix(side[chosen]), R)
    return beta, delta


def _lower(beta: float, delta: float, edges: NDArray[np.int16], R: int) -> tuple[float, float]:
    """The lesser of these and those of one set, given its edges to each output."""
    neighbours = (edges > 0).sum(axis=0)
    good = (edges[:, neighbours == 1].sum(axis=1) >= R).sum()
    return min(beta, float((neighbours > 0).sum() / len(edges))), min(delta, float(good / len(edges)))


def worst(side: Narrow, chosen: Ints, by_beta: bool) -> int:
    """The input that makes a set the worst: with the fewest edges to new outputs, or the most to what was alone.

    Args:
        side: the output of edge k of input i at [i, k].
        chosen: the inputs of the set, at least one and not all.
    """
    neighbours = np.zeros(int(side.max()) + 1, np.int64)
    found = (matrix(side[chosen]) > 0).sum(axis=0)
    neighbours[: len(found)] = found
    aim = neighbours == 0 if by_beta else neighbours != 1
    new = aim[side].sum(axis=1)
    new[chosen] = side.shape[1] + 1
    return int(np.argmin(new))
