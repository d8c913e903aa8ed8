"""`simulate`: a LogP program on the simulated machine."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..errors import UsageError, argument_error, brief
from ..ground import settings
from ..ground.convert import check_program, processors
from ..machines.logp import LogPMachine
from ..machines.machine_file import require_machine
from .arguments import MOST_STEPS, whole
from .engine import Engine, Simulation
from .processor import Program
from .schedule import Schedule, schedule_of


def simulate(
    program: Program,
    p: int | None = None,
    machine: LogPMachine | None = None,
    schedule: str | Schedule | Callable[[int, int, int], int] = "latest",
    *,
    seed: int = 0,
    starts: Sequence[int] | None = None,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
) -> Simulation:
    """Run `program(proc, *args, **kwargs)` on each processor of a simulated LogP machine: one admissible execution.

    Args:
        program: the program.
        p: processors; None: as many as the machine has.
        machine: its parameters; None: the file that PYBSP_MACHINE names, if it has them, else nominal ones.
        schedule: what decides when messages are delivered, and in which order a congested destination's are accepted:
            "latest", "earliest", "random" (by the seed), "adversary", a `Schedule`, or a function of (source, dest,
            time of acceptance) that gives the delay, 1 to L; where another message is delivered at that step, it is the
            nearest free step.
        seed: of "random": at least 0, or one that `check` gave.
        starts: the time at which each processor begins; None: 0.
        args, kwargs: of the program.

    On a machine with G_word the sizes of messages count, by LogGP: one of k words keeps its sender's port for
    (k - 1) G_word after its acceptance, its latency begins then, and an acquisition begins a gap and as long after that
    of the one before. Words are counted as in BSP; whole steps, rounded up. The processors are busy for o alone.

    Raises:
        Exception: what the program raised, first in time.
        SystemExit: all processors called sys.exit, with a status of success.
        ProcessorError: some called sys.exit with such a status, and others did not.
        DeadlockError: processors wait for messages that nobody will send.
        UnreceivedError: messages were left that nobody received.
        UsageError: wrong arguments; a machine without max{2, o} <= G <= L; an execution of 2^63 steps or more.

    Source: *BSP vs LogP*, section 2.2; Alexandrov, Ionescu, Schauser, Scheiman, *LogGP* (1995), section 2.

    Examples:
        >>> def program(proc):
        ...     if proc.pid > 0:
        ...         proc.send(0, proc.pid**2)
        ...         return None
        ...     return sum(proc.recv().payload for _ in range(proc.p - 1))
        >>> machine = pybsp.LogPMachine(p=4, L=16, o=1, G=4)
        >>> pybsp.logp.simulate(program, machine=machine).results
        [14, None, None, None]
        >>> pybsp.logp.simulate(program, machine=machine, schedule="random", seed=3).time
        18
        >>> def long(proc):
        ...     return proc.send(0, np.zeros(101)) if proc.pid else proc.recv() and proc.time
        >>> machine = pybsp.LogPMachine(p=2, L=16, o=1, G=4, G_word=0.5)  # half a step a word
        >>> pybsp.logp.simulate(long, machine=machine).results[0]  # o + 100/2 + L + o
        68
    """
    operation = "pybsp.logp.simulate"
    check_program(operation, "program", program, "LogP processor")
    machine = machine_of(p, machine, operation)
    times = None
    if starts is not None:
        given = _listed(starts) or []
        times = [start for start in map(whole, given) if start is not None and 0 <= start <= MOST_STEPS]
        if not len(times) == len(given) == machine.p:
            raise argument_error(operation, "starts", f"{machine.p} times of at least 0", brief(starts, 80))
    body = body_of(program, args, kwargs, operation)
    return Engine(machine, schedule_of(schedule, seed, operation), sized=True).run([body] * machine.p, times)


def body_of(
    program: Program, args: Sequence[Any], kwargs: Mapping[str, Any] | None, operation: str
) -> Callable[[Any], Any]:
    """What a processor does: the program with its arguments, a sequence and a mapping from names; else a UsageError."""
    given = None if isinstance(args, (str, bytes)) else _listed(args)
    if given is None:
        raise argument_error(operation, "args", "a sequence of the program's arguments", brief(args, 80))
    if kwargs is not None and not (isinstance(kwargs, Mapping) and all(isinstance(name, str) for name in kwargs)):
        raise argument_error(operation, "kwargs", "a mapping from names of arguments, or None", brief(kwargs, 80))
    names = kwargs or {}
    return lambda proc: program(proc, *given, **names)


def _listed(given: Any) -> list[Any] | None:
    """What can be gone through; None where that is not so, as of a number or an array without axes."""
    try:
        return list(given)
    except TypeError:
        return None


def machine_of(p: int | None, machine: LogPMachine | None, operation: str) -> LogPMachine:
    """The machine of a simulation, with the p that was asked for, and max{2, o} <= G <= L; else a UsageError."""
    if p is not None:
        p = processors(operation, p)
    if machine is not None:
        require_machine(operation, machine, LogPMachine)
    if machine is None:
        machine = machine_in_force()
    if machine is None and p is None:
        raise UsageError(f"{operation}: expected p, the number of processors, or machine")
    machine = machine or LogPMachine.nominal(p or 1)
    if p is not None and machine.p != p:
        machine = dataclasses.replace(machine, p=p)
    machine.require(operation)
    return machine


def machine_in_force() -> LogPMachine | None:
    """The LogP machine of the file that PYBSP_MACHINE names; None where there is none, or it has no such part."""
    path = settings.text(settings.MACHINE)
    return LogPMachine.load(path) if path and LogPMachine.is_in(path) else None
