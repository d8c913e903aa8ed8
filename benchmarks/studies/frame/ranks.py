"""Functions on MPI ranks that are started for them: under mpiexec here, or on emulated hosts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pybsp.processes.mpiexec import launcher
from pybsp.runs import threads

EMULATORS = ("script", "pybsp")


class EmulatedNetwork(NamedTuple):
    """An emulated cluster.

    Args:
        hosts: how many.
        latency: microseconds, one way.
        rate: Mbit/s of every host's line.
        ranks: of each host.
        emulator: "script" (beside the checkout, or where PYBSP_CLUSTER says), or "pybsp" (`pybsp emulate`).
        changes: of the link, as `pybsp emulate --change` has them; only with that emulator.
    """

    hosts: int
    latency: int
    rate: int
    ranks: int = 1
    emulator: str = "script"
    changes: tuple[str, ...] = ()

    @property
    def p(self) -> int:
        """All ranks."""
        return self.hosts * self.ranks

    def command(self, program: Sequence[str]) -> list[str]:
        """What runs a program on it."""
        if self.emulator == "script":
            setting = ["-n", self.hosts, "-p", self.ranks, "-l", self.latency, "-b", self.rate]
            return [str(cluster_script()), *map(str, setting), "--", *program]
        hosts = ["-n", str(self.hosts), "--ranks-per-host", str(self.ranks)]
        link = ["--latency", f"{self.latency}us" if self.latency else "0", "--rate", f"{self.rate}mbit"]
        changes = [argument for change in self.changes for argument in ("--change", change)]
        return [sys.executable, "-m", "pybsp", "emulate", *hosts, *link, *changes, "--", *program]


BESIDE = Path(__file__).resolve().parents[4] / "shared" / "cluster" / "cluster"  # the checkout


def usual_emulator() -> str:
    """The script, whose switch is the kernel's, where there is one; else pybsp's own, which takes a core."""
    return "script" if Path(os.environ.get("PYBSP_CLUSTER") or BESIDE).is_file() else "pybsp"


def cluster_script() -> Path:
    """The script that emulates a cluster.

    Raises:
        SystemExit: it is not there.
    """
    script = Path(os.environ.get("PYBSP_CLUSTER") or BESIDE)
    if not script.is_file():
        sys.exit(
            f"no emulated cluster: PYBSP_CLUSTER is not set to its script, and there is no {BESIDE}; without "
            "--latency and --rate the ranks run under mpiexec here"
        )
    return script


def on_ranks(
    function: Callable[..., Any],
    *arguments: Any,
    n: int,
    network: EmulatedNetwork | None = None,
    limit: float | None = None,
) -> Any:
    """What a function returns on the first of the ranks that are started for it, each of which calls it.

    Args:
        function: of a module, by its name there.
        arguments: JSON; and so is what it returns.
        n: ranks.
        network: of hosts with n ranks in all; None: under mpiexec here.
        limit: seconds, at most.

    Raises:
        subprocess.CalledProcessError: the ranks failed.
    """
    module = function.__module__
    if module == "__main__":  # python -m has the module's own name
        module = sys.modules["__main__"].__spec__.name  # type: ignore[union-attr]
    with tempfile.TemporaryDirectory(prefix="pybsp-study-") as scratch:
        asked, result = Path(scratch) / "asked.json", Path(scratch) / "result.json"
        asked.write_text(json.dumps([module, function.__qualname__, arguments]))
        program = [sys.executable, "-m", f"{__package__}.worker", str(asked), str(result)]
        command = [*launcher(n), *program] if network is None else network.command(program)
        subprocess.run(command, check=True, timeout=limit, env=environment(n))
        return json.loads(result.read_text())


def run_program(
    program: Sequence[str], n: int, network: EmulatedNetwork | None = None, limit: float | None = None, **variables: str
) -> None:
    """Run a Python program, with its arguments, on ranks; what it prints is lost where it ends well.

    Args:
        n: ranks.
        network: of hosts with n ranks in all; None: under mpiexec here.
        limit: seconds, at most.
        variables: of its environment, beside this process's.

    Raises:
        subprocess.CalledProcessError: it failed.
    """
    command = [sys.executable, *program]
    command = [*launcher(n, tuple(variables)), *command] if network is None else network.command(command)
    there = {**environment(n), **variables}
    done = subprocess.run(command, env=there, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=limit)
    if done.returncode:
        print(done.stdout + done.stderr, file=sys.stderr)
        done.check_returncode()


def environment(n: int) -> dict[str, str]:
    """This process's, for n ranks on its cores, with the mpiexec beside this Python first, as in `pybsp run`."""
    search = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)])
    return {**os.environ, **threads.of_ranks(n), "PATH": search}


def library() -> str:
    """The name and version of the MPI library; on a rank."""
    from mpi4py import MPI

    return " ".join(MPI.Get_library_version().strip("\x00 \n").split("\n")[0].split(",")[0].split())
