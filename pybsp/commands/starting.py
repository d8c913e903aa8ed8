"""How `pybsp run` starts ranks here: by srun where that works in an allocation, else by the library's mpiexec."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import NamedTuple

from ..errors import LauncherError
from ..processes import process, slurm
from ..processes.mpiexec import launcher
from .configured import VARIABLES, Choice

_OWN = Path(__file__).resolve().parents[1]


class Start(NamedTuple):
    """What starts ranks, what it starts, and why it is this one."""

    launcher: list[str]
    program: list[str]
    why: str

    @property
    def command(self) -> list[str]:
        return [*self.launcher, *self.program]


def start(n: int, program: Sequence[str], exported: Sequence[str], hosts: str = "", labelled: bool = False) -> Start:
    """The command that runs a program on n ranks.

    Args:
        program: its file and arguments.
        exported: environment variables that must reach all ranks.
        hosts: "a,b:2"; empty: where the launcher puts them.
        labelled: whether lines are to carry their rank.

    Raises:
        LauncherError: there is no launcher, or this is one of several tasks of a step, or ranks of one, each of which
            would start one.
    """
    _require_one_task(program)
    python = [sys.executable, *program]
    tasks = slurm.allocated()
    if tasks and not hosts:
        version = _library_version()
        there = slurm.kinds()
        for kind in slurm.fitting(version) if version else ():
            if kind in there and slurm.works(kind):
                # --kill-on-bad-exit: else a rank that was killed would leave the others waiting for it.
                command = ["srun", f"--mpi={kind}", f"--ntasks={n}", "--export=ALL", "--kill-on-bad-exit=1"]
                command += ["--label"] * labelled
                return Start(command, python, f"an allocation of {tasks} tasks; {in_short(version)} speaks {kind}")
    if labelled:
        python = [sys.executable, "-m", "pybsp.commands.labelled", *program]
    why = "the mpiexec that belongs to this Python, else the first on PATH"
    if slurm.inside():
        why = f"in a Slurm step, whose resources the ranks share; {why}"
    if tasks and not hosts:
        why = f"an allocation of {tasks} tasks, whose srun has no kind that works with the library; {why}"
    return Start(launcher(n, exported, hosts), python, why)


def _require_one_task(program: Sequence[str]) -> None:
    step = slurm.step()
    if step is not None and step.tasks > 1:
        raise LauncherError(
            f"this is task {step.task} of a Slurm step of {step.tasks}, each of which would start ranks of its own: "
            f"{slurm.advice(_library_version(), shlex.join(program))}"
        )
    size, rank = process.launched()
    if size > 1 and process.takes_part():
        raise LauncherError(
            f"this is process {rank} of {size} that a launcher has started, each of which would start ranks of its "
            f"own: type `mpiexec -n {size} {shlex.join(['python', *program])}`, or leave that mpiexec out"
        )


def _library_version() -> str:
    from ..transport.launcher import library_version  # and with it numpy, which takes longer than all else here

    return library_version()


def in_short(version: str) -> str:
    """The name and number in what an MPI library says of its version."""
    return " ".join(version.rstrip("\x00").split("\n")[0].split(",")[0].split())


def refuse_shadow(program: str) -> None:
    """Raise LauncherError where `import pybsp` in a program would find something else beside it."""
    folder = Path(program).resolve().parent
    found = PathFinder.find_spec("pybsp", [str(folder), *sys.path[1:]])
    if found is None:
        return
    places = [*(found.submodule_search_locations or []), *([found.origin] if found.origin else [])]
    wrong = [place for place in places if not _is_pybsp(Path(place))]
    beside = next((place for place in wrong if Path(place).resolve().is_relative_to(folder)), None)
    if beside is not None:
        raise LauncherError(
            f"program {program}: {beside} lies beside it, and `import pybsp` would find that in place of the package "
            f"({_OWN}); give it another name"
        )


def _is_pybsp(place: Path) -> bool:
    """Whether a place is this package, or that of a clone of the same version, which works as well."""
    version = (place if place.is_dir() else place.parent) / "_version.py"
    return version.is_file() and version.read_bytes() == (_OWN / "_version.py").read_bytes()


def explained(choices: Mapping[str, Choice], environment: Mapping[str, str], start: Start) -> str:
    """What `pybsp run --explain` prints.

    Args:
        environment: of the call, before the choices were put into it.
    """
    chosen = {VARIABLES[key] for key in choices if key in VARIABLES}
    lines = [f"{key + ':':14}{what.value}  ({what.source})" for key, what in choices.items()]
    lines += [
        f"{name + ':':13} {value}  (environment variable)"
        for name, value in sorted(environment.items())
        if name.startswith("PYBSP_") and name not in chosen
    ]
    return "\n".join([*lines, f"{'starts by:':14}{start.why}", f"{'command:':14}{shlex.join(start.command)}"])
