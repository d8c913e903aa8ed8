"""Sorting on LogP: networks by the 0-1 principle, columnsort at its least r, and the simulated time of the schemes."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from pybsp import LogPMachine
from pybsp.benchmarks.studies.theory.sorting_bounds import AKS_LAYERS, aks_time, cubesort_time
from pybsp.logp import simulate
from pybsp.routing.logp.combine_broadcast import common_start
from pybsp.routing.logp.phases import Phases
from pybsp.routing.logp.sorting import SortingScheme, choose, sort
from pybsp.routing.logp.sorting.networks import depth, merge, network
from pybsp.routing.logp.sorting.schemes import by_columns, by_network, on_fewer
from pybsp.routing.logp.sorting.steps import IDLE, Keyed, SortingStep, sequential, transfer_time

SCHEDULES = ["latest", "earliest", "adversary", "random"]


def through(layers: Any, keys: np.ndarray) -> np.ndarray:
    """The keys, shape (p, inputs), after the layers."""
    keys = keys.copy()
    for layer in layers:
        i, j = np.array(layer).T
        keys[i], keys[j] = np.minimum(keys[i], keys[j]), np.maximum(keys[i], keys[j])
    return keys


@pytest.mark.parametrize("p", range(1, 18))
def test_a_network_sorts_all_zeros_and_ones(p: int) -> None:
    keys = (np.arange(2**p) >> np.arange(p)[:, None] & 1).astype(np.int8)
    assert (np.diff(through(network(p), keys), axis=0) >= 0).all()


@pytest.mark.parametrize("m", range(1, 13))
def test_the_odd_even_merge_merges_all_zeros_and_ones(m: int) -> None:
    for n in (m, m + 1, 2 * m + 3):
        comparators, outputs = merge(list(range(m)), list(range(m, m + n)))
        ones = np.array(list(product(range(m + 1), range(n + 1)))).T
        keys = np.concatenate(
            (np.arange(m)[:, None] >= m - ones[0], np.arange(n)[:, None] >= n - ones[1]),
        ).astype(np.int8)
        assert (np.diff(through(([pair] for pair in comparators), keys)[outputs], axis=0) >= 0).all()


@pytest.mark.parametrize("p", [*range(18, 41), 61, 64, 97, 128, 200, 257, 512])
def test_a_network_for_more_processors_sorts(p: int) -> None:
    rng = np.random.default_rng(p)
    keys = rng.permuted(np.tile(np.arange(p)[:, None], (1, 200)), axis=0)
    assert (through(network(p), keys) == np.arange(p)[:, None]).all()
    # Zeros and ones that are hard for merges: blocks, and few of one kind.
    ones = np.arange(p)[:, None] % np.arange(1, p + 1) < np.arange(p) % 7
    assert (np.diff(through(network(p), ones.astype(np.int8)), axis=0) >= 0).all()


def test_layers_are_matchings_and_no_deeper_than_batcher() -> None:
    for p in (*range(2, 70), 100, 128, 255, 1024):
        for layer in network(p):
            assert len({wire for pair in layer for wire in pair}) == 2 * len(layer)
            assert all(0 <= i < j < p for i, j in layer)
        levels = (p - 1).bit_length()
        assert depth(p) <= levels * (levels + 1) // 2
    assert [depth(p) for p in (1, 2, 4, 8, 16, 32, 64, 128)] == [0, 1, 3, 6, 9, 14, 20, 27]


# -- schemes, without a machine -------------------------------------------------------------------------------------


def applied(step: SortingStep, blocks: list[list[Keyed]]) -> list[list[Keyed]]:
    """What all processors hold after a step, whose messages must be a 1-relation in each slot."""
    p, r = len(blocks), len(blocks[0])
    received: list[dict[int, list[tuple[int, Keyed]]]] = [{} for _ in range(p)]
    busy: set[tuple[str, int, int]] = set()
    for pid, place in enumerate(step.places):
        if place == IDLE:
            continue
        last = -1
        for slot, to, index in step.sends(place, blocks[pid]):
            dest = pid - place + to
            assert 0 <= dest < p
            assert step.places[dest] == to
            received[dest].setdefault(place, []).append((slot, blocks[pid][index]))
            if dest != pid:
                assert last < slot < step.slots(r)
                assert ("from", pid, slot) not in busy
                assert ("to", dest, slot) not in busy
                busy |= {("from", pid, slot), ("to", dest, slot)}
                last = slot
    after = []
    for pid, place in enumerate(step.places):
        others = sum(len(items) for source, items in received[pid].items() if source != place)
        assert place == IDLE or others == step.comes(place, r)
        assert place != IDLE or not received[pid]
        items = {source: [item for _, item in sorted(came)] for source, came in received[pid].items()}
        after.append(step.after(place, blocks[pid], items) if others else blocks[pid])
        assert len(after[-1]) == r
    return after


def planned(scheme: SortingScheme, keys: np.ndarray) -> list[int]:
    """The keys, shape (p, r), as the scheme leaves them."""
    blocks: list[list[Keyed]] = [[(int(key), None) for key in sorted(row)] for row in keys]
    for step in scheme.steps:
        blocks = applied(step, blocks)
    return [key for items in blocks for key, _ in items]


@pytest.mark.whole
def test_columnsort_sorts_all_zeros_and_ones_where_it_just_applies() -> None:
    scheme = by_columns(3, by_network(1))
    r = scheme.keys_per_active(1)
    assert (scheme.least, r) == (8, 9)
    for ones in product(range(r + 1), repeat=3):
        keys = np.arange(r) >= r - np.array(ones)[:, None]
        assert planned(scheme, keys) == sorted(keys.ravel())


SCHEMES = [
    by_columns(2, by_network(1)),
    by_columns(4, by_network(1)),
    by_columns(5, by_network(1)),
    by_columns(7, by_network(1)),
    by_columns(4, by_network(2)),
    by_columns(7, by_network(2)),
    by_columns(8, by_network(2)),
    by_columns(3, by_network(3)),
    by_columns(4, by_network(3)),
    by_columns(5, by_network(5)),
    by_columns(6, by_network(4)),
    by_columns(3, by_network(8)),
    by_columns(4, by_columns(3, by_network(1))),
    by_columns(3, by_columns(4, by_network(2))),
]


@pytest.mark.whole
@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: f"{scheme.p}: {scheme.name}")
def test_columnsort_sorts_where_it_just_applies(scheme: SortingScheme) -> None:
    rng = np.random.default_rng(scheme.p)
    p, r = scheme.p, scheme.keys_per_active(1)
    assert r >= scheme.least
    assert r % scheme.unit == 0
    for case in range(30):
        keys: np.ndarray
        if case < 4:  # far from sorted
            keys = np.arange(p * r)[:: 1 if case % 2 else -1].reshape(p, r)
            keys = keys if case < 2 else keys.reshape(r, p).T
        elif case % 2:
            keys = rng.integers(0, (2, p, p * r)[case % 3], (p, r))
        else:  # zeros and ones, as many in the columns as makes for the most disorder: 1 more than whole rows
            columns = scheme.unit * rng.integers(0, r // scheme.unit, p) + rng.integers(0, 2, p)
            keys = np.arange(r) >= columns[:, None]
        assert planned(scheme, keys) == sorted(keys.ravel().tolist())


def test_the_bound_on_columnsort_is_no_formality() -> None:
    scheme = by_columns(4, by_network(1))
    rng = np.random.default_rng(0)
    assert any(
        planned(scheme, keys) != sorted(keys.ravel())
        for keys in (np.arange(8) >= rng.integers(0, 9, 4)[:, None] for _ in range(500))
    )


def test_a_scheme_with_idle_processors_and_equal_keys_sorts() -> None:
    for p in (1, 2, 3, 6, 7, 11):
        keys = np.random.default_rng(p).integers(0, 3, (p, 4))
        assert planned(by_network(p), keys) == sorted(keys.ravel())


# -- choice and cost ----------------------------------------------------------------------------------------------


def test_the_scheme_with_least_time_is_chosen() -> None:
    machine = LogPMachine(p=64, L=16, o=1, G=4)
    assert choose(machine, 1).name == "network of depth 20"
    assert choose(machine, 960).name == "columnsort of 32 columns by network of depth 1"
    assert choose(machine, 8000).name == "columnsort of 64 columns"
    prime = LogPMachine(p=61, L=16, o=1, G=4)
    assert choose(prime, 10).name == "network of depth 20"
    assert choose(prime, 1000).name == "columnsort of 30 columns by network of depth 1, on 60 processors"
    assert choose(prime, 7200).name == "columnsort of 61 columns"
    for r in (1, 10, 100, 500, 1000, 7938, 20000):
        scheme = choose(machine, r)
        per_active = scheme.keys_per_active(r)
        assert r <= per_active
        assert per_active % scheme.unit == 0
        assert per_active >= scheme.least
        others = [by_columns(64, by_network(1)), by_columns(32, by_network(2)), by_network(64)]
        assert all(scheme.time(machine, r) <= other.time(machine, r) for other in others)


def test_columnsort_takes_a_constant_number_of_relations() -> None:
    for p in (5, 16, 61, 256):
        machine = LogPMachine(p=p, L=100, o=2, G=10)
        r = by_columns(p, by_network(1)).keys_per_active(1)
        relations = 3 * transfer_time(machine, r)
        work = 3 * sequential(r, p) + 2 * r
        assert choose(machine, r).time(machine, r) <= relations + work


def test_local_sorting_takes_what_the_paper_counts() -> None:
    assert sequential(0, 8) == sequential(1, 8) == 0
    assert sequential(2, 1000) == 2
    assert sequential(1000, 15) == 1000  # one digit
    assert sequential(16, 255) == 32
    assert sequential(1024, 10**9) == 3 * 1024


def test_neither_aks_nor_cubesort_would_take_less() -> None:
    for p in (16, 61, 256, 1024):
        machine = LogPMachine(p=p, L=64, o=2, G=8)
        assert depth(p) < AKS_LAYERS * np.log2(p)
        for r in (1, 30, 1000, 4096):
            assert choose(machine, r).time(machine, r) < aks_time(machine, r)
            assert aks_time(machine, r) > 100 * transfer_time(machine, r)
        r = 2 * (p - 1) ** 2
        assert choose(machine, r).time(machine, r) < 2 * cubesort_time(machine, r)


# -- on the machine -----------------------------------------------------------------------------------------------


def sorting(proc: Any, keys: np.ndarray, scheme: SortingScheme) -> tuple[int, int, list[Keyed], int]:
    """Time at which sorting began and that by which it was to end; the items; how much earlier this one was done."""
    phases = Phases(proc)
    start = common_start(phases)
    row = [(key, (proc.pid, k)) for k, key in enumerate(keys[proc.pid].tolist())]
    found, end = sort(phases, row[: len(row) - proc.pid % 2], len(row), scheme, start)
    late = proc.time + proc.machine.o - end
    assert late <= 0, f"processor {proc.pid} is {late} steps late"
    return start, end, found, -late


def check_sort(machine: LogPMachine, r: int, scheme: SortingScheme) -> None:
    """Sort r random keys on each processor, on odd ones one less, in several executions."""
    p = machine.p
    per_active = scheme.keys_per_active(r)
    keys = np.random.default_rng(r).integers(0, p, (p, r))
    items = {(pid, k): int(keys[pid, k]) for pid in range(p) for k in range(r - pid % 2)}
    results = []
    for schedule, seed in [("latest", 0), ("earliest", 0), ("adversary", 0), ("random", 1), ("random", 2)]:
        run = simulate(sorting, machine=machine, schedule=schedule, seed=seed, args=(keys, scheme))
        assert run.stalled == 0
        assert run.max_in_transit <= machine.capacity
        if machine.o == 0 and p > 1:  # where nobody waits to submit, the slowest is busy to the end
            assert min(early for *_, early in run.results) == 0
        for start, end, *_ in run.results:
            assert end - start == scheme.time(machine, r) - (max(machine.G, 2 * machine.o) + 2) * (per_active - r)
        results.append([found for _, _, found, _ in run.results])
        assert [len(found) for found in results[-1]] == [per_active] * scheme.active + [0] * (p - scheme.active)
        sequence = [item for found in results[-1] for item in found]
        assert [key for key, _ in sequence] == sorted(items.values()) + [p] * (per_active * scheme.active - len(items))
        assert {item: key for key, item in sequence[: len(items)]} == items
        assert {item for _, item in sequence[len(items) :]} <= {None}
    assert all(result == results[0] for result in results)  # equal keys too are in the same order


MACHINES = [(4, 2, 4), (8, 2, 4), (9, 4, 4), (16, 1, 4), (20, 0, 2), (40, 5, 9), (64, 1, 2)]


@pytest.mark.whole
@pytest.mark.parametrize("parameters", MACHINES, ids=str)
@pytest.mark.parametrize(("p", "r"), [(1, 3), (2, 1), (3, 10), (8, 4), (8, 40), (13, 3), (16, 56)])
def test_sorting_takes_the_time_of_its_scheme_without_a_stall(p: int, r: int, parameters: tuple[int, int, int]) -> None:
    L, o, G = parameters
    machine = LogPMachine(p=p, L=L, o=o, G=G)
    check_sort(machine, r, choose(machine, r))


@pytest.mark.whole
@pytest.mark.parametrize("parameters", MACHINES[1:4], ids=str)
@pytest.mark.parametrize(
    ("p", "r", "columns"), [(5, 10, (4, 1)), (7, 3, (3, 2)), (13, 26, (6, 2)), (11, 12, (3, 3)), (8, 30, (4, 1))]
)
def test_fewer_processors_sort_for_all(
    p: int, r: int, columns: tuple[int, int], parameters: tuple[int, int, int]
) -> None:
    L, o, G = parameters
    scheme = on_fewer(p, by_columns(columns[0], by_network(columns[1])))
    assert scheme.active == columns[0] * columns[1] < p
    check_sort(LogPMachine(p=p, L=L, o=o, G=G), r, scheme)
