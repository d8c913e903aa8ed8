"""k-means clustering by Lloyd's iteration: each point joins its nearest centre, each centre moves to its points' mean.

The points are dealt out, every processor has all centres. (S. P. Lloyd, Least squares quantization in PCM, 1982.)

Supersteps, for n points of d coordinates and k centres:

    step        w = ceil(n/p) * (2 * k * d + k + d + 1), then `collectives.allreduce.cost` of k * (d + 1) words: sums
                and numbers of points, in one array. One allreduce a step
    check       the points go to processor 0: h = d * (n less its own)

Run it:

    mpiexec -n 4 python examples/textbook/kmeans.py --points 100000
    pybsp simulate -p 64 examples/textbook/kmeans.py
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray

import pybsp
from pybsp import collectives
from pybsp.layouts import Block

Points = NDArray[np.float64]  # shape (n, d)


def kmeans(bsp: pybsp.BSP, points: Points, centres: Points, steps: int) -> Points:
    """The centres after that many steps, of this processor's points."""
    k, d = centres.shape
    for _ in range(steps):
        bsp.work(len(points) * (2 * k * d + k + d + 1))
        centres = moved(collectives.allreduce(bsp, cluster_sums(points, centres), np.add), centres)
    return centres


def cluster_sums(points: Points, centres: Points) -> Points:
    """The sum of the points that are nearest to each centre, and behind it their number: shape (k, d + 1)."""
    nearest = np.argmin((centres**2).sum(1) - 2 * (points @ centres.T), axis=1)  # the distance less |point|^2
    columns = [np.bincount(nearest, weights, len(centres)) for weights in points.T]
    return np.stack([*columns, np.bincount(nearest, minlength=len(centres))], axis=1, dtype=float)


def moved(sums: Points, centres: Points) -> Points:
    """The means; a centre without points stays."""
    counts = sums[:, -1:]
    return np.where(counts, sums[:, :-1] / np.maximum(counts, 1), centres)


def some_points(layout: Block, pid: int, d: int) -> Points:
    """A processor's points, the same ones for every p: around 5 places, from one generator."""
    generator = np.random.default_rng(5)
    places = generator.uniform(-10, 10, (5, d))
    everything = places[generator.integers(5, size=layout.shape[0])] + generator.normal(size=(layout.shape[0], d))
    return np.asarray(everything[layout.part(pid)])


def main(bsp: pybsp.BSP, n: int = 1000, d: int = 3, k: int = 5, steps: int = 10) -> Points:
    """The k centres, equal on all processors."""
    if min(n, steps) < 0:
        raise ValueError(f"kmeans: expected at least 0 points and 0 steps, got {n} and {steps}")
    points = some_points(Block(n, bsp.p), bsp.pid, d)
    start = np.linspace(-5, 5, k)[:, None] * np.ones(d)
    with bsp.label("step"):
        centres = kmeans(bsp, points, start, steps)
    with bsp.label("check"):
        everything = collectives.gather_blocks(bsp, points)
    if everything is not None:
        expected = start
        for _ in range(steps):
            expected = moved(cluster_sums(everything[0], expected), expected)
        if not np.allclose(centres, expected):
            raise ArithmeticError("kmeans: differs from the sequential result")
        print(f"p = {bsp.p}, {n} points of {d} coordinates, {k} centres, {steps} steps: first centre {centres[0]}")
        print("agrees with the sequential result")
    return centres


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="k-means clustering of random points.")
    parser.add_argument("--points", type=int, default=1000, help="points (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=10, help="Lloyd's steps (default: %(default)s)")
    options = parser.parse_args()
    pybsp.run(main, n=options.points, steps=options.steps)
