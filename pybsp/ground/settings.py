"""The environment variables that pybsp heeds: all of them, what they mean, and how the processors agree on them.

A variable that is set on processor 0 alone, as where a launcher does not forward it, is its on all. One that is set to
something else than on processor 0 is an error on all.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from ..errors import UsageError, nearest

PREFIX = "PYBSP_"
MACHINE = "PYBSP_MACHINE"
ROUTER = "PYBSP_ROUTER"
LEDGER = "PYBSP_LEDGER"
TRACE = "PYBSP_TRACE"
PROGRESS = "PYBSP_PROGRESS"
CHECKED = "PYBSP_CHECKED"
GRACE = "PYBSP_GRACE"
WAIT = "PYBSP_WAIT"
SHARED = "PYBSP_SHARED"
AGGREGATE = "PYBSP_AGGREGATE"
COMPILED = "PYBSP_COMPILED"
WARN_AFTER = "PYBSP_WARN_AFTER"
REPORT_SIGNAL = "PYBSP_REPORT_SIGNAL"
CHECKPOINT = "PYBSP_CHECKPOINT"
CHECKPOINT_EVERY = "PYBSP_CHECKPOINT_EVERY"
CHECKPOINT_KEEP = "PYBSP_CHECKPOINT_KEEP"
RECORD = "PYBSP_RECORD"
NOTICE = "PYBSP_NOTICE"  # set by `pybsp run`: the file by which it gives notice
RECEIPT = "PYBSP_RECEIPT"  # set by the command line: the file that is there once a run has seen to the ledger
ATTENDANCE = "PYBSP_ATTENDANCE"  # set by `pybsp run`: the socket at which it hears when ranks end
TRACE_WRITTEN = ".trace"  # ends the name of the one beside it that is there once a run has seen to the trace
WITHOUT_RUN = ".none"  # likewise: once processor 0 has ended without a run

DEFAULTS = {
    MACHINE: "",
    LEDGER: "",
    TRACE: "",
    PROGRESS: "",
    CHECKED: "0",
    ROUTER: "direct",
    GRACE: "10",
    WARN_AFTER: "60",
    REPORT_SIGNAL: "SIGUSR1",
    WAIT: "polite",
    SHARED: "",
    AGGREGATE: "",
    CHECKPOINT: "",
    CHECKPOINT_EVERY: "mtbf=24h",
    CHECKPOINT_KEEP: "2",
    RECORD: "",
    NOTICE: "",
    RECEIPT: "",
    ATTENDANCE: "",
    COMPILED: "1",
}

PROGRESSES = ("terminal", "lines")
SECONDS = (GRACE, WARN_AFTER)
OF_CHECKPOINTS = (CHECKPOINT, CHECKPOINT_EVERY, CHECKPOINT_KEEP, RECORD)
# Agreed on at the beginning of each run.
OF_RUN = (MACHINE, ROUTER, LEDGER, TRACE, PROGRESS, CHECKED, GRACE, WARN_AFTER, REPORT_SIGNAL, *OF_CHECKPOINTS)
OF_TRANSPORT = (WAIT, SHARED, AGGREGATE)  # agreed on where processors meet for the first time, as it is by them
OF_PROCESS = (COMPILED, NOTICE, RECEIPT, ATTENDANCE)  # each processor heeds its own
# Variables of such a name that are no settings: between pybsp's own processes, of its tests and of its benchmarks.
OF_OTHERS = (
    *("PYBSP_PROCESS", "PYBSP_RANKS"),
    *("PYBSP_CLUSTER", "PYBSP_SLURM", "PYBSP_PYTHONS", "PYBSP_OTHER_PYTHON", "PYBSP_TEST"),
    *("PYBSP_FAULT", "PYBSP_KILLS", "PYBSP_KILLS_MARKS"),
)

_DIGITS = 100  # fewer have all whole numbers that a variable may say
_warned = False
_processor_0s: dict[str, str] = {}  # of those that are not set here


def text(name: str) -> str:
    """What a variable says: here, else on processor 0 of the last agreement, else its default."""
    return os.environ.get(name) or _processor_0s.get(name) or DEFAULTS[name]


def progress() -> str:
    """How a run says how far it is, "" where it does not; a UsageError where there is no such way."""
    given = text(PROGRESS)
    if given not in ("", *PROGRESSES):
        raise UsageError(f"environment variable {PROGRESS}: expected one of {', '.join(PROGRESSES)}, got {given!r:.40}")
    return given


def whole(given: str) -> int:
    """The whole number that text of digits is; -1 where it is none, or one of more digits than any size has."""
    # Not all that `isdigit` takes for one is a digit to `int`, nor does that read any number of them.
    return int(given) if given.isdecimal() and len(given) < _DIGITS else -1


def seconds(name: str) -> float:
    """What a variable that holds seconds says; a UsageError where it is no number of at least 0."""
    given = text(name)
    try:
        found = float(given)
    except ValueError:
        found = -1.0
    if not found >= 0:
        zero = " (0: never)" * (name == WARN_AFTER)
        raise UsageError(f"{name}: expected seconds, a number of at least 0{zero}, got {given!r}")
    return found


def checks_enabled(checked: bool | None) -> bool:
    """Whether to check what is too dear for every superstep: the argument, else PYBSP_CHECKED."""
    return text(CHECKED) != "0" if checked is None else checked


def set_here(names: Sequence[str]) -> dict[str, str]:
    """The variables of these names that are set in this process."""
    return {name: os.environ[name] for name in names if os.environ.get(name)}


def unknown() -> dict[str, str]:
    """The variables here that have such a name and are no settings, and of each the one that is meant, "" if none."""
    names = [name for name in os.environ if name.startswith(PREFIX) and name not in DEFAULTS]
    names = sorted(set(names).difference(OF_OTHERS))
    # All begin alike, which makes none of them more likely.
    short = {name.removeprefix(PREFIX): name for name in DEFAULTS}
    return {name: short.get(nearest(name.removeprefix(PREFIX), short), "") for name in names}


def warnings() -> list[str]:
    """What is to be said of them, once in a process."""
    global _warned
    found = {} if _warned else unknown()
    _warned = True
    return [
        f"environment variable {name} is no setting, and is not heeded" + (f"; did you mean {near}?" if near else "")
        for name, near in found.items()
    ]


def agree(operation: str, names: Sequence[str], settings_of_all: Sequence[Mapping[str, str]]) -> None:
    """Settle the variables by what is set on each processor; all call this with the same.

    Args:
        settings_of_all: what is `set_here` on each processor.

    Raises:
        UsageError: one of them is set to something else than on processor 0.
    """
    first = settings_of_all[0]
    for name in names:
        for pid, settings in enumerate(settings_of_all):
            if settings.get(name, first.get(name)) != first.get(name):
                raise UsageError(
                    f"{operation}: environment variable {name}: expected the same on all processors, got "
                    f"{settings[name]!r} on processor {pid}, {_worded(first.get(name))} on processor 0; set it for "
                    "all, or for processor 0 alone, whose value is everybody's"
                )
    for name in names:
        _processor_0s[name] = first.get(name, "")


def _worded(value: str | None) -> str:
    return "nothing" if value is None else repr(value)
