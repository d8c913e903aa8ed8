"""Routing by LogP messages alone (Bilardi, Herley, Pietracaprina, Pucci and Spirakis, *BSP vs LogP*, section 4).

Each algorithm is a LogP subprogram, which runs on simulated machines, on MPI ranks, and in the routers of BSP runs:

    phases.py               messages told apart by phase
    pipelined.py            sends at agreed times
    combine_broadcast.py    combine-and-broadcast along a tree, which is also how processors synchronise
    sorted.py               any h-relation, by sorting (Theorem 2)
    offline.py              an h-relation known to all, decomposed into 1-relations
    random.py               an h-relation of known h, in random batches (Theorem 3)
    router.py               BSP supersteps by them
    options.py              how one asks for that
"""
