"""LogP programs: processors that send and receive single messages, on a machine of latency L, overhead o and gap G.

    def program(proc):                              # proc.p, proc.pid, proc.machine, proc.time
        proc.send(dest, payload)
        m = proc.recv()                             # m.source, m.payload

A program is written once and runs on MPI ranks, on a simulated machine that follows the model to the letter, and on
a BSP machine (`pybsp.routing.logp_on_bsp`).

    processor.py    the programming interface
    simulation.py   simulate: on a simulated machine
    checking.py     check: many executions of a program
    orders.py       all orders of receiving, without time
    engine.py       the simulated machine
    goal.py         GOAL schedules: a trace as a file, a file simulated
    operations.py   a simulated processor that does a list of operations
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
    from .checking import Check, check
    from .engine import Simulation
    from .goal import Goal
    from .launch import run
    from .processor import Message, Processor, Program
    from .schedule import Schedule
    from .simulation import simulate
    from .trace import Trace
    from .trace import _check as _check

__all__ = [
    "Check",
    "Goal",
    "Message",
    "Processor",
    "Program",
    "Schedule",
    "Simulation",
    "Trace",
    "check",
    "run",
    "simulate",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(
        __name__,
        {
            ".checking": (
                "Check",
                "check",
            ),
            ".engine": ("Simulation",),
            ".goal": ("Goal",),
            ".launch": ("run",),
            ".processor": (
                "Message",
                "Processor",
                "Program",
            ),
            ".schedule": ("Schedule",),
            ".simulation": ("simulate",),
            ".trace": (
                "Trace",
                "_check",
            ),
        },
    )
