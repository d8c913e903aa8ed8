"""One launch under mpiexec, for `pybsp calibrate -n`: the job is JSON, its only argument.

It says on stdout how far it is. Each line on stdout is a JSON array: the part that is done, and the seconds left.
"""

from __future__ import annotations

import dataclasses
import json
import os
import socket
import sys
import time
from collections.abc import Callable, Sequence

from pybsp.errors import BSPError
from pybsp.ground.failures import quiet

from .harness import LaunchSpec, launch_on_ranks

REPORT_EVERY = 0.2  # seconds


class Speaker:
    """Says how far it is; ends the job when nobody is left to hear it.

    Args:
        host, pid: of the process that started mpiexec.
    """

    def __init__(self, host: str, pid: int) -> None:
        self._watched = pid if host == socket.gethostname() else 0
        self._last = 0.0

    def __call__(self, done: float, left: float) -> None:
        now = time.perf_counter()
        if now - self._last < REPORT_EVERY:
            return
        self._last = now
        print(json.dumps([round(done, 4), round(left, 1)]), flush=True)
        if self._watched:
            try:
                os.kill(self._watched, 0)
            except ProcessLookupError:
                raise KeyboardInterrupt from None


def argument(job: LaunchSpec) -> str:
    """What this is started with."""
    return json.dumps({"job": dataclasses.asdict(job), "host": socket.gethostname(), "pid": os.getpid()})


def main(arguments: Sequence[str]) -> int:
    """Run the launch; returns the exit status: 2 where what was asked for cannot be."""
    given = json.loads(arguments[0])
    return status(
        "pybsp calibrate", lambda: launch_on_ranks(LaunchSpec(**given["job"]), Speaker(given["host"], given["pid"]))
    )


def status(command: str, act: Callable[[], object]) -> int:
    """The exit status of what all ranks do: 2 where it fails, which all know of and one says."""
    try:
        act()
    except BSPError as error:
        if not quiet(error):
            print(f"{command}: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
