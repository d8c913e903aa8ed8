"""How many steps routing takes on the linear array (*The E-BSP model*, section 3, Theorem 3).

The theorem gives min{k_min*L, M} + P - 2 steps for an (M, k1, k2)-relation with locality L, where k_min = min{k1, k2};
its proof is in a report that the paper cites. Here is one, and what else holds. The packets that go up have links of
their own, and so have those that go down: let all go up. A node sends a packet whenever it has one.

**Any queue discipline takes at most C + L - 1 steps**, where C is the most packets that go over one link.

1. In a step a node sends one packet, if it has one, and receives one at most. So its queue does not grow while it is
   not empty; and once it has been empty it never holds more than one packet, which goes on in the next step.
2. So until its queue is first empty, a node sends a packet in every step: these are C steps at most. From then on no
   packet waits there.
3. Let v be the last node at which a packet waited (or where it began). It left v in step C at the latest, and then
   went on in every step: L - 1 more links at most.

C <= min{k_min*L, M}, as the packets over a link come from L processors at most, and go to L at most; and L <= P - 1.
That is the theorem. It is tight: let processor 0 of P = L + 1 send k packets to each of the others. First come, first
served, those to 1 first, those to L last, takes k*L + P - 2 steps.

**Furthest first takes max{n(i, j) + j - i - 1} steps exactly**, the maximum over i < j with n(i, j) > 0, the number of
packets from processors up to i to processors from j on. **No schedule takes fewer.**

1. Any schedule takes that many: the n(i, j) packets all go over the link from j - 1 to j, one a step, and none of them
   before step j - i.
2. Furthest first takes no more. Fix j: packets to processors from j on never wait for others, so these may be
   forgotten. Let the last go over the link from j - 1 to j in step t. Go back in time from there: at node j - 1 as long
   as it has had a packet to send in every step; the first of these packets came from node j - 2 in the step before, or
   was there at the start; in the first case go on with that packet at j - 2. The way ends at the start at some node i.
   It went from node to node j - 1 - i times; in every other step a packet of the n(i, j) was sent that the way had
   not met: t <= n(i, j) + j - 1 - i.
3. With D = j - i, the sources of the n(i, j) packets are among L - D + 1 processors, and their destinations too, so
   n(i, j) <= min{M, k_min*(L - D + 1)}: furthest first takes at most **min{k_min*L, M + L - 1}** steps.
"""

from __future__ import annotations

import numpy as np

from pybsp.routing.networks.graph import Ints
from pybsp.routing.relation import Relation


def least_steps(relation: Relation) -> int:
    """The steps of the fastest schedule for a relation on the linear array, which are those of furthest first.

    Time and memory are those of arrays of shape (p, p).

    Source: *The E-BSP model*, Theorem 3; the proof is above.
    """
    sources, destinations, last = relation.sources, relation.destinations, relation.p - 1
    return max(_up(sources, destinations, relation.p), _up(last - sources, last - destinations, relation.p))


def _up(sources: Ints, destinations: Ints, p: int) -> int:
    """max{n(i, j) + j - i - 1} of the packets that go up."""
    up = destinations > sources
    cells = np.bincount(sources[up] * p + destinations[up], minlength=p * p).reshape(p, p)
    through = cells.cumsum(axis=0)[:, ::-1].cumsum(axis=1)[:, ::-1]  # n(i, j)
    i, j = np.indices((p, p), sparse=True)
    return int(np.where((j > i) & (through > 0), through + j - i - 1, 0).max())
