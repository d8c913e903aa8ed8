"""The MPI library and the launcher that started this process: whether they belong together, and the end of the job."""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import NoReturn

from ..errors import LauncherError
from ..ground.announcing import flush
from ..processes import attendance, process, slurm
from ..processes.process import SIZES, launched
from .pmi import short_requests

DRAIN = 0.2  # seconds that a launcher gets to read what was printed, before an abort makes it drop the rest

# Called before this process ends the job, with what it says of that, if anything.
last_words: list[Callable[[str], object]] = []
_leave = os._exit  # before others let it say that it is called


def under_launcher() -> bool:
    """Whether a launcher started this process: one that says how many there are, PMIx, or srun with several tasks."""
    step = slurm.step()  # of one task may be a shell: `srun --pty bash`
    return (
        "PMIX_RANK" in os.environ
        or (step is not None and step.tasks > 1)
        or any(os.environ.get(size, "").isdecimal() for size in SIZES)
    )


def library() -> ModuleType:
    """The module mpi4py.MPI; MPI is not initialised by this.

    Raises:
        ImportError, RuntimeError: no MPI library can be loaded.
        LauncherError: the library cannot speak with this launcher.
    """
    MPI = _module()
    if not MPI.Is_initialized():  # as `_module` leaves it, or the host has set mpi4py.rc.initialize = False
        speaks_pmix = os.environ.get("MPIR_CVAR_PMI_VERSION", "").lower() == "pmix"
        if "OMPI_COMM_WORLD_SIZE" in os.environ and "MPICH" in MPI.Get_library_version() and not speaks_pmix:
            raise _foreign(launched()[0], "the MPI library would see none of the others")
        step = slurm.step()
        if step is not None:
            _check_step(step, MPI.Get_library_version())
    return MPI


def library_version() -> str:
    """What the MPI library says of itself, whatever the launcher; empty where none can be loaded."""
    try:
        return str(_module().Get_library_version())
    except (ImportError, RuntimeError, OSError):
        return ""


def _module() -> ModuleType:
    import mpi4py

    # Open MPI's UCX component prints an error at each window, before another component makes it.
    os.environ.setdefault("OMPI_MCA_osc", "^ucx")
    if "mpi4py.MPI" not in sys.modules:
        mpi4py.rc.thread_level = _thread_level()
        look_beside(Path(mpi4py.__file__))
        initialize, finalize = mpi4py.rc.initialize, mpi4py.rc.finalize
        # Look first which library it is: MPICH's init would end the process under Open MPI's launcher. And where mpi4py
        # finalizes MPI, it does so in processes too that this one has forked, which speak as this rank then.
        mpi4py.rc.initialize = mpi4py.rc.finalize = False
        with warnings.catch_warnings():
            # mpi4py warns on each rank of a launcher that does not belong to the library; _foreign says what to do.
            warnings.filterwarnings("ignore", message="suspicious MPI", category=RuntimeWarning)
            from mpi4py import MPI
        mpi4py.rc.initialize, mpi4py.rc.finalize = initialize, finalize
    from mpi4py import MPI

    return MPI


def look_beside(module: Path) -> None:
    """Have mpi4py, where it would find no MPI library, look where it lies itself.

    It looks below sys.prefix, and in environments in layers (`uv run --with`) the library is in another one.
    """
    own, others = Path(sys.prefix) / "lib", [place for place in module.parents if place.name in ("lib", "lib64")]
    if not any(own.glob("libmpi.so*")) and any(others[0].glob("libmpi.so*") if others else ()):
        os.environ.setdefault("MPI4PY_LIBMPI", str(others[0]))


def _check_step(step: slurm.JobStep, version: str) -> None:
    """Raise LauncherError where a library is known not to speak with srun; it would say so in words of its own."""
    if version.startswith("MPICH") and "pmix" not in version.lower() and step.kind == "pmix":
        raise _foreign(step.tasks, "the MPI library was built without PMIx, and would end each of them")
    known = version.startswith(("MPICH Version", "Open MPI", "Intel(R) MPI"))
    unspoken = step.kind == "none" or ("Open MPI" in version and step.kind == "pmi2")
    if step.tasks > 1 and known and unspoken and "I_MPI_PMI_LIBRARY" not in os.environ:
        raise _foreign(step.tasks, "MPI would say of each that it is rank 0 of 1")
    if "Open MPI" in version and "native" in os.environ.get("PMIX_SECURITY_MODE", ""):
        # PMIx would look for its plug-in for munge first, and complain on each rank that it is not there.
        os.environ.setdefault("PMIX_MCA_psec", "native")


def load() -> ModuleType:
    """The module mpi4py.MPI, with MPI initialised.

    MPI that a host program set up is used as it is. Where pybsp is first, it asks for SERIALIZED threads: one thread
    calls MPI at a time, and MULTIPLE costs MPICH 2 us a call.

    Raises:
        ImportError, RuntimeError: no MPI library can be loaded.
        LauncherError: the library cannot start under this launcher.
    """
    MPI = sys.modules.get("mpi4py.MPI")
    if MPI is None or not MPI.Is_initialized():
        MPI = library()
    if not MPI.Is_initialized():
        with short_requests(MPI.Get_library_version()):
            MPI.Init_thread(getattr(MPI, f"THREAD_{_thread_level().upper()}"))
        finalize = MPI.Finalize
        process.at_end(lambda: None if MPI.Is_finalized() else finalize())
    return MPI


def _thread_level() -> str:
    import mpi4py

    level = mpi4py.rc.thread_level
    return "serialized" if level == "multiple" else level  # mpi4py's default: nobody asked for anything else


def threads_allowed() -> bool:
    """Whether another thread than the main one may call MPI, one at a time."""
    from mpi4py import MPI

    return bool(MPI.Query_thread() >= MPI.THREAD_SERIALIZED)


def check_launcher(size: int) -> None:
    """Raise LauncherError where a launcher started several processes and the library sees one."""
    expected, _ = launched()
    if size == 1 and expected > 1:
        raise _foreign(expected, "MPI says of each that it is rank 0 of 1")


def _foreign(expected: int, why: str) -> LauncherError:
    from mpi4py import MPI

    library = " ".join(MPI.Get_library_version().rstrip("\x00").split("\n")[0].split(",")[0].split())
    step = slurm.step()
    if step is not None:
        way = slurm.advice(MPI.Get_library_version())
        alone = (
            ""
            if step.tasks == 1
            else ("; tasks that are to be processors alone: `srun env -u SLURM_STEP_NUM_TASKS python program.py`")
        )
        return LauncherError(
            f"pybsp: the launcher started {expected} processes, but {why}: the launcher is Slurm's srun with "
            f"--mpi={step.kind}, the MPI library that Python loads is {library!r}: {way}{alone}"
        )
    launcher = "MPICH's (Hydra)" if "PMI_SIZE" in os.environ else "Open MPI's"
    return LauncherError(
        f"pybsp: the launcher started {expected} processes, but {why}: the launcher is {launcher}, the MPI library "
        f"that Python loads is {library!r}. Use the mpiexec that belongs to the library (`pybsp run -n {expected} "
        f"program.py` finds the one beside {sys.executable}), or set MPI4PY_MPIABI / install the wheel that belongs to "
        "the launcher"
    )


def abort_job(why: str = "") -> NoReturn:
    """End all ranks of the job, also those outside of a communicator that is in use."""
    from mpi4py import MPI

    try:
        for say in last_words:
            with suppress(Exception):
                say(why)
        flush()
        attendance.take_leave(attendance.END)
        time.sleep(DRAIN)
    finally:  # whatever becomes of the words, an interrupt among them, the job is to end
        if MPI.Is_initialized() and not MPI.Is_finalized():
            MPI.COMM_WORLD.Abort(1)
        _leave(1)  # MPICH's Abort can return before the launcher has ended this process
