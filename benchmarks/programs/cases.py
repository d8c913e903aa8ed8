"""What is run of each program: on which input, by pybsp and by mpi4py, and whose lines are counted."""

from __future__ import annotations

import inspect
import io
import tokenize
from ast import ClassDef as Class
from ast import Constant, Expr, Module, get_docstring, parse, walk
from ast import FunctionDef as Function
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

import pybsp
from examples.textbook import fft, graph, inner_product, kmeans, lu, matrix_product, record_sort, sieve, sparse_cg
from pybsp.layouts import Block, Cyclic

from .mpi import fft as mpi_fft
from .mpi import graph as mpi_graph
from .mpi import lu as mpi_lu
from .mpi import matrix_product as mpi_matrix_product
from .mpi import record_sort as mpi_record_sort
from .mpi import sparse_cg as mpi_sparse_cg
from .mpi import vectors as mpi_vectors

Thunk = Callable[[], Any]


class Case(NamedTuple):
    """A program on an input.

    Attributes:
        name: with its size.
        ours, theirs: run it, and return this processor's result.
        our_source, their_source: functions and classes whose lines are counted: all that sends, is called to send, or
            makes groups and communicators; not what both take from examples/textbook, which sends nothing.
        wanted: the ratio of times that ours is to have on a node, at most; None: none was set.
        equal: whether the results must be equal bit for bit.
        placed: whether the programs leave it to the input where a result is, so that it is compared by processor.
    """

    name: str
    ours: Thunk
    theirs: Thunk
    our_source: tuple[Any, ...]
    their_source: tuple[Any, ...]
    wanted: float | None = None
    equal: bool = False
    placed: bool = True


def cases(bsp: pybsp.BSP, comm: MPI.Intracomm, quick: bool) -> Iterator[Case]:
    """All of them, made one after the other; collective.

    Args:
        bsp: of the processors of `comm`.
        comm: for the programs in mpi4py, which nothing is asked of before they run.
        quick: small inputs.
    """
    p, pid, small = bsp.p, bsp.pid, 100 if quick else 1

    n = 10**6 // small
    x = np.random.default_rng(pid).normal(size=n // p)
    yield Case(
        f"inner product, {n}",
        lambda: inner_product.inner_product(bsp, x, x),
        lambda: mpi_vectors.inner_product(comm, x, x),
        (inner_product.inner_product,),
        (mpi_vectors.inner_product,),
        wanted=1.03,
    )

    numbers = 10**7 // small
    yield Case(
        f"sieve, {numbers}",
        lambda: sieve.count(bsp, numbers),
        lambda: mpi_vectors.count(comm, numbers),
        (sieve.count,),
        (mpi_vectors.count,),
        wanted=1.03,
        equal=True,
    )

    points = kmeans.some_points(Block(n, p), pid, 8)
    centres = np.random.default_rng(1).uniform(-10, 10, (8, 8))
    yield Case(
        f"k-means, {n} x 8, 3 steps",
        lambda: kmeans.kmeans(bsp, points, centres, 3),
        lambda: mpi_vectors.kmeans(comm, points, centres, 3),
        (kmeans.kmeans,),
        (mpi_vectors.kmeans,),
        wanted=1.03,
    )

    length = 2**12 if quick else 2**18
    layouts = fft.layouts_for(length, p)
    vector = np.random.default_rng(2).normal(size=length) + 0j
    part = vector.reshape(layouts[0].shape)[layouts[0].part(pid)].copy()
    lines_of_grid = cache(lambda: mpi_fft.lines_of_grid(comm, layouts))
    yield Case(
        f"FFT, {length}",
        lambda: fft.fft(bsp, part, layouts),
        lambda: mpi_fft.fft(comm, lines_of_grid(), part, layouts),
        (fft.fft,),
        (mpi_fft.lines_of_grid, mpi_fft.fft, mpi_fft.exchanged, mpi_fft.rooms),
        wanted=1.03,
    )

    records = record_sort.random_records(n, pid)
    yield Case(
        f"sort, {n} records a rank",
        lambda: record_sort.record_sort(bsp, records),
        lambda: mpi_record_sort.record_sort(comm, records),
        (record_sort.record_sort,),
        (mpi_record_sort.record_sort,),
        wanted=0.8,
        equal=True,
        placed=False,
    )

    side = 10 if quick else 46
    rows = Block(side**3, p)
    entries = sparse_cg.poisson(side, rows.part(pid)[0])
    ours, theirs = sparse_cg.Matrix(bsp, side**3, entries), cache(lambda: mpi_sparse_cg.Matrix(comm, side**3, entries))
    b = np.cos(np.arange(side**3.0))[rows.part(pid)]
    yield Case(
        f"CG, {side}^3 rows, 50 iterations",
        lambda: sparse_cg.conjugate_gradients(ours, b, 50)[0],
        lambda: mpi_sparse_cg.conjugate_gradients(theirs(), b, 50)[0],
        (sparse_cg.Matrix, sparse_cg.conjugate_gradients, sparse_cg.dot),
        (mpi_sparse_cg.Needs, mpi_sparse_cg.Matrix, mpi_sparse_cg.conjugate_gradients, mpi_sparse_cg.dot),
        wanted=1.1,
    )

    size = 60 if quick else 300
    for grid_rows in sorted({p, 1}, reverse=True):
        yield lu_case(bsp, comm, size, grid_rows)

    vertices = 10**5 // small
    names, found = graph.packages()
    random = graph.random_edges(vertices, 5 * vertices, pid, p)
    yield from graph_cases(bsp, comm, "random", vertices, random)
    yield from graph_cases(bsp, comm, "packages'", len(names), found[pid::p])

    layers = next(c for c in range(1, p + 1) if p % c == 0 and np.sqrt(p // c) % 1 == 0)
    places, mpi_places = matrix_product.Layers(bsp, layers), cache(lambda: mpi_matrix_product.Layers(comm, layers))
    a, c = np.random.default_rng(3).normal(size=(2, size, size))
    of_a, of_b, _ = matrix_product.parts_of(places, size)
    block_a, block_b = np.ascontiguousarray(a[of_a]), np.ascontiguousarray(c[of_b])
    yield Case(
        f"matrix product, {size} x {size}",
        lambda: matrix_product.product(bsp, places, block_a, block_b),
        lambda: mpi_matrix_product.product(mpi_places(), block_a, block_b),
        (matrix_product.Layers, matrix_product.product),
        (mpi_matrix_product.Layers, mpi_matrix_product.product, mpi_matrix_product.gathered),
    )


def lu_case(bsp: pybsp.BSP, comm: MPI.Intracomm, n: int, rows: int) -> Case:
    grid, mpi_grid = lu.grid_of(bsp, rows), cache(lambda: mpi_lu.grid_of(comm, rows))
    a = np.random.default_rng(4).normal(size=(n, n))[Cyclic((n, n), (grid.rows, grid.columns)).part(bsp.pid)]
    return Case(
        f"LU, {n} x {n}, grid {'p x 1' if rows > 1 else '1 x p'}",
        lambda: lu.lu(bsp, grid, a.copy(), n),
        lambda: mpi_lu.lu(*mpi_grid(), a.copy(), n),
        (lu.grid_of, lu.lu, lu.pivot_of),
        (mpi_lu.grid_of, mpi_lu.lu),
        wanted=1.1,
        equal=True,
    )


def graph_cases(
    bsp: pybsp.BSP, comm: MPI.Intracomm, name: str, vertices: int, edges: NDArray[np.void]
) -> Iterator[Case]:
    ours, theirs = graph.Graph(bsp, vertices, edges), cache(lambda: mpi_graph.Graph(comm, vertices, edges))
    yield Case(
        f"search, {name} graph",
        lambda: graph.distances(ours, 0),
        lambda: mpi_graph.distances(comm, theirs(), 0),
        (graph.Graph, graph.distances),
        (mpi_graph.Graph, mpi_graph.distances, mpi_graph.by_owner),
        wanted={"packages'": 1.2}.get(name),
        equal=True,
    )
    yield Case(
        f"components, {name} graph",
        lambda: graph.components(ours),
        lambda: mpi_graph.components(comm, theirs()),
        (graph.components,),
        (mpi_graph.components, mpi_graph.by_target),  # Graph and by_owner are counted with the search
        wanted={"random": 0.8, "packages'": 1.2}[name],
        equal=True,
    )


def lines(source: tuple[Any, ...]) -> int:
    """Lines of these functions and classes, without blanks, comments and docstrings."""
    return sum(map(lines_of, map(inspect.getsource, source)))


def lines_of(text: str) -> int:
    """Lines with code on them.

    Examples:
        >>> lines_of('def f(x):\\n    \"\"\"Of x.\\n\\n    \"\"\"\\n    # why\\n\\n    return (x +\\n            1)\\n')
        3
    """
    blank = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    found = {line for token in tokens if token.type not in blank for line in range(token.start[0], token.end[0] + 1)}
    for node in walk(parse(text)):
        if isinstance(node, (Module, Function, Class)) and get_docstring(node) is not None:
            first = node.body[0]
            assert isinstance(first, Expr)
            assert isinstance(first.value, Constant)
            found -= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return len(found)
