"""The processes of a job on this host: which of them is a processor, and which have ended.

A launcher's variables say which rank a process is, and all that it starts inherits them. The first process to import
pybsp under a launcher is the rank; those that it forks or starts are not, unless another launcher starts them.

What a launcher has started on this host are its children, which /proc tells. Where there is no /proc, or no launcher in
it that is known by name, nothing is concluded.
"""

from __future__ import annotations

import atexit
import io
import math
import os
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Protocol
from weakref import ref

from . import slurm

# MPICH's, Open MPI's, Slurm's; as the kernel has them, 15 characters at most.
LAUNCHERS = frozenset(
    ("hydra_pmi_proxy", "mpiexec", "mpiexec.hydra", "mpirun", "orterun", "orted", "prterun", "prted", "slurmstepd")
)
SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE")
RANKS = ("PMI_RANK", "OMPI_COMM_WORLD_RANK")
_RANKS_OF_STEPS = (*RANKS, "SLURM_PROCID")
_HERE = ("MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE")  # ranks on this host
MOST_PROCESSORS = 2**31 - 1  # as many as MPI counts
_MARK = "PYBSP_PROCESS"  # which process is the rank: set for those that it starts


def launched() -> tuple[int, int]:
    """Number of processes that a launcher started beside this one (1 without a launcher), and this one's number."""
    for size, rank in zip(SIZES, RANKS, strict=True):
        if os.environ.get(size, "").isdecimal():
            return int(os.environ[size]), int(os.environ.get(rank, "0"))
    step = slurm.step()
    return (step.tasks, step.task) if step else (1, 0)


def takes_part() -> bool:
    """Whether this process is the rank, and no child of it; where no launcher started several, every process is."""
    return not _several or (_first and os.getpid() == _own)


class OfRank(Protocol):
    """What the program calls on a rank, and what nobody may call in a process that the rank has forked."""

    def refuse(self, why: str) -> None:
        """Raise UsageError, which ends with `why`, in whatever is called from now on."""


FORGET = 64  # after so many more, those that are gone: a program may have thousands
_of_rank: list[ref[OfRank]] = []  # no WeakSet: what a signal's handler raises in one that lets something go is lost


def keep_from_children(one: OfRank) -> None:
    """Have it refuse in what this process forks: that would speak as the rank, or say what nobody hears."""
    if _several:
        if len(_of_rank) % FORGET == 0:
            _of_rank[:] = [known for known in _of_rank if known() is not None]
        _of_rank.append(ref(one))


def why_no_processor() -> str:
    """Of a process that a rank has forked, for errors: why it is none."""
    size, rank = launched()
    return (
        f"this process was forked by processor {rank} of {size}, and is no processor itself: have that one do this, "
        "with what it needs for that; pybsp.simulate works here"
    )


def _in_child() -> None:
    if not takes_part():
        for known in _of_rank:
            if (one := known()) is not None:
                one.refuse(why_no_processor())


os.register_at_fork(after_in_child=_in_child)


class Siblings:
    """The processes that this one's launcher started on this host, one a rank, as far as they are known."""

    def __init__(self, launcher: int) -> None:
        self._launcher, self._since = launcher, time.monotonic()
        self._ranks: dict[int, int] = {}  # of the processes that were seen
        self._expected = next((int(os.environ[name]) for name in _HERE if os.environ.get(name, "").isdecimal()), 0)
        self._expected = self._expected or slurm.tasks_here()

    @property
    def several(self) -> bool:
        """Whether there are others, of which is known when they end."""
        return bool(self._launcher) and max(self._expected, len(set(self._ranks.values()))) > 1

    @property
    def elsewhere(self) -> bool:
        """Whether there are ranks on other hosts too; the same on all of them."""
        return bool(self._launcher) and 0 < self._expected < launched()[0]

    def ended(self, grace: float) -> list[int]:
        """The ranks on this host that will make no run any more: their process has ended, or is about to.

        Args:
            grace: seconds, from the beginning of this process, in which the launcher has started all. One that was
                never seen has ended before: it has no number here, and stands in the answer as -1.
        """
        if not self._launcher:
            return []
        alive, unknown = set(), False
        for pid in _children(self._launcher):
            if pid not in self._ranks:
                rank = _rank_of(pid)
                if rank is None:
                    unknown = True
                    continue
                self._ranks[pid] = rank
            if _alive(pid):
                alive.add(self._ranks[pid])
        gone = set(self._ranks.values()) - alive
        gone |= {rank for rank in alive if _taken(_left(rank))}
        unseen = self._expected > len(set(self._ranks.values())) and not unknown
        if unseen and time.monotonic() > self._since + grace:
            gone.add(-1)
        return sorted(gone)


def leave() -> None:
    """Say that this rank ends without a run, as long as its process is there."""
    _take(_left(launched()[1]))


def speaks(about: str = "") -> bool:
    """Whether this is the first process of its launcher, on this host, that asks: one alone says what all find."""
    return not _job or _take(f"{_job} speaks {about}")


def _left(rank: int) -> str:
    return f"{_job} rank {rank} left"


def _take(name: str) -> bool:
    """Take a name, which no other process of this host then gets; True as well where there are no such names."""
    try:
        endpoint = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            endpoint.bind(f"\0pybsp {name}")
        except OSError:
            endpoint.close()
            return False
    except (OSError, AttributeError):
        return True
    endpoint.detach()  # open until the process ends, and not only until Python does, which may wait in MPI_Finalize
    return True


def _taken(name: str) -> bool:
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as asking:
            asking.connect(f"\0pybsp {name}")
    except (OSError, AttributeError):
        return False
    return True


# -- /proc -------------------------------------------------------------------------------------------------------------


def _stat(pid: int) -> tuple[str, list[str]] | None:
    """A process's name, and what /proc says after it: its state, its parent, ...; None where there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    return text[text.index("(") + 1 : text.rindex(")")], text[text.rindex(")") + 2 :].split()


def _alive(pid: int) -> bool:
    found = _stat(pid)
    return found is not None and found[1][0] not in "ZX"


def _launcher() -> tuple[int, str]:
    """The launcher that started this process or one above it, and what tells it from all others; (0, "") if unknown."""
    pid = os.getpid()
    while pid > 1 and (found := _stat(pid)) is not None:
        if found[0] in LAUNCHERS:
            return pid, f"{pid} {found[1][19]}"  # with the time of its start: numbers are used again
        pid = int(found[1][1])
    return 0, ""


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError):
                found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
    return found


def _rank_of(pid: int) -> int | None:
    """The rank that a launcher gave a process; None where it cannot be seen, or is none."""
    try:
        content = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return None
    variables = dict(entry.partition(b"=")[::2] for entry in content.split(b"\0"))
    for name in _RANKS_OF_STEPS:
        text = variables.get(name.encode(), b"")
        if text.isdigit():
            return int(text)
    return None


# -- the end -----------------------------------------------------------------------------------------------------------

_last: list[Callable[[], object]] = []


def at_end(last: Callable[[], object]) -> None:
    """Call something when this process ends, after what others have registered, and in none of its children."""
    _last.append(last)


def _end() -> None:
    if os.getpid() == _own:
        for last in _last:
            last()
    elif "mpi4py.MPI" in sys.modules:
        from .finalizer import forget

        with suppress(OSError, ValueError):  # not Linux, or a CPython that is made otherwise
            forget(str(sys.modules["mpi4py.MPI"].__file__))


atexit.register(_end)  # at import, so that it comes after what is registered later

# -- this process ------------------------------------------------------------------------------------------------------

_own = os.getpid()
_several = launched()[0] > 1
_first = True
_job = ""
siblings = Siblings(0)


@cache
def running(module: str) -> list[str]:
    """The command that runs a module of this very pybsp: with `-m` one in the folder of the call would come before."""
    root = str(Path(__file__).parents[2])
    program = f"import runpy, sys; sys.path[0] = {root!r}; runpy.run_module({module!r}, None, '__main__', True)"
    return [sys.executable, "-c", program]


def cores() -> int:
    """The cores of this host. Asking the system takes 30 us."""
    return os.cpu_count() or 1


def allowed_cores() -> int:
    """The number of cores that this process may run on."""
    return affinity().bit_count()


def affinity() -> int:
    """The cores that this process may run on: a bit for each."""
    if hasattr(os, "sched_getaffinity"):
        return sum(1 << core for core in os.sched_getaffinity(0))
    return (1 << cores()) - 1


def load() -> float:
    """The load average of the last minute; 0 where the system does not say."""
    try:
        return os.getloadavg()[0]
    except (OSError, AttributeError):
        return 0.0


def is_busy(load: float, cores: int) -> bool:
    """Whether at such a load average others used these cores too much for what is measured on them."""
    return load > cores / 2


def _write_lines() -> None:
    """Outputs that are unbuffered write lines: each piece of a print at once (PYTHONUNBUFFERED), ranks' would mix."""
    for stream, own in ((sys.stdout, sys.__stdout__), (sys.stderr, sys.__stderr__)):
        if stream is own and isinstance(stream, io.TextIOWrapper) and stream.write_through:  # else it is the program's
            stream.reconfigure(write_through=False, line_buffering=True)


def _begin() -> None:
    """Find out, at import, whether this is the rank."""
    global _first, _job, siblings
    if not _several:
        return
    pid, _job = _launcher()
    # Where no launcher is known, what it says to the process tells one from another.
    _job = _job or " ".join(os.environ.get(name, "") for name in (*SIZES, *_RANKS_OF_STEPS, "PMI_FD", "PMIX_NAMESPACE"))
    job, _, marked = os.environ.get(_MARK, "").rpartition(" ")
    _first = job != _job or marked == str(_own)  # a program that was executed in place of another is the same process
    if _first:
        os.environ[_MARK] = f"{_job} {_own}"
        _write_lines()
        siblings = Siblings(pid)
        siblings.ended(math.inf)  # those that are seen now are missed later


_begin()
