"""Predictions as pictures and tables of HTML: in a notebook, and on the page of `pybsp predict --html`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from ..ground.drawing import Axis, bars, lines, table
from .pictures import ROWS, more_labels, note, shown_label
from .records import AFTER, TOTAL

if TYPE_CHECKING:
    from .prediction import Prediction, Predictions


def of_prediction(one: Prediction) -> str:
    """A prediction, as a notebook shows it: label by label, of very many the dearest."""
    head = [
        "label",
        "supersteps",
        "time [s]",
        "+- [s]",
        "imbalance",
        "computing",
        "exchange",
        "latency",
        "part of time",
    ]
    labels = [*one.labels.values()]
    left = len(labels) - ROWS
    if left > 0:
        labels = sorted(labels, key=lambda label: label.time, reverse=True)[:ROWS]
    rows = [
        [
            *(TOTAL if label is one else row_name(label), f"{label.supersteps}", f"{label.time:.4g}"),
            *(label.bar, f"{label.imbalance:.3g}", *(f"{100 * part:.3g} %" for part in label.parts)),
            f"{100 * label.time / (one.time or 1.0):.3g} %",
        ]
        for label in (*labels, one)
    ]
    return f"<p><b>p = {one.p}: {one.time:.4g} s predicted</b></p>{table(head, rows, last=True)}{more_labels(left)}"


def row_name(one: Prediction) -> str:
    """The name of the row of a label, or of what is after the last superstep."""
    return shown_label(one.label) if one.supersteps else AFTER


def of_predictions(found: Predictions) -> str:
    """Predictions over p, as a notebook shows them."""
    scaling = "input that grows with p" if found.weak else "the same input for each p"
    drawn = "".join(pictures(found))
    return f'{note(f"Predicted: {scaling}")}<div style="max-width:640px">{drawn}</div>{table(*found.table())}'


def pictures(found: Predictions) -> Iterator[str]:
    """Time, speed-up, efficiency and imbalance over p, and what the time goes to."""
    if not found:
        return
    p, time, weak = found.p.astype(float), found.time, found.weak
    if len(found) > 1 and (time > 0).all():
        along = Axis.over(p, "p", log=True)
        ideal = np.full_like(time, time[0]) if weak else time[0] * p[0] / p
        up = Axis.over(np.concatenate([time, ideal]), "seconds", log=True)
        best = f"that of p = {found[0].p}" + ", divided" * (not weak)
        yield "<h3>Time</h3>"
        yield lines(p, [time, ideal], ["predicted", best], along, up)
        speedup, more = found.speedup, p / p[0]
        yield f"<h3>Speed-up over p = {found[0].p}</h3>"
        up = Axis.over(np.concatenate([speedup, more]), "speed-up", log=True)
        yield lines(p, [speedup, more], ["predicted", "as many times as processors"], along, up)
        yield "<h3>Efficiency</h3>"
        yield lines(p, [found.efficiency], [""], along, Axis.over(found.efficiency, "speed-up a processor"))
        imbalance = np.array([one.imbalance for one in found])
        yield "<h3>Imbalance of computing (largest over mean)</h3>"
        yield lines(p, [imbalance], [""], along, Axis.over(imbalance, "largest/mean"))
    yield "<h3>What it goes to</h3>"
    layers = np.array([one.parts for one in found]).T
    names = ["computing", "exchange", "latency"]
    hints = [f"p = {one.p}: {one.time:.4g} s" for one in found]
    along = Axis(0, len(found), "p", counts=True, each=tuple(str(one.p) for one in found))
    yield bars(layers, names, along, "part of time", hints)
