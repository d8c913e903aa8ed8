"""pybsp against raw mpi4py at the same work, interleaved in one run: one command, one table.

    python -m pybsp.benchmarks.against_mpi -n 2

Plain data (the JSON) goes from what measures to what prints and draws.

    command.py      options; starts the ranks, under mpiexec or on emulated hosts
    variants.py     what a piece of work is: the same in several variants, pybsp's and others
    works/          the pieces of work, one kind a file
    measuring.py    rounds in which every variant takes its turn
    summary.py      medians, quartiles, ratios round by round with their intervals
    state.py        the state of the machine: memory bandwidth, latency, load
    guidelines.py   collectives against the same by other means: --guidelines
    growth.py       what grows with p: virtual processors, and counts
    figures.py      the figures that are wanted, and which of them a run has measured
    report.py       tables of what was found
    plots.py        the same, drawn
"""
