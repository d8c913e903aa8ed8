"""Routing by way of other processors: the routers `two-phase` and `hypercube`.

Parcels are cut into packets. Each goes to a random intermediate processor, and from there to its end, so that no
relation is worse than a random one. Packets for one processor travel together.

    options.py          how one asks for these routers
    intermediates.py    random intermediate processors, the same wherever they are drawn
    packets.py          parcels <-> packets, as arrays
    load.py             what exchanges carry, and what that costs
    router.py           what both routers share
    two_phase.py        two exchanges among all processors (Valiant)
    hypercube.py        along the dimensions of a cube, with one neighbour at a time (Valiant and Brebner)
"""
