"""The networks that are made by their names."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ...errors import RoutingError
from .array import LinearArray, SquareArray
from .butterfly import Butterfly
from .clos import KaryFatTree
from .cube_connected_cycles import CubeConnectedCycles
from .dragonfly import Dragonfly
from .fat_tree import FatTree
from .hypercube import Hypercube
from .mesh import Mesh
from .mesh_of_trees import MeshOfTrees
from .multibutterfly import Multibutterfly
from .network import Network
from .pruned_butterfly import PrunedButterfly
from .shuffle_exchange import ShuffleExchange
from .torus import SquareTorus

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
    "k-ary-fat-tree": KaryFatTree,
    "2d-torus": partial(SquareTorus, d=2),
    "3d-torus": partial(SquareTorus, d=3),
    "dragonfly": Dragonfly,
    "multibutterfly": Multibutterfly,
}


def network(name: str, p: int) -> Network:
    """The network of this name with p processors.

    Raises:
        RoutingError: there is none of that name, or p does not fit it; the text names what would.

    Examples:
        >>> from pybsp.routing.networks import NETWORKS, network
        >>> network("hypercube", 64), "hypercube" in NETWORKS
        (<hypercube of 64>, True)
    """
    if not isinstance(name, str) or name not in NETWORKS:
        raise RoutingError(f"network: name: expected one of {', '.join(sorted(NETWORKS))}, got {name!r}")
    return NETWORKS[name](p)
