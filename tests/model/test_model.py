"""The protocol of an exchange is right in every order of its steps, and each wrong one is found."""

from __future__ import annotations

import pytest

from .mutants import MUTANTS, Mutant, rank_of
from .worlds import QUICK, explored


@pytest.mark.whole
@pytest.mark.fast(
    "board, full", "board and messages", "messages of three", "leader of three", "parts of three", "broken twice"
)
@pytest.mark.parametrize("name", QUICK)
def test_nothing_is_wrong_in_any_order_of_steps(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    world = QUICK[name]
    found = explored(world)
    assert not found.wrong, "\n".join([*found.trace, found.wrong])
    assert found.ends > found.aborts  # some jobs end as they should
    assert bool(found.aborts) == bool(world.raises)  # who raises in its last exchange may find nobody at the meeting
    with capsys.disabled():
        print(f" {name}: {found.states} states", end=" ")


@pytest.mark.whole
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.wrong)
def test_a_wrong_protocol_is_found(mutant: Mutant) -> None:
    assert explored(QUICK[mutant.world], rank_of(mutant)).wrong
