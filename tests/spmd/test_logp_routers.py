"""The routers of LogP messages deliver what `direct` delivers, and fail as it does.

On MPI ranks all must draw the same programs: nothing may depend on time, and a failure is not shrunk there.
"""

from __future__ import annotations

import operator
import pickle
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

import pybsp
from examples import heat, linear_algebra, pagerank, wordcount
from pybsp import collectives
from pybsp.routing import logp_router
from pybsp.routing.logp.combine_broadcast import bound
from tests.conftest import Spmd

from . import test_random_programs as random_programs
from .programs import Caught, caught, plain

ALGORITHMS = ("sorted", "offline", "random")
SCHEDULES = ("latest", "earliest", "adversary", "random")
# Capacity 1, 2, 3 and 8; o = 0, o = G.
MACHINES = [pybsp.LogPMachine(1, L, o, G, step=1e-6) for L, o, G in ((4, 1, 4), (8, 4, 4), (9, 1, 4), (16, 0, 2))]
PAIR = np.array([1, 2])  # which is no name
ROUTER = st.builds(
    logp_router,
    st.sampled_from(ALGORITHMS),
    machine=st.sampled_from(MACHINES),
    schedule=st.sampled_from(SCHEDULES),
    seed=st.integers(0, 1000),
    packet=st.sampled_from([61, 1024, 1 << 20]),
    capacity=st.sampled_from(["global", "window", "per-pair", None]),
)


@pytest.mark.whole
def test_random_programs_give_what_the_sequential_reading_gives(spmd: Spmd) -> None:
    random_programs.check_on(spmd, ROUTER, on_ranks=6, virtual=15)


def everything(bsp: pybsp.BSP) -> list[Any]:
    """All ways of communicating, collectives, parts and the ledger."""
    p, pid = bsp.p, bsp.pid
    array, queue = bsp.array(4), bsp.queue(np.int32)
    bsp.sync()
    for dest in range(p):
        bsp.send(dest, np.arange(300 * (pid + 1)), tag=(pid, "to", dest))
    bsp.send(pid, {"to": "myself"})
    queue.send([0] * (pid + 3), np.arange(pid + 3))
    array.put((pid + 1) % p, [pid] * 4)
    ticket = array.get(0)
    bsp.sync()
    seen = [[(m.source, m.tag, plain(m.payload)) for m in bsp.inbox], plain(queue.values), plain(queue.sources)]
    seen += [plain(ticket.value), plain(array.local)]
    values = np.random.default_rng(pid).normal(size=40)
    seen += [plain(collectives.allreduce(bsp, values, np.add)), plain(collectives.sample_sort(bsp, values))]
    seen += [plain(collectives.allgather(bsp, values[: pid + 1])), plain(collectives.prefix(bsp, values, np.add))]
    seen += [
        plain(collectives.total_exchange(bsp, [values[:k] for k in range(p)])),
        collectives.broadcast(bsp, "x" * p),
    ]
    seen += [collectives.reduce(bsp, pid, max), plain(collectives.bitonic_sort(bsp, values))]
    with bsp.split(pid % 2, key=-pid) as part:
        seen.append(collectives.allreduce(part, pid, operator.add))
    bsp.sync()
    return [*seen, [(record.h, record.messages, record.M) for record in bsp.ledger]]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_program_gives_bit_for_bit_what_it_gives_with_direct(spmd: Spmd, algorithm: str) -> None:
    assert spmd(everything, router=f"logp-{algorithm}") == spmd(everything)


@pytest.mark.parametrize(
    ("algorithm", "example", "arguments"),
    [
        ("sorted", heat, (9, 4)),
        ("offline", linear_algebra, (20,)),
        ("random", pagerank, (8,)),
        ("sorted", wordcount, (6,)),
    ],
)
def test_the_examples_give_bit_for_bit_what_they_give_with_direct(
    spmd: Spmd, algorithm: str, example: ModuleType, arguments: tuple[Any, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    router = logp_router(algorithm, machine=MACHINES[1], schedule="adversary")
    results, expected = spmd(example.main, *arguments, router=router), spmd(example.main, *arguments)
    assert plain(results) == plain(expected)


@pytest.mark.whole
def test_what_arrives_is_what_direct_brings_however_small_the_packets_are(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        right = (bsp.pid + 1) % bsp.p
        for size in (0, 1, 15, 16, 17, 100):
            bsp.send(right, np.arange(size, dtype=np.uint8))
            bsp.send(right, np.arange(size, dtype=np.complex128))
        bsp.send(right, b"bytes", tag=[1, 2])
        bsp.sync()
        return [(m.source, m.tag, plain(m.payload)) for m in bsp.inbox]

    expected = spmd(main)
    for packet in (7, 16, 333):
        assert spmd(main, router=logp_router("sorted", machine=MACHINES[3], packet=packet)) == expected


# -- on virtual processors --------------------------------------------------------------------------------------------


def virtual_only(spmd: Spmd) -> None:
    if spmd.mpi:
        pytest.skip("of the virtual LogP machine")


@pytest.mark.parametrize("algorithm", ["sorted", "offline"])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_no_processor_stalls(spmd: Spmd, algorithm: str, schedule: str) -> None:
    virtual_only(spmd)
    if spmd.checked:
        pytest.skip("checks change nothing here")

    def main(bsp: pybsp.BSP) -> tuple[int, Any, int]:
        bsp.work(1e3 * bsp.pid)
        array = bsp.array(3)
        bsp.sync()
        for k in range(3 * bsp.pid):
            bsp.send(0, np.arange(300) + k)  # to one
        array.get((bsp.pid + 1) % bsp.p)
        bsp.sync()
        collectives.total_exchange(bsp, [bsp.pid] * bsp.p)
        bsp.sync()
        router: Any = bsp.router
        return router.stalled, router.max_in_transit, router.steps

    for machine in MACHINES:
        router = logp_router(algorithm, machine=machine, schedule=schedule, seed=5, packet=1024)
        results = spmd(main, router=router)
        assert len(set(results)) == 1
        stalled, in_transit, steps = results[0]
        assert stalled == 0
        assert in_transit <= machine.capacity
        assert (steps > 0) == (spmd.p > 1)


def test_a_superstep_without_messages_is_one_combine_and_broadcast(spmd: Spmd) -> None:
    virtual_only(spmd)

    def main(bsp: pybsp.BSP) -> Any:
        for _ in range(3):
            bsp.work(5e4 * bsp.pid)
            bsp.sync()
        router: Any = bsp.router
        return list(router.executions), bsp.time()

    router = logp_router("sorted", machine=MACHINES[2])
    for executions, _ in spmd(main, router=router):
        assert len(executions) == 3
        machine = pybsp.LogPMachine(spmd.p, 9, 1, 4)
        assert all(execution.sent == execution.received == 0 for execution in executions)
        assert all(execution.steps <= bound(machine) for execution in executions)


def test_virtual_time_is_the_executions(spmd: Spmd) -> None:
    virtual_only(spmd)

    def main(bsp: pybsp.BSP) -> Any:
        times = [bsp.time()]
        bsp.work(2000 * (bsp.pid == bsp.p - 1))
        bsp.sync()
        times.append(bsp.time())
        bsp.send(0, 1.0)
        bsp.sync()
        times.append(bsp.time())
        router: Any = bsp.router
        return times, [execution.steps for execution in router.executions], [r.measured for r in bsp.ledger]

    machine = pybsp.LogPMachine(1, 8, 1, 4, step=1e-6)
    bsp_machine = pybsp.BSPMachine(spmd.p, 1e-9, 1e-6, 1e6)  # 2000 flop are 2000 steps
    for times, steps, measured in spmd(main, router=logp_router("sorted", machine=machine), machine=bsp_machine):
        assert times[0] == 0
        # The processor that works joins last.
        assert times[1] == pytest.approx((2000 + steps[0]) * 1e-6, abs=1e-12)
        # A processor begins the next superstep when it ended the last, not when the last did.
        assert times[1] < times[2] + 1e-12
        assert times[2] <= times[1] + (steps[1] + machine.G) * 1e-6 + 1e-12
        assert measured == pytest.approx(np.diff(times).tolist(), abs=1e-12)


def test_parts_have_clocks_of_their_own(spmd: Spmd) -> None:
    virtual_only(spmd)

    def main(bsp: pybsp.BSP) -> Any:
        with bsp.split(bsp.pid == 0) as part:
            if bsp.pid == 0:
                part.work(5000)
            part.sync()
            own = part.time()
        before = bsp.time()
        bsp.sync()
        return own, before, bsp.time()

    bsp_machine = pybsp.BSPMachine(spmd.p, 1e-9, 1e-6, 1e6)
    results = spmd(main, router=logp_router("sorted", machine=MACHINES[1]), machine=bsp_machine)
    assert results[0][0] == pytest.approx(5e-3)
    assert all(own < 1e-3 for own, _, _ in results[1:])
    assert all(after >= 5e-3 for _, _, after in results)


def test_the_same_seed_gives_the_same_execution_and_another_one_another(spmd: Spmd) -> None:
    virtual_only(spmd)

    def steps(seed: int) -> list[int]:
        def main(bsp: pybsp.BSP) -> Any:
            for _ in range(4):
                collectives.allgather(bsp, bsp.pid)
            router: Any = bsp.router
            return [execution.steps for execution in router.executions]

        found: list[int] = spmd(main, router=logp_router("sorted", machine=MACHINES[3], schedule="random", seed=seed))[
            0
        ]
        return found

    assert steps(1) == steps(1)
    assert (steps(1) == steps(2)) == (spmd.p == 1)


def test_the_machine_file_gives_the_logp_machine(spmd: Spmd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    virtual_only(spmd)
    path = tmp_path / "machine.json"
    pybsp.LogPMachine(7, 24, 2, 8, step=1e-6).save(path)
    pybsp.BSPMachine(spmd.p, 1e-9, 1e-6, 1e9).save(path)
    monkeypatch.setenv("PYBSP_MACHINE", str(path))

    def main(bsp: pybsp.BSP) -> Any:
        router: Any = bsp.router
        return router.routing.machine

    assert spmd(main, router="logp-sorted") == [pybsp.LogPMachine(spmd.p, 24, 2, 8, step=1e-6)] * spmd.p


def test_without_a_logp_machine_it_is_that_of_g_and_l(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        router: Any = bsp.router
        return router.routing.machine

    machine = pybsp.BSPMachine(spmd.p, 1e-8, 1e-4, 1e9)
    found = spmd(main, router=logp_router("sorted", packet=80), machine=machine)
    assert found == [pybsp.LogPMachine.from_bsp(machine, 10)] * spmd.p


# -- failures ---------------------------------------------------------------------------------------------------------


def fails(bsp: pybsp.BSP) -> None:
    bsp.send(0, bsp.pid)
    bsp.sync()
    if bsp.pid == bsp.p - 1:
        raise LookupError("boom")
    bsp.send(0, bsp.pid)
    bsp.sync()


def ends_early(bsp: pybsp.BSP) -> None:
    if bsp.pid < bsp.p - 1:
        bsp.send(bsp.p - 1, "never read")
        bsp.sync()


def splits_alone(bsp: pybsp.BSP) -> None:
    if bsp.pid == 0:
        with bsp.split(0):
            pass
    else:
        bsp.sync()


def registers_otherwise(bsp: pybsp.BSP) -> None:
    bsp.array(3, np.int8 if bsp.pid else np.int16)
    bsp.sync()


def fails_in_a_part(bsp: pybsp.BSP) -> None:
    with bsp.split(0 if bsp.pid < bsp.p - 1 else 1) as part:
        part.sync()
        if bsp.pid == bsp.p - 1:
            raise LookupError("boom")
        part.sync()
    bsp.sync()


def fails_while_others_ask_for_the_ledger(bsp: pybsp.BSP) -> Any:
    if bsp.pid == 0:
        raise LookupError("boom")
    return bsp.ledger


def fails_while_others_answer(bsp: pybsp.BSP) -> None:
    array = bsp.array(3)
    bsp.sync()
    array.get(0)
    if bsp.pid == bsp.p - 1:
        raise LookupError("boom")
    bsp.sync()


@pytest.mark.parametrize(
    "main",
    [
        fails,
        ends_early,
        splits_alone,
        registers_otherwise,
        fails_in_a_part,
        fails_while_others_ask_for_the_ledger,
        fails_while_others_answer,
    ],
)
def test_failures_are_those_of_direct(spmd: Spmd, main: Callable[[pybsp.BSP], Any]) -> None:
    def kinds(router: Any) -> list[tuple[type, str]]:
        return [(type(error), str(error)) for error in spmd.errors(main, router=router)]

    expected = kinds("direct")
    assert any(kind is not type(None) for kind, _ in expected) or spmd.p == 1
    assert kinds(logp_router("sorted", machine=MACHINES[0])) == expected


def test_the_next_run_works_after_a_failure(spmd: Spmd) -> None:
    for _ in range(2):
        spmd.errors(fails, router="logp-sorted")
        assert (
            spmd(lambda bsp: collectives.allreduce(bsp, bsp.pid, operator.add), router="logp-sorted")
            == [sum(range(spmd.p))] * spmd.p
        )


# -- what `router=` may be --------------------------------------------------------------------------------------------


def test_a_router_with_options_compares_by_value_and_can_be_pickled(spmd: Spmd) -> None:
    made = logp_router("random", machine=MACHINES[0], schedule="adversary", seed=3, packet=7, beta=0.5)
    assert pickle.loads(pickle.dumps(made)) == made
    assert made != logp_router("random", machine=MACHINES[0], schedule="adversary", seed=4, packet=7, beta=0.5)
    assert made.name == "logp-random"


def test_options_are_numbers_of_any_kind() -> None:
    given: dict[str, Any] = {"seed": np.int64(3), "packet": np.uint8(64), "beta": np.float32(0.5)}
    made = logp_router("random", **given)
    assert made == logp_router("random", seed=3, packet=64, beta=0.5)
    assert [type(getattr(made, name)) for name in given] == [int, int, float]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"algorithm": "bubble"}, "argument algorithm: expected one of sorted, offline, random, got 'bubble'"),
        ({"machine": 3}, "argument machine: expected a pybsp.LogPMachine, got 3"),
        ({"schedule": "late"}, "argument schedule: expected one of latest, earliest, random, adversary, got 'late'"),
        ({"seed": 1.5}, "argument seed: expected a whole number, got 1.5"),
        ({"packet": 0}, "argument packet: expected a whole number of bytes of at least 1, got 0"),
        ({"capacity": "all"}, 'argument capacity: expected "global", "window", "per-pair" or None, got \'all\''),
        ({"algorithm": PAIR}, f"argument algorithm: expected one of sorted, offline, random, got {PAIR!r}"),
        ({"schedule": PAIR}, f"argument schedule: expected one of latest, earliest, random, adversary, got {PAIR!r}"),
        ({"capacity": PAIR}, f'argument capacity: expected "global", "window", "per-pair" or None, got {PAIR!r}'),
        ({"packet": True}, "argument packet: expected a whole number of bytes of at least 1, got True"),
        ({"beta": -1.0}, "argument beta: expected a number above 0 and below 1e+100, or None, got -1.0"),
        ({"beta": 1e100}, "argument beta: expected a number above 0 and below 1e+100, or None, got 1e+100"),
        ({"beta": True}, "argument beta: expected a number above 0 and below 1e+100, or None, got True"),
    ],
)
def test_wrong_options_are_errors(spmd: Spmd, arguments: dict[str, Any], text: str) -> None:
    assert caught(logp_router, **{"algorithm": "sorted", **arguments}) == Caught(
        pybsp.UsageError, f"pybsp.routing.logp_router: {text}"
    )


def test_a_machine_outside_of_the_model_is_an_error_on_every_processor(spmd: Spmd) -> None:
    router = logp_router("sorted", machine=pybsp.LogPMachine(4, 4, 1, 8))
    error = caught(spmd, lambda bsp: None, router=router)
    assert error.kind is pybsp.UsageError
    assert 'router "logp-sorted": machine: max{2, o} <= G <= L does not hold' in error.text
