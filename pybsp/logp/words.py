"""Long messages: how many words a payload has, and what the words behind the first take (LogGP).

A message of k words is in the output port for (k - 1) G_word steps after its acceptance. The processor is busy for o
alone; the port takes the next message a gap after the last word, and the latency begins when that has left. A receiver
has a port, too: its acquisition of a message begins a gap and (k - 1) G_word after that of the one before.

Source: Alexandrov, Ionescu, Schauser, Scheiman, *LogGP: Incorporating Long Messages into the LogP Model* (1995),
section 2; its G is our G_word, its g our G, and its k bytes are words here.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..errors import UsageError
from ..machines.logp import LogPMachine
from ..messages.mail import PLAIN_NUMBERS, Mail
from ..transport import MAIL, Section
from ..transport.memory import BufferPool
from . import wording
from .arguments import MOST_STEPS

_pool = BufferPool()


def words(payload: Any) -> int:
    """Words of 8 bytes that a payload counts, as in BSP: of its data, a number's one, of other objects their pickle."""
    if type(payload) in PLAIN_NUMBERS:
        return 1
    if type(payload) is bytes:
        return (len(payload) + 7) >> 3
    if type(payload) is np.ndarray and not payload.dtype.hasobject:
        return (payload.nbytes + 7) >> 3
    return packed(payload).words


def packed(payload: Any, pool: BufferPool = _pool) -> Section:
    """A copy of a payload, as a message of `bsp.send` has it; a UsageError where it cannot be pickled."""
    mail = Mail(pool, "proc.send")
    mail.send(0, payload, None)
    parcels, _ = mail.pack()
    return parcels[0][MAIL]


def streaming(machine: LogPMachine, count: int) -> int:
    """Steps that the words behind the first take in a port: (count - 1) G_word, rounded up; 0 without G_word.

    Raises:
        UsageError: they are too many.
    """
    if not machine.G_word or count < 2:
        return 0
    steps = (count - 1) * machine.G_word / machine.step
    if steps > MOST_STEPS:  # it may be infinite
        raise UsageError(wording.too_long(machine.step))
    # What is a whole number of steps but for rounding is one.
    return math.ceil(round(steps, 6))
