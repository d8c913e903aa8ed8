"""Files are data: a declared decoder decodes them, or refuses with file, field, expected and found.

A decoder is a function that returns a value of JSON as the program has it, or raises `MisfitError`. A decoder that
contains others (`each`, `table`, `fields`, `of`) says where it was when an inner value did not fit.

    WORDS = fields({"words": whole(), "label": text})
    read("file.json", "file", fields({"format": one_of("words"), "rows": each(WORDS)}))

    file file.json: rows[3].words: expected a whole number of at least 0, got -1
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
import os
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ..errors import UsageError, brief, harmless
from .files import require_regular

Decoder = Callable[[Any], Any]
LARGEST = 1 << 53  # of whole numbers: as far as a float counts
DEEPEST = 16  # of what may be any JSON
_TOO_DEEP = "is not JSON that can be read (brackets in brackets, too deep)"


class MisfitError(Exception):
    """A value that does not fit: what was expected and found, and the way to it from the outside, last step first."""

    def __init__(self, expected: str, found: str, *steps: str) -> None:
        self.expected, self.found = expected, found
        self.steps = [*steps]

    def __str__(self) -> str:
        place = "".join(reversed(self.steps)).lstrip(".")
        return f"{place}{': ' if place else ''}expected {self.expected}, got {self.found}"


def read(path: str | os.PathLike[str], name: str, decoder: Decoder) -> Any:
    """Read a file of JSON.

    Args:
        path: of the file.
        name: what it is, for errors: "ledger file".
        decoder: of its content.

    Raises:
        UsageError: it cannot be read, is no regular file, is no JSON, or does not fit the decoder.
    """
    return decode(read_json(path, name), f"{name} {path}", decoder)


def read_json(path: str | os.PathLike[str], name: str) -> Any:
    """Read a file of any JSON; raises as `read`."""
    return parse(read_text(path, name), f"{name} {path}")


def read_text(path: str | os.PathLike[str], name: str) -> str:
    """Read a file of text; raises as `read`."""
    require_regular(path, name)
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        home = "; `~` is read as a home by shells alone, where an unquoted word begins with it: write $HOME"
        tilde = home * str(path).startswith("~")
        raise UsageError(f"{name} {path}: cannot be read ({error.strerror}){tilde}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} {path}: is not JSON or any text in UTF-8 (byte {error.start})") from error


def parse(content: str, origin: str) -> Any:
    """JSON from text that is from `origin`; NaN and Infinity are left to decoders, which say where they are."""
    try:
        return json.loads(content)
    except RecursionError:
        raise UsageError(f"{origin}: {_TOO_DEEP}") from None
    except ValueError as error:
        raise UsageError(f"{origin}: is not JSON ({error})") from None


_SHOWN_BY = {"pybsp-machine": "pybsp show", "pybsp-ledger": "pybsp report", "pybsp-trace": "pybsp report"}


def versioned(content: Any, origin: str, kind: str, version: int, way_out: str) -> dict[str, Any]:
    """An object of JSON that says of which format and version it is, if that is what is read here.

    Args:
        content: what was read.
        origin: where it is from, for errors.
        kind, version: the "format" and the "version" that it must have.
        way_out: what to do where it has others.

    Raises:
        UsageError: it is no object, or of another format or version.
    """
    if not isinstance(content, dict) or content.get("format") != kind:
        found = content.get("format") if isinstance(content, dict) else content
        if isinstance(found, str) and found in _SHOWN_BY:
            way_out = f"`{_SHOWN_BY[found]}` shows such a file; {way_out}"
        raise UsageError(f'{origin}: expected a JSON object with "format": "{kind}", got {shown(found)}; {way_out}')
    if type(content.get("version")) is not int or content["version"] != version:
        raise UsageError(
            f"{origin}: version {shown(content.get('version'))} is not known here; this pybsp reads version {version}; "
            f"{way_out}"
        )
    return content


def decode(value: Any, origin: str, decoder: Decoder) -> Any:
    """Decode a value of JSON; `origin` is where it is from, for errors."""
    try:
        return decoder(value)
    except MisfitError as misfit:
        raise UsageError(f"{origin}: {misfit}") from None
    except RecursionError:
        raise UsageError(f"{origin}: {_TOO_DEEP}") from None


def shown(value: Any) -> str:
    """A value of JSON in a few harmless words."""
    if isinstance(value, dict):
        return f"an object of {len(value)} fields"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return brief(value)


# -- decoders of one value ---------------------------------------------------------------------------------------------


def whole(least: int = 0, most: int = LARGEST) -> Decoder:
    """A whole number."""
    expected = f"a whole number of at least {least}" + (f" and at most {most}" if most != LARGEST else "")

    def decoded(value: Any) -> int:
        if type(value) is not int or not least <= value <= most:
            beyond = type(value) is int and value > most == LARGEST
            raise MisfitError(expected + " and at most 2^53" * beyond, shown(value))
        return value

    return decoded


def number(least: float = 0.0, most: float = sys.float_info.max, above: bool = False) -> Decoder:
    """A finite number, as a float; `above`: it is not `least` itself."""
    if least == -sys.float_info.max:
        expected = "a finite number"
    else:
        expected = f"a finite number {'above' if above else 'of at least'} {least:g}"
    if most != sys.float_info.max:
        expected += f" and at most {most:g}"

    def decoded(value: Any) -> float:
        # Whole numbers of any size compare with floats; NaN with none.
        if type(value) not in (float, int) or not least <= value <= most or (above and value == least):
            raise MisfitError(expected, shown(value))
        return float(value)

    return decoded


any_number = number(least=-sys.float_info.max)
_above = number(above=True)


def rate(value: Any) -> float:
    """So many a second: a finite number above 0, and so is what one takes."""
    found: float = _above(value)
    if not math.isfinite(1.0 / found):
        raise MisfitError("a number above 0 whose inverse is finite", shown(value))
    return found


def figure(value: Any) -> float:
    """A number that may be none, or endless: those are the texts "nan", "inf" and "-inf"."""
    if value in ("nan", "inf", "-inf"):
        return float(value)
    try:
        return float(any_number(value))
    except MisfitError:
        raise MisfitError('a number ("nan", "inf" and "-inf" where it is not finite)', shown(value)) from None


def text(value: Any) -> str:
    """Text without control characters."""
    if not isinstance(value, str) or not value.isprintable():
        raise MisfitError("text without control characters", shown(value))
    return value


def any_text(value: Any) -> str:
    """Any text; what is shown of it goes through `harmless`."""
    if not isinstance(value, str):
        raise MisfitError("text", shown(value))
    return value


def flag(value: Any) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise MisfitError("true or false", shown(value))
    return value


def one_of(*choices: str | int) -> Decoder:
    """One of some texts or numbers."""
    expected = " or ".join(json.dumps(choice) for choice in choices)

    def decoded(value: Any) -> Any:
        if type(value) not in (str, int) or value not in choices:
            raise MisfitError(expected, shown(value))
        return value

    return decoded


def untouched(value: Any) -> Any:
    """Any JSON, as it is: what this pybsp does not look at."""
    if isinstance(value, dict):
        fields({}, others=untouched)(value)
    elif isinstance(value, list):
        each(untouched)(value)
    elif isinstance(value, float):
        any_number(value)
    return value


def anything(value: Any, depth: int = DEEPEST) -> Any:
    """Any JSON of plain text and finite numbers that is not too deep."""
    if isinstance(value, (dict, list)):
        if depth == 0:
            raise MisfitError(f"at most {DEEPEST} objects or lists in one another", shown(value))
        inside = partial(anything, depth=depth - 1)
        return table(inside)(value) if isinstance(value, dict) else each(inside)(value)
    if isinstance(value, str):
        return text(value)
    if isinstance(value, bool) or value is None:
        return value
    return whole(-LARGEST)(value) if isinstance(value, int) else any_number(value)


# -- decoders of what contains others ----------------------------------------------------------------------------------


def optional(decoder: Decoder) -> Decoder:
    """Null, as None, or what another decoder accepts."""

    def decoded(value: Any) -> Any:
        return None if value is None else decoder(value)

    return decoded


def each(decoder: Decoder, *, least: int = 0, most: float = float("inf")) -> Decoder:
    """A list, each of whose items fits a decoder."""
    expected = (
        "a list"
        if least == 0 and most == float("inf")
        else f"a list of {least}" + (f" to {most}" if most != least else "")
    )

    def decoded(value: Any) -> list[Any]:
        if not isinstance(value, list) or not least <= len(value) <= most:
            raise MisfitError(expected, shown(value))
        result = []
        try:
            for item in value:
                result.append(decoder(item))  # noqa: PERF401 - how many there are says where an error is
        except MisfitError as misfit:
            misfit.steps.append(f"[{len(result)}]")
            raise
        return result

    return decoded


def table(decoder: Decoder) -> Decoder:
    """An object of any fields, each of which fits a decoder."""

    def decoded(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise MisfitError("an object", shown(value))
        result, name = {}, ""
        try:
            for name, item in value.items():
                result[text(name)] = decoder(item)
        except MisfitError as misfit:
            misfit.steps.append(f".{harmless(name):.60}")
            raise
        return result

    return decoded


def fields(
    needed: Mapping[str, Decoder],
    more: Mapping[str, Decoder] = types.MappingProxyType({}),
    others: Decoder | None = None,
) -> Decoder:
    """An object of named fields.

    Args:
        needed: those that must be there.
        more: those that may.
        others: of fields of any other name; None: there may be none.
    """
    decoders = {**needed, **more}
    expected = "an object" + (f" of {', '.join(needed)}" if needed else "")
    expected += f" that may have {', '.join(more)}" if more else ""

    def decoded(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise MisfitError(expected, shown(value))
        missing = [name for name in needed if name not in value]
        unknown = [name for name in value if name not in decoders]
        if missing:
            raise MisfitError(f"an object of {', '.join(needed)}", f"one without {', '.join(missing)}")
        if unknown and others is None:
            raise MisfitError(expected, f"one that has {harmless(', '.join(unknown)):.60}")
        result, name = {}, ""
        try:
            for name, decoder in decoders.items():
                if name in value:
                    result[name] = decoder(value[name])
            for name in unknown:
                result[name] = others(value[name])  # type: ignore[misc]
        except MisfitError as misfit:
            misfit.steps.append(f".{harmless(name):.60}")
            raise
        return result

    return decoded


def require_each(found: Mapping[str, Any], names: Iterable[str]) -> None:
    """Refuse, with a MisfitError, those of these lists that are there without an item of each of p processors."""
    for name in names:
        if name in found and len(found[name]) != found["p"]:
            expected = f"a list of p = {found['p']}, one of each processor"
            raise MisfitError(expected, f"a list of {len(found[name])}", f".{name}")


def of(kind: Any, leaves: Mapping[Any, Decoder] = types.MappingProxyType({})) -> Decoder:
    """The decoder of a type. Dataclasses, named tuples are objects of their fields; those with defaults may be missing.

    Args:
        kind: such a class; `tuple[X, ...]`, `dict[str, X]`, `X | None`, `Literal`; int, float, str, bool; Any; or
            `Annotated[..., decoder]`, which is that decoder's.
        leaves: other decoders of some types.
    """
    if kind in leaves:
        return leaves[kind]
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        decoder: Decoder = arguments[1]
        return decoder
    if origin in (typing.Union, types.UnionType):
        return optional(of(next(part for part in arguments if part is not type(None)), leaves))
    if origin is typing.Literal:
        return one_of(*arguments)
    if origin is tuple:
        item = each(of(arguments[0], leaves))
        return lambda value: tuple(item(value))
    if origin is dict:
        return table(of(arguments[1], leaves))
    if dataclasses.is_dataclass(kind) or hasattr(kind, "_fields"):
        parts = {name: of(hint, leaves) for name, hint in typing.get_type_hints(kind, include_extras=True).items()}
        spare = {name for name, one in inspect.signature(kind).parameters.items() if one.default is not one.empty}
        all_fields = fields(
            {name: decoder for name, decoder in parts.items() if name not in spare},
            {name: decoder for name, decoder in parts.items() if name in spare},
        )
        return lambda value: kind(**all_fields(value))
    return {int: whole(-LARGEST), float: any_number, str: text, bool: flag, Any: anything}[kind]
