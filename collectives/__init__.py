"""Communication primitives, written against the public BSP interface alone; one algorithm a file.

Each is a collective function of a `pybsp.BSP`, and carries `cost(machine, words, ...)`, what it costs, exactly, and `plan(p, ...)`,
who sends what to whom in each superstep.
"""

from .broadcast import broadcast
from .broadcast_items import broadcast_items

__all__ = ["broadcast", "broadcast_items"]
