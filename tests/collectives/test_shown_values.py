"""What primitives of one superstep show each other is read as it was written, with the words that it has."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pybsp.collectives.record_layouts import ALIGN
from pybsp.collectives.shown_values import ShownValues

ROOM = 256


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 16])
def test_an_object_has_the_words_of_its_bytes_where_it_is_written_and_where_it_is_read(size: int) -> None:
    part = memoryview(bytearray(ROOM))
    shown: Any = SimpleNamespace(parts=[part, part], mine=part, pid=0, most=ROOM)
    values, packed = ShownValues(shown, [1], [1], table=False), bytes(range(size))
    words, _ = values.write(ALIGN, 5, packed, ROOM - ALIGN)
    assert values.read(1, ALIGN) == (packed, words)
    assert words == -(-size // 8)
