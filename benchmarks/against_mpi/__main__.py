"""`python -m pybsp.benchmarks.against_mpi`."""

import sys

from .command import main

sys.exit(main())
