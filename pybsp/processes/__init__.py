"""The processes of a job: what starts them here, which of them is a processor, which have ended, what they leave.

What is where:

    process.py      the processes of a job on this host
    mpiexec.py      which command starts processes as MPI ranks; slurm.py: what Slurm says of them
    supervise.py    a command that is waited for, with all the processes that it leaves behind
    forked.py       a call in a process of its own, forked from this one
    attendance.py   which rank has ended first, and without a word
    leftovers.py    what dead jobs have left in shared memory
    shipping.py     objects between the process that starts ranks and these
    finalizer.py    mpi4py's end of MPI in a process that a rank has forked
    notebook.py     whether this process is a notebook's, and what it shows there
"""
