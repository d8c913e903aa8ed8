"""All-to-all, every processor having a message for each other: in staggered order, and in the obvious one.

Staggered, processor i sends to i + 1, i + 2, ..., so that in each round every processor is sent one message. In rounds
of P = max(G, 2o) steps it has time both to prepare one and to acquire one, and starts every round on time. So
ceil(L/P) messages at most are in transit to any processor, and no execution stalls. The last round starts at (p-2)P;
its messages are there o + L later. Where P does not divide L they may have to wait for those that came before: the last
poll finds one, and ceil(L/P) are still to come, G apart. So in all it takes

    2o + (p-2)P + L,  and with G ceil(L/P) for L if that is more and p - 2 >= ceil(L/P)

steps where every message takes L ("latest"). With G >= 2o and G a divisor of L these are the 2o + G(h-1) + L of *BSP vs
LogP*, section 4.2, h = p - 1.

In the obvious order - 0, 1, 2, ... - all begin with the same destination: all but ceil(L/G) of them stall, and so on.

Run it:

    mpiexec -n 4 python examples/logp/all_to_all.py
    mpiexec -n 4 python examples/logp/all_to_all.py --obvious
    pybsp simulate -p 16 examples/logp/all_to_all.py
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import pybsp
from pybsp import LogPMachine
from pybsp.logp import Processor


def period(machine: LogPMachine) -> int:
    """Steps of a round: in each a processor prepares a message and acquires one."""
    return max(machine.G, 2 * machine.o)


def time(machine: LogPMachine) -> int:
    """Steps of the staggered order, where every message takes L."""
    if machine.p == 1:
        return 0
    rounds, spacing = machine.p - 1, period(machine)
    travelling = -(-machine.L // spacing)
    last = machine.L if rounds <= travelling else max(machine.L, machine.G * travelling)
    return 2 * machine.o + (rounds - 1) * spacing + last


def staggered(proc: Processor, values: Sequence[Any]) -> list[Any]:
    """Send values[i] to processor i; returns what the others sent to this one, by source."""
    received = list(values)
    missing = proc.p - 1
    start = proc.time
    for turn in range(1, proc.p):
        if proc.timed:
            proc.compute(start + (turn - 1) * period(proc.machine) - proc.time)
        dest = (proc.pid + turn) % proc.p
        proc.send(dest, values[dest])
        message = proc.poll()
        if message is not None:
            received[message.source] = message.payload
            missing -= 1
    for _ in range(missing):
        message = proc.recv()
        received[message.source] = message.payload
    return received


def obvious(proc: Processor, values: Sequence[Any]) -> list[Any]:
    """The same with all destinations in ascending order."""
    received = list(values)
    for dest in range(proc.p):
        if dest != proc.pid:
            proc.send(dest, values[dest])
    for _ in range(proc.p - 1):
        message = proc.recv()
        received[message.source] = message.payload
    return received


def main(proc: Processor, in_order: bool = False) -> list[str]:
    """Everybody says hello to everybody."""
    exchange = obvious if in_order else staggered
    received = exchange(proc, [f"from {proc.pid} to {dest}" for dest in range(proc.p)])
    if received != [f"from {source} to {proc.pid}" for source in range(proc.p)]:
        raise ArithmeticError("all_to_all: differs from what was sent")
    if proc.pid == proc.p - 1:
        when = f"; processor {proc.pid} done at step {proc.time}" if proc.timed else ""
        print(f"p = {proc.p}, {exchange.__name__} order: what arrived agrees with what was sent")
        print(f"predicted for the staggered order: {time(proc.machine)} steps{when}")
    return received


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="All-to-all in the LogP model.")
    parser.add_argument("--obvious", action="store_true", help="destinations in ascending order, which stalls")
    pybsp.logp.run(main, in_order=parser.parse_args().obvious)
