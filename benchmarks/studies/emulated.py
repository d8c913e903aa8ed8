"""How the scripts here start programs: under mpiexec on this machine, or on emulated hosts."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NamedTuple

from pybsp.benchmarks.studies.collectives import cluster_script
from pybsp.cli import launcher

EMULATORS = ("script", "pybsp")


class Network(NamedTuple):
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

    def command(self, program: Sequence[str]) -> list[str]:
        """What runs a program on it."""
        if self.emulator == "script":
            setting = ["-n", self.hosts, "-p", self.ranks, "-l", self.latency, "-b", self.rate]
            return [str(cluster_script()), *map(str, setting), "--", *program]
        hosts = ["-n", str(self.hosts), "--ranks-per-host", str(self.ranks)]
        link = ["--latency", f"{self.latency}us" if self.latency else "0", "--rate", f"{self.rate}mbit"]
        changes = [argument for change in self.changes for argument in ("--change", change)]
        return [sys.executable, "-m", "pybsp", "emulate", *hosts, *link, *changes, "--", *program]


def command(program: Sequence[str], ranks: int, network: Network | None = None) -> list[str]:
    """What runs a program on emulated hosts, or under mpiexec on this machine."""
    return [*launcher(ranks), *program] if network is None else network.command(program)


def environment() -> dict[str, str]:
    """This process's, with the mpiexec beside this Python first, as in `pybsp run`."""
    search = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)])
    return {**os.environ, "PATH": search}
