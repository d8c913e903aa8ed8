"""One process that does what all virtual processors would counts what they do, to the last bit of virtual time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pybsp
from pybsp.benchmarks.studies.multibutterfly import scattered, virtual
from pybsp.routing import multibutterfly_router
from pybsp.routing.multibutterfly import router as module
from pybsp.routing.multibutterfly.at_once import route_at_once

MACHINE: dict[str, Any] = {"g": 1.7e-9, "l": 3.3e-6, "r": 1e9, "o_msg": 2.1e-7}


def main(bsp: pybsp.BSP, seed: int) -> Any:
    """Sends of any sizes to any others, of words, objects and a queue; in a part, too."""
    rng = np.random.default_rng([seed, bsp.pid])
    queue = bsp.queue(np.int64)
    seen: list[Any] = []
    for _ in range(2):
        for dest in rng.integers(bsp.p, size=rng.integers(5)).tolist():
            bsp.send(dest, np.arange(rng.integers(400)))
        dests = rng.integers(bsp.p, size=rng.integers(60))
        queue.send(dests, dests + bsp.pid)
        bsp.work(1e3 * bsp.pid)
        bsp.sync()
        seen += [(m.source, m.payload.tolist()) for m in bsp.inbox]
        seen += queue.values.tolist()
    for dest in range(bsp.p):
        bsp.send(dest, np.arange(10 * bsp.pid + dest))
    bsp.sync()
    seen += [(m.source, m.payload.tolist()) for m in bsp.inbox]
    with bsp.split(bsp.pid % 2, bsp.pid) as part:
        part.send((part.pid + 1) % part.p, bsp.pid)
        part.sync()
        seen += [part.inbox[0].payload, part.time(), part.router.executions]
    return seen, bsp.time(), bsp.router.executions  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("p", "options"),
    [
        (3, {}),
        (4, {"stream": 0, "packet": 256}),
        *(
            pytest.param(p, options, marks=pytest.mark.whole)
            for p, options in (
                (8, {"d": 12, "L": 16, "stream": 0}),  # some are blocked, and go on over another network
                (8, {"d": 12, "L": 16, "stream": 1 << 20}),
                *((p, {"seed": p, "packet": 160, "Y": 2, "stream": 64 * p}) for p in (2, 5, 6, 9)),
            )
        ),
    ],
)
def test_all_at_once_is_what_each_would_do(p: int, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    how: dict[str, Any] = {"p": p, "machine": pybsp.BSPMachine(p=p, **MACHINE)}
    how["router"] = multibutterfly_router(**options)
    at_once = pybsp.simulate(main, 7, **how)
    monkeypatch.setattr(module, "VirtualTransport", ())  # nobody has one: each goes its way, as ranks do
    apart = pybsp.simulate(main, 7, **how)
    assert at_once.results == apart.results
    assert at_once.time == apart.time
    blocked = any(not execution.delivered for *_, executions in apart.results for execution in executions)
    assert blocked == ("d" in options)


@pytest.mark.whole
def test_the_protocol_runs_once_a_superstep_for_many_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the study's table has it, where p = 256 takes seconds."""
    runs = []

    def counted(*args: Any) -> Any:
        runs.append(len(args))
        return route_at_once(*args)

    monkeypatch.setattr(module, "route_at_once", counted)
    simulation = pybsp.simulate(scattered, p=256, router="multibutterfly")
    assert len(simulation.ledger) == len(runs) == 6
    section = virtual(quick=True)
    assert [row[:2] for row in section.rows] == [[16, 6], [64, 6]]
