"""The pytest plugin: the same tests on virtual processors, on ranks that it starts, and under mpiexec."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace
from typing import Any
from unittest import SkipTest
from unittest.mock import Mock

import pytest
from hypothesis.errors import UnsatisfiedAssumption

import pybsp
from pybsp import pytest_plugin
from pybsp.ground.failures import outcome
from pybsp.testing import verdict

from .launching import Ended, mpiexec, run

pytestmark = pytest.mark.timeout(200)

PYTEST = [
    sys.executable,
    "-m",
    "pytest",
    "-p",
    "pybsp.pytest_plugin",
    "-p",
    "no:cacheprovider",
    "-rA",
    "--strict-markers",
]
ON_RANKS = [*PYTEST, "--bsp-ranks"]

TESTS = """
import os, unittest, warnings
import numpy as np, pytest, pybsp
from hypothesis import assume, given, settings, strategies as st
from pybsp import collectives

class HotError(Exception):
    pass

K = 10

@pytest.fixture
def ten():
    return K

@pytest.mark.bsp(p=[1, 2])
def test_passes(bsp, ten):
    with bsp.expect(supersteps=1, h=1):
        bsp.send((bsp.pid + 1) % bsp.p, ten * bsp.pid)
        bsp.sync()
    assert bsp.inbox[0].payload == 10 * ((bsp.pid - 1) % bsp.p)

class TestOfAClass:
    @pytest.mark.bsp(2, router="two-phase", checked=True)
    @pytest.mark.parametrize("k", [3])
    def test_passes(self, bsp, k):
        assert (bsp.p, k) == (2, 3)

@pytest.mark.bsp(p=2)
def test_fails_on_one(bsp):
    print("said by", bsp.pid)
    bsp.sync()
    if bsp.pid == 1:
        assert bsp.p == 3, "here"
    bsp.sync()

@pytest.mark.bsp(p=2)
def test_costs_more_than_expected(bsp):
    with bsp.expect(supersteps=0):
        bsp.sync()

@pytest.mark.bsp(p=2)
def test_fails_as_expected(bsp):
    with pybsp.raises_on(1, HotError, match="hot"):
        if bsp.pid == 1:
            raise HotError("too hot")
        bsp.sync()

@pytest.mark.bsp(p=2)
def test_does_not_fail_as_expected(bsp):
    with pybsp.raises_on(1, HotError):
        bsp.sync()

@pytest.mark.bsp(p=2)
def test_fails_elsewhere_too(bsp):
    with pybsp.raises_on(1, HotError):
        raise HotError(bsp.pid)

@pytest.mark.bsp(p=2)
def test_processors_differ(bsp):
    if bsp.pid == 0:
        bsp.sync()

@pytest.mark.bsp(p=2)
def test_skips(bsp):
    pytest.skip("not today")

@pytest.mark.bsp(p=2)
def test_skips_on_one(bsp):
    if bsp.pid == 1:
        raise unittest.SkipTest("not on one")
    bsp.sync()

@pytest.mark.bsp(p=2)
def test_xfails(bsp):
    if bsp.pid == 1:
        pytest.xfail("known")
    bsp.sync()

@pytest.mark.bsp(p=2)
@pytest.mark.filterwarnings("ignore:of no")
def test_warns(bsp):
    warnings.warn("of no interest")
    warnings.warn("it is hot", RuntimeWarning)

@pytest.mark.bsp(p=2)
@pytest.mark.filterwarnings("error:it is")
def test_fails_on_a_warning(bsp):
    if bsp.pid == 1:
        warnings.warn("it is hot", RuntimeWarning)
    bsp.sync()

@pytest.fixture
def array(bsp):
    return bsp.array(3)

@pytest.mark.bsp(p=2)
def test_asks_a_fixture_for_an_array(bsp, array):
    bsp.sync()

@pytest.mark.bsp(p=2)
@pytest.mark.parametrize("end", [pytest.skip, pytest.xfail], ids=["skip", "xfail"])
@pytest.mark.parametrize("pid", [0, 1])
def test_one_fails(bsp, end, pid):
    if bsp.pid == pid:
        end("on one alone")
    assert False, "own"

@pytest.mark.bsp(p=2)
def test_one_calls_fail(bsp):
    if bsp.pid == 0:
        pytest.skip("on one alone")
    pytest.fail("own")

@pytest.mark.bsp(p=2)
@pytest.mark.parametrize("pid", [0, 1])
@pytest.mark.xfail(raises=HotError, strict=True)
def test_fails_as_marked(bsp, pid):
    bsp.sync()
    if bsp.pid == pid:
        raise HotError("too hot")
    bsp.sync()

@pytest.mark.bsp(p=2)
@pytest.mark.parametrize("pid", [0, 1])
@pytest.mark.xfail(raises=HotError)
def test_fails_otherwise_too(bsp, pid):
    if bsp.pid == pid:
        raise HotError("too hot")
    raise TypeError("own")

@pytest.mark.bsp(p=2)
@pytest.mark.xfail(raises=pybsp.ProcessorError)
def test_fails_otherwise_alone(bsp):
    if bsp.pid == 1:
        raise HotError("too hot")
    bsp.sync()

seen = []

@pytest.mark.bsp(p=2)
@settings(max_examples=5, deadline=None)
@given(x=st.integers(), y=st.lists(st.floats(allow_nan=False)))
def test_draws_alike(bsp, x, y):
    assert collectives.allgather(bsp, (x, y)) == [(x, y)] * bsp.p

@pytest.mark.bsp(p=2)
@settings(deadline=None)
@given(x=st.integers(100, 200))
def test_finds_the_least(bsp, x):
    bsp.sync()
    assert bsp.pid == 0 or x < 100

class TestOfExamples:
    @pytest.mark.bsp(p=2)
    @pytest.mark.filterwarnings("error")
    @settings(max_examples=20, deadline=None)
    @given(x=st.integers(0, 10))
    def test_assumes_on_one(self, bsp, x):
        assume(bsp.pid == 0 or x < 9)
        bsp.sync()

@pytest.mark.bsp(p=2)
@given(data=st.data())
def test_draws_inside(bsp, data):
    data.draw(st.integers())

def test_without_processors(tmp_path):
    assert tmp_path.exists()
"""

OUTCOMES = {
    "test_passes[p1]": "PASSED",
    "test_passes[p2]": "PASSED",
    "TestOfAClass::test_passes[p2-3]": "PASSED",
    "test_fails_on_one[p2]": "FAILED",
    "test_costs_more_than_expected[p2]": "FAILED",
    "test_fails_as_expected[p2]": "PASSED",
    "test_does_not_fail_as_expected[p2]": "FAILED",
    "test_fails_elsewhere_too[p2]": "FAILED",
    "test_processors_differ[p2]": "FAILED",
    "test_skips[p2]": "SKIPPED",
    "test_skips_on_one[p2]": "SKIPPED",
    "test_xfails[p2]": "XFAIL",
    "test_warns[p2]": "PASSED",
    "test_fails_on_a_warning[p2]": "FAILED",
    "test_asks_a_fixture_for_an_array[p2]": "ERROR",
    "test_one_fails[p2-0-skip]": "FAILED",
    "test_one_fails[p2-0-xfail]": "FAILED",
    "test_one_fails[p2-1-skip]": "FAILED",
    "test_one_fails[p2-1-xfail]": "FAILED",
    "test_one_calls_fail[p2]": "FAILED",
    "test_fails_as_marked[p2-0]": "XFAIL",
    "test_fails_as_marked[p2-1]": "XFAIL",
    "test_fails_otherwise_too[p2-0]": "FAILED",
    "test_fails_otherwise_too[p2-1]": "FAILED",
    "test_fails_otherwise_alone[p2]": "FAILED",
    "test_draws_alike[p2]": "PASSED",
    "test_finds_the_least[p2]": "FAILED",
    "TestOfExamples::test_assumes_on_one[p2]": "PASSED",
    "test_draws_inside[p2]": "FAILED",
    "test_without_processors": "PASSED",
}


@pytest.fixture
def tests(tmp_path: Path) -> Path:
    path = tmp_path / "test_bsp.py"
    path.write_text(dedent(TESTS))
    return path


def outcomes(ended: Ended) -> dict[str, str]:
    """How each test ended, from what `pytest -rA` prints last; skipped ones have a line, and no name, there."""
    named = re.findall(r"^(PASSED|FAILED|XFAIL|ERROR) \S*?test_bsp\.py::(\S+)", ended.out, re.MULTILINE)
    return {name: outcome for outcome, name in named}


def differing(found: dict[str, str]) -> dict[str, tuple[str, str | None]]:
    wanted = {name: outcome for name, outcome in OUTCOMES.items() if outcome != "SKIPPED"}
    return {name: (outcome, found.get(name)) for name, outcome in wanted.items() if found.get(name) != outcome}


def on_each_rank(tests: Path, *options: str) -> list[Ended]:
    """How a session under mpiexec ends on each of two ranks, which fails; what its tests print stays with pytest."""
    log, program = tests.parent / "log", tests.parent / "rank.py"
    program.write_text(
        "import os, sys, pytest\n"
        f"out = os.open({str(log)!r} + os.environ.get('PMI_RANK', os.environ.get('OMPI_COMM_WORLD_RANK')), 577, 438)\n"
        "os.dup2(out, 1)\n"
        "sys.exit(pytest.main(sys.argv[1:]))\n"
    )
    ended = run([*mpiexec(2), sys.executable, str(program), *PYTEST[3:], *options, str(tests)])
    assert ended.code != 0, ended
    return [Ended(ended.code, Path(f"{log}{rank}").read_text(), ended.err) for rank in (0, 1)]


@pytest.mark.fast("ranks")
@pytest.mark.parametrize("command", [PYTEST, ON_RANKS], ids=["virtual", "ranks"])
def test_tests_end_alike_on_virtual_processors_and_on_ranks(command: list[str], tests: Path) -> None:
    ended = run([*command, str(tests)])
    assert ended.code == 1, ended
    assert differing(outcomes(ended)) == {}, ended.out
    assert "2 skipped" in ended.out
    assert "not today" in ended.out
    assert "not on one" in ended.out
    assert "of no interest\n" not in ended.out.partition("warnings summary")[2]
    assert re.search(r"^  \S*test_bsp.py:\d+: RuntimeWarning: it is hot\n    warnings.warn", ended.out, re.MULTILINE), (
        ended.out
    )
    assert "fixture bsp: expected bsp.p alone in another fixture" in ended.out
    # The failing processor's traceback, and what all have printed.
    place = r'>\s+assert bsp\.p == 3, "here"|, in test_fails_on_one\n    assert bsp\.p == 3, "here"'
    assert re.search(place, ended.out), ended.out
    for pid in (0, 1):
        assert re.search(rf"^(\[{pid}\] )?said by {pid}$", ended.out, re.MULTILINE)
    assert "x=100" in ended.out
    assert "expected HotError on processor 1, nothing was raised" in ended.out
    assert "st.data() draws while the test runs" in ended.out


FAILING = """
import dataclasses, pytest
from hypothesis import given, strategies as st
from pybsp.collectives import allreduce

@pytest.mark.bsp(p=2)
@given(x=st.integers(0, 1000))
def test_finds_the_least(bsp, x):
    assert x < 100  # fails

@pytest.mark.bsp(p=2)
def test_asserts(bsp):
    bsp.sync()
    assert bsp.pid < 1  # fails

@dataclasses.dataclass(frozen=True)
class FrozenError(Exception):
    number: int

@pytest.mark.bsp(p=2)
def test_raises_what_refuses_attributes(bsp):
    raise FrozenError(7)  # fails

@pytest.mark.bsp(p=2)
def test_sends_to_nobody(bsp):
    bsp.send(7, 1)  # fails

@pytest.mark.bsp(p=2)
def test_differs(bsp):
    if bsp.pid:
        bsp.queue()
    bsp.sync()  # fails

@pytest.mark.bsp(p=2)
def test_has_an_op_that_raises(bsp):
    def op(a, b):
        raise KeyError(a)  # fails
    allreduce(bsp, 1, op)  # fails
"""


@pytest.mark.whole
@pytest.mark.parametrize("way", ["virtual", "ranks", "mpiexec"])
def test_a_traceback_is_of_the_test_alone_unless_all_of_it_is_asked_for(way: str, tmp_path: Path) -> None:
    path = tmp_path / "test_bsp.py"
    path.write_text(FAILING)
    for options, whole in ([], False), (["--full-trace"], True):
        ended = on_each_rank(path, *options) if way == "mpiexec" else [run([*PYTEST, *options, str(path)])]
        if way == "ranks":
            ended = [run([*ON_RANKS, *options, str(path)])]
        text = "".join(one.out for one in ended)
        of_pybsp = re.findall(r"^\S*\bpybsp/[\w/]+\.py:\d+: .*", text, re.MULTILINE)
        assert bool(of_pybsp) == whole, of_pybsp[:5]
        assert "traceback entries are hidden" not in text
        for line in re.findall(r"^ *(.*?)  # fails$", FAILING, re.MULTILINE):
            assert line in text, line


STOPPED = """
import pytest

@pytest.fixture
def skips(request):
    if request.config.getoption("verbose"):
        pytest.skip("in a fixture")

@pytest.mark.bsp(p=2)
def test_skips(bsp):
    if bsp.pid == 1:
        pytest.skip("on one alone")  # line 12
    bsp.sync()

@pytest.mark.bsp(p=2)  # line 15, that of the test
@pytest.mark.skipif("bool(config.getoption('verbose'))", reason="by a mark")
def test_is_not_for_all(bsp):
    bsp.sync()

@pytest.mark.bsp(p=2)  # line 20
def test_skips_with_a_fixture(bsp, skips):
    bsp.sync()

@pytest.mark.bsp(p=2)
def test_fails(bsp):
    if bsp.pid == 1:
        pytest.fail("failed by hand")  # line 27
    bsp.sync()

@pytest.mark.bsp(p=2)
def test_is_interrupted(bsp):
    if bsp.pid == 1:
        raise KeyboardInterrupt  # line 33
    bsp.sync()
"""


@pytest.mark.whole
@pytest.mark.fast("ranks")
@pytest.mark.parametrize("way", ["virtual", "ranks", "mpiexec"])
def test_what_ends_a_test_is_named_by_its_line(way: str, tmp_path: Path) -> None:
    path = tmp_path / "test_bsp.py"
    path.write_text(STOPPED)
    if way == "mpiexec":  # where an interrupt ends the job, and one rank alone is verbose
        program = "import os\nrank = os.environ.get('PMI_RANK', os.environ.get('OMPI_COMM_WORLD_RANK', '0'))\n"
        program += "def pytest_configure(config):\n    config.option.verbose = int(rank)\n"
        (tmp_path / "conftest.py").write_text(program)
        ended = on_each_rank(path, "-k", "not interrupted")
    else:
        ended = [run([*(PYTEST if way == "virtual" else ON_RANKS), "-v", str(path)])]
    for one in ended:
        text = one.out
        for line, reason in ((12, "on one alone"), (15, "by a mark"), (20, "in a fixture")):
            assert re.search(rf"^SKIPPED \[1\] \S*test_bsp\.py:{line}: {reason}", text, re.MULTILINE), text
    assert any(re.search(r"^\S*test_bsp\.py:27: Failed$", one.out, re.MULTILINE) for one in ended), ended
    assert way == "mpiexec" or re.search(r"^\S*test_bsp\.py:33: KeyboardInterrupt$", ended[0].out, re.MULTILINE), ended


EXITS = """
import pytest, sys

@pytest.mark.bsp(p=2)
def test_exits(bsp):
    if bsp.pid == 1:
        sys.exit(0)
    bsp.sync()
"""


@pytest.mark.whole
@pytest.mark.fast("ranks")
@pytest.mark.parametrize("command", [PYTEST, ON_RANKS], ids=["virtual", "ranks"])
def test_an_exit_of_one_processor_is_the_same_error_on_virtual_processors_and_on_ranks(
    command: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "test_bsp.py"
    path.write_text(EXITS)
    ended = run([*command, str(path)], COLUMNS="300")
    expected = r"^FAILED \S*::test_exits\[p2\] - pybsp\.errors\.ProcessorError: processor 1 called sys\.exit"
    assert re.search(expected, ended.out, re.MULTILINE), ended.out


FIXTURES = """
    import os, sys, threading, pytest

    @pytest.mark.bsp(p=2)
    def test_changes(bsp, monkeypatch):
        monkeypatch.setenv("CHANGED", str(bsp.pid))
        monkeypatch.setattr(sys, "changed", bsp.pid, raising=False)
        bsp.sync()
        assert os.environ["CHANGED"] == str(sys.changed) == str(bsp.pid)

    @pytest.mark.bsp(p=2)
    def test_changes_and_fails(bsp, monkeypatch):
        monkeypatch.setenv("CHANGED", "1")
        assert not bsp.pid, "as it has to"

    @pytest.fixture
    def holder(monkeypatch):
        return [monkeypatch]

    @pytest.mark.bsp(p=2)
    def test_changes_by_a_fixture(bsp, holder, monkeypatch):
        holder[0].setenv("CHANGED", "1")
        assert holder[0] is monkeypatch

    @pytest.mark.bsp(p=2)
    def test_is_as_before(bsp):
        assert "CHANGED" not in os.environ and not hasattr(sys, "changed")

    @pytest.mark.bsp(p=2)
    def test_captures(bsp, tmp_path, capsys):
        pass

    @pytest.mark.bsp(p=2)
    def test_hears(bsp, recwarn):
        pass

    class TestOfAClass:
        def setup_method(self):
            self.lock = threading.Lock()

        @pytest.mark.bsp(p=2)
        def test_locks(self, bsp):
            pass
"""


def test_fixtures_of_pytests_process_change_each_rank_until_the_test_ends_or_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "test_bsp.py"
    path.write_text(dedent(FIXTURES))
    ended = run([*ON_RANKS, str(path)])
    assert ended.code == 1, ended
    assert "4 failed, 3 passed" in ended.out, ended
    assert "AssertionError: as it has to" in ended.out, ended
    for refused in (
        r"captures\[p2\]: argument capsys",
        r"hears\[p2\]: argument recwarn",
        r"locks\[p2\]: argument self",
    ):
        expected = rf"test_{refused}: expected what can go to ranks, by value, got a \w+ of pytest's process \("
        assert re.search(expected, ended.out), ended


CLASSES = """
    import enum, pytest, pybsp
    from dataclasses import dataclass
    from pybsp import collectives

    @dataclass
    class Point:
        x: int

    class Colour(enum.Enum):
        RED = 1

    def moved(point):
        return Point(point.x + 1)

    @pytest.mark.bsp(p=2)
    def test_sends(bsp):
        bsp.send(1 - bsp.pid, (Point(bsp.pid), Colour.RED))
        bsp.sync()
        assert bsp.inbox[0].payload == (Point(1 - bsp.pid), Colour.RED)
        total = collectives.allreduce(bsp, Point(1), lambda a, b: Point(a.x + b.x))
        assert type(total) is Point and total.x == 2
"""


@pytest.mark.whole
def test_ranks_send_instances_of_the_classes_of_a_module_of_tests(tmp_path: Path) -> None:
    """They came by value: the ranks have not imported it, and other tests may let them do so."""
    (tmp_path / "test_bsp.py").write_text(dedent(CLASSES))
    other = "import pytest, test_bsp\n@pytest.mark.bsp(p=2)\n"
    other += "def test_imports(bsp): assert test_bsp.moved(test_bsp.Point(1)).x == 2\n"
    (tmp_path / "test_later.py").write_text(other)
    ended = run([*ON_RANKS, str(tmp_path)])
    assert ended.code == 0, ended
    assert "2 passed" in ended.out


CONFTEST = """
    import pytest, warnings

    class Thing:
        x = 1

    class SureWarning(UserWarning):
        pass

    @pytest.fixture
    def make():
        warnings.simplefilter("ignore", SureWarning)
        return lambda x: Thing()
"""


@pytest.mark.whole
@pytest.mark.parametrize("mode", ["importlib", pytest.param("prepend", marks=pytest.mark.whole)])
def test_what_conftest_defines_goes_to_ranks_that_cannot_import_it(mode: str, tmp_path: Path) -> None:
    """pytest's import mode importlib puts neither its folder nor that of tests among those of imports.

    In another one an import may find that of another folder.
    """
    (tmp_path / "conftest.py").write_text("")
    (tmp_path / "test_z.py").write_text("")
    folder = tmp_path / "checks"
    folder.mkdir()
    (folder / "conftest.py").write_text(dedent(CONFTEST))
    (folder / "test_bsp.py").write_text(
        dedent(CLASSES)
        + dedent(
            """
            @pytest.mark.bsp(p=2)
            def test_sends_what_a_fixture_made(bsp, make):
                bsp.send(1 - bsp.pid, make(1))
                bsp.sync()
                assert type(bsp.inbox[0].payload) is type(make(2))
            """
        )
    )
    ended = run([*ON_RANKS, f"--import-mode={mode}", f"--rootdir={tmp_path}", str(tmp_path)])
    assert ended.code == 0, ended
    assert "2 passed" in ended.out


@pytest.mark.whole
def test_tests_end_alike_under_mpiexec(tests: Path) -> None:
    """Each rank runs pytest, beside pytest-mpi; tests for another p are skipped."""
    ended = on_each_rank(tests)
    for one in ended:
        text = one.out
        assert "3 skipped" in text
        different = differing(outcomes(one))
        assert different == {"test_passes[p1]": ("PASSED", None)}, text
        assert "for 1 processors, and this job has 2 ranks" in text


ON_ONE_RANK = """
import os, pytest
from hypothesis import given, settings, strategies as st

R = int(os.environ.get("PMI_RANK", os.environ.get("OMPI_COMM_WORLD_RANK", "0")))

@pytest.fixture(scope="module")
def fails():
    if R == 1:
        raise OSError("no file here")

@pytest.fixture
def fails_at_the_end():
    yield
    if R == 1:
        raise OSError("no file there")

@pytest.mark.bsp(p=2)
@pytest.mark.parametrize("k", [1, 2])
def test_with_fixture(bsp, k, fails):
    bsp.sync()

@pytest.mark.bsp(p=2)
@pytest.mark.xfail(raises=OSError)
def test_xfails_with_fixture(bsp, fails):
    bsp.sync()

@pytest.mark.bsp(p=2)
@pytest.mark.skipif(R == 1, reason="not on this rank")
def test_skips(bsp):
    bsp.sync()

@pytest.mark.bsp(p=2)
@pytest.mark.skipif(R == 0, reason="not on this rank")
def test_skips_beside_a_failure(bsp, fails):
    bsp.sync()

@pytest.mark.bsp(p=2)
@pytest.mark.xfail
@settings(deadline=None)
@given(st.integers())
def test_ends_in_an_example(bsp, x):
    if bsp.pid == 1:
        pytest.skip("on one alone")
    bsp.sync()

@pytest.mark.bsp(p=2)
def test_passes(bsp):
    bsp.sync()

@pytest.mark.bsp(p=2)
def test_ends_badly(bsp, fails_at_the_end):
    bsp.sync()

@pytest.mark.bsp(p=2)
def test_comes_last(bsp):
    bsp.sync()
"""


@pytest.mark.whole
def test_a_setup_that_fails_on_one_rank_fails_on_all_and_the_next_test_runs(tmp_path: Path) -> None:
    path = tmp_path / "test_bsp.py"
    path.write_text(ON_ONE_RANK)
    for rank, ended in enumerate(on_each_rank(path)):
        expected = {
            "test_with_fixture[p2-1]": "ERROR",
            "test_with_fixture[p2-2]": "ERROR",
            "test_skips_beside_a_failure[p2]": "ERROR",
            "test_passes[p2]": "PASSED",
            "test_ends_badly[p2]": "ERROR" if rank else "PASSED",
            "test_comes_last[p2]": "PASSED",
        }
        assert outcomes(ended) == expected, ended.out
        assert ended.out.count("OSError: no file here") >= 2, ended.out
        assert ("processor 1: setup failed: OSError: no file here" in ended.out) == (rank == 0), ended.out
        assert "2 skipped, 1 xfailed" in ended.out
        assert "not on this rank" in ended.out


@pytest.mark.whole
def test_ranks_that_do_not_run_the_same_tests_end_their_session(tmp_path: Path) -> None:
    """One has counted a failure of its own and stops (-x), or has no such test: nothing hangs, and all say so."""
    path = tmp_path / "test_bsp.py"
    path.write_text(ON_ONE_RANK)
    for rank, ended in enumerate(on_each_rank(path, "-x", "-k", "passes or badly or last")):
        assert outcomes(ended)["test_passes[p2]"] == "PASSED", ended.out
        assert ("test_comes_last[p2]" in outcomes(ended)) == (rank == 0), ended.out
        assert ("processor 1 left the job" in ended.out) == (rank == 0), ended.out
    path.write_text(f"{ON_ONE_RANK}\nif R == 1:\n    del test_passes\n")
    for ended in on_each_rank(path, "-k", "passes or last"):
        assert "the ranks do not run the same tests" in ended.out, ended.out
        assert "pytest-randomly" in ended.out, ended.out
        assert "passed" not in ended.out, ended.out


@pytest.mark.whole
def test_a_module_that_one_rank_cannot_import_ends_the_session(tmp_path: Path) -> None:
    path = tmp_path / "test_bsp.py"
    path.write_text(
        ON_ONE_RANK.replace("@pytest.fixture", "if R == 1:\n    raise OSError('no file here')\n\n@pytest.fixture", 1)
    )
    ended = on_each_rank(path)
    assert "1 error during collection" in ended[1].out, ended
    assert "processor 1 ended without a run" in ended[0].err, ended


TROUBLE = """
import os, signal, time, pytest

@pytest.mark.bsp(p=2)
def test_before(bsp):
    bsp.sync()

@pytest.mark.bsp(p=2, timeout=1)
def test_outlasts_its_limit(bsp):
    print("waits", bsp.pid, flush=True)
    while bsp.pid:
        pass

@pytest.mark.bsp(p=2)
def test_between(bsp):
    bsp.sync()

@pytest.mark.bsp(p=2)
def test_dies(bsp):
    if bsp.pid:
        os.kill(os.getpid(), signal.SIGKILL)
    bsp.sync()

@pytest.mark.bsp(p=2)
def test_after(bsp):
    bsp.sync()
"""


@pytest.mark.whole
def test_another_job_follows_a_test_that_has_ended_or_outlasted_one(tmp_path: Path) -> None:
    path = tmp_path / "test_bsp.py"
    path.write_text(TROUBLE)
    ended = run([*ON_RANKS, str(path)])
    names = ("before", "outlasts_its_limit", "between", "dies", "after")
    expected = dict(zip(names, ("PASSED", "FAILED", "PASSED", "FAILED", "PASSED"), strict=True))
    assert outcomes(ended) == {f"test_{name}[p2]": outcome for name, outcome in expected.items()}, ended.out
    assert "test_outlasts_its_limit[p2] took longer than 1 s, its limit" in ended.out
    assert "in test_outlasts_its_limit" in ended.out  # the stack of the rank that was late
    assert "ended while" in ended.out
    for error in "TimeoutError", "ProcessorError":
        assert re.search(rf"^\S*test_bsp.py:\d+: {error}$", ended.out, re.MULTILINE), ended.out
    assert not re.search(r"^\S*\bpybsp/\S*\.py:\d+: ", ended.out, re.MULTILINE), "a failure shows pybsp's own source"


ENDS = r"pybsp: rank \d ends the job in \S*test_ending.py::test_x\[p2\] \(call\)"
ENDINGS = {  # of a session under mpiexec: what a test does, and what is said of it
    "hangs": (
        "print('captured before')\n    if bsp.pid: time.sleep(100)\n    bsp.sync()",
        [
            r"pybsp: rank 0 ends the job in \S*test_ending.py::test_x\[p2\] \(call\)",
            r"^captured before$",
            r"SyncError: a superstep has not ended within its timeout of 1 s: .*, for processor 1",
            r'most recent call first\):\n  File "\S*test_ending.py", line \d+ in test_x',  # of the rank that is late
        ],
    ),
    "all hang": (
        "print('captured before')\n    if bsp.pid: time.sleep(100)\n    while True: pass",
        [rf"{ENDS}, which took longer than 1 s, its limit", r"^captured before$"],
    ),
    "many supersteps": ("while True:\n        bsp.sync()", [rf"{ENDS}, which took longer than 4 s, its limit"]),
    "exits": (
        "print('captured before')\n    if bsp.pid: os._exit(3)\n    bsp.sync()",
        [
            r"pybsp: rank 1 ends the job in \S*test_ending.py::test_x\[p2\] \(call\) by os._exit\(3\)",
            r"^captured before$",
        ],
    ),
}


@pytest.mark.whole
@pytest.mark.fast("exits")
@pytest.mark.parametrize("how", ENDINGS)
def test_a_test_that_ends_a_session_under_mpiexec_is_named(how: str, tmp_path: Path) -> None:
    body, expected = ENDINGS[how]
    path = tmp_path / "test_ending.py"
    limit = 4 if how == "many supersteps" else 1  # each of which is to end within it
    path.write_text(f"import os, time, pytest\n@pytest.mark.bsp(p=2, timeout={limit})\ndef test_x(bsp):\n    {body}\n")
    ended = run([*mpiexec(2), *PYTEST, str(path)], 120, PYBSP_GRACE="1")
    assert ended.code != 0, ended
    for pattern in expected:
        assert len(re.findall(pattern, ended.err, re.MULTILINE)) == 1, (pattern, ended)
    assert how == "exits" or re.search(r'File "\S*test_ending.py", line \d+ in test_x', ended.err), ended


@pytest.mark.whole
def test_a_test_that_lets_no_thread_run_ends_a_session_under_mpiexec(tmp_path: Path) -> None:
    path = tmp_path / "test_ending.py"
    body = "ctypes.PyDLL(None).sleep(100)"
    path.write_text(f"import ctypes, pytest\n@pytest.mark.bsp(p=2, timeout=1)\ndef test_x(bsp):\n    {body}\n")
    ended = run([*mpiexec(2), *PYTEST, str(path)], 80, PYBSP_GRACE="0.1")
    assert ended.code != 0, ended
    assert re.search(r'File "\S*test_ending.py", line 4 in test_x', ended.err), ended


@pytest.mark.whole
@pytest.mark.parametrize("options", [["-n", "2"], ["-x"]], ids=["xdist", "-x"])
def test_works_with(options: list[str], tests: Path) -> None:
    ended = run([*PYTEST, *options, str(tests)])
    assert ended.code == 1
    if "-n" in options:
        assert differing(outcomes(ended)) == {}, ended.out
    else:
        assert "1 failed" in ended.out


WRONG = {
    "@pytest.mark.bsp(p=0)\ndef test_x(bsp): pass": "argument p: expected numbers of processors, from 1, got 0",
    "@pytest.mark.bsp(p=[])\ndef test_x(bsp): pass": "argument p: expected numbers of processors, from 1, got []",
    "@pytest.mark.bsp([2, True])\ndef test_x(bsp): pass": "expected numbers of processors, from 1, got [2, True]",
    "@pytest.mark.bsp(p=None)\ndef test_x(bsp): pass": "expected numbers of processors, from 1, got None",
    "@pytest.mark.bsp(p=2, timeout='x')\ndef test_x(bsp): pass": "argument timeout: expected seconds, above 0, got 'x'",
    "@pytest.mark.bsp(p=2, timeout=-1)\ndef test_x(bsp): pass": "argument timeout: expected seconds, above 0, got -1",
    "@pytest.mark.bsp(2, p=3)\ndef test_x(bsp): pass": "expected p, and at most timeout, ",
    "@pytest.mark.bsp(p=2)\ndef test_x(): pass": "expected a test with an argument bsp",
    "@pytest.fixture\ndef two(bsp): pass\n@pytest.mark.bsp(2)\ndef test_x(two): pass": "expected a test with an arg",
    "@pytest.mark.bsp(processors=2)\ndef test_x(bsp): pass": "expected p, and at most timeout, ",
    "@pytest.mark.bsp(p=2)\nasync def test_x(bsp): assert False": "expected a function, got an async one",
    "def test_x(bsp): pass": "expected the mark @pytest.mark.bsp(p=[1, 2, 4]) on each test that asks for it, itself or",
}


def test_wrong_marks_are_errors(tmp_path: Path) -> None:
    for number, text in enumerate(WRONG):
        (tmp_path / f"test_{number}.py").write_text(f"import pytest\n{text}\n")
    ended = run([*PYTEST, "--continue-on-collection-errors", str(tmp_path)])
    assert f"{len(WRONG)} errors" in ended.out, ended.out
    assert [said for said in WRONG.values() if said not in ended.out] == [], ended.out


@pytest.mark.whole
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--bsp-timeout", "nan"], "--bsp-timeout: expected seconds, above 0, got 'nan'"),
        (["-o", "bsp_timeout=abc"], "bsp_timeout: expected seconds, above 0, got 'abc'"),
    ],
)
def test_a_limit_that_is_none_is_an_error_before_any_test(tmp_path: Path, options: list[str], said: str) -> None:
    (tmp_path / "test_one.py").write_text("def test_x(): pass\n")
    ended = run([*PYTEST, *options, str(tmp_path)])
    assert ended.code == 4, ended
    assert said in ended.err, ended


@pytest.mark.whole
def test_the_mark_on_a_unittest_is_an_error(tmp_path: Path) -> None:
    text = "import pytest, unittest\nclass T(unittest.TestCase):\n  @pytest.mark.bsp(p=2)\n  def test_u(self): pass\n"
    (tmp_path / "test_one.py").write_text(text)
    ended = run([*PYTEST, str(tmp_path)])
    assert ended.code == 4, ended
    assert "T::test_u: mark bsp: expected a function, or a method of a plain class" in ended.err, ended


@pytest.mark.whole
def test_pytest_loads_nothing_of_pybsp_for_other_tests(tmp_path: Path) -> None:
    path = tmp_path / "test_other.py"
    path.write_text(
        "import json, sys\n"
        "def test_x():\n"
        "    print(json.dumps([one for one in sys.modules if one.split('.')[0] in ('pybsp', 'mpi4py', 'numpy')]))\n"
    )
    ended = run([*PYTEST, "-s", "-p", "no:randomly", str(path)], 240, PYTHONPATH=os.environ.get("PYTHONPATH", ""))
    (line,) = re.findall(r"\[\".*\]", ended.out)
    loaded = json.loads(line)
    assert "pybsp.pytest_plugin" in loaded
    assert not {"numpy", "mpi4py", "pybsp.supersteps.superstep", "pybsp.runs.launch"} & set(loaded)


@pytest.mark.whole
@pytest.mark.parametrize("given", ["", "p=2, ranks=3", "2, 3", "timeout=1"])
def test_a_mark_without_p_or_with_another_argument_says_what_it_takes(tmp_path: Path, given: str) -> None:
    (tmp_path / "test_one.py").write_text(f"import pytest\n@pytest.mark.bsp({given})\ndef test_x(bsp): pass\n")
    ended = run([*PYTEST, str(tmp_path)])
    text = ended.out + ended.err
    assert "mark bsp: expected p, and at most timeout, router, machine, checked besides" in text, ended
    assert f"got bsp({given})" in text, ended


def test_what_an_exception_says_of_a_test_is_known_without_its_class() -> None:
    """As its class cannot be pickled, on ranks."""
    for error, said in [
        (pytest.skip.Exception("why"), ("Skipped", "why")),
        (SkipTest("why"), ("Skipped", "why")),
        (pytest.xfail.Exception("why"), ("XFailed", "why")),
        (pytest.fail.Exception("why"), ("Failed", "why")),
        (UnsatisfiedAssumption("why"), ("UnsatisfiedAssumption", "why")),
    ]:
        found = verdict(error)
        assert found is not None
        assert found.args == said
    assert verdict(AssertionError("why")) is None


def test_a_test_that_hangs_on_virtual_processors_ends_at_its_limit(request: pytest.FixtureRequest) -> None:
    def hangs(bsp: pybsp.BSP) -> None:
        bsp.sync()
        while bsp.pid:
            pass
        bsp.sync()

    def handler(*_: object) -> None:
        """Of whoever has a limit for more than this."""

    before, timer = signal.signal(signal.SIGALRM, handler), signal.setitimer(signal.ITIMER_REAL, 100)
    try:
        with pytest.raises(TimeoutError, match=f"^{request.node.name} took longer than 0.05 s, its limit") as caught:
            pytest_plugin._Virtual(request.node, 2, {}, 0.05).run(hangs, (), {"bsp": None})
        assert signal.getsignal(signal.SIGALRM) is handler
        assert 90 < signal.getitimer(signal.ITIMER_REAL)[0] < 100
    finally:
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, *timer)
    assert caught.traceback[-2].name == "hangs"
    places = getattr(caught.value, "__notes__", [outcome(caught.value).place])
    assert places == ["(on virtual processor 1 of 2, in superstep 1)"]


@pytest.mark.parametrize("own", [AssertionError("own"), None])
def test_a_rank_that_follows_through_examples_fails_with_its_own_error_or_names_processor_0(
    own: Exception | None, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    def example(*_: object) -> None:
        if own is not None:
            raise own

    answers = iter([(True, {}), (False, "it failed")])
    monkeypatch.setattr(pytest_plugin, "_of_ranks", lambda *_: [next(answers)])
    monkeypatch.setattr(pytest_plugin._UnderMPI, "run", example)
    with pytest.raises(BaseException, match="^own$" if own else "^on processor 0: it failed$"):
        pytest_plugin._UnderMPI(request.node, 2, {}, 1.0)._follow(Mock(), {})


def test_a_limit_on_virtual_processors_waits_for_who_is_in_the_debugger() -> None:
    with pytest_plugin._interrupted("took longer", 100):
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
        pytest_plugin.pytest_enter_pdb()
        assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


@pytest.mark.whole
def test_a_limit_is_that_of_the_mark_or_of_all(tmp_path: Path) -> None:
    path = tmp_path / "test_hangs.py"
    path.write_text(
        "import pytest\n"
        "@pytest.mark.bsp(p=2, timeout=0.2)\ndef test_own(bsp):\n    while True: bsp.sync()\n"
        "@pytest.mark.bsp(p=2)\ndef test_of_all(bsp):\n    while True: bsp.sync()\n"
    )
    ended = run([*PYTEST, "-o", "bsp_timeout=0.1", str(path)])
    assert ended.code == 1, ended
    assert "TimeoutError: test_own[p2] took longer than 0.2 s, its limit" in ended.out, ended
    assert "TimeoutError: test_of_all[p2] took longer than 0.1 s, its limit" in ended.out, ended


def test_a_rank_fails_with_its_own_error_where_that_is_of_the_kind_that_counts(request: pytest.FixtureRequest) -> None:
    own, skipped = ValueError("mine"), pytest.skip.Exception("not here")
    fails, skips = (pytest_plugin._ending_of(request.node, error) for error in (own, skipped))
    for error, endings, raised in (
        (own, (fails, fails), "mine"),
        (own, (skips, fails), "mine"),
        (skipped, (skips, fails), "processor 1 failed: ValueError: mine"),
        (None, (None, fails), "processor 1 failed: ValueError: mine"),
        (None, (skips, None), "not here"),
    ):
        with pytest.raises(BaseException, match=f"^{raised}$") as caught:
            pytest_plugin._settle(request.node, error, endings, " failed")
        assert (caught.value is error) == (raised == "mine")
    pytest_plugin._settle(request.node, None, (None, None), " failed")


def test_a_test_of_hypothesis_has_its_own_function_again_after_its_examples() -> None:
    def inner(x: int) -> None: ...

    test = SimpleNamespace(hypothesis=SimpleNamespace(inner_test=inner))
    given: list[Any] = []
    with pytest_plugin._replaced(test, lambda *example: given.append(example)):
        test.hypothesis.inner_test(x=3)
    assert (given, test.hypothesis.inner_test) == ([(inner, (), {"x": 3})], inner)
