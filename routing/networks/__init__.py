"""Networks of processors, on which relations are routed packet by packet, with exact numbers of steps.

    network.py      what a network is; `Network.route`
    graph.py        what packets move on
    simulator.py    how they move
    ports.py        networks given by the neighbours of each node
    fit.py          which p fit
    flow.py         how packets move that come in time, through finite buffers; what comes: injections.py; by which
                    links, where they see queues: adaptive.py; latency over load, saturation: load.py; heat_map.py
    bits.py         bits of many numbers

and a file for each network. `network(name, p)` makes those of NETWORKS (by_name.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...lazy import lazy

if TYPE_CHECKING:
    from .application_cube import ApplicationCube
    from .array import Array, LinearArray, SquareArray
    from .butterfly import Butterfly
    from .clos import KaryFatTree
    from .cube_connected_cycles import CubeConnectedCycles
    from .dragonfly import Dragonfly
    from .fat_tree import FatTree
    from .flow import Flow, flow
    from .heat_map import heat_map
    from .hypercube import Hypercube
    from .injections import Injections
    from .load import LoadPoint, latency_against_load, saturation, saturation_bound
    from .mesh import Mesh
    from .mesh_of_trees import MeshOfTrees
    from .multibutterfly import Multibutterfly
    from .network import Network
    from .pruned_butterfly import PrunedButterfly
    from .shuffle_exchange import ShuffleExchange
    from .simulator import Traffic
    from .torus import SquareTorus, Torus

    # isort: split
    from .by_name import NETWORKS, network  # the last: a type checker takes `.network` for the module before

__all__ = [
    "NETWORKS",
    "ApplicationCube",
    "Array",
    "Butterfly",
    "CubeConnectedCycles",
    "Dragonfly",
    "FatTree",
    "Flow",
    "Hypercube",
    "Injections",
    "KaryFatTree",
    "LinearArray",
    "LoadPoint",
    "Mesh",
    "MeshOfTrees",
    "Multibutterfly",
    "Network",
    "PrunedButterfly",
    "ShuffleExchange",
    "SquareArray",
    "SquareTorus",
    "Torus",
    "Traffic",
    "flow",
    "heat_map",
    "latency_against_load",
    "network",
    "saturation",
    "saturation_bound",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(
        __name__,
        {
            ".application_cube": ("ApplicationCube",),
            ".array": (
                "Array",
                "LinearArray",
                "SquareArray",
            ),
            ".butterfly": ("Butterfly",),
            ".by_name": (
                "NETWORKS",
                "network",
            ),
            ".clos": ("KaryFatTree",),
            ".cube_connected_cycles": ("CubeConnectedCycles",),
            ".dragonfly": ("Dragonfly",),
            ".fat_tree": ("FatTree",),
            ".flow": ("Flow", "flow"),
            ".heat_map": ("heat_map",),
            ".hypercube": ("Hypercube",),
            ".injections": ("Injections",),
            ".load": (
                "LoadPoint",
                "latency_against_load",
                "saturation",
                "saturation_bound",
            ),
            ".mesh": ("Mesh",),
            ".mesh_of_trees": ("MeshOfTrees",),
            ".multibutterfly": ("Multibutterfly",),
            ".network": ("Network",),
            ".pruned_butterfly": ("PrunedButterfly",),
            ".shuffle_exchange": ("ShuffleExchange",),
            ".simulator": ("Traffic",),
            ".torus": ("SquareTorus", "Torus"),
        },
    )
