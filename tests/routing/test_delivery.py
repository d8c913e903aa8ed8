"""Routers check that what arrives at the end is all that was sent, however many processors have passed it on."""

from __future__ import annotations

import numpy as np
import pytest

from pybsp import DeliveryError
from pybsp.routing.forwarding.packets import DEST, cut, put_together
from pybsp.routing.logp import router
from pybsp.routing.parcels import parcel_of
from pybsp.transport import MAIL, Parcel, Section
from pybsp.transport.memory import BufferPool

PID, SOURCE = 3, 1
POOL = BufferPool()


def parcel(size: int) -> Parcel:
    return {MAIL: Section(("tag", list(range(9))), 5, 2, np.arange(size, dtype=np.uint8) if size else None)}


@pytest.mark.fast
@pytest.mark.parametrize("size", [0, 1, 16, 200])
def test_a_forwarded_parcel_of_which_a_packet_is_missing_or_double_or_strange_is_an_error(size: int) -> None:
    sent = parcel(size)
    whole = cut({PID: sent}, SOURCE, 16, POOL)
    ((source, found),) = put_together(whole, PID, None, POOL)
    assert source == SOURCE
    assert found[MAIL].descriptors == sent[MAIL].descriptors
    assert size == 0 or bytes(found[MAIL].data) == bytes(sent[MAIL].data)  # type: ignore[arg-type]
    count = len(whole)
    assert count > 2
    for numbers in (range(1, count), range(count - 1), [0, *range(2, count)], [0, *range(count)]):
        packets = cut({PID: sent}, SOURCE, 16, POOL)
        packets.keep(np.array(numbers))
        with pytest.raises(DeliveryError, match=f"processor {PID} got other"):
            put_together(packets, PID, None, POOL)
    strange = cut({PID: sent}, SOURCE, 16, POOL)
    strange.table[1, DEST] = PID + 1
    with pytest.raises(DeliveryError, match=f"processor {PID} got other packets"):
        put_together(strange, PID, None, POOL)


@pytest.mark.fast
@pytest.mark.parametrize("size", [0, 1, 16, 200])
def test_a_parcel_by_logp_messages_of_which_one_is_missing_or_double_is_an_error(size: int) -> None:
    sent = parcel(size)
    chunks = router.cut(sent, 32)
    packets = [(SOURCE, number, len(chunks), chunk) for number, chunk in enumerate(chunks)]
    ((source, found),) = router.put_together(packets, PID, None, POOL)
    assert source == SOURCE
    assert found[MAIL].descriptors == sent[MAIL].descriptors
    for wrong in (packets[1:], packets[:-1], [*packets[:1], *packets[2:]], [packets[0], *packets]):
        with pytest.raises(DeliveryError, match=f"processor {PID} got other packets"):
            router.put_together(wrong, PID, None, POOL)


@pytest.mark.parametrize("text", [b"", b"I1\n.", b"\x80\x05"], ids=["nothing", "another protocol", "cut short"])
def test_a_text_that_describes_no_parcel_is_an_error(text: bytes) -> None:
    with pytest.raises(DeliveryError, match=f"processor {PID} got other bytes"):
        parcel_of(np.frombuffer(text, np.uint8), PID)
