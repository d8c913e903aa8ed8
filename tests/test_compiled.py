"""The compiled core: it does to a board what its twin in Python does, and pybsp works without it and beside it."""

from __future__ import annotations

import re
import shutil
import time
from pathlib import Path
from threading import Event, Thread
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NoReturn, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from pybsp import ways
from pybsp.compiled import core
from pybsp.ground import chunk, short_records
from pybsp.machines.bsp import WAITS
from pybsp.transport import board, memory, waiting, wire
from pybsp.transport.board import Board
from pybsp.transport.waiting import Waiter

from .launching import ended_well, mpiexec, python, run

if TYPE_CHECKING:
    from pybsp.transport.window import Window

ROOT = Path(__file__).parent.parent
built = pytest.mark.skipif(core is None, reason="the compiled core was not built: no compiler, or PYBSP_COMPILED=0")

# Two processors' boards in one process: what they write, say and find, by a seed.
BOARDS = """
import random, sys, threading
from hashlib import sha256
from types import SimpleNamespace
import numpy as np
import pybsp.messages.mail  # tells the core what numpy's float is
from pybsp.ground.chunk import Chunk, pack_counts
from pybsp.transport.board import Board
from pybsp.transport.waiting import Waiter
from pybsp.transport.wire import AREA, CONTEXTS, board_bytes

def exchange(size, seed):
    draw = random.Random(seed)
    parts = [memoryview(bytearray(CONTEXTS * board_bytes(size))) for _ in range(size)]
    pool = SimpleNamespace(take=lambda size: None, place=lambda buffer: -1)
    window = SimpleNamespace(
        size=size, board=board_bytes(size), parts=parts, words=[part.cast("q") for part in parts], sync=None, pool=pool
    )
    boards = [Board(window, list(range(size)), own, 0, 0, None, Waiter("yield")) for own in range(size)]
    logs = [Chunk() for _ in range(size)]
    for log in logs:
        log.memory = bytearray(8 * 1024)
    for _ in range(60):
        found = [None] * size
        what = draw.choice(["meet", "show", "record", "record", "say", "say", "differ"])
        # What all show, each its own; one time in four what one of them shows instead, and its signature; what they
        # expect of others, of whom, and which of them are in the same call.
        same = [1.5, np.float64(-2.5), np.int64(-7), 1 - (1 << 63), None, b"12345678", b"12345678abcdefgh"]
        shown = draw.choice([same[:4], same[4:5], same[5:6], same[6:]])
        shown = [draw.choice(shown) for _ in range(size)]
        signatures = [-(1 << 60)] * size
        if draw.random() < 0.25:
            odd = draw.randrange(size)
            shown[odd], signatures[odd] = draw.choice(same), draw.choice([-(1 << 60), 7])
        likes = [draw.choice([one, one, one, same[5]]) if type(one) is bytes else None for one in shown]
        wanted = [tuple(k for k in range(size) if k != own and draw.random() < 0.7) for own in range(size)]
        members = [draw.choice([tuple(k for k in range(size) if k != own), wanted[own]]) for own in range(size)]
        kinds = [7 if what == "differ" and k else 1 for k in range(size)]
        texts = []
        for own in range(size):
            of = [k for k in range(size) if k != own and draw.random() < 0.7]
            draw.shuffle(of)
            # As pickles, none of them begins as packed mail does.
            note = (b"p" + draw.randbytes(AREA))[: draw.choice([0, 1, 15, 16, 17, 500, AREA])]
            texts.append([(k, note if draw.random() < 0.3 else b"p" + draw.randbytes(draw.randrange(60))) for k in of])
        def work(own):
            board = boards[own]
            if what in ("meet", "differ"):
                found[own] = board.meet(kinds[own])
            elif what == "show":
                found[own] = board.show(1)
            elif what == "record":
                log, counts = logs[own], pack_counts(1, 2, 3, 4, own)
                given = (signatures[own], shown[own], likes[own], wanted[own], members[own])
                came = board.show_record(1, log, own, counts, *given)
                kinds_in = [type(one).__name__ for one in came] if type(came) is list else None
                found[own] = came, kinds_in, log.end, bytes(log.memory).count(counts)
            else:
                posted = board.post(1, dict(texts[own]), None, []) is not None
                late = [] if posted else board.enter(1, texts[own], [])
                gathered = board.gather(1)
                texts_in = gathered if gathered is None else [(k, bytes(text)) for k, text in gathered]
                found[own] = late, texts_in, board.number
                if gathered is None:
                    board.finish()
                    found[own] += (board.manifests(),)
        threads = [threading.Thread(target=work, args=(own,)) for own in range(size)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        print(what, found, sha256(b"".join(bytes(part[: board_bytes(size)]) for part in parts)).hexdigest())

for size in (2, 3, 5):
    exchange(size, size)
from pybsp.ground import chunk
from pybsp import ways
from pybsp.compiled import core
print("compiled", core is not None)
"""

SUPERSTEPS = """
import numpy as np, pybsp
from pybsp import collectives

def main(bsp):
    x, queue = bsp.array(5), bsp.queue(np.int64)
    bsp.sync()
    for k in range(20):
        tickets = [collectives.allreduce.start(bsp, bsp.pid + k, np.add) for _ in range(k % 3)]
        if k % 2:
            queue.send((bsp.pid + 1) % bsp.p, k)
        bsp.sync()
        assert queue.values.tolist() == [k] * (k % 2)
        assert [ticket.finish() for ticket in tickets] == [sum(range(bsp.p)) + k * bsp.p] * (k % 3)
        bsp.send((bsp.pid + k) % bsp.p, np.arange(k) * bsp.pid)
        x.put((bsp.pid + 1) % bsp.p, k)
        total = collectives.allreduce(bsp, bsp.pid + k / 3, np.add)
        bsp.sync()
        assert [len(message.payload) for message in bsp.inbox] == [k], bsp.inbox
        assert x.local.tolist() == [k] * 5
        assert total == sum(pid + k / 3 for pid in range(bsp.p))
        bsp.sync()

pybsp.run(main)
"""


INSTALLED = """
import sys
# An editable install finds its compiled modules for whatever is called pybsp.
sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in str(finder).lower()]
import numpy as np
import pybsp
from pybsp import collectives, compiled

assert pybsp.__file__.startswith({library!r}), pybsp.__file__
assert (compiled.core, compiled.stream, compiled.kernels(), compiled.goal(), compiled.stamps()) == (None,) * 5

def main(bsp):
    bsp.send((bsp.pid + 1) % bsp.p, np.full(3, bsp.pid))
    total = collectives.allreduce(bsp, 1.0, np.add)
    bsp.sync()
    return total, bsp.inbox[0].payload.tolist()

assert pybsp.run(main) in (None, (2.0, [1] * 3), (2.0, [0] * 3))
"""


def test_it_knows_the_layout_of_a_board() -> None:
    lines = re.findall(r"^#define ([A-Z_]+) +(\d+|\(1 << \d+\))(?: |$)", (ROOT / "pybsp" / "core.c").read_text(), re.M)
    known = {**vars(ways), **vars(chunk), **vars(memory), **vars(board), **vars(wire)}
    found = {name: eval(value) for name, value in lines if name in known}
    assert {"STATUS_EPOCH_SHIFT", "AREA", "ALIGN", "SEVERAL", "NUMBER_KIND", "COLUMNS", "BY_MAIL", "CROWDED"} <= set(
        found
    )
    assert found == {name: known[name] for name in found}
    kinds = re.search(r"^enum {(.*)};", (ROOT / "pybsp" / "core.c").read_text(), re.M)
    assert kinds is not None
    names = [name.strip() for name in kinds[1].split(",")]
    assert [getattr(short_records, name) for name in names] == list(range(5))


def test_waits_are_priced_by_how_long_it_looks_before_it_yields() -> None:
    (looking,) = re.findall(r"^#define LOOKING (\S+)", (ROOT / "pybsp" / "core.c").read_text(), re.M)
    assert pytest.approx(WAITS[0]) == float(looking) * waiting.TRIES


class Chunk(chunk.Chunk):
    """One of two rows, as a log turns to the next."""

    def __init__(self) -> None:
        super().__init__()
        self.turn()

    def turn(self) -> None:
        self.memory, self.end = bytearray(8 * 2 * chunk.COLUMNS), 0


class InPython(Chunk, chunk.Noting):
    note_row = chunk.Noting.note_row


@built
def test_it_notes_rows_as_python_does() -> None:
    for of in (notes := Chunk(), twin := InPython()):
        of.left, of.entered, of.work, of.label_number = 1.0, 1.5, 7.0, 3.0
        of.note_row(2.0, 2.25, chunk.pack_counts(4, 5, 6, 7, ways.BY_RECORD))
        assert (of.work, of.left, of.end) == (0.0, 2.25, chunk.COLUMNS)
        of.label_number = 0.0
    first = [3.0, 7.0, 0.5, 1.25, 4.0, 5.0, 6.0, 7.0, 0.0, 0.0, ways.BY_RECORD]
    assert np.frombuffer(notes.memory)[: chunk.COLUMNS].tolist() == first
    assert notes.memory == twin.memory
    for of in notes, twin:
        full = of.memory
        of.note_own(2.0, 3.0, 4.0, (1, 2, 3, 4), (5, 6, 7, 8))
        second = [2.0, 0.0, 0.75, 1.75, 1.0, 5.0, 2.0, 6.0, 3.0, 7.0, 4.0]
        assert np.frombuffer(full)[chunk.COLUMNS :].tolist() == second
        assert (of.end, bytes(of.memory)) == (0, bytes(len(full)))


@built
def test_rows_that_have_no_room_are_refused() -> None:
    notes = Chunk()
    for wrong in (0.0, 1.0, b""), (0.0, 1.0, None), (0.0, 1.0), ("", 1.0, chunk.NO_COUNTS):
        with pytest.raises(TypeError):
            notes.note_row(*cast("Any", wrong))
    for end in -1, 2 * chunk.COLUMNS, chunk.COLUMNS + 1:
        notes.end = end
        with pytest.raises(IndexError, match="no room for a row"):
            notes.note_row(0.0, 1.0, chunk.NO_COUNTS)
    assert notes.memory == bytes(len(notes.memory))


@built
def test_its_clock_is_that_of_python() -> None:
    parts = [memoryview(bytearray(wire.CONTEXTS * wire.board_bytes(1)))]
    window = SimpleNamespace(size=1, parts=parts, words=[part.cast("q") for part in parts], sync=None, pool=None)
    board, notes = Board(cast("Window", window), [0], 0, 0, 0, None, Waiter("yield")), Chunk()
    before = chunk.clock()
    assert board.meet(1, notes, 0.0, chunk.NO_COUNTS)
    assert before <= notes.entered <= notes.left <= chunk.clock()
    assert notes.end == chunk.COLUMNS


@built
@pytest.mark.parametrize("dtype", ["u1", "i4", "f8", "c16", "i4,f8"])
def test_it_deals_items_to_plain_sections_as_python_makes_them(dtype: str) -> None:
    assert core is not None
    rng = np.random.default_rng(1)
    head = bytes(wire.plain_text(9, None, 0, 1, 0, ()))
    texts: dict[int, bytearray] = {}
    expected: dict[int, list[NDArray[Any]]] = {dest: [] for dest in range(5)}
    for count in (1, 40, 3):
        dests = rng.integers(0, 5, count)
        items = np.frombuffer(rng.bytes(count * np.dtype(dtype).itemsize), dtype)
        assert core.deal(texts, dests, items, head, 2, 5)
        for dest, of_one in expected.items():
            of_one.append(items[dests == dest])
    texts_before = {dest: bytes(text) for dest, text in texts.items()}
    for wrong in ([0, 5], [-1, 0]):
        assert not core.deal(texts, np.array(wrong), np.zeros(2, dtype), head, 2, 5)
    assert not core.deal(texts, np.arange(4)[::2], np.zeros(2, dtype), head, 2, 5)  # in several pieces
    assert not core.deal(texts, np.array([0, 1]), np.zeros(2, dtype), head, 2, 65)  # of too many processors
    assert texts == texts_before
    for dest, of_one in expected.items():
        items = np.concatenate(of_one)
        assert texts[dest] == wire.plain_text(9, None, 2 * items.size, 1, items.size, [items.view(np.uint8)])


@built
def test_it_does_to_a_board_what_its_twin_does(tmp_path: Path) -> None:
    program = tmp_path / "boards.py"
    program.write_text(BOARDS)
    compiled, twin = (run(python(program), PYBSP_COMPILED=which) for which in ("1", "0"))
    found, said = ended_well(compiled).rsplit("compiled", 1), ended_well(twin).rsplit("compiled", 1)
    assert found[0] == said[0]
    assert (found[1].strip(), said[1].strip()) == ("True", "False")


def without_twins(monkeypatch: pytest.MonkeyPatch, waiter: Waiter, p: int = 2) -> Board:
    """A board of p processors, as the first sees it, whose twins fail."""

    def unexpected(*_: object) -> NoReturn:
        raise AssertionError("the twin was called")

    for name in ("_meet", "_met", "_show", "_shown"):
        monkeypatch.setattr(Board, name, unexpected)
    parts = [memoryview(bytearray(wire.CONTEXTS * wire.board_bytes(p))) for _ in range(p)]
    words = [part.cast("q") for part in parts]
    window = cast("Window", SimpleNamespace(size=p, parts=parts, words=words, sync=None))
    return Board(window, [*range(p)], 0, 0, 0, None, waiter)


@built
@pytest.mark.parametrize(("operation", "flags"), [("meet", 0), ("show", wire.SHOWS)])
def test_data_that_was_dropped_is_no_matter_for_the_twin(
    operation: str, flags: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = without_twins(monkeypatch, Waiter())
    one._got.append((0, 1, np.zeros(8, np.uint8)))
    one._lent.lend(0, [np.zeros(8, np.uint8)])
    one._theirs[0][1] = 1 << wire.STATUS_EPOCH_SHIFT | 7 | flags  # the other one is there already
    assert getattr(one, operation)(7) is True
    assert (one._got, one._lent.data) == ([], {})

    read = np.zeros(8, np.uint8)
    one._got.append((1, 1, read))
    with pytest.raises(AssertionError, match="twin"):  # what is still referred to has to be posted
        getattr(one, operation)(7)


@built
def test_who_waits_in_it_lets_other_threads_run_and_sees_what_comes_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "TURNS", 1 << 30)  # whatever else this machine does
    one = without_twins(monkeypatch, Waiter())
    waits = Event()

    def enter() -> None:
        waits.wait()
        one._theirs[0][1] = 1 << wire.STATUS_EPOCH_SHIFT | 7

    other = Thread(target=enter)
    other.start()
    waits.set()
    assert one.meet(7) is True
    other.join()


@built
def test_in_its_next_wait_the_waiter_learns_of_the_turns_of_others_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    waiter, turns, entering = Waiter(), [1], Event()
    found: list[tuple[float, float]] = []
    one = without_twins(monkeypatch, waiter)

    def learn(longest: float, last: float) -> int:
        found.append((longest, last))
        entering.set()
        return turns[0]

    monkeypatch.setattr(waiter, "turns", learn)
    with pytest.raises(AssertionError, match="twin"):
        one.meet(7)
    with pytest.raises(AssertionError, match="twin"):
        one.meet(7)
    (nothing, (longest, last)) = found
    assert (nothing, last) == ((0, 0), 0)  # the twin saw to the end of that wait
    assert longest > 0

    def enter(number: int) -> None:
        entering.wait()
        time.sleep(1e-3)
        one._theirs[0][number & 1] = number << wire.STATUS_EPOCH_SHIFT | 7

    turns[0] = 1 << 30
    while not found[-1][1]:  # this core may have been taken until the other one had entered
        entering.clear()
        other = Thread(target=enter, args=(one.number + 1,))
        other.start()
        assert one.meet(7) is True
        other.join()
    assert 0 < found[-1][1] <= found[-1][0]

    turns[0] = 0
    for _ in range(2):
        with pytest.raises(AssertionError, match="twin"):
            one.meet(7)
    assert found[-1] == (0, 0)  # it learns of each wait once


@built
def test_the_waiter_is_asked_once_in_a_wait_for_several_others(monkeypatch: pytest.MonkeyPatch) -> None:
    waiter, asked, entering = Waiter(), list[int](), Event()
    one = without_twins(monkeypatch, waiter, 3)

    def ask(longest: float, last: float) -> int:
        asked.append(one.number)
        entering.set()
        return 1 << 30

    def enter() -> None:
        entering.wait()
        for status in one._theirs:
            time.sleep(1e-3)
            status[1] = 1 << wire.STATUS_EPOCH_SHIFT | 7

    monkeypatch.setattr(waiter, "turns", ask)
    other = Thread(target=enter)
    other.start()
    assert one.meet(7) is True
    other.join()
    assert asked == [1]


@built
def test_who_has_sends_to_move_on_waits_for_others_in_the_twin_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "TURNS", 1 << 30)
    waiter = Waiter()
    waiter.moving.add(1)
    with pytest.raises(AssertionError, match="twin"):
        without_twins(monkeypatch, waiter).meet(7)


@built
def test_processors_with_it_and_without_it_meet(tmp_path: Path) -> None:
    program = tmp_path / "supersteps.py"
    program.write_text(SUPERSTEPS)
    launcher = mpiexec(1)
    plain = ["env", "PYBSP_COMPILED=0", *python(program)]
    ended_well(run([*launcher, *python(program), ":", *launcher[1:], *plain, ":", *launcher[1:], *python(program)]))


@pytest.mark.whole
def test_where_there_is_no_compiler_it_is_left_out_and_programs_run(tmp_path: Path) -> None:
    pytest.importorskip("setuptools")
    source, library, program = tmp_path / "source", tmp_path / "library", tmp_path / "program.py"
    built = shutil.ignore_patterns(".*", "*.so", "build", "*.egg-info", "__pycache__", "docs", "tests", "examples")
    shutil.copytree(ROOT, source, symlinks=True, ignore=built)
    program.write_text(INSTALLED.format(library=str(library)))
    # What installing does, without asking an index for what it needs to make a wheel.
    build = python("setup.py", "build", "--build-lib", str(library))
    ended_well(run(["env", "-C", str(source), "CC=no-compiler", *build], 120))
    assert not list(library.rglob("*.so"))
    ended_well(run([*mpiexec(2), "env", f"PYTHONPATH={library}", *python(program)]))
