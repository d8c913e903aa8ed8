"""Programs on simulated networks: the same results, and supersteps that take what the network takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pybsp
from pybsp import collectives
from pybsp.cli import main as main_of_command
from pybsp.errors import RoutingError, UsageError
from pybsp.on_network import Steps
from pybsp.routing import Relation, networks, relations


def exchange(bsp: pybsp.BSP, words: int) -> list[Any]:
    bsp.work(7 * bsp.pid)
    bsp.send((3 * bsp.pid + 1) % bsp.p, np.zeros(words))
    bsp.sync()
    return [message.source for message in bsp.inbox]


@pytest.mark.parametrize("name", ["hypercube", "2d-torus", "fat-tree", "2d-array"])
def test_a_superstep_takes_its_work_and_what_its_words_take_as_packets(name: str) -> None:
    p, words = 16, 5
    net = networks.network(name, p)
    pid = np.repeat(np.arange(p), words)
    target = (3 * pid + 1) % p
    moving = target != pid
    steps = net.route(Relation(pid[moving], target[moving], p)).steps
    done = pybsp.simulate(exchange, words, p=p, network=name)
    assert done.time == done.ledger[0].measured == 7 * (p - 1) + max(steps, net.diameter)
    assert done.ledger[0].predicted == 7 * (p - 1) + net.gamma * words + net.delta
    assert done.results == pybsp.simulate(exchange, words, p=p).results


def test_a_superstep_without_words_takes_a_barrier_and_one_word_can_take_no_less() -> None:
    cube = networks.Hypercube(32)
    assert pybsp.simulate(lambda bsp: bsp.sync(), network=cube).time == 5

    def one(bsp: pybsp.BSP) -> None:
        if bsp.pid == 0:
            bsp.send(1, 1.0)
        bsp.sync()

    assert pybsp.simulate(one, network=cube).time == 5


def test_a_ledger_its_file_and_what_shows_it_say_that_times_are_steps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def main(bsp: pybsp.BSP) -> tuple[str, str]:
        with bsp.split(0) as part:
            part.sync()
            of_part = part.ledger
        return bsp.ledger.network, of_part.network

    done = pybsp.simulate(main, network=networks.Hypercube(8))
    path, page = tmp_path / "ledger.json", tmp_path / "page.html"
    done.ledger.save(path)
    (loaded,) = pybsp.Ledger.load(path)
    assert {*done.results[0], done.ledger.network, loaded.network} == {"hypercube of 8"}
    assert loaded.to_dict() == done.ledger.to_dict()
    assert loaded.to_dict()["units"]["all times"] == "steps"
    steps = "Times are steps of the network (hypercube of 8): each s stands for one."
    assert main_of_command(["report", str(path)]) == 0
    printed = capsys.readouterr().out
    assert ", network hypercube of 8; " in printed
    assert printed.endswith(f"\n{steps}\n")
    assert main_of_command(["report", str(path), "--html", str(page)]) == 0
    assert steps in page.read_text()
    assert steps in loaded._repr_html_()
    plain = pybsp.simulate(lambda bsp: bsp.sync(), p=2).ledger
    assert (plain.network, plain.to_dict()["units"]["all times"]) == ("", "s")
    assert "Times are" not in plain._repr_html_()


def test_all_words_go_of_queues_puts_and_gets() -> None:
    path = networks.LinearArray(2)  # each word of one direction takes a step

    def main(bsp: pybsp.BSP) -> None:
        x, q = bsp.array(50), bsp.queue(np.int64)
        bsp.sync()
        other = 1 - bsp.pid
        if bsp.pid == 0:
            x.put(other, np.ones(20), at=slice(0, 20))
            q.send([other] * 10, np.arange(10))
        bsp.sync()
        x.get(other, at=slice(0, 30))
        bsp.sync()

    ledger = pybsp.simulate(main, network=path).ledger
    assert [record.measured for record in ledger] == [1, 30, 30]


def test_parts_are_routed_by_their_processors_of_the_whole_machine() -> None:
    path = networks.LinearArray(6)

    def main(bsp: pybsp.BSP) -> float:
        with bsp.split(bsp.pid % 3, bsp.pid) as part:
            part.send(1 - part.pid, np.zeros(4))
            before = part.time()
            part.sync()
            return float(part.time() - before)

    # Processors i and i + 3 send each other four words, over three links.
    assert pybsp.simulate(main, network=path).results == [6.0] * 6


def test_what_was_carried_is_a_trace_whose_packets_take_as_long() -> None:
    def main(bsp: pybsp.BSP) -> None:
        for work in (4, 0.5, 0):
            bsp.work(work * bsp.pid)
            bsp.send((bsp.pid + 7) % bsp.p, np.zeros(9))
            bsp.sync()

    steps = Steps(networks.Torus((4, 4)))
    done = pybsp.simulate(main, network=steps)
    trace = steps.injections()
    first, second, third = (record.measured for record in done.ledger)
    assert trace.packets == 3 * 16 * 9
    assert sorted(set(trace.times.tolist())) == [4 * 15, np.ceil(first + 7.5), np.ceil(first + second)]
    moved = networks.flow(steps.network, trace)
    assert moved.steps == np.ceil(first + second) + third
    # The next program is another one; the same p is not asked for again.
    pybsp.simulate(lambda bsp: bsp.sync(), network=steps)
    with pytest.raises(UsageError, match="expected one or more relations"):
        steps.injections()


def test_collectives_on_a_network_choose_by_its_parameters() -> None:
    def main(bsp: pybsp.BSP) -> Any:
        return collectives.allreduce(bsp, np.arange(64) + bsp.pid, np.add)[0]

    for name in ("hypercube", "2d-array", "3d-torus"):
        done = pybsp.simulate(main, p=64, network=name)
        assert done.results == [64 * 63 // 2] * 64
        assert done.ledger.machine == pybsp.BSPMachine(
            p=64, g=networks.network(name, 64).gamma, l=networks.network(name, 64).delta, r=1.0
        )
        assert done.time == sum(record.measured for record in done.ledger)


def test_what_cannot_be_is_an_error() -> None:
    with pytest.raises(RoutingError, match="p must be a power of two, got 12"):
        pybsp.simulate(exchange, 1, p=12, network="hypercube")
    with pytest.raises(RoutingError, match=r"network: name: expected one of .*, got 'mobius'"):
        pybsp.simulate(exchange, 1, p=12, network="mobius")
    with pytest.raises(RoutingError, match="argument network: expected one of p = 8 processors, got <hypercube of 16>"):
        pybsp.simulate(exchange, 1, p=8, network=networks.Hypercube(16))
    for wrong in (16, relations, Relation([0], [0], 1)):
        with pytest.raises(UsageError, match="argument network: expected a network or the name of one"):
            pybsp.simulate(exchange, 1, p=1, network=wrong)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match='argument router: expected "direct" where a network routes'):
        pybsp.simulate(exchange, 1, p=8, network="hypercube", router="two-phase")
    with pytest.raises(UsageError, match="argument measure: expected False where a network routes"):
        pybsp.simulate(exchange, 1, p=8, network="hypercube", measure=True)
    with pytest.raises(UsageError, match=r"argument network: expected it to be for pybsp.simulate alone"):
        pybsp.simulate(lambda bsp, network: network, p=8, network="hypercube")
