"""The parameters of a machine, and what a superstep costs on it.

Units are SI: seconds, words of 8 bytes, flop/s.

    BSPMachine      w + g*h + l, the form of Juurlink and Wijshoff (*Communication primitives for BSP computers*,
                    section 2); or Valiant's max{w, g*h, l} (*A bridging model for parallel computation*)
    EBSPMachine     g1*M/p + g2*h + s, or what a linear array or a mesh takes for an (M, k1, k2)-relation with locality
                    L (Juurlink and Wijshoff, *The E-BSP model*, sections 3 and 6)
    LogPMachine     latency L, overhead o, gap G, in steps of so many seconds (Bilardi, Herley, Pietracaprina, Pucci and
                    Spirakis, *BSP vs LogP*, section 2.2); G_word for long messages (LogGP)
"""

from __future__ import annotations

import dataclasses
import math
import os
import sys
import types
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ..errors import UsageError
from ..ground import settings
from ..ground.decoding import (
    LARGEST,
    Decoder,
    decode,
    each,
    fields,
    flag,
    number,
    one_of,
    optional,
    rate,
    table,
    text,
    whole,
)
from ..processes.process import MOST_PROCESSORS
from ..ways import BY_GET, BY_MAIL, BY_NOTE, BY_RECORD, SENDING, WAYS, WORDED, long_ones, named, with_lent
from .cost import Superstep
from .machine_file import MachinePart, is_finite, is_rate, read_parts

PROCESSORS = whole(1, MOST_PROCESSORS)  # in a file
LEAST, ABOVE = number(), number(above=True)
FURTHER = "further"  # of `BSPMachine.o_way`, beside the ways: each beside a get, of those that send; notes are none
EXCHANGES = frozenset({"get", "agreement", "making"})  # ways with code of their own exchanges; others go in one
LATE = ("empty", "sending")  # of `BSPMachine.late`
COMPUTED, OTHERS_WAITED, EMPTY, SENDS, OF_WAYS = range(5)  # places in a row of `BSPMachine.after`
FIRST = 0.3  # share of it in a superstep that uses a way first under its label, where no `first` was measured
COLD = 1e-4  # seconds that this is at most: of late on a cluster most is that others sleep
WAITED = 0.3  # share of computing that who comes early waits, where it is not said
WAITED_LONG = 0.05, 0.5  # in files that do not say it: from so many seconds on, this share
NO_KINDS: Mapping[str, float] = types.MappingProxyType({})
AnyMachine = TypeVar("AnyMachine", "BSPMachine", "EBSPMachine")
Sized = TypeVar("Sized", bound="BSPMachine | EBSPMachine")


def charged(machine: BSPMachine | EBSPMachine, work: float, kinds: Mapping[str, float] = NO_KINDS) -> float:
    """Seconds that so much charged work takes, so many flop of it of some kinds; those without a rate go by r."""
    rates = dict(machine.rates) if kinds and isinstance(machine, BSPMachine) else {}
    rest = max(work - sum(kinds.values()), 0.0)
    return rest / machine.r + sum(flops / rates.get(kind, machine.r) for kind, flops in kinds.items())


# What a file may have beside g and l, of whole supersteps and of exchanges alone.
_OF_EXCHANGE: Mapping[str, Decoder] = types.MappingProxyType(
    {
        "o_msg": LEAST,
        "o_item": LEAST,
        "o_way": table(LEAST),
        "g_way": table(LEAST),
        "late": table(LEAST),
        "first": table(LEAST),
        "after": each(each(ABOVE, least=2, most=5)),
        "segments": each(each(LEAST, least=4, most=4)),
        "error_median": optional(LEAST),
        "error_p95": optional(LEAST),
    }
)


def others_waited(longest: float, mean: float, p: int) -> float:
    """Seconds that others wait for the one that computes longest, mean over them, where all compute so on average."""
    return (longest - mean) * p / (p - 1) if p > 1 else 0.0


def _names(given: Any) -> tuple[str, ...]:
    """Several names.

    Raises:
        TypeError: they are none; a text is not several.
    """
    if isinstance(given, str) or not all(isinstance(name, str) for name in given):
        raise TypeError
    return tuple(given)


def _check_calibrated(name: str, calibrated: Any) -> None:
    """Refuse what is not true or false, which no machine file would hold."""
    if not isinstance(calibrated, bool):
        raise UsageError(f"{name}: calibrated must be True or False, got {calibrated!r:.60}")


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
            words cost, and of each other way beside a get ("further"): pairs of name and seconds, or a mapping. A
            ledger's predictions alone know the ways.
        g_way: seconds of each word that goes in a way, beyond g: pairs, or a mapping. Where words go in several ways it
            is the mean of theirs, as no ledger says how many go in which. That of "making" is of a word of indices.
        late: seconds that an exchange takes more after long computing: pairs, or a mapping; "empty" where no message
            goes, "sending" where one does, and what each way adds, whose code and data are in no cache then. The first
            two grow with the computing and with the time that who came early has waited, as the geometric mean of the
            shares after both; that after waiting is at most the other, and of "sending" at least what it is where half
            of the processors wait 0.3 of the computing. Of ways beside others the dearest counts, and on top of it
            those of gets, and of what all compare, which have exchanges of their own.
        first: seconds that each way adds, at least, where a label uses one of the superstep's ways for the first time,
            those beside others as in `late`: pairs, or a mapping. As files of before pybsp 0.4 have none it is 0.3 of
            `late` there, of all ways at most 100 us.
        after: rows (seconds of computing, seconds that who came early waited, and the shares of "empty" and "sending"
            after either, and of what ways add after the computing), ascending; from the last on they are that row's.
            Rows of four do not say how long others waited: 0.3 of the computing, 0.5 from 50 ms on. Rows of two have
            one share for all, too.
        exchange: the machine of what a superstep takes beside computing, to which a ledger counts what the program
            does to send and to read: its g, l and o's are smaller. None: the same as of whole supersteps.
        rates: flop/s of work of some kinds (`bsp.work(flops, kind="sort")`), where they are others than r: pairs, or a
            mapping.

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

    _PART = "bsp"
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
        _check_calibrated("BSPMachine", self.calibrated)
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
            **dict.fromkeys(("o_way", "g_way", "late", "first"), ("pairs (name, seconds), or a dict of them", dict)),
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
            raise UsageError(f"BSPMachine: {name} must be {forms[name][0]}, got {value!r:.80}") from None

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
        for name, known in (("o_way", (*WAYS, FURTHER)), ("g_way", WORDED), ("late", (*LATE, *WAYS)), ("first", WAYS)):
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

    def _more(self, ways: int) -> tuple[float, float, float, float, float]:
        """What an exchange takes beyond messages and words: seconds, and of each word; what computing and waiting add,
        at most, what computing adds to ways, at most, and what these add at first.

        They depend on nothing else, and ledgers ask for few ways many times.
        """
        found: dict[int, tuple[float, float, float, float, float]] = self._of_ways  # type: ignore[attr-defined]
        if ways not in found:
            sending = (ways & SENDING).bit_count()
            roads = (ways & SENDING & ~BY_NOTE).bit_count()  # notes go the way of what they are beside
            further = roads - 1 if ways & BY_GET else 0
            soon, late = _with_notes(self.o_way), _with_notes(self.late)
            names, first, of_words = named(ways), dict(self.first), dict(self.g_way)
            of_ways = _of_code(names, late)
            found[ways] = (
                sum(soon.get(name, 0.0) for name in names) + further * soon.get(FURTHER, 0.0),
                sum(of_words.get(name, 0.0) for name in named(ways & SENDING)) / max(roads, 1),
                late.get(LATE[sending > 0], 0.0),
                of_ways,
                _of_code(names, first) if first else min(FIRST * of_ways, COLD),
            )
        return found[ways]

    def _share(self, share: int, seconds: float, by: int) -> float:
        """A share of `late` after so many seconds: a power of these between two rows.

        Args:
            share, by: places in a row of `after`: of the share, and of the seconds by which it goes.
        """
        rows = self.after
        if not rows or seconds <= 0:
            return 0.0
        if seconds >= rows[-1][by]:
            return rows[-1][share]
        if len(rows) == 1:
            return rows[0][share] * seconds / rows[0][by]
        row = max(1, bisect_right(rows, seconds, key=itemgetter(by)))
        below, above = rows[row - 1 : row + 1]
        power = math.log(seconds / below[by]) / math.log(above[by] / below[by])
        return float(below[share] * (above[share] / below[share]) ** power)

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
        content = {"placement": read_parts(Path(path)).get("placement", {})}
        hosts: list[str] = decode(content, f"machine file {path}", _PLACEMENT)["placement"].get("hosts", [])
        if hosts and len(hosts) != part["p"]:
            raise UsageError(
                f"machine file {path}: placement.hosts: expected a host for each of p = {part['p']} processors, "
                f"got {len(hosts)}"
            )
        if "exchange" in part:
            part["exchange"] = cls._of(path, {"p": part["p"], "r": part["r"], **part["exchange"]})
        return cls._of(path, {**part, "hosts": tuple(hosts)})

    def as_part(self) -> dict[str, Any]:
        """What a machine file holds of it."""
        part = super().as_part()
        part.update({name: dict(part[name]) for name in ("o_way", "g_way", "late", "first", "rates") if name in part})
        if self.exchange is not None:
            part["exchange"] = {
                name: value for name, value in self.exchange.as_part().items() if name in ("g", "l", *_OF_EXCHANGE)
            }
        return part

    def exchanging(
        self,
        h: float,
        messages: float = 0,
        M: float = 0,
        items: float = 0,
        ways: int = 0,
        computing: float = 0.0,
        first: bool = False,
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
            first: whether one of the ways has not been used before under the superstep's label.
            waiting: seconds that others had waited when the last one came, mean of these; None: 0.3 of the computing.
                Where messages go it counts as no less than if half of the processors had waited so long.
            indices: words of those of patterns that are made, which a processor sends, on average.
        """
        machine = self.exchange or self
        soon, of_words, late, of_ways, at_first = machine._more(with_lent(ways, h, messages))
        soon += of_words * h
        if indices:
            soon += dict(machine.g_way).get("making", 0.0) * indices
        if late or of_ways or at_first:
            waited = WAITED * computing if waiting is None else waiting
            if ways & SENDING:
                # Who comes last finds its code as cold where nobody has waited for it as where half have, as in the
                # calibration.
                spared = WAITED * computing
                waited = max(waited, others_waited(spared, spared / 2, self.p))
            cold = of_ways * machine._share(OF_WAYS, computing, COMPUTED)
            which = SENDS if ways & SENDING else EMPTY
            computed = machine._share(which, computing, COMPUTED)
            # Waiting that is longer than half of the processors have before so much computing adds nothing more.
            soon += late * math.sqrt(computed * min(computed, machine._share(which, waited, OTHERS_WAITED)))
            soon += max(cold, at_first if first else 0.0)
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

    def elapsed(self, computing: float, h: float, messages: float = 0, M: float = 0, items: float = 0) -> float:
        """Seconds of a superstep in which the busiest processor computes for so many seconds; M does not count.

        Examples:
            >>> machine = pybsp.BSPMachine(p=8, g=1e-8, l=1e-5, r=1e9, cost="max")
            >>> f"{machine.elapsed(computing=1e-3, h=1000):.3g}"
            '0.001'
        """
        latency, o_msg, g = self.l, self.o_msg, self.g
        if self.segments and h and messages:
            row = bisect_right(self.segments, h / messages, key=_first) - 1
            _, latency, o_msg, g = self.segments[row]
        communicating = g * h + o_msg * messages + self.o_item * items
        if self.cost == "max":
            return max(computing, communicating, latency)
        return computing + communicating + latency

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
            "g": self.g,
            "l": self.l,
            "r": self.r,
            "o_msg": self.o_msg,
            "o_item": self.o_item,
            "o_way": dict(self.o_way),
            "g_way": dict(self.g_way),
            "late": dict(self.late),
            "first": dict(self.first),
            "after": [list(row) for row in self.after],
            "calibrated": self.calibrated,
            "cost": self.cost,
            "segments": [list(row) for row in self.segments],
            "error_median": self.error_median,
            "error_p95": self.error_p95,
            "exchange": None if self.exchange is None else self.exchange.as_json(),
            **({"rates": dict(self.rates)} if self.rates else {}),
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
        if _nodes(hosts) != _nodes(self.hosts):
            return (
                f"the machine file was measured with the processors on {_spread(self.hosts)}, this run has them on "
                f"{_spread(hosts)}: its predictions are for another placement; calibrate with this one"
            )
        if not set(hosts) & set(self.hosts):
            return (
                f"the machine file was measured on {_some(self.hosts)}, this run is on {_some(hosts)}: if these "
                "differ, so will its predictions"
            )
        return None


@dataclass(frozen=True)
class EBSPMachine(MachinePart):
    """An E-BSP machine of p processors: it charges unbalanced communication, and distance, for what they are.

    A superstep is an (M, k1, k2)-relation: M words in all, at most k1 from a processor, at most k2 to one. Its locality
    L is the largest difference of the numbers of a source and a destination.

    Args:
        p: processors.
        g1: seconds per word of M/p.
        g2: seconds per word of h, the larger of k1 and k2.
        s: seconds that a superstep takes when nothing is sent.
        r: flop/s of one processor.
        network: "" for g1*M/p + g2*h + s; "linear array" or "mesh" for the costs of `linear_array` and `mesh`, where
            g1 is the seconds of a packet step, and which have no o_msg or o_item.
        o_msg: seconds per message, beside what its words cost.
        error_median, error_p95: as of a `BSPMachine`.
        o_item: seconds per item of a queue, beside what its words and the messages that it travels in cost.

    Raises:
        UsageError: a parameter that is negative, not finite, or an r or p below what can be; another network.

    Examples:
        >>> machine = pybsp.EBSPMachine(p=64, g1=1e-8, g2=2e-9, s=1e-5)
        >>> f"{machine.time(M=6400, k1=100, k2=100):.3g} s, {machine.time(M=100, k1=100, k2=100):.3g} s"
        '1.12e-05 s, 1.02e-05 s'
    """

    p: int
    g1: float
    g2: float
    s: float
    r: float = 1e9
    network: str = ""
    o_msg: float = 0.0
    error_median: float | None = None
    error_p95: float | None = None
    o_item: float = 0.0

    _PART = "ebsp"
    _REQUIRED = types.MappingProxyType({"p": PROCESSORS, "g1": LEAST, "g2": LEAST, "s": LEAST})
    _OPTIONAL = types.MappingProxyType(
        {
            "r": rate,
            "network": one_of("", "linear array", "mesh"),
            "o_msg": LEAST,
            "o_item": LEAST,
            "error_median": optional(LEAST),
            "error_p95": optional(LEAST),
        }
    )

    def __post_init__(self) -> None:
        self._of_python()
        self._check({"g1": False, "g2": False, "s": False, "r": True, "o_msg": False, "o_item": False})
        self._check_errors()
        if not isinstance(self.network, str) or self.network not in ("", "linear array", "mesh"):
            raise UsageError(f'EBSPMachine: network must be "", "linear array" or "mesh", got {self.network!r}')

    @classmethod
    def linear_array(cls, p: int) -> EBSPMachine:
        """A linear array, in packet steps: min{min(k1, k2)*L, M} + p - 2 (*The E-BSP model*, Theorem 3).

        Routing takes no more, in whatever order queues send (docs/studies/ebsp-networks.md).

        Examples:
            >>> pybsp.EBSPMachine.linear_array(64).time(M=64, k1=1, k2=1, locality=1)
            63.0
        """
        return cls(p=p, g1=1.0, g2=0.0, s=0.0, r=1.0, network="linear array")

    @classmethod
    def mesh(cls, p: int) -> EBSPMachine:
        """A mesh, in packet steps with constants 1: min{sqrt(k1*k2*p), h*sqrt(L) + sqrt(p)} (Theorem 5).

        `pybsp.routing.networks.Mesh`, which spreads packets, took about twice that at most for the relations that were
        tried, and a lone packet can take as long (docs/studies/ebsp-networks.md). A factor that all supersteps have
        makes no choice another. A superstep in which nothing is sent takes sqrt(p), the least that any other does: to
        sync crosses the mesh, and the theorem's first term, which would be 0, is of relations with packets.

        Examples:
            >>> machine = pybsp.EBSPMachine.mesh(64)
            >>> machine.time(M=64, k1=4, k2=1), machine.time(M=0, k1=0, k2=0)
            (16.0, 8.0)
        """
        return cls(p=p, g1=1.0, g2=0.0, s=0.0, r=1.0, network="mesh")

    def time(
        self,
        M: float,
        k1: float,
        k2: float,
        locality: float | None = None,
        w: float = 0.0,
        messages: float = 0,
        items: float = 0,
    ) -> float:
        """Seconds of a superstep.

        Args:
            M: words that all processors send.
            k1, k2: words that one processor sends, and receives, at most.
            locality: of the relation; None: p - 1.
            w: flop of the busiest processor.
            messages: messages that the busiest processor sends or receives.
            items: items of queues, likewise.

        Examples:
            >>> machine = pybsp.EBSPMachine.linear_array(64)
            >>> machine.time(M=64, k1=1, k2=1, locality=1), machine.time(M=64, k1=1, k2=1)
            (63.0, 125.0)
        """
        far = self.p - 1 if locality is None else locality
        h = max(k1, k2)
        if self.network == "linear array":
            return w / self.r + self.g1 * (min(min(k1, k2) * far, M) + max(self.p - 2, 0))
        if self.network == "mesh":
            side = math.sqrt(self.p)
            return w / self.r + self.g1 * min(math.sqrt(max(k1 * k2, 1)) * side, h * math.sqrt(far) + side)
        return self.elapsed(w / self.r, h, messages, M, items)

    def elapsed(self, computing: float, h: float, messages: float = 0, M: float = 0, items: float = 0) -> float:
        """Seconds of a superstep in which the busiest processor computes for so many seconds; without a network.

        Examples:
            >>> machine = pybsp.EBSPMachine(p=4, g1=1.0, g2=1.0, s=10.0)
            >>> machine.elapsed(computing=0.0, h=100, M=200)
            160.0
        """
        words = self.g1 * M / self.p + self.g2 * h
        return computing + words + self.o_msg * messages + self.o_item * items + self.s

    def predict(self, step: Superstep) -> float:
        """Seconds of a superstep.

        Examples:
            >>> machine = pybsp.EBSPMachine(p=4, g1=1.0, g2=1.0, s=10.0)
            >>> machine.predict(pybsp.Superstep(h_out=100, h_in=50, messages=1, M=200))
            160.0
        """
        return self.time(step.M, step.h_out, step.h_in, step.locality, step.w, step.messages, step.items)

    def as_json(self) -> dict[str, Any]:
        """The parameters, as a ledger file has them."""
        return {
            "g1": self.g1,
            "g2": self.g2,
            "s": self.s,
            "r": self.r,
            "o_msg": self.o_msg,
            "o_item": self.o_item,
            "calibrated": True,
            "error_median": self.error_median,
            "error_p95": self.error_p95,
        }


_LEAST_STEP = 1e-290  # seconds of a LogP machine's step, so that times are finite numbers of steps


@dataclass(frozen=True)
class LogPMachine(MachinePart):
    """A LogP machine of p processors.

    Args:
        p: processors.
        L: latency: steps, at most, from a message's acceptance by the medium to its delivery.
        o: overhead: steps that a processor is busy to prepare a message, and to acquire one.
        G: gap: steps, at least, between two submissions of a processor, and between two acquisitions.
        step: seconds of a step.
        G_word: seconds for each further word of a long message (LogGP's G, here as in *LogGP*, Alexandrov et al.); None
            where it is not known: then sizes do not count. `pybsp.logp.simulate` and `check` count them; bounds and
            routers are the model's of short messages.
        calibrated: whether the figures were measured; the nominal machine's were not.
        intervals: of L, o, G and G_word where they were measured: (lowest, highest), in seconds.

    Raises:
        UsageError: a parameter that is negative, or no whole number of steps, or more than 2^53; a step below 1e-290,
            or in which one is no finite number of seconds.

    Examples:
        >>> machine = pybsp.LogPMachine(p=8, L=16, o=1, G=4)
        >>> machine.capacity, machine.flags
        (4, ())
        >>> machine.save("machine.json")
        >>> pybsp.LogPMachine.load("machine.json") == machine
        True
    """

    p: int
    L: int
    o: int
    G: int
    step: float = 1.0
    G_word: float | None = None
    calibrated: bool = True
    intervals: dict[str, tuple[float, float]] = dataclasses.field(default_factory=dict, compare=False)

    _PART = "logp"
    _REQUIRED = types.MappingProxyType({"p": PROCESSORS, "L": LEAST, "o": LEAST, "G": LEAST})
    _OPTIONAL = types.MappingProxyType(
        {
            "step": ABOVE,
            "G_word": optional(LEAST),
            "calibrated": flag,
            "intervals": table(each(number(-sys.float_info.max), least=2, most=2)),
        }
    )

    def __post_init__(self) -> None:
        self._of_python()
        for name, least in (("p", 1), ("L", 1), ("o", 0), ("G", 1)):
            value = getattr(self, name)
            if type(value) is not int or value < least:
                unit = "" if name == "p" else " of steps"
                raise UsageError(f"LogPMachine: {name} must be a whole number{unit}, at least {least}, got {value!r}")
            if name == "p" and value > MOST_PROCESSORS:
                raise UsageError(f"LogPMachine: p must be at most {MOST_PROCESSORS}, got {value!r}")
            if name != "p" and value > LARGEST:  # in seconds, as a file has it, it would be no whole number of steps
                raise UsageError(f"LogPMachine: {name} must be at most 2^53 steps, got {value!r}; take a longer step")
        if not is_finite(self.step) or self.step < _LEAST_STEP:
            raise UsageError(
                f"LogPMachine: step must be finite and at least {_LEAST_STEP} (seconds), got {self.step!r}"
            )
        if not is_finite(self.step * max(self.L, self.o, self.G)):
            raise UsageError(f"LogPMachine: L, o and G must be finite in seconds, got step = {self.step!r}")
        if self.G_word is not None and not (is_finite(self.G_word) and self.G_word >= 0):
            raise UsageError(f"LogPMachine: G_word must be finite and at least 0 (seconds), got {self.G_word!r}")
        _check_calibrated("LogPMachine", self.calibrated)
        if not isinstance(self.intervals, dict) or not all(
            isinstance(name, str) and isinstance(ends, (tuple, list)) and len(ends) == 2 and all(map(is_finite, ends))
            for name, ends in self.intervals.items()
        ):
            raise UsageError(
                f"LogPMachine: intervals must be pairs of finite seconds by name, got {self.intervals!r:.80}"
            )

    @property
    def capacity(self) -> int:
        """Messages that may be in transit to one destination: ceil(L/G).

        Examples:
            >>> pybsp.LogPMachine(p=8, L=10, o=1, G=4).capacity
            3
        """
        return -(-self.L // self.G)

    @property
    def flags(self) -> tuple[str, ...]:
        """What of max{2, o} <= G <= L does not hold, and why it should (*BSP vs LogP*, section 2.2).

        Examples:
            >>> pybsp.LogPMachine(p=8, L=16, o=6, G=4).flags[0].split(":")[0]
            'G = 4 is below o = 6'
        """
        broken = []
        if self.G < 2:
            broken.append(
                f"G = {self.G} is below 2: then up to L messages may be in transit to one processor, one of which "
                "must be delivered in each step from the first on, so that from some source a message takes one step"
            )
        if self.o > self.G:
            broken.append(
                f"G = {self.G} is below o = {self.o}: a processor is busy o steps with each message, so that it can "
                "never send, or acquire, one every G steps; take G = o"
            )
        if self.G > self.L:
            broken.append(
                f"G = {self.G} is above L = {self.L}: one message in transit obeys the capacity constraint; "
                "yet messages can arrive every L steps and be acquired only every G: no input buffer is large enough"
            )
        return tuple(broken)

    def require(self, operation: str) -> None:
        """Raise UsageError where max{2, o} <= G <= L does not hold, with the reasons.

        Examples:
            >>> pybsp.LogPMachine(p=8, L=16, o=1, G=4).require("my program")
            >>> try:
            ...     pybsp.LogPMachine(p=8, L=2, o=1, G=4).require("my program")
            ... except pybsp.UsageError as error:
            ...     print(str(error).split(":")[0])
            my program
        """
        if self.flags:
            raise UsageError(f"{operation}: machine: max{{2, o}} <= G <= L does not hold: " + "; ".join(self.flags))

    @classmethod
    def nominal(cls, p: int) -> LogPMachine:
        """Round figures of a machine that nobody has measured: L = 16, o = 1, G = 4 steps of a microsecond.

        Examples:
            >>> pybsp.LogPMachine.nominal(p=4)
            LogPMachine(p=4, L=16, o=1, G=4, step=1e-06, G_word=None, calibrated=False, intervals={})
        """
        return cls(p=p, L=16, o=1, G=4, step=1e-6, calibrated=False)

    @classmethod
    def from_bsp(cls, machine: BSPMachine | EBSPMachine, words: int = 1) -> LogPMachine:
        """The LogP machine of Theorem 2: G = Theta(g) and L = Theta(l), for messages of so many words.

        A step is a quarter of the gap; an overhead of o_msg, if that is below the gap.

        Raises:
            UsageError: an EBSPMachine, which has no g and l; words that are no number of at least 1; an l or o_msg of
                more than 2^51 gaps.

        Examples:
            >>> machine = pybsp.LogPMachine.from_bsp(pybsp.BSPMachine(p=8, g=1e-8, l=1e-6, r=1e9), words=4)
            >>> machine.L, machine.o, machine.G, machine.capacity
            (100, 1, 4, 25)
        """
        if not isinstance(machine, BSPMachine):
            raise UsageError(
                f"LogPMachine.from_bsp: expected a pybsp.BSPMachine, got {type(machine).__name__}; give the "
                "LogP machine"
            )
        words = words.item() if isinstance(words, np.generic) else words
        if not (is_finite(words) and words >= 1):
            raise UsageError(
                f"LogPMachine.from_bsp: argument words: expected a number of at least 1, got {words!r:.60}"
            )
        gap = machine.g * words or machine.l / 16 or 1e-9
        step = gap / 4
        if not (is_finite(step) and step > 0 and is_finite(machine.l / step) and is_finite(machine.o_msg / step)):
            raise UsageError(
                f"LogPMachine.from_bsp: expected l and o_msg of at most 2^51 gaps, got l = {machine.l!r}, o_msg = "
                f"{machine.o_msg!r} and a gap of {gap!r} seconds"
            )
        return cls(
            p=machine.p,
            L=max(4, math.ceil(machine.l / step)),
            o=min(4, math.ceil(machine.o_msg / step)) or 1,
            G=4,
            step=step,
            calibrated=machine.calibrated,
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the machine into a machine file (JSON), in seconds; what else the file holds is kept.

        Examples:
            >>> import json
            >>> pybsp.LogPMachine(p=2, L=16, o=1, G=4, step=1e-6).save("machine.json")
            >>> with open("machine.json") as file:
            ...     print(json.load(file)["logp"])
            {'p': 2, 'L': 1.6e-05, 'o': 1e-06, 'G': 4e-06, 'step': 1e-06}
        """
        part: dict[str, Any] = {"p": self.p}
        part.update({name: getattr(self, name) * self.step for name in ("L", "o", "G")})
        part["step"] = self.step
        if self.G_word is not None:
            part["G_word"] = self.G_word
        if not self.calibrated:
            part["calibrated"] = False
        if self.intervals:
            part["intervals"] = {name: list(ends) for name, ends in self.intervals.items()}
        self._write(path, part)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> LogPMachine:
        """Read the LogP part of a machine file, which holds seconds.

        The step is the file's, else a round part of the smallest parameter, so that rounding to whole steps changes
        none by more than 2 %. `flags` says where max{2, o} <= G <= L does not hold.

        Raises:
            UsageError: not a machine file, a version that this pybsp does not know, no such part, or wrong values.

        Examples:
            >>> pybsp.LogPMachine(p=2, L=16, o=1, G=4, step=1e-6).save("machine.json")
            >>> pybsp.LogPMachine.load("machine.json").L
            16
        """
        part = cls._part(path)
        seconds = {name: part[name] for name in ("L", "o", "G")}
        step = part.get("step") or _round_step([value for value in seconds.values() if value > 0])
        if max(seconds.values()) > step * LARGEST:
            raise UsageError(
                f"machine file {path}: {cls._PART}.step: expected seconds of which L, o and G are no more than 2^53, "
                f"got {step!r}"
            )
        return cls._of(
            path,
            {
                "p": part["p"],
                "L": max(1, round(seconds["L"] / step)),
                "o": round(seconds["o"] / step),
                "G": max(1, round(seconds["G"] / step)),
                "step": step,
                "G_word": part.get("G_word"),
                "calibrated": part.get("calibrated", True),
                "intervals": {name: (low, high) for name, (low, high) in part.get("intervals", {}).items()},
            },
        )


_PLACEMENT = fields({"placement": fields({}, {"hosts": each(text), "nodes": each(whole())})})


def is_kind(text: Any) -> bool:
    """Whether it names a kind of work."""
    return isinstance(text, str) and text != "" and text.isprintable()


def _first(row: tuple[float, float, float, float]) -> float:
    return row[0]


def _nodes(hosts: Sequence[str]) -> list[int]:
    """The host of each processor as a number, in the order in which they first appear."""
    numbers: dict[str, int] = {}
    return [numbers.setdefault(host, len(numbers)) for host in hosts]


def _spread(hosts: Sequence[str]) -> str:
    """How processors lie on hosts, in words."""
    nodes = _nodes(hosts)
    count = max(nodes) + 1
    if count == 1:
        return "one host"
    return f"{count} hosts ({', '.join(map(str, nodes[:16]))}{', ...' if len(nodes) > 16 else ''})"


def _some(hosts: Sequence[str]) -> str:
    names = sorted(set(hosts))
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _round_step(seconds: list[float]) -> float:
    """A step of 1, 2 or 5 times a power of ten, at most a 25th of the smallest."""
    if not seconds:
        return 1.0
    most = max(min(seconds) / 25, 1e-300)
    power = 10.0 ** math.floor(math.log10(most))
    return next(digit * power for digit in (5, 2, 1) if digit * power <= most * (1 + 1e-9))


def machine_in_force(
    argument: BSPMachine | None,
    p: int,
    cached: Callable[[], tuple[BSPMachine | None, str | None]] = lambda: (None, None),
) -> tuple[BSPMachine, str | None]:
    """The machine of a run of p processors, and a warning where it was made for another p, or cannot be read.

    The argument, else the file that PYBSP_MACHINE names, else what is cached, else the nominal machine.

    Args:
        argument: of the run.
        p: processors.
        cached: finds the machine that was measured here, and a warning.
    """
    machine, origin = argument, "the argument machine: p"
    if machine is not None and not isinstance(machine, BSPMachine):
        raise UsageError(f"machine: expected a pybsp.BSPMachine, got {type(machine).__name__}")
    if machine is None and settings.text(settings.MACHINE):
        path = settings.text(settings.MACHINE)
        machine, origin = BSPMachine.load(path), f"machine file {path}: {BSPMachine._PART}.p"
    if machine is None:
        machine, warning = cached()
        return machine or BSPMachine.nominal(p), warning
    return for_p(machine, p, origin)


def for_p(machine: AnyMachine, p: int, origin: str) -> tuple[AnyMachine, str | None]:
    """The machine with p processors, and a warning where it was made for another p."""
    if machine.p == p:
        return machine, None
    warning = f"{origin}: expected {p}, as this run has, got {machine.p}: its predictions are for another machine"
    return resized(machine, p), warning


def resized(machine: Sized, p: int) -> Sized:
    """The same parameters, of another number of processors."""
    if isinstance(machine, BSPMachine) and machine.exchange is not None:
        return dataclasses.replace(machine, p=p, exchange=dataclasses.replace(machine.exchange, p=p))
    return dataclasses.replace(machine, p=p)
