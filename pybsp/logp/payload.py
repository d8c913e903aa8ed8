"""What a message of the simulator carries: copied when it is sent, and what BSP would deliver."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..mail import Inbox, Mail
from ..transport import MAIL, Parcel
from ..transport.memory import BufferPool

_IMMUTABLE = frozenset({int, float, complex, bool, str, bytes, type(None)})
_pool = BufferPool()


def copied(payload: Any) -> Any:
    """The payload as it arrives: what cannot change is itself, an array a read-only copy, other objects pickled.

    Raises:
        UsageError: it cannot be pickled.
    """
    kind = type(payload)
    if kind in _IMMUTABLE or (kind is tuple and _is_immutable(payload)):
        return payload
    if kind is np.ndarray and not payload.dtype.hasobject:
        made = payload.copy()
        made.flags.writeable = False
        return made
    mail = Mail(_pool, "proc.send")
    mail.send(0, payload, None)
    parcels: dict[int, Parcel] = {}
    mail.pack(parcels)
    return Inbox([(0, parcels[0][MAIL])])[0].payload


def _is_immutable(items: tuple[Any, ...]) -> bool:
    return all(type(item) in _IMMUTABLE or (type(item) is tuple and _is_immutable(item)) for item in items)
