"""What an algorithm costs, before it runs: a record for each superstep, and the seconds that a machine makes of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol, overload

from ..ground.instead import hinting

_SHOWN = 50  # supersteps, in a notebook


class Superstep(NamedTuple):
    """What one superstep is charged for; the names are those of the ledger's records.

    h_out, h_in: words that one processor sends, and receives, maximum over processors.
    messages: that one processor sends or receives, maximum over processors; what a queue sends to one destination is
        one message.
    M: words that all processors send.
    w: flop that one processor is charged before the sync, maximum over processors.
    locality: the largest difference of the numbers of a source and a destination.
    items: of queues, that one processor sends or receives, maximum over processors.

    Examples:
        >>> step = pybsp.Superstep(h_out=3, h_in=7, messages=2, M=12)
        >>> step.h, step.times(words=10).M
        (7, 120)
    """

    h_out: int
    h_in: int
    messages: int
    M: int
    w: float = 0.0
    locality: int = 0
    items: int = 0

    @property
    def h(self) -> int:
        """Words: the larger of h_out and h_in."""
        return max(self.h_out, self.h_in)

    def times(self, words: int) -> Superstep:
        """The same messages with every word made so many."""
        return self._replace(h_out=self.h_out * words, h_in=self.h_in * words, M=self.M * words, w=self.w * words)


class Machine(Protocol):
    """What costs are made from: a `BSPMachine`, an `EBSPMachine`, or anything else that can price a superstep."""

    @property
    def p(self) -> int:
        """Processors."""

    @property
    def r(self) -> float:
        """Flop/s of one processor."""

    def predict(self, step: Superstep) -> float:
        """Seconds of a superstep."""

    def __hash__(self) -> int:
        """What is chosen by a machine's costs is kept for the next call."""


@hinting("cost")
class Cost(Sequence[Superstep]):
    """The cost of an algorithm: its supersteps, and what they add up to. Costs add by `+`: one after the other.

    Args:
        machine: by which seconds are counted.
        steps: the supersteps.
        after: flop charged after the last sync, which the ledger counts with the superstep that follows.

    Examples:
        >>> machine = pybsp.BSPMachine(p=16, g=1e-8, l=1e-5, r=1e9)
        >>> from pybsp import collectives
        >>> cost = collectives.broadcast.cost(machine, words=1000)
        >>> cost.supersteps, cost.h, cost.M, cost.messages, cost.w, round(cost.seconds, 7)
        (2, 1882, 15000, 30, 0.0, 3.88e-05)
        >>> [step.h for step in cost]
        [937, 945]
        >>> twice = cost + cost  # one after the other
        >>> twice.supersteps
        4
    """

    def __init__(self, machine: Machine, steps: Iterable[Superstep] = (), after: float = 0.0) -> None:
        self.machine, self._steps, self.after = machine, tuple(steps), after

    @overload
    def __getitem__(self, index: int) -> Superstep: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Superstep]: ...
    def __getitem__(self, index: int | slice) -> Superstep | Sequence[Superstep]:
        return self._steps[index]

    def __len__(self) -> int:
        return len(self._steps)

    def __iter__(self) -> Iterator[Superstep]:
        return iter(self._steps)

    def __add__(self, other: Cost) -> Cost:
        """This, then the other: what is left after this one's last sync goes into the other's first superstep."""
        if not other._steps:
            return Cost(self.machine, self._steps, self.after + other.after)
        first = other._steps[0]._replace(w=other._steps[0].w + self.after)
        return Cost(self.machine, (*self._steps, first, *other._steps[1:]), other.after)

    def __radd__(self, other: int | Cost) -> Cost:
        """`sum` begins with 0."""
        return self if other == 0 else NotImplemented

    @property
    def supersteps(self) -> int:
        """Their number."""
        return len(self._steps)

    @property
    def h(self) -> int:
        """Words: the sum of h over the supersteps."""
        return sum(step.h for step in self._steps)

    @property
    def M(self) -> int:
        """Words that all processors send."""
        return sum(step.M for step in self._steps)

    @property
    def messages(self) -> int:
        """The sum over the supersteps of what one processor sends or receives."""
        return sum(step.messages for step in self._steps)

    @property
    def w(self) -> float:
        """Flop: the sum over the supersteps of the busiest processor's, and what comes after the last sync."""
        return sum(step.w for step in self._steps) + self.after

    @property
    def seconds(self) -> float:
        """Seconds on the machine."""
        return sum(self.machine.predict(step) for step in self._steps) + self.after / self.machine.r

    def _repr_html_(self) -> str:
        from ..ground.drawing import table

        head = ["superstep", "w [flop]", "h [words]", "M [words]", "messages", "items", "seconds"]
        rows = [
            [f"{n}", f"{step.w:g}", f"{step.h}", f"{step.M}", f"{step.messages}", f"{step.items}", f"{price:.4g}"]
            for n, step in enumerate(self._steps[:_SHOWN])
            for price in [self.machine.predict(step)]
        ]
        rows += [["..."] + [""] * 6] * (len(self) > _SHOWN)
        rows += [["after", f"{self.after:g}", "", "", "", "", f"{self.after / self.machine.r:.4g}"]] * bool(self.after)
        items = sum(step.items for step in self._steps)
        total = ["total", f"{self.w:g}", *map(str, (self.h, self.M, self.messages, items)), f"{self.seconds:.4g}"]
        return table(head, [*rows, total], last=True)

    def __repr__(self) -> str:
        error = getattr(self.machine, "error_median", None)
        likely = "" if error is None else f" (+- {100 * error:.3g} %)"
        return (
            f"<cost: {self.supersteps} supersteps, h = {self.h} words, M = {self.M} words, "
            f"{self.messages} messages, w = {self.w:g} flop, {self.seconds:.3g} s{likely}>"
        )
