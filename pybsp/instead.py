"""What there is on a BSP processor instead of some names, those of mpi4py above all: for the error about one."""

from __future__ import annotations

_CALLED = {  # of mpi4py, in small letters, and of collectives: the collective
    "allgather": "allgather",
    "allgatherv": "allgather_blocks",
    "allreduce": "allreduce",
    "alltoall": "total_exchange",
    "alltoallv": "total_exchange_blocks",
    "bcast": "broadcast",
    "broadcast": "broadcast",
    "exscan": "exclusive_prefix",
    "gather": "gather",
    "gatherv": "gather_blocks",
    "prefix": "prefix",
    "reduce": "reduce",
    "scan": "prefix",
    "scatter": "scatter",
    "scatterv": "scatter_blocks",
    "sort": "sort",
    "total_exchange": "total_exchange",
}
_OTHERS = {
    "barrier": "bsp.sync() ends the superstep on all processors",
    "get_rank": "bsp.pid is the number of this processor",
    "get_size": "bsp.p is the number of processors",
    "irecv": "bsp.inbox has what was sent in the superstep before",
    "isend": "bsp.send sends at once, and bsp.sync() brings it",
    "nprocs": "bsp.p is the number of processors",
    "rank": "bsp.pid is the number of this processor",
    "recv": "bsp.inbox has what was sent in the superstep before",
    "size": "bsp.p is the number of processors",
    "values": "values are those of a queue: queue = bsp.queue()",
}


def instead_of(name: str) -> str:
    """What there is instead of `bsp.name`, in words; empty where nothing is known."""
    small = name.lower()
    if small in _CALLED:
        return f"call collectives.{_CALLED[small]}(bsp, ...), after `from pybsp import collectives`"
    return _OTHERS.get(small, "")
