"""A real Slurm cluster for tests, on this machine: by the script that PYBSP_SLURM names; one for all tests of a module.

The script runs a command on the controller of a cluster whose file system is its own, but for the folder of the call
and $TMPDIR. PYBSP_PYTHONS names other Pythons than this one, with colons between: of other MPI libraries.
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ..clusters import ALL_DEVICES

CHECKOUT = Path(__file__).parents[2]
SCRIPT = Path(os.environ.get("PYBSP_SLURM") or CHECKOUT.parent / "shared" / "slurm" / "slurm")
LIMIT = 120.0  # seconds, for one command
NODES, CORES = 2, 4
# In some of a hundred jobs on loaded hosts a rank of Open MPI 5 takes another's first message while it is in MPI_Init
# itself, and has no world yet (open-mpi/ompi, issue 12495): so do programs without pybsp.
CRASH = ("Segmentation fault", "mca_pml_ob1_recv_frag_callback_match", "(ompi_mpi_init+")

# Debian's plug-in for PMIx looks for libpmix.so where its package has libpmix.so.2 alone. Nothing is written unless the
# file system is another than the caller's.
PREPARE = """
if [ "$(stat -c %d /)" != "$HOST_ROOT" ]; then
  for library in /usr/lib/*/pmix2/lib/libpmix.so.2; do
    [ ! -e "$library" ] || [ -e "${library%.2}" ] || { ln -s libpmix.so.2 "${library%.2}"; scontrol reconfigure; }
  done
fi
for _ in $(seq 20); do srun -Q --mpi=pmix -N1 -n1 true 2>/dev/null && break; sleep 0.5; done
touch ready
while read -r job; do
  (bash "$job.sh" >"$job.out" 2>"$job.err" </dev/null; echo $? >"$job.tmp"; mv "$job.tmp" "$job.status") &
done
"""


def lacks() -> str:
    """What a cluster lacks here; empty where nothing does."""
    if not SCRIPT.is_file():
        return f"PYBSP_SLURM is not set to a script of a Slurm cluster, and there is no {SCRIPT}"
    absent = [tool for tool in ("unshare", "nsenter", "apt-get", "ip") if shutil.which(tool) is None]
    if absent:
        return f"the Slurm cluster's script needs {', '.join(absent)}"
    return "" if os.geteuid() == 0 else "the Slurm cluster's script needs root"


missing = lacks()


class Ended(NamedTuple):
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str


class Cluster:
    """A running cluster.

    Args:
        folder: where commands run; the cluster's nodes have it too.
        server: the process that commands are told to.
    """

    def __init__(self, folder: Path, server: subprocess.Popen[str]) -> None:
        self.folder, self._server, self._numbers = folder, server, itertools.count()

    def start(self, command: str) -> int:
        """Start a shell command on the controller; its number."""
        number = next(self._numbers)
        (self.folder / f"{number}.sh").write_text(command + "\n")
        assert self._server.stdin is not None
        self._server.stdin.write(f"{number}\n")
        self._server.stdin.flush()
        return number

    def finish(self, number: int) -> Ended:
        """Wait for a command."""
        out, err, status = (self.folder / f"{number}.{kind}" for kind in ("out", "err", "status"))
        until = time.monotonic() + LIMIT
        while not status.exists():
            assert time.monotonic() < until, f"no end within {LIMIT} s\n{out.read_text()}\n{err.read_text()}"
            assert self._server.poll() is None, "the cluster has ended"
            time.sleep(0.02)
        return Ended(int(status.read_text()), out.read_text(), err.read_text())

    def run(self, command: str) -> Ended:
        """Start a shell command and wait for it; again where Open MPI has crashed in its own MPI_Init."""
        ended = self.finish(self.start(command))
        return self.finish(self.start(command)) if all(name in ended.err for name in CRASH) else ended

    def printed(self, number: int, text: str) -> None:
        """Wait until a command has printed a text."""
        out, until = self.folder / f"{number}.out", time.monotonic() + LIMIT
        while not (out.exists() and text in out.read_text()):
            assert time.monotonic() < until, self.finish(number)
            time.sleep(0.02)


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """A cluster of NODES nodes, as long as the block lasts."""
    (folder / "serve.sh").write_text(PREPARE)
    environment = {
        **os.environ,
        **ALL_DEVICES,
        "PYTHONPATH": str(CHECKOUT),
        "HOST_ROOT": str(os.stat("/").st_dev),
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }
    server = subprocess.Popen(
        [str(SCRIPT), "-n", str(NODES), "-c", str(CORES), "--", "bash", "serve.sh"],
        cwd=folder,
        env=environment,
        stdin=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        until = time.monotonic() + LIMIT
        while not (folder / "ready").exists():
            assert server.poll() is None, "the cluster did not start"
            assert time.monotonic() < until, "the cluster did not start in time"
            time.sleep(0.05)
        yield Cluster(folder, server)
    finally:
        os.killpg(server.pid, signal.SIGKILL)  # its namespaces go with it
        server.wait()
        assert server.stdin is not None
        server.stdin.close()


@cache
def pythons() -> dict[str, str]:
    """Pythons by the MPI library that they load: this one's, and those of PYBSP_PYTHONS."""
    found: dict[str, str] = {}
    others = [place for place in os.environ.get("PYBSP_PYTHONS", "").split(":") if place]
    ask = "import mpi4py; mpi4py.rc.initialize = False; from mpi4py import MPI; print(MPI.Get_library_version())"
    for place in (sys.executable, *others):
        said = subprocess.run([place, "-c", ask], capture_output=True, text=True, check=False).stdout
        for family in ("Open MPI", "Intel", "MPICH"):
            if family in said:
                found.setdefault(family, place)
                break
    return found
