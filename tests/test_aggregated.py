"""Messages between nodes are aggregated: on the ranks of this machine, which pretend to be on several nodes."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pybsp.errors import UsageError
from pybsp.transport.media.messages import ByMessages
from pybsp.transport.placement import Placement, configured, cores_together, pays

from .launching import LIMIT, Ended, Program, ended_well, failed_once, mpiexec, python, run, sessions_passed
from .test_shared_memory import EXCHANGING, KEEPING

HERE = Path(__file__).parent
SPMD = ("messages", "random_programs", "begin_end", "split", "room", "sparse", "lifecycle", "put_get", "queues")
SESSION = 1200  # seconds for one p


def pretending(node: int, wish: str = "1") -> dict[str, str]:
    """The environment in which every `node` ranks that follow each other are a node."""
    paths = [str(HERE / "pretended"), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {"PYTHONPATH": os.pathsep.join(paths), "PRETENDED_NODES": str(node), "PYBSP_AGGREGATE": wish}


def ranks(p: int, node: int, path: Path, *arguments: str, limit: float = LIMIT, **environment: str) -> Ended:
    """Run a program on p ranks, `node` of them on each node."""
    return run([*mpiexec(p), *python(path, *arguments)], limit, **{**pretending(node), **environment})


@pytest.mark.fast("3-2-1-")  # a number of ranks that the fast tier has
@pytest.mark.timeout(SESSION + 30)
@pytest.mark.parametrize(
    ("p", "node", "wish", "fences"),
    [
        (3, 2, "1", ""),
        (4, 2, "1", "1"),
        (5, 2, "1", ""),
        (8, 3, "1", ""),
        (3, 1, "0", ""),
        (4, 3, "0", ""),
        (3, 3, "0", "1"),
    ],
)
def test_spmd_tests_pass_on_pretended_nodes(
    p: int, node: int, wish: str, fences: str, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    every = ["--all"] if pytestconfig.getoption("--all") else []
    tests = [str(HERE / "spmd" / f"test_{name}.py") for name in SPMD]
    sessions_passed(p, tmp_path, SESSION, *every, *tests, PRETENDED_WEAK=fences, **pretending(node, wish))


def test_a_leader_sends_one_message_to_each_other_node(program: Program) -> None:
    path = program("""
        import pybsp
        def main(bsp):
            whole = bsp._transport
            far = whole._leaders
            with bsp.split(bsp.pid // 4) as part:  # processors 0 to 3, on two nodes; 4 and 5, on one and another
                groups = part._transport._leaders._groups if isinstance(part._transport, type(whole)) else None
            others = len(whole.receiving()) - len(far.receiving)
            bsp.send(0, (bsp.pid, far._groups, len(far.receiving), others, groups))
            bsp.sync()
            for message in bsp.inbox:
                print(*message.payload)
            assert not far._quiet
            for _ in range(3):
                bsp.sync()
                assert far._quiet  # a word each way says all
            if bsp.pid == 5:
                bsp.send(1, "text")
            bsp.sync()
            assert not far._quiet
        pybsp.run(main)
    """)
    lines = ended_well(ranks(6, 3, path)).splitlines()
    assert lines[0] == "0 [[0, 1, 2], [3, 4, 5]] 1 0 [[0, 1, 2], [3]]"
    assert lines[1] == "1 [[0, 1, 2], [3, 4, 5]] 0 0 [[0, 1, 2], [3]]"
    assert lines[3] == "3 [[0, 1, 2], [3, 4, 5]] 1 0 [[0, 1, 2], [3]]"
    assert lines[4] == "4 [[0, 1, 2], [3, 4, 5]] 0 0 None"


@pytest.mark.whole
@pytest.mark.fast("8440000-4-2")
@pytest.mark.parametrize(("p", "node"), [(4, 2), (5, 3)])
@pytest.mark.parametrize("size", ["", "8440000", "9300000"])  # area and arena, next to no arena, a small arena
def test_what_does_not_fit_goes_as_messages(program: Program, p: int, node: int, size: str) -> None:
    assert ended_well(ranks(p, node, program(EXCHANGING), PYBSP_SHARED=size)) == f"{node}\n"


@pytest.mark.whole
def test_without_shared_memory_each_is_on_its_own(program: Program) -> None:
    assert ended_well(ranks(4, 2, program(EXCHANGING), PYBSP_SHARED="0")) == "0\n"


@pytest.mark.whole
def test_what_a_program_holds_on_to_is_not_written_over(program: Program) -> None:
    assert ended_well(ranks(5, 2, program(KEEPING))) == "kept\n"


@pytest.mark.whole
@pytest.mark.parametrize("size", ["", "8440000"])
def test_long_notes_and_many_manifests_reach_all(program: Program, size: str) -> None:
    """Manifests that fit neither into a message between leaders, nor into a board's area, nor all into its arena."""
    path = program("""
        import pybsp
        def main(bsp):
            p, pid = bsp.p, bsp.pid
            for k in range(1, 9):
                length = 7 * 10 ** (k // 2)
                for dest in range(p):
                    if (pid + dest + k) % 3:
                        bsp.send(dest, "x" * length + str(pid), tag=str(dest) * length)
                bsp.sync()
                expected = [s for s in range(p) if (s + pid + k) % 3]
                assert [m.source for m in bsp.inbox] == expected
                for m in bsp.inbox:
                    assert m.payload == "x" * length + str(m.source) and m.tag == str(pid) * length
                notes = bsp._transport.exchange(1, (pid, "n" * length), {}).notes
                assert notes == [(s, "n" * length) for s in range(p)]
                notes = bsp._transport.exchange(1, "alone" * length if pid == p - 1 else None, {}).notes
                assert notes == [None] * (p - 1) + ["alone" * length]
            return pid
        if pybsp.run(main) == 0:
            print("reached")
    """)
    assert ended_well(ranks(5, 2, path, PYBSP_SHARED=size)) == "reached\n"


@pytest.mark.whole
@pytest.mark.parametrize("items", [7_500, 300_000])  # a superstep does not wait for 60 kB, but for more
def test_data_that_goes_from_rank_to_rank_arrives_between_quiet_supersteps(program: Program, items: int) -> None:
    path = program("""
        import sys, numpy as np, pybsp
        def main(bsp):
            p, pid = bsp.p, bsp.pid
            for k in range(40):
                if k % 4 == 0:
                    bsp.send((pid + 2) % p, np.full(int(sys.argv[1]), pid + k))
                bsp.sync()
                if k % 4 == 0:
                    assert (bsp.inbox[0].payload == (pid - 2) % p + k).all()
            return pid
        if pybsp.run(main) == 0:
            print("arrived")
    """)
    assert ended_well(ranks(4, 2, path, str(items))) == "arrived\n"


SPLITTING = """
    import numpy as np, pybsp
    def main(bsp):
        p, pid = bsp.p, bsp.pid
        rng = np.random.default_rng(1)
        for k in range(40):
            colors = rng.integers(0, 3, p)
            if k % 5 == 0:
                colors = np.arange(p) // 2  # within nodes
            with bsp.split(int(colors[pid]), key=-pid if k % 2 else pid) as part:
                mine = [other for other in range(p) if colors[other] == colors[pid]][:: -1 if k % 2 else 1]
                for j in range(int(rng.integers(0, 4)) + int(colors[pid])):
                    for dest in range(part.p):
                        part.send(dest, np.full((3, 9000)[j % 2], pid + 10 * j))
                    part.sync()
                    part.sync()
                    part.send(0, pid)
                    part.sync()
                    assert [m.payload for m in part.inbox] == (mine if part.pid == 0 else [])
                if part.p > 1:
                    with part.split(part.pid % 2) as inner:
                        inner.send(0, np.full(9000, pid))
                        inner.sync()
                        assert len(inner.inbox) == (inner.p if inner.pid == 0 else 0)
        if pid == 0:
            print("done")
    pybsp.run(main)
"""


@pytest.mark.whole
@pytest.mark.parametrize(("p", "node"), [(5, 2), (7, 3)])
def test_parts_across_nodes_and_within(program: Program, p: int, node: int) -> None:
    assert ended_well(ranks(p, node, program(SPLITTING))) == "done\n"


@pytest.mark.whole
def test_the_benchmark_measures_both_ways(tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    command = [*mpiexec(4), *python("-m", "pybsp.benchmarks.studies.aggregation", "--rounds", "2", "--json", str(kept))]
    done = run(command, **pretending(2))
    assert done.code == 0, done.err
    rows = json.loads(kept.read_text())[0]["rows"]
    assert [len(row["each"]) for row in rows] == [len(row["aggregated"]) for row in rows] == [2, 2, 2, 2]
    assert all(row["work"] in done.out for row in rows)


# -- when things go wrong ----------------------------------------------------------------------------------------------

FAILING = """
    import os, sys, time
    import numpy as np
    import pybsp
    how, which = sys.argv[1], int(sys.argv[2])
    def main(bsp):
        for k in range(3):
            bsp.send((bsp.pid + 2) % bsp.p, np.full(20_000, k))
            bsp.sync()
        with bsp.superstep("exchange"):
            if bsp.pid == which:
                if how == "raises":
                    raise ValueError("boom")
                if how == "returns":
                    return
                if how == "dies":
                    os._exit(3)
                if how == "sleeps":
                    time.sleep(1000)
            elif how == "sleeps" and bsp.pid == 3:
                raise ValueError("boom")
        bsp.sync()
    try:
        pybsp.run(main)
    except pybsp.BSPError as error:
        sys.stdout.write(f"<{type(error).__name__}: {error}>\\n")
        raise
"""


@pytest.mark.whole
@pytest.mark.parametrize("which", [0, 1, 2, 4])  # leaders: 0, 2, and 4, which is alone
def test_a_processor_raises(program: Program, which: int) -> None:
    done = ranks(5, 2, program(FAILING), "raises", str(which), PYBSP_GRACE="1000")
    failed_once(done, "ValueError: boom")
    text = f'<ProcessorError: processor {which} failed in superstep 3 ("exchange"): ValueError: boom>'
    assert done.out.count(text) == 4, done.out


@pytest.mark.whole
@pytest.mark.parametrize("which", [0, 1, 2, 4])
def test_a_processor_ends_early(program: Program, which: int) -> None:
    done = ranks(5, 2, program(FAILING), "returns", str(which), PYBSP_GRACE="1000")
    failed_once(done, "pybsp.errors.SyncError")
    assert re.search(rf"processors? {which} .*ended", done.err), done.err


@pytest.mark.whole
@pytest.mark.parametrize("which", [0, 3])
def test_a_rank_that_is_gone_or_does_not_come_ends_the_job(program: Program, which: int) -> None:
    assert ranks(5, 2, program(FAILING), "dies", str(which), PYBSP_GRACE="1").code  # by the launcher, or by us
    other = 2 if which == 3 else which
    done = ranks(5, 2, program(FAILING), "sleeps", str(other), PYBSP_GRACE="1")
    failed_once(done, "ValueError: boom")


@pytest.mark.whole
@pytest.mark.parametrize("step", ["_send_out", "read"])
def test_a_leader_that_fails_in_the_middle_of_an_exchange_ends_the_job(program: Program, step: str) -> None:
    path = program("""
        import sys, pybsp
        from pybsp.transport.leaders import Leaders
        step = sys.argv[1]
        sound = getattr(Leaders, step)
        def fails(*arguments):
            setattr(Leaders, step, sound)
            raise MemoryError("full")
        def main(bsp):
            bsp.sync()
            if bsp.pid == 2:
                setattr(Leaders, step, fails)
            bsp.send((bsp.pid + 2) % bsp.p, 1)
            bsp.sync()
            bsp.sync()
        pybsp.run(main)
    """)
    failed_once(ranks(5, 2, path, step, PYBSP_GRACE="1"), "MemoryError: full")


def test_a_failure_in_a_part_reaches_all(program: Program) -> None:
    path = program("""
        import sys, pybsp
        def main(bsp):
            with bsp.split(bsp.pid % 2) as part:
                part.sync()
                if bsp.pid == 3:
                    raise ValueError("boom")
                part.sync()
            bsp.sync()
        try:
            pybsp.run(main)
        except pybsp.ProcessorError as error:
            sys.stdout.write(f"<{error}>\\n")
            raise
    """)
    done = ranks(5, 2, path, PYBSP_GRACE="1000")
    failed_once(done, "ValueError: boom")
    assert done.out.count("<processor 3 failed in superstep 1: ValueError: boom>") == 3, done.out


# -- whether -----------------------------------------------------------------------------------------------------------


def test_a_wish_that_is_none_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    for text, wish in (("", None), ("0", False), ("1", True)):
        monkeypatch.setenv("PYBSP_AGGREGATE", text)
        assert configured() is wish
    monkeypatch.setenv("PYBSP_AGGREGATE", "yes")
    with pytest.raises(UsageError, match=r"PYBSP_AGGREGATE: expected 1 .* or 0 .*, got 'yes'"):
        configured()


@pytest.mark.whole
def test_a_wrong_wish_fails_the_job(program: Program) -> None:
    done = ranks(4, 2, program("import pybsp\npybsp.run(lambda bsp: None)"), PYBSP_AGGREGATE="yes")
    assert done.code
    assert "PYBSP_AGGREGATE: expected" in done.err


@pytest.mark.whole
def test_a_refusal_of_processor_0_is_heard_by_all(program: Program) -> None:
    path = program("""
        import os
        rank = int(os.environ.get("PMI_RANK") or os.environ["OMPI_COMM_WORLD_RANK"])
        os.environ["PYBSP_AGGREGATE"] = "" if rank else "0"
        import pybsp
        assert pybsp.run(lambda bsp: bsp.sync() or type(bsp._transport).__name__) == "Mixed"
    """)
    ended_well(ranks(4, 2, path))


def test_a_host_has_the_cores_that_its_ranks_may_run_on_together() -> None:
    assert cores_together("aaa", [0b1, 0b10, 0b10]) == [2, 2, 2]  # bound by the launcher
    assert cores_together("aab", [0b100, 0b100, 0b1111]) == [1, 1, 4]  # taskset -c 2


def test_it_is_chosen_where_it_saves_messages() -> None:
    assert not pays([2, 2])
    assert not pays([2, 2, 2, 2])
    assert pays([3, 3, 3, 3])
    assert not pays([8, 1, 1])  # processors that are alone send as many as ever
    assert pays([8, 8])
    nodes = [0, 0, 0, 3, 3, 3, 3, 7]
    assert Placement(nodes, True).groups(range(8)) == [[0, 1, 2], [3, 4, 5, 6], [7]]
    assert Placement(nodes, True).groups([7, 3, 1, 0, 4]) == [[0], [1, 4], [2, 3]]
    assert Placement(nodes, True).groups([0, 1, 2]) == []  # one node
    assert Placement(nodes, True).groups([0, 3, 7]) == []  # all alone
    assert Placement(nodes, False).groups(range(8)) == []
    assert Placement(nodes, None).groups(range(8)) == []
    assert len(Placement([0] * 8 + [8] * 8, None).groups(range(16))) == 2


def test_processors_are_all_remote_where_no_two_of_them_share_a_node() -> None:
    def all_remote(*nodes: int) -> bool:
        transport = object.__new__(ByMessages)
        on: Any = SimpleNamespace(placement=Placement(nodes, None))
        transport._on = on
        return transport.all_remote

    assert [all_remote(0, 1, 2), all_remote(0, 0, 2), all_remote(0, 1, 0), all_remote(0)] == [True, False, False, True]
