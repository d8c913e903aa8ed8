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

Classes = dict[tuple[str, str], type]  # by module and name


def dumps(value: Any, within: Callable[[pickle.PickleBuffer], bool], classes: Classes) -> bytes:
    """The object, pickled.

    Args:
        within: says of each buffer whether it goes into the pickle.
        classes: gets those that the pickle has by value, by module and name. It may be the object's last part.

    Raises:
        Exception: it cannot be pickled: whatever its classes raise.
    """
    file = io.BytesIO()
    pickler = _CodePickler(file, protocol=5, buffer_callback=within)
    pickler.classes, pickler.modules = classes, {"__main__", *cloudpickle.list_registry_pickle_by_value()}
    pickler.dump(value)
    return file.getvalue()


def _of_code(code: CodeType) -> tuple[Callable[..., CodeType], tuple[Any, ...]]:
    make, arguments = cloudpickle.Pickler.dispatch_table[CodeType](code)
    return _code, (make, arguments, code.co_filename)


def _code(make: Callable[..., CodeType], arguments: tuple[Any, ...], file: str) -> CodeType:
    return make(*arguments).replace(co_filename=file)


class _CodePickler(cloudpickle.Pickler):  # type: ignore[misc]
    dispatch_table: ClassVar = ChainMap({CodeType: _of_code}, cloudpickle.Pickler.dispatch_table)
    classes: Classes
    modules: set[str]  # whose classes go by value

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, type) and obj.__module__ in self.modules and "." not in obj.__qualname__:
            # Of several with one name, as after a cell was run again, it is the first, which main refers to.
            self.classes.setdefault((obj.__module__, obj.__qualname__), obj)
        return super().reducer_override(obj)
