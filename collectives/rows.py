"""Keys, and what travels with them, as one array of records: so that they are one message, and move together.

A row is a key, its value where there are values, and its place among all keys where equal ones must keep their order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError, argument_error
from ..ground.convert import no_mask

Rows = NDArray[Any]  # records, shape (rows,)
PYTHON_NUMBERS: dict[type, type] = {bool: np.bool_, int: np.int64, float: np.float64, complex: np.complex128}


@dataclass(frozen=True)
class Column:
    """What a user gave as keys or as values.

    data: shape (rows, ...). kind: a word for its type. given_back: makes a column of rows what the user gave.
    """

    data: NDArray[Any]
    kind: str
    given_back: Callable[[NDArray[Any]], Any]


@dataclass(frozen=True)
class KeyedRows:
    """The rows that a processor brings, and how they become keys and values again.

    lone: whether it is one key that is in no array. keys, values: for a `Call`, which compares them.
    """

    name: str
    rows: Rows
    lone: bool
    key: Column
    value: Column | None

    @classmethod
    def of(cls, name: str, keys: Any, values: Any, stable: bool, pid: int) -> KeyedRows:
        """The rows of one processor.

        Args:
            name: of the primitive.
            keys: an array of shape (n,), or one key.
            values: an array of shape (n, ...); beside one key, one value; None: none.
            stable: whether a row holds the place of its key: by pid, then by index.
            pid: of the processor.

        Raises:
            UsageError: keys that are a list, a set, an iterator or no one-dimensional array, or values of another
                length.
        """
        if isinstance(keys, np.ndarray) and keys.ndim == 0:
            keys = keys[()]
        if isinstance(keys, list) or (isinstance(keys, np.ndarray) and keys.ndim > 1):
            got = "a list" if isinstance(keys, list) else f"an array of shape {keys.shape}"
            way_out = "np.array(keys) makes an array of a list, tuple(keys) one key"
            raise argument_error(name, "keys", "an array of shape (n,), or one key that is no list", got, way_out)
        if isinstance(keys, (set, frozenset, range)) or hasattr(keys, "__next__"):  # < of sets is no order
            got, way_out = f"a {type(keys).__name__}", "np.array(list(keys)) makes an array of it, tuple(keys) one key"
            raise argument_error(name, "keys", "an array of shape (n,), or one key", got, way_out)
        no_mask(name, "keys", keys)
        no_mask(name, "values", values)
        lone = not isinstance(keys, np.ndarray)
        key = _one(name, "keys", keys) if lone else _many(keys)
        columns = {"key": key}
        if values is not None:
            if lone:
                columns["value"] = _one(name, "values", values)
            elif not isinstance(values, np.ndarray) or values.shape[:1] != keys.shape:
                got = f"shape {values.shape}" if isinstance(values, np.ndarray) else type(values).__name__
                raise argument_error(name, "values", f"an array of shape ({keys.size}, ...), a value a key", got)
            else:
                columns["value"] = _many(values)
        fields: list[Any] = [(field, column.data.dtype, column.data.shape[1:]) for field, column in columns.items()]
        if stable:
            fields.append(("place", np.int64))
        try:
            rows = np.empty(len(key.data), fields)
        except TypeError as error:  # numpy's StringDType is in no record
            argument = "keys" if key.data.dtype.kind == "T" else "values"
            raise UsageError(
                f"{name}: argument {argument}: {error} {argument}.astype(object) can be sorted, and travels as pickles"
            ) from error
        for field, column in columns.items():
            rows[field] = column.data
        if stable:
            rows["place"] = np.arange(pid << 40, (pid << 40) + rows.size)
        return cls(name, rows, lone, key, columns.get("value"))

    @property
    def kinds(self) -> dict[str, str]:
        """The arguments that must agree on all processors, for a `Call`."""
        what = "one " if self.lone else "array of "
        return {"keys": what + self.key.kind, "values": "None" if self.value is None else what + self.value.kind}

    def one_key(self) -> KeyedRows:
        """This table, if it is one key that is in no array; else a UsageError."""
        if not self.lone:
            raise argument_error(self.name, "keys", "one key", f"an array of shape {self.rows.shape}")
        return self

    def given_back(self, rows: Rows) -> Any:
        """Rows as the user gave them: keys, or (keys, values)."""
        keys = self.key.given_back(rows["key"])
        return keys if self.value is None else (keys, self.value.given_back(rows["value"]))

    def in_order(self, rows: Rows, runs: bool = False) -> Rows:
        """Rows sorted as `order` says; runs: they are blocks that are sorted, one after the other."""
        if rows.dtype.names == ("key",) and not rows.dtype.hasobject:
            # Equal rows are the same, so there is no order to keep; numpy's stable sort is the one that merges runs.
            return np.sort(rows["key"], kind="stable" if runs else None).view(rows.dtype)
        return rows[self.order(rows)]

    def order(self, rows: Rows) -> NDArray[np.intp]:
        """What sorts rows by key, NaN last; equal keys by place, where rows have one, else as they come.

        Raises:
            UsageError: keys that do not compare.
        """
        keys = rows["key"]
        by_place = np.argsort(rows["place"], kind="stable") if "place" in (rows.dtype.names or ()) else None
        try:
            if by_place is None:
                return np.argsort(keys, kind="stable")
            return by_place[np.argsort(keys[by_place], kind="stable")]
        except Exception as error:  # what the keys' own < raises
            expected = "keys that compare with <"
            raise argument_error(self.name, "keys", expected, f"{type(error).__name__}: {error}") from error


def joined_rows(blocks: Sequence[Rows]) -> Rows:
    """One block after the other; without dtype, numpy would make the bytes' order its own."""
    return np.concatenate(blocks, dtype=blocks[0].dtype) if len(blocks) > 1 else blocks[0]


def _many(data: NDArray[Any]) -> Column:
    """An array, one row for each of its first axis."""
    inner = f" of shape {data.shape[1:]}" if data.ndim > 1 else ""
    return Column(data, f"{data.dtype}{inner}", lambda column: column.copy())


def _one(name: str, argument: str, thing: Any) -> Column:
    """What is no array of keys: one row."""
    python = PYTHON_NUMBERS.get(type(thing))
    if python is not None:
        try:
            return Column(np.array([thing], python), type(thing).__name__, lambda column: column[0].item())
        except OverflowError as error:
            expected = "an int of 64 bits"
            way_out = "np.array([key], object) holds larger ones"
            raise argument_error(name, argument, expected, f"one of {thing.bit_length()}", way_out) from error
    if isinstance(thing, np.ndarray) or (isinstance(thing, np.generic) and thing.dtype.kind not in "US"):
        whole = np.asarray(thing)[np.newaxis]
        inner = f" of shape {whole.shape[1:]}" if whole.ndim > 1 else ""
        return Column(whole, f"{whole.dtype}{inner}", lambda column: column[0].copy())
    # Strings too: in an array they would lose zeros at their end, and differ in dtype from processor to processor.
    data = np.empty(1, object)
    data[0] = thing
    return Column(data, "object", lambda column: column[0])
