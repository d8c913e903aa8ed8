"""What happened to every message of an execution, and whether the model allows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..machines.logp import LogPMachine
from .words import streaming

Times = NDArray[np.int64]
_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, repr=False)
class Trace:
    """The messages of an execution, in order of submission; all times in steps, -1 where something did not happen.

    Args:
        machine: whose execution it is.
        source, dest: processors.
        submission: when the message was in the output register, prepared.
        acceptance: when the medium accepted it; until then its source stalled.
        delivery: when it was in dest's input buffer.
        acquisition: when dest had acquired it.
        words: its size, of 8 bytes each; it takes time on a machine with G_word alone.

    Examples:
        >>> def program(proc):
        ...     if proc.pid > 0:
        ...         proc.send(0, proc.pid**2)
        ...         return None
        ...     return sum(proc.recv().payload for _ in range(proc.p - 1))
        >>> machine = pybsp.LogPMachine(p=4, L=16, o=1, G=4)
        >>> trace = pybsp.logp.simulate(program, machine=machine).trace
        >>> trace
        <trace: 3 messages of 4 processors>
        >>> trace.p, trace.in_transit().tolist()
        (4, [3, 0, 0, 0])
        >>> trace.submission.tolist(), trace.delivery.tolist(), trace.acquisition.tolist()
        ([1, 1, 1], [17, 16, 15], [24, 20, 16])
    """

    machine: LogPMachine
    source: Times
    dest: Times
    submission: Times
    acceptance: Times
    delivery: Times
    acquisition: Times
    words: Times

    def __len__(self) -> int:
        return len(self.source)

    def __repr__(self) -> str:
        return f"<trace: {len(self)} messages of {self.p} processors>"

    @property
    def p(self) -> int:
        return self.machine.p

    def in_transit(self) -> Times:
        """The largest number of messages in transit to each destination at any time, shape (p,)."""
        dest, _, count = self._transit()
        most = np.zeros(self.p, np.int64)
        np.maximum.at(most, dest, count)
        return most

    def _transit(self) -> tuple[Times, Times, Times]:
        """Messages in transit to dest from a time on, ordered by both; deliveries of a step come before acceptances."""
        went, came = self.acceptance >= 0, self.delivery >= 0
        dest = np.concatenate((self.dest[came], self.dest[went]))
        time = np.concatenate((self.delivery[came], self.acceptance[went]))
        change = np.repeat(np.array((-1, 1)), (int(came.sum()), int(went.sum())))
        order = np.lexsort((change, time, dest))
        dest, time = dest[order], time[order]
        total = np.cumsum(change[order])
        if not len(dest):
            return dest, time, total
        # All that went to lower destinations: what was in transit where this one's events begin.
        begins = np.flatnonzero(np.diff(dest, prepend=-1))
        before = np.concatenate(((0,), total))[begins]
        return dest, time, total - np.repeat(before, np.diff(np.append(begins, len(dest))))

    def _check(self) -> None:
        """Hold every invariant of the model against the trace.

        Raises:
            AssertionError: one does not hold; the text says which, and where.

        Source: *BSP vs LogP*, section 2.2.
        """
        m, t = self.machine, self
        L, o, G = m.L, m.o, m.G
        stream = np.array([streaming(m, count) for count in t.words.tolist()], np.int64)
        sent = t.acceptance + stream  # the last word
        accepted, delivered, acquired = t.acceptance >= 0, t.delivery >= 0, t.acquisition >= 0
        self._require("source and dest are different processors", (t.source != t.dest) & _within(t.source, m.p))
        self._require("dest is a processor", _within(t.dest, m.p))
        self._require("a message is prepared in o steps, from time 0 on", t.submission >= o)
        self._require("acceptance is not before submission", ~accepted | (t.acceptance >= t.submission))
        self._require(
            "what is delivered was accepted, what is acquired delivered",
            (accepted | ~delivered) & (delivered | ~acquired),
        )
        self._require(
            "delivery is 1 to L steps after acceptance, and the further words",
            ~delivered | _within(t.delivery - sent - 1, L),
        )
        over = max(int(times.max(initial=-1)) for times in (t.submission, t.acceptance, t.delivery, t.acquisition))
        in_time = ~accepted | delivered | (sent + L >= over)
        self._require("what is accepted is delivered, unless the execution is cut off within L steps", in_time)
        self._require("acquisition ends o steps after delivery or later", ~acquired | (t.acquisition >= t.delivery + o))
        # Gaps, and one delivery a step.
        order = np.lexsort((t.submission, t.source))
        in_order, least = (t.source[order], t.submission[order]), G + stream[order][:-1]
        self._check_spacing("submissions of a processor are G apart", *in_order, least, False)
        order = np.flatnonzero(acquired)[np.lexsort((t.acquisition[acquired], t.dest[acquired]))]
        in_order, least = (t.dest[order], t.acquisition[order]), G + stream[order][1:]
        self._check_spacing("acquisitions of a processor are G apart", *in_order, least, False)
        self._check_spacing("a processor is delivered one message a step", t.dest[delivered], t.delivery[delivered], 1)
        # Never is later than any time.
        until, taken = (np.where(times >= 0, times, _NEVER) for times in (t.acceptance, t.acquisition))
        order = np.lexsort((t.delivery[delivered], t.dest[delivered]))
        in_order = t.dest[delivered][order], taken[delivered][order]
        self._check_spacing("messages are acquired in the order of delivery", *in_order, 0, False)
        # A processor does one thing at a time: prepares, stalls, acquires.
        who = np.concatenate((t.source, t.dest[acquired]))
        begin = np.concatenate((t.submission, t.acquisition[acquired])) - o
        end = np.concatenate((until, t.acquisition[acquired]))
        order = np.lexsort((end, begin, who))
        who, begin, end = who[order], begin[order], end[order]
        free = (who[1:] != who[:-1]) | (begin[1:] >= end[:-1])
        self._require("a processor does one thing at a time", free, who[1:], begin[1:])
        order = np.lexsort((t.submission, t.source))
        who, begin, end = t.source[order], t.submission[order], until[order]
        free = (who[1:] != who[:-1]) | (begin[1:] - stream[order][:-1] > end[:-1])
        self._require("an output register holds one message", free, who[1:], begin[1:])
        # Capacity, and the stalling rule: what waits, waits because there is no room.
        dest, time, count = self._transit()
        self._require("at most ceil(L/G) messages are in transit to a destination", count <= m.capacity, dest, time)
        stalls = until > t.submission
        # What is in transit when a step is over, at all destinations; a place and a time as one number.
        last = np.append((dest[1:] != dest[:-1]) | (time[1:] != time[:-1]), True)[: len(dest)]
        dest, time, count = dest[last], time[last], count[last]
        span = int(max(time.max(initial=0), t.submission.max(initial=0))) + 2
        steps, base = dest * span + time, t.dest[stalls] * span
        room = np.concatenate(((0,), np.cumsum(count < m.capacity)))
        first = np.searchsorted(steps, base + t.submission[stalls], "right") - 1
        end = np.searchsorted(steps, base + np.minimum(until[stalls], span - 1))
        full = (first >= 0) & (room[end] == room[np.maximum(first, 0)])
        full &= np.append(dest, -1)[first] == t.dest[stalls]
        what = "a message waits only while dest has ceil(L/G) in transit"
        self._require(what, full, t.dest[stalls], t.submission[stalls])

    def _require(self, what: str, holds: NDArray[np.bool_], who: Any = None, time: Any = None) -> None:
        if not holds.all():
            k = int(np.argmin(holds))
            if who is None:
                fields = ("source", "dest", "submission", "acceptance", "delivery", "acquisition")
                where = ", ".join(f"{name} {getattr(self, name)[k]}" for name in fields)
            else:
                where = f"processor {who[k]}, time {time[k]}"
            raise AssertionError(
                f"{what}: not so for {where} (L = {self.machine.L}, o = {self.machine.o}, G = {self.machine.G})"
            )

    def _check_spacing(self, what: str, who: Times, time: Times, least: int | Times, sort: bool = True) -> None:
        if sort:
            order = np.lexsort((time, who))
            who, time = who[order], time[order]
        self._require(what, (who[1:] != who[:-1]) | (time[1:] - time[:-1] >= least), who[1:], time[1:])


def _within(values: Times, end: int) -> NDArray[np.bool_]:
    return (values >= 0) & (values < end)


_check = Trace._check  # of all invariants of the model: _check(trace)
