"""What dead jobs have left in shared memory: found by name, proven to be nobody's, removed.

An MPI library keeps files in /dev/shm, by which the ranks of a node find their shared memory, and unlinks them when all
have ended well. Where ranks are killed they stay: 1 MB a rank of MPICH, which fills the 64 MB of a container after some
dozen jobs.

Whether anybody uses a file cannot be read in /proc: processes in other containers, which may share /dev/shm, are not
seen there, and some that are seen may not be examined. The kernel knows: it grants a write lease on a file only while
nobody else, in any namespace, has it open or mapped. A job that is just starting is safe too: both libraries open a
file in the call that creates it, and keep it open, or mapped, from then on, so that there is no time at which it looks
abandoned. Only between its creation and the moment at which the kernel counts it as open it would: it is empty then,
and empty files stay.

As long as the lease is held, whoever opens the file waits, and the lease says so. So the proof holds up to the call
that unlinks the file.
"""

from __future__ import annotations

import fcntl
import os
import re
import signal
import sys
from typing import NamedTuple

SHARED_MEMORY = "/dev/shm"

# Not mpich_shar_tmp*, of MPICH's windows: one that is about to be mapped may be open nowhere. They are unlinked as soon
# as all ranks have mapped them.
NAMES = re.compile(
    r"mpich_(shm|vci)_[0-9a-f]+_\d+"  # MPICH: world, node
    r"|(sm|vader)_segment\..+\.[0-9a-f]+\.\d+"  # Open MPI, and before 5: host, user, job, rank
    r"|osc_sm\..+\.[0-9a-f]+\.\d+\.\w+"  # its windows: host, job, rank, communicator
    r"|ucx_shm_posix_[0-9a-f]+"  # UCX, below either
)
LOCAL_RANKS = (
    "MPI_LOCALRANKID",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "SLURM_LOCALID",
)  # as launchers say it; a batch system last


class Removed(NamedTuple):
    """What was done.

    Attributes:
        files: that were removed.
        bytes: of memory that they held.
        remaining: other files of such names: in use, of another user, or not proven to be neither.
    """

    files: int
    bytes: int
    remaining: int


def make_room() -> None:
    """Remove what earlier jobs have left on this node, if this process is its first rank; before MPI is initialised.

    Takes 0.2 ms where /dev/shm holds 500 other files, and 10 us for each that a library may have left.
    """
    if next((os.environ[name] for name in LOCAL_RANKS if name in os.environ), None) == "0":
        remove()


def remove(folder: str = SHARED_MEMORY) -> Removed:
    """Remove this user's files of MPI libraries that provably no process has open or mapped.

    What cannot be proven, or removed, stays without a word: also all that is on a file system which other kernels may
    reach, or on systems without leases (any but Linux; a file system in memory has them since Linux 5.3).

    Args:
        folder: where the files are.
    """
    files = freed = remaining = 0
    if sys.platform == "linux":
        try:
            directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            return Removed(0, 0, 0)
        try:
            names = [name for name in os.listdir(directory) if NAMES.fullmatch(name)]
            local = bool(names) and _in_memory(os.fstat(directory).st_dev)
            for name in names:
                size = _remove(directory, name) if local else None
                if size is None:
                    remaining += 1
                else:
                    files, freed = files + 1, freed + size
        finally:
            os.close(directory)
    return Removed(files, freed, remaining)


def _remove(directory: int, name: str) -> int | None:
    """Remove a file if it is this user's and nobody uses it; the bytes that it held, or None if it stays."""
    assert sys.platform == "linux"
    try:
        # Nobody is waited for: not another one who holds a lease, nor who would write to a pipe of that name.
        file = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    except OSError:
        return None
    try:
        found = os.fstat(file)
        if found.st_uid != os.geteuid() or not found.st_size:
            return None
        # Who opens the file from here on sends a signal: SIGIO, which would end this process, if not told otherwise.
        fcntl.fcntl(file, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)  # only on a plain file
        if fcntl.fcntl(file, fcntl.F_GETLEASE) != fcntl.F_WRLCK:
            return None
        os.unlink(name, dir_fd=directory)
    except OSError:
        return None
    finally:
        os.close(file)
    return found.st_blocks * 512


def _in_memory(device: int) -> bool:
    """Whether a file system is in the memory of this kernel, which alone knows who has its files open."""
    number = f"{os.major(device)}:{os.minor(device)}"
    try:
        with open("/proc/self/mountinfo") as mounts:
            for line in mounts:
                mount, _, kind = line.partition(" - ")
                if mount.split()[2] == number:
                    return kind.startswith("tmpfs ")
    except OSError:
        pass
    return False
