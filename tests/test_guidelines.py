"""Self-consistent guidelines: all ways of a collective give what it gives; what is slower is said, and kept."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pybsp
from pybsp import collectives
from pybsp.benchmarks.against_mpi.guidelines import BY_HAND, GUIDED, SIZES, flat
from pybsp.benchmarks.against_mpi.report import ratio
from pybsp.benchmarks.against_mpi.summary import slower
from pybsp.benchmarks.against_mpi.variants import OURS

from .launching import run


def expected(name: str, given: list[Any], pid: int) -> Any:
    """What a collective makes of what all have, on one processor; None: nothing."""
    p, root = len(given), pid == 0

    def block(array: Any) -> Any:
        return array[pid * len(array) // p : (pid + 1) * len(array) // p]

    found: dict[str, Callable[[], Any]] = {
        "broadcast": lambda: given[0],
        "reduce": lambda: sum(given) if root else None,
        "allreduce": lambda: sum(given),
        "prefix": lambda: sum(given[: pid + 1]),
        "exclusive_prefix": lambda: sum(given[:pid], np.zeros_like(given[0])),
        "reduce_scatter": lambda: block(sum(given)),
        "scatter": lambda: given[0][pid],
        "gather": lambda: given if root else None,
        "allgather": lambda: given,
        "total_exchange": lambda: [row[pid] for row in given],
        "scatter_blocks": lambda: block(given[0]),
        "gather_blocks": lambda: given if root else None,
        "allgather_blocks": lambda: given,
        "total_exchange_blocks": lambda: [row[pid] for row in given],
        "sort": lambda: block(np.sort(np.ravel(given))),
    }
    return found[name]()


@pytest.mark.fast("3")
@pytest.mark.parametrize("p", [1, 2, 3, 4])
def test_all_ways_give_what_the_collective_should(p: int) -> None:
    def all_ways(bsp: pybsp.BSP, name: str, words: int, given: list[Any]) -> dict[str, Any]:
        # Each result is looked at after the next way's supersteps, so what ends with a sync is found out.
        found = {way: do(given[bsp.pid]) for way, do in GUIDED[name].ways(bsp, words).items()}
        bsp.sync()
        return {way: flat(result) for way, result in found.items()}

    for name, guided in GUIDED.items():
        for words in (0, 1, 5)[not guided.numbers :]:
            given = [guided.given(pid, p, words, 1) for pid in range(p)]
            results = pybsp.simulate(all_ways, name, words, given, p=p).results
            for pid, ways in enumerate(results):
                assert {OURS, BY_HAND} < set(ways), name
                wanted = flat(expected(name, given, pid))
                for way, found in ways.items():
                    assert len(found) == len(wanted), (name, words, way)
                    for one, other in zip(found, wanted, strict=True):
                        np.testing.assert_array_equal(one, other, f"{name} of {words} by {way}")


def test_guidelines_name_collectives_and_reach_from_a_number_to_a_million_words() -> None:
    assert set(GUIDED) <= set(vars(collectives)["__all__"])
    assert {0, 1, 1 << 20} <= set(SIZES["all"])


def test_slower_is_beyond_the_spread() -> None:
    rng = np.random.default_rng(3)
    theirs = rng.lognormal(0, 0.2, 41)
    assert not slower(theirs.tolist(), theirs.tolist())
    assert not slower((theirs * rng.permutation([0.9] * 18 + [1.2] * 23)).tolist(), theirs.tolist())
    assert slower((1.05 * theirs).tolist(), theirs.tolist())
    assert not slower((0.95 * theirs).tolist(), theirs.tolist())


@pytest.mark.whole
def test_the_command_says_which_are_violated(tmp_path: Path) -> None:
    path = tmp_path / "found.json"
    command = [sys.executable, "-m", "pybsp.benchmarks.against_mpi"]
    only = ["--only", "broadcast", "reduce_scatter=1", "--json", str(path)]
    ended = run([*command, "--guidelines", "-n", "2", "--quick", "--rounds", "6", "--seconds", "0.1", *only], 120)
    assert ended.code == 0, ended.err
    (found,) = json.loads(path.read_text())["runs"]
    assert [(row["work"], row["size"]) for row in found["works"]] == [
        *(("broadcast", words) for words in SIZES["quick"]),
        ("reduce_scatter", 1),
    ]
    entries = [(row, entry) for row in found["works"] for entry in row["ratios"]]
    for row, entry in entries:
        assert entry["slower"] == slower(*(row["forms"][entry[key]]["samples"] for key in ("of", "against")))
        assert ratio(entry) in ended.out
    worse = [f"{row['title']}, by {entry['against']}: {ratio(entry)}" for row, entry in entries if entry["slower"]]
    assert f"guidelines: {len(entries)}; violated, slower beyond the spread of the rounds: {len(worse)}" in ended.out
    assert all(line in ended.out for line in worse)
    again = run([*command, "--show", str(path)])
    assert again.out == ended.out
