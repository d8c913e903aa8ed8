"""Emulated hosts for tests, by what works here: the script that PYBSP_CLUSTER names, or `pybsp emulate`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from pybsp.benchmarks.emulation import hosts, launch
from pybsp.benchmarks.studies.frame import EmulatedNetwork
from pybsp.errors import LauncherError

CHECKOUT = Path(__file__).parent.parent
SCRIPT = Path(os.environ.get("PYBSP_CLUSTER") or CHECKOUT.parent / "shared" / "cluster" / "cluster")
# The mpiexec beside this Python comes first, as in `pybsp run`.
SEARCH = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
NEEDS = ("gcc", "ip", "unshare", "setpriv", "flock", "mpiexec")
ALL_DEVICES = {"UCX_NET_DEVICES": "all"}  # which conftest.py takes away
ENVIRONMENT = {"PATH": SEARCH, "PYBSP_CLUSTER": str(SCRIPT), **ALL_DEVICES}  # for what starts programs on a cluster


def script_lacks() -> str:
    """What the script lacks here; empty where nothing does."""
    if not SCRIPT.is_file():
        return f"PYBSP_CLUSTER is not set to a cluster script, and there is no {SCRIPT}"
    absent = [tool for tool in NEEDS if shutil.which(tool, path=SEARCH) is None]
    if absent:
        return f"the cluster script needs {', '.join(absent)} on PATH"
    if os.geteuid() != 0 or not Path("/dev/net/tun").exists():
        return "the cluster script needs root and /dev/net/tun"
    mpiexec = str(shutil.which("mpiexec", path=SEARCH))
    version = subprocess.run([mpiexec, "--version"], capture_output=True, text=True, check=False).stdout
    return "" if "hydra" in version.lower() else "the cluster script needs MPICH's mpiexec (Hydra) first on PATH"


def emulate_lacks() -> str:
    """What `pybsp emulate` lacks here, which is tried; empty where nothing does."""
    try:
        launch.find_mpiexec()
        with launch.turn(), hosts.Hosts(1):
            return ""
    except LauncherError as error:
        return str(error)


_SCRIPT = script_lacks()
_EMULATE = emulate_lacks() if _SCRIPT else ""
EMULATOR = "pybsp" if _SCRIPT else "script"
missing = f"no emulated hosts: {_SCRIPT}; {_EMULATE}" if _SCRIPT and _EMULATE else ""


def on_hosts(count: int, program: list[str], ranks: int = 1, latency: int = 1000, rate: int = 200) -> list[str]:
    """The command that runs a program on so many hosts.

    Args:
        ranks: of each host.
        latency: microseconds, one way.
        rate: of the hosts' lines, in Mbit/s.
    """
    return EmulatedNetwork(count, latency, rate, ranks, EMULATOR).command(program)
