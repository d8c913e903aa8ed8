"""Where the results of two executions differ."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np


def difference_of_results(first: list[Any], other: list[Any]) -> str | None:
    parts = (difference(a, b, f"processor {pid}") for pid, (a, b) in enumerate(zip(first, other, strict=True)))
    return next(filter(None, parts), None)


def difference(first: Any, other: Any, place: str, seen: frozenset[tuple[int, int]] = frozenset()) -> str | None:
    """Where two results are not equal, in words; None where they are."""
    if first is other or (id(first), id(other)) in seen:
        return None
    if type(first) is not type(other):
        return f"{place}: {type(first).__name__}, then {type(other).__name__}"
    seen |= {(id(first), id(other))}
    parts: Iterable[tuple[str, Any, Any]]
    if isinstance(first, (np.ndarray, np.generic)):
        return _difference_of_arrays(np.asarray(first), np.asarray(other), place, seen)
    if isinstance(first, (list, tuple)):
        if len(first) != len(other):
            return f"{place}: {len(first)} items, then {len(other)}"
        parts = ((f"[{k}]", a, b) for k, (a, b) in enumerate(zip(first, other, strict=True)))
    elif isinstance(first, dict):
        if first.keys() != other.keys():
            return f"{place}: keys {list(first)!r:.80}, then {list(other)!r:.80}"
        parts = ((f"[{key!r}]", value, other[key]) for key, value in first.items())
    elif isinstance(first, (float, complex)):
        return None if first == other or (first != first and other != other) else f"{place}: {first!r}, then {other!r}"
    elif isinstance(first, BaseException):
        parts = (("", first.args, other.args),)
    else:
        if _compare_equal(first, other):
            return None
        attributes = _attributes(first)
        if not attributes or attributes.keys() != _attributes(other).keys():
            return f"{place}: {first!r:.80}, then {other!r:.80}"
        parts = ((f".{name}", value, getattr(other, name)) for name, value in attributes.items())
    return next(filter(None, (difference(a, b, place + part, seen) for part, a, b in parts)), None)


def _difference_of_arrays(first: Any, other: Any, place: str, seen: frozenset[tuple[int, int]]) -> str | None:
    if first.dtype != other.dtype or first.shape != other.shape:
        return f"{place}: {first.dtype}{first.shape}, then {other.dtype}{other.shape}"
    if first.dtype.names is not None:
        fields = ((f"[{name!r}]", first[name], other[name]) for name in first.dtype.names)
        return next(filter(None, (_difference_of_arrays(a, b, place + part, seen) for part, a, b in fields)), None)
    if first.dtype.hasobject:
        return difference(first.tolist(), other.tolist(), place, seen)
    if np.array_equal(first, other, equal_nan=first.dtype.kind in "fcmM"):
        return None
    return f"{place}: {np.array2string(first, threshold=8)}, then {np.array2string(other, threshold=8)}"


def _compare_equal(first: Any, other: Any) -> bool:
    try:
        return bool(first == other)
    except Exception:  # of an == that gives no truth value
        return False


def _attributes(thing: Any) -> dict[str, Any]:
    slots = (name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ()))
    found = {name: getattr(thing, name) for name in slots if hasattr(thing, name)}
    found.update(getattr(thing, "__dict__", {}))
    return found
