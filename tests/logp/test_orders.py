"""Orders of receiving: all of them, each once, and what they prove."""

from __future__ import annotations

import functools
import itertools
import math
import random
from typing import Any

import pytest

from pybsp import LogPMachine
from pybsp.errors import DeadlockError
from pybsp.logp import Processor, check, simulate
from pybsp.logp.local_orders import LocalOrders
from pybsp.logp.orders import Orders
from pybsp.logp.realising import _rank, realised
from pybsp.logp.timeless import TimelessExecution, TimeLookedAtError

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


@pytest.mark.parametrize("seeds", [range(15), pytest.param(range(15, 250), marks=pytest.mark.whole)])
def test_all_orders_are_run_each_once(seeds: range) -> None:
    for seed in seeds:
        lists = drawn(seed)
        expected = all_orders(lists)
        body = functools.partial(run, lists)
        orders = Orders(LogPMachine(len(lists), 4, 1, 2), [body] * len(lists), 1_000_000)
        results = [tuple(map(tuple, result)) for _, result in orders if isinstance(result, list)]
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
    found = check(gather, messages + 1, MACHINE, 20, orders=orders)
    assert (found.ok, found.proved, found.exhaustive, found.orders) == (True, True, False, orders)
    found = check(gather, messages + 1, MACHINE, 20, orders=orders - 1)
    assert (found.ok, found.proved) == (True, False)
    assert f"{found.orders} orders of receiving tried, not all: equal results" in str(found)


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


def test_two_hot_spots_add_their_orders() -> None:
    def program(proc: Processor) -> Any:
        if proc.pid >= 2:
            for dest in (0, 1):
                proc.send(dest, proc.pid)
            return None
        return sum(proc.recv().payload for _ in range(proc.p - 2))

    found = check(program, 7, MACHINE, 20)
    assert (found.ok, found.proved, found.orders) == (True, True, 2 * math.factorial(5) - 1)


def test_who_answers_in_the_order_of_requests_is_proved_by_all_orders_together() -> None:
    def server(proc: Processor) -> Any:
        if proc.pid:
            proc.send(0, proc.pid)
            return proc.recv().payload
        for _ in range(proc.p - 1):
            request = proc.recv()
            proc.send(request.source, request.payload**2)
        return None

    found = check(server, 5, MACHINE, 20)
    assert (found.ok, found.proved, found.orders) == (True, True, math.factorial(4))
    found = check(server, 12, MACHINE, 20)
    assert (found.ok, found.proved, found.orders) == (True, False, 20)


@pytest.mark.parametrize("seeds", [range(15), pytest.param(range(15, 300), marks=pytest.mark.whole)])
def test_the_orders_of_each_processor_are_those_that_it_has_in_all(seeds: range) -> None:
    for seed in seeds:
        lists = drawn(seed)
        bodies: list[Any] = [functools.partial(run, lists)] * len(lists)
        machine = LogPMachine(len(lists), 4, 1, 2)
        execution = TimelessExecution(machine, [[] for _ in bodies])
        orders = LocalOrders(machine, bodies, execution, execution.run(bodies), 1_000_000, 0)
        found: list[list[Any]] = [[tuple(names)] for names in execution.order]
        for order, results in list(orders)[1:]:
            (pid,) = (pid for pid, names in enumerate(order) if names)
            assert results[pid] == order[pid]  # type: ignore[index]
            found[pid].append(tuple(order[pid]))
        everything = all_orders(lists)
        for pid, names in enumerate(found):
            assert sorted(names) == sorted({acquired[pid] for acquired in everything}), seed
        assert orders.complete


def test_what_a_receiver_does_to_a_message_does_not_change_it_in_other_orders() -> None:
    def program(proc: Processor) -> Any:
        if proc.pid:
            return proc.send(0, [proc.pid])
        got = [proc.recv().payload for _ in range(proc.p - 1)]
        total = sum(one.pop() for one in got)
        return total, got

    assert check(program, 4, MACHINE, 20).proved


def rare(proc: Processor) -> Any:
    """Wrong in one order of 120."""
    if proc.pid:
        return proc.send(0, proc.pid)
    return [proc.recv().source for _ in range(proc.p - 1)] == [3, 5, 1, 4, 2]


def fails(proc: Processor) -> Any:
    if rare(proc):
        raise LookupError("in that order")


def waits(proc: Processor) -> Any:
    if rare(proc):
        proc.recv()


@pytest.mark.parametrize(("program", "error"), [(rare, None), (fails, LookupError), (waits, DeadlockError)])
@pytest.mark.parametrize("machine", [LogPMachine(6, L=16, o=1, G=2), LogPMachine(6, L=4, o=1, G=4)])
def test_what_differs_in_one_order_is_executed_and_replayed(program: Any, error: Any, machine: LogPMachine) -> None:
    found = check(program, machine=machine, executions=10)
    assert (found.ok, found.proved, found.differing_order) == (False, False, None)
    assert found.seed is not None

    def replay() -> Any:
        return simulate(program, machine=machine, schedule=found.schedule or "", seed=found.seed or 0)

    if error is None:
        assert replay().results[0] is True
        replay().trace._check()
    else:
        assert isinstance(found.error, error)
        with pytest.raises(error):
            replay()


@pytest.mark.parametrize("seeds", [range(20), pytest.param(range(20, 300), marks=pytest.mark.whole)])
def test_the_order_of_an_execution_is_found_again_in_time(seeds: range) -> None:
    """The search is none of all executions: it may give up, but seldom does, and what it finds has that order."""
    missed = 0
    for seed in seeds:
        body: Any = functools.partial(run, drawn(seed))
        p = len(drawn(seed))
        for machine in (LogPMachine(p, L=12, o=1, G=3), LogPMachine(p, L=4, o=1, G=4)):
            order = simulate(body, machine=machine, schedule="random", seed=seed).results
            found = realised(machine, [body] * p, order, 8)
            missed += found is None
            if found is not None:
                assert simulate(body, machine=machine, schedule="random", seed=found).results == order
    assert missed <= len(seeds) // 10


def first(proc: Processor) -> Any:
    if proc.pid == 0:
        return [proc.recv().source for _ in range(proc.p - 1)]
    proc.compute(20 * proc.pid)
    return proc.send(0, None)


def test_an_order_that_time_does_not_admit_is_named_and_proves_nothing() -> None:
    found = check(first, 5, MACHINE, 30)
    assert (found.ok, found.proved) == (True, False)
    assert found.differing_order is not None
    assert sorted(found.differing_order[0]) == [(pid, 0) for pid in range(1, 5)]
    assert found.differing_order[1:] == [[], [], [], []]
    assert str(found).startswith(
        f"30 executions sampled: equal results; none stalled; {found.orders} orders of receiving"
    )
    assert str(found).endswith(f"one differs, of which no execution was found: {found.difference}")
    assert "processor 0[" in found.difference


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
    assert found.differing_order is not None
    assert found.difference.startswith("AssertionError")


def test_an_exhaustive_check_proves_both() -> None:
    found = check(gather, 3, LogPMachine(3, L=6, o=0, G=2))
    assert (found.exhaustive, found.proved, found.orders) == (True, True, 0)


def test_no_orders_are_run_where_none_are_asked_for() -> None:
    found = check(gather, 6, MACHINE, 20, orders=0)
    assert (found.ok, found.proved, found.orders, found.executions) == (True, False, 0, 20)


@pytest.mark.parametrize("n", range(8))
def test_the_number_of_a_combination_is_its_place_among_those_of_its_size(n: int) -> None:
    for size in range(n + 1):
        assert [_rank(chosen, n) for chosen in itertools.combinations(range(n), size)] == [*range(math.comb(n, size))]
