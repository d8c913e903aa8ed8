"""A calibration in the forms that other programs read.

    loggopsim   flags of LogGOPSim: -L -o -g -G -O -S, whole numbers (Hoefler, Schneider, Lumsdaine: *LogGOPSim*)
    simgrid     options of SimGrid's SMPI: smpi/os, smpi/or and smpi/ois, piecewise linear in the bytes of a message
    extra-p     Extra-P's JSON: all samples of supersteps, over messages and bytes
    bspbench    the line that bspbench ends with: r in Mflop/s, g and l in flop (Bisseling: *Parallel Scientific
                Computation*)
    netgauge    rows as Netgauge's LogGP pattern writes them, in microseconds

These formats have no place for an interval or a flag. Notes list what is lost, or was changed to fit.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pybsp.errors import UsageError

from . import report
from .estimates import Estimate
from .results import Calibration, LogPFit
from .samples import Raw

FORMATS = ("loggopsim", "simgrid", "extra-p", "bspbench", "netgauge")
WORD = 8  # bytes
INT = 2**31 - 1  # the largest value of LogGOPSim's parameters
UINT = 2**32 - 1  # and of bytes times G, which it computes in 32 bits
TRAIN = 10  # messages of Netgauge's trains
PARAMETERS = ("messages", "bytes")  # of Extra-P's models
VALUES = 5  # of each that it asks for
ROUNDED = 0.01  # relative; there is a note of a value that is rounded by more


class Exported(NamedTuple):
    """What another program reads, and what its user must know."""

    text: str
    notes: tuple[str, ...]


def export(
    calibration: Calibration,
    form: str,
    layer: str | None = None,
    where: str | None = None,
    raw: Raw | None = None,
    no_raw: str = "",
) -> Exported:
    """A calibration in another program's form.

    Args:
        calibration: what a machine file holds.
        form: one of FORMATS.
        layer: whose messages: "raw" (mpi4py) or "logp" (our layer); None: raw, else logp.
        where: "intra" or "inter"; None: between nodes where there are both.
        raw: the samples, which extra-p is made of.
        no_raw: why there are none.

    Raises:
        UsageError: another form, or the calibration has no figures for it.
    """
    if form == "bspbench":
        return _bspbench(calibration)
    if form == "extra-p":
        return _extra_p(raw, no_raw)
    if form not in FORMATS:
        raise UsageError(f"argument form: expected one of {', '.join(FORMATS)}, got {form!r}")
    fit = chosen(calibration, form, layer, where)
    return {"loggopsim": _loggopsim, "simgrid": _simgrid, "netgauge": _netgauge}[form](fit)


def chosen(calibration: Calibration, form: str, layer: str | None, where: str | None) -> LogPFit:
    """The LogP fit that is asked for; a UsageError where there is no such fit."""
    order = [(on, at) for on in report.LAYERS for at in ("", "inter", "intra")]
    fits = {(fit.layer, fit.where): fit for fit in calibration.logp}
    for key in order:
        if key in fits and layer in (None, key[0]) and where in (None, key[1]):
            return fits[key]
    requested = f"layer {layer or 'raw or logp'}{f', where {where}' if where else ''}"
    present = ", ".join(f"layer {on}{f', where {at}' if at else ''}" for on, at in fits) or "none at all"
    raise UsageError(
        f"format {form} needs the LogP figures of {requested}; the machine file holds {present}; "
        "`pybsp calibrate` without --only measures them, from two processors on"
    )


# -- LogGOPSim ---------------------------------------------------------------------------------------------------------


def _loggopsim(fit: LogPFit) -> Exported:
    """T = o + (s-1)*O on the processor, g + (s-1)*G on the network, L between; up to S bytes are sent eagerly."""
    notes: list[str] = []
    per_byte = _slope([row.size for row in fit.sizes], [_mean(row.o_s, row.o_r) for row in fit.sizes])
    if per_byte is None:
        notes.append("no overhead of larger messages was measured: -O is 0")
    if fit.G_word is None:
        raise UsageError(
            "format loggopsim needs G_word, the time of each further word of a long message; it was not measured: "
            "calibrate without --quick"
        )
    seconds = {
        "L": _at_least_0(fit.L.value, "L", notes),
        "o": _at_least_0(fit.o.value, "o", notes),
        "g": _positive((fit.g or fit.G).value, "the gap between messages"),
        "G": _positive(fit.G_word.value / WORD, "the gap of each further byte"),
        "O": _at_least_0(per_byte or 0.0, "O", notes),
    }
    # Its parameters are ints: a picosecond where all fit, as G of a byte is often below a nanosecond.
    unit = next(u for u in (10.0**-n for n in range(12, -1, -1)) if max(seconds.values()) / u <= INT)
    whole = {name: round(value / unit) for name, value in seconds.items()}
    for name, value in seconds.items():
        if value and abs(whole[name] * unit / value - 1) > ROUNDED:
            notes.append(f"-{name} is rounded from {value / unit:.3g} to {whole[name]}")
    limit = fit.eager_limit
    if limit is None:
        limit = fit.sizes[-1].size if fit.sizes else 65535
        notes.append(f"every size that was measured is sent eagerly: -S is the largest of them, {limit}")
    notes.insert(0, f"all times are in units of {unit:.0e} s (multiply compute times of the schedule accordingly)")
    dearest = max(whole["G"], whole["O"])
    if dearest:
        notes.insert(1, f"messages above {UINT // dearest} bytes can overflow LogGOPSim's 32 bits")
    return Exported(" ".join(f"-{name} {value}" for name, value in whole.items()) + f" -S {limit}\n", tuple(notes))


def _mean(o_s: Estimate | None, o_r: Estimate | None) -> float | None:
    return None if o_s is None or o_r is None else (o_s.value + o_r.value) / 2


def _slope(sizes: Sequence[int], values: Sequence[float | None]) -> float | None:
    """Per byte, by least squares of relative residuals; None with fewer than two sizes."""
    pairs = [(size, value) for size, value in zip(sizes, values, strict=True) if value is not None and value > 0]
    if len(pairs) < 2:
        return None
    x, y = np.array(pairs, dtype=float).T
    design = np.stack([np.ones(len(x)), x - 1], axis=1) / y[:, None]
    return float(np.linalg.lstsq(design, np.ones(len(x)), rcond=None)[0][1])


def _at_least_0(value: float, name: str, notes: list[str]) -> float:
    if not math.isfinite(value):
        raise UsageError(f"format loggopsim: {name} is not known ({value}); calibrate again")
    if value < 0:
        notes.append(f"-{name} is 0: it came out as {report.with_unit(value, 's')}, see the flags of `pybsp show`")
    return max(0.0, value)


def _positive(value: float, what: str) -> float:
    """Without it the network would be infinitely fast."""
    if not (math.isfinite(value) and value > 0):
        raise UsageError(
            f"format loggopsim needs {what}; it came out as {report.with_unit(value, 's')}, see the flags of "
            "`pybsp show`: take another --layer, or calibrate again"
        )
    return value


# -- SimGrid -----------------------------------------------------------------------------------------------------------


def _simgrid(fit: LogPFit) -> Exported:
    """smpi/os, smpi/or and smpi/ois: `bytes:seconds:seconds a byte`, from more than so many bytes on."""
    sent = _pieces([(row.size, row.o_s) for row in fit.sizes])
    received = _pieces([(row.size, row.o_r) for row in fit.sizes])
    if not sent or not received:
        raise UsageError(
            "format simgrid needs o_s and o_r by size; the machine file has none for "
            f"{report.logp_title(fit)}: calibrate again, without --only"
        )
    notes = ["smpi/ois is smpi/os: what a send costs was measured, not what an Isend does"]
    for name, kind in (("os and smpi/ois", [row.o_s for row in fit.sizes]), ("or", [row.o_r for row in fit.sizes])):
        last = max(row.size for row, estimate in zip(fit.sizes, kind, strict=True) if estimate is not None)
        if last < fit.sizes[-1].size:
            notes.append(f"above {last} bytes smpi/{name} are 0: no overhead was measured there")
    options = {"os": sent, "or": received, "ois": sent}
    return Exported("".join(f"--cfg=smpi/{name}:{pieces}\n" for name, pieces in options.items()), tuple(notes))


def _pieces(rows: Sequence[tuple[int, Estimate | None]]) -> str:
    """Lines through neighbouring sizes, so that each size costs what was measured; 0 where nothing is defined."""
    known = [(size, estimate.value) for size, estimate in rows if estimate is not None]
    if not known:
        return ""
    pieces = []
    for (size, value), (following, next_value) in itertools.pairwise(known):
        slope = (next_value - value) / (following - size)
        pieces.append((size, value - slope * size, slope))
    if len(known) == 1:
        pieces.append((known[0][0], known[0][1], 0.0))
    pieces[0] = (0, *pieces[0][1:])
    if known[-1][0] < rows[-1][0]:
        pieces.append((known[-1][0], 0.0, 0.0))
    elif pieces[-1][2] < 0:  # a falling line would become negative
        pieces.append((known[-1][0], known[-1][1], 0.0))
    return ";".join(f"{size}:{start:.9g}:{slope:.9g}" for size, start, slope in pieces)


# -- Netgauge ----------------------------------------------------------------------------------------------------------


def _netgauge(fit: LogPFit) -> Exported:
    """Its columns; the trains' times are made of the round trip, o_s and the gap, as it makes these of them."""
    lines = ["# size n PRTT(1,0,s) PRTT(n,0,s) PRTT(n,PRTT(1,0,s),s) L o_s o_r g G lsqu(g,G)"]
    if not fit.sizes:
        raise UsageError(f"format netgauge needs the signature by size of {report.logp_title(fit)}: there is none")
    latency = fit.sizes[0].round_trip.value / 2  # what it calls L
    g, per_word = (fit.g or fit.G).value, math.nan if fit.G_word is None else fit.G_word.value
    for row in fit.sizes:
        trip, o_s, o_r, gap = (_value(x) for x in (row.round_trip, row.o_s, row.o_r, row.gap))
        times = [trip, trip + (TRAIN - 1) * gap, trip + (TRAIN - 1) * (o_s + trip), latency, o_s, o_r]
        times += [g - per_word, per_word / WORD, math.nan]
        lines.append(f"{row.size} {TRAIN} " + " ".join(f"{time * 1e6:.6f}" for time in times))
    notes = (
        "microseconds; PRTT(n,...) are made of the round trip, o_s and the gap by Netgauge's own formulas",
        "L is half of the smallest round trip, as Netgauge defines it, overheads and all",
        "g and G are of the whole range in each row, lsqu is not known",
    )
    return Exported("\n".join(lines) + "\n", notes)


def _value(estimate: Estimate | None) -> float:
    return math.nan if estimate is None else estimate.value


# -- bspbench ----------------------------------------------------------------------------------------------------------


def _bspbench(calibration: Calibration) -> Exported:
    """p, r in Mflop/s, g and l in flop."""
    fit = calibration.bsp
    if fit is None or fit.r is None:
        missing = "r" if fit is not None else "r, g and l"
        raise UsageError(
            f"format bspbench needs r, g and l; the machine file has no {missing}: calibrate without --only"
        )
    r, g, l = fit.r.value, fit.g.value, fit.l.value  # noqa: E741 - the model's own name
    if not all(map(math.isfinite, (r, g, l))):
        raise UsageError(f"format bspbench: not known are some of r = {r}, g = {g}, l = {l}; calibrate again")
    notes = []
    if fit.o_msg.value:
        notes.append(
            f"o_msg has no place here, {report.with_unit(fit.o_msg.value, 's/message')}: many small messages cost more"
        )
    if len(fit.segments) > 1:
        notes.append("g and l are those of large messages and of an empty superstep; small messages have others")
    text = f"p= {calibration.about['p']}, r= {r / 1e6:.3f} Mflop/s, g= {g * r:.1f}, l= {l * r:.1f}\n"
    return Exported(text, tuple(notes))


# -- Extra-P -----------------------------------------------------------------------------------------------------------


def _extra_p(raw: Raw | None, no_raw: str) -> Exported:
    """Samples of supersteps by pattern; Extra-P wants every pattern at the same points."""
    if raw is None:
        raise UsageError(f"format extra-p is made of the raw samples: {no_raw or 'none were given'}")
    patterns: dict[str, dict[tuple[int, int], list[float]]] = {}
    for sample in raw.samples:
        point = sample.point
        if point.experiment == "bsp" and point.messages and point.size:
            found = patterns.setdefault(point.pattern, {})
            found.setdefault((point.messages, point.size), []).append(sample.seconds)
    if not patterns:
        raise UsageError(
            "format extra-p: the raw samples hold no superstep that sends anything: calibrate without --only"
        )
    points = sorted(patterns[max(patterns, key=lambda name: len(patterns[name]))])
    complete = {name: found for name, found in patterns.items() if set(found) >= set(points)}
    measurements = {
        f"superstep->{name}": {
            "time": [{"point": list(point), "values": found[point]} for point in points]  # seconds
        }
        for name, found in complete.items()
    }
    notes = ["seconds; messages are those to each destination of the pattern, bytes those of one message"]
    for parameter, values in zip(PARAMETERS, map(set, zip(*points, strict=True)), strict=True):
        if len(values) < VALUES:
            notes.append(f"Extra-P asks for at least {VALUES} values of a parameter; {parameter} has {len(values)}")
    dropped = sorted(set(patterns) - set(complete))
    if dropped:
        notes.append(f"left out, as Extra-P wants all patterns at the same {len(points)} points: {', '.join(dropped)}")
    content = {"parameters": list(PARAMETERS), "measurements": measurements}
    return Exported(json.dumps(content, indent=1) + "\n", tuple(notes))
