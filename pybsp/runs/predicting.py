"""`predict`: what a program would take on another machine, and on more processors than there are here."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, SupportsIndex

from ..errors import UsageError, argument_error, brief
from ..ground import settings
from ..ground.convert import check_program, processors
from ..ground.managed import Managed, managed
from ..ledger.prediction import Prediction, Predictions, of_runs, require_exchange, require_factor
from ..machines.bsp import BSPMachine
from ..machines.in_force import resized
from ..machines.machine_file import require_machine
from ..processes import process
from ..rides.shown import shown_by
from . import heap, simulation, threads
from .keywords import check_keywords, differs, flag_of

if TYPE_CHECKING:
    from ..routing.choice import Routing


def predict(
    main: Callable[..., Any],
    *args: Any,
    p: SupportsIndex | Iterable[SupportsIndex],
    machine: BSPMachine | None = None,
    measure: bool = True,
    faster: float = 1.0,
    weak: bool = False,
    router: Routing = "direct",
    **kwargs: Any,
) -> Predictions:
    """Predict what a program takes: `main(bsp, *args, **kwargs)`, on p virtual processors for each p, on a machine.

    They run here, one after the other, so that each one's computing is measured alone; what exchanges take follows from
    their words and messages by the machine's parameters. `pybsp predict` does the same from the command line, in a
    process of its own for each p. Here the first p runs twice, and its second run counts: what a process does once, as
    imports, is in none.

    Args:
        main: the program.
        p: numbers of processors.
        machine: of which the program is predicted; its own p is no matter, but where that is 1 and it was measured.
            None: the file that PYBSP_MACHINE names.
        measure: whether computing is what it takes here; False: what `bsp.work` charges, by the machine's rates.
        faster: so many times as fast as here is the machine's computing, where it is measured.
        weak: whether the input grows with p: then as much in the same time is a speed-up of p.
        router: how messages travel, as of `simulate`; what exchanges take follows from the machine all the same.
        kwargs: main's.

    Returns:
        A `Prediction` for each p, ascending.

    Raises:
        Exception: what main raised.
        UsageError, SyncError: as `simulate`; no machine, or one that knows no exchange.

    Examples:
        >>> def main(bsp, n):
        ...     bsp.work(2 * n / bsp.p)
        ...     return pybsp.collectives.allreduce(bsp, 1.0, np.add)
        >>> machine = pybsp.BSPMachine(p=2, g=1e-8, l=1e-5, r=1e9)
        >>> found = pybsp.predict(main, 10**7, p=[1, 4, 16, 64], machine=machine, measure=False)
        >>> found.speedup.round(1).tolist()
        [1.0, 4.0, 15.9, 61.9]
        >>> found[-1]
        <prediction: p = 64, 1 superstep, 0.0003232 s: 96.7 % computing, 0.195 % exchange, 3.09 % latency>
    """
    check_program("pybsp.predict", "main", main)
    numbers = _numbers(p)
    ours = {"p": True, "machine": machine is not None, "measure": differs(measure, True), "weak": differs(weak, False)}
    ours |= {"faster": differs(faster, 1.0), "router": differs(router, "direct")}
    check_keywords("pybsp.predict", main, args, ours)
    measure, weak = bool(flag_of("pybsp.predict", "measure", measure)), bool(flag_of("pybsp.predict", "weak", weak))
    require_factor("pybsp.predict", faster)
    there = _machine(machine)
    program = partial(simulation.call, main, args, kwargs)  # whose keywords are all main's

    def one(p: int) -> Prediction:
        sized = resized(there, p)
        with measuring(sized, measure):
            done = simulation.simulate(program, p=p, machine=sized, router=router, measure=measure)
        return of_runs([done.ledger], sized, faster if measure else 1.0)

    if measure:
        one(numbers[0])
    return Predictions([one(p) for p in numbers], there, weak)


def _numbers(p: Any) -> Sequence[int]:
    """The numbers of processors, each once, ascending."""
    given = [p] if hasattr(p, "__index__") else p
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise argument_error("pybsp.predict", "p", "numbers of processors, as [1, 2, 4]", brief(p))
    found = sorted({processors("pybsp.predict", one) for one in given})
    if not found:
        raise argument_error("pybsp.predict", "p", "at least one number of processors", brief(p))
    return found


def _machine(argument: BSPMachine | None) -> BSPMachine:
    if argument is None and (path := settings.text(settings.MACHINE)):
        argument = BSPMachine.load(path)
        require_exchange(f"machine file {path}", argument)
    if argument is None:
        raise UsageError(
            "pybsp.predict: expected machine=, of which the program is predicted: pybsp.BSPMachine(p=4, g=..., l=..., "
            "r=...) of figures that you know, or pybsp.BSPMachine.load(path) of what `pybsp calibrate` has measured"
        )
    require_machine("pybsp.predict", argument, BSPMachine)
    require_exchange("pybsp.predict: argument machine", argument)
    return argument


def threads_of(machine: BSPMachine) -> Managed[None]:
    """In the block numpy's libraries take as many threads as a rank's of that machine, of hosts like this one."""
    hosts = machine.hosts if len(machine.hosts) == machine.p else ("",) * machine.p
    return threads.limited(max(Counter(hosts).values()), process.allowed_cores())


@managed
def measuring(machine: BSPMachine, measure: bool = True) -> Iterator[list[simulation.Simulation]]:
    """In the block programs run on virtual processors by which they are predicted on that machine; gives these runs.

    Computing is measured as that of ranks is, and without pauses of the garbage collector, which would be one
    processor's, for which all others wait.
    """
    before, collecting = simulation.options(), gc.isenabled()
    runs: list[simulation.Simulation] = []
    shown = shown_by(machine.hosts)
    simulation.set_options(simulation.SimulateOptions(machine.p, measure, machine=machine, runs=runs, shown=shown))
    heap.reuse_freed()
    gc.collect()
    gc.disable()
    try:
        with threads_of(machine):
            yield runs
    finally:
        simulation.set_options(before)
        if collecting:
            gc.enable()
