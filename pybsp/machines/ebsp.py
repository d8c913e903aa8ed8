"""The parameters of an E-BSP machine, and what a superstep costs on it: g1*M/p + g2*h + s.

Or what a linear array or a mesh takes for an (M, k1, k2)-relation with locality L (Juurlink and Wijshoff, *The E-BSP
model*, sections 3 and 6). Units are SI: seconds, words of 8 bytes, flop/s.
"""

from __future__ import annotations

import dataclasses
import math
import types
from dataclasses import dataclass
from typing import Any

from ..errors import UsageError
from ..ground.decoding import one_of, optional, rate
from .cost import Superstep
from .machine_file import LEAST, PROCESSORS, MachinePart
from .pricing import pricing


@dataclass(frozen=True)
class EBSPMachine(MachinePart):
    """An E-BSP machine of p processors: it charges unbalanced communication, and distance, for what they are.

    A superstep is an (M, k1, k2)-relation: M words in all, at most k1 from a processor, at most k2 to one. Its locality
    L is the largest difference of the numbers of a source and a destination.

    Args:
        p: processors.
        g1: seconds per word of M/p.
        g2: seconds per word of h, the larger of k1 and k2.
        s: seconds that a superstep takes when nothing is sent.
        r: flop/s of one processor.
        network: "" for g1*M/p + g2*h + s; "linear array" or "mesh" for the costs of `linear_array` and `mesh`, where
            g1 is the seconds of a packet step, and which have no o_msg or o_item.
        o_msg: seconds per message, beside what its words cost.
        error_median, error_p95: as of a `BSPMachine`.
        o_item: seconds per item of a queue, beside what its words and the messages that it travels in cost.
        own_p: as of a `BSPMachine`.

    Raises:
        UsageError: a parameter that is negative, not finite, or an r or p below what can be; another network.

    Examples:
        >>> machine = pybsp.EBSPMachine(p=64, g1=1e-8, g2=2e-9, s=1e-5)
        >>> f"{machine.time(M=6400, k1=100, k2=100):.3g} s, {machine.time(M=100, k1=100, k2=100):.3g} s"
        '1.12e-05 s, 1.02e-05 s'
    """

    p: int
    g1: float
    g2: float
    s: float
    r: float = 1e9
    network: str = ""
    o_msg: float = 0.0
    error_median: float | None = None
    error_p95: float | None = None
    o_item: float = 0.0
    own_p: int = dataclasses.field(default=0, compare=False, repr=False)

    _PART = "ebsp"
    _REQUIRED = types.MappingProxyType({"p": PROCESSORS, "g1": LEAST, "g2": LEAST, "s": LEAST})
    _OPTIONAL = types.MappingProxyType(
        {
            "r": rate,
            "network": one_of("", "linear array", "mesh"),
            "o_msg": LEAST,
            "o_item": LEAST,
            "error_median": optional(LEAST),
            "error_p95": optional(LEAST),
        }
    )

    def __post_init__(self) -> None:
        self._of_python()
        self._check({"g1": False, "g2": False, "s": False, "r": True, "o_msg": False, "o_item": False})
        self._check_errors()
        self._check_own_p()
        if not isinstance(self.network, str) or self.network not in ("", "linear array", "mesh"):
            raise UsageError(f'EBSPMachine: network must be "", "linear array" or "mesh", got {self.network!r}')

    @classmethod
    def linear_array(cls, p: int) -> EBSPMachine:
        """A linear array, in packet steps: min{min(k1, k2)*L, M} + p - 2 (*The E-BSP model*, Theorem 3).

        Routing takes no more, in whatever order queues send (docs/studies/ebsp-networks.md).

        Examples:
            >>> pybsp.EBSPMachine.linear_array(64).time(M=64, k1=1, k2=1, locality=1)
            63.0
        """
        return cls(p=p, g1=1.0, g2=0.0, s=0.0, r=1.0, network="linear array")

    @classmethod
    def mesh(cls, p: int) -> EBSPMachine:
        """A mesh, in packet steps with constants 1: min{sqrt(k1*k2*p), h*sqrt(L) + sqrt(p)} (Theorem 5).

        `pybsp.routing.networks.Mesh`, which spreads packets, took about twice that at most for the relations that were
        tried, and a lone packet can take as long (docs/studies/ebsp-networks.md). A factor that all supersteps have
        makes no choice another. A superstep in which nothing is sent takes sqrt(p), the least that any other does: to
        sync crosses the mesh, and the theorem's first term, which would be 0, is of relations with packets.

        Examples:
            >>> machine = pybsp.EBSPMachine.mesh(64)
            >>> machine.time(M=64, k1=4, k2=1), machine.time(M=0, k1=0, k2=0)
            (16.0, 8.0)
        """
        return cls(p=p, g1=1.0, g2=0.0, s=0.0, r=1.0, network="mesh")

    @pricing
    def time(
        self,
        M: float,
        k1: float,
        k2: float,
        locality: float | None = None,
        w: float = 0.0,
        messages: float = 0,
        items: float = 0,
    ) -> float:
        """Seconds of a superstep.

        Args:
            M: words that all processors send.
            k1, k2: words that one processor sends, and receives, at most.
            locality: of the relation; None: p - 1.
            w: flop of the busiest processor.
            messages: messages that the busiest processor sends or receives.
            items: items of queues, likewise.

        Examples:
            >>> machine = pybsp.EBSPMachine.linear_array(64)
            >>> machine.time(M=64, k1=1, k2=1, locality=1), machine.time(M=64, k1=1, k2=1)
            (63.0, 125.0)
        """
        far = self.p - 1 if locality is None else locality
        h = max(k1, k2)
        if self.network == "linear array":
            return w / self.r + self.g1 * (min(min(k1, k2) * far, M) + max(self.p - 2, 0))
        if self.network == "mesh":
            side = math.sqrt(self.p)
            return w / self.r + self.g1 * min(math.sqrt(max(float(k1) * k2, 1)) * side, h * math.sqrt(far) + side)
        return self.elapsed(w / self.r, h, messages, M, items)

    @pricing
    def elapsed(self, computing: float, h: float, messages: float = 0, M: float = 0, items: float = 0) -> float:
        """Seconds of a superstep in which the busiest processor computes for so many seconds; without a network.

        Examples:
            >>> machine = pybsp.EBSPMachine(p=4, g1=1.0, g2=1.0, s=10.0)
            >>> machine.elapsed(computing=0.0, h=100, M=200)
            160.0
        """
        words = self.g1 * M / self.p + self.g2 * h
        return computing + words + self.o_msg * messages + self.o_item * items + self.s

    @pricing
    def predict(self, step: Superstep) -> float:
        """Seconds of a superstep.

        Examples:
            >>> machine = pybsp.EBSPMachine(p=4, g1=1.0, g2=1.0, s=10.0)
            >>> machine.predict(pybsp.Superstep(h_out=100, h_in=50, messages=1, M=200))
            160.0
        """
        return self.time(step.M, step.h_out, step.h_in, step.locality, step.w, step.messages, step.items)

    def as_json(self) -> dict[str, Any]:
        """The parameters, as a ledger file has them."""
        figures = {name: getattr(self, name) for name in ("g1", "g2", "s", "r", "o_msg", "o_item")}
        errors = {"error_median": self.error_median, "error_p95": self.error_p95}
        return {**figures, "calibrated": True, **errors, **({"p": self.own_p} if self.own_p else {})}
