"""How efficient a BSP computer on a hypercube is (*Experiences with a model for parallel computation*, section 3).

In a superstep every processor executes L instructions. Of these 32 % transfer data, all of it to or from other
processors: three quarters are loads, which cost two packets, one quarter stores, which cost one. So a superstep is an
h-relation with h = 0.56 L. Routing it on N nodes takes

    (h + log N) t_m + h/2 log N t_d     DMA: one processor of the node looks at each packet that comes by, for t_d
    (h + log N) t_m                     crossbar switch: each port of the node looks at its own, which costs no time

The second is the first with t_d = 0; so a `Computer` with t_d = 0 is one with crossbar switches. Logarithms are base 2.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

from pybsp.errors import UsageError

PACKETS = 0.32 * (0.75 * 2 + 0.25 * 1)  # per instruction: 0.56


@dataclass(frozen=True)
class Computer:
    """Nodes of a BSP computer; seconds. UsageError: C or t_m not above 0, t_d below 0."""

    C: float  # of an instruction, on average
    t_m: float  # of a packet on a link: m/B for packets of m bytes and a bandwidth of B bytes/s
    t_d: float = 0.0  # that a node takes to route a packet; 0: a crossbar switch, for which nothing waits

    def __post_init__(self) -> None:
        if not (0 < self.C < math.inf and 0 < self.t_m < math.inf and 0 <= self.t_d < math.inf):
            raise UsageError(f"expected C and t_m above 0 and t_d of at least 0, all finite, got {self}")

    @property
    def crossbar(self) -> Computer:
        """The same with crossbar switches."""
        return dataclasses.replace(self, t_d=0.0)

    @property
    def ratio(self) -> float:
        """lambda = C/t_m."""
        return self.C / self.t_m

    def instruction(self, N: float, L: float | None = None) -> float:
        """Seconds of an instruction with its share of the communication, in supersteps of L; None: of log N."""
        n = math.log2(N)
        latency = 1.0 if L is None else n / L
        return self.C + (PACKETS + latency) * self.t_m + PACKETS / 2 * n * self.t_d

    def efficiency(self, N: float, L: float) -> float:
        """E, the share of a superstep that computes: 1 / (1 + 0.56/lambda + 0.28 log N/mu + log N/(lambda L)).

        lambda is C/t_m and mu is C/t_d.
        """
        return self.C / self.instruction(N, L)

    def rate(self, N: float, L: float | None = None) -> float:
        """Instructions/s of N nodes in supersteps of L instructions; L None: log N, as in the paper's comparison."""
        return N / self.instruction(N, L)

    def nodes(self, rate: float) -> float:
        """The least N at which `rate(N)` is so many instructions/s or more; no whole number, and at least 1.

        It is where N = rate (C + 1.56 t_m + 0.28 log N t_d). The right side is concave in N, and above N at N = 1 or
        1 is the answer: inserted again and again, N rises to the solution.
        """
        fixed, more = rate * (self.C + (PACKETS + 1) * self.t_m), rate * PACKETS / 2 * self.t_d
        N = max(1.0, fixed)
        while (higher := max(1.0, fixed + more * math.log2(N))) > N * (1 + 1e-15):
            N = higher
        return N

    def dimensions(self, rate: float) -> int:
        """The dimensions of the smallest hypercube that has this rate."""
        n = 0
        while self.rate(2.0**n) < rate:
            n += 1
        return n


def required_ratio(E: float, N: float, L: float, delay: float = 0.0) -> float:
    """The C/t_m with which N nodes have efficiency E in supersteps of L instructions; delay: t_d/t_m.

    E/(1-E) (0.56 + log N/L + 0.28 log N delay)
    """
    n = math.log2(N)
    return E / (1 - E) * (PACKETS + n / L + PACKETS / 2 * n * delay)


def instruction_time(rate: float, N: float, t_m: float, t_d: float = 0.0) -> float:
    """The largest C with which N nodes execute so many instructions/s in supersteps of log N; 0 or less: there is none.

    C = N/rate - 1.56 t_m - 0.28 log N t_d.
    """
    return N / rate - (PACKETS + 1) * t_m - PACKETS / 2 * math.log2(N) * t_d
