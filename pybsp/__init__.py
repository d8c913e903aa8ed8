"""Bulk-synchronous parallel (BSP) programs on MPI ranks and on virtual processors, with costs and predictions.

What is where:

    bsp.py          the programming interface: what a program calls
    superstep.py    what is below it: what goes out with a sync, the exchange, what arrives
    mail.py         messages: send, inbox
    queues.py       typed queues: whole arrays of small messages
    arrays.py       registered arrays: put, get; accesses.py: how these travel
    layouts.py      which processor owns which item; global_arrays.py: arrays with global indices
    patterns.py     who needs what of whom, settled once; places.py: indices as slices
    outgoing.py     what these send to one destination
    participant.py  what else has a part in a sync; registrations.py: which arrays and queues there are
    gate.py         whether anything may be called now
    parts.py        split
    groups.py       numberings of some processors, and grids; group_rides.py, group_shown.py: what is called on them
    agreement.py    do all processors do the same; failures.py: what is known of an exception
    account.py      what one processor notes of its supersteps; combining.py: of all of them
    ledger.py       what each superstep cost; report.py prints it
    machine.py      parameters and predictions; cost.py: what an algorithm costs, before it runs
    launch.py       run, attach: programs on MPI ranks; session.py: their life cycle, and that of LogP runs
    checkpoints/    what a program saves, and goes on from
    keywords.py     what of their keywords is pybsp's
    watch.py        where each processor is, for those that wait for it; signals.py: for whoever sends a signal
    world.py        all ranks of a job, and how it ends; exits.py: also where there was no run
    leftovers.py    what dead jobs have left in shared memory
    started.py      start_ranks, ranks: MPI ranks from a notebook or a script; job.py: how they start, run and end
    serving.py      what these ranks do; shipping.py: how objects get there and back; notebook.py: what a notebook shows
    testing.py      raises_on; pytest_plugin.py: tests on virtual processors, and on ranks
    simulation.py   simulate: programs on virtual processors
    logp/           LogP programs: on a simulated machine, and on MPI ranks
    transport/      MPI ranks and virtual processors
    routing/        how messages get to their destinations
    collectives/    communication primitives
    benchmarks/     measurements and comparisons
    replaying.py    one processor of a recorded job, alone
    cli.py          the command `pybsp`; mpiexec.py finds what starts ranks, supervise.py waits for them
    starting.py     how `pybsp run` starts ranks here, under Slurm too (slurm.py); configured.py: what it is told, and
                    where; labelled.py: --label-output
    doctor.py       `pybsp doctor`: what will not work, and what to type; probe.py: the ranks that it starts
    lazy.py         how package files load only what is used
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import exits
from ._version import __version__
from .errors import (
    AbortError,
    BoundsError,
    BSPError,
    CheckpointError,
    CostError,
    DeadlockError,
    DeliveryError,
    LauncherError,
    ProcessorError,
    RoutingError,
    SyncError,
    TicketError,
    UnreceivedError,
    UsageError,
)
from .lazy import lazy

if TYPE_CHECKING:
    from . import layouts, logp
    from . import routing as routing
    from .arrays import Array, Ticket
    from .bsp import BSP
    from .checkpoints.failing import Failures
    from .cost import Cost, Superstep
    from .global_arrays import GlobalArray
    from .groups import Grid, Group
    from .launch import attach, run
    from .ledger import Ledger, Record
    from .machine import BSPMachine, EBSPMachine, LogPMachine
    from .mail import Inbox, Message
    from .patterns import Pattern
    from .queues import Queue, QueuePattern
    from .rides import Ride
    from .simulation import Simulation, simulate
    from .started import Execution, Ranks, ranks, start_ranks
    from .testing import raises_on

__all__ = [
    "BSP",
    "AbortError",
    "Array",
    "BSPError",
    "BSPMachine",
    "BoundsError",
    "CheckpointError",
    "Cost",
    "CostError",
    "DeadlockError",
    "DeliveryError",
    "EBSPMachine",
    "Execution",
    "Failures",
    "GlobalArray",
    "Grid",
    "Group",
    "Inbox",
    "LauncherError",
    "Ledger",
    "LogPMachine",
    "Message",
    "Pattern",
    "ProcessorError",
    "Queue",
    "QueuePattern",
    "Ranks",
    "Record",
    "Ride",
    "RoutingError",
    "Simulation",
    "Superstep",
    "SyncError",
    "Ticket",
    "TicketError",
    "UnreceivedError",
    "UsageError",
    "__version__",
    "attach",
    "layouts",
    "logp",
    "raises_on",
    "ranks",
    "run",
    "simulate",
    "start_ranks",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(
        __name__,
        {
            ".layouts": (),
            ".logp": (),
            ".routing": (),
            ".arrays": ("Array", "Ticket"),
            ".bsp": ("BSP",),
            ".checkpoints.failing": ("Failures",),
            ".cost": ("Cost", "Superstep"),
            ".global_arrays": ("GlobalArray",),
            ".groups": ("Grid", "Group"),
            ".launch": ("attach", "run"),
            ".ledger": ("Ledger", "Record"),
            ".machine": ("BSPMachine", "EBSPMachine", "LogPMachine"),
            ".mail": ("Inbox", "Message"),
            ".patterns": ("Pattern",),
            ".queues": ("Queue", "QueuePattern"),
            ".rides": ("Ride",),
            ".simulation": ("Simulation", "simulate"),
            ".started": ("Execution", "Ranks", "ranks", "start_ranks"),
            ".testing": ("raises_on",),
        },
    )

exits.install()
