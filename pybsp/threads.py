"""Threads of numpy's libraries (BLAS, OpenMP): as many a rank as there are cores for it.

By themselves these libraries take every core of the host, on every rank: then an inner product of two ranks on two
cores takes ten times as long as with a thread each, as threads wait for others that have no core.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from . import process
from .managed import managed

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

# What a user sets: then nothing is set here. A library that is loaded later heeds them too.
VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)
BUILT_FOR = 64  # threads, at most, that the libraries in numpy's wheels take

_found: tuple[int, ThreadpoolController] | None = None  # with how many modules there were


def share(ranks: int) -> int:
    """Threads for each of so many ranks of this host."""
    return max(1, min(process.cores() // ranks, process.allowed_cores()))


def in_use() -> int:
    """Threads that the libraries which are loaded take at most; 1 where none is."""
    return max((one["num_threads"] for one in _libraries().info()), default=1)


@managed
def limited(ranks: int) -> Iterator[None]:
    """In the block libraries take this rank's share of the host's cores, unless the user has said how many.

    That is by an environment variable, or in the program: by another number than a library takes by itself, which is a
    thread for each core. What was set here is as it was after the block.

    Args:
        ranks: of this host.
    """
    most = share(ranks)
    if ranks == 1 or any(name in os.environ for name in VARIABLES):
        yield
        return
    libraries = _libraries()
    cores = process.cores()
    by_themselves = {cores, process.allowed_cores(), min(cores, BUILT_FOR)}
    untouched = all(one["num_threads"] in by_themselves for one in libraries.info())
    os.environ.update(dict.fromkeys(VARIABLES, str(most)))
    limit = libraries.limit(limits=most) if untouched else None
    try:
        yield
    finally:
        if limit is not None:
            limit.restore_original_limits()
        for name in VARIABLES:
            os.environ.pop(name, None)


def _libraries() -> ThreadpoolController:
    """Those that are loaded; to look for them takes 0.3 ms, and is done when modules have come since."""
    global _found
    from threadpoolctl import ThreadpoolController

    loaded = len(sys.modules)
    if _found is None or _found[0] != loaded:
        _found = (loaded, ThreadpoolController())
    return _found[1]
