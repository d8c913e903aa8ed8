"""What a calibration found: plain data, which a machine file holds under "calibration".

Units are SI: seconds, words of 8 bytes, bytes, flop/s; docs/explanation/calibration.md says what each field is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

from pybsp.ground.decoding import number, one_of, whole

from . import placement
from .estimates import Estimate, Flag

Count = Annotated[int, whole()]


@dataclass(frozen=True)
class Errors:
    """Relative errors of predictions, (predicted - measured) / measured.

    Args:
        median, p95: of their absolute values.
        bias: their median, signed: above 0 where predictions are too long.
        points: how many points they are of.
    """

    median: float
    p95: float
    bias: float
    points: Count


@dataclass(frozen=True)
class Segment:
    """Parameters for messages of at least so many words, up to the next segment: T = l + o_msg*m + g*h."""

    words: Count
    l: Estimate  # noqa: E741 - the model's own name
    o_msg: Estimate
    g: Estimate


@dataclass(frozen=True)
class Rate:
    """flop/s of the slowest processor in one kernel and working set, all computing at once.

    Args:
        kernel: "axpy", "dot", "matmul", "sort".
        size: bytes of the working set.
        rate: flop/s.
        slowest: pid of the slowest processor; -1 where the samples do not say whose they are.
        spread: the fastest processor's rate over the slowest's.
    """

    kernel: str
    size: Count
    rate: Estimate
    slowest: Annotated[int, whole(-1)]
    spread: float


@dataclass(frozen=True)
class BSPFit:
    """BSP as a program on our runtime feels it.

    Args:
        l: seconds of an empty superstep. o_msg: seconds a message. g: seconds a word of large messages, all patterns.
        segments: by message size, at least one; what predictions of supersteps that send something use, with the l of
            those: an empty one may take far less.
        patterns: g of each pattern alone. worst: the pattern with the largest.
        n_half: words of the smallest message whose cost a word is at most 2*g; None where none that was measured.
        r: flop/s that predictions use. rates: the table that it was taken from.
        theil_sen: l, o_msg and g of the same points by Theil-Sen, for comparison.
        differences: l and g from differences, max(T(0), 2T(m) - T(2m)) and (T(m,2w) - T(m,w))/(m*w): "l", "g".
        residuals: of the fitted points themselves.
        flags: what is to be known.
        o_item: seconds an item of a queue, beside its words and messages; None where no queue was measured.
    """

    l: Estimate  # noqa: E741 - the model's own name
    o_msg: Estimate
    g: Estimate
    segments: tuple[Segment, ...]
    patterns: dict[str, Estimate]
    worst: str
    n_half: Count | None
    r: Estimate | None
    rates: tuple[Rate, ...]
    theil_sen: dict[str, float]
    differences: dict[str, float]
    residuals: Errors
    flags: tuple[Flag, ...] = ()
    o_item: Estimate | None = None


@dataclass(frozen=True)
class After:
    """The shares of what an exchange takes more after long computing, after so many seconds of it.

    Args:
        empty, sending: of what exchanges take more that send nothing, or something.
        of_ways: of what their ways add.
    """

    seconds: Annotated[float, number(above=True)]
    empty: Estimate
    sending: Estimate
    of_ways: Estimate


@dataclass(frozen=True)
class ExchangeFit:
    """What the same supersteps take less computing, of which sending and reading are part: as a ledger has exchanges.

    Args:
        fit: as of whole supersteps; its `r` and `rates` are empty.
        errors: of held-out supersteps; None where there were none.
        o_way: seconds by the way in which data goes (pybsp/ways.py).
        g_way: seconds of each word beyond g, by the way.
        late: seconds that an exchange takes more after long computing: "empty", "sending", and what each way adds.
        after: the shares of `late`, by seconds of computing.
        without: errors of held-out supersteps, by a machine without o_way and g_way, and without `late`.
        first: seconds that an exchange takes more by a way of data if others were used before it.
    """

    fit: BSPFit
    errors: Errors | None
    o_way: dict[str, Estimate] = field(default_factory=dict)
    g_way: dict[str, Estimate] = field(default_factory=dict)
    late: dict[str, Estimate] = field(default_factory=dict)
    after: tuple[After, ...] = ()
    without: dict[str, Errors] = field(default_factory=dict)
    first: dict[str, Estimate] = field(default_factory=dict)


@dataclass(frozen=True)
class EBSPFit:
    """T = g1*M/p + g2*h + o_msg*messages + s.

    Args:
        condition: number of the scaled design; above 30 the fit is refused: g1, g2, s and o_msg are None then.
        kept: whether it predicts held-out supersteps better than BSP.
        errors: of held-out supersteps: "bsp", "ebsp"; and of the unbalanced ones: "bsp unbalanced", "ebsp unbalanced".
    """

    g1: Estimate | None
    g2: Estimate | None
    s: Estimate | None
    o_msg: Estimate | None
    condition: float
    kept: bool
    errors: dict[str, Errors]
    flags: tuple[Flag, ...] = ()


@dataclass(frozen=True)
class ClassFit:
    """Supersteps within nodes ("intra"), between nodes with one processor each ("inter"), or with all ("inter-all")."""

    where: Annotated[str, one_of("intra", "inter", "inter-all")]
    l: Estimate  # noqa: E741 - the model's own name
    o_msg: Estimate
    g: Estimate
    flags: tuple[Flag, ...] = ()


@dataclass(frozen=True)
class Classes:
    """Several ranks a node.

    Args:
        fits: by where.
        injection: words a second that a node sends or receives, all its processors together.
        errors: of held-out supersteps, for "plain" (one g), "max" (l + max(g_intra*h_intra, g_inter*h_inter, busiest
            node's traffic / injection)) and "sum" (the first of the three added to the larger of the others).
    """

    fits: dict[str, ClassFit]
    injection: Estimate | None
    errors: dict[str, Errors]
    flags: tuple[Flag, ...] = ()


@dataclass(frozen=True)
class LogPSize:
    """The LogP signature at one message size; None where it is not defined (o_r above the eager limit).

    Args:
        size: bytes.
        round_trip, o_s, o_r, gap: seconds.
    """

    size: Count
    round_trip: Estimate
    o_s: Estimate | None
    o_r: Estimate | None
    gap: Estimate | None


@dataclass(frozen=True)
class LogPFit:
    """LogP and LogGP.

    Args:
        layer: "raw" (mpi4py) or "logp" (our layer). where: "", "intra" or "inter".
        L: seconds: R/2 - o_s - o_r of the smallest message, of any sign. The latency itself is an interval, as
            overheads may overlap with the flight: from L_low, which is L but at least 0, to L_high, which is R/2.
        o_s, o_r, o, G: seconds, of the smallest message; o is the mean of o_s and o_r, G its gap.
        G_word: seconds for each further word of a long message.
        sizes: the signature.
        eager_limit: the largest size in bytes sent eagerly; None where every size measured was.
        capacity: senders at the knee of a burst: of those measured, the most of which none waits; None without a knee.
            expected: ceil(L/G), None where L or G is not above 0.
        jumps: sizes in bytes at which the round trip jumps.
        g: seconds, the network's own gap of one word: where the line through the gaps of small messages that no
            overhead hides begins. Equal to G but where an overhead is larger. None where all are hidden.
    """

    layer: Annotated[str, one_of("raw", "logp")]
    where: Annotated[str, one_of("", "intra", "inter")]
    L: Estimate
    L_low: Estimate
    L_high: Estimate
    o_s: Estimate
    o_r: Estimate
    o: Estimate
    G: Estimate
    G_word: Estimate | None
    sizes: tuple[LogPSize, ...]
    eager_limit: Count | None
    capacity: Count | None
    expected: Count | None
    jumps: tuple[Count, ...] = ()
    flags: tuple[Flag, ...] = ()
    g: Estimate | None = None


@dataclass(frozen=True)
class Predicted:
    """A held-out point: measured and predicted seconds."""

    pattern: str
    size: Count
    h: Count
    messages: Count
    measured: Estimate
    predicted: float


@dataclass(frozen=True)
class HeldOut:
    """How wrong the predictions are, on patterns and sizes that nothing was fitted from."""

    all: Errors
    patterns: dict[str, Errors]
    points: tuple[Predicted, ...]
    flags: tuple[Flag, ...] = ()


@dataclass(frozen=True)
class Noise:
    """How quiet the machine was.

    Args:
        mean_over_median: of the samples, median over the points.
        drift: the reference point at the end over the same at the start.
        correlation: of successive batches, lag 1.
        unconverged: points whose interval stayed wider than asked for, of `points`.
    """

    mean_over_median: float
    drift: float | None
    correlation: float
    unconverged: Count
    points: Count


@dataclass(frozen=True)
class Calibration:
    """All of it; a part that was not measured is None.

    Args:
        about: of the raw samples: p, hosts, placement, date, versions, seed, timer, level, word, method.
        flags: of the whole; each part has its own as well.
        exchange: what the ledger predicts by; its flags are not shown, as those of `bsp` say the same.
    """

    about: Annotated[dict[str, Any], placement.about]
    bsp: BSPFit | None
    ebsp: EBSPFit | None
    classes: Classes | None
    logp: tuple[LogPFit, ...]
    held_out: HeldOut | None
    noise: Noise
    flags: tuple[Flag, ...] = field(default=())
    exchange: ExchangeFit | None = None

    def all_flags(self) -> tuple[Flag, ...]:
        """Those of the whole, then of each part."""
        parts: list[Any] = [self.bsp, self.ebsp, self.classes, *self.logp, self.held_out]
        if self.classes is not None:
            parts += self.classes.fits.values()
        return self.flags + tuple(flag for part in parts if part is not None for flag in part.flags)
