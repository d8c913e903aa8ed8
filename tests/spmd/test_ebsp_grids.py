"""The stencil and the matrix product on q1 x q2 blocks give what numpy gives for the whole matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import pybsp
from pybsp.collectives.ebsp.matrix_multiplication import matrix_multiplication, matrix_multiplication_grid
from pybsp.collectives.ebsp.partition import Grid, blocked, factorizations
from pybsp.collectives.ebsp.stencil import average, stencil, stencil_grid
from tests.conftest import Spmd
from tests.tiers import some

from ..costs import charged, counted

Matrix = NDArray[Any]
DTYPES = ["f8", "f4", "i8", "i2", "c16"]


def examples(spmd: Spmd) -> settings:
    """How hypothesis runs, with the same examples on all ranks."""
    return settings(
        max_examples=some(40),
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate] if spmd.mpi else [Phase.generate, Phase.shrink],
    )


def numbers(shape: tuple[int, ...], dtype: str, seed: int) -> Matrix:
    """Small whole numbers, whose sums and products are exact in any order."""
    rng = np.random.default_rng(seed)
    values: Matrix = rng.integers(-5, 6, shape).astype(dtype)
    if np.dtype(dtype).kind == "c":
        values += np.asarray(1j * rng.integers(-5, 6, shape), dtype)
    return values


def mixed(centre: Matrix, north: Matrix, south: Matrix, west: Matrix, east: Matrix) -> Matrix:
    """Tells all five apart, and stays small."""
    total: Matrix = centre + 2 * north - 3 * south + 5 * west - 7 * east
    return total if total.dtype.kind == "c" else total % 11


def whole_stencil(matrix: Matrix, steps: int, f: Any, boundary: Any) -> Matrix:
    """The steps on the whole matrix."""
    padded = np.zeros((matrix.shape[0] + 2, matrix.shape[1] + 2), matrix.dtype)
    padded[1:-1, 1:-1] = matrix
    if boundary is not None:
        north, south, west, east = boundary if isinstance(boundary, tuple) else (boundary,) * 4
        padded[0, 1:-1], padded[-1, 1:-1], padded[1:-1, 0], padded[1:-1, -1] = north, south, west, east
    for _ in range(steps):
        new = padded.copy()
        new[1:-1, 1:-1] = f(
            padded[1:-1, 1:-1], padded[:-2, 1:-1], padded[2:, 1:-1], padded[1:-1, :-2], padded[1:-1, 2:]
        )
        if boundary is None:
            new[1, :], new[-2, :], new[:, 1], new[:, -2] = padded[1, :], padded[-2, :], padded[:, 1], padded[:, -2]
        padded = new
    return padded[1:-1, 1:-1]


def assembled(blocks: list[Matrix], grid: Grid, shape: tuple[int, int]) -> Matrix:
    """The whole matrix from all blocks."""
    whole = np.empty(shape, blocks[0].dtype)
    for pid, block in enumerate(blocks):
        whole[grid.block(shape, pid)] = block
    return whole


def stencil_of(
    bsp: pybsp.BSP, matrix: Matrix, steps: int, options: dict[str, Any], machine: Any = None
) -> tuple[Grid, Matrix]:
    """A stencil program: cuts its block, and gives the grid and the result."""
    boundary = options.get("boundary")
    asked = {key: value for key, value in options.items() if key in ("partition", "q", "together", "flops")}
    grid = stencil_grid(machine or bsp.machine, matrix.shape, matrix.dtype, boundary=boundary, **asked)
    block = matrix[grid.block(matrix.shape, bsp.pid)]
    before = block.copy()
    result = stencil(bsp, block, steps, matrix.shape, machine=machine, **options)
    assert np.array_equal(block, before)
    assert result.flags.writeable
    assert result.flags.owndata
    return grid, result


SIZE = st.integers(0, 12)
SEED = st.integers(0, 99)
BOUNDARY = st.sampled_from(["fixed", "number", "four"])
PARTITION = st.sampled_from(["hybrid", "blocked", "sliced", "q"])


def test_stencil_is_that_of_the_whole_matrix(spmd: Spmd) -> None:
    @examples(spmd)
    @given(
        SIZE,
        SIZE,
        st.integers(0, 4),
        st.sampled_from(DTYPES),
        BOUNDARY,
        PARTITION,
        st.sampled_from([None, False, True]),
        SEED,
    )
    def check(
        n1: int, n2: int, steps: int, dtype: str, around: str, partition: str, together: bool | None, seed: int
    ) -> None:
        matrix = numbers((n1, n2), dtype, seed)
        sides = tuple(numbers((n,), dtype, seed + k) for k, n in enumerate((n2, n2, n1)))
        boundary: Any = {"fixed": None, "number": 3, "four": (*sides, -1 if dtype != "f4" else 2.5)}[around]
        options: dict[str, Any] = {"f": mixed, "boundary": boundary, "together": together}
        if partition == "q":
            grids = factorizations(spmd.p)
            options["q"] = grids[seed % len(grids)]
        else:
            options["partition"] = partition
        results = spmd(stencil_of, matrix, steps, options)
        found = assembled([result for _, result in results], results[0][0], matrix.shape)
        expected = whole_stencil(matrix, steps, mixed, boundary)
        assert found.dtype == matrix.dtype
        assert np.array_equal(found, expected)

    check()


def test_stencil_averages_the_four_neighbours_unless_told_otherwise(spmd: Spmd) -> None:
    matrix = np.arange(63.0).reshape(7, 9) ** 2
    results = spmd(stencil_of, matrix, 5, {})
    found = assembled([result for _, result in results], results[0][0], matrix.shape)
    assert np.array_equal(found, whole_stencil(matrix, 5, average, None))


def test_a_number_around_a_stencil_may_be_of_any_dtype_that_has_room_for_it(spmd: Spmd) -> None:
    matrix = np.arange(63, dtype=np.uint8).reshape(7, 9)
    results = spmd(stencil_of, matrix, 1, {"f": mixed, "boundary": 200})
    found = assembled([result for _, result in results], results[0][0], matrix.shape)
    assert np.array_equal(found, whole_stencil(matrix, 1, mixed, 200))


@pytest.mark.parametrize("network", ["linear_array", "mesh"])
def test_stencil_takes_the_grid_of_the_machine_that_is_given(spmd: Spmd, network: str) -> None:
    machine = getattr(pybsp.EBSPMachine, network)(spmd.p)
    matrix = numbers((20, 30), "f8", 1)
    results = spmd(stencil_of, matrix, 2, {"f": mixed, "boundary": 0}, machine)
    found = assembled([result for _, result in results], results[0][0], matrix.shape)
    assert np.array_equal(found, whole_stencil(matrix, 2, mixed, 0))


def product_of(
    bsp: pybsp.BSP, a: Matrix, b: Matrix, q: tuple[int, int] | None, machine: Any = None
) -> tuple[Grid, Matrix]:
    """A product program: cuts its blocks, and gives the grid and the result."""
    sizes = (*a.shape, b.shape[1])
    chosen = matrix_multiplication_grid(machine or bsp.machine, sizes, a.dtype, b.dtype)
    grid = chosen if q is None else Grid(*q)
    mine = a[grid.block(a.shape, bsp.pid)], b[grid.block(b.shape, bsp.pid)]
    result = matrix_multiplication(bsp, *mine, sizes, q, machine)
    assert result.flags.writeable
    return grid, result


def test_product_is_that_of_the_whole_matrices(spmd: Spmd) -> None:
    @examples(spmd)
    @given(SIZE, SIZE, SIZE, st.sampled_from([*DTYPES, "?"]), st.sampled_from(DTYPES), st.booleans(), SEED)
    def check(n: int, k: int, m: int, dtype: str, dtype_b: str, chosen: bool, seed: int) -> None:
        a, b = numbers((n, k), dtype, seed), numbers((k, m), dtype_b, seed + 1)
        grids = factorizations(spmd.p)
        results = spmd(product_of, a, b, None if chosen else grids[seed % len(grids)])
        found = assembled([result for _, result in results], results[0][0], (n, m))
        expected = a @ b
        assert found.dtype == expected.dtype
        assert np.array_equal(found, expected)

    check()


@pytest.mark.parametrize("network", ["linear_array", "mesh"])
def test_product_takes_the_grid_of_the_machine_that_is_given(spmd: Spmd, network: str) -> None:
    machine = getattr(pybsp.EBSPMachine, network)(spmd.p)
    a, b = numbers((9, 17), "f8", 1), numbers((17, 5), "i4", 2)
    results = spmd(product_of, a, b, None, machine)
    assert np.array_equal(assembled([result for _, result in results], results[0][0], (9, 5)), a @ b)


# -- bad input ------------------------------------------------------------------------------------------------------


def assert_all_refuse(spmd: Spmd, program: Any, name: str, argument: str, charged: str = "") -> None:
    """Every processor ends with an error that names the primitive and the argument; one at least with a UsageError."""
    errors = spmd.errors(program)
    assert any(isinstance(error, pybsp.UsageError) for error in errors), errors
    for error in errors:
        assert isinstance(error, pybsp.BSPError)
        assert f"{name}: " in str(error)
        assert f"argument {argument}" in str(error) or f"{argument}=" in str(error)
        assert charged in str(error)


def careless(centre: Matrix, north: Matrix, *_: Matrix) -> Matrix:
    """Writes to what it is given."""
    north += 1
    return centre


BAD_STENCILS: dict[str, tuple[dict[str, Any], str, str]] = {
    "steps below 0": ({"steps": -1}, "steps", "-1"),
    "half a step": ({"steps": 0.5}, "steps", "0.5"),
    "a shape of one": ({"shape": (16,)}, "shape", "(rows, columns)"),
    "a negative shape": ({"shape": (16, -16)}, "shape", "-16"),
    "no shape": ({"shape": None}, "shape", "None"),
    "another shape": ({"shape": (16, 15)}, "block", "expected shape"),
    "a block that is a list": ({"block": [[1.0]]}, "block", "list"),
    "a block of objects": ({"block": np.array([[None]])}, "block", "object"),
    "a block of one axis": ({"block": np.ones(16)}, "block", "expected shape"),
    "q that does not make p": ({"q": (2, 9)}, "q", "(2, 9)"),
    "q of one": ({"q": (1,)}, "q", "(1,)"),
    "q below 0": ({"q": (-1, -1)}, "q", "(-1, -1)"),
    "q that is a number": ({"q": 4}, "q", "4"),
    "no such partition": ({"partition": "diagonal"}, "partition", "diagonal"),
    "together by name": ({"together": "yes"}, "together", "yes"),
    "flops below 0": ({"flops": -4}, "flops", "-4"),
    "flops that are none": ({"flops": "many"}, "flops", "many"),
    "f that is none": ({"f": 5}, "f", "5"),
    "f that raises": ({"f": lambda *_: 1 // 0}, "f", "ZeroDivisionError"),
    "f of four arrays": ({"f": lambda a, b, c, d: a}, "f", "TypeError"),
    "f of another shape": ({"f": lambda *_: np.zeros(3)}, "f", "shape"),
    "f of another kind": ({"f": lambda c, *_: c * 1j}, "f", "complex128"),
    "f that writes to its arguments": ({"f": careless}, "f", "read-only"),
    "a boundary of three": ({"boundary": (1, 2, 3)}, "boundary", "3"),
    "a boundary too short": ({"boundary": (1, 2, 3, np.ones(9))}, "boundary", "(16,)"),
    "a boundary that is text": ({"boundary": "warm"}, "boundary", "of numbers"),
    "a boundary of another kind": ({"boundary": 1j}, "boundary", "complex128"),
    "a machine that is none": ({"machine": "mesh"}, "machine", "'mesh'"),
    "a machine of another p": ({"machine": pybsp.EBSPMachine.mesh(99)}, "machine", "99"),
}


@pytest.mark.parametrize("case", BAD_STENCILS)
def test_stencil_refuses_what_does_not_fit(spmd: Spmd, case: str) -> None:
    options, argument, charged = BAD_STENCILS[case]

    def program(bsp: pybsp.BSP) -> None:
        grid = Grid(1, bsp.p)
        given = {"block": np.ones(grid.block_shape((16, 16), bsp.pid)), "steps": 2, "shape": (16, 16), "q": grid}
        stencil(bsp, **{**given, "boundary": 0, **options})

    assert_all_refuse(spmd, program, "stencil", argument, charged)


@pytest.mark.parametrize(
    ("argument", "values"),
    [
        ("steps", (2, 3)),
        ("shape", ((16, 16), (16, 32))),
        ("together", (False, True)),
        ("boundary", (None, 0)),
        ("f", (average, mixed)),
        ("flops", (4, 5)),
        ("dtype", (np.dtype("f8"), np.dtype("f4"))),
    ],
)
def test_stencil_refuses_different_arguments(spmd: Spmd, argument: str, values: tuple[Any, Any]) -> None:
    if spmd.p == 1:
        pytest.skip("one processor has nothing to differ from")

    def program(bsp: pybsp.BSP) -> None:
        grid = blocked(bsp.p)
        options: dict[str, Any] = {"steps": 2, "shape": (16, 16), "q": grid, "boundary": 0, "together": False}
        options[argument] = values[bsp.pid == 1]
        dtype = options.pop("dtype", np.float64)
        stencil(bsp, np.ones(grid.block_shape(options["shape"], bsp.pid), dtype), **options)

    assert_all_refuse(spmd, program, "stencil", argument)


def test_stencil_refuses_a_block_that_one_processor_has_wrong(spmd: Spmd) -> None:
    def program(bsp: pybsp.BSP) -> None:
        grid = Grid(1, bsp.p)
        rows, columns = grid.block_shape((16, 16), bsp.pid)
        stencil(bsp, np.ones((rows, columns + (bsp.pid == bsp.p - 1))), 2, (16, 16), q=grid)

    assert_all_refuse(spmd, program, "stencil", "block", "expected shape")


BAD_PRODUCTS: dict[str, tuple[dict[str, Any], str, str]] = {
    "two sizes": ({"sizes": (16, 16)}, "sizes", "(n, k, m)"),
    "negative sizes": ({"sizes": (16, 16, -1)}, "sizes", "-1"),
    "no sizes": ({"sizes": 16}, "sizes", "16"),
    "an A of other sizes": ({"sizes": (15, 16, 16)}, "a", "expected shape"),
    "a B of other sizes": ({"sizes": (16, 16, 48)}, "b", "expected shape"),
    "a list": ({"a": [[1.0]]}, "a", "list"),
    "text": ({"b": np.array([["one"]])}, "b", "<U3"),
    "q that does not make p": ({"q": (3, 7)}, "q", "(3, 7)"),
    "q of fractions": ({"q": (0.5, 2.0)}, "q", "0.5"),
    "a machine that is none": ({"machine": 3}, "machine", "int"),
    "a machine of another p": ({"machine": pybsp.BSPMachine.nominal(99)}, "machine", "99"),
}


@pytest.mark.parametrize("case", BAD_PRODUCTS)
def test_product_refuses_what_does_not_fit(spmd: Spmd, case: str) -> None:
    options, argument, charged = BAD_PRODUCTS[case]

    def program(bsp: pybsp.BSP) -> None:
        grid = Grid(1, bsp.p)
        block = np.ones(grid.block_shape((16, 16), bsp.pid))
        matrix_multiplication(bsp, **{"a": block, "b": block, "sizes": (16, 16, 16), "q": grid, **options})

    assert_all_refuse(spmd, program, "matrix_multiplication", argument, charged)


@pytest.mark.parametrize("argument", ["sizes", "a", "b", "q"])
def test_product_refuses_different_arguments(spmd: Spmd, argument: str) -> None:
    if spmd.p == 1:
        pytest.skip("one processor has nothing to differ from")

    def program(bsp: pybsp.BSP) -> None:
        odd = bsp.pid == 1
        grid = Grid(bsp.p, 1) if odd and argument == "q" else blocked(bsp.p)
        n, k, m = (32, 16, 16) if odd and argument == "sizes" else (16, 16, 16)
        a = np.ones(grid.block_shape((n, k), bsp.pid), "f4" if odd and argument == "a" else "f8")
        b = np.ones(grid.block_shape((k, m), bsp.pid), "f4" if odd and argument == "b" else "f8")
        matrix_multiplication(bsp, a, b, (n, k, m), grid)

    assert_all_refuse(spmd, program, "matrix_multiplication", argument)


# -- costs ------------------------------------------------------------------------------------------------------------


def test_the_ledger_is_what_the_cost_functions_say(spmd: Spmd) -> None:
    def program(bsp: pybsp.BSP) -> Any:
        machine = bsp.machine
        matrix = numbers((11, 14), "f4", 3)
        stencil_of(bsp, matrix, 3, {"f": mixed, "boundary": 1})
        product_of(bsp, matrix, matrix.T, None)
        bsp.sync()
        cost = stencil.cost(machine, (11, 14), 3, "f4", boundary=1) + matrix_multiplication.cost(
            machine, (11, 14, 11), "f4"
        )
        return counted(bsp.ledger), charged(cost)

    for found, expected in spmd(program):
        assert found == expected
