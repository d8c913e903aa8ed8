"""One comparison of all routers: that it counts what they do, and refuses what arrives elsewhere."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import pybsp
from pybsp import BSPMachine
from pybsp.benchmarks.studies import routing_comparison
from pybsp.benchmarks.studies.frame import on_ranks
from pybsp.benchmarks.studies.routing_comparison import (
    NETWORKS,
    RELATIONS,
    WORDS,
    on_networks,
    on_routers,
    program,
    studied,
)
from pybsp.errors import RoutingError
from pybsp.routing import Relation
from pybsp.routing.forwarding import hypercube, two_phase
from pybsp.routing.relations import all_to_one, bit_reversal, permutation, random_relation


def machine(p: int) -> BSPMachine:
    return BSPMachine(p=p, g=1e-8, l=1e-5, r=1e9)


def rows(relation: Relation) -> dict[str, routing_comparison.Row]:
    return {row.router: row for row in on_routers(machine(relation.p), "any", relation)}


def test_relations_are_those_that_fit() -> None:
    assert list(studied(16, 2)) == list(RELATIONS)
    assert set(RELATIONS) - set(studied(13, 2)) == {"bit reversal", "transpose"}
    assert set(RELATIONS) - set(studied(8, 2)) == {"transpose"}


@pytest.mark.parametrize("p", [1, 2, 5, 8])
def test_forwarding_is_counted_as_its_formulas_have_it(p: int) -> None:
    relation = permutation(p, 1, seed=3)  # a packet to a processor, so an item is a packet
    moving = relation.moving()
    found = rows(relation)
    for name, module in (("two-phase", two_phase), ("hypercube", hypercube)):
        loads = module.loads(relation, WORDS)
        assert found[name].supersteps == len(loads)
        assert found[name].time == pytest.approx(module.cost(machine(p), relation, WORDS))
        if moving.M:
            assert found[name].moved == pytest.approx(loads[:, :, 0].sum() / (WORDS * moving.M))
            assert found[name].most == pytest.approx(loads[:, :, :2].max() / (WORDS * moving.h))


@pytest.mark.parametrize("h", [0, 1, 5])
def test_direct_takes_what_the_machine_charges(h: int) -> None:
    relation = random_relation(6, h)
    found = rows(relation)
    assert found["direct"].time == pytest.approx(machine(6).l + machine(6).g * WORDS * relation.moving().h)
    assert found["direct"].over == 1
    assert all(row.over == pytest.approx(row.time / found["direct"].time) for row in found.values())


def test_multibutterfly_is_counted_on_all_processors() -> None:
    found = rows(all_to_one(5, 3))["multibutterfly"]
    assert found.stages == 8  # N = 256
    assert found.supersteps is not None
    assert found.moved is not None
    # Each of its exchanges is charged l, and moves no less than what the program sends.
    assert found.time >= found.supersteps * machine(5).l
    assert found.moved >= 1


@pytest.mark.parametrize("p", [3, 8])
def test_logp_messages_are_those_of_packets_and_synchronisation(p: int) -> None:
    relation = Relation(np.arange(p), (np.arange(p) + 1) % p, p)
    found = rows(relation)
    by_sorting, by_plan = found["logp-sorted"], found["logp-offline"]
    # With h below ceil(L/G) all go at once, after two trees of p - 1 messages up and down.
    assert by_sorting.moved == pytest.approx(1 + 4 * (p - 1) / p)
    assert by_plan.moved is not None
    assert by_plan.moved > 1 + 4 * (p - 1) / p  # the relation is gathered first
    assert by_sorting.stalled == 0
    assert by_sorting.supersteps is None


def test_what_arrives_elsewhere_is_an_error() -> None:
    here, there = random_relation(4, 3, seed=1), random_relation(4, 3, seed=2)
    with pytest.raises(RoutingError, match="other packets"):
        pybsp.simulate(lambda bsp: program(bsp, there if bsp.pid == 2 else here), p=4)


def test_networks_are_those_that_fit() -> None:
    assert [row.network for row in on_networks(64, "any", random_relation(64, 1))] == list(NETWORKS)
    assert {row.network for row in on_networks(24, "any", random_relation(24, 1))} == {"butterfly"}
    assert on_networks(13, "any", random_relation(13, 1)) == []


@pytest.mark.parametrize("h", [1, 3])
def test_bit_reversal_is_bad_for_greedy_routing_alone(h: int) -> None:
    found = {row.network: row for row in on_networks(256, "bit reversal", bit_reversal(256, h))}
    assert found["hypercube, fixed order"].max_link_load == 8 * h  # sqrt(256)/2
    assert found["two phases"].max_link_load < 8 * h
    assert found["random order"].max_link_load < 8 * h


@pytest.mark.whole
def test_command_prints_keeps_and_draws(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    written, drawn = tmp_path / "found.json", tmp_path / "page.png"
    monkeypatch.setattr(sys, "argv", ["any", "--quick", "--json", str(written), "--plot", str(drawn)])
    routing_comparison.main()
    printed = capsys.readouterr().out
    found = json.loads(written.read_text())
    assert {row["router"] for row in found["routers"]} == set(routing_comparison.routers(machine(5)))
    assert len(found["routers"]) == 7 * (len(studied(5, 4)) + len(studied(16, 4)))
    for row in found["networks"]:
        assert f"{row['steps']} / {row['max_queue']} / {row['max_link_load']}" in printed
    assert drawn.read_bytes().startswith(b"\x89PNG")


@pytest.mark.whole
def test_ranks_measure_what_is_to_be_compared() -> None:
    found = on_ranks(routing_comparison.on_these, 4, 10, 1000, 2, 2, n=4, limit=120)
    assert [row["router"] for row in found[:: len(RELATIONS)]] == list(routing_comparison.routers(machine(4)))
    assert all(len(row["seconds"]) == 2 and min(row["seconds"]) > 0 for row in found)
