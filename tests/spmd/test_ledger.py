"""The ledger: what each kind of traffic counts, labels, virtual time; equal on MPI ranks and virtual processors."""

from __future__ import annotations

import csv
import json
import pickle
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pybsp
from pybsp import collectives
from pybsp.ledger.combining import exchange_ledger
from pybsp.ledger.ledger_file import read
from pybsp.ledger.log import MEASURED, SECONDS, shares
from pybsp.ledger.records import PartTotals
from pybsp.ways import named
from tests.conftest import Spmd

from .programs import caught

Counts = tuple[str, float, int, int, int, int, int]


def counted(ledger: pybsp.Ledger) -> list[Counts]:
    """The figures that are counted, not measured."""
    return [(r.label, r.work, r.messages, r.h_out, r.h_in, r.h, r.M) for r in ledger]


def costs(spmd: Spmd, traffic: Callable[[pybsp.BSP, Any, Any], Any]) -> Counts:
    """What one superstep counts, in which `traffic(bsp, array, queue)` is called; the same on all processors."""

    def main(bsp: pybsp.BSP) -> Any:
        x, q = bsp.array((4, 6), np.int16), bsp.queue("S9")
        bsp.sync()
        traffic(bsp, x, q)
        bsp.sync()
        return counted(bsp.ledger)

    results = spmd(main)
    assert all(result == results[0] for result in results)
    assert len(results[0]) == 2
    assert results[0][0] == ("", 0.0, 0, 0, 0, 0, 0)  # making arrays and queues counts nothing
    return tuple(results[0][1])


PAYLOADS: dict[str, tuple[Any, int]] = {
    "int": (5, 1),
    "large int": (10**30, 1),
    "float": (1.5, 1),
    "complex": (1j, 1),
    "numpy int8": (np.int8(1), 1),
    "numpy longdouble": (np.longdouble(1), 1),
    "no bytes": (b"", 0),
    "one byte": (b"x", 1),
    "8 bytes": (b"12345678", 1),
    "9 bytes": (bytearray(9), 2),
    "array": (np.zeros(5, np.int16), 2),
    "empty array": (np.zeros(0), 0),
    "array of two axes": (np.zeros((3, 7)), 21),
    "strided array": (np.zeros(100, np.int8)[::3], 5),
    "str": ("hello", (len(pickle.dumps("hello", 5)) + 7) // 8),
    "list": ([1, 2, 3], (len(pickle.dumps([1, 2, 3], 5)) + 7) // 8),
    "long pickle": (list(range(3000)), (len(pickle.dumps(list(range(3000)), 5)) + 7) // 8),
}


@pytest.mark.parametrize(("payload", "words"), PAYLOADS.values(), ids=PAYLOADS.keys())
def test_a_message_counts_the_words_of_its_data_and_its_tag_none(spmd: Spmd, payload: Any, words: int) -> None:
    p = spmd.p

    def traffic(bsp: pybsp.BSP, _x: Any, _q: Any) -> None:
        bsp.send((bsp.pid + 1) % bsp.p, payload, tag=("a", "long", "tag"))

    assert costs(spmd, traffic) == (("", 0.0, 1, words, words, words, p * words) if p > 1 else ("", 0.0, 0, 0, 0, 0, 0))


def test_supersteps_add_up_to_the_time_that_went_by(spmd: Spmd) -> None:
    """Also where one processor is late in every other superstep, which by its own time would count twice."""

    def main(bsp: pybsp.BSP) -> tuple[list[float], list[float], list[float], bool | None]:
        x = bsp.array(1)
        bsp.sync()
        many = 20000 if bsp.pid == 0 else 0  # which the last processor adds up while the first goes on
        pattern = x.pattern(np.full(many, bsp.p - 1), np.zeros(many, np.int64))
        bsp.sync()
        clocks = [time.perf_counter()]
        before = len(bsp.ledger)
        clocks.append(time.perf_counter())
        for number in range(60):
            if number % 2:
                pattern.put(np.ones(many), np.add)
            bsp.sync()
        clocks.append(time.perf_counter())
        bsp.sync()
        clocks.append(time.perf_counter())
        records = list(bsp.ledger)[before:]
        one_clock = bsp._superstep.transport.one_clock
        return clocks, [record.measured for record in records], [record.exchange for record in records], one_clock

    clocks, measured, exchanges, one_clock = zip(*spmd(main), strict=True)
    assert min(exchanges[0]) >= 0
    assert len(set(one_clock)) == 1
    if one_clock[0] is not None:
        earliest, begun, computed, ended = (max(instants) for instants in zip(*clocks, strict=True))
        about = 1.0 if one_clock[0] else 1.15  # several are compared
        assert (computed - begun) / about <= sum(measured[0]) <= (ended - earliest) * about


@pytest.mark.parametrize("everybody", [True, False])
def test_computing_is_by_the_clock_of_all_in_every_round_of_a_ledger(
    spmd: Spmd, everybody: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last processor computes; what the others note of it is all in the rows of the same superstep."""
    monkeypatch.setattr(pybsp.ledger.log, "_GATHERED", 4 * spmd.p)  # rows of a round: 4 on each

    def main(bsp: pybsp.BSP) -> Any:
        lefts, enterings = [], []
        for _ in range(5 * bsp.p + 2):
            bsp.sync()
            lefts.append(time.perf_counter())
            while bsp.pid == bsp.p - 1 and time.perf_counter() < lefts[-1] + 1e-3:
                pass
            enterings.append(time.perf_counter())
        bsp.sync()
        exchange_ledger(bsp._superstep, bsp.machine, everybody)
        log = bsp._superstep.account.log
        rows = log.table(1)[:, [SECONDS, MEASURED]] if everybody or bsp.pid == 0 else None
        return lefts, enterings, rows, bsp._superstep.transport.one_clock

    lefts, enterings, rows, one_clock = zip(*spmd(main), strict=True)
    for of_one in rows if everybody else rows[:1]:
        if one_clock[0]:  # of several the difference is not known so exactly
            assert (of_one[:, 0] >= np.max(enterings, axis=0) - np.max(lefts, axis=0)).all()
        assert (of_one[:, 1] >= of_one[:, 0]).all()


@pytest.mark.parametrize("everybody", [True, False])
def test_what_is_computed_after_the_last_superstep_is_beside_the_records(spmd: Spmd, everybody: bool) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        bsp.sync()
        _compute(bsp, 5e-3 * (bsp.pid == bsp.p - 1))
        exchange_ledger(bsp._superstep, bsp.machine, everybody)
        return bsp._superstep.account.log.after

    after = spmd(main)
    for longest, mean in after if everybody else after[:1]:
        assert longest >= 5e-3 * (1 - 1e-9)
        assert longest / spmd.p * (1 - 1e-9) <= mean <= longest
        if not spmd.mpi:
            assert (longest, mean) == pytest.approx((5e-3, 5e-3 / spmd.p))


def test_what_is_computed_after_the_last_superstep_is_without_exchanges_of_parts(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        bsp.sync()
        with bsp.split(0) as part:
            for _ in range(10):
                _compute(part, 1e-3 * (part.pid == 0))  # the others wait for it, in an exchange
                part.sync()
        return bsp.ledger.after

    for longest, mean in spmd(main):
        assert longest >= 1e-2 * (1 - 1e-9)
        assert mean < 0.95 * longest or spmd.p == 1
        if not spmd.mpi:
            assert (longest, mean) == pytest.approx((1e-2, 1e-2 / spmd.p))


def _compute(bsp: pybsp.BSP, seconds: float) -> None:
    """For so long: on virtual processors it is charged."""
    bsp.work(seconds * bsp.machine.r)
    if not bsp._superstep.account.virtual:
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            pass


def test_what_parts_took_is_within_the_superstep_that_they_are_in(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        with bsp.split(0) as part:
            assert part is not None
            x = part.array(1)
            part.sync()
            many = 20000 if part.pid == 0 else 0  # which the last processor adds up while the first goes on
            pattern = x.pattern(np.full(many, part.p - 1), np.zeros(many, np.int64))
            part.sync()
            for number in range(30):
                if number % 2:
                    pattern.put(np.ones(many), np.add)
                part.sync()
        bsp.sync()
        return bsp.ledger[-1], bsp._superstep.transport.one_clock

    record, one_clock = spmd(main)[0]
    assert record.parts.supersteps == 32
    if one_clock is not None:
        assert record.parts.measured <= record.measured * (1.0 if one_clock else 1.15)


def test_what_is_sent_to_oneself_counts_nothing(spmd: Spmd) -> None:
    def traffic(bsp: pybsp.BSP, x: Any, q: Any) -> None:
        bsp.send(bsp.pid, np.zeros(100))
        q.send([bsp.pid] * 10, b"x")
        x.put(bsp.pid, 1)
        x.get(bsp.pid)

    assert costs(spmd, traffic) == ("", 0.0, 0, 0, 0, 0, 0)


def test_out_and_in_are_maxima_over_processors(spmd: Spmd) -> None:
    p = spmd.p

    def traffic(bsp: pybsp.BSP, _x: Any, _q: Any) -> None:
        bsp.send(0, np.zeros(bsp.pid + 1))  # all to processor 0

    into = sum(range(2, p + 1))
    assert costs(spmd, traffic) == ("", 0.0, p - 1, p if p > 1 else 0, into, into, into)


def test_what_a_queue_sends_to_a_processor_is_one_message(spmd: Spmd) -> None:
    p = spmd.p

    def traffic(bsp: pybsp.BSP, _x: Any, q: Any) -> None:
        q.send(np.arange(bsp.p).repeat(3), b"x")  # 9 bytes each: two words
        q.send([], [])
        q.send(np.arange(bsp.p), b"y")

    n = 4 * (p - 1)
    assert costs(spmd, traffic) == ("", 0.0, p - 1, 2 * n, 2 * n, 2 * n, 2 * n * p)


def test_items_of_queues_are_counted_apart(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        numbers, texts = bsp.queue(), bsp.queue("S2")
        with bsp.expect(messages=2 * (bsp.p - 1)):  # one of each queue to each
            numbers.send(np.arange(bsp.p).repeat(5), 1.0)
            texts.send(np.arange(bsp.p).repeat(2), b"x")
            bsp.sync()
        numbers.send(0, np.arange(3.0))  # all to processor 0
        bsp.send(0, 1)
        bsp.sync()
        bsp.sync()
        return [(r.messages, r.items, r.h) for r in bsp.ledger]

    n = spmd.p - 1
    assert spmd(main) == [[(2 * n, 7 * n, 7 * n), (2 * n, 3 * n, 4 * n), (0, 0, 0)]] * spmd.p


def test_an_item_is_predicted_by_what_an_item_costs(spmd: Spmd) -> None:
    machine = pybsp.BSPMachine(p=spmd.p, g=0.5, l=100.0, r=4.0, o_msg=0.25, o_item=0.125)

    def main(bsp: pybsp.BSP) -> Any:
        q = bsp.queue()
        q.send(np.arange(bsp.p).repeat(8), 1.0)
        bsp.sync()
        return [r.exchange_predicted for r in bsp.ledger]

    n = spmd.p - 1
    assert spmd(main, machine=machine) == [[0.5 * 8 * n + 100 + 0.25 * n + 0.125 * 8 * n]] * spmd.p


def test_a_put_counts_its_data_and_its_indices_none(spmd: Spmd) -> None:
    p = spmd.p

    def traffic(bsp: pybsp.BSP, x: Any, _q: Any) -> None:
        right = (bsp.pid + 1) % bsp.p
        x.put(right, 1, at=(slice(0, 3), slice(0, 3)))  # 18 bytes
        x.put(right, 2, at=(np.arange(4), np.arange(4)))  # 8 bytes
        x.put(right, 2, at=slice(0, 0))

    assert costs(spmd, traffic) == (("", 0.0, 2, 4, 4, 4, 4 * p) if p > 1 else ("", 0.0, 0, 0, 0, 0, 0))


def test_a_get_counts_at_its_source_and_its_request_none(spmd: Spmd) -> None:
    p = spmd.p

    def traffic(bsp: pybsp.BSP, x: Any, _q: Any) -> None:
        if bsp.pid == bsp.p - 1:
            x.get(0, at=np.arange(4))  # 48 bytes
            x.get(0, at=(0, 0))
            x.get(0, at=slice(0, 0))

    assert costs(spmd, traffic) == (("", 0.0, 2, 7, 7, 7, 7) if p > 1 else ("", 0.0, 0, 0, 0, 0, 0))


def test_a_get_of_everybody_from_one(spmd: Spmd) -> None:
    p = spmd.p

    def traffic(bsp: pybsp.BSP, x: Any, _q: Any) -> None:
        x.get(0, at=0)  # 12 bytes

    n = p - 1
    assert costs(spmd, traffic) == ("", 0.0, n, 2 * n, 2 * (p > 1), 2 * n, 2 * n)


def test_all_kinds_of_traffic_add_up(spmd: Spmd) -> None:
    p = spmd.p

    def traffic(bsp: pybsp.BSP, x: Any, q: Any) -> None:
        right = (bsp.pid + 1) % bsp.p
        bsp.send(right, np.zeros(3))
        q.send(right, b"x")
        x.put(right, 5, at=0)
        x.get(right, at=1)

    assert costs(spmd, traffic) == (("", 0.0, 4, 9, 9, 9, 9 * p) if p > 1 else ("", 0.0, 0, 0, 0, 0, 0))


def test_labels_and_work(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        bsp.work(10 * (bsp.pid + 1))
        bsp.work(5)
        bsp.sync()
        with bsp.superstep("outer"):
            bsp.sync()
            with bsp.superstep("inner"):
                bsp.work(7)
            bsp.work(3)
        with bsp.split(0) as part:
            part.work(1e6)
            part.sync()
        bsp.sync()
        bsp.work(99)  # after the last sync: no superstep
        return counted(bsp.ledger)

    labels = ["", "outer", "inner", "outer", "split", ""]
    work = [10.0 * spmd.p + 5, 0, 7, 3, 0, 0]
    expected = [(label, float(w), 0, 0, 0, 0, 0) for label, w in zip(labels, work, strict=True)]
    assert spmd(main) == [expected] * spmd.p


def test_a_part_has_a_ledger_of_its_own(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        bsp.sync()
        with bsp.split(bsp.pid % 2) as part:
            part.send((part.pid + 1) % part.p, 1)
            part.sync()
            for _ in range(bsp.pid % 2):
                part.sync()
            inside = counted(part.ledger)
        return inside, len(bsp.ledger)

    for pid, (inside, length) in enumerate(spmd(main)):
        n = len(range(pid % 2, spmd.p, 2))
        one = int(n > 1)
        assert inside == [("", 0.0, one, one, one, one, n * one)] + [("", 0.0, 0, 0, 0, 0, 0)] * (pid % 2)
        assert length == 2


def test_asking_for_the_ledger_is_no_superstep_and_may_be_repeated(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        lengths = [len(bsp.ledger)]
        for k in range(3):
            with bsp.superstep(f"step {k}"):
                bsp.send(0, k)
            lengths += [len(bsp.ledger), len(bsp.ledger)]
        inbox = [m.payload for m in bsp.inbox]  # still there
        ledger = bsp.ledger
        return lengths, [r.label for r in ledger], len(inbox), ledger[-1].label, [r.label for r in ledger[:2]], ledger.h

    labels = ["step 0", "step 1", "step 2"]
    for pid, result in enumerate(spmd(main)):
        assert result == (
            [0, 1, 1, 2, 2, 3, 3],
            labels,
            0 if pid else spmd.p,
            "step 2",
            labels[:2],
            3 * (spmd.p - 1),
        )


def test_what_is_predicted_is_the_exchange_and_charged_work_stands_beside_it(spmd: Spmd) -> None:
    machine = pybsp.BSPMachine(p=spmd.p, g=0.5, l=100.0, r=4.0, o_msg=0.25)

    def main(bsp: pybsp.BSP) -> Any:
        bsp.work(40 * (bsp.pid + 1))
        for dest in range(bsp.p):
            bsp.send(dest, np.zeros(2))
        bsp.sync()
        (record,) = bsp.ledger
        return record.exchange_predicted, record.charged, record.predicted - record.seconds

    n = spmd.p - 1
    exchange = 0.5 * 2 * n + 100 + 0.25 * n
    assert spmd(main, machine=machine) == [(exchange, 10.0 * spmd.p, pytest.approx(exchange))] * spmd.p


def test_charged_work_replaces_nothing_that_was_measured(spmd: Spmd) -> None:
    """Processor 0 computes for long and charges little, as does a collective for its own few flop."""

    def main(bsp: pybsp.BSP) -> Any:
        bsp.sync()
        left = time.perf_counter()
        if bsp.pid == 0:
            time.sleep(0.04)  # more than is asked for: what it waits for a core is taken off
        bsp.work(1)
        entering = time.perf_counter()
        bsp.sync()
        return left, entering, bsp.ledger[1]

    machine = pybsp.BSPMachine(p=spmd.p, g=1e-9, l=1e-6, r=1e9)
    lefts, enterings, records = zip(
        *spmd(main, machine=machine, **({} if spmd.mpi else {"measure": True})), strict=True
    )
    # On ranks from when the last has left the sync before: if that is late, others have computed long since.
    least = max(enterings) - max(lefts) if spmd.mpi else 0.02
    for record in records:
        assert record.charged == 1e-9
        assert least <= record.seconds <= record.measured
        assert record.predicted == record.seconds + 1e-6
        assert least / spmd.p <= record.seconds_mean <= record.seconds
        assert record.waiting == record.seconds - record.seconds_mean
        assert record.exchange == record.measured - record.seconds
        assert record.imbalance == 1 if spmd.p == 1 else record.imbalance >= 1


def test_totals_are_the_sums_by_label_and_of_all(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        for k in range(5):
            with bsp.superstep("odd" if k % 2 else "even"):
                bsp.work(k)
                bsp.send(0, np.zeros(k))
        bsp.sync()
        ledger = bsp.ledger
        plain = ledger.to_dict()
        same = [record.to_dict() for record in ledger] == plain["supersteps"]
        same &= [record.to_dict() for record in ledger.totals()] == plain["labels"]
        same &= ledger.total.to_dict() == plain["total"] and json.loads(json.dumps(plain)) == plain
        figures = [(t.label, t.supersteps, t.work, t.h, t.M) for t in (*ledger.totals(), ledger.total)]
        return figures, same, ledger.total.measured == pytest.approx(ledger.measured), list(plain["total"])

    n = spmd.p - 1
    expected = [("even", 3, 6.0, 6 * n, 6 * n), ("odd", 2, 4.0, 4 * n, 4 * n), ("", 1, 0.0, 0, 0)]
    names = [*pybsp.Record._fields[:-1], "exchange", "waiting", "imbalance"]
    assert spmd(main) == [([*expected, ("total", 6, 10.0, 10 * n, 10 * n)], True, True, names)] * spmd.p


def test_a_ledger_as_csv_has_a_line_for_each_superstep_and_so_has_a_parts(spmd: Spmd, tmp_path: Path) -> None:
    def main(bsp: pybsp.BSP, folder: str) -> Any:
        with bsp.superstep('a, "b"\nc'):
            bsp.send(0, np.zeros(3))
        with bsp.split(bsp.pid) as part:
            part.sync()
            own = part.ledger
        ledger = bsp.ledger
        name = f"{folder}/{bsp.pid}.csv"
        found = []
        for one in (ledger, own):
            one.to_csv(name)
            with open(name, newline="") as file:
                found.append(list(csv.DictReader(file)))
        same = [float(row["exchange"]) == record.exchange for row, record in zip(found[0], ledger, strict=True)]
        nowhere = caught(lambda: ledger.to_csv(f"{folder}/absent/ledger.csv"))
        return [(row["label"], int(row["M"])) for row in found[0]], len(found[1]), all(same), nowhere.kind, nowhere.text

    for rows, own, same, kind, text in spmd(main, str(tmp_path)):
        assert rows == [('a, "b"\nc', 3 * (spmd.p - 1)), ("split", 0)]
        assert (own, same, kind) == (1, True, pybsp.UsageError)
        assert re.match(r"Ledger\.to_csv: /.*/absent/ledger\.csv: cannot be written", text)


def test_a_ledger_as_csv_has_what_parts_did(spmd: Spmd, tmp_path: Path) -> None:
    def main(bsp: pybsp.BSP, folder: str) -> Any:
        with bsp.split(0) as part:
            part.work(100, kind="sort")
            part.send((part.pid + 1) % part.p, np.zeros(7))
            part.sync()
        bsp.sync()
        ledger, name = bsp.ledger, f"{folder}/{bsp.pid}.csv"
        ledger.to_csv(name)
        with open(name, newline="") as file:
            rows = list(csv.DictReader(file))
        found = [{name: float(row[f"parts_{name}"]) for name in PartTotals._fields} for row in rows]
        return found[0], found[1] == ledger.parts[1]._asdict(), ledger.parts[1].h, {len(row) for row in rows}

    for before, same, h, columns in spmd(main, str(tmp_path)):
        assert set(before.values()) == {0.0}
        assert (same, h) == (True, 7 * (spmd.p > 1))
        assert columns == {len(pybsp.Record._fields) + 2 + len(PartTotals._fields)}


@pytest.mark.parametrize("label", ["a\rb", "\r", 'a\r"b"', "a\r\nb"])
def test_a_carriage_return_in_a_label_comes_back_from_csv_and_others_are_written_as_without(
    tmp_path: Path, label: str
) -> None:
    def main(bsp: pybsp.BSP) -> None:
        for one in label, "plain":
            with bsp.superstep(one):
                bsp.send(0, bsp.pid)

    pybsp.simulate(main, p=2).ledger.to_csv(tmp_path / "ledger.csv")
    assert b"\r\n" not in (tmp_path / "ledger.csv").read_bytes().replace(label.encode(), b"")
    with (tmp_path / "ledger.csv").open(newline="") as file:
        first, second = csv.DictReader(file)
    assert first == {**second, "label": label}
    head, *_, plain, end = (tmp_path / "ledger.csv").read_bytes().split(b"\n")
    assert head.startswith(b"label,work,")
    assert plain.startswith(b"plain,0")
    assert end == b""


@pytest.mark.parametrize("path", [None, 3, b"x"])
@pytest.mark.parametrize(
    ("name", "whose"), [("to_csv", "the file to write"), ("save", "the file to write"), ("load", "a ledger file")]
)
def test_a_path_of_a_ledger_that_is_none_is_an_error(name: str, whose: str, path: Any) -> None:
    ledger = pybsp.simulate(lambda bsp: bsp.sync(), p=1).ledger
    with pytest.raises(pybsp.UsageError, match=rf"Ledger\.{name}: argument path: expected that of {whose}"):
        getattr(ledger, name)(path)


def test_a_ledger_that_is_saved_is_read_as_it_is_and_says_where_it_was_taken(spmd: Spmd, tmp_path: Path) -> None:
    """A part's has the hosts and the router of the part; another one later takes the file's place."""

    def main(bsp: pybsp.BSP, folder: str) -> Any:
        name = f"{folder}/{bsp.pid}.json"
        with bsp.split(bsp.pid % 2) as part:
            part.send(0, bsp.pid)
            part.sync()
            own = part.ledger
            own.save(name)
            inner = read(name)["runs"]
            (loaded,) = pybsp.Ledger.load(name)
            same = loaded.to_dict() == own.to_dict() and [*loaded] == [*own]
        with bsp.superstep("ring"):
            bsp.work(100, kind="sort")
            bsp.send((bsp.pid + 1) % bsp.p, [bsp.pid])
        ledger = bsp.ledger
        ledger.save(name)
        (outer,) = read(name)["runs"]
        same &= [*outer["supersteps"]] == [*ledger]
        (loaded,) = pybsp.Ledger.load(name)
        same &= loaded.to_dict() == ledger.to_dict() and loaded.parts == ledger.parts and loaded.hosts == ledger.hosts
        about = [len(run["hosts"]) for run in (*inner, outer)], {run["router"] for run in (*inner, outer)}
        nowhere = caught(lambda: ledger.save(f"{folder}/absent/ledger.json"))
        return same, *about, outer["kinds"], outer["virtual"], nowhere.kind, nowhere.text

    for pid, (same, hosts, routers, kinds, virtual, kind, text) in enumerate(spmd(main, str(tmp_path))):
        assert same
        assert hosts == [len(range(pid % 2, spmd.p, 2)), spmd.p]
        assert (routers, kinds, virtual) == ({"direct"}, {"1": {"sort": 100.0}}, not spmd.mpi)
        assert kind is pybsp.UsageError
        assert re.match(r"Ledger\.save: /.*/absent/ledger\.json: cannot be written \(No such file", text)


ALONE = pybsp.BSPMachine(
    4, g=1e-8, l=1e-5, r=1e9, o_msg=1e-6, g_way=(("put", 2e-8), ("making", 1e-7)), first=(("put", 3e-6),)
)


@pytest.mark.parametrize(
    "machine",
    [
        pybsp.BSPMachine(4, g=1e-8, l=1e-5, r=1e9, rates=(("sort", 1e8),), exchange=ALONE, calibrated=True),
        pybsp.BSPMachine(4, g=1e-8, l=1e-5, r=1e9, o_msg=1e-6, cost="max"),
        pybsp.EBSPMachine(4, g1=1e-8, g2=2e-8, s=1e-5, o_msg=1e-6),
    ],
    ids=["calibrated", "overlapping", "e-bsp"],
)
def test_a_ledger_that_is_loaded_has_and_predicts_what_the_saved_one_did(machine: Any, tmp_path: Path) -> None:
    def main(bsp: pybsp.BSP) -> None:
        ticket = collectives.allreduce.start(bsp, 1.0, np.add)
        bsp.work(100 * bsp.pid, kind="sort")
        bsp.work(50, kind="count")
        x = bsp.array(10)
        bsp.sync()
        with bsp.superstep("put"):
            x.put((bsp.pid + 1) % bsp.p, np.ones(5), at=slice(0, 5))
            bsp.work(3e4, kind="sort")
        pattern = x.pattern(np.full(3, (bsp.pid + 1) % bsp.p), np.arange(3))
        bsp.sync()
        assert ticket.value == bsp.p
        pattern.get()
        bsp.sync()
        with bsp.split(bsp.pid % 2) as part:
            part.send(0, np.zeros(7))
            part.work(10)
            part.sync()
        bsp.sync()
        with bsp.split(0) as part:
            part.sync()

    ledger = pybsp.simulate(main, machine=machine, measure=True).ledger
    there = (ledger.kinds, ledger.riding, ledger.index_bytes, ledger.parts, ledger.parts_after)
    assert all(there)
    ledger.save(tmp_path / "ledger.json")
    (loaded,) = pybsp.Ledger.load(tmp_path / "ledger.json")
    assert loaded.to_dict() == ledger.to_dict()
    assert [*loaded] == [*ledger]
    assert (loaded.machine.as_json(), loaded.rates, loaded.parts_after) == (
        machine.as_json(),
        ledger.rates,
        ledger.parts_after,
    )
    assert (loaded.predicted, loaded.measured, loaded.h) == (ledger.predicted, ledger.measured, ledger.h)
    assert loaded.riding == ledger.riding


@pytest.mark.parametrize("own", [0, 1])
def test_a_ledger_knows_of_how_many_processors_its_machines_figures_are(spmd: Spmd, own: int) -> None:
    machine = pybsp.BSPMachine(spmd.p + own, g=1e-8, l=1e-5, r=1e9)

    def main(bsp: pybsp.BSP) -> Any:
        bsp.sync()
        with bsp.split(0) as part:
            part.sync()
            of_part = part.ledger.machine.own_p
        ledger = bsp.ledger
        return ledger.machine.p, ledger.machine.own_p, ledger.to_dict()["machine"].get("p", 0), of_part

    figures_of = (spmd.p + 1) * own
    assert spmd(main, machine=machine) == [(spmd.p, figures_of, figures_of, figures_of)] * spmd.p


def test_rates_are_those_of_supersteps_that_charged_one_kind_alone_in_a_loaded_ledger_too(tmp_path: Path) -> None:
    def main(bsp: pybsp.BSP) -> None:
        for kinds in ("sort",), ("sort",), ("sort", ""), ("sort", "count"), ("",):
            for kind in kinds:
                bsp.work(100 * (bsp.pid + 1), kind=kind)
            bsp.sync()

    ledger = pybsp.simulate(main, machine=pybsp.BSPMachine(2, g=0, l=0, r=1e9, rates=(("sort", 1e8),))).ledger
    ledger.save(tmp_path / "ledger.json")
    (loaded,) = pybsp.Ledger.load(tmp_path / "ledger.json")
    assert loaded.rates == ledger.rates == {"sort": pytest.approx(1e8)}


def test_measured_seconds_are_there(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        before = bsp.time()
        bsp.sync()
        bsp.sync()
        ledger = bsp.ledger
        return [r.measured for r in ledger], ledger.measured, bsp.time() - before

    for measured, total, passed in spmd(main):
        assert all(0 < seconds < 60 for seconds in measured)
        assert total == sum(measured)
        assert passed > 0


def test_the_ledger_equals_that_of_virtual_processors(spmd: Spmd) -> None:
    """The counted figures of a program with every kind of traffic, at random."""

    def main(bsp: pybsp.BSP) -> Any:
        random = np.random.default_rng(bsp.pid)
        x, q = bsp.array(50, np.int16), bsp.queue(np.int32)
        bsp.sync()
        for k in range(6):
            with bsp.superstep("odd" if k % 2 else ""):
                bsp.work(float(random.integers(100)))
                for _ in range(random.integers(4)):
                    bsp.send(int(random.integers(bsp.p)), bytes(int(random.integers(40))))
                    bsp.send(int(random.integers(bsp.p)), list(range(random.integers(40))))
                    x.put(int(random.integers(bsp.p)), 1, at=slice(0, int(random.integers(50))))
                    x.get(int(random.integers(bsp.p)), at=random.integers(0, 50, random.integers(9)))
                q.send(random.integers(0, bsp.p, 20), 1)
        return counted(bsp.ledger), [r.items for r in bsp.ledger]

    on_this = spmd(main)
    simulated = pybsp.simulate(main, p=spmd.p)
    assert on_this == simulated.results
    assert on_this[0] == (counted(simulated.ledger), [r.items for r in simulated.ledger])


def test_a_long_ledger_is_that_of_each_superstep(spmd: Spmd) -> None:
    """More supersteps than a chunk of the log, or a round of combining, in pieces that were asked for at odd times."""

    def main(bsp: pybsp.BSP) -> Any:
        asked = (1, 1022, 1023, 1024)
        seen = []
        for k in range(1100):
            if k % 7 == 0:
                bsp.send((k + bsp.pid) % bsp.p, k)
            bsp.work(k + bsp.pid)
            if k % 100:
                bsp.sync()
            else:
                with bsp.superstep(f"hundred {k}"):
                    pass
            if k in asked:
                seen.append(bsp.ledger)
        ledger = bsp.ledger
        works = [record.work for record in ledger]
        labels = {record.label: n for n, record in enumerate(ledger) if record.label}
        same = all(list(early) == ledger[: len(early)] for early in seen)
        lengths = [len(early) for early in seen]
        some = [(ledger[n], ledger[n - 1100]) for n in (0, 1023, 1024, 1099)]
        outside = (caught(lambda: ledger[1100]).kind, caught(lambda: ledger[-1101]).kind)
        totals = ledger.h == sum(r.h for r in ledger), ledger.measured == sum(r.measured for r in ledger)
        return works, labels, same, lengths, all(a == b for a, b in some), outside, totals

    for works, labels, same, lengths, ends, outside, totals in spmd(main):
        assert works == [k + spmd.p - 1 for k in range(1100)]
        assert labels == {f"hundred {k}": k for k in range(0, 1100, 100)}
        assert same
        assert lengths == [2, 1023, 1024, 1025]
        assert ends
        assert outside == (IndexError, IndexError)
        assert totals == (True, True)


def test_rounds_share_all_supersteps_out_whatever_their_number() -> None:
    for p in (1, 2, 3, 64, 100, 5000, 100_000):
        for first, last in ((0, 0), (5, 6), (0, 1000), (70_000, 300_000)):
            at, rounds = first, 0
            while at < last:
                of = shares(at, last, p)
                assert 0 < len(of) <= min(p, 64)
                assert all((end - begin) * p <= max(1 << 16, p) for begin, end in of)
                for begin, end in of:
                    assert begin == at < end
                    at = end
                rounds += 1
                if rounds > 20:
                    break  # of very many processors
            assert at == last or rounds > 20
    assert shares(3, 3, 4) == []


def test_what_a_block_expects_counts_its_own_supersteps_though_the_ledger_was_asked_for(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        def block() -> None:
            with bsp.expect(h=0, supersteps=1, work=10 + bsp.pid):
                bsp.work(10 + bsp.pid)
                if bsp.p > 1 and bsp.pid == 0:
                    bsp.send(1, 5)
                bsp.sync()
                assert bsp.ledger[-1].work == 9 + bsp.p
                assert bsp.ledger[-1].h == int(bsp.p > 1)

        return caught(block).text

    for pid, text in enumerate(spmd(main)):
        assert ("h: expected at most 0, counted 1" in text) == (pid < 2 <= spmd.p)
        assert "work:" not in text
        assert "supersteps:" not in text


def test_every_superstep_of_a_collective_is_noted_with_the_way_it_goes(spmd: Spmd) -> None:
    def main(bsp: pybsp.BSP) -> list[int]:
        collectives.broadcast(bsp, np.arange(100_000.0) if bsp.pid == 0 else None, degree=2)
        bsp.sync()
        return [record.ways for record in bsp.ledger][:-1]

    for ways in spmd(main):
        assert all({"collective", "mail"} & set(named(one)) == {"collective"} for one in ways)
        assert bool(ways) == (spmd.p > 1)


def test_a_superstep_that_there_is_not_is_an_index_error_that_says_how_many_there_are() -> None:
    ledger = pybsp.simulate(lambda bsp: (bsp.sync(), bsp.sync()), p=2).ledger
    with pytest.raises(IndexError, match=r"ledger\[-3\]: expected an index from -2 to 1, of 2 supersteps"):
        ledger[-3]
    with pytest.raises(IndexError, match=r"ledger\[0\]: expected a superstep, but there is none"):
        pybsp.simulate(lambda bsp: None, p=2).ledger[0]
    with pytest.raises(
        TypeError, match=r"ledger\['label'\]: expected the number of a superstep, or a slice; ledger\.totals"
    ):
        ledger["label"]  # type: ignore[call-overload]


def test_no_superstep_took_longer_than_the_run(spmd: Spmd) -> None:
    """Whatever each of the processors has to say: those that have little go other ways than those that have much."""

    def main(bsp: pybsp.BSP) -> Any:
        begin, p, pid = time.perf_counter(), bsp.p, bsp.pid
        x, queue = bsp.register(np.zeros(40_000)), bsp.queue(np.float64)
        bsp.sync()
        calls: list[Callable[[], Any]] = [
            lambda: None,
            lambda: bsp.send((pid + 1) % p, 1.5),
            lambda: bsp.send((pid + 1) % p, {"of": pid}),
            lambda: queue.send((pid + 1) % p, 2.5),
            lambda: x.put((pid + 1) % p, 1.0, at=pid),
            lambda: x.put((pid + 1) % p, np.ones(40_000)),
            lambda: x.get((pid + 1) % p, at=3),
            lambda: bsp.array(3),
        ]
        for one in calls:
            for other in calls:
                (one if pid == 0 or one is calls[-1] or other is calls[-1] else other)()
                bsp.sync()
        seconds = [record.seconds for record in bsp.ledger]
        return min(seconds), max(seconds), time.perf_counter() - begin

    for least, most, elapsed in spmd(main, **({} if spmd.mpi else {"measure": True})):
        assert least >= 0
        assert most <= spmd.p * elapsed
