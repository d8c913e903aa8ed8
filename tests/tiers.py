"""Which cases a plain `pytest` runs; `pytest --all` runs every one.

A test in tests/spmd/ that has n cases has 12 n on virtual processors (each p of SIZES, checks off and on), and as many
on ranks. A plain `pytest` runs two of each 12 on virtual processors, one with few processors and one with many, one of
them checked; and one on ranks. Which, is drawn by a hash of the test's name and its other arguments: so every p meets
every kind of test, and a run does what the last one did. Beyond that, cases that take long and catch little more are
marked (`pytest.mark.whole`). What both catch is measured by mutants (mutants/).
"""

from __future__ import annotations

import zlib

import pytest

SIZES = (1, 2, 3, 4, 5, 8)
FEW, MANY = (1, 2, 3), (4, 5, 8)
ON_RANKS = (3, 2, 4, 5, 3, 2, 8, 4, 3, 5, 2, 1)  # more of those that are quick on few cores


class Way:
    """Where, and how, a test runs its program: an argument of the test."""

    p: int  # processors
    mpi: bool  # whether they are the ranks of this job
    variant: int  # of `variants` ways to run it there
    variants: int
    id: str  # of this argument, in the test's


def is_fast(item: pytest.Item) -> bool:
    """Whether a plain `pytest` runs this case."""
    if item.get_closest_marker("whole"):
        return False
    if not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):
        return True
    fast = item.get_closest_marker("fast")
    if fast and item.callspec.id not in fast.args:
        return False
    ways = [value for value in item.callspec.params.values() if isinstance(value, Way)]
    return all(
        runs(f"{item.path.name} {item.originalname} {item.callspec.id.removeprefix(way.id)}", way) for way in ways
    )


def runs(name: str, way: Way) -> bool:
    """Whether this way is one of those in which a plain `pytest` runs the test of that name."""
    number = zlib.crc32(name.encode())
    number, variant = divmod(number, way.variants)
    if way.mpi:
        return (way.p, way.variant) == (ON_RANKS[number % len(ON_RANKS)], variant)
    if way.p in FEW:
        return (way.p, way.variant) == (FEW[number % 3], variant)
    return (way.p, way.variant) == (MANY[number // 3 % 3], way.variants - 1 - variant)
