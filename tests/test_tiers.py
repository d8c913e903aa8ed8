"""Which cases the tiers run: every p in both, the fast one few of each, the whole one every case."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from . import tiers
from .conftest import Spmd
from .mutants.statements import ROOT, drawn, mutants_of, statements_of
from .tiers import SIZES


@pytest.mark.parametrize(("mpi", "ways"), [(False, 2), (True, 1)])
def test_the_fast_tier_runs_a_case_in_few_ways_and_all_ways_in_some_case(mpi: bool, ways: int) -> None:
    every = [Spmd(p, checked, mpi) for p in SIZES for checked in (False, True)]
    ran = Counter[str]()
    for number in range(200):
        chosen = [way for way in every if tiers.runs(f"case {number}", way)]
        assert len(chosen) == ways
        assert len({way.p in tiers.FEW for way in chosen}) == len({way.checked for way in chosen}) == ways
        ran.update(way.id for way in chosen)
    assert set(ran) == {way.id for way in every if not mpi or way.p == tiers.ON_RANKS}


@pytest.mark.parametrize(("cases", "ways"), [(tiers.MANY_CASES - 1, 12), (tiers.MANY_CASES, 4)])
def test_the_whole_tier_runs_every_case_and_of_many_each_in_four_ways(
    cases: int, ways: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    every, taken = taken_by_the_whole_tier(cases, False, monkeypatch)
    assert {way.id for mine in taken for way in mine} == {way.id for way in every}
    for mine in taken:
        assert len(mine) == ways
        assert len({way.p for way in mine}) == min(ways, len(SIZES))
        assert len({way.checked for way in mine}) == 2


def test_on_ranks_the_whole_tier_runs_a_case_checked_or_not_with_one_some_and_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for_all: Counter[str] = Counter()
    for number in range(30):
        every, taken = taken_by_the_whole_tier(tiers.MANY_CASES - 1, True, monkeypatch, test=f"test {number}")
        for mine in taken:
            one, some, many = mine
            assert one.p == 1
            assert some.p in tiers.SOME
            assert many.p in tiers.MANY
            assert len({way.checked for way in mine}) == 2
            for_all.update(way.id for way in mine)
    assert set(for_all) == {way.id for way in every}


def test_on_ranks_the_whole_tier_runs_each_of_many_cases_with_two_numbers_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for_all: Counter[str] = Counter()
    for number in range(30):
        every, taken = taken_by_the_whole_tier(tiers.MANY_CASES, True, monkeypatch, test=f"test {number}")
        for mine in taken:
            assert len({way.p for way in mine}) == len(mine) == 2
            for_all.update(way.id for way in mine)
    assert set(for_all) == {way.id for way in every}


def taken_by_the_whole_tier(
    cases: int, mpi: bool, monkeypatch: pytest.MonkeyPatch, test: str = "test"
) -> tuple[list[Spmd], list[list[Spmd]]]:
    """The ways that there are, and of each of so many cases those in which the whole tier runs it."""
    every = [Spmd(p, checked, mpi) for p in SIZES for checked in (False, True)]
    items: list[Any] = [SimpleNamespace(way=way, case=f"{case}") for way in every for case in range(cases)]
    monkeypatch.setattr(tiers, "way_of", lambda item: item.way)
    monkeypatch.setattr(tiers, "case", lambda item: item.case)
    monkeypatch.setattr(tiers, "function", lambda item: test)
    monkeypatch.setattr(tiers, "name", lambda item: f"{test} {item.case}")
    taken: list[Any] = list(tiers.whole(items))
    return every, [[item.way for item in taken if item.case == f"{case}"] for case in range(cases)]


@pytest.mark.whole
def test_mutants_are_other_programs_and_the_same_ones_for_the_same_seed() -> None:
    mutants = drawn(8, 1)
    assert mutants == drawn(8, 1) != drawn(8, 2)
    for mutant in mutants:
        text = (ROOT / mutant.file).read_text()
        assert ast.dump(ast.parse(mutant.applied(text))) != ast.dump(ast.parse(text)), mutant


def test_what_makes_no_other_program_is_no_mutant(tmp_path: Path) -> None:
    path = tmp_path / "some.py"
    path.write_text("raise NotImplementedError\nreturn False\nx = zip(a, b, strict=True)\n")
    lines = path.read_text().split("\n")
    found = [mutant.after for one in statements_of(path) for mutant in mutants_of("some.py", lines, one)]
    assert found == ["return True"]
