"""How ranks come to a job and leave it: early, late, one by one, by way of other processes, and set differently."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

import pybsp
from pybsp.ground import failures, managed, settings

from .launching import LIMIT, Ended, failed_once, mpiexec, python, run

GRACE = "1"  # seconds, where a test waits for it
LONG = "1000"  # where it must not come to that

Program = Callable[[str], Path]

HEAD = """\
import os, sys, time
RANK = int(os.environ.get("PMI_RANK") or os.environ.get("OMPI_COMM_WORLD_RANK") or 0)
"""


@pytest.fixture
def program(tmp_path: Path) -> Program:
    def write(text: str) -> Path:
        path = tmp_path / "program.py"
        path.write_text(HEAD + dedent(text))
        return path

    return write


def ranks(p: int, path: Path, grace: str = LONG, **environment: str) -> Ended:
    return run([*mpiexec(p), *python(path)], LIMIT, PYBSP_GRACE=grace, **environment)


def none_left(path: Path) -> bool:
    """Whether no process that runs the program is left, or soon will be."""
    until = time.monotonic() + 30
    while True:
        commands = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
        if str(path) not in commands or time.monotonic() > until:
            return str(path) not in commands
        time.sleep(0.05)


# -- a rank ends without a run -----------------------------------------------------------------------------------------

EARLY = {
    "with a text, which the others wait for": ("import pybsp", "time.sleep(1)", "sys.exit('no such file')", ""),
    "well, which the others wait for": ("import pybsp", "time.sleep(1)", "sys.exit(0)", ""),
    "before the others come": ("", "", "sys.exit(0)", "time.sleep(1)"),
    "without python": ("", "time.sleep(1)", "os._exit(0)", ""),
    "after the program has begun MPI": ("from mpi4py import MPI", "import pybsp", "sys.exit(0)", ""),
}


@pytest.mark.fast("before the others come")
@pytest.mark.parametrize("case", EARLY)
def test_a_rank_that_ends_without_a_run_is_missed_once_by_all(program: Program, case: str) -> None:
    before, first, end, wait = EARLY[case]
    path = program(f"""
        {before}
        if RANK == 1:
            {first or "pass"}
            {end}
        {wait}
        import pybsp
        pybsp.run(lambda bsp: bsp.sync())
        print("ran", flush=True)
    """)
    ended = ranks(3, path, GRACE)
    assert ended.code != 0
    assert "ran" not in ended.out
    missed = re.findall(
        r"^pybsp\.errors\.SyncError: .*: (.*) ended without a run, or was killed before; processor \d called",
        ended.err,
        re.M,
    )
    assert len(missed) == 1, ended
    assert missed[0] in ("processor 1", "a processor of this host")
    assert re.search(r"pybsp\.run, at \S+program.py:\d+$", ended.err, re.M), ended.err
    assert ended.err.count("no such file") == ("text" in case)
    assert none_left(path)


@pytest.mark.whole
def test_ranks_that_end_one_after_the_other_without_a_run_end_well(program: Program) -> None:
    ended = ranks(
        3,
        program("""
            import pybsp
            pybsp.simulate(lambda bsp: bsp.sync(), p=2)
            time.sleep(RANK)
            assert "mpi4py.MPI" not in sys.modules
        """),
    )
    assert (ended.code, ended.out, ended.err) == (0, "", "")


@pytest.mark.whole
def test_a_rank_that_comes_late_to_the_first_run_is_waited_for(program: Program) -> None:
    path = program("""
        import pybsp
        time.sleep(3 * (RANK == 1))
        assert pybsp.run(lambda bsp: bsp.sync() or bsp.p) == 3
    """)
    ended = ranks(3, path, grace="0.5")
    assert (ended.code, ended.err) == (0, "")


# -- the environment differs -------------------------------------------------------------------------------------------

VALUES = {
    settings.MACHINE: ("one.json", "other.json"),
    settings.LEDGER: ("one.json", "other.json"),
    settings.TRACE: ("one.json", "other.json"),
    settings.PROGRESS: ("lines", "terminal"),
    settings.CHECKED: ("1", "0"),
    settings.ROUTER: ("direct", "sparse"),
    settings.GRACE: ("5", "6"),
    settings.WAIT: ("polite", "yield"),
    settings.SHARED: ("0", "100000000"),
    settings.AGGREGATE: ("0", "1"),
    settings.WARN_AFTER: ("50", "60"),
    settings.REPORT_SIGNAL: ("SIGUSR1", "SIGUSR2"),
    settings.CHECKPOINT: ("one", "other"),
    settings.CHECKPOINT_EVERY: ("5", "6"),
    settings.CHECKPOINT_KEEP: ("2", "3"),
    settings.RECORD: ("0", "1"),
    settings.NOTICE: ("one", "other"),
    settings.RECEIPT: ("one", "other"),
    settings.ATTENDANCE: ("one", "other"),
    settings.COMPILED: ("0", "1"),
}


def test_all_settings_are_listed_and_in_the_reference() -> None:
    assert (
        sorted(VALUES)
        == sorted(settings.DEFAULTS)
        == sorted(settings.OF_RUN + settings.OF_TRANSPORT + settings.OF_PROCESS)
    )
    root = Path(__file__).parent.parent
    page = (root / "docs" / "reference" / "settings.md").read_text()
    assert re.findall(r"^\| `(PYBSP_\w+)` \|", page, re.M) == list(settings.DEFAULTS)
    source = Path(pybsp.__file__).parent
    readers = [
        path.name
        for path in source.rglob("*.py")
        if re.search(r"environ(\.get)?[\[(][\"']PYBSP_", path.read_text()) and "benchmarks" not in path.parts
    ]
    assert readers == []


@pytest.mark.whole
@pytest.mark.fast("PYBSP_LEDGER")
@pytest.mark.parametrize("name", [name for name in VALUES if name not in settings.OF_PROCESS])
def test_a_setting_that_differs_is_an_error_that_names_both_values(program: Program, tmp_path: Path, name: str) -> None:
    for value in VALUES[settings.MACHINE]:
        pybsp.BSPMachine.nominal(3).save(tmp_path / value)
    path = program(f"""
        os.chdir(os.path.dirname(os.path.abspath(__file__)))
        os.environ[{name!r}] = {VALUES[name]!r}[RANK == 2]
        import pybsp
        for _ in range(2):
            try:
                pybsp.run(lambda bsp: bsp.sync())
            except pybsp.UsageError as error:
                sys.stdout.write(f"<{{error}}>")
                sys.stdout.flush()
        pybsp.run(lambda bsp: bsp.sync())
    """)
    ended = ranks(3, path)
    text = (
        f"pybsp.run: environment variable {name}: expected the same on all processors, got {VALUES[name][1]!r} on "
        f"processor 2, {VALUES[name][0]!r} on processor 0"
    )
    failed_once(ended, f"pybsp.errors.UsageError: {text}")
    assert ended.out.count(f"<{text}") == 6


def test_ranks_of_several_versions_of_pybsp_are_an_error_that_names_both(program: Program) -> None:
    path = program("""
        import pybsp
        from pybsp.transport import mpi
        mpi.__version__ = "7.8.9"[:5 - 2 * (RANK == 1)]
        pybsp.run(lambda bsp: bsp.sync())
    """)
    text = "expected the same pybsp on all processors, got 7.8 on processor 1, 7.8.9 on processor 0"
    failed_once(ranks(2, path), f"pybsp.errors.UsageError: pybsp.run: {text}; install one version where all hosts")


def test_settings_are_those_of_processor_0_and_no_other_may_have_one_of_its_own() -> None:
    with pytest.raises(pybsp.UsageError, match=r"got '7' on processor 1, nothing on processor 0; set it for all"):
        settings.agree("run", [settings.GRACE], [{}, {settings.GRACE: "7"}])
    with pytest.raises(pybsp.UsageError, match=r"got '8' on processor 2, '7' on processor 0"):
        settings.agree("run", [settings.GRACE], [{settings.GRACE: "7"}, {}, {settings.GRACE: "8"}])


@pytest.mark.whole
def test_a_setting_that_processor_0_lacks_is_an_error(program: Program) -> None:
    ended = ranks(
        2,
        program("""
            if RANK == 1:
                os.environ["PYBSP_LEDGER"] = "ledger.json"
            import pybsp
            pybsp.run(lambda bsp: bsp.sync())
        """),
    )
    failed_once(ended, "pybsp.errors.UsageError: pybsp.run: environment variable PYBSP_LEDGER: expected the same")
    assert "'ledger.json' on processor 1, nothing on processor 0" in ended.err


@pytest.mark.whole
def test_what_is_set_on_processor_0_alone_counts_for_all(program: Program, tmp_path: Path) -> None:
    ended = ranks(
        3,
        program("""
            os.chdir(os.path.dirname(os.path.abspath(__file__)))
            os.environ.pop("PYBSP_GRACE")
            if RANK == 0:
                os.environ.update(PYBSP_LEDGER="ledger.json", PYBSP_CHECKED="1", PYBSP_WAIT="yield", PYBSP_SHARED="0",
                                  PYBSP_GRACE="7")
            import pybsp
            from pybsp.ground import settings
            def main(bsp):
                bsp.sync()
                transport, grace = bsp._transport, settings.seconds(settings.GRACE)
                return bsp._superstep.checked, transport.waiter._adapts, transport.board, grace
            assert pybsp.run(main) == (True, False, None, 7)
        """),
    )
    assert (ended.code, ended.err) == (0, "")
    assert len(json.loads((tmp_path / "ledger.json").read_text())["runs"]) == 1


@pytest.mark.whole
def test_a_logp_run_agrees_on_its_settings(program: Program) -> None:
    path = program("""
        os.environ["PYBSP_GRACE"] = str(20 + RANK)
        import pybsp
        pybsp.logp.run(lambda proc: None)
    """)
    failed_once(ranks(2, path), "pybsp.errors.UsageError: pybsp.logp.run: environment variable PYBSP_GRACE: expected")


# -- processes that a rank has started ---------------------------------------------------------------------------------


ENDS = {"sys.exit(5)": 5, "raise SystemExit(6)": 6, "1 // 0": 1, "os._exit(0)": 0}


@pytest.mark.whole
@pytest.mark.fast("sys.exit(5)-mpi4py")
@pytest.mark.parametrize("first", ["pybsp", "mpi4py"])
@pytest.mark.parametrize("end", ENDS)
def test_a_forked_child_takes_no_part(program: Program, end: str, first: str) -> None:
    path = program(f"""
        {"from mpi4py import MPI" * (first == "mpi4py")}
        import pybsp
        def main(bsp):
            bsp.sync()
            if bsp.pid == 1:
                child = os.fork()
                if not child:
                    {end}
                assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == {ENDS[end]}
            for _ in range(10):
                bsp.sync()
        pybsp.run(main)
        if RANK == 0 and not os.fork():
            {end}
        pybsp.run(lambda bsp: bsp.sync())
        print("well", flush=True)
    """)
    ended = ranks(3, path)
    assert (ended.code, ended.out.count("well"), ended.err.count("Traceback")) == (0, 3, 2 * (end == "1 // 0")), ended


@pytest.mark.whole
@pytest.mark.parametrize("first", ["pybsp", "mpi4py"])
def test_a_forked_child_may_end_where_the_program_does(program: Program, first: str) -> None:
    path = program(f"""
        {"from mpi4py import MPI" * (first == "mpi4py")}
        import pybsp
        pybsp.run(lambda bsp: bsp.sync())
        child = RANK == 1 and os.fork()
        if child or RANK != 1:
            if child:
                assert os.waitpid(child, 0)[1] == 0
            pybsp.run(lambda bsp: bsp.sync())
            print("well", flush=True)
    """)
    ended = ranks(2, path)
    assert (ended.code, ended.out.count("well"), ended.err) == (0, 2, ""), ended


@pytest.mark.whole
def test_a_forked_child_that_comes_to_the_end_of_a_run_is_refused_there(program: Program) -> None:
    path = program("""
        import pybsp
        def main(bsp):
            child = bsp.pid == 1 and os.fork()
            if bsp.pid == 1 and not child:
                return
            if child:
                assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
            bsp.sync()
        pybsp.run(main)
        print("well", flush=True)
    """)
    ended = ranks(2, path)
    assert (ended.code, ended.out.count("well"), ended.err.count("Traceback")) == (0, 2, 1), ended
    assert "LauncherError: pybsp.run: this process was started by processor 1 of 2, and is no processor" in ended.err


@pytest.mark.whole
def test_what_a_forked_child_calls_is_refused_and_reaches_nobody(program: Program) -> None:
    path = program("""
        import pybsp
        from pybsp import collectives
        def child(calls):
            forked = os.fork()
            if not forked:
                for call in calls:
                    try:
                        call()
                    except pybsp.UsageError as error:
                        assert f"this process was forked by processor {RANK} of 2, and is no processor" in str(error)
                    else:
                        os._exit(1)
                os._exit(0)
            assert os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1]) == 0
        def main(bsp):
            x, q = bsp.array(2), bsp.queue()
            bsp.sync()
            child([lambda: bsp.send(0, 1), lambda: x.put(0, 1.0, at=0), lambda: q.send(0, 1.0), bsp.sync])
            child([lambda: bsp.ledger, lambda: bsp.split(0), lambda: collectives.allgather(bsp, 1)])
            child([lambda: bsp.abort("")])
            with bsp.split(0) as part:
                child([part.sync, lambda: part.send(0, 1)])
            bsp.sync()
            assert (len(bsp.inbox), len(q.values), *x.local) == (0, 0, 0, 0)
        def logp(proc):
            child([lambda: proc.send(1 - proc.pid, 1), proc.recv, proc.poll, lambda: proc.compute(1)])
            proc.send(1 - proc.pid, 2)
            assert proc.recv().payload == 2
        pybsp.run(main)
        pybsp.logp.run(logp)
        print("well", flush=True)
    """)
    ended = ranks(2, path)
    assert (ended.code, ended.out.count("well"), ended.err) == (0, 2, ""), ended


@pytest.mark.whole
@pytest.mark.parametrize(
    ("end", "words"),
    [
        ("raise ValueError('of the program')", "ValueError: of the program"),
        ("", "ended its program while its run went"),
    ],
)
def test_a_program_that_ends_while_a_thread_runs_one_ends_the_job(program: Program, end: str, words: str) -> None:
    path = program(f"""
        import pybsp, threading
        began = threading.Event()
        def main(bsp):
            bsp.sync()
            began.set()
            while bsp.time() < 100:
                bsp.sync()
        thread = threading.Thread(target=pybsp.run, args=(main,), daemon={not end})
        thread.start()
        began.wait()
        if RANK == 0:
            thread.join()
        {end}
    """)
    ended = ranks(2, path)
    assert (ended.code != 0, ended.out, ended.err.count(words)) == (True, "", 1), ended


CHILDREN = {
    "a subprocess": "subprocess.run([sys.executable, '-c', CODE]).returncode",
    "a subprocess of a shell": "subprocess.run(f'{sys.executable} -c \"$CODE\"; exit $?', shell=True).returncode",
    "a forked process": "joined('fork')",
    "a spawned process": "joined('spawn')",
}


@pytest.mark.whole
@pytest.mark.fast("a forked process-after")
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("kind", CHILDREN)
def test_a_run_in_a_process_that_a_rank_has_started_is_refused_there(program: Program, kind: str, when: str) -> None:
    path = program(f"""
        import multiprocessing, subprocess
        import pybsp
        CODE = os.environ["CODE"] = "import pybsp; pybsp.simulate(lambda bsp: None, p=2); pybsp.run(lambda bsp: None)"
        def child():
            exec(CODE)
        def joined(method):
            started = multiprocessing.get_context(method).Process(target=child)
            started.start()
            started.join()
            return started.exitcode
        if __name__ == "__main__":
            if {when == "after"}:
                pybsp.run(lambda bsp: bsp.sync())
            if RANK == 1:
                assert {CHILDREN[kind]} == 1
            assert pybsp.run(lambda bsp: bsp.sync() or bsp.p) == 2
    """)
    ended = ranks(2, path)
    assert ended.code == 0, ended
    assert ended.err.count("Traceback") == 1, ended
    assert "LauncherError: pybsp.run: this process was started by processor 1 of 2, and is no processor" in ended.err


@pytest.mark.whole
def test_a_script_may_start_one_program_after_the_other(program: Program) -> None:
    path = program("""
        import pybsp
        if sys.argv[1] == "run":
            time.sleep(RANK)
            assert pybsp.run(lambda bsp: bsp.sync() or bsp.p) == 2
    """)
    one = f"{sys.executable} {path}"
    ended = run([*mpiexec(2), "bash", "-c", f"{one} none && {one} none && {one} run && exec {one} none"], LIMIT)
    assert (ended.code, ended.out, ended.err) == (0, "", "")


@pytest.mark.whole
def test_a_program_that_is_executed_in_place_of_another_is_the_rank(program: Program) -> None:
    ended = ranks(
        2,
        program("""
            import pybsp
            if len(sys.argv) == 1:
                os.execv(sys.executable, [sys.executable, __file__, "again"])
            assert pybsp.run(lambda bsp: bsp.sync() or bsp.p) == 2
        """),
    )
    assert (ended.code, ended.err) == (0, "")


@pytest.mark.whole
def test_a_rank_may_start_a_job_of_its_own(program: Program) -> None:
    launcher = mpiexec(2)
    path = program(f"""
        import subprocess
        import pybsp
        def main(bsp):
            bsp.sync()
            return bsp.p
        if len(sys.argv) > 1:
            assert pybsp.run(main) == 2
            sys.exit(0)
        theirs = ("PMI", "MPI_", "HYD", "PRTE_", "OMPI_")
        ours = [name for name in os.environ if not name.startswith(theirs) or name.startswith("OMPI_ALLOW")]
        alone = {{name: os.environ[name] for name in ours}}
        if RANK == 0:
            subprocess.run({launcher!r} + [sys.executable, __file__, "inner"], check=True, env=alone)
        assert pybsp.run(main) == 2
    """)
    ended = ranks(2, path)
    assert (ended.code, ended.err) == (0, "")


# -- ends in the middle of things --------------------------------------------------------------------------------------


@pytest.mark.whole
def test_exit_without_python_in_a_run_is_no_good_end(program: Program) -> None:
    path = program("""
        import pybsp
        pybsp.run(lambda bsp: bsp.sync() or (os._exit(0) if bsp.pid == 1 else bsp.sync()))
    """)
    launcher, *rest = mpiexec(3)
    # MPICH's forgets to end the others once in some thousand jobs, and always with that option.
    for options in ([], [], ["-disable-auto-cleanup"]):
        ended = run([launcher, *options, *rest, *python(path)], LIMIT, PYBSP_GRACE=GRACE)
        assert ended.code != 0
        assert "pybsp: processor 1 called os._exit(0) before the job has ended" in ended.err
    assert "the process of processor 1 has ended, and the launcher ends no others; ending the job" in ended.err
    assert none_left(path)


@pytest.mark.whole
def test_exit_without_python_after_mpi_is_a_good_end(program: Program) -> None:
    path = program("""
        import pybsp
        pybsp.run(lambda bsp: bsp.sync())
        from mpi4py import MPI
        MPI.Finalize()
        os._exit(0)
    """)
    ended = ranks(2, path)
    assert (ended.code, ended.err) == (0, "")


@pytest.mark.whole
def test_an_attached_machine_frees_its_communicators_but_that_by_which_all_heard_of_an_end_in_the_midst(
    program: Program,
) -> None:
    """MPI calls what was set with an attribute for each duplicate that is made, and for each that is freed."""
    path = program("""
        import signal, time
        import pybsp
        from mpi4py import MPI
        made, freed = [], []
        key = MPI.Comm.Create_keyval(lambda comm, key, value: made.append(1), lambda *_: freed.append(1))
        comm = MPI.COMM_WORLD.Dup()
        comm.Set_attr(key, "ours")

        def ended(main):
            before = len(made), len(freed)
            try:
                with pybsp.attach(comm) as bsp:
                    bsp.sync()
                    main(bsp)
                    bsp.sync()
            except (ValueError, pybsp.ProcessorError):
                pass
            return len(made) - before[0], len(freed) - before[1]

        def raises(bsp):
            if bsp.pid == 1:
                raise ValueError

        def raises_while_another_is_handled(bsp):
            try:
                raises(bsp)
            except ValueError:
                raise ValueError

        def interrupted(*_):
            raise ValueError

        def leaves_an_exchange(bsp):
            if bsp.pid == 0:
                time.sleep(1.0)
            else:
                signal.signal(signal.SIGALRM, interrupted)
                signal.setitimer(signal.ITIMER_REAL, 0.1)
            bsp.sync()

        for main in (lambda bsp: None, raises, raises_while_another_is_handled, leaves_an_exchange):
            found = ended(main)
            if comm.rank == 0:
                print(*found)
    """)
    ended = ranks(2, path)
    assert ended.code == 0, ended.err
    found = [tuple(map(int, line.split())) for line in ended.out.splitlines()]
    assert found == [(2, 2), (2, 2), (2, 2), (2, 1)]


@pytest.mark.whole
@pytest.mark.fast("3")
@pytest.mark.parametrize("status", ["0", "3", "'bad input'"])
def test_exit_on_one_processor_of_an_attached_machine(program: Program, status: str) -> None:
    path = program(f"""
        import pybsp
        from mpi4py import MPI
        with pybsp.attach(MPI.COMM_WORLD) as bsp:
            bsp.sync()
            if bsp.pid == 1:
                sys.exit({status})
            bsp.sync()
    """)
    failed_once(ranks(3, path), f"SystemExit: {status.strip(chr(39))}")
    assert none_left(path)


@pytest.mark.whole
@pytest.mark.parametrize("run", ["pybsp.attach", "pybsp.logp.run"])
def test_exit_on_one_processor_of_a_part_of_the_job_leaves_no_rank(program: Program, run: str) -> None:
    path = program(f"""
        import pybsp
        from mpi4py import MPI
        world = MPI.COMM_WORLD
        part = world.Split(world.rank == 0)
        if world.rank == 0:
            world.Barrier()
        if {run == "pybsp.attach"}:
            with pybsp.attach(part) as bsp:
                if bsp.pid == 1:
                    sys.exit(3)
                bsp.sync()
        pybsp.logp.run(lambda proc: sys.exit(3) if proc.pid == 1 else proc.recv(), comm=part)
    """)
    failed_once(ranks(3, path), "SystemExit: 3")
    assert none_left(path)


REFUSING = {
    "frozen": "@dataclasses.dataclass(frozen=True)\nclass Refusing(Exception):\n    what: str\n",
    "slots": "class Refusing(Exception):\n    __slots__ = ()\n    def __setattr__(self, *_): raise TypeError(_)\n",
}
RAISES = {
    "run": "pybsp.run(main)",
    "attach": "with pybsp.attach(__import__('mpi4py.MPI').MPI.COMM_WORLD) as bsp: main(bsp)",
    "logp-sorted": "pybsp.run(main, router='logp-sorted')",
    "logp": "pybsp.logp.run(lambda proc: fail() if proc.pid == 1 else proc.recv())",
}


@pytest.mark.whole
@pytest.mark.parametrize("how", RAISES)
@pytest.mark.parametrize("kind", REFUSING)
def test_an_exception_that_refuses_attributes_keeps_its_place(program: Program, kind: str, how: str) -> None:
    text = f"import dataclasses, pybsp\n{REFUSING[kind]}" + dedent(f"""
        def fail():
            raise Refusing("boom")
        def main(bsp):
            bsp.sync()
            with bsp.superstep("exchange"):
                if bsp.pid == 1:
                    fail()
        {RAISES[how]}
    """)
    ended = ranks(3, program("\n".join(text.split("\n"))))
    failed_once(ended, "Refusing: boom" if sys.version_info < (3, 13) else "Refusing")
    place = "" if how == "logp" else ', in superstep 1 ("exchange")'
    assert f"(on processor 1 of 3{place})" in ended.err


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exceptions take no notes")
@pytest.mark.parametrize("kind", REFUSING)
def test_an_exception_that_refuses_attributes_takes_a_note(kind: str) -> None:
    defined: dict[str, Any] = {"dataclasses": dataclasses}
    exec(REFUSING[kind], defined)
    error = defined["Refusing"]("boom")
    failures.note_place(error, "(on processor 1 of 3)")
    assert traceback.format_exception(error)[-1] == "(on processor 1 of 3)\n"


def test_what_is_known_of_an_exception_is_kept_with_it() -> None:
    first, second = ValueError("boom"), ValueError("boom")
    failures.outcome(first).quiet = True
    assert failures.quiet(first)
    assert not failures.quiet(second)


def test_a_managed_context_lets_exceptions_through_as_they_are() -> None:
    class RefusingError(Exception):
        def __setattr__(self, name: str, value: object) -> None:
            raise TypeError(name)

    left = []

    @managed.managed
    def context(value: int):  # type: ignore[no-untyped-def]
        try:
            yield value
        finally:
            left.append(value)

    error = RefusingError()
    with pytest.raises(RefusingError) as caught, context(3):
        raise error
    assert caught.value is error
    assert error.__traceback__ is not None
    assert error.__traceback__.tb_next is None  # no frames of the generator
    with context(4) as value:
        assert value == 4
    assert left == [3, 4]
    with pytest.raises(ZeroDivisionError), context(5):
        os.getpid() // 0
    again = context(6)
    with again:
        with pytest.raises(pybsp.UsageError, match=r"context: expected a context .* once, .* call context"):
            again.__enter__()
        assert left == [3, 4, 5]
    with pytest.raises(pybsp.UsageError, match="entered once"), again:
        pass
    assert left == [3, 4, 5, 6]


def test_a_managed_context_hears_once_of_what_left_its_block_before_it_could_go_on() -> None:
    heard = []

    @managed.managed
    def context():  # type: ignore[no-untyped-def]
        try:
            yield
        except BaseException as error:
            heard.append(error)
            raise

    error, block = SystemExit(143), context()
    block.left_by(error)
    assert heard == []  # it has not been entered
    block.__enter__()
    block.left_by(error)
    block.left_by(error)
    assert heard == [error]
    with context() as nothing:
        assert nothing is None
    assert heard == [error]


def test_a_run_on_a_communicator_is_refused_with_the_way_out() -> None:
    with pytest.raises(pybsp.UsageError, match=r"pybsp.run: argument comm: .* `with pybsp.attach\(comm\) as bsp:`"):
        pybsp.run(lambda bsp: None, comm=None)
    assert pybsp.run(lambda bsp, comm: comm, comm=3) == 3
