"""The multibutterfly in the bit model and the word model, with small buffers, and as a router over the processors.

    python -m pybsp.benchmarks.studies.multibutterfly_bits [--quick] [--only TABLE ...] [--json FILE]

Everything is simulated and counted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

import pybsp
from pybsp.benchmarks.studies.multibutterfly import D, L, Row, Section, main
from pybsp.benchmarks.studies.theory.bits import Count, Streamed, count, stream
from pybsp.benchmarks.studies.theory.small_buffers import route as route_in_groups
from pybsp.routing import Relation, multibutterfly_router
from pybsp.routing.multibutterfly import Multibutterfly, Parameters
from pybsp.routing.multibutterfly.router import MultibutterflyRouter
from pybsp.routing.relations import bit_reversal, permutation, random_relation

# Z is part of every stage here: as few repetitions as deliver all the relations below.
PARAMETERS = Parameters(Z=4)

network = lru_cache(maxsize=4)(Multibutterfly)


def relations(N: int, h: int) -> Iterator[Relation]:
    """Of the active rows."""
    yield random_relation(N // L, h, seed=h)
    yield permutation(N // L, h, seed=h)
    yield bit_reversal(N // L, h)


@lru_cache(maxsize=1000)
def most(N: int, h: int, size: int, rate: int = 2) -> Count:
    """The most of each figure over the relations."""
    found = [
        count(network(N, D), one.sources * L, one.destinations * L, h, size, PARAMETERS, rate)
        for one in relations(N, h)
    ]
    return Count(*np.max(found, axis=0).tolist())


def sweep(quick: bool) -> Iterator[tuple[int, int, int]]:
    """N, h, X."""
    for N in (64, 256) if quick else (64, 256, 1024, 4096):
        for h in (1, 4, 7, 16, 64):
            for size in (1, 16, 256):
                yield N, h, size


def word_rate(N: int, h: int) -> int:
    """Bits that a message goes on by in the word model: more than two where they are fewer than h words."""
    return max(2, -(-int(math.log2(N)) // h))


def bits(quick: bool) -> Section:
    """The bit model."""
    rows: list[Row] = []
    for N, h, size in sweep(quick):
        found, bound = most(N, h, size), h * (size + math.log2(N))
        row = [N, h, size, found.heads, found.stages, found.congestion, found.used, found.provisioned]
        rows.append([*row, found.used / bound, found.provisioned / bound])
    columns = "N | h | X | stages: heads | all | messages on an edge | steps used | provisioned"
    title = f"Bit model: steps, and over h(X + log N) (d = {D}, R = 8, L = {L}, Z = {PARAMETERS.Z}, Y = {PARAMETERS.Y})"
    return Section(title, f"{columns} | used / bound | provisioned / bound", rows)


def words(quick: bool) -> Section:
    """The word model."""
    rows: list[Row] = []
    for N, h, size in sweep(quick):
        rate, word = word_rate(N, h), int(math.log2(N))
        found, bound = most(N, h, size, rate), h * -(-size // word) + word
        row = [N, h, size, rate, found.stages, found.words_used, found.words_provisioned]
        rows.append([*row, found.words_used / bound, found.words_provisioned / bound])
    columns = "N | h | X | bits a repetition | stages | steps used | provisioned"
    title = "Word model: steps, and over h ceil(X/log N) + log N (a word has log N bits)"
    return Section(title, f"{columns} | used / bound | provisioned / bound", rows)


def constants(quick: bool) -> Section:
    """The constants of Theorem 1, by least squares of relative errors over the sweep."""
    rows: list[Row] = []
    cases = list(sweep(quick))
    in_bits = [most(*case) for case in cases]
    in_words = [most(*case, word_rate(*case[:2])) for case in cases]
    N, h, size = (np.array(column, float) for column in zip(*cases, strict=True))
    n = np.log2(N)
    as_bits = {"hX": h * size, "h log N": h * n, "(X + log N)": size + n}
    as_words = {"h ceil(X/log N)": h * np.ceil(size / n), "h": h, "log N": n}
    for name, terms, steps in (
        ("bits, used", as_bits, [found.used for found in in_bits]),
        ("bits, provisioned", as_bits, [found.provisioned for found in in_bits]),
        ("words, used", as_words, [found.words_used for found in in_words]),
        ("words, provisioned", as_words, [found.words_provisioned for found in in_words]),
    ):
        matrix = np.column_stack(list(terms.values())) / np.array(steps)[:, None]
        found = np.linalg.lstsq(matrix, np.ones(len(steps)))[0]
        errors = np.abs(matrix @ found - 1)
        formula = " + ".join(f"{a:.3g} {term}" for a, term in zip(found, terms, strict=True))
        rows.append([name, formula, f"{np.median(errors):.0%}", f"{errors.max():.0%}"])
    return Section("Constants, fitted over both tables", " | steps | median error | largest", rows)


def streams(quick: bool) -> Section:
    """Long messages: worms, and paths first."""
    rows: list[Row] = []
    for N in (64, 256) if quick else (64, 256, 1024, 4096):
        word = int(math.log2(N))
        for h in (1, 16, 64):
            for size in (word, word**2, 16 * word**2):
                worms = most(N, h, size, word_rate(N, h))
                found = [
                    stream(network(N, D), one.sources * L, one.destinations * L, h, size, PARAMETERS)
                    for one in relations(N, h)
                ]
                streamed = Streamed(*np.max(found, axis=0).tolist())
                bound = h * -(-size // word) + word
                used = streamed.select + streamed.stream
                provisioned = streamed.select_provisioned + streamed.stream_provisioned
                row: Row = [N, h, f"{size // word} words", worms.words_used, streamed.select, used]
                row += [worms.words_provisioned, provisioned, used / bound, provisioned / bound]
                rows.append([*row, streamed.local / bound])
    columns = "N | h | X | worms: used | paths: used | and stream | worms: provisioned | paths and stream"
    title = "Word model, long messages: paths first, then streams; over h ceil(X/log N) + log N"
    return Section(title, f"{columns} | used / bound | provisioned / bound | local / bound", rows)


def small_buffers(quick: bool) -> Section:
    """Groups of N^epsilon."""
    rows: list[Row] = []
    size = 32
    for N in (256,) if quick else (1024, 4096):
        for h in (16, 64, 256) if quick else (16, 64, 256, 1024):
            relation = random_relation(N // L, h, seed=h)
            plain = count(network(N, D), relation.sources * L, relation.destinations * L, h, size, PARAMETERS)
            rows.append([N, h, "none", "", "", "", plain.provisioned, 1.0, plain.storage, 1.0])
            for epsilon in (0.1, 0.2, 0.3, 0.5):
                levels = route_in_groups(network(N, D), relation, L, size, epsilon, PARAMETERS)
                steps = sum(level.took.provisioned + level.prefix for level in levels)
                storage = max(level.took.storage for level in levels)
                row = [N, h, epsilon, *(", ".join(str(level[k]) for level in levels) for k in (1, 3, 4))]
                rows.append([*row, steps, steps / plain.provisioned, storage, storage / plain.storage])
    columns = "N | h | epsilon | groups | messages a parcel | h of parcels | bit steps | / plain | bits a node"
    return Section(f"Small buffers: X = {size}, level by level; steps provisioned", f"{columns} | / plain", rows)


def over_the_processors(quick: bool) -> Section:
    """The router: what a superstep of the program takes."""
    rows: list[Row] = []

    def program(bsp: pybsp.BSP, h: int, items: int) -> Any:
        rng = np.random.default_rng(bsp.pid)
        for _ in range(h):
            dest = (bsp.pid + int(rng.integers(1, bsp.p))) % bsp.p
            bsp.send(dest, np.arange(items))
        bsp.sync()
        sent = bsp.ledger
        router = bsp.router
        assert isinstance(router, MultibutterflyRouter)
        return router.executions[0], sent[0].h, sent[0].M

    for p in (2, 8) if quick else (2, 3, 8, 16, 32):
        for h, items in ((1, 1), (1, 10_000), (8, 100)):
            for name, keep in (("with the messages", 1 << 30), ("streamed", 0)):
                router = multibutterfly_router(stream=keep)
                done = pybsp.simulate(program, h, items, p=p, router=router).results
                took, words_h, words = done[0]
                moved = sum(one.words for one, _, _ in done)
                congestion = max(one.congestion for one, _, _ in done)
                row = [p, router.rows(p), words_h, took.h, name, took.stages, 1 + took.supersteps]
                rows.append([*row, words, moved, moved / words, congestion])
    columns = "p | N | h in words | h in packets | data | stages | supersteps | words sent | moved | / sent"
    title = "Over the processors: a superstep of a program (random destinations; packets of 1 KiB)"
    return Section(title, f"{columns} | most words of a processor in a superstep", rows)


if __name__ == "__main__":
    main((bits, words, constants, streams, small_buffers, over_the_processors), __doc__)
