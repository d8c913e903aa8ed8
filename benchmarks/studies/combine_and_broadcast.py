"""Combine-and-broadcast on simulated LogP machines, beside the bounds (*BSP vs LogP*, section 4.1, Proposition 1).

    python -m pybsp.benchmarks.studies.combine_and_broadcast [--most 1024] [--simulated 32]

For each machine, with C = ceil(L/G), over all p: the largest time over (L+o) log p / log(1+C), which the paper bounds
by 3, at which p, and for how many p it is above 3; the same at the largest p; the largest time over
(L+o) max{1, log p / log(1+C)}, the constant, which is bounded by 8, and at which p; and the smallest time over
Proposition 1's lower bound. Times are those of `cost` (schedule "latest", all joining at once), and up to --simulated
processors also the longest of executions under each schedule with processors that join at different times, from the
last joining. Nothing stalls, or the script fails.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Sequence

from pybsp import LogPMachine
from pybsp.logp import Processor, simulate
from pybsp.routing.logp.combine_broadcast import combine_broadcast, cost, lower_bound
from pybsp.routing.logp.phases import Phases

from .frame import Study, table

LIMIT = 8.0
# (L, o, G): ceil(L/G) = 1, 1, 1, 2, 2, 3, 4, 8, 16, 50; overheads of none, and up to a gap.
Parameters = tuple[int, int, int]
PARAMETERS = (
    (4, 0, 4), (4, 4, 4), (40, 20, 40), (8, 4, 4), (5, 0, 4),
    (9, 4, 4), (16, 1, 4), (64, 8, 8), (32, 2, 2), (1000, 10, 20),
)  # fmt: skip


def program(proc: Processor, joins: Sequence[int]) -> None:
    """Join at a time of one's own."""
    proc.compute(joins[proc.pid])
    combine_broadcast(Phases(proc), 1, int.__add__)


def longest(machine: LogPMachine) -> int:
    """The longest of some executions, from the last joining."""
    draw = random.Random(machine.p)
    L = machine.L
    moments = [[0] * machine.p, [draw.randrange(4 * L) for _ in range(machine.p)], [L * k for k in range(machine.p)]]
    most = 0
    for joins in (*moments, moments[2][::-1]):
        for schedule in ("latest", "earliest", "adversary", "random"):
            done = simulate(program, machine=machine, schedule=schedule, seed=machine.p, args=(joins,))
            if done.stalled:
                raise SystemExit(f"{machine} stalled under the schedule {schedule}")
            most = max(most, done.time - max(joins))
    return most


def measure(parameters: Parameters, sizes: Sequence[int], simulated: int) -> tuple[float, ...]:
    """A machine, over all p.

    Returns:
        L, o, G, C; time over the paper's bound / 3, at which p, for how many p it is above 3, and at the largest; time
        over the bound of 8 / 8, at which p; time over the lower bound.
    """
    L, o, G = parameters
    paper, constant, lowest, above, last = (0.0, 0), (0.0, 0), math.inf, 0, 0.0
    for p in sizes:
        machine = LogPMachine(p=p, L=L, o=o, G=G)
        time = cost(machine)
        lowest = min(lowest, time / lower_bound(machine))
        if p <= simulated:
            time = max(time, longest(machine))
        levels = math.log(p) / math.log(1 + machine.capacity)
        last = time / ((L + o) * levels)
        paper = max(paper, (last, p))
        above += last > 3
        constant = max(constant, (time / ((L + o) * max(1.0, levels)), p))
    return *parameters, -(-L // G), *paper, above, last, *constant, lowest


def main(arguments: Sequence[str] | None = None) -> int:
    """The table; status 1 where the constant is above 8."""
    study = Study(__doc__)
    study.add_argument("--most", type=int, default=1024, help="the largest p")
    study.add_argument("--simulated", type=int, default=32, help="the largest p whose executions are simulated")
    options = study.begin(arguments)
    all_sizes = {*range(2, 65), 100, 128, 200, 256, 257, 400, 512, 700, 1000, 1024}
    sizes = sorted(p for p in all_sizes if p <= options.most)
    rows = [measure(parameters, sizes, options.simulated) for parameters in study.each(PARAMETERS)]
    head = f"L | o | G | C | of 3 [.2f] | at p | above 3 | of 3, p = {sizes[-1]} [.2f] | of 8 [.2f] | at p | of 1 [.2f]"
    study.show(table(f"of the paper's 3, of 8, and of the lower bound; {len(sizes)} values of p", head, rows))
    constant = max(row[8] for row in rows)
    print(f"T_CB <= {constant:.2f} (L+o) max(1, log p / log(1 + ceil(L/G))) for all of these, up to p = {sizes[-1]}")
    return int(constant > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
