"""Least squares of relative residuals, for many sets of times at once.

Times span many octaves and their noise is proportional to them: residuals are relative (weights 1/T^2). Relative to the
measured time they favour points that happened to be fast; relative to the fitted time, a fit that is too long looks
good, since no residual then exceeds 1. So they are logarithms, log(T/fitted), which treat twice and half alike and are
centred where the median of log-normal noise is; from a start with the geometric mean of both weights.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from .intervals import Array

STEPS, STARTING = 5, 2
FAR = 3.0  # times longer or shorter than the fit; a point beyond has no more say


def relative(design: Array, times: Array) -> Array:
    """Parameters that minimise the sum of log(T / (design @ parameters))^2.

    Args:
        design: (rows, parameters).
        times: (..., rows), above 0; NaN where there is none.

    Returns:
        (..., parameters); NaN where the rows that are there do not determine them.
    """
    there = np.isfinite(times)
    known = np.where(there, times, 1.0)
    found = _solve(design, known, np.where(there, 1 / known, 0.0))
    for number in range(STEPS):
        # Clipped: a time that is far off must not have all the say.
        fitted = np.clip(found @ design.T, known / FAR, known * FAR)
        if number < STARTING:
            found = _solve(design, known, np.where(there, 1 / np.sqrt(known * fitted), 0.0))
        else:  # Gauss-Newton
            found = _solve(design, fitted * (1 + np.log(known / fitted)), np.where(there, 1 / fitted, 0.0))
    return found


def _solve(design: Array, times: Array, weights: Array) -> Array:
    """Weighted normal equations, columns brought to length 1 first; NaN where singular."""
    columns = design.shape[1]
    if not columns:
        return np.zeros((*times.shape[:-1], 0))
    rows = weights[..., None] * design
    length = np.sqrt(np.sum(rows**2, axis=-2))
    length = np.where(length > 0, length, np.nan)
    rows = rows / length[..., None, :]
    matrix = np.swapaxes(rows, -1, -2) @ rows
    right = np.sum(rows * (weights * times)[..., None], axis=-2)
    singular = np.asarray(~np.isfinite(matrix).all(axis=(-1, -2)))
    matrix = np.where(singular[..., None, None], np.eye(columns), matrix)
    singular |= np.linalg.eigvalsh(matrix)[..., 0] < 1e-11
    matrix = np.where(singular[..., None, None], np.eye(columns), matrix)
    solution = np.linalg.solve(matrix, right[..., None])[..., 0] / length
    return np.asarray(np.where(singular[..., None], np.nan, solution))


def nonnegative(design: Array, times: Array) -> Array:
    """As `relative`, of one set of times, with no parameter below 0: the best over all sets of parameters held at 0."""
    columns = design.shape[1]
    best, least = np.zeros(columns), np.inf
    there = np.isfinite(times)
    for size in range(columns, -1, -1):
        for free in combinations(range(columns), size):
            candidate = np.zeros(columns)
            candidate[list(free)] = relative(design[:, free], times)
            if not np.isfinite(candidate).all() or (candidate < 0).any():
                continue
            ratio = np.maximum((design @ candidate)[there] / times[there], 1e-6)  # nothing at all is far off
            left = float(np.sum(np.log(ratio) ** 2))
            if left < least:
                best, least = candidate, left
        if np.isfinite(least) and size == columns:
            break  # no parameter has to be 0
    return best


def condition(design: Array, times: Array) -> float:
    """Condition number of the relative design, columns brought to length 1; infinite where rows are too few."""
    there = np.isfinite(times)
    rows = design[there] / times[there][:, None]
    if rows.shape[0] < rows.shape[1]:
        return float("inf")
    length = np.sqrt(np.sum(rows**2, axis=0))
    if not (length > 0).all():
        return float("inf")
    values = np.linalg.svd(rows / length, compute_uv=False)
    return float(values[0] / values[-1]) if values[-1] > values[0] * 1e-14 else float("inf")
