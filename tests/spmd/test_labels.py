"""Labels: of blocks, of a superstep without a sync, and of collectives that are called under one."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import numpy as np
import pytest

import pybsp
from pybsp import collectives
from tests.conftest import Spmd

from .programs import caught

Program = Callable[[pybsp.BSP], Any]


def labels_of(spmd: Spmd, program: Program) -> list[str]:
    """The labels of a program's supersteps, which all processors see alike."""

    def main(bsp: pybsp.BSP) -> list[str]:
        program(bsp)
        return [record.label for record in bsp.ledger]

    results = spmd(main)
    assert all(result == results[0] for result in results)
    return results[0]  # type: ignore[no-any-return]


def total(bsp: pybsp.BSP) -> float:
    """A collective of several supersteps; of none on a processor alone."""
    return float(collectives.allreduce(bsp, 1.0, np.add, degree=2))


def steps_of(spmd: Spmd) -> int:
    """Those of `total`."""
    return len(collectives.allreduce.plan(spmd.p, degree=2))


def test_a_label_holds_until_the_next_sync(spmd: Spmd) -> None:
    def program(bsp: pybsp.BSP) -> None:
        queue = bsp.queue(np.int64)
        bsp.label("nothing sent")
        bsp.sync()
        bsp.sync()
        bsp.label("replaced")
        bsp.label("queue")
        queue.send(0, 1)
        bsp.sync()
        bsp.send(0, 1)
        bsp.label("message")
        bsp.sync()
        bsp.send(0, 1)
        bsp.sync()
        bsp.label("halves")
        bsp.begin()
        bsp.end()
        bsp.sync()

    assert labels_of(spmd, program) == ["nothing sent", "", "queue", "message", "", "halves", ""]


def test_a_label_is_over_with_its_superstep_though_an_op_raises_there(spmd: Spmd) -> None:
    def raising(a: int, b: int) -> int:
        raise ArithmeticError("no such sum")

    def program(bsp: pybsp.BSP) -> None:
        for label in "first", "second":
            bsp.label(label)
            collectives.allreduce.start(bsp, bsp.pid, raising, degree=max(2, bsp.p))
            assert ("no such sum" in caught(bsp.sync).text) == (bsp.p > 1)
            bsp.sync()

    assert labels_of(spmd, program) == ["first", "", "second", ""]


def test_a_label_that_is_given_while_a_labelled_superstep_ends_is_the_next_ones(spmd: Spmd) -> None:
    def program(bsp: pybsp.BSP) -> None:
        def steps() -> Generator[None, None, None]:
            yield
            bsp.label("from what rides")
            yield

        bsp.label("first")
        bsp.ride("mine", steps())
        for _ in range(3):
            bsp.sync()

    assert labels_of(spmd, program) == ["first", "from what rides", ""]


def test_a_label_in_a_block_goes_before_the_blocks(spmd: Spmd) -> None:
    def program(bsp: pybsp.BSP) -> None:
        with bsp.superstep("block"):
            bsp.label("first")
            bsp.sync()
            bsp.sync()
            bsp.label("last")
        bsp.sync()

    assert labels_of(spmd, program) == ["first", "block", "last", ""]


def test_a_label_as_a_context_labels_what_ends_in_the_block_and_does_not_sync(spmd: Spmd) -> None:
    def program(bsp: pybsp.BSP) -> None:
        with bsp.superstep("outer"), bsp.label("inner"):
            bsp.sync()
            bsp.send(0, 1)
            bsp.sync()
        with bsp.label("none ends in it"):
            bsp.send(0, 1)
        bsp.sync()

    assert labels_of(spmd, program) == ["inner", "inner", "outer", ""]


def test_a_split_carries_the_label_and_ends_it(spmd: Spmd) -> None:
    def program(bsp: pybsp.BSP) -> None:
        bsp.label("halves")
        with bsp.split(bsp.pid % 2) as part:
            part.label("of the part")
            part.sync()
        bsp.sync()
        with bsp.superstep("block"), bsp.split(bsp.pid % 2):
            pass

    assert labels_of(spmd, program) == ["halves", "", "block", "block"]


def test_a_collective_carries_the_programs_label(spmd: Spmd) -> None:
    def program(bsp: pybsp.BSP) -> None:
        bsp.label("norm")
        total(bsp)
        total(bsp)
        bsp.send(0, 1)
        bsp.sync()
        bsp.sync()
        with bsp.superstep("block"):
            total(bsp)
        with bsp.label("context"):
            total(bsp)
        total(bsp)
        with bsp.label("outer"):
            bsp.label("")
            total(bsp)

    steps = steps_of(spmd)
    own = ["allreduce"] * steps
    expected = [*["norm"] * (2 * steps + 1), "", *["block"] * (steps + 1), *["context"] * steps, *own, *own]
    assert labels_of(spmd, program) == expected


def test_a_labelled_collective_costs_what_it_does_alone(spmd: Spmd) -> None:
    def rows(bsp: pybsp.BSP, run: Program) -> list[tuple[Any, ...]]:
        before = len(bsp.ledger)
        run(bsp)
        return [(r.work, r.messages, r.h_out, r.h_in, r.h, r.M, r.items) for r in bsp.ledger[before:]]

    def work(bsp: pybsp.BSP) -> Any:
        return collectives.prefix(bsp, np.ones(100), np.add), collectives.broadcast(bsp, 3.0)

    def labelled(bsp: pybsp.BSP) -> Any:
        with bsp.label("outer"), bsp.label("inner"):
            return work(bsp)

    def main(bsp: pybsp.BSP) -> Any:
        bsp.sync()
        alone = rows(bsp, work)
        bsp.sync()  # what the last fold charged is this one's
        return alone, rows(bsp, labelled)

    for alone, inside in spmd(main):
        assert inside == alone


def test_a_block_syncs_at_its_end_whatever_was_called_in_it(spmd: Spmd) -> None:
    def program(bsp: pybsp.BSP) -> list[int]:
        with bsp.superstep("sum"):
            total(bsp)
            if bsp.pid == bsp.p - 1:
                bsp.send(0, 1)
        return [message.payload for message in bsp.inbox]

    assert spmd(program) == [[1]] + [[]] * (spmd.p - 1)
    assert labels_of(spmd, program) == ["sum"] * (steps_of(spmd) + 1)


@pytest.mark.parametrize("form", ["context", "label"])
def test_labels_of_collectives_that_differ_are_an_error_in_checked_mode_alone(spmd: Spmd, form: str) -> None:
    def main(bsp: pybsp.BSP) -> None:
        if bsp.pid:
            total(bsp)
        elif form == "label":
            bsp.label("norm")
            total(bsp)
        else:
            with bsp.label("norm"):
                total(bsp)

    errors = spmd.errors(main)
    if spmd.checked and spmd.p > 1:
        assert [type(error) for error in errors] == [pybsp.SyncError] * spmd.p
        for label in ('processor 0: "norm" at', ": no label at"):
            assert label in str(errors[0])
    else:
        assert errors == [None] * spmd.p


def test_names_of_collectives_are_no_labels_that_are_compared(spmd: Spmd) -> None:
    def in_another_order(bsp: pybsp.BSP) -> list[float]:
        tickets = [collectives.allreduce.start(bsp, 1.0, np.add), collectives.prefix.start(bsp, 1.0, np.maximum)]
        for ticket in tickets[:: -1 if bsp.pid else 1]:
            ticket.finish()
        return [float(ticket.value) for ticket in tickets]

    assert spmd(in_another_order) == [[spmd.p, 1.0]] * spmd.p
    errors = spmd.errors(lambda bsp: (collectives.prefix if bsp.pid else collectives.allreduce)(bsp, 1.0, np.add))
    for error in errors[: spmd.p if spmd.p > 1 else 0]:
        assert isinstance(error, pybsp.UsageError)
        assert "is in prefix(" in str(error) or "is in allreduce(" in str(error)


def test_an_error_names_the_label(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> None:
        bsp.label("before")
        bsp.sync()
        bsp.label("norm")
        total(bsp)
        if bsp.pid == 0:
            raise LookupError
        bsp.sync()

    errors = spmd.errors(main)
    assert isinstance(errors[0], LookupError)
    for error in errors[1:]:
        assert isinstance(error, pybsp.ProcessorError)
        assert error.label == "norm"


def test_a_wrong_label_is_an_error(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        number: Any = 5
        errors = [caught(bsp.label, number), caught(bsp.own_superstep, number)]
        bsp.begin()
        errors.append(caught(bsp.label, "late"))
        bsp.end()
        return errors, bsp.ledger[0].label

    for (label, name, late), recorded in spmd(main):
        assert {error.kind for error in (label, name, late)} == {pybsp.UsageError}
        assert label.text == "bsp.label: argument label: expected a str, got int 5"
        assert name.text == "bsp.own_superstep: argument name: expected a str, got int 5"
        assert late.text.startswith("bsp.label: bsp.begin() has ended the sending")
        assert recorded == ""


def test_a_functions_own_superstep_delivers_and_has_its_name_where_there_is_no_label(spmd: Spmd) -> None:
    def around(bsp: pybsp.BSP) -> Any:
        bsp.send((bsp.pid + 1) % bsp.p, bsp.pid)
        bsp.own_superstep("around")
        return bsp.inbox[0].payload

    def program(bsp: pybsp.BSP) -> None:
        assert around(bsp) == (bsp.pid - 1) % bsp.p
        with bsp.label("ring"):
            assert around(bsp) == (bsp.pid - 1) % bsp.p
        bsp.label("once")
        around(bsp)
        bsp.sync()

    assert labels_of(spmd, program) == ["around", "ring", "once", "once"]
