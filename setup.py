"""The compiled core of pybsp, its streaming copies, kernels of its simulators, its reader of GOAL schedules, and what
notes times of messages; all else is in setup.cfg.

Where no compiler is found, they are left out."""

from setuptools import Extension, setup

CLOCK, STREAMING = "pybsp/ground/clock.h", "pybsp/ground/streaming.h"

setup(
    ext_modules=[
        Extension("pybsp._core", ["pybsp/core.c"], depends=[CLOCK, STREAMING], optional=True),
        Extension("pybsp._copies", ["pybsp/ground/copies.c"], depends=[CLOCK, STREAMING], optional=True),
        Extension("pybsp._kernels", ["routing/kernels.c"], extra_compile_args=["-O3"], optional=True),
        Extension("pybsp._goal", ["pybsp/logp/goal.c"], extra_compile_args=["-O3"], optional=True),
        Extension("pybsp._stamps", ["pybsp/logp/stamps.c"], depends=[CLOCK], optional=True),
    ]
)
