"""Worms of bits: they move as a simulation bit by bit has it, and take what Theorem 1 says, by a constant factor."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest

from pybsp.benchmarks.studies.theory.bits import Count, StepCounter, WormProtocol, Worms, count, stream
from pybsp.errors import UsageError
from pybsp.routing import Relation
from pybsp.routing.multibutterfly import Multibutterfly, Parameters, h_bar
from pybsp.routing.multibutterfly.wiring import Ints
from pybsp.routing.relations import all_to_one, bit_reversal, random_relation

D, L = 16, 32
FEW = Parameters(Z=4)
NETWORKS = {N: Multibutterfly(N, D) for N in (32, 64, 256, 1024)}


def counted(N: int, relation: Relation, size: int, rate: int = 2) -> Count:
    return count(NETWORKS[N], relation.sources * L, relation.destinations * L, relation.h, size, FEW, rate)


class Recorded(Worms):
    """Keeps which heads have moved when."""

    def __init__(self, *args: int | Multibutterfly) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self.paths: list[Ints] = []

    def flow(self) -> None:
        self.paths.append(self.path.copy())
        super().flow()


def bit_by_bit(paths: list[Ints], bits: int, rate: int) -> tuple[list[int], list[list[int]]]:
    """By the paths as they are in each repetition: the bits on the busiest edge, and the data that each end gets."""
    messages, columns = paths[0].shape
    nodes = [[deque(range(bits)) if c == 0 else deque() for c in range(columns + 1)] for _ in range(messages)]
    busiest = []
    for path in paths:
        load: dict[int, int] = {}
        before = [[len(node) for node in of] for of in nodes]
        arriving = []
        for m in range(messages):
            for c in range(columns):
                if path[m, c] < 0:
                    continue
                if nodes[m][c] and nodes[m][c][0] == c:
                    nodes[m][c].popleft()  # the bit that has decided
                    before[m][c] -= 1
        for m in range(messages):
            for c in range(columns):
                if path[m, c] < 0:
                    continue
                room = rate if c + 1 == columns else 2 * rate - before[m][c + 1]
                for _ in range(min(before[m][c], room, rate)):
                    arriving.append((m, c + 1, nodes[m][c].popleft()))
                    load[path[m, c]] = load.get(path[m, c], 0) + 1
        for m, c, bit in arriving:
            nodes[m][c].append(bit)
            assert c == columns or len(nodes[m][c]) <= 2 * rate
        busiest.append(max(load.values(), default=0))
    return busiest, [list(of[columns]) for of in nodes]


@pytest.mark.parametrize("rate", [1, 2, 5])
@pytest.mark.parametrize(("N", "h"), [(64, 1), (64, 6), (256, 3), (256, 20)])
def test_worms_move_as_bit_by_bit(N: int, h: int, rate: int) -> None:
    relation, size = random_relation(N // L, h, seed=h), 9
    worms = Recorded(NETWORKS[N], 0, relation.M, size, rate)
    rows, ends = relation.sources * L, relation.destinations * L
    outcome = WormProtocol(worms, h, FEW, rows, ends, np.arange(relation.M)).run()
    while not worms.delivered:
        worms.flow()
    busiest, got = bit_by_bit(worms.paths, worms.bits, rate)
    assert busiest == worms.busiest
    columns = worms.columns
    assert got == [list(range(columns, columns + size))] * relation.M
    assert np.array_equal(outcome.rows, ends[outcome.numbers])


def test_heads_that_are_not_blocked_move_a_column_in_a_stage() -> None:
    for N in (32, 64, 256, 1024):
        found = counted(N, random_relation(N // L, 1), 1)
        assert found.heads == N.bit_length() - 1


@pytest.mark.parametrize("rate", [1, 2, 3])
def test_a_stage_in_which_heads_wait_for_bits_is_no_blocked_one(rate: int) -> None:
    # One repetition in a stage: of the bits that come with a head one is dropped, and after `rate` columns it waits.
    found = count(NETWORKS[256], np.array([0]), np.array([255]), 1, 9, Parameters(Y=1), rate)
    assert found.heads == 8 + 7 // rate


def test_sides_in_turn_are_not_counted() -> None:
    with pytest.raises(UsageError, match="expected in_turn=False"):
        count(NETWORKS[256], np.array([0]), np.array([255]), 1, 9, Parameters(in_turn=True))


@pytest.mark.whole
def test_congestion_is_that_of_theorem_2() -> None:
    for h in (1, 5, 64):
        for relation in (random_relation(8, h, 1), bit_reversal(8, h), all_to_one(8, h)):
            found = counted(256, relation, 4)
            buffers = h_bar(relation.h, D, FEW.R)
            assert found.congestion <= max(1, buffers // FEW.R)
            assert found.through <= 2 * buffers
            assert found.used <= found.provisioned
            assert found.words_used <= found.words_provisioned


@pytest.mark.whole
@pytest.mark.parametrize("h", [1, 4, 16, 64])
@pytest.mark.parametrize("size", [1, 16, 256])
def test_the_bit_model_takes_h_times_x_and_log_n(h: int, size: int) -> None:
    """Theorem 1: O(h) steps a stage, and as many stages as heads take, and data at two bits a repetition."""
    for N in (64, 256, 1024):
        n, counter = N.bit_length() - 1, StepCounter(NETWORKS[N], h, FEW, 2)
        stage = counter.stages(np.full(FEW.Y, 2 * counter.batch))
        assert stage <= 68 * h
        found = counted(N, random_relation(N // L, h, seed=2), size)
        assert found.provisioned <= stage * (n + size / (2 * FEW.Y) + 1)


@pytest.mark.whole
@pytest.mark.parametrize("h", [1, 4, 16, 64])
@pytest.mark.parametrize("size", [1, 16, 256])
def test_the_word_model_takes_h_times_the_words_and_log_n(h: int, size: int) -> None:
    """Likewise O(1 + h / log N) steps a stage, where messages of few (h < log N) go on by more than two bits."""
    for N in (64, 256, 1024):
        n = N.bit_length() - 1
        rate = max(2, -(-n // h))
        counter = StepCounter(NETWORKS[N], h, FEW, rate)
        stage = counter.stages(np.full(FEW.Y, rate * counter.batch), n)
        assert stage <= 34 + 36 * h / n
        found = counted(N, random_relation(N // L, h, seed=2), size, rate)
        assert found.words_provisioned <= stage * (n + size / (rate * FEW.Y) + 1)


def test_twice_the_data_takes_at_most_twice_as_long_and_two_bits_a_repetition() -> None:
    relation = random_relation(8, 16, seed=3)
    sizes = [counted(256, relation, size) for size in (64, 128, 256, 512)]
    repetitions = np.diff([found.stages * FEW.Y for found in sizes])
    assert np.all(np.abs(repetitions - np.array([32, 64, 128])) <= FEW.Y)


def test_a_stage_costs_its_parts() -> None:
    """d = 16, R = 8, h = 3: h-bar = 64, so batches of 8; numbers of 7 bits, and of 3 for a logarithm (or none)."""
    counter = StepCounter(NETWORKS[256], 3, FEW, 2)
    assert (counter.buffers, counter.batch, counter.word) == (64, 8, 8)
    control = 4 * (3 + 1 + 1) + 7
    assert counter.stages(np.array([16, 16, 5])) == control + 3 * 7 + 16 + 16 + 5
    assert counter.stages(np.array([16, 16, 5]), 8) == 4 * (1 + 1 + 1) + 1 + 3 + 3 + 2
    assert counter.storage == 2 * 64 * (4 + 2) + 2 * (8 * 4 + 1) + 4 * 7


def test_storage_grows_with_h_and_not_with_x_or_n() -> None:
    storage = {h: counted(256, random_relation(8, h), 8).storage for h in (4, 64)}
    assert 14 < storage[64] / storage[4] <= 16
    assert counted(256, random_relation(8, 4), 800).storage == storage[4]
    assert counted(1024, random_relation(32, 4), 8).storage == storage[4]


def test_long_messages_that_are_streamed_take_a_frame_for_each_word() -> None:
    relation = random_relation(8, 6, seed=1)
    rows, ends = relation.sources * L, relation.destinations * L
    short, long = (stream(NETWORKS[256], rows, ends, 6, size, FEW) for size in (64, 64 + 800))
    congestion = counted(256, relation, 1, rate=8).congestion
    batch = StepCounter(NETWORKS[256], 6, FEW, 8).batch
    assert short.select == long.select
    assert short.stream == congestion * (8 + 7)
    assert long.stream == short.stream + 100 * congestion
    assert long.stream_provisioned == batch * (108 + 7)
    assert long.local > short.local


def test_a_relation_without_messages_takes_nothing() -> None:
    found = counted(64, Relation([], [], 2), 8)
    assert (found.stages, found.used, found.provisioned, found.congestion) == (0, 0, 0, 0)
