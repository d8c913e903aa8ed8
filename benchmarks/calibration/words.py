"""Figures in words: units that a person reads."""

from __future__ import annotations

import math

from .estimates import Estimate

_SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"), (1e-12, "ps"))


def number(value: float) -> str:
    """Three digits."""
    return f"{value:.3g}"


def seconds(value: float) -> str:
    """As 3.2 us."""
    if not value or not math.isfinite(value):
        return f"{value:g} s"
    # What three digits round up to 1000 of a unit is 1 of the next.
    factor, unit = next((pair for pair in _SECONDS if abs(value) >= 0.9995 * pair[0]), _SECONDS[-1])
    return f"{value / factor:.3g} {unit}"


def times_of(estimate: Estimate, per: str) -> str:
    """An estimate in seconds, `per` something or not, with its interval."""
    what = f"{seconds(estimate.value)} {per}".rstrip()
    return f"{what} ({seconds(estimate.low)} to {seconds(estimate.high)})"


def size(count: float) -> str:
    """Bytes, as 64 KiB."""
    for factor, unit in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return f"{count:.0f} bytes"
