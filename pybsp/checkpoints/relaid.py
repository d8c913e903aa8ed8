"""A checkpoint of another number of processors, or of other layouts, where what is in it says how it is laid out.

Arrays with a layout are divided anew; a state that is equal on all processors is everybody's. The ledger begins anew:
what supersteps of another number of processors cost is no cost of this machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays.array import Array
from ..arrays.global_array import GlobalArray
from ..layouts import Layout, of_saved, owned
from .part import SavedPart
from .plain import StateDecoder, Tree
from .snapshot import Registered, described, listed

if TYPE_CHECKING:
    from ..supersteps.superstep import SuperstepEngine


def laid_out_alike(things: Registered, part: SavedPart) -> bool:
    """Whether the arrays that have a layout have that which they were saved with."""
    saved = part.tree["registered"]
    return all(
        of_saved(entry[2]) == one.layout
        for one, entry in zip(things, saved, strict=False)
        if isinstance(one, GlobalArray) and len(entry) > 2
    )


def obstacle(engine: SuperstepEngine, things: Registered, parts: Sequence[SavedPart]) -> str:
    """What does not say how it is laid out, "" where all does; all processors find the same."""
    wrong = _missing(things, [part.tree for part in parts], parts)
    place = Path(parts[0].name).parent
    how = (
        "its arrays have been saved in other layouts"
        if len(parts) == engine.p
        else f"{len(parts)} processors have saved it, and {engine.p} are to go on"
    )
    return wrong and f"{place}: {how}: {wrong}"


def _missing(things: Registered, trees: Sequence[Tree], parts: Sequence[SavedPart]) -> str:
    """What stands in the way; "" if nothing does."""
    if any(tree["state"] != trees[0]["state"] for tree in trees) or any(
        not np.array_equal(parts[0].blocks[number], part.blocks[number])
        for part in parts[1:]
        for number in _blocks(trees[0]["state"])
    ):
        return (
            "expected a state that is equal on all of them, got one that differs; keep what is divided in arrays with "
            "a layout, bsp.array(layout)"
        )
    if any(tree["inbox"] for tree in trees):
        return "expected an empty inbox, got messages that had not been followed by another sync"
    saved, here = [_named(entry) for entry in trees[0]["registered"]], [_name(one) for one in things]
    if saved != here:
        return f"expected the arrays and queues that were saved, {listed(saved)}; got {listed(here)}"
    for number, one in enumerate(things):
        entries = [tree["registered"][number] for tree in trees]
        if not isinstance(one, Array):
            if any(content for _, content in entries):
                return f"expected queues without items, got some in {saved[number]}"
        elif not isinstance(one, GlobalArray):
            return f"expected arrays with a layout, bsp.array(layout), got {saved[number]} without one"
    return ""


def put_back(engine: SuperstepEngine, things: Registered, parts: Sequence[SavedPart]) -> Any:
    """Have all arrays be as they were, in the layouts that they have here; returns the program's state."""
    for number, one in enumerate(things):
        if isinstance(one, GlobalArray):
            saved = of_saved(parts[0].tree["registered"][number][2])
            own = owned(one.layout, engine.pid)
            for pid, part in enumerate(parts):
                there = owned(saved, pid)
                common = [np.intersect1d(a, b, return_indices=True) for a, b in zip(own, there, strict=True)]
                if all(len(indices) for indices, _, _ in common):
                    block = part.blocks[part.tree["registered"][number][1]]
                    values: Any = np.ndarray(saved.local_shape(pid), one.local.dtype, block)
                    of_this, of_that = np.ix_(*(at for _, at, _ in common)), np.ix_(*(at for _, _, at in common))
                    one.local[of_this] = values[of_that]
    first = parts[0]
    arrays = [one.local for one in things if isinstance(one, Array)]
    return StateDecoder(first.blocks, arrays, first.own, first.name).value(first.tree["state"])


def _blocks(tree: Tree) -> Iterator[int]:
    """The blocks that a state refers to."""
    if type(tree) is list:
        for one in tree:
            yield from _blocks(one)
    elif type(tree) is dict:
        if "" in tree:
            yield from ([tree["block"]] if "block" in tree else [])
            yield from tree.get("blocks", [])
        for key, one in tree.items():
            if "" not in tree or key not in ("block", "blocks"):
                yield from _blocks(one)


def _of_whole(dtype: Any, layout: Layout) -> str:
    return f"array of {dtype}, shape {layout.shape} in all"


def _name(one: Any) -> str:
    return _of_whole(one.local.dtype, one.layout) if isinstance(one, GlobalArray) else described(one)


def _named(entry: Sequence[Any]) -> str:
    """The same of what was saved."""
    words: str = entry[0]
    if len(entry) < 3:
        return words
    return _of_whole(words.removeprefix("array of ").rpartition(", shape ")[0], of_saved(entry[2]))
