"""Breadth-first search and connected components."""

from __future__ import annotations

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from examples.textbook.graph import Graph

Ints = NDArray[np.int64]


def exchanged(comm: MPI.Intracomm, items: Ints, send: Ints) -> tuple[Ints, Ints]:
    """Send items that are in the order of their destinations, so many to each; returns what came, and how much."""
    receive = np.empty_like(send)
    comm.Alltoall(send, receive)
    arrived = np.empty(receive.sum(), items.dtype)
    comm.Alltoallv([items, send], [arrived, receive])
    return arrived, receive


def by_owner(comm: MPI.Intracomm, vertices: Ints) -> tuple[Ints, Ints]:
    """Vertices in the order of their owners, and how many each has."""
    owner = vertices % comm.size
    return vertices[np.argsort(owner, kind="stable")], np.bincount(owner, minlength=comm.size)


def distances(comm: MPI.Intracomm, graph: Graph, root: int) -> Ints:
    distance = np.full(graph.own.size, -1)
    new = np.flatnonzero(graph.own == root)
    level, some = 0, np.ones(1, int)
    while some[0]:
        distance[new] = level
        some[0] = new.size
        comm.Allreduce(MPI.IN_PLACE, some)
        arrived, _ = exchanged(comm, *by_owner(comm, np.unique(graph.neighbours(new))))
        new = np.unique(arrived // comm.size)
        new = new[distance[new] < 0]
        level += 1
    return distance


def components(comm: MPI.Intracomm, graph: Graph) -> Ints:
    label: Ints = graph.own.copy()
    others, send = by_owner(comm, np.unique(graph.targets))
    told, receive = exchanged(comm, others, send)
    told //= comm.size
    place = np.empty(graph.layout.shape[0], int)
    place[others] = np.arange(others.size)
    order = np.argsort(place[graph.targets], kind="stable")
    source = np.repeat(np.arange(graph.own.size), graph.degree)[order]
    first = np.flatnonzero(np.diff(place[graph.targets][order], prepend=-1))
    values, changed = np.empty(told.size, np.int64), np.ones(1, int)
    while changed[0]:
        before = label.copy()
        smallest = np.minimum.reduceat(before[source], first) if first.size else before[:0]
        comm.Alltoallv([smallest, send], [values, receive])
        np.minimum.at(label, told, values)
        changed[0] = np.count_nonzero(label != before)
        comm.Allreduce(MPI.IN_PLACE, changed)
    return label
