"""Parts of a machine, which synchronise alone.

What is where:

    part.py     `bsp.split`, which is a superstep of all, and the parts' own beginnings and ends
    living.py   which parts there are, as a processor sees them
    totals.py   what parts did, in the ledger of the whole
"""
