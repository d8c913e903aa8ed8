"""Comparisons that produce the figures in the docs; on top of everything, imported by nothing.

supersteps.py   supersteps and messages against raw mpi4py
collectives.py  what the collectives choose, and MPI's own collectives, on an emulated cluster
sorting.py      sample sort against numpy's sort in one process
theorems.py     the papers' bounds, by exact counts
"""
