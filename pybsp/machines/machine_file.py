"""Machine files: JSON, a part for each model of the machine, which is read and written alone."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ..errors import UsageError, argument_error, brief, harmless
from ..ground.decoding import (
    Decoder,
    MisfitError,
    decode,
    each,
    fields,
    number,
    optional,
    parse,
    read_text,
    shown,
    untouched,
    versioned,
    whole,
)
from ..ground.files import path_of, writing
from ..processes.process import MOST_PROCESSORS, is_busy

FORMAT = "pybsp-machine"
VERSION = 1
PARTS = ("bsp", "ebsp", "logp", "placement", "calibration")  # that a machine file may have
PROCESSORS = whole(1, MOST_PROCESSORS)  # in a file
LEAST, ABOVE = number(), number(above=True)
_LOADS, _CORES = each(optional(LEAST)), each(whole(1))
Part = TypeVar("Part", bound="MachinePart")


def require_machine(operation: str, machine: object, *kinds: type[MachinePart]) -> None:
    """A UsageError where the argument machine is of none of these kinds."""
    if not isinstance(machine, kinds):
        names = [f"pybsp.{kind.__name__}" for kind in kinds]
        is_path = isinstance(machine, (str, os.PathLike))
        way_out = f"read a file by {names[0]}.load" if is_path else ""
        got = brief(machine) if is_path else type(machine).__name__
        raise argument_error(operation, "machine", f"a {' or a '.join(names)}", got, way_out)


class MachinePart:
    """A part of a machine file."""

    _PART = ""  # its name there
    _REQUIRED: Mapping[str, Decoder] = {}  # fields that it must hold, and of which form
    _OPTIONAL: Mapping[str, Decoder] = {}  # and those that it may
    _BESIDE: Mapping[str, Decoder] = {}  # fields of a ledger file that no machine file has there
    _NESTED: Sequence[str] = ()  # those of a ledger file that hold such a machine themselves, or None
    p: int

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the machine into a machine file (JSON); what else the file holds is kept."""
        self._write(path, self.as_part())

    def _write(self, path: str | os.PathLike[str], part: dict[str, Any]) -> None:
        write_part(path_of(f"{type(self).__name__}.save", path, "a machine file"), self._PART, part)

    def as_part(self) -> dict[str, Any]:
        """What a machine file holds of it."""
        part: dict[str, Any] = {}
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if field.name in self._REQUIRED or (
                field.name in self._OPTIONAL and (field.name == "o_msg" or value != field.default)
            ):
                part[field.name] = value
        return part

    def _repr_html_(self) -> str:
        from .shown import of_machine  # a notebook alone needs it

        elapsed = getattr(self, "elapsed", None)
        seconds = None if elapsed is None else lambda h: float(elapsed(0.0, h, 2, h * self.p))
        return of_machine(type(self).__name__, self.as_part(), seconds)

    @classmethod
    def load(cls: type[Part], path: str | os.PathLike[str]) -> Part:
        """Read this part of a machine file.

        Raises:
            UsageError: not a machine file, a version that this pybsp does not know, or no such part.
        """
        return cls._of(path, cls._part(path))

    @classmethod
    def _of(cls: type[Part], path: str | os.PathLike[str], parameters: dict[str, Any], within: str = "") -> Part:
        """The machine of these parameters, which are `within` the part; what they cannot be is the file's error."""
        try:
            return cls(**parameters)
        except UsageError as error:
            raise UsageError(f"machine file {path}: {cls._PART}{within}: {error}") from None

    @classmethod
    def fields_of_json(cls) -> tuple[Mapping[str, Decoder], Mapping[str, Decoder]]:
        """The decoders of what `as_json` must have, and of all that it may, but for such machines within it."""
        of_part = {**cls._REQUIRED, **cls._OPTIONAL}
        known = {**{name: one for name, one in of_part.items() if name not in cls._NESTED}, **cls._BESIDE}
        return {name: one for name, one in known.items() if name in cls._REQUIRED and name != "p"}, known

    @classmethod
    def of_json(cls: type[Part], parameters: Any, p: int, origin: str, place: str = "machine") -> Part:
        """The machine of p processors whose `as_json` a ledger file has.

        Args:
            parameters: of it.
            p: processors.
            origin, place: the file and the field that they are from, for errors.

        Raises:
            UsageError: it is none.
        """
        needed, known = cls.fields_of_json()
        form = fields({place: fields(needed, known, others=untouched)})
        found = decode({place: parameters}, origin, form)[place]
        named: dict[str, Any] = {name: found[name] for name in (*known, *cls._NESTED) if name in found}
        if "p" in named:
            named["own_p"] = named["p"]
        named["p"] = p
        for name in cls._NESTED:
            if named.get(name) is not None:
                named[name] = cls.of_json(named[name], p, origin, f"{place}.{name}")
        try:
            return cls(**named)
        except UsageError as error:
            raise UsageError(f"{origin}: {place}: {error}") from None

    @classmethod
    def is_in(cls, path: str | os.PathLike[str]) -> bool:
        """Whether a machine file has this part."""
        return cls._PART in read_parts(Path(path))

    @classmethod
    def _part(cls, path: str | os.PathLike[str]) -> dict[str, Any]:
        """This part of a machine file, with the fields that it must and may have."""
        content = read_parts(path_of(f"{cls.__name__}.load", path, "a machine file"))
        if cls._PART not in content:
            raise UsageError(
                f"{cls.__name__}.load: {path} has no part '{cls._PART}'; it holds {sorted(map(harmless, content))}; "
                f"`pybsp calibrate` measures one, {cls.__name__}(...).save writes one of figures that you know"
            )
        part = content[cls._PART]
        if isinstance(part, dict) and not set(cls._REQUIRED) <= set(part) <= {*cls._REQUIRED, *cls._OPTIONAL}:
            raise UsageError(
                f"{cls.__name__}.load: the part '{cls._PART}' of {path} must hold {sorted(cls._REQUIRED)} and may hold "
                f"{sorted(cls._OPTIONAL)}, got {sorted(map(harmless, part))}"
            )
        form = fields({cls._PART: fields(cls._REQUIRED, cls._OPTIONAL)})
        found: dict[str, Any] = decode({cls._PART: part}, f"machine file {path}", form)[cls._PART]
        return found

    def _of_python(self) -> None:
        """Let numpy's numbers be Python's, which a file can hold: fits make them."""
        for one in dataclasses.fields(self):  # type: ignore[arg-type]  # those of the subclass, a dataclass
            given = getattr(self, one.name)
            object.__setattr__(self, one.name, python_numbers(given))

    def _check(self, signs: dict[str, bool]) -> None:
        """Refuse parameters that are no finite numbers, negative, or 0 where they must not be."""
        name = type(self).__name__
        for parameter, positive in signs.items():
            value = getattr(self, parameter)
            if not isinstance(value, (int, float)) or isinstance(value, bool):
                raise UsageError(f"{name}: {parameter} must be a number, got {brief(value)}")
            if positive and not is_rate(value):
                raise UsageError(
                    f"{name}: {parameter} must be finite and above 0 (flop/s), and 1/{parameter} finite, "
                    f"got {shown(value)}"
                )
            if not (is_finite(value) and value >= 0):
                raise UsageError(f"{name}: {parameter} must be finite and at least 0 (seconds), got {shown(value)}")
        if type(self.p) is not int or self.p < 1:
            raise UsageError(f"{name}: p must be a whole number of at least 1, got {brief(self.p)}")
        if self.p > MOST_PROCESSORS:
            raise UsageError(f"{name}: p must be at most {MOST_PROCESSORS}, got {brief(self.p)}")

    def _check_own_p(self) -> None:
        """Refuse what is no number of processors that figures can be of; of p itself they are where nothing is said."""
        own: int = self.own_p  # type: ignore[attr-defined]
        if type(own) is not int or not 0 <= own <= MOST_PROCESSORS:
            raise UsageError(
                f"{type(self).__name__}: own_p must be a whole number from 0 to {MOST_PROCESSORS}, got {brief(own)}"
            )
        object.__setattr__(self, "own_p", own if own != self.p else 0)

    def _check_errors(self) -> None:
        """Refuse relative errors that are no numbers of at least 0."""
        for parameter in ("error_median", "error_p95"):
            value = getattr(self, parameter)
            if value is not None and not (is_finite(value) and value >= 0):
                must = f"{parameter} must be a relative error of at least 0 or None"
                raise UsageError(f"{type(self).__name__}: {must}, got {brief(value)}")


def python_numbers(value: Any) -> Any:
    """The same with Python's own numbers in place of numpy's and enumerations', in rows and tables too."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(value)
    if isinstance(value, np.ndarray):
        return value.tolist()
    if type(value) in (list, tuple):
        return type(value)(map(python_numbers, value))
    if type(value) is dict:
        return {key: python_numbers(one) for key, one in value.items()}
    return value


def is_finite(value: Any) -> bool:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return False
    return -sys.float_info.max <= value <= sys.float_info.max  # also of whole numbers that no float can be


def is_rate(value: Any) -> bool:
    """Whether it is a finite number above 0, and its inverse is one too."""
    return is_finite(value) and value > 0 and math.isfinite(1.0 / value)


def write_part(file: Path, name: str, part: dict[str, Any]) -> None:
    """Set a part of a machine file; what else it holds is kept."""
    content = read_parts(file) if file.exists() else {"format": FORMAT, "version": VERSION}
    content[name] = part
    replace_file(file, content)


def replace_file(file: Path, content: dict[str, Any]) -> None:
    """Write JSON to a file that is there whole at any time; a UsageError where it cannot be written."""
    with writing(file, f"machine file {file}") as beside:
        json.dump(content, beside, indent=2, allow_nan=False)
        beside.write("\n")


def read_parts(file: Path) -> dict[str, Any]:
    """The content of a machine file, whose parts are as they were read.

    Raises:
        UsageError: it cannot be read, or is none; a version or a part that this pybsp does not know.
    """
    origin, way_out = f"machine file {file}", "calibrate again, or use the pybsp that wrote it"
    text = read_text(file, "machine file")
    if text.startswith("#"):  # no JSON does
        raise UsageError(f"{origin}: is not JSON, but raw samples or other text: expected the .json beside them")
    content = versioned(parse(text, origin), origin, FORMAT, VERSION, way_out)
    unknown = sorted(map(harmless, set(content) - {"format", "version", *PARTS}))
    if unknown:
        raise UsageError(f"{origin}: it holds {unknown}, which this pybsp does not know; known are {', '.join(PARTS)}")
    return content


def check_flag(name: str, flag: str, value: Any) -> None:
    """Refuse what is not true or false, which no file would hold."""
    if not isinstance(value, bool):
        raise UsageError(f"{name}: {flag} must be True or False, got {brief(value)}")


def measured_while_busy(content: Mapping[str, Any]) -> bool:
    """Whether others used the machine when a file of that content was measured, as far as it says."""
    about = content.get("calibration")
    about = about.get("about") if isinstance(about, dict) else None
    if not isinstance(about, dict) or not about.get("cores"):
        return False
    with suppress(MisfitError):
        loads, cores = _LOADS(about.get("load", [])), _CORES(about["cores"])
        return any(is_busy(load or 0.0, min(cores)) for load in loads)
    return False
