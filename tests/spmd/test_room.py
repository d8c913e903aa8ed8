"""Arrays that are filled where they are sent from: `bsp.room`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pybsp
from tests.conftest import Spmd

from .programs import caught, plain


@pytest.mark.parametrize("shape", [0, 1, 7, 2100, (3, 0), (40, 50), ()])
@pytest.mark.parametrize("dtype", [np.float64, np.int8, "S3", [("a", "i4"), ("b", "f8")]])
def test_what_it_is_filled_with_arrives_as_if_sent(spmd: Spmd, shape: Any, dtype: Any) -> None:
    def main(bsp: pybsp.BSP, room: bool) -> list[Any]:
        made = np.dtype(dtype)
        seen = []
        for k in range(3):
            for dest in range(bsp.p):
                sizes = shape if isinstance(shape, tuple) else (shape,)
                values = (np.arange(made.itemsize * int(np.prod(sizes)), dtype=np.uint8) + k + bsp.pid) % 100
                content = values.view(made).reshape(sizes) if values.size else np.empty(sizes, made)
                if room:
                    bsp.room(dest, shape, dtype, tag=("k", k))[...] = content
                else:
                    bsp.send(dest, content, tag=("k", k))
            bsp.sync()
            seen += [plain(m) for m in bsp.inbox]
        return seen

    assert spmd(main, True) == spmd(main, False)


def test_it_may_be_filled_after_more_has_been_sent(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> list[Any]:
        dest = (bsp.pid + 1) % bsp.p
        first = bsp.room(dest, 100)
        first[:50] = 1
        for k in range(20):
            bsp.send(dest, np.full(1000, k))  # moves what goes there, more than once
        second = bsp.room(dest, 10, np.int32)
        first[50:] = 2
        second[:] = 3
        bsp.sync()
        return [plain(m.payload) for m in bsp.inbox]

    expected = [np.repeat([1.0, 2.0], 50), *[np.full(1000, k) for k in range(20)], np.full(10, 3, np.int32)]
    assert spmd(main) == [[plain(one) for one in expected]] * spmd.p


def test_from_the_sync_on_it_is_not_written_to(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> bool:
        room = bsp.room(bsp.pid, 10)
        writable = room.flags.writeable
        room[:] = 1
        bsp.sync()
        return bool(writable) and not room.flags.writeable

    assert spmd(main) == [True] * spmd.p


def test_wrong_arguments_are_errors(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> list[Any]:
        found = [
            caught(bsp.room, bsp.p, 1),
            caught(bsp.room, 0, -1),
            caught(bsp.room, 0, 1.5),
            caught(bsp.room, 0, 1, object),
        ]
        bsp.sync()
        assert len(bsp.inbox) == 0
        return found

    for dest, negative, fraction, objects in spmd(main):
        assert "bsp.room: argument dest: expected a processor from 0 to" in dest.text
        assert "bsp.room: argument shape: expected an int or a tuple of ints of at least 0, got -1" in negative.text
        assert "got 1.5" in fraction.text
        assert "bsp.room: argument dtype: expected plain data" in objects.text


def test_the_ledger_counts_its_words(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        bsp.room((bsp.pid + 1) % bsp.p, 100)[:] = 0
        bsp.sync()
        return bsp.ledger[-1].h, bsp.ledger[-1].messages

    assert spmd(main) == [(100, 1) if spmd.p > 1 else (0, 0)] * spmd.p
