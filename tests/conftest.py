"""Programs on every kind of processor: fixture `spmd` runs one on virtual processors, or on the ranks of this job.

The tests in tests/spmd/ run twice: in a plain `pytest` on virtual processors, for each p; and under mpiexec, started by
tests/test_under_mpiexec.py, on MPI ranks. Both with checks off and on. A plain `pytest` runs a part of these cases, and
`pytest --all` all of them (tiers.py).
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings

# Tests start programs by the hundred. Where Python is told to write no bytecode (PYTHONDONTWRITEBYTECODE), each of them
# would compile pybsp anew, which takes longer than what it does: so there the bytecode goes to a folder of pytest.
if sys.dont_write_bytecode:
    sys.dont_write_bytecode = False
    sys.pycache_prefix = str(Path(__file__).parent.parent / ".pytest_cache" / "bytecode")
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix
    del os.environ["PYTHONDONTWRITEBYTECODE"]

# Tests start ranks by the hundred, which compute little: they start in less time without threads of BLAS, and where
# MPICH's UCX neither patches the functions for memory nor serves its state as files.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("UCX_MEM_EVENTS", "n")
os.environ.setdefault("UCX_VFS_ENABLE", "n")

# Emulated hosts of one test come and go while others run: MPICH's UCX prints errors of their links where ranks print,
# and a rank that starts fails where it has just seen one. Ranks of tests on hosts take all (clusters.py).
os.environ.setdefault("UCX_LOG_LEVEL", "fatal")
os.environ.setdefault("UCX_NET_DEVICES", "lo")
# No machine file that a user's `pybsp run --calibrate` has kept decides what tests see, nor does the width of a
# terminal, which a pytest of several processes tells them.
os.environ["XDG_CACHE_HOME"] = str(Path(__file__).parent.parent / ".pytest_cache" / "user")
os.environ.pop("COLUMNS", None)

import pybsp
from pybsp.transport.waiting import Waiter

from . import tiers
from .launching import Program

if TYPE_CHECKING:
    from mpi4py import MPI

Test = TypeVar("Test", bound=Callable[..., None])

pytest_plugins = ["pybsp.pytest_plugin"]  # installed packages offer it by themselves

# A shell ignores Ctrl-C in what it starts in the background, and programs that tests start would ignore it too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


class Spmd(tiers.Way):
    """Runs a program on p processors, wherever this session runs them."""

    variants = 2

    def __init__(self, p: int, checked: bool, mpi: bool) -> None:
        self.p, self.checked, self.mpi = p, checked, mpi
        self.variant, self.id = int(checked), f"p{p}-checked" if checked else f"p{p}"

    def __call__(self, main: Callable[..., Any], *args: Any, **kwargs: Any) -> list[Any]:
        """The results of all processors, by pid (on MPI: on every rank)."""
        if not self.mpi:
            return pybsp.simulate(main, *args, p=self.p, checked=self.checked, **kwargs).results
        outcomes = self._on_ranks(main, *args, **kwargs)
        errors = [error for _, error in outcomes if error is not None]
        if errors:
            raise next((error for error in errors if not isinstance(error, pybsp.ProcessorError)), errors[0])
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
        outcome: tuple[Any, Any] = (None, None)
        try:
            outcome = (pybsp.run(main, *args, checked=self.checked, **kwargs), None)
        except Exception as error:
            outcome = (None, error)
        return gathered(outcome)


def gathered(value: Any) -> list[Any]:
    """The values of all ranks. A blocking call of MPI would spin on a core that the other ranks need."""
    import numpy as np
    from mpi4py import MPI

    comm, waiter = MPI.COMM_WORLD, Waiter()
    waiter.crowd()

    def wait(request: MPI.Request) -> None:
        request.Test() or waiter.until(MPI.Request.Test, request)

    text = MPI.pickle.dumps(value)
    sizes = np.empty(comm.size, np.int64)
    wait(comm.Iallgather(np.array([len(text)]), sizes))
    texts = [bytearray(text if rank == comm.rank else int(size)) for rank, size in enumerate(sizes)]
    # Not an Iallgatherv: where sizes differ, Intel MPI's takes 100,000 looks for a megabyte.
    for request in [comm.Ibcast(each, rank) for rank, each in enumerate(texts)]:
        wait(request)
    return [MPI.pickle.loads(each) for each in texts]


def under_mpi(config: pytest.Config) -> bool:
    """Whether this session is one of ranks."""
    return bool(config.getoption("--with-mpi") or config.getoption("--only-mpi"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="run the whole matrix of cases (tests/tiers.py), not a part")


def pytest_configure(config: pytest.Config) -> None:
    tiers.all_cases = bool(config.getoption("--all"))
    # No test depends on how fast a machine is, examples of hypothesis neither.
    slow = [HealthCheck.too_slow]
    settings.register_profile("ours", max_examples=tiers.some(100), deadline=None, suppress_health_check=slow)
    settings.load_profile("ours")
    config.addinivalue_line("markers", "whole: only `pytest --all` runs this test")
    config.addinivalue_line("markers", "fast(*ids): a plain `pytest` runs only these cases of this test, or all")


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Run all tests in two processes, where there are two cores: half of them start ranks, half compute on one core."""
    one_of_two = "PYTEST_XDIST_WORKER" in os.environ  # which come by here as well
    two = config.pluginmanager.hasplugin("xdist") and (os.cpu_count() or 1) > 1 and not one_of_two
    named = config.args_source is not pytest.Config.ArgsSource.TESTPATHS
    if two and not named and config.option.numprocesses is None and not config.option.usepdb:
        config.option.numprocesses, config.option.dist = 2, "worksteal"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if tiers.CHECKED in metafunc.fixturenames:
        metafunc.parametrize(tiers.CHECKED, [False, True], ids=tiers.CHECKS, indirect=True)
    if "spmd" not in metafunc.fixturenames:
        return
    mpi = under_mpi(metafunc.config)
    if mpi:
        from mpi4py import MPI

        sizes: tuple[int, ...] = (MPI.COMM_WORLD.size,)
    else:
        sizes = tiers.SIZES
    marks = [pytest.mark.mpi] if mpi else []
    cases = [Spmd(p, checked, mpi) for p in sizes for checked in (False, True)]
    metafunc.parametrize("spmd", [pytest.param(spmd, id=spmd.id, marks=marks) for spmd in cases])


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Thousands of cases stay until the end: nothing looks through them for garbage, now or while tests run."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Nor what is still there after a file's tests: what they import, and what they have computed once for all."""
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()


@pytest.hookimpl(tryfirst=True)  # pytest sorts what is left by its fixtures
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    unlike = [item.nodeid for item in items if " at 0x" in item.nodeid]
    if unlike:
        raise pytest.UsageError(f"a case's name must be the same in every process, got {unlike[0]}; give it an id")
    items.sort(key=lambda item: item.path.name != "test_under_mpiexec.py")  # they take longest
    if any("::" in argument for argument in config.args):  # who names a test wants it
        return
    if under_mpi(config):  # a test marked bsp is for the number of ranks that this job has
        items[:] = [item for item in items if not (isinstance(way := tiers.way_of(item), tiers.Marked) and not way.mpi)]
    taken = tiers.whole(items) if config.getoption("--all") else tiers.fast(items)
    kept = set(taken)
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = taken


@pytest.fixture(autouse=True)
def _settings_of_one_test() -> Iterator[None]:
    """What a command that a test calls in this process puts into the environment goes with the test."""
    before = {name: value for name, value in os.environ.items() if name.startswith("PYBSP_")}
    yield
    for name in [name for name in os.environ if name.startswith("PYBSP_") and name not in before]:
        del os.environ[name]
    os.environ.update(before)


@pytest.fixture
def checks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks are off or on, for a test that is a program: one of the pytest plugin, `on_processors`."""
    monkeypatch.setenv("PYBSP_CHECKED", str(int(request.param)))


def on_processors(test: Test) -> Test:
    """A test that is a program: on each number of processors, with checks off and on, here and on ranks."""
    marked: Test = pytest.mark.bsp(p=tiers.SIZES)(pytest.mark.usefixtures(tiers.CHECKED)(test))
    return marked


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """Writes a program."""

    def write(text: str) -> Path:
        path = tmp_path / "program.py"
        path.write_text(dedent(text))
        return path

    return write
