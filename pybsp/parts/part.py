"""Parts of a machine: `bsp.split`, which is a superstep of all, and the parts' own beginnings and ends."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from copy import copy
from types import TracebackType
from typing import Any, Generic, TypeVar

from ..errors import UsageError
from ..ground.chunk import clock
from ..ground.failures import killed
from ..ground.instead import hinting
from ..ledger.log import SECONDS
from ..messages.agreement import parts
from ..processes import process
from ..supersteps.superstep import SuperstepEngine
from ..transport import SPLIT
from .living import smallest_free
from .totals import Rows, Stay, Stays

Machine = TypeVar("Machine")
_OUTSIDE = "the block of the part has ended, or not begun; enter it by `with part as machine:`"


@hinting("bsp.split(...)")
class Split(Generic[Machine]):
    """A part that this processor is in, made by `bsp.split`: `with part as machine:` enters it, as often as wanted.

    To make it is a superstep of all; to enter it again is none. What is sent and started there is over when it is left.
    A part that is left by an exception has failed, on all its processors: it is not entered again.

    Args:
        whole: of the machine that is split.
        color, key: of this processor.
        make: what the program sees of a part, from its superstep.

    Examples:
        >>> from pybsp import collectives
        >>> def main(bsp):
        ...     halves = bsp.split(bsp.pid % 2)
        ...     found = []
        ...     for k in range(2):
        ...         with halves as part:
        ...             found.append(int(collectives.allreduce(part, bsp.pid + k, np.add)))
        ...         bsp.sync()
        ...     return found, len(bsp.ledger)
        >>> pybsp.simulate(main, p=4).results[1]
        ([4, 6], 3)
    """

    def __init__(
        self, whole: SuperstepEngine, color: Any, key: Any, make: Callable[[SuperstepEngine], Machine]
    ) -> None:
        self._whole, self._make = whole, make
        self._part: SuperstepEngine | None = None
        self._failure = ""  # the exception by which it was left, in words
        self._machine: Machine | None = None
        self._before = self._began = 0.0
        self._first = self._inner = 0
        if not whole.account.label:
            whole.account.label_this("split")
        whole.watch_crossing()
        if whole.account.stays is None:
            whole.account.stays = Stays()
        notes = whole.end(SPLIT, whole.parts.note(color, key, whole.contexts), "called bsp.split()")
        try:
            assert notes is not None
            forgotten, used = whole.parts.after(notes)
            whole.give_back(forgotten)
            if color is not None:
                self._open(parts(notes)[color], used)
        except BaseException as error:
            # Others may be in the part already, where nobody would tell them.
            whole.agreement.leave(error)
            raise

    def __repr__(self) -> str:
        part = self._part
        if part is None:
            return "<no part: this processor is in none of the split>"
        state = ""
        if self._whole.part is part:
            state = ", in use"
        elif self._failure or part.gate.over:
            state = ", failed" if self._failure else f", {part.gate.over}"
        return f"<part of {part.p} processors{state}>"

    def _open(self, members: list[int], used: Sequence[int]) -> None:
        whole = self._whole
        # Transports that share processors need different ones.
        context = smallest_free([used[member] for member in members])
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
        part.contexts, part.as_shown = whole.contexts, whole.as_shown
        part.belongs_to(whole)
        part.contexts.add(context)
        whole.parts.all[context] = part
        part.gate.close(_OUTSIDE)
        self._machine = self._make(part)
        # It is given back in a split, or with the machine: not in whatever goes on when this is forgotten. (By its
        # context: the part itself may refer to this, by what failed in it.)
        self._forget = weakref.finalize(self, whole.parts.forgotten.append, context)

    def __enter__(self) -> Any:
        whole, part = self._whole, self._part
        whole.gate.check("bsp.split")
        if part is None:
            return None
        if self._failure:
            raise UsageError(
                f"bsp.split: this part failed ({self._failure}) and is not entered again; make another by bsp.split"
            )
        if whole.parts.all.get(part.context) is not part:
            raise UsageError("bsp.split: the machine that the part is of has ended; a part is entered before that")
        part.gate.open()
        part.account.begin_at(clock())
        self._began = part.account.time()
        inner = part.account.stays
        self._first, self._inner = len(part.account.log), 0 if inner is None else len(inner.all)
        self._before = whole.account.enter_part()
        whole.part = part
        whole.account.log.enter(part.account.log)
        whole.gate.close("a part made by bsp.split is in use; leave its with block first")
        return self._machine

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        part, whole = self._part, self._whole
        if part is None:
            return
        self._failure = _gist(error)
        try:
            self._leave(part, error)
        except BaseException as late:
            self._failure = _gist(late)
            if part.gate.failed is None and not isinstance(late, UsageError):
                whole.agreement.leave(late)
            raise
        finally:
            whole.part = None
            whole.account.log.leave()
            whole.gate.open()
            if self._failure:  # it is not entered again
                self._forget()
                # Without a traceback, which refers to what the program had where it failed.
                part.gate.failed = copy(part.gate.failed)

    def _leave(self, part: SuperstepEngine, error: BaseException | None) -> None:
        whole = self._whole
        usable = True
        # What was computed after the part's last superstep is of the whole's, in which it ends.
        whole.account.log.work += part.account.log.work
        part.account.log.work = 0.0
        for kind, flops in part.account.log.take_kinds().items():
            whole.account.log.note_kind(kind, flops)
        spent = part.account.time() - self._began  # before others are waited for
        rows = part.account.log.timed(self._first, part.transport.one_clock is None)
        computed = float(rows[:, SECONDS].sum()) + part.account.break_off()
        try:
            if isinstance(error, KeyboardInterrupt) or killed(error) or not process.takes_part():
                usable = False
            elif error is None:
                try:
                    part.finish()
                    part.gate.close(_OUTSIDE)
                except UsageError as late:
                    usable = _tell(part, late)
                    raise
            elif part.gate.failed is None:
                usable = _tell(part, error)
        finally:
            whole.account.leave_part(self._before, spent, computed)
            self._note(part, rows)
            if not usable:
                del whole.parts.all[part.context]  # nothing can be given back any more

    def _note(self, part: SuperstepEngine, rows: Rows) -> None:
        """What was done in the part is noted in the whole, what was done in parts of it too."""
        account, log, stays = self._whole.account, part.account.log, part.account.stays
        assert account.stays is not None
        combined = min(max(log.combined - self._first, 0), len(log) - self._first)
        inner = []
        for one in () if stays is None else stays.all[self._inner :]:
            if one.superstep < len(log):
                inner.append(one._replace(superstep=one.superstep - self._first))
            else:  # after the part's last superstep: no row of the part has its time, which is the whole's
                account.stays.all.append(one._replace(superstep=account.superstep))
        members = tuple(part.agreement.members)
        account.stays.all.append(
            Stay(account.superstep, members, rows, combined, tuple(inner), *log.kinds_since(self._first))
        )


def _gist(error: BaseException | None) -> str:
    return "" if error is None else f"{type(error).__name__}: {error}"[:200]


def _tell(part: SuperstepEngine, error: BaseException) -> bool:
    """Report a failure to the part; whether that was possible. All processors learn of it next."""
    if part.transport.revoked:
        return False
    try:
        part.report_failure(error)
    except TimeoutError:
        return False
    return True
