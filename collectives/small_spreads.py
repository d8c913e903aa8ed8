"""Values that go from one processor to all, where all show each other records: the root shows its own, all read it.

As in small_climbs.py, what depends on the arguments alone is worked out once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..bsp import BSP
from ..ground.chunk import pack_counts
from ..ground.copying import record
from ..ground.short_records import FLOAT, FLOATS, HEAD, INT_END, KIND_BITS, NOTHING, SIGNATURE
from ..rides.ride import Supersteps
from ..rides.shown import ELSEWHERE, NOT_SHOWN, Counts, Shown
from ..ways import BY_RECORD
from .primitive import NOT_SMALL, remember
from .record_layouts import (
    BESIDE,
    DESCRIBED,
    KIND_MASK,
    LONG_HEAD,
    PICKLE,
    PIPED,
    READY,
    SHAPES,
    Array,
    array_head,
    describe,
    is_described,
    read,
    read_description,
    read_long,
    show,
    write_long,
)
from .small_climbs import Climb
from .values import is_number, own_argument, packed, placed, room

OF_PICKLE = 64  # bytes of the pickle of an int beside its own, at most


class Piped(NamedTuple):
    """An array that comes through a pipe: where that is, its shape and dtype."""

    place: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


class Unreadable(NamedTuple):
    """Instead of an object: what its pickle raised."""

    error: Exception


# Arrays of one form: what comes behind the signature of their records, where they lie, by parity, and what they count.
Like = tuple[bytes, list[Array], Counts]
Flat = Callable[[int, bool], bool]  # whether so many words go to all in one superstep, of an array or pickle or not


def spread_from_here(bsp: BSP, shown: Shown, name: str, agreed: dict[str, str], flat: Flat) -> Climb:
    """A broadcast in one superstep, on the root: everything but its value; it may be `NOT_SMALL`.

    An array that does not fit into a record lies beside it, or else goes through a pipe: the others copy a piece of it
    while the root copies the next.
    """
    base, label = shown.signature(name, agreed), shown.label(name)
    most, out = shown.most - HEAD.size, float(bsp.p - 1)
    of_ints = 8 * (most - OF_PICKLE)  # bits that an int has, at most, where a record has room for its pickle
    places, mine, parity, begin, sync = shown.places, shown.mine, shown.parity, shown.begin, shown.sync
    show_record, float64 = shown.show_record, np.float64
    traced, others = shown.traced, shown.others
    of_number = pack_counts(out, 0.0, out, 0.0, BY_RECORD) if flat(1, False) else None
    # Of arrays by dtype and shape: what comes behind the signature, their places by parity from the second time on, and
    # counts; of those that are longer than a record, their description; None: not in one superstep.
    arrays: dict[Any, Any] = {}

    def spread(value: Any, _: Array | None = None) -> Any:
        kind = type(value)
        if kind is np.ndarray:
            return of_array(value)
        if kind is not float and not is_number(value):
            return of_object(value)
        if kind is int and value.bit_length() > of_ints:
            return NOT_SMALL
        if of_number is None or (sign := begin(name, agreed, base)) < 0:
            return NOT_SMALL
        if traced:
            shown.trace(name, others, 1)
        if kind is float or kind is float64 or (kind is int and -INT_END <= value < INT_END):
            show_record(name, label, sign, of_number, value, ())
        else:
            at = places[parity(0)]
            show(shown, at, sign, value)  # there is room
            sync(name, label, sign, at, of_number)
        return value

    def of_array(value: Array) -> Any:
        key = value.dtype, value.shape
        found = arrays.get(key, NOT_SMALL)
        known = found is not NOT_SMALL
        if not known:
            if len(arrays) >= SHAPES:
                arrays.clear()
            found = arrays[key] = described(value)
        if type(found) is bytes:
            return of_long_array(value, found)
        if found is None or (sign := begin(name, agreed, base)) < 0:
            return NOT_SMALL
        if traced:
            shown.trace(name, others, (value.nbytes + 7) >> 3)
        description, records, counts = found
        which = parity(SIGNATURE.size + len(description) + value.nbytes)
        if records is not None:
            record(value, records[which])
        else:
            behind = SIGNATURE.size + len(description)
            np.ndarray(value.shape, value.dtype, mine, places[which] + behind)[...] = value
            if known:
                records = [np.ndarray(value.shape, value.dtype, mine, place + behind) for place in places]
                arrays[key] = description, records, counts
        show_record(name, label, sign, counts, description, ())
        return value if value.flags.writeable else value.copy()

    def of_long_array(value: Array, text: bytes) -> Any:
        if not shown.ready:
            return NOT_SMALL
        place, kind = shown.lay_beside(value), BESIDE
        if place == ELSEWHERE:
            place, kind = shown.pipe(), PIPED
        if place == ELSEWHERE or (sign := begin(name, agreed, base)) < 0:
            return NOT_SMALL
        at, words = places[parity(LONG_HEAD.size + len(text))], (value.nbytes + 7) >> 3
        write_long(mine, at, sign, kind, place, text)
        sync(name, label, sign, at, pack_counts(words * out, 0.0, out, 0.0, BY_RECORD))
        if kind == PIPED:
            shown.send_through(name, at + READY, place, value)
        return value if value.flags.writeable else value.copy()

    def described(value: Array) -> tuple[bytes, None, Counts] | bytes | None:
        size = value.nbytes
        if not size or not is_described(value):
            return None
        words, text = (size + 7) >> 3, describe(value)
        if not flat(words, True) or LONG_HEAD.size + len(text) > shown.most:
            return None
        if len(text) + size > most:
            return text
        return array_head(text), None, pack_counts(words * out, 0.0, out, 0.0, BY_RECORD)

    def of_object(value: Any) -> Any:
        text = packed(value, name)
        words = (len(text) + 7) >> 3
        if len(text) > most or not flat(words, True) or (sign := begin(name, agreed, base)) < 0:
            return NOT_SMALL
        if traced:
            shown.trace(name, others, words)
        at = places[parity(HEAD.size + len(text))]
        HEAD.pack_into(mine, at, sign, PICKLE | len(text) << KIND_BITS)
        mine[at + HEAD.size : at + HEAD.size + len(text)] = text
        sync(name, label, sign, at, pack_counts(words * out, 0.0, out, 0.0, BY_RECORD))
        return value

    return spread


def spread_alone(shown: Shown, name: str, agreed: dict[str, str]) -> Climb:
    """The same in a group of one."""
    base, label = shown.signature(name, agreed), shown.label(name)

    def spread(value: Any, __: Array | None = None) -> Any:
        for _, _, _, counts in shown.idle:
            sign = shown.begin(name, agreed, base)
            if sign < 0:
                return NOT_SMALL
            if shown.traced:
                shown.trace(name, [], 0)
            shown.show_record(name, label, sign, counts, None, ())
        return own_argument(value)

    return spread


def spread_from(
    root: int, shown: Shown, name: str, agreed: dict[str, str], steps: Callable[[], Supersteps[Any]]
) -> Climb:
    """The same on another processor; `steps` makes the function that rides, where the root's value does."""
    base, label = shown.signature(name, agreed), shown.label(name)
    places, mine, parity = shown.places, shown.mine, shown.parity
    begin, show_record = shown.begin, shown.show_record
    part, unpack, of_number = shown.parts[root], FLOATS.unpack_from, pack_counts(0.0, 1.0, 0.0, 1.0, BY_RECORD)
    traced = shown.traced
    # By the description of arrays, from the second time on; and the last one, as the next array may be like it.
    likes: dict[bytes, Like | None] = {}
    alike: Like | None = None

    def spread(_: Any, out: Array | None = None) -> Any:
        sign = begin(name, agreed, base)
        if sign < 0:
            return NOT_SMALL
        if traced:
            shown.trace(name, [], 0)
        which = parity(LONG_HEAD.size)
        LONG_HEAD.pack_into(mine, places[which], sign, NOTHING, 0, 0)
        expected = alike
        if expected is None:
            found = show_record(name, label, sign, of_number, None, (root,), heard)
        else:
            text, views, counts = expected
            found = show_record(name, label, sign, counts, None, (root,), heard, text)
        if found is NOT_SHOWN:
            return shown.heard(name, steps)
        if type(found) is list:  # as expected, and not `heard`
            if expected is None:
                return found[0]
            view = views[which]
            return view.copy() if out is None else placed(name, view, out)
        (found,) = found
        if type(found) is np.ndarray:
            return found.copy() if out is None else placed(name, found, out)
        if type(found) is Piped:
            return piped(places[which] + READY, found, out)
        if type(found) is Unreadable:
            raise found.error
        return found

    def piped(ready: int, found: Piped, out: Array | None) -> Array:
        array = shown.receive_through(name, root, ready, found.place, lambda: room(out, found.shape, found.dtype))
        return array if out is None else placed(name, array, out)

    def heard(at: int) -> tuple[tuple[Any], Counts]:
        nonlocal alike
        alike = None
        found, counts = heard_one(at)
        return (found,), counts

    def described(text: bytes) -> Like:
        shape, dtype = read_description(text)
        views = [np.ndarray(shape, dtype, part, place + HEAD.size + len(text)) for place in places]
        words = float((views[0].nbytes + 7) >> 3)
        return array_head(text), views, pack_counts(0.0, words, 0.0, 1.0, BY_RECORD)

    def heard_one(at: int) -> tuple[Any, Counts]:
        nonlocal alike
        _, code, number = unpack(part, at)
        if code == FLOAT:
            return number, of_number
        size = code >> KIND_BITS
        if code & KIND_MASK in (BESIDE, PIPED):
            place, text = read_long(part, at, size)
            shape, dtype = read_description(text)
            words = float((math.prod(shape) * dtype.itemsize + 7) >> 3)
            beside = code & KIND_MASK == BESIDE
            long: Any = np.ndarray(shape, dtype, part, place) if beside else Piped(place, shape, dtype)
            return long, pack_counts(0.0, words, 0.0, 1.0, BY_RECORD)
        if code & KIND_MASK == DESCRIBED:
            begin = at + HEAD.size
            text = bytes(part[begin : begin + size])
            found = likes.get(text)
            if found is None:
                known = text in likes
                if len(likes) >= SHAPES:
                    likes.clear()
                found = described(text)
                likes[text] = found if known else None
            else:
                alike = found
            _, views, counts = found
            return views[places.index(at)], counts
        try:
            value = read(part, at)
        except Exception as error:  # of the value's own code: it is raised when the superstep has ended
            value = Unreadable(error)
        words = 1.0 if is_number(value) else float((size + 7) >> 3)
        return value, pack_counts(0.0, words, 0.0, 1.0, BY_RECORD)

    return spread


def spread(
    bsp: BSP,
    name: str,
    value: Any,
    root: int,
    agreed: dict[str, Any],
    flat: Flat,
    steps: Callable[[], Supersteps[Any]],
    kind: str | None,
    out: Array | None = None,
) -> Any:
    """The result of a broadcast, the first one of this name, root and kind; or `NOT_SMALL`.

    Args:
        agreed: the arguments that are equal on all processors.
        flat: see `Flat`.
        steps: makes the function that rides, on another processor than the root.
        kind: of the value, where all say it; what is prepared is found by (name, root, kind) from now on.
        out: where the result may go.
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
    return remember(bsp, (name, root, kind), found)(value, out)
