"""Machines: their parameters, and what algorithms cost on them.

What is where:

    bsp.py, ebsp.py, logp.py   BSPMachine, EBSPMachine, LogPMachine: what a superstep, or a message, costs
    in_force.py                the machine that a run goes by, and what charged work takes on it
    cost.py                    what an algorithm costs, before it runs
    pricing.py                 what a machine makes of sizes that no float can be
    machine_file.py            their files, a part for each model; placement.py: how processors lie on hosts there
    shown.py                   a machine as a notebook shows it
"""
