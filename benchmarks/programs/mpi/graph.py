"""Breadth-first search and connected components."""

from __future__ import annotations

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from examples.textbook.graph import Neighbours

Ints = NDArray[np.int64]


class Graph(Neighbours):
    """An undirected graph of n vertices, dealt out; made by all ranks, of the edges that each one has found."""

    def __init__(self, comm: MPI.Intracomm, n: int, found: NDArray[np.void]) -> None:
        edges = np.column_stack((found["source"], found["target"]))
        edges = np.concatenate((edges, edges[:, ::-1]))
        order, send = by_owner(comm, edges[:, 0])
        receive = np.empty_like(send)
        comm.Alltoall(send, receive)
        arrived = np.empty((receive.sum(), 2), np.int64)
        comm.Alltoallv([edges[order], 2 * send], [arrived, 2 * receive])
        self.own = np.arange(comm.rank, n, comm.size)
        super().__init__(self.own.size, arrived[:, 0] // comm.size, arrived[:, 1])


def by_owner(comm: MPI.Intracomm, vertices: Ints) -> tuple[Ints, Ints]:
    """The order of vertices by their owners, and how many each has."""
    owner = vertices % comm.size
    return np.argsort(owner, kind="stable"), np.bincount(owner, minlength=comm.size)


def by_target(graph: Graph) -> tuple[Ints, Ints, Ints]:
    """The edges in the order of their far ends: their near ends, by local number; the distinct far ends; and where the
    edges of each of these begin, so that the smallest of those that tell it is a reduction of neighbours.
    """
    order = np.argsort(graph.targets, kind="stable")
    targets = graph.targets[order]
    first = np.flatnonzero(np.diff(targets, prepend=-1))
    return np.repeat(np.arange(graph.own.size), graph.degree)[order], targets[first], first


def distances(comm: MPI.Intracomm, graph: Graph, root: int) -> Ints:
    distance = np.full(graph.own.size, -1)
    new, level = np.flatnonzero(graph.own == root), 0
    send, receive = np.empty((2, comm.size, 2), int)  # how much for each, and how large the level is here
    while True:
        distance[new] = level
        vertices = np.unique(graph.neighbours(new))
        order, send[:, 0] = by_owner(comm, vertices)
        send[:, 1] = new.size
        comm.Alltoall(send, receive)
        if not receive[:, 1].any():
            return distance
        arrived = np.empty(receive[:, 0].sum(), np.int64)
        comm.Alltoallv([vertices[order], send[:, 0]], [arrived, receive[:, 0]])
        new = np.unique(arrived // comm.size)
        new, level = new[distance[new] < 0], level + 1


def components(comm: MPI.Intracomm, graph: Graph) -> Ints:
    label: Ints = graph.own.copy()
    source, targets, first = by_target(graph)
    order, send = by_owner(comm, targets)
    receive = np.empty_like(send)
    comm.Alltoall(send, receive)
    told = np.empty(receive.sum(), np.int64)
    comm.Alltoallv([targets[order], send], [told, receive])
    told //= comm.size
    values, changed = np.empty(told.size, np.int64), np.ones(1, int)
    while changed[0]:
        before = label.copy()
        comm.Alltoallv([np.minimum.reduceat(before[source], first)[order], send], [values, receive])
        np.minimum.at(label, told, values)
        changed[0] = np.count_nonzero(label != before)
        comm.Allreduce(MPI.IN_PLACE, changed)
    return label
