"""How wrong are the parameters that each method makes of the same samples, and what it predicts by them?

    python -m pybsp.benchmarks.studies.calibration_methods                    synthetic samples, and virtual processors
    python -m pybsp.benchmarks.studies.calibration_methods RAW.csv [--g 4e-8] what `pybsp calibrate` measured

Ours, bspbench's and BSPonMPI's (fits/methods.py), on the points of the default level for 4 processors: errors of l,
o_msg and g against the truth, then the median and the 95th percentile of |relative error| of supersteps that nothing
was fitted from. bspbench's g contains what a one-word message costs, so that its error is large wherever o_msg is.
Of a raw file the truth of g is known where --g says it (seconds a word), of l and o_msg it is not; the errors of
predictions are against the medians measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from statistics import median
from typing import Any, NamedTuple

import pybsp
from pybsp.errors import UsageError

from ..calibration.design import all_points
from ..calibration.fits import bsp as ours
from ..calibration.fits.methods import METHODS
from ..calibration.samples import Point, Sample, read
from ..calibration.sampling import sampling_level
from ..calibration.supersteps import Bench
from .frame import Study, table
from .theory.synthetic import Noise, SyntheticSupersteps, noisy

P = 4
MACHINE = pybsp.BSPMachine(p=P, l=1e-4, o_msg=5e-6, g=1e-8, r=1e9)
NOISE = Noise(sigma=0.05, batch=0.02, launch=0.01, spikes=0.02, launches=3, batches=6, samples=5)
Predict = Callable[[float, float], float]  # h, messages


class Estimated(NamedTuple):
    """What a method estimates from samples."""

    l: float  # noqa: E741 - the model's own name
    o_msg: float
    g: float
    predict: Predict


class Case(NamedTuple):
    """Samples of a machine, and what is known of it (by name: l, o_msg, g)."""

    name: str
    samples: list[Sample]
    truth: dict[str, float]


def points() -> list[Point]:
    """Those from which parameters are fitted, and others."""
    return [point for point in all_points(P, "default") if point.experiment in ("bsp", "held-out")]


def synthetic(name: str, machine: SyntheticSupersteps, noise: Noise) -> Case:
    """Supersteps of a model, with noise; g is that of large messages."""
    truth = {"l": machine.l, "o_msg": machine.o_msg, "g": machine.large[1] or machine.g}
    return Case(name, noisy({point: machine.time(point) for point in points()}, noise), truth)


def virtual() -> Case:
    """Measured on virtual processors."""

    def main(bsp: Any) -> list[Sample]:
        bench = Bench(bsp, sampling_level("quick"))
        return [sample for point in points() for sample in bench.measure(point, 0)]

    samples: list[Sample] = pybsp.simulate(main, p=P, machine=MACHINE).results[0]
    return Case("virtual processors", samples, {"l": MACHINE.l, "o_msg": MACHINE.o_msg, "g": MACHINE.g})


def estimated(samples: Sequence[Sample]) -> dict[str, Estimated | None]:
    """By each method; None where it cannot be applied."""
    found: dict[str, Estimated | None] = {}
    supersteps = [sample for sample in samples if sample.point.experiment == "bsp"]
    fit = ours.fit_bsp(supersteps, [])
    if fit is not None:
        found["ours"] = Estimated(
            fit.l.value, fit.o_msg.value, fit.g.value, lambda h, messages: ours.predict(fit, h, messages)
        )
    for name, method in METHODS.items():
        try:
            figures = method(supersteps)
        except UsageError:
            found[name] = None
            continue
        line = (figures["l"], figures["o_msg"], figures["g"])
        found[name] = Estimated(*line, partial(straight, *line))
    return found


def straight(l: float, o_msg: float, g: float, h: float, messages: float) -> float:  # noqa: E741
    """Seconds of a superstep by one line."""
    return l + o_msg * messages + g * h


def errors(samples: Sequence[Sample], predict: Predict) -> tuple[float, float] | None:
    """Median and 95th percentile of |relative error| of the held-out points."""
    times: dict[Point, list[float]] = {}
    for sample in samples:
        if sample.point.experiment == "held-out":
            times.setdefault(sample.point, []).append(sample.seconds)
    if not times:
        return None
    of = ours.errors([predict(q.h, q.busiest) for q in times], [median(values) for values in times.values()])
    return of.median, of.p95


def rows(case: Case) -> Iterator[tuple[str, ...]]:
    """Cells of the table, a row for each method."""
    for name, one in estimated(case.samples).items():
        if one is None:
            yield case.name, name, *["-"] * 5
            continue
        off_truth = (
            percent(getattr(one, part) / case.truth[part] - 1, "+") if part in case.truth else "-"
            for part in ("l", "o_msg", "g")
        )
        held_out = errors(case.samples, one.predict)
        yield case.name, name, *off_truth, *(map(percent, held_out) if held_out else ["-"] * 2)


def percent(error: float, sign: str = "-") -> str:
    """A relative error; a large one as a multiple of what it is relative to."""
    return f"{error:{sign}.1%}" if abs(error) < 10 else f"{error:{sign}.0f} times"


def cases() -> list[Case]:
    """Synthetic ones and virtual processors."""
    plain = SyntheticSupersteps(l=1e-4, o_msg=5e-6, g=1e-8)
    regimes = SyntheticSupersteps(l=1e-4, o_msg=2e-6, g=3e-8, packed=16384, large=(4e-5, 1e-8))
    return [
        synthetic("a line, no noise", plain, Noise()),
        synthetic("a line, noise", plain, NOISE),
        synthetic("two regimes, no noise", regimes, Noise()),
        synthetic("two regimes, noise", regimes, NOISE),
        virtual(),
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    study = Study(__doc__)
    study.add_argument("raw", nargs="*", help="raw samples of `pybsp calibrate`")
    study.add_argument("--g", type=float, help="true seconds a word of the machine that the raw samples are of")
    options = study.begin(arguments)
    truth = {} if options.g is None else {"g": options.g}
    found = [Case(path, read(path).samples, truth) for path in options.raw] or cases()
    title = "errors of the parameters, and of predictions of held-out supersteps"
    lines = [row for case in study.each(found) for row in rows(case)]
    study.show(table(title, "samples | method | l | o_msg | g | median | p95", lines))


if __name__ == "__main__":
    main()
