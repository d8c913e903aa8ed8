"""Ranks that this process starts, as a notebook does: one job for most of these tests."""

from __future__ import annotations

import dataclasses
import enum
import gc
import io
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from textwrap import dedent
from threading import Lock, Thread, Timer
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

import pybsp
from pybsp.ledger.ledger_file import read
from pybsp.processes import notebook, process, shipping
from pybsp.processes.mpiexec import launcher
from pybsp.processes.shipping import LARGE, Line, Rendezvous, Sender, connect, pickled
from pybsp.runs import job, serving, started, threads

from .launching import Program, ended_well, finish, python, run, start

pytestmark = pytest.mark.timeout(120)

P = 2
NOWHERE = "00"  # the path of a socket that is not there, as seen from another host
MARK = b"\x1e" + bytes(range(65, 89)) + b"\n"  # what ranks write at the end of a run
MANY = LARGE  # numbers of 8 bytes that go through shared memory


@pytest.fixture(scope="module")
def ranks() -> Iterator[pybsp.Ranks]:
    with pybsp.ranks(P) as ranks:
        yield ranks


def ring(bsp: pybsp.BSP, factor: int) -> int:
    with bsp.superstep("ring"):
        bsp.send((bsp.pid + 1) % bsp.p, factor * bsp.pid)
    return int(bsp.inbox[0].payload)


class HotError(Exception):
    pass


class OddError(Exception):
    """One that is not made of its `args`."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__(f"{first} and {second}")
        self.first = first


class NamedError(Exception):
    """One whose text is more than what it is made of."""

    def __init__(self, name: str) -> None:
        super().__init__(f"no {name}")


class LostError(Exception):
    """One that pickles, and cannot be made again."""

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return int, ("none",)


# -- what comes back ---------------------------------------------------------------------------------------------------


def test_results_and_the_ledger_are_those_of_simulate(ranks: pybsp.Ranks, tmp_path: Path) -> None:
    execution, simulation = ranks.run(ring, 10), pybsp.simulate(ring, 10, p=P)
    assert execution.results == simulation.results
    assert [(one.label, one.h, one.messages) for one in execution.ledger] == [
        (one.label, one.h, one.messages) for one in simulation.ledger
    ]
    assert execution.ledger.measured > 0
    assert len(ranks.run(lambda bsp: None).ledger) == 0
    execution.ledger.save(tmp_path / "ledger.json")
    (run,) = read(tmp_path / "ledger.json")["runs"]
    assert ([*run["supersteps"]], run["hosts"]) == ([*execution.ledger], [os.uname().nodename] * P)


def test_closures_and_what_a_script_defines_are_shipped(program: Program) -> None:
    """Its classes are known on ranks too, and are the script's own in what comes back."""
    path = program(
        """
        import dataclasses, pybsp

        @dataclasses.dataclass
        class Point:
            x: int

        def closure(k):
            def main(bsp):
                bsp.send((bsp.pid + 1) % bsp.p, Point(k + bsp.pid))
                bsp.sync()
                return bsp.inbox[0].payload
            return main

        results = pybsp.start_ranks(closure(5), n=2).results
        assert results == [Point(6), Point(5)] and type(results[0]) is Point
        """
    )
    assert ended_well(run(python(path))) == ""


@pytest.mark.whole
def test_instances_of_a_scripts_classes_can_be_sent_by_whatever_way_they_reach_the_program(program: Program) -> None:
    """Of a class that was defined again, as in a cell that is run again, it is the new one."""
    path = program(
        """
        import enum, functools, pybsp

        class Point:
            generation = 1

        class Colour(enum.Enum):
            RED = 1

        def send(bsp, value):
            bsp.send((bsp.pid + 1) % bsp.p, value)
            bsp.sync()
            return bsp.inbox[0].payload

        class Program:
            def __call__(self, bsp):
                return send(bsp, self)

        def closure(value):
            return lambda bsp: send(bsp, value)

        with pybsp.ranks(2) as ranks:
            for main, *args in (
                (send, Point()),
                (send, Colour.RED),
                (functools.partial(send, value=Point()),),
                (closure(Point()),),
                (Program(),),
                (lambda bsp, points: send(bsp, points[0]), [Point()]),
            ):
                print(*(type(one).__name__ for one in ranks.run(main, *args).results))

            class Point:
                generation = 2

            results = ranks.run(send, Point()).results
            assert all(type(one) is Point for one in results)
            print(*(one.generation for one in results))
        """
    )
    names = ["Point", "Colour", "Point", "Point", "Program", "Point", "2"]
    assert ended_well(run(python(path))).split() == [name for name in names for _ in range(2)]


def test_classes_that_have_come_are_in_their_modules_until_the_block_ends() -> None:
    here = vars(sys.modules[__name__])
    classes: dict[tuple[str, str], type] = {(__name__, "HotError"): OddError, (__name__, "Unheard"): OddError}
    with serving._defined(classes):
        assert (here["HotError"], here["Unheard"]) == (OddError, OddError)
    assert here["HotError"].__name__ == "HotError"
    assert "Unheard" not in here


def test_what_comes_back_leaves_classes_as_they_are_here(ranks: pybsp.Ranks) -> None:
    """They go by value, and so do those that a rank makes, which come as they are there."""

    class Point:
        factor = 2

        def scaled(self) -> int:
            return self.factor

    class Colour(enum.Enum):
        RED = 1

    class MeltedError(HotError):
        factor = 2

    def main(bsp: pybsp.BSP) -> Any:
        Point.factor = 7
        return Point(), Colour.RED, type("New", (), {"pid": bsp.pid})()

    def fails(bsp: pybsp.BSP) -> None:
        MeltedError.factor = 7
        raise MeltedError

    scaled = Point.scaled
    points, colours, new = zip(*ranks.run(main).results, strict=True)
    assert Point.scaled is scaled
    assert [point.scaled() for point in points] == [2] * P
    assert colours == (Colour.RED,) * P
    assert [one.pid for one in new] == [0, 1]
    with pytest.raises(MeltedError):
        ranks.run(fails)
    assert MeltedError.factor == 2


@pytest.mark.whole
def test_options_and_settings_reach_the_ranks(ranks: pybsp.Ranks, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = pybsp.BSPMachine(p=P, g=1e-8, l=1e-5, r=1e9)
    assert ranks.run(lambda bsp: bsp.machine.g, machine=machine).results == [1e-8] * P
    assert ranks.run(ring, 1, router="two-phase", checked=True).results == [1, 0]

    def kept(bsp: pybsp.BSP) -> float:
        bsp.send(0, np.ones(1))
        bsp.sync()
        view = bsp.inbox[0].payload if bsp.pid == 0 else np.ones(1)
        bsp.sync()
        return float(view[0])

    monkeypatch.setenv("PYBSP_CHECKED", "1")
    assert np.isnan(ranks.run(kept).results[0])
    monkeypatch.delenv("PYBSP_CHECKED")
    assert ranks.run(lambda bsp: os.environ.get("PYBSP_CHECKED")).results == [None] * P


def test_what_ranks_print_comes_with_their_number(ranks: pybsp.Ranks, capsys: pytest.CaptureFixture[str]) -> None:
    def main(bsp: pybsp.BSP) -> None:
        print("first\nsecond", bsp.pid)
        os.write(2, b"no newline")

    ranks.run(main)
    printed = capsys.readouterr()
    assert sorted(printed.out.splitlines()) == ["[0] first", "[0] second 0", "[1] first", "[1] second 1"]
    assert sorted(printed.err.splitlines()) == ["[0] no newline", "[1] no newline"]


def test_the_standard_input_of_ranks_is_at_its_end(ranks: pybsp.Ranks) -> None:
    def main(bsp: pybsp.BSP) -> bool:
        with pytest.raises(EOFError):
            input()
        return os.read(0, 1) == b"" and sys.stdin.read() == ""

    assert ranks.run(main).results == [True] * P


def test_a_run_goes_on_where_the_folder_of_this_process_is_gone(
    ranks: pybsp.Ranks, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert ranks.run(ring, 10).results == [10, 0]


def printed_of(pieces: Sequence[bytes], capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What is printed of rank 3's standard output, after each piece that comes of it."""
    reads, writes = os.pipe()
    output = job._Output(cast(Any, SimpleNamespace(fileno=lambda: reads)), 3, 1)
    found: list[str] = []
    for piece in pieces:
        os.write(writes, piece)
        assert output.read(MARK) == (MARK in b"".join(pieces[: len(found) + 1]))
        found.append(capsys.readouterr().out)
    os.close(writes)
    assert output.read(MARK)
    os.close(reads)
    return [*found, capsys.readouterr().out]


@pytest.mark.parametrize(
    ("pieces", "printed"),
    [
        ([b"one\ntw", b"o\n", MARK[:9], MARK[9:]], ["[3] one\n", "[3] two\n", "", "", ""]),
        ([b"\r10 %", b"\r20 %\r", b"\n", MARK], ["[3] \r", "[3] 10 %\r[3] 20 %\r", "\n", "", ""]),
        ([b"a\r\n\nb", b"c" + MARK + b"later"], ["[3] a\r\n[3] \n", "[3] bc\n", "[3] later\n"]),
        ([b"50 %\r" + MARK], ["[3] 50 %\r\n", ""]),
        (
            [b"1" * 40000, b"2" * 40000, b"\xc3", b"\xbc" + MARK],
            ["", f"[3] {'1' * 40000}{'2' * 39974}", "", "2" * 26 + "ü\n", ""],
        ),
    ],
    ids=["lines", "progress", "endings", "progress at the end", "a long line"],
)
def test_what_a_rank_prints_comes_as_soon_as_a_line_is_there_or_is_too_long(
    pieces: Sequence[bytes], printed: Sequence[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert printed_of(pieces, capsys) == printed


class Full(io.StringIO):
    """A file on a full disk."""

    def flush(self) -> None:
        raise OSError(28, "No space left on device")


def test_no_run_fails_for_what_it_prints(ranks: pybsp.Ranks, monkeypatch: pytest.MonkeyPatch) -> None:
    narrow, closed = io.TextIOWrapper(io.BytesIO(), "ascii"), io.StringIO()
    closed.close()
    for stream in (narrow, closed, Full(), None):
        with monkeypatch.context() as patched:
            patched.setattr(sys, "stdout", stream)
            assert ranks.run(lambda bsp: bsp.pid or print("ü")).results == [None, 1]
    assert narrow.buffer.getvalue() == b"[0] \\xfc\n"


@pytest.mark.whole
def test_a_rank_may_close_its_outputs() -> None:
    with pybsp.ranks(1) as ranks:
        for _ in range(2):
            assert ranks.run(lambda bsp: os.closerange(1, 3)).results == [None]


def test_ranks_wait_without_a_processor(ranks: pybsp.Ranks) -> None:
    processes = ranks.run(lambda bsp: os.getpid()).results

    def used() -> list[tuple[str, str]]:
        fields = [Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split() for one in processes]
        return [(one[11], one[12]) for one in fields]  # clock ticks, of the program and of the system for it

    time.sleep(0.05)
    before = used()
    time.sleep(0.1)
    assert used() == before


# -- large arrays ------------------------------------------------------------------------------------------------------


def test_an_array_is_each_ranks_own(ranks: pybsp.Ranks) -> None:
    def main(bsp: pybsp.BSP, x: NDArray[np.float64], fixed: NDArray[np.float64]) -> tuple[float, bool]:
        x += bsp.pid
        return float(x.sum()), fixed.flags.writeable

    x, fixed = np.ones(MANY), np.ones(MANY)
    fixed.flags.writeable = False
    assert ranks.run(main, x, fixed).results == [((1.0 + pid) * MANY, False) for pid in range(P)]
    assert x.sum() == MANY


def test_an_array_that_a_rank_keeps_stays_as_it_was(ranks: pybsp.Ranks) -> None:
    """The memory in which it came is used for the next one otherwise."""

    def keep(bsp: pybsp.BSP, x: NDArray[np.float64]) -> None:
        vars(pybsp)["kept"] = x

    def look(bsp: pybsp.BSP, other: NDArray[np.float64]) -> tuple[float, float]:
        return float(vars(pybsp)["kept"].mean()), float(other.mean())

    for number in (3.0, 4.0):
        ranks.run(keep, np.full(MANY, number))
        assert ranks.run(look, np.full(MANY, 5.0)).results == [(number, 5.0)] * P
        assert ranks.run(look, np.full(MANY, 6.0)).results == [(number, 6.0)] * P


def test_large_results_come_back(ranks: pybsp.Ranks) -> None:
    execution = ranks.run(lambda bsp: [np.full(MANY, bsp.pid), np.arange(3)])
    for pid, (large, small) in enumerate(execution.results):
        assert large.sum() == pid * MANY
        assert small.tolist() == [0, 1, 2]
        large += 1  # it is this process's


@pytest.mark.parametrize("cores", [1, 2])
def test_what_two_threads_copy_is_whole(monkeypatch: pytest.MonkeyPatch, cores: int) -> None:
    monkeypatch.setattr(process, "allowed_cores", lambda: cores)
    monkeypatch.setattr(shipping, "_DIVIDED", 1000)
    buffers = [np.random.default_rng(size).bytes(size) for size in (1999, 2000, 2001, 100_003)]
    places = shipping.spans([len(one) for one in buffers])
    arena = shipping.Arena(places[-1][1])
    arena.put([memoryview(one) for one in buffers])
    assert [os.pread(arena.file, end - begin, begin) for begin, end in places] == buffers
    arena.free()


def test_an_arena_is_in_memory_where_the_system_has_such_files(monkeypatch: pytest.MonkeyPatch) -> None:
    files = []
    for memfd in (True, False):
        if not memfd:
            monkeypatch.delattr(os, "memfd_create")
        arena = shipping.Arena(8)
        arena.put([memoryview(b"of bytes")])
        assert os.pread(arena.file, 8, 0) == b"of bytes"
        files.append(os.readlink(f"/proc/self/fd/{arena.file}"))
        arena.free()
    assert ["memfd:" in file for file in files] == [True, False]


def test_each_buffer_of_an_arena_begins_at_a_cache_line() -> None:
    assert shipping.spans([1, 64, 0, 65, 3]) == [(0, 1), (64, 128), (128, 128), (128, 193), (256, 259)]


@pytest.mark.parametrize("far", [False, True], ids=["this host", "another host"])
def test_parcels_go_through_memory_or_through_the_socket(far: bool) -> None:
    meeting = Rendezvous(far=far)
    address = meeting.address if not far else " ".join([NOWHERE, *meeting.address.split(" ")[1:]])
    came: list[Any] = []

    def rank() -> None:
        line = connect(address)()
        came.append(line.near)
        for _ in range(3):
            about, received = line.receive()
            value = received.load()
            came.append((about, float(value[0].sum()), value[1].flags.writeable, value[2]))
            value[0][0] = 7.0
            del value
            came.append(received.release())
        line.close()

    thread = Thread(target=rank)
    thread.start()
    line, sender = accepted(meeting), Sender()
    fixed = np.ones(MANY)
    fixed.flags.writeable = False
    for number in (1.0, 2.0, 3.0):
        parcel = pickled((np.full(MANY * int(number), number), fixed, "small"))
        line.send(number, parcel, sender.put(parcel))
    thread.join(30)
    line.close()
    meeting.close()
    sender.forget()
    expected = [entry for n in (1.0, 2.0, 3.0) for entry in ((n, n * n * MANY, False, "small"), True)]
    assert came == [not far, *expected]


def accepted(meeting: Rendezvous) -> Line:
    while (line := meeting.accept()) is None:
        time.sleep(0.001)
    return line


def test_nobody_without_the_key_is_let_in() -> None:
    meeting = Rendezvous(far=False)
    wrong = " ".join([*meeting.address.split(" ")[:3], bytes(24).hex()])
    refused: list[str] = []

    def stranger() -> None:
        try:
            connect(wrong)()
        except Exception as error:
            refused.append(type(error).__name__)

    thread = Thread(target=stranger)
    thread.start()
    while thread.is_alive():
        assert meeting.accept() is None
        thread.join(0.001)
    meeting.close()
    assert refused == ["AuthenticationError"]


@pytest.mark.whole
def test_ranks_of_other_hosts_come_by_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """They cannot reach the socket of this host, nor its memory."""

    class FarRendezvous(Rendezvous):
        def __init__(self, far: bool) -> None:
            super().__init__(far)
            self.address = " ".join([NOWHERE, *self.address.split(" ")[1:]])

    monkeypatch.setattr(job, "Rendezvous", FarRendezvous)
    with pybsp.ranks(P, hosts=["localhost"]) as ranks:
        for number in (2.0, 3.0):
            execution = ranks.run(lambda bsp, x: x + bsp.pid, np.full(MANY, number))
            assert [one.sum() for one in execution.results] == [(number + pid) * MANY for pid in range(P)]


# -- several threads ---------------------------------------------------------------------------------------------------


class Calling:
    """An argument that calls something when it is pickled, as the last thing before its run waits for its turn."""

    def __init__(self, call: Callable[[], object]) -> None:
        self.call = call

    def __reduce__(self) -> tuple[type[str], tuple[()]]:
        self.call()
        return str, ()


class Runs:
    """A run in a thread: it says that it has begun, and goes on until it may end."""

    def __init__(self, ranks: pybsp.Ranks, folder: Path) -> None:
        self.may_end = folder / "may end"
        self.outcome: list[Any] = []
        begun = folder / "begun"
        self._thread = Thread(target=self._run, args=(ranks, begun), daemon=True)
        self._thread.start()
        while not begun.exists():
            assert self._thread.is_alive(), self.outcome
            time.sleep(0.001)

    def _run(self, ranks: pybsp.Ranks, begun: Path) -> None:
        def main(bsp: pybsp.BSP, begun: Path, may_end: Path) -> tuple[str, int]:
            begun.touch()
            while not may_end.exists():
                time.sleep(0.001)
            bsp.sync()
            return "first", bsp.pid

        try:
            self.outcome += ranks.run(main, begun, self.may_end).results
        except BaseException as error:
            self.outcome.append(error)

    def end(self) -> list[Any]:
        """Results, or what was raised."""
        self.may_end.touch()
        self._thread.join(30)
        assert not self._thread.is_alive(), "it hangs"
        return self.outcome


@pytest.mark.whole
def test_runs_of_several_threads_take_turns(ranks: pybsp.Ranks, tmp_path: Path) -> None:
    first = Runs(ranks, tmp_path)
    others: dict[int, list[Any]] = {}

    def run(number: int) -> None:
        ready = Calling(Timer(0.1, first.may_end.touch).start)
        others[number] = ranks.run(lambda bsp, ready: (bsp.sync(), number)[1], ready).results

    threads = [Thread(target=run, args=(number,), daemon=True) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive(), "it hangs"
    assert first.end() == [("first", 0), ("first", 1)]
    assert others == {number: [number] * P for number in range(4)}


def test_an_interrupt_while_it_waits_for_its_turn_leaves_the_others_run_alone(
    ranks: pybsp.Ranks, tmp_path: Path
) -> None:
    first = Runs(ranks, tmp_path)
    interrupt = Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        ranks.run(ring, Calling(interrupt.start))
    assert first.end() == [("first", 0), ("first", 1)]
    assert ranks.run(ring, 1).results == [1, 0]


def test_a_signal_handlers_call_in_the_midst_of_a_run_is_an_error(ranks: pybsp.Ranks) -> None:
    raised: list[Exception] = []

    def handler(number: int, frame: object) -> None:
        try:
            ranks.run(ring, 1)
        except Exception as error:
            raised.append(error)

    def main(bsp: pybsp.BSP, process: int, number: signal.Signals) -> int:
        if bsp.pid == 0:
            os.kill(process, number)
        bsp.sync()
        return bsp.pid

    before = signal.signal(signal.SIGUSR2, handler)
    try:
        assert ranks.run(main, os.getpid(), signal.SIGUSR2).results == [0, 1]
    finally:
        signal.signal(signal.SIGUSR2, before)
    (error,) = raised
    assert isinstance(error, pybsp.UsageError)
    assert "a run on these ranks goes on in this thread" in str(error)


@pytest.mark.whole
def test_close_by_a_signal_handler_ends_the_run_that_it_interrupts() -> None:
    def main(bsp: pybsp.BSP, process: int, number: signal.Signals) -> None:
        if bsp.pid == 0:
            os.kill(process, number)
        while True:
            bsp.sync()

    ranks = pybsp.ranks(P)
    before = signal.signal(signal.SIGUSR2, lambda *_: ranks.close())
    try:
        with pytest.raises(pybsp.UsageError, match="main was ended, as its ranks were closed while it ran"):
            ranks.run(main, os.getpid(), signal.SIGUSR2)
    finally:
        signal.signal(signal.SIGUSR2, before)
    with pytest.raises(pybsp.UsageError, match="closed"):
        ranks.run(ring, 1)


@pytest.mark.whole
def test_close_ends_the_run_of_another_thread(tmp_path: Path) -> None:
    with pybsp.ranks(1) as ranks:
        first = Runs(ranks, tmp_path)
    (error,) = first.end()
    assert isinstance(error, pybsp.UsageError)
    assert "main was ended, as its ranks were closed while it ran" in str(error)


def test_a_child_that_is_forked_while_a_thread_has_its_turn_hangs_nowhere(ranks: pybsp.Ranks, tmp_path: Path) -> None:
    first = Runs(ranks, tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a fork beside threads
        child = os.fork()
    if child == 0:
        status = 1
        with suppress(BaseException):
            signal.alarm(30)
            with pytest.raises(pybsp.UsageError, match="a child that was forked since"):
                ranks.run(ring, 1)
            ranks.close()
            status = 0
        os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert first.end() == [("first", 0), ("first", 1)]


# -- failures ----------------------------------------------------------------------------------------------------------


def test_the_first_failure_is_raised_with_its_traceback(ranks: pybsp.Ranks) -> None:
    def main(bsp: pybsp.BSP) -> None:
        if bsp.pid == 1:
            raise HotError("too hot")
        bsp.sync()

    with pytest.raises(HotError, match="too hot") as caught:
        ranks.run(main)
    text = str(caught.value.__cause__)
    assert f'test_started.py", line {main.__code__.co_firstlineno + 2}, in main' in text
    assert "pybsp/runs/launch.py" not in text  # it begins in the program
    if sys.version_info >= (3, 11):
        assert "(on processor 1 of 2, in superstep 0)" in text
    assert ranks.run(ring, 1).results == [1, 0]  # these ranks go on


@pytest.mark.parametrize(("error", "text"), [(OddError(1, 2), "1 and 2"), (NamedError("name"), "no name")])
def test_an_exception_is_what_it_was_whatever_its_class_takes(ranks: pybsp.Ranks, error: Exception, text: str) -> None:
    def main(bsp: pybsp.BSP) -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        ranks.run(main)
    assert caught.value.args == (text,)
    assert vars(error).items() <= vars(caught.value).items()


def fails_for_good(bsp: pybsp.BSP) -> None:
    raise LostError("lost")


def fails_locally(bsp: pybsp.BSP) -> None:
    class Local(Exception):  # noqa: N818
        pass

    error = Local("here")
    error.unsent = (one for one in [1])  # type: ignore[attr-defined]
    raise error


def fails_with_a_lock(bsp: pybsp.BSP) -> None:
    class Locked(Exception):  # noqa: N818
        lock = Lock()  # so the class cannot be sent, nor what is made of the traceback

    raise Locked("for good")


@dataclasses.dataclass(frozen=True)
class FrozenError(Exception):
    number: int


def fails_frozen(bsp: pybsp.BSP) -> None:
    raise FrozenError(7)


@pytest.mark.parametrize(
    ("main", "text"),
    [
        (fails_frozen, "FrozenError: 7"),
        (fails_for_good, "LostError: lost"),
        (fails_locally, "Local: here"),
        (fails_with_a_lock, "Locked: for good"),
    ],
)
def test_an_exception_that_does_not_come_whole_is_told(
    ranks: pybsp.Ranks, main: Callable[[pybsp.BSP], None], text: str
) -> None:
    with pytest.raises(pybsp.ProcessorError, match=f"^processor 0 failed: .*{text}"):
        ranks.run(main)


def test_what_cannot_be_sent_is_an_error(ranks: pybsp.Ranks) -> None:
    unsent = (one for one in [1])
    with pytest.raises(
        pybsp.UsageError, match=r"expected what cloudpickle can pickle, .* got TypeError: cannot pickle"
    ):
        ranks.run(lambda bsp: unsent)
    with pytest.raises(TypeError, match=r"the result cannot be sent: .*; return arrays, numbers and what is"):
        ranks.run(lambda bsp: (one for one in [1]))


class Refusing:
    """What can be pickled, and not be made again: in this process, or in any (0)."""

    def __init__(self, process: int) -> None:
        self.process = process

    def __setstate__(self, state: dict[str, int]) -> None:
        if state["process"] in (0, os.getpid()):
            raise KeyError("no such state")


def of_a_module_of_the_ranks(bsp: pybsp.BSP) -> Any:
    if bsp.pid == 0:
        return 0
    sys.modules["only_there"] = module = ModuleType("only_there")
    kind: Any = type("There", (), {"__module__": "only_there"})
    module.There = kind  # type: ignore[attr-defined]
    return kind()


def test_a_result_that_cannot_be_unpickled_is_an_error_that_says_whose(ranks: pybsp.Ranks) -> None:
    here = os.getpid()
    with pytest.raises(
        pybsp.ProcessorError,
        match=r"^ranks\.run: the result of processor 0: expected .*, got KeyError: 'no such state'; return ",
    ) as caught:
        ranks.run(lambda bsp: Refusing(here))
    assert isinstance(caught.value.__cause__, KeyError)
    with pytest.raises(
        pybsp.ProcessorError, match=r"^ranks\.run: the result of processor 1: .*, got ModuleNotFoundError: .*only_there"
    ) as caught:
        ranks.run(of_a_module_of_the_ranks)
    assert caught.value.pid == 1
    assert ranks.run(ring, 1).results == [1, 0]


def test_an_argument_that_cannot_be_unpickled_on_ranks_is_an_error(ranks: pybsp.Ranks) -> None:
    text = r": arguments main, args, kwargs: expected what can be unpickled on the ranks, got KeyError on processor 0: "
    with pytest.raises(pybsp.UsageError, match=r"^ranks\.run" + text) as caught:
        ranks.run(lambda bsp, refusing: None, Refusing(0))
    assert "in __setstate__" in str(caught.value.__cause__)
    with pytest.raises(pybsp.UsageError, match=r"^pybsp\.start_ranks" + text):
        pybsp.start_ranks(lambda bsp, refusing: None, Refusing(0), n=1)
    assert ranks.run(ring, 1).results == [1, 0]


def test_errors_name_the_operation_that_was_called(ranks: pybsp.Ranks) -> None:
    unsent = (one for one in [1])
    with pytest.raises(pybsp.UsageError, match=r"^pybsp\.start_ranks: arguments main, args, kwargs: expected what"):
        pybsp.start_ranks(lambda bsp: unsent, n=1)
    with pytest.raises(pybsp.UsageError, match=r"^ranks\.run: arguments main, args, kwargs: expected what"):
        ranks.run(lambda bsp: unsent)


def test_processors_that_do_not_do_the_same_are_an_error(ranks: pybsp.Ranks) -> None:
    def main(bsp: pybsp.BSP) -> None:
        if bsp.pid == 0:
            bsp.sync()

    with pytest.raises(pybsp.SyncError, match="the processors did not do the same"):
        ranks.run(main)


def test_a_processor_that_ended_did_so_where_the_run_was_asked_for(ranks: pybsp.Ranks) -> None:
    def main(bsp: pybsp.BSP) -> None:
        if bsp.pid == 0:
            bsp.sync()

    with pytest.raises(pybsp.SyncError, match=rf"processor 1 ended in superstep 0, at {re.escape(__file__)}:\d+$"):
        ranks.run(main)


def test_abort_raises_what_it_says_where_the_ranks_were_started(ranks: pybsp.Ranks) -> None:
    def main(bsp: pybsp.BSP) -> None:
        if bsp.pid == 1:
            bsp.abort("no more input")
        bsp.sync()

    with pytest.raises(pybsp.AbortError, match=r"^pybsp: processor 1 aborted in superstep 0: no more input$"):
        ranks.run(main)
    assert ranks.run(ring, 1).results == [1, 0]


def test_sys_exit_ends_a_run_and_no_rank(ranks: pybsp.Ranks) -> None:
    with pytest.raises(SystemExit) as caught:
        ranks.run(lambda bsp: sys.exit(3))
    assert caught.value.code == 3
    assert ranks.run(ring, 1).results == [1, 0]


@pytest.mark.parametrize("status", [None, 0])
def test_sys_exit_of_one_processor_is_no_good_end(ranks: pybsp.Ranks, status: Any) -> None:
    def main(bsp: pybsp.BSP) -> None:
        if bsp.pid == 1:
            sys.exit(status)
        bsp.sync()

    with pytest.raises(pybsp.ProcessorError, match=r"processor 1 called sys\.exit, and others did not"):
        ranks.run(main)
    assert ranks.run(ring, 1).results == [1, 0]


@pytest.mark.whole
def test_the_error_of_a_timeout_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYBSP_GRACE", "0.5")

    def main(bsp: pybsp.BSP) -> None:
        if bsp.pid:
            time.sleep(60)
        bsp.sync()

    with pytest.raises(pybsp.SyncError, match=r"a superstep has not ended within its timeout of 0\.3 s") as caught:
        pybsp.start_ranks(main, n=2, timeout=0.3)
    assert "bsp.sync()" in str(caught.value.__cause__)


def test_a_child_that_a_rank_forks_is_no_rank_where_it_leaves_the_program(
    ranks: pybsp.Ranks, capsys: pytest.CaptureFixture[str]
) -> None:
    def main(bsp: pybsp.BSP, ends: Callable[[], Any]) -> int:
        child = os.fork()
        if child == 0:
            return cast(int, ends())
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        bsp.sync()
        return status

    for ends, status in ((lambda: 7, 0), (sys.exit, 0), (lambda: sys.exit(3), 3), (lambda: sys.exit("bad end"), 1)):
        assert ranks.run(main, ends).results == [status] * P
    assert capsys.readouterr().err.count("bad end\n") == P
    assert ranks.run(main, lambda: 1 // 0).results == [1] * P
    error = capsys.readouterr().err
    assert error.count("ZeroDivisionError") == P
    assert "pybsp/runs/serving.py" not in error
    assert ranks.run(ring, 1).results == [1, 0]


@pytest.mark.whole
def test_a_child_that_was_forked_leaves_its_parents_ranks_alone(ranks: pybsp.Ranks) -> None:
    ranks.run(ring, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a fork beside threads
        child = os.fork()
    if child == 0:
        status = 1
        try:
            ranks.run(ring, 1)
        except pybsp.UsageError as error:
            status = 0 if "a child that was forked since" in str(error) else 2
        ranks.close()  # does nothing here
        os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert ranks.run(ring, 1).results == [1, 0]


@pytest.mark.whole
def test_a_rank_that_dies_is_named_and_the_next_run_has_new_ones(capfd: pytest.CaptureFixture[str]) -> None:
    """The launcher ends the others at once: which was first the lines of the ranks tell (shipping.py)."""

    def main(bsp: pybsp.BSP, victim: int) -> None:
        if bsp.pid == victim:
            print("last words", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        bsp.sync()

    with pybsp.ranks(3) as ranks:
        for victim in (2, 1, 0, 2, 1):
            with pytest.raises(pybsp.ProcessorError, match=rf"^processor {victim} ended while .*main ran"):
                ranks.run(main, victim)
            assert f"[{victim}] last words" in capfd.readouterr().out
        assert ranks.run(ring, 1).results == [2, 0, 1]


@pytest.mark.whole
def test_the_status_of_a_rank_that_ends_is_said_where_its_launcher_takes_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    late = ["sh", "-c", '"$@"; status=$?; exec >&- 2>&-; sleep 0.5; exit $status', "sh"]
    monkeypatch.setattr(job, "launcher", lambda *given: [*late, *launcher(*given)])

    def main(bsp: pybsp.BSP) -> None:
        bsp.sync()
        if bsp.pid == 1:
            os._exit(3)
        bsp.sync()

    with pytest.raises(pybsp.ProcessorError, match=r"main ran; the launcher ended with the status 3"):
        pybsp.start_ranks(main, n=2)


@pytest.mark.whole
def test_the_run_after_a_rank_has_died_idle_has_new_ones() -> None:
    with pybsp.ranks(P) as ranks:
        before = ranks.run(lambda bsp: os.getpid()).results
        os.kill(before[0], signal.SIGKILL)
        wait_for_the_end_of(before[:1])
        time.sleep(0.05)  # of its other threads too
        assert not {*ranks.run(lambda bsp: os.getpid()).results} & {*before}


@pytest.mark.whole
def test_a_failure_that_ends_the_job_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others compute, and do not come to learn of it."""
    monkeypatch.setenv("PYBSP_GRACE", "0.2")

    def main(bsp: pybsp.BSP) -> None:
        if bsp.pid == 1:
            raise HotError("too hot")
        while True:
            pass

    with pytest.raises(HotError, match="too hot"):
        pybsp.start_ranks(main, n=P)


@pytest.mark.whole
def test_a_run_that_outlasts_its_limit_says_where_ranks_are(capfd: pytest.CaptureFixture[str]) -> None:
    def endless(bsp: pybsp.BSP) -> None:
        while bsp.pid:
            pass

    options = {"router": "direct", "machine": None, "checked": None, "timeout": None}
    with pybsp.ranks(P) as ranks:
        ranks.run(ring, 1)  # what a first run loads takes long on a busy machine
        with pytest.raises(TimeoutError, match=r"endless took longer than 2 s, its limit"):
            ranks.attempt(endless, (), {}, options, 2)
        assert "in endless" in capfd.readouterr().err
        assert ranks.run(ring, 1).results == [1, 0]


# -- wrong calls -------------------------------------------------------------------------------------------------------


def test_n_may_be_a_number_of_numpy() -> None:
    with pybsp.ranks(np.int64(1)) as ranks:
        assert type(ranks.p) is int


@pytest.mark.fast
@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: pybsp.start_ranks(ring, 1, n=0),
            r"^pybsp\.start_ranks: argument n: expected a whole number of at least 1, got 0",
        ),
        (lambda: pybsp.ranks(True), r"^pybsp\.ranks: argument n: expected a whole number of at least 1, got True"),
        (lambda: pybsp.ranks(2, hosts=[]), "argument hosts: expected names of hosts"),
        (lambda: pybsp.ranks(2, hosts=cast(Any, 3)), "argument hosts: expected names of hosts, .*, got 3"),
        (
            lambda: pybsp.start_ranks(cast(Any, "ring"), n=2),
            "argument main: expected a function of a BSP machine, got 'ring'",
        ),
        (lambda: pybsp.start_ranks(ring, 1, n=2, hosts=[]), r"^pybsp\.start_ranks: argument hosts: expected names"),
        (lambda: pybsp.start_ranks(ring, 1, n=2, timeout=0), "argument timeout: expected None or seconds"),
        (lambda: pybsp.start_ranks(lambda bsp, n: n, n=2), "argument n: expected it to be for pybsp.start_ranks alone"),
        (
            lambda: pybsp.start_ranks(lambda bsp, timeout: timeout, n=2, timeout=9),
            "argument timeout: expected it to be for pybsp.start_ranks alone",
        ),
        (lambda: pybsp.simulate(lambda bsp: pybsp.ranks(2), p=1), "a run is going on in this process"),
        (lambda: pybsp.run(lambda bsp: None, p=4), r"takes none of this name: .*pybsp.start_ranks\(main, n=4\)"),
        (lambda: pybsp.run(ring, 3, n=2), r"takes none of this name: .*pybsp.simulate\(main, p=2\)"),
        (lambda: pybsp.start_ranks(ring, 3, p=2), "argument p=2: .*ring takes none of this name; for ranks write n=2$"),
    ],
    ids=[
        "n",
        "bool",
        "hosts",
        "hosts that are none",
        "main",
        "hosts of start_ranks",
        "timeout",
        "keyword",
        "timeout of both",
        "inside",
        "run p",
        "run n",
        "start_ranks p",
    ],
)
def test_wrong_calls_are_errors_that_say_what_was_meant(call: Callable[[], object], text: str) -> None:
    with pytest.raises(pybsp.UsageError, match=text):
        call()


def test_ranks_say_how_many_they_are_and_whether_they_are_closed() -> None:
    with pybsp.ranks(1) as ranks:
        assert repr(ranks) == "<ranks: 1>"
    assert repr(ranks) == "<ranks: 1, closed>"


def test_ranks_that_are_there_are_ready(ranks: pybsp.Ranks) -> None:
    for _ in range(2):
        ranks.ready()
    assert ranks.run(lambda bsp: bsp.p).results == [P] * P


@pytest.mark.parametrize(("hosts", "told"), [("", "2"), ("here,there", None)])
def test_ranks_of_this_host_are_told_their_share_of_the_cores_before_they_start(
    hosts: str, told: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str | None] = []

    def refuse(_: list[str], env: dict[str, str], **__: Any) -> Any:
        seen.append(env.get("SHARE"))
        raise OSError("not today")

    monkeypatch.setattr(threads, "of_ranks", lambda p: {"SHARE": str(p)})
    monkeypatch.setattr(job, "launcher", lambda *_: ["mpiexec"])
    monkeypatch.setattr(subprocess, "Popen", refuse)
    with pytest.raises(pybsp.LauncherError, match=r"^pybsp\.ranks: mpiexec cannot be started: not today"):
        job.Job(2, hosts, "pybsp.ranks", seen)
    assert seen == [told]


def test_where_there_is_no_launcher_nothing_stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(pybsp.LauncherError, match=r"^no mpiexec beside /nowhere/python nor on PATH"):
        pybsp.ranks(2)
    gc.collect()  # a socket that is open warns, which is an error


def test_closed_ranks_run_nothing() -> None:
    ranks = pybsp.ranks(1)
    ranks.close()
    ranks.close()
    for operation, call in ("run", partial(ranks.run, ring, 1)), ("ready", ranks.ready):
        with pytest.raises(pybsp.UsageError, match=f"^ranks.{operation}: these ranks have been closed"):
            call()


@pytest.mark.parametrize(
    ("own", "errors", "expected"),
    [
        ((True, True), (ValueError("first"), ValueError("second")), "^first$"),
        ((False, True), (pybsp.SyncError("late"), ValueError("second")), "^second$"),
        ((False, False), (KeyError(0), pybsp.SyncError("late")), "^late$"),
    ],
)
def test_where_a_rank_is_lost_what_others_raised_of_themselves_comes_first(
    own: Sequence[bool], errors: Sequence[Exception], expected: str
) -> None:
    first = [
        (
            pid,
            serving.Raised(own[pid], False, "", None, "a trace"),
            SimpleNamespace(load=lambda _, pid=pid: errors[pid]),
        )
        for pid in (1, 0)  # as they came
    ]
    with pytest.raises(Exception, match=expected) as caught:
        job.Job._lost(cast(Any, SimpleNamespace(_drain=abs)), 2, "main", cast(Any, first))
    assert "a trace" in str(caught.value.__cause__)


def test_where_a_rank_is_lost_that_raised_nothing_its_launcher_says_why() -> None:
    launched = SimpleNamespace(wait=abs, poll=lambda: 9)
    there: Any = SimpleNamespace(_drain=abs, _mpiexec=launched, _printed=["=====", "killed by signal 9"])
    with pytest.raises(
        pybsp.ProcessorError,
        match=r"^processor 2 ended while main ran; the launcher ended with the status 9\n  killed by signal 9$",
    ):
        job.Job._lost(there, 2, "main", [])


def test_a_cell_shows_how_far_ranks_are_after_a_second_and_then_twice_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    now, shown = [0.0], list[str]()
    monkeypatch.setattr(notebook, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(notebook, "in_notebook", lambda: True)
    monkeypatch.setattr(notebook.CellProgress, "_update", lambda _, text: shown.append(text))
    progress = notebook.CellProgress(4)
    progress.at(2, 12, "exchange")
    for quarter in range(9):
        now[0] = quarter / 4
        progress.show()
    assert shown == [f"4 processors, {seconds} s, superstep 12 (exchange)" for seconds in (1.0, 1.5, 2.0)]


def test_without_a_number_there_are_as_many_as_the_allocation_has_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as alone:
        alone.delenv("SLURM_JOB_ID", raising=False)
        alone.setenv("SLURM_NTASKS", "7")  # which somebody has left behind
        assert started._number("pybsp.ranks", None) == process.allowed_cores()
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    monkeypatch.setenv("SLURM_TASKS_PER_NODE", "2(x3)")
    assert started._number("pybsp.ranks", None) == 6


def test_a_rank_of_a_job_starts_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"PMI_SIZE": "4", "PMI_RANK": "1"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(pybsp.UsageError, match="this process is processor 1 of 4 of a job already"):
        pybsp.start_ranks(ring, 1, n=2)


@pytest.mark.whole
def test_ranks_that_do_not_start_say_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As with an MPI library that cannot be loaded."""
    (tmp_path / "mpi4py").mkdir()
    (tmp_path / "mpi4py" / "__init__.py").write_text("raise ImportError('libmpi.so.99: cannot open')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(
        pybsp.LauncherError,
        match=r"^pybsp\.start_ranks: 2 ranks could not be started: (.|\n)*libmpi.so.99: cannot open",
    ):
        pybsp.start_ranks(ring, 1, n=2)


@pytest.mark.whole
def test_a_launcher_that_prints_much_before_it_starts_ranks_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    prints = "import os, sys; os.write(1, b'a line\\n' * 100_000); os.execvp(sys.argv[1], sys.argv[1:])"
    monkeypatch.setattr(job, "launcher", lambda *args: [sys.executable, "-c", prints, *launcher(*args)])
    monkeypatch.setattr(job, "STARTING", 60)
    with pybsp.ranks(1) as ranks:
        assert ranks.run(lambda bsp: bsp.p).results == [1]


# -- how they end ------------------------------------------------------------------------------------------------------

SCRIPT = """
import os, sys, time, pybsp

def main(bsp, busy):
    print(os.getpid(), flush=True)
    bsp.sync()
    while busy:
        pass

with pybsp.ranks(2) as ranks:
    ranks.run(main, False)
    print("idle", flush=True)
    if sys.argv[1] == "busy":
        ranks.run(main, True)
    time.sleep(60)
"""


def test_ranks_that_nobody_refers_to_any_more_end() -> None:
    files = len(os.listdir("/proc/self/fd"))
    ranks = pybsp.ranks(1)
    processes = ranks.run(lambda bsp: os.getpid()).results
    assert ranks.run(lambda bsp: np.zeros(100_000)).results[0].size == 100_000  # in a file of theirs
    del ranks
    gc.collect()
    wait_for_the_end_of(processes)
    assert len(os.listdir("/proc/self/fd")) <= files


@pytest.mark.whole
@pytest.mark.parametrize("state", ["idle", "busy"])
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL], ids=["interrupted", "killed"])
def test_ranks_end_with_the_process_that_started_them(end: signal.Signals, state: str, program: Program) -> None:
    script = start(python(program(dedent(SCRIPT)), state))
    assert script.stdout is not None
    processes: list[int] = []
    for line in script.stdout:
        if line.startswith("["):
            processes.append(int(line.split()[1]))
        if len(processes) == 2 * P or (state == "idle" and line.startswith("idle")):
            break
    script.send_signal(end)
    ended = finish(script)
    assert ended.code != 0
    assert ("KeyboardInterrupt" in ended.err) == (end == signal.SIGINT)
    wait_for_the_end_of(processes)


@pytest.mark.whole
def test_ranks_end_with_the_process_that_started_them_also_where_a_child_of_it_lives_on(program: Program) -> None:
    path = program(
        """
        import os, signal, time, pybsp

        with pybsp.ranks(1) as ranks:
            (rank,) = ranks.run(lambda bsp: os.getpid()).results
            child = os.fork()
            if child == 0:
                os.closerange(0, 3)
                time.sleep(60)
            assert ranks.run(lambda bsp: bsp.pid).results == [0]
            print(rank, child, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    rank, child = map(int, run(python(path)).out.split())
    try:
        wait_for_the_end_of([rank])
    finally:
        os.kill(child, signal.SIGKILL)


def wait_for_the_end_of(processes: Sequence[int]) -> None:
    until = time.monotonic() + 30
    while any(alive(one) for one in processes):
        assert time.monotonic() < until, "ranks go on"
        time.sleep(0.05)


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


# -- raises_on ---------------------------------------------------------------------------------------------------------


def hot(bsp: pybsp.BSP, pid: int) -> None:
    if bsp.pid == pid:
        raise HotError("too hot")
    bsp.sync()


def test_raises_on_passes_what_it_expects(ranks: pybsp.Ranks) -> None:
    with pybsp.raises_on(1, HotError, match="hot"):
        ranks.run(hot, 1)
    with pybsp.raises_on(2, (ValueError, HotError)):
        pybsp.simulate(hot, 2, p=3)


def test_raises_on_passes_an_exception_that_refuses_attributes() -> None:
    @pybsp.raises_on(1, FrozenError)
    def main(bsp: pybsp.BSP) -> None:
        if bsp.pid == 1:
            fails_frozen(bsp)
        bsp.sync()

    with pybsp.raises_on(1, FrozenError):
        pybsp.simulate(main, p=2)


@pytest.mark.parametrize(
    ("pid", "expected", "match", "error", "text"),
    [
        (1, HotError, None, AssertionError, "expected HotError on processor 1, got it on processor 2"),
        (2, HotError, "cold", AssertionError, "expected a text that matches 'cold', got 'too hot'"),
        (2, (ValueError, KeyError), None, HotError, "too hot"),
        (-1, HotError, None, pybsp.UsageError, "argument pid: .*got -1"),
        ("2", HotError, None, pybsp.UsageError, "argument pid: .*got '2'"),
    ],
)
def test_raises_on_fails_where_it_is_otherwise(
    pid: Any, expected: Any, match: str | None, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text), pybsp.raises_on(pid, expected, match):
        pybsp.simulate(hot, 2, p=3)


def test_raises_on_fails_where_nothing_is_raised() -> None:
    with pytest.raises(AssertionError, match="expected HotError on processor 0, nothing was raised"):  # noqa: SIM117
        with pybsp.raises_on(0, HotError):
            pybsp.simulate(hot, 7, p=3)
