"""`start_ranks` and `ranks`: MPI ranks from a notebook, or from a script that no launcher has started.

This process starts them with mpiexec (serving.py is what they run), sends each the program (processes/shipping.py),
prints what they print, and gives back their results. It is no rank itself, and loads no MPI library.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from threading import RLock
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeVar

from ..errors import ProcessorError, UsageError, brief
from ..ground.convert import check_program, whole
from ..ground.failures import exited_alone, outcome
from ..ground.instead import hinting
from ..ground.public import Public
from ..processes import process, slurm
from ..processes.mpiexec import default_count
from ..processes.shipping import pickled
from ..transport.virtual import is_virtual
from .job import Ended, Job
from .keywords import check_keywords, differs, stray, timeout_of
from .session import is_running

if TYPE_CHECKING:
    from ..ground.by_value import Classes
    from ..ledger.ledger import Ledger
    from ..machines.bsp import BSPMachine
    from ..routing.choice import Routing

T = TypeVar("T")


@hinting("execution")
@dataclass(frozen=True)
class Execution:
    """What a run on ranks gives.

    results: of each processor, by pid.
    ledger: of all its supersteps, measured.

    Examples:
        >>> execution = pybsp.start_ranks(lambda bsp: bsp.sync(), n=1)
        >>> execution.results, len(execution.ledger)
        ([None], 1)
    """

    results: list[Any]
    ledger: Ledger

    def _repr_html_(self) -> str:
        return f"<p><b>{len(self.results)} MPI ranks</b></p>{self.ledger._repr_html_()}"


def start_ranks(
    main: Callable[..., Any],
    *args: Any,
    n: SupportsIndex | None = None,
    hosts: str | Sequence[str] | None = None,
    router: Routing = "direct",
    machine: BSPMachine | None = None,
    checked: bool | None = None,
    timeout: float | None = None,
    **kwargs: Any,
) -> Execution:
    """Run a program on n new MPI ranks, from a notebook or a script: `main(bsp, *args, **kwargs)` on each.

    The ranks are processes of their own, started by mpiexec, and end with the call. The program and its arguments go to
    them by value (cloudpickle), so functions of a notebook and closures can be run; modules are imported there. What
    ranks print appears here, after the number of its processor. An interrupt, or the end of this process, ends them.

    Args:
        main: the program.
        n: ranks; None: as many as the allocation of a resource manager has tasks, or this computer cores.
        hosts: where they run: names as `"a,b"` or `["a", "b"]`, each with its number of ranks if wanted (`"a:4"`);
            None: here, or in the allocation.
        router, machine, checked, timeout: as in `pybsp.run`.
        kwargs: main's; the names above are not (`pybsp.runs.keywords`).

    Returns:
        the results by pid, and the ledger.

    Raises:
        Exception: what main raised, on the lowest processor that failed of itself; the cause has its traceback there.
        ProcessorError: a processor ended, or its exception cannot be sent, or its result cannot be unpickled here.
        SyncError: the processors did not do the same.
        UsageError: wrong arguments, as those that cannot be pickled here, or unpickled on the ranks, and hosts outside
            of Slurm's allocation; called by a rank, or inside of a run.
        RoutingError: as of `run`.
        LauncherError: no ranks could be started.

    Examples:
        >>> def main(bsp, factor):
        ...     bsp.send((bsp.pid + 1) % bsp.p, factor * bsp.pid)
        ...     bsp.sync()
        ...     return bsp.inbox[0].payload
        >>> pybsp.start_ranks(main, 10, n=3).results
        [20, 0, 10]
    """
    own = "pybsp.start_ranks"
    timeout = _check(own, main, args, timeout, n=n, hosts=hosts, router=router, machine=machine, checked=checked)
    if (found := stray(main, args, kwargs, ("p",))) is not None:
        name, expected = found
        raise UsageError(f"{own}: argument {name}={kwargs[name]!r}: {expected}; for ranks write n={kwargs[name]!r}")
    options = {"router": router, "machine": machine, "checked": checked, "timeout": timeout}
    with Ranks(n, hosts, own) as started:
        return started.execute(own, main, args, kwargs, options)


def ranks(n: SupportsIndex | None = None, *, hosts: str | Sequence[str] | None = None) -> Ranks:
    """MPI ranks that stay for several runs: `with pybsp.ranks(4) as ranks: ranks.run(main, ...)`.

    Args, raises: as in `start_ranks`.

    Examples:
        >>> with pybsp.ranks(2) as ranks:
        ...     [ranks.run(lambda bsp, k: k * bsp.pid, k).results for k in (1, 2, 3)]
        [[0, 1], [0, 2], [0, 3]]
    """
    return Ranks(n, hosts)


class Ranks(Public):
    """MPI ranks that wait for programs, made by `pybsp.ranks`. While they wait they use no processor.

    What a program leaves in modules is there in the next one. Where a run has ended with the job (an interrupt, a
    processor that died), the next one gets new ranks. They end at `close`, or when nobody refers to this object.

    Threads may share them, as those of an executor do: their runs take turns, in no certain order. To run at the same
    time, each thread needs ranks of its own. An interrupt is for the main thread alone: where that waits for its turn,
    it waits no longer, and the other's run goes on.

    Attributes:
        p: how many.

    Examples:
        >>> ranks = pybsp.ranks(1)
        >>> ranks.run(lambda bsp: bsp.p).results, ranks.p
        ([1], 1)
        >>> ranks.close()
    """

    _public = ("p", "run", "close")

    def __init__(
        self, n: SupportsIndex | None, hosts: str | Sequence[str] | None, operation: str = "pybsp.ranks"
    ) -> None:
        _require_outside(operation)
        self.p, self._hosts = _number(operation, n), _hosts(operation, hosts)
        self._process = os.getpid()
        self._turns = RLock()  # what a signal handler calls in a thread that has its turn must not wait for that thread
        self._in_use = False  # by the thread that has its turn
        self._closed = False
        self._job: Job | None = Job(self.p, self._hosts, operation, self)

    def __repr__(self) -> str:
        return f"<ranks: {self.p}{', closed' if self._closed else ', in use' if self._in_use else ''}>"

    def __enter__(self) -> Ranks:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(
        self,
        main: Callable[..., Any],
        *args: Any,
        router: Routing = "direct",
        machine: BSPMachine | None = None,
        checked: bool | None = None,
        timeout: float | None = None,
        **kwargs: Any,
    ) -> Execution:
        """Run a program on these ranks; see `start_ranks`.

        It waits for its turn while another thread runs a program on them. What that one calls meanwhile in its own
        thread, as a signal handler, could wait for ever: there it is a UsageError.
        """
        timeout = _check("ranks.run", main, args, timeout, router=router, machine=machine, checked=checked)
        options = {"router": router, "machine": machine, "checked": checked, "timeout": timeout}
        return self.execute("ranks.run", main, args, kwargs, options)

    def execute(
        self,
        operation: str,
        main: Callable[..., Any],
        args: Sequence[Any],
        kwargs: dict[str, Any],
        options: dict[str, Any],
    ) -> Execution:
        """`run`, for an operation that errors name.

        Args:
            options: as `run` has them, checked.
        """
        ended, ledger = self.attempt(main, args, kwargs, options, operation=operation)
        failed = sorted((one for one in ended if one.error is not None), key=lambda one: not one.own)
        for first in failed:
            assert first.error is not None
            raise for_caller(first.error, ended)
        assert ledger is not None
        return Execution([one.result for one in ended], ledger)

    def attempt(
        self,
        main: Callable[..., Any],
        args: Sequence[Any],
        kwargs: dict[str, Any],
        options: dict[str, Any],
        limit: float | None = None,
        name: str = "",
        operation: str = "ranks.run",
    ) -> tuple[list[Ended], Ledger | None]:
        """How a program ends on each of these ranks, and the ledger where it ends well on all.

        Args:
            options: as `run` has them, checked.
            limit: seconds after which the ranks are ended.
            name: of the program, for errors; its own where there is none.
            operation: that the user has called, for errors.

        Raises:
            TimeoutError: they were.
            ProcessorError, LauncherError: see `start_ranks`.
            UsageError: main, or its arguments, cannot be pickled.
        """
        __tracebackhide__ = True  # by pytest
        self._require_usable(operation)
        try:
            classes: Classes = {}
            program = pickled((main, args, kwargs, classes), classes)
        except Exception as error:
            raise UsageError(
                f"{operation}: arguments main, args, kwargs: expected what cloudpickle can pickle, with all that main "
                f"refers to, got {type(error).__name__}: {error}; make on the ranks what cannot be sent"
            ) from error
        name = name or getattr(main, "__qualname__", repr(main))
        run = partial(Job.run, program=program, options=options, name=name, limit=limit, operation=operation)
        return self._in_turn(operation, run)

    def ready(self) -> None:
        """Wait until the ranks are there; a run does so too. Raises LauncherError where they do not come."""
        self._in_turn("ranks.ready", partial(Job.ready, operation="ranks.ready"))

    def close(self) -> None:
        """End the ranks. May be called more than once.

        A program that another thread runs on them is ended: there, `run` raises a UsageError.
        """
        self._closed = True
        if self._inherited:
            return
        job = self._job
        if job is not None:
            job.stopping = True
        with self._turns:
            if self._in_use:
                return  # a signal handler's call, in the thread of the run, which ends now
            self._in_use = True
            try:
                if self._job is not None:
                    self._job.end()
            finally:
                self._job, self._in_use = None, False

    # -- who may use them ---------------------------------------------------------------------------------------------

    @property
    def _inherited(self) -> bool:
        """Whether this is a copy, in a child that was forked since: nobody there ends a turn that a thread had."""
        return os.getpid() != self._process

    def _require_usable(self, operation: str) -> None:
        if self._closed:
            raise UsageError(f"{operation}: these ranks have been closed; pybsp.ranks starts new ones")
        if self._inherited:
            raise UsageError(
                f"{operation}: these ranks are those of the process that started them, and this is a child that was "
                "forked since; pybsp.ranks starts others here"
            )

    def _in_turn(self, operation: str, act: Callable[[Job], T]) -> T:
        """Do something with the job while no other thread uses it."""
        __tracebackhide__ = True  # by pytest
        self._require_usable(operation)
        with self._turns:
            if self._in_use:
                raise UsageError(
                    f"{operation}: a run on these ranks goes on in this thread, which has called this meanwhile, as "
                    "from a signal handler; call it after that run, or pybsp.ranks starts others"
                )
            self._require_usable(operation)
            self._in_use = True
            try:
                if self._job is not None and self._job.lost:
                    self._job.kill()
                if self._job is None or self._job.over:
                    self._job = Job(self.p, self._hosts, operation, self)
                if self._closed:  # by another thread, which may have seen no job to stop
                    self._job.stopping = True
                return act(self._job)
            finally:
                self._in_use = False
                if self._job is not None and self._job.over:
                    self._job = None


# -- arguments ---------------------------------------------------------------------------------------------------------


def _check(operation: str, main: Callable[..., Any], args: Sequence[Any], timeout: Any, **given: Any) -> float | None:
    """Raise UsageError for wrong arguments; the timeout."""
    _require_outside(operation)
    check_program(operation, "main", main)
    seconds = timeout_of(operation, timeout)
    ours = {name: differs(value, "direct" if name == "router" else None) for name, value in given.items()}
    check_keywords(operation, main, args, {**ours, "timeout": seconds is not None})
    return seconds


def _require_outside(operation: str) -> None:
    if process.launched()[0] > 1:
        size, rank = process.launched()
        way = "mpiexec" if slurm.step() is None else "srun, or as the one task of a step (`srun -n 1`)"
        raise UsageError(
            f"{operation}: this process is processor {rank} of {size} of a job already; call pybsp.run(main), or start "
            f"this program without {way}"
        )
    if is_virtual() or is_running():
        raise UsageError(f"{operation}: a run is going on in this process; call functions of its bsp instead")


def _number(operation: str, n: SupportsIndex | None) -> int:
    if n is None:
        return default_count()
    number = whole(n)
    if number is None or number < 1:
        raise UsageError(f"{operation}: argument n: expected a whole number of at least 1, got {brief(n)}")
    return number


def _hosts(operation: str, hosts: str | Sequence[str] | None) -> str:
    names = hosts.split(",") if isinstance(hosts, str) else list(hosts) if isinstance(hosts, Iterable) else []
    if (hosts is not None and not names) or not all(isinstance(one, str) and one.strip() for one in names):
        raise UsageError(f"{operation}: argument hosts: expected names of hosts, as 'a,b' or ['a', 'b'], got {hosts!r}")
    found = ",".join(one.strip() for one in names)
    slurm.require_nodes(f"{operation}: argument hosts", found)
    return found


def for_caller(error: BaseException, ended: Sequence[Ended]) -> BaseException:
    """What the caller is to raise of a rank's exception.

    One that has ended its processor alone is no good end, whatever status it asked for: as on virtual processors.
    """
    if not exited_alone(error, (one.error for one in ended)):
        return error
    pid = outcome(error).pid or 0
    found = ProcessorError(f"processor {pid} called sys.exit, and others did not", pid, 0, "")
    found.__cause__ = error.__cause__
    return found
