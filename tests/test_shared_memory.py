"""Ranks of one node meet in shared memory: what is kept, what does not fit, what is refused; and its arena."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pybsp.errors import UsageError
from pybsp.processes import process
from pybsp.transport import lending, window
from pybsp.transport.arena import SMALLEST, SharedPool
from pybsp.transport.lending import Borrowed, Lent, same_until
from pybsp.transport.memory import Bytes
from pybsp.transport.wire import AGES, BLOCK_POWERS, BLOCKS, BY_MESSAGE

from .faults.injection import InjectedError
from .launching import Program, ended_well, in_turn, ranks
from .tiers import some

KEEPING = """
    import numpy as np, pybsp
    def main(bsp):
        p, pid = bsp.p, bsp.pid
        kept = []
        for k in range(30):
            for dest in range(p):
                bsp.send(dest, np.full(16_000 + 100 * k, 1000 * pid + k))
            bsp.sync()
            kept += [(m.source, k, m.payload) for m in bsp.inbox if (k + pid) % 3 == 0]
        return kept
    kept = pybsp.run(main)
    assert len(kept) == 10 * len({source for source, *_ in kept})
    pybsp.run(main)  # uses the memory again
    for source, k, payload in kept:
        assert (payload == 1000 * source + k).all() and payload.size == 16_000 + 100 * k
    if pybsp.run(lambda bsp: bsp.pid) == 0:
        print("kept")
"""

# The compiled core does then what it does where nothing is held; its twin says anew in each exchange what is.
HOLDING = """
    import gc
    import numpy as np, pybsp
    from pybsp import collectives
    from pybsp.compiled import core
    def main(bsp):
        p, pid, board = bsp.p, bsp.pid, bsp._transport.board
        said, post = [], board._post_borrowed
        def supersteps(count):
            for k in range(count):
                bsp.sync()
                assert collectives.allreduce(bsp, k, np.add) == k * p
                bsp.send((pid + 1) % p, k)
                bsp.sync()
                assert [m.payload for m in bsp.inbox] == [k]
        for turn in range(3):
            for dest in range(p):
                if (pid + dest) % 3 != turn:  # who sends to itself borrows nothing
                    bsp.send(dest, np.full(20_000 + turn, pid))
            bsp.sync()
            kept = [(m.source, m.payload) for m in bsp.inbox if m.source != pid]
            supersteps(70)
            board._post_borrowed = lambda parity: said.append(parity) or post(parity)
            supersteps(30)
            del board._post_borrowed
            assert core is None or len(said) <= 12 * (turn + 1), said  # where blocks of exchanges begin
            assert all(len(one) == 20_000 + turn and (one == source).all() for source, one in kept)
            others = [dest for dest in range(p) if dest != pid and (pid + dest) % 3 != turn]
            assert bool(board._lending) == bool(others), (turn, board._lending)
        kept.clear()
        supersteps(1)
        assert not board._lending
        return pid
    gc.collect()  # what was held before
    if pybsp.run(main) == 0:
        print("held")
"""

HELD_BY_TWO = {
    "what is held for long costs the exchanges nothing, and is given back": HOLDING,
    "what a program holds on to is not written over": KEEPING,
    "what is held after an attach can be read": """
        import numpy as np, pybsp
        from mpi4py import MPI
        kept = []
        for k in range(20):
            with pybsp.attach(MPI.COMM_WORLD) as bsp:
                bsp.send(1 - bsp.pid, np.full(20_000, k))
                bsp.sync()
                if k % 5 == 0:
                    kept.append(bsp.inbox[0].payload)
        assert [int(one.sum()) for one in kept] == [0, 100_000, 200_000, 300_000]
        if MPI.COMM_WORLD.rank == 0:
            print("kept")
    """,
    "what one sent to itself, or filled, can be read after an attach": """
        import numpy as np, pybsp
        from mpi4py import MPI
        with pybsp.attach(MPI.COMM_WORLD) as bsp:
            bsp.send(bsp.pid, np.arange(100000))
            room = bsp.room(1 - bsp.pid, 100000)
            room[:] = 1
            bsp.sync()
            own = next(m.payload for m in bsp.inbox if m.source == bsp.pid)
            bsp.sync()
        assert (own == np.arange(100000)).all() and (room == 1).all()
        if MPI.COMM_WORLD.gather(0) is not None:
            print("kept")
    """,
    "attaching again and again leaves no memory behind": """
        import numpy as np, pybsp
        from mpi4py import MPI
        maps = []
        for k in range(10):
            with pybsp.attach(MPI.COMM_WORLD) as bsp:
                queue = bsp.queue()
                queue.send(1 - bsp.pid, np.full(20_000, k))
                bsp.send(1 - bsp.pid, np.full(20_000, k))
                bsp.sync()
            assert (bsp.inbox[0].payload == k).all() and (queue.values == k).all() and len(queue) == 20_000
            maps.append(sum(1 for _ in open("/proc/self/maps")))
        assert maps[-1] < maps[2] + 5, maps
        if MPI.COMM_WORLD.gather(0) is not None:
            print("left")
    """,
    "what a part received is free when the run is over, without the garbage collector": """
        import gc
        import numpy as np, pybsp
        def main(bsp):
            with bsp.split(0) as part:
                part.send(1 - part.pid, np.full(100_000, 1.0))
                part.sync()
            del part
        gc.collect()
        gc.disable()
        for k in range(3):
            pybsp.run(main)
            used = pybsp.run(lambda bsp: bsp._transport.pool.used())
            assert not used, k
        gc.enable()
        if pybsp.run(lambda bsp: bsp.pid) == 0:
            print("over")
    """,
    "what was held after an attach is free at the next one": """
        import numpy as np, pybsp
        from mpi4py import MPI
        maps, kept = [], []
        for k in range(20):
            with pybsp.attach(MPI.COMM_WORLD) as bsp:
                bsp.send(1 - bsp.pid, np.full(20_000, k))
                bsp.sync()
                kept.append((k, bsp.inbox[0].payload))
            del bsp
            assert all((one == value).all() for value, one in kept)
            del kept[: -3 if MPI.COMM_WORLD.rank else -5]
            maps.append(sum("mpich" in line or "shm" in line for line in open("/proc/self/maps")))
        assert maps[-1] <= maps[7] + 1, maps
        if MPI.COMM_WORLD.gather(0) is not None:
            print("freed")
    """,
    "holding on to little keeps little": """
        import numpy as np, pybsp
        def main(bsp):
            kept = []
            for k in range(200):
                bsp.send(1 - bsp.pid, np.full(20_000, k))
                bsp.sync()
                if k % 90 == 0:
                    kept.append((k, bsp.inbox[0].payload))
                assert all((payload == number).all() for number, payload in kept)
            assert len(bsp._transport.board._lending) < 10
            kept.clear()
            bsp.sync()
            bsp.sync()
            assert not bsp._transport.board._lending
            return bsp.pid
        if pybsp.run(main) == 0:
            print("little")
    """,
    "a part that processors forget at different splits": """
        import gc
        import numpy as np, pybsp
        def main(bsp):
            contexts = []
            for late in (0, 1, 2):
                halves = bsp.split(0)
                with halves as part:
                    part.send(1 - part.pid, np.full(20_000, 7.0 + part.pid))
                    part.sync()
                    kept = part.inbox[0].payload
                del part
                names = [halves]
                del halves
                for turn in range(3):
                    if bsp.pid != late or turn:
                        names.clear()
                        gc.collect()
                    with bsp.split(0) as other:
                        contexts.append(other._superstep.context)
                    del other
                    for k in range(4):
                        bsp.send(1 - bsp.pid, np.full(20_000, 100.0 + k))
                        bsp.sync()
                        assert (kept == 8.0 - bsp.pid).all(), (late, turn, kept[:3])
                assert max(contexts) <= 2, contexts
                del kept
                with bsp.split(0):
                    pass
                bsp.sync()
                bsp.sync()
                assert not bsp._transport.board._lending
            return bsp.pid
        if pybsp.run(main) == 0:
            print("parted")
    """,
    "a window of what came last moves on, and what it leaves behind is free": """
        from collections import deque
        import numpy as np, pybsp
        from pybsp import collectives
        def main(bsp):
            first, lending = None, bsp._transport.board._lending
            for depth, more in (70, 40), (400, 140):
                window = deque(maxlen=depth)
                for k in range(800):
                    bsp.send(1 - bsp.pid, np.full(16_000, k))
                    bsp.sync()
                    window.append((k, bsp.inbox[0].payload))
                    first = first or window[0]
                    if k % 7 == 0:
                        assert collectives.allreduce(bsp, k, np.add) == 2 * k
                    assert all((payload == number).all() for number, payload in (first, window[0], window[-1]))
                    # Of a block of exchanges the first are free with the last.
                    assert len(lending) < depth + more, (depth, k, len(lending))
            first = window = None
            bsp.sync()
            bsp.sync()
            assert not lending
            return bsp.pid
        if pybsp.run(main) == 0:
            print("moved")
    """,
    "a board is all zeros from the beginning, or its memory is refused": """
        from mpi4py import MPI
        from pybsp.transport import window
        from pybsp.transport.wire import AREA
        comm, populate = MPI.COMM_WORLD, window.populate
        def used_before(memory):
            memory[:] = bytes([255]) * len(memory)
            return True
        window.populate = used_before
        shared = window.Window(comm)
        assert not any(shared.parts[comm.rank][: shared.board - 2 * AREA])
        assert any(shared.parts[comm.rank][shared.board - 2 * AREA : shared.board])
        shared.free()
        window.populate = lambda memory: comm.rank == 0 or not len(memory)
        try:
            window.Window(comm)
        except MemoryError as error:
            assert "it has no room for" in str(error), error
            if comm.rank == 0:
                print("refused")
        window.populate = populate
    """,
}
HELD_BY_THREE = {
    "a part whose board has no room on one processor meets by messages": """
        import numpy as np, pybsp
        from pybsp.transport import window
        def main(bsp):
            populate = window.populate
            window.populate = lambda memory: bsp.pid != 1 and populate(memory)
            for again in range(2):
                with bsp.split(0) as part:
                    here = part._transport.board is not None
                    part.send(0, np.full(100_000, part.pid))
                    part.sync()
                    got = [int(m.payload[-1]) for m in part.inbox]
                    assert got == ([0, 1, 2] if part.pid == 0 else []), got
                    assert here == bool(again), here
                window.populate = populate
            if bsp.pid == 0:
                print("done")
        pybsp.run(main)
    """,
    "what is dropped is given back, also where a part sees to it": """
        import gc, numpy as np, pybsp
        gc.collect()  # what other programs of the job have held in cycles
        def main(bsp):
            pid, board, whole = bsp.pid, bsp._transport.board, bsp.split(0)
            bsp.send(0, np.full(20_000, pid))
            bsp.sync()
            held = {message.source: message.payload for message in bsp.inbox if message.source}
            for _ in range(70):
                bsp.sync()
            with whole as part:
                part.send(0, np.full(20_000, pid))
                part.sync()
                other = [message.payload for message in part.inbox]
                for _ in range(10):
                    part.sync()
                held.pop(1, None)
                part.sync()
            for _ in range(2):
                bsp.sync()
            assert bool(board._lending) == (pid == 2), board._lending
            return pid, len(other)
        if pybsp.run(main) == (0, 3):
            print("dropped")
    """,
    # The first: parts that come later may take the memory of those before.
    "what a program holds on to is not written over": KEEPING,
    # Those of a part send much on the machine that it is a part of, with what they have of the part in their hands.
    "what arrived in a part is not written over after it": """
        import gc
        import numpy as np, pybsp
        def send(bsp, queue, number):
            for dest in range(bsp.p):
                bsp.send(dest, np.full(20_000, number))
                queue.send(dest, np.full(20_000, number))
            bsp.sync()
            return [(number, m.payload) for m in bsp.inbox] + [(number, queue.values)]
        def main(bsp):
            outer = bsp.queue(np.int64)
            with bsp.split(0, -bsp.pid) as part:
                kept = send(part, part.queue(np.int64), 1)
                with part.split(part.pid // 2) as inner:
                    kept += send(inner, inner.queue(np.int64), 2)
                kept += send(part, part.queue(np.int64), 3)
            del part, inner  # which would keep memory of theirs
            with bsp.split(0):  # a split gives back the parts that are forgotten
                pass
            gc.collect()  # a part and its queues refer to each other
            for number in range(4, 10):
                send(bsp, outer, number)
                assert all((view == was).all() for was, view in kept), number
        pybsp.run(main)
        if pybsp.run(lambda bsp: bsp.pid) == 0:
            print("kept")
    """,
    "what is held for long costs the exchanges nothing, and is given back": HOLDING,
}


@pytest.mark.parametrize(
    ("p", "programs", "printed"),
    [
        (2, HELD_BY_TWO, "held kept kept kept left over freed little parted moved refused"),
        (3, HELD_BY_THREE, "done dropped kept kept held"),
    ],
    ids=["2", "3"],
)
def test_what_is_held_stays_and_no_more_than_that(
    p: int, programs: dict[str, str], printed: str, program: Program
) -> None:
    assert ended_well(ranks(p, program(in_turn(programs)))).split() == printed.split()


@given(
    st.lists(
        st.tuples(
            st.sampled_from([1, 1, 1, 2, 3, 31, 32, 33, 70, 300, 2600, 25_000]), st.integers(1, 3), st.integers(0, 60)
        ),
        max_size=60,
    )
)
def test_what_is_read_stays_lent_and_of_the_rest_no_more_than_its_block(steps: list[tuple[int, int, int]]) -> None:
    lent, borrowed, read = Lent(), Borrowed(1), dict[int, list[Bytes]]()
    word = until = number = 0
    for later, pieces, dropped in [*steps, (1, 1, 60), (1, 1, 60), (1, 0, 60)]:
        for sent in list(read)[dropped // 4 :: 1 + dropped % 3][: dropped // 2]:
            del read[sent]
        number += later
        there = borrowed.words(number)[0]
        if later == 1 and there == word and number < until:
            assert lent.word & ~(there | 1) == 0  # what the compiled one goes by
        lent.reclaim(number, there | 1)
        word, until = there, same_until(there, number)
        assert set(read) <= set(lent.data)
        for sent in set(lent.data) - set(read):
            place = lending.bit(sent, number).bit_length() - 1 - AGES
            power = (*BLOCK_POWERS, 40)[place // BLOCKS] if place >= 0 else 0
            assert any(other >> power == sent >> power for other in read), (number, sent, list(read))
        if pieces:
            data = [np.zeros(1, np.uint8) for _ in range(pieces)]
            lent.lend(number, data)
            read[number] = [one[:] for one in data]
            for k in range(pieces):
                borrowed.borrow(0, number, read[number][k])
    read.clear()
    assert borrowed.words(number + 1)[0] == 0
    lent.reclaim(number + 1, 0)
    assert not lent.data
    assert not lent.word


def left_at(line: int, call: Callable[[], object]) -> bool:
    """Whether a call has so many lines of lending.py; it is left by an exception at that one."""
    visited = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal visited
        if frame.f_code.co_filename != lending.__file__:
            return None
        visited += event == "line"
        if visited == line:
            sys.settrace(None)
            raise InjectedError
        return trace

    sys.settrace(trace)
    try:
        call()
    except InjectedError:
        return True
    finally:
        sys.settrace(None)
    return False


@pytest.mark.parametrize("drops", [False, True])
def test_where_an_exception_has_left_it_what_is_borrowed_is_given_back_when_it_is_dropped(drops: bool) -> None:
    def tried(line: int) -> bool:
        borrowed, data = Borrowed(1), [np.zeros(8, np.uint8) for _ in range(3)]
        borrowed.borrow(0, 1, data[0])
        if drops:
            borrowed.borrow(0, 1, data[1])
            del data[1:]
        going = left_at(line, lambda: borrowed.words(2) if drops else borrowed.borrow(0, 2, data[1]))
        borrowed.borrow(0, 2, data[-1])
        borrowed.words(3)
        assert len(borrowed.entries) >= 1
        del data[:]
        borrowed.words(200)
        assert len(borrowed.entries) <= drops  # of what is dropped as an exception comes one may be missed
        return going

    lines = next(line for line in range(1, 1000) if not tried(line))
    assert lines > 5


@given(st.integers(0, 30_000), st.integers(0, 20_000), st.sampled_from([1, 2, 3, 4, 16, 100, 1024, 5000]))
def test_both_sides_mean_the_same_data_by_a_bit(sent: int, age: int, later: int) -> None:
    """A word that has grown old is what it would be anew."""
    at, number = sent + age, sent + age + later
    word = lending.bit(sent, at)
    assert lending.aged(word, at, number) == lending.bit(sent, number)
    until = same_until(word, at)
    assert (until == 0) == (age < AGES)
    if until:
        assert lending.bit(sent, min(until - 1, at + 10_000)) == word


EXCHANGING = """
    import numpy as np, pybsp
    def main(bsp):
        p, pid = bsp.p, bsp.pid
        q, x = bsp.queue(np.int64), bsp.array(50_000)
        bsp.sync()
        for k in (1, 1000, 100_000, 1_000_000, 10):
            for dest in range(p):
                bsp.send(dest, np.full(k, pid), tag="x" * (k % 7919))
            q.send(np.arange(k) % p, np.arange(k))
            x.put((pid + 1) % p, np.full(50_000, k))
            ticket = x.get(pid)
            bsp.sync()
            assert [(m.source, m.payload.size, int(m.payload.sum())) for m in bsp.inbox] == [
                (source, k, source * k) for source in range(p)
            ]
            assert np.array_equal(q.values, np.tile(np.arange(pid, k, p), p))
            assert (x.local == k).all()
        with bsp.split(pid % 2) as part:
            part.send(0, np.full(100_000, pid))
            part.sync()
            assert [int(m.payload[0]) for m in part.inbox] == (list(range(pid % 2, p, 2)) if part.pid == 0 else [])
        if pid == 0:
            board = bsp._transport.board
            print(0 if board is None else len(board.words))
    pybsp.run(main)
"""


@pytest.mark.whole
def test_what_is_said_to_all_reaches_all_where_the_arena_is_full(program: Program) -> None:
    path = program("""
        import pybsp
        def main(bsp):
            for _ in range(1500):
                bsp.sync()
            return len(bsp.ledger)
        assert pybsp.run(main) == 1500
        if pybsp.run(lambda bsp: bsp.pid) == 0:
            print("said")
    """)
    assert ended_well(ranks(3, path, PYBSP_SHARED="8440000")) == "said\n"


@pytest.mark.fast("9300000-3")
@pytest.mark.parametrize(("size", "near"), [("", 3), ("9300000", 3), ("0", 0), ("5000", 0)])
def test_what_does_not_fit_goes_as_messages(program: Program, size: str, near: int) -> None:
    done = ranks(3, program(EXCHANGING), PYBSP_SHARED=size)
    assert ended_well(done) == f"{near}\n"
    said = "as shared memory is not to be had" in done.err
    assert said == (size == "5000"), done.err
    assert done.err.count("shared memory") <= 1


LARGE = """
    import numpy as np, pybsp
    from pybsp.compiled import core
    from pybsp.messages.mail import Mail
    short, lend = [], Mail.lend
    def watched(self, pid):
        found = lend(self, pid)
        short.append(found is not None)
        return found
    Mail.lend = watched

    def payloads(pid):
        x = np.arange(30_000.0) + pid
        pairs = np.array(9_000 * [(pid, 0.5)], np.dtype([("a", "<i4"), ("b", "<f8")]))
        return [
            [(x, None)],
            [(x[::2].astype(np.float32), "plain"), (x, 7), (x[1:], (pid, "pickled"))],
            [(x.astype("m8[s]"), None), (pairs, None)],
            [(bytes(30_000 + pid), b"tag"), (memoryview(x), None), (b"short", None)],
            [([x, x[:5]], None)],
            [(x, None), (2.5, None), (pid, None)],
            [(x[:3], None), (pid, None), (x, None), (x[:0], None), (2.5, None), (pid, None)],
        ]

    def seen(payload):
        if isinstance(payload, list):
            return [*map(seen, payload)]
        if isinstance(payload, np.ndarray):
            return str(payload.dtype), payload.shape, payload.tobytes()
        return type(payload).__name__, payload if isinstance(payload, (int, float)) else bytes(payload)

    def main(bsp):
        p, pid = bsp.p, bsp.pid
        found, stays = [], []
        def superstep():
            bsp.sync()
            found.append([(m.source, m.tag, seen(m.payload)) for m in bsp.inbox])
            stays.append([(m.payload, found[-1][k][2]) for k, m in enumerate(bsp.inbox) if len(stays) % 3 == pid])
            assert all(seen(payload) == as_it_came for of_one in stays for payload, as_it_came in of_one)
            if len(stays) % 4 == 0:
                stays[:] = [[] for _ in stays]
        for turn in range(4):
            for messages in payloads(pid):
                for dest in [d for d in range(p) if d != pid and d + turn != p]:  # in some turns not to all
                    for payload, tag in messages:
                        bsp.send(dest, payload, tag)
                superstep()
        assert core is None or not hasattr(bsp._transport, "board") or short == 28 * [True], short
        bsp.send((pid + 1) % p, np.full(30_000, pid))
        # The first goes into what is packed; the second has to move as the third comes.
        rooms = [bsp.room((pid + 2) % p, size) for size in (2, 20_000, 30_000)]
        for room in rooms:
            room[:] = pid + room.size
        superstep()
        assert not any(room.flags.writeable for room in rooms)
        if pid == 0:  # the others send nothing
            bsp.send(1, np.full(30_000, 1.5))
            bsp.send(2, np.full(30_000, 2.5), tag="two")
        superstep()
        bsp.send(pid, np.full(30_000, pid))  # to itself
        bsp.send((pid + 1) % p, np.full(30_000, pid))
        superstep()
        bsp.send((pid + 1) % p, np.full(30_000, pid), tag="x" * 200_000)  # longer than there is room for on a board
        superstep()
        array = bsp.array(3)
        bsp.sync()
        bsp.send((pid + 1) % p, np.full(30_000, pid))
        if pid == 0:
            array.put(1, 5.0)  # another way, beside that of the others
        superstep()
        found.append(array.local.tolist())
        counts = [(one.h_out, one.h_in, one.M, one.messages) for one in bsp.ledger]
        return found, counts

    result = pybsp.run(main)
    there = pybsp.simulate(main, p=3).results[pybsp.run(lambda bsp: bsp.pid)]
    assert result == there
    if pybsp.run(lambda bsp: bsp.pid) == 0:
        print("alike")
"""


@pytest.mark.parametrize("compiled", ["", "0"])
def test_large_mail_arrives_and_stays_and_counts_as_on_virtual_processors(program: Program, compiled: str) -> None:
    assert ended_well(ranks(3, program(LARGE), PYBSP_COMPILED=compiled)) == "alike\n"


@pytest.mark.whole
def test_what_a_queue_has_beside_other_mail_is_read_where_it_lies(program: Program) -> None:
    """However it was sent: as one array, or in pieces that the compiled core deals out."""
    path = program("""
        import numpy as np, pybsp
        from pybsp.transport import flight
        sent = []
        send = flight.InFlight.send
        def watched(self, messages, tag):
            sent.extend(messages)
            return send(self, messages, tag)
        flight.InFlight.send = watched
        def main(bsp):
            queue, other = bsp.queue(), 1 - bsp.pid
            bsp.sync()
            sent.clear()
            for pieces in (1, 6):
                for _ in range(pieces):
                    queue.send(np.full(6000 // pieces, other), np.ones(6000 // pieces))
                bsp.send(other, "beside")
                bsp.sync()
                assert queue.values.sum() == 6000
            return sent
        assert pybsp.run(main) == []
    """)
    ended_well(ranks(2, path))


@pytest.mark.parametrize("wrong", ["-1", "\u00b2", "1" * 5000])
def test_a_size_of_other_signs_than_digits_is_refused(monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    monkeypatch.setenv("PYBSP_SHARED", wrong)
    with pytest.raises(UsageError, match=f"^PYBSP_SHARED: expected a number of bytes, .*, got {wrong!r:.60}$"):
        window.configured_bytes()


def test_a_size_that_is_none_is_an_error(program: Program) -> None:
    done = ranks(2, program("import pybsp\npybsp.run(lambda bsp: None)"), PYBSP_SHARED="much")
    assert done.code
    assert "PYBSP_SHARED: expected a number of bytes" in done.err


@pytest.mark.whole
def test_a_context_is_used_again_by_other_parts(program: Program) -> None:
    path = program("""
        import numpy as np, pybsp
        def main(bsp):
            p, pid = bsp.p, bsp.pid
            rng = np.random.default_rng(1)
            for k in range(60):
                colors = rng.integers(0, 3, p)
                with bsp.split(int(colors[pid])) as part:
                    mine = [other for other in range(p) if colors[other] == colors[pid]]
                    for j in range(int(rng.integers(0, 4)) + int(colors[pid])):
                        for dest in range(part.p):
                            part.send(dest, np.full(16_000, pid + 10 * j))
                        part.sync()
                        assert [int(m.payload[-1]) for m in part.inbox] == [other + 10 * j for other in mine]
                        if part.p > 1 and j == 1:
                            with part.split(part.pid % 2) as inner:
                                inner.send(0, np.full(16_000, pid))
                                inner.sync()
                                assert len(inner.inbox) == (inner.p if inner.pid == 0 else 0)
            if pid == 0:
                print("done")
        pybsp.run(main)
    """)
    assert ended_well(ranks(5, path)) == "done\n"


# -- the arena ---------------------------------------------------------------------------------------------------------

ROOM = 1 << 20


def made() -> tuple[SharedPool, memoryview]:
    part = memoryview(bytearray(ROOM + 4096))
    return SharedPool(part, 4096, ROOM + 4096), part


@settings(max_examples=some(100), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1 << 19), st.integers(0, 6)), max_size=60))
def test_buffers_that_are_held_never_overlap(steps: list[tuple[int, int]]) -> None:
    pool, part = made()
    held: list[tuple[int, Any]] = []
    for number, (size, drop) in enumerate(steps):
        buffer = pool.take(size)
        assert buffer.size == size
        buffer[:] = number % 251
        at = pool.place(buffer)
        if size < SMALLEST:
            assert at == BY_MESSAGE
        if at != BY_MESSAGE:
            assert 4096 <= at <= ROOM + 4096 - size
            assert bytes(part[at : at + size]) == bytes([number % 251]) * size
            tail = buffer[size // 2 :]
            assert pool.place(tail) == at + size // 2
        held.append((number, buffer))
        del buffer
        del held[: drop if drop < 5 else 0]
        assert all((one == k % 251).all() for k, one in held)


def test_a_buffer_that_goes_while_another_is_made_leaves_it_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the garbage collector lets them go, at any moment; the new one gets the old one's id."""
    pool, _ = made()
    held: list[Any] = [pool.take(SMALLEST).base for _ in range(40)]  # not views, which would have ids of their own
    cut = pool._cut

    def cut_while_one_goes(extent: int) -> int:
        if len(held) > 20:
            del held[0]
        return cut(extent)

    monkeypatch.setattr(pool, "_cut", cut_while_one_goes)
    held.extend(pool.take(SMALLEST).base for _ in range(60))
    places = [pool.place(buffer[:]) for buffer in held]
    assert len(set(places)) == len(places)
    assert BY_MESSAGE not in places


def test_a_full_arena_gives_memory_of_its_own_and_empties_again() -> None:
    pool, _ = made()
    held = [pool.take(1 << 18) for _ in range(6)]
    assert [pool.place(one) != BY_MESSAGE for one in held] == [True] * 4 + [False] * 2
    del held
    whole = pool.take(ROOM)  # what lay in pieces is one piece again
    assert pool.place(whole) == 4096


def test_a_buffer_is_used_again() -> None:
    pool, _ = made()
    places = set()
    for size in (5000, 4200, 6000, 8000, 4097) * 20:
        places.add(pool.place(pool.take(size)))
    assert len(places) <= 2, places


def test_memory_of_others_has_no_place() -> None:
    pool, _ = made()
    assert pool.place(np.empty(5000, np.uint8)) == BY_MESSAGE
    assert pool.place(np.empty(5000, np.uint8)[10:]) == BY_MESSAGE


def test_what_no_memory_has_room_for_is_an_error_and_not_said_of_the_shared_memory(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(process, "speaks", lambda of: True)
    pool, _ = made()
    with pytest.raises(MemoryError):
        pool.take(1 << 60)
    assert "is full" not in capsys.readouterr().err
    pool.take(2 * ROOM)
    assert "is full" in capsys.readouterr().err
