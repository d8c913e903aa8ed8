"""The simulation of Theorem 1: cycles of ceil(L/2) steps, each a superstep (*BSP vs LogP*, section 3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import greenlet
import numpy as np

from ...bsp import BSP
from ...errors import BSPError, DeadlockError, UnreceivedError, UsageError
from ...ground.failures import note_place
from ...logp import wording
from ...logp.payload import arriving
from ...machines.logp import LogPMachine
from .control import Control, State, SubtreeReport, Verdict
from .execution import Part
from .processor import CycleProcessor

NAME = "pybsp.routing.logp_on_bsp"
CONTROL = -1  # the tag of a word of control; a message's is its submission


class Cycles:
    """One execution on this BSP processor, of a program that does not stall.

    Args:
        bsp: the processor.
        machine: the LogP machine; its p is that of the processors.
        body: what its processor does: `body(proc)`.
        steps: of a cycle; None: ceil(L/2).
        arity: of the tree of control; None: max{2, ceil(L/G)}.

    Attributes:
        processor: the LogP processor.
        result: of its program, at the end.
        cycle: the number of the one that goes on.
        stall: the time of the first stall at this processor, and the messages in transit; None where there was none.
    """

    label = "logp cycle"

    def __init__(
        self,
        bsp: BSP,
        machine: LogPMachine,
        body: Callable[[CycleProcessor], Any],
        steps: int | None = None,
        arity: int | None = None,
    ) -> None:
        self.bsp, self.machine = bsp, machine
        self.length = steps or length(machine)
        self.processor = CycleProcessor(machine, bsp.pid, self._run_program, self.submit)
        self.result: Any = None
        self.error: BaseException | None = None
        self.cycle = 0
        self.stall: tuple[int, int] | None = None
        self._control = Control(machine.p, bsp.pid, arity or max(2, machine.capacity))
        self._body = body
        self._submitted = False  # in this cycle
        self._waited = 0  # cycles that this processor has waited
        self._ended = 0  # the cycle in which it ended, once it has
        self._planned = 0  # deliveries of this cycle

    def run(self) -> bool:
        """All cycles, to the end of all programs; collective. False if the execution stalls: then it is thrown away.

        Raises:
            what the program raised, on its processor; ProcessorError on the others.
            DeadlockError, UnreceivedError: on all processors.
        """
        control, task = self._control, self.processor.task
        try:
            while control.stop != self.cycle:
                self._go_on()
                words = control.speak(self.cycle, self._report())
                self._submitted = False
                self.exchange(words)
                self.cycle += 1
        finally:
            self.processor.closed = True
            if not task.dead:
                task.end()
        if control.verdict == Verdict.FAILED:
            if self.error is not None:
                raise self.error
            self.bsp.sync()  # where the failure of another is raised
        if control.verdict in (Verdict.UNRECEIVED, Verdict.DEADLOCK):
            raise self._agreed_error(control.verdict)
        return control.verdict != Verdict.STALLED

    def _go_on(self) -> None:
        """Let the program run to the end of the cycle."""
        processor = self.processor
        processor.end = (self.cycle + 1) * self.length
        if not processor.task.dead and self.may_go_on():
            self._ended = self.cycle
            processor.task.switch()
        self.bsp.work(processor.charged)
        processor.charged = 0

    def _run_program(self) -> None:
        try:
            self.result = self._body(self.processor)
        except (KeyboardInterrupt, greenlet.GreenletExit):
            raise
        except BaseException as error:
            if self.processor.closed:
                return  # of its `finally`: it is not what went wrong
            proc = self.processor
            note_place(error, f"(on processor {proc.pid} of {proc.p} of the LogP machine, time {proc.time})")
            self.error = error  # raised when it is known that no stall before has led to it

    def may_go_on(self) -> bool:
        """Whether the program has something to do in this cycle."""
        return bool(self.processor.input_buffer) or not self.processor.waiting

    def awaited(self) -> int:
        """Messages to this processor that have been accepted, and have not come yet, as far as it knows."""
        return 0

    def _report(self) -> SubtreeReport:
        processor, stalled = self.processor, self.stall is not None
        if self.error is not None:
            return SubtreeReport(State.ACTIVE, True, stalled)
        if processor.task.dead and not self._submitted:
            return SubtreeReport(State.ENDED, False, stalled, processor.sent - processor.acquired, self._ended)
        # Who waits for an answer does not report it: that takes longer, and only what lasts is of interest.
        waits = processor.waiting and not processor.input_buffer and not self._submitted and not self.awaited()
        self._waited = self._waited + 1 if waits else 0
        return SubtreeReport(State.WAITING if self._waited > self._control.height + 2 else State.ACTIVE, False, stalled)

    def submit(self, dest: int, payload: Any) -> int:
        """A message is submitted, and accepted at once. It is delivered in the next cycle."""
        self._submitted = True
        self.bsp.send(dest, payload, self.processor.time)
        return self.processor.time

    def exchange(self, words: list[tuple[int, int]]) -> None:
        """End the cycle: messages go to their destinations, which deliver them in the first steps of the next one."""
        arrived = self._synced(words)
        # 1. Were there more in transit than may be? Those submitted in this cycle are in transit until its end, those
        #    of the one before were delivered one a step.
        begin, capacity = self.cycle * self.length, self.machine.capacity
        for number, (submission, _, _) in enumerate(arrived):
            in_transit = number + 1 + max(0, self._planned - (submission - begin + 1))
            if in_transit > capacity and (self.stall is None or self.stall[0] == submission):
                self.stall = submission, in_transit
        # 2. Deliveries.
        self._planned = len(arrived)
        begin += self.length
        for number, (submission, source, payload) in enumerate(arrived):
            self.processor.deliver(begin + number, source, submission, submission, payload)

    def _synced(self, words: list[tuple[int, int]]) -> list[tuple[int, int, Any]]:
        """A superstep with words of control: what else came, as (tag, source, payload), by tag, then source."""
        bsp = self.bsp
        for dest, word in words:
            bsp.send(dest, word, CONTROL)
        with bsp.superstep(self.label):
            pass
        arrived = []
        for source, tag, payload in bsp.inbox:
            if tag == CONTROL:
                self._control.hear(source, payload)
            else:
                arrived.append((tag, source, arriving(payload)))  # what bsp.inbox gives ends with the next sync
        return sorted(arrived, key=lambda message: message[:2])

    def _agreed_error(self, verdict: Verdict) -> BSPError:
        """The error that all raise; collective: each sends all others what the text needs of it."""
        processor = self.processor
        counts = gathered(self.bsp, len(processor.input_buffer) + self.awaited())
        left = {pid: count for pid, count in counts.items() if count}
        if verdict == Verdict.UNRECEIVED:
            return UnreceivedError(wording.unreceived(left))
        since = gathered(self.bsp, processor.time if processor.waiting else None)
        waiting = [(pid, time) for pid, time in since.items() if time is not None]
        return DeadlockError(wording.deadlock(self.bsp.p, waiting, left))

    def part(self) -> Part:
        """What this processor knows of the execution."""
        proc = self.processor
        messages = np.array(proc.records, np.int64).reshape(-1, 5)
        return Part(self.machine, proc.time, proc.busy, proc.stalled, messages)

    def stall_error(self) -> UsageError:
        """The error that all raise where a stall is not allowed; collective."""
        stalls = {pid: stall for pid, stall in gathered(self.bsp, self.stall).items() if stall}
        dest, (time, in_transit) = min(stalls.items(), key=lambda item: (item[1][0], item[0]))
        return UsageError(
            f"{NAME}: argument stalls: expected a program that does not stall, but {in_transit} messages were in "
            f"transit to processor {dest} at time {time}, and ceil(L/G) = {self.machine.capacity} may be; use "
            "stalls=True, or None"
        )


def length(machine: LogPMachine) -> int:
    """Steps of a cycle of Theorem 1."""
    return -(-machine.L // 2)


def gathered(bsp: BSP, value: Any) -> dict[int, Any]:
    """The values of all processors, by pid; collective."""
    for dest in range(bsp.p):
        bsp.send(dest, value)
    bsp.sync()
    return {source: payload for source, _, payload in bsp.inbox}
