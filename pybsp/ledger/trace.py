"""What `--trace` keeps of a run: each processor's own supersteps, and the words that go from each to each, by label.

The ledger keeps maxima over the processors. A tracer keeps what they are made of: the rows of its processor's log,
which are there anyway until they are combined, and a count of words by label and destination, taken where something is
sent. An empty superstep takes no longer. When the run has ended processor 0 gathers it all, in a size that depends
neither on how long the run was nor on how many processors there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..transport import LEDGER, READS, REPLIES, Parcel, Parcels, Section
from ..transport.wire import read_reads
from .log import LABEL, MEASURED, MESSAGES_OUT, SECONDS, WORDS_IN, WORDS_OUT, Log

if TYPE_CHECKING:
    from ..supersteps.superstep import SuperstepEngine

SPANS = 48_000  # of all processors, that are kept of a run
LANES = 64  # groups of processors in a summary; up to so many processors each has its own
BINS = 120  # of time, in a summary
LONGEST = 200  # characters of a label, in a summary and in each slice of a trace
KINDS = 8  # labels in a summary, and one of all others
_SENT = 1 << 16  # pairs of label and destination of which a processor counts the words apart
OTHERS = "other labels"  # that of what is sent beyond these

Rows = NDArray[np.float64]


class OwnLog(Log):
    """A log that keeps its processor's own rows where combined ones take their place."""

    def __init__(self) -> None:
        super().__init__()
        self._own: list[Rows] = []
        self.words: dict[tuple[str, int], int] = {}  # see Tracer

    def put(self, combined: Iterable[Rows]) -> None:
        for rows in combined:
            self._own.append(self.table(self.combined, self.combined + len(rows)))
            super().put([rows])

    def as_saved(self) -> dict[str, Any]:
        return {**super().as_saved(), "words": [[*place, count] for place, count in self.words.items()]}

    def resume(self, saved: Mapping[str, Any]) -> None:
        super().resume(saved)
        self.words.clear()  # a run without a trace has saved none
        self.words.update({(label, dest): count for label, dest, count in saved.get("words", ())})
        # What was combined before the checkpoint is no longer this processor's.
        self._own = [self.table(0, self.combined)] if self.combined else []

    def own(self) -> Rows:
        """This processor's rows, shape (supersteps, COLUMNS)."""
        return np.concatenate([*self._own, self.table(self.combined)])


class Tracer:
    """What one processor keeps. It takes the engine's log; the engine has not ended a superstep yet.

    Attributes:
        words: sent, by label and destination.
        collectives: number of a superstep and name, of those that a collective has ended.
    """

    def __init__(self, engine: SuperstepEngine) -> None:
        self.collectives: dict[int, str] = {}
        self._engine, self._account, self._pid = engine, engine.account, engine.pid
        began = self._account.log.left
        self.log = self._account.log = OwnLog()
        self.log.begin_at(began)
        self.words = self.log.words
        engine.tracer = self

    def count(self, parcels: Parcels) -> None:
        """These go out now."""
        for dest, parcel in parcels.items():
            self._add(dest, sum(section[1] for section in parcel.values()))

    def read(self, arrived: Iterable[tuple[int, Parcel]]) -> None:
        """What came says what other processors read here by themselves."""
        for source, parcel in arrived:
            if READS in parcel:
                self._add(source, read_reads(parcel[READS])[0])

    def shown(self, name: str, dests: Iterable[int], words: int) -> None:
        """The superstep that ends now is one of that collective, in which these read so many words of this one's."""
        self.called(name)
        for dest in dests:
            self._add(dest, words)

    def _add(self, dest: int, size: int) -> None:
        """So many words go to a processor."""
        if not size or dest == self._pid:
            return
        # The ledger labels a collective's superstep with its name when it has ended.
        label, words = self._account.label or self.collectives.get(len(self.log), ""), self.words
        place = label, dest
        if place not in words and len(words) >= _SENT:
            place = OTHERS, dest
        words[place] = words.get(place, 0) + size

    def called(self, name: str) -> None:
        """The superstep that ends now is one of that collective."""
        self.collectives[len(self.log)] = name

    # -- when the run has ended ---------------------------------------------------------------------------------------

    def traced(self) -> ProcessorTrace:
        """What is sent to processor 0: spans, of several supersteps each where there are very many."""
        rows = self.log.own()
        share = max(16, SPANS // self._engine.p)
        size = max(1, -(-len(rows) // share))
        firsts = np.arange(0, len(rows), size)
        columns = [SECONDS, MEASURED, WORDS_OUT, WORDS_IN, MESSAGES_OUT]
        sums = np.add.reduceat(rows[:, columns], firsts, axis=0) if len(rows) else np.empty((0, 5))
        labels = list(self.log.labels)
        names = dict(self.collectives) if size == 1 else {}
        kinds, largest, parts = _dearest(rows, size), self._largest(firsts), self._parts()
        riding = self.log.riding if len(self.log) <= SPANS else {}
        return ProcessorTrace(size, len(rows), labels, kinds, sums, largest, self.words, names, riding, parts)

    def _largest(self, firsts: NDArray[np.int64]) -> Rows:
        """The sums of the largest computing of all processors, where the log knows it, by span."""
        if self.log.combined < len(self.log) or not len(firsts):
            return np.empty(0)
        return np.add.reduceat(self.log.table(0)[:, SECONDS], firsts)

    def _parts(self) -> dict[int, dict[str, float]]:
        stays = self._account.stays
        if stays is None or len(self.log) > SPANS:
            return {}
        return {number: one.in_short() for number, one in stays.totals.items()}


def _dearest(rows: Rows, size: int) -> NDArray[np.int64]:
    """Of each span of so many rows the number of the label that takes most of its time."""
    many = int(rows[:, LABEL].max(initial=0)) + 1
    pairs, of_row = np.unique(np.arange(len(rows)) // size * many + rows[:, LABEL].astype(int), return_inverse=True)
    spans, labels = np.divmod(pairs, many)
    by_time = np.lexsort((-np.bincount(of_row, rows[:, MEASURED]), spans))
    _, first = np.unique(spans[by_time], return_index=True)
    return labels[by_time[first]]


class ProcessorTrace(NamedTuple):
    """What a processor has kept.

    size: supersteps of a span.
    supersteps: in all.
    labels: by number.
    kinds: of each span, the number of the label that takes most of it, shape (spans,).
    sums: seconds of computing, of the whole; words out and in, messages out, shape (spans, 5).
    largest: seconds, the largest computing of all processors, by superstep; empty but where the ledger is.
    words: sent, by label and destination.
    collectives: names, by span.
    riding: words by name, by superstep.
    parts: what parts did, by superstep, as `PartTotals.in_short` says it.
    """

    size: int
    supersteps: int
    labels: list[str]
    kinds: NDArray[np.int64]
    sums: Rows
    largest: Rows
    words: dict[tuple[str, int], int]
    collectives: dict[int, str]
    riding: dict[int, dict[str, int]]
    parts: dict[int, dict[str, float]]


def gather(tracer: Tracer) -> Trace | None:
    """What all have kept, on processor 0; None on others. Collective, when the ledger has been combined."""
    engine, what = tracer._engine, "gathered the trace"
    traced = tracer.traced()
    plain: Any = (*traced[:3], list(traced.words.items()), traced.collectives)
    data = np.concatenate([traced.kinds[:, None], traced.sums], axis=1)
    section = Section(plain, 0, 0, data.reshape(-1).view(np.uint8) if data.size else None)
    arrival = engine.meet(LEDGER, None, {0: {REPLIES: section}})
    engine.settle(arrival, LEDGER, what)
    if engine.pid:
        return None
    of_all: list[ProcessorTrace] = []
    for _, parcel in sorted(arrival.parcels, key=lambda one: one[0]):
        size, supersteps, labels, words, collectives = parcel[REPLIES].descriptors
        raw = parcel[REPLIES].data
        table = np.empty((0, 6)) if raw is None else np.array(raw).view(np.float64).reshape(-1, 6)
        counted = {(label, dest): count for (label, dest), count in words}
        kinds, sums, names, largest = table[:, 0].astype(int), table[:, 1:], dict(collectives), np.empty(0)
        of_all.append(ProcessorTrace(size, supersteps, labels, kinds, sums, largest, counted, names, {}, {}))
    return Trace(of_all, traced, engine.account.virtual)


def of_virtual(tracers: Sequence[Tracer]) -> Trace:
    """What all virtual processors have kept, when their ledger has been combined."""
    traced = [tracer.traced() for tracer in tracers]
    return Trace(traced, traced[0], virtual=True)


class Trace:
    """The trace of a run.

    Args:
        traced: of each processor.
        known: what processor 0 knows of all: the largest computing, what rode, parts.
        virtual: whether its times are.

    Attributes:
        p: processors.
        size: supersteps of a span.
        supersteps: in all.
        labels: of each span, that which takes most of it on processor 0.
        computing, waiting, exchange: seconds, of each processor and span, shape (p, spans).
        counts: words out and in, messages out, shape (p, spans, 3).
        collectives: names, by span; riding, parts: as of a `ProcessorTrace`.
    """

    def __init__(self, traced: Sequence[ProcessorTrace], known: ProcessorTrace, virtual: bool) -> None:
        first = traced[0]
        self.p, self.size, self.supersteps, self.virtual = len(traced), first.size, first.supersteps, virtual
        self.labels = [first.labels[kind] for kind in first.kinds.tolist()]
        sums = np.stack([one.sums for one in traced])
        self.computing, self.counts = sums[:, :, 0], sums[:, :, 2:]
        # As measured, waiting cannot be longer than the rest of the superstep.
        rest = np.maximum(sums[:, :, 1] - self.computing, 0.0)
        self.waiting = np.minimum(np.maximum(known.largest - self.computing, 0.0), rest)
        self.exchange = rest - self.waiting
        self.collectives, self.riding, self.parts = first.collectives, known.riding, known.parts
        self._traced = traced

    @property
    def seconds(self) -> float:
        """Of all of it: the longest of the processors'."""
        return float((self.computing + self.waiting + self.exchange).sum(axis=1).max(initial=0.0))

    def summary(self) -> dict[str, Any]:
        """What a ledger file holds of it, as plain data of a bounded size, which `ledger_file.read` checks.

        p: processors.
        lane: how many of them go together in each lane.
        labels: half of them those with the most words, then those of time; the last is all others.
        words: rows of label, lane from, lane to, words.
        seconds: of all.
        computing, waiting, exchange: seconds, by lane and bin of time.
        sent: words, by lane and bin.
        kinds: the number of the label that takes most of each bin, by lane and bin; -1 where there is none.
        """
        a_lane = -(-self.p // LANES)
        numbers, labels = self._numbered()
        words: dict[tuple[int, int, int], int] = {}
        for source, one in enumerate(self._traced):
            for (label, dest), count in one.words.items():
                kind = numbers.get(label, len(labels) - 1)
                place = kind, source // a_lane, dest // a_lane
                words[place] = words.get(place, 0) + count
        found: dict[str, Any] = {
            "p": self.p,
            "lane": a_lane,
            "labels": labels,
            "words": [[*place, count] for place, count in sorted(words.items())],
            "seconds": self.seconds,
        }
        kinds = np.array([numbers.get(label, len(labels) - 1) for label in self.labels], int)
        whole = self.computing + self.waiting + self.exchange
        ends = np.cumsum(whole, axis=1)
        edges = np.linspace(0.0, self.seconds, BINS + 1)
        lanes = -(-self.p // a_lane)
        figures = {
            "computing": self.computing,
            "waiting": self.waiting,
            "exchange": self.exchange,
            "sent": self.counts[:, :, 0],
        }
        binned = {name: np.zeros((lanes, BINS)) for name in figures}
        of_kinds = np.zeros((lanes, BINS, len(labels)))
        for pid in range(self.p):
            lane, at = pid // a_lane, np.concatenate([[0.0], ends[pid]])
            for name, values in figures.items():
                sums = np.concatenate([[0.0], np.cumsum(values[pid])])
                binned[name][lane] += np.diff(np.interp(edges, at, sums))
            for kind in set(kinds.tolist()):
                sums = np.concatenate([[0.0], np.cumsum(np.where(kinds == kind, whole[pid], 0.0))])
                of_kinds[lane, :, kind] += np.diff(np.interp(edges, at, sums))
        found.update(
            {name: [[float(f"{x:.4g}") for x in row] for row in rows.tolist()] for name, rows in binned.items()}
        )
        most = np.where(of_kinds.max(axis=2, initial=0.0) > 0, of_kinds.argmax(axis=2) if len(labels) else -1, -1)
        found["kinds"] = most.tolist()
        return found

    def _numbered(self) -> tuple[dict[str, int], list[str]]:
        """Numbers of the labels that a summary tells apart, and their names with one for all others."""
        seconds: dict[str, float] = {}
        for label, spent in zip(self.labels, (self.computing + self.exchange).sum(axis=0).tolist(), strict=True):
            seconds[label] = seconds.get(label, 0.0) + spent
        words: dict[str, int] = {}
        for one in self._traced:
            for (label, _), count in one.words.items():
                words[label] = words.get(label, 0) + count
        talking = sorted(seconds.keys() & words.keys(), key=lambda label: (-words[label], label))[: KINDS // 2]
        dear = [*talking, *sorted(seconds.keys() - talking, key=lambda label: (-seconds[label], label))][:KINDS]
        return {label: number for number, label in enumerate(dear)}, [label[:LONGEST] for label in dear] + [OTHERS]
