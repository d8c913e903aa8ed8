"""The communication algorithms of *The E-BSP model*, section 4: results, errors, the ledger."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import pybsp
from pybsp import Cost, EBSPMachine
from pybsp.collectives.ebsp.gossip import gossip
from pybsp.collectives.ebsp.items_broadcast import items_broadcast
from pybsp.collectives.ebsp.mesh_broadcast import mesh_broadcast
from pybsp.collectives.ebsp.personalised_broadcast import personalised_broadcast
from pybsp.collectives.ebsp.tree_broadcast import tree_broadcast
from tests.conftest import Spmd
from tests.tiers import some

from ..costs import charged, counted
from .programs import plain

BROADCASTS: list[Callable[..., Any]] = [tree_broadcast, mesh_broadcast, items_broadcast]
NETWORKS = ["linear_array", "mesh"]


def examples(spmd: Spmd) -> Callable[[Any], Any]:
    """Examples that all ranks draw alike: nothing depends on time, and a failure is not shrunk there."""
    return settings(
        max_examples=some(8 if spmd.mpi else 25),
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate] if spmd.mpi else [Phase.generate, Phase.shrink],
    )


KIND = st.tuples(
    st.sampled_from(["array", "rows", "number", "numpy number", "text", "object", "nothing"]),
    st.sampled_from(["f8", "i2", "u1", "c16", "?", "S3", "M8[s]", "i4,f8"]),
    st.one_of(st.integers(0, 3), st.integers(0, 70)),
)


def made(kind: tuple[str, str, int], seed: int = 0) -> Any:
    """A value of a kind: an array of a dtype and size, a number, an object."""
    what, dtype, size = kind
    array = (np.arange(size * 6, dtype="u4") * 7 + seed + 1).astype("u1").astype("i8").view("u1")
    values = np.resize(array, size * np.dtype(dtype).itemsize).view("u1")
    if dtype == "?":
        values = values % 2
    typed = values.astype("u1").view(dtype)
    return {
        "array": typed,
        "rows": np.stack([typed, typed])[:, ::-1],
        "number": size + seed / 2,
        "numpy number": np.float32(size + seed),
        "text": "héllo" * size,
        "object": {"of": [typed, size, {"seed": seed}]},
        "nothing": None,
    }[what]


def write_to(value: Any) -> None:
    """What is one's own may be written to."""
    if isinstance(value, np.ndarray):
        assert value.flags.writeable
        value[...] = np.zeros((), value.dtype)
    elif isinstance(value, dict):
        write_to(value["of"][0])


def broadcasting(bsp: pybsp.BSP, primitive: Callable[..., Any], value: Any, root: int, options: dict[str, Any]) -> Any:
    """What comes, after a sync behind it, and then written over."""
    mine = value if bsp.pid == root else "not the root's"
    result = primitive(bsp, mine, root=root, **options)
    assert (result is mine) == (bsp.pid == root)
    bsp.sync()
    seen = plain(result)
    if bsp.pid != root:
        write_to(result)
    bsp.sync()
    return seen


@pytest.mark.parametrize("primitive", BROADCASTS)
def test_all_get_the_value_of_the_root(spmd: Spmd, primitive: Callable[..., Any]) -> None:
    @examples(spmd)
    @given(KIND, st.integers(0, 100), st.sampled_from([None, *NETWORKS]))
    def check(kind: tuple[str, str, int], root: int, network: str | None) -> None:
        machine = network and getattr(EBSPMachine, network)(spmd.p)
        options = {"machine": machine} | ({"fan_outs": "cheapest"} if machine and primitive is mesh_broadcast else {})
        value = made(kind)
        before = plain(value)
        assert spmd(broadcasting, primitive, value, root % spmd.p, options) == [before] * spmd.p
        assert plain(value) == before

    check()


@pytest.mark.parametrize("primitive", [tree_broadcast, mesh_broadcast])
def test_all_get_the_value_whatever_the_fan_outs(spmd: Spmd, primitive: Callable[..., Any]) -> None:
    @examples(spmd)
    @given(st.lists(st.integers(1, 5), max_size=5), st.integers(0, 100))
    def check(fan_outs: list[int], root: int) -> None:
        reach = int(np.prod(fan_outs, dtype=int))
        enough = [*fan_outs, -(-spmd.p // reach)]  # a product of at least p
        results = spmd(broadcasting, primitive, np.arange(3), root % spmd.p, {"fan_outs": enough})
        assert results == [plain(np.arange(3))] * spmd.p

    check()


def test_what_came_with_the_last_sync_may_be_passed_on(spmd: Spmd) -> None:
    """A message's array is read-only, and ends with the first sync of the primitive."""

    def main(bsp: pybsp.BSP) -> Any:
        found = []
        for primitive in (tree_broadcast, mesh_broadcast, items_broadcast, gossip, personalised_broadcast):
            bsp.send((bsp.pid + 1) % bsp.p, np.arange(3.0 * bsp.p) + bsp.pid)
            bsp.sync()
            found.append(primitive(bsp, bsp.inbox[0].payload.reshape(bsp.p, 3)))
            bsp.sync()
        return plain(found)

    p = spmd.p
    sent = [np.arange(3.0 * p).reshape(p, 3) + (pid - 1) % p for pid in range(p)]
    assert spmd(main) == [plain([sent[0], sent[0], sent[0], sent, sent[0][pid]]) for pid in range(p)]


def gossiping(bsp: pybsp.BSP, kinds: list[tuple[str, str, int]]) -> Any:
    mine = made(kinds[bsp.pid % len(kinds)], bsp.pid)
    values = gossip(bsp, mine)
    assert values[bsp.pid] is mine
    bsp.sync()
    seen = [plain(value) for value in values]
    for pid, value in enumerate(values):
        if pid != bsp.pid:
            write_to(value)
    return seen


def test_gossip_gives_all_the_values_of_all_by_pid(spmd: Spmd) -> None:
    @examples(spmd)
    @given(st.lists(KIND, min_size=1, max_size=8))
    def check(kinds: list[tuple[str, str, int]]) -> None:
        expected = [plain(made(kinds[pid % len(kinds)], pid)) for pid in range(spmd.p)]
        assert spmd(gossiping, kinds) == [expected] * spmd.p

    check()


def personal(bsp: pybsp.BSP, values: Any, root: int) -> Any:
    result = personalised_broadcast(bsp, values if bsp.pid == root else None, root)
    bsp.sync()
    seen = plain(result)
    if bsp.pid != root:
        write_to(result)
    return seen


def test_each_gets_its_own_value_by_personalised_broadcast(spmd: Spmd) -> None:
    @examples(spmd)
    @given(st.lists(KIND, min_size=1, max_size=8), st.integers(0, 100))
    def check(kinds: list[tuple[str, str, int]], root: int) -> None:
        values = [made(kinds[pid % len(kinds)], pid) for pid in range(spmd.p)]
        assert spmd(personal, values, root % spmd.p) == [plain(value) for value in values]

    check()


def test_personalised_broadcast_takes_the_rows_of_an_array(spmd: Spmd) -> None:
    rows = np.arange(3.0 * spmd.p).reshape(spmd.p, 3)
    assert spmd(personal, rows, spmd.p - 1) == [plain(row) for row in rows]


# -- the ledger -----------------------------------------------------------------------------------------------------


def ledger_of(bsp: pybsp.BSP, primitive: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    primitive(bsp, *arguments)
    bsp.sync()
    assert {record.label for record in bsp.ledger[:-1]} <= {primitive.__name__}
    return counted(bsp.ledger, work=False)


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("words", [0, 1, 2, 3, 17])
def test_the_ledger_is_what_the_cost_said(spmd: Spmd, words: int, network: str) -> None:
    machine = getattr(EBSPMachine, network)(spmd.p)
    root = spmd.p // 2
    value = np.arange(words)
    runs: list[tuple[Callable[..., Any], tuple[Any, ...], Cost]] = [
        (tree_broadcast, (value, root, None, machine), tree_broadcast.cost(machine, words, root=root)),
        (mesh_broadcast, (value, root), mesh_broadcast.cost(machine, words, root=root)),
        (
            mesh_broadcast,
            (value, root, "cheapest", machine),
            mesh_broadcast.cost(machine, words, "cheapest", root),
        ),
        (items_broadcast, (value, root, machine), items_broadcast.cost(machine, words, root)),
        (gossip, (value,), gossip.cost(machine, words)),
        (personalised_broadcast, ([value] * spmd.p, root), personalised_broadcast.cost(machine, words, root)),
    ]
    for primitive, arguments, cost in runs:
        assert spmd(ledger_of, primitive, arguments) == [charged(cost, work=False)] * spmd.p


def test_the_ledger_is_what_the_cost_on_the_machine_in_force_said(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        tree_broadcast(bsp, np.arange(9))
        items_broadcast(bsp, np.arange(9))
        bsp.sync()
        costs = tree_broadcast.cost(bsp.machine, 9) + items_broadcast.cost(bsp.machine, 9)
        return counted(bsp.ledger, work=False) == charged(costs, work=False)

    assert all(spmd(main))


# -- bad input ------------------------------------------------------------------------------------------------------


def assert_all_refuse(spmd: Spmd, main: Callable[..., Any], *charged: str) -> None:
    """Every processor ends with an error that says so; one at least found it itself."""
    errors = spmd.errors(main)
    # Checked mode may tell it first, by the labels of the supersteps.
    assert any(isinstance(error, (pybsp.UsageError, pybsp.SyncError)) for error in errors), errors
    for error in errors:
        assert isinstance(error, pybsp.BSPError)
        for part in charged:
            assert part in str(error)


@pytest.mark.parametrize("primitive", [*BROADCASTS, personalised_broadcast])
@pytest.mark.parametrize("root", [-1, 8, 0.5, "0", True])
def test_a_root_that_is_no_processor_is_refused(spmd: Spmd, primitive: Callable[..., Any], root: Any) -> None:
    assert_all_refuse(
        spmd, lambda bsp: primitive(bsp, 1, root=root), f"{primitive.__name__}: argument root", repr(root)
    )


@pytest.mark.parametrize("primitive", [tree_broadcast, mesh_broadcast])
@pytest.mark.parametrize("fan_outs", [[0, 9], [-3, -3], [2.5, 8], 8, "8", [None, 8], ["4", "2"]])
def test_fan_outs_that_are_no_whole_numbers_are_refused(
    spmd: Spmd, primitive: Callable[..., Any], fan_outs: Any
) -> None:
    name = primitive.__name__
    assert_all_refuse(
        spmd, lambda bsp: primitive(bsp, 1, fan_outs=fan_outs), f"{name}: argument fan_outs", f"got {fan_outs!r}"
    )


@pytest.mark.parametrize("primitive", [tree_broadcast, mesh_broadcast])
def test_fan_outs_that_do_not_reach_all_are_refused(spmd: Spmd, primitive: Callable[..., Any]) -> None:
    short = [spmd.p - 1] if spmd.p > 1 else [0]
    assert_all_refuse(spmd, lambda bsp: primitive(bsp, 1, fan_outs=short), f"{primitive.__name__}: argument fan_outs")


@pytest.mark.parametrize("primitive", BROADCASTS)
def test_a_machine_for_other_processors_is_refused(spmd: Spmd, primitive: Callable[..., Any]) -> None:
    machine = EBSPMachine.mesh(spmd.p + 1)
    assert_all_refuse(
        spmd, lambda bsp: primitive(bsp, 1, machine=machine), f"{primitive.__name__}: argument machine", f"{spmd.p}"
    )


@pytest.mark.parametrize("primitive", [*BROADCASTS, personalised_broadcast])
def test_different_roots_are_refused(spmd: Spmd, primitive: Callable[..., Any]) -> None:
    if spmd.p == 1:
        return
    values = [1] * spmd.p
    assert_all_refuse(spmd, lambda bsp: primitive(bsp, values, root=bsp.pid), primitive.__name__, "root")


@pytest.mark.parametrize("primitive", [tree_broadcast, mesh_broadcast])
def test_different_fan_outs_are_refused(spmd: Spmd, primitive: Callable[..., Any]) -> None:
    if spmd.p < 3:
        return
    assert_all_refuse(
        spmd,
        lambda bsp: primitive(bsp, 1, fan_outs=[spmd.p] if bsp.pid % 2 else [2, -(-spmd.p // 2)]),
        f"{primitive.__name__}: argument fan_outs: expected the same on all processors",
    )


@pytest.mark.parametrize("primitive", BROADCASTS)
def test_a_value_that_cannot_be_pickled_is_refused(spmd: Spmd, primitive: Callable[..., Any]) -> None:
    if spmd.p == 1:
        return
    assert_all_refuse(
        spmd, lambda bsp: primitive(bsp, lambda: None, root=1), f"{primitive.__name__}: argument", "pickled"
    )


def test_gossip_refuses_a_value_that_cannot_be_pickled(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> None:
        gossip(bsp, (lambda: None) if bsp.pid == 0 else 1)

    assert_all_refuse(spmd, main, "gossip: argument value", "pickled")


@pytest.mark.parametrize("values", [None, 3, "abcdefgh", {0: 1}, np.float64(1), [1] * 9, np.zeros((9, 2))])
def test_personalised_broadcast_refuses_what_is_not_a_value_for_each(spmd: Spmd, values: Any) -> None:
    assert_all_refuse(
        spmd, lambda bsp: personalised_broadcast(bsp, values), "personalised_broadcast: argument values", f"{spmd.p}"
    )


def test_different_primitives_at_once_are_refused(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> None:
        (gossip if bsp.pid % 2 else tree_broadcast)(bsp, 1)

    if spmd.p > 1:
        assert_all_refuse(spmd, main, "gossip", "tree_broadcast")
