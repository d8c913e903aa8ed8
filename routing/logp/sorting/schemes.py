"""How to sort rp keys, r on each processor: by a network, or in constantly many rounds; whichever takes less time.

Columnsort (F. T. Leighton, *Tight bounds on the complexity of parallel sorting*, IEEE Transactions on Computers C-34,
1985) stands where the paper has Cubesort. Its s columns are the processors, or equal groups of them, which are sorted
by a network or by columnsort again: 4 sorts of columns and 2 relations between them, as a shift by half a group sends
nothing. So it applies from r = 2(p-1)^2 on with one processor a column, where it takes 3 relations in all, and with
groups of q from r = (p/q - 1)^2 / floor(q/2): for p = 64, from 961 on (q = 2) with 6 relations, from 113 on (q = 4)
with 14, where the network has 20. Where p has no fitting divisor, all is sorted by a few processors less.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

from ....machines.logp import LogPMachine
from ..phases import Phases, period
from ..pipelined import pipelined
from .networks import network
from .steps import (
    IDLE,
    Halves,
    Keyed,
    SortingStep,
    Transpose,
    Untranspose,
    by_key,
    merge_split,
    replicated,
    sequential,
    transfer_time,
)

FEWER = 8  # processors that a scheme may leave out, at most


@dataclass(frozen=True)
class SortingScheme:
    """A way to sort with p processors.

    Attributes:
        name: for people.
        p: processors.
        active: the first so many sort; the others give them their keys first.
        steps: the relations, with what follows each.
        unit: what the number of keys on an active processor must be a multiple of.
        least: the least such number for which it sorts.
    """

    name: str
    p: int
    active: int
    steps: tuple[SortingStep, ...]
    unit: int = 1
    least: int = 0

    def keys_per_active(self, r: int) -> int:
        """The keys on each active processor while r on each of all are sorted, with the dummies that are needed."""
        received = (self.p - self.active) * -(-r // self.active)
        return -(-max(r + received, self.least) // self.unit) * self.unit

    def time(self, machine: LogPMachine, r: int) -> int:
        """Steps to sort r keys on each processor, from when all can begin: T_sort(r, p).

        What an active processor holds beyond r is charged here, also with what it can add to step 4 of the routing.
        """
        per_active = self.keys_per_active(r)
        spread = transfer_time(machine, r) if self.active < self.p else 0
        steps = sum(step.time(machine, per_active) for step in self.steps)
        return spread + sequential(per_active, machine.p) + steps + (period(machine) + 2) * (per_active - r)


@lru_cache(maxsize=1024)
def by_network(p: int) -> SortingScheme:
    """Merge-split along a sorting network."""
    layers = network(p)
    return SortingScheme(f"network of depth {len(layers)}", p, p, tuple(merge_split(layer, p) for layer in layers))


@lru_cache(maxsize=1024)
def by_columns(columns: int, column: SortingScheme) -> SortingScheme:
    """Columnsort, with columns that the scheme `column` sorts."""
    members = column.p
    p = columns * members
    places = tuple(range(p))
    far = (columns - 1) ** 2  # how far from where it belongs a key can be after step 4
    # Steps 1, 3 and 5 sort columns, 2 and 4 rearrange the keys between them.
    sort = tuple(replicated(step, p, 0, members) for step in column.steps)
    there, back = Transpose(places, columns, members), Untranspose(places, columns, members)
    # Steps 6 to 8 sort from half of a column to half of the next.
    if members == 1:
        last: tuple[SortingStep, ...] = (Halves(places),)
        least = 2 * far
        name = f"columnsort of {columns} columns"
    else:
        last = tuple(replicated(step, p, members // 2, members) for step in column.steps)
        least = -(-far // (members // 2))
        name = f"columnsort of {columns} columns by {column.name}"
    unit = math.lcm(columns, column.unit)
    return SortingScheme(name, p, p, (*sort, there, *sort, back, *sort, *last), unit, max(least, column.least))


@lru_cache(maxsize=1024)
def on_fewer(p: int, scheme: SortingScheme) -> SortingScheme:
    """A scheme of fewer than p processors, but at least half of them, on the first of p."""
    steps = tuple(replace(step, places=step.places + (IDLE,) * (p - scheme.p)) for step in scheme.steps)
    return replace(scheme, name=f"{scheme.name}, on {scheme.p} processors", p=p, steps=steps)


def _columns(machine: LogPMachine, p: int, r: int) -> list[SortingScheme]:
    """Columnsorts that apply to about r keys on each of p processors."""
    divisors = [columns for columns in range(3, p + 1) if p % columns == 0]
    schemes = [by_columns(columns, _choose(machine, p // columns, r)) for columns in divisors]
    return [scheme for scheme in schemes if scheme.least <= 2 * r]


@lru_cache(maxsize=4096)
def _choose(machine: LogPMachine, p: int, r: int) -> SortingScheme:
    schemes = [by_network(p), *_columns(machine, p, r)]
    return min(schemes, key=lambda scheme: scheme.time(machine, r))


@lru_cache(maxsize=4096)
def choose(machine: LogPMachine, r: int) -> SortingScheme:
    """The scheme that takes least time for r keys on each processor; all know the same, and so agree."""
    p = machine.p
    schemes = [_choose(machine, p, r)]
    for active in range(max(p - FEWER, -(-p // 2), 3), p):
        schemes += [on_fewer(p, scheme) for scheme in _columns(machine, active, r)]
    return min(schemes, key=lambda scheme: scheme.time(machine, r))


def sort(phases: Phases, items: list[Keyed], r: int, scheme: SortingScheme, start: int) -> tuple[list[Keyed], int]:
    """Sort by key over all processors; collective. Processor 0 ends with the smallest.

    Args:
        phases: this processor's.
        items: (key, item), keys in 0..p-1; at most r of them.
        r: equal on all processors. Who has less is given dummies, (p, None), the largest of all.
        scheme: equal on all processors.
        start: a time at which every processor can submit a message, equal on all; without meaning where the machine is
            not timed.

    Returns:
        this processor's `scheme.keys_per_active(r)` items of the sorted sequence, none beyond `scheme.active`
        processors, and the time by which all have them and can submit a message. Equal keys are in the same order in
        every execution.

    LogP cost: `scheme.time(machine, r)`, less what that has for later. Each step has its time, since a processor that
    were ahead could overrun with the next step's messages one that still waits for those of the last. Nobody stalls.

    Source: section 4.2.
    """
    proc, machine = phases.proc, phases.proc.machine
    per_active = scheme.keys_per_active(r)
    items = items + [(proc.p, None)] * (r - len(items))
    if scheme.active < proc.p:
        items = _spread(phases, items, r, scheme.active, start)
        start += transfer_time(machine, r)
    if proc.pid < scheme.active:
        items = by_key(items + [(proc.p, None)] * (per_active - len(items)))
        proc.compute(sequential(per_active, proc.p))
    start += sequential(per_active, proc.p)
    for step in scheme.steps:
        items = step.run(phases, items, per_active, start)
        start += step.time(machine, per_active)
    return items, start


def _spread(phases: Phases, items: list[Keyed], r: int, active: int, start: int) -> list[Keyed]:
    """The others deal their items out to the active processors: item k of the j-th to processor k + j, in slot k.

    A 1-relation in each slot, as no more give than receive.
    """
    proc = phases.proc
    givers = range(proc.p - active)
    if proc.pid >= active:
        sends = [(k, (k + proc.pid - active) % active, (k, item)) for k, item in enumerate(items)]
        pipelined(phases, sends, start, r, 0)
        return []
    expected = sum(len(range((proc.pid - j) % active, r, active)) for j in givers)
    received = pipelined(phases, [], start, r, expected)
    received.sort(key=lambda message: (message.source, message.payload[0]))
    return items + [message.payload[1] for message in received]
