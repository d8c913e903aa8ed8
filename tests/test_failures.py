"""When things go wrong: every program here fails in some way, and the job must say so once and end at once."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace
from typing import Any

import pytest

import pybsp
from pybsp.errors import BSPError, LearnedSyncError
from pybsp.ground import settings
from pybsp.ground.failures import failure_of, label_of, processor_error
from pybsp.ledger.account import Account
from pybsp.messages.agreement import Agreement
from pybsp.processes import process, slurm
from pybsp.rides.shown import Shown
from pybsp.runs import world
from pybsp.supersteps.gate import Gate
from pybsp.transport import SYNC

from .launching import LIMIT, Ended, ended_well, failed_once, finish, mpiexec, python, run, start

GRACE = "1"  # seconds, where a test waits for it
LONG = "1000"  # where it must not come to that

Program = Callable[..., Path]


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """Writes a program; what `main` gets from `HEAD` is there."""

    def write(text: str, name: str = "program.py") -> Path:
        path = tmp_path / name
        path.write_text(HEAD + dedent(text))
        return path

    return write


HEAD = """\
import os, sys, time
import numpy as np
import pybsp
RANK = int(os.environ.get("PMI_RANK") or os.environ.get("OMPI_COMM_WORLD_RANK") or 0)
def catching(main, *args, **kwargs):
    try:
        pybsp.run(main, *args, **kwargs)
    except pybsp.BSPError as error:
        sys.stdout.write(f"<{RANK} {type(error).__name__}: {error}>\\n")
        sys.stdout.flush()
        raise
"""

RAISES = """
def main(bsp):
    bsp.sync()
    with bsp.superstep("exchange"):
        if bsp.pid == 3:
            raise ValueError("boom")
if __name__ == "__main__":
    catching(main)
"""


def ranks(p: int, path: Path, *arguments: str, grace: str = LONG, limit: float = LIMIT) -> Ended:
    """Run a program on p ranks."""
    return run([*mpiexec(p), *python(path, *arguments)], limit, PYBSP_GRACE=grace)


def said(ended: Ended) -> dict[int, str]:
    """What the ranks of a program that uses `catching` raised, by rank."""
    return {int(pid): text for pid, text in re.findall(r"<(\d+) (.*?)>\n", ended.out, re.DOTALL)}


def left_behind(directory: Path) -> list[str]:
    """The processes that run a program in a directory."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if str(directory) in command:
                found.append(f"{entry.name}: {command}")
    return found


def all_gone(directory: Path) -> None:
    """No process of that program is left, or soon will not be."""
    until = time.monotonic() + LIMIT
    while left_behind(directory) and time.monotonic() < until:
        time.sleep(0.05)
    assert left_behind(directory) == []


# -- a processor raises ------------------------------------------------------------------------------------------------


def named_everywhere(ended: Ended, p: int, pid: int, superstep: str, error: str) -> None:
    texts = said(ended)
    assert sorted(texts) == [other for other in range(p) if other != pid], ended.out
    for text in texts.values():
        assert text == f"ProcessorError: processor {pid} failed in {superstep}: {error}"


@pytest.mark.whole
def test_a_processor_raises_under_mpiexec(program: Program) -> None:
    ended = ranks(4, program(RAISES))
    failed_once(ended, "ValueError: boom")
    named_everywhere(ended, 4, 3, 'superstep 1 ("exchange")', "ValueError: boom")
    assert sys.version_info < (3, 11) or '(on processor 3 of 4, in superstep 1 ("exchange"))' in ended.err


@pytest.mark.whole
def test_a_processor_raises_under_pybsp_run(program: Program) -> None:
    ended = run([sys.executable, "-m", "pybsp", "run", "-n", "4", str(program(RAISES))], LIMIT, PYBSP_GRACE=LONG)
    failed_once(ended, "ValueError: boom")
    named_everywhere(ended, 4, 3, 'superstep 1 ("exchange")', "ValueError: boom")


@pytest.mark.whole
def test_a_processor_raises_in_a_console_script(program: Program) -> None:
    path = program("def main():\n    catching(lambda bsp: 1 // (bsp.pid - 2) + (bsp.sync() or 0))\n", "prog.py")
    script = f"import sys; sys.path.insert(0, {str(path.parent)!r}); from prog import main; sys.exit(main())"
    ended = run([*mpiexec(4), sys.executable, "-c", script], LIMIT, PYBSP_GRACE=LONG)
    failed_once(ended, "ZeroDivisionError")
    assert sorted(said(ended)) == [0, 1, 3]


ATTACHED = """
from mpi4py import MPI
world = MPI.COMM_WORLD
comm = {comm}
if comm is None:
    {others}
else:
    with pybsp.attach(comm) as bsp:
        bsp.sync()
        if bsp.pid == 1:
            raise {error}("boom")
        bsp.sync()
"""


@pytest.mark.whole
def test_a_processor_raises_under_attach_on_the_world(program: Program) -> None:
    path = program(ATTACHED.format(comm="world", others="pass", error="ValueError"))
    failed_once(ranks(4, path), "ValueError: boom")


@pytest.mark.whole
@pytest.mark.parametrize("error", ["ValueError", "GeneratorExit"])
@pytest.mark.parametrize("others", ["world.Barrier()", "pybsp.run(lambda bsp: bsp.sync())"])
def test_a_processor_raises_under_attach_on_some_ranks_and_the_others_are_not_left_and_say_nothing(
    program: Program, tmp_path: Path, others: str, error: str
) -> None:
    comm = "world.Create_group(world.group.Incl([1, 3])) if world.rank in (1, 3) else None"
    failed_once(ranks(4, program(ATTACHED.format(comm=comm, others=others, error=error))), f"{error}: boom")
    all_gone(tmp_path)


@pytest.mark.whole
def test_an_attached_failure_that_is_caught_ends_nothing(program: Program) -> None:
    ended = ranks(
        3,
        program("""
            from mpi4py import MPI
            part = MPI.COMM_WORLD.Split(MPI.COMM_WORLD.rank == 0)
            for wanted in (ValueError, pybsp.ProcessorError) * 2:
                try:
                    with pybsp.attach(part) as bsp:
                        if bsp.pid == 0:
                            raise ValueError("boom")
                        bsp.sync()
                except (ValueError, pybsp.ProcessorError):
                    pass
            MPI.COMM_WORLD.Barrier()
            print("fine", flush=True)
        """),
    )
    assert (ended.code, ended.out.count("fine"), ended.err) == (0, 3, "")


@pytest.mark.whole
def test_a_processor_raises_under_pytest_and_the_session_goes_on(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        dedent("""
            import pybsp, pytest
            pytestmark = pytest.mark.mpi
            def fails(bsp):
                bsp.sync()
                if bsp.pid == 1:
                    raise ValueError("boom")
                bsp.sync()
            def test_fails():
                pybsp.run(fails)
            def test_wrong_router():
                pybsp.run(fails, router="none" if pybsp.run(lambda bsp: bsp.pid) == 0 else "direct")
            def test_goes_on():
                assert pybsp.run(lambda bsp: bsp.p) == 2
        """)
    )
    runner = Path(__file__).parent / "one_rank.py"
    command = [*mpiexec(2), *python(runner, str(tmp_path), "--maxfail=0", "--tb=short")]
    ended = run([*command, "-c", os.devnull, "--rootdir", str(tmp_path), str(tmp_path)], LIMIT, PYBSP_GRACE=LONG)
    logs = [(tmp_path / f"rank-{rank}.txt").read_text() for rank in range(2)]
    for log in logs:
        assert re.search(r"FAILED .*test_fails", log), log
        assert re.search(r"FAILED .*test_wrong_router", log), log
        assert "2 failed, 1 passed" in log, log
    assert "pybsp.errors.ProcessorError: processor 1 failed in superstep 1: ValueError: boom" in logs[0]
    assert "ValueError: boom" in logs[1]
    assert ended.code != 0


@pytest.mark.whole
def test_two_processors_raise_at_once_and_the_lowest_speaks(program: Program) -> None:
    ended = ranks(
        6,
        program("""
            def main(bsp):
                if bsp.pid in (2, 4):
                    raise ValueError(f"boom {bsp.pid}")
                bsp.sync()
            catching(main)
        """),
    )
    failed_once(ended, "ValueError: boom 2")
    assert sorted(said(ended)) == [0, 1, 3, 5]


@pytest.mark.whole
def test_all_processors_raise_and_one_speaks(program: Program) -> None:
    failed_once(ranks(4, program("pybsp.run(lambda bsp: 1 // 0)")), "ZeroDivisionError")


@pytest.mark.whole
def test_a_processor_raises_inside_a_part(program: Program) -> None:
    ended = ranks(
        5,
        program("""
            def main(bsp):
                with bsp.split(bsp.pid % 2) as part:
                    part.sync()
                    if bsp.pid == 3:
                        raise ValueError("boom")
                    part.sync()
                bsp.sync()
            catching(main)
        """),
    )
    failed_once(ended, "ValueError: boom")
    texts = said(ended)
    part = "(in a part made by bsp.split; its processors, from 0, are 1, 3 of all)"
    assert texts.pop(1) == f"ProcessorError: processor 1 failed in superstep 1: ValueError: boom {part}"
    assert sorted(texts) == [0, 2, 4]
    assert set(texts.values()) == {"ProcessorError: processor 3 failed in superstep 1: ValueError: boom"}


def test_a_processor_raises_before_a_part_in_which_others_wait(program: Program) -> None:
    path = program("""
        def main(bsp):
            kept = bsp.split(0)
            if bsp.pid == 1:
                raise ValueError("boom")
            with kept as part:
                part.sync()
        for _ in range(8):  # which of them finds first that the waits cross is a matter of time
            try:
                pybsp.run(main)
            except (ValueError, pybsp.SyncError):
                pass
            except pybsp.ProcessorError as error:
                print(f"<{RANK} {error}>", flush=True)
        pybsp.run(main)
    """)
    ended = ranks(3, path)
    failed_once(ended, "ValueError: boom")
    assert ended.out.count("<2 processor 1 failed in superstep 1: ValueError: boom") == 8, ended.out


@pytest.mark.whole
def test_a_processor_raises_before_the_first_run(program: Program) -> None:
    ended = ranks(
        4,
        program("""
            if RANK == 2:
                raise ValueError("boom")
            catching(lambda bsp: bsp.sync())
        """),
    )
    failed_once(ended, "ValueError: boom")
    assert set(said(ended).values()) == {"ProcessorError: processor 2 failed outside of a run: ValueError: boom"}
    assert sorted(said(ended)) == [0, 1, 3]


@pytest.mark.whole
def test_all_raise_before_the_first_run_and_one_speaks(program: Program) -> None:
    failed_once(ranks(4, program("undefined\npybsp.run(lambda bsp: None)")), "NameError")


@pytest.mark.whole
def test_a_processor_raises_before_the_first_run_and_the_others_never_come_to_it(
    program: Program, tmp_path: Path
) -> None:
    ended = ranks(3, program("if RANK == 1: raise ValueError('boom')\ntime.sleep(1000)"), grace=GRACE)
    failed_once(ended, "ValueError: boom")
    all_gone(tmp_path)


@pytest.mark.whole
def test_a_processor_raises_between_two_runs(program: Program) -> None:
    ended = ranks(
        4,
        program("""
            pybsp.run(lambda bsp: bsp.sync())
            if RANK == 0:
                raise ValueError("boom")
            catching(lambda bsp: bsp.sync())
        """),
    )
    failed_once(ended, "ValueError: boom")
    assert set(said(ended).values()) == {"ProcessorError: processor 0 failed outside of a run: ValueError: boom"}


@pytest.mark.whole
def test_a_processor_raises_after_the_last_run(program: Program) -> None:
    ended = ranks(4, program("pybsp.run(lambda bsp: bsp.sync())\nif RANK == 1: raise ValueError('boom')"))
    failed_once(ended, "ValueError: boom")


@pytest.mark.whole
@pytest.mark.parametrize("going_on", [0, 1])
def test_an_error_of_all_that_a_processor_has_caught_is_printed_by_the_one_that_is_to(
    program: Program, going_on: int
) -> None:
    ended = ranks(
        2,
        program(f"""
            from pybsp.collectives import broadcast
            def main(bsp):
                if bsp.pid == 0:
                    broadcast.start(bsp, 1.0, like=1.0)
                try:
                    bsp.sync()
                except pybsp.BSPError:
                    if bsp.pid != {going_on}:
                        raise
                bsp.grid(1, bsp.p)
            pybsp.run(main)
        """),
    )
    assert ended.code != 0
    assert ended.err.count("Traceback (most recent call last)") in (1, 2), ended  # with its cause, where it is derived
    assert "broadcast: processor 1 has not called broadcast where processor 0 is in broadcast" in ended.err, ended


@pytest.mark.whole
def test_a_processor_raises_and_the_others_catch_it_and_go_on(program: Program) -> None:
    ended = ranks(
        3,
        program("""
            def main(bsp):
                if bsp.pid == 1:
                    raise ValueError("boom")
                bsp.sync()
            try:
                pybsp.run(main)
            except pybsp.ProcessorError:
                pass
            catching(lambda bsp: bsp.sync())
        """),
    )
    assert ended.err.count("ValueError: boom") == 1
    assert sorted(said(ended)) == [0, 2]
    assert "processor 1 left the job" in said(ended)[0]
    assert ended.code != 0


@pytest.mark.whole
def test_every_processor_catches_the_failure_and_the_next_run_works(program: Program) -> None:
    ended = ranks(
        3,
        program("""
            def main(bsp):
                if bsp.pid == 1:
                    raise ValueError("boom")
                bsp.sync()
            for _ in range(3):
                try:
                    pybsp.run(main)
                except (pybsp.ProcessorError, ValueError):
                    pass
            assert pybsp.run(lambda bsp: bsp.sync() or bsp.p) == 3
        """),
    )
    assert (ended.code, ended.err) == (0, "")


@pytest.mark.whole
def test_an_error_that_the_program_swallows_is_raised_at_its_end(program: Program) -> None:
    ended = ranks(
        3,
        program("""
            def main(bsp):
                if bsp.pid == 1:
                    raise ValueError("boom")
                try:
                    bsp.sync()
                except pybsp.ProcessorError:
                    pass
            catching(main)
        """),
    )
    failed_once(ended, "ValueError: boom")
    assert sorted(said(ended)) == [0, 2]


@pytest.mark.whole
def test_a_thread_prints_nothing_of_a_failure_that_another_processor_prints(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    monkeypatch.setattr(threading, "excepthook", threading.__excepthook__)
    world.install_hook()

    def fail(quiet: bool) -> None:
        error = ValueError("boom")
        world.mark(error, quiet)
        raise error

    for quiet in True, False:
        thread = threading.Thread(target=fail, args=[quiet])
        thread.start()
        thread.join()
        assert ("ValueError: boom" in capsys.readouterr().err) != quiet


def test_who_ends_the_job_alone_has_printed_the_error_and_where_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    printed: list[str] = []
    transport = SimpleNamespace(p=3, pid=1, abort=lambda text: printed.extend([capsys.readouterr().err, text]))
    world._end_late(transport, None, ValueError("boom"))  # type: ignore[arg-type]
    before, last = printed
    assert before.count("ValueError: boom") == 1
    assert before.count("(on processor 1 of 3)") == 1
    assert last.startswith("pybsp: processor 1 failed, and not all others reached a sync within 10 s (PYBSP_GRACE)")


def test_an_exception_that_leaves_an_exchange_beside_supersteps_is_told_unless_all_know_of_one() -> None:
    revoked: list[BaseException] = []
    transport: Any = SimpleNamespace(time=float, settled=None, revoke=revoked.append)
    gate, interrupt, known = Gate(3), ArithmeticError("of a handler"), pybsp.SyncError("known to all")

    def route(*_: Any) -> Any:
        raise interrupt

    agreement = Agreement(transport, route, gate, Account(transport), ())
    for settled, failed in (None, None), (known, known), (None, known):
        transport.settled = settled
        with pytest.raises(ArithmeticError):
            agreement.meet(SYNC, None, {})
        assert gate.failed is failed
    assert revoked == [interrupt]


@pytest.mark.whole
def test_exit_on_one_rank_inside_of_a_run(program: Program) -> None:
    ended = ranks(
        4,
        program("""
            def main(bsp):
                if bsp.pid == 2:
                    sys.exit(3)
                bsp.sync()
            catching(main)
        """),
    )
    failed_once(ended, "SystemExit: 3")
    named_everywhere(ended, 4, 2, "superstep 0", "SystemExit: 3")


@pytest.mark.whole
@pytest.mark.parametrize(("status", "code"), [("5", 5), ("'bad input'", 1)])
def test_exit_on_one_virtual_processor_is_printed_as_on_ranks_and_on_all_is_not(
    program: Program, status: str, code: int
) -> None:
    text = "def main(bsp):\n    bsp.sync()\n    if bsp.pid in {}: sys.exit({})\n    bsp.sync()\npybsp.run(main)\n"
    simulate = [sys.executable, "-m", "pybsp", "simulate", "-p", "3"]
    alone = run([*simulate, str(program(text.format([1], status)))])
    failed_once(alone, f"SystemExit: {status.strip(chr(39))}")
    assert alone.code == code
    assert sys.version_info < (3, 11) or alone.err.endswith("\n(on virtual processor 1 of 3, in superstep 1)\n")
    together = run([*simulate, str(program(text.format([0, 1, 2], status)))])
    assert together == (code, "", "" if code == 5 else "bad input\n")


@pytest.mark.whole
def test_exit_with_a_text_on_one_rank_is_printed_once(program: Program) -> None:
    ended = ranks(3, program("catching(lambda bsp: sys.exit('bad input') if bsp.pid == 2 else bsp.sync())"))
    failed_once(ended, "SystemExit: bad input")
    assert ended.err.count("bad input") - ended.err.count("sys.exit('bad input')") == 1


@pytest.mark.whole
def test_exit_on_one_rank_between_two_runs(program: Program) -> None:
    ended = ranks(
        4,
        program("""
            pybsp.run(lambda bsp: bsp.sync())
            if RANK == 2:
                sys.exit(3)
            catching(lambda bsp: bsp.sync())
        """),
    )
    failed_once(ended, "pybsp.errors.SyncError: the processors did not do the same")
    assert sorted(said(ended)) == [0, 1, 3]
    assert re.search(r"processor 2 left the job(;|$)", said(ended)[3], re.MULTILINE)
    assert re.search(r"processors 0-1, 3 called pybsp.run, at \S*program.py:\d+", said(ended)[3])


@pytest.mark.whole
@pytest.mark.parametrize(("status", "code", "printed"), [("0", 0, ""), ("5", 5, ""), ("'bad input'", 1, "bad input\n")])
def test_exit_on_all_ranks_alike_is_an_ordinary_end(program: Program, status: str, code: int, printed: str) -> None:
    ended = ranks(2, program(f"def main(bsp):\n    bsp.sync()\n    sys.exit({status})\npybsp.run(main)"))
    assert "Traceback" not in ended.err
    assert ended.err.count("bad input") == len(printed) // 10
    assert ended.code == code if code == 0 else ended.code != 0


# -- the others are stuck ----------------------------------------------------------------------------------------------


@pytest.mark.whole
@pytest.mark.parametrize("stuck", ["time.sleep(1000)", "MPI.COMM_WORLD.recv(source=1)"])
def test_others_are_stuck_in_something_else(program: Program, tmp_path: Path, stuck: str) -> None:
    path = program(f"""
        from mpi4py import MPI
        def main(bsp):
            bsp.sync()
            if bsp.pid == 1:
                raise ValueError("boom")
            {stuck}
        pybsp.run(main)
    """)
    ended = ranks(3, path, grace=GRACE)
    failed_once(ended, "ValueError: boom")
    assert "not all others reached a sync within 1 s (PYBSP_GRACE); ending the job" in ended.err
    all_gone(tmp_path)


@pytest.mark.whole
def test_others_are_stuck_in_a_part(program: Program, tmp_path: Path) -> None:
    path = program("""
        def main(bsp):
            with bsp.split(0) as part:
                if bsp.pid == 1:
                    raise ValueError("boom")
                if bsp.pid == 0:
                    time.sleep(1000)
                part.sync()
        pybsp.run(main)
    """)
    failed_once(ranks(3, path, grace=GRACE), "ValueError: boom")
    all_gone(tmp_path)


@pytest.mark.whole
def test_a_wrong_grace_period_is_an_error_at_the_beginning(program: Program) -> None:
    ended = ranks(3, program("pybsp.run(lambda bsp: bsp.sync())"), grace="soon")
    failed_once(ended, "pybsp.errors.UsageError: PYBSP_GRACE: expected seconds")


# -- the processors do not do the same ---------------------------------------------------------------------------------

MISMATCHES = {
    "ends while others sync": (
        "if bsp.pid != 1:\n        bsp.sync()",
        r"processor 1 ended in superstep 1, at \S+program.py:\d+",
        r"processors 0, 2-3 called bsp\.sync\(\) in superstep 1, at \S+program.py:15",
    ),
    "splits while others sync": (
        'if bsp.pid == 0:\n        bsp.split(0).__enter__()\n    else:\n        with bsp.superstep("x"): pass',
        r"processor 0 called bsp\.split\(\) in superstep 1 \(\"split\"\), at \S+program.py:15",
        r'processors 1-3 called bsp\.sync\(\) in superstep 1 \("x"\), at ',
    ),
    "asks for the ledger alone": (
        "if bsp.pid == 3:\n        bsp.ledger\n    bsp.sync()",
        r"processor 3 asked for bsp\.ledger .* in superstep 1, at \S+program.py:15",
        r"processors 0-2 called bsp\.sync\(\) in superstep 1, at \S+program.py:16",
    ),
    "registers something else": (
        "bsp.array(3, np.int32 if bsp.pid == 2 else np.float64)\n    bsp.sync()",
        r"processor 2: array of int32 at \S+program.py:14",
        r"processors 0-1, 3: array of float64 at \S+program.py:14",
    ),
    "registers less": (
        "if bsp.pid:\n        bsp.queue(np.int64)\n    bsp.sync()",
        r"processor 0: nothing",
        r"processors 1-3: queue of int64 at \S+program.py:15",
    ),
}


@pytest.mark.whole
@pytest.mark.parametrize("case", MISMATCHES)
def test_processors_do_different_things(program: Program, case: str) -> None:
    body, *parts = MISMATCHES[case]
    ended = ranks(4, program(f"def main(bsp):\n    bsp.sync(); \\\n    {body}\ncatching(main)".replace("; \\\n", "\n")))
    failed_once(ended, "pybsp.errors.SyncError: the processors did not")
    texts = said(ended)
    assert sorted(texts) == [0, 1, 2, 3], ended.out
    assert len(set(texts.values())) == 1
    for part in parts:
        assert re.search(part, texts[0]), texts[0]


@pytest.mark.whole
def test_different_numbers_of_runs(program: Program) -> None:
    ended = ranks(3, program("for _ in range(2 + (RANK == 1)):\n    catching(lambda bsp: bsp.sync())"))
    failed_once(ended, "pybsp.errors.SyncError: the processors did not do the same")
    assert sorted(said(ended)) == [1]
    assert re.search(r"processors 0, 2 left the job; processor 1 called pybsp.run, at \S+program.py", ended.err)


@pytest.mark.whole
@pytest.mark.parametrize("argument", ["router", "checked"])
def test_different_arguments(program: Program, argument: str) -> None:
    values = {"router": "'direct' if RANK else 'other'", "checked": "RANK == 1"}
    ended = ranks(3, program(f"catching(lambda bsp: bsp.sync(), {argument}={values[argument]})"))
    if argument == "router" and "RoutingError" in ended.err:
        failed_once(ended, "pybsp.errors.RoutingError: router: expected one of ")
    else:
        failed_once(
            ended, f"pybsp.errors.UsageError: pybsp.run: argument {argument}: expected the same on all processors"
        )
    assert sorted(said(ended)) == [0, 1, 2]


@pytest.mark.whole
def test_attach_ends_on_one_rank_while_others_sync(program: Program) -> None:
    ended = ranks(
        3,
        program("""
            from mpi4py import MPI
            with pybsp.attach(MPI.COMM_WORLD) as bsp:
                if bsp.pid:
                    bsp.sync()
        """),
    )
    failed_once(ended, "pybsp.errors.SyncError: the processors did not do the same")


LEFT_OPEN = """
    from mpi4py import MPI
    def opened():
        with pybsp.attach(MPI.COMM_WORLD) as bsp:
            bsp.sync()
            yield
            bsp.sync()
    left = opened()
    next(left)
"""


@pytest.mark.whole
def test_an_attached_machine_that_is_left_open_as_python_ends_prints_nothing(program: Program) -> None:
    ended = ranks(2, program(LEFT_OPEN))
    assert (ended.code, ended.out, ended.err) == (0, "", "")
    failed_once(ranks(2, program(LEFT_OPEN + '    raise ValueError("boom")\n')), "ValueError: boom")


@pytest.mark.whole
def test_who_waits_for_a_rank_that_ended_with_its_attached_machine_open_learns_why(program: Program) -> None:
    ended = ranks(2, program(LEFT_OPEN + "    if RANK == 0:\n        next(left)\n"), grace=GRACE)
    assert ended.code != 0
    assert "by pybsp.errors.UsageError: pybsp.attach: Python has ended inside of its block" in ended.err
    assert "Exception ignored" not in ended.err


@pytest.mark.whole
def test_a_part_ends_on_one_processor_while_others_sync(program: Program) -> None:
    ended = ranks(
        3,
        program("""
            def main(bsp):
                with bsp.split(bsp.pid > 0) as part:
                    if bsp.pid != 2:
                        part.sync()
            catching(main)
        """),
    )
    failed_once(ended, "pybsp.errors.SyncError: the processors did not do the same")
    assert sorted(said(ended)) == [0, 1, 2]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 raises again what it caught, with all its steps")
def test_tracebacks_have_the_programs_steps_alone_where_an_error_of_pybsps_says_what_is_wrong(program: Program) -> None:
    text = """
        import traceback
        import pybsp

        def sends(bsp):
            bsp.send(9, 1)

        def forgets(bsp):
            bsp.send(0, 1)

        def divides(bsp):
            return 1 / bsp.pid

        def has_no_array(bsp):
            bsp.array(2).put(0, lambda: None)

        for main in sends, forgets, divides, has_no_array:
            try:
                pybsp.run(main)
            except Exception as error:
                steps = traceback.extract_tb(error.__traceback__)
                print(main.__name__, type(error).__name__, *[step.name for step in steps])
        try:
            pybsp.logp.run(lambda proc: proc.send(7, 1))
        except pybsp.UsageError as error:
            print(*[step.name for step in traceback.extract_tb(error.__traceback__)])
    """
    ended = ended_well(run([sys.executable, str(program(text))]))
    assert ended.splitlines() == [
        "sends UsageError <module> sends",
        "forgets UsageError <module>",
        "divides ZeroDivisionError <module> divides",
        "has_no_array UsageError <module> has_no_array",
        "<module> <lambda>",
    ]


# -- after the end -----------------------------------------------------------------------------------------------------


@pytest.mark.whole
def test_a_send_after_the_last_sync_is_an_error(program: Program) -> None:
    ended = ranks(3, program("catching(lambda bsp: bsp.send(0, 1) if bsp.pid == 1 else None)"))
    failed_once(ended, "pybsp.errors.UsageError: bsp.send: something was sent in superstep 0, after the last sync")
    assert sorted(said(ended)) == [0, 1, 2]


@pytest.mark.whole
@pytest.mark.parametrize("use", ["sync()", "send(0, 1)", "array(3)", "queue()", "split(0)", "ledger"])
def test_using_bsp_after_the_end_is_an_error(program: Program, use: str) -> None:
    ended = ranks(2, program(f"kept = pybsp.run(lambda bsp: bsp)\nkept.{use}"))
    name = use.split("(")[0]
    failed_once(ended, f"pybsp.errors.UsageError: bsp.{name}: the run has ended")


@pytest.mark.whole
def test_an_empty_queue_read_after_a_forgotten_sync_says_what_is_pending(program: Program) -> None:
    text = "def main(bsp):\n    q = bsp.queue()\n    q.send(0, 1.0)\n    q.values[0]\npybsp.run(main)"
    ended = ranks(2, program(text))
    failed_once(ended, "IndexError: index 0 is out of bounds")
    assert (
        "; if it is about what was sent in it (queue.send): that has not arrived; call bsp.sync() first)" in ended.err
    )


@pytest.mark.whole
def test_a_run_inside_of_a_run_is_an_error(program: Program) -> None:
    ended = ranks(2, program("pybsp.run(lambda bsp: pybsp.run(lambda inner: None))"))
    failed_once(ended, "pybsp.errors.UsageError: pybsp.run: a run is going on in this process")


# -- signals, and ranks that die ---------------------------------------------------------------------------------------

WAITING = {
    "in a sync": "time.sleep(1000) if bsp.pid == 0 else bsp.sync()",
    "computing": "[k * k for k in iter(int, 1)]",
}


def signalled(program: Program, tmp_path: Path, number: signal.Signals, rank: int | None, waiting: str) -> Ended:
    """Send a signal to the launcher or to a rank of a job whose ranks have all begun."""
    path = program(f"""
        from pathlib import Path
        def main(bsp):
            bsp.sync()
            Path({str(tmp_path)!r}, f"pid-{{bsp.pid}}").write_text(str(os.getpid()))
            bsp.sync()
            {WAITING[waiting]}
        pybsp.run(main)
    """)
    # Launchers may miss that a rank was killed, once in some thousand jobs; who waits for it does not.
    job = start([*mpiexec(3), *python(path)], PYBSP_GRACE=GRACE if number == signal.SIGKILL else LONG)
    files = [tmp_path / f"pid-{k}" for k in range(3)]
    until = time.monotonic() + LIMIT
    while not all(file.exists() and file.read_text() for file in files) and time.monotonic() < until:
        time.sleep(0.02)
    time.sleep(0.3)
    os.kill(job.pid if rank is None else int(files[rank].read_text()), number)
    ended = finish(job, LIMIT)  # before a long grace period is over
    assert ended.code != 0, ended
    all_gone(tmp_path)
    return ended


@pytest.mark.whole
@pytest.mark.parametrize("waiting", WAITING)
@pytest.mark.parametrize("rank", [None, 1], ids=["launcher", "rank"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_job(
    program: Program, tmp_path: Path, number: signal.Signals, rank: int | None, waiting: str
) -> None:
    signalled(program, tmp_path, number, rank, waiting)


@pytest.mark.whole
@pytest.mark.parametrize("waiting", WAITING)
def test_a_rank_that_is_killed_ends_the_job(program: Program, tmp_path: Path, waiting: str) -> None:
    signalled(program, tmp_path, signal.SIGKILL, 1, waiting)


@pytest.mark.whole
def test_an_interrupt_between_two_runs_ends_the_job(program: Program, tmp_path: Path) -> None:
    path = program("""
        import signal
        pybsp.run(lambda bsp: bsp.sync())
        if RANK == 1:
            signal.raise_signal(signal.SIGINT)
        time.sleep(1000)
    """)
    ended = ranks(3, path)
    assert ended.code != 0
    assert ended.err.count("KeyboardInterrupt") == 1
    all_gone(tmp_path)


@pytest.mark.whole
def test_an_interrupt_at_the_beginning_of_a_run_ends_the_job_where_it_is_caught_too(
    program: Program, tmp_path: Path
) -> None:
    path = program("""
        from pybsp.runs.watch import Watch
        pybsp.run(lambda bsp: bsp.sync())
        if RANK == 1:
            def interrupted(*arguments, **options):
                raise KeyboardInterrupt
            Watch.__init__ = interrupted
        try:
            pybsp.run(lambda bsp: bsp.sync())
        except KeyboardInterrupt:
            time.sleep(1000)
    """)
    ended = ranks(3, path)
    assert ended.code != 0
    assert ended.err.count("processor 1 was interrupted; ending the job") == 1
    all_gone(tmp_path)


@pytest.mark.whole
def test_an_interrupt_of_a_rank_that_has_ended_and_waits_for_the_others(program: Program, tmp_path: Path) -> None:
    path = program("""
        import signal
        pybsp.run(lambda bsp: bsp.sync())
        if RANK == 1:
            signal.signal(signal.SIGALRM, signal.default_int_handler)
            signal.alarm(1)
        else:
            time.sleep(1000)
    """)
    assert ranks(3, path).code != 0
    all_gone(tmp_path)


AGAIN = """
        import signal
        from pybsp.transport.revocation import Revocation
        if RANK == 1:
            once = Revocation.agree
            def agree(self, *arguments, **options):
                Revocation.agree = once
                met = self._throw_away
                def interrupted(deadline):
                    self._throw_away = met
                    met(deadline)
                    raise ArithmeticError("in between")  # all have met, and this processor does not know it yet
                self._throw_away = interrupted
                return once(self, *arguments, **options)
            Revocation.agree = agree
        left = os.path.join(os.path.dirname(__file__), "left")
        def boom(number, frame):
            open(left, "w").close()
            raise ValueError("boom")
        def main(bsp):
            bsp.sync()
            if bsp.pid == 2:
                signal.signal(signal.SIGALRM, boom)
                signal.setitimer(signal.ITIMER_REAL, 0.3)  # in the exchange, where it waits for the others
            while bsp.pid != 2 and not os.path.exists(left):
                time.sleep(0.01)
            bsp.sync()
        try:
            pybsp.run(main)
        except Exception as error:
            sys.stdout.write(f"{RANK} {type(error).__name__}\\n")
"""


@pytest.mark.whole
@pytest.mark.fast("runs")
@pytest.mark.parametrize("then", ["", "assert pybsp.run(lambda bsp: bsp.sync() or bsp.p) == 3"], ids=["ends", "runs"])
def test_a_second_exception_when_all_have_met_because_of_a_first_keeps_nobody_waiting(
    program: Program, tmp_path: Path, then: str
) -> None:
    ended = ranks(3, program(dedent(AGAIN) + then))
    assert sorted(ended.out.split("\n")) == ["", "0 ProcessorError", "1 ArithmeticError", "2 ValueError"], ended
    assert ended.code == 0, ended
    all_gone(tmp_path)


@pytest.mark.whole
def test_an_exception_after_a_failure_that_all_know_ends_the_job_where_the_others_begin_no_run(
    program: Program, tmp_path: Path
) -> None:
    path = program("""
        from mpi4py import MPI
        from pybsp.logp import launch
        if RANK == 1:
            def fails(error, known):
                raise ArithmeticError("in between")
            launch.learned = fails
        def main(proc):
            if proc.pid == 2:
                raise ValueError("boom")
            proc.recv()
        try:
            pybsp.logp.run(main)
        except Exception:
            MPI.COMM_WORLD.Barrier()  # rank 1 waits for a next run, to tell of what nobody knows
    """)
    ended = ranks(3, path, grace=GRACE)
    assert ended.code != 0
    assert ended.err.count("ArithmeticError: in between") == 1
    assert ended.err.count("not all others reached a sync within 1 s (PYBSP_GRACE); ending the job") == 1
    all_gone(tmp_path)


@pytest.mark.whole
def test_what_keeps_a_rank_from_its_end_ends_the_job(program: Program, tmp_path: Path) -> None:
    path = program("""
        from pybsp.runs import world
        pybsp.run(lambda bsp: bsp.sync())
        if RANK == 1:
            def fails(transport):
                raise ArithmeticError("in between")
            world._renewed = fails
    """)
    ended = ranks(3, path)
    assert ended.code != 0
    assert ended.err.count("ArithmeticError: in between") == 1
    all_gone(tmp_path)


@pytest.mark.whole
@pytest.mark.parametrize(
    "beside", ["", "raise ArithmeticError('after the run')"], ids=["alone", "beside one that fails"]
)
def test_an_exception_that_leaves_the_last_exchange_on_one_rank_ends_the_job_where_the_others_have_ended(
    program: Program, tmp_path: Path, beside: str
) -> None:
    path = program(f"""
        from pybsp.transport import END
        from pybsp.transport.router import Direct
        from pybsp.routing import choice
        if RANK == 2:
            class Fails(Direct):
                def __init__(self, transport):
                    def route(kind, *arguments, **options):
                        arrival = transport.exchange(kind, *arguments, **options)
                        if kind == END:
                            raise OSError("after the exchange")
                        return arrival
                    self.route = route
            choice.Direct = Fails
        pybsp.run(lambda bsp: bsp.sync())
        if RANK == 1:
            {beside or "pass"}
    """)
    failed_once(ranks(3, path), "ArithmeticError: after the run" if beside else "OSError: after the exchange")
    all_gone(tmp_path)


@pytest.mark.whole
def test_an_exception_as_a_router_closes_is_known_to_all_and_the_next_run_works(program: Program) -> None:
    path = program("""
        from pybsp.logp.ranks import RankProcessor
        from pybsp.transport import DRAIN
        closes, calls = RankProcessor.close, 0
        def fails(number, inside):
            def close(self):
                global calls
                calls += 1
                if calls <= number:
                    return closes(self)
                RankProcessor.close = closes
                error = OSError("as it closes")
                if inside:
                    self._transport.left(error, DRAIN)  # as where an exchange is left
                raise error
            return close
        def main(bsp):
            for _ in range(2):
                with bsp.split(bsp.pid % 2) as part:
                    part.sync()
            bsp.sync()
            return bsp.p
        for number in range(3):  # the part before the last, at a split; the last; and the whole
            for inside in (False, True):
                if RANK == 0:
                    calls, RankProcessor.close = 0, fails(number, inside)
                try:
                    pybsp.run(main, router="logp-sorted")
                except Exception as error:
                    sys.stdout.write(f"{RANK} {type(error).__name__}\\n")
        assert pybsp.run(main, router="logp-sorted") == 3
    """)
    ended = ranks(3, path)
    expected = ["", *["0 OSError"] * 6, *["1 ProcessorError"] * 6, *["2 ProcessorError"] * 6]
    assert sorted(ended.out.split("\n")) == expected, ended
    assert ended.code == 0, ended


@pytest.mark.whole
def test_a_rank_that_leaves_without_python_ends_the_job(program: Program, tmp_path: Path) -> None:
    ended = ranks(3, program("pybsp.run(lambda bsp: bsp.sync() or (os._exit(4) if bsp.pid == 1 else bsp.sync()))"))
    assert ended.code != 0
    all_gone(tmp_path)


@pytest.mark.whole
def test_a_rank_that_leaves_an_attached_machine_without_python_ends_the_job_and_is_named(program: Program) -> None:
    ended = ranks(
        2,
        program("""
        from mpi4py import MPI
        with pybsp.attach(MPI.COMM_WORLD) as bsp:
            if bsp.pid == 1:
                os._exit(0)
            bsp.sync()
        """),
    )
    assert ended.code != 0
    assert ended.err.count("processor 1 called os._exit(0) before the job has ended; its status is 1") == 1, ended


@pytest.mark.whole
def test_the_job_ends_where_some_ranks_run_and_others_attach_the_world(program: Program) -> None:
    """Both would begin together, and wait for each other in vain as the processes end."""
    path = program("""
    from mpi4py import MPI
    if MPI.COMM_WORLD.rank:
        with pybsp.attach(MPI.COMM_WORLD) as bsp:
            bsp.sync()
    else:
        pybsp.run(lambda bsp: bsp.sync())
    """)
    ended = ranks(2, path)
    assert ended.code != 0
    assert "expected the same call on all processors, got pybsp." in ended.err


@pytest.mark.whole
def test_a_rank_that_finalizes_mpi_inside_of_a_run_fails_and_the_others_do_not_wait(program: Program) -> None:
    path = program("""
    from mpi4py import MPI
    pybsp.run(lambda bsp: MPI.Finalize() if bsp.pid == 1 else bsp.sync())
    """)
    failed_once(ranks(2, path), "pybsp.errors.UsageError: MPI.Finalize: expected no run in this process")


# -- abort -------------------------------------------------------------------------------------------------------------


@pytest.mark.whole
@pytest.mark.parametrize("pid", [0, 2])
def test_abort_works_from_any_processor_without_a_sync(program: Program, tmp_path: Path, pid: int) -> None:
    path = program(f"""
        def main(bsp):
            with bsp.superstep("read"):
                if bsp.pid == {pid}:
                    bsp.abort("no such thing")
                time.sleep(1000)
        pybsp.run(main)
    """)
    ended = ranks(3, path)
    assert ended.code != 0
    line = f'pybsp: processor {pid} aborted in superstep 0 ("read"): no such thing'
    assert ended.err.count(line) == 1, ended.err
    assert "Traceback" not in ended.err
    all_gone(tmp_path)


@pytest.mark.whole
def test_abort_from_some_ranks_ends_those_outside_too(program: Program, tmp_path: Path) -> None:
    path = program("""
        from mpi4py import MPI
        part = MPI.COMM_WORLD.Split(MPI.COMM_WORLD.rank == 0)
        if MPI.COMM_WORLD.rank == 0:
            MPI.COMM_WORLD.Barrier()
        with pybsp.attach(part) as bsp:
            if bsp.pid == 1:
                bsp.abort("no such thing")
            bsp.sync()
    """)
    ended = ranks(3, path)
    assert ended.code != 0
    assert ended.err.count("no such thing") == 1
    all_gone(tmp_path)


# -- on virtual processors ---------------------------------------------------------------------------------------------


@pytest.mark.fast("1 // 0-ZeroDivisionError")
@pytest.mark.parametrize(
    ("end", "error"), [("1 // 0", "ZeroDivisionError"), ("bsp.send(9, 1)", "pybsp.errors.UsageError")]
)
def test_a_failure_under_pybsp_simulate_is_the_programs(program: Program, end: str, error: str) -> None:
    path = program(
        f"def main(bsp):\n    bsp.sync()\n    if bsp.pid == 1:\n        {end}\n    bsp.sync()\npybsp.run(main)"
    )
    ended = run([sys.executable, "-m", "pybsp", "simulate", "-p", "4", str(path)], LIMIT)
    failed_once(ended, error)
    assert ended.code == 1


SHOWN = re.compile(r'^  File ".*?([^/"]*)", line (\d+), in', re.MULTILINE)


@pytest.mark.whole
@pytest.mark.parametrize(
    ("text", "steps", "ends"),
    [
        ("raise KeyError(bsp.pid)", ["7", "5"], ["KeyError: 0"]),
        ("bsp.send(9, 1)", ["7", "5"], ["pybsp.errors.UsageError: bsp.send: argument dest: "]),
        (
            "try: wrong(bsp)\n    except ValueError as error: raise KeyError(1) from error",
            ["5", "3", "8", "6"],
            ["ValueError: 0", "KeyError: 1"],
        ),
        ("bsp.sync(", [], ["SyntaxError: '(' was never closed"]),
        ("raise KeyboardInterrupt", ["7", "5"], ["KeyboardInterrupt"]),
    ],
    ids=["raised", "refused", "caused", "syntax", "interrupted"],
)
def test_a_traceback_of_the_simulating_command_has_the_programs_steps(
    tmp_path: Path, text: str, steps: list[str], ends: list[str]
) -> None:
    """It has the causes too."""
    path, wrong = tmp_path / "program.py", "def wrong(bsp):\n    raise ValueError(bsp.pid)\n"
    path.write_text(f"import pybsp\n{wrong}def main(bsp):\n    {text}\n\npybsp.run(main)\n")
    ended = run([sys.executable, "-m", "pybsp", "simulate", "-p", "2", str(path)], LIMIT)
    assert ended.code == (130 if "Interrupt" in text else 1)
    found = [line if name == path.name else name.removesuffix(".py") for name, line in SHOWN.findall(ended.err)]
    assert found == steps, ended.err
    lines = ended.err.splitlines()
    assert all(any(line.startswith(end) for line in lines) for end in ends), ended.err


def test_an_error_of_a_simulated_run_leads_from_its_call_to_the_program() -> None:
    def main(bsp: pybsp.BSP) -> None:
        raise KeyError(bsp.pid)

    with pytest.raises(KeyError) as raised:
        pybsp.simulate(main, p=2)
    assert [step.name for step in raised.traceback][1:] == ["simulate", "_simulated", "main"]


@pytest.mark.whole
def test_wrong_usage_of_the_command_has_status_2(tmp_path: Path) -> None:
    for command in ("run", "simulate"):
        flag = "-n" if command == "run" else "-p"
        missing = run([sys.executable, "-m", "pybsp", command, flag, "2", str(tmp_path / "none.py")], LIMIT)
        assert missing.code == 2
        assert "there is no such file" in missing.err
        assert run([sys.executable, "-m", "pybsp", command, flag, "0", "x.py"], LIMIT).code == 2


def test_who_fails_as_a_run_begins_tells_all_others_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []
    monkeypatch.setattr(world, "_world", object())
    monkeypatch.setattr(world, "_renewed", lambda transport, grace: transport)
    monkeypatch.setattr(world, "report_failure", lambda transport, pid, error: told.append(world._job_size()))
    for is_open in (False, True):
        monkeypatch.setattr(world, "_world_open", is_open)
        for size in (1, 2, 3):
            monkeypatch.setattr(world, "_job_size", partial(int, size))
            world.tell_before_run(ValueError("boom"))
    assert told == [2, 3]


@pytest.mark.parametrize(("error", "aborts"), [(TimeoutError, False), (KeyboardInterrupt, True)])
def test_who_waits_too_long_for_the_transport_of_the_next_run_says_so_and_who_is_interrupted_ends_the_job(
    monkeypatch: pytest.MonkeyPatch, error: type[BaseException], aborts: bool
) -> None:
    def renewed(waits: float | None) -> None:
        raise error

    aborted: list[str] = []
    transport: Any = SimpleNamespace(settled=object(), ended=False, renewed=renewed, abort=aborted.append, pid=1)
    monkeypatch.setattr(world, "_print_at_once", lambda error: None)
    with pytest.raises(error):
        world._renewed(transport, 0.1)
    assert len(aborted) == aborts


def test_each_exception_that_nobody_caught_ends_the_program_and_what_its_hook_calls_meanwhile_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended: list[BaseException] = []

    def end(error: BaseException, say: Callable[[], None]) -> None:
        ended.append(error)
        say()

    monkeypatch.setattr(world, "_end", end)
    first, second, inner = ValueError("first"), ValueError("second"), ValueError("inner")
    told: list[str] = []
    world.uncaught(first, lambda: world.uncaught(inner, lambda: told.append("inner")))
    world.uncaught(second, lambda: told.append("second"))
    assert (ended, told) == ([first, second], ["inner", "second"])


def test_an_exception_that_leaves_what_is_shown_has_the_label_or_the_name_of_the_collective() -> None:
    left: list[BaseException] = []
    for label, found in ("of the program", "of the program"), ("", "allreduce"):
        engine = SimpleNamespace(account=SimpleNamespace(label=label), agreement=SimpleNamespace(leave=left.append))
        there: Any = SimpleNamespace(_engine=engine)
        interrupt = ArithmeticError("of a handler")
        Shown._leave(there, interrupt, "allreduce")
        assert left.pop() is interrupt
        assert label_of(interrupt, "of what comes next") == found


def test_where_all_have_met_at_the_end_is_given_back_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    found = iter([pybsp.SyncError("of one who told so as it left an exchange, and has yet to end"), None])

    class World:
        pid, ended = 0, False

        @property
        def settled(self) -> BSPError | None:
            return next(found)

    events: list[str] = []
    place = SimpleNamespace(exchange=lambda *_: events.append("met"), free=lambda: events.append("given back"))
    monkeypatch.setattr(world, "_world", World())
    monkeypatch.setattr(world, "_world_open", True)
    monkeypatch.setattr(world, "load", lambda: SimpleNamespace(Is_finalized=bool))
    monkeypatch.setattr(world, "settle", lambda *_: None)
    monkeypatch.setattr(world, "_renewed", lambda transport: place)
    monkeypatch.setattr(world, "abort_job", lambda: events.append("aborted"))
    world._leave_job()
    assert events == ["met", "given back"] * 2


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_who_is_interrupted_while_it_waits_for_others_after_no_run_ends_the_job(
    error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise error

    ended: list[str] = []
    monkeypatch.delitem(sys.modules, "mpi4py.MPI", raising=False)
    monkeypatch.setenv(settings.WARN_AFTER, "0")
    monkeypatch.setattr(slurm, "step", lambda: None)
    monkeypatch.setattr(process.siblings, "ended", lambda grace: [])
    monkeypatch.setattr(world, "library", lambda: SimpleNamespace(Is_initialized=bool))
    monkeypatch.setattr(world, "_meeting_place", lambda waits: SimpleNamespace(exchange=interrupted))
    monkeypatch.setattr(world, "abort_job", lambda: ended.append("aborted"))
    assert world._met_at_exit()
    assert ended == ["aborted"]


def test_what_others_learn_of_a_failure_names_who_where_and_why() -> None:
    late = failure_of(ValueError("no"), 3, "sums")
    early = failure_of(KeyError("x"), -1, "")
    error = processor_error([None, late, early])
    assert str(error) == 'processor 1 failed in superstep 3 ("sums"): ValueError: no'
    assert (error.pid, error.superstep, error.label) == (1, 3, "sums")
    first = processor_error([failure_of(ValueError("no"), 0, "")])
    assert str(first) == "processor 0 failed in superstep 0: ValueError: no"
    before_any = processor_error([None, None, early])
    assert str(before_any) == "processor 2 failed: KeyError: 'x'"
    assert (before_any.pid, before_any.superstep, before_any.label) == (2, 0, "")
    # Whoever only learned of a failure is not named, unless there is no other.
    learned = failure_of(error, 3, "")
    assert processor_error([learned, early]).pid == 1
    assert processor_error([None, learned, learned]).pid == 1
    assert type(processor_error([failure_of(pybsp.SyncError("unlike"), 0, "")])) is LearnedSyncError


@pytest.mark.parametrize("name", settings.SECONDS)
def test_seconds_of_the_environment_are_numbers_of_at_least_0(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for given, found in (("0", 0.0), ("2.5", 2.5), ("inf", float("inf"))):
        monkeypatch.setenv(name, given)
        assert settings.seconds(name) == found
    never = r" \(0: never\)" if name == settings.WARN_AFTER else ""
    for given in ("-1", "-0.001", "nan", "soon"):
        monkeypatch.setenv(name, given)
        with pytest.raises(pybsp.UsageError, match=rf"{name}: expected seconds, a number of at least 0{never}, got"):
            settings.seconds(name)
