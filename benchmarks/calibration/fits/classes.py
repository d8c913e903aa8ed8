"""Supersteps within nodes and between them, where several processors share a node.

T = l + o_msg*m + max(g_intra*h_intra, g_inter*h_inter, busiest node's words / its injection rate), compared with one g
for all, and with the sum of what goes within and what goes between. What goes within nodes is timed on machines of
one node each, as no network is in it; a superstep of all still waits for the network, so that l is that between nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..estimates import Estimate
from ..flags import of_class
from ..patterns import traffic
from ..results import BSPFit, Classes, ClassFit, Errors
from ..samples import Point, Sample
from .bootstrap import Table
from .bsp import across, errors, fit_supersteps, predict, segment_of

WHERE = ("intra", "inter", "inter-all")


def fit_classes(
    samples: Sequence[Sample], held_out: Sequence[Sample], nodes: Sequence[int], bsp_fit: BSPFit, seed: int = 0
) -> Classes | None:
    """Parameters by class; None where none was measured.

    Args:
        samples: of experiment "class"; and of empty supersteps (of "bsp"), which belong to the classes between nodes.
        held_out: of experiment "held-out".
        nodes: the node of each processor.
        bsp_fit: of all processors alike, to compare with.
        seed: of the bootstrap.
    """
    found: dict[str, BSPFit] = {}
    fits: dict[str, ClassFit] = {}
    for where in WHERE:
        alone = where == "intra"
        mine = [s for s in samples if s.point.where == where or not (alone or s.point.where or s.point.h)]
        if not any(sample.point.h for sample in mine):
            continue
        fit = fit_supersteps(Table.of(mine), seed)
        if fit is None:
            continue
        found[where] = fit
        # What a class lacks of patterns and sizes is in the whole fit's flags already.
        flags = tuple(of_class(flag, where) for flag in fit.flags)
        fits[where] = ClassFit(where, fit.l, fit.o_msg, fit.g, flags)
    if not fits:
        return None
    injection = _injection(found, samples, nodes)
    return Classes(fits, injection, _errors(found, injection, held_out, nodes, bsp_fit))


def _injection(found: dict[str, BSPFit], samples: Sequence[Sample], nodes: Sequence[int]) -> Estimate | None:
    """Words a second of a node: of large messages, all its processors sending to other nodes."""
    fit = found.get("inter-all")
    points = [sample.point for sample in samples if sample.point.where == "inter-all" and sample.point.h]
    if fit is None or fit.g.value <= 0:
        return None
    largest = max(points, key=lambda point: point.h)
    share = traffic(largest, len(nodes), nodes).node / largest.h
    low = max(fit.g.low, fit.g.value / 10)  # an interval of g that reaches 0 is no reason for an infinite rate
    return Estimate(share / fit.g.value, share / fit.g.high, share / low)


def _errors(
    found: dict[str, BSPFit],
    injection: Estimate | None,
    held_out: Sequence[Sample],
    nodes: Sequence[int],
    bsp_fit: BSPFit,
) -> dict[str, Errors]:
    table = Table.of(held_out)
    if not table.points or "intra" not in found or "inter" not in found:
        return {}
    times = across(table.medians())
    predicted = {
        "plain": [predict(bsp_fit, point.h, point.busiest) for point in table.points],
        "max": [_seconds(point, found, injection, nodes, bsp_fit, max) for point in table.points],
        "sum": [_seconds(point, found, injection, nodes, bsp_fit, sum) for point in table.points],
    }
    return {form: errors(np.array(seconds), times) for form, seconds in predicted.items()}


def _seconds(
    point: Point,
    found: dict[str, BSPFit],
    injection: Estimate | None,
    nodes: Sequence[int],
    bsp_fit: BSPFit,
    together: Callable[[tuple[float, float]], float],
) -> float:
    words = traffic(point, len(nodes), nodes)
    if not point.h:
        return bsp_fit.l.value

    words_each = point.h / point.busiest
    lines = {where: segment_of(fit.segments, words_each) for where, fit in found.items() if where != "inter-all"}
    within = lines["intra"].g.value * words.h_intra
    between = lines["inter"].g.value * words.h_inter
    if injection is not None:
        between = max(between, words.node / injection.value)
    used = [lines[where] for where, h in (("intra", words.h_intra), ("inter", words.h_inter)) if h]
    messages = max(line.o_msg.value for line in used) * point.busiest
    return lines["inter"].l.value + messages + together((within, between))
