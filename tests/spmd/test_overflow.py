"""Arrays that have no room in a record: where all processors meet on one board they lie beside it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import pybsp
from pybsp import collectives
from pybsp.transport.arena import SharedPool
from pybsp.transport.overflow import MOST, Overflow
from pybsp.transport.wire import AREA, BY_MESSAGE
from pybsp.ways import BY_RECORD
from tests.conftest import Spmd

from .programs import plain

SIZES = (AREA // 8 - 4, AREA // 8, AREA // 8 + 1, AREA // 4, MOST // 8, MOST // 8 + 1)


def numbers(pid: int, size: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.arange(size) % 1000 + pid


def test_memory_is_written_over_in_the_next_exchange_but_one() -> None:
    pool = SharedPool(memoryview(bytearray(1 << 21)), 0, 1 << 21)
    overflow = Overflow(SimpleNamespace(pool=pool))  # type: ignore[arg-type]
    places = [overflow.take(number, 1 << 18)[0] for number in (7, 7, 8, 9, 9, 10)]
    assert BY_MESSAGE not in places
    assert len({*places}) == 3
    assert places[:3] == places[3:]
    overflow.forget()
    assert not pool.used()


def test_what_an_exchange_shows_has_a_bound_and_so_has_memory() -> None:
    pool = SharedPool(memoryview(bytearray(3 * MOST)), 0, 3 * MOST)
    overflow = Overflow(SimpleNamespace(pool=pool))  # type: ignore[arg-type]
    assert overflow.take(1, MOST)[0] != BY_MESSAGE
    assert overflow.take(1, 1)[0] == BY_MESSAGE
    assert overflow.take(2, MOST + 1)[0] == BY_MESSAGE
    assert overflow.take(2, MOST - 1)[0] != BY_MESSAGE
    full = Overflow(SimpleNamespace(pool=SharedPool(memoryview(bytearray(AREA)), 0, AREA)))  # type: ignore[arg-type]
    assert full.take(1, 2 * AREA)[0] == BY_MESSAGE


def test_results_are_right_and_ones_own_whatever_the_size(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        p, pid, found = bsp.p, bsp.pid, []
        for size in SIZES:
            value = numbers(pid, size)
            found.append(
                (
                    size,
                    collectives.allreduce(bsp, value, np.add),
                    collectives.prefix(bsp, value, np.maximum),
                    collectives.allgather(bsp, value)[p - 1],
                    collectives.reduce(bsp, value, np.add, p - 1),
                    collectives.total_exchange_blocks(bsp, value)[0],
                    collectives.gather(bsp, value),
                    collectives.broadcast(bsp, value if pid == p - 1 else None, p - 1),
                )
            )
        right = []
        for size, total, largest, last, whole, exchanged, gathered, spread in found:
            values = [numbers(k, size) for k in range(p)]
            mine = slice(size * pid // p, size * (pid + 1) // p)
            right += [np.array_equal(total, sum(values)), np.array_equal(largest, values[pid])]
            right += [plain(spread) == plain(last), spread.flags.writeable, spread.flags.owndata]
            right += [np.array_equal(last, values[-1]), last.flags.writeable, total.flags.owndata]
            right.append(np.array_equal(whole, total) if pid == p - 1 else whole is None)
            right.append(np.array_equal(exchanged, np.concatenate([one[mine] for one in values])))
            right.append(plain(gathered) == plain(values) if pid == 0 else gathered is None)
        return all(right)

    assert spmd(main) == [True] * spmd.p


def test_one_that_sends_and_others_that_show_find_each_other(spmd: Spmd) -> None:
    """Who has more than others has no room for all of it, and sends that."""

    def main(bsp: pybsp.BSP) -> Any:
        right = []
        for size in (MOST // 8 + 1, AREA // 8 + 1, 3):
            mine = size if bsp.pid == 0 else AREA // 4
            got, counts = collectives.allgather_blocks(bsp, numbers(bsp.pid, mine))
            expected = [numbers(pid, AREA // 4 if pid else size) for pid in range(bsp.p)]
            right.append(np.array_equal(got, np.concatenate(expected)) and counts[0] == size)
        return all(right)

    assert spmd(main) == [True] * spmd.p


def test_what_a_part_has_shown_last_may_be_read_when_it_has_ended(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        right = []
        for turn in range(6):
            with bsp.split(bsp.pid % 2) as part:
                found = collectives.gather(part, numbers(bsp.pid + turn, AREA // 4))
            if found is not None:
                right.append(plain(found) == plain([numbers(k + turn, AREA // 4) for k in range(bsp.pid, bsp.p, 2)]))
            total = collectives.allreduce(bsp, numbers(turn, AREA // 4), np.maximum)
            right.append(np.array_equal(total, numbers(turn, AREA // 4)))
        return all(right)

    assert spmd(main) == [True] * spmd.p


@pytest.mark.parametrize("size", [AREA // 4, MOST // 8])
def test_they_are_noted_as_records(spmd: Spmd, size: int) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        collectives.allreduce(bsp, numbers(bsp.pid, size), np.maximum, degree=bsp.p + 2)
        return bsp.shown is not None, [record.ways for record in bsp.ledger]

    for shown, ways in spmd(main):
        assert ways == [BY_RECORD] * (spmd.p > 1) or not shown
