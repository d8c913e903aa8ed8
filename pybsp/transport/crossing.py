"""Waits that cross: a processor waits for another in one transport, which waits for the first in another one.

Parts of a machine are entered without a word to those that do not. So where processors do not all enter the same, one
may wait in the part for another that waits for it in the whole, for ever, and no exchange can tell them. Whoever has
waited for a while therefore asks one that it waits for, by a *probe*. That one looks at it when it waits itself, and
passes it on to one that it waits for, with a word on its own wait. A probe that comes back has gone round a circle, of
waits in which nobody can go on.

Each word says in which exchange of which transport. Who has entered that one meanwhile lets the probe fall, so all
waits of a circle are true at the same time: each ends only with the next, and the first has not ended. Who computes
does not look, and may still come.

Source: Chandy, Misra and Haas, *Distributed deadlock detection* (1983), where a process waits for all of several.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from ..errors import SyncError
from .wire import EPOCH_MASK

if TYPE_CHECKING:
    from .probes import Probes

AFTER = 0.1  # seconds that a wait takes before it asks
LONGEST = 2.0  # between two questions, at most


@runtime_checkable
class Waiting(Protocol):
    """A transport, whose waits may cross others'.

    Attributes:
        whose: tells it apart from all others; equal on all its processors.
        entered: the number of the last exchange that this processor has entered, modulo 2^16; equal likewise.
    """

    whose: tuple[Any, ...]

    @property
    def entered(self) -> int: ...

    def waits_for(self) -> Sequence[int]:
        """Ranks without which the exchange that goes on does not; none where none does."""


class Revocable(Protocol):
    """What the transports of a communicator are revoked by (revocation.py): probes go beside its notices."""

    pid: int
    probes: Probes

    @property
    def members(self) -> Sequence[object]: ...


class Wait(NamedTuple):
    """A wait: in an exchange of a transport, as `Waiting` has them, in the words of whoever waits."""

    rank: int
    whose: tuple[Any, ...]
    number: int
    where: str


class Crossing:
    """What one processor does about it, while it waits.

    Args:
        revocation: whose communicator the probes go over.
        where: this processor is, in words; empty: it tells of a failure, or no run goes on.
    """

    def __init__(self, revocation: Revocable, where: Callable[[], str]) -> None:
        self._revocation, self.where = revocation, where
        self._due, self._gap = 0.0, AFTER
        self._last: tuple[Any, ...] | None = None  # the wait at the last look

    def ask(self) -> None:
        """Ask, where it is time to; called in a wait now and then."""
        now = time.perf_counter()
        # Looks come often, questions seldom: most looks end here.
        if now < self._due:
            return
        found = self._waiting()
        if found is None:
            return
        wait, awaited = found
        # A wait is asked about when it is found at a second look: most are over by then.
        if wait[:3] != self._last:
            self._last, self._gap = wait[:3], AFTER
        else:
            # Again and again, as who was asked may not have waited then; ever more seldom, as it may compute for long.
            self._gap = min(2 * self._gap, LONGEST)
            self._send(awaited, [wait])
        self._due = now + self._gap

    def take(self, source: int) -> None:
        """Receive a probe, and pass it on; a SyncError where it has gone round."""
        text = self._revocation.probes.receive(source)
        if text is None:
            return
        waits: list[Wait] = [Wait(*one) for one in pickle.loads(text)]
        # This processor waits for nobody's coming: it can go on, and no circle is closed. The probe falls; its sender
        # asks again.
        found = self._waiting()
        if found is None:
            return
        mine, awaited = found
        last = waits[-1]
        same = mine.whose == last.whose and mine.number == last.number
        # Where both wait in the same exchange, the last one waits for those that this one waits for: the probe goes on.
        # Else that wait is over, if this processor has entered the exchange in which it was waited for.
        if not same and self._has_entered(last):
            return
        # It has come back. The circle is closed if this processor still is in the wait that it asked about.
        if waits[0].rank == mine.rank:
            if not same and waits[0][:3] == mine[:3]:
                if mine.where and not all(wait.where for wait in waits):
                    # One of them tells of a failure, and finds the circle by a probe of its own: others are to learn of
                    # that.
                    return
                raise crossed([(wait.rank, wait.where) for wait in waits])
        # Each passes a probe on once: it might enter a circle that its sender is not in, and never leave it. Those in
        # the circle find it by probes of their own.
        elif all(wait.rank != mine.rank for wait in waits):
            self._send(awaited, [*waits, mine])

    def _waiting(self) -> tuple[Wait, int] | None:
        """The wait of this processor, and the first rank that it waits for; None: it waits for nobody's coming."""
        # An exchange needs all that have not come, so no wait of a circle ends, whichever of them is followed.
        for member in self._revocation.members:
            if isinstance(member, Waiting) and (ranks := member.waits_for()):
                return Wait(self._revocation.pid, member.whose, member.entered, self.where()), min(ranks)
        return None

    def _has_entered(self, wait: Wait) -> bool:
        """Whether this processor has entered the exchange in which it is waited for."""
        for member in self._revocation.members:
            if isinstance(member, Waiting) and member.whose == wait.whose:
                # Numbers are modulo 2^16: the half of them from here on are ahead, as nobody is so many exchanges
                # behind.
                ahead: int = member.entered - wait.number & EPOCH_MASK
                return ahead <= EPOCH_MASK // 2
        return bool(wait.whose[0] != "pair")  # a pair begins with its first swap; what else is not here has ended

    def _send(self, rank: int, waits: Sequence[Wait]) -> None:
        self._revocation.probes.send(rank, pickle.dumps([tuple(wait) for wait in waits], 5))


def crossed(circle: Sequence[tuple[int, str]]) -> SyncError:
    """The error of processors each of which waits for the next one, the last for the first, and where, in words."""
    text = "; ".join(
        f"processor {pid} for processor {other} in {where}"
        for (pid, where), (other, _) in zip(circle, [*circle[1:], circle[0]], strict=True)
    )
    return SyncError(
        f"the processors did not do the same: they wait for each other in different machines: {text}; all processors "
        "of a part enter and leave it together, between the same supersteps of the whole"
    )
