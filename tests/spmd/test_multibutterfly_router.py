"""The router `multibutterfly` delivers what `direct` delivers, fails as it does, and its exchanges are supersteps.

On MPI ranks all must draw the same programs: nothing may depend on time, and a failure is not shrunk there.
"""

from __future__ import annotations

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
from pybsp.routing import multibutterfly_router
from pybsp.routing.multibutterfly.network import Multibutterfly
from pybsp.routing.multibutterfly.ranks import Cables, first_rows
from pybsp.routing.multibutterfly.router import MultibutterflyRouter
from pybsp.routing.multibutterfly.wiring import LocalWiring
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

ROUTER = st.builds(
    multibutterfly_router,
    d=st.sampled_from([16, 20]),
    Z=st.sampled_from([4, 200]),
    Y=st.sampled_from([2, 3]),
    seed=st.integers(0, 5),
    packet=st.sampled_from([61, 1024, 1 << 20]),
    stream=st.sampled_from([0, 256, 1 << 20]),
)
STREAMED = multibutterfly_router(stream=0)
CARRIED = multibutterfly_router(stream=1 << 20)


def unchecked(spmd: Spmd) -> None:
    if spmd.checked:
        pytest.skip("checks change nothing here, and it takes long")


def executions(bsp: pybsp.BSP) -> Any:
    router: Any = bsp.router
    assert isinstance(router, MultibutterflyRouter)
    return router.executions


# -- what arrives -----------------------------------------------------------------------------------------------------


@pytest.mark.whole
def test_random_programs_give_what_the_sequential_reading_gives(spmd: Spmd) -> None:
    random_programs.check_on(spmd, ROUTER, on_ranks=2, virtual=5)


def test_a_program_gives_bit_for_bit_what_it_gives_with_direct(spmd: Spmd) -> None:
    unchecked(spmd)
    # Some packets are streamed then, and some are not.
    assert spmd(everything, router=multibutterfly_router(stream=256)) == spmd(everything)


@pytest.mark.whole
@pytest.mark.parametrize(
    ("example", "arguments"), [(heat, (9, 3)), (linear_algebra, (20,)), (pagerank, (4,)), (wordcount, (6,))]
)
def test_the_examples_give_bit_for_bit_what_they_give_with_direct(
    spmd: Spmd, example: ModuleType, arguments: tuple[Any, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    unchecked(spmd)
    results, expected = spmd(example.main, *arguments, router="multibutterfly"), spmd(example.main, *arguments)
    assert plain(results) == plain(expected)


@pytest.mark.parametrize("router", [STREAMED, CARRIED], ids=["streamed", "carried"])
def test_much_data_from_one_to_all_and_from_all_to_one(spmd: Spmd, router: Any) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        queue = bsp.queue(np.float64)
        values = np.random.default_rng(bsp.pid).normal(size=20_000)
        queue.send(np.zeros(len(values), np.int64), values)
        bsp.sync()
        seen = [plain(queue.values), plain(queue.sources)]
        if bsp.pid == bsp.p - 1:
            for dest in range(bsp.p):
                bsp.send(dest, values[dest:])
        bsp.sync()
        return [*seen, [(m.source, plain(m.payload)) for m in bsp.inbox]]

    assert spmd(main, router=router) == spmd(main)


def to_all(bsp: pybsp.BSP) -> Any:
    for dest in range(bsp.p):
        bsp.send(dest, np.arange(10 * bsp.pid + dest))
    bsp.sync()
    return [(m.source, plain(m.payload)) for m in bsp.inbox]


@pytest.mark.parametrize("stream", [0, 1 << 20])
def test_packets_that_are_blocked_go_on_over_another_network(spmd: Spmd, stream: int) -> None:
    if spmd.p < 8:
        pytest.skip("too few rows to block")

    def main(bsp: pybsp.BSP) -> Any:
        return to_all(bsp), [execution.delivered for execution in executions(bsp)]

    found = spmd(main, router=multibutterfly_router(d=12, L=16, stream=stream))
    assert [seen for seen, _ in found] == spmd(to_all)
    assert all(delivered == [False] * (len(delivered) - 1) + [True] for _, delivered in found)
    assert len(found[0][1]) > 1


def test_where_every_network_blocks_all_raise_and_say_what_would_do(spmd: Spmd) -> None:
    if spmd.p < 8:
        pytest.skip("too few rows to block")
    errors = spmd.errors(to_all, router=multibutterfly_router(d=8, L=8))
    assert all(isinstance(error, pybsp.errors.RoutingError) for error in errors)
    assert "with a larger L (fewer active rows) or a larger d they would be" in str(errors[0])


# -- what it takes ----------------------------------------------------------------------------------------------------


def test_a_superstep_in_which_nobody_sends_to_others_is_one_exchange(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        bsp.send(bsp.pid, "to myself")
        bsp.sync()
        bsp.sync()
        return bsp.time(), executions(bsp)

    machine = pybsp.BSPMachine(spmd.p, 1e-9, 1.0, 1e9)
    for time, took in spmd(main, router="multibutterfly", machine=machine):
        assert took == []
        assert spmd.mpi or time == pytest.approx(2.0)


@pytest.mark.parametrize("router", [STREAMED, CARRIED], ids=["streamed", "carried"])
def test_virtual_time_is_that_of_its_exchanges(spmd: Spmd, router: Any) -> None:
    if spmd.mpi:
        pytest.skip("of virtual time")

    def main(bsp: pybsp.BSP) -> Any:
        bsp.work(5e9)
        for k in range(3):
            bsp.send((bsp.pid + k) % bsp.p, np.arange(500))
            bsp.sync()
        return bsp.time(), executions(bsp)

    found = spmd(main, router=router, machine=pybsp.BSPMachine(spmd.p, 1e-12, 1.0, 1e9))
    assert len(found[0][1]) == sum(k % spmd.p > 0 for k in range(3))
    for time, took in found:
        assert time == pytest.approx(5 + 3 + sum(execution.supersteps for execution in took))


def test_the_data_really_crosses_the_processors_that_hold_the_rows(spmd: Spmd) -> None:
    """More words are moved than sent, by processors that send none of their own."""
    if spmd.p < 3:
        pytest.skip("nobody else")

    def main(bsp: pybsp.BSP) -> Any:
        if bsp.pid == bsp.p - 1:
            bsp.send(0, np.arange(10_000))
        bsp.sync()
        return executions(bsp)[0]

    for router in (STREAMED, CARRIED):
        took = spmd(main, router=router)
        assert took[0].h == -(-(10_000 * 8) // 1024)
        assert sum(execution.words for execution in took[1:-1]) > 1000
        # At most all of them in each of the log N columns of edges, and some for the protocol.
        columns = router.rows(spmd.p).bit_length() - 1
        assert 11_000 < sum(execution.words for execution in took) < 12_000 * columns


def test_packets_of_more_bytes_than_stream_select_their_paths_first(spmd: Spmd) -> None:
    if spmd.p == 1:
        pytest.skip("nothing is sent")

    def main(bsp: pybsp.BSP) -> Any:
        bsp.send((bsp.pid + 1) % bsp.p, np.arange(1000))
        bsp.sync()
        return executions(bsp)[0]

    carried, streamed = (spmd(main, router=router)[0] for router in (CARRIED, STREAMED))
    assert streamed.stages == carried.stages
    columns = STREAMED.rows(spmd.p).bit_length() - 1
    assert streamed.supersteps == carried.supersteps + columns


@pytest.mark.parametrize("p", [1, 2, 3, 5, 8])
def test_the_rows_are_spread_and_every_edge_has_two_ends(p: int) -> None:
    network = Multibutterfly(64, 5, 1)
    all_of = [Cables(network, p, pid) for pid in range(p)]
    assert np.array_equal(np.concatenate([np.arange(c.low, c.low + c.rows) for c in all_of]), np.arange(64))
    assert np.array_equal(first_rows(64, p)[:-1], [c.low for c in all_of])
    whole = LocalWiring(network)
    for pid, of in enumerate(all_of):
        for edge in range(0, len(of.head[0]), 7):
            owner, slot = int(of.head[0][edge]), int(of.head[1][edge])
            assert (all_of[owner].tail[0][slot], all_of[owner].tail[1][slot]) == (pid, edge)
            # The same as in one process.
            column, at = divmod(edge, of.rows * 10)
            there = whole.forward(np.array([column * 640 + of.low * 10 + at]))[0][0]
            column, at = divmod(slot, all_of[owner].rows * 10)
            assert there == column * 640 + all_of[owner].low * 10 + at


# -- failures ---------------------------------------------------------------------------------------------------------


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
    assert kinds("multibutterfly") == expected


def test_the_next_run_works_after_a_failure(spmd: Spmd) -> None:
    for _ in range(2):
        spmd.errors(fails, router="multibutterfly")
        found = spmd(lambda bsp: collectives.allreduce(bsp, bsp.pid, np.add), router="multibutterfly")
        assert found == [sum(range(spmd.p))] * spmd.p


# -- what `router=` may be --------------------------------------------------------------------------------------------


def test_a_router_with_options_compares_by_value_and_can_be_pickled() -> None:
    made = multibutterfly_router(d=20, R=16, L=64, Z=3, Y=4, seed=5, packet=64, stream=0)
    assert pickle.loads(pickle.dumps(made)) == made
    assert made != multibutterfly_router(d=20, R=16, L=64, Z=3, Y=4, seed=6, packet=64, stream=0)
    assert made.name == "multibutterfly"
    assert [made.rows(p) for p in (1, 2, 3, 5, 8)] == [64, 128, 256, 512, 512]


def test_options_are_whole_numbers_of_any_kind() -> None:
    given = {"d": 20, "R": 16, "L": 64, "Z": 3, "Y": 4, "seed": 5, "packet": 64, "stream": 0}
    numbers: dict[str, Any] = {name: np.int64(number) for name, number in given.items()}
    made = multibutterfly_router(**numbers)
    assert made == multibutterfly_router(**given)
    assert all(type(getattr(made, name)) is int for name in given)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"d": 0}, "argument d: expected a whole number from 1 to 65536, got 0"),
        ({"d": 2**63}, "argument d: expected a whole number from 1 to 65536, got 9223372036854775808"),
        ({"L": 2**63}, "argument L: expected a whole number from 1 to 65536, got 9223372036854775808"),
        (
            {"packet": 2**70},
            "argument packet: expected a whole number from 16 to 1099511627776, got 1180591620717411303424",
        ),
        ({"d": 7}, "argument d: expected at least R = 8, got 7"),
        ({"R": 6}, "argument R: expected a power of two greater than 4, got 6"),
        ({"L": 1.5}, "argument L: expected a whole number from 1 to 65536, got 1.5"),
        ({"Z": 0}, "argument Z: expected a whole number from 1 to 65536, got 0"),
        ({"Y": 0}, "argument Y: expected a whole number from 1 to 65536, got 0"),
        ({"seed": -1}, "argument seed: expected a whole number of at least 0, got -1"),
        ({"packet": 8}, "argument packet: expected a whole number from 16 to 1099511627776, got 8"),
        ({"stream": None}, "argument stream: expected a whole number of at least 0, got None"),
    ],
)
def test_wrong_options_are_errors(arguments: dict[str, Any], text: str) -> None:
    expected = Caught(pybsp.UsageError, f"pybsp.routing.multibutterfly_router: {text}")
    assert caught(multibutterfly_router, **arguments) == expected


def test_gets_from_oneself_alone_are_answered(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> float:
        x = bsp.array(3)
        x.local[:] = bsp.pid
        bsp.sync()
        ticket = x.get(bsp.pid)
        bsp.sync()
        return float(ticket.value[0])

    assert spmd(main, router="multibutterfly") == list(range(spmd.p))
