"""g1, g2 and s of E-BSP: T = g1*M/p + g2*h + o_msg*m + s, for relations that are not balanced.

In a total exchange M/p is h, so that g1 and g2 cannot be told apart: unbalanced patterns are needed, and the fit is
refused where the design's condition number exceeds 30. The model is kept only where it predicts supersteps that nothing
was fitted from better than BSP does (Juurlink and Wijshoff, *The E-BSP model*, section 2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..estimates import Estimate, Flag
from ..flags import flag, left_out
from ..results import BSPFit, EBSPFit, Errors
from ..samples import Point, Sample
from .bootstrap import Table, uncertain
from .bsp import ROUNDING, across, errors, predict
from .intervals import Array, t_quantile
from .least_squares import FAR, condition, nonnegative, relative

REFUSED = 30.0  # condition number of the scaled design
UNBALANCED = 1.5  # p*h / M from which on a superstep counts as unbalanced
BETTER = 0.9  # of BSP's median error, that E-BSP's must be below
NAMES = ("g1", "g2", "o_msg", "s")


def fit_ebsp(
    samples: Sequence[Sample], bsp_fit: BSPFit, held_out: Sequence[Sample], p: int, seed: int = 0
) -> EBSPFit | None:
    """E-BSP parameters, and whether they are worth keeping; None where no superstep was measured.

    Args:
        samples: of experiments "bsp" and "unbalanced".
        bsp_fit: what BSP says of the same machine.
        held_out: of experiment "held-out".
        p: processors.
        seed: of the bootstrap.
    """
    whole = Table.of(samples)
    if not whole.points:
        return None
    parts = [whole]
    if len(bsp_fit.segments) > 1:
        parts.append(whole.only(lambda point: point.h >= bsp_fit.segments[-1].words * max(point.busiest, 1)))
    # One line for all sizes, unless it is much worse than one for large messages alone: E-BSP is about bandwidth.
    fits = [(part, _condition(part, p)) for part in parts]
    identified = [(part, *_residual(part, p)) for part, number in fits if number <= REFUSED]
    if not identified:
        doubt = flag("unidentifiable ebsp", "g1", condition=fits[0][1], most=REFUSED)
        return EBSPFit(None, None, None, None, fits[0][1], False, {}, (doubt,))
    table, _, free = identified[0] if identified[0][1] <= max(0.05, 1.5 * identified[-1][1]) else identified[-1]
    design, medians = _design(table.points, p), table.medians()
    found = np.zeros(4)
    rows = np.repeat(design, table.launches, axis=0)
    found[free] = nonnegative(rows[:, free], medians.ravel())
    noise = uncertain(table, lambda m: relative(rows[:, free], m.reshape(*m.shape[:-2], -1)), seed)
    half = _misfit(design[:, free], across(medians))
    flags = left_out([(point, launch) for point, launch in whole.left_out if point.experiment != "bsp"])
    estimates = [Estimate(0.0, 0.0, 0.0)] * 4
    for column, estimate, more in zip(free, noise, half, strict=True):
        value, reach = float(found[column]), float(more)
        low, high = min(estimate.low, estimate.value - reach), max(estimate.high, estimate.value + reach)
        estimates[column] = Estimate(value, min(low, value), max(high, value))
        if high * float(np.max(design[:, column] / across(medians))) < -ROUNDING:
            either = Estimate(estimate.value, low, high)
            flags.append(flag("negative ebsp", NAMES[column], name=NAMES[column], found=either))
    wrong = _errors(held_out, bsp_fit, estimates, p)
    adopted = bool(
        wrong["ebsp"].points
        and estimates[0].low > 0
        and wrong["ebsp"].median < BETTER * wrong["bsp"].median
        and wrong["ebsp"].p95 <= wrong["bsp"].p95
    )
    flags.append(_verdict(adopted, wrong, estimates[0]))
    g1, g2, o_msg, s = estimates
    return EBSPFit(g1, g2, s, o_msg, _condition(table, p), adopted, wrong, tuple(flags))


def _design(points: Sequence[Point], p: int) -> Array:
    """Columns M/p, h, m, 1."""
    return np.array([(q.M / p, q.h, q.busiest, 1.0) for q in points], dtype=np.float64).reshape(-1, 4)


def _free(table: Table, p: int) -> list[int]:
    """Columns that are fitted: all, but o_msg where the number of messages does not vary by itself."""
    design, times = _design(table.points, p), across(table.medians())
    return [0, 1, 2, 3] if condition(design, times) <= REFUSED else [0, 1, 3]


def _condition(table: Table, p: int) -> float:
    return condition(_design(table.points, p)[:, _free(table, p)], across(table.medians()))


def _residual(table: Table, p: int) -> tuple[float, list[int]]:
    """Root mean square of the relative residuals, and the columns fitted."""
    free, times = _free(table, p), across(table.medians())
    design = _design(table.points, p)[:, free]
    return math.sqrt(float(np.nanmean((design @ nonnegative(design, times) / times - 1) ** 2))), free


def _misfit(design: Array, times: Array) -> Array:
    """Half the 95 % interval that the residuals themselves suggest, whatever they come from (MacKinnon, White: HC3).

    How patterns differ from the model matters more here than how samples differ: a g1 that only mends what is wrong
    with g2*h must not look certain.
    """
    fitted = np.maximum(design @ relative(design, times), times / FAR)
    rows = design / fitted[:, None]
    inverse = np.linalg.pinv(rows.T @ rows, rcond=1e-14, hermitian=True)
    leverage = np.einsum("ij,jk,ik->i", rows, inverse, rows)
    residuals = (times / fitted - 1) / np.maximum(1 - leverage, 1e-6)
    variance = np.diagonal(inverse @ (rows.T * residuals**2) @ rows @ inverse)
    half: Array = t_quantile(float(max(1, len(times) - design.shape[1]))) * np.sqrt(np.maximum(variance, 0))
    return half


def _errors(held_out: Sequence[Sample], bsp_fit: BSPFit, estimates: Sequence[Estimate], p: int) -> dict[str, Errors]:
    table = Table.of(held_out)
    times = across(table.medians()) if table.points else np.zeros(0)
    bsp = np.array([predict(bsp_fit, point.h, point.busiest, point.items) for point in table.points])
    ebsp = _design(table.points, p) @ np.array([estimate.value for estimate in estimates])
    uneven = np.array([point.h > 0 and p * point.h >= UNBALANCED * point.M for point in table.points], dtype=bool)
    return {
        "bsp": errors(bsp, times),
        "ebsp": errors(ebsp, times),
        "bsp unbalanced": errors(bsp[uneven], times[uneven]),
        "ebsp unbalanced": errors(ebsp[uneven], times[uneven]),
    }


def _verdict(adopted: bool, wrong: dict[str, Errors], g1: Estimate) -> Flag:
    if not wrong["ebsp"].points:
        return flag("ebsp-dropped unseen", "g1")
    compared = {"ebsp": wrong["ebsp"].median, "bsp": wrong["bsp"].median}
    if adopted:
        return flag("ebsp-kept", "g1", **compared)
    return flag("ebsp-dropped zero" if g1.low <= 0 else "ebsp-dropped", "g1", **compared)
