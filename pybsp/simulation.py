"""`simulate`: a program on virtual processors in this process, with virtual time."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .account import VirtualAccount
from .bsp import BSP
from .errors import ProcessorError, SyncError, UsageError, where
from .failures import failure_of, killed, note_place
from .keywords import check_keywords, timeout_of
from .lazy import ready
from .ledger import Ledger, Log, Recording, combine, require_place
from .machine import BSPMachine, EBSPMachine, for_p, machine_in_force
from .on_network import steps_of
from .routing.choice import Routing, name_of, resolved
from .routing.choice import router as make_router
from .settings import LEDGER, checks_enabled, text
from .superstep import SuperstepEngine
from .transport.virtual import Meeting, Scheduler, VirtualTransport

if TYPE_CHECKING:
    from .routing.networks.network import Network


@dataclass(frozen=True)
class Simulation:
    """What a simulated run gives.

    results: of each processor, by pid.
    ledger: its records; `predicted` and `measured` are virtual.
    time: virtual seconds; steps, where a network carried the messages, and so are the ledger's times.

    Examples:
        >>> simulation = pybsp.simulate(lambda bsp: bsp.sync(), machine=pybsp.BSPMachine(p=3, g=1e-8, l=1e-5, r=1e9))
        >>> simulation.results, len(simulation.ledger), simulation.time
        ([None, None, None], 1, 1e-05)
    """

    results: list[Any]
    ledger: Ledger
    time: float


@dataclass
class SimulateOptions:
    """The options of `pybsp simulate`, for all runs of a program."""

    p: int
    measure: bool = False
    ledger: str | None = None
    recording: Recording = field(default_factory=Recording)


_ALONE = SimulateOptions(p=1)  # of the runs of a program that finds no MPI library
_options: SimulateOptions | None = None


def options() -> SimulateOptions | None:
    """The options of `pybsp simulate`, while it executes a program."""
    return _options


def set_options(new: SimulateOptions | None) -> None:
    """Make `run` simulate from now on, or no longer."""
    global _options
    _options = new


def simulate(
    main: Callable[..., Any],
    *args: Any,
    p: int | None = None,
    machine: BSPMachine | EBSPMachine | None = None,
    router: Routing = "direct",
    measure: bool = False,
    checked: bool | None = None,
    timeout: float | None = None,
    network: Network | str | None = None,
    **kwargs: Any,
) -> Simulation:
    """Run a program on p virtual processors: `main(bsp, *args, **kwargs)` on each. Deterministic; needs no MPI.

    Args:
        main: the program.
        p: processors; None: as many as the machine has.
        machine: its parameters, by which virtual time runs: a BSPMachine, or an EBSPMachine without a network; None:
            the file that PYBSP_MACHINE names, else nominal.
        router: how messages travel, a name or a `pybsp.routing.*_router`; see `pybsp.routing`.
        measure: whether what computing takes here counts as work; else only `bsp.work` does.
        checked: whether to check what is too dear for every superstep; None: PYBSP_CHECKED.
        timeout: as in `run`, without effect: virtual processors take turns, and wait for nobody.
        network: which carries the messages, packet by packet: a `pybsp.routing.networks` network of p processors, or
            a name of one. Time then runs in its steps: see `pybsp.on_network.Steps`.
        kwargs: main's; the names above are not (`pybsp.keywords`).

    Raises:
        Exception: what main raised, on the lowest processor that failed.
        SyncError: the processors did not do the same.
        UsageError: neither p nor machine nor network, or a p that is none; a machine whose costs depend on distance;
            a network with another router than "direct", or with measure=True.
        RoutingError: a network of another p, or of no such name.

    Examples:
        >>> def main(bsp, factor):
        ...     bsp.send((bsp.pid + 1) % bsp.p, factor * bsp.pid)
        ...     bsp.sync()
        ...     return bsp.inbox[0].payload
        >>> simulation = pybsp.simulate(main, 10, p=4)
        >>> simulation.results
        [30, 0, 10, 20]
        >>> pybsp.simulate(main, 10, p=4, router="hypercube").results == simulation.results
        True
    """
    if not callable(main):
        raise UsageError(f"pybsp.simulate: argument main: expected a function of a BSP machine, got {main!r}")
    if p is None and isinstance(getattr(network, "p", None), int):
        p = network.p  # type: ignore[union-attr]
    if p is None:
        if not isinstance(machine, (BSPMachine, EBSPMachine)):
            raise UsageError("pybsp.simulate: expected p=, the number of processors, or machine=")
        p = machine.p
    if type(p) is not int or p < 1:
        raise UsageError(f"pybsp.simulate: argument p: expected a whole number of at least 1, got {p!r}")
    timeout = timeout_of("pybsp.simulate", timeout)
    ours = {"router": router != "direct", "machine": machine, "checked": checked is not None, "timeout": timeout}
    ours["network"] = network is not None
    ours["measure"] = measure and _options is None  # else it is the command's
    check_keywords("pybsp.simulate", main, args, ours)
    checked = checks_enabled(checked)
    carry = None
    if network is not None:
        carry = steps_of(network, p, router, measure)
        machine = carry.machine if machine is None else machine
    found, warning = _machine(machine, p)
    if warning is not None:
        print(f"pybsp: {warning}", file=sys.stderr)
    ready()
    routing = resolved(router, found)
    line = where()  # a virtual processor's own frames end inside pybsp
    scheduler = Scheduler()
    meeting = Meeting(p, scheduler, found, carry=carry)
    transports = [VirtualTransport(meeting, pid) for pid in range(p)]
    supersteps = [
        SuperstepEngine(t, make_router(routing, t), VirtualAccount(t, found, measure), checked) for t in transports
    ]
    results: list[Any] = [None] * p
    errors: dict[int, BaseException] = {}

    def body(superstep: SuperstepEngine) -> Callable[[], None]:
        def run_processor() -> None:
            superstep.account.begin()
            try:
                results[superstep.pid] = main(BSP(superstep, found), *args, **kwargs)
                superstep.finish(line)
            except BaseException as error:
                if killed(error) or isinstance(error, KeyboardInterrupt):
                    raise
                errors[superstep.pid] = error
                if superstep.gate.failed is None:
                    # A sync that others are in ends with this one's failure; if all have failed, with everybody's.
                    superstep.report_failure(error)

        return run_processor

    scheduler.run([body(superstep) for superstep in supersteps])
    if errors:
        raise _first(errors, supersteps)
    return Simulation(results, _ledger(supersteps, found), meeting.clock)


def _first(errors: Mapping[int, BaseException], supersteps: Sequence[SuperstepEngine]) -> BaseException:
    """What the run raises: the error of the lowest processor that failed of itself, with its place."""
    own = [pid for pid, error in errors.items() if failure_of(error, 0, "").primary]
    pid = min(own or errors)
    error, failed = errors[pid], supersteps[pid]
    place = failed.described(error)
    unsynced = failed.unsynced(error)
    if unsynced or (len(supersteps) > 1 and not isinstance(error, SyncError)):
        note_place(error, f"(on virtual processor {pid} of {len(supersteps)}, in {place}{unsynced})")
    if isinstance(error, SystemExit) and not error.code and not all(isinstance(e, SystemExit) for e in errors.values()):
        # It ended its processor alone, which is no good end, whatever status it asked for.
        account = failed.account
        alone = ProcessorError(f"processor {pid} called sys.exit in {place}", pid, account.superstep, account.label)
        alone.__cause__ = error
        return alone
    return error


def _ledger(supersteps: Sequence[SuperstepEngine], machine: BSPMachine | EBSPMachine) -> Ledger:
    """The logs of all processors, combined."""
    logs = [superstep.account.log for superstep in supersteps]
    log = logs[0]
    log.names += log.fresh_labels(len(log))
    while log.combined < len(log):
        rows = log.combined, min(log.combined + Log.ROWS, len(log))
        log.put([combine(one.table(*rows) for one in logs)])
    return Ledger(machine, log, virtual=True)


def _machine(argument: BSPMachine | EBSPMachine | None, p: int) -> tuple[BSPMachine | EBSPMachine, str | None]:
    """The machine of p virtual processors, and a warning where it was made for another p."""
    if not isinstance(argument, EBSPMachine):
        return machine_in_force(argument, p)
    if argument.network:
        raise UsageError(
            f"pybsp.simulate: argument machine: expected an EBSPMachine without a network, got {argument.network!r}: "
            "the ledger does not count how far messages go"
        )
    return for_p(argument, p, "the argument machine")


def run_simulated(
    main: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    router: Routing,
    machine: BSPMachine | None,
    checked: bool | None,
    options: SimulateOptions | None,
) -> Any:
    """`run` on virtual processors: processor 0's result."""
    chosen = options or _ALONE
    if chosen is _ALONE:
        chosen.ledger = text(LEDGER)
    if chosen.ledger:
        require_place(chosen.ledger, LEDGER)  # before the work that it is to be about
    done = simulate(
        main, *args, p=chosen.p, machine=machine, router=router, measure=chosen.measure, checked=checked, **kwargs
    )
    if chosen.ledger:
        hosts = [os.uname().nodename] * chosen.p
        chosen.recording.add(chosen.ledger, done.ledger, hosts, name_of(router))
    return done.results[0]
