"""mpi4py's end of MPI, taken out of what CPython does last, in a process that a rank has forked.

Where mpi4py has initialised MPI, its module has the interpreter call MPI_Finalize at the very end (`Py_AtExit`), also
in forked processes, which would speak as the rank then and end the job. No option of mpi4py takes that back, and
`os._exit`, which skips it, is to know the status that the process ends with. So its place in CPython's list is found,
beside one that is put there, and filled with something that does nothing. Linux only; elsewhere nothing is done.
"""

from __future__ import annotations

import ctypes
import struct
from pathlib import Path

_PLACES = 32  # of CPython's list


def forget(module: str) -> None:
    """Have the interpreter call nothing at its end that the compiled module in this file has registered."""
    python = ctypes.pythonapi
    nothing = ctypes.cast(python.Py_IsInitialized, ctypes.c_void_p).value or 0
    runtime = ctypes.addressof(ctypes.c_char.in_dll(python, "_PyRuntime"))  # which has the list in it
    mapped = _mapped()
    code = [(begin, end) for begin, end, access, path in mapped if "x" in access and path == module]
    until = next((end for begin, end, _, _ in mapped if begin <= runtime < end), runtime)
    if not code or python.Py_AtExit(ctypes.c_void_p(nothing)) != 0:
        return
    words = memoryview(ctypes.string_at(runtime, (until - runtime) & -8)).cast("Q")
    own = words.tolist().index(nothing)
    for place in range(max(0, own - _PLACES), own):
        if any(begin <= words[place] < end for begin, end in code):
            ctypes.memmove(runtime + 8 * place, struct.pack("Q", nothing), 8)


def _mapped() -> list[tuple[int, int, str, str]]:
    """What is mapped into this process: from where to where, how, and the file."""
    found = []
    for line in Path("/proc/self/maps").read_text().splitlines():
        addresses, access, *_, path = line.split(maxsplit=5) if line.count("/") else (*line.split()[:5], "")
        begin, end = (int(address, 16) for address in addresses.split("-"))
        found.append((begin, end, access, path))
    return found
