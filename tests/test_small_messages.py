"""Where the time of a superstep of small messages goes: the command says it."""

from __future__ import annotations

import re
import sys

import pytest

from .launching import ended_well, mpiexec, run


@pytest.mark.fast("profile1")
@pytest.mark.parametrize("profile", [[], ["--profile"]])
def test_it_prints_the_phases_and_a_profile_if_wanted(profile: list[str]) -> None:
    command = [*mpiexec(2), sys.executable, "-m", "pybsp.benchmarks.small_messages", "--rounds", "50", *profile]
    printed = ended_well(run(command))
    seconds = dict(re.findall(r"^\| (\w+) +\| *([0-9.]+) *\|", printed, re.MULTILINE))
    assert set(seconds) == {"fill", "send", "sync", "read"}
    assert float(seconds["sync"]) > 0
    assert ("cumtime" in printed) == bool(profile)
