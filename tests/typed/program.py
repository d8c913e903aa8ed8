"""What a user may write: every public name once, checked by pyright in strict mode (tests/test_typed_surface.py)."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

import pybsp
from pybsp import collectives, layouts, logp, routing
from pybsp.collectives import baselines, ebsp
from pybsp.routing import networks, relations

VERSION: str = pybsp.__version__
ERRORS: Sequence[type[pybsp.BSPError]] = [
    pybsp.AbortError,
    pybsp.BoundsError,
    pybsp.CheckpointError,
    pybsp.CostError,
    pybsp.DeadlockError,
    pybsp.DeliveryError,
    pybsp.LauncherError,
    pybsp.ProcessorError,
    pybsp.RoutingError,
    pybsp.SyncError,
    pybsp.TicketError,
    pybsp.UnreceivedError,
    pybsp.UsageError,
]


def main(bsp: pybsp.BSP, size: int) -> list[float]:
    """Messages, queues, arrays, parts and costs."""
    right = (bsp.pid + 1) % bsp.p
    x: pybsp.Array = bsp.array(size, np.float64)
    queue: pybsp.Queue = bsp.queue(np.int64)
    bsp.sync()
    x.put(right, [1.0, 2.0], at=slice(0, 2))
    ticket: pybsp.Ticket = x.get(right, at=0)
    bsp.send(right, {"any": "object"}, tag=7)
    bsp.room(right, (2, 3), np.float32)[:] = bsp.pid
    queue.send(np.arange(bsp.p), bsp.pid)
    pending: str = bsp.pending
    bsp.sync()
    inbox: pybsp.Inbox = bsp.inbox
    message: pybsp.Message = inbox[0]
    text = f"{pending} {message.source} {message.tag} {inbox.nbytes} {ticket.value} {bsp.router.name} {x.shapes}"
    values: NDArray[np.int64] = queue.values
    senders: NDArray[np.intp] = queue.sources
    with bsp.superstep(text):
        bsp.work(1e6)
    bsp.label(text)
    bsp.own_superstep("own")
    with bsp.label(text):
        bsp.sync()
    with bsp.split(color=bsp.pid % 2, key=-bsp.pid) as part:
        part.sync()
    with bsp.expect(supersteps=1, h=0, messages=0, work=0.0):
        bsp.begin()
        bsp.end()
    ledger: pybsp.Ledger = bsp.ledger
    record: pybsp.Record = ledger[0]
    ledger.save("ledger.json")
    loaded: list[pybsp.Ledger] = pybsp.Ledger.load("ledger.json")
    x.free()
    queue.free()
    if bsp.pid < 0:
        bsp.abort("never")
    return [float(values.sum() + senders.sum()), record.predicted, loaded[0].predicted, bsp.time(), float(x.local[0])]


def divided(bsp: pybsp.BSP) -> float:
    """Layouts, arrays with global indices, and patterns."""
    layout: layouts.Layout = layouts.BlockCyclic((8, 8), (1, bsp.p), block=(8, 2))
    x: pybsp.GlobalArray = bsp.array(layout, np.float64)
    mine: NDArray[np.float64] = np.zeros(layout.local_shape(bsp.pid))
    y: pybsp.Array = bsp.register(mine)
    z: pybsp.GlobalArray = bsp.register(mine, pybsp.layouts.Cyclic((8, 8), (1, bsp.p)))
    queue = bsp.queue(np.int64)
    bsp.sync()
    ticket: pybsp.Ticket = x.global_get((0, [1, 2]), into=np.zeros(2))
    z.global_put((0, 0), 1.0)
    y[0][0, 1] = 3.0
    y[0] = y[0][:, 0].get().value.sum() if bsp.p < 0 else 1.0
    pattern: pybsp.Pattern = y.pattern([0], (0, [1]))
    to_all: pybsp.QueuePattern = queue.pattern(np.arange(bsp.p))
    bsp.sync()
    to_all.send(1)
    pattern.put([1.0], np.add)
    ticket = pattern.get()
    cost: pybsp.Cost = pattern.cost(bsp.machine, "put")
    bsp.sync()
    block = layouts.Block(8, bsp.p)
    dealt: NDArray[Any] = collectives.redistribute(bsp, np.zeros(block.local_shape(bsp.pid)), block, block)
    owners, _ = block.places(np.arange(8))
    words: int = to_all.cost(bsp.machine).h + sum(bsp.ledger.index_bytes.values())
    to_all.free()
    return (
        float(ticket.value[0]) + words + cost.h + pattern.served + pattern.index_bytes + float(dealt.size + owners.size)
    )


def together(bsp: pybsp.BSP) -> None:
    """Every collective."""
    keys = np.arange(8.0)
    plans = (collectives.allreduce.plan(bsp.p, 2), 1.0), (collectives.broadcast.plan(bsp.p, 2), 8.0)
    seconds: float = collectives.together(bsp.machine, *plans).seconds
    ticket = collectives.allreduce.start(bsp, seconds, np.add)
    supersteps: int | None = ticket.supersteps
    total: float = ticket.value if ticket.done else ticket.finish()
    assert supersteps is None or total >= 0
    collectives.allgather(bsp, bsp.pid)
    collectives.allreduce(bsp, keys, np.add, order="fixed")
    collectives.bitonic_sort(bsp, bsp.pid)
    collectives.broadcast(bsp, keys, root=1)
    collectives.broadcast_items(bsp, keys)
    collectives.duplicate(bsp, ["a"], [2])
    collectives.gather(bsp, bsp.pid)
    collectives.prefix(bsp, bsp.pid, operator.add)
    collectives.prefix_2d(bsp, keys, np.maximum)
    collectives.reduce(bsp, bsp.pid, max)
    collectives.sample_sort(bsp, keys)
    collectives.scatter(bsp, list(range(bsp.p)))
    collectives.sort(bsp, keys, algorithm="bitonic")
    collectives.total_exchange(bsp, list(range(bsp.p)))
    collectives.allgather_blocks(bsp, keys)
    collectives.gather_blocks(bsp, keys, root=0)
    collectives.scatter_blocks(bsp, keys, root=0)
    collectives.total_exchange_blocks(bsp, keys)
    collectives.exclusive_prefix(bsp, bsp.pid, np.add)
    collectives.exclusive_prefix(bsp, bsp.pid, np.add, order="fixed")
    collectives.segmented_prefix(bsp, keys, keys > 3, np.add)
    collectives.reduce_scatter(bsp, keys, np.add)
    collectives.balanced_sort(bsp, keys, out=keys)
    collectives.argsort(bsp, keys)
    collectives.unique(bsp, keys, return_counts=True, return_inverse=True)
    collectives.group_by(bsp, keys, keys, np.maximum)
    least, index = collectives.argmin(bsp, keys)
    collectives.argmax(bsp, np.array([least, index]))
    collectives.top_k(bsp, keys, k=2, largest=False, out=keys[:2])
    collectives.histogram(bsp, keys, bins=4, out=keys[:4])
    collectives.random_permutation(bsp, 8, seed=1)
    ebsp.gossip(bsp, bsp.pid)
    ebsp.items_broadcast(bsp, keys)
    ebsp.mesh_broadcast(bsp, "text")
    ebsp.personalised_broadcast(bsp, list(range(bsp.p)))
    ebsp.tree_broadcast(bsp, "text")
    grid: ebsp.Grid = ebsp.stencil_grid(bsp.machine, (8, 8))
    ebsp.stencil(bsp, np.zeros((8, 8))[grid.block((8, 8), bsp.pid)], steps=1, shape=(8, 8))
    other: ebsp.Grid = ebsp.matrix_multiplication_grid(bsp.machine, (8, 8, 8))
    block = np.ones((8, 8))[other.block((8, 8), bsp.pid)]
    ebsp.matrix_multiplication(bsp, block, block, (8, 8, 8))
    baselines.bitonic_sort_few(bsp, bsp.pid, levels=1)
    baselines.broadcast_one_at_a_time(bsp, [1, 2])
    baselines.prefix_pipelined(bsp, [1, 2], operator.add)


def saving(bsp: pybsp.BSP) -> int:
    """Checkpoints."""
    state: dict[str, int] = bsp.restore({"step": 0})
    bsp.sync()
    bsp.checkpoint(state)
    return state["step"]


def riding(bsp: pybsp.BSP) -> int:
    """Collectives that ride: the types of values are those of the plain calls."""
    total: pybsp.Ride[Any] = collectives.allreduce.start(bsp, 1.0, np.add, degree=max(bsp.p, 2))
    values: pybsp.Ride[list[Any] | None] = collectives.gather.start(bsp, bsp.pid)
    grid: pybsp.Grid = bsp.grid(1, bsp.p)
    row: pybsp.Group = grid.row
    row.send(0, collectives.broadcast(row, bsp.pid, root=grid.at(0, 0)))
    pair: pybsp.Ride[Any] = collectives.allreduce.start(bsp.group([bsp.pid]), 1.0, np.add)
    pair.finish()
    spread = collectives.broadcast.start(bsp, bsp.pid, like=0)
    left: int | None = spread.supersteps
    while not (total.done and values.done and spread.done):
        bsp.sync()
    found = values.value
    text: str = f"{total.name} {total.value} {left}"
    parts: tuple[NDArray[Any], NDArray[np.int64]] = collectives.allgather_blocks.start(bsp, np.ones(2)).finish()
    return len(text) + int(parts[1].sum()) + (0 if found is None else len(found))


def program(proc: logp.Processor) -> int:
    """A LogP program."""
    if proc.pid > 0:
        proc.compute(3)
        proc.send(0, proc.pid)
        return proc.time
    found: logp.Message | None = proc.poll()
    return proc.recv().source + (0 if found is None else found.source)


def before() -> float:
    """Machines and costs, before anything runs."""
    machine = pybsp.BSPMachine(p=16, g=1e-8, l=1e-5, r=1e9)
    machine.save("machine.json")
    figures_of: int = machine.own_p or machine.p
    array = pybsp.EBSPMachine.linear_array(16 if machine.busy else figures_of)
    cost: pybsp.Cost = collectives.broadcast.cost(machine, words=1000) + ebsp.gossip.cost(array)
    step: pybsp.Superstep = cost[0]
    plan: collectives.Plan = collectives.broadcast.plan(8, degree=4)
    first: collectives.Step = plan[0]
    return cost.seconds + machine.predict(step) + len(first) + pybsp.BSPMachine.load("machine.json").g


def everything() -> None:
    """Runs of all kinds."""
    results: list[float] = pybsp.run(main, 10, router="two-phase", timeout=60.0)
    simulation: pybsp.Simulation = pybsp.simulate(main, 10, p=4, router=routing.hypercube_router(packet=256))
    pybsp.simulate(together, p=4, router=routing.two_phase_router(seed=1))
    pybsp.simulate(main, 10, p=2, router=routing.multibutterfly_router())
    pybsp.simulate(riding, p=4)
    found: pybsp.Predictions = pybsp.predict(main, 10, p=[1, 2, 4], machine=pybsp.BSPMachine.nominal(2).scaled(g=0.5))
    last: pybsp.Prediction = simulation.ledger.predict(found.machine, faster=2)
    print(found.speedup.max(), found[1:].to_dict(), found[-1].labels, last.time)
    with pybsp.raises_on(0, ValueError, match="hot"), pybsp.ranks(2, hosts=["a", "b"]) as ranks:
        kept: pybsp.Ranks = ranks
        execution: pybsp.Execution = kept.run(main, 10)
    print(execution.results, execution.ledger.h, pybsp.start_ranks(main, 10, n=2, router="direct").results)
    failing = pybsp.simulate(saving, p=2, failures=pybsp.Failures(mtbf=100, checkpoint=1, restart=1), every="1min")
    print(failing.failures, failing.expected, [one.seconds for one in failing.ledger.checkpoints])
    with pybsp.attach(MPI.COMM_WORLD, checked=True) as bsp:
        bsp.sync()
    machine = pybsp.LogPMachine(p=4, L=16, o=1, G=4)
    chosen: logp.Program = program
    moves: int = logp.run(program, machine=machine)
    traced: logp.Traced[int] = logp.run(program, machine=machine, trace=True)
    timeline: logp.Timeline | None = traced.timeline
    if timeline is not None:
        messages: logp.Messages = logp.predict(timeline, machine).messages()
        assert len(messages.source) == timeline.sent.sum()
    one: logp.Simulation = logp.simulate(chosen, machine=machine, schedule=logp.Schedule())
    trace: logp.Trace = one.trace
    goal: logp.Goal = logp.Goal.of(trace)
    check: logp.Check = logp.check(program, machine=machine)
    pybsp.simulate(routing.logp_on_bsp(program, machine), p=4, router=routing.logp_router("offline"))
    relation: routing.Relation = relations.bit_reversal(16, h=4)
    colours = routing.decompose(relation.sources, relation.destinations, 16)
    cube: networks.Network = networks.network("hypercube", 16)
    traffic: networks.Traffic = cube.route(relation, two_phase=True)
    print(
        results,
        simulation.time,
        moves,
        trace.p,
        goal.simulate(machine),
        check.ok,
        colours.max(),
        traffic.steps,
        before(),
    )


if __name__ == "__main__":
    everything()
