"""A sample of the fault matrix; all of it by `python -m tests.faults --all`."""

from __future__ import annotations

from pathlib import Path

import pytest

from .faults.__main__ import outcomes
from .faults.kinds import KINDS
from .faults.media import MEDIA, library
from .faults.running import caught, left, suits, tried

SEED = 13


@pytest.mark.whole
@pytest.mark.parametrize(
    ("name", "error", "every"),
    [
        ("shared memory", "raise", 225),
        ("messages", "exit", 225),
        ("nodes", "raise", 400),
        ("aggregated", "raise", 300),
        ("sparse", "exit", 300),
        ("hypercube", "raise", 450),
        ("logp.run", "raise", 300),
    ],
)
def test_runs_recover_from_exceptions_inside_of_exchanges(name: str, error: str, every: int) -> None:
    tally = tried(MEDIA[name], library(), error, every=every, visits=2, seed=SEED, victim=1)
    assert tally.wrong == []
    assert tally.outcomes["recovered"] > tally.outcomes.total() // 2, tally


@pytest.mark.whole
@pytest.mark.parametrize("name", ["shared memory", "messages", "logp.run"])
def test_a_second_exception_where_a_processor_learns_of_a_first_ends_the_job_or_is_recovered_from(name: str) -> None:
    tally = tried(MEDIA[name], library(), "raise", every=45, visits=2, seed=SEED, victim=1, failing=2)
    assert tally.wrong == []
    assert tally.outcomes.total() >= 3


@pytest.mark.whole
def test_an_interrupt_inside_of_an_exchange_ends_the_job() -> None:
    tally = tried(MEDIA["messages"], library(), "interrupt", every=1500, visits=2, seed=SEED, victim=1)
    assert tally.wrong == []
    assert set(tally.outcomes) == {"ended"}


@pytest.mark.whole
@pytest.mark.parametrize("name", ["shared memory", "messages"])
def test_what_is_caught_on_all_processors_is_recovered_from(name: str) -> None:
    kinds = [kind for kind in KINDS.values() if kind.recovers and suits(kind, MEDIA[name])]
    assert caught(kinds, MEDIA[name], library()) == ""


@pytest.mark.fast("raise, in the body of a split-hypercube")
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("SIGTERM with a handler that exits, waiting", "messages"),
        ("raise, unpickling at the receiver", "aggregated"),
        ("raise, in the body of a split", "hypercube"),
        ("SIGKILL, waiting", "messages"),
        ("SIGSTOP, and SIGCONT later", "messages"),
        ("the disk is full where the ledger goes", "shared memory"),
        ("sys.exit in attach", "messages"),
    ],
)
def test_a_fault_ends_the_job_as_is_stated(kind: str, name: str) -> None:
    assert left(KINDS[kind], MEDIA[name], library()) == ""


def test_the_page_has_what_is_stated_of_each_fault() -> None:
    page = (Path(__file__).parent.parent / "docs" / "explanation" / "reliability.md").read_text()
    assert outcomes() in page
