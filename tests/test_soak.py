"""The soak (soak.py), a little of it: random programs give what the sequential model says, or the job fails."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import pybsp

from . import soak_programs
from .launching import ended_well, python, run
from .soak import Ended, failed
from .soak_programs import Keeper, played, runs_of
from .tiers import some

SOAK = python(str(Path(__file__).parent / "soak.py"))


def all_of(seed: int, p: int) -> None:
    """The runs with that seed, on virtual processors."""
    for number, runs in enumerate(runs_of(seed, p)):
        pybsp.simulate(played, runs, None, number, p=p, router=runs.router, checked=runs.checked)


@pytest.mark.whole
@pytest.mark.parametrize("p", [1, 4])
def test_random_programs_on_virtual_processors(p: int) -> None:
    for seed in range(some(2)):
        all_of(seed, p)


@pytest.mark.whole
def test_random_programs_on_ranks() -> None:
    """By messages on five ranks, in shared memory, on nodes that are pretended, with aggregation."""
    ended = run([*SOAK, "--jobs", "4", "--seed", "9"], 250)
    assert ended_well(ended).splitlines()[-1].endswith("differences: 0"), ended


def test_what_pybsp_gives_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soak_programs, "arriving", lambda payload: (payload,))
    with pytest.raises(AssertionError, match=r"processor \d, run \d .*: expected"):
        all_of(1, 2)


def test_a_kept_view_that_changes_is_found() -> None:
    keeper, arrived = Keeper(0, 0), np.arange(5)
    for _ in range(100):
        keeper.keep(arrived[1:], "there")
    keeper.look("now")
    arrived[2] = 7
    with pytest.raises(AssertionError, match="then: what was kept of there has changed"):
        keeper.look("then")


@pytest.mark.parametrize(
    ("ended", "wrong"),
    [
        (Ended(0, "{}", "", False), ""),
        (Ended(1, "{}", "", False), "ends with status 1"),
        (Ended(1, "", "Timeout (0:00:01)!", True), "hangs"),
        (Ended(0, "", "", False), "ends with status 0 and nothing done"),
    ],
)
def test_a_job_that_ends_badly_is_a_finding(ended: Ended, wrong: str) -> None:
    assert failed(ended) == wrong
