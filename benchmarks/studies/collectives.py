"""Do the collectives choose well, and how do they stand against MPI's own? On the emulated cluster, or on any ranks.

    python -m pybsp.benchmarks.studies.collectives machine -n 8 --latency 2000 --rate 200
    python -m pybsp.benchmarks.studies.collectives choice  -n 8 --latency 2000 --rate 200 --g 3.3e-7 --l 3.5e-3
    python -m pybsp.benchmarks.studies.collectives mpi     -n 8 --latency 2000 --rate 200 --g 3.3e-7 --l 3.5e-3

`machine` measures an empty superstep, which is l, and total exchanges of 2^16 and 2^17 words, whose difference gives g.
`choice` measures a broadcast of 1 to 2^18 words with every degree and by 2D-BCAST, and compares what `broadcast`
would choose with the best that was measured; likewise prefix sums. `mpi` measures `broadcast` against `Bcast` and
`prefix` against `Scan`, the same data in the same run. g (seconds a word) and l (seconds) are the machine's.

With --latency (microseconds) and --rate (Mbit/s) the ranks run on emulated hosts; the script for that is looked for
beside the checkout (../shared/cluster/cluster) or where PYBSP_CLUSTER says. Without, they run under mpiexec here.

All variants are measured in turn, round by round. All ranks begin at one moment of the clock that they share (on ranks
that share none: after a barrier), and a sample ends when the last rank has its result. Medians and the 5th to 95th
percentile.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from rich.console import RenderableType
from rich.table import Table

import pybsp
from pybsp.collectives import broadcast, broadcast_items, prefix, prefix_2d
from pybsp.collectives.tree import degrees

from .frame import Study, in_turns, kernel, library, on_ranks, spread, table, wait_until

Variant = Callable[[], Any]

CHOICE_WORDS = [1, 16, 256, 1024, 4096, 1 << 14, 1 << 16, 1 << 18]
MPI_WORDS = [1, 16, 256, 4096, 1 << 14, 1 << 16, 1 << 18, 1 << 20]
RELATIONS = (1 << 16, 1 << 17)  # words
HEAD_START = 0.04  # seconds in which all ranks learn when to begin, and what was still under way arrives


def measured(comm: Any, variants: Mapping[str, Variant], rounds: int) -> dict[str, list[float]]:
    """Seconds of each variant in each round: from the common beginning to the end of the last rank."""
    from mpi4py import MPI

    shared = len(set(comm.allgather(kernel()))) == 1

    def timed(run: Variant) -> float:
        begin = float(comm.allreduce(time.perf_counter(), MPI.MAX)) + HEAD_START
        if shared:
            wait_until(begin)
        else:
            comm.Barrier()
            begin = time.perf_counter()
        run()
        return float(comm.allreduce(time.perf_counter() - begin, MPI.MAX))

    return in_turns({name: partial(timed, run) for name, run in variants.items()}, rounds)


def choice(bsp: pybsp.BSP, comm: Any, rounds: int) -> dict[str, Any]:
    """Every way to broadcast and to take prefix sums, for all sizes."""
    found: dict[str, Any] = {}
    for words in CHOICE_WORDS:
        data = np.random.default_rng(bsp.pid).random(words)
        for what, ways in (("broadcast", ways_to_broadcast(bsp, data)), ("prefix", ways_to_prefix(bsp, data))):
            predicted = {name: cost.seconds for name, (_, cost) in ways.items()}
            automatic = broadcast.cost(bsp.machine, words)
            if what == "prefix":
                automatic = prefix.cost(bsp.machine, words, items=words)
            found[f"{what}, {words} words"] = {
                "samples": measured(comm, {name: run for name, (run, _) in ways.items()}, rounds),
                "predicted": predicted,
                # The first way that costs what the automatic choice costs.
                "chosen": min(predicted, key=lambda way: abs(predicted[way] - automatic.seconds)),
            }
    return found


def ways_to_broadcast(bsp: pybsp.BSP, data: Any) -> dict[str, tuple[Variant, pybsp.Cost]]:
    """All degrees, 2D-BCAST, and groups, with what they cost."""
    given = data if bsp.pid == 0 else None
    machine, words = bsp.machine, data.size
    ways: dict[str, tuple[Variant, pybsp.Cost]] = {
        f"degree {d}": (partial(broadcast, bsp, given, degree=d), broadcast.cost(machine, words, d))
        for d in range(2, bsp.p + 1)
    }
    ways["2D-BCAST"] = (partial(broadcast_items, bsp, given), broadcast_items.cost(machine, words))
    grouped = broadcast.cost(machine, words, algorithm="groups")
    ways["groups"] = (partial(broadcast, bsp, given, algorithm="groups"), grouped)
    return ways


def ways_to_prefix(bsp: pybsp.BSP, data: Any) -> dict[str, tuple[Variant, pybsp.Cost]]:
    """All degrees that can be the cheapest, and 2D-PREFIX, with what they cost."""
    machine, words = bsp.machine, data.size
    ways: dict[str, tuple[Variant, pybsp.Cost]] = {
        f"degree {d}": (partial(prefix, bsp, data, np.add, degree=d), prefix.cost(machine, words, d))
        for d in degrees(bsp.p)
    }
    ways["2D-PREFIX"] = (partial(prefix_2d, bsp, data, np.add), prefix_2d.cost(machine, words))
    return ways


def machine(bsp: pybsp.BSP, comm: Any, rounds: int) -> dict[str, Any]:
    """An empty superstep, and total exchanges of two sizes."""

    def exchange(h: int) -> None:
        part = np.zeros(h // (bsp.p - 1))
        for dest in range(bsp.p):
            if dest != bsp.pid:
                bsp.send(dest, part)
        bsp.sync()

    ways: dict[str, Variant] = {"0": bsp.sync, **{str(h): partial(exchange, h) for h in RELATIONS}}
    return measured(comm, ways, rounds)


def against_mpi(bsp: pybsp.BSP, comm: Any, rounds: int) -> dict[str, Any]:
    """`broadcast` against Bcast, `prefix` against Scan."""
    from mpi4py import MPI

    found: dict[str, Any] = {}
    for words in MPI_WORDS:
        data = np.random.default_rng(bsp.pid).random(words)
        given, into, sums = data if bsp.pid == 0 else None, data.copy(), np.empty_like(data)
        buffer, out = [into, words, MPI.DOUBLE], [sums, words, MPI.DOUBLE]
        ours, theirs = partial(broadcast, bsp, given), partial(comm.Bcast, buffer)
        found[f"broadcast, {words} words"] = measured(comm, {"ours": ours, "mpi": theirs}, rounds)
        if not np.array_equal(ours(), into):
            raise RuntimeError(f"broadcast and Bcast of {words} words differ")
        ours, theirs = partial(prefix, bsp, data, np.add), partial(comm.Scan, [data, words, MPI.DOUBLE], out)
        found[f"prefix, {words} words"] = measured(comm, {"ours": ours, "mpi": theirs}, rounds)
        if not np.allclose(ours(), sums, rtol=1e-12):  # they may add in other orders
            raise RuntimeError(f"prefix and Scan of {words} words differ")
    return found


PARTS: dict[str, Callable[[pybsp.BSP, Any, int], dict[str, Any]]] = {
    "machine": machine,
    "choice": choice,
    "mpi": against_mpi,
}


def on_these(part: str, rounds: int, parameters: dict[str, Any]) -> dict[str, Any]:
    """What the ranks of this job find."""
    import mpi4py

    mpi4py.rc.thread_level = "serialized"  # for both sides
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    found = pybsp.run(PARTS[part], comm.Dup(), rounds, machine=pybsp.BSPMachine(p=comm.size, **parameters))
    return {"library": library(), "found": found}


def choice_table(found: dict[str, Any]) -> Table:
    """For each size: what was chosen, what was best, and how far apart they are."""
    rows = []
    for what, one in found.items():
        samples, way = one["samples"], one["chosen"]
        medians = {each: float(np.median(taken)) for each, taken in samples.items()}
        best, worst = min(medians, key=medians.__getitem__), max(medians, key=medians.__getitem__)
        ratio = medians[way] / medians[best]
        separated = np.percentile(samples[best], 95) < np.percentile(samples[way], 5)
        verdict = "within 10 %" if ratio <= 1.1 else "MISSED" if separated else "within the spread"
        times = spread(samples[way], 1e-3), 1e3 * one["predicted"][way], best, spread(samples[best], 1e-3)
        rows.append((what, way, *times, f"{worst} {1e3 * medians[worst]:.4g}", ratio, verdict))
    head = "what | chosen | time | predicted [.4g] | best measured | time | worst | chosen/best [.2f] | verdict"
    return table("the choice: milliseconds, median (5th to 95th percentile)", head, rows)


def machine_lines(found: dict[str, Any]) -> str:
    """l, and g from the difference of two exchanges."""
    empty, few, many = (float(np.median(found[str(h)])) for h in (0, *RELATIONS))
    g = (many - few) / (RELATIONS[1] - RELATIONS[0])
    return f"empty superstep: {spread(found['0'], 1e-3)} ms\n--g {g:.3g} --l {empty:.3g}"


def against_mpi_table(found: dict[str, Any]) -> Table:
    """For each size: both times, and the ratio round by round."""
    rows = []
    for what, samples in found.items():
        ratios = np.array(samples["ours"]) / np.array(samples["mpi"])
        both = f"{spread(samples['ours'], 1e-3)} | {spread(samples['mpi'], 1e-3)}"
        rows.append(f"{what} | {both} | {spread(ratios)} | {'met' if np.median(ratios) <= 1.3 else 'MISSED'}")
    title = "against MPI: milliseconds, median (5th to 95th percentile)"
    return table(title, "what | pybsp | MPI | ratio | bar 1.3", rows)


SHOWN: dict[str, Callable[[dict[str, Any]], RenderableType]] = {
    "machine": machine_lines,
    "choice": choice_table,
    "mpi": against_mpi_table,
}


def main() -> None:
    """Start the ranks, and print what they found."""
    study = Study(__doc__, keep="--output")
    study.add_argument("part", choices=PARTS)
    study.add_argument("-n", type=int, default=8, help="ranks")
    study.add_network()
    study.add_argument("--g", type=float, default=1e-9, help="seconds a word")
    study.add_argument("--l", type=float, default=1e-5, help="seconds a superstep")
    study.add_argument("--r", type=float, default=1e9, help="flop/s")
    study.add_argument("--o-msg", type=float, default=0.0, help="seconds a message")
    study.add_argument("--rounds", type=int, default=9, help="samples of each variant")
    options = study.begin()
    parameters = {name: getattr(options, name) for name in ("g", "l", "r", "o_msg")}
    network = study.network(options.n)
    where = "under mpiexec, one host" if network is None else f"-l {options.latency} -b {options.rate}"
    content = on_ranks(on_these, options.part, options.rounds, parameters, n=options.n, network=network)
    given = "" if options.part == "machine" else f"; g = {options.g:g} s, l = {options.l:g} s"
    study.show(f"{options.n} ranks {where}{given}; {content['library']}", SHOWN[options.part](content["found"]))
    study.end(content)


if __name__ == "__main__":
    main()
