"""Random LogP programs that end, whatever the execution, and an exact replay of an execution in the simulator."""

from __future__ import annotations

import random
from collections.abc import Sequence, Set
from typing import Any

from pybsp import LogPMachine, logp
from pybsp.logp import Processor, Simulation


def wanderer(proc: Processor, seed: int, messages: int, spread: int) -> list[Any]:
    """Sends, computes, polls and waits at random; returns what it saw and when, which depends on the execution.

    Each processor sends up to `messages` to others, to one of them more than to the rest, and receives all that is for
    it; it computes up to `spread` steps at a time.
    """
    seen: list[Any] = []
    if proc.p == 1:
        proc.compute(seed % (spread + 1))
        return [proc.time]

    def sends(pid: int) -> list[int]:
        draw = random.Random(f"{seed} {pid}")
        hot = random.Random(seed).randrange(proc.p)
        return [
            hot if draw.random() < 0.4 and hot != pid else (pid + 1 + draw.randrange(proc.p - 1)) % proc.p
            for _ in range(draw.randrange(messages + 1))
        ]

    expected = sum(sends(pid).count(proc.pid) for pid in range(proc.p))
    draw = random.Random(f"{seed} {proc.pid} steps")

    def note(message: logp.Message | None) -> int:
        seen.append((proc.time, message))
        return message is not None

    for number, dest in enumerate(sends(proc.pid)):
        for _ in range(draw.randrange(3)):
            kind = draw.randrange(4)
            if kind == 0:
                proc.compute(draw.randrange(spread + 1))
            elif kind == 1:
                expected -= note(proc.poll())
            elif kind == 2:
                expected -= note(proc.recv(until=proc.time + draw.randrange(-1, spread + 1)))
            elif expected:
                expected -= note(proc.recv(until=proc.time + 3 * spread))
        proc.send(dest, (proc.pid, number))
        seen.append(proc.time)
    while expected:
        expected -= note(proc.recv() if draw.random() < 0.8 else proc.poll())
    proc.compute(draw.randrange(spread + 1))
    return [proc.time, *seen]


class Replay(logp.Schedule):
    """The choices of an execution, read from its trace."""

    def __init__(self, trace: logp.Trace) -> None:
        self._accepted: dict[tuple[int, int], int] = {}  # (source, acceptance): delivery
        self._queues: dict[tuple[int, int], list[int]] = {}  # (source, dest): acceptances to come, last first
        columns = (trace.source, trace.dest, trace.acceptance, trace.delivery)
        for source, dest, acceptance, delivery in zip(*(column.tolist() for column in columns), strict=True):
            self._accepted[source, acceptance] = delivery
            self._queues.setdefault((source, dest), []).insert(0, acceptance)

    def delivery(self, source: int, dest: int, accepted: int, taken: Set[int]) -> int:
        assert self._queues[source, dest].pop() == accepted
        return self._accepted[source, accepted]

    def acceptances(self, dest: int, waiting: Sequence[int], room: int) -> Sequence[int]:
        order = sorted(range(len(waiting)), key=lambda k: self._queues[waiting[k], dest][-1])
        return order[:room]


def replayed(execution: Simulation, program: Any, machine: LogPMachine, *args: Any) -> Simulation:
    """The same execution, by the simulator."""
    return logp.simulate(program, machine.p, machine, Replay(execution.trace), args=args)
