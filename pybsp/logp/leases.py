"""Credits of a destination, granted ahead: how `capacity="global"` and "window" bound the messages in flight to it.

A destination has a number of credits; a message to it needs one, from its submission until it has arrived. What is not
in use is granted ahead to those that send: a lone sender holds all of them, and as its messages arrive it gets them
again, by the head of whatever goes back, or by a message for half of its share. Where several send, each has a share.

What a source is *allowed* is a number of messages, counted from the first: so many it may have sent in all. It is in
the head of all that goes to it, and grows. allowed - arrived is what it may have in flight; the sum of these over all
sources never exceeds the capacity.

Whoever is allowed nothing asks once (REQUEST), and is answered (GRANT); from then on its messages ask for it: when they
have arrived, it is allowed more, or waits in line. If others wait and nothing is free, the destination asks for what it
allowed ahead (RECALL), and who gets that leaves (LEAVE): it is allowed no more than it has sent, and the message that
waits for it. While others wait, one message at a time is allowed, and who does not need it leaves (PRESSING). Whoever
has left asks again; an answer says how often the destination has seen it leave, and one from before its last LEAVE does
not count. A processor that looks at nothing for long, as between two supersteps, leaves as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

# Kinds of messages; ranks.py and termination.py have more.
REQUEST, GRANT, LATE_GRANT, PRESSING, RECALL, LEAVE = range(6, 12)
GRANTS = (GRANT, LATE_GRANT, PRESSING)  # at once; after a wait, or again; while others wait


class Leases:
    """One processor's credits, and those that it has of others.

    Args:
        capacity: of a destination, equal on all processors.
        arrived: messages of the program from each; whoever counts them changes it.
        announced: of what each is allowed, the number that it has heard of last, likewise.
        given: what each destination said last that this processor is allowed, likewise.
        sent: messages of the program to each, likewise.
        post: sends a message of a kind, with a number.

    Attributes:
        allowed: messages from each, in all.
        out: credits that are out now; most: so many were at a time.
        limits: messages to each, since it has left that: until then it may send no more.
        needs: the destination whose credit it waits for; -1: none's.
    """

    def __init__(
        self,
        capacity: int,
        arrived: Sequence[int],
        announced: list[int],
        given: Sequence[int],
        sent: Sequence[int],
        post: Callable[[int, int, int], None],
    ) -> None:
        p = len(arrived)
        self._capacity, self._arrived, self._announced, self._post = capacity, arrived, announced, post
        self._given, self._sent = given, sent
        self.allowed = [0] * p
        self.out = self.most = 0
        self._waiting: dict[int, None] = {}  # in line
        self._active: set[int] = set()  # who has a share
        self._ahead: set[int] = set()  # who may be allowed what it does not need
        self._gone = [0] * p  # how often each has left
        self.limits: list[float] = [0.0] * p
        self._leaves = [0] * p  # how often this processor has left each
        self._asked = [False] * p  # since then
        self.needs = -1

    # -- as a sender --------------------------------------------------------------------------------------------------

    def has_credit(self, dest: int) -> bool:
        """Whether a message may go to dest."""
        return self._sent[dest] < self.limits[dest] and self._sent[dest] < self._given[dest]

    def ask(self, dest: int) -> None:
        """A message for dest has no credit."""
        if self._sent[dest] >= self.limits[dest] and not self._asked[dest]:
            self._asked[dest] = True
            self._post(dest, REQUEST, 0)

    def granted(self, dest: int, kind: int, leaves: int) -> None:
        """A grant of dest's has come, which has seen this processor leave so often."""
        if leaves != self._leaves[dest]:
            return
        self.limits[dest] = math.inf
        if kind == PRESSING and self.needs != dest:
            self.leave(dest)

    def recalled(self, dest: int) -> None:
        """Others wait for dest's credits."""
        if self.has_credit(dest):
            self.leave(dest, int(self.needs == dest))

    def leave(self, dest: int, keep: int = 0) -> None:
        """Give back what is not in use, but for so many."""
        if self.limits[dest] > self._sent[dest] or self._asked[dest]:
            self.limits[dest] = limit = self._sent[dest] + keep
            self._asked[dest] = False
            self._leaves[dest] += 1
            self._post(dest, LEAVE, limit)

    # -- as a destination ---------------------------------------------------------------------------------------------

    def asked(self, source: int) -> None:
        """A source is allowed no more."""
        self._active.add(source)
        if not self._in_flight(source):  # else it is allowed more when its messages have arrived
            self._waiting[source] = None
            self._distribute(source)

    def came(self, source: int) -> None:
        """A message has arrived, and is counted."""
        self.out -= 1
        if source not in self._active:  # it has left
            self._distribute()
            return
        if self._waiting:
            if not self._in_flight(source):
                self._waiting[source] = None
            self._distribute()
            return
        share = self._share(source)
        more = min(share - self._in_flight(source), self._capacity - self.out)
        if more > 0:
            self._allow(source, more)
            self._ahead.add(source)
        unannounced = self.allowed[source] - self._announced[source]
        if unannounced and (2 * unannounced >= share or unannounced == self._in_flight(source)):
            self._post(source, LATE_GRANT, self._gone[source])

    def gone(self, source: int, limit: int) -> None:
        """A source has left, and sends no more than so many messages in all."""
        self.out -= self.allowed[source] - limit
        self.allowed[source] = self._announced[source] = limit
        self._gone[source] += 1
        self._active.discard(source)
        self._waiting.pop(source, None)
        self._distribute()

    def _in_flight(self, source: int) -> int:
        """Messages that a source may have in flight."""
        return self.allowed[source] - self._arrived[source]

    def _share(self, source: int) -> int:
        """Credits of one that sends: as many as of any other, or one more."""
        share, more = divmod(self._capacity, len(self._active))
        if share == 0:
            return 1
        return share + (more > 0 and sum(other < source for other in self._active) < more)

    def _allow(self, source: int, more: int) -> None:
        self.allowed[source] += more
        self.out += more
        self.most = max(self.most, self.out)

    def _distribute(self, asking: int = -1) -> None:
        """Give what is free to those in line; ask for what was allowed ahead if that is not enough."""
        waiting = self._waiting
        while waiting and (self.out < self._capacity or self._take_unannounced()):
            source = next(iter(waiting))
            del waiting[source]
            if waiting:
                self._allow(source, 1)
                self._post(source, PRESSING, self._gone[source])
            else:
                self._allow(source, min(self._capacity - self.out, self._share(source)))
                self._ahead.add(source)
                self._post(source, GRANT if source == asking else LATE_GRANT, self._gone[source])
        if waiting:
            for source in self._ahead:
                if source not in waiting and self._in_flight(source):
                    self._post(source, RECALL, 0)
            self._ahead.clear()

    def _take_unannounced(self) -> bool:
        """Take back what sources do not know that they are allowed; whether there was any."""
        found = False
        for source in self._active:
            unannounced = self.allowed[source] - self._announced[source]
            if unannounced:
                self.allowed[source] -= unannounced
                self.out -= unannounced
                found = True
                if not self._in_flight(source):
                    self._waiting.setdefault(source)
        return found
