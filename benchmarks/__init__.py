"""What stands on top of everything, in houses that do not know each other; imported by nothing but the command line.

calibration/    `pybsp calibrate`: a machine's parameters, measured
emulation/      `pybsp emulate`: a cluster on one machine
against_mpi/    pybsp against raw mpi4py at the same work
programs/       the textbook's programs (examples/textbook) against the same in mpi4py
studies/        what the papers claim and what came out, and measurements of parts of pybsp

The last three are run from a checkout: a wheel has none of them, and `python -m pybsp.benchmarks.studies...` of one
ends with "No module named pybsp.benchmarks.studies".
"""
