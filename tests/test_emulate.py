"""The emulated cluster: its arithmetic, its switch, and (as root) programs on it and every end they can come to."""

from __future__ import annotations

import contextlib
import math
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from pybsp.benchmarks.emulation import hosts, launch
from pybsp.benchmarks.emulation.link import Change, Link, parse_change, parse_rate, parse_time
from pybsp.benchmarks.emulation.switch import BURST, LAUNCHER, Lines, Switch
from pybsp.cli import main as command
from pybsp.errors import LauncherError, UsageError

from .clusters import ALL_DEVICES, emulate_lacks
from .launching import Ended, finish, python, run, start

MS = 1_000_000  # ns


missing = emulate_lacks()
on_hosts = pytest.mark.skipif(bool(missing), reason=missing)
COMMAND = [sys.executable, "-m", "pybsp", "emulate"]


@pytest.fixture(autouse=True)
def _all_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ALL_DEVICES.items():
        monkeypatch.setenv(name, value)


# What a person writes


def test_times_and_rates_are_read_with_their_units() -> None:
    assert [parse_time(text) for text in ("0", "500us", "2ms", "0.01s", "1.5 ms")] == [0, 5e-4, 2e-3, 1e-2, 1.5e-3]
    assert [parse_rate(text) for text in ("50mbit", "1Gbit", "64kbit", "unlimited")] == [5e7, 1e9, 6.4e4, math.inf]
    assert parse_change("10s:rate=50mbit") == Change(10, rate=5e7)
    assert parse_change("500ms:latency=5ms,rate=1gbit") == Change(0.5, 5e-3, 1e9)


@pytest.mark.fast
@pytest.mark.parametrize("text", ["", "2", "ms", "-1ms", "2 m", "2mbit", "inf", "nan ms"])
def test_a_time_without_a_unit_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="expected a time such as"):
        parse_time(text)


@pytest.mark.fast
@pytest.mark.parametrize("text", ["", "200", "0mbit", "200ms", "-1mbit", "200mbyte"])
def test_a_rate_without_a_unit_or_of_nothing_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="expected a rate such as"):
        parse_rate(text)


@pytest.mark.fast
@pytest.mark.parametrize(
    "text", ["10s", "10s:", "10s:50mbit", "10s:loss=1", "10:rate=1mbit", "1s:rate=1mbit,rate=2mbit"]
)
def test_a_change_of_something_else_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="expected a "):
        parse_change(text)


def test_a_change_leaves_the_rest_of_the_link() -> None:
    link = Link(1e-3, 1e8, 1e-4, "line")
    assert Change(1, rate=1e6).of(link) == Link(1e-3, 1e6, 1e-4, "line")
    assert Change(1, latency=0.0).of(link) == Link(0.0, 1e8, 1e-4, "line")


def test_distance_adds_hops() -> None:
    assert Link(1.0, topology="flat", hop=1.0).delay(0, 7, 8) == 1
    assert Link(1.0, topology="line", hop=1.0).delay(6, 1, 8) == 6
    mesh = Link(0.0, topology="mesh", hop=1.0)
    # 0 1 2
    # 3 4 5
    # 6 7
    assert [mesh.delay(0, dest, 8) for dest in range(8)] == [0, 1, 2, 1, 2, 3, 2, 3]
    assert mesh.delay(2, 7, 8) == 3


@pytest.mark.parametrize(
    ("command", "way_out"),
    [("no-such-command", "on PATH, found none$"), ("program.py", "program in Python goes as: -- python program.py$")],
)
def test_a_command_that_is_none_is_refused_before_hosts_are_made(command: str, way_out: str) -> None:
    with pytest.raises(LauncherError, match=f"command {command}: expected one that can be executed, .*{way_out}"):
        launch.emulate([command], 2, 1, Link(1e-3))


# When frames arrive


def test_a_frame_takes_its_length_at_the_line_rate_and_the_latency() -> None:
    lines = Lines(3, Link(2e-3, 8e6))  # 1 us a byte
    assert lines.due(100, 0, 1, 1000) == 100 + 1 * MS + 2 * MS


def test_frames_of_one_sender_leave_one_after_another() -> None:
    lines = Lines(3, Link(2e-3, 8e6))
    assert [lines.due(0, 0, dest, 1000) for dest in (1, 2, 1)] == [3 * MS, 4 * MS, 5 * MS]
    assert lines.due(10 * MS, 0, 1, 1000) == 13 * MS  # the line was free again


def test_frames_to_one_receiver_enter_one_after_another() -> None:
    lines = Lines(3, Link(2e-3, 8e6))
    assert [lines.due(0, source, 2, 1000) for source in (0, 1)] == [3 * MS, 4 * MS]
    assert lines.due(0, 2, 0, 1000) == 3 * MS  # the other direction is free


def test_a_new_link_holds_for_later_frames_and_overtakes_none() -> None:
    lines = Lines(2, Link(5e-3, 8e6))
    assert lines.due(0, 0, 1, 1000) == 6 * MS
    lines.set(Link(0.0, 8e7))
    assert lines.due(0, 0, 1, 1000) == 6 * MS + MS // 10
    assert lines.due(20 * MS, 0, 1, 1000) == 20 * MS + MS // 10


def test_an_unlimited_line_takes_no_time() -> None:
    lines = Lines(2, Link(1e-3, math.inf))
    assert [lines.due(0, 0, 1, 9014) for _ in range(3)] == [MS] * 3


# The switch, with sockets for ports


class Network:
    """A running switch whose ports are sockets."""

    def __init__(self, count: int, link: Link, *changes: Change, clock: Callable[[], int] = time.monotonic_ns) -> None:
        pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(count + 1)]
        self._inner = [inner for inner, _ in pairs]
        self.ports = [outer for _, outer in pairs]
        for inner, outer in pairs:
            inner.setblocking(False)
            outer.settimeout(10)
        wake, self._stop = socket.socketpair()
        self._inner.append(wake)
        self.switch = Switch([inner.fileno() for inner, _ in pairs], link, changes, clock)
        self._thread = threading.Thread(target=self.switch.run, args=(wake.fileno(),))
        self._thread.start()

    def end(self) -> None:
        self._stop.send(b"x")
        self._thread.join()
        for one in (*self._inner, *self.ports, self._stop):
            one.close()


@pytest.fixture
def network() -> Iterator[list[Network]]:
    """A list whose networks end with the test."""
    made: list[Network] = []
    yield made
    for one in made:
        one.end()


def frame(source: int, dest: int, size: int = 60) -> bytes:
    head = bytes([2, 0, 0, 0, 0, dest, 2, 0, 0, 0, 0, source])
    return head + bytes(size - len(head))


def test_frames_arrive_whole_in_order_and_not_early(network: list[Network]) -> None:
    network.append(made := Network(2, Link(20e-3, 8e6)))  # 1 us a byte
    begin = time.monotonic()
    for number in range(2 * BURST):
        made.ports[0].send(frame(0, 1, 100 + number))
    for number in range(2 * BURST):
        got = made.ports[1].recv(10_000)
        elapsed = time.monotonic() - begin
        assert got == frame(0, 1, 100 + number)
        assert elapsed >= 20e-3 + 1e-6 * sum(range(100, 101 + number))
    assert made.switch.lateness >= 0


@pytest.mark.whole
def test_a_port_is_read_little_ahead_of_its_line(network: list[Network]) -> None:
    network.append(made := Network(2, Link(0.0, 1e3)))  # more than a minute a frame
    made.ports[0].settimeout(0.3)
    sent = 0
    with contextlib.suppress(TimeoutError):  # what is not read fills the socket
        while sent < 5000:
            made.ports[0].send(frame(0, 1, 9000))
            sent += 1
    assert sent < 5000


@pytest.mark.whole
def test_frames_under_way_are_not_overtaken_after_a_change(network: list[Network]) -> None:
    network.append(made := Network(2, Link(0.5, math.inf), Change(0.1, latency=0.0)))
    for size in range(20, 50):
        made.ports[0].send(frame(0, 1, size))
        time.sleep(0.01)
    assert [len(made.ports[1].recv(10_000)) for _ in range(20, 50)] == list(range(20, 50))


def test_the_launcher_knows_neither_latency_nor_rate(network: list[Network]) -> None:
    network.append(made := Network(2, Link(30.0, 1e3)))
    made.ports[0].send(frame(0, LAUNCHER))
    assert made.ports[2].recv(10_000) == frame(0, LAUNCHER)
    made.ports[2].send(frame(LAUNCHER, 1))
    assert made.ports[1].recv(10_000) == frame(LAUNCHER, 1)


def test_a_broadcast_reaches_all_others_and_an_unknown_address_nobody(network: list[Network]) -> None:
    network.append(made := Network(3, Link(0.0, math.inf)))
    made.ports[1].send(frame(1, 77))
    everyone = b"\xff" * 6 + frame(1, 0)[6:]
    made.ports[1].send(everyone)
    for port in (0, 2, 3):
        assert made.ports[port].recv(10_000) == everyone
    made.ports[1].settimeout(0.05)
    with pytest.raises(TimeoutError):
        made.ports[1].recv(10_000)


def test_the_link_changes_at_its_time(network: list[Network]) -> None:
    now = 0  # ns; it stands still but where the test moves it
    changes = Change(0.3, latency=0.2), Change(0.1, latency=0.1)
    network.append(made := Network(2, Link(0.0, math.inf), *changes, clock=lambda: now))

    def arrived() -> bool:
        """Whether host 1 has got a frame, when all that is due now has been delivered: what the launcher is sent is."""
        made.ports[0].send(frame(0, LAUNCHER))
        made.ports[2].recv(10_000)
        with contextlib.suppress(BlockingIOError):
            return bool(made.ports[1].recv(10_000))
        return False

    made.ports[1].setblocking(False)
    for sent, latency in ((0, 0), (99, 0), (100, 100), (299, 100), (300, 200), (900, 200)):
        now = sent * MS
        made.ports[0].send(frame(0, 1))
        if latency:
            assert not arrived()
            now = (sent + latency) * MS - 1
            assert not arrived()
            now += 1
        assert arrived()


# What is missing


def test_all_that_is_missing_is_said_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(hosts, "TUN", str(tmp_path / "tun"))
    with pytest.raises(LauncherError) as raised:
        launch.find_mpiexec()
    for what in (
        "root",
        "ip on PATH",
        "iproute2",
        "unshare",
        "nsenter",
        "setpriv",
        "tun (modprobe tun",
        "mpiexec beside",
    ):
        assert what in str(raised.value)


def test_another_mpiexec_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    mpiexec = tmp_path / "mpiexec"
    mpiexec.write_text("#!/bin/sh\necho 'mpiexec (Open MPI) 5.0.0'\n")
    mpiexec.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(LauncherError, match=r"MPICH's mpiexec, Hydra .*Open MPI"):
        launch.find_mpiexec()


@pytest.mark.parametrize(
    ("script", "answer"), [("echo oops >&2; echo ok 12; read -r rest", "12"), ("echo oops; exit 1", "made: oops$")]
)
def test_a_hosts_shell_may_complain_before_it_answers(script: str, answer: str) -> None:
    first = subprocess.Popen(
        ["sh", "-c", script], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    with first:
        if answer.isdigit():
            assert hosts._answer(first) == answer
        else:
            with pytest.raises(LauncherError, match=answer):
                hosts._answer(first)


@pytest.mark.fast
@pytest.mark.parametrize(("option", "most"), [("-n", hosts.MOST), ("--ranks-per-host", 1024)])
@pytest.mark.parametrize("wrong", ["0", "\u00b2", "1" * 5000])
def test_a_number_of_hosts_or_ranks_that_is_none_is_refused(
    capsys: pytest.CaptureFixture[str], option: str, most: int, wrong: str
) -> None:
    with pytest.raises(SystemExit, match="2"):
        command(["emulate", option, wrong, "--", "true"])
    assert capsys.readouterr().err.endswith(f"expected a whole number from 1 to {most}, got {wrong!r:.40}\n")


def test_a_command_is_needed() -> None:
    ended = run([*COMMAND, "-n", "2"])
    assert ended.code == 2
    assert "pybsp emulate: expected a command after --, as in -- python program.py, got none" in ended.err


@pytest.mark.parametrize("given", [["--hop", "1ms"], ["--topology", "line"]])
def test_a_hop_without_a_topology_and_the_reverse_are_refused(
    given: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(["emulate", *given, "--", "true"]) == 2
    assert "expected --hop beside --topology line or mesh, got --hop " in capsys.readouterr().err


@pytest.mark.whole
@pytest.mark.parametrize(
    "option", [("-n", "0"), ("-n", "65"), ("--rate", "200"), ("--latency", "2"), ("--change", "1s")]
)
def test_options_that_cannot_be_are_refused(option: tuple[str, str]) -> None:
    ended = run([*COMMAND, *option, "--", "true"])
    assert ended.code == 2
    assert f"{option[0]}" in ended.err
    assert repr(option[1]) in ended.err


# Programs on it

MEASURE = """
import os, socket, sys, time
import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
token = np.zeros(1, np.uint8)

def there_and_back(part, other):
    begin = time.perf_counter()
    if comm.rank == 0:
        comm.Send(part, other)
        comm.Recv(token, other)
    elif comm.rank == other:
        comm.Recv(part, 0)
        comm.Send(token, 0)
    return time.perf_counter() - begin

trip = min(there_and_back(token, 1) for _ in range(30))
stream = min(there_and_back(np.ones(500_000, np.uint8), 1) for _ in range(5))
names = comm.gather((socket.gethostname(), sorted(os.listdir("/sys/class/net"))))
local = comm.Split_type(MPI.COMM_TYPE_SHARED).size
if comm.rank == 0:
    assert all(interfaces == ["eth0", "lo"] for _, interfaces in names), names
    print("hosts", *(name for name, _ in names))
    print("found", trip, stream, local, repr(sys.stdin.readline()))
sys.exit(7)
"""


@pytest.mark.whole
@on_hosts
@pytest.mark.timeout(150)
def test_a_program_runs_across_hosts_with_the_given_network(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(MEASURE)
    link = ["--latency", "10ms", "--rate", "80mbit"]
    job = subprocess.run(
        [*COMMAND, "-n", "3", *link, "--", *python(path)],
        input="a line\n",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert job.returncode == 7, job
    assert set(re.findall(r"pybsp\d", job.stdout)) == {"pybsp0", "pybsp1", "pybsp2"}
    found = re.search(r"^found (\S+) (\S+) (\d+) (.*)$", job.stdout, re.MULTILINE)
    assert found, job
    assert 20e-3 <= float(found[1]) < 40e-3  # there and back twice would take that
    least = 20e-3 + 500_000 * 8 / 80e6  # seconds
    assert least <= float(found[2]) < 3 * least
    assert found[3] == "1"
    assert found[4] == repr("a line\n")


@pytest.mark.whole
@on_hosts
@pytest.mark.timeout(150)
def test_ranks_of_one_host_share_it(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(MEASURE)
    ended = run([*COMMAND, "-n", "2", "--ranks-per-host", "2", "--latency", "50ms", "--", *python(path)])
    assert "hosts pybsp0 pybsp0 pybsp1 pybsp1" in ended.out, ended
    found = re.search(r"^found (\S+) \S+ (\d+) ", ended.out, re.MULTILINE)
    assert found, ended
    assert float(found[1]) < 100e-3  # it does not go over the network
    assert found[2] == "2"


FAILS = """
import pybsp

def main(bsp):
    bsp.sync()
    if bsp.pid == 1:
        raise ValueError("boom")
    bsp.sync()

pybsp.run(main)
"""


@pytest.mark.whole
@on_hosts
@pytest.mark.timeout(150)
def test_a_failure_on_one_host_ends_the_job_on_all(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(FAILS)
    ended = run([*COMMAND, "-n", "3", "--", *python(path)])
    assert ended.code not in (0, 2), ended
    assert ended.err.count("Traceback") == 1, ended.err
    assert "ValueError: boom" in ended.err


def on_two_hosts(tmp_path: Path, program: str, each: int = 1, **environment: str) -> Ended:
    path = tmp_path / "program.py"
    path.write_text("import os, sys, time\nimport pybsp\nRANK = int(os.environ['PMI_RANK'])\n" + dedent(program))
    ended = run([*COMMAND, "-n", "2", "--ranks-per-host", str(each), "--", *python(path)], **environment)
    # A machine that is too busy for the network says so, which none of these tests is about.
    errors = [line for line in ended.err.splitlines(keepends=True) if "frames came" not in line]
    return ended._replace(err="".join(errors))


@pytest.mark.whole
@on_hosts
@pytest.mark.timeout(150)
@pytest.mark.parametrize(("each", "end"), [(1, "0"), (1, "'no such file'"), (2, "3")])
def test_a_rank_of_another_host_that_ends_without_a_run_is_missed(tmp_path: Path, each: int, end: str) -> None:
    program = f"""
        if RANK == 1:
            sys.exit({end})
        time.sleep(0.5)
        pybsp.run(lambda bsp: bsp.sync())
        print("ran")
    """
    ended = on_two_hosts(tmp_path, program, each, PYBSP_GRACE="1000")
    assert ended.code not in (0, 2), ended
    assert "ran" not in ended.out
    assert ended.err.count("Traceback") == 1, ended.err
    who = "processor 0" if each == 1 else "processors 0, 2-3"
    assert f"SyncError: the processors did not do the same: {who} called pybsp.run, at " in ended.err
    assert "processor 1 left the job" in ended.err


@pytest.mark.whole
@on_hosts
@pytest.mark.timeout(150)
@pytest.mark.parametrize("warns", [True, False])
def test_ranks_of_several_hosts_that_end_without_a_run_wait_for_each_other(tmp_path: Path, warns: bool) -> None:
    program = """
        pybsp.simulate(lambda bsp: bsp.sync(), p=2)
        time.sleep(3 * RANK)
        assert "mpi4py.MPI" not in sys.modules
        print("ends", flush=True)
    """
    ended = on_two_hosts(tmp_path, program, PYBSP_GRACE="0.1", PYBSP_WARN_AFTER="0.2" if warns else "1000")
    assert (ended.code, ended.out.count("ends")) == (0, 2), ended
    said = "pybsp: processor 0 has ended without a run, and has waited 0.2 s for the others of 2 to end or to begin one"
    assert ended.err.startswith(said) if warns else not ended.err, ended.err
    assert ended.err.count("\n") - ended.err.count("processor 1 has ended") == warns, ended.err  # MPI_Init takes time


@pytest.mark.whole
@on_hosts
@pytest.mark.timeout(150)
def test_a_rank_of_another_host_raises_before_its_first_run(tmp_path: Path) -> None:
    program = """
        if RANK == 1:
            raise ValueError("boom")
        pybsp.run(lambda bsp: bsp.sync())
    """
    ended = on_two_hosts(tmp_path, program, PYBSP_GRACE="1000")
    assert ended.code not in (0, 2), ended
    assert ended.err.count("Traceback") == 1, ended.err
    assert "ValueError: boom" in ended.err


@pytest.mark.whole
@on_hosts
@pytest.mark.timeout(150)
def test_one_cluster_runs_at_a_time(tmp_path: Path) -> None:
    waits = tmp_path / "waits"
    first = start([*COMMAND, "-n", "1", "--", "sh", "-c", f"echo running; while [ ! -e {waits} ]; do sleep 0.1; done"])
    assert first.stdout is not None
    assert first.stdout.readline() == "running\n"
    second = start([*COMMAND, "-n", "1", "--", "echo", "turn"])
    assert second.stderr is not None
    assert "waits for another emulated cluster" in second.stderr.readline()
    assert first.poll() is None
    waits.touch()
    assert finish(first).code == 0
    ended = finish(second)
    assert (ended.code, ended.out) == (0, "turn\n"), ended


WAITS = """
import os, signal, sys, time
from mpi4py import MPI

def once(number, frame):  # it comes twice: by the group, and from the launcher
    signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt

if os.fork() == 0:  # a process that nobody waits for, and that no signal to the job reaches
    os.setsid()
    os.closerange(0, 1000)
    time.sleep(600)
    os._exit(0)
signal.signal(signal.SIGINT, once)
try:
    MPI.COMM_WORLD.Barrier()  # who is still in it when the other says so may be interrupted too
    if MPI.COMM_WORLD.rank == 0:
        print("running", flush=True)
    time.sleep(600)
except KeyboardInterrupt:
    MPI.COMM_WORLD.Barrier()
    print("kept", flush=True)
"""


def left(token: str) -> list[str]:
    """What is left of a job one of whose arguments is `token`: processes and network interfaces."""
    found = [name for name in os.listdir("/sys/class/net") if name.startswith("pybsp")]
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has just ended
            if token in (process / "cmdline").read_text():
                found.append(process.name)
    return found


@pytest.mark.whole
@on_hosts
@pytest.mark.timeout(150)
@pytest.mark.parametrize(
    ("number", "everyone", "code"),
    [
        (signal.SIGINT, True, 130),  # Ctrl-C on a terminal
        (signal.SIGTERM, False, 143),
        (signal.SIGHUP, True, 129),
        (signal.SIGKILL, False, -9),
        (signal.SIGKILL, True, -9),
    ],
    ids=["ctrl-c", "term", "hangup", "kill", "kill all"],
)
def test_nothing_is_left_after_any_end(tmp_path: Path, number: int, everyone: bool, code: int) -> None:
    path = tmp_path / "program.py"
    path.write_text(dedent(WAITS))
    token = f"token-{os.getpid()}-{tmp_path.name}"
    job = start([*COMMAND, "-n", "2", "--", *python(path, token)])
    try:
        assert job.stdout is not None
        assert job.stdout.readline() == "running\n"
        assert left(token)
        (os.killpg if everyone else os.kill)(job.pid, number)
    except BaseException:
        job.kill()
        raise
    finally:
        ended = finish(job)
    assert ended.code == code, ended
    assert ended.out.count("kept") == (2 if number == signal.SIGINT else 0), ended
    deadline = time.monotonic() + 60  # the kernel takes its time, where nobody waited
    while left(token) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left(token)
