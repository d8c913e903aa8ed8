"""What of a processor's machine is saved beside the program's state, and put back: arrays, queues, inbox, ledger.

And the generators of random numbers that a process has for all of its program.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays.array import Array
from ..arrays.global_array import GlobalArray
from ..errors import CheckpointError, UsageError
from ..layouts import as_saved
from ..messages.mail import has_pickles
from ..parts.totals import Stays
from ..supersteps.queues import Queue
from ..transport import Bytes, Section
from .part import SavedPart
from .plain import StateDecoder, StateEncoder, Tree

if TYPE_CHECKING:
    from ..supersteps.superstep import SuperstepEngine

Registered = Sequence[Array | Queue]


def take(engine: SuperstepEngine, things: Registered, state: Any, computed: float) -> tuple[Tree, Sequence[Bytes]]:
    """All that one processor saves: a tree and its blocks, which are the memory of the program itself.

    Args:
        computed: seconds of computing in this superstep, without those of checkpoints.

    Raises:
        UsageError: the state cannot be pickled.
        MemoryError: there is no room for its pickle.
    """
    arrays = [one.local for one in things if isinstance(one, Array)]
    encoder = StateEncoder({id(local): number for number, local in enumerate(arrays)})
    try:
        tree = {"state": encoder.state(state)}
    except MemoryError:  # which says nothing of the state
        raise
    except Exception as error:
        raise UsageError(
            f"bsp.checkpoint: argument state: expected something that can be pickled, got {type(state).__name__} "
            f"({type(error).__name__}: {error}); save the data that it is made from instead"
        ) from error
    tree["inbox"] = _sections(encoder, engine.inbox.arrived)
    tree["registered"] = [_registered(encoder, one) for one in things]
    tree["generators"] = encoder.state(_generators() if _alone(engine) else None)
    account = engine.account
    tree["account"] = encoder.state(account.as_saved(computed))
    tree["parts"] = encoder.state(None if account.stays is None else account.stays.as_saved())
    return tree, encoder.blocks


def put_back(engine: SuperstepEngine, things: Registered, part: SavedPart) -> Any:
    """Have all be as it was when it was saved, else a CheckpointError; returns the program's state."""
    tree = part.tree
    saved, here = [entry[0] for entry in tree["registered"]], [described(one) for one in things]
    if saved != here:
        raise CheckpointError(
            f"bsp.restore: {part.name}: expected the arrays and queues that were saved, in the order in which they are "
            f"made: {listed(saved)}; got {listed(here)}; make them before bsp.restore, as the program did that saved"
        )
    arrays = [one.local for one in things if isinstance(one, Array)]
    decoder = StateDecoder(part.blocks, arrays, part.own, part.name)
    state = decoder.value(tree["state"])
    inbox = _read_sections(decoder, part.blocks, tree["inbox"])
    if any(has_pickles(section) for _, section in inbox):
        decoder.require_own("the inbox in it has a pickle", "send plain data and arrays")
    engine.take_inbox(inbox)
    for one, (_, content, *_) in zip(things, tree["registered"], strict=True):
        if isinstance(one, Array):
            local = one.local
            local[...] = np.ndarray(local.shape, local.dtype, part.blocks[content])
        else:
            one.deliver(_read_sections(decoder, part.blocks, content), None)
            engine.participants[one] = None  # until it is forgotten
    generators = decoder.value(tree["generators"])
    if generators is not None and _alone(engine):
        _set_generators(generators)
    account = engine.account
    account.resume(decoder.value(tree["account"]))
    if account.label is not account.lasting:
        engine.label(account.label)  # its superstep's end takes it off
    parts = decoder.value(tree["parts"])
    account.stays = None if parts is None else Stays.of_saved(parts)
    return state


def _alone(engine: SuperstepEngine) -> bool:
    """Whether the processor has this process, and its generators, to itself."""
    return engine.p == 1 or not engine.account.virtual


def _generators() -> dict[str, Any]:
    """The state of the generators that Python and numpy have for whoever makes none: `random`, `numpy.random`."""
    version, words, gauss = random.getstate()
    found: dict[str, Any] = {"python": [version, np.array(words, np.uint32), gauss]}
    numpys = np.random.get_state(legacy=False)
    if numpys["bit_generator"] == "MT19937":  # else the program has set another one, which it has to save itself
        found["numpy"] = numpys
    return found


def _set_generators(saved: Mapping[str, Any]) -> None:
    version, words, gauss = saved["python"]
    random.setstate((version, tuple(words.tolist()), gauss))
    if "numpy" in saved:
        np.random.set_state(saved["numpy"])


def _registered(encoder: StateEncoder, one: Array | Queue) -> list[Any]:
    """What it is, and what it holds; of an array with a layout that too, by which others can take it up (relaid.py)."""
    if not isinstance(one, Array):
        return [described(one), _sections(encoder, one.arrived)]
    block = encoder.block(np.ascontiguousarray(one.local).reshape(-1).view(np.uint8).data)
    return [described(one), block, *([as_saved(one.layout)] if isinstance(one, GlobalArray) else [])]


def described(one: Array | Queue) -> str:
    """What it is, in words."""
    if isinstance(one, Array):
        return f"array of {one.local.dtype}, shape {one.local.shape}"
    return f"queue of {one.dtype}"


def listed(names: Sequence[str]) -> str:
    """Several of these."""
    return "; ".join(names) or "none"


def _sections(encoder: StateEncoder, arrived: Sequence[tuple[int, Section]]) -> list[Any]:
    found: list[Any] = []
    for source, (descriptors, words, messages, data) in arrived:
        block = None if data is None else encoder.block(data)
        found.append([source, encoder.state(descriptors), words, messages, block])
    return found


def _read_sections(decoder: StateDecoder, blocks: Sequence[Bytes], saved: Sequence[Any]) -> list[tuple[int, Section]]:
    found = []
    for source, descriptors, words, messages, block in saved:
        section = Section(decoder.value(descriptors), words, messages, None if block is None else blocks[block])
        found.append((source, section))
    return found
