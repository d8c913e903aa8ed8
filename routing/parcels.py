"""Parcels as text: what routers cut into packets, and make of them again."""

from __future__ import annotations

import pickle

from ..errors import DeliveryError
from ..transport import Bytes, Parcel, Section
from ..transport.memory import aligned


def pieces_of(parcel: Parcel) -> list[bytes | Bytes]:
    """The text of a parcel: a description of its sections, then their data; each piece is to be aligned."""
    contents = [
        (stream, descriptors, words, messages, 0 if data is None else data.size)
        for stream, (descriptors, words, messages, data) in parcel.items()
    ]
    return [pickle.dumps(contents, 5), *[section.data for section in parcel.values() if section.data is not None]]


def parcel_of(text: Bytes, pid: int) -> Parcel:
    """The parcel of a text, whose data stays where it lies; `pid` is the processor that it is for.

    Raises:
        DeliveryError: not all of it is here.
    """
    description = _Reader(text.data)
    try:
        contents = pickle.load(description)
    except (pickle.UnpicklingError, EOFError):
        raise undelivered(pid, "bytes") from None
    at = text.size - sum(aligned(length) for *_, length in contents)
    if at != aligned(description.at):
        raise undelivered(pid, "bytes")
    parcel: Parcel = {}
    for stream, descriptors, words, messages, length in contents:
        parcel[stream] = Section(descriptors, words, messages, text[at : at + length] if length else None)
        at += aligned(length)
    return parcel


class _Reader:
    """What is read of a text from its beginning, by pickle, which tells nobody else how far."""

    def __init__(self, text: memoryview) -> None:
        self._text, self.at = text, 0

    def read(self, size: int, /) -> bytes:
        begin, self.at = self.at, min(self.at + size, len(self._text))
        return bytes(self._text[begin : self.at])

    def readline(self) -> bytes:
        raise pickle.UnpicklingError("not of a protocol that is used here")


def undelivered(pid: int, what: str) -> DeliveryError:
    """A parcel did not arrive as it was sent."""
    return DeliveryError(f"processor {pid} got other {what} of a parcel than were sent to it; its router has lost some")
