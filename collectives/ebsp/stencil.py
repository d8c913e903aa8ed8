"""Steps of a five-point stencil on a matrix in blocks (*The E-BSP model*, section 5, Theorem 8)."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ...bsp import BSP
from ...errors import argument_error, brief
from ...machines.cost import Cost, Machine, Superstep
from ...rides.ride import Supersteps
from ..arguments import check_machine, flag, integer, plain_dtype, repeats
from ..blocks import begins
from ..plan import Plan, Step, joined
from ..primitive import Call, primitive, sources
from .partition import (
    Grid,
    blocked,
    checked_block,
    checked_grid,
    checked_machine,
    checked_sizes,
    factorizations,
    sliced,
)

Matrix = NDArray[Any]
Shape = tuple[int, int]
Update = Callable[[Matrix, Matrix, Matrix, Matrix, Matrix], Any]

PARTITIONS = ("hybrid", "blocked", "sliced")


def average(centre: Matrix, north: Matrix, south: Matrix, west: Matrix, east: Matrix) -> Matrix:
    """The mean of the four neighbours: a Jacobi step of Laplace's equation, in 4 operations an element."""
    total = north + south
    total += west
    total += east
    mean: Matrix = total / 4
    return mean


def plan(p: int, shape: Shape, q: tuple[int, int], steps: int = 1, together: bool = False) -> Plan:
    """Who sends which part of its edges to whom: items are rows of the matrix from and to west and east (the edge is a
    column), columns from and to north and south.

    Each step takes two supersteps, one of locality 1 and one of locality q2, or, `together`, one. A superstep in which
    nothing would be sent is left out, so a grid of one row or column has one a step.
    """
    grid = checked_grid("stencil.plan", q, p)
    steps, together = repeats("stencil.plan", "steps", steps), flag("stencil.plan", "together", together)
    return joined(p, _exchange(_shape("stencil.plan", shape), grid, together).steps * steps)


@lru_cache(maxsize=256)
def _exchange(shape: Shape, grid: Grid, together: bool) -> Plan:
    """The supersteps of one step."""
    rows, columns = begins(shape[0], grid.q1), begins(shape[1], grid.q2)
    filled_rows, filled_columns = min(grid.q1, shape[0]), min(grid.q2, shape[1])

    def between(i: NDArray[Any], j: NDArray[Any], far: int, item: NDArray[Any], edge: NDArray[Any]) -> list[Any]:
        """The messages both ways between blocks (i, j) and the one that is `far` further on."""
        here = (i * grid.q2 + j).ravel()
        first, last = (np.broadcast_to(bound, i.shape).ravel() for bound in (edge[item], edge[item + 1]))
        return [np.concatenate(pair) for pair in ((here, here + far), (here + far, here), (first, first), (last, last))]

    # 1. Neighbours in a row of blocks exchange their outer columns: a 2*N1/q1-relation with locality 1.
    i, j = np.indices((filled_rows, max(filled_columns - 1, 0)))
    sideways = between(i, j, 1, i, rows)
    # 2. Neighbours in a column of blocks exchange their outer rows: a 2*N2/q2-relation with locality q2.
    i, j = np.indices((max(filled_rows - 1, 0), filled_columns))
    upright = between(i, j, grid.q2, j, columns)
    relations = [sideways, upright]
    if together:
        relations = [[np.concatenate(pair) for pair in zip(sideways, upright, strict=True)]]
    exchanges = (Step.of(*relation) for relation in relations)
    return joined(grid.q1 * grid.q2, (step for step in exchanges if len(step)))


@lru_cache(maxsize=256)
def _updated(shape: Shape, grid: Grid, fixed: bool) -> int:
    """Elements that the busiest processor updates in a step; `fixed`: the outermost of the matrix are not."""
    most = []
    for n, parts in zip(shape, grid, strict=True):
        inner = np.clip(begins(n, parts), 1, max(n - 1, 1)) if fixed else begins(n, parts)
        most.append(int(np.diff(inner).max()))
    return most[0] * most[1]


def stencil_grid(
    machine: Machine,
    shape: Shape,
    dtype: DTypeLike = np.float64,
    partition: str = "hybrid",
    q: tuple[int, int] | None = None,
    together: bool | None = None,
    flops: float = 4.0,
    boundary: Any = None,
) -> Grid:
    """The grid that `stencil` takes for these arguments, which mean the same there; dtype is that of the block.

    Args:
        machine: the one that `stencil` chooses by: `bsp.machine` where it is given none.

    Examples:
        >>> from pybsp.collectives import ebsp
        >>> ebsp.stencil_grid(pybsp.EBSPMachine.mesh(16), (64, 64))
        Grid(q1=2, q2=8)
    """
    kind = plain_dtype("stencil_grid", dtype)
    return _choose("stencil_grid", machine, shape, kind, partition, q, together, flops, boundary is None)[0]


def _choose(
    name: str,
    machine: Machine,
    shape: Any,
    dtype: np.dtype[Any],
    partition: Any,
    q: Any,
    together: Any,
    flops: Any,
    fixed: bool,
) -> tuple[Grid, bool]:
    """The grid, and whether a step is one superstep for both directions; errors name the function that was called."""
    if not isinstance(partition, str) or partition not in PARTITIONS:
        raise argument_error(name, "partition", f"one of {', '.join(PARTITIONS)}", brief(partition))
    if together is not None and not isinstance(together, (bool, np.bool_)):
        raise argument_error(name, "together", "None, False or True", brief(together))
    number = isinstance(flops, (int, float, np.integer, np.floating)) and not isinstance(flops, bool)
    if not number or not 0 <= flops < np.inf:
        raise argument_error(name, "flops", "operations an element, at least 0", brief(flops))
    check_machine(name, machine)
    shape = _shape(name, shape)
    if q is not None:
        grids: tuple[Grid, ...] = (checked_grid(name, q, machine.p),)
    elif partition == "hybrid":
        grids = factorizations(machine.p)
    else:
        grids = (blocked(machine.p) if partition == "blocked" else sliced(machine.p),)
    ways = (False, True) if together is None else (bool(together),)
    choices = [(grid, way) for grid in grids for way in ways]

    def seconds(choice: tuple[Grid, bool]) -> float:
        """Of one step among others, which begins with the update of the one before."""
        work = float(flops) * _updated(shape, choice[0], fixed)
        supersteps = _exchange(shape, *choice).counted(dtype.itemsize / 8)
        if not supersteps:
            return work / machine.r
        updating = machine.predict(supersteps[0]._replace(w=work))
        return updating + sum(machine.predict(step) for step in supersteps[1:])

    return choices[0] if len(choices) == 1 else min(choices, key=seconds)


def _shape(name: str, shape: Any) -> Shape:
    """The argument shape."""
    n1, n2 = checked_sizes(name, "shape", shape, "(rows, columns)")
    return n1, n2


def cost(
    machine: Machine,
    shape: Shape,
    steps: int = 1,
    dtype: DTypeLike = np.float64,
    partition: str = "hybrid",
    q: tuple[int, int] | None = None,
    together: bool | None = None,
    flops: float = 4.0,
    boundary: Any = None,
) -> Cost:
    """What `stencil` costs, exactly, with arguments that mean the same there.

    With float64, a boundary around an N x N matrix, q1, q2 >= 3 that divide N, and two supersteps a step, it is
    Theorem 8's: 4*m*N^2/P flop, and m times a (2*N/q1)-relation with locality 1 and a (2*N/q2)-relation with locality
    q2.
    """
    steps, shape = repeats("stencil.cost", "steps", steps), _shape("stencil.cost", shape)
    kind, fixed = plain_dtype("stencil.cost", dtype), boundary is None
    grid, at_once = _choose("stencil.cost", machine, shape, kind, partition, q, together, flops, fixed)
    work = flops * _updated(shape, grid, fixed)
    if not steps:
        return Cost(machine)
    silent = _exchange(shape, grid, at_once).counted(kind.itemsize / 8)
    if not silent:
        return Cost(machine, (), work * steps)
    # The update after a step's last sync is counted with the next step's first.
    busy: list[Superstep] = [silent[0]._replace(w=work), *silent[1:]]
    return Cost(machine, [*silent, *busy * (steps - 1)], work)


@primitive(cost, plan)
def stencil(
    bsp: BSP,
    block: Matrix,
    steps: int,
    shape: Shape,
    f: Update | None = None,
    partition: str = "hybrid",
    q: tuple[int, int] | None = None,
    together: bool | None = None,
    boundary: Any = None,
    flops: float = 4.0,
    machine: Machine | None = None,
) -> Supersteps[Matrix]:
    """Take m steps of A[i,j] = f(A[i,j], A[i-1,j], A[i+1,j], A[i,j-1], A[i,j+1]) on a matrix in blocks; collective.

    All arguments but `block` are equal on all processors (of a boundary, each uses the part that its block touches).

    Args:
        bsp: the processor.
        block: this processor's block of the matrix, a 2-D array of numbers: `A[grid.block(shape, bsp.pid)]` with
            `grid = stencil_grid(bsp.machine, shape)`, or a Grid that is given as `q`. It may be empty. One dtype on all
            processors.
        steps: m, 0 or more.
        shape: (N1, N2), of the whole matrix.
        f: of five arrays of one shape (the elements, and their neighbours in the north, south, west and east; not to
            be written to): an array of their shape whose dtype casts to the block's by the rule same_kind. None: the
            average of the four neighbours.
        partition: how q1 and q2 are found where q is None. "hybrid": the cheapest on the machine. "blocked": nearest
            to a square. "sliced": 1 x p.
        q: (q1, q2), with q1*q2 = p.
        together: False: two supersteps a step, one of locality 1 and one of locality q2; True: one for both. None: the
            cheaper on the machine.
        boundary: None: the outermost rows and columns of the matrix keep their values. Else what lies around the
            matrix: a number, or four (north, south, west, east), each a number or an array as long as that side.
        flops: operations of f an element, charged by `bsp.work`.
        machine: by which is chosen, a BSPMachine or EBSPMachine of p processors; None: `bsp.machine`.

    Returns:
        The block after m steps, of the dtype of `block`, the caller's own.

    Raises:
        UsageError: a block, boundary, q, or result of f that does not fit; f raised; arguments that differ.

    BSP cost: m times a (2*N1/q1)-relation with locality 1, a (2*N2/q2)-relation with locality q2 and flops*N1*N2/p;
    `stencil.cost` has it exactly.

    Source: *The E-BSP model*, section 5, Theorem 8.

    Examples:
        >>> from pybsp.collectives import ebsp
        >>> matrix = np.zeros((4, 4))
        >>> matrix[1, 1] = 4.0
        >>> def main(bsp):
        ...     block = matrix[ebsp.Grid(2, 2).block((4, 4), bsp.pid)]
        ...     return ebsp.stencil(bsp, block, steps=1, shape=(4, 4), q=(2, 2))
        >>> blocks = pybsp.simulate(main, p=4).results
        >>> np.block([blocks[:2], blocks[2:]])
        array([[0., 0., 0., 0.],
               [0., 0., 1., 0.],
               [0., 1., 0., 0.],
               [0., 0., 0., 0.]])
    """
    steps = integer("stencil", "steps", steps, 0)
    by = checked_machine("stencil", machine, bsp)
    dtype = block.dtype if isinstance(block, np.ndarray) else np.dtype(float)
    grid, at_once = _choose("stencil", by, shape, dtype, partition, q, together, flops, boundary is None)
    shape = _shape("stencil", shape)
    block = checked_block("stencil", "block", block, shape, grid, bsp.pid)
    update = average if f is None else f
    if not callable(update):
        raise argument_error("stencil", "f", "a function of five arrays", brief(f))
    call = Call(
        bsp,
        "stencil",
        shape=shape,
        steps=steps,
        q=tuple(grid),
        together=at_once,
        dtype=dtype,
        boundary="None" if boundary is None else "given",
        flops=float(flops),
        f=getattr(update, "__name__", type(update).__name__),
    )
    pid, q2 = bsp.pid, grid.q2
    whole = slice(1, -1)
    padded = np.zeros((block.shape[0] + 2, block.shape[1] + 2), dtype)
    padded[whole, whole] = block
    if boundary is not None:
        _surround(padded, boundary, shape, grid, pid)
    views = [
        padded[at] for at in (np.s_[1:-1, 1:-1], np.s_[:-2, 1:-1], np.s_[2:, 1:-1], np.s_[1:-1, :-2], np.s_[1:-1, 2:])
    ]
    inner = _inner(shape, grid, pid) if boundary is None else np.s_[:, :]
    target = views[0][inner]
    arguments = [view[inner] for view in views]
    for view in arguments:
        view.flags.writeable = False
    # Where the edge for a neighbour is, and what is beyond it, by how far off in number the neighbour is.
    edges: dict[int, tuple[Any, Any]] = {
        -1: (np.s_[whole, 1], np.s_[whole, 0]),
        1: (np.s_[whole, -2], np.s_[whole, -1]),
    }
    edges |= {-q2: (np.s_[1, whole], np.s_[0, whole]), q2: (np.s_[-2, whole], np.s_[-1, whole])}
    exchange = [(step.sends(pid), sources(step.receives(pid))) for step in _exchange(shape, grid, at_once)]
    call.ends(steps * len(exchange))
    for _ in range(steps):
        # 1., 2. Each superstep brings the edges of the neighbours in a row of blocks, then in a column.
        for sent, expected in exchange:
            for dest, _, _ in sent:
                call.send(dest, padded[edges[dest - pid][0]])
            letters = yield from call.sync(expected)
            for letter in letters:
                padded[edges[letter.source - pid][1]] = letter.payload
        # 3. Each processor updates its block.
        if target.size:
            target[...] = _result(call.own(lambda: update(*arguments), "f"), target)
        bsp.work(flops * target.size)
    return views[0].copy()


def _inner(shape: Shape, grid: Grid, pid: int) -> tuple[slice, slice]:
    """The part of a processor's block that is not outermost in the matrix."""
    rows, columns = (
        slice(max(1 - at.start, 0), max(min(at.stop, n - 1) - at.start, 0))
        for at, n in zip(grid.block(shape, pid), shape, strict=True)
    )
    return rows, columns


def _surround(padded: Matrix, boundary: Any, shape: Shape, grid: Grid, pid: int) -> None:
    """Write the boundary around the matrix where the block touches it; a UsageError where it does not fit."""
    sides = tuple(boundary) if isinstance(boundary, (tuple, list)) else (boundary,) * 4
    if len(sides) != 4:
        expected = "None, a number, or four of them (north, south, west, east)"
        raise argument_error("stencil", "boundary", expected, len(sides))
    rows, columns = grid.block(shape, pid)
    whole = slice(1, -1)
    places: tuple[tuple[str, Any, bool, slice, int], ...] = (
        ("north", np.s_[0, whole], rows.start == 0, columns, shape[1]),
        ("south", np.s_[-1, whole], rows.stop == shape[0], columns, shape[1]),
        ("west", np.s_[whole, 0], columns.start == 0, rows, shape[0]),
        ("east", np.s_[whole, -1], columns.stop == shape[1], rows, shape[0]),
    )
    for values, (side, at, touches, own, n) in zip(sides, places, strict=True):
        array = np.asarray(values)
        if array.shape not in ((), (n,)) or array.dtype.kind not in "biufc":
            got = f"shape {array.shape} of {array.dtype}"
            expected = f"a number or an array of shape ({n},) of numbers in the {side}"
            raise argument_error("stencil", "boundary", expected, got)
        least = np.min_scalar_type(array) if array.ndim == 0 else array.dtype
        if not np.can_cast(least, padded.dtype, "same_kind"):
            expected = f"values that cast to the block's dtype {padded.dtype} in the {side}"
            raise argument_error("stencil", "boundary", expected, array.dtype)
        if touches:
            padded[at] = array if array.ndim == 0 else array[own]


def _result(values: Any, target: Matrix) -> Matrix:
    """What f gave; a UsageError where it has another shape, or a dtype that does not cast."""
    array = np.asarray(values)
    if array.shape != target.shape:
        raise argument_error("stencil", "f", f"a result of the shape of its arguments, {target.shape}", array.shape)
    if not np.can_cast(array.dtype, target.dtype, "same_kind"):
        expected = f"a result that casts to the block's dtype {target.dtype}"
        raise argument_error("stencil", "f", expected, array.dtype, f"give the block as {array.dtype}")
    return array
