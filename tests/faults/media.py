"""What carries the messages of a run, and with which MPI library."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from pybsp.processes.mpiexec import launcher

TESTS = Path(__file__).resolve().parent.parent


class Medium(NamedTuple):
    """The environment and the router of a run; router "logp.run": a LogP program without a router.

    slow: how many times fewer points are tried of it.
    """

    name: str
    p: int
    router: str = "direct"
    environment: tuple[tuple[str, str], ...] = ()
    nodes: int = 0  # ranks of a pretended node; 0: they are where they are
    slow: int = 1


_MESSAGES = (("PYBSP_SHARED", "0"),)

MEDIA = {
    medium.name: medium
    for medium in (
        Medium("shared memory", 3),
        Medium("messages", 3, environment=_MESSAGES),
        Medium("nodes", 3, environment=(("PYBSP_AGGREGATE", "0"),), nodes=2),
        Medium("aggregated", 3, environment=(("PYBSP_AGGREGATE", "1"),), nodes=2),
        Medium("sparse", 3, "sparse"),
        Medium("two-phase", 3, "two-phase"),
        Medium("hypercube", 3, "hypercube"),
        Medium("hypercube over messages", 2, "hypercube", _MESSAGES),
        Medium("multibutterfly", 3, "multibutterfly", slow=8),
        Medium("logp-sorted", 3, "logp-sorted", slow=4),
        Medium("logp-random", 3, "logp-random", slow=4),
        Medium("logp-offline", 3, "logp-offline", slow=4),
        Medium("logp.run", 3, "logp.run"),
    )
}


class Library(NamedTuple):
    """An MPI library: the Python that has it, and how that starts ranks."""

    name: str
    python: str

    def command(self, p: int) -> list[str]:
        """What starts p ranks of this Python."""
        if self.python == sys.executable:
            return [*launcher(p), self.python]
        asked = (
            "import sys; from pybsp.processes.mpiexec import launcher; print(*launcher(int(sys.argv[1])), sep='\\n')"
        )
        done = subprocess.run([self.python, "-c", asked, str(p)], capture_output=True, text=True, check=True)
        return [*done.stdout.splitlines(), self.python]


def library(python: str = sys.executable) -> Library:
    """The one that a Python loads."""
    asked = "from mpi4py import MPI; print(MPI.Get_library_version().split()[0])"
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    done = subprocess.run([python, "-c", asked], capture_output=True, text=True, check=True, env=environment)
    return Library("MPICH" if "MPICH" in done.stdout else "Open MPI", python)


def environment(medium: Medium, grace: float) -> dict[str, str]:
    """Variables of a job."""
    paths = [str(TESTS.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    if medium.nodes:
        paths.insert(0, str(TESTS / "pretended"))
    return {
        "PYTHONPATH": os.pathsep.join(paths),
        "PYBSP_GRACE": f"{grace:g}",
        "PRETENDED_NODES": str(medium.nodes or ""),
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        **dict(medium.environment),
    }
