"""Memory that a program frees stays with its process, for the arrays that it makes next.

By itself glibc gives arrays back to the system as they are freed: those of 128 KiB and more until the first of their
size has been freed, and later what is free at the end of its heap, from twice that size on. The next ones get new
pages, each of which the system fills with zeros when it is first touched: a loop with temporary arrays can take half as
long again. glibc arrives by itself at what is set here when an array of `LARGEST` bytes has been freed.

What is new is of huge pages, as far as the system has some: a page of 2 MiB takes as long as a hundred of 4 KiB. The
first one is there before the first superstep. By itself numpy asks for them for arrays of 4 MiB and more.
"""

from __future__ import annotations

import ctypes
import os

from ..transport.populating import populate, use_huge_pages

# Arrays that large come from the system, and go back: glibc's own bound. And what may be free at the heap's end.
LARGEST, FREE = 1 << 25, 1 << 26
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
HUGE = 1 << 21  # bytes of a huge page
OF_HUGE_PAGES = LARGEST - HUGE  # bytes that the heap has of them from the beginning: what one array may have
# What a user sets: then nothing is set here.
VARIABLES = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_", "MALLOC_MMAP_MAX_")

_set = False


def reuse_freed() -> None:
    """From now on, unless the user has said how glibc does it, or the C library is another one."""
    global _set
    if _set or any(name in os.environ for name in VARIABLES) or "glibc.malloc." in os.environ.get("GLIBC_TUNABLES", ""):
        return
    _set = True
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallopt"):
        return
    libc.mallopt(_MMAP_THRESHOLD, LARGEST)
    libc.mallopt(_TRIM_THRESHOLD, FREE)
    if os.environ.get("NUMPY_MADVISE_HUGEPAGE") != "0":
        _use_huge_pages(libc)


def _use_huge_pages(libc: ctypes.CDLL) -> None:
    """For the end of the heap: what is given back there keeps its kind of pages."""
    libc.malloc.argtypes, libc.malloc.restype = (ctypes.c_size_t,), ctypes.c_void_p
    libc.free.argtypes = (ctypes.c_void_p,)
    found = libc.malloc(OF_HUGE_PAGES)
    if found is None:
        return
    memory = memoryview((ctypes.c_char * OF_HUGE_PAGES).from_address(found))
    if use_huge_pages(memory):
        populate(memory[: -found % HUGE + HUGE])  # what lies before the first one, and that
    libc.free(found)
