"""`python -m pybsp.benchmarks.compare`."""

import sys

from .command import main

sys.exit(main())
