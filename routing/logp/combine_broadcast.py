"""Combine-and-broadcast (*BSP vs LogP*, section 4.1)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from ...machines.logp import LogPMachine
from .phases import Phases, wait_until


class TreeNode(NamedTuple):
    """A processor in the tree.

    father: None for the root.
    left: whether it is its father's first, third, ... child.
    children: in the order of pids, larger subtrees first.
    """

    father: int | None
    left: bool
    children: tuple[int, ...]


def degree(machine: LogPMachine) -> int:
    """Children of a node of the tree: max{2, ceil(L/G)}."""
    return max(2, machine.capacity)


@lru_cache(maxsize=64)
def tree(p: int, degree: int) -> tuple[TreeNode, ...]:
    """A tree of least height with so many children a node; each subtree holds successive pids, its root the first."""
    nodes: list[TreeNode | None] = [None] * p
    todo: list[tuple[int, int, int | None, bool]] = [(0, p, None, True)]
    while todo:
        pid, size, father, left = todo.pop()
        children = []
        first = pid + 1
        for k in range(min(degree, size - 1)):
            part = (size - 1) // degree + (k < (size - 1) % degree)
            todo.append((first, part, pid, k % 2 == 0))
            children.append(first)
            first += part
        nodes[pid] = TreeNode(father, left, tuple(children))
    return tuple(node for node in nodes if node is not None)


def combine_broadcast(phases: Phases, value: Any, op: Callable[[Any, Any], Any]) -> Any:
    """Give all processors op(...op(op(x_0, x_1), x_2)..., x_(p-1)); a phase of its own; collective.

    Also a synchronisation: no processor returns before all have joined, each when it likes. No processor stalls, in any
    execution.

    Args:
        phases: this processor's.
        value: this processor's x. What arrives may be read-only.
        op: associative; need not commute. Takes no time.

    LogP cost: from the last joining at most 8(L+o) * max{1, log p / log(1 + ceil(L/G))}; `cost` has it exactly.

    Source: section 4.1, and Propositions 1 and 2.
    """
    return _up_and_down(phases, value, op, lambda total: total)


def combine_start(phases: Phases, value: Any, op: Callable[[Any, Any], Any]) -> tuple[Any, int]:
    """A combine-and-broadcast that also gives all processors a common time.

    Returns:
        the combined value, and a time that is equal on all processors, such that each can submit a message then; 0
        where the machine is not timed.
    """
    proc = phases.proc
    machine = proc.machine

    def finish(total: Any) -> tuple[Any, int]:
        if not proc.timed:
            return total, 0
        # The root may have to keep the gap before its first message, as everybody may before the next.
        spacing = max(machine.G, machine.o)
        return total, proc.time + 2 * spacing + descent(machine)

    combined: tuple[Any, int] = _up_and_down(phases, value, op, finish)
    return combined


def common_start(phases: Phases) -> int:
    """A time equal on all processors, such that each can submit a message then; 0 where the machine is not timed."""
    return combine_start(phases, None, lambda first, second: None)[1]


def _up_and_down(phases: Phases, value: Any, op: Callable[[Any, Any], Any], finish: Callable[[Any], Any]) -> Any:
    proc = phases.proc
    machine = proc.machine
    phases.begin()
    node = tree(proc.p, degree(machine))[proc.pid]
    # 1. Ascend: combine the values of the children, in the order of pids.
    values = dict(phases.recv() for _ in node.children)
    for child in node.children:
        value = op(value, values[child])
    if node.father is None:
        value = finish(value)
    else:
        if proc.timed and machine.capacity == 1:
            wait_until(proc, _turn(machine, phases.may_submit(), node.left) - machine.o)
        phases.send(node.father, value)
        value = phases.recv().payload
    # 2. Descend.
    for child in node.children:
        phases.send(child, value)
    return value


def _turn(machine: LogPMachine, earliest: int, left: bool) -> int:
    """The first even (left) or odd multiple of L from then on: two children do not meet on the way to their father."""
    first = 0 if left else machine.L
    return first + -(-(earliest - first) // (2 * machine.L)) * 2 * machine.L


def cost(machine: LogPMachine, joins: Sequence[int] | None = None) -> int:
    """Steps from the last joining until all have the value, exactly, under the schedule "latest".

    No execution takes longer than with every message delivered after L steps, which is at most G*(ceil(L/G) - 1) more
    for each level.

    Args:
        machine: of p processors.
        joins: when each joins; None: all at 0.
    """
    nodes = tree(machine.p, degree(machine))
    o, G, L = machine.o, machine.G, machine.L
    clock = [0] * machine.p if joins is None else list(joins)
    last_join = max(clock)
    free = clock.copy()  # the next acquisition may begin
    sent = [-G] * machine.p if joins is None else [join - G for join in joins]  # the last submission
    # 1. Ascend.
    for pid in reversed(range(machine.p)):
        node = nodes[pid]
        deliveries: set[int] = set()
        for accepted in sorted(sent[child] for child in node.children):
            step = accepted + L
            while step in deliveries:
                step -= 1
            deliveries.add(step)
        for step in sorted(deliveries):
            begin = max(clock[pid], step, free[pid])
            clock[pid], free[pid] = begin + o, begin + G
        if node.father is not None:
            clock[pid] += o
            if machine.capacity == 1:
                clock[pid] = _turn(machine, clock[pid], node.left)
            sent[pid] = clock[pid]
    # 2. Descend.
    for pid, node in enumerate(nodes):
        for child in node.children:
            clock[pid] = sent[pid] = max(clock[pid] + o, sent[pid] + G)
            clock[child] = max(clock[child], sent[pid] + L, free[child]) + o
    return max(clock) - last_join


def bound(machine: LogPMachine) -> float:
    """8(L+o) * max{1, log p / log(1 + ceil(L/G))}, in steps from the last joining, in any execution.

    With d = ceil(L/G) >= 2 children a level takes up to 2(2o + L + G(d-1)) <= 4(L+o), and k > 1 levels need more than
    (d+1) d^(k-2) >= (d+1)^(k/2) nodes. With ceil(L/G) = 1 a level takes up to 5L + 4o, as a message to the father waits
    up to 2L for its turn, and k levels need 2^k nodes. The paper has 3 for 8, which is too little: one level alone
    exceeds it, and so do larger trees, as log_d p levels are more than log p / log(1+d). Over the machines
    of `benchmarks/studies/combine_and_broadcast.py` it is 5.03 for 8, and between 3.6 and 4.9 at p = 1024.
    """
    if machine.p == 1:
        return 0.0
    return 8 * (machine.L + machine.o) * max(1.0, math.log(machine.p) / math.log(1 + machine.capacity))


def lower_bound(machine: LogPMachine) -> float:
    """L * log p / log(1 + ceil(L/G)): any stall-free algorithm takes a constant part of it (Proposition 1)."""
    return machine.L * math.log(machine.p) / math.log(1 + machine.capacity)


@lru_cache(maxsize=256)
def descent(machine: LogPMachine) -> int:
    """Steps that the broadcast takes at most, from when its root prepares the first message to all having ended."""
    spacing, hop = max(machine.G, machine.o), machine.o + machine.L
    nodes = tree(machine.p, degree(machine))
    ends = [0] * machine.p  # when each has the value
    last = 0
    for pid, node in enumerate(nodes):
        for k, child in enumerate(node.children):
            ends[child] = ends[pid] + machine.o + k * spacing + hop
        # Its last message is accepted when it is submitted.
        last = max(last, ends[pid] + (machine.o + (len(node.children) - 1) * spacing if node.children else 0))
    return last
