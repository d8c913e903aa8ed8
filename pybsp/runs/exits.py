"""How a rank ends that has made no run yet: under a launcher, what watches over that from the import of pybsp on.

What there is to do then is world.py's, which a run loads, and an exception that nobody has caught.
"""

from __future__ import annotations

import atexit
import os
import sys
from contextlib import suppress
from types import TracebackType

from ..processes import process


def install() -> None:
    """See exceptions that nobody catches, and the end of this process, where a launcher has started several."""
    if "PYBSP_ATTENDANCE" in os.environ:  # of ground/settings.py, which nobody else needs here
        from ..processes import attendance

        attendance.join()
    if process.launched()[0] == 1:
        return
    previous = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        from . import world

        world.uncaught(error, lambda: previous(kind, error, trace))

    sys.excepthook = hook
    atexit.register(_leave)


def _leave() -> None:
    """At exit: others may be about to wait for this rank, in their first run."""
    if "PYBSP_RECEIPT" in os.environ:  # of ground/settings.py, which nobody else needs here
        _note_without_run()
    if process.siblings.elsewhere or f"{__package__}.world" in sys.modules:
        from . import world

        world.leave_without_run()
    elif process.takes_part():
        process.leave()


def _note_without_run() -> None:
    """Let `pybsp run` know where processor 0 ends without MPI, which all that pybsp runs on ranks uses."""
    if process.launched()[1] == 0 and process.takes_part() and "mpi4py.MPI" not in sys.modules:
        from ..ground import settings

        with suppress(OSError):
            open(os.environ[settings.RECEIPT] + settings.WITHOUT_RUN, "wb").close()
