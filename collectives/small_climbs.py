"""Small values that climb trees, where all show each other records: each shows its own, and reads those that its
plan names.

What has no room there is sent.

What depends on the arguments alone is worked out once and kept with the processor (`BSP.prepared`): the signature of
the call, whom this processor hears from in each superstep of the plan, what it counts. The results are those of the
function that rides, bit for bit, and so are the ledger's rows.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Sequence
from functools import partial, reduce
from math import nan
from typing import Any, NamedTuple

import numpy as np

from ..bsp import BSP
from ..ground.chunk import pack_counts
from ..ground.copying import record
from ..ground.short_records import HEAD, INT_END, NUMBERS
from ..groups.shown import GroupShown
from ..rides.ride import OF_SUPERSTEP
from ..rides.shown import NOT_SHOWN, Shown, Turn
from ..ways import BY_RECORD
from .arguments import Order, of_python
from .operators import Fold, Operator, applied, elementwise, guarded, in_turn
from .plan import Step
from .primitive import NOT_SMALL, Quick, remember
from .record_layouts import AN_ARRAY, Array, show
from .shown_values import ShownValues
from .values import alone, checked_out, descriptor, is_number, own_argument, own_result, packed, placed, unpacked

LEAST = sys.float_info.min  # of floats with all their bits


def larger(a: float, b: float) -> float:
    """What `np.maximum` makes of two floats: it knows of zeros of two signs, and of NaN."""
    if a > b:
        return a
    return b if b > a or (a and a == b) else np.maximum(a, b)


def smaller(a: float, b: float) -> float:
    """What `np.minimum` makes of two floats."""
    if a < b:
        return a
    return b if b < a or (a and a == b) else np.minimum(a, b)


def times(a: float, b: float) -> float:
    """What `np.multiply` makes of two floats or ints; NaN where it may have to say that a product is too small."""
    product = a * b
    return product if product >= LEAST or product <= -LEAST or not (a and b) else nan


# What numpy's operators do to two floats, or to two ints of Python, in a fifth of the time; where the sum is finite, or
# one of 64 bits, they have no warning to give.
QUICK: dict[Any, Operator] = {
    np.add: operator.add,
    np.multiply: times,
    np.maximum: larger,
    np.minimum: smaller,
}

# Of the value, and of where the result may go; `NOT_SMALL` where something else has to travel with its supersteps.
Climb = Callable[..., Any]


class PreparedClimb(NamedTuple):
    """What a climb is made of, beside the op.

    agreed: the arguments that are equal on all processors.
    words: of a value.
    """

    agreed: dict[str, Any]
    steps: Sequence[Step]
    fold: Fold
    words: int

    def scheme(self, pid: int) -> list[Turn]:
        """Of each superstep: who hears this processor, who it hears from, these and itself, and its counts."""
        found = []
        for step in self.steps:
            dests, sources = [dest for dest, _, _ in step.sends(pid)], [source for source, _, _ in step.receives(pid)]
            out, into = len(dests), len(sources)
            counts = pack_counts(self.words * out, self.words * into, out, into, BY_RECORD)
            found.append((dests, sources, sorted([*sources, pid]), counts))
        return found


def climb_of_numbers(shown: Shown, name: str, op: Operator, call: PreparedClimb) -> Climb:
    """A climb of trees (`primitive.climbed`) by numbers, on one processor: everything but its value."""
    agreed = {key: str(one) for key, one in call.agreed.items()}
    base, label, pid, fold, words = shown.signature(name, agreed), shown.label(name), shown.pid, call.fold, call.words
    begin, show_record, log = shown.begin, shown.show_record, shown.log
    quick = QUICK.get(op) if isinstance(op, np.ufunc) else None
    float64, int64 = np.float64, np.int64
    shortest, whole = frozenset({float, float64, int64}), frozenset({int, int64})
    # Whose numbers come, how many of them lie before this processor's, the counts, and what reads and writes others.
    scheme = [
        (
            dests,
            tuple(sources),
            sum(source < pid for source in sources),
            counts,
            ShownValues.of_words(shown, dests, sources),
        )
        for dests, sources, _, counts in call.scheme(pid) or shown.idle
    ]
    traced = shown.traced
    hears = any(sources for _, sources, *_ in scheme)

    def without_room(records: ShownValues, dests: list[int], sign: int, value: Any) -> list[Any]:
        if traced:
            shown.trace(name, [], 0)  # what is sent is counted as it goes
        return records.trade(name, label, sign, [value] * len(dests))

    def combined(value: Any, came: list[Any], sources: Sequence[int], place: int) -> Any:
        if len(came) == 1:  # as most often
            a, b = (came[0], value) if place else (value, came[0])
            if quick is not None:
                if isinstance(a, float) and isinstance(b, float):  # one of numpy's is a float too, which would warn
                    total = quick(float(a), float(b))
                    if total - total == 0.0:
                        return float64(total)
                elif (
                    type(a) in whole
                    and type(b) in whole
                    and -INT_END <= a < INT_END
                    and -INT_END <= b < INT_END
                    and -INT_END <= (total := quick(int(a), int(b))) < INT_END
                ):
                    return int64(total)
            return applied(name, op, a, b)
        came.insert(place, value)
        if quick is not None and fold is in_turn and all(isinstance(one, float) for one in came):
            total = reduce(quick, map(float, came))
            if total - total == 0.0:
                return float64(total)
        return applied(name, fold, list(zip(sorted([*sources, pid]), came, strict=True)), op)

    def climb(value: Any, _: Array | None = None) -> Any:
        if not scheme:
            return alone(op, value)  # a group of one beside groups of one
        sign = begin(name, agreed, base)
        if sign < 0:
            return NOT_SMALL
        for dests, sources, place, counts, records in scheme:
            kind = type(value)
            if kind in shortest or not dests or (kind is int and -INT_END <= value < INT_END):
                if traced:
                    shown.trace(name, dests, words)
                came = show_record(name, label, sign, counts, value if dests else None, sources, records.read_all)
            elif not show(shown, at := shown.places[shown.parity(0)], sign, value):
                came = without_room(records, dests, sign, value)
            else:
                if traced:
                    shown.trace(name, dests, words)
                came = shown.hear(name, label, sign, at, records.read_all)
            if came is NOT_SHOWN:
                came = records.swap(name, sign)
            sign += OF_SUPERSTEP
            if came:
                value = combined(value, came, sources, place)
                log.work += words * len(sources)
        return value if hears else alone(op, value)

    if len(scheme) != 1 or traced or quick is None:
        return climb
    ((dests, sources, place, counts, records),) = scheme
    if len(sources) != 1:
        return climb

    def climb_of_two(value: Any, _: Array | None = None) -> Any:
        # `climb` in fewer steps, of two processors' floats: most calls are these.
        kind = type(value)
        if kind is not float and kind is not float64:
            return climb(value)
        sign = begin(name, agreed, base)
        if sign < 0:
            return NOT_SMALL
        came = show_record(name, label, sign, counts, value if dests else None, sources, records.read_all)
        if came is NOT_SHOWN:
            came = records.swap(name, sign)
        other = came[0]
        if isinstance(other, float):
            own = value
            if kind is float64 or type(other) is float64:
                own, other = float(value), float(other)
            total = quick(other, own) if place else quick(own, other)
            if total - total == 0.0:
                log.work += words
                return float64(total)
        value = combined(value, came, sources, place)
        log.work += words
        return value

    return climb_of_two


def climb_of_arrays(shown: Shown, name: str, op: Operator, call: PreparedClimb, like: Array) -> Climb:
    """The same by arrays of the dtype and shape of one like all of them."""
    agreed = {key: str(one) for key, one in call.agreed.items()}
    base, label, pid, fold, words = shown.signature(name, agreed), shown.label(name), shown.pid, call.fold, call.words
    scheme = [
        (dests, tuple(sources), members, counts) for dests, sources, members, counts in call.scheme(pid) or shown.idle
    ]
    # The place of the array in all records, by parity.
    views = [[np.ndarray(like.shape, like.dtype, part, at + HEAD.size) for part in shown.parts] for at in shown.places]
    for view in (view for of_all in views for k, view in enumerate(of_all) if k != pid):
        view.flags.writeable = False
    plain = elementwise(op) and fold is in_turn  # it changes nothing, and makes an array that is nobody else's
    traced, begin, show_record, log, parity = shown.traced, shown.begin, shown.show_record, shown.log, shown.parity
    size = HEAD.size + like.nbytes

    def climb(value: Any, _: Array | None = None) -> Any:
        if not scheme:
            return value
        sign = begin(name, agreed, base)
        if sign < 0:
            return NOT_SMALL
        for dests, sources, members, counts in scheme:
            if traced:
                shown.trace(name, dests, words)
            records = views[parity(size if dests else 0)]
            if dests:
                record(value, records[pid])
            show_record(name, label, sign, counts, AN_ARRAY if dests else None, sources, None, AN_ARRAY)
            sign += OF_SUPERSTEP
            if plain and len(sources) == 1:
                (other,) = sources
                a, b = (records[other], value) if other < pid else (value, records[other])
                value = applied(name, op, a, b)
                log.work += words
            elif sources:
                own = value.view()
                own.flags.writeable = False  # an op that works in place would change the caller's
                parts = [(k, own if k == pid else records[k]) for k in members]
                value = own_result(applied(name, fold, parts, op))
                log.work += words * len(sources)
        return value

    return climb


def climb_of_long_arrays(shown: Shown, name: str, op: Operator, call: PreparedClimb, like: Array) -> Climb:
    """The same by arrays of that dtype and shape, which have no room in a record: they lie beside it, or are sent."""
    agreed = {key: str(one) for key, one in call.agreed.items()}
    base, label, pid, fold, words = shown.signature(name, agreed), shown.label(name), shown.pid, call.fold, call.words
    has_result = call.agreed.get("root", pid) == pid
    scheme = [
        (dests, sources, ShownValues(shown, dests, sources, False))
        for dests, sources, _, _ in call.scheme(pid) or shown.idle
    ]
    two = elementwise(op) and fold is in_turn and len(scheme) == 1 and len(scheme[0][1]) == 1
    ufunc: Any = op
    result_dtype = ufunc.resolve_dtypes((like.dtype, like.dtype, None))[2] if two else None
    shape = like.shape  # no more of the array, which would stay with the call

    def climb(value: Any, out: Array | None = None) -> Any:
        if not shown.ready or (sign := shown.begin(name, agreed, base)) < 0:
            return NOT_SMALL
        for dests, sources, records in scheme:
            came = records.show(name, label, sign, [value] if dests else [])
            sign += OF_SUPERSTEP
            if two and came:
                (other,) = came
                a, b = (other, value) if sources[0] < pid else (value, other)
                into = out if out is not None and out.dtype == result_dtype and out.shape == shape else None
                value = applied(name, partial(ufunc, out=into), a, b)
            elif came:
                own = value.view()
                own.flags.writeable = False  # an op that works in place would change the caller's
                parts = sorted([(pid, own), *zip(sources, came, strict=True)], key=first)
                value = own_result(applied(name, fold, parts, op))
            shown.log.work += words * len(came)
        return value if has_result else None

    return climb


def climb_of_values(shown: Shown, name: str, op: Operator, call: PreparedClimb) -> Climb:
    """The same by all others: objects, arrays without axes or items, and those whose dtypes records do not describe."""
    agreed = {key: str(one) for key, one in call.agreed.items()}
    base, label, pid, fold, words = shown.signature(name, agreed), shown.label(name), shown.pid, call.fold, call.words
    scheme = [
        (dests, sources, ShownValues(shown, dests, sources, False))
        for dests, sources, _, _ in call.scheme(pid) or shown.idle
    ]

    def climb(value: Any, _: Array | None = None) -> Any:
        if not shown.ready:
            return NOT_SMALL
        going = packed(value, name)  # what raises does so before anything begins
        if (sign := shown.begin(name, agreed, base)) < 0:
            return NOT_SMALL
        value = unpacked(going) if type(going) is bytes else own_argument(value)
        flat = isinstance(value, np.ndarray) and not value.ndim
        for number, (dests, sources, records) in enumerate(scheme):
            if number and dests:
                going = packed(value, name)
            came = records.show(name, label, sign, [going] if dests else [])
            sign += OF_SUPERSTEP
            if came:
                own = value.view() if isinstance(value, np.ndarray) else value
                if own is not value:
                    own.flags.writeable = False  # an op that works in place would change the caller's
                parts = sorted([(pid, own), *zip(sources, map(unpacked, came), strict=True)], key=first)
                value = applied(name, fold, parts, op)
                value = own_result(np.array(value) if flat and isinstance(value, np.generic) else value)
                shown.log.work += words * len(came)
        return alone(op, value)

    return climb


first = operator.itemgetter(0)


Prepare = Callable[[BSP, Any, Operator, Order, int | None, int], PreparedClimb | None]  # None: it is not to climb


def climbs(name: str, prepare: Prepare) -> Callable[..., Any]:
    """`climb`, with the arguments of allreduce and prefix, for `primitive`."""

    def small(
        bsp: BSP,
        value: Any,
        op: Operator,
        degree: int | None = None,
        order: Order = "any",
        algorithm: str | None = None,
        *,
        out: Array | None = None,
    ) -> Any:
        return NOT_SMALL if algorithm is not None else climb(bsp, name, value, op, order, degree, prepare, out=out)

    return small


def quick_climbs(name: str) -> Quick:
    """The plain call of allreduce or prefix, for `primitive`: it finds what `climb` has prepared, as most calls do."""

    def quick(otherwise: Callable[..., Any]) -> Callable[..., Any]:
        def at_once(
            bsp: BSP,
            value: Any,
            op: Operator,
            degree: int | None = None,
            order: Order = "any",
            algorithm: str | None = None,
            *,
            out: Array | None = None,
        ) -> Any:
            if degree is None and out is None and algorithm is None:
                kind, found = type(value), None
                try:
                    if kind in NUMBERS:
                        found = bsp.prepared.get((name, op, order))
                    elif kind is np.ndarray:
                        found = bsp.prepared.get((name, op, order, value.dtype, value.shape))
                except (AttributeError, TypeError):
                    pass  # bsp is no processor, or an op or a wrong argument cannot be hashed: see there
                if found is not None and found is not NOT_SMALL:
                    result = found(value)
                    if result is not NOT_SMALL:
                        return result.copy() if result is value and kind is np.ndarray else result
            return otherwise(bsp, value, op, degree, order, algorithm, out=out)

        return at_once

    return quick


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
    if degree is not None and type(degree) is not int:
        degree = of_python(degree)
    if shown is None or (degree is not None and type(degree) is not int):
        return NOT_SMALL
    kind = type(value)
    others = () if degree is None and not root else (degree, root)  # most often none: see `at_once`
    if kind is np.ndarray:
        key: Any = (name, op, order, value.dtype, value.shape, *others)
    elif kind in NUMBERS or is_number(value):
        key = (name, op, order, *others)
    else:
        key = (name, op, order, descriptor(value, op).kind, *others)
    try:
        found = bsp.prepared.get(key)
    except TypeError:  # an op, or a wrong argument, that cannot be hashed
        return NOT_SMALL
    if found is None:
        found = remember(bsp, key, _prepared(bsp, shown, name, value, op, order, degree, prepare, root))
    if found is NOT_SMALL:
        return found
    if out is not None:
        checked_out(name, out)
        result = found(value, out)
        return result if result is NOT_SMALL else placed(name, result, out)
    result = found(value)
    return result.copy() if result is value and kind is np.ndarray else result


def has_record(value: Any) -> bool:
    """Whether it is an array that lies in a record as it is, with all that the call's signature says of it."""
    return bool(type(value) is np.ndarray and value.nbytes and value.ndim and value.dtype.kind in "biufc")


def keeps_form(op: Operator, value: Any, call: PreparedClimb) -> bool:
    """Whether what goes on from superstep to superstep has the dtype and shape that values have: all know it then."""
    if type(value) is not np.ndarray or len(call.steps) < 2:
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
    call = prepare(bsp, value, op, order, degree, root)
    if call is None:
        return NOT_SMALL
    if isinstance(shown, GroupShown) and len(call.steps) > 1:  # other groups may have shorter plans
        return NOT_SMALL
    found: Climb
    given, op = op, guarded(bsp.notes.gate, op, not (is_number(value) or has_record(value)))
    if not has_record(value) and not is_number(value):
        found = climb_of_values(shown, name, op, call)
    elif not keeps_form(given, value, call):
        return NOT_SMALL
    elif type(value) is np.ndarray:
        of_arrays = climb_of_arrays if value.nbytes <= shown.most - HEAD.size else climb_of_long_arrays
        found = of_arrays(shown, name, op, call, value)
    else:
        found = climb_of_numbers(shown, name, op, call)
    # For those that find it (`quick_climbs`); others come by `primitive`.
    return partial(shown.to_the_end, name, found) if isinstance(shown, GroupShown) else found
