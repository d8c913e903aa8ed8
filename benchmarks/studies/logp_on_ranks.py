"""The LogP layer on MPI ranks: what a message takes, what the capacity costs, and many to one on an emulated cluster.

    python -m pybsp.benchmarks.studies.logp_on_ranks messages [--output FILE]
    python -m pybsp.benchmarks.studies.logp_on_ranks trace [--output FILE]
    python -m pybsp.benchmarks.studies.logp_on_ranks many-to-one -n 8 --latency 2000 --rate 200 [--output FILE]

`messages` and `trace` run under mpiexec here, all variants in turns: medians, the 5th to 95th percentile, and the ratio
round by round: to raw mpi4py `Send` and `Recv` of the same, where both sides fill what they send and read what they
received, or to no capacity; and of runs with a trace to those without one (wanted: at most 1.1). Two of three ranks
play ping-pong too, while the third waits: with two alone "global" is "per-pair", as a destination has one sender.

`many-to-one` runs on emulated hosts (`--latency` in microseconds, `--rate` in Mbit/s), or without these under mpiexec
here. All send to processor 0, with pace and the global capacity; L is `--held` latencies, as a credit is out for two
and the hosts' own time, and G in turn each of `--gaps` latencies. Messages in flight are counted by the clock, which
all hosts share: from the call of MPI that sends one to the moment at which the destination has it.
"""

from __future__ import annotations

import array
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from rich.table import Table

from pybsp import LogPMachine, logp
from pybsp.logp.departures import Departures
from pybsp.logp.ranks import RankProcessor

from .frame import Study, in_turns, on_ranks, spread, table

TURNS = 2000  # of a ping-pong
FLOOD = 20_000
STEP = 1e-6
CAPACITY = 4  # of a flood, and 64

Sample = Callable[[], float]  # runs once; seconds of an operation on this rank


# -- messages ----------------------------------------------------------------------------------------------------------


def ping_pong(proc: logp.Processor) -> float:
    """Seconds of a turn."""
    if proc.pid > 1:
        return 0.0
    other, value = 1 - proc.pid, 0.5
    if proc.pid == 1:
        proc.send(other, proc.recv().payload)  # both are there
    else:
        proc.send(other, value)
        proc.recv()
    start = time.perf_counter()
    if proc.pid == 0:
        for _ in range(TURNS):
            proc.send(1, value)
            value = proc.recv().payload
    else:
        for _ in range(TURNS):
            proc.send(0, proc.recv().payload)
    return (time.perf_counter() - start) / TURNS


def raw_ping_pong(comm: Any) -> float:
    """The same with Send and Recv."""
    from mpi4py import MPI

    if comm.rank > 1:
        return 0.0
    out, into = array.array("d", [0.0]), array.array("d", [0.0])
    sends, receives, other = [out, 1, MPI.DOUBLE], [into, 1, MPI.DOUBLE], 1 - comm.rank
    value = 0.5
    comm.Sendrecv(sends, other, 0, receives, other, 0)
    start = time.perf_counter()
    if comm.rank == 0:
        for _ in range(TURNS):
            out[0] = value
            comm.Send(sends, other)
            comm.Recv(receives, other)
            value = into[0]
    else:
        for _ in range(TURNS):
            comm.Recv(receives, other)
            value = into[0]
            out[0] = value
            comm.Send(sends, other)
    return (time.perf_counter() - start) / TURNS


def flood(proc: logp.Processor) -> float:
    """Seconds of a message of many."""
    start = time.perf_counter()
    if proc.pid == 0:
        for number in range(FLOOD):
            proc.send(1, number)
        proc.recv()
    elif proc.pid == 1:
        total = sum(proc.recv().payload for _ in range(FLOOD))
        proc.send(0, total)
    return (time.perf_counter() - start) / FLOOD


def raw_flood(comm: Any) -> float:
    """The same with Send and Recv."""
    from mpi4py import MPI

    out, into = array.array("q", [0]), array.array("q", [0])
    sends, receives = [out, 1, MPI.INT64_T], [into, 1, MPI.INT64_T]
    start = time.perf_counter()
    if comm.rank == 0:
        for number in range(FLOOD):
            out[0] = number
            comm.Send(sends, 1)
        comm.Recv(receives, 1)
    else:
        total = 0
        for _ in range(FLOOD):
            comm.Recv(receives, 0)
            total += into[0]
        out[0] = total
        comm.Send(sends, 0)
    return (time.perf_counter() - start) / FLOOD


def all_to_first(proc: logp.Processor) -> float:
    """Seconds of a message of many, which all others send to processor 0."""
    start = time.perf_counter()
    if proc.pid:
        for number in range(FLOOD):
            proc.send(0, number)
    else:
        for _ in range(FLOOD * (proc.p - 1)):
            proc.recv()
    return (time.perf_counter() - start) / (FLOOD * (proc.p - 1))


def measured(part: str, rounds: int) -> dict[str, Any]:
    """Samples of all variants of `messages` or `trace`, seconds, in turns; on ranks."""
    logp.run(lambda _: None)  # loads MPI, as the layer wants it
    from mpi4py import MPI

    comm = MPI.COMM_WORLD.Dup()

    def timed(sample: Sample) -> float:
        logp.run(lambda _: None)  # all are here: ranks that would wait in a collective of MPI's would spin
        seconds = sample()
        return float(comm.bcast(seconds, 0)) if comm.size == 2 else seconds

    variants = messages(comm) if part == "messages" else traced(comm.size)
    return in_turns({name: partial(timed, sample) for name, sample in variants.items()}, rounds)


def messages(comm: Any) -> dict[str, Sample]:
    """With each capacity, and beside raw mpi4py."""
    few, many = (LogPMachine(comm.size, 2 * capacity, 1, 2, step=STEP) for capacity in (CAPACITY, 16 * CAPACITY))
    found: dict[str, Sample] = {"ping-pong, raw": partial(raw_ping_pong, comm)}
    for capacity in ("per-pair", None, "global"):
        found[f"ping-pong, {capacity}"] = partial(logp.run, ping_pong, machine=few, capacity=capacity)
    if comm.size == 2:
        found["flood, raw"] = partial(raw_flood, comm)
        for machine in (few, many):
            sample = partial(logp.run, flood, machine=machine, capacity="per-pair")
            found[f"flood, per-pair, {machine.capacity}"] = sample
        found["flood, None"] = partial(logp.run, flood, machine=many, capacity=None)
        return found
    for name, program in (("lone sender", flood), ("many to one", all_to_first)):
        for capacity in (None, "per-pair", "global", "window"):
            found[f"{name}, {capacity}"] = partial(logp.run, program, machine=few, capacity=capacity)
    return found


def traced(p: int) -> dict[str, Sample]:
    """With a trace, and without one."""
    machine = LogPMachine(p, 2 * CAPACITY, 1, 2, step=STEP)
    programs: list[tuple[str, Callable[[logp.Processor], float], tuple[str | None, ...]]]
    programs = [("ping-pong", ping_pong, ("per-pair", None) if p == 2 else ("global",))]
    if p == 3:
        programs.append(("many to one", all_to_first, (None, "per-pair", "global")))
    found: dict[str, Sample] = {}
    for name, program, capacities in programs:
        for capacity in capacities:
            run = partial(logp.run, program, machine=machine, capacity=capacity)
            found[f"{name}, {capacity}"] = run
            found[f"{name}, {capacity}, traced"] = lambda run=run: run(trace=True).result  # type: ignore[misc]
    return found


TIMES = "microseconds: a turn of a ping-pong, a message of {}; median (5th to 95th percentile)"


def messages_table(found: dict[str, dict[str, Any]]) -> Table:
    """For each number of ranks, each variant, and its ratio to the raw one."""
    rows = []
    for p, samples in found.items():
        for name, seconds in samples.items():
            what = name.split(",")[0]
            against = f"{what}, raw" if f"{what}, raw" in samples else f"{what}, None"
            ratio = "" if name == against else spread(np.divide(seconds, samples[against]))
            bar = "at most 2" if (name, p) in (("ping-pong, per-pair", "2"), ("many to one, global", "3")) else ""
            rows.append((name, p, spread(seconds, 1e-6), ratio, bar))
    return table(TIMES.format("a flood"), "what | p | time | ratio to raw mpi4py | bar", rows)


def traced_table(found: dict[str, dict[str, Any]]) -> Table:
    """For each number of ranks, each program: with a trace, without one, and the ratio."""
    rows = []
    for p, samples in found.items():
        for name, seconds in samples.items():
            if (with_trace := samples.get(f"{name}, traced")) is not None:
                times = spread(seconds, 1e-6), spread(with_trace, 1e-6), spread(np.divide(with_trace, seconds))
                rows.append((name, p, *times))
    return table(TIMES.format("many"), "what | p | without a trace | with it | ratio", rows)


# -- many to one -------------------------------------------------------------------------------------------------------


@contextmanager
def noted() -> Iterator[tuple[array.array[float], array.array[float]]]:
    """The moments at which messages are handed to MPI, and at which they have arrived, on this rank."""
    submissions, arrivals = array.array("d"), array.array("d")
    submit, arrive, clock = Departures.submit, RankProcessor._arrive, time.perf_counter

    def noting_submission(departures: Departures, dest: int, form: int, body: Any) -> None:
        submissions.append(clock())
        submit(departures, dest, form, body)

    def noting_arrival(proc: RankProcessor, source: int, form: int, body: Any) -> None:
        arrivals.append(clock())
        arrive(proc, source, form, body)

    Departures.submit = noting_submission  # type: ignore[assignment, method-assign]
    RankProcessor._arrive = noting_arrival  # type: ignore[assignment, method-assign]
    try:
        yield submissions, arrivals
    finally:
        Departures.submit, RankProcessor._arrive = submit, arrive  # type: ignore[method-assign]


def many_to_one(proc: RankProcessor, each: int) -> dict[str, Any]:
    """All send to processor 0, which looks whether all comes, in order."""
    if proc.pid:
        for number in range(each):
            proc.send(0, number)
        return {"stalls": proc.stalls, "stalled": proc.stalled_seconds, "granted": proc.credit_seconds}
    following = [0] * proc.p
    first = last = 0.0
    for number in range(each * (proc.p - 1)):
        source, payload = proc.recv()
        if payload != following[source]:
            raise RuntimeError(f"message {following[source]} of processor {source} was lost: {payload} came")
        following[source] += 1
        last = time.perf_counter()
        if number == 0:
            first = last
    return {"seconds": last - first, "most": proc.max_in_flight}


def cluster(latency: int, latencies: float, gaps: list[float], number: int) -> dict[str, Any]:
    """Many to one for each gap."""
    logp.run(lambda _: None)  # loads MPI, as the layer wants it
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    found: dict[str, Any] = {}
    for share in gaps:
        G = max(2, round(share * latency * 1e-6 / STEP))
        machine = LogPMachine(comm.size, math.ceil(latencies * latency * 1e-6 / STEP), 1, G, step=STEP)
        each = -(-number // max(1, comm.size - 1))
        with noted() as (submissions, arrivals):
            mine = logp.run(many_to_one, each, machine=machine, capacity="global", pace=True)
        logs = comm.gather((submissions.tolist(), mine))
        if logs is not None:
            sent = [moment for log, _ in logs[1:] for moment in log]
            count = each * (comm.size - 1)
            if len(sent) != count or len(arrivals) != count:
                raise RuntimeError(f"{count} messages: {len(sent)} were sent, {len(arrivals)} arrived")
            changes = sorted([(moment, 1) for moment in sent] + [(moment, -1) for moment in arrivals])
            found[str(share)] = {
                **{name: getattr(machine, name) for name in ("L", "G", "capacity")},
                "messages": count,
                "seconds": mine["seconds"],
                "in flight": int(np.cumsum([change for _, change in changes]).max()),
                "credits": mine["most"],
                **{name: sum(counters[name] for _, counters in logs[1:]) for name in ("stalls", "stalled")},
            }
    return found


def cluster_table(found: dict[str, Any], latency: int) -> Table:
    """For each gap: what came, how fast, and how many were in flight."""
    rows = []
    for one in found.values():
        every = 1e6 * one["seconds"] / (one["messages"] - 1)
        G, L = (one[name] * STEP * 1e6 for name in ("G", "L"))
        flight = f"{one['in flight']}{' ABOVE' if one['in flight'] > one['capacity'] else ''}"
        bound = max(G, 2 * latency / one["capacity"])
        stalled = one["stalls"] / one["messages"]
        rows.append((G, L, one["capacity"], flight, one["messages"], every, every / G, bound, stalled))
    head = "G [.4g] | L [.4g] | capacity | most in flight | messages | one message every [.1f] | of G [.3f] | "
    head += "bound [.4g] | stalled [.0%]"
    return table("many to one, microseconds", head, rows)


def main() -> None:
    """Start the ranks, and print what they found."""
    study = Study(__doc__, keep="--output")
    study.add_argument("part", choices=("messages", "trace", "many-to-one"))
    study.add_argument("-n", type=int, default=8, help="ranks of many-to-one")
    study.add_network()
    study.add_argument("--gaps", type=float, nargs="+", default=[0.5, 1 / 3, 0.25, 0.125], help="G, in latencies")
    study.add_argument("--held", type=float, default=3.0, help="L, in latencies")
    study.add_argument("--messages", type=int, default=10_000, help="for each gap")
    study.add_argument("--rounds", type=int, default=21, help="samples of each variant")
    options = study.begin()

    if options.part in ("messages", "trace"):
        found = {
            str(p): on_ranks(measured, options.part, options.rounds, n=p, network=study.network(p)) for p in (2, 3)
        }
        study.show(messages_table(found) if options.part == "messages" else traced_table(found))
    else:
        n, latency = options.n, options.latency or 100
        asked = (latency, options.held, options.gaps, options.messages)
        found = {str(n): on_ranks(cluster, *asked, n=n, network=study.network(n))}
        where = "under mpiexec, one host" if options.latency is None else f"-l {options.latency} -b {options.rate}"
        study.show(
            f"{n} ranks {where}",
            cluster_table(found[str(n)], latency),
            "bound: max(G, two latencies / capacity); stalled: messages that waited for capacity; none was lost",
        )
    study.end({"cores": os.cpu_count(), "found": found})


if __name__ == "__main__":
    main()
