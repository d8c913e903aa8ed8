"""`pybsp export`: each form holds the calibration's figures as its program computes with them."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
from pathlib import Path

import pytest

from pybsp import UsageError
from pybsp.benchmarks.calibration import export, machine_file
from pybsp.benchmarks.calibration.estimates import Estimate
from pybsp.benchmarks.calibration.export import FORMATS
from pybsp.benchmarks.calibration.results import Calibration, LogPFit
from pybsp.benchmarks.calibration.samples import Raw, Writer
from pybsp.cli import main

from .example import about, calibration, logp_fit, raw


def with_logp(*fits: LogPFit) -> Calibration:
    return dataclasses.replace(calibration(), logp=fits)


def flags(text: str) -> dict[str, int]:
    """LogGOPSim's command line."""
    words = text.split()
    assert all(re.fullmatch(r"-[LogGOS]", word) for word in words[::2])
    return {name[1:]: int(value) for name, value in zip(words[::2], words[1::2], strict=True)}


# -- LogGOPSim ---------------------------------------------------------------------------------------------------------


def test_loggopsim_has_picoseconds() -> None:
    written = export.export(calibration(), "loggopsim")
    found = flags(written.text)
    assert found == {"L": 42_000_000, "o": 4_000_000, "g": 9_000_000, "G": 500, "O": 100, "S": 65536}
    assert "1e-12 s" in written.notes[0]


@pytest.mark.parametrize("latency", [1e-3, 2e-3, 2.2e-3, 5e-3, 0.1, 3.0])
def test_loggopsim_s_whole_numbers_fit_its_ints_and_keep_their_ratio(latency: float) -> None:
    fit = dataclasses.replace(logp_fit(), L=about(latency), G_word=about(3.2e-7))
    written = export.export(with_logp(fit), "loggopsim")
    found = flags(written.text)
    assert max(found.values()) < 2**31
    unit = float(re.findall(r"units of (\S+) s", written.notes[0])[0])
    assert found["L"] * unit == pytest.approx(latency, rel=1e-6)
    assert found["G"] * unit == pytest.approx(4e-8, rel=0.02)
    assert (unit == 1e-12) == (latency < 2.147e-3)


def test_a_gap_below_a_nanosecond_a_byte_is_not_rounded_to_nothing() -> None:
    fit = dataclasses.replace(logp_fit(), G_word=about(8e-11))
    assert flags(export.export(with_logp(fit), "loggopsim").text)["G"] == 10


def test_what_is_rounded_away_is_said() -> None:
    fit = dataclasses.replace(logp_fit(), L=about(50.0), G_word=about(8e-10))
    notes = export.export(with_logp(fit), "loggopsim").notes
    assert any(note.startswith("-G is rounded") for note in notes)


def test_a_negative_latency_is_0_and_said_but_a_negative_gap_is_refused() -> None:
    written = export.export(with_logp(dataclasses.replace(logp_fit(), L=about(-1e-6))), "loggopsim")
    assert flags(written.text)["L"] == 0
    assert any("-L is 0: it came out as -1 us" in note for note in written.notes)
    with pytest.raises(UsageError, match=r"gap of each further byte; it came out as -500 ps"):
        export.export(with_logp(dataclasses.replace(logp_fit(), G_word=about(-4e-9))), "loggopsim")
    with pytest.raises(UsageError, match="G_word"):
        export.export(with_logp(dataclasses.replace(logp_fit(), G_word=None)), "loggopsim")


def test_without_an_eager_limit_s_is_the_largest_size_measured() -> None:
    written = export.export(with_logp(dataclasses.replace(logp_fit(), eager_limit=None)), "loggopsim")
    assert flags(written.text)["S"] == 256 * 1024
    assert any("every size" in note for note in written.notes)


# -- SimGrid -----------------------------------------------------------------------------------------------------------


def simgrid(pieces: str, size: int) -> float:
    """What SimGrid's SMPI makes of such an option: the last piece whose bound is below the size, else the first."""
    parsed = [tuple(map(float, piece.split(":"))) for piece in pieces.split(";")]
    assert parsed == sorted(parsed)
    current = parsed[0][1] + parsed[0][2] * size
    for bound, start, slope in parsed:
        if size <= bound:
            break
        current = start + slope * size
    return current


def options(text: str) -> dict[str, str]:
    return dict(re.fullmatch(r"--cfg=smpi/(os|or|ois):(\S+)", line).groups() for line in text.splitlines())  # type: ignore[union-attr, misc]


def test_simgrid_charges_what_was_measured_at_each_size() -> None:
    found = options(export.export(calibration(), "simgrid").text)
    assert set(found) == {"os", "or", "ois"}
    assert found["ois"] == found["os"]
    for row in logp_fit().sizes:
        assert row.o_s is not None
        assert simgrid(found["os"], row.size) == pytest.approx(row.o_s.value, rel=1e-6)
        expected = 0.0 if row.o_r is None else row.o_r.value
        assert simgrid(found["or"], row.size) == pytest.approx(expected, rel=1e-6)


def test_simgrid_charges_the_line_between_and_beyond_sizes() -> None:
    found = options(export.export(calibration(), "simgrid").text)
    for size in (1, 4000, 100_000, 10_000_000):
        assert simgrid(found["os"], size) == pytest.approx(3e-6 + (size - 1) * 1e-10, rel=1e-5)
    assert simgrid(found["or"], 4000) == pytest.approx(5e-6 + 3999e-10, rel=1e-5)
    assert simgrid(found["or"], 10_000_000) == 0


def test_simgrid_s_overheads_never_become_negative() -> None:
    fit = logp_fit()
    falling = tuple(
        dataclasses.replace(row, o_s=about(value))
        for row, value in zip(fit.sizes, (9e-6, 8e-6, 7e-6, 6e-6, 1e-6), strict=True)
    )
    found = options(export.export(with_logp(dataclasses.replace(fit, sizes=falling)), "simgrid").text)
    assert simgrid(found["os"], 10**9) == pytest.approx(1e-6)


def test_where_no_overhead_was_measured_simgrid_s_is_0_and_that_is_said() -> None:
    assert any("above 65536 bytes smpi/or are 0" in note for note in export.export(calibration(), "simgrid").notes)
    fit = logp_fit()
    none = tuple(dataclasses.replace(row, o_r=None) for row in fit.sizes)
    with pytest.raises(UsageError, match="o_s and o_r by size"):
        export.export(with_logp(dataclasses.replace(fit, sizes=none)), "simgrid")
    one = dataclasses.replace(fit, sizes=(fit.sizes[0], *none[1:]))
    pieces = options(export.export(with_logp(one), "simgrid").text)["or"]
    assert simgrid(pieces, 8) == pytest.approx(5.0007e-6, rel=1e-6)
    assert simgrid(pieces, 9) == 0


# -- Extra-P -----------------------------------------------------------------------------------------------------------


def test_extra_p_has_all_samples_at_the_same_points_of_every_pattern() -> None:
    samples = raw()
    written = export.export(calibration(), "extra-p", raw=samples)
    content = json.loads(written.text)
    assert content["parameters"] == ["messages", "bytes"]
    assert set(content["measurements"]) == {"superstep->exchange", "superstep->permutation"}
    points = [[tuple(row["point"]) for row in found["time"]] for found in content["measurements"].values()]
    assert points[0] == points[1] == sorted(itertools.product((1, 8), (8, 256, 2048, 8192, 131072)))
    for name, found in content["measurements"].items():
        for row in found["time"]:
            messages, size = row["point"]
            expected = [
                sample.seconds
                for sample in samples.samples
                if sample.point[:2] == ("bsp", name.removeprefix("superstep->"))
                and (sample.point.messages, sample.point.size) == (messages, size)
            ]
            assert row["values"] == expected
            assert len(expected) == 24
    assert any("left out" in note and "shift" in note for note in written.notes)
    assert any("at least 5 values of a parameter; messages has 2" in note for note in written.notes)


def test_extra_p_needs_samples_of_supersteps() -> None:
    with pytest.raises(UsageError, match="raw samples: none there"):
        export.export(calibration(), "extra-p", no_raw="none there")
    for experiment, pattern in (("bsp", "empty"), ("repeat", "exchange")):
        only = [sample for sample in raw().samples if sample.point[:2] == (experiment, pattern)]
        with pytest.raises(UsageError, match="no superstep that sends"):
            export.export(calibration(), "extra-p", raw=Raw({}, only))


# -- bspbench and Netgauge ---------------------------------------------------------------------------------------------


def test_bspbench_s_line_is_in_flop() -> None:
    written = export.export(calibration(), "bspbench")
    found = re.fullmatch(r"p= (\d+), r= (\d+\.\d{3}) Mflop/s, g= (\d+\.\d), l= (\d+\.\d)\n", written.text)
    assert found is not None
    p, r, g, l = map(float, found.groups())  # noqa: E741 - the model's own name
    assert (p, r) == (4, 1500)
    assert g == pytest.approx(3e-9 * 1.5e9)
    assert l == pytest.approx(45e-6 * 1.5e9)
    assert any("o_msg" in note for note in written.notes)


def test_bspbench_needs_r_g_and_l() -> None:
    found = calibration()
    assert found.bsp is not None
    with pytest.raises(UsageError, match="has no r:"):
        export.export(dataclasses.replace(found, bsp=dataclasses.replace(found.bsp, r=None)), "bspbench")
    with pytest.raises(UsageError, match="no r, g and l"):
        export.export(dataclasses.replace(found, bsp=None), "bspbench")
    unknown = Estimate(float("nan"), float("nan"), float("nan"))
    with pytest.raises(UsageError, match="not known"):
        export.export(dataclasses.replace(found, bsp=dataclasses.replace(found.bsp, g=unknown)), "bspbench")


def test_netgauge_s_formulas_give_the_figures_back() -> None:
    lines = export.export(calibration(), "netgauge").text.splitlines()
    assert lines[0] == "# size n PRTT(1,0,s) PRTT(n,0,s) PRTT(n,PRTT(1,0,s),s) L o_s o_r g G lsqu(g,G)"
    for line, row in zip(lines[1:], logp_fit().sizes, strict=True):
        size, n, one, train, delayed, latency, o_s, o_r, g, per_byte, _ = map(float, line.split())
        assert (size, n) == (row.size, 10)
        assert row.o_s is not None
        assert row.gap is not None
        assert one == pytest.approx(row.round_trip.value * 1e6, rel=1e-5)
        assert (
            (delayed - one) / (n - 1) - one
            == pytest.approx(o_s, rel=1e-4)
            == pytest.approx(row.o_s.value * 1e6, rel=1e-4)
        )
        assert (train - one) / (n - 1) == pytest.approx(row.gap.value * 1e6, rel=1e-4)
        assert latency == pytest.approx(50, rel=1e-3)
        assert g + per_byte * 8 == pytest.approx(9, rel=1e-5)
        assert per_byte == pytest.approx(5e-4)
        assert (row.o_r is None) == (o_r != o_r)


# -- which figures, and the command ------------------------------------------------------------------------------------


def test_mpi4py_between_nodes_is_taken_unless_another_is_asked_for() -> None:
    found = with_logp(*(logp_fit(layer, where) for layer in ("logp", "raw") for where in ("intra", "inter")))
    for layer, where, expected in (
        (None, None, ("raw", "inter")),
        ("logp", None, ("logp", "inter")),
        (None, "intra", ("raw", "intra")),
        ("logp", "intra", ("logp", "intra")),
    ):
        fit = export.chosen(found, "simgrid", layer, where)
        assert (fit.layer, fit.where) == expected


@pytest.mark.parametrize("form", ["loggopsim", "simgrid", "netgauge"])
def test_figures_that_are_not_there_are_named(form: str) -> None:
    with pytest.raises(UsageError, match=f"{form} needs the LogP figures of layer raw or logp; .* none at all"):
        export.export(with_logp(), form)
    with pytest.raises(UsageError, match="layer logp, where inter; the machine file holds layer raw"):
        export.export(with_logp(logp_fit()), form, "logp", "inter")


def test_another_form_is_refused() -> None:
    with pytest.raises(UsageError, match="expected one of loggopsim"):
        export.export(calibration(), "csv")


@pytest.mark.parametrize("form", FORMATS)
def test_the_command_writes_the_form_alone_and_notes_beside_it(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = tmp_path / "machine.json"
    machine_file.write(calibration(), machine)
    samples = raw()
    writer = Writer(tmp_path / "machine.csv", samples.about)
    writer.write(samples.samples)
    writer.close()
    expected = export.export(calibration(), form, raw=samples)
    assert main(["export", str(machine), "--format", form]) == 0
    printed = capsys.readouterr()
    assert printed.out == expected.text
    assert printed.err.splitlines() == [f"pybsp export: {note}" for note in expected.notes]
    assert main(["export", str(machine), "--format", form, "-o", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out").read_text() == expected.text


@pytest.mark.parametrize("options", [[], ["--raw"]], ids=["beside", "named"])
def test_samples_of_another_calibration_are_not_this_ones(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As where a second calibration of the same name was interrupted."""
    machine, samples = tmp_path / "machine.json", tmp_path / "machine.csv"
    machine_file.write(calibration(), machine)
    writer = Writer(samples, {**raw().about, "date": "2026-05-06T07:08:09+00:00"})
    writer.write(raw().samples)
    writer.close()
    named = [*options, str(samples)] if options else []
    assert main(["export", str(machine), "--format", "extra-p", *named]) == 2
    text = f"{samples} holds the samples of a calibration that began at 2026-05-06T07:08:09+00:00, and {machine} is of"
    assert text in capsys.readouterr().err


def test_the_command_says_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    machine = tmp_path / "machine.json"
    machine_file.write(with_logp(), machine)
    assert main(["export", str(machine), "--format", "extra-p"]) == 2
    assert "machine.csv" in capsys.readouterr().err
    assert main(["export", str(machine), "--format", "simgrid"]) == 2
    assert "LogP figures" in capsys.readouterr().err
    assert main(["export", str(machine), "--format", "bspbench", "-o", str(tmp_path / "no" / "file")]) == 2
    printed = capsys.readouterr()
    assert f"-o: expected a file that can be written, got {tmp_path}/no/file; there is no folder" in printed.err
