"""What the code does to a board's shared memory, by the model's names: all that has to know how a board lies in memory.

`watch` replaces a window's words, and a board's own part, by ones that record each access. An access is
(operation, name, value), the name being the model's for the cell:

    ("status", context, rank, parity)                  ("borrows", context, rank, parity, destination)
    ("slot", context, rank, parity, destination, word) ("release", context, word)
    ("area", context, rank, parity): a text, written; its value is not recorded

Texts that are read are not recorded: a view of memory is made when it is found, and read later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pybsp.transport.board import Board
from pybsp.transport.window import Window
from pybsp.transport.wire import AREA, SLOT, WORD

Access = tuple[str, tuple[Any, ...], int]
SLOT_WORDS = ("place", "tag", "size")
RELEASE_WORDS = ("word", "place", "size")


def watch(record: Callable[[Access], None]) -> None:
    """Record the accesses of all boards that are made from now on, in this process."""
    window_made, board_made = Window.__init__, Board.__init__

    def window(self: Window, *arguments: Any) -> None:
        window_made(self, *arguments)
        board = self.board
        self.words = [
            _Words(words, 0, len(words), lambda at, rank=rank: named(at, rank, self.size, board), record)  # type: ignore[misc]
            for rank, words in enumerate(self.words)
        ]

    def board(self: Board, window: Window, *arguments: Any) -> None:
        board_made(self, window, *arguments)
        self._own_part = _Text(self._own_part, window, record)  # type: ignore[assignment]

    Window.__init__ = window  # type: ignore[method-assign, assignment]
    Board.__init__ = board  # type: ignore[method-assign, assignment]


def named(at: int, rank: int, size: int, board: int) -> tuple[Any, ...]:
    """What a word of a rank's part is.

    Args:
        size: processors of the window.
        board: bytes of a board.
    """
    context, at = divmod(at, board // WORD)
    if at < 2:
        return "status", context, rank, at
    at -= 2
    if at < 3:
        return "release", context, RELEASE_WORDS[at]
    at -= 3
    if at < 2 * size:
        return "borrows", context, rank, *divmod(at, size)
    parity, at = divmod(at - 2 * size, SLOT * (size + 1))
    to, word = divmod(at, SLOT)
    return "slot", context, rank, parity, to, SLOT_WORDS[word]


class _Words:
    """A memoryview of words."""

    def __init__(
        self,
        words: memoryview,
        begin: int,
        end: int,
        named: Callable[[int], tuple[Any, ...]],
        record: Callable[[Access], None],
    ) -> None:
        self._words, self._begin, self._end, self._named, self._record = words, begin, end, named, record

    def __getitem__(self, at: int | slice) -> Any:
        if isinstance(at, slice):
            begin, end, _ = at.indices(self._end - self._begin)
            return _Words(self._words, self._begin + begin, self._begin + end, self._named, self._record)
        value = self._words[self._begin + at]
        self._record(("read", self._named(self._begin + at), value))
        return value

    def __setitem__(self, at: int, value: int) -> None:
        self._record(("write", self._named(self._begin + at), value))
        self._words[self._begin + at] = value

    def __len__(self) -> int:
        return self._end - self._begin

    def __iter__(self) -> Iterator[int]:
        return (self[at] for at in range(len(self)))


class _Text:
    """A processor's own part, where it writes manifests."""

    def __init__(self, part: memoryview, window: Window, record: Callable[[Access], None]) -> None:
        self._part, self._window, self._record = part, window, record

    def __setitem__(self, at: slice, text: bytes) -> None:
        context, begin = divmod(at.start, self._window.board)
        parity = (begin - self._window.board) // AREA + 2
        self._record(("write", ("area", context, self._window.rank, parity), 0))
        self._part[at] = text
