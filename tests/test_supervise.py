"""A command that is waited for as if it ran in place of the process that started it."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from .launching import finish, python, run, start

if sys.platform != "linux":
    pytest.skip("only Linux has it", allow_module_level=True)

LIMIT = 30  # seconds for a command


def supervised(code: str) -> list[str]:
    """The command that runs this Python code under supervision."""
    return python(
        "-c",
        "import sys; from pybsp.processes.supervise import supervise; sys.exit(supervise(sys.argv[1:]))",
        *python("-c", dedent(code)),
    )


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("raise SystemExit(0)", 0),
        ("raise SystemExit(5)", 5),
        ("import os; os.kill(os.getpid(), 9)", 128 + 9),
        ("import os; os.abort()", 128 + signal.SIGABRT),
    ],
)
def test_the_status_is_that_of_the_command(code: str, status: int) -> None:
    assert run(supervised(code), LIMIT).code == status


def test_it_reads_and_writes_what_this_process_would() -> None:
    command = supervised("print(input())")
    assert subprocess.run(command, input="word\n", capture_output=True, text=True, check=True).stdout == "word\n"


COUNTS = """
import os, signal, sys, time
count = 0
def handle(number, frame):
    global count
    count += 1
for number in (1, 2, 3, 10, 12, 15):
    signal.signal(number, handle)
print("ready", flush=True)
while not count:
    time.sleep(0.01)
until = time.monotonic() + 0.5  # a second one would have come by then
while time.monotonic() < until:
    time.sleep(0.01)
print("times", count, flush=True)
"""


@pytest.mark.whole
@pytest.mark.fast("SIGTERM", "SIGINT")
@pytest.mark.parametrize("name", ["SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2"])
def test_a_signal_goes_on_to_the_command(name: str) -> None:
    job = start(supervised(COUNTS))
    assert job.stdout is not None
    assert job.stdout.readline() == "ready\n"
    job.send_signal(signal.Signals[name])
    ended = finish(job, LIMIT)
    assert (ended.code, ended.out) == (0, "times 1\n"), ended


SLOWLY = """
import subprocess, sys, time
from pybsp.processes.supervise import supervise

send = subprocess.Popen.send_signal

def slowly(job, number):
    time.sleep(0.1)  # so that the command has seen the terminal's before, and counts both
    send(job, number)

subprocess.Popen.send_signal = slowly
sys.exit(supervise(sys.argv[1:]))
"""


@pytest.mark.timeout(60)
@pytest.mark.parametrize("number", [None, signal.SIGTERM], ids=["key", "signal"])
def test_on_a_terminal_keys_and_signals_reach_the_command_once(number: int | None) -> None:
    command = python("-c", SLOWLY, *python("-c", COUNTS))
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(command[0], command)
    text = b""
    with open(terminal, "r+b", buffering=0) as keys:
        while b"ready" not in text:
            text += keys.read(100)
        if number is None:
            keys.write(b"\x03")  # Ctrl-C
        else:
            os.kill(pid, number)
        while b"times" not in text or not text.endswith(b"\n"):
            text += keys.read(100)
        assert os.waitpid(pid, 0)[1] == 0
    assert b"times 1\r\n" in text


STARTS = """
import signal, subprocess, sys
program = "import time; print('started', flush=True); time.sleep(600)"
started = subprocess.Popen([sys.executable, "-c", program])

def end(number, frame):
    started.kill()
    started.wait()
    print("ended what it had started", flush=True)
    sys.exit(1)

signal.signal(signal.SIGTERM, end)
while True:
    signal.pause()
"""


def test_the_command_is_told_to_end_when_its_supervisor_is_killed() -> None:
    """And ends what it has started, as launchers do that are told; one that is killed outright cannot."""
    job = start(supervised(STARTS))
    assert job.stdout is not None
    assert job.stdout.readline() == "started\n"
    job.kill()
    # What it writes to ends when the command, and what it has started, have ended.
    assert finish(job, LIMIT).out == "ended what it had started\n"


LEAVES = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    time.sleep(0.5)
    open({path!r}, "w").close()
    os._exit(0)
sys.exit({status})
"""


@pytest.mark.whole
@pytest.mark.parametrize("status", [0, 1])
def test_what_a_failed_command_has_started_is_waited_for(tmp_path: Path, status: int) -> None:
    path = tmp_path / "done"
    watched = f"""
    import os
    from pybsp.processes.supervise import supervise
    status = supervise({python("-c", LEAVES.format(path=str(path), status=status))!r})
    print(status, os.path.exists({str(path)!r}))
    """
    assert run(python("-c", dedent(watched)), LIMIT).out == f"{status} {bool(status)}\n"


DAEMON = """
import os, sys, time
daemon = os.fork()
if daemon == 0:
    os.close(1)
    os.close(2)
    time.sleep(100)
print(daemon, flush=True)
sys.exit(3)
"""


def test_a_daemon_is_not_waited_for_for_ever() -> None:
    watched = f"""
    from pybsp.processes import supervise
    supervise.STRAGGLERS = 0.1
    print(supervise.supervise({python("-c", DAEMON)!r}))
    """
    daemon, status = run(python("-c", dedent(watched)), LIMIT).out.split()
    assert status == "3"
    os.kill(int(daemon), signal.SIGKILL)
