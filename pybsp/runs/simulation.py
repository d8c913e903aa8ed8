"""`simulate`: a program on virtual processors in this process, with virtual time."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsIndex

from ..bsp import BSP
from ..checkpoints import asked as checkpoints
from ..checkpoints.due import Every
from ..errors import ProcessorError, SyncError, UsageError, argument_error, brief, where
from ..ground.announcing import announce_once
from ..ground.convert import check_program, processors
from ..ground.failures import (
    exited_alone,
    failure_of,
    from_the_program,
    is_lone_exit,
    killed,
    note_place,
    outcome,
    place_uncaught,
)
from ..ground.files import require_place
from ..ground.instead import hinting
from ..ground.settings import LEDGER, checks_enabled, text, warnings
from ..lazy import ready
from ..ledger.account import VirtualAccount
from ..ledger.ledger import Ledger
from ..ledger.log import Log, charges, combine, ridden
from ..ledger.recording import LedgerFile
from ..machines.bsp import BSPMachine
from ..machines.ebsp import EBSPMachine
from ..machines.in_force import for_p, machine_in_force
from ..machines.machine_file import require_machine
from ..on_network import Steps, steps_of
from ..parts.totals import largest, sums
from ..rides.shown import AsShown
from ..routing.choice import resolved
from ..routing.choice import router as make_router
from ..supersteps.superstep import SuperstepEngine
from ..transport.router import Direct
from ..transport.virtual import MachineFailed, Scheduler, VirtualMeeting, VirtualTransport
from .keywords import check_keywords, differs, flag_of, timeout_of

if TYPE_CHECKING:
    from ..checkpoints.failing import Failures
    from ..ledger.chrome import TraceFile
    from ..ledger.trace import Tracer
    from ..routing.choice import Routing
    from ..routing.networks.network import Network


@hinting("simulation")
@dataclass(frozen=True)
class Simulation:
    """What a simulated run gives.

    results: of each processor, by pid.
    ledger: its records; `predicted` and `measured` are virtual.
    time: virtual seconds, lost ones included, but for what was computed after the last superstep (`Ledger.after`);
        steps, where a network carried the messages, as are the ledger's times.
    failures: of the machine.
    expected: virtual seconds that the program was to be expected to take, with the failures that it was told of, and
        the checkpoints that it has made; 0 without.

    Examples:
        >>> simulation = pybsp.simulate(lambda bsp: bsp.sync(), machine=pybsp.BSPMachine(p=3, g=1e-8, l=1e-5, r=1e9))
        >>> simulation.results, len(simulation.ledger), simulation.time
        ([None, None, None], 1, 1e-05)
    """

    results: list[Any]
    ledger: Ledger
    time: float
    failures: int = 0
    expected: float = 0.0

    def __repr__(self) -> str:
        """The fields, but for those of which there is nothing to say."""
        shown = [
            f.name
            for f in fields(self)
            if f.name in ("results", "ledger", "time") or f.default != getattr(self, f.name)
        ]
        return f"Simulation({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

    def _repr_html_(self) -> str:
        failed = f", {self.failures} failures of the machine" if self.failures else ""
        unit = "steps" if self.ledger.network else "virtual seconds"
        after = self.ledger.after[0]
        left = f" and {after:.4g} of computing after the last superstep" if after else ""
        head = f"{len(self.results)} virtual processors, {self.time:.4g} {unit}{left}{failed}"
        return f"<p><b>{head}</b></p>{self.ledger._repr_html_()}"


LEAST_MEMORY = 1 << 16  # bytes of a virtual processor, whatever its program does
CONTAINER = tuple(map(Path, ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")))  # its limit


@dataclass
class Replay:
    """The options of `pybsp replay`: whose records are read, and whether under a debugger."""

    folder: Path
    pid: int
    debug: bool
    runs: int = 0


@dataclass
class SimulateOptions:
    """The options of `pybsp simulate`, and of `pybsp replay`, for all runs of a program."""

    p: int
    measure: bool = False
    ledger: str | None = None
    recording: LedgerFile = field(default_factory=LedgerFile)
    replay: Replay | None = None
    trace: str | None = None
    router: str = "direct"  # of programs that name none
    machine: BSPMachine | None = None  # likewise; None: that of PYBSP_MACHINE, else nominal
    runs: list[Simulation] | None = None  # where they are to be kept
    shown: int = 0  # bytes that ranks would show each other of what a small collective has: see `shown_by`
    trace_file: TraceFile | None = None
    about_trace: Mapping[str, Any] = field(default_factory=dict)  # of the last run, for its ledger

    def traced(self, tracers: Sequence[Tracer]) -> None:
        """Write the trace of a run that has ended."""
        from ..ledger import trace

        assert self.trace is not None
        found = trace.of_virtual(tracers)
        self.file_of_traces().add(self.trace, found, f"p = {found.p} virtual processors")
        self.about_trace = {"trace": found.summary()}

    def file_of_traces(self) -> TraceFile:
        """The trace file of the program's runs."""
        from ..ledger import chrome

        if self.trace_file is None:
            self.trace_file = chrome.TraceFile()
        return self.trace_file


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
    p: SupportsIndex | None = None,
    machine: BSPMachine | EBSPMachine | None = None,
    router: Routing = "direct",
    measure: bool = False,
    checked: bool | None = None,
    timeout: float | None = None,
    checkpoint: Any = None,
    every: int | str | None = None,
    failures: Failures | None = None,
    network: Network | Steps | str | None = None,
    **kwargs: Any,
) -> Simulation:
    """Run a program on p virtual processors: `main(bsp, *args, **kwargs)` on each. Deterministic; needs no MPI.

    Args:
        main: the program.
        p: processors; None: as many as the machine has, or the network; the name of one has none.
        machine: its parameters, by which virtual time runs: a BSPMachine, or an EBSPMachine without a network; None:
            the file that PYBSP_MACHINE names, else nominal.
        router: how messages travel, a name or a `pybsp.routing.*_router`; see `pybsp.routing`.
        measure: whether what computing takes here counts as work, without what this process waits for a core that
            others have (where Linux says how long that is); else only `bsp.work` does.
        checked: whether to check what is too dear for every superstep; None: PYBSP_CHECKED.
        timeout: as in `run`, without effect: virtual processors take turns, and wait for nobody.
        checkpoint, every: as in `run`; only where the argument `checkpoint` says so are there any.
        failures: how the machine fails: the program goes on from its last checkpoint then. These are in memory, as
            often as `every` says, or with the least expected time.
        network: which carries the messages, packet by packet: a `pybsp.routing.networks` network of p processors, or
            a name of one, or a `pybsp.on_network.Steps`, which says how time then runs, and keeps what was carried.
        kwargs: main's; the names above are not (`pybsp.runs.keywords`).

    Raises:
        Exception: what main raised, on the lowest processor that failed.
        SyncError: the processors did not do the same.
        UsageError: neither p nor machine nor network, or a p that is none, or for which this host has not the memory; a
            machine whose costs depend on distance; a network with another router than "direct", or with measure=True.
        RoutingError: no router or network of that name, or one that does not fit, as a network of another p.

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
    check_program("pybsp.simulate", "main", main)
    on = network.network if isinstance(network, Steps) else network
    if p is None and isinstance(getattr(on, "p", None), int):
        p = on.p  # type: ignore[union-attr]
    if p is None:
        if machine is None:
            others = [*(f"{one!r:.40}" for one in args), *(f"{name}={one!r:.40}" for name, one in kwargs.items())]
            raise UsageError(
                "pybsp.simulate: expected p=, the number of processors, or a network of so many, or machine="
                + (f", got {', '.join(others)}, which is for the program; write p=4" if others else "")
            )
        require_machine("pybsp.simulate", machine, BSPMachine, EBSPMachine)
        p = machine.p
    p = processors("pybsp.simulate", p)
    _require_memory(p)
    timeout = timeout_of("pybsp.simulate", timeout)
    ours = {"router": differs(router, "direct"), "machine": machine is not None, "checked": checked is not None}
    ours |= {
        "timeout": timeout is not None,
        "checkpoint": checkpoint is not None,
        "every": every is not None,
        "failures": failures is not None,
    }
    ours["network"] = network is not None
    ours["measure"] = differs(measure, False) and _options is None  # else it is the command's
    check_keywords("pybsp.simulate", main, args, ours)
    checked = checks_enabled(flag_of("pybsp.simulate", "checked", checked))
    measure = bool(flag_of("pybsp.simulate", "measure", measure))
    carry = None
    if network is not None:
        carry = steps_of(network, p, router, measure)
        machine = carry.machine if machine is None else machine
    found, warning = _machine(machine, p)
    if _options is not None and _options.runs is not None:
        warning = None  # `pybsp predict` asks about another one
    for line in (*warnings(), *([] if warning is None else [warning])):
        announce_once(f"pybsp: {line}")
    ready()
    routing = resolved(router, found)
    program = partial(call, main, args, kwargs)
    line = where()  # a virtual processor's own frames end inside pybsp
    folders, often = checkpoints.given("pybsp.simulate", checkpoint, every)
    checkpointing = checkpoints.asked("pybsp.simulate", folders or (), often)
    if failures is None:
        number = 0 if checkpointing is None else checkpoints.next_run(checkpointing, checkpoints.begun())

        def prepare(meeting: VirtualMeeting, supersteps: Sequence[SuperstepEngine]) -> None:
            if checkpointing is not None:
                from ..checkpoints import beginning  # nobody else needs what saves

                for superstep in supersteps:
                    saver = beginning.make(superstep, checkpointing, number, main)
                    beginning.prepare(saver, checkpointing, superstep.pid)

        done = _simulated(program, p, found, routing, measure, checked, 0.0, line, prepare, carry)
        assert done is not None
        return done
    from ..checkpoints.failing import FailingSaver, Failures, Fate  # nobody else needs them

    if checkpointing is not None or not isinstance(failures, Failures):
        raise UsageError(
            "pybsp.simulate: argument failures: expected None or a pybsp.Failures, and no argument checkpoint: what is "
            f"saved stays in memory; got failures={failures!r}, checkpoint={checkpoint!r}"
        )
    fate = Fate(failures, often or Every(mtbf=failures.mtbf), p)

    def doom(meeting: VirtualMeeting, supersteps: Sequence[SuperstepEngine]) -> None:
        meeting.ends_at = fate.ends_at
        for superstep in supersteps:
            superstep.saver = FailingSaver(superstep, fate)

    while (done := _simulated(program, p, found, routing, measure, checked, fate.clock, line, doom, carry)) is None:
        fate.fail()
    return replace(done, failures=fate.failed, expected=fate.expected(done.time))


@lru_cache(maxsize=1)
def _memory() -> int:
    """Bytes of this host's memory, or of what a container has of it."""
    least = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for limit in CONTAINER:
        with suppress(OSError, ValueError):  # there is none, or "max"
            least = min(least, int(limit.read_text()))
    return least


def _require_memory(p: int) -> None:
    """Refuse, with a UsageError, so many processors that this host's memory would be full before they run."""
    there = _memory()
    if p * LEAST_MEMORY > there:
        raise UsageError(
            f"pybsp.simulate: argument p: expected at most {there // LEAST_MEMORY} virtual processors here, as each "
            f"takes {LEAST_MEMORY >> 10} KiB of memory at the least, of {there / 2**30:.3g} GiB, got {p}"
        )


def call(main: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], bsp: BSP) -> Any:
    """What a program gives on a processor."""
    return main(bsp, *args, **kwargs)


def _simulated(
    program: Callable[[BSP], Any],
    p: int,
    machine: BSPMachine | EBSPMachine,
    routing: Any,
    measure: bool,
    checked: bool,
    clock: float,
    line: str,
    prepare: Callable[[VirtualMeeting, Sequence[SuperstepEngine]], None],
    carry: Steps | None,
) -> Simulation | None:
    """Run a program from that virtual time on; None where the machine failed."""
    scheduler = Scheduler()
    meeting = VirtualMeeting(p, scheduler, machine, clock, carry)
    transports = [VirtualTransport(meeting, pid) for pid in range(p)]
    network = "" if carry is None else brief(carry.network, 80).strip("<>")
    accounts = [VirtualAccount(transport, machine, measure, network) for transport in transports]
    supersteps = [
        SuperstepEngine(transport, make_router(routing, transport), account, checked)
        for transport, account in zip(transports, accounts, strict=True)
    ]
    results: list[Any] = [None] * p
    after = [0.0] * p
    errors: dict[int, BaseException] = {}

    def body(superstep: SuperstepEngine) -> Callable[[], None]:
        def run_processor() -> None:
            superstep.account.begin()
            try:
                results[superstep.pid] = program(BSP(superstep, machine))
                after[superstep.pid] = accounts[superstep.pid].after()
                superstep.finish(line)
                if superstep.saver is not None:
                    superstep.saver.close()
            except MachineFailed:
                return
            except BaseException as error:
                if killed(error) or isinstance(error, KeyboardInterrupt):
                    raise
                errors[superstep.pid] = error
                if superstep.gate.failed is None and not meeting.failed:
                    # A sync that others are in ends with this one's failure; if all have failed, with everybody's.
                    with suppress(MachineFailed):
                        superstep.report_failure(error)

        return run_processor

    tracers = _tracers(supersteps) if _options is not None and _options.trace else []
    prepare(meeting, supersteps)  # of savers, which save the tracers' logs
    if _options is not None and _options.shown and p > 1 and not checked and isinstance(supersteps[0].router, Direct):
        for superstep in supersteps:
            superstep.as_shown = AsShown(_options.shown)
    try:
        scheduler.run([body(superstep) for superstep in supersteps])
    finally:
        for superstep in supersteps:
            if superstep.saver is not None:
                superstep.saver.give_up()
    try:
        if meeting.failed:
            return None
        if errors:
            raise _first(errors, supersteps)
        ledger = _ledger(supersteps, machine, after)
        if tracers and _options is not None:
            _options.traced(tracers)
        return Simulation(results, ledger, meeting.clock)
    finally:
        for superstep in supersteps:
            superstep.dissolve()


def _tracers(supersteps: Sequence[SuperstepEngine]) -> Sequence[Tracer]:
    from ..ledger.trace import Tracer  # nobody else needs it

    return [Tracer(superstep) for superstep in supersteps]


def _first(errors: Mapping[int, BaseException], supersteps: Sequence[SuperstepEngine]) -> BaseException:
    """What the run raises: the error of the lowest processor that failed of itself, with its place."""
    own = [pid for pid, error in errors.items() if failure_of(error, 0, "").primary]
    pid = min(own or errors)
    error, failed = errors[pid], supersteps[pid]
    BaseException.with_traceback(error, from_the_program(error.__traceback__) or error.__traceback__)
    outcome(error).pid, outcome(error).lone_exit = pid, is_lone_exit(error, errors.values())
    place = failed.described(error)
    explained = failed.explained(error)
    if explained or (len(supersteps) > 1 and not isinstance(error, SyncError)):
        note_place(error, f"(on virtual processor {pid} of {len(supersteps)}, in {place}{explained})")
        if outcome(error).place:
            place_uncaught()
    if exited_alone(error, errors.values()):
        # It ended its processor alone, which is no good end, whatever status it asked for.
        account = failed.account
        alone = ProcessorError(f"processor {pid} called sys.exit in {place}", pid, account.superstep, account.label)
        alone.__cause__ = error
        return alone
    return error


def _ledger(supersteps: Sequence[SuperstepEngine], machine: BSPMachine | EBSPMachine, after: Sequence[float]) -> Ledger:
    """The logs of all processors, combined; `after`: what each has computed after the last superstep."""
    logs = [superstep.account.log for superstep in supersteps]
    log = logs[0]
    log.names += log.fresh_labels(len(log))
    while log.combined < len(log):
        first, last = log.combined, min(log.combined + Log.ROWS, len(log))
        tables, kinds = [one.table(first, last) for one in logs], [one.fresh_kinds(last) for one in logs]
        log.put_kinds(kinds)
        log.charges.update(charges(tables, kinds, first, machine))
        log.put([combine(tables)])
    log.riding.update(ridden(rode for one in logs for rode in one.fresh_rides(len(log))))
    log.put_after(after)
    stays = [account.stays for account in (one.account for one in supersteps) if account.stays is not None]
    parts = largest(sums((one.all for one in stays), machine, virtual=True))
    for one in stays:
        one.totals = dict(parts)
    engine = supersteps[0]
    return Ledger(machine, log, True, parts, engine.transport.hosts, engine.router.name, engine.account.network)


def _machine(argument: BSPMachine | EBSPMachine | None, p: int) -> tuple[BSPMachine | EBSPMachine, str | None]:
    """The machine of p virtual processors, and a warning where it was made for another p."""
    if argument is None and _options is not None:
        argument = _options.machine
    if argument is not None:
        require_machine("pybsp.simulate", argument, BSPMachine, EBSPMachine)
    if not isinstance(argument, EBSPMachine):
        return machine_in_force(argument, p, "pybsp.simulate")
    if argument.network:
        got = f"{argument.network!r}: the ledger does not count how far messages go"
        raise argument_error("pybsp.simulate", "machine", "an EBSPMachine without a network", got)
    return for_p(argument, p, "the argument machine: p")


def run_simulated(
    main: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    router: Routing,
    machine: BSPMachine | None,
    checked: bool | None,
    checkpoint: Any = None,
    every: int | str | None = None,
    options: SimulateOptions | None,
) -> Any:
    """`run` on virtual processors: processor 0's result."""
    chosen = options or _ALONE
    router = router if differs(router, "direct") else chosen.router
    if chosen.replay is not None:
        from .replaying import replay  # nobody else needs it, and Python's debugger

        one = chosen.replay
        one.runs += 1
        return replay(main, args, kwargs, one.folder / f"run-{one.runs - 1}" / "record", one.pid, one.debug)
    if chosen is _ALONE:
        chosen.ledger = text(LEDGER)
    if chosen.ledger:
        require_place(chosen.ledger, LEDGER)  # before the work that it is to be about
    done = simulate(
        main,
        *args,
        p=chosen.p,
        machine=machine,
        router=router,
        measure=chosen.measure,
        checked=checked,
        checkpoint=checkpoint,
        every=every,
        **kwargs,
    )
    if chosen.runs is not None:
        chosen.runs.append(done)
    if chosen.ledger:
        chosen.recording.add(chosen.ledger, done.ledger, chosen.about_trace)
    return done.results[0]
