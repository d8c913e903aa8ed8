"""Fast Fourier transform of a vector that is an array of several axes, dealt out cyclically."""

from __future__ import annotations

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from examples.textbook.fft import twiddles
from pybsp.layouts import Cyclic

Complex = NDArray[np.complex128]


def fft(cart: MPI.Cartcomm, part: Complex, layouts: tuple[Cyclic, ...]) -> Complex:
    """The grid of `cart` has an axis less than the vector."""
    for axis, layout in enumerate(layouts):
        if axis:
            part = exchanged(cart, part, layout.shape, axis)
        part = np.fft.fft(part, axis=axis)
        if axis < len(layouts) - 1:
            part *= twiddles(layout, axis, cart.rank)
    return part


def exchanged(cart: MPI.Cartcomm, part: Complex, shape: tuple[int, ...], axis: int) -> Complex:
    """Deal out the axis before, and make this one whole."""
    comm = cart.Sub([k == axis - 1 for k in range(cart.ndim)])
    q, rank = comm.size, comm.rank
    before = (slice(None),) * (axis - 1)
    pieces = [part[(*before, slice(other, None, q))].ravel() for other in range(q)]
    whole = list(part.shape)
    whole[axis - 1], whole[axis] = len(range(rank, shape[axis - 1], q)), shape[axis]
    counts = [int(np.prod(whole)) // max(shape[axis], 1) * len(range(other, shape[axis], q)) for other in range(q)]
    received = np.empty(sum(counts), complex)
    comm.Alltoallv([np.concatenate(pieces), [piece.size for piece in pieces]], [received, counts])
    result = np.empty(whole, complex)
    for other, piece in enumerate(np.split(received, np.cumsum(counts)[:-1])):
        view = result[(*before, slice(None), slice(other, None, q))]
        view[...] = piece.reshape(view.shape)
    comm.Free()
    return result
