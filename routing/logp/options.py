"""How a router that routes by LogP messages is asked for."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import argument_error
from ...ground.convert import whole
from ...logp.arguments import CAPACITIES, SCHEDULES
from ...machines.bsp import BSPMachine
from ...machines.ebsp import EBSPMachine
from ...machines.logp import LogPMachine

ALGORITHMS = ("sorted", "offline", "random")
BETA_END = 1e100  # costs by larger ones may be beyond all floats


@dataclass(frozen=True)
class LogPRouting:
    """What `router=` may be beside a name; made by `logp_router`. Compares by value, and can be pickled.

    Examples:
        >>> from pybsp.routing import LogPRouting, logp_router
        >>> router = logp_router("offline")
        >>> isinstance(router, LogPRouting), router.name, router == logp_router("offline", seed=1)
        (True, 'logp-offline', False)
    """

    algorithm: str
    machine: LogPMachine | None = None
    schedule: str = "latest"
    seed: int = 0
    packet: int = 1024
    capacity: str | None = "global"
    beta: float | None = None

    @property
    def name(self) -> str:
        return f"logp-{self.algorithm}"

    def on(self, machine: BSPMachine | EBSPMachine) -> LogPRouting:
        """With the LogP machine filled in, for as many processors as the BSP machine has.

        Raises:
            UsageError: max{2, o} <= G <= L does not hold.
        """
        from ...logp.simulation import machine_in_force  # which imports much

        found = self.machine or machine_in_force() or LogPMachine.from_bsp(machine, -(-self.packet // 8))
        found.require(f'router "{self.name}"')
        return dataclasses.replace(self, machine=found).of(machine.p)

    def of(self, p: int) -> LogPRouting:
        """With a machine of so many processors; a message is a packet, and what its words take is in G."""
        assert self.machine is not None
        return dataclasses.replace(self, machine=dataclasses.replace(self.machine, p=p, G_word=None))


def logp_router(
    algorithm: str,
    *,
    machine: LogPMachine | None = None,
    schedule: str = "latest",
    seed: int = 0,
    packet: int = 1024,
    capacity: str | None = "global",
    beta: float | None = None,
) -> LogPRouting:
    """A value of `router=` for `pybsp.run`, `simulate` and `attach`: supersteps by LogP messages alone.

    Args:
        algorithm: "sorted" (Theorem 2), "offline" (Hall) or "random" (Theorem 3).
        machine: the LogP machine, for any p; None: the file that PYBSP_MACHINE names, if it has one, else one of the
            g and l of the BSP machine, for messages of a packet.
        schedule: on virtual processors, what decides when messages are delivered, as in `pybsp.logp.simulate`:
            "latest", "earliest", "random" or "adversary".
        seed: of the schedule "random" and of the algorithm "random"; each superstep derives its own from it.
        packet: bytes that one LogP message carries, at most.
        capacity: on MPI ranks, how the capacity is kept, as in `pybsp.logp.run`: "global", "window", "per-pair" or
            None.
        beta: of the algorithm "random": more batches, fewer stalls; above 0. None: what is expected to cost
            least; some processors may then stall for a while.

    Raises:
        UsageError: an argument that cannot be right.

    Examples:
        >>> from pybsp.routing import logp_router
        >>> def main(bsp):
        ...     bsp.send((bsp.pid + 1) % bsp.p, bsp.pid)
        ...     bsp.sync()
        ...     return bsp.inbox[0].payload
        >>> pybsp.simulate(main, p=4, router=logp_router("offline", schedule="random", seed=1)).results
        [3, 0, 1, 2]
    """
    operation = "pybsp.routing.logp_router"
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise argument_error(operation, "algorithm", f"one of {', '.join(ALGORITHMS)}", repr(algorithm))
    if machine is not None and not isinstance(machine, LogPMachine):
        raise argument_error(operation, "machine", "a pybsp.LogPMachine", repr(machine))
    if not isinstance(schedule, str) or schedule not in SCHEDULES:
        raise argument_error(operation, "schedule", f"one of {', '.join(SCHEDULES)}", repr(schedule))
    begin, size = whole(seed), whole(packet)
    if begin is None:
        raise argument_error(operation, "seed", "a whole number", repr(seed))
    if size is None or size < 1:
        raise argument_error(operation, "packet", "a whole number of bytes of at least 1", repr(packet))
    if not isinstance(capacity, str | None) or capacity not in CAPACITIES:
        raise argument_error(operation, "capacity", '"global", "window", "per-pair" or None', repr(capacity))
    more: Any = float(beta) if isinstance(beta, (np.integer, np.floating)) else beta
    if more is not None and not (type(more) in (int, float) and 0 < more < BETA_END):
        raise argument_error(operation, "beta", f"a number above 0 and below {BETA_END:g}, or None", repr(beta))
    return LogPRouting(algorithm, machine, schedule, begin, size, capacity, more)
