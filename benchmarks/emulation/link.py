"""The emulated network's latency and line rate, as a person writes them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from pybsp.errors import UsageError

TOPOLOGIES = ("flat", "line", "mesh")

_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
_BITS = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}


@dataclass(frozen=True)
class Link:
    """How frames travel between two hosts.

    Args:
        latency: seconds on the way, one way.
        rate: bits per second of every host's line, in each direction; `math.inf` for no limit.
        hop: seconds more for each hop of the distance between two hosts.
        topology: what distance is: "flat" (always 0), "line" or "mesh" (a square one, row by row).
    """

    latency: float = 1e-3
    rate: float = 200e6
    hop: float = 0.0
    topology: str = "flat"

    def delay(self, source: int, dest: int, hosts: int) -> float:
        """Seconds that a frame travels from one host to another."""
        return self.latency + self.hop * self._distance(source, dest, hosts)

    def _distance(self, source: int, dest: int, hosts: int) -> int:
        if self.topology == "line":
            return abs(source - dest)
        if self.topology == "mesh":
            side = math.isqrt(hosts - 1) + 1
            return abs(source // side - dest // side) + abs(source % side - dest % side)
        return 0


@dataclass(frozen=True)
class Change:
    """From `after` seconds on (since the program was started) the link has another latency or rate; None: as before."""

    after: float
    latency: float | None = None
    rate: float | None = None

    def of(self, link: Link) -> Link:
        """The link after this change."""
        latency = link.latency if self.latency is None else self.latency
        return replace(link, latency=latency, rate=link.rate if self.rate is None else self.rate)


def parse_time(text: str) -> float:
    """Seconds: "500us", "2ms", "0.01s" or "0"; a UsageError where the text is something else."""
    return 0.0 if text == "0" else _quantity(text, _SECONDS, "a time such as 500us, 2ms or 0.01s")


def parse_rate(text: str) -> float:
    """Bits per second: "200mbit", "1gbit" or "unlimited"; a UsageError where the text is something else, or 0."""
    expected = "a rate such as 50mbit or 1gbit, or unlimited"
    rate = math.inf if text == "unlimited" else _quantity(text, _BITS, expected)
    if not rate:
        raise UsageError(f"expected {expected}, got {text!r}")
    return rate


def parse_change(text: str) -> Change:
    """A change of the link: "10s:rate=50mbit", "500ms:latency=5ms", "10s:rate=50mbit,latency=5ms".

    Raises:
        UsageError: the text is something else.
    """
    after, _, what = text.partition(":")
    parsers = {"latency": parse_time, "rate": parse_rate}
    found: dict[str, float] = {}
    for part in what.split(","):
        name, _, value = part.partition("=")
        if name not in parsers or name in found:
            raise UsageError(f"expected a change such as 10s:rate=50mbit or 10s:latency=5ms, got {text!r}")
        found[name] = parsers[name](value)
    return Change(parse_time(after), found.get("latency"), found.get("rate"))


def _quantity(text: str, units: Mapping[str, float], expected: str) -> float:
    found = re.fullmatch(r"(\d+\.?\d*|\.\d+)\s*([a-z]+)", text.lower())
    if found is None or found[2] not in units:
        raise UsageError(f"expected {expected}, got {text!r}")
    return float(found[1]) * units[found[2]]
