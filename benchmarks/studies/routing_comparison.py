"""The same relations on all routers, and packet by packet on networks.

    python -m pybsp.benchmarks.studies.routing_comparison [--quick] [--plot FILE.png] [--json FILE]
    python -m pybsp.benchmarks.studies.routing_comparison --cluster [--latency 5000] [--rate 50] [--emulator pybsp]

A relation is run as a BSP program: each processor sends an item of a queue for each of its packets, of 64 words, and
what arrives is compared with the relation. Virtual processors are on a BSPMachine of the g and l given; for the routers
`logp-*` they are on `LogPMachine.from_bsp` of it, whose messages are packets.

    supersteps   exchanges among the processors
    moved        words that all processors send, over those of the program; of `logp-*`, messages over packets
    most         words that one processor sends or receives in one superstep, at most, over those of h packets
    time         virtual, over that of `direct`

On the networks a packet is a packet: steps / packets in one queue, at most / packets over one link, at most.

--cluster runs them on emulated hosts: of some repetitions the median time from a synchronisation to the end of the
superstep, at the processor that needs longest. Relations, routers and networks that draw have one seed each.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from rich.table import Table

import pybsp
from pybsp import BSPMachine, LogPMachine
from pybsp.benchmarks.studies.frame import Study, cells, heads, on_ranks, table
from pybsp.errors import RoutingError
from pybsp.routing import (
    Relation,
    hypercube_router,
    logp_router,
    multibutterfly_router,
    relations,
    two_phase_router,
)
from pybsp.routing import networks as of_packets
from pybsp.routing.logp.options import ALGORITHMS

if TYPE_CHECKING:
    from pybsp.routing.choice import Routing

WORDS = 64  # of a packet
PACKET = 8 * WORDS + 48  # bytes: a packet, and the description of its parcel
PROCESSORS, DEGREES = (13, 16, 64), (4, 64)
NETWORK_SIZES = (16, 64, 1024)
REPETITIONS = 7

RELATIONS: dict[str, Callable[[int, int], Relation]] = {
    "random": relations.random_relation,
    "permutation": relations.permutation,
    "bit reversal": relations.bit_reversal,
    "transpose": relations.transpose,
    "hot spot": relations.hot_spot,
    "one to all": relations.one_to_all,
    "all to one": relations.all_to_one,
}


def studied(p: int, h: int) -> dict[str, Relation]:
    """The relations that fit p."""
    found = {}
    for name, relation in RELATIONS.items():
        with suppress(RoutingError):
            found[name] = relation(p, h)
    return found


# -- routers, on virtual processors ------------------------------------------------------------------------------------


def routers(machine: BSPMachine) -> dict[str, Routing]:
    """All of them, with packets of one size."""
    logp = LogPMachine.from_bsp(machine, -(-PACKET // 8))
    return {
        "direct": "direct",
        "two-phase": two_phase_router(packet=PACKET),
        "hypercube": hypercube_router(packet=PACKET),
        "multibutterfly": multibutterfly_router(packet=PACKET),
        **{f"logp-{name}": logp_router(name, machine=logp, packet=PACKET) for name in ALGORITHMS},
    }


def program(bsp: pybsp.BSP, relation: Relation, repetitions: int = 1) -> tuple[Any, list[float]]:
    """The BSP program: route the relation some times.

    Returns:
        The router, and the seconds of each superstep at this processor.

    Raises:
        RoutingError: what arrives is not what the relation has.
    """
    queue = bsp.queue(f"V{8 * WORDS}")
    mine = np.flatnonzero(relation.sources == bsp.pid)
    items = np.zeros((len(mine), WORDS), np.int64)
    items[:, 0] = mine
    coming = np.flatnonzero(relation.destinations == bsp.pid)
    coming = coming[np.argsort(relation.sources[coming], kind="stable")]
    taken = []
    for repetition in range(repetitions):
        if repetition:
            bsp.sync()  # all begin together
        begin = bsp.time()
        queue.send(relation.destinations[mine], items.view(queue.dtype)[:, 0])
        bsp.sync()
        taken.append(bsp.time() - begin)
        numbers = np.ascontiguousarray(queue.values).view(np.int64).reshape(-1, WORDS)[:, 0]
        if not np.array_equal(numbers, coming):
            raise RoutingError(f"processor {bsp.pid}: other packets have come than were sent to it")
    return bsp.router, taken


class Row(NamedTuple):
    """A relation on a router; figures of packets are None where the router has none of them."""

    p: int
    relation: str
    h: int  # most packets from or to a processor
    router: str
    time: float  # virtual seconds
    over: float  # over that of `direct`
    supersteps: int | None = None  # this and the next two: see above
    moved: float | None = None
    most: float | None = None
    stages: int | None = None  # of the multibutterfly's protocol
    steps: int | None = None  # of LogP
    stalled: int | None = None  # of all processors
    in_transit: int | None = None  # to one destination, at most


def figures(name: str, each: Sequence[Any], relation: Relation) -> dict[str, Any]:
    """What a router has counted; `each`: that of every processor."""
    moving = relation.moving()
    words, h = max(WORDS * moving.M, 1), max(WORDS * moving.h, 1)
    if name == "direct":
        return {"supersteps": 1, "moved": 1.0, "most": 1.0}
    if name.startswith("logp-"):
        done = [one for one in each[0].executions if one.sent]
        return {
            "moved": sum(one.messages for one in done) / max(moving.M, 1),
            "steps": sum(one.steps for one in done),
            "stalled": sum(one.stalled for one in done),
            "in_transit": max((one.in_transit for one in done), default=0),
        }
    if name == "multibutterfly":
        parts = [one for of in each for one in of.executions]
        counted = {
            "supersteps": 1 + sum(one.supersteps for one in each[0].executions),
            "stages": sum(one.stages for one in each[0].executions),
        }
    else:
        parts, counted = list(each), {"supersteps": each[0].rounds}
    congestion = max((one.congestion for one in parts), default=0)
    return {**counted, "moved": sum(one.words for one in parts) / words, "most": congestion / h}


def on_routers(machine: BSPMachine, name: str, relation: Relation) -> list[Row]:
    """A relation on all routers."""
    found: list[Row] = []
    for router, routing in routers(machine).items():
        done = pybsp.simulate(program, relation, machine=machine, router=routing)
        over = done.time / (found[0].time if found else done.time)
        counted = figures(router, [of for of, _ in done.results], relation)
        found.append(Row(machine.p, name, relation.moving().h, router, done.time, over, **counted))
    return found


# -- networks ----------------------------------------------------------------------------------------------------------


class Routed(NamedTuple):
    """A relation on a network: steps, packets in one queue and over one link, at most."""

    p: int
    relation: str
    h: int
    network: str
    steps: int
    max_queue: int
    max_link_load: int


# By name: the network, and whether in two phases.
NETWORKS: dict[str, tuple[Callable[[int], of_packets.Network], bool]] = {
    "hypercube, fixed order": (of_packets.Hypercube, False),
    "random order": (lambda p: of_packets.Hypercube(p, "random"), False),
    "two phases": (of_packets.Hypercube, True),
    "butterfly": (of_packets.Butterfly, False),
    "multibutterfly": (of_packets.Multibutterfly, False),
    "mesh": (of_packets.Mesh, False),
}


def on_networks(p: int, name: str, relation: Relation) -> list[Routed]:
    """A relation on all networks that p fits."""
    found = []
    for network, (make, two_phase) in NETWORKS.items():
        with suppress(RoutingError):
            of = make(p).route(relation, two_phase=two_phase)
            found.append(Routed(p, name, relation.moving().h, network, of.steps, of.max_queue, of.max_link_load))
    return found


# -- the emulated cluster ----------------------------------------------------------------------------------------------


def on_these(hosts: int, latency: int, rate: int, h: int, repetitions: int) -> list[dict[str, Any]]:
    """All relations on all routers, on the ranks of this job: seconds of each repetition; collective."""
    found, machine = [], machine_of(hosts, latency, rate)
    for router, routing in routers(machine).items():
        for name, relation in studied(machine.p, h).items():

            def main(bsp: pybsp.BSP, relation: Relation = relation) -> Any:
                _, taken = program(bsp, relation, repetitions + 1)
                queue = bsp.queue(np.float64)
                queue.send(np.zeros(repetitions, np.int64), np.array(taken[1:]))  # the first makes connections
                bsp.sync()
                return queue.values.reshape(-1, repetitions).max(axis=0, initial=0.0).tolist()

            seconds = pybsp.run(main, machine=machine, router=routing)
            found.append({"relation": name, "h": relation.h, "router": router, "seconds": seconds})
    return found


def machine_of(hosts: int, latency: int, rate: int) -> BSPMachine:
    """The machine that emulated hosts are: latency in microseconds, one way; rate in Mbit/s."""
    return BSPMachine(p=hosts, g=64e-6 / rate, l=1e-6 * latency, r=1e9)


# -- for people --------------------------------------------------------------------------------------------------------


def _keyed(rows: Sequence[Any], column: str) -> Iterator[tuple[tuple[object, ...], dict[str, Any]]]:
    """Rows of one p, relation and h, after the cells of these three, by a column."""
    found: dict[tuple[object, ...], dict[str, Any]] = {}
    for row in rows:
        found.setdefault((row.p, row.relation, row.h), {})[getattr(row, column)] = row
    return iter(found.items())


def router_tables(rows: Sequence[Row], machine: BSPMachine) -> Iterator[Table]:
    """Three tables: those that exchange, those by LogP messages, and times."""
    names = list(routers(machine))
    exchanging = [name for name in names if not name.startswith("logp-") and name != "direct"]
    by_messages = [name for name in names if name.startswith("logp-")]
    first, second, third = [], [], []
    for case, of in _keyed(rows, "router"):
        counts = (f"{of[r].supersteps} / {of[r].moved:.2f} / {of[r].most:.2f}" for r in exchanging)
        first.append((*case, *counts, of["multibutterfly"].stages))
        done = (f"{of[r].steps} / {of[r].moved:.2f} / {of[r].in_transit} / {of[r].stalled}" for r in by_messages)
        second.append((*case, *done))
        third.append((*case, 1e6 * of["direct"].time, *(of[name].over for name in (*exchanging, *by_messages))))
    head = "p | relation | h"
    yield table("supersteps / moved / most; stages", cells((head, *exchanging, "its stages")), first)
    yield table("LogP: steps / messages over packets / in transit / stalled", cells((head, *by_messages)), second)
    times = f"{head} | direct [.1f] | {heads((*exchanging, *by_messages), '.2f')}"
    yield table("virtual time of direct (us), and over it", times, third)


def networks_table(rows: Sequence[Routed]) -> Table:
    """One table; empty cells where a network does not fit."""
    lines = [
        (*case, *(" / ".join(map(str, of[name][4:])) if name in of else "" for name in NETWORKS))
        for case, of in _keyed(rows, "network")
    ]
    return table("steps / longest queue / busiest link", cells(("p | relation | h", *NETWORKS)), lines)


def cluster_table(rows: Sequence[dict[str, Any]], virtual: dict[tuple[str, str], float]) -> Table:
    """Medians of what was measured, and virtual times."""
    found: dict[str, list[object]] = {}
    for row in rows:
        measured, predicted = 1e3 * np.median(row["seconds"]), 1e3 * virtual[row["relation"], row["router"]]
        found.setdefault(row["relation"], [row["relation"], row["h"]]).append(f"{measured:.1f} ({predicted:.1f})")
    names = dict.fromkeys(row["router"] for row in rows)
    return table("milliseconds, median (virtual)", cells(("relation", "h", *names)), list(found.values()))


def draw(pyplot: Any, rows: Sequence[Row], routed: Sequence[Routed]) -> Any:
    """A page, by relation, with the largest h: routers at the largest p, networks at that p and at the largest."""
    p = max(row.p for row in rows)
    largest = max((row.p for row in routed), default=p)
    names = list(RELATIONS)
    figure, axes = pyplot.subplots(4, 2, figsize=(13, 19), layout="constrained")

    def bars(axis: Any, rows: Sequence[Any], p: int, series: str, what: str, over: bool, title: str) -> None:
        """A bar for each row of p with the largest h of its relation, and a colour for each of the series."""
        of_p = [row for row in rows if row.p == p and getattr(row, what)]  # a logarithm has no 0
        most = {row.relation: row.h for row in sorted(of_p, key=lambda row: int(row.h))}
        of_p = [row for row in of_p if row.h == most[row.relation]]
        those = list(dict.fromkeys(getattr(row, series) for row in of_p))
        for i, one in enumerate(those):
            mine = [row for row in of_p if getattr(row, series) == one]
            places = [names.index(row.relation) + 0.8 * ((i + 0.5) / len(those) - 0.5) for row in mine]
            heights = [getattr(row, what) / (max(row.h, 1) if over else 1) for row in mine]
            axis.bar(places, heights, 0.8 / len(those), label=one)
        axis.set(title=f"p = {p}: {title}", yscale="log")
        axis.set_ylim(top=6 * axis.get_ylim()[1])
        axis.set_xticks(range(len(names)), labels=names, rotation=20)
        if those:
            axis.legend(fontsize=8, ncols=3, loc="upper center")

    panels = {
        "over": "virtual time over that of direct",
        "supersteps": "supersteps",
        "moved": "moved, over what the program sends",
        "most": "most words of a processor in a superstep, over h packets",
    }
    for axis, (what, title) in zip(axes.flat, panels.items(), strict=False):
        bars(axis, rows, p, "router", what, False, title)
    for column, size in enumerate((p, largest)):
        bars(axes[2, column], routed, size, "network", "steps", True, "steps over h")
        bars(axes[3, column], routed, size, "network", "max_link_load", True, "packets over the busiest link, over h")
    return figure


def main() -> None:
    """Count or measure, and print."""
    study = Study(__doc__, keep="--json", plot="a page of figures", quick="few small relations, in seconds")
    study.add_argument("-p", type=int, nargs="+", default=PROCESSORS, help="of the routers")
    study.add_argument("--h", type=int, nargs="+", default=DEGREES, help="packets a processor")
    study.add_argument("--sizes", type=int, nargs="+", default=NETWORK_SIZES, help="of networks")
    study.add_argument("--g", type=float, default=1e-8, help="seconds a word")
    study.add_argument("--l", type=float, default=1e-5, help="seconds a superstep")
    study.add_argument("--cluster", action="store_true", help="on emulated hosts instead")
    study.add_argument("-n", type=int, default=4, metavar="P", help="hosts")
    study.add_network(latency=5000, rate=50)
    study.add_argument("--repetitions", type=int, default=REPETITIONS, help="on hosts")
    options = study.begin()
    if min(*options.p, *options.h, *options.sizes, options.n, options.repetitions, options.rate) < 1:
        study.error("-p, --h, --sizes, -n, --rate and --repetitions are whole numbers of at least 1")
    if options.cluster and options.plot:
        study.error("--plot draws what is counted, and --cluster measures")
    if options.quick:
        options.p, options.h, options.sizes = [5, 16], [4], [16, 64]
    if options.cluster:
        n, latency, rate, h = options.n, options.latency, options.rate, max(options.h)
        load = os.getloadavg()[0]
        timed = on_ranks(on_these, n, latency, rate, h, options.repetitions, n=n, network=study.network(n))
        pairs = studied(n, h).items()
        counted = (row for pair in pairs for row in on_routers(machine_of(n, latency, rate), *pair))
        virtual = {(row.relation, row.router): row.time for row in counted}
        study.show(
            f"{n} emulated hosts, {latency} us, {rate} Mbit/s; {options.repetitions} repetitions; load {load:.1f}",
            cluster_table(timed, virtual),
        )
        study.end({"cluster": [{**row, "virtual": virtual[row["relation"], row["router"]]} for row in timed]})
        return
    rows: list[Row] = []
    for p, h in study.each(itertools.product(options.p, options.h)):
        machine = BSPMachine(p=p, g=options.g, l=options.l, r=1e9)
        rows += (row for pair in studied(p, h).items() for row in on_routers(machine, *pair))
    sizes = study.each(itertools.product(options.sizes, options.h))
    routed = [row for p, h in sizes for pair in studied(p, h).items() for row in on_networks(p, *pair)]
    machine = BSPMachine(p=options.p[0], g=options.g, l=options.l, r=1e9)
    logp = LogPMachine.from_bsp(machine, -(-PACKET // 8))
    study.show(
        f"g = {1e9 * options.g:g} ns, l = {1e6 * options.l:g} us; LogP: L = {logp.L}, o = {logp.o}, "
        f"G = {logp.G} steps of {1e9 * logp.step:g} ns",
        *router_tables(rows, machine),
        networks_table(routed),
    )
    study.end({"routers": rows, "networks": routed}, lambda pyplot: draw(pyplot, rows, routed))


if __name__ == "__main__":
    main()
