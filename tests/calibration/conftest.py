"""What tests of calibration share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from pybsp.benchmarks.calibration import sampling
from pybsp.benchmarks.calibration.supersteps import Bench


@pytest.fixture(scope="module")
def few_samples() -> Iterator[None]:
    """A quarter of them: in virtual time all of a point are equal."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sampling._SAMPLING_LEVELS, "quick", replace(sampling.sampling_level("quick"), batch=2, first=5))
        yield


@pytest.fixture(scope="module")
def nobody_computes() -> Iterator[None]:
    """Nothing is computed before exchanges: on virtual processors it takes real time, and changes none of theirs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Bench, "_after", lambda self, seconds, operation: operation)
        yield
