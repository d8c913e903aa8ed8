"""Whether an MPI library and what started its processes speak with each other, of all that there are: libraries are
pretended, as are launchers."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import mpi4py
import pytest

from pybsp import LauncherError
from pybsp.processes import slurm
from pybsp.transport import launcher

MPICH = "MPICH Version:      5.0.2\nMPICH ABI: 18:0:6"
MPICH_PMIX = f"{MPICH}\nMPICH configure: --with-pmi=pmix"
OPEN_MPI = "Open MPI v5.0.7, package: Open MPI root@here Distribution\x00"
INTEL = "Intel(R) MPI Library 2021.13 for Linux* OS\n"
ALONE = "tasks that are to be processors alone"


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """The library of this version is loaded, and no launcher has said anything."""
    module = SimpleNamespace(Is_initialized=lambda: False, Get_library_version=lambda: request.param)
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", module)
    monkeypatch.setattr(mpi4py, "MPI", module, raising=False)
    for name in ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "MPIR_CVAR_PMI_VERSION", "I_MPI_PMI_LIBRARY"):
        monkeypatch.delenv(name, raising=False)


def started_by_srun(monkeypatch: pytest.MonkeyPatch, tasks: int, kind: str) -> None:
    monkeypatch.setattr(slurm, "step", lambda: slurm.JobStep(tasks, 0, kind))
    monkeypatch.setattr(slurm, "kinds", lambda: ["none", "pmi2", "pmix"])


@pytest.mark.parametrize("loaded", [MPICH], indirect=True)
@pytest.mark.usefixtures("loaded")
def test_open_mpis_launcher_does_not_start_mpich_unless_both_speak_pmix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "4")
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "0")
    monkeypatch.setattr(slurm, "step", lambda: None)
    with pytest.raises(LauncherError, match=r"started 4 processes, but the MPI library would see none of the others"):
        launcher.library()
    monkeypatch.setenv("MPIR_CVAR_PMI_VERSION", "PMIx")
    assert launcher.library() is sys.modules["mpi4py.MPI"]


@pytest.mark.parametrize("loaded", [OPEN_MPI], indirect=True)
@pytest.mark.usefixtures("loaded")
def test_open_mpi_starts_under_its_own_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "4")
    monkeypatch.setattr(slurm, "step", lambda: None)
    assert launcher.library() is sys.modules["mpi4py.MPI"]


@pytest.mark.fast
@pytest.mark.parametrize(
    ("loaded", "kind", "tasks", "why"),
    [
        (MPICH, "none", 4, "MPI would say of each that it is rank 0 of 1"),
        (MPICH, "none", 1, ""),
        (MPICH, "pmi2", 4, ""),
        (MPICH, "pmix", 4, "was built without PMIx"),
        (MPICH, "pmix", 1, "was built without PMIx"),
        (MPICH_PMIX, "pmix", 4, ""),
        (OPEN_MPI, "none", 2, "MPI would say of each that it is rank 0 of 1"),
        (OPEN_MPI, "pmi2", 2, "MPI would say of each that it is rank 0 of 1"),
        (OPEN_MPI, "pmi2", 1, ""),
        (OPEN_MPI, "pmix", 2, ""),
        (INTEL, "none", 2, "MPI would say of each that it is rank 0 of 1"),
        (INTEL, "pmi2", 2, ""),
        ("Somebody's MPI 1.0", "none", 2, ""),
    ],
    indirect=["loaded"],
)
@pytest.mark.usefixtures("loaded")
def test_what_srun_starts_is_refused_where_the_library_does_not_speak_with_it(
    monkeypatch: pytest.MonkeyPatch, kind: str, tasks: int, why: str
) -> None:
    started_by_srun(monkeypatch, tasks, kind)
    if not why:
        assert launcher.library() is sys.modules["mpi4py.MPI"]
        return
    with pytest.raises(LauncherError) as caught:
        launcher.library()
    text = str(caught.value)
    assert f"the launcher started {tasks} processes, but " in text
    assert why in text
    assert f"Slurm's srun with --mpi={kind}" in text
    assert ": type `srun" in text
    assert (ALONE in text) == (tasks > 1)


@pytest.mark.parametrize("loaded", [INTEL], indirect=True)
@pytest.mark.usefixtures("loaded")
def test_intels_library_speaks_with_srun_where_it_is_told_slurms_own(monkeypatch: pytest.MonkeyPatch) -> None:
    started_by_srun(monkeypatch, 2, "none")
    monkeypatch.setenv("I_MPI_PMI_LIBRARY", "/usr/lib/libpmi2.so")
    assert launcher.library() is sys.modules["mpi4py.MPI"]
