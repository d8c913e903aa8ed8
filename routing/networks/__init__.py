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
    from .application_cube import ApplicationCube as ApplicationCube
    from .array import Array as Array
    from .array import LinearArray as LinearArray
    from .array import SquareArray as SquareArray
    from .butterfly import Butterfly as Butterfly
    from .clos import KaryFatTree as KaryFatTree
    from .cube_connected_cycles import CubeConnectedCycles as CubeConnectedCycles
    from .dragonfly import Dragonfly as Dragonfly
    from .fat_tree import FatTree as FatTree
    from .flow import Flow as Flow
    from .flow import flow as flow
    from .heat_map import heat_map as heat_map
    from .hypercube import Hypercube as Hypercube
    from .injections import Injections as Injections
    from .load import LoadPoint as LoadPoint
    from .load import latency_against_load as latency_against_load
    from .load import saturation as saturation
    from .load import saturation_bound as saturation_bound
    from .mesh import Mesh as Mesh
    from .mesh_of_trees import MeshOfTrees as MeshOfTrees
    from .multibutterfly import Multibutterfly as Multibutterfly
    from .network import Network as Network
    from .pruned_butterfly import PrunedButterfly as PrunedButterfly
    from .shuffle_exchange import ShuffleExchange as ShuffleExchange
    from .simulator import Traffic as Traffic
    from .torus import SquareTorus as SquareTorus
    from .torus import Torus as Torus

    # isort: split
    from .by_name import NETWORKS as NETWORKS
    from .by_name import network as network  # the last: a type checker takes `.network` for the module before

if not TYPE_CHECKING:
    __getattr__, __dir__, __all__ = lazy(
        __name__,
        {
            ".application_cube": ("ApplicationCube",),
            ".array": ("Array", "LinearArray", "SquareArray"),
            ".butterfly": ("Butterfly",),
            ".by_name": ("NETWORKS", "network"),
            ".clos": ("KaryFatTree",),
            ".cube_connected_cycles": ("CubeConnectedCycles",),
            ".dragonfly": ("Dragonfly",),
            ".fat_tree": ("FatTree",),
            ".flow": ("Flow", "flow"),
            ".heat_map": ("heat_map",),
            ".hypercube": ("Hypercube",),
            ".injections": ("Injections",),
            ".load": ("LoadPoint", "latency_against_load", "saturation", "saturation_bound"),
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
