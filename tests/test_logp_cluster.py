"""LogP programs across hosts that share no memory, where emulated hosts are at hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .clusters import EMULATOR, ENVIRONMENT, missing
from .launching import python, run

pytestmark = [pytest.mark.whole, pytest.mark.skipif(bool(missing), reason=missing)]


@pytest.mark.timeout(150)
def test_all_send_to_one_within_the_capacity_and_nothing_is_lost(tmp_path: Path) -> None:
    """The benchmark, small: it counts what is in flight by the clock, and looks whether all comes in order."""
    output = tmp_path / "found.json"
    cluster = ["-n", "5", "--latency", "2000", "--rate", "200", "--emulator", EMULATOR]
    setting = [*cluster, "--messages", "400", "--gaps", "1.3", "0.5"]
    command = python("-m", "pybsp.benchmarks.studies.logp_on_ranks", "many-to-one", *setting, "--output", str(output))
    ended = run(command, 120, **ENVIRONMENT)
    assert ended.code == 0, ended
    for found, capacity in zip(json.loads(output.read_text())["found"]["5"].values(), (3, 6), strict=True):
        assert found["messages"] == 400
        assert found["capacity"] == capacity
        assert 1 <= found["in flight"] <= capacity
        assert found["seconds"] >= 399 * found["G"] * 1e-6  # the gap
        assert found["stalls"] > 0 or capacity >= 4  # of four senders
