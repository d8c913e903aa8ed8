"""What the stencil and the matrix product on q1 x q2 blocks cost: by the ledger, and against Theorems 8 and 9."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import pybsp
from pybsp import BSPMachine, EBSPMachine, Superstep
from pybsp.collectives.blocks import begins
from pybsp.collectives.ebsp.matrix_multiplication import matrix_multiplication, matrix_multiplication_grid
from pybsp.collectives.ebsp.partition import Grid, blocked, factorizations, sliced
from pybsp.collectives.ebsp.stencil import stencil, stencil_grid
from pybsp.collectives.plan import Step
from pybsp.rides.ride import Stream

from ..costs import assert_ledger_is, machine

# P with factors near P^(1/3) and P^(2/3), from 8 to 4096.
SIZES = sorted({*(r**3 for r in range(2, 17)), *(2**e for e in range(3, 13))})
WIDE = [1, 2, 4, 16, 64]  # N/P


def keep(centre: Any, *_: Any) -> Any:
    """A stencil that changes nothing, of any dtype."""
    return centre


def stencil_program(
    bsp: pybsp.BSP, shape: tuple[int, int], steps: int, dtype: str, options: dict[str, Any]
) -> tuple[int, ...]:
    """Takes a stencil of a matrix of zeros."""
    grid = stencil_grid(bsp.machine, shape, dtype, **options)
    return stencil(bsp, np.zeros(grid.block_shape(shape, bsp.pid), dtype), steps, shape, keep, **options).shape


def product_program(bsp: pybsp.BSP, sizes: tuple[int, int, int], dtype: str, dtype_b: str, grid: Grid) -> float:
    """Multiplies matrices of ones; what the smallest and the largest element of the block are off by."""
    n, k, m = sizes
    a = np.ones(grid.block_shape((n, k), bsp.pid), dtype)
    b = np.ones(grid.block_shape((k, m), bsp.pid), dtype_b)
    c = matrix_multiplication(bsp, a, b, sizes, grid)
    assert c.shape == grid.block_shape((n, m), bsp.pid)
    return float(np.abs(c - k).max(initial=0))


# -- blocks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [1, 2, 6, 7, 12, 64])
def test_blocks_are_disjoint_and_cover_the_matrix(p: int) -> None:
    for grid in factorizations(p):
        for shape in ((0, 5), (3, 3), (10, 17), (64, 1)):
            owners = np.zeros(shape, int)
            for pid in range(p):
                owners[grid.block(shape, pid)] += 1
            assert (owners == 1).all()


def test_parts_differ_by_at_most_one_and_the_last_are_the_empty_ones() -> None:
    for n in range(30):
        for parts in range(1, 20):
            sizes = np.diff(begins(n, parts))
            assert sizes.sum() == n
            assert sizes.max() - sizes.min() <= 1
            assert (np.diff(sizes) <= 0).all()
            assert Grid(1, parts).layout((1, n)).sizes.tolist() == sizes.tolist()


def test_partitions_are_those_of_the_paper() -> None:
    assert (blocked(16), blocked(12), blocked(7)) == ((4, 4), (3, 4), (1, 7))
    assert sliced(16) == (1, 16)
    assert Grid(3, 4).layout((3, 4)).owner((1, 2)) == 6
    assert [q1 * q2 for q1, q2 in factorizations(12)] == [12] * 6


# -- the ledger -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", range(1, 65))
def test_stencil_costs_what_it_says(p: int) -> None:
    grids = factorizations(p)
    programs: list[tuple[tuple[int, int], int, str, dict[str, Any]]] = [
        ((2 * p + 3, p), 2, "f8", {}),
        ((13, 21), 3, "f4", {"together": False, "boundary": 0, "q": grids[p % len(grids)]}),
        ((7, 5), 2, "c16", {"partition": "blocked", "flops": 7}),
        ((5, 11), 1, "i2", {"partition": "sliced", "boundary": 1}),
    ]
    for number, (shape, steps, dtype, options) in enumerate(programs):
        on = machine(p, number % 3)
        cost = stencil.cost(on, shape, steps, dtype, **options)
        assert_ledger_is(cost, stencil_program, shape, steps, dtype, options, p=p, machine=on)


@pytest.mark.whole
@pytest.mark.parametrize("p", range(1, 65))
def test_product_costs_what_it_says(p: int) -> None:
    grids = factorizations(p)
    on = machine(p, p % 3)
    for sizes, dtype, dtype_b, grid in (
        ((9, p + 1, 2 * p), "f8", "f8", matrix_multiplication_grid(on, (9, p + 1, 2 * p))),
        ((7, 5, 11), "f4", "c16", grids[p % len(grids)]),
    ):
        cost = matrix_multiplication.cost(on, sizes, dtype, dtype_b, grid)
        off = assert_ledger_is(cost, product_program, sizes, dtype, dtype_b, grid, p=p, machine=on)
        assert max(off) == 0


@pytest.mark.whole
def test_large_machines_cost_what_they_say() -> None:
    on = machine(1024)
    options: dict[str, Any] = {"q": Grid(16, 64), "together": False, "boundary": 0}
    cost = stencil.cost(on, (100, 200), 2, **options)
    assert_ledger_is(cost, stencil_program, (100, 200), 2, "f8", options, p=1024, machine=on)
    on, sizes = machine(256), (30, 40, 50)
    grid = matrix_multiplication_grid(EBSPMachine.mesh(256), sizes)
    assert_ledger_is(
        matrix_multiplication.cost(on, sizes, q=grid), product_program, sizes, "f8", "f8", grid, p=256, machine=on
    )


@pytest.mark.parametrize("p", [1, 2, 5, 6, 12, 16, 64])
def test_product_counts_its_plan_without_making_it(p: int) -> None:
    for grid in factorizations(p):
        for sizes in ((16, 16, 16), (0, 3, 4), (3, 0, 4), (3, 4, 0), (1, 1, 1), (5, 70, 3), (70, 3, 5), (p, p + 1, 3)):
            for dtype, dtype_b in (("f8", "f8"), ("f4", "c16"), ("?", "i2")):
                on = EBSPMachine.mesh(p)
                cost = matrix_multiplication.cost(on, sizes, dtype, dtype_b, grid)
                itemsizes = np.dtype(dtype).itemsize, np.dtype(dtype_b).itemsize
                assert list(cost) == counted_plan(p, sizes, grid, itemsizes)
                work = max(2 * sizes[1] * math.prod(grid.block_shape((sizes[0], sizes[2]), pid)) for pid in range(p))
                assert cost.w == cost.after == work


def test_the_grid_of_a_product_is_the_cheapest_for_the_dtypes_of_both() -> None:
    on, sizes = EBSPMachine.mesh(16), (16, 64, 16)
    chosen = set()
    for dtype, dtype_b in (("i1", "i1"), ("i1", "f8"), ("c16", "i1"), ("i1", None)):
        grid = matrix_multiplication_grid(on, sizes, dtype, dtype_b)
        costs = {q: matrix_multiplication.cost(on, sizes, dtype, dtype_b or dtype, q) for q in factorizations(16)}
        assert costs[grid].seconds == min(cost.seconds for cost in costs.values())
        assert matrix_multiplication.cost(on, sizes, dtype, dtype_b).seconds == costs[grid].seconds
        chosen.add(grid)
    assert len(chosen) == 3


def counted_plan(p: int, sizes: tuple[int, int, int], grid: Grid, itemsizes: tuple[int, int]) -> list[Superstep]:
    """The supersteps of the product's plan, each message counted by itself."""
    n, _, m = sizes
    supersteps = []
    for step in matrix_multiplication.plan(p, sizes, grid):
        words, far = [], set()
        for source, dest, items in step.messages():
            far.add(abs(dest - source))
            rows, columns = grid.block_shape((n, m), source)
            upright = grid.q1 > 1 and abs(dest - source) == grid.q2
            width, itemsize = (columns, itemsizes[1]) if upright else (rows, itemsizes[0])
            words.append(-(-len(items) * width * itemsize // 8))
        assert far <= {1} or far <= {grid.q2}
        supersteps.append(step.counted(words))
    return supersteps


def test_what_is_sent_is_what_the_plan_says(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: dict[int, set[tuple[int, int]]] = {}
    original = Stream.send

    def recorded(stream: Stream, dest: Any, payload: Any, note: Any = None) -> None:
        sent.setdefault(stream.superstep, set()).add((stream.pid, dest))
        original(stream, dest, payload, note)

    monkeypatch.setattr(Stream, "send", recorded)
    for grid in factorizations(12):
        for together in (False, True):
            options = {"q": grid, "together": together}
            for plan, program, args in (
                (stencil.plan(12, (9, 10), grid, 2, together), stencil_program, ((9, 10), 2, "f8", options)),
                (matrix_multiplication.plan(12, (9, 4, 7), grid), product_program, ((9, 4, 7), "f8", "f8", grid)),
            ):
                sent.clear()
                pybsp.simulate(program, *args, p=12)
                assert sent == {number: pairs(step) for number, step in enumerate(plan)}


def pairs(step: Step) -> set[tuple[int, int]]:
    """Who sends to whom."""
    return {(source, dest) for source, dest, _ in step.messages()}


@pytest.mark.parametrize(
    ("call", "arguments", "error_text"),
    [
        (stencil.plan, (6, (9, 9), (2, 2)), "stencil.plan: argument q: "),
        (stencil.plan, (6, (9,), (2, 3)), "stencil.plan: argument shape: "),
        (stencil.plan, (6, (9, 9), (2, 3), -1), "stencil.plan: argument steps: "),
        (stencil.cost, (machine(6), (9, 9), -1), "stencil.cost: argument steps: "),
        (stencil.cost, (machine(6), (9, 9), 1, "f8", "hybrid", (4, 4)), "stencil.cost: argument q: "),
        (stencil_grid, (machine(6), (9, -9)), "stencil_grid: argument shape: "),
        (matrix_multiplication.plan, (6, (9, 9), (2, 3)), "matrix_multiplication.plan: argument sizes: "),
        (
            matrix_multiplication.cost,
            (machine(6), (9, 9, 9), "f8", "f8", (1, 5)),
            "matrix_multiplication.cost: argument q",
        ),
        (matrix_multiplication_grid, (machine(6), 9), "matrix_multiplication_grid: argument sizes: "),
    ],
)
def test_plans_and_costs_refuse_what_does_not_fit(call: Any, arguments: tuple[Any, ...], error_text: str) -> None:
    with pytest.raises(pybsp.UsageError) as refused:
        call(*arguments)
    assert str(refused.value).startswith(error_text)


def test_a_shape_may_be_a_list() -> None:
    lists: Any = [5, 7]
    assert Grid(2, 3).block(lists, 4) == Grid(2, 3).block((5, 7), 4)
    assert list(stencil.cost(machine(6), lists, 2)) == list(stencil.cost(machine(6), (5, 7), 2))
    assert stencil_grid(machine(6), lists) == stencil_grid(machine(6), (5, 7))


@pytest.mark.parametrize("of", [Grid.layout, Grid.block, Grid.block_shape])
def test_a_grid_refuses_what_makes_no_blocks(of: Any) -> None:
    pid = () if of is Grid.layout else (0,)
    for grid, shape, text in (
        (Grid(0, 2), (5, 5), "Grid: argument q1: expected a whole number of at least 1, got 0"),
        (Grid(2, 1.5), (5, 5), "Grid: argument q2: expected a whole number of at least 1, got 1.5"),  # type: ignore[arg-type]
        (Grid(2, 2), (5,), r"Grid\.layout: argument shape: expected \(rows, columns\), .*, got \(5,\)"),
        (Grid(2, 2), 5, r"Grid\.layout: argument shape: expected \(rows, columns\), .*, got 5"),
    ):
        with pytest.raises(pybsp.UsageError, match=text):
            of(grid, shape, *pid)


def test_plans_can_be_looked_at() -> None:
    sideways, upright = stencil.plan(6, (5, 7), (2, 3))
    assert sideways.messages()[:3] == [(0, 1, range(3)), (1, 0, range(3)), (1, 2, range(3))]
    assert upright.messages()[:2] == [(0, 3, range(3)), (1, 4, range(3, 5))]
    assert len(stencil.plan(6, (5, 7), (2, 3), together=True)) == 1
    assert len(stencil.plan(6, (5, 7), (1, 6), steps=4)) == 4
    forward, last, back, *_ = matrix_multiplication.plan(6, (2, 7, 2), (2, 3))
    assert forward.messages()[:2] == [(0, 1, range(3)), (1, 2, range(3, 5))]
    assert last.messages() == [(1, 2, range(3)), (4, 5, range(3))]
    assert back.messages()[:2] == [(1, 0, range(3, 5)), (2, 1, range(5, 7))]


# -- the stencil: Theorem 8 -------------------------------------------------------------------------------------------


def communication(on: EBSPMachine, N: int, **options: Any) -> float:
    """Seconds that a step of the stencil communicates, with a boundary around an N x N matrix."""
    return stencil.cost(on, (N, N), 1, flops=0, boundary=0, **options).seconds


@pytest.mark.parametrize("network", ["linear_array", "mesh"])
@pytest.mark.parametrize(("q1", "q2"), [(3, 3), (4, 16), (16, 4), (8, 8), (16, 256)])
def test_stencil_costs_what_theorem_8_says(network: str, q1: int, q2: int) -> None:
    """4*m*N^2/P + m*T(2*N/q1, 1) + m*T(2*N/q2, q2), to the word."""
    P, m = q1 * q2, 5
    N = 3 * P
    on = getattr(EBSPMachine, network)(P)
    cost = stencil.cost(on, (N, N), m, q=(q1, q2), together=False, boundary=0)
    sideways, upright = 2 * N // q1, 2 * N // q2
    assert [(s.h_out, s.h_in, s.messages, s.locality) for s in cost] == m * [
        (sideways, sideways, 2, 1),
        (upright, upright, 2, q2),
    ]
    assert [s.M for s in cost[:2]] == [2 * N * (q2 - 1), 2 * N * (q1 - 1)]
    relations = on.time(cost[0].M, sideways, sideways, 1) + on.time(cost[1].M, upright, upright, q2)
    assert cost.seconds == pytest.approx(4 * m * N**2 / P + m * relations)


def test_sliced_and_blocked_cost_what_the_paper_says() -> None:
    """Slices: 2*N words of locality 1. Blocks: BSP's m*(4*g*N/sqrt(P) + l), in one superstep a step."""
    P, N = 64, 640
    on = BSPMachine(p=P, g=1.0, l=100.0, r=1.0)
    slices = stencil.cost(on, (N, N), 3, partition="sliced", boundary=0)
    assert [(s.h_out, s.h_in, s.locality) for s in slices] == [(2 * N, 2 * N, 1)] * 3
    blocks = stencil.cost(on, (N, N), 3, partition="blocked", boundary=0)
    assert blocks.seconds == 3 * (4 * N**2 / P + 4 * on.g * N / 8 + on.l)
    # With no locality to gain, the squares are what is chosen.
    assert stencil_grid(on, (N, N), boundary=0) == (8, 8)


@pytest.mark.whole
@pytest.mark.parametrize("P", SIZES)
def test_stencil_on_a_mesh_takes_4_times_theorem_8_at_most(P: int) -> None:
    """q1 is about P^(1/3), q2 about P^(2/3), and T <= 4*(N/P^(1/3) + sqrt(P))."""
    on = EBSPMachine.mesh(P)
    for ratio in WIDE:
        N = ratio * P
        q1, q2 = stencil_grid(on, (N, N), together=False, boundary=0, flops=0)
        if N >= 4 * P:
            # 2*N/q1 + 2*N/sqrt(q2) is least where q1 = (4*P)^(1/3), 1.59 times P^(1/3); P has the factors it has.
            assert 0.6 <= q1 / P ** (1 / 3) <= 2.1
            assert 0.45 <= q2 / P ** (2 / 3) <= 1.7
        assert communication(on, N, together=False) <= 4 * (N / P ** (1 / 3) + math.sqrt(P))


@pytest.mark.parametrize("P", [64, 256, 1024, 4096])
def test_hybrid_beats_blocked_and_sliced_on_a_mesh(P: int) -> None:
    on = EBSPMachine.mesh(P)
    for ratio in (4, 16, 64):
        N = ratio * P
        hybrid = communication(on, N, together=False)
        # 4*N/P^(1/4) against (2^(1/3) + 2^(4/3)) * N/P^(1/3), and 2*N.
        assert communication(on, N, partition="blocked", together=True) >= 0.98 * P ** (1 / 12) * hybrid
        assert communication(on, N, partition="sliced") >= 0.48 * P ** (1 / 3) * hybrid


@pytest.mark.parametrize("P", [*SIZES, 60, 101])
def test_stencil_on_a_linear_array_is_theorem_8s_for_any_q(P: int) -> None:
    """T <= 2*(N + P) as chosen: slices, in one superstep. Other q's take no more than 1.6 times that."""
    on = EBSPMachine.linear_array(P)
    for ratio in WIDE:
        N = ratio * P
        assert stencil_grid(on, (N, N), boundary=0, flops=0) == sliced(P)
        chosen = communication(on, N)
        assert chosen <= 2 * (N + P)
        for q in factorizations(P):
            assert communication(on, N, q=q, together=False) <= 1.6 * chosen


# -- the product: Theorem 9 -------------------------------------------------------------------------------------------


def moving(on: EBSPMachine, N: int, q: tuple[int, int] | None = None) -> float:
    """Seconds that a product of N x N matrices communicates."""
    cost = matrix_multiplication.cost(on, (N, N, N), q=q)
    return cost.seconds - cost.after / on.r


@pytest.mark.whole
@pytest.mark.parametrize("P", SIZES)
def test_product_on_a_mesh_takes_4_times_theorem_9_at_most(P: int) -> None:
    """T <= 4*N^2/P^(1/3) for N >= P, with q1 about P^(1/3) and q2 about P^(2/3)."""
    on = EBSPMachine.mesh(P)
    for ratio in (1, 2, 8):
        N = ratio * P
        q1, q2 = matrix_multiplication_grid(on, (N, N, N))
        assert 0.8 <= q1 / P ** (1 / 3) <= 2.1
        assert 0.45 <= q2 / P ** (2 / 3) <= 1.3
        assert moving(on, N) <= 4 * N**2 / P ** (1 / 3)


@pytest.mark.whole
@pytest.mark.parametrize("P", [*SIZES, 60, 101])
def test_product_on_a_linear_array_takes_4_times_theorem_9_at_most(P: int) -> None:
    """The paper's q = (P, 1): T = 2*(P-1)*(N^2/P + P - 2) <= 4*N^2 for N >= P. What is chosen is no dearer."""
    on = EBSPMachine.linear_array(P)
    for ratio in (1, 2, 8):
        N = ratio * P
        papers = moving(on, N, (P, 1))
        assert papers == pytest.approx(2 * (P - 1) * (N**2 / P + P - 2), rel=1e-9)
        assert papers <= 4 * N**2
        assert moving(on, N) <= papers


@pytest.mark.parametrize("P", [64, 512, 4096])
def test_product_computes_an_equal_share(P: int) -> None:
    """2*N^3/P flop, for any q that divides N."""
    for q in factorizations(P):
        assert matrix_multiplication.cost(EBSPMachine.mesh(P), (2 * P, 2 * P, 2 * P), q=q).w == 2 * (2 * P) ** 3 / P
