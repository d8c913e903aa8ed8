"""Which cases a plain `pytest` runs, the fast tier, and which `pytest --all`, the whole one.

A case of a test in tests/spmd/ can run in 12 ways on virtual processors, with each p of SIZES, checks off and on; and
in as many on ranks. The whole tier runs all 12 of a test that has few cases, virtually; on ranks checks are off for
some p, and on for the others. Where the cases are MANY_CASES or more, it runs each of them in four of the 12 ways,
other ones than the next case: with four p, two of them checked. Ranks take longer: there a case runs with one of the p
of SOME, and one of MANY, drawn by a hash of its name. On more ranks than a machine has cores it is the scheduler that
takes the time, the more the more ranks: a case seldom runs with the last.

The fast tier runs a case in two ways on virtual processors, with few of them and with many, one of both checked; and
one in eight on ranks. Of a test that has MANY_CASES it runs each in one of the two, and every fourth is among those
that may be on ranks. Which way, is drawn by a hash of the case's name: so every p meets every kind of test, and a run
does what the one before did. Of other tests that have SEVERAL cases it runs one in four, MOST at most, drawn by its
name; and of what a test goes through itself (`some`, `some_of`) one in four. Beyond that, tests that take long and
catch little more are marked: `pytest.mark.whole` is for those that only the whole tier runs, `pytest.mark.fast("1-2",
"3-4")` for those of which the fast one runs the cases of these ids, and `pytest.mark.fast` for those of which it runs
all: a thousand take seconds.

What each of both catches is measured by mutants (mutants/).
"""

from __future__ import annotations

import random
import zlib
from collections import defaultdict
from collections.abc import Sequence
from typing import TypeVar

import pytest

T = TypeVar("T")

SIZES = (1, 2, 3, 4, 5, 8)
FEW, SOME, MANY = (1, 2, 3), (2, 3), (4, 5, 8)
DRAWN = (*[4] * 4, *[5] * 4, 8)
MANY_CASES = 8
SEVERAL, EVERY = 4, 4  # of a test with so many cases that run in one way the fast tier has one of so many,
MOST = 8  # and no more than these
ON_RANKS = 3  # the number of ranks in the fast tier: few, which are quick on few cores, and no power of two
CHECKED = "checks"  # the fixture that has them off or on, for a test marked bsp
CHECKS = ("unchecked", "checked")

all_cases = False  # whether this session runs the whole tier; set before tests are imported


def some(number: int) -> int:
    """Of so many examples of a test, drawn one by one, those that this session's tier runs."""
    return number if all_cases else -(-number // EVERY)


def some_of(cases: Sequence[T]) -> list[T]:
    """Of the cases that a test goes through itself, those that this session's tier runs: the first, and some more."""
    return [*cases] if all_cases else [*cases[:EVERY], *cases[EVERY::EVERY]]


class Way:
    """Where, and how, a test runs its program: an argument of the test."""

    p: int  # processors
    mpi: bool  # whether they are the ranks of this job
    variant: int  # of `variants` ways to run it there
    variants: int
    id: str  # of this argument, in the test's


class Marked(Way):
    """Of a test that is a program itself, by the pytest plugin."""

    variants = 2

    def __init__(self, p: int, checked: bool, mpi: bool) -> None:
        self.p, self.mpi, self.variant = p, mpi, int(checked)
        self.id = f"{CHECKS[self.variant]}-p{p}"


def whole(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Those of the whole tier."""
    cases = numbered(items)

    def taken(item: pytest.Item) -> bool:
        way = way_of(item)
        if way is None:
            return True
        drawn = zlib.crc32(name(item).encode())
        if way.mpi and way.p > 1 and way.p not in (SOME[drawn >> 8 & 1], DRAWN[drawn % len(DRAWN)]):
            return False
        if len(cases[function(item)]) < MANY_CASES:
            return not way.mpi or (drawn + (way.p in SOME) + way.variant) % way.variants == 0
        # On ranks it is two of the six ways that are left: with two p, of which one at least is above 1.
        place = (way.p > 1) + (way.p in MANY) if way.mpi else SIZES.index(way.p)
        return (place * way.variants + way.variant + cases[function(item)][case(item)]) % 3 == 0

    return [item for item in items if taken(item)]


def fast(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Those of the fast tier."""
    cases = numbered(items)
    chosen = {test: sampled(test, list(of_test)) for test, of_test in cases.items()}

    def taken(item: pytest.Item) -> bool:
        only = item.get_closest_marker("fast")
        if item.get_closest_marker("whole") or (only and only.args and ids(item) not in only.args):
            return False
        way, of_test = way_of(item), cases[function(item)]
        if way is None:
            return bool(only) or case(item) in chosen[function(item)]
        number = of_test[case(item)]
        if len(of_test) >= MANY_CASES and (number % 4 if way.mpi else number % 2 != (way.p in FEW)):
            return False
        return runs(name(item), way) and not (way.mpi and zlib.crc32(name(item).encode()) >> 8 & 7)

    return [item for item in items if taken(item)]


def sampled(test: str, cases: Sequence[str]) -> set[str]:
    """Of the cases of a test that run in one way those of the fast tier: in step with none of its arguments."""
    number = len(cases) if len(cases) < SEVERAL else min(-(-len(cases) // EVERY), MOST)
    return set(random.Random(test).sample(cases, number))


def numbered(items: Sequence[pytest.Item]) -> dict[str, dict[str, int]]:
    """The cases of each test, whatever the way, and their numbers."""
    found: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for item in items:
        found[function(item)].setdefault(case(item), len(found[function(item)]))
    return found


def function(item: pytest.Item) -> str:
    """The test, whatever the case."""
    return item.nodeid.partition("[")[0]


def case(item: pytest.Item) -> str:
    """Which case of its test it is, whatever the way."""
    way = way_of(item)
    return ids(item).removeprefix(way.id) if way else ids(item)


def name(item: pytest.Item) -> str:
    """A name of the case, whatever the way, that is the same on every machine."""
    return f"{item.path.name} {function(item).rpartition('::')[2]} {case(item)}"


def ids(item: pytest.Item) -> str:
    """Those of its arguments, as they stand in its name."""
    return item.callspec.id if isinstance(item, pytest.Function) and hasattr(item, "callspec") else ""


def way_of(item: pytest.Item) -> Way | None:
    """Where and how this case runs its program, of a test for which there are several ways."""
    arguments = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    p, checked = arguments.get("bsp"), arguments.get(CHECKED)
    if isinstance(p, int) and isinstance(checked, bool):
        return Marked(p, checked, item.get_closest_marker("mpi") is not None)
    return next((value for value in arguments.values() if isinstance(value, Way)), None)


def runs(of_case: str, way: Way) -> bool:
    """Whether this way is one of those in which the fast tier runs the case of that name."""
    number = zlib.crc32(of_case.encode())
    number, variant = divmod(number, way.variants)
    if way.mpi:
        return (way.p, way.variant) == (ON_RANKS, variant)
    if way.p in FEW:
        return (way.p, way.variant) == (FEW[number % 3], variant)
    return (way.p, way.variant) == (MANY[number // 3 % 3], way.variants - 1 - variant)
