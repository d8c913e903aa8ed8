"""The routers that forward deliver what `direct` delivers, fail as it does, and cost what their formulas say.

On MPI ranks all must draw the same programs: nothing may depend on time, and a failure is not shrunk there.
"""

from __future__ import annotations

import operator
import pickle
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

import pybsp
from examples import heat, linear_algebra, pagerank, wordcount
from pybsp import collectives
from pybsp.routing import Relation, hypercube_router, two_phase_router
from pybsp.routing.forwarding import hypercube, two_phase
from pybsp.routing.forwarding.packets import DEST, SOURCE, WORDS, cut
from pybsp.transport.memory import BufferPool
from tests.conftest import Spmd

from . import test_random_programs as random_programs
from .programs import Caught, caught, plain
from .test_logp_routers import (
    ends_early,
    everything,
    fails,
    fails_in_a_part,
    fails_while_others_answer,
    fails_while_others_ask_for_the_ledger,
    registers_otherwise,
    splits_alone,
)

ROUTERS = ("two-phase", "hypercube")
MAKERS: dict[str, Callable[..., Any]] = {"two-phase": two_phase_router, "hypercube": hypercube_router}
LOADS: dict[str, Callable[..., Any]] = {"two-phase": two_phase.loads, "hypercube": hypercube.loads}
COSTS: dict[str, Callable[..., float]] = {"two-phase": two_phase.cost, "hypercube": hypercube.cost}
every_router = pytest.mark.parametrize("name", ROUTERS)


def rounds(name: str, p: int, moving: bool = True) -> int:
    """Exchanges of a superstep."""
    if name == "two-phase":
        return 2 if moving else 1
    n = p.bit_length() - 1
    return max(1, n * (2 if moving else 1) + 2 * (p > 1 << n))


# -- what arrives -----------------------------------------------------------------------------------------------------


@pytest.mark.whole
@every_router
def test_random_programs_give_what_the_sequential_reading_gives(spmd: Spmd, name: str) -> None:
    routers = st.builds(MAKERS[name], packet=st.sampled_from([16, 61, 1024, 1 << 20]), seed=st.integers(-9, 9))
    random_programs.check_on(spmd, routers, on_ranks=6, virtual=15)


@pytest.mark.whole
@every_router
def test_a_program_gives_bit_for_bit_what_it_gives_with_direct(spmd: Spmd, name: str) -> None:
    assert spmd(everything, router=name) == spmd(everything)


@pytest.mark.whole
@every_router
@pytest.mark.parametrize(
    ("example", "arguments"), [(heat, (9, 4)), (linear_algebra, (20,)), (pagerank, (8,)), (wordcount, (6,))]
)
def test_the_examples_give_bit_for_bit_what_they_give_with_direct(
    spmd: Spmd, name: str, example: ModuleType, arguments: tuple[Any, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    results, expected = spmd(example.main, *arguments, router=name), spmd(example.main, *arguments)
    assert plain(results) == plain(expected)


@every_router
def test_what_arrives_is_what_direct_brings_however_small_the_packets_are(spmd: Spmd, name: str) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        right = (bsp.pid + 1) % bsp.p
        for size in (0, 1, 15, 16, 17, 100):
            bsp.send(right, np.arange(size, dtype=np.uint8))
            bsp.send(right, np.arange(size, dtype=np.complex128))
        bsp.send(right, b"bytes", tag=[1, 2])
        bsp.sync()
        return [(m.source, m.tag, plain(m.payload)) for m in bsp.inbox]

    expected = spmd(main)
    for packet in (16, 47, 333):
        assert spmd(main, router=MAKERS[name](packet=packet)) == expected


@every_router
def test_much_data_from_one_to_all_and_from_all_to_one(spmd: Spmd, name: str) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        queue = bsp.queue(np.float64)
        values = np.random.default_rng(bsp.pid).normal(size=30_000)
        queue.send(np.zeros(len(values), np.int64), values)
        bsp.sync()
        seen = [plain(queue.values), plain(queue.sources)]
        if bsp.pid == bsp.p - 1:
            for dest in range(bsp.p):
                bsp.send(dest, values[dest:])
        bsp.sync()
        return [*seen, [plain(m.payload) for m in bsp.inbox]]

    assert spmd(main, router=name) == spmd(main)


# -- who talks to whom, and how much ----------------------------------------------------------------------------------


def relations(bsp: pybsp.BSP) -> None:
    """Supersteps: balanced, lop-sided, with gets, with requests alone, without anything."""
    p, pid = bsp.p, bsp.pid
    queue, array = bsp.queue(np.int64), bsp.array(50)
    rng = np.random.default_rng((7, pid))
    queue.send(rng.integers(p, size=200), np.arange(200))
    bsp.sync()
    queue.send(np.zeros(20 * pid, np.int64), np.arange(20 * pid))
    bsp.send((pid + 1) % p, np.arange(37.0))
    bsp.send(p - 1, {"some": "object"}, tag="tag")
    bsp.sync()
    array.get((pid + 1) % p)
    array.put(0, 1.0, at=pid)
    bsp.sync()
    bsp.sync()
    if pid == 0:
        array.get(p - 1, at=slice(0, 0))
    bsp.sync()


def watched(bsp: pybsp.BSP, packet: int) -> Any:
    """Of each exchange of the program, the packets that this processor cuts, and the loads that its router counts."""
    router: Any = bsp.router
    superstep: Any = bsp._superstep
    route, found = superstep.route, []

    def watching(kind: int, note: object, parcels: Any, charge: Any = None, **other: Any) -> Any:
        table = cut(parcels, bsp.pid, packet, BufferPool()).table[:, [SOURCE, DEST, WORDS]]
        arrival = route(kind, note, parcels, charge, **other)
        found.append((table, [tuple(load) for load in router.last]))
        return arrival

    superstep.route = watching
    relations(bsp)
    superstep.route = route
    return found, (router.rounds, router.words, router.congestion), bsp.time()


@every_router
def test_what_is_counted_and_the_time_it_takes_are_what_the_formulas_say(spmd: Spmd, name: str) -> None:
    machine = pybsp.BSPMachine(spmd.p, g=3e-8, l=2e-5, r=1e9)
    results = spmd(watched, 64, router=MAKERS[name](packet=64, seed=5), machine=machine)
    time, counted = 0.0, []
    for superstep, of_all in enumerate(zip(*(found for found, _, _ in results), strict=True)):
        sources, destinations, words = np.concatenate([table for table, _ in of_all]).T
        relation = Relation(sources, destinations, spmd.p)
        expected = LOADS[name](relation, words, 5, superstep)
        assert np.array([last for _, last in of_all]).swapaxes(0, 1).tolist() == expected.tolist()
        time += COSTS[name](machine, relation, words, 5, superstep)
        counted.append(expected)
    assert len(counted) == 7  # supersteps with gets are two exchanges
    assert [len(loads) for loads in counted] == [rounds(name, spmd.p, moving=spmd.p > 1 and k != 4) for k in range(7)]
    for pid, (_, (exchanges, words, congestion), seconds) in enumerate(results):
        assert exchanges == sum(map(len, counted))
        assert words == sum(int(loads[:, pid, 0].sum()) for loads in counted)
        assert congestion == max(int(loads[:, pid, :2].max()) for loads in counted)
        if not spmd.mpi:
            assert seconds == pytest.approx(time, rel=1e-12)


@every_router
def test_a_message_and_an_item_cost_once_what_they_cost_with_direct(spmd: Spmd, name: str) -> None:
    if spmd.mpi:
        pytest.skip("of virtual time")

    def main(bsp: pybsp.BSP) -> float:
        queue = bsp.queue(np.int64)
        for _ in range(5):
            bsp.send(0, None)
        queue.send([bsp.p - 1] * 30, range(30))
        bsp.work(4000)
        bsp.sync()
        return bsp.time()

    def time(o_msg: float = 0.0, o_item: float = 0.0) -> float:
        machine = pybsp.BSPMachine(spmd.p, g=1e-9, l=1e-6, r=1e9, o_msg=o_msg, o_item=o_item)
        return float(spmd(main, router=name, machine=machine)[0])

    others = spmd.p - 1
    items = 30 * others if others else 0
    assert time(o_item=1e-3) - time() == pytest.approx(1e-3 * items)
    bundles = (time(o_msg=1e-3) - time()) / 1e-3 - 5 * others  # the program's messages: most at processor 0
    assert bundles == pytest.approx(round(bundles), abs=1e-6)
    assert 0 <= round(bundles) <= rounds(name, spmd.p) * (others if name == "two-phase" else 1)
    assert time() >= 4e-6


def test_a_processor_of_the_hypercube_talks_to_its_neighbours_alone(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        transport: Any = bsp._transport
        swap, partners = transport.swap, set()

        def watching(partner: int, *rest: Any) -> Any:
            partners.add(partner)
            return swap(partner, *rest)

        def forbidden(*rest: Any, **more: Any) -> Any:
            raise AssertionError("an exchange of all")

        transport.swap, transport.exchange = watching, forbidden
        try:
            result = everything(bsp)
        finally:
            del transport.swap, transport.exchange
        return result, partners

    q = 1 << spmd.p.bit_length() - 1
    results = spmd(main, router="hypercube")
    assert [result for result, _ in results] == spmd(everything)
    for pid, (_, partners) in enumerate(results):
        if pid < q:
            neighbours = {pid ^ 1 << k for k in range(q.bit_length() - 1)} | ({pid + q} if pid + q < spmd.p else set())
        else:
            neighbours = {pid - q}
        assert partners == neighbours


@pytest.mark.whole
@every_router
def test_the_seed_decides_the_way_and_nothing_else(spmd: Spmd, name: str) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        found, _, _ = watched(bsp, 1024)
        return [loads for _, loads in found]

    def ways(seed: int) -> Any:
        return spmd(main, router=MAKERS[name](seed=seed))

    assert ways(1) == ways(1)
    assert (ways(1) == ways(2)) == (spmd.p == 1)


# -- failures ---------------------------------------------------------------------------------------------------------


@every_router
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
def test_failures_are_those_of_direct(spmd: Spmd, name: str, main: Callable[[pybsp.BSP], Any]) -> None:
    def kinds(router: str) -> list[tuple[type, str]]:
        return [(type(error), str(error)) for error in spmd.errors(main, router=router)]

    expected = kinds("direct")
    assert any(kind is not type(None) for kind, _ in expected) or spmd.p == 1
    assert kinds(name) == expected


@every_router
def test_the_next_run_works_after_a_failure(spmd: Spmd, name: str) -> None:
    for _ in range(2):
        spmd.errors(fails, router=name)
        total = spmd(lambda bsp: collectives.allreduce(bsp, bsp.pid, operator.add), router=name)
        assert total == [sum(range(spmd.p))] * spmd.p


# -- what `router=` may be --------------------------------------------------------------------------------------------


@every_router
def test_a_router_with_options_compares_by_value_and_can_be_pickled(spmd: Spmd, name: str) -> None:
    made = MAKERS[name](packet=7000, seed=3)
    assert pickle.loads(pickle.dumps(made)) == made
    assert made != MAKERS[name](packet=7000, seed=4)
    assert made.name == name


@every_router
def test_options_are_whole_numbers_of_any_kind(name: str) -> None:
    made = MAKERS[name](packet=np.int64(64), seed=np.uint8(3))
    assert made == MAKERS[name](packet=64, seed=3)
    assert type(made.packet) is type(made.seed) is int


@pytest.mark.parametrize(
    ("maker", "arguments", "text"),
    [
        (
            two_phase_router,
            {"packet": 15},
            "two_phase_router: argument packet: expected a whole number of bytes from 16 to 1099511627776, got 15",
        ),
        (hypercube_router, {"seed": 1.5}, "hypercube_router: argument seed: expected a whole number, got 1.5"),
    ],
)
def test_wrong_options_are_errors(spmd: Spmd, maker: Callable[..., Any], arguments: dict[str, Any], text: str) -> None:
    assert caught(maker, **arguments) == Caught(pybsp.UsageError, f"pybsp.routing.{text}")
