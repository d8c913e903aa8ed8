"""Measuring on ranks: variants that take turns, and a moment at which all begin."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


def in_turns(variants: Mapping[str, Callable[[], float]], rounds: int, warm_up: int = 1) -> dict[str, list[float]]:
    """Samples of all variants, one of each in a round, of which each begins with another one.

    Args:
        variants: by name: runs once, and says how long that took.
        rounds: that count.
        warm_up: rounds before these, as the first makes connections.
    """
    samples: dict[str, list[float]] = {name: [] for name in variants}
    names = list(variants)
    for number in range(warm_up + rounds):
        shift = number % len(names)
        for name in names[shift:] + names[:shift]:
            taken = variants[name]()
            if number >= warm_up:
                samples[name].append(taken)
    return samples


def timed(function: Callable[[], T]) -> tuple[T, float]:
    """What a function gives, and the seconds that it took."""
    begin = time.perf_counter()
    found = function()
    return found, time.perf_counter() - begin


def kernel() -> str:
    """Processes for which this is the same have one monotonic clock."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    return boot.read_text() if boot.exists() else platform.node()


def wait_until(moment: float, spun: float = 0.0) -> None:
    """Sleep, as ranks may share cores, up to a moment of the monotonic clock; the last seconds of it awake."""
    time.sleep(max(0.0, moment - spun - time.perf_counter()))
    while time.perf_counter() < moment:
        pass
