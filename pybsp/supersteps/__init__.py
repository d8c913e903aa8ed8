"""Supersteps: what goes out with the end of one, the exchange, what arrives.

What is where:

    superstep.py       what a processor's supersteps are made of
    participant.py     what has a part in the end of a superstep beside its messages
    registrations.py   arrays and queues: which there are
    queues.py          typed queues: fine-grained items, sent as whole arrays
    labels.py          the labels of blocks
    gate.py            whether a processor's machine may be used now
"""
