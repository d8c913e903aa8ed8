"""Orders of receiving: all of them, each once, and what they prove."""

from __future__ import annotations

import functools
import math
import random
from typing import Any

import pytest

from pybsp import LogPMachine
from pybsp.logp import Processor, check
from pybsp.logp.orders import Orders, TimeLookedAtError

MACHINE = LogPMachine(6, L=12, o=1, G=3)
Lists = list[list[int | None]]  # what each processor does: send to that one, or receive


def drawn(seed: int) -> Lists:
    """The operations of an execution, so that every order of receiving comes to its end."""
    draw = random.Random(seed)
    p = draw.choice((2, 3, 4))
    lists: Lists = [[] for _ in range(p)]
    there = [0] * p
    left = draw.randrange(3, 8)
    while left or any(there):
        pid = draw.randrange(p)
        if there[pid] and draw.random() < 0.5:
            lists[pid].append(None)
            there[pid] -= 1
        elif left:
            dest = (pid + draw.randrange(1, p)) % p
            lists[pid].append(dest)
            there[dest] += 1
            left -= 1
    return lists


def all_orders(lists: Lists) -> set[Any]:
    """Step by step, in every way."""
    found, seen = set(), set()
    p = len(lists)
    states: list[Any] = [((0,) * p, ((),) * p, ((),) * p)]  # operations done, acquired, there
    while states:
        state = states.pop()
        if state in seen:
            continue
        seen.add(state)
        done, acquired, there = state
        if all(done[pid] == len(lists[pid]) for pid in range(p)):
            found.add(acquired)
        for pid in range(p):
            if done[pid] == len(lists[pid]):
                continue
            after = (*done[:pid], done[pid] + 1, *done[pid + 1 :])
            dest = lists[pid][done[pid]]
            if dest is not None:
                message = pid, sum(step is not None for step in lists[pid][: done[pid]])
                more = (*there[:dest], tuple(sorted((*there[dest], message))), *there[dest + 1 :])
                states.append((after, acquired, more))
                continue
            for message in there[pid]:
                rest = tuple(other for other in there[pid] if other != message)
                got = (*acquired[:pid], (*acquired[pid], message), *acquired[pid + 1 :])
                states.append((after, got, (*there[:pid], rest, *there[pid + 1 :])))
    return found


def run(lists: Lists, proc: Processor) -> list[tuple[int, int]]:
    got, sent = [], 0
    for dest in lists[proc.pid]:
        if dest is None:
            got.append(proc.recv().payload)
        else:
            proc.send(dest, (proc.pid, sent))
            sent += 1
    return got


@pytest.mark.parametrize("seeds", [range(15), pytest.param(range(15, 500), marks=pytest.mark.whole)])
def test_all_orders_are_run_each_once(seeds: range) -> None:
    for seed in seeds:
        lists = drawn(seed)
        expected = all_orders(lists)
        body = functools.partial(run, lists)
        orders = Orders(LogPMachine(len(lists), 4, 1, 2), [body] * len(lists), 1_000_000)
        results = [tuple(map(tuple, result)) for result in orders]
        assert set(results) == expected, seed
        assert len(results) == orders.count == len(expected)
        assert orders.complete


def gather(proc: Processor) -> Any:
    if proc.pid:
        return proc.send(0, proc.pid)
    return sum(proc.recv().payload for _ in range(proc.p - 1))


@pytest.mark.parametrize("messages", [3, 5, pytest.param(7, marks=pytest.mark.whole)])
def test_messages_to_one_processor_are_proved_in_all_orders(messages: int) -> None:
    orders = math.factorial(messages)
    found = check(gather, messages + 1, MACHINE, orders)
    assert (found.ok, found.proved, found.exhaustive, found.orders) == (True, True, False, orders)
    assert not check(gather, messages + 1, MACHINE, orders - 1).proved


def test_who_waits_for_others_in_turn_has_one_order() -> None:
    def ring(proc: Processor) -> int:
        token = 0
        for _ in range(3):
            if proc.pid == 0:
                proc.send(1, token)
            token = proc.recv().payload + 1
            if proc.pid:
                proc.send((proc.pid + 1) % proc.p, token)
        return token

    found = check(ring, 6, MACHINE, 20)
    assert (found.proved, found.orders, found.exhaustive) == (True, 1, False)
    assert str(found) == "the only order of receiving: equal results; 20 executions sampled: none stalled"


def test_an_order_that_time_does_not_admit_proves_nothing() -> None:
    def first(proc: Processor) -> Any:
        if proc.pid == 0:
            return [proc.recv().source for _ in range(proc.p - 1)]
        proc.compute(20 * proc.pid)
        return proc.send(0, None)

    found = check(first, 5, MACHINE, 30)
    assert (found.ok, found.proved, found.orders) == (True, False, 2)
    assert str(found) == "30 executions sampled: equal results; none stalled"


@pytest.mark.parametrize(
    "look",
    [
        lambda proc: proc.time,
        lambda proc: proc.poll(),
        lambda proc: proc.recv(until=0),
        lambda proc: proc.stalls,
        lambda proc: proc.stalled_seconds,
    ],
)
def test_who_looks_at_time_is_sampled(look: Any) -> None:
    caught = False

    def program(proc: Processor) -> Any:
        nonlocal caught
        if proc.pid == 5:
            try:
                look(proc)
            except Exception:
                caught = True
                raise
        return gather(proc)

    found = check(program, 6, MACHINE)
    assert (found.ok, found.proved, found.executions) == (True, False, 200)
    assert not caught
    with pytest.raises(TimeLookedAtError):
        next(iter(Orders(MACHINE, [program] * 6, 1)))


def test_what_stalls_is_sampled_where_results_are_proved() -> None:
    found = check(gather, 6, LogPMachine(6, L=4, o=1, G=4))
    assert (found.ok, found.proved, found.stall_free, found.executions) == (True, True, False, 200)


def test_what_fails_in_an_order_alone_proves_nothing() -> None:
    def program(proc: Processor) -> Any:
        if proc.pid == 1:
            proc.send(0, 1)
            proc.compute(100)
            proc.send(0, 2)
        elif proc.pid == 2:
            proc.send(0, 3)
        elif proc.pid == 0:
            assert proc.recv().payload != 2
            return proc.recv().payload + proc.recv().payload == 5 or True
        return None

    found = check(program, 3, MACHINE, 10)
    assert (found.ok, found.proved) == (True, False)


def test_an_exhaustive_check_proves_both() -> None:
    found = check(gather, 3, LogPMachine(3, L=6, o=0, G=2))
    assert (found.exhaustive, found.proved, found.orders) == (True, True, 0)
