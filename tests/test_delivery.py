"""What is sent arrives, whole and once, or is an error: sizes, many small pieces, full memory, views that are kept."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import random
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pybsp.transport import populating
from pybsp.transport.board import Board
from pybsp.transport.medium import _Aside
from pybsp.transport.waiting import Waiter
from pybsp.transport.wire import CONTEXTS, SLOT, TAG, board_bytes

from .launching import LIMIT, Program, ended_well, failed_once, mpiexec, python, ranks

HERE = Path(__file__).parent

# -- sizes ------------------------------------------------------------------------------------------------------------


class Huge:
    """A manifest of more than 2 GiB, without the memory."""

    def __len__(self) -> int:
        return (1 << 31) + 5


def boards() -> tuple[Board, Board]:
    """Two processors' boards, in this process."""
    size = CONTEXTS * board_bytes(2)
    parts = [memoryview(bytearray(size)) for _ in range(2)]
    window: Any = SimpleNamespace(
        size=2, board=board_bytes(2), parts=parts, words=[part.cast("q") for part in parts], sync=None
    )
    first, second = (Board(window, [0, 1], own, 0, 0, None, Waiter("spin")) for own in (0, 1))
    return first, second


def test_the_size_of_a_manifest_on_a_board_does_not_wrap(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = boards()
    monkeypatch.setattr(first, "_lay", lambda text, data: 4096)
    manifest: Any = Huge()
    first.enter(1, [(1, manifest)], [])
    second.enter(1, [], [])
    second.finish()
    assert second.manifests() == [(0, 4096, (1 << 31) + 5)]


def test_a_board_says_anew_what_is_borrowed_of_whom_where_a_part_has_ended() -> None:
    """The part hands over what it has borrowed, which may be as many pieces as the board has dropped since."""
    whole, _ = boards()
    part = Board(whole._window, [0, 1], 0, 0, 1, whole, Waiter("spin"))
    whole._settled = bytes(8)
    part.retire()
    assert whole._settled is None


IN_HEADS = """
    import pybsp
    from pybsp.transport.heads import Heads
    found, mail_alone = [], Heads.mail_alone
    def noting(heads, kind):
        found.append(mail_alone(heads, kind))
        return found[-1]
    Heads.mail_alone = noting
    def main(bsp):
        for n in range(5):
            bsp.send((bsp.pid + 1) % bsp.p, n)
            if n % 2:
                bsp.send(bsp.pid, n)
            bsp.sync()
            assert [m.payload for m in bsp.inbox] == [n] * (1 + n % 2)
    pybsp.run(main)
    assert [arrived is not None for arrived in found] == [True] * 3, found
"""


@pytest.mark.whole
def test_small_mail_to_others_alone_is_read_from_the_heads(program: Program) -> None:
    ended_well(ranks(2, program(IN_HEADS), PYBSP_SHARED="0"))


# Texts of all lengths to the next one, and what goes as messages beside the heads of requests.
BESIDE_HEADS = """
    import os, numpy as np, pybsp
    from pybsp.transport import wire
    from pybsp.transport.flight import InFlight
    sent, send = [], InFlight.send
    def noting(flight, messages, use):
        sent.extend((use, len(data)) for _, data in messages)
        send(flight, messages, use)
    InFlight.send = noting
    def main(bsp):
        transport, next_one = bsp._transport, (bsp.pid + 1) % bsp.p
        for size in (*range(1, 200), *range(1900, 2100)):
            sent.clear()
            bsp.send(next_one, ("." * size, size))  # no array: all of it is in the manifest
            bsp.sync()
            use, length = sent[0] if sent else (None, 0)
            assert len(sent) <= 1, (size, sent)
            assert use != wire.HEADS or wire.HEAD < length <= wire.LONGEST_HEAD, (size, sent)
            assert use != wire.MANIFESTS or length > wire.MANIFEST_BEHIND_HEAD, (size, sent)
            if not uses or uses[-1] != use:
                uses.append(use)
            assert [m.payload for m in bsp.inbox] == [("." * size, size)]
    uses = []
    pybsp.run(main)
    if int(os.environ.get("PRETENDED_NODES", 1)) == 1:
        assert uses == [None, wire.HEADS, wire.MANIFESTS], uses
"""


@pytest.mark.whole
@pytest.mark.parametrize(
    "environment",
    [
        {"PYBSP_SHARED": "0"},
        {"PRETENDED_NODES": "1", "PYBSP_AGGREGATE": "0"},
        {"PRETENDED_NODES": "2", "PYBSP_AGGREGATE": "0"},
    ],
)
def test_a_manifest_lies_behind_its_head_and_arrives_whatever_its_length(
    program: Program, environment: dict[str, str]
) -> None:
    paths = os.pathsep.join([str(HERE / "pretended"), os.environ.get("PYTHONPATH", "")])
    ended_well(ranks(3, program(BESIDE_HEADS), PYTHONPATH=paths, **environment))


CHUNKED = """
    import numpy as np, pybsp
    from pybsp.transport import wire
    wire.CHUNK = 1000
    def main(bsp):
        p, pid = bsp.p, bsp.pid
        for d in range(p):
            for k in range(40):
                bsp.send(d, ("x" * 150, pid, k))
            bsp.send(d, np.arange(5000) + pid)
        bsp.sync()
        assert [(m.source, m.payload[2]) for m in bsp.inbox if isinstance(m.payload, tuple)] == [
            (s, k) for s in range(p) for k in range(40)
        ]
        assert [int(m.payload[7]) for m in bsp.inbox if not isinstance(m.payload, tuple)] == [7 + s for s in range(p)]
        if pid == 0:
            print("all")
    pybsp.run(main, router="@")
"""


@pytest.mark.fast("direct-environment2")
@pytest.mark.parametrize(
    ("router", "environment"),
    [
        ("direct", {"PYBSP_SHARED": "0"}),
        ("sparse", {}),
        ("direct", {"PRETENDED_NODES": "2", "PYBSP_AGGREGATE": "1"}),
        ("direct", {"PYBSP_SHARED": str(CONTEXTS * board_bytes(4))}),  # shared memory without an arena
    ],
)
def test_manifests_longer_than_a_message_may_be_arrive(
    program: Program, router: str, environment: dict[str, str]
) -> None:
    path = str(HERE / "pretended")
    paths = os.pathsep.join([path, os.environ.get("PYTHONPATH", "")])
    ended = ranks(4, program(CHUNKED.replace("@", router)), LIMIT, PYTHONPATH=paths, **environment)
    assert ended_well(ended) == "all\n"


# -- many small pieces ------------------------------------------------------------------------------------------------


@pytest.mark.whole
@pytest.mark.parametrize(("queues", "size"), [(48, 1000), (300, 200), (640, 100)])
def test_many_queues_to_one_processor_of_a_node_arrive(program: Program, queues: int, size: int) -> None:
    path = program(f"""
        import numpy as np, pybsp
        def main(bsp):
            queues = [bsp.queue(np.uint8) for _ in range({queues})]
            for k in range(3):
                for queue in queues:
                    queue.send(0, np.full({size}, k, np.uint8))
                bsp.sync()
                for queue in queues:
                    assert queue.values.tolist() == ([k] * ({size} * bsp.p) if bsp.pid == 0 else [])
            if bsp.pid == 0:
                print("all")
        pybsp.run(main)
    """)
    assert ended_well(ranks(2, path)) == "all\n"


# -- what does not arrive as it was said is an error -------------------------------------------------------------------

LOSING = """
    import os, numpy as np, pybsp
    from pybsp.transport.flight import InFlight
    def lose(bsp):
        if bsp.pid == 0:
            @
    def main(bsp):
        for k in range(4):
            if k == 2:
                lose(bsp)
            for d in range(bsp.p):
                bsp.send(d, np.full(20_000, k))
            bsp.sync()
    pybsp.run(main, router=os.environ.get("ROUTER", "direct"))
"""
SHORTER = """
            whole = InFlight.send
            InFlight.send = lambda self, messages, use: whole(self, [(r, d[:-8]) for r, d in messages], use)
"""
MEDIA = {
    "messages, a head of before": ("bsp._transport._heads.number -= 1", {"PYBSP_SHARED": "0"}),
    "messages, less data": (SHORTER.strip(), {"PYBSP_SHARED": "0"}),
    "sparse, a head of before": ("bsp._transport.sparse.number -= 2", {"ROUTER": "sparse"}),
    "sparse, less data": (SHORTER.strip(), {"ROUTER": "sparse"}),
    "aggregated, a head of before": (
        "bsp._transport._leaders.number -= 1",
        {"PRETENDED_NODES": "2", "PYBSP_AGGREGATE": "1"},
    ),
}


@pytest.mark.whole
@pytest.mark.parametrize("medium", list(MEDIA))
def test_what_arrives_is_held_against_what_was_said(program: Program, medium: str) -> None:
    loss, environment = MEDIA[medium]
    path = str(HERE / "pretended")
    paths = os.pathsep.join([path, os.environ.get("PYTHONPATH", "")])
    p = 4 if "aggregated" in medium else 2
    failed_once(
        ranks(p, program(LOSING.replace("@", loss)), LIMIT, PYBSP_GRACE="5", PYTHONPATH=paths, **environment),
        "pybsp.errors.DeliveryError",
    )


def test_what_is_said_to_nobody_on_a_board_is_an_error_to_those_it_was_for() -> None:
    import pybsp

    first, second = boards()
    first.enter(1, [(1, b"manifest")], [])
    second.enter(1, [], [])
    first._own_slots[1][SLOT + TAG] = 0  # what a lost store would leave
    with pytest.raises(pybsp.DeliveryError, match=r"in exchange 1 .* had said in exchange 0"):
        second.gather(1)
    second.finish()
    with pytest.raises(pybsp.DeliveryError):
        second.manifests()


# -- shared memory that is full ---------------------------------------------------------------------------------------


@pytest.mark.whole
@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason="a /dev/shm of its own needs root")
@pytest.mark.parametrize("populates", [True, False])
@pytest.mark.parametrize("words", [10, 1000, 3000, 100_000])
def test_shared_memory_that_fills_up_in_mid_run_is_no_end(program: Program, words: int, populates: bool) -> None:
    path = program(f"""
        import ctypes, errno
        import numpy as np, pybsp
        from pybsp.transport import arena, populating
        if not {populates}:  # as before Linux 5.14, and where df does not tell
            populating._libc.madvise = lambda *_: ctypes.set_errno(errno.EINVAL) or -1
            arena.free_bytes = lambda: 1 << 40
        def main(bsp):
            bsp.sync()
            if bsp.pid == 0:
                with open("/dev/shm/filler", "wb", buffering=0) as filler:
                    try:
                        while True:
                            filler.write(bytes(4096))
                    except OSError:
                        pass
            bsp.sync()
            for k in range(20):
                for d in range(bsp.p):
                    bsp.send(d, np.full({words} + k, bsp.pid, float))
                bsp.sync()
                assert [float(m.payload[-1]) for m in bsp.inbox] == list(range(bsp.p))
            if bsp.pid == 0:
                print("all")
        pybsp.run(main)
    """)
    command = " ".join([*mpiexec(2), *python(path)])
    mounted = f"mount -t tmpfs -o size=64m tmpfs /dev/shm && exec {command}"
    ended = subprocess.run(
        ["unshare", "--mount", "bash", "-c", mounted], capture_output=True, text=True, timeout=120, check=False
    )
    assert (ended.returncode, ended.stdout) == (0, "all\n"), ended
    told = ended.stderr.count("pybsp: the shared memory of ")
    assert told == len(ended.stderr.splitlines())
    assert told == 1 if words == 100_000 else told <= 1, ended


def test_pages_that_cannot_be_had_are_noticed_without_touching_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = mmap.PAGESIZE
    path, content = tmp_path / "four pages", random.Random(1).randbytes(4 * page)
    path.write_bytes(content)
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        os.truncate(path, 3 * page)  # who touches the last one now is ended
        memory = memoryview(mapped)
        for madvise in (None, lambda *_: ctypes.set_errno(errno.EINVAL) or -1):
            if madvise is not None:
                assert populating._libc is not None
                monkeypatch.setattr(populating._libc, "madvise", madvise)
            assert populating.populate(memory[100 : 3 * page])
            assert populating.populate(memory[:0])
            assert not populating.populate(memory[100:])
            assert not populating.populate(memory[3 * page + 100 : 3 * page + 200])
        assert bytes(memory[: 3 * page]) == content[: 3 * page]
        memory.release()


# -- views that are kept ----------------------------------------------------------------------------------------------


@pytest.mark.whole
def test_a_superstep_takes_as_many_steps_whatever_is_kept(program: Program) -> None:
    path = program("""
        import sys, numpy as np, pybsp
        lines = 0
        def waits(frame):
            return frame and (frame.f_code.co_filename.endswith("waiting.py") or waits(frame.f_back))
        def count(frame, event, argument):
            global lines
            if event == "call" and waits(frame):
                return None  # how often one looks depends on the machine
            lines += event == "line"
            return count
        def counted(bsp):
            global lines
            bsp.sync()
            lines = 0
            for _ in range(20):
                bsp.send(1 - bsp.pid, np.zeros(20_000))
                sys.settrace(count)
                bsp.sync()
                sys.settrace(None)
            return lines
        def main(bsp):
            kept, found = [], {}
            for n in (10, 2000):
                while len(kept) < n:
                    bsp.send(1 - bsp.pid, np.full(9000, len(kept)), tag="read where it lies")
                    bsp.sync()
                    kept.append(bsp.inbox[0].payload)
                found[n] = counted(bsp)
            assert all((payload == k).all() for k, payload in enumerate(kept))
            assert found[2000] < 2 * found[10], found
            if bsp.pid == 0:
                print("as many")
        pybsp.run(main)
    """)
    assert ended_well(ranks(2, path)) == "as many\n"


def test_a_thread_exchanges_nothing_once_it_was_given_up() -> None:
    arrival: Any = object()
    aside = _Aside()
    aside.work(lambda: arrival)
    aside.halt()
    aside.work(lambda: arrival)  # it was started, and had not begun
    assert (aside.arrivals, aside.errors) == ([arrival], [])


def test_runs_go_on_after_begin_was_interrupted_as_it_started_its_thread(program: Program) -> None:
    path = program("""
        import threading
        import pybsp
        def main(bsp):
            bsp.send((bsp.pid + 1) % bsp.p, bytes(1500))
            bsp.begin()
            bsp.end()
            return len(bsp.inbox[0].payload)
        def interrupted(before):
            real = threading.Thread.start
            def once(thread):
                threading.Thread.start = real
                if not before:
                    real(thread)
                raise ValueError("interrupted")
            threading.Thread.start = once
        first = pybsp.run(lambda bsp: bsp.pid)
        for before in (True, False):
            for victim in range(2):
                if first == victim:
                    interrupted(before)
                try:
                    pybsp.run(main)
                    raise AssertionError
                except (ValueError, pybsp.ProcessorError) as error:
                    assert "interrupted" in str(error), error
                assert pybsp.run(main) == 1500
    """)
    ended_well(ranks(2, path, PYBSP_SHARED="0"))
