"""What grows with p: supersteps of virtual processors, in one process, by the clock and by counts.

In every pattern what a processor sends does not depend on p, and neither should what it costs: the words that the
ledger counts, the time that the superstep takes here, divided by the processors that this one process played, and the
messages that a processor sends where each is on a host of its own: p - 1 heads in a direct exchange; in a sparse one
those to partners, and the rounds of a dissemination, as tests count them.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import pybsp
from pybsp.transport.sparse import rounds

PROCESSORS = {True: (4, 16, 64), False: (4, 16, 64, 256, 1024)}
PATTERNS = {"nothing": 0, "a word to 1 other": 1, "a word to each of 4 others": 4, "a word to each of 16 others": 16}
SUPERSTEPS = 6
TURNS = {True: 3, False: 5}


def supersteps(bsp: pybsp.BSP, partners: int) -> tuple[float, float]:
    """Some in which each processor sends a word to each of the next ones.

    Returns:
        the sum of what it read, and the seconds since the first superstep.
    """
    total, begin = 0.0, 0.0
    for number in range(SUPERSTEPS + 1):
        for k in range(partners):
            bsp.send((bsp.pid + 1 + k) % bsp.p, float(number))
        bsp.sync()
        total += sum(message.payload for message in bsp.inbox)
        begin = begin or time.perf_counter()
    return total, time.perf_counter() - begin


def growth(quick: bool) -> list[dict[str, Any]]:
    """A row for each pattern and p: seconds of a superstep and processor (median), and counts.

    Raises:
        RuntimeError: something did not arrive.
    """
    rows = []
    for pattern, partners in PATTERNS.items():
        for p in PROCESSORS[quick]:
            if partners >= p:
                continue
            seconds = []
            for _ in range(TURNS[quick]):
                found = pybsp.simulate(supersteps, partners, p=p)
                seconds.append(found.results[0][1] / (SUPERSTEPS * p))
            if {total for total, _ in found.results} != {partners * sum(range(SUPERSTEPS + 1))}:
                raise RuntimeError(f"{p} virtual processors that each sent {pattern}: not all of it arrived")
            record = found.ledger[0]
            rows.append(
                {
                    "pattern": pattern,
                    "p": p,
                    "seconds": float(np.median(seconds)),
                    "h": record.h,
                    "M": record.M,
                    "direct": p - 1,
                    "sparse": partners + rounds(p),
                }
            )
    return rows
