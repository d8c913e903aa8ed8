"""How a ledger file is written: the runs of a job, each with its records and what one needs to know about it."""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
from pathlib import Path
from typing import Any, TextIO

from ..errors import UsageError
from ..ground.files import replacing

FORMAT = "pybsp-ledger"
VERSION = 2
HEAD = f'{{"format": "{FORMAT}", "version": {VERSION}, "runs": ['
TAIL = "\n]}\n"


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
            file.write(HEAD)
        else:
            _copy_runs(Path(path), file)
            file.write(",")
        about = {name: value for name, value in run.items() if name != "supersteps"}
        file.write(f'\n{_json(about)[:-1]}, "supersteps": [')
        for number, record in enumerate(run["supersteps"]):
            file.write(f"{',' if number else ''}\n{_json(record)}")
        file.write(f"\n]}}{TAIL}")


def _copy_runs(path: Path, file: TextIO) -> None:
    """Write a ledger file again, as bytes, which is quicker; what comes next is written over its end."""
    with path.open("rb") as earlier:
        begin = earlier.read(len(HEAD))
        earlier.seek(-min(len(TAIL), path.stat().st_size), os.SEEK_END)
        if (begin, earlier.read()) != (HEAD.encode(), TAIL.encode()):
            raise UsageError(f"ledger file {path}: somebody has changed it since the last run of this job wrote it")
        earlier.seek(0)
        shutil.copyfileobj(earlier, file.buffer)
        file.buffer.seek(-len(TAIL), os.SEEK_CUR)


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
