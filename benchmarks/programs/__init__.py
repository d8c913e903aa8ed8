"""The textbook's programs (examples/textbook) beside the same in mpi4py: `python -m pybsp.benchmarks.programs`.

mpi/        the programs in mpi4py: with buffers, collectives on sub-communicators, and counts by hand
cases.py    what is run of each, on which input, and which functions' lines are counted
command.py  options, ranks, tables
alone.py    a program that runs them on pybsp alone, for a ledger
before.py   another command: examples beside what they were before there were patterns

It is run from a checkout, as the programs are not in a wheel.
"""
