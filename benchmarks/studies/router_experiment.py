"""The router experiment of the paper: what a random h-relation takes, against h, fitted by a*h + b.

    python -m pybsp.benchmarks.studies.router_experiment [-n 4 8] [--router direct ...] [--plot FILE] [--output FILE]
    python -m pybsp.benchmarks.studies.router_experiment -n 4 8 --latency 1000 --rate 200 [--emulator pybsp]
    mpiexec -n 4 python -m pybsp.benchmarks.studies.router_experiment

Every processor sends h packets, and receives h: h random permutations without fixed points (what stays would cost
nothing here), freshly drawn each time, in shuffled order. A time includes the synchronisation, and filling and reading
the packets, which travel as mail, each one a message (`--by mail`), or as items of a queue (`--by queue`); it goes from
a common beginning to the moment at which the last processor has all of its packets.

The line is fitted to the averages, as the paper has it, with residuals relative to the time, of which `misfit` is the
largest; intervals of 95 % by drawing the repetitions again; and to medians, which say more where something else runs on
the machine. Beside it are the paper's model and what it measured, on 20 MHz transputers; `rate` is its rho = m*h / T at
h = 100. More processors than cores wait for each other's turns: then times are those of the scheduler.

Source: the paper on a BSP router for transputers, sections 2.2 and 2.3.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

import pybsp
from pybsp.benchmarks.calibration.estimates import Estimate
from pybsp.benchmarks.calibration.fits.bootstrap import REPLICATES, interval
from pybsp.benchmarks.calibration.fits.least_squares import relative
from pybsp.benchmarks.calibration.sampling import timer
from pybsp.benchmarks.studies.frame import Study, bounded, kernel, on_ranks, table, wait_until
from pybsp.benchmarks.studies.valiant_brebner import LENGTHS, PAPER_D, PAPER_MEASURED, PAPER_R, T_D, B
from pybsp.errors import BSPError
from pybsp.routing.choice import named
from pybsp.transport.launcher import under_launcher

BYTES = LENGTHS
DEGREES = (1, 2, 5, 10, 20, 50, 100, 150, 200, 300, 400)
REPETITIONS = 20
HEAD_START = 1e-3  # seconds, and twice a superstep, in which all learn when to begin
SPUN = 3e-4  # seconds before the common beginning that are waited for awake
RATE_AT = 100  # packets, where the paper states effective rates

# The paper's measured a and b (us), by p and the bytes of a packet.
MEASURED = {(1 << n, m): line for n, lines in PAPER_MEASURED.items() for m, line in zip(BYTES, lines, strict=True)}

Floats = NDArray[np.float64]
RunSuperstep = Callable[[], None]
Centre = Callable[..., Any]  # np.mean or np.median


class Line(NamedTuple):
    """T = a*h + b, seconds; misfit: the largest relative residual."""

    a: Estimate
    b: Estimate
    misfit: float


class Asked(NamedTuple):
    """What is measured; equal on all processors."""

    by: Sequence[str] = ("mail",)
    sizes: Sequence[int] = BYTES
    degrees: Sequence[int] = DEGREES
    repetitions: int = REPETITIONS
    seed: int = 0


# -- the experiment ----------------------------------------------------------------------------------------------------


def relation(p: int, h: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """A random h-relation: h permutations without fixed points, (h, p); column i is where processor i sends to."""
    own = np.arange(p)
    if p == 1:
        return np.zeros((h, 1), np.int64)
    found = np.empty((0, p), np.int64)
    while len(found) < h:
        drawn = rng.permuted(np.tile(own, (3 * h + 8, 1)), axis=1)  # one of 2 to 3 has no fixed point
        found = np.concatenate([found, drawn[(drawn != own).all(axis=1)]])
    return found[:h]


class Experiment:
    """The supersteps of one processor."""

    def __init__(self, bsp: pybsp.BSP, asked: Asked) -> None:
        self._bsp, self._asked = bsp, asked
        self._queues = {size: bsp.queue(f"V{size}") for size in asked.sizes} if "queue" in asked.by else {}
        self._real = timer(bsp.time).runs  # else time is virtual: all are always at the same moment
        self._shared = self._real and len(set(self._all(kernel()))) == 1  # one clock
        crowd = bsp.p > (os.cpu_count() or 1)
        self._spun = 0.0 if crowd else SPUN  # whoever waits awake keeps others from their core
        self._ahead = HEAD_START

    def times(self) -> dict[str, dict[str, list[list[float]]]]:
        """Seconds by way and size: a row for each h, a column for each repetition. Collective; equal on all."""
        asked, found = self._asked, []
        cells = [(by, size, h) for by in asked.by for size in asked.sizes for h in asked.degrees]
        self._warm()
        for repetition in range(asked.repetitions):
            order = np.random.default_rng((asked.seed, repetition)).permutation(len(cells)).tolist()
            for cell in order:
                by, size, h = cells[cell]
                rng = np.random.default_rng((asked.seed, repetition, cell))
                mine = relation(self._bsp.p, h, rng)[:, self._bsp.pid]
                found.append((cell, self._timed(self._superstep(by, size, mine))))
        seconds = np.array(self._all([took for _, took in found])).max(axis=0)
        table: Floats = np.empty((len(cells), asked.repetitions))
        table[[cell for cell, _ in found], np.repeat(np.arange(asked.repetitions), len(cells))] = seconds
        rows = iter(table.reshape(-1, len(asked.degrees), asked.repetitions).tolist())
        return {by: {str(size): next(rows) for size in asked.sizes} for by in asked.by}

    def _superstep(self, by: str, size: int, dests: NDArray[np.int64]) -> RunSuperstep:
        """One that routes this processor's packets."""
        bsp, count = self._bsp, len(dests)
        into = np.empty((count, size), np.uint8)
        if by == "queue":
            queue, items = self._queues[size], np.zeros((count, size), np.uint8)

            def queued() -> None:
                items.fill(1)
                queue.send(dests, items.view(f"V{size}")[:, 0])
                bsp.sync()
                into.view(f"V{size}")[:, 0] = queue.values

            return queued
        packets = list(zip(dests.tolist(), np.zeros((count, size), np.uint8), strict=True))
        send = bsp.send

        def mailed() -> None:
            for dest, packet in packets:
                packet.fill(1)
                send(dest, packet)
            bsp.sync()
            for row, message in zip(into, bsp.inbox, strict=True):
                row[:] = message.payload

        return mailed

    def _timed(self, superstep: RunSuperstep) -> float:
        """Seconds from the common beginning to this processor's end."""
        if not self._shared:
            self._bsp.sync()
            begin = self._bsp.time()
            superstep()
            return self._bsp.time() - begin
        moment = float(max(self._all(time.perf_counter()))) + self._ahead
        wait_until(moment, self._spun)
        superstep()
        return time.perf_counter() - moment

    def _warm(self) -> None:
        """Make all connections, and learn how long it takes until all know something."""
        longest = 0.0
        for size in self._asked.sizes:
            for by in self._asked.by:
                mine = relation(self._bsp.p, max(self._asked.degrees), np.random.default_rng(size))[:, self._bsp.pid]
                self._superstep(by, size, mine)()
            begin = self._bsp.time()
            self._all(0.0)
            longest = max(longest, *self._all(self._bsp.time() - begin))
        self._ahead = HEAD_START + 2 * longest

    def _all(self, value: Any) -> list[Any]:
        """What each processor has, on all of them: a superstep."""
        for dest in range(self._bsp.p):
            self._bsp.send(dest, value)
        self._bsp.sync()
        return [message.payload for message in self._bsp.inbox]


# -- the fit -----------------------------------------------------------------------------------------------------------


def line(degrees: Sequence[int], times: Floats, seed: int = 0, centre: Centre = np.mean) -> Line:
    """a and b from times, (degrees, repetitions); centre: what of the repetitions is fitted."""
    design = np.column_stack([degrees, np.ones(len(degrees))]).astype(np.float64)
    repetitions = times.shape[1]
    centres = centre(times, axis=1)
    found = relative(design, centres)
    picks = np.random.default_rng(seed).integers(repetitions, size=(REPLICATES, *times.shape))
    again = np.take_along_axis(np.broadcast_to(times, picks.shape), picks, axis=2)
    drawn = relative(design, centre(again, axis=2))
    a, b = (
        interval(float(value), of, np.array([np.nan]), max(repetitions - 1.0, 1.0))
        for value, of in zip(found, drawn.T, strict=True)
    )
    return Line(a, b, float(np.abs(design @ found / centres - 1).max()))


def model(p: int, size: int) -> tuple[float, float]:
    """The paper's model of its router: a and b, seconds; p is a power of two."""
    n = p.bit_length() - 1
    of_h, of_n = PAPER_R
    through, more = PAPER_D
    return 1e-6 * (of_h * size / B + (through + more * n) * T_D), 1e-6 * of_n * n * size / B


# -- processes ---------------------------------------------------------------------------------------------------------


def on_these(routers: Sequence[str], asked: Sequence[Any]) -> dict[str, Any]:
    """All routers, on the ranks of this job, as an `Asked` says; collective."""
    found: dict[str, Any] = {"p": 0, "routers": {}}

    def program(bsp: pybsp.BSP) -> None:
        times = Experiment(bsp, Asked(*asked)).times()
        found["p"], found["pid"] = bsp.p, bsp.pid
        found["routers"][name] = times

    for name in routers:
        pybsp.run(program, router=name)
    return found


# -- for people --------------------------------------------------------------------------------------------------------


def lines_table(runs: Sequence[dict[str, Any]], asked: Asked) -> Table:
    """All lines, and the paper's."""
    rows = []
    for run in runs:
        p = run["p"]
        for router, by, text, times in each_size(run):
            size, found = int(text), line(asked.degrees, times, asked.seed)
            middle = line(asked.degrees, times, asked.seed, np.median)
            ours = size * RATE_AT / (found.a.value * RATE_AT + found.b.value)
            medians = f"{1e6 * middle.a.value:.4g}h + {1e6 * middle.b.value:.4g}"
            both = (bounded(found.a, 1e-6), bounded(found.b, 1e-6))
            row = [p, router, by, text, *both, found.misfit, medians, 1e-6 * ours, None, None, None]
            if (p, size) in MEASURED:
                (a, b), (c, d) = model(p, size), MEASURED[p, size]
                rate = size * RATE_AT / (c * RATE_AT + d)
                row[-3:] = f"{1e6 * a:.1f}h + {1e6 * b:.0f}", f"{c:.1f}h + {d:.0f}", rate
            rows.append(row)
    return table(
        "T = a*h + b, microseconds (95 % interval), rates in MB/s; the paper's on as many transputers",
        "p | router | by | bytes | a | b | misfit [.0%] | of medians | rate [.3g] | paper's model | measured | "
        "rate [.3f]",
        rows,
    )


def each_size(run: dict[str, Any]) -> Iterator[tuple[str, str, str, Floats]]:
    """Router, way, bytes of a packet, and the times, of all that a run has."""
    for router, ways in run["routers"].items():
        for by, sizes in ways.items():
            for text, times in sizes.items():
                yield router, by, text, np.array(times)


def draw(pyplot: Any, runs: Sequence[dict[str, Any]], asked: Asked) -> Any:
    """The paper's figure 3: averages and lines against h, one panel for each p, router and way."""
    panels = dict.fromkeys((run["p"], router, by) for run in runs for router, by, *_ in each_size(run))
    figure, (axes,) = pyplot.subplots(
        1, len(panels), figsize=(4.5 * len(panels), 4), layout="constrained", squeeze=False
    )
    at = dict(zip(panels, axes, strict=True))
    ends = np.array([0, max(asked.degrees)])
    for run in runs:
        for router, by, text, times in each_size(run):
            axis, found = at[run["p"], router, by], line(asked.degrees, times, asked.seed)
            (drawn,) = axis.plot(ends, 1e3 * (found.a.value * ends + found.b.value), linewidth=1)
            colour = drawn.get_color()
            axis.plot(asked.degrees, 1e3 * times.mean(axis=1), "o", markersize=4, color=colour, label=f"{text} bytes")
    for (p, router, by), axis in at.items():
        axis.set(title=f"p = {p}, {router}, {by}", xlabel="h (packets)", ylabel="average time (ms)")
    return figure


def main() -> None:
    """Start the ranks, and print what they found."""
    study = Study(__doc__, keep="--output", plot="T against h")
    study.add_argument("-n", type=int, nargs="+", default=[4, 8], metavar="P", help="processors")
    study.add_argument("--router", nargs="+", default=["direct"], help="names of pybsp.run's routers")
    study.add_argument("--by", nargs="+", choices=("mail", "queue"), default=["mail"])
    study.add_argument("--bytes", type=int, nargs="+", default=BYTES, help="of a packet")
    study.add_argument("--h", type=int, nargs="+", default=DEGREES, help="packets")
    study.add_argument("--repetitions", type=int, default=REPETITIONS, help="of each")
    study.add_argument("--seed", type=int, default=0, help="of relations and orders")
    study.add_network()
    options = study.begin()
    if (options.latency is None) != (options.rate is None):
        study.error("--latency and --rate go together")
    if min(*options.n, *options.bytes, *options.h, options.repetitions) < 1 or len(set(options.h)) < 2:
        study.error("-n, --bytes, --h and --repetitions are whole numbers of at least 1, and a line has two h")
    asked = Asked(options.by, options.bytes, sorted(set(options.h)), options.repetitions, options.seed)
    try:
        for name in options.router:
            named(name)
    except BSPError as error:
        study.error(str(error))
    if under_launcher():
        runs, where = [on_these(options.router, asked)], "on ranks of a launcher"
        if runs[0]["pid"]:
            return
    else:
        where = f"under mpiexec, {os.cpu_count()} cores"
        if options.latency is not None:
            where = f"emulated hosts, {options.latency} us, {options.rate} Mbit/s"
        runs = [on_ranks(on_these, options.router, asked, n=p, network=study.network(p)) for p in options.n]
    study.show(
        f"{where}; h = {', '.join(map(str, asked.degrees))}; {asked.repetitions} repetitions; load "
        f"{os.getloadavg()[0]:.1f}",
        lines_table(runs, asked),
    )
    study.end({"where": where, "asked": asked, "runs": runs}, lambda pyplot: draw(pyplot, runs, asked))


if __name__ == "__main__":
    main()
