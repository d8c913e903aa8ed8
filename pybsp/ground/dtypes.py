"""What says a dtype: a text where that says all of it, else the dtype itself."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

SIMPLE = frozenset("?bBhHiIlLqQefdFD")  # characters of dtypes that these say all about, in native order
SCALARS = frozenset(np.dtype(code).type for code in SIMPLE)  # the classes of their scalars


def form_of(dtype: np.dtype[Any]) -> Any:
    """What a record says of a dtype: a text where that says all of it, which is quicker to pickle and to read."""
    if dtype.names is None:
        return dtype.str if dtype.kind != "V" else dtype
    return _text_of(dtype) if is_plain(dtype) else dtype


def is_plain(dtype: np.dtype[Any]) -> bool:
    """Whether a dtype has nothing that numpy, where it compares dtypes, does not look at."""
    fields: Mapping[str, Any] = dtype.fields or {}
    return (
        dtype.metadata is None
        and dtype.type is not np.record
        and not dtype.isalignedstruct
        and len(fields) == len(dtype.names or ())  # a title is a field too
        and all(is_plain(field[0].base) for field in fields.values())
    )


@lru_cache(maxsize=256)
def _text_of(dtype: np.dtype[Any]) -> Any:
    try:
        text = repr(np.lib.format.dtype_to_descr(dtype))
        return text if _of_text(text) == dtype else dtype
    except (ValueError, TypeError, SyntaxError):  # fields that overlap; dtypes of other packages
        return dtype


@lru_cache(maxsize=256)
def _of_text(text: str) -> np.dtype[Any]:
    found: np.dtype[Any] = np.lib.format.descr_to_dtype(ast.literal_eval(text))
    return found


def dtype_of(form: Any) -> np.dtype[Any]:
    """The dtype that a record says."""
    return _of_text(form) if type(form) is str and form[0] == "[" else np.dtype(form)
