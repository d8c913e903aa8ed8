"""`--progress`: superstep, label, and the time left where the program says how many supersteps there are."""

from __future__ import annotations

import io
import re
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import pybsp
from pybsp.ground import settings
from pybsp.ledger import log
from pybsp.ledger.log import Log
from pybsp.runs import progress
from pybsp.runs.progress import LINES, TERMINAL, Progress

from .launching import Program, ended_well, python, run


@pytest.fixture
def never(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread never looks by itself, and no time goes by."""
    monkeypatch.setattr(progress, "clock", lambda: 100.0)
    monkeypatch.setattr(log, "clock", lambda: 100.0)
    monkeypatch.setattr(progress, "EVERY", {TERMINAL: threading.TIMEOUT_MAX, LINES: threading.TIMEOUT_MAX})


def machine(supersteps: int = 0, label: str = "") -> Any:
    found = SimpleNamespace(account=SimpleNamespace(log=Log(), label=label), part=None)
    end(found, supersteps)
    return found


def end(of: Any, supersteps: int) -> None:
    for _ in range(supersteps):
        of.account.log.note(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)


@pytest.mark.usefixtures("never")
def test_what_is_shown_is_superstep_and_label_and_the_time_left_of_the_outermost_block_that_says_it() -> None:
    of = machine(3, "iterate")
    shown = Progress(of, LINES, io.StringIO())
    begin = shown._began
    assert shown.text(begin + 1) == '1.0 s: superstep 3 "iterate"'
    of_log = of.account.log
    with of_log.counted(), of_log.counted(10), of_log.counted(2):
        assert shown.text(begin + 1) == '1.0 s: superstep 3 (0 of 10) "iterate"'  # how fast it is is not known yet
        end(of, 1)
        assert shown.text(begin + 2) == '2.0 s, some 18.0 s left: superstep 4 (1 of 10) "iterate"'
        end(of, 3)
        assert shown.text(begin + 8) == '8.0 s, some 12.0 s left: superstep 7 (4 of 10) "iterate"'
    with of_log.counted(4):
        assert shown.text(begin + 9) == '9.0 s: superstep 7 (0 of 4) "iterate"'
    shown.end()


@pytest.mark.usefixtures("never")
def test_what_a_checkpoint_brings_back_says_nothing_of_how_fast_it_goes_on() -> None:
    of, before = machine(), machine(6)
    shown = Progress(of, LINES, io.StringIO())
    with of.account.log.counted(10):
        of.account.log.resume(before.account.log.as_saved())
        assert shown.text(shown._began + 1) == "1.0 s: superstep 6 (6 of 10)"
        end(of, 1)
        assert shown.text(shown._began + 2) == "2.0 s, some 6.0 s left: superstep 7 (7 of 10)"
    shown.end()


@pytest.mark.usefixtures("never")
def test_of_a_processor_in_a_part_the_parts_superstep_is_shown_too() -> None:
    of, part = machine(1), machine(17, "iterate")
    shown = Progress(of, LINES, io.StringIO())
    begin = shown._began
    of.part = part
    with part.account.log.counted(40):
        end(part, 2)
        expected = '1.0 s, some 19.0 s left: superstep 1, in a part: superstep 19 (2 of 40) "iterate"'
        assert shown.text(begin + 1) == expected
        end(part, 2)
        expected = '2.0 s, some 18.0 s left: superstep 1, in a part: superstep 21 (4 of 40) "iterate"'
        assert shown.text(begin + 2) == expected
        with of.account.log.counted(3):  # the outermost block
            assert shown.text(begin + 3) == '3.0 s: superstep 1 (0 of 3), in a part: superstep 21 (4 of 40) "iterate"'
            end(of, 1)
            assert shown.text(begin + 5).startswith("5.0 s, some 10.0 s left: ")
    of.part = None
    assert shown.text(begin + 6) == "6.0 s: superstep 2"
    shown.end()


@pytest.mark.usefixtures("never")
def test_a_parts_supersteps_count_in_a_block_around_the_part() -> None:
    of, part = machine(1), machine(5)
    shown = Progress(of, LINES, io.StringIO())
    with of.account.log.counted(10):
        of.account.log.enter(part.account.log)
        of.part = part
        end(part, 3)
        assert shown.text(shown._began + 1) == "1.0 s, some 2.3 s left: superstep 1 (3 of 10), in a part: superstep 8"
        of.account.log.leave()
        of.part = None
        end(part, 1)  # of others
        end(of, 1)
        assert shown.text(shown._began + 2) == "2.0 s, some 3.0 s left: superstep 2 (4 of 10)"
    shown.end()


@pytest.mark.usefixtures("never")
@pytest.mark.parametrize(
    ("how", "wrote"), [(LINES, "pybsp: a\\x1bb\n"), (TERMINAL, "\r\x1b[K\x1b[?7lpybsp: a\\x1bb\x1b[?7h\r\x1b[K")]
)
def test_a_label_moves_no_cursor_and_a_line_on_a_terminal_is_cut_at_its_width_and_goes_at_the_end(
    how: str, wrote: str
) -> None:
    file = io.StringIO()
    shown = Progress(machine(), how, file)
    shown._write("a\x1bb")
    shown.end()
    assert file.getvalue() == wrote


def test_a_run_shows_where_processor_0_is(program: Program) -> None:
    path = program("""
        import sys, threading, time
        import numpy as np
        import pybsp
        from pybsp import collectives
        from pybsp.runs import progress
        progress.EVERY["lines"] = 0.01
        seen, stderr = threading.Event(), sys.stderr
        class Seen:
            def write(self, text):
                stderr.write(text)
                if '(12 of 200) "waits"' in text:
                    seen.set()
            def flush(self):
                stderr.flush()
        sys.stderr = Seen()
        def main(bsp):
            with bsp.expect(supersteps=200):
                for _ in range(12):
                    bsp.sync()
                with bsp.label("waits"):
                    if bsp.pid == 0:
                        seen.wait()
                    bsp.sync()
        pybsp.run(main)
    """)
    ended = run([*python("-m"), "pybsp", "run", "-n", "2", "--progress", str(path)])
    ended_well(ended)
    assert re.search(r'pybsp: \d+\.\d s(, some \d+\.\d s left)?: superstep 12 \(12 of 200\) "waits"\n', ended.err)


def test_nobody_asks_and_no_thread_is_there() -> None:
    assert settings.DEFAULTS[settings.PROGRESS] == ""
    pybsp.run(lambda bsp: bsp.sync())
    assert "pybsp progress" not in {thread.name for thread in threading.enumerate()}


def test_a_wrong_way_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(settings.PROGRESS, "bars")
    with pytest.raises(pybsp.UsageError, match="PYBSP_PROGRESS: expected one of terminal, lines, got 'bars'"):
        settings.progress()
