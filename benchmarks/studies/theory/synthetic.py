"""Samples of machines whose parameters are known, to check estimators with.

A LogGP machine is played through event by event: processors that are busy for their overheads, ports that let a message
through every gap, messages in flight. Its times come from that, not from the formulas that a fit inverts. Supersteps
are of a machine with known l, o_msg and g.

Noise is multiplicative, with median 1: log-normal, and spikes that hit some samples; batches and launches may have a
factor of their own. A delay that the program chose itself has none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pybsp.benchmarks.calibration.fits.logp import words
from pybsp.benchmarks.calibration.samples import Point, Sample

SIZES = (8, 64, 512, 4096, 16384, 65536, 131072, 262144, 524288, 1048576)  # bytes
TRAINS = (10, 32)
SLEEP = 50.0  # of a receiver, in round trips


@dataclass(frozen=True)
class LogGP:
    """A machine; seconds."""

    L: float  # from the end of a message's submission to the arrival of its first word
    o_s: float  # that a processor is busy with a message to send, and with one to receive
    o_r: float
    g: float  # between two messages of one word through one port, at least
    G_word: float  # for each further word of a message, in the port
    o_word: float = 0.0  # for each further word of a message, in both overheads
    eager_limit: float = (
        math.inf
    )  # bytes; who sends more asks, and waits for the answer, either of which takes a flight
    capacity: float = math.inf  # messages in transit to one processor; who sends one more waits

    def sending(self, size: int) -> float:
        """o_s of a message."""
        return self.o_s + self.o_word * (words(size) - 1)

    def receiving(self, size: int) -> float:
        """o_r of a message."""
        return self.o_r + self.o_word * (words(size) - 1)

    def port(self, size: int) -> float:
        """How long a message keeps a port."""
        return self.g + self.G_word * (words(size) - 1)


class _Processor:
    """Its clock, and when its ports are free again."""

    def __init__(self, machine: LogGP, now: float = 0.0) -> None:
        self._machine, self.now = machine, now
        self._out = self._in = -math.inf

    def send(self, size: int, ready: float = -math.inf) -> float:
        """Send a message to a receiver that is ready from then on; when it has arrived, wholly."""
        machine = self._machine
        self.now = max(self.now, self._out)
        if size > machine.eager_limit:
            self.now = max(self.now + machine.L, ready) + machine.L
        self._out = self.now + machine.port(size)
        self.now += machine.sending(size)
        return self.now + machine.L + machine.G_word * (words(size) - 1)

    def receive(self, size: int, arrival: float) -> None:
        """Receive a message."""
        self.now = max(self.now, arrival, self._in)
        self._in = self.now + self._machine.port(size)
        self.now += self._machine.receiving(size)


def played(machine: LogGP, point: Point) -> float:
    """Seconds of a LogP point, as fits/logp.py defines it."""
    size, client, server = point.size, _Processor(machine), _Processor(machine)
    match point.pattern:
        case "round-trip" | "train":
            for number in range(max(point.messages, 1)):
                client.now += point.delay if number else 0.0
                server.receive(size, client.send(size, server.now))
            client.receive(size, server.send(size, client.now))
        case "send":
            client.send(size)
        case "receive":
            server.receive(size, 0.0)
        case "eager":
            client.send(size, ready=point.delay)
        case "burst":
            return _burst(machine, point)
        case _:
            raise ValueError(f"no LogP quantity: {point.pattern!r}")
    return server.now if point.pattern == "receive" else client.now


def _burst(machine: LogGP, point: Point) -> float:
    """One after another gets a place; each delivery, one a gap, makes one free."""
    deliveries: list[float] = []
    longest = 0.0
    for number in range(point.messages):
        free = number - machine.capacity
        accepted = max(machine.sending(point.size), deliveries[int(free)] if free >= 0 else 0.0)
        last = deliveries[-1] if deliveries else -math.inf
        deliveries.append(max(accepted + machine.L, last + machine.port(point.size)))
        longest = max(longest, accepted)
    return longest


def logp_points(
    machine: LogGP, sizes: Sequence[int] = SIZES, layer: str = "raw", where: str = "", senders: int = 8
) -> list[Point]:
    """What signature.py would measure of a machine."""
    found = []
    for size in sizes:
        base = Point("logp", "round-trip", layer, where, size)
        trip = played(machine, base)
        found += [base, *(base._replace(pattern="train", messages=n) for n in TRAINS)]
        found.append(base._replace(pattern="train", messages=TRAINS[0], delay=1.2 * trip))
        found.append(base._replace(pattern="eager", delay=SLEEP * trip))
        if size <= machine.eager_limit:
            found += [base._replace(pattern=pattern) for pattern in ("send", "receive")]
    small = Point("logp", "burst", layer, where, min(sizes))
    return found + [small._replace(messages=k) for k in range(1, senders + 1)]


@dataclass(frozen=True)
class Noise:
    """Factors with median 1: standard deviations of logarithms, and how many samples there are."""

    sigma: float = 0.0  # of a sample; of what all samples of a batch share; of what all points of a launch share
    batch: float = 0.0
    launch: float = 0.0
    spikes: float = 0.0  # share of the samples that take `spike` times as long
    spike: float = 5.0
    launches: int = 1
    batches: int = 1
    samples: int = 1  # of one batch

    def factors(self, points: int, rng: np.random.Generator) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        """Of samples: (points, launches, batches, samples)."""
        shape = (points, self.launches, self.batches, self.samples)
        log = self.sigma * rng.standard_normal(shape) + self.batch * rng.standard_normal((*shape[:3], 1))
        log += self.launch * rng.standard_normal((1, self.launches, 1, 1))
        return np.exp(log) * np.where(rng.random(shape) < self.spikes, self.spike, 1.0)


def noisy(times: Mapping[Point, float], noise: Noise, seed: int = 0) -> list[Sample]:
    """Samples of points whose seconds are known; the delays in them have no noise."""
    rng = np.random.default_rng(seed)
    points = list(times)
    chosen = np.array([_chosen(point) for point in points])
    seconds = np.array([times[point] for point in points])
    factors = noise.factors(len(points), rng)
    table = ((seconds - chosen)[:, None, None, None] * factors + chosen[:, None, None, None]).tolist()
    return [
        Sample(point, launch, batch, 1, value, float(batch))
        for point, row in zip(points, table, strict=True)
        for launch, batches in enumerate(row)
        for batch, values in enumerate(batches)
        for value in values
    ]


def _chosen(point: Point) -> float:
    """Seconds of a point that are the program's own delays."""
    return (point.messages - 1) * point.delay if point.pattern == "train" else 0.0


@dataclass(frozen=True)
class SyntheticSupersteps:
    """T = l + o_msg*m + g*h seconds; o_msg and g of messages of `packed` bytes or more are those in `large`."""

    l: float  # noqa: E741 - the model's own name
    o_msg: float
    g: float
    packed: float = math.inf
    large: tuple[float, float] = (0.0, 0.0)  # o_msg and g

    def time(self, point: Point) -> float:
        """Seconds of a superstep."""
        o_msg, g = self.large if point.size >= self.packed else (self.o_msg, self.g)
        return self.l + o_msg * point.busiest + g * point.h
