"""Which command starts processes as MPI ranks."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from . import slurm
from .errors import LauncherError


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
    command = [found, "-n", str(n)]
    version = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout
    if "Open MPI" in version or "prte" in version.lower():
        if hosts or n > (slurm.allocated() or os.cpu_count() or 1):  # a host that is named has one slot
            command += ["--map-by", ":OVERSUBSCRIBE"]
        for variable in exported:
            command += ["-x", variable]
        return command + ["--host", hosts] * bool(hosts)
    return command + ["-hosts", hosts] * bool(hosts)
