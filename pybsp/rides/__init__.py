"""What rides in supersteps beside the program's own traffic; collectives are made of it.

What is where:

    ride.py     functions with messages of their own, which advance with every superstep
    notes.py    of these, numbers and short arrays
    shown.py    supersteps in which each processor shows all others a short record
"""
