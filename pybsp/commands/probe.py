"""The program by which `pybsp doctor -n` proves that ranks start, meet and move data."""

from __future__ import annotations

import socket

import numpy as np

from ..bsp import BSP
from ..runs import launch

WORDS = 1 << 14


def main(bsp: BSP) -> None:
    """Each processor sends its host to 0, and an array to the next, which looks whether it is whole."""
    bsp.send(0, socket.gethostname())
    bsp.send((bsp.pid + 1) % bsp.p, np.full(WORDS, bsp.pid), tag="array")
    bsp.sync()
    arrays = [message for message in bsp.inbox if message.tag == "array"]
    assert [message.source for message in arrays] == [(bsp.pid - 1) % bsp.p]
    assert arrays[0].payload.shape == (WORDS,), arrays[0].payload.shape
    assert (arrays[0].payload == arrays[0].source).all()
    hosts = [message.payload for message in bsp.inbox if message.tag != "array"]
    bsp.sync()  # all have looked
    if bsp.pid == 0:
        places = ", ".join(f"{hosts.count(host)} on {host}" for host in dict.fromkeys(hosts))
        print(f"{bsp.p} processors: {places}; messages arrive whole", flush=True)


if __name__ == "__main__":
    launch.run(main)
