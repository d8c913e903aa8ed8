"""The parts that a machine has, as a processor sees them: which of them can be given back, what contexts are free.

A part is given back in the split in which the last of its processors says that the program there has forgotten it. All
processors of the machine hear that in the same exchange, so all of the part count what is still read of its data as the
machine's from the same exchange on (`Board.retire`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ..supersteps.superstep import SuperstepEngine


class ForgottenPart(NamedTuple):
    """A part that the program has forgotten on a processor, which cannot enter it again.

    context, first: of the part: its transport's context, and the first of its processors. Both tell it from all others.
    size: processors of it.
    contexts: that are free here when it is given back, as bits: its own, and those of parts of it.
    """

    context: int
    first: int
    size: int
    contexts: int


class SplitNote(NamedTuple):
    """What each processor says in a split.

    color, key: of `bsp.split`.
    contexts: that this processor uses, as bits.
    forgotten: since its last split.
    """

    color: object
    key: object
    contexts: int
    forgotten: Sequence[ForgottenPart]


class Contexts:
    """Those of the transports that a processor has, of whatever machine; each is told apart by its own."""

    def __init__(self, context: int) -> None:
        self.bits = 1 << context

    def add(self, context: int) -> None:
        """It is used from now on."""
        self.bits |= 1 << context

    def discard(self, context: int) -> None:
        """It is free."""
        self.bits &= ~(1 << context)


class LivingParts:
    """The parts of a machine.

    Attributes:
        all: that this processor is in, by context.
        forgotten: contexts of those that the program has forgotten since the last split; it grows at any moment, in any
            thread.
    """

    def __init__(self) -> None:
        self.all: dict[int, SuperstepEngine] = {}
        self.forgotten: list[int] = []
        # What all processors have said of the parts that some of them have forgotten: contexts, by part and processor.
        self._noted: dict[tuple[int, int], dict[int, int]] = {}

    def contexts(self) -> int:
        """Those of parts, and of parts of them, as bits."""
        return _union(map(_contexts_of, self.all.values()))

    def note(self, color: object, key: object, contexts: Contexts) -> SplitNote:
        """What this processor says in a split."""
        found = []
        while self.forgotten:
            part = self.all.get(self.forgotten.pop())
            if part is not None:
                found.append(ForgottenPart(part.context, part.agreement.members[0], part.p, _contexts_of(part)))
        return SplitNote(color, key, contexts.bits, found)

    def after(self, notes: Sequence[SplitNote]) -> tuple[list[SuperstepEngine], list[int]]:
        """What follows from the notes of all: the parts to give back here, and the contexts that each then uses.

        In an order that is the same on all processors: to close a router may be an exchange.
        """
        by_all = []
        for pid, note in enumerate(notes):
            for one in note.forgotten:
                which = one.context, one.first
                by_processor = self._noted.setdefault(which, {})
                by_processor[pid] = one.contexts
                if len(by_processor) == one.size:
                    by_all.append(which)
        used = [note.contexts for note in notes]
        found = []
        for context, first in sorted(by_all):
            for pid, bits in self._noted.pop((context, first)).items():
                used[pid] &= ~bits
            part = self.all.get(context)
            if part is not None and part.agreement.members[0] == first:
                found.append(part)
        return found, used

    def end(self) -> None:
        """The machine has ended: nothing here refers to its parts, nor does what is forgotten later."""
        self.all, self.forgotten, self._noted = {}, [], {}


def _contexts_of(part: SuperstepEngine) -> int:
    """Its own, and those of parts of it, as bits."""
    return 1 << part.context | part.parts.contexts()


def _union(contexts: Iterable[int]) -> int:
    return reduce(or_, contexts, 0)


def smallest_free(used: Sequence[int]) -> int:
    """The smallest context that none of some processors uses, given those of each as bits."""
    bits = _union(used)
    return (~bits & bits + 1).bit_length() - 1
