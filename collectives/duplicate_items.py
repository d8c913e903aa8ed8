"""The items of DUPLICATE (duplicate.py): what a user gives, as records of an item and the number of its copies."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError, brief
from ..ground.convert import no_mask
from .arguments import Processors, item_words
from .duplicate_shares import Counts, Share, cut
from .primitive import pids_of
from .values import own_argument, packed, unpacked

Records = NDArray[Any]  # shape (n,), fields "item" and "copies": each an item that is to be copied so many times
MOST = 2**62  # copies in all


class ItemType(NamedTuple):
    """What the items are; equal on all processors that have any.

    listed: whether they came as a list. empty: whether there are none. pid: of a processor that has such items.
    """

    listed: bool
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    empty: bool
    pid: int

    def __str__(self) -> str:
        return "a list" if self.listed else f"an array of {self.dtype}, items of shape {self.shape},"

    @property
    def record(self) -> np.dtype[Any]:
        """Of an item and its copies: 9 bytes or more, as a set has 2 words or more."""
        item = np.dtype((self.dtype, self.shape))
        return np.dtype([("item", item), ("copies", np.int64), *([] if item.itemsize else [("padding", np.uint8)])])


def record_bytes(name: str, words: float) -> int:
    """Bytes of a record whose item has so many words."""
    return max(round(8 * item_words(name, "words", words)), 1) + 8


def checked_lists(name: str, p: int, copies: Any) -> list[Counts]:
    """The copies of all processors."""
    listed = isinstance(copies, (list, tuple)) or (isinstance(copies, np.ndarray) and copies.ndim > 0)
    if not listed or len(copies) != p:
        got = f"{len(copies)} of them" if listed else type(copies).__name__
        raise UsageError(f"{name}: argument copies: expected one array for each of the {p} processors, got {got}")
    return [counts_of(name, own, p) for own in copies]


def counts_of(name: str, copies: Any, p: int, n: int | None = None) -> Counts:
    """The argument copies of one processor, n of them where that is given; else a UsageError."""
    expected = f"{name}: argument copies: expected a whole number of at least 0 for each item"
    no_mask(name, "copies", copies)
    counts: NDArray[Any]
    try:
        counts = np.asarray(copies)
    except ValueError as error:  # rows of different lengths
        raise UsageError(f"{expected}, got {brief(copies)}") from error
    if n is not None and counts.shape != (n,):
        raise UsageError(f"{expected}, of which there are {n}, got shape {counts.shape}; np.full(n, k) makes k of each")
    if counts.ndim != 1 or (counts.size and counts.dtype.kind not in "iu"):
        hint = "; copies.astype(int) makes whole numbers of them" if counts.dtype.kind == "f" else ""
        raise UsageError(f"{expected}, got {counts.dtype} of shape {counts.shape}{hint}")
    if counts.size and counts.min() < 0:
        raise UsageError(f"{expected}, got {counts.min()} for item {counts.argmin()}")
    # In doubles, as a sum of 64 bits may overflow.
    if counts.sum(dtype=np.float64) > MOST // p:
        raise UsageError(f"{expected}, at most 2^62/p on a processor, got {counts.sum(dtype=np.float64):g}")
    return counts.astype(np.int64)


def opened(items: Any, copies: Any, p: int, pid: int) -> tuple[ItemType, int, Records]:
    """The type of the items, how many there are, and the records of those that are copied at all; else a UsageError."""
    if not isinstance(items, (list, tuple, np.ndarray)) or (isinstance(items, np.ndarray) and not items.ndim):
        got = "an array of no axis" if isinstance(items, np.ndarray) else type(items).__name__
        raise UsageError(f"duplicate: argument items: expected an array of shape (n, ...) or a list, got {got}")
    no_mask("duplicate", "items", items)
    counts = counts_of("duplicate", copies, p, len(items))
    if isinstance(items, np.ndarray):
        column, item_type = items, ItemType(False, items.dtype, items.shape[1:], not len(items), pid)
    else:
        column = np.fromiter(map(own_argument, items), object, len(items))
        item_type = ItemType(True, np.dtype(object), (), not len(items), pid)
    copied = np.flatnonzero(counts)
    try:
        records = np.empty(copied.size, item_type.record)
    except TypeError as error:
        raise UsageError(
            f"duplicate: argument items: {error}; items.astype(object) can be copied, and travels as pickles"
        ) from error
    records["item"], records["copies"] = column[copied], counts[copied]
    return item_type, len(items), records


def agreed(bsp: Processors, mine: ItemType, theirs: ItemType) -> ItemType:
    """The type that all items have, or the first of processors without items; a UsageError where there are two."""
    if mine.empty != theirs.empty:
        return theirs if mine.empty else mine
    one, other = sorted((mine, theirs), key=lambda item_type: item_type.pid)
    if not mine.empty and one[:-1] != other[:-1]:
        first, second = pids_of(bsp, [one.pid, other.pid])
        raise UsageError(
            f"duplicate: argument items: expected the same on all processors that have items, got {one} on processor "
            f"{first} and {other} on processor {second}; convert them first, as by items.astype"
        )
    return one


def taken(records: Records, ends: Counts, share: Share) -> Records:
    """The records of a share of the copies; the outer ones are split where others have a part of them."""
    begin, end = cut(ends, share.first, share.last)
    part: Records = records[int(begin) : int(end)].copy()
    part["copies"] = np.diff(np.minimum(ends[int(begin) : int(end)], share.last), prepend=share.first)
    return part


def encoded(records: Records) -> NDArray[np.uint8]:
    """Records as bytes; of objects, a pickle."""
    if records.dtype.hasobject:
        return np.frombuffer(packed(records, "duplicate", "items"), np.uint8)
    return records.view(np.uint8)


def decoded(data: NDArray[np.uint8], item_type: ItemType) -> Records:
    """What `encoded` made bytes of, in memory of its own."""
    dtype = item_type.record
    records: Records = unpacked(data.tobytes()) if dtype.hasobject else data.view(dtype).copy()
    return records


def given_back(records: Records, item_type: ItemType, expand: bool) -> Any:
    """Records as the caller gave items: each so many times, or beside its number of copies."""
    counts: Counts = np.ascontiguousarray(records["copies"])
    column = np.repeat(records["item"], counts, axis=0) if expand else records["item"].copy()
    found = column.tolist() if item_type.listed else column
    return found if expand else (found, counts)
