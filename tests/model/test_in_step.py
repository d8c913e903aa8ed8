"""What real ranks do to their boards, access by access, is what the model's ranks do."""

from __future__ import annotations

import json
import random
import sys
from functools import cache
from typing import Any

import pytest

from ..launching import ended_well, mpiexec, run
from .acceptor import Acceptor
from .accesses import Access
from .on_ranks import Superstep
from .protocol import World

SAYS = ("quiet", "own", "mail", "note", "data", "data+", "show")
Script = list[Superstep]


def scripts(p: int) -> list[Script]:
    """Random supersteps of all; and parts, of which the second one uses the first one's context."""
    rng = random.Random(p)
    everyone = list(range(p))
    found: list[Script] = [
        [(everyone, rng.choices(SAYS, k=p), rng.choices((False, True), k=p)) for _ in range(4)] for _ in range(3)
    ]
    keeps = [False] * p
    of_all: Superstep = everyone, ["data"] * p, keeps
    shown: Superstep = everyone, ["show"] * p, [True] * p
    found.append([shown, of_all, shown, (everyone, [*["show"] * (p - 1), "quiet"], keeps), shown])
    found.append([of_all, ([0, 1], ["data"] * p, keeps), of_all, ([p - 2, p - 1], ["mail"] * p, keeps), of_all])
    return found


@cache
def accesses(p: int) -> list[list[list[Access]]]:
    """Of each rank, in each script."""
    command = [*mpiexec(p), sys.executable, "-m", "tests.model.on_ranks", json.dumps(scripts(p))]
    # What is recorded is what Python does: the twin of the compiled core, which test_compiled.py holds to it.
    found: list[list[list[Access]]] = _tuples(json.loads(ended_well(run(command, PYBSP_COMPILED="0"))))
    return found


def _tuples(found: Any) -> Any:
    return tuple(map(_tuples, found)) if isinstance(found, list) else found


def acceptor(script: Script, p: int, rank: int) -> Acceptor:
    """The model's rank that plays a script."""
    steps = tuple(1 if len(members) == p else (tuple(members), 1) for members, _, _ in script)
    world = World(p, steps, SAYS, (tuple(range(p)),))
    return Acceptor(world, rank, [says[rank] for _, says, _ in script], [drops[rank] for _, _, drops in script])


@pytest.mark.fast("2")
@pytest.mark.parametrize("p", [2, 3])
def test_the_code_does_what_the_model_does(p: int) -> None:
    for number, script in enumerate(scripts(p)):
        for rank in range(p):
            done = accesses(p)[rank][number]
            assert len(done) > 5 * len(script)
            refused = acceptor(script, p, rank).refused(done)
            assert not refused, f"{script}: {refused}"


def test_the_model_refuses_what_the_code_does_not() -> None:
    script = scripts(2)[-1]
    done = accesses(2)[0][-1]
    accepts = acceptor(script, 2, 0)
    writes = [k for k, (operation, _, _) in enumerate(done) if operation == "write"]
    looks = [k for k, (operation, name, _) in enumerate(done) if operation == "read" and name[0] != "status"]
    assert len(writes) > 20
    assert len(looks) > 10
    for k in (*writes, *looks):  # something is left out
        if done[k][1][0] != "borrows":  # the words of a row are one access of the model
            assert accepts.refused((*done[:k], *done[k + 1 :])), done[k]
    for k in writes:
        operation, name, value = done[k]
        if name[0] in ("status", "borrows") or name[-1] == "tag":  # another value
            assert accepts.refused((*done[:k], (operation, name, value + 1), *done[k + 1 :])), done[k]
        if name[0] == "status":  # too early
            assert accepts.refused((*done[: k - 1], done[k], done[k - 1], *done[k + 1 :])), done[k]
