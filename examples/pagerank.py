"""PageRank of the import graph of this Python's own standard library.

A vertex is a module, an edge an import. The vertices are distributed in blocks; a vertex's owner keeps its rank and its
out-edges (L. Page et al., The PageRank citation ranking, 1999; ranks of modules that import nothing go to all).

Supersteps, for n vertices and E edges:

    names       processor 0 tells all which modules there are: `collectives.broadcast.cost` of the names; none for p = 1
    edges       w = the parsing of n/p sources; h <= 2 * the edges that a processor finds, or owns
    pattern     h = 0: which vertices get shares from where is settled once
    iterate     w = n/p + the edges that a processor owns, for the shares, and 6 * n/p + arrivals, for the ranks,
                with 2 * (p - 1) for the totals;
                h <= 2 * (p - 1) + the distinct ends of a processor's edges, or 2 * (p - 1) + arrivals.
                One superstep an iteration: the totals by which all decide whether to stop ride with the next shares
    allreduce   the rest of the totals' way, where there are more than AT_ONCE processors:
                `collectives.allreduce.cost` of 2 words and that degree, less its first superstep
    check       all ranks and edges go to processor 0: h <= n + 2 * E

Run it:

    mpiexec -n 4 python examples/pagerank.py
    pybsp run -n 4 examples/pagerank.py
    pybsp simulate -p 64 examples/pagerank.py --modules 100
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import os
import platform
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import pybsp
from pybsp import collectives
from pybsp.layouts import Block

STDLIB = Path(sysconfig.get_paths()["stdlib"])
SKIPPED = {"site-packages", "dist-packages", "test", "tests", "idle_test"}

AT_ONCE = 16  # processors of which each sends its totals to every other

EDGE = np.dtype([("source", np.int64), ("target", np.int64)])


class Ranking(NamedTuple):
    """What processor 0 returns; `ranks` by module, highest first."""

    ranks: dict[str, float]
    edges: int
    iterations: int
    difference: float


def main(bsp: pybsp.BSP, modules: int | None = None, damping: float = 0.85, tolerance: float = 1e-10) -> Ranking | None:
    """PageRank of the first `modules` modules (None: all), until the ranks change by less than `tolerance` in all."""
    edge_queue = bsp.queue(EDGE)

    with bsp.label("names"):
        paths: list[str] = collectives.broadcast(bsp, source_files()[:modules] if bsp.pid == 0 else None)
    names = [module_name(path) for path in paths]
    n = len(names)
    layout = Block(n, bsp.p)
    received = bsp.array(layout)

    with bsp.superstep("edges"):
        # Big sources are neighbours by name: dealing them out balances the parsing better than blocks do.
        found = np.array(list(edges_of(names, paths, range(bsp.pid, n, bsp.p))), EDGE)
        edge_queue.send(layout.owner(found["source"]), found)
    edges = edge_queue.values.copy()

    source = layout.local(edges["source"])
    degree = np.bincount(source, minlength=received.local.size)
    # Shares for the same vertex are added up here: they travel as one.
    targets, slot = np.unique(edges["target"], return_inverse=True)
    with bsp.superstep("pattern"):
        shares = received.global_pattern(targets)
    rank = np.full(degree.size, 1 / n)
    change = np.inf
    iterations = 0
    while True:
        with bsp.superstep("iterate"):
            given = rank / np.maximum(degree, 1)
            received.local[:] = 0
            shares.put(np.bincount(slot, given[source], targets.size), np.add)
            bsp.work(rank.size + source.size)
            # To p - 1 others at once: their sums are there with the shares, after one superstep; of very many
            # processors, which would have very many messages, after one more.
            mine = np.array((rank[degree == 0].sum(), change))
            totals = collectives.allreduce.start(bsp, mine, np.add, degree=min(max(bsp.p, 2), AT_ONCE))
        dangling, changed = totals.finish()
        if changed < tolerance:
            break
        new = (1 - damping) / n + damping * (received.local + dangling / n)
        change = np.abs(new - rank).sum()
        bsp.work(shares.served + 6 * rank.size)
        rank = new
        iterations += 1

    with bsp.superstep("check"):
        all_ranks, all_edges = (collectives.gather_blocks.start(bsp, block) for block in (rank, edges))
    ranking = None
    if all_ranks.value and all_edges.value:  # on processor 0
        ranks, graph = all_ranks.value[0], all_edges.value[0]
        expected = sequential(n, graph["source"], graph["target"], damping, tolerance)
        difference = float(np.abs(ranks - expected).max())
        if not difference <= tolerance:
            raise ArithmeticError(f"pagerank: differs from the sequential power iteration by {difference:.3g}")
        best = sorted(zip(-ranks, names, strict=True))
        ranking = Ranking({name: -float(negative) for negative, name in best}, graph.size, iterations, difference)
        print_ranking(ranking, bsp.p)
    ledger = bsp.ledger
    if bsp.pid == 0:
        print_costs(ledger)
    return ranking


def source_files() -> list[str]:
    """The sources of the standard library's modules, as sorted paths below STDLIB."""
    found = []
    for folder, inner, files in os.walk(STDLIB):
        inner[:] = [name for name in inner if name.isidentifier() and name not in SKIPPED]
        found += [Path(folder, name).relative_to(STDLIB).as_posix() for name in files if name.endswith(".py")]
    return sorted(found)


def module_name(path: str) -> str:
    """The module whose source has that path: "a/b.py" and "a/b/__init__.py" are a.b."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def edges_of(names: list[str], paths: list[str], vertices: range) -> Iterator[tuple[int, int]]:
    """The edges that leave these vertices, without loops, and each once."""
    number = {name: vertex for vertex, name in enumerate(names)}
    for vertex in vertices:
        name, path = names[vertex], paths[vertex]
        package = name if path.endswith("/__init__.py") else name.rpartition(".")[0]
        imported = set(imports((STDLIB / path).read_bytes(), package)) - {name}
        for other in sorted(imported & number.keys()):
            yield vertex, number[other]


def imports(text: bytes | str, package: str) -> Iterator[str]:
    """What a source may import: `from a import b` is a, and a.b in case that is a module too."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def sequential(
    n: int, source: NDArray[np.int64], target: NDArray[np.int64], damping: float, tolerance: float
) -> NDArray[np.float64]:
    """The ranks by power iteration on one processor."""
    degree = np.bincount(source, minlength=n)
    rank, change = np.full(n, 1 / n), np.inf
    while change >= tolerance:
        given = rank / np.maximum(degree, 1)
        received = np.bincount(target, given[source], n) + rank[degree == 0].sum() / n
        new = (1 - damping) / n + damping * received
        rank, change = new, np.abs(new - rank).sum()
    return rank


def print_ranking(ranking: Ranking, p: int) -> None:
    print(f"PageRank of the import graph of Python {platform.python_version()}'s standard library")
    print(f"p = {p}, {len(ranking.ranks)} modules, {ranking.edges} edges, {ranking.iterations} iterations")
    print()
    for place, (name, rank) in enumerate(list(ranking.ranks.items())[:10], 1):
        print(f"{place:4}  {rank:.6f}  {name}")
    print()
    print(f"agrees with a sequential power iteration (largest difference {ranking.difference:.1e})")
    print()


def print_costs(ledger: pybsp.Ledger) -> None:
    """What each kind of superstep cost: computing and exchange, and the exchange as predicted by a measured machine."""
    machine = ledger.machine
    calibrated = isinstance(machine, pybsp.BSPMachine) and machine.calibrated
    print("label    supersteps  h [words]  M [words]  computing [ms]  waiting [ms]  exchange [ms]", end="")
    print("  predicted/measured" if calibrated else "")
    for cost in (*ledger.totals(), ledger.total):
        print(
            f"{cost.label:8} {cost.supersteps:10} {cost.h:10} {cost.M:10} "
            f"{cost.seconds * 1e3:15.3f} {cost.waiting * 1e3:13.3f} {cost.exchange * 1e3:14.3f}",
            f" {cost.exchange_predicted / cost.exchange:18.2f}" if calibrated and cost.exchange else "",
        )
    if ledger.virtual:
        print("on virtual processors: the exchange is what g and l make it, computing the work that is charged")
    elif not calibrated:
        print("exchange predicted/measured: `pybsp run --calibrate` measures the machine first, and finds it again")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="PageRank of the import graph of Python's standard library.")
    parser.add_argument("--modules", type=int, help="take only the first MODULES modules (default: all)")
    options = parser.parse_args()
    if options.modules is not None and options.modules < 1:
        parser.error(f"argument --modules: expected at least 1, got {options.modules}")
    pybsp.run(main, modules=options.modules)
