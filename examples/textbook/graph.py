"""Breadth-first search and connected components, of the dependencies of packages or a random graph.

The vertices are dealt out; each processor has the edges that leave its own. In a step of the search the vertices of a
level tell their neighbours, at their owners, that they are reached. For components every vertex takes the smallest
number that its neighbours have, again and again: who hears of whom is settled once, as a pattern. (R. H. Bisseling,
Parallel Scientific Computation, 2nd edition, chapter 5, has other problems on graphs in the same form.)

Supersteps:

    edges       h <= 2 * the edges that a processor finds, or has, for both directions
    level       h = the distinct neighbours of a processor's part of a level that others own, or what comes; w = the
                edges of a processor's part of the level. One superstep a level, and a last one without vertices
    pattern     h = 0: who hears of whom is settled once
    smallest    h = `pattern.cost(machine)`: the distinct neighbours of all of a processor's vertices that others own,
                or its own ones that are neighbours of others'; w = the edges of a processor. At most diameter + 2 of
                them
    check       distances and components go to processor 0: h = 2 * (n less its own)

With each "level" and "smallest" a processor tells all others, in a word, that it has vertices in the level, or labels
that have changed: h is up to p - 1 more. So nobody waits for that: the last superstep finds that there was nothing.

Run it:

    mpiexec -n 4 python examples/textbook/graph.py         # of Debian's packages, or else of this Python's
    mpiexec -n 4 python examples/textbook/graph.py --vertices 100000 --edges 500000
    pybsp simulate -p 16 examples/textbook/graph.py --vertices 1000 --edges 1500
"""

from __future__ import annotations

import argparse
import re
from importlib import metadata
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import io, sparse
from scipy.sparse import csgraph

import pybsp
from pybsp import collectives
from pybsp.layouts import Cyclic

Ints = NDArray[np.int64]

STATUS = Path("/var/lib/dpkg/status")
EDGE = np.dtype([("source", np.int64), ("target", np.int64)])


class Neighbours:
    """The neighbours of some vertices, numbered from 0 on, by the edges that leave them.

    Attributes:
        degree: how many each vertex has.
        targets: the neighbours of all vertices, those of one from `begin` to the next one's.
    """

    def __init__(self, vertices: int, source: Ints, target: Ints) -> None:
        self.degree = np.bincount(source, minlength=vertices)
        self.begin = np.cumsum(self.degree) - self.degree
        self.targets = target[np.argsort(source, kind="stable")]

    def neighbours(self, vertices: Ints) -> Ints:
        """All neighbours of some of the vertices."""
        degree = self.degree[vertices]
        shift = np.repeat(self.begin[vertices] - (np.cumsum(degree) - degree), degree)
        return np.asarray(self.targets[np.arange(shift.size) + shift])


class Graph(Neighbours):
    """An undirected graph of n vertices; made by all processors, of the edges that each one has found.

    Attributes:
        own: this processor's vertices, whose local numbers are their places here.
        reached: a queue for local numbers of vertices.
        everybody: sends an item of that queue to each processor.
    """

    def __init__(self, bsp: pybsp.BSP, n: int, found: NDArray[np.void]) -> None:
        self.bsp, self.layout, queue = bsp, Cyclic(n, bsp.p), bsp.queue(EDGE)
        with bsp.superstep("edges"):
            queue.send(self.layout.owner(found["source"]), found)
            queue.send(self.layout.owner(found["target"]), np.rec.fromarrays([found["target"], found["source"]], EDGE))
        self.own = np.arange(n)[self.layout.part(bsp.pid)]
        super().__init__(self.own.size, self.layout.local(queue.values["source"]), queue.values["target"])
        self.reached = bsp.queue(np.int64)
        self.everybody = self.reached.pattern(np.arange(bsp.p))


def distances(graph: Graph, root: int) -> Ints:
    """How many edges this processor's vertices are from the root; -1 where no path leads there."""
    bsp, reached = graph.bsp, graph.reached
    distance = np.full(graph.own.size, -1)
    new, level, going = np.flatnonzero(graph.own == root), 0, True
    while going:
        distance[new] = level
        with bsp.superstep("level"):
            neighbours = graph.neighbours(new)
            bsp.work(neighbours.size)
            reached.send(*graph.layout.places(np.unique(neighbours)))
            if new.size:
                graph.everybody.send(-1)  # no vertex: there are some in this level
        found = np.unique(reached.values)
        new, level, going = found[1:], level + 1, found.size > 0
        new = new[distance[new] < 0]
    return distance


def components(graph: Graph) -> Ints:
    """The smallest number in the component of each of this processor's vertices."""
    bsp, n, edges = graph.bsp, graph.layout.shape[0], graph.targets.size
    # Behind the vertices is a place of each processor, for minus how many of its labels have changed: all hear of all.
    label = bsp.register(np.append(graph.own, -1), Cyclic(n + bsp.p, bsp.p))
    with bsp.superstep("pattern"):
        heard = label.global_pattern(np.append(graph.targets, np.arange(n, n + bsp.p)))
    joined = np.append(np.flatnonzero(graph.degree), -1)
    first, going = np.append(graph.begin[joined[:-1]], edges), True
    while going:
        with bsp.superstep("smallest"):
            ticket = heard.get()
            bsp.work(edges)
        smallest, before = np.minimum.reduceat(ticket.value, first), label.local[joined]
        label.local[joined] = np.minimum(smallest, before)
        label.local[-1] = -np.count_nonzero((smallest < before)[:-1])
        going = smallest[-1] < 0
    label.free()
    return label.local[:-1]


def packages() -> tuple[list[str], NDArray[np.void]]:
    """The packages that Debian's package manager knows of here, and which of them depend on which.

    Where there is no Debian, those of this Python.
    """
    needs = debians_packages() if STATUS.exists() else pythons_packages()
    names = sorted(needs)
    number = {name: vertex for vertex, name in enumerate(names)}
    edges = [(number[name], number[other]) for name in names for other in needs[name] if other in number]
    return names, np.array(edges, EDGE)


def debians_packages() -> dict[str, list[str]]:
    """What each package needs, or one of which it needs."""
    fields = [dict(re.findall(r"^([A-Z][-\w]*): (.*)", text, re.M)) for text in STATUS.read_text().split("\n\n")]
    needs: dict[str, list[str]] = {each["Package"]: [] for each in fields if each}
    for each in filter(None, fields):
        needs[each["Package"]] += re.findall(r"[a-z0-9][-+.\w]+", re.sub(r"\(.*?\)", "", each.get("Depends", "")))
    return needs


def pythons_packages() -> dict[str, list[str]]:
    """What each installed distribution needs."""

    def plain(name: str) -> str:
        return re.sub(r"[-_.]+", "-", name).lower()

    return {
        plain(each.metadata["Name"]): [
            plain(re.findall(r"[\w.-]+", need)[0]) for need in each.requires or () if "extra ==" not in need
        ]
        for each in metadata.distributions()
    }


def laplacian(n: int, edges: NDArray[np.void]) -> sparse.csr_matrix:
    """The Laplace operator of an undirected graph, and 1 more on its diagonal: symmetric and positive definite."""
    ones = np.ones(edges.size)
    directed = sparse.csr_matrix((ones, (edges["source"], edges["target"])), (n, n))
    beside = (directed + directed.T).sign()
    return sparse.csr_matrix(csgraph.laplacian(beside) + sparse.identity(n))


def random_edges(vertices: int, edges: int, pid: int, p: int) -> NDArray[np.void]:
    """A processor's share of random edges, which are the same ones for every p."""
    whole = np.empty(edges, EDGE)
    whole["source"], whole["target"] = np.random.default_rng(edges).integers(vertices, size=(2, edges))
    return np.asarray(whole[pid::p])


def main(
    bsp: pybsp.BSP, vertices: int | None = None, edges: int = 0, root: str | None = None
) -> tuple[Ints, Ints] | None:
    """Distances from a package (None: vertex 0), and components by their smallest vertex, on processor 0."""
    if (vertices is not None and vertices < 1) or edges < 0:
        raise ValueError(f"graph: expected at least 1 vertex and 0 edges, got {vertices} and {edges}")
    found, number = np.empty(0, EDGE), 0
    if vertices is not None:
        found = random_edges(vertices, edges, bsp.pid, bsp.p)
    elif bsp.pid == 0:
        names, found = packages()
        if root is not None and root not in names:
            raise ValueError(f"graph: --root: expected one of the {len(names)} packages here, got {root!r}")
        vertices, number = len(names), 0 if root is None else names.index(root)
    with bsp.label("size"):
        n, number = collectives.broadcast(bsp, (vertices, number) if bsp.pid == 0 else None)
    graph = Graph(bsp, n, found)
    results = distances(graph, number), components(graph)
    with bsp.label("check"):
        parts = collectives.gather(bsp, np.column_stack(results))
        all_found = collectives.gather_blocks(bsp, found)
    if parts is None or all_found is None:
        return None
    whole = np.empty((n, 2), np.int64)
    for pid, part in enumerate(parts):
        whole[graph.layout.part(pid)] = part
    distance, component = whole.T
    check(n, all_found[0], number, distance, component)
    print(
        f"p = {bsp.p}, {n} vertices, {all_found[0].size} edges: {np.count_nonzero(distance >= 0)} are at most "
        f"{distance.max()} from vertex {number}; {np.unique(component).size} components"
    )
    print("agrees with scipy's")
    return distance, component


def check(n: int, edges: NDArray[np.void], root: int, distance: Ints, component: Ints) -> None:
    """Compare with scipy on one processor."""
    matrix = sparse.csr_matrix((np.ones(edges.size), (edges["source"], edges["target"])), (n, n))
    expected = csgraph.dijkstra(matrix, directed=False, indices=root, unweighted=True)
    _, label = csgraph.connected_components(matrix, directed=False)
    smallest = np.full(n, n)
    np.minimum.at(smallest, label, np.arange(n))
    if not np.array_equal(np.where(np.isinf(expected), -1, expected), distance):
        raise ArithmeticError("graph: distances differ from scipy's")
    if not np.array_equal(smallest[label], component):
        raise ArithmeticError("graph: components differ from scipy's")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Search and components of a graph, of packages here by default.")
    parser.add_argument("--vertices", type=int, help="a random graph with so many vertices instead")
    parser.add_argument("--edges", type=int, default=1000, help="edges of the random graph (default: %(default)s)")
    parser.add_argument("--root", help="package to search from (default: the first)")
    parser.add_argument("--matrix", help="write the packages' Laplace operator to a Matrix Market file, and end")
    options = parser.parse_args()
    if options.matrix is not None:
        names, found = packages()
        io.mmwrite(options.matrix, laplacian(len(names), found), symmetry="symmetric")
    else:
        pybsp.run(main, vertices=options.vertices, edges=options.edges, root=options.root)
