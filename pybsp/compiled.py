"""The compiled core (core.c), streaming copies (ground/copies.c), kernels of simulators (routing/kernels.c), GOAL
schedules (logp/goal.c) and times of messages (logp/stamps.c), where they were built: all that imports them does so
here.

They are left out where no compiler was found when pybsp was installed, and not used where PYBSP_COMPILED=0. What they
do has a twin in Python, which gives the same bits; processors with the core and without it work together.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any

from .ground import settings


def _built(name: str) -> ModuleType | None:
    if settings.text(settings.COMPILED) == "0":
        return None
    try:
        return importlib.import_module(name, __package__)
    except ImportError:
        return None


core: ModuleType | None = _built("._core")

# stream(into, from): copies a buffer past the caches; None where there is no such thing. lay(into, from): so, or
# plainly; False where they are no contiguous buffers of one size. scatter(into, first, step, from, at, size): so many
# bytes from a place on to items of an array that are `step` apart; False where it is no buffer that can be written to,
# or has no such items.
_copies = _built("._copies")
stream: Callable[[Any, Any], None] | None = getattr(_copies, "stream", None)
lay: Callable[[Any, Any], bool] | None = getattr(_copies, "lay", None)
scatter: Callable[[Any, int, int, Any, int, int], bool] | None = getattr(_copies, "scatter", None)


@cache
def kernels() -> ModuleType | None:
    """The kernels of simulators, loaded when one is asked for."""
    return _built("._kernels")


@cache
def goal() -> ModuleType | None:
    """What reads GOAL schedules, and does them on the simulated machine."""
    return _built("._goal")


@cache
def stamps() -> ModuleType | None:
    """What notes the times of a LogP processor's messages."""
    return _built("._stamps")
