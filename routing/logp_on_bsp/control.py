"""How the processors learn, beside the messages, when all have ended, and when none can go on.

A tree, and one word at most on each of its edges in a cycle. Reports go up, when they change; the root's verdict goes
down, and says after which cycle all stop.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class State(IntEnum):
    """Of the processors of a subtree: the least of theirs."""

    ACTIVE = 0
    WAITING = 1  # for messages, or ended
    ENDED = 2


class Verdict(IntEnum):
    """What the root decided."""

    ENDED = 0  # all programs have ended, and every message was received
    UNRECEIVED = 1  # all have ended, and messages are left
    DEADLOCK = 2  # all wait or have ended, and no message is in transit
    FAILED = 3  # a program raised
    STALLED = 4  # more than the capacity was in transit to a processor


class SubtreeReport(NamedTuple):
    """Of a subtree; it fits in a word.

    left: messages sent less messages received; 0 unless all have ended.
    last: the cycle in which the last ended; 0 unless all have ended.
    """

    state: State
    failed: bool = False
    stalled: bool = False
    left: int = 0
    last: int = 0

    @property
    def word(self) -> int:
        return ((self.left << 27 | self.last) << 2 | self.failed << 1 | self.stalled) << 2 | self.state

    @classmethod
    def of(cls, word: int) -> SubtreeReport:
        flags = word >> 2
        return cls(State(word & 3), bool(flags & 2), bool(flags & 1), word >> 31, (word >> 4) & ((1 << 27) - 1))


QUIET = SubtreeReport(State.ACTIVE)  # of a subtree that has not reported yet


def height(p: int, arity: int) -> int:
    """Edges from the root to the last processor, in the tree where the children of i are arity*i + 1 and so on."""
    edges, last = 0, p - 1
    while last > 0:
        last = (last - 1) // arity
        edges += 1
    return edges


class Control:
    """A processor's part in the tree.

    Attributes:
        stop: the cycle before which all stop; -1 while that is not known.
        verdict: why they stop.
    """

    def __init__(self, p: int, pid: int, arity: int) -> None:
        self.height = height(p, arity)
        self.parent = (pid - 1) // arity if pid else None
        self.children = range(min(arity * pid + 1, p), min(arity * pid + arity + 1, p))
        self.stop, self.verdict = -1, Verdict.ENDED
        self._heard = dict.fromkeys(self.children, QUIET)
        self._reported = QUIET
        self._passed_on = False
        self._since = -1  # the cycle from which on the root has known of nothing but waiting
        self._failed = -1  # the cycle in which the root has heard of a failure

    def hear(self, source: int, word: int) -> None:
        """Take a word that came with the last cycle."""
        if source == self.parent:
            self.stop, self.verdict = word >> 3, Verdict(word & 7)
        else:
            self._heard[source] = SubtreeReport.of(word)

    def speak(self, cycle: int, own: SubtreeReport) -> list[tuple[int, int]]:
        """What to tell whom at the end of a cycle, as (processor, word), where `own` is this processor's report."""
        report = self._combined(own)
        words = []
        if self.parent is None:
            if self.stop < 0:
                self._decide(cycle, report)
        elif report != self._reported:
            self._reported = report
            words.append((self.parent, report.word))
        if self.stop >= 0 and not self._passed_on:
            self._passed_on = True
            words += [(child, self.stop << 3 | self.verdict) for child in self.children]
        return words

    def _combined(self, own: SubtreeReport) -> SubtreeReport:
        reports = [own, *self._heard.values()]
        state = min(report.state for report in reports)
        return SubtreeReport(
            state,
            any(report.failed for report in reports),
            any(report.stalled for report in reports),
            sum(report.left for report in reports) if state == State.ENDED else 0,
            max(report.last for report in reports) if state == State.ENDED else 0,
        )

    def _decide(self, cycle: int, report: SubtreeReport) -> None:
        """At the root: whether it is known how the execution ends.

        What happens at depth k in a cycle is known here k cycles later; and a stall is noticed one cycle after it.
        """
        if report.state == State.ACTIVE:
            self._since = -1
        elif self._since < 0:
            self._since = cycle
        if report.failed and self._failed < 0:
            self._failed = cycle
        # What a program did in an execution that stalled before does not count, so stalls come first, and all else is
        # only decided when no word of an earlier one can be under way.
        if report.stalled:
            self.verdict = Verdict.STALLED
        elif self._failed >= 0 and cycle > self._failed + self.height:
            self.verdict = Verdict.FAILED
        elif report.state == State.ENDED and cycle > report.last + self.height:
            self.verdict = Verdict.UNRECEIVED if report.left else Verdict.ENDED
        elif report.state == State.WAITING and cycle >= self._since + self.height:
            # A processor at depth k has waited from cycle since - k to since - k + height at least: all of them in
            # cycle `since`.
            self.verdict = Verdict.DEADLOCK
        else:
            return
        self.stop = cycle + max(self.height, 1)
