"""Communication primitives, written against the public BSP interface alone; one algorithm a file.

Each is a collective function of a `pybsp.BSP`, and carries `cost(machine, words, ...)`, what it costs, exactly, and
`plan(p, ...)`, who sends what to whom in each superstep.
"""

from .allreduce import allreduce
from .broadcast import broadcast
from .broadcast_items import broadcast_items
from .prefix import prefix
from .prefix_2d import prefix_2d
from .reduce import reduce

__all__ = ["allreduce", "broadcast", "broadcast_items", "prefix", "prefix_2d", "reduce"]
