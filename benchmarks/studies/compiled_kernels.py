"""The kernels of the simulators, against their twins in numpy and against small programs in C that do the same.

    python -m pybsp.benchmarks.studies.compiled_kernels [--rounds 3] [--quick] [--json FILE]

packets: a random relation on a hypercube, `Network.route` against in_c/packets.c; decompose: a random full relation,
`decompose` against in_c/decompose.c (Euler tours, for powers of two alone); some 60 lines each. Each round runs all in
turn, after one that is not counted; medians. The programs are compiled by `cc -O3` and time themselves, input read.
What they find is compared: the same steps, arrivals and queues; 1-relations. Bars: 8 and 5 times as fast as numpy, at
most twice the time of C.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any
from unittest import mock

import numpy as np

from pybsp import compiled
from pybsp.routing import Relation, decompose, relations
from pybsp.routing.networks import Hypercube

from .frame import Study, timed

HERE = Path(__file__).parent / "in_c"
BARS = {"packets": (8.0, 2.0), "decompose": (5.0, 2.0)}  # over numpy, of C


def pairs(relation: Relation) -> bytes:
    """What the programs in C read."""
    return np.stack((relation.sources, relation.destinations), axis=1).astype(np.int64).tobytes()


def warm() -> None:
    """A gigabyte is used and given back, so that nobody pays for memory that the system has to find first."""
    np.ones(1 << 27)


def in_c(program: Path, arguments: Sequence[object], given: bytes) -> list[str]:
    """What a program in C prints; seconds last."""
    warm()
    command = [str(program), *map(str, arguments)]
    return subprocess.run(command, input=given, stdout=subprocess.PIPE, check=True).stdout.decode().split()


def by_kernel(function: Callable[[], Any]) -> tuple[Any, float]:
    """What it gives, and the seconds it took."""
    warm()
    return timed(function)


def by_numpy(function: Callable[[], Any]) -> tuple[Any, float]:
    """The same without kernels."""
    with mock.patch.object(compiled, "_built", return_value=None):
        compiled.kernels.cache_clear()
        found = by_kernel(function)
    compiled.kernels.cache_clear()
    return found


def packets(folder: Path, n: int, h: int) -> list[float]:
    """Seconds of a round: C, the kernel, numpy."""
    relation, cube = relations.random_relation(1 << n, h, seed=1), Hypercube(1 << n)
    *printed, seconds = in_c(folder / "packets", [n], pairs(relation))
    taken = [float(seconds)]
    for how in (by_kernel, by_numpy):
        traffic, seconds_of = how(lambda: cube.route(relation))
        taken.append(seconds_of)
        found = [traffic.steps, int(traffic.delivered.sum()), traffic.max_queue]
        if found != list(map(int, printed)):
            raise SystemExit(f"packets: C found {printed}, {how.__name__} {found}")
    return taken


def decomposed(folder: Path, p: int, h: int) -> list[float]:
    """Seconds of a round: C, the kernel, numpy."""
    relation = relations.random_relation(p, h, seed=1)
    (seconds,) = in_c(folder / "decompose", [p, h, folder / "colours"], pairs(relation))
    taken, found = [float(seconds)], [np.fromfile(folder / "colours", np.int32).astype(np.int64)]
    for how in (by_kernel, by_numpy):
        colours, seconds_of = how(lambda: decompose(relation.sources, relation.destinations, p))
        taken.append(seconds_of)
        found.append(colours)
    if not np.array_equal(found[1], found[2]):
        raise SystemExit("decompose: the kernel's colours are not numpy's")
    for colours in found[:2]:
        for ends in (relation.sources, relation.destinations):
            if np.bincount(colours * p + ends, minlength=p * h).max() > 1:
                raise SystemExit("decompose: no 1-relations")
    return taken


def main(arguments: Sequence[str] | None = None) -> int:
    """The table; status 1 where a bar is missed."""
    study = Study(__doc__, keep="--json", quick="less, in seconds")
    study.add_argument("--rounds", type=int, default=3)
    study.add_argument("--only", choices=BARS, help="one of both")
    options = study.begin(arguments)
    if compiled.kernels() is None:
        study.error("the kernels were not built")
    sizes = [("packets", packets, 10, 16), ("decompose", decomposed, 512, 64)]
    if not options.quick:
        sizes = [
            ("packets", packets, 10, 128), ("packets", packets, 12, 128),
            ("decompose", decomposed, 1024, 1024), ("decompose", decomposed, 1024, 8192),
        ]  # fmt: skip
    rows = []
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for name in ("packets", "decompose"):
            subprocess.run(["cc", "-O3", "-o", folder / name, HERE / f"{name}.c"], check=True)
        for name, measure, size, h in study.each([case for case in sizes if options.only in (None, case[0])]):
            taken = [measure(folder, size, h) for _ in range(1 + options.rounds)][1:]
            c, kernel, numpy = (median(seconds) for seconds in zip(*taken, strict=True))
            p = 1 << size if name == "packets" else size
            rows.append((name, p, h, p * h, c, kernel, numpy, numpy / kernel, kernel / c))
    head = "what | p | h | packets | C [.3f] | kernel [.3f] | numpy [.3f] | numpy/kernel [.1f] | kernel/C [.2f]"
    study.rows("kernels", f"medians of {options.rounds} rounds, in seconds", head, rows)
    study.end()
    return int(any(row[7] < BARS[row[0]][0] or row[8] > BARS[row[0]][1] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
