"""Plan and Step: a schedule that can be looked at, and what it is charged for."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybsp import BSP, BSPMachine, UsageError, collectives, simulate
from pybsp.collectives import baselines, broadcast, ebsp
from pybsp.collectives.plan import Plan, Step, joined, to_all
from pybsp.machines.cost import Superstep

MESSAGES = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=40
)


def step_of(messages: list[tuple[int, int, int, int]]) -> Step:
    sources, dests, first, sizes = np.array(messages).T
    return Step.of(sources, dests, first, first + sizes)


@given(MESSAGES)
def test_a_step_lists_its_messages_by_sender_and_by_receiver(messages: list[tuple[int, int, int, int]]) -> None:
    step = step_of(messages)
    others = [(s, d, range(a, a + n)) for s, d, a, n in messages if s != d]
    assert len(step) == len(others)
    assert sorted(step.messages(), key=repr) == sorted(others, key=repr)
    assert [m[:2] for m in step.messages()] == sorted(m[:2] for m in others)
    for pid in range(12):
        sent = [(d, items.start, items.stop) for s, d, items in step.messages() if s == pid]
        received = [(s, items.start, items.stop) for s, d, items in step.messages() if d == pid]
        assert step.sends(pid) == sent
        assert step.receives(pid) == received


@given(MESSAGES, st.sampled_from([1, 2, 3, 0.125, 0.5, 1.25, 7.0]))
def test_a_step_is_charged_for_whole_words_of_each_message(
    messages: list[tuple[int, int, int, int]], words: float
) -> None:
    step = step_of(messages)
    out, into, sent, received = (np.zeros(10, int) for _ in range(4))
    far = 0
    for s, d, items in step.messages():
        size = -(-len(items) * round(8 * words) // 8)
        out[s] += size
        into[d] += size
        sent[s] += 1
        received[d] += 1
        far = max(far, abs(s - d))
    expected = Superstep(out.max(), into.max(), max(sent.max(), received.max()), out.sum(), 0.0, far)
    assert step.counted(words) == expected
    assert joined(10, [step]).counted(words) == (expected,)


def test_messages_may_have_sizes_of_their_own() -> None:
    step = Step.of([0, 0, 2], [1, 2, 1], work=3)
    assert step.counted([5, 1, 10]) == Superstep(10, 15, 2, 16, 3, 2)


def test_a_step_without_messages_is_charged_for_its_work() -> None:
    step = Step.of([4], [4], work=2.0)
    assert (len(step), step.messages(), step.sends(4), step.receives(4)) == (0, [], [], [])
    assert step.counted(3) == Superstep(0, 0, 0, 0, 6.0)


def test_items_beyond_two_thousand_million_are_counted() -> None:
    (message,) = Step.of([0], [1], [2**31], [2**33]).messages()
    assert message == (0, 1, range(2**31, 2**33))
    assert Step.of([0], [1], 0, 2**33).counted(0.125).M == 2**30


def test_a_plan_is_a_sequence_of_steps() -> None:
    plan = broadcast.plan(9, 3, 4)
    assert isinstance(plan, Plan)
    assert (len(plan), plan.p) == (2, 9)
    assert list(plan) == [plan[0], plan[1]] == list(plan[:])
    assert plan[-1] is plan[1]
    assert plan[1:] == (plan[1],)
    with pytest.raises(IndexError):
        plan[2]


def test_a_plan_says_what_it_is() -> None:
    assert str(broadcast.plan(3, 3, 1)) == "1 supersteps on 3 processors\nsuperstep 0: 2 messages\n" + (
        "  1 -> 0: item 0\n  1 -> 2: item 0"
    )
    assert str(broadcast.plan(1, 2)) == "0 supersteps on 1 processors"
    many = str(broadcast.plan(64, 64)).splitlines()
    assert (len(many), many[-1]) == (23, "  ...")
    assert str(joined(4, [Step.of([0, 1], [1, 2], [0, 3], [0, 6])])).splitlines()[2:] == [
        "  0 -> 1: nothing",
        "  1 -> 2: items 3 to 5",
    ]


def test_a_plan_that_is_kept_cannot_be_changed() -> None:
    plan = broadcast.plan(6, 2)
    with pytest.raises(ValueError, match="read-only"):
        plan[0].sources[0] = 3
    with pytest.raises(AttributeError):
        plan.p = 3  # type: ignore[misc]


def test_counting_for_many_sizes_keeps_little() -> None:
    plan = broadcast.plan(11, 4)
    for words in range(200):
        plan.cost(BSPMachine.nominal(11), words)
    assert len(plan._counted) <= 3


@given(st.integers(1, 30), st.sampled_from([2, 3, 7]), st.integers(0, 50))
def test_counting_in_proportion_is_counting(p: int, degree: int, words: int) -> None:
    plan = broadcast.plan(p, degree)
    assert plan.counted(words) == tuple(step.counted(words) for step in plan)
    assert plan.counted(float(words)) == plan.counted(words)


HUGE = 10**5000  # Python writes no number of so many digits
PLANNED = [
    one
    for package in (collectives, ebsp, baselines)
    for one in (getattr(package, name) for name in package.__all__)
    if hasattr(one, "start")
]


@pytest.mark.fast
@pytest.mark.parametrize("primitive", PLANNED, ids=lambda primitive: primitive.__name__)
def test_a_plan_for_no_number_of_processors_is_refused(primitive: Any) -> None:
    for p in (0, -1, 2.5, "3", None, [3], 1 << 60, HUGE):
        with pytest.raises(UsageError, match=rf"{primitive.__name__}\.plan: argument p: expected a whole number"):
            primitive.plan(p)


@pytest.mark.fast
@pytest.mark.parametrize("primitive", PLANNED, ids=lambda primitive: primitive.__name__)
def test_arguments_of_plans_and_costs_that_do_not_fit_are_refused_by_name(primitive: Any) -> None:
    name = primitive.__name__
    takes = signature(primitive.plan).parameters
    needed = {"k": 4, "n": 4, "degree": 2, "levels": 1, "copies": [[1]] * 4, "seed": 0}
    given = {one: needed[one] for one in needed if one in takes}
    for argument in {"degree", "levels", "root", "k"} & set(takes):
        for value in (None, float("nan"), 0.5, -1, "2", [2], np.arange(2.0), np.datetime64("NaT", "s")):
            with pytest.raises(UsageError, match=rf"{name}\.plan: argument {argument}: expected"):
                primitive.plan(4, **{**given, argument: value})
    machines: list[Any] = [None, [], 4, "machine.json"]
    for machine in machines:
        with pytest.raises(UsageError, match=rf"{name}\.cost: argument machine: expected one, as bsp.machine"):
            primitive.cost(machine)


LEAST: dict[str, dict[str, int]] = {  # of arguments that are whole numbers, by what takes them
    "allreduce.cost": {"items": 0, "degree": 2},
    "argmax.cost": {"n": 0, "itemsize": 0},
    "argmin.cost": {"n": 0, "itemsize": 0},
    "argsort.cost": {"keys": 0, "itemsize": 0},
    "balanced_sort.cost": {"keys": 0, "itemsize": 0, "values": 0},
    "bitonic_sort.cost": {"levels": 1},
    "bitonic_sort.plan": {"levels": 1},
    "bitonic_sort_few.cost": {"levels": 1},
    "broadcast.cost": {"words": 0, "degree": 2, "root": 0},
    "broadcast.plan": {"degree": 2, "root": 0},
    "broadcast_items.cost": {"words": 0},
    "broadcast_items.plan": {"k": 0},
    "broadcast_one_at_a_time.cost": {"k": 0},
    "duplicate.cost": {"items": 0},
    "exclusive_prefix.cost": {"items": 0, "degree": 2},
    "gather.cost": {"root": 0},
    "group_by.cost": {"keys": 0, "itemsize": 0, "values": 0},
    "histogram.cost": {"n": 0, "bins": 1, "itemsize": 1, "weight": 1},
    "items_broadcast.cost": {"words": 0, "root": 0},
    "items_broadcast.plan": {"k": 0},
    "mesh_broadcast.cost": {"words": 0, "root": 0},
    "prefix.cost": {"items": 0, "degree": 2},
    "prefix_2d.cost": {"k": 0, "degree": 2},
    "prefix_2d.plan": {"k": 0},
    "prefix_pipelined.cost": {"k": 0},
    "random_permutation.cost": {"n": 0, "seed": 0},
    "random_permutation.plan": {"n": 0, "seed": 0},
    "reduce.cost": {"items": 0, "root": 0},
    "reduce_scatter.cost": {"n": 0},
    "reduce_scatter.plan": {"n": 0},
    "sample_sort.cost": {"keys": 0, "itemsize": 0, "values": 0},
    "sort.plan": {"first": 0, "levels": 1},
    "stencil.cost": {"steps": 0},
    "stencil.plan": {"steps": 0},
    "top_k.cost": {"k": 0, "n": 0, "itemsize": 0},
    "tree_broadcast.cost": {"words": 0, "root": 0},
    "unique.cost": {"keys": 0, "itemsize": 0},
}
NEEDED: dict[str, Any] = {
    "machine": BSPMachine.nominal(4), "p": 4, "k": 3, "n": 8, "keys": 8, "seed": 1, "levels": 1, "degree": 2,
    "shape": (8, 8), "q": (2, 2), "words": 1, "total": 4,
}  # fmt: skip


@pytest.mark.parametrize(("of", "argument"), [(of, argument) for of in LEAST for argument in LEAST[of]])
@pytest.mark.fast
def test_the_least_that_an_argument_may_be_is_taken_and_one_less_is_refused_by_name(of: str, argument: str) -> None:
    name, _, part = of.partition(".")
    primitive = next(found for package in (collectives, ebsp, baselines) if (found := getattr(package, name, None)))
    call, least = getattr(primitive, part), LEAST[of][argument]
    given = {one: NEEDED[one] for one in signature(call).parameters if one in NEEDED}
    assert call(**{**given, argument: least}) is not None
    with pytest.raises(UsageError, match=rf"^{name}\.\w+: argument {argument}: expected .*, got {least - 1}"):
        call(**{**given, argument: least - 1})


MACHINE = BSPMachine(p=2, g=1e-8, l=1e-5, r=1e9)
RAGGED: Any = [[1], [2, 3]]  # numpy makes no array of it


@pytest.mark.fast
@pytest.mark.parametrize(
    ("argument", "of"),
    [
        ("words", lambda: collectives.gather.cost(MACHINE, words=RAGGED)),
        ("counts", lambda: collectives.gather_blocks.cost(MACHINE, counts=RAGGED)),
        ("counts", lambda: collectives.reduce_scatter.cost(MACHINE, 4, counts=RAGGED)),
        ("counts", lambda: collectives.reduce_scatter.plan(2, 4, counts=RAGGED)),
        ("counts", lambda: collectives.bitonic_sort.cost(MACHINE, counts=RAGGED)),
        ("counts", lambda: collectives.sort.cost(MACHINE, counts=RAGGED)),
        ("counts", lambda: collectives.sample_sort.plan(2, RAGGED)),
        ("keys", lambda: collectives.sample_sort.cost(MACHINE, keys=RAGGED)),
        ("keys", lambda: collectives.unique.cost(MACHINE, keys=RAGGED)),
        ("copies", lambda: collectives.duplicate.plan(2, np.array(1))),
        ("seed", lambda: collectives.random_permutation.cost(MACHINE, 4, seed=np.arange(2))),  # type: ignore[arg-type]
    ],
)
def test_counts_that_make_no_array_are_refused_by_name(argument: str, of: Callable[[], Any]) -> None:
    with pytest.raises(UsageError, match=rf"argument {argument}: expected .*, got "):
        of()


def test_what_is_no_number_and_no_name_is_refused_by_the_function_and_the_argument() -> None:
    wrong: list[Any] = [[1], {}, np.zeros((2, 2)), RAGGED]
    plan, cost = collectives.exclusive_prefix.plan, collectives.reduce_scatter.cost
    for one in wrong:
        with pytest.raises(UsageError, match=r"^exclusive_prefix\.plan: argument algorithm: expected None, the"):
            plan(3, algorithm=one)
        with pytest.raises(UsageError, match=r"^exclusive_prefix\.plan: argument items: expected a whole number of at"):
            plan(3, algorithm="blocks", items=one)
        with pytest.raises(UsageError, match=r"^reduce_scatter\.cost: argument n: expected a whole number of at"):
            cost(MACHINE, one)
        with pytest.raises(UsageError, match=r"^reduce_scatter\.cost: argument counts: expected 2 whole numbers of at"):
            cost(MACHINE, 4, counts=one)


@pytest.mark.parametrize(
    ("name", "of"),
    [
        ("prefix.cost", lambda: collectives.prefix.cost(MACHINE, items=1 << 70)),
        ("broadcast_items.plan", lambda: collectives.broadcast_items.plan(2, 1 << 70)),
        ("reduce_scatter.plan", lambda: collectives.reduce_scatter.plan(2, 1 << 70)),
    ],
)
def test_sizes_beyond_64_bits_are_refused_by_name(name: str, of: Callable[[], Any]) -> None:
    with pytest.raises(UsageError, match=rf"^{name}: expected sizes that are numbers of 64 bits, got larger ones"):
        of()


def test_a_plan_for_which_there_is_no_memory_is_refused_by_name() -> None:
    with pytest.raises(
        UsageError, match=r"^allgather\.plan: expected sizes for which there is memory, got larger ones"
    ):
        collectives.allgather.plan(1 << 24)  # 2^48 messages


REPEATED = 1 << 60


@pytest.mark.fast
@pytest.mark.parametrize(
    ("text", "of"),
    [
        ("broadcast_one_at_a_time.cost: argument k", lambda: baselines.broadcast_one_at_a_time.cost(MACHINE, REPEATED)),
        ("broadcast_one_at_a_time.plan: argument k", lambda: baselines.broadcast_one_at_a_time.plan(2, REPEATED, 2)),
        ("prefix_pipelined.cost: argument k", lambda: baselines.prefix_pipelined.cost(MACHINE, REPEATED)),
        ("prefix_pipelined.plan: argument k", lambda: baselines.prefix_pipelined.plan(2, REPEATED, 2)),
        ("stencil.cost: argument steps", lambda: ebsp.stencil.cost(MACHINE, (8, 8), REPEATED)),
        ("stencil.plan: argument steps", lambda: ebsp.stencil.plan(2, (8, 8), (1, 2), REPEATED)),
    ],
)
def test_more_repetitions_than_can_be_listed_are_refused(text: str, of: Callable[[], Any]) -> None:
    with pytest.raises(UsageError, match=rf"^{text}: expected a whole number from 0 to 16777216, got {REPEATED}"):
        of()


@pytest.mark.parametrize(
    ("text", "of"),
    [
        ("items_broadcast.plan: argument redistributed", lambda one: ebsp.items_broadcast.plan(2, 4, None, one)),
        ("stencil.plan: argument together", lambda one: ebsp.stencil.plan(2, (8, 8), (1, 2), together=one)),
    ],
)
def test_what_is_true_or_false_may_be_anything_that_python_takes_for_it(text: str, of: Callable[[Any], Any]) -> None:
    for one, meant in ((np.True_, True), ([1], True), ([], False), ({}, False)):
        assert str(of(one)) == str(of(meant))
    with pytest.raises(UsageError, match=rf"^{text}: expected True or False, got int64 of shape \(3,\)"):
        of(np.arange(3))


@pytest.mark.fast
@pytest.mark.parametrize(
    ("text", "of"),
    [
        ("matrix_multiplication.cost", lambda one: ebsp.matrix_multiplication.cost(MACHINE, (4, 4, 4), one)),
        ("matrix_multiplication_grid", lambda one: ebsp.matrix_multiplication_grid(MACHINE, (4, 4, 4), one)),
        ("stencil.cost", lambda one: ebsp.stencil.cost(MACHINE, (4, 4), dtype=one)),
        ("stencil_grid", lambda one: ebsp.stencil_grid(MACHINE, (4, 4), one)),
    ],
)
def test_a_dtype_that_is_none_is_refused_by_name(text: str, of: Callable[[Any], Any]) -> None:
    for one in ("x", 3, HUGE, [1]):
        with pytest.raises(UsageError, match=rf"^{text}: argument dtype: expected a numpy dtype, got "):
            of(one)
    with pytest.raises(UsageError, match=r"^matrix_multiplication\.cost: argument dtype_b: expected a numpy dtype"):
        ebsp.matrix_multiplication.cost(MACHINE, (4, 4, 4), float, "x")


@pytest.mark.fast
@pytest.mark.parametrize(
    "of",
    [
        lambda: collectives.broadcast.plan(2, root=HUGE),
        lambda: collectives.broadcast.cost(MACHINE, words=HUGE),
        lambda: collectives.broadcast.cost(MACHINE, algorithm=HUGE),  # type: ignore[arg-type]
        lambda: collectives.prefix.cost(MACHINE, order=HUGE),  # type: ignore[arg-type]
        lambda: collectives.gather.cost(MACHINE, words=[1, HUGE]),
        lambda: collectives.broadcast.cost(HUGE),  # type: ignore[arg-type]
    ],
)
def test_a_number_of_more_digits_than_python_writes_is_refused_as_others_are(of: Callable[[], Any]) -> None:
    with pytest.raises(UsageError, match=r": argument \w+: expected .*, got .*<not shown: Exceeds the limit \(4300"):
        of()


@pytest.mark.fast
@pytest.mark.parametrize(
    ("text", "of"),
    [
        ("tree_broadcast.cost: argument root", lambda: collectives.ebsp.tree_broadcast.cost(MACHINE, root=-1)),
        ("mesh_broadcast.cost: argument fan_outs", lambda: collectives.ebsp.mesh_broadcast.cost(MACHINE, fan_outs=[0])),
        ("broadcast.cost: argument words", lambda: collectives.broadcast.cost(MACHINE, words=1 << 54)),
        ("argmax.cost: allreduce.cost: argument words", lambda: collectives.argmax.cost(MACHINE, itemsize=1 << 60)),
        ("sort.cost: sample_sort.cost: argument keys", lambda: collectives.sort.cost(MACHINE, counts=1 << 60)),
    ],
)
def test_what_another_function_refuses_is_refused_by_the_one_that_was_called(text: str, of: Callable[[], Any]) -> None:
    with pytest.raises(UsageError, match=f"^{text}: expected "):
        of()


@pytest.mark.fast
@pytest.mark.parametrize(
    ("argument", "call"),
    [
        ("counts", lambda bsp: collectives.reduce_scatter(bsp, np.arange(4.0), np.add, counts=RAGGED)),
        ("counts", lambda bsp: collectives.total_exchange_blocks(bsp, np.arange(4.0), counts=RAGGED)),
        ("range", lambda bsp: collectives.histogram(bsp, np.arange(4.0), range=RAGGED)),
        ("expand", lambda bsp: collectives.duplicate(bsp, [1], [1], expand=np.arange(3))),  # type: ignore[arg-type]
        ("kind", lambda bsp: bsp.work(1, kind=np.arange(3))),
        ("dtype", lambda bsp: bsp.array(3, dtype=[("a", "i4"), ("a", "f8")])),
    ],
)
def test_arguments_of_which_numpy_makes_nothing_are_refused_by_name(argument: str, call: Callable[[BSP], Any]) -> None:
    with pytest.raises(UsageError, match=rf"argument {argument}: expected .*, got "):
        simulate(call, p=2)


@pytest.mark.parametrize("p", [1, 3, 5, 8])
def test_one_alone_costs_together_what_its_plan_costs(p: int) -> None:
    """Also where the busiest has more operations than items, or fewer, as in exclusive prefix sums."""
    plans = [
        collectives.duplicate.plan(p, [[2, 0, 3]] * p),
        collectives.prefix_2d.plan(p, 7, order="fixed"),
        collectives.broadcast.plan(p, degree=2),
    ]
    for degree in (2, 3, p + 1):
        plans += [collectives.exclusive_prefix.plan(p, degree, order="fixed")]
        plans += [collectives.exclusive_prefix.plan(p, degree), collectives.segmented_prefix.plan(p, degree)]
        plans += [collectives.prefix.plan(p, degree, order=order) for order in ("any", "fixed")]
    machine = BSPMachine.nominal(p)
    for plan in plans:
        cost, alone = collectives.together(machine, (plan, 3)), plan.cost(machine, 3)
        assert (list(cost), cost.after) == (list(alone), alone.after)


def test_exclusive_prefix_sums_beside_a_sum_of_all_cost_what_the_ledger_says() -> None:
    def main(bsp: BSP) -> None:
        names = collectives.allreduce, collectives.exclusive_prefix
        tickets = [name.start(bsp, np.ones(7), np.add, degree=2) for name in names]
        while not all(ticket.done for ticket in tickets):
            bsp.sync()

    machine = BSPMachine.nominal(5)
    plans = collectives.allreduce.plan(5, degree=2), collectives.exclusive_prefix.plan(5, degree=2)
    cost = collectives.together(machine, *((plan, 7) for plan in plans))
    ledger = simulate(main, machine=machine).ledger
    assert [(r.h_out, r.h_in, r.M, r.work) for r in ledger] == [(s.h_out, s.h_in, s.M, s.w) for s in cost]


@pytest.mark.parametrize("machine", [BSPMachine.nominal(1), MACHINE])
def test_costs_are_made_of_pythons_numbers(machine: BSPMachine) -> None:
    cost = collectives.segmented_prefix.cost(machine, [3] * machine.p, 2)
    assert {type(one) for step in cost for one in step} | {type(cost.after), type(cost.w)} <= {int, float}


COPIES = [[2, 0, 3], [], [1], [9, 1], [4]]
# Of which processors do not do one operation for each item that comes.
UNEVEN: dict[str, tuple[Callable[[Any], Any], Callable[[], Plan]]] = {
    "exclusive prefix by blocks": (
        lambda on: collectives.exclusive_prefix.start(on, np.ones(13), np.add, algorithm="blocks"),
        lambda: collectives.exclusive_prefix.plan(5, algorithm="blocks", items=13),
    ),
    "prefix in the fixed order": (
        lambda on: collectives.prefix.start(on, np.ones(1), np.add, degree=2, order="fixed"),
        lambda: collectives.prefix.plan(5, 2, "fixed"),
    ),
    "2D-PREFIX of few items": (
        lambda on: collectives.prefix_2d.start(on, np.ones(2), np.add, degree=2),
        lambda: collectives.prefix_2d.plan(5, 2, 2),
    ),
    "2D-PREFIX in the fixed order": (
        lambda on: collectives.prefix_2d.start(on, np.ones(7), np.add, order="fixed"),
        lambda: collectives.prefix_2d.plan(5, 7, order="fixed"),
    ),
    "copies": (
        lambda on: collectives.duplicate.start(on, np.ones(len(COPIES[on.pid])), COPIES[on.pid], degree=2),
        lambda: collectives.duplicate.plan(5, COPIES),
    ),
}


@pytest.mark.parametrize("name", UNEVEN)
def test_beside_others_the_operations_of_each_processor_count(name: str) -> None:
    start, plan = UNEVEN[name]

    def main(bsp: BSP, root: int) -> None:
        tickets = [start(bsp), collectives.reduce.start(bsp, np.ones(100), np.add, root, degree=2)]
        while not all(ticket.done for ticket in tickets):
            bsp.sync()
        bsp.sync()

    machine = BSPMachine.nominal(5)
    for root in range(5):
        cost = collectives.together(machine, (plan(), 1), (collectives.reduce.plan(5, 2, root), 100))
        ledger = simulate(main, root, machine=machine).ledger
        assert [record.work for record in ledger] == [*(step.w for step in cost), cost.after]


@pytest.mark.parametrize("name", UNEVEN)
def test_the_operations_of_each_processor_of_a_group_are_those_of_its_members(name: str) -> None:
    plan = UNEVEN[name][1]()
    among = plan.among((6, 0, 3, 5, 2), 7)
    costs = []
    for member in range(7):
        busy = collectives.reduce.plan(7, 7, member)
        costs.append([step.w for step in collectives.together(BSPMachine.nominal(7), (among, 1), (busy, 100))])
    for number, member in enumerate((6, 0, 3, 5, 2)):
        busy = collectives.reduce.plan(5, 5, number)
        alone = collectives.together(BSPMachine.nominal(5), (plan, 1), (busy, 150))  # as many operations: 4 * 150
        assert [step.w for step in alone] == costs[member]


def test_together_counts_whole_words_of_each_message_and_operations_where_items_come() -> None:
    one = joined(3, [Step.of([0, 0], [1, 2], [2, 4], [5, 5])], 4)  # items 2 to 4, and item 4
    other = joined(3, [Step.of([1], [2], [6], [9])], 3)
    cost = collectives.together(BSPMachine.nominal(3), (one, 0.5), (other, 0.5))
    # 12 bytes are 2 words, 4 bytes one. To processor 1 come 3 items, to 2 come 1 and 3: of 4 operations it has 2 there.
    assert [(step.h_out, step.h_in, step.messages, step.M) for step in cost] == [(3, 3, 2, 5)]
    assert cost.after == 0.5 * (2 + 3)
    assert collectives.together(BSPMachine.nominal(3), (one, 1)).after == 4
    many = joined(3, [Step.of([1], [0], [0], [9])], 9)  # to a processor to which nothing else comes
    assert collectives.together(BSPMachine.nominal(3), (one, 1), (many, 1)).after == 9
    assert collectives.together(BSPMachine.nominal(3), (many, 1)).M == 9


def test_together_takes_plans_with_words_for_the_processors_of_the_machine() -> None:
    plan = collectives.broadcast.plan(4, degree=2)
    with pytest.raises(UsageError, match=r"the p of the machine, 8, got one for 4; plan\.among"):
        collectives.together(BSPMachine.nominal(8), (plan, 1))
    with pytest.raises(UsageError, match="expected pairs of a plan and the words of an item, got"):
        collectives.together(BSPMachine.nominal(4), plan)  # type: ignore[arg-type]


def test_a_plan_is_that_of_as_many_processors_as_it_is_for() -> None:
    plan, numbers = collectives.broadcast.plan(2), [*np.array([3, 1])]
    assert plan.among(numbers, 4)[0].messages() == plan.among((3, 1), 4)[0].messages() == [(3, 1, range(1))]
    wrong: list[Any] = [(0, 1, 2), (1,), (1, 1), (0, 4), (0, -1), (0, 1.0), ("0", 1), 5, None]
    for members in wrong:
        with pytest.raises(UsageError, match=r"plan\.among: argument members: expected 2 processors from 0 to 3, each"):
            plan.among(members, 4)
    counts: list[Any] = [0, 2.5, "4", None]
    for p in counts:
        with pytest.raises(UsageError, match=r"plan\.among: argument p: expected a whole number of at least 1, got"):
            plan.among((0, 1), p)


def test_words_and_machines_of_plans_are_checked_by_name() -> None:
    plan, on = collectives.broadcast.plan(4), BSPMachine.nominal(4)
    wrong: list[Any] = [-1, "x", None, float("nan"), float("inf"), 2**53 + 1, 1e30, True, [1]]
    for words in wrong:
        expected = r"expected words, a number of at least 0 and at most 2\^53, got"
        with pytest.raises(UsageError, match=rf"plan\.counted: argument words: {expected}"):
            plan.counted(words)
        with pytest.raises(UsageError, match=rf"plan\.cost: argument words: {expected}"):
            plan.cost(on, words)
        with pytest.raises(UsageError, match=rf"together: argument started: {expected}"):
            collectives.together(on, (plan, words))
    assert plan.counted(np.float64(3)) == plan.counted(3)
    machines: list[Any] = [None, [], 4, "machine.json"]
    for machine in machines:
        for name, call in (
            ("plan.cost", lambda of: plan.cost(of)),
            ("together", lambda of: collectives.together(of, (plan, 1))),
            ("stencil_grid", lambda of: ebsp.stencil_grid(of, (8, 8))),
            ("matrix_multiplication_grid", lambda of: ebsp.matrix_multiplication_grid(of, (8, 8, 8))),
        ):
            with pytest.raises(UsageError, match=rf"{name}: argument machine: expected one, as bsp\.machine"):
                call(machine)


@given(st.lists(st.integers(0, 50), min_size=2, max_size=9))
def test_what_each_sends_to_all_others_is_counted_as_its_messages_are(words: list[int]) -> None:
    p = len(words)
    step = Step.of(np.repeat(np.arange(p), p), np.tile(np.arange(p), p))
    assert to_all(np.array(words)) == step.counted(np.array(words)[step.sources])


def test_the_costs_of_sorting_on_thousands_of_processors_make_no_message_of_each_pair() -> None:
    machine = BSPMachine.nominal(1 << 12)
    assert collectives.argsort.cost(machine, keys=3).supersteps == 4
    assert collectives.allgather.cost(machine, 2).M == 2 * (1 << 12) * ((1 << 12) - 1)


def test_costs_refuse_more_words_than_are_counted_in_64_bits() -> None:
    on, many = BSPMachine.nominal(4), 2**62
    calls: dict[str, Any] = {
        "allgather.cost: argument words": lambda: collectives.allgather.cost(on, many),
        "allgather_blocks.cost: argument words": lambda: collectives.allgather_blocks.cost(on, words=many),
        "argsort.cost: argument keys": lambda: collectives.argsort.cost(on, many),
        "segmented_prefix.cost: argument n": lambda: collectives.segmented_prefix.cost(on, many),
        "sort.cost: argument words": lambda: collectives.sort.cost(on, words=many),
    }
    for name, call in calls.items():
        with pytest.raises(UsageError, match=rf"{name}: expected .* of at least 0 and at most 2\^53"):
            call()
