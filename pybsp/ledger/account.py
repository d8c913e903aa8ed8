"""What a processor notes of its supersteps as they end: a row of its log for each, and the clocks that time them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ..errors import describe
from ..ground.chunk import Counted, clock
from ..machines.bsp import BSPMachine
from ..machines.ebsp import EBSPMachine
from ..machines.in_force import charged
from ..transport import Charge, Transport
from .log import Log

if TYPE_CHECKING:
    from ..parts.totals import Stays
    from ..transport.virtual import VirtualTransport

Result = TypeVar("Result")

NOTHING: Counted = (0, 0, 0, 0)


def no_delays() -> float:
    return 0.0


COUNTS = Charge(0.0, counts=True)  # on ranks, where no virtual clock runs


class Account:
    """One processor's account of its supersteps.

    Attributes:
        log: a row for each superstep that has ended, and what is known of the one that goes on.
        label: of that.
        lasting: the label of the supersteps after it.
        stays: in parts (parts/totals.py); None where nothing was split.
        ahead: seconds by which each processor's clock was ahead of processor 0's when the ledger was asked for; None
            where they have one.
    """

    __slots__ = ("_started", "_transport", "ahead", "label", "lasting", "log", "stays")
    virtual, network = False, ""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.log = Log()
        self.stays: Stays | None = None
        self.ahead: list[float] | None = None
        self.label, self.lasting = "", ""
        self.begin()

    def begin(self) -> None:
        """The program begins on this processor: its clocks run from here."""
        self._started = self._transport.time()
        self.begin_at(clock())

    def begin_at(self, instant: float) -> None:
        """The superstep that goes on began then."""
        self.log.begin_at(instant)

    def leave_out(self, entered: float) -> None:
        """What was done since then is no part of what is measured."""
        self.begin_at(self.log.left + clock() - entered)

    def of_part(self, transport: Transport) -> Account:
        """The account of a part, which has that transport."""
        return Account(transport)

    @property
    def superstep(self) -> int:
        """The number of the superstep that goes on, from 0."""
        return len(self.log)

    def described(self) -> str:
        """The superstep that goes on, in words."""
        return describe(self.superstep, self.label)

    def set_label(self, label: str) -> None:
        """Label this superstep and the next ones."""
        self.lasting = label
        self.label_this(label)

    def label_this(self, label: str) -> None:
        """Label this superstep, until `note` ends it."""
        self.label = label
        labels = self.log.labels
        self.log.label_number = float(labels.setdefault(label, len(labels)))

    def time(self) -> float:
        """Seconds since the program began."""
        return self._transport.time() - self._started

    def computed(self) -> float:
        """Seconds of computing in the superstep that goes on, as this process measures them."""
        return clock() - self.log.left

    def after(self) -> float:
        """Seconds of computing since the last superstep: in no record, where the program has ended."""
        return self.computed() - self.log.away

    def set_computed(self, seconds: float) -> None:
        """So many they are until now."""
        self.begin_at(clock() - seconds)

    def as_saved(self, computed: float) -> dict[str, Any]:
        """All of it as plain data, from which `resume` goes on; `computed` before this processor began to save."""
        return {
            "log": self.log.as_saved(),
            "seconds": self.time(),
            "work": self.log.work,
            "computed": computed,
            "labels": [self.label, self.lasting],
        }

    def resume(self, saved: Mapping[str, Any]) -> None:
        """Go on from a checkpoint: in its superstep, with what was charged to that, so long after the program began.

        Blocks with a label are those that the program is in now; a label of the superstep's own is its own again.
        """
        self.log.work = saved["work"]  # what is counted from here on begins with that
        self.log.resume(saved["log"])
        self.set_computed(saved["computed"])
        label, lasting = saved["labels"]
        self.label_this(self.lasting if label == lasting else label)
        self._started += self.time() - saved["seconds"]

    # -- the end of a superstep ---------------------------------------------------------------------------------------

    def charge(self, enter: float) -> Charge:
        """The charge for the exchange that ends the superstep; this processor enters it at that time.

        On virtual processors it has the seconds of computing.
        """
        return COUNTS

    def note(self, seconds: float, sent: Counted, got: Counted, leave: float = 0.0) -> None:
        """The superstep has ended: write its row.

        Args:
            seconds: of computing before its exchange.
            sent, got: what this processor counts.
            leave: when the exchange ended; 0: now.
        """
        leave = leave or clock()
        # By position, in the order of the ledger's columns: by keywords it takes 0.04 us more in each superstep.
        words_out, messages_out, items_out, ways = sent
        words_in, messages_in, items_in, _ = got
        log = self.log
        log.note(
            log.label_number,
            log.work,
            seconds,
            self._measured(leave),
            words_out,
            words_in,
            messages_out,
            messages_in,
            items_out,
            items_in,
            ways,
        )
        log.work, log.left = 0.0, leave
        if self.label is not self.lasting:
            self.label_this(self.lasting)

    def _measured(self, leave: float) -> float:
        return leave - self.log.left

    # -- parts --------------------------------------------------------------------------------------------------------

    def alike(self, key: int, make: Callable[[], Result]) -> Result:
        """What all processors make in this superstep, each from the same data, and none of them changes.

        Virtual processors make it once, and the time that it took counts on each.

        Args:
            key: tells it apart from others.
            make: makes it.
        """
        return make()

    def enter_part(self) -> float:
        """A part is in use from now on; returns what `leave_part` wants."""
        return clock() - self.log.left

    def leave_part(self, before: float, spent: float, computed: float) -> None:
        """A part is no longer in use: what was spent there, but for computing, is no computing of this superstep.

        Args:
            before: what `enter_part` returned.
            spent: seconds in it, by its own clock.
            computed: seconds of computing in it.
        """
        self.log.note_away(clock() - self.log.left - before - computed)

    def break_off(self) -> float:
        """A part is left in the superstep that goes on; returns its seconds of computing, which are the whole's now."""
        computed = self.after()
        self.log.forget_away()
        return computed


class VirtualAccount(Account):
    """The account of a virtual processor, whose time is the machine's.

    Args:
        machine: whose rate of computing counts.
        measure: whether what computing takes here counts as well as what is charged by `bsp.work`: without what this
            process waits for a core meanwhile, which would be this processor's alone, and all others would wait for it.
        network: on which time is steps, as text; "": time is seconds.
    """

    __slots__ = ("_before", "_delayed", "_delays", "_machine", "_measure", "_part_seconds", "network")
    virtual = True

    def __init__(
        self, transport: Transport, machine: BSPMachine | EBSPMachine, measure: bool, network: str = ""
    ) -> None:
        self._machine, self._measure, self.network = machine, measure, network
        self._before = 0.0  # virtual time at which the superstep's exchange began
        self._part_seconds = 0.0  # spent in parts, in this superstep
        self._delays = no_delays  # seconds of waiting for a core, until now
        if measure:
            from ..processes.delays import delayed  # nobody else needs it

            self._delays = delayed
        self._delayed = 0.0  # of these, those before what this processor computes now
        super().__init__(transport)

    def of_part(self, transport: Transport) -> VirtualAccount:
        return VirtualAccount(transport, self._machine, self._measure, self.network)

    def as_saved(self, computed: float) -> dict[str, Any]:
        return {**super().as_saved(computed), "part_seconds": self._part_seconds}

    def resume(self, saved: Mapping[str, Any]) -> None:
        self._part_seconds = saved.get("part_seconds", 0.0)  # none on ranks: `computed` has them
        super().resume(saved)

    def time(self) -> float:
        return super().time() + (self._part_seconds + self._running())

    def after(self) -> float:
        return self._part_seconds + self._running() - self.log.away

    def begin_at(self, instant: float) -> None:
        super().begin_at(instant)
        self._delayed = self._delays()

    def computed(self) -> float:
        return self._computed_until(clock())

    def _computed_until(self, instant: float) -> float:
        return max(instant - self.log.left - (self._delays() - self._delayed), 0.0)

    def _running(self) -> float:
        return self.computed() if self._measure else self._charged()

    def _charged(self) -> float:
        return charged(self._machine, self.log.work, self.log.kinds_now)

    def break_off(self) -> float:
        computed = super().break_off()
        self._part_seconds = 0.0
        return computed

    def charge(self, enter: float) -> Charge:
        computed = self._computed_until(enter) if self._measure else self._charged()
        charge = Charge(self._part_seconds + computed, counts=True)
        self._part_seconds = 0.0
        self._before = self._transport.time()
        return charge

    def note(self, seconds: float, sent: Counted, got: Counted, leave: float = 0.0) -> None:
        super().note(seconds, sent, got, leave)
        if self._measure:
            self._delayed = self._delays()
            if not leave:  # else what was done since then counts in the next superstep
                self.log.left = clock()

    def _measured(self, leave: float) -> float:
        return self._transport.time() - self._before

    def alike(self, key: int, make: Callable[[], Result]) -> Result:
        cached = cast("VirtualTransport", self._transport).alike
        if key in cached:
            result, seconds = cached[key]
            self.log.left -= seconds
        else:
            before, begin = self._delays(), clock()
            result = make()
            cached[key] = result, clock() - begin - (self._delays() - before)
        return cast("Result", result)

    def leave_part(self, before: float, spent: float, computed: float) -> None:
        self._part_seconds += spent
        self.log.note_away(spent - computed)
        self.log.left = clock() - before
