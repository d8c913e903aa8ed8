"""The machine that a run goes by, and what charged work takes on it."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Mapping
from typing import TypeVar

from ..ground import settings
from .bsp import BSPMachine
from .ebsp import EBSPMachine
from .machine_file import require_machine

NO_KINDS: Mapping[str, float] = types.MappingProxyType({})
AnyMachine = TypeVar("AnyMachine", "BSPMachine", "EBSPMachine")
Sized = TypeVar("Sized", bound="BSPMachine | EBSPMachine")


def charged(machine: BSPMachine | EBSPMachine, work: float, kinds: Mapping[str, float] = NO_KINDS) -> float:
    """Seconds that so much charged work takes, so many flop of it of some kinds; those without a rate go by r."""
    rates = dict(machine.rates) if kinds and isinstance(machine, BSPMachine) else {}
    rest = max(work - sum(kinds.values()), 0.0)
    return rest / machine.r + sum(flops / rates.get(kind, machine.r) for kind, flops in kinds.items())


def machine_in_force(
    argument: BSPMachine | None,
    p: int,
    operation: str,
    cached: Callable[[], tuple[BSPMachine | None, str | None]] = lambda: (None, None),
) -> tuple[BSPMachine, str | None]:
    """The machine of a run of p processors, and a warning where it was made for another p, or cannot be read.

    The argument, else the file that PYBSP_MACHINE names, else what is cached, else the nominal machine.

    Args:
        argument: of the run.
        p: processors.
        operation: that has the argument.
        cached: finds the machine that was measured here, and a warning.
    """
    machine, origin = argument, "the argument machine: p"
    if machine is not None:
        require_machine(operation, machine, BSPMachine)
    if machine is None and settings.text(settings.MACHINE):
        path = settings.text(settings.MACHINE)
        machine, origin = BSPMachine.load(path), f"machine file {path}: {BSPMachine._PART}.p"
    if machine is None:
        machine, warning = cached()
        return machine or BSPMachine.nominal(p), warning
    return for_p(machine, p, origin)


def for_p(machine: AnyMachine, p: int, origin: str) -> tuple[AnyMachine, str | None]:
    """The machine with p processors, and a warning where it was made for another p."""
    if machine.p == p:
        return machine, None
    warning = f"{origin}: expected {p}, as this run has, got {machine.p}: its predictions are for another machine"
    return dataclasses.replace(resized(machine, p), own_p=machine.own_p or machine.p), warning


def resized(machine: Sized, p: int) -> Sized:
    """The same parameters, of another number of processors."""
    if isinstance(machine, BSPMachine) and machine.exchange is not None:
        return dataclasses.replace(machine, p=p, exchange=dataclasses.replace(machine.exchange, p=p))
    return dataclasses.replace(machine, p=p)
