"""Matrices cut into q1 x q2 blocks, one for each processor (*The E-BSP model*, section 5, figure 3).

Block (i, j) belongs to processor i*q2 + j, so neighbours in a row of blocks are neighbours in number, and those in a
column are q2 apart. Rows and columns are divided nearly equally: the first n mod q parts have one more. Where there are
fewer than parts, the last parts are empty.
"""

from __future__ import annotations

from functools import lru_cache
from math import isqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...bsp import BSP
from ...errors import UsageError, argument_error, brief
from ...layouts import Block
from ...machines.bsp import BSPMachine
from ...machines.cost import Machine
from ...machines.ebsp import EBSPMachine
from ...machines.machine_file import require_machine
from ..arguments import integer
from ..blocks import begins


class Grid(NamedTuple):
    """q1 rows of q2 blocks.

    Examples:
        >>> from pybsp.collectives.ebsp import Grid
        >>> grid = Grid(2, 2)
        >>> matrix = np.arange(16).reshape(4, 4)
        >>> matrix[grid.block(matrix.shape, 3)]
        array([[10, 11],
               [14, 15]])
        >>> grid.layout((5, 5)).sizes  # pybsp.layouts.Block
        array([9, 6, 6, 4])
    """

    q1: int
    q2: int

    def layout(self, shape: tuple[int, int]) -> Block:
        """The layout of a matrix of that shape.

        Raises:
            UsageError: that is no shape of a matrix, or the grid has no blocks.
        """
        q1, q2 = (integer("Grid", argument, parts, 1) for argument, parts in zip(self._fields, self, strict=True))
        rows, columns = checked_sizes("Grid.layout", "shape", shape, "(rows, columns)")
        return _layout((rows, columns), Grid(q1, q2))

    def block(self, shape: tuple[int, int], pid: int) -> tuple[Any, ...]:
        """The rows and columns of a matrix of that shape that a processor owns: `matrix[grid.block(shape, pid)]`."""
        return self.layout(shape).part(pid)

    def block_shape(self, shape: tuple[int, int], pid: int) -> tuple[int, ...]:
        """The shape of that block."""
        return self.layout(shape).local_shape(pid)


@lru_cache(maxsize=256)
def _layout(shape: tuple[int, int], grid: Grid) -> Block:
    return Block(shape, grid, sizes=tuple(np.diff(begins(n, parts)) for n, parts in zip(shape, grid, strict=True)))


@lru_cache(maxsize=256)
def factorizations(p: int) -> tuple[Grid, ...]:
    """All grids of p blocks, by q1."""
    low = [q for q in range(1, isqrt(p) + 1) if p % q == 0]
    return tuple(Grid(q, p // q) for q in sorted({*low, *(p // q for q in low)}))


def blocked(p: int) -> Grid:
    """The grid that is nearest to a square, with q1 <= q2."""
    return max(grid for grid in factorizations(p) if grid.q1 <= grid.q2)


def sliced(p: int) -> Grid:
    """Slices of all rows and 1/p of the columns, so that neighbours in the matrix are neighbours in number."""
    return Grid(1, p)


# -- arguments ----------------------------------------------------------------------------------------------------


def checked_grid(name: str, q: Any, p: int) -> Grid:
    """The argument q: two factors of p; else a UsageError."""
    try:
        q1, q2 = (integer(name, "q", factor, 1) for factor in q)
    except (TypeError, ValueError, UsageError):
        q1 = q2 = 0
    if q1 * q2 != p:
        expected = f"(q1, q2) with q1*q2 = {p}, the number of processors"
        raise argument_error(name, "q", expected, brief(q), "None chooses one")
    return Grid(q1, q2)


def checked_sizes(name: str, argument: str, sizes: Any, what: str) -> tuple[int, ...]:
    """An argument of as many whole numbers, 0 or more, as `what` has commas between; else a UsageError."""
    try:
        found = tuple(integer(name, argument, size, 0) for size in sizes)
    except (TypeError, UsageError):
        found = ()
    if len(found) != what.count(",") + 1:
        raise argument_error(name, argument, f"{what}, whole numbers of at least 0", brief(sizes))
    return found


def checked_block(name: str, argument: str, block: Any, shape: tuple[int, int], grid: Grid, pid: int) -> NDArray[Any]:
    """A processor's block of a matrix of that shape, of numbers; else a UsageError."""
    expected = grid.block_shape(shape, pid)
    if not isinstance(block, np.ndarray) or block.dtype.kind not in "biufc":
        got = f"an array of {block.dtype}" if isinstance(block, np.ndarray) else f"{type(block).__name__}"
        raise argument_error(name, argument, f"a numpy array of numbers of shape {expected}", got)
    if block.shape != expected:
        raise UsageError(
            f"{name}: argument {argument}: expected shape {expected}, that of processor {pid}'s block of a "
            f"{shape[0]} x {shape[1]} matrix on a {grid.q1} x {grid.q2} grid, got {block.shape}; "
            "cut it out with Grid.block"
        )
    return block


def checked_machine(name: str, machine: Machine | None, bsp: BSP) -> Machine:
    """The argument machine, by which is chosen (None: bsp.machine), of so many processors; else a UsageError."""
    if machine is None:
        return bsp.machine
    require_machine(name, machine, BSPMachine, EBSPMachine)
    if machine.p != bsp.p:
        raise argument_error(name, "machine", f"one of p = {bsp.p}, the number of processors", f"p = {machine.p}")
    return machine
