"""Where the processors of a job are, and what one needs to know of the machine to read its figures.

What a raw file begins with ("about"):

    p               processors
    hosts, nodes    host name and node number of each; processors of one node share memory
    cores           of each processor: cores that those of its node may run on, together
    affinity        of each processor: the cores that it may run on; [] where the system does not say
    load            of each node: the load average of the last minute, before the calibration began
    cpu             of each node: what its processors call themselves
    date            when it began, UTC
    versions        of pybsp, Python, numpy, mpi4py, MPI
    timer           "overhead" of a reading and "resolution", seconds; the worst processor's
    seed, level, word (bytes), only (parts), budget (seconds or null), launches    as asked for
    virtual         whether the machine was simulated
"""

from __future__ import annotations

import os
import platform
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pybsp.ground.decoding import (
    anything,
    each,
    fields,
    flag,
    number,
    one_of,
    optional,
    require_each,
    table,
    text,
    whole,
)
from pybsp.ground.versions import now, versions
from pybsp.machines.placement import nodes_of
from pybsp.processes.process import affinity, load
from pybsp.transport.placement import cores_together

if TYPE_CHECKING:
    from mpi4py import MPI


_ABOUT = fields(
    {"p": whole(1, 2**31 - 1), "hosts": each(text), "nodes": each(whole()), "seed": whole()},
    {
        "cores": each(whole()),
        "affinity": each(each(whole())),
        "load": each(optional(number())),
        "cpu": each(text),
        "date": text,
        "versions": table(text),
        "timer": table(number()),
        "level": one_of("quick", "default", "thorough"),
        "only": each(text),
        "word": whole(1),
        "budget": optional(number(above=True)),
        "launches": whole(1),
        "virtual": flag,
        "method": text,
    },
    others=anything,
)


def about(value: Any) -> dict[str, Any]:
    """The decoder of all this, in raw files and machine files (`pybsp.ground.decoding`)."""
    found: dict[str, Any] = _ABOUT(value)
    require_each(found, ("hosts", "nodes", "cores", "affinity"))
    return found


def of_job(comm: MPI.Intracomm) -> dict[str, Any]:
    """What is known of the ranks of a communicator: the same on all of them. Collective."""
    from mpi4py import MPI

    together = comm.Split_type(MPI.COMM_TYPE_SHARED)
    try:
        first: int = together.bcast(comm.rank)
    finally:
        together.Free()
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    found = comm.allgather((socket.gethostname(), first, cores, affinity(), load(), processor()))
    nodes = nodes_of([(host, shared) for host, shared, *_ in found])
    leaders = [nodes.index(node) for node in range(max(nodes) + 1)]
    return {
        "p": comm.size,
        "hosts": [one[0] for one in found],
        "nodes": nodes,
        "cores": cores_together(nodes, [one[3] for one in found]),
        "affinity": [one[2] for one in found],
        "load": [found[leader][4] for leader in leaders],
        "cpu": [found[leader][5] for leader in leaders],
        "date": now(),
        "versions": versions(virtual=False),
        "virtual": False,
    }


def of_virtual(p: int) -> dict[str, Any]:
    """The same of p virtual processors."""
    return {
        "p": p,
        "hosts": [socket.gethostname()] * p,
        "nodes": [0] * p,
        "cores": [p] * p,
        "affinity": [[] for _ in range(p)],
        "load": [0.0],
        "cpu": ["virtual"],
        "date": now(),
        "versions": versions(virtual=True),
        "virtual": True,
    }


def processor() -> str:
    """What the machine calls its processor."""
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
