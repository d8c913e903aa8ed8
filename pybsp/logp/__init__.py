"""LogP programs: processors that send and receive single messages, on a machine of latency L, overhead o and gap G.

    def program(proc):                              # proc.p, proc.pid, proc.machine, proc.time
        proc.send(dest, payload)
        m = proc.recv()                             # m.source, m.payload

A program is written once and runs on MPI ranks, on a simulated machine that follows the model to the letter, and on
a BSP machine (`pybsp.routing.logp_on_bsp`).

    processor.py    the programming interface
    simulation.py   simulate: on a simulated machine
    checking.py     check: many executions of a program
    local_orders.py all orders of receiving, for one processor after the other
    orders.py       all of all processors
    timeless.py     an execution without time
    realising.py    an order as an execution in time
    differences.py  where results differ
    engine.py       the simulated machine
    goal.py         GOAL schedules: a trace as a file, a file simulated
    columns.py      the operations of one as columns; the compiled loops over them
    goal.c          these loops: reading, what has no end, the simulated machine
    operations.py   a simulated processor that does a list of operations
    timeline.py     what the processors did, and when; of a run that was measured, or predicted
    replay.py       predict: such a run's operations again, on the simulated machine
    recording.py    what a processor on an MPI rank notes for that
    stamps.c        its rows of times, compiled
    task.py         the greenlet of a program
    schedule.py     what decides where the model leaves a choice
    launch.py       run: on MPI ranks
    ranks.py        a processor on an MPI rank: slots, credits, pace
    termination.py  how its ranks find that a program has ended, or never will
    wire.py         what a message between ranks looks like
    trace.py        what happened to every message, and whether the model allows it
    words.py        long messages
    payload.py      what a message of the simulated machine carries
    arguments.py    arguments of a processor's methods
    wording.py      what the errors at the end of a program say
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import lazy

if TYPE_CHECKING:
    from .checking import Check as Check
    from .checking import check as check
    from .engine import Simulation as Simulation
    from .goal import Goal as Goal
    from .launch import Traced as Traced
    from .launch import run as run
    from .processor import Message as Message
    from .processor import Processor as Processor
    from .processor import Program as Program
    from .replay import predict as predict
    from .schedule import Schedule as Schedule
    from .simulation import simulate as simulate
    from .timeline import Messages as Messages
    from .timeline import Timeline as Timeline
    from .trace import Trace as Trace
    from .trace import _check as _check

if not TYPE_CHECKING:
    __getattr__, __dir__, __all__ = lazy(
        __name__,
        {
            ".checking": ("Check", "check"),
            ".engine": ("Simulation",),
            ".goal": ("Goal",),
            ".launch": ("Traced", "run"),
            ".processor": ("Message", "Processor", "Program"),
            ".replay": ("predict",),
            ".schedule": ("Schedule",),
            ".simulation": ("simulate",),
            ".timeline": ("Messages", "Timeline"),
            ".trace": ("Trace", "_check"),
        },
    )
