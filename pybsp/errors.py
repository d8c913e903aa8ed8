"""The errors that pybsp raises, and how one says where in the user's program it happened."""

from __future__ import annotations

import os
import sys
from types import FrameType

_LIBRARY = os.path.dirname(os.__file__) + os.sep


class BSPError(Exception):
    """Base of all errors that pybsp raises about a program or its surroundings."""


class UsageError(BSPError, ValueError):
    """A call with an argument that cannot be right; the text names operation, argument, expected and got."""


class BoundsError(BSPError, IndexError):
    """An index outside of the inbox, or outside of the part of an array that a processor owns."""


class TicketError(BSPError):
    """A get's ticket was read before the sync that fills it."""


class SyncError(BSPError):
    """The processors did not do the same: one synced where another ended, registered or split differently, or did not
    come within the timeout of `run`."""


class DeliveryError(BSPError):
    """What arrived is not what was said to be sent: a fault of pybsp, the MPI library, or the machine."""


class ProcessorError(BSPError):
    """Another processor failed; `pid`, `superstep` and `label` say which one and where."""

    def __init__(self, text: str, pid: int, superstep: int, label: str) -> None:
        super().__init__(text)
        self.pid = pid
        self.superstep = superstep
        self.label = label

    def __reduce__(self) -> tuple[type, tuple[str, int, int, str]]:
        return type(self), (str(self), self.pid, self.superstep, self.label)


class DeadlockError(BSPError):
    """LogP processors wait for messages that nobody will ever send; the text says who waits."""


class UnreceivedError(BSPError):
    """A LogP program ended, and messages were left that nobody has received; the text says whose."""


class CostError(BSPError):
    """`bsp.expect` counted more than was allowed; the text has both figures."""


class AbortError(BSPError):
    """`bsp.abort` was called where there is no MPI job to end."""


class LauncherError(BSPError):
    """The launcher and the MPI library do not belong together, or one of them is missing."""


class RoutingError(BSPError):
    """A router was asked for that does not exist or does not fit."""


def where() -> str:
    """File and line of the innermost caller outside of pybsp: the line that the user can change."""
    return place_of(sys._getframe(1))


def place_of(frame: FrameType) -> str:
    """The same for a frame: that of another thread, or of what a signal has interrupted.

    Nor is it a line of Python's library, unless there are no others.
    """
    found: FrameType | None = frame
    while found is not None and (_is_ours(str(found.f_globals.get("__name__", ""))) or _is_library(found)):
        found = found.f_back
    frame = found or frame
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _is_ours(module: str) -> bool:
    return module.startswith("pybsp.")


def _is_library(frame: FrameType) -> bool:
    name = frame.f_code.co_filename
    return name.startswith((_LIBRARY, "<frozen ")) and "site-packages" not in name and "dist-packages" not in name


def describe(superstep: int, label: str) -> str:
    """`superstep 3 ("exchange")`, or without the label where there is none."""
    return f'superstep {superstep} ("{label}")' if label else f"superstep {superstep}"
