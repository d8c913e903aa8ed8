"""Times the quantities that LogP and LogGP are fitted from; fits/logp.py says what each is, and what is made of it.

A client and a server: of each point a visit takes a few samples, after some that warm up caches, connections and
TCP's window. Before each sample the client tells how many operations it has, and the server that it is ready, so
that both begin together, and no gap or latency of something else is in what is timed.

What deviates from the usual practice, and why:

- o_s is also timed directly, at the sender, in the trains with a delay ("send"; a visit to such a train gives samples
  of both). As a difference of two trains it drowns where latency is high: 5 us against 100 ms on an emulated cluster,
  whose trains vary by 1 ms.
- The delay of such a train is a few gaps, not a round trip, where that is shorter. It need only be above the gap, and
  after a long one a send finds its code and data cold: between two ranks of one host it took 0.3 us after 30 or 100
  us, 2 us after 1 ms and 20 us after 12 ms; between hosts of a cluster emulator 7 us after 30 us, and 70 us after 12
  ms.
- A single receive, and a single send, are shorter than 100 readings of the clock, and cannot be repeated within a
  sample, as each waits for a message of its own, or for time to pass. They are timed one by one, and the cost of a
  reading is taken off; a sample is the median of some, as the first finds caches cold.
- Trains without a delay are nonblocking on raw mpi4py: see `RawLayer`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import NamedTuple

from . import clock as clocks
from .layers import WORD, Layer, nothing
from .samples import Point, Sample
from .sampling import SamplingLevel, undisturbed

LAYERS = ("raw", "logp")
KI = 1024
SIZES = {
    "quick": (WORD, 128, KI, 8 * KI, 32 * KI, 128 * KI, 512 * KI),
    "default": (WORD, 64, 256, *(KI << power for power in range(8)), 512 * KI),
    "thorough": (WORD, 32, 64, 128, 256, 512, *(KI * number << power for power in range(11) for number in (2, 3))),
}
TRAINS = (10, 32)  # messages; the first with a delay as well
DELAY = 1.2  # of a train: times what is surely above the gap
RECEIVES = 5  # messages of which each is received once it is seen
SPACED = 50e-6  # seconds between these, so that the look that sees one does not do the work of the next as well
GAPS = 4.0  # of the smallest messages, which surely are above the gap of one
ASLEEP = (5e-3, 2.0)  # of a receiver, for the eager limit: seconds at least, and round trips
SHORT = 64 * KI  # bytes up to which overheads are looked for; above, MPI libraries wait for the receiver
WARM_UPS = 5  # samples of a visit that do not count, at most; they settle how many operations one has
LONG = 5e-3  # seconds: where a sample takes longer, one warms up enough
LEAST = 1e-3  # seconds of a sample at least, so that a time slice lost is in few of them
LEAD = 3.0  # round trips, from when all senders of a burst know its begin

# where -> bytes -> seconds of a round trip; in place of 0 bytes the gap of the smallest messages
RoundTrips = Mapping[str, Mapping[int, float]]


class _Found(NamedTuple):
    """A sample, of the point itself, or, where `send` is given, also of the "send" point beside it."""

    repeats: int
    seconds: float
    at: float
    send: float | None = None


# -- which points ------------------------------------------------------------------------------------------------------


def places(p: int, nodes: Sequence[int] | None = None) -> tuple[str, ...]:
    """The classes of pairs: within a node and between nodes where there are both, else ("",); none with p = 1."""
    if p < 2:
        return ()
    found = tuple(where for where in ("intra", "inter") if _pair(where, p, nodes) is not None)
    return found if len(found) == 2 else ("",)


def sizes(level: str, word: int = WORD) -> tuple[int, ...]:
    """Bytes of the messages of a level, from one word up."""
    return tuple(sorted({word, *(size for size in SIZES[level] if size > word)}))


def points(
    p: int,
    level: str,
    nodes: Sequence[int] | None = None,
    word: int = WORD,
    layer: str = "raw",
    round_trips: RoundTrips | None = None,
    longest: float = math.inf,
) -> list[Point]:
    """What is to be measured on a layer, in no special order.

    Args:
        p: processors; with one there is nothing.
        level: "quick", "default" or "thorough".
        nodes: node number of each processor; None: all on one.
        word: bytes of the smallest message.
        layer: "raw" or "logp".
        round_trips: what `pilot` found, which the delays follow. The same for all launches makes their points the same.
            None: a millisecond each.
        longest: seconds; an operation that is expected to take longer is left out, except at the smallest size.
    """
    found = []
    for where in places(p, nodes):
        trips = (round_trips or {}).get(where, {})
        for size in sizes(level, word):
            if round_trips is not None and size not in trips:
                continue
            trip = trips.get(size, 1e-3)
            gap = trips.get(0) or trip  # 0 only where noise is above it
            above = min(trip, GAPS * gap + max(0.0, trip - trips.get(word, trip)))  # surely the gap of this size
            found += [
                point
                for point in _at_size(Point("logp", "", layer, where, size), level, word, trip, _rounded(DELAY * above))
                if size == word or expected(point, trip) <= longest
            ]
        if where != "intra":
            found += [Point("logp", "burst", layer, where, word, messages=k) for k in _doubling(p - 1)]
    return found


def _at_size(base: Point, level: str, word: int, trip: float, delay: float) -> list[Point]:
    """Of one size, but bursts."""
    size = base.size
    short, long = TRAINS
    found = [base._replace(pattern="round-trip"), base._replace(pattern="train", messages=short)]
    if level != "quick" or size == word:
        found.append(base._replace(pattern="train", messages=long))
    if size <= SHORT:
        if level != "quick" or size <= KI:
            found.append(base._replace(pattern="train", messages=short, delay=delay))
        found.append(base._replace(pattern="receive"))
    if size > word:
        least, trips = ASLEEP
        found.append(base._replace(pattern="eager", delay=_rounded(max(least, trips * trip))))
    return found


def expected(point: Point, round_trip: float) -> float:
    """Seconds of one operation, roughly, of which a round trip of that size takes so many seconds."""
    if point.pattern == "train":
        return round_trip + (point.messages - 1) * (point.delay or round_trip / 2)
    return round_trip + point.delay


def _rounded(seconds: float) -> float:
    """To two digits, upwards."""
    unit = 10.0 ** (math.floor(math.log10(seconds)) - 1)
    return round(math.ceil(seconds / unit * (1 - 1e-9)) * unit, 12)


def _doubling(most: int) -> list[int]:
    """1, 2, 4, ..., and `most`."""
    return sorted({*(1 << power for power in range(most.bit_length())), most})


def _pair(where: str, p: int, nodes: Sequence[int] | None) -> tuple[int, int] | None:
    """Client and server: the first two processors, or the first of a class; None where there are none."""
    on = nodes if nodes is not None else (0,) * p
    for client in range(p):
        for server in range(client + 1, p):
            if where == "" or (on[client] == on[server]) == (where == "intra"):
                return client, server
    return None


def _burst(point: Point, nodes: Sequence[int]) -> tuple[int, ...]:
    """Who takes part: the receiver, then the senders, of other nodes first."""
    others = sorted(range(1, len(nodes)), key=lambda pid: (nodes[pid] == nodes[0], pid))
    return 0, *others[: point.messages]


# -- measuring ---------------------------------------------------------------------------------------------------------


def pilot(layer: Layer, settings: SamplingLevel, word: int = WORD) -> dict[str, dict[int, float]]:
    """Seconds of a round trip, for each class of pairs and size; equal on all processors. Collective.

    In place of 0 bytes there is the gap of the smallest messages. Sizes are left out from that on of which a round trip
    takes longer than the level affords for a visit.
    """
    found: dict[str, dict[int, float]] = {}
    brief = replace(settings, batch=3)
    for where in places(layer.p, layer.nodes):
        trips = found[where] = {}
        for size in sizes(settings.level, word):
            trips[size] = _shortest(layer, Point("logp", "round-trip", layer.name, where, size), brief)
            if trips[size] > settings.visit:
                break
        train = _shortest(layer, Point("logp", "train", layer.name, where, word, TRAINS[0]), brief)
        trips[0] = max(train - trips[word], 0.0) / (TRAINS[0] - 1)
    return found


def _shortest(layer: Layer, point: Point, settings: SamplingLevel) -> float:
    """The shortest time of one visit, in seconds: of few samples, some of which other programs may have delayed."""
    return min(sample.seconds for sample in measure(layer, point, settings, 0, 0))


def measure(
    layer: Layer, point: Point, settings: SamplingLevel, launch: int, batch: int, begin: float = 0.0
) -> list[Sample]:
    """Samples of one visit to a point: the same list on every processor. Collective.

    Of a train with a delay there are also samples of "send", at the same size: o_s, timed at the sender.

    Args:
        layer: to measure on.
        point: one of `points`, equal on all processors.
        settings: of the level; equal on all.
        launch, batch: numbers that the samples get.
        begin: when the launch began, by this layer's clock.
    """
    if point.pattern == "burst":
        roles = _burst(point, layer.nodes)
    else:
        pair = _pair(point.where, layer.p, layer.nodes)
        assert pair is not None, f"no pair of processors for {point}"
        roles = pair
    found: list[_Found] = []
    with undisturbed():
        if point.pattern == "burst":
            if layer.pid == roles[0]:
                found = _receive_bursts(layer, point, settings, roles[1:])
            elif layer.pid in roles:
                _send_bursts(layer, point, roles[0])
        elif layer.pid == roles[0]:
            found = _ask(layer, point, settings, roles[1])
        elif layer.pid == roles[1]:
            _serve(layer, point, roles[0])
    found = _shared(layer, found, roles[0], begin)
    times = RECEIVES if point.pattern == "receive" else 1
    samples = [Sample(point, launch, batch, one.repeats * times, one.seconds, one.at) for one in found]
    beside = point._replace(pattern="send", messages=1, delay=0.0)
    samples += [
        Sample(beside, launch, batch, one.repeats * point.messages, one.send, one.at)
        for one in found
        if one.send is not None
    ]
    return samples


def _shared(layer: Layer, found: list[_Found], root: int, begin: float) -> list[_Found]:
    """What processor `root` found, on all."""
    if layer.pid != root:
        return [_Found(*one) for one in layer.hear(root)]
    found = [one._replace(at=one.at - begin) for one in found]
    for pid in range(layer.p):
        if pid != root:
            layer.tell(pid, [tuple(one) for one in found])
    return found


def _ask(layer: Layer, point: Point, settings: SamplingLevel, server: int) -> list[_Found]:
    """The client's part of a visit."""
    operate, clock = _client(layer, point, server), layer.clock

    def sample(repeats: int) -> tuple[_Found, float]:
        layer.tell(server, repeats)
        layer.hear(server)
        at = clock()
        seconds, sending = operate(repeats)
        return _Found(repeats, seconds, at, sending), clock() - at

    repeats, count = 1, settings.batch
    for turn in range(WARM_UPS if layer.timer.runs else 0):
        one, wall = sample(repeats)
        count = max(1, min(settings.batch, int(settings.visit / wall)))
        if point.pattern == "eager" or (turn == 0 and wall > LONG):
            break
        needed = math.ceil(LEAST * repeats / wall)
        if point.pattern in ("round-trip", "train"):
            needed = max(needed, layer.timer.repeats(one.seconds))
        if turn and needed <= 2 * repeats:
            break
        repeats = max(repeats, needed)
    found = [sample(repeats)[0] for _ in range(count)]
    layer.tell(server, 0)
    return found


def _serve(layer: Layer, point: Point, client: int) -> None:
    """The server's part of a visit."""
    prepare, operate = _server(layer, point, client)
    while repeats := layer.hear(client):
        prepare()
        layer.tell(client, None)
        for left in range(repeats, 0, -1):
            operate(left > 1)


def _client(layer: Layer, point: Point, server: int) -> Callable[[int], tuple[float, float | None]]:
    """What runs so many operations: seconds of one, and of one of its sends if that is known."""
    clock, cost, size = layer.clock, layer.timer.overhead, point.size
    send, receive = layer.sender(server, size), layer.receiver(server, size)

    def round_trips(repeats: int) -> tuple[float, None]:
        start = clock()
        for _ in range(repeats):
            send()
            receive()
        return (clock() - start) / repeats, None

    def trains(repeats: int) -> tuple[float, None]:
        send_all = layer.train_sender(server, size, point.messages)
        start = clock()
        for _ in range(repeats):
            send_all()
            receive()
        return (clock() - start) / repeats, None

    def delayed_trains(repeats: int) -> tuple[float, float]:
        wait_until, delay, others = layer.wait_until, point.delay, range(point.messages - 1)
        sends: list[float] = []
        note, receiving = sends.append, 0.0
        for _ in range(repeats):
            before = clock()
            send()
            after = clock()
            note(after - before)
            for _number in others:
                wait_until(after + delay)
                before = clock()
                send()
                after = clock()
                note(after - before)
            receive()
            receiving += clock() - after
        # The delays are what they should be: those that took longer, as the system took the core away, do not count.
        waiting = (point.messages - 1) * delay
        return waiting + (sum(sends) + receiving) / repeats - (point.messages + 1) * cost, median(sends) - cost

    def receives(repeats: int) -> tuple[float, None]:
        seconds: list[float] = []
        for _ in range(repeats):
            for _number in range(RECEIVES):
                send()
                if layer.timer.runs:
                    layer.wait_until(clock() + SPACED)
            seconds += layer.hear(server)
        return median(seconds) - cost, None

    def to_a_sleeper(repeats: int) -> tuple[float, None]:
        seconds = 0.0
        for _ in range(repeats):
            start = clock()
            send()
            seconds += clock() - start
            receive()
        return seconds / repeats - cost, None

    if point.pattern == "train":
        return delayed_trains if point.delay else trains
    return {"round-trip": round_trips, "receive": receives, "eager": to_a_sleeper}[point.pattern]


def _server(layer: Layer, point: Point, client: int) -> tuple[Callable[[], object], Callable[[bool], object]]:
    """What gets ready for a sample, and what runs one operation; its argument is whether another follows."""
    size, messages = point.size, point.messages
    send, receive = layer.sender(client, size), layer.receiver(client, size)
    if point.pattern == "train" and not point.delay:
        post, receive_all = layer.train_receiver(client, size, messages)

        def train(more: bool) -> None:
            receive_all()
            if more:
                post()
            send()

        return post, train

    def delayed_train(_: bool) -> None:
        for _number in range(messages):
            receive()
        send()

    def round_trip(_: bool) -> None:
        receive()
        send()

    def seen(_: bool) -> None:
        layer.tell(client, [receive_seen() for _number in range(RECEIVES)])

    def asleep(_: bool) -> None:
        layer.wait_until(layer.clock() + point.delay)
        receive()
        send()

    receive_seen = layer.probed(client, size)
    operate = {"train": delayed_train, "round-trip": round_trip, "receive": seen, "eager": asleep}[point.pattern]
    return nothing, operate


# -- bursts ------------------------------------------------------------------------------------------------------------


def _receive_bursts(layer: Layer, point: Point, settings: SamplingLevel, senders: Sequence[int]) -> list[_Found]:
    """The receiver's part: it says when the senders begin, by its clock, and receives."""
    compared = {pid: clocks.ask(layer, pid) for pid in senders}
    lead = LEAD * max(clock.round_trip for clock in compared.values())
    telling = 0.0  # seconds that it took to tell all; within a node far longer than a round trip
    receivers = [layer.receiver(pid, point.size) for pid in senders]
    found = []
    count = settings.batch + layer.timer.runs  # the first warms up
    for _ in range(count):
        start = layer.clock()
        begin = start + 2 * telling + lead
        for pid in senders:
            layer.tell(pid, compared[pid].own(begin))
        telling = layer.clock() - start
        for receive in receivers:
            receive()
        for pid in senders:
            layer.tell(pid, None)  # all is here: what follows is no longer timed
        longest = max([layer.hear(pid) for pid in senders])
        found.append(_Found(1, longest - layer.timer.overhead, begin))
    for pid in senders:
        layer.tell(pid, None)
    return found[count - settings.batch :]


def _send_bursts(layer: Layer, point: Point, receiver: int) -> None:
    """A sender's part: one message, at the moment that the receiver says; tells how long the send took."""
    clocks.answer(layer, receiver)
    clock, send = layer.clock, layer.sender(receiver, point.size)
    while (begin := layer.hear(receiver)) is not None:
        layer.wait_until(begin)
        start = clock()
        send()
        seconds = clock() - start
        layer.hear(receiver)
        layer.tell(receiver, seconds)
