"""C = A B with all matrices in q1 x q2 blocks (*The E-BSP model*, section 5, Theorem 9)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ...bsp import BSP
from ...machines.cost import Cost, Machine, Superstep
from ...rides.ride import Supersteps
from ..arguments import check_machine, plain_dtype
from ..blocks import begins
from ..plan import Plan, Step, joined
from ..primitive import Call, primitive, sources
from ..values import own_argument
from .partition import Grid, checked_block, checked_grid, checked_machine, checked_sizes, factorizations

Matrix = NDArray[Any]
Sizes = tuple[int, int, int]


def plan(p: int, sizes: Sizes, q: tuple[int, int]) -> Plan:
    """Who sends which block to whom: first the blocks of A along the rows of processors, where items are columns of A,
    then those of B along the columns of processors, where items are rows of B.
    """
    along_rows, along_columns = _stages(
        _sizes("matrix_multiplication.plan", sizes), checked_grid("matrix_multiplication.plan", q, p)
    )
    return joined(p, along_rows + along_columns)


@lru_cache(maxsize=32)
def _stages(sizes: Sizes, grid: Grid) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
    """The supersteps that spread A, and those that spread B."""
    n, k, m = sizes
    rows = np.arange(min(grid.q1, n)) * grid.q2
    columns = np.arange(min(grid.q2, m))
    return tuple(_pipelined(rows, 1, begins(k, grid.q2))), tuple(_pipelined(columns, grid.q2, begins(k, grid.q1)))


def _pipelined(lines: NDArray[Any], far: int, block: NDArray[Any]) -> Iterator[Step]:
    """Gossip in lines of processors, which start at `lines` and whose neighbours are `far` apart in number.

    The processor in place b of a line has the items block[b] to block[b + 1] - 1. Empty blocks are not sent.
    """
    if not lines.size:
        return
    length = block.size - 1
    filled = min(length, int(block[-1]))

    def moved(blocks: NDArray[Any], place: NDArray[Any], way: int) -> Step:
        here = (lines[:, None] + place * far).ravel()
        first, last = (np.tile(bound, lines.size) for bound in (block[blocks], block[blocks + 1]))
        return Step.of(here, here + way * far, first, last)

    # (1) Forward, in superstep s: place j >= s sends block j - s to place j + 1.
    for s in range(length - 1 if filled else 0):
        blocks = np.arange(min(length - 1 - s, filled))
        yield moved(blocks, blocks + s, 1)
    # (2) Backward, in superstep s: place j <= q - s - 1 sends block j + s to place j - 1.
    for s in range(filled - 1):
        blocks = np.arange(s + 1, filled)
        yield moved(blocks, blocks - s, -1)


@lru_cache(maxsize=64)
def _counted(sizes: Sizes, grid: Grid, itemsizes: tuple[int, int]) -> tuple[Superstep, ...]:
    """What each superstep of the plan is charged for, without making the plan: it has p * (q1 + q2) messages."""
    n, k, m = sizes
    row, column = np.diff(begins(n, grid.q1)), np.diff(begins(m, grid.q2))
    return (
        *_counted_lines(row, np.diff(begins(k, grid.q2)), itemsizes[0], 1),
        *_counted_lines(column, np.diff(begins(k, grid.q1)), itemsizes[1], grid.q2),
    )


def _counted_lines(width: NDArray[Any], depth: NDArray[Any], itemsize: int, far: int) -> Iterator[Superstep]:
    """The supersteps of `_pipelined` with blocks of width[line] x depth[place] elements; both fall."""
    words = -(-np.multiply.outer(depth, width) * itemsize // 8)
    largest = words[:, 0].tolist()
    filled = int(np.count_nonzero(largest))
    # Words of the blocks before each place, all lines together.
    before = [0, *np.cumsum(words.sum(axis=1)).tolist()]
    for s in range(len(largest) - 1 if filled else 0):
        yield Superstep(largest[0], largest[0], 1, before[min(len(largest) - 1 - s, filled)], 0.0, far)
    for s in range(filled - 1):
        yield Superstep(largest[s + 1], largest[s + 1], 1, before[-1] - before[s + 1], 0.0, far)


def _cost(machine: Machine, sizes: Sizes, itemsizes: tuple[int, int], grid: Grid) -> Cost:
    """What it costs on a grid."""
    n, k, m = sizes
    work = 2.0 * k * (-(-n // grid.q1)) * (-(-m // grid.q2))
    return Cost(machine, _counted(sizes, grid, itemsizes), work)


def _choose(machine: Machine, sizes: Sizes, itemsizes: tuple[int, int]) -> Grid:
    return min(factorizations(machine.p), key=lambda grid: _cost(machine, sizes, itemsizes, grid).seconds)


def matrix_multiplication_grid(
    machine: Machine, sizes: Sizes, dtype: DTypeLike = np.float64, dtype_b: DTypeLike | None = None
) -> Grid:
    """The grid that `matrix_multiplication` takes for matrices of these sizes and dtypes (of b: None is that of a).

    Examples:
        >>> from pybsp.collectives import ebsp
        >>> ebsp.matrix_multiplication_grid(pybsp.EBSPMachine.linear_array(16), (64, 64, 64))
        Grid(q1=4, q2=4)
    """
    check_machine("matrix_multiplication_grid", machine)
    return _choose(
        machine, _sizes("matrix_multiplication_grid", sizes), _itemsizes("matrix_multiplication_grid", dtype, dtype_b)
    )


def cost(
    machine: Machine,
    sizes: Sizes,
    dtype: DTypeLike = np.float64,
    dtype_b: DTypeLike | None = None,
    q: tuple[int, int] | None = None,
) -> Cost:
    """What multiplying an n x k by a k x m matrix costs, exactly; dtype_b None: that of a; q None: what is chosen."""
    sizes = _sizes("matrix_multiplication.cost", sizes)
    itemsizes = _itemsizes("matrix_multiplication.cost", dtype, dtype_b)
    grid = _choose(machine, sizes, itemsizes) if q is None else checked_grid("matrix_multiplication.cost", q, machine.p)
    return _cost(machine, sizes, itemsizes, grid)


def _itemsizes(name: str, dtype: Any, dtype_b: Any) -> tuple[int, int]:
    """Bytes of an element of a and of b, by the arguments."""
    a = plain_dtype(name, dtype)
    return a.itemsize, a.itemsize if dtype_b is None else plain_dtype(name, dtype_b, "dtype_b").itemsize


def _sizes(name: str, sizes: Any) -> Sizes:
    """The argument sizes."""
    n, k, m = checked_sizes(name, "sizes", sizes, "(n, k, m)")
    return n, k, m


@primitive(cost, plan)
def matrix_multiplication(
    bsp: BSP,
    a: Matrix,
    b: Matrix,
    sizes: Sizes,
    q: tuple[int, int] | None = None,
    machine: Machine | None = None,
) -> Supersteps[Matrix]:
    """Multiply matrices in q1 x q2 blocks, C = A B, by pipelining the blocks between neighbours; collective.

    The block (i, j) of each matrix is on processor i*q2 + j; it may be empty.

    Args:
        bsp: the processor.
        a: this processor's block of A, `A[grid.block((n, k), bsp.pid)]` with
            `grid = matrix_multiplication_grid(bsp.machine, (n, k, m))`, or a Grid that is given as `q`. An array of
            numbers; one dtype on all processors.
        b: this processor's block of B, `B[grid.block((k, m), bsp.pid)]`; likewise.
        sizes: (n, k, m): A is n x k, B is k x m. Equal on all processors.
        q: (q1, q2), with q1*q2 = p; None: the cheapest on the machine. Equal on all processors.
        machine: by which q is chosen, a BSPMachine or EBSPMachine of p processors; None: `bsp.machine`. Equal on all
            processors.

    Returns:
        This processor's block of C, `C[grid.block((n, m), bsp.pid)]`, of the dtype of `a @ b`.

    Raises:
        UsageError: a block or q that does not fit, or arguments that differ.

    BSP cost: 2*(q2 - 1) supersteps of n*k/p words with locality 1, 2*(q1 - 1) of k*m/p words with locality q2, and
    2*n*k*m/p flop; `matrix_multiplication.cost` has it exactly.

    Source: *The E-BSP model*, section 5, Theorem 9.

    Examples:
        >>> from pybsp.collectives import ebsp
        >>> a, b = np.arange(12.0).reshape(4, 3), np.ones((3, 2))
        >>> def main(bsp):
        ...     grid = ebsp.Grid(2, 2)
        ...     mine = a[grid.block((4, 3), bsp.pid)], b[grid.block((3, 2), bsp.pid)]
        ...     return ebsp.matrix_multiplication(bsp, *mine, sizes=(4, 3, 2), q=(2, 2))
        >>> blocks = pybsp.simulate(main, p=4).results
        >>> bool((np.block([blocks[:2], blocks[2:]]) == a @ b).all())
        True
    """
    name = "matrix_multiplication"
    n, k, m = sizes = _sizes(name, sizes)
    by = checked_machine(name, machine, bsp)
    pid = bsp.pid
    if q is None:
        itemsizes = tuple(x.dtype.itemsize if isinstance(x, np.ndarray) else 8 for x in (a, b))
        grid = _choose(by, sizes, (itemsizes[0], itemsizes[1]))
    else:
        grid = checked_grid(name, q, bsp.p)
    a = checked_block(name, "a", a, (n, k), grid, pid)
    b = checked_block(name, "b", b, (k, m), grid, pid)
    call = Call(bsp, name, sizes=sizes, q=tuple(grid), a=a.dtype, b=b.dtype)
    along_rows, along_columns = _stages(sizes, grid)
    call.ends(len(along_rows) + len(along_columns))
    b = own_argument(b)  # it is read after the syncs of (1)
    # (1) The blocks of A go along the row of processors: locality 1. They are held with their columns as rows, so that
    # what is sent is contiguous.
    left = yield from _gossiped(call, a.T, grid.block((n, k), pid)[1], k, along_rows)
    # (2) The blocks of B go along the column of processors: locality q2.
    right = yield from _gossiped(call, b, grid.block((k, m), pid)[0], k, along_columns)
    # (3) Each processor multiplies its rows of A by its columns of B.
    product: Matrix = left.T @ right
    bsp.work(2.0 * product.size * k)
    return product


def _gossiped(call: Call, block: Matrix, own: slice, k: int, steps: tuple[Step, ...]) -> Supersteps[Matrix]:
    """All k rows of what the processors of a line have parts of; the part of this one is `block`, at `own`."""
    pid = call.bsp.pid
    rows = np.empty((k, block.shape[1]), block.dtype)
    rows[own] = block
    for step in steps:
        for dest, first, last in step.sends(pid):
            call.send(dest, rows[first:last])
        received = step.receives(pid)
        letters = yield from call.sync(sources(received))
        for letter, (_, first, last) in zip(letters, received, strict=True):
            rows[first:last] = letter.payload
    return rows
