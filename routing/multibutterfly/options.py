"""How the router `multibutterfly` is asked for."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...errors import argument_error
from ...ground.convert import whole
from ...machines.bsp import BSPMachine
from ...machines.ebsp import EBSPMachine
from ...transport.memory import ALIGN as CELL
from ..forwarding.options import LARGEST
from .parameters import Parameters

MOST = 1 << 16  # edges, rows and repetitions: more would fill memory, or take for ever


@dataclass(frozen=True)
class MultibutterflyRouting:
    """What `router=` may be beside a name; made by `multibutterfly_router`. Compares by value, and can be pickled.

    Examples:
        >>> from pybsp.routing import MultibutterflyRouting, multibutterfly_router
        >>> router = multibutterfly_router()
        >>> isinstance(router, MultibutterflyRouting), router.name, router == multibutterfly_router(seed=1)
        (True, 'multibutterfly', False)
    """

    d: int = 20
    R: int = Parameters().R
    L: int = 32
    Z: int = Parameters().Z
    Y: int = Parameters().Y
    seed: int = 0
    packet: int = 1024
    stream: int = 1024

    name = "multibutterfly"

    @property
    def parameters(self) -> Parameters:
        return Parameters(self.R, self.Z, self.Y)

    def on(self, machine: BSPMachine | EBSPMachine) -> MultibutterflyRouting:
        return self

    def rows(self, p: int) -> int:
        """N, the rows of the network for p processors: the smallest power of two of at least L*p."""
        return 1 << (self.L * p - 1).bit_length()


def multibutterfly_router(
    *,
    d: int = MultibutterflyRouting.d,
    R: int = MultibutterflyRouting.R,
    L: int = MultibutterflyRouting.L,
    Z: int = MultibutterflyRouting.Z,
    Y: int = MultibutterflyRouting.Y,
    seed: int = 0,
    packet: int = MultibutterflyRouting.packet,
    stream: int = MultibutterflyRouting.stream,
) -> MultibutterflyRouting:
    """A value of `router=` for `pybsp.run`, `simulate` and `attach`: supersteps over a multibutterfly.

    Args:
        d, R, Z, Y: of the network and its protocol, see `protocol.py`; at most 2^16.
        L: rows of which one is a processor's: N is the smallest power of two of at least L*p; at most 2^16.
        seed: of the network.
        packet: bytes of a packet, a message of the h-relation, at most: 16 to 2^40, of which whole multiples of 16 are
            used.
        stream: packets of more bytes than this first select their paths; then their data follows.

    Raises:
        UsageError: an argument that cannot be right.

    Examples:
        >>> from pybsp.routing import multibutterfly_router
        >>> def main(bsp):
        ...     bsp.send((bsp.pid + 1) % bsp.p, bsp.pid)
        ...     bsp.sync()
        ...     return bsp.inbox[0].payload
        >>> pybsp.simulate(main, p=2, router=multibutterfly_router(seed=1)).results
        [1, 0]
    """
    operation = "pybsp.routing.multibutterfly_router"
    ranges = {
        "d": (d, 1, MOST),
        "L": (L, 1, MOST),
        "Z": (Z, 1, MOST),
        "Y": (Y, 1, MOST),
        "packet": (packet, CELL, LARGEST),
        "seed": (seed, 0, math.inf),
        "stream": (stream, 0, math.inf),
    }
    numbers = {}
    for name, (value, least, most) in ranges.items():
        number = whole(value)
        if number is None or not least <= number <= most:
            fits = f"of at least {least}" if most == math.inf else f"from {least} to {most}"
            raise argument_error(operation, name, f"a whole number {fits}", repr(value))
        numbers[name] = number
    selected = whole(R)
    if selected is None or selected <= 4 or selected & (selected - 1):
        raise argument_error(operation, "R", "a power of two greater than 4", repr(R))
    if numbers["d"] < selected:
        raise argument_error(operation, "d", f"at least R = {selected}", repr(d))
    return MultibutterflyRouting(R=selected, **numbers)
