"""Relations that go by a plan, or in random batches, on MPI ranks and on the simulated machine."""

from __future__ import annotations

from typing import Any

import numpy as np

from pybsp import LogPMachine
from pybsp.logp import Processor
from pybsp.routing.logp.offline import learn, offline_program, route_offline, timetable
from pybsp.routing.logp.phases import Phases
from pybsp.routing.logp.random import route_random

from .test_logp_run import LogP, pytest_generate_tests  # noqa: F401

Packets = list[tuple[int, Any]]


def relation(p: int, messages: int, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng((p, seed))
    return rng.integers(0, p, messages), rng.integers(0, p, messages)


def due(sources: Any, dests: Any, pid: int) -> list[tuple[int, Any]]:
    """What a processor should receive, where the payload of message i is i."""
    return sorted((int(sources[i]), int(i)) for i in np.flatnonzero(dests == pid))


def test_a_relation_known_beforehand(machine: LogP) -> None:
    sources, dests = relation(machine.p, 30 * machine.p)
    routed = machine(offline_program(sources, dests, machine.p))
    assert [sorted(received) for received in routed] == [due(sources, dests, pid) for pid in range(machine.p)]


def test_relations_that_are_learnt_and_plans_that_are_kept(machine: LogP) -> None:
    def program(proc: Processor) -> None:
        phases, kept = Phases(proc), timetable(*relation(proc.p, 20), proc.p)
        for seed in (0, 1, 0):
            sources, dests = relation(proc.p, 20, seed)
            mine: Packets = [(int(dests[i]), int(i)) for i in np.flatnonzero(sources == proc.pid)]
            known = learn(phases, mine)
            assert (known.h, known.both) == (
                timetable(sources, dests, proc.p).h,
                timetable(sources, dests, proc.p).both,
            )
            assert sorted(route_offline(phases, mine, known)) == due(sources, dests, proc.pid)
            if not seed:
                assert sorted(route_offline(phases, mine, kept)) == due(sources, dests, proc.pid)

    machine(program)


def test_random_batches_whether_their_degree_is_known_or_not(machine: LogP) -> None:
    def program(proc: Processor) -> None:
        phases, p = Phases(proc), proc.p
        everybody: Packets = [(dest, proc.pid) for dest in range(p)]
        all_sources = [(source, source) for source in range(p)]
        for seed in range(3):
            assert sorted(route_random(phases, everybody, p - 1, beta=0.5, seed=seed)) == all_sources
            assert sorted(route_random(phases, everybody, beta=0.5, seed=seed)) == all_sources
            told = route_random(phases, everybody, p - 1, expected=p - 1, beta=0.5, seed=seed)
            assert sorted(told) == all_sources

    # Capacity 1: nothing from 3 processors on goes directly.
    machine(program, LogPMachine(machine.p, L=4, o=1, G=4, step=1e-6))
