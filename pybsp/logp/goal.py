"""GOAL schedules: what each processor does, as lists of operations with what they wait for; LogGOPSim's text form.

    num_ranks 2
    rank 0 {
    a: calc 100
    b: send 16b to 1 tag 3
    b requires a
    }
    rank 1 {
    a: recv 16b from 0 tag 3
    }

`calc` takes nanoseconds, messages have bytes. `x requires y`: y is over before x begins; `x irequires y`: y has begun
before x begins. Labels may be left out; `//` and `#` begin comments, `/*` and `*/` are round one; `cpu` and `nic` are
read, and a processor has one of each. `recv 16b from -1 tag -1` is from any source, with any tag. The messages that a
receive may match must match no receive of another source or tag: which of them takes a message is LogGOPSim's choice,
by the order in which they were posted, and not simulated here. A recv has room for its bytes, and may get fewer.

Source: Hoefler, Siebert, Lumsdaine, *Group Operation Assembly Language* (ICPP 2009); Hoefler, Schneider, Lumsdaine,
*LogGOPSim* (LSAP 2010).
"""

from __future__ import annotations

import io
import os
import re
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ..errors import UsageError, argument_error
from ..ground.files import replacing
from ..machines.logp import LogPMachine
from .columns import Columns
from .engine import Engine, Simulation
from .operations import (
    ANY,
    CALC,
    MOST_TIME,
    RECV,
    SEND,
    Channel,
    ListProcessor,
    Operation,
    channels_to,
    operations_of,
    receiving,
    waits_of,
)
from .schedule import Schedule, schedule_of
from .simulation import machine_of
from .timeline import Timeline
from .trace import Trace

_OPERATION = re.compile(
    r"(?:(?P<label>\w+)\s*:\s*)?(?:(?P<calc>calc)\s+(?P<length>\d+)"
    r"|(?P<kind>send|recv)\s+(?P<size>\d+)\s*b\s+(?P<way>to|from)\s+(?P<peer>\d+|-1)(?:\s+tag\s+(?P<tag>\d+|-1))?)"
    r"(?:\s+cpu\s+\d+)?(?:\s+nic\s+\d+)?"
)
_REQUIRES = re.compile(r"(\w+)\s+(i?)requires\s+(\w+)")
_RANK = re.compile(r"rank\s+(\d+)\s*\{")
_LONGEST = 4000  # characters of a line
_RANKS = re.compile(r"num_ranks\s+(\d+)")
_COMMENT = re.compile(r"(?:#|//)[^\n]*|/\*.*?\*/", re.DOTALL)
_WAYS = {"send": "to", "recv": "from"}


LINES = 10  # that an error names of those that wait for each other


class _OperationPlace(NamedTuple):
    """Where an operation stands, or is waited for: a line of a file, or, in lists, a number among a rank's."""

    of: str | int  # the file's path, or the rank
    number: int

    def __str__(self) -> str:
        return f"line {self.number}" if isinstance(self.of, str) else f"operation {self.number + 1} of rank {self.of}"

    def error(self, text: str) -> UsageError:
        where = f"load: {self.of}, " if isinstance(self.of, str) else "simulate: "
        return UsageError(f"pybsp.logp.Goal.{where}{self}: {text}")


_Places = Sequence[Sequence[_OperationPlace]]  # of each processor's operations


@dataclass(frozen=True, repr=False)
class Goal:
    """A GOAL schedule: a trace as a file that LogGOPSim reads, and such files on the simulated machine.

    Args:
        lists: of each processor, its operations.

    Examples:
        >>> def program(proc):
        ...     if proc.pid > 0:
        ...         proc.send(0, proc.pid**2)
        ...         return None
        ...     return sum(proc.recv().payload for _ in range(proc.p - 1))
        >>> machine = pybsp.LogPMachine(p=4, L=16, o=1, G=4, step=1e-6)
        >>> simulation = pybsp.logp.simulate(program, machine=machine)
        >>> goal = pybsp.logp.Goal.of(simulation.trace)
        >>> goal
        <goal: 4 processors, 6 operations>
        >>> goal.simulate(machine).time == simulation.time
        True
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     goal.save(folder + "/gather.goal")
        ...     assert pybsp.logp.Goal.load(folder + "/gather.goal") == goal
    """

    lists: Sequence[Sequence[Operation]]

    def __repr__(self) -> str:
        count = len(self.lists.kinds) if isinstance(self.lists, Columns) else sum(map(len, self.lists))
        return f"<goal: {self.p} processors, {count} operations>"

    @property
    def p(self) -> int:
        return len(self.lists)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Goal:
        """Read a GOAL file, and see that it comes to its end.

        Raises:
            UsageError: it is malformed, operations wait for themselves, by way of others or of messages, a message has
                no receive or send, none with room for it, or receives of several kinds; or a rank computes for 2^62 ns:
                with file and line.
            OSError: it cannot be read.

        Examples:
            >>> import pathlib, tempfile
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     path = pathlib.Path(folder, "alone.goal")
            ...     _ = path.write_text("num_ranks 1\\nrank 0 {\\na: calc 100\\n}\\n")
            ...     print(pybsp.logp.Goal.load(path).simulate(pybsp.LogPMachine(1, 16, 1, 4, step=1e-8)).time)
            10
        """
        if not isinstance(path, (str, os.PathLike)):
            raise argument_error("pybsp.logp.Goal.load", "path", "that of a GOAL file", f"{path!r:.80}")
        with open(path, "rb") as file:
            text = file.read()
        columns = Columns.read(text)
        if columns is not None:
            return cls(columns)
        # Nothing is compiled, or something is wrong, and is found here.
        lists, places = _read(os.fspath(path), io.TextIOWrapper(io.BytesIO(text), "utf-8", "replace").read())
        goal = cls(lists)
        goal._require_end(places)
        return goal

    @classmethod
    def of(cls, trace: Trace | Timeline) -> Goal:
        """The schedule of an execution: each processor's operations one after the other, in its order.

        What a processor computed is in a timeline, of which a run on ranks has one (`run(trace=True)`). It is not in
        a trace of the simulated machine: there it is taken to be the least that explains when its operations began.
        With the same machine and deliveries the schedule has the same times.

        Args:
            trace: of messages that were all acquired, on a machine with steps of at least 1 ns; or a timeline.

        Raises:
            UsageError: one was not, or a shorter step.

        Examples:
            >>> def program(proc):
            ...     return proc.send(0, 1.0) if proc.pid else proc.compute(7) or proc.recv()
            >>> machine = pybsp.LogPMachine(p=2, L=16, o=1, G=4, step=1e-6)
            >>> trace = pybsp.logp.simulate(program, machine=machine, schedule="earliest").trace
            >>> [str(one) for one in pybsp.logp.Goal.of(trace).lists[0]]
            ['calc 7000', 'recv 8b from 1']
        """
        if isinstance(trace, Timeline):
            return cls(trace.operations())
        if not isinstance(trace, Trace):
            raise UsageError(
                "pybsp.logp.Goal.of: argument trace: expected a pybsp.logp.Trace or Timeline, such as "
                f"`simulate(...).trace`, got {type(trace).__name__}"
            )
        if len(trace) and int(trace.acquisition.min()) < 0:
            raise UsageError("pybsp.logp.Goal.of: argument trace: expected messages that were all acquired")
        if trace.machine.step < 1e-9:
            expected = "that of a machine with a step of at least 1e-09 s, as GOAL counts nanoseconds"
            raise argument_error("pybsp.logp.Goal.of", "trace", expected, f"{trace.machine.step} s")
        return cls(operations_of(trace, 1e9 * trace.machine.step))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a GOAL file; one that is there is replaced whole.

        Raises:
            OSError: it cannot be written.

        Examples:
            >>> import pathlib, tempfile
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     pybsp.logp.Goal([[]]).save(folder + "/empty.goal")
            ...     print(pathlib.Path(folder, "empty.goal").read_text())
            num_ranks 1
            <BLANKLINE>
            rank 0 {
            }
            <BLANKLINE>
        """
        lines = [f"num_ranks {self.p}\n"]
        for pid, operations in enumerate(self.lists):
            lines.append(f"\nrank {pid} {{\n")
            lines += (f"l{number}: {operation}\n" for number, operation in enumerate(operations, 1))
            for number, operation in enumerate(operations, 1):
                lines += (f"l{number} requires l{other + 1}\n" for other in operation.requires)
                lines += (f"l{number} irequires l{other + 1}\n" for other in operation.irequires)
            lines.append("}\n")
        with replacing(path) as file:
            file.writelines(lines)

    def simulate(
        self,
        machine: LogPMachine | None = None,
        schedule: str | Schedule | Callable[[int, int, int], int] = "latest",
        *,
        seed: int = 0,
    ) -> Simulation:
        """Run the schedule on a simulated LogP machine: one admissible execution, without a program's greenlets.

        A processor does one thing at a time: of the operations that wait for nothing the first in the file; where
        these are receives alone, it acquires what arrived first, whichever of them that is for. Times are
        rounded to whole steps. Sizes count on a machine with G_word, in words of 8 bytes, as in `simulate`.

        Args:
            machine: its parameters, with the schedule's p; None: as in `simulate`.
            schedule, seed: as in `simulate`.

        Raises:
            UsageError: wrong arguments; a machine without max{2, o} <= G <= L, or with so short a step that what is
                computed ends after 2^62; operations that are never done, which `load` refuses in a file.

        Examples:
            >>> machine = pybsp.LogPMachine(p=2, L=16, o=1, G=4, step=1e-6)
            >>> program = lambda proc: proc.send(0, 1.0) if proc.pid else proc.recv()
            >>> goal = pybsp.logp.Goal.of(pybsp.logp.simulate(program, machine=machine).trace)
            >>> goal.simulate(machine).time, goal.simulate(machine, "earliest").time
            (18, 3)
        """
        operation = "pybsp.logp.Goal.simulate"
        columns = Columns.of(self.lists)
        machine, chosen = machine_of(self.p, machine, operation), schedule_of(schedule, seed, operation)
        if not columns.end:
            lists = list(self.lists)
            Goal(lists)._require_end(
                [[_OperationPlace(pid, k) for k in range(len(one))] for pid, one in enumerate(lists)]
            )
        return played(columns, machine, chosen)

    def _require_end(self, places: _Places) -> None:
        """Do all without time: what comes first makes no difference to whether all is done.

        Raises:
            UsageError: some operations never can be.
        """
        to = list(map(channels_to, self.lists))
        sent: Counter[tuple[int, Channel]] = Counter()
        received: Counter[tuple[int, Channel]] = Counter()
        room: Counter[tuple[int, Channel]] = Counter()
        channels: list[list[tuple[int, Channel]]] = [[] for _ in self.lists]  # of each operation: to whom, and which
        for pid, operations in enumerate(self.lists):
            for number, one in enumerate(operations):
                place = places[pid][number]
                if one.kind != CALC and (
                    one.peer >= self.p or one.peer == pid or (one.peer == ANY and one.kind == SEND)
                ):
                    raise place.error(f"expected another rank below {self.p}, got {one.peer}")
                if one.kind == SEND:
                    found = receiving(to[one.peer], pid, one.tag) or [(pid, one.tag)]
                    if len(found) > 1:
                        raise self._place_of(places, one.peer, found[-1]).error(
                            f"the message of {place} may be for this receive, or for "
                            f"'from {found[0][0]} tag {found[0][1]}': which of them is not simulated; name source and "
                            "tag, or let all that it may be for have the same"
                        )
                    channel = one.peer, found[0]
                    sent[channel] += 1
                else:
                    channel = pid, (one.peer, one.tag)
                    if one.kind == RECV:
                        received[channel] += 1
                        room[channel] = max(room[channel], one.size)
                channels[pid].append(channel)
        for pid, operations in enumerate(self.lists):
            for number, one in enumerate(operations):
                if one.kind == CALC:
                    continue
                dest, (source, tag) = channel = channels[pid][number]
                if sent[channel] != received[channel]:
                    raise places[pid][number].error(
                        f"from {'any rank' if source == ANY else f'rank {source}'} to {dest} with "
                        f"{'any tag' if tag == ANY else f'tag {tag}'} go {sent[channel]} messages, and "
                        f"{received[channel]} are received"
                    )
                if one.kind == SEND and one.size > room[channel]:
                    raise places[pid][number].error(
                        f"{one.size} bytes go to rank {dest}, whose receives have room for {room[channel]}"
                    )
        circle = sorted(places[pid][number] for pid, number in self._circle(channels))
        if circle:
            by_way = f": {', '.join(map(str, circle[:LINES]))}" + (", ..." if len(circle) > LINES else "")
            raise circle[0].error(
                "the operation waits for itself, by way of what it requires, or of messages"
                + by_way * (len(circle) > 1)
            )

    def _place_of(self, places: _Places, pid: int, channel: Channel) -> _OperationPlace:
        """Where a processor first receives by a channel."""
        return next(
            places[pid][number]
            for number, one in enumerate(self.lists[pid])
            if one.kind == RECV and (one.peer, one.tag) == channel
        )

    def _circle(self, channels: Sequence[Sequence[tuple[int, Channel]]]) -> list[tuple[int, int]]:
        """Operations, by rank and number, each of which waits for the next, and the last for the first; none where all
        are done."""
        waits, at_end, at_begin = zip(*map(waits_of, self.lists), strict=True)
        ready = deque((pid, k) for pid, counts in enumerate(waits) for k, count in enumerate(counts) if not count)
        begun = [[False] * len(operations) for operations in self.lists]
        done = [[False] * len(operations) for operations in self.lists]
        there: Counter[tuple[int, Channel]] = Counter()
        posted: dict[tuple[int, Channel], deque[int]] = {}

        def release(pid: int, numbers: Sequence[int]) -> None:
            for other in numbers:
                waits[pid][other] -= 1
                if not waits[pid][other]:
                    ready.append((pid, other))

        def end(pid: int, number: int) -> None:
            done[pid][number] = True
            release(pid, at_end[pid][number])

        while ready:
            pid, number = ready.popleft()
            one, channel = self.lists[pid][number], channels[pid][number]
            begun[pid][number] = True
            release(pid, at_begin[pid][number])
            if one.kind == RECV:
                if there[channel]:
                    there[channel] -= 1
                    end(pid, number)
                else:
                    posted.setdefault(channel, deque()).append(number)
                continue
            end(pid, number)
            if one.kind == SEND:
                waiting = posted.get(channel)
                if waiting:
                    end(one.peer, waiting.popleft())
                else:
                    there[channel] += 1
        # Of what is never done each waits for something that is not, too: from one to the next there is a circle.
        place = next(((pid, flags.index(False)) for pid, flags in enumerate(done) if not all(flags)), None)
        if place is None:
            return []
        unsent: dict[tuple[int, Channel], tuple[int, int]] = {}
        for pid, operations in enumerate(self.lists):
            for number, one in enumerate(operations):
                if one.kind == SEND and not done[pid][number]:
                    unsent.setdefault(channels[pid][number], (pid, number))
        path: dict[tuple[int, int], None] = {}
        while place not in path:
            path[place] = None
            pid, number = place
            if begun[pid][number]:
                place = unsent[channels[pid][number]]
            else:
                one = self.lists[pid][number]
                undone = [other for other in one.requires if not done[pid][other]]
                place = pid, (undone or [other for other in one.irequires if not begun[pid][other]])[0]
        return list(path)[list(path).index(place) :]


def played(columns: Columns, machine: LogPMachine, schedule: Schedule) -> Simulation:
    """Operations on the simulated machine, as far as they can be done."""
    done = columns.play(machine, schedule)
    if done is not None:
        return done
    engine = Engine(machine, schedule)
    processors = [ListProcessor(engine, pid, operations) for pid, operations in enumerate(columns)]
    return engine.play(processors, processors)


@dataclass
class _Rank:
    """A block of a file, as far as it has been read."""

    operations: list[Operation] = field(default_factory=list)
    places: list[_OperationPlace] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    waits: list[tuple[_OperationPlace, str, bool, str]] = field(default_factory=list)
    computed: int = 0  # nanoseconds

    def finished(self) -> list[Operation]:
        """With what the operations wait for, which may have come before them; a UsageError where there is none such."""
        requires: dict[tuple[int, bool], list[int]] = {}
        for place, one, at_begin, other in self.waits:
            for label in (one, other):
                if label not in self.labels:
                    raise place.error(f"no operation of this rank has the label {label!r}")
            requires.setdefault((self.labels[one], at_begin), []).append(self.labels[other])
        return [
            operation._replace(
                requires=tuple(requires.get((number, False), ())), irequires=tuple(requires.get((number, True), ()))
            )
            for number, operation in enumerate(self.operations)
        ]


def _read(path: str, text: str) -> tuple[list[list[Operation]], list[list[_OperationPlace]]]:
    ranks: dict[int, _Rank] = {}
    p, rank, place = 0, None, _OperationPlace(path, 1)
    text = _COMMENT.sub(lambda comment: " " + "\n" * comment[0].count("\n"), text)
    lines = text.removesuffix("\n").split("\n")
    for number, line in enumerate(map(str.strip, lines), 1):
        place = _OperationPlace(path, number)
        if "/*" in line:
            raise place.error("the comment that begins here has no end: expected '*/'")
        if not line:
            continue
        if len(line) > _LONGEST:  # Python makes no number of so many digits
            raise place.error(f"expected a line of at most {_LONGEST} characters, got {len(line)}: {line!r:.40}...")
        if not p:
            found = _RANKS.fullmatch(line)
            if found is None or not int(found[1]):
                raise place.error(f"expected num_ranks and a number of at least 1, got {line!r:.80}")
            p = int(found[1])
        elif rank is None:
            found = _RANK.fullmatch(line)
            if found is None or int(found[1]) >= p or int(found[1]) in ranks:
                raise place.error(f"expected 'rank N {{' with another N below {p}, got {line!r:.80}")
            rank = ranks[int(found[1])] = _Rank()
        elif line == "}":
            rank = None
        elif found := _OPERATION.fullmatch(line):
            if found["label"] and found["label"] in rank.labels:
                raise place.error(f"the label {found['label']!r} is that of another operation of this rank")
            if found["kind"] and found["way"] != _WAYS[found["kind"]]:
                raise place.error(f"expected {_WAYS[found['kind']]!r} after {found['kind']!r}, got {line!r:.80}")
            numbers = [int(found[name]) for name in ("length", "size", "tag") if found[name]]
            if max(numbers) >= 1 << 63:
                raise place.error(f"expected numbers below 2**63, got {line!r:.80}")
            if found["kind"] == "send" and found["tag"] == "-1":
                raise place.error(f"expected a send with a tag of at least 0, got {line!r:.80}")
            if found["calc"]:
                rank.computed += int(found["length"])
                if rank.computed >= MOST_TIME:
                    raise place.error(
                        f"expected a rank to compute for less than 2**62 ns, got {rank.computed} by this line"
                    )
            if found["label"]:
                rank.labels[found["label"]] = len(rank.operations)
            rank.places.append(place)
            rank.operations.append(
                Operation(CALC, int(found["length"]))
                if found["calc"]
                else Operation(
                    SEND if found["kind"] == "send" else RECV,
                    int(found["size"]),
                    int(found["peer"]),
                    int(found["tag"] or 0),
                )
            )
        elif found := _REQUIRES.fullmatch(line):
            rank.waits.append((place, found[1], bool(found[2]), found[3]))
        else:
            raise place.error(f"expected calc, send, recv, requires, irequires or '}}', got {line!r:.80}")
    if not p or rank is not None:
        raise place.error("the file ends before " + ("num_ranks" if not p else "the '}' of a rank"))
    missing = next((pid for pid in range(p) if pid not in ranks), None)
    if missing is not None:
        raise place.error(f"the file ends without rank {missing} of {p}")
    return [ranks[pid].finished() for pid in range(p)], [ranks[pid].places for pid in range(p)]
