"""Sample sort of records."""

from __future__ import annotations

import numpy as np
from mpi4py import MPI

from examples.textbook.record_sort import RECORD, Records


def record_sort(comm: MPI.Intracomm, records: Records) -> Records:
    p = comm.size
    records = records[np.argsort(records["key"])]
    samples = records["key"][np.linspace(0, records.size - 1, p + 1).astype(int)] if records.size else np.empty(0, int)
    sizes = np.empty(p, int)
    comm.Allgather(np.array(samples.size), sizes)
    everywhere = np.empty(sizes.sum(), np.int64)
    comm.Allgatherv(np.ascontiguousarray(samples), [everywhere, sizes])
    everywhere.sort()
    splitters = everywhere[np.arange(1, p) * everywhere.size // p] if everywhere.size else np.empty(0, int)
    cuts = np.searchsorted(records["key"], splitters)
    send = np.diff(cuts, prepend=0, append=records.size) if splitters.size else np.array([records.size] + [0] * (p - 1))
    receive = np.empty(p, int)
    comm.Alltoall(send, receive)
    arrived = np.empty(receive.sum(), RECORD)
    record = MPI.BYTE.Create_contiguous(RECORD.itemsize).Commit()
    comm.Alltoallv([records, send, record], [arrived, receive, record])
    record.Free()
    return arrived[np.argsort(arrived["key"], kind="stable")]
