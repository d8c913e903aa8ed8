"""Registered arrays: when they may be used, on which processors, and until when."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pybsp
from tests.conftest import Spmd

from .programs import caught


def test_local_is_zeros_usable_at_once_and_stays_the_same_object(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        x = bsp.array((2, 3), np.int16)
        local = x.local
        first = (local.shape, str(local.dtype), local.tolist(), local.flags.writeable)
        local[1, 2] = 7
        bsp.sync()
        x.put((bsp.pid + 1) % bsp.p, 5, at=(0, 0))
        bsp.sync()
        return first, x.local is local, local.tolist()

    for first, same, after in spmd(main):
        assert first == ((2, 3), "int16", [[0, 0, 0], [0, 0, 0]], True)
        assert same
        assert after == [[5, 0, 0], [0, 0, 7]]


def test_registration_takes_effect_at_the_next_sync_and_earlier_use_is_an_error(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        x = bsp.array(3)
        early = [caught(x.put, 0, 1.0, at=0), caught(x.get, 0, at=0), caught(lambda: x.shapes)]
        bsp.sync()
        x.put(bsp.pid, 4.0, at=0)
        bsp.sync()
        return early, x.local.tolist()

    for early, local in spmd(main):
        for error, name in zip(early, ("array.put", "array.get", "array.shapes"), strict=True):
            assert error.kind is pybsp.UsageError
            assert error.text.startswith(name)
            assert "test_registration.py:" in error.text
            assert "not registered yet" in error.text
            assert "bsp.sync()" in error.text
        assert local == [4.0, 0.0, 0.0]


def test_zero_sizes_are_legal(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        empty, flat = bsp.array(0), bsp.array((4, 0), np.int8)
        bsp.sync()
        empty.put(0, np.empty(0))
        flat.put(bsp.p - 1, np.empty((4, 0), np.int8))
        ticket, other = empty.get(bsp.p - 1), flat.get(0, at=slice(0, 2))
        outside = caught(empty.put, 0, 1.0, at=0)
        bsp.sync()
        return ticket.value.shape, other.value.shape, outside

    for shape, other, outside in spmd(main):
        assert (shape, other) == ((0,), (2, 0))
        assert outside.kind is pybsp.BoundsError


def test_unequal_sizes_are_legal_and_bounds_are_those_of_the_remote_side(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        x = bsp.array(bsp.pid, np.int64)  # processor 0 owns nothing
        bsp.sync()
        inside = []
        for dest in range(bsp.p):
            if dest:
                x.put(dest, bsp.pid, at=dest - 1)
            inside.append((caught(x.put, dest, 9, at=dest), caught(x.get, dest, at=dest)))
        bsp.sync()
        return inside, x.local.tolist(), x.shapes

    results = spmd(main)
    for pid, (outside, local, shapes) in enumerate(results):
        assert local == ([0] * (pid - 1) + [spmd.p - 1] if pid else [])
        assert shapes == [(k,) for k in range(spmd.p)]
        for dest, (put, get) in enumerate(outside):
            assert put.kind is get.kind is pybsp.BoundsError
            assert put.text.startswith("array.put: argument at")
            assert get.text.startswith("array.get: argument at")
            assert f"shape ({dest},), processor {dest}'s part" in put.text


def test_unequal_shapes_of_several_dimensions(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        x = bsp.array((bsp.pid + 1, 2), np.int64)
        x.local[:] = bsp.pid
        bsp.sync()
        tickets = [x.get(k) for k in range(bsp.p)]
        bsp.sync()
        return [ticket.value.tolist() for ticket in tickets]

    for result in spmd(main):
        assert result == [[[k, k]] * (k + 1) for k in range(spmd.p)]


def test_two_arrays_of_one_shape_are_two_arrays(spmd: Spmd) -> None:
    """Duplicate registrations: each is its own."""

    def main(bsp: pybsp.BSP) -> Any:
        x, y = bsp.array(2), bsp.array(2)
        bsp.sync()
        x.put(bsp.pid, 1.0)
        y.put(bsp.pid, 2.0)
        z = bsp.array(2)  # registered while the others are in use
        bsp.sync()
        z.put(bsp.pid, 3.0)
        bsp.sync()
        return [a.local.tolist() for a in (x, y, z)]

    assert spmd(main) == [[[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]] * spmd.p


@pytest.mark.whole
def test_a_thousand_registrations(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        arrays = [bsp.array(1 + k % 3, np.int32) for k in range(1000)]
        bsp.sync()
        for array in arrays[::2]:
            array.free()
        for k, array in enumerate(arrays):
            array.put((bsp.pid + k) % bsp.p, k, at=k % 3)
        bsp.sync()
        again = [bsp.array(1, np.int32) for _ in range(500)]
        bsp.sync()
        tickets = [array.get((bsp.pid + 1) % bsp.p, at=0) for array in again[::50]]
        late = caught(arrays[0].get, 0)
        bsp.sync()
        wrong = [k for k, array in enumerate(arrays) if array.local[k % 3] != k]
        return wrong, [int(ticket.value) for ticket in tickets], late.kind

    assert spmd(main) == [([], [0] * 10, pybsp.UsageError)] * spmd.p


def test_deregistration_takes_effect_at_the_next_sync(spmd: Spmd) -> None:
    """A put and a get after free in the same superstep are legal; in the next one they are errors."""

    def main(bsp: pybsp.BSP) -> Any:
        x = bsp.array(2, np.int64)
        x.local[:] = 10 + bsp.pid
        bsp.sync()
        x.free()
        right = (bsp.pid + 1) % bsp.p
        x.put(right, bsp.pid, at=0)
        ticket = x.get(right)
        bsp.sync()
        used = (x.local.tolist(), ticket.value.tolist())
        after = (caught(x.put, 0, 1, at=0), caught(x.get, 0, at=0))
        bsp.sync()
        return used, after

    for pid, ((local, got), after) in enumerate(spmd(main)):
        assert local == [(pid - 1) % spmd.p, 10 + pid]
        assert got == [10 + (pid + 1) % spmd.p] * 2
        for error in after:
            assert error.kind is pybsp.UsageError
            assert "freed" in error.text
            assert "test_registration.py:" in error.text


def test_deregistration_in_another_order_than_registration(spmd: Spmd) -> None:
    """Non-nested pops."""

    def main(bsp: pybsp.BSP) -> Any:
        x, y, z = (bsp.array(1, np.int64) for _ in range(3))
        bsp.sync()
        x.free()
        bsp.sync()
        z.free()
        y.put(bsp.pid, 5)
        bsp.sync()
        y.put(bsp.pid, y.local[0] + 1)
        gone = (caught(x.put, 0, 1).kind, caught(z.put, 0, 1).kind)
        bsp.sync()
        return int(y.local[0]), gone

    assert spmd(main) == [(6, (pybsp.UsageError, pybsp.UsageError))] * spmd.p


def test_freeing_twice_is_an_error(spmd: Spmd) -> None:
    """A double pop."""

    def main(bsp: pybsp.BSP) -> Any:
        x = bsp.array(1)
        bsp.sync()
        x.free()
        at_once = caught(x.free)
        bsp.sync()
        return at_once, caught(x.free)

    for errors in spmd(main):
        for error in errors:
            assert error.kind is pybsp.UsageError
            assert "array.free" in error.text
            assert "freed already" in error.text


def test_an_array_freed_in_the_superstep_that_makes_it_never_registers(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        x = bsp.array(1)
        x.free()
        before = caught(x.put, 0, 1.0)
        bsp.sync()
        after = caught(x.put, 0, 1.0)
        bsp.sync()
        return before.kind, after.kind

    assert spmd(main) == [(pybsp.UsageError, pybsp.UsageError)] * spmd.p


def test_arrays_of_a_part_and_of_the_whole_are_apart(spmd: Spmd) -> None:
    """A registration that shadows another: the same number in two machines."""

    def main(bsp: pybsp.BSP) -> Any:
        x = bsp.array(1, np.int64)
        bsp.sync()
        with bsp.split(bsp.pid % 2) as part:
            y = part.array(1, np.int64)
            part.sync()
            y.put((part.pid + 1) % part.p, 7)
            part.sync()
        x.put((bsp.pid + 1) % bsp.p, 3)
        bsp.sync()
        return int(x.local[0]), int(y.local[0])

    assert spmd(main) == [(3, 7)] * spmd.p


@pytest.mark.parametrize("more", ["array", "queue", "free", "dtype", "kind"])
def test_unequal_registrations_are_an_error_on_every_processor(spmd: Spmd, more: str) -> None:
    def main(bsp: pybsp.BSP) -> None:
        x = bsp.array(4)
        bsp.sync()
        last = bsp.pid == bsp.p - 1
        if more == "dtype":
            bsp.array(3, np.float32 if last else np.float64)
        elif more == "kind" and last:
            bsp.queue(np.float64)
        elif more == "kind":
            bsp.array(3, np.float64)
        elif last and more == "array":
            bsp.array(3)
        elif last and more == "queue":
            bsp.queue()
        elif last and more == "free":
            x.free()
        bsp.sync()

    errors = spmd.errors(main)
    if spmd.p == 1:
        assert errors == [None]
        return
    assert [type(error) for error in errors] == [pybsp.SyncError] * spmd.p
    texts = {str(error) for error in errors}
    assert len(texts) == 1
    (text,) = texts
    assert f"processor {spmd.p - 1}: " in text
    assert "superstep 1" in text
    assert "test_registration.py:" in text
    others = "processor 0: " if spmd.p == 2 else f"processors 0-{spmd.p - 2}: "
    assert others in text


def test_registrations_in_another_order_are_an_error_on_every_processor(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> None:
        for dtype in ("i4", "f8") if bsp.pid else ("f8", "i4"):
            bsp.array(1, dtype)
        bsp.sync()

    errors = spmd.errors(main)
    expected = type(None) if spmd.p == 1 else pybsp.SyncError
    assert [type(error) for error in errors] == [expected] * spmd.p


def test_a_wrong_shape_or_dtype_is_an_error_at_the_call(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        shapes = [caught(bsp.array, shape) for shape in (-1, (2, -3), "two", 1.5, None)]
        dtypes = [caught(bsp.array, 2, dtype) for dtype in (object, "no such", [("a", object)])]
        bsp.sync()
        return shapes, dtypes

    for shapes, dtypes in spmd(main):
        assert [error.kind for error in shapes + dtypes] == [pybsp.UsageError] * (len(shapes) + len(dtypes))
        assert all("bsp.array: argument shape: expected" in error.text for error in shapes)
        assert all("bsp.array: argument dtype: expected" in error.text for error in dtypes)


def test_a_dtype_without_items_is_no_array(spmd: Spmd) -> None:
    """Items of no bytes, and sub-arrays, which numpy turns into further axes."""

    def main(bsp: pybsp.BSP) -> Any:
        x = bsp.array(2, np.dtype((np.int32, (3,))))
        bsp.sync()
        x.put(bsp.pid, np.arange(6).reshape(2, 3))
        bsp.sync()
        return x.local.tolist(), x.shapes[0]

    assert spmd(main) == [([[0, 1, 2], [3, 4, 5]], (2, 3))] * spmd.p


def test_items_without_bytes_are_refused(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        of_text = bsp.array(3, "S")  # of one byte, as numpy makes it
        return caught(bsp.array, 3, []), caught(bsp.register, np.zeros(3, "V0")), of_text.local.dtype.itemsize

    for made, registered, size in spmd(main):
        assert (made.kind, registered.kind, size) == (pybsp.UsageError, pybsp.UsageError, 1)
        assert "bsp.array: argument dtype: expected items of at least a byte" in made.text
        assert "bsp.register: argument array: expected items of at least a byte" in registered.text


def test_of_an_array_in_a_file_the_one_of_its_memory_is_named(tmp_path: Path) -> None:
    mapped = np.memmap(tmp_path / "numbers", np.int64, "w+", shape=(2,))
    with pytest.raises(pybsp.UsageError, match=r"got memmap; np\.asarray\(array\) is one, of the same memory$"):
        pybsp.simulate(lambda bsp: bsp.register(mapped), p=1)
    pybsp.simulate(lambda bsp: bsp.register(np.asarray(mapped)), p=1)
