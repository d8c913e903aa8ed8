"""`run` and `attach`: a BSP program on MPI ranks. What they share with LogP runs is in session.py.

What ends a run well or badly holds outside of it too: once pybsp is imported under a launcher, an exception that nobody
catches is reported to the others, and so is a program that ends early (world.py).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ..bsp import BSP
from ..checkpoints import asked as checkpoints
from ..errors import UsageError
from ..ground import settings
from ..ground.convert import check_program
from ..ground.failures import shorten
from ..ground.files import require_outputs
from ..ground.managed import managed
from ..ground.versions import mpi_library
from ..ledger.account import Account
from ..ledger.combining import exchange_ledger
from ..ledger.ledger import Ledger
from ..ledger.recording import LedgerFile
from ..machines.bsp import BSPMachine
from ..machines.in_force import machine_in_force
from ..parts.totals import exchange_totals
from ..processes import notebook
from ..routing.choice import name_of, named, resolved
from ..routing.choice import router as make_router
from ..supersteps.superstep import SuperstepEngine
from ..transport import BEGIN
from ..transport.medium import MPITransport
from ..transport.router import Direct
from . import machine_cache, simulation
from .keywords import check_keywords, differs, flag_of, stray, timeout_of
from .latency import Latency, as_now, look
from .machine_cache import Place
from .rehearsal import due, rehearse
from .session import Circumstances, Session
from .world import agreed, mark, report_failure, speaker_of, usable_mpi

if TYPE_CHECKING:
    from mpi4py import MPI

    from ..checkpoints.record import Recorder
    from ..checkpoints.saver import Saver
    from ..ledger.trace import Tracer
    from ..routing.choice import Routing

Result = TypeVar("Result")

Folder = str | os.PathLike[str]
Folders = Folder | Sequence[Folder]

_recording = LedgerFile()


def run(
    main: Callable[..., Result],
    *args: Any,
    router: Routing = "direct",
    machine: BSPMachine | None = None,
    checked: bool | None = None,
    timeout: float | None = None,
    checkpoint: Folders | None = None,
    every: int | str | None = None,
    **kwargs: Any,
) -> Result:
    """Run a program on the MPI ranks of this job: `main(bsp, *args, **kwargs)` on each.

    Without a launcher there is one processor; without an MPI library a virtual one. May be called any number of times.

    Args:
        main: the program; the same on all processors.
        router: how messages travel, equal on all processors: a name or a `pybsp.routing.*_router`; see
            `pybsp.routing`. Where it is "direct", PYBSP_ROUTER may name another (`pybsp run --router`).
        machine: its parameters; None: from the file that PYBSP_MACHINE names, else as `pybsp run --calibrate` has
            measured them for these processors, else nominal. Processor 0's is used by all.
        checked: whether to check what is too dear for every superstep; None: PYBSP_CHECKED.
        timeout: seconds, equal on all processors, that a processor waits for the others to end a superstep, before the
            run fails on all; None: for ever. Those that do not even come to learn of that within the grace period
            (PYBSP_GRACE) are ended with the job. Virtual processors wait for nobody.
        checkpoint: the folder for checkpoints, or two: one of each host, and one that all processors see; None:
            PYBSP_CHECKPOINT; (): none. See `BSP.checkpoint`.
        every: how often: so many supersteps, a time ("30s", "5min", "2h"), or the mean time between failures
            ("mtbf=24h"), from which the interval follows with which a job is expected to end first; None:
            PYBSP_CHECKPOINT_EVERY, "mtbf=24h".
        kwargs: main's; the names above are not (`pybsp.runs.keywords`).

    Returns:
        this processor's result.

    Raises:
        Exception: what main raised, on its processor.
        ProcessorError: another processor failed.
        SyncError: the processors did not do the same, or some did not come within the timeout.
        UsageError: wrong arguments; called inside of a run, or on a virtual processor of `simulate`.
        RoutingError: no router of that name, or one that does not fit.
        LauncherError: the launcher and the MPI library do not belong together.
        CheckpointError: a folder for checkpoints cannot be written.

    Examples:
        >>> def main(bsp, text):
        ...     bsp.send(0, text)
        ...     bsp.sync()
        ...     return [message.payload for message in bsp.inbox]
        >>> pybsp.run(main, "hello")  # this process alone; under mpiexec each rank is a processor
        ['hello']
    """
    session = _BSPSession("pybsp.run", router, machine, checked, timeout)
    session.main, session.checkpoint, session.every = main, checkpoint, every

    def check() -> None:
        check_program("pybsp.run", "main", main)
        session.timeout = timeout_of("pybsp.run", timeout)
        given = {
            "router": differs(router, "direct"),
            "machine": machine is not None,
            "checked": checked is not None,
            "timeout": session.timeout is not None,
            "checkpoint": checkpoint is not None,
            "every": every is not None,
        }
        check_keywords("pybsp.run", main, args, given)
        _require_own_keywords(main, args, kwargs)

    def virtual(simulated: simulation.SimulateOptions | None) -> Result:
        result: Result = simulation.run_simulated(
            main,
            args,
            kwargs,
            router=router,
            machine=machine,
            checked=checked,
            checkpoint=checkpoint,
            every=every,
            options=simulated,
        )
        return result

    try:
        return session.run(lambda bsp: main(bsp, *args, **kwargs), check, virtual)
    except BaseException as error:
        shorten(error, called=True)
        raise


def _require_own_keywords(main: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Raise UsageError for a number of processors, or a communicator, where main takes no keyword of that name."""
    found = stray(main, args, kwargs, ("p", "n", "comm"))
    if found is None:
        return
    name, expected = found
    value = kwargs[name]
    if name == "comm":
        raise UsageError(
            f"pybsp.run: argument comm: {expected}: a run is of all ranks; `with pybsp.attach(comm) as bsp:` makes a "
            "machine of those of a communicator"
        )
    raise UsageError(
        f"pybsp.run: argument {name}={value!r}: {expected}: how many processors there are, the launcher says "
        f"(`pybsp run -n {value} program.py`); pybsp.start_ranks(main, n={value}) starts ranks from here, and "
        f"pybsp.simulate(main, p={value}) virtual processors"
    )


def run_recorded(
    operation: str,
    main: Callable[[BSP], Result],
    line: str,
    *,
    router: Routing,
    machine: BSPMachine | None,
    checked: bool | None,
    timeout: float | None,
) -> tuple[Result, Ledger | None]:
    """`run` on ranks that were started for it: this processor's result, and the ledger on processor 0.

    Args:
        line: of the call that has started them.
    """

    def virtual(options: simulation.SimulateOptions | None) -> Result:
        raise AssertionError("these ranks have an MPI library")

    session = _BSPSession(operation, router, machine, checked, timeout, keeps=True)
    session.line = line
    return session.run(main, lambda: None, virtual), session.ledger


@managed
def attach(
    comm: MPI.Intracomm,
    *,
    router: Routing = "direct",
    machine: BSPMachine | None = None,
    checked: bool | None = None,
    timeout: float | None = None,
) -> Iterator[BSP]:
    """A BSP machine of the ranks of a communicator, inside an MPI program: `with pybsp.attach(comm) as bsp`.

    The communicator is duplicated, and the duplicate freed at the end of the block. Collective over its ranks.

    Args, raises: as in `run`.

    Examples:
        >>> from mpi4py import MPI
        >>> with pybsp.attach(MPI.COMM_WORLD) as bsp:
        ...     bsp.send((bsp.pid + 1) % bsp.p, "hello")
        ...     bsp.sync()
        ...     print(bsp.inbox[0].payload)
        hello
    """
    timeout = timeout_of("pybsp.attach", timeout)
    with _BSPSession("pybsp.attach", router, machine, checked, timeout).on(comm) as bsp:
        yield bsp


def place_of(transport: MPITransport, router: str) -> Place:
    """Where the processors of a transport are, whose messages go by the router of that name."""
    from mpi4py import MPI

    return Place(transport.hosts, transport.nodes, mpi_library(MPI.Get_library_version()), router, transport.cores)


class _Decided(NamedTuple):
    """What processor 0 decides for all."""

    machine: BSPMachine
    routing: Routing
    begun: Mapping[Sequence[Path], int]  # see checkpoints.asked
    rehearsed: Sequence[str]  # packages


class _BSPSession(Session[BSP]):
    """A BSP machine on MPI ranks.

    Args:
        router, machine, checked, timeout: see `run`.
        keeps: whether processor 0 is to have the ledger when the run has ended.
    """

    kind = BEGIN
    instead = "call functions of its bsp (or proc) instead"
    main: Callable[..., Any] | None = None  # where it may be asked for checkpoints: in `run` alone
    checkpoint: Folders | None = None
    every: int | str | None = None
    line = ""  # of the call, where that was in another process

    def __init__(
        self,
        operation: str,
        router: Routing,
        machine: BSPMachine | None,
        checked: bool | None,
        timeout: float | None,
        keeps: bool = False,
    ) -> None:
        self.operation, self._keeps = operation, keeps
        self.ledger: Ledger | None = None
        self._router, self._machine, self._checked, self.timeout = router, machine, checked, timeout
        self._warning: str | None = None
        self._superstep: SuperstepEngine
        self._checkpointing: checkpoints.CheckpointOptions | None = None
        self._saver: Saver | None = None
        self._latency: Latency | None = None
        self._closing = ExitStack()
        self._over = False  # whether nobody waits for another one of this run any more

    def arguments(self) -> dict[str, Any]:
        named(self._chosen())  # raises where there is none
        folders, every = checkpoints.given(self.operation, self.checkpoint, self.every)
        return {
            "router": self._router,
            "checked": flag_of(self.operation, "checked", self._checked),
            "timeout": self.timeout,
            "checkpoint": folders,
            "every": every,
        }

    def _chosen(self) -> Routing:
        """The program's router, else that of PYBSP_ROUTER; processor 0's is everybody's."""
        return self._router if differs(self._router, "direct") else settings.text(settings.ROUTER)

    def decide(self) -> _Decided:
        def cached() -> tuple[BSPMachine | None, str | None]:
            return machine_cache.find(place_of(self.transport, name_of(self._chosen())))

        self._machine, self._warning = machine_in_force(self._machine, self.transport.p, self.operation, cached)
        routing = resolved(self._chosen(), self._machine, self.transport.all_remote)
        return _Decided(self._machine, routing, checkpoints.begun(), due(self.transport) if self.world else ())

    def in_force(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        checkpointing = None
        if self.main is not None:
            checkpointing = checkpoints.asked(self.operation, arguments["checkpoint"], arguments["every"])
        return {**arguments, "checked": settings.checks_enabled(arguments["checked"]), "checkpoint": checkpointing}

    def warnings(self) -> Sequence[str]:
        assert self._machine is not None
        single = notebook.alone(self.operation) if self.world and self.transport.p == 1 else None
        return [text for text in (self._warning or self._machine.elsewhere(self.hosts), single) if text is not None]

    def make(self, decided: _Decided, arguments: Mapping[str, Any]) -> BSP:
        transport, machine = self.transport, decided.machine
        if machine.calibrated:
            transport.tune(machine.o_msg)
        rehearse(decided.rehearsed, transport, machine)
        router = make_router(decided.routing, transport)
        if self.world and type(router) is Direct:  # the file of another is of more than one exchange
            self._latency = look(transport, machine)
            machine = as_now(machine, self._latency)
        self._checkpointing, checked = arguments["checkpoint"], arguments["checked"]
        recorder: Recorder | None = None
        if self._checkpointing is not None:
            from ..checkpoints import beginning  # nobody else needs what saves

            number = checkpoints.next_run(self._checkpointing, decided.begun)
            if self._checkpointing.record >= 0:
                router, recorder = beginning.recording(router, self._checkpointing, number, transport, checked, machine)
        self._superstep = SuperstepEngine(transport, router, Account(transport), checked)
        if settings.text(settings.TRACE) and self._of_job():
            from ..ledger.trace import Tracer  # nobody else needs it

            Tracer(self._superstep)
        if self._checkpointing is not None and self.main is not None:
            self._saver = beginning.make(self._superstep, self._checkpointing, number, self.main, recorder)
        return BSP(self._superstep, machine)

    def watched(self, processor: BSP) -> tuple[Callable[[], str], Callable[[], str], float | None]:
        return self._superstep.whereabouts, self._superstep.heard, self.timeout

    def ready(self) -> None:
        if self.world and self.transport.pid == 0:  # before the work that they are to be about
            *outputs, machine = (
                (name, settings.text(name) or None) for name in (settings.LEDGER, settings.TRACE, settings.MACHINE)
            )
            require_outputs(outputs, [machine])
        if self._checkpointing is not None:
            from ..checkpoints import beginning

            assert self._saver is not None
            beginning.prepare(self._saver, self._checkpointing, self.transport.pid)

        how = settings.progress()
        if how and self._of_job() and self.transport.pid == 0:
            from .progress import Progress  # nobody else needs it

            self._closing.callback(Progress(self._superstep, how).end)

    def end(self, processor: BSP) -> None:
        after = self._superstep.account.after()  # without waiting for others, who may compute longer
        self.transport.hear()  # whether others have waited for too long already
        superstep, path = self._superstep, settings.text(settings.LEDGER)
        superstep.finish(self.line)
        if superstep.saver is not None:
            superstep.saver.close()
        recorded = path and self._of_job()
        if recorded or self._keeps or superstep.tracer is not None:
            exchange_ledger(superstep, processor.machine, everybody=False, after=after)
            parts = exchange_totals(superstep, processor.machine)
            more = {} if superstep.tracer is None else self._traced(superstep.tracer)
            if superstep.pid == 0:
                log, router = superstep.account.log, superstep.router.name
                self.ledger = Ledger(processor.machine, log, parts=parts, hosts=self.hosts, router=router)
                if recorded:
                    here = zip(*self.circumstances, strict=True)
                    circumstances = dict(zip(Circumstances._fields, map(list, here), strict=True))
                    if self._latency is not None:
                        more = {**more, "latency": self._latency._asdict()}
                    _recording.add(path, self.ledger, {**circumstances, **more})
        self._over = not superstep.router.meets_to_close
        try:
            superstep.give_back()
            superstep.router.close()
        except BaseException as error:
            if not self._over:
                self.transport.revoke(error)  # the others wait in there
            raise
        self._over = True

    def _of_job(self) -> bool:
        """Whether these are all ranks: parts that are attached at the same time would write over each other's files."""
        return self.world or self.transport.p == usable_mpi(self.operation).COMM_WORLD.size

    def _traced(self, tracer: Tracer) -> Mapping[str, Any]:
        """Write the trace; what a ledger file holds of it, on processor 0."""
        from ..ledger import chrome, trace

        found = trace.gather(tracer)
        if found is None:
            return {}
        title = f"p = {found.p} on {', '.join(sorted(set(self.hosts)))}"
        chrome.trace_file.add(settings.text(settings.TRACE), found, title)
        return {"trace": found.summary()}

    def fail(self, processor: BSP, error: BaseException) -> None:
        superstep, transport = self._superstep, self.transport
        if superstep.saver is not None:
            superstep.saver.give_up()
        if self._over and not transport.revoked:
            mark(error, quiet=False)  # the run has ended well for the others, which may be anywhere
        elif agreed(error) or transport.settled is not None or superstep.gate.failed is not None:
            mark(error, quiet=speaker_of(error, superstep, transport) != transport.pid)
        else:
            report_failure(transport, superstep, error)
        if not transport.revoked:
            superstep.give_back()
            superstep.router.close()

    def left(self) -> None:
        self._closing.close()
        if self.world and self.processor is not None:
            self._superstep.dissolve()

    def detach(self) -> None:
        if self.processor is not None:
            self._superstep.move()
            self._superstep.dissolve()
