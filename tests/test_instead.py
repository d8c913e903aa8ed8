"""What a program is told that asks a processor, an array, a ticket, ... for what it has not."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

import pybsp
from pybsp import collectives
from pybsp.ground.instead import _CALLED, instead_of
from pybsp.logp.engine import SimulatedProcessor
from pybsp.logp.ranks import RankProcessor
from pybsp.logp.timeless import TimelessProcessor
from pybsp.routing.logp_on_bsp.processor import CycleProcessor

pytestmark = pytest.mark.fast  # all of their many cases, which take a millisecond each


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("rank", "; bsp.pid is the number of this processor"),
        ("Get_size", "; bsp.p is the number of processors"),
        ("Allreduce", "; call collectives.allreduce(bsp, ...), after `from pybsp import collectives`"),
        ("Alltoallv", "; call collectives.total_exchange_blocks(bsp, ...), after `from pybsp import collectives`"),
        ("recv", "; bsp.inbox has what was sent in the superstep before"),
        ("Probe", "; bsp.inbox has what was sent in the superstep before"),
        ("iprobe", "; bsp.inbox has what was sent in the superstep before"),
        ("Create_cart", "; bsp.grid(rows, columns) has the processors' rows and columns"),
        (
            "Accumulate",
            "; to_x = x.pattern(dests, at), and after a sync to_x.put(values, np.add), adds to an array's items",
        ),
        ("Send", "; bsp.send sends, and bsp.sync() brings it"),
        ("sample_sort", "; call collectives.sample_sort(bsp, ...), after `from pybsp import collectives`"),
        ("put", "; x.put(dest, values) writes into an array, x = bsp.array(n), with bsp.sync()"),
        ("lable", "; did you mean bsp.label?"),
        ("Sned", "; did you mean bsp.send?"),
        ("allredcue", "; call collectives.allreduce(bsp, ...), after `from pybsp import collectives`"),
        ("something", ""),
    ],
)
def test_a_name_that_there_is_not_is_an_error_that_says_what_there_is(name: str, hint: str) -> None:
    def main(bsp: pybsp.BSP) -> str:
        assert not hasattr(bsp, name)
        with pytest.raises(AttributeError) as caught:
            getattr(bsp, name)
        # By these Python says what is spelt alike.
        assert (caught.value.name, caught.value.obj) == (name, None if hint else bsp)
        return str(caught.value)

    assert pybsp.simulate(main, p=1).results == [f"bsp.{name}: there is none{hint}"]


def test_a_property_that_lacks_something_is_no_name_that_there_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pybsp.BSP, "pending", property(lambda bsp: bsp.pid.nothing))

    def main(bsp: pybsp.BSP) -> None:
        bsp.pending  # noqa: B018

    with pytest.raises(AttributeError, match=r"bsp\.pending: what it is made from lacks an attribute"):
        pybsp.simulate(main, p=1)


def test_every_collective_that_is_named_instead_is_one() -> None:
    assert all(callable(getattr(collectives, name)) for name in _CALLED.values())


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("alltoall", ": call collectives.total_exchange(bsp, ...), after `from pybsp import collectives`"),
        ("Scan", ": call collectives.prefix(bsp, ...), after `from pybsp import collectives`"),
        ("shuffle", ""),
        ("_alltoall", ""),
    ],
)
def test_names_of_mpi4py_are_named_where_collectives_are_looked_for(name: str, hint: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(collectives, name)
    assert str(caught.value) == f"module 'pybsp.collectives' has no attribute {name!r}{hint}"


def test_no_name_of_a_processor_has_something_instead() -> None:
    assert [name for name in dir(pybsp.BSP) if instead_of(name)] == []


@pytest.mark.parametrize(
    ("name", "value", "hint"),
    [
        ("label", "exchange", "call bsp.label('exchange'), or write `with bsp.superstep('exchange'):`"),
        ("sync", 1, "call bsp.sync(...)"),
        ("pid", 0, "a value of the program's own goes into a variable"),
        ("ledger", 0, "a value of the program's own goes into a variable"),
        ("mine", 0, "a value of the program's own goes into a variable"),
    ],
)
def test_what_a_processor_has_is_not_assigned(name: str, value: Any, hint: str) -> None:
    def main(bsp: pybsp.BSP) -> str:
        with pytest.raises(AttributeError) as caught:
            setattr(bsp, name, value)
        return str(caught.value)

    text = f"bsp.{name}: expected to stay as it is, got {value!r}; {hint}"
    assert pybsp.simulate(main, p=2).results == [text, text]


@pytest.mark.parametrize("what", ["bsp", "group", "grid", "part", "what calls it"])
def test_a_processor_and_what_it_makes_of_its_machine_cannot_be_sent(what: str) -> None:
    def main(bsp: pybsp.BSP) -> None:
        made = {"bsp": bsp, "group": bsp.group([bsp.pid]), "grid": bsp.grid(1, 2)}
        with bsp.split(0) as made["part"]:
            pass
        bsp.send(0, made.get(what, {1: bsp.send}))

    expected = r"argument payload: expected something that can be pickled, .*\(a copy of bsp: there is none, nor of its"
    with pytest.raises(pybsp.UsageError, match=expected):
        pybsp.simulate(main, p=2)


LOCAL = "x.local is this processor's part"
VALUE = "ticket.value is there after the sync that brings it"
VALUES = "queue.values has the items that arrived with the last sync"


@pytest.mark.parametrize(
    ("name", "what", "kind", "text"),
    [
        ("x", "shape", AttributeError, f"x.shape: there is none; write x.local.shape ({LOCAL})"),
        ("x", "sum", AttributeError, f"x.sum: there is none; write x.local.sum ({LOCAL})"),
        ("x", "global_get", AttributeError, "x.global_get: there is none; only an array that is made of a layout"),
        ("x", len, TypeError, f"len(x): there is none; write len(x.local) ({LOCAL})"),
        ("x", list, TypeError, f"for v in x: there is none; write for v in x.local ({LOCAL})"),
        ("x", lambda x: 1 in x, TypeError, f"v in x: there is none; write v in x.local ({LOCAL})"),
        ("x", lambda x: list(x[0]), ValueError, "got another processor's memory: ticket = x[pid][...].get() asks"),
        ("x", pickle.dumps, TypeError, f"a copy of x: there is none; write x.local ({LOCAL})"),
        ("ticket", pickle.dumps, TypeError, f"a copy of ticket: there is none; write ticket.value ({VALUE})"),
        ("started", copy.copy, TypeError, f"a copy of ticket: there is none; write ticket.value ({VALUE})"),
        ("queue", pickle.dumps, TypeError, f"a copy of queue: there is none; write queue.values ({VALUES})"),
        ("x", lambda x: x + 1, TypeError, "arithmetic with x: there is none; write x.local"),
        ("x", lambda x: 2.0 * x, TypeError, "arithmetic with x: there is none; write x.local"),
        ("x", lambda x: x < 1, TypeError, "arithmetic with x: there is none; write x.local"),
        ("x", lambda x: x == 0, TypeError, "arithmetic with x: there is none; write x.local"),
        ("x", lambda x: x != [0, 0, 0], TypeError, "arithmetic with x: there is none; write x.local"),
        (
            "ticket",
            lambda ticket: ticket == 0.5,
            TypeError,
            "arithmetic with ticket: there is none; write ticket.value",
        ),
        ("started", lambda ticket: ticket == 1, TypeError, "arithmetic with ticket: there is none; write ticket.value"),
        ("ticket", "shape", AttributeError, f"ticket.shape: there is none; write ticket.value.shape ({VALUE})"),
        ("ticket", lambda ticket: ticket + 1, TypeError, "arithmetic with ticket: there is none; write ticket.value"),
        (
            "ticket",
            lambda ticket: ticket[0],
            TypeError,
            f"ticket[...]: there is none; write ticket.value[...] ({VALUE})",
        ),
        ("started", lambda ticket: 1 - ticket, TypeError, "arithmetic with ticket: there is none; write ticket.value"),
        ("started", "wait", AttributeError, "ticket.wait: there is none; bsp.sync() brings the value; of a started"),
        ("started", "Test", AttributeError, "of a started collective ticket.done says whether"),
        ("ticket", "result", AttributeError, "of a started collective ticket.finish() returns it"),
        ("started", lambda ticket: ticket.nothing, AttributeError, "'Ride' object has no attribute 'nothing'"),
        ("started", len, TypeError, f"len(ticket): there is none; write len(ticket.value) ({VALUE})"),
        ("queue", list, TypeError, "queue[...]: there is none; write queue.values[...]"),
        ("queue", lambda queue: queue[0], TypeError, f"queue[...]: there is none; write queue.values[...] ({VALUES})"),
        ("queue", "put", AttributeError, "queue.put: there is none; queue.send(dest, values) sends items"),
        (
            "row",
            "sync",
            AttributeError,
            "group.sync: there is none; bsp.sync() ends the superstep of all processors; bsp",
        ),
        ("row", "inbox", AttributeError, "group.inbox: there is none; write bsp.inbox, of the whole machine"),
        ("inbox", "payload", AttributeError, "bsp.inbox.payload: there is none; bsp.inbox[0].payload is that of the"),
        (
            "inbox",
            lambda inbox: inbox["a"],
            ValueError,
            "messages with that tag are [m for m in bsp.inbox if m.tag == 'a']",
        ),
        (
            "split",
            "sync",
            AttributeError,
            "bsp.split(...).sync: there is none; the machine of its block has it: `with bsp.",
        ),
        ("layout", "indices", AttributeError, "np.arange(n)[layout.part(pid)] are global indices"),
        ("bsp", lambda bsp: bsp.sync("a"), TypeError, "BSP.sync() takes 1 positional argument but 2 were given"),
    ],
)
def test_what_there_is_not_is_an_error_that_says_what_to_write(
    name: str, what: str | Callable[[Any], Any], kind: type[Exception], text: str
) -> None:
    def main(bsp: pybsp.BSP) -> str:
        things: dict[str, Any] = {"bsp": bsp, "x": bsp.array(3), "queue": bsp.queue(), "row": bsp.grid(1, bsp.p).row}
        things["split"], things["layout"] = bsp.split(0), pybsp.layouts.Block(3, bsp.p)
        bsp.sync()
        things["ticket"], things["inbox"] = things["x"].get(0), bsp.inbox
        things["started"] = collectives.allreduce.start(bsp, bsp.pid, np.add)
        thing = things[name]
        with pytest.raises(kind) as caught:
            getattr(thing, what) if isinstance(what, str) else what(thing)
        assert not isinstance(what, str) or (not hasattr(thing, what) and what not in dir(thing))
        bsp.sync()
        return str(caught.value)

    for found in pybsp.simulate(main, p=2).results:
        assert text in found


MACHINE, LOGP = pybsp.BSPMachine(p=2, g=1e-8, l=1e-5, r=1e9), pybsp.LogPMachine(p=2, L=16, o=1, G=4)


def _once(bsp: pybsp.BSP) -> None:
    bsp.sync()


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("cost.time", "cost.time: there is none; cost.seconds is the time on its machine"),
        ("simulation.speedup", "simulate with several p, and divide the first one's time by those of the others"),
        ("simulation.p", "simulation.ledger.machine.p is the number of processors"),
        ("simulation.predicted", "simulation.predicted: there is none; it is simulation.ledger that has it"),
        ("execution.time", "execution.time: there is none; execution.ledger.measured is the time of its supersteps"),
        ("ledger.supersteps", "ledger.supersteps: there is none; len(ledger) is their number"),
        ("ledger.M", "ledger.total has the sums of all, ledger.totals() those of each label"),
        ("ledger.plot", "a cell of a notebook that ends with it shows tables and pictures"),
        ("ledger.to_pandas", "pandas.DataFrame(list(ledger)) is a table of its records"),
        ("record.time", "record.measured and record.predicted are of all of it, record.seconds of computing"),
        ("record.w", "record.w: there is none; record.work is the flop"),
        ("machine.replace", "BSPMachine.replace: there is none; dataclasses.replace(machine, g=...) is one"),
        ("logp.replace", "LogPMachine.replace: there is none; dataclasses.replace(machine, G=...) is one"),
        ("logp.g", "LogPMachine.g: there is none; machine.G is the gap, in steps"),
    ],
)
def test_costs_ledgers_and_machines_say_what_there_is_instead(what: str, text: str) -> None:
    simulation = pybsp.simulate(_once, machine=MACHINE)
    things = {"simulation": simulation, "ledger": simulation.ledger, "record": simulation.ledger[0]}
    things["execution"] = pybsp.Execution(simulation.results, simulation.ledger)
    things |= {"cost": collectives.broadcast.cost(MACHINE), "machine": MACHINE, "logp": LOGP}
    name, _, attribute = what.partition(".")
    assert not hasattr(things[name], attribute)
    assert attribute not in dir(things[name])
    with pytest.raises(AttributeError) as caught:
        getattr(things[name], attribute)
    assert text in str(caught.value)


def test_of_a_hinted_class_all_that_there_is_stays() -> None:
    ledger = pybsp.simulate(_once, machine=MACHINE).ledger
    for thing in (MACHINE, LOGP, ledger[0], collectives.broadcast.cost(MACHINE)):
        assert repr(pickle.loads(pickle.dumps(thing))) == repr(copy.deepcopy(thing)) == repr(thing)
        assert all(hasattr(thing, name) for name in dir(thing))


class Operand:
    """What knows how to be combined with anything."""

    def __radd__(self, other: Any) -> str:
        return "its own"

    def __sub__(self, other: Any) -> str:
        return "its own"


def test_hints_leave_what_worked() -> None:
    def main(bsp: pybsp.BSP) -> None:
        x, queue = bsp.array(pybsp.layouts.Block(3 * bsp.p, bsp.p)), bsp.queue(np.int64)
        bsp.sync()
        x.local[:] = 1
        ticket, started = x.get(0), collectives.allreduce.start(bsp, 1, np.add)
        assert x
        assert ticket
        assert started
        assert not queue
        queue.send(0, 1)
        bsp.sync()
        assert x.layout.p == bsp.p
        assert queue.dtype == np.int64
        assert len(queue) == bsp.p * (bsp.pid == 0)
        value: Any = ticket
        for found in (value + np.ones(3), np.ones(3) + value, value + np.float64(1), np.float64(1) + value):
            assert found.tolist() == [2.0] * 3
        assert (value < np.ones(3)).tolist() == [False] * 3
        assert (value == np.ones(3)).tolist() == [True] * 3
        assert x == x in [ticket, x]
        assert value != x
        assert {ticket: 1, x: 2, started: 3}[x] == 2
        assert ticket != None  # noqa: E711 - as `==`
        assert value + Operand() == Operand() - value == "its own"
        assert not any(isinstance(one, Iterable) for one in (ticket, started, queue))
        started.value  # noqa: B018

    pybsp.simulate(main, p=2)


def test_a_logp_processor_says_what_there_is_instead_of_supersteps() -> None:
    with pytest.raises(
        AttributeError, match=r"proc\.sync: there is none; LogP has no supersteps; proc\.recv\(\) waits"
    ):
        pybsp.logp.simulate(lambda proc: proc.sync(), p=2)
    for of in (RankProcessor, SimulatedProcessor, TimelessProcessor, CycleProcessor):
        with pytest.raises(AttributeError, match=r"proc\.sync: there is none; LogP has no supersteps"):
            getattr(of, "sync")  # noqa: B009
        with pytest.raises(AttributeError, match=r"proc\.work: there is none; proc\.compute\(steps\) computes for so"):
            getattr(of, "work")  # noqa: B009


@pytest.mark.parametrize("index", [9, -1, "a", slice(1, 2), True])
def test_a_number_that_is_no_processors_is_an_error_that_names_the_other_ways(index: Any) -> None:
    def main(bsp: pybsp.BSP) -> None:
        plain, laid_out = bsp.array(4), bsp.array(pybsp.layouts.Block(16, bsp.p))
        bsp.sync()
        with pytest.raises(pybsp.UsageError, match=r"from 0 to 3, as in x\[pid\]\[2:5\].* x\.local\[2:5\]$"):
            plain[index] = 5
        with pytest.raises(
            pybsp.UsageError, match=r"x\.local\[2:5\]; by the layout's numbers: x\.global_put\(indices, v"
        ):
            laid_out[index] = 5
        laid_out[np.int64(0)] = 5  # processor 0's part
        bsp.sync()
        assert laid_out.local.tolist() == [5.0 * (bsp.pid == 0)] * 4

    pybsp.simulate(main, p=4)
