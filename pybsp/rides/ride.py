"""What rides in a machine's supersteps beside the program's own traffic: functions with messages of their own.

Such a function, as every collective is one, is a generator: with each `yield` it lets a superstep end. It sends on
a *stream* of its own, which is no part of the program's inbox, so it can go on in the program's supersteps (`BSP.ride`)
or in some of its own (`Ride.finish`), which leave alone what the program has sent and what has arrived for it.

Every message carries a *signature*: a number that says which call it belongs to, with which arguments, and which of its
supersteps. One that nobody here waits for means that another processor did something else. Then all meet to say what
they called.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from inspect import GEN_CLOSED, GEN_CREATED, getgeneratorstate
from types import GeneratorType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, NoReturn, SupportsIndex, TypeVar

from ..errors import TicketError, UsageError, argument_error, brief, describe, usage_error
from ..ground.chunk import Counted
from ..ground.convert import what
from ..ground.instead import hinting
from ..ground.public import Public
from ..messages.agreement import PLAINLY as PLAINLY
from ..messages.agreement import Called
from ..messages.mail import Inbox, Mail, Message, unpack
from ..supersteps.gate import Gate
from ..supersteps.participant import Participant
from ..transport import LETTERS, Arrival, Parcel, Section, new_tuple
from .notes import Noted, Notes

if TYPE_CHECKING:
    from ..supersteps.superstep import SuperstepEngine

Result = TypeVar("Result")
Result_co = TypeVar("Result_co", covariant=True)
Supersteps = Generator[None, None, Result]  # what ends a superstep with each `yield`, and returns a result

REMEMBERED = 64  # calls, for errors
UNHEARD = Participant()  # of a superstep with which all say what they called
OVER = Gate(0)  # of streams whose function is over
OVER.close("the function that it is of is over; send while that rides")
# A signature is 62 bits of what is called, with the number of the call and that of its superstep added: a word.
_BITS = (1 << 62) - 1
OF_SUPERSTEP = 1 << 40


class Letter(NamedTuple):
    """A message of a stream: who sent it, what goes beside the data, and the data."""

    source: int
    note: Any
    payload: Any


@lru_cache(maxsize=4096)
def _signature(description: str) -> int:
    return int.from_bytes(blake2b(description.encode(), digest_size=8).digest(), "little") & _BITS


def signature(name: str, arguments: Mapping[str, str], members: tuple[int, ...] = ()) -> int:
    """62 bits of what is called with which arguments, the same in all processes; `members`: as of `Called`."""
    return _signature(f"{name} on {members};{arguments}" if members else f"{name};{arguments}")


def first_of(call: Called) -> int:
    """The signature of the first superstep of a call."""
    return signature(call.name, call.arguments, call.members) + call.number


def _read_tag(tag: Any) -> tuple[Any, Any]:
    """The signature and the note that `Stream.send` made a tag of."""
    if type(tag) is str:
        number, note = tag.split("|", 1)
        return int(number), note
    return tag if type(tag) is tuple else (tag, None)


def following(signature: int) -> int:
    """The signature of the next superstep of the same call."""
    return signature + OF_SUPERSTEP


class CallsOn:
    """The calls on one group, on this processor: they are counted by themselves.

    Attributes:
        number: of the last one.
        last: the last ones, each with its number, name and arguments.
    """

    __slots__ = ("last", "members", "number")

    def __init__(self, members: tuple[int, ...]) -> None:
        self.members, self.number = members, 0
        self.last: deque[tuple[int, str, dict[str, str]]] = deque(maxlen=REMEMBERED)

    def called(self) -> list[Called]:
        """The last ones."""
        return [Called(*call, self.members) for call in self.last]

    def last_called(self) -> Called:
        """The last one."""
        return Called(*self.last[-1], self.members)

    def take_back(self) -> None:
        """The last one begins again."""
        self.number -= 1
        self.last.pop()


class GroupCalls:
    """The calls on all groups, on this processor.

    Attributes:
        latest: those on the group that was called on last.
        since: the number of the machine's last call before that; -1 where there is none.
    """

    def __init__(self) -> None:
        self._of: dict[tuple[int, ...], CallsOn] = {}
        self.latest = CallsOn(())
        self.since = -1

    def on(self, members: tuple[int, ...]) -> CallsOn:
        """Those on a group."""
        return self._of.setdefault(members, CallsOn(members))

    def called(self) -> list[Called]:
        """The last calls on each group."""
        return [call for calls in self._of.values() for call in calls.called()]


class Stream:
    """The messages of one call, apart from the program's and from those of other calls; made by `BSP.stream`.

    Attributes:
        pid: of this processor.
        superstep: of the call, from 0.
        sending: whether something goes out with the superstep that goes on.
        arrived: what came with the last superstep; arrays are read-only views, until the next one ends.

    Examples:
        >>> def shifted(bsp, value):
        ...     stream = bsp.stream("shifted")
        ...     stream.takes(2)  # the ticket knows after how many supersteps it is over
        ...     stream.send((bsp.pid + 1) % bsp.p, value)
        ...     yield
        ...     stream.send_all([0], stream.arrived[0].payload)
        ...     yield
        ...     return [letter.payload for letter in stream.arrived]
        >>> def main(bsp):
        ...     ticket = bsp.ride("shifted", shifted(bsp, bsp.pid))
        ...     bsp.sync()
        ...     bsp.sync()
        ...     return ticket.supersteps, ticket.value
        >>> pybsp.simulate(main, p=3).results
        [(2, [2, 0, 1]), (2, []), (2, [])]
    """

    __slots__ = ("_gate", "_mail", "_name", "_rides", "_signature", "arrived", "pid", "sending", "superstep")

    def __init__(self, rides: Rides, name: str, mine: int) -> None:
        self._name, self._gate = name, rides.gate
        self._rides, self._mail = rides, rides.mail
        self.pid, self.superstep, self.sending = rides.pid, 0, False
        self.arrived: list[Letter] = []
        self._signature = mine

    def send(self, dest: SupportsIndex, payload: Any, note: Any = None) -> None:
        """Send a message that is there after this superstep, with a note that counts no words.

        Args:
            dest: a processor, 0 to p - 1.
            payload: as of `BSP.send`.
            note: any picklable value; a str travels cheapest.

        Raises:
            UsageError: a wrong dest, or something that cannot be pickled; the function is over. Nothing is sent then.
        """
        if type(dest) is not int or not 0 <= dest < self._gate.limit:
            dest = self._processor("send", "dest", dest)
        self._mail.operation = self._name
        already = self._mail.words(dest)
        self._mail.send(dest, payload, self._tag(note))
        self.sending = True
        if dest != self._rides.pid:
            self._rides.count(self._name, self._mail.words(dest) - already)

    def send_all(self, dests: Iterable[SupportsIndex], payload: Any, note: Any = None) -> None:
        """`send` to several processors."""
        if not self._gate.limit:
            self._gate.check(f"{self._name}: stream.send_all")
        try:
            pids = self._pids(dests)
        except TypeError:
            expected = "several processors"
            raise argument_error(f"{self._name}: stream.send_all", "dests", expected, brief(dests)) from None
        if pids:
            self._mail.operation = self._name
            words = self._mail.send_all(pids, payload, self._tag(note))
            self.sending = True
            self._rides.count(self._name, words * (len(pids) - pids.count(self._rides.pid)))

    def _pids(self, dests: Iterable[SupportsIndex]) -> list[int]:
        """The processors that several destinations are."""
        limit = self._gate.limit
        return [
            dest if type(dest) is int and 0 <= dest < limit else self._processor("send_all", "dests", dest)
            for dest in dests
        ]

    def _processor(self, operation: str, argument: str, dest: SupportsIndex) -> int:
        """A destination that is no plain int in range: see `Gate.processor`."""
        return self._gate.processor(f"{self._name}: stream.{operation}", argument, dest)

    def _tag(self, note: Any) -> Any:
        mine = self._signature
        return mine if note is None else f"{mine}|{note}" if type(note) is str else (mine, note)

    def alike(self, make: Callable[[], Result]) -> Result:
        """What all processors of the call make now, each from the same data; see `Account.alike`."""
        return self._rides.alike(self._signature, make)

    def follows(self) -> None:
        """Another processor knows after how many supersteps the function is over (`takes`), and this one not yet."""
        self._rides.follows(self._name)

    def takes(self, supersteps: int) -> None:
        """The function that rides is over after so many supersteps in all; one that goes on after them is an error."""
        self._rides.takes(self._name, supersteps)

    def compare(self) -> None:
        """No message says what is called: all processors do, with the next sync of the program, or at its end.

        Examples:
            >>> def scaled(bsp, value, scale):
            ...     stream = bsp.stream("scaled", scale=scale)
            ...     stream.compare()  # nothing is sent
            ...     return scale * value
            ...     yield
            >>> try:
            ...     pybsp.simulate(lambda bsp: bsp.ride("scaled", scaled(bsp, 1, bsp.pid)).value, p=2)
            ... except pybsp.UsageError as error:
            ...     print(error)
            scaled: argument scale: expected the same on all processors, got 0 on processor 0 and 1 on processor 1
        """
        self._rides.unheard = True

    def differ(self, complaint: str) -> NoReturn:
        """What arrived is not what the call expects: all processors say what they called, and get the error.

        Raises:
            UsageError: what was different; the complaint where all called the same.
        """
        self._rides.differ(complaint)

    @property
    def awaited(self) -> int:
        """The signature of what arrives next."""
        return self._signature

    def close(self) -> None:
        """The function that it is of is over."""
        self._gate = OVER

    def refuse(self) -> None:
        """The function has raised before its first superstep: see `Rides.refuse`."""
        self._rides.refuse(self._signature)

    def turn(self) -> int:
        """A superstep ends: what arrives with this signature is this stream's."""
        mine = self._signature
        self._signature = following(mine)
        self.superstep += 1
        self.arrived, self.sending = [], False
        return mine


@hinting("ticket")
class Ride(Public, Generic[Result_co]):
    """A function that is under way in the supersteps of a machine: a ticket for its result.

    Attributes:
        name: of the function.
        done: whether it is over, at once on all processors of the machine, or of the group, that it is of.
        supersteps: after how many in all it is, from its start; None where that depends on what arrives.
        ended: how often it went on.

    Examples:
        >>> from pybsp import collectives
        >>> def main(bsp):
        ...     ticket = collectives.allreduce.start(bsp, bsp.pid, np.add, degree=4)
        ...     bsp.send(0, "beside it")
        ...     bsp.sync()
        ...     return ticket.supersteps, ticket.done, int(ticket.value), len(bsp.inbox)
        >>> pybsp.simulate(main, p=4).results[0]
        (1, True, 6, 4)
    """

    _public = ("name", "done", "supersteps", "ended", "value", "finish")
    announced = False  # another processor knows after how many supersteps it is over
    done = False
    supersteps: int | None
    streams: list[Stream]
    _value: Result_co
    _failed: BaseException | None = None  # what it raised

    def __init__(self, rides: Rides, name: str, steps: Supersteps[Result_co]) -> None:
        self.name, self.supersteps = name, None
        self._rides, self._steps, self.ended = rides, steps, 0
        self.streams = []

    @property
    def value(self) -> Result_co:
        """The result, on this processor.

        Raises:
            TicketError: it is not over; or it raised: the cause is what it raised, in the sync in which it did.

        Examples:
            >>> from pybsp import collectives
            >>> def main(bsp):
            ...     return collectives.allreduce.start(bsp, bsp.pid, np.add, degree=4).value
            >>> try:
            ...     pybsp.simulate(main, p=4)
            ... except pybsp.TicketError as error:
            ...     print(str(error).partition("; ")[2])
            its value is there after 1 more superstep; call bsp.sync() first
        """
        if not self.done or self._failed is not None:
            self._refuse("ticket.value")
        return self._value

    def _left(self, supersteps: int) -> int:
        """How many of all its supersteps are still to end, the one that goes on among them."""
        return supersteps - self.ended + 1

    def __repr__(self) -> str:
        gate = self._rides.gate
        if self._failed is not None:
            state = f"failed ({type(self._failed).__name__})"
        elif self.done:
            state = "over"
        elif gate.over:
            state = f"never over: the {gate.of} has {gate.over}"
        elif self.supersteps is None:
            state = "under way"
        else:
            more = self._left(self.supersteps)
            state = f"{more} superstep{'s' * (more > 1)} to go"
        return f"<{self.name}: {state}>"

    def _refuse(self, operation: str) -> NoReturn:
        """The error for what asks for the value of one that has none."""
        if self._failed is not None:
            raise TicketError(f"{operation}: {self.name} failed, and has no value: {self._failed}") from self._failed
        left = "more supersteps"
        if self.supersteps is not None:
            more = self._left(self.supersteps)
            left = f"{more} more superstep{'s' * (more > 1)}"
        started = self._rides.superstep() - max(self.ended - 1, 0)
        raise TicketError(
            f"{operation}: {self.name} was started in {describe(started, '')}; its value is there after {left}; "
            "call bsp.sync() first"
        )

    def _result(self, operation: str) -> Result_co:
        """The result of what is over."""
        if self._failed is not None:
            self._refuse(operation)
        return self._value

    def finish(self) -> Result_co:
        """Go on in supersteps of its own, in which only what rides travels, until it is over; collective.

        What the program has sent stays where it is until the program's own sync, and so does what arrived for it.

        Raises:
            ProcessorError, SyncError: as `BSP.sync`.
            TicketError: it raised, in a sync before.
            UsageError: another processor called something else, or with other arguments.

        Examples:
            >>> from pybsp import collectives
            >>> def main(bsp):
            ...     tickets = [collectives.allreduce.start(bsp, bsp.pid, op, degree=2) for op in (np.add, np.maximum)]
            ...     bsp.send(0, "waits")
            ...     return [int(ticket.finish()) for ticket in tickets], bsp.pending
            >>> def ended(bsp):
            ...     found = main(bsp)
            ...     bsp.sync()
            ...     return found
            >>> simulation = pybsp.simulate(ended, p=4)
            >>> simulation.results[0], len(simulation.ledger)
            (([6, 3], 'bsp.send'), 3)
        """
        while not self.done:
            self._rides.sync(self.name)
        return self._result("ticket.finish")

    def advance(self) -> None:
        """A superstep has ended, or the first one begins.

        Raises:
            UsageError: the function goes on after the supersteps that it has said it takes, or has sent something after
                its last one.
        """
        try:
            next(self._steps)
            self.ended += 1
        except StopIteration as end:
            self._value, self.done = end.value, True
            if self.supersteps is None:
                self.supersteps = self.ended
            if any(stream.sending for stream in self.streams):
                expected = "a `yield` after it, with which a superstep ends and it arrives"
                raise usage_error(f"{self.name}: stream.send", expected, "the end of the function") from None
            self._close()
            return
        if self.supersteps is not None and self.ended > self.supersteps:
            if len(self.streams) > 1:  # another call of the same name, that is a part of it, has said it
                self.supersteps = None
                return
            got = f"{self.supersteps}, after which it has gone on"
            raise argument_error(f"{self.name}: stream.takes", "supersteps", "as many as its function takes", got)

    def fail(self, error: BaseException) -> None:
        """It has raised that: it can neither go on nor be waited for."""
        self.done, self._failed = True, error
        self._close()

    def _close(self) -> None:
        """Nothing is sent any more on its streams, which nobody reads."""
        for stream in self.streams:
            stream.close()


Finish = Callable[[Any, int], Any]  # of what it was given, and its signature; takes the notes, and returns the result
Start = Callable[[Any, Any], Ride[Any]]  # everything of a call but its value, and the array for the result, or None


class NotedRide(Ride[Any]):
    """One that sends notes alone, when it is started, and is over with the superstep: no generator has to wait.

    Attributes:
        signature: of the superstep.
        own: the value of this processor.
        ending: makes the result.
    """

    supersteps, ended = 1, 1
    streams: list[Stream] = []  # noqa: RUF012 - nothing is ever added

    own: Any
    signature: int
    ending: Finish
    __init__ = object.__init__  # `Rides.starter` makes them, in less time


NotedRide.__name__ = NotedRide.__qualname__ = Ride.__name__  # as users know it


AnyRide = TypeVar("AnyRide", bound=Ride[Any])


class Rides(Participant):
    """All that rides in the supersteps of a machine, on this processor.

    Args:
        engine: whose supersteps.

    Attributes:
        account: of this processor.
        gate: whether something may be called.
        mail: what is sent on the streams.
        notes: what is sent beside them.
        riding: what is under way, in the order in which it was started; the same on all processors, but for what was
            started on groups.
        starting: of these, whose generator, or operator, runs.
        unheard: whether something was called of which no message says so: see `Stream.compare`.
        group_calls: the calls on groups.
        words: that go to others with this superstep, by the name of the function.
    """

    __slots__ = (
        "_calls",
        "_engine",
        "_number",
        "account",
        "gate",
        "group_calls",
        "mail",
        "notes",
        "p",
        "pid",
        "riding",
        "starting",
        "unheard",
        "words",
    )

    def __init__(self, engine: SuperstepEngine) -> None:
        self._engine, self.p, self.pid, self.account = engine, engine.p, engine.pid, engine.account
        self.gate = engine.gate
        self.mail = Mail(engine.pool, "collective", stream=LETTERS)
        self.notes = Notes(self)
        self.riding: list[Ride[Any]] = []
        self.starting: Ride[Any] | None = None
        self.unheard = False
        self.group_calls = GroupCalls()
        self._calls: deque[tuple[int, str, dict[str, str]]] = deque(maxlen=REMEMBERED)  # as `Called`
        self._number = 0
        self.words: dict[str, int] = {}

    def count(self, name: str, words: int) -> None:
        """A function sends so many words to others with this superstep.

        Of none nothing is said: not all ways in which a function goes tell a message without words from no message.
        """
        if words:
            self.words[name] = self.words.get(name, 0) + words

    def alike(self, key: int, make: Callable[[], Result]) -> Result:
        """See `Account.alike`."""
        return self.account.alike(key, make)

    def superstep(self) -> int:
        """The number of the superstep that goes on."""
        return self.account.superstep

    # -- beginning ----------------------------------------------------------------------------------------------------

    def check(self, name: str) -> None:
        """Refuse, with a UsageError, to start what has that name where nothing may be called now: nothing begins."""
        self.gate.check(name)

    def start(self, name: str, steps: Supersteps[Result]) -> Ride[Result]:
        """Start a function; what it sends first goes out with the superstep that goes on."""
        return self.begun(Ride(self, name, steps))

    def start_beside(self, name: str, steps: Supersteps[Result]) -> Ride[Result]:
        """`start`, of what goes on in the program's supersteps."""
        return self.beside(self.start(name, steps))

    def beside(self, ride: AnyRide) -> AnyRide:
        """The ride, which goes on in the program's supersteps: the next one compares it, if no message does."""
        if self.unheard:
            self._engine.participants[UNHEARD] = None
        return ride

    def begun(self, ride: AnyRide) -> AnyRide:
        """The ride, begun: what it sends first goes out with the superstep that goes on.

        One that raises and has sent nothing was no call: the program may catch that, and call with other arguments.
        """
        try:
            self._advance([ride])
        except BaseException:
            if not any(stream.sending for stream in ride.streams):
                for stream in reversed(ride.streams):
                    stream.refuse()
            raise
        return ride

    def start_noted(
        self, name: str, steps: Supersteps[Result], supersteps: int, ride: Ride[Result] | None = None
    ) -> Ride[Result]:
        """Start a function that sends notes alone, and is over after so many supersteps: at least one.

        Args:
            ride: of the function; None: one on the machine.
        """
        if ride is None:
            ride = Ride(self, name, steps)
        ride.supersteps = supersteps
        next(steps)
        ride.ended = 1
        self.riding.append(ride)
        self._engine.participants[self] = None
        return ride

    def starter(
        self,
        name: str,
        agreed: dict[str, str],
        of_call: int,
        dests: Sequence[int],
        note: Callable[[Any], Any],
        words: int,
        ending: Finish,
        otherwise: Start,
    ) -> Start:
        """What starts a call that is over with the superstep, with the value of this processor: see `NotedRide`.

        Args:
            name, agreed, of_call: as of `begin`.
            dests, note, words: to whom the value goes, what makes a note of it if it is no float, and its words.
            ending: gets the value, and the signature.
            otherwise: starts it where the result is to go into an array.
        """
        gate, participants, calls = self.gate, self._engine.participants, self._calls
        counted, notes = len(dests) * words, self.notes

        def start(value: Any, out: Any) -> Ride[Any]:
            # `begin` and `count` in fewer steps: it is what a started collective takes.
            if out is not None:
                return otherwise(value, out)
            if not gate.limit:
                gate.check(name)
            self._number = number = self._number + 1
            calls.append((number, name, agreed))
            mine = of_call + number
            ride: NotedRide = NotedRide()
            ride.name, ride._rides, ride.ending, ride.own, ride.signature = name, self, ending, value, mine
            self.riding.append(ride)
            participants[self] = None
            if dests:
                notes.sent.append((dests, mine, value, note, words))
                if counted:
                    self.words[name] = self.words.get(name, 0) + counted
            return ride

        return start

    def stream(self, name: str, arguments: Mapping[str, str]) -> Stream:
        """The stream of a call of the function whose generator runs."""
        ride = self.running("bsp")
        arguments = dict(arguments)
        stream = Stream(self, name, self.begin(name, arguments, signature(name, arguments)))
        ride.streams.append(stream)
        return stream

    def running(self, of: str) -> Ride[Any]:
        """The function whose generator runs, for a stream of the machine or a group; a UsageError where none does."""
        if self.starting is None:
            self.gate.check(f"{of}.stream")
            raise UsageError(f"{of}.stream: only inside a function that rides; start it with {of}.ride(name, steps)")
        return self.starting

    def signature(self, name: str, arguments: Mapping[str, str]) -> int:
        """`signature`."""
        return signature(name, arguments)

    def begin(self, name: str, arguments: dict[str, str], of_call: int) -> int:
        """A call begins, with that signature of what is called; returns the signature of its first superstep."""
        self._number = number = self._number + 1
        self._calls.append((number, name, arguments))
        return of_call + number

    def begin_shown(self, name: str, arguments: dict[str, str], of_call: int) -> int:
        """`begin`, of a call whose supersteps are of records; -1 where all have something else to say with it."""
        engine = self._engine
        if engine.registrations.declared or not self.gate.limit:
            return -1
        self._number = number = self._number + 1  # as `begin`, in fewer steps
        self._calls.append((number, name, arguments))
        return of_call + number

    def take_back(self) -> None:
        """The call that began last rides instead, and begins again."""
        self._number -= 1
        self._calls.pop()

    def refuse(self, awaited: int, members: tuple[int, ...] = ()) -> None:
        """The call that waits for that signature first was none, if it is the last one, on the group of these."""
        if members:
            of_group = self.group_calls.on(members)
            if of_group.last and first_of(of_group.last_called()) == awaited:
                of_group.take_back()
                self.group_calls.since = -1
        elif self._calls and first_of(Called(*self._calls[-1])) == awaited:
            self.take_back()

    def takes(self, name: str, supersteps: int) -> None:
        """See `Stream.takes`; a part of another function does not know it of that one."""
        if self.starting is not None and self.starting.name == name:
            self.starting.supersteps = supersteps

    def begin_on(self, calls: CallsOn, name: str, arguments: dict[str, str], of_call: int) -> int:
        """`begin` of a call on a group."""
        groups = self.group_calls
        groups.latest, groups.since = calls, self._number
        number = calls.number = calls.number + 1
        calls.last.append((number, name, arguments))
        return of_call + number

    def follows(self, name: str) -> None:
        """See `Stream.follows`."""
        if self.starting is not None and self.starting.name == name:
            self.starting.announced = True

    def end(self, engine: SuperstepEngine) -> None:
        """The machine has ended: another engine, where nothing can be called, is in its place."""
        self._engine, self.riding, self.starting = engine, [], None

    # -- the end of a superstep ---------------------------------------------------------------------------------------

    def pack(self, parcels: dict[int, Parcel]) -> None:
        if self.mail.outgoing:
            for dest, parcel in self.mail.pack()[0].items():
                parcels.setdefault(dest, {}).update(parcel)
        self.notes.pack(parcels)

    def laid(self) -> None:
        self.notes.sent = []

    def sync(self, name: str, more: bool | None = None) -> bool:
        """End a superstep of what rides alone, for one of it; see `SuperstepEngine.sync_rides`."""
        if more is None and len(self.riding) == 1:
            return self._engine.sync_ride(name)
        return self._engine.sync_rides(name, more)

    def take(self, name: str, arrival: Arrival, seconds: float, sent: Counted) -> bool:
        """See `SuperstepEngine.take_rides`."""
        return self._engine.take_rides(name, arrival, seconds, sent)

    def deliver(self, arrived: Sequence[tuple[int, Section]], noted: dict[int, Noted]) -> None:
        """Give what arrived to the streams, and the notes to who takes them, and let everything go on.

        The exchange is over: what raises here raises as the program itself would.
        """
        waiting: dict[int, Stream] = {}
        for ride in self.riding:
            for stream in ride.streams:
                waiting[stream.turn()] = stream
        for source, tag, payload in Inbox(arrived) if arrived else ():
            tag, note = _read_tag(tag)
            if tag not in waiting:
                self.differ(self.unawaited(source, tag))
            waiting[tag].arrived.append(new_tuple(Letter, (source, note, payload)))
        self.notes.came = noted
        self.go_on()
        if any(noted.values()):
            self.notes.all_taken()

    def take_letters(self, arrival: Arrival) -> Counted | None:
        """What came for what rides, where that is messages alone: the streams get them. Nothing goes on.

        Returns:
            What they count; None: something else came, and all of it is as it was.
        """
        if arrival[0] is not None:
            return None
        streams = {stream.awaited: stream for ride in self.riding for stream in ride.streams}
        found: list[tuple[Stream, Letter]] = []
        words = count = 0
        for source, parcel in arrival[2]:
            if len(parcel) != 1 or LETTERS not in parcel:
                return None
            section = parcel[LETTERS]
            if source != self.pid:
                words, count = words + section[1], count + section[2]
            messages: list[Message] = []
            unpack(source, section, messages)
            for _, tag, payload in messages:
                tag, note = _read_tag(tag)
                stream = streams.get(tag)
                if stream is None:
                    return None
                found.append((stream, new_tuple(Letter, (source, note, payload))))
        for stream in streams.values():
            stream.turn()
        for stream, letter in found:
            stream.arrived.append(letter)
        return words, count, 0, 0

    def go_on(self) -> None:
        """Let everything go on that rides."""
        riding, self.riding = self.riding, []
        self._advance(riding)

    def _advance(self, rides: Sequence[Ride[Any]]) -> None:
        """One after the other, in the order of their starts; all of them, also where one raises."""
        failed: BaseException | None = None
        before, participants = self.starting, self._engine.participants
        participants[self] = None  # so that a sync within finds that something runs
        for ride in rides:
            self.starting = ride
            try:
                if isinstance(ride, NotedRide):
                    ride._value = ride.ending(ride.own, ride.signature)
                    ride.done = True
                    continue
                ride.advance()
            except BaseException as error:
                ride.fail(error)
                failed = failed or error
                if self.gate.failed is not None:
                    raise  # all know of it, and nothing more is exchanged
            finally:
                self.starting = before
            if not ride.done:
                self.riding.append(ride)
        if not self.riding:
            participants.pop(self, None)
        if failed is not None:
            raise failed

    # -- where processors differ --------------------------------------------------------------------------------------

    def called(self) -> list[Called]:
        """The last calls on this processor."""
        return [*(Called(*call) for call in self._calls), *self.group_calls.called()]

    def last_call(self) -> Called:
        """The last one."""
        groups = self.group_calls
        return groups.latest.last_called() if groups.since == self._number else Called(*self._calls[-1])

    def unawaited(self, source: int, mine: int) -> str:
        """A complaint: a processor sent what nobody here waits for, with that signature."""
        for call in reversed(self.called()):
            superstep, other = divmod(mine - first_of(call), OF_SUPERSTEP)
            if not other and superstep >= 0:
                return (
                    f"{call.name}{call.place}: processor {source} has sent something in its superstep {superstep + 1}, "
                    f"in which processor {self.pid} does not wait for it: all must begin it in the same superstep, and "
                    "take as many for it"
                )
        return f"processor {source} sent what processor {self.pid} does not wait for"

    def going_on(self, name: str) -> str:
        """What this processor does that is in a superstep of a function's own, in words."""
        if not self._calls and self.group_calls.since < 0:
            return f"went on with {name}"
        last = self.last_call()
        # Another one may have been called since this was started.
        return f"called {last.described()}" if last.name == name else f"went on with {name}"

    def differ(self, complaint: str) -> NoReturn:
        """See `Stream.differ`."""
        self._engine.agreement.differ(complaint)

    def under_way(self) -> str:
        """What is under way, in words; empty where nothing is."""
        return ", ".join(ride.name for ride in self.riding)


def checked_steps(operation: str, steps: Supersteps[Result]) -> Supersteps[Result]:
    """The argument steps: a generator that has not begun; a UsageError where it is none, or it has."""
    if isinstance(steps, GeneratorType):
        state = getgeneratorstate(steps)
        if state == GEN_CREATED:
            return steps
        got = f"one that {'is over' if state == GEN_CLOSED else 'has begun'}; call the function anew"
    else:
        got = what(steps)
    raise argument_error(operation, "steps", "a generator that has not begun, as neighbours(bsp)", got)


def refuse_under_way(operation: str, rides: Rides, way_out: str) -> None:
    """Refuse an operation while something rides, with a UsageError."""
    if names := rides.under_way():
        raise UsageError(f"{operation}: {names}: started, and not over; {way_out}")
