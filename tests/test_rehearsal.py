"""What processors go through before a run: every way of data, and nothing of it is left."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pybsp.runs import rehearsal

from .launching import ended_well, mpiexec, python, run

PROGRAM = """
import numpy as np, pybsp
from pybsp.processes import process
from pybsp.runs import rehearsal
from pybsp.ways import named

process.affinity = lambda: (1 << {cores}) - 1
ways, make = [], rehearsal.SuperstepEngine

def watched(*args, **kwargs):
    engine = make(*args, **kwargs)
    engines.append(engine)
    return engine

engines, rehearsal.SuperstepEngine = [], watched

def main(bsp):
    array, queue = bsp.array(3), bsp.queue(int)
    board = bsp._superstep.transport.board
    return len(bsp.ledger), array.number, queue.number, board.reads(), len(bsp.inbox)

def run():
    engines.clear()
    left = pybsp.run(ended)
    used = set()
    for engine in engines:
        for row in engine.account.log.table(0):
            used.update(named(int(row[-1])))
    return left, sorted(used)

def ended(bsp):
    found = main(bsp)
    bsp.sync()
    return found

first = run()
again = run()
from pybsp import collectives
found = [first, again, run(), run()]
if pybsp.run(lambda bsp: bsp.pid) == 0:
    print(found)
"""
OWN = ["agreement", "get", "mail", "making", "pattern", "put", "queue"]
LEFT = (0, 0, 0, False, 0)


def rehearsed(folder: Path, cores: int) -> list[tuple[tuple[object, ...], list[str]]]:
    program = folder / "program.py"
    program.write_text(PROGRAM.replace("{cores}", str(cores)))
    found: list[tuple[tuple[object, ...], list[str]]] = eval(ended_well(run([*mpiexec(2), *python(program)])))
    return found


def test_a_package_is_rehearsed_in_the_first_run_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    there: Any = None
    gone_through: list[str] = []

    def imported(_: str, package: str) -> Any:
        return SimpleNamespace(of_program=lambda bsp: gone_through.append(package))

    monkeypatch.setattr(rehearsal, "_done", set())
    for name, instead in (
        ("near_enough", lambda _: True),
        ("engine_aside", lambda _: None),
        ("BSP", lambda *_: None),
        ("import_module", imported),
    ):
        monkeypatch.setattr(rehearsal, name, instead)
    packages = rehearsal.due(there)
    assert "pybsp.runs" in packages
    rehearsal.rehearse(packages, there, there)
    assert gone_through == [*packages] * rehearsal.TIMES
    assert not rehearsal.due(there)


@pytest.mark.whole
def test_each_way_is_used_once_in_a_process_and_nothing_is_left(tmp_path: Path) -> None:
    assert rehearsed(tmp_path, cores=2) == [
        (LEFT, OWN),
        (LEFT, []),
        (LEFT, ["collective", "record"]),
        (LEFT, []),
    ]


@pytest.mark.whole
def test_none_where_processors_share_cores(tmp_path: Path) -> None:
    assert rehearsed(tmp_path, cores=1) == [(LEFT, [])] * 4
