"""Figures with their 95 % interval, and flags: what a fit says, and how sure it is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple


class Estimate(NamedTuple):
    """A figure and its 95 % interval; SI units (seconds, seconds per word of 8 bytes, flop/s)."""

    value: float
    low: float
    high: float

    @property
    def width(self) -> float:
        """Of the interval, relative to the value; infinite where the value is 0."""
        return (self.high - self.low) / abs(self.value) if self.value else math.inf

    def scaled(self, factor: float) -> Estimate:
        """In another unit."""
        return Estimate(self.value * factor, self.low * factor, self.high * factor)


@dataclass(frozen=True)
class Flag:
    """Something that the reader of a figure must know.

    Args:
        code: short and stable, for programs: "not-linear", "negative", "drift", ...
        text: a sentence for people, with the figures in it.
        about: the parameter or the pattern concerned, "" for the whole calibration.
    """

    code: str
    text: str
    about: str = ""
