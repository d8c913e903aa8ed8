"""The ledger: a record for each superstep of what it cost, beside what was predicted.

Computing, waiting and exchange are kept apart, each as measured. The exchange is what a machine predicts; of computing
it says what the charged work would take, beside what was measured.

Each processor keeps a log of its own supersteps (log.py), without talking to the others. Only when the ledger is asked
for are the logs combined, into maxima over the processors, which take the place of each one's own figures: it stays at
92 bytes a superstep. Records (records.py) are made from these rows when they are looked at.
"""

from __future__ import annotations

import os
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..errors import UsageError
from ..ground.files import path_of, writing
from ..ground.instead import hinting
from ..ground.versions import now, versions
from ..machines.bsp import BSPMachine, index_words, others_waited, overlaps
from ..machines.ebsp import EBSPMachine
from ..machines.in_force import NO_KINDS, charged
from .log import INDICES, ITEMS, LABEL, MEAN, MEASURED, MESSAGES, SECONDS, WAYS, WORDS, WORDS_IN, WORDS_OUT, WORK, Log
from .records import DERIVED, NO_PARTS, NOTHING, PartTotals, Record, Records, Supersteps, of_file

if TYPE_CHECKING:
    from .prediction import Prediction

NOTHING_KNOWN: Mapping[str, Sequence[float]] = types.MappingProxyType({})  # of where a run was
# What a ledger file has of a combined row, in the order of its columns.
COMBINED = ("label", "work", "seconds", "measured", "h_out", "h_in", "messages", "items", "M", "seconds_mean", "ways")
UNITS = {"work": "flop", **dict.fromkeys(("h", "h_out", "h_in", "M"), "words of 8 bytes"), "all times": "s"}


class Checkpoint(NamedTuple):
    """What a checkpoint has cost.

    superstep: that went on.
    bytes: on disk, of all processors.
    seconds: that the program waited for it, maximum over processors; they are in no record.
    """

    superstep: int
    bytes: int
    seconds: float


def _named(riding: Mapping[int, Mapping[str, int]]) -> dict[int, Mapping[str, int]]:
    """What rode, of what a log has: without indices, and copied. Rows that share it there do so here."""
    copies: dict[int, Mapping[str, int]] = {}
    for words in riding.values():
        if id(words) not in copies:
            copies[id(words)] = {name: count for name, count in words.items() if name != INDICES}
    return {number: copies[id(words)] for number, words in riding.items() if copies[id(words)]}


def priced(
    machine: BSPMachine | EBSPMachine,
    virtual: bool,
    row: Sequence[float],
    parts: PartTotals | None,
    since: float = 0.0,
    fresh: int = 0,
    indices: int = 0,
) -> tuple[float, float]:
    """Seconds of computing in a superstep, and those that its exchanges take by a machine.

    Args:
        machine: by which.
        virtual: whether the run's times are.
        row: of the superstep, combined.
        parts: what they did in it.
        since, fresh: as of `BSPMachine.exchanging`.
        indices: bytes of those of patterns that are made in it, of all processors.
    """
    computing, of_parts = row[SECONDS], 0.0
    if parts is not None:
        # Of supersteps of parts in which one after the other computes longest no processor has computed it all.
        computing, of_parts = max(computing, parts.seconds), parts.exchange_predicted
    counted = max(row[WORDS_OUT], row[WORDS_IN]), row[MESSAGES], row[WORDS], row[ITEMS]
    if overlaps(machine):
        exchange = machine.elapsed(computing + of_parts, *counted) - (computing + of_parts)
    elif isinstance(machine, BSPMachine) and machine.exchange is not None and not virtual:
        h, messages, words, items = counted
        before, ways, waiting = row[SECONDS], int(row[WAYS]), others_waited(row[SECONDS], row[MEAN], machine.p)
        of_each = index_words(indices, machine.p)
        exchange = machine.exchanging(h, messages, words, items, ways, before, since, fresh, waiting, of_each)
    else:
        exchange = machine.elapsed(0.0, *counted)
    return computing, of_parts + exchange


@hinting("ledger")
class Ledger(Records):
    """The records of all supersteps so far, combined over the processors.

    machine: whose parameters the predictions are made from.
    hosts: the name of each processor's host.
    router: the name of the run's.
    network: on which virtual processors met, as text: all times are its steps, not seconds; "": on none.
    virtual: whether the times are virtual.
    checkpoints: what they have cost, a `Checkpoint` of each.
    riding: words that rode in its supersteps (`ticket = collectives.allreduce.start(...)`), of all processors, by the
        number of the record and the name of the collective. They are among the record's words.
    index_bytes: of the indices of patterns that were made in its supersteps, of all processors, by the number of the
        record. They travel once, and count no words.
    parts: what the parts of the machine did in its supersteps (`bsp.split`): `PartTotals` by the number of the record.
    parts_after: what they have done after the last of these, which is in no record and no sum; None where nothing.
    kinds: flop by kind of work (`bsp.work(flops, kind="sort")`), of each the maximum over processors, by the number of
        the record; they are among the record's work. What they take in parts of the machine is in `PartTotals.charged`.
    after: seconds of computing after the last superstep, until the ledger was asked for or the program ended: of the
        processor that computes longest there, and on average. They are in no record and no sum, as in no superstep.

    Examples:
        >>> def main(bsp):
        ...     for label in "first", "second":
        ...         with bsp.superstep(label):
        ...             bsp.send(0, bsp.pid)
        >>> ledger = pybsp.simulate(main, machine=pybsp.BSPMachine(p=4, g=1e-8, l=1e-5, r=1e9)).ledger
        >>> ledger
        <ledger: 2 supersteps, h = 6 words in all>
        >>> [record.label for record in ledger], ledger.h
        (['first', 'second'], 6)
        >>> f"{ledger.predicted:.3g} s predicted, {ledger.measured:.3g} s measured"
        '2.01e-05 s predicted, 2.01e-05 s measured'
    """

    def __init__(
        self,
        machine: BSPMachine | EBSPMachine,
        log: Log,
        virtual: bool = False,
        parts: Mapping[int, PartTotals] = NO_PARTS,
        hosts: Sequence[str] = (),
        router: str = "",
        network: str = "",
    ) -> None:
        """What is combined in a log; what comes to it later changes nothing here."""
        self.machine, self.hosts, self.router, self.network = machine, hosts or [""] * machine.p, router, network
        self.parts = {number: one for number, one in parts.items() if number < log.combined}
        # What parts have done since the last superstep is of the next one, which has no record yet.
        self.parts_after = parts.get(log.combined)
        self.index_bytes = {number: words[INDICES] for number, words in log.riding.items() if INDICES in words}
        self.riding: Mapping[int, Mapping[str, int]] = _named(log.riding)
        self.kinds: Mapping[int, Mapping[str, float]] = {number: dict(flops) for number, flops in log.kinds.items()}
        self.after = log.after
        self._charges = log.charges  # only ever grows
        self.virtual = virtual
        self._chunks = list(log.pieces(0, log.combined))  # all but the last of `Log.ROWS` rows
        self._names = log.names  # only ever grows
        self._since, self._fresh = log.since, log.fresh  # only ever grow
        self.checkpoints = [Checkpoint(*one) for one in log.checkpoints]

    def __len__(self) -> int:
        return Log.ROWS * (len(self._chunks) - 1) + len(self._chunks[-1]) if self._chunks else 0

    def _at(self, number: int) -> Record:
        chunk, row = divmod(number, Log.ROWS)
        return self._record(number, self._chunks[chunk][row].tolist())

    def __iter__(self) -> Iterator[Record]:
        number = 0
        for chunk in self._chunks:
            for row in chunk.tolist():
                yield self._record(number, row)
                number += 1

    def _record(self, number: int, row: Sequence[float]) -> Record:
        """The record of a combined row, which has that number."""
        parts = self.parts.get(number)
        work = row[WORK]
        since, fresh, indices = self._since[number], self._fresh.get(number, 0), self.index_bytes.get(number, 0)
        computing, exchange = priced(self.machine, self.virtual, row, parts, since, fresh, indices)
        return Record(
            label=self._names[int(row[LABEL])],
            work=work,
            seconds=computing,
            messages=int(row[MESSAGES]),
            h_out=int(row[WORDS_OUT]),
            h_in=int(row[WORDS_IN]),
            h=int(max(row[WORDS_OUT], row[WORDS_IN])),
            M=int(row[WORDS]),
            predicted=computing + exchange,
            measured=row[MEASURED],
            items=int(row[ITEMS]),
            seconds_mean=row[MEAN],
            exchange_predicted=exchange,
            charged=self._charged(number, work),
            ways=int(row[WAYS]),
            parts=parts,
        )

    def _charged(self, number: int, work: float) -> float:
        """Seconds that the work charged in a superstep takes; of an older checkpoint by the maxima of all kinds."""
        if number in self._charges:
            return self._charges[number][0]
        return charged(self.machine, work, self.kinds.get(number, NO_KINDS))

    @property
    def total(self) -> Record:
        """The sums over all supersteps, as a record whose label is "total".

        What parts of the machine did is in its `parts`; of that nothing but their time is in its other figures.

        Examples:
            >>> machine = pybsp.BSPMachine(p=3, g=1e-8, l=1e-5, r=1e9)
            >>> total = pybsp.simulate(lambda bsp: bsp.sync(), machine=machine).ledger.total
            >>> total.label, total.supersteps, total.exchange, total.exchange_predicted
            ('total', 1, 1e-05, 1e-05)
        """
        return Supersteps(self, self.parts).total

    def totals(self) -> list[Record]:
        """The sums over the supersteps of each label, in the order in which the labels first come.

        Examples:
            >>> def main(bsp):
            ...     for label in "there", "back", "there":
            ...         with bsp.superstep(label):
            ...             bsp.send(0, bsp.pid)
            >>> [(total.label, total.supersteps, total.M) for total in pybsp.simulate(main, p=4).ledger.totals()]
            [('there', 2, 6), ('back', 1, 3)]
        """
        return Supersteps(self, self.parts).totals()

    def to_dict(self) -> dict[str, Any]:
        """The ledger as plain data: p, the machine, each superstep, the sums by label and of all (`Record.to_dict`).

        And what else a ledger file has: `after`, and where there is any `checkpoints`, `kinds`, `index_bytes`,
        `riding`, `parts_after`.

        Examples:
            >>> found = pybsp.simulate(lambda bsp: bsp.sync(), p=2).ledger.to_dict()
            >>> list(found), found["total"]["supersteps"]
            (['p', 'machine', 'virtual', 'units', 'supersteps', 'labels', 'total', 'after'], 1)
        """
        rows = Supersteps(self, self.parts)
        return {
            "p": self.machine.p,
            "machine": self.machine.as_json(),
            "virtual": self.virtual,
            "units": self._units,
            "supersteps": [record.to_dict() for record in self],
            "labels": [record.to_dict() for record in rows.totals()],
            "total": rows.total.to_dict(),
            **self._beside(),
        }

    @property
    def _units(self) -> dict[str, str]:
        return {**UNITS, "all times": "steps"} if self.network else UNITS

    def _beside(self) -> dict[str, Any]:
        """What there is beside the records, as plain data, of which nothing is left out but what is empty."""
        found = {
            "after": list(self.after),
            "checkpoints": [one._asdict() for one in self.checkpoints],
            "kinds": {str(number): dict(flops) for number, flops in self.kinds.items()},
            "index_bytes": {str(number): size for number, size in self.index_bytes.items()},
            "riding": {str(number): dict(words) for number, words in self.riding.items()},
            "parts_after": None if self.parts_after is None else self.parts_after._asdict(),
        }
        return {name: one for name, one in found.items() if one}

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write a line of comma-separated values for each superstep, below a line of the names; as `Record.to_dict`.

        Where parts of the machine did anything (`bsp.split`) there are columns of it, as `parts_h`: the fields of
        `PartTotals`, 0 in supersteps in which they did nothing. What is beside the records is not in it: kinds of work,
        what rode, indices of patterns, checkpoints, and what came after the last superstep; `to_dict` has it. Only the
        processor that calls it writes.

        Raises:
            UsageError: the path is none, or the file cannot be written.

        Examples:
            >>> pybsp.simulate(lambda bsp: bsp.sync(), p=2).ledger.to_csv("ledger.csv")
            >>> with open("ledger.csv") as file:
            ...     file.readline().split(",")[:3]
            ['label', 'work', 'seconds']
        """
        import csv  # nothing else needs it

        with writing(path_of("Ledger.to_csv", path, "the file to write"), f"Ledger.to_csv: {path}") as file:
            table = csv.writer(file, lineterminator="\n")
            quoting = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
            of_parts = [f"parts_{name}" for name in PartTotals._fields] if self.parts else []
            table.writerow((*Record._fields[:-1], *DERIVED, *of_parts))
            for record in self:
                # Half a character of UTF-16, which a label may have, is none of UTF-8.
                label = record.label.encode(errors="backslashreplace").decode()
                # By itself csv leaves a lone carriage return unquoted, which ends the line for who reads it.
                row = quoting if "\r" in label else table
                figures = record._replace(label=label, parts=None).to_dict().values()
                row.writerow((*figures, *((record.parts or NOTHING) if of_parts else ())))

    @property
    def rates(self) -> dict[str, float]:
        """Flop/s by kind of work, as this run has measured them in the supersteps that charged that kind alone.

        Not in those in which parts of the machine computed: their seconds are in the record's, their flop are not. The
        busiest processor's flop, over its seconds of computing: what a machine's `rates` are to be made of.

        Examples:
            >>> def main(bsp):
            ...     for kind in "sort", "count":
            ...         bsp.work(1000, kind=kind)
            ...         bsp.sync()
            >>> machine = pybsp.BSPMachine(p=2, g=0, l=0, r=1e6, rates={"sort": 2000})
            >>> {kind: round(rate) for kind, rate in pybsp.simulate(main, machine=machine).ledger.rates.items()}
            {'sort': 2000, 'count': 1000000}
        """
        sums: dict[str, tuple[float, float]] = {}
        for row, kinds in self.kinds.items():
            record = self[row]
            ((kind, flops), *others) = kinds.items()
            _, plain = self._charges.get(row, (0.0, record.work - flops))
            of_parts = 0.0 if record.parts is None else record.parts.seconds
            if not others and plain == of_parts == 0 and record.seconds > 0:
                before = sums.get(kind, (0.0, 0.0))
                sums[kind] = before[0] + flops, before[1] + record.seconds
        return {kind: flops / seconds for kind, (flops, seconds) in sums.items()}

    def predict(self, machine: BSPMachine, faster: float = 1.0) -> Prediction:
        """Predict what these supersteps take on another machine, all of them and label by label.

        Computing, also after the last superstep, is what it was in this run; what exchanges take follows by the
        machine's parameters, as `pybsp predict ledger.json` has it.

        Args:
            machine: with any p: that of the ledger is taken.
            faster: so many times as fast is its computing.

        Raises:
            UsageError: no BSPMachine, or one that was measured where nothing is sent; a `faster` that is no number
                above 0.

        Examples:
            >>> def main(bsp):
            ...     with bsp.superstep("all to 0"):
            ...         bsp.send(0, np.zeros(100))
            >>> here = pybsp.BSPMachine(p=3, g=1e-8, l=1e-5, r=1e9)
            >>> ledger = pybsp.simulate(main, machine=here).ledger
            >>> for there in here.scaled(g=10), here.scaled(l=2):
            ...     print(f"{ledger.predict(there).labels['all to 0'].time:.3g}")
            3e-05
            2.2e-05
        """
        from .prediction import of_ledger  # nothing else needs it

        return of_ledger("Ledger.predict", self, machine, faster)

    @property
    def predicted(self) -> float:
        """Seconds of all supersteps as predicted: computing as measured, exchange by the machine in force."""
        return sum(record.predicted for record in self)

    @property
    def measured(self) -> float:
        """Seconds of all supersteps as measured (see `Record.measured`)."""
        return float(sum(seconds for chunk in self._chunks for seconds in chunk[:, MEASURED].tolist()))

    @property
    def h(self) -> int:
        """Words: the sum of h over the supersteps; those of parts of the machine are in `total.parts`."""
        return sum(int(np.maximum(chunk[:, WORDS_OUT], chunk[:, WORDS_IN]).sum()) for chunk in self._chunks)

    def __repr__(self) -> str:
        return f"<ledger: {len(self)} supersteps, h = {self.h} words in all>"

    def _repr_html_(self) -> str:
        from .pictures import of_ledger  # a notebook alone needs it

        records, p = Supersteps(self, self.parts), self.machine.p
        return of_ledger(records, self.machine.as_json(), p, self.virtual, self.network)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a ledger file, of this run alone: `pybsp report` and `pybsp predict` read it, as those of `--ledger`.

        Only the processor that calls it writes. A file of that name is replaced once this one is whole.

        Raises:
            UsageError: the path is none, or the file cannot be written.

        Examples:
            >>> pybsp.simulate(lambda bsp: bsp.sync(), p=2).ledger.save("ledger.json")
            >>> import json
            >>> with open("ledger.json") as file:
            ...     [(run["p"], run["router"], len(run["supersteps"])) for run in json.load(file)["runs"]]
            [(2, 'direct', 1)]
        """
        from .ledger_file import append_run  # nothing else needs it

        file = path_of("Ledger.save", path, "the file to write")
        try:
            append_run(file, self.as_json(), first=True)
        except OSError as error:
            raise UsageError(f"Ledger.save: {path}: cannot be written ({error.strerror})") from error

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> list[Ledger]:
        """The ledgers of a ledger file, one of each run that it has.

        They predict anew, by the machine that the file has, as this pybsp does. What `--trace` has added to the file,
        and where and when its runs were but for the hosts, they have not.

        Raises:
            UsageError: the path is none, or that of no ledger file, which says what was expected in which field.

        Examples:
            >>> pybsp.simulate(lambda bsp: bsp.send(0, bsp.pid) or bsp.sync(), p=4).ledger.save("ledger.json")
            >>> (ledger,) = pybsp.Ledger.load("ledger.json")
            >>> ledger, ledger.machine.p
            (<ledger: 1 supersteps, h = 3 words in all>, 4)
        """
        from .ledger_file import read  # nothing else needs it

        runs = read(path_of("Ledger.load", path, "a ledger file"))["runs"]
        return [cls._of_run(run, f"ledger file {path}", f"runs[{number}]") for number, run in enumerate(runs)]

    @classmethod
    def _of_run(cls, run: Mapping[str, Any], origin: str, place: str) -> Ledger:
        """That of a run as `ledger_file.read` gives it."""
        records: Supersteps = run["supersteps"]
        model = EBSPMachine if "g1" in run["machine"] else BSPMachine
        machine = model.of_json(run["machine"], run["p"], origin, f"{place}.machine")
        kinds = {int(number): dict(flops) for number, flops in run.get("kinds", {}).items()}
        plain = {number: records[number].work - sum(flops.values()) for number, flops in kinds.items()}
        riding = {int(number): dict(words) for number, words in run.get("riding", {}).items()}
        for number, size in run.get("index_bytes", {}).items():
            riding.setdefault(int(number), {})[INDICES] = size
        log = Log()
        log.resume(
            {
                "rows": records.numbers()[:, [Supersteps.columns.index(name) for name in COMBINED]],
                "labels": records.names,
                "combined": len(records),
                "names": records.names,
                "checkpoints": [tuple(one.values()) for one in run.get("checkpoints", ())],
                "riding": riding,
                "rode": (),
                "kinds": ({}, kinds),
                "charges": {number: (records[number].charged, of_none) for number, of_none in plain.items()},
            }
        )
        log.after = tuple(run.get("after", log.after))
        after = {len(records): run["parts_after"]} if "parts_after" in run else {}
        parts, network = {**records.parts, **after}, run.get("network", "")
        return cls(machine, log, run["virtual"], parts, run["hosts"], run["router"], network)

    def about(self, circumstances: Mapping[str, Sequence[float]] = NOTHING_KNOWN) -> dict[str, Any]:
        """What one needs to know about where the ledger of a run was taken.

        Args:
            circumstances: of each processor its host's cores and load, and its threads, as CIRCUMSTANCES has them.
        """
        machine = self.machine
        return {
            "p": machine.p,
            "machine": machine.as_json(),
            "router": self.router,
            **({"parts": {number: one._asdict() for number, one in self.parts.items()}} if self.parts else {}),
            **self._beside(),
            "virtual": self.virtual,
            "hosts": list(self.hosts),
            **circumstances,
            "date": now(),
            "versions": versions(self.virtual),
            **({"network": self.network} if self.network else {}),
            "units": self._units,
        }

    def as_json(self, circumstances: Mapping[str, Sequence[float]] = NOTHING_KNOWN) -> dict[str, Any]:
        """The ledger of one run, with `about`, as a ledger file has it; the records are made as they are written."""
        return {**self.about(circumstances), "supersteps": map(of_file, self)}
