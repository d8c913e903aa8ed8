"""The load of links as a picture."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from ...errors import UsageError, brief
from .flow import Flow


def heat_map(flow: Flow, path: str | None = None) -> Any:
    """Draw for which part of the time each link was busy.

    Arrays and tori of two dimensions are drawn as they lie, each link as an arrow of its colour; of other networks a
    matrix is drawn, from the node of its row to that of its column.

    Args:
        flow: what became of the packets.
        path: a file to write (.png, .svg, .pdf); None: none.

    Returns:
        matplotlib's figure.

    Raises:
        UsageError: no Flow; matplotlib is missing; the file cannot be written.

    Examples:
        >>> from pybsp.routing import networks
        >>> torus = networks.Torus((4, 4))
        >>> done = networks.flow(torus, networks.Injections.open(16, load=0.5, steps=200))
        >>> networks.heat_map(done, "load.svg").axes[0].get_title()
        'torus of 4 x 4: links busy up to 37 % of 203 steps'
    """
    if not isinstance(flow, Flow):
        raise UsageError(
            f"heat_map: flow: expected a Flow, as networks.flow(network, injections) gives, got {brief(flow, 80)}"
        )
    try:
        figures = importlib.import_module("matplotlib.figure")
        ticker = importlib.import_module("matplotlib.cm")
    except ImportError:
        raise UsageError("heat_map: needs matplotlib: pip install matplotlib") from None
    network, busy = flow.network, flow.utilization
    figure = figures.Figure(layout="constrained")
    axes = figure.subplots()
    where = getattr(network, "coordinates", None)
    if where is not None and where.shape[1] == 2:
        tails, heads = where[network.tails][:, ::-1].astype(float), where[network.heads][:, ::-1].astype(float)
        way = heads - tails
        round_ = np.abs(way).max(axis=1) > 1  # links that close a ring are drawn as stubs, on its outer sides
        way[round_] = -0.5 * np.sign(way[round_])
        side = 0.08 * np.stack((-way[:, 1], way[:, 0]), axis=1)  # the two links of an edge, beside each other
        drawn = axes.quiver(
            *(tails + side).T, *way.T, busy, cmap="inferno_r", angles="xy", scale_units="xy", scale=1, width=0.006
        )
        axes.plot(*where[:, ::-1].T, "o", color="grey", markersize=4)
        axes.set(aspect="equal")
        axes.invert_yaxis()
    else:
        matrix = np.zeros((network.nodes, network.nodes))
        np.maximum.at(matrix, (network.tails, network.heads), busy)
        drawn = axes.imshow(np.ma.masked_equal(matrix, 0), cmap="inferno_r", interpolation="nearest")
        axes.set(xlabel="to node", ylabel="from node")
    drawn.set_clim(0, max(float(busy.max(initial=0)), 1e-9))
    figure.colorbar(
        ticker.ScalarMappable(drawn.norm, drawn.cmap), ax=axes, label="part of the time that a link is busy"
    )
    axes.set_title(
        f"{network.name}: links busy up to {busy.max(initial=0):.0%}".replace("%", " %") + f" of {flow.steps} steps"
    )
    if path is not None:
        try:
            figure.savefig(path)
        except (OSError, ValueError) as error:
            raise UsageError(f"heat_map: path: cannot write {path!r}: {error}") from None
    return figure
