"""What a shell shows of pybsp's objects: their reprs, at any time, what it completes, and what help says."""

from __future__ import annotations

import inspect
import pydoc
import re
import rlcompleter
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import pybsp
from pybsp import collectives, layouts, logp
from pybsp.on_network import Steps
from pybsp.routing import networks, relations

from .test_reference import ENTRIES, Entry

MACHINE = pybsp.BSPMachine(p=2, g=1e-8, l=1e-5, r=1e9)
OTHERS = ("pybsp.collectives.", "pybsp.routing.")  # names that are classes of the interface too


def of_processor(bsp: pybsp.BSP) -> tuple[list[str], Any]:
    return [repr(bsp)], bsp


def of_part(bsp: pybsp.BSP) -> tuple[list[str], Any]:
    half, nothing = bsp.split(bsp.pid), bsp.split(None)
    shown = [repr(half), repr(nothing)]
    with half as part:
        part.sync()
        shown += [repr(half), repr(part)]
    return shown, half


def of_failed_part(bsp: pybsp.BSP) -> tuple[list[str], Any]:
    half = bsp.split(bsp.pid)
    with pytest.raises(KeyError), half as part:
        raise KeyError
    return [repr(half), repr(part)], part


def of_ticket(bsp: pybsp.BSP) -> tuple[list[str], Any]:
    x = bsp.array((2, 3), np.int64)
    bsp.sync()
    tickets = [x.get(0), x.get(0, (0, slice(2))), x.get(0, (1, 2))]
    shown = [repr(tickets[0])]
    bsp.sync()
    return shown + [repr(ticket) for ticket in tickets], tickets[0]


def of_ride(bsp: pybsp.BSP) -> tuple[list[str], Any]:
    tickets = [collectives.allreduce.start(bsp, 1.0, np.add), collectives.prefix.start(bsp, [1], _first)]
    shown = [repr(ticket) for ticket in tickets]
    bsp.sync()
    return [*shown, *(repr(ticket) for ticket in tickets)], tickets[0]


def _first(one: Any, _: Any) -> Any:
    return one


def of_unknown_ride(bsp: pybsp.BSP) -> tuple[list[str], Any]:
    def steps() -> Any:
        yield

    ticket = bsp.ride("halo", steps())
    shown = [repr(ticket)]
    bsp.sync()
    return shown, ticket


def of_contexts(bsp: pybsp.BSP) -> tuple[list[str], Any]:
    expected = bsp.expect(h=3)
    shown = [repr(expected)]
    with expected:
        shown.append(repr(expected))
    step = bsp.superstep("step")
    shown += [repr(expected), repr(bsp.label("norm")), repr(step)]
    bsp.label("")
    with step:
        pass
    return shown, bsp.router


def of_freed(bsp: pybsp.BSP) -> tuple[list[str], Any]:
    x = bsp.array(layouts.Cyclic(7, 2), np.int64)
    plain = bsp.array(3)
    shown = [repr(x), repr(plain)]
    bsp.sync()
    pattern = plain.pattern(0, [0, 1])
    bsp.sync()
    shown.append(repr(pattern))
    x.free()
    plain.free()
    shown.append(repr(x))
    bsp.sync()
    shown += [repr(x), repr(plain), repr(pattern)]
    return [re.sub(r", made at [^>]*", "", one) for one in shown], bsp.inbox


def of_queue(bsp: pybsp.BSP) -> tuple[list[str], Any]:
    queue = bsp.queue(np.float64)
    shown = [repr(queue)]
    queue.send(1, 0.5)
    shown.append(repr(queue))
    queue.send([0, 1], [1.0, 2.0])
    shown.append(repr(queue))
    queue.send(0, np.zeros(50_000))
    shown.append(repr(queue))
    bsp.sync()
    return [*shown, repr(queue)], queue


REPRS: list[tuple[Callable[[pybsp.BSP], tuple[list[str], Any]], list[str]]] = [
    (of_processor, ["<processor 1 of 2, superstep 0>", "<processor 1 of 2, ended in superstep 0>"]),
    (
        of_part,
        [
            "<part of 1 processors>",
            "<no part: this processor is in none of the split>",
            "<part of 1 processors, in use>",
            "<processor 0 of 1 of a part, superstep 1>",
            "<part of 1 processors, ended>",
        ],
    ),
    (
        of_failed_part,
        [
            "<part of 1 processors, failed>",
            "<processor 0 of 1 of a part, failed in superstep 0>",
            "<processor 0 of 1 of a part, failed in superstep 0>",
        ],
    ),
    (
        of_ticket,
        [
            "<ticket: there after the next bsp.sync()>",
            "<ticket: array of 2 x 3 int64>",
            "<ticket: array of 2 int64>",
            "<ticket: int64>",
            "<ticket: array of 2 x 3 int64>",
        ],
    ),
    (
        of_ride,
        [
            "<allreduce: 1 superstep to go>",
            "<prefix: 1 superstep to go>",
            "<allreduce: over>",
            "<prefix: over>",
            "<allreduce: over>",
        ],
    ),
    (of_unknown_ride, ["<halo: under way>", "<halo: over>"]),
    (
        of_contexts,
        [
            "<bsp.expect(h=3): to be entered by with>",
            "<bsp.expect(h=3): entered>",
            "<bsp.expect(h=3): left>",
            "<bsp.label('norm')>",
            "<bsp.superstep('step')>",
            "<router: direct>",
        ],
    ),
    (
        of_freed,
        [
            "<array of int64 in Cyclic(7, 2), shape (3,) here>",
            "<array of float64, shape (3,) here>",
            "<pattern of (2,) items of <array of float64, shape (3,) here>>",
            "<array of int64 in Cyclic(7, 2), shape (3,) here>",
            "<freed array of int64 in Cyclic(7, 2)>",
            "<freed array of float64>",
            "<freed pattern of (2,) items of <freed array of float64>>",
            "<inbox: 0 messages, 0 bytes>",
        ],
    ),
    (
        of_queue,
        [
            "<queue of float64: 0 items arrived>",
            "<queue of float64: 0 items arrived, 1 to send>",
            "<queue of float64: 0 items arrived, 3 to send>",
            "<queue of float64: 0 items arrived, 50003 to send>",
            "<queue of float64: 4 items arrived>",
            "<queue of float64: 4 items arrived>",
        ],
    ),
]


@pytest.mark.fast
@pytest.mark.parametrize(("program", "expected"), REPRS, ids=lambda one: getattr(one, "__name__", ""))
def test_what_a_program_has_says_what_it_is_at_any_time(
    program: Callable[[pybsp.BSP], tuple[list[str], Any]], expected: list[str]
) -> None:
    """While it runs, and, of the last one, after its end."""
    shown, thing = pybsp.simulate(program, machine=MACHINE).results[1]
    assert [*shown, repr(thing)] == expected


def test_what_a_failed_run_leaves_says_so() -> None:
    left: dict[int, list[Any]] = {}

    def main(bsp: pybsp.BSP) -> None:
        x = bsp.array(3)
        queue = bsp.queue()
        bsp.sync()
        queue.send(0, 1.0)
        left[bsp.pid] = [bsp, x.get(0), collectives.allreduce.start(bsp, 1.0, np.add), queue]
        if bsp.pid == 1:
            raise KeyError
        bsp.sync()

    with pytest.raises(KeyError):
        pybsp.simulate(main, p=2)
    for pid, (bsp, ticket, ride, queue) in sorted(left.items()):
        assert repr(bsp) == f"<processor {pid} of 2, failed in superstep 1>"
        assert repr(ticket) == "<ticket: no value: the run has failed>"
        assert repr(ride) == "<allreduce: never over: the run has failed>"
        assert repr(queue) == "<queue of float64: 0 items arrived>"


def test_a_ride_that_raised_says_so() -> None:
    def add(one: Any, other: Any) -> Any:
        raise KeyError

    def main(bsp: pybsp.BSP) -> None:
        ticket = collectives.allreduce.start(bsp, (bsp.pid,), add)
        with pytest.raises(pybsp.UsageError):
            bsp.sync()
        assert repr(ticket) == "<allreduce: failed (UsageError)>"
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        pybsp.simulate(main, p=2)


@pytest.mark.parametrize("name", ["two-phase", "hypercube", "sparse", "multibutterfly", "logp-sorted"])
def test_routers_say_which_they_are(name: str) -> None:
    (shown, _) = pybsp.simulate(lambda bsp: repr(bsp.router), machine=MACHINE, router=name).results
    assert shown == f"<router: {name}>"


def test_logp_processors_say_which_they_are_and_when() -> None:
    def program(proc: logp.Processor) -> str:
        proc.compute(7)
        return repr(proc)

    assert logp.simulate(program, p=2).results[1] == "<processor 1 of 2, step 7>"


def ring(bsp: pybsp.BSP) -> None:
    with bsp.superstep("ring"):
        bsp.work(1000.1)
        bsp.send(1 - bsp.pid, np.zeros(10))


def test_results_of_runs_show_what_is_not_zero() -> None:
    simulation = pybsp.simulate(ring, machine=MACHINE)
    ledger = "<ledger: 1 supersteps, h = 10 words in all>"
    assert repr(simulation) == f"Simulation(results=[None, None], ledger={ledger}, time={simulation.time!r})"
    (record,) = simulation.ledger
    assert repr(record).startswith("Record(label='ring', h=10, seconds=1e-06, work=1000, messages=1, h_out=10, h_in=10")
    assert "items" not in repr(record)
    assert "parts" not in repr(record)
    assert "supersteps" not in repr(record)
    assert "supersteps=1" not in repr(simulation.ledger.total)


def test_what_networks_carry_shows_sizes_and_no_arrays() -> None:
    torus = networks.Torus((4, 4))
    steps = Steps(torus)
    assert repr(steps) == f"<steps on {torus!r}: 0 supersteps with words>"
    traffic = torus.route(relations.permutation(16))
    assert repr(traffic) == f"<traffic: 16 packets over 64 links, {traffic.steps} steps>"
    packets = networks.Injections.open(16, load=0.5, steps=400)
    assert repr(packets) == f"<injections: {packets.packets} packets of 16 processors, load 0.5>"
    flow = networks.flow(torus, packets)
    assert repr(flow) == f"<flow on {torus!r}: {packets.packets} packets, {flow.steps} steps>"


# -- completion and help ----------------------------------------------------------------------------------------------


def completed(name: str, thing: Any) -> list[str]:
    """What a shell of Python's completes `name.` to."""
    completer = rlcompleter.Completer({name: thing})
    found: list[str] = []
    while (one := completer.complete(f"{name}.", len(found))) is not None:
        found.append(one)
    return sorted(re.sub(r"\W", "", one.removeprefix(f"{name}.")) for one in found)


def documented(entry: Entry) -> set[str]:
    """Members that the reference shows of a class: those that its page names, or all; and its attributes."""
    names = {name.rsplit(".", 1)[1] for name, _ in entry.documented()} - {entry.thing.__name__}
    of_class = re.search(r"^Attributes:\n((?: .*\n)+)", inspect.getdoc(entry.thing) or "", re.MULTILINE)
    listed = re.findall(r"^    (\w[\w, ]*):", of_class[1], re.MULTILINE) if of_class else []
    return names | {name for names_of_line in listed for name in names_of_line.split(", ")}


def things(bsp: pybsp.BSP) -> dict[str, Any]:
    """Of each class whose completion is its own, one."""
    x, y = bsp.array(3), bsp.array(layouts.Block(4, bsp.p))
    bsp.sync()
    queue, grid = bsp.queue(), bsp.grid(1, bsp.p)
    found = [bsp, x, y, x[0], x.get(0), x.pattern(0, [0]), queue, queue.pattern([0]), grid, grid.row, bsp.inbox]
    bsp.sync()
    found.append(collectives.allreduce.start(bsp, 1.0, np.add))
    bsp.sync()
    return {type(one).__name__: one for one in found}


def test_a_shell_completes_to_the_names_of_the_reference_and_no_others() -> None:
    found = pybsp.simulate(things, p=2).results[0]
    found["Ride"] = found.pop("NotedRide", None) or found["Ride"]
    found["Ranks"] = object.__new__(pybsp.Ranks)
    entries = {entry.name.rsplit(".", 1)[1]: entry for entry in ENTRIES if not entry.name.startswith(OTHERS)}
    names = {name: documented(entries[name]) for name in found}
    names["GlobalArray"] |= names["Array"]
    names["Inbox"] |= {"count", "index"}  # of a sequence
    assert len(names) == 13
    for name, thing in found.items():
        assert completed("thing", thing) == sorted(names[name]), name
        assert {one for one in dir(thing) if not one.startswith("_")} == names[name]


@pytest.mark.parametrize("module", [collectives, layouts], ids=lambda module: module.__name__)
def test_a_shell_completes_a_module_to_what_it_offers(module: ModuleType) -> None:
    also = ["baselines", "ebsp"] if module is collectives else []
    assert completed("module", module) == sorted([*module.__all__, *also])


def test_help_of_a_processor_has_nothing_for_the_rest_of_pybsp() -> None:
    text = pydoc.plain(pydoc.render_doc(pybsp.BSP))
    assert "send(self, dest" in text
    assert "own_superstep" not in text
    assert "prepared" not in text


@pytest.mark.parametrize(
    ("name", "by_name"), [("broadcast", {"out": None}), ("allreduce", {"out": None}), ("sort", {})]
)
def test_start_has_the_signature_and_the_help_of_its_collective(name: str, by_name: dict[str, Any]) -> None:
    collective = getattr(collectives, name)
    parameters = inspect.signature(collective).parameters
    assert {name: one.default for name, one in parameters.items() if one.kind is one.KEYWORD_ONLY} == by_name
    assert inspect.signature(collective.start).parameters == parameters
    assert inspect.signature(collective.start).return_annotation.startswith("Ride[")
    assert not inspect.signature(collective).return_annotation.startswith("Supersteps[")
    text = pydoc.plain(pydoc.render_doc(collective.start))
    assert all(parameter in text for parameter in parameters)
    assert f"as of `{name}`" in text
