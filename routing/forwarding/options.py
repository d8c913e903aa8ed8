"""How a router that forwards is asked for."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import argument_error
from ...ground.convert import whole
from ...machines.bsp import BSPMachine
from ...machines.ebsp import EBSPMachine
from ...transport.memory import ALIGN as CELL

PACKET = 1024  # bytes
LARGEST = 1 << 40


@dataclass(frozen=True)
class Forwarding:
    """What `router=` may be beside a name; made by `two_phase_router` and `hypercube_router`.

    Compares by value, and can be pickled.

    Examples:
        >>> from pybsp.routing import Forwarding, two_phase_router
        >>> router = two_phase_router(packet=256)
        >>> isinstance(router, Forwarding), router.name, router == two_phase_router(packet=256, seed=1)
        (True, 'two-phase', False)
    """

    name: str
    packet: int = PACKET
    seed: int = 0

    def on(self, machine: BSPMachine | EBSPMachine) -> Forwarding:
        """These routers need to know nothing of the machine."""
        return self


def two_phase_router(*, packet: int = PACKET, seed: int = 0) -> Forwarding:
    """A value of `router=` for `pybsp.run`, `simulate` and `attach`: by way of random processors, in two exchanges.

    Args:
        packet: bytes that travel together, at most: 16 to 2^40, of which whole multiples of 16 are used.
        seed: of the intermediate processors, which differ from superstep to superstep.

    Raises:
        UsageError: an argument that cannot be right.

    Examples:
        >>> from pybsp.routing import two_phase_router
        >>> def main(bsp):
        ...     bsp.send((bsp.pid + 1) % bsp.p, np.zeros(1000))
        ...     bsp.sync()
        ...     return len(bsp.inbox)
        >>> pybsp.simulate(main, p=4, router=two_phase_router(packet=256, seed=1)).results
        [1, 1, 1, 1]
    """
    return _options("two-phase", packet, seed)


def hypercube_router(*, packet: int = PACKET, seed: int = 0) -> Forwarding:
    """A value of `router=` for `pybsp.run`, `simulate` and `attach`: likewise, along the dimensions of a hypercube.

    Args, raises: as for `two_phase_router`.

    Examples:
        >>> from pybsp.routing import hypercube_router
        >>> def main(bsp):
        ...     bsp.send((bsp.pid + 1) % bsp.p, bsp.pid)
        ...     bsp.sync()
        ...     return bsp.inbox[0].payload
        >>> pybsp.simulate(main, p=4, router=hypercube_router()).results
        [3, 0, 1, 2]
    """
    return _options("hypercube", packet, seed)


def _options(name: str, packet: int, seed: int) -> Forwarding:
    operation = f"pybsp.routing.{name.replace('-', '_')}_router"
    size, begin = whole(packet), whole(seed)
    if size is None or not CELL <= size <= LARGEST:
        raise argument_error(operation, "packet", f"a whole number of bytes from {CELL} to {LARGEST}", repr(packet))
    if begin is None:
        raise argument_error(operation, "seed", "a whole number", repr(seed))
    return Forwarding(name, size, begin)
