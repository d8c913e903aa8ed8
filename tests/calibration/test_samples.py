"""The raw file: each figure in the column of its name, what is whole of a cut one, and nothing that is not known."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from pybsp.benchmarks.calibration.samples import Point, Sample, Writer, read
from pybsp.errors import UsageError

# No two values are equal, so that none can stand in another's place.
POINT = Point("logp", "train", "raw", "inter", 8, 10, 1.25e-3, 21, 22, 23, 24, 2.5e9, 26)
SAMPLES = [Sample(POINT, 31, 32, 33, 0.1 + 0.2, 35.5, 36), Sample(Point("bsp", "empty", "bsp"), 0, 1, 2, 3e-300, 4.0)]


ABOUT = {"p": 2, "hosts": ["a", "b"], "nodes": [0, 1], "seed": 7}


def written(path: Path) -> Path:
    writer = Writer(path, ABOUT)
    writer.write(SAMPLES[:1])
    writer.event("launch", number=0)
    writer.write(SAMPLES[1:])
    writer.close()
    return path


def test_samples_and_events_come_back_as_they_were_written(tmp_path: Path) -> None:
    raw = read(written(tmp_path / "raw.csv"))
    assert raw.samples == SAMPLES
    assert raw.about == ABOUT
    assert raw.events == [{"event": "launch", "number": 0}]
    assert raw.missing == ""


def test_an_event_says_any_json(tmp_path: Path) -> None:
    more = {"none": None, "flags": [True, False], "numbers": {"whole": -3, "other": 0.1}, "text": "a"}
    writer = Writer(tmp_path / "raw.csv", ABOUT)
    writer.event("launch", **more)
    writer.close()
    assert read(tmp_path / "raw.csv").events == [{"event": "launch", **more}]


def test_every_figure_is_in_the_column_of_its_name(tmp_path: Path) -> None:
    lines = written(tmp_path / "raw.csv").read_text().splitlines()
    row = next(csv.DictReader(line for line in lines if not line.startswith("#")))
    expected = {**POINT._asdict(), **SAMPLES[0]._asdict()}
    del expected["point"]
    assert row == {name: str(value) for name, value in expected.items()}


def test_a_line_that_was_cut_is_left_out_and_taken_away_when_the_file_goes_on(tmp_path: Path) -> None:
    path = written(tmp_path / "raw.csv")
    path.write_bytes(path.read_bytes()[:-5])
    cut = read(path)
    assert cut.samples == SAMPLES[:1]
    assert "its last line could not be read; 1 samples are whole" in cut.missing
    writer = Writer(path, None)
    writer.write(SAMPLES)
    writer.close()
    whole = read(path)
    assert whole.samples == [SAMPLES[0], *SAMPLES]
    assert whole.missing == ""


def test_what_another_calibration_writes_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "raw.csv"
    writer = Writer(path, ABOUT)
    writer.write(SAMPLES)
    for about in (ABOUT, None):
        with pytest.raises(UsageError, match="another calibration writes them now: name another file"):
            Writer(path, about)
    writer.close()
    assert read(path).samples == SAMPLES
    Writer(path, ABOUT).close()
    assert read(path).samples == []


@pytest.mark.fast
@pytest.mark.parametrize(
    ("old", "new", "error_text"),
    [
        (",31,32,", ",x,32,", "launch: expected a whole number of at least 0, got 'x'"),
        (",31,32,", ",-1,32,", "launch: expected a whole number of at least 0, got -1"),
        (",31,32,33,", ",31,32,0,", "repeats: expected a whole number of at least 1, got 0"),
        (",31,32,", ",31,", "expected 19 fields, got 18"),
        ("0.30000000000000004", "nan", "seconds: expected a finite number .*, got nan"),
        ("2500000000.0", "inf", "work: expected a finite number of at least 0, got inf"),
        (",raw,inter,", ",other,inter,", "layer: expected .*, got 'other'"),
        ("logp,train", "lo\x1bgp,train", "experiment: expected text without control characters, got 'lo.x1bgp'"),
    ],
)
def test_a_damaged_line_is_refused_with_its_number_and_field(
    tmp_path: Path, old: str, new: str, error_text: str
) -> None:
    path = written(tmp_path / "raw.csv")
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(UsageError, match=f"raw samples {path}: line 3: {error_text}"):
        read(path)


def test_only_a_difference_of_times_may_be_below_zero(tmp_path: Path) -> None:
    path = tmp_path / "raw.csv"
    writer = Writer(path, ABOUT)
    writer.write([SAMPLES[0]._replace(seconds=-1e-7)])
    assert read(path).samples[0].seconds == -1e-7
    few = Sample(Point("bsp", "few", "bsp"), 0, 1, 2, -3e-6, 4.0)  # beyond what an empty superstep takes
    writer.write([few])
    assert read(path).samples[1] == few
    writer.write([SAMPLES[1]._replace(seconds=-1e-7)])
    writer.close()
    with pytest.raises(UsageError, match=r"line 5: seconds: expected a finite number of at least 0 .*, got -1e-07"):
        read(path)


@pytest.mark.parametrize(
    ("old", "new", "error_text"),
    [
        ('"version": 2', '"version": 3', "version 3 is not known here; this pybsp reads version 2"),
        ("pybsp-samples", "other", 'line 1: expected a JSON object with "format": "pybsp-samples"'),
        ("h_out,h_in", "h_in,h_out", "expected the columns experiment,pattern"),
    ],
)
def test_what_is_not_known_is_refused(tmp_path: Path, old: str, new: str, error_text: str) -> None:
    path = written(tmp_path / "raw.csv")
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(UsageError, match=error_text):
        read(path)


@pytest.mark.fast
@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"# {", b"a,b\n1,2\n"])
def test_what_is_no_raw_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "raw.csv"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=f"raw samples {path}"):
        read(path)
