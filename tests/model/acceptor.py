"""Whether what the code did to a board is something that the model's rank may do.

The model's choices, and what it does beside shared words, are not recorded: all that they may have given is followed at
once, as a set of places. Of what was recorded one thing may be left out: that a status is looked at, as one who waits
does so as often as it likes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import groupby, islice, product
from typing import Any

from pybsp.transport.wire import BY_MESSAGE

from .accesses import Access
from .machine import Memory, Places, Program, Step
from .protocol import SIZES, Rank, Transport, World

_MOST = 4  # exchanges of a part before another one uses its context, in these tests
_LOOKS = 4


class Played(Rank):
    """A rank that plays a script. Its texts are not known: it takes them for right.

    Attributes:
        said, dropped: by superstep.
    """

    said: Sequence[str]
    dropped: Sequence[bool]

    def options(self, position: int) -> tuple[str, ...]:
        return (self.said[position],)

    def drops(self, position: int) -> tuple[bool, ...]:
        return (position < 0 or self.dropped[position],)

    def write_ahead(self, position: int) -> Program:
        yield from ()

    def check(self, transport: Transport, position: int, arrived: dict[int, Any]) -> Program:
        yield from ()

    def readable(self, text: Any, size: int) -> None:
        pass

    def unchanged(self) -> Program:
        yield from ()


class Acceptor:
    """A rank that plays a script, as those who only see its shared accesses know it."""

    def __init__(self, world: World, own: int, said: Sequence[str], dropped: Sequence[bool]) -> None:
        rank = type("Played", (Played,), {"said": said, "dropped": dropped})
        self._world, self._own, self._memory = world, own, Memory()
        self._somewhere = self._memory.cell("somewhere")
        self._places = Places(lambda: rank(world, self._memory, own).program())
        self._names = [
            name for name in {says.rstrip("*+") for says in world.says} if name not in ("quiet", "own", "show")
        ]
        self._quietly: dict[int, list[int]] = {}

    def refused(self, accesses: Iterable[Access]) -> str:
        """What is the first thing that the model cannot have done; empty: it can have done all."""
        here = self._settled({self._places.first})
        for count, access in enumerate(_rows(_compact(accesses))):
            after = {place for at in here for place in self._after(at, access, count)}
            if access[0] == "read" and access[1][0] == "status":
                after |= here  # a look
            after = self._settled(after)
            if not after:
                waits = sorted({self._readable(place) for place in here})
                return f"access {count} of rank {self._own} is {access}; the model has {waits}"
            here = after
        if any(self._places.steps[place] is None for place in here):
            return ""
        return f"rank {self._own} has ended; the model has {sorted({self._readable(place) for place in here})}"

    def _after(self, place: int, access: Access, count: int) -> list[int]:
        step = self._places.steps[place]
        if step is None or step.name not in ("read", "write", "least"):
            return []
        operation, name, value = access
        if (operation == "write") != (step.name == "write") or self._named(step.arguments[0]) != name:
            return []
        if operation == "write":
            return [self._places.after(place, None)] if _same(name, step.arguments[1], value) else []
        if step.name == "least" and value < step.arguments[1]:
            return []
        return [self._places.after(place, _as_read(name, value, self._somewhere, self._world.p))]

    def _settled(self, places: set[int]) -> set[int]:
        """All places that are reached without a recorded access."""
        found = set(places)
        left = list(places)
        while left:
            for place in self._quiet_steps(left.pop()):
                if place not in found:
                    found.add(place)
                    left.append(place)
        return {place for place in found if place not in self._places.wrong}

    def _quiet_steps(self, place: int) -> list[int]:
        found = self._quietly.get(place)
        if found is None:
            step = self._places.steps[place]
            results = () if step is None else self._quiet_results(step, place)
            found = self._quietly[place] = [self._places.after(place, result) for result in results]
        return found

    def _quiet_results(self, step: Step, place: int) -> Sequence[Hashable]:
        """What a step that is not recorded may have given; none: it is recorded."""
        if step.name == "choose":
            return tuple(step.arguments[0])
        if step.name in ("post", "send", "sent"):
            return (None,)
        if step.name == "received":  # numbers of the members of a part
            return tuple(product(range(_MOST), repeat=len(step.arguments[0])))
        if step.name == "read" and step.arguments[0] == self._somewhere:
            # A text; the place tells data from that of other exchanges.
            return tuple([(-1, -1, place, name, self._somewhere) for name in self._names])
        if step.name == "read" and (self._named(step.arguments[0]) or ("",))[0] == "area":  # a record
            return ((-1, -1, place, "show"),)
        if step.name == "write" and (step.local or self._named(step.arguments[0]) is None):
            return (None,)
        return ()

    def _named(self, cell: int) -> tuple[Any, ...] | None:
        """The name that the code's accesses have for a cell; None: they have none."""
        name = list(self._memory.names)[cell]
        if name[0] not in ("status", "borrows", "slot", "area", "release"):
            return None
        of, _, _, _, context, *rest = name
        return (of, context, *(rest[:-1] if of == "area" else rest))

    def _readable(self, place: int) -> str:
        step = self._places.steps[place]
        if step is None or step.name not in ("read", "write", "least"):
            return "ended" if step is None else step.name
        return " ".join(map(str, [step.name, self._named(step.arguments[0]), *step.arguments[1:]]))


def _compact(accesses: Iterable[Access]) -> Iterator[Access]:
    """Without most of the looks of one who waits: the model has no more than so many at the same value."""
    for _, same in groupby(accesses):
        yield from islice(same, _LOOKS)


def _rows(accesses: Iterable[Access]) -> list[Access]:
    """With the words of borrows, written one after another, as one row, which the model has; so are those read."""
    found: list[Any] = []
    for operation, name, value in accesses:
        if name[0] != "borrows":
            found.append((operation, name, value))
            continue
        row, k = name[:-1], name[-1]
        if operation == "read":
            found.append((operation, row, value))
        elif k and found and found[-1][:2] == ("write", row):
            found[-1] = ("write", row, (*found[-1][2], value))
        else:
            found.append(("write", row, (value,)))
    return found


def _same(name: tuple[Any, ...], model: Any, code: Any) -> bool:
    """Whether both have written the same; of where texts lie and their sizes only whether it is memory."""
    if name[0] == "area" or name[-1] == "size":
        return True
    if name[-1] == "place":
        model, code = model == BY_MESSAGE, code == BY_MESSAGE
    return bool(model == code)


def _as_read(name: tuple[Any, ...], value: Any, somewhere: int, p: int) -> Hashable:
    if name[-1] == "place":
        return somewhere if value >= 0 else BY_MESSAGE
    if name[-1] == "size":
        return SIZES["mail"] if value else 0
    if name[0] == "borrows":
        return (value,) * p
    return int(value)
