"""The simulator does in every step what a machine does that is written straight from the model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pybsp import LogPMachine
from pybsp.benchmarks.studies.logp_simulator import interpret
from pybsp.errors import DeadlockError, UnreceivedError
from pybsp.logp import Schedule, Simulation, simulate
from pybsp.logp.schedule import schedule_of

from ..tiers import some
from .reference import Operation, Programs, Reference

QUICK = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True, print_blob=True)

Chosen = str | Callable[[int, int, int], int]


@st.composite
def machines(draw: st.DrawFn, most: int = 6) -> LogPMachine:
    """Small ones: capacity 1 (L = G), 2 and more, overhead from 0 to the gap."""
    G = draw(st.sampled_from((2, 2, 3, 5)))
    L = draw(st.one_of(st.just(G), st.integers(G, 2 * G), st.integers(G, 5 * G)))
    return LogPMachine(draw(st.integers(1, most)), L=L, o=draw(st.integers(0, G)), G=G)


@st.composite
def programs(draw: st.DrawFn, machine: LogPMachine) -> Programs:
    """For each processor a list of operations; mostly all is received that was sent."""
    p = machine.p
    others: list[st.SearchStrategy[Operation]] = [
        st.tuples(st.just("compute"), st.integers(0, 9)),
        st.just(("poll",)),
        st.tuples(st.just("until"), st.integers(-3, 2 * machine.L)),
    ]
    hot = draw(st.integers(0, p - 1))
    operations_of: list[list[Operation]] = []
    for pid in range(p):
        dests = [dest for dest in range(p) if dest != pid]
        kinds = list(others)
        if dests:
            near = [hot] if hot != pid else dests
            kinds += [st.tuples(st.just("send"), st.sampled_from(some)) for some in (dests, near, near)]
        operations_of.append(draw(st.lists(st.one_of(kinds), max_size=10)))
    for pid, operations in enumerate(operations_of):
        to_come = sum(operation == ("send", pid) for every in operations_of for operation in every)
        patient = draw(st.integers(0, 9))
        if patient < 6:
            operations += [("until", 200)] * to_come
        elif patient < 8:
            operations += [("recv",)] * to_come  # too many, if some are acquired before
    return operations_of


def schedules(machine: LogPMachine) -> st.SearchStrategy[Chosen]:
    def scattered(source: int, dest: int, accepted: int) -> int:
        return 1 + (7 * source + 5 * dest + 3 * accepted) % machine.L

    named: st.SearchStrategy[Chosen] = st.sampled_from(("latest", "earliest", "adversary", "random", "random"))
    return st.one_of(named, st.just(scattered))


def hold_equal(done: Simulation, reference: Reference, starts: list[int]) -> None:
    assert done.results == [one.result for one in reference.ones]
    assert done.finished.tolist() == [one.finished for one in reference.ones]
    assert done.time == max(done.finished)
    assert done.busy.tolist() == [one.busy for one in reference.ones]
    assert done.stalls.tolist() == [one.stalled for one in reference.ones]
    assert done.stalled == sum(one.stalled for one in reference.ones)
    assert (done.idle + done.busy + done.stalls).tolist() == [done.time - start for start in starts]
    assert done.in_transit.tolist() == reference.most
    assert done.max_in_transit == max(reference.most)
    fields = ("submission", "source", "dest", "acceptance", "delivery", "acquisition")
    traced = zip(*(getattr(done.trace, name).tolist() for name in fields), strict=True)
    packets = sorted(tuple(getattr(packet, name) for name in fields) for packet in reference.packets)
    assert list(traced) == packets  # in order of submission, then of source


@pytest.mark.whole
@settings(QUICK, max_examples=some(200))
@given(st.data())
def test_an_execution_is_the_one_of_a_machine_that_goes_step_by_step(data: st.DataObject) -> None:
    machine = data.draw(machines())
    operations_of = data.draw(programs(machine))
    starts = data.draw(st.lists(st.integers(0, 20), min_size=machine.p, max_size=machine.p))
    chosen, seed = data.draw(schedules(machine)), data.draw(st.integers(-50, 50))
    reference = Reference(machine, schedule_of(chosen, seed, "test"), operations_of)
    expected = reference.run(starts)

    def execute() -> Simulation:
        return simulate(interpret, machine=machine, schedule=chosen, seed=seed, starts=starts, args=(operations_of,))

    if expected == "ended":
        done = execute()
        done._check()
        hold_equal(done, reference, starts)
    else:
        with pytest.raises(DeadlockError if expected == "deadlock" else UnreceivedError):
            execute()


@pytest.mark.whole
def test_the_random_programs_end_stall_wait_for_ever_and_leave_messages() -> None:
    seen: Counter[str] = Counter()

    @settings(QUICK, max_examples=some(500))
    @given(st.data())
    def look(data: st.DataObject) -> None:
        machine = data.draw(machines())
        reference = Reference(machine, Schedule(), data.draw(programs(machine)))
        seen[reference.run([0] * machine.p)] += 1
        seen["stalled"] += any(one.stalled for one in reference.ones)
        seen["waited in vain"] += any((None, t) in one.result for one in reference.ones for t in range(1, 100))

    look()
    assert all(seen[what] >= 5 for what in ("ended", "stalled", "deadlock", "unreceived", "waited in vain")), seen
