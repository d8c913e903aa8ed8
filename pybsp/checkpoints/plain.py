"""A state as it lies on disk: a tree of JSON, and blocks of raw bytes beside it.

Plain are None, bool, int, float, complex, str, bytes, list, tuple, dict, numpy's arrays and numbers, its generators,
and `random.Random`: those come back as they were, bit for bit, and what is in a state twice is one thing again. A state
with anything else in it is one pickle, whose arrays are blocks too.

What is neither None, bool, int, float, str nor list is an object of JSON: {"": kind, ...}.
"""

from __future__ import annotations

import ast
import base64
import io
import math
import pickle
import random
import struct
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.lib.format import descr_to_dtype, dtype_to_descr
from numpy.typing import NDArray

from ..errors import CheckpointError
from ..ground.dtypes import is_plain
from ..transport import Bytes
from .strides import Strides, relaid

Tree = Any  # what JSON has

SHORT = 256  # bytes that stand in the tree
_BITS = 64  # of an int that stands there as a number
MAPPED = 1 << 16  # arrays of so many bytes stay in the file's memory, copied where they are written to
_BIT_GENERATORS = {name: getattr(np.random, name) for name in ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")}


class _NotPlainError(Exception):
    """Something that a tree cannot hold."""


class StateEncoder:
    """Makes trees.

    Args:
        known: arrays that are saved elsewhere, by their id: a state refers to them by number.

    Attributes:
        blocks: what the trees refer to.
    """

    def __init__(self, known: Mapping[int, int]) -> None:
        self.blocks: list[Bytes] = []
        self._known = known
        self._seen: dict[int, int] = {}
        self._alive: list[Any] = []  # so that no id is used again

    def state(self, state: Any) -> Tree:
        """The tree of a program's state; where it is not plain, pickling it may raise anything."""
        blocks, seen = len(self.blocks), len(self._seen)
        try:
            return self.tree(state)
        except (_NotPlainError, RecursionError):
            del self.blocks[blocks:]
            self._seen = {key: number for key, number in self._seen.items() if number < seen}
        return self._pickled(state)

    def tree(self, value: Any) -> Tree:
        """The tree of what is plain."""
        kind = type(value)
        if value is None or kind is bool:
            return value
        if kind is str:
            return value if _is_text(value) else {"": "str", "base64": _base64(value.encode("utf-8", "surrogatepass"))}
        if kind is int:  # others in hex: Python reads no decimal ones of thousands of digits
            return value if value.bit_length() <= _BITS else {"": "int", "hex": hex(value)}
        if kind is float:
            if math.isfinite(value):
                return value
            return {"": "float", "bits": struct.unpack("<q", struct.pack("<d", value))[0]}
        encode = _ENCODERS.get(kind)
        if encode is None:
            if isinstance(value, np.generic):
                return self._scalar(value)
            if isinstance(value, np.dtype):
                return {"": "dtype", "dtype": _dtype_text(value)}
            encode = StateEncoder._random_bits
        if kind in _SHARED or encode is StateEncoder._random_bits:
            number = self._seen.get(id(value))
            if number is not None:
                return {"": "same", "as": number}
            self._seen[id(value)] = len(self._seen)
            self._alive.append(value)
        return encode(self, value)

    def block(self, data: Any) -> int:
        """The number of a block of these bytes."""
        self.blocks.append(np.frombuffer(data, np.uint8))
        return len(self.blocks) - 1

    def _pickled(self, state: Any) -> Tree:
        buffers: list[pickle.PickleBuffer] = []
        file = io.BytesIO()
        pickler = _Pickler(file, 5, buffer_callback=buffers.append)
        pickler.known = self._known
        pickler.dump(state)
        blocks = [self.block(buffer.raw()) for buffer in buffers]
        return {"": "pickle", "block": self.block(file.getvalue()), "blocks": blocks}

    def _bytes(self, value: bytes) -> Tree:
        if len(value) <= SHORT:
            return {"": "bytes", "base64": _base64(value)}
        return {"": "bytes", "block": self.block(value)}

    def _dict(self, value: Mapping[Any, Any]) -> Tree:
        if all(type(key) is str and key and _is_text(key) for key in value):
            return {key: self.tree(one) for key, one in value.items()}
        return {"": "dict", "items": [[self.tree(key), self.tree(one)] for key, one in value.items()]}

    def _array(self, value: NDArray[Any]) -> Tree:
        if id(value) in self._known:
            return {"": "registered", "number": self._known[id(value)]}
        if not value.flags.forc:
            strides, writable = Strides.of(value), value.flags.writeable
            straight = self._array(strides.straight(value))
            return {"": "relaid", **strides._asdict(), "writable": writable, "array": straight}
        dtype = _dtype_text(value.dtype)  # raises where it has objects, whose bytes say nothing
        order = "F" if value.flags.f_contiguous and not value.flags.c_contiguous else "C"
        raw = value.ravel("K").view(np.uint8) if value.size and value.itemsize else b""
        return {
            "": "array",
            "dtype": dtype,
            "shape": list(value.shape),
            "order": order,
            "writable": value.flags.writeable,
            "block": self.block(raw),
        }

    def _scalar(self, value: np.generic) -> Tree:
        if type(value) is not value.dtype.type or value.dtype.hasobject:
            raise _NotPlainError
        return {"": "number", "dtype": _dtype_text(value.dtype), "base64": _base64(value.tobytes())}

    def _random_bits(self, value: Any) -> Tree:
        name = type(value).__name__
        seeds = getattr(value, "seed_seq", None)
        if _BIT_GENERATORS.get(name) is not type(value) or type(seeds) is not np.random.SeedSequence:
            raise _NotPlainError
        return {"": "bits", "name": name, "seeds": self.tree(seeds), "state": self.tree(value.state)}


_ENCODERS: Final[Mapping[type, Callable[[StateEncoder, Any], Tree]]] = {
    complex: lambda own, value: {"": "complex", "parts": [own.tree(value.real), own.tree(value.imag)]},
    bytes: StateEncoder._bytes,
    list: lambda own, value: [own.tree(one) for one in value],
    tuple: lambda own, value: {"": "tuple", "items": [own.tree(one) for one in value]},
    dict: StateEncoder._dict,
    np.ndarray: StateEncoder._array,
    random.Random: lambda own, value: {"": "random", "state": own.tree(value.getstate())},
    np.random.Generator: lambda own, value: {"": "generator", "bits": own.tree(value.bit_generator)},
    np.random.SeedSequence: lambda own, value: {"": "seeds", "state": own.tree(value.state)},
}
_SHARED = frozenset((list, dict, np.ndarray, random.Random, np.random.Generator, np.random.SeedSequence))


class _Pickler(pickle.Pickler):
    known: Mapping[int, int]

    def persistent_id(self, value: Any) -> Any:
        return self.known.get(id(value)) if type(value) is np.ndarray else None

    def reducer_override(self, value: Any) -> Any:
        if type(value) is not np.ndarray or value.flags.forc or value.dtype.hasobject:
            return NotImplemented
        strides = Strides.of(value)
        return relaid, (*strides, value.flags.writeable, strides.straight(value))


class _Unpickler(pickle.Unpickler):
    known: Sequence[NDArray[Any]]

    def persistent_load(self, number: Any) -> Any:
        return self.known[number]


class StateDecoder:
    """Reads trees.

    Args:
        blocks: what they refer to, in memory that may be written to.
        known: the arrays that a state refers to by number.
        own: whether the file is this user's, which nobody else may write: only then is a pickle read.
        name: of the file, for errors.
    """

    def __init__(self, blocks: Sequence[Bytes], known: Sequence[NDArray[Any]], own: bool, name: str) -> None:
        self._blocks, self._known, self._own, self._name = blocks, known, own, name
        self._seen: list[Any] = []

    def require_own(self, what: str, instead: str) -> None:
        """Raise CheckpointError where the file may be somebody else's, who could have any code run by a pickle."""
        if not self._own:
            raise CheckpointError(
                f"bsp.restore: {self._name}: {what}, which is only read from a file that is this user's own, and that "
                f"no other may write; {instead}, or copy the file"
            )

    def value(self, tree: Tree) -> Any:
        """What the tree is of."""
        if type(tree) is list:
            items: list[Any] = []
            self._seen.append(items)
            items += map(self.value, tree)
            return items
        if type(tree) is not dict:
            return tree
        kind = tree.get("")
        if kind is None:
            found: dict[str, Any] = {}
            self._seen.append(found)
            for key, one in tree.items():
                found[key] = self.value(one)
            return found
        return _DECODERS[kind](self, tree)

    def _bytes(self, tree: Tree) -> bytes:
        return base64.b64decode(tree["base64"]) if "base64" in tree else self._blocks[tree["block"]].tobytes()

    def _dict(self, tree: Tree) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        self._seen.append(found)
        for key, one in tree["items"]:
            known = self.value(key)  # first, as the encoder has numbered what is shared
            found[known] = self.value(one)
        return found

    def _array(self, tree: Tree) -> NDArray[Any]:
        data, dtype = self._blocks[tree["block"]], _dtype_of(tree["dtype"])
        found: NDArray[Any] = np.ndarray(tuple(tree["shape"]), dtype, data, order=tree["order"])
        if data.size < MAPPED:
            found = found.copy(order="K")
        found.flags.writeable = tree["writable"]
        self._seen.append(found)
        return found

    def _permuted(self, tree: Tree) -> NDArray[Any]:  # of checkpoints of version 0.3.0
        found = self._seen[-1] = self._array(tree["array"]).transpose(tree["axes"])
        return found

    def _relaid(self, tree: Tree) -> NDArray[Any]:
        straight = self._array(tree["array"])
        found: NDArray[Any] = relaid(tree["axes"], tree["flips"], tree["gaps"], tree["writable"], straight)
        self._seen[-1] = found
        return found

    def _registered(self, tree: Tree) -> NDArray[Any]:
        found: NDArray[Any] = self._known[tree["number"]]
        self._seen.append(found)
        return found

    def _number(self, tree: Tree) -> Any:
        dtype = _dtype_of(tree["dtype"])
        if not dtype.itemsize:
            return dtype.type()  # an empty text, which numpy does not read from a buffer
        raw = base64.b64decode(tree["base64"])
        # In an array zeros at the end of a text are none of it.
        if dtype.kind == "S":
            return np.bytes_(raw)
        if dtype.kind == "U":
            return np.str_(raw.decode(f"utf-32-{'be' if dtype.str[0] == '>' else 'le'}", "surrogatepass"))
        return np.frombuffer(raw, dtype).copy()[0]  # a record may be written to

    def _random(self, tree: Tree) -> random.Random:
        found = random.Random()
        self._seen.append(found)
        found.setstate(self.value(tree["state"]))
        return found

    def _numbered(self, make: Callable[[], Any]) -> Any:
        """What is made of others that are shared: its number comes before theirs."""
        place = len(self._seen)
        self._seen.append(None)
        found = self._seen[place] = make()
        return found

    def _bits(self, tree: Tree) -> Any:
        found = self._numbered(lambda: _BIT_GENERATORS[tree["name"]](self.value(tree["seeds"])))
        found.state = self.value(tree["state"])
        return found

    def _pickle(self, tree: Tree) -> Any:
        self.require_own("the state in it is a pickle", "save a state of plain data and arrays")
        buffers = [self._blocks[number] for number in tree["blocks"]]
        unpickler = _Unpickler(io.BytesIO(self._blocks[tree["block"]]), buffers=buffers)
        unpickler.known = self._known
        try:
            return unpickler.load()
        except MemoryError:  # which says nothing of the state
            raise
        except Exception as error:
            raise CheckpointError(
                f"bsp.restore: {self._name}: expected a state that can be unpickled, got {type(error).__name__}: "
                f"{error}; have the program define what it saved as it did then, or remove the folder to begin anew"
            ) from error


_DECODERS: Final[Mapping[str, Callable[[StateDecoder, Tree], Any]]] = {
    "str": lambda own, tree: base64.b64decode(tree["base64"]).decode("utf-8", "surrogatepass"),
    "int": lambda own, tree: int(tree["hex"], 16),
    "float": lambda own, tree: struct.unpack("<d", struct.pack("<q", tree["bits"]))[0],
    "complex": lambda own, tree: complex(*(own.value(one) for one in tree["parts"])),
    "bytes": StateDecoder._bytes,
    "tuple": lambda own, tree: tuple(own.value(one) for one in tree["items"]),
    "dict": StateDecoder._dict,
    "array": StateDecoder._array,
    "permuted": StateDecoder._permuted,
    "relaid": StateDecoder._relaid,
    "registered": StateDecoder._registered,
    "number": StateDecoder._number,
    "dtype": lambda own, tree: _dtype_of(tree["dtype"]),
    "random": StateDecoder._random,
    "generator": lambda own, tree: own._numbered(lambda: np.random.Generator(own.value(tree["bits"]))),
    "bits": StateDecoder._bits,
    "seeds": lambda own, tree: own._numbered(lambda: np.random.SeedSequence(**own.value(tree["state"]))),
    "same": lambda own, tree: own._seen[tree["as"]],
    "pickle": StateDecoder._pickle,
}


def _is_text(value: str) -> bool:
    """Whether UTF-8 has it: JSON makes one character of two halves of a pair that stand for themselves."""
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _dtype_text(dtype: np.dtype[Any]) -> str:
    """A dtype in words, as a .npy file has it."""
    if dtype.hasobject or dtype.subdtype is not None or not is_plain(dtype):
        raise _NotPlainError
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # of metadata, which a description has not
            text = repr(dtype_to_descr(dtype))
    except (ValueError, UserWarning):  # fields overlap, or are in another order in memory
        raise _NotPlainError from None
    if _dtype_of(text) != dtype:
        raise _NotPlainError
    return text


def _dtype_of(text: str) -> np.dtype[Any]:
    found: np.dtype[Any] = descr_to_dtype(ast.literal_eval(text))
    if found.hasobject:  # never written: bytes of a file would be taken for Python's objects
        raise CheckpointError(f"bsp.restore: expected a dtype of plain data in a checkpoint, got {text}")
    return found
