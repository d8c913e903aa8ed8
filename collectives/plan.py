"""A schedule that can be looked at without MPI: who sends what to whom in each superstep.

An algorithm's `plan(p, ...)` is a pure function that makes a `Plan`; its executor sends what the plan says and its cost
is counted from it. What the items of a message are is the algorithm's business: words of a value, processors whose
sum it is, keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import UsageError, argument_error, brief
from ..machines.cost import Cost, Machine, Superstep
from .arguments import check_machine, integer, item_words

Numbers = NDArray[np.int32]

# In a notebook: supersteps of a table, and those that are drawn, of plans of at most so many processors.
_SHOWN, _DRAWN, _DRAWN_OF = 50, 6, 64


class _Lists:
    """Messages that lie together by processor, to be read one processor at a time."""

    def __init__(self, owners: Numbers, columns: tuple[Numbers, Numbers, Numbers]) -> None:
        self._columns = columns
        self._ends: list[int] = np.cumsum(np.bincount(owners)).tolist() if owners.size else []

    def of(self, pid: int) -> list[tuple[int, int, int]]:
        """Those of a processor."""
        if pid >= len(self._ends):
            return []
        begin, end = self._ends[pid - 1] if pid else 0, self._ends[pid]
        if begin == end:
            return []
        a, b, c = self._columns
        return list(zip(a[begin:end].tolist(), b[begin:end].tolist(), c[begin:end].tolist(), strict=True))


@dataclass(frozen=True, eq=False)
class Step:
    """One superstep: message j carries the items first[j] to last[j] - 1 from sources[j] to destinations[j].

    Arrays of shape (messages,), ordered by source, then destination; no message goes to its own source.

    work: operations on an item that the busiest processor does before the sync.

    Examples:
        >>> from pybsp import collectives
        >>> step = collectives.broadcast.plan(4, degree=2)[1]
        >>> len(step), step.messages()
        (2, [(0, 1, range(0, 1)), (2, 3, range(0, 1))])
        >>> step.sends(1), step.receives(3)
        ([], [(2, 0, 1)])
        >>> step.counted(words=10)
        Superstep(h_out=10, h_in=10, messages=1, M=20, w=0.0, locality=1, items=0)
    """

    sources: Numbers
    destinations: Numbers
    first: Numbers
    last: Numbers
    work: float = 0.0

    @classmethod
    def of(
        cls,
        sources: ArrayLike,
        destinations: ArrayLike,
        first: ArrayLike = 0,
        last: ArrayLike = 1,
        work: float = 0.0,
    ) -> Step:
        """A step from messages in any order; those of a processor to itself are left out, as they are never sent.

        Examples:
            >>> from pybsp.collectives import Step
            >>> Step.of(sources=[2, 0, 1], destinations=[0, 0, 2]).messages()
            [(1, 2, range(0, 1)), (2, 0, range(0, 1))]
        """
        columns = [np.asarray(a).ravel() for a in (sources, destinations, first, last)]
        number = np.int32 if columns[3].max(initial=0) < 2**31 else np.int64
        rows = np.array(np.broadcast_arrays(*columns), number)
        rows = rows[:, rows[0] != rows[1]]
        rows = rows[:, np.lexsort((rows[1], rows[0]))]
        rows.flags.writeable = False  # plans are kept, and given to all who ask
        return cls(rows[0], rows[1], rows[2], rows[3], work)

    def from_root(self, p: int, root: int) -> Step:
        """The same with processors that count from a root, as numbers among p.

        Examples:
            >>> from pybsp.collectives import Step
            >>> Step.of(sources=[0], destinations=[1]).from_root(3, root=2).messages()
            [(2, 0, range(0, 1))]
        """
        return Step.of((self.sources + root) % p, (self.destinations + root) % p, self.first, self.last, self.work)

    def __len__(self) -> int:
        """Messages."""
        return self.sources.size

    @cached_property
    def _sent(self) -> _Lists:
        """The messages as (destination, first, last), by source."""
        return _Lists(self.sources, (self.destinations, self.first, self.last))

    @cached_property
    def _received(self) -> _Lists:
        """The messages as (source, first, last), by destination."""
        order = np.argsort(self.destinations, kind="stable")
        return _Lists(self.destinations, (self.sources[order], self.first[order], self.last[order]))

    def sends(self, pid: int) -> list[tuple[int, int, int]]:
        """What a processor sends: (destination, first, last), by destination."""
        return self._sent.of(pid)

    def receives(self, pid: int) -> list[tuple[int, int, int]]:
        """What a processor receives: (source, first, last), by source: the order of its inbox."""
        return self._received.of(pid)

    def messages(self) -> list[tuple[int, int, range]]:
        """All of it, to be looked at: (source, destination, items)."""
        columns = (self.sources, self.destinations, self.first, self.last)
        return [(s, d, range(a, b)) for s, d, a, b in zip(*(c.tolist() for c in columns), strict=True)]

    def counted(self, words: float | ArrayLike = 1) -> Superstep:
        """What the superstep is charged for.

        Args:
            words: of an item (multiples of 1/8: bytes), or of each message, shape (messages,). A message counts whole
                words.
        """
        if not len(self):
            return Superstep(0, 0, 0, 0, self.work * float(words) if isinstance(words, (int, float)) else self.work)
        work = self.work
        if isinstance(words, (int, float)):
            size = round(8 * words)
            counts = -(-(self.last - self.first).astype(np.int64) * size // 8)
            work *= words
        else:
            counts = np.asarray(words, np.int64)
        # Sums of integers below 2^53 are exact in the doubles that bincount makes.
        out = np.bincount(self.sources, counts)
        into = np.bincount(self.destinations, counts)
        messages = max(np.bincount(self.sources).max(), np.bincount(self.destinations).max())
        far = np.abs(self.destinations - self.sources).max()
        return Superstep(int(out.max()), int(into.max()), int(messages), int(counts.sum()), work, int(far))


def to_all(words: NDArray[np.int64]) -> Superstep:
    """What a superstep is charged for in which each processor sends so many words, shape (p,), to all others.

    As a `Step` of p*(p-1) messages is `counted`, without making it.
    """
    p, total = len(words), int(words.sum())
    largest, smallest = int(words.max()), int(words.min())
    return Superstep((p - 1) * largest, total - smallest, p - 1, (p - 1) * total, 0.0, p - 1)


@dataclass(frozen=True, eq=False, repr=False)
class Plan(Sequence[Step]):
    """The supersteps of an algorithm on p processors.

    after: operations on an item that the busiest processor does after the last sync.
    works: those of each processor before each sync and after the last one, shape (supersteps + 1, p); None: one for
        each item that comes, and as much more, or less, as the busiest does.

    Examples:
        >>> from pybsp import collectives
        >>> plan = collectives.broadcast.plan(4, degree=2)
        >>> plan
        <plan: 2 supersteps on 4 processors, 3 messages>
        >>> print(plan)
        2 supersteps on 4 processors
        superstep 0: 1 messages
          0 -> 2: item 0
        superstep 1: 2 messages
          0 -> 1: item 0
          2 -> 3: item 0
        >>> [step.h for step in plan.counted(words=100)]
        [100, 100]
        >>> plan.cost(pybsp.BSPMachine.nominal(4), words=100).h
        200
    """

    p: int
    steps: tuple[Step, ...]
    after: float = 0.0
    works: NDArray[np.int64] | None = field(default=None, repr=False)
    _counted: dict[float, tuple[Superstep, ...]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.works is not None:
            self.works.flags.writeable = False  # as of a step's messages

    @overload
    def __getitem__(self, index: int) -> Step: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Step]: ...
    def __getitem__(self, index: int | slice) -> Step | Sequence[Step]:
        return self.steps[index]

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def among(self, members: Sequence[int], p: int) -> Plan:
        """The same plan by the processors of a group, among p; `together` counts those of several groups.

        Args:
            members: of the group, in the order of its numbers (`Group.members`).
            p: of the machine.

        Raises:
            UsageError: members are not as many processors among p as the plan is for.

        Examples:
            >>> from pybsp import collectives
            >>> plan = collectives.broadcast.plan(2)
            >>> rows = [plan.among(members, 4) for members in ((0, 1), (2, 3))]
            >>> rows[1][0].messages()
            [(2, 3, range(0, 1))]
            >>> m = pybsp.BSPMachine.nominal(4)
            >>> [(step.h, step.M) for step in collectives.together(m, *((plan, 10) for plan in rows))]
            [(10, 20)]
        """
        p = integer("plan.among", "p", p, 1)
        try:
            numbers = [integer("plan.among", "members", member, 0, p - 1) for member in members]
        except (TypeError, UsageError):
            numbers = []
        if len(numbers) != self.p or len(set(numbers)) != self.p:
            expected = f"{self.p} processors from 0 to {p - 1}, each once, as the plan is for {self.p}"
            raise argument_error("plan.among", "members", expected, brief(members))
        pids = np.array(numbers)
        steps = (Step.of(pids[s.sources], pids[s.destinations], s.first, s.last, s.work) for s in self.steps)
        works = None
        if self.works is not None:
            works = np.zeros((len(self) + 1, p), np.int64)
            works[:, pids] = self.works
        return joined(p, steps, self.after, works)

    def counted(self, words: float = 1) -> tuple[Superstep, ...]:
        """What each superstep is charged for, with so many words an item; counted once for each fraction of a word."""
        words = item_words("plan.counted", "words", words)
        whole = words == int(words) and words > 0
        unit = 1 if whole else words
        if unit not in self._counted:
            self._counted[unit] = tuple(step.counted(unit) for step in self.steps)
        counted = self._counted[unit]
        return tuple(step.times(int(words)) for step in counted) if whole and words != 1 else counted

    def cost(self, machine: Machine, words: float = 1) -> Cost:
        """What the plan costs with so many words an item."""
        check_machine("plan.cost", machine)
        words = item_words("plan.cost", "words", words)
        return Cost(machine, self.counted(words), self.after * words)

    def __repr__(self) -> str:
        return f"<plan: {len(self)} supersteps on {self.p} processors, {sum(map(len, self.steps))} messages>"

    def _repr_html_(self) -> str:
        """The supersteps with the words of one-word items, and who sends to whom in the first ones."""
        from ..ground.drawing import Axis, shades, table

        head = ["superstep", "messages", "h [items]", "operations", "from -> to: items"]
        rows = []
        for number, (step, counted) in enumerate(zip(self.steps[:_SHOWN], self.counted(), strict=False)):
            some = [f"{s} -> {d}: {_named(items)}" for s, d, items in step.messages()[:4]]
            sends = ", ".join([*some, "..."] if len(step) > len(some) else some)
            rows.append([f"{number}", f"{len(step)}", f"{counted.h}", f"{step.work:g}", sends])
        rows += [["..."] + [""] * 4] * (len(self) > _SHOWN)
        pictures = []
        for number, step in enumerate(self.steps[:_DRAWN] if self.p <= _DRAWN_OF else ()):
            cells = np.zeros((self.p, self.p))
            np.add.at(cells, (step.sources, step.destinations), step.last - step.first)
            to, source = Axis(0, self.p, "to", counts=True), Axis(0, self.p, "from", counts=True)
            pictures.append(f'<div style="width:220px">superstep {number}{shades(cells, to, source, 300)}</div>')
        drawn = f'<div style="display:flex;flex-wrap:wrap">{"".join(pictures)}</div>'
        return f"<p>{len(self)} supersteps on {self.p} processors</p>{table(head, rows)}{drawn}"

    def __str__(self) -> str:
        lines = [f"{len(self)} supersteps on {self.p} processors"]
        for number, step in enumerate(self.steps):
            lines.append(f"superstep {number}: {len(step)} messages")
            shown = step.messages()[:20]
            lines += [f"  {s} -> {d}: {_named(items)}" for s, d, items in shown]
            lines += ["  ..."] * (len(step) > len(shown))
        return "\n".join(lines)


def together(machine: Machine, *started: tuple[Plan, float]) -> Cost:
    """What collectives cost that are started together and ride in the same supersteps, as many as the longest has.

    Words, messages and operations of each processor add up; then the largest of them counts. Operations are those that
    plans have, by which what comes is combined; what a primitive does beside these, as sorting its block, or looking
    through it, is in its `cost` alone.

    Args:
        machine: its p is that of the plans.
        started: the plan of each, and the words of an item.

    Raises:
        UsageError: no machine, no such pairs, or a plan for another number of processors.

    Examples:
        >>> from pybsp import collectives
        >>> m = pybsp.BSPMachine.nominal(4)
        >>> sums, news = collectives.allreduce.plan(4, degree=4), collectives.broadcast.plan(4, degree=4)
        >>> [(step.h_out, step.h_in, step.messages) for step in collectives.together(m, (sums, 1), (news, 10))]
        [(33, 13, 6)]
    """
    check_machine("together", machine)
    p = machine.p
    for one in started:
        if not (isinstance(one, tuple) and len(one) == 2 and isinstance(one[0], Plan)):
            raise argument_error("together", "started", "pairs of a plan and the words of an item", brief(one))
        if one[0].p != p:
            expected = f"plans for the p of the machine, {p}"
            way_out = "plan.among(members, p) makes one of a group's"
            raise argument_error("together", "started", expected, f"one for {one[0].p}", way_out)
        item_words("together", "started", one[1])
    length = max((len(plan) for plan, _ in started), default=0)
    counts = np.zeros((length, 4, p), np.int64)  # words out and in, messages out and in
    work, total, far = np.zeros((length + 1, p)), np.zeros(length, np.int64), np.zeros(length, np.int64)
    for plan, words in started:
        size = round(8 * words)
        work[: len(plan) + 1] += _works(plan) * words
        for k, step in enumerate(plan):
            of_each = -(-(step.last - step.first).astype(np.int64) * size // 8)
            ends = (step.sources, step.destinations)
            for row, (end, weights) in enumerate(zip((*ends, *ends), (of_each, of_each, None, None), strict=True)):
                counts[k, row] += np.bincount(end, weights, p).astype(np.int64)
            total[k] += of_each.sum()
            far[k] = max(far[k], np.abs(step.destinations - step.sources).max(initial=0))
    steps = [
        Superstep(
            int(counts[k, 0].max()),
            int(counts[k, 1].max()),
            int(counts[k, 2:].max()),
            int(total[k]),
            float(work[k].max()),
            int(far[k]),
        )
        for k in range(length)
    ]
    return Cost(machine, steps, float(work[length].max()) if p else 0.0)


def _works(plan: Plan) -> NDArray[Any]:
    """Operations on an item of each processor before each sync, and after the last one, shape (supersteps + 1, p)."""
    if plan.works is not None:
        return plan.works
    works = np.zeros((len(plan) + 1, plan.p))
    # What a plan has before anything comes is charged to all who send or get then; without messages, to everybody.
    begin = plan.steps[0] if plan.steps else None
    first = slice(None) if begin is None else np.union1d(begin.sources, begin.destinations)
    works[0, first] = plan.after if begin is None else begin.work
    for k, step in enumerate(plan):
        operations = plan.steps[k + 1].work if k + 1 < len(plan) else plan.after
        if operations:
            # What comes is combined with what is there, an operation for each item; where the busiest does more, or
            # fewer, as it makes a second sum, or has none yet, all do to whom something comes.
            came = np.bincount(step.destinations, step.last - step.first, plan.p)
            works[k + 1] = np.maximum(came + (came > 0) * (operations - came.max(initial=0)), 0)
    return works


def _named(items: range) -> str:
    if len(items) < 2:
        return f"item {items.start}" if items else "nothing"
    return f"items {items.start} to {items.stop - 1}"


def joined(p: int, steps: Iterable[Step], after: float = 0.0, works: NDArray[np.int64] | None = None) -> Plan:
    """A plan of these steps."""
    return Plan(p, tuple(steps), after, works)
