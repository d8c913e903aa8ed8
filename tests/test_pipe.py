"""Pipes (transport/pipe.py): nothing is read before it is there, or written over before all have it, in any order of
steps; and broadcasts that go through them.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest
from greenlet import greenlet

from pybsp.transport import pipe, wire
from pybsp.transport.waiting import Waiter

if TYPE_CHECKING:
    from pybsp.transport.window import Window

PIECE, RING, AT, PLACE = 8, 24, 16, 64  # bytes


class Steps:
    """Processors that take turns at random: each access to a word of another one or of its own is a step."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._running: list[greenlet] = []

    def step(self) -> None:
        """Let another processor go on, or this one."""
        self._random.choice(self._running).switch()

    def run(self, programs: list[Callable[[], None]]) -> None:
        """All of them, to their ends."""
        self._running = [greenlet(program) for program in programs]
        while self._running:
            self.step()
            self._running = [one for one in self._running if not one.dead]


class Words:
    """The words of a part."""

    def __init__(self, steps: Steps) -> None:
        self._steps, self._words = steps, [0] * 8

    def __getitem__(self, index: int) -> int:
        self._steps.step()
        return self._words[index]

    def __setitem__(self, index: int, word: int) -> None:
        self._words[index] = word
        self._steps.step()


class Spins(Waiter):
    """Waits step by step."""

    def until(self, test: Callable[[Any], bool], what: Any, deadline: float | None = None, looks: bool = True) -> bool:
        while not test(what):
            pass
        return True


def received(sizes: list[int], p: int, dests: list[int], seed: int) -> list[list[bytes]]:
    """What each processor gets of data of these sizes, which processor 0 sends to some."""
    steps = Steps(seed)
    parts, words = [memoryview(bytearray(128)) for _ in range(p)], [Words(steps) for _ in range(p)]
    found: list[list[bytes]] = [[] for _ in range(p)]
    entered = [0] * p

    def program(k: int) -> Callable[[], None]:
        own = pipe.Pipe(parts, cast("Any", words), k, cast("Any", None), Spins("spin"), None)

        def run() -> None:
            for number, size in enumerate(sizes, 1):
                at = AT + 8 * (number & 1)  # as the areas of a board
                words[k][at // 8] = 0
                entered[k] = number
                while min(entered) < number:
                    steps.step()
                data = (np.arange(size) * number % 251).astype(np.uint8)
                if k == 0:
                    own.send(dests, at, PLACE, data)
                if k not in dests:
                    continue
                into = np.full(size, 255, np.uint8)
                own.receive(0, at, PLACE, into)
                found[k].append(into.tobytes())

        return run

    steps.run([program(k) for k in range(p)])
    return found


@pytest.mark.parametrize(("p", "dests"), [(2, [1]), (3, [1, 2]), (3, [2])])
def test_dests_get_what_is_sent_whatever_the_order_of_their_steps(
    p: int, dests: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipe, "PIECE", PIECE)
    monkeypatch.setattr(pipe, "RING", RING)
    sizes = [1, PIECE, PIECE + 1, RING, RING + 1, 2 * RING + PIECE, 100]
    sent = [(np.arange(size) * number % 251).astype(np.uint8).tobytes() for number, size in enumerate(sizes, 1)]
    for seed in range(60):
        assert received(sizes, p, dests, seed) == [sent if k in dests else [] for k in range(p)]


def test_where_there_was_no_room_there_may_be_some_later() -> None:
    places = iter([wire.BY_MESSAGE, 64, 64])
    pool = SimpleNamespace(take=lambda size: np.zeros(size, np.uint8), place=lambda _: next(places))
    window = cast("Window", SimpleNamespace(pool=pool))
    of_one = pipe.Pipe([memoryview(b"")] * 2, [], 0, window, Waiter("yield"), None)
    found = [(of_one.place(), of_one.memory) for _ in range(3)]
    assert [place for place, _ in found] == [wire.BY_MESSAGE, 64, 64]
    assert found[0][1] is None
    assert found[1][1] is found[2][1] is not None
