"""The compiled core of pybsp, and kernels of its simulators; all else is in setup.cfg.

Where no compiler is found, they are left out."""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension("pybsp._core", ["pybsp/core.c"], optional=True),
        Extension("pybsp._kernels", ["routing/kernels.c"], extra_compile_args=["-O3"], optional=True),
    ]
)
