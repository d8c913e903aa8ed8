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
    groups.py       numberings of some processors, and grids; group_*.py: what is called on them
    agreement.py    do all processors do the same; failures.py: what is known of an exception
    account.py      what one processor notes of its supersteps, in its log.py; combining.py: of all of them
    ledger.py       what each superstep cost, as records.py; ledger_file.py: kept; report.py prints it
    machine.py      parameters and predictions; machine_parts.py: their files
    cost.py         what an algorithm costs, before it runs
    launch.py       run, attach: programs on MPI ranks; session.py: their life cycle, and that of LogP runs
    checkpoints/    what a program saves, and goes on from
    keywords.py     what of their keywords is pybsp's
    watch.py        where each processor is, for those that wait for it; signals.py: for whoever sends a signal
    progress.py     how far a run is, on stderr
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
    cli.py          the command `pybsp`; commands/ has those that run programs and print what they cost
    mpiexec.py      finds what starts ranks; supervise.py waits for them
    starting.py     how `pybsp run` starts ranks here, under Slurm too (slurm.py); configured.py: its settings, and
                    where; labelled.py: --label-output
    doctor.py       `pybsp doctor`: what will not work, and what to type; probe.py: the ranks that it starts
    lazy.py         how package files load only what is used
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import exits
from .lazy import lazy

if TYPE_CHECKING:
    from . import collectives as collectives
    from . import layouts as layouts
    from . import logp as logp
    from . import routing as routing
    from ._version import __version__ as __version__
    from .arrays import Array as Array
    from .arrays import Ticket as Ticket
    from .bsp import BSP as BSP
    from .checkpoints.failing import Failures as Failures
    from .cost import Cost as Cost
    from .cost import Superstep as Superstep
    from .errors import AbortError as AbortError
    from .errors import BoundsError as BoundsError
    from .errors import BSPError as BSPError
    from .errors import CheckpointError as CheckpointError
    from .errors import CostError as CostError
    from .errors import DeadlockError as DeadlockError
    from .errors import DeliveryError as DeliveryError
    from .errors import LauncherError as LauncherError
    from .errors import ProcessorError as ProcessorError
    from .errors import RoutingError as RoutingError
    from .errors import SyncError as SyncError
    from .errors import TicketError as TicketError
    from .errors import UnreceivedError as UnreceivedError
    from .errors import UsageError as UsageError
    from .global_arrays import GlobalArray as GlobalArray
    from .groups import Grid as Grid
    from .groups import Group as Group
    from .launch import attach as attach
    from .launch import run as run
    from .ledger import Ledger as Ledger
    from .machine import BSPMachine as BSPMachine
    from .machine import EBSPMachine as EBSPMachine
    from .machine import LogPMachine as LogPMachine
    from .mail import Inbox as Inbox
    from .mail import Message as Message
    from .patterns import Pattern as Pattern
    from .queues import Queue as Queue
    from .queues import QueuePattern as QueuePattern
    from .records import Record as Record
    from .rides import Ride as Ride
    from .simulation import Simulation as Simulation
    from .simulation import simulate as simulate
    from .started import Execution as Execution
    from .started import Ranks as Ranks
    from .started import ranks as ranks
    from .started import start_ranks as start_ranks
    from .testing import raises_on as raises_on

if not TYPE_CHECKING:
    __getattr__, __dir__, __all__ = lazy(
        __name__,
        {
            ".collectives": (),
            ".layouts": (),
            ".logp": (),
            ".routing": (),
            "._version": ("__version__",),
            ".arrays": ("Array", "Ticket"),
            ".bsp": ("BSP",),
            ".checkpoints.failing": ("Failures",),
            ".cost": ("Cost", "Superstep"),
            ".errors": (
                "AbortError",
                "BoundsError",
                "BSPError",
                "CheckpointError",
                "CostError",
                "DeadlockError",
                "DeliveryError",
                "LauncherError",
                "ProcessorError",
                "RoutingError",
                "SyncError",
                "TicketError",
                "UnreceivedError",
                "UsageError",
            ),
            ".global_arrays": ("GlobalArray",),
            ".groups": ("Grid", "Group"),
            ".launch": ("attach", "run"),
            ".ledger": ("Ledger",),
            ".machine": ("BSPMachine", "EBSPMachine", "LogPMachine"),
            ".mail": ("Inbox", "Message"),
            ".patterns": ("Pattern",),
            ".queues": ("Queue", "QueuePattern"),
            ".records": ("Record",),
            ".rides": ("Ride",),
            ".simulation": ("Simulation", "simulate"),
            ".started": ("Execution", "Ranks", "ranks", "start_ranks"),
            ".testing": ("raises_on",),
        },
        by_name=("collectives", "routing"),
    )

exits.install()
