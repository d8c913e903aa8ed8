"""What the routers that forward carry, exchange by exchange, by count: for relations that are easy, and hard.

    python -m pybsp.benchmarks.studies.forwarding [-p 13 16 64 256 1024] [--h 64] [--seed 0] [--json FILE]

Nothing is sent: all figures are made from the routers' formulas, which tests hold equal to what they send. h_i is what
one processor sends or receives in exchange i, at most, in packets of a word. `greedy` goes along the dimensions of the
cube too, but straight to the ends: it is what the first phase is for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import numpy as np

from pybsp.errors import RoutingError
from pybsp.routing import Relation, relations
from pybsp.routing.forwarding import hypercube, two_phase
from pybsp.routing.forwarding.load import Ints, exchanged

from .frame import Study

PROCESSORS = (13, 16, 64, 256, 1024)
PACKETS = (4, 16, 64, 256, 1024)
SEEDS = 5


def studied(p: int, h: int, seed: int) -> Iterator[tuple[str, Relation]]:
    """Relations of h packets from each processor, on average, where p admits them."""
    yield "random", relations.random_relation(p, h, seed)
    yield "all to one", relations.all_to_one(p, h)
    yield "one to all", relations.one_to_all(p, h)
    with suppress(RoutingError):
        yield "bit reversal", relations.bit_reversal(p, h)
        yield "transpose", relations.transpose(p, h)


ROWS = "p | relation | h | router | rounds | largest h_i | over h [.2f] | sum of h_i | over h [.2f] | words [.2f]"


def rows(p: int, h: int, seed: int) -> Iterator[tuple[object, ...]]:
    """All relations on all routers; words are those of all processors, over those of the relation."""
    routers: dict[str, Callable[[Relation], Ints]] = {
        "direct": lambda r: exchanged(p, r.sources, r.destinations, r.sources * 0 + 1)[None],
        "two-phase": lambda r: two_phase.loads(r, seed=seed),
        "hypercube": lambda r: hypercube.loads(r, seed=seed),
        "greedy": hypercube.greedy_loads,
    }
    for name, relation in studied(p, h, seed):
        direct = int(routers["direct"](relation)[:, :, 0].sum())
        for router, loads in routers.items():
            of = loads(relation)
            h_i = of[:, :, :2].max(axis=(1, 2))
            most, total, words = int(h_i.max()), int(h_i.sum()), float(of[:, :, 0].sum()) / direct
            yield p, name, relation.h, router, len(of), most, most / relation.h, total, total / relation.h, words


BALANCE = "p | packets | two-phase [.2f] | 2(1 - 1/p) [.2f] | hypercube [.2f] | n"


def balance(p: int, packets: int, seed: int) -> tuple[float, ...]:
    """How a relation's cost depends on how many packets it is cut into, beside that of infinitely many.

    It is a shift by one: any other in which nobody keeps anything gives the same on average.
    """
    sources = np.tile(np.arange(p), packets)
    relation = Relation(sources, (sources + 1) % p, p)

    def mean(loads: Callable[..., Ints]) -> float:
        totals = [loads(relation, seed=seed + k)[:, :, :2].max(axis=(1, 2)).sum() for k in range(SEEDS)]
        return float(np.mean(totals)) / packets

    return p, packets, mean(two_phase.loads), 2 - 2 / p, mean(hypercube.loads), p.bit_length() - 1


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
    study.rows("rows", "h_i in packets; words over those of direct", ROWS, found)
    balances = [balance(p, packets, options.seed) for p in (4, 16, 64) for packets in PACKETS]
    title = f"sum of h_i over h, by packets of a processor; mean of {SEEDS} seeds"
    study.rows("balance", title, BALANCE, balances)
    study.results["seed"] = options.seed
    study.end()


if __name__ == "__main__":
    main()
