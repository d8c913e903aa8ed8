"""`pybsp replay`: one processor of a recorded run, alone in this process: each exchange brings what it brought then."""

from __future__ import annotations

import pdb
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from ..bsp import BSP
from ..checkpoints import snapshot
from ..checkpoints.record import RecordReader
from ..errors import AbortError
from ..ledger.account import Account
from ..supersteps.participant import Saving
from ..supersteps.superstep import SuperstepEngine
from ..transport import FREE, SAVE, Arrival, Charge, Parcel, Parcels
from ..transport.memory import BufferPool


class Recorded:
    """The transport, and the router, of a processor whose record is read. See `Transport` and `Router`."""

    name = "direct"
    meets_to_close = False

    def __init__(self, record: RecordReader, p: int, pid: int, nodes: Sequence[int]) -> None:
        self.p, self.pid, self.pool = p, pid, BufferPool()
        self._record, self._nodes = record, nodes
        self.hosts = [f"node {node}" for node in nodes]  # by the record, which has no names
        # Clocks of several nodes are compared in an exchange of its own, which the record has then.
        self.one_clock = len(set(nodes)) == 1
        self.where: Callable[[], str] = str

    def exchange(
        self, kind: int, note: object, parcels: Parcels, charge: Charge = FREE, grace: float | None = None
    ) -> Arrival:
        return self._record.arrival(kind, self.where)

    route = exchange

    def post(self, kind: int, note: object, parcels: Parcels) -> Callable[..., Arrival]:
        return lambda charge=FREE, grace=None: self._record.arrival(kind, self.where)

    def swap(
        self, partner: int, kind: int, note: object, parcel: Parcel | None, grace: float | None = None
    ) -> tuple[int, Any, Parcel]:
        raise NotImplementedError  # routers swap, and what they bring is recorded

    def subset(self, members: Sequence[int], context: int) -> Recorded:
        part = Recorded(self._record, len(members), members.index(self.pid), [self._nodes[m] for m in members])
        part.where = self.where
        return part

    def watch_crossing(self, where: Callable[[], str]) -> None:
        """Nobody is waited for."""

    def part(self, transport: Any, members: Sequence[int]) -> Recorded:
        part: Recorded = transport
        return part

    def clocks(self) -> list[float]:
        return []  # what was found then is in the record

    def time(self) -> float:
        return 0.0

    def abort(self, message: str) -> None:
        raise AbortError(message)

    def revoke(self, cause: BaseException) -> None:
        """There are no others."""

    revoked, settled = False, None

    def free(self) -> None:
        """It holds nothing."""

    close = free


class _ReplayedSaver(Saving):
    """`bsp.restore` gives what it gave then; nothing is saved."""

    __slots__ = ("_engine", "_record")

    def __init__(self, engine: SuperstepEngine, record: RecordReader) -> None:
        self._engine, self._record = engine, record

    def restore(self, default: Any) -> Any:
        engine = self._engine
        engine.settle(engine.meet(SAVE, None, {}), SAVE, "called bsp.restore()")
        part = self._record.part()
        return default if part is None else snapshot.put_back(engine, list(engine.registrations.order), part)


class _Debugger(pdb.Pdb):
    """Python's, which knows whether it was left before the program's end."""

    left = False

    def set_quit(self) -> None:
        self.left = True
        super().set_quit()


def _debugged(main: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What the program returns under a debugger; where that is left before, this process ends."""
    debugger = _Debugger()
    result = debugger.runcall(main, *args, **kwargs)
    if debugger.left:
        raise SystemExit
    return result


def replay(
    main: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    folder: Path,
    pid: int,
    debug: bool,
) -> Any:
    """The result of one processor of a recorded run of this program.

    Args:
        folder: of its record.
        debug: whether Python's debugger is to begin at the program's first line.

    Raises:
        CheckpointError: there is no record, it ends before the program, or is of another one.
    """
    with closing(RecordReader(folder, pid)) as record:
        header = record.header
        transport = Recorded(record, header.p, header.pid, header.nodes or [0] * header.p)
        engine = SuperstepEngine(transport, transport, Account(transport), header.checked)
        transport.where = engine.whereabouts
        engine.saver = _ReplayedSaver(engine, record)
        bsp = BSP(engine, header.machine)
        result = _debugged(main, bsp, *args, **kwargs) if debug else main(bsp, *args, **kwargs)
        engine.finish()  # with what the run found at its end
        return result
