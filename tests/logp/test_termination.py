"""Whether a LogP program on ranks has ended: what processor 0 makes of reports and answers."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from pybsp.logp.termination import PROBE, REPLY, REPORT, WAITING, Detection


class _Processor:
    """The first of two, of which nothing was sent."""

    p, pid = 2, 0
    observer: Any = None

    def __init__(self) -> None:
        self.probes: list[int] = []

    def counts(self) -> tuple[int, int, int]:
        return 0, 0, 0

    def post(self, dest: int, kind: int, body: bytes) -> None:
        assert (dest, kind) == (1, PROBE)
        self.probes.append(pickle.loads(body))


def test_an_answer_to_an_earlier_probe_confirms_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    processor = _Processor()
    detection = Detection(processor)  # type: ignore[arg-type]
    decided: list[bool] = []
    monkeypatch.setattr(detection, "_decide", lambda: decided.append(True))
    detection.idle(5)
    for since in (3, 9):  # it waits, then for something else
        detection.heard(REPORT, 1, pickle.dumps((WAITING, since, 0, 0, 0)))
    first, second = processor.probes
    for probe in (first, second):
        assert not decided
        detection.heard(REPLY, 1, pickle.dumps((probe, (WAITING, 9, 0, 0, 0))))
    assert decided == [True]
