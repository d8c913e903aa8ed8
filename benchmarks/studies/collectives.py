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

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import pybsp
from pybsp.cli import launcher
from pybsp.collectives import broadcast, broadcast_items, prefix, prefix_2d
from pybsp.collectives.tree import degrees

Variant = Callable[[], Any]

CHOICE_WORDS = [1, 16, 256, 1024, 4096, 1 << 14, 1 << 16, 1 << 18]
MPI_WORDS = [1, 16, 256, 4096, 1 << 14, 1 << 16, 1 << 18, 1 << 20]
RELATIONS = (1 << 16, 1 << 17)  # words
HEAD_START = 0.04  # seconds in which all ranks learn when to begin, and what was still under way arrives


def cluster_script() -> Path:
    """The script that emulates a cluster.

    Raises:
        SystemExit: it is not there.
    """
    beside = Path(__file__).resolve().parents[3] / "shared" / "cluster" / "cluster"
    script = Path(os.environ.get("PYBSP_CLUSTER") or beside)
    if not script.is_file():
        sys.exit(
            f"no emulated cluster: PYBSP_CLUSTER is not set to its script, and there is no {beside}; without "
            "--latency and --rate the ranks run under mpiexec here"
        )
    return script


class Clock:
    """A moment at which all ranks begin."""

    def __init__(self, comm: Any) -> None:
        boot = Path("/proc/sys/kernel/random/boot_id")
        mine = boot.read_text() if boot.exists() else platform.node()
        self.shared = len(set(comm.allgather(mine))) == 1  # processes of one kernel have one monotonic clock
        self._comm = comm

    def begin(self) -> float:
        """Wait for it; returns it."""
        from mpi4py import MPI

        if not self.shared:
            self._comm.Barrier()
            return time.perf_counter()
        moment = float(self._comm.allreduce(time.perf_counter(), MPI.MAX)) + HEAD_START
        time.sleep(max(0.0, moment - time.perf_counter()))  # not spinning: ranks may share cores
        return moment


def measured(comm: Any, variants: Mapping[str, Variant], rounds: int) -> dict[str, list[float]]:
    """Seconds of each variant in each round: from the common beginning to the end of the last rank."""
    from mpi4py import MPI

    clock = Clock(comm)
    samples: dict[str, list[float]] = {name: [] for name in variants}
    names = list(variants)
    for number in range(rounds + 1):
        shift = number % len(names)
        for name in names[shift:] + names[:shift]:
            begin = clock.begin()
            variants[name]()
            seconds = comm.allreduce(time.perf_counter() - begin, MPI.MAX)
            if number:  # the first round makes connections
                samples[name].append(seconds)
    return samples


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
                "chosen": chosen(predicted, automatic.seconds),
            }
    return found


def ways_to_broadcast(bsp: pybsp.BSP, data: Any) -> dict[str, tuple[Variant, pybsp.Cost]]:
    """All degrees, and 2D-BCAST, with what they cost."""
    given = data if bsp.pid == 0 else None
    machine, words = bsp.machine, data.size
    ways: dict[str, tuple[Variant, pybsp.Cost]] = {}
    for d in range(2, bsp.p + 1):
        ways[f"degree {d}"] = (partial(broadcast, bsp, given, degree=d), broadcast.cost(machine, words, d))
    ways["2D-BCAST"] = (partial(broadcast_items, bsp, given), broadcast_items.cost(machine, words))
    return ways


def ways_to_prefix(bsp: pybsp.BSP, data: Any) -> dict[str, tuple[Variant, pybsp.Cost]]:
    """All degrees that can be the cheapest, and 2D-PREFIX, with what they cost."""
    machine, words = bsp.machine, data.size
    ways: dict[str, tuple[Variant, pybsp.Cost]] = {}
    for d in degrees(bsp.p):
        ways[f"degree {d}"] = (partial(prefix, bsp, data, np.add, degree=d), prefix.cost(machine, words, d))
    ways["2D-PREFIX"] = (partial(prefix_2d, bsp, data, np.add), prefix_2d.cost(machine, words))
    return ways


def chosen(predicted: Mapping[str, float], seconds: float) -> str:
    """The first way that costs what the automatic choice costs."""
    return min(predicted, key=lambda way: abs(predicted[way] - seconds))


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
    found: dict[str, Any] = {}
    for words in MPI_WORDS:
        data = np.random.default_rng(bsp.pid).random(words)
        given, into, sums = data if bsp.pid == 0 else None, data.copy(), np.empty_like(data)
        ours, theirs = partial(broadcast, bsp, given), partial(_bcast, comm, into)
        found[f"broadcast, {words} words"] = measured(comm, {"ours": ours, "mpi": theirs}, rounds)
        if not np.array_equal(ours(), into):
            raise RuntimeError(f"broadcast and Bcast of {words} words differ")
        ours, theirs = partial(prefix, bsp, data, np.add), partial(_scan, comm, data, sums)
        found[f"prefix, {words} words"] = measured(comm, {"ours": ours, "mpi": theirs}, rounds)
        if not np.allclose(ours(), sums, rtol=1e-12):  # they may add in other orders
            raise RuntimeError(f"prefix and Scan of {words} words differ")
    return found


def _bcast(comm: Any, into: Any) -> None:
    from mpi4py import MPI

    comm.Bcast([into, into.size, MPI.DOUBLE])


def _scan(comm: Any, data: Any, sums: Any) -> None:
    from mpi4py import MPI

    comm.Scan([data, data.size, MPI.DOUBLE], [sums, data.size, MPI.DOUBLE])


def _worker(options: argparse.Namespace) -> None:
    import mpi4py

    mpi4py.rc.thread_level = "serialized"  # for both sides
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    in_force = pybsp.BSPMachine(p=comm.size, g=options.g, l=options.l, r=options.r, o_msg=options.o_msg)
    part = {"machine": machine, "choice": choice, "mpi": against_mpi}[options.part]
    found = pybsp.run(part, comm.Dup(), options.rounds, machine=in_force)
    if comm.rank == 0:
        library = " ".join(MPI.Get_library_version().strip("\x00 \n").split("\n")[0].split())
        Path(options.worker).write_text(json.dumps({"library": library, "found": found}))


def _ms(samples: Any) -> str:
    median, low, high = (1e3 * np.percentile(samples, q) for q in (50, 5, 95))
    return f"{median:.4g} ({low:.4g} to {high:.4g})"


def print_choice(console: Console, found: dict[str, Any]) -> None:
    """For each size: what was chosen, what was best, and how far apart they are."""
    table = Table(title="the choice: milliseconds, median (5th to 95th percentile)")
    for column in ("what", "chosen", "time", "predicted", "best measured", "time", "worst", "chosen/best", "verdict"):
        table.add_column(column)
    for what, one in found.items():
        medians = {way: float(np.median(samples)) for way, samples in one["samples"].items()}
        best, worst = min(medians, key=medians.__getitem__), max(medians, key=medians.__getitem__)
        way = one["chosen"]
        ratio = medians[way] / medians[best]
        spread = np.percentile(one["samples"][best], 95) >= np.percentile(one["samples"][way], 5)
        verdict = "within 10 %" if ratio <= 1.1 else "within the spread" if spread else "MISSED"
        table.add_row(
            what,
            way,
            _ms(one["samples"][way]),
            f"{1e3 * one['predicted'][way]:.4g}",
            best,
            _ms(one["samples"][best]),
            f"{worst} {1e3 * medians[worst]:.4g}",
            f"{ratio:.2f}",
            verdict,
        )
    console.print(table)


def print_machine(console: Console, found: dict[str, Any]) -> None:
    """l, and g from the difference of two exchanges."""
    empty, few, many = (float(np.median(found[str(h)])) for h in (0, *RELATIONS))
    console.print(f"empty superstep: {_ms(found['0'])} ms")
    console.print(f"--g {(many - few) / (RELATIONS[1] - RELATIONS[0]):.3g} --l {empty:.3g}")


def print_against_mpi(console: Console, found: dict[str, Any]) -> None:
    """For each size: both times, and the ratio round by round."""
    table = Table(title="against MPI: milliseconds, median (5th to 95th percentile)")
    for column in ("what", "pybsp", "MPI", "ratio", "bar 1.3"):
        table.add_column(column)
    for what, samples in found.items():
        ratios = np.array(samples["ours"]) / np.array(samples["mpi"])
        median = float(np.median(ratios))
        table.add_row(
            what,
            _ms(samples["ours"]),
            _ms(samples["mpi"]),
            f"{median:.2f} ({np.percentile(ratios, 5):.2f} to {np.percentile(ratios, 95):.2f})",
            "met" if median <= 1.3 else "MISSED",
        )
    console.print(table)


def main() -> None:
    """Start the ranks, and print what they found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("machine", "choice", "mpi"))
    parser.add_argument("-n", type=int, default=8, help="ranks (default 8)")
    parser.add_argument("--latency", type=int, help="of the emulated cluster, in microseconds")
    parser.add_argument("--rate", type=int, help="of its lines, in Mbit/s")
    parser.add_argument("--g", type=float, default=1e-9, help="seconds a word")
    parser.add_argument("--l", type=float, default=1e-5, help="seconds a superstep")
    parser.add_argument("--r", type=float, default=1e9, help="flop/s (default 1e9)")
    parser.add_argument("--o-msg", type=float, default=0.0, help="seconds a message (default 0)")
    parser.add_argument("--rounds", type=int, default=9, help="samples of each variant (default 9)")
    parser.add_argument("--output", metavar="FILE", help="keep all samples, as JSON")
    parser.add_argument("--worker", metavar="FILE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        _worker(options)
        return
    with tempfile.TemporaryDirectory() as scratch:
        result = Path(scratch) / "found.json"
        worker = [sys.executable, "-m", "pybsp.benchmarks.studies.collectives", *sys.argv[1:], "--worker", str(result)]
        command = [*launcher(options.n), *worker]
        environment = dict(os.environ)
        if options.latency is not None and options.rate is not None:
            setting = ["-n", str(options.n), "-l", str(options.latency), "-b", str(options.rate)]
            command = [str(cluster_script()), *setting, "--", *worker]
            # The mpiexec beside this Python comes first, as in `pybsp run`.
            environment["PATH"] = os.pathsep.join(
                [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
            )
        subprocess.run(command, check=True, env=environment)
        content = json.loads(result.read_text())
    content |= {"host": platform.node(), "arguments": sys.argv[1:], "numpy": np.__version__}
    console = Console()
    if not console.is_terminal:
        console.width = 180
    where = f"-l {options.latency} -b {options.rate}" if options.latency is not None else "under mpiexec, one host"
    given = "" if options.part == "machine" else f"; g = {options.g:g} s, l = {options.l:g} s"
    console.print(f"{options.n} ranks {where}{given}; {content['library']}")
    show = {"machine": print_machine, "choice": print_choice, "mpi": print_against_mpi}[options.part]
    show(console, content["found"])
    if options.output:
        Path(options.output).write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
