"""The textbook's programs agree with sequential results wherever they run, and cost what their docstrings say."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from itertools import chain, pairwise, zip_longest
from math import ceil, isqrt, log2, prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import io, sparse

import pybsp
from examples.textbook import fft, graph, inner_product, kmeans, lu, matrix_product, record_sort, sieve, sparse_cg
from pybsp import collectives
from pybsp.layouts import Block
from pybsp.machines.cost import Superstep

from .launching import mpiexec, run

TEXTBOOK = Path(__file__).parent.parent / "examples" / "textbook"
SMALL = {
    "inner_product": ["--size", "50"],
    "sieve": ["--size", "1000"],
    "kmeans": ["--points", "100"],
    "fft": ["--size", "60"],
    "record_sort": ["--records", "100"],
    "sparse_cg": ["--side", "4"],
    "graph": ["--vertices", "100", "--edges", "120"],
    "lu": ["--size", "17"],
    "matrix_product": ["--size", "19"],
}
TINY = {
    "inner_product": ["--size", "3"],
    "sieve": ["--size", "3"],
    "kmeans": ["--points", "3"],
    "fft": ["--size", "3"],
    "record_sort": ["--records", "1"],
    "sparse_cg": ["--side", "1"],
    "graph": ["--vertices", "3", "--edges", "1"],
    "lu": ["--size", "2"],
    "matrix_product": ["--size", "1"],
}
WAYS = {
    "mpiexec -n 4": [*mpiexec(4), sys.executable],
    "pybsp run -n 2": [sys.executable, "-m", "pybsp", "run", "-n", "2"],
}


@pytest.fixture(autouse=True)
def quiet(capsys: pytest.CaptureFixture[str]) -> None:
    """What the programs print stays out of the report."""


def of_label(simulation: pybsp.Simulation, label: str) -> list[pybsp.Record]:
    return [record for record in simulation.ledger if record.label == label]


def h_of(steps: Sequence[pybsp.Record] | Sequence[Superstep]) -> list[int]:
    return [step.h for step in steps]


def test_every_program_is_tested() -> None:
    assert {path.stem for path in TEXTBOOK.glob("*.py")} == set(SMALL) == set(TINY)


@pytest.mark.whole
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", SMALL)
def test_agrees_with_the_sequential_result(name: str, way: str) -> None:
    ended = run([*WAYS[way], str(TEXTBOOK / f"{name}.py"), *SMALL[name]])
    assert ended.code == 0, ended.err
    assert ended.err == ""
    assert ended.out.count("agrees with") == 1


@pytest.mark.whole
@pytest.mark.parametrize("name", TINY)
def test_runs_on_more_processors_than_the_input_has_items(name: str) -> None:
    ended = run([*mpiexec(5), sys.executable, str(TEXTBOOK / f"{name}.py"), *TINY[name]], PYBSP_CHECKED="1")
    assert ended.code == 0, ended.err
    assert ended.out.count("agrees with") == 1


@pytest.mark.fast
@pytest.mark.parametrize("size", [0, -1])
@pytest.mark.parametrize(
    ("program", "argument"),
    [(lu, "size"), (fft, "size"), (sparse_cg, "side"), (graph, "at least 1 vertex"), (matrix_product, "size")],
)
def test_a_size_below_1_is_refused_by_name(program: Any, argument: str, size: int) -> None:
    with pytest.raises(ValueError, match=f"{program.__name__.rpartition('.')[2]}: expected .*{argument}.* got {size}"):
        pybsp.simulate(program.main, size, p=3)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("program", "arguments", "what"),
    [
        (inner_product, {"n": -1}, "a size of at least 0, got -1"),
        (sieve, {"n": -1}, "a size of at least 0, got -1"),
        (record_sort, {"n": -1}, "at least 0 records, got -1"),
        (kmeans, {"n": -1}, "at least 0 points and 0 steps, got -1 and 10"),
        (kmeans, {"steps": -1}, "at least 0 points and 0 steps, got 1000 and -1"),
        (lu, {"rows": 0}, "rows of the grid that divide p = 3, got 0"),
        (lu, {"rows": 2}, "rows of the grid that divide p = 3, got 2"),
        (graph, {"root": "nosuchpackage"}, "one of the [0-9]+ packages here, got 'nosuchpackage'"),
    ],
)
def test_what_cannot_be_is_refused_by_name(program: Any, arguments: dict[str, Any], what: str) -> None:
    with pytest.raises(ValueError, match=f"{program.__name__.rpartition('.')[2]}: .*expected {what}"):
        pybsp.simulate(program.main, **arguments, p=3)


@pytest.mark.parametrize(
    ("program", "argument"), [(inner_product, "n"), (sieve, "n"), (record_sort, "n"), (kmeans, "n"), (kmeans, "steps")]
)
def test_nothing_is_an_input_too(program: Any, argument: str) -> None:
    arguments: dict[str, Any] = {argument: 0}
    pybsp.simulate(program.main, **arguments, p=3)


@pytest.mark.parametrize("p", [1, 2, 5])
def test_inner_product_costs_an_allreduce(p: int) -> None:
    done = pybsp.simulate(inner_product.main, 52, p=p)
    steps = of_label(done, "inner")
    assert h_of(steps) == h_of(collectives.allreduce.cost(done.ledger.machine))
    assert len(set(done.results)) == 1
    if steps:
        assert steps[0].work == 2 * ceil(52 / p)


@pytest.mark.parametrize("p", [2, 5])
def test_sieve_strikes_out_the_multiples_in_a_block_and_counts_by_an_allreduce(p: int) -> None:
    n = 1000
    done = pybsp.simulate(sieve.main, n, p=p)
    assert done.results == [168] * p
    steps = of_label(done, "count")
    assert h_of(steps) == h_of(collectives.allreduce.cost(done.ledger.machine))
    small = [q for q in range(2, isqrt(n) + 1) if all(q % d for d in range(2, q))]
    blocks = [range(k * (n + 1) // p, (k + 1) * (n + 1) // p) for k in range(p)]
    struck = [sum(number % q == 0 and number >= q * q for q in small for number in block) for block in blocks]
    assert steps[0].work == max(struck)


@pytest.mark.parametrize("p", [2, 3, 8])
def test_kmeans_takes_one_allreduce_a_step(p: int) -> None:
    n, d, k, steps = 101, 3, 5, 4
    done = pybsp.simulate(kmeans.main, n, d, k, steps, p=p)
    words = k * (d + 1)
    one = collectives.allreduce.cost(done.ledger.machine, words, items=words)
    assert h_of(of_label(done, "step")) == h_of(one) * steps
    assert of_label(done, "step")[0].work == ceil(n / p) * (2 * k * d + k + d + 1)
    assert h_of(of_label(done, "check")) == [d * (n - n // p)]


def test_kmeans_leaves_a_centre_without_points_where_it_is() -> None:
    centres = np.array([[0.0, 0.0], [100.0, 100.0]])
    sums = kmeans.cluster_sums(np.array([[1.0, 2.0], [3.0, 4.0]]), centres)
    assert kmeans.moved(sums, centres).tolist() == [[2, 3], [100, 100]]


@pytest.mark.parametrize(("n", "p", "grid"), [(256, 4, (4,)), (256, 16, (16,)), (64, 16, (4, 4)), (512, 64, (8, 8))])
def test_fft_trades_one_axis_of_the_grid_after_the_other(n: int, p: int, grid: tuple[int, ...]) -> None:
    done = pybsp.simulate(fft.main, n, p=p)
    np.testing.assert_allclose(
        done.results[0], np.fft.fft(random_vector(n)), rtol=1e-9, atol=1e-9
    )  # which main has compared too
    steps = of_label(done, "fft")
    assert h_of(steps) == [2 * (n // p - n // p // q) for q in grid]
    total = sum(record.work for record in done.ledger)
    assert total == pytest.approx(5 * n / p * log2(n) + 6 * n / p * len(grid))
    assert h_of(of_label(done, "check")) == [2 * (n - n // p)]


@pytest.mark.parametrize(("n", "p"), [(60, 7), (1, 3), (17, 4), (18, 4), (90, 30), (97, 4), (1024, 6)])
def test_fft_of_sizes_that_do_not_divide_costs_its_redistributions_and_largest_parts(n: int, p: int) -> None:
    done = pybsp.simulate(fft.main, n, p=p)
    layouts = fft.layouts_for(n, p)
    expected = [collectives.redistribute.cost(done.ledger.machine, *pair, 2).h for pair in pairwise(layouts)]
    assert h_of(of_label(done, "fft")) == expected
    work = [
        prod(map(ceil, np.divide(layout.shape, layout.grid)))
        * (5 * log2(layout.shape[axis]) + 6 * (axis < len(expected)))
        for axis, layout in enumerate(layouts)
    ]
    assert [record.work for record in done.ledger] == pytest.approx(work)


def test_fft_leaves_a_cyclic_vector_cyclic() -> None:
    first, _, last = fft.layouts_for(64, 16)
    for pid in range(16):
        assert np.arange(64).reshape(first.shape)[first.part(pid)].ravel().tolist() == list(range(pid, 64, 16))
        after = np.arange(64).reshape(last.shape, order="F")[last.part(pid)]
        assert sorted(after.ravel() % 4) == [after.ravel()[0] % 4] * 4


def random_vector(n: int) -> Any:
    generator = np.random.default_rng(n)
    return generator.normal(size=n) + 1j * generator.normal(size=n)


@pytest.mark.parametrize("p", [2, 5])
def test_record_sort_costs_what_sample_sort_says(p: int) -> None:
    n = 203
    done = pybsp.simulate(record_sort.main, n, p=p)
    before = [record_sort.random_records(n, pid)["key"] for pid in range(p)]
    counts = [[np.isin(keys, after["key"]).sum() for after in done.results] for keys in before]
    cost, steps = collectives.sample_sort.cost(done.ledger.machine, None, counts, 8, 24), of_label(done, "sort")
    assert h_of(steps) == h_of(cost)
    assert [step.work for step in steps] == [step.w for step in cost]
    assert max(step.h for step in steps) <= 4 * 2 * n
    (order,) = of_label(done, "order")
    assert 5 * (p - 1) <= order.h <= 7 * (p - 1)
    assert order.work == cost.after


@pytest.mark.parametrize("p", [1, 4, 6])
def test_sparse_product_costs_its_patterns(p: int) -> None:
    side = 5
    n = side**3

    def main(bsp: pybsp.BSP) -> Any:
        entries = sparse_cg.poisson(side, Block(n, bsp.p).part(bsp.pid)[0])
        a = sparse_cg.Matrix(bsp, n, entries)
        y = a.product(np.arange(n)[a.layout.part(bsp.pid)] ** 2.0).copy()
        bsp.sync()
        costs = a.fan_out.cost(bsp.machine), a.fan_in.cost(bsp.machine, "put")
        return y, costs, a.local.shape, a.local.nnz

    done = pybsp.simulate(main, p=p)
    _, costs, _, _ = done.results[0]
    steps = of_label(done, "product")
    assert h_of(steps) == [cost.h for cost in costs]
    assert steps[0].h_in <= max(shape[1] for _, _, shape, _ in done.results)
    assert steps[1].h_out <= max(shape[0] for _, _, shape, _ in done.results)
    assert steps[1].work == 2 * max(nonzeros for *_, nonzeros in done.results)
    expected = seven_points(side) @ np.arange(n) ** 2.0
    np.testing.assert_allclose(np.concatenate([y for y, *_ in done.results]), expected)
    assert len(done.ledger) == 5
    found = [sparse_cg.poisson(side, Block(n, p).part(pid)[0]).size for pid in range(p)]
    assert of_label(done, "entries")[0].h <= 2 * max(*found, *(nonzeros for *_, nonzeros in done.results))
    assert h_of(of_label(done, "pattern")) == [0]


def seven_points(side: int) -> Any:
    line = sparse.diags([-1.0, 2.0, -1.0], [-1, 0, 1], (side, side))
    one = sparse.identity(side)
    kron = sparse.kron
    return kron(kron(line, one), one) + kron(kron(one, line), one) + kron(kron(one, one), line)


def test_cg_takes_two_products_supersteps_and_two_dots_an_iteration() -> None:
    p, iterations = 4, 5

    def main(bsp: pybsp.BSP) -> Any:
        a = sparse_cg.Matrix(bsp, 27, sparse_cg.poisson(3, Block(27, bsp.p).part(bsp.pid)[0]))
        b = np.arange(27.0)[a.layout.part(bsp.pid)]
        return sparse_cg.conjugate_gradients(a, b, iterations)[0]

    done = pybsp.simulate(main, p=p)
    one = collectives.allreduce.cost(done.ledger.machine)
    assert len(of_label(done, "product")) == 2 * iterations
    dots = of_label(done, "dot")
    assert h_of(dots) == h_of(one) * (2 * iterations + 1)
    block = ceil(27 / p)
    assert [dot.work for dot in dots[:4]] == [2 * block, 2 * block, 2 * block + one.after, 2 * block]
    assert of_label(done, "product")[2].work == 6 * block + one.after  # of the iteration before


def test_cg_solves_a_problem_in_matrix_market_form(tmp_path: Path) -> None:
    file = tmp_path / "poisson.mtx"
    io.mmwrite(file, seven_points(3) + sparse.identity(27), symmetry="symmetric")
    done = pybsp.simulate(sparse_cg.main, matrix=str(file), p=3)
    np.testing.assert_allclose(done.results[0], np.cos(np.arange(27)), atol=1e-6)
    assert h_of(of_label(done, "check")) == [27 - 9]


@pytest.mark.parametrize(
    "matrix",
    [np.array([[2, 1j], [-1j, 2]]), np.ones((5, 7)), np.ones((7, 5)), np.array([[2.0, 1], [0, 2]]), np.ones((0, 0))],
    ids=["hermitian", "wide", "tall", "not symmetric", "empty"],
)
def test_cg_refuses_a_matrix_that_is_not_real_and_symmetric(matrix: Any, tmp_path: Path) -> None:
    file = tmp_path / "some.mtx"
    io.mmwrite(file, sparse.coo_array(matrix))
    got = re.escape(
        f"sparse_cg: --matrix: expected a real symmetric matrix, got {matrix.dtype} of shape {matrix.shape}"
    )
    with pytest.raises(ValueError, match=got):
        pybsp.simulate(sparse_cg.main, matrix=str(file), p=2)


@pytest.mark.parametrize("p", [1, 2, 5])
def test_graph_costs_the_distinct_neighbours_of_a_processors_vertices(p: int) -> None:
    n, m = 60, 80
    done = pybsp.simulate(graph.main, n, m, p=p)
    edges = graph.random_edges(n, m, 0, 1)
    pairs = {(int(a), int(b)) for a, b in edges} | {(int(b), int(a)) for a, b in edges}
    told = {(a % p, b) for a, b in pairs}  # by whom, and which vertex; or who hears of it

    def h_with(told: set[tuple[int, int]], active: set[int]) -> int:
        """Where these are told by processors, and those that are active tell all others a word."""
        out = [sum(by == pid != vertex % p for by, vertex in told) + (p - 1) * (pid in active) for pid in range(p)]
        into = [sum(by != pid == vertex % p for by, vertex in told) + len(active - {pid}) for pid in range(p)]
        return max(out + into)

    ends = [*edges["source"].tolist(), *edges["target"].tolist()]

    def most_edges(vertices: set[int]) -> int:
        """Of a processor, that leave these vertices."""
        return max([end % p for end in ends if end in vertices].count(pid) for pid in range(p))

    (making,) = of_label(done, "edges")
    assert making.h <= 2 * max(most_edges(set(range(n))), 2 * ceil(m / p))
    assert [record.h for record in of_label(done, "pattern")] == [0]

    distance, component = done.results[0]
    levels = of_label(done, "level")
    assert len(levels) == distance.max() + 2
    for level, record in enumerate(levels):
        in_level = {vertex for vertex in range(n) if distance[vertex] == level}
        told_of_level = {(a % p, b) for a, b in pairs if a in in_level}
        assert record.h == h_with(told_of_level, {vertex % p for vertex in in_level})
        assert record.work == most_edges(in_level)

    smallest = of_label(done, "smallest")
    assert {record.h for record in smallest} == {h_with(told, set(range(p)))}
    assert {record.work for record in smallest} == {most_edges(set(range(n)))}
    label, rounds = np.arange(n), 0
    while True:
        after = label.copy()
        for a, b in pairs:
            after[b] = min(after[b], label[a])
        if np.array_equal(after, label):
            break
        label, rounds = after, rounds + 1
    assert len(smallest) == rounds + 2
    assert label.tolist() == component.tolist()
    assert h_of(of_label(done, "check"))[:1] == [2 * (n - ceil(n / p))][: p - 1]


@pytest.mark.skipif(not graph.STATUS.exists(), reason="no Debian")
def test_graph_of_debians_packages() -> None:
    names, edges = graph.packages()
    assert {"dpkg", "libc6"} <= set(names)
    of = {(names[a], names[b]) for a, b in edges}
    assert ("dpkg", "tar") in of
    distance, _ = pybsp.simulate(graph.main, root="libc6", p=3).results[0]
    assert distance[names.index("libc6")] == 0


def test_graph_of_pythons_packages_where_there_is_no_debian(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph, "STATUS", Path("/no/such/file"))
    names, edges = graph.packages()
    assert ("scipy", "numpy") in {(names[a], names[b]) for a, b in edges}
    distance, component = pybsp.simulate(graph.main, root="scipy", p=3).results[0]
    assert distance[names.index("numpy")] == 1
    assert component[names.index("numpy")] == component[names.index("scipy")]


@pytest.mark.whole
def test_cg_solves_the_problem_of_a_graph_that_is_there(tmp_path: Path) -> None:
    file = tmp_path / "packages.mtx"
    ended = run([sys.executable, str(TEXTBOOK / "graph.py"), "--matrix", str(file)])
    assert ended.code == 0, ended.err
    assert file.read_text().startswith("%%MatrixMarket matrix coordinate real symmetric")
    names, edges = graph.packages()
    matrix = io.mmread(file, spmatrix=False)
    off_diagonal = {(a, b) for a, b in edges.tolist() if a != b}
    assert matrix.shape == (len(names), len(names))
    assert matrix.nnz == len(names) + len(off_diagonal | {(b, a) for a, b in off_diagonal})
    done = pybsp.simulate(sparse_cg.main, matrix=str(file), p=3)
    np.testing.assert_allclose(done.results[0], np.cos(np.arange(len(names))), atol=1e-5)


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (2, 1), (1, 2), (2, 2), (3, 2)])
def test_lu_costs_what_its_docstring_says(rows: int, columns: int) -> None:
    n, p = 13, rows * columns

    def main(bsp: pybsp.BSP) -> Any:
        order = lu.main(bsp, n, rows)
        bsp.sync()
        return order

    done = pybsp.simulate(main, p=p)
    of = pybsp.BSPMachine.nominal
    swap = collectives.allreduce.cost(of(rows), 2 * (ceil(n / columns) + 2))
    assert h_of(of_label(done, "allreduce")) == h_of(swap) * n
    expected = [h_of(collectives.broadcast.cost(of(columns), ceil((n - k) / rows))) for k in range(n)]
    assert h_of(of_label(done, "broadcast")) == list(chain(*expected))
    assert h_of(of_label(done, "check")) == [n * n - ceil(n / rows) * ceil(n / columns)][: p - 1]
    total = sum(record.work for record in done.ledger) - swap.w * n
    per_step = [
        ceil((n - k) / rows) + ceil((n - k - 1) / rows) * (2 * ceil((n - k - 1) / columns) + 1) for k in range(n)
    ]
    assert total <= sum(per_step)
    if p == 1:
        assert total == sum(per_step)
    assert all((order == done.results[0]).all() for order in done.results)


def test_lu_sends_columns_along_rows_by_what_is_cheapest_for_each() -> None:
    n, rows, columns = 13, 2, 4
    machine = pybsp.BSPMachine(p=rows * columns, g=1.0, l=4.0, r=1e3)
    of_row = pybsp.BSPMachine(p=columns, g=1.0, l=4.0, r=1e3)
    expected = []
    for k in range(n):
        sizes = ceil((n - k) / rows), (n - k) // rows
        longer, shorter = (h_of(collectives.broadcast.cost(of_row, words)) for words in sizes)
        expected += [max(hs) for hs in zip_longest(longer, shorter, fillvalue=0)]
    done = pybsp.simulate(lu.main, n, rows, machine=machine)
    assert h_of(of_label(done, "broadcast")) == expected


def test_lu_of_a_singular_matrix_is_an_error_on_every_processor() -> None:
    def main(bsp: pybsp.BSP) -> str:
        grid = bsp.grid(2, 1)
        try:
            lu.lu(bsp, grid, np.ones((2, 4)), 4)
        except ArithmeticError as error:
            return str(error)
        return ""

    assert pybsp.simulate(main, p=2).results == ["lu: the matrix is singular: column 1 has no pivot"] * 2


@pytest.mark.parametrize(("p", "layers"), [(4, 1), (8, 2), (16, 1), (16, 4), (27, 3)])
def test_more_layers_send_fewer_words(p: int, layers: int) -> None:
    n = 72 if p == 27 else 32
    q = isqrt(p // layers)
    done = pybsp.simulate(matrix_product.main, n, layers, p=p)
    block = n * n // p
    assert h_of(of_label(done, "rows")) == h_of(of_label(done, "columns")) == [(q - 1) * block]
    added = of_label(done, "layers")
    assert sum(h_of(added)) == (layers - 1) * block
    if added:
        assert added[0].work == 2 * n**3 / p
    total = sum(h_of(of_label(done, "rows") + of_label(done, "columns") + added))
    assert total == (2 * q + layers - 3) * block
    (check,) = of_label(done, "check")
    assert n * n - block <= check.h <= n * n - block + 50 * p


@pytest.mark.fast
@pytest.mark.parametrize("layers", [-1, 0, 3, 5, 12])
def test_layers_that_are_no_squares_are_refused(layers: int) -> None:
    with pytest.raises(ValueError, match="expected layers"):
        pybsp.simulate(matrix_product.main, 8, layers, p=8)


@pytest.mark.parametrize(
    ("program", "arguments"),
    [(kmeans.main, (50,)), (lu.main, (11,)), (matrix_product.main, (13,)), (fft.main, (36,)), (sieve.main, (100,))],
)
def test_more_processors_than_divide_the_input(program: Any, arguments: tuple[int, ...]) -> None:
    for p in (1, 3, 9):
        pybsp.simulate(program, *arguments, p=p)  # compares with the sequential result
