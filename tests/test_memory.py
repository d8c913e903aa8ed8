"""What stays resident: over many supersteps, and in a large exchange."""

from __future__ import annotations

import pytest

from pybsp.benchmarks.studies import memory


@pytest.mark.whole
@pytest.mark.parametrize("shared", ["0", ""])
def test_memory_stays_flat_and_a_large_exchange_takes_little_more_than_twice_its_data(
    shared: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PYBSP_SHARED", shared)
    memory.main(["-n", "2", "--supersteps", "50000", "--bytes", str(1 << 27)])
    flat, large = capfd.readouterr().out.strip().splitlines()
    assert float(flat.split(": ")[1].split()[0]) < 100, flat  # the ledger's record
    assert float(large.split(": ")[1].split()[0]) <= 2.2, large
