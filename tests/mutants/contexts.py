"""A pytest plugin for the map (reaching.py): coverage is told which test runs, in this process and those it starts.

python -m pytest -p tests.mutants.contexts: it runs the fast tier, and of each test that has no case there, the first.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import coverage
import pytest

from .. import tiers

VARIABLE = "PYBSP_TEST"  # the test, where processes that it starts see it: the static context of reaching.CONFIGURATION


def pytest_configure() -> None:
    # Coverage has a handler of its own for who is ended: with it tests that send themselves a signal would end here.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


@pytest.hookimpl(wrapper=True)  # before that of tests/conftest.py, which leaves out what is not of the tier
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    fast, on_ranks = tiers.fast(items), config.getoption("--only-mpi")
    known = {tiers.function(item) for item in fast}
    for item in items:
        way = tiers.way_of(item)
        if tiers.function(item) not in known and (not on_ranks or (way is not None and way.mpi)):
            known.add(tiers.function(item))
            fast.append(item)
    items[:] = fast
    config.args = ["::"]  # as if they were named: nothing is left out again
    yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    name = item.nodeid
    if item.config.getoption("--only-mpi"):
        from mpi4py import MPI

        name = f"{MPI.COMM_WORLD.size} ranks: {name}"
    else:
        os.environ[VARIABLE] = name
    running = coverage.Coverage.current()
    if running:
        running.switch_context(name)
    yield
    if running:
        running.switch_context("")
