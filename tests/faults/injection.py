"""Points at which an exception may come, and a tracer that raises one there.

A point is a line of pybsp's own files, in its n-th visit of a run: handlers of signals run between lines, memory runs
out in them. How often a loop that waits goes round depends on time, so later visits are left out, and a point may not
be reached in a run: that run must end well then.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, NamedTuple

import pybsp

ROOT = str(Path(pybsp.__file__).resolve().parent.parent) + "/"  # of pybsp, and of the folders that it links to
RUN = "pybsp/runs/session.py"  # where runs begin
BEFORE = 4  # of its lines are before their `try`, which is one: an exception there is one before the run
OURS = ("pybsp/", "collectives/", "routing/")


class Point(NamedTuple):
    """A line of a file below the project's folder, and which visit to it."""

    file: str
    line: int
    visit: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}, visit {self.visit}"


class InjectedError(Exception):
    """What is raised at a point."""


def _begins_a_thread(frame: FrameType) -> bool:
    """Whether a line is the first of another thread than the program's: no signal's handler runs there."""
    caller = frame.f_back
    return (
        caller is not None
        and caller.f_code.co_filename == threading.__file__
        and frame.f_lineno == frame.f_code.co_firstlineno + 1
    )


class Tracer:
    """Counts the visits to each line of pybsp in a `with` block, in all threads that begin there too.

    Args:
        at: where to raise; None: nowhere.
        raises: makes the exception.

    Attributes:
        visits: by file and line.
        fired: whether it has raised.
    """

    def __init__(self, at: Point | None = None, raises: Callable[[], BaseException] = InjectedError) -> None:
        self.visits: dict[tuple[str, int], int] = {}
        self.fired = False
        self._at, self._raises = at, raises
        self._files: dict[str, str | None] = {}

    def __enter__(self) -> Tracer:
        threading.settrace(self._call)
        sys.settrace(self._call)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        sys.settrace(None)
        threading.settrace(None)

    def points(self, most: int) -> list[Point]:
        """Those of the first visits to each line, in the order of the lines.

        Not the first lines of all, where `run` has not begun yet: what is raised there is the program's own, before a
        run that the others begin.
        """
        visited = list(self.visits.items())
        begin = next((number for number, ((file, _), _) in enumerate(visited) if file == RUN), 0)
        return [
            Point(file, line, visit)
            for (file, line), visits in sorted(visited[begin + BEFORE :])
            for visit in range(1, min(visits, most) + 1)
        ]

    def _call(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any] | None:
        name = frame.f_code.co_filename
        if name not in self._files:
            path = str(Path(name).resolve()).removeprefix(ROOT)
            self._files[name] = path if path.startswith(OURS) else None
        return None if self._files[name] is None else self._line

    def _line(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any]:
        if event == "line" and not self.fired and not _begins_a_thread(frame):
            file = self._files[frame.f_code.co_filename]
            assert file is not None
            place = file, frame.f_lineno
            visit = self.visits[place] = self.visits.get(place, 0) + 1
            if self._at == (*place, visit):
                self.fired = True
                raise self._raises()
        return self._line
