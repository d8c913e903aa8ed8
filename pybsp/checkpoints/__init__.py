"""Checkpoints: what a program saves at a superstep's boundary, and goes on from when its job has died.

plain.py      a state as JSON and blocks of raw bytes, and back
part.py       what one processor saves: a file, with checksums
folder.py     the checkpoints in a folder: parts, manifests, which of them are kept
asked.py      what a run is asked for: where, how often, how many
due.py        when a checkpoint is due
snapshot.py   what of a machine is saved beside the state: arrays, queues, the inbox, the ledger
relaid.py     what another number of processors has saved
saver.py      how the processors agree on all that: `bsp.checkpoint` and `bsp.restore`
notice.py     a signal, or a file, that says that the job is to end soon
record.py     what one processor got, for `pybsp replay`
restarts.py   a job that is started again until it is done
failing.py    virtual processors that fail by a rate
"""
