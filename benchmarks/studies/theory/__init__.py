"""What papers reason about and studies compute, but no program needs: one subject a file.

bits.py, small_buffers.py   the multibutterfly's protocol on worms, bit by bit; with buffers that do not grow with h
expansion.py, adversary.py  how far its splitters expand; relations that are hard for it
linear_array_steps.py       how many steps routing takes on the linear array
sorting_bounds.py           what the AKS network and Cubesort would take on LogP
efficiency.py               what a BSP computer on a hypercube needs
synthetic.py                samples of a calibration whose truth is known
"""
