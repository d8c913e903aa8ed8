"""A machine as a notebook shows it: its parameters with their units, and what h-relations cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..ground.drawing import Axis, lines, table

UNITS = {
    **dict.fromkeys(("g", "g1", "g2", "G_word"), "s/word"),
    **dict.fromkeys(("l", "s", "o_msg", "o_item", "step"), "s"),
    **dict.fromkeys(("L", "o", "G"), "steps"),
    "r": "flop/s",
}


def of_machine(kind: str, part: Mapping[str, Any], seconds: Callable[[float], float] | None) -> str:
    """The table of a machine, and the picture of an h-relation's time.

    Args:
        kind: its class.
        part: what a machine file holds of it.
        seconds: of an h-relation of so many words; None where that is not the model's.
    """
    figures = [
        [name, f"{value:.4g}" if isinstance(value, float) else str(value), UNITS.get(name, "")]
        for name, value in part.items()
        if isinstance(value, (int, float, str)) and value != ""
    ]
    found = f"<p><b>{kind}</b></p>{table(['parameter', 'value', 'unit'], figures)}"
    if seconds is None:
        return found
    h = np.logspace(0, 7, 71)
    times = np.array([seconds(words) for words in h.tolist()])
    if not (np.isfinite(times) & (times > 0)).all():
        return found
    drawn = lines(h, [times], [""], Axis.over(h, "h [words]", log=True), Axis.over(times, "seconds", log=True))
    return f'{found}<div style="max-width:640px">{drawn}</div>'
