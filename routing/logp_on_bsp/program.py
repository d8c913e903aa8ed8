"""`logp_on_bsp`: a BSP program that runs a LogP program, and what that costs."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

from ...bsp import BSP
from ...collectives.broadcast import broadcast
from ...errors import UsageError, argument_error
from ...ground.convert import check_program, what
from ...logp.engine import Simulation
from ...logp.processor import Program
from ...logp.simulation import machine_in_force
from ...machines.bsp import BSPMachine
from ...machines.logp import LogPMachine
from ...machines.machine_file import require_machine
from . import stalling
from .control import height
from .cycles import Cycles, length
from .execution import Part, put_together
from .stalling import StallingCycles

CONSTANT = 8.0  # of Theorem 1: see `seconds`


class LogPOnBSP(Protocol):
    """`logp_on_bsp`, with its cost and what its traces are put together by beside it."""

    CONSTANT: float

    def __call__(
        self, program: Program, machine: LogPMachine | None = None, *, stalls: bool | None = None, trace: bool = False
    ) -> Callable[..., Any]: ...

    def seconds(self, machine: BSPMachine, logp: LogPMachine, time: int, stalls: bool = False) -> float: ...

    def execution(self, outcomes: Sequence[tuple[Any, Part]]) -> Simulation: ...


def _logp_on_bsp(
    program: Program, machine: LogPMachine | None = None, *, stalls: bool | None = None, trace: bool = False
) -> Callable[..., Any]:
    """A BSP program `main(bsp, *args, **kwargs)` that runs a LogP program, `program(proc, *args, **kwargs)`.

    Each BSP processor simulates one LogP processor, in cycles of ceil(L/2) steps, each a superstep. A message is
    delivered in the cycle after that of its submission. What is realised is an admissible execution.

    Args:
        program: the LogP program. Where it stalls it is run a second time, so it must not change its arguments.
        machine: the LogP machine, equal on all processors; its p gives way to that of the BSP machine. None: the file
            that PYBSP_MACHINE names on processor 0, if it has one, else `LogPMachine.from_bsp(bsp.machine)`.
        stalls: what to do with a program that stalls (in the execution that is realised). None: run it again from the
            start, by the simulation for programs that stall. True: use that at once. False: raise.
        trace: return (result, part); `logp_on_bsp.execution` makes the execution from the parts of all processors.

    Returns:
        a collective function; it returns the result of this processor's program. Raises:
            what the program raised, on its processor, ProcessorError on the others.
            DeadlockError, UnreceivedError: on all processors.
            UsageError: no BSP processor; a machine without max{2, o} <= G <= L; something that was sent before and not
                synced; a program that stalls, with stalls=False.

    BSP cost: a superstep for each ceil(L/2) steps of the execution, which are charged as so many flop, with
    h <= ceil(L/G) + max{2, ceil(L/G)} for messages of one word, and 2D + 2 more, D being the height of a
    max{2, ceil(L/G)}-ary tree. In all within 8 (1 + g/G + l/L) for each step, g and l in steps (flop).
    Programs that stall: cycles of G steps, each with an `allreduce`, and where a message waits to be accepted a
    `bitonic_sort` of one key a processor, a `prefix` and four supersteps more; and once in about L/2 steps a superstep
    in which messages travel. `logp_on_bsp.seconds` has both bounds.

    Source: *BSP vs LogP*, section 3: Theorem 1, and what is said there of programs that stall. Theirs is a slowdown of
    ((l + g)/G) log p, by a sorting network of depth O(log p); here that of a bitonic sort takes the place of log p.

    Examples:
        >>> from pybsp.routing import logp_on_bsp
        >>> def program(proc):
        ...     if proc.pid > 0:
        ...         proc.send(0, proc.pid**2)
        ...         return None
        ...     return sum(proc.recv().payload for _ in range(proc.p - 1))
        >>> machine = pybsp.LogPMachine(p=4, L=16, o=1, G=4)
        >>> pybsp.simulate(logp_on_bsp(program, machine), p=4).results
        [14, None, None, None]
    """
    operation = "pybsp.routing.logp_on_bsp"
    check_program(operation, "program", program, "LogP processor")
    if machine is not None:
        require_machine(operation, machine, LogPMachine)
    if stalls is not None and type(stalls) is not bool:
        raise argument_error(operation, "stalls", "None, False or True", f"{stalls!r}")
    if type(trace) is not bool:
        raise argument_error(operation, "trace", "True or False", f"{trace!r}")

    def main(bsp: BSP, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(bsp, BSP):
            raise UsageError(
                f"{operation}: gives a program of a BSP machine: expected its processor as the first argument, got "
                f"{what(bsp)}; pybsp.run or pybsp.simulate runs it, pybsp.logp.run the LogP program itself"
            )
        if bsp.pending:
            raise UsageError(
                f"{operation}: is made of supersteps of its own, and what was sent before ({bsp.pending}) would arrive "
                "inside it; call bsp.sync() first"
            )
        used = _machine_of(bsp, machine)
        used.require(operation)

        def body(proc: Any) -> Any:
            return program(proc, *args, **kwargs)

        cycles = (StallingCycles if stalls else Cycles)(bsp, used, body)
        if not cycles.run():
            if stalls is False:
                raise cycles.stall_error()
            cycles = StallingCycles(bsp, used, body)
            cycles.run()
        return (cycles.result, cycles.part()) if trace else cycles.result

    main.__name__ = getattr(program, "__name__", "program")
    return main


def _machine_of(bsp: BSP, machine: LogPMachine | None) -> LogPMachine:
    """The LogP machine, with the p of the BSP machine; collective where processor 0 knows it."""
    if machine is None:
        mine = (machine_in_force() or LogPMachine.from_bsp(bsp.machine)) if bsp.pid == 0 else None
        machine = pickle.loads(broadcast(bsp, pickle.dumps(mine), degree=None))
    return dataclasses.replace(machine, p=bsp.p)


def execution(outcomes: Sequence[tuple[Any, Part]]) -> Simulation:
    """The execution that was realised, as `pybsp.logp.simulate` gives it.

    Args:
        outcomes: what `logp_on_bsp(program, machine, trace=True)` returned on each processor, by pid.

    Raises:
        UsageError: something else, or not of all processors.
    """
    found = outcomes if isinstance(outcomes, Sequence) and all(map(_is_outcome, outcomes)) else ()
    if not found or len(found) != found[0][1].machine.p:
        expected = "(result, part) of each processor, as what logp_on_bsp(program, trace=True) gives returns it"
        raise argument_error("pybsp.routing.logp_on_bsp.execution", "outcomes", expected, what(outcomes))
    return put_together(found)


def _is_outcome(one: object) -> bool:
    return isinstance(one, tuple) and len(one) == 2 and isinstance(one[1], Part)


def ending(logp: LogPMachine, stalls: bool = False) -> int:
    """Steps, at most, from the last cycle in which a program goes on to the one before which all stop, and that one.

    A word goes up a tree of height D and another one down; and a stall is noticed a cycle late: 2D + 2 cycles.
    """
    if stalls:
        return stalling.cycle_length(logp) * (2 * height(logp.p, stalling.ARITY) + 2)
    return length(logp) * (2 * height(logp.p, max(2, logp.capacity)) + 2)


def seconds(machine: BSPMachine, logp: LogPMachine, time: int, stalls: bool = False) -> float:
    """What the supersteps of an execution cost at most, if all messages are of one word.

    Args:
        machine: the BSP machine.
        logp: the LogP machine, with the same p.
        time: steps that the execution takes.
        stalls: by the simulation for programs that stall; then what the sort and the prefix cost is counted exactly.

    Returns:
        seconds; for programs that do not stall, on a machine whose cost is a sum, at most `CONSTANT` *
        (1 + g/G + l/L) * (time + ending(logp)) / r, with g and l in flop: a cycle of S = ceil(L/2) steps takes
        S + g h + l, where l/S <= 2 l/L, and h <= ceil(L/G) + max{2, ceil(L/G)} is at most 8 S/G (that is where L is
        G + 1; 4 S/G where L is a multiple of G, but 6 S/G where it is G).
    """
    if stalls:
        return stalling.seconds(machine, logp, time)
    arity, steps = max(2, logp.capacity), length(logp)
    cycles = (time + ending(logp)) // steps
    most = logp.capacity + min(arity, machine.p - 1)
    return cycles * machine.elapsed(steps / machine.r, most, most)


_logp_on_bsp.__name__ = _logp_on_bsp.__qualname__ = "logp_on_bsp"
logp_on_bsp = cast("LogPOnBSP", _logp_on_bsp)
logp_on_bsp.CONSTANT, logp_on_bsp.seconds, logp_on_bsp.execution = CONSTANT, seconds, execution  # type: ignore[method-assign]
