"""What rode in supersteps, as a log keeps it: where alike rides in one after the other, no memory for each of them."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybsp.ledger.log import INDICES, Log, ridden

NOTHING = (0, 0.0, 0.0, 0.0, 0, 0, 0, 0, 0, 0, 0)  # a row
KINDS: list[tuple[dict[str, int], str] | None] = [
    None,
    ({"allreduce": 1}, ""),
    ({"allreduce": 1}, "allreduce"),
    ({"allreduce": 1, "broadcast": 2}, ""),
    ({"prefix": 1}, ""),
]
KIND = st.sampled_from(KINDS)


def logged(rows: list[tuple[dict[str, int], str] | None], indices: set[int]) -> Log:
    log = Log()
    for row, of_row in enumerate(rows):
        if row in indices:
            log.note_indices(8 * row + 8)
        log.note(*NOTHING)
        if of_row is not None:
            words, own = of_row
            log.rode(dict(words), own)
    return log


@pytest.mark.whole
def test_a_loop_in_which_alike_rides_takes_no_memory_for_what_rides() -> None:
    log = Log()
    tracemalloc.start()
    for _ in range(20_000):
        log.note(*NOTHING)
        log.rode({"allreduce": 1})
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken < 100 * 20_000  # 88 bytes a row
    found = ridden(log.fresh_rides(20_000))
    assert len(found) == 20_000
    assert len({id(words) for words in found.values()}) == 1


@given(st.lists(KIND, max_size=30), st.sets(st.integers(0, 29)), st.lists(st.integers(0, 31), max_size=4))
def test_what_rode_is_asked_for_in_pieces_and_each_row_comes_once(
    rows: list[tuple[dict[str, int], str] | None], indices: set[int], cuts: list[int]
) -> None:
    log = logged(rows, indices)
    expected = []
    for row, of_row in enumerate(rows):
        if row in indices:
            expected.append((row, {INDICES: 8 * row + 8}, ""))
        if of_row is not None:
            expected.append((row, *of_row))
    last = 0
    found = []
    for cut in [*sorted(cuts), 40]:
        fresh = log.fresh_rides(cut)
        assert all(last <= row < cut for row, *_ in fresh)
        found += fresh
        last = cut
    assert found == expected


@given(st.lists(KIND, max_size=30), st.sets(st.integers(0, 29)), st.integers(0, 31))
def test_a_log_that_goes_on_elsewhere_has_what_rode(
    rows: list[tuple[dict[str, int], str] | None], indices: set[int], combined: int
) -> None:
    log, again = logged(rows, indices), Log()
    log.fresh_rides(combined)
    again.resume(log.as_saved())
    assert again.fresh_rides(40) == log.fresh_rides(40)
