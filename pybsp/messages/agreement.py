"""Do all processors do the same? What each does travels with every exchange; this reads it, and words the errors.

All processors see the same, so all raise in the same exchange, and none is left waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeVar

from ..errors import BSPError, SyncError, UsageError, argument_error, describe, harmless, where
from ..ground.failures import Failure, outcome, processor_error
from ..transport import BEGIN, DIFFER, EXIT, EXPLAIN, FAIL, KIND, LOGP, Arrival, Parcel, Transport

if TYPE_CHECKING:
    from ..ledger.account import Account
    from ..supersteps.gate import Gate

Result = TypeVar("Result")


def once(look: Callable[..., Result]) -> Callable[..., Result]:
    """Remember the result for the last object: virtual processors all look at one list, and the first does the work."""
    last: list[Any] = [None, None]

    def looked(notes: Any, *arguments: Any) -> Result:
        if last[0] is not notes:
            last[:] = notes, look(notes, *arguments)
        result: Result = last[1]
        return result

    return looked


@once
def without_flags(words: Sequence[int]) -> list[int]:
    """What each processor was doing."""
    return [word & KIND for word in words]


@once
def doing(words: Sequence[int]) -> frozenset[int]:
    """What processors were doing, each thing once."""
    return frozenset(word & KIND for word in frozenset(words))


@once
def flags_of(words: Sequence[int]) -> int:
    """All flags that processors gave."""
    return reduce(or_, frozenset(words), 0) & ~KIND


def settle(
    exchange: Callable[..., Arrival],
    arrival: Arrival,
    kind: int,
    what: str,
    superstep: int,
    label: str,
    line: str = "",
    called: Callable[[], list[Called]] = list,
) -> Sequence[Any] | None:
    """Check that all processors were doing the same; returns the note of each to all.

    Args:
        exchange: `Transport.exchange` or `Router.route`, whichever brought the arrival.
        called: gives this processor's last calls.

    Raises:
        ProcessorError: a processor failed.
        SyncError: they did different things; the text says who did what, in which superstep, at which line.
        UsageError: they did so as they had called one function with different arguments.
    """
    if arrival.kinds is None:
        return arrival.notes
    if kind != FAIL and doing(arrival.kinds) == {kind}:
        return arrival.notes
    kinds = without_flags(arrival.kinds)
    if FAIL in kinds:
        assert arrival.notes is not None
        raise processor_error(arrival.notes)
    if kind not in (BEGIN, EXIT, LOGP):
        what += f" in {describe(superstep, label)}"
    if kind != EXIT:
        what += f", at {line or where()}"
    raise mismatch(exchange, kinds, Explained(called(), what))


def mismatch(exchange: Callable[..., Arrival], kinds: Sequence[int], mine: Explained) -> SyncError | UsageError:
    """Ask everybody what it was doing, where, and word the difference; all processors call this together."""
    notes = exchange(EXPLAIN, mine, {}).notes
    assert notes is not None
    if differs := _difference_in([note.calls for note in notes], 0, arguments=True):
        return UsageError(differs)
    doing: dict[str, list[int]] = {}
    for pid, (_, what) in enumerate(notes):
        doing.setdefault(what, []).append(pid)
    error = SyncError(
        "the processors did not do the same: " + "; ".join(f"{pids(who)} {what}" for what, who in doing.items())
    )
    outcome(error).speaker = next((pid for pid, kind in enumerate(kinds) if kind != EXIT), 0)
    return error


PLAINLY = "plainly"  # among the arguments of a call: it is no started one, as whose it goes another way


class Called(NamedTuple):
    """A call of a function with a stream of its own (rides/ride.py), as processors compare it: the number counts calls.

    members: the processors that call it, of a group in the order of its numbers; () for all of the machine.
    """

    number: int
    name: str
    arguments: dict[str, str]
    members: tuple[int, ...] = ()

    def described(self) -> str:
        """In words."""
        given = [f"{name}={value}" for name, value in self.arguments.items() if name != PLAINLY]
        return f"{self.name}({', '.join(given)}){self.place}"

    @property
    def place(self) -> str:
        """The group that it is called on, in words; empty where that is the machine."""
        return f" on the group of {pids(self.members)}" if self.members else ""


class Explained(NamedTuple):
    """What a processor says where calls differ: the last ones, and what it found, if it has found it; or does."""

    calls: list[Called]
    complaint: str


Calls = list[list[Called]]  # the last ones of each processor


def difference(notes: Sequence[Any]) -> UsageError:
    """The error, the same on all processors, where some found that they called different things; from all they say."""
    found = next((pid for pid, mine in enumerate(notes) if isinstance(mine, Explained) and mine.complaint), 0)
    called: Calls = [mine.calls if isinstance(mine, Explained) else [] for mine in notes]
    error = UsageError(_difference_in(called, found) or notes[found].complaint)
    outcome(error).speaker = found
    return error


def _difference_in(called: Calls, found: int, arguments: bool = False) -> str:
    """The first difference between calls, as seen by a processor, in words; empty where there is none.

    Args:
        arguments: whether it is only looked for in the arguments of the first calls that differ.
    """
    # A group's calls are compared by its members alone; those of the machine come first.
    groups = sorted({call.members for calls in called for call in calls})
    return next(filter(None, (_difference_of(members, called, found, arguments) for members in groups)), "")


def _difference_of(members: tuple[int, ...], called: Calls, found: int, arguments: bool) -> str:
    """`_difference_in` the calls on a group, or on the machine."""
    of_each = {
        pid: {call.number: call for call in calls if call.members == members}
        for pid, calls in enumerate(called)
        if not members or pid in members
    }
    for number in sorted(set().union(*of_each.values())):
        callers = [pid for pid, calls in of_each.items() if number in calls]
        here = found if found in callers else callers[0]
        mine = of_each[here][number]
        # Each processor has its last calls: what is older is equal.
        other = next(
            (p for p, calls in of_each.items() if calls.get(number) != mine and number >= min(calls, default=0)),
            None,
        )
        if other is None:
            continue
        theirs = of_each[other].get(number)
        if theirs is None or theirs.name != mine.name:
            if arguments:
                return ""
            what = f"is in {theirs.described()}" if theirs else f"has not called {mine.name}{mine.place}"
            if not theirs and called[other] and (members or called[other][-1].members):
                what += f" (its last call: {called[other][-1].described()})"
            last = called[other][-1] if called[other] else mine
            overlap = f"; where groups overlap, start it on each: {mine.name}.start(group, ...)"
            return (
                f"{mine.name}: processor {other} {what} where processor {here} is in {mine.name}; all processors "
                f"{'of a group ' * bool(members)}must call it together, and with equal arguments (here "
                f"{mine.described()})"
                + overlap
                * bool(members and last.name == mine.name and last.members not in ((), members))
            )
        argument = next(a for a in mine.arguments | theirs.arguments if mine[2].get(a) != theirs[2].get(a))
        if argument == PLAINLY:
            calls, starts = (here, other) if PLAINLY in mine.arguments else (other, here)
            return (
                f"{mine.name}: processor {starts} started it ({mine.name}.start) where processor {calls} called it; "
                "all processors start it, or all call it"
            )
        whom = "all processors" + mine.place.replace(" on", " of", 1)
        given = mine.arguments.get(argument), theirs.arguments.get(argument)
        way_out = "; an empty list is float64: np.empty(0, dtype) is of another one" if "float64" in given else ""
        return (
            f"{mine.name}: argument {argument}: expected the same on {whom}, got {given[0]} on processor {here} and "
            f"{given[1]} on processor {other}{way_out}"
        )
    return ""


def pids(numbers: Sequence[int]) -> str:
    """`processor 3`, or `processors 0, 2, 5-7`."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    text = ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in ranges)
    return f"processor {text}" if len(numbers) == 1 else f"processors {text}"


class Registered(NamedTuple):
    """What all processors registered and noted with a sync or a split, checked.

    own: what each added, by pid (a split's color and key).
    shapes: for each array that was registered, its shape on each processor, and for each pattern what each tells; None
        where nothing was registered.
    """

    own: list[Any]
    shapes: list[list[Any]] | None


_TELL = ("array of", "pattern of")  # what is declared with something for all


@once
def look_through(notes: Sequence[Any], superstep: int) -> Registered:
    """Check that all registered the same, and labelled alike where that is checked.

    The notes are None or (own, [(kind, dtype, shape, line), ...], None or (label, line)).

    Raises:
        SyncError: they did not; the text says who did what, and where.
    """
    declared: list[Any] = [note[1] if note else None for note in notes]
    labels: list[Any] = [note[2] if note else None for note in notes]
    shapes = None
    if any(declared):
        _compare_declarations(declared, superstep)
        of_each = [[shape for kind, _, shape, _ in note if kind in _TELL] for note in declared]
        shapes = [list(of_all) for of_all in zip(*of_each, strict=True)]
    if labels[0] is not None and any(label[0] != labels[0][0] for label in labels):
        pids_by_label: dict[str, list[int]] = {}
        for pid, (label, line) in enumerate(labels):
            pids_by_label.setdefault((f'"{harmless(label)}"' if label else "no label") + f" at {line}", []).append(pid)
        text = "; ".join(f"{pids(who)}: {what}" for what, who in pids_by_label.items())
        raise SyncError(f"the processors labelled superstep {superstep} differently: {text}")
    return Registered([None if note is None else note[0] for note in notes], shapes)


def _compare_declarations(declared: Sequence[Any], superstep: int) -> None:
    gists = [[(kind, what) for kind, what, _, _ in note or ()] for note in declared]
    if all(gist == gists[0] for gist in gists):
        return
    for k in range(max(len(gist) for gist in gists)):
        pids_by_label: dict[tuple[str, str], list[int]] = {}
        for pid, note in enumerate(declared):
            if note and k < len(note):
                kind, what, _, line = note[k]
                pids_by_label.setdefault((f"{kind} {what}", f"at {line}"), []).append(pid)
            else:
                pids_by_label.setdefault(("nothing", ""), []).append(pid)
        if len({what for what, _ in pids_by_label}) > 1:
            text = "; ".join(f"{pids(who)}: {what} {line}".rstrip() for (what, line), who in pids_by_label.items())
            raise SyncError(
                f"the processors did not register the same before the sync that ends {describe(superstep, '')}: as "
                f"number {k + 1} of that superstep, {text}"
            )


@once
def parts(own: Sequence[Any]) -> dict[Any, list[int]]:
    """The members of each part of a split, in the order of their keys, by color; `own` begins with color and key.

    Raises:
        UsageError: the keys of a part do not compare.
    """
    found: dict[Any, list[int]] = {}
    for pid, (color, *_) in enumerate(own):
        found.setdefault(color, []).append(pid)
    for members in found.values():
        keys = {pid: own[pid][1] for pid in members}
        try:
            members.sort(key=lambda pid: (keys[pid] is not None, 0 if keys[pid] is None else keys[pid], pid))
        except (TypeError, ValueError) as error:
            raise argument_error("bsp.split", "key", "keys that compare", f"{list(keys.values())} ({error})") from None
    return found


class Agreement:
    """One processor's part in keeping all of a machine in step.

    Args:
        route: an exchange of all, as the machine's router does it.
        members: of a part, which of all processors they are; empty: it is no part.

    Attributes:
        called: gives the last calls that processors compare where they differ.
    """

    __slots__ = ("_account", "_gate", "_route", "_transport", "called", "members")

    def __init__(
        self,
        transport: Transport,
        route: Callable[..., Arrival],
        gate: Gate,
        account: Account,
        members: Sequence[int],
    ) -> None:
        self._transport, self._route, self._gate, self._account = transport, route, gate, account
        self.members = members
        self.called: Callable[[], list[Called]] = list

    def meet(self, kind: int, note: Any, parcels: Mapping[int, Parcel]) -> Arrival:
        """An exchange beside supersteps."""
        try:
            return self._route(kind, note, parcels)
        except BaseException as error:
            self.leave(error)
            raise

    def settle(self, arrival: Arrival, kind: int, what: str, line: str = "") -> Registered | None:
        """Check that all did the same, and declared the same; returns what they said, None where nobody said anything.

        Args: as of the function `settle`.
        """
        try:
            if arrival.kinds is not None and DIFFER in (kinds := doing(arrival.kinds)) and FAIL not in kinds:
                raise difference(self._explained(""))
            superstep, label = self._account.superstep, self._account.label
            notes = settle(self._route, arrival, kind, what, superstep, label, line, self.called)
            return None if notes is None else look_through(notes, self._account.superstep)
        except BSPError as error:
            self._fail(error)  # all find the same
            raise

    def differ(self, complaint: str) -> NoReturn:
        """What arrived says that others called something else: all say what they called; see rides/ride.py.

        Raises:
            UsageError: what was different; on all processors, on the others at their next exchange.
            ProcessorError: a processor failed meanwhile.
        """
        arrival = self.meet(DIFFER, None, {})
        kinds = [] if arrival.kinds is None else without_flags(arrival.kinds)
        if FAIL in kinds:
            self.settle(arrival, DIFFER, "")
        error = difference(self._explained(complaint))
        self._fail(error)
        raise error

    def compare(self) -> None:
        """All say what they called, as one of them has called what it sends nothing of.

        Raises:
            UsageError: what was different, on all processors.
        """
        error = difference(self._explained(""))
        if str(error):
            self._fail(error)
            raise error

    def _explained(self, complaint: str) -> Sequence[Any]:
        notes = self.meet(EXPLAIN, Explained(self.called(), complaint), {}).notes
        assert notes is not None
        return notes

    def leave(self, error: BaseException) -> None:
        """An exception leaves an exchange, or what consists of exchanges.

        Unless all know of it, what was under way there is lost to all.
        """
        if self._gate.failed is not None:
            return
        settled = self._transport.settled
        if settled is None:
            self._transport.revoke(error)
        else:
            self._fail(settled)

    def tell(self, failure: Failure, grace: float | None) -> Arrival | None:
        """Tell the others of a failure that only this processor knows of; returns what all were doing, and said.

        None where another failure is known to all meanwhile.

        Raises:
            TimeoutError: they did not come within the grace period, in seconds.
        """
        try:
            # Of what is revoked the transport tells all, where no router can.
            route = self._transport.exchange if self._transport.revoked else self._route
            arrival = route(FAIL, failure, {}, grace=grace)
        except BaseException as other:
            self.leave(other)
            if self._transport.settled is not None:
                return None
            raise
        self._gate.close(f"the {self._gate.of} has failed", "failed")
        return arrival

    def _fail(self, error: BSPError) -> None:
        """All processors know of this error: nothing more is exchanged."""
        if self.members:
            numbers = ", ".join(str(pid) for pid in self.members[:16]) + ", ..." * (len(self.members) > 16)
            error.args = (f"{error} (in a part made by bsp.split; its processors, from 0, are {numbers} of all)",)
        self._gate.fail(error)
