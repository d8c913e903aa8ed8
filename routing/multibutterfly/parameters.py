"""What the protocol on a multibutterfly is run with."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...errors import usage_error


class Parameters(NamedTuple):
    """Of the protocol (protocol.py).

    R: neighbours that an input selects; a power of two greater than 4, at most d.
    Z: repetitions in phase 1; Theorem 2 asks for log(32d/R) / log(1/(1 - delta)): see its proof.
    Y: repetitions in phase 2; Theorem 2 asks for more than 2.
    in_turn: phase 2 for the lower side after that for the upper; of a whole network, not of some of its columns.

    Examples:
        >>> from pybsp.routing.multibutterfly import Parameters
        >>> Parameters(Z=50)
        Parameters(R=8, Z=50, Y=3, in_turn=False)
    """

    R: int = 8
    Z: int = 200
    Y: int = 3
    in_turn: bool = False

    def check(self, d: int) -> None:
        """Raises UsageError where they do not fit a multibutterfly with d."""
        if not isinstance(self.R, (int, np.integer)) or self.R <= 4 or self.R & (self.R - 1):
            raise usage_error("Parameters: R", "a power of two greater than 4", self.R, "8 is the least")
        if d < self.R:
            raise usage_error("Parameters: R", f"at most d = {d} edges", self.R, f"d from {self.R} on would do")
        if not all(isinstance(times, (int, np.integer)) and times >= 1 for times in (self.Z, self.Y)):
            raise usage_error("Parameters: Z, Y", "whole numbers of at least 1", f"{self.Z} and {self.Y}")
