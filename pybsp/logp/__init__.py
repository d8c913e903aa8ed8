"""LogP programs: processors that send and receive single messages, on a machine of latency L, overhead o and gap G.

    def program(proc):                              # proc.p, proc.pid, proc.machine, proc.time
        proc.send(dest, payload)
        m = proc.recv()                             # m.source, m.payload

A program is written once and runs on a simulated machine that follows the model to the letter, and on a BSP
machine (`pybsp.routing.logp_on_bsp`).

    processor.py    the programming interface
    simulation.py   simulate: on a simulated machine
    engine.py       the simulated machine
    schedule.py     what decides where the model leaves a choice
    trace.py        what happened to every message, and whether the model allows it
    payload.py      what a message of the simulated machine carries
"""

from .engine import Simulation
from .processor import Message, Processor
from .schedule import Schedule
from .simulation import simulate
from .trace import Trace

_check = Trace._check  # of all invariants of the model: _check(trace)

__all__ = [
    "Message",
    "Processor",
    "Schedule",
    "Simulation",
    "Trace",
    "simulate",
]
