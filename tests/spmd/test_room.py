"""Arrays that are filled where they are sent from: `bsp.room`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pybsp
from tests.conftest import on_processors

from .programs import plain


@pytest.mark.whole
@on_processors
@pytest.mark.parametrize("shape", [0, 1, 7, 2100, (3, 0), (40, 50), ()])
@pytest.mark.parametrize("dtype", [np.float64, np.int8, "S3", [("a", "i4"), ("b", "f8")]])
def test_what_it_is_filled_with_arrives_as_if_sent(bsp: pybsp.BSP, shape: Any, dtype: Any) -> None:
    made, sizes = np.dtype(dtype), shape if isinstance(shape, tuple) else (shape,)

    def arrived(room: bool) -> list[Any]:
        seen = []
        for k in range(3):
            for dest in range(bsp.p):
                values = (np.arange(made.itemsize * int(np.prod(sizes)), dtype=np.uint8) + k + bsp.pid) % 100
                content = values.view(made).reshape(sizes) if values.size else np.empty(sizes, made)
                if room:
                    bsp.room(dest, shape, dtype, tag=("k", k))[...] = content
                else:
                    bsp.send(dest, content, tag=("k", k))
            bsp.sync()
            seen += [plain(m) for m in bsp.inbox]
        return seen

    assert arrived(room=True) == arrived(room=False)


@on_processors
def test_it_may_be_filled_after_more_has_been_sent(bsp: pybsp.BSP) -> None:
    dest = (bsp.pid + 1) % bsp.p
    first = bsp.room(dest, 100)
    first[:50] = 1
    for k in range(20):
        bsp.send(dest, np.full(1000, k))  # moves what goes there, more than once
    second = bsp.room(dest, 10, np.int32)
    first[50:] = 2
    second[:] = 3
    bsp.sync()
    expected = [np.repeat([1.0, 2.0], 50), *[np.full(1000, k) for k in range(20)], np.full(10, 3, np.int32)]
    assert [plain(m.payload) for m in bsp.inbox] == [plain(one) for one in expected]


@on_processors
def test_from_the_sync_on_it_is_not_written_to(bsp: pybsp.BSP) -> None:
    room = bsp.room(bsp.pid, 10)
    assert room.flags.writeable
    room[:] = 1
    bsp.sync()
    assert not room.flags.writeable


@on_processors
@pytest.mark.parametrize(
    ("args", "text"),
    [
        ((99, 1), "argument dest: expected a processor from 0 to"),
        ((0, -1), "argument shape: expected an int or a tuple of ints of at least 0, got -1"),
        ((0, 1.5), "argument shape: expected an int or a tuple of ints of at least 0, got 1.5"),
        ((0, 1, object), "argument dtype: expected plain data"),
        ((0, 1 << 60), "argument shape: expected what numpy can make an array of, got 1152921504606846976"),
        ((0, (1,) * 99), "argument shape: expected what numpy can make an array of"),
        ((0, 1, float, lambda: 0), "argument tag: expected something that can be pickled, got function"),
    ],
)
def test_wrong_arguments_are_errors(bsp: pybsp.BSP, args: Any, text: str) -> None:
    with pytest.raises(pybsp.UsageError, match=f"bsp.room: {text}"):
        bsp.room(*args)
    bsp.sync()
    assert len(bsp.inbox) == 0


@on_processors
def test_the_ledger_counts_its_words(bsp: pybsp.BSP) -> None:
    bsp.room((bsp.pid + 1) % bsp.p, 100)[:] = 0
    bsp.sync()
    assert (bsp.ledger[-1].h, bsp.ledger[-1].messages) == ((100, 1) if bsp.p > 1 else (0, 0))
