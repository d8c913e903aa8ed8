"""The efficiency model of section 3: against its own sums, the paper's figures, and machine files."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from pathlib import Path

import pytest

from pybsp import BSPMachine, LogPMachine
from pybsp.benchmarks.studies import bsp_computers
from pybsp.benchmarks.studies.theory.efficiency import PACKETS, Computer, instruction_time, required_ratio
from pybsp.errors import UsageError

CRAY, T_M = 2667e6, 4e-7


def test_loads_cost_two_packets_and_stores_one() -> None:
    # Of 100 instructions 24 are loads and 8 are stores.
    assert pytest.approx(24 * 2 + 8) == 100 * PACKETS


@pytest.mark.parametrize("n", [0, 1, 5, 13])
@pytest.mark.parametrize("L", [1, 20, 1000])
def test_a_superstep_computes_and_routes_an_h_relation(n: int, L: int) -> None:
    C, t_m, t_d = 3.0, 7.0, 11.0
    h = 0.56 * L
    assert L * Computer(C, t_m, t_d).instruction(2**n, L) == pytest.approx(L * C + (h + n) * t_m + h / 2 * n * t_d)
    assert L * Computer(C, t_m, t_d).crossbar.instruction(2**n, L) == pytest.approx(L * C + (h + n) * t_m)


@pytest.mark.parametrize("t_d", [0.0, 0.5, 3.0])
def test_efficiency_is_the_share_that_computes_and_rate_what_is_left(t_d: float) -> None:
    computer, N, L = Computer(2.0, 0.3, t_d), 64, 20
    assert computer.efficiency(N, L) == pytest.approx(computer.C / computer.instruction(N, L))
    assert computer.rate(N, L) == pytest.approx(N * computer.efficiency(N, L) / computer.C)
    assert computer.rate(N) == pytest.approx(computer.rate(N, math.log2(N)))
    assert computer.efficiency(N, math.inf) > computer.efficiency(N, 1e6)


@pytest.mark.parametrize("delay", [0.0, 1.0, 4.0])
@pytest.mark.parametrize("E", [0.2, 0.5, 0.8])
def test_a_machine_with_the_required_ratio_has_the_efficiency(E: float, delay: float) -> None:
    for N in (1, 2, 100, 2**14):
        ratio = required_ratio(E, N, 20, delay)
        assert Computer(ratio * 5.0, 5.0, delay * 5.0).efficiency(N, 20) == pytest.approx(E)


@pytest.mark.parametrize(("N", "ratio"), [(32, 8.84), (64, 10.16), (128, 11.48)])
def test_figure_4_has_the_ratios_that_the_paper_names(N: int, ratio: float) -> None:
    assert required_ratio(0.8, N, 20, 1.0) == pytest.approx(ratio, abs=0.005)
    assert required_ratio(0.8, N, 20) < ratio / 2  # figure 5


def test_the_papers_bandwidth_is_not_that_of_its_own_ratio() -> None:
    (claim,) = (claim for claim in bsp_computers.claims() if "bandwidth" in claim.what)
    assert claim.paper == 928
    assert claim.here == pytest.approx(8 * 11.48 / 100e-9 / 1e6)


def test_the_papers_node_counts_are_a_little_too_small() -> None:
    slow, fast = Computer(1e-6, T_M, T_M), Computer(144e-9, T_M)
    assert slow.rate(8192) < CRAY < slow.rate(8216)
    assert fast.rate(2048) < CRAY < fast.rate(2049)
    assert (slow.dimensions(CRAY), fast.dimensions(CRAY)) == (14, 12)
    # Its instruction times are rounded up.
    assert instruction_time(CRAY, 8192, T_M, T_M) == pytest.approx(1e-6, rel=0.01)
    assert instruction_time(CRAY, 2048, T_M) == pytest.approx(144e-9, rel=0.001)


@pytest.mark.parametrize("t_d", [0.0, 1e-9, 4e-7, 1e-5])
@pytest.mark.parametrize("C", [1e-9, 1e-6])
def test_nodes_have_the_rate_and_fewer_have_not(C: float, t_d: float) -> None:
    computer = Computer(C, T_M, t_d)
    N = computer.nodes(CRAY)
    assert computer.rate(N) == pytest.approx(CRAY, rel=1e-9)
    assert computer.rate(N * 0.999) < CRAY
    assert instruction_time(CRAY, N, T_M, t_d) == pytest.approx(C, rel=1e-6)
    n = computer.dimensions(CRAY)
    assert 2 ** (n - 1) < N <= 2**n


def test_one_node_is_enough_for_its_own_rate() -> None:
    computer = Computer(1.0, 1.0, 1.0)
    assert computer.nodes(0.1) == 1
    assert computer.dimensions(0.1) == 0


def test_what_is_no_computer_is_refused() -> None:
    for wrong in ({"C": 0.0}, {"t_m": 0.0}, {"t_m": math.nan}, {"t_d": -1.0}):
        with pytest.raises(UsageError, match="expected C and t_m above 0 and t_d of at least 0"):
            dataclasses.replace(Computer(1.0, 1.0), **wrong)


@pytest.fixture
def machine(tmp_path: Path) -> str:
    """A machine file with round figures: 2 flop/ns, 4 ns a word, 3 ns an item; LogP in steps of 10 ns."""
    file = tmp_path / "round.json"
    BSPMachine(p=16, g=4e-9, l=1e-5, r=2e9, o_msg=1e-6, o_item=3e-9).save(file)
    LogPMachine(p=16, L=500, o=20, G=50, step=1e-8).save(file)
    return str(file)


def test_a_machine_file_is_read_as_words_and_as_messages(machine: str) -> None:
    words, messages = (computer for _, computer in bsp_computers.computers(machine))
    assert (words.C, words.t_m, words.t_d) == pytest.approx((0.5e-9, 4e-9, 3e-9))
    assert (messages.C, messages.t_m, messages.t_d) == pytest.approx((0.5e-9, 500e-9, 400e-9), rel=0.01)


def test_places_are_those_of_the_model(machine: str) -> None:
    for place in bsp_computers.places([machine]):
        assert place.N in (16, 1024)
        # On the curve of its E, C/t_m is the machine's.
        assert required_ratio(place.shown, place.N, 20, 1.0) == pytest.approx(place.computer.ratio)
        assert required_ratio(place.switched, place.N, 20) == pytest.approx(place.computer.ratio)
        assert place.computer.rate(place.nodes) == pytest.approx(bsp_computers.CRAY)


def test_supersteps_as_they_are_cost_what_the_machine_says(machine: str) -> None:
    words, messages = bsp_computers.supersteps([machine])
    L, h = 1e5, 0.56e5
    computing = L / 2e9
    at = bsp_computers.LENGTHS.index(10**5)
    assert words.efficiencies[at] == pytest.approx(computing / (computing + h * 7e-9 + 15e-6 + 1e-5))
    assert messages.efficiencies[at] == pytest.approx(computing / (computing + h * (4e-9 + 1e-6) + 1e-5))
    assert words.limit == pytest.approx(0.5 / (0.5 + 0.56 * 7), rel=1e-6)


def test_a_g_that_is_lost_in_noise_is_refused(tmp_path: Path) -> None:
    BSPMachine(p=2, g=0.0, l=1e-5, r=1e9).save(tmp_path / "noise.json")
    with pytest.raises(UsageError, match=r"g must be above 0, got 0\.0.*calibrate for longer"):
        list(bsp_computers.computers(str(tmp_path / "noise.json")))


@pytest.mark.whole
def test_the_script_prints_keeps_and_draws(
    machine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    written, drawn = tmp_path / "kept.json", tmp_path / "drawn.png"
    options = ["--machine", machine, "--json", str(written), "--plot", str(drawn)]
    monkeypatch.setattr(sys, "argv", ["bsp_computers", *options])
    bsp_computers.main()
    text = capsys.readouterr().out
    assert "Figure 4 (DMA)" in text
    assert "Figure 5 (crossbar)" in text
    assert "11.48" in text
    assert len(json.loads(written.read_text())["places"]) == 4
    assert drawn.stat().st_size > 10_000
