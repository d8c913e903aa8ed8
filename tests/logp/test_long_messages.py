"""LogGP: what messages of many words take on the simulated machine."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from pybsp import LogPMachine
from pybsp.errors import DeadlockError, UnreceivedError
from pybsp.logp import Goal, Processor, check, simulate
from pybsp.logp.schedule import schedule_of
from pybsp.logp.words import streaming, words
from pybsp.routing.logp.options import logp_router

from .. import tiers
from .reference import Operation, Programs, Reference
from .test_simulate_reference import hold_equal

L, o, G = 16, 2, 4


def machine_of(p: int, G_word: float | None) -> LogPMachine:
    return LogPMachine(p, L=L, o=o, G=G, step=1e-6, G_word=None if G_word is None else G_word * 1e-6)


@pytest.mark.parametrize("G_word", [0.25, 3.0])
@pytest.mark.parametrize("k", [1, 2, 9, 1000])
class TestClosedForms:
    """Of k-word messages, with every latency L; s = (k - 1) G_word is what the further words take."""

    def test_of_a_ping_pong(self, k: int, G_word: float) -> None:
        def ping_pong(proc: Processor) -> int:
            for _ in range(5):
                if proc.pid == 0:
                    proc.send(1, np.zeros(k))
                    proc.recv()
                else:
                    proc.recv()
                    proc.send(0, np.zeros(k))
            return proc.time

        s = streaming(machine_of(2, G_word), k)
        assert s == int(np.ceil((k - 1) * G_word))
        assert simulate(ping_pong, machine=machine_of(2, G_word)).time == 5 * 2 * (2 * o + s + L)

    def test_of_a_stream(self, k: int, G_word: float) -> None:
        n = 7

        def stream(proc: Processor) -> int:
            for _ in range(n):
                if proc.pid == 0:
                    proc.send(1, np.zeros(k))
                else:
                    proc.recv()
            return proc.time

        s = streaming(machine_of(2, G_word), k)
        done = simulate(stream, machine=machine_of(2, G_word))
        done._check()
        assert done.time == o + (n - 1) * (G + s) + s + L + o
        assert done.busy.tolist() == [n * o, n * o]  # the processors; the words are the ports'

    def test_of_an_all_to_all(self, k: int, G_word: float) -> None:
        p = 5

        def exchange(proc: Processor) -> int:
            for shift in range(1, p):
                proc.send((proc.pid + shift) % p, np.zeros(k))
            for _ in range(p - 1):
                proc.recv()
            return proc.time

        s = streaming(machine_of(p, G_word), k)
        done = simulate(exchange, machine=machine_of(p, G_word))
        done._check()
        # All send at once and nobody acquires until it has sent its last; what came meanwhile waits for its port.
        sent = o + (p - 2) * (G + s)
        first = o + s + L
        assert done.time == max(sent, first) + (p - 2) * (G + s) + o


def test_without_g_word_sizes_take_no_time_and_are_in_the_trace() -> None:
    def program(proc: Processor) -> Any:
        return proc.send(0, np.zeros(10**5)) if proc.pid else proc.recv() and proc.time

    done = simulate(program, machine=machine_of(2, None))
    assert done.results[0] == 2 * o + L
    assert done.trace.words.tolist() == [10**5]
    assert Goal.of(done.trace).simulate(done.machine).trace.words.tolist() == [10**5]
    assert simulate(program, machine=machine_of(2, 1.0)).trace.words.tolist() == [10**5]


@pytest.mark.parametrize(
    ("payload", "count"),
    [
        (1.5, 1),
        (7, 1),
        (np.float32(1), 1),
        (np.zeros(3, np.int8), 1),
        (np.zeros((2, 5)), 10),
        (10**30, 1),
        (True, 1),
        (1j, 1),
        (b"x" * 17, 3),
        (b"", 0),
        (np.zeros(0), 0),
    ],
)
def test_a_payload_counts_the_words_that_it_counts_in_bsp(payload: Any, count: int) -> None:
    assert words(payload) == count


def test_check_counts_sizes() -> None:
    def late(proc: Processor) -> Any:
        return proc.send(0, np.zeros(100)) if proc.pid else proc.recv() and proc.time > 99

    assert check(late, machine=machine_of(2, 1.0)).results == [True, None]
    assert check(late, machine=machine_of(2, None)).results == [False, None]


def test_routers_are_the_model_s_of_short_messages() -> None:
    assert logp_router("sorted", machine=machine_of(4, 1.0)).of(2).machine == machine_of(2, None)


def random_programs(draw: random.Random, p: int) -> Programs:
    programs: list[list[Operation]] = [[] for _ in range(p)]
    for pid, operations in enumerate(programs):
        for _ in range(draw.randrange(9)):
            kind = draw.choice(("send", "send", "send", "compute", "poll", "until"))
            if kind == "send" and p > 1:
                dest = draw.choice([0 if pid else 1, (pid + draw.randrange(1, p)) % p])
                operations.append(("send", dest, draw.choice((1, 1, 2, 5, 12))))
            elif kind == "compute":
                operations.append(("compute", draw.randrange(20)))
            elif kind == "until":
                operations.append(("until", draw.randrange(-3, 40)))
            else:
                operations.append(("poll",))
    for pid, operations in enumerate(programs):
        coming = sum(operation[:2] == ("send", pid) for every in programs for operation in every)
        operations += [("until", 400) if draw.random() < 0.9 else ("recv",)] * coming
    return programs


def interpret(proc: Processor, programs: Programs) -> list[Any]:
    """As the reference does; a message of k words says so often which it is."""
    seen: list[Any] = []
    for count, (name, *arguments) in enumerate(programs[proc.pid]):
        got = None
        if name == "send":
            proc.send(arguments[0], np.full(arguments[1], 100 * proc.pid + count))
        elif name == "until":
            got = proc.recv(until=proc.time + arguments[0])
        else:
            got = getattr(proc, name)(*arguments)
        seen.append((got and (got.source, divmod(int(got.payload[0]), 100)), proc.time))
    return seen


def test_random_programs_are_those_of_a_machine_that_goes_step_by_step() -> None:
    ended, number = 0, 1000 if tiers.all_cases else 60
    for seed in range(number):
        draw = random.Random(seed)
        p, gap = draw.randrange(1, 6), draw.choice((2, 3, 5))
        machine = LogPMachine(
            p, draw.randrange(gap, 5 * gap), draw.randrange(gap + 1), gap, G_word=draw.choice((0.25, 1, 1.5, 4))
        )
        programs = random_programs(draw, p)
        starts = [draw.choice((0, 0, 30, 80)) for _ in range(p)]  # also after messages have come
        chosen = ("latest", "earliest", "adversary", "random", "random")[seed % 5]
        reference = Reference(machine, schedule_of(chosen, seed, "test"), programs)
        expected = reference.run(starts)
        try:
            done = simulate(interpret, machine=machine, schedule=chosen, seed=seed, starts=starts, args=(programs,))
        except (DeadlockError, UnreceivedError) as error:
            outcome = "deadlock" if isinstance(error, DeadlockError) else "unreceived"
        else:
            outcome = "ended"
        assert outcome == expected, seed
        if outcome != "ended":
            continue
        done._check()
        hold_equal(done, reference, starts)
        ended += 1
    assert ended > number // 2
