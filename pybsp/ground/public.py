"""Classes of which programs see a part: what `dir`, completion in a shell or notebook, and `help` of the class list."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar


class Listed(type):
    """The class of such classes: what completes a name asks the object's class too, as `help` does."""

    _public: tuple[str, ...]

    def __dir__(cls) -> list[str]:
        return [*special(super().__dir__()), *(name for name in cls._public if hasattr(cls, name))]


class Public(metaclass=Listed):
    """A class that has names for the rest of pybsp too, which need no underscore: `_public` has those of programs."""

    __slots__ = ()
    _public: ClassVar[tuple[str, ...]] = ()

    def __dir__(self) -> list[str]:
        return [*special(super().__dir__()), *self._public]


def special(names: Iterable[str]) -> list[str]:
    """Those that are Python's own."""
    return [name for name in names if name.startswith("__")]
