"""LogP programs on a BSP machine (*BSP vs LogP*, section 3, Theorem 1).

`logp_on_bsp` (program.py) makes a BSP program of a LogP program. What that is made of:

    processor.py    the LogP processor that a BSP processor simulates
    cycles.py       cycles of ceil(L/2) steps: programs that do not stall
    stalling.py     cycles of G steps: programs that stall
    control.py      how all learn that all have ended
    execution.py    the execution that was realised
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...lazy import lazy

if TYPE_CHECKING:
    from .program import CONSTANT as CONSTANT
    from .program import LogPOnBSP as LogPOnBSP
    from .program import ending as ending
    from .program import logp_on_bsp as logp_on_bsp
    from .program import seconds as seconds

if not TYPE_CHECKING:
    __getattr__, __dir__, __all__ = lazy(
        __name__,
        {
            ".program": ("CONSTANT", "LogPOnBSP", "ending", "logp_on_bsp", "seconds"),
        },
    )
