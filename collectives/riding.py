"""Small values that ride: numbers and short arrays, as notes (pybsp/rides/notes.py).

As in small_climbs.py, what depends on the arguments alone is worked out once and kept with the processor, and results
and the ledger's rows are those of the function that rides with messages.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..bsp import BSP
from ..ground.pickles import unpickled
from ..ground.short_records import NUMBERS
from ..rides.notes import Notes
from ..rides.ride import OF_SUPERSTEP, Ride, Start, Supersteps
from .arguments import Order, of_python
from .operators import Operator, applied, guarded, in_turn
from .primitive import NOT_SMALL, Quick, remember
from .record_layouts import Array
from .small_climbs import QUICK, Prepare, PreparedClimb, has_record, keeps_form
from .values import PLAIN_NUMBERS, alone, checked_out, is_number, own_result, placed

FLOAT_TYPES = frozenset({float, np.float64})
MOST = 1 << 12  # bytes of an array that goes as a note: it is copied more often than a message


def starts(name: str, prepare: Prepare) -> Callable[..., Ride[Any] | None]:
    """`start`, with the arguments of allreduce and prefix, for `primitive`."""

    def riding(
        bsp: BSP,
        value: Any,
        op: Operator,
        degree: int | None = None,
        order: Order = "any",
        algorithm: str | None = None,
        *,
        out: Array | None = None,
    ) -> Ride[Any] | None:
        return None if algorithm is not None else start(bsp, name, value, op, order, degree, prepare, out=out)

    return riding


def quick_starts(name: str) -> Quick:
    """`start` of allreduce or prefix, for `primitive`: of numbers it finds what is prepared, as most calls do."""

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
            if type(value) in NUMBERS and degree is None and out is None and algorithm is None:
                try:
                    rider: Start | None = bsp.prepared.get(("start", name, op, order))
                except (AttributeError, TypeError):  # bsp is no processor, or an argument cannot be hashed: see there
                    rider = None
                if rider is not None:
                    return rider(value, None)
            return otherwise(bsp, value, op, degree, order, algorithm, out=out)

        return at_once

    return quick


def start(
    bsp: BSP,
    name: str,
    value: Any,
    op: Operator,
    order: Order,
    degree: int | None,
    prepare: Prepare,
    root: int = -1,
    out: Array | None = None,
) -> Ride[Any] | None:
    """Start a primitive that climbs trees; None where its value is not small.

    Args:
        prepare: see `small_climbs.climb`.
        root: who alone has a result; -1: all have one.
        out: where the result goes, if this processor has one.
    """
    degree = of_python(degree)
    if degree is not None and type(degree) is not int:
        return None
    if has_record(value):
        if value.nbytes > MOST:
            return None
        key: Any = ("start", name, op, order, degree, root, value.dtype, value.shape)
    elif type(value) in NUMBERS or is_number(value):
        key = ("start", name, op, order, degree, root)
    else:
        return None
    try:
        rider: Any = bsp.prepared.get(key)
    except TypeError:  # an op, or a wrong argument, that cannot be hashed
        return None
    if rider is None:
        call = prepare(bsp, value, op, order, degree, root)
        small = call is not None and keeps_form(op, value, call)
        rider = remember(bsp, key, climber(bsp, name, op, call, value, root) if call and small else NOT_SMALL)
        if rider is not NOT_SMALL and len(key) == 6 and degree is None and root < 0:
            remember(bsp, ("start", name, op, order), rider)  # see `quick_starts`
    if rider is NOT_SMALL:
        return None
    if out is not None:
        checked_out(name, out)
    begun: Ride[Any] = rider(value.copy() if type(value) is np.ndarray else value, out)
    return begun


def placing(name: str, steps: Supersteps[Any], out: Array) -> Supersteps[Any]:
    """A function that rides, with its result in the array out."""
    return placed(name, (yield from steps), out)


def climber(bsp: BSP, name: str, op: Operator, call: PreparedClimb, like: Any, root: int) -> Start:
    """A climb of trees (`primitive.climbed`) by notes, on one processor: everything but its value."""
    agreed = {key: str(one) for key, one in call.agreed.items()}
    pid, fold, words, notes = bsp.pid, call.fold, call.words, bsp.notes
    op = guarded(notes.gate, op, of_objects=False)
    base = notes.signature(name, agreed)
    send, take, take_from, log = notes.send, notes.take, notes.take_from, notes.log
    scheme = [
        (
            [dest for dest, _, _ in step.sends(pid)],
            sources := [source for source, _, _ in step.receives(pid)],
            sum(source < pid for source in sources),
        )
        for step in call.steps
    ]
    quick = QUICK.get(op) if isinstance(op, np.ufunc) and fold is in_turn else None
    noted, read = (noted_array, reader(like)) if type(like) is np.ndarray else (noted_number, read_number)
    float64, has_result = np.float64, root in (pid, -1)
    hears = any(sources for _, sources, _ in scheme)

    def result(value: Any) -> Any:
        return (value if hears else alone(op, value)) if has_result else None

    def combined(value: Any, came: Sequence[tuple[int, Any]], place: int) -> Any:
        own = value
        if type(value) is np.ndarray:
            own = value.view()
            own.flags.writeable = False  # an op that works in place would change the caller's
        parts = [(source, read(note)) for source, note in came]
        parts.insert(place, (pid, own))
        value = own_result(applied(name, fold, parts, op))
        log.work += words * len(came)
        return value

    def climb(value: Any) -> Supersteps[Any]:
        sign = notes.begin(name, agreed, base)
        for dests, sources, place in scheme:
            send(name, dests, sign, value, noted, words)
            yield
            came = take(sign, sources, name)
            sign += OF_SUPERSTEP
            if came:
                value = combined(value, came, place)
        return result(value)

    def start_climb(value: Any, out: Array | None) -> Ride[Any]:
        steps = climb(value)
        return notes.ride(name, steps if out is None else placing(name, steps, out), len(scheme))

    if len(scheme) != 1 or not isinstance(notes, Notes):
        return start_climb
    ((dests, sources, place),) = scheme

    def finish(value: Any, sign: int) -> Any:
        came = take(sign, sources, name)
        if came:
            value = combined(value, came, place)
        return result(value)

    def finish_two(value: Any, sign: int) -> Any:
        # `finish` where there is one other, and most often two floats, or two of numpy's.
        of_source = notes.came.get(source)
        other = of_source.pop(sign, None) if of_source else None
        if other is None:
            other = take_from(sign, source, name)  # says what is wrong
        if quick is not None and type(value) in FLOAT_TYPES:
            mine, others = float(value), other[0] if type(other) is tuple else other
            total = (quick(others, mine) if place else quick(mine, others)) if type(others) is float else math.nan
            if total - total == 0.0:
                log.work += words
                return float64(total)  # as numpy's operator makes it
        return combined(value, [(source, other)], place)

    source = sources[0] if len(sources) == 1 and has_result else -1
    ending = finish if source < 0 else finish_two
    return notes.starter(name, agreed, base, dests, noted, words, ending, start_climb)


def noted_number(value: Any) -> Any:
    """A number as a note, which is of Python's own types: one of numpy's as its dtype and bytes; or what op made.

    Most are float64, which go as a tuple of a float.
    """
    if type(value) is np.float64:
        return (float(value),)
    if type(value) in PLAIN_NUMBERS:
        return value
    if isinstance(value, np.generic) and type(value) is value.dtype.type and value.dtype.kind in "biufc":
        return value.dtype.char, value.tobytes()
    return pickle.dumps(value, 5)


def read_number(note: Any) -> Any:
    """The number of a note."""
    if type(note) is tuple:
        return np.float64(note[0]) if len(note) == 1 else np.frombuffer(note[1], note[0])[0]
    return unpickled(note) if type(note) is bytes else note


noted_array = np.ndarray.tobytes  # all know dtype and shape; a copy: the value may be worked on before it is sent


def reader(like: Array) -> Callable[[bytes], Array]:
    """What reads such arrays, which are read-only."""
    dtype, shape = like.dtype, like.shape
    return lambda note: np.frombuffer(note, dtype).reshape(shape)


def spread(bsp: BSP, name: str, value: Any, root: int, agreed: dict[str, Any], like: Any, words: int) -> Ride[Any]:
    """Start a broadcast of a number or an array of a known form to all in one superstep."""
    degree = agreed["degree"]
    key = ("start", name, root, degree) if is_number(like) else ("start", name, root, degree, like.dtype, like.shape)
    rider: Start | None = bsp.prepared.get(key)
    if rider is None:
        rider = remember(bsp, key, spreader(bsp, name, root, agreed, like, words))
    return rider(value.copy() if type(value) is np.ndarray and bsp.pid == root else value, None)


def spreader(bsp: BSP, name: str, root: int, agreed: dict[str, Any], like: Any, words: int) -> Start:
    """Everything of it but the value."""
    agreed = {key: str(one) for key, one in agreed.items()}
    base, notes = bsp.notes.signature(name, agreed), bsp.notes
    is_array, is_root = type(like) is np.ndarray, bsp.pid == root
    noted, read = (noted_array, reader(like)) if is_array else (noted_number, read_number)

    def finish(own: Any, sign: int) -> Any:
        if is_root:
            return own
        note = notes.take_from(sign, root, name)
        return read(note).copy() if is_array else read(note)

    def steps(value: Any) -> Supersteps[Any]:
        sign = notes.begin(name, agreed, base)
        notes.send(name, dests, sign, value, noted, words)
        yield
        return finish(value, sign)

    def start_steps(value: Any, _: Array | None) -> Ride[Any]:
        return notes.ride(name, steps(value), 1)

    dests = [pid for pid in range(bsp.p) if is_root and pid != root]
    at_once = isinstance(notes, Notes)
    return notes.starter(name, agreed, base, dests, noted, words, finish, start_steps) if at_once else start_steps
