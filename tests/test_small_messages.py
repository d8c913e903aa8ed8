"""Where the time of a superstep of small messages goes: the command says it."""

from __future__ import annotations

import sys

import pytest

from .launching import ended_well, mpiexec, run


@pytest.mark.whole
@pytest.mark.parametrize("profile", [[], ["--profile"]])
def test_it_prints_the_phases_and_a_profile_if_wanted(profile: list[str]) -> None:
    command = [*mpiexec(2), sys.executable, "-m", "pybsp.benchmarks.studies.small_messages", "--rounds", "50", *profile]
    printed = ended_well(run(command))
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in printed.splitlines() if line.startswith("|")]
    median = {row[0]: float(row[1]) for row in rows[2:]}  # after the head and its line
    assert set(median) == {"fill", "send", "sync", "read", "the clock alone", "the sum alone"}
    assert median["sync"] > 0
    assert ("cumtime" in printed) == bool(profile)
