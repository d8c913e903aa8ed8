"""Copies into memory that others read: the same bytes whichever way they are stored, and the way that is quicker."""

from __future__ import annotations

import re
import shutil
import subprocess
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pybsp
from pybsp.compiled import lay, scatter, stream
from pybsp.ground import copying
from pybsp.ground.copying import FILLED, LARGE, LEAST, LOOK, LOOKS, PATIENCE, SLOW, STREAMED, TRIES, Stores, copy
from pybsp.messages import mail

HEADERS = Path(sysconfig.get_paths()["include"])
built = pytest.mark.skipif(stream is None, reason="streaming copies were not built")
GUARD = 7


@built
@pytest.mark.parametrize("begin", [0, 1, 15, 16, 63])
@pytest.mark.parametrize("from_", [0, 1, 16])
@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 127, 128, 4096, 5000])
def test_streaming_copies_these_bytes_and_no_others(begin: int, from_: int, size: int) -> None:
    assert stream is not None
    room = np.full(size + 256, GUARD, np.uint8)
    at = -room.ctypes.data % 64 + begin
    source = np.random.default_rng(size).integers(0, 255, size + from_, np.uint8)
    stream(room[at : at + size], source[from_:])
    assert np.array_equal(room[at : at + size], source[from_:])
    assert (room[:at] == GUARD).all()
    assert (room[at + size :] == GUARD).all()


def test_the_core_has_the_same_constants() -> None:
    """It lays out texts on boards, by the same rules."""
    text = (Path(copying.__file__).parent / "streaming.h").read_text()
    for name in ("STREAMED", "SLOW", "TRIES", "LOOKS", "PATIENCE"):
        found = re.search(rf"^#define {name} +(.*?) *(/\*.*)?$", text, re.M)
        assert found is not None
        assert eval(found[1]) == vars(copying)[name]


@pytest.mark.skipif(not (shutil.which("cc") and (HEADERS / "Python.h").exists()), reason="no compiler, or no headers")
@pytest.mark.parametrize("source", ["core.c", "ground/copies.c"])
def test_it_compiles_for_processors_without_streaming_stores(source: str) -> None:
    """Where it does not, it is left out without a word."""
    path = Path(pybsp.__file__).parent / source
    command = ["cc", "-fsyntax-only", "-U__SSE2__", f"-I{HEADERS}", str(path)]
    assert subprocess.run(command, capture_output=True, text=True, timeout=60).returncode == 0


@built
def test_streaming_refuses_what_does_not_fit() -> None:
    assert stream is not None
    with pytest.raises(ValueError, match="expected buffers of one size, got 8 and 9"):
        stream(np.zeros(8, np.uint8), np.zeros(9, np.uint8))
    locked = np.zeros(8, np.uint8)
    locked.flags.writeable = False
    with pytest.raises((BufferError, TypeError, ValueError)):
        stream(locked, np.zeros(8, np.uint8))


@pytest.fixture(params=["plain", "streaming", "looking", "left out"])
def stores(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Stores:
    """Those of the process, in each state that they can be in."""
    state = Stores()
    state.streaming = request.param in ("streaming", "looking")
    state.looking, state.rates = request.param == "looking", [1.0] * TRIES * state.streaming
    monkeypatch.setattr(copying, "_stores", state)
    if request.param == "left out":
        monkeypatch.setattr(copying, "stream", None)
    return state


N = LEAST // 8
VALUES: dict[str, Callable[[], tuple[Any, Any]]] = {
    "few": lambda: (np.arange(7.0), np.zeros(7)),
    "numbers": lambda: (np.arange(N + 5.0), np.zeros(N + 5)),
    "rows": lambda: (np.arange(3.0 * N).reshape(3, -1), np.zeros((3, N))),
    "dates": lambda: (np.arange(N).astype("M8[s]"), np.zeros(N, "M8[s]")),
    "structures": lambda: (np.ones(N, "i4, f8"), np.zeros(N, "i4, f8")),
    "texts": lambda: (np.full(N, "text"), np.zeros(N, "U4")),
    "columns": lambda: (np.arange(4.0 * N).reshape(2 * N, 2)[:, 0], np.zeros(2 * N)),
    "another dtype": lambda: (np.arange(2 * N, dtype=np.int32), np.zeros(2 * N, np.int64)),
    "the other order of bytes": lambda: (np.arange(N + 1, dtype=">i8"), np.zeros(N + 1, "<i8")),
    "one for all": lambda: (np.float64(3.5), np.zeros(2 * N)),
    "a row for all": lambda: (np.arange(N + 0.0), np.zeros((2, N))),
    "as much as a look": lambda: (np.arange(LOOK // 8 + 1.0), np.zeros(LOOK // 8 + 1)),
    "large": lambda: (np.arange(LARGE // 8 + 3.0), np.zeros(LARGE // 8 + 3)),
}


@pytest.mark.parametrize("name", VALUES)
def test_a_copy_is_what_numpy_makes_of_it(name: str, stores: Stores) -> None:
    values, into = VALUES[name]()
    expected = into.copy()
    expected[...] = values
    for _ in range(TRIES + 2):  # in the state that the ones before lead to
        into[...] = np.zeros(1, into.dtype)
        copy(np.asarray(values), into)
        assert np.array_equal(into, expected)


class Clock:
    """Copies of N words, as slow as they are said to be."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.state, self.streamed, self._now, self._streaming = Stores(), 0, 0.0, 0.0
        monkeypatch.setattr(copying, "_stores", self.state)
        monkeypatch.setattr(copying, "clock", self._clock)
        monkeypatch.setattr(copying, "stream", self._stream)

    def _clock(self) -> float:
        return self._now

    def _stream(self, into: Any, source: Any) -> None:
        self.streamed += 1
        self._now += self._streaming * len(into)
        np.asarray(into)[...] = source

    def copies(self, number: int, plain: float, streaming: float) -> list[bool]:
        """Which of so many stream, where a byte takes so many seconds plainly, or streaming."""
        self._streaming = streaming
        found = []
        for _ in range(number):
            before = self.streamed
            looking = self.state.looking
            copy(np.ones(N), _Timed(self, plain))
            found.append(self.streamed > before)
            assert looking <= found[-1]
        return found

    def pass_by(self, seconds: float) -> None:
        self._now += seconds


class _Timed(np.ndarray[Any, Any]):
    """An array that a plain copy into takes time."""

    def __new__(cls, clock: Clock, plain: float) -> Any:
        made = np.zeros(N).view(cls)
        made.timed = (clock, plain)
        return made

    def __array_finalize__(self, of: Any) -> None:
        self.timed: tuple[Clock, float] = getattr(of, "timed", None)  # type: ignore[assignment]

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, value)
        clock, plain = self.timed
        part = self[key]
        clock.pass_by(plain * part.nbytes)


FAST = SLOW / 10


def test_where_plain_stores_are_slow_copies_stream_until_they_are_quick_again(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    assert clock.copies(5, plain=FAST, streaming=FAST) == [False] * 5
    assert clock.copies(TRIES, plain=2 * SLOW, streaming=FAST) == [False] * TRIES
    assert all(clock.copies(5 * LOOKS, plain=2 * SLOW, streaming=FAST))  # some have looked
    # Plain stores are quick again: one looks, and the next is plain.
    found = clock.copies(LOOKS, plain=FAST / 2, streaming=FAST)
    assert not found[-1]
    assert clock.copies(20, plain=FAST / 2, streaming=FAST) == [False] * 20
    # And slow, for good.
    assert sum(clock.copies(50, plain=2 * SLOW, streaming=FAST)) >= 50 - 3 * TRIES


def test_what_was_slow_for_a_while_streams_less_and_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    streamed = []
    for _ in range(40):
        found = clock.copies(6 * TRIES, plain=2 * SLOW, streaming=FAST)  # as beside other work
        streamed.append(sum(found + clock.copies(2 * LOOKS, plain=FAST / 2, streaming=FAST)))
    assert sum(streamed[20:]) < sum(streamed[:4])


def test_one_slow_copy_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    for _ in range(10):
        assert not any(clock.copies(TRIES - 1, plain=2 * SLOW, streaming=FAST))
        assert not any(clock.copies(1, plain=FAST, streaming=FAST))


def test_where_streaming_is_no_better_it_is_tried_less_and_less(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    found = clock.copies(4 * PATIENCE, plain=2 * SLOW, streaming=1.5 * SLOW)
    trials = np.flatnonzero(np.diff(np.array([False, *found]).astype(int)) == 1)
    assert sum(found) == TRIES * len(trials)
    apart = np.diff(trials)
    assert apart[0] == 3 * TRIES
    assert (np.diff(apart) >= 0).all()
    assert apart[-1] == PATIENCE + 2 * TRIES


def test_what_is_larger_than_caches_streams_and_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    values = np.ones(LARGE // 8)
    for _ in range(2 * LOOKS):
        copy(values, np.zeros(values.size))
    assert clock.streamed == 2 * LOOKS
    copy(np.ones(N), np.zeros(N), whole=LARGE)  # a piece of that
    assert clock.streamed == 2 * LOOKS + 1
    assert not clock.state.streaming
    assert not clock.state.rates


def test_a_look_is_of_the_first_bytes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    state = Stores()
    state.streaming = state.looking = True
    state.rates = [0.0] * LOOKS
    monkeypatch.setattr(copying, "_stores", state)
    monkeypatch.setattr(copying, "stream", lambda into, source: sizes.append((into.size, source.size)))
    values, into = np.arange(LOOK + 0.0), np.zeros(LOOK)
    copy(values, into)
    assert sizes == [(7 * LOOK,) * 2]
    assert np.array_equal(into[: LOOK // 8], values[: LOOK // 8])
    assert not state.looking
    assert state.streaming


@pytest.mark.parametrize("streaming", [False, True])
def test_what_programs_fill_lies_beside_where_copies_stream_and_now_and_then(
    streaming: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = Stores()
    state.streaming = streaming
    monkeypatch.setattr(copying, "_stores", state)
    monkeypatch.setattr(copying, "stream", lambda into, source: None)
    assert [size for size in (0, LEAST - 1, LARGE) if copying.beside(size)] == []
    assert sum(copying.beside(LEAST) for _ in range(4 * FILLED)) == (4 * FILLED if streaming else 4)
    monkeypatch.setattr(copying, "stream", None)
    assert not copying.beside(LEAST)


@pytest.mark.parametrize("lies_beside", [False, True])
def test_what_is_filled_in_place_arrives_wherever_it_lies(lies_beside: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mail, "beside", lambda size: lies_beside and size >= LEAST)

    def main(bsp: pybsp.BSP) -> Any:
        other = (bsp.pid + 1) % bsp.p
        found = []
        for turn in range(3):
            rooms = [bsp.room(other, shape) for shape in (3, 0, (2, N), N)]
            bsp.send(other, "between")
            rooms.append(bsp.room(other, 2 * N, "M8[s]"))
            for number, room in enumerate(rooms):
                room[...] = np.arange(room.size).reshape(room.shape) + 10 * bsp.pid + number + turn
            before = [room.copy() for room in rooms]
            bsp.sync()
            assert not any(room.flags.writeable for room in rooms)
            assert all(map(np.array_equal, rooms, before))
            found.append([one.payload for one in bsp.inbox])
            for number, payload in enumerate(one for one in found[-1] if not isinstance(one, str)):
                expected = np.arange(payload.size).reshape(payload.shape) + 10 * (1 - bsp.pid) + number + turn
                assert np.array_equal(payload, expected.astype(payload.dtype))
        return len(found[0])

    assert pybsp.simulate(main, p=2).results == [6, 6]


@pytest.mark.parametrize("size", [1, STREAMED // 8, 2 * STREAMED + 3])
@pytest.mark.parametrize("form", ["numbers", "other order", "rows", "columns"])
def test_a_record_gets_the_array(size: int, form: str) -> None:
    values = {
        "numbers": np.arange(size + 0.0),
        "other order": np.arange(size, dtype=">i4"),
        "rows": np.arange(6.0 * size).reshape(3, -1),
        "columns": np.arange(6.0 * size).reshape(-1, 3).T,
    }[form]
    into = np.ndarray(values.shape, values.dtype, np.zeros(values.nbytes + 24, np.uint8), 24)
    for _ in range(3 * LOOKS):  # whichever way they are stored
        into[...] = 0
        copying.record(values, into)
        assert np.array_equal(into, values)


PAGE = 4096


@built
@pytest.mark.parametrize("ahead", [0, 1, 16, 64, 65, PAGE - 1])
@pytest.mark.parametrize("size", [1, 2048, 2049, 5000, 8192 + 5])
def test_a_plain_copy_is_of_these_bytes_wherever_in_their_pages_they_lie(ahead: int, size: int) -> None:
    """Where one lies a little ahead of the other it is copied in pieces."""
    assert lay is not None
    room, source = np.full(size + 3 * PAGE, GUARD, np.uint8), np.zeros(size + 2 * PAGE, np.uint8)
    at, begin = -room.ctypes.data % PAGE + ahead, -source.ctypes.data % PAGE
    values = source[begin : begin + size]
    values[:] = np.random.default_rng(size).integers(10, 255, size, np.uint8)
    assert lay(room[at : at + size], values)
    assert np.array_equal(room[at : at + size], values)
    assert (room[:at] == GUARD).all()
    assert (room[at + size :] == GUARD).all()


@built
@pytest.mark.parametrize("dtype", ["f8", "f4", "i1", "c16", "S3", "M8[s]"])
@pytest.mark.parametrize(
    ("first", "step", "items"), [(0, 1, 12), (0, 1, 5), (3, 1, 1), (2, 3, 4), (11, 7, 1), (1, 10, 2)]
)
def test_values_are_scattered_as_numpy_writes_them(dtype: str, first: int, step: int, items: int) -> None:
    assert scatter is not None
    values = np.frombuffer(np.random.default_rng(items).integers(1, 100, 16 * items, np.uint8), dtype, items)
    found, expected = np.full(12, 7).astype(dtype).reshape(3, 4), np.full(12, 7).astype(dtype)
    expected[first : first + step * items : step] = values
    for text in (b"12345678" + values.tobytes(), memoryview(b"12345678" + values.tobytes() + b"9")):
        assert scatter(found, first, step, text, 8, values.nbytes)
        assert found.tobytes() == expected.tobytes()


@built
def test_where_values_cannot_be_scattered_nothing_is_written() -> None:
    assert scatter is not None
    array, text = np.zeros(12), bytes(range(1, 97))
    locked = array.copy()
    locked.flags.writeable = False
    most = (1 << 63) - 1
    for into, first, step, content, at, size in [
        (array, 0, 1, text, 8, 96),  # more than the text has
        (array, 8, 1, text, 0, 40),  # than the array has
        (array, 2, 5, text, 0, 24),
        (array, 12, 1, text, 0, 8),
        (array, 0, most, text, 0, 16),
        (array, most, 1, text, 0, 8),
        (array, 0, 1, text, most, 8),
        (array, 0, 0, text, 0, 8),
        (array, 0, -1, text, 0, 8),
        (array, -1, 1, text, 0, 8),
        (array, 0, 1, text, -8, 8),
        (array, 0, 1, text, 0, 7),  # no item
        (array, 0, 1, text, 0, 0),
        (array, 0, 1 << 64, text, 0, 8),
        (array[::2], 0, 1, text, 0, 8),
        (locked, 0, 1, text, 0, 8),
        (array, 0, 1, "text", 0, 1),
        (array, 0.5, 1, text, 0, 8),
    ]:
        before = into.copy()
        assert not scatter(into, first, step, content, at, size)  # type: ignore[arg-type]
        assert np.array_equal(into, before)
