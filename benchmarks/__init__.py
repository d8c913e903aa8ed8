"""Comparisons that produce the figures in the docs; on top of everything, imported by nothing.

supersteps.py   supersteps and messages against raw mpi4py
"""
