"""Layouts: owner, local and global index are inverse to each other, sizes add up, and what does not fit is refused."""

from __future__ import annotations

import pickle
import subprocess
import sys
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import pybsp
from pybsp.arrays.boxes import boxes
from pybsp.arrays.global_array import _selected
from pybsp.arrays.places import as_places, by_group
from pybsp.layouts import Block, BlockCyclic, Cyclic, Layout, common

from .tiers import some

PROPERTY = settings(max_examples=some(60), derandomize=True, database=None, phases=[Phase.generate])


@st.composite
def layouts(draw: st.DrawFn, axes: int | None = None) -> Layout:
    """Some layout of one to three axes, of few items or of none, on more or fewer processors."""
    axes = axes or draw(st.integers(1, 3))
    shape = tuple(draw(st.sampled_from([0, 1, 2, 3, 7, 12, 13])) for _ in range(axes))
    grid = tuple(draw(st.sampled_from([1, 2, 3, 5])) for _ in range(axes))
    kind = draw(st.sampled_from(["block", "sizes", "cyclic", "block-cyclic"]))
    if kind == "cyclic":
        return Cyclic(shape, grid)
    if kind == "block-cyclic":
        return BlockCyclic(shape, grid, tuple(draw(st.sampled_from([1, 2, 3, 100])) for _ in range(axes)))
    if kind == "block":
        return Block(shape, grid)
    cuts = [
        sorted(draw(st.lists(st.integers(0, n), min_size=q - 1, max_size=q - 1)))
        for n, q in zip(shape, grid, strict=True)
    ]
    return Block(shape, grid, sizes=tuple(np.diff([0, *cut, n]) for n, cut in zip(shape, cuts, strict=True)))


def everything(layout: Layout) -> Any:
    """The indices of all items."""
    found = tuple(axis.ravel() for axis in np.indices(layout.shape))
    return found if len(found) > 1 else found[0]


@st.composite
def basic(draw: st.DrawFn, n: int) -> int | slice:
    """An int, or a slice, of an axis of so many items."""
    if n and draw(st.integers(0, 3)) == 0:
        return draw(st.integers(-n, n - 1))
    end = st.none() | st.integers(-n, n)
    return slice(draw(end), draw(end), draw(st.sampled_from([None, 1, 2, 3, 5, -1])))


@settings(PROPERTY, max_examples=some(400))
@given(st.data())
def test_boxes_are_what_ints_and_slices_select_on_each_owner(data: st.DataObject) -> None:
    layout = data.draw(layouts())
    indices = tuple(data.draw(basic(n)) for n in layout.shape)
    whole = np.arange(int(np.prod(layout.shape))).reshape(layout.shape)
    selected = whole[indices]
    found = boxes(layout, indices)
    if found is None:  # no box is as some of it is
        descends = any(isinstance(at, slice) and at.step == -1 for at in indices)
        assert descends or isinstance(layout, BlockCyclic)
        return
    shape, pieces = found
    owners = [piece.owner for piece in pieces]
    assert owners == sorted({*owners})  # one each
    together = np.full(shape, -1)
    for owner, where, at, of_piece in pieces:
        piece = whole[layout.part(owner)][at]
        assert piece.shape == of_piece
        together[where] = piece
    assert np.array_equal(together, selected)


@PROPERTY
@given(layouts())
def test_owner_local_and_global_are_inverse(layout: Layout) -> None:
    indices = everything(layout)
    owners, local = layout.owner(indices), layout.local(indices)
    assert np.array_equal(layout.to_global(owners, local), indices)
    together = layout.places(indices)
    assert np.array_equal(together[0], owners)
    assert np.array_equal(together[1], local)
    assert np.bincount(owners, minlength=layout.p).tolist() == layout.sizes.tolist()
    assert layout.sizes.sum() == np.prod(layout.shape)


@PROPERTY
@given(layouts())
def test_parts_hold_each_item_once_and_in_the_order_of_local_indices(layout: Layout) -> None:
    numbers = np.arange(np.prod(layout.shape, dtype=int)).reshape(layout.shape)
    owners, local = layout.owner(everything(layout)), layout.local(everything(layout))
    for pid in range(layout.p + 2):
        part = numbers[layout.part(pid)]
        assert part.shape == layout.local_shape(pid)
        mine = owners == pid
        at = tuple(axis[mine] for axis in local) if isinstance(local, tuple) else local[mine]
        assert part[at].tolist() == numbers.ravel()[mine].tolist()
        assert part.size == mine.sum()


def test_parts_are_those_that_the_names_say() -> None:
    items = np.arange(11)
    assert [items[Block(11, 4).part(k)].tolist() for k in range(4)] == [[0, 1], [2, 3, 4], [5, 6, 7], [8, 9, 10]]
    assert [items[Cyclic(11, 4).part(k)].tolist() for k in range(4)] == [[0, 4, 8], [1, 5, 9], [2, 6, 10], [3, 7]]
    dealt = BlockCyclic(11, 2, block=3)
    assert [items[dealt.part(k)].tolist() for k in range(2)] == [[0, 1, 2, 6, 7, 8], [3, 4, 5, 9, 10]]
    assert Cyclic((4, 6), (2, 3)).owner(([1, 2], [2, 4])).tolist() == [1 * 3 + 2, 0 * 3 + 1]


def test_block_owns_what_scatter_blocks_gives() -> None:
    from pybsp import collectives

    def main(bsp: pybsp.BSP) -> Any:
        return collectives.scatter_blocks(bsp, np.arange(11) if bsp.pid == 0 else None).tolist()

    assert pybsp.simulate(main, p=4).results == [np.arange(11)[Block(11, 4).part(k)].tolist() for k in range(4)]


@pytest.mark.parametrize("axes", [1, 2])
def test_what_parts_have_in_common_is_counted_item_by_item(axes: int) -> None:
    @PROPERTY
    @given(layouts(axes), st.data())
    def count(one: Layout, data: st.DataObject) -> None:
        kind, grid = data.draw(st.sampled_from([Block, Cyclic])), data.draw(st.sampled_from([1, 2, 4]))
        other = kind(one.shape, (grid,) * axes)
        expected = np.zeros((one.p, other.p), int)
        np.add.at(expected, (one.owner(everything(one)), other.owner(everything(one))), 1)
        assert common(one, other).tolist() == expected.tolist()

    count()


@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize("layout", [Block(7, 3), Block((5, 6), (2, 3)), Cyclic((5, 4), (1, 1)), Block((3, 2), (4, 2))])
def test_a_stencil_finds_what_it_needs_beside_a_block(layout: Layout, width: int) -> None:
    numbers = np.arange(np.prod(layout.shape)).reshape(layout.shape)
    around = np.pad(numbers, width, constant_values=-1)
    for pid in range(layout.p):
        places, indices = layout.beside(pid, width)
        block = numbers[layout.part(pid)]
        framed = np.full(np.add(block.shape, 2 * width), -2)
        framed[places] = numbers[indices]
        assert (layout.owner(indices) != pid).all()
        if not block.size:
            assert not framed.size or (framed == -2).all()
            continue
        first = [part.start or 0 for part in layout.part(pid)]
        window = around[tuple(slice(k, k + n) for k, n in zip(first, framed.shape, strict=True))]
        for axis in range(block.ndim):  # all that is straight beside the block, and in the array
            straight = tuple(slice(None) if k == axis else slice(width, -width) for k in range(block.ndim))
            there, needed = framed[straight], window[straight]
            assert ((there == needed) | (needed == -1) | np.isin(needed, block)).all()
        assert np.count_nonzero(framed >= 0) == len(places[0])


def test_what_is_dealt_out_has_nothing_beside_it() -> None:
    with pytest.raises(pybsp.UsageError, match="argument pid: expected one whose part is a block, got 1"):
        Cyclic(7, 2).beside(1)
    with pytest.raises(pybsp.UsageError, match="argument width"):
        Block(7, 2).beside(1, -1)
    with pytest.raises(
        pybsp.UsageError, match=r"layout\.beside: argument pid: expected a processor, 0 or more, got -1"
    ):
        Block(7, 2).beside(-1)


def test_layouts_are_equal_where_they_say_the_same() -> None:
    assert Block(10, 3) == Block((10,), (3,)) != Block(10, 3, sizes=[3, 3, 4])
    assert Cyclic(10, 3) == BlockCyclic(10, 3, 1) != BlockCyclic(10, 3, 2)
    assert repr(BlockCyclic((4, 6), (2, 3), 1)) == repr(Cyclic((4, 6), (2, 3)))
    assert repr(BlockCyclic((4, 6), (2, 3), (1, 2))) == "BlockCyclic((4, 6), (2, 3), (1, 2))"
    assert len({Block(9, 2), Block(9, 2), Cyclic(9, 2)}) == 2
    many = [1] * 19
    assert repr(Block(20, 20, sizes=[*many, 1])) != repr(Block(20, 20, sizes=[*many[1:], 2, 0]))


@PROPERTY
@given(st.lists(st.integers(0, 9)), st.integers(0, 20), st.integers(1, 4), st.integers(0, 6))
def test_indices_as_places_select_what_they_did(some_indices: list[int], first: int, step: int, count: int) -> None:
    items = np.arange(100)
    for indices in (np.array(some_indices, int), first + step * np.arange(count)):
        assert items[as_places(indices)].tolist() == items[indices].tolist()
    assert isinstance(as_places(first + step * np.arange(count)), slice)
    keys = np.array(some_indices, int)
    assert {key: places.tolist() for key, places in by_group(keys)} == {
        key: (keys == key).nonzero()[0].tolist() for key in set(some_indices)
    }


@pytest.mark.fast
@pytest.mark.parametrize(
    ("make", "argument", "got"),
    [
        (lambda: Block(-1, 2), "shape", "-1"),
        (lambda: Block(5, 0), "grid", "0"),
        (lambda: Cyclic((5, 5), 4), "grid", "4"),
        (lambda: Cyclic((5, 5), (2, 0)), "grid", r"\(2, 0\)"),
        (lambda: Cyclic(5.0, 2), "shape", "5.0"),  # type: ignore[arg-type]
        (lambda: Cyclic(True, 2), "shape", "True"),
        (lambda: Block((), ()), "shape", r"\(\)"),
        (lambda: BlockCyclic(5, 2, 0), "block", "0"),
        (lambda: BlockCyclic((5, 5), (1, 2), (1, 2, 3)), "block", r"\(1, 2, 3\)"),
        (lambda: Block(5, 2, sizes=[2, 2]), "sizes", r"\[2, 2\]"),
        (lambda: Block(5, 2, sizes=[6, -1]), "sizes", r"\[6, -1\]"),
        (lambda: Block(5, 2, sizes=[3, [2]]), "sizes", r"\[3, \[2\]\]"),
        (lambda: Block(5, 5, sizes=[*[2**62] * 4, 5]), "sizes", r"\[4611686018427387904"),
        (lambda: Block((5, 5), (1, 2), sizes=([5],)), "sizes", r"\(\[5\],\)"),
        (lambda: Block(5, 2).owner([0.5]), "indices", r"\[0.5\]"),
        (lambda: Block(5, 2).owner([[1], [2, 3]]), "indices", r"\[\[1\], \[2, 3\]\]"),
        (lambda: Block((5, 5), (1, 2)).local([1]), "indices", r"\[1\]"),
        (lambda: Block(5, 2).to_global(2, 0), "pid", "2"),
        (lambda: Block(5, 2).part(-1), "pid", "-1"),
        (lambda: Block((5, 5), (1, 2)).beside(0, (1, 2)), "width", r"\(1, 2\)"),  # type: ignore[arg-type]
        (lambda: Block(5, 2).local_shape("0"), "pid", "'0'"),  # type: ignore[arg-type]
    ],
)
def test_what_does_not_fit_is_refused_by_the_argument(make: Any, argument: str, got: str) -> None:
    with pytest.raises(pybsp.UsageError, match=rf"argument {argument}: expected .*got .*{got}"):
        make()


@pytest.mark.fast
@pytest.mark.parametrize("layout", [Block(5, 2), Cyclic(5, 2), Block(5, 2, sizes=[5, 0]), Block((2, 5), (1, 2))])
def test_indices_out_of_range_are_refused(layout: Layout) -> None:
    for index in (-1, 5, [0, 7]):
        indices = index if len(layout.shape) == 1 else (0, index)
        with pytest.raises(pybsp.BoundsError, match="argument indices: expected indices from 0 to 4"):
            layout.owner(indices)
        with pytest.raises(pybsp.BoundsError, match="argument indices: expected indices from 0 to 4"):
            layout.places(indices)
    with pytest.raises(pybsp.BoundsError, match="argument local"):
        layout.to_global(1, 3 if len(layout.shape) == 1 else (0, 3))


# -- what the BSP library Bulk tests of its partitionings (jwbuurlage/Bulk, test/partitioning.cpp) ---------------------


@pytest.mark.parametrize("n", [2, 3])
def test_bulks_partitionings(n: int) -> None:
    p = n * n
    # Cyclic, of two axes over processors in a line: the second axis is whole.
    rows = Cyclic((5 * p * n, 5 * p * n), (p, 1))
    assert rows.owner((p + 2, 3)) == 2
    assert {rows.local_shape(pid) for pid in range(p)} == {(5 * n, 5 * p * n)}
    assert rows.local((p + 2, 3)) == (1, 3)

    # Cyclic and block, over a grid. Processors are numbered by rows here, and by columns there.
    cyclic, block = Cyclic((10 * n, 10 * n), (n, n)), Block((10 * n, 10 * n), (n, n))
    assert cyclic.owner((4, 3)) == 4 % n * n + 3 % n
    assert cyclic.local((4, 3)) == (4 // n, 3 // n)
    for pid in range(p):
        assert cyclic.local_shape(pid) == block.local_shape(pid) == (10, 10)
        assert cyclic.to_global(pid, (1, 1)) == (n + pid // n, n + pid % n)
        assert block.to_global(pid, (0, 0)) == (10 * (pid // n), 10 * (pid % n))  # where its block begins
    assert block.owner((10 * n - 7, 3)) == (n - 1) * n
    assert block.local((3, 12)) == (3, 2)

    # Blocks on the second axis alone.
    columns = Block((10 * p, 10 * p), (1, p))
    assert columns.owner((0, 13)) == 1
    assert columns.local_shape(1) == (10 * p, 10)
    assert columns.local((3, 12)) == (3, 2)
    assert [columns.to_global(pid, (0, 0)) for pid in range(3)] == [(0, 0), (0, 10), (0, 20)]

    # A tree of two cuts, both through the middle: what any layout has; see docs/howto/layouts.md for other trees.
    quarters = Block((10, 10), (2, 2))
    assert quarters.local_shape(0) == (5, 5)
    assert quarters.owner((1, 1)) == quarters.owner((2, 2)) != quarters.owner((6, 7))
    assert {quarters.to_global(pid, (0, 0)) for pid in range(4)} == {(0, 0), (0, 5), (5, 0), (5, 5)}
    assert quarters.local((6, 6)) == (1, 1)


@pytest.mark.parametrize("n", [2, 3])
def test_bulks_partitioned_array(n: int) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        x = bsp.array(Cyclic((20, 20), (n, n)), dtype=np.int64)
        x.local[0, 0], x.local[1, 1] = bsp.pid, bsp.pid + 1
        bsp.sync()
        before = x.global_get((1, 1))
        bsp.sync()
        found = int(before.value), int(x.local[1, 1])
        x.global_put((1, 1), 1234)
        bsp.sync()
        after = x.global_get((1, 1))
        bsp.sync()
        return *found, int(after.value)

    assert pybsp.simulate(main, p=n * n).results == [(n + 1, pid + 1, 1234) for pid in range(n * n)]


def test_indices_of_axes_that_do_not_broadcast_are_refused() -> None:
    layout = Block((4, 4), (2, 2))
    for call in (layout.owner, layout.local, layout.places):
        with pytest.raises(pybsp.UsageError, match=r"broadcast with each other, got shapes \(3,\), \(2,\)"):
            call(([0, 1, 2], [0, 1]))
    with pytest.raises(pybsp.BoundsError, match="expected integers below 2\\^63, got 18446744073709551615"):
        Block(4, 2).owner(np.array([2**64 - 1], np.uint64))
    for far in (10**30, -(10**30), [0, 2**64]):
        with pytest.raises(pybsp.BoundsError, match=r"expected integers below 2\^63, got -?\d+$"):
            Block(4, 2).owner(far)


def test_a_dtype_of_arrays_has_no_layout() -> None:
    with pytest.raises(pybsp.UsageError, match="argument dtype: expected one of single items beside a layout"):
        pybsp.simulate(lambda bsp: bsp.array(Block(4, bsp.p), np.dtype(("f8", 3))), p=2)


def test_an_index_into_an_array_of_no_items_and_a_mask_are_refused_in_words_that_help() -> None:
    with pytest.raises(pybsp.BoundsError, match="expected no indices, as there are no items, got index 0"):
        Block(0, 2).owner(0)
    with pytest.raises(pybsp.UsageError, match=r"np.flatnonzero\(mask\) makes such of a mask"):
        Cyclic(3, 2).owner(np.array([True, False, True]))


@pytest.mark.parametrize("n", [10**14 + 7, (1 << 63) - 1])
@pytest.mark.parametrize("p", [3, 10**5 + 1])
def test_layouts_of_more_items_than_a_product_with_p_has_room_for(n: int, p: int) -> None:
    dealt = BlockCyclic(n, p, block=1 << 50)
    for layout in (Block(n, p), Cyclic(n, p), dealt, BlockCyclic(n, p, block=3)):
        sizes = layout.sizes
        assert sizes.min() >= 0
        assert sum(sizes.tolist()) == n
        for pid in (0, 1, p // 2, p - 1):
            assert layout.local_shape(pid) == (sizes[pid],)
            for local in {0, int(sizes[pid]) - 1} if sizes[pid] else ():
                index = layout.to_global(pid, local)
                assert (int(layout.owner(index)), int(layout.local(index))) == (pid, local)
    begins = [k * n // p for k in range(p + 1)]
    assert Block(n, p).sizes.tolist() == [end - begin for begin, end in pairwise(begins)]
    assert int(dealt.owner(n - 1)) == ((n - 1) >> 50) % p


def test_what_very_large_layouts_have_in_common_is_counted_without_a_look_at_each_item() -> None:
    n, far = 10**12, (1 << 63) - 1
    pairs: list[tuple[Layout, Layout]] = [
        (Block(n, 4), Cyclic(n, 7)),
        (Cyclic(n, 96), Cyclic(n, 97)),
        (BlockCyclic(n, 5, block=10**6), BlockCyclic(n, 3, block=7)),
        (BlockCyclic(far, 2, block=(1 << 62) + 5), Block(far, 5)),
        (BlockCyclic(far, 3, block=1 << 61), BlockCyclic(far, 2, block=1 << 60)),
    ]
    for one, other in pairs:
        counts = common(one, other)
        assert counts.min() >= 0
        assert counts.sum(axis=1).tolist() == one.sizes.tolist()
        assert counts.sum(axis=0).tolist() == other.sizes.tolist()


def test_a_layout_is_found_in_a_table_that_another_process_has_written() -> None:
    """Of what it is made of, None has another hash there."""
    text = (
        "import pickle, sys; from pybsp.layouts import Block, Cyclic; "
        "layouts = [Block(10, 4), Cyclic(10, 4), Block(3, 2, [1, 2])]; list(map(hash, layouts)); "
        "sys.stdout.buffer.write(pickle.dumps([layouts, dict.fromkeys(layouts)]))"
    )
    for _ in range(3):
        written = subprocess.run([sys.executable, "-c", text], capture_output=True, check=True).stdout
        layouts, table = pickle.loads(written)
        assert [Block(10, 4), Cyclic(10, 4), Block(3, 2, [1, 2])] == layouts == list(table)
        assert all(layout in table for layout in (Block(10, 4), Cyclic(10, 4), Block(3, 2, [1, 2])))
        assert {*map(hash, layouts)} == {hash(Block(10, 4)), hash(Cyclic(10, 4)), hash(Block(3, 2, [1, 2]))}


def test_indices_of_few_items_take_no_more_where_the_array_is_large() -> None:
    far = 10**15
    (few,) = _selected(slice(-2, None), (far,))
    rows, columns = _selected((slice(0, 2), [-1, 5]), (far, far))
    assert few.tolist() == [far - 2, far - 1]
    assert (rows.tolist(), columns.tolist()) == ([[0, 0], [1, 1]], [[far - 1, 5]] * 2)


@PROPERTY
@given(st.data())
def test_what_an_index_selects_is_numbered_as_numpy_selects_it(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)))
    chosen = []
    for n in shape[: data.draw(st.integers(0, len(shape)))]:
        number = st.integers(-n - 1, n)
        slices = st.builds(slice, st.none() | number, st.none() | number, st.sampled_from([None, 1, 2, -1, -3]))
        lists = st.lists(number, min_size=1, max_size=3)
        chosen.append(data.draw(st.one_of(number, slices, lists, lists.map(np.array), number.map(np.int64))))
    for what in data.draw(st.permutations([None, Ellipsis]))[: data.draw(st.integers(0, 2))]:
        chosen.insert(data.draw(st.integers(0, len(chosen))), what)
    axes = [np.broadcast_to(axis, shape) for axis in np.ix_(*map(np.arange, shape))]
    try:
        expected = [axis[tuple(chosen)].tolist() for axis in axes]
    except IndexError:
        with pytest.raises(IndexError):
            _selected(tuple(chosen), shape)
    else:
        assert [one.tolist() for one in _selected(tuple(chosen), shape)] == expected


def test_numbers_of_a_layout_that_cannot_be_are_refused_in_words_that_help() -> None:
    with pytest.raises(pybsp.UsageError, match=r"shape: expected a whole number of at least 0 and below 2\^63"):
        Block(1 << 63, 2)
    with pytest.raises(pybsp.UsageError, match="sizes: expected the sizes of each axis, in a tuple"):
        Block((4, 4), (2, 2), sizes=[2, 2])
    assert Block([4, 4], [2, 2], sizes=[[1, 3], [2, 2]]).sizes.tolist() == [2, 2, 6, 6]  # type: ignore[arg-type]


def test_a_shape_may_be_a_list() -> None:
    assert BlockCyclic([4, 4], [2, 2], 3) == BlockCyclic((4, 4), (2, 2), 3)  # type: ignore[arg-type]
