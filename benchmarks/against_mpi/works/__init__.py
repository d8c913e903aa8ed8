"""The pieces of work, one kind a file; `catalogue` has them all."""

from __future__ import annotations

from collections.abc import Iterator

from ..variants import Work
from . import access, blocks, collective, fine, numbers, overlap, riding, single, small

KINDS = (small, single, fine, blocks, access, numbers, collective, riding, overlap)


def catalogue(sizes: str) -> list[Work]:
    """All works in the order of the table, at the sizes "quick" (few), "all", or "hosts".

    The last are those that a network of some Mbit/s carries in a reasonable time.
    """

    def found() -> Iterator[Work]:
        for kind in KINDS:
            yield from kind.works(sizes)

    return list(found())
