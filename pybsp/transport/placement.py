"""On which nodes the ranks of a communicator are, and whether messages between nodes are aggregated (leaders.py)."""

from __future__ import annotations

import socket
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..errors import usage_error
from ..ground import settings
from ..processes import process

if TYPE_CHECKING:
    from mpi4py import MPI

    from .node import Node

SAVED = 6  # messages that a processor has to save; docs/studies/figures.md has what that comes from


def configured() -> bool | None:
    """PYBSP_AGGREGATE: whether messages between nodes are aggregated; None: where that pays."""
    text = settings.text(settings.AGGREGATE)
    if text not in ("", "0", "1"):
        expected = "1 for one message from node to node, or 0 for one from each rank to each"
        raise usage_error("PYBSP_AGGREGATE", expected, f"{text!r}")
    return None if not text else text == "1"


def pays(sizes: Sequence[int]) -> bool:
    """Whether aggregated messages take less time; same on all processors.

    A leader, as any other, sends so many messages less as the other nodes have processors beside their leaders; that
    has to be worth a second meeting on the board.

    Args:
        sizes: of the groups.
    """
    return sum(sizes) - len(sizes) - (max(sizes) - 1) >= SAVED


def cores_together(hosts: Sequence[Hashable], affinities: Sequence[int]) -> list[int]:
    """How many cores the ranks of each rank's host may run on, of the affinity of each (`process.affinity`)."""
    of_host = dict.fromkeys(hosts, 0)
    for host, affinity in zip(hosts, affinities, strict=True):
        of_host[host] |= affinity
    return [of_host[host].bit_count() for host in hosts]


class Placement(NamedTuple):
    """Where the ranks of a communicator are; same on all of them.

    nodes: the node of each rank.
    wish: what PYBSP_AGGREGATE says: 0, if any rank has that.
    hosts: the name of each rank's host.
    cores: for each rank, how many cores the ranks of its host may run on: a launcher may bind each to its own.
    """

    nodes: Sequence[int]
    wish: bool | None
    hosts: Sequence[str] = ()
    cores: Sequence[int] = ()

    @classmethod
    def of(cls, comm: MPI.Intracomm, node: Node | None) -> Placement:
        """Collective."""
        node_of_own = comm.rank if node is None else min(node.places)
        own = (node_of_own, configured(), socket.gethostname(), process.affinity())
        nodes, wishes, hosts, affinities = zip(*comm.allgather(own), strict=True)
        wish = next((w for w in (False, True) if w in wishes), None)
        return cls(nodes, wish, hosts, cores_together(hosts, affinities))

    def groups(self, ranks: Sequence[int]) -> list[list[int]]:
        """The processors of each node, for the ranks of a transport; none where their messages are not aggregated."""
        found: dict[int, list[int]] = {}
        for pid, rank in enumerate(ranks):
            found.setdefault(self.nodes[rank], []).append(pid)
        groups = list(found.values())
        if self.wish is False or not 1 < len(groups) < len(ranks):
            return []
        return groups if self.wish or pays([len(members) for members in groups]) else []
