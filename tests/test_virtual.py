"""Virtual processors: any number of them, deterministic, in one process, without MPI."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from pathlib import Path
from typing import Any

import greenlet
import numpy as np
import pytest

import pybsp
from pybsp import collectives
from pybsp.errors import harmless
from pybsp.ground.failures import outcome
from pybsp.ledger import account
from pybsp.parts import part
from pybsp.processes import delays
from pybsp.runs import simulation
from pybsp.supersteps import superstep

from .launching import run


def counted(ledger: pybsp.Ledger) -> list[Any]:
    return [(r.label, r.work, r.messages, r.h_out, r.h_in, r.h, r.M, r.predicted, r.measured) for r in ledger]


@pytest.mark.whole
def test_4096_processors() -> None:
    def main(bsp: pybsp.BSP) -> int:
        total = 0
        for k in range(3):
            bsp.send((bsp.pid + k) % bsp.p, bsp.pid)
            bsp.sync()
            total += bsp.inbox[0].payload
        return total

    done = pybsp.simulate(main, p=4096)
    assert done.results == [sum((pid - k) % 4096 for k in range(3)) for pid in range(4096)]
    assert [(r.h, r.M) for r in done.ledger] == [(0, 0), (1, 4096), (1, 4096)]


@pytest.mark.whole
def test_4096_processors_split_into_pairs() -> None:
    def main(bsp: pybsp.BSP) -> int:
        with bsp.split(bsp.pid // 2) as pair:
            pair.send(1 - pair.pid, bsp.pid)
            pair.sync()
            return int(pair.inbox[0].payload)

    assert pybsp.simulate(main, p=4096).results == [pid ^ 1 for pid in range(4096)]


@pytest.mark.parametrize(("limit", "most"), [(f"{1 << 20}\n", 16), ("max\n", None), (f"{(1 << 63) - 4096}\n", None)])
def test_more_processors_than_the_memory_of_a_container_has_room_for_are_refused(
    limit: str, most: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, missing = tmp_path / "memory.max", tmp_path / "memory.limit_in_bytes"
    there.write_text(limit)
    monkeypatch.setattr(simulation, "CONTAINER", (there, missing))
    monkeypatch.setattr(simulation, "_memory", simulation._memory.__wrapped__)  # not what it has found before
    if most is None:
        most = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // simulation.LEAST_MEMORY
    else:
        assert pybsp.simulate(lambda bsp: bsp.p, p=most).results == [most] * most
    with pytest.raises(pybsp.UsageError, match=f"argument p: expected at most {most} virtual processors here, as each"):
        pybsp.simulate(lambda bsp: bsp.p, p=most + 1)


def test_deep_recursion_in_every_processor() -> None:
    def down(bsp: pybsp.BSP, depth: int) -> int:
        if depth:
            return down(bsp, depth - 1)
        bsp.sync()
        return bsp.pid

    assert pybsp.simulate(down, 400, p=64).results == list(range(64))


@pytest.mark.fast
@pytest.mark.parametrize("name", ["pybsp.run", "pybsp.attach", "pybsp.logp.run", "pybsp.logp.run of a communicator"])
def test_a_run_inside_of_a_simulation_is_an_error(name: str) -> None:
    comm: Any = object()  # it is not looked at

    def attach() -> None:
        with pybsp.attach(comm):
            pass

    inner: dict[str, Callable[[], Any]] = {
        "pybsp.run": lambda: pybsp.run(lambda inner: None),
        "pybsp.attach": attach,
        "pybsp.logp.run": lambda: pybsp.logp.run(lambda proc: None),
        "pybsp.logp.run of a communicator": lambda: pybsp.logp.run(lambda proc: None, comm=comm),
    }

    def main(bsp: pybsp.BSP) -> None:
        bsp.sync()
        if bsp.pid == 1:
            greenlet.greenlet(inner[name]).switch()  # a program may have greenlets of its own

    expected = f"{name.split()[0]}: a run is going on in this process, of which this is a virtual processor"
    with pytest.raises(pybsp.UsageError, match=expected):
        pybsp.simulate(main, p=2)
    assert pybsp.simulate(lambda bsp: pybsp.simulate(lambda inner: inner.p, p=3).results, p=1).results == [[3, 3, 3]]


LOOKS: dict[str, tuple[Any, bool]] = {  # at what came by a queue, and whether that finds out that nothing is there
    "item": (lambda values: values[0], True),
    "largest": (lambda values: values.max(), True),
    "largest of a list": (lambda values: max(values.tolist()), True),
    "first": (lambda values: next(iter(values)), True),
    "by name": (lambda values: dict(enumerate(values))[0], True),
    "several": (lambda values: [a + b for a, b in [values.tolist()]], True),
    "shapes": (lambda values: values + np.ones(2), True),
    "other shapes": (lambda values: np.ones(3) + np.ones(2), False),
    "text": (lambda values: int("x"), False),
    "division": (lambda values: 1 // 0, False),
}


@pytest.mark.fast
@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("look", LOOKS)
def test_an_error_about_nothing_after_a_forgotten_sync_says_what_is_pending(p: int, look: str) -> None:
    act, about_nothing = LOOKS[look]

    def main(bsp: pybsp.BSP, send: bool) -> Any:
        q = bsp.queue()
        if send:
            q.send(0, 1.0)
            bsp.send(0, 1.0)
        return act(q.values)

    hint = "; if it is about what was sent in it (bsp.send, queue.send): that has not arrived; call bsp.sync() first)"
    for send in (False, True):
        with pytest.raises((LookupError, ValueError, ArithmeticError, StopIteration)) as caught:
            pybsp.simulate(main, send, p=p)
        notes = getattr(caught.value, "__notes__", [outcome(caught.value).place])
        assert "".join(notes).endswith(hint) == (send and about_nothing)


@pytest.mark.parametrize("p", [1, 2])
def test_an_error_of_writing_to_what_has_arrived_says_what_may_be_written_to(p: int) -> None:
    def main(bsp: pybsp.BSP, copied: bool) -> Any:
        bsp.send(bsp.pid, np.zeros(3))
        bsp.sync()
        values = bsp.inbox[0].payload
        values = values.copy() if copied else values
        values += 1
        return values.tolist()

    assert pybsp.simulate(main, True, p=p).results == [[1.0] * 3] * p
    with pytest.raises(ValueError, match="read-only") as caught:
        pybsp.simulate(main, False, p=p)
    notes = getattr(caught.value, "__notes__", [outcome(caught.value).place])
    hint = "; if it is about an array that has arrived: that is read-only; values.copy() may be written to)"
    assert "".join(notes).endswith(hint)


class SpeechlessError(ValueError):
    def __str__(self) -> str:
        raise RuntimeError


def test_an_error_that_cannot_say_what_it_is_is_raised_as_it_is() -> None:
    def main(bsp: pybsp.BSP) -> None:
        bsp.send(0, 1)
        raise SpeechlessError

    with pytest.raises(SpeechlessError):
        pybsp.simulate(main, p=2)


def test_two_simulations_are_equal_in_results_ledger_and_time() -> None:
    def main(bsp: pybsp.BSP) -> Any:
        random = np.random.default_rng(bsp.pid)
        q = bsp.queue(np.int64)
        for _ in range(5):
            bsp.work(float(random.integers(1000)))
            q.send(random.integers(0, bsp.p, 30), random.integers(0, 99, 30))
            bsp.send(int(random.integers(bsp.p)), "x" * int(random.integers(99)))
            bsp.sync()
        return q.values.tolist(), [(m.source, m.payload) for m in bsp.inbox], bsp.time()

    first, second = (pybsp.simulate(main, p=16) for _ in range(2))
    assert first.results == second.results
    assert first.time == second.time > 0
    assert counted(first.ledger) == counted(second.ledger)


def test_virtual_time_is_w_over_r_plus_gh_plus_l() -> None:
    machine = pybsp.BSPMachine(p=3, g=0.5, l=100.0, r=4.0)

    def main(bsp: pybsp.BSP) -> Any:
        times = [bsp.time()]
        bsp.work(8.0 * bsp.pid)  # at most 16 flop: 4 s
        times.append(bsp.time())
        bsp.send(0, np.zeros(10))  # h = 20: 10 s
        bsp.sync()
        times.append(bsp.time())
        bsp.sync()
        bsp.work(40)  # after the last sync
        return [*times, bsp.time()]

    done = pybsp.simulate(main, machine=machine)  # p is the machine's
    assert done.results == [[0.0, 2.0 * pid, 114.0, 224.0] for pid in range(3)]
    assert [r.predicted for r in done.ledger] == [114.0, 100.0]
    assert [r.measured for r in done.ledger] == [114.0, 100.0]
    assert done.ledger.predicted == done.ledger.measured == 214.0


def test_virtual_time_of_gets_and_of_messages() -> None:
    machine = pybsp.BSPMachine(p=2, g=1.0, l=10.0, r=1.0, o_msg=1000.0)

    def main(bsp: pybsp.BSP) -> float:
        x = bsp.array(8)
        bsp.sync()
        if bsp.pid == 0:
            x.get(1)  # 8 words from processor 1
            bsp.send(1, 5)  # a word and a message to it
        bsp.sync()
        return bsp.time()

    done = pybsp.simulate(main, machine=machine)
    # Processor 0 receives 8 words in a message and sends 1 in another.
    assert (done.ledger[1].h, done.ledger[1].messages, done.ledger[1].M) == (8, 1, 9)
    assert done.results == [10.0 + 10.0 + 8.0 + 1000.0] * 2


def test_virtual_time_of_queues() -> None:
    for machine in (
        pybsp.BSPMachine(p=3, g=1.0, l=10.0, r=1.0, o_msg=1000.0, o_item=0.5),
        pybsp.EBSPMachine(p=3, g1=0.0, g2=1.0, s=10.0, r=1.0, o_msg=1000.0, o_item=0.5),
    ):

        def main(bsp: pybsp.BSP) -> float:
            q = bsp.queue(np.int64)
            q.send(np.zeros(bsp.pid * 100, int), 7)  # 100 and 200 items to processor 0
            bsp.sync()
            return bsp.time()

        done = pybsp.simulate(main, machine=machine)
        (record,) = done.ledger
        assert (record.h, record.messages, record.items, record.M) == (300, 2, 300, 300)
        assert done.results == [10.0 + 300.0 + 2 * 1000.0 + 0.5 * 300] * 3
        assert record.predicted == record.measured == done.time


def test_parts_run_beside_each_other_in_virtual_time() -> None:
    machine = pybsp.BSPMachine(p=4, g=1.0, l=10.0, r=1.0)

    def main(bsp: pybsp.BSP) -> float:
        with bsp.split(bsp.pid % 2) as part:  # 10
            for _ in range(3 if bsp.pid % 2 else 1):
                part.work(5)
                part.sync()  # 15 each: 15 in one part, 45 in the other
        bsp.sync()  # 10 after the slower of them
        return bsp.time()

    done = pybsp.simulate(main, machine=machine)
    assert done.results == [65.0] * 4


def test_the_original_exception_of_the_lowest_failing_processor_is_raised() -> None:
    original = {pid: LookupError(f"of {pid}") for pid in range(4)}

    def main(bsp: pybsp.BSP) -> None:
        bsp.sync()
        if bsp.pid in (3, 2):
            raise original[bsp.pid]
        bsp.sync()

    with pytest.raises(LookupError) as caught:
        pybsp.simulate(main, p=4)
    assert caught.value is original[2]
    assert caught.traceback[-1].path == Path(__file__)  # a debugger stops where it was raised
    places = getattr(caught.value, "__notes__", [outcome(caught.value).place])
    assert places == ["(on virtual processor 2 of 4, in superstep 1)"]


@pytest.mark.parametrize("p", [1, 2])
def test_the_place_of_an_exception_is_noted_where_there_are_several_processors(p: int) -> None:
    def main(bsp: pybsp.BSP) -> None:
        raise LookupError

    with pytest.raises(LookupError) as caught:
        pybsp.simulate(main, p=p)
    place = f"(on virtual processor 0 of {p}, in superstep 0)" if p > 1 else ""
    assert "".join(getattr(caught.value, "__notes__", [outcome(caught.value).place])) == place


def test_a_traceback_ends_with_the_place_of_an_exception_that_nobody_catches(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        pybsp.simulate(lambda bsp: 1 / (bsp.pid - 1), p=3)
    sys.excepthook(caught.type, caught.value, caught.tb)
    assert capsys.readouterr().err.endswith("division by zero\n(on virtual processor 1 of 3, in superstep 0)\n")


def test_processors_that_do_different_things_raise_a_sync_error() -> None:
    def main(bsp: pybsp.BSP) -> None:
        if bsp.pid == 2:
            bsp.sync()

    who = r"processors 0-1, 3 ended in superstep 0, at .*test_virtual.py:\d+; processor 2 called bsp.sync\(\)"
    with pytest.raises(pybsp.SyncError, match=who) as caught:
        pybsp.simulate(main, p=4)
    assert "test_virtual.py:" in str(caught.value)


@pytest.mark.parametrize("how", ["sync", "collective", "split"])
def test_a_superstep_that_a_thread_of_the_program_ends_is_an_error(how: str) -> None:
    """A greenlet goes on in no other thread; on ranks, where processors are processes, any may."""

    def end(bsp: pybsp.BSP) -> None:
        if how == "sync":
            bsp.sync()
        elif how == "collective":
            collectives.allreduce(bsp, 1, np.add)
        else:
            bsp.split(0)

    def main(bsp: pybsp.BSP) -> None:
        with ThreadPoolExecutor(1) as threads:
            threads.submit(end, bsp).result()

    expected = "pybsp.simulate: expected supersteps to end in the thread that the program runs in, got the end of one"
    with pytest.raises(pybsp.UsageError, match=expected):
        pybsp.simulate(main, p=2)


def test_a_simulation_within_a_simulation() -> None:
    def main(bsp: pybsp.BSP) -> Any:
        bsp.sync()
        inner = pybsp.simulate(lambda part: part.pid * 10, p=bsp.pid + 1).results
        bsp.sync()
        return inner

    assert pybsp.simulate(main, p=3).results == [[0], [0, 10], [0, 10, 20]]


def test_p_may_be_a_number_of_numpy() -> None:
    assert pybsp.simulate(lambda bsp: type(bsp.p), p=np.int16(3)).results == [int] * 3


@pytest.mark.fast
@pytest.mark.parametrize("p", [0, -1, 1.5, True, "4"])
def test_a_p_that_is_none_is_an_error(p: Any) -> None:
    with pytest.raises(pybsp.UsageError, match="argument p: expected a whole number from 1 to 2147483647, got "):
        pybsp.simulate(lambda bsp: None, p=p)


def test_more_processors_than_there_is_memory_for_are_an_error() -> None:
    expected = r"argument p: expected at most \d+ virtual processors here, as each takes 64 KiB of .*, got 2000000000$"
    with pytest.raises(pybsp.UsageError, match=expected):
        pybsp.simulate(lambda bsp: None, p=2_000_000_000)


HUGE = 10**5000  # Python writes no number of so many digits


@pytest.mark.fast
@pytest.mark.parametrize(
    ("operation", "of"),
    [
        ("bsp.send", lambda bsp: bsp.send(HUGE, "text")),
        ("bsp.work", lambda bsp: bsp.work(HUGE)),
        ("bsp.label", lambda bsp: bsp.label(HUGE)),
        ("bsp.room", lambda bsp: bsp.room(1, HUGE)),
        ("bsp.inbox", lambda bsp: bsp.inbox[HUGE]),
        ("bsp.group", lambda bsp: bsp.group([HUGE])),
        ("bsp.grid", lambda bsp: bsp.grid(HUGE, HUGE)),
        ("array.put", lambda bsp: _array(bsp).put(1, 0.0, at=HUGE)),
        ("array.put", lambda bsp: _array(bsp).put(1, 0.0, at=slice(HUGE))),
        ("queue.send", lambda bsp: bsp.queue(np.int64).send(1, HUGE)),
        ("layout.owner", lambda _: pybsp.layouts.Block(8, 2).owner(HUGE)),
        ("BSPMachine", lambda _: pybsp.BSPMachine(p=2, g=HUGE, l=1, r=1)),
        ("pybsp.simulate", lambda _: pybsp.simulate(len, p=HUGE)),
        ("pybsp.simulate", lambda _: pybsp.simulate(len, p=1, timeout=HUGE)),
        ("hypercube", lambda _: pybsp.routing.networks.Hypercube(HUGE)),
        ("router", lambda _: pybsp.simulate(len, p=1, router=HUGE)),  # type: ignore[arg-type]
    ],
)
def test_a_number_of_more_digits_than_python_writes_is_refused_by_name(
    operation: str, of: Callable[[pybsp.BSP], Any]
) -> None:
    with pytest.raises(pybsp.BSPError, match=rf"^{operation}.*<not shown: Exceeds the limit \(4300"):
        pybsp.simulate(of, p=2)


def _array(bsp: pybsp.BSP) -> pybsp.Array:
    array = bsp.array(4)
    bsp.sync()
    return array


def test_neither_p_nor_machine_is_an_error() -> None:
    with pytest.raises(
        pybsp.UsageError, match="expected p=, the number of processors, or a network of so many, or machine="
    ):
        pybsp.simulate(lambda bsp: None)


def test_what_may_have_been_meant_for_p_is_named() -> None:
    with pytest.raises(pybsp.UsageError, match=r"or machine=, got 4, which is for the program; write p=4$"):
        pybsp.simulate(lambda bsp, n: None, 4)
    with pytest.raises(pybsp.UsageError, match=r"or machine=, got n=4, which is for the program; write p=4$"):
        pybsp.simulate(lambda bsp, n: None, n=4)


def test_a_program_that_takes_no_machine_is_an_error_that_says_so() -> None:
    @wraps(lambda: 1)
    def handing_on(bsp: pybsp.BSP) -> int:
        return bsp.p

    assert pybsp.simulate(handing_on, p=2).results == [2, 2]
    for program in (lambda: 1, lambda *, n=1: n):
        with pytest.raises(
            pybsp.UsageError, match=r"BSP machine, which it gets as its first argument, got .*, which takes n"
        ):
            pybsp.simulate(program, p=2)
    with pytest.raises(pybsp.UsageError, match="LogP processor, which it gets as its first argument"):
        pybsp.logp.simulate(lambda: 1, p=2)
    assert pybsp.simulate(lambda *machine: len(machine), p=2).results == [1, 1]


def test_work_is_measured_where_it_is_asked_for() -> None:
    def main(bsp: pybsp.BSP) -> int:
        total = sum(range(200_000))
        bsp.sync()
        return total

    plain, measured = pybsp.simulate(main, p=2), pybsp.simulate(main, p=2, measure=True)
    assert plain.ledger[0].seconds == 0
    assert measured.ledger[0].seconds > 0
    assert measured.time > plain.time


@pytest.mark.whole
def test_simulating_imports_no_mpi(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, pybsp\n"
        "def main(bsp):\n"
        "    bsp.send(0, bsp.pid)\n"
        "    bsp.sync()\n"
        "    return [m.payload for m in bsp.inbox]\n"
        "print(pybsp.simulate(main, p=3).results[0], 'mpi4py.MPI' in sys.modules)\n"
    )
    ended = run([sys.executable, str(program)])
    assert (ended.code, ended.out, ended.err) == (0, "[0, 1, 2] False\n", "")


@pytest.mark.whole
def test_pybsp_simulate_executes_the_file_once_and_run_returns_the_result_of_processor_0(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, pybsp\n"
        "print('executed', __name__, sys.argv[1:])\n"
        "def main(bsp, add):\n"
        "    bsp.send(0, bsp.pid)\n"
        "    bsp.sync()\n"
        "    return sum(m.payload for m in bsp.inbox) + add\n"
        "print(pybsp.run(main, 100), pybsp.run(main, 200), 'mpi4py.MPI' in sys.modules)\n"
    )
    ended = run([sys.executable, "-m", "pybsp", "simulate", "-p", "5", str(program), "a", "-b"])
    assert (ended.code, ended.out, ended.err) == (0, "executed __main__ ['a', '-b']\n110 210 False\n", "")


@pytest.mark.whole
def test_a_debugger_stops_inside_a_processor(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import pybsp\n"
        "def main(bsp):\n"
        "    bsp.sync()\n"
        "    if bsp.pid == 1: breakpoint()\n"
        "    bsp.sync()\n"
        "    return bsp.pid\n"
        "print(pybsp.simulate(main, p=3).results)\n"
    )
    commands = tmp_path / "commands"
    commands.write_text("p 'here', bsp.pid\nc\n")
    ended = run(["sh", "-c", f"{sys.executable} {program} < {commands}"])
    assert ended.code == 0, ended.err
    assert "('here', 1)" in ended.out
    assert ended.out.endswith("[0, 1, 2]\n")


def test_what_a_processor_waits_for_a_core_is_no_work_of_its(monkeypatch: pytest.MonkeyPatch) -> None:
    now = waited = 0.0

    def compute(seconds: float, waiting: float) -> None:
        nonlocal now, waited
        now, waited = now + seconds + waiting, waited + waiting

    def main(bsp: pybsp.BSP) -> None:
        compute(1, 100)
        bsp.sync()
        compute(2, 100 * bsp.pid)
        bsp.sync()
        compute(3, 100)
        assert bsp.time() == pytest.approx(6)
        with bsp.split(0) as part:
            compute(4, 100)
            part.sync()
        bsp.sync()
        compute(5, 100)

    monkeypatch.setattr(delays, "delayed", lambda: waited)
    for module in account, part, superstep:
        monkeypatch.setattr(module, "clock", lambda: now)
    machine = pybsp.BSPMachine(p=2, g=0.0, l=0.0, r=1.0)
    ledger = pybsp.simulate(main, machine=machine, measure=True).ledger
    assert [record.seconds for record in ledger] == pytest.approx([1, 2, 3, 4])
    assert ledger.after == pytest.approx((5, 5))


@pytest.mark.skipif(not Path("/proc/thread-self/schedstat").exists(), reason="the system does not tell")
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="processes cannot be bound to a core")
def test_a_thread_knows_how_long_others_had_its_core() -> None:
    core = min(os.sched_getaffinity(0))
    other = subprocess.Popen([sys.executable, "-c", f"import os\nos.sched_setaffinity(0, [{core}])\nwhile True: pass"])
    found: list[float] = []

    def waits() -> None:
        os.sched_setaffinity(0, [core])  # of this thread alone
        before = delays.delayed()
        while delays.delayed() - before < 0.01:
            pass
        found.append(delays.delayed() - before)

    thread = threading.Thread(target=waits, daemon=True)
    thread.start()
    thread.join(30)
    other.kill()
    other.wait()
    assert found
    assert found[0] >= 0.01


@pytest.mark.whole
def test_measured_work_is_that_of_one_processor_also_around_parts_and_ledgers() -> None:
    def burn() -> None:
        time.sleep(0.03)

    def in_a_part(bsp: pybsp.BSP) -> None:
        with bsp.split(0):
            burn()
        bsp.sync()

    def before_the_ledger(bsp: pybsp.BSP) -> None:
        burn()
        assert len(bsp.ledger) == 0
        bsp.sync()

    for main in (in_a_part, before_the_ledger):
        seconds = [pybsp.simulate(main, p=8, measure=True).time for _ in range(5)]
        # All eight together: 0.24. What a thread waits for a core, and is taken off, another clock tells.
        assert 0.025 <= min(seconds) < 0.2


def test_a_processor_that_exits_alone_is_no_good_end() -> None:
    def main(bsp: pybsp.BSP) -> None:
        if bsp.pid == 1:
            sys.exit(0)
        bsp.sync()

    with pytest.raises(pybsp.ProcessorError, match=r"processor 1 called sys.exit in superstep 0"):
        pybsp.simulate(main, p=3)


@pytest.mark.whole
def test_registering_does_not_take_time_by_the_square_of_p() -> None:
    def main(bsp: pybsp.BSP) -> int:
        x = bsp.array(1)
        bsp.sync()
        return len(x.shapes)

    def seconds(p: int) -> float:
        start = time.process_time()
        pybsp.simulate(main, p=p)
        return time.process_time() - start

    seconds(64)
    # 15 times as much; where it was by the square, 46 times. Beside other work, not at once.
    assert any(seconds(4096) < 26 * seconds(512) for _ in range(8))


def test_what_is_raised_where_all_meet_is_raised_on_all() -> None:
    raised = []

    def act(brought: Sequence[Any]) -> Sequence[Any]:
        raise ValueError(f"{brought}")

    def main(bsp: pybsp.BSP) -> None:
        with pytest.raises(ValueError, match=r"\[0, 1, 2\]"):
            bsp._transport.together(bsp.pid, act)  # type: ignore[attr-defined]
        raised.append(bsp.pid)

    pybsp.simulate(main, p=3)
    assert sorted(raised) == [0, 1, 2]


def test_what_all_make_alike_is_made_once_and_its_time_counts_on_each() -> None:
    made: list[int] = []

    def slow() -> int:
        time.sleep(0.05)
        made.append(7)
        return 7

    def steps(bsp: pybsp.BSP) -> Any:
        stream = bsp.stream("alike")
        yield
        found = stream.alike(slow)
        yield
        return found, stream.alike(slow)

    done = pybsp.simulate(lambda bsp: bsp.carry_out("alike", steps(bsp)), p=20, measure=True)
    assert done.results == [(7, 7)] * 20
    assert made == [7, 7]  # once in each superstep
    assert done.ledger[1].seconds_mean >= 0.05


@pytest.mark.parametrize("label", ["a\x1b[31m", "a\nb"])
def test_labels_in_errors_are_without_control_characters(label: str) -> None:
    def fails(bsp: pybsp.BSP) -> None:
        with bsp.superstep(label):
            bsp.send(bsp.p, 1)

    def differ(bsp: pybsp.BSP) -> None:
        with bsp.superstep(label * (1 + bsp.pid)):
            pass

    for main in fails, differ:
        with pytest.raises(pybsp.BSPError) as raised:
            pybsp.simulate(main, p=2, checked=True)
        text = "".join([str(raised.value), *getattr(raised.value, "__notes__", ())])
        assert harmless(label) in text or (main is fails and sys.version_info < (3, 11))  # whose errors take no notes
        assert label not in text


def test_what_is_to_be_said_of_each_of_many_runs_is_said_once(capfd: pytest.CaptureFixture[str]) -> None:
    machine = pybsp.BSPMachine(p=7, g=1e-8, l=1e-5, r=1e9)
    for _ in range(3):
        pybsp.simulate(lambda bsp: None, p=2, machine=machine)
    said = "the argument machine: p: expected 2, as this run has, got 7: its predictions are for another machine\n"
    assert capfd.readouterr().err.count(said) == 1
