"""Small values that ride: numbers and short arrays, as notes (pybsp/notes.py).

As in small.py, what depends on the arguments alone is worked out once and kept with the processor, and results and the
ledger's rows are those of the function that rides with messages.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..bsp import BSP
from ..rides import OF_SUPERSTEP, Ride, Supersteps, signature
from .primitive import NOT_SMALL, Operator, Order, checked_out, in_turn, is_number, own_result, placed
from .small import NUMBERS, QUICK, REMEMBERED, Array, Prepare, Prepared, applied, keeps_form

MOST = 1 << 12  # bytes of an array that goes as a note: it is copied more often than a message


class Rider(NamedTuple):
    """What a call is made of that depends on its arguments alone.

    steps: of a value.
    supersteps: how many it takes.
    """

    steps: Callable[[Any], Supersteps[Any]]
    supersteps: int


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
        prepare: see `small.climb`.
        root: who alone has a result; -1: all have one.
        out: where the result goes, if this processor has one.
    """
    if degree is not None and type(degree) is not int:
        return None
    if type(value) is np.ndarray:
        dtype = value.dtype
        if not 0 < value.nbytes <= MOST or value.ndim == 0 or dtype.kind not in "biufc":
            return None
        key: Any = ("start", name, op, order, degree, root, dtype, value.shape)
    elif type(value) in NUMBERS or is_number(value):
        key = ("start", name, op, order, degree, root)
    else:
        return None
    try:
        rider: Any = bsp.prepared.get(key)
    except TypeError:  # an op, or a wrong argument, that cannot be hashed
        return None
    if rider is None:
        if len(bsp.prepared) >= REMEMBERED:
            bsp.prepared.clear()
        made = prepare(bsp, value, op, order, degree, root)
        rider = NOT_SMALL
        if made is not None and keeps_form(op, value, made):
            rider = climber(bsp, name, op, made, value, root)
        bsp.prepared[key] = rider
    if rider is NOT_SMALL:
        return None
    steps = rider.steps(value.copy() if type(value) is np.ndarray else value)
    if out is not None:
        checked_out(name, out)
        steps = placing(name, steps, out)
    return bsp.notes.ride(name, steps, rider.supersteps)


def placing(name: str, steps: Supersteps[Any], out: Array) -> Supersteps[Any]:
    """A function that rides, with its result in the array out."""
    return placed(name, (yield from steps), out)


def climber(bsp: BSP, name: str, op: Operator, made: Prepared, like: Any, root: int) -> Rider:
    """A climb of trees (`primitive.climbed`) by notes, on one processor: everything but its value."""
    agreed = {key: str(one) for key, one in made.agreed.items()}
    base, pid, fold, words, notes = signature(name, agreed), bsp.pid, made.fold, made.words, bsp.notes
    send, take, work = notes.send, notes.take, bsp.work
    scheme = [
        (
            [dest for dest, _, _ in step.sends(pid)],
            sources := [source for source, _, _ in step.receives(pid)],
            sum(source < pid for source in sources),
        )
        for step in made.steps
    ]
    quick = QUICK.get(op) if isinstance(op, np.ufunc) and fold is in_turn else None
    noted, read = (noted_array, reader(like)) if type(like) is np.ndarray else (noted_number, read_number)

    def climb(value: Any) -> Supersteps[Any]:
        sign = notes.begin(name, agreed, base)
        for dests, sources, place in scheme:
            if dests:
                note = noted(sign, value)
                for dest in dests:
                    send(dest, note, words)
                notes.count(name, words * len(dests))
            yield
            came = take(sign, sources, name)
            sign += OF_SUPERSTEP
            if not came:
                continue
            if quick is not None and type(value) is float and len(came) == 1 and type(other := came[0][1][1]) is float:
                total = quick(value, other) if place == 0 else quick(other, value)
                if total - total == 0.0 and len(came[0][1]) == 2:
                    value = np.float64(total)  # as numpy's operator makes it
                    work(words)
                    continue
            own = value
            if type(value) is np.ndarray:
                own = value.view()
                own.flags.writeable = False  # an op that works in place would change the caller's
            parts = [(source, read(note)) for source, note in came]
            parts.insert(place, (pid, own))
            value = own_result(applied(name, pid, fold, parts, op))
            work(words * len(came))
        return value if root in (pid, -1) else None

    return Rider(climb, len(scheme))


def noted_number(sign: int, value: Any) -> tuple[Any, ...]:
    """A number as a note: one of numpy's, which would take a microsecond to pickle, as Python's, and marked."""
    return (sign, value) if type(value) is not np.float64 else (sign, float(value), True)


def read_number(note: tuple[Any, ...]) -> Any:
    """The number of a note."""
    return note[1] if len(note) == 2 else np.float64(note[1])


def noted_array(sign: int, value: Array) -> tuple[Any, ...]:
    """An array as a note, whose dtype and shape all know."""
    return sign, value.tobytes()  # a copy: the value may be worked on before it is sent


def reader(like: Array) -> Callable[[tuple[Any, ...]], Array]:
    """What reads such arrays, which are read-only."""
    dtype, shape = like.dtype, like.shape
    return lambda note: np.frombuffer(note[1], dtype).reshape(shape)


def spread(bsp: BSP, name: str, value: Any, root: int, agreed: dict[str, Any], like: Any, words: int) -> Ride[Any]:
    """Start a broadcast of a number or an array of a known form to all in one superstep."""
    degree = agreed["degree"]
    key = ("start", name, root, degree) if is_number(like) else ("start", name, root, degree, like.dtype, like.shape)
    rider = bsp.prepared.get(key)
    if rider is None:
        if len(bsp.prepared) >= REMEMBERED:
            bsp.prepared.clear()
        rider = bsp.prepared[key] = spreader(bsp, name, root, agreed, like, words)
    return bsp.notes.ride(name, rider.steps(value), rider.supersteps)


def spread_again(bsp: BSP, name: str, value: float, root: int, degree: int | None) -> Ride[Any] | None:
    """`spread` of a number, where it was called before; else None."""
    rider = bsp.prepared.get(("start", name, root, degree))
    return None if rider is None else bsp.notes.ride(name, rider.steps(value), rider.supersteps)


def spreader(bsp: BSP, name: str, root: int, agreed: dict[str, Any], like: Any, words: int) -> Rider:
    """Everything of it but the value."""
    agreed = {key: str(one) for key, one in agreed.items()}
    base, notes = signature(name, agreed), bsp.notes
    others = [pid for pid in range(bsp.p) if pid != root]
    is_array = type(like) is np.ndarray
    noted, read = (noted_array, reader(like)) if is_array else (noted_number, read_number)

    def from_here(value: Any) -> Supersteps[Any]:
        sign = notes.begin(name, agreed, base)
        note = noted(sign, value)
        for dest in others:
            notes.send(dest, note, words)
        notes.count(name, words * len(others))
        own = value.copy() if is_array else value
        yield
        notes.take(sign, [], name)
        return own

    def from_there(_: Any) -> Supersteps[Any]:
        sign = notes.begin(name, agreed, base)
        yield
        ((_, note),) = notes.take(sign, [root], name)
        return read(note).copy() if is_array else read(note)

    return Rider(from_here if bsp.pid == root else from_there, 1)
