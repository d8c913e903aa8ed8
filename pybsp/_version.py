"""The version of pybsp; setup.cfg reads it from here."""

__version__ = "0.4.0"
