"""Which command starts processes as MPI ranks."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from ..errors import LauncherError
from . import process, slurm

# Of launchers and resource managers: what ranks inherit of them would be taken for a word about these ranks.
FOREIGN = ("PMI_", "PMIX_", "OMPI_COMM_WORLD_", "OMPI_UNIVERSE_", "MPI_LOCAL", "PYBSP_PROCESS")


def default_count() -> int:
    """Ranks where nobody says how many: all tasks of the allocation, else the cores that this process may run on."""
    return slurm.allocated() or process.allowed_cores()


def whence_count() -> str:
    """Where that number comes from, in words."""
    return "tasks of the allocation" if slurm.allocated() else "cores that may be used"


def launcher(n: int, exported: Sequence[str] = (), hosts: str = "") -> list[str]:
    """The command that starts n processes: the mpiexec beside this Python (it came with the library), else on PATH.

    Args:
        n: processes.
        exported: environment variables that must reach processes on other hosts.
        hosts: where they run, "a,b:2" with as many as there are cores to use; empty: where the launcher puts them.

    Raises:
        LauncherError: there is no mpiexec.
    """
    beside = Path(sys.executable).parent / "mpiexec"
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if found is None:
        raise LauncherError(
            f"no mpiexec beside {sys.executable} nor on PATH; pip install mpich brings one, and "
            "`pybsp simulate -p N program.py` needs none"
        )
    command = [*_out_of_step(), found, "-n", str(n)]
    version = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout
    if "Open MPI" in version or "prte" in version.lower():
        # A step has as many slots as tasks, and a host that is named one, or its number.
        slots = sum(int(count) if count.isdecimal() else 1 for count in re.findall(r"[^,:]+:?([^,]*)", hosts))
        if hosts and n > slots:
            command += ["--map-by", "node:OVERSUBSCRIBE"]  # else the first host would get them all
        elif not hosts and (slurm.inside() or n > default_count()):
            command += ["--map-by", ":OVERSUBSCRIBE"]
        for variable in exported:
            command += ["-x", variable]
        return command + ["--host", hosts] * bool(hosts)
    return command + ["-hosts", hosts] * bool(hosts)


def _out_of_step() -> list[str]:
    """What stands before a launcher in a step of Slurm, as `srun --pty bash` makes one; empty elsewhere.

    Hydra asks srun for steps of its own, which would wait for what this one has: they share it. What Slurm says to a
    task, of this step or of Hydra's, would be said to all ranks.
    """
    if not slurm.inside():
        return []
    foreign = sorted(name for name in os.environ if name.startswith(FOREIGN))
    return ["env", *(word for name in foreign for word in ("-u", name)), "SLURM_OVERLAP=1", "SLURM_MPI_TYPE=none"]
