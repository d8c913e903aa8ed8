"""Package files that load what they offer only when it is asked for (PEP 562): importing a package costs little.

A package file says twice what it offers: as imports under `if TYPE_CHECKING`, which type checkers read, and in the
table that it gives to `lazy`, which Python reads. tests/test_layers.py holds the two equal.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

_of_programs: list[str] = []  # packages that were imported, and of which a program may use any name in a superstep
_loaded = 0  # how many of them, from the first on, `ready` has loaded


class _Package(ModuleType):
    """A package that offers names which modules in it have too, as the function `pybsp.collectives.broadcast`.

    Python binds a module, when it has loaded it, to its name in the package. Here such a name is left to what is
    offered.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if not (isinstance(value, ModuleType) and name in vars(self)["_shared_names"]):
            super().__setattr__(name, value)

    def __reduce__(self) -> tuple[Callable[[str], ModuleType], tuple[str]]:
        return import_module, (self.__name__,)


def lazy(
    package: str, offered: Mapping[str, Sequence[str]], of_programs: bool = False, by_name: Sequence[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """The `__getattr__`, `__dir__` and `__all__` of a package.

    Args:
        package: its `__name__`.
        offered: the names that it offers, by the module that has them (as in an import: ".bsp"); where there are none,
            the module itself is what is offered.
        of_programs: whether its names are what programs call in their supersteps: `ready` loads all of them then.
        by_name: packages among them that `__all__` has not: what they offer is public, name by name.
    """
    here = sys.modules[package]
    origins = {name: module for module, names in offered.items() for name in names or (module[1:],)}
    shared = {name for name, module in origins.items() if offered[module] and f".{name}" in offered}
    if shared:
        vars(here)["_shared_names"] = shared
        here.__class__ = _Package
    if of_programs:
        _of_programs.append(package)

    def __getattr__(name: str) -> Any:  # noqa: N807 - its name in PEP 562
        module = origins.get(name)
        if module is None:
            if not name.startswith("_") and find_spec(f".{name}", package) is not None:
                return import_module(f".{name}", package)  # a module in it, by the name that the docs call it
            hint = "" if name.startswith("_") or not of_programs else _instead(name)
            raise AttributeError(f"module {package!r} has no attribute {name!r}{hint}")
        found: Any = import_module(module, package)
        value = vars(here)[name] = getattr(found, name) if offered[module] else found
        return value

    def __dir__() -> list[str]:  # noqa: N807
        return sorted({*origins, *(name for name in vars(here) if name.startswith("__"))})

    listed = {name for name in origins if name == "__version__" or not name.startswith("_")}
    return __getattr__, __dir__, sorted(listed.difference(by_name))


def _instead(name: str) -> str:
    """What there is in place of a name of mpi4py's, in words."""
    from .ground.instead import instead_of

    found = instead_of(name)
    return f": {found}" if found else ""


def of_programs() -> Sequence[str]:
    """The packages that were imported, and of which a program may use any name in a superstep."""
    return tuple(_of_programs)


def ready() -> None:
    """Load what a program may call in its supersteps: a run does this before it begins, so that no superstep waits."""
    global _loaded
    while _loaded < len(_of_programs):
        package = sys.modules[_of_programs[_loaded]]
        _loaded += 1
        for name in package.__all__:
            getattr(package, name)
