"""The settings of `pybsp run`: by its options, else by the environment, else by pybsp.toml; and from where.

Those of `pybsp simulate` are by its options, else by the environment.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import UsageError
from ..ground import settings
from ..ground.files import working_folder

FILE = "pybsp.toml"
TYPES: Mapping[str, type] = {  # keys of its table [run]
    "n": int,
    "router": str,
    "machine": str,
    "ledger": str,
    "trace": str,
    "hosts": str,
    "checked": bool,
    "label-output": bool,
}
VARIABLES = {
    "router": settings.ROUTER,
    "machine": settings.MACHINE,
    "ledger": settings.LEDGER,
    "trace": settings.TRACE,
    "checked": settings.CHECKED,
}


class Choice(NamedTuple):
    """A setting, and where it comes from: for `--explain`, and for errors."""

    value: Any
    source: str

    def named(self, key: str) -> str:
        """What it was given as; `key` it has among TYPES."""
        return f"{self.source}: [run] {key}" if self.source.endswith(FILE) else self.source.removeprefix("option ")


def configured(given: Mapping[str, Any], program: str | None) -> dict[str, Choice]:
    """What holds for a run, by the keys of TYPES; keys that nothing sets are not in it.

    Args:
        given: what the options say; None or False: nothing.
        program: its file. pybsp.toml is looked for beside it, then in the folder of the call; None: not at all.

    Raises:
        UsageError: pybsp.toml cannot be read, or says something else than this.
    """
    path, table = (Path(), {}) if program is None else _table(program)
    found: dict[str, Choice] = {}
    for key in TYPES:
        variable = VARIABLES.get(key, "")
        if given.get(key) not in (None, False):
            found[key] = Choice(given[key], f"option {'-n' if key == 'n' else '--' + key}")
        elif os.environ.get(variable):
            found[key] = Choice(os.environ[variable], f"environment variable {variable}")
        elif key in table:
            value = table[key]
            if key in ("machine", "ledger", "trace"):
                value = str(path.parent / value)  # as the file says it, from where the file is
            found[key] = Choice(value, str(path))
    return found


def _table(program: str) -> tuple[Path, Mapping[str, Any]]:
    here = working_folder()
    places = [folder / FILE for folder in (Path(program).resolve().parent, here)]
    path = next((place for place in places if place.is_file()), None)
    if path is None:
        return places[0], {}
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path}: expected TOML, got: {error}") from None
    except RecursionError:
        raise UsageError(f"{path}: expected TOML, got brackets in brackets, too deep") from None
    table = content.pop("run", {})
    if content or not isinstance(table, dict):
        raise UsageError(f"{path}: expected the table [run] alone, got {', '.join(content) or repr(table)}")
    for key, value in table.items():
        kind = TYPES.get(key)
        if kind is None:
            raise UsageError(f"{path}: [run] {key}: expected one of {', '.join(TYPES)}")
        if type(value) is not kind or (isinstance(value, int) and kind is int and value < 1):
            what = {int: "a whole number of at least 1", str: "text", bool: "true or false"}[kind]
            raise UsageError(f"{path}: [run] {key}: expected {what}, got {value!r}")
    return path, table
