"""`python -m pybsp.benchmarks.programs`."""

import sys

from .command import main

sys.exit(main())
