"""What has a part in the end of a superstep beside its messages: a queue, puts and gets, registrations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ..ground.public import Listed
from ..transport import Parcel

Texts = dict[int, bytearray]  # plain sections (transport/wire.py), by destination


class Participant(metaclass=Listed):
    """Enters itself in `SuperstepEngine.participants` whenever it has something for the end of this superstep.

    All that follows is called by that end, in this order; each does nothing unless a class says otherwise.
    """

    __slots__ = ()
    _public: ClassVar[tuple[str, ...]] = ()  # queues and patterns are participants, and their programs call none of it

    def sent(self) -> Sequence[str]:
        """What the program has called that goes out with the next sync ("queue.send"); for errors."""
        return ()

    def pack(self, parcels: dict[int, Parcel]) -> None:
        """Put what goes out into the parcels, by destination, and start afresh."""

    def lay(self, texts: Texts, own: Parcel) -> tuple[int, int] | None:
        """`pack`, where that is little: add what goes out, and stay as it is until `laid`.

        Args:
            texts: for others.
            own: for this processor itself.

        Returns:
            Items of queues for others, and ways. None where it cannot be: it is much, or there is more to do in the end
            of the superstep.
        """
        return None

    def laid(self) -> None:
        """What `lay` has added goes out: start afresh, and `forget`."""

    def forget(self) -> None:
        """What the last sync brought is no longer there: its memory is about to be received into again."""

    def move(self) -> None:
        """What the last sync brought goes into memory of this processor's own; in place of `forget`, at a run's end."""


class Saving(Participant):
    """What `bsp.checkpoint` and `bsp.restore` talk to, where checkpoints are wanted (checkpoints/saver.py)."""

    __slots__ = ()

    def offer(self, state: Any) -> None:
        """`BSP.checkpoint`: save the state if that is due."""

    def restore(self, default: Any) -> Any:
        """`BSP.restore`: the state that was saved last; the default where none was."""

    def heard(self) -> None:
        """An exchange has brought `FLAG_MEET`: all meet in the next call of `offer`."""

    def close(self) -> None:
        """The program has ended on all processors."""

    def give_up(self) -> None:
        """The run is over, or has failed."""
