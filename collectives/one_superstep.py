"""What the primitives of one superstep share: each message is one value, from who has it to who gets it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..bsp import BSP
from ..errors import argument_error, brief
from ..ground.short_records import NUMBERS
from ..machines.cost import Cost, Machine
from ..rides.ride import Supersteps
from .arguments import in_range, item_words, numbers, root_of
from .operators import Fold, Operator, applied, in_turn
from .plan import Plan, Step
from .primitive import NOT_SMALL, Call, remember, sources
from .shown_values import ShownValues
from .values import own_result, packed, unpacked

Words = NDArray[np.int64]


def run(call: Call, plan: Plan, pid: int, payload: Callable[[int], Any]) -> Supersteps[list[Any]]:
    """Send what the plan says; returns the values that came, in the order of pids.

    Args:
        payload: what goes to a destination, as `packed` makes it. All of it is made before anything is sent.
    """
    came: list[Any] = []
    for step in plan:  # none where p = 1
        payloads = [(dest, payload(dest)) for dest, _, _ in step.sends(pid)]
        if payloads and all(packed is payloads[0][1] for _, packed in payloads):
            call.send_all([dest for dest, _ in payloads], payloads[0][1])
        else:
            for dest, packed in payloads:
                call.send(dest, packed)
        letters = yield from call.sync(sources(step.receives(pid)))
        came = owned([letter.payload for letter in letters])
    return came


# Of the values that this processor sends, by destination, or of the one that all of them get; returns what came, in the
# order of pids, or `NOT_SMALL` where something else has to travel with the superstep, or there is none.
Exchange = Callable[[Any], Any]


def at_once(
    bsp: BSP,
    name: str,
    agreed: Mapping[str, Any],
    plan: Plan,
    values: Any,
    each: bool = False,
    argument: str | None = None,
) -> Any:
    """`run` of a plain call where all processors show each other records, in a third of the time: see `new_exchange`.

    Args:
        values: as of `Exchange`.
    """
    key = ("at once", name, *agreed.values())
    exchange: Exchange = bsp.prepared.get(key) or exchange_of(bsp, key, name, agreed, plan, each, argument)
    return exchange(values)


def exchange_of(
    bsp: BSP,
    key: Any,
    name: str,
    agreed: Mapping[str, Any],
    plan: Plan,
    each: bool = False,
    argument: str | None = None,
) -> Exchange:
    """`new_exchange`, found in `bsp.prepared` by that key from now on."""
    return remember(bsp, key, new_exchange(bsp, name, agreed, plan, each, argument))


def exchange_at(
    bsp: BSP, name: str, root: Any, plan: Callable[[int, int], Plan], each: bool = False, argument: str | None = None
) -> tuple[int, Exchange]:
    """The argument root, and `exchange_of` of a primitive that it is all of; a UsageError where it is no processor."""
    if type(root) is not int:  # True and 1.0 would be found as 1
        root = root_of(name, root, bsp)
    found: Exchange | None = bsp.prepared.get((name, root))
    if found is None:
        root = root_of(name, root, bsp)
        found = exchange_of(bsp, (name, root), name, {"root": root}, plan(bsp.p, root), each, argument)
    return root, found


def new_exchange(
    bsp: BSP, name: str, agreed: Mapping[str, Any], plan: Plan, each: bool = False, argument: str | None = None
) -> Exchange:
    """Prepare `at_once`: everything but what is sent.

    What is short is shown, as in small_climbs.py; a processor that has more sends it.

    Args:
        agreed: the arguments that are equal on all processors.
        each: whether each destination gets a value of its own.
        argument: what the values are called, which are `packed`; None: they are as that makes them.
    """
    shown = bsp.shown
    if shown is None or not plan or shown.traced:
        return _rides
    (step,) = plan
    dests, expected = [dest for dest, _, _ in step.sends(shown.pid)], sources(step.receives(shown.pid))
    first_ones = dests if each else dests[:1]  # where all get the same
    arguments = {one: str(value) for one, value in agreed.items()}
    of_call, label = shown.signature(name, arguments), shown.label(name)
    table = each and int(np.bincount(step.sources).max(initial=0)) > 1
    begin, show = shown.begin, ShownValues(shown, dests, expected, table).show

    def exchange(values: Any) -> Any:
        payloads = []  # all that raises does so before anything begins
        for dest in first_ones:
            one = values[dest] if each else values
            payloads.append(one if argument is None or type(one) in NUMBERS else packed(one, name, argument))
        sign = begin(name, arguments, of_call)
        if sign < 0:
            return NOT_SMALL
        return show(name, label, sign, payloads)

    return exchange


def _rides(_: Any) -> Any:
    """An `Exchange` that is none."""
    return NOT_SMALL


def is_at_once(bsp: BSP, plan: Plan) -> bool:
    """Whether a plan is one superstep, and `at_once` would carry it out now; equal on all processors."""
    return bsp.shown is not None and len(plan) == 1 and bsp.shown.ready


def folded(bsp: BSP, name: str, came: Sequence[Any], own: Any, op: Operator, words: float, fold: Fold = in_turn) -> Any:
    """`primitive.combined` of what came from all others, by `at_once`."""
    pid = bsp.pid
    if isinstance(own, np.ndarray):
        own = own.view()
        own.flags.writeable = False  # an op that works in place would change the caller's
    values = [unpacked(one) for one in came]
    values.insert(pid, own)
    total = applied(name, fold, list(enumerate(values)), op)
    bsp.work(len(came) * words)
    return own_result(total)


def owned(came: list[Any]) -> list[Any]:
    """What came, its values now one's own."""
    for place, one in enumerate(came):
        if type(one) is np.ndarray:
            came[place] = one.copy()
        elif type(one) is bytes:
            came[place] = own_result(unpacked(one))
    return came


def one_for_each(name: str, values: Any, p: int) -> Any:
    """The argument values: p of them; a UsageError where it is no sequence, or of another length."""
    if type(values) in (list, tuple) or (isinstance(values, np.ndarray) and values.ndim):
        sized = True
    else:
        sized = isinstance(values, Sequence) and not isinstance(values, (str, bytes))
    if sized and len(values) == p:
        return values
    got = type(values).__name__
    if isinstance(values, np.ndarray):
        got = f"an array of shape {values.shape}" if values.ndim else got
    elif sized:
        got = f"a {got} of {len(values)}"
    elif isinstance(values, (Mapping, Set)):
        got += ", which has no order"
    expected = f"a sequence or an array of {p} values, one for each processor"
    raise argument_error(name, "values", expected, got, "give None to a processor that has nothing to get")


def word_counts(
    name: str, words: ArrayLike | None, shape: tuple[int, ...], argument: str = "words", way_out: str = ""
) -> Words:
    """The argument of a cost function that counts words: one number for all values, or an array of this shape.

    Raises:
        UsageError: another shape, or no whole numbers from 0 to 2^53.
    """
    given = numbers(words)
    if given.dtype.kind not in "iu" or given.shape not in ((), shape) or not in_range(given):
        expected = f"a whole number of at least 0 and at most 2^53, or an array of them of shape {shape}"
        raise argument_error(name, argument, expected, brief(words), way_out)
    return np.broadcast_to(given.astype(np.int64), shape)


def block_words(name: str, counts: ArrayLike, shape: tuple[int, ...], words: float) -> Words:
    """Words of blocks of so many rows, each of so many words; the arguments counts and words of a cost function.

    Raises:
        UsageError: no counts of this shape, no words.
    """
    rows, each = word_counts(name, counts, shape, "counts"), round(8 * item_words(name, "words", words))
    return -(-rows * each // 8)


def priced(machine: Machine, plan: Plan, words: Callable[[Step], Words]) -> Cost:
    """What the plan costs with so many words in each message."""
    return Cost(machine, [step.counted(words(step)) for step in plan])
