"""What large blocks take on a node by plain stores alone, and as copies choose between plain and streaming ones.

    python -m pybsp.benchmarks.studies.streaming_stores [--rounds 11] [--json FILE]

Two ranks; the two ways in turns, in the same processes. Which is the better one depends on where the two cores are
(pybsp/transport/copying.py); each run finds one of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from typing import Any

import numpy as np

import pybsp
from pybsp import collectives
from pybsp.transport import copying

from .frame import Study, on_ranks

WORDS = (1 << 12, 1 << 14, 1 << 17, 1 << 20)
AT_RANDOM = 100_000  # items put, and sent by a queue
CALLS = 12  # of each in a turn


def samples(rounds: int) -> Any:
    """Of each work the seconds of a call, plain and by choice, by round; on ranks, which return processor 0's."""
    chosen = copying.stream

    def main(bsp: pybsp.BSP) -> dict[str, list[tuple[float, float]]]:
        found: dict[str, list[tuple[float, float]]] = {}
        for name, work in _works(bsp).items():
            found[name] = []
            for number in range(rounds):
                turn = {}
                for stream in (None, chosen) if number % 2 else (chosen, None):
                    copying.stream = stream
                    turn[stream is not None] = _seconds(bsp, work)
                found[name].append((turn[False], turn[True]))
        return found

    return pybsp.run(main)


def _works(bsp: pybsp.BSP) -> dict[str, Callable[[], object]]:
    """What is measured; each ends a superstep."""
    other, random = (bsp.pid + 1) % bsp.p, np.random.default_rng(bsp.pid)
    blocks = {words: random.random(words) for words in WORDS}
    array, queue = bsp.array(max(WORDS)), bsp.queue(np.float64)
    places, dests = random.integers(max(WORDS), size=AT_RANDOM), random.integers(bsp.p, size=AT_RANDOM)
    values = random.random(AT_RANDOM)
    bsp.sync()

    def sent(words: int) -> object:
        bsp.send(other, blocks[words])
        bsp.sync()
        return bsp.inbox[0].payload.sum()

    def put(words: int) -> None:
        array.put(other, blocks[words], at=slice(0, words))
        bsp.sync()

    def put_at_random() -> None:
        array.put(other, values, at=places)
        bsp.sync()

    def queued() -> object:
        queue.send(dests, values)
        bsp.sync()
        return queue.values.sum()

    found: dict[str, Callable[[], object]] = {"put at random": put_at_random, "queue at random": queued}
    for words, block in blocks.items():
        found |= {
            f"send of {words:,} words": partial(sent, words),
            f"put of {words:,} words": partial(put, words),
            f"broadcast of {words:,} words": partial(collectives.broadcast, bsp, None if bsp.pid else block),
            f"allreduce of {words:,} words": partial(collectives.allreduce, bsp, block, np.add),
            f"gather of {words:,} words": partial(collectives.gather, bsp, block),
        }
    return found


def _seconds(bsp: pybsp.BSP, work: Callable[[], object]) -> float:
    """Of a call, when some have shown how to store."""
    for number in range(2 * CALLS):
        if number == CALLS:
            bsp.sync()
            begin = time.perf_counter()
        work()
    bsp.sync()
    return (time.perf_counter() - begin) / CALLS


def main(arguments: Sequence[str] | None = None) -> None:
    study = Study(__doc__, keep="--json")
    study.add_argument("--rounds", type=int, default=11)
    options = study.begin(arguments)
    found = on_ranks(samples, options.rounds, n=2)
    study.rows(
        "works",
        "2 ranks, microseconds of a call; medians and quartiles over the rounds",
        "work | plain [.1f] | by choice [.1f] | ratio [.2f] | from [.2f] | to [.2f]",
        [(name, *_row(of_one)) for name, of_one in found.items()],
    )
    study.end()


def _row(rounds: Sequence[tuple[float, float]]) -> tuple[float, ...]:
    ratios = [chosen / plain for plain, chosen in rounds]
    plain, chosen = (1e6 * median(column) for column in zip(*rounds, strict=True))
    return plain, chosen, median(ratios), *np.quantile(ratios, (0.25, 0.75)).tolist()


if __name__ == "__main__":
    main()
