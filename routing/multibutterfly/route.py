"""A relation on a multibutterfly in one process."""

from __future__ import annotations

import numpy as np

from ...errors import RoutingError, UsageError, brief
from ..relation import Relation
from .lemmas import Lemmas
from .network import Multibutterfly
from .parameters import Parameters
from .protocol import Outcome, Protocol
from .wiring import LocalWiring

DEFAULT = Parameters()


def route(
    network: Multibutterfly,
    relation: Relation,
    L: int = 1,
    parameters: Parameters = DEFAULT,
    lemmas: Lemmas | bool = False,
) -> Outcome:
    """Route the packets of a relation.

    Args:
        network: of N rows.
        relation: of p processors; processor i is the port in row i*L.
        L: every L-th row has a port; N >= L*p.
        parameters: of the protocol.
        lemmas: what is checked at every stage; True: all that `Lemmas` has, with Theorem 2's rho = R/(32d).

    Returns:
        Whose numbers are those of the packets.

    Raises:
        RoutingError: N < L*p, or something that is checked is not so.
        BlockedError: packets are left that never move: L is too small for d.
        UsageError: L below 1, or parameters that do not fit d.

    Source: section 3.

    Examples:
        >>> from pybsp.routing import relations
        >>> from pybsp.routing.multibutterfly import Multibutterfly, route
        >>> route(Multibutterfly(N=128, d=20), relations.permutation(4), L=32, lemmas=True).stages
        7
    """
    if not isinstance(L, (int, np.integer)) or L < 1:
        raise UsageError(f"multibutterfly: L: expected a whole number of at least 1, got {brief(L)}")
    if L * relation.p > network.N:
        raise RoutingError(
            f"multibutterfly: expected N >= L*p, got N = {network.N}, L = {L}, p = {relation.p}; p to {network.N // L} "
            f"would fit, or N = {1 << (L * relation.p - 1).bit_length()}, or L processors to a port (`share`)"
        )
    ends = relation.destinations * L
    protocol = Protocol(
        LocalWiring(network), relation.h, parameters, relation.sources * L, ends, np.arange(len(relation))
    )
    if lemmas is True:
        lemmas = Lemmas(parameters.R / (32 * network.d))
    outcome = protocol.run(lemmas or None)
    if not np.array_equal(ends[outcome.numbers], outcome.rows):
        raise RoutingError("multibutterfly: packets have come to other rows than their destinations'")
    return outcome
