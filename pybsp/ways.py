"""The ways in which a superstep's data goes: each has a cost of its own, beside what words and messages cost.

A number says which of them a superstep used, a bit for each:

    record       values that each processor shows all others (rides/shown.py), as small collectives do. Their words cost
                 nothing in an exchange on one host, where they are read when it is over, and g each between hosts
    mail         `bsp.send`
    put          `array.put`
    get          `array.get`: the values come by an exchange of their own
    queue        `queue.send`
    pattern      gets and puts of a pattern
    collective   messages of collectives
    agreement    what all compare: arrays, queues, patterns that are made or freed; parts; each superstep when checked
    making       of patterns: all learn who needs what
    note         numbers and short arrays of collectives, which go beside what else there is (rides/notes.py): of
                 started ones; of all where processors do not see others' records
    lent         messages of more than `LONG` words, on average, of mail, queues, patterns and collectives: who gets
                 them reads them where they lie. No ledger notes it, as it follows from h and messages
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

WAYS = ("record", "mail", "put", "get", "queue", "pattern", "collective", "agreement", "making", "note", "lent")
WAY = {name: 1 << n for n, name in enumerate(WAYS)}
BY_RECORD, BY_MAIL, BY_PUT, BY_GET, BY_QUEUE, BY_PATTERN, BY_COLLECTIVE, AGREED, MAKING, BY_NOTE, LENT = WAY.values()
# Those in which words, or indices, go by messages.
WORDED = ("mail", "put", "get", "queue", "pattern", "collective", "making")
LONG = 15 << 10
BY_LENT = BY_MAIL | BY_QUEUE | BY_PATTERN | BY_COLLECTIVE  # puts and gets copy what is long, as their g_way says
SENDING = BY_MAIL | BY_PUT | BY_GET | BY_QUEUE | BY_PATTERN | BY_COLLECTIVE | BY_NOTE  # messages, which count


def long_ones(h: float, messages: float) -> bool:
    """Whether a superstep's messages are of more than `LONG` words, on average."""
    return h > LONG * messages > 0


def with_lent(ways: int, h: float, messages: float) -> int:
    """The ways of a superstep, with `LENT` where that follows from its h and messages."""
    return ways | LENT if ways & BY_LENT and long_ones(h, messages) else ways


def named(ways: int) -> tuple[str, ...]:
    """The names of those that a number says.

    Examples:
        >>> from pybsp.ways import named
        >>> named(18)
        ('mail', 'queue')
    """
    return tuple(name for n, name in enumerate(WAYS) if ways >> n & 1)


class Used:
    """When ways were last used, under each label of a run, by the seconds that it has computed until then.

    Examples:
        >>> from pybsp.ways import BY_MAIL, BY_PUT, Used
        >>> used = Used()
        >>> used.since(np.zeros(4, int), np.array([0, BY_MAIL, BY_MAIL, BY_MAIL | BY_PUT]), np.ones(4)).tolist()
        [0.0, inf, 1.0, inf]
        >>> used.since(np.array([1, 1, 0]), np.array([BY_PUT, BY_PUT, BY_MAIL | BY_PUT]), np.ones(3)).tolist()
        [inf, 1.0, 3.0]
    """

    def __init__(self) -> None:
        self._computed = 0.0
        self._last: dict[int, float] = {}  # by label and way

    def since(
        self, labels: NDArray[np.int64], ways: NDArray[np.int64], seconds: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Seconds of computing since each superstep's label last used its ways, its own among them; of several ways the
        most, infinite where one is used for the first time; 0 where it uses none.

        Args:
            labels: of the next supersteps, in order, by number.
            ways, seconds: of these.
        """
        found = np.zeros(len(labels))
        computed = self._computed + np.cumsum(seconds)
        for way in range(len(WAYS)):
            at = np.flatnonzero(ways >> way & 1)
            at = at[np.argsort(labels[at], kind="stable")]
            begins = np.flatnonzero(np.diff(labels[at], prepend=-1))  # of each label
            keys = (labels[at[begins]] * len(WAYS) + way).tolist()
            before = np.roll(computed[at], 1)
            before[begins] = [self._last.get(key, -np.inf) for key in keys]
            found[at] = np.maximum(found[at], computed[at] - before)
            self._last.update(zip(keys, computed[at[np.roll(begins, -1) - 1]].tolist(), strict=True))
        self._computed = float(computed[-1]) if len(computed) else self._computed
        return found
