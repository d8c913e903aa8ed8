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
