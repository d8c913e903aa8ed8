"""Conjugate gradients with a sparse matrix in two dimensions."""

from __future__ import annotations

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from examples.textbook.sparse_cg import ENTRY, compressed, owners
from pybsp.layouts import Block

Vector = NDArray[np.float64]
Ints = NDArray[np.intp]


class Needs:
    """Which items of whom this rank needs, and others of it; items by their numbers in the whole vector."""

    def __init__(self, comm: MPI.Intracomm, layout: Block, items: Ints) -> None:
        self.comm = comm
        self.mine = np.bincount(layout.owner(items), minlength=comm.size)
        self.theirs = np.empty_like(self.mine)
        comm.Alltoall(self.mine, self.theirs)
        self.asked = np.empty(self.theirs.sum(), np.intp)
        comm.Alltoallv([items, self.mine], [self.asked, self.theirs])
        self.asked = layout.local(self.asked)
        self.values, self.served = np.empty(items.size), np.empty(self.asked.size)

    def get(self, x: Vector) -> Vector:
        np.take(x, self.asked, out=self.served)
        self.comm.Alltoallv([self.served, self.theirs], [self.values, self.mine])
        return self.values

    def add(self, values: Vector, y: Vector) -> None:
        self.comm.Alltoallv([values, self.mine], [self.served, self.theirs])
        np.add.at(y, self.asked, self.served)


class Matrix:
    """A sparse n * n matrix over the grid."""

    def __init__(self, comm: MPI.Intracomm, n: int, entries: NDArray[np.void]) -> None:
        p, layout = comm.size, Block(n, comm.size)
        owner = owners(layout, entries)
        send, receive = np.bincount(owner, minlength=p), np.empty(p, int)
        comm.Alltoall(send, receive)
        mine = np.empty(receive.sum(), ENTRY)
        entry = MPI.BYTE.Create_contiguous(ENTRY.itemsize).Commit()
        comm.Alltoallv([entries[np.argsort(owner, kind="stable")], send, entry], [mine, receive, entry])
        entry.Free()
        rows, columns, self.local = compressed(mine)
        self.comm, self.y = comm, np.empty(layout.sizes[comm.rank])
        self.fan_out, self.fan_in = Needs(comm, layout, columns), Needs(comm, layout, rows)

    def product(self, x: Vector) -> Vector:
        self.y[:] = 0
        self.fan_in.add(self.local @ self.fan_out.get(x), self.y)
        return self.y


def conjugate_gradients(a: Matrix, b: Vector, iterations: int, tolerance: float = 0.0) -> tuple[Vector, int]:
    comm, x, r, direction = a.comm, np.zeros_like(b), b.copy(), b.copy()
    rho = first = dot(comm, r, r)
    for k in range(iterations):
        if rho <= tolerance**2 * first:
            return x, k
        q = a.product(direction)
        alpha = rho / dot(comm, direction, q)
        x += alpha * direction
        r -= alpha * q
        old, rho = rho, dot(comm, r, r)
        direction *= rho / old
        direction += r
    return x, iterations


def dot(comm: MPI.Intracomm, x: Vector, y: Vector) -> float:
    total = np.array(x @ y)
    comm.Allreduce(MPI.IN_PLACE, total)
    return float(total)
