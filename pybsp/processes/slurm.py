"""What Slurm says of this process by its variables, and what `srun` can do here.

An allocation (`salloc`, `sbatch`) is no step: only `srun` starts the tasks of one, and tells each of them how many
there are. Which protocol the tasks speak with it (`srun --mpi=...`) is to be one that the MPI library knows.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import NamedTuple

from ..errors import usage_error

LAUNCHER_INSIDE = ("MPI_LOCALNRANKS", "OMPI_COMM_WORLD_SIZE")  # a launcher's that srun has started: Hydra's, Open MPI's
_LIMIT = 20.0  # seconds for what Slurm's commands are asked
_NAMED = 16  # hosts of an allocation that are named one by one
_LAST_STEP = 4294967280  # of steps that srun makes; those of batch scripts and interactive shells come after it


class JobStep(NamedTuple):
    """The step that this process is a task of.

    Attributes:
        tasks: how many it has.
        task: the number of this one.
        kind: the protocol between them and Slurm: "pmi2", "pmix" or "none".
    """

    tasks: int
    task: int
    kind: str


def step(variables: Mapping[str, str] = os.environ) -> JobStep | None:
    """The step of these variables; None outside of one, and below a launcher that a step has started."""
    tasks, task = variables.get("SLURM_STEP_NUM_TASKS", ""), variables.get("SLURM_PROCID", "")
    if not (tasks.isdecimal() and task.isdecimal()) or any(name in variables for name in LAUNCHER_INSIDE):
        return None
    kind = "pmix" if "PMIX_RANK" in variables else "pmi2" if "PMI_SIZE" in variables else "none"
    return JobStep(int(tasks), int(task), kind)


def inside(variables: Mapping[str, str] = os.environ) -> bool:
    """Whether a step of `srun` has started this process, however indirectly; the shell of `salloc` is none."""
    number = variables.get("SLURM_STEP_ID", "")
    return bool(variables.get("SLURM_JOB_ID")) and number.isdecimal() and int(number) < _LAST_STEP


def tasks_here(variables: Mapping[str, str] = os.environ) -> int:
    """Tasks of the step on this node; 0 where it is not known."""
    node = variables.get("SLURM_NODEID", "")
    if step(variables) is None or not node.isdecimal():
        return 0
    counts: list[int] = []
    for count, times in re.findall(r"(\d+)(?:\(x(\d+)\))?", variables.get("SLURM_STEP_TASKS_PER_NODE", "")):
        counts += [int(count)] * int(times or 1)
    return counts[int(node)] if int(node) < len(counts) else 0


def allocated(variables: Mapping[str, str] = os.environ) -> int:
    """Tasks of the allocation that this process may start steps in; 0 outside of one, and in a step."""
    if not variables.get("SLURM_JOB_ID") or any(name in variables for name in LAUNCHER_INSIDE):
        return 0
    if inside(variables):
        return 0
    for name in ("SLURM_NTASKS", "SLURM_NPROCS"):
        if variables.get(name, "").isdecimal():
            return int(variables[name])
    # Without --ntasks Slurm says how many there may be on each node.
    found = re.findall(r"(\d+)(?:\(x(\d+)\))?", variables.get("SLURM_TASKS_PER_NODE", ""))
    return sum(int(count) * int(times or 1) for count, times in found)


def nodes(variables: Mapping[str, str] = os.environ) -> list[str]:
    """The hosts of the allocation that this process is in; empty outside of one, and where Slurm does not say."""
    listed = variables.get("SLURM_JOB_NODELIST", "") if variables.get("SLURM_JOB_ID") else ""
    if "[" in listed:
        return _answer("scontrol", "show", "hostnames", listed)[0].split()
    return listed.split(",") if listed else []


def require_nodes(argument: str, hosts: str, variables: Mapping[str, str] = os.environ) -> None:
    """Raise UsageError for a host outside of the allocation: srun starts nothing there, and launchers wait for it.

    Args:
        argument: that names the hosts.
        hosts: "a,b:2".
    """
    there = nodes(variables) if hosts else []
    for host in hosts.split(",") if there else ():
        name = host.partition(":")[0].strip()
        if name not in there:
            named = ", ".join(there) if len(there) <= _NAMED else variables["SLURM_JOB_NODELIST"]
            expected = f"hosts of this Slurm allocation, which are {named}"
            raise usage_error(argument, expected, f"{name!r}", "without it ranks run on all of them")


def kinds() -> list[str]:
    """What `srun --mpi=list` names; empty where there is no srun."""
    return re.findall(r"^(?:srun:)?\s+(\w+)\s*$", "".join(_answer("srun", "--mpi=list")), re.MULTILINE)


def _answer(*command: str) -> tuple[str, str]:
    """What a command of Slurm's prints, on both outputs; nothing where there is none, or it takes too long."""
    import subprocess  # ranks ask Slurm nothing, and start without it

    try:
        requested = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_LIMIT)
    except (OSError, subprocess.TimeoutExpired):
        return "", ""
    return requested.stdout, requested.stderr


def works(kind: str) -> bool:
    """Whether a step of one task starts with a kind: some that are listed cannot be loaded."""
    import subprocess  # likewise

    requested = ["srun", f"--mpi={kind}", "--ntasks=1", "--nodes=1", "true"]
    try:
        return subprocess.run(requested, capture_output=True, stdin=subprocess.DEVNULL, timeout=_LIMIT).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def fitting(library: str) -> tuple[str, ...]:
    """The kinds that an MPI library speaks, the best first.

    Args:
        library: what MPI_Get_library_version says of it.
    """
    if "Open MPI" in library:
        return ("pmix",)
    if "Intel" in library:
        return ("pmi2", "pmix")
    if library.upper().startswith("CRAY"):
        return ("cray_shasta", "pmi2")
    return ("pmi2", "pmix") if "pmix" in library.lower() else ("pmi2",)


def command(kind: str, program: str = "program.py") -> str:
    """What to type for a step; --kill-on-bad-exit: else a rank that was killed leaves the others waiting for it."""
    return f"srun --kill-on-bad-exit=1 --mpi={kind} python {program}"


def advice(library: str, program: str = "program.py") -> str:
    """What to type where srun's kind does not fit a library: one that this Slurm has, or the library's own launcher."""
    there = kinds()
    usable = [kind for kind in fitting(library) if kind in there or not there]
    own = f"in an allocation (salloc, sbatch), `pybsp run {program}`"
    if usable:
        return f"type `{command(usable[0], program)}`; or, {own}"
    return f"this Slurm has {', '.join(there)}, none of which the library speaks ({', '.join(fitting(library))}): {own}"
