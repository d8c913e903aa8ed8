"""Rounds in which every variant takes its turn.

In each round every variant of a piece of work runs one batch of repetitions; what a round counts is the time of the
slowest processor. Batches begin behind an empty superstep and one repetition that does not count, and no Barrier:
MPICH's lets ranks that share cores go milliseconds apart. The order of variants is another one in each round.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np

from .state import available
from .summary import ratio, spread
from .variants import Array, ComparisonJob, Prepared, Variant, Work

LEAST_ROUNDS = 6  # with fewer there is no interval of 95 %
MOST_REPEATS = 200_000
MEMORY = 0.5  # of what is available, that a piece of work may take


class Pace(NamedTuple):
    """How long to measure.

    rounds: of each piece of work, unless they would take longer than `budget`, in seconds.
    batch: seconds that a batch lasts at least.
    """

    rounds: int
    budget: float
    batch: float


def measured(job: ComparisonJob, work: Work, pace: Pace) -> dict[str, Any]:
    """Measure a piece of work; collective. Processor 0's result is the one to keep.

    Returns:
        what the JSON has of it: samples of each variant (seconds of a repetition in each round), their spread, and the
        ratios; or why it was skipped.

    Raises:
        RuntimeError: two variants did not read the same.
    """
    about: dict[str, Any] = {"work": work.name, "size": work.size, "title": work.title}
    needed, had = work.space(job.p), int(MEMORY * job.comm.bcast(available()))
    if needed > had:
        return {**about, "skipped": f"takes {needed / 2**30:.1f} GiB, of which {had / 2**30:.1f} may be taken"}
    prepared = work.make(job, work.size)
    check(job, work, prepared)
    samples, repeats = _rounds(job, prepared.variants, pace)
    job.close()
    return {**about, **described(prepared, samples, repeats)}


def described(prepared: Prepared, samples: dict[str, list[float]], repeats: dict[str, int]) -> dict[str, Any]:
    """What the table has, and the samples that it is made of."""
    return {
        "sent": prepared.sent,
        "items": prepared.items,
        "rounds": min(map(len, samples.values())),
        "forms": {
            name: {**spread(found)._asdict(), "repeats": repeats[name], "samples": found}
            for name, found in samples.items()
        },
        "ratios": [
            {"of": one, "against": other, **ratio(samples[one], samples[other])._asdict()}
            for one, other in prepared.pairs
        ],
    }


def check(job: ComparisonJob, work: Work, prepared: Prepared) -> None:
    """All variants read the same, in two repetitions each: one that does not fill finds the other's values; collective.

    Raises:
        RuntimeError: they did not.
    """
    first: dict[int, tuple[str, list[Array]]] = {}
    for name, variant in prepared.variants.items():
        for number in (1, 2):
            if variant.got is None:
                continue
            variant.batch(number, 1)
            found = list(variant.got())
            if variant.after is not None:
                variant.after()
            whose, expected = first.setdefault(number, (name, found))
            if len(found) != len(expected) or not all(map(np.array_equal, found, expected)):
                raise RuntimeError(
                    f"{work.title}: {name!r} did not read what {whose!r} read on processor {job.pid}, in "
                    f"repetition {number}"
                )
    job.bsp.sync()


def _rounds(
    job: ComparisonJob, variants: dict[str, Variant], pace: Pace
) -> tuple[dict[str, list[float]], dict[str, int]]:
    number = 3  # of the next repetition; those before were for the check
    repeats, estimates = {}, {}
    for name, variant in variants.items():
        count = 1
        while True:
            seconds = max(job.comm.allgather(_batch(job, variant, number, count)))
            number += count + 1
            if seconds >= pace.batch / 2 or count >= MOST_REPEATS:
                break
            count = min(MOST_REPEATS, max(2 * count, int(0.8 * count * pace.batch / max(seconds, 1e-9))))
        repeats[name], estimates[name] = count, seconds * (count + 1) / count
    rounds = max(min(LEAST_ROUNDS, pace.rounds), min(pace.rounds, int(pace.budget / sum(estimates.values()))))
    names = list(variants)
    mine: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(rounds):
        shift = turn // 2 % len(names)
        order = names[shift:] + names[:shift]
        for name in order if turn % 2 else reversed(order):
            mine[name].append(_batch(job, variants[name], number, repeats[name]) / repeats[name])
            number += repeats[name] + 1
    everybody = job.comm.allgather(mine)
    return {name: np.max([found[name] for found in everybody], axis=0).tolist() for name in names}, repeats


def _batch(job: ComparisonJob, variant: Variant, number: int, count: int) -> float:
    """Seconds of so many repetitions, here."""
    clock = time.perf_counter
    job.bsp.sync()
    variant.batch(number, 1)
    if variant.after is None:
        begin = clock()
        variant.batch(number + 1, count)
        return clock() - begin
    variant.after()
    seconds = 0.0
    for k in range(number + 1, number + 1 + count):
        begin = clock()
        variant.batch(k, 1)
        seconds += clock() - begin
        variant.after()
    return seconds
