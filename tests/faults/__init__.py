"""The fault matrix: every kind of fault, on every medium, with the outcome that is stated for it.

    points.py     exceptions at every point inside of an exchange: runs that fail, and recover
    injection.py  the points: lines of pybsp's own files, and the tracer that raises at one of them
    kinds.py      kinds of faults: programs that fail in some way, and what is to come of it
    media.py      what carries the messages, and which MPI library
    outcomes.py   what may come of a fault, and whether it did
    running.py    jobs of cases, within their time, and what they leave behind
    __main__.py   all of it by one command: python -m tests.faults --all

tests/test_faults.py runs a sample.
"""
