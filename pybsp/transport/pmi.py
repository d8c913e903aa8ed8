"""What an MPI library asks Slurm while it starts, by PMI: in requests that Slurm reads whole.

Slurm's plug-in reads at most 1024 bytes of a request of PMI-1, and says that a value may have 1024: a request that
holds such a value is cut, and MPI_Init fails. MPICH 5 sends as its address 4096 bytes, in pieces as long as values may
be: those of the address and what lies in memory after it. Where this is zeros, runs of which are sent as their length,
the requests are short; where it is texts of a Python program they are not, and the start fails.

So a process in between, while MPI starts, says that values are shorter.
"""

from __future__ import annotations

import os
import re
import select
import signal
import socket
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from ..processes import slurm

FILE = "PMI_FD"  # the variable that has the number of the file by which an MPI library speaks with what started it
# Bytes of a value, even: with its key and names, of 64, 21 and 42 bytes at most, a request is shorter than the 1024
# bytes that Slurm reads of one.
_LONGEST = 896
_ANSWER = re.compile(rb"(vallen_max=)(\d+)")


@contextmanager
def short_requests(version: str) -> Iterator[None]:
    """In this block an MPI library, which starts, makes no request that Slurm would cut.

    Args:
        version: what MPI_Get_library_version says of the library.
    """
    step = slurm.step()
    number = os.environ.get(FILE, "")
    if step is None or step.kind != "pmi2" or not version.startswith("MPICH") or not number.isdecimal():
        yield
        return
    file = int(number)
    slurms, ours = os.dup(file), socket.socketpair()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a fork beside other threads; the child calls nothing that locks
        child = os.fork()
    if child == 0:
        try:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # who interrupts a step interrupts all of its processes
            ours[0].close()
            os.close(file)
            _pass_on(ours[1].fileno(), slurms)
        finally:
            os._exit(0)
    os.dup2(ours[0].fileno(), file)
    for end in ours:
        end.close()
    try:
        yield
    finally:
        os.dup2(slurms, file)  # no request is on its way; the child sees that nobody else has the other end
        os.close(slurms)
        os.waitpid(child, 0)


def _pass_on(library: int, slurms: int) -> None:
    """Pass on requests and answers, until the library has none any more."""
    while True:
        ready, _, _ = select.select([library, slurms], [], [])
        for source, dest in ((library, slurms), (slurms, library)):
            if source in ready:
                data = os.read(source, 1 << 16)
                if not data:
                    return
                if source == slurms:
                    data = _ANSWER.sub(lambda found: found[1] + b"%d" % min(int(found[2]), _LONGEST), data)
                os.write(dest, data)
