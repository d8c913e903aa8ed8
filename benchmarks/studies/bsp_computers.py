"""What a BSP computer needs (*Experiences with a model for parallel computation*, section 3), and what machines have.

    python -m pybsp.benchmarks.studies.bsp_computers [--machine machine.json ...] [--plot FILE.png] [--json FILE]

Figures 4 and 5 as tables: the ratio C/t_m of the time of an instruction to that of a packet with which a hypercube of
N nodes keeps an efficiency, with nodes that route packets by a processor (DMA) and by crossbar switches. How many nodes
match the Cray. The paper's figures beside those of its formulas. And where calibrated machines lie, each twice:

    words           packets travel in bulk, as items of a queue: t_m = g, t_d = o_item
    messages        each packet is a message: t_m = G, t_d = 2 o (a node that forwards it receives it and sends it)

In both C = 1/r, of vector kernels; instructions that miss their caches, or branch, take longer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import count, product
from pathlib import Path
from typing import Any, NamedTuple

from rich.table import Table

from pybsp import BSPMachine, LogPMachine
from pybsp.benchmarks.studies.theory.efficiency import PACKETS, Computer, instruction_time, required_ratio
from pybsp.errors import UsageError

from .frame import Study, cells, heads, table

EFFICIENCIES = (0.2, 0.4, 0.6, 0.8)
L = 20  # instructions of a superstep in figures 4 and 5
PACKET = 8  # bytes
CRAY = 2667e6  # instructions/s of the CRAY-YMP/8, as the paper counts
T_M = PACKET / 20e6  # seconds of a packet on a link of the T9000
SIZES = tuple(2**n for n in range(1, 15))  # N
ARCHITECTURES = {"DMA": 1.0, "crossbar": 0.0}  # t_d/t_m in figures 4 and 5


# -- the paper's figures ------------------------------------------------------------------------------------------


class Claim(NamedTuple):
    """A figure that the paper prints, and what its own formula gives."""

    what: str
    paper: float
    here: float
    unit: str = ""


def claims() -> list[Claim]:
    """All figures of section 3 that follow from its formulas."""
    bandwidth = PACKET * required_ratio(0.8, 128, L, 1.0) / 100e-9 / 1e6
    slow, fast = Computer(1e-6, T_M, T_M), Computer(144e-9, T_M)
    return [
        *(
            Claim(f"C/t_m for E = 0.8, N = {N}, t_d = t_m", paper, required_ratio(0.8, N, L, 1.0))
            for N, paper in ((32, 8.84), (64, 10.16), (128, 11.48))
        ),
        Claim("bandwidth of a channel for E = 0.8, N = 128, C = 100 ns", 928, bandwidth, "MB/s"),
        Claim("DMA: N >= a + b log N + 2667e6 C: a", 1664.2, CRAY * (PACKETS + 1) * T_M),
        Claim("DMA: N >= a + b log N + 2667e6 C: b", 298.7, CRAY * PACKETS / 2 * T_M),
        Claim("DMA: N that matches the Cray, C = 1 us", 8192, slow.nodes(CRAY)),
        Claim("DMA: dimensions of its cube", 13, slow.dimensions(CRAY)),
        Claim("DMA: rate of 8192 nodes, C = 1 us", 2667, slow.rate(8192) / 1e6, "million/s"),
        Claim("DMA: largest C, N = 8192", 1000, instruction_time(CRAY, 8192, T_M, T_M) * 1e9, "ns"),
        Claim("crossbar: N that matches the Cray, C = 144 ns", 2048, fast.nodes(CRAY)),
        Claim("crossbar: largest C, N = 2048", 144, instruction_time(CRAY, 2048, T_M) * 1e9, "ns"),
    ]


# -- calibrated machines ------------------------------------------------------------------------------------------


class Place(NamedTuple):
    """Where a machine lies in the figures."""

    machine: str
    packets: str  # how they travel, "words" or "messages"
    N: int
    computer: Computer
    shown: float  # the E of the curve of figure 4 on which it lies at N, where t_d = t_m
    own: float  # with its own t_d
    switched: float  # of figure 5
    needed: float  # C/t_m for E = 0.8, with its own t_d/t_m
    nodes: float  # that match the Cray, with its own t_d


class SuperstepEfficiency(NamedTuple):
    """The superstep of the model on a machine as it is, without forwarded packets; half: L at half the limit."""

    machine: str
    packets: str
    efficiencies: list[float]  # for each of LENGTHS
    limit: float  # for L without end
    half: float


LENGTHS = (20, 10**3, 10**5, 10**7)


def computers(file: str) -> Iterator[tuple[str, Computer]]:
    """The two ways of packets on the machine of a machine file; "messages" only where it has a LogP part.

    Raises:
        UsageError: no machine file, no BSP part, or a g of 0, with which packets would take no time.
    """
    machine = BSPMachine.load(file)
    if not machine.g > 0:
        raise UsageError(
            f"bsp_computers: {file}: g must be above 0, got {machine.g!r}; it was lost in noise: calibrate for longer"
        )
    yield "words", Computer(1 / machine.r, machine.g, machine.o_item)
    if LogPMachine.is_in(file):
        logp = LogPMachine.load(file)
        yield "messages", Computer(1 / machine.r, logp.G * logp.step, 2 * logp.o * logp.step)


def places(files: Sequence[str], more: int = 1024) -> Iterator[Place]:
    """Where machines lie, with the processors that they have, and with `more` of the same."""
    for file in files:
        name, p = Path(file).stem, BSPMachine.load(file).p
        for packets, computer in computers(file):
            for N in (p, more):
                shown = Computer(computer.C, computer.t_m, computer.t_m).efficiency(N, L)
                own, switched = computer.efficiency(N, L), computer.crossbar.efficiency(N, L)
                needed = required_ratio(0.8, N, L, computer.t_d / computer.t_m)
                yield Place(name, packets, N, computer, shown, own, switched, needed, computer.nodes(CRAY))


def supersteps(files: Sequence[str]) -> Iterator[SuperstepEfficiency]:
    """By each machine's own cost, w/r + g h + l with what messages and items cost."""
    for file, packets in product(files, ("words", "messages")):
        machine, alone = BSPMachine.load(file), packets == "messages"

        def efficiency(length: float, machine: BSPMachine = machine, alone: bool = alone) -> float:
            h = PACKETS * length
            messages = h if alone else min(h, machine.p - 1)
            return length / machine.r / machine.time(length, h, messages, items=0 if alone else h)

        limit = efficiency(2.0**60)
        half = next(2.0**k for k in count() if efficiency(2.0**k) >= limit / 2)
        yield SuperstepEfficiency(Path(file).stem, packets, list(map(efficiency, LENGTHS)), limit, half)


# -- what is shown ------------------------------------------------------------------------------------------------


def ratios_table(figure: int, architecture: str) -> Table:
    """Figure 4 or 5."""
    delay = ARCHITECTURES[architecture]
    return table(
        f"Figure {figure} ({architecture}): C/t_m that N nodes need for an efficiency, L = {L}, t_d = {delay:g} t_m",
        f"N | {heads((f'E = {E}' for E in EFFICIENCIES), '.2f')}",
        ((N, *(required_ratio(E, N, L, delay) for E in EFFICIENCIES)) for N in SIZES),
    )


def cray_table() -> Table:
    """Nodes that match the Cray over C."""
    rows = []
    for C in (1e-9, 10e-9, 50e-9, 100e-9, 144e-9, 200e-9, 500e-9, 1e-6, 2e-6):
        found = [Computer(C, T_M, delay * T_M) for delay in ARCHITECTURES.values()]
        rows.append((f"{C * 1e9:.0f} ns", *(x for one in found for x in (one.nodes(CRAY), 2 ** one.dimensions(CRAY)))))
    return table(
        f"Nodes that match the CRAY-YMP/8 ({CRAY / 1e6:.0f} million/s), t_m = {T_M * 1e9:.0f} ns, L = log N",
        cells(("C", *(f"{name}: {what}" for name in ARCHITECTURES for what in ("N [.1f]", "cube of")))),
        rows,
    )


def place_cells(place: Place) -> tuple[object, ...]:
    """A machine in figures 4 and 5."""
    one = place.computer
    times = (1e9 * one.C, 1e9 * one.t_m, 1e9 * one.t_d, one.ratio)
    return *place[:2], *times, place.N, *place[4:8], place.needed / one.ratio, place.nodes


def draw(pyplot: Any, found: Sequence[Place]) -> Any:
    """Figures 4 and 5, with the machines in them."""
    figure, axes = pyplot.subplots(1, 2, figsize=(12, 5), sharey=True, layout="constrained")
    for axis, number, (name, delay) in zip(axes, (4, 5), ARCHITECTURES.items(), strict=True):
        for E in EFFICIENCIES:
            axis.plot(SIZES, [required_ratio(E, N, L, delay) for N in SIZES], "o-", markersize=3, label=f"E = {E}")
        for machine, packets in dict.fromkeys((place.machine, place.packets) for place in found):
            mine = [place for place in found if (place.machine, place.packets) == (machine, packets)]
            marker, ratios = "^:" if packets == "words" else "v:", [place.computer.ratio for place in mine]
            axis.plot([place.N for place in mine], ratios, marker, label=f"{machine}, {packets}")
        axis.set(title=f"Figure {number}: {name}, t_d = {delay:g} t_m", xlabel="N", xscale="log", yscale="log")
    axes[0].set_ylabel("C / t_m")
    return figure


def main() -> None:
    """Print the tables, keep and draw them."""
    study = Study(__doc__, keep="--json", plot="figures 4 and 5")
    study.add_argument("--machine", metavar="FILE", nargs="+", default=[], help="machine files to place in the figures")
    options = study.begin()
    try:
        placed, steps = list(places(options.machine)), list(supersteps(options.machine))
    except UsageError as error:
        study.error(str(error))
    study.show(ratios_table(4, "DMA"), ratios_table(5, "crossbar"), cray_table())
    title = "Section 3, its figures and what its formulas give"
    study.rows("claims", title, "what | paper [g] | here [.2f] | unit", claims())
    study.results["places"] = [
        {**of._asdict(), "computer": {name: getattr(of.computer, name) for name in ("C", "t_m", "t_d")}}
        for of in placed
    ]
    study.results["supersteps"] = steps
    if options.machine:
        study.show(
            table(
                f"Machines in figures 4 and 5, L = {L}",
                f"machine | packets as | {heads(('C, ns', 't_m, ns', 't_d, ns'), '.2f')} | C/t_m [.2g] | N | "
                "figure 4: E [.3g] | E with its t_d [.3g] | figure 5: E [.3g] | C/t_m for E = 0.8 [.2f] | "
                "that is too low by [.3g] | nodes for the Cray [.1f]",
                map(place_cells, placed),
            ),
            table(
                "The superstep of the model on machines as they are: E over its L",
                f"machine | packets as | {heads((*(f'L = {length:g}' for length in LENGTHS), 'at most'), '.3g')} | "
                "half of it from L",
                ((*of[:2], *of.efficiencies, of.limit, f"2^{math.log2(of.half):.0f}") for of in steps),
            ),
        )
    study.end(draw=lambda pyplot: draw(pyplot, placed))


if __name__ == "__main__":
    main()
