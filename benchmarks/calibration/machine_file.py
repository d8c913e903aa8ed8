"""What is written for programs to predict by: a calibration as a machine file (JSON), and back.

    {"format": "pybsp-machine", "version": 1,
     "bsp": ..., "ebsp": ..., "logp": ...      what BSPMachine, EBSPMachine and LogPMachine load; those that there are
     "placement": {"hosts": [...], "nodes": [...]},
     "calibration": ...}                       all of `results.Calibration`: dataclasses and estimates as objects

Units are SI: seconds, seconds per word of 8 bytes, flop/s, bytes. A number that is not finite is a string ("inf").
Nothing here is measured or fitted; the three machines say what parts of the calibration predictions use.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pybsp.errors import UsageError, harmless
from pybsp.ground.decoding import decode, fields, figure, of, shown
from pybsp.machines.bsp import BSPMachine
from pybsp.machines.ebsp import EBSPMachine
from pybsp.machines.logp import LogPMachine
from pybsp.machines.machine_file import FORMAT, VERSION, is_finite, read_parts, replace_file

from .estimates import Estimate
from .fits.ways import WayFit, with_first, with_late, with_ways
from .results import BSPFit, Calibration, EBSPFit, Errors, LogPFit, Rate


def bsp_machine(fit: BSPFit, about: dict[str, Any], errors: Errors | None = None) -> BSPMachine:
    """The machine by which programs predict; parameters that came out negative count 0 (their fit is flagged).

    Args:
        fit: of the supersteps.
        about: p and hosts.
        errors: of held-out supersteps, where they are known.
    """
    segments = tuple(
        (float(row.words), _least(row.l), _least(row.o_msg), _least(row.g))
        for row in sorted(fit.segments, key=lambda row: row.words)
    )
    if segments:
        segments = ((0.0, *segments[0][1:]), *segments[1:])
    return BSPMachine(
        p=about["p"],
        g=_least(fit.g),
        l=_least(fit.l),
        r=fit.r.value if fit.r is not None and fit.r.value > 0 else BSPMachine.nominal(1).r,
        o_msg=_least(fit.o_msg),
        segments=segments,
        error_median=None if errors is None else errors.median,
        error_p95=None if errors is None else errors.p95,
        hosts=tuple(about["hosts"]),
        o_item=0.0 if fit.o_item is None else _least(fit.o_item),
        rates=tuple(_kinds(fit.rates).items()),
    )


def _kinds(rates: Sequence[Rate]) -> dict[str, float]:
    """flop/s by kernel, of each the geometric mean over its sizes."""
    found: dict[str, list[float]] = {}
    for rate in rates:
        if rate.rate.value > 0 and math.isfinite(rate.rate.value):
            found.setdefault(rate.kernel, []).append(math.log(rate.rate.value))
    return {kernel: math.exp(sum(logs) / len(logs)) for kernel, logs in found.items()}


def ebsp_machine(fit: EBSPFit, p: int, r: float, o_item: float = 0.0) -> EBSPMachine | None:
    """The E-BSP machine, where one was fitted; its errors are those of held-out supersteps.

    Args:
        fit: of unbalanced supersteps.
        p: processors.
        r, o_item: of the BSP machine: no part of that fit.
    """
    if fit.g1 is None or fit.g2 is None or fit.s is None or fit.o_msg is None:
        return None
    errors = fit.errors.get("ebsp")
    return EBSPMachine(
        p=p,
        g1=_least(fit.g1),
        g2=_least(fit.g2),
        s=_least(fit.s),
        r=r,
        o_msg=_least(fit.o_msg),
        error_median=None if errors is None else errors.median,
        error_p95=None if errors is None else errors.p95,
        o_item=o_item,
    )


def used_logp(fits: Sequence[LogPFit]) -> LogPFit | None:
    """The fit that LogP programs predict by: of our layer before mpi4py's, of all pairs or else between nodes."""
    layers, places = ("logp", "raw"), ("", "inter", "intra")
    return min(fits, key=lambda fit: (layers.index(fit.layer), places.index(fit.where)), default=None)


def logp_part(fit: LogPFit, p: int) -> dict[str, Any] | None:
    """The "logp" part, in seconds; None where what was fitted is no machine (an overhead or gap that is not there).

    L is half of the round trip less the overheads; where that is not above 0 (they overlap with the flight), it is half
    of the round trip. Its interval goes from the one, at least 0, to the other, each as far as it is sure.
    """
    L = fit.L_high.value if fit.L.value <= 0 else fit.L.value
    if not (math.isfinite(fit.L.value) and 0 < L < math.inf and fit.o.value >= 0 and 0 < fit.G.value < math.inf):
        return None
    part: dict[str, Any] = {"p": p, "L": L, "o": fit.o.value, "G": fit.G.value}
    intervals = {"L": Estimate(L, fit.L_low.low, fit.L_high.high), "o": fit.o, "G": fit.G}
    if fit.G_word is not None and 0 <= fit.G_word.value < math.inf:
        part["G_word"] = fit.G_word.value
        intervals["G_word"] = fit.G_word
    part["intervals"] = {
        name: [found.low, found.high]
        for name, found in intervals.items()
        if math.isfinite(found.low) and math.isfinite(found.high)
    }
    return part


def to_json(calibration: Calibration) -> dict[str, Any]:
    """The content of a machine file."""
    about = calibration.about
    content: dict[str, Any] = {"format": FORMAT, "version": VERSION}
    r, o_item = BSPMachine.nominal(1).r, 0.0
    if calibration.bsp is not None and math.isfinite(calibration.bsp.g.value):
        errors = None if calibration.held_out is None else calibration.held_out.all
        machine = bsp_machine(calibration.bsp, about, errors)
        if calibration.exchange is not None:
            alone = calibration.exchange
            exchange = bsp_machine(alone.fit, about, alone.errors)
            exchange = with_first(with_ways(exchange, WayFit(alone.o_way, alone.g_way, None)), alone.first)
            shares = {row.seconds: (row.empty, row.sending, row.of_ways) for row in alone.after}
            exchange = with_late(exchange, alone.late, shares)
            machine = dataclasses.replace(machine, exchange=dataclasses.replace(exchange, r=machine.r))
        content["bsp"] = machine.as_part()
        r, o_item = machine.r, machine.o_item
    if calibration.ebsp is not None and calibration.ebsp.kept:
        unbalanced = ebsp_machine(calibration.ebsp, about["p"], r, o_item)
        if unbalanced is not None:
            content["ebsp"] = unbalanced.as_part()
    fit = used_logp(calibration.logp)
    if fit is not None:
        part = logp_part(fit, about["p"])
        if part is not None:
            content["logp"] = part
    content["placement"] = {"hosts": about["hosts"], "nodes": about["nodes"]}
    content["calibration"] = _encoded(calibration)
    return content


ROUNDED = 1e-6  # of a figure: what to fit it again may change, on another machine or by another numpy

_FORM = fields({"calibration": of(Calibration, {float: figure})})


def write(calibration: Calibration, path: str | os.PathLike[str]) -> None:
    """Write a machine file in place of the one before, at once; a UsageError where it cannot be written."""
    replace_file(Path(path), to_json(calibration))


def is_calibrated(path: str | os.PathLike[str]) -> bool:
    """Whether a machine file has a calibration; what a machine's `save` wrote alone has none."""
    return "calibration" in read_parts(Path(path))


def figures(path: str | os.PathLike[str]) -> dict[str, tuple[str, Estimate]]:
    """What the machines of a file predict by, calibrated or not: unit and value by name, without intervals.

    Raises:
        UsageError: not a machine file, or no machine in it.
    """
    found: dict[str, tuple[str, float]] = {}
    if BSPMachine.is_in(path):
        bsp = BSPMachine.load(path)
        found |= {"p": ("processors", bsp.p), "l": ("s", bsp.l), "o_msg": ("s/message", bsp.o_msg)}
        found |= {"o_item": ("s/item", bsp.o_item), "g": ("s/word", bsp.g), "r": ("flop/s", bsp.r)}
        found |= {f"r, {harmless(kind)}": ("flop/s", rate) for kind, rate in bsp.rates}
    if EBSPMachine.is_in(path):
        ebsp = EBSPMachine.load(path)
        found |= {"p (E-BSP)": ("processors", ebsp.p), "s (E-BSP)": ("s", ebsp.s)}
        found |= {"g1 (E-BSP)": ("s/word", ebsp.g1), "g2 (E-BSP)": ("s/word", ebsp.g2)}
        found |= {"o_msg (E-BSP)": ("s/message", ebsp.o_msg), "o_item (E-BSP)": ("s/item", ebsp.o_item)}
    if LogPMachine.is_in(path):
        logp = LogPMachine.load(path)
        found["p (LogP)"] = "processors", logp.p
        found |= {f"{name} (LogP)": ("s", getattr(logp, name) * logp.step) for name in ("L", "o", "G")}
        found |= {} if logp.G_word is None else {"G_word (LogP)": ("s/word", logp.G_word)}
    if not found:
        raise UsageError(f"machine file {path}: it holds neither a machine nor a calibration")
    return {name: (unit, Estimate(value, math.nan, math.nan)) for name, (unit, value) in found.items()}


def read(path: str | os.PathLike[str]) -> Calibration:
    """Read the calibration of a machine file; a UsageError where it has none that is understood."""
    content = read_parts(Path(path))
    origin = f"machine file {path}"
    if "calibration" not in content:
        present = sorted(set(content) - {"format", "version"})
        raise UsageError(f'{origin}: it holds no "calibration", only {present}; write one with `pybsp calibrate`')
    found: Calibration = decode({"calibration": content["calibration"]}, origin, _FORM)["calibration"]
    return found


def edited(path: str | os.PathLike[str], calibration: Calibration) -> list[str]:
    """Which figures in force are others than those of the file's calibration, in words.

    Raises:
        UsageError: what is in force cannot be read.
    """
    content = read_parts(Path(path))
    try:
        measured = json.loads(json.dumps(to_json(calibration)))
    except UsageError as error:
        raise UsageError(f"machine file {path}: calibration: {error}") from None
    found: list[str] = []
    for kind in BSPMachine, EBSPMachine, LogPMachine:
        if kind._PART in content:
            kind.load(path)
            found += _changed(kind._PART, content[kind._PART], measured.get(kind._PART, {}))
    return found


def _changed(name: str, now: Any, before: Any) -> Iterator[str]:
    """Where numbers that both parts have differ; not lists, which other versions of pybsp fit otherwise."""
    if isinstance(now, dict) and isinstance(before, dict):
        for key in sorted(now.keys() & before.keys()):
            yield from _changed(f"{name}.{key}", now[key], before[key])
    elif is_finite(now) and is_finite(before) and not math.isclose(now, before, rel_tol=ROUNDED):
        yield f"{name} is {shown(now)}, measured {shown(before)}"


def _least(estimate: Estimate) -> float:
    return max(0.0, estimate.value)


def _encoded(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {field.name: _encoded(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Estimate):
        return {name: _encoded(part) for name, part in value._asdict().items()}
    if isinstance(value, (tuple, list)):
        return [_encoded(part) for part in value]
    if isinstance(value, dict):
        return {str(key): _encoded(part) for key, part in value.items()}
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    if hasattr(value, "item"):  # a numpy scalar
        return _encoded(value.item())
    return value
