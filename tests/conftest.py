"""Programs on every kind of processor: fixture `spmd` runs one on virtual processors, or on the ranks of this job.

The tests in tests/spmd/ run twice: in a plain `pytest` on virtual processors, for each p; and under mpiexec, started by
tests/test_under_mpiexec.py, on MPI ranks. Both with checks off and on.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

import pybsp

from .launching import Program

# A shell ignores Ctrl-C in what it starts in the background, and programs that tests start would ignore it too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

SIZES = (1, 2, 3, 4, 5, 8)

# No test depends on how fast a machine is, examples of hypothesis neither.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


class Spmd:
    """Runs a program on p processors, wherever this session runs them."""

    def __init__(self, p: int, checked: bool, mpi: bool) -> None:
        self.p, self.checked, self.mpi = p, checked, mpi

    def __call__(self, main: Callable[..., Any], *args: Any, **kwargs: Any) -> list[Any]:
        """The results of all processors, by pid (on MPI: on every rank)."""
        if not self.mpi:
            return pybsp.simulate(main, *args, p=self.p, checked=self.checked, **kwargs).results
        outcomes = self._on_ranks(main, *args, **kwargs)
        for _, error in outcomes:
            if error is not None and not isinstance(error, pybsp.ProcessorError):
                raise error
        return [result for result, _ in outcomes]

    def errors(self, main: Callable[..., Any], *args: Any, **kwargs: Any) -> list[BaseException | None]:
        """What each processor raised, by pid; None for one that ended well."""
        if self.mpi:
            return [error for _, error in self._on_ranks(main, *args, **kwargs)]
        raised: list[BaseException | None] = [None] * self.p

        def watched(bsp: pybsp.BSP) -> None:
            try:
                main(bsp, *args)
                bsp._superstep.finish()
            except Exception as error:
                raised[bsp.pid] = error
                raise

        try:
            pybsp.simulate(watched, p=self.p, checked=self.checked, **kwargs)
        except Exception as error:
            assert error in raised  # noqa: PT017 - what simulate raises is one of theirs
        return raised

    def _on_ranks(self, main: Callable[..., Any], *args: Any, **kwargs: Any) -> list[tuple[Any, Any]]:
        from mpi4py import MPI

        outcome: tuple[Any, Any] = (None, None)
        try:
            outcome = (pybsp.run(main, *args, checked=self.checked, **kwargs), None)
        except Exception as error:
            outcome = (None, error)
        return MPI.COMM_WORLD.allgather(outcome)


def _under_mpi(config: pytest.Config) -> bool:
    return bool(config.getoption("--with-mpi") or config.getoption("--only-mpi"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "spmd" not in metafunc.fixturenames:
        return
    mpi = _under_mpi(metafunc.config)
    if mpi:
        from mpi4py import MPI

        sizes: tuple[int, ...] = (MPI.COMM_WORLD.size,)
    else:
        sizes = SIZES
    marks = [pytest.mark.mpi] if mpi else []
    cases = [
        pytest.param(Spmd(p, checked, mpi), id=f"p{p}{'-checked' if checked else ''}", marks=marks)
        for p in sizes
        for checked in (False, True)
    ]
    metafunc.parametrize("spmd", cases)


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """Writes a program."""

    def write(text: str) -> Path:
        path = tmp_path / "program.py"
        path.write_text(dedent(text))
        return path

    return write
