"""Calibration: g, l, o_msg, r; L, o, G; g1, g2, s of the machine at hand, how sure, and how wrong predictions are.

samples.py      points, samples, and the raw file that they lie in
estimates.py    a figure with its interval; flags
results.py      what a calibration found, as plain data

sampling.py     how long to sample: timer, batches, stopping
design.py       which points, at each level
patterns.py     who sends how much to whom
supersteps.py   times supersteps and kernels, on any BSP machine
signature.py    times LogP quantities, on a layer
layers.py       raw mpi4py, our LogP layer, a simulated machine, to the same interface
clock.py        the offset between two ranks' clocks

fits/           from samples to figures; pure functions, no machine
flags.py        from figures to sentences: all that a calibration says in words; words.py: figures in units
analysis.py     from a raw file to a calibration, to the same bits each time

harness.py      the run: launches, budget, resumption, progress
machine_file.py what is written for programs to predict by
placement.py    which rank is on which node
worker.py       one launch under mpiexec
report.py, plots.py, compare.py, export.py, trace.py    for people, and for other tools
command.py, viewing.py      the commands
"""
