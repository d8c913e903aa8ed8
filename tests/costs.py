"""Does the ledger say what a primitive's cost function said before?"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

import pybsp
from pybsp import BSPMachine, Cost, Record
from pybsp.machines.cost import Superstep

MACHINES: tuple[
    dict[str, Any], ...
] = (  # L/g of 1, 4 and 1000: the tree of degree 2, one in between, and all in one superstep
    {"g": 1.0, "l": 1.0, "r": 1e3},
    {"g": 1.0, "l": 4.0, "r": 1e3},
    {"g": 1e-3, "l": 1.0, "r": 1e6, "o_msg": 1e-4},
)


# Numbers of processors: some, with all remainders of 5, 6 and 8 that the tests choose sizes by; and others to 64, among
# them primes, squares, powers of two and what lies beside them.
SOME = (*range(1, 10), 13, 16, 17, 24, 31, 33)
OTHERS = (10, 11, 12, 14, 15, 19, 23, 25, 27, 32, 36, 40, 47, 49, 55, 63, 64)
UP_TO_64 = (pytest.param(SOME, id="some"), pytest.param(OTHERS, id="others"))


def in_file(ledger: pybsp.Ledger) -> dict[str, Any]:
    """What a ledger file has of it."""
    found = ledger.as_json()
    return {**found, "supersteps": list(found["supersteps"])}


def machine(p: int, which: int = 1) -> BSPMachine:
    """One of MACHINES for p processors."""
    return BSPMachine(p=p, **MACHINES[which])


def counted(records: Iterable[Record], work: bool = True) -> list[tuple[float, ...]]:
    """What the ledger counted, as `charged` says it."""
    return [(r.h_out, r.h_in, r.messages, r.M, *([r.work] if work else [])) for r in records]


def charged(cost: Cost, work: bool = True) -> list[tuple[float, ...]]:
    """What a cost function said; the work after the last sync goes into a superstep that the program adds."""
    rows = [(s.h_out, s.h_in, s.messages, s.M, *([s.w] if work else [])) for s in cost]
    return [*rows, (0, 0, 0, 0, *([cost.after] if work else []))]


def assert_ledger_is(cost: Cost, main: Callable[..., Any], *args: Any, p: int, machine: BSPMachine) -> list[Any]:
    """Run main on virtual processors, with a sync behind it: supersteps, h, messages, words, work and time are as said.

    Returns the results.
    """

    def with_a_sync(bsp: pybsp.BSP) -> Any:
        result = main(bsp, *args)
        bsp.sync()
        return result

    simulation = pybsp.simulate(with_a_sync, p=p, machine=machine)
    assert counted(simulation.ledger) == charged(cost)
    expected = cost + Cost(machine, [Superstep(0, 0, 0, 0)])
    assert simulation.time == pytest.approx(expected.seconds, rel=1e-9)
    return simulation.results
