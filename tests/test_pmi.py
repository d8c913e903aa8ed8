"""What MPICH asks Slurm while it starts, against a Slurm that is one end of a pair of sockets."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from pybsp.transport import pmi

MPICH = "MPICH Version:      5.0.2"
Pair = tuple[socket.socket, socket.socket]  # the library's end, whose number PMI_FD is, and Slurm's
MAXES = b"cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=%d\n"


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pair]:
    library, slurms = socket.socketpair()
    with library, slurms:
        step = {"SLURM_STEP_NUM_TASKS": 2, "SLURM_PROCID": 0, "PMI_SIZE": 2, pmi.FILE: library.fileno()}
        for name, value in step.items():
            monkeypatch.setenv(name, str(value))
        yield library, slurms


@pytest.mark.parametrize(("slurms_limit", "told"), [(1024, 896), (512, 512)])
def test_values_are_as_short_as_slurm_reads(pair: Pair, slurms_limit: int, told: int) -> None:
    library, slurm = pair
    with pmi.short_requests(MPICH):
        os.write(library.fileno(), b"cmd=get_maxes\n")
        assert slurm.recv(100) == b"cmd=get_maxes\n"
        slurm.sendall(MAXES % slurms_limit)
        assert os.read(library.fileno(), 100) == MAXES % told


def test_other_requests_and_answers_come_whole(pair: Pair) -> None:
    """The longest request is one that Slurm reads whole: a value, with a key and names that are as long as they can."""
    library, slurm = pair
    request = b"cmd=put kvsname=4294967295.4294967295 key=%s value=%s\n" % (b"k" * 64, b"0" * 896)
    with pmi.short_requests(MPICH):
        os.write(library.fileno(), request)
        assert slurm.recv(1024) == request
        slurm.sendall(b"cmd=put_result rc=0\n")
        assert os.read(library.fileno(), 100) == b"cmd=put_result rc=0\n"


def test_the_library_has_slurms_file_again_once_it_has_started(pair: Pair) -> None:
    library, slurm = pair
    before = os.fstat(library.fileno())
    with pytest.raises(ValueError, match="in the block"), pmi.short_requests(MPICH):  # noqa: PT012
        assert not os.path.samestat(os.fstat(library.fileno()), before)
        raise ValueError("in the block")
    assert os.path.samestat(os.fstat(library.fileno()), before)
    library.close()
    assert slurm.recv(1) == b""  # no process that was in between has it


@pytest.mark.parametrize(
    ("version", "unset"), [("Intel(R) MPI Library 2021", ""), (MPICH, "SLURM_PROCID"), (MPICH, "PMI_SIZE")]
)
def test_nothing_is_in_between_where_requests_are_not_cut(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, version: str, unset: str
) -> None:
    library, _ = pair
    monkeypatch.delenv(unset, raising=False)
    before = os.fstat(library.fileno())
    with pmi.short_requests(version):
        assert os.path.samestat(os.fstat(library.fileno()), before)
