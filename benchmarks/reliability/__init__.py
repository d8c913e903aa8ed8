"""What a checkpoint is worth: jobs that are killed and started again, folders that are damaged, and what it costs.

random_program.py    a program whose supersteps follow from a seed, with checkpoints
kills.py             jobs of it whose ranks are killed at random instants, until they are done
damage.py            checkpoints with a bit flipped, a part missing or cut off; full disks, folders that vanish
intervals.py         what the interval between checkpoints is worth, in expected and in simulated time
checkpoint_cost.py   what writing takes, and what a superstep pays where nothing is written
"""
