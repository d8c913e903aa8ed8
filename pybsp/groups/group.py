"""Groups: a numbering of some processors, with collectives on it; and the rows and columns of a processor grid."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeVar

from ..errors import UsageError, argument_error, brief, usage_error
from ..ground.convert import few, integer, whole
from ..ground.instead import hinting
from ..ground.public import Public
from ..machines.bsp import BSPMachine
from ..machines.ebsp import EBSPMachine
from ..rides.ride import Ride, Stream, Supersteps, checked_steps
from ..supersteps.labels import checked_label
from .notes import GroupNotes
from .rides import GroupRides, Numbering
from .shown import GroupShown

if TYPE_CHECKING:
    from ..supersteps.superstep import SuperstepEngine

Result = TypeVar("Result")


@hinting("group")
class Group(Public):
    """A numbering of some processors; made by `bsp.group` and `bsp.grid`, without a superstep.

    It stands in the place of the processor, `bsp`, in every call of a collective: `collectives.broadcast(group, x)`.
    Roots, parts of lists and results are then by the group's numbers, and the machine is one of its size.

    A plain collective on groups is called by every processor, on one of the groups that it is in; groups of one serve
    those that have none. It takes as many supersteps as the longest of these calls, at least one, for all of them
    together; what was started goes on in them. None where all are rows or columns of a grid with one processor each: a
    function of one's own (`Group.carry_out`) yields on all of these, or on none. A started collective,
    `collectives.broadcast.start(group, x)`, rides in the machine's supersteps, beside others; `finish` of its ticket is
    called by every processor, and lasts until all that was started on any group is over.

    Attributes:
        p: processors of the group.
        pid: the number of this one among them, 0 to p - 1.
        members: their pids in the machine, by number, a tuple of ints.
        machine: the machine's parameters, with p processors.
        work: charges flop to this processor, as `BSP.work`.

    Examples:
        >>> from pybsp import collectives
        >>> def main(bsp):
        ...     half = bsp.group(range(bsp.pid % 2, bsp.p, 2))
        ...     half.send(0, bsp.pid)  # arrives with the machine's next sync
        ...     bsp.sync()
        ...     return collectives.allreduce(half, bsp.pid, np.add), [message.source for message in bsp.inbox]
        >>> [(int(total), sources) for total, sources in pybsp.simulate(main, p=4).results]
        [(2, [0, 2]), (4, [1, 3]), (2, []), (4, [])]
    """

    _public = ("p", "pid", "members", "machine", "send", "ride", "carry_out", "stream", "work")

    def __init__(
        self,
        engine: SuperstepEngine,
        machine: BSPMachine | EBSPMachine,
        members: tuple[int, ...],
        singles: bool,
        send: Callable[[int, Any, Any], None],
        work: Callable[..., None],
    ) -> None:
        """Called by `bsp.group` and `bsp.grid`, which check the members.

        Args:
            singles: see `Numbering`.
            send, work: of the processor.
        """
        if engine.group_rides is None:
            engine.group_rides = GroupRides(engine)
        self.p, self.members, self.machine = len(members), members, machine
        self._numbering = numbering = Numbering(members, engine.pid, singles)
        self.pid = numbering.own
        self._calls, self._gate = engine.group_rides, engine.gate
        self._send, self.work = send, work
        # For collectives, as of a processor.
        self.shown, self.as_shown = GroupShown.on(engine, numbering), engine.as_shown
        self.notes = GroupNotes(self._calls, numbering)
        self.prepared: dict[Any, Any] = {}

    def __repr__(self) -> str:
        return f"<group: number {self.pid} of processors {', '.join(map(str, self.members))}>"

    def send(self, dest: SupportsIndex, payload: Any, tag: Any = None) -> None:
        """Send a message to a number of the group; it is in that processor's `bsp.inbox` after the machine's next sync.

        Its source there is a processor of the machine.

        Args:
            dest: a number, 0 to p - 1, this one included.
            payload, tag: as of `BSP.send`.

        Raises:
            UsageError: a wrong dest, or something that cannot be pickled. Nothing is sent then.

        BSP cost: that of `BSP.send`.

        Examples:
            >>> def main(bsp):
            ...     column = bsp.grid(2, 2).column
            ...     column.send(1, f"from {bsp.pid}")
            ...     bsp.sync()
            ...     return [message.payload for message in bsp.inbox]
            >>> pybsp.simulate(main, p=4).results
            [[], [], ['from 0', 'from 2'], ['from 1', 'from 3']]
        """
        try:
            number = operator.index(dest)
        except TypeError:
            number = -1
        if not 0 <= number < self.p:
            self._gate.check("group.send")
            raise self._numbering.refusal("group.send", "dest", dest)
        try:
            self._send(self.members[number], payload, tag)
        except UsageError as error:
            raise UsageError(str(error).replace("bsp.send", "group.send", 1)) from error.__cause__

    def ride(self, name: str, steps: Supersteps[Result]) -> Ride[Result]:
        """Start a function on the group, which rides in the machine's supersteps: see `BSP.ride`.

        Examples:
            >>> def next_one(group, value):
            ...     stream = group.stream("next_one")
            ...     stream.send((group.pid + 1) % group.p, value)
            ...     yield
            ...     return stream.arrived[0].payload
            >>> def main(bsp):
            ...     row = bsp.grid(2, 2).row
            ...     ticket = row.ride("next_one", next_one(row, bsp.pid))
            ...     bsp.sync()
            ...     return ticket.value
            >>> pybsp.simulate(main, p=4).results
            [1, 0, 3, 2]
        """
        self._gate.check(checked_label("group.ride", name, "name"))
        calls = self._calls
        return calls.rides.beside(calls.start(self._numbering, name, checked_steps("group.ride", steps)))

    def carry_out(self, name: str, steps: Supersteps[Result]) -> Result:
        """Run a function that rides on the group in supersteps of its own; every processor does so on its group.

        Examples:
            >>> def first(group, value):
            ...     stream = group.stream("first")
            ...     stream.send(0, value)
            ...     stream.takes(1)
            ...     yield
            ...     return [letter.payload for letter in stream.arrived]
            >>> def main(bsp):
            ...     row = bsp.grid(2, 2).row
            ...     return row.carry_out("first", first(row, bsp.pid))
            >>> pybsp.simulate(main, p=4).results
            [[0, 1], [], [2, 3], []]
        """
        self._gate.check(checked_label("group.carry_out", name, "name"))
        return self._calls.carry_out(self._numbering, name, checked_steps("group.carry_out", steps))

    def stream(self, name: str, **arguments: Any) -> Stream:
        """The messages of one call of a function that rides on the group, by its numbers: see `BSP.stream`.

        Examples:
            >>> def last(group):
            ...     stream = group.stream("last")
            ...     stream.send(group.p - 1, group.pid)
            ...     yield
            ...     return [letter.source for letter in stream.arrived]
            >>> pybsp.simulate(lambda bsp: bsp.grid(2, 2).row.carry_out("last", last(bsp.grid(2, 2).row)), p=4).results
            [[], [0, 1], [], [0, 1]]
        """
        return self._calls.stream(self._numbering, name, {key: str(value) for key, value in arguments.items()})


class Grid(Public):
    """The processors of a machine as a grid: processor i * columns + j is in row i and column j; made by `bsp.grid`.

    Attributes:
        rows, columns: how many there are.
        row: the group of this processor's row, numbered by column.
        column: the group of this processor's column, numbered by row.

    Examples:
        >>> from pybsp import collectives
        >>> def main(bsp):
        ...     grid = bsp.grid(2, 3)
        ...     i, j = grid.column.pid, grid.row.pid
        ...     across = collectives.broadcast(grid.row, (i, j), root=2)
        ...     down = collectives.allreduce(grid.column, i, np.add)
        ...     return across, int(down), grid.at(1, j)
        >>> pybsp.simulate(main, p=6).results[1]
        ((0, 2), 1, 4)
    """

    _public = ("rows", "columns", "row", "column", "at")

    def __init__(self, rows: int, columns: int, row: Group, column: Group) -> None:
        self.rows, self.columns, self.row, self.column = rows, columns, row, column

    def __repr__(self) -> str:
        return f"<grid: {self.rows} x {self.columns} processors, this one at ({self.column.pid}, {self.row.pid})>"

    def at(self, i: SupportsIndex, j: SupportsIndex) -> int:
        """The processor in row i and column j.

        Raises:
            UsageError: there is no such row, or column.

        Examples:
            >>> pybsp.simulate(lambda bsp: bsp.grid(2, 2).at(1, 0), p=4).results
            [2, 2, 2, 2]
        """
        number = _whole("grid.at", "i", i, self.rows), _whole("grid.at", "j", j, self.columns)
        return number[0] * self.columns + number[1]


def _whole(operation: str, argument: str, value: Any, end: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = -1
    if not 0 <= number < end:
        raise argument_error(operation, argument, f"a whole number from 0 to {end - 1}", brief(value))
    return number


def checked_members(members: Iterable[SupportsIndex], p: int, pid: int) -> tuple[int, ...]:
    """The argument members of `bsp.group`: some processors, each once, this one among them; else a UsageError."""
    name = "bsp.group: argument members"
    try:
        numbers = [whole(one) for one in members]
    except TypeError:
        numbers = [None]
    pids = tuple(one for one in numbers if one is not None)
    if len(pids) < len(numbers):
        raise usage_error(name, f"pids, whole numbers from 0 to {p - 1}", brief(members)) from None
    for one in pids:
        if not 0 <= one < p:
            raise usage_error(name, f"processors from 0 to {p - 1}", f"{brief(one)} among {brief(pids)}")
    if len(set(pids)) < len(pids):
        twice = next(one for one in pids if pids.count(one) > 1)
        raise usage_error(name, "each processor once", f"{twice} twice among {few(pids)}")
    if pid not in pids:
        way_out = "a processor makes only groups that it is in, bsp.group([bsp.pid]) where it is in none"
        raise usage_error(name, f"this processor, {pid}, among them", few(pids), way_out)
    return pids


def checked_grid(rows: SupportsIndex, columns: SupportsIndex, p: int) -> tuple[int, int]:
    """The arguments of `bsp.grid`: whole numbers of at least 1 whose product is p; else a UsageError."""
    sizes = integer("bsp.grid", "rows", rows, 1), integer("bsp.grid", "columns", columns, 1)
    if sizes[0] * sizes[1] != p:
        got = f"{brief(sizes[0])} * {brief(sizes[1])} = {brief(sizes[0] * sizes[1])}"
        raise usage_error("bsp.grid: arguments rows and columns", f"rows * columns = p = {p}", got)
    return sizes
