"""Pickles of functions and classes by value: code keeps the name of its file, and what comes back changes no class.

cloudpickle since 3.1.3 ships all code as of "<dynamic-code>", so that tracebacks from a rank named no file and showed
no line. And it gives a class that comes by value its attributes anew, also where that one is here already.
Imported where something is pickled: it takes cloudpickle along.
"""

from __future__ import annotations

import inspect
import io
import pickle
from collections import ChainMap
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from types import CodeType, FunctionType
from typing import Any, ClassVar

import cloudpickle
from cloudpickle.cloudpickle import _DYNAMIC_CLASS_TRACKER_BY_ID  # those that were sent or have come, by a number

_MAKES = "cloudpickle.cloudpickle"  # the module that makes classes

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


def loads_back(text: bytes, buffers: Sequence[memoryview] = ()) -> Any:
    """The object of a pickle that comes back: the classes of it that are here already stay as they are."""
    return _BackUnpickler(io.BytesIO(text), buffers=buffers).load()


def _of_code(code: CodeType) -> tuple[Callable[..., CodeType], tuple[Any, ...]]:
    make, arguments = cloudpickle.Pickler.dispatch_table[CodeType](code)
    return _code, (make, arguments, code.co_filename)


def _code(make: Callable[..., CodeType], arguments: tuple[Any, ...], file: str) -> CodeType:
    return make(*arguments).replace(co_filename=file)


def _exception(kind: type[BaseException], *args: Any) -> BaseException:
    """One with these `args`: its class may take others, and make these of them."""
    with suppress(Exception):
        error = kind(*args)
        if error.args == args:
            return error
    return kind.__new__(kind, *args)


class _CodePickler(cloudpickle.Pickler):  # type: ignore[misc]
    dispatch_table: ClassVar = ChainMap({CodeType: _of_code}, cloudpickle.Pickler.dispatch_table)
    classes: Classes
    modules: set[str]  # whose classes go by value

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, type) and obj.__module__ in self.modules and "." not in obj.__qualname__:
            # Of several with one name, as after a cell was run again, it is the first, which main refers to.
            self.classes.setdefault((obj.__module__, obj.__qualname__), obj)
        if type(obj) is FunctionType and getattr(obj, "is_hypothesis_test", False):
            # A class of tests has such methods, and what explores them cannot be pickled: the test itself goes.
            return super().reducer_override(inspect.unwrap(obj.hypothesis.inner_test))  # type: ignore[attr-defined]
        if isinstance(obj, BaseException) and type(obj).__reduce__ is BaseException.__reduce__:
            reduced: Any = obj.__reduce_ex__(4)
            kind, args, *state = reduced
            return _exception, (kind, *args), *state
        return super().reducer_override(obj)


class _BackUnpickler(pickle.Unpickler):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._new: set[int] = set()  # identities of classes that were not here before

    def find_class(self, module: str, name: str) -> Any:
        found = super().find_class(module, name)
        if module == _MAKES and name in ("_make_skeleton_class", "_make_skeleton_enum"):
            return partial(self._class, found)
        if module == _MAKES and name == "_class_setstate":
            return partial(self._set_state, found)
        return found

    def _class(self, make: Callable[..., type], *args: Any) -> type:
        *_, number, _extra = args
        known: type | None = _DYNAMIC_CLASS_TRACKER_BY_ID.get(number)
        if known is not None:
            return known
        one = make(*args)
        self._new.add(id(one))
        return one

    def _set_state(self, set_state: Callable[[type, Any], type], one: type, state: Any) -> type:
        return set_state(one, state) if id(one) in self._new else one
