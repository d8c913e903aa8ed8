"""What there is on a BSP processor instead of some names, those of mpi4py above all: for the error about one."""

from __future__ import annotations

_COLLECTIVES = [
    "allgather",
    "allgather_blocks",
    "allreduce",
    "argmax",
    "argmin",
    "argsort",
    "balanced_sort",
    "bitonic_sort",
    "broadcast",
    "broadcast_items",
    "duplicate",
    "exclusive_prefix",
    "gather",
    "gather_blocks",
    "group_by",
    "histogram",
    "prefix",
    "prefix_2d",
    "random_permutation",
    "redistribute",
    "reduce",
    "reduce_scatter",
    "sample_sort",
    "scatter",
    "scatter_blocks",
    "segmented_prefix",
    "sort",
    "top_k",
    "total_exchange",
    "total_exchange_blocks",
    "unique",
]
_CALLED = {  # of mpi4py, in small letters: the collective
    **{name: name for name in _COLLECTIVES},
    "allgatherv": "allgather_blocks",
    "alltoall": "total_exchange",
    "alltoallv": "total_exchange_blocks",
    "bcast": "broadcast",
    "exscan": "exclusive_prefix",
    "gatherv": "gather_blocks",
    "scan": "prefix",
    "scatterv": "scatter_blocks",
}
_OTHERS = {
    "Send": "bsp.send sends, and bsp.sync() brings it",
    "barrier": "bsp.sync() ends the superstep on all processors",
    "get_rank": "bsp.pid is the number of this processor",
    "get_size": "bsp.p is the number of processors",
    "irecv": "bsp.inbox has what was sent in the superstep before",
    "isend": "bsp.send sends, and bsp.sync() brings it",
    "nprocs": "bsp.p is the number of processors",
    "rank": "bsp.pid is the number of this processor",
    "recv": "bsp.inbox has what was sent in the superstep before",
    "sendrecv": "bsp.send sends, bsp.sync() brings it, and bsp.inbox has what came",
    "size": "bsp.p is the number of processors",
    "values": "values are those of a queue: queue = bsp.queue()",
}


def instead_of(name: str) -> str:
    """What there is instead of `bsp.name`, in words; empty where nothing is known."""
    small = name.lower()
    if small in _CALLED:
        return f"call collectives.{_CALLED[small]}(bsp, ...), after `from pybsp import collectives`"
    return _OTHERS.get(name, _OTHERS.get(small, ""))
