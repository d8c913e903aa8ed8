"""Runs, from their beginning to their end: on MPI ranks, and on virtual processors.

What is where:

    launch.py         run, attach: programs on MPI ranks; session.py: their life cycle, and that of LogP runs
    simulation.py     simulate: programs on virtual processors; replaying.py: one processor of a recorded job, alone
    keywords.py       what of their keywords is pybsp's
    machine_cache.py  machine files that are found without being named
    rehearsal.py      supersteps before a program's first
    threads.py        as many threads of numpy's libraries a rank as there are cores for it
    watch.py          where each processor is, for those that wait for it; signals.py: for whoever sends a signal
    progress.py       how far a run is, on stderr
    world.py          all ranks of a job, and how it ends; exits.py: also where there was no run
    started.py        start_ranks, ranks: MPI ranks from a notebook or a script; job.py: how they start, run and end
    serving.py        what these ranks do
"""
