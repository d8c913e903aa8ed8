"""Versions of what takes part in a run, and when it was."""

from __future__ import annotations

import datetime
import platform

import numpy as np

from .._version import __version__


def now() -> str:
    """The date and time, UTC, as files have it."""
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


def versions(virtual: bool) -> dict[str, str]:
    """Versions of what took part in a run."""
    found = {"pybsp": __version__, "python": platform.python_version(), "numpy": np.__version__}
    if not virtual:
        import mpi4py
        from mpi4py import MPI

        found["mpi4py"] = mpi4py.__version__
        found["mpi"] = mpi_library(MPI.Get_library_version())
    return found


def mpi_library(version: str) -> str:
    """The MPI library in a line, from what it says of its version."""
    return " ".join(version.strip("\x00 \n").split("\n")[0].split())
