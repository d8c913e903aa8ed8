"""What the model predicts of a run that was measured: its operations again, on the simulated machine."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from ..errors import UsageError, argument_error
from ..machines.logp import LogPMachine
from .goal import played
from .schedule import Schedule, schedule_of
from .simulation import machine_of
from .timeline import Timeline


def predict(
    timeline: Timeline,
    machine: LogPMachine | None = None,
    schedule: str | Schedule | Callable[[int, int, int], int] = "latest",
    *,
    seed: int = 0,
) -> Timeline:
    """A run as the model predicts it: what it sent, acquired and computed, in its order, on the simulated machine.

    The program does not run again. What it computed between two operations takes as long as it did, and an acquisition
    waits for the message that it got; overheads, gaps, stalls and the network are the model's (LogGP, where the machine
    has G_word).

    Args:
        timeline: of `pybsp.logp.run(program, trace=True)`.
        machine: of as many processors; None: that of the run. Where o is above G, G is o, as its flag says.
        schedule, seed: as in `simulate`.

    Raises:
        UsageError: wrong arguments; a machine without 2 <= G <= L; operations that wait for each other.

    Examples:
        >>> def program(proc):
        ...     return proc.send(0, 1.0) if proc.pid else proc.compute(7) or proc.recv()
        >>> machine = pybsp.LogPMachine(p=2, L=16, o=1, G=4, step=1e-6)
        >>> timeline = pybsp.logp.Timeline.of(pybsp.logp.simulate(program, machine=machine))
        >>> pybsp.logp.predict(timeline).seconds == timeline.seconds
        True
        >>> slower = pybsp.LogPMachine(p=2, L=32, o=1, G=4, step=1e-6)
        >>> pybsp.logp.predict(timeline, slower).seconds
        3.4e-05
    """
    operation = "pybsp.logp.predict"
    if not isinstance(timeline, Timeline):
        raise UsageError(
            f"{operation}: argument timeline: expected a pybsp.logp.Timeline, which of a run on ranks only processor 0 "
            f"has, got {type(timeline).__name__}"
        )
    machine = timeline.machine if machine is None else machine
    if isinstance(machine, LogPMachine) and machine.o > machine.G:
        machine = dataclasses.replace(machine, G=machine.o)
    if isinstance(machine, LogPMachine) and machine.p != timeline.p:
        raise argument_error(operation, "machine", f"one of p = {timeline.p}, as the run's", machine.p)
    machine, chosen = machine_of(timeline.p, machine, operation), schedule_of(schedule, seed, operation)
    operations = timeline.operations()
    simulation = played(operations, machine, chosen)
    acquired = simulation.trace.acquisition
    if len(acquired) < timeline.sent.sum() or (acquired < 0).any():
        raise UsageError(f"{operation}: argument timeline: its operations wait for each other, in a circle")
    return Timeline.played(operations, simulation, timeline)
