"""Memory that a program frees: in a run it is there for the next arrays, unless the user has said how glibc does it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pybsp.runs import heap

from .launching import Program, ended_well, mpiexec, python, run

NOT_GLIBC = "CS_GNU_LIBC_VERSION" not in os.confstr_names  # and nothing is set
# Pages of 4 KiB that the system makes for the temporary arrays of a loop, 3 MiB in each turn.
FAULTS = """if True:
    import resource
    import numpy as np

    def faults():
        for turn in range(30):
            if turn == 20:  # the heap is as large as it gets
                begun = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            arrays = [np.ones(1 << 17) for _ in range(3)]
            del arrays
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - begun
"""
EACH = 10 * 3 << 8  # one for each page


def test_arrays_that_are_freed_give_their_pages_to_the_next_ones() -> None:
    program = f"{FAULTS}\n    from pybsp.runs import heap\n    heap.reuse_freed()\n    print(faults())"
    faults = int(ended_well(run(python("-c", program))))
    assert faults < EACH / 4 or NOT_GLIBC


@pytest.mark.whole
@pytest.mark.parametrize("way", ["pybsp.run(lambda bsp: main())", "with pybsp.attach(MPI.COMM_WORLD): main()"])
def test_in_a_run_on_ranks_freed_arrays_give_their_pages_to_the_next_ones(program: Program, way: str) -> None:
    path = program(
        f"{FAULTS}\n    def main():\n        print(faults())\n    import pybsp\n    from mpi4py import MPI\n    {way}"
    )
    found = [int(line) for line in ended_well(run([*mpiexec(2), *python(path)])).split()]
    assert len(found) == 2
    assert max(found) < EACH / 4 or NOT_GLIBC


# Bytes of memory for which a process has asked for huge pages, whether or not the system has some.
ASKED = """if True:
    import re
    from pybsp.runs import heap
    heap.reuse_freed()
    areas = open("/proc/self/smaps").read().split("VmFlags:")
    sizes = [int(re.findall("^Size: *([0-9]+) kB", area, re.M)[0]) << 10 for area in areas[:-1]]
    print(sum(size for size, flags in zip(sizes, areas[1:]) if " hg" in flags.splitlines()[0]))
"""


@pytest.mark.skipif(NOT_GLIBC or not Path("/sys/kernel/mm/transparent_hugepage").exists(), reason="no huge pages here")
@pytest.mark.parametrize(("numpys", "least", "most"), [("1", heap.OF_HUGE_PAGES - 4096, 1 << 40), ("0", 0, 0)])
def test_new_memory_is_of_huge_pages_unless_numpy_is_not_to_use_them(numpys: str, least: int, most: int) -> None:
    asked = int(ended_well(run(python("-c", ASKED), NUMPY_MADVISE_HUGEPAGE=numpys)))
    assert least <= asked <= most


@pytest.mark.parametrize("name", [*heap.VARIABLES, "GLIBC_TUNABLES"])
def test_how_the_user_has_glibc_do_it_stays(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    def refused(_: None) -> None:
        raise AssertionError(name)

    monkeypatch.setattr("ctypes.CDLL", refused)
    monkeypatch.setattr(heap, "_set", False)
    monkeypatch.setenv(name, "glibc.malloc.trim_threshold=131072" if name == "GLIBC_TUNABLES" else "131072")
    heap.reuse_freed()
    monkeypatch.delenv(name)
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.cpu.hwcaps=-AVX2_Usable")
    with pytest.raises(AssertionError, match=name):
        heap.reuse_freed()
