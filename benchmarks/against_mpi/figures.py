"""The figures to reach: each a piece of work, two of its variants, how many times as long one may take, and where.

Bars are of times: `most` 0.85 is at most 0.85 of the other's time, and a rate at least as high is at most 1.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from .variants import OURS
from .works import collective
from .works.access import ALLTOALLV as INTO_PLACE
from .works.access import NUMPY, SCATTERED
from .works.blocks import ALLTOALLV, KIB, MIB
from .works.collective import ALLREDUCE, BCAST, SCAN
from .works.fine import BY_HAND
from .works.riding import ALONE
from .works.riding import COUNTS as RIDING
from .works.small import ALLTOALL, BARRIER, COUNTS, EXCHANGE, SHIFTED, WORDS

MPICH, OPEN_MPI = "MPICH", "Open MPI"


class Figure(NamedTuple):
    """What is wanted.

    work, size, against: of ours.
    most: times as long.
    p: ranks.
    crowded: whether there are fewer cores.
    family: of the MPI library; "" for any.
    hosts, latency, rate: of emulated hosts (seconds, one way; bits/s; None: any); hosts 0 for this machine.
    command: that measures it, without the beginning.
    """

    work: str
    size: int
    against: str
    most: float
    p: int = 2
    family: str = ""
    crowded: bool = False
    hosts: int = 0
    latency: float | None = None
    rate: float | None = None
    command: str = ""

    def measured_by(self, run: Mapping[str, Any]) -> bool:
        """Whether a run was made where this figure is wanted."""
        network = run["network"]
        if run.get("guidelines"):
            return False
        if run["p"] != self.p or self.family not in ("", run["family"]) or bool(network) != bool(self.hosts):
            return False
        if self.crowded and run["p"] <= run["machine"]["cores"]:
            return False
        return not network or (
            network["hosts"] == self.hosts
            and self.latency in (None, network["latency"])
            and self.rate in (None, network["rate"])
        )


_FOUR = "--hosts 4 --latency 1ms --rate 200mbit"
_EIGHT_RANKS = "-n 8 --only 'allreduce number', on 2 cores"
_HALF = "--hosts 8 --latency 500us --rate 200mbit --only allreduce prefix broadcast"
_EIGHT = "--hosts 8 --latency 2ms --rate 200mbit"

FIGURES = (
    Figure("empty", 0, COUNTS, 0.3, family=MPICH, command="-n 2"),
    Figure("empty", 0, COUNTS, 1.6, family=OPEN_MPI, command="-n 2, with Open MPI"),
    Figure("empty", 0, EXCHANGE, 1.11, command="-n 2"),
    Figure("words", WORDS, ALLTOALL, 1.2, family=MPICH, command="-n 2"),
    Figure("words", WORDS, ALLTOALL, 2.0, family=OPEN_MPI, command="-n 2, with Open MPI"),
    Figure("allreduce number", 1, ALLREDUCE, 1.5, command="-n 2"),
    Figure("prefix number", 1, SCAN, 1.5, command="-n 2"),
    Figure("broadcast number", 1, BCAST, 2.5, command="-n 2"),
    Figure("broadcast", 1 << 9, BCAST, 2.5, command="-n 2"),
    Figure("broadcast", 1 << 17, BCAST, 1.2, command="-n 2"),
    Figure("broadcast", 1 << 20, BCAST, 1.2, command="-n 2"),
    Figure("allreduce", 1 << 17, ALLREDUCE, 1.2, command="-n 2"),
    Figure("allreduce", 1 << 20, ALLREDUCE, 1.2, command="-n 2"),
    *(Figure("riding", count, ALONE, 1.5, command="-n 2") for count in RIDING["all"]),
    Figure("put", 8 * KIB, INTO_PLACE, 1.3, command="-n 2"),
    Figure("get", 8 * KIB, INTO_PLACE, 2.0, command="-n 2"),
    Figure("blocks", MIB, ALLTOALLV, 0.85, command="-n 2"),
    Figure("blocks", 16 * MIB, ALLTOALLV, 0.85, command="-n 2"),
    Figure("rooms", MIB, ALLTOALLV, 0.85, command="-n 2"),
    Figure("rooms", 16 * MIB, ALLTOALLV, 0.85, command="-n 2"),
    Figure("relation", 100_000, BY_HAND, 1.0, command="-n 2"),
    Figure("scattered put", SCATTERED, NUMPY, 3.0, command="-n 2"),
    Figure("sort", collective.SORT["all"], collective.NUMPY, 1.0, command="-n 2 --only sort"),
    Figure("empty", 0, COUNTS, 0.4, p=8, family=MPICH, crowded=True, command="-n 8 --only empty, on 2 cores"),
    Figure("allreduce number", 1, ALLREDUCE, 0.5, p=8, crowded=True, command=_EIGHT_RANKS),
    *(
        Figure(work, words, raw, 1.3, p=8, hosts=8, latency=5e-4, command=_HALF)
        for work, raw in (("allreduce", ALLREDUCE), ("prefix", SCAN), ("broadcast", BCAST))
        for words in (1, 16)
    ),
    Figure("empty", 0, BARRIER, 0.7, p=4, hosts=4, latency=1e-3, command=_FOUR),
    Figure("shift", SHIFTED, ALLTOALL, 1.0, p=8, hosts=8, latency=2e-3, command=_EIGHT),
    Figure("blocks", MIB, ALLTOALLV, 1.05, p=4, hosts=4, rate=200e6, command=_FOUR),
)


def figure_for(run: Mapping[str, Any], work: str, size: int, one: str, against: str) -> Figure | None:
    """The figure that a ratio of a run must reach."""
    return next(
        (
            figure
            for figure in FIGURES
            if one == OURS and (figure.work, figure.size, figure.against) == (work, size, against)
            if figure.measured_by(run)
        ),
        None,
    )


def found(figure: Figure, run: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The ratio in a run that a figure is about, if it was measured there."""
    if not figure.measured_by(run):
        return None
    for row in run["works"]:
        if (row["work"], row["size"]) == (figure.work, figure.size):
            for ratio in row.get("ratios", ()):
                if (ratio["of"], ratio["against"]) == (OURS, figure.against):
                    measured: Mapping[str, Any] = ratio
                    return measured
    return None
