"""Many to one: a program that stalls, and its profile.

All others send messages to processor 0, as fast as they can. It has no more than ceil(L/G) in transit at a time, so
the rest wait in their senders, which stall. Yet the hot spot acquires one every G steps all along: all N = k(p-1)
messages are there after 2o + L + (N-1)G steps at most, as if they had been scheduled, and not before 2o + 1 + (N-1)G.
*BSP vs LogP*, section 2.2, calls it a question whether that is what stalling was meant to be. What it costs is the
senders' time: the profile shows it.

(The medium delivers up to ceil(L/G) messages in any L steps. It never lacks any: a sender whose message is accepted has
the next one ready within max(o, G) = G steps.)

Run it:

    mpiexec -n 4 python examples/logp/many_to_one.py
    pybsp simulate -p 16 examples/logp/many_to_one.py --messages 4

The profile is that of the simulated machine.
"""

from __future__ import annotations

import argparse

from rich import box
from rich.console import Console
from rich.table import Table

import pybsp
from pybsp import LogPMachine
from pybsp.logp import Processor, Simulation


def bounds(machine: LogPMachine, messages: int) -> tuple[int, int]:
    """The fewest steps and the most that any execution takes, where each of the others sends so many."""
    total = messages * (machine.p - 1)
    if total == 0:
        return 0, 0
    least = 2 * machine.o + 1 + (total - 1) * machine.G
    return least, least - 1 + machine.L


def many_to_one(proc: Processor, messages: int) -> list[int]:
    """On processor 0 the others' numbers, in order of acquisition, of each `messages` times; elsewhere empty."""
    if proc.pid > 0:
        for _ in range(messages):
            proc.send(0, proc.pid)
        return []
    return [proc.recv().payload for _ in range(messages * (proc.p - 1))]


def main(proc: Processor, messages: int = 4) -> LogPMachine | None:
    """Collect, and count what came; returns the machine on processor 0."""
    received = many_to_one(proc, messages)
    if proc.pid > 0:
        return None
    if sorted(received) != sorted(list(range(1, proc.p)) * messages):
        raise ArithmeticError("many_to_one: differs from what was sent")
    print(f"p = {proc.p}: {len(received)} messages to processor 0; what arrived agrees with what was sent")
    return proc.machine


def profile(simulation: Simulation) -> Table:
    """What each processor did with its time, in steps."""
    table = Table(box=box.MARKDOWN)
    for column in ("processor", "busy", "idle", "stalled"):
        table.add_column(column, justify="right")
    rows = zip(simulation.busy, simulation.idle, simulation.stalls, strict=True)
    for pid, (busy, idle, stalled) in enumerate(rows):
        table.add_row(str(pid), str(busy), str(idle), str(stalled))
    return table


def show(machine: LogPMachine, messages: int) -> None:
    """Simulate it, and print the profile."""
    simulation = pybsp.logp.simulate(many_to_one, machine=machine, args=(messages,))
    least, most = bounds(machine, messages)
    Console().print(profile(simulation))
    print(f"L = {machine.L}, o = {machine.o}, G = {machine.G}: {simulation.time} steps; bounds: {least} to {most}")
    print(f"stalled: {simulation.stalled} steps of all; in transit at most {simulation.max_in_transit}")
    acquired = simulation.trace.acquisition
    if acquired.size > 1:
        print(f"the hot spot acquired one every {(acquired.max() - acquired.min()) / (acquired.size - 1):.2f} steps")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Many processors send to one.")
    parser.add_argument("--messages", type=int, default=4, help="messages of each processor (default: %(default)s)")
    options = parser.parse_args()
    on_machine = pybsp.logp.run(main, messages=options.messages)
    if on_machine is not None:
        show(on_machine, options.messages)
