"""Threads of BLAS and OpenMP: each rank's share of the cores, unless the user has said how many; given back."""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from pybsp import cli
from pybsp.commands import doctor, table
from pybsp.processes import process, slurm
from pybsp.runs import threads

from .launching import Program, ended_well, mpiexec, python, run


@pytest.fixture(autouse=True)
def four_cores(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A host of four cores, on which numpy's libraries take all of them, and nobody has said anything else."""
    assert np.__version__  # its BLAS is loaded
    for name in threads.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(process, "cores", lambda: 4)
    monkeypatch.setattr(process, "allowed_cores", lambda: 4)
    with threadpool_limits(4):
        yield


def test_a_rank_takes_its_share_of_the_cores_and_gives_it_back() -> None:
    assert threads.in_use() == 4
    with threads.limited(2, 4):
        assert threads.in_use() == 2
        assert {os.environ[name] for name in threads.VARIABLES} == {"2"}  # for what is loaded later
    assert threads.in_use() == 4
    assert not set(threads.VARIABLES) & set(os.environ)
    with suppress(ZeroDivisionError), threads.limited(8, 4):
        assert threads.in_use() == 1
        raise ZeroDivisionError
    assert threads.in_use() == 4


def test_a_rank_alone_on_its_host_takes_all_cores() -> None:
    with threads.limited(1, 4):
        assert threads.in_use() == 4
        assert "OMP_NUM_THREADS" not in os.environ


def test_a_rank_that_is_bound_to_fewer_cores_takes_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "allowed_cores", lambda: 1)
    with threads.limited(2, 4):
        assert threads.in_use() == 1


def test_who_starts_ranks_gives_them_their_share_before_they_load_a_library() -> None:
    assert threads.of_ranks(2) == dict.fromkeys(threads.VARIABLES, "2")
    assert threads.of_ranks(8) == dict.fromkeys(threads.VARIABLES, "1")
    assert threads.of_ranks(1) == {}


def test_threads_that_wait_for_work_have_ended_in_the_block_and_after_it() -> None:
    """They would take half of each core from ranks, for 0.1 s."""
    libraries = [ctypes.CDLL(one["filepath"]) for one in threadpool_info() if one["internal_api"] == "openblas"]
    if not all(hasattr(library, "blas_thread_shutdown_") for library in libraries):
        pytest.skip("this OpenBLAS ends its threads for nobody, as that of numpy 2.5 does not")
    program = """if True:
        import _thread
        import os
        import threading
        import time
        import numpy as np
        from pybsp.commands import doctor, table
        from pybsp.processes import process
        from pybsp.runs import threads

        def there():
            return len(os.listdir("/proc/self/task"))

        before, taken, a = there(), threads.in_use(), np.ones((500, 500))
        ours = threading.Event()
        threads.beside(ours.wait, "pybsp watch").start()
        with threads.limited(max(process.cores(), 2), 2):
            assert there() == 2, (before, there())
            assert (a @ a == 500).all()
        assert threads.in_use() == taken
        assert there() == 2, (before, there())  # nor beside the next run
        ours.set()
        while threading.active_count() > 1:
            time.sleep(0.001)
        assert (a @ a == 500).all()  # by as many threads as before
        assert there() == before, (before, there())

        # A thread of the program may wait for theirs, also one that `threading` does not know.
        stop, begun = [], []

        def own():
            begun.append(1)
            while not stop:
                time.sleep(0.001)

        for start in (lambda: _thread.start_new_thread(own, ()), threading.Thread(target=own, name="pybsp x").start):
            start()
            while not begun:
                time.sleep(0.001)
            with threads.limited(max(process.cores(), 2), 2):
                assert there() == before + 1, (before, there())
            stop.append(1)
            while there() > before:
                time.sleep(0.001)
            stop.clear()
            begun.clear()
    """
    ended_well(run(python("-c", program)))


@pytest.mark.parametrize("name", threads.VARIABLES)
def test_what_the_user_has_set_in_the_environment_stays(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "4")
    with threads.limited(2, 4):
        assert threads.in_use() == 4
    assert [variable for variable in threads.VARIABLES if variable in os.environ] == [name]


def test_what_the_user_has_set_in_the_program_stays() -> None:
    with threadpool_limits(3), threads.limited(2, 4):
        assert threads.in_use() == 3


def test_the_command_divides_the_cores_of_this_host_among_ranks_that_are_all_here(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    divided: list[int] = []

    def of_ranks(ranks: int) -> dict[str, str]:
        divided.append(ranks)
        return {}

    monkeypatch.setattr(threads, "of_ranks", of_ranks)
    path = str(program(""))
    for allocated, options in (0, ["-n", "3"]), (0, ["-n", "2", "--hosts", "one,another"]), (4, ["-n", "2"]):
        monkeypatch.setattr(slurm, "allocated", lambda tasks=allocated: tasks)
        assert cli.main(["run", *options, "--explain", path]) == 0
    assert divided == [3]


@pytest.mark.whole
@pytest.mark.parametrize("way", ["pybsp run", "mpiexec"])
def test_ranks_have_their_share_in_a_run_which_the_ledger_says(program: Program, tmp_path: Path, way: str) -> None:
    path = program(
        """
        import os, sys
        import numpy as np, pybsp
        from pybsp.commands import doctor, table
        from pybsp.processes import process
        from pybsp.runs import threads

        process.cores, process.affinity = lambda: 2, lambda: 1 << process.launched()[1] % 2  # a launcher has bound them
        started_by = sys.argv[1]
        if started_by == "mpiexec":
            threads._libraries().limit(limits=2)

        def main(bsp):
            bsp.sync()
            return threads.in_use()

        inside = pybsp.run(main)
        assert (inside, threads.in_use()) == (1, 2 if started_by == "mpiexec" else 1)
        """
    )
    ledger = tmp_path / "ledger.json"
    start = [sys.executable, "-m", "pybsp", "run", "-n", "4"] if way == "pybsp run" else mpiexec(4)
    command = [*start, *([str(path)] if way == "pybsp run" else python(path)), way]
    ended_well(run(command, PYBSP_LEDGER=str(ledger)))
    (found,) = json.loads(ledger.read_text())["runs"]
    assert (found["cores"], found["threads"], len(found["load"])) == ([2] * 4, [1] * 4, 4)
    printed = ended_well(run([sys.executable, "-m", "pybsp", "report", str(ledger)]))
    assert ": 4 ranks on 2 cores, 1 thread a rank, load average " in printed
    assert "more ranks than cores: they wait for their turns" in printed


@pytest.mark.parametrize(
    ("ranks", "of_each", "waits"), [(2, 1, ""), (2, 2, "more threads than cores"), (3, 1, "more ranks than cores")]
)
def test_a_report_says_who_waits_for_a_core(ranks: int, of_each: int, waits: str) -> None:
    run = {"hosts": ["here"] * ranks, "cores": [2] * ranks, "threads": [of_each] * ranks, "load": [0.5] * ranks}
    (line,) = table.placed(run)
    assert line.startswith(f"here: {ranks} ranks on 2 cores, {of_each} thread")
    assert ("wait for their turns" in line) == bool(waits)
    assert waits in line


def test_the_doctor_says_what_the_user_has_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert doctor._threads(2).text == "nothing set: a run gives each of 2 ranks its share of the cores"
    assert doctor._threads(1).text == "as many as cores"
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert doctor._threads(2) == ("BLAS threads", "OMP_NUM_THREADS=3", "")
