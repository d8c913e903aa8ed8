"""Small values, where all processors meet on one board: each shows its own, and reads those that its plan names.

What depends on the arguments alone is worked out once and kept with the processor (`BSP.prepared`): the signature of
the call, whom this processor hears from in each superstep of the plan, what it counts. The results are those of the
function that rides, bit for bit, and so are the ledger's rows.
"""

from __future__ import annotations

import operator
import pickle
from collections.abc import Callable, Sequence
from functools import reduce
from struct import Struct
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..bsp import BSP
from ..errors import UsageError
from ..rides import OF_SUPERSTEP, Supersteps
from ..shown import NOT_SHOWN, Counts, Shown
from .plan import Step
from .primitive import (
    NOT_SMALL,
    Fold,
    Operator,
    Order,
    checked_out,
    elementwise,
    in_turn,
    is_number,
    own_argument,
    own_result,
    packed,
    placed,
)

# A record: the signature of the call, what it is, and the data.
HEAD, FLOATS, INTS = Struct("=qq"), Struct("=qqd"), Struct("=qqq")
NOTHING, FLOAT, FLOAT64, INT, ARRAY, PICKLE, DESCRIBED = range(7)  # with the bytes of a pickle in the higher bits
KIND_BITS, KIND_MASK = 3, 7
NUMBERS = frozenset({float, int, np.float64})  # most of those that `is_number` knows
REMEMBERED = 256  # prepared calls of a processor
ALIGN = 16  # bytes, of an array in a record
_INT_END = 1 << 63

Array = NDArray[Any]


def larger(a: float, b: float) -> float:
    """What `np.maximum` makes of two floats: it knows of equal ones, which may be zeros of two signs, and of NaN."""
    if a > b:
        return a
    return b if b > a else np.maximum(a, b)


def smaller(a: float, b: float) -> float:
    """What `np.minimum` makes of two floats."""
    if a < b:
        return a
    return b if b < a else np.minimum(a, b)


# What numpy's operators do to two floats, in a fifth of the time; where the sum is finite they have no warning to give.
QUICK: dict[Any, Operator] = {
    np.add: operator.add,
    np.multiply: operator.mul,
    np.maximum: larger,
    np.minimum: smaller,
}

Climb = Callable[[Any], Any]  # of the value; `NOT_SMALL` where something else has to travel with its supersteps


class Prepared(NamedTuple):
    """What a climb is made of, beside the op.

    agreed: the arguments that are equal on all processors.
    words: of a value.
    """

    agreed: dict[str, Any]
    steps: Sequence[Step]
    fold: Fold
    words: int

    def scheme(self, pid: int) -> list[tuple[bool, list[int], list[int], Counts]]:
        """Of each superstep: whether this processor sends, who it hears from, these and itself, and its counts."""
        found = []
        for step in self.steps:
            sent, sources = len(step.sends(pid)), [source for source, _, _ in step.receives(pid)]
            out, into = float(sent), float(len(sources))
            counts = (self.words * out, self.words * into, out, into, 0.0, 0.0)
            found.append((sent > 0, sources, sorted([*sources, pid]), counts))
        return found


def climb_of_numbers(shown: Shown, name: str, op: Operator, made: Prepared) -> Climb:
    """A climb of trees (`primitive.climbed`) by numbers, on one processor: everything but its value."""
    agreed = {key: str(one) for key, one in made.agreed.items()}
    base, label, pid, fold, words = shown.signature(name, agreed), shown.label(name), shown.pid, made.fold, made.words
    begin, sync, work, places, mine, parity = (
        shown.begin,
        shown.sync,
        shown.work,
        shown.places,
        shown.mine,
        shown.parity,
    )
    quick = QUICK.get(op) if isinstance(op, np.ufunc) else None
    pack, unpack, float64 = FLOATS.pack_into, FLOATS.unpack_from, np.float64
    # Most often there is one other: its part, whether its value comes first, and the flop.
    scheme = [
        (sends, members, counts, (shown.parts[sources[0]], sources[0] < pid) if len(sources) == 1 else None)
        for sends, sources, members, counts in made.scheme(pid) or shown.idle
    ]

    def climb(value: Any) -> Any:
        sign = begin(name, agreed, base)
        if sign < 0:
            return NOT_SMALL
        for sends, members, counts, one in scheme:
            at = places[parity()]
            if not sends:
                HEAD.pack_into(mine, at, sign, NOTHING)
            elif type(value) is float:
                pack(mine, at, sign, FLOAT, value)
            else:
                show(shown, at, sign, value, name)
            sync(name, label, sign, at, counts)
            sign += OF_SUPERSTEP
            if one is not None:
                part, first = one
                _, code, other = unpack(part, at)
                if code != FLOAT:
                    other = float64(other) if code == FLOAT64 else read(part, at)
                a, b = (other, value) if first else (value, other)
                if quick is not None and type(a) is type(b) is float:
                    total = quick(a, b)
                    value = float64(total) if total - total == 0.0 else applied(name, pid, op, a, b)
                else:
                    value = applied(name, pid, op, a, b)
                work(words)
            elif len(members) > 1:
                found = [value if k == pid else read(shown.parts[k], at) for k in members]
                total = None
                if quick is not None and fold is in_turn and all(type(one) is float for one in found):
                    total = reduce(quick, found)
                if total is not None and total - total == 0.0:
                    value = float64(total)
                else:
                    value = applied(name, pid, fold, list(zip(members, found, strict=True)), op)
                work(words * (len(members) - 1))
        return value

    return climb


def climb_of_arrays(shown: Shown, name: str, op: Operator, made: Prepared, like: Array) -> Climb:
    """The same by arrays of the dtype and shape of one like all of them."""
    agreed = {key: str(one) for key, one in made.agreed.items()}
    base, label, pid, fold, words = shown.signature(name, agreed), shown.label(name), shown.pid, made.fold, made.words
    scheme = made.scheme(pid) or shown.idle
    # The place of the array in all records, by parity.
    views = [[np.ndarray(like.shape, like.dtype, part, at + HEAD.size) for part in shown.parts] for at in shown.places]
    for view in (view for of_all in views for k, view in enumerate(of_all) if k != pid):
        view.flags.writeable = False

    def climb(value: Any) -> Any:
        sign = shown.begin(name, agreed, base)
        if sign < 0:
            return NOT_SMALL
        for sends, sources, members, counts in scheme:
            parity = shown.parity()
            at, records = shown.places[parity], views[parity]
            HEAD.pack_into(shown.mine, at, sign, ARRAY if sends else NOTHING)
            if sends:
                records[pid][...] = value
            shown.sync(name, label, sign, at, counts)
            sign += OF_SUPERSTEP
            if sources:
                own = value.view()
                own.flags.writeable = False  # an op that works in place would change the caller's
                parts = [(k, own if k == pid else records[k]) for k in members]
                value = own_result(applied(name, pid, fold, parts, op))
                shown.work(words * len(sources))
        return value

    return climb


def applied(name: str, pid: int, function: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    """What a function of the user's makes of two things.

    Raises:
        UsageError: the function raised.
    """
    try:
        return function(a, b)
    except Exception as error:
        raise UsageError(f"{name}: argument op: raised {type(error).__name__}: {error} (on processor {pid})") from error


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


def read(part: memoryview, at: int) -> Any:
    """A number, or what was pickled, in a processor's record."""
    _, code, number = FLOATS.unpack_from(part, at)
    if code == FLOAT:
        return number
    if code == FLOAT64:
        return np.float64(number)
    if code == INT:
        return INTS.unpack_from(part, at)[2]
    begin = at + HEAD.size
    return pickle.loads(part[begin : begin + (code >> KIND_BITS)])


Prepare = Callable[[BSP, Any, Operator, Order, int | None, int], Prepared | None]  # None: it is not to climb


def climb(
    bsp: BSP,
    name: str,
    value: Any,
    op: Operator,
    order: Order,
    degree: int | None,
    prepare: Prepare,
    root: int = 0,
    out: Array | None = None,
) -> Any:
    """The result of a primitive that climbs trees, or `NOT_SMALL`.

    Args:
        prepare: works out what depends on the arguments alone, which it checks.
        out: where the result goes, if this processor has one.
    """
    shown = bsp.shown
    if shown is None or (degree is not None and type(degree) is not int):
        return NOT_SMALL
    if type(value) is np.ndarray:
        dtype = value.dtype
        if not 0 < value.nbytes <= shown.most - HEAD.size or value.ndim == 0 or dtype.kind not in "biufc":
            return NOT_SMALL
        key: Any = (name, op, order, degree, root, dtype, value.shape)
    elif type(value) in NUMBERS or is_number(value):
        key = (name, op, order, degree, root)
    else:
        return NOT_SMALL
    try:
        found = bsp.prepared[key]
    except KeyError:
        found = bsp.prepared[key] = _prepared(bsp, shown, name, value, op, order, degree, prepare, root)
    except TypeError:  # an op, or a wrong argument, that cannot be hashed
        return NOT_SMALL
    if found is NOT_SMALL:
        return found
    if out is not None:
        checked_out(name, out)
        result = found(value)
        return result if result is NOT_SMALL else placed(name, result, out)
    result = found(value)
    return result.copy() if result is value and type(value) is np.ndarray else result


def keeps_form(op: Operator, value: Any, made: Prepared) -> bool:
    """Whether what goes on from superstep to superstep has the dtype and shape that values have: all know it then."""
    if type(value) is not np.ndarray or len(made.steps) < 2:
        return True
    if not isinstance(op, np.ufunc) or not elementwise(op):
        return False
    found: np.dtype[Any] = op.resolve_dtypes((value.dtype, value.dtype, None))[2]
    return bool(found == value.dtype)


def _prepared(
    bsp: BSP,
    shown: Shown,
    name: str,
    value: Any,
    op: Operator,
    order: Order,
    degree: int | None,
    prepare: Prepare,
    root: int,
) -> Any:
    if len(bsp.prepared) >= REMEMBERED:
        bsp.prepared.clear()
    made = prepare(bsp, value, op, order, degree, root)
    if made is None or not keeps_form(op, value, made):
        return NOT_SMALL
    if shown.on_group and len(made.steps) > 1:  # other groups may have shorter plans
        return NOT_SMALL
    if type(value) is np.ndarray:
        return climb_of_arrays(shown, name, op, made, value)
    return climb_of_numbers(shown, name, op, made)


Flat = Callable[[int, bool], bool]  # whether so many words go to all in one superstep, of an array or pickle or not


def spread_from_here(bsp: BSP, shown: Shown, name: str, agreed: dict[str, str], flat: Flat) -> Climb:
    """A broadcast of what fits into a record, on the root: everything but its value; it may be `NOT_SMALL`."""
    base, label = shown.signature(name, agreed), shown.label(name)
    most, out = shown.most - HEAD.size, float(bsp.p - 1)
    pack, places, mine, parity, begin, sync = (
        FLOATS.pack_into,
        shown.places,
        shown.mine,
        shown.parity,
        shown.begin,
        shown.sync,
    )
    of_number = (out, 0.0, out, 0.0, 0.0, 0.0) if flat(1, False) else None
    # Of arrays by dtype and shape: their description, their places by parity, and counts; None: not in one superstep.
    arrays: dict[Any, tuple[bytes, list[Array], Counts] | None] = {}

    def spread(value: Any) -> Any:
        kind = type(value)
        if kind is np.ndarray:
            return of_array(value)
        if kind is not float and not is_number(value):
            return of_object(value)
        if of_number is None or (sign := begin(name, agreed, base)) < 0:
            return NOT_SMALL
        at = places[parity()]
        if kind is float:
            pack(mine, at, sign, FLOAT, value)
        else:
            show(shown, at, sign, value, name)
        sync(name, label, sign, at, of_number)
        return value

    def of_array(value: Array) -> Any:
        key = value.dtype, value.shape
        if key not in arrays:
            if len(arrays) >= REMEMBERED:
                arrays.clear()
            arrays[key] = placed(value)
        found = arrays[key]
        if found is None or (sign := begin(name, agreed, base)) < 0:
            return NOT_SMALL
        description, records, counts = found
        which = parity()
        at = places[which]
        HEAD.pack_into(mine, at, sign, DESCRIBED | len(description) << KIND_BITS)
        mine[at + HEAD.size : at + HEAD.size + len(description)] = description
        records[which][...] = value
        sync(name, label, sign, at, counts)
        return own_argument(value)

    def placed(value: Array) -> tuple[bytes, list[Array], Counts] | None:
        words = (value.nbytes + 7) >> 3
        text = pickle.dumps((value.dtype.str, value.shape), 5)
        text += bytes(-len(text) % ALIGN)
        plain = value.dtype.kind in "biufc" and value.size
        if not plain or len(text) + value.nbytes > most or not flat(words, True):
            return None
        records = [np.ndarray(value.shape, value.dtype, mine, at + HEAD.size + len(text)) for at in places]
        return text, records, (words * out, 0.0, out, 0.0, 0.0, 0.0)

    def of_object(value: Any) -> Any:
        text = packed(value, name)
        words = (len(text) + 7) >> 3
        if len(text) > most or not flat(words, True) or (sign := begin(name, agreed, base)) < 0:
            return NOT_SMALL
        at = places[parity()]
        HEAD.pack_into(mine, at, sign, PICKLE | len(text) << KIND_BITS)
        mine[at + HEAD.size : at + HEAD.size + len(text)] = text
        sync(name, label, sign, at, (words * out, 0.0, out, 0.0, 0.0, 0.0))
        return value

    return spread


def spread_alone(shown: Shown, name: str, agreed: dict[str, str]) -> Climb:
    """The same in a group of one."""
    base, label = shown.signature(name, agreed), shown.label(name)

    def spread(value: Any) -> Any:
        for _, _, _, counts in shown.idle:
            sign = shown.begin(name, agreed, base)
            if sign < 0:
                return NOT_SMALL
            at = shown.places[shown.parity()]
            HEAD.pack_into(shown.mine, at, sign, NOTHING)
            shown.sync(name, label, sign, at, counts)
        return own_argument(value)

    return spread


def spread_from(
    root: int, shown: Shown, name: str, agreed: dict[str, str], steps: Callable[[], Supersteps[Any]]
) -> Climb:
    """The same on another processor; `steps` makes the function that rides, where the root's value does."""
    base, label = shown.signature(name, agreed), shown.label(name)
    pack, places, mine, parity, begin, hear = (
        HEAD.pack_into,
        shown.places,
        shown.mine,
        shown.parity,
        shown.begin,
        shown.hear,
    )
    part, unpack, of_number = shown.parts[root], FLOATS.unpack_from, (0.0, 1.0, 0.0, 1.0, 0.0, 0.0)
    descriptions: dict[tuple[int, bytes], tuple[Array, Counts]] = {}  # what lies behind one, by its place

    def spread(_: Any) -> Any:
        sign = begin(name, agreed, base)
        if sign < 0:
            return NOT_SMALL
        at = places[parity()]
        pack(mine, at, sign, NOTHING)
        found = hear(name, label, sign, at, heard)
        return shown.heard(name, steps) if found is NOT_SHOWN else found

    def heard(at: int) -> tuple[Any, Counts]:
        _, code, number = unpack(part, at)
        if code == FLOAT:
            return number, of_number
        size = code >> KIND_BITS
        if code & KIND_MASK == DESCRIBED:
            begin = at + HEAD.size
            key = at, bytes(part[begin : begin + size])
            found = descriptions.get(key)
            if found is None:
                if len(descriptions) >= REMEMBERED:
                    descriptions.clear()
                dtype, shape = pickle.loads(key[1])
                record: Array = np.ndarray(shape, dtype, part, begin + size)
                words = float((record.nbytes + 7) >> 3)
                found = descriptions[key] = record, (0.0, words, 0.0, 1.0, 0.0, 0.0)
            return found[0].copy(), found[1]  # the record is written over
        value = read(part, at)
        words = 1.0 if is_number(value) else float((size + 7) >> 3)
        return value, (0.0, words, 0.0, 1.0, 0.0, 0.0)

    return spread


def spread(
    bsp: BSP,
    name: str,
    value: Any,
    root: int,
    agreed: dict[str, Any],
    flat: Flat,
    steps: Callable[[], Supersteps[Any]],
) -> Any:
    """The result of a broadcast, the first one of this name and root; or `NOT_SMALL`.

    Args:
        agreed: the arguments that are equal on all processors.
        flat: see `Flat`.
        steps: makes the function that rides, on another processor than the root.
    """
    shown = bsp.shown
    if shown is None or type(root) is not int or not 0 <= root < bsp.p:
        return NOT_SMALL
    agreed = {key: str(one) for key, one in agreed.items()}
    if bsp.p == 1:
        found = spread_alone(shown, name, agreed)
    elif bsp.pid == root:
        found = spread_from_here(bsp, shown, name, agreed, flat)
    else:
        found = spread_from(root, shown, name, agreed, steps)
    bsp.prepared[name, root] = found
    return found(value)
