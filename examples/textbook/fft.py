"""Fast Fourier transform of n complex numbers, any n and p, by redistributions.

The vector is an array of several axes, n = n1 * n2 * ..., in C's order. A transform along each axis in turn, with
twiddle factors between, is the transform of the vector, in Fortran's order. While an axis is transformed it is whole on
every processor, and the others are dealt out cyclically. Two axes do where the two factors of n nearest to each other
are at least p: one redistribution. Else there are d axes, and a grid of processors on d - 1 of them: each of d - 1
redistributions trades one axis of the grid for the next. (R. H. Bisseling, Parallel Scientific Computation, chapter 3,
whose group-cyclic distributions these are, for powers of two.)

Where n has no such factors, some processors have nothing to do: one transforms all where n is prime. Where the
processors of an axis of the grid divide all axes, the vector is in the cyclic distribution before and after.

Supersteps, for a grid q1 * ... * q(d-1) = p:

    fft         d - 1 with h = 2 * n/p * (1 - 1/q), where sizes divide, else as `collectives.redistribute.cost` has it;
                for the transforms along an axis of m items w = 5 * s * log2(m), and 6 * s for the twiddle factors
                behind all but the last, s the largest part by that layout; n/p where sizes divide, and so
                5 * n/p * log2(n) for all axes together
    check       all go to processor 0: h = 2 * (n less its own)

Run it:

    mpiexec -n 4 python examples/textbook/fft.py --size 65536
    pybsp simulate -p 64 examples/textbook/fft.py --size 1024
"""

from __future__ import annotations

import argparse
from functools import lru_cache
from itertools import pairwise
from math import log2, prod

import numpy as np
from numpy.typing import NDArray

import pybsp
from pybsp import collectives
from pybsp.layouts import Cyclic

Complex = NDArray[np.complex128]


def fft(bsp: pybsp.BSP, part: Complex, layouts: tuple[Cyclic, ...]) -> Complex:
    """This processor's part of the transform, by the last layout, of its part of the vector by the first."""
    for axis, layout in enumerate(layouts):
        if axis:
            part = collectives.redistribute(bsp, part, layouts[axis - 1], layout)
        part = np.fft.fft(part, axis=axis)
        bsp.work(5 * part.size * log2(layout.shape[axis]))
        if axis < len(layouts) - 1:
            part *= twiddles(layout, axis, bsp.pid)
            bsp.work(6 * part.size)
    return part


@lru_cache
def twiddles(layout: Cyclic, axis: int, pid: int) -> Complex:
    """exp(-2 pi i k j / m) for this processor's k on an axis and j on all behind it, m items together."""
    shape, place = layout.shape, np.unravel_index(pid, layout.grid)
    places = np.ogrid[tuple(slice(int(k), n, q) for k, n, q in zip(place, shape, layout.grid, strict=True))]
    behind = sum(index * prod(shape[i + 1 :]) for i, index in enumerate(places) if i > axis)
    return np.asarray(np.exp(-2j * np.pi / prod(shape[axis:]) * (places[axis] * behind)))


def layouts_for(n: int, p: int) -> tuple[Cyclic, ...]:
    """The layouts of the fewest axes on which p processors all have something to do, if there are such."""
    for axes in range(2, max(n.bit_length(), 3)):
        shape, grid = factors(n, axes), factors(p, axes - 1)
        if all(q <= min(pair) for q, pair in zip(grid, pairwise(shape), strict=True)):
            break
    else:
        shape, grid = factors(n, 2), (p,)
    return tuple(Cyclic(shape, (*grid[:axis], 1, *grid[axis:])) for axis in range(len(shape)))


def factors(n: int, count: int) -> tuple[int, ...]:
    """So many factors of n, as equal as can be had one after the other."""
    found: list[int] = []
    for left in range(count, 0, -1):
        found.append(min((q for q in range(1, n + 1) if n % q == 0), key=lambda q: abs(log2(q) - log2(n) / left)))
        n //= found[-1]
    return tuple(sorted(found, reverse=True))


def main(bsp: pybsp.BSP, n: int = 256) -> Complex | None:
    """The transform of n random numbers, on processor 0."""
    if n < 1:
        raise ValueError(f"fft: expected a size of at least 1, got {n}")
    layouts = layouts_for(n, bsp.p)
    first, last = layouts[0], layouts[-1]
    generator = np.random.default_rng(n)
    vector = generator.normal(size=n) + 1j * generator.normal(size=n)
    with bsp.label("fft"):
        part = fft(bsp, vector.reshape(first.shape)[first.part(bsp.pid)], layouts)
    with bsp.label("check"):
        parts = collectives.gather(bsp, part)
    if parts is None:
        return None
    whole = np.empty(last.shape, complex)
    for pid, piece in enumerate(parts):
        whole[last.part(pid)] = piece
    result = whole.ravel(order="F")
    if not np.allclose(result, np.fft.fft(vector)):
        raise ArithmeticError("fft: differs from numpy's")
    print(f"p = {bsp.p}, n = {n} = {' * '.join(map(str, last.shape))}: X(1) = {result[1 % n]:.6f}")
    print("agrees with numpy's")
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Fast Fourier transform of random numbers.")
    parser.add_argument("--size", type=int, default=256, help="length of the vector (default: %(default)s)")
    pybsp.run(main, n=parser.parse_args().size)
