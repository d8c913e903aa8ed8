"""Timelines of LogP programs: what processors' time goes to, and the same operations again on another machine."""

from __future__ import annotations

import dataclasses
import re
from array import array
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pybsp import LogPMachine, logp
from pybsp.compiled import stamps as compiled
from pybsp.errors import UsageError
from pybsp.logp import Goal, Processor, Timeline, predict, simulate
from pybsp.logp.operations import RECV, SEND
from pybsp.logp.ranks import RankProcessor
from pybsp.logp.recording import Clocks, PlainStamps, TracedProcessor, rows_of_each, stamps
from pybsp.logp.timeline import PARTS, paired
from pybsp.logp.wire import encode, words_of
from pybsp.logp.words import words
from pybsp.transport.memory import BufferPool

from .random_programs import wanderer
from .test_goal import MACHINES

COLUMNS = [field.name for field in dataclasses.fields(Timeline) if field.name not in ("machine", "paced")]


def to_first(proc: Processor) -> None:
    """All send to processor 0, long messages among them, and compute before and after."""
    proc.compute(3 * proc.pid)
    for number in range(4 * (proc.p - 1)):
        if not proc.pid:
            proc.recv()
            proc.compute(1)
        elif number < 4:
            proc.send(0, np.zeros(1 + number))
    proc.compute(5)


@pytest.mark.parametrize("first", [None, 0, 70])
@pytest.mark.parametrize("machine", MACHINES)
def test_what_a_timeline_says_of_a_simulation_is_what_that_counted(machine: LogPMachine, first: int | None) -> None:
    starts = np.zeros(machine.p, np.int64) if first is None else first + 9 * np.arange(machine.p)[::-1]
    simulation = simulate(to_first, machine=machine, starts=None if first is None else starts.tolist())
    timeline, step = Timeline.of(simulation), 1e9 * machine.step
    origin = first or 0  # of the axis: when the first one began
    assert timeline.seconds == pytest.approx((simulation.time - origin) * machine.step)
    assert timeline.started == pytest.approx((starts - origin) * step)
    assert timeline.finished == pytest.approx((simulation.finished - origin) * step)
    assert len(timeline) == 8 * (machine.p - 1)
    steps = {part: np.rint(1e9 * seconds / step).astype(int) for part, seconds in timeline.spent().items()}
    assert np.array_equal(sum(steps.values()), simulation.finished - starts)
    assert np.array_equal(steps["stalled"], simulation.stalls)
    # What processor 0 computed while the gap passed is not in a trace.
    assert np.array_equal((steps["computing"] + steps["o"])[1:], simulation.busy[1:])
    assert steps["computing"][0] + steps["o"][0] <= simulation.busy[0]
    assert np.array_equal(steps["o"], machine.o * (timeline.sent + timeline.acquired))
    assert timeline.sent.tolist() == [0, *[4] * (machine.p - 1)]
    assert timeline.acquired.tolist() == [4 * (machine.p - 1), *[0] * (machine.p - 1)]
    found, trace = timeline.messages(), simulation.trace
    for name in ("submission", "acceptance", "delivery", "acquisition"):
        in_order = np.lexsort((trace.submission, trace.source))
        assert np.allclose(getattr(found, name), machine.step * (getattr(trace, name)[in_order] - origin)), name
    assert found.words.tolist() == trace.words[in_order].tolist()


def test_who_receives_before_anything_else_waits_from_its_start_on() -> None:
    def program(proc: Processor) -> None:
        proc.recv() if proc.pid else proc.send(1, 1.0)

    timeline = Timeline.of(simulate(program, machine=LogPMachine(2, 16, 1, 4, step=1e-9), starts=[20, 5]))
    assert (timeline.started.tolist(), timeline.begun.tolist(), timeline.ended.tolist()) == ([15, 0], [15, 0], [16, 33])
    assert (timeline.waiting.tolist(), timeline.computing.tolist()) == ([0, 32], [0, 0])
    again = predict(timeline)
    for name in COLUMNS:
        assert np.array_equal(getattr(again, name), getattr(timeline, name)), name


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("seeds", [range(10), pytest.param(range(10, 150), marks=pytest.mark.whole)])
def test_the_operations_of_a_simulation_again_take_as_long(machine: LogPMachine, seeds: range, tmp_path: Path) -> None:
    for seed in seeds:
        simulation = simulate(wanderer, machine.p, machine, args=(seed, 6, 30))
        timeline = Timeline.of(simulation)
        again = predict(timeline)
        for name in COLUMNS:
            if name not in ("started", "finished"):  # what a program computes at its end is in no trace
                assert np.array_equal(getattr(again, name), getattr(timeline, name)), (seed, name)
        spent = timeline.spent()
        whole = sum(spent.values())
        assert np.allclose(whole, 1e-9 * (timeline.finished - timeline.started))
        assert min(float(spent[part].min()) for part in PARTS) >= 0
        Goal.of(timeline).save(tmp_path / "a.goal")
        assert Goal.load(tmp_path / "a.goal") == Goal.of(timeline)
        # Not always longer: more may be in transit, so that fewer messages stall.
        farther = predict(timeline, dataclasses.replace(machine, L=3 * machine.L)).messages()
        if len(timeline) and machine.G_word is None:  # else words take longer still
            assert np.isclose((farther.delivery - farther.acceptance).max(), 3 * machine.L * machine.step)


def test_steps_shorter_than_a_nanosecond_are_counted() -> None:
    machine = LogPMachine(3, L=12, o=1, G=3, step=0.25e-9)
    for seed in range(20):
        simulation = simulate(wanderer, machine.p, machine, args=(seed, 6, 30))
        timeline = Timeline.of(simulation)
        assert np.array_equal(timeline.finished, np.rint(0.25 * simulation.finished)), seed
        assert timeline.computing_last.min() >= 0, seed
        assert min(float(each.min()) for each in timeline.spent().values()) >= 0, (seed, timeline.spent())
        found, in_order = timeline.messages(), np.lexsort((simulation.trace.submission, simulation.trace.source))
        assert np.allclose(found.acquisition, 1e-9 * np.rint(0.25 * simulation.trace.acquisition[in_order])), seed


def test_shares_of_bins_are_what_is_spent() -> None:
    timeline = Timeline.of(simulate(to_first, machine=MACHINES[0]))
    end = float(timeline.finished.max())
    shares, spent = timeline.shares(7, end), timeline.spent()
    for part in PARTS:
        assert np.allclose(shares[part].sum(axis=1) * end * 1e-9 / 7, spent[part]), part
    assert np.all(np.stack(list(shares.values())).sum(axis=0) <= 1 + 1e-9)
    for part, of_all in timeline.shares(1, end).items():
        assert np.allclose(of_all[:, 0] * end * 1e-9, spent[part]), part


def test_a_message_acquired_while_another_is_awaited_counts_where_it_was() -> None:
    # Processor 0 acquired that of 1, then of 2; on the second machine that of 2 comes first.
    machine = LogPMachine(3, L=16, o=2, G=4, step=1e-9)
    rows = np.array(
        [
            (0, RECV, 1, 1, 0, 30, 32),
            (0, RECV, 2, 1, 32, 40, 44),
            (1, SEND, 0, 1, 12, 14, 14),
            (2, SEND, 0, 1, 0, 2, 2),
        ]
    )
    spans = np.array([(0, 44, 0), (0, 14, 0), (0, 2, 0)])
    timeline = Timeline.of_rows(machine, rows, spans, 2, None, 0.0, paced=False)
    again = predict(timeline)
    # Sent at 2 and 14, delivered at 18 and 30, acquired until 20 and 32: the second receive ends at once.
    assert again.ended.tolist() == [32, 32, 14, 2]
    assert again.waiting.tolist() == [28, 0, 0, 0]
    assert 1e9 * again.spent()["o"] == pytest.approx([4, 2, 2])


def rows_of(*operations: tuple[int, int, int, int, int]) -> np.ndarray:
    """Of processor, kind, peer, begun and ended."""
    return np.array([(pid, kind, peer, 1, begun, begun, ended) for pid, kind, peer, begun, ended in operations])


def test_of_more_messages_than_are_kept_the_beginning_stays() -> None:
    rows = rows_of(
        (0, SEND, 1, 10, 20), (0, SEND, 1, 20, 30), (0, SEND, 1, 30, 40), (1, RECV, 0, 15, 25), (1, RECV, 0, 26, 36)
    )
    spans = np.array([(5, 100, 7), (10, 90, 0)])
    whole = Timeline.of_rows(LogPMachine.nominal(2), rows[[0, 1, 3, 4]], spans, 2, None, 0.0, paced=False)
    assert (len(whole), whole.left_out, whole.started.tolist(), whole.finished.tolist()) == (4, 0, [0, 5], [95, 85])
    some = Timeline.of_rows(LogPMachine.nominal(2), rows, spans, 9, 36, 0.0, paced=False)
    assert (len(some), some.left_out, some.finished.tolist()) == (4, 7, [31, 31])
    assert some.work.tolist() == [7, 0]
    fewer = Timeline.of_rows(LogPMachine.nominal(2), rows, spans, 9, 30, 0.0, paced=False)
    assert (len(fewer), fewer.left_out, fewer.first.tolist()) == (2, 8, [0, 1, 2])
    assert predict(fewer).sent.tolist() == [1, 0]


def test_a_message_has_the_words_that_were_measured_where_it_was_acquired() -> None:
    rows = rows_of((0, SEND, 1, 10, 20), (0, SEND, 1, 20, 30), (1, RECV, 0, 15, 25), (1, RECV, 0, 26, 36))
    rows[2:, 3] = 5, 7
    spans = np.array([(0, 40, 0), (0, 40, 0)])
    timeline = Timeline.of_rows(LogPMachine.nominal(2), rows, spans, 2, None, 0.0, paced=False)
    assert timeline.words.tolist() == [5, 7, 5, 7]
    assert timeline.words_sent.tolist() == [12, 0]


def test_pace_is_waited_for_and_a_late_message_too() -> None:
    machine = LogPMachine(2, L=100, o=10, G=40, step=1e-9)
    rows = np.array([(0, SEND, 1, 1, 0, 10, 10), (0, SEND, 1, 1, 15, 40, 50), (1, RECV, 0, 1, 0, 30, 40)])
    rows = np.concatenate((rows, [(1, RECV, 0, 1, 40, 35, 80)]))
    spans = np.array([(0, 60, 0), (0, 90, 0)])
    timeline = Timeline.of_rows(machine, rows, spans, 2, None, 0.0, paced=True)
    assert timeline.stalled.tolist() == [0, 10, 0, 0]
    assert timeline.waiting.tolist() == [0, 0, 30, 0]
    # A submission 40 after the last; an acquisition begins 40 after the one before, which began at 30.
    assert timeline.gap.tolist() == [0, 15, 0, 30]
    assert Timeline.of_rows(machine, rows, spans, 2, None, 0.0, paced=False).gap.tolist() == [0, 0, 0, 0]


def test_operations_that_wait_for_each_other_are_an_error() -> None:
    rows = rows_of((0, RECV, 1, 0, 5), (0, SEND, 1, 5, 6), (1, RECV, 0, 0, 5), (1, SEND, 0, 5, 6))
    spans = np.array([(0, 6, 0), (0, 6, 0)])
    timeline = Timeline.of_rows(LogPMachine.nominal(2), rows, spans, 2, None, 0.0, paced=False)
    with pytest.raises(
        UsageError, match=r"pybsp\.logp\.predict: argument timeline: its operations wait for each other"
    ):
        predict(timeline)
    with pytest.raises(UsageError, match="machine"):
        predict(timeline, LogPMachine(3, 16, 1, 4))


def test_a_machine_that_submits_faster_than_its_overhead_is_predicted_at_the_pace_of_that() -> None:
    def main(proc: Processor) -> None:
        for _ in range(3):
            proc.recv() if proc.pid else proc.send(1, None)

    timeline = Timeline.of(simulate(main, machine=LogPMachine(2, L=16, o=2, G=4, step=1e-9)))
    slow, fast = (LogPMachine(2, L=16, o=8, G=G, step=1e-9) for G in (8, 4))
    assert predict(timeline, fast).acquired.tolist() == predict(timeline, slow).acquired.tolist()


def test_wrong_arguments_are_named() -> None:
    timeline = Timeline.of(simulate(lambda proc: proc.compute(1), 2))
    wrong: list[tuple[Any, str]] = [
        ((timeline, 5), "argument machine: expected a pybsp.LogPMachine, got int"),
        ((timeline, None, "late"), "argument schedule: expected 'latest'"),
        ((None,), "argument timeline: expected a pybsp.logp.Timeline, which of a run on ranks only processor 0 has"),
        (("x",), "argument timeline: expected a pybsp.logp.Timeline"),
    ]
    for arguments, text in wrong:
        with pytest.raises(UsageError, match=re.escape(f"pybsp.logp.predict: {text}")):
            predict(*arguments)
    with pytest.raises(UsageError, match=r"Timeline\.of: argument simulation: expected a pybsp\.logp\.Simulation, got"):
        Timeline.of("x")  # type: ignore[arg-type]


def test_clocks_that_run_apart_have_one_axis() -> None:
    from pybsp.ground.clocks import Clock

    # Node 1 is 2 s ahead when the run begins, and 2.001 s when it ends 10 s later.
    clocks = Clocks(100.0, 110.0, {1: Clock(2.0, 4e-4)}, {1: Clock(2.001, 6e-4)})
    moments = np.array([100.0, 105.0, 110.0])
    there = np.rint(1e9 * (moments + 2 + 1e-4 * (moments - 100))).astype(np.int64)
    assert clocks.common(1, there) == pytest.approx(1e9 * moments, abs=100)
    assert clocks.common(0, there) is there
    assert clocks.uncertain == pytest.approx(3e-4)
    three = clocks._replace(first={**clocks.first, 2: Clock(0.0, 1e-3)}, last={**clocks.last, 2: Clock(0.0, 1e-4)})
    assert three.uncertain == pytest.approx(8e-4)  # of nodes 1 and 2
    assert clocks._replace(first={}, last={}).uncertain == 0


@pytest.mark.parametrize("plain", [True, pytest.param(False, marks=pytest.mark.skipif(compiled() is None, reason="-"))])
def test_rows_of_times_are_kept_up_to_a_limit(plain: bool) -> None:
    import time

    found = PlainStamps(300) if plain else stamps(300)
    assert type(found) is PlainStamps or not plain
    before = time.perf_counter_ns()
    for number in range(400):
        found.begin()
        found.end(number, -number)
    found.end(7)
    after = time.perf_counter_ns()
    rows = np.frombuffer(found.rows(), np.int64).reshape(-1, 4)
    assert (found.count, len(rows)) == (401, 300)
    assert rows[:, 2].tolist() == list(range(300))
    assert (rows[:, 3] == -rows[:, 2]).all()
    assert (np.diff(rows[:, :2].ravel()) >= 0).all()
    assert before <= rows[0, 0] <= rows[-1, 1] <= after  # it is the clock of time.perf_counter_ns


def test_a_send_that_waited_is_kept_as_far_as_its_times_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which sends have waited, in a run that has more of them than are kept."""
    waits = iter([0.5, 0.0, 2.0, 4.0])
    proc = object.__new__(TracedProcessor)
    proc.stalled_seconds = proc.credit_seconds = 0.0
    proc._sends, proc._limit, proc._waits = stamps(3), 3, array("q")

    def stall(self: TracedProcessor, dest: int) -> None:
        self.stalled_seconds += next(waits)

    monkeypatch.setattr(RankProcessor, "_stall", stall)
    for _ in range(4):
        proc._stall(0)
        proc._sends.end()
    assert proc._waits.tolist() == [0, 500_000_000, 2, 2_000_000_000]


def test_what_is_kept_is_bounded() -> None:
    assert [rows_of_each(p) for p in (1, 2, 256, 4096)] == [1 << 18, 1 << 17, 1024, 1024]


@pytest.mark.parametrize(
    "payload",
    [
        *(1.5, 7, True, 1j, 1 << 80, np.float32(2), np.str_("text"), None, "text", b"bytes" * 7, b"b" * 5000),
        *(np.zeros(5), np.zeros(0), np.zeros(3, np.int8), np.zeros(3000), np.zeros((2, 500), np.float32)),
        *((1, "two"), {"a": [1.0] * 50}, ["x" * 3000], bytearray(9), memoryview(b"12345"), [np.zeros(900)]),
    ],
)
def test_what_has_arrived_counts_as_many_words_as_the_model_says(payload: object) -> None:
    kind, body = (
        (0, payload)
        if type(payload) is float
        else (1, payload)
        if type(payload) is int and payload == 7
        else encode(payload, BufferPool())
    )
    assert words_of(kind, body) == words(payload)


def test_goal_of_a_timeline_has_what_was_computed() -> None:
    machine = LogPMachine(2, L=16, o=1, G=4, step=1e-6)
    timeline = Timeline.of(simulate(to_first, machine=machine))
    assert [str(one) for one in Goal.of(timeline).lists[1]][:2] == ["calc 3000", "send 8b to 0"]
    assert [str(one) for one in Goal.of(timeline).lists[1]][-1] == "calc 5000"
    assert Goal.of(timeline).simulate(machine).time == round(timeline.seconds * 1e6)


@pytest.mark.parametrize("late", [0, 50])
def test_goal_of_a_timeline_computes_until_a_processor_begins_and_as_little_as_a_nanosecond(late: int) -> None:
    def program(proc: Processor) -> None:
        if proc.pid:
            proc.compute(1)
            proc.send(0, 1.0)
        else:
            proc.recv()

    timeline = Timeline.of(simulate(program, machine=LogPMachine(2, L=16, o=1, G=4, step=1e-9)))
    assert (timeline.uncertain, timeline.started.tolist()) == (0.0, [0, 0])
    later = {name: getattr(timeline, name) + late * timeline.pids for name in ("begun", "ready", "ended")}
    pids = np.arange(2)
    later |= {name: getattr(timeline, name) + late * pids for name in ("started", "finished")}
    found = Goal.of(dataclasses.replace(timeline, **later)).lists[1]
    assert [str(one) for one in found] == [f"calc {1 + late}", "send 8b to 0"]


def test_goal_of_a_timeline_has_the_sizes_of_messages_where_they_take_no_time_too() -> None:
    def program(proc: Processor) -> None:
        if proc.pid:
            proc.send(0, b"x" * 8000)
        else:
            proc.recv()

    timeline = Timeline.of(simulate(program, machine=LogPMachine(2, L=16, o=1, G=4, step=1e-6)))
    assert timeline.words_sent.tolist() == [0, 1000]
    assert "send 8000b to 0" in map(str, Goal.of(timeline).lists[1])


def test_a_run_without_ranks_has_a_timeline_too() -> None:
    traced = logp.run(lambda proc: proc.p, trace=True)
    assert traced.result == 1
    assert traced.timeline is not None
    assert (len(traced.timeline), traced.timeline.p) == (0, 1)
    with pytest.raises(UsageError, match=r"argument trace: expected True or False, got 'yes'"):
        logp.run(lambda proc: None, trace="yes")  # type: ignore[call-overload]


def test_messages_are_there_whose_both_ends_are_in_order_of_each_pair() -> None:
    rng = np.random.default_rng(1)
    pids, kinds, peers = rng.integers(0, 3, 300), rng.choice([SEND, RECV], 300), rng.integers(0, 3, 300)
    ends: dict[tuple[int, int, int], list[int]] = {}
    for number, (pid, kind, peer) in enumerate(zip(pids.tolist(), kinds.tolist(), peers.tolist(), strict=True)):
        ends.setdefault((kind, pid, peer) if kind == SEND else (kind, peer, pid), []).append(number)
    expected = np.zeros(300, bool)
    for (kind, source, dest), numbers in ends.items():
        others = ends.get((RECV if kind == SEND else SEND, source, dest), [])
        expected[numbers[: len(others)]] = True
    assert 100 < expected.sum() < 300
    assert paired(pids, kinds, peers).tolist() == expected.tolist()


def test_times_that_are_no_nanoseconds_are_refused() -> None:
    simulation = simulate(lambda proc: proc.compute(10**10), machine=LogPMachine(p=1, L=16, o=1, G=4))
    with pytest.raises(
        UsageError, match=r"expected times below 2\^62 ns, got 10000000000 steps of 1 s; take a machine"
    ):
        Timeline.of(simulation)
    timeline = Timeline.of(simulate(lambda proc: proc.compute(1000), machine=LogPMachine(p=1, L=16, o=1, G=4)))
    assert timeline.seconds == pytest.approx(1000)


def test_more_steps_than_fit_on_one_axis_are_refused() -> None:
    def late(proc: Processor) -> None:
        if proc.pid:
            proc.compute(1 << 60)
            proc.send(0, 1)
        else:
            for _ in range(1, proc.p):
                proc.recv()

    with pytest.raises(UsageError, match=r"less than 2\^61 / p = 288230376151711744 steps, got 115292.*longer step"):
        Timeline.of(simulate(late, machine=LogPMachine(p=8, L=16, o=1, G=4, step=1e-9)))


def test_steps_that_a_run_computes_are_as_many_as_a_trace_file_holds() -> None:
    def long(proc: Processor) -> None:
        for _ in range(3):
            proc.compute(1 << 62)

    timeline = logp.run(long, trace=True).timeline
    assert timeline is not None
    assert timeline.work.tolist() == [1 << 62]
