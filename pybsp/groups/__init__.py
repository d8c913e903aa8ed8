"""Groups: numberings of some processors, and grids of all; and what is called on them.

What is where:

    group.py   numberings and grids
    rides.py   functions that ride, by the numbers of a group
    notes.py   of these, numbers and short arrays
    shown.py   supersteps of short records for a group
"""
