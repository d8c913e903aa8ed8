"""Waiting politely.

An MPI library that waits spins, and with more ranks than cores it spins on the core that the awaited rank needs:
MPICH's barrier of 4 ranks on 2 cores takes milliseconds instead of a microsecond. So no blocking MPI call waits
here: a wait tests, spinning for about 100 us, then yielding the core between tests, and after 20 ms (1 ms where there
are more ranks than cores) sleeping in short steps: who sleeps comes late, by 0.2 to 0.5 ms. Between tests Python sees
Ctrl-C.

Who waits also *looks* (`Waiter.look`), every millisecond and in each sleep: MPI moves messages on only while it is
called, and there one learns that somebody has left the exchange (revocation.py). Where this processor has sends that
MPI has not completed (`Waiter.moving`), others may wait for them, and it looks at each turn. A wait that takes very
long is reported, or ended (`Waiter.overdue`, patience.py).

What lies in shared memory is looked at some times first (`tries`): that takes less than asking for the time. There the
compiled core goes on to yield (`turns`): a wait in Python is over microseconds late, as its code is in no cache. On a
host that is known to have more ranks than cores nobody spins (`crowd`).

A processor count says little (containers and emulated hosts share cores without knowing it), so the time to spin
follows what yields turn out to take: it halves in a wait in which another had this core, and grows in any other.
PYBSP_WAIT overrides: `spin` never yields, `yield` does so at once and never sleeps, `sleep` sleeps at once.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from ..errors import UsageError
from ..ground import settings

SPIN = 100e-6
YIELD = 20e-3  # with more ranks than cores so much would be wasted:
YIELD_CROWDED = 1e-3
NAPS = 2e-3  # between two short sleeps of who yields
STEP = 50e-6  # the shortest sleep; longer waits sleep for a share of what they have waited, up to LONGEST_STEP:
SHARE = 1 / 2048  # looks of who has a core cost nobody much, and all the others wait for who sleeps
SHARE_CROWDED = 1 / 64
LONGEST_STEP = 5e-4
MOMENT = 20e-6
SOMEBODY, TURN = 5e-6, 5e-5  # seconds that a yield takes only where another had this core, and for something else
LOOK = 1e-3  # seconds between two looks of who does not sleep
# Looks at a word in shared memory before waiting begins; with more ranks than cores one, and then yield. The compiled
# core looks for 3 us for each of them, 150 us in all, before all that: from a wait in Python its way back is a
# microsecond longer.
TRIES, FEWEST_TRIES = 50, 10
TURNS = 2000  # yields of the compiled core after these, some 1 ms: with more ranks than cores see board.py

_MODES = {"polite": (SPIN, YIELD), "spin": (float("inf"), 0.0), "yield": (0.0, float("inf")), "sleep": (0.0, 0.0)}


class Waiter:
    """How one processor waits: in the mode given, else that of PYBSP_WAIT.

    Attributes:
        tries: looks at a word in shared memory before waiting begins.
        look: called in a wait that takes long; may raise, which ends the wait.
        moving: what has sends under way beside those that are waited for.
        patience: seconds after which a wait without a deadline takes very long.
        overdue: called then with the time since when it has waited and the time; returns when to call it again. May
            raise, as `look`.
        since: waits do not count before that time.
    """

    def __init__(self, mode: str = "") -> None:
        mode = mode or settings.text(settings.WAIT)
        if mode not in _MODES:
            raise UsageError(f"PYBSP_WAIT: expected one of {', '.join(_MODES)}, got {mode!r}")
        self._most, self._yield = _MODES[mode]
        self._adapts = mode == "polite"
        self._spin = self._most
        self._share = SHARE
        self._shares_core = False
        self.tries = TRIES if self._most else 1
        self.look: Callable[[], None] = _nothing
        self.moving: set[int] = set()
        self.patience = float("inf")
        self.overdue: Callable[[float, float], float] = _never
        self.since = 0.0

    def retire(self) -> None:
        """Nobody waits by it any more: it refers to nothing of the run that did."""
        self.look, self.overdue, self.patience = _nothing, _never, float("inf")

    def crowd(self) -> None:
        """The host has more ranks than cores: do not spin at all."""
        if self._adapts:
            self._most = self._spin = 0.0
            self._yield = YIELD_CROWDED
            self._share = SHARE_CROWDED
            self.tries = 1

    def turns(self, longest: float, last: float) -> int:
        """Those of others on this core that the compiled core gives before waiting begins: none where MPI has sends to
        move on meanwhile, or nobody is to yield.

        Args:
            longest, last: seconds of those in its last wait with any, as of which this goes on as `until`; 0: of none.
        """
        if longest:
            self._adapt(longest > SOMEBODY)
        if last > TURN:
            time.sleep(STEP)  # two ranks may take turns on this core while another is idle
        return TURNS if self._yield and not self.moving else 0

    def until(self, test: Callable[[Any], bool], what: Any, deadline: float | None = None, looks: bool = True) -> bool:
        """Wait until `test(what)`, which just was false, is true.

        Args:
            looks: whether to look, see above.

        Returns:
            False if the deadline (of `time.perf_counter`) came first.

        Raises:
            what `look` and `overdue` raise.
        """
        clock = time.perf_counter
        look = self.look if looks else _nothing
        start = clock()
        if self._shares_core:
            # The last wait was over as soon as this core was given up: two ranks take turns on it, perhaps while
            # another core is idle, which the system sees to after 0.1 s. Who wakes up is given that one.
            self._shares_core = False
            time.sleep(STEP)
        never = float("inf") if deadline is None else deadline
        late = start + self.patience if deadline is None and looks else never
        limit = start
        if self.moving:
            look()
        if self._spin:
            limit = min(start + self._spin, never)
            while (now := clock()) < limit:
                pause = min(limit, now + LOOK)
                while clock() < pause:
                    if test(what):
                        if self._spin < self._most:
                            self._adapt(False)
                        return True
                if pause < limit or self.moving:
                    look()
                    if now > late:
                        late = self.overdue(max(start, self.since), now)
        limit = min(limit + self._yield, never)
        pause = clock() + LOOK
        nap = pause if self._adapts else never
        shared = ever = False
        while (now := clock()) < limit:
            # One test moves the library on by little: with four for each turn on the core, supersteps of 8 ranks on 2
            # cores take less than half the time that they take with one.
            if test(what) or test(what) or test(what) or test(what):
                if self._most:
                    self._adapt(ever)
                    self._shares_core = shared
                return True
            if self.moving or now > pause:
                look()
                pause = now + LOOK
                if now > late:
                    late = self.overdue(max(start, self.since), now)
            if now > nap:
                # Two ranks that only yield may share a core while another is idle: who wakes up is given that one.
                time.sleep(STEP)
                nap, shared = now + NAPS, False
            else:
                now = clock()
                os.sched_yield()
                away = clock() - now
                shared, ever = away > TURN, ever or away > SOMEBODY
        self._adapt(ever)
        while not test(what):
            now = clock()
            if now > never:
                return False
            look()
            if now > late:
                late = self.overdue(max(start, self.since), now)
            time.sleep(STEP if self.moving else min(LONGEST_STEP, max(STEP, (now - start) * self._share)))
        return True

    def briefly(self, test: Callable[[Any], bool], what: Any) -> bool:
        """Wait a moment for what is all but there, and is not needed yet."""
        clock = time.perf_counter
        limit = clock() + MOMENT
        while clock() < limit:
            if test(what):
                return True
        return False

    def _adapt(self, shared: bool) -> None:
        """Spin for less in the next waits if others have had this core in this one, else for more."""
        if self._adapts and self._most:
            if shared:
                self._spin /= 2
            else:
                self._spin = min(self._most, 2 * self._spin + self._most / 16)
            self.tries = max(FEWEST_TRIES, round(TRIES * self._spin / self._most))


def _nothing() -> None:
    pass


def _never(since: float, now: float) -> float:
    return float("inf")
