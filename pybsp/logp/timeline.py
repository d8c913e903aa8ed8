"""What the processors of a LogP program did, and when: of a run on MPI ranks, or as the model predicts it."""

from __future__ import annotations

import html
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError, argument_error, usage_error
from ..machines.logp import LogPMachine
from .columns import Columns
from .engine import BINS, LANES, Simulation
from .operations import CALC, MOST_TIME, RECV, SEND, operations_of
from .trace import Times

if TYPE_CHECKING:
    from ..ground.drawing import Axis

PARTS = ("computing", "o", "G", "stalled", "waiting")  # what a processor's time goes to


class Messages(NamedTuple):
    """The messages of a timeline, in the order in which each processor sent its own; times in seconds.

    source, dest: processors.
    submission: when the message was prepared.
    acceptance: when MPI had taken it; from submission on the source waited for a credit.
    delivery: when it was in dest's input buffer.
    acquisition: when dest had acquired it.
    words: its size, of 8 bytes each.

    Examples:
        >>> def program(proc):
        ...     return proc.recv() if proc.pid else proc.send(1, 1.0)
        >>> machine = pybsp.LogPMachine(p=2, L=16, o=1, G=4, step=1.0)
        >>> messages = pybsp.logp.Timeline.of(pybsp.logp.simulate(program, machine=machine)).messages()
        >>> messages.source.tolist(), messages.delivery.tolist(), messages.acquisition.tolist()
        ([0], [17.0], [18.0])
    """

    source: Times
    dest: Times
    submission: NDArray[np.float64]
    acceptance: NDArray[np.float64]
    delivery: NDArray[np.float64]
    acquisition: NDArray[np.float64]
    words: Times


@dataclass(frozen=True, eq=False, repr=False)
class Timeline:
    """What each processor did, from the moment at which the first one began; times in nanoseconds, all on one axis.

    An operation is a message sent, or one acquired; those of processor i are number `first[i]` to `first[i + 1] - 1`,
    in its order. What lies between two of them is computing, waiting with `poll` or `until` included.

    Args:
        machine: whose capacity was kept; and that of predictions.
        first: shape (p + 1,).
        kinds: 1 of what is sent, 2 of what is acquired; shape (operations,), as those that follow.
        peers, words: the other processor, and the size.
        begun, ended: when the program called, and when it went on.
        ready: of what is sent when it was prepared, of what is acquired when it was delivered.
        gap, stalled, waiting: how much of the time from begun to ended passed because of the gap, of the capacity, or
            because no message was there. The rest is overhead.
        started, finished: when each processor began, and ended; shape (p,).
        work: steps that each has given to `compute`, 2^62 at most.
        paced: whether gaps were kept; always, where the model did it.
        uncertain: seconds by which times of different nodes may be off, at most.
        left_out: messages that are not in it, as there were more than are kept: it is of a run's beginning.

    Examples:
        >>> def program(proc):
        ...     return proc.send(0, 1.0) if proc.pid else proc.compute(7) or proc.recv()
        >>> machine = pybsp.LogPMachine(p=2, L=16, o=1, G=4, step=1e-6)
        >>> timeline = pybsp.logp.Timeline.of(pybsp.logp.simulate(program, machine=machine))
        >>> timeline, timeline.seconds
        (<timeline: 1 messages of 2 processors, 1.8e-05 s>, 1.8e-05)
        >>> timeline.sent.tolist(), timeline.acquired.tolist(), timeline.words_sent.tolist()
        ([0, 1], [1, 0], [0, 1])
        >>> timeline.computing.tolist(), timeline.messages().source.tolist()
        ([0, 0], [1])
        >>> {part: (1e6 * seconds).round(1).tolist() for part, seconds in timeline.spent().items()}
        {'computing': [0.0, 0.0], 'o': [1.0, 1.0], 'G': [0.0, 0.0], 'stalled': [0.0, 0.0], 'waiting': [17.0, 0.0]}
    """

    machine: LogPMachine
    first: Times
    kinds: NDArray[np.uint8]
    peers: Times
    words: Times
    begun: Times
    ready: Times
    ended: Times
    gap: Times
    stalled: Times
    waiting: Times
    started: Times
    finished: Times
    work: Times
    paced: bool
    uncertain: float = 0.0
    left_out: int = 0

    def __len__(self) -> int:
        return len(self.kinds)

    def __repr__(self) -> str:
        return f"<timeline: {self.sent.sum()} messages of {self.p} processors, {self.seconds:.4g} s>"

    def _repr_html_(self) -> str:
        from ..ground.drawing import Axis

        nanoseconds = float(self.finished.max(initial=0)) or 1.0
        drawn = self.drawn(nanoseconds, Axis(0.0, nanoseconds * 1e-9, "seconds"))
        return f'<p><b>{html.escape(repr(self)[1:-1])}</b></p><div style="max-width:640px">{drawn}</div>'

    def drawn(self, nanoseconds: float, along: Axis) -> str:
        """A picture of so much time, which the axis names: what each processor does as it goes by."""
        from ..ground.drawing import lanes

        group = -(-self.p // LANES)
        together = "processor" if group == 1 else f"processor (lanes of {group})"
        shares = self.shares(BINS, nanoseconds)
        firsts = np.arange(0, self.p, group)
        sizes = np.add.reduceat(np.ones((self.p, 1)), firsts)
        found = [np.add.reduceat(shares[part], firsts) / sizes for part in PARTS]
        return lanes(found, PARTS, along, together, self.p)

    @property
    def p(self) -> int:
        return len(self.started)

    @property
    def seconds(self) -> float:
        """From the begin of the first processor to the end of the last one."""
        return float(self.finished.max(initial=0)) * 1e-9

    @cached_property
    def pids(self) -> Times:
        """Of each operation its processor."""
        return np.repeat(np.arange(self.p), np.diff(self.first))

    @property
    def sent(self) -> Times:
        """Messages that each processor sent, shape (p,)."""
        return np.bincount(self.pids[self.kinds == SEND], minlength=self.p)

    @property
    def acquired(self) -> Times:
        """Messages that each processor acquired, shape (p,)."""
        return np.bincount(self.pids[self.kinds == RECV], minlength=self.p)

    @property
    def words_sent(self) -> Times:
        """Words of these that were sent, shape (p,)."""
        sends = self.kinds == SEND
        return np.bincount(self.pids[sends], self.words[sends], self.p).astype(np.int64)

    @cached_property
    def computing(self) -> Times:
        """What passed before each operation since the one before it, or since its processor began."""
        before = np.concatenate(([0], self.ended[:-1])) if len(self) else self.ended
        heads = self.first[:-1][np.diff(self.first) > 0]
        before[heads] = self.started[self.pids[heads]]
        return self.begun - before

    @property
    def computing_last(self) -> Times:
        """What each processor computed after its last operation, shape (p,)."""
        last = self.started.copy()
        some = np.diff(self.first) > 0
        last[some] = self.ended[self.first[1:][some] - 1]
        return self.finished - last

    def spent(self) -> dict[str, NDArray[np.float64]]:
        """Seconds of each processor by what they go to (PARTS), each of shape (p,)."""
        found: dict[str, NDArray[np.float64]] = {}
        for name, each in zip(PARTS, (self.computing, *self._pieces), strict=True):
            found[name] = 1e-9 * np.bincount(self.pids, each, self.p).astype(np.float64)
        found["computing"] += 1e-9 * self.computing_last
        return found

    def shares(self, bins: int, nanoseconds: float) -> dict[str, NDArray[np.float64]]:
        """Of each processor, and of each bin of that time, the share of each of PARTS; shape (p, bins)."""
        edges = np.linspace(0.0, nanoseconds, bins + 1)
        found = {name: np.zeros((self.p, bins)) for name in PARTS}
        pieces = np.stack(self._pieces, axis=1)
        for pid in range(self.p):
            own = slice(self.first[pid], self.first[pid + 1])
            computed = np.append(self.computing[own], self.computing_last[pid])
            lengths = np.zeros((len(computed), 5), np.int64)
            lengths[:, 0] = computed
            lengths[:-1, 1:] = pieces[own]
            # In the order in which they come: waiting first, then what the model or the credit holds up, then o.
            order = [0, PARTS.index("waiting"), PARTS.index("G"), PARTS.index("o"), PARTS.index("stalled")]
            flat = lengths[:, order].reshape(-1)
            at = self.started[pid] + np.concatenate(([0], np.cumsum(flat)))
            for place, part in enumerate(order):
                only = np.where(np.arange(len(flat)) % 5 == place, flat, 0)
                sums = np.concatenate(([0], np.cumsum(only)))
                found[PARTS[part]][pid] = np.diff(np.interp(edges, at, sums)) / (edges[1] or 1.0)
        return found

    @property
    def _pieces(self) -> tuple[Times, Times, Times, Times]:
        """What the time of each operation goes to: PARTS without computing."""
        overhead = self.ended - self.begun - self.gap - self.stalled - self.waiting
        return overhead, self.gap, self.stalled, self.waiting

    def pairs(self) -> tuple[Times, Times]:
        """Of each message the number of its send, and of its acquisition: the n-th of a pair of processors each."""
        return _pairs(self.pids, self.kinds.astype(np.int64), self.peers)

    def messages(self) -> Messages:
        """The messages, with the times of both of their ends."""
        sends, receives = self.pairs()
        ready, ended = (np.asarray(1e-9 * each, np.float64) for each in (self.ready, self.ended))
        return Messages(
            self.pids[sends],
            self.peers[sends],
            ready[sends],
            ended[sends],
            ready[receives],
            ended[receives],
            self.words[sends],
        )

    def operations(self) -> Columns:
        """As a schedule: each processor's operations one after the other, what it computed before and between them.

        A processor that began later than the first one computes until then.
        """
        count, p = len(self), self.p
        places = 2 * np.arange(count) + self.pids  # of what is computed before each
        kinds = np.zeros(2 * count + p, np.uint8)
        kinds[places + 1] = self.kinds
        sizes = np.zeros(len(kinds), np.int64)
        sizes[places], sizes[places + 1] = self.computing, 8 * self.words
        lasts = 2 * self.first[1:] + np.arange(p)
        sizes[lasts] = self.computing_last
        sizes[2 * self.first[:-1] + np.arange(p)] += self.started
        peers = np.zeros(len(kinds), np.int32)
        peers[places + 1] = self.peers
        there = (kinds != CALC) | (sizes > 0)
        begins = np.concatenate(([0], np.cumsum(there)))[np.concatenate(([0], lasts + 1))]
        kinds, sizes, peers = kinds[there], sizes[there], peers[there]
        follows = np.ones(len(kinds), bool)
        follows[begins[:-1][np.diff(begins) > 0]] = False
        waiters = np.flatnonzero(follows).astype(np.int32)
        tags, at_begin = np.zeros(len(kinds), np.int64), np.zeros(len(waiters), np.uint8)
        return Columns(begins, kinds, sizes, peers, tags, waiters, (waiters - 1).astype(np.int32), at_begin)

    @classmethod
    def of(cls, simulation: Simulation) -> Timeline:
        """Of an execution on the simulated machine.

        What a processor computed is not in its trace: it is the least that explains when its operations began.

        Raises:
            UsageError: it is none; a message was not acquired; it takes 2^62 ns or more, or 2^61 / p steps.
        """
        if not isinstance(simulation, Simulation):
            raise argument_error(
                "pybsp.logp.Timeline.of", "simulation", "a pybsp.logp.Simulation", type(simulation).__name__
            )
        if len(simulation.trace) and int(simulation.trace.acquisition.min()) < 0:
            raise UsageError("pybsp.logp.Timeline.of: argument simulation: expected messages that were all acquired")
        # In steps: nanoseconds are too coarse for steps of less.
        starts = _starts(simulation).tolist()
        return cls.played(Columns.of(operations_of(simulation.trace, 1, starts)), simulation)

    @classmethod
    def played(cls, columns: Columns, simulation: Simulation, measured: Timeline | None = None) -> Timeline:
        """Of a schedule whose operations go one after the other, on the simulated machine.

        Args:
            columns: what was done; CALC in steps, or in nanoseconds where that was measured.
            simulation: what came of it.
            measured: what the schedule was made from, if that was a timeline.

        Raises:
            UsageError: it takes 2^62 ns or more, or 2^61 / p steps.
        """
        machine, trace, p = simulation.machine, simulation.trace, len(columns)
        if simulation.time * machine.step >= 1e-9 * MOST_TIME:
            got = f"{simulation.time} steps of {machine.step:g} s"
            raise usage_error("pybsp.logp.Timeline", "times below 2^62 ns", got, "take a machine with a shorter step")
        if simulation.time >= MOST_TIME // (2 * p):  # below, the times of all processors are on one axis
            expected = f"less than 2^61 / p = {MOST_TIME // (2 * p)} steps"
            way_out = f"take a machine with a longer step than {machine.step:g} s"
            raise usage_error("pybsp.logp.Timeline", expected, simulation.time, way_out)
        pids = np.repeat(np.arange(p), np.diff(columns.begins))
        steps = columns.sizes if measured is None else np.rint(columns.sizes * 1e-9 / machine.step)
        calc = np.where(columns.kinds == CALC, steps, 0).astype(np.int64)
        there = columns.kinds != CALC
        computed = np.concatenate(([0], np.cumsum(calc)))
        computed = (computed[1:] - computed[columns.begins[pids]])[there]
        pids, kinds, peers = pids[there], columns.kinds[there], columns.peers[there].astype(np.int64)
        first = np.searchsorted(pids, np.arange(p + 1))
        sends, receives = np.flatnonzero(kinds == SEND), np.flatnonzero(kinds == RECV)
        # Which message each operation is about: a processor's sends are in its order, and the n-th acquisition of a
        # pair ends its n-th receive.
        about = np.empty(len(kinds), np.int64)
        about[sends] = np.lexsort((trace.submission, trace.source))
        about[receives[np.lexsort((pids[receives], peers[receives]))]] = np.lexsort(
            (trace.acquisition, trace.dest, trace.source)
        )
        over = np.where(kinds == SEND, trace.acceptance[about], trace.acquisition[about])
        # An operation ends when it is over, or at once where its message was acquired while another was awaited.
        far = int(over.max(initial=0)) + int(computed.max(initial=0)) + 1
        waited = np.maximum.accumulate(over - computed + far * (2 * pids + 1)) - far * (2 * pids + 1)
        before = np.concatenate(([0], waited[:-1])) if len(waited) else waited
        before[first[:-1][np.diff(first) > 0]] = 0
        before = np.maximum(before, 0)
        ended, begun = np.maximum(waited, before) + computed, before + computed
        gap, stalled, waiting = np.zeros((3, len(kinds)), np.int64)
        submission = trace.submission[about[sends]]
        gap[sends], stalled[sends] = submission - machine.o - begun[sends], ended[sends] - submission
        # What is acquired while a receive waits, for that one or for a later one.
        order = np.lexsort((trace.acquisition, trace.dest))
        dest, taken, came = trace.dest[order], trace.acquisition[order], trace.delivery[order]
        during = receives[np.searchsorted(far * pids[receives] + ended[receives], far * dest + taken)]
        last = np.concatenate(([0], taken[:-1])) * (np.diff(dest, prepend=-1) == 0)
        free, start = np.maximum(last, begun[during]), taken - machine.o
        idle = start - free
        in_gap = np.clip(start - np.maximum(free, came), 0, idle)
        np.add.at(gap, during, in_gap)
        np.add.at(waiting, during, idle - in_gap)
        ready = np.where(kinds == SEND, trace.submission[about], trace.delivery[about])

        starts = _starts(simulation)
        origin = starts.min()

        def nanoseconds(steps: Times) -> Times:
            found: Times = np.rint((steps - origin) * (1e9 * machine.step)).astype(np.int64)
            return found

        finished, started = nanoseconds(simulation.finished), nanoseconds(starts)
        if measured is not None:
            some = np.diff(first) > 0
            started = np.minimum(measured.started, finished)
            started[some] = np.minimum(started[some], nanoseconds(begun[first[:-1][some]]))
        return cls(
            machine=machine,
            first=first,
            kinds=kinds,
            peers=peers,
            words=trace.words[about] if measured is None else measured.words,
            begun=nanoseconds(begun),
            ready=nanoseconds(ready),
            ended=nanoseconds(ended),
            gap=nanoseconds(begun + waiting + gap) - nanoseconds(begun + waiting),
            stalled=nanoseconds(ended) - nanoseconds(ended - stalled),
            waiting=nanoseconds(begun + waiting) - nanoseconds(begun),
            started=started,
            finished=finished,
            work=np.zeros(p, np.int64) if measured is None else measured.work,
            paced=True,
        )

    @classmethod
    def of_rows(
        cls,
        machine: LogPMachine,
        rows: Times,
        spans: Times,
        sent: int,
        until: int | None,
        uncertain: float,
        paced: bool,
    ) -> Timeline:
        """What was measured.

        Args:
            machine: of the run.
            rows: of each operation its processor, kind, peer, words (where it is acquired), begun, ready and ended; in
                the order of processors, and each one's own; shape (operations, 7).
            spans: of each processor, when it began and ended, and its work; shape (p, 3).
            sent: messages in all.
            until: what ended later is not known of all processors, and left out; None: all is known.
            uncertain, paced: see `Timeline`.
        """
        started, finished, work = spans.T
        if until is not None:
            rows, finished = rows[rows[:, 6] <= until], np.maximum(started, np.minimum(finished, until))
        rows = rows[paired(*rows[:, :3].T)]
        pids, kinds, peers, words, begun, ready, ended = np.ascontiguousarray(rows.T)
        sends, receives = _pairs(pids, kinds, peers)
        words[sends] = words[receives]
        origin = int(started.min())
        first, left_out = np.searchsorted(pids, np.arange(machine.p + 1)), sent - len(sends)
        times = begun - origin, ready - origin, ended - origin, started - origin, finished - origin
        return cls.of_columns(machine, first, kinds, peers, words, *times, work, paced, uncertain, left_out)

    @classmethod
    def of_columns(
        cls,
        machine: LogPMachine,
        first: Times,
        kinds: Times,
        peers: Times,
        words: Times,
        begun: Times,
        ready: Times,
        ended: Times,
        started: Times,
        finished: Times,
        work: Times,
        paced: bool,
        uncertain: float = 0.0,
        left_out: int = 0,
        virtual: bool = False,
    ) -> Timeline:
        """What was measured, or simulated: what the operations' time went to follows from when they were ready."""
        sends = kinds == SEND
        stalled = np.where(sends, np.clip(ended - ready, 0, ended - begun), 0)
        waiting = np.where(sends, 0, np.clip(ready - begun, 0, ended - begun))
        gap = np.zeros_like(begun)
        o, G = (round(steps * machine.step * 1e9) for steps in (machine.o, machine.G))
        if virtual:  # the model's overhead is o; a port is in its gap, further words streaming, for all that is left
            gap = np.maximum(ended - begun - stalled - waiting - o, 0)
        elif paced:
            pids = np.repeat(np.arange(len(started)), np.diff(first))
            for kind in (SEND, RECV):
                own = np.flatnonzero(kinds == kind)
                before, after = own[:-1], own[1:]
                # A submission begins o before its end, a gap after the last; an acquisition a gap after the last began.
                free = ended[before] + G - (o if kind == RECV else 0)
                least = begun[after] + o if kind == SEND else np.maximum(begun, ready)[after]
                room = (ended - begun - stalled - waiting)[after]
                gap[after] = np.where(pids[before] == pids[after], np.clip(free - least, 0, np.maximum(room - o, 0)), 0)
        columns = (begun, ready, ended, gap, stalled, waiting, started, finished, work, paced, uncertain, left_out)
        return cls(machine, first, kinds.astype(np.uint8), peers, words, *columns)


def _starts(simulation: Simulation) -> Times:
    """The step at which each processor began: up to the end it was busy, stalled or idle from then on."""
    found: Times = simulation.time - simulation.busy - simulation.stalls - simulation.idle
    return found


def _pairs(pids: Times, kinds: Times, peers: Times) -> tuple[Times, Times]:
    """See `Timeline.pairs`."""
    sends, receives = np.flatnonzero(kinds == SEND), np.flatnonzero(kinds == RECV)
    receives = receives[np.lexsort((pids[receives], peers[receives]))]
    found = np.empty_like(receives)
    found[np.lexsort((peers[sends], pids[sends]))] = receives
    return sends, found


def paired(pids: Times, kinds: Times, peers: Times) -> NDArray[np.bool_]:
    """Which operations are of messages whose both ends are there: the first so many of each pair of processors."""
    sends = kinds == SEND
    both = np.stack((np.where(sends, pids, peers), np.where(sends, peers, pids)), axis=1)
    _, pair = np.unique(both, axis=0, return_inverse=True)
    group = 2 * pair.reshape(-1) + sends
    order = np.argsort(group, kind="stable")
    counts = np.bincount(group, minlength=2 * int(pair.max(initial=-1)) + 2)
    ordinal = np.arange(len(group)) - np.repeat(np.cumsum(counts) - counts, counts)
    there = np.empty(len(group), bool)
    there[order] = ordinal < np.repeat(counts.reshape(-1, 2).min(axis=1), counts.reshape(-1, 2).sum(axis=1))
    return there
