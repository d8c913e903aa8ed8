"""Do the 95 % intervals of LogP parameters cover the truth in 95 % of cases? On a simulated LogGP machine.

    python -m pybsp.benchmarks.studies.calibration_logp_coverage                2,000 data sets of each kind; minutes
    python -m pybsp.benchmarks.studies.calibration_logp_coverage --sets 200     a rough look

Each data set is the signature of a machine with an eager limit: launches of so many batches of 5 samples, with
log-normal noise of 5 % a sample and 2 % a batch, 1 % of spikes that take 5 times as long, and launches that differ by
0 or 2 %, all their points alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial

import numpy as np

from ..calibration.fits.logp import fit_logp
from .frame import Study, cells, table
from .theory.synthetic import LogGP, Noise, logp_points, noisy, played

MACHINE = LogGP(L=50e-6, o_s=2e-6, o_r=3e-6, g=5e-6, G_word=1e-8, eager_limit=65536)
SIZES = (8, 4096, 65536, 131072, 1048576)
TRUTH = {"L": 50e-6, "L_high": 55e-6, "o_s": 2e-6, "o_r": 3e-6, "o": 2.5e-6, "G": 5e-6, "G_word": 1e-8}
_noise = partial(Noise, sigma=0.05, batch=0.02, spikes=0.01, samples=5)
KINDS = (
    _noise(batches=6),
    _noise(batches=20),
    _noise(launches=3, batches=6),
    _noise(launches=3, batches=6, launch=0.02),
    _noise(launches=5, batches=6, launch=0.02),
)


def coverage(noise: Noise, sets: int, seed: int = 0) -> tuple[dict[str, float], dict[str, float]]:
    """Shares of the data sets whose interval has the truth, and the intervals' median width relative to the truth."""
    times = {point: played(MACHINE, point) for point in logp_points(MACHINE, SIZES)}
    hits: Counter[str] = Counter()
    widths: dict[str, list[float]] = {name: [] for name in TRUTH}
    for number in range(sets):
        fit = fit_logp(noisy(times, noise, seed + number), "raw", seed=seed + number)
        if fit is None:
            continue
        for name, truth in TRUTH.items():
            estimate = getattr(fit, name)
            hits[name] += estimate is not None and estimate.low <= truth <= estimate.high
            widths[name].append(estimate.width)
    return {name: hits[name] / sets for name in TRUTH}, {name: float(np.median(w)) for name, w in widths.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    study = Study(__doc__)
    study.add_argument("--sets", type=int, default=2000, help="data sets of each kind")
    study.add_argument("--seed", type=int, default=0)
    options = study.begin(arguments)
    rows = []
    for noise in study.each(KINDS):
        shares, widths = coverage(noise, options.sets, options.seed)
        found = cells(f"{shares[name]:.1%} ({widths[name]:.1%})" for name in TRUTH)
        rows.append(f"{noise.launches} | {noise.batches} | {noise.launch:.0%} | {found}")
    title = f"95 % intervals that have the truth (and their width), of {options.sets} data sets"
    study.show(table(title, cells(("launches", "batches", "launches differ by", *TRUTH)), rows))


if __name__ == "__main__":
    main()
