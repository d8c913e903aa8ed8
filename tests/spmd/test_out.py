"""Results in arrays of the caller's: the argument out."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import pybsp
from pybsp import collectives
from tests.conftest import Spmd

from .programs import caught

CALLS: dict[str, Callable[..., Any]] = {
    "allreduce": lambda f, bsp, x, **more: f(bsp, x, np.add, **more),
    "allreduce-blocks": lambda f, bsp, x, **more: f(bsp, x, np.add, algorithm="blocks", **more),
    "prefix": lambda f, bsp, x, **more: f(bsp, x, np.add, **more),
    "reduce": lambda f, bsp, x, **more: f(bsp, x, np.add, bsp.p - 1, **more),
    "reduce-blocks": lambda f, bsp, x, **more: f(bsp, x, np.add, 0, algorithm="blocks", **more),
    "exclusive_prefix": lambda f, bsp, x, **more: f(bsp, x, np.add, **more),
    "broadcast": lambda f, bsp, x, **more: f(bsp, x, bsp.p - 1, **more),
    "broadcast-like": lambda f, bsp, x, **more: f(bsp, x, 0, like=x, **more),
    "reduce_scatter": lambda f, bsp, x, **more: f(bsp, x, np.add, **more),
    "allgather_blocks": lambda f, bsp, x, **more: f(bsp, x, **more),
    "gather_blocks": lambda f, bsp, x, **more: f(bsp, x, bsp.p - 1, **more),
    "scatter_blocks": lambda f, bsp, x, **more: f(bsp, x, **more),
    "total_exchange_blocks": lambda f, bsp, x, **more: f(bsp, x, **more),
}
SIZES = (5, 3000, 70_000)


def array_of(result: Any) -> Any:
    """Of a result that has counts beside its array, the array."""
    return result[0] if isinstance(result, tuple) else result


@pytest.mark.parametrize("name", CALLS)
def test_a_result_goes_into_the_array_that_is_given(spmd: Spmd, name: str) -> None:
    def main(bsp: pybsp.BSP, name: str) -> Any:
        call, primitive = CALLS[name], getattr(collectives, name.partition("-")[0])
        found = []
        for size in SIZES:
            size = max(size, bsp.p)
            x = np.arange(size) * (bsp.pid + 1)
            want = array_of(call(primitive, bsp, x))
            if want is None:
                for one in (primitive, primitive, primitive, primitive.start):
                    ticket = call(one, bsp, x, out="ignored here")
                ticket.finish()
                continue
            want = want.copy()  # a broadcast's root has its value
            same, wider = np.full_like(want, -1), np.full(want.shape, -1.0)
            apart = np.full((*want.shape, 2), -1)[..., 0]  # not contiguous
            for out in (same, wider, apart):
                found += [array_of(call(primitive, bsp, x, out=out)) is out, np.array_equal(out, want)]
            same[...] = -1
            ticket = call(primitive.start, bsp, x, out=same)
            x[...] = -2  # the ticket has its own
            found += [array_of(ticket.finish()) is same, np.array_equal(same, want)]
        return all(found)

    assert all(spmd(main, name))


@pytest.mark.parametrize("size", [4, 70_000])
def test_the_array_for_the_result_may_be_the_value(spmd: Spmd, size: int) -> None:
    def main(bsp: pybsp.BSP, size: int) -> Any:
        x = np.arange(size + bsp.p) + bsp.pid
        collectives.allreduce(bsp, x, np.add, out=x)
        collectives.prefix(bsp, x, np.add, out=x)
        collectives.broadcast(bsp, x, 0, out=x)
        return x

    for x in spmd(main, size):
        p = spmd.p
        assert np.array_equal(x, p * np.arange(size + p) + p * (p - 1) // 2)


def attempt(call: Callable[..., Any], *args: Any, out: Any) -> None:
    found = call(*args, out=out)
    if isinstance(found, pybsp.Ride):
        found.finish()


BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "no array": (lambda: [0, 0, 0], "argument out: expected an array that can be written to, got list"),
    "read-only": (lambda: np.broadcast_to(0, 3), "argument out: expected an array that can be written to, got a read-"),
    "shape": (lambda: np.zeros(2), r"argument out: expected an array of the result's shape.*got float64\[2\] for int"),
    "dtype": (lambda: np.zeros(3, np.uint8), r"of a dtype that it can be cast to; got uint8\[3\] for int64\[3\]"),
}


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("start", [False, True])
def test_an_array_that_cannot_hold_the_result_is_an_error(spmd: Spmd, bad: str, start: bool) -> None:
    def main(bsp: pybsp.BSP, bad: str, start: bool) -> Any:
        texts = []
        for name in ("allreduce", "prefix", "broadcast", "exclusive_prefix"):
            make, _ = BAD[bad]
            op = () if name == "broadcast" else (np.add,)
            primitive = getattr(collectives, name)
            x = np.arange(3)

            call = (primitive.start if start else primitive, bsp, x, *op)
            error = caught(partial(attempt, *call, out=make()))
            texts.append((name, error.kind is pybsp.UsageError, error.text))
        return texts

    _, text = BAD[bad]
    for texts in spmd(main, bad, start):
        for name, is_usage, said in texts:
            assert is_usage, said
            assert said.startswith(name)
            assert re.search(text, said), said


def test_a_number_has_no_array_to_go_to(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        return caught(lambda: collectives.allreduce(bsp, 1.0, np.add, out=np.zeros(1))).text

    assert all("got float64[1] for float" in text for text in spmd(main))
