"""Networks of processors, on which relations are routed packet by packet, with exact numbers of steps.

    network.py      what a network is; `Network.route`
    simulator.py    how packets move
    ports.py        networks given by the neighbours of each node
    fit.py          which p fit
    efficiency.py   what a BSP computer on a hypercube needs, by formulas

and a file for each network. `network(name, p)` makes those of NETWORKS.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ...errors import RoutingError
from .application_cube import ApplicationCube as ApplicationCube
from .array import Array as Array
from .array import LinearArray as LinearArray
from .array import SquareArray as SquareArray
from .butterfly import Butterfly as Butterfly
from .cube_connected_cycles import CubeConnectedCycles as CubeConnectedCycles
from .fat_tree import FatTree as FatTree
from .hypercube import Hypercube as Hypercube
from .mesh import Mesh as Mesh
from .mesh_of_trees import MeshOfTrees as MeshOfTrees
from .multibutterfly import Multibutterfly as Multibutterfly
from .network import Network as Network
from .pruned_butterfly import PrunedButterfly as PrunedButterfly
from .shuffle_exchange import ShuffleExchange as ShuffleExchange
from .simulator import Traffic as Traffic

# Each is made from the number of processors alone; what else a class takes has a default.
NETWORKS: dict[str, Callable[[int], Network]] = {
    "linear-array": LinearArray,
    "2d-array": partial(SquareArray, d=2),
    "3d-array": partial(SquareArray, d=3),
    "snake-mesh": partial(Mesh, indexing="snake"),
    "peano-mesh": partial(Mesh, indexing="peano"),
    "hypercube": Hypercube,
    "butterfly": Butterfly,
    "cube-connected-cycles": CubeConnectedCycles,
    "shuffle-exchange": ShuffleExchange,
    "mesh-of-trees": MeshOfTrees,
    "pruned-butterfly": PrunedButterfly,
    "fat-tree": FatTree,
    "multibutterfly": Multibutterfly,
}


def network(name: str, p: int) -> Network:
    """The network of this name with p processors.

    Raises:
        RoutingError: there is none of that name, or p does not fit it; the text names what would.

    Examples:
        >>> from pybsp.routing.networks import NETWORKS, network
        >>> network("hypercube", 64), len(NETWORKS)
        (<hypercube of 64>, 13)
    """
    if not isinstance(name, str) or name not in NETWORKS:
        raise RoutingError(f"network: name: expected one of {', '.join(sorted(NETWORKS))}, got {name!r}")
    return NETWORKS[name](p)
