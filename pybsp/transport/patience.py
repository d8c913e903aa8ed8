"""What becomes of a wait that takes long: it is reported, once, and ended where a limit is set.

Nobody looks at a clock for it: whoever waits so long that it sleeps has the time at hand (waiting.py). Who has not come
is asked only then, of what MPI and the boards have anyway.

Not all that wait report. Most of them wait for the same, and the terminal is one: the lowest that has come does, as far
as is known here who has; and on each node where somebody is missing the lowest of that node, which can say more of it.
One that waits for somebody who waits in another exchange (a part's) leaves it to that one; so each first lets the
others of its node see that it waits for long, and looks at them a little later.
Likewise one of them ends the wait where there is a limit, and the others learn of it from that one (revocation.py);
only if they have not within a second do they by themselves.

A process that has ended does not come: most launchers end the others then, but srun by itself does not. So who waits
longer than the grace period looks whether those of its node are there, and ends the job where one is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from ..errors import SyncError
from ..ground.announcing import announce
from .revocation import SLACK

NEVER = float("inf")
ANNOUNCES = 0.75  # of the time until a wait is reported or ended: then others can see that it takes long
AGAIN = 1.0  # seconds until a wait that has not begun to count is asked for again


class Absence(NamedTuple):
    """The ranks known to be missing in the exchange that goes on, and those known to be present."""

    absent: set[int]
    present: set[int]


class Witness(Protocol):
    """Describes in words those that wait and those that do not come."""

    def announce(self) -> None:
        """Let others of this node see that this processor's wait takes long."""

    def patient(self, pids: Iterable[int]) -> set[int]:
        """Which of these processors are of this node and wait for long."""

    def describe(self, waited: float, absent: Sequence[int]) -> str:
        """Describe what this processor waits for."""

    def ended(self) -> list[int]:
        """Which processors of this node have no process any more."""


class Patience:
    """The patience of one processor.

    Args:
        pid: this one.
        nodes: of each processor, something that tells its node.
        absence: who has not come, now.
        witness: gives the words.
        warn_after: seconds after which a wait is reported.
        timeout: seconds after which it ends.
        grace: seconds after which it is looked whether all of this node are there; again and again.
        lost: ends the job, as some are not.

    Attributes:
        first: seconds after which `overdue` wants to be called.
    """

    def __init__(
        self,
        pid: int,
        nodes: Sequence[object],
        absence: Callable[[], Absence],
        witness: Witness,
        warn_after: float = NEVER,
        timeout: float = NEVER,
        grace: float = NEVER,
        lost: Callable[[Sequence[int]], object] = list,
    ) -> None:
        self._due = min(warn_after, timeout)
        self._announces = ANNOUNCES * self._due
        self._grace, self._lost = max(grace, AGAIN), lost
        self.first = min(self._announces, self._grace)
        self._looks, self._ended = -NEVER, False  # when to look again; whether some were seen to have ended
        self._pid, self._nodes, self._absence, self._witness = pid, nodes, absence, witness
        self._warn_after, self._timeout = warn_after, timeout
        self._announced = self._reported = NEVER  # when the wait began of which others know, and that was reported last

    def overdue(self, since: float, now: float) -> float:
        """A wait takes long.

        Args:
            since: when it began, by `time.perf_counter`; infinity: it has not begun to count.
            now: the time.

        Returns:
            when to call this again.

        Raises:
            SyncError: it takes too long.
        """
        waited = now - since
        # Where it has not begun to count, `waited` is minus infinity.
        if waited < self.first:
            return now + min(self.first - waited, AGAIN)
        return min(self._look(waited, now), self._report(since, now))

    def _look(self, waited: float, now: float) -> float:
        """Look whether all are there."""
        if waited < self._grace:
            return now + self._grace - waited
        if now < self._looks:
            return self._looks
        ended = self._witness.ended()
        if ended and self._ended:  # what they sent last has had time to arrive
            self._lost(ended)
        self._ended = bool(ended)
        self._looks = now + (AGAIN if ended else self._grace)
        return self._looks

    def _report(self, since: float, now: float) -> float:
        waited = now - since
        if waited < self._announces:
            return since + self._announces
        # Once a wait, and well before any of them is due: then who is to speak knows who else waits.
        if self._announced != since:
            self._announced = since
            self._witness.announce()
        if waited < self._due:
            return since + self._due
        # Only now, as it takes time: hardly a wait gets here.
        absent, present = self._absence()
        speaks = self._speaks(absent, present)
        # Also marked by who leaves it to another: a wait is reported once.
        if waited >= self._warn_after and self._reported != since:
            self._reported = since
            if speaks:
                announce(f"pybsp: {self._witness.describe(waited, sorted(absent))}")
        # One ends the wait and revokes the exchange, of which the others hear; they end it alone only where they do
        # not.
        limit = self._timeout if speaks else self._timeout + SLACK
        if waited >= limit:
            report = self._witness.describe(waited, sorted(absent))
            raise SyncError(f"a superstep has not ended within its timeout of {self._timeout:g} s: {report}")
        # Asked anew by then: who waited with this one may have come and gone.
        return since + (self._warn_after if waited < self._warn_after < limit else limit)

    def _speaks(self, absent: set[int], present: set[int]) -> bool:
        """Whether no other processor is to do so."""
        node = self._nodes[self._pid]
        here = {pid for pid in range(self._pid) if self._nodes[pid] == node}
        # Who waits for long in another exchange is here too, and may be whom this one waits for.
        present = present | self._witness.patient(here)
        # One that is missing on this node is known best here: its lowest speaks, beside the lowest of all.
        if any(self._nodes[pid] == node for pid in absent):
            return not present & here
        return not any(pid < self._pid for pid in present)
