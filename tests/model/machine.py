"""What ranks do to what they share, one step at a time, and all orders in which they can do it.

A rank is a generator that yields steps (`Step`) and gets their results. A step reads or writes one *cell* (a word of
shared memory, or the text at one place), or is one operation on messages. What all cells hold is the *memory*; a state
is the memory and where each rank is. `explore` goes through all states that can be reached.

Where a rank is must be a value that can be compared: it is the generator's frames (instruction and variables, and the
attributes of its objects). So a rank's program may hold nothing else: the result of a step goes straight into a
variable, and no comprehension yields. A generator cannot be copied: to go on from a place a second time, a fresh one
gets the results that led there. That happens once for each place and result, as all is memoised: places, memories, and
the steps from each pair of them.

Messages between two ranks with one tag keep their order. A message that was sent lies in its sender's memory until it
is *moved*, at any moment, to where a receive was posted for it; or if none was, to a buffer of the library. That much
may happen. It must happen only if the receive is posted and the sender is in a call of MPI (`Step.moves`), and a
program that needs more than what must happen may hang.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable
from types import FunctionType, MethodType
from typing import Any, NamedTuple

CELLS = 128  # of a memory, if nothing else is asked for: all are looked at in each step


class Step(NamedTuple):
    """What a rank does next.

    Attributes:
        name: a method of `Memory`.
        looks: control channels on which a notice ends it (`RevokedError`).
        moves: whether MPI is called meanwhile, again and again.
        fails: whether an exception may be raised here.
        local: nobody else's business: done at once, in no order with what others do.
        grace: whether the job is aborted where it takes too long.
    """

    name: str
    arguments: tuple[Any, ...]
    looks: tuple[int, ...] = ()
    moves: bool = False
    fails: bool = False
    local: bool = False
    grace: bool = False


Program = Generator[Step, Any, Any]
Cells = tuple[Any, ...]
Outcomes = list[tuple[Cells, Any]]


class WrongError(Exception):
    """What a correct protocol never does."""


class RaisedError(Exception):
    """The exception that the program, or a signal, raises inside an exchange."""


class RevokedError(Exception):
    """Another rank has left the exchange."""


class DeliveryError(WrongError):
    """The protocol found by itself that something is not what was said."""


_RAISED, _REVOKED = "raised here", "left, as another has"
_THROWN: dict[Any, type[Exception]] = {_RAISED: RaisedError, _REVOKED: RevokedError}


class Stateful:
    """What a program changes: compared by its attributes."""

    __hash__ = None  # type: ignore[assignment]


class Memory:
    """The cells by name, and what steps do to them: each gives the memories and results that it may have; none: it has
    to wait.

    A channel is a cell too: (receives posted, messages), a message being (whether it was moved, the sender's cell where
    it was not, else its value). Budgets of the explorer are cells.
    """

    def __init__(self, size: int = CELLS) -> None:
        self.size = size
        self.names: dict[tuple[Hashable, ...], int] = {("raises",): 0}
        self.channels: list[tuple[int, int]] = []  # (cell, sender)

    def cell(self, *name: Hashable) -> int:
        """The number of the cell of that name."""
        found = self.names.get(name)
        if found is None:
            found = self.names[name] = len(self.names)
            assert found < self.size
        return found

    def channel(self, comm: int, source: int, to: int, tag: str) -> int:
        """The channel of messages from one rank to another, of a communicator and a tag."""
        found = self.cell("channel", comm, source, to, tag)
        if (found, source) not in self.channels:
            self.channels.append((found, source))
        return found

    def name(self, cell: int) -> str:
        """As a trace has it."""
        return " ".join(map(str, list(self.names)[cell]))

    def outcomes(self, step: Step, cells: Cells) -> list[tuple[Cells, Any, bool]]:
        """What may come of a step: cells, result, and whether it must happen if nothing else does."""
        found = [(after, result, True) for after, result in getattr(self, step.name)(cells, *step.arguments)]
        if any(cells[cell] for cell in step.looks):
            found.append((cells, _REVOKED, True))
        if step.fails and cells[0]:
            found.append((_with(cells, 0, cells[0] - 1), _RAISED, False))
        return found

    # -- shared memory

    def read(self, cells: Cells, cell: int) -> Outcomes:
        return [(cells, cells[cell])]

    def write(self, cells: Cells, cell: int, value: Any) -> Outcomes:
        return [(_with(cells, cell, value), None)]

    def least(self, cells: Cells, cell: int, value: int) -> Outcomes:
        """Wait until a word is as large as that."""
        return [(cells, cells[cell])] if cells[cell] >= value else []

    # -- what is nobody's business

    def choose(self, cells: Cells, options: tuple[Any, ...]) -> Outcomes:
        return [(cells, option) for option in options]

    # -- messages

    def post(self, cells: Cells, channels: tuple[int, ...]) -> Outcomes:
        """Post a receive for each channel."""
        for channel in channels:
            posted, messages = cells[channel] or (0, ())
            cells = _with(cells, channel, (posted + 1, messages))
        return [(cells, None)]

    def send(self, cells: Cells, channel: int, source: int) -> Outcomes:
        """Send what a cell holds, without waiting."""
        posted, messages = cells[channel] or (0, ())
        return [(_with(cells, channel, (posted, (*messages, (False, source)))), None)]

    def received(self, cells: Cells, channels: tuple[int, ...]) -> Outcomes:
        """Wait until a posted receive of each channel is complete."""
        values = []
        for channel in channels:
            posted, messages = cells[channel]
            if not messages or not messages[0][0]:
                return []
            values.append(messages[0][1])
            cells = _with(cells, channel, (posted - 1, messages[1:]))
        return [(cells, tuple(values))]

    def sent(self, cells: Cells, sends: tuple[tuple[int, int], ...]) -> Outcomes:
        """Wait until the memory that was sent can be used again."""
        return [(cells, None)] if _all_sent(cells, sends) else []

    def tested(self, cells: Cells, sends: tuple[tuple[int, int], ...]) -> Outcomes:
        return [(cells, _all_sent(cells, sends))]

    def put(self, cells: Cells, channels: tuple[int, ...], word: Any) -> Outcomes:
        """Send the same few bytes to several."""
        for channel in channels:
            cells = _with(cells, channel, (*(cells[channel] or ()), word))
        return [(cells, None)]

    def taken(self, cells: Cells, channels: tuple[int, ...]) -> Outcomes:
        """Wait for a few bytes from anybody: (which of them, what)."""
        return [
            (_with(cells, channel, cells[channel][1:]), (k, cells[channel][0]))
            for k, channel in enumerate(channels)
            if cells[channel]
        ]

    # -- what is left over

    def cancel(self, cells: Cells, channels: tuple[int, ...]) -> Outcomes:
        """Receives that no message has met are posted no more."""
        for channel in channels:
            posted, messages = cells[channel] or (0, ())
            if posted > len(messages):
                cells = _with(cells, channel, (len(messages), messages))
        return [(cells, None)]

    def scrapped(
        self, cells: Cells, channels: tuple[int, ...], sends: tuple[tuple[int, int], ...], barrier: int, all_in: int
    ) -> Outcomes:
        """Throw away what arrives until these sends are complete, and so many ranks have entered the barrier.

        What another has sent is seen at any time; but for certain when it has left its sender, as in the code the last,
        empty message of each sees to.
        """
        found: Outcomes = []
        for channel in channels:
            posted, messages = cells[channel] or (0, ())
            if messages:
                rest = messages[1:]
                found = [(_with(cells, channel, (min(posted, len(rest)), rest)), False)]
                if messages[0][0]:
                    return found
        if _all_sent(cells, sends) and (cells[barrier] or 0) >= all_in:
            found.append((cells, True))
        return found

    def join(self, cells: Cells, barrier: int) -> Outcomes:
        return [(_with(cells, barrier, (cells[barrier] or 0) + 1), None)]

    # -- the library

    def moved(self, cells: Cells) -> list[tuple[Cells, int, bool]]:
        """What the library may do: the cells then, whose message it is, and whether a receive is posted for it."""
        found = []
        for channel, sender in self.channels:
            if cells[channel]:
                posted, messages = cells[channel]
                for k, (was, source) in enumerate(messages):
                    if not was:
                        after = (*messages[:k], (True, cells[source]), *messages[k + 1 :])
                        found.append((_with(cells, channel, (posted, after)), sender, k < posted))
                        break
        return found


def _with(cells: Cells, cell: int, value: Any) -> Cells:
    return (*cells[:cell], value, *cells[cell + 1 :])


def _all_sent(cells: Cells, sends: Iterable[tuple[int, int]]) -> bool:
    return all((False, source) not in (cells[channel] or (0, ()))[1] for channel, source in sends)


class Places:
    """Where the program of one rank may be.

    Args:
        program: begins it anew.

    Attributes:
        steps: of each place, what is next; None: the program has ended.
        wrong: of each place where a program has ended in a `WrongError`, that.
    """

    def __init__(self, program: Callable[[], Program]) -> None:
        self._program = program
        self._found: dict[Hashable, int] = {}
        self._from: list[tuple[int, Any] | None] = []
        self._next: dict[tuple[int, Any], int] = {}
        self.steps: list[Step | None] = []
        self.wrong: dict[int, WrongError] = {}
        self.first = self._place(None)

    def after(self, place: int, result: Any) -> int:
        """Where the program is when its step has given that."""
        key = place, result
        found = self._next.get(key)
        if found is None:
            found = self._next[key] = self._place(key)
        return found

    def leads(self, step: tuple[int, Any], place: int) -> bool:
        """Whether a place and a result have led to that place."""
        return self._next.get(step) == place

    def _place(self, origin: tuple[int, Any] | None) -> int:
        results = []
        at = origin
        while at is not None:
            results.append(at[1])
            at = self._from[at[0]]
        program = self._program()
        step: Step | None = None
        key: Hashable
        wrong: WrongError | None = None
        try:
            step = next(program)
            for result in reversed(results):
                thrown = _THROWN.get(result)
                step = program.send(result) if thrown is None else program.throw(thrown)
            key = _frames(program)
        except StopIteration as end:
            step, key = None, ("ended", end.value)
        except WrongError as error:
            step, key, wrong = None, ("wrong", str(error)), error
        found = self._found.setdefault(key, len(self.steps))
        if found == len(self.steps):
            self.steps.append(step)
            self._from.append(origin)
            if wrong is not None:
                self.wrong[found] = wrong
        return found


def _frames(program: Program) -> Hashable:
    """Instruction and variables of a generator, and of those that it yields from."""
    found: list[Hashable] = []
    seen: dict[int, Hashable] = {}
    inner: Any = program
    while inner is not None:
        frame = inner.gi_frame
        found += inner.__name__, frame.f_lasti
        found += [_value(each, seen) for each in frame.f_locals.values()]
        inner = inner.gi_yieldfrom
    return tuple(found)


def _value(of: Any, seen: dict[int, Hashable]) -> Hashable:
    """A value that is equal where two variables hold the same."""
    if isinstance(of, MethodType | FunctionType):
        return None  # of an object that is looked at by itself
    try:
        hash(of)
    except TypeError:
        pass
    else:
        return of  # type: ignore[no-any-return]
    found = seen.get(id(of))
    if found is None:
        if isinstance(of, list | tuple):
            found = tuple([_value(each, seen) for each in of])
        elif isinstance(of, dict):
            found = tuple([(key, _value(each, seen)) for key, each in of.items()])
        else:
            found = tuple([_value(each, seen) for each in vars(of).values()])
        seen[id(of)] = found
    return found


class Explored(NamedTuple):
    """What was found.

    Attributes:
        states: how many there are; where something is wrong, how many were seen before.
        ends: of them, those in which nothing goes on.
        aborts: of those, how many are aborted jobs.
        wrong: what is; empty: nothing.
        trace: the steps that lead there, one a line.
    """

    states: int
    ends: int
    aborts: int
    wrong: str
    trace: list[str]


class Ranks:
    """All ranks of a job, for `explore`.

    Args:
        memory: the cells.
        programs: of each rank.
        raises: exceptions that may be raised, in all.
        left_over: says what is wrong with the cells at the end, if anything.
    """

    def __init__(
        self,
        memory: Memory,
        programs: Iterable[Callable[[], Program]],
        raises: int,
        left_over: Callable[[Memory, Cells], str],
    ) -> None:
        self.memory, self.left_over = memory, left_over
        self.places = [Places(program) for program in programs]
        self._cells: list[Cells] = []
        self._numbers: dict[Cells, int] = {}
        self.first = self._number((raises, *[0] * (memory.size - 1)))
        self._moves: dict[int, list[tuple[int, int, bool]]] = {}
        self._steps: list[dict[tuple[int, int], list[tuple[int, int, bool]]]] = [{} for _ in self.places]

    def cells(self, number: int) -> Cells:
        return self._cells[number]

    def _number(self, cells: Cells) -> int:
        found = self._numbers.setdefault(cells, len(self._cells))
        if found == len(self._cells):
            self._cells.append(cells)
        return found

    def settled(self, rank: int, cells: int, place: int, must: bool = True) -> list[tuple[int, int, bool]]:
        """After what is local was done: cells, place, and whether it must happen."""
        step = self.places[rank].steps[place]
        if step is None or not step.local:
            return [(cells, place, must)]
        return [
            settled
            for after, result, _ in self.memory.outcomes(step, self._cells[cells])
            for settled in self.settled(rank, self._number(after), self.places[rank].after(place, result), must)
        ]

    def steps(self, rank: int, cells: int, place: int) -> list[tuple[int, int, bool]]:
        """What may come of a rank's next step."""
        key = cells, place
        found = self._steps[rank].get(key)
        if found is None:
            step = self.places[rank].steps[place]
            found = []
            if step is not None:
                for after, result, must in self.memory.outcomes(step, self._cells[cells]):
                    found += self.settled(rank, self._number(after), self.places[rank].after(place, result), must)
            self._steps[rank][key] = found
        return found

    def moved(self, cells: int) -> list[tuple[int, int, bool]]:
        """What the library may do: cells, whose message it moves, and whether a receive is posted."""
        found = self._moves.get(cells)
        if found is None:
            moves = self.memory.moved(self._cells[cells])
            found = [(self._number(after), sender, posted) for after, sender, posted in moves]
            self._moves[cells] = found
        return found


State = tuple[int, ...]  # cells, and the place of each rank


def explore(ranks: Ranks, limit: int | None = None) -> Explored:
    """Go through all states, those that take fewest steps first, until something is wrong.

    Args:
        limit: states, at most.
    """
    p = len(ranks.places)
    starts: list[State] = [(ranks.first,)]
    for rank in range(p):
        starts = [
            (cells, *state[1:], place)
            for state in starts
            for cells, place, _ in ranks.settled(rank, state[0], ranks.places[rank].first)
        ]
    origin: dict[State, State | None] = dict.fromkeys(starts)
    queue = list(origin)
    ends = aborts = 0
    steps = [places.steps for places in ranks.places]
    wrong = [places.wrong for places in ranks.places]
    for state in queue:  # grows
        cells = state[0]
        goes_on = False
        found: list[State] = []
        for rank in range(p):
            for after, place, must in ranks.steps(rank, cells, state[rank + 1]):
                goes_on = goes_on or must
                new = (after, *state[1 : rank + 1], place, *state[rank + 2 :])
                found.append(new)
                if place in wrong[rank]:
                    origin[new] = state
                    error = wrong[rank][place]
                    said = f"rank {rank}: {type(error).__name__}: {error}"
                    return Explored(len(origin), ends, aborts, said, _trace(ranks, origin, new))
        for after, rank, posted in ranks.moved(cells):
            if posted and not goes_on:
                step = steps[rank][state[rank + 1]]
                goes_on = step is not None and step.moves
            found.append((after, *state[1:]))
        for new in found:
            if new not in origin:
                origin[new] = state
                queue.append(new)
        if not goes_on:
            ends += 1
            said, aborted = _ended(ranks, state)
            aborts += aborted
            if said:
                return Explored(len(origin), ends, aborts, said, _trace(ranks, origin, state))
        if limit is not None and len(origin) > limit:
            raise MemoryError(f"more than {limit} states")
    return Explored(len(origin), ends, aborts, "", [])


def _ended(ranks: Ranks, state: State) -> tuple[str, bool]:
    """What is wrong with a state in which nothing must happen, and whether it is an aborted job."""
    steps = [places.steps[place] for places, place in zip(ranks.places, state[1:], strict=True)]
    waiting = [rank for rank, step in enumerate(steps) if step is not None]
    if not waiting:
        return ranks.left_over(ranks.memory, ranks.cells(state[0])), False
    if all(step is None or step.grace for step in steps):
        if len(waiting) == len(steps):
            return "the job is aborted, though all ranks have come to the meeting", True
        return "", True
    return f"ranks {waiting} wait for ever", False


def _trace(ranks: Ranks, origin: dict[State, State | None], state: State) -> list[str]:
    """The steps that lead to a state."""
    lines: list[str] = []
    before = origin[state]
    while before is not None:
        for rank, (old, new) in enumerate(zip(before[1:], state[1:], strict=True)):
            step = ranks.places[rank].steps[old]
            if old != new and step is not None:
                thrown = [result for result in _THROWN if ranks.places[rank].leads((old, result), new)]
                lines.append(f"rank {rank}: {step.name} {_readable(ranks.memory, step)}{': '.join(['', *thrown])}")
                break
        else:
            lines.append("MPI moves a message")
        state, before = before, origin[before]
    return lines[::-1]


def _readable(memory: Memory, step: Step) -> str:
    first, *rest = step.arguments
    names = [memory.name(cell) for cell in (first if isinstance(first, tuple) else (first,)) if isinstance(cell, int)]
    return ", ".join([*names, *map(str, rest)])
