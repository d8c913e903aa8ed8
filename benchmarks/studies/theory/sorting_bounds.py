"""What the paper's own sorting schemes (section 4.2) take: functions to compare with, as neither is implemented.

The AKS network has O(log p) layers, with a constant beyond use: below 6100 log2 p in Paterson's form, below 1830 log2 p
in its authors' latest, and that for p >= 2^78 (V. Chvátal, *Lecture notes on the new AKS sorting network*, 1992). The
network used here has about log2(p)^2 / 2 layers, which is less for every p below 2^3600. Cubesort's rounds carry
25^(log* pr - log* r); columnsort, which `schemes` has instead, sorts in 3 relations where it applies at once.
"""

from __future__ import annotations

import math

from pybsp.machines.logp import LogPMachine
from pybsp.routing.logp.sorting.steps import sequential, transfer_time

AKS_LAYERS = 1830  # times log2 p


def aks_time(machine: LogPMachine, r: int) -> float:
    """T_AKS(r, p): merge-split of r keys a processor along the AKS network, with its known constant.

    Local work as in the steps used here: a sort first, and 2r for each merge-split.
    """
    layers = AKS_LAYERS * math.log2(machine.p)
    return sequential(r, machine.p) + layers * (transfer_time(machine, r) + 2 * r)


def cubesort_rounds(p: int, r: int) -> float:
    """25^(log* pr - log* r) * (log pr / log(r + 1))^2: rounds of Cubesort, but for a constant; r at least 1."""
    return float(25 ** (_log_star(p * r) - _log_star(r))) * (math.log2(p * r) / math.log2(r + 1)) ** 2


def cubesort_time(machine: LogPMachine, r: int) -> float:
    """T_CS(r, p), with 1 for the constant of its O: each round a relation known in advance, and a local sort."""
    return cubesort_rounds(machine.p, r) * (sequential(r, machine.p) + transfer_time(machine, r))


def _log_star(x: float) -> int:
    """How often the logarithm is to be taken until at most 1 is left."""
    times = 0
    while x > 1:
        x, times = math.log2(x), times + 1
    return times
