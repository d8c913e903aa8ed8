"""The run of a calibration: which visit comes next, until when; what came is on disk at once.

A *launch* is one mpiexec, or one set of virtual machines. It has sections, one after another: supersteps (a BSP
program), raw mpi4py, our LogP layer (a LogP program), and at the end the reference superstep once more. In each,
processor 0 says which point all visit next, so that only it must know what was sampled before, when time is up, and
where the samples go. Rounds of visits in shuffled order go on until every point has converged, or time is up.

What a raw file holds beside samples: its first line as placement.py says, and these events:

    launch          begins: number, "resumed" (whether it goes on with one that was interrupted), when (UTC), load
    pilot           "slow": points that the level cannot afford; "trips-raw", "trips-logp": round trips that the
                    delays of trains are made of
    not-converged   of a launch: points whose interval stayed wider than asked for, as [experiment, pattern, layer,
                    where, size, messages]
    not-measured    of a launch: points that no time was left for
    unsteady        supersteps still drifted when warming up was given up
    ended           a launch, with "seconds" that it took
    interrupted     by Ctrl-C, or a launch that failed, where there was time left to say so
    finished        the last launch has ended
"""

from __future__ import annotations

import math
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import pybsp
from pybsp.errors import LauncherError, UsageError
from pybsp.ground import settings
from pybsp.ground.versions import now
from pybsp.logp.processor import Processor
from pybsp.machines.bsp import BSPMachine
from pybsp.machines.ebsp import EBSPMachine
from pybsp.machines.logp import LogPMachine
from pybsp.transport.launcher import load

from . import design, placement, signature
from .layers import Layer, LogPLayer, RawLayer
from .samples import Point, Raw, Sample, Writer, read
from .sampling import LEVELS, PointProgress, SamplingLevel, sampling_level
from .supersteps import Bench

if TYPE_CHECKING:
    from mpi4py import MPI

PARTS = (*(part for part in design.PARTS if part != "repeat"), *signature.LAYERS)  # what --only takes
SECONDS = {"quick": 45.0, "default": 240.0, "thorough": 1200.0}  # of measuring, all launches together
LAUNCHES = {"quick": 1, "default": 3, "thorough": 5}
SHARES = {"supersteps": 3.0, "raw": 1.0, "logp": 1.0}  # of a launch's time
LAST = 3  # visits to the reference at the end of a launch
WORD = 8

Tell = Callable[[float, float], None]  # the part that is done, seconds left


@dataclass(frozen=True)
class LaunchSpec:
    """What a launch is to do; equal on all processors.

    Args:
        raw: the raw file; only processor 0 opens it.
        launch: its number, from 0.
        launches: how many there are to be.
        level: "quick", "default" or "thorough".
        only: of PARTS; all where empty.
        word: bytes that sizes of messages are multiples of.
        seed: of orders, and of the analysis.
        budget: seconds for all launches, as asked for; None: the level's.
        seconds: for this launch.
        goes_on: with a raw file that is there, instead of beginning one.
        router: which carries the supersteps.
    """

    raw: str
    launch: int = 0
    launches: int = 1
    level: str = "default"
    only: tuple[str, ...] = ()
    word: int = WORD
    seed: int = 0
    budget: float | None = None
    seconds: float = math.inf
    goes_on: bool = False
    router: str = "direct"

    def __post_init__(self) -> None:
        object.__setattr__(self, "only", tuple(self.only))  # JSON has lists
        for name, value, good, expected in (
            ("level", self.level, self.level in LEVELS, f"one of {', '.join(LEVELS)}"),
            ("only", ", ".join(self.only), set(self.only) <= set(PARTS), f"some of {', '.join(PARTS)}"),
            ("word", self.word, type(self.word) is int and self.word >= 1, "bytes, a whole number of at least 1"),
            ("budget", self.budget, self.budget is None or self.budget > 0, "seconds, above 0"),
            ("launches", self.launches, self.launches >= 1, "a whole number of at least 1"),
        ):
            if not good:
                raise UsageError(f"calibrate: argument {name}: expected {expected}, got {value!r}")

    @property
    def layers(self) -> tuple[str, ...]:
        """Those that a LogP signature is taken of."""
        return tuple(layer for layer in signature.LAYERS if not self.only or layer in self.only)

    def points(self, p: int, nodes: Sequence[int]) -> list[Point]:
        """The points of the supersteps' section; only the reference where no supersteps are asked for."""
        parts = [part for part in self.only if part in design.PARTS]
        return design.all_points(p, self.level, parts or (["repeat"] if self.only else ()), self.word, nodes, self.seed)

    def requested(self) -> dict[str, Any]:
        """What must be equal in a raw file that this goes on with."""
        return {"level": self.level, "only": list(self.only), "word": self.word, "seed": self.seed}


class Keeper:
    """What processor 0 knows of a launch: the samples so far, what is to be visited next, and until when.

    Args:
        job: what is to be done.
        about: of the job's processors; see placement.py.
        resumed: the raw file as it is, where this goes on with it.
        tell: is called with the progress.
    """

    def __init__(
        self, job: LaunchSpec, about: dict[str, Any], resumed: Raw | None = None, tell: Tell | None = None
    ) -> None:
        self.job, self.about, self._tell = job, about, tell
        self.sampling_level = sampling_level(job.level)
        self._writer: Writer | None = None
        self._resumed = resumed
        self._virtual = bool(about["virtual"])
        self._progress: dict[Point, PointProgress] = {}
        self._visits: Counter[Point] = Counter()
        self._pilot: dict[str, Any] = {}
        self._missed: list[Point] = []
        self._already = 0.0  # seconds of this launch before it was interrupted
        if resumed is not None:
            self._remember(resumed)
        self._latest = self._already
        self._begun = time.perf_counter()
        sections = ["supersteps", *(job.layers if about["p"] > 1 else ())]
        shares = [SHARES[name] for name in sections]
        ends = np.cumsum(shares) / sum(shares) * job.seconds
        self._until = dict(zip(sections, ends.tolist(), strict=True))

    def _remember(self, raw: Raw) -> None:
        """What was sampled before."""
        for event in raw.events:
            if event.get("event") == "pilot":
                self._pilot.update(event)
        visits: dict[tuple[Point, int], list[Sample]] = {}
        for sample in raw.samples + [one for one in raw.exchanges if one.point.experiment in design.ALONE]:
            if sample.launch == self.job.launch:
                visits.setdefault((sample.point, sample.batch), []).append(sample)
                self._already = max(self._already, sample.at)
        for (point, _), visit in visits.items():
            self._add(point, visit)

    def elapsed(self) -> float:
        """Seconds of this launch; of virtual machines, the latest that was seen."""
        return self._latest if self._virtual else self._already + self.spent()

    def spent(self) -> float:
        """Seconds since this process began to measure; on virtual machines none."""
        return 0.0 if self._virtual else time.perf_counter() - self._begun

    def open(self, timer: tuple[float, float]) -> None:
        """Begin the raw file, or go on with it."""
        job = self.job
        if self._resumed is None:
            limits = {"launches": job.launches, "budget": job.budget}
            clock = {"overhead": timer[0], "resolution": timer[1]}
            self._writer = Writer(job.raw, {**self.about, "timer": clock, **job.requested(), **limits})
        else:
            self._writer = Writer(job.raw, None)
        self.event(
            "launch",
            number=job.launch,
            resumed=bool(self._visits),
            date=now(),
            load=self.about["load"],
        )

    @property
    def is_open(self) -> bool:
        """Whether there is a raw file."""
        return self._writer is not None

    def event(self, event: str, **more: Any) -> None:
        """Note something in the raw file."""
        assert self._writer is not None
        self._writer.event(event, **more)

    def piloted(self, name: str, find: Callable[[], Any]) -> Any:
        """What the first launch learned before it began, so that all launches visit the same points."""
        if name not in self._pilot:
            self._pilot[name] = find()
            self.event("pilot", **{name: self._pilot[name]})
        return self._pilot[name]

    def took(self, point: Point, samples: Sequence[Sample]) -> None:
        """What a visit gave: to disk, and into the account."""
        assert self._writer is not None
        self._writer.write(samples)
        self._add(point, [sample for sample in samples if sample.point == point])
        self._latest = max(self._latest, *(sample.at for sample in samples))

    def _add(self, point: Point, samples: Sequence[Sample]) -> None:
        self._visits[point] += 1
        self._progress.setdefault(point, PointProgress(self.sampling_level)).add(samples)

    def visits(self, section: str, points: Sequence[Point]) -> Iterator[tuple[Point, int]]:
        """Points to be visited and the number of the visit, until all have converged or the section's time is up.

        Args:
            section: whose time it is.
            points: of the section; "repeat" points are in every round as long as there are others.
        """
        begun = self.spent()
        first = self.job.budget is None  # without a budget the first round of a level is always whole
        while left := [point for point in points if point.experiment != "repeat" and not self._done(point)]:
            left += [point for point in points if point.experiment == "repeat"]
            # A number that no earlier round of this launch has: what was visited only grows.
            for point in design.order(left, self.job.seed, self.job.launch, sum(self._visits.values())):
                if not first and self.spent() > self._until[section]:
                    missed = (point for point in points if not self._visits[point])
                    self._missed += [point for point in missed if point.experiment != "repeat"]
                    return
                yield point, self._visits[point]
                self._say(section, points, begun)
            first = False

    def again(self, points: Sequence[Point]) -> Iterator[tuple[Point, int]]:
        """Visits to these points, one after another."""
        for point in points:
            yield point, self._visits[point]

    def _done(self, point: Point) -> bool:
        return point in self._progress and self._progress[point].done

    def _say(self, section: str, points: Sequence[Point], begun: float) -> None:
        """Tell how far it is: as far as samples of this section go, or as its time does."""
        if self._tell is None:
            return
        done = sum(self._part(point) for point in points) / len(points)
        spent, until = self.spent() - begun, self._until[section]
        left = min(max(until - begun - spent, 0.0), spent * (1 / max(done, 1e-3) - 1))
        done = max(done, min(1.0, spent / max(until - begun, 1e-9)))
        before = until - SHARES[section] / sum(SHARES[name] for name in self._until) * self.job.seconds
        whole = self.job.seconds
        self._tell((before + done * (until - before)) / whole, left + whole - until)

    def _part(self, point: Point) -> float:
        progress = self._progress.get(point)
        if progress is None or point.experiment == "repeat":
            return float(progress is not None)
        return 1.0 if progress.done else len(progress.values) / self.sampling_level.most

    def end(self) -> None:
        """The launch has ended well."""
        open_ones = [p for p, found in self._progress.items() if not found.converged and p.experiment != "repeat"]
        self.event("not-converged", launch=self.job.launch, points=[point.short for point in open_ones])
        self.event("not-measured", launch=self.job.launch, points=[point.short for point in self._missed])
        self.event("ended", launch=self.job.launch, seconds=round(self.elapsed(), 3))

    def close(self) -> None:
        """Close the raw file."""
        if self._writer is not None:
            self._writer.close()


# -- sections: all processors; `keeper` is None but on processor 0 -----------------------------------------------------


def supersteps(
    bsp: pybsp.BSP, job: LaunchSpec, nodes: Sequence[int], keeper: Keeper | None, last: bool = False
) -> None:
    """Supersteps and kernels, or at the end of a launch the reference alone. Collective."""
    bench = Bench(bsp, sampling_level(job.level), job.launch, nodes)
    shift = keeper.elapsed() - bsp.time() if keeper is not None else 0.0
    points: Sequence[Point] = []
    if not last:
        if keeper is not None:
            keeper.open(bench.timer)
        planned = job.points(bsp.p, nodes)
        if not bench.timer.runs:  # no way has a cost of its own on virtual processors
            planned = [point for point in planned if point.experiment not in design.ALONE]
        if not bench.warm() and keeper is not None:
            keeper.event("unsteady", launch=job.launch)
        bench.pilot()
        points, slow = bench.affordable(planned)
        if keeper is not None:
            left_out = keeper.piloted("slow", lambda: [list(point.short) for point in slow])
            points = [point for point in planned if list(point.short) not in left_out]
    elif keeper is not None:
        reference = [point for point in job.points(bsp.p, nodes) if point.experiment == "repeat"]
        points = reference * LAST
    visits: Iterator[tuple[Point, int]] = iter(())
    if keeper is not None:
        visits = keeper.again(points) if last else keeper.visits("supersteps", points)
    while True:
        visit: tuple[Point, int] | None = from_first(bsp, next(visits, None))
        if visit is None:
            return
        samples = bench.measure(*visit)
        if keeper is not None:
            both = samples + bench.exchanged
            keeper.took(visit[0], [sample._replace(at=sample.at + shift) for sample in both])


def from_first(bsp: pybsp.BSP, value: Any) -> Any:
    """Processor 0's value, on all; a superstep."""
    if bsp.p == 1:
        return value
    if bsp.pid == 0:
        for dest in range(1, bsp.p):
            bsp.send(dest, value)
    bsp.sync()
    return value if bsp.pid == 0 else bsp.inbox[0].payload


def logp(layer: Layer, job: LaunchSpec, keeper: Keeper | None) -> None:
    """The LogP signature of a layer. Collective."""
    level = sampling_level(job.level)
    if layer.p == 1:
        return
    begin = layer.clock() - (keeper.elapsed() if keeper is not None else 0.0)
    found = _known(layer, keeper, level, job)
    points: list[Point] = []
    if keeper is not None:
        points = signature.points(layer.p, job.level, layer.nodes, job.word, layer.name, found, longest=level.visit)
    visits: Iterator[tuple[Point, int]] = keeper.visits(layer.name, points) if keeper is not None else iter(())
    while True:
        visit = _shared(layer, next(visits, None))
        if visit is None:
            return
        samples = signature.measure(layer, visit[0], level, job.launch, visit[1], begin)
        if keeper is not None:
            keeper.took(visit[0], samples)


def _known(layer: Layer, keeper: Keeper | None, level: SamplingLevel, job: LaunchSpec) -> dict[str, dict[int, float]]:
    """Round trips, as the first launch found them; processor 0's are what counts."""
    trips = signature.pilot(layer, level, job.word)
    if keeper is None:
        return trips
    first: dict[str, dict[str, float]] = keeper.piloted(
        f"trips-{layer.name}", lambda: {where: {str(size): s for size, s in of.items()} for where, of in trips.items()}
    )
    return {where: {int(size): seconds for size, seconds in of.items()} for where, of in first.items()}


def _shared(layer: Layer, value: tuple[Point, int] | None) -> tuple[Point, int] | None:
    """Processor 0's value, on all."""
    if layer.pid == 0:
        for dest in range(1, layer.p):
            layer.tell(dest, value)
        return value
    visit: tuple[Point, int] | None = layer.hear(0)
    return visit


# -- a launch ----------------------------------------------------------------------------------------------------------


def launch_on_ranks(job: LaunchSpec, tell: Tell | None = None) -> None:
    """One launch on the MPI ranks of this job; the samples are in the raw file, which processor 0 writes. Collective.

    Raises:
        UsageError: the raw file that this is to go on with is one of another calibration; on processor 0, and
            ProcessorError on the others.
        LauncherError: there is no MPI library, or it does not belong to the launcher.
    """
    ignore_settings()
    found: list[Any] = []

    def opening(bsp: pybsp.BSP) -> None:
        comm = _communicator()
        about = placement.of_job(comm)
        found.extend((comm, about, Keeper(job, about, to_resume(job, about), tell) if bsp.pid == 0 else None))

    pybsp.run(opening)
    comm, about, keeper = found
    nodes = about["nodes"]
    unknown = BSPMachine.nominal(about["p"])  # what an earlier calibration found changes nothing here

    def program(proc: Processor) -> None:
        logp(LogPLayer(proc, nodes), job, keeper)

    with _recording(keeper):
        pybsp.run(supersteps, job, nodes, keeper, machine=unknown, router=job.router)
        if "raw" in job.layers:
            logp(RawLayer(comm, nodes), job, keeper)
        if "logp" in job.layers and about["p"] > 1:
            # Without flow control: it would be by parameters that are only being looked for.
            pybsp.logp.run(program, machine=LogPMachine.nominal(about["p"]), capacity=None)
        pybsp.run(supersteps, job, nodes, keeper, True, machine=unknown, router=job.router)
    comm.Free()


def ignore_settings(but: Sequence[str] = ()) -> None:
    """What the environment says of runs is for programs, not for what is measured here: no ledger, checkpoint or trace.

    How long to wait for others, and what to say meanwhile, holds here too; so do the variables `but`.
    """
    for variable in {*settings.OF_RUN} - {settings.GRACE, settings.WARN_AFTER, settings.REPORT_SIGNAL, *but}:
        os.environ.pop(variable, None)


def launch_on_virtual(
    job: LaunchSpec,
    machine: BSPMachine | EBSPMachine,
    logp_machine: LogPMachine | None = None,
) -> None:
    """One launch on virtual processors: supersteps on `machine`, the LogP layer on `logp_machine` if there is one.

    Deterministic; time is virtual, so no budget ever ends it.

    Raises:
        UsageError: as of `launch_on_ranks`.
    """
    about = placement.of_virtual(machine.p)
    keeper = Keeper(job, about, to_resume(job, about))

    def mine(pid: int) -> Keeper | None:
        return keeper if pid == 0 else None

    def main(bsp: pybsp.BSP, last: bool) -> None:
        supersteps(bsp, job, about["nodes"], mine(bsp.pid), last)

    def program(proc: Processor) -> None:
        logp(LogPLayer(proc), job, mine(proc.pid))

    with _recording(keeper):
        pybsp.simulate(main, False, machine=machine, checked=False)
        if logp_machine is not None and "logp" in job.layers:
            pybsp.logp.simulate(program, machine=logp_machine)
        pybsp.simulate(main, True, machine=machine, checked=False)


def finish(raw: str) -> None:
    """Note that the last launch has ended."""
    writer = Writer(raw, None)
    writer.event("finished")
    writer.close()


def to_resume(job: LaunchSpec, about: dict[str, Any]) -> Raw | None:
    """The raw file that a launch goes on with, if any; a UsageError where it is of another calibration."""
    if not job.goes_on:
        return None
    raw = read(job.raw)
    here = {"p": about["p"], "nodes": about["nodes"], "virtual": about["virtual"], **job.requested()}
    other = {name: raw.about.get(name) for name, value in here.items() if raw.about.get(name) != value}
    if other:
        raise UsageError(
            f"calibrate: {job.raw} holds samples of another calibration: {_listed(other)}; here "
            f"{_listed({name: here[name] for name in other})}; begin another file (-o), or ask for the same"
        )
    return raw


def _listed(values: dict[str, Any]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in values.items())


@contextmanager
def _recording(keeper: Keeper | None) -> Iterator[None]:
    """Record in the raw file how a launch ended, and close it."""
    try:
        yield
        if keeper is not None:
            keeper.end()
    except BaseException as error:
        if keeper is not None and keeper.is_open:
            with suppress(UsageError):  # where nothing can be written, which the error says
                keeper.event("interrupted", launch=keeper.job.launch, why=type(error).__name__)
        raise
    finally:
        if keeper is not None:
            keeper.close()


def _communicator() -> MPI.Intracomm:
    """All ranks of the job, apart from what pybsp sends; a LauncherError where there is no MPI library."""
    try:
        comm: MPI.Intracomm = load().COMM_WORLD.Dup()
    except (ImportError, RuntimeError) as error:
        raise LauncherError(
            f"calibrate: no MPI library can be loaded ({error}); pip install mpich brings one"
        ) from None
    return comm
