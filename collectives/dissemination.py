"""Running a broadcast by a plan that only the root knows.

A header with what the others do not know (size, dtype, shape, the plan that the root chose) travels beside the data,
and counts no words. A processor that has not received it just syncs; from its first message it knows the plan, and how
many supersteps remain.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..bsp import BSP
from ..errors import UsageError
from ..rides import Supersteps
from . import tree
from .plan import Plan
from .primitive import Call, is_array, is_number, own_argument, packed, sources, unpacked

Choice = Callable[[int, bool], tuple[str, Any]]  # (words, whether they may be cut) -> (how, degree)
Plans = Callable[[str, Any, int], Plan]  # (how, degree, words) -> the plan


class BroadcastHeader(NamedTuple):
    """What travels beside the data.

    how: "tree" (an item of the plan is the value), or anything else (it is a word). degree: of the tree, or its
    fan-outs. nbytes: of the value. descriptor: dtype and shape of an array, "number", or "object" for a pickle.
    """

    how: str
    degree: Any
    nbytes: int
    descriptor: Any

    @property
    def words(self) -> int:
        """Of 8 bytes."""
        return -(-self.nbytes // 8)

    def note(self) -> Any:
        """As it travels: a text where that is possible, so that all of a short message fits into the head of one."""
        if type(self.degree) is not int or (type(self.descriptor) is tuple and type(self.descriptor[0]) is not str):
            return tuple(self)
        what = self.descriptor
        text = what if type(what) is str else " ".join(map(str, (what[0], *what[1])))
        return f"{self.how},{self.degree},{self.nbytes},{text}"

    @classmethod
    def read(cls, note: Any) -> BroadcastHeader:
        """What `note` made a note of."""
        if type(note) is not str:
            return cls(*note)
        how, degree, nbytes, descriptor = note.split(",", 3)
        kind, *shape = descriptor.split(" ")
        whole: Any = kind if kind in ("number", "object") else (kind, tuple(map(int, shape)))
        return cls(how, int(degree), int(nbytes), whole)


def run(
    bsp: BSP,
    name: str,
    value: Any,
    root: int,
    degree: Any,
    choose: Choice,
    plans: Plans,
    argument: str = "degree",
) -> Supersteps[Any]:
    """Broadcast a value; `degree` is what the caller gave as the argument of that name, which is compared."""
    call = Call(bsp, name, **{"root": root, argument: degree})
    p, pid = bsp.p, bsp.pid
    header: BroadcastHeader | None = None
    plan: Plan | None = None
    number: Any = None
    data: NDArray[np.uint8] = np.empty(0, np.uint8)
    if pid == root:
        value = own_argument(value)
        header, number, data = _opened(name, value, choose)
        plan = plans(header.how, header.degree, header.words)
    most = 2 * tree.height(p, 2) + 2  # the longest plan makes two supersteps of each level
    superstep = 0
    while p > 1:
        if plan is not None and superstep == len(plan):
            break
        if plan is None and superstep == most:
            raise UsageError(
                f"{name}: argument root: expected the same on all processors; processor {pid} was given {root} and "
                f"heard nothing in {most} supersteps"
            )
        # 1. Who has what it is to send, sends it.
        if plan is not None and header is not None:
            scale = header.nbytes if header.how == "tree" else 8
            for dest, first, last in plan[superstep].sends(pid):
                part = number if header.descriptor == "number" else data[first * scale : last * scale]
                call.send(dest, part, header.note())
        # 2. Who hears for the first time learns the plan.
        letters = yield from call.sync()
        if letters and header is None:
            header = BroadcastHeader.read(letters[0].note)
            plan = plans(header.how, header.degree, header.words)
            data = np.empty(header.nbytes, np.uint8)
        if plan is not None and header is not None:
            due = plan[superstep].receives(pid)
            call.expect(letters, sources(due))
            # 3. What came is put in its place: the one copy, as the message ends with the next sync.
            for letter, (_, first, last) in zip(letters, due, strict=True):
                if header.descriptor == "number":
                    number = letter.payload
                else:
                    scale = header.nbytes if header.how == "tree" else 8
                    data[first * scale : last * scale] = letter.payload
        superstep += 1
    if pid == root or header is None:
        return value
    if header.descriptor == "number":
        return number
    if header.descriptor == "object":
        return unpacked(data.tobytes())
    dtype, shape = header.descriptor
    return data.view(dtype).reshape(shape)


def _opened(name: str, value: Any, choose: Choice) -> tuple[BroadcastHeader, Any, NDArray[np.uint8]]:
    """The root's value as a number or bytes, and the choice of a plan."""
    if is_number(value):
        return BroadcastHeader(*choose(1, False), 8, "number"), value, np.empty(0, np.uint8)
    descriptor: Any
    if is_array(value) and value.dtype.itemsize:
        # Copies only where the array is not contiguous.
        data = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
        descriptor = (value.dtype if value.dtype.names else value.dtype.str, value.shape)
    else:
        data = np.frombuffer(packed(value, name), np.uint8)
        descriptor = "object"
    return BroadcastHeader(*choose(-(-data.size // 8), True), data.size, descriptor), None, data
