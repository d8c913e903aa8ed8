"""What a run is asked for by its arguments and the environment: where checkpoints go, how often, how many are kept."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import argument_error, usage_error
from ..ground import settings
from .due import Every, parse

_runs: dict[Sequence[Path], int] = {}  # that this program has made with checkpoints in some folders


class CheckpointOptions(NamedTuple):
    """What is asked for.

    folders: the nearest first; the last is seen by all processors.
    keep: how many checkpoints are kept.
    record: the processor whose arrivals are recorded; -1: none.
    """

    folders: Sequence[Path]
    every: Every
    keep: int
    record: int


def given(operation: str, checkpoint: Any, every: Any) -> tuple[Sequence[str] | None, Every | None]:
    """The arguments `checkpoint` and `every`, checked; a UsageError where they are none."""
    if checkpoint is False:
        checkpoint = ()
    elif isinstance(checkpoint, (str, os.PathLike)):
        checkpoint = (checkpoint,)
    if checkpoint is not None and not (
        isinstance(checkpoint, (tuple, list))
        and len(checkpoint) <= 2
        and all(isinstance(one, (str, os.PathLike)) and os.fspath(one) for one in checkpoint)
    ):
        expected = "a folder, or two (one of each host, and one that all see)"
        raise argument_error(operation, "checkpoint", expected, f"{checkpoint!r}")
    folders = None if checkpoint is None else _places(checkpoint)
    return folders, None if every is None else parse(operation, every)


def _places(folders: Sequence[str | os.PathLike[str]]) -> tuple[str, ...]:
    """The folders, from the root on; two names of one, as by a link, are one: no part is copied onto itself."""
    places = tuple(os.path.abspath(one) for one in folders)
    return places[:1] if len({os.path.realpath(one) for one in places}) == 1 else places


def asked(operation: str, checkpoint: Sequence[str] | None, every: Every | None) -> CheckpointOptions | None:
    """What is asked for by arguments that are `given`, or by the environment; a UsageError of what is not known."""
    if checkpoint is None:
        checkpoint = _places([one for one in settings.text(settings.CHECKPOINT).split(os.pathsep) if one])
        if len(checkpoint) > 2:
            raise usage_error(settings.CHECKPOINT, "one folder, or two with a colon between", checkpoint)
    if not checkpoint:
        return None
    keep, record = settings.text(settings.CHECKPOINT_KEEP), settings.text(settings.RECORD)
    if settings.whole(keep) < 1:
        raise usage_error(settings.CHECKPOINT_KEEP, "a number of checkpoints of at least 1", f"{keep!r:.60}")
    if record and settings.whole(record) < 0:
        raise usage_error(settings.RECORD, "a processor's number", f"{record!r:.60}")
    if every is None:
        every = parse(settings.CHECKPOINT_EVERY, settings.text(settings.CHECKPOINT_EVERY))
    return CheckpointOptions(tuple(Path(one) for one in checkpoint), every, int(keep), int(record or -1))


def begun() -> Mapping[Sequence[Path], int]:
    """How many runs have begun here with the same folders; processor 0's number is everybody's."""
    return dict(_runs)


def next_run(options: CheckpointOptions, before: Mapping[Sequence[Path], int]) -> int:
    """The number of the run that begins, among those with the same folders.

    Args:
        before: what processor 0 has `begun`. One that was interrupted as it began a run may have counted less or more.
    """
    number = before.get(options.folders, 0)
    _runs[options.folders] = number + 1
    return number
