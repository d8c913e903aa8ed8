"""Ledger files: the runs of a job, each with its records and what one needs to know about where it was taken."""

from __future__ import annotations

import json
import math
import os
import sys
from contextlib import suppress
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any, TextIO

from ..errors import UsageError
from ..ground.decoding import (
    MisfitError,
    any_text,
    decode,
    each,
    fields,
    flag,
    number,
    one_of,
    optional,
    read_json,
    require_each,
    table,
    untouched,
    versioned,
    whole,
)
from ..ground.files import replacing, require_regular
from ..machines.bsp import BSPMachine
from ..machines.ebsp import EBSPMachine
from .records import CIRCUMSTANCES, COUNTS, STORED, PartTotals, Supersteps

FORMAT = "pybsp-ledger"
VERSION = 2

_COUNT, _FIGURE = whole(), number()
_LATER = {"ways": 0}  # fields that earlier files have not
_ALWAYS = tuple(name for name in COUNTS if name not in _LATER)
_SECONDS = ("seconds", "predicted", "measured", "seconds_mean", "exchange_predicted", "charged")
_RECORD = fields(
    {"label": any_text, "work": _FIGURE, **dict.fromkeys(_ALWAYS, _COUNT), **dict.fromkeys(_SECONDS, _FIGURE)},
    dict.fromkeys(_LATER, _COUNT),
    others=untouched,
)
_NEEDED, _KNOWN = BSPMachine.fields_of_json()


def _exchange(value: Any) -> Any:
    """The decoder of a machine of exchanges alone: a report takes what it has for the run's machine's own."""
    return fields(_NEEDED, {**_KNOWN, "exchange": optional(_exchange)}, others=untouched)(value)


_MACHINE = fields(
    {"calibrated": flag},
    {**EBSPMachine.fields_of_json()[1], **_KNOWN, "exchange": optional(_exchange)},
    others=untouched,
)
_figures = itemgetter(*STORED)


def _append(records: Supersteps, value: Any) -> None:
    """Take a record as JSON has it; a MisfitError where it is none."""
    found = {**_LATER, **_RECORD(value)}
    if found["h"] != max(found["h_out"], found["h_in"]):
        raise MisfitError(f"the larger of h_out and h_in, {max(found['h_out'], found['h_in'])}", f"{found['h']}", ".h")
    records.add(found["label"], _figures(found))


def _supersteps(value: Any) -> Supersteps:
    """The decoder of all records of a run."""
    if isinstance(value, Supersteps):
        return value
    found = Supersteps()
    each(partial(_append, found))(value)
    return found


_OF_EACH = {"hosts": each(any_text), "cores": each(whole(1)), "threads": each(whole(1)), "load": each(number())}
_OF_LANES = ("computing", "waiting", "exchange", "sent")
_TRACE = fields(
    {
        "p": whole(1),
        "lane": whole(1),
        "labels": each(any_text, least=1),
        "words": each(each(_COUNT, least=4, most=4)),
        "seconds": _FIGURE,
        **dict.fromkeys(_OF_LANES, each(each(_FIGURE, least=1))),
        "kinds": each(each(whole(-1), least=1)),
    },
    others=untouched,
)


def _trace(value: Any) -> dict[str, Any]:
    """The decoder of what `trace.Trace.summary` says."""
    found: dict[str, Any] = _TRACE(value)
    lanes, labels = -(-found["p"] // found["lane"]), len(found["labels"])
    bins = len(found["kinds"][0]) if found["kinds"] else 0
    for name in (*_OF_LANES, "kinds"):
        got = sorted({len(row) for row in found[name]})
        if len(found[name]) != lanes or got != [bins]:
            raise MisfitError(f"{lanes} lists of {bins}", f"{len(found[name])} of {got}", f".{name}")
    below = labels, lanes, lanes
    if any(number >= most for row in found["words"] for number, most in zip(row, below, strict=False)):
        raise MisfitError(f"numbers of labels below {labels}, of lanes below {lanes}", "a larger one", ".words")
    if any(kind >= labels for row in found["kinds"] for kind in row):
        raise MisfitError(f"numbers of labels, below {labels}", "a larger one", ".kinds")
    return found


_CHECKPOINTS = each(fields({"superstep": whole(), "bytes": _COUNT, "seconds": _FIGURE}, others=untouched))
_PARTS_OF_ONE = fields(
    {"work": _FIGURE, "predicted": _FIGURE, "measured": _FIGURE}
    | dict.fromkeys(("supersteps", "h", "messages", "M"), _COUNT),
    {"seconds": _FIGURE, "items": _COUNT, "ways": _COUNT, "charged": _FIGURE},  # which earlier files have not
)


def _parts_of_one(value: Any) -> PartTotals:
    """The decoder of what parts did in a superstep."""
    return PartTotals(**_PARTS_OF_ONE(value))


_FIELDS = fields(
    {
        "p": whole(1),
        "machine": _MACHINE,
        "router": any_text,
        "virtual": flag,
        "hosts": _OF_EACH["hosts"],
        "date": any_text,
        "versions": table(any_text),
        "supersteps": _supersteps,
    },
    {
        **{name: _OF_EACH[name] for name in CIRCUMSTANCES},
        "latency": fields({"now": _FIGURE, "file": _FIGURE}, others=untouched),
        "trace": _trace,
        "network": any_text,
        "after": each(_FIGURE, least=2, most=2),
        "checkpoints": _CHECKPOINTS,
        "parts": table(_parts_of_one),
        "parts_after": _parts_of_one,
        "kinds": table(table(_FIGURE)),
        "index_bytes": table(whole()),
        "riding": table(table(_COUNT)),
    },
    others=untouched,
)


def _run(value: Any) -> dict[str, Any]:
    """The decoder of a run."""
    found: dict[str, Any] = _FIELDS(value)
    require_each(found, _OF_EACH)
    if "trace" in found and found["trace"]["p"] != found["p"]:
        raise MisfitError(f"p = {found['p']}, as its run has", f"{found['trace']['p']}", ".trace.p")
    count = len(found["supersteps"])
    for field in "parts", "kinds", "index_bytes", "riding":
        for name in found.get(field, ()):
            if not (name.isascii() and name.isdigit() and len(name) < 20 and int(name) < count):
                raise MisfitError(f"the number of a superstep, below {count}", f"{name:.20}", f".{field}")
    found["supersteps"].parts = {int(name): one for name, one in found.get("parts", {}).items()}
    return found


_FILE = fields({"format": one_of(FORMAT), "version": one_of(VERSION), "runs": each(_run)}, others=untouched)
_HEAD = f'{{"format": "{FORMAT}", "version": {VERSION}, "runs": ['
_TAIL = "\n]}\n"


def append_run(path: str | os.PathLike[str], run: dict[str, Any], first: bool) -> None:
    """Add a run to a ledger file; the first run of a job begins the file anew.

    The file is there whole at any time, as it was or as it will be. Memory for one record is enough: what is there is
    copied, and "supersteps" may be any iterable.

    Raises:
        OSError: it cannot be written.
        UsageError: it is not as this job's runs before have left it.
    """
    with replacing(path) as file:
        if first or not Path(path).is_file():
            file.write(_HEAD)
        else:
            _copy_runs(Path(path), file)
            file.write(",")
        about = {name: value for name, value in run.items() if name != "supersteps"}
        file.write(f'\n{_json(about)[:-1]}, "supersteps": [')
        for number, record in enumerate(run["supersteps"]):
            file.write(f"{',' if number else ''}\n{_json(record)}")
        file.write(f"\n]}}{_TAIL}")


def _copy_runs(path: Path, file: TextIO) -> None:
    """Write a ledger file again, as bytes, which is quicker; what comes next is written over its end."""
    import shutil  # nobody else needs it

    with path.open("rb") as earlier:
        begin = earlier.read(len(_HEAD))
        earlier.seek(-min(len(_TAIL), path.stat().st_size), os.SEEK_END)
        if (begin, earlier.read()) != (_HEAD.encode(), _TAIL.encode()):
            raise UsageError(f"ledger file {path}: somebody has changed it since the last run of this job wrote it")
        earlier.seek(0)
        shutil.copyfileobj(earlier, file.buffer)
        file.buffer.seek(-len(_TAIL), os.SEEK_CUR)


_encoder = json.JSONEncoder(allow_nan=False)


def _json(content: dict[str, Any]) -> str:
    """JSON, which knows no infinity: a figure beyond all numbers is the largest."""
    try:
        return _encoder.encode(content)
    except ValueError:
        return _encoder.encode(_numbers(content))


def _numbers(content: Any) -> Any:
    """The same content, whose figures are numbers."""
    if isinstance(content, dict):
        return {name: _numbers(value) for name, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [_numbers(value) for value in content]
    return sys.float_info.max if isinstance(content, float) and not math.isfinite(content) else content


def is_ledger(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins as ledger files do, whatever its name."""
    with suppress(OSError), Path(path).open("rb") as file:
        begin = file.read(100).lstrip()
        return begin.startswith(b"{") and f'"{FORMAT}"'.encode() in begin
    return False


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The content of a ledger file; a UsageError that says what was expected where."""
    origin = f"ledger file {path}"
    way_out = "write one with `pybsp run --ledger FILE` or `pybsp simulate --ledger FILE`"
    require_regular(path, "ledger file")
    content = _by_lines(Path(path)) or read_json(path, "ledger file")
    found: dict[str, Any] = decode(versioned(content, origin, FORMAT, VERSION, way_out), origin, _FILE)
    return found


def _by_lines(path: Path) -> dict[str, Any] | None:
    """The content of a file as `append_run` leaves it, a line of which is held at a time; None of any other."""
    runs = []
    with suppress(OSError, ValueError, RecursionError, MisfitError), path.open(encoding="utf-8") as file:
        if file.readline() != f"{_HEAD}\n":
            return None
        more = True
        while more:
            head, records = file.readline(), Supersteps()
            if not head.endswith(', "supersteps": [\n'):
                return None
            while (line := file.readline().rstrip("\n")) not in ("]}", "]},", ""):
                _append(records, json.loads(line.removesuffix(",")))
            runs.append({**json.loads(f"{head}]}}"), "supersteps": records})
            more = line == "]},"
        if line == "]}" and f"\n{file.read(9)}" == _TAIL:
            return {"format": FORMAT, "version": VERSION, "runs": runs}
    return None
