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

import math
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

WAYS = ("record", "mail", "put", "get", "queue", "pattern", "collective", "agreement", "making", "note", "lent")
WAY = {name: 1 << n for n, name in enumerate(WAYS)}
BY_RECORD, BY_MAIL, BY_PUT, BY_GET, BY_QUEUE, BY_PATTERN, BY_COLLECTIVE, AGREED, MAKING, BY_NOTE, LENT = WAY.values()
# Those in which words, or indices, go by messages.
WORDED = ("mail", "put", "get", "queue", "pattern", "collective", "making")
LONG = 15 << 10
LABELS = 16  # under which collectives are used for the first time: `Used`
BY_LENT = BY_MAIL | BY_QUEUE | BY_PATTERN | BY_COLLECTIVE  # puts and gets copy what is long, as their g_way says
SENDING = BY_MAIL | BY_PUT | BY_GET | BY_QUEUE | BY_PATTERN | BY_COLLECTIVE | BY_NOTE  # messages, which count


@overload
def long_ones(h: float, messages: float) -> bool: ...
@overload
def long_ones(h: NDArray[np.float64], messages: NDArray[np.float64]) -> NDArray[np.bool_]: ...
def long_ones(h: Any, messages: Any) -> Any:
    """Whether a superstep's messages are of more than `LONG` words, on average; or of each of several."""
    return (messages > 0) & (h > LONG * messages)


@overload
def with_lent(ways: int, h: float, messages: float) -> int: ...
@overload
def with_lent(ways: NDArray[np.int64], h: NDArray[np.float64], messages: NDArray[np.float64]) -> NDArray[np.int64]: ...
def with_lent(ways: Any, h: Any, messages: Any) -> Any:
    """The ways of a superstep, or of each of several, with `LENT` where that follows from its h and messages."""
    return ways | LENT * ((ways & BY_LENT > 0) & long_ones(h, messages))


def named(ways: int) -> tuple[str, ...]:
    """The names of those that a number says.

    Examples:
        >>> from pybsp.ways import named
        >>> named(18)
        ('mail', 'queue')
    """
    return tuple(name for n, name in enumerate(WAYS) if ways >> n & 1)


class Used:
    """When a run has last used each way, by the seconds that it has computed until then.

    Examples:
        >>> from pybsp.ways import BY_MAIL, BY_PUT, Used
        >>> used, zeros = Used(), np.zeros(4)
        >>> since, fresh = used.since(np.array([0, BY_MAIL, 0, BY_MAIL | BY_PUT]), zeros, zeros, np.ones(4), zeros)
        >>> since.tolist(), [named(ways) for ways in fresh.tolist()]
        ([0.0, 0.0, 0.0, 2.0], [(), ('mail',), (), ('put',)])
        >>> used.since(np.array([BY_PUT, BY_MAIL | BY_PUT]), zeros[:2], zeros[:2], np.ones(2), zeros[:2])[0].tolist()
        [1.0, 2.0]
    """

    def __init__(self) -> None:
        self._computed = 0.0
        self._last = [math.nan] * len(WAYS)
        self._labels: set[float] = set()  # under which collectives were used

    def since(
        self,
        ways: NDArray[np.int64],
        h: NDArray[np.float64],
        messages: NDArray[np.float64],
        seconds: NDArray[np.float64],
        labels: NDArray[np.float64],
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Of each of the next supersteps: seconds of computing since its ways were used last, its own among them, the
        most of them; and those of its ways that are used for the first time, which do not count there.

        Each collective has code of its own, so under another label they are used for the first time again: a plain call
        of one has its name there, and where a program has given a label most often one is meant. So it is under the
        first `LABELS` of them: where there are more a loop makes them, of the same collectives.

        Args:
            ways, h, messages, seconds: of these, in order.
            labels: their numbers.
        """
        ways = with_lent(ways, h, messages)
        found, fresh = np.zeros(len(ways)), np.zeros(len(ways), np.int64)
        computed = self._computed + np.cumsum(seconds)
        for way in range(len(WAYS)):
            at = np.flatnonzero(ways >> way & 1)
            if not at.size:
                continue
            first = np.zeros(len(at), np.bool_)
            if 1 << way == BY_COLLECTIVE:
                room = max(0, LABELS - len(self._labels))
                numbers, places = np.unique(labels[at], return_index=True)
                new = [number not in self._labels for number in numbers.tolist()]
                first[places[new][:room]] = True
                self._labels.update(numbers[new][:room].tolist())
            else:
                first[0] = math.isnan(self._last[way])
            fresh[at[first]] |= 1 << way
            before = np.concatenate(([self._last[way]], computed[at[:-1]]))
            found[at] = np.maximum(found[at], np.where(first, 0.0, computed[at] - before))
            self._last[way] = float(computed[at[-1]])
        self._computed = float(computed[-1]) if len(ways) else self._computed
        return found, fresh
