"""Registered arrays: what other processors own is put to and got from.

What is where:

    array.py          an array; accesses.py: its puts and gets between the call and the exchange; indices.py: in records
    global_array.py   arrays with global indices, by layouts (pybsp/layouts.py); boxes.py: slices of these, by owner
    pattern.py        who needs what of whom, settled once; places.py: indices as slices
"""
