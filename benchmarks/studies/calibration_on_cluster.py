"""Does a calibration find the network that is there? `pybsp calibrate` on emulated clusters of known latency and rate.

    python -m pybsp.benchmarks.studies.calibration_on_cluster FOLDER [--latencies 500 5000] [--rates 50] [--hosts 50=8]
    python -m pybsp.benchmarks.studies.calibration_on_cluster FOLDER --table

Every latency (microseconds) with every rate (Mbit/s), and latency 0 for what software takes, and several ranks a host:
a quarter of an hour, on a machine that does nothing else. Each leaves its machine file and raw samples in FOLDER, and
what is there is not measured again. `--table` measures nothing; `--again` analyses the raw samples anew, before.

    G_word      of long messages: 64 bits over the line rate, net of framing. Within 5 %.
    L           the interval, from R/2 - o_s - o_r to R/2, contains latency + c: c, what software and frames add, is the
                middle of the same interval at latency 0. `off` is how far outside the plain ends latency + c is.
    differences of L between two latencies, same rate and hosts: the latencies'. Within 5 %.
    held out    supersteps that nothing was fitted from: median of |relative error| 10 %, 95th percentile 25 %.
    g1          of E-BSP, zero within its interval, and BSP kept: a host's line does not know how many others send.
    classes     two ranks on each of two hosts: parameters within hosts and between them within 10 % of those of
                calibrations of two ranks on one host, and of one on each of two.

Above some 500 Mbit/s in all an emulated cluster measures the emulator; so there are fewer hosts where lines are faster.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

from rich.table import Table

from pybsp.benchmarks.calibration.analysis import analyse
from pybsp.benchmarks.calibration.estimates import Estimate
from pybsp.benchmarks.calibration.machine_file import read, write
from pybsp.benchmarks.calibration.results import Calibration, LogPFit
from pybsp.benchmarks.calibration.samples import read as read_samples
from pybsp.benchmarks.studies.emulator import FRAME, PAYLOAD
from pybsp.errors import BSPError

from .frame import EMULATORS, EmulatedNetwork, Study, bounded, run_program, table, timed

LATENCIES = (500, 1000, 3000, 5000)  # microseconds
RATES = (50, 200, 1000)  # Mbit/s
HOSTS = {50: 8, 200: 4, 1000: 2}  # by rate
CLASSES = (1000, 50)  # latency and rate of the runs with several ranks a host
RANKS = 2  # of each of 2 hosts, there
G_BAR, L_BAR, MEDIAN_BAR, P95_BAR, CLASS_BAR = 0.05, 0.05, 0.10, 0.25, 0.10
LIMIT = 900.0  # seconds for one launch, beside its budget
LAYERS = {"raw": "mpi4py", "logp": "our LogP layer"}


class Setting(NamedTuple):
    """One calibration: latency in microseconds, rate in Mbit/s."""

    latency: int
    rate: int
    hosts: int
    ranks: int = 1

    @property
    def name(self) -> str:
        """Of its files."""
        return f"l{self.latency}-b{self.rate}-n{self.hosts}-p{self.ranks}"

    @property
    def line(self) -> float:
        """Seconds a word, net of framing."""
        return 64 / (self.rate * 1e6) * FRAME / PAYLOAD

    def __str__(self) -> str:
        each = f" x {self.ranks}" if self.ranks > 1 else ""
        return f"{self.latency} us, {self.rate} Mbit/s, {self.hosts}{each}"


def series(latencies: Sequence[int], rates: Sequence[int], hosts: dict[int, int], classes: bool) -> list[Setting]:
    """All that is to be calibrated."""
    found = [Setting(latency, rate, hosts[rate]) for rate in rates for latency in (0, *latencies)]
    if classes:
        latency, rate = CLASSES
        found += [Setting(latency, rate, 2, RANKS), *one_class(latency, rate)]
    return list(dict.fromkeys(found))


def one_class(latency: int, rate: int) -> tuple[Setting, Setting]:
    """The ranks that a class has: those of one host, and one of each."""
    return Setting(latency, rate, 1, RANKS), Setting(latency, rate, 2)


# -- measuring ---------------------------------------------------------------------------------------------------------


def measure(setting: Setting, folder: Path, options: argparse.Namespace) -> str:
    """Calibrate; returns what went wrong, "" if nothing."""
    file = folder / f"{setting.name}.partial.json"
    for left in (file, file.with_suffix(".csv")):
        left.unlink(missing_ok=True)
    network = EmulatedNetwork(setting.hosts, setting.latency, setting.rate, setting.ranks, options.emulator)
    program = ["-m", "pybsp", "calibrate", "-o", str(file), "--seed", str(options.seed)]
    program += [] if options.level == "default" else [f"--{options.level}"]
    program += [] if options.budget is None else ["--budget", str(options.budget)]
    for launch in range(options.launches):
        resumed = ["--resume"] if launch else []
        try:
            run_program([*program, *resumed], network.p, network, LIMIT + (options.budget or 0))
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            return str(error)
    file.with_suffix(".csv").rename(folder / f"{setting.name}.csv")
    file.rename(folder / f"{setting.name}.json")
    return ""


def measure_all(settings: Sequence[Setting], folder: Path, options: argparse.Namespace) -> bool:
    """What is not there yet; returns whether all went well."""
    missing = [setting for setting in settings if not (folder / f"{setting.name}.json").exists()]
    well = True
    for number, setting in enumerate(missing, start=1):
        print(f"{number} of {len(missing)}: {setting}, load {os.getloadavg()[0]:.1f} ...", end=" ", flush=True)
        wrong, seconds = timed(partial(measure, setting, folder, options))
        well = well and not wrong
        print(f"{seconds:.0f} s {wrong}", flush=True)
    return well


def again(settings: Sequence[Setting], folder: Path) -> None:
    """Analyse the raw samples that are there anew."""
    for setting in settings:
        raw = folder / f"{setting.name}.csv"
        if raw.exists():
            write(analyse(read_samples(raw)), folder / f"{setting.name}.json")


# -- what was found ----------------------------------------------------------------------------------------------------


class Verdicts:
    """Counts what was met."""

    def __init__(self) -> None:
        self.met, self.missed = 0, 0

    def __call__(self, holds: bool, text: str = "") -> str:
        """The verdict, after a text."""
        self.met, self.missed = self.met + holds, self.missed + (not holds)
        return f"{text} {'met' if holds else 'MISSED'}".strip()


def signature(calibration: Calibration, layer: str, where: str = "") -> LogPFit | None:
    """The LogP fit of a layer."""
    return next((fit for fit in calibration.logp if (fit.layer, fit.where) == (layer, where)), None)


def both(found: dict[Setting, Calibration]) -> Iterator[tuple[str, Setting, LogPFit]]:
    """All settings with one rank a host, by layer."""
    for layer in LAYERS:
        for setting, calibration in found.items():
            fit = signature(calibration, layer)
            if fit is not None and setting.ranks == 1:
                yield layer, setting, fit


NS, US = 1e-9, 1e-6


def _table(title: str, head: str, rows: Iterable[Sequence[str]]) -> Table:
    """Rows may end before the last columns."""
    width = len(head.split(" | "))
    return table(title, head, ((*row, *[""] * (width - len(row))) for row in rows))


def show_logp(found: dict[Setting, Calibration], verdict: Verdicts) -> Table:
    """G_word against the line, L's interval against the latency."""
    rows = []
    for layer, setting, fit in both(found):
        row = [str(setting), LAYERS[layer], "-", f"{1e9 * setting.line:.1f}", "-"]
        if fit.G_word is not None:
            error = fit.G_word.value / setting.line - 1
            row[2], row[4] = bounded(fit.G_word, NS), verdict(abs(error) <= G_BAR, f"{error:+.1%}")
        row += [bounded(fit.L_low, US), bounded(fit.L_high, US)]
        base = found.get(setting._replace(latency=0))
        software = None if base is None else signature(base, layer)
        if setting.latency and software is not None:
            expected = 1e-6 * setting.latency + (software.L_low.value + software.L_high.value) / 2
            outside = max(fit.L_low.value - expected, expected - fit.L_high.value, 0.0) / expected
            row += [f"{1e6 * expected:.0f}", f"{outside:.1%}", verdict(fit.L_low.low <= expected <= fit.L_high.high)]
        rows.append(row)
    head = (
        "setting, hosts | layer | G_word, ns | line | 5 % | R/2 - o_s - o_r, us | to R/2 | latency + c | off | inside"
    )
    return _table("LogP: G and L (95 % intervals)", head, rows)


def show_differences(found: dict[Setting, Calibration], verdict: Verdicts) -> Table:
    """Differences of L between latencies, same rate and hosts."""
    rows = []
    for (layer, a, one), (other, b, two) in combinations(list(both(found)), 2):
        if layer != other or (a.rate, a.hosts) != (b.rate, b.hosts):
            continue
        true = 1e-6 * (b.latency - a.latency)
        error = (two.L.value - one.L.value) / true - 1
        trips = two.L_high.value - one.L_high.value
        row = [f"{a.rate} Mbit/s, {a.hosts}", LAYERS[layer], f"{b.latency} - {a.latency}"]
        row += [f"{1e6 * (two.L.value - one.L.value):.0f}", verdict(abs(error) <= L_BAR, f"{error:+.1%}")]
        rows.append([*row, f"{1e6 * trips:.0f}", f"{trips / true - 1:+.1%}"])
    head = "rate, hosts | layer | of latency, us | of L | 5 % | of R/2 | error"
    return _table("Differences of L", head, rows)


def show_bsp(found: dict[Setting, Calibration], verdict: Verdicts) -> Table:
    """How wrong predictions are; E-BSP."""
    rows = []
    for setting, calibration in found.items():
        if setting.ranks > 1 or calibration.bsp is None or calibration.held_out is None:
            continue
        fit, errors = calibration.bsp, calibration.held_out.all
        row = [str(setting), str(len(fit.segments))]
        row += [bounded(fit.l, US), bounded(fit.g, NS), f"{fit.g.value / setting.line - 1:+.1%}"]
        row.append(verdict(errors.median <= MEDIAN_BAR, f"{errors.median:.1%}"))
        row += [verdict(errors.p95 <= P95_BAR, f"{errors.p95:.1%}"), f"{errors.bias:+.1%}"]
        unbalanced = calibration.ebsp
        if unbalanced is not None and unbalanced.g1 is not None:
            zero = unbalanced.g1.low <= 0 <= unbalanced.g1.high
            model = "E-BSP" if unbalanced.kept else "BSP"
            row += [bounded(unbalanced.g1, NS), verdict(zero and not unbalanced.kept, f"{model} kept")]
        elif unbalanced is not None:
            row += ["refused", f"condition {unbalanced.condition:.0f}"]
        rows.append(row)
    head = "setting, hosts | segments | l, us | g, ns | over line | held out: median, 10 % | 95th, 25 % | bias"
    return _table("BSP and E-BSP", f"{head} | g1, ns | 0 in it", rows)


def show_classes(found: dict[Setting, Calibration], verdict: Verdicts) -> Table:
    """Parameters by class against those of one class alone."""
    rows = []
    for setting, calibration in found.items():
        if setting.ranks == 1 or setting.hosts == 1:
            continue
        alone = dict(zip(("intra", "inter"), one_class(setting.latency, setting.rate), strict=True))
        for where, other in alone.items():
            if other not in found:
                continue
            for name, mine, theirs in _pairs(calibration, found[other], where):
                error = mine.value / theirs.value - 1 if theirs.value else float("inf")
                unit = NS if name.split()[0] in ("g", "G_word") else US
                cell = verdict(abs(error) <= CLASS_BAR, f"{error:+.1%}")
                rows.append((str(setting), f"{where}: {name}", bounded(mine, unit), bounded(theirs, unit), cell))
    return _table("Two ranks a host", "setting, hosts | parameter | within or between | one class alone | 10 %", rows)


def _pairs(calibration: Calibration, alone: Calibration, where: str) -> Iterator[tuple[str, Estimate, Estimate]]:
    """Parameters of a class, and of a calibration that has no other."""
    if calibration.classes is not None and alone.bsp is not None and where in calibration.classes.fits:
        yield "g (supersteps)", calibration.classes.fits[where].g, alone.bsp.g
    for layer, name in LAYERS.items():
        mine, theirs = signature(calibration, layer, where), signature(alone, layer)
        if mine is None or theirs is None:
            continue
        yield f"R/2 ({name})", mine.L_high, theirs.L_high
        yield f"o ({name})", mine.o, theirs.o
        yield f"G ({name})", mine.G, theirs.G
        if mine.G_word is not None and theirs.G_word is not None:
            yield f"G_word ({name})", mine.G_word, theirs.G_word


def show(study: Study, settings: Sequence[Setting], folder: Path) -> None:
    """All tables, from the machine files that are there."""
    paths = {setting: folder / f"{setting.name}.json" for setting in settings}
    found = {setting: read(path) for setting, path in paths.items() if path.exists()}
    if not found:
        study.show(f"nothing in {folder}")
        return
    about, verdict = next(iter(found.values())).about, Verdicts()
    study.show(
        f"{len(found)} of {len(settings)} calibrations, level {about['level']}; {about['versions'].get('mpi', '')}"
    )
    for part in (show_logp, show_differences, show_bsp, show_classes):
        shown = part(found, verdict)
        if shown.row_count:
            study.show(shown)
    for setting, calibration in found.items():
        flags = sorted({flag.code for flag in calibration.all_flags()})
        study.show(f"{setting}: {', '.join(flags) or 'no flags'}")
    study.show(f"{verdict.met} met, {verdict.missed} missed")


def _hosts(text: str) -> tuple[int, int]:
    rate, _, hosts = text.partition("=")
    if not rate.isdecimal() or not hosts.isdecimal() or not 2 <= int(hosts) <= 64:
        raise argparse.ArgumentTypeError(f"expected RATE=HOSTS, hosts from 2 on, as in 50=8, got {text!r}")
    return int(rate), int(hosts)


def main() -> int:
    """Measure what is not there yet, and print all of it."""
    study = Study(__doc__)
    study.add_argument("folder", type=Path, help="of machine files and raw samples")
    study.add_argument("--latencies", type=int, nargs="+", default=LATENCIES, metavar="US", help="microseconds")
    study.add_argument("--rates", type=int, nargs="+", default=RATES, metavar="MBIT", help="Mbit/s")
    study.add_argument("--hosts", type=_hosts, nargs="+", metavar="RATE=N", help="default: 50=8 200=4 1000=2, others 2")
    study.add_argument("--no-classes", action="store_true", help="only one rank a host")
    study.add_argument("--level", choices=("quick", "default", "thorough"), default="quick")
    study.add_argument("--budget", type=float, help="seconds of each launch (default: the level's)")
    study.add_argument("--launches", type=int, default=1, help="of each calibration")
    study.add_argument("--seed", type=int, default=0)
    study.add_argument("--emulator", choices=EMULATORS, default="script")
    study.add_argument("--table", action="store_true", help="measure nothing")
    study.add_argument("--again", action="store_true", help="analyse the raw samples that are there anew, first")
    options = study.begin()
    hosts = {rate: HOSTS.get(rate, 2) for rate in options.rates} | dict(options.hosts or ())
    settings = series(options.latencies, options.rates, hosts, not options.no_classes)
    options.folder.mkdir(parents=True, exist_ok=True)
    try:
        if options.again:
            again(settings, options.folder)
        well = options.table or measure_all(settings, options.folder, options)
        show(study, settings, options.folder)
    except BSPError as error:
        print(f"calibration_on_cluster: {error}", file=sys.stderr)
        return 2
    return int(not well)


if __name__ == "__main__":
    sys.exit(main())
