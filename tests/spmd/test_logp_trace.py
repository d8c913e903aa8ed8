"""What `logp.run(trace=True)` keeps of a program on MPI ranks; in a plain pytest, of one on the simulated machine."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from pybsp import LogPMachine, logp
from pybsp.logp import Goal, Processor, Timeline, predict, recording
from pybsp.logp.operations import RECV, SEND

from ..conftest import gathered
from .test_logp_run import LogP, Ranks, pytest_generate_tests  # noqa: F401


def machine_of(p: int) -> LogPMachine:
    return LogPMachine(p, L=16, o=1, G=4, step=1e-6)


def everything(proc: Processor) -> int:
    """Each sends long and short messages to all others, computes in between, polls, and waits until a time."""
    proc.compute(20 * proc.pid)
    for number in range(3):
        for other in range(proc.p):
            if other != proc.pid:
                proc.send(other, np.zeros(400 * number + 1))
                proc.compute(1)
    left = 3 * (proc.p - 1)
    while left:
        message = proc.recv() if left % 2 else proc.poll() or proc.recv(until=proc.time + 5)
        left -= message is not None
    proc.compute(7)
    return proc.pid


def timeline_of(machine: LogP, program: Any) -> tuple[list[Any], Timeline]:
    """The results of all, and the timeline; on all ranks."""
    if not machine.mpi:
        simulation = logp.simulate(program, machine.p, machine_of(machine.p))
        return simulation.results, Timeline.of(simulation)
    traced = logp.run(program, machine=machine_of(machine.p), capacity=machine.capacity, pace=machine.pace, trace=True)
    assert (traced.timeline is None) == (logp_pid() > 0)
    found = gathered((traced.result, traced.timeline))
    return [result for result, _ in found], found[0][1]


def logp_pid() -> int:
    from mpi4py import MPI

    return int(MPI.COMM_WORLD.rank)


def test_a_timeline_has_every_message_from_its_begin_to_its_end(machine: LogP) -> None:
    results, timeline = timeline_of(machine, everything)
    p = machine.p
    assert results == list(range(p))
    assert timeline.sent.tolist() == timeline.acquired.tolist() == [3 * (p - 1)] * p
    assert (timeline.left_out, timeline.p, len(timeline)) == (0, p, 6 * p * (p - 1))
    assert timeline.uncertain == 0
    if machine.mpi:
        assert timeline.work.tolist() == [20 * pid + 3 * (p - 1) + 7 for pid in range(p)]
        assert timeline.words_sent.tolist() == [1203 * (p - 1)] * p
        assert timeline.paced == machine.pace
    found = timeline.messages()
    for other in range(p):
        assert np.bincount(found.dest[found.source == other], minlength=p).tolist() == [
            3 * (other != dest) for dest in range(p)
        ]
    # Ranks of a host share a clock: nothing arrives before its sending began. (Who has sent something, and loses its
    # core before it has looked at the clock, notes a submission that is later than that.)
    assert (found.submission <= found.acceptance).all()
    sends, receives = timeline.pairs()
    assert (timeline.begun[sends] <= timeline.ready[receives]).all()
    assert (found.delivery <= found.acquisition).all()
    spent = timeline.spent()
    assert sum(spent.values()) == pytest.approx(1e-9 * (timeline.finished - timeline.started))
    assert min(float(seconds.min()) for seconds in spent.values()) >= 0
    assert timeline.started.min() == 0


def test_what_was_measured_is_predicted_and_is_a_schedule(machine: LogP) -> None:
    _, timeline = timeline_of(machine, everything)
    predicted = predict(timeline)
    for name in ("sent", "acquired", "words_sent"):
        assert getattr(predicted, name).tolist() == getattr(timeline, name).tolist(), name
    step = 1e-6
    handled = timeline.sent + timeline.acquired
    assert predicted.spent()["o"] == pytest.approx(step * handled)
    # Each computing is rounded to steps.
    assert predicted.spent()["computing"] == pytest.approx(
        timeline.spent()["computing"], abs=step * (handled.max() + 2)
    )
    if machine.p > 1:
        assert predicted.seconds > 0
    lists = Goal.of(timeline).lists
    for pid, operations in enumerate(lists):
        own = timeline.kinds[timeline.first[pid] : timeline.first[pid + 1]]
        assert [one.kind for one in operations if one.kind in (SEND, RECV)] == own.tolist()
        assert all(one.requires == ((number - 1,) if number else ()) for number, one in enumerate(operations))


class Unreadable:
    """Can be sent, and not be read where it arrives."""

    def __reduce__(self) -> Any:
        return int, ("three",)


@pytest.mark.parametrize("call", ["recv", "poll"])
def test_what_cannot_be_read_is_acquired_all_the_same(machine: LogP, call: str) -> None:
    if machine.p == 1:
        pytest.skip("it takes two")

    def main(proc: Processor) -> list[int]:
        lengths: list[int] = []
        if proc.pid == 1:
            for payload in (Unreadable(), bytes(800), bytes(8)):
                proc.send(0, payload)
        while proc.pid == 0 and len(lengths) < 3:
            with suppress(ValueError):  # that of `int`
                message = proc.recv() if call == "recv" else proc.poll()
                lengths += [] if message is None else [len(message.payload)]
                continue
            lengths.append(-1)
        return lengths

    results, timeline = timeline_of(machine, main)
    assert results[0] == [-1, 800, 8]
    assert timeline.messages().words.tolist()[1:] == [100, 1]
    assert timeline.acquired.tolist()[0] == 3


def test_a_run_fails_with_a_trace_as_without_one(machine: LogP) -> None:
    def failing(proc: Processor) -> None:
        if proc.pid == proc.p - 1:
            raise KeyError(3)
        proc.recv()

    with pytest.raises(Exception, match="3"):
        timeline_of(machine, failing) if machine.mpi and machine.p > 1 else logp.run(failing, trace=True)


def test_of_very_many_messages_the_beginning_is_kept(ranks: Ranks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "rows_of_each", lambda p: 10)

    def ring(proc: Processor) -> None:
        for number in range(25 * (proc.p > 1)):
            proc.send((proc.pid + 1) % proc.p, number)
            proc.recv()

    found = logp.run(ring, trace=True).timeline
    if found is not None and found.p > 1:
        assert 0 < found.sent.sum() <= 10 * found.p
        assert found.left_out == 25 * found.p - found.sent.sum()
        assert (found.finished <= found.finished.max()).all()
        assert found.ended.max() <= found.finished.max()
        assert predict(found).sent.tolist() == found.sent.tolist()


def test_a_part_of_the_ranks_has_a_timeline_of_its_own(ranks: Ranks) -> None:
    comm = ranks.comm.Split(ranks.comm.rank % 2, ranks.comm.rank)
    try:
        traced = logp.run(everything, comm=comm, machine=machine_of(comm.size), trace=True)
        assert traced.result == comm.rank
        assert (traced.timeline is None) == (comm.rank > 0)
        if traced.timeline is not None:
            assert traced.timeline.p == comm.size
    finally:
        comm.Free()
