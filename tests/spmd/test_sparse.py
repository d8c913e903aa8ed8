"""Router `sparse` delivers what `direct` delivers, and fails as it does."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings

import pybsp
from examples import heat, pagerank
from pybsp.routing.choice import resolved
from pybsp.transport import END, FLAG_GETS, FLAG_MEET, SYNC
from pybsp.transport.sparse import pays_from, rounds
from tests.conftest import Spmd
from tests.sparse_counts import kinds_and_flags
from tests.tiers import some

from . import test_random_programs as random_programs
from .programs import plain
from .test_begin_end import exchanged


def test_random_programs_give_what_the_sequential_reading_gives(spmd: Spmd) -> None:
    @settings(
        max_examples=some(10),
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    @given(random_programs.PROGRAM)
    def check(program: random_programs.Program) -> None:
        assert spmd(random_programs.run, program, router="sparse") == random_programs.reference(program, spmd.p)

    check()


@pytest.mark.parametrize("split", [False, True])
def test_it_delivers_what_direct_delivers(spmd: Spmd, split: bool) -> None:
    assert spmd(exchanged, split, router="sparse") == spmd(exchanged, split)


def test_parts_and_examples_run_on_it(spmd: Spmd, capsys: pytest.CaptureFixture[str]) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        with bsp.split(bsp.pid % 2) as part:
            for dest in range(part.p):
                part.send(dest, np.full(2000, bsp.pid))
            part.sync()
            return [int(m.payload[0]) for m in part.inbox]

    assert spmd(main, router="sparse") == [list(range(pid % 2, spmd.p, 2)) for pid in range(spmd.p)]
    for example, *arguments in ((pagerank, 8), (heat, 9, 4)):
        got, expected = (spmd(example.main, *arguments, router=router) for router in ("sparse", "direct"))
        assert plain(got) == plain(expected)


def test_a_neighbour_ahead_by_a_superstep_is_not_mistaken(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> bool:
        right = True
        for k in range(200):
            if (bsp.pid + k) % 3:
                bsp.send((bsp.pid + k) % bsp.p, k)
            bsp.sync()
            right &= all(m.payload == k for m in bsp.inbox)
            right &= len(bsp.inbox) == sum((s + k) % 3 != 0 and (s + k) % bsp.p == bsp.pid for s in range(bsp.p))
        return right

    assert spmd(main, router="sparse") == [True] * spmd.p


def test_a_failure_and_a_mismatch_reach_all(spmd: Spmd) -> None:
    def fails(bsp: pybsp.BSP) -> None:
        bsp.sync()
        if bsp.pid == bsp.p - 1:
            raise LookupError("of the last")
        bsp.sync()

    def differs(bsp: pybsp.BSP) -> None:
        if bsp.pid == 0:
            bsp.sync()

    *first, last = spmd.errors(fails, router="sparse")
    assert isinstance(last, LookupError)
    if spmd.mpi:
        assert all(isinstance(error, pybsp.ProcessorError) for error in first), first
    if spmd.p > 1:
        assert isinstance(spmd.errors(differs, router="sparse")[0], pybsp.SyncError)


def test_it_pays_where_heads_to_all_cost_more_than_the_dissemination() -> None:
    latency, o_msg = 50e-6, 2e-6
    p = pays_from(latency, o_msg)
    assert (p - 1 - rounds(p)) * o_msg > (2 + rounds(p)) * latency
    assert (p - 2 - rounds(p - 1)) * o_msg <= (2 + rounds(p - 1)) * latency
    assert pays_from(0.0, o_msg) == 4  # the first p with fewer rounds than others


@pytest.mark.parametrize(("latency", "o_msg"), [(1e308, 1e-6), (1e308, 1e300), (1.0, 1e-300)])
def test_where_no_machine_is_so_large_that_it_pays_it_never_does(latency: float, o_msg: float) -> None:
    assert pays_from(latency, o_msg) == sys.maxsize


def test_on_a_measured_machine_direct_becomes_sparse_where_that_pays() -> None:
    small, large = (pybsp.BSPMachine(p=p, g=1e-9, l=50e-6, r=1e9, o_msg=2e-6) for p in (8, 4096))
    assert resolved("direct", small) == "direct"
    assert resolved("direct", large) == "sparse"
    assert resolved("direct", large, no_shared_memory=False) == "direct"
    assert resolved("direct", pybsp.BSPMachine.nominal(4096)) == "direct"
    assert resolved("direct", pybsp.BSPMachine(p=4096, g=1e-9, l=50e-6, r=1e9)) == "direct"


def test_all_find_the_kinds_and_flags_of_all_and_no_others() -> None:
    for p in 1, 2, 3, 5, 8:
        assert kinds_and_flags([SYNC] * p) == [(SYNC, SYNC, 0)] * p
        kinds = [SYNC] * p
        kinds[0] |= FLAG_MEET
        kinds[-1] |= FLAG_GETS
        assert kinds_and_flags(kinds) == [(SYNC, SYNC, FLAG_MEET | FLAG_GETS)] * p
        assert kinds_and_flags([*kinds, END]) == [(SYNC, END, FLAG_MEET | FLAG_GETS)] * (p + 1)


def test_what_is_said_to_all_does_not_wait_for_large_data(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> list[float]:
        bsp.queue(np.float64)  # said to all at the sync, beside the data
        bsp.send((bsp.pid + 1) % bsp.p, np.full(300_000, float(bsp.pid)))
        bsp.sync()
        return [float(message.payload[-1]) for message in bsp.inbox]

    assert spmd(main, router="sparse") == [[float((pid - 1) % spmd.p)] for pid in range(spmd.p)]
