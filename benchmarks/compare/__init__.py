"""pybsp against raw mpi4py at the same work, interleaved in one run: one command, one table.

python -m pybsp.benchmarks.compare -n 2

command.py      options; starts the ranks, under mpiexec or on emulated hosts
forms.py        what a piece of work is: the same in several forms, pybsp's and others
works/          the pieces of work, one kind a file
measuring.py    rounds in which every form takes its turn
state.py        what can be told of the machine: memory bandwidth, latency, load
growth.py       what grows with p: virtual processors, and counts
figures.py      the figures that are wanted, and which of them a run has measured
summary.py      medians, quartiles, ratios round by round with their intervals
report.py       tables of what was found; knows nothing but the JSON
plots.py        the same, drawn
"""
