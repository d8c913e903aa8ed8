"""LogP and LogGP from round trips, trains, receives, sleeping receivers and bursts.

The quantities, all of experiment "logp"; `size` is bytes of a message, k = max(1, ceil(size / 8)) its words. Two
processors take part, a client and a server, unless noted; seconds are of the client's clock.

    "round-trip"  R(s): the client sends one message of `size`, the server receives it and sends one of the same size
                  back, the client receives that. seconds = one round trip: from before the client's send to after its
                  receive. R = 2*(o_s + L + (k-1)*G_word + o_r).
    "train"       Q(n,d,s): the client sends `messages` = n messages of `size` one after another, and waits (busy) for
                  `delay` = d seconds after each of them but the last; the server receives all n, then sends *one* of
                  the same size back. seconds = the whole: from before the first send to after the receive of the
                  answer, the delays included. n in {10, 32} with d = 0; one n (10) with d above the gap (signature.py
                  says why 1.2*R(s) is too long), which each launch may choose anew: it is the samples' own delay
                  that is subtracted, and compared with the gap.
                  Q(n,0,s) = R + (n-1)*gap, gap(s) = max(o_s, o_r, g + (k-1)*G_word); Q(n,d,s) = R + (n-1)*(o_s + d).
    "send"        o_s(s) directly: seconds of the call that sends one message while nothing else is under way (the last
                  one has long been received). Used where it is there, and compared with the trains with a delay.
    "receive"     o_r(s): seconds of the server's call that receives one message that a probe has just seen. At sizes
                  that are not eager such a call moves the data, and what is measured is ignored.
    "eager"       seconds of the client's send of one message of `size` to a server that sleeps for `delay` = D seconds
                  before it receives. Eager: below D/2.
    "burst"       `messages` = k processors begin at one moment to send one message each, of `size`, to one other
                  processor, which receives all. seconds = the longest of the k sends. k = 1, 2, ..., up to P - 1.

A figure of a point is the median of its batches' medians in each launch, and the mean of that over the launches.
Intervals are as bootstrap.py has them; everything is computed again from each resample, but the sizes at which segments
begin and those at which an overhead hides the gap stay as they are. The formulas are
Kielmann's, Bal's and Verstoep's (*Fast measurement of LogP parameters*) and Hoefler's (*Low-overhead LogGP parameter
assessment*) for parametrised round trips; a line through gap(s) leaves out the sizes at which an overhead hides it.

Nothing is clamped but the ends of L's interval, which are the model's own; what does not fit is flagged.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..estimates import Estimate, Flag
from ..flags import flag, left_out
from ..results import LogPFit, LogPSize
from ..samples import Point, Sample
from .bootstrap import REPLICATES, Table
from .intervals import Z, f_tail, t_quantile

TRAINS_AGREE = 0.05  # the gap from trains of different lengths
G_AGREES = 0.10  # G_word from trains, and from round trips
HIDDEN = 1.1  # a gap of less than so many times an overhead is the overhead's
BLOCKED = 1.5  # a send of a burst that takes so many times as long as one alone waits
JUMP = 0.10  # a smaller step of the round trip is none
TOLERANCE = 0.03  # relative; a line that is as close as this is no reason for another segment
LACK_OF_FIT = 0.25  # a relative residual
ROUNDING = 1e-3  # relative noise that every time has
MOST_SEGMENTS = 4

_Figure = NDArray[np.float64]  # [0] of the samples, then REPLICATES of resamples, then of each launch alone
_Key = tuple[str, int, bool, int]  # pattern, messages, whether delayed, size


def words(size: int) -> int:
    """Words of a message; one at least, as a message of nothing is sent too."""
    return max(1, -(-size // 8))


def fit_logp(samples: Iterable[Sample], layer: str, where: str = "", seed: int = 0) -> LogPFit | None:
    """The LogP and LogGP parameters of a layer.

    Args:
        samples: of any experiment; those of "logp", this layer and this place are looked at.
        layer: "raw", "logp" or what the samples say. where: "", "intra" or "inter".
        seed: of the bootstrap; the same samples and seed give the same bits.

    Returns:
        None where no message size has both round trips and trains.
    """
    figures = _Figures(
        [s for s in samples if s.point.experiment == "logp" and (s.point.layer, s.point.where) == (layer, where)], seed
    )
    signature = _Signature(figures)
    return _fit(signature, figures, layer, where) if signature.sizes else None


# -- figures of points -------------------------------------------------------------------------------------------------


class _Figures:
    """Seconds of each point, for all samples, for each resample of the batches, and for each launch alone."""

    def __init__(self, samples: Sequence[Sample], seed: int) -> None:
        table = Table.of(_comparable(samples))
        medians = table.medians()
        self.batches = int(np.median(np.isfinite(table.batches).sum(axis=-1))) if table.points else 0
        self.single = int((np.isfinite(table.batches).sum(axis=(1, 2)) < 2).sum())  # points with one sample
        self.points = len(table.points)
        self.left_out = table.left_out
        drawn = table.drawn(np.random.default_rng(seed), REPLICATES)
        alone = np.where(np.eye(table.launches, dtype=bool)[:, None, :], medians, np.nan)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # of the launches that lack a point: NaN is right
            rows = np.nanmean(np.concatenate((medians[None], drawn, alone)), axis=-1).T
        self._of: dict[_Key, tuple[_Figure, float]] = {
            (point.pattern, point.messages, point.delay > 0, point.size): (row, point.delay)
            for point, row in zip(table.points, rows, strict=True)
        }

    def __call__(self, pattern: str, size: int, messages: int | None = None, delayed: bool = False) -> _Figure | None:
        """Of a point; of the longest train where `messages` is None; without the delays, or relative to the sleep."""
        if messages is None:
            messages = max(self.lengths(pattern, size, delayed), default=0)
        key = (pattern, messages, delayed, size)
        if key not in self._of:
            return None
        row, delay = self._of[key]
        if not delayed:
            return row
        return row / delay if pattern == "eager" else row - (messages - 1) * delay

    def delay(self, size: int, messages: int) -> float:
        """Seconds between the sends of a train."""
        return self._of["train", messages, True, size][1]

    def lengths(self, pattern: str, size: int, delayed: bool = False) -> list[int]:
        """Of the trains (senders of the bursts) measured, ascending."""
        return sorted(m for name, m, late, s in self._of if (name, late, s) == (pattern, delayed, size))

    def sizes(self, pattern: str) -> list[int]:
        """Bytes, ascending."""
        return sorted({size for name, _, _, size in self._of if name == pattern})

    def estimate(self, figure: _Figure, points: int = 1) -> Estimate:
        """With the wider interval of two: of the resamples, and of the launches where there are several.

        The spread of a resampled median is itself uncertain: that of n batches of one point is as good as that of
        1 + sqrt(n) independent values more than one (found by trial for n = 4 to 40). Student's t for so many degrees
        of freedom makes up for it; where there are several launches, taking the wider of two does.

        Args:
            figure: what is estimated.
            points: that it hangs on to about the same extent.
        """
        value, drawn, alone = float(figure[0]), figure[1 : REPLICATES + 1], figure[REPLICATES + 1 :]
        half, alone = float(np.nanstd(drawn)), alone[np.isfinite(alone)]
        between = float(np.std(alone, ddof=1)) / math.sqrt(len(alone)) if len(alone) >= 2 else 0.0
        if between > half:
            half = t_quantile(len(alone) - 1.0) * between
        else:
            half *= Z if len(alone) >= 2 else t_quantile(points * (1 + math.sqrt(max(self.batches, 1))))
        return Estimate(value, value - half, value + half)


def _comparable(samples: Sequence[Sample]) -> list[Sample]:
    """As if all launches had taken the same delays: the shortest of each point."""
    shortest: dict[_Key, float] = {}
    for point in (sample.point for sample in samples):
        key = (point.pattern, point.messages, point.delay > 0, point.size)
        shortest[key] = min(point.delay, shortest.get(key, math.inf))
    same = []
    for sample in samples:
        point = sample.point
        delay = shortest[point.pattern, point.messages, point.delay > 0, point.size]
        seconds = sample.seconds
        if point.pattern == "train":
            seconds -= (point.messages - 1) * (point.delay - delay)
        elif point.delay > 0:
            seconds *= delay / point.delay
        same.append(sample._replace(point=Point(*point[:5], messages=point.messages, delay=delay), seconds=seconds))
    return same


# -- by size -----------------------------------------------------------------------------------------------------------


@dataclass
class _Size:
    """Of one message size; bytes."""

    size: int
    round_trip: _Figure
    gap: _Figure
    o_s: _Figure | None
    o_r: _Figure | None

    @property
    def hidden(self) -> bool:
        """Whether the gap is no more than an overhead."""
        return any(o is not None and 0 < self.gap[0] <= HIDDEN * o[0] for o in (self.o_s, self.o_r))


class _Signature:
    """R, gap, o_s and o_r for all sizes, and the eager limit."""

    def __init__(self, figures: _Figures) -> None:
        self.flags: list[Flag] = []
        self.eager_limit = self._limit(figures)
        self.sizes: list[_Size] = []
        for size in figures.sizes("round-trip"):
            round_trip, lengths = figures("round-trip", size), figures.lengths("train", size)
            if round_trip is None or not lengths:
                continue
            gaps = {n: _gap(figures("train", size, n), round_trip, n) for n in lengths if n > 1}
            gap = gaps[max(gaps)]
            self._compare(figures, size, gaps)
            eager = self.eager_limit is None or size <= self.eager_limit
            o_s = self._o_s(figures, size, round_trip, gap) if eager else None
            o_r = figures("receive", size) if eager else None
            self.sizes.append(_Size(size, round_trip, gap, o_s, o_r))

    def _limit(self, figures: _Figures) -> int | None:
        """The largest size before the first that is not eager; None if there is no such."""
        eager = {size: figures("eager", size, delayed=True) for size in figures.sizes("eager")}
        sizes = [size for size, share in eager.items() if share is not None and share[0] < 0.5]
        waiting = [size for size in eager if size not in sizes]
        if not waiting:
            return None
        if sizes and max(sizes) > min(waiting):
            self.flags.append(flag("eager-limit", "eager_limit", waits=min(waiting), eager=max(sizes)))
        return max((size for size in sizes if size < min(waiting)), default=0)

    def _o_s(self, figures: _Figures, size: int, round_trip: _Figure, gap: _Figure) -> _Figure | None:
        """By itself where measured, else from the train with a delay of at least the gap."""
        direct, lengths = figures("send", size), figures.lengths("train", size, delayed=True)
        if not lengths:
            return direct
        n = lengths[-1]
        delay = figures.delay(size, n)
        if delay < gap[0]:
            self.flags.append(flag("delay-below-gap", "o_s", size=size, delay=delay, gap=gap[0]))
            return direct
        train = _gap(figures("train", size, n, delayed=True), round_trip, n)
        if direct is None:
            return train
        _, low, high = figures.estimate(train)
        if not low <= direct[0] <= high and abs(train[0] - direct[0]) > 0.1 * max(direct[0], round_trip[0] / 2):
            self.flags.append(flag("o_s-disagrees", "o_s", size=size, send=direct[0], train=train[0]))
        return direct

    def _compare(self, figures: _Figures, size: int, gaps: dict[int, _Figure]) -> None:
        short, long = min(gaps), max(gaps)
        ratio = gaps[short] / gaps[long]
        _, low, high = figures.estimate(ratio)
        if low > 1 + TRAINS_AGREE or high < 1 - TRAINS_AGREE:
            self.flags.append(
                flag(
                    "trains-disagree",
                    "G",
                    size=size,
                    lengths=(short, long),
                    gaps=(gaps[short][0], gaps[long][0]),
                    most=TRAINS_AGREE,
                )
            )


def _gap(train: _Figure | None, round_trip: _Figure, n: int) -> _Figure:
    assert train is not None
    return (train - round_trip) / (n - 1)


# -- lines through them ------------------------------------------------------------------------------------------------


@dataclass
class _FittedLine:
    """Seconds = at_one + each*(k - 1) of k words; weights 1/seconds^2, so that residuals are relative."""

    at_one: _Figure
    each: _Figure
    residual: float  # the largest, relative

    @classmethod
    def through(cls, k: Sequence[int], seconds: Sequence[_Figure]) -> _FittedLine:
        x, y = np.array(k, dtype=float)[:, None] - 1, np.array(seconds)
        weight = 1 / y**2
        total = weight.sum(axis=0)
        centre = (weight * x).sum(axis=0) / total
        mean = (weight * y).sum(axis=0) / total
        each = (weight * (x - centre) * (y - mean)).sum(axis=0) / (weight * (x - centre) ** 2).sum(axis=0)
        at_one = mean - each * centre
        residual = np.abs(1 - (at_one[0] + each[0] * x[:, 0]) / y[:, 0]).max()
        return cls(at_one, each, float(residual))

    def __call__(self, k: int) -> float:
        return float(self.at_one[0] + self.each[0] * (k - 1))


def _segments(k: Sequence[int], seconds: Sequence[_Figure]) -> list[int]:
    """Where segments begin, 0 first: lines with jumps allowed, as many as pay (the penalty of BIC for three more)."""
    n = len(k)
    if n < 4:
        return [0]
    y = np.array(seconds)
    sigma = np.maximum(TOLERANCE * y[:, 0], np.nanstd(y[:, 1 : REPLICATES + 1], axis=1))
    cost = np.full((n + 1, n + 1), np.inf)  # of one line through i..j-1
    fewest = 3 if n >= 8 else 2  # a line through two says nothing about whether it is one
    for i in range(n - fewest + 1):
        for j in range(i + fewest, n + 1):
            design = np.stack([np.ones(j - i), np.array(k[i:j], dtype=float)], axis=1) / sigma[i:j, None]
            target = y[i:j, 0] / sigma[i:j]
            best = np.linalg.lstsq(design, target, rcond=None)[0]
            cost[i, j] = float(((design @ best - target) ** 2).sum())
    penalty = 3 * math.log(n)
    least, begins = cost[0].copy(), [[0] for _ in range(n + 1)]
    found = (least[n], begins[n])
    for more in range(1, MOST_SEGMENTS):
        through = least[:, None] + cost
        at = through.argmin(axis=0)
        begins = [[*begins[at[j]], int(at[j])] for j in range(n + 1)]
        least = through.min(axis=0)
        if least[n] + penalty * more < found[0]:
            found = (least[n] + penalty * more, begins[n])
    return found[1]


# -- the parameters ----------------------------------------------------------------------------------------------------


def _fit(signature: _Signature, figures: _Figures, layer: str, where: str) -> LogPFit:
    sizes, flags = signature.sizes, signature.flags
    smallest = sizes[0]
    none = np.zeros_like(smallest.gap)
    if smallest.o_s is None or smallest.o_r is None:
        absent = " and ".join(name for name in ("o_s", "o_r") if getattr(smallest, name) is None)
        flags.append(flag("no-overhead", "L", absent=absent, size=smallest.size))
    o_s = none if smallest.o_s is None else smallest.o_s
    o_r = none if smallest.o_r is None else smallest.o_r
    half = smallest.round_trip / 2
    latency = half - o_s - o_r
    L = figures.estimate(latency)
    o, G = figures.estimate((o_s + o_r) / 2), figures.estimate(smallest.gap)
    jumps = _jumps(sizes)
    g, G_word = _gaps(figures, sizes, flags)
    knee = _knee(figures, flags)
    expected = math.ceil(L.value / G.value) if L.value > 0 and G.value > 0 else None
    if knee is not None and expected is not None and not knee[0] <= expected < knee[1]:
        flags.append(flag("capacity", "capacity", fewer=knee[0], more=knee[1], expected=expected))
    if figures.single:
        flags.append(flag("one-sample", single=figures.single, points=figures.points))
    flags += left_out(figures.left_out)
    flags += _inequalities(smallest, L, G)
    sent, received = figures.estimate(o_s), figures.estimate(o_r)
    for name, estimate in (("L", L), ("o_s", sent), ("o_r", received), ("G", G), ("G_word", G_word)):
        flags += _doubts(name, estimate)
    return LogPFit(
        layer=layer,
        where=where,
        L=L,
        L_low=Estimate(*(max(end, 0.0) for end in L)),
        L_high=figures.estimate(half),
        o_s=sent,
        o_r=received,
        o=o,
        G=G,
        G_word=G_word,
        sizes=tuple(
            LogPSize(
                size=one.size,
                round_trip=figures.estimate(one.round_trip),
                o_s=None if one.o_s is None else figures.estimate(one.o_s),
                o_r=None if one.o_r is None else figures.estimate(one.o_r),
                gap=figures.estimate(one.gap),
            )
            for one in sizes
        ),
        eager_limit=signature.eager_limit,
        capacity=None if knee is None else knee[0],
        expected=expected,
        jumps=jumps,
        flags=tuple(flags),
        g=g,
    )


def _jumps(sizes: Sequence[_Size]) -> tuple[int, ...]:
    """Sizes at which the round trip jumps, up or down."""
    k, trips = [words(one.size) for one in sizes], [one.round_trip for one in sizes]
    begins = [*_segments(k, trips), len(sizes)]
    jumps = []
    for start, middle, end in zip(begins, begins[1:], begins[2:], strict=False):
        before = _FittedLine.through(k[start:middle], trips[start:middle])
        after = _FittedLine.through(k[middle:end], trips[middle:end])
        if abs(after(k[middle]) / before(k[middle]) - 1) > JUMP:
            jumps.append(sizes[middle].size)
    return tuple(jumps)


def _gaps(figures: _Figures, sizes: Sequence[_Size], flags: list[Flag]) -> tuple[Estimate | None, Estimate | None]:
    """g, the network's own gap for one word, from the first segment; G_word from the last."""
    if len(sizes) < 2:
        return None, None
    seen = [one for one in sizes if not one.hidden]
    hidden = len(seen) < 2
    if hidden:
        flags.append(flag("overhead-dominated", "G_word"))
        seen = list(sizes)
    k, gaps = [words(one.size) for one in seen], [one.gap for one in seen]
    begins = [*_segments(k, gaps), len(seen)]
    first, last = slice(0, begins[1]), slice(begins[-2], None)
    lines = {part.start: _FittedLine.through(k[part], gaps[part]) for part in (first, last)}
    g = None if hidden else figures.estimate(lines[0].at_one)
    line = lines[last.start]
    if line.residual > LACK_OF_FIT or _lack_of_fit(figures, line, k[last], gaps[last]) < 0.01:
        flags.append(flag("not-linear gap", "G_word", size=seen[last.start].size, residual=line.residual))
    trips = _FittedLine.through(k[last], [one.round_trip / 2 for one in seen[last]])
    difference = abs(trips.each[0] - line.each[0])
    if difference > G_AGREES * abs(line.each[0]) and difference * k[-1] > ROUNDING * trips(k[-1]):
        flags.append(flag("G-word-disagrees", "G_word", train=line.each[0], single=trips.each[0]))
    return g, figures.estimate(line.each, 2)


def _lack_of_fit(figures: _Figures, line: _FittedLine, k: Sequence[int], gaps: Sequence[_Figure]) -> float:
    """Probability that noise alone leaves residuals as large as these: an F-test against the spread of resamples."""
    free = len(k) - 2
    if free < 1:
        return 1.0
    value = np.array([gap[0] for gap in gaps])
    noise = np.maximum([np.nanstd(gap[1 : REPLICATES + 1]) for gap in gaps], ROUNDING * value)
    residuals = (value - [line(words) for words in k]) / noise
    return f_tail(float((residuals**2).sum()) / free, free, free * (1 + math.sqrt(figures.batches)))


def _knee(figures: _Figures, flags: list[Flag]) -> tuple[int, int] | None:
    """Senders of the largest burst before the first in which some wait, and of that; None where none waits."""
    sizes = figures.sizes("burst")
    if not sizes:
        return None
    size = sizes[0]
    senders = figures.lengths("burst", size)
    alone, own = figures("burst", size, senders[0]), figures("send", size)
    assert alone is not None
    if own is not None and alone[0] > BLOCKED * own[0]:
        flags.append(flag("capacity burst", "capacity", senders=senders[0], burst=alone[0], send=own[0]))
    for fewer, more in itertools.pairwise(senders):
        issue = figures("burst", size, more)
        if issue is not None and issue[0] > BLOCKED * alone[0]:
            return fewer, more
    return None


def _inequalities(smallest: _Size, L: Estimate, G: Estimate) -> list[Flag]:
    """max{2, o} <= G <= L, one by one; 2 is of steps, of which measured seconds know nothing."""
    flags = []
    if smallest.hidden:
        overhead = max(float(o[0]) for o in (smallest.o_s, smallest.o_r) if o is not None)
        flags.append(flag("overhead-dominated smallest", "G", gap=G.value, overhead=overhead))
    if G.value > L.value:
        flags.append(flag("gap-above-latency", "L", G=G.value, L=L.value))
    return flags


def _doubts(name: str, estimate: Estimate | None) -> list[Flag]:
    if estimate is None:
        return []
    if estimate.value < 0:
        return [flag("negative logp L" if name == "L" else "negative logp", name, name=name, found=estimate)]
    if estimate.high - estimate.low > abs(estimate.value) > 0:
        return [flag("wide logp", name, name=name, found=estimate)]
    return []
