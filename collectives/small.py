"""Small values, where all processors meet on one board: each shows its own, and reads those that its plan names.

What depends on the arguments alone is worked out once and kept with the processor (`BSP.prepared`): the signature of
the call, whom this processor hears from in each superstep of the plan, what it counts. The results are those of the
function that rides, bit for bit, and so are the ledger's rows.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from functools import partial
from struct import Struct
from typing import Any, NamedTuple

import numpy as np

from ..bsp import BSP
from ..errors import UsageError
from ..rides import Ride, following, signature
from ..shown import Counts, Shown
from .plan import Step
from .primitive import NOT_SMALL, Fold, Operator, Order, in_turn, is_number, own_argument, own_result, packed

# A record: the signature of the call, what it is, and the data.
HEAD, FLOATS, INTS = Struct("=qq"), Struct("=qqd"), Struct("=qqq")
NOTHING, FLOAT, FLOAT64, INT, ARRAY, PICKLE, DESCRIBED = range(7)  # with the bytes of a pickle in the higher bits
KIND_BITS = 3
NUMBERS = frozenset({float, int, np.float64})  # most of those that `is_number` knows
REMEMBERED = 256  # prepared calls of a processor
_INT_END = 1 << 63


class Climb:
    """A call of a primitive that climbs trees (`primitive.climbed`), on one processor: everything but its value.

    Args:
        shown: the records.
        name: the primitive's; agreed: its arguments that are equal on all processors.
        steps: of its plan.
        op, fold: how values are combined.
        words: of a value.
        value: one like all that it will be called with: a number, or an array of that dtype and shape.
    """

    def __init__(
        self,
        bsp: BSP,
        shown: Shown,
        name: str,
        agreed: dict[str, str],
        steps: Sequence[Step],
        op: Operator,
        fold: Fold,
        words: int,
        value: Any,
    ) -> None:
        self._bsp, self._shown, self._name, self._agreed = bsp, shown, name, agreed
        self._op, self._fold, self._words = op, fold, words
        self._signature = signature(name, agreed)
        pid = bsp.pid
        self._steps = []
        for step in steps:
            sends, sources = len(step.sends(pid)), [source for source, _, _ in step.receives(pid)]
            counts = Counts(words * sends, words * len(sources), sends, len(sources))
            self._steps.append((bool(sends), sources, sum(source < pid for source in sources), counts))
        # Of an array: its place in all records, by parity.
        self._views: list[list[np.ndarray[Any, Any]]] = []
        if isinstance(value, np.ndarray):
            for place in shown.places:
                views = [np.ndarray(value.shape, value.dtype, part, place + HEAD.size) for part in shown.parts]
                for k, view in enumerate(views):
                    view.flags.writeable = k == pid
                self._views.append(views)

    def __call__(self, value: Any) -> Any:
        """Run it; `NOT_SMALL` where something else has to travel with its supersteps."""
        shown = self._shown
        mine = shown.begin(self._name, self._agreed, self._signature)
        if mine < 0:
            return NOT_SMALL
        for sends, sources, place, counts in self._steps:
            parity = shown.parity()
            at = shown.places[parity]
            if not sends:
                HEAD.pack_into(shown.mine, at, mine, NOTHING)
            elif self._views:
                HEAD.pack_into(shown.mine, at, mine, ARRAY)
                self._views[parity][shown.pid][...] = value
            else:
                show(shown, at, mine, value, self._name)
            shown.sync(self._name, mine, at, counts)
            if sources:
                if self._views:
                    views = self._views[parity]
                    parts = [(source, views[source]) for source in sources]
                    own = value.view()
                    own.flags.writeable = False
                else:
                    parts = [(source, read(shown, at, source)) for source in sources]
                    own = value
                parts.insert(place, (shown.pid, own))
                value = self._folded(parts)
                self._bsp.work(len(sources) * self._words)
            mine = following(mine)
        return value

    def _folded(self, parts: list[tuple[int, Any]]) -> Any:
        try:
            if self._fold is in_turn:
                total = parts[0][1]
                for _, part in parts[1:]:
                    total = self._op(total, part)
            else:
                total = self._fold(parts, self._op)
        except Exception as error:
            raise UsageError(
                f"{self._name}: argument op: raised {type(error).__name__}: {error} (on processor {self._bsp.pid})"
            ) from error
        return own_result(total) if self._views else total


def show(shown: Shown, at: int, mine: int, value: Any, name: str) -> None:
    """Write a number's record.

    Raises:
        UsageError: an int of more bytes than a record has.
    """
    kind = type(value)
    if kind is float:
        FLOATS.pack_into(shown.mine, at, mine, FLOAT, value)
    elif kind is np.float64:
        FLOATS.pack_into(shown.mine, at, mine, FLOAT64, value)
    elif kind is int and -_INT_END <= value < _INT_END:
        INTS.pack_into(shown.mine, at, mine, INT, value)
    else:
        text = pickle.dumps(value, 5)
        if len(text) > shown.most - HEAD.size:
            raise UsageError(
                f"{name}: argument value: expected a number of at most {shown.most - HEAD.size} bytes, got one of "
                f"{len(text)}"
            )
        HEAD.pack_into(shown.mine, at, mine, PICKLE | len(text) << KIND_BITS)
        shown.mine[at + HEAD.size : at + HEAD.size + len(text)] = text


def read(shown: Shown, at: int, source: int) -> Any:
    """A number in a processor's record."""
    part = shown.parts[source]
    _, code, number = FLOATS.unpack_from(part, at)
    if code == FLOAT:
        return number
    if code == FLOAT64:
        return np.float64(number)
    if code == INT:
        return INTS.unpack_from(part, at)[2]
    begin = at + HEAD.size
    return pickle.loads(part[begin : begin + (code >> KIND_BITS)])


class Prepared(NamedTuple):
    """What a climb is made of, beside the op.

    agreed: the arguments that are equal on all processors.
    words: of a value.
    """

    agreed: dict[str, Any]
    steps: Sequence[Step]
    fold: Fold
    words: int


Prepare = Callable[[BSP, Any, Operator, Order, int], Prepared | None]  # None: it is not to climb


def climb(bsp: BSP, name: str, value: Any, op: Operator, order: Order, prepare: Prepare, root: int = 0) -> Any:
    """The result of a primitive that climbs trees, without a degree of the caller's; or `NOT_SMALL`.

    Args:
        prepare: works out what depends on the arguments alone, which it checks.
    """
    shown = bsp.shown
    if shown is None:
        return NOT_SMALL
    if type(value) is np.ndarray:
        dtype = value.dtype
        if not 0 < value.nbytes <= shown.most - HEAD.size or value.ndim == 0 or dtype.kind not in "biufc":
            return NOT_SMALL
        key: Any = (name, op, order, root, dtype, value.shape)
    elif type(value) in NUMBERS or is_number(value):
        key = (name, op, order, root)
    else:
        return NOT_SMALL
    try:
        found = bsp.prepared[key]
    except KeyError:
        found = bsp.prepared[key] = _prepared(bsp, shown, name, value, op, order, prepare, root)
    except TypeError:  # an op, or a wrong argument, that cannot be hashed
        return NOT_SMALL
    if found is NOT_SMALL:
        return found
    result = found(value)
    return result.copy() if result is value and type(value) is np.ndarray else result


def _prepared(
    bsp: BSP, shown: Shown, name: str, value: Any, op: Operator, order: Order, prepare: Prepare, root: int
) -> Any:
    if len(bsp.prepared) >= REMEMBERED:
        bsp.prepared.clear()
    made = prepare(bsp, value, op, order, root)
    if made is None:
        return NOT_SMALL
    agreed = {key: str(one) for key, one in made.agreed.items()}
    return Climb(bsp, shown, name, agreed, made.steps, op, made.fold, made.words, value)


class Spread:
    """A broadcast of what fits into a record, on one processor: everything but the value.

    Args:
        shown: the records.
        name: the primitive's; agreed: its arguments that are equal on all processors.
        root: whose value.
        flat: whether so many words go to all in one superstep, of an array or a pickle (else of a number).
    """

    def __init__(
        self, bsp: BSP, shown: Shown, name: str, agreed: dict[str, Any], root: int, flat: Callable[[int, bool], bool]
    ) -> None:
        self._shown, self._name, self._root, self._flat = shown, name, root, flat
        self._agreed = {key: str(one) for key, one in agreed.items()}
        self._signature = signature(name, self._agreed)
        self._most, self._others = shown.most - HEAD.size, bsp.p - 1
        self._is_flat: dict[tuple[int, bool], bool] = {}
        self._descriptions: dict[Any, bytes] = {}  # of arrays, by dtype and shape
        self._described: dict[bytes, tuple[np.dtype[Any], tuple[int, ...]]] = {}

    def give(self, value: Any) -> Any:
        """On the root."""
        text = description = b""
        if type(value) is np.ndarray and value.dtype.kind in "biufc" and value.size:
            size = value.nbytes
            key = value.dtype, value.shape
            description = self._descriptions.get(key, b"")
            if not description:
                if len(self._descriptions) >= REMEMBERED:
                    self._descriptions.clear()
                text = pickle.dumps((value.dtype.str, value.shape), 5)
                description = self._descriptions[key] = text + bytes(-len(text) % 16)
            room = size + len(description)
        elif is_number(value):
            size, room = 8, 0
        else:
            text = packed(value, self._name)
            if type(text) is not bytes:
                return NOT_SMALL  # an array without items, or of another dtype
            size = room = len(text)
        words = (size + 7) >> 3
        if room > self._most or not self._goes_flat(words, room > 0):
            return NOT_SMALL
        shown = self._shown
        mine = shown.begin(self._name, self._agreed, self._signature)
        if mine < 0:
            return NOT_SMALL
        at = shown.places[shown.parity()]
        begin = at + HEAD.size
        if description:
            HEAD.pack_into(shown.mine, at, mine, DESCRIBED | len(description) << KIND_BITS)
            shown.mine[begin : begin + len(description)] = description
            np.ndarray(value.shape, value.dtype, shown.mine, begin + len(description))[...] = value
        elif text:
            HEAD.pack_into(shown.mine, at, mine, PICKLE | len(text) << KIND_BITS)
            shown.mine[begin : begin + len(text)] = text
        else:
            show(shown, at, mine, value, self._name)
        shown.sync(self._name, mine, at, (words * self._others, 0, self._others, 0))
        return own_argument(value)

    def get(self, ride: Callable[[], Ride[Any]]) -> Any:
        """On another processor; `ride` starts the function that rides, where the root's value does."""
        shown = self._shown
        mine = shown.begin(self._name, self._agreed, self._signature)
        if mine < 0:
            return NOT_SMALL
        at = shown.places[shown.parity()]
        HEAD.pack_into(shown.mine, at, mine, NOTHING)
        found = shown.hear(self._name, mine, at, partial(self._read, at))
        return shown.heard(self._name, ride) if found is None else found[0]

    def _goes_flat(self, words: int, divisible: bool) -> bool:
        known = self._is_flat.get((words, divisible))
        if known is None:
            known = self._is_flat[words, divisible] = self._flat(words, divisible)
        return known

    def _read(self, at: int) -> tuple[tuple[Any], Counts]:
        part = self._shown.parts[self._root]
        _, code = HEAD.unpack_from(part, at)
        if code & DESCRIBED != DESCRIBED:
            size = code >> KIND_BITS if code & DESCRIBED == PICKLE else 8
            value = read(self._shown, at, self._root)
            return (value,), Counts(0, 1 if is_number(value) else (size + 7) >> 3, 0, 1)
        begin = at + HEAD.size
        end = begin + (code >> KIND_BITS)
        description = bytes(part[begin:end])
        found = self._described.get(description)
        if found is None:
            if len(self._described) >= REMEMBERED:
                self._described.clear()
            code, shape = pickle.loads(description)
            found = self._described[description] = np.dtype(code), shape
        array: np.ndarray[Any, Any] = np.ndarray(found[1], found[0], part, end).copy()  # the record is written over
        return (array,), Counts(0, (array.nbytes + 7) >> 3, 0, 1)


def spread(
    bsp: BSP,
    name: str,
    value: Any,
    root: int,
    agreed: dict[str, Any],
    flat: Callable[[int, bool], bool],
    ride: Callable[[], Ride[Any]],
) -> Any:
    """The result of a broadcast; or `NOT_SMALL`. Args: see `Spread`."""
    if bsp.shown is None or bsp.p == 1 or type(root) is not int or not 0 <= root < bsp.p:
        return NOT_SMALL
    found = bsp.prepared.get((name, root))
    if found is None:
        found = bsp.prepared[name, root] = Spread(bsp, bsp.shown, name, agreed, root, flat)
    return found.give(value) if bsp.pid == root else found.get(ride)
