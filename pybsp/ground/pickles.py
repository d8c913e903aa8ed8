"""Objects that another processor has pickled."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

from .failures import note_place


def unpickled(text: Any, source: int = -1, buffers: Sequence[Any] = ()) -> Any:
    """The object of a pickle; what its class raises as it is made anew says of whom it is.

    Args:
        text: bytes, or what is read as such.
        source: the processor that sent it in a message; -1: that is not known, or a collective has sent it.
        buffers: what lies beside the pickle.
    """
    try:
        return pickle.loads(text, buffers=buffers)
    except Exception as error:
        what = "what was sent" if source < 0 else f"what is in a message of processor {source}"
        note_place(error, f"(unpickling {what}; send the data that it is made from instead)")
        raise
