"""BSP against LogP: the slowdown of each simulation of one model by the other, predicted and simulated.

    python -m pybsp.benchmarks.studies.bsp_and_logp [--plot FILE.png] [--output FILE.json] [--quick]

Both machines have the same parameters, g = G and l = L, as in the paper's comparison. From a point in the middle, L/G,
h and p are varied one at a time. Everything is simulated, in steps, so every run gives the same figures.

    LogP on BSP     the time of the BSP program, by its ledger, over that of the LogP execution which it realises, of a
                    steady stream of h messages from each processor; stalling: of h messages in all, to one
    BSP on LogP     the time on LogP of a synchronisation and the routing of a random h-relation, over G h + L, that of
                    the superstep on BSP. sorted: nothing is known; offline: the relation is; random: h is (beta = 1)

Predicted is a bound: the simulations' own cost functions, which tests hold. The paper's expressions are without their
O, and have the depth of the network for the log p of sorting.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

import pybsp
from pybsp import BSPMachine, LogPMachine
from pybsp.logp import Processor
from pybsp.routing.logp import offline, random, sorted
from pybsp.routing.logp.combine_broadcast import bound as synchronisation_bound
from pybsp.routing.logp.combine_broadcast import combine_broadcast
from pybsp.routing.logp.phases import Phases, period
from pybsp.routing.logp_on_bsp import logp_on_bsp

from .frame import Study, cells, table

o, G = 1, 4
BETA = 1.0
Ints = NDArray[np.int64]


class Setting(NamedTuple):
    """A machine, by p and L/G, and h."""

    p: int = 64
    ratio: int = 8
    h: int = 32

    @property
    def logp(self) -> LogPMachine:
        return LogPMachine(self.p, L=G * self.ratio, o=o, G=G)

    @property
    def bsp(self) -> BSPMachine:
        """With g = G and l = L, and an operation a step."""
        return BSPMachine(p=self.p, g=G, l=G * self.ratio, r=1.0)

    @property
    def unit(self) -> float:
        """The superstep on BSP."""
        return G * self.h + self.logp.L

    @property
    def synchronisation(self) -> float:
        """The first term of S: L log p / ((G h + L) log(1 + ceil(L/G)))."""
        machine = self.logp
        return machine.L * math.log2(self.p) / (self.unit * math.log2(1 + machine.capacity))


class Slowdown(NamedTuple):
    """Of one simulation; certain: whether every execution has to be within the bound."""

    simulated: float
    predicted: float  # the bound
    expression: float  # the paper's
    certain: bool = True


# -- LogP on BSP --------------------------------------------------------------------------------------------------


def stream(proc: Processor, h: int) -> None:
    """Send h messages to the others in turn, each processor beginning with the next one, and acquire as many."""
    spacing, received = period(proc.machine), 0
    for turn in range(h):
        proc.compute(turn * spacing - proc.time)
        proc.send((proc.pid + 1 + turn % (proc.p - 1)) % proc.p, turn)
        received += proc.poll() is not None
    for _ in range(h - received):
        proc.recv()


def to_one(proc: Processor, h: int) -> None:
    """h messages in all to processor 0, as many from each of the others as can be, or one more."""
    if proc.pid == 0:
        for _ in range(h):
            proc.recv()
    for turn in range(proc.pid - 1, h, proc.p - 1) if proc.pid else ():
        proc.send(0, turn)


def _logp_on_bsp(program: Callable[..., None], setting: Setting, stalls: bool, expression: float) -> Slowdown:
    main = logp_on_bsp(program, setting.logp, stalls=stalls, trace=True)
    done = pybsp.simulate(main, setting.h, machine=setting.bsp)
    steps = logp_on_bsp.execution(done.results).time
    predicted = logp_on_bsp.seconds(setting.bsp, setting.logp, steps, stalls)
    return Slowdown(done.time / steps, predicted / steps, expression)


def stall_free(setting: Setting) -> Slowdown:
    """Theorem 1."""
    return _logp_on_bsp(stream, setting, False, 3.0)


def stalling(setting: Setting) -> Slowdown:
    """What section 3 says of programs that stall."""
    return _logp_on_bsp(to_one, setting, True, (setting.ratio + 1) * math.log2(max(setting.p, 2)))


# -- BSP on LogP --------------------------------------------------------------------------------------------------


def relation(p: int, h: int, seed: int = 0) -> Ints:
    """A random h-relation without messages to oneself: the destinations of each processor's messages, shape (p, h)."""
    rng = np.random.default_rng((seed, p, h))
    return rng.permuted(shifted(p, h, rng), axis=1)


def shifted(p: int, h: int, rng: np.random.Generator) -> Ints:
    """h permutations, shifts around a random ring: destinations, shape (p, h)."""
    names = rng.permutation(p)
    return np.asarray(names[(np.argsort(names)[:, None] + rng.integers(1, p, h)) % p])


def _on_logp(
    setting: Setting, program: Callable[..., Any], bound: float, expression: float, certain: bool = True
) -> Slowdown:
    """Run a superstep's routing; `program(phases, packets)` on each processor."""
    dests = relation(setting.p, setting.h).tolist()

    def main(proc: Processor) -> int:
        return len(program(Phases(proc), [(dest, proc.pid) for dest in dests[proc.pid]]))

    done = pybsp.logp.simulate(main, machine=setting.logp)
    assert done.results == [setting.h] * setting.p, "not what was sent"
    return Slowdown(done.time / setting.unit, bound / setting.unit, expression, certain)


def by_sorting(setting: Setting) -> Slowdown:
    """Theorem 2."""

    def program(phases: Phases, packets: list[tuple[int, Any]]) -> list[Any]:
        combine_broadcast(phases, True, operator.and_)
        return sorted.route_sorted(phases, packets)

    machine, h = setting.logp, setting.h
    bound = sorted.superstep_bound(machine, 0, h, h)
    if h <= machine.capacity and setting.p <= sorted.DIGEST:  # seen in step 1
        bound = synchronisation_bound(machine) + sorted.direct_bound(machine, h, h)
    return _on_logp(setting, program, bound, sorted.slowdown(machine, h))


def by_plan(setting: Setting) -> Slowdown:
    """Hall's theorem; the synchronisation is what the processors agree on a start by."""
    sources = np.repeat(np.arange(setting.p), setting.h)
    timetable = offline.timetable(sources, relation(setting.p, setting.h).ravel(), setting.p)
    bound = synchronisation_bound(setting.logp) + timetable.cost(setting.logp)
    program = partial(offline.route_offline, timetable=timetable)
    return _on_logp(setting, program, bound, 1 + setting.synchronisation)


def by_batches(setting: Setting) -> Slowdown:
    """Theorem 3; a second combine-and-broadcast tells all that nothing is missing."""
    machine, h = setting.logp, setting.h
    program, wait = partial(random.route_random, h=h, beta=BETA), synchronisation_bound(machine)
    of_waiting = 0.0 if h >= setting.p else setting.synchronisation
    if h <= machine.capacity:
        bound = wait + offline.cost(machine, h) + G * (h - 1)  # all that come to a processor may come together
        return _on_logp(setting, program, bound, 1 + of_waiting)
    if h >= setting.p:
        return _on_logp(setting, program, wait + sorted.bound(machine, h, h), sorted.slowdown(machine, h))
    expression = 4 * (1 + BETA) * G * h / setting.unit + of_waiting
    return _on_logp(setting, program, 2 * wait + random.cost(machine, h, BETA), expression, certain=False)


# -- the comparison -----------------------------------------------------------------------------------------------

SIMULATIONS: dict[str, Callable[[Setting], Slowdown]] = {
    "LogP on BSP, stall-free": stall_free,
    "LogP on BSP, stalling": stalling,
    "BSP on LogP, sorted": by_sorting,
    "BSP on LogP, offline": by_plan,
    "BSP on LogP, random": by_batches,
}
MIDDLE = Setting()
AXES = {"L/G": "ratio", "h": "h", "p": "p"}
VALUES: dict[str, tuple[int, ...]] = {
    "L/G": (1, 2, 4, 8, 16, 32, 64),
    "h": (1, 2, 4, 8, 16, 32, 64, 128, 256),
    "p": (2, 4, 8, 16, 32, 64, 128),
}
QUICK: dict[str, tuple[int, ...]] = {"L/G": (1, 4, 8), "h": (1, 8, 32), "p": (2, 5, 8)}


class Point(NamedTuple):
    """What one simulation costs where one of L/G, h and p has another value than in the middle."""

    simulation: str
    axis: str
    value: int
    setting: Setting
    slowdown: Slowdown


def compare(values: dict[str, tuple[int, ...]], middle: Setting) -> list[Point]:
    """All simulations, with one parameter of the middle varied along each axis."""
    simulated = cache(lambda name, setting: SIMULATIONS[name](setting))
    return [
        Point(name, axis, value, setting, simulated(name, setting))
        for axis, parameter in AXES.items()
        for value in values[axis]
        for setting in (middle._replace(**{parameter: value}),)
        for name in SIMULATIONS
    ]


# -- what is shown ------------------------------------------------------------------------------------------------


def others_of(middle: Setting, axis: str) -> str:
    """What is not varied along an axis."""
    return ", ".join(f"{name} = {getattr(middle, field)}" for name, field in AXES.items() if name != axis)


def axis_table(points: Sequence[Point], axis: str, middle: Setting) -> Table:
    """Slowdowns along one axis: simulated, and the bound."""
    rows: dict[int, list[object]] = {}
    for point in points:
        if point.axis == axis:
            cell = f"{point.slowdown.simulated:.2f} ({point.slowdown.predicted:.2f})"
            rows.setdefault(point.value, [point.value]).append(cell)
    title = f"Slowdown over {axis}, simulated (bound); {others_of(middle, axis)}, G = {G}, o = {o}"
    return table(title, cells((axis, *SIMULATIONS)), rows.values())


def constants_table(points: Sequence[Point]) -> Table:
    """The largest of slowdown over the paper's expression, and over the bound, rounded up."""
    rows = []
    for name in SIMULATIONS:
        of = [(point.slowdown, point.setting) for point in points if point.simulation == name]
        constant, worst = max(((it.simulated / it.expression, at) for it, at in of), key=lambda pair: pair[0])
        bound = max(it.simulated / it.predicted for it, _ in of)
        where = f"p = {worst.p}, L/G = {worst.ratio}, h = {worst.h}"
        rows.append((name, math.ceil(100 * constant) / 100, where, math.ceil(100 * bound) / 100))
    head = "simulation | over the paper's expression [.2f] | where | over the bound [.2f]"
    return table("Largest ratios", head, rows)


def draw(pyplot: Any, points: Sequence[Point], middle: Setting) -> Any:
    """Slowdown over L/G, h and p, a row for each direction; bounds are dashed, the paper's expressions dotted."""
    figure, axes = pyplot.subplots(2, 3, figsize=(15, 9), sharey="row", layout="constrained")
    for row, direction in zip(axes, ("LogP on BSP", "BSP on LogP"), strict=True):
        for panel, axis in zip(row, AXES, strict=True):
            for name, colour in zip((name for name in SIMULATIONS if name.startswith(direction)), "brg", strict=False):
                of = [point for point in points if (point.simulation, point.axis) == (name, axis)]
                values = [point.value for point in of]
                panel.plot(values, [p.slowdown.simulated for p in of], colour + "o-", label=name.split(", ")[1])
                panel.plot(values, [p.slowdown.predicted for p in of], colour + "--")
                panel.plot(values, [p.slowdown.expression for p in of], colour + ":", alpha=0.6)
            panel.plot([], [], "k--", label="bound")
            panel.plot([], [], "k:", label="the paper's expression")
            panel.set(title=f"{direction}: {others_of(middle, axis)}", xlabel=axis, xscale="log", yscale="log")
            panel.set_xticks(values, labels=[str(value) for value in values])
            panel.minorticks_off()
        low, high = row[0].get_ylim()
        ticks = [tick for power in (1, 10, 100, 1000) for tick in (power, 2 * power, 5 * power) if low <= tick <= high]
        row[0].set_yticks(ticks, labels=[str(tick) for tick in ticks])
        row[0].set_ylabel("slowdown")
        row[-1].legend(loc="upper left", fontsize=8)
    return figure


def main() -> None:
    """Simulate, and print the tables."""
    study = Study(__doc__, keep="--output", plot="the curves", quick="few small points, in a second")
    options = study.begin()
    values, middle = (QUICK, Setting(8, 4, 8)) if options.quick else (VALUES, MIDDLE)
    points = compare(values, middle)
    study.show(*(axis_table(points, axis, middle) for axis in AXES), constants_table(points))
    entries = [
        {"simulation": of.simulation, "axis": of.axis, **of.setting._asdict(), **of.slowdown._asdict()} for of in points
    ]
    study.end({"G": G, "o": o, "points": entries}, lambda pyplot: draw(pyplot, points, middle))
    above = [of for of in points if of.slowdown.certain and of.slowdown.simulated > of.slowdown.predicted]
    if above:
        sys.exit("above the bound: " + "; ".join(f"{of.simulation}, {of.axis} = {of.value}" for of in above))


if __name__ == "__main__":
    main()
