"""Parcels as text: what routers cut into packets, and make of them again."""

from __future__ import annotations

import pickle

from ..transport import Bytes, Parcel, Segment
from ..transport.memory import aligned


def pieces_of(parcel: Parcel) -> list[bytes | Bytes]:
    """The text of a parcel: a description of its segments, then their data; each piece is to be aligned."""
    contents = [
        (stream, meta, words, messages, 0 if data is None else data.size)
        for stream, (meta, words, messages, data) in parcel.items()
    ]
    return [pickle.dumps(contents, 5), *[segment.data for segment in parcel.values() if segment.data is not None]]


def parcel_of(text: Bytes) -> Parcel:
    """The parcel of a text, whose data stays where it lies."""
    contents = pickle.loads(text.data)
    at = text.size - sum(aligned(length) for *_, length in contents)
    parcel: Parcel = {}
    for stream, meta, words, messages, length in contents:
        parcel[stream] = Segment(meta, words, messages, text[at : at + length] if length else None)
        at += aligned(length)
    return parcel
