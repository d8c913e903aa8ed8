"""What an operator is called, by which processors compare theirs: it says what that does, as far as it can be told.

numpy's and Python's own have one name each, and so has a function of a module, with that of the module. Lambdas and
functions within functions share names: their code and their defaults are compared, not where they stand. So two lambdas
that read the same, in two branches of a program, are one operator. Of a partial what it is of and what it is given
count, of an object that can be called its class and what a pickle would hold of it, of what `np.frompyfunc` and
`np.vectorize` make the function.

Not looked at: what a closure holds, and the object of a bound method beyond its class, as both may well be a
processor's own data; an object's state of more than `MOST` parts, and what is in arrays of more than `MOST_BYTES`.
"""

from __future__ import annotations

import gc
from functools import lru_cache, partial
from hashlib import blake2b
from types import CodeType, FunctionType, MethodType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

MOST = 256
MOST_BYTES = 1 << 16
_LONG = 60  # characters beyond which an error shows a fingerprint
_PLAIN = (type(None), bool, int, float, complex, str, bytes)
# Of partials and objects, as they were when they were first used.
_names: WeakKeyDictionary[Any, str] = WeakKeyDictionary()


class _TooMuchError(Exception):
    """It has too many parts to be compared."""


def operator_name(op: Any) -> str:
    """The name, the same in all processes that run one version of Python and of the program."""
    if hasattr(op, "__name__"):
        return _bounded_name(op)
    try:
        name = _names.get(op)
    except TypeError:  # it has no hash, or no weak reference
        return _bounded_name(op)
    if name is None:
        name = _names[op] = _bounded_name(op)
    return name


def _bounded_name(op: Any) -> str:
    try:
        return _name(op, [MOST])
    except _TooMuchError:
        if isinstance(op, partial):
            return f"partial of {operator_name(op.func)}"
        return f"{op.__name__} (code {_fingerprint(op.__code__)})" if hasattr(op, "__code__") else _class_name(type(op))


def _name(op: Any, left: list[int]) -> str:
    """`operator_name`; `left`: as of `_content`."""
    if isinstance(op, np.ufunc):
        return _ufunc_name(op, left)
    if isinstance(op, MethodType):
        return f"{_name(op.__func__, left)} of {_class_name(type(op.__self__))}"
    if isinstance(getattr(op, "__code__", None), CodeType):
        return _function_name(op, left)
    if isinstance(op, np.vectorize):
        return f"{_name(op.pyfunc, left)} (vectorized)"
    if isinstance(op, partial):
        given = [*op.args, *sorted(op.keywords.items())]
        return f"partial of {_name(op.func, left)}" + f" with {_shown(given, left)}" * bool(given)
    if hasattr(op, "__name__"):
        return str(op.__name__)
    called = getattr(type(op).__call__, "__code__", None)
    code = f" (code {_fingerprint(called)})" if called and "<" in type(op).__qualname__ else ""
    return _shown(op, left) + code


def _ufunc_name(op: np.ufunc, left: list[int]) -> str:
    name = op.__name__
    if name.endswith("(vectorized)"):  # by np.frompyfunc, which shows the function to the garbage collector alone
        function = next((one for one in gc.get_referents(op) if callable(one)), None)
        return name if function is None else f"{_name(function, left)} (vectorized)"
    return name


def _function_name(op: Any, left: list[int]) -> str:
    name = op.__qualname__
    if "<" not in name:
        return f"{op.__module__}.{name}"
    defaults = [*(op.__defaults__ or ()), *sorted((op.__kwdefaults__ or {}).items())]
    given = f", defaults {_shown(defaults, left)}" if defaults else ""
    return f"{op.__name__} (code {_fingerprint(op.__code__)}{given})"


def _class_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _shown(value: Any, left: list[int]) -> str:
    """What a value holds, as a text, or its fingerprint."""
    text = _content(value, left)
    return text if len(text) <= _LONG else f"{_class_name(type(value))} {_digest(text.encode())}"


def _content(value: Any, left: list[int]) -> str:
    """The same for equal values in all processes: of sets in one order, and without addresses.

    Args:
        left: how many parts it may still have.

    Raises:
        _TooMuchError: it has more.
    """
    left[0] -= 1
    if left[0] < 0:
        raise _TooMuchError
    kind = type(value)
    if isinstance(value, np.generic) and value.dtype.kind in "biufc":
        value = value.item()  # which of them a processor has makes no difference
    if type(value) in _PLAIN:
        return repr(value)
    if kind is np.ndarray and not value.dtype.hasobject:
        of_data = f" {_digest(value.tobytes())}" if value.nbytes <= MOST_BYTES else ""
        return f"{value.dtype}{list(value.shape)}{of_data}"
    if kind in (list, tuple):
        return f"[{', '.join(_content(one, left) for one in value)}]"
    if kind in (set, frozenset):
        return f"{{{', '.join(sorted(_content(one, left) for one in value))}}}"
    if kind is dict:
        return f"{{{', '.join(sorted(f'{_content(k, left)}: {_content(v, left)}' for k, v in value.items()))}}}"
    if isinstance(value, type):
        return _class_name(value)
    if isinstance(value, (FunctionType, MethodType, partial, np.ufunc, np.vectorize)):
        return _name(value, left)
    return _content_of_object(value, left)


def _content_of_object(value: Any, left: list[int]) -> str:
    kind = type(value)
    name = _class_name(kind)
    if name.startswith("pybsp."):
        return name  # of this processor
    try:
        reduced = value.__reduce_ex__(4)
    except Exception:
        return name  # what cannot be pickled cannot be compared
    if isinstance(reduced, str):
        return reduced
    arguments, *more = reduced[1:]
    kept = (*arguments, *more[:1], *map(list, filter(None, more[1:3])))
    parts = [one for one in kept if one is not None and one is not kind]
    return f"{name} of {', '.join(_content(one, left) for one in parts)}" if parts else name


@lru_cache(maxsize=256)
def _fingerprint(code: CodeType) -> str:
    return _digest(repr(_code(code)).encode())


def _digest(content: bytes) -> str:
    return blake2b(content, digest_size=4).hexdigest()


def _code(constant: Any) -> Any:
    """What a constant of a function is, or the code of one: as plain data, in the same order in all processes."""
    if isinstance(constant, CodeType):
        return constant.co_code, constant.co_names, [_code(one) for one in constant.co_consts]
    if isinstance(constant, frozenset):
        return sorted(repr(_code(one)) for one in constant)
    if isinstance(constant, tuple):
        return [_code(one) for one in constant]
    return constant
