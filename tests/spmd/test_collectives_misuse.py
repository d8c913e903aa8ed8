"""Collectives called wrongly: an error on every processor that names the primitive and the argument; never a hang."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import pybsp
from pybsp import UsageError, collectives
from pybsp.collectives import (
    allreduce,
    broadcast,
    broadcast_items,
    exclusive_prefix,
    prefix,
    prefix_2d,
    reduce,
    reduce_scatter,
    sort,
)
from pybsp.collectives.baselines.broadcast_one_at_a_time import broadcast_one_at_a_time
from pybsp.collectives.baselines.prefix_pipelined import prefix_pipelined
from pybsp.collectives.operator_names import operator_name
from pybsp.layouts import Block, Cyclic
from tests.conftest import Spmd, on_processors

from .programs import LONG, caught
from .values import first

ADD = operator.add

# By primitive: a call with a value for each processor, an operator, and other arguments.
Call = Callable[..., Any]
FOLDS: dict[str, Call] = {
    "reduce": lambda bsp, op=ADD, value=1, **more: reduce(bsp, value, op, **more),
    "allreduce": lambda bsp, op=ADD, value=1, **more: allreduce(bsp, value, op, **more),
    "prefix": lambda bsp, op=ADD, value=1, **more: prefix(bsp, value, op, **more),
    "prefix_2d": lambda bsp, op=ADD, value=1, **more: prefix_2d(
        bsp, value if isinstance(value, np.ndarray) else [value] * 3, op, **more
    ),
    "prefix_pipelined": lambda bsp, op=ADD, value=1, **more: prefix_pipelined(bsp, [value] * 3, op, **more),
}
SPREADS: dict[str, Call] = {
    "broadcast": lambda bsp, **more: broadcast(bsp, 7, **more),
    "broadcast_items": lambda bsp, **more: broadcast_items(bsp, [7], **more),
    "broadcast_one_at_a_time": lambda bsp, **more: broadcast_one_at_a_time(bsp, [7], **more),
}
EVERY = {**FOLDS, **SPREADS}
ORDERED = {name: call for name, call in FOLDS.items() if name != "prefix_pipelined"}
ORDERED["exclusive_prefix"] = lambda bsp, **more: exclusive_prefix(bsp, 1, ADD, **more)
INNER = {"broadcast_one_at_a_time": "broadcast"}  # which is made of calls of another


def assert_all_fail(spmd: Spmd, main: Callable[..., Any], *said: str, **kwargs: Any) -> None:
    """Every processor raises, and what it raises holds all of these."""
    for error in spmd.errors(main, **kwargs):
        assert isinstance(error, pybsp.BSPError), error
        assert all(part in str(error) for part in said), (said, str(error))


@pytest.mark.parametrize("name", FOLDS)
@pytest.mark.parametrize("who", ["all", "last", "first"])
def test_an_operator_that_raises(spmd: Spmd, name: str, who: str) -> None:
    if spmd.p == 1:
        pytest.skip("nothing is combined")
    chosen = {"all": range(spmd.p), "last": [spmd.p - 1], "first": [0]}[who]
    if (who == "first" and name.startswith("prefix")) or (who == "last" and name == "reduce"):
        chosen = range(spmd.p)  # alone they combine nothing

    def main(bsp: pybsp.BSP) -> None:
        def bad(a: Any, b: Any) -> Any:
            if bsp.pid in chosen:
                raise ArithmeticError("no such sum")
            return a + b

        FOLDS[name](bsp, bad)

    assert_all_fail(spmd, main, f"{name}: argument op: raised ArithmeticError: no such sum")


@pytest.mark.parametrize("name", FOLDS)
def test_an_operator_that_does_not_suit_the_values(spmd: Spmd, name: str) -> None:
    if spmd.p == 1:
        pytest.skip("nothing is combined")

    def main(bsp: pybsp.BSP) -> None:
        FOLDS[name](bsp, np.bitwise_or, np.float64(1.5))

    assert_all_fail(spmd, main, f"{name}: argument op: raised TypeError")


@pytest.mark.parametrize("name", FOLDS)
@pytest.mark.parametrize("op", [None, "add", 3, np.sin, np.divmod], ids=str)
def test_an_operator_that_is_none(spmd: Spmd, name: str, op: Any) -> None:
    def everywhere(bsp: pybsp.BSP) -> None:
        FOLDS[name](bsp, op)

    def on_one(bsp: pybsp.BSP) -> None:
        FOLDS[name](bsp, op if bsp.pid == bsp.p - 1 else ADD)

    for main in (everywhere, on_one):
        assert_all_fail(spmd, main, f"{name}: argument op: expected an associative function of two values")


@pytest.mark.parametrize("name", FOLDS)
@pytest.mark.parametrize(
    ("op", "called"),
    [(sum, "builtins.sum"), (np.sum, "numpy.sum"), (np.max, "numpy.max"), (np.concatenate, "numpy.concatenate")],
    ids=["sum", "np.sum", "np.max", "np.concatenate"],
)
def test_a_sum_of_one_sequence_is_no_operator(spmd: Spmd, name: str, op: Any, called: str) -> None:
    """np.max(-5, 0) is -5: the second value is taken for an axis."""

    def main(bsp: pybsp.BSP) -> None:
        FOLDS[name](bsp, op, np.ones(2))

    assert_all_fail(spmd, main, f"{name}: argument op: expected an associative function of two values, got {called}, ")


@pytest.mark.parametrize(
    ("op", "way_out"),
    [(np.max, "np.maximum"), (np.prod, "np.multiply"), (np.any, "np.logical_or"), (np.mean, "one of two values, as")],
)
def test_what_combines_two_values_is_named_where_a_function_of_one_sequence_is_given(op: Any, way_out: str) -> None:
    with pytest.raises(pybsp.UsageError, match=f"which takes one sequence; use {way_out}"):
        pybsp.simulate(lambda bsp: collectives.allreduce(bsp, -5 * (1 - bsp.pid), op), p=2)


# What an op may not call.
WITHIN: dict[str, Call] = {
    "allreduce": lambda bsp: allreduce(bsp, 1.0, np.add),
    "allreduce.start": lambda bsp: allreduce.start(bsp, 1.0, np.add),
    "allgather": lambda bsp: collectives.allgather(bsp, "text"),
    "bsp.send": lambda bsp: bsp.send(0, 1),
    "bsp.array": lambda bsp: bsp.array(3),
}


@pytest.mark.parametrize("inner", WITHIN)
@pytest.mark.parametrize("started", [False, True])
@pytest.mark.parametrize("name", [*ORDERED, "reduce_scatter"])
def test_an_op_that_calls_something_of_the_machine(spmd: Spmd, name: str, started: bool, inner: str) -> None:
    if spmd.p < 3:
        pytest.skip("an exclusive prefix of two combines nothing")
    values = {"prefix_2d": [1.0] * 3, "reduce_scatter": np.ones(5)}

    def main(bsp: pybsp.BSP) -> None:
        def op(a: Any, b: Any) -> Any:
            WITHIN[inner](bsp)
            return a + b

        function: Any = getattr(collectives, name)
        if started:
            function.start(bsp, values.get(name, 1.0), op).finish()
        else:
            function(bsp, values.get(name, 1.0), op)
        bsp.sync()

    assert_all_fail(spmd, main, f"{name}: argument op: raised UsageError:", ": called within an op")


@pytest.mark.parametrize("started", [False, True])
def test_an_op_that_changes_its_list_and_returns_none(spmd: Spmd, started: bool) -> None:
    if spmd.p == 1:
        pytest.skip("nothing is combined")

    def main(bsp: pybsp.BSP) -> None:
        (allreduce.start if started else allreduce)(bsp, [bsp.pid], lambda a, b: a.extend(b))
        bsp.sync()

    assert_all_fail(spmd, main, "allreduce: argument op: raised TypeError: it has changed the list that it got")


def test_an_op_may_return_none(spmd: Spmd) -> None:
    assert (
        spmd(lambda bsp: allreduce(bsp, [bsp.pid], lambda a, b: a if a == b else None))
        == [[0] if spmd.p == 1 else None] * spmd.p
    )


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("function", [allreduce, reduce, prefix, exclusive_prefix, reduce_scatter])
@pytest.mark.parametrize(("op", "way_out"), [(max, "np.maximum"), (min, "np.minimum")])
def test_max_and_min_of_arrays_are_those_of_numpy(function: Any, op: Any, way_out: str, p: int) -> None:
    for call in (function, lambda *args: function.start(*args).finish()):
        with pytest.raises(pybsp.UsageError, match=f"argument op: .*which compares whole arrays; use {way_out}"):
            pybsp.simulate(call, np.ones(4), op, p=p)


def test_max_of_numbers_and_of_arrays_of_one_is_an_operator(spmd: Spmd) -> None:
    assert (
        spmd(lambda bsp: (allreduce(bsp, bsp.pid, max), allreduce(bsp, np.full(1, bsp.pid), max).tolist()))
        == [(spmd.p - 1, [spmd.p - 1])] * spmd.p
    )


def test_an_op_that_asks_for_the_truth_of_arrays_is_told_what_works_on_them() -> None:
    with pytest.raises(pybsp.UsageError, match=r"raised ValueError: The truth value .*; np.maximum, np.minimum"):
        pybsp.simulate(lambda bsp: allreduce(bsp, np.ones(4), lambda a, b: a if a > b else b), p=2)


@pytest.mark.parametrize(
    ("op", "text"),
    [
        (list.extend, "list.extend, which returns None; use operator.add"),
        (dict.update, "dict.update, which returns None; use operator.or_"),
        (Counter.update, "Counter.update, which returns None; use operator.add"),
        (lambda a, b: a.extend(b), "if op has returned None, let it return what it combines"),
    ],
    ids=["list", "dict", "Counter", "lambda"],
)
def test_an_op_that_returns_nothing_is_told_to_return_what_it_combines(op: Any, text: str) -> None:
    with pytest.raises(pybsp.UsageError, match=f"prefix: argument op: .*{text}"):
        pybsp.simulate(lambda bsp: collectives.prefix(bsp, [bsp.pid], op), p=4)


@pytest.mark.parametrize("name", ["allreduce", "broadcast", "histogram", "argsort", "top_k"])
@pytest.mark.parametrize("started", [False, True])
def test_what_is_no_processor_is_named(name: str, started: bool) -> None:
    """The processor left out, or a grid in the place of one of its groups, or a part that was not entered."""
    function = getattr(collectives, name)

    def main(bsp: pybsp.BSP, given: Any) -> None:
        made: dict[str, Callable[[], Any]] = {"grid": lambda: bsp.grid(1, 2), "part": lambda: bsp.split(0)}
        processor = made[given]() if isinstance(given, str) else given
        (function.start if started else function)(processor, np.ones(3), np.add)

    said = f"{name}: argument bsp: expected the processor, which the program gets, or one of its groups, got "
    for given, way_out in (
        (np.ones(2), ""),
        ("grid", ".*; of a grid take grid.row or grid.column"),
        ("part", ".*; enter the part by `with part as machine:`, and give machine"),
        (None, "None"),
    ):
        with pytest.raises(pybsp.UsageError, match=said + way_out):
            pybsp.simulate(main, given, p=2)


@pytest.mark.parametrize("name", [name for name in EVERY if name != "broadcast_items"])
@pytest.mark.parametrize("degree", [1, -3, 2.0, "2", True], ids=repr)
def test_a_degree_that_is_none(spmd: Spmd, name: str, degree: Any) -> None:
    def everywhere(bsp: pybsp.BSP) -> None:
        EVERY[name](bsp, degree=degree)

    def on_one(bsp: pybsp.BSP) -> None:
        EVERY[name](bsp, degree=degree if bsp.pid == 0 else None)

    for main in (everywhere, on_one):
        assert_all_fail(spmd, main, f"{name}: argument degree: expected a whole number of at least 2, got {degree!r}")


@pytest.mark.parametrize("name", ORDERED)
@pytest.mark.parametrize("order", ["Fixed", "", None, True, ["fixed"]], ids=repr)
def test_an_order_that_is_none(spmd: Spmd, name: str, order: Any) -> None:
    def everywhere(bsp: pybsp.BSP) -> None:
        ORDERED[name](bsp, order=order)

    def on_one(bsp: pybsp.BSP) -> None:
        ORDERED[name](bsp, order=order if bsp.pid == bsp.p - 1 else "fixed")

    for main in (everywhere, on_one):
        assert_all_fail(spmd, main, f'{name}: argument order: expected "any" or "fixed", got {order!r}')


@pytest.mark.parametrize("name", ["reduce", *SPREADS])
@pytest.mark.parametrize("root", [-1, "p", 10**20, 0.0, None, False], ids=repr)
def test_a_root_that_is_no_processor(spmd: Spmd, name: str, root: Any) -> None:
    if root == "p":
        root = spmd.p

    def everywhere(bsp: pybsp.BSP) -> None:
        EVERY[name](bsp, root=root)

    def on_one(bsp: pybsp.BSP) -> None:
        EVERY[name](bsp, root=root if bsp.pid == bsp.p - 1 else 0)

    for main in (everywhere, on_one):
        assert_all_fail(spmd, main, f"{name}: argument root: expected a processor from 0 to {spmd.p - 1}, got {root!r}")


def test_numpy_integers_are_roots_and_degrees(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        two: Any = np.int8(2)
        last: Any = np.uint16(bsp.p - 1)
        return broadcast(bsp, bsp.pid, last, two), reduce(bsp, 1, ADD, last, two), prefix(bsp, 1, ADD, two)

    p = spmd.p
    assert spmd(main) == [(p - 1, p if pid == p - 1 else None, pid + 1) for pid in range(p)]


DIFFERENT: dict[
    str, tuple[dict[str, Any], dict[str, Any]]
] = {  # what one processor does, and the argument that the error must name
    "degree": ({"degree": 2}, {"degree": 3}),
    "no degree": ({"degree": 2}, {}),
    "op": ({"op": ADD}, {"op": operator.mul}),
    "dtype": ({"value": np.ones(12)}, {"value": np.ones(12, np.float32)}),
    "size": ({"value": np.ones(2)}, {"value": np.ones(20)}),
    "long": ({"value": np.ones(LONG)}, {"value": np.ones(2)}),
    "long size": ({"value": np.ones(LONG)}, {"value": np.ones(LONG + 1000)}),
    "shape": ({"value": np.ones((3, 4))}, {"value": np.ones((4, 3))}),
    "order": ({}, {"order": "fixed"}),
    "order and degree": ({"degree": 2, "order": "fixed"}, {"degree": 2}),
    "empty": ({"value": np.ones(12)}, {"value": np.ones(0)}),
    "number": ({"value": np.ones(1)}, {"value": 1.0}),
    "object": ({"value": np.ones(1)}, {"value": "text"}),
}


@pytest.mark.parametrize("name", FOLDS)
@pytest.mark.parametrize("what", DIFFERENT)
@pytest.mark.parametrize("odd", ["first", "last", "half"])
def test_arguments_that_differ(spmd: Spmd, name: str, what: str, odd: str) -> None:
    if spmd.p == 1:
        pytest.skip("one processor agrees with itself")
    if name == "prefix_pipelined" and what.startswith("order"):
        pytest.skip("it has no order to choose")
    usual, other = DIFFERENT[what]
    p = spmd.p
    chosen = {"first": [0], "last": [p - 1], "half": list(range(0, p, 2))}[odd]
    argument = {
        "degree": "degree",
        "no degree": "degree",
        "op": "op",
        "order": "order",
        "order and degree": "order",
    }.get(what, "value")
    argument = "column" if argument == "value" and name in ("prefix_2d", "prefix_pipelined") else argument

    def main(bsp: pybsp.BSP) -> None:
        FOLDS[name](bsp, **(other if bsp.pid in chosen else usual))

    assert_all_fail(spmd, main, name, argument)


@pytest.mark.parametrize(("k", "other"), [(0, 3), (3, 0), (1, 9), (9, 1), (9, 30)])
@pytest.mark.parametrize("odd", [0, -1])
def test_a_number_of_rows_that_differs(spmd: Spmd, k: int, other: int, odd: int) -> None:
    if spmd.p == 1:
        pytest.skip("they are equal")

    def columns(bsp: pybsp.BSP, made: Callable[[int], Any]) -> Any:
        return made(other if bsp.pid == odd % bsp.p else k)

    def arrays(bsp: pybsp.BSP) -> None:
        prefix_2d(bsp, columns(bsp, np.ones), np.add)

    def lists(bsp: pybsp.BSP) -> None:
        prefix_2d(bsp, columns(bsp, lambda n: ["x"] * n), ADD)

    def pipelined(bsp: pybsp.BSP) -> None:
        prefix_pipelined(bsp, columns(bsp, lambda n: ["x"] * n), ADD)

    for main in (arrays, lists):
        assert_all_fail(spmd, main, "prefix_2d")
    assert_all_fail(spmd, pipelined, "prefix_pipelined")


def test_rows_of_the_same_kinds_in_another_order(spmd: Spmd) -> None:
    if spmd.p == 1:
        pytest.skip("one processor agrees with itself")

    def main(bsp: pybsp.BSP) -> None:
        numbers, arrays = [1, 1], [np.ones(2)]
        prefix_pipelined(bsp, numbers + arrays if bsp.pid == 0 else arrays + numbers, np.add)

    assert_all_fail(spmd, main, "prefix_pipelined: argument column", "3 items (2 x number, float64[2])")


@pytest.mark.parametrize("name", ["reduce", *SPREADS])
@pytest.mark.parametrize("roots", ["nobody", "two", "all", "lone", "many"])
def test_roots_that_differ(spmd: Spmd, name: str, roots: str) -> None:
    if spmd.p == 1:
        pytest.skip("one processor agrees with itself")

    def root(bsp: pybsp.BSP) -> int:
        pid, p = bsp.pid, bsp.p
        return {
            "nobody": (pid + 1) % p,
            "two": min(pid, 1),
            "all": pid,
            "lone": p - 1 if pid == 0 else 0,
            "many": pid % 3 % p,
        }[roots]

    def main(bsp: pybsp.BSP) -> None:
        EVERY[name](bsp, root=root(bsp))

    assert_all_fail(spmd, main, INNER.get(name, name), "argument root", " on processor ")  # both roots


@pytest.mark.parametrize("words", [3, 2000])
def test_what_a_started_broadcast_is_like_where_that_differs(spmd: Spmd, words: int) -> None:
    if spmd.p == 1:
        pytest.skip("one processor agrees with itself")

    def main(bsp: pybsp.BSP) -> None:
        like = np.zeros(words if bsp.pid == 0 else words + 1)
        ticket = collectives.broadcast.start(bsp, like if bsp.pid == 0 else None, like=like)
        bsp.sync()
        ticket.finish()

    assert_all_fail(spmd, main, "broadcast", "argument like", f"float64[{words}]")


@pytest.mark.parametrize("name", [name for name in SPREADS if name != "broadcast_items"])
@pytest.mark.parametrize("odd", [0, 1, -1])
def test_degrees_of_a_broadcast_that_differ(spmd: Spmd, name: str, odd: int) -> None:
    if spmd.p == 1:
        pytest.skip("one processor agrees with itself")

    def main(bsp: pybsp.BSP) -> None:
        EVERY[name](bsp, degree=3 if bsp.pid == odd % bsp.p else 2)

    assert_all_fail(spmd, main, INNER.get(name, name), "degree")


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("other", EVERY)
def test_different_primitives_at_once(spmd: Spmd, name: str, other: str) -> None:
    mine, theirs = INNER.get(name, name), INNER.get(other, other)
    if spmd.p == 1 or mine == theirs or (spmd.p == 2 and name > other):
        pytest.skip("they are the same")

    def main(bsp: pybsp.BSP) -> None:
        EVERY[other if bsp.pid == bsp.p - 1 else name](bsp)

    for error in spmd.errors(main):
        assert isinstance(error, pybsp.BSPError), error
        assert mine in str(error) or theirs in str(error), str(error)


@pytest.mark.parametrize("started", [False, True])
@pytest.mark.parametrize("function", [allreduce, prefix, reduce])
def test_other_arguments_are_heeded_after_calls_of_the_same_without_them(
    spmd: Spmd, function: Any, started: bool
) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        def call(**others: Any) -> Any:
            return (
                function.start(bsp, 1.0, np.add, **others).finish() if started else function(bsp, 1.0, np.add, **others)
            )

        usual = [call(), call()]
        wrong: list[dict[str, Any]] = [{"algorithm": "fast"}, {"degree": 1}, {"order": "other"}]
        if function is not reduce or bsp.p == 1:  # of which out is that of one processor alone
            wrong.append({"out": [0.0]})
        errors = [caught(lambda one=one: call(**one)) for one in wrong]
        last = call(root=bsp.p - 1) if function is reduce else call()
        return [*usual, call(order="fixed"), call(degree=2), last], errors

    for pid, (found, errors) in enumerate(spmd(main)):
        total = float(pid + 1 if function is prefix else spmd.p)
        roots = [0, 0, 0, 0, spmd.p - 1] if function is reduce else [pid] * 5
        assert found == [total if pid == root else None for root in roots]
        for name, error in zip(("algorithm", "degree", "order", "out"), errors, strict=False):
            assert error.kind is pybsp.UsageError
            assert error.text.startswith(f"{function.__name__}: argument {name}: expected ")


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("odd", [0, 1, -1])
def test_a_processor_that_does_not_call_it(spmd: Spmd, name: str, odd: int) -> None:
    if spmd.p == 1:
        pytest.skip("one processor agrees with itself")

    def main(bsp: pybsp.BSP) -> None:
        if bsp.pid != odd % bsp.p:
            EVERY[name](bsp)

    assert_all_fail(spmd, main, INNER.get(name, name))


@pytest.mark.parametrize("name", EVERY)
def test_a_processor_that_sends_messages_of_its_own_instead(spmd: Spmd, name: str) -> None:
    if spmd.p == 1:
        pytest.skip("one processor agrees with itself")

    def main(bsp: pybsp.BSP) -> None:
        if bsp.pid:
            EVERY[name](bsp)
            return
        for tag in (None, "text;0", ("a", 1), np.arange(3), 7):
            for dest in range(bsp.p):
                bsp.send(dest, 1, tag)
        for _ in range(4):
            bsp.sync()

    assert_all_fail(spmd, main, INNER.get(name, name))


def test_values_that_cannot_be_pickled(spmd: Spmd) -> None:
    if spmd.p == 1:
        pytest.skip("nothing is sent")

    def unpicklable(bsp: pybsp.BSP) -> Any:
        return (lambda: 0) if bsp.pid == bsp.p - 1 else None

    calls: dict[str, Call] = {
        "broadcast": lambda bsp, value: broadcast(bsp, value, bsp.p - 1),
        "broadcast_items": lambda bsp, value: broadcast_items(bsp, value, bsp.p - 1),
        "reduce": lambda bsp, value: reduce(bsp, value, max),
        "allreduce": lambda bsp, value: allreduce(bsp, value, max),
        "prefix_2d": lambda bsp, value: prefix_2d(bsp, [value] * 9, first),
    }
    for name, call in calls.items():

        def main(bsp: pybsp.BSP, call: Call = call) -> None:
            call(bsp, unpicklable(bsp))

        assert_all_fail(spmd, main, f"{name}: argument ", "expected something that can be pickled")


@pytest.mark.parametrize("column", [3, None, "text", np.array(1.0), {1: 2}], ids=repr)
def test_a_column_that_is_none(spmd: Spmd, column: Any) -> None:
    def main(bsp: pybsp.BSP) -> None:
        prefix_2d(bsp, column if bsp.pid == 0 else [1], ADD)

    assert_all_fail(spmd, main, "prefix_2d: argument column: expected an array of shape (k, ...) or a list")


def test_items_without_a_length(spmd: Spmd) -> None:
    def spread(bsp: pybsp.BSP) -> None:
        broadcast_one_at_a_time(bsp, 7)

    def piped(bsp: pybsp.BSP) -> None:
        prefix_pipelined(bsp, 7, ADD)

    assert_all_fail(spmd, spread, "broadcast_one_at_a_time: argument items: expected a sequence")
    assert_all_fail(spmd, piped, "prefix_pipelined: argument column: expected a sequence")


@pytest.mark.parametrize("big", [False, True])
def test_two_lambdas_are_told_apart_by_what_they_do(spmd: Spmd, big: bool) -> None:
    if spmd.p == 1:
        pytest.skip("one processor agrees with itself")
    value = np.ones(LONG) if big else 2.0

    def main(bsp: pybsp.BSP) -> Any:
        if bsp.pid == 0:
            return np.max(allreduce(bsp, value, lambda a, b: a + b))
        return np.max(allreduce(bsp, value, lambda a, b: a + b))

    assert spmd(main) == [spmd.p * np.max(value)] * spmd.p

    def differing(bsp: pybsp.BSP) -> None:
        allreduce(bsp, value, (lambda a, b: a * b) if bsp.pid == 0 else (lambda a, b: a + b))

    assert_all_fail(spmd, differing, "allreduce", "op")


def test_operators_are_named_by_module_or_by_code() -> None:
    def local(a: Any, b: Any) -> Any:
        return a if b in {"x", "y", 3} else b

    assert operator_name(np.add) == operator_name(operator.add) == "add"
    assert operator_name(max) == "max"
    assert operator_name(shorter) == f"{__name__}.shorter"
    assert operator_name(partial(shorter)) == f"partial of {__name__}.shorter"
    assert operator_name(local).startswith("local (code ")


class Scaled:
    """An operator with a scale."""

    def __init__(self, *scales: Any) -> None:
        self.scales = scales

    def __call__(self, a: Any, b: Any) -> Any:
        return a + b

    def scaled(self, a: Any, b: Any) -> Any:
        return self(a, b)


class OtherScaled(Scaled):
    """Another one."""


def weighted(weight: Any, a: Any, b: Any) -> Any:
    return a + b + weight


def added(a: Any, b: Any) -> Any:
    return a + b


# Operators that only what they are made with tells apart.
UNLIKE: dict[str, tuple[Any, Any]] = {
    "arguments of a partial": (partial(weighted, 0), partial(weighted, 5)),
    "keywords of a partial": (partial(added, b=0), partial(added, b=5)),
    "arrays of a partial": (partial(weighted, np.zeros(2)), partial(weighted, np.ones(2))),
    "functions of a partial": (partial(partial(weighted, 0)), partial(partial(weighted, 5))),
    "defaults": (lambda a, b, k=0: a + b + k, lambda a, b, k=5: a + b + k),
    "defaults of keywords": (lambda a, b, *, k=0: a + b + k, lambda a, b, *, k=5: a + b + k),
    "objects": (Scaled(0), Scaled(5)),
    "objects in objects": (Scaled([{"by": Scaled(0)}]), Scaled([{"by": Scaled(5)}])),
    "classes": (Scaled(0), OtherScaled(0)),
    "classes of methods": (Scaled(0).scaled, OtherScaled(0).scaled),
    "np.frompyfunc": (np.frompyfunc(lambda a, b: a + b, 2, 1), np.frompyfunc(lambda a, b: a * b, 2, 1)),
    "np.vectorize": (np.vectorize(lambda a, b: a + b), np.vectorize(lambda a, b: a * b)),
}


@pytest.mark.parametrize("case", UNLIKE)
def test_operators_are_told_apart_by_what_they_are_made_with(spmd: Spmd, case: str) -> None:
    if spmd.p == 1:
        pytest.skip("one processor agrees with itself")
    one, other = UNLIKE[case]

    def main(bsp: pybsp.BSP) -> None:
        allreduce(bsp, 3.0, other if bsp.pid == bsp.p - 1 else one)

    assert_all_fail(spmd, main, "allreduce: argument op: expected the same on all processors")


def test_equal_operators_that_are_made_on_each_processor_are_one(spmd: Spmd) -> None:
    class Names:
        def __init__(self, bsp: pybsp.BSP) -> None:
            names = ["a", "b", "c", "d"]
            self.bsp, self.names = bsp, {*names[bsp.pid % 4 :], *names[: bsp.pid % 4]}

        def __call__(self, a: Any, b: Any) -> Any:
            return a + b

    def main(bsp: pybsp.BSP) -> list[Any]:
        k = bsp.pid and np.int64(0)
        ops: list[Any] = [partial(weighted, k), partial(added), lambda a, b, k=k: a + b + k, Scaled(k, {"a": [1]})]
        ops += [Names(bsp), np.frompyfunc(added, 2, 1), np.vectorize(added), Scaled(bsp.pid).scaled]
        return [allreduce(bsp, 0, op) for op in ops]

    assert spmd(main) == [[0] * 8] * spmd.p


def test_what_an_object_has_too_much_of_is_not_compared() -> None:
    many, cycle = Scaled(*range(1000)), Scaled()
    given = [*range(1000)]
    cycle.scales = (partial(weighted, cycle),)
    assert [operator_name(op) for op in (many, cycle)] == [f"{__name__}.Scaled"] * 2
    assert operator_name(partial(weighted, given)) == f"partial of {__name__}.weighted"
    assert "defaults" not in operator_name(lambda a, b, k=given: a)
    assert operator_name(Scaled(5)) == f"{__name__}.Scaled of {{'scales': [5]}}"
    assert operator_name(partial(weighted, 5)) == f"partial of {__name__}.weighted with [5]"


def shorter(a: Any, b: Any) -> Any:
    """An operator of a module."""
    return min(a, b, key=len)


def test_an_operator_named_with_separators_is_compared(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        def op(a: Any, b: Any) -> Any:
            return a + b

        op.__name__ = "a;b=c"
        return allreduce(bsp, 1, op), prefix(bsp, 1, op)

    assert spmd(main) == [(spmd.p, pid + 1) for pid in range(spmd.p)]


def test_costs_and_plans_refuse_what_the_calls_refuse() -> None:
    m = pybsp.BSPMachine.nominal(8)
    for call in (
        lambda: broadcast.plan(5, 1),
        lambda: reduce.plan(5, 0),
        lambda: allreduce.plan(5, 1),
        lambda: prefix.plan(5, -2),
        lambda: prefix_2d.plan(5, 2, 1),
        lambda: broadcast_items.plan(5, 2, 1),
        lambda: broadcast.plan(5, 2, 5),
        lambda: broadcast_items.plan(5, 2, 2, -1),
        lambda: reduce.cost(m, 1, 2, 8),
        lambda: broadcast.cost(m, -1),
        lambda: broadcast.cost(m, 1, 1),
        lambda: broadcast_items.cost(m, 2.5),  # type: ignore[arg-type]
        lambda: reduce.cost(m, 1, 1),
        lambda: allreduce.cost(m, 1, True),
        lambda: prefix.cost(m, 1, 0),
        lambda: prefix_2d.cost(m, -1),
        lambda: reduce.plan(5, 1, order="fixed"),
        lambda: allreduce.plan(5, 1, "fixed"),
        lambda: prefix.plan(5, 0, "fixed"),
        lambda: prefix_2d.plan(5, 2, 1, "fixed"),
        lambda: reduce.plan(5, 2, order="none"),  # type: ignore[arg-type]
        lambda: allreduce.plan(5, 2, "none"),  # type: ignore[arg-type]
        lambda: reduce.plan(5, algorithm="2d"),
        lambda: allreduce.cost(m, algorithm="none"),
        lambda: allreduce.plan(5, algorithm="blocks", items=4),
        lambda: prefix.plan(5, 2, "none"),  # type: ignore[arg-type]
        lambda: prefix_2d.plan(5, 2, 2, "none"),
        lambda: reduce.cost(m, order="none"),  # type: ignore[arg-type]
        lambda: allreduce.cost(m, order="none"),  # type: ignore[arg-type]
        lambda: prefix.cost(m, order="none"),  # type: ignore[arg-type]
        lambda: prefix_2d.cost(m, 3, order="none"),  # type: ignore[arg-type]
        lambda: exclusive_prefix.cost(m, order="none"),  # type: ignore[arg-type]
        lambda: exclusive_prefix.plan(5, order="none"),  # type: ignore[arg-type]
        lambda: exclusive_prefix.plan(5, algorithm="blocks", items=9, order="fixed"),
        lambda: exclusive_prefix.cost(m, 9, items=9, algorithm="blocks", order="fixed"),
    ):
        with pytest.raises(UsageError, match=r"argument (degree|root|words|k|order|algorithm|items): expected"):
            call()


def _either(odd: bool, one: Any, other: Any) -> Any:
    return one if odd else other


MIXED: dict[str, Call] = {
    "broadcast": lambda bsp, odd: broadcast(bsp, np.arange(3.0), _either(odd, np.int64(0), 0)),
    "broadcast, started": lambda bsp, odd: broadcast.start(bsp, 1.5, _either(odd, np.int64(0), 0), like=0.0).finish(),
    "reduce": lambda bsp, odd: reduce(bsp, 1.5, np.add, _either(odd, np.int64(0), 0)),
    "reduce, started": lambda bsp, odd: reduce.start(bsp, 1.5, np.add, _either(odd, np.int64(0), 0)).finish(),
    "allreduce": lambda bsp, odd: allreduce(bsp, 1.5, np.add, _either(odd, np.int64(2), 2)),
    "exclusive_prefix": lambda bsp, odd: exclusive_prefix(bsp, _either(odd, np.float32(2), 2.0), np.add, 0.0),
    "exclusive_prefix, degree": lambda bsp, odd: exclusive_prefix(bsp, 2, np.add, 0, _either(odd, np.int64(2), 2)),
    "reduce_scatter": lambda bsp, odd: reduce_scatter(bsp, _either(odd, [1, 2, 3], np.array([1, 2, 3])), np.add),
    "sort": lambda bsp, odd: sort(bsp, np.arange(3), stable=_either(odd, np.bool_(False), False)),
}


@pytest.mark.parametrize("name", MIXED)
def test_arguments_that_are_equal_may_be_of_other_types_on_other_processors(spmd: Spmd, name: str) -> None:
    def main(bsp: pybsp.BSP, odd: int) -> Any:
        return np.asarray(MIXED[name](bsp, bsp.pid == odd)).tolist()

    alike = spmd(main, -1)
    for odd in range(min(spmd.p, 3)):
        assert spmd(main, odd) == alike


def test_a_degree_that_equals_a_whole_number_is_none_although_that_was_used_before(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> None:
        exclusive_prefix(bsp, 1, np.add, degree=2)
        exclusive_prefix(bsp, 1, np.add, degree=2.0)  # type: ignore[arg-type]

    errors = spmd.errors(main)
    assert all("argument degree: expected a whole number of at least 2, got 2.0" in str(error) for error in errors)


@pytest.mark.parametrize("name", ["allreduce", "prefix"])
def test_an_argument_that_is_missing_is_of_the_primitive(spmd: Spmd, name: str) -> None:
    def main(bsp: pybsp.BSP) -> str:
        with pytest.raises(TypeError) as caught:
            getattr(collectives, name)(bsp, 1)
        return str(caught.value)

    for text in spmd(main):
        assert text == f"{name}() missing 1 required positional argument: 'op'"


@pytest.mark.parametrize("odd", [0, -1])
@pytest.mark.parametrize("keys", ["number", "block"])
def test_a_sort_that_is_started_where_others_call_it_is_that_or_an_error_that_says_so(
    spmd: Spmd, keys: str, odd: int
) -> None:
    """Where nothing is shown both ways are the same messages, and it may go on."""
    own: Any = {"number": lambda pid: -float(pid), "block": lambda pid: np.arange(3.0) - pid}[keys]

    def main(bsp: pybsp.BSP) -> Any:
        if bsp.pid == odd % bsp.p:
            return collectives.sort.start(bsp, own(bsp.pid)).finish()
        return collectives.sort(bsp, own(bsp.pid))

    errors = spmd.errors(main)
    if any(errors):
        where = f"processor {odd % spmd.p} started it (sort.start) where processor "
        assert all(where in str(error) for error in errors)


def test_items_that_cannot_be_pickled_are_the_argument_items(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> None:
        collectives.broadcast_items(bsp, (one for one in [1]))

    assert "broadcast_items: argument items: expected something that can be pickled" in str(spmd.errors(main)[0])


def test_an_op_that_changes_the_arrays_it_gets_is_told_to_return_new_ones(spmd: Spmd) -> None:
    if spmd.p == 1:
        pytest.skip("nothing is combined")

    def in_place(a: Any, b: Any) -> Any:
        a += b
        return a

    def main(bsp: pybsp.BSP, started: bool) -> Any:
        value = np.ones(3)
        return (
            collectives.allreduce.start(bsp, value, in_place).finish() if started else allreduce(bsp, value, in_place)
        )

    for started in (False, True):
        found = [error for error in spmd.errors(main, started) if isinstance(error, pybsp.UsageError)]
        assert found
        assert all(str(error).endswith("it gets what it must not change: let it return a new value") for error in found)


def test_a_root_that_gives_no_array_to_scatter_is_named(spmd: Spmd) -> None:
    for error in spmd.errors(lambda bsp: collectives.scatter_blocks(bsp, None, root=bsp.p - 1)):
        text = f"scatter_blocks: argument array: expected an array on the root, processor {spmd.p - 1}, got None"
        assert text in str(error)


@pytest.mark.parametrize(
    ("function", "algorithm"), [("prefix", "2d"), ("reduce", "blocks"), ("exclusive_prefix", "blocks")]
)
def test_an_op_that_takes_values_whole_is_at_fault_where_an_algorithm_cuts_them(function: str, algorithm: str) -> None:
    with pytest.raises(
        pybsp.UsageError, match=f"^{function}: argument op: expected a numpy ufunc, as np.add, with algor"
    ):
        pybsp.simulate(
            lambda bsp: getattr(collectives, function)(bsp, np.arange(4.0), lambda x, y: x + y, algorithm=algorithm),
            p=2,
        )


@pytest.mark.parametrize("started", [False, True])
@pytest.mark.parametrize("function", [allreduce, reduce, prefix, exclusive_prefix])
def test_lists_of_other_lengths_under_a_ufunc(spmd: Spmd, function: Any, started: bool) -> None:
    if spmd.p == 1:
        pytest.skip("one processor agrees with itself")

    def main(bsp: pybsp.BSP) -> None:
        value = [1, 2] if bsp.pid == bsp.p - 1 else [1]
        (function.start if started else function)(bsp, value, np.add)
        bsp.sync()

    expected = f"{function.__name__}: argument value: expected the same on all processors"
    assert_all_fail(spmd, main, expected, "object[1] on processor 0", "object[2] on processor")


@on_processors
def test_lists_of_one_length_under_a_ufunc_are_combined_as_arrays(bsp: pybsp.BSP) -> None:
    assert np.array_equal(allreduce(bsp, [bsp.pid, 1], np.add), [bsp.p * (bsp.p - 1) // 2, bsp.p])


NONE = np.empty(0)


def blocks(bsp: pybsp.BSP, n: int) -> Block:
    return Block(n, bsp.p)


# Calls of which nothing moves, or nothing to and from one processor, as all but the last make them, and as that does.
Unmoved = tuple[Callable[..., Any], Callable[[pybsp.BSP, bool], tuple[Any, ...]], str]
UNMOVED: dict[str, Unmoved] = {
    "equal layouts": (
        collectives.redistribute,
        lambda bsp, odd: (np.ones(3, "f4" if odd else "f8"), blocks(bsp, 3 * bsp.p), blocks(bsp, 3 * bsp.p)),
        "array",
    ),
    "an equal layout on one": (
        collectives.redistribute,
        lambda bsp, odd: (np.ones(3), blocks(bsp, 3 * bsp.p), (Block if odd else Cyclic)(3 * bsp.p, bsp.p)),
        "to_layout",
    ),
    "empty layouts": (
        collectives.redistribute,
        lambda bsp, odd: (NONE.astype(int) if odd else NONE, blocks(bsp, 0), Cyclic(0, bsp.p)),
        "array",
    ),
    "no rows": (reduce_scatter, lambda bsp, odd: (NONE, np.maximum if odd else np.add), "op"),
    "no rows of a dtype": (reduce_scatter, lambda bsp, odd: (NONE.astype(int) if odd else NONE, np.add), "array"),
}


@pytest.mark.parametrize("started", [False, True])
@pytest.mark.parametrize("case", UNMOVED)
def test_arguments_that_differ_where_nothing_moves(spmd: Spmd, case: str, started: bool) -> None:
    if spmd.p == 1:
        pytest.skip("one processor agrees with itself")
    function, arguments, argument = UNMOVED[case]

    def main(bsp: pybsp.BSP) -> None:
        given = arguments(bsp, bsp.pid == bsp.p - 1)
        if not started:
            function(bsp, *given)
            return
        function.start(bsp, *given)  # type: ignore[attr-defined]
        bsp.sync()
        raise AssertionError("the first sync compares them")

    name = function.__name__
    assert_all_fail(spmd, main, f"{name}: argument {argument}: expected the same on all processors")


@pytest.mark.parametrize("case", [case for case in UNMOVED if case != "an equal layout on one"])
def test_one_that_is_started_on_one_processor_alone_where_nothing_moves(spmd: Spmd, case: str) -> None:
    if spmd.p == 1:
        pytest.skip("one processor agrees with itself")
    function, arguments, _ = UNMOVED[case]

    def main(bsp: pybsp.BSP) -> None:
        if bsp.pid == bsp.p - 1:
            function.start(bsp, *arguments(bsp, False))  # type: ignore[attr-defined]
        bsp.sync()
        raise AssertionError("the first sync compares them")

    assert_all_fail(spmd, main, f"has not called {function.__name__}")


def test_one_that_is_called_on_one_processor_alone_where_nothing_moves_is_an_error_of_the_end(spmd: Spmd) -> None:
    if spmd.p == 1:
        pytest.skip("one processor agrees with itself")

    def main(bsp: pybsp.BSP) -> None:
        if bsp.pid == 0:
            collectives.redistribute(bsp, np.ones(3), blocks(bsp, 3 * bsp.p), blocks(bsp, 3 * bsp.p))

    assert_all_fail(spmd, main, "redistribute: processor 1 has not called redistribute")


@on_processors
def test_calls_of_which_nothing_moves_beside_others(bsp: pybsp.BSP) -> None:
    layout, group = blocks(bsp, 3 * bsp.p), bsp.group([bsp.pid])
    for _ in range(3):
        tickets = [collectives.redistribute.start(bsp, np.ones(3), layout, layout)]
        tickets.append(reduce_scatter.start(bsp, NONE, np.add))
        tickets.append(collectives.redistribute.start(group, np.ones(1), Block(1, 1), Block(1, 1)))
        total = allreduce.start(bsp, 1.0, np.add)
        bsp.send((bsp.pid + 1) % bsp.p, 1)
        bsp.sync()
        assert [ticket.value.size for ticket in tickets] == [3, 0, 1]
        assert (total.value, len(bsp.inbox)) == (bsp.p, 1)
        assert collectives.redistribute(bsp, np.ones(3), layout, layout).size == 3
        assert allreduce(bsp, 1.0, np.add) == bsp.p


@pytest.mark.parametrize("how", ["plain", "started", "on a group", "started on a group"])
@pytest.mark.parametrize("name", ["allgather", "allreduce", "scatter", "duplicate", "sample_sort"])
def test_a_call_that_is_refused_on_one_processor_can_be_made_again_there(spmd: Spmd, name: str, how: str) -> None:
    """It has sent nothing, so the others wait for it: whatever way the values go."""

    def main(bsp: pybsp.BSP) -> Any:
        last = bsp.p - 1
        bad, good = {
            "allgather": ((lambda: 1,), (bsp.pid,)),
            "allreduce": ((lambda: 1, max), (bsp.pid, max)),
            "scatter": (([], last), (range(bsp.p), last)),
            "duplicate": (([1], [-1]), ([1], [1])),
            "sample_sort": ((3,), (np.arange(3),)),
        }[name]
        primitive = getattr(collectives, name)
        call = primitive.start if "started" in how else primitive
        machine = bsp.group(range(bsp.p)) if "group" in how else bsp
        if bsp.pid == last:
            refused = caught(call, machine, *bad).kind
            assert refused is pybsp.UsageError or bsp.p == 1
        found = call(machine, *good)
        if "started" in how:
            found.finish()
        return int(collectives.allreduce(machine, 1, np.add))

    assert spmd(main) == [spmd.p] * spmd.p
