"""What there is instead of what a program may ask for, and is not: names of mpi4py above all, and what arrays have.

A processor has `__getattr__`, which asks `instead_of`. Other classes are decorated by `hinting`: what is there takes no
longer for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from inspect import getattr_static
from typing import Any, NoReturn, TypeVar

import numpy as np

from ..errors import nearest
from .public import Public

Class = TypeVar("Class", bound=type)

_COLLECTIVES = [
    "allgather",
    "allgather_blocks",
    "allreduce",
    "argmax",
    "argmin",
    "argsort",
    "balanced_sort",
    "bitonic_sort",
    "broadcast",
    "broadcast_items",
    "duplicate",
    "exclusive_prefix",
    "gather",
    "gather_blocks",
    "group_by",
    "histogram",
    "prefix",
    "prefix_2d",
    "random_permutation",
    "redistribute",
    "reduce",
    "reduce_scatter",
    "sample_sort",
    "scatter",
    "scatter_blocks",
    "segmented_prefix",
    "sort",
    "top_k",
    "total_exchange",
    "total_exchange_blocks",
    "unique",
]
_CALLED = {  # of mpi4py, in small letters: the collective
    **{name: name for name in _COLLECTIVES},
    "allgatherv": "allgather_blocks",
    "alltoall": "total_exchange",
    "alltoallv": "total_exchange_blocks",
    "bcast": "broadcast",
    "exscan": "exclusive_prefix",
    "gatherv": "gather_blocks",
    "scan": "prefix",
    "scatterv": "scatter_blocks",
}
_OTHERS = {
    "Send": "bsp.send sends, and bsp.sync() brings it",
    "accumulate": "to_x = x.pattern(dests, at), and after a sync to_x.put(values, np.add), adds to an array's items",
    "barrier": "bsp.sync() ends the superstep on all processors",
    "create_cart": "bsp.grid(rows, columns) has the processors' rows and columns",
    "get": "x.get(pid) asks for values of an array, x = bsp.array(n), which are there after bsp.sync()",
    "get_rank": "bsp.pid is the number of this processor",
    "get_size": "bsp.p is the number of processors",
    "iprobe": "bsp.inbox has what was sent in the superstep before",
    "irecv": "bsp.inbox has what was sent in the superstep before",
    "isend": "bsp.send sends, and bsp.sync() brings it",
    "nprocs": "bsp.p is the number of processors",
    "probe": "bsp.inbox has what was sent in the superstep before",
    "put": "x.put(dest, values) writes into an array, x = bsp.array(n), with bsp.sync()",
    "rank": "bsp.pid is the number of this processor",
    "recv": "bsp.inbox has what was sent in the superstep before",
    "sendrecv": "bsp.send sends, bsp.sync() brings it, and bsp.inbox has what came",
    "size": "bsp.p is the number of processors",
    "values": "values are those of a queue: queue = bsp.queue()",
}

_ALIKE = 0.75  # what is spelt more unlike is no slip

# -- of a processor ----------------------------------------------------------------------------------------------------


def instead_of(name: str, names: Iterable[str] = ()) -> str:
    """What there is instead of `bsp.name`, in words; empty where nothing is known.

    Args:
        names: that there are, one of which may have been meant.
    """
    small = name.lower()
    if small in _CALLED:
        return f"call collectives.{_CALLED[small]}(bsp, ...), after `from pybsp import collectives`"
    if name in _OTHERS or small in _OTHERS:
        return _OTHERS.get(name, _OTHERS.get(small, ""))
    there = {one for one in names if not one.startswith("_")}
    near = nearest(small, [*there, *_CALLED], _ALIKE) if there else ""
    return f"did you mean bsp.{near}?" if near in there else near and instead_of(near)


def instead_of_assigning(name: str, value: Any, is_method: bool) -> str:
    """What there is instead of `bsp.name = value`, in words."""
    if name in ("label", "superstep"):
        return f"call bsp.label({value!r:.40}), or write `with bsp.superstep({value!r:.40}):`"
    return f"call bsp.{name}(...)" if is_method else "a value of the program's own goes into a variable"


# -- of other classes --------------------------------------------------------------------------------------------------


class _Absent:
    """An attribute that instances of a class have not, unless they have one of their own."""

    def __init__(self, name: str, text: str) -> None:
        self.name, self._text = name, text

    def __get__(self, instance: object, owner: type) -> NoReturn:
        raise AttributeError(self._text, name=self.name)  # of no object: Python looks for nothing that is spelt alike


_BINARY = ["add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "pow"]
_OPERATORS = [
    *(f"__{side}{name}__" for name in _BINARY for side in ("", "r")),
    *(f"__{name}__" for name in ("neg", "abs", "float", "int", "lt", "le", "gt", "ge")),
]
_COMPARED = ("__eq__", "__ne__")
_NUMBERS = (int, float, complex, list)  # and what is none of these, or of numpy's, is another object
_OURS = ("builtins", "pybsp")  # modules of operands that know nothing of what is hinted at
_SHOWN = {
    "__len__": "len({})",
    "__getitem__": "{}[...]",
    "__iter__": "for v in {}",
    "__contains__": "v in {}",
    "__reduce_ex__": "a copy of {}",
}


def hinting(called: str) -> Callable[[Class], Class]:
    """Let a class say what there is instead of what its instances, which errors call so, have not.

    To ask for such an attribute stays an AttributeError, and a special method that there is not a TypeError.
    """

    def decorated(of: Class) -> Class:
        for name, hint in _HINTS[called].items():
            if of.__dict__.get(name) is not None:
                continue  # there is one
            if name == "__len__":  # which Python would ask whether one is true
                setattr(of, "__bool__", _true)  # noqa: B010 - type checkers are not to know
            if name.startswith("__"):
                text = f"{_SHOWN.get(name, 'arithmetic with {}').format(called)}: there is none; {hint}"
                setattr(of, name, _comparing(text) if name in _COMPARED else _refusing(text, name in _OPERATORS))
            else:
                setattr(of, name, _Absent(name, f"{called}.{name}: there is none; {hint}"))
        if not issubclass(of, Public):  # which list their names themselves
            setattr(of, "__dir__", _present)  # noqa: B010
        return of

    return decorated


def _refusing(text: str, is_operator: bool) -> Callable[..., Any]:
    """A special method that is refused. Operators with what is others' are left to it: numpy takes a ticket's value."""

    def refuse(instance: object, *others: Any) -> Any:
        if is_operator and any(type(other).__module__.partition(".")[0] not in _OURS for other in others):
            return NotImplemented
        raise TypeError(text)

    return refuse


def _comparing(text: str) -> Callable[[object, Any], Any]:
    """`==` and `!=`, which are refused with numbers alone: an object equals itself, in lists and dicts too."""

    def compare(instance: object, other: Any) -> Any:
        if isinstance(other, _NUMBERS):
            raise TypeError(text)
        return NotImplemented

    return compare


def _present(instance: object) -> list[str]:
    """What `dir` is to give: what there is."""
    return [name for name in object.__dir__(instance) if not isinstance(getattr_static(instance, name, None), _Absent)]


def _true(instance: object) -> bool:
    return True


_OF_ARRAYS = [name for name in dir(np.ndarray) if not name.startswith("_")]
_OF_MACHINES = [
    "array",
    "begin",
    "end",
    "expect",
    "grid",
    "group",
    "inbox",
    "label",
    "ledger",
    "machine",
    "p",
    "pid",
    "queue",
    "register",
    "send",
    "split",
    "superstep",
    "sync",
    "time",
    "work",
]
_OF_RIDES = "of a started collective "
_OF_LAYOUTS = "only an array that is made of a layout has it: bsp.array(pybsp.layouts.Block(n, bsp.p))"


def _as_values(values: str, what: str) -> dict[str, str]:
    """Hints for what has values, which these are: what they can do as an array of numpy."""
    return {
        **{name: f"write {values}.{name} ({values} {what})" for name in _OF_ARRAYS},
        **dict.fromkeys((*_OPERATORS, *_COMPARED), f"write {values} (which {what})"),
        "__getitem__": f"write {values}[...] ({values} {what})",
        "__len__": f"write len({values}) ({values} {what})",
        "__reduce_ex__": f"write {values} ({values} {what})",  # as where one is sent
    }


_OF_TOTALS = ["M", "messages", "work", "seconds", "exchange", "exchange_predicted", "waiting", "imbalance"]
_ANOTHER = "dataclasses.replace(machine, g=...) is one that differs in this"
_TABLE = "a cell of a notebook that ends with it shows tables and pictures"

_HINTS: dict[str, dict[str, str]] = {
    "BSPMachine": {"replace": _ANOTHER, "G": "machine.g is it, in s/word", "L": "machine.l is it, in s"},
    "LogPMachine": {
        "replace": _ANOTHER.replace("g=", "G="),
        "P": "machine.p is the number of processors",
        "g": "machine.G is the gap, in steps",
        "l": "machine.L is the latency, in steps",
    },
    "cost": {
        **dict.fromkeys(["time", "predicted"], "cost.seconds is the time on its machine"),
        "words": "cost.h has the words of the busiest processor, superstep by superstep, cost.M those of all",
        "work": "cost.w is the flop",
    },
    "execution": {
        **dict.fromkeys(
            ["h", "machine", "measured", "predicted", "total", "totals"], "it is execution.ledger that has it"
        ),
        "p": "execution.ledger.machine.p is the number of processors",
        "time": "execution.ledger.measured is the time of its supersteps",
    },
    "ledger": {
        **dict.fromkeys(_OF_TOTALS, "ledger.total has the sums of all, ledger.totals() those of each label"),
        **dict.fromkeys(["to_pandas", "to_dataframe"], "pandas.DataFrame(list(ledger)) is a table of its records"),
        **dict.fromkeys(["plot", "table", "to_html"], _TABLE),
        "p": "ledger.machine.p is the number of processors",
        "supersteps": "len(ledger) is their number",
        "time": "ledger.measured and ledger.predicted are the sums",
    },
    "record": {
        "computing": "record.seconds is it, of the busiest processor",
        "name": "record.label is it",
        "time": "record.measured and record.predicted are of all of it, record.seconds of computing",
        "w": "record.work is the flop",
        "words": "record.h has those of the busiest processor, record.M those of all",
    },
    "simulation": {
        **dict.fromkeys(
            ["speedup", "efficiency"], "simulate with several p, and divide the first one's time by those of the others"
        ),
        **dict.fromkeys(
            ["h", "machine", "measured", "predicted", "total", "totals"], "it is simulation.ledger that has it"
        ),
        "p": "simulation.ledger.machine.p is the number of processors",
    },
    "bsp.inbox": {
        name: f"bsp.inbox[0].{name} is that of the first message, [m.{name} for m in bsp.inbox] are all"
        for name in ("payload", "source", "tag")
    },
    "bsp.split(...)": {
        name: f"the machine of its block has it: `with bsp.split(...) as part:`, and part.{name}"
        for name in _OF_MACHINES
    },
    "group": {
        **{name: f"write bsp.{name}, of the whole machine" for name in _OF_MACHINES},
        "sync": "bsp.sync() ends the superstep of all processors; bsp.split makes parts that sync on their own",
    },
    "layout": {
        **dict.fromkeys(
            ["global_indices", "indices", "slice"],
            "layout.part(pid) is an index of the whole array, and np.arange(n)[layout.part(pid)] are global indices",
        ),
        **dict.fromkeys(["n", "size"], "layout.shape is that of the whole array, layout.sizes are items by processor"),
        **dict.fromkeys(["local_index", "to_local"], "layout.local(indices) is where the owners keep these items"),
        "local_size": "layout.local_shape(pid) is the shape of a processor's part",
    },
    "proc": {
        "inbox": "proc.recv() returns the next message",
        "rank": "proc.pid is the number of this processor",
        "size": "proc.p is the number of processors",
        "work": "proc.compute(steps) computes for so many steps",
        "sync": "LogP has no supersteps; proc.recv() waits for a message",
    },
    "queue": {
        **_as_values("queue.values", "has the items that arrived with the last sync"),
        "put": "queue.send(dest, values) sends items, and bsp.sync() brings them",
    },
    "ticket": {
        **_as_values("ticket.value", "is there after the sync that brings it"),
        **dict.fromkeys(
            ["Wait", "result", "wait"], f"bsp.sync() brings the value; {_OF_RIDES}ticket.finish() returns it"
        ),
        **dict.fromkeys(
            ["Test", "is_done", "test"], f"bsp.sync() brings the value; {_OF_RIDES}ticket.done says whether"
        ),
    },
    "x": {
        **_as_values("x.local", "is this processor's part"),
        "__iter__": "write for v in x.local (x.local is this processor's part)",
        "__contains__": "write v in x.local (x.local is this processor's part)",
        **dict.fromkeys(["global_get", "global_pattern", "global_put", "layout"], _OF_LAYOUTS),
    },
}
