"""Bulk-synchronous parallel (BSP) programs on MPI ranks and on virtual processors, with costs and predictions.

What is where, from what programs call down to what all of it stands on; the package file of each folder says what its
files are:

    bsp.py          the programming interface: what a program calls
    layouts.py      which processor owns which item of an array
    errors.py       the errors that a program may see
    testing.py      raises_on; pytest_plugin.py: tests on virtual processors, and on ranks
    cli.py          the command `pybsp`; commands/ has those that run programs and print what they cost
    runs/           run, attach, simulate, predict, start_ranks: from a run's beginning to its end
    checkpoints/    what a program saves, and goes on from
    supersteps/     what goes out with a sync, the exchange, what arrives; queues
    arrays/         puts, gets, global indices, patterns
    rides/          what rides in supersteps: what collectives are made of
    groups/         numberings of some processors, and grids
    parts/          split
    ledger/         what each superstep cost, beside what was predicted
    messages/       send and inbox; whether all processors do the same
    logp/           LogP programs: on a simulated machine, and on MPI ranks
    transport/      who the processors are: MPI ranks, or virtual processors
    machines/       parameters and predictions; what an algorithm costs, before it runs
    ways.py         the ways in which data goes, each with a cost of its own; on_network.py: supersteps on a network
    processes/      the processes of a job: what starts them, which have ended, what they leave behind
    ground/         files, settings, arguments
    compiled.py     the compiled core (core.c), where there is one
    lazy.py         how package files load only what is used
    routing/        how messages get to their destinations
    collectives/    communication primitives
    benchmarks/     measurements and comparisons
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .lazy import lazy
from .runs import exits

if TYPE_CHECKING:
    from . import collectives as collectives
    from . import layouts as layouts
    from . import logp as logp
    from . import routing as routing
    from ._version import __version__ as __version__
    from .arrays.array import Array as Array
    from .arrays.array import Ticket as Ticket
    from .arrays.global_array import GlobalArray as GlobalArray
    from .arrays.pattern import Pattern as Pattern
    from .bsp import BSP as BSP
    from .checkpoints.failing import Failures as Failures
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
    from .groups.group import Grid as Grid
    from .groups.group import Group as Group
    from .ledger.ledger import Ledger as Ledger
    from .ledger.prediction import Prediction as Prediction
    from .ledger.prediction import Predictions as Predictions
    from .ledger.records import Record as Record
    from .machines.bsp import BSPMachine as BSPMachine
    from .machines.cost import Cost as Cost
    from .machines.cost import Superstep as Superstep
    from .machines.ebsp import EBSPMachine as EBSPMachine
    from .machines.logp import LogPMachine as LogPMachine
    from .messages.mail import Inbox as Inbox
    from .messages.mail import Message as Message
    from .rides.ride import Ride as Ride
    from .runs.launch import attach as attach
    from .runs.launch import run as run
    from .runs.predicting import predict as predict
    from .runs.simulation import Simulation as Simulation
    from .runs.simulation import simulate as simulate
    from .runs.started import Execution as Execution
    from .runs.started import Ranks as Ranks
    from .runs.started import ranks as ranks
    from .runs.started import start_ranks as start_ranks
    from .supersteps.queues import Queue as Queue
    from .supersteps.queues import QueuePattern as QueuePattern
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
            ".arrays.array": ("Array", "Ticket"),
            ".arrays.global_array": ("GlobalArray",),
            ".arrays.pattern": ("Pattern",),
            ".bsp": ("BSP",),
            ".checkpoints.failing": ("Failures",),
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
            ".groups.group": ("Grid", "Group"),
            ".ledger.ledger": ("Ledger",),
            ".ledger.prediction": ("Prediction", "Predictions"),
            ".ledger.records": ("Record",),
            ".machines.bsp": ("BSPMachine",),
            ".machines.cost": ("Cost", "Superstep"),
            ".machines.ebsp": ("EBSPMachine",),
            ".machines.logp": ("LogPMachine",),
            ".messages.mail": ("Inbox", "Message"),
            ".rides.ride": ("Ride",),
            ".runs.launch": ("attach", "run"),
            ".runs.predicting": ("predict",),
            ".runs.simulation": ("Simulation", "simulate"),
            ".runs.started": ("Execution", "Ranks", "ranks", "start_ranks"),
            ".supersteps.queues": ("Queue", "QueuePattern"),
            ".testing": ("raises_on",),
        },
        by_name=("collectives", "routing"),
    )

exits.install()
