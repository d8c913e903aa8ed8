"""Parts of a machine: `bsp.split`, which is a superstep of all, and the parts' own beginnings and ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Generic, TypeVar

from . import process
from .agreement import parts
from .errors import UsageError
from .failures import killed
from .superstep import SuperstepEngine
from .transport import SPLIT

Machine = TypeVar("Machine")


class Split(Generic[Machine]):
    """The context of `bsp.split`.

    Args:
        whole: of the machine that is split.
        color, key: of this processor.
        make: what the program sees of a part, from its superstep.
    """

    def __init__(
        self, whole: SuperstepEngine, color: Any, key: Any, make: Callable[[SuperstepEngine], Machine]
    ) -> None:
        self._whole, self._color, self._key, self._make = whole, color, key, make
        self._part: SuperstepEngine | None = None
        self._computed = 0.0

    def __enter__(self) -> Any:
        whole = self._whole
        whole.gate.check("bsp.split")
        if not whole.account.label:
            whole.account.label_this("split")
        mine = (self._color, self._key, whole.context)
        notes = whole.end(SPLIT, mine, "called bsp.split()")
        try:
            assert notes is not None
            return None if self._color is None else self._open(notes)
        except BaseException as error:
            # Others may be in the part already, where nobody would tell them.
            whole.agreement.leave(error)
            raise

    def _open(self, notes: Sequence[Any]) -> Machine:
        whole = self._whole
        members = parts(notes)[self._color]
        # Transports that share processors need different ones: above those of all that are in use on any of them.
        context = 1 + max(note[2] for note in notes)
        transport = whole.transport.subset(members, context)
        of_all = whole.agreement.members
        self._part = part = SuperstepEngine(
            transport,
            whole.router.part(transport, members),
            whole.account.of_part(transport),
            whole.checked,
            context,
            [of_all[m] if of_all else m for m in members],
        )
        machine = self._make(part)
        self._computed = whole.account.enter_part()
        whole.part = part
        whole.gate.close("a part made by bsp.split is in use; leave its with block first")
        return machine

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        part, whole = self._part, self._whole
        if part is None:
            return
        try:
            self._close(part, error)
        except BaseException as late:
            if part.gate.failed is None and not isinstance(late, UsageError):
                whole.agreement.leave(late)
            raise

    def _close(self, part: SuperstepEngine, error: BaseException | None) -> None:
        whole = self._whole
        usable = True
        spent = part.account.time()  # before others are waited for
        try:
            if isinstance(error, KeyboardInterrupt) or killed(error) or not process.takes_part():
                usable = False
            elif error is None:
                try:
                    part.finish()
                except UsageError as late:
                    usable = _tell(part, late)
                    raise
            elif part.gate.failed is None:
                usable = _tell(part, error)
        finally:
            whole.part = None
            whole.gate.open()
            whole.account.leave_part(self._computed, spent)
            if usable and not part.transport.revoked:
                part.router.close()
                part.transport.free()


def _tell(part: SuperstepEngine, error: BaseException) -> bool:
    """Tell the part of a failure; whether the part could be told. All processors are told next."""
    if part.transport.revoked:
        return False
    try:
        part.report_failure(error)
    except TimeoutError:
        return False
    return True
