"""Values of every kind, for collectives that take any value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.strategies import SearchStrategy

import pybsp
from tests.conftest import Spmd

PAIR = np.dtype([("a", "i1"), ("b", "f8")])
DTYPES = ["?", "i1", "<u2", ">i4", "i8", "f2", "f4", "f8", "c8", "c16", "M8[s]", "m8[D]", "U3", "S5", PAIR]


def array_of(dtype: Any, shape: tuple[int, ...], seed: int) -> Any:
    """An array whose values differ by seed and place."""
    numbers = (np.arange(int(np.prod(shape))) * 7 + seed * 3) % 100
    dtype = np.dtype(dtype)
    if dtype.names:
        made = np.zeros(numbers.size, dtype)
        made["a"], made["b"] = numbers, numbers / 4
    else:
        made = numbers.astype(dtype)
    return made.reshape(shape)


def value_of(kind: str, n: int, seed: int) -> Any:
    """A value of a kind, of about n items."""
    if kind.startswith("array "):
        return array_of(DTYPES[int(kind[6:])], (n,), seed)
    return {
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
    }[kind]()


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
            max_examples=most,
            derandomize=True,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate] if spmd.mpi else [Phase.generate, Phase.shrink],
        )(given(*strategies)(check))
        return run

    return decorate
