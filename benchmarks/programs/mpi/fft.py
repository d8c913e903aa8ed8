"""Fast Fourier transform of a vector that is an array of several axes, dealt out cyclically."""

from __future__ import annotations

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from examples.textbook.fft import twiddles
from pybsp.layouts import Cyclic

Complex = NDArray[np.complex128]


def lines_of_grid(comm: MPI.Intracomm, layouts: tuple[Cyclic, ...]) -> list[MPI.Cartcomm]:
    """The ranks beside this one on each axis of the grid, which has an axis less than the vector."""
    cart = comm.Create_cart(layouts[0].grid[1:])
    return [cart.Sub([k == axis for k in range(cart.ndim)]) for axis in range(cart.ndim)]


def fft(comm: MPI.Intracomm, lines: list[MPI.Cartcomm], part: Complex, layouts: tuple[Cyclic, ...]) -> Complex:
    for axis, layout in enumerate(layouts):
        if axis:
            part = exchanged(lines[axis - 1], part, layout.shape, axis)
        part = np.fft.fft(part, axis=axis)
        if axis < len(layouts) - 1:
            part *= twiddles(layout, axis, comm.rank)
    return part


def exchanged(comm: MPI.Cartcomm, part: Complex, shape: tuple[int, ...], axis: int) -> Complex:
    """Deal out the axis before, and make this one whole."""
    q, before = comm.size, (slice(None),) * (axis - 1)
    rows = len(range(comm.rank, shape[axis - 1], q))
    result = np.empty((*part.shape[: axis - 1], rows, shape[axis], *part.shape[axis + 1 :]), complex)
    leaving = [part[(*before, slice(other, None, q))] for other in range(q)]
    arriving = [result[(*before, slice(None), slice(other, None, q))] for other in range(q)]
    sent, received = np.empty(part.size, complex), np.empty(result.size, complex)
    for piece, room in zip(leaving, rooms(sent, leaving), strict=True):
        room[...] = piece
    comm.Alltoallv([sent, [piece.size for piece in leaving]], [received, [piece.size for piece in arriving]])
    for piece, room in zip(arriving, rooms(received, arriving), strict=True):
        piece[...] = room
    return result


def rooms(buffer: Complex, pieces: list[Complex]) -> list[Complex]:
    """The parts of a buffer for these pieces, in their shapes."""
    found = np.split(buffer, np.cumsum([piece.size for piece in pieces])[:-1])
    return [room.reshape(piece.shape) for room, piece in zip(found, pieces, strict=True)]
