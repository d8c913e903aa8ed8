"""A network as the medium of a LogP machine: messages are packets, and arrive when these do."""

from __future__ import annotations

from collections.abc import Set

import numpy as np
from numpy.typing import NDArray

from ...errors import RoutingError
from ...logp.schedule import Schedule
from ...machines.logp import LogPMachine
from ..networks.network import Network, check_network, check_two_phase
from ..seeds import Seed, generator


class NetworkSchedule(Schedule):
    """A schedule of `pybsp.logp.simulate`: each message crosses a network, a link a step, store and forward.

    Of the packets that wait for a link that goes first which was accepted first, so that nothing delays a packet that
    comes later than it; of those that have come to their end one is delivered in a step, in the same order. Packets
    between two nodes go one way, the first that the network's `step` draws. A message is one packet, whatever its size.

    Args:
        network: which; of as many processors as the machine.
        two_phase: each packet first goes to a node drawn of `middles` (Valiant).
        seed: of what is drawn.

    Attributes:
        steps: of each message of the last simulation in the order of acceptance, from that to its delivery; shape
            (messages,).

    Raises:
        UsageError: no network, no seed, no two_phase.
        RoutingError: by the simulation: a network of another p; a message that takes more than L steps, so that the
            machine is none that this network can be.

    Source: *BSP vs LogP*, section 5.

    Examples:
        >>> from pybsp.routing import NetworkSchedule, networks
        >>> cube = NetworkSchedule(networks.Hypercube(16))
        >>> def program(proc):  # to the farthest processor, and to its neighbours
        ...     for dest in proc.p - 1 - proc.pid, proc.pid ^ 1, proc.pid ^ 8:
        ...         proc.send(dest, proc.pid)
        ...     return sum(proc.recv().payload for _ in range(3))
        >>> machine = pybsp.LogPMachine(p=16, L=5, o=1, G=2)
        >>> done = pybsp.logp.simulate(program, machine=machine, schedule=cube)
        >>> done.results[0], done.stalled, np.bincount(cube.steps).tolist()
        (24, 0, [0, 32, 0, 0, 16])
    """

    def __init__(self, network: Network, *, two_phase: bool = False, seed: Seed = 0) -> None:
        check_network("NetworkSchedule", network)
        check_two_phase("NetworkSchedule", two_phase)
        generator("NetworkSchedule", seed)
        self._network, self._two_phase, self._seed = network, two_phase, seed
        self._steps: list[int] = []

    def begin(self, machine: LogPMachine) -> None:
        super().begin(machine)
        if machine.p != self._network.p:
            raise RoutingError(
                f"NetworkSchedule: expected a network of p = {machine.p} processors, as the machine has, got "
                f"{self._network!r}"
            )
        self._rng = generator("NetworkSchedule", self._seed)
        self._ways: dict[tuple[int, int], list[int]] = {}
        self._busy: list[set[int]] = [set() for _ in self._network.tails]  # in which steps each link carries a packet
        self._steps = []

    @property
    def steps(self) -> NDArray[np.int64]:
        return np.array(self._steps, np.int64)

    def delivery(self, source: int, dest: int, accepted: int, taken: Set[int]) -> int:
        network = self._network
        begin, end = int(network.places[source]), int(network.ends[dest])
        if self._two_phase:
            via = int(network.middles[self._rng.integers(len(network.middles))])
            way = self._way(begin, via) + self._way(via, end)
        else:
            way = self._way(begin, end)
        now = accepted
        for link in way:
            busy = self._busy[link]
            while now in busy:
                now += 1
            busy.add(now)
            now += 1
        now = max(now, accepted + 1)
        while now in taken:
            now += 1
        if now > accepted + self.L:
            raise RoutingError(
                f"NetworkSchedule: the message from processor {source} to {dest} accepted at {accepted} takes "
                f"{now - accepted} steps on {network!r}, more than L = {self.L}: a LogP machine on it needs a larger "
                "L, or G"
            )
        self._steps.append(now - accepted)
        return now

    def _way(self, begin: int, end: int) -> list[int]:
        """The links from a node to another."""
        way = self._ways.get((begin, end))
        if way is None:
            way = self._ways[begin, end] = []
            at, to = np.array([begin]), np.array([end])
            state = self._network.begin(at, to, self._rng)
            while at[0] != end:
                link, state = self._network.step(at, to, state, self._rng)
                way.append(int(link[0]))
                at = self._network.heads[link]
        return way
