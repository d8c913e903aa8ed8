"""Relations that nobody knows, sorted on their way, on MPI ranks and on the simulated machine."""

from __future__ import annotations

from typing import Any

import numpy as np

from pybsp.logp import Processor
from pybsp.routing.logp.phases import Phases
from pybsp.routing.logp.sorted import route_sorted

from .test_logp_run import LogP, pytest_generate_tests  # noqa: F401


def test_relations_one_after_the_other(machine: LogP) -> None:
    def program(proc: Processor) -> None:
        phases = Phases(proc)
        for h in (0, 1, 30, 2):
            rng = np.random.default_rng(h)
            dests = rng.integers(0, rng.integers(1, proc.p + 1), (proc.p, h))
            packets: list[tuple[int, Any]] = [(int(dest), (h, k)) for k, dest in enumerate(dests[proc.pid])]
            received = sorted(route_sorted(phases, packets))
            due = np.argwhere(dests == proc.pid).tolist()
            assert received == [(source, (h, k)) for source, k in due]

    machine(program)


def test_arrays_and_other_objects(machine: LogP) -> None:
    def program(proc: Processor) -> None:
        payloads: list[Any] = [np.arange(proc.pid, dtype=np.int32), {"from": proc.pid}, b"x" * proc.pid, None] * 4
        packets = [((proc.pid + 1) % proc.p, payload) for payload in payloads]
        received = route_sorted(Phases(proc), packets)
        before = (proc.pid - 1) % proc.p
        assert {message.source for message in received} == {before}
        arrays = [message.payload for message in received if isinstance(message.payload, np.ndarray)]
        assert [array.dtype for array in arrays] == [np.dtype(np.int32)] * 4
        assert all(array.tolist() == list(range(before)) for array in arrays)
        assert [message.payload for message in received if isinstance(message.payload, bytes)] == [b"x" * before] * 4
        assert [message.payload for message in received if isinstance(message.payload, dict)] == [{"from": before}] * 4

    machine(program)
