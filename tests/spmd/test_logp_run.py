"""LogP programs on MPI ranks, with every way to keep the capacity; in a plain pytest on the simulated machine."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

import pybsp
from pybsp import logp
from pybsp.logp.departures import MOST, Departures
from pybsp.logp.processor import Program
from pybsp.logp.ranks import PATIENCE, RankProcessor
from tests.conftest import gathered, under_mpi
from tests.tiers import SIZES, Way

from .programs import caught, plain

MODES = (("global", False), ("window", False), ("per-pair", False), (None, False), ("global", True))


class LogP(Way):
    """Runs a LogP program on p processors, wherever this session runs them."""

    def __init__(self, p: int, mpi: bool, variant: int = 0) -> None:
        self.p, self.mpi = p, mpi
        self.capacity: str | None
        self.capacity, self.pace = MODES[variant]
        self.variant, self.variants = variant, len(MODES) if mpi else 1
        self.id = f"{self.capacity}{'-paced' * self.pace}" if mpi else f"p{p}"

    def __call__(self, program: Program, machine: pybsp.LogPMachine | None = None) -> list[Any]:
        """The results of all processors, by pid (on MPI: on every rank)."""
        if not self.mpi:
            return logp.simulate(program, self.p, machine).results
        outcomes = self._on_ranks(program, machine)
        for _, error in outcomes:
            if error is not None and not isinstance(error, pybsp.ProcessorError):
                raise error
        return [result for result, _ in outcomes]

    def errors(self, program: Program) -> list[BaseException | None]:
        """What each processor raised, by pid; the simulator raises it once for all."""
        if self.mpi:
            return [error for _, error in self._on_ranks(program, None)]
        try:
            logp.simulate(program, self.p)
        except Exception as error:
            return [error] * self.p
        return [None] * self.p

    def _on_ranks(self, program: Program, machine: pybsp.LogPMachine | None) -> list[tuple[Any, Any]]:
        outcome: tuple[Any, Any] = (None, None)
        try:
            outcome = (logp.run(program, machine=machine, capacity=self.capacity, pace=self.pace), None)
        except Exception as error:
            outcome = (None, error)
        return gathered(outcome)


class Ranks(Way):
    """The ranks of this job, for tests of what only they do."""

    mpi, variant, variants, id = True, 0, 1, "mpi"
    allgather = staticmethod(gathered)

    def __init__(self) -> None:
        from mpi4py import MPI

        self.comm: Any = MPI.COMM_WORLD
        self.rank, self.size = self.comm.rank, self.comm.size
        self.p = self.size


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    mpi = under_mpi(metafunc.config)
    if "ranks" in metafunc.fixturenames:  # a test of what only MPI ranks do
        if mpi:
            metafunc.parametrize("ranks", [pytest.param(Ranks(), id=Ranks.id, marks=pytest.mark.mpi)])
        else:
            metafunc.parametrize("ranks", [pytest.param(None, marks=pytest.mark.skip("on MPI ranks only"))])
    elif "machine" in metafunc.fixturenames:
        cases = [LogP(p, False) for p in SIZES]
        if mpi:
            from mpi4py import MPI

            cases = [LogP(MPI.COMM_WORLD.size, True, variant) for variant in range(len(MODES))]
        marks = [pytest.mark.mpi] if mpi else []
        metafunc.parametrize("machine", [pytest.param(case, id=case.id, marks=marks) for case in cases])


def others(proc: logp.Processor) -> list[int]:
    return [pid for pid in range(proc.p) if pid != proc.pid]


# -- messages ---------------------------------------------------------------------------------------------------------


def test_a_processor_says_which_it_is(machine: LogP) -> None:
    for pid, shown in enumerate(machine(repr)):
        assert shown.removesuffix(">").removesuffix(", step 0") == f"<processor {pid} of {machine.p}"


def test_arguments_behind_the_program_are_its_own(ranks: Ranks) -> None:
    def program(proc: logp.Processor, first: int, *, second: int) -> tuple[int, int, int]:
        return proc.pid, first, second

    assert logp.run(program, 1, second=2) == (ranks.rank, 1, 2)


def test_a_run_that_has_ended_leaves_nothing_that_a_later_one_would_give_up(ranks: Ranks) -> None:
    def main(bsp: pybsp.BSP, parts: int) -> Any:
        for _ in range(parts):
            with bsp.split(0) as part:
                part.sync()
        return bsp._superstep.transport._on.revocation  # type: ignore[attr-defined]

    if (revocation := pybsp.run(main, 0)) is not None:
        before = len(revocation.members)
        pybsp.run(main, 1)
        logp.run(lambda proc: None)
        assert len(revocation.members) == before


def test_a_token_goes_around(machine: LogP) -> None:
    def program(proc: logp.Processor) -> Any:
        if proc.p == 1:
            return 0
        right = (proc.pid + 1) % proc.p
        if proc.pid == 0:
            proc.send(right, 1)
            return proc.recv()
        source, hops = proc.recv()
        proc.send(right, hops + 1)
        return source, hops

    p = machine.p
    assert machine(program) == ([0] if p == 1 else [(p - 1, p), *((pid - 1, pid) for pid in range(1, p))])


PAYLOADS: list[Any] = [
    *(
        3,
        -(1 << 63),
        1 << 63,
        -(1 << 63) - 1,
        2.5,
        float("inf"),
        True,
        None,
        1j,
        "text",
        "x" * 2000,
        (),
        (1, [2, {"a": 3}]),
    ),
    *(
        b"",
        b"bytes",
        bytes(range(256)) * 4,
        bytes(1008),
        bytes(1009),
        bytearray(b"abc"),
        bytearray(5000),
        memoryview(b"view"),
    ),
    *(np.float64(1.5), np.int8(-3), np.datetime64("2026-01-01"), np.str_("s"), np.bool_(True)),
    *(np.arange(5), np.zeros((0, 3)), np.array(7.5), np.arange(12).reshape(3, 4).T, np.arange(20)[::3]),
    *(
        np.arange(93.0),
        np.arange(94.0),
        np.arange(100_000),
        np.array(["a", "bcd"]),
        np.array([b"x"]),
        np.ones(3, ">i4"),
    ),
    *(np.zeros(3, [("a", "i4"), ("b", "f8")]), np.array([1, None, "x"], object), np.array([], "datetime64[s]")),
    *(
        {"array": np.arange(1000), "small": np.ones(2)},
        [np.arange(3)],
        (0, np.arange(6)[::2]),
        (0, np.zeros(2, "M8[s]")),
        (0, np.arange(6), (1, np.arange(50_000))),
        np.void(b"raw"),
        np.ma.masked_array([1, 2], np.array([False, True])),
    ),
]


def test_payloads_arrive_as_in_bsp(machine: LogP) -> None:
    def program(proc: logp.Processor) -> Any:
        if proc.pid == 0 and proc.p > 1:
            for payload in PAYLOADS:
                proc.send(proc.p - 1, payload)
        elif proc.pid == proc.p - 1 and proc.p > 1:
            received = [proc.recv() for _ in PAYLOADS]
            assert all(m.source == 0 for m in received)
            arrays = [m.payload for m in received if type(m.payload) is np.ndarray and not m.payload.dtype.hasobject]
            assert not any(array.flags.writeable for array in arrays)
            return [described(m.payload) for m in received]
        return None

    def in_bsp(bsp: pybsp.BSP) -> Any:
        for payload in PAYLOADS:
            bsp.send(0, payload)
        bsp.sync()
        return [described(m.payload) for m in bsp.inbox]

    def described(payload: Any) -> Any:
        parts = payload if isinstance(payload, tuple) else [payload]
        return plain(payload), [part.flags.writeable for part in parts if isinstance(part, np.ndarray)]

    if machine.p > 1:
        (expected,) = pybsp.simulate(in_bsp, p=1).results
        assert machine(program)[-1] == expected


def test_a_payload_is_copied_at_the_call(machine: LogP) -> None:
    def program(proc: logp.Processor) -> Any:
        payloads: list[Any] = [np.arange(4), np.zeros(100_000), bytearray(b"abc"), [1, [2]], {"k": np.zeros(3)}]
        if proc.pid == 0:
            for dest in others(proc):
                payloads = [np.arange(4), np.zeros(100_000), bytearray(b"abc"), [1, [2]], {"k": np.zeros(3)}]
                for payload in payloads:
                    proc.send(dest, payload)
                payloads[0][:], payloads[1][:], payloads[2][0], payloads[4]["k"][:] = 9, 9, 0, 9
                payloads[3][1].append(3)
            return True
        return [plain(proc.recv().payload) for _ in payloads] == [
            plain(memoryview(p) if isinstance(p, bytearray) else p) for p in payloads
        ]

    assert machine(program) == [True] * machine.p


def test_messages_of_all_lengths_between_all(machine: LogP) -> None:
    """Each processor sends to each the same messages; on MPI ranks those of one pair stay in order."""
    lengths = [0, 1, 20_000, 2, 50_000, 120, 130, 3, 8191, 4]

    def program(proc: logp.Processor) -> Any:
        for number, length in enumerate(lengths):
            for dest in others(proc):
                proc.send(dest, np.full(length + 1, 10 * proc.pid + number))
        got: dict[int, list[int]] = {pid: [] for pid in others(proc)}
        for _ in range((proc.p - 1) * len(lengths)):
            source, payload = proc.recv()
            number = int(payload[0]) - 10 * source
            assert payload.size == lengths[number] + 1
            assert (payload == payload[0]).all()
            got[source].append(number)
        return list(got.values())

    for received in machine(program):
        for numbers in received:
            assert (numbers if machine.mpi else sorted(numbers)) == list(range(len(lengths)))


def test_nothing_is_lost_where_all_send_to_one(machine: LogP) -> None:
    each = 50

    def program(proc: logp.Processor) -> Any:
        if proc.pid:
            for number in range(each):
                proc.send(0, proc.pid * each + number)
            return None
        return sorted(proc.recv().payload for _ in range(each * (proc.p - 1)))

    p = machine.p
    results = machine(program, pybsp.LogPMachine(p, 4, 1, 2, step=1e-6))
    assert results[0] == list(range(each, each * p))


@pytest.mark.parametrize("seed", range(3))
def test_random_programs(machine: LogP, seed: int) -> None:
    """Everybody sends to anybody, with work and polls in between; all messages arrive once."""
    p = machine.p
    rng = random.Random(seed)
    plan = [
        [rng.choice([d for d in range(p) if d != pid]) for _ in range(rng.randrange(40))] if p > 1 else []
        for pid in range(p)
    ]
    expected = [sum(dests.count(pid) for dests in plan) for pid in range(p)]

    def program(proc: logp.Processor) -> Any:
        own = random.Random(100 * seed + proc.pid)
        got: list[Any] = []
        for number, dest in enumerate(plan[proc.pid]):
            proc.send(dest, (proc.pid, number, np.full(own.choice([1, 10, 1000]), number)))
            action = own.randrange(4)
            if action == 0:
                proc.compute(own.randrange(20))
            elif action == 1:
                got.append(proc.poll())
            elif action == 2:
                got.append(proc.recv(proc.time + own.randrange(10)))
        got = [m for m in got if m is not None]
        while len(got) < expected[proc.pid]:
            got.append(proc.recv())
        assert all((m.payload[2] == m.payload[1]).all() for m in got)
        assert all(m.source == m.payload[0] for m in got)
        return sorted(m.payload[:2] for m in got)

    for pid, received in enumerate(machine(program)):
        assert received == [(s, n) for s in range(p) for n, dest in enumerate(plan[s]) if dest == pid]


def test_poll_finds_a_message_or_none(machine: LogP) -> None:
    def program(proc: logp.Processor) -> Any:
        if proc.p == 1:
            return proc.poll()
        if proc.pid == 0:
            for dest in others(proc):
                assert proc.recv().payload == "go"
                proc.send(dest, "x")
            return None
        assert proc.poll() is None
        # One after the other, so that processor 0 sends to those that have polled.
        proc.send(0, "go")
        polls = 0
        while (message := proc.poll()) is None:
            polls += 1
        return message.payload

    expected = [None, *["x"] * (machine.p - 1)]
    if not machine.mpi or machine.p <= 2:
        assert machine(program)[0] is None
        return

    def in_turn(proc: logp.Processor) -> Any:
        if proc.pid == 0:
            for _ in others(proc):
                proc.send(proc.recv().source, "x")
            return proc.poll()
        assert proc.poll() is None
        proc.send(0, "go")
        while (message := proc.poll()) is None:
            pass
        return message.payload

    assert machine(in_turn) == expected


def test_recv_until_a_time(machine: LogP) -> None:
    def program(proc: logp.Processor) -> Any:
        # One after the other, so that nobody sends while one waits in vain.
        if proc.pid:
            message = proc.recv(until=proc.time + 60_000_000)
            assert message is not None
            assert message.payload == "go"
        end = proc.time + 2000
        first = proc.recv(until=end)
        late = proc.time >= end
        passed = proc.recv(until=0)
        if proc.pid < proc.p - 1:
            proc.send(proc.pid + 1, "go")
        return first, late, passed

    assert machine(program) == [(None, True, None)] * machine.p


# -- usage ------------------------------------------------------------------------------------------------------------


class Stubborn:
    """Cannot be pickled."""

    def __reduce__(self) -> Any:
        raise RuntimeError("not me")


def test_wrong_arguments_are_refused_and_nothing_is_sent(machine: LogP) -> None:
    def program(proc: logp.Processor) -> Any:
        wrong: list[Any] = [proc.pid, proc.p, -1, "0", 1.0]
        errors = [caught(proc.send, dest, 1) for dest in wrong]
        if proc.p > 1:
            dest = others(proc)[0]
            errors += [caught(proc.send, dest, Stubborn()), caught(proc.send, dest, [threading.Lock()])]
        errors += [caught(proc.compute, -1), caught(proc.compute, 1.5), caught(proc.recv, "soon")]
        assert all(error.kind is pybsp.UsageError for error in errors), errors
        assert all("proc.send: argument dest: expected" in error.text for error in errors[:5])
        assert (proc.p == 1) == ("and there is none: p = 1" in errors[0].text)
        return proc.poll()

    assert machine(program) == [None] * machine.p


def test_numpy_integers_are_destinations(machine: LogP) -> None:
    def program(proc: logp.Processor) -> Any:
        if proc.p > 1:
            proc.send(cast(int, np.int64((proc.pid + 1) % proc.p)), 5)
            return proc.recv().payload
        return 5

    assert machine(program) == [5] * machine.p


# -- the end ----------------------------------------------------------------------------------------------------------


def test_all_wait_for_ever(machine: LogP) -> None:
    errors = machine.errors(lambda proc: proc.recv())
    assert all(isinstance(error, pybsp.DeadlockError) for error in errors), errors
    for error in errors:
        assert ("it has no others" if machine.p == 1 else "all processors wait") in str(error)
        assert all(f"{pid} (since time " in str(error) for pid in range(machine.p)), error


def test_one_waits_and_the_others_have_ended(machine: LogP) -> None:
    def program(proc: logp.Processor) -> None:
        if proc.pid == proc.p - 1:
            for _ in others(proc):
                proc.recv()
            proc.recv()
        else:
            proc.compute(10)
            proc.send(proc.p - 1, np.zeros(5000))

    errors = machine.errors(program)
    assert all(isinstance(error, pybsp.DeadlockError) for error in errors), errors
    assert all(f"processor {machine.p - 1} (since time " in str(error) for error in errors), errors


def test_an_error_of_a_deadlock_that_the_program_catches_is_raised_again(machine: LogP) -> None:
    def program(proc: logp.Processor) -> None:
        if proc.pid == 0:
            caught(proc.recv)
            caught(proc.poll)

    if machine.mpi:
        assert all(isinstance(error, pybsp.DeadlockError) for error in machine.errors(program))


def test_messages_that_nobody_receives(machine: LogP) -> None:
    def program(proc: logp.Processor) -> None:
        for dest in others(proc)[:2]:
            proc.send(dest, "x" * 3000)
        if proc.pid == 0 and proc.p > 1:
            proc.recv()

    p = machine.p
    errors = machine.errors(program)
    if p == 1:
        assert errors == [None]
        return
    assert all(isinstance(error, pybsp.UnreceivedError) for error in errors), errors
    sent = [sum(dest in [d for d in range(p) if d != pid][:2] for pid in range(p)) for dest in range(p)]
    sent[0] -= 1
    texts = [f"{number} to processor {pid}" for pid, number in enumerate(sent) if number]
    assert all(text in str(error) for error in errors for text in texts), (texts, errors)


def test_after_each_failure_the_next_run_works(machine: LogP) -> None:
    def fails(proc: logp.Processor, how: str) -> None:
        for dest in others(proc):
            proc.send(dest, np.arange(30_000))
            proc.send(dest, how)
        if proc.pid == proc.p - 1:
            if how == "raise":
                raise ValueError("boom")
            if how == "recv":
                for _ in range(2 * (proc.p - 1)):
                    proc.recv()
        if how == "recv":
            while True:
                proc.recv()

    def works(proc: logp.Processor) -> Any:
        for dest in others(proc):
            proc.send(dest, (proc.pid, np.full(20_000, proc.pid)))
        received = [proc.recv() for _ in others(proc)]
        assert all((m.payload[1] == m.source).all() for m in received)
        return sorted(m.source for m in received)

    for how, kind in (("raise", ValueError), ("recv", pybsp.DeadlockError), ("end", pybsp.UnreceivedError)):
        errors = machine.errors(lambda proc, how=how: fails(proc, how))
        if machine.p > 1 or how != "end":
            assert isinstance(errors[-1], kind), errors
        if how == "raise" and machine.mpi:
            text = f"processor {machine.p - 1} failed: ValueError: boom"
            assert [str(error) for error in errors[:-1]] == [text] * (machine.p - 1)
        assert machine(works) == [[s for s in range(machine.p) if s != pid] for pid in range(machine.p)]


@pytest.mark.parametrize("fails", [False, True])
def test_a_proc_refuses_calls_after_the_end_of_its_run(machine: LogP, fails: bool) -> None:
    ended: list[logp.Processor] = []

    def first(proc: logp.Processor) -> None:
        ended.append(proc)
        if fails:
            raise ValueError("as asked")

    assert (caught(machine, first).kind is not None) == fails

    def program(proc: logp.Processor) -> Any:
        old = next((old for old in ended if old.pid == proc.pid), None)
        if old is None:  # simulated, one that had not begun when another failed
            return None
        calls: list[tuple[Callable[..., Any], Any]] = [(old.compute, (3,)), (old.poll, ()), (old.recv, ())]
        calls += [(old.send, (dest, payload)) for dest in others(proc) for payload in (1, "text", np.arange(30_000))]
        errors = [caught(call, *arguments) for call, arguments in calls]
        assert all(error.kind is pybsp.UsageError and "end" in error.text for error in errors), errors
        return proc.poll()

    assert machine(program) == [None] * machine.p


@pytest.mark.whole
def test_waiting_long_is_no_deadlock(machine: LogP) -> None:
    """Messages come after all have waited for longer than it takes to suspect one, and work."""
    long = 2.5 * PATIENCE

    def program(proc: logp.Processor) -> Any:
        if proc.p == 1:
            return 0
        right, total = (proc.pid + 1) % proc.p, 0
        for lap in range(3):
            if proc.pid == lap % proc.p:
                time.sleep(long)
                proc.send(right, lap)
                total += proc.recv().payload
            else:
                total += proc.recv().payload
                if proc.pid == 1:
                    time.sleep(long)
                proc.send(right, lap)
        return total

    assert machine(program) == [0 if machine.p == 1 else 3] * machine.p


# -- on MPI ranks alone -----------------------------------------------------------------------------------------------


def test_a_program_sees_its_stalls(machine: LogP) -> None:
    def program(proc: logp.Processor) -> Any:
        counted = [(proc.stalls, proc.stalled_seconds)]
        if proc.pid == 0:
            if not proc.timed:
                time.sleep(0.1)  # nothing arrives before it looks
            for _ in range(5 * (proc.p - 1)):
                proc.recv()
        else:
            for k in range(5):
                proc.send(0, k)
        return [*counted, (proc.stalls, proc.stalled_seconds)]

    # One in flight to processor 0, or a few ("window"). A single sender keeps a gap in simulated time, which is as long
    # as the latency here.
    some = machine.p > 1 and machine.capacity is not None if machine.mpi else machine.p > 2
    for _ in range(
        10 if some else 1
    ):  # on ranks, a sender that gets no turn while processor 0 looks away need not stall
        counted = machine(program, pybsp.LogPMachine(machine.p, 4, 1, 4, step=1e-3))
        if any(stalls for _, (stalls, _) in counted):
            break
    assert all(before == (0, 0) for before, _ in counted)
    assert counted[0][1] == (0, 0)
    assert all((stalls > 0) == (seconds > 0) for _, (stalls, seconds) in counted)
    assert any(stalls for _, (stalls, _) in counted) == some


def in_flight(log: list[tuple[float, int]]) -> int:
    """The most at a time, of (moment, +1 or -1)."""
    now = most = 0
    for _, change in sorted(log):
        now += change
        most = max(most, now)
    return most


@pytest.mark.parametrize("capacity", ["global", "window", "per-pair", None])
def test_in_flight_by_the_clock_is_never_above_the_capacity(
    ranks: Ranks, capacity: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All send to one that now and then looks away; processes of one host share a clock."""
    each = 60
    submissions: list[tuple[float, int]] = []
    arrivals: list[tuple[float, int]] = []
    submit, arrive = Departures.submit, RankProcessor._arrive

    def noting_submission(departures: Departures, dest: int, form: int, body: Any) -> None:
        if dest == 0:
            submissions.append((time.perf_counter(), 1))
        submit(departures, dest, form, body)

    def noting_arrival(proc: RankProcessor, source: int, form: int, body: Any) -> None:
        arrivals.append((time.perf_counter(), -1))
        arrive(proc, source, form, body)

    monkeypatch.setattr(Departures, "submit", noting_submission)
    monkeypatch.setattr(RankProcessor, "_arrive", noting_arrival)

    def program(proc: RankProcessor) -> Any:
        if proc.pid:
            for number in range(each):
                proc.send(0, number if number % 3 else np.zeros(2000))
            return proc.stalls, None, proc.credit_seconds
        for number in range(each * (proc.p - 1)):
            if number % 20 == 0:
                time.sleep(3e-3)
            proc.recv()
        return 0, proc.max_in_flight, 0.0

    for C in (1, 3):
        for attempt in range(10):  # who stalls, and how many are on their way at once, depends on who gets a turn when
            submissions.clear()
            arrivals.clear()
            machine, begin = pybsp.LogPMachine(ranks.size, 2 * C, 1, 2), time.perf_counter()
            stalls, credits, granted = logp.run(program, machine=machine, capacity=capacity)
            assert granted < time.perf_counter() - begin
            granted = sum(ranks.allgather(granted))
            # Some credit was free, and had to travel.
            assert (granted > 0) == (capacity in ("global", "window") and ranks.size > 2)
            logs = ranks.allgather(submissions + (arrivals if ranks.rank == 0 else []))
            most = in_flight([entry for log in logs for entry in log])
            stalls = sum(ranks.allgather(stalls))
            p = ranks.size
            if capacity in ("global", "window"):
                limit = C if capacity == "global" else 2 * C + 2  # 2 (L + 2 o) / G
                assert most <= limit
                assert ranks.allgather(credits)[0] in (None if p < 3 else limit, *range(1, limit + 1))
                seen = stalls > 0 or p - 1 <= limit or p == 2
            elif capacity == "per-pair":
                assert most <= C * (p - 1)
                seen = p <= 2 or most > C  # no guarantee over all senders
            else:
                assert stalls == 0
                seen = p == 1 or most > C
            if seen:
                break
            assert attempt < 9


def test_no_wait_lasts_longer_than_until_the_deadline(ranks: Ranks) -> None:
    def program(proc: RankProcessor) -> Any:
        if proc.pid == 1:
            time.sleep(0.3)
            proc.send(0, "late")
        if proc.pid or proc.p == 1:
            return None
        proc.deadline = time.perf_counter() + 0.05
        with pytest.raises(TimeoutError):
            proc.recv()
        early = proc.deadline - time.perf_counter()
        assert proc.recv(until=proc.time) is None  # a time of one's own
        proc.deadline = None
        return early, proc.recv().payload

    found = logp.run(program)
    if found is not None:
        early, payload = found
        assert -0.2 < early <= 0
        assert payload == "late"


def test_without_a_capacity_mpi_holds_few_messages_that_have_not_left(ranks: Ranks) -> None:
    """MPICH takes a time for each of them that grows with their number: 20 s for 20,000."""
    number = 3000

    def program(proc: RankProcessor) -> Any:
        most = 0
        if proc.pid < proc.p - 1:
            for k in range(number):
                proc.send(proc.p - 1, k)
                most = max(most, len(proc._leaving))
            return most
        time.sleep(0.1)  # looks away
        got = [proc.recv() for _ in range(number * (proc.p - 1))]
        for pid in range(proc.p - 1):
            assert [m.payload for m in got if m.source == pid] == list(range(number))
        return most

    assert logp.run(program, capacity=None) <= MOST


def test_paced_submissions_and_acquisitions_keep_the_gap(ranks: Ranks) -> None:
    machine = pybsp.LogPMachine(ranks.size, 40, 3, 10, step=1e-4)
    number = 8

    def program(proc: logp.Processor) -> Any:
        moments = [time.perf_counter()]
        operations: list[Callable[[], Any]] = [lambda: proc.send((proc.pid + 1) % proc.p, 0), proc.recv]
        for operation in operations if proc.p > 1 else []:
            for _ in range(number):
                operation()
            moments.append(time.perf_counter())
        proc.compute(50)
        moments.append(time.perf_counter())
        assert proc.poll() is None
        return np.diff(moments)

    *communicating, computing = logp.run(program, machine=machine, pace=True)
    assert computing >= 50e-4
    # From the beginning of the first overhead to the end of the last.
    assert all(seconds >= ((number - 1) * 10 + 3) * 1e-4 for seconds in communicating)


def test_without_pace_nothing_waits_for_the_clock(ranks: Ranks) -> None:
    def program(proc: logp.Processor) -> Any:
        begin = time.perf_counter()
        for _ in range(100):
            proc.compute(1000)
        assert not proc.timed
        return time.perf_counter() - begin

    assert logp.run(program, machine=pybsp.LogPMachine(ranks.size, 4, 1, 2, step=1.0)) < 50


def test_time_is_counted_in_steps_of_the_machine(ranks: Ranks) -> None:
    def program(proc: logp.Processor) -> Any:
        begin, clock = proc.time, time.perf_counter()
        time.sleep(0.05)
        return proc.time - begin, time.perf_counter() - clock

    steps, seconds = logp.run(program, machine=pybsp.LogPMachine(ranks.size, 4, 1, 2, step=1e-3))
    assert type(steps) is int
    assert 49 <= steps <= 1000 * seconds + 1


def test_arguments_must_be_the_same_on_all_processors(ranks: Ranks) -> None:
    last = ranks.rank == ranks.size - 1
    for arguments, name in (({"capacity": None if last else "global"}, "capacity"), ({"pace": last}, "pace")):
        found = caught(logp.run, lambda proc: None, **arguments)
        if ranks.size > 1:
            assert found.kind is pybsp.UsageError
            assert f"argument {name}: expected the same on all processors" in found.text
    found = caught(logp.run, lambda proc: None, capacity="some" if last else "global")
    assert found.kind is (pybsp.UsageError if last else pybsp.ProcessorError)
    found = caught(logp.run if last else pybsp.run, lambda proc: None)
    if ranks.size > 1:
        assert found.kind is pybsp.SyncError
        assert "called pybsp.logp.run, at" in found.text
        assert "called pybsp.run, at" in found.text


def test_processor_0s_machine_is_used_by_all(ranks: Ranks, capfd: pytest.CaptureFixture[str]) -> None:
    machine = pybsp.LogPMachine(1000, 5, 1, 2, step=0.1 * (1 + ranks.rank))
    used = ranks.allgather(logp.run(lambda proc: proc.machine, machine=machine))
    assert used == [pybsp.LogPMachine(ranks.size, 5, 1, 2, step=0.1)] * ranks.size
    logp.run(lambda proc: None, machine=pybsp.LogPMachine(ranks.size, 5, 3, 1))
    logp.run(lambda proc: None, machine=pybsp.LogPMachine(ranks.size, 5, 1, 2))
    printed = capfd.readouterr().err.splitlines()
    assert len(printed) == (3 if ranks.rank == 0 else 0), printed
    if printed:
        assert "is for p = 1000" in printed[0]
        assert "G = 1 is below 2" in printed[1]


def test_a_run_within_a_run_is_refused(ranks: Ranks) -> None:
    def program(proc: logp.Processor) -> Any:
        return caught(logp.run, program).text, caught(pybsp.run, program).text

    texts = logp.run(program)
    assert all("a run is going on" in text for text in texts)
    assert "a run is going on" in pybsp.run(lambda bsp: caught(logp.run, program).text)


def test_programs_on_disjoint_subsets_do_not_disturb_one_another(ranks: Ranks) -> None:
    """The ranks below the middle stop in theirs until those above have ended several, one of them in a deadlock."""
    if ranks.size < 2:
        return
    middle = ranks.size // 2
    low = ranks.rank < middle
    half = ranks.comm.Split(low)

    def program(proc: logp.Processor, stops: bool) -> Any:
        got = []
        for number in range(20):
            for dest in others(proc):
                proc.send(dest, (low, number))
            if number == 10 and stops:
                while not ranks.comm.Iprobe(source=middle + proc.pid, tag=1):
                    time.sleep(1e-3)
                ranks.comm.recv(source=middle + proc.pid, tag=1)
            got += [proc.recv().payload for _ in others(proc)]
        return got

    for capacity in ("global", "per-pair"):
        got = logp.run(program, low and capacity == "global", comm=half, capacity=capacity)
        assert sorted(got) == [(low, number) for number in range(20) for _ in range(half.size - 1)]
    found = caught(logp.run, lambda proc: None if low else proc.recv(), comm=half)
    assert found.kind is (None if low else pybsp.DeadlockError)
    if middle <= ranks.rank < 2 * middle:
        ranks.comm.send(None, ranks.rank - middle, tag=1)
    assert logp.run(lambda proc: proc.p) == ranks.size
    half.Free()
