"""LogP programs on a BSP machine, on virtual processors and on MPI ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pybsp
from pybsp import LogPMachine, logp
from pybsp.logp import Processor
from pybsp.routing import logp_on_bsp

from ..conftest import Spmd
from ..logp.random_programs import replayed, wanderer

MACHINES = [(5, 1, 2), (12, 2, 3)]


@pytest.mark.parametrize("stalls", [None, True])
def test_an_execution_is_admissible_and_replays_in_the_simulator(spmd: Spmd, stalls: bool | None) -> None:
    for seed, (L, o, G) in enumerate(MACHINES):
        machine = LogPMachine(spmd.p, L, o, G)
        outcomes = spmd(logp_on_bsp(wanderer, machine, stalls=stalls, trace=True), seed, 3, 10)
        execution = logp_on_bsp.execution(outcomes)
        execution._check()
        again = replayed(execution, wanderer, machine, seed, 3, 10)
        assert execution.results == again.results
        np.testing.assert_array_equal(execution.finished, again.finished)


def sums(proc: Processor) -> Any:
    """Everybody tells everybody an array; what it keeps is its own."""
    for step in range(1, proc.p):
        proc.send((proc.pid + step) % proc.p, np.full(3, proc.pid))
    came = [message for _ in range(proc.p - 1) if (message := proc.recv())]
    assert all((message.payload == message.source).all() for message in came)
    return int(sum(message.payload[0] for message in came))


def test_results_are_those_of_the_simulator(spmd: Spmd) -> None:
    machine = LogPMachine(spmd.p, 8, 1, 3)
    assert spmd(logp_on_bsp(sums, machine)) == logp.simulate(sums, spmd.p, machine).results


def test_parts_run_programs_of_their_own(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        with bsp.split(bsp.pid % 2) as part:
            return logp_on_bsp(sums, LogPMachine(part.p, 8 + bsp.pid % 2, 1, 3))(part)

    evens, odds = (spmd.p + 1) // 2, spmd.p // 2
    expected = [sum(range(odds if pid % 2 else evens)) - pid // 2 for pid in range(spmd.p)]
    assert spmd(main) == expected


def test_a_failing_program_fails_everywhere(spmd: Spmd) -> None:
    def program(proc: Processor) -> None:
        if proc.pid == proc.p - 1:
            raise KeyError("mine")
        proc.recv()

    *others, last = spmd.errors(logp_on_bsp(program, LogPMachine(spmd.p, 8, 1, 3)))
    assert isinstance(last, KeyError)
    assert all(isinstance(error, pybsp.ProcessorError) and error.pid == spmd.p - 1 for error in others)


def test_a_deadlock_is_an_error_everywhere(spmd: Spmd) -> None:
    def program(proc: Processor) -> None:
        if proc.pid == 0:
            proc.recv()

    errors = spmd.errors(logp_on_bsp(program, LogPMachine(spmd.p, 8, 1, 3)))
    assert all(isinstance(error, pybsp.DeadlockError) for error in errors)
    assert {str(error) for error in errors} == {str(errors[0])}
    assert "processor 0 (since time 0) waits in recv" in str(errors[0])


def test_messages_left_are_an_error_everywhere(spmd: Spmd) -> None:
    def program(proc: Processor) -> None:
        if proc.pid + 1 == proc.p > 1:
            proc.send(0, None)

    errors = spmd.errors(logp_on_bsp(program, LogPMachine(spmd.p, 8, 1, 3)))
    if spmd.p > 1:
        assert all(isinstance(error, pybsp.UnreceivedError) for error in errors)
        assert "1 message was not received: 1 to processor 0" in str(errors[0])
    else:
        assert errors == [None]
