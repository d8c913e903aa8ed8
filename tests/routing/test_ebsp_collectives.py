"""The algorithms of *The E-BSP model*, routed: machines charge what networks take, and choose what is fast on them."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from pybsp import EBSPMachine
from pybsp.benchmarks.studies import ebsp_networks as study
from pybsp.benchmarks.studies.ebsp_networks import ARRAY, MESH_KIND, Routed, routed
from pybsp.collectives.ebsp import mesh_broadcast, tree_broadcast
from pybsp.collectives.ebsp.mesh_broadcast import choose as choose_mesh
from pybsp.collectives.ebsp.tree_broadcast import choose as choose_tree
from pybsp.collectives.plan import Plan, joined

PLANS: list[Callable[[str, int], Plan]] = [
    study.ebsp_broadcast,
    study.bsp_broadcast,
    study.scatter,
    partial(study.ebsp_items, power=0.5),
    partial(study.ebsp_items, power=1),
    partial(study.ebsp_gossip, power=0.5),
    study.ebsp_stencil,
    study.hybrid_stencil,
    study.bsp_stencil,
    partial(study.ebsp_product, power=0.5),
    partial(study.bsp_product, power=0.5),
]
KINDS = [ARRAY, MESH_KIND]


def fan_outs(p: int) -> list[tuple[int, ...]]:
    """All with product p, of which no factor is 1."""
    factors = [q for q in range(2, p + 1) if p % q == 0]
    return [f for d in range(1, p.bit_length()) for f in itertools.product(factors, repeat=d) if math.prod(f) == p]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("make", PLANS)
def test_no_superstep_takes_more_than_the_machine_charges(kind: str, make: Callable[[str, int], Plan]) -> None:
    """On the linear array to the step (Theorem 3); on the mesh with the constant 2 of Theorem 5."""
    p = 64
    plan = make(kind, p)
    constant = 1 if kind == ARRAY else 2
    for step in plan[:: max(1, len(plan) // 12)]:
        charged = study.ebsp_machine(kind, p).predict(step.counted())
        assert routed(kind, joined(p, [step])).steps <= constant * charged


@pytest.mark.whole
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("p", "words"), [(16, 1), (64, 1), (64, 8)])
def test_the_fan_outs_that_a_machine_chooses_are_fast_on_its_network(kind: str, p: int, words: int) -> None:
    """The fewest steps with barriers of all fan-outs on the array, within a half of them on the mesh."""
    machine = study.ebsp_machine(kind, p)
    plan, choose = (tree_broadcast.plan, choose_tree) if kind == ARRAY else (mesh_broadcast.plan, choose_mesh)

    def steps(chosen: tuple[int, ...]) -> int:
        planned = plan(p, chosen)
        return routed(kind, study.widened(planned, [words] * len(planned))).with_barriers

    chosen, least = steps(choose(machine, words)), min(map(steps, fan_outs(p)))
    assert least <= chosen <= (1 if kind == ARRAY else 1.5) * least


def test_a_plan_is_routed_superstep_by_superstep() -> None:
    tree = tree_broadcast.plan(8, (2, 4))
    # 0 to 4 is 4 links; then 3 packets each leave 0 and 4, the furthest of 3 links first. BSP charges h*8 + 8 for each.
    assert routed(ARRAY, tree) == Routed(2, 4 + 3, 7 + 2 * 8, (8 + 8) + (3 * 8 + 8))
    assert routed(ARRAY, study.widened(tree, [2, 3])) == Routed(2, 5 + 9, 14 + 16, (16 + 8) + (9 * 8 + 8))
    assert routed(MESH_KIND, joined(16, [])) == Routed(0, 0, 0, 0)
    assert [study.barrier(ARRAY, p) for p in (1, 2, 7, 8)] == [0, 2, 6, 8]
    assert [study.barrier(MESH_KIND, p) for p in (1, 4, 16)] == [0, 2, 6]


@pytest.mark.parametrize("p", [8, 16, 64])
def test_the_product_on_bsp_brings_each_processor_what_it_multiplies(p: int) -> None:
    sent, added = study.bsp_product(ARRAY, p, 1)
    sides = sorted(min((f for f in itertools.product(range(1, p + 1), repeat=3) if math.prod(f) == p), key=sum))
    for step, dimensions in ((sent, 2), (added, 1)):
        out, into = (np.bincount(ends, minlength=p) for ends in (step.sources, step.destinations))
        assert (out == out[0]).all()
        assert (into == out[0]).all()
        assert out[0] in {sum(some) - dimensions for some in itertools.combinations(sides, dimensions)}
        assert ((step.last - step.first) == p).all()  # N^2/P words, N = P


@pytest.mark.whole
def test_factors_grow_as_the_paper_says() -> None:
    """On a linear array log P for broadcast, with barriers, and P for a scatter against its charge on BSP."""
    for p in (32, 128, 512):
        ours, theirs = (routed(ARRAY, make(ARRAY, p)) for make in (study.ebsp_broadcast, study.bsp_broadcast))
        assert theirs.supersteps == math.log2(p)
        assert theirs.with_barriers / ours.with_barriers > math.log2(p) / 2
        scatter = routed(ARRAY, study.scatter(ARRAY, p))
        assert scatter.steps == p - 1
        assert scatter.charge == p * p
        assert EBSPMachine.linear_array(p).predict(study.scatter(ARRAY, p)[0].counted()) == 2 * p - 3


@pytest.mark.whole
def test_n_items_on_the_mesh_take_order_n_where_bsp_charges_order_n_root_p() -> None:
    ratios = []
    for p in (16, 64, 256):
        ours = routed(MESH_KIND, study.ebsp_items(MESH_KIND, p, 1))
        charge = routed(MESH_KIND, study.bsp_items(MESH_KIND, p, 1)).charge
        assert ours.with_barriers <= 6 * p
        ratios.append(charge / ours.with_barriers / math.sqrt(p))
    assert min(ratios) > 0.25


@pytest.mark.whole
def test_the_study_prints_its_tables_and_keeps_all_figures(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    broadcasts = [problem for problem in study.PROBLEMS if problem[0] == "broadcast"]
    few = {(name, kind, (4, 16, 64)): study.PROBLEMS[name, kind, sizes] for name, kind, sizes in broadcasts}
    monkeypatch.setattr(study, "PROBLEMS", few)
    monkeypatch.setattr(study, "theorem_3_families", lambda quick: [study.theorem_3("two", [study.shift(2, 1, 3)])])
    monkeypatch.setattr(study, "lemma_4_constants", lambda quick: [study.lemma_4(16, 1, 4)])
    monkeypatch.setattr(
        study, "theorem_5_kinds", lambda quick: [study.theorem_5("snake", 4, "", [study.shift(4, 1, 1)])]
    )
    monkeypatch.setattr(study, "distances", partial(lambda found, name, p: found, study.distances("peano", 16)))
    file = tmp_path / "figures.json"
    monkeypatch.setattr("sys.argv", ["ebsp_networks", "--quick", "--json", str(file)])
    study.main()
    content = json.loads(file.read_text())
    assert set(content) >= {"theorem 3", "distances", "lemma 4", "theorem 5", "corner", "algorithms"}
    assert content["theorem 3"][0]["furthest first: largest"] == 1
    array = content["algorithms"][0]
    assert (array["algorithm"], array["sizes"]) == ("tree_broadcast", [4, 16])
    assert [found["steps"] for found in array["routed"]] == [3, 15]
    assert array["steps"] == pytest.approx(math.log(5) / math.log(4))
    assert capsys.readouterr().out.count("linear array") >= 2
