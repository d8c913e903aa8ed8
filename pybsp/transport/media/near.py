"""All processors of a transport meet on a board."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from ...ground.chunk import NO_COUNTS, Chunk
from .. import FREE, KIND, MAIL, QUIET, Arrival, Charge, Parcels, Section, new_tuple, wire
from ..board import Board
from ..delivery import NOT_JOINED
from ..flight import InFlight
from ..medium import Communicator
from ..memory import Bytes
from ..neighbours import INLINE_DATA_NEAR, Neighbours
from ..wire import DATA, MANIFESTS, dumps, manifest
from .showing import NO_PARCELS, Showing

Enter = Callable[[int, list[tuple[int, bytes]], list[Bytes]], list[tuple[int, bytes]]]  # `Board.enter`, or as it


class Near(Showing):
    """Processors of one node. The place of each on the board is its pid.

    Only where area and arena are full is anything sent as a message; it is seen off in the same exchange, as waiting on
    a board moves nothing on.
    """

    moves_by_mpi: ClassVar[bool] = False
    board: Board
    pad: Board

    def __init__(
        self, on: Communicator, ranks: list[int], pid: int, context: int, flight: InFlight, neighbours: Neighbours
    ) -> None:
        super().__init__(on, ranks, pid, context, flight, neighbours)
        self._neighbours, self.pad = neighbours, neighbours.board
        # A wait on a board does not call MPI, so nothing leaves by itself.
        flight.sent_without_progress = -1
        self._place = neighbours.pool.place

    def exchange(
        self, kind: int, note: object, parcels: Parcels, charge: Charge = FREE, grace: float | None = None
    ) -> Arrival:
        try:
            if self._unfinished:
                self._flight.see_off(1, self.waiter)
            if note is not None or grace is not None:
                self._post(kind, note, parcels)
                return self._complete(kind, note, parcels, grace)
            board = self.board
            if not parcels and not kind & ~KIND:
                if board.meet(kind):  # the superstep in which this processor sends nothing
                    return QUIET
                return self._gathered(kind, parcels, board.gather(kind))
            # As `_post`, `_complete` and `_receive` do, in fewer steps: most exchanges end here. To call
            # `Neighbours.describe` for the first of them would take 0.1 us more.
            texts: dict[int, bytes] = {}
            shared: list[Bytes] = []
            large: list[Bytes] = []
            own, flight = self.pid, self._flight
            for d, parcel in parcels.items():
                if d != own:
                    mail = parcel.get(MAIL)
                    if mail is not None and mail[3] is None and len(parcel) == 1:
                        # Packed mail as it is, the rest as `wire.manifest` has it.
                        texts[d] = mail[0] if type(mail[0]) is bytes else dumps(mail[:], 5)
                        continue
                    texts[d] = manifest(None, parcel, INLINE_DATA_NEAR, large, self._place, shared)
                    # Before the status or after it: the manifest says the size, and what it is received by has its own
                    # tag.
                    if large:
                        flight.send([(self._ranks[d], data) for data in large], DATA)
                        large.clear()
            # The status is written last, in there: from then on the others read what lies on the board and in the
            # arena.
            if board.post(kind, texts, None, shared) is None:
                flight.send(self._neighbours.by_rank(board.enter(kind, [*texts.items()], shared)), MANIFESTS)
            # What this processor sends by message keeps its memory until it is seen off, in `_receive`.
            return self._gathered(kind, parcels, board.gather(kind))
        except BaseException as error:
            return self.left(error, kind, note)

    def _gathered(
        self, kind: int, parcels: Parcels, manifests: Sequence[tuple[int, memoryview | Section]] | None
    ) -> Arrival:
        """The end of most exchanges in which this processor has said something, but no note, after `Board.gather`."""
        own, board = self.pid, self.board
        if manifests is not None and not self._flight.leaving:
            arrived = wire.parcels_here(manifests, board.read)
            if arrived is not None:
                if own in parcels:
                    arrived.append((own, parcels[own]))  # handed over
                    arrived.sort(key=wire.source)
                kinds = [kind] * self.p if kind & ~KIND else None
                return new_tuple(Arrival, (kinds, None, arrived, NOT_JOINED))
        board.finish()
        return self._receive(kind, None, parcels)

    def meet(self, kind: int, log: Chunk) -> Arrival | None:
        """`exchange` of a processor that sends nothing and has nothing to say.

        Args:
            log: as of `Board.meet`.

        Returns:
            None where nobody had: it is noted then.
        """
        try:
            if self._unfinished:
                self._flight.see_off(1, self.waiter)
            board = self.board
            if board.meet(kind, log, 0.0, NO_COUNTS):
                return None
            return self._gathered(kind, NO_PARCELS, board.gather(kind))
        except BaseException as error:
            return self.left(error, kind)

    def exchange_mail(
        self, kind: int, outgoing: dict[int, Any], log: Chunk | None = None, lent: list[Bytes] | None = None
    ) -> tuple[tuple[int, int, int, int], Arrival | tuple[tuple[int, Section], ...]] | None:
        """`exchange`, in fewer steps, where this processor sends packed mail or plain sections alone, and to others.

        Args:
            outgoing: what it sends, by destination; empty afterwards.
            log: to note the superstep in, where nothing but mail comes.
            lent: the data of mail that lies in shared memory, of which `outgoing` says where.

        Returns:
            What that counts, and what came: by source, where that is such too, and mail if there is a log. None where
            nothing was done, as something else is sent, or much.
        """
        try:
            if self._unfinished:
                self._flight.see_off(1, self.waiter)
            board = self.board
            counts = board.post(kind, outgoing, log, lent)
            if counts is None:
                return None
            leaving = self._flight.leaving
            sections = board.gather(kind, None if leaving else log)
            if type(sections) is tuple and not leaving:
                return counts, sections
            return counts, self._gathered(kind, NO_PARCELS, sections)
        except BaseException as error:
            return (0, 0, 0, 0), self.left(error, kind)

    def _post(self, kind: int, note: object, parcels: Parcels, enter: Enter | None = None) -> None:
        flight = self._flight
        flight.posted = 0
        texts, shared, messages = self._neighbours.describe(note, parcels)
        late = (enter or self.board.enter)(kind, texts, shared)
        flight.send(self._neighbours.by_rank(late), MANIFESTS)
        flight.send(messages, DATA)

    def _post_showing(self, kind: int, parcels: Parcels) -> None:
        # The record is in the area, so the manifests go to the arena.
        self._post(kind, None, parcels, self.board.enter_showing)

    def _complete(self, kind: int, note: object, parcels: Parcels, grace: float | None) -> Arrival:
        if not self.board.wait(None if grace is None else time.perf_counter() + grace):
            raise TimeoutError
        self.board.finish()
        return self._receive(kind, note, parcels)

    def _receive(self, kind: int, note: object, parcels: Parcels) -> Arrival:
        """With all others here, and `Board.finish` called."""
        kinds = [kind] * self.p
        manifests: dict[int, memoryview] = {}
        late: list[tuple[int, int]] = []
        # What lies on the board is read before this processor enters its next exchange: nobody writes over it until
        # then.
        self._neighbours.read(kinds, manifests, late)
        return self._delivery.complete(kinds, note, parcels.get(self.pid), manifests, late, self.waiter)

    def _awaited(self) -> tuple[list[int], list[int]]:
        return [self._ranks[d] for d in self._neighbours.awaited()], self._ranks
