"""`pybsp replay`: one processor of a recorded job, alone."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from ..checkpoints.record import RecordReader
from ..errors import CheckpointError
from ..ground.argument_types import processor
from ..runs import simulation
from .simulate import run_here


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add those of `replay`."""
    parser.add_argument("folder", metavar="DIR", help="that of `pybsp run --checkpoint DIR --record PID`")
    parser.add_argument("--pid", type=processor, required=True, help="the processor")
    parser.add_argument("--debug", action="store_true", help="under Python's debugger, from its first line on")
    parser.set_defaults(action=_replay)


def _replay(options: argparse.Namespace) -> int:
    folder = Path(options.folder.split(os.pathsep)[-1]).resolve()
    header = RecordReader(folder / "run-0" / "record", options.pid).header
    for place in Path(header.folder), Path(header.folder, header.program[0]):
        if not place.exists():
            raise CheckpointError(
                f"{folder}: {header.program[0]} was recorded in {header.folder}, and {place} is not there any more; "
                "put it back: a processor runs again where it ran"
            )
    os.chdir(header.folder)
    replay = simulation.Replay(folder, options.pid, options.debug)
    return run_here(header.program, simulation.SimulateOptions(header.p, replay=replay))
