"""Memory that a program frees stays with its process, for the arrays that it makes next.

By itself glibc gives arrays back to the system as they are freed: those of 128 KiB and more until the first of their
size has been freed, and later what is free at the end of its heap, from twice that size on. The next ones get new
pages, each of which the system fills with zeros when it is first touched: a loop with temporary arrays can take half as
long again. glibc arrives by itself at what is set here when an array of `LARGEST` bytes has been freed.
"""

from __future__ import annotations

import ctypes
import os

# Arrays that large come from the system, and go back: glibc's own bound. And what may be free at the heap's end.
LARGEST, FREE = 1 << 25, 1 << 26
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
# What a user sets: then nothing is set here.
VARIABLES = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_", "MALLOC_MMAP_MAX_")

_set = False


def reuse_freed() -> None:
    """From now on, unless the user has said how glibc does it, or the C library is another one."""
    global _set
    if _set or any(name in os.environ for name in VARIABLES) or "glibc.malloc." in os.environ.get("GLIBC_TUNABLES", ""):
        return
    _set = True
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, LARGEST)
        mallopt(_TRIM_THRESHOLD, FREE)
