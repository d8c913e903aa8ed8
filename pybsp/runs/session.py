"""The life cycle that all runs on MPI ranks have: from a beginning that all agree on to an end that all agree on.

When a processor fails, all of them learn of it, all raise, and the launcher sees a non-zero status of each. Only if
some do not come to an exchange within the grace period is the job aborted.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar
from weakref import ref

from ..errors import BSPError, UsageError, argument_error
from ..ground import settings
from ..ground.announcing import announce_once
from ..ground.failures import failure_of, killed, speaker
from ..ground.managed import Managed, managed
from ..lazy import ready
from ..messages import agreement
from ..processes import process
from ..transport import FAIL, Arrival
from ..transport.medium import MPITransport
from ..transport.mpi import duplicate
from ..transport.revocation import RevokedError
from ..transport.virtual import is_virtual
from . import heap, signals, simulation, threads
from .watch import Watch
from .world import (
    agreed,
    begin_session,
    end_interrupted,
    grace_or_default,
    install_hook,
    mark,
    mark_outside,
    note_exits,
    refuse_to_vanish,
    report_failure,
    require_launcher,
    require_processor,
    speaker_of,
    tell_before_run,
    usable_mpi,
    world_transport,
)

if TYPE_CHECKING:
    from mpi4py import MPI

Processor = TypeVar("Processor")
Result = TypeVar("Result")


class _OpenRun:
    """A run that goes on: it ends with the call, even where an exception keeps the call from saying so."""


_running: ref[_OpenRun] | None = None


def is_running() -> bool:
    """Whether a run, BSP or LogP, goes on in this process; a session on a communicator is none."""
    return _running is not None and _running() is not None


class Opening(NamedTuple):
    """What a processor says at the beginning.

    operation: what the user has called.
    decided: what counts for all: None but on processor 0, so that it is equal bit for bit.
    arguments: by name; equal on all.
    settings: those of the environment variables that are set here.
    address: where others read where this processor is.
    here: the machine as this processor finds it.
    """

    operation: str
    decided: Any
    arguments: Mapping[str, Any]
    settings: Mapping[str, str]
    address: Any
    here: Circumstances


class Circumstances(NamedTuple):
    """What a processor shares its host with.

    cores: of the host, those that its ranks may run on.
    threads: that numpy's libraries take here at most.
    load: the host's average over the last minute, when the run began.
    """

    cores: int
    threads: int
    load: float

    @classmethod
    def here(cls, cores: int) -> Circumstances:
        """Those of this processor, with so many cores."""
        return cls(cores, threads.in_use(), process.load())


class Session(ABC, Generic[Processor]):
    """One run on MPI ranks, as one of them sees it; used once. What differs between BSP and LogP is in its subclasses.

    On every rank, in this order:

        arguments  what must be equal on all
        decide     on processor 0, what counts for all
        make       the processor that the program sees
        ready      the last that can go wrong before the program
        (program)
        end        all have ended; or else `fail`: one has not, and all learn of it
        detach     the memory that the processors share goes, where they do not stay for another run

    Attributes:
        operation: what the user has called, for errors.
        kind: of the exchange that a run begins with.
        instead: what can be done inside of a run.
        transport: the ranks.
        world: whether they are all of the job; else those of a communicator.
        hosts: of each processor.
        circumstances: of each processor; known once the run has begun.
        processor: what `make` made; None before.
    """

    operation: str
    kind: int
    instead: str
    transport: MPITransport
    world: bool
    hosts: Sequence[str]
    circumstances: Sequence[Circumstances]
    processor: Processor | None = None

    @abstractmethod
    def arguments(self) -> dict[str, Any]:
        """The arguments that must be equal on all processors. Raises where they are wrong on this one."""

    @abstractmethod
    def decide(self) -> Any:
        """On processor 0: what counts for all."""

    def begun(self, arrival: Arrival) -> None:
        """All have come to the beginning, or to something else; raises BSPError where that has to be worded here."""

    def in_force(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """What the arguments of one processor mean, now that the settings are agreed on."""
        return arguments

    @abstractmethod
    def warnings(self) -> Sequence[str]:
        """What processor 0 is to say of the run."""

    @abstractmethod
    def make(self, decided: Any, arguments: Mapping[str, Any]) -> Processor:
        """The processor that the program sees, from what was decided and from the arguments in force."""

    @abstractmethod
    def watched(self, processor: Processor) -> tuple[Callable[[], str], Callable[[], str], float | None]:
        """Of `Watch.begin`: what says in which superstep this processor is, when others were heard of; the timeout."""

    def ready(self) -> None:
        """The run is about to begin: an error of this processor alone is reported as one of the program is."""

    @abstractmethod
    def end(self, processor: Processor) -> None:
        """The program has ended here: meet the others, who must have ended too."""

    @abstractmethod
    def fail(self, processor: Processor, error: BaseException) -> None:
        """The run has failed, here or elsewhere: all learn how."""

    def left(self) -> None:
        """The run is over, however it has ended."""

    def detach(self) -> None:
        """The ranks part."""

    # -- where it runs ------------------------------------------------------------------------------------------------

    def run(
        self,
        program: Callable[[Processor], Result],
        check: Callable[[], None],
        virtual: Callable[[simulation.SimulateOptions | None], Result],
    ) -> Result:
        """On all ranks of the job; on virtual processors under `pybsp simulate`, and where there is no MPI library.

        Args:
            program: from processor to result.
            check: raises UsageError for arguments that are wrong whatever the others do, before any of them is met.
            virtual: the run on virtual processors, by the settings of `pybsp simulate`, or None where there is no MPI;
                processor 0's result.
        """
        global _running
        inside = simulating = False
        simulated, this = None, _OpenRun()
        session: Managed[Processor] | None = None
        try:
            inside, simulating = is_running(), is_virtual()
            self._require_no_simulation(simulating)
            if inside:
                raise UsageError(f"{self.operation}: a run is going on in this process; {self.instead}")
            check()
            _running = ref(this)
            simulated = simulation.options()
            transport = None if simulated is not None else world_transport(self.operation)
            if transport is None:
                return virtual(simulated)
            ranks_here = transport.hosts.count(transport.hosts[transport.pid])
            session = self._session(transport, world=True)
            with threads.limited(ranks_here, transport.cores[transport.pid]), session as processor:
                return program(processor)
        except BaseException as error:
            if session is not None:
                session.left_by(error)
            # The others are in this run, or about to begin it; inside of another one that tells them.
            if not inside and not simulating and simulated is None:
                tell_before_run(error)
            raise
        finally:
            if not inside:
                _running = None

    @managed
    def on(self, comm: MPI.Intracomm) -> Iterator[Processor]:
        """On the ranks of a communicator, which is duplicated; collective over these."""
        self._require_no_simulation(is_virtual())
        install_hook()
        mpi = usable_mpi(self.operation)
        require_launcher(mpi.COMM_WORLD.size)
        if not isinstance(comm, mpi.Intracomm) or comm == mpi.COMM_NULL:
            raise UsageError(
                f"{self.operation}: argument comm={comm!r}: expected a communicator of mpi4py that this rank is in, as "
                "MPI.COMM_WORLD or what comm.Split gives"
            )
        transport = duplicate(comm, self.operation, graceful=grace_or_default)
        refuse_to_vanish(transport)
        usable = False
        try:
            with self._session(transport, world=False) as processor:
                yield processor
            usable = True
        except BaseException as error:
            usable = agreed(error)
            raise
        finally:
            # To free it is collective: only where all know how this has ended do all come to it.
            if usable:
                self.detach()
                transport.free()

    def _require_no_simulation(self, simulating: bool) -> None:
        """Raise UsageError on a virtual processor, which is no rank: the run would be one of all ranks, p times."""
        if simulating:
            raise UsageError(
                f"{self.operation}: a run is going on in this process, of which this is a virtual processor "
                "(pybsp.simulate); call functions of its bsp instead"
            )

    # -- from its beginning to its end --------------------------------------------------------------------------------

    @managed
    def _session(self, transport: MPITransport, world: bool) -> Iterator[Processor]:
        self.transport, self.world = transport, world
        ready()
        begin_session()
        heap.reuse_freed()
        signals.install()
        watch = Watch(alone=transport.p == 1)
        try:
            self.processor = processor = self._begin(watch)
            self.ready()
            yield processor
            require_processor(self.operation)  # what it has forked may come to here too, and nobody expects it
            self.end(processor)
        except BaseException as error:
            if not process.takes_part():
                raise  # a child of a rank, which nobody expects anywhere
            if isinstance(error, GeneratorExit) and sys.is_finalizing():
                self._abandon()
                raise
            if isinstance(error, KeyboardInterrupt) or killed(error):
                if transport.p > 1:
                    end_interrupted(transport)
                raise
            error = self._known(error)
            self._fail(error)
            if not world:
                mark_outside(error, transport)
            raise error
        finally:
            watch.end()
            self.left()

    def _abandon(self) -> None:
        """Python ends, and the block has not: others that wait for this processor learn of it, as far as that goes."""
        error = UsageError(f"{self.operation}: Python has ended inside of its block")
        self.transport.revoke(error)
        with suppress(Exception):  # others do not come, or Python imports nothing any more
            self.transport.exchange(FAIL, failure_of(error, -1, ""), {}, grace=grace_or_default())

    def _begin(self, watch: Watch) -> Processor:
        """Agree on the settings and the arguments, and take what processor 0 has decided."""
        transport, pid = self.transport, self.transport.pid
        arguments = self.arguments()
        for name in settings.SECONDS:
            settings.seconds(name)  # a wrong one is an error now, not when it is needed
        decided = self.decide() if pid == 0 else None
        set_here = settings.set_here(settings.OF_RUN)
        here = Circumstances.here(transport.cores[pid])
        own = Opening(self.operation, decided, arguments, set_here, watch.address, here)
        arrival = transport.exchange(self.kind, own, {})
        # From here on all find the same, and none is left waiting: an error is marked as known to all.
        try:
            self.begun(arrival)
            notes = agreement.settle(transport.exchange, arrival, self.kind, f"called {self.operation}", 0, "")
        except BSPError as error:
            note_exits(arrival)
            mark(error, quiet=speaker(error) != pid)
            raise
        assert notes is not None
        of_all: list[Opening] = list(notes)
        self._alike([opening.operation for opening in of_all])
        try:
            settings.agree(self.operation, settings.OF_RUN, [opening.settings for opening in of_all])
            in_force = self._agree([self.in_force(opening.arguments) for opening in of_all])
        except UsageError as differing:
            mark(differing, quiet=pid != 0)
            raise
        self.hosts = hosts = transport.hosts
        self.circumstances = [opening.here for opening in of_all]
        if hosts.count(hosts[pid]) > own.here.cores:
            transport.waiter.crowd()
        for warning in (*settings.warnings(), *self.warnings()) if pid == 0 else ():
            announce_once(f"pybsp: {warning}")
        processor = self.make(of_all[0].decided, in_force)
        superstep, heard, timeout = self.watched(processor)
        watch.begin(transport, [opening.address for opening in of_all], hosts, superstep, heard, timeout)
        return processor

    def _alike(self, operations: Sequence[str]) -> None:
        """End the job where another processor has called something else: they would wait for each other at its end."""
        other = next((pid for pid, operation in enumerate(operations) if operation != self.operation), None)
        if other is not None:
            self.transport.abort(
                f"pybsp: {self.operation}: expected the same call on all processors, got {operations[other]} on "
                f"processor {other}; ending the job"
            )

    def _agree(self, arguments: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
        """Raise UsageError where an argument differs; else those of all."""
        for name in arguments[0]:
            values = [one[name] for one in arguments]
            if any(value != values[0] for value in values):
                raise argument_error(self.operation, name, "the same on all processors", values)
        return arguments[0]

    def _known(self, error: BaseException) -> BaseException:
        """The error that all know, where this processor learned in a wait that another has failed."""
        if not isinstance(error, RevokedError):
            return error
        try:
            self.transport.left(error)
        except BSPError as known:
            return known
        raise AssertionError  # it raises

    def _fail(self, error: BaseException) -> None:
        transport = self.transport
        if self.processor is not None:
            self.fail(self.processor, error)
        elif agreed(error) or transport.settled is not None:
            mark(error, quiet=speaker_of(error, None, transport) != transport.pid)
        else:
            transport.revoke(error)  # others may have begun, and exchange as their router does
            report_failure(transport, None, error)
