"""The whole harness on virtual processors, whose parameters are known: recovered to 1 %, to the same bits each time."""

from __future__ import annotations

import errno
import math
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from pybsp import BSPMachine, EBSPMachine, LogPMachine, UsageError
from pybsp.benchmarks.calibration import machine_file, placement
from pybsp.benchmarks.calibration.analysis import analyse
from pybsp.benchmarks.calibration.harness import PARTS, Keeper, LaunchSpec, finish, launch_on_virtual
from pybsp.benchmarks.calibration.results import Calibration
from pybsp.benchmarks.calibration.samples import Point, Raw, Sample, read
from pybsp.benchmarks.calibration.sampling import sampling_level

MACHINE = BSPMachine(p=4, g=3e-8, l=2e-4, r=2e9, o_msg=4e-6, o_item=5e-8)
LOGP = LogPMachine(p=4, L=40, o=3, G=8, step=1e-6)
CLOSE = 0.01

pytestmark = pytest.mark.usefixtures("few_samples", "nobody_computes")


def measured(
    path: Path,
    machine: BSPMachine | EBSPMachine,
    logp: LogPMachine | None = None,
    only: tuple[str, ...] = (),
    launches: int = 1,
) -> Raw:
    for launch in range(launches):
        job = LaunchSpec(str(path), launch, launches, "quick", only, goes_on=launch > 0)
        launch_on_virtual(job, machine, logp)
    finish(str(path))
    return read(path)


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Raw:
    return measured(tmp_path_factory.mktemp("harness") / "raw.csv", MACHINE, LOGP)


@pytest.fixture(scope="module")
def found(raw: Raw) -> Calibration:
    return analyse(raw)


@pytest.mark.whole
def test_bsp_parameters_come_back(found: Calibration) -> None:
    fit = found.bsp
    assert fit is not None
    assert fit.r is not None
    for name in ("g", "l", "o_msg", "r", "o_item"):
        assert getattr(fit, name).value == pytest.approx(getattr(MACHINE, name), rel=CLOSE), name
    assert machine_file.bsp_machine(fit, found.about).o_item == pytest.approx(MACHINE.o_item, rel=CLOSE)
    assert len(fit.segments) == 1
    for rate in fit.rates:
        assert rate.rate.value == pytest.approx(MACHINE.r, rel=CLOSE)


def test_predictions_of_what_was_held_out_are_right(found: Calibration) -> None:
    assert found.held_out is not None
    assert found.held_out.all.points >= 10
    assert found.held_out.all.p95 < CLOSE
    assert set(found.held_out.patterns) == {"halo", "two-phase", "sample-sort", "random"}


def test_exchanges_alone_are_fitted_too_and_in_virtual_time_are_all_of_a_superstep(
    found: Calibration, tmp_path: Path
) -> None:
    assert found.exchange is not None
    assert found.exchange.fit.g.value == pytest.approx(MACHINE.g, rel=CLOSE)
    assert found.exchange.fit.l.value == pytest.approx(MACHINE.l, rel=CLOSE)
    assert found.exchange.errors is not None
    assert found.exchange.errors.p95 < CLOSE
    path = tmp_path / "machine.json"
    machine_file.write(found, path)
    machine = BSPMachine.load(path)
    assert machine.exchange is not None
    assert (machine.exchange.r, machine.exchange.error_p95) == (machine.r, found.exchange.errors.p95)
    assert machine_file.read(path) == found


def test_logp_parameters_come_back(found: Calibration) -> None:
    (fit,) = found.logp
    assert fit.layer == "logp"
    assert fit.L.value == pytest.approx(LOGP.L * LOGP.step, rel=CLOSE)
    assert fit.o.value == pytest.approx(LOGP.o * LOGP.step, rel=CLOSE)
    assert fit.G.value == pytest.approx(LOGP.G * LOGP.step, rel=CLOSE)


def test_where_bsp_is_right_it_is_kept(found: Calibration) -> None:
    assert found.ebsp is not None
    assert found.ebsp.g1 is not None
    assert found.ebsp.g1.value < CLOSE * MACHINE.g
    assert not found.ebsp.kept


@pytest.mark.whole
def test_e_bsp_parameters_come_back_and_predict_unbalanced_supersteps(tmp_path: Path) -> None:
    true = EBSPMachine(8, g1=5e-8, g2=1e-8, s=3e-4, r=1e9, o_msg=2e-6)
    calibration = analyse(measured(tmp_path / "raw.csv", true, only=("bsp", "unbalanced", "held-out", "rate")))
    fit = calibration.ebsp
    assert fit is not None
    assert fit.kept
    for name in ("g1", "g2", "s", "o_msg"):
        estimate = getattr(fit, name)
        assert estimate is not None
        assert estimate.value == pytest.approx(getattr(true, name), rel=CLOSE), name
    assert fit.errors["ebsp"].median < CLOSE
    assert fit.errors["ebsp unbalanced"].points > 0
    assert fit.errors["ebsp unbalanced"].median <= fit.errors["bsp unbalanced"].median / 2
    path = tmp_path / "machine.json"
    machine_file.write(calibration, path)
    loaded = EBSPMachine.load(path)
    assert fit.g1 is not None
    assert (loaded.p, loaded.g1, loaded.error_median) == (8, fit.g1.value, fit.errors["ebsp"].median)


@pytest.mark.whole
def test_the_same_machine_gives_the_same_bits(raw: Raw, found: Calibration, tmp_path: Path) -> None:
    again = measured(tmp_path / "raw.csv", MACHINE, LOGP)
    assert again.samples == raw.samples
    assert analyse(again) == analyse(read(tmp_path / "raw.csv"))
    assert analyse(raw) == found


@pytest.mark.whole
def test_launches_follow_each_other_in_one_file(tmp_path: Path) -> None:
    raw = measured(tmp_path / "raw.csv", MACHINE, only=("bsp",), launches=3)
    assert {sample.launch for sample in raw.samples} == {0, 1, 2}
    points = [{s.point for s in raw.samples if s.launch == launch} for launch in range(3)]
    assert points[0] == points[1] == points[2]
    orders = [[s.point for s in raw.samples if s.launch == launch] for launch in range(3)]
    assert orders[0] != orders[1]  # shuffled anew
    fit = analyse(raw).bsp
    assert fit is not None
    assert fit.g.value == pytest.approx(MACHINE.g, rel=CLOSE)


@pytest.mark.parametrize("steady", [8, 16])
def test_visits_go_on_until_each_point_is_known_whichever_comes_last(tmp_path: Path, steady: int) -> None:
    rng, level = np.random.default_rng(0), sampling_level("quick")
    keeper = Keeper(LaunchSpec(str(tmp_path / "raw.csv"), level="quick"), placement.of_virtual(2))
    keeper.open((0.0, 0.0))
    taken: Counter[int] = Counter()
    for point, batch in keeper.visits("supersteps", [Point("bsp", "exchange", "bsp", size=size) for size in (8, 16)]):
        seconds = 1e-6 * (np.ones(5) if point.size == steady else rng.exponential(size=5))
        samples = [Sample(point, 0, batch, 1, each, sum(taken.values()) + n) for n, each in enumerate(seconds.tolist())]
        keeper.took(point, samples)
        taken[point.size] += len(samples)
    keeper.end()
    keeper.close()
    assert taken == {steady: level.first, 24 - steady: level.most}
    (event,) = [event for event in read(tmp_path / "raw.csv").events if event["event"] == "not-converged"]
    assert event["points"] == [["bsp", "exchange", "bsp", "", 24 - steady, 0]]


@pytest.mark.whole
def test_an_interrupted_launch_is_gone_on_with(tmp_path: Path, raw: Raw) -> None:
    path = tmp_path / "raw.csv"
    measured(path, MACHINE, LOGP)
    text = path.read_text()
    lines = text.split("\n")
    path.write_text("\n".join(lines[: len(lines) // 3]) + "\n" + lines[len(lines) // 3][:20])
    cut = read(path)
    assert "is cut: its last line could not be read" in cut.missing
    flags = {flag.code: flag.text for flag in analyse(cut).flags}
    assert "could not be read" in flags["cut"]
    assert "0 of 1 launches" in flags["unfinished"]
    launch_on_virtual(LaunchSpec(str(path), level="quick", goes_on=True), MACHINE, LOGP)
    finish(str(path))
    whole = read(path)
    assert not whole.missing
    assert whole.samples[: len(cut.samples)] == cut.samples
    assert {s.point for s in whole.samples} == {s.point for s in raw.samples}
    assert len({(s.point, s.batch, s.at) for s in whole.samples if s.pid < 1}) == len(
        [s for s in whole.samples if s.pid < 1]
    )
    calibration = analyse(whole)
    assert calibration.bsp is not None
    assert calibration.bsp.g.value == pytest.approx(MACHINE.g, rel=CLOSE)
    assert not {"cut", "unfinished"} & {flag.code for flag in calibration.flags}


@pytest.mark.parametrize("where", ["no folder", "a full disk"])
def test_raw_samples_that_cannot_be_written_are_an_error_and_leave_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    def full(file: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "raw.csv" if where == "a full disk" else tmp_path / "folder" / "raw.csv"
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UsageError, match=rf"raw samples {path}: cannot be written \(No "):
        launch_on_virtual(LaunchSpec(str(path), level="quick"), MACHINE)
    assert not path.exists()


def test_where_samples_cannot_be_written_any_more_what_there_is_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, calls, fsync = tmp_path / "raw.csv", iter(range(10**6)), os.fsync

    def full(file: int) -> None:
        if next(calls) >= 4:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(file)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UsageError, match=r"cannot be written \(No space left on device\); make room, then --resume"):
        launch_on_virtual(LaunchSpec(str(path), level="quick", only=("bsp",)), MACHINE)
    monkeypatch.undo()
    assert read(path).samples


@pytest.mark.whole
def test_nothing_is_gone_on_with_that_was_asked_for_differently(tmp_path: Path) -> None:
    path = tmp_path / "raw.csv"
    measured(path, MACHINE, only=("bsp",))
    for job, machine, error_text in (
        (
            LaunchSpec(str(path), 1, 2, "default", ("bsp",), goes_on=True),
            MACHINE,
            "level = quick; here level = default",
        ),
        (LaunchSpec(str(path), 1, 2, "quick", ("rate",), goes_on=True), MACHINE, r"only = \['bsp'\]"),
        (LaunchSpec(str(path), 1, 2, "quick", ("bsp",), 16, goes_on=True), MACHINE, "word = 8; here word = 16"),
        (LaunchSpec(str(path), 1, 2, "quick", ("bsp",), goes_on=True), BSPMachine.nominal(3), "p = 4"),
    ):
        with pytest.raises(UsageError, match=error_text):
            launch_on_virtual(job, machine)


def test_of_one_processor_there_is_r_and_an_empty_superstep(tmp_path: Path) -> None:
    one = BSPMachine(p=1, g=3e-8, l=2e-4, r=2e9)
    calibration = analyse(measured(tmp_path / "raw.csv", one))
    fit = calibration.bsp
    assert fit is not None
    assert fit.r is not None
    assert (fit.l.value, fit.r.value) == pytest.approx((one.l, one.r), rel=CLOSE)
    assert (fit.g.value, fit.o_msg.value) == (0, 0)
    assert calibration.ebsp is None
    assert calibration.held_out is None
    (flag,) = [flag for flag in calibration.flags if flag.code == "one-processor"]
    assert "r and an empty superstep are all that there is to measure" in flag.text
    machine_file.write(calibration, tmp_path / "machine.json")
    assert BSPMachine.load(tmp_path / "machine.json").p == 1


def test_only_what_is_asked_for_is_measured(tmp_path: Path) -> None:
    raw = measured(tmp_path / "raw.csv", MACHINE, LOGP, only=("rate",))
    assert {sample.point.experiment for sample in raw.samples} == {"rate", "repeat"}
    calibration = analyse(raw)
    assert calibration.bsp is not None
    assert calibration.bsp.r is not None
    assert math.isnan(calibration.bsp.g.value)
    assert "bsp" not in machine_file.to_json(calibration)
    raw = measured(tmp_path / "logp.csv", MACHINE, LOGP, only=("logp",))
    assert {sample.point.experiment for sample in raw.samples} == {"logp", "repeat"}
    assert "logp" in machine_file.to_json(analyse(raw))


@pytest.mark.parametrize(
    ("method", "g"),
    [("bspbench", MACHINE.g + MACHINE.o_msg), ("bsponmpi", MACHINE.g)],  # bspbench's words are messages of their own
)
def test_another_tools_method_is_on_the_same_samples(raw: Raw, found: Calibration, method: str, g: float) -> None:
    other = analyse(raw, method)
    assert other.bsp is not None
    assert found.bsp is not None
    assert other.about["method"] == method
    assert other.bsp.g.value == pytest.approx(g, rel=CLOSE)
    assert other.bsp.g.low == other.bsp.g.high
    assert "method" in {flag.code for flag in other.bsp.flags}


def test_a_method_that_there_is_not_is_refused(raw: Raw) -> None:
    with pytest.raises(UsageError, match="expected one of pybsp, bspbench, bsponmpi, got 'guess'"):
        analyse(raw, "guess")


@pytest.mark.fast
@pytest.mark.parametrize(
    ("change", "error_text"),
    [
        ({"level": "slow"}, "level: expected one of quick, default, thorough"),
        ({"only": ("g",)}, f"only: expected some of {', '.join(PARTS)}, got 'g'"),
        ({"word": 0}, "word: expected bytes"),
        ({"budget": -1.0}, "budget: expected seconds"),
        ({"launches": 0}, "launches: expected a whole number"),
    ],
)
def test_a_job_that_cannot_be_is_refused(change: dict[str, object], error_text: str) -> None:
    with pytest.raises(UsageError, match=error_text):
        LaunchSpec("raw.csv", **change)  # type: ignore[arg-type]
