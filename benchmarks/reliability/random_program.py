"""A program whose supersteps follow from a seed: messages, queues, puts, gets, collectives, parts, and checkpoints.

    python -m pybsp.benchmarks.reliability.random_program SEED SUPERSTEPS MILLISECONDS [RESULT]

Each processor's result is a digest of all that it has seen, with the counts of the ledger. Processor 0 writes those of
all to RESULT, whole or not at all. Where PYBSP_KILLS_MARKS names a folder, each rank says there where it is: in the
file of its process, its phase, its superstep, and when it was started (kills.py).
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import pybsp
from pybsp import collectives
from pybsp.ground.files import replacing

MARKS = "PYBSP_KILLS_MARKS"
STARTING, PROGRAM, ENDING = "starting", "in-the-program", "ending"

Mark = Callable[[str, int], None]  # with phase and superstep


def unmarked(phase: str, superstep: int) -> None:
    """Nobody wants to know."""


def marked(folder: Path) -> Mark:
    """Says where this process is, in a file of that folder."""
    file = os.open(folder / str(os.getpid()), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC)
    started = time.time()

    def mark(phase: str, superstep: int) -> None:
        os.pwrite(file, f"{phase} {superstep} {started}".ljust(64).encode(), 0)

    mark(STARTING, 0)
    return mark


def main(bsp: pybsp.BSP, seed: int, supersteps: int, pause: float, mark: Mark = unmarked) -> list[str] | None:
    """Run it; the digests of all processors, on processor 0. See `digest`."""
    found: list[str] | None = collectives.gather(bsp, digest(bsp, seed, supersteps, pause, mark))
    return found


def digest(bsp: pybsp.BSP, seed: int, supersteps: int, pause: float, mark: Mark = unmarked) -> str:
    """Run it; this processor's digest.

    Args:
        pause: seconds of a superstep in which nothing is done.
        mark: is called with where this processor is.
    """
    shared, queue = bsp.array(256, dtype=np.int64), bsp.queue(np.float64)
    state: dict[str, Any] = bsp.restore(
        {
            "step": 0,
            "digest": b"",
            "draws": np.random.default_rng([seed, bsp.pid]),
            "choices": random.Random(seed),
            "values": np.arange(1000.0) + bsp.pid,
            "shared": shared.local,
        }
    )
    assert state["shared"] is shared.local
    bsp.sync() if state["step"] == 0 else None
    for step in range(state["step"], supersteps):
        mark(PROGRAM, step)
        # What came with the last superstep, before the checkpoint.
        seen = hashlib.blake2b(state["digest"], digest_size=16)
        for source, tag, payload in bsp.inbox:
            seen.update(
                f"{source} {tag!r} {payload if not isinstance(payload, np.ndarray) else payload.tolist()}".encode()
            )
        seen.update(queue.values.tobytes() + queue.sources.tobytes() + shared.local.tobytes())
        draws, choices = state["draws"], state["choices"]
        kinds = choices.sample(range(6), 3)
        ticket = None
        if 0 in kinds:
            bsp.send(int(draws.integers(bsp.p)), draws.random(int(draws.integers(1, 4000))), tag=("array", step))
        if 1 in kinds:
            bsp.send((bsp.pid + step) % bsp.p, {"step": step, "of": [bsp.pid, draws.random()]})
            bsp.send(0, bsp.pid)
        if 2 in kinds:
            queue.send(draws.integers(bsp.p, size=50), draws.random(50))
        if 3 in kinds:
            shared.put(int(draws.integers(bsp.p)), draws.integers(1 << 40, size=8), at=8 * bsp.pid + np.arange(8))
        if 4 in kinds:
            ticket = shared.get(int(draws.integers(bsp.p)), at=slice(0, 100))
        bsp.work(int(draws.integers(1000)))
        bsp.sync()
        bsp.work(int(draws.integers(1000)))  # of the next superstep, and before the checkpoint
        if ticket is not None:
            seen.update(ticket.value.tobytes())
        if 5 in kinds:
            total = collectives.allreduce(bsp, state["values"].sum(), np.add)
            state["values"] = collectives.prefix(
                bsp, state["values"] * 0.5 + draws.random(1000) + total * 1e-9, np.maximum
            )
            if step % 7 == 0:
                with bsp.split(bsp.pid % 2) as part:
                    part.send(0, draws.random())
                    part.sync()
                    seen.update(repr([message.payload for message in part.inbox]).encode())
        if pause:
            time.sleep(pause)
        state["step"], state["digest"] = step + 1, seen.digest()
        bsp.checkpoint(state)
    mark(ENDING, supersteps)
    counts = [(record.h, record.messages, record.M, record.items, record.work) for record in bsp.ledger]
    return hashlib.blake2b(state["digest"] + repr(counts).encode() + state["values"].tobytes()).hexdigest()


def expected(seed: int, p: int, supersteps: int) -> list[str]:
    """The result, from virtual processors without checkpoints."""
    found: list[str] = pybsp.simulate(main, seed, supersteps, 0.0, p=p).results[0]
    return found


if __name__ == "__main__":
    given_seed, given_supersteps, milliseconds = map(int, sys.argv[1:4])
    where = marked(Path(os.environ[MARKS])) if MARKS in os.environ else unmarked
    result = pybsp.run(main, given_seed, given_supersteps, milliseconds / 1000, where)
    if result is not None and len(sys.argv) > 4:
        with replacing(Path(sys.argv[4])) as file:
            json.dump(result, file)
