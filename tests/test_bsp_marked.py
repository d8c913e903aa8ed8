"""Programs as tests, by the plugin that users have: on virtual processors, and with `--bsp-ranks` on ranks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pybsp
from pybsp import collectives

SIZES = [1, 2, 4]


@pytest.mark.bsp(p=SIZES)
def test_a_ring_turns(bsp: pybsp.BSP) -> None:
    with bsp.expect(supersteps=1, h=1, messages=1):
        bsp.send((bsp.pid + 1) % bsp.p, bsp.pid)
        bsp.sync()
    assert bsp.inbox[0].payload == (bsp.pid - 1) % bsp.p


@pytest.mark.bsp(p=SIZES, router="two-phase", checked=True)
@pytest.mark.parametrize("root", [0, -1])
def test_a_value_comes_to_all(bsp: pybsp.BSP, root: int) -> None:
    value = collectives.broadcast(bsp, np.arange(5) + bsp.pid, root=root % bsp.p)
    assert value.tolist() == [root % bsp.p + k for k in range(5)]


@pytest.mark.bsp(p=SIZES)
@settings(max_examples=15)
@given(numbers=st.lists(st.integers(-100, 100), min_size=1, max_size=8))
def test_sums_are_those_of_what_all_have_drawn(bsp: pybsp.BSP, numbers: list[int]) -> None:
    mine = sum(numbers[bsp.pid :: bsp.p])
    assert collectives.allreduce(bsp, mine, np.add) == sum(numbers)


@pytest.mark.bsp(p=[2, 3])
def test_a_processor_that_fails_ends_the_others(bsp: pybsp.BSP) -> None:
    with pybsp.raises_on(1, ZeroDivisionError):
        if bsp.pid == 1:
            1 / 0  # noqa: B018
        bsp.sync()


@pytest.mark.bsp(p=3)
def test_a_get_of_what_is_out_of_bounds_fails_where_it_is_called(bsp: pybsp.BSP) -> None:
    x = bsp.array(4)
    bsp.sync()
    with pytest.raises(pybsp.UsageError, match=r"argument source"):
        x.get(bsp.p)
