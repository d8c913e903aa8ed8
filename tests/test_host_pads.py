"""Small collectives of processors of several hosts: what each shows all others lies in heads, or on boards too."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pybsp.transport.host_pads import HeadPad
from pybsp.transport.neighbours import Neighbours
from pybsp.transport.wire import BORROWS, HEAD, LONGEST_HEAD, SHOWS, SOMETHING, WORD, status

from .launching import LIMIT, Program, ended_well, ranks, sessions_passed
from .test_aggregated import pretending

HERE = Path(__file__).parent
MESSAGES = {"PYBSP_SHARED": "0"}
NAMES = {"messages": "ByMessages", "mixed": "Mixed", "leaders": "Aggregated"}
MEDIA = {"messages": MESSAGES, "mixed": pretending(2, "0"), "leaders": pretending(2, "1")}


@pytest.fixture
def heads() -> Any:
    """Of one processor, which are never sent."""
    seen_off: list[int] = []
    found = SimpleNamespace(number=0, parts=[memoryview(bytearray(LONGEST_HEAD))], seen_off=seen_off)
    found.see_off = lambda _: seen_off.append(found.number)
    return found


@pytest.fixture
def pad(heads: Any) -> HeadPad:
    waiter: Any = None
    return HeadPad(heads, 0, waiter)


def test_a_head_is_as_long_as_the_largest_record_that_was_asked_for(heads: Any, pad: HeadPad) -> None:
    assert pad.taken() == WORD
    for sizes in ((0,), (16, 300), (300, 0, 16), (24,)):
        assert pad.taken() == WORD  # none yet, and not that of the last exchange
        for size in sizes:
            assert pad.parity(size) == 0
        assert pad.taken() == WORD + max(sizes)
    assert pad.shown() == (heads.parts, (WORD, WORD), LONGEST_HEAD - WORD)


def test_a_record_is_asked_for_anew_after_each_exchange_and_waits_for_none(heads: Any, pad: HeadPad) -> None:
    shown: list[tuple[int, int]] = []
    heads.show = lambda kind, size, _: shown.append((kind, size - WORD))
    for kind, sizes in enumerate([(16, 16), (HEAD - WORD,), (HEAD - WORD + 1, 16), (16,), ()]):
        for size in sizes:
            pad.parity(size)
        pad.show(kind)
    assert shown == [(0, 16), (1, HEAD - WORD), (2, HEAD - WORD + 1), (3, 16), (4, 0)]
    assert heads.seen_off == []


@pytest.mark.parametrize(("flags", "alike"), [(0, True), (BORROWS, True), (SOMETHING, False)])
def test_records_of_a_node_are_copied_and_are_all_there_is_where_nobody_says_anything(flags: int, alike: bool) -> None:
    words = [status(7, 3, SHOWS), status(7, 3, SHOWS | flags)]
    board: Any = SimpleNamespace(words=words, record=lambda k: memoryview(b"record %d" % k))
    pool: Any = SimpleNamespace(place=None)
    rows = [memoryview(bytearray(LONGEST_HEAD)) for _ in range(3)]
    neighbours = Neighbours(board, [0, 1, 2], 0, [0, 2], pool)  # processor 1 is on another node
    assert neighbours.records(7, rows) == alike
    assert not neighbours.records(6, rows)
    assert [bytes(row[WORD : WORD + 8]) for row in rows] == [bytes(8), bytes(8), b"record 1"]


# Values of all kinds and lengths, with and without something beside them; how many exchanges of which kind that takes.
SMALL = """
    import operator, os
    from collections import Counter
    import numpy as np, pybsp
    from pybsp import collectives
    from pybsp.transport.heads import Heads
    from pybsp.transport.leaders import Leaders

    counted = Counter()
    # Of heads, and of leaders, how many exchanges begin so; the last of these begins what another one does.
    for of, names in (Heads, "meet show send send_showing"), (Leaders, "meet show enter"):
        for name in names.split():
            def noting(*arguments, name=name, method=getattr(of, name)):
                counted[name] += 1
                return method(*arguments)
            setattr(of, name, noting)

    def main(bsp):
        p, pid = bsp.p, bsp.pid
        others = list(range(p))

        def all_agree(make):
            mine, theirs = make(pid), [make(k) for k in others]
            for k in others:
                assert np.array_equal(collectives.broadcast(bsp, mine, k), theirs[k])
            for shift in range(4):  # what comes behind each other is alike, and differs: old bytes would not do
                found = collectives.allgather(bsp, mine + shift)
                assert all(map(np.array_equal, found, [one + shift for one in theirs]))
            total = collectives.allreduce(bsp, mine, operator.add)
            assert np.array_equal(total, sum(theirs[1:], theirs[0]))
            assert np.array_equal(collectives.prefix(bsp, mine, operator.add), sum(theirs[1 : pid + 1], theirs[0]))
            if isinstance(mine, np.ndarray):
                blocks = collectives.allgather(bsp, collectives.reduce_scatter(bsp, 3 * mine, np.add))
                assert np.array_equal(np.concatenate(blocks), sum(3 * one for one in theirs[1:]) + 3 * theirs[0])
            collectives.broadcast(bsp, 0.0)  # a short record, behind what may have been a long one

        for words in (1, 2, 11, 12, 13, 14, 28, 30, 60, 62, 124, 126, 240, 250, 252, 253, 254, 255, 256, 300):
            all_agree(lambda k: np.arange(words) + 100.0 * k)
        for size in (0, 1, 7, 95, 96, 97, 1900, 2100):
            all_agree(lambda k: np.full(size, k, np.int8))
        for digits in (1, 18, 19, 20, 200, 250, 300, 1000, 5000):
            all_agree(lambda k: 10**digits + k)
        all_agree(lambda k: complex(k, 1))
        all_agree(lambda k: np.float32(k))
        for length in (1, 80, 100, 120, 500, 1000, 2000, 3000):
            assert collectives.broadcast(bsp, {"text": "." * length, "pid": pid}, p - 1)["pid"] == p - 1
            assert [one["pid"] for one in collectives.allgather(bsp, {"text": "." * length, "pid": pid})] == others

        # Some show what they have, and others send what has no room.
        for which in range(1 << p):
            size = 3000 if which >> pid & 1 else 10
            found = collectives.allgather(bsp, {"text": "." * size, "pid": pid})
            assert [(one["pid"], len(one["text"])) for one in found] == [
                (k, 3000 if which >> k & 1 else 10) for k in others
            ]

        # Values for each other one lie behind each other, with room between them that nobody writes.
        for size in range(1, 60):
            theirs = collectives.total_exchange(bsp, [np.full(size, 16 * pid + d + size, np.uint8) for d in others])
            assert [one.tolist() for one in theirs] == [[16 * s + pid + size] * size for s in others]
            mine = [bytes([pid, d]) * size for d in others]
            assert collectives.total_exchange(bsp, mine) == [bytes([s, pid]) * size for s in others]
            mine = [d for d in others] if size % 2 else [10**size * d for d in others]
            assert collectives.total_exchange(bsp, mine) == [mine[pid]] * p

        # The ledger has what it has of the same calls where they ride.
        def of(call):
            before = len(bsp.ledger)
            found = repr(call())
            bsp.sync()  # has the work after the last superstep
            return found, [(r.label, r.h_out, r.h_in, r.messages, r.M, r.work) for r in bsp.ledger[before:]]

        for call, *arguments in (
            (collectives.sort, 1.5 * (pid % 2)),
            (collectives.sort, 7 - pid),
            (collectives.sort, np.arange(3.0) - pid),
            (collectives.allreduce, 1.5 * pid, np.maximum),
            (collectives.reduce, pid, operator.add),
            (collectives.prefix, np.arange(3) * pid, np.add),
            (collectives.exclusive_prefix, pid, operator.add, 0),
            (collectives.reduce_scatter, np.arange(p) + pid, np.add),
            (collectives.argmax, np.arange(4) % (pid + 2)),
            (collectives.gather, pid),
            (collectives.scatter, [*others] if pid == 0 else None),
            (collectives.allgather_blocks, np.arange(pid)),
        ):
            rides = of(lambda: call.start(bsp, *arguments).finish())
            for _ in range(3):
                assert of(lambda: call(bsp, *arguments)) == rides, call

        # What is short takes heads that are there for good, what is longer some of its own.
        counted.clear()
        collectives.allreduce(bsp, 1.5, np.add)
        collectives.broadcast(bsp, 1.5)
        transport = bsp._superstep.transport
        medium = type(transport).__name__
        short = {"show": 2, "enter": 2} if medium == "Aggregated" else {"show": 2}
        assert counted == short, counted
        collectives.allreduce(bsp, np.ones(50), np.add)
        begins = "enter" if medium == "Aggregated" else "send_showing"
        assert counted == Counter(short) + Counter({"show": 1, begins: 1}), counted
        assert not transport._flight.leaving  # it is another exchange's to see off
        bsp.sync()
        bsp.sync()
        assert medium != "Aggregated" or transport._leaders._quiet  # nothing is shown any more

        # Beside them ride tickets, with more than a head has room for; mail waits for the program's sync.
        for size in (1, 100, 5000):
            ticket = collectives.total_exchange.start(bsp, [np.full(size, 10 * pid + d) for d in others])
            bsp.send((pid + 1) % p, "waits")
            assert collectives.allreduce(bsp, pid, np.add) == sum(others)
            assert [one.tolist() for one in ticket.value] == [[10 * s + pid] * size for s in others]
            ticket = collectives.total_exchange.start(bsp, [np.full(size, 10 * pid + d) for d in others])
            assert collectives.allreduce(bsp, np.full(40, pid), np.add).tolist() == [sum(others)] * 40
            assert [one.tolist() for one in ticket.value] == [[10 * s + pid] * size for s in others]
            for of in (float, int, complex, np.float32, np.uint16, np.bool_, np.complex64, np.longdouble):
                ticket = collectives.allreduce.start(bsp, np.full(size, pid), np.add)
                assert collectives.broadcast(bsp, of(pid + 1), p - 1) == of(p)
                ticket.finish()
                ticket = collectives.allreduce.start(bsp, np.full(size, pid), np.add)
                assert collectives.allreduce(bsp, of(1), operator.mul) == of(1)
                assert ticket.finish().tolist() == [sum(others)] * size
            bsp.sync()
            assert [m.payload for m in bsp.inbox] == ["waits"]
        with bsp.split(pid % 2) as part:
            assert collectives.allreduce(part, 1, operator.add) == part.p
            assert collectives.broadcast(part, np.full(50, pid)).tolist() == [pid % 2] * 50
        with bsp.split(pid == p - 1) as part:  # of which one may be alone on its node
            assert collectives.allreduce(part, 1, operator.add) == part.p
            assert collectives.prefix(part, 1, operator.add) == part.pid + 1
        group = bsp.group(range(pid % 2, p, 2))
        for k in range(3):
            assert collectives.allreduce(group, pid + k, operator.add) == sum(range(pid % 2, p, 2)) + k * group.p
            assert collectives.broadcast(group, np.full(50, pid)).tolist() == [pid % 2] * 50
        # The number of an exchange has 16 bits, and counts on.
        transport._persistent.number = (1 << 16) - 3
        for k in range(6):
            assert collectives.allreduce(bsp, pid + k, operator.add) == sum(others) + k * p
            assert collectives.allreduce(bsp, np.full(50, pid + k), operator.add).tolist() == [sum(others) + k * p] * 50
        return f"all agree: {medium}"

    found = pybsp.run(main)
    if int(os.environ.get("PMI_RANK", 0)) == 0:
        print(found)
"""


@pytest.mark.fast("2-messages", "3-mixed")
@pytest.mark.parametrize(
    ("p", "medium"),
    [(2, "messages"), (3, "messages"), (5, "messages"), (3, "mixed"), (4, "mixed"), (3, "leaders"), (5, "leaders")],
)
def test_values_of_all_lengths_are_shown_or_sent_beside_what_is(program: Program, p: int, medium: str) -> None:
    assert ended_well(ranks(p, program(SMALL), **MEDIA[medium])).startswith(f"all agree: {NAMES[medium]}\n")


# The calls of each run are numbered from 1: what was shown in the last one would be taken for a record of this one.
AGAIN = """
    import operator
    import numpy as np, pybsp
    from pybsp import collectives

    def main(bsp, call, size):
        p, pid = bsp.p, bsp.pid
        mine = {"text": "." * (size if pid == 0 else 10), "pid": pid}
        if call == "broadcast":
            return collectives.broadcast(bsp, np.full(size, 7.0) if pid == 0 else None).tolist() == [7.0] * size
        if call == "allgather":
            return [one["pid"] for one in collectives.allgather(bsp, mine)] == list(range(p))
        if call == "gather":
            found = collectives.gather(bsp, mine, p - 1)
            return found is None or [one["pid"] for one in found] == list(range(p))
        return collectives.allreduce(bsp, mine, lambda a, b: a)["pid"] == 0

    for call in ("broadcast", "allgather", "gather", "allreduce"):
        for size in (1, 3000, 2, 1, 3000):
            assert pybsp.run(main, call, size)
"""


@pytest.mark.whole
@pytest.mark.fast("mixed")
@pytest.mark.parametrize("medium", MEDIA)
def test_nothing_of_the_last_run_is_taken_for_a_record_of_this_one(program: Program, medium: str) -> None:
    ended_well(ranks(3, program(AGAIN), **MEDIA[medium]))


# In turn one processor does something else than all others: each is told so, and the next run finds nothing of it.
OTHERWISE = """
    import numpy as np, pybsp
    from pybsp import collectives
    CALLS = {
        "sync": lambda bsp: bsp.sync(),
        "allreduce": lambda bsp: collectives.allreduce(bsp, 1, np.add),
        "arrays": lambda bsp: collectives.allreduce(bsp, np.ones(40), np.add),
        "broadcast": lambda bsp: collectives.broadcast(bsp, np.ones(40)),
        "sent": lambda bsp: collectives.total_exchange(bsp, [np.ones(500)] * bsp.p),
    }
    def main(bsp, odd, rest, who):
        collectives.allreduce(bsp, 1, np.add)
        CALLS[odd if bsp.pid == who else rest](bsp)
        bsp.sync()
    def count(bsp):
        return collectives.allreduce(bsp, bsp.pid, np.add)
    tried = 0
    for odd in CALLS:
        for rest in CALLS:
            if odd != rest:
                try:
                    pybsp.run(main, odd, rest, tried % 3)
                except (pybsp.UsageError, pybsp.SyncError, pybsp.ProcessorError) as error:
                    assert "allreduce" in str(error) or "sync" in str(error) or "broadcast" in str(error), error
                    tried += 1
                assert pybsp.run(count) == 3
    assert tried == 20, tried
"""


@pytest.mark.whole
@pytest.mark.parametrize("medium", MEDIA)
def test_who_calls_something_else_is_told_from_records_and_the_next_run_goes_well(
    program: Program, medium: str
) -> None:
    ended_well(ranks(3, program(OTHERWISE), **MEDIA[medium]))


@pytest.mark.whole
@pytest.mark.parametrize("medium", MEDIA)
def test_collectives_pass_their_tests_on_several_hosts(tmp_path: Path, medium: str) -> None:
    files = ("broadcast", "collectives_misuse", "groups", "out", "prefix", "reduce", "rides", "scatter_gather", "split")
    paths = [str(HERE / "spmd" / f"test_{name}.py") for name in files]
    # With three on a board one is alone.
    settings = MEDIA[medium] if medium == "messages" else {**MEDIA[medium], "PRETENDED_NODES": "3"}
    sessions_passed(4, tmp_path, LIMIT, "--all", *paths, **settings)


# Processor 1 waits for its last record to leave, which it never does, as processor 0 leaves an exchange.
LEFT = """
    import signal
    import numpy as np, pybsp
    from pybsp import collectives
    def stop(*_):
        raise ValueError("stopped")
    signal.signal(signal.SIGALRM, stop)
    def main(bsp):
        collectives.allreduce(bsp, np.ones(5), np.add)
        if bsp.pid == 0:
            signal.setitimer(signal.ITIMER_REAL, 0.2)
        else:
            bsp._superstep.transport._heads.see_off = lambda waiter: waiter.until(lambda _: False, None)
        try:
            collectives.allreduce(bsp, np.ones(5), np.add)
        except BaseException as error:
            assert type(error) is (pybsp.ProcessorError if bsp.pid else ValueError), repr(error)
            assert "stopped" in str(error)
            raise
    try:
        pybsp.run(main)
    except (ValueError, pybsp.ProcessorError):
        assert pybsp.run(lambda bsp: collectives.allreduce(bsp, 1, np.add)) == 2
    else:
        raise AssertionError
"""


@pytest.mark.whole
def test_who_waits_for_a_record_to_leave_learns_that_another_one_has_failed(program: Program) -> None:
    ended_well(ranks(2, program(LEFT), **MESSAGES))
