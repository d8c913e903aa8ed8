"""Checkpoints: a run that is started again goes on, and ends as one that was never stopped."""

from __future__ import annotations

import errno
import fcntl
import gc
import io
import json
import mmap
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pybsp
from pybsp import cli, collectives
from pybsp.benchmarks.reliability import intervals, kills, random_program
from pybsp.checkpoints import asked, notice, record, restarts, saver
from pybsp.checkpoints.due import Every, daly, expected, parse
from pybsp.checkpoints.folder import Folder, lock
from pybsp.checkpoints.notice import ENDED
from pybsp.checkpoints.part import SavedPart, checksum, copy, read, write
from pybsp.checkpoints.plain import StateDecoder, StateEncoder
from pybsp.commands import run as running
from pybsp.ground import settings
from pybsp.ground.chunk import COLUMNS
from pybsp.layouts import Block, BlockCyclic, Cyclic, Layout
from pybsp.ledger import account
from pybsp.ledger.ledger_file import read as read_ledger
from pybsp.parts.totals import Stays
from pybsp.runs.replaying import replay
from pybsp.transport import END, SYNC, Arrival

from .launching import Program, ended_well, finish, mpiexec, python, run, start

PAUSED = """
    import os, sys, time
    import pybsp
    def main(bsp, supersteps, pause):
        state = bsp.restore({"step": 0, "total": 0})
        for step in range(state["step"], supersteps):
            bsp.send(0, step)
            bsp.sync()
            time.sleep(pause)
            state = {"step": step + 1, "total": state["total"] + sum(m.payload for m in bsp.inbox)}
            bsp.checkpoint(state)
            if step == 5:  # under way
                with open(f"{__file__}-{bsp.pid}", "w") as file:
                    file.write(str(os.getpid()))
        return state["total"]
    found = pybsp.run(main, int(sys.argv[1]), float(sys.argv[2]))
    print(f"[{found}]" if found else "")
"""


@pytest.fixture(autouse=True)
def no_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A notice that came in another test is not for this one."""
    monkeypatch.setattr(notice, "_come", set())


def again(folder: Path) -> Path:
    """A folder as another job would find it."""
    copy = folder.parent / f"{folder.name}-again"
    shutil.copytree(folder, copy)
    return copy


# -- states ------------------------------------------------------------------------------------------------------------


def round_trip(state: Any) -> Any:
    """A state, as it comes back."""
    encoder = StateEncoder({})
    tree = json.loads(json.dumps(encoder.state(state)))
    return StateDecoder([block.copy() for block in encoder.blocks], [], True, "file").value(tree)


class Thing:
    """What is not plain."""

    def __init__(self) -> None:
        self.array = np.arange(5.0)


PLAIN: list[Any] = [
    None,
    [
        True,
        1 << 64,
        1 - (1 << 64),
        1 << 90,
        -(1 << 90),
        -1,
        "text\n\x00é",
        b"\x00bytes",
        b"long" * 1000,
        1e-300,
        float("inf"),
        -0.0,
    ],
    {"a": (1, (2, [3])), "": {1: 2, (1, 2): "tuple"}},
    [complex(1, float("-inf")), np.float32(0.1), np.datetime64("2020-01-01"), np.dtype("<i2")],
    {"F": np.asfortranarray(np.arange(6.0).reshape(2, 3)), "zero": np.zeros((0, 3)), "scalar": np.array(3)},
    [np.str_(""), np.bytes_(b""), np.str_("text"), np.zeros(2, "U0")],
    np.array([(1, 2.5), (3, 4.5)], dtype=[("a", "<i4"), ("b", "<f8")]),
    np.arange(20, dtype=">u2")[::3],
]


@pytest.mark.parametrize("state", PLAIN, ids=str)
def test_plain_states_come_back_without_a_pickle(state: Any) -> None:
    encoder = StateEncoder({})
    assert "pickle" not in str(encoder.state(state)) + b"".join(b.tobytes() for b in encoder.blocks).decode("latin1")
    found = round_trip(state)
    assert type(found) is type(state)
    assert repr(found) == repr(state)
    if isinstance(state, np.ndarray):
        assert found.dtype == state.dtype
    if isinstance(state, dict) and "F" in state:
        assert found["F"].flags.f_contiguous
        assert found["zero"].shape == (0, 3)


@pytest.mark.parametrize("axes", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (1, 2, 0)], ids=str)
def test_an_array_keeps_its_order_in_memory(axes: tuple[int, ...]) -> None:
    """Sums go along memory: another order has other last bits."""
    array = np.random.default_rng(0).random((5, 6, 7)).transpose(axes)
    found, same, after = round_trip([array, array, (1, 2)])
    assert np.array_equal(found, array)
    assert found.strides == array.strides
    assert found is same
    assert after == (1, 2)
    found[:] = 0


VIEWS: dict[str, Callable[[Any], Any]] = {
    "backwards": lambda a: a[::-1],
    "each other row": lambda a: a[::2],
    "each other column": lambda a: a[:, :, ::2],
    "a part": lambda a: a[3:20, 2:19, 1:18],
    "of a transpose, backwards": lambda a: a.transpose(2, 0, 1)[::2, ::-1],
    "a diagonal": lambda a: np.einsum("iij->ji", a),
    "a row, backwards": lambda a: a[3, 4, ::-1],
    "all the same": lambda a: np.broadcast_to(a[:, 0, :, None], (21, 21, 3)),
}


@pytest.mark.parametrize("beside", [[], [{1}]], ids=["plain", "pickled"])
@pytest.mark.parametrize("view", VIEWS)
def test_a_view_of_an_array_has_the_sums_that_it_had(view: str, beside: list[Any]) -> None:
    array = VIEWS[view](np.random.default_rng(0).random((21, 21, 21)))
    found = round_trip([array, *beside])[0]
    assert np.array_equal(found, array)
    assert (found.dtype, found.flags.writeable) == (array.dtype, array.flags.writeable)
    sums = [one.sum() for one in (array, found)], [one.mean() for one in (array, found)], [array.std(), found.std()]
    for of_array, of_found in sums:
        assert of_array == of_found
    for axis in range(array.ndim):
        assert array.sum(axis).tolist() == found.sum(axis).tolist()


def test_texts_of_numpy_keep_the_zeros_at_their_ends() -> None:
    for text in (np.bytes_(b"z\0"), np.str_("z\0"), np.bytes_(b"\0"), np.str_("\ud800")):
        found = round_trip({"text": text})["text"]
        assert type(found) is type(text)
        assert found.item() == text.item()
        assert len(found) == len(text)


def test_a_record_that_comes_back_may_be_written_to() -> None:
    found = round_trip(np.zeros(2, "i4,f8")[1])
    found["f0"] += 1
    assert found.tolist() == (1, 0.0)


def test_dtypes_that_a_description_has_no_words_for_come_back_in_a_pickle() -> None:
    turned = np.zeros(4, [("a", "i4"), ("b", "i2")])[["b", "a"]]
    over = np.zeros(3, np.dtype({"names": ["a", "b"], "formats": ["i4", "i2"], "offsets": [0, 2]}))
    told = np.zeros(2, np.dtype("f8", metadata={"unit": "m"}))
    halves = np.arange(3).astype(np.dtype(("i4", [("low", "i2"), ("high", "i2")])))
    for state in (turned, over, told, halves):
        found = round_trip({"state": state})["state"]
        assert found.dtype == state.dtype
        assert found.tolist() == state.tolist()
    assert round_trip(told).dtype.metadata == {"unit": "m"}
    assert round_trip(np.zeros(2, np.dtype("i1, f8", align=True))).dtype.isalignedstruct


def test_an_int_has_as_many_digits_as_it_likes() -> None:
    state = {"huge": (1 << 20_000) + 1, -(1 << 20_000): [1 << 63, (1 << 64) - 1]}
    assert round_trip(state) == state
    thing = round_trip([Thing(), 1 << 20_000])  # in a pickle too
    assert thing[1] == 1 << 20_000


OBJECTS: list[Any] = [
    np.array([1, "a", None, [2]], dtype=object),
    np.array([(["a"], 1), (None, 2)], dtype=[("a", object), ("b", int)]),
    np.zeros((0, 2), dtype=object),
]


@pytest.mark.parametrize("state", OBJECTS, ids=range(len(OBJECTS)))
def test_arrays_of_objects_come_back_by_a_pickle(state: Any) -> None:
    found = round_trip({"objects": state, "plain": 1})["objects"]
    assert found.dtype == state.dtype
    assert found.tolist() == state.tolist()
    assert found.shape == state.shape


def test_a_text_that_utf_8_does_not_have_comes_back_as_it_was() -> None:
    pair = "\ud83d\ude00"  # two code points: JSON has them as it has the one character that they stand for elsewhere
    state = {"text": pair, pair: ["\ud800", "\U0001f600"]}
    assert round_trip(state) == state
    assert round_trip([Thing(), pair])[1] == pair  # in a pickle too


def test_a_float_keeps_its_bits() -> None:
    bits = np.array([0x7FF8000000000123, -0x7FFFFFFFFFFFFFFF], np.int64)
    values = bits.view(np.float64).tolist()
    assert np.array(round_trip(values)).view(np.int64).tolist() == bits.tolist()


def test_what_is_in_a_state_twice_is_one_thing_again() -> None:
    array = np.zeros(3)
    found = round_trip({"a": array, "b": [array], "inside": (inner := [1]), "again": inner})
    assert found["a"] is found["b"][0]
    assert found["inside"] is found["again"]
    generator, mine = np.random.default_rng(1), [1]  # a key that has things in it is numbered first
    by_key = round_trip({"keys": {generator: mine, (2, 3): generator}, "mine": mine, "generator": generator})
    assert by_key["mine"] == [1]
    assert next(iter(by_key["keys"])) is by_key["generator"] is by_key["keys"][2, 3]
    assert by_key["keys"][by_key["generator"]] is by_key["mine"]
    circle: list[Any] = []
    circle.append(circle)
    back = round_trip(circle)
    assert back[0] is back


def test_an_array_that_is_saved_elsewhere_is_itself_in_what_is_pickled_too() -> None:
    thing = Thing()
    encoder = StateEncoder({id(thing.array): 0})
    tree = encoder.state({"thing": thing, "array": thing.array})
    there = np.ones(5)
    found = StateDecoder([block.copy() for block in encoder.blocks], [there], True, "file").value(tree)
    assert found["thing"].array is there
    assert found["array"] is there


@pytest.mark.parametrize("bits", [np.random.PCG64, np.random.MT19937, np.random.Philox, np.random.SFC64])
def test_generators_go_on(bits: Any) -> None:
    draws, other = np.random.Generator(bits(7)), random.Random(7)
    draws.standard_normal(3), other.gauss(0, 1)
    back, back_other, same = round_trip([draws, other, draws])
    assert back is same
    assert back.random(5).tolist() == draws.random(5).tolist()
    assert back.spawn(1)[0].random() == draws.spawn(1)[0].random()
    assert [back_other.gauss(0, 1) for _ in range(3)] == [other.gauss(0, 1) for _ in range(3)]


def test_the_generators_of_the_process_go_on(tmp_path: Path) -> None:
    def main(bsp: pybsp.BSP, steps: int) -> Any:
        random.seed(1)
        np.random.seed(2)
        state: list[Any] = bsp.restore([])
        for _ in range(len(state), steps):
            state = [*state, (random.random(), random.gauss(0, 1), np.random.random(), np.random.normal())]
            bsp.sync()
            bsp.checkpoint(state)
        return state

    whole = pybsp.simulate(main, 5, p=1).results
    state_of(lambda bsp: main(bsp, 3), tmp_path / "a", p=1)
    assert state_of(lambda bsp: main(bsp, 5), again(tmp_path / "a"), p=1) == whole


def test_a_pickle_is_read_from_ones_own_file_alone() -> None:
    encoder = StateEncoder({})
    thing = Thing()
    tree = encoder.state({"thing": thing, "array": thing.array})
    back = StateDecoder(encoder.blocks, [], True, "file").value(tree)
    assert back["array"] is back["thing"].array
    with pytest.raises(pybsp.CheckpointError, match=r"^bsp.restore: file: the state in it is a pickle"):
        StateDecoder(encoder.blocks, [], False, "file").value(tree)


def test_bytes_of_a_file_are_never_taken_for_objects() -> None:
    encoder = StateEncoder({})
    tree = encoder.state(np.zeros(3)) | {"dtype": "'|O'"}
    with pytest.raises(pybsp.CheckpointError, match=r"expected a dtype of plain data in a checkpoint, got '\|O'"):
        StateDecoder(encoder.blocks, [], True, "file").value(tree)


# -- parts -------------------------------------------------------------------------------------------------------------


def test_every_bit_of_a_part_is_under_a_checksum(tmp_path: Path) -> None:
    path = tmp_path / "part"
    blocks = [np.arange(100, dtype=np.uint8), np.zeros(10_000, np.uint8), np.zeros(0, np.uint8)]
    written = write(path, {"tree": [1, "text"]}, blocks)
    part = read(path, written)
    assert part.tree == {"tree": [1, "text"]}
    assert [block.tolist() for block in part.blocks] == [block.tolist() for block in blocks]
    content = bytearray(path.read_bytes())
    used = [(12, 0)] + [(at, size) for at, size, _ in json.loads(content[content.index(b'{"tree":{') : -36])["blocks"]]
    gaps = {k for (a, n), (b, _) in pairwise(used) for k in range(a + n, b)}
    gaps |= set(range(used[-1][0] + used[-1][1], content.index(b'{"tree":{')))
    for bit in random.Random(1).sample(range(8 * len(content)), 300) + list(
        range(8 * len(content) - 400, 8 * len(content), 7)
    ):
        content[bit // 8] ^= 1 << bit % 8
        path.write_bytes(content)
        if bit // 8 not in gaps:
            with pytest.raises(pybsp.CheckpointError, match=str(path)):
                read(path, written)
        content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content[:-1])
    with pytest.raises(pybsp.CheckpointError, match=f"{path}: expected {written.bytes} bytes, got {written.bytes - 1}"):
        read(path, written)


@pytest.mark.parametrize("size", [0, 1, 8, 4095, 4096, 4104, 9001])
def test_the_checksum_sees_each_byte(size: int) -> None:
    data = np.arange(size, dtype=np.uint8)
    found = checksum(data)
    for at in range(0, size, 7):
        data[at] ^= 16
        assert checksum(data) != found
        data[at] ^= 16
    assert checksum(data[4096:], checksum(data[:4096])) == found or size < 4096


# -- when one is due ---------------------------------------------------------------------------------------------------


def test_every_says_how_often() -> None:
    assert parse("run", 7) == parse("run", " 7 ") == Every(supersteps=7)
    assert parse("run", "1.5min") == Every(seconds=90)
    assert parse("run", "mtbf=24h") == Every(mtbf=86400)
    for wrong in (0, -1, 1.5, True, "", "0s", "fast", "mtbf=", "mtbf=7", "24h=mtbf", "\u00b2", "1" * 5000, None):
        with pytest.raises(pybsp.UsageError, match=r"^run: argument every: expected a number of supersteps"):
            parse("run", wrong)


@pytest.mark.fast
@pytest.mark.parametrize("wrong", ["x", "\u00b2", "1" * 5000])
@pytest.mark.parametrize("name", [settings.CHECKPOINT_KEEP, settings.RECORD])
def test_a_variable_that_holds_no_number_is_refused(monkeypatch: pytest.MonkeyPatch, name: str, wrong: str) -> None:
    monkeypatch.setenv(name, wrong)
    with pytest.raises(pybsp.UsageError, match=f"^{name}: expected a .*, got {wrong!r:.60}"):
        asked.asked("run", ["folder"], None)


def test_the_interval_is_that_with_the_least_expected_time() -> None:
    for cost, mtbf in ((1.0, 1000.0), (10.0, 500.0), (0.01, 86400.0)):
        best = daly(cost, mtbf)

        def whole(interval: float, cost: float = cost, mtbf: float = mtbf) -> float:
            return expected([interval] * 200, cost, 5.0, mtbf) / (200 * interval)

        assert whole(best) <= min(whole(best * 0.8), whole(best * 1.25))


# -- runs --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [1, 3])
def test_a_random_program_goes_on_bit_for_bit(tmp_path: Path, p: int) -> None:
    first = tmp_path / "first"
    pybsp.simulate(random_program.main, 5, 17, 0.0, p=p, checkpoint=first, every=4)
    found = pybsp.simulate(random_program.main, 5, 40, 0.0, p=p, checkpoint=again(first), every="1ms")
    assert found.results[0] == random_program.expected(5, p, 40)
    numbers = list((first / "run-0").glob("0*"))
    assert len(numbers) == 2, "the last two are kept"


def state_of(main: Callable[[pybsp.BSP], Any], folder: Path, p: int = 2, **keywords: Any) -> list[Any]:
    return pybsp.simulate(main, p=p, checkpoint=folder, every=1, **keywords).results


def test_what_was_unread_and_what_was_put_is_there_again(tmp_path: Path) -> None:
    def main(bsp: pybsp.BSP, last: bool) -> Any:
        queue, x = bsp.queue(np.int16), bsp.array((bsp.pid, 2))
        state = bsp.restore({"x": x.local, "step": 0})
        assert state["x"] is x.local
        if not state["step"]:
            bsp.sync()
            x.put(1, [[1.5, 2.5]], at=slice(0, 1))
            queue.send([0, 1], bsp.pid)
            bsp.send(1, {"of": bsp.pid}, tag=(1, "tag"))
            bsp.send(1, np.arange(10_000) + bsp.pid)
            bsp.sync()
            bsp.checkpoint({**state, "step": 1})
        mail = [(m.source, m.tag, m.payload if isinstance(m.payload, dict) else m.payload.tolist()) for m in bsp.inbox]
        found = mail, queue.values.tolist(), queue.sources.tolist(), x.local.tolist(), state["step"]
        bsp.sync()
        assert not len(bsp.inbox)
        assert not len(queue)
        x.put(1, 3.0, at=(0, 0))  # it is registered
        bsp.sync()
        return found, len(bsp.ledger), bsp.ledger[1].h

    before = state_of(lambda bsp: main(bsp, False), tmp_path / "a")
    after = state_of(lambda bsp: main(bsp, False), again(tmp_path / "a"))
    assert before[1][0][0], "something is in the inbox"
    assert [found[:4] for found, _, _ in after] == [found[:4] for found, _, _ in before]
    assert [rest for _, *rest in after] == [rest for _, *rest in before]
    assert [found[4] for found, _, _ in after] == [1, 1]


UNREAD: dict[str, tuple[Any, Any]] = {
    "long pickle": ([np.arange(1 << 15), "text"], None),
    "short pickle": ({"a": 1}, None),
    "pickled tag": (1.0, (1, 2)),
    "plain": (np.arange(1 << 15), "tag"),
}


@pytest.mark.skipif(os.geteuid() != 0, reason="files are given to another user")
@pytest.mark.parametrize("kind", UNREAD)
def test_unread_messages_with_pickles_are_read_from_ones_own_file_alone(tmp_path: Path, kind: str) -> None:
    payload, tag = UNREAD[kind]

    def main(bsp: pybsp.BSP) -> int:
        if not bsp.restore(0):
            bsp.send(0, payload, tag=tag)
            bsp.sync()
            bsp.checkpoint(1)
        return len(list(bsp.inbox))

    assert state_of(main, tmp_path / "a", p=1) == [1]
    copy = again(tmp_path / "a")
    for path in copy.rglob("*"):
        os.chown(path, 12345, 12345)
    if kind == "plain":
        assert state_of(main, copy, p=1) == [1]
    else:
        with pytest.raises(pybsp.CheckpointError, match=r"0\.part: the inbox in it has a pickle, which is only read"):
            state_of(main, copy, p=1)


def test_a_damaged_checkpoint_is_noticed_and_the_one_before_is_used(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def main(bsp: pybsp.BSP, supersteps: int) -> Any:
        state = bsp.restore({"step": 0, "values": np.zeros(1000)})
        start = state["step"]
        for step in range(start, supersteps):
            bsp.sync()
            state["values"] += step
            state["step"] = step + 1
            bsp.checkpoint(state)
        return start, state["values"].sum().item()

    def at(supersteps: int, folder: Path) -> list[Any]:
        return pybsp.simulate(main, supersteps, p=2, checkpoint=folder, every=1).results

    whole = tmp_path / "whole"
    (_, total), _ = at(9, whole)
    newest = "run-0/000009"

    def flip(path: Path) -> None:
        content = bytearray(path.read_bytes())
        content[5000] ^= 4
        path.write_bytes(content)

    def edit(path: Path) -> None:
        path.write_text(path.read_text().replace('"superstep": 9', '"superstep": 8'))

    def deepen(path: Path) -> None:
        path.write_text("[" * 200_000)

    damages: list[tuple[str, Callable[[Path], None]]] = [
        ("1.part", flip),
        ("0.part", lambda path: path.unlink()),
        ("1.part", lambda path: os.truncate(path, 4096)),
        ("manifest.json", edit),
        ("manifest.json", deepen),
    ]
    for number, (name, damage) in enumerate(damages):
        folder = tmp_path / f"damaged-{number}"
        shutil.copytree(whole, folder)
        damage(folder / newest / name)
        assert at(9, folder) == [(8, total)] * 2, name
        assert str(folder / newest / name) in capfd.readouterr().err
        folder = tmp_path / f"damaged-{number}-twice"
        shutil.copytree(whole, folder)
        damage(folder / newest / name)
        damage(folder / "run-0/000008" / name) if name != "manifest.json" else shutil.rmtree(folder / "run-0/000008")
        with pytest.raises(pybsp.CheckpointError, match=rf"no checkpoint can be used: .*{name}.*to begin anew, remove"):
            at(9, folder)
    shutil.rmtree(whole / newest)  # it was never whole
    assert at(9, again(whole)) == [(8, total)] * 2


def test_what_is_not_the_same_program_is_refused(tmp_path: Path) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        x = bsp.array(3)
        state = bsp.restore(0)
        for _ in range(2):  # the older one is not tried: it would be no other program's
            bsp.sync()
            bsp.checkpoint(state + 1)
        return x.local.size

    def other(bsp: pybsp.BSP) -> Any:
        return bsp.restore(0)

    state_of(main, tmp_path / "a")
    with pytest.raises(
        pybsp.CheckpointError,
        match=r"^bsp.restore: \S*/000002: it is of .*main, not of \S*other; to begin anew, remove",
    ):
        state_of(other, again(tmp_path / "a"))
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    with pytest.raises(pybsp.CheckpointError, match=r"2 processors have saved it, and 3 are to go on"):
        state_of(main, tmp_path / "b", p=3)

    def changed(bsp: pybsp.BSP) -> Any:
        bsp.array(4)
        return bsp.restore(0)

    changed.__qualname__ = main.__qualname__
    shutil.copytree(tmp_path / "a", tmp_path / "c")
    with pytest.raises(
        pybsp.CheckpointError, match=r"array of float64, shape \(3,\); got array of float64, shape \(4,\)"
    ):
        state_of(changed, tmp_path / "c")


def refused(tmp_path: Path, main: Callable[[pybsp.BSP], Any]) -> str:
    with pytest.raises(pybsp.UsageError) as caught:
        state_of(main, tmp_path / "checkpoints")
    return str(caught.value)


def test_where_a_checkpoint_cannot_be(tmp_path: Path) -> None:
    def in_part(bsp: pybsp.BSP) -> None:
        bsp.restore(0)
        with bsp.split(0) as part:
            part.checkpoint(0)

    def with_mail(bsp: pybsp.BSP) -> None:
        bsp.restore(0)
        bsp.sync()
        bsp.send(0, 1)
        bsp.checkpoint(0)

    def begun(bsp: pybsp.BSP) -> None:
        bsp.restore(0)
        bsp.sync()
        bsp.begin()
        bsp.checkpoint(0)

    def riding(bsp: pybsp.BSP) -> None:
        bsp.restore(0)
        collectives.allreduce.start(bsp, 1.0, np.add, degree=2)
        bsp.checkpoint(0)

    def without_restore(bsp: pybsp.BSP) -> None:
        bsp.checkpoint(0)

    def twice(bsp: pybsp.BSP) -> None:
        bsp.restore(0)
        bsp.restore(0)

    def other_arrays(bsp: pybsp.BSP) -> None:
        bsp.restore(0)
        bsp.array(3)
        bsp.sync()
        bsp.checkpoint(0)

    def no_pickle(bsp: pybsp.BSP) -> None:
        bsp.restore(0)
        bsp.sync()
        bsp.checkpoint(lambda: 0)

    assert "bsp.checkpoint: expected the whole machine" in refused(tmp_path, in_part)
    assert "something was sent since the last sync (bsp.send)" in refused(tmp_path, with_mail)
    assert "bsp.begin() has ended the sending of this superstep" in refused(tmp_path, begun)
    with pytest.raises(pybsp.UsageError, match=r"bsp\.begin\(\) has ended the sending"):  # also where none is due
        pybsp.simulate(begun, p=2, checkpoint=tmp_path / "seldom", every=1000)
    assert "bsp.checkpoint: allreduce: started, and not over" in refused(tmp_path, riding)
    assert "expected bsp.restore(default) before it" in refused(tmp_path, without_restore)
    assert "bsp.restore: expected one call in a run" in refused(tmp_path, twice)
    assert "expected the arrays and queues that there were at bsp.restore" in refused(tmp_path, other_arrays)
    expected = r"argument state: expected something that can be pickled, got function \(\w+Error: Can"
    assert re.search(expected, refused(tmp_path, no_pickle))


class Unsaved:
    """What raises an error as it is pickled."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __reduce__(self) -> Any:
        raise self.error


@pytest.mark.parametrize("error", [MemoryError(), KeyboardInterrupt()], ids=repr)
def test_what_says_nothing_of_a_state_leaves_a_checkpoint_as_it_is(tmp_path: Path, error: BaseException) -> None:
    def main(bsp: pybsp.BSP) -> None:
        bsp.restore(0)
        bsp.sync()
        bsp.checkpoint({"one": Unsaved(error)})

    with pytest.raises(type(error)):
        state_of(main, tmp_path / "checkpoints")


def test_a_state_that_cannot_be_pickled_has_the_error_of_its_class_alone_as_cause(tmp_path: Path) -> None:
    boom = ValueError("boom")

    def main(bsp: pybsp.BSP) -> None:
        bsp.restore(0)
        bsp.sync()
        bsp.checkpoint({"one": Unsaved(boom)})

    with pytest.raises(pybsp.UsageError, match=r"got dict \(ValueError: boom\)") as caught:
        state_of(main, tmp_path / "checkpoints")
    assert caught.value.__cause__ is boom
    assert boom.__context__ is None


class Renamed:
    """What a later program may not have any more."""


def test_a_state_whose_class_is_no_longer_there_is_an_error_that_names_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Renamed()

    def main(bsp: pybsp.BSP) -> None:
        state = bsp.restore(first)
        bsp.sync()
        bsp.checkpoint(state)

    state_of(main, tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "b")  # as another job would find it
    monkeypatch.delattr(sys.modules[__name__], "Renamed")
    text = (
        r"bsp\.restore: .*0\.part: expected a state that can be unpickled, got AttributeError: .*Renamed.*; have the "
    )
    with pytest.raises(pybsp.CheckpointError, match=text):
        state_of(main, tmp_path / "b")


def test_processors_that_do_not_all_save_are_told(tmp_path: Path) -> None:
    def main(bsp: pybsp.BSP) -> None:
        bsp.restore(0)
        bsp.sync()
        if bsp.pid:
            bsp.checkpoint(1)
        bsp.sync()

    with pytest.raises(pybsp.SyncError, match=r"processor 1 called bsp.checkpoint\(\)"):
        state_of(main, tmp_path / "checkpoints")


def test_a_folder_that_cannot_be_written_is_an_error_before_the_program(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(pybsp.CheckpointError, match=f"the folder for checkpoints, {tmp_path}/file: expected one"):
        state_of(lambda bsp: bsp.restore(0), tmp_path / "file")
    with pytest.raises(pybsp.UsageError, match="argument checkpoint: expected a folder"):
        pybsp.simulate(lambda bsp: None, p=1, checkpoint=3)


def test_a_checkpoint_that_cannot_be_written_is_lost_and_the_program_goes_on(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "checkpoints"

    def main(bsp: pybsp.BSP) -> int:
        state: int = bsp.restore(0)
        for step in range(state, 6):
            bsp.sync()
            if bsp.pid == 0 and step == 3:  # no folder can be made there any more
                (folder / "run-0" / "000004").write_text("in the way")
            bsp.checkpoint(step + 1)
            state += 1
        return state

    assert state_of(main, folder) == [6, 6]
    assert f"this checkpoint is lost: {folder}/run-0/000004" in capfd.readouterr().err
    assert (folder / "run-0" / "000006" / "manifest.json").exists()


def test_a_folder_that_is_named_twice_is_one(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    for other in (tmp_path / "folder", tmp_path / "link", tmp_path / "." / "link"):
        for steps in (2, 4):
            ended = pybsp.simulate(stepping, steps, p=2, checkpoint=[tmp_path / "folder", other], every=1)
            assert ended.results == [steps, steps]
    part = next((tmp_path / "folder").rglob("0.part"))
    (tmp_path / "other").hardlink_to(part)
    before = part.read_bytes()
    copy(part, tmp_path / "other")
    assert part.read_bytes() == before != b""


def stepping(bsp: pybsp.BSP, steps: int) -> int:
    """As many supersteps, each with a checkpoint."""
    state: int = bsp.restore(0)
    for step in range(state, steps):
        bsp.sync()
        bsp.checkpoint(step + 1)
        state += 1
    return state


def test_what_is_lost_leaves_its_room_to_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a disk without room for the names of jobs keeps no run from its end."""
    real, full = write, [True]

    def writes(path: Path, *what: Any) -> Any:
        written = real(path, *what)
        if full[0] and path.name == "1.part":
            raise OSError(errno.ENOSPC, "No space left on device")
        return written

    monkeypatch.setattr("pybsp.checkpoints.saver.write", writes)
    folder = tmp_path / "folder"

    def main(bsp: pybsp.BSP) -> Any:
        stepping(bsp, 3)
        return sorted(one.name for one in (folder / "run-0").iterdir())

    # The last one is begun, and done with when the run ends.
    assert pybsp.simulate(main, p=2, checkpoint=folder, every=1).results[0] == ["000003", "jobs"]
    assert [one.name for one in (folder / "run-0").iterdir()] == ["jobs"]
    fsync = os.fsync

    def refuses(descriptor: int) -> None:
        if os.readlink(f"/proc/self/fd/{descriptor}").endswith("jobs"):
            raise OSError(errno.ENOSPC, "No space left on device")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", refuses)
    full[0] = False
    assert pybsp.simulate(stepping, 3, p=2, checkpoint=again(folder), every=1).results == [3, 3]


def test_the_good_one_stays_beside_a_damaged_one_until_there_are_enough(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    pybsp.simulate(stepping, 6, p=2, checkpoint=folder, every=1)
    damaged(folder / "run-0" / "000006" / "manifest.json", "superstep", "suferstep")
    folder = again(folder)
    pybsp.simulate(stepping, 6, p=2, checkpoint=folder, every=1)
    assert [number for number in Folder(folder, 0).counted() if number < 7] == [5]
    (folder / "run-0" / "\u00b2").mkdir()  # no number
    (folder / "run-0" / "jobs").write_bytes(b"\xff\xfe")
    assert pybsp.simulate(stepping, 8, p=2, checkpoint=again(folder), every=1).results == [8, 8]


def test_a_checkpoint_of_another_version_says_which_one_is_read(tmp_path: Path) -> None:
    pybsp.simulate(stepping, 1, p=1, checkpoint=tmp_path, every=1)
    folder = Folder(tmp_path, 0)
    path = folder.place(1) / "manifest.json"
    content = {**json.loads(path.read_text())["manifest"], "version": 2}
    path.write_text(json.dumps({"crc": zlib.crc32(json.dumps(content).encode()), "manifest": content}))
    with pytest.raises(pybsp.CheckpointError, match=r"\(version 2 of pybsp-checkpoint, expected 1\)"):
        folder.manifest(1)


def test_a_lock_that_is_no_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "lock").mkdir()
    with pytest.raises(pybsp.CheckpointError, match=f"{tmp_path}/lock: expected a file that can be written"):
        lock(tmp_path, 0)


def test_the_nearest_folder_that_has_it_whole_is_read(tmp_path: Path) -> None:
    def main(bsp: pybsp.BSP, supersteps: int) -> int:
        state: int = bsp.restore(0)
        begun = state
        for _ in range(begun, supersteps):
            bsp.sync()
            state += 1
            bsp.checkpoint(state)
        return begun

    near, shared = tmp_path / "near", tmp_path / "shared"
    pybsp.simulate(main, 5, p=2, checkpoint=(near, shared), every=1)
    assert (near / "run-0" / "000005" / "manifest.json").read_text() == (
        shared / "run-0" / "000005" / "manifest.json"
    ).read_text()
    shutil.rmtree(near / "run-0" / "000005")  # a host was replaced
    (near / "run-0" / "000004" / "1.part").unlink()
    assert pybsp.simulate(main, 5, p=2, checkpoint=(again(near), again(shared)), every=1).results == [5, 5]


def counting(bsp: pybsp.BSP, seed: int) -> Any:
    """Where it went on from, and the sum of so many seeds."""
    state = bsp.restore({"step": 0, "sum": seed})
    begun = state["step"]
    for step in range(begun, 6):
        bsp.sync()
        state["sum"] += seed
        state["step"] = step + 1
        bsp.checkpoint(state)
    return begun, state["sum"]


def test_what_another_job_has_left_in_a_near_folder_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    near = tmp_path / "near"

    def at(seed: int, shared: Path) -> list[Any]:
        monkeypatch.setattr(asked, "_runs", Counter())  # as another job would count them
        return pybsp.simulate(counting, seed, p=2, checkpoint=(near, shared), every=1).results

    assert at(1, tmp_path / "a") == [(0, 7)] * 2
    assert at(1000, tmp_path / "b") == [(0, 7000)] * 2
    assert at(1, tmp_path / "a") == [(6, 7)] * 2, "the near folder has another job's, and the shared one its own"
    copy = again(tmp_path / "a")
    shutil.rmtree(tmp_path / "a" / "run-0" / "000006")
    assert at(1, tmp_path / "a") == [(5, 7)] * 2
    assert at(1, copy) == [(6, 7)] * 2, "a copy goes on by itself"
    assert at(1, tmp_path / "a") == [(6, 7)] * 2, "from its own"
    shutil.rmtree(tmp_path / "a")
    assert at(2, tmp_path / "a") == [(0, 14)] * 2, "begun anew"


def test_a_near_folder_is_one_jobs_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    near = tmp_path / "near"
    near.mkdir()
    monkeypatch.setenv("PYBSP_GRACE", "0")
    with (near / f"lock-{socket.gethostname()}").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(pybsp.CheckpointError, match=f"{near}, is in use by another job"):
            pybsp.simulate(counting, 1, p=2, checkpoint=(near, tmp_path / "shared"))


def test_the_way_to_begin_anew_names_all_folders(tmp_path: Path) -> None:
    folders = tmp_path / "near", tmp_path / "shared"
    pybsp.simulate(counting, 1, p=1, checkpoint=folders, every=1)
    for path in tmp_path.glob("*/run-0/*/0.part"):
        path.unlink()
    with pytest.raises(pybsp.CheckpointError, match=f"remove {folders[0]}-again/run-0 and .*/shared-again/run-0$"):
        pybsp.simulate(counting, 1, p=1, checkpoint=[again(one) for one in folders])


def test_checkpoints_and_their_costs_are_in_the_ledger(tmp_path: Path) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        bsp.restore(0)
        for _ in range(3):
            bsp.sync()
            bsp.checkpoint(np.zeros(1000))
        return [(one.superstep, one.bytes > 16000, one.seconds > 0) for one in bsp.ledger.checkpoints]

    assert state_of(main, tmp_path / "checkpoints")[0] == [(1, True, True), (2, True, True)]


def test_a_checkpoint_costs_what_the_one_that_took_longest_waited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, real = [0.0], write

    def slow(path: Path, *what: Any) -> Any:
        now[0] += 1 + int(path.stem)  # seconds, by processor
        return real(path, *what)

    monkeypatch.setattr(saver, "clock", lambda: now[0])
    monkeypatch.setattr(saver, "write", slow)

    def main(bsp: pybsp.BSP) -> Any:
        stepping(bsp, 3)
        return [(one.superstep, one.seconds) for one in bsp.ledger.checkpoints]

    assert state_of(main, tmp_path / "checkpoints", p=3) == [[(1, 3.0), (2, 3.0)]] * 3


def test_after_all_were_called_to_a_checkpoint_a_split_is_one_as_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, heard = [0], saver.Saver.heard

    def called(which: saver.Saver) -> None:
        calls[0] += 1
        heard(which)

    monkeypatch.setattr(saver.Saver, "heard", called)

    def main(bsp: pybsp.BSP) -> bool:
        bsp.restore(None)
        for _ in range(4):
            bsp.sync()  # in which processor 0 calls all, as one is due
            with bsp.split(0) as part:
                part.sync()
            bsp.checkpoint(None)
        return calls[0] > 0

    found = pybsp.simulate(main, p=2, checkpoint=tmp_path / "checkpoints", every="0.000001s").results
    assert found == [True, True]


def test_a_superstep_has_what_was_computed_before_its_checkpoint_and_not_what_that_took(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(account, "clock", lambda: now[0])
    monkeypatch.setattr(saver.Saver, "_meet", lambda *_: now.append(now.pop() + 1000))

    def main(bsp: pybsp.BSP) -> None:
        own = bsp._superstep.account
        bsp.restore(None)
        bsp.sync()
        own.set_computed(5.0)
        bsp.checkpoint(None)
        assert own.computed() == pytest.approx(5)
        resumed = account.VirtualAccount(bsp._superstep.transport, bsp.machine, True)
        resumed.resume(own.as_saved(own.computed()))
        assert resumed.computed() == pytest.approx(5)

    state_of(main, tmp_path / "checkpoints", p=1)
    assert now == [1000]


def test_reports_and_pages_have_what_checkpoints_cost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def main(bsp: pybsp.BSP) -> None:
        bsp.restore(0)
        for _ in range(3):
            bsp.sync()
            bsp.checkpoint(np.zeros(1 << 17))

    ledger = pybsp.simulate(main, p=2, checkpoint=tmp_path / "checkpoints", every=1).ledger
    path = tmp_path / "ledger.json"
    ledger.save(path)
    (loaded,) = pybsp.Ledger.load(path)
    assert loaded.checkpoints == ledger.checkpoints
    assert cli.main(["report", str(path)]) == 0
    assert cli.main(["report", str(path), "--html", str(tmp_path / "page.html")]) == 0
    for text in (capsys.readouterr().out, (tmp_path / "page.html").read_text()):
        assert re.search(r"3 checkpoints of 6\.\d+ MB in all, for which the program waited \S+ s, \S+ s at most", text)
    with pytest.raises(pybsp.UsageError, match=r"runs\[0\].checkpoints\[0\].seconds: expected"):
        read_ledger(damaged(path, '"seconds": ', '"seconds": -'))


def damaged(path: Path, what: str, other: str) -> Path:
    path.write_text(path.read_text().replace(what, other))
    return path


def test_what_was_charged_between_a_sync_and_a_checkpoint_is_in_the_ledger(tmp_path: Path) -> None:
    def main(bsp: pybsp.BSP, steps: int) -> Any:
        for step in range(bsp.restore(0), steps):
            bsp.sync()
            if step == 1:
                bsp.label("late")
            with bsp.split(bsp.pid) as part:
                part.work(3e8)
                part.sync()
            bsp.work(1e8 * (step + 1))
            bsp.checkpoint(step + 1)
        bsp.sync()
        return [(one.work, one.label, round(one.measured, 6)) for one in bsp.ledger], round(bsp.time(), 6)

    whole = pybsp.simulate(main, 4, machine=MACHINE)
    pybsp.simulate(main, 2, machine=MACHINE, checkpoint=tmp_path / "a", every=1)
    copy = again(tmp_path / "a")
    assert pybsp.simulate(main, 4, machine=MACHINE, checkpoint=copy, every=1).results == whole.results
    assert [work for work, _, _ in whole.results[0][0] if work] == [1e8, 2e8, 3e8, 4e8]
    failures = pybsp.Failures(mtbf=0.8, seed=1)
    failing = pybsp.simulate(main, 4, machine=MACHINE, failures=failures, every=1)
    assert failing.failures
    assert [one.work for one in failing.ledger] == [one.work for one in whole.ledger]


LABELS = """
    import sys
    import pybsp
    def main(bsp, steps, within):
        state = bsp.restore(0)
        def go_on():
            for step in range(state, steps):
                bsp.sync()
                if step == 1 and not within:
                    bsp.label("own")
                bsp.checkpoint(step + 1)
        if within:
            with bsp.label("block"):
                go_on()
        else:
            go_on()
        bsp.sync()
        return [one.label for one in bsp.ledger]
    whole, folder = [pybsp.run(main, 4, within) for within in (0, 1)], sys.argv[1]
    assert whole == [["", "", "own", "", ""], ["block"] * 4 + [""]], whole
    if sys.argv[2] == "first":
        for within in (0, 1):
            pybsp.run(main, 2, within, checkpoint=f"{folder}/{within}", every=1)
    else:
        found = [pybsp.run(main, 4, within, checkpoint=f"{folder}/{within}", every=1000) for within in (0, 1)]
        assert found == whole, found
"""


@pytest.mark.whole
def test_labels_of_blocks_and_of_a_superstep_end_where_they_did_in_a_run_that_goes_on(
    tmp_path: Path, program: Program
) -> None:
    path = program(LABELS)
    for which in "first", "again":
        ended_well(run([*mpiexec(2), sys.executable, str(path), str(tmp_path / "checkpoints"), which]))


def test_what_parts_did_before_a_checkpoint_is_in_the_ledger(tmp_path: Path) -> None:
    def main(bsp: pybsp.BSP) -> Any:
        state: int = bsp.restore(0)
        for step in range(state, 4):
            with bsp.split(0) as part:
                part.send(0, np.zeros(10))
                part.sync()
            bsp.sync()
            bsp.checkpoint(step + 1)
        return [(superstep, one.h, one.supersteps) for superstep, one in sorted(bsp.ledger.parts.items())]

    before = state_of(main, tmp_path / "a")
    assert len(before[0]) == 4
    assert state_of(main, again(tmp_path / "a")) == before


def test_layouts_patterns_and_groups_go_on_from_a_checkpoint(tmp_path: Path) -> None:
    """A stencil on a global array, with sums by the rows of a grid: all that a program makes again, or has there."""

    def main(bsp: pybsp.BSP, steps: int, early: bool) -> Any:
        x = bsp.array(Cyclic(11, bsp.p))
        (own,) = x.layout.part(bsp.pid)
        x.local[:] = np.arange(11)[own]
        grid = bsp.grid(2, bsp.p // 2)
        right = (np.arange(11)[own] + 1) % 11
        pattern = x.global_pattern(right) if early else None  # before, or after what was saved is back
        state = bsp.restore({"step": 0, "rows": 0.0})
        pattern = pattern or x.global_pattern(right)
        bsp.sync()
        for step in range(state["step"], steps):
            ticket = pattern.get()
            total = collectives.allreduce.start(grid.column, float(x.local.sum()), np.add)
            bsp.sync()
            x.local[:] = (x.local + ticket.value) / 2
            x.global_put((bsp.pid + step) % 11, step)
            bsp.sync()
            across = collectives.allreduce(grid.row, total.finish(), np.add)
            state = {"step": step + 1, "rows": state["rows"] + float(across)}
            bsp.checkpoint(state)
        return state["rows"], x.local.tolist()

    for early in (True, False):
        whole = pybsp.simulate(main, 6, early, p=4).results
        folder = tmp_path / f"{early}"
        pybsp.simulate(main, 3, early, p=4, checkpoint=folder, every=1)
        assert pybsp.simulate(main, 6, early, p=4, checkpoint=again(folder), every=1).results == whole


LAYOUTS: dict[str, Callable[[int], Layout]] = {
    "block": lambda p: Block(13, p),
    "sizes": lambda p: Block(13, p, sizes=[13 - 2 * (p - 1)] + [2] * (p - 1)),
    "cyclic": lambda p: Cyclic((5, 7), (1, p)),
    "block-cyclic": lambda p: BlockCyclic((5, 7), (p, 1), (2, 3)),
    "fewer items than processors": lambda p: Block((2, 3), (p, 1)),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_another_number_of_processors_takes_up_what_has_a_layout(tmp_path: Path, name: str) -> None:
    def main(bsp: pybsp.BSP, steps: int) -> Any:
        x, y = (bsp.array(LAYOUTS[name](bsp.p), dtype=dtype) for dtype in (np.float64, ">i2"))
        queue = bsp.queue(int)
        shape = x.layout.shape
        numbers = np.arange(np.prod(shape)).reshape(shape)
        x.local[...], y.local[...] = (numbers[x.layout.part(bsp.pid)] for _ in range(2))
        state = bsp.restore({"step": 0, "table": np.zeros(3), "random": random.Random(4)})
        bsp.sync()
        for step in range(state["step"], steps):
            x.local[...] += state["random"].random()
            y.local[...] *= 2
            state["table"][step % 3] += 1
            state["step"] = step + 1
            bsp.sync()
            bsp.checkpoint(state)
        found = collectives.allreduce(bsp, np.zeros(shape), np.add)
        found[x.layout.part(bsp.pid)] = x.local + 1000 * y.local
        return collectives.allreduce(bsp, found, np.add).tolist(), state["table"].tolist(), len(queue.values)

    whole = pybsp.simulate(main, 4, p=1).results[0]
    pybsp.simulate(main, 1, p=3, checkpoint=tmp_path / "3", every=1)
    pybsp.simulate(main, 2, p=1, checkpoint=again(tmp_path / "3"), every=1)
    pybsp.simulate(main, 3, p=5, checkpoint=again(tmp_path / "3-again"), every=1)
    found = pybsp.simulate(main, 4, p=3, checkpoint=again(tmp_path / "3-again-again"), every=1)
    assert found.results == [whole] * 3
    assert len(found.ledger) == 4  # its own alone


def test_another_layout_takes_up_what_was_saved_in_one(tmp_path: Path) -> None:
    def main(bsp: pybsp.BSP, layout: Callable[[int, int], Layout], equal: bool = True) -> Any:
        x = bsp.array(layout(9, bsp.p), dtype=np.int64)
        (own,) = x.layout.part(bsp.pid)
        x.local[:] = -1
        state = bsp.restore(0 if equal else bsp.pid)
        bsp.sync()
        found = x.local.tolist() == np.arange(9)[own].tolist()
        x.local[:] = np.arange(9)[own]
        bsp.sync()
        bsp.checkpoint(state)
        return found

    pybsp.simulate(main, Block, p=2, checkpoint=tmp_path / "a", every=1)
    assert pybsp.simulate(main, Cyclic, p=2, checkpoint=again(tmp_path / "a"), every=1).results == [True, True]
    pybsp.simulate(main, Block, False, p=2, checkpoint=tmp_path / "b", every=1)
    with pytest.raises(pybsp.CheckpointError, match="its arrays have been saved in other layouts: expected a state"):
        pybsp.simulate(main, Cyclic, False, p=2, checkpoint=again(tmp_path / "b"), every=1)


UNLIKE = {
    "an array": r"expected arrays with a layout, .*, got array of float64, shape \(2,\) without one",
    "items": "expected queues without items, got some in queue of int64",
    "messages": "expected an empty inbox",
    "its own state": "expected a state that is equal on all of them, got one that differs",
    "fewer items": r"float64, shape \(8,\) in all; .*; got array of float64, shape \(7,\) in all",
}


@pytest.mark.parametrize("what", UNLIKE)
def test_what_does_not_say_how_it_is_laid_out_is_refused_by_another_number(tmp_path: Path, what: str) -> None:
    def main(bsp: pybsp.BSP) -> None:
        if what == "an array":
            bsp.array(2)
        elif what == "fewer items":
            bsp.array(Cyclic(bsp.p + 5, bsp.p))
        queue = bsp.queue(int)
        bsp.restore(0)
        if what == "items":
            queue.send(0, 1)
        elif what == "messages":
            bsp.send(0, 1)
        bsp.sync()
        # Of its own state the blocks differ, and not the trees.
        bsp.checkpoint(np.arange(100) == bsp.pid if what == "its own state" else 0)

    pybsp.simulate(main, p=3, checkpoint=tmp_path / "3", every=1)
    with pytest.raises(pybsp.CheckpointError, match=UNLIKE[what]):
        pybsp.simulate(main, p=2, checkpoint=again(tmp_path / "3"), every=1)


def test_a_checkpoint_between_the_stays_in_a_kept_part(tmp_path: Path) -> None:
    def main(bsp: pybsp.BSP, steps: int) -> Any:
        state: list[int] = bsp.restore([])
        halves = bsp.split(bsp.pid % 2)
        for step in range(len(state), steps):
            with halves as part:
                state = [*state, int(collectives.allreduce(part, bsp.pid + step, np.add))]
            bsp.sync()
            bsp.checkpoint(state)
        return state, len(bsp.ledger.parts)

    whole = pybsp.simulate(main, 5, p=3).results
    pybsp.simulate(main, 2, p=3, checkpoint=tmp_path / "a", every=1)
    assert pybsp.simulate(main, 5, p=3, checkpoint=again(tmp_path / "a"), every=1).results == whole
    # A part may not save, nor may anybody while something rides on a group.

    def wrong(bsp: pybsp.BSP) -> Any:
        bsp.restore(0)
        found = []
        with bsp.split(0) as part:
            found.append(complaint(lambda: part.checkpoint(1)))
        ticket = collectives.allreduce.start(bsp.group(range(bsp.p)), 1, np.add)
        found.append(complaint(lambda: bsp.checkpoint(1)))
        return found, ticket.finish()

    for (in_part, riding), total in pybsp.simulate(wrong, p=3, checkpoint=tmp_path / "b", every=1).results:
        assert "expected the whole machine, got a part" in in_part
        assert "allreduce: started, and not over" in riding
        assert total == 3


def test_what_parts_of_parts_did_before_a_checkpoint_is_in_the_ledger(tmp_path: Path) -> None:
    def main(bsp: pybsp.BSP, steps: int) -> Any:
        for step in range(bsp.restore(0), steps):
            with bsp.split(bsp.pid % 2) as outer:
                with outer.split(0) as inner:
                    inner.work(1e6)
                    inner.work(5e4, kind="sort")
                    inner.sync()
                outer.work(2e5, kind="sort")
                outer.sync()
            bsp.sync()
            bsp.checkpoint(step + 1)
        parts = bsp.ledger.parts.items()
        return [(n, one.supersteps, f"{one.seconds:g} {one.measured:g} {one.charged:g}") for n, one in parts]

    machine = pybsp.BSPMachine(3, g=1e-9, l=1e-5, r=1e9, rates=(("sort", 1e8),))
    whole = pybsp.simulate(main, 5, machine=machine).results
    assert whole[0] == [(n, 3, "0.0035 0.00353 0.0035") for n in range(1, 11, 2)]
    pybsp.simulate(main, 2, machine=machine, checkpoint=tmp_path, every=1)
    assert pybsp.simulate(main, 5, machine=machine, checkpoint=again(tmp_path), every=1).results == whole


def test_stays_in_parts_of_checkpoints_of_before_are_read() -> None:
    rows = np.ones((2, COLUMNS + 1))
    of_before: list[tuple[Any, ...]] = [(3, (0, 2), rows, 1), (3, (0, 2), rows, 1, ((0, (0,), rows, 0, ()),))]
    for saved in of_before:
        (stay,) = Stays.of_saved({"all": [saved], "totals": {3: (1, 2.0, 3, 4, 5, 6.0, 7.0)}, "asked": 0}).all
        assert (stay.superstep, stay.members, stay.combined, len(stay.inner)) == (3, (0, 2), 1, len(saved) - 4)
        assert (stay.kinds, stay.charged) == ({}, {})


def complaint(call: Callable[[], Any]) -> str:
    try:
        call()
    except pybsp.UsageError as error:
        return str(error)
    return ""


# -- restarts ----------------------------------------------------------------------------------------------------------


def test_a_job_is_started_again_while_it_gets_further(tmp_path: Path) -> None:
    def job(*statuses: int | tuple[int, str]) -> Callable[[], int]:
        left = list(statuses)

        def run_it() -> int:
            status = left.pop(0)
            if isinstance(status, tuple):
                (tmp_path / "run-0" / status[1]).mkdir(parents=True)
                (tmp_path / "run-0" / status[1] / "manifest.json").touch()
                return status[0]
            return status

        return run_it

    def ended(restarts_: int, *statuses: int | tuple[int, str]) -> int:
        return restarts.until_done(job(*statuses), lambda: False, [tmp_path], restarts_)

    assert ended(5, 9, 137, 1, 9, 0) == 0
    assert ended(2, 9, 9, 9) == 9
    assert ended(5, 11, 11, 6, 0) == 0, "crashes are signals, as MPICH says them too"
    assert ended(5, 3, 4) == 3, "the first error, where it gets no further"
    assert ended(5, 3, (4, "000001"), (5, "000002"), 70) == 5, "the first since the last checkpoint"
    assert ended(5, ENDED) == ENDED
    assert restarts.until_done(job(1), lambda: True, [tmp_path], 5) == 1


@pytest.mark.parametrize("restarts_", [0, 1])
def test_a_job_that_its_launcher_ends_as_if_it_had_saved_has_died(tmp_path: Path, restarts_: int) -> None:
    """srun ends the ranks that are left by SIGTERM, whose status is that of a job which was told to end and has."""
    path, died = tmp_path / "program.py", tmp_path / "died"
    path.write_text(
        "import os, pathlib, pybsp\n"
        "def main(bsp):\n"
        f"    died = pathlib.Path({str(died)!r})\n"
        "    if bsp.pid == 1 and not died.exists():\n"
        "        died.touch()\n"
        "        os._exit(143)\n"
        "    bsp.sync()\n"
        "    bsp.restore(0)\n"
        "pybsp.run(main)\n"
    )
    options = ["-n", "2", "--checkpoint", str(tmp_path / "ck"), *["--restarts", str(restarts_)][: 2 * restarts_]]
    ended = run([*python("-m"), "pybsp", "run", *options, str(path)])
    # Beside other work MPICH may say of the rank first that it has killed: 9.
    died_so = ["137", "9"]
    assert str(ended.code) in (["0"] if restarts_ else died_so), ended
    assert any(f"the job died (status {one}); started again" in ended.err for one in died_so) == bool(restarts_)


@pytest.mark.whole
@pytest.mark.parametrize("shared", ["", "0"])
def test_a_job_whose_rank_is_killed_ends_with_the_same_result(tmp_path: Path, shared: str) -> None:
    result = tmp_path / "result.json"
    program = tmp_path / "program.py"
    program.write_text(
        "import json, os, signal, sys\n"
        "import pybsp\n"
        "from pybsp.benchmarks.reliability.random_program import main\n"
        "def killed(bsp):\n"
        "    checkpoint = bsp.checkpoint\n"
        "    def save(state):\n"
        "        checkpoint(state)\n"
        f"        mark = f'{tmp_path}/{{state[\"step\"]}}'\n"
        "        if bsp.pid == 1 and state['step'] in (13, 14, 27) and not os.path.exists(mark):\n"
        "            open(mark, 'w').close()\n"
        "            os.kill(os.getpid(), signal.SIGKILL)\n"
        "    vars(bsp)['checkpoint'] = save\n"
        "    return main(bsp, 8, 40, 0.0)\n"
        "found = pybsp.run(killed)\n"
        f"found and open('{result}', 'w').write(json.dumps(found))\n"
    )
    options = ["-n", "2", "--checkpoint", str(tmp_path / "c"), "--every", "3", "--restarts", "5", str(program)]
    ended_well(run([sys.executable, "-m", "pybsp", "run", *options], PYBSP_SHARED=shared))
    assert json.loads(result.read_text()) == random_program.expected(8, 2, 40)


def await_text(path: Path, job: subprocess.Popen[str]) -> str:
    """What a rank of a job writes into a file."""
    while not path.exists() or not path.read_text():
        assert job.poll() is None, finish(job)
        time.sleep(0.01)
    return path.read_text()


@pytest.mark.whole
def test_a_job_of_which_one_rank_is_told_to_end_saves_first(tmp_path: Path, program: Program) -> None:
    path, folder = program(PAUSED), tmp_path / "checkpoints"
    command = [*mpiexec(2), *python(path, "200", "0.02")]
    environment = {"PYBSP_CHECKPOINT": str(folder), "PYBSP_CHECKPOINT_EVERY": "1h"}
    job = start(command, **environment)
    os.kill(int(await_text(Path(f"{path}-1"), job)), signal.SIGTERM)
    ended = finish(job)
    assert ended.code == ENDED, ended
    assert "was told to end: saved in" in ended.err
    ended = run(command, **environment)
    assert "[39800]" in ended_well(ended)
    assert "goes on from" in ended.err


@pytest.mark.whole
def test_a_job_that_asks_for_no_state_ends_by_the_first_signal(tmp_path: Path, program: Program) -> None:
    path = program(PAUSED.replace("bsp.restore({", "dict({").replace("bsp.checkpoint(state)", ""))
    options = ["-n", "2", "--checkpoint", str(tmp_path / "checkpoints"), str(path), "10000", "0.02"]
    job = start([sys.executable, "-m", "pybsp", "run", *options])
    await_text(Path(f"{path}-1"), job)
    job.send_signal(signal.SIGTERM)
    assert finish(job).code not in (0, None)


@pytest.mark.whole
def test_a_job_that_is_told_to_end_saves_first(tmp_path: Path, program: Program) -> None:
    path, folder = program(PAUSED), tmp_path / "checkpoints"
    options = ["-n", "2", "--checkpoint", str(folder), "--every", "1h", str(path), "200", "0.02"]
    job = start([sys.executable, "-m", "pybsp", "run", *options])
    assert job.stdout is not None
    while not list(folder.glob("end-*")):
        assert job.poll() is None
    job.send_signal(signal.SIGTERM)
    ended = finish(job)
    assert ended.code == ENDED, ended
    assert "was told to end: saved in" in ended.err
    assert not list(folder.glob("end-*"))
    assert "[39800]" in ended_well(run([sys.executable, "-m", "pybsp", "run", *options]))


def raising(number: int) -> Callable[[], None]:
    return lambda: os.kill(os.getpid(), number)


def test_of_a_job_that_has_ended_no_notice_nor_answer_is_left(tmp_path: Path) -> None:
    file = notice.NoticeFile(tmp_path / "end-1")
    file.heed()
    file.answer()
    assert file.answered()
    file.remove()
    assert not file.answered()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", notice.SIGNALS)
def test_a_signal_has_all_save_and_end(tmp_path: Path, capfd: pytest.CaptureFixture[str], number: int) -> None:
    def main(bsp: pybsp.BSP, notice: Callable[[], None]) -> int:
        state: int = bsp.restore(0)
        for step in range(state, 9):
            bsp.sync()
            if step == 4 and bsp.pid == 1:
                notice()
            bsp.checkpoint(step + 1)
        return state

    def at(folder: Path, notice: Callable[[], None]) -> list[int]:
        return pybsp.simulate(main, notice, p=2, checkpoint=folder, every="1h").results

    with pytest.raises(SystemExit) as ended:
        at(tmp_path / "a", raising(number))
    assert ended.value.code == ENDED
    assert f"was told to end: saved in {tmp_path}/a/run-0/000001" in capfd.readouterr().err
    notice._come.clear()  # as in another job
    (state, other) = at(again(tmp_path / "a"), lambda: None)
    assert state == other >= 5
    assert signal.getsignal(number) is signal.SIG_DFL


def test_a_job_that_is_to_end_and_cannot_save_says_so(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def main(bsp: pybsp.BSP, folder: Path, blocked: int) -> None:
        state = bsp.restore(0)
        for step in range(state, 9):
            bsp.sync()
            if step == 4:
                (folder / "run-0" / f"00000{blocked}").write_text("in the way")
                raising(signal.SIGTERM)()
            bsp.checkpoint(step + 1)

    cases: list[tuple[int, Any, str]] = [
        (1, "1h", "was told to end, and has saved nothing; started again, the program begins anew"),
        (5, 1, f"and could not save; started again, the program goes on from {tmp_path}/5/run-0/000004"),
    ]
    for blocked, every, text in cases:
        folder = tmp_path / f"{blocked}"
        with pytest.raises(SystemExit) as ended:
            pybsp.simulate(main, folder, blocked, p=1, checkpoint=folder, every=every)
        assert ended.value.code == ENDED
        err = capfd.readouterr().err
        assert f"this checkpoint is lost: {folder}/run-0/00000{blocked}" in err
        assert text in err
        notice._come.clear()  # as in another job


def test_a_notice_after_the_last_checkpoint_of_a_run_ends_the_next_one(tmp_path: Path) -> None:
    def one(bsp: pybsp.BSP) -> int:
        bsp.restore(0)
        bsp.sync()
        bsp.checkpoint(1)
        bsp.sync()
        raising(signal.SIGTERM)()
        return 1

    def two(bsp: pybsp.BSP) -> int:
        state: int = bsp.restore(0)
        for step in range(state, 200):
            bsp.sync()
            bsp.checkpoint(step + 1)
        return state

    assert pybsp.simulate(one, p=1, checkpoint=tmp_path / "a", every="1h").results == [1]
    with pytest.raises(SystemExit):
        pybsp.simulate(two, p=2, checkpoint=tmp_path / "a", every="1h")


def test_a_signal_ends_what_never_asks_for_its_state(tmp_path: Path) -> None:
    """Until bsp.restore, and where there is none, signals do what they always did; so they do after a run."""
    found = []

    def main(bsp: pybsp.BSP, restores: bool) -> None:
        found.append(signal.getsignal(signal.SIGTERM))
        if restores:
            bsp.restore(0)
            found.append(signal.getsignal(signal.SIGTERM))

    for number, restores in enumerate((False, True)):
        pybsp.simulate(main, restores, p=1, checkpoint=tmp_path / f"{number}")
        found.append(signal.getsignal(signal.SIGTERM))
    assert [one is signal.SIG_DFL for one in found] == [True, True, True, False, True]


def test_a_file_gives_notice_to_who_heeds_it(tmp_path: Path) -> None:
    path = notice.new_file(tmp_path)
    (stale := tmp_path / "end-0").touch()
    sender, processor = notice.NoticeFile(path), notice.NoticeFile(path)
    assert not sender.give(), "nobody heeds it yet: the signal is to do what it always did"
    processor.remove_others()
    assert not stale.exists()
    processor.heed()
    assert not processor.has_come()
    processor.ignore()
    assert not sender.give(), "the run is over"
    processor.heed()
    assert sender.give()
    assert processor.has_come()
    processor.ignore()
    processor.heed()
    assert processor.has_come(), "in the next run too"
    sender.remove()
    assert not list(tmp_path.iterdir())
    assert not notice.NoticeFile(None).give()


def test_restarts_need_a_folder() -> None:
    ended = run([sys.executable, "-m", "pybsp", "run", "-n", "1", "--restarts", "2", __file__])
    assert ended.code == 2
    assert "--checkpoint DIR" in ended.err


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ("--checkpoint FILE", "--checkpoint FILE: expected a folder, or a place for one, got the file FILE"),
        (
            "--checkpoint FOLDER/new:FILE/new",
            "--checkpoint FILE/new: expected a folder, or a place for one, got the fi",
        ),
        ("--checkpoint FOLDER --record 2", "--record: expected a processor's number below 2, got 2\n"),
        ("--checkpoint FOLDER --every abc", "argument every: expected a number of supersteps, a time"),
        ("--checkpoint a:b:c", "argument checkpoint: expected a folder, or two"),
    ],
)
def test_what_each_rank_would_refuse_the_command_does_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], options: str, wrong: str
) -> None:
    monkeypatch.setattr(os, "environ", dict(os.environ))  # the command sets variables

    def named(text: str) -> str:
        return text.replace("FILE", str(tmp_path / "file")).replace("FOLDER", str(tmp_path))

    (tmp_path / "file").touch()
    assert cli.main(["run", "-n", "2", *named(options).split(), __file__]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"pybsp run: {named(wrong)}")
    assert error.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_the_command_ends_with_the_status_of_a_job_that_gets_no_further(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "environ", dict(os.environ))  # the command sets variables
    statuses = [3, 4, 5]
    monkeypatch.setattr(running, "_once", lambda *_: statuses.pop(0))
    assert cli.main(["run", "-n", "1", "--checkpoint", str(tmp_path), "--restarts", "5", __file__]) == 3
    assert statuses == [5]


def test_restarts_need_linux(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert cli.main(["run", "-n", "1", "--checkpoint", str(tmp_path), "--restarts", "2", __file__]) == 2
    assert "--restarts: expected Linux" in capsys.readouterr().err


@pytest.mark.parametrize("saves", [False, True])
def test_the_command_says_so_where_nothing_was_to_be_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], saves: bool
) -> None:
    monkeypatch.setattr(os, "environ", dict(os.environ))  # the command sets variables

    def job(*_: Any) -> int:
        pybsp.simulate(counting if saves else lambda bsp: bsp.sync(), *[1] * saves, p=1, checkpoint=tmp_path)
        return 0

    monkeypatch.setattr(running, "_once", job)
    assert cli.main(["run", "-n", "1", "--checkpoint", str(tmp_path), __file__]) == 0
    error = capsys.readouterr().err
    assert error.startswith(f"pybsp run: nothing was saved in {tmp_path}: ") != saves, error


def test_so_many_checkpoints_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", dict(os.environ))  # the command sets variables
    monkeypatch.setattr(running, "_started", lambda options, command: 0)
    assert cli.main(["run", "-n", "1", "--checkpoint", str(tmp_path), "--keep", "3", __file__]) == 0
    pybsp.simulate(counting, 1, p=1, checkpoint=tmp_path / "a", every=1)
    assert len(list((tmp_path / "a").glob("run-0/0*"))) == 3


def test_what_a_job_leaves_is_told_from_what_others_leave() -> None:
    """What kills.py finds of a job: the shared memory that its ranks have had mapped."""
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as own, tempfile.NamedTemporaryFile(dir="/dev/shm") as others:
        own.truncate(4096)
        others.truncate(4096)
        with mmap.mmap(own.fileno(), 4096):
            belongings = kills.Belongings()
            belongings.look([os.getpid(), 1 << 30])
        assert own.name in belongings.left()
        assert others.name not in belongings.left()
    assert own.name not in belongings.left()


def test_where_a_rank_was_killed_is_known_from_what_it_says(tmp_path: Path) -> None:
    mark = random_program.marked(tmp_path)
    (place,) = kills.places(tmp_path)
    assert (place.pid, place.phase) == (os.getpid(), random_program.STARTING)
    mark(random_program.PROGRAM, 7)
    (place,) = kills.places(tmp_path)
    assert (place.phase, place.superstep) == (random_program.PROGRAM, 7)
    checkpoint = tmp_path / "run-0" / "000003"
    checkpoint.mkdir(parents=True)
    since = checkpoint.stat().st_mtime
    assert kills.is_writing(tmp_path, since)
    assert not kills.is_writing(tmp_path, since + 1), "begun by a job that was killed"
    (checkpoint / "manifest.json").touch()
    assert not kills.is_writing(tmp_path, since)


# -- machines that fail ------------------------------------------------------------------------------------------------


def seconds_of_work(bsp: pybsp.BSP, steps: int) -> Any:
    state = bsp.restore({"step": 0, "draws": np.random.default_rng(bsp.pid), "sum": 0.0, "pickled": Thing()})
    for step in range(state["step"], steps):
        bsp.work(1e9)
        bsp.send((bsp.pid + 1) % bsp.p, state["draws"].random())
        bsp.sync()
        state["sum"] += bsp.inbox[0].payload
        state["step"] = step + 1
        bsp.checkpoint(state)
    return state["sum"]


MACHINE = pybsp.BSPMachine(p=2, g=1e-8, l=1e-5, r=1e9)


def test_a_machine_that_fails_gives_the_same_result_later() -> None:
    well = pybsp.simulate(seconds_of_work, 60, machine=MACHINE)
    failures = pybsp.Failures(mtbf=40, checkpoint=1, restart=2, seed=3)
    failing = pybsp.simulate(seconds_of_work, 60, machine=MACHINE, failures=failures, every=7)
    assert failing.results == well.results
    assert failing.failures > 0
    assert len(failing.ledger) == 60
    # Each failure costs the restart, and at most what is done from one checkpoint to the next.
    assert 2 * failing.failures <= failing.time - (60 + 60 // 7) <= (2 + 7 + 1) * failing.failures
    assert well.failures == well.expected == 0


def test_a_machine_that_does_not_fail_takes_what_its_checkpoints_take() -> None:
    free, dear = pybsp.Failures(mtbf=1e15), pybsp.Failures(mtbf=1e15, checkpoint=2)
    assert free == pybsp.Failures(mtbf=1e15, checkpoint=0, restart=0, seed=0)
    well, without, found = (
        pybsp.simulate(seconds_of_work, 7, machine=MACHINE, failures=failures, every=2)
        for failures in (None, free, dear)
    )
    assert (without.time, found.time) == pytest.approx((well.time, well.time + 3 * 2))
    assert (without.expected, found.expected) == pytest.approx((without.time, found.time))
    assert found.failures == 0
    assert [(one.superstep, one.seconds) for one in found.ledger.checkpoints] == [(2, 2), (4, 2), (6, 2)]


def test_a_machine_that_fails_saves_at_the_end_of_a_superstep_alone() -> None:
    def main(bsp: pybsp.BSP) -> None:
        bsp.restore(0)
        bsp.sync()
        bsp.send(bsp.pid, 1)
        bsp.checkpoint(0)

    with pytest.raises(pybsp.UsageError, match=r"^bsp\.checkpoint: expected a superstep's boundary, but something was"):
        pybsp.simulate(main, machine=MACHINE, failures=pybsp.Failures(mtbf=1e9), every=1)


def test_the_expected_time_is_least_at_the_interval_of_young_and_daly() -> None:
    failures = pybsp.Failures(mtbf=100, checkpoint=1, restart=1)

    def taken(every: int | None) -> float:
        return pybsp.simulate(seconds_of_work, 240, machine=MACHINE, failures=failures, every=every).expected

    best = taken(None)
    assert best <= min(taken(4), taken(60)) < taken(1)
    assert abs(daly(1, 100) - 13.48) < 0.01


def test_a_machine_that_fails_takes_the_arrays_that_ranks_take() -> None:
    def main(bsp: pybsp.BSP, restores: bool) -> None:
        if restores:
            bsp.restore(0)
            bsp.array(3)
        bsp.work(1e9)
        bsp.sync()
        bsp.checkpoint(0)

    for restores, text in ((True, "expected the arrays and queues that there were"), (False, "expected bsp.restore")):
        with pytest.raises(pybsp.UsageError, match=rf"^bsp.checkpoint: {text}"):
            pybsp.simulate(main, restores, machine=MACHINE, failures=pybsp.Failures(mtbf=1e9), every=1)


@pytest.mark.parametrize("every", [1, None, 20])
def test_the_mean_time_of_machines_that_fail_is_the_expected_one(every: int | None) -> None:
    """Within four standard errors of the mean over seeds; 7 to 12 failures a run."""

    def main(bsp: pybsp.BSP) -> None:
        for step in range(bsp.restore(0), 40):
            bsp.work(1e9)
            bsp.sync()
            bsp.checkpoint(step + 1)

    machine = pybsp.BSPMachine(p=1, g=1e-9, l=1e-9, r=1e9)
    times, expected_times = [], set()
    for seed in range(40):
        failures = pybsp.Failures(mtbf=20, checkpoint=1, restart=3, seed=seed)
        found = pybsp.simulate(main, machine=machine, failures=failures, every=every)
        times.append(found.time)
        expected_times.add(round(found.expected, 6))
    (one,) = expected_times
    assert abs(np.mean(times) - one) < 4 * np.std(times, ddof=1) / np.sqrt(len(times))


@pytest.mark.whole
def test_the_page_has_the_table_of_intervals() -> None:
    page = (Path(__file__).parent.parent / "docs" / "howto" / "checkpoints.md").read_text()
    assert intervals.table() in page


def test_failures_are_seconds() -> None:
    for wrong in ({"mtbf": 0}, {"mtbf": -1.0}, {"mtbf": 1, "checkpoint": "1"}, {"mtbf": float("inf")}):
        with pytest.raises(pybsp.UsageError, match=r"^pybsp.Failures: argument .*: expected seconds"):
            pybsp.Failures(**wrong)
    with pytest.raises(pybsp.UsageError, match="argument failures"):
        pybsp.simulate(seconds_of_work, 1, machine=MACHINE, failures=3)  # type: ignore[arg-type]


@pytest.mark.whole
def test_runs_go_on_after_one_processor_was_interrupted_as_it_began_one_or_its_thread(
    tmp_path: Path, program: Program
) -> None:
    path = program("""
        import sys
        import threading
        import pybsp
        from pybsp.runs import launch
        def main(bsp):
            found = bsp.restore(0)
            bsp.sync()
            bsp.checkpoint(found + 1)
            return found
        def interrupted(place, name):
            real = getattr(place, name)
            def once(*arguments):
                setattr(place, name, real)
                raise ValueError("interrupted")
            setattr(place, name, once)
        first = pybsp.run(lambda bsp: bsp.pid)
        for place, name in ((launch, "make_router"), (threading.Thread, "start")):
            for victim in range(2):
                if first == victim:
                    interrupted(place, name)
                try:
                    pybsp.run(main, checkpoint=sys.argv[1], every=1)
                    raise AssertionError
                except (ValueError, pybsp.ProcessorError) as error:
                    assert "interrupted" in str(error), error
                    assert pybsp.run(main, checkpoint=sys.argv[1], every=1) == 0
    """)
    folder = tmp_path / "checkpoints"
    ended_well(run([*mpiexec(2), sys.executable, str(path), str(folder)]))
    counted = [found.parent for found in folder.glob("run-*/000001/manifest.json")]
    assert len(counted) == 4
    assert all(sorted(os.listdir(one)) == ["0.part", "1.part", "manifest.json"] for one in counted)


# -- replay ------------------------------------------------------------------------------------------------------------


def test_a_damaged_record_is_refused(tmp_path: Path) -> None:
    header = record.RecordHeader(["program.py"], "/", 1, 2, False, MACHINE)
    folder = tmp_path / "run-0" / "record"
    for _ in "made", "there":
        recorder = record.Recorder(folder, header)
        recorder.brought(0, Arrival((0, 0), ("a", "note"), [], {}))
        assert recorder._file is not None
        recorder._file.close()
    path = folder / "1.record"
    whole = path.read_bytes()

    def read(content: bytes) -> list[Any]:
        path.write_bytes(content)
        found = record.RecordReader(folder, 1)
        return [found.header, found.arrival(0, lambda: "superstep 0").notes]

    assert read(whole) == [header, ("a", "note")]
    for place in range(len(whole)):
        with pytest.raises(pybsp.CheckpointError, match=rf"{path}: it is damaged .*; record the job again"):
            read(whole[:place] + bytes([whole[place] ^ 64]) + whole[place + 1 :])
    with pytest.raises(pybsp.CheckpointError, match="the record ends in superstep 0"):
        read(whole[:-1])
    for short in (b"", whole[:20]):
        with pytest.raises(pybsp.CheckpointError, match=f"{path}: expected a record, got a file without its beginning"):
            read(short)


class NearlyFull:
    """A file that takes a few bytes at a time, as far as there is room."""

    def __init__(self, file: Any, room: int) -> None:
        self._file, self._room = file, room

    def write(self, content: memoryview) -> int:
        taken = min(self._room, 7)
        if not taken:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._room -= taken
        return int(self._file.write(content[:taken]))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def test_a_record_is_written_as_far_as_there_is_room_and_the_program_goes_on(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    recorder: Any = record.Recorder(tmp_path, record.RecordHeader(["program.py"], "/", 1, 2, False, MACHINE))
    recorder._file = NearlyFull(recorder._file, 1000)
    for note in "first", "second" * 200, "third":
        recorder.brought(0, Arrival((0, 0), (note, ""), [], {}))
    file = f"{tmp_path}/1.record"
    said = f"pybsp: the record of processor 1 ends here: {file}: {os.strerror(errno.ENOSPC)}; the program goes on\n"
    assert capfd.readouterr().err == said
    found = record.RecordReader(tmp_path, 1)
    assert found.arrival(0, str).notes == ("first", "")
    with pytest.raises(pybsp.CheckpointError, match="the job had got no further, or could not write its record"):
        found.arrival(0, str)
    assert os.path.getsize(file) < 1000, "what is cut off is removed"
    recorder = record.Recorder(tmp_path, record.RecordHeader(["program.py"], "/", 1, 2, False, MACHINE))
    recorder.restored(SavedPart(None, [], True, str(tmp_path / "is not there")))
    assert capfd.readouterr().err.endswith(": No such file or directory; the program goes on\n")
    (tmp_path / "2.record").mkdir()
    recorder = record.Recorder(tmp_path, record.RecordHeader(["program.py"], "/", 2, 3, False, MACHINE))
    recorder.brought(0, Arrival((0, 0), ("first", ""), [], {}))
    said = f"the record of processor 2 ends here: {tmp_path}/2.record: Is a directory; the program goes on\n"
    assert capfd.readouterr().err == f"pybsp: {said}"


def write_record(folder: Path, program: str, ran: Path, kinds: Sequence[int]) -> None:
    recorder = record.Recorder(folder, record.RecordHeader([program], str(ran), 1, 2, False, MACHINE))
    for kind in kinds:
        recorder.brought(kind, Arrival(None, None, [], {}))
    assert recorder._file is not None
    recorder._file.close()


def test_a_replay_ends_as_the_run_did(tmp_path: Path) -> None:
    def replayed(main: Callable[[pybsp.BSP], Any], *kinds: int) -> Any:
        write_record(tmp_path, "program.py", tmp_path, kinds)
        return replay(main, (), {}, tmp_path, 1, False)

    def syncs(bsp: pybsp.BSP) -> int:
        bsp.sync()
        return 7

    def sends(bsp: pybsp.BSP) -> None:
        bsp.sync()
        bsp.send(0, "lost")

    assert replayed(syncs, SYNC, END) == 7
    with pytest.raises(pybsp.UsageError, match="after the last sync, and would never arrive"):
        replayed(sends, SYNC)
    with pytest.raises(pybsp.CheckpointError, match="the program does something else than it did"):
        replayed(syncs, SYNC, SYNC, END)
    with pytest.raises(pybsp.CheckpointError, match="the record ends in superstep 1"):
        replayed(syncs, SYNC)


@pytest.mark.whole
def test_a_replay_finds_the_ledger_of_several_nodes(tmp_path: Path) -> None:
    """Whose clocks are compared, in an exchange of its own that one node does without."""
    path = tmp_path / "program.py"
    path.write_text(
        "import pybsp\n"
        "def main(bsp):\n"
        "    bsp.sync()\n"
        "    with bsp.split(bsp.pid % 2) as part:\n"
        "        part.sync()\n"
        "    return len(bsp.ledger), len(bsp.ledger.parts)\n"
        "print(pybsp.run(main))\n"
    )
    folder = str(tmp_path / "kept")
    command = [sys.executable, "-m", "pybsp"]
    apart = {"PYTHONPATH": str(Path(__file__).parent / "pretended"), "PRETENDED_NODES": "2"}
    recording = run([*command, "run", "-n", "3", "--checkpoint", folder, "--record", "2", str(path)], 60, **apart)
    assert recording.code == 0, recording
    replayed = run([*command, "replay", "--pid", "2", folder], 60)
    assert (replayed.code, replayed.out) == (0, recording.out.splitlines(keepends=True)[0]), replayed


@pytest.mark.parametrize(("commands", "result"), [("c\n", 7), ("n\nq\n", None), ("n\n", None)])
def test_a_replay_that_is_left_in_the_debugger_says_nothing_of_the_program(
    commands: str, result: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def main(bsp: pybsp.BSP) -> int:
        bsp.sync()
        bsp.sync()
        return 7

    write_record(tmp_path, "program.py", tmp_path, (SYNC, SYNC, END))
    monkeypatch.setattr(sys, "stdin", io.StringIO(commands))
    trace = sys.gettrace()  # a debugger takes the place of what measures coverage
    gc.disable()  # what calls Python then, as hypothesis does, is stepped into, and left by "q"
    try:
        if result is None:
            with pytest.raises(SystemExit) as ended:
                replay(main, (), {}, tmp_path, 1, True)
            assert not ended.value.code
        else:
            assert replay(main, (), {}, tmp_path, 1, True) == result
    finally:
        gc.enable()
        sys.settrace(trace)


def test_a_replay_needs_the_program_where_it_ran(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for program, ran, missing in (
        ("program.py", tmp_path, tmp_path / "program.py"),
        (sys.executable, tmp_path / "gone", tmp_path / "gone"),
    ):
        write_record(tmp_path / "run-0" / "record", program, ran, ())
        assert cli.main(["replay", str(tmp_path), "--pid", "1"]) == 2
        said = capsys.readouterr().err
        assert said.startswith(f"pybsp replay: {tmp_path}: {program} was recorded in {ran}, and {missing} is not there")


REPLAYED = """
    import sys
    import pybsp
    from pybsp.benchmarks.reliability import random_program
    def main(bsp, supersteps):
        digest = random_program.digest(bsp, 5, supersteps, 0.0)
        if bsp.pid == 1:
            seen = [(m.source, m.tag, m.payload) for m in bsp.inbox]
            print("seen", bsp.pid, bsp.p, bsp._superstep.account.superstep, digest, seen, bsp.machine.l)
        bsp.sync()
        if bsp.pid == 1 and sys.argv[2:]:
            raise ValueError("of processor 1")
    pybsp.run(main, int(sys.argv[1]))
"""


@pytest.mark.whole
def test_one_processor_of_a_recorded_job_runs_alone(tmp_path: Path, program: Program) -> None:
    pybsp.BSPMachine(p=2, g=1e-9, l=0.0125, r=1e9).save(tmp_path / "machine.json")
    path, folder = program(REPLAYED), str(tmp_path / "checkpoints")
    pybsp_ = [sys.executable, "-m", "pybsp"]
    record = [*pybsp_, "run", "-n", "2", "--checkpoint", folder, "--every", "3", "--record", "1", str(path)]
    ended_well(run([*record, "10"]))
    recorded = ended_well(run([*record, "25"], PYBSP_MACHINE=str(tmp_path / "machine.json")))
    printed = [line for line in recorded.splitlines() if line.startswith("seen 1 2")]
    again_ = ended_well(run([*pybsp_, "replay", folder, "--pid", "1"])).splitlines()
    assert printed
    assert again_ == printed
    assert printed[0].endswith(" 0.0125"), "the machine is the one that was in force"
    failed = run([*pybsp_, "run", "-n", "2", "--checkpoint", f"{folder}-2", "--record", "1", str(path), "5", "fail"])
    assert failed.code
    replayed = run([*pybsp_, "replay", f"{folder}-2", "--pid", "1"])
    assert "ValueError: of processor 1" in replayed.err
    assert run([*pybsp_, "replay", folder, "--pid", "0"]).code == 2
    path.write_text(path.read_text().replace("    bsp.sync()\n", "    bsp.split(0).__enter__()\n"))
    changed = run([*pybsp_, "replay", f"{folder}-2", "--pid", "1"])
    assert re.search(r"CheckpointError: \S+/1.record: in superstep \d+ .*the program does something else", changed.err)
    (part,) = Path(folder).glob("run-0/record/1.part")
    assert part.stat().st_mode & 0o777 == 0o600, "as the part itself"
    beyond = run([*pybsp_, "run", "-n", "2", "--checkpoint", f"{folder}-3", str(path), "5"], PYBSP_RECORD="7")
    assert beyond.code
    assert "(pybsp run --record): expected a processor's number below 2, got 7" in beyond.err
    assert beyond.err.count("Traceback") == 1
