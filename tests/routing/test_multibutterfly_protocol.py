"""The multibutterfly protocol: held equal to the letter of the paper, its lemmas, and where it blocks."""

from __future__ import annotations

import re
import time
from functools import lru_cache

import numpy as np
import pytest

from pybsp.benchmarks.studies.theory.adversary import cases, colliding, funnel
from pybsp.errors import RoutingError, UsageError
from pybsp.routing import multibutterfly_router
from pybsp.routing.multibutterfly import (
    BlockedError,
    Lemmas,
    LocalWiring,
    Multibutterfly,
    Parameters,
    Protocol,
    h_bar,
    route,
    share,
)
from pybsp.routing.relation import Relation
from pybsp.routing.relations import all_to_one, bit_reversal, one_to_all, permutation, random_relation

from .multibutterfly_reference import Reference

SMALLEST_L = {10: 128, 12: 64, 16: 64, 20: 32, 40: 32}  # by d, as the study finds it for N = 1024


cached = lru_cache(Multibutterfly)


# -- to the letter


def same_in_every_stage(network: Multibutterfly, relation: Relation, L: int, parameters: Parameters) -> bool:
    """All counters, flags and buffers are those of the reference; whether everything arrives."""
    sources, ends = relation.sources * L, relation.destinations * L
    reference = Reference(network.heads, sources.tolist(), ends.tolist(), relation.h, *parameters)
    protocol = Protocol(LocalWiring(network), relation.h, parameters, sources, ends, np.arange(len(relation)))

    def compare(protocol: Protocol) -> None:
        if protocol.stage:
            reference.stage()
        node = 0
        for c in range(network.n + 1):
            for r in range(network.N):
                assert (protocol.g1[node], protocol.g2[node]) == (reference.g1[r, c], reference.g2[r, c])
                for s in (0, 1):
                    at, port = 2 * node + s, reference.ports[r, c, s]
                    full = len(port.buffers)
                    assert (protocol.W[at], protocol.F[at], protocol.top[at]) == (port.W, port.F, full)
                    assert protocol.got[at] == full - len(port.ghosts())
                node += 1

    try:
        outcome = protocol.run(compare)
    except BlockedError:
        assert protocol.left == reference.arrived.count(-1) > 0
        return False
    stages = np.full(len(relation), -1)
    stages[outcome.numbers] = outcome.stage
    assert stages.tolist() == reference.arrived
    return True


@pytest.mark.whole
@pytest.mark.parametrize(
    "parameters", [(8, 50, 3, False), (8, 1, 1, False), (8, 2, 2, True), (16, 50, 3, False)], ids=str
)
@pytest.mark.parametrize(
    ("N", "d", "L", "h"),
    [(1, 16, 1, 2), (2, 17, 1, 3), (4, 16, 1, 3), (16, 18, 4, 1), (16, 16, 2, 5), (32, 24, 1, 9)],
)
def test_every_stage_is_as_in_a_simulation_of_single_buffers(
    N: int, d: int, L: int, h: int, parameters: tuple[int, int, int, bool]
) -> None:
    for relation in (permutation(N // L, h, 1), funnel(N // L, h, 2)):
        same_in_every_stage(Multibutterfly(N, d, 3), relation, L, Parameters(*parameters))


@pytest.mark.whole
@pytest.mark.parametrize("seed", [0, 1])
def test_so_it_is_where_some_messages_arrive_and_others_are_blocked(seed: int) -> None:
    network = Multibutterfly(128, 16, seed)
    ends = [same_in_every_stage(network, permutation(8, h, 1), 16, Parameters(Z=1)) for h in (1, 4)]
    ends += [same_in_every_stage(network, random_relation(8, 4, s), 16, Parameters(Z=1, Y=1)) for s in (1, 2)]
    assert set(ends) == {True, False}


# -- messages that wait


def bundled(N: int, d: int, seed: int) -> Multibutterfly:
    """Edges of small splitters in bundles of eight parallel ones: inputs then wait for each other one after another."""
    network = Multibutterfly(N, d, seed)
    rng = np.random.default_rng(seed)
    for c in range(network.n):
        sides = network.heads[c].reshape(1 << c, N >> c, 2, d).swapaxes(1, 2)
        bundles = rng.permuted(np.sort(sides.reshape(1 << c, 2, -1), axis=2)[:, :, ::8], axis=2)
        network.heads[c] = bundles.repeat(8, axis=2).reshape(sides.shape).swapaxes(1, 2).reshape(N, 2 * d)
    return network


def some(p: int, h: int, senders: int, last: int, seed: int) -> Relation:
    """Random processors send h packets each to a random one before the last."""
    rng = np.random.default_rng(seed)
    sources, destinations = rng.permutation(p)[:senders], rng.permutation(last)[:senders]
    return Relation(sources.repeat(h), destinations.repeat(h), p)


@pytest.mark.parametrize(
    ("N", "d", "seed", "senders", "Y", "stages", "shares"),
    [
        (16, 16, 125, 6, 3, 5, [3 / 4, 2 / 4, 1 / 4]),
        (16, 16, 125, 6, 2, 5, [3 / 4, 2 / 4, 1 / 4]),
        (16, 16, 23, 6, 1, 6, [2 / 3, 1 / 3]),
        (8, 16, 145, 4, 1, 5, [2 / 3, 1 / 3]),
    ],
)
def test_messages_that_wait_for_some_stages_arrive_in_more_than_log_n(
    N: int, d: int, seed: int, senders: int, Y: int, stages: int, shares: list[float]
) -> None:
    network, relation, parameters = bundled(N, d, seed), some(N, 4, senders, N, seed), Parameters(Z=1, Y=Y)
    assert same_in_every_stage(network, relation, 1, parameters)
    lemmas = Lemmas()
    outcome = route(network, relation, 1, parameters, lemmas)
    assert outcome.stages == stages > network.n
    assert len(np.unique(outcome.stage)) > 1
    assert [share for share in lemmas.decay[1:] if share] == pytest.approx(shares)
    # Lemma 2 holds with this rho, and with none less; Theorem 2's stages with it.
    rho = max(share ** (1 / age) for age, share in enumerate(shares, 1))
    route(network, relation, 1, parameters, Lemmas(1.001 * rho))
    with pytest.raises(RoutingError, match="Lemma 2"):
        route(network, relation, 1, parameters, Lemmas(0.999 * rho))
    assert outcome.stages <= network.n + 1 + network.n / np.log2(1 / rho)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("counters", "more", "lemma"),
    [
        ("W", 1000, "stage 0: Lemma 3: W at a splitter's input: at most 32, got 1002"),
        ("got", 1000, "stage 0: Theorem 2: messages through a node: at most 64, got 2001"),
        ("top", 1000, "stage 0: section 4: full buffers of a port, less W: at most -1, got 999"),
        ("g1", 1, "stage 1: section 3: nodes without g' + g'' ghosts on either side: at most 0, got 128"),
    ],
)
def test_counters_that_a_lemma_rules_out_are_an_error(counters: str, more: int, lemma: str) -> None:
    lemmas = Lemmas()

    def spoiled(protocol: Protocol) -> None:
        getattr(protocol, counters)[:] += more
        lemmas(protocol)

    with pytest.raises(RoutingError, match=re.escape(f"multibutterfly, beginning of {lemma}") + "$"):
        route(cached(64, 20), permutation(2), 32, lemmas=spoiled)  # type: ignore[arg-type]


@pytest.mark.whole
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_in_random_networks_those_who_wait_catch_up_if_ghosts_go_faster_than_columns_begin(seed: int) -> None:
    network, relation = cached(256, 20, seed), some(64, 8, 8, 32, seed)
    lemmas = Lemmas()
    assert route(network, relation, 4, Parameters(Z=1), lemmas).stages == network.n
    assert lemmas.decay[1] > 0
    assert same_in_every_stage(network, relation, 4, Parameters(Z=1))
    with pytest.raises(BlockedError):  # Theorem 2 asks for Y > 2
        route(network, relation, 4, Parameters(Z=1, Y=1))


# -- the lemmas and Theorem 2


def test_the_router_takes_a_network_that_was_found_to_work() -> None:
    router = multibutterfly_router()
    assert SMALLEST_L[router.d] == router.L
    assert router.stream >= router.packet  # streams save nothing


@pytest.mark.whole
@pytest.mark.parametrize("d", sorted(SMALLEST_L))
@pytest.mark.parametrize("h", [1, 2, 7, 64])
def test_lemmas_and_delivery_at_the_smallest_l(d: int, h: int) -> None:
    L = SMALLEST_L[d]
    for seed in range(2):
        network = cached(1024, d, seed)
        for _, relation in cases(network, L, h):
            lemmas = Lemmas(8 / (32 * d))
            outcome = route(network, relation, L, lemmas=lemmas)
            # Theorem 2, with Lemma 2's rho: at most log N + log N / log(1/rho) until nothing is blocked, then log N.
            assert outcome.stages <= 2 * network.n + 1
            assert h_bar(relation.h, d, 8) >= outcome.W
            assert outcome.through.max() <= 2 * h_bar(relation.h, d, 8)
            assert sorted(outcome.numbers.tolist()) == list(range(len(relation)))


@pytest.mark.whole
@pytest.mark.parametrize("p", [1, 2, 3, 5, 7, 16])
def test_any_number_of_ports_and_any_relation(p: int) -> None:
    network = cached(512, 20, 1)
    nothing = Relation([], [], p)
    for relation in (nothing, one_to_all(p, 3), all_to_one(p, 2), random_relation(p, 5, 1), permutation(p)):
        outcome = route(network, relation, 32, lemmas=True)
        np.testing.assert_array_equal(outcome.rows, np.sort(relation.destinations) * 32)
        assert outcome.stages == (network.n if len(relation) else 0)
        assert (np.diff(outcome.rows) >= 0).all()


def test_batches_below_r_are_one_message() -> None:
    # h = 1: a port with one message has W = 2 > h, and asks for batches of 2/8, that count 1.
    network = Multibutterfly(256, 16, 0)
    outcome = route(network, permutation(8, 1, 1), 32, lemmas=True)
    assert outcome.W == 2
    assert outcome.through.max() == 1


def test_the_lemmas_are_looked_at() -> None:
    network = Multibutterfly(256, 16, 0)
    with pytest.raises(RoutingError, match=r"Lemma 2: sets S\(x\) beyond 0.0156"):
        route(network, permutation(64, 4, 1), 4, lemmas=True)
    lemmas = Lemmas()
    with pytest.raises(BlockedError):
        route(network, permutation(64, 4, 1), 4, lemmas=lemmas)
    assert lemmas.decay[1] == 1
    assert lemmas.worst > 1 / 32

    def too_heavy(protocol: Protocol) -> None:
        protocol.W[3] = 2 * h_bar(4, 16, 8)
        Lemmas()(protocol)

    rows = np.zeros(4, np.int64)
    with pytest.raises(RoutingError, match="stage 0: Lemma 3: W at a splitter's input: at most 128, got 256"):
        Protocol(LocalWiring(network), 4, Parameters(), rows, rows, np.arange(4)).run(too_heavy)


@pytest.mark.whole
def test_a_few_random_permutations_block_at_l_32_and_none_at_64() -> None:
    # Two messages of four destinations go to one side of 64 outputs; of 20 edges each, 13 or more end at the same.
    network = cached(4096, 20, 5000)
    relation = colliding(network, 32, 1)
    with pytest.raises(BlockedError, match="2 messages are not delivered"):
        route(network, relation, 32)
    route(network, colliding(network, 64, 1), 64, lemmas=True)


def test_below_half_of_r_lemma_3_is_not_covered() -> None:
    # R batches of one message are more than W where W < R: asked for by h = 1 and W = 2 to 8 with R = 16.
    network = cached(64, 40, 0)
    with pytest.raises(RoutingError, match="stage 5: Lemma 3: W at a splitter's input: at most 16, got 32"):
        route(network, permutation(4), 16, Parameters(16), Lemmas())
    with pytest.raises(BlockedError):
        route(network, permutation(4, 8), 16, Parameters(16), Lemmas())


@pytest.mark.whole
@pytest.mark.parametrize("h", [1, 7])
def test_the_printed_order_of_the_sides_delivers_at_the_smallest_l_too(h: int) -> None:
    network = cached(256, 20, 0)
    for _, relation in cases(network, 32, h):
        assert route(network, relation, 32, Parameters(in_turn=True), lemmas=True).stages == network.n


# -- all rows active


@pytest.mark.whole
def test_with_all_rows_active_a_permutation_blocks_for_ever() -> None:
    network = Multibutterfly(256, 16, 0)
    with pytest.raises(BlockedError, match=r"stage 8 changed nothing, and 256 messages are not delivered") as error:
        route(network, permutation(256, 1, 1))
    assert (error.value.stage, error.value.left) == (8, 256)
    # It is the protocol that does not end: in 100 more stages no flag is set, and no message moves.
    sources = np.arange(256)
    ends = permutation(256, 1, 1).destinations
    protocol = Protocol(LocalWiring(network), 1, Parameters(), sources, ends, sources)
    changes = [protocol.phase_1() + protocol.phase_2() for protocol.stage in range(108)]
    assert not any(changes[8:])
    assert protocol.left == 256


@pytest.mark.parametrize("h", [1, 4])
def test_all_rows_can_send_where_l_of_them_share_a_port(h: int) -> None:
    network = Multibutterfly(256, 20, 0)
    for relation in (permutation(256, h, 1), random_relation(256, h, 2), bit_reversal(256, h)):
        shared = share(relation, 32)
        assert (shared.p, shared.h) == (8, 32 * h)
        outcome = route(network, shared, 32, lemmas=True)
        assert len(outcome.numbers) == 256 * h


@pytest.mark.whole
def test_n_4096_and_h_64_take_less_than_a_minute() -> None:
    start = time.process_time()
    network = Multibutterfly(4096, 20, 0)
    for relation in (random_relation(128, 64), share(random_relation(4096, 64), 32)):
        assert route(network, relation, 32).stages == 12
    assert time.process_time() - start < 60


# -- what does not fit


def test_what_does_not_fit_is_an_error() -> None:
    network = Multibutterfly(64, 16, 0)
    with pytest.raises(RoutingError, match=r"N >= L\*p, got N = 64, L = 32, p = 3; p to 2 would fit, or N = 128"):
        route(network, permutation(3), 32)
    for L in (0, 1.5):
        with pytest.raises(UsageError, match=f"multibutterfly: L: expected a whole number of at least 1, got {L}"):
            route(network, permutation(3), L)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match=f"share: L: expected a whole number of at least 1, got {L}"):
            share(permutation(3), L)  # type: ignore[arg-type]
    for R in (4, 12, 8.0):
        with pytest.raises(UsageError, match=f"R: expected a power of two greater than 4, got {R}"):
            route(network, permutation(2), 32, Parameters(R=R))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="R: expected at most d = 16 edges, got 32"):
        route(network, permutation(2), 32, Parameters(R=32))
    for Z in (0, 1.5):
        with pytest.raises(UsageError, match=f"Z, Y: expected whole numbers of at least 1, got {Z} and 3"):
            route(network, permutation(2), 32, Parameters(Z=Z))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("h", "d", "R", "expected"), [(1, 40, 8, 64), (64, 40, 8, 4096), (3, 12, 16, 16), (1, 1, 8, 2)]
)
def test_h_bar_is_the_smallest_power_of_two_greater_than_its_bound(h: int, d: int, R: int, expected: int) -> None:
    assert h_bar(h, d, R) == expected
    assert expected / 2 <= 4 * d * h / (R - 4) < expected
