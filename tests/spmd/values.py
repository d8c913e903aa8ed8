"""Values of every kind, for collectives that take any value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.strategies import SearchStrategy

import pybsp
from tests.conftest import Spmd
from tests.tiers import some

PAIR = np.dtype([("a", "i1"), ("b", "f8")])
DTYPES = ["?", "i1", "<u2", ">i4", "i8", "f2", "f4", "f8", "c8", "c16", "M8[s]", "m8[D]", "U3", "S5", PAIR]


def array_of(dtype: Any, shape: tuple[int, ...], seed: int) -> Any:
    """An array whose values differ by seed and place."""
    numbers = (np.arange(int(np.prod(shape))) * 7 + seed * 3) % 100
    dtype = np.dtype(dtype)
    if dtype.names:
        made = np.zeros(numbers.size, dtype)
        made["a"], made["b"] = numbers, numbers + 1
    else:
        made = numbers.astype(dtype)
    return made.reshape(shape)


def value_of(kind: str, n: int, seed: int) -> Any:
    """A value of a kind, of about n items."""
    if kind.startswith("array "):
        return array_of(DTYPES[int(kind[6:])], (n,), seed)
    makers: dict[str, Callable[[], Any]] = {
        "none": lambda: None,
        "int": lambda: seed,
        "big int": lambda: -(10 ** (40 + n)) + seed,
        "float": lambda: seed / 8,
        "complex": lambda: complex(seed, -n),
        "bool": lambda: bool(seed % 2),
        "numpy number": lambda: np.float32(seed),
        "numpy time": lambda: np.datetime64(seed, "D"),
        "numpy void": lambda: array_of(PAIR, (1,), seed)[0],
        "string": lambda: "xyz" * n,
        "bytes": lambda: bytes(range(n)),
        "nested": lambda: {"a": [np.arange(n) + seed, (None, "s")], 3: np.ones((2, n), "f4"), "e": np.empty(0)},
        "objects": lambda: np.array([seed, "two", None, [n]], object),
        "0-d": lambda: np.array(seed + 1j),
        "2-d": lambda: array_of("f8", (n, 3), seed),
        "no columns": lambda: np.empty((n, 0), "i2"),
        "strided": lambda: array_of("i4", (2 * n,), seed)[::2],
        "reversed": lambda: array_of("i4", (n,), seed)[::-1],
        "fortran": lambda: np.asfortranarray(array_of("c16", (3, n), seed)),
        "transposed": lambda: array_of("i2", (n, 2, 3), seed).transpose(2, 0, 1),
        "masked": lambda: np.ma.masked_array(np.arange(n + 1) + seed, mask=np.arange(n + 1) % 2 == 0),
    }
    return makers[kind]()


KINDS = [
    *(f"array {number}" for number in range(len(DTYPES))),
    *("none", "int", "big int", "float", "complex", "bool", "numpy number", "numpy time", "numpy void", "string"),
    *("bytes", "nested", "objects", "0-d", "2-d", "no columns", "strided", "reversed", "fortran", "transposed"),
    "masked",
]


def stirred(bsp: pybsp.BSP) -> None:
    """Supersteps that use the memory of what arrived before again."""
    for _ in range(3):
        bsp.send((bsp.pid + 1) % bsp.p, np.full(300, 77 + bsp.pid, np.int8))
        bsp.sync()


def arrays_in(value: Any) -> list[Any]:
    """The arrays in a value."""
    if isinstance(value, np.ndarray):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [array for part in value for array in arrays_in(part)] if isinstance(value, (list, tuple)) else []


def examples(
    spmd: Spmd, *strategies: SearchStrategy[Any], most: int = 25
) -> Callable[[Callable[..., None]], Callable[[], None]]:
    """Run a check on examples; on MPI all ranks draw the same, and a failure is not shrunk."""

    def decorate(check: Callable[..., None]) -> Callable[[], None]:
        run: Callable[[], None] = settings(
            max_examples=some(most),
            derandomize=True,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate] if spmd.mpi else [Phase.generate, Phase.shrink],
        )(given(*strategies)(check))
        return run

    return decorate


# -- operators --------------------------------------------------------------------------------------------------------


def first(a: Any, b: Any) -> Any:
    """A copy operator: it gives back what it was given."""
    return a


def second(a: Any, b: Any) -> Any:
    """The other copy operator."""
    return b


def product(a: Any, b: Any) -> Any:
    """Of matrices."""
    return a @ b


def composed(a: Any, b: Any) -> Any:
    """Of affine functions x -> m*x + c modulo 97, given as arrays of (m, c): associative, not commutative."""
    result = np.empty_like(a)
    result["a"] = a["a"].astype(int) * b["a"] % 97
    result["b"] = (a["b"] * b["a"] + b["b"]) % 97
    return result


def merged(a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
    """Of objects with arrays inside."""
    return {"text": a["text"] + b["text"], "sum": a["sum"] + b["sum"], "last": b["last"]}


def add(a: Any, b: Any) -> Any:
    """No ufunc, so it gets whole values."""
    return a + b


def _matrix(pid: int) -> Any:
    return np.array([[1, pid % 3], [pid % 2, 1]], float)


def _with_gaps(pid: int, n: int) -> Any:
    return np.where(np.arange(n) % 5 == pid, np.nan, (np.arange(n) * 7 + pid * 5) % 11)


COMBINATIONS: dict[str, tuple[Callable[[Any, Any], Any], Callable[[int, int], Any]]] = {
    "ints": (add, lambda pid, n: pid + n),
    "big ints": (add, lambda pid, n: 10**30 * (pid + 1) + n),
    "largest": (max, lambda pid, n: (pid * 5) % 7 / 2),
    "numpy numbers": (np.add, lambda pid, n: np.float64(pid)),
    "strings": (add, lambda pid, n: chr(97 + pid) * (1 + (pid + n) % 3)),
    "bytes": (add, lambda pid, n: bytes([pid] * (n % 3))),
    "tuples": (add, lambda pid, n: (pid, None, "x")),
    "objects": (merged, lambda pid, n: {"text": chr(97 + pid), "sum": np.arange(n) + pid, "last": np.full(n, pid)}),
    "object arrays": (np.add, lambda pid, n: np.array([chr(97 + pid), "-"], object)),
    "float sums": (np.add, lambda pid, n: (np.arange(n) * 3 + pid) / 4),
    "short sums wrap": (np.add, lambda pid, n: np.full(n, 100 + pid, np.int8)),
    "bool sums": (np.add, lambda pid, n: np.arange(n) % 8 == pid),
    "complex sums": (np.add, lambda pid, n: np.full(n, pid + 1j)),
    "times": (np.maximum, lambda pid, n: (np.arange(n) * 5 + pid * 3).astype("M8[s]")),
    "maxima with NaN": (np.maximum, _with_gaps),
    "conjunction of floats": (np.logical_and, lambda pid, n: (np.arange(n) % 4 != pid % 4) * 2.5),
    "big-endian": (np.minimum, lambda pid, n: (np.arange(n) * 5 - pid * 3).astype(">i2")),
    "whole arrays": (add, lambda pid, n: np.arange(n) + pid),
    "matrices": (product, lambda pid, n: _matrix(pid)),
    "matrices by ufunc": (np.matmul, lambda pid, n: _matrix(pid)),
    "stacks of matrices": (np.matmul, lambda pid, n: np.stack([_matrix(pid + j) for j in range(n)] or [_matrix(0)])),
    "affine functions": (composed, lambda pid, n: array_of(PAIR, (n,), pid + 1)),
    "first arrays": (first, lambda pid, n: np.arange(n) + pid),
    "second arrays": (second, lambda pid, n: np.arange(n) + pid),
    "first objects": (first, lambda pid, n: {"a": np.arange(n) + pid}),
    "second objects": (second, lambda pid, n: {"a": np.arange(n) + pid}),
    "second of none": (second, lambda pid, n: None),
    "no axes": (np.add, lambda pid, n: np.array(pid + 1j)),
    "no axes first": (first, lambda pid, n: np.array(pid)),
    "strided": (np.add, lambda pid, n: (np.arange(3 * n) + pid)[::3]),
    "fortran": (np.add, lambda pid, n: np.asfortranarray(np.arange(6.0 * n).reshape(2, n, 3) + pid)),
    "transposed second": (second, lambda pid, n: (np.arange(2 * n) + pid).reshape(n, 2).T),
    "masked": (np.add, lambda pid, n: np.ma.masked_array(np.arange(n + 2) + pid, mask=np.arange(n + 2) % 9 == pid)),
}


def as_array(value: Any) -> Any:
    """A value to compare: an array's order in memory does not count, and a number may be an array of no axes."""
    return value if type(value) is not np.ndarray else np.array(value, order="C")
