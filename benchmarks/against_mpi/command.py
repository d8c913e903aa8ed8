"""Options, ranks, files.

Without a launcher this starts the ranks, under mpiexec or on emulated hosts, and takes what processor 0 found from a
file; under a launcher it measures on the ranks that are there.
"""

from __future__ import annotations

import argparse
import importlib
import math
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pybsp
from pybsp.benchmarks.emulation.link import parse_rate, parse_time
from pybsp.benchmarks.studies.frame import (
    EMULATORS,
    EmulatedNetwork,
    Study,
    library,
    on_ranks,
    read_figures,
    usual_emulator,
)
from pybsp.errors import BSPError, UsageError
from pybsp.transport.launcher import under_launcher

from . import guidelines, plots
from .figures import FIGURES, MPICH, OPEN_MPI, figure_for, found
from .growth import growth
from .measuring import Pace, measured
from .report import show
from .state import machine, state
from .summary import slower
from .variants import OURS, ComparisonJob, Work
from .works import catalogue
from .works.blocks import ALLTOALLV, COPY
from .works.fine import BY_HAND

FORMAT = "pybsp-compare"
FAMILIES = {"mpich": MPICH, "openmpi": OPEN_MPI}
GROWTH = "growth"
THREADS = ("single", "funneled", "serialized", "multiple")
PACE = Pace(rounds=41, budget=8.0, batch=0.01)
LATENCIES = 20  # that a batch lasts at least, between hosts
GUIDELINES = Pace(rounds=21, budget=0.8, batch=0.002)
QUICK = Pace(rounds=7, budget=1.0, batch=0.001)

EPILOGUE = """\
works: {works}, growth. NAME=SIZE is one size (bytes of a block, messages, words).

Every variant fills what it sends and reads all that it received, in each repetition; before a work is measured,
what its variants read is compared. In each round every variant has its turn; a time is the slowest processor's.

--guidelines: {guided}.
NAME=0 is a number. They neither fill nor read what they send.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; returns the exit status: 0, 1 after a failure, 2 for wrong usage."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    study = _study()
    options = study.begin(arguments)
    try:
        _complete(options)
        if options.show:
            show(study, joined([_read(path) for path in options.show]))
            return 0
        return _measure(study, arguments)
    except BSPError as error:
        print(f"{study.prog}: {error}", file=sys.stderr)
        return 2
    except subprocess.CalledProcessError as error:
        print(f"{study.prog}: the ranks failed: exit status {error.returncode}", file=sys.stderr)
        return 1


def _study() -> Study:
    study = Study(
        "pybsp against raw mpi4py at the same work, interleaved in one run.",
        keep="--json",
        plot="it",
        quick="few sizes and rounds: to see that it works",
    )
    study.prog = "python -m pybsp.benchmarks.against_mpi"
    study.epilog = EPILOGUE.format(
        works=", ".join(dict.fromkeys(work.name for work in catalogue("all"))), guided=", ".join(guidelines.GUIDED)
    )
    study.add_argument(
        "-n", type=int, nargs="+", action="extend", metavar="P", help="processors, one run for each (default 2)"
    )
    study.add_argument("--only", nargs="+", action="extend", metavar="NAME[=SIZE]", help="these works (default: all)")
    study.add_argument(
        "--guidelines",
        action="store_true",
        help="not MPI: each collective against the same by send and sync, and by other collectives",
    )
    study.add_argument("--rounds", type=int, help=f"of each work (default {PACE.rounds}, quick: {QUICK.rounds})")
    study.add_argument("--seconds", type=float, help=f"that a work's rounds take at most (default {PACE.budget:g})")
    study.add_argument("--hosts", type=int, metavar="N", help="run on so many emulated hosts")
    study.add_argument("--ranks-per-host", type=int, default=1, metavar="R", help="ranks of each")
    study.add_argument("--latency", default="1ms", help="between the hosts, one way")
    study.add_argument("--rate", default="200mbit", help="of each host's line")
    study.add_argument(
        "--emulator",
        choices=EMULATORS,
        help="the script that PYBSP_CLUSTER names, or pybsp's own (default: the script where there is one)",
    )
    study.add_argument("--mpi", choices=tuple(FAMILIES), help="refuse to run with another MPI library")
    study.add_argument("--threads", choices=THREADS, help="what MPI is asked for, for both sides (default: as pybsp)")
    study.add_argument(
        "--show", nargs="+", action="extend", metavar="FILE", help="print what --json kept, of several runs together"
    )
    study.add_argument("--verbose", action="store_true", help="say what is being measured")
    return study


def _complete(options: argparse.Namespace) -> None:
    """Check options before anything is started; a UsageError where they do not fit."""
    for name in ("hosts", "rounds", "seconds", "ranks_per_host"):
        value = getattr(options, name)
        if value is not None and not 0 < value < math.inf:
            raise UsageError(f"--{name.replace('_', '-')}: expected a number above 0, got {value:g}")
    options.network = None
    if options.hosts is not None:
        latency, rate = parse_time(options.latency), parse_rate(options.rate)
        options.emulator = options.emulator or ("pybsp" if math.isinf(rate) else usual_emulator())
        if options.emulator == "script" and math.isinf(rate):
            raise UsageError("--rate unlimited: the script takes a rate; use --emulator pybsp")
        options.network = {
            "hosts": options.hosts,
            "ranks_per_host": options.ranks_per_host,
            "latency": latency,
            "rate": rate,
            "emulator": options.emulator,
        }
        p = options.hosts * options.ranks_per_host
        if options.n not in (None, [p]):
            raise UsageError(f"-n: {options.hosts} hosts with {options.ranks_per_host} ranks each are {p} processors")
        options.n = [p]
    options.n = options.n or [2]
    if min(options.n) < 1:
        raise UsageError(f"-n: expected numbers of at least 1, got {options.n}")
    if options.guidelines and options.plot is not None:
        raise UsageError("--plot: --guidelines are not drawn; leave one of them out")
    sizes = _sizes(options)
    options.works = chosen(options.only, list(guidelines.works(sizes)) if options.guidelines else catalogue(sizes))


def _sizes(options: argparse.Namespace) -> str:
    return "quick" if options.quick else "hosts" if options.network else "all"


def chosen(only: Sequence[str] | None, works: list[Work]) -> list[Work]:
    """Those of the works that are asked for; a UsageError where there is none of that name, or size."""
    if only is None:
        return works
    picked: list[Work] = []
    for text in only:
        name, _, size = text.partition("=")
        matching = [work for work in works if work.name == name and size in ("", str(work.size))]
        if not matching and text != GROWTH:
            known = dict.fromkeys(work.name for work in works)
            of_it = [str(work.size) for work in works if work.name == name]
            what = f"{name} of size {', '.join(of_it)}" if of_it else f"one of {', '.join(known)}, {GROWTH}"
            raise UsageError(f"--only: expected {what}, got {text}")
        picked += [work for work in matching if work not in picked]
    return sorted(picked, key=works.index)


def _measure(study: Study, arguments: Sequence[str]) -> int:
    options = study.options
    if under_launcher():
        run = on_these(options)
        if run is None:
            return 0
        runs = [run]
    else:
        runs = [started(p, options, arguments) for p in (options.n if options.works else [])]
    for run in runs:
        if "refused" in run:
            raise UsageError(run["refused"])
    growing = not options.guidelines if options.only is None else GROWTH in options.only
    grown = growth(options.quick) if growing else []
    content = joined([{"format": FORMAT, "runs": runs, "growth": grown}])
    show(study, content)
    study.end(content, lambda pyplot: plots.draw(pyplot, content))
    return 0


# -- ranks -------------------------------------------------------------------------------------------------------------


def started(p: int, options: argparse.Namespace, arguments: Sequence[str]) -> dict[str, Any]:
    """What p ranks find that are started for it."""
    network = None
    if options.network is not None:
        # The script's units are whole microseconds and Mbit/s.
        link = options.network
        network = EmulatedNetwork(
            link["hosts"],
            round(1e6 * link["latency"]),
            round(1e-6 * link["rate"]),
            link["ranks_per_host"],
            emulator=link["emulator"],
        )
    run: dict[str, Any] = on_ranks(asked, list(arguments), n=p, network=network)
    return run


def asked(arguments: list[str]) -> dict[str, Any] | None:
    """What the ranks of this job find that were started with some arguments; collective."""
    options = _study().parse_args(arguments)
    _complete(options)
    return on_these(options)


def on_these(options: argparse.Namespace) -> dict[str, Any] | None:
    """What the ranks of this job find; None on all but processor 0. Collective."""
    if options.threads is not None:
        import mpi4py

        mpi4py.rc.thread_level = options.threads
        importlib.import_module("mpi4py.MPI")  # before pybsp asks for anything
    return pybsp.run(program, options)


def program(bsp: pybsp.BSP, options: argparse.Namespace) -> dict[str, Any] | None:
    """Measure all works that are asked for; collective."""
    from mpi4py import MPI

    loaded = library()
    family = next((name for name in FAMILIES.values() if name in loaded), loaded)
    if options.mpi is not None and family != FAMILIES[options.mpi]:
        why = f"--mpi {options.mpi}: Python loads {loaded!r}; use a Python that has the other MPI library"
        return {"refused": why} if bsp.pid == 0 else None
    pace = QUICK if options.quick else GUIDELINES if options.guidelines else PACE
    # Ranks of several hosts begin a latency apart.
    batch = max(pace.batch, LATENCIES * options.network["latency"] if options.network else 0.0)
    pace = Pace(options.rounds or pace.rounds, options.seconds or pace.budget, batch)
    job = ComparisonJob(bsp, MPI.COMM_WORLD.Dup())
    begin = state(job)
    works = []
    for work in options.works:
        if options.verbose and bsp.pid == 0:
            print(work.title, file=sys.stderr, flush=True)
        works.append(measured(job, work, pace))
    states = {"begin": begin, "end": state(job)}
    job.comm.Free()
    if bsp.pid:
        return None
    names = {getattr(MPI, f"THREAD_{name.upper()}"): name for name in THREADS}
    run = {
        "p": bsp.p,
        "network": options.network,
        "library": loaded,
        "family": family,
        "threads": names[MPI.Query_thread()],
        "calibrated": getattr(bsp.machine, "calibrated", True),
        "guidelines": options.guidelines,
        "machine": machine(),
        "state": states,
        "works": works,
    }
    completed(run)
    return run


# -- what is computed from samples -------------------------------------------------------------------------------------


def completed(run: dict[str, Any]) -> None:
    """Add rates, bars, what is slower than a guideline has it, and costs over h to a run."""
    for row in run["works"]:
        if "skipped" in row:
            continue
        for variant in row["forms"].values():
            if row["sent"]:
                variant["bytes_per_second"] = row["sent"] / variant["median"]
            if row["items"]:
                variant["items_per_second"] = row["items"] / variant["median"]
        if COPY in row["forms"] and not run["network"]:
            ours = next(ratio for ratio in row["ratios"] if ratio["against"] == COPY)
            row["forms"][OURS]["of_memory"] = 1 / ours["median"]
        elif row["sent"] and not run["network"]:
            copies = run["state"]["begin"]["copy"]
            bandwidth = 1e9 * list(copies.values())[row["sent"] > 1 << 20]["all at once"]
            row["forms"][OURS]["of_memory"] = row["forms"][OURS]["bytes_per_second"] / bandwidth
        for ratio in row["ratios"]:
            if run["guidelines"]:
                ratio["slower"] = slower(*(row["forms"][ratio[key]]["samples"] for key in ("of", "against")))
                continue
            figure = figure_for(run, row["work"], row["size"], ratio["of"], ratio["against"])
            if figure is not None:
                ratio["bar"] = figure.most
                ratio["reached"] = ratio["median"] <= figure.most
    run["over_h"] = list(_over_h(run))


def _over_h(run: dict[str, Any]) -> Any:
    """Times and words to others, of what has several sizes."""
    p = run["p"]
    for row in run["works"]:
        raw = {"relation": BY_HAND, "blocks": ALLTOALLV}.get(row["work"])
        if raw is None or "skipped" in row or p == 1:
            continue
        ratio = next(ratio for ratio in row["ratios"] if ratio["against"] == raw)
        yield {
            "work": row["work"],
            "h": row["items"] * (p - 1) / p if row["items"] else row["sent"] / 8,
            "ours": row["forms"][OURS]["median"],
            "raw": row["forms"][raw]["median"],
            "ratio": ratio["median"],
        }


def joined(contents: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Several files' content as one, with the verdict on every figure."""
    runs = [run for content in contents for run in content["runs"]]
    grown: list[Any] = next((content["growth"] for content in contents if content["growth"]), [])
    about = []
    for figure in FIGURES:
        ratios = [
            {**ratio, "compiled": run["machine"]["compiled"]}
            for run in runs
            if (ratio := found(figure, run)) is not None
        ]
        parts = [f"p = {figure.p}", *([figure.family] if figure.family else []), *["fewer cores"] * figure.crowded]
        where = ", ".join(parts)
        if figure.hosts:
            link = [f"{1e3 * figure.latency:g} ms"] if figure.latency else []
            link += [f"{1e-6 * figure.rate:g} Mbit/s"] if figure.rate else []
            where = ", ".join([f"{figure.hosts} hosts", *link])
        about.append(
            {
                "work": figure.work,
                "size": figure.size,
                "against": figure.against,
                "where": where,
                "bar": figure.most,
                "command": figure.command,
                "found": ratios,
            }
        )
    return {"format": FORMAT, "runs": runs, "growth": grown, "figures": about}


def _read(path: str) -> dict[str, Any]:
    """A file that --json wrote."""
    return read_figures(path, "--show", lambda content: content.get("format") == FORMAT)
