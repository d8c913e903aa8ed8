"""Machine files that are found without being named: in the user's cache, by where a run is.

What a figure depends on is in a file's name: p, which processors share which hosts, the MPI library, pybsp's version,
the router and how its processors meet. `pybsp run --calibrate` writes them; a run reads one where there is one.
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .._version import __version__
from ..compiled import core
from ..errors import UsageError
from ..ground import settings
from ..machines.bsp import BSPMachine
from ..machines.placement import nodes_of

DOUBTFUL = 0.25  # error of held-out supersteps, median, above which a machine file is to be measured again


class Place(NamedTuple):
    """Where a run is.

    hosts: of each processor.
    nodes: of each processor a number, equal for those that meet in shared memory.
    library: the MPI library and its version.
    router: the name of what carries messages.
    cores: for each processor, how many cores the ranks of its host may run on.
    """

    hosts: Sequence[str]
    nodes: Sequence[int]
    library: str
    router: str = "direct"
    cores: Sequence[int] = ()

    def path(self) -> Path:
        """Where the machine file of this place is, if there is one.

        Raises:
            OSError, RuntimeError: the user has no place for a cache.
        """
        about = {
            "hosts": list(self.hosts),
            "nodes": nodes_of(self.nodes),
            "library": self.library,
            "router": self.router,
            "cores": list(self.cores),
            "settings": {name: settings.text(name) for name in settings.OF_TRANSPORT},
            "versions": [__version__, platform.python_version(), core is not None],
        }
        digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:12]
        words = (self.library, self.hosts[0], f"p{len(self.hosts)}", digest)
        name = "-".join(re.sub(r"[^A-Za-z0-9.]+", "_", word).strip("_.")[:40] for word in words)
        return folder() / f"{name}.json"


def folder() -> Path:
    """Where machine files are that runs have measured; an OSError or RuntimeError where the user has no such place."""
    from platformdirs import user_cache_path

    return user_cache_path("pybsp") / "machines"


_read: dict[Path, tuple[Any, BSPMachine]] = {}  # with what tells one state of a file from another
_refused: dict[Path, Any] = {}  # of which that was warned of, once


def find(place: Place) -> tuple[BSPMachine | None, str | None]:
    """The machine that was measured here, if there is one, and once a warning where its file cannot be used."""
    try:
        path = place.path()
        state = path.stat()
    except (OSError, RuntimeError):
        return None, None
    key = (state.st_mtime_ns, state.st_size, state.st_ino)
    if path in _read and _read[path][0] == key:
        return _read[path][1], None
    if _refused.get(path) == key:
        return None, None
    try:
        machine = BSPMachine.load(path)
        if list(machine.hosts) != list(place.hosts):
            raise UsageError(
                f"machine file {path}: placement.hosts: expected those of this run, of which its name is made"
            )
    except UsageError as error:
        way = "remove that folder" if path.is_dir() else "`pybsp run --calibrate` replaces it"
        _refused[path] = key
        return None, f"{error}; nothing is predicted by it: {way}"
    _read[path] = (key, machine)
    return machine, None
