"""What the routers that forward carry, exchange by exchange, by count: for relations that are easy, and hard.

    python -m pybsp.benchmarks.studies.forwarding [-p 13 16 64 256 1024] [--h 64] [--seed 0] [--json FILE]

Nothing is sent: all figures are made from the routers' formulas, which tests hold equal to what they send. h_i is what
one processor sends or receives in exchange i, at most, in packets of a word. `greedy` goes along the dimensions of the
cube too, but straight to the ends: it is what the first phase is for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from rich.table import Table

from pybsp.routing import Relation, relations
from pybsp.routing.forwarding import hypercube, two_phase
from pybsp.routing.forwarding.load import Ints, exchanged

from .frame import Study, table

PROCESSORS = (13, 16, 64, 256, 1024)
PACKETS = (4, 16, 64, 256, 1024)
SEEDS = 5


class Row(NamedTuple):
    """A relation on a router.

    rounds: exchanges.
    most: the largest h_i.
    total: the sum of h_i, by which g is multiplied.
    words: that all processors send, over those of the relation.
    """

    p: int
    relation: str
    h: int
    router: str
    rounds: int
    most: int
    total: int
    words: float


def studied(p: int, h: int, seed: int) -> dict[str, Relation]:
    """Relations of h packets from each processor, on average, where p admits them."""
    found = {
        "random": relations.random_relation(p, h, seed),
        "all to one": relations.all_to_one(p, h),
        "one to all": relations.one_to_all(p, h),
    }
    if p & p - 1 == 0:
        found["bit reversal"] = relations.bit_reversal(p, h)
        if p.bit_length() % 2:
            found["transpose"] = relations.transpose(p, h)
    return found


def rows(p: int, h: int, seed: int) -> list[Row]:
    """All relations on all routers."""
    routers: dict[str, Callable[[Relation], Ints]] = {
        "direct": lambda r: exchanged(p, r.sources, r.destinations, r.sources * 0 + 1)[None],
        "two-phase": lambda r: two_phase.loads(r, seed=seed),
        "hypercube": lambda r: hypercube.loads(r, seed=seed),
        "greedy": hypercube.greedy_loads,
    }
    found = []
    for name, relation in studied(p, h, seed).items():
        direct = int(routers["direct"](relation)[:, :, 0].sum())
        for router, loads in routers.items():
            of = loads(relation)
            h_i = of[:, :, :2].max(axis=(1, 2))
            words = float(of[:, :, 0].sum()) / direct
            found.append(Row(p, name, relation.h, router, len(of), int(h_i.max()), int(h_i.sum()), words))
    return found


class Balance(NamedTuple):
    """How a relation's cost depends on how many packets it is cut into, over that of infinitely many.

    packets: of each processor; none has its own.
    two_phase, hypercube: the sum of h_i over h, mean over seeds.
    """

    p: int
    packets: int
    two_phase: float
    hypercube: float


def balance(p: int, packets: int, seed: int) -> Balance:
    """A shift by one: any other relation in which nobody keeps anything gives the same on average."""
    sources = np.tile(np.arange(p), packets)
    relation = Relation(sources, (sources + 1) % p, p)

    def mean(loads: Callable[..., Ints]) -> float:
        totals = [loads(relation, seed=seed + k)[:, :, :2].max(axis=(1, 2)).sum() for k in range(SEEDS)]
        return float(np.mean(totals)) / packets

    return Balance(p, packets, mean(two_phase.loads), mean(hypercube.loads))


def rows_table(found: Sequence[Row]) -> Table:
    """Relations on routers."""
    return table(
        "h_i in packets; words over those of direct",
        "p | relation | h | router | rounds | largest h_i | over h [.2f] | sum of h_i | over h [.2f] | words [.2f]",
        ((*r[:6], r.most / r.h, r.total, r.total / r.h, r.words) for r in found),
    )


def balance_table(found: Sequence[Balance]) -> Table:
    """With the limits."""
    return table(
        f"sum of h_i over h, by packets of a processor; mean of {SEEDS} seeds",
        "p | packets | two-phase [.2f] | 2(1 - 1/p) [.2f] | hypercube [.2f] | n",
        ((p, packets, both, 2 - 2 / p, cube, p.bit_length() - 1) for p, packets, both, cube in found),
    )


def main() -> None:
    """Count, and print."""
    study = Study(__doc__, keep="--json")
    study.add_argument("-p", type=int, nargs="+", default=PROCESSORS)
    study.add_argument("--h", type=int, default=64, help="packets a processor")
    study.add_argument("--seed", type=int, default=0, help="of relations and routers")
    options = study.begin()
    if min(*options.p, options.h) < 2:
        study.error("-p and --h are whole numbers of at least 2")
    found = [row for p in study.each(options.p) for row in rows(p, options.h, options.seed)]
    balances = [balance(p, packets, options.seed) for p in (4, 16, 64) for packets in PACKETS]
    study.show(rows_table(found), balance_table(balances))
    study.end({"seed": options.seed, "rows": found, "balance": balances})


if __name__ == "__main__":
    main()
