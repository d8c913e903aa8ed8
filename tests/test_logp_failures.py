"""When LogP programs on MPI ranks go wrong: the job must say so once and end at once."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

import pybsp

from .launching import LIMIT, failed_once, finish, mpiexec, python, run, start
from .test_failures import GRACE, LONG, all_gone, ranks, said

Program = Callable[..., Path]


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """Writes a program; what it gets from `HEAD` is there."""

    def write(text: str) -> Path:
        path = tmp_path / "program.py"
        path.write_text(HEAD + dedent(text))
        return path

    return write


HEAD = """\
import os, sys, time
import numpy as np
import pybsp
from pybsp import logp
RANK = int(os.environ.get("PMI_RANK") or os.environ.get("OMPI_COMM_WORLD_RANK") or 0)
def catching(program, **kwargs):
    try:
        return logp.run(program, **kwargs)
    except pybsp.BSPError as error:
        sys.stdout.write(f"<{RANK} {type(error).__name__}: {error}>\\n")
        sys.stdout.flush()
        raise
"""

CAPACITIES = pytest.mark.parametrize("capacity", ["global", "window", "per-pair", None])


@pytest.mark.whole
@CAPACITIES
def test_a_processor_raises_while_the_others_receive_and_send(program: Program, capacity: str | None) -> None:
    ended = ranks(
        5,
        program(f"""
            def program(proc):
                if proc.pid == 3:
                    time.sleep(0.3)
                    raise ValueError("boom")
                if proc.pid == 0:
                    proc.recv()                     # for ever
                elif proc.pid == 1:
                    while True:
                        proc.send(3, np.zeros(10))  # stalls, where there is a capacity
                elif proc.pid == 2:
                    proc.recv(until=10**9)
                # and 4 has ended
            catching(program, capacity={capacity!r})
        """),
    )
    failed_once(ended, "ValueError: boom")
    assert "(on processor 3 of 5)" in ended.err
    texts = said(ended)
    assert sorted(texts) == [0, 1, 2, 4], ended.out
    assert set(texts.values()) == {"ProcessorError: processor 3 failed: ValueError: boom"}


@pytest.mark.whole
def test_a_processor_raises_under_pybsp_run(program: Program) -> None:
    path = program("catching(lambda proc: 1 // (proc.pid - 1) and proc.recv())")
    ended = run([*python("-m"), "pybsp", "run", "-n", "3", str(path)], LIMIT, PYBSP_GRACE=LONG)
    failed_once(ended, "ZeroDivisionError")


@pytest.mark.whole
def test_two_processors_raise_at_once_and_the_lowest_speaks(program: Program) -> None:
    ended = ranks(
        6,
        program("""
            def program(proc):
                if proc.pid in (2, 4):
                    raise ValueError(f"boom {proc.pid}")
                proc.recv()
            catching(program)
        """),
    )
    failed_once(ended, "ValueError: boom 2")
    assert sorted(said(ended)) == [0, 1, 3, 5]
    assert set(said(ended).values()) == {"ProcessorError: processor 2 failed: ValueError: boom 2"}


@pytest.mark.whole
def test_all_processors_raise_and_one_speaks(program: Program) -> None:
    failed_once(ranks(4, program("logp.run(lambda proc: 1 // 0)")), "ZeroDivisionError")


@pytest.mark.whole
def test_a_processor_fails_and_another_does_not_come_within_the_grace_period(program: Program, tmp_path: Path) -> None:
    ended = ranks(
        3,
        program("""
            def program(proc):
                if proc.pid == 0:
                    raise ValueError("boom")
                if proc.pid == 1:
                    time.sleep(1000)
                proc.recv()
            catching(program)
        """),
        grace=GRACE,
    )
    failed_once(ended, "ValueError: boom")
    assert "processor 0 failed, and not all others" in ended.err
    all_gone(tmp_path)


def test_a_deadlock_is_said_once_by_one_that_waits(program: Program) -> None:
    ended = ranks(
        4,
        program("""
            def program(proc):
                if proc.pid in (2, 3):
                    proc.send(5 - proc.pid, "one")
                    proc.recv()
                    proc.recv()  # waits
            catching(program)
        """),
    )
    failed_once(ended, "pybsp.errors.DeadlockError: pybsp.logp: processors 2 (since time ")
    assert "proc.recv()  # waits" in ended.err
    assert sorted(said(ended)) == [0, 1, 2, 3]
    assert len(set(said(ended).values())) == 1
    assert "all others have ended, and nothing is in transit" in said(ended)[0]


@pytest.mark.whole
def test_messages_that_nobody_received_are_said_once(program: Program) -> None:
    ended = ranks(3, program("catching(lambda proc: proc.pid == 1 and proc.send(2, 'x'))"))
    text = "pybsp.logp: the program has ended, and 1 message was not received: 1 to processor 2; each message needs"
    failed_once(ended, f"pybsp.errors.UnreceivedError: {text}")
    assert sorted(said(ended)) == [0, 1, 2]


@pytest.mark.whole
def test_an_exit_of_one_processor_ends_the_job(program: Program) -> None:
    ended = ranks(3, program("catching(lambda proc: sys.exit(3) if proc.pid == 1 else proc.recv())"))
    assert ended.code != 0
    assert sorted(said(ended)) == [0, 2]
    assert set(said(ended).values()) == {"ProcessorError: processor 1 failed: SystemExit: 3"}


@pytest.mark.whole
def test_an_interrupt_ends_all_that_wait(program: Program, tmp_path: Path) -> None:
    path = program("""
        def program(proc):
            if proc.pid == 0:
                print("waits", flush=True)
                time.sleep(1000)
            proc.recv()
        logp.run(program)
    """)
    job = start([*mpiexec(3), *python(path)], PYBSP_GRACE=LONG)
    assert job.stdout is not None
    assert job.stdout.readline() == "waits\n"
    time.sleep(0.5)
    os.killpg(job.pid, signal.SIGINT)
    ended = finish(job, LIMIT)
    assert ended.code != 0
    all_gone(tmp_path)


@pytest.mark.whole
def test_a_rank_raises_outside_of_the_run(program: Program) -> None:
    ended = ranks(
        3,
        program("""
            logp.run(lambda proc: None)
            if RANK == 2:
                raise ValueError("boom")
            catching(lambda proc: proc.recv())
        """),
    )
    failed_once(ended, "ValueError: boom")
    assert set(said(ended).values()) == {"ProcessorError: processor 2 failed outside of a run: ValueError: boom"}


@pytest.mark.whole
def test_a_rank_ends_while_the_others_begin_a_run(program: Program) -> None:
    ended = ranks(
        3,
        program("""
            logp.run(lambda proc: None)
            if RANK == 1:
                sys.exit()
            catching(lambda proc: proc.recv())
        """),
    )
    assert ended.code != 0
    assert sorted(said(ended)) == [0, 2]
    assert "processor 1 left the job" in said(ended)[0]
    assert "processors 0, 2 called pybsp.logp.run, at " in said(ended)[0]


@pytest.mark.whole
def test_a_failure_on_a_part_that_is_caught_ends_nothing_and_elsewhere_goes_on(program: Program) -> None:
    ended = ranks(
        4,
        program("""
            from mpi4py import MPI
            low = MPI.COMM_WORLD.rank < 2
            part = MPI.COMM_WORLD.Split(low)
            def fails(proc):
                if proc.pid == 0:
                    raise ValueError("boom")
                proc.recv()
            def works(proc):
                for number in range(100):
                    proc.send(1 - proc.pid, number)
                    assert proc.recv().payload == number
            for wanted in (ValueError, pybsp.ProcessorError) * 2:
                try:
                    logp.run(fails if low else works, comm=part)
                    assert not low
                except (ValueError, pybsp.ProcessorError):
                    assert low
            logp.run(works, comm=part)
            logp.run(lambda proc: proc.p)
            print("fine", flush=True)
        """),
    )
    assert (ended.code, ended.out.count("fine"), ended.err) == (0, 4, "")


@pytest.mark.whole
def test_a_failure_on_a_part_that_nobody_catches_ends_the_job(program: Program, tmp_path: Path) -> None:
    ended = ranks(
        4,
        program("""
            from mpi4py import MPI
            part = MPI.COMM_WORLD.Split(MPI.COMM_WORLD.rank < 2)
            def program(proc):
                if MPI.COMM_WORLD.rank == 1:
                    raise ValueError("boom")
                proc.recv(until=10**9)
            logp.run(program, comm=part)
        """),
    )
    failed_once(ended, "ValueError: boom")
    all_gone(tmp_path)


RING = """
    def program(proc):
        if proc.pid == 0:
            proc.send(1 % proc.p, 1)
            return proc.recv().payload
        proc.send((proc.pid + 1) % proc.p, proc.recv().payload + 1)
    print(logp.run(program), flush=True)
"""


@pytest.mark.whole
def test_under_pybsp_simulate_the_file_runs_once_on_a_simulated_machine(program: Program) -> None:
    ended = run([*python("-m"), "pybsp", "simulate", "-p", "7", str(program(RING))], LIMIT)
    assert (ended.code, ended.out, ended.err) == (0, "7\n", "")


@pytest.mark.whole
def test_a_run_with_a_ledger_says_once_that_it_has_none(program: Program, tmp_path: Path) -> None:
    path, ledger = program("logp.run(lambda proc: None)\nlogp.run(lambda proc: None)"), tmp_path / "ledger.json"
    wanted = rf"pybsp: a LogP run has no supersteps, and writes nothing to the ledger {re.escape(str(ledger))}; .*\n"
    option = ["--ledger", str(ledger), str(path)]
    for ended in (
        run([*mpiexec(3), *python(path)], LIMIT, PYBSP_LEDGER=str(ledger)),
        run([*python("-m"), "pybsp", "run", "-n", "2", *option], LIMIT),
        run([*python("-m"), "pybsp", "simulate", "-p", "3", *option], LIMIT),
        run(python(path), LIMIT, PYBSP_LEDGER=str(ledger)),
    ):
        assert (ended.code, ended.out) == (0, "")
        assert re.fullmatch(wanted, ended.err), ended.err
    assert not ledger.exists()


@pytest.mark.whole
@pytest.mark.parametrize("pace", ["1", "0", "'yes'", "None"])
def test_pace_is_true_or_false(program: Program, pace: str) -> None:
    path = program(f"logp.run(lambda proc: None, pace={pace})")
    for command in (
        python(path),
        [*mpiexec(2), *python(path)],
        [*python("-m"), "pybsp", "simulate", "-p", "2", str(path)],
    ):
        ended = run(command, LIMIT)
        assert ended.code != 0
        assert f"pybsp.logp.run: argument pace: expected True or False, got {pace}" in ended.err
        assert ended.err.count("Traceback") == 1


@pytest.mark.parametrize("pace", [1, "yes", None])
def test_another_pace_is_refused(pace: object) -> None:
    with pytest.raises(pybsp.UsageError, match=f"argument pace: expected True or False, got {pace!r}"):
        pybsp.logp.run(lambda proc: None, pace=pace)  # type: ignore[call-overload]


@pytest.mark.whole
def test_without_a_launcher_there_is_one_processor(program: Program) -> None:
    ended = run(python(program("print(logp.run(lambda proc: (proc.p, proc.poll())))")), LIMIT)
    assert (ended.code, ended.out, ended.err) == (0, "(1, None)\n", "")


@pytest.mark.whole
def test_the_machine_in_force_is_that_of_the_file_that_pybsp_machine_names(program: Program, tmp_path: Path) -> None:
    path = program("""
        from pathlib import Path
        machine = logp.run(lambda proc: proc.machine)
        print((machine.p, machine.L, machine.o, machine.G), flush=True) if RANK == 0 else None
    """)
    file = tmp_path / "machine.json"
    make = f"import pybsp; pybsp.LogPMachine(2, 100, 7, 20, step=1e-6).save({str(file)!r})"
    assert run([*python("-c"), make], LIMIT).code == 0
    ended = run([*mpiexec(2), *python(path)], LIMIT, PYBSP_MACHINE=str(file))
    assert (ended.code, ended.out, ended.err) == (0, "(2, 100, 7, 20)\n", "")
    ended = run([*mpiexec(3), *python(path)], LIMIT, PYBSP_MACHINE=str(file))
    assert (ended.code, ended.out) == (0, "(3, 100, 7, 20)\n")
    assert re.fullmatch(r"pybsp: .*machine\.json is for p = 2, this run has p = 3: .*\n", ended.err)
    path.write_text("import pybsp\nprint(pybsp.logp.run(lambda proc: proc.machine.L))\n")
    ended = run([*python("-m"), "pybsp", "simulate", "-p", "3", "--machine", str(file), str(path)], LIMIT)
    assert (ended.code, ended.out) == (0, "100\n")
    assert re.fullmatch(r"pybsp: .*machine\.json is for p = 2, this run has p = 3: .*\n", ended.err)


@pytest.mark.fast("logp.run")
@pytest.mark.parametrize("runs", ["logp.run", "pybsp.run"])
def test_runs_that_fail_leave_no_shared_memory_behind_for_good(program: Program, runs: str) -> None:
    """What a program had received is in its frames, and these are in the error, which what stays must not refer to."""
    ended = ranks(
        2,
        program(f"""
            from pybsp.transport import node
            def failing(this):
                if {runs!r} == "logp.run":
                    this.send((this.pid + 1) % this.p, np.zeros(1 << 17))
                    received = this.recv()
                else:
                    this.send((this.pid + 1) % this.p, np.zeros(1 << 17))
                    this.sync()
                    received = this.inbox[0].payload
                if this.pid == 0:
                    raise ValueError("boom")
                this.recv() if {runs!r} == "logp.run" else this.sync()
            for _ in range(6):
                try:
                    {runs}(failing)
                except (ValueError, pybsp.BSPError):
                    pass
            sys.stdout.write(f"<{{len(node._abandoned)}}>")
        """),
    )
    left = [int(number) for number in re.findall(r"<(\d+)>", ended.out)]
    assert (ended.code, len(left)) == (0, 2), ended
    assert max(left) <= 2
