"""Has a LogP program on MPI ranks ended, or will it never?

Each processor counts the messages that it has sent and those that have arrived. One that has ended, or waits for a
message for long, tells processor 0 (a *report*: what it does, and its counts); later again, where that has changed. So
nothing is sent while messages flow.

If all have ended and the sums of the counts agree, everything has arrived, as nobody can send any more. If all have
ended or wait, and the sums agree, reports of different times may agree by chance. So processor 0 then asks all (a
*probe*), after all reports were there: if each does the same still, with the same counts, nobody did anything between
its report and its answer, as only a message makes it; at the time of the probe all were idle, and nothing was in
transit. These are the four counters of Mattern, *Algorithms for distributed termination detection* (Distributed
Computing 2, 1987).
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, NamedTuple

from ..errors import BSPError, DeadlockError, UnreceivedError
from ..ground.failures import outcome
from . import wording

if TYPE_CHECKING:
    from .ranks import RankProcessor

ACTIVE, WAITING, ENDED = range(3)
WELL, DEADLOCK, UNRECEIVED = range(3)  # what is decided

# Kinds of messages, after those of ranks.py.
REPORT, PROBE, REPLY, DECISION = range(16, 20)


class Report(NamedTuple):
    """What a processor does, since when it waits, and how many messages it has sent, has got, and has not received."""

    state: int
    since: int
    sent: int
    arrived: int
    left: int


class Detection:
    """One processor's part in it.

    Attributes:
        over: it is decided that the program has ended well, or what error it ended with is in `proc.failure`.
    """

    def __init__(self, proc: RankProcessor) -> None:
        self.over = False
        self._proc = proc
        self._state, self._since = ACTIVE, 0
        self._last_report: Report | None = None
        # Of processor 0.
        self._reports: list[Report | None] = [None] * proc.p
        self._wave = 0
        self._confirmed: set[int] | None = None  # in the wave that is under way
        proc.observer = self

    # -- what this processor does -------------------------------------------------------------------------------------

    def idle(self, since: int) -> None:
        """This processor waits, since that time, for long."""
        self._state, self._since = WAITING, since
        self._report()

    def resumed(self) -> None:
        """This processor waits no longer."""
        self._state = ACTIVE

    def end(self) -> None:
        """Its program has ended. Waits for the decision, which may be a DeadlockError or UnreceivedError on all."""
        self._state = ENDED
        self._proc.wait_for(self._over)

    def _over(self) -> bool:
        if not self.over:
            self._report()  # again, where something has arrived since
        return self.over

    def _report(self) -> None:
        report = self._now()
        if report != self._last_report:
            self._last_report = report
            if self._proc.pid == 0:
                self._reported(0, report)
            else:
                self._proc.post(0, REPORT, pickle.dumps(tuple(report)))

    def _now(self) -> Report:
        sent, arrived, left = self._proc.counts()
        # A message that has arrived ends the wait.
        state = ACTIVE if self._state == WAITING and left else self._state
        return Report(state, self._since, sent, arrived, left)

    def heard(self, kind: int, source: int, body: bytes) -> None:
        """A message of another processor's."""
        if kind == REPORT:
            self._reported(source, Report(*pickle.loads(body)))
        elif kind == PROBE:
            report = self._now()
            if report.state == ACTIVE:
                self._last_report = None
            self._proc.post(0, REPLY, pickle.dumps((pickle.loads(body), tuple(report))))
        elif kind == REPLY:
            wave, report = pickle.loads(body)
            self._replied(wave, source, Report(*report))
        else:
            self._decided(*pickle.loads(body))

    # -- processor 0 --------------------------------------------------------------------------------------------------

    def _reported(self, source: int, report: Report) -> None:
        self._reports[source] = report
        self._confirmed = None
        reports = self._reports
        known = [report for report in reports if report is not None]
        if len(known) < len(reports) or sum(r.sent for r in known) != sum(r.arrived for r in known):
            return
        if all(report.state == ENDED for report in known):
            self._decide()
            return
        self._wave += 1
        self._confirmed = set()
        for dest in range(1, len(reports)):
            self._proc.post(dest, PROBE, pickle.dumps(self._wave))
        self._replied(self._wave, 0, self._now())

    def _replied(self, wave: int, source: int, report: Report) -> None:
        if wave != self._wave or self._confirmed is None:
            return
        if report.state == ACTIVE:
            self._reports[source] = self._confirmed = None  # it will report
        elif report != self._reports[source]:
            self._reported(source, report)
        else:
            self._confirmed.add(source)
            if len(self._confirmed) == len(self._reports):
                self._decide()

    def _decide(self) -> None:
        """All are idle, and nothing is in transit: say what that is."""
        reports = {pid: report for pid, report in enumerate(self._reports) if report is not None}
        waiting = [(pid, report.since) for pid, report in reports.items() if report.state == WAITING]
        left = {pid: report.left for pid, report in reports.items() if report.left}
        verdict, text, speaker = WELL, "", 0
        if waiting:
            verdict, text, speaker = DEADLOCK, wording.deadlock(len(reports), waiting, left), waiting[0][0]
        elif left:
            verdict, text, speaker = UNRECEIVED, wording.unreceived(left), min(left)
        decision = pickle.dumps((verdict, text, speaker))
        for dest in range(1, len(reports)):
            self._proc.post(dest, DECISION, decision)
        self._decided(verdict, text, speaker)

    # -- all ----------------------------------------------------------------------------------------------------------

    def _decided(self, verdict: int, text: str, speaker: int) -> None:
        self.over = True
        if verdict != WELL:
            error: BSPError = DeadlockError(text) if verdict == DEADLOCK else UnreceivedError(text)
            outcome(error).speaker = speaker
            self._proc.failure = error
