"""Studies: each makes the tables of a page in docs/, and is run by `python -m pybsp.benchmarks.studies.NAME`.

collectives.py  what the collectives choose, and MPI's own collectives, on an emulated cluster
theorems.py     the papers' bounds, by exact counts

router_experiment.py        random h-relations, a*h + b, beside the paper's tables
calibration_on_cluster.py   calibrations against emulated networks that are known
calibration_faults.py       faults on purpose, and whether a calibration says so
calibration_coverage.py     whether 95 % intervals (BSP, LogP) cover the truth in 95 % of synthetic data sets
calibration_methods.py      our fit, bspbench's and BSPonMPI's on the same samples
emulator.py                 an emulated cluster against its own figures, and against another emulator

predictions.py      exchanges predicted over measured, by label
first_uses.py       what the first superstep of a kind takes, and what its prediction says
predictions_on_cluster.py   the same on emulated clusters; whole programs by `pybsp predict` here, measured there
predicting.py       how long `pybsp predict` takes for p = 1024
first_command.py    the README's first command with an empty cache: predicted over measured
tracing.py          what `--trace` adds to an empty superstep
report_page.py      the page of 10^5 supersteps: its size, and how soon a browser shows it

started_ranks.py    what ranks cost that a notebook, or pytest, starts
memory.py           what stays resident over many supersteps, and what a large exchange takes
small_messages.py   where the time of a superstep of small messages goes
aggregation.py      one message from node to node, or one from each rank to each

logp_on_ranks.py    LogP on MPI ranks against raw mpi4py, and many to one on an emulated cluster
logp_simulator.py   the LogP simulator: a million messages, random programs
logp_examples.py    the LogP examples: steps, and steps stalled
logp_predictions.py LogP examples on emulated clusters: measured over predicted
goal_schedules.py   a GOAL file simulated, against the program that wrote it
bsp_and_logp.py     the slowdown of each simulation between the models, predicted and simulated
logp_on_bsp.py      LogP on BSP, over a grid of machines
logp_sorted.py      sorted routing on LogP, over a grid
combine_and_broadcast.py    combine-and-broadcast on LogP, over a grid
logp_random.py      random routing on LogP: failures over beta, a grid, and decomposition

network_parameters.py   Table 1 of BSP vs LogP by simulation, and Observation 1
logp_on_networks.py     LogP machines on networks: Observation 1 by programs
traffic_in_time.py      waiting, saturation, latency against load, beside closed forms
compiled_kernels.py     the simulators' kernels against numpy and against C (in_c/)
ebsp_networks.py        E-BSP on linear arrays and meshes, by simulation
valiant_brebner.py      Valiant-Brebner in simulation, beside the paper's fits
bsp_computers.py        what BSP computers need, by the paper's model, and where machines lie
forwarding.py           what the routers that forward carry, by count
multibutterfly.py       the multibutterfly: expansion, spacings, stages
multibutterfly_bits.py  the multibutterfly in bits and words; small buffers
routing_comparison.py   the same relations on all routers
"""
