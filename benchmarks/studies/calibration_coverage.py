"""Do the calibration's 95 % intervals cover the truth in 95 % of cases? On synthetic samples, whose truth is known.

    python -m pybsp.benchmarks.studies.calibration_coverage                 2,000 data sets of each kind; minutes
    python -m pybsp.benchmarks.studies.calibration_coverage --sets 200      a rough look
    python -m pybsp.benchmarks.studies.calibration_coverage --of logp       LogP's parameters alone

Each data set is a whole calibration at the quick level: launches of batches of 5 samples, with log-normal noise of each
sample and batch, late samples, and launches that differ: in l, o_msg and g each by itself, of LogP in all points alike.
It is fitted as `pybsp calibrate` fits, and the share of the sets is counted whose interval contains the truth; of l,
o_msg and g also by drawing launches, then batches, with replacement, as one would with many launches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from ..calibration.design import all_points
from ..calibration.estimates import Estimate
from ..calibration.fits.bootstrap import Table
from ..calibration.fits.bsp import design_of, fit_supersteps
from ..calibration.fits.least_squares import relative
from ..calibration.fits.logp import fit_logp
from .frame import Study, cells, table
from .theory.synthetic import LogGP, Noise, logp_points, noisy, played

Array = npt.NDArray[np.float64]

P = 4
TRUTH = {"l": 1e-4, "o_msg": 5e-6, "g": 1e-8}
noise_of = partial(Noise, sigma=0.05, batch=0.03, spikes=0.01, samples=5)
KINDS = (
    noise_of(batches=5),
    noise_of(batches=20),
    noise_of(launches=3, batches=5),
    noise_of(launches=3, batches=5, launch=0.01),
    noise_of(launches=3, batches=5, launch=0.05),
    noise_of(launches=5, batches=8, launch=0.01),
)

# LogP.
LOGP_MACHINE = LogGP(L=50e-6, o_s=2e-6, o_r=3e-6, g=5e-6, G_word=1e-8, eager_limit=65536)
LOGP_SIZES = (8, 4096, 65536, 131072, 1048576)
LOGP_TRUTH = {"L": 50e-6, "L_high": 55e-6, "o_s": 2e-6, "o_r": 3e-6, "o": 2.5e-6, "G": 5e-6, "G_word": 1e-8}
logp_noise = partial(noise_of, batch=0.02)
LOGP_KINDS = (
    logp_noise(batches=6),
    logp_noise(batches=20),
    logp_noise(launches=3, batches=6),
    logp_noise(launches=3, batches=6, launch=0.02),
    logp_noise(launches=5, batches=6, launch=0.02),
)


def batch_medians(design: Array, truth: Array, noise: Noise, rng: np.random.Generator) -> Array:
    """One data set: seconds, (points, launches, batches); `noise.spike` is the mean of delays, over the superstep."""
    shape = (len(design), noise.launches, noise.batches, noise.samples)
    parts = truth * np.exp(noise.launch * rng.standard_normal((noise.launches, len(truth))))
    exact = (design @ parts.T)[:, :, None, None]
    slow = np.exp(noise.batch * rng.standard_normal((*shape[:3], 1)) + noise.sigma * rng.standard_normal(shape))
    late = (rng.random(shape) < noise.spikes) * rng.exponential(noise.spike, shape)
    found: Array = np.median(exact * (slow + late), axis=-1)
    return found


def coverage(noise: Noise, sets: int, seed: int = 0, compare: bool = True) -> tuple[dict[str, float], dict[str, float]]:
    """Shares of the data sets whose intervals contain l, o_msg, g: ours, and (0 unless compared) by drawing them."""
    chosen = [point for point in all_points(P, "quick") if point.experiment == "bsp"]
    design, truth = design_of(chosen), np.array(list(TRUTH.values()))
    rng = np.random.default_rng(seed)
    ours, theirs = np.zeros(3), np.zeros(3)
    for number in range(sets):
        table = Table(tuple(chosen), batch_medians(design, truth, noise, rng))
        fit = fit_supersteps(table, seed=number)
        if fit is not None:
            ours += list(map(contains, (fit.l, fit.o_msg, fit.g), truth))
        if compare:
            low, high = drawn_launches(design, table, rng)
            theirs += (low <= truth) & (truth <= high)
    found = (dict(zip(TRUTH, (counts / sets).tolist(), strict=True)) for counts in (ours, theirs))
    return next(found), next(found)


def contains(estimate: Estimate, value: float) -> bool:
    """Whether the interval has the value."""
    return estimate.low <= value <= estimate.high


def drawn_launches(design: Array, table: Table, rng: np.random.Generator, replicates: int = 200) -> tuple[Array, Array]:
    """Ends of the interval of l, o_msg and g with launches, then batches, drawn with replacement."""
    batches = table.batches
    count, length = batches.shape[1:]
    launch = rng.integers(count, size=(replicates, 1, count, 1))
    batch = rng.integers(length, size=(replicates, len(design), count, length))
    medians = np.median(batches[np.arange(len(design))[None, :, None, None], launch, batch], axis=-1)
    found = relative(np.repeat(design, count, axis=0), medians.reshape(replicates, -1))
    low, high = np.quantile(found, (0.025, 0.975), axis=0)
    return low, high


def logp_coverage(noise: Noise, sets: int, seed: int = 0) -> tuple[dict[str, float], dict[str, float]]:
    """Shares of the data sets whose interval has the truth, and the intervals' median width relative to the truth."""
    times = {point: played(LOGP_MACHINE, point) for point in logp_points(LOGP_MACHINE, LOGP_SIZES)}
    hits: Counter[str] = Counter()
    widths: dict[str, list[float]] = {name: [] for name in LOGP_TRUTH}
    for number in range(sets):
        fit = fit_logp(noisy(times, noise, seed + number), "raw", seed=seed + number)
        if fit is None:
            continue
        for name, truth in LOGP_TRUTH.items():
            estimate = getattr(fit, name)
            hits[name] += estimate is not None and contains(estimate, truth)
            widths[name].append(estimate.width)
    return {name: hits[name] / sets for name in LOGP_TRUTH}, {name: float(np.median(w)) for name, w in widths.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    study = Study(__doc__)
    study.add_argument("--sets", type=int, default=2000, help="data sets of each kind")
    study.add_argument("--seed", type=int, default=0)
    study.add_argument("--of", choices=("bsp", "logp"), help="one of the two models; both where it is not given")
    options = study.begin(arguments)
    title = f"95 % intervals that contain the truth{{}}, of {options.sets} data sets"
    head = "launches | batches | launches differ by [.0%]"
    if options.of != "logp":
        rows: list[tuple[object, ...]] = []
        for kind in study.each(KINDS):
            both = coverage(kind, options.sets, options.seed)
            shares = (f"{100 * share:.1f} %" for found in both for share in found.values())
            rows.append((kind.launches, kind.batches, kind.launch, *shares))
        study.show(table(title.format(""), cells((head, *TRUTH, *(f"{name}, drawn" for name in TRUTH))), rows))
    if options.of != "bsp":
        rows = []
        for kind in study.each(LOGP_KINDS):
            shares_of, widths = logp_coverage(kind, options.sets, options.seed)
            found = (f"{shares_of[name]:.1%} ({widths[name]:.1%})" for name in LOGP_TRUTH)
            rows.append((kind.launches, kind.batches, kind.launch, *found))
        study.show(table(title.format(" (and their width)"), cells((head, *LOGP_TRUTH)), rows))


if __name__ == "__main__":
    main()
