"""The same as in the tables, drawn; needs matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .works.fine import BY_HAND

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw(pyplot: Any, content: Mapping[str, Any]) -> Any:
    """One page: for each run blocks, messages and ratios to bars; then growth over p."""
    runs, grown = content["runs"], content["growth"]
    height = len(runs) + bool(grown)
    page, axes = pyplot.subplots(height, 3, figsize=(15, 4.5 * height), layout="constrained", squeeze=False)
    for run, (left, middle, right) in zip(runs, axes, strict=False):
        where = f"p = {run['p']}, {run['family']}" + (", emulated hosts" if run["network"] else "")
        _over_size(left, run, "blocks", "bytes_per_second", 1e-9)
        left.set(title=f"blocks to every other ({where})", xlabel="bytes", ylabel="GB/s of a processor")
        _over_size(middle, run, "relation", "items_per_second", 1e-6)
        middle.set(title=f"messages of 8 bytes ({where})", xlabel="messages", ylabel="million/s of a processor")
        _bars(right, run["works"])
        right.set(title=f"time over its bar ({where})", xlabel="below 1: reached")
    if grown:
        _growth(axes[-1][0], grown)
        for spare in axes[-1][1:]:
            spare.set_axis_off()
    return page


def _over_size(axis: Axes, run: Mapping[str, Any], work: str, what: str, unit: float) -> None:
    drawn: dict[str, list[tuple[int, float]]] = {}
    for row in run["works"]:
        if row["work"] == work and "forms" in row:
            for name, variant in row["forms"].items():
                drawn.setdefault(name, []).append((row["size"], unit * variant[what]))
    for name, points in drawn.items():
        axis.plot(*zip(*points, strict=True), "o-", markersize=4, label="by hand" if name == BY_HAND else name)
    if drawn:
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.legend(fontsize="small")


def _bars(axis: Axes, works: Sequence[Mapping[str, Any]]) -> None:
    found = [
        (f"{row['title']}\nagainst {ratio['against']}", ratio)
        for row in works
        for ratio in row.get("ratios", ())
        if "bar" in ratio
    ]
    for k, (_, ratio) in enumerate(found):
        low, middle, high = (ratio[key] / ratio["bar"] for key in ("low", "median", "high"))
        axis.errorbar(middle, k, xerr=[[middle - low], [high - middle]], fmt="o", capsize=3)
    axis.set_xscale("log")
    axis.axvline(1, color="grey", linewidth=1)
    axis.set_yticks(range(len(found)), [text for text, _ in found], fontsize="x-small")
    axis.invert_yaxis()


def _growth(axis: Axes, rows: Sequence[Mapping[str, Any]]) -> None:
    drawn: dict[str, list[tuple[int, float]]] = {}
    for row in rows:
        drawn.setdefault(row["pattern"], []).append((row["p"], 1e6 * row["seconds"]))
    for pattern, points in drawn.items():
        axis.plot(*zip(*points, strict=True), "o-", markersize=4, label=pattern)
    axis.set(title="supersteps of virtual processors", xlabel="p", ylabel="us for each processor")
    axis.set_xscale("log", base=2)
    axis.set_ylim(bottom=0)
    axis.legend(fontsize="small")
