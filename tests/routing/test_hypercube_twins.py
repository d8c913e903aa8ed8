"""Router `hypercube` where p is no power of two: what each processor does and says reaches all, under its number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pybsp
from pybsp.transport import END, LEDGER, SPLIT, SYNC


@pytest.mark.parametrize("p", [1, 3, 5, 6, 7, 13])
def test_what_each_does_and_says_reaches_all_under_its_number(p: int) -> None:
    rng = np.random.default_rng(p)
    doing = [rng.choice([SYNC, SYNC, SPLIT, END, LEDGER], p).tolist() for _ in range(20)]
    doing += [[END if other == pid else SYNC for other in range(p)] for pid in range(p)]
    saying = rng.random((len(doing), p)) < rng.random((len(doing), 1))
    doing += [[SYNC] * p] * p
    saying = np.concatenate([saying, np.eye(p, dtype=bool)])

    def main(bsp: pybsp.BSP) -> list[tuple[Any, Any]]:
        found = []
        for kinds, says in zip(doing, saying, strict=True):
            arrival = bsp.router.route(kinds[bsp.pid], f"said by {bsp.pid}" if says[bsp.pid] else None, {})
            found.append((arrival.kinds, arrival.notes))
        return found

    expected = []
    for kinds, says in zip(doing, saying, strict=True):
        notes = [f"said by {pid}" if says[pid] else None for pid in range(p)] if says.any() else None
        expected.append((kinds if notes or len(set(kinds)) > 1 else None, notes))
    assert pybsp.simulate(main, p=p, router="hypercube").results == [expected] * p
    assert pybsp.simulate(main, p=p).results == [expected] * p
