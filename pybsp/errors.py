"""The errors that pybsp raises, and how one says where in the user's program it happened."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from types import FrameType

_LIBRARY = os.path.dirname(os.__file__) + os.sep


class BSPError(Exception):
    """Base of all errors that pybsp raises about a program or its surroundings.

    Examples:
        >>> try:
        ...     pybsp.simulate(lambda bsp: bsp.send(7, "text"), p=2)
        ... except pybsp.BSPError as error:
        ...     print(type(error).__name__)
        UsageError
    """


class UsageError(BSPError, ValueError):
    """A call with an argument that cannot be right; the text names operation, argument, expected and got.

    Examples:
        >>> try:
        ...     pybsp.simulate(lambda bsp: bsp.send(7, "text"), p=2)
        ... except pybsp.UsageError as error:
        ...     print(error)
        bsp.send: argument dest: expected a processor from 0 to 1, got 7
    """


class BoundsError(BSPError, IndexError):
    """An index outside of the inbox, or outside of the part of an array that a processor owns.

    Examples:
        >>> try:
        ...     pybsp.simulate(lambda bsp: bsp.inbox[0], p=2)
        ... except pybsp.BoundsError as error:
        ...     print(str(error).split(";")[0])
        bsp.inbox[0]: expected a message, but none has arrived
    """


class TicketError(BSPError):
    """A ticket, of a get or of a collective, was read before the sync that fills it; or what it is for has failed.

    Examples:
        >>> def main(bsp):
        ...     x = bsp.array(1)
        ...     bsp.sync()
        ...     return x.get(0).value
        >>> try:
        ...     pybsp.simulate(main, p=1)
        ... except pybsp.TicketError as error:
        ...     print(str(error).split(";")[0])
        ticket.value: the get was called in superstep 1
    """


class SyncError(BSPError):
    """The processors did not do the same: one synced where another ended, registered or split differently, or did not
    come within the timeout of `run`.

    Examples:
        >>> def main(bsp):
        ...     if bsp.pid == 0:
        ...         bsp.sync()
        >>> try:
        ...     pybsp.simulate(main, p=2)
        ... except pybsp.SyncError as error:
        ...     print(type(error).__name__)
        SyncError
    """


class DeliveryError(BSPError):
    """What arrived is not what was said to be sent: a fault of pybsp, the MPI library, or the machine.

    Examples:
        >>> issubclass(pybsp.DeliveryError, pybsp.BSPError)
        True
    """


class ProcessorError(BSPError):
    """Another processor failed; `pid`, `superstep` and `label` say which one and where.

    Examples:
        >>> error = pybsp.ProcessorError("processor 3 failed", pid=3, superstep=7, label="exchange")
        >>> error.pid, error.superstep, error.label
        (3, 7, 'exchange')
    """

    def __init__(self, text: str, pid: int, superstep: int, label: str) -> None:
        super().__init__(text)
        self.pid = pid
        self.superstep = superstep
        self.label = label

    def __reduce__(self) -> tuple[type, tuple[str, int, int, str]]:
        return type(self), (str(self), self.pid, self.superstep, self.label)


class LearnedSyncError(ProcessorError, SyncError):
    """Another processor has found that not all do the same: to `except`, both of these."""


class CheckpointError(BSPError):
    """A checkpoint cannot be used or made; the text names the file.

    Examples:
        >>> issubclass(pybsp.CheckpointError, pybsp.BSPError)
        True
    """


class DeadlockError(BSPError):
    """LogP processors wait for messages that nobody will ever send; the text says who waits.

    Examples:
        >>> try:
        ...     pybsp.logp.simulate(lambda proc: proc.recv(), p=2)
        ... except pybsp.DeadlockError as error:
        ...     print(type(error).__name__)
        DeadlockError
    """


class UnreceivedError(BSPError):
    """A LogP program ended, and messages were left that nobody has received; the text says whose.

    Examples:
        >>> def program(proc):
        ...     if proc.pid == 0:
        ...         proc.send(1, "text")
        >>> try:
        ...     pybsp.logp.simulate(program, p=2)
        ... except pybsp.UnreceivedError as error:
        ...     print(type(error).__name__)
        UnreceivedError
    """


class CostError(BSPError):
    """`bsp.expect` counted more than was allowed; the text has both figures, in which superstep most was counted, and
    the line at which the block begins.

    Examples:
        >>> def main(bsp):
        ...     with bsp.expect(supersteps=1):
        ...         bsp.sync()
        ...         bsp.sync()
        >>> try:
        ...     pybsp.simulate(main, p=1)
        ... except pybsp.CostError as error:
        ...     print(str(error).split(";")[0])
        bsp.expect on processor 0: supersteps: expected at most 1, counted 2
    """


class AbortError(BSPError):
    """`bsp.abort` was called where there is no MPI job to end.

    Examples:
        >>> try:
        ...     pybsp.simulate(lambda bsp: bsp.abort("no input"), p=1)
        ... except pybsp.AbortError as error:
        ...     print(type(error).__name__)
        AbortError
    """


class LauncherError(BSPError):
    """The launcher and the MPI library do not belong together, or one of them is missing.

    Examples:
        >>> issubclass(pybsp.LauncherError, pybsp.BSPError)
        True
    """


class RoutingError(BSPError):
    """A router was asked for that does not exist or does not fit.

    Examples:
        >>> from pybsp.routing import networks
        >>> try:
        ...     networks.Hypercube(6)
        ... except pybsp.RoutingError as error:
        ...     print(type(error).__name__)
        RoutingError
    """


def argument_error(operation: str, argument: str, expected: object, got: object, way_out: str = "") -> UsageError:
    """That of an argument which cannot be right: as all of them say it; raised by who finds it."""
    return usage_error(f"{operation}: argument {argument}", expected, got, way_out)


def usage_error(of: str, expected: object, got: object, way_out: str = "") -> UsageError:
    """That of anything else, as an option of a command or a file."""
    return UsageError(f"{of}: expected {expected}, got {got}" + f"; {way_out}" * bool(way_out))


def brief(value: object, most: int = 60) -> str:
    """What an error shows of a value: as much of its repr as that; of what has none, as a number too long, why not."""
    try:
        return f"{value!r:.{most}}"
    except Exception as error:
        why, *_ = str(error).split(";")
        return f"<not shown: {why:.{most}}>"


def nearest(name: str, names: Iterable[str], alike: float = 0.6) -> str:
    """What may have been meant by a name that there is not; empty where none of the names is spelt like it.

    Args:
        alike: how much, by difflib's ratio.
    """
    from difflib import get_close_matches  # it takes milliseconds, which no start needs

    return next(iter(get_close_matches(name, list(names), 1, alike)), "")


def where() -> str:
    """File and line of the innermost caller outside of pybsp: the line that the user can change."""
    return place_of(sys._getframe(1))


def place_of(frame: FrameType) -> str:
    """The same for a frame: that of another thread, or of what a signal has interrupted.

    Nor is it a line of Python's library, unless there are no others.
    """
    found: FrameType | None = frame
    while found is not None and (str(found.f_globals.get("__name__", "")).startswith("pybsp.") or _is_library(found)):
        found = found.f_back
    frame = found or frame
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _is_library(frame: FrameType) -> bool:
    name = frame.f_code.co_filename
    return name.startswith((_LIBRARY, "<frozen ")) and "site-packages" not in name and "dist-packages" not in name


def describe(superstep: int, label: str) -> str:
    """`superstep 3 ("exchange")`, or without the label where there is none."""
    return f'superstep {superstep} ("{harmless(label)}")' if label else f"superstep {superstep}"


def harmless(content: str) -> str:
    """Text as a terminal may have it: control characters, and what no text can hold, as escapes (`\\x1b`)."""
    if content.isprintable():
        return content
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape", "surrogatepass").decode("ascii") for one in content
    )
