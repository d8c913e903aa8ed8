"""Measuring the LogP signature: on simulated machines to the letter, on MPI ranks with what is added on purpose."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from pybsp import LogPMachine
from pybsp.benchmarks.calibration import signature
from pybsp.benchmarks.calibration.layers import LogPLayer
from pybsp.benchmarks.calibration.samples import Point, Sample
from pybsp.benchmarks.calibration.sampling import SamplingLevel, sampling_level
from pybsp.logp import Processor, simulate

from ..launching import mpiexec, python, run

STEP = 1e-6
MACHINES = [LogPMachine(p, L, o, G, step=STEP) for p, L, o, G in ((2, 40, 3, 10), (2, 8, 0, 2), (6, 12, 4, 4))]


def few(level: str = "quick") -> SamplingLevel:
    """Two samples a visit."""
    return replace(sampling_level(level), batch=2)


def measured(
    machine: LogPMachine, level: str = "quick", nodes: tuple[int, ...] | None = None
) -> list[tuple[list[Point], list[Sample]]]:
    """What each processor of a simulated machine planned, and measured."""

    def program(proc: Processor) -> tuple[list[Point], list[Sample]]:
        layer = LogPLayer(proc, nodes)
        trips = signature.pilot(layer, few(level))
        plan = signature.points(layer.p, level, layer.nodes, layer="logp", round_trips=trips)
        return plan, [
            sample for point in plan for sample in signature.measure(layer, point, few(level), launch=3, batch=1)
        ]

    return simulate(program, machine=machine).results


def medians(samples: list[Sample]) -> dict[tuple[Any, ...], float]:
    """In steps, by pattern, messages, whether there is a delay, where, and size."""
    found: dict[tuple[Any, ...], list[float]] = defaultdict(list)
    for sample in samples:
        point = sample.point
        found[point.pattern, point.messages, point.delay > 0, point.where, point.size].append(sample.seconds / STEP)
    return {key: median(values) for key, values in found.items()}


@pytest.mark.parametrize("machine", MACHINES, ids=str)
@pytest.mark.parametrize("level", ["quick", "default"])
def test_arithmetic_on_the_samples_of_a_simulated_machine_gives_back_its_parameters(
    machine: LogPMachine, level: str
) -> None:
    _, samples = measured(machine, level)[0]
    at = medians(samples)
    sizes = signature.sizes(level)
    assert {key[-1] for key in at} == set(sizes)
    for size in sizes:
        round_trip = at["round-trip", 0, False, "", size]
        assert round_trip / 2 - 2 * machine.o == pytest.approx(machine.L)
        assert (at["train", 10, False, "", size] - round_trip) / 9 == pytest.approx(machine.G)
        if ("train", 32, False, "", size) in at:
            assert (at["train", 32, False, "", size] - round_trip) / 31 == pytest.approx(machine.G)
        if ("receive", 0, False, "", size) in at:
            assert at["receive", 0, False, "", size] == pytest.approx(machine.o, abs=1e-6)
        if ("send", 1, False, "", size) in at:
            assert at["send", 1, False, "", size] == pytest.approx(machine.o, abs=1e-6)
            [delay] = {
                s.point.delay / STEP
                for s in samples
                if s.point.delay and (s.point.pattern, s.point.size) == ("train", size)
            }
            assert delay >= machine.G
            train = at["train", 10, True, "", size]
            assert (train - round_trip) / 9 - delay == pytest.approx(machine.o, abs=1e-6)
    assert {"receive", "send", "eager"} <= {key[0] for key in at}


def test_a_sample_knows_its_launch_batch_and_operations() -> None:
    plan, samples = measured(MACHINES[0])[0]
    assert {sample.point for sample in samples if sample.point.pattern != "send"} == set(plan)
    for sample in samples:
        assert (sample.launch, sample.batch, sample.pid) == (3, 1, -1)
        assert sample.repeats == {"send": 10, "receive": signature.RECEIVES}.get(sample.point.pattern, 1)
    assert all(samples.count(sample) == 1 for sample in samples), "two samples of one moment"
    of_each = [sum(sample.point == point for sample in samples) for point in plan]
    assert of_each == [2] * len(plan)


def test_all_processors_have_the_same_samples() -> None:
    results = measured(MACHINES[2], nodes=(0, 0, 1, 1, 1, 2))
    assert len(results) == 6
    assert all(result == results[0] for result in results)


def test_sizes_make_no_difference_where_messages_have_none() -> None:
    at = medians(measured(MACHINES[0])[0][1])
    trains = [at["train", 10, False, "", size] for size in signature.sizes("quick")]
    assert trains == pytest.approx([trains[0]] * len(trains))


@pytest.mark.parametrize(("L", "G"), [(12, 4), (10, 4), (4, 4), (20, 4)])
def test_a_sender_of_a_burst_stalls_from_one_more_than_the_capacity_on(L: int, G: int) -> None:
    machine = LogPMachine(9, L, 2, G, step=STEP)
    found = {
        sample.point.messages: sample.seconds / STEP
        for sample in measured(machine)[0][1]
        if sample.point.pattern == "burst"
    }
    assert sorted(found) == [1, 2, 4, 8]
    for senders, longest in found.items():
        if senders <= machine.capacity:
            assert longest == pytest.approx(machine.o, abs=1e-6)
        else:
            assert longest > 1.5 * machine.o


def test_pairs_within_and_between_nodes_are_measured_apart() -> None:
    _, samples = measured(MACHINES[2], nodes=(0, 1, 2, 2, 1, 0))[0]
    trips = {sample.point.where for sample in samples if sample.point.pattern == "round-trip"}
    assert trips == {"intra", "inter"}
    assert {sample.point.where for sample in samples if sample.point.pattern == "burst"} == {"inter"}


@pytest.mark.parametrize(
    ("nodes", "places"),
    [
        ((0,), ()),
        ((0, 0), ("",)),
        ((0, 1), ("",)),
        ((0, 1, 2), ("",)),
        ((0, 0, 0), ("",)),
        ((0, 1, 0), ("intra", "inter")),
    ],
)
def test_classes_of_pairs_are_those_that_a_placement_has(nodes: tuple[int, ...], places: tuple[str, ...]) -> None:
    assert signature.places(len(nodes), nodes) == places


def test_the_pairs_of_a_class_are_of_it() -> None:
    nodes = (0, 1, 1, 2, 2)
    for where in ("intra", "inter"):
        pair = signature._pair(where, 5, nodes)
        assert pair is not None
        assert (nodes[pair[0]] == nodes[pair[1]]) == (where == "intra")
    assert signature._pair("intra", 3, (0, 1, 2)) is None


def test_one_processor_has_no_signature() -> None:
    assert signature.points(1, "thorough") == []


@pytest.mark.parametrize("level", ["quick", "default", "thorough"])
def test_sizes_go_from_a_word_to_both_sides_of_protocol_thresholds(level: str) -> None:
    sizes = signature.sizes(level)
    assert list(sizes) == sorted(set(sizes))
    assert sizes[0] == 8
    assert any(size <= 1024 for size in sizes[1:])
    assert sum(8 * 1024 <= size <= 64 * 1024 for size in sizes) >= 2
    assert sizes[-1] >= 512 * 1024
    assert signature.sizes(level, 256)[0] == 256


def test_what_takes_too_long_is_left_out_but_never_the_smallest_size() -> None:
    trips = {"": {size: 1e-3 + size * 1e-6 for size in signature.sizes("default")}}
    everything = signature.points(2, "default", round_trips=trips)
    plan = signature.points(2, "default", round_trips=trips, longest=0.1)
    assert set(plan) < set(everything)
    assert all(
        point.size == 8 or signature.expected(point, trips[""][point.size]) <= 0.1
        for point in plan
        if point.pattern != "burst"
    )
    at_least = signature.points(2, "default", round_trips=trips, longest=0.0)
    assert {point.pattern for point in at_least} == {"round-trip", "train", "receive", "burst"}
    assert {point.size for point in at_least} == {8}


def test_sizes_that_the_pilot_did_not_reach_are_left_out() -> None:
    trips = {"": {8: 1e-5, 128: 2e-5}}
    assert {point.size for point in signature.points(2, "quick", round_trips=trips)} == {8, 128}


def delays(trips: dict[int, float]) -> dict[int, float]:
    """Of the trains, by size, for these round trips; the gap of the smallest messages in place of size 0."""
    plan = signature.points(2, "default", round_trips={"": trips})
    return {point.size: point.delay for point in plan if point.pattern == "train" and point.delay}


@pytest.mark.parametrize("trip", [3.21e-6, 1e-3, 0.099])
def test_the_delay_of_a_train_is_at_most_a_round_trip_and_a_fifth_in_two_digits(trip: float) -> None:
    for gap in (trip, trip / 2, 0.0):
        delay = delays({8: trip, 0: gap})[8]
        assert 1.2 * trip <= delay <= 1.2 * trip * 1.1
        assert float(f"{delay:.1e}") == pytest.approx(delay, rel=1e-9)


def test_the_delay_of_a_train_is_above_the_gap_and_far_below_a_long_round_trip() -> None:
    latency, gap, word = 5e-3, 6e-6, 0.3e-6
    trips = {size: 2 * (latency + size / 8 * word) for size in signature.sizes("default")}
    found = delays({**trips, 0: gap})
    assert len(found) > 5
    for size, delay in found.items():
        assert delay > gap + size / 8 * word
        assert delay < 30e-6 + 3 * size / 8 * word
    noisy = delays({8: latency, 64: 0.999 * latency, 0: gap})
    assert noisy[64] == noisy[8] > gap


# -- MPI ranks ---------------------------------------------------------------------------------------------------------

HEAD = """\
import json, sys, time
from dataclasses import replace
from pybsp import LogPMachine, logp
from pybsp.benchmarks.calibration import signature
from pybsp.benchmarks.calibration.layers import LogPLayer, RawLayer
from pybsp.benchmarks.calibration.sampling import sampling_level

logp.run(lambda proc: None)  # loads MPI, as the layer wants it
from mpi4py import MPI
comm = MPI.COMM_WORLD.Dup()

def spin(seconds):
    limit = time.perf_counter() + seconds
    while time.perf_counter() < limit:
        pass

def everything(layer):
    begin = layer.clock()
    level = sampling_level("quick")
    trips = signature.pilot(layer, level)
    plan = signature.points(layer.p, "quick", layer.nodes, 8, layer.name, trips, level.visit)
    return [sample for point in plan for sample in signature.measure(layer, point, level, 0, 0, begin)]

def tell(found):
    found = comm.gather(found)
    if comm.rank == 0:
        print(json.dumps(found))
"""


def ran(p: int, path: Path, text: str) -> Any:
    """What the ranks of a program tell."""
    path.write_text(HEAD + text)
    ended = run([*mpiexec(p), *python(path)])
    assert ended.code == 0, ended.err
    return json.loads(ended.out)


@pytest.mark.whole
def test_all_points_of_quick_are_measured_on_two_ranks(tmp_path: Path) -> None:
    start, raw, ours = zip(
        *ran(
            2,
            tmp_path / "quick.py",
            """
begin = time.perf_counter()
raw = everything(RawLayer(comm))
machine = LogPMachine(comm.size, 1000, 1, 2, step=1e-6)
ours = logp.run(lambda proc: everything(LogPLayer(proc)), machine=machine, capacity=None)
tell((time.perf_counter() - begin, raw, ours))
""",
        ),
        strict=True,
    )
    for layer, (mine, others) in (("raw", raw), ("logp", ours)):
        assert mine == others
        samples = [Sample(Point(*sample[0]), *sample[1:]) for sample in mine]
        assert {sample.point.layer for sample in samples} == {layer}
        assert {sample.point.size for sample in samples} == set(signature.sizes("quick"))
        assert {sample.point.pattern for sample in samples} == {
            "round-trip",
            "train",
            "send",
            "receive",
            "eager",
            "burst",
        }
        for sample in samples:
            assert math.isfinite(sample.seconds)
            assert 0 < sample.seconds < max(start)
            assert 0 <= sample.at <= max(start)
        for sample in samples:
            if sample.point.pattern == "train":
                assert sample.seconds > (sample.point.messages - 1) * sample.point.delay


@pytest.mark.whole
def test_overheads_and_latency_that_are_added_on_purpose_are_found(tmp_path: Path) -> None:
    """Each figure against the same without the addition, in turn in one job; the shortest, as others may run beside."""
    [found, _] = ran(
        2,
        tmp_path / "added.py",
        """
class Slower(RawLayer):
    def __init__(self, sending, receiving):
        super().__init__(comm)
        self.sending, self.receiving = sending, receiving
    def sender(self, dest, size):
        send = super().sender(dest, size)
        def slow():
            spin(self.sending)
            send()
        return slow if self.sending else send
    def receiver(self, source, size):
        receive = super().receiver(source, size)
        def slow():
            receive()
            spin(self.receiving)
        return slow if self.receiving else receive

level = sampling_level("quick")
layers = {"plain": Slower(0, 0), "sender": Slower(200e-6, 0), "receiver": Slower(0, 300e-6)}
base = signature.Point("logp", "", "raw", "", 8)
plan = [
    base._replace(pattern="round-trip"), base._replace(pattern="receive"),
    base._replace(pattern="train", messages=10, delay=2e-3),
]
found = {}
for number in range(20):
    for name, layer in layers.items():
        for point in plan:
            for sample in signature.measure(layer, point, level, 0, number):
                pattern = sample.point.pattern
                found.setdefault(f"{name} {pattern}", []).append(sample.seconds)
tell(found)
""",
    )
    at = {name: min(values) for name, values in found.items()}
    added = {name: at[f"{who} {what}"] - at[f"plain {what}"] for name, (who, what) in CASES.items()}
    for name, seconds in added.items():
        assert seconds == pytest.approx(EXPECTED[name], rel=0.15, abs=20e-6), (name, added)


CASES = {
    "o_s in a round trip": ("sender", "round-trip"),
    "o_s of a send": ("sender", "send"),
    "o_s in a train": ("sender", "train"),
    "o_s in a receive": ("sender", "receive"),
    "o_r in a round trip": ("receiver", "round-trip"),
    "o_r of a receive": ("receiver", "receive"),
    "o_r of a send": ("receiver", "send"),
    "o_r in a train": ("receiver", "train"),
}
EXPECTED = {
    "o_s in a round trip": 400e-6,  # there and back
    "o_s of a send": 200e-6,
    "o_s in a train": 11 * 200e-6,  # ten sends, and that of the answer
    "o_s in a receive": 0.0,
    "o_r in a round trip": 600e-6,
    "o_r of a receive": 300e-6,
    "o_r of a send": 0.0,
    "o_r in a train": 2 * 300e-6,  # of the last message, and of the answer: the others' are over in the delays
}


@pytest.mark.whole
def test_processors_that_take_no_part_wait_and_get_what_was_found(tmp_path: Path) -> None:
    found = ran(
        3,
        tmp_path / "three.py",
        """
layer = RawLayer(comm, (0, 0, 1))
level = replace(sampling_level("quick"), batch=2, visit=0.05)
points = [p for p in signature.points(3, "quick", layer.nodes, 8, "raw") if p.size in (8, 32 * 1024)]
tell([sample for point in points for sample in signature.measure(layer, point, level, 0, 0)])
""",
    )
    assert found[0] == found[1] == found[2]
    assert {(sample[0][1], sample[0][3]) for sample in found[0]} >= {
        ("round-trip", "intra"),
        ("round-trip", "inter"),
        ("burst", "inter"),
    }
