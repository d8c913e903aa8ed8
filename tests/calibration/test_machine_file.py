"""A calibration as a machine file, and back to the same bits; what is not understood is refused."""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import pytest

from pybsp import BSPMachine, EBSPMachine, LogPMachine, UsageError
from pybsp.benchmarks.calibration import machine_file, samples
from pybsp.benchmarks.calibration.command import add_options
from pybsp.benchmarks.calibration.estimates import Estimate, Flag
from pybsp.benchmarks.calibration.results import (
    After,
    BSPFit,
    Calibration,
    Classes,
    ClassFit,
    EBSPFit,
    Errors,
    ExchangeFit,
    HeldOut,
    LogPFit,
    LogPSize,
    Noise,
    Predicted,
    Rate,
    Segment,
)
from pybsp.cli import main as command


def about(value: float) -> Estimate:
    return Estimate(value, value * 0.9, value * 1.1)


ERRORS = Errors(0.05, 0.2, -0.01, 12)
BSP = BSPFit(
    l=about(1e-4),
    o_msg=about(5e-6),
    g=about(2e-8),
    segments=(
        Segment(1, about(1e-4), about(5e-6), about(9e-8)),
        Segment(128, about(1.2e-4), Estimate(-1e-9, -2e-9, 1e-9), about(2e-8)),
    ),
    patterns={"exchange": about(2e-8), "shift": about(3e-8)},
    worst="shift",
    n_half=64,
    r=about(2e9),
    rates=(Rate("axpy", 1 << 15, about(2e9), 1, 1.1),),
    theil_sen={"l": 1e-4},
    differences={"l": 1.1e-4, "g": 2.1e-8},
    residuals=ERRORS,
    flags=(Flag("not-linear", "g is not constant", "g"),),
)
EBSP = EBSPFit(about(1e-8), about(2e-8), about(1e-4), about(1e-6), 4.5, True, {"bsp": ERRORS, "ebsp": ERRORS})
LOGP = LogPFit(
    layer="logp",
    where="",
    L=about(5e-5),
    L_low=about(5e-5),
    L_high=about(6e-5),
    o_s=about(1e-6),
    o_r=about(2e-6),
    o=about(1.5e-6),
    G=about(3e-6),
    G_word=about(1e-8),
    sizes=(LogPSize(8, about(1.2e-4), about(1e-6), None, about(3e-6)),),
    eager_limit=8192,
    capacity=None,
    expected=17,
    jumps=(16384,),
)
WHOLE = Calibration(
    about={"p": 4, "hosts": ["a", "a", "b", "b"], "nodes": [0, 0, 1, 1], "seed": 0, "level": "quick", "only": []},
    bsp=BSP,
    ebsp=EBSP,
    classes=Classes({"intra": ClassFit("intra", about(1e-5), about(1e-6), about(1e-9))}, about(1e7), {"sum": ERRORS}),
    logp=(dataclasses.replace(LOGP, layer="raw", L=about(1e-5)), LOGP),
    held_out=HeldOut(ERRORS, {"halo": ERRORS}, (Predicted("halo", 96, 24, 2, about(1e-4), 1.1e-4),)),
    noise=Noise(1.02, None, 0.1, 3, 50),
    flags=(Flag("drift", "the machine changed"),),
)


def test_a_calibration_comes_back_as_it_was_written(tmp_path: Path) -> None:
    machine_file.write(WHOLE, tmp_path / "machine.json")
    assert machine_file.read(tmp_path / "machine.json") == WHOLE


def test_figures_that_are_not_finite_come_back(tmp_path: Path) -> None:
    endless = dataclasses.replace(EBSP, g1=None, condition=math.inf, kept=False)
    wide = dataclasses.replace(BSP, l=Estimate(1e-4, -math.inf, math.inf))
    edited = dataclasses.replace(WHOLE, ebsp=endless, bsp=wide)
    machine_file.write(edited, tmp_path / "machine.json")
    assert machine_file.read(tmp_path / "machine.json") == edited
    text = (tmp_path / "machine.json").read_text()
    assert "Infinity" not in text
    assert "NaN" not in text


def test_programs_load_what_was_calibrated(tmp_path: Path) -> None:
    path = tmp_path / "machine.json"
    machine_file.write(WHOLE, path)
    bsp = BSPMachine.load(path)
    assert bsp == BSPMachine(
        p=4,
        g=2e-8,
        l=1e-4,
        r=2e9,
        o_msg=5e-6,
        segments=((0, 1e-4, 5e-6, 9e-8), (128, 1.2e-4, 0.0, 2e-8)),  # what came out negative counts 0
        error_median=0.05,
        error_p95=0.2,
        rates=bsp.rates,
    )
    assert dict(bsp.rates) == {"axpy": pytest.approx(2e9)}
    assert bsp.hosts == ("a", "a", "b", "b")
    ebsp = EBSPMachine.load(path)
    assert (ebsp.p, ebsp.g1, ebsp.g2, ebsp.s, ebsp.o_msg, ebsp.r) == (4, 1e-8, 2e-8, 1e-4, 1e-6, 2e9)
    assert (ebsp.error_median, ebsp.error_p95) == (0.05, 0.2)
    logp = LogPMachine.load(path)
    assert (logp.p, logp.L * logp.step, logp.G * logp.step) == pytest.approx((4, 5e-5, 3e-6), rel=0.02)
    assert logp.intervals["L"] == (5e-5 * 0.9, 6e-5 * 1.1)  # from the low end's to the high end's
    assert logp.G_word == 1e-8


def test_e_bsp_that_is_not_kept_is_nothing_to_predict_by(tmp_path: Path) -> None:
    path = tmp_path / "machine.json"
    machine_file.write(dataclasses.replace(WHOLE, ebsp=dataclasses.replace(EBSP, kept=False)), path)
    assert not EBSPMachine.is_in(path)
    assert BSPMachine.is_in(path)


def test_what_was_not_measured_is_not_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "machine.json"
    edited = dataclasses.replace(WHOLE, bsp=None, ebsp=None, classes=None, logp=(), held_out=None)
    machine_file.write(edited, path)
    assert machine_file.read(path) == edited
    for kind in (BSPMachine, EBSPMachine, LogPMachine):
        assert not kind.is_in(path)
    rates = dataclasses.replace(BSP, g=Estimate(math.nan, math.nan, math.nan))
    machine_file.write(dataclasses.replace(WHOLE, bsp=rates), path)
    assert not BSPMachine.is_in(path)


def test_programs_use_the_signature_of_our_layer_between_nodes() -> None:
    fits = [
        dataclasses.replace(LOGP, layer=layer, where=where)
        for layer, where in (("raw", "inter"), ("logp", "intra"), ("logp", "inter"))
    ]
    assert machine_file.used_logp(fits) == fits[2]
    assert machine_file.used_logp(fits[:1]) == fits[0]
    assert machine_file.used_logp([]) is None


def test_a_latency_below_zero_becomes_half_a_round_trip_and_an_impossible_machine_none() -> None:
    hidden = dataclasses.replace(LOGP, L=Estimate(-1e-6, -2e-6, 6e-5))
    part = machine_file.logp_part(hidden, 4)
    assert part is not None
    assert part["L"] == 6e-5
    replace = dataclasses.replace
    for fit in (replace(LOGP, o=about(-1e-6)), replace(LOGP, G=about(0.0)), replace(LOGP, L=about(math.nan))):
        assert machine_file.logp_part(fit, 4) is None


def changed(content: dict[str, Any], place: list[Any], value: Any) -> dict[str, Any]:
    copy: dict[str, Any] = json.loads(json.dumps(content))
    at: Any = copy
    for key in place[:-1]:
        at = at[key]
    if value is None:
        del at[place[-1]]
    else:
        at[place[-1]] = value
    return copy


@pytest.mark.fast
@pytest.mark.parametrize(
    ("place", "value", "error_text"),
    [
        (["version"], 2, "version 2 is not known here; this pybsp reads version 1"),
        (["format"], "other", '"format": "pybsp-machine"'),
        (["unknown"], {}, "unknown"),
        (["calibration"], None, 'holds no "calibration"'),
        (["calibration", "colour"], "red", "calibration: expected an object of about, bsp"),
        (["calibration", "noise"], None, "calibration: expected an object of"),
        (["calibration", "bsp", "l"], 3.0, r"calibration.bsp.l: expected an object of value, low, high"),
        (["calibration", "bsp", "l", "low"], "wide", r"calibration.bsp.l.low: expected a number"),
        (["calibration", "bsp", "segments"], {}, r"calibration.bsp.segments: expected a list"),
        (
            ["calibration", "bsp", "segments", 1, "words"],
            1.5,
            r"segments\[1\].words: expected a whole number of at least 0, got 1.5",
        ),
        (["calibration", "bsp", "worst"], 3, r"calibration.bsp.worst: expected text"),
        (["calibration", "bsp", "patterns", "shift"], 1, r"calibration.bsp.patterns.shift: expected an object"),
        (["calibration", "ebsp", "kept"], 1, r"calibration.ebsp.kept: expected true or false, got 1"),
    ],
)
def test_what_is_not_understood_is_refused(tmp_path: Path, place: list[Any], value: Any, error_text: str) -> None:
    path = tmp_path / "machine.json"
    path.write_text(json.dumps(changed(machine_file.to_json(WHOLE), place, value)))
    with pytest.raises(UsageError, match=error_text):
        machine_file.read(path)


@pytest.mark.fast
@pytest.mark.parametrize("seconds", [-1.0, 0.0, "nan", "-inf"])
def test_shares_after_no_time_of_computing_are_refused(tmp_path: Path, seconds: Any) -> None:
    whole = about(1.0)
    calibration = dataclasses.replace(WHOLE, exchange=ExchangeFit(BSP, None, after=(After(1e-3, whole, whole, whole),)))
    place, path = ["calibration", "exchange", "after", 0, "seconds"], tmp_path / "machine.json"
    path.write_text(json.dumps(changed(machine_file.to_json(calibration), place, seconds)))
    with pytest.raises(UsageError, match=r"exchange.after\[0\].seconds: expected a finite number above 0, got"):
        machine_file.edited(path, machine_file.read(path))


def test_what_no_machine_can_be_made_of_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    whole, path = about(1.0), tmp_path / "machine.json"
    rows = tuple(After(seconds, whole, whole, whole) for seconds in (1e-3, 1e-2))
    calibration = dataclasses.replace(WHOLE, exchange=ExchangeFit(BSP, None, after=rows))
    place = ["calibration", "exchange", "after", 1, "seconds"]
    path.write_text(json.dumps(changed(machine_file.to_json(calibration), place, 1e-4)))
    with pytest.raises(UsageError, match=rf"machine file {path}: calibration: BSPMachine: after must be .*ascending"):
        machine_file.edited(path, machine_file.read(path))


def test_a_file_that_cannot_be_read_or_written_says_so(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        machine_file.read(tmp_path / "nothing.json")
    (tmp_path / "text.json").write_text("no JSON")
    with pytest.raises(UsageError, match="is not JSON"):
        machine_file.read(tmp_path / "text.json")
    (tmp_path / "list.json").write_text("[]")
    with pytest.raises(UsageError, match="expected a JSON object"):
        machine_file.read(tmp_path / "list.json")
    with pytest.raises(UsageError, match="cannot be written"):
        machine_file.write(WHOLE, tmp_path / "no folder" / "machine.json")


def test_show_and_export_say_which_figures_were_edited(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "machine.json"
    machine_file.write(WHOLE, path)
    show, export = ["show", str(path)], ["export", str(path), "--format", "bspbench"]
    for line in show, export:
        assert command(line) == 0
        assert "edited" not in "".join(capsys.readouterr())
    content = json.loads(path.read_text())
    content["bsp"].update(g=1.0, l=0.5)
    path.write_text(json.dumps(content))
    for line in show, export:
        assert command(line) == 0
        printed = "".join(capsys.readouterr())
        assert "programs go by what was edited: " in printed
        assert "bsp.g is 1.0, measured 2e-08" in printed
        assert "bsp.l is 0.5, measured 0.0001" in printed
    content["bsp"]["g"] = "fast"
    path.write_text(json.dumps(content))
    for line in show, export:
        assert command(line) == 2
        assert "bsp.g: expected" in capsys.readouterr().err


def test_a_machine_without_a_part_is_refused_with_what_writes_one(tmp_path: Path) -> None:
    LogPMachine(4, L=10, o=1, G=1).save(tmp_path / "logp.json")
    with pytest.raises(UsageError, match=r"has no part 'bsp'; .* `pybsp calibrate` measures one"):
        BSPMachine.load(tmp_path / "logp.json")


def test_a_machine_file_is_no_raw_samples(tmp_path: Path) -> None:
    machine_file.write(WHOLE, tmp_path / "machine.json")
    with pytest.raises(UsageError, match=r"machine.json: is a machine file, or other JSON: expected the samples"):
        samples.read(tmp_path / "machine.json")


def test_raw_samples_are_no_machine_file(tmp_path: Path) -> None:
    samples.Writer(tmp_path / "machine.csv", WHOLE.about).close()
    with pytest.raises(UsageError, match=r"machine.csv: is not JSON, but raw samples .*: expected the .json beside"):
        BSPMachine.load(tmp_path / "machine.csv")


@pytest.mark.parametrize(("name", "hint"), [("~/machine.json", True), ("machine.json", False)])
def test_a_tilde_that_no_shell_has_replaced_is_said_to_be_one(name: str, hint: bool) -> None:
    with pytest.raises(UsageError, match="No such file") as refused:
        BSPMachine.load(name)
    assert ("write $HOME" in str(refused.value)) == hint


def test_parts_that_are_named_one_by_one_are_all_measured() -> None:
    parser = argparse.ArgumentParser()
    add_options(parser)
    assert parser.parse_args(["--only", "bsp", "--only", "rate,held-out"]).only == ["bsp", "rate", "held-out"]
