"""What a run with checkpoints begins with: a saver of each processor, the record of one, folders that are locked."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..errors import usage_error
from ..ground import settings
from ..machines.bsp import BSPMachine
from .asked import CheckpointOptions
from .folder import Folder, lock
from .record import Recorder, RecordHeader, RecordingRouter
from .saver import Saver

if TYPE_CHECKING:
    from ..supersteps.superstep import SuperstepEngine
    from ..transport.medium import MPITransport
    from ..transport.router import Router


def recording(
    router: Router, options: CheckpointOptions, run: int, transport: MPITransport, checked: bool, machine: BSPMachine
) -> tuple[Router, Recorder]:
    """The router of a processor of a run in which somebody is recorded, and what records.

    Raises:
        UsageError: there is no such processor; on all.
    """
    pid, p = transport.pid, transport.p
    if options.record >= p:
        raise usage_error(f"{settings.RECORD} (pybsp run --record)", f"a processor's number below {p}", options.record)
    header = None
    if pid == options.record:
        header = RecordHeader(list(sys.argv), os.getcwd(), pid, p, checked, machine, transport.nodes)
    recorder = Recorder(options.folders[-1] / f"run-{run}" / "record", header)
    return RecordingRouter(router, recorder), recorder


def make(
    engine: SuperstepEngine,
    options: CheckpointOptions,
    run: int,
    main: Callable[..., Any],
    recorder: Recorder | None = None,
) -> Saver:
    """What saves a processor of a run of a program: it is the engine's from now on."""
    folders = [Folder(root, run) for root in options.folders]
    saver = engine.saver = Saver(engine, folders, options.every, options.keep, _name_of(main), recorder)
    return saver


def prepare(saver: Saver, options: CheckpointOptions, pid: int) -> None:
    """Have folders that can be written, for this job alone; else a CheckpointError."""
    saver.prepare()
    if pid == 0:
        lock(options.folders[-1], settings.seconds(settings.GRACE))
        saver.notices.remove_others()  # nobody else has the folder


def _name_of(main: Callable[..., Any]) -> str:
    """What tells a program from another one."""
    function: Any = main
    while hasattr(function, "func"):  # of functools.partial
        function = function.func
    module = getattr(function, "__module__", "")
    if module == "__main__":
        module = os.path.basename(sys.argv[0])
    return f"{module}:{getattr(function, '__qualname__', type(function).__name__)}"
