"""A prefix of each row of a matrix by pipelining; 2D-PREFIX is better (*Communication primitives*, section 3)."""

from __future__ import annotations

from functools import lru_cache
from itertools import groupby
from typing import Any

import numpy as np

from ...bsp import BSP
from ...machines.cost import Cost, Machine, Superstep
from ...rides.ride import Supersteps
from .. import prefix_trees, tree
from ..arguments import fan_out, item_words, repeats, sequence
from ..operators import Operator, check_operator
from ..plan import Plan, Step, joined
from ..primitive import Call, combined, primitive, sources
from ..values import descriptor, detached, packed, taken


@lru_cache(maxsize=16)
def plan(p: int, k: int, degree: int) -> Plan:
    """Who sends its sum of row j (item j) to whom: in superstep s, row j is at level s - j of its trees."""
    k, levels = repeats("prefix_pipelined.plan", "k", k), prefix_trees.plan((p,), degree)
    ops = [*(level.work for level in levels[1:]), levels.after] if len(levels) else []
    steps = []
    work = 0.0
    for s in range(k + len(levels) - 1 if k and len(levels) else 0):
        active = [t for t in range(len(levels)) if 0 <= s - t < k]
        row = np.concatenate([np.full(len(levels[t]), s - t) for t in active])
        sending = np.concatenate([levels[t].sources for t in active])
        steps.append(
            Step.of(sending, np.concatenate([levels[t].destinations for t in active]), row, row + 1, work=work)
        )
        work = sum(ops[t] for t in active)
    return joined(p, steps, work)


@lru_cache(maxsize=64)
def counted(p: int, k: int, degree: int, words: float) -> tuple[tuple[Superstep, ...], float]:
    """What the supersteps of `plan` are charged for, and the flop after them: few of its steps differ."""
    levels = prefix_trees.plan((p,), degree)
    ops = [*(level.work for level in levels[1:]), levels.after] if len(levels) else []
    different: dict[range, tuple[Superstep, float]] = {}
    steps = []
    work = 0.0
    for s in range(k + len(levels) - 1 if k and len(levels) else 0):
        active = range(max(0, s - k + 1), min(len(levels), s + 1))
        if active not in different:
            sending = np.concatenate([levels[t].sources for t in active])
            step = Step.of(sending, np.concatenate([levels[t].destinations for t in active]))
            different[active] = step.counted(words), sum(ops[t] for t in active)
        charged, next_work = different[active]
        steps.append(charged._replace(w=work * words))
        work = next_work
    return tuple(steps), work * words


@lru_cache(maxsize=256)
def choose(machine: Machine, k: int) -> int:
    """The degree that costs least for items of a word."""
    return min(tree.degrees(machine.p), key=lambda degree: Cost(machine, *counted(machine.p, k, degree, 1)).seconds)


def cost(machine: Machine, k: int, words: float = 1, degree: int | None = None) -> Cost:
    """What it costs, exactly, for k items of so many words, where op keeps their size and takes a flop a word."""
    k, words = repeats("prefix_pipelined.cost", "k", k), item_words("prefix_pipelined.cost", "words", words)
    chosen = fan_out("prefix_pipelined.cost", degree) or choose(machine, k)
    return Cost(machine, *counted(machine.p, k, chosen, words))


@primitive(cost, plan)
def prefix_pipelined(bsp: BSP, column: Any, op: Operator, degree: int | None = None) -> Supersteps[list[Any]]:
    """The inclusive prefix sums of each row of a k x p matrix, one row behind the other; collective.

    Args:
        bsp: the processor.
        column: a sequence of k numbers, arrays or picklable objects; k, dtypes and shapes equal on all processors.
        op: associative, need not be commutative.
        degree: of the trees, at least 2; None: the cheapest for items of a word. Equal on all processors.

    Returns:
        The list of the k sums.

    Raises:
        UsageError: k, dtypes, shapes, degree or op's name differ; op raised.

    BSP cost: k + ceil(log_d p) - 1 supersteps: O(L * (k + log p / log(L/g))).

    Examples:
        >>> import operator
        >>> from pybsp.collectives import baselines
        >>> def main(bsp):
        ...     return baselines.prefix_pipelined(bsp, [1, 10], operator.add)
        >>> pybsp.simulate(main, p=3).results
        [[1, 10], [2, 20], [3, 30]]
    """
    given = fan_out("prefix_pipelined", degree)
    name = check_operator("prefix_pipelined", op)
    given_items = sequence("prefix_pipelined", "column", column)
    sums = [taken(item, "prefix_pipelined", "column") for item in given_items]
    call = Call(bsp, "prefix_pipelined", column=_described(sums), op=name, degree=given)
    words = sums[0].nbytes / 8 if sums and isinstance(sums[0], np.ndarray) else 1.0
    for step in plan(bsp.p, len(sums), given or choose(bsp.machine, len(sums))):
        # 1. Every row that is under way goes up a level of its trees.
        for dest, row, _ in step.sends(bsp.pid):
            call.send(dest, packed(sums[row], call.name))
        due = step.receives(bsp.pid)
        letters = yield from call.sync(sources(due))
        # 2. What came is combined, row by row.
        for row in sorted({row for _, row, _ in due}):
            of_row = [letter for letter, (_, its, _) in zip(letters, due, strict=True) if its == row]
            sums[row] = combined(call, of_row, sums[row], op, words)
    return [detached(after, before) for after, before in zip(sums, given_items, strict=True)]


def _described(items: list[Any]) -> str:
    """Items as they are compared between processors: how many, and what they are, in their order."""
    runs = [(kind, len(list(alike))) for kind, alike in groupby(descriptor(item).kind for item in items)]
    kinds = (kind if n in (1, len(items)) else f"{n} x {kind}" for kind, n in runs)
    return f"{len(items)} items ({', '.join(kinds)})"
