"""What an operator is called, where processors compare theirs: by what it does, as far as that can be told.

numpy's and Python's own have one name each, and so has a function of a module, with that of the module. Lambdas and
functions within functions share names: their code is compared, not where it stands. So two lambdas that read
the same, in two branches of a program, are one operator; what a closure holds is not looked at.
"""

from __future__ import annotations

from functools import lru_cache, partial
from hashlib import blake2b
from types import CodeType
from typing import Any


def operator_name(op: Any) -> str:
    """The name, the same in all processes that run one version of Python and of the program."""
    if isinstance(op, partial):
        return f"partial of {operator_name(op.func)}"
    name, code = str(getattr(op, "__name__", type(op).__name__)), getattr(op, "__code__", None)
    if not isinstance(code, CodeType):
        return name
    if "<" in op.__qualname__:
        return f"{name} (code {_fingerprint(code)})"
    return f"{op.__module__}.{op.__qualname__}"


@lru_cache(maxsize=256)
def _fingerprint(code: CodeType) -> str:
    return blake2b(repr(_content(code)).encode(), digest_size=4).hexdigest()


def _content(constant: Any) -> Any:
    """What a constant of a function is, or the code of one: as plain data, in the same order in all processes."""
    if isinstance(constant, CodeType):
        return constant.co_code, constant.co_names, [_content(one) for one in constant.co_consts]
    if isinstance(constant, frozenset):
        return sorted(repr(_content(one)) for one in constant)
    if isinstance(constant, tuple):
        return [_content(one) for one in constant]
    return constant
