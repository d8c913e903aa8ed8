"""One class a medium: how the processors of a transport meet.

alone.py        one processor
near.py         all on a board
messages.py     all by heads
mixed.py        those of this node on a board, the others by heads
aggregated.py   those of this node on a board, which one of them speaks for
showing.py      what near.py and messages.py have in common: records that all see
sparse.py       by messages to partners alone, beside one of these
"""
