"""LogP programs whose messages are packets: each arrives when a network that sends the oldest first would have it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pybsp
from pybsp import LogPMachine
from pybsp.benchmarks.studies import logp_on_networks as study
from pybsp.errors import RoutingError, UsageError
from pybsp.logp import Processor, Simulation, simulate
from pybsp.routing import NetworkSchedule, networks
from pybsp.routing.logp.offline import offline_program

from ..tiers import some

NETWORKS: dict[str, networks.Network] = {
    "array": networks.Array((2, 4)),
    "cube": networks.Hypercube(8),
    "butterfly": networks.Butterfly(8),
    "torus": networks.Torus((8,)),
    "tree": networks.FatTree(8),
}


def scattered(proc: Processor, seed: int) -> int:
    """Messages to some, at some times; all are received that come before long."""
    draw = random.Random(f"{seed} {proc.pid}")
    for k in range(6):
        proc.compute(draw.randrange(9))
        proc.send((proc.pid + 1 + draw.randrange(proc.p - 1)) % proc.p, k)
    received = 0
    while proc.recv(until=600):
        received += 1
    return received


def carried(net: networks.Network, done: Simulation, seed: int) -> list[int]:
    """When each message arrives, step by step: over each link, and to each processor, the oldest goes first."""
    trace = done.trace
    # The order of acceptance: in a step by destination.
    order = np.lexsort((np.arange(len(trace)), trace.dest, trace.acceptance)).tolist()
    rng = np.random.default_rng(seed)
    ways: dict[tuple[int, int], list[int]] = {}
    left: dict[int, list[int]] = {}
    for i in order:
        begin, end = int(net.places[trace.source[i]]), int(net.ends[trace.dest[i]])
        if (begin, end) not in ways:
            at, to, way = np.array([begin]), np.array([end]), []
            state = net.begin(at, to, rng)
            while at[0] != end:
                link, state = net.step(at, to, state, rng)
                way.append(int(link[0]))
                at = net.heads[link]
            ways[begin, end] = way
        left[i] = list(ways[begin, end])
    arrived, now = [-1] * len(trace), -1
    while -1 in arrived:
        now += 1
        links: set[int] = set()
        ends: set[int] = set()
        for i in order:
            if arrived[i] >= 0 or trace.acceptance[i] > now:
                continue
            if not left[i]:  # over its last link before this step: here at its beginning
                if trace.dest[i] not in ends and now > trace.acceptance[i]:
                    ends.add(int(trace.dest[i]))
                    arrived[i] = now
            elif left[i][0] not in links:
                links.add(left[i].pop(0))
    return arrived


@given(name=st.sampled_from(sorted(NETWORKS)), seed=st.integers(0, 1000), G=st.sampled_from([2, 3, 8]))
@settings(max_examples=some(60), deadline=None)
def test_messages_arrive_when_packets_would(name: str, seed: int, G: int) -> None:
    net = NETWORKS[name]
    schedule = NetworkSchedule(net, seed=3)
    done = simulate(scattered, machine=LogPMachine(8, L=200, o=1, G=G), schedule=schedule, args=(seed,))
    assert sum(done.results) == len(done.trace) == 48
    assert done.trace.delivery.tolist() == carried(net, done, 3)
    assert sorted(schedule.steps) == sorted(done.trace.delivery - done.trace.acceptance)


def test_results_are_those_of_any_execution_and_the_same_seed_gives_the_same_one() -> None:
    p, rng = 16, np.random.default_rng(1)
    program = offline_program(np.repeat(np.arange(p), 5), rng.integers(p, size=5 * p), p)
    machine = LogPMachine(p, L=40, o=1, G=4)
    plain = simulate(program, machine=machine)
    for two_phase in (False, True):
        once, again, other = (
            simulate(
                program, machine=machine, schedule=NetworkSchedule(networks.Hypercube(p), two_phase=two_phase, seed=s)
            )
            for s in (1, 1, 2)
        )
        assert [sorted(found, key=str) for found in once.results] == [sorted(found, key=str) for found in plain.results]
        assert once.stalled == 0
        assert once.trace.delivery.tolist() == again.trace.delivery.tolist()
        assert (once.trace.delivery.tolist() == other.trace.delivery.tolist()) == (not two_phase)


def test_two_phases_go_by_a_node_that_is_drawn() -> None:
    path = NetworkSchedule(networks.LinearArray(9), two_phase=True, seed=4)

    def program(proc: Processor) -> None:
        for _ in range(20):
            if proc.pid == 0:
                proc.compute(30)
                proc.send(1, None)
            elif proc.pid == 1:
                proc.recv()

    simulate(program, machine=LogPMachine(9, L=16, o=1, G=2), schedule=path)
    assert set(path.steps.tolist()) <= {1, 3, 5, 7, 9, 11, 13, 15}
    assert len(set(path.steps.tolist())) > 4


def test_a_message_that_takes_longer_than_L_is_an_error_that_says_so() -> None:
    def program(proc: Processor) -> Any:
        return proc.send(7, None) if proc.pid == 0 else proc.recv() if proc.pid == 7 else None

    path = networks.LinearArray(8)
    assert simulate(program, machine=LogPMachine(8, L=7, o=1, G=2), schedule=NetworkSchedule(path)).time == 9
    with pytest.raises(
        RoutingError,
        match=r"from processor 0 to 7 accepted at 1 takes 7 steps on <linear array of 8>, more than L = 6: a LogP",
    ):
        simulate(program, machine=LogPMachine(8, L=6, o=1, G=2), schedule=NetworkSchedule(path))


def test_what_cannot_be_is_an_error() -> None:
    with pytest.raises(UsageError, match="NetworkSchedule: network: expected a Network, got 'hypercube'"):
        NetworkSchedule("hypercube")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="NetworkSchedule: two_phase: expected True or False, got 'no'"):
        NetworkSchedule(networks.Hypercube(8), two_phase="no")  # type: ignore[arg-type]
    cube = NetworkSchedule(networks.Hypercube(8))
    with pytest.raises(
        RoutingError, match="expected a network of p = 4 processors, as the machine has, got <hypercube"
    ):
        simulate(lambda proc: None, 4, schedule=cube)
    with pytest.raises(UsageError, match="NetworkSchedule: argument seed: expected a whole number"):
        NetworkSchedule(networks.Hypercube(8), seed="x")  # type: ignore[arg-type]


def test_before_a_simulation_no_message_has_taken_steps() -> None:
    assert NetworkSchedule(networks.Hypercube(8)).steps.tolist() == []


def test_a_long_message_is_one_packet() -> None:
    """LogGP: its words take the sender's port; then it crosses the network as any."""
    path = NetworkSchedule(networks.LinearArray(4))

    def program(proc: Processor) -> Any:
        return proc.send(3, np.zeros(11)) if proc.pid == 0 else proc.recv() and proc.time if proc.pid == 3 else None

    machine = pybsp.LogPMachine(4, L=8, o=1, G=4, G_word=2.0)
    assert simulate(program, machine=machine, schedule=path).results[3] == 1 + 20 + 3 + 1
    assert path.steps.tolist() == [3]


@pytest.mark.whole
@pytest.mark.parametrize("case", [study.CASES[k] for k in (1, 3, 5)], ids=lambda case: case.name)
def test_networks_are_the_logp_machines_that_the_paper_says(case: study.Case) -> None:
    """Observation 1: with G = c' gamma there is an L of c (gamma + delta), c' and c small, whatever p."""
    for p in case.p[:2]:
        found = study.measure(case, p, 2)
        assert found.G / found.gamma <= 2.2
        assert found.L / (found.gamma + found.delta) <= 2.5
        assert found.sorting is not None
        assert max(found.random, found.bad, found.sorting) <= found.L


@pytest.mark.whole
def test_the_study_prints_its_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study.main(["--quick", "--json", str(tmp_path / "kept.json")])
    assert "LogP machines on networks" in capsys.readouterr().out
    assert (tmp_path / "kept.json").stat().st_size > 100
