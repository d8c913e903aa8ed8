"""The ways in which a superstep's data goes: each has a cost of its own, beside what words and messages cost.

A number says which of them a superstep used, a bit for each:

    record       values that all processors of a board see (shown.py), as small collectives have them
    mail         `bsp.send`
    put          `array.put`
    get          `array.get`: the values come by an exchange of their own
    queue        `queue.send`
    pattern      gets and puts of a pattern
    collective   messages of collectives
    agreement    what all compare: arrays, queues, patterns that are made or freed; parts; each superstep when checked
    making       of patterns: all learn who needs what
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

WAYS = ("record", "mail", "put", "get", "queue", "pattern", "collective", "agreement", "making")
WAY = {name: 1 << n for n, name in enumerate(WAYS)}
BY_RECORD, BY_MAIL, BY_PUT, BY_GET, BY_QUEUE, BY_PATTERN, BY_COLLECTIVE, AGREED, MAKING = WAY.values()
SENDING = BY_MAIL | BY_PUT | BY_GET | BY_QUEUE | BY_PATTERN | BY_COLLECTIVE  # messages, which count


def named(ways: int) -> tuple[str, ...]:
    """The names of those that a number says.

    Examples:
        >>> from pybsp.ways import named
        >>> named(18)
        ('mail', 'queue')
    """
    return tuple(name for n, name in enumerate(WAYS) if ways >> n & 1)


def firsts(ways: NDArray[np.int64], used: int = 0) -> NDArray[np.bool_]:
    """Whether a superstep uses a way that none before it has used, of each of some: there no cache knows its code yet.

    Args:
        ways: of these supersteps, in order.
        used: of all before them.

    Examples:
        >>> from pybsp.ways import BY_MAIL, BY_PUT, firsts
        >>> firsts(np.array([0, BY_MAIL, BY_MAIL, BY_MAIL | BY_PUT, BY_PUT])).tolist()
        [False, True, False, True, False]
    """
    before = np.full_like(ways, used)
    before[1:] |= np.bitwise_or.accumulate(ways)[:-1]
    found: NDArray[np.bool_] = (ways & ~before) != 0
    return found
