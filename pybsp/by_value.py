"""Pickles of functions by value, whose code keeps the name of its file.

cloudpickle since 3.1.3 ships all code as of "<dynamic-code>", so that tracebacks from a rank named no file and showed
no line. Imported where something is pickled: it takes cloudpickle along.
"""

from __future__ import annotations

import io
import pickle
from collections import ChainMap
from collections.abc import Callable
from types import CodeType
from typing import Any, ClassVar

import cloudpickle


def dumps(value: Any, within: Callable[[pickle.PickleBuffer], bool]) -> bytes:
    """The object, pickled; `within` says of each buffer whether it goes into the pickle.

    Raises:
        Exception: it cannot be pickled: whatever its classes raise.
    """
    file = io.BytesIO()
    _CodePickler(file, protocol=5, buffer_callback=within).dump(value)
    return file.getvalue()


def _of_code(code: CodeType) -> tuple[Callable[..., CodeType], tuple[Any, ...]]:
    make, arguments = cloudpickle.Pickler.dispatch_table[CodeType](code)
    return _code, (make, arguments, code.co_filename)


def _code(make: Callable[..., CodeType], arguments: tuple[Any, ...], file: str) -> CodeType:
    return make(*arguments).replace(co_filename=file)


class _CodePickler(cloudpickle.Pickler):  # type: ignore[misc]
    dispatch_table: ClassVar = ChainMap({CodeType: _of_code}, cloudpickle.Pickler.dispatch_table)
