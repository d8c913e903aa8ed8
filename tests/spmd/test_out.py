"""Results in arrays of the caller's: the argument out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pybsp
from pybsp import collectives
from tests.conftest import on_processors

CALLS: dict[str, Callable[..., Any]] = {
    "allreduce": lambda f, bsp, x, **more: f(bsp, x, np.add, **more),
    "allreduce-blocks": lambda f, bsp, x, **more: f(bsp, x, np.add, algorithm="blocks", **more),
    "prefix": lambda f, bsp, x, **more: f(bsp, x, np.add, **more),
    "reduce": lambda f, bsp, x, **more: f(bsp, x, np.add, bsp.p - 1, **more),
    "reduce-blocks": lambda f, bsp, x, **more: f(bsp, x, np.add, 0, algorithm="blocks", **more),
    "exclusive_prefix": lambda f, bsp, x, **more: f(bsp, x, np.add, **more),
    "exclusive_prefix-blocks": lambda f, bsp, x, **more: f(bsp, x, np.add, algorithm="blocks", **more),
    "broadcast": lambda f, bsp, x, **more: f(bsp, x, bsp.p - 1, **more),
    "broadcast-like": lambda f, bsp, x, **more: f(bsp, x, 0, like=x, **more),
    "reduce_scatter": lambda f, bsp, x, **more: f(bsp, x, np.add, **more),
    "allgather_blocks": lambda f, bsp, x, **more: f(bsp, x, **more),
    "gather_blocks": lambda f, bsp, x, **more: f(bsp, x, bsp.p - 1, **more),
    "scatter_blocks": lambda f, bsp, x, **more: f(bsp, x, **more),
    "total_exchange_blocks": lambda f, bsp, x, **more: f(bsp, x, **more),
    "redistribute": lambda f, bsp, x, **more: f(bsp, x, *laid_out(bsp.p, x.size), **more),
    "redistribute-nothing": lambda f, bsp, x, **more: f(bsp, x, *laid_out(bsp.p, x.size)[:1] * 2, **more),
    "segmented_prefix": lambda f, bsp, x, **more: f(bsp, x, x % 7 == 3, np.add, **more),
    "prefix_2d": lambda f, bsp, x, **more: f(bsp, x, np.add, **more),
    "broadcast_items": lambda f, bsp, x, **more: f(bsp, x, bsp.p - 1, **more),
    "argsort": lambda f, bsp, x, **more: f(bsp, x, **more),
    "balanced_sort": lambda f, bsp, x, **more: f(bsp, x, **more),
    "top_k": lambda f, bsp, x, **more: f(bsp, x, 4, **more),
    "histogram": lambda f, bsp, x, **more: f(bsp, x, 8, (0, 20_000), **more),
    "histogram-searched": lambda f, bsp, x, **more: f(bsp, x, 8, **more),
    "random_permutation": lambda f, bsp, x, **more: f(bsp, x.size, 3, **more),
}
SIZES = (5, 3000, 70_000)


def laid_out(p: int, n: int) -> tuple[pybsp.layouts.Layout, pybsp.layouts.Layout]:
    """Two layouts of an array of which each processor has n items."""
    return pybsp.layouts.Block(n * p, p), pybsp.layouts.Cyclic(n * p, p)


def array_of(result: Any) -> Any:
    """Of a result that has counts beside its array, the array."""
    return result[0] if isinstance(result, tuple) else result


@on_processors
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("size", SIZES)
def test_a_result_goes_into_the_array_that_is_given(bsp: pybsp.BSP, name: str, size: int) -> None:
    call, primitive = CALLS[name], getattr(collectives, name.partition("-")[0])
    x = np.arange(max(size, bsp.p)) * (bsp.pid + 1)
    want = array_of(call(primitive, bsp, x))
    if want is None:
        for one in (primitive, primitive, primitive, primitive.start):
            ticket = call(one, bsp, x, out="ignored here")
        ticket.finish()
        return
    want = want.copy()  # a broadcast's root has its value
    same, wider = np.full_like(want, -1), np.full(want.shape, -1.0)
    apart = np.full((*want.shape, 2), -1)[..., 0]  # not contiguous
    for out in (same, wider, apart):
        assert array_of(call(primitive, bsp, x, out=out)) is out
        assert np.array_equal(out, want)
    same[...] = -1
    ticket = call(primitive.start, bsp, x, out=same)
    x[...] = -2  # the ticket has its own
    assert array_of(ticket.finish()) is same
    assert np.array_equal(same, want)


@on_processors
@pytest.mark.parametrize("size", [4, 70_000])
def test_the_array_for_the_result_may_be_the_value(bsp: pybsp.BSP, size: int) -> None:
    p = bsp.p
    x = np.arange(size + p) + bsp.pid
    collectives.allreduce(bsp, x, np.add, out=x)
    collectives.prefix(bsp, x, np.add, out=x)
    collectives.broadcast(bsp, x, 0, out=x)
    for layouts in (laid_out(p, x.size), laid_out(p, x.size)[::-1]):
        collectives.redistribute(bsp, x, *layouts, out=x)
    collectives.broadcast_items(bsp, x, p - 1, out=x)
    collectives.segmented_prefix(bsp, x, np.ones(x.size, np.bool_), np.add, out=x)
    y = x[::-1].copy()
    assert np.array_equal(collectives.prefix_2d(bsp, y, np.add, out=y), x[::-1] * (bsp.pid + 1))
    assert np.array_equal(x, p * np.arange(size + p) + p * (p - 1) // 2)


@on_processors
@pytest.mark.parametrize("size", [6, 60_000])
def test_the_array_for_blocks_may_lie_over_the_own_one(bsp: pybsp.BSP, size: int) -> None:
    p = bsp.p
    whole = np.concatenate([np.arange(size)[1:3] + 10 * pid for pid in range(p)])
    for root in range(p):
        a = np.zeros(size * p, np.int64)
        a[:size] = np.arange(size) + 10 * bsp.pid
        b, c = a.copy(), a.copy()
        assert np.array_equal(collectives.allgather_blocks(bsp, a[1:3], out=a[: 2 * p])[0], whole)
        gathered = collectives.gather_blocks(bsp, b[1:3], root, out=b[: 2 * p] if bsp.pid == root else None)
        assert gathered is None or np.array_equal(gathered[0], whole)
        assert (gathered is None) == (bsp.pid != root)
        n = size // p * p
        collectives.total_exchange_blocks(bsp, c[:n][::-1], out=c[:n])
        cut = np.arange(n)[::-1].reshape(p, -1)[bsp.pid]
        assert np.array_equal(c[:n], np.concatenate([cut + 10 * pid for pid in range(p)]))


BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "no array": (lambda: [0, 0, 0], "argument out: expected an array that can be written to, got list"),
    "read-only": (lambda: np.broadcast_to(0, 3), "argument out: expected an array that can be written to, got a read-"),
    "shape": (lambda: np.zeros(2), r"argument out: expected an array of the result's shape.*got float64\[2\] for int"),
    "dtype": (lambda: np.zeros(3, np.uint8), r"of a dtype that it can be cast to; got uint8\[3\] for int64\[3\]"),
}


@on_processors
@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("start", [False, True])
def test_an_array_that_cannot_hold_the_result_is_an_error(bsp: pybsp.BSP, bad: str, start: bool) -> None:
    make, text = BAD[bad]
    for name in ("allreduce", "prefix", "broadcast", "exclusive_prefix"):
        primitive, op = getattr(collectives, name), () if name == "broadcast" else (np.add,)
        call = (primitive.start if start else primitive, bsp, np.arange(3), *op)
        with pytest.raises(pybsp.UsageError, match=f"^{name}.*{text}"):
            attempt(*call, out=make())


def attempt(call: Callable[..., Any], *args: Any, out: Any) -> None:
    found = call(*args, out=out)
    if isinstance(found, pybsp.Ride):
        found.finish()


@on_processors
def test_sorted_keys_and_their_values_go_into_two_arrays(bsp: pybsp.BSP) -> None:
    keys = np.arange(6) * bsp.p + bsp.pid
    outs = np.zeros(6, int), np.zeros((6, 2))
    found = collectives.balanced_sort(bsp, keys, np.stack([keys, -keys], 1), out=outs)
    assert [a is b for a, b in zip(found, outs, strict=True)] == [True, True]
    first = 6 * bsp.pid + np.arange(6)
    assert np.array_equal(outs[0], first)
    assert np.array_equal(outs[1], np.stack([first, -first], 1))
    with pytest.raises(pybsp.UsageError, match="balanced_sort: argument out: expected two arrays, for keys and values"):
        collectives.balanced_sort(bsp, keys, keys, out=outs[0])


@on_processors
@pytest.mark.parametrize("start", [False, True])
def test_the_array_for_the_result_takes_none_with_a_mask(bsp: pybsp.BSP, start: bool) -> None:
    masked = np.ma.array(np.arange(3.0), mask=[True, False, False])
    with pytest.raises(pybsp.UsageError, match="allreduce: argument out: expected a result without a mask"):
        attempt(collectives.allreduce.start if start else collectives.allreduce, bsp, masked, np.add, out=np.zeros(3))


@on_processors
def test_a_number_has_no_array_to_go_to(bsp: pybsp.BSP) -> None:
    with pytest.raises(pybsp.UsageError, match=r"got float64\[1\] for float"):
        collectives.allreduce(bsp, 1.0, np.add, out=np.zeros(1))
