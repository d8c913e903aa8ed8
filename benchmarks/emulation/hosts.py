"""Emulated hosts: namespaces of processes, network, mounts and names, whose only way out is a TAP device.

The first process of its namespaces keeps a host alive. It waits for the end of its standard input, which only the
emulator has open. So when the emulator ends, by whatever cause, the host's first process ends; with it the kernel
ends all other processes of the host, and then there is nothing that holds the namespaces. A TAP device ends with the
file descriptor that made it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import subprocess
import sys
from types import TracebackType

from pybsp.errors import LauncherError

from .switch import LAUNCHER, MTU

MOST = 64
NETWORK = "198.18.0"  # a part of the block set aside for testing networks (RFC 2544): nobody's real network
TUN = "/dev/net/tun"

_TUNSETIFF = 0x400454CA
_TAP, _NO_PI = 0x0002, 0x1000

# The first process of a host. $1: its name, $2: its hardware address, $3: MTU, $4: its address.
# It says which process it is outside, and waits for eth0; it says that the network is up, and waits for the end.
_FIRST = """
set -e
read -r pid rest < /proc/self/stat
mount -t proc proc /proc
mount -t sysfs sysfs /sys
[ ! -d /dev/shm ] || mount -t tmpfs tmpfs /dev/shm
echo "$1" > /proc/sys/kernel/hostname
[ ! -e /proc/sys/net/ipv6 ] || echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6
echo "ok $pid"
read -r rest
ip link set lo up
ip link set eth0 address "$2" mtu "$3" up
ip address add "$4/24" dev eth0
echo ok
read -r rest
"""


def address(host: int) -> str:
    """The address of a host."""
    return f"{NETWORK}.{host + 1}"


LAUNCHER_ADDRESS = f"{NETWORK}.{LAUNCHER}"


def missing() -> list[str]:
    """What emulated hosts need and this machine lacks, in words; empty where nothing does."""
    if sys.platform != "linux":
        return ["Linux (network namespaces and TAP devices)"]
    found = []
    if os.geteuid() != 0:
        found.append('root (as in: sudo env "PATH=$PATH" pybsp emulate ...)')
    tools = {"ip": "iproute2", **dict.fromkeys(("mount", "nsenter", "setpriv", "unshare"), "util-linux")}
    found += [f"{tool} on PATH (of {package})" for tool, package in tools.items() if shutil.which(tool) is None]
    if not os.path.exists(TUN):
        found.append(f"{TUN} (modprobe tun; for a container: --device {TUN})")
    return found


class Hosts:
    """Emulated hosts with their ports; a context, at whose end they and all that runs on them are gone.

    Args:
        count: 1 to 64.

    Raises:
        LauncherError: they cannot be made; the text says why.
    """

    def __init__(self, count: int) -> None:
        self.ports: list[int] = []  # one a host, then the launcher's
        self.pids: list[int] = []  # of each host's first process
        self._first: list[subprocess.Popen[str]] = []
        try:
            self._make(count)
        except BaseException:
            self.end()
            raise

    def __enter__(self) -> Hosts:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def _make(self, count: int) -> None:
        names = [f"pybsp{i}" for i in range(count)]
        for name in [*names, "pybsp-launcher"]:
            self.ports.append(_tap(name))
        _ip(
            f"link set pybsp-launcher address {_hardware(LAUNCHER)} mtu {MTU} up",
            f"address add {LAUNCHER_ADDRESS}/24 dev pybsp-launcher",
        )
        namespaces = ["--net", "--uts", "--ipc", "--mount", "--pid", "--fork", "--kill-child"]
        for i, name in enumerate(names):
            arguments = [name, _hardware(i), str(MTU), address(i)]
            self._first.append(
                subprocess.Popen(
                    ["unshare", *namespaces, "sh", "-c", _FIRST, "sh", *arguments],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    errors="replace",
                    start_new_session=True,  # Ctrl-C is for the program, which needs the network to end
                )
            )
        self.pids = [int(_answer(first)) for first in self._first]
        _ip(*(f"link set {name} netns {pid} name eth0" for name, pid in zip(names, self.pids, strict=True)))
        for first in self._first:
            assert first.stdin is not None
            print(file=first.stdin, flush=True)
        for first in self._first:
            _answer(first)

    def end(self) -> None:
        """End all hosts, and wait until all that ran on them is gone."""
        for first in self._first:
            assert first.stdin is not None
            first.stdin.close()
        for first in self._first:
            first.wait()
            assert first.stdout is not None
            first.stdout.close()
        for port in self.ports:
            os.close(port)
        self._first, self.ports = [], []


def _hardware(last: int) -> str:
    return f"02:00:00:00:00:{last:02x}"


def _tap(name: str) -> int:
    port = os.open(TUN, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.ioctl(port, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _TAP | _NO_PI))
    except OSError as error:
        os.close(port)
        raise LauncherError(f"the network interface {name} cannot be made: {error.strerror}") from error
    return port


def _ip(*lines: str) -> None:
    done = subprocess.run(["ip", "-batch", "-"], input="\n".join(lines), capture_output=True, text=True, check=False)
    if done.returncode:
        raise LauncherError(f"ip failed: {' '.join(done.stderr.split())}")


def _answer(first: subprocess.Popen[str]) -> str:
    """What a host's first process says, after "ok"; its shell may complain before, of a locale, and go on."""
    assert first.stdout is not None
    complaints = ""
    for line in first.stdout:
        if line.startswith("ok"):
            return line[2:].strip()
        complaints += line
    text = " ".join(complaints.split())
    raise LauncherError(f"an emulated host cannot be made: {text or 'its first process ended'}")
