"""Random BSP programs give what a plain sequential reading of the semantics gives.

A program is a list of supersteps, each a list of operations that some processor does. The reference below carries
them out one after the other: the gets before the puts, the puts by source then by call, inbox and queues by source
then by call.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import pybsp
from tests.conftest import Spmd
from tests.tiers import some

from .programs import filled, index, plain, whole

PAIR = np.dtype([("a", "i4"), ("b", "f4")])
DTYPES: list[np.dtype[Any]] = [np.dtype(np.int64), np.dtype(np.float32), PAIR]
QUEUES: list[np.dtype[Any]] = [np.dtype(np.int32), PAIR]


def shape_of(array: int, pid: int) -> tuple[int, ...]:
    """Arrays of one and two axes, of unequal sizes, empty ones among them."""
    return [(3 + pid % 3,), (pid % 2 + 1, 4), (2 * (pid % 3),)][array]


NUMBER = st.integers(0, 40)
INDEX = st.tuples(
    st.sampled_from(["all", "int", "slice", "reversed", "array", "list", "last axis", "tuple"]),
    st.lists(NUMBER, min_size=2, max_size=4),
)
TAG = st.sampled_from([None, 0, "tag", (1, "two")])
PAYLOAD = st.sampled_from(["number", "array", "bytes", "object", "nothing", "long", "longer"])
ARRAY = st.integers(0, len(DTYPES) - 1)
OPERATION = st.one_of(
    st.tuples(st.just("send"), NUMBER, NUMBER, PAYLOAD, TAG),
    st.tuples(st.just("queue"), NUMBER, st.integers(0, 1), st.lists(NUMBER, max_size=6)),
    st.tuples(st.just("queue one"), NUMBER, st.integers(0, 1), NUMBER),
    st.tuples(st.just("put"), NUMBER, NUMBER, ARRAY, INDEX),
    st.tuples(st.just("put one"), NUMBER, NUMBER, ARRAY, INDEX),
    st.tuples(st.just("get"), NUMBER, NUMBER, ARRAY, INDEX),
    st.tuples(st.just("write"), NUMBER, ARRAY, INDEX),
)
PROGRAM = st.lists(st.lists(OPERATION, max_size=14), min_size=1, max_size=4)
Program = list[list[tuple[Any, ...]]]


def payload_of(kind: str, seed: int) -> Any:
    return {
        "number": seed,
        "array": np.arange(seed, seed + 3, dtype=np.int16),
        "bytes": bytes([seed % 256]) * 3,
        "object": {"n": seed, "x": [np.arange(4.0) + seed]},
        "nothing": np.empty(0, np.float32),
        "long": np.arange(9000) + seed,
        "longer": np.arange(16_000) + seed,
    }[kind]


def run(bsp: pybsp.BSP, program: Program) -> list[Any]:
    """The program on pybsp: after each superstep, all that this processor sees."""
    p, pid = bsp.p, bsp.pid
    arrays = [bsp.array(shape_of(k, pid), dtype) for k, dtype in enumerate(DTYPES)]
    queues = [bsp.queue(dtype) for dtype in QUEUES]
    bsp.sync()
    seen = []
    for operations in program:
        tickets = []
        for number, (what, who, *rest) in enumerate(operations):
            if who % p != pid:
                continue
            seed = 1 + number
            if what == "send":
                bsp.send(rest[0] % p, payload_of(rest[1], seed), rest[2])
            elif what == "queue":
                dests = [dest % p for dest in rest[1]]
                queues[rest[0]].send(dests, filled(QUEUES[rest[0]], (len(dests),), seed))
            elif what == "queue one":
                queues[rest[0]].send(rest[1] % p, filled(QUEUES[rest[0]], (1,), seed)[0])
            elif what == "write":
                local = arrays[rest[0]].local
                chosen = whole(index(rest[1], local.shape))
                local[chosen] = filled(local.dtype, local[chosen].shape, seed)
            else:
                other, array = rest[0] % p, arrays[rest[1]]
                shape = array.shapes[other]
                at = index(rest[2], shape)
                if what == "get":
                    tickets.append(array.get(other, at=at))
                else:
                    one = what == "put one"
                    wanted = (1,) if one else np.empty(shape, bool)[whole(at)].shape
                    values = filled(DTYPES[rest[1]], wanted, seed)
                    array.put(other, values[0] if one else values, at=at)
                    values[...] = np.zeros((), values.dtype)  # it was copied
        bsp.sync()
        seen.append(
            (
                [(m.source, m.tag, plain(m.payload)) for m in bsp.inbox],
                [(plain(q.values), q.sources.tolist()) for q in queues],
                [plain(ticket.value) for ticket in tickets],
                [plain(array.local) for array in arrays],
            )
        )
    return seen


def reference(program: Program, p: int) -> list[list[Any]]:
    """The same, by one sequential reading."""
    arrays = [[np.zeros(shape_of(k, pid), dtype) for k, dtype in enumerate(DTYPES)] for pid in range(p)]
    seen: list[list[Any]] = [[] for _ in range(p)]
    for operations in program:
        inbox: list[list[Any]] = [[] for _ in range(p)]
        items: list[list[list[Any]]] = [[[] for _ in QUEUES] for _ in range(p)]
        gets: list[Any] = []
        puts: list[Any] = []
        for source in range(p):  # by source, then by call
            for number, (what, who, *rest) in enumerate(operations):
                if who % p != source:
                    continue
                seed = 1 + number
                if what == "send":
                    inbox[rest[0] % p].append((source, rest[2], plain(payload_of(rest[1], seed))))
                elif what == "queue":
                    values = filled(QUEUES[rest[0]], (len(rest[1]),), seed)
                    for dest, value in zip(rest[1], values, strict=True):
                        items[dest % p][rest[0]].append((source, value))
                elif what == "queue one":
                    items[rest[1] % p][rest[0]].append((source, filled(QUEUES[rest[0]], (1,), seed)[0]))
                elif what == "write":
                    local = arrays[source][rest[0]]
                    chosen = whole(index(rest[1], local.shape))
                    local[chosen] = filled(local.dtype, local[chosen].shape, seed)
                else:
                    local = arrays[rest[0] % p][rest[1]]
                    at = whole(index(rest[2], local.shape))
                    if what == "get":
                        gets.append((source, local, at))
                    else:
                        wanted = (1,) if what == "put one" else local[at].shape
                        values = filled(local.dtype, wanted, seed)
                        puts.append((local, at, values[0] if what == "put one" else values))
        got: list[list[Any]] = [[] for _ in range(p)]
        for source, local, at in gets:
            got[source].append(plain(np.array(local[at], local.dtype)))
        for local, at, values in puts:
            local[at] = values
        for pid in range(p):
            queues = [
                (plain(np.array([value for _, value in some], dtype)), [source for source, _ in some])
                for dtype, some in zip(QUEUES, items[pid], strict=True)
            ]
            seen[pid].append((inbox[pid], queues, got[pid], [plain(array) for array in arrays[pid]]))
    return seen


def check_on(spmd: Spmd, routers: st.SearchStrategy[Any], on_ranks: int, virtual: int) -> None:
    """So many random programs, each on one of the routers, give what the reference gives.

    On MPI ranks all must draw the same programs: nothing may depend on time, and a failure is not shrunk there.
    """

    @settings(
        max_examples=some(on_ranks) if spmd.mpi else virtual,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate] if spmd.mpi else [Phase.generate, Phase.shrink],
    )
    @given(PROGRAM, routers)
    def check(program: Program, router: Any) -> None:
        assert spmd(run, program, router=router) == reference(program, spmd.p)

    check()


def test_random_programs_give_what_the_sequential_reading_gives(spmd: Spmd) -> None:
    check_on(spmd, st.just("direct"), on_ranks=120, virtual=120)
