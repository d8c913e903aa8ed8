"""The parameters of a BSP machine, and what a superstep costs on it: w + g*h + l, the form of Juurlink and Wijshoff.

*Communication primitives for BSP computers*, section 2; or Valiant's max{w, g*h, l} (*A bridging model for parallel
computation*). Units are SI: seconds, words of 8 bytes, flop/s.
"""

from __future__ import annotations

import dataclasses
import math
import os
import types
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any

from ..errors import UsageError, argument_error, brief, usage_error
from ..ground.decoding import Decoder, decode, each, fields, flag, one_of, optional, rate, table
from ..ground.instead import hinting
from ..ways import (
    BY_GET,
    BY_MAIL,
    BY_NOTE,
    BY_PATTERN,
    BY_PUT,
    BY_QUEUE,
    BY_RECORD,
    SENDING,
    WAYS,
    WORDED,
    long_ones,
    named,
    with_lent,
)
from .cost import Superstep
from .machine_file import (
    ABOVE,
    LEAST,
    PROCESSORS,
    MachinePart,
    check_flag,
    is_finite,
    is_rate,
    measured_while_busy,
    read_parts,
)
from .placement import PLACEMENT, nodes_of, some_of, spread
from .pricing import pricing

FURTHER = "further"  # of `BSPMachine.o_way`, beside the ways: each beside a get, of those that send; notes are none
BESIDE = "beside"  # likewise: notes beside puts, queues and patterns, with which they go in one section
EXCHANGES = frozenset({"get", "agreement", "making"})  # ways with code of their own exchanges; others go in one
LATE = ("empty", "sending")  # of `BSPMachine.late`
COMPUTED, OTHERS_WAITED, EMPTY, SENDS, OF_WAYS = range(5)  # places in a row of `BSPMachine.after`
FIRST = 0.3  # share of it where a way is used for the first time, where no `first` was measured
COLD = 1e-4  # seconds that this is at most: of late on a cluster most is that others sleep
# Of what was computed since a way was last used, the share that drives its code out as computing right before does, as
# other supersteps use much of it too; and the most seconds that it is.
BETWEEN, BETWEEN_MOST = 0.5, 2e-3
BEYOND = 2.0  # shares that what ways add goes on to, at most, after longer computing than was measured
# Seconds from which on a wait on one host ends in another way, and later: the compiled core looks, then it yields, and
# what takes longer ends in Python (transport/waiting.py).
WAITS = 150e-6, 1.2e-3
WAITED = 0.3  # share of computing that who comes early waits, where it is not said
WAITED_LONG = 0.05, 0.5  # in files that do not say it: from so many seconds on, this share
_TABLES = ("o_way", "g_way", "late", "first")  # parameters that are seconds by name
SCALED = ("g", "l", "o_msg", "o_item", "r", *_TABLES)  # what `BSPMachine.scaled` takes

# What a file may have beside g and l, of whole supersteps and of exchanges alone.
_OF_EXCHANGE: Mapping[str, Decoder] = types.MappingProxyType(
    {
        "o_msg": LEAST,
        "o_item": LEAST,
        **dict.fromkeys(_TABLES, table(LEAST)),
        "after": each(each(ABOVE, least=2, most=5)),
        "segments": each(each(LEAST, least=4, most=4)),
        "error_median": optional(LEAST),
        "error_p95": optional(LEAST),
    }
)


def others_waited(longest: float, mean: float, p: int) -> float:
    """Seconds that others wait for the one that computes longest, mean over them, where all compute so on average."""
    return (longest - mean) * p / (p - 1) if p > 1 else 0.0


def overlaps(machine: object) -> bool:
    """Whether exchanges go on beside what comes before them, and add to it only what they take longer."""
    return isinstance(machine, BSPMachine) and machine.cost == "max"


def index_words(indices: int, p: int) -> float:
    """Words of indices of so many bytes, mean over p processors."""
    return indices / 8 / p


def is_kind(text: Any) -> bool:
    """Whether it names a kind of work."""
    return isinstance(text, str) and text != "" and text.isprintable()


def _names(given: Any) -> tuple[str, ...]:
    """Several names, which a text is not; else a TypeError."""
    if isinstance(given, str) or not all(isinstance(name, str) for name in given):
        raise TypeError
    return tuple(given)


def _whole_row(row: Sequence[float]) -> tuple[float, ...]:
    """A row of `after`, of which older files say less."""
    if len(row) not in (2, 4) or not is_finite(row[0]):
        return tuple(row)
    seconds, *shares = row
    waited = (WAITED if seconds < WAITED_LONG[0] else WAITED_LONG[1]) * seconds
    return (seconds, waited, *shares * (3 if len(row) == 2 else 1))


def _of_code(names: Iterable[str], seconds: Mapping[str, float]) -> float:
    """What ways take more where their code is in no cache: those that go in one exchange share it, and the dearest
    counts.
    """
    one, others = 0.0, 0.0
    for name in names:
        if name in EXCHANGES:
            others += seconds.get(name, 0.0)
        else:
            one = max(one, seconds.get(name, 0.0))
    return one + others


def _with_notes(pairs: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Seconds by way; where notes have none, as in files of before pybsp 0.4, they take what collectives do."""
    found = dict(pairs)
    found.setdefault("note", found.get("collective", 0.0))
    return found


@hinting("BSPMachine")
@dataclass(frozen=True)
class BSPMachine(MachinePart):
    """A BSP machine of p processors.

    Args:
        p: processors.
        g: seconds per word of an h-relation, once it is large.
        l: seconds that a superstep takes when nothing is sent and nothing computed.
        r: flop/s of one processor.
        o_msg: seconds per message, beside what its words cost.
        calibrated: whether the figures were measured; the nominal machine's were not.
        cost: how the parts of a superstep's cost go together: "sum" is w + g*h + l, "max" Valiant's max{w, g*h, l}.
        segments: l, o_msg and g by the size of messages, since MPI sends small and large ones in different ways: rows
            (words from which on, l, o_msg, g), ascending, the first from 0 words on. A superstep's row is that of its
            mean message, h/messages; where nothing is sent, or it is not said in how many messages, the figures above
            hold.
        error_median, error_p95: median and 95th percentile of |predicted - measured| / measured, of supersteps that
            nothing was fitted from; None where nobody has looked.
        hosts: where it was measured: the host of each processor; () where that is not known. A file has it under
            "placement".
        o_item: seconds per item of a queue, beside what its words and the messages that it travels in cost. In an
            exchange those of long messages on one host cost nothing: they are read where they lie, as computing.
        o_way: seconds of a superstep's exchange whose data goes in a way of `pybsp.ways.WAYS`, beside what messages and
            words cost; of each other way beside a get ("further"), and of notes beside puts, queues and patterns
            ("beside"; as "note" where it was not measured): pairs of name and seconds, or a mapping. A ledger's
            predictions alone know the ways.
        g_way: seconds of each word that goes in a way, beyond g: pairs, or a mapping. Where words go in several ways it
            is the mean of theirs, as no ledger says how many go in which. That of "making" is of a word of indices.
        late: seconds that an exchange takes more after long computing: pairs, or a mapping; "empty" where no message
            goes, "sending" where one does, and what each way adds, whose code and data are in no cache then. "empty"
            grows with the time that who came early has waited, and is at most what it is after the computing; "sending"
            is the geometric mean of the shares after both, of which that after waiting is at least what it is where
            half of the processors wait 0.3 of the computing. Of ways beside others the dearest counts, and on top of it
            those of gets, and of what all compare, which have exchanges of their own.
        first: seconds that each way adds where a run uses it for the first time, collectives under each label, on top
            of what is late: pairs, or a mapping. As files of before pybsp 0.4 have none it is 0.3 of `late` there, at
            most 100 us.
        after: rows (seconds of computing, seconds that who came early waited, and the shares of "empty" and "sending"
            after either, and of what ways add after the computing), ascending; from the last on they are that row's,
            but that of ways, which goes on as between the last two, to 2 at most.
            Rows of four do not say how long others waited: 0.3 of the computing, 0.5 from 50 ms on. Rows of two have
            one share for all, too.
        exchange: the machine of what a superstep takes beside computing, to which a ledger counts what the program
            does to send and to read: its g, l and o's are smaller. None: the same as of whole supersteps.
        rates: flop/s of work of some kinds (`bsp.work(flops, kind="sort")`), where they are others than r: pairs, or a
            mapping.
        own_p: processors that the figures are of, where a run of others goes by them; 0: p.
        busy: whether others used the machine when it was measured. A file has it under "calibration".

    Raises:
        UsageError: a parameter that is negative, not finite, or an r or p below what can be; another cost; rows that
            are none; an exchange that is no machine of p processors.

    Examples:
        >>> machine = pybsp.BSPMachine(p=8, g=1e-8, l=1e-5, r=1e9)
        >>> f"{machine.time(w=1e6, h=1000):.6f} s"
        '0.001020 s'
        >>> machine.save("machine.json")
        >>> pybsp.BSPMachine.load("machine.json") == machine
        True
    """

    p: int
    g: float
    l: float  # noqa: E741 - the model's own name
    r: float
    o_msg: float = 0.0
    calibrated: bool = True
    cost: str = "sum"
    segments: tuple[tuple[float, float, float, float], ...] = ()
    error_median: float | None = None
    error_p95: float | None = None
    hosts: tuple[str, ...] = dataclasses.field(default=(), compare=False, repr=False)
    o_item: float = 0.0
    o_way: tuple[tuple[str, float], ...] = ()
    g_way: tuple[tuple[str, float], ...] = ()
    late: tuple[tuple[str, float], ...] = ()
    first: tuple[tuple[str, float], ...] = ()
    after: tuple[tuple[float, float, float, float, float], ...] = ()
    exchange: BSPMachine | None = None
    rates: tuple[tuple[str, float], ...] = ()
    own_p: int = dataclasses.field(default=0, compare=False, repr=False)
    busy: bool = dataclasses.field(default=False, compare=False, repr=False)

    _PART, _NESTED, _BESIDE = "bsp", ("exchange",), types.MappingProxyType({"busy": flag})
    _REQUIRED = types.MappingProxyType({"p": PROCESSORS, "g": LEAST, "l": LEAST, "r": rate})
    _OPTIONAL = types.MappingProxyType(
        {
            "calibrated": flag,
            "cost": one_of("sum", "max"),
            **_OF_EXCHANGE,
            "exchange": fields({"g": LEAST, "l": LEAST}, _OF_EXCHANGE),
            "rates": table(rate),
        }
    )

    def __post_init__(self) -> None:
        self._of_python()
        self._check({"g": False, "l": False, "r": True, "o_msg": False, "o_item": False})
        self._check_errors()
        self._check_forms()
        self._check_segments()
        self._check_ways()
        rates = dict(self.rates)
        if not all(is_kind(kind) and is_rate(one) for kind, one in rates.items()):
            raise UsageError(
                f"BSPMachine: rates must be finite flop/s above 0 by kind of work, a text, and their inverses finite, "
                f"got {self.rates!r}"
            )
        object.__setattr__(self, "rates", tuple(rates.items()))
        alone = self.exchange
        if alone is not None and not (isinstance(alone, BSPMachine) and alone.exchange is None and alone.p == self.p):
            raise UsageError(
                f"BSPMachine: exchange must be a BSPMachine of p = {self.p} without an exchange of its own, or None, "
                f"got {alone!r}"
            )
        check_flag("BSPMachine", "calibrated", self.calibrated)
        check_flag("BSPMachine", "busy", self.busy)
        self._check_own_p()
        if not isinstance(self.cost, str) or self.cost not in ("sum", "max"):
            raise UsageError(f'BSPMachine: cost must be "sum" (w + g*h + l) or "max" (Valiant\'s), got {self.cost!r}')

    @classmethod
    def nominal(cls, p: int) -> BSPMachine:
        """Round figures of a machine that nobody has measured: 1 Gflop/s, 1 ns a word, 10 us a superstep.

        Examples:
            >>> pybsp.BSPMachine.nominal(p=4).calibrated
            False
        """
        return cls(p=p, g=1e-9, l=1e-5, r=1e9, calibrated=False)

    def _check_forms(self) -> None:
        """Refuse what is no pairs, rows or names at all."""
        forms: dict[str, tuple[str, Callable[[Any], Any]]] = {
            "rates": ("pairs (kind of work, flop/s), or a dict of them", dict),
            **dict.fromkeys(_TABLES, ("pairs (name, seconds), or a dict of them", dict)),
            "after": (
                "rows (seconds of computing, of waiting, shares of `late`)",
                lambda rows: [tuple(row) for row in rows],
            ),
            "hosts": ("names, one of each processor's", _names),
        }
        try:
            for name, (_, form) in forms.items():
                form(getattr(self, name))
        except (TypeError, ValueError):
            value = getattr(self, name)
            raise UsageError(f"BSPMachine: {name} must be {forms[name][0]}, got {brief(value, 80)}") from None

    def _check_segments(self) -> None:
        rows = self.segments
        good = isinstance(rows, (tuple, list)) and all(
            isinstance(row, (tuple, list)) and len(row) == 4 and all(is_finite(x) and x >= 0 for x in row)
            for row in rows
        )
        starts = [row[0] for row in rows] if good else []
        if not good or (starts and starts[0] != 0) or any(a >= b for a, b in pairwise(starts)):
            raise UsageError(
                "BSPMachine: segments must be rows (words from which on, l, o_msg, g) of finite numbers of at least 0, "
                f"ascending, the first from 0 words on, got {rows!r}"
            )
        object.__setattr__(self, "segments", tuple(tuple(row) for row in rows))  # JSON has lists

    def _check_ways(self) -> None:
        """Refuse what no way, or no time after computing, can cost; as pairs it can be hashed."""
        for name, known in (
            ("o_way", (*WAYS, FURTHER, BESIDE)),
            ("g_way", WORDED),
            ("late", (*LATE, *WAYS)),
            ("first", WAYS),
        ):
            given = dict(getattr(self, name))
            if not given.keys() <= set(known) or not all(is_finite(x) and x >= 0 for x in given.values()):
                raise UsageError(
                    f"BSPMachine: {name} must be finite seconds of at least 0 by name, of {', '.join(known)}, got "
                    f"{getattr(self, name)!r}"
                )
            object.__setattr__(self, name, tuple(given.items()))
        rows = tuple(map(_whole_row, self.after))
        ends = (math.inf, math.inf, 1.0, 1.0, 1.0)
        if not all(len(row) == 5 and all(is_finite(x) and x > 0 for x in row) for row in rows) or any(
            a >= b or waited >= longer or any(low > high for low, high in zip(less, more, strict=True))
            for (a, waited, *less), (b, longer, *more) in pairwise((*rows, ends))
        ):
            raise UsageError(
                "BSPMachine: after must be rows (seconds of computing, of waiting, shares of empty, of sending, and of "
                f"what ways add) of numbers above 0, ascending, no share above 1, got {self.after!r}"
            )
        object.__setattr__(self, "after", rows)
        object.__setattr__(self, "_of_ways", {})

    def _more(self, ways: int) -> tuple[float, float, float, float]:
        """What an exchange takes beyond messages and words: seconds, and of each word; what computing and waiting add,
        at most, and what computing adds to ways, at most.

        They depend on nothing else, and ledgers ask for few ways many times.
        """
        found: dict[int, tuple[float, float, float, float]] = self._of_ways  # type: ignore[attr-defined]
        if ways not in found:
            sending = (ways & SENDING).bit_count()
            roads = (ways & SENDING & ~BY_NOTE).bit_count()  # notes go the way of what they are beside
            further = roads - 1 if ways & BY_GET else 0
            soon, late = _with_notes(self.o_way), _with_notes(self.late)
            names, of_words = named(ways), dict(self.g_way)
            if ways & (BY_PUT | BY_QUEUE | BY_PATTERN):
                soon["note"] = soon.get(BESIDE, soon["note"])
            found[ways] = (
                sum(soon.get(name, 0.0) for name in names) + further * soon.get(FURTHER, 0.0),
                sum(of_words.get(name, 0.0) for name in named(ways & SENDING)) / max(roads, 1),
                late.get(LATE[sending > 0], 0.0),
                _of_code(names, late),
            )
        return found[ways]

    def _at_first(self, ways: int, fresh: int, cold: float, driven: float) -> float:
        """What ways add of which some are used for the first time.

        Args:
            cold, driven: shares of `late`, of these, and of the others.
        """
        late = _with_notes(self.late)
        first = dict(self.first) or {name: min(FIRST * seconds, COLD) for name, seconds in late.items()}
        each = {name: late.get(name, 0.0) * driven for name in named(ways)}
        each.update((name, late.get(name, 0.0) * cold + first.get(name, 0.0)) for name in named(fresh))
        return _of_code(each, each)

    def _share(self, share: int, seconds: float, by: int) -> float:
        """A share of `late` after so many seconds: a power of these between two rows.

        Args:
            share, by: places in a row of `after`: of the share, and of the seconds by which it goes.
        """
        rows = self.after
        if not rows or seconds <= 0:
            return 0.0
        if seconds >= rows[-1][by] and (share != OF_WAYS or len(rows) == 1):
            return rows[-1][share]
        if len(rows) == 1:
            return rows[0][share] * seconds / rows[0][by]
        row = min(max(1, bisect_right(rows, seconds, key=itemgetter(by))), len(rows) - 1)
        below, above = rows[row - 1 : row + 1]
        power = math.log(seconds / below[by]) / math.log(above[by] / below[by])
        return min(float(below[share] * (above[share] / below[share]) ** power), BEYOND)

    def _measured(self, waited: float) -> float:
        """The nearest seconds within the rows of `after` that end as a wait on one host of so many seconds does."""
        kind, rows = bisect_right(WAITS, waited), [row[OTHERS_WAITED] for row in self.after]
        like = [seconds for seconds in rows if bisect_right(WAITS, seconds) == kind]
        if not like:
            return waited
        return min(waited if like[0] == rows[0] else max(waited, like[0]), like[-1])

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> BSPMachine:
        """Read the BSP part of a machine file, and where it was measured.

        Raises:
            UsageError: not a machine file, a version that this pybsp does not know, no such part, or wrong values.

        Examples:
            >>> pybsp.BSPMachine.nominal(p=4).save("machine.json")
            >>> pybsp.BSPMachine.load("machine.json").g
            1e-09
        """
        part = cls._part(path)
        content = read_parts(Path(path))
        placement = {"placement": content.get("placement", {})}
        hosts: list[str] = decode(placement, f"machine file {path}", PLACEMENT)["placement"].get("hosts", [])
        if hosts and len(hosts) != part["p"]:
            got = f"p = {part['p']} and {len(hosts)} hosts"
            raise usage_error(f"machine file {path}: bsp.p and placement.hosts", "a host for each processor", got)
        if "exchange" in part:
            part["exchange"] = cls._of(path, {"p": part["p"], "r": part["r"], **part["exchange"]}, ".exchange")
        return cls._of(path, {**part, "hosts": tuple(hosts), "busy": measured_while_busy(content)})

    def as_part(self) -> dict[str, Any]:
        """What a machine file holds of it."""
        part = super().as_part()
        part.update({name: dict(part[name]) for name in (*_TABLES, "rates") if name in part})
        if self.exchange is not None:
            part["exchange"] = {
                name: value for name, value in self.exchange.as_part().items() if name in ("g", "l", *_OF_EXCHANGE)
            }
        return part

    def with_latency(self, latency: float) -> BSPMachine:
        """The same machine where a superstep of nothing takes so many seconds: all others take as much more or less.

        A word does too, in proportion: between cores that are farther apart it travels as much longer as what says that
        it has come.

        Examples:
            >>> later = pybsp.BSPMachine(p=8, g=1e-8, l=1e-5, r=1e9).with_latency(2e-5)
            >>> later.l, later.g
            (2e-05, 2e-08)
        """
        more, longer = latency - self.l, latency / self.l if self.l else 1.0
        rows = tuple((words, max(0.0, least + more), o_msg, g * longer) for words, least, o_msg, g in self.segments)
        of_words = tuple((way, g if way == "making" else g * longer) for way, g in self.g_way)
        return dataclasses.replace(self, l=latency, g=self.g * longer, segments=rows, g_way=of_words)

    def scaled(self, **factors: float) -> BSPMachine:
        """The same machine with parameters so many times as large: what if there were another network, other cores?

        Each is scaled by itself, in the machine of exchanges too. "r" takes the rates of all kinds of work along.

        Args:
            factors: of g, l, o_msg, o_item, r, and of the tables o_way, g_way, late, first.

        Raises:
            UsageError: another name; a factor that is no finite number above 0, or makes a parameter that is none.

        Examples:
            >>> machine = pybsp.BSPMachine(p=8, g=1e-8, l=1e-5, r=1e9, rates={"sort": 2e8})
            >>> other = machine.scaled(g=0.5, r=2)
            >>> other.g, other.l, other.r, other.rates
            (5e-09, 1e-05, 2000000000.0, (('sort', 400000000.0),))
        """
        for name, factor in factors.items():
            if name not in SCALED:
                raise argument_error("BSPMachine.scaled", name, f"factors of {', '.join(SCALED)}", brief(factor))
            if not (is_finite(factor) and factor > 0):
                raise argument_error("BSPMachine.scaled", name, "a finite factor above 0", brief(factor))
        times = {name: float(factors.get(name, 1.0)) for name in SCALED}
        rows = tuple(
            (words, latency * times["l"], o_msg * times["o_msg"], g * times["g"])
            for words, latency, o_msg, g in self.segments
        )
        figures: dict[str, Any] = {name: getattr(self, name) * times[name] for name in SCALED if name not in _TABLES}
        for name in _TABLES:
            figures[name] = tuple((way, seconds * times[name]) for way, seconds in getattr(self, name))
        exchange = None if self.exchange is None else self.exchange.scaled(**factors)
        rates = tuple((kind, rate * times["r"]) for kind, rate in self.rates)
        return dataclasses.replace(self, segments=rows, exchange=exchange, rates=rates, **figures)

    @pricing
    def exchanging(
        self,
        h: float,
        messages: float = 0,
        M: float = 0,
        items: float = 0,
        ways: int = 0,
        computing: float = 0.0,
        since: float = 0.0,
        fresh: int = 0,
        waiting: float | None = None,
        indices: float = 0.0,
    ) -> float:
        """Seconds of a superstep's exchange: without computing, nor what the program does to send and to read.

        Examples:
            >>> machine = pybsp.BSPMachine(p=8, g=1e-8, l=1e-5, r=1e9, o_msg=1e-6)
            >>> f"{machine.exchanging(h=1000, messages=7):.3g}"
            '2.7e-05'

        Args:
            h, messages, M, items: as of a `Superstep`.
            ways: in which its data goes (`pybsp.ways`).
            computing: seconds of it before the exchange, of the processor that computes longest.
            since: seconds of computing since its ways were last used (`pybsp.ways.Used`): half of it counts as
                computing before the exchange, up to 2 ms, in what ways add.
            fresh: those of its ways that a run uses for the first time; collectives under this label.
            waiting: seconds that others had waited when the last one came, mean of these; None: 0.3 of the computing.
                Where messages go it counts as no less than if half of the processors had waited so long.
            indices: words of those of patterns that are made, which a processor sends, on average.
        """
        machine = self.exchange or self
        all_ways = with_lent(ways, h, messages)
        soon, of_words, late, of_ways = machine._more(all_ways)
        soon += of_words * h
        if indices:
            soon += dict(machine.g_way).get("making", 0.0) * indices
        if late or of_ways or machine.first:
            waited = WAITED * computing if waiting is None else waiting
            if ways & SENDING:
                # Who comes last finds its code as cold where nobody has waited for it as where half have, as in the
                # calibration.
                spared = WAITED * computing
                waited = max(waited, others_waited(spared, spared / 2, self.p))
                computed = machine._share(SENDS, computing, COMPUTED)
                # Waiting that is longer than half of the processors have before so much computing adds nothing more.
                late_by = min(computed, machine._share(SENDS, waited, OTHERS_WAITED))
                soon += late * math.sqrt(computed * late_by)
            else:  # what little code there is then is as quick after computing
                waited = waited if self._has_many_hosts() else machine._measured(waited)
                soon += late * machine._share(EMPTY, waited, OTHERS_WAITED)
            driven = machine._share(OF_WAYS, max(computing, min(BETWEEN * since, BETWEEN_MOST)), COMPUTED)
            if fresh:
                soon += machine._at_first(all_ways, fresh, machine._share(OF_WAYS, computing, COMPUTED), driven)
            else:
                soon += of_ways * driven
        items = self.items_charged(h, messages, items, ways)
        if ways & BY_RECORD and not ways & SENDING:
            # On a host no message goes, and to read records is computing. Between hosts they come with what goes to
            # all in every exchange.
            return soon + (machine.elapsed(0.0, h) if self._has_many_hosts() else machine.l)
        return machine.elapsed(0.0, h, messages, M, items) + soon

    def items_charged(self, h: float, messages: float, items: float, ways: int) -> float:
        """The items that cost something in an exchange: none of long messages on one host, which are read where they
        lie. Beside mail nothing says whose words these are.
        """
        read_there = items and long_ones(h, messages) and not ways & BY_MAIL and not self._has_many_hosts()
        return 0 if read_there else items

    def _has_many_hosts(self) -> bool:
        return len({*self.hosts}) > 1

    @pricing
    def time(self, w: float, h: float, messages: float = 0, items: float = 0) -> float:
        """Seconds of a superstep: w/r + g*h + l + o_msg*messages + o_item*items, with its segment's g, l and o_msg.

        Args:
            w: flop of the busiest processor.
            h: words that the busiest processor sends or receives.
            messages: messages that the busiest processor sends or receives.
            items: items of queues, likewise.

        Examples:
            >>> machine = pybsp.BSPMachine(p=8, g=1e-8, l=1e-5, r=1e9, o_msg=1e-6)
            >>> f"{machine.time(w=0, h=1000, messages=7):.3g}"
            '2.7e-05'
        """
        return self.elapsed(w / self.r, h, messages, items=items)

    @pricing
    def elapsed(self, computing: float, h: float, messages: float = 0, M: float = 0, items: float = 0) -> float:
        """Seconds of a superstep in which the busiest processor computes for so many seconds; M does not count.

        Examples:
            >>> machine = pybsp.BSPMachine(p=8, g=1e-8, l=1e-5, r=1e9, cost="max")
            >>> f"{machine.elapsed(computing=1e-3, h=1000):.3g}"
            '0.001'
        """
        latency, o_msg, g = self.l, self.o_msg, self.g
        if self.segments and h and messages:
            row = bisect_right(self.segments, h / messages, key=itemgetter(0)) - 1
            _, latency, o_msg, g = self.segments[row]
        communicating = g * h + o_msg * messages + self.o_item * items
        if self.cost == "max":
            return max(computing, communicating, latency)
        return computing + communicating + latency

    @pricing
    def predict(self, step: Superstep) -> float:
        """Seconds of a superstep.

        Examples:
            >>> machine = pybsp.BSPMachine(p=8, g=1e-8, l=1e-5, r=1e9)
            >>> f"{machine.predict(pybsp.Superstep(h_out=100, h_in=400, messages=1, M=800)):.3g}"
            '1.4e-05'
        """
        return self.elapsed(step.w / self.r, step.h, step.messages, step.M, step.items)

    def as_json(self) -> dict[str, Any]:
        """The parameters, as a ledger file has them."""
        return {
            **{name: getattr(self, name) for name in ("g", "l", "r", "o_msg", "o_item")},
            **{name: dict(getattr(self, name)) for name in _TABLES},
            "after": [list(row) for row in self.after],
            "calibrated": self.calibrated,
            "cost": self.cost,
            "segments": [list(row) for row in self.segments],
            "error_median": self.error_median,
            "error_p95": self.error_p95,
            "exchange": None if self.exchange is None else self.exchange.as_json(),
            **({"rates": dict(self.rates)} if self.rates else {}),
            **({"p": self.own_p} if self.own_p else {}),
            **({"busy": True} if self.busy else {}),
        }

    def elsewhere(self, hosts: Sequence[str]) -> str | None:
        """Where a run on these hosts (of each processor) has another placement than was measured: what is different.

        That is another division of the processors among hosts, or no host in common.

        Examples:
            >>> machine = pybsp.BSPMachine(p=2, g=1e-8, l=1e-5, r=1e9, hosts=("n1", "n2"))
            >>> print(machine.elsewhere(["n1", "n2"]))
            None
            >>> machine.elsewhere(["n1", "n1"]).split(",")[0]
            'the machine file was measured with the processors on 2 hosts (0'
        """
        if not self.hosts or len(hosts) != self.p:
            return None
        if nodes_of(hosts) != nodes_of(self.hosts):
            return (
                f"the machine file was measured with the processors on {spread(self.hosts)}, this run has them on "
                f"{spread(hosts)}: its predictions are for another placement; calibrate with this one"
            )
        if not set(hosts) & set(self.hosts):
            return (
                f"the machine file was measured on {some_of(self.hosts)}, this run is on {some_of(hosts)}: if these "
                "differ, so will its predictions"
            )
        return None
