"""How jobs start: launchers, MPI libraries, MPI that a host program set up, and how ranks wait."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest

from .launching import LIMIT, Ended, Program, mpiexec, python, ranks, run


def ended_well(ended: Ended) -> str:
    """What a job printed that ended well, and without a complaint."""
    assert ended.code == 0, ended
    assert ended.err == "", ended
    return ended.out


# -- launchers ---------------------------------------------------------------------------------------------------------

SIZE = """
import sys, pybsp
size, pid = pybsp.run(lambda bsp: bsp.sync() or bsp.p), pybsp.run(lambda bsp: bsp.pid)
sys.stdout.write(f"p {size} {pid}\\n")
sys.stdout.flush()
"""


@pytest.mark.whole
@pytest.mark.parametrize("p", [1, 2, 3, 8])
def test_mpiexec_starts_as_many_processors_as_it_says(program: Program, p: int) -> None:
    assert sorted(ended_well(ranks(p, program(SIZE))).split("\n")[:-1]) == [f"p {p} {pid}" for pid in range(p)]


@pytest.mark.whole
def test_pybsp_run_starts_as_many_processors_as_it_says(program: Program) -> None:
    ended = run([sys.executable, "-m", "pybsp", "run", "-n", "3", str(program(SIZE))], LIMIT)
    assert sorted(ended_well(ended).split("\n")[:-1]) == [f"p 3 {pid}" for pid in range(3)]


@pytest.mark.parametrize("replaced", [False, True], ids=["Python's", "the program's"])
def test_ranks_of_unbuffered_outputs_write_whole_lines(program: Program, replaced: bool) -> None:
    """What a print writes piece by piece comes to the output with its line; the program's own outputs are left."""
    path = program(f"""
        import io, os, select, sys
        reads, writes = os.pipe()
        if {replaced}:
            sys.stdout = io.TextIOWrapper(open(writes, "wb", 0), write_through=True)
        import pybsp
        launched = os.dup(1)
        os.dup2(writes, 1)
        print("hello from", 1, end=" ")
        early = bool(select.select([reads], [], [], 0)[0])
        print("of", 2)
        line = b""
        while not line.endswith(b"\\n"):
            line += os.read(reads, 100)
        os.write(launched, f"{{early}} {{line}}\\n".encode())
    """)
    ended = ranks(2, path, LIMIT, PYTHONUNBUFFERED="1")
    assert ended_well(ended) == f"{replaced} b'hello from 1 of 2\\n'\n" * 2


@pytest.mark.whole
def test_without_a_launcher_there_is_one_processor(program: Program) -> None:
    assert ended_well(run(python(program(SIZE)), LIMIT)) == "p 1 0\n"


@pytest.mark.whole
@pytest.mark.parametrize("how", ["run", "attach"])
@pytest.mark.parametrize(
    ("prefix", "launcher"), [("PMI", "MPICH's (Hydra)"), ("OMPI_COMM_WORLD", "Open MPI's")], ids=["hydra", "openmpi"]
)
def test_a_launcher_that_does_not_belong_to_the_library(program: Program, how: str, prefix: str, launcher: str) -> None:
    text = "import pybsp\npybsp.run(lambda bsp: bsp.sync())\n"
    if how == "attach":
        text = "import pybsp\nfrom mpi4py import MPI\nwith pybsp.attach(MPI.COMM_WORLD): pass\n"
    path = program(text)
    printed = []
    for rank in ("0", "2"):
        size = {f"{prefix}_SIZE": "4", f"{prefix}_RANK": rank}
        ended = run(python(path), LIMIT, PYBSP_GRACE="0.5", **size)
        assert ended.code != 0
        # mpi4py warns by itself where the program imports it first
        printed.append(
            re.sub(r".*RuntimeWarning: suspicious MPI(.|\n)*?different MPI implementation\.\n", "", ended.err)
        )
    assert printed[0].count("pybsp.errors.LauncherError: ") == 1
    assert f": the launcher is {launcher}, " in printed[0]
    assert "the launcher started 4 processes, but MPI says of each that it is rank 0 of 1" in printed[0] or (
        how == "run"
        and "the launcher started 4 processes, but the MPI library would see none of the others" in printed[0]
    )
    assert re.search(r"the MPI library that Python loads is '(MPICH|Open MPI)", printed[0])
    assert "pybsp run -n 4" in printed[0]
    assert printed[1] == ""


@pytest.mark.whole
def test_an_allocation_without_a_launcher_is_no_launcher(program: Program) -> None:
    assert ended_well(run(python(program(SIZE)), LIMIT, SLURM_NTASKS="4", SLURM_PROCID="0")) == "p 1 0\n"


# -- no MPI library ----------------------------------------------------------------------------------------------------

WITHOUT_MPI = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name == "mpi4py.MPI":
            raise {error}
sys.meta_path.insert(0, Absent())
"""
ABSENT = [
    "ImportError('libmpi.so: cannot open shared object file')",
    "RuntimeError('cannot load MPI library\\nlibmpi.so: no such file')",
]


@pytest.mark.fast(ABSENT[0])
@pytest.mark.parametrize("error", ABSENT, ids=ABSENT)
def test_without_an_mpi_library_it_runs_on_a_virtual_processor_and_says_so_once(program: Program, error: str) -> None:
    ended = run(python(program(WITHOUT_MPI.format(error=error) + SIZE + SIZE)), LIMIT)
    assert (ended.code, ended.out) == (0, "p 1 0\n" * 2)
    assert ended.err.count("no MPI library can be loaded") == 1
    assert ended.err.count("\n") == 1
    assert "running on one virtual processor" in ended.err


def test_a_library_that_mpi4py_cannot_open_is_no_library(program: Program) -> None:
    ended = run(python(program(SIZE)), LIMIT, MPI4PY_LIBMPI="/nonexistent/libmpi.so")
    if "MPI4PY" not in ended.err and "virtual processor" not in ended.err:
        pytest.skip("this mpi4py was built for one library and does not heed MPI4PY_LIBMPI")
    assert (ended.code, ended.out) == (0, "p 1 0\n")
    assert ended.err.count("no MPI library can be loaded") == 1


def test_without_an_mpi_library_under_a_launcher_is_an_error_that_is_printed_once(program: Program) -> None:
    path = program(WITHOUT_MPI.format(error=ABSENT[0]) + SIZE)
    ended = ranks(3, path, PYBSP_GRACE="1")
    assert ended.code != 0
    assert (
        ended.err.count("LauncherError: pybsp: a launcher started 3 processes, but Python can load no MPI library") == 1
    )
    assert "pip install mpich" in ended.err


def test_a_simulation_needs_no_mpi(program: Program) -> None:
    text = (
        WITHOUT_MPI.format(error=ABSENT[0]) + "import pybsp\nprint(pybsp.simulate(lambda bsp: bsp.pid, p=3).results)\n"
    )
    assert ended_well(run(python(program(text)), LIMIT)) == "[0, 1, 2]\n"


def test_importing_pybsp_and_simulating_does_not_initialise_mpi(program: Program) -> None:
    text = "import sys, pybsp\npybsp.simulate(lambda bsp: bsp.sync(), p=3)\nprint('mpi4py.MPI' in sys.modules)\n"
    assert ended_well(ranks(1, program(text))) == "False\n"


# -- MPI that a host program set up ------------------------------------------------------------------------------------


@pytest.mark.whole
def test_where_pybsp_is_first_it_asks_for_serialized_threads_at_most(program: Program) -> None:
    path = program("""
        import pybsp
        pybsp.run(lambda bsp: bsp.sync())
        import mpi4py
        from mpi4py import MPI
        assert mpi4py.rc.thread_level == "serialized", mpi4py.rc.thread_level
        assert MPI.Query_thread() <= MPI.THREAD_SERIALIZED, MPI.Query_thread()
    """)
    ended_well(ranks(2, path))


@pytest.mark.whole
def test_a_thread_level_that_the_host_asks_for_is_asked_for(program: Program) -> None:
    path = program("""
        import mpi4py
        mpi4py.rc.thread_level = "serialized"
        import pybsp
        pybsp.run(lambda bsp: bsp.sync())
        from mpi4py import MPI
        assert MPI.Query_thread() >= MPI.THREAD_SERIALIZED
    """)
    ended_well(ranks(2, path))


@pytest.mark.whole
@pytest.mark.parametrize("level", ["single", "funneled", "serialized", "multiple"])
def test_the_hosts_thread_level_is_left_alone(program: Program, level: str) -> None:
    path = program(f"""
        import mpi4py
        mpi4py.rc.thread_level = "{level}"
        from mpi4py import MPI
        before = MPI.Query_thread()
        import pybsp
        assert pybsp.run(lambda bsp: bsp.sync() or bsp.p) == 2
        assert MPI.Query_thread() == before
    """)
    ended_well(ranks(2, path))


@pytest.mark.fast("after")
@pytest.mark.parametrize("when", ["before", "after"])
def test_mpi_that_the_host_initialises_and_finalises_itself(program: Program, when: str) -> None:
    first, second = ("import pybsp", "") if when == "after" else ("", "import pybsp")
    path = program(f"""
        import mpi4py
        mpi4py.rc.initialize = False
        mpi4py.rc.finalize = False
        {first}
        from mpi4py import MPI
        MPI.Init_thread(MPI.THREAD_SERIALIZED)
        {second}
        assert pybsp.run(lambda bsp: bsp.sync() or bsp.p) == 2
        with pybsp.attach(MPI.COMM_WORLD) as bsp:
            bsp.sync()
        MPI.Finalize()
        try:
            pybsp.run(lambda bsp: None)
        except pybsp.BSPError as error:
            print(error)
    """)
    out = ended_well(ranks(2, path))
    assert out.count("pybsp.run: MPI has been finalized in this process; call it before MPI.Finalize()") == 2


@pytest.mark.whole
def test_mpi_that_the_host_left_uninitialised_is_initialised(program: Program) -> None:
    path = program("""
        import mpi4py
        mpi4py.rc.initialize = False
        import pybsp
        from mpi4py import MPI
        assert pybsp.run(lambda bsp: bsp.sync() or bsp.p) == 2
        assert MPI.Query_thread() <= MPI.THREAD_SERIALIZED
    """)
    ended_well(ranks(2, path))


@pytest.mark.whole
def test_attaching_more_often_than_mpi_has_communicators_does_not_run_out_of_them(program: Program) -> None:
    path = program("""
        from mpi4py import MPI
        import pybsp
        for k in range(2100):  # MPICH has 2048
            with pybsp.attach(MPI.COMM_WORLD) as bsp:
                bsp.send(1 - bsp.pid, k)
                bsp.sync()
                assert bsp.inbox[0].payload == k
    """)
    ended_well(ranks(2, path))


@pytest.mark.whole
def test_what_is_attached_to_is_a_communicator(program: Program) -> None:
    path = program("""
        from mpi4py import MPI
        import pybsp
        for wrong in (None, 1, MPI.COMM_NULL):
            try:
                with pybsp.attach(wrong):
                    raise AssertionError("it has begun")
            except pybsp.UsageError as error:
                assert f"attach: argument comm={wrong!r}: expected a communicator of mpi4py" in str(error), error
        with pybsp.attach(MPI.COMM_WORLD.Create_cart([MPI.COMM_WORLD.size])) as bsp:
            assert bsp.p == 2
    """)
    ended_well(ranks(2, path))


@pytest.mark.whole
def test_attaching_does_not_disturb_the_hosts_messages(program: Program) -> None:
    path = program("""
        from mpi4py import MPI
        import pybsp
        world = MPI.COMM_WORLD
        request = world.irecv(source=MPI.ANY_SOURCE, tag=MPI.ANY_TAG)
        with pybsp.attach(world) as bsp:
            bsp.send(1 - bsp.pid, "ours")
            bsp.sync()
            world.send("theirs", 1 - world.rank)
            bsp.sync()
        assert request.wait() == "theirs"
    """)
    ended_well(ranks(2, path))


@pytest.mark.whole
def test_attached_machines_of_different_communicators_nest_and_alternate(program: Program) -> None:
    path = program("""
        from mpi4py import MPI
        import pybsp
        world = MPI.COMM_WORLD
        half = world.Split(world.rank % 2, -world.rank)
        with pybsp.attach(world) as outer, pybsp.attach(half) as inner:
            for k in range(20):
                outer.send((outer.pid + 1) % outer.p, ("outer", k))
                inner.send((inner.pid + 1) % inner.p, ("inner", k))
                outer.sync()
                inner.sync()
                assert [m.payload for m in outer.inbox] == [("outer", k)]
                assert [m.payload for m in inner.inbox] == [("inner", k)]
        assert (inner.p, inner.pid) == (half.size, half.rank)
    """)
    ended_well(ranks(4, path))


@pytest.mark.whole
def test_attached_machines_may_be_routed_by_logp_messages(program: Program) -> None:
    path = program("""
        from mpi4py import MPI
        import pybsp
        world = MPI.COMM_WORLD
        half = world.Split(world.rank % 2, -world.rank)
        for router in ("logp-sorted", "logp-offline", "logp-random"):
            with pybsp.attach(world, router=router) as outer, pybsp.attach(half, router=router) as inner:
                for bsp in (outer, inner):
                    bsp.send((bsp.pid + 1) % bsp.p, (bsp.p, bsp.pid))
                outer.sync()
                inner.sync()
                for bsp in (outer, inner):
                    assert [m.payload for m in bsp.inbox] == [(bsp.p, (bsp.pid - 1) % bsp.p)]
    """)
    ended_well(ranks(4, path))


@pytest.mark.whole
def test_run_may_be_called_many_times(program: Program) -> None:
    path = program("""
        import pybsp
        for k in range(500):
            assert pybsp.run(lambda bsp, more: bsp.pid + more, k) - k in (0, 1)
    """)
    ended_well(ranks(2, path))


# -- the user's hook ---------------------------------------------------------------------------------------------------


@pytest.mark.whole
@pytest.mark.parametrize("place", ["before the import", "after the import", "after, chaining"])
def test_the_users_excepthook_is_called_once_in_the_job(program: Program, place: str) -> None:
    chain = "previous(kind, error, trace)" if place == "after, chaining" else "None"
    hook = f"""
import sys
previous = sys.excepthook
def mine(kind, error, trace):
    print("hook got", kind.__name__, error, flush=True)
    {chain}
sys.excepthook = mine
"""
    body = "def main(bsp):\n    if bsp.pid == 1: raise ValueError('boom')\n    bsp.sync()\npybsp.run(main)\n"
    text = hook + "import pybsp\n" + body if place == "before the import" else "import pybsp\n" + hook + body
    ended = ranks(3, program(text))
    assert ended.code != 0
    assert ended.out == "hook got ValueError boom\n", ended
    assert ended.err.count("Traceback") == (place == "after, chaining"), ended


# -- waiting -----------------------------------------------------------------------------------------------------------


@pytest.mark.whole
@pytest.mark.parametrize("mode", ["polite", "spin", "yield", "sleep"])
def test_every_way_to_wait_works(program: Program, mode: str) -> None:
    path = program("""
        import pybsp
        def main(bsp):
            for _ in range(20):
                bsp.sync()
            return bsp.p
        assert pybsp.run(main) == 3
    """)
    ended_well(ranks(3, path, PYBSP_WAIT=mode))


@pytest.mark.whole
@pytest.mark.fast("run(lambda bsp: bsp.sync())")
@pytest.mark.parametrize("how", ["run(lambda bsp: bsp.sync())", "attach(MPI.COMM_WORLD).__enter__()"])
def test_a_wrong_way_to_wait_is_an_error_that_is_printed_once(program: Program, how: str) -> None:
    ended = ranks(3, program(f"from mpi4py import MPI\nimport pybsp\npybsp.{how}\n"), PYBSP_WAIT="patiently")
    assert ended.code != 0
    assert ended.err.count("Traceback") == 1, ended.err
    line = "pybsp.errors.UsageError: PYBSP_WAIT: expected one of polite, spin, yield, sleep, got 'patiently'"
    assert ended.err.count(line) == 1


@pytest.mark.whole
@pytest.mark.parametrize(("way", "gives"), [("polite", True), ("spin", False)])
def test_with_more_ranks_than_cores_who_waits_gives_the_core_to_another(
    program: Program, way: str, gives: bool
) -> None:
    path = program("""
        import os
        import sys
        import time
        given = 0
        def counted(wait):
            def count(*seconds):
                global given
                given += 1
                wait(*seconds)
            return count
        os.sched_yield, time.sleep = counted(os.sched_yield), counted(time.sleep)
        import pybsp
        def main(bsp):
            for _ in range(100):
                bsp.sync()
            return given
        sys.stdout.write(f"{pybsp.run(main)}\\n")
        sys.stdout.flush()
    """)
    given = [int(line) for line in ended_well(ranks((os.cpu_count() or 1) + 1, path, PYBSP_WAIT=way)).split()]
    assert (sum(given) > 0) == gives, given


@pytest.mark.whole
def test_a_ledger_that_cannot_be_written_is_an_error_once_and_no_hang(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("import pybsp\npybsp.run(lambda bsp: bsp.sync())\n")
    nowhere = str(tmp_path / "absent" / "ledger.json")
    ended = run([*mpiexec(2), *python(program)], 30, PYBSP_LEDGER=nowhere)
    assert ended.code != 0
    assert ended.err.count("Traceback") == 1, ended.err
    assert "PYBSP_LEDGER: expected a file that can be written" in ended.err
    early = run([sys.executable, "-m", "pybsp", "run", "-n", "2", "--ledger", nowhere, str(program)])
    assert early.code == 2


@pytest.mark.fast("virtual")
@pytest.mark.parametrize("start", [["run", "-n", "2"], ["simulate", "-p", "2"]], ids=["ranks", "virtual"])
def test_a_ledger_that_can_no_longer_be_written_costs_no_result(tmp_path: Path, start: list[str]) -> None:
    """The folder goes during the first run; the second one begins the file."""
    program, folder = tmp_path / "program.py", tmp_path / "folder"
    folder.mkdir()
    program.write_text(
        "import os, pybsp, sys\n"
        "pids = []\n"
        "def main(bsp, k):\n"
        "    pids.append(bsp.pid)\n"
        "    bsp.sync()\n"
        f"    if bsp.pid == 0 and k == 0:\n        os.rmdir({str(folder)!r})\n"
        "    return 40 + k\n"
        "def say(result):\n    sys.stdout.write(f'{result}\\n')\n    sys.stdout.flush()\n"
        "say(pybsp.run(main, 0))\n"
        f"if pids[0] == 0:\n    os.mkdir({str(folder)!r})\n"
        "say(pybsp.run(main, 1))\n"
    )
    ledger = folder / "ledger.json"
    ended = run([sys.executable, "-m", "pybsp", start[0], "--ledger", str(ledger), *start[1:], str(program)])
    assert ended.code == 0, ended
    assert set(ended.out.split()) == {"40", "41"}
    assert ended.err.count(f"the ledger of this run could not be written to {ledger}") == 1, ended.err
    assert "Traceback" not in ended.err
    (found,) = json.loads(ledger.read_text())["runs"]
    assert len(found["supersteps"]) == 1


@pytest.mark.parametrize("start", [["run", "-n", "1"], ["simulate", "-p", "2"]], ids=["ranks", "virtual"])
@pytest.mark.parametrize(
    "end",
    [
        "pass",
        "import sys; sys.exit()",
        "import sys; sys.exit(3)",
        "import pybsp, sys; pybsp.run(lambda bsp: sys.exit(0))",
    ],
    ids=["", "exit", "3", "exit in main"],
)
def test_a_ledger_that_no_run_has_written_is_told(tmp_path: Path, start: list[str], end: str) -> None:
    program, ledger = tmp_path / "program.py", tmp_path / "ledger.json"
    program.write_text(f"def main(bsp):\n    bsp.sync()\n{end}\n")
    ended = run([sys.executable, "-m", "pybsp", *start, "--ledger", str(ledger), str(program)])
    text = f"pybsp {start[0]}: no BSP run has written the ledger {ledger}; pybsp.run(main) in {program} would"
    text += ", where main does not call sys.exit\n"
    assert (ended.code, ended.out, ended.err) == ((3, "", "") if "3" in end else (0, "", text))


@pytest.mark.whole
@pytest.mark.parametrize("start", [["run", "-n", "1"], ["simulate", "-p", "2"]], ids=["ranks", "virtual"])
@pytest.mark.parametrize("run_of", ["pybsp.run", "pybsp.logp.run"])
def test_a_trace_that_no_run_has_written_is_told(tmp_path: Path, start: list[str], run_of: str) -> None:
    program, trace = tmp_path / "program.py", tmp_path / "trace.json"
    command = [sys.executable, "-m", "pybsp", *start, "--trace", str(trace), str(program)]
    program.write_text(f"import pybsp, sys\n{run_of}(lambda processor: sys.exit(0))\n")
    ended = run(command)
    text = f"pybsp {start[0]}: no run has written the trace {trace}; pybsp.run(main), or pybsp.logp.run(main), in "
    text += f"{program} would, where main does not call sys.exit\n"
    assert (ended.code, ended.out, ended.err) == (0, "", text)
    program.write_text(f"import pybsp\n{run_of}(lambda processor: None)\n")
    ended = run(command)
    assert (ended.code, ended.out, ended.err) == (0, "", "")
    assert trace.exists()


@pytest.mark.whole
@pytest.mark.parametrize("start", [["run", "-n", "1"], ["simulate", "-p", "2"]], ids=["ranks", "virtual"])
def test_a_ledger_that_was_written_needs_no_word(tmp_path: Path, start: list[str]) -> None:
    program, ledger = tmp_path / "program.py", tmp_path / "ledger.json"
    program.write_text("import pybsp\npybsp.run(lambda bsp: bsp.sync())\n")
    ended = run([sys.executable, "-m", "pybsp", *start, "--ledger", str(ledger), str(program)])
    assert (ended.code, ended.out, ended.err) == (0, "", "")
    assert ledger.exists()


@pytest.mark.whole
@pytest.mark.parametrize(
    ("text", "copies"),
    [
        ("import pybsp\npybsp.simulate(lambda bsp: bsp.sync(), p=2)\n", True),
        ("from pybsp import run\ndef main(bsp):\n    bsp.sync()\n", True),
        ("import pybsp\npybsp.run(lambda bsp: bsp.sync())\n", False),
        ("import pybsp\npybsp.logp.run(lambda proc: None)\n", False),
        ("import pybsp\nfrom mpi4py import MPI\nwith pybsp.attach(MPI.COMM_WORLD) as bsp:\n    bsp.sync()\n", False),
        ("import pybsp\nfrom mpi4py import MPI\nMPI.COMM_WORLD.Barrier()\n", False),
        ("", False),
        ("import pybsp, sys\nsys.exit(3)\n", False),
    ],
    ids=["simulate", "forgotten", "run", "logp", "attach", "MPI", "no pybsp", "failed"],
)
def test_ranks_that_go_through_a_program_without_a_run_are_told_once(program: Program, text: str, copies: bool) -> None:
    path = program(text)
    ended = run([sys.executable, "-m", "pybsp", "run", "-n", "2", str(path)])
    expected = f"pybsp run: no processor called pybsp.run: each of 2 ranks went through {path} by itself; "
    assert ended.code == (3 if "exit" in text else 0), ended
    assert ended.err.startswith(expected) == copies, ended
    assert len(ended.err.splitlines()) == copies, ended


@pytest.mark.whole
@pytest.mark.fast("2")
@pytest.mark.parametrize("p", [1, 2])
def test_a_program_may_finalize_mpi_itself_after_its_runs(p: int, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("import pybsp\npybsp.run(lambda bsp: bsp.sync())\nfrom mpi4py import MPI\nMPI.Finalize()\n")
    ended = run([*mpiexec(p), *python(program)])
    assert ended.code == 0, ended.err
