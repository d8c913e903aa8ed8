"""A calibration in Chrome's trace form, which Perfetto opens: when each point was timed, launch by launch.

It is made of raw samples, so it costs the measuring nothing, and of a calibration that there was it is made by
`pybsp calibrate --from samples.csv --trace trace.json`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pybsp._version import __version__
from pybsp.ground.files import writing
from pybsp.ledger.chrome import FORMAT, VERSION

from .samples import Point, Raw


def write(raw: Raw, path: str) -> None:
    """Write the trace of all samples; a UsageError where it cannot be written."""
    head = {"format": FORMAT, "version": VERSION, "displayTimeUnit": "ns", "otherData": {"pybsp": __version__}}
    with writing(path, f"--trace: {path}") as file:
        json.dump({**head, "logp": [], "traceEvents": list(events(raw))}, file)


def events(raw: Raw) -> Iterator[dict[str, Any]]:
    """A launch is a process there, which begins where the last one ended; what all take part in is a thread of it.

    So is each processor, with the samples that are its own.
    """
    p, begin, end, launch = raw.about["p"], 0.0, 0.0, -1
    for sample in raw.samples:
        if sample.launch != launch:
            begin, launch = end, sample.launch
            yield {"ph": "M", "name": "process_name", "pid": launch, "args": {"name": f"launch {launch} of p = {p}"}}
            for thread in range(-1, p):
                name = "all processors" if thread < 0 else f"processor {thread}"
                yield {"ph": "M", "name": "thread_name", "pid": launch, "tid": thread + 1, "args": {"name": name}}
        point, seconds = sample.point, sample.repeats * sample.seconds
        yield {
            **{"ph": "X", "name": named(point), "cat": point.experiment, "pid": launch, "tid": sample.pid + 1},
            **{"ts": 1e6 * (begin + sample.at), "dur": 1e6 * seconds},
            "args": {"visit": sample.batch, "times": sample.repeats, "seconds each": sample.seconds, "h": point.h},
        }
        end = max(end, begin + sample.at + seconds)


def named(point: Point) -> str:
    """A point in a few words."""
    words = [point.experiment, point.pattern, point.layer * (point.layer != "bsp"), point.where]
    words += [f"{point.messages} of" * bool(point.messages), f"{point.size} bytes" * bool(point.size)]
    words += [f"{point.items} items" * bool(point.items), f"after {point.delay:g} s" * bool(point.delay)]
    return " ".join(filter(None, words))
