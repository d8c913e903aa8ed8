"""Threads of numpy's libraries (BLAS, OpenMP): as many a rank as there are cores for it.

By themselves these libraries take every core of the host, on every rank: then an inner product of two ranks on two
cores takes ten times as long as with a thread each, as threads wait for others that have no core. And threads that a
library has started wait for work, 0.1 s long, on cores which other ranks want for their first supersteps.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ..ground.managed import managed
from ..processes import process

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

_beside: weakref.WeakSet[threading.Thread] = weakref.WeakSet()
_found: tuple[int, ThreadpoolController] | None = None  # with how many modules there were


def beside(work: Callable[[], object], name: str) -> threading.Thread:
    """A thread of pybsp's own beside the program: it computes nothing, and keeps no process alive."""
    thread = threading.Thread(target=work, name=name, daemon=True)
    _beside.add(thread)
    return thread


def share(ranks: int, cores: int) -> int:
    """Threads for each of so many ranks of this host, which may run on so many cores together."""
    return max(1, min(cores // ranks, process.allowed_cores()))


def of_ranks(ranks: int) -> dict[str, str]:
    """Environment variables for ranks that are all to be on this host: then no library starts more than their share.

    None where the user has said how many: see `limited`, which does the same to libraries that are there already.
    """
    return (
        {} if ranks == 1 or _user_has_chosen() else dict.fromkeys(VARIABLES, str(share(ranks, process.allowed_cores())))
    )


def in_use() -> int:
    """Threads that the libraries which are loaded take at most; 1 where none is."""
    return max((one["num_threads"] for one in _libraries().info()), default=1)


@managed
def limited(ranks: int, cores: int) -> Iterator[None]:
    """In the block libraries take this rank's share of the cores, unless the user has said how many.

    That is by an environment variable, or in the program: by another number than a library takes by itself, which is a
    thread for each core. What was set here is as it was after the block.

    Args:
        ranks: of this host.
        cores: that they may run on.
    """
    most = share(ranks, cores)
    if ranks == 1 or _user_has_chosen():
        yield
        return
    libraries = _libraries()
    of_host = process.cores()
    by_themselves = {of_host, process.allowed_cores(), min(of_host, BUILT_FOR)}
    untouched = all(one["num_threads"] in by_themselves for one in libraries.info())
    os.environ.update(dict.fromkeys(VARIABLES, str(most)))
    limit = libraries.limit(limits=most) if untouched else None
    if limit is not None:
        _end_idle(libraries)
    try:
        yield
    finally:
        for name in VARIABLES:
            os.environ.pop(name, None)
        if limit is not None:
            limit.restore_original_limits()  # which starts them again, and they would spin beside the next run
            _end_idle(libraries)


def _end_idle(libraries: ThreadpoolController) -> None:
    """End the threads that OpenBLAS has started, as it does itself at a fork; it starts them again for who needs them.

    Those of numpy 2.5 and later are not to be had: the call is not exported there. Not where the program has threads of
    its own, one of which may be in the library; those of pybsp never are.
    """
    ours = {one.ident for one in _beside}
    if len(sys._current_frames().keys() - ours) > 1:  # `threading` does not know all
        return
    for one in libraries.info():
        if one["internal_api"] == "openblas" and one["threading_layer"] == "pthreads":
            getattr(ctypes.CDLL(one["filepath"]), "blas_thread_shutdown_", int)()


def _user_has_chosen() -> bool:
    return any(name in os.environ for name in VARIABLES)


def _libraries() -> ThreadpoolController:
    """Those that are loaded; to look for them takes 0.3 ms, and is done when modules have come since."""
    global _found
    from threadpoolctl import ThreadpoolController

    loaded = len(sys.modules)
    if _found is None or _found[0] != loaded:
        _found = (loaded, ThreadpoolController())
    return _found[1]
