"""A rank of `pybsp run --label-output`: its lines keep together, and carry its number as those of `srun --label` do.

This process becomes the program; a child of it reads what the program prints, and writes it line by line.
"""

from __future__ import annotations

import os
import selectors
import sys

from ..processes import attendance
from ..processes.process import launched

_MOST = 1 << 16  # bytes of a line that are kept back; of more than that, pieces are lines


def main() -> None:
    """Start the program of `python -m pybsp.commands.labelled program ARGS`, with its output labelled."""
    size, rank = launched()
    label = f"{rank:{len(str(size - 1))}d}: ".encode()
    pipes = [os.pipe(), os.pipe()]
    reader = os.fork()
    if reader == 0:
        for _, writes in pipes:
            os.close(writes)
        _copy({pipes[0][0]: 1, pipes[1][0]: 2}, label)
        os._exit(0)
    for number, (reads, writes) in enumerate(pipes, start=1):
        os.dup2(writes, number)
        os.close(reads)
        os.close(writes)
    attendance.take_leave(attendance.BEFORE)
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])


def _copy(streams: dict[int, int], label: bytes) -> None:
    """Copy lines until nobody can write any more."""
    rest = dict.fromkeys(streams, b"")
    with selectors.DefaultSelector() as ready:
        for stream in streams:
            ready.register(stream, selectors.EVENT_READ)
        while ready.get_map():
            for key, _ in ready.select():
                piece = os.read(key.fd, _MOST)
                *lines, last = (rest[key.fd] + piece).split(b"\n")
                if last and (not piece or len(last) > _MOST):
                    lines, last = [*lines, last], b""
                rest[key.fd] = last
                if lines:
                    _write(streams[key.fd], b"".join(label + line + b"\n" for line in lines))
                if not piece:
                    ready.unregister(key.fd)


def _write(stream: int, text: bytes) -> None:
    while text:
        text = text[os.write(stream, text) :]


if __name__ == "__main__":
    main()
