"""Collectives that ride in a program's supersteps, and what a program has that they leave alone."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Generator
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest

import pybsp
from pybsp import collectives
from pybsp.collectives import allgather, allreduce, broadcast, gather, prefix, reduce, scatter, total_exchange
from tests.conftest import Spmd, on_processors

from .programs import LONG, Caught, caught

STARTS: dict[str, Callable[[pybsp.BSP], Any]] = {
    "allreduce": lambda bsp: allreduce.start(bsp, bsp.pid, operator.add),
    "allreduce in levels": lambda bsp: allreduce.start(bsp, np.arange(3.0) + bsp.pid, np.add, degree=2),
    "prefix": lambda bsp: prefix.start(bsp, float(bsp.pid), np.add, degree=2),
    "reduce": lambda bsp: reduce.start(bsp, [bsp.pid], operator.add, root=bsp.p - 1),
    "broadcast": lambda bsp: broadcast.start(bsp, np.arange(20) * 3, like=np.arange(20)),
    "broadcast of pieces": lambda bsp: broadcast.start(bsp, np.arange(9.0), like=np.zeros(9), algorithm="2d"),
    "allgather": lambda bsp: allgather.start(bsp, "text" * bsp.pid),
    "gather": lambda bsp: gather.start(bsp, bsp.pid),
    "scatter": lambda bsp: scatter.start(bsp, list(range(bsp.p)) if bsp.pid == 0 else None),
    "total exchange": lambda bsp: total_exchange.start(bsp, [bsp.pid * q for q in range(bsp.p)]),
    "sort": lambda bsp: collectives.sort.start(bsp, np.array([7 - bsp.pid, bsp.pid])),
}


def plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


@pytest.mark.parametrize("name", STARTS)
def test_started_it_gives_what_the_plain_call_gives_beside_the_programs_messages(spmd: Spmd, name: str) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        ticket = STARTS[name](bsp)
        supersteps = 0
        while not ticket.done:
            bsp.send((bsp.pid + 1) % bsp.p, supersteps, "own")
            bsp.sync()
            assert [(tag, payload) for _, tag, payload in bsp.inbox] == [("own", supersteps)]
            supersteps += 1
        assert ticket.supersteps == supersteps
        again = STARTS[name](bsp)
        assert again.supersteps in (None, supersteps)
        return plain(ticket.value), plain(again.finish()), supersteps

    for started, called, supersteps in spmd(main):
        assert started == called
        assert (supersteps == 0) == (spmd.p == 1)


PAYLOADS: dict[str, Any] = {
    "number": 3,
    "short array": np.arange(5.0),
    "array of objects": np.array([None, "a"], object),
    "bytes": b"12345",
    "long bytes": bytes(5000),
    "object": {"key": [1, 2]},
    "array beyond the short ones": np.arange(1500),
    "long array": np.arange(3000),
}


@pytest.mark.parametrize("payload", PAYLOADS)
def test_to_send_to_all_is_to_send_to_each(spmd: Spmd, payload: str) -> None:
    def steps(bsp: pybsp.BSP, together: bool) -> Any:
        stream = bsp.stream("both")
        dests = [dest for dest in range(bsp.p) if dest != 1]
        if together:
            stream.send_all([], PAYLOADS[payload])
            # Some of these meet what goes to the same processor already, which a short array then does not.
            for note in (None, "text", ("a", 1)):
                stream.send_all(dests, PAYLOADS[payload], note)
        else:
            for note in (None, "text", ("a", 1)):
                for dest in dests:
                    stream.send(dest, PAYLOADS[payload], note)
        yield
        return [(source, note, plain(sent)) for source, note, sent in stream.arrived]

    def main(bsp: pybsp.BSP) -> Any:
        found = [bsp.carry_out("both", steps(bsp, together)) for together in (True, False)]
        return found, [(record.h, record.M, record.messages) for record in bsp.ledger]

    for (together, apart), (one, other) in spmd(main):
        assert together == apart
        assert one == other


@pytest.mark.parametrize("on", ["the machine", "a group"])
def test_a_stream_refuses_a_wrong_destination_by_name_and_takes_numpys_integers(spmd: Spmd, on: str) -> None:
    wrong: list[Any] = [-1, spmd.p, "1", None, 1.0, True]

    def steps(bsp: Any) -> Any:
        stream = bsp.stream("steps")
        errors = [caught(stream.send, dest, np.arange(2.0)) for dest in wrong]
        errors += [caught(stream.send_all, [0, dest], np.arange(2.0)) for dest in wrong]
        errors.append(caught(stream.send_all, 1, "x"))
        stream.send(np.int64(bsp.p - 1), "one")
        stream.send_all(np.arange(bsp.p), "all")
        yield
        return errors, [(source, payload) for source, _, payload in stream.arrived]

    def main(bsp: pybsp.BSP) -> Any:
        whom: Any = bsp if on == "the machine" else bsp.group(range(bsp.p))
        return whom.ride("steps", steps(whom)).finish()

    if spmd.p == 1:
        pytest.skip("a function on one processor takes no superstep")
    what = "a processor" if on == "the machine" else "a number of the group"
    expected = f"expected {what} from 0 to {spmd.p - 1}, got "
    texts = [f"steps: stream.send: argument dest: {expected}{dest!r}" for dest in wrong]
    texts += [f"steps: stream.send_all: argument dests: {expected}{dest!r}" for dest in wrong]
    texts.append("steps: stream.send_all: argument dests: expected several processors, got 1")
    for pid, (errors, came) in enumerate(spmd(main)):
        assert errors == [Caught(pybsp.UsageError, text) for text in texts]
        each = [(source, payload) for source in range(spmd.p) for payload in ("one", "all")]
        assert came == (each if pid == spmd.p - 1 else each[1::2])


def test_what_a_stream_cannot_pickle_is_an_error_of_its_function(spmd: Spmd) -> None:
    def steps(bsp: pybsp.BSP) -> Any:
        stream, odd = bsp.stream("steps"), lambda: None
        errors = [caught(stream.send, 0, odd), caught(stream.send_all, [0], odd), caught(stream.send, 0, 1, odd)]
        yield
        return errors, stream.arrived

    expected = "expected something that can be pickled, got "
    for errors, came in spmd(lambda bsp: bsp.carry_out("steps", steps(bsp))):
        assert came == []
        for error, text in zip(errors, ("payload: {}function", "payload: {}function", "note: {}tuple"), strict=True):
            assert error.kind is pybsp.UsageError
            assert error.text.startswith("steps: argument " + text.format(expected))


def test_a_stream_is_refused_outside_of_a_function_that_rides(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        return caught(bsp.stream, "a"), caught(bsp.group(range(bsp.p)).stream, "a")

    for errors in spmd(main):
        assert errors == tuple(
            Caught(
                pybsp.UsageError,
                f"{of}.stream: only inside a function that rides; start it with {of}.ride(name, steps)",
            )
            for of in ("bsp", "group")
        )


def test_what_rides_is_a_generator_that_has_not_begun(spmd: Spmd) -> None:
    def steps() -> Any:
        yield

    def main(bsp: pybsp.BSP) -> Any:
        group = bsp.group([bsp.pid])
        begun, over = steps(), steps()
        next(begun)
        over.close()
        wrong: list[Any] = [None, iter([1]), begun, over, steps]
        calls = (bsp.ride, bsp.carry_out, group.ride, group.carry_out)
        errors = [[caught(call, "steps", one) for one in wrong] for call in calls]
        bsp.sync()  # nothing of them has begun
        return errors, bsp.carry_out("steps", steps())

    got = ["NoneType None", "list_iterator <", "one that has begun; ", "one that is over; ", "function <"]
    for errors, _ in spmd(main):
        for call, of_call in zip(("bsp.ride", "bsp.carry_out", "group.ride", "group.carry_out"), errors, strict=True):
            for error, part in zip(of_call, got, strict=True):
                assert error.kind is pybsp.UsageError
                assert error.text.startswith(
                    f"{call}: argument steps: expected a generator that has not begun, as neighbours(bsp), got {part}"
                )


def passed_on(of: Any, value: Any, rounds: int, says: int | None = None) -> Any:
    """A function that rides on the machine or a group: values go so many processors on."""
    stream = of.stream("passed_on")
    if says is not None:
        stream.takes(says)
    for _ in range(rounds):
        stream.send((of.pid + 1) % of.p, value)
        yield
        ((_, _, value),) = stream.arrived
    return value


@pytest.mark.parametrize("says", [None, 3])
@pytest.mark.parametrize("way", ["carry_out", "finish", "sync"])
def test_functions_of_the_users_ride_on_groups_of_any_size(spmd: Spmd, way: str, says: int | None) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        found = []
        first = [0] if bsp.pid == 0 else range(1, bsp.p)
        for group in (bsp.grid(bsp.p, 1).row, bsp.grid(1, bsp.p).row, bsp.group(first)):
            steps = passed_on(group, bsp.pid, 3, says)
            if way == "carry_out":
                found.append(group.carry_out("passed_on", steps))
                continue
            ticket = group.ride("passed_on", steps)
            while way == "sync" and not ticket.done:
                bsp.sync()
            found.append(ticket.finish())
        return found

    others = spmd.p - 1
    for pid, found in enumerate(spmd(main)):
        assert found == [pid, (pid - 3) % spmd.p, 1 + (pid - 4) % others if pid else 0]


def test_a_ticket_knows_the_supersteps_of_a_function_of_the_users_when_it_says_them_or_is_over(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        tickets = [bsp.ride("passed_on", passed_on(bsp, 1, 2, says)) for says in (None, 2)]
        found = [[(ticket.supersteps, repr(ticket)) for ticket in tickets]]
        for _ in range(2):
            bsp.sync()
            found.append([(ticket.supersteps, repr(ticket)) for ticket in tickets])
        return found

    for before, within, after in spmd(main):
        assert before == [(None, "<passed_on: under way>"), (2, "<passed_on: 2 supersteps to go>")]
        assert within == [(None, "<passed_on: under way>"), (2, "<passed_on: 1 superstep to go>")]
        assert after == [(2, "<passed_on: over>"), (2, "<passed_on: over>")]


@pytest.mark.parametrize("on", ["the machine", "a group", "groups of one"])
def test_a_function_that_goes_on_after_what_it_has_said_it_takes_is_an_error(spmd: Spmd, on: str) -> None:
    def main(bsp: pybsp.BSP) -> None:
        of: Any = {"the machine": bsp, "a group": bsp.group(range(bsp.p)), "groups of one": bsp.grid(bsp.p, 1).row}[on]
        of.carry_out("passed_on", passed_on(of, 1, 3, says=1))

    for error in spmd.errors(main):
        assert isinstance(error, pybsp.UsageError), error
        expected = "passed_on: stream.takes: argument supersteps: expected as many as its function takes, got 1, after"
        assert expected in str(error)


def test_a_function_may_have_the_name_of_the_collectives_in_it(spmd: Spmd) -> None:
    def twice(bsp: pybsp.BSP) -> Any:
        total = yield from allreduce.steps(bsp, 1.0, np.add)
        return (yield from allreduce.steps(bsp, total, np.add))

    for result in spmd(lambda bsp: bsp.carry_out("allreduce", twice(bsp))):
        assert result == spmd.p**2


@pytest.mark.parametrize("after", ["sync", "allreduce"])
def test_what_is_sent_after_the_last_yield_is_an_error(spmd: Spmd, after: str) -> None:
    def steps(bsp: pybsp.BSP) -> Any:
        stream = bsp.stream("steps")
        yield
        stream.send_all([(bsp.pid + 1) % bsp.p], 1)

    def main(bsp: pybsp.BSP) -> None:
        bsp.ride("steps", steps(bsp))
        if after == "sync":
            bsp.sync()
        else:
            allreduce(bsp, 1.0, np.add)
        if spmd.p == 1:
            bsp.sync()

    for error in spmd.errors(main):
        assert isinstance(error, pybsp.UsageError), error
        assert str(error).startswith("steps: stream.send: expected a `yield` after it, with which a superstep ends")


def test_a_processor_that_syncs_where_another_goes_on_with_what_sends_nothing_is_named(spmd: Spmd) -> None:
    if spmd.p == 1:
        pytest.skip("one processor agrees with itself")

    def silent() -> Any:
        yield

    def main(bsp: pybsp.BSP) -> None:
        if bsp.pid == 0:
            bsp.carry_out("silent", silent())
        else:
            bsp.sync()

    for error in spmd.errors(main):
        assert isinstance(error, pybsp.SyncError), error
        assert "processor 0 went on with silent in superstep 0" in str(error)


@pytest.mark.parametrize("function", [allreduce, prefix, broadcast])
def test_what_rides_after_numbers_need_be_none(spmd: Spmd, function: Any) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        def start(value: Any) -> Any:
            if function is broadcast:
                return broadcast.start(bsp, value if bsp.pid == 0 else None, like=0.0)
            return function.start(bsp, value, np.add)

        start(1.0)
        start(2.0)
        bsp.sync()
        value = np.ones(3)
        if function is broadcast:
            error = caught(start, value) if bsp.pid == 0 else None
            return error is None or error.text.startswith(
                "broadcast: argument value: expected number, as argument like says"
            )
        ticket = start(value)
        value[:] = 7.0  # it was copied
        while not ticket.done:
            bsp.sync()
        return plain(ticket.value)

    for pid, found in enumerate(spmd(main)):
        assert found == (True if function is broadcast else [float(spmd.p if function is allreduce else pid + 1)] * 3)


@pytest.mark.parametrize("on", ["the machine", "a group"])
def test_what_nobody_waits_for_is_named(spmd: Spmd, on: str) -> None:
    if spmd.p == 1:
        pytest.skip("one processor agrees with itself")

    def main(bsp: pybsp.BSP) -> None:
        def sending(rounds: int) -> Any:
            stream = of.stream("sending")
            for _ in range(rounds):
                stream.send((of.pid + 1) % of.p, 1)
                yield

        of: Any = bsp if on == "the machine" else bsp.group(range(bsp.p))
        of.ride("sending", sending(2 if bsp.pid else 3))
        for _ in range(3):
            bsp.sync()

    for error in spmd.errors(main):
        assert isinstance(error, pybsp.UsageError), error
        assert ": processor 0 has sent something in its superstep 3, in which processor 1 does not" in str(error)
        assert str(error).startswith("sending: " if on == "the machine" else "sending on the group of processors 0")


@pytest.mark.parametrize("on", ["the machine", "a group"])
def test_nothing_is_sent_on_the_stream_of_what_is_over_or_has_failed(spmd: Spmd, on: str) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        of: Any = bsp if on == "the machine" else bsp.group(range(bsp.p))
        streams = []

        def steps(fails: bool) -> Any:
            streams.append(of.stream("steps"))
            if fails:
                raise ArithmeticError
            yield

        of.carry_out("steps", steps(False))
        assert caught(of.ride, "steps", steps(True)).kind is ArithmeticError
        errors = [
            error
            for stream in streams
            for error in (caught(stream.send, 0, 1), caught(stream.send_all, [0], 1), caught(stream.send_all, [], 1))
        ]
        bsp.sync()
        return errors

    text = "the function that it is of is over; send while that rides"
    for errors in spmd(main):
        sent = Caught(pybsp.UsageError, f"steps: stream.send: {text}")
        assert errors == 2 * [sent, *2 * [Caught(pybsp.UsageError, f"steps: stream.send_all: {text}")]]


def test_what_all_make_alike_is_theirs_on_each_group(spmd: Spmd) -> None:
    def sums(group: Any, value: int) -> Any:
        stream = group.stream("sums")
        stream.send_all(range(group.p), value)
        stream.takes(1)
        yield
        return stream.alike(lambda: sum(letter.payload for letter in stream.arrived))

    def main(bsp: pybsp.BSP) -> Any:
        group = bsp.group([pid for pid in range(bsp.p) if pid % 2 == bsp.pid % 2])
        return [group.carry_out("sums", sums(group, value * bsp.pid)) for value in (1, 10)]

    if spmd.p == 1:
        pytest.skip("a function on one processor takes no superstep")
    evens, odds = sum(range(0, spmd.p, 2)), sum(range(1, spmd.p, 2))
    assert spmd(main) == [[value * (odds if pid % 2 else evens) for value in (1, 10)] for pid in range(spmd.p)]


def test_what_has_arrived_and_what_is_pending_is_there_after_a_collective(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        p, pid = bsp.p, bsp.pid
        queue, array = bsp.queue(np.int64), bsp.array(4)
        bsp.sync()
        bsp.send((pid + 1) % p, np.full(3000, pid))
        bsp.send((pid + 1) % p, {"from": pid})
        queue.send((pid + 1) % p, [pid, pid])
        array.local[:] = pid
        got = array.get((pid + 1) % p)
        bsp.sync()
        view = bsp.inbox[0].payload
        before = (view[-1], bsp.inbox[1].payload, queue.values.tolist(), got.value.tolist())
        # Pending while the collectives go on:
        bsp.send(pid, "later")
        queue.send(pid, 9)
        array.put((pid + 1) % p, 5.0, at=0)
        asked = array.get((pid + 1) % p, at=1)
        pending = bsp.pending
        for _ in range(3):
            total = allreduce(bsp, 1, operator.add)
            spread = broadcast(bsp, np.arange(5000) if pid == 0 else None)
            upto = prefix(bsp, np.full(2, 1.0), np.add, degree=2)
        after = (view[-1], bsp.inbox[1].payload, queue.values.tolist(), got.value.tolist())
        assert before == after
        assert (view == (pid - 1) % p).all()
        assert bsp.pending == pending == "bsp.send, queue.send, array.put, array.get"
        assert array.local[0] == pid
        bsp.sync()
        arrived = [message.payload for message in bsp.inbox], queue.values.tolist(), array.local[0], asked.value.item()
        return total, int(spread.sum()), upto.tolist(), arrived

    for pid, (total, spread, upto, arrived) in enumerate(spmd(main)):
        assert (total, spread, upto) == (spmd.p, 12497500, [pid + 1.0] * 2)
        assert arrived == (["later"], [9], 5.0, (pid + 1) % spmd.p)


def test_several_started_together_take_the_supersteps_of_the_longest(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        queue = bsp.queue()
        tickets = [allreduce.start(bsp, float(k + bsp.pid), np.add, degree=2) for k in range(3)]
        tickets += [prefix.start(bsp, 1, operator.add, degree=2), broadcast.start(bsp, 2.5, like=0.0)]
        tickets.append(allgather.start(bsp, bsp.pid))
        longest = max(ticket.supersteps or 0 for ticket in tickets)
        for k in range(longest):
            assert not all(ticket.done for ticket in tickets)
            queue.send(bsp.pid, float(k))
            bsp.sync()
            assert queue.values.tolist() == [float(k)]
        return [plain(ticket.value) for ticket in tickets], longest, len(bsp.ledger)

    p = spmd.p
    sums = p * (p - 1) / 2
    for pid, (values, longest, supersteps) in enumerate(spmd(main)):
        assert values == [sums, sums + p, sums + 2 * p, pid + 1, 2.5, list(range(p))]
        assert supersteps == longest


def test_the_cost_of_several_together_is_what_the_ledger_counts(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        tickets = [
            allreduce.start(bsp, np.ones(10), np.add, degree=2),
            broadcast.start(bsp, np.ones(7), root=bsp.p - 1, like=np.ones(7), degree=2),
            prefix.start(bsp, np.ones(3), np.add, degree=3),
        ]
        while not all(ticket.done for ticket in tickets):
            bsp.sync()
        return [(record.h_out, record.h_in, record.messages, record.M, record.work) for record in bsp.ledger]

    p = spmd.p
    plans = [
        (allreduce.plan(p, 2), 10),
        (broadcast.plan(p, 2, root=p - 1), 7),
        (prefix.plan(p, 3), 3),
    ]
    cost = collectives.together(pybsp.BSPMachine.nominal(p), *plans)
    for counted in spmd(main):
        assert counted == [(s.h_out, s.h_in, s.messages, s.M, s.w) for s in cost]


def test_arguments_are_copied_at_the_start(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        block, items = np.full(4, float(bsp.pid)), [np.full(2, bsp.pid) for _ in range(bsp.p)]
        tickets = [allreduce.start(bsp, block, np.add, degree=2), total_exchange.start(bsp, items)]
        tickets.append(broadcast.start(bsp, block, like=block))
        block[:] = -1
        for item in items:
            item[:] = -1
        while not all(ticket.done for ticket in tickets):
            bsp.sync()
        return [plain(ticket.value) for ticket in tickets[::2]], [item.tolist() for item in tickets[1].value]

    p = spmd.p
    for (total, spread), exchanged in spmd(main):
        assert total == [p * (p - 1) / 2] * 4
        assert spread == [0.0] * 4
        assert exchanged == [[q] * 2 for q in range(p)]


class Interrupted:
    """Its first pickling is interrupted, as by a signal's handler."""

    times = 0

    def __reduce__(self) -> Any:
        self.times += 1
        if self.times == 1:
            raise TimeoutError("of a handler")
        return Interrupted, ()


def test_an_exception_that_comes_in_between_as_objects_are_copied_is_raised() -> None:
    with pytest.raises(TimeoutError, match="of a handler"):
        pybsp.simulate(lambda bsp: broadcast.start(bsp, Interrupted()), p=2)


class Weighted:
    """What can be called, and is data."""

    def __init__(self, weight: int) -> None:
        self.weight = [weight]

    def __call__(self, x: int) -> int:
        return self.weight[0] * x


@on_processors
def test_what_can_be_called_is_copied_at_the_start_where_it_is_a_value(bsp: pybsp.BSP) -> None:
    mine, together = Weighted(bsp.pid + 1), functools.partial(max, [bsp.pid])
    tickets: list[Any] = [
        broadcast.start(bsp, mine),
        total_exchange.start(bsp, [mine] * bsp.p),
        broadcast.start(bsp, together),
    ]
    mine.weight[0] = 0
    together.args[0].append(9)
    first, each, most = (ticket.finish() for ticket in tickets)
    assert (first(2), [one(2) for one in each], most()) == (2, [2 * pid + 2 for pid in range(bsp.p)], 0)


@on_processors
def test_an_op_that_rides_is_the_one_that_was_given(bsp: pybsp.BSP) -> None:
    class Counting:
        times = 0

        def __call__(self, a: list[int], b: list[int]) -> list[int]:
            self.times += 1
            return a + b

    op = Counting()
    assert allreduce.start(bsp, [bsp.pid], op).finish() == [*range(bsp.p)]
    assert allreduce.start(bsp, value=[bsp.pid], op=op).finish() == [*range(bsp.p)]
    assert op.times >= 2 * (bsp.p > 1)


def test_objects_are_copied_at_the_start(spmd: Spmd) -> None:
    def joined(a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
        return {"blocks": a["blocks"] + b["blocks"], "array": a["array"]}

    def main(bsp: pybsp.BSP) -> Any:
        def made() -> Any:
            return {"blocks": [[bsp.pid]], "array": np.full(2, 7)}

        def starts(value: Any) -> list[Any]:
            return [
                allreduce.start(bsp, value, joined, degree=2),
                prefix.start(bsp, value, joined),
                collectives.exclusive_prefix.start(bsp, value, joined),
                reduce.start(bsp, value, joined),
                broadcast.start(bsp, value, degree=2),
                allgather.start(bsp, value),
                gather.start(bsp, value),
                scatter.start(bsp, [value] * bsp.p if bsp.pid == 0 else None),
                total_exchange.start(bsp, [value] * bsp.p),
            ]

        found = []
        for changes in (False, True):
            value = made()
            tickets = starts(value)
            if changes:
                value["blocks"][0][0], value["array"][:] = -1, -1
            while not all(ticket.done for ticket in tickets):
                bsp.sync()
            found.append(repr([ticket.value for ticket in tickets]))
        return found

    for as_it_was, changed in spmd(main):
        assert as_it_was == changed


@pytest.mark.parametrize("given", [np.float32, np.float64, np.int8, np.bool_, np.complex64, float, int, bool, complex])
def test_a_number_that_rides_arrives_as_it_is(spmd: Spmd, given: type[Any]) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        tickets = [broadcast.start(bsp, given(1), like=given(0)), prefix.start(bsp, given(1), lambda a, b: b)]
        day = np.datetime64("2026-01-01") if bsp.pid == 0 else None
        tickets.append(broadcast.start(bsp, day, like=np.datetime64("2000-01-01")))
        while not all(ticket.done for ticket in tickets):
            bsp.sync()
        return [ticket.value for ticket in tickets]

    for *numbers, day in spmd(main):
        assert [(type(number), number) for number in numbers] == [(given, given(1))] * 2
        assert day == np.datetime64("2026-01-01")


def test_a_ticket_read_early_says_when_its_value_is_there(spmd: Spmd) -> None:
    if spmd.p == 1:
        pytest.skip("everything is over at once")

    def main(bsp: pybsp.BSP) -> Any:
        bsp.sync()
        ticket = allreduce.start(bsp, 1, operator.add, degree=2)
        error = caught(lambda: ticket.value)
        ticket.finish()
        return error, ticket.supersteps

    for error, supersteps in spmd(main):
        assert error.kind is pybsp.TicketError
        more = f"{supersteps} more superstep{'s' * (supersteps > 1)}"
        assert error.text.startswith(
            f"ticket.value: allreduce was started in superstep 1; its value is there after {more}; call bsp.sync()"
        )


@pytest.mark.parametrize("closed", ["begin", "part in use", "part ended"])
def test_where_nothing_may_be_called_none_is_started_and_nothing_of_it_stays(spmd: Spmd, closed: str) -> None:
    values = [1.0, 2, np.ones(3), np.ones(LONG)]

    def calls(bsp: Any) -> list[Caught]:
        found = []
        for value in values:
            for function in (allreduce, prefix):
                found += [caught(way, bsp, value, np.add) for way in (function, function.start)]
            found += [caught(broadcast, bsp, value), caught(broadcast.start, bsp, value, like=value)]
        return found

    def main(bsp: pybsp.BSP) -> Any:
        whole, of_all = bsp.group(range(bsp.p)), bsp.split(0)
        if closed == "begin":
            bsp.begin()
            found = calls(bsp) + calls(whole)
            bsp.end()
        else:
            with of_all as part:
                whole_part = part.group(range(part.p))
                if closed == "part in use":
                    found = calls(bsp) + calls(whole)
                    part.sync()
            if closed == "part ended":
                found = calls(part) + calls(whole_part)
        bsp.sync()
        return found, float(allreduce(bsp, 1.0, np.add))

    why = {"begin": "bsp.begin() has ended", "part in use": "is in use", "part ended": "has ended, or not begun"}
    for found, total in spmd(main):
        assert total == spmd.p
        assert len(found) == 12 * len(values)
        for error in found:
            assert error.kind is pybsp.UsageError, error
            assert error.text.partition(": ")[0] in ("allreduce", "prefix", "broadcast"), error
            assert why[closed] in error.text


@pytest.mark.parametrize("where", ["run", "part", "split"])
def test_what_is_not_over_is_an_error_on_all(spmd: Spmd, where: str) -> None:
    if spmd.p == 1:
        pytest.skip("everything is over at once")

    def main(bsp: pybsp.BSP) -> None:
        if where == "part":
            with bsp.split(0) as part:
                allreduce.start(part, 1, operator.add)
        else:
            allreduce.start(bsp, 1, operator.add)
            if where == "split":
                with bsp.split(0):
                    pass

    for error in spmd.errors(main):
        assert isinstance(error, pybsp.UsageError), error
        assert "allreduce: started, and not over" in str(error)
        if where == "part":
            assert "call part.sync() until ticket.done before the part ends" in str(error)


@pytest.mark.parametrize("odd", [0, -1])
@pytest.mark.parametrize("other", ["nothing", "another", "another order", "plain"])
def test_one_that_differs_is_said_at_the_next_sync(spmd: Spmd, odd: int, other: str) -> None:
    if spmd.p == 1:
        pytest.skip("one processor agrees with itself")

    def main(bsp: pybsp.BSP) -> None:
        starts: list[Callable[[], Any]] = [
            lambda: allreduce.start(bsp, 1, operator.add),
            lambda: allgather.start(bsp, 1),
        ]
        if bsp.pid == odd % bsp.p:
            if other == "plain":
                allreduce(bsp, 1, operator.add)
            if other in ("nothing", "plain"):
                starts = []
            elif other == "another":
                starts[0] = lambda: prefix.start(bsp, 1, operator.add)
            else:
                starts.reverse()
        for start in starts:
            start()
        for _ in range(3):
            bsp.sync()

    for error in spmd.errors(main):
        assert isinstance(error, (pybsp.UsageError, pybsp.SyncError, pybsp.ProcessorError)), error
        assert "allreduce" in str(error), str(error)


@pytest.mark.parametrize("beside", ["nothing", "puts", "a queue"])
def test_what_comes_for_a_call_that_a_processor_has_not_started_is_said_whatever_comes_beside_it(
    spmd: Spmd, beside: str
) -> None:
    if spmd.p == 1:
        pytest.skip("one processor agrees with itself")

    def main(bsp: pybsp.BSP) -> None:
        x, queue = bsp.array(1), bsp.queue(np.float64)
        bsp.sync()
        if bsp.pid == 0:
            broadcast.start(bsp, 1.5, like=0.0)
        if beside == "puts":
            x.put((bsp.pid + 1) % bsp.p, 1.0)
        elif beside == "a queue":
            queue.send((bsp.pid + 1) % bsp.p, 1.0)
        bsp.sync()

    for error in spmd.errors(main):
        assert isinstance(error, pybsp.UsageError), error
        assert "broadcast" in str(error), error


@pytest.mark.parametrize("doing", ["sync", "end", "ledger", "split"])
def test_a_processor_that_does_something_else_than_a_collective_is_named(spmd: Spmd, doing: str) -> None:
    if spmd.p == 1:
        pytest.skip("one processor agrees with itself")

    def main(bsp: pybsp.BSP) -> None:
        if bsp.pid:
            allreduce(bsp, 1.0, np.add)
        elif doing == "sync":
            bsp.sync()
        elif doing == "ledger":
            len(bsp.ledger)
        elif doing == "split":
            with bsp.split(0):
                pass

    for error in spmd.errors(main):
        assert isinstance(error, pybsp.SyncError), error
        assert "called allreduce(value=number, op=add, degree=None" in str(error)


def test_a_processor_that_finishes_another_one_than_it_called_last_is_said_to_go_on_with_that(spmd: Spmd) -> None:
    if spmd.p == 1:
        pytest.skip("one processor agrees with itself")

    def main(bsp: pybsp.BSP) -> None:
        first = allreduce.start(bsp, np.arange(3), np.add, degree=2)
        broadcast.start(bsp, "text")
        if bsp.pid:
            first.finish()
        else:
            bsp.sync()

    for error in spmd.errors(main):
        assert isinstance(error, pybsp.SyncError), error
        assert "went on with allreduce in superstep 0" in str(error)


def test_an_op_that_raises_does_so_in_the_sync(spmd: Spmd) -> None:
    if spmd.p == 1:
        pytest.skip("nothing is combined")

    def main(bsp: pybsp.BSP) -> None:
        def bad(a: Any, b: Any) -> Any:
            raise ArithmeticError("no such sum")

        ticket = allreduce.start(bsp, 1, bad)
        assert not ticket.done
        bsp.sync()

    for error in spmd.errors(main):
        assert "allreduce: argument op: raised ArithmeticError: no such sum" in str(error)


@pytest.mark.parametrize("big", [False, True])
def test_a_ticket_of_what_raised_says_so_with_its_cause(spmd: Spmd, big: bool) -> None:
    if spmd.p == 1:
        pytest.skip("nothing is combined")

    def main(bsp: pybsp.BSP) -> Any:
        def bad(a: Any, b: Any) -> Any:
            raise ArithmeticError("no such sum")

        def cause(read: Callable[[], Any]) -> tuple[str, bool]:
            try:
                read()
            except pybsp.TicketError as error:
                return str(error), isinstance(error.__cause__, pybsp.UsageError)
            return "", False

        found = []
        value = np.ones(LONG if big else 3)
        starts: list[Callable[[], Any]] = [
            lambda: allreduce.start(bsp, value, bad),
            lambda: allreduce.start(bsp, value, np.add, out=np.zeros(2)),
            lambda: allreduce.start(bsp.group(range(bsp.p)), value, bad),
        ]
        for start in starts:
            ticket = start()
            other = allreduce.start(bsp, 1.0, np.add)
            while not ticket.done:
                caught(bsp.sync)
            other.finish()
            found += [cause(partial(getattr, ticket, "value")), cause(ticket.finish)]
        return found

    for found in spmd(main):
        assert all(is_usage for _, is_usage in found), found
        for text, _ in found:
            assert text.startswith(("ticket.value: allreduce failed", "ticket.finish: allreduce failed"))
            assert "no such sum" in text or "argument out" in text


def test_after_an_op_that_raises_on_all_the_program_goes_on(spmd: Spmd) -> None:
    if spmd.p == 1:
        pytest.skip("nothing is combined")

    def main(bsp: pybsp.BSP) -> Any:
        def bad(a: Any, b: Any) -> Any:
            raise ArithmeticError("no such sum")

        other = allreduce.start(bsp, 5, operator.add, degree=2)
        found = [caught(allreduce, bsp, value, bad) for value in (1.0, np.ones(3), "text")]
        while not other.done:
            bsp.sync()
        return (
            [error is None or "no such sum" in error.text for error in found],
            other.value,
            allreduce(bsp, 1.0, np.add),
        )

    assert spmd(main) == [([True] * 3, 5 * spmd.p, float(spmd.p))] * spmd.p


def test_they_ride_in_the_two_halves_of_a_superstep_and_in_parts(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        whole = allreduce.start(bsp, 1, operator.add)
        bsp.begin()
        bsp.end()
        while not whole.done:
            bsp.sync()
        with bsp.split(bsp.pid % 2) as part:
            ticket = allreduce.start(part, part.pid, max)
            part.sync()
            while not ticket.done:
                part.sync()
            mine = allreduce(part, 1.0, np.add)
        return whole.value, ticket.value, mine, allreduce(bsp, 2.0, np.add)

    p = spmd.p
    for pid, found in enumerate(spmd(main)):
        size = len(range(pid % 2, p, 2))
        assert found == (p, size - 1, float(size), 2.0 * p)


def test_the_programs_label_stays_beside_what_rides(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> list[str]:
        ticket = allreduce.start(bsp, 1, operator.add)
        bsp.label("shares")
        bsp.sync()
        while not ticket.done:
            bsp.sync()
        return [record.label for record in bsp.ledger][:1]

    assert spmd(main) == [["shares"]] * spmd.p


def test_numbers_of_all_kinds_have_the_bits_and_types_that_ride(spmd: Spmd) -> None:
    values: list[Any] = [
        0.1,
        -0.0,
        float("inf"),
        float("nan"),
        3,
        -(2**63),
        2**63 - 1,
        2**63,
        -(2**200),
        True,
        2 + 1j,
        np.float64(0.1),
        np.float32(0.1),
        np.int8(100),
        np.int64(-7),
        np.int64(2**62),
        np.longlong(3),
        np.uint8(200),
        np.uint64(2**63),
        np.float16(0.1),
        np.complex64(1j),
        np.complex128(1 + 1e-9j),
        np.bool_(True),
        np.datetime64("2026-11-22"),
        1e308,
    ]

    def main(bsp: pybsp.BSP) -> Any:
        found = []
        for value in values:
            ops: list[Any] = [np.maximum, np.add, max, operator.add]
            if isinstance(value, (complex, np.complexfloating)):
                ops.remove(max)
            elif isinstance(value, np.datetime64):
                ops = [max]
            elif type(value) is int and not -(2**63) < value < 2**63 - 1:
                ops = [max, operator.add]  # numpy's have no such numbers
            for op in ops:
                with np.errstate(all="ignore"):
                    small = allreduce(bsp, value, op), prefix(bsp, value, op), reduce(bsp, value, op)
                    riding = [
                        allreduce.start(bsp, value, op).finish(),
                        prefix.start(bsp, value, op).finish(),
                        reduce.start(bsp, value, op).finish(),
                    ]
                found.append((repr(small), repr(tuple(riding))))
            found.append((repr(broadcast(bsp, value)), repr(broadcast.start(bsp, value).finish())))
        return found

    for found in spmd(main):
        for small, riding in found:
            assert small == riding


@pytest.mark.parametrize(
    ("op", "numbers"), [(np.minimum, (2**64, 5)), (np.add, (2**63, -1)), (np.maximum, (5, -(2**64)))]
)
@pytest.mark.parametrize("started", [False, True])
def test_ints_beyond_64_bits_under_a_ufunc_are_refused_where_it_refuses_them(
    spmd: Spmd, op: Any, numbers: tuple[int, int], started: bool
) -> None:
    if spmd.p == 1:
        pytest.skip("nothing is combined")

    def main(bsp: pybsp.BSP) -> Any:
        value = numbers[min(bsp.pid, 1)]
        return caught(lambda: allreduce.start(bsp, value, op).finish() if started else allreduce(bsp, value, op))

    for error in spmd(main):
        assert error.kind is pybsp.UsageError
        assert "allreduce: argument op: raised " in error.text


def test_a_number_under_a_ufunc_gives_one_type_on_all_processors(spmd: Spmd) -> None:
    numbers: list[Any] = [True, 2, 2.5, 1j, np.float32(3), np.int8(3)]
    functions: list[Any] = [allreduce, prefix, collectives.exclusive_prefix, reduce]

    def main(bsp: pybsp.BSP) -> Any:
        found = []
        for number in numbers:
            for function in functions:
                started = function.start(bsp, number, np.add, degree=2).finish()
                found.append(
                    [type(function(bsp, number, np.add)), type(function(bsp, number, np.maximum)), type(started)]
                )
        return found

    for found in spmd(main):
        for types, number in zip(found, [number for number in numbers for _ in functions], strict=True):
            assert set(types) <= {type(np.asarray(number)[()]), type(None)}


@pytest.mark.parametrize("function", [allreduce, prefix, reduce, collectives.exclusive_prefix])
@pytest.mark.parametrize("op", [np.add, np.minimum])
def test_numbers_of_several_kinds_make_what_numpy_makes_of_them(spmd: Spmd, function: Any, op: Any) -> None:
    kinds: list[list[Any]] = [
        [np.int64(200), np.uint8(100)],
        [100, np.uint8(100)],
        [np.int64(3), np.float32(0.1)],
        [np.uint64(5), np.int64(300), 7],
        [np.int64(2**62), 2**62 - 1],
        [np.float64(0.1), np.float32(0.1), 2],
        [1, 2],
    ]

    def main(bsp: pybsp.BSP) -> Any:
        found = []
        for numbers in kinds:
            value = numbers[bsp.pid * len(numbers) // bsp.p]
            with np.errstate(all="ignore"):
                small = function(bsp, value, op, degree=2)
                rides = function.start(bsp, value, op, degree=2).finish()
            found.append((repr(small), repr(rides)))
        return found

    expected = pybsp.simulate(main, p=spmd.p).results
    for pid, found in enumerate(spmd(main)):
        assert found == expected[pid]
        assert all(small == rides for small, rides in found)


def test_one_that_has_not_called_what_all_send_to_one_is_no_caller_with_other_arguments(spmd: Spmd) -> None:
    if spmd.p == 1:
        pytest.skip("one processor agrees with itself")

    def main(bsp: pybsp.BSP, value: Any, op: Any) -> None:
        if bsp.pid == bsp.p - 1:
            bsp.sync()
        reduce.start(bsp, value, op, degree=bsp.p)
        bsp.sync()

    for value, op in (1.0, np.add), ("text", operator.add):
        for error in spmd.errors(main, value, op):
            assert isinstance(error, pybsp.UsageError)
            assert str(error).startswith("reduce: processor ")
            assert "not at all; all processors must call it together" in str(error)


@pytest.mark.whole
def test_small_arrays_have_the_bits_that_ride_whatever_their_size(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        rng = np.random.default_rng(bsp.pid)
        for size in (0, 1, 3, 511, 4000, LONG):
            for dtype in ("f8", "f4", "i2", "c16", "?", ">f8"):
                block = rng.normal(size=size).astype(dtype)
                for small, riding in (
                    (allreduce(bsp, block, np.add), allreduce.start(bsp, block, np.add).finish()),
                    (prefix(bsp, block, np.add), prefix.start(bsp, block, np.add).finish()),
                ):
                    assert small.dtype == riding.dtype
                    assert small.tobytes() == riding.tobytes()
                    assert small.flags.writeable
                given = block if bsp.pid == 0 else None
                got, rode = broadcast(bsp, given), broadcast.start(bsp, given).finish()
                assert (got.dtype, got.tobytes()) == (rode.dtype, rode.tobytes())
                assert got.flags.writeable
        return True

    assert spmd(main) == [True] * spmd.p


def test_arrays_of_any_form_are_broadcast_again_and_again(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        shapes = [(), (1,), (0,), (0, 3), (2, 3), (3, 2), (1, 2, 3), (1,) * 8, (2,) * 9, (3, LONG // 3 - 1), (LONG,)]
        found = []
        for k in range(3):  # the third time as what is remembered from the second has it
            for dtype in ("f8", "c16", "?", ">i2", "M8[s]", [("a", "i4"), ("b", "f8")]):
                for shape in shapes:
                    value = np.full(shape, k + len(shape), np.int64).astype(dtype)
                    got = broadcast(bsp, value if bsp.pid == bsp.p - 1 else None, root=bsp.p - 1)
                    same = (got.dtype, got.shape, got.tobytes()) == (value.dtype, shape, value.tobytes())
                    found.append(same and got.flags.writeable)
        return all(found), len(found)

    assert spmd(main) == [(True, 3 * 6 * 11)] * spmd.p


@pytest.mark.parametrize("root", [0, -1])
def test_long_values_are_broadcast_as_they_are(spmd: Spmd, root: int) -> None:
    values = [
        np.arange(2.0 * LONG).reshape(2, LONG),
        np.arange(20 * LONG).astype(">i2").reshape(5, 4, -1),
        np.arange(3 * LONG)[::2],
        np.zeros(LONG, [("a", np.int64), ("b", np.float32)]),
        np.arange(9 * LONG).astype(np.uint8),
        "text" * 3 * LONG,
        list(range(4 * LONG)),
    ]

    def main(bsp: pybsp.BSP) -> Any:
        found = []
        for value in values * 2:
            got = broadcast(bsp, value if bsp.pid == root % bsp.p else None, root % bsp.p)
            if isinstance(value, np.ndarray):
                assert got.dtype == value.dtype
                assert got.flags.writeable
                found.append(bool((got == value).all()) and got.shape == value.shape)
                if bsp.pid != root % bsp.p:
                    got[...] = 0  # it is this processor's own
            else:
                found.append(got == value)
        return all(found)

    assert spmd(main) == [True] * spmd.p


def test_the_ledger_is_the_same_whether_small_or_riding(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        def once(call: Callable[..., Any]) -> list[Any]:
            before = len(bsp.ledger)
            call()
            bsp.sync()  # has the work after the last superstep
            rows = bsp.ledger[before:]
            return [(r.label, r.h_out, r.h_in, r.messages, r.M, r.work) for r in rows]

        block, long = np.ones(50), np.ones(LONG)
        for small, riding in (
            (lambda: allreduce(bsp, 1.0, np.add), lambda: allreduce.start(bsp, 1.0, np.add).finish()),
            (lambda: prefix(bsp, block, np.add), lambda: prefix.start(bsp, block, np.add).finish()),
            (lambda: reduce(bsp, 3, max), lambda: reduce.start(bsp, 3, max).finish()),
            (lambda: broadcast(bsp, block), lambda: broadcast.start(bsp, block).finish()),
            (lambda: broadcast(bsp, long), lambda: broadcast.start(bsp, long).finish()),
            (lambda: broadcast(bsp, {"a": 1}), lambda: broadcast.start(bsp, {"a": 1}).finish()),
        ):
            assert once(small) == once(riding)
        return True

    assert spmd(main) == [True] * spmd.p


def concatenated(a: Any, b: Any) -> Any:
    return np.concatenate([a, b])


VALUES: dict[str, tuple[Callable[[int], Any], Any]] = {
    "floats": (lambda pid: pid / 3, np.add),
    "one is not finite": (lambda pid: [1.5, float("inf"), float("nan")][pid % 3], np.maximum),
    "zeros of two signs": (lambda pid: 0.0 if pid % 2 else -0.0, np.minimum),
    "numbers of several types": (lambda pid: [pid, pid / 2, np.float64(pid), np.int8(pid)][pid % 4], np.add),
    "large ints": (lambda pid: (1 << 70) + pid, operator.add),
    "an array": (lambda pid: np.arange(6.0).reshape(2, 3) * pid, np.add),
    "a long array": (lambda pid: np.arange(2.0 * LONG).reshape(2, LONG) / 3 + pid, np.add),
    "a long array, and a function": (lambda pid: np.arange(float(LONG)) / 3 + pid, operator.add),
    "long, whose dtype changes": (lambda pid: np.arange(LONG) % (pid + 1), np.logical_or),
    "of the other byte order": (lambda pid: np.arange(3, dtype=">i2") - pid, np.add),
    "whose dtype changes": (lambda pid: np.arange(3) % (pid + 1), np.logical_or),
    "that grows": (lambda pid: np.array([pid, -pid]), concatenated),
    "no array at all": (lambda pid: f"<{pid}>", operator.add),
}


@pytest.mark.parametrize("degree", [2, 8])
@pytest.mark.parametrize("name", VALUES)
def test_every_way_gives_the_bits_and_the_ledger_of_messages(spmd: Spmd, name: str, degree: int) -> None:
    give, op = VALUES[name]

    def main(bsp: pybsp.BSP) -> Any:
        def bits(value: Any) -> Any:
            return type(value), getattr(value, "dtype", None), value.tobytes() if hasattr(value, "tobytes") else value

        def once(call: Callable[..., Any]) -> tuple[Any, list[Any]]:
            before = len(bsp.ledger)
            found = call()
            bsp.sync()
            return bits(found), [(r.h_out, r.h_in, r.messages, r.M, r.work) for r in bsp.ledger[before:]]

        def check(primitive: Any, **given: Any) -> None:
            by_messages = once(lambda: primitive(bsp, mine, op, algorithm="trees", **given))
            assert once(lambda: primitive(bsp, mine, op, **given)) == by_messages
            assert once(lambda: primitive.start(bsp, mine, op, **given).finish()) == by_messages

        mine = give(bsp.pid)
        for primitive in (allreduce, prefix, reduce):
            check(primitive, degree=degree)
        return True

    assert spmd(main) == [True] * spmd.p


def test_long_arrays_go_beside_what_rides_and_into_the_value_itself(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        bsp.send((bsp.pid + 1) % bsp.p, np.full(LONG, bsp.pid))
        found = []
        for function in (allreduce, prefix, reduce):
            ticket = allgather.start(bsp, np.full(3, bsp.pid))
            value = np.full(LONG, bsp.pid)
            total = function(bsp, value, np.add, degree=bsp.p + 1, out=value)
            if bsp.p > 1:
                assert ticket.done
            found.append((None if total is None else total is value and total[[0, -1]].tolist(), len(ticket.finish())))
        bsp.sync()
        return found, bsp.inbox[0].payload[-1]

    p = spmd.p
    for pid, (found, came) in enumerate(spmd(main)):
        total, before = p * (p - 1) // 2, pid * (pid + 1) // 2
        assert found == [([total] * 2, p), ([before] * 2, p), ([total] * 2 if pid == 0 else None, p)]
        assert came == (pid - 1) % p


def test_the_ledger_says_what_rode_in_a_superstep_by_primitive(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        bsp.ledger  # noqa: B018 - what comes later is combined with what is combined already
        with bsp.superstep("own"):
            tickets = [allreduce.start(bsp, float(k), np.add, degree=8) for k in range(2)]
            tickets.append(allgather.start(bsp, np.arange(3)))
            bsp.send(0, np.ones(10))
        assert all(ticket.done for ticket in tickets)
        ticket = prefix.start(bsp, np.ones(2), np.add, degree=8)
        allgather(bsp, np.arange(3))  # it rides in the superstep of a plain call
        assert ticket.done
        bsp.sync()
        return bsp.ledger[0].label, bsp.ledger.riding

    others = spmd.p * (spmd.p - 1)
    words = {0: {"allreduce": 2 * others, "allgather": 3 * others}, 1: {"prefix": others, "allgather": 3 * others}}
    assert spmd(main) == [("own", words if spmd.p > 1 else {})] * spmd.p


def test_the_ledger_says_nothing_of_what_rode_without_words(spmd: Spmd) -> None:
    """Whether small values are shown, where empty ones are no message, or sent."""

    def main(bsp: pybsp.BSP) -> Any:
        ticket = prefix.start(bsp, np.ones(2), np.add, degree=8)
        collectives.reduce_scatter(bsp, np.ones(0), np.add)
        assert ticket.done
        allgather.start(bsp, np.ones(0))
        bsp.sync()
        return bsp.ledger.riding

    words = {0: {"prefix": spmd.p * (spmd.p - 1)}}
    assert spmd(main) == [words if spmd.p > 1 else {}] * spmd.p


PAIR = np.dtype([("s", "f8"), ("n", "i8")])
MAKING: dict[str, Any] = {
    "fractions": lambda a, b: Fraction(a) + b,
    "tuples": lambda a, b: (a if type(a) is tuple else (a,)) + (b if type(b) is tuple else (b,)),
    "bytes": lambda a, b: b"%b%b" % (a if type(a) is bytes else b"%d" % a, b if type(b) is bytes else b"%d" % b),
    "structures": lambda a, b: np.array((np.array(a).astype(PAIR)["s"] + np.array(b).astype(PAIR)["s"], 1), PAIR)[()],
    "arrays": lambda a, b: np.atleast_1d(a) + np.atleast_1d(b),
    "texts": lambda a, b: np.str_(f"{a}{b}"),
    "times": lambda a, b: np.timedelta64(a, "s") + np.timedelta64(b, "s"),
    "small": lambda a, b: np.float32(a) + np.float32(b),
    "nothing": lambda a, b: None,
}


@pytest.mark.parametrize("function", [collectives.allreduce, collectives.prefix])
def test_what_op_makes_of_numbers_goes_on_as_it_is(spmd: Spmd, function: Any) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        found = []
        for op in MAKING.values():
            ticket = function.start(bsp, bsp.pid + 1, op, degree=2)
            while not ticket.done:
                bsp.sync()
            found.append([repr((type(one), one)) for one in (ticket.value, function(bsp, bsp.pid + 1, op, degree=2))])
        return found

    for pid, found in enumerate(spmd(main)):
        last = spmd.p if function is collectives.allreduce else pid + 1
        for op, of_both in zip(MAKING.values(), found, strict=True):
            expected = functools.reduce(op, range(1, last + 1))
            assert of_both == [repr((type(expected), expected))] * 2


def test_mail_and_puts_go_beside_what_rides_and_what_a_queue_forgets(spmd: Spmd) -> None:
    payloads: list[Any] = [1, 2.5, "text", b"bytes", (1, "a"), np.arange(5), np.arange(3.0), np.arange(9000), None]

    def main(bsp: pybsp.BSP) -> Any:
        p, pid = bsp.p, bsp.pid
        array, queue, found = bsp.array(4), bsp.queue(np.int64), []
        bsp.sync()
        for number in range(4 * len(payloads)):
            tag = number if number % 4 == 3 else None
            if number % 7 < 2:
                array.put((pid + 1) % p, [number, pid], at=slice(number % 3, number % 3 + 2))
            for dest in {(pid + number) % p, pid if number % 5 == 0 else (pid + 1) % p} if number % 7 else ():
                bsp.send(dest, payloads[number % len(payloads)], tag)
            if number % 6 == 2:
                queue.send((pid + 1) % p, number)  # then it goes another way; what it brought is forgotten after it
            tickets = [allreduce.start(bsp, float(number), op, degree=max(2, p)) for op in (np.add, max)[: number % 3]]
            bsp.sync()
            mail = [(s, t, plain(x)) for s, t, x in bsp.inbox]
            found.append((mail, queue.values.tolist(), array.local.tolist()))
            assert [ticket.value for ticket in tickets] == [p * number, number][: len(tickets)]
        return found, [(r.h_out, r.h_in, r.messages, r.M, r.items) for r in bsp.ledger]

    results = spmd(main)
    virtual = pybsp.simulate(main, p=spmd.p, checked=spmd.checked).results
    assert results == virtual
    for pid, (found, _) in enumerate(results):
        local = np.zeros(4)
        for number, (mail, items, values) in enumerate(found):
            p = spmd.p
            sent = {
                s: {(s + number) % p, s if number % 5 == 0 else (s + 1) % p} if number % 7 else () for s in range(p)
            }
            if number % 7 < 2:
                local[number % 3 : number % 3 + 2] = number, (pid - 1) % p
            assert values == local.tolist()
            tag, payload = (number if number % 4 == 3 else None), plain(payloads[number % len(payloads)])
            assert mail == [(s, tag, payload) for s in range(p) if pid in sent[s]]
            assert items == ([number] if number % 6 == 2 else [])


@pytest.mark.parametrize("where", ["an operator", "a function", "its beginning"])
def test_a_sync_within_what_rides_is_refused(spmd: Spmd, where: str) -> None:
    """It would take the place of what the superstep has just brought."""

    def ending(bsp: pybsp.BSP) -> Any:
        def op(a: int, b: int) -> int:
            bsp.sync()
            return a + b

        def steps() -> Generator[None, None, None]:
            if where == "its beginning":
                bsp.sync()
            yield
            with bsp.superstep("within"):
                pass

        if where == "an operator":
            collectives.allreduce.start(bsp, bsp.pid, op, degree=bsp.p + 2)
        else:
            bsp.ride("steps", steps())
        bsp.send(0, "is not lost")
        bsp.sync()

    errors = spmd.errors(ending) if spmd.p > 1 or where != "an operator" else []
    for error in errors:
        assert isinstance(error, pybsp.UsageError)
        name = "allreduce" if where == "an operator" else "steps"
        assert f"bsp.sync: called within {name}, which rides: its function ends a superstep by each `yield`" in str(
            error
        )
