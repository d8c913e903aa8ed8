"""order="fixed": what it costs, who sends what to whom, and that all libraries give the same bits."""

# ruff: noqa: B023 - a program that is made in a loop runs within its turn

from __future__ import annotations

import dataclasses
import importlib
import os
import sys
from typing import Any

import numpy as np
import pytest

import pybsp
from pybsp import BSPMachine
from pybsp.collectives import allreduce, exclusive_prefix, fixed_order, prefix, prefix_2d, prefix_fixed, reduce

from ..costs import assert_ledger_is, machine
from ..launching import Program, ended_well, run
from ..tiers import some_of

allreduce_module = importlib.import_module("pybsp.collectives.allreduce")


def whole(a: Any, b: Any) -> Any:
    """No ufunc: values are not cut."""
    return a + b


@pytest.mark.fast("1-max")
@pytest.mark.parametrize(("which", "form"), [(0, "sum"), (2, "sum"), (1, "max")])
def test_the_ledger_is_the_cost_for_every_p(which: int, form: str) -> None:
    for p in some_of([*range(1, 18), 24, 31, 32, 33, 47]):
        parameters = dataclasses.replace(machine(p, which), cost=form)
        root, degree = (3 * p) // 4, 2 + p % 11
        n = [0, 1, 2, p // 2, p - 1, p, p + 1, 3 * p][(p + 3 * which) % 8]
        size = np.dtype(["f8", "f4", "i1", "c16"][p % 4])
        words = size.itemsize / 8

        def main(bsp: pybsp.BSP) -> None:
            reduce(bsp, np.ones(n), np.add, root, order="fixed")
            reduce(bsp, np.ones(n), np.add, root, degree, "fixed")
            allreduce(bsp, np.ones(n, size), np.add, order="fixed")
            allreduce(bsp, np.ones(n, size), whole, degree, "fixed")
            prefix(bsp, np.ones(n, size), np.add, order="fixed")
            prefix(bsp, np.ones(n, size), whole, degree, "fixed")
            prefix_2d(bsp, np.ones(n, size), np.add, degree, "fixed")
            prefix_2d(bsp, np.ones((n, 3), size), whole, order="fixed")
            exclusive_prefix(bsp, np.ones(n, size), np.add, order="fixed")
            exclusive_prefix(bsp, np.ones(n, size), whole, 0, degree, order="fixed")

        cost = reduce.cost(parameters, n, None, root, "fixed", n) + reduce.cost(parameters, n, degree, root, "fixed")
        cost += allreduce.cost(parameters, n * words, None, n, "fixed")
        cost += allreduce.cost(parameters, n * words, degree, 0, "fixed")
        cost += prefix.cost(parameters, n * words, None, n, "fixed")
        cost += prefix.cost(parameters, n * words, degree, 0, "fixed")
        cost += prefix_2d.cost(parameters, n, words, degree, "fixed")
        cost += prefix_2d.cost(parameters, n, 3 * words, None, "fixed")
        cost += exclusive_prefix.cost(parameters, n * words, None, n, order="fixed")
        cost += exclusive_prefix.cost(parameters, n * words, degree, order="fixed")
        assert_ledger_is(cost, main, p=p, machine=parameters)


def test_the_closed_forms_are_what_the_plans_count() -> None:
    for p in some_of([*range(1, 34), 64, 100]):
        for degree in [2, 3, 4, 8, 16, 32, p + 3]:
            for plan, closed in (
                (allreduce.plan(p, degree, "fixed"), allreduce_module.counted(p, degree, "fixed")),
                (prefix.plan(p, degree, "fixed"), prefix_fixed.counted(p, degree)),
                (exclusive_prefix.plan(p, degree, order="fixed"), prefix_fixed.counted(p, degree, True)),
            ):
                steps, after = closed
                assert [s._replace(locality=0) for s in plan.counted()] == [s._replace(locality=0) for s in steps]
                assert after == plan.after
                assert all(a.locality <= b.locality for a, b in zip(plan.counted(), steps, strict=True))
            for k in (0, 1, p // 2, p, 2 * p + 1):
                m = machine(p)
                planned = prefix_2d.plan(p, k, degree, "fixed").cost(m)
                cost = prefix_2d.cost(m, k, 1, degree, "fixed")
                assert [s._replace(locality=0) for s in planned] == [s._replace(locality=0) for s in cost]
                assert cost.after == planned.after


def test_the_degree_chosen_costs_least_of_all() -> None:
    for p in (2, 3, 5, 8, 13, 32, 40):
        for g, latency in ((0.0, 1.0), (0.1, 1.0), (1.0, 1.0), (1.0, 0.0), (1.0, 16.0), (1.0, 300.0)):
            for words in (1, 7, 100):
                m = BSPMachine(p, g, latency, 10.0)
                for primitive in (reduce, allreduce, prefix, exclusive_prefix):
                    least = min(primitive.cost(m, words, d, order="fixed").seconds for d in range(2, p + 1))
                    assert primitive.cost(m, words, order="fixed").seconds == pytest.approx(least, rel=1e-12)


def test_a_degree_is_rounded_down_to_a_power_of_two() -> None:
    for degree, as_this in ((3, 2), (7, 4), (8, 8), (15, 8), (20, 32), (99, 32)):
        for plan in (reduce.plan, allreduce.plan, prefix.plan, exclusive_prefix.plan):
            steps, others = plan(20, degree, order="fixed"), plan(20, as_this, order="fixed")
            assert [step.messages() for step in steps] == [step.messages() for step in others]


def test_words_and_supersteps_are_those_of_a_tree_of_that_degree() -> None:
    for p in range(2, 70):
        for degree in (2, 4, 8):
            supersteps = len(prefix.plan(p, degree))
            for plan in (reduce.plan(p, degree, 0, "fixed"), prefix.plan(p, degree, "fixed")):
                assert len(plan) == supersteps
                assert all(step.h_in <= degree - 1 for step in plan.counted())
            for plan in (allreduce.plan(p, degree, "fixed"), prefix.plan(p, degree, "fixed")):
                assert len(plan) == supersteps
                assert all(step.h <= (1 if p & (p - 1) == 0 else 2) * (degree - 1) for step in plan.counted())


def test_a_group_that_ends_with_the_last_processor_sends_nothing_down() -> None:
    first, second = prefix.plan(4, 2, "fixed")
    assert first.messages() == [(0, 1, range(1)), (1, 0, range(1)), (2, 3, range(1))]
    assert second.messages() == [(0, 2, range(1)), (1, 3, range(1))]
    (flat,) = prefix.plan(5, 5, "fixed")
    assert flat.messages() == [(s, d, range(1)) for s in range(5) for d in range(s + 1, 5)]


def test_no_value_takes_part_in_more_than_log_p_operations() -> None:
    for p in range(1, 130):
        depth = fixed_order.total(p, [(pid, 0) for pid in range(p)], lambda a, b: max(a, b) + 1)
        assert depth == (p - 1).bit_length()


def test_the_flop_are_the_uses_of_the_operator() -> None:
    for p in (2, 3, 5, 8, 13):
        for k in (1, p):  # a tree of one superstep, and blocks

            def main(bsp: pybsp.BSP) -> int:
                uses = 0

                def add(a: float, b: float) -> float:
                    nonlocal uses
                    uses += 1
                    return a + b

                prefix_2d(bsp, [1.0] * k, add, p, "fixed")
                return uses

            assert max(pybsp.simulate(main, p=p).results) == prefix_2d.cost(machine(p), k, 1, p, "fixed").w


@pytest.mark.whole
def test_a_thousand_processors() -> None:
    p = 1000
    parameters = machine(p, 1)

    def main(bsp: pybsp.BSP) -> Any:
        return allreduce(bsp, bsp.pid, np.add, order="fixed"), prefix(bsp, bsp.pid, np.add, order="fixed")

    cost = allreduce.cost(parameters, order="fixed") + prefix.cost(parameters, order="fixed")
    results = assert_ledger_is(cost, main, p=p, machine=parameters)
    assert results == [(p * (p - 1) // 2, pid * (pid + 1) // 2) for pid in range(p)]


# -- the same bits under every library --------------------------------------------------------------------------------

# Values are made by operations that IEEE 754 rounds in one way.
PROGRAM = """
    import hashlib

    import numpy as np

    import pybsp
    from pybsp import collectives


    def main(bsp):
        results = []
        for n in (1, 7, 1000, 100_000):
            place = np.arange(n) + 1_000_003 * bsp.pid
            value = (place * 7919 % 10_007 - 5003) / 997.0 * 2.0 ** (place * 31 % 61 - 30)
            for degree in (None, 2, 4, bsp.p + 1):
                results.append(collectives.reduce(bsp, value, np.add, bsp.p - 1, degree, "fixed"))
                results.append(collectives.allreduce(bsp, value, np.add, degree, "fixed"))
                results.append(collectives.prefix(bsp, value, np.add, degree, "fixed"))
        said = b"".join(np.float64(0 if result is None else result).tobytes() for result in results)
        all_said = collectives.gather(bsp, said)
        return bsp.pid or hashlib.sha256(b"".join(all_said)).hexdigest()


    said = pybsp.run(main)
    if isinstance(said, str):
        print(said)
"""
BITS = {
    3: "81be470784073dbc7a20ebcc5574a9bb9a01540f91f333de9204d09470ed2354",
    4: "1bc7a59f6594b327a229bc4f0658b326d40e3327cd7317df9efe4cf06bb5ffed",
}


@pytest.mark.whole
@pytest.mark.parametrize("p", BITS)
@pytest.mark.parametrize("where", ["virtual processors", "ranks", "ranks of another library"])
def test_every_library_gives_these_bits(p: int, where: str, program: Program) -> None:
    path = program(PROGRAM)
    executable = sys.executable
    if where == "ranks of another library":
        executable = os.environ.get("PYBSP_OTHER_PYTHON", "")
        if not executable:
            pytest.skip("PYBSP_OTHER_PYTHON names no Python with pybsp and another MPI library")
    command = ["simulate", "-p", str(p)] if where == "virtual processors" else ["run", "-n", str(p)]
    ended = run([executable, "-m", "pybsp", *command, str(path)])
    assert ended_well(ended).split() == [BITS[p]]
