"""LogPMachine: its parameters and their constraints, files in seconds, and where it comes from a BSP machine."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pybsp import BSPMachine, LogPMachine
from pybsp.errors import UsageError
from pybsp.machines.ebsp import EBSPMachine
from pybsp.machines.machine_file import FORMAT, VERSION

pytestmark = pytest.mark.fast  # all of their many cases, which take a millisecond each


@pytest.mark.parametrize(("L", "G", "capacity"), [(8, 2, 4), (9, 2, 5), (5, 5, 1), (2, 2, 1), (6, 5, 2), (1, 3, 1)])
def test_capacity_is_L_by_G_rounded_up(L: int, G: int, capacity: int) -> None:
    assert LogPMachine(2, L=L, o=1, G=G).capacity == capacity


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"p": 0}, "p must be a whole number, at least 1, got 0"),
        ({"p": 2.0}, "p must be a whole number, at least 1, got 2.0"),
        ({"p": 10**19}, "p must be at most 2147483647, got 10000000000000000000"),
        ({"p": True}, "p must be a whole number, at least 1, got True"),
        ({"L": 0}, "L must be a whole number of steps, at least 1, got 0"),
        ({"L": 1e-6}, "L must be a whole number of steps, at least 1, got 1e-06"),
        ({"o": -1}, "o must be a whole number of steps, at least 0, got -1"),
        ({"o": None}, "o must be a whole number of steps"),
        ({"G": 0}, "G must be a whole number of steps, at least 1, got 0"),
        ({"G": "3"}, "G must be a whole number of steps, at least 1, got '3'"),
        ({"L": 2**53 + 1}, "L must be at most 2^53 steps, got 9007199254740993; take a longer step"),
        ({"o": 2**70}, "o must be at most 2^53 steps, got 1180591620717411303424"),
        ({"G": np.uint64(2**63)}, "G must be at most 2^53 steps"),
        ({"step": 1e308}, "L, o and G must be finite in seconds, got step = 1e+308"),
        ({"step": 0}, "step must be finite and at least 1e-290 (seconds), got 0"),
        ({"step": 1e-320}, "step must be finite and at least 1e-290 (seconds), got 1e-320"),
        ({"step": -1.0}, "step must be finite and at least 1e-290 (seconds), got -1.0"),
        ({"step": math.inf}, "step must be finite and at least 1e-290 (seconds), got inf"),
        ({"step": None}, "step must be finite and at least 1e-290 (seconds), got None"),
        ({"step": True}, "step must be finite and at least 1e-290 (seconds), got True"),
        ({"G_word": -1e-9}, "G_word must be finite and at least 0 (seconds), got -1e-09"),
        ({"G_word": math.nan}, "G_word must be finite and at least 0 (seconds), got nan"),
    ],
)
def test_wrong_parameters_are_named(wrong: dict[str, Any], text: str) -> None:
    with pytest.raises(UsageError) as caught:
        LogPMachine(**{"p": 4, "L": 8, "o": 1, "G": 2, **wrong})
    assert str(caught.value).startswith("LogPMachine: " + text)


def test_numpy_integers_are_taken_and_become_ints() -> None:
    machine = LogPMachine(np.int32(4), L=np.int64(8), o=np.uint8(1), G=np.int16(2))  # type: ignore[arg-type]
    assert machine == LogPMachine(4, 8, 1, 2)
    assert {type(getattr(machine, name)) for name in ("p", "L", "o", "G")} == {int}
    assert LogPMachine(4, 8, 1, 2, G_word=0).G_word == 0


@pytest.mark.parametrize(
    ("L", "o", "G", "broken"),
    [
        (8, 2, 2, []),
        (2, 0, 2, []),
        (7, 7, 7, []),
        (8, 1, 1, ["G = 1 is below 2: then up to L messages may be in transit to one processor"]),
        (8, 3, 2, ["G = 2 is below o = 3: a processor is busy o steps with each message"]),
        (3, 1, 4, ["G = 4 is above L = 3: one message in transit obeys the capacity constraint"]),
        (8, 2, 1, ["G = 1 is below 2", "G = 1 is below o = 2"]),
        (2, 4, 3, ["G = 3 is below o = 4", "G = 3 is above L = 2"]),
    ],
)
def test_each_inequality_that_does_not_hold_is_flagged_with_its_reason(
    L: int, o: int, G: int, broken: list[str]
) -> None:
    machine = LogPMachine(4, L, o, G)
    assert len(machine.flags) == len(broken)
    for flag, text in zip(machine.flags, broken, strict=True):
        assert flag.startswith(text)
    if not broken:
        machine.require("here")
        return
    with pytest.raises(UsageError) as caught:
        machine.require("here")
    assert str(caught.value).startswith("here: machine: max{2, o} <= G <= L does not hold: ")
    assert all(flag in str(caught.value) for flag in machine.flags)


def test_nominal_is_not_calibrated_and_admissible() -> None:
    machine = LogPMachine.nominal(7)
    assert (machine.p, machine.flags, machine.calibrated, machine.capacity) == (7, (), False, 4)


@pytest.mark.parametrize("g", [1e-9, 3e-7, 1e-3])
@pytest.mark.parametrize("latency", [0.0, 1e-9, 1e-5, 1.0])
@pytest.mark.parametrize("o_msg", [0.0, 1e-7, 1.0])
@pytest.mark.parametrize("words", [1, 100])
def test_the_machine_of_theorem_2_has_the_gap_of_g_and_the_latency_of_l(
    g: float, latency: float, o_msg: float, words: int
) -> None:
    machine = LogPMachine.from_bsp(BSPMachine(5, g, latency, 1e9, o_msg), words)
    assert machine.p == 5
    assert machine.flags == ()
    assert machine.G * machine.step == pytest.approx(g * words)
    assert latency <= machine.L * machine.step * (1 + 1e-9)
    assert machine.L * machine.step <= max(latency, g * words) + machine.step * (1 + 1e-9)
    assert machine.o * machine.step <= g * words * (1 + 1e-9)
    assert not LogPMachine.from_bsp(BSPMachine.nominal(3)).calibrated


def test_a_bsp_machine_without_a_gap_gives_one_too() -> None:
    assert LogPMachine.from_bsp(BSPMachine(5, 0.0, 1e-6, 1e9)).flags == ()
    assert LogPMachine.from_bsp(BSPMachine(5, 0.0, 0.0, 1e9)).flags == ()


@pytest.mark.parametrize("words", [0, -3, float("nan"), "3", None, 10**400])
def test_messages_of_no_words_are_refused(words: Any) -> None:
    with pytest.raises(UsageError, match=r"from_bsp: argument words: expected a number of at least 1, got "):
        LogPMachine.from_bsp(BSPMachine(5, 1e-8, 1e-6, 1e9), words)


@pytest.mark.parametrize("bsp", [(1e-300, 1e300, 0.0), (1e-15, 100.0, 0.0), (1e-8, 1e-6, 1e308), (5e-324, 1e-6, 0.0)])
def test_a_gap_that_others_have_too_many_of_is_refused(bsp: tuple[float, float, float]) -> None:
    g, latency, o_msg = bsp
    with pytest.raises(UsageError, match="from_bsp: expected l and o_msg of at most 2\\^51 gaps"):
        LogPMachine.from_bsp(BSPMachine(5, g, latency, 1e9, o_msg))


@pytest.mark.parametrize("intervals", [5, [("L", (1, 2))], {"L": 3}, {"L": (1, 2, 3)}, {"L": (1, float("nan"))}])
def test_intervals_that_are_none_are_refused(intervals: Any) -> None:
    with pytest.raises(UsageError, match="LogPMachine: intervals must be pairs of finite seconds by name, got "):
        LogPMachine(p=2, L=16, o=1, G=4, intervals=intervals)


def test_calibrated_is_true_or_false() -> None:
    with pytest.raises(UsageError, match="LogPMachine: calibrated must be True or False, got 'no'"):
        LogPMachine(p=2, L=16, o=1, G=4, calibrated="no")  # type: ignore[arg-type]


# Files


@settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    p=st.integers(1, 10**6),
    L=st.integers(1, 10**6),
    o=st.integers(0, 10**6),
    G=st.integers(1, 10**6),
    step=st.floats(1e-12, 1e3),
    G_word=st.none() | st.floats(0, 1.0),
    calibrated=st.booleans(),
)
def test_a_machine_that_is_saved_and_loaded_is_the_same(tmp_path: Path, **parameters: Any) -> None:
    machine = LogPMachine(**parameters, intervals={"L": (1e-6, 2.5e-6), "G_word": (0.0, 1e-9)})
    machine.save(tmp_path / "machine.json")
    loaded = LogPMachine.load(tmp_path / "machine.json")
    assert loaded == machine
    assert loaded.intervals == machine.intervals


@pytest.mark.parametrize("step", [1e-290, 1e-6, 0.3, 1.0, 1e290])
@pytest.mark.parametrize("most", [2**53, 2**53 - 1])
def test_a_machine_of_the_most_steps_is_loaded_from_its_file(tmp_path: Path, most: int, step: float) -> None:
    LogPMachine(2, L=most, o=1, G=4, step=step).save(tmp_path / "machine.json")
    loaded = LogPMachine.load(tmp_path / "machine.json")
    assert abs(loaded.L - most) <= 2
    assert (loaded.o, loaded.G, loaded.step) == (1, 4, step)


def test_files_hold_seconds(tmp_path: Path) -> None:
    file = tmp_path / "machine.json"
    LogPMachine(4, L=20, o=1, G=4, step=5e-7, G_word=1e-9, calibrated=False, intervals={"o": (0.0, 6e-7)}).save(file)
    content = json.loads(file.read_text())
    part = content["logp"]
    assert (content["format"], content["version"]) == (FORMAT, VERSION)
    assert part == {
        "p": 4,
        "L": pytest.approx(1e-5),
        "o": 5e-7,
        "G": 2e-6,
        "step": 5e-7,
        "G_word": 1e-9,
        "calibrated": False,
        "intervals": {"o": [0.0, 6e-7]},
    }


def test_a_file_holds_several_machines_and_each_keeps_the_others(tmp_path: Path) -> None:
    file = tmp_path / "machine.json"
    bsp = BSPMachine(4, 1e-9, 1e-6, 1e9)
    ebsp = EBSPMachine(4, g1=1e-9, g2=1e-9, s=1e-6)
    first, second = LogPMachine(4, 8, 1, 2), LogPMachine(8, 16, 1, 4, step=0.25)
    bsp.save(file)
    assert not LogPMachine.is_in(file)
    first.save(file)
    ebsp.save(file)
    assert LogPMachine.is_in(file)
    assert (BSPMachine.load(file), LogPMachine.load(file), EBSPMachine.load(file)) == (bsp, first, ebsp)
    second.save(file)
    assert (BSPMachine.load(file), LogPMachine.load(file), EBSPMachine.load(file)) == (bsp, second, ebsp)


def written(file: Path, part: Any, **others: Any) -> Path:
    file.write_text(json.dumps({"format": FORMAT, "version": VERSION, "logp": part, **others}))
    return file


SECONDS = {"p": 4, "L": 1e-5, "o": 1e-6, "G": 2e-6}


@settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    L=st.floats(1e-7, 1.0),
    o=st.just(0.0) | st.floats(1e-8, 1.0),
    G=st.floats(1e-8, 1.0),
)
def test_load_picks_a_round_step_that_changes_no_parameter_by_more_than_2_percent(
    tmp_path: Path, L: float, o: float, G: float
) -> None:
    seconds = {"L": L, "o": o, "G": G}
    machine = LogPMachine.load(written(tmp_path / "machine.json", {"p": 4, **seconds}))
    for name, value in seconds.items():
        assert getattr(machine, name) * machine.step == pytest.approx(value, rel=0.02, abs=0)
    digits = f"{machine.step:.12e}".split("e")[0]
    assert float(digits) in (1.0, 2.0, 5.0)


def test_the_step_of_a_file_is_kept(tmp_path: Path) -> None:
    machine = LogPMachine.load(written(tmp_path / "machine.json", {**SECONDS, "step": 5e-7}))
    assert (machine.L, machine.o, machine.G, machine.step) == (20, 2, 4, 5e-7)


def test_constraints_that_do_not_hold_are_flags_of_a_loaded_machine(tmp_path: Path) -> None:
    machine = LogPMachine.load(written(tmp_path / "machine.json", {**SECONDS, "o": 3e-6, "G": 2e-5}))
    assert len(machine.flags) == 1
    assert machine.flags[0].startswith(f"G = {machine.G} is above L = {machine.L}")


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"L": None}, "logp.L: expected a finite number of at least 0, got"),
        ({"L": "1"}, "logp.L: expected a finite number of at least 0, got"),
        ({"G": -1e-6}, "logp.G: expected a finite number of at least 0, got"),
        ({"o": True}, "logp.o: expected a finite number of at least 0, got"),
        ({"o": math.inf}, "logp.o: expected a finite number of at least 0, got"),
        ({"p": 4.0}, "logp.p: expected a whole number of at least 1"),
        ({"p": 0}, "logp.p: expected a whole number of at least 1"),
        ({"step": 0}, "logp.step: expected a finite number above 0, got"),
        ({"step": "a"}, "logp.step: expected a finite number above 0, got"),
        ({"step": math.nan}, "logp.step: expected a finite number above 0, got"),
        ({"L": 1e300}, "logp.step: expected .* L, o and G are no more than 2.53"),
        ({"G_word": "a"}, "logp.G_word: expected a finite number of at least 0"),
        ({"intervals": 3}, "logp.intervals: expected an object, got 3"),
        ({"intervals": {"L": [1.0]}}, "logp.intervals.L: expected a list of 2, got a list of 1"),
        ({"intervals": {"L": [1.0, "a"]}}, r"logp.intervals.L\[1\]: expected a finite number"),
        ({"colour": "red"}, "must hold .* and may hold .*, got"),
    ],
)
def test_wrong_values_in_a_file_are_named(tmp_path: Path, changes: dict[str, Any], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        LogPMachine.load(written(tmp_path / "machine.json", {**SECONDS, **changes}))


def test_wrong_files_are_named(tmp_path: Path) -> None:
    file = tmp_path / "machine.json"
    with pytest.raises(UsageError, match="cannot be read"):
        LogPMachine.load(file)
    file.write_text("{")
    with pytest.raises(UsageError, match="is not JSON"):
        LogPMachine.load(file)
    file.write_text("[1]")
    with pytest.raises(UsageError, match="expected a JSON object with"):
        LogPMachine.load(file)
    file.write_text(json.dumps({"format": FORMAT, "version": VERSION + 1}))
    with pytest.raises(UsageError, match="is not known here"):
        LogPMachine.load(file)
    BSPMachine(4, 1e-9, 1e-6, 1e9).save(tmp_path / "bsp.json")
    with pytest.raises(UsageError, match=r"LogPMachine\.load: .* has no part 'logp'; it holds \['bsp', 'format'"):
        LogPMachine.load(tmp_path / "bsp.json")
    for part in (3, [1], {"p": 4}):
        with pytest.raises(UsageError, match=r"logp: expected an object of p, L, o, G|must hold"):
            LogPMachine.load(written(file, part))


def test_a_machine_for_another_p_is_made_by_replace() -> None:
    machine = LogPMachine(4, 8, 1, 2, intervals={"L": (1.0, 2.0)})
    other = dataclasses.replace(machine, p=9)
    assert (other.p, other.L, other.intervals) == (9, 8, machine.intervals)
