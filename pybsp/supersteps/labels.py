"""The labels of blocks: `with bsp.superstep(label)`, which syncs at its end, and `with bsp.label(label)`."""

from __future__ import annotations

from types import TracebackType

from ..errors import UsageError, brief
from ..ground.failures import note_label
from .superstep import SuperstepEngine


class Labelled:
    """A block in which supersteps carry a label."""

    __slots__ = ("_label", "_outer", "_superstep")
    operation = "bsp.label"

    def __init__(self, superstep: SuperstepEngine, label: str) -> None:
        self._superstep, self._label = superstep, label

    def __repr__(self) -> str:
        return f"<{self.operation}({self._label!r})>"

    def __enter__(self) -> None:
        account = self._superstep.account
        self._outer = account.lasting
        self._superstep.gate.check(self.operation)
        account.set_label(self._label)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        superstep = self._superstep
        try:
            if error is None:
                self._end()
            else:
                note_label(error, superstep.account.label)
        except BaseException as late:
            note_label(late, superstep.account.label)
            raise
        finally:
            if superstep.gate.failed is None:
                superstep.account.set_label(self._outer)

    def _end(self) -> None:
        """The block has ended normally."""


class LabelledSuperstep(Labelled):
    """A block that ends with the end of its superstep."""

    __slots__ = ()
    operation = "bsp.superstep"

    def __del__(self) -> None:
        try:
            self._outer  # noqa: B018 - it is there once the block is entered
        except AttributeError:
            self._superstep.gate.unentered(f"bsp.superstep({self._label!r:.40})")

    def _end(self) -> None:
        self._superstep.sync()


def checked_label(operation: str, label: str, argument: str = "label") -> str:
    """A label, or a name that may become one; a UsageError where it is no str."""
    if not isinstance(label, str):
        raise UsageError(f"{operation}: argument {argument}: expected a str, got {type(label).__name__} {brief(label)}")
    return label
