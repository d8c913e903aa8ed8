"""`pybsp calibrate --trace`: when each point was timed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pybsp import BSPMachine
from pybsp.benchmarks.calibration.harness import LaunchSpec, finish, launch_on_virtual
from pybsp.benchmarks.calibration.samples import read
from pybsp.cli import main as command


@pytest.mark.whole
@pytest.mark.usefixtures("few_samples", "nobody_computes")
def test_a_trace_has_every_sample_with_its_point_by_launch(tmp_path: Path) -> None:
    path, trace = tmp_path / "samples.csv", tmp_path / "trace.json"
    for launch in range(2):
        job = LaunchSpec(str(path), launch, 2, "quick", only=("rate", "bsp", "queue"), goes_on=launch > 0)
        launch_on_virtual(job, BSPMachine(2, g=1e-8, l=1e-5, r=1e9))
    finish(str(path))
    output = ["-o", str(tmp_path / "machine.json")]
    assert command(["calibrate", "--from", str(path), *output, "--trace", str(trace)]) == 0
    content = json.loads(trace.read_text())
    assert (content["format"], content["logp"]) == ("pybsp-trace", [])
    slices = [one for one in content["traceEvents"] if one["ph"] == "X"]
    samples = read(path).samples
    assert len(slices) == len(samples)
    assert {one["pid"] for one in slices} == {0, 1}
    names = {one["name"] for one in slices}
    assert any(name.startswith("rate axpy ") for name in names)
    assert any(name.startswith("bsp exchange ") and "bytes" in name for name in names)
    assert any("items" in name for name in names)
    for one, sample in zip(slices, samples, strict=True):
        assert one["dur"] == pytest.approx(1e6 * sample.repeats * sample.seconds)
        assert one["tid"] == sample.pid + 1
    first, second = ([one for one in slices if one["pid"] == launch] for launch in (0, 1))
    assert min(one["ts"] for one in second) >= max(one["ts"] + one["dur"] for one in first) - 1e-6


def test_a_trace_that_cannot_be_written_is_an_error_before_anything_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(["calibrate", "-o", str(tmp_path / "m.json"), "--trace", "/nowhere/t.json"]) == 2
    assert "--trace: expected a file that can be written, got /nowhere/t.json" in capsys.readouterr().err
    assert not [*tmp_path.iterdir()]
