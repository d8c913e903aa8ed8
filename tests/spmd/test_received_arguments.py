"""What a program received, which ends with the next sync, can be given to a primitive as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pybsp
from pybsp import collectives
from pybsp.collectives import baselines, ebsp

from ..conftest import Spmd, on_processors

N = 12


def joined(a: Any, b: Any) -> Any:
    """A function of pairs that hold arrays."""
    return (a[0] + b[0], a[1] + b[1])


# Each gives, from the processor's own array x, which holds pid, pid + 1, ..., something to compare.
CALLS: dict[str, Callable[[pybsp.BSP, Any], Any]] = {
    "allgather": lambda bsp, x: collectives.allgather(bsp, x),
    "allreduce": lambda bsp, x: collectives.allreduce(bsp, x, np.add),
    "allreduce of pairs": lambda bsp, x: collectives.allreduce(bsp, (x, 1), joined),
    "bitonic_sort": lambda bsp, x: collectives.bitonic_sort(bsp, x),
    "bitonic_sort with values": lambda bsp, x: collectives.bitonic_sort(bsp, x, values=x, stable=True),
    "broadcast": lambda bsp, x: collectives.broadcast(bsp, x, bsp.p - 1),
    "broadcast_items": lambda bsp, x: collectives.broadcast_items(bsp, x, bsp.p - 1),
    "broadcast_one_at_a_time": lambda bsp, x: baselines.broadcast_one_at_a_time(bsp, [x, x]),
    "duplicate": lambda bsp, x: collectives.duplicate(bsp, x, np.arange(N)),
    "duplicate of a list": lambda bsp, x: collectives.duplicate(bsp, [x, x], [bsp.pid, 2]),
    "gather": lambda bsp, x: collectives.gather(bsp, x, bsp.p - 1),
    "gossip": lambda bsp, x: ebsp.gossip(bsp, x),
    "items_broadcast": lambda bsp, x: ebsp.items_broadcast(bsp, x),
    "mesh_broadcast": lambda bsp, x: ebsp.mesh_broadcast(bsp, x),
    "personalised_broadcast": lambda bsp, x: ebsp.personalised_broadcast(bsp, [x] * bsp.p),
    "prefix": lambda bsp, x: collectives.prefix(bsp, x, np.add),
    "prefix of pairs": lambda bsp, x: collectives.prefix(bsp, (x, 1), joined),
    "prefix, degree 2": lambda bsp, x: collectives.prefix(bsp, x, np.add, degree=2),
    "prefix_2d": lambda bsp, x: collectives.prefix_2d(bsp, x, np.add),
    "prefix_2d of a list": lambda bsp, x: collectives.prefix_2d(bsp, [x, x], np.add),
    "prefix_pipelined": lambda bsp, x: baselines.prefix_pipelined(bsp, [x, x], np.add),
    "matrix_multiplication": lambda bsp, x: ebsp.matrix_multiplication(
        bsp, np.ones((N, 1)), x[: bsp.p, None], (N, bsp.p, bsp.p), q=(1, bsp.p)
    ),
    "reduce": lambda bsp, x: collectives.reduce(bsp, x, np.add),
    "reduce of pairs": lambda bsp, x: collectives.reduce(bsp, (x, 1), joined),
    "sample_sort": lambda bsp, x: collectives.sample_sort(bsp, x),
    "sample_sort with values": lambda bsp, x: collectives.sample_sort(bsp, x, values=x),
    "scatter": lambda bsp, x: collectives.scatter(bsp, [x] * bsp.p),
    "stencil": lambda bsp, x: ebsp.stencil(bsp, np.outer(np.ones(1), x), 2, (bsp.p, N), q=(bsp.p, 1)),
    "total_exchange": lambda bsp, x: collectives.total_exchange(bsp, [x] * bsp.p),
    "tree_broadcast": lambda bsp, x: ebsp.tree_broadcast(bsp, x),
}


@on_processors
@pytest.mark.parametrize("call", CALLS)
def test_results_are_those_of_a_copy(bsp: pybsp.BSP, call: str) -> None:
    bsp.send(bsp.pid, np.arange(N) + float(bsp.pid))
    bsp.sync()
    copied = bsp.inbox[0].payload.copy()
    received = bsp.inbox[0].payload
    found = CALLS[call](bsp, received)
    of_copy = CALLS[call](bsp, copied)
    bsp.sync()
    assert repr(found) == repr(of_copy)


@pytest.mark.parametrize("argument", ["array", "list"])
def test_an_operator_that_works_in_place_is_refused_or_does_no_harm(spmd: Spmd, argument: str) -> None:
    def added(a: Any, b: Any) -> Any:
        a += b
        return a

    def main(bsp: pybsp.BSP) -> list[Any]:
        mine: Any = np.full(3, bsp.pid + 1.0) if argument == "array" else [bsp.pid]
        before = mine.copy()
        sums = []
        for primitive in (collectives.allreduce, collectives.prefix, collectives.reduce):
            try:
                sums.append(primitive(bsp, mine, added))
            finally:
                assert (mine == before) if argument == "list" else (mine == before).all()
        return sums

    if argument == "array":
        errors = spmd.errors(main)
        assert all(error is not None for error in errors) or spmd.p == 1
        assert all("argument op" in str(error) for error in errors) or spmd.p == 1
    else:
        everything = list(range(spmd.p))
        for pid, sums in enumerate(spmd(main)):
            assert sums == [everything, everything[: pid + 1], everything if pid == 0 else None]


# Each gives, from the caller's own arrays, what it promises to be no part of them.
OWN: dict[str, Callable[[pybsp.BSP, Any], Any]] = {
    "exclusive_prefix, initial": lambda bsp, x: collectives.exclusive_prefix(bsp, np.ones(3), np.add, initial=x),
    "exclusive_prefix, initial, no ufunc": lambda bsp, x: collectives.exclusive_prefix(bsp, x, plus, initial=x),
    "histogram, bins": lambda bsp, x: collectives.histogram(bsp, np.ones(2), bins=x)[1],
    "prefix_2d of a list": lambda bsp, x: collectives.prefix_2d(bsp, [x], np.add)[0],
    "prefix_2d of objects": lambda bsp, x: collectives.prefix_2d(bsp, objects(x), np.add)[0],
    "prefix": lambda bsp, x: collectives.prefix(bsp, x, np.add),
}


def objects(x: Any) -> Any:
    """An array of objects, of which that is one."""
    found = np.empty(2, object)
    found[0], found[1] = x, 1
    return found


def plus(a: Any, b: Any) -> Any:
    """No ufunc."""
    return a + b


@pytest.mark.parametrize("call", OWN)
def test_what_is_made_of_the_callers_arrays_is_none_of_them(spmd: Spmd, call: str) -> None:
    def main(bsp: pybsp.BSP) -> bool:
        x = np.arange(3.0)
        found = OWN[call](bsp, x)
        found += 7
        return x.tolist() == [0.0, 1.0, 2.0]

    assert spmd(main) == [True] * spmd.p


def test_a_memoryview_is_copied_at_the_start(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        memory = np.arange(bsp.p, dtype="q")
        ticket = collectives.reduce_scatter.start(bsp, memory.data, np.add)
        memory[:] = -1
        bsp.sync()
        return ticket.finish().tolist()

    assert spmd(main) == [[spmd.p * pid] for pid in range(spmd.p)]
