"""The compiled core of pybsp; all else is in setup.cfg. Where no compiler is found, it is left out."""

from setuptools import Extension, setup

setup(ext_modules=[Extension("pybsp._core", ["pybsp/core.c"], optional=True)])
