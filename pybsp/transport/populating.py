"""Memory whose pages are made now, by a call that fails where there is no room for them; and of which size they are.

To touch a page of shared memory that cannot be had ends the process (SIGBUS). Linux 5.14 and later make pages by
`madvise(MADV_POPULATE_WRITE)`, which reports it. Before, the kernel is had to touch them, in a call that copies a byte
of each page into a pipe and back: what ends a process fails there. On other systems nothing is known, and nothing is
done.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import sys

MADV_HUGEPAGE, MADV_POPULATE_WRITE = 14, 23

_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
if _libc is not None:
    _libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


def populate(memory: memoryview) -> bool:
    """Make the pages of writable memory; its content stays.

    Returns:
        False where there is no room for all of them.
    """
    if _libc is None or not memory.nbytes or _advise(memory, MADV_POPULATE_WRITE):
        return True
    address = _address(memory)
    return ctypes.get_errno() == errno.EINVAL and _touched(memory.cast("B"), (address & -mmap.PAGESIZE) - address)


def use_huge_pages(memory: memoryview) -> bool:
    """From now on pages of writable memory that are made are huge ones, as far as the system has some.

    Returns:
        False where it does not know of any.
    """
    return _libc is not None and _advise(memory, MADV_HUGEPAGE)


def _advise(memory: memoryview, advice: int) -> bool:
    assert _libc is not None
    address = _address(memory)
    begin = address & -mmap.PAGESIZE
    return int(_libc.madvise(begin, address + memory.nbytes - begin, advice)) == 0


def _address(memory: memoryview) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def _touched(memory: memoryview, first: int) -> bool:
    """As `populate`, where madvise does not know it; pages begin at `first`, which may lie before the memory."""
    reads, writes = os.pipe()
    try:
        for page in range(first, len(memory), mmap.PAGESIZE):
            at = max(page, 0)
            os.write(writes, memory[at : at + 1])
            os.readv(reads, [memory[at : at + 1]])
    except OSError as error:
        if error.errno != errno.EFAULT:
            raise
        return False
    finally:
        os.close(reads)
        os.close(writes)
    return True
