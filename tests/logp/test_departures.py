"""What leaves a LogP processor on ranks, by MPI requests that are used again where the last message has left."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pybsp.logp.departures import DATA, Departures
from pybsp.logp.wire import INT


class Requests:
    """A communicator of which no message leaves before it is to."""

    def __init__(self) -> None:
        self.gone, self.calls = True, list[str]()

    def Send_init(self, *_: Any) -> Any:
        return SimpleNamespace(Start=lambda: self.calls.append("start"), Test=lambda: self.gone)

    def Isend(self, *_: Any) -> Any:
        self.calls.append("isend")
        return SimpleNamespace(Test=lambda: self.gone)


@pytest.mark.parametrize("of_program", [True, False])
def test_a_short_message_takes_the_request_of_its_destination_unless_the_last_one_has_yet_to_leave(
    of_program: bool,
) -> None:
    comm: Any = Requests()
    departures = Departures(comm, [0, 1], 5, 0, [3, 4], [0, 0])
    for gone in (True, False, True):
        comm.gone = gone
        departures.submit(1, INT, 7) if of_program else departures.post(1, DATA + 1)
    assert comm.calls == ["start", "isend", "start"]
    assert (len(departures.leaving), departures.announced) == (1, [0, 4])
    assert departures.posted == [0, 0 if of_program else 3]
