"""Probes that are counted and seen off."""

from __future__ import annotations

from typing import Any

import pytest
from mpi4py import MPI

from pybsp.transport.probes import Probes


class WaiterError(Exception):
    """The waiter has been asked."""


def test_who_sees_off_what_has_not_come_looks_for_failures_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    class One:
        """Of a communicator on which one more is said to be on its way, and does not come."""

        size = 1

        def Ireduce_scatter_block(self, sent: Any, expected: Any) -> MPI.Request:
            expected[0][0] = 1
            return MPI.REQUEST_NULL

    class Waiter:
        def until(self, test: Any, what: Any) -> None:
            assert not test(what)
            raise WaiterError

    probes = Probes(One())  # type: ignore[arg-type]
    monkeypatch.setattr(probes, "receive", lambda source: None)
    with pytest.raises(WaiterError):
        probes.see_off(Waiter())  # type: ignore[arg-type]


def test_what_has_been_sent_is_received_before_that_is_over() -> None:
    class Waiter:
        def until(self, test: Any, what: Any) -> None:
            assert any(test(what) for _ in range(10_000))

    probes = Probes(MPI.COMM_SELF)
    for text in (b"one", b"two", b"three"):
        probes.send(0, text)
    assert probes.receive(0) == bytearray(b"one")
    probes.see_off(Waiter())  # type: ignore[arg-type]
    assert probes.receive(0) is None
