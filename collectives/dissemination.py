"""Running a broadcast by a plan that only the root knows.

What the others do not know (size, form, the root's choice of a plan) rides beside the data, where it counts no words. A
processor that has not heard yet just syncs; from the first message it knows the plan, and how many supersteps remain.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..bsp import BSP
from ..errors import UsageError
from . import tree
from .plan import Plan
from .primitive import Supersteps, held, is_array, is_number, packed, sources, unpacked

Choice = Callable[[int, bool], tuple[str, Any]]  # (words, whether they may be cut) -> (how, degree)
Plans = Callable[[str, Any, int], Plan]  # (how, degree, words) -> the plan


class Heading(NamedTuple):
    """What rides beside the data.

    how: "tree" (an item of the plan is the value), or anything else (it is a word). degree: of the tree, or its
    fan-outs. nbytes: of the value. form: dtype and shape of an array, "number", or "object" for a pickle.
    """

    how: str
    degree: Any
    nbytes: int
    form: Any

    @property
    def words(self) -> int:
        """Of 8 bytes."""
        return -(-self.nbytes // 8)

    def note(self) -> Any:
        """As it travels: a text where that is possible, so that all of a short message fits into the head of one."""
        if type(self.degree) is not int or (type(self.form) is tuple and type(self.form[0]) is not str):
            return tuple(self)
        form = self.form if type(self.form) is str else " ".join(map(str, (self.form[0], *self.form[1])))
        return f"{self.how},{self.degree},{self.nbytes},{form}"

    @classmethod
    def read(cls, note: Any) -> Heading:
        """What `note` made a note of."""
        if type(note) is not str:
            return cls(*note)
        how, degree, nbytes, form = note.split(",", 3)
        kind, *shape = form.split(" ")
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
) -> Any:
    """Broadcast a value; `degree` is what the caller gave as the argument of that name, which is compared."""
    steps = Supersteps(bsp, name, **{"root": root, argument: degree})
    p, pid = bsp.p, bsp.pid
    heading: Heading | None = None
    plan: Plan | None = None
    number: Any = None
    data: NDArray[np.uint8] = np.empty(0, np.uint8)
    if pid == root:
        value = held(value)
        heading, number, data = _opened(name, value, choose)
        plan = plans(heading.how, heading.degree, heading.words)
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
        if plan is not None and heading is not None:
            scale = heading.nbytes if heading.how == "tree" else 8
            for dest, first, last in plan[superstep].sends(pid):
                part = number if heading.form == "number" else data[first * scale : last * scale]
                steps.send(dest, part, heading.note())
        # 2. Who hears for the first time learns the plan.
        letters = steps.sync()
        if letters and heading is None:
            heading = Heading.read(letters[0].note)
            plan = plans(heading.how, heading.degree, heading.words)
            data = np.empty(heading.nbytes, np.uint8)
        if plan is not None and heading is not None:
            due = plan[superstep].receives(pid)
            steps.expect(letters, sources(due))
            # 3. What came is put in its place: the one copy, as the message ends with the next sync.
            for letter, (_, first, last) in zip(letters, due, strict=True):
                if heading.form == "number":
                    number = letter.payload
                else:
                    scale = heading.nbytes if heading.how == "tree" else 8
                    data[first * scale : last * scale] = letter.payload
        superstep += 1
    if pid == root or heading is None:
        return value
    if heading.form == "number":
        return number
    if heading.form == "object":
        return unpacked(data.tobytes())
    dtype, shape = heading.form
    return data.view(dtype).reshape(shape)


def _opened(name: str, value: Any, choose: Choice) -> tuple[Heading, Any, NDArray[np.uint8]]:
    """The root's value as a number or bytes, and the choice of a plan."""
    if is_number(value):
        return Heading(*choose(1, False), 8, "number"), value, np.empty(0, np.uint8)
    form: Any
    if is_array(value) and value.dtype.itemsize:
        # Copies only where the array is not contiguous.
        data = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
        form = (value.dtype if value.dtype.names else value.dtype.str, value.shape)
    else:
        data = np.frombuffer(packed(value, name), np.uint8)
        form = "object"
    return Heading(*choose(-(-data.size // 8), True), data.size, form), None, data
