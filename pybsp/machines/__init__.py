"""Machines: their parameters, and what algorithms cost on them.

What is where:

    machine.py        BSPMachine, EBSPMachine, LogPMachine: what a superstep costs
    cost.py           what an algorithm costs, before it runs
    machine_file.py   their files, a part for each model
    shown.py          a machine as a notebook shows it
"""
