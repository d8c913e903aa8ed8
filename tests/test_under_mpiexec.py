"""The tests in tests/spmd/ on MPI ranks: each p is one mpiexec with a time limit."""

from __future__ import annotations

from pathlib import Path

import pytest

from .launching import sessions_passed
from .tiers import ON_RANKS, SIZES

HERE = Path(__file__).parent
LIMIT = 1500  # seconds for one p; a hanging test is ended by pytest-timeout before


@pytest.mark.fast(str(ON_RANKS))
@pytest.mark.timeout(LIMIT + 30)
@pytest.mark.parametrize("p", SIZES)
def test_spmd_tests_pass_on_mpi_ranks(p: int, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    every = ["--all"] if pytestconfig.getoption("--all") else []
    sessions_passed(p, tmp_path, LIMIT, *every, str(HERE / "spmd"))
