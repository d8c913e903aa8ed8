"""What broadcasts share: only the root knows what there is, and how it goes to the others.

An envelope with what they do not know (size, dtype, shape, the algorithm that the root chose) travels beside the data,
and counts no words. A processor that has received nothing just syncs; from its first message it knows the plan, and
how many supersteps remain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..rides.ride import Letter, Supersteps
from . import tree
from .plan import Plan
from .primitive import Call, pids_of, sources
from .values import is_array, is_number, own_argument, packed, room, unpacked

Choice = Callable[[int, bool], tuple[str, Any]]  # (words, whether they may be cut) -> (algorithm, by what)
TREES = "trees"  # the algorithm whose items are values, which are not cut


class Envelope(NamedTuple):
    """What travels beside the data.

    how: the algorithm. by: its degree, its fan-outs, or its pieces and degree. nbytes: of the value. descriptor: dtype
    and shape of an array, "number", or "object" for a pickle.
    """

    how: str
    by: Any
    nbytes: int
    descriptor: Any

    def note(self) -> Any:
        """As it travels: a text where that is possible, so that all of a short message fits into the head of one."""
        if type(self.by) is not int or (type(self.descriptor) is tuple and type(self.descriptor[0]) is not str):
            return tuple(self)
        what = self.descriptor
        text = what if type(what) is str else " ".join(map(str, (what[0], *what[1])))
        return f"{self.how},{self.by},{self.nbytes},{text}"

    @classmethod
    def read(cls, note: Any) -> Envelope:
        """The envelope of which this is the note."""
        if type(note) is not str:
            return cls(*note)
        how, by, nbytes, descriptor = note.split(",", 3)
        kind, *shape = descriptor.split(" ")
        whole: Any = kind if kind in ("number", "object") else (kind, tuple(map(int, shape)))
        return cls(how, int(by), int(nbytes), whole)

    def room(self, out: Any) -> tuple[Any, Any]:
        """Bytes for the value, and the array that they are, which is out where that is like it; none of a number."""
        if self.descriptor == "number":
            return None, None
        if self.descriptor == "object":
            return np.empty(self.nbytes, np.uint8), None
        dtype, shape = self.descriptor
        array = room(out, shape, np.dtype(dtype))
        return _bytes_of(array), array


class Copy:
    """A processor's copy of the value: the root's is whole, another one's is what has come, and room for the rest.

    envelope: what travels beside it. note: that, as it travels. content: a number, or bytes. array: that these bytes
    are, on another processor than the root. letters: with which it came here, if by messages.
    superstep: of the plan, the first in which this processor may have something to send.
    """

    def __init__(
        self,
        envelope: Envelope,
        content: Any,
        array: Any = None,
        superstep: int = 0,
        letters: Sequence[Letter] = (),
    ) -> None:
        self.envelope, self.content, self.array = envelope, content, array
        self.superstep, self.letters = superstep, letters
        self.note = envelope.note()
        self._scale = envelope.nbytes if envelope.how == TREES else 8

    @classmethod
    def opened(cls, name: str, value: Any, choose: Choice, argument: str) -> Copy:
        """The root's: a number, or bytes; with it goes the choice of an algorithm."""
        if is_number(value):
            return cls(Envelope(*choose(1, False), 8, "number"), value)
        descriptor: Any
        if is_array(value):
            data = _bytes_of(np.ascontiguousarray(value))  # copies only where the array is not contiguous
            descriptor = _array_descriptor(value)
        else:
            data = np.frombuffer(packed(value, name, argument), np.uint8)
            descriptor = "object"
        return cls(Envelope(*choose(-(-data.size // 8), True), data.size, descriptor), data)

    @classmethod
    def came(cls, letters: Sequence[Letter], superstep: int, out: Any = None) -> Copy:
        """That of a processor whose first messages these are, at the end of the superstep before this one."""
        envelope = Envelope.read(letters[0].note)
        return cls(envelope, *envelope.room(out), superstep, letters)

    @classmethod
    def expected(cls, like: Any, choose: Choice, out: Any = None) -> Copy:
        """That of a processor that knows beforehand what comes: a number, or an array of that dtype and shape."""
        if is_number(like):
            return cls(Envelope(*choose(1, False), 8, "number"), None)
        envelope = Envelope(*choose(-(-like.nbytes // 8), True), like.nbytes, _array_descriptor(like))
        return cls(envelope, *envelope.room(out))

    @property
    def words(self) -> int:
        """Of 8 bytes."""
        return -(-self.envelope.nbytes // 8)

    def part(self, first: int, last: int) -> Any:
        """Some items of a plan, as they are sent: words, or the value whole."""
        if self.envelope.descriptor == "number":
            return self.content
        return self.content[first * self._scale : last * self._scale]

    def take(self, letters: Sequence[Letter], due: Sequence[tuple[int, int, int]]) -> None:
        """Put what came in its place: the one copy, as a message ends with the next sync."""
        for letter, (_, first, last) in zip(letters, due, strict=True):
            if self.envelope.descriptor == "number":
                self.content = letter.payload
            else:
                self.part(first, last)[...] = letter.payload

    def value(self) -> Any:
        """The value, on a processor that is not the root."""
        if self.envelope.descriptor == "number":
            return self.content
        if self.envelope.descriptor == "object":
            return unpacked(self.content.tobytes())
        return self.array


def _bytes_of(array: NDArray[Any]) -> NDArray[np.uint8]:
    """Those of an array in one piece; of items without bytes, of which numpy makes no view, none."""
    return array.reshape(-1).view(np.uint8) if array.dtype.itemsize else np.empty(0, np.uint8)


def _array_descriptor(array: NDArray[Any]) -> tuple[Any, tuple[int, ...]]:
    # Its short string does not tell a structure's fields, nor what type of another package it is, as bfloat16.
    return array.dtype if array.dtype.kind == "V" else array.dtype.str, array.shape


Carry = Callable[[Call, Copy, int], Supersteps[None]]  # an algorithm from a root, from where a processor has something


def run(
    call: Call,
    value: Any,
    root: int,
    choose: Choice,
    algorithms: Mapping[str, Carry],
    like: Any = None,
    out: Any = None,
    argument: str = "value",
) -> Supersteps[Any]:
    """Broadcast a value by the algorithm that the root chooses, or all do where they know what the value is like.

    Where another processor gives an array `out` of the value's dtype and shape, the value is made in it. The root's
    argument has that name.
    """
    p, pid = call.bsp.p, call.bsp.pid
    if like is not None and pid != root:
        copy = Copy.expected(like, choose, out)
    elif pid == root:
        value = own_argument(value)
        copy = Copy.opened(call.name, value, choose, argument)
    else:
        call.follows()
        copy = yield from _first_received(
            call, root, 2 * tree.height(p, 2) + 2, out
        )  # the longest plan makes two supersteps of each level
    if p > 1:
        yield from algorithms[copy.envelope.how](call, copy, root)
    return value if pid == root else copy.value()


def run_whole(
    call: Call, value: Any, root: int, choose: Callable[[int], Any], plan: Callable[[Any, int], Plan]
) -> Supersteps[Any]:
    """Broadcast a value that is not cut, by what `choose` makes of its words: along the plan of that and the root."""

    def carry(call: Call, copy: Copy, root: int) -> Supersteps[None]:
        yield from follow(call, copy, plan(copy.envelope.by, root))

    return (yield from run(call, value, root, lambda words, _: (TREES, choose(words)), {TREES: carry}))


def _first_received(call: Call, root: int, most: int, out: Any) -> Supersteps[Copy]:
    """What a processor has when it hears for the first time."""
    for superstep in range(1, most + 1):
        if letters := (yield from call.sync()):
            return Copy.came(letters, superstep, out)
    (own,) = pids_of(call.bsp, [call.bsp.pid])
    call.differ(
        f"argument root: expected the same on all processors; processor {own} was given {root} and heard nothing in "
        f"{most} supersteps"
    )


def follow(call: Call, copy: Copy, plan: Plan) -> Supersteps[None]:
    """Send and receive what a plan says, from where this processor has something."""
    pid = call.bsp.pid
    if not copy.superstep:
        call.takes(len(plan))
    began(call, copy, plan)
    for step in plan[copy.superstep :]:
        for dest, first, last in step.sends(pid):
            call.send(dest, copy.part(first, last), copy.note)
        due = step.receives(pid)
        copy.take((yield from call.sync(sources(due))), due)


def began(call: Call, copy: Copy, plan: Plan) -> None:
    """Take the messages by which a processor heard for the first time."""
    if copy.superstep:
        due = plan[copy.superstep - 1].receives(call.bsp.pid) if copy.superstep <= len(plan) else []
        call.expect(copy.letters, sources(due))
        copy.take(copy.letters, due)
