"""Virtual processors that fail: all of them at once, at random, and go on from the last checkpoint, in virtual time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import UsageError, brief
from ..supersteps.participant import Saving
from ..transport import SAVE
from ..transport.virtual import VirtualTransport
from . import snapshot
from .due import Every, expected
from .part import SavedPart
from .saver import check_boundary, check_registered

if TYPE_CHECKING:
    from ..supersteps.superstep import SuperstepEngine


@dataclass(frozen=True)
class Failures:
    """How a simulated machine fails, and what that costs.

    mtbf: mean time between failures, in seconds, of the machine as a whole; they come by a Poisson process.
    checkpoint: seconds of a checkpoint.
    restart: seconds from a failure until the program goes on.
    seed: of the draws.

    Raises:
        UsageError: a time that is none.

    Examples:
        >>> def main(bsp):
        ...     for step in range(bsp.restore(0), 100):
        ...         bsp.work(1e9)  # a second
        ...         bsp.sync()
        ...         bsp.checkpoint(step + 1)
        ...     return step
        >>> machine = pybsp.BSPMachine(p=4, g=1e-8, l=1e-5, r=1e9)
        >>> failures = pybsp.Failures(mtbf=60, checkpoint=1, restart=5, seed=1)
        >>> simulation = pybsp.simulate(main, machine=machine, failures=failures, every="10s")
        >>> simulation.results, simulation.failures
        ([99, 99, 99, 99], 2)
        >>> f"{simulation.time:.0f} s, {simulation.expected:.0f} s expected"
        '137 s, 131 s expected'
    """

    mtbf: float
    checkpoint: float = 0.0
    restart: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("mtbf", "checkpoint", "restart"):
            value = getattr(self, name)
            if not isinstance(value, (int, float)) or not 0 <= value < math.inf or (name == "mtbf" and not value):
                raise UsageError(f"pybsp.Failures: argument {name}: expected seconds, got {brief(value)}")


class Fate:
    """One machine, over all its failures.

    Args:
        failures: how it fails.
        every: when checkpoints are due.
        p: processors.

    Attributes:
        clock: virtual seconds at which the attempt that goes on began.
        ends_at: at which it fails.
        failed: how often it has.
    """

    def __init__(self, failures: Failures, every: Every, p: int) -> None:
        self.failures, self.every = failures, every
        self._draws = np.random.default_rng(failures.seed)
        self.clock, self.failed = 0.0, 0
        self.ends_at = self._next()
        self.saved: list[SavedPart | None] = [None] * p
        self.fresh: list[SavedPart | None] = [None] * p
        self.begun = 0.0  # when the segment of computing that goes on began
        self._segments: list[float] = []
        self.interval = every.interval(failures.checkpoint)

    def _next(self) -> float:
        return self.clock + float(self._draws.exponential(self.failures.mtbf))

    def fail(self) -> None:
        """It has failed, and goes on."""
        self.failed += 1
        self.clock = self.begun = self.ends_at + self.failures.restart
        self.ends_at = self._next()

    def commit(self, segment: float, now: float) -> None:
        """A checkpoint counts, after so many seconds of computing."""
        self.saved = list(self.fresh)
        self._segments.append(segment)
        self.begun = now

    def expected(self, end: float) -> float:
        """The expected virtual seconds of a program that has ended at that time."""
        failures = self.failures
        segments = [*self._segments, end - self.begun]
        return expected(segments, failures.checkpoint, failures.restart, failures.mtbf)


class FailingSaver(Saving):
    """The checkpoints of a processor of a machine that fails: in memory, and for a price in virtual time.

    All decide alike when one is due, as the virtual clock and the supersteps are the same for all.
    """

    __slots__ = ("_at", "_engine", "_fate", "_things")

    def __init__(self, engine: SuperstepEngine, fate: Fate) -> None:
        self._engine, self._fate = engine, fate
        self._things: list[Any] | None = None
        self._at: float = fate.every.supersteps or math.inf

    def restore(self, default: Any) -> Any:
        engine, part = self._engine, self._fate.saved[self._engine.pid]
        check_boundary(engine, "bsp.restore")
        engine.settle(engine.meet(SAVE, (None, engine.registrations.declared or None, None), {}), SAVE, "restored")
        self._things = list(engine.registrations.order)
        if part is None:
            return default
        fresh = SavedPart(part.tree, [block.copy() for block in part.blocks], own=True, name="memory")
        state = snapshot.put_back(engine, self._things, fresh)
        self._at += len(engine.account.log)
        return state

    def offer(self, state: Any) -> None:
        engine, fate = self._engine, self._fate
        now = engine.transport.time()
        if len(engine.account.log) < self._at and now < fate.begun + fate.interval:
            return
        check_boundary(engine, "bsp.checkpoint")
        check_registered(engine, self._things)
        begun = fate.begun
        tree, blocks = snapshot.take(engine, self._things or (), state, engine.account.computed())
        fate.fresh[engine.pid] = SavedPart(tree, [block.copy() for block in blocks], own=True, name="memory")
        self._meet()
        assert isinstance(engine.transport, VirtualTransport)
        engine.transport.elapse(now + fate.failures.checkpoint)
        self._meet()  # or it has failed meanwhile
        if engine.pid == 0:
            fate.commit(now - begun, now + fate.failures.checkpoint)
            log = engine.account.log
            log.checkpoints.append((len(log), 0, fate.failures.checkpoint))
        self._meet()
        if fate.every.supersteps:
            self._at = len(engine.account.log) + fate.every.supersteps

    def _meet(self) -> None:
        self._engine.settle(self._engine.meet(SAVE, None, {}), SAVE, "called bsp.checkpoint()")
