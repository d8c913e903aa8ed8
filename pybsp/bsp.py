"""The BSP programming interface: what a program sees of its processor.

Arguments are checked here; what they say goes to the `SuperstepEngine` below.
"""

from __future__ import annotations

import operator
import pickle
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, SupportsIndex, TypeVar, overload

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .arrays.array import Array
from .arrays.global_array import GlobalArray
from .errors import CostError, UsageError, argument_error, brief, describe, usage_error, where
from .ground.convert import plain_dtype
from .ground.instead import instead_of, instead_of_assigning
from .ground.managed import Managed
from .ground.public import Public
from .groups.group import Grid, Group, checked_grid, checked_members
from .layouts import Layout, fitting
from .ledger.combining import exchange_ledger
from .ledger.ledger import Ledger
from .machines.bsp import BSPMachine, is_kind
from .machines.ebsp import EBSPMachine
from .machines.in_force import resized
from .messages.mail import PLAIN_NUMBERS, PLAIN_TAGS, Inbox
from .parts.part import Split
from .parts.totals import exchange_totals
from .rides.ride import Ride, Stream, Supersteps, checked_steps, refuse_under_way
from .supersteps.labels import Labelled, LabelledSuperstep, checked_label
from .supersteps.queues import Queue
from .supersteps.superstep import SuperstepEngine
from .transport import Transport
from .transport.router import Router

_MOST = 1e300  # flop that are charged at once: sums of them are numbers

Result = TypeVar("Result")


class BSP(Public):
    """One processor of a BSP machine; made by `pybsp.run`, `pybsp.simulate`, `pybsp.attach` and `bsp.split`.

    One thread at a time may call it, and no signal's handler: where two calls overlap, messages may be lost.

    Attributes:
        p: processors.
        pid: this one, 0 to p - 1.
        machine: the parameters in force, equal bit for bit on all processors.
        inbox: the messages that arrived with the last sync.

    Examples:
        >>> def main(bsp):
        ...     bsp.send(0, bsp.pid**2)
        ...     bsp.sync()
        ...     return [message.payload for message in bsp.inbox]
        >>> pybsp.simulate(main, p=3).results
        [[0, 1, 4], [], []]
    """

    _public = (
        *("p", "pid", "machine", "inbox", "router", "send", "room", "queue", "array", "register", "sync", "begin"),
        *("end", "superstep", "label", "ride", "carry_out", "stream", "restore", "checkpoint", "group", "grid"),
        *("split", "work", "time", "expect", "ledger", "pending", "abort"),
    )

    def __init__(self, superstep: SuperstepEngine, machine: BSPMachine | EBSPMachine) -> None:
        self.p, self.pid, self.machine = superstep.p, superstep.pid, machine
        self._superstep, self._gate, self._account = superstep, superstep.gate, superstep.account
        self._mail, self._runs, self._outgoing = superstep.mail, superstep.mail.runs, superstep.mail.outgoing
        self._pack = superstep.mail.pack_payload
        # For collectives: supersteps of short records, None where there are none (rides/shown.py); numbers and short
        # arrays that ride (rides/notes.py); and what they need not work out again, by what it depends on.
        self.shown, self.as_shown, self.notes = superstep.shown, superstep.as_shown, superstep.rides.notes
        self.prepared: dict[Any, Any] = {}
        self._machines: dict[int, BSPMachine | EBSPMachine] = {}  # of parts and groups, by their size
        # In place of the method below, which calls it and does nothing else: an empty superstep is to take no longer.
        self.sync = superstep.sync  # type: ignore[method-assign]
        if superstep.saver is not None:
            self.checkpoint = superstep.saver.offer  # type: ignore[method-assign]
        self._complete = True

    def __repr__(self) -> str:
        engine = self._superstep
        over, number = engine.gate.over, engine.account.superstep
        of = " of a part" * bool(engine.agreement.members)
        return f"<processor {self.pid} of {self.p}{of}, {over and f'{over} in '}superstep {number}>"

    if not TYPE_CHECKING:  # type checkers know which names there are

        def __getattr__(self, name: str) -> Any:
            """Say what there is instead of a name that there is not."""
            if hasattr(type(self), name):  # a property, which has raised such an error, and Python forgets it
                raise AttributeError(f"bsp.{name}: what it is made from lacks an attribute", name=name, obj=self)
            hint = instead_of(name, dir(self))
            # Python looks for what is spelt alike where it has the object.
            known = {"name": name} if hint else {"name": name, "obj": self}
            raise AttributeError(f"bsp.{name}: there is none{hint and '; '}{hint}", **known)

        def __setattr__(self, name: str, value: Any) -> None:
            """Refuse what a program assigns, which would be lost, or in the place of a method."""
            if "_complete" in self.__dict__:
                hint = instead_of_assigning(name, value, callable(getattr(type(self), name, None)))
                raise AttributeError(
                    f"bsp.{name}: expected to stay as it is, got {brief(value, 40)}; {hint}", name=name
                )
            self.__dict__[name] = value

    @property
    def inbox(self) -> Inbox:
        """The messages that arrived with the last sync."""
        return self._superstep.inbox

    @property
    def router(self) -> Router:
        """What carries this processor's messages; some routers count what they do (see `pybsp.routing`).

        Examples:
            >>> pybsp.simulate(lambda bsp: bsp.router.name, p=2, router="two-phase").results
            ['two-phase', 'two-phase']
        """
        return self._superstep.router

    @property
    def _transport(self) -> Transport:
        return self._superstep.transport

    # -- messages -------------------------------------------------------------------------------------------------

    def send(self, dest: SupportsIndex, payload: Any, tag: Any = None) -> None:
        """Send a message, copied now, which is in dest's inbox after the next sync.

        Args:
            dest: a processor, 0 to p - 1, this one included.
            payload: a numpy array or a buffer (they travel without pickle), or any picklable object.
            tag: any picklable value.

        Raises:
            UsageError: a wrong dest, or something that cannot be pickled. Nothing is sent then.

        BSP cost: one message of ceil(bytes / 8) words; a number counts one word, another object its pickle.

        Examples:
            >>> def main(bsp):
            ...     bsp.send((bsp.pid + 1) % bsp.p, np.arange(3) * bsp.pid, tag="row")
            ...     bsp.sync()
            ...     ((source, tag, payload),) = bsp.inbox
            ...     return source, tag, payload.tolist()
            >>> pybsp.simulate(main, p=3).results
            [(2, 'row', [0, 2, 4]), (0, 'row', [0, 0, 0]), (1, 'row', [0, 1, 2])]
        """
        if type(dest) is not int or not 0 <= dest < self._gate.limit:
            dest = self._gate.processor("bsp.send", "dest", dest)
        if self._runs and tag is None and type(payload) in PLAIN_NUMBERS:
            run = self._runs.get(dest)
            if run is not None:
                run.append(payload)
                return
        pack = self._pack
        if pack is not None and (tag is None or type(tag) in PLAIN_TAGS) and pack(self._outgoing, dest, payload, tag):
            return
        self._mail.send(dest, payload, tag)

    def room(
        self, dest: SupportsIndex, shape: int | tuple[int, ...], dtype: DTypeLike = np.float64, tag: Any = None
    ) -> NDArray[Any]:
        """An array to be filled until the next sync, with which it is sent: `send` without its copy.

        What is large is shared memory on a node: its destination reads it where it was filled. Its content is undefined
        at first; from the sync on it can only be read, and is no longer to be used.

        Args:
            dest: a processor, 0 to p - 1, this one included.
            shape: an int or a tuple of ints.
            dtype: plain data of a fixed size.
            tag: any picklable value.

        Raises:
            UsageError: a wrong argument. Nothing is sent then.

        BSP cost: one message of ceil(bytes / 8) words.

        Examples:
            >>> def main(bsp):
            ...     bsp.room((bsp.pid + 1) % bsp.p, 4)[:] = bsp.pid
            ...     bsp.sync()
            ...     return bsp.inbox[0].payload.tolist()
            >>> pybsp.simulate(main, p=2).results
            [[1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 0.0]]
        """
        if type(dest) is not int or not 0 <= dest < self._gate.limit:
            dest = self._gate.processor("bsp.room", "dest", dest)
        plain = plain_dtype("bsp.room", dtype)
        if type(shape) is int and 0 <= shape < 1 << 32:
            return self._mail.room(dest, (shape,), plain, tag)
        try:
            sizes = tuple(operator.index(one) for one in (shape if isinstance(shape, tuple) else (shape,)))
        except TypeError:
            sizes = (-1,)
        if any(one < 0 for one in sizes):
            raise argument_error("bsp.room", "shape", "an int or a tuple of ints of at least 0", brief(shape))
        try:
            return self._mail.room(dest, sizes, plain, tag)
        except UsageError:
            raise
        except (ValueError, OverflowError) as error:  # too many axes, or more bytes than can be addressed
            expected = "what numpy can make an array of"
            raise argument_error("bsp.room", "shape", expected, f"{brief(shape)} ({error})") from error

    def queue(self, dtype: DTypeLike = np.float64) -> Queue:
        """Make a typed queue; all processors alike. It may be used at once, and is compared at the next sync.

        Raises:
            UsageError: a dtype that has no fixed size, or is not plain data.

        Examples:
            >>> def main(bsp):
            ...     queue = bsp.queue(np.int64)
            ...     queue.send(np.arange(bsp.p), 10 * bsp.pid)
            ...     bsp.sync()
            ...     return queue.values.tolist()
            >>> pybsp.simulate(main, p=3).results
            [[0, 10, 20], [0, 10, 20], [0, 10, 20]]
        """
        self._gate.check("bsp.queue")
        plain = plain_dtype("bsp.queue", dtype)
        _require_bytes("bsp.queue: argument dtype", plain)
        if plain.subdtype is not None:
            raise argument_error("bsp.queue", "dtype", "no sub-array", plain, "use a structured dtype")
        return self._superstep.queue(plain)

    @overload
    def array(self, shape: int | tuple[int, ...], dtype: DTypeLike = np.float64) -> Array: ...
    @overload
    def array(self, shape: Layout, dtype: DTypeLike = np.float64) -> GlobalArray: ...
    def array(self, shape: int | tuple[int, ...] | Layout, dtype: DTypeLike = np.float64) -> Array:
        """Make an array of zeros and register it, on all processors alike; shapes may differ.

        `local` is usable at once; put and get from the next sync on.

        Args:
            shape: of this processor's part, an int or a tuple of ints; or a layout (`pybsp.layouts`), equal on all
                processors, which says how much each owns: then items have global indices too (`GlobalArray`).
            dtype: plain data of a fixed size.

        Raises:
            UsageError: a dtype that has no fixed size or is not plain data, a shape that is none, or a layout of more
                processors than there are.

        Examples:
            >>> def main(bsp):
            ...     x = bsp.array((2, 3), dtype=np.int64)
            ...     bsp.sync()
            ...     x.put((bsp.pid + 1) % bsp.p, bsp.pid, at=(0, slice(1, 3)))
            ...     bsp.sync()
            ...     return x.local.tolist()
            >>> pybsp.simulate(main, p=2).results
            [[[0, 1, 1], [0, 0, 0]], [[0, 0, 0], [0, 0, 0]]]
        """
        self._gate.check("bsp.array")
        plain = plain_dtype("bsp.array", dtype)
        layout = fitting("bsp.array", "shape", shape, self.p) if isinstance(shape, Layout) else None
        if layout is not None and plain.subdtype is not None:
            way_out = "give the layout an axis more, or use a structured dtype"
            raise argument_error("bsp.array", "dtype", "one of single items beside a layout", plain, way_out)
        sizes: Any = shape if layout is None else layout.local_shape(self.pid)
        try:
            if sizes is None:  # a shape for some versions of numpy
                raise TypeError("None is no shape")
            local = np.zeros(sizes, plain)
        except (TypeError, ValueError) as error:
            expected = "an int or a tuple of ints of at least 0, or a layout"
            raise argument_error("bsp.array", "shape", expected, f"{brief(shape)} ({error})") from None
        _require_bytes("bsp.array: argument dtype", local.dtype)
        return self._superstep.new_array(local, layout)

    @overload
    def register(self, array: NDArray[Any]) -> Array: ...
    @overload
    def register(self, array: NDArray[Any], layout: Layout) -> GlobalArray: ...
    def register(self, array: NDArray[Any], layout: Layout | None = None) -> Array:
        """Register an array that the program has, on all processors alike; shapes may differ.

        It becomes `local` itself: puts write into it. Whoever resizes it gives it up.

        Args:
            array: plain data of a fixed size that can be written to, and lies in one piece (C-contiguous; of one in
                Fortran's order register `array.T`); of one dtype on all processors.
            layout: whose part of this processor it is; None: of none.

        Raises:
            UsageError: no such array, or not of the shape that the layout has here.

        Examples:
            >>> def main(bsp):
            ...     mine = np.arange(3) + 10 * bsp.pid
            ...     x = bsp.register(mine)
            ...     bsp.sync()
            ...     x.put((bsp.pid + 1) % bsp.p, -1, at=0)
            ...     bsp.sync()
            ...     return x.local is mine, mine.tolist()
            >>> pybsp.simulate(main, p=2).results
            [(True, [-1, 1, 2]), (True, [-1, 11, 12])]
        """
        self._gate.check("bsp.register")
        if type(array) is not np.ndarray or not (array.flags.c_contiguous and array.flags.writeable):
            got = f"{type(array).__name__}"
            if isinstance(array, np.ndarray):
                got += " that is read-only" * (not array.flags.writeable)
                got += " of several pieces" * (not array.flags.c_contiguous)
            way_out = "np.ascontiguousarray and .copy() make one, and array.T is one where array is in Fortran's order"
            if isinstance(array, np.ndarray) and type(array) is not np.ndarray:
                way_out = "np.asarray(array) is one, of the same memory"
            expected = "a C-contiguous numpy array that can be written to"
            raise argument_error("bsp.register", "array", expected, got, way_out)
        _require_bytes("bsp.register: argument array", plain_dtype("bsp.register", array.dtype, "array"))
        if layout is not None:
            shape = fitting("bsp.register", "layout", layout, self.p).local_shape(self.pid)
            if array.shape != shape:
                expected = f"shape {shape}, that of processor {self.pid}'s part of {layout}"
                raise argument_error("bsp.register", "array", expected, array.shape)
        return self._superstep.array(array, layout)

    # -- supersteps -----------------------------------------------------------------------------------------------

    def sync(self) -> None:
        """End the superstep: what was sent, put and asked for arrives; collective.

        Raises:
            ProcessorError: another processor failed.
            SyncError: another processor ended, or did something else, or registered something else, or did not come
                within the timeout.
            UsageError: between `begin` and `end`; after a block's call without `with`; not all have called a
                `pattern.get`, or started a collective.

        BSP cost: w + g*h + l.

        Examples:
            >>> def main(bsp):
            ...     bsp.send(0, bsp.pid)
            ...     before = len(bsp.inbox)
            ...     bsp.sync()
            ...     return before, len(bsp.inbox)
            >>> pybsp.simulate(main, p=3).results
            [(0, 3), (0, 0), (0, 0)]
        """
        self._superstep.sync()

    def begin(self) -> None:
        """End the superstep's sending, without waiting: what was sent travels while the program goes on; collective.

        Until `bsp.end` the program computes, with what arrived last too: all that sends, makes something, splits,
        labels or asks for the ledger is refused. Some processors may call `bsp.sync` instead of the two.

        What others ask this processor for by `array.get` is read at some time between the two: leave it as it is until
        `end`. `pattern.get` reads at `begin`, and puts are written at `end`.

        Between hosts the exchange goes on in a thread, which calls MPI: do not call it yourself meanwhile. Where the
        job's MPI allows no other thread (below MPI_THREAD_SERIALIZED), the rest of it waits for `end`; and with another
        router than `direct` all of it does.

        Raises:
            UsageError: between `begin` and `end` already.

        BSP cost: with `end`, that of `sync`; the exchange and the computation between the two overlap as far as the
        machine lets them.

        Examples:
            >>> def main(bsp):
            ...     bsp.send((bsp.pid + 1) % bsp.p, bsp.pid)
            ...     bsp.begin()
            ...     bsp.work(1e6)  # computes while the message travels
            ...     bsp.end()
            ...     return bsp.inbox[0].payload
            >>> pybsp.simulate(main, p=3).results
            [2, 0, 1]
        """
        self._gate.check("bsp.begin")
        self._superstep.begin()

    def end(self) -> None:
        """What travelled since `bsp.begin` arrives: this ends the superstep; collective.

        Raises:
            UsageError: without `begin` before it.
            ProcessorError, SyncError: as `sync`.

        BSP cost: `begin` has it.

        Examples:
            >>> try:
            ...     pybsp.simulate(lambda bsp: bsp.end(), p=2)
            ... except pybsp.UsageError as error:
            ...     print(error)
            bsp.end: expected bsp.begin() before it in this superstep; bsp.sync() does both
        """
        if not self._superstep.complete():
            self._gate.check("bsp.end")
            raise UsageError("bsp.end: expected bsp.begin() before it in this superstep; bsp.sync() does both")

    def superstep(self, label: str) -> LabelledSuperstep:
        """A labelled superstep: syncs when the block ends normally. Syncs inside the block carry the label too.

        So do the supersteps of collectives that are called in the block, in place of the collective's name. What is
        made of collectives alone needs no sync of its own: `with bsp.label(...)`.

        Collective, with the same label on all processors (compared when checked).

        Raises:
            UsageError: a label that is no str; and what `sync` raises.

        Examples:
            >>> def main(bsp):
            ...     with bsp.superstep("sum"):
            ...         bsp.send(0, bsp.pid)
            ...     return bsp.ledger[0].label, len(bsp.inbox)
            >>> pybsp.simulate(main, p=3).results
            [('sum', 3), ('sum', 0), ('sum', 0)]
        """
        return LabelledSuperstep(self._superstep, checked_label("bsp.superstep", label))

    def label(self, label: str) -> Labelled:
        """Label the superstep that is running, without a sync: until the next sync, or the end of the block around.

        The supersteps of collectives that are called until then carry the label in place of the collective's name. As a
        context, `with bsp.label(...)`, it labels all supersteps that end in the block.

        Args:
            label: the same on all processors (compared when checked, at the sync); "" for none.

        Raises:
            UsageError: a label that is no str; between `begin` and `end`.

        BSP cost: none.

        Examples:
            >>> from pybsp import collectives
            >>> def main(bsp):
            ...     bsp.label("norm")
            ...     total = collectives.allreduce(bsp, float(bsp.pid), np.add)
            ...     bsp.label("exchange")  # in place of "norm", which would hold until the next sync
            ...     bsp.send(0, total)
            ...     bsp.sync()
            ...     with bsp.label("all"):
            ...         bsp.sync()
            ...         bsp.sync()
            ...     bsp.sync()
            >>> [record.label for record in pybsp.simulate(main, p=2).ledger]
            ['norm', 'exchange', 'all', 'all', '']
        """
        checked_label("bsp.label", label)
        self._gate.check("bsp.label")
        self._superstep.label(label)
        return Labelled(self._superstep, label)

    def own_superstep(self, name: str) -> None:
        """End a superstep that is a function's own: `sync`, labelled with its name where the program has no label.

        It is for functions that are made of supersteps of their own, as the collectives are. A label that the program
        has given with `bsp.label` goes on after it. Where something is pending, ask for a sync before the first
        (`bsp.pending`).

        Raises:
            UsageError: a name that is no str; and what `sync` raises.

        BSP cost: that of `sync`.

        Examples:
            >>> def neighbours(bsp):
            ...     bsp.send((bsp.pid + 1) % bsp.p, bsp.pid)
            ...     bsp.own_superstep("neighbours")
            ...     return bsp.inbox[0].payload
            >>> def main(bsp):
            ...     neighbours(bsp)
            ...     with bsp.label("ring"):
            ...         neighbours(bsp)
            >>> [record.label for record in pybsp.simulate(main, p=3).ledger]
            ['neighbours', 'ring']
        """
        self._superstep.sync_own(checked_label("bsp.own_superstep", name, "name"))

    def ride(self, name: str, steps: Supersteps[Result]) -> Ride[Result]:
        """Start a function that rides in this machine's supersteps, beside what the program sends; collective.

        It is a generator, which ends a superstep with each `yield`, and sends on a `stream` of its own. As collectives
        do: `collectives.allreduce.start(bsp, ...)` is this. All processors start the same ones in the same order. What
        it computes belongs to the superstep in which it does; what is not over when the program ends is an error.

        Args:
            name: of the function, for errors and labels.
            steps: runs up to its first `yield` now, and on from there after each superstep.

        Returns:
            A ticket: `value`, when it is `done`; `finish` goes on in supersteps of its own, and returns the value.

        Raises:
            UsageError: nothing may be started now, or steps is no generator, or one that has begun; and what the
                function itself raises.

        BSP cost: none but what it sends; `finish` adds supersteps.

        Examples:
            >>> def neighbours(bsp, value):
            ...     stream = bsp.stream("neighbours")
            ...     stream.send((bsp.pid + 1) % bsp.p, value)
            ...     yield
            ...     return stream.arrived[0].payload
            >>> def main(bsp):
            ...     ticket = bsp.ride("neighbours", neighbours(bsp, bsp.pid))
            ...     bsp.send(0, "the program's own")
            ...     bsp.sync()
            ...     return ticket.value, bsp.ride("neighbours", neighbours(bsp, -bsp.pid)).finish(), len(bsp.inbox)
            >>> pybsp.simulate(main, p=3).results
            [(2, -2, 3), (0, 0, 0), (1, -1, 0)]
        """
        self._gate.check(checked_label("bsp.ride", name, "name"))
        return self._superstep.rides.start_beside(name, checked_steps("bsp.ride", steps))

    def carry_out(self, name: str, steps: Supersteps[Result]) -> Result:
        """Run a function that rides in supersteps of its own: `ride(name, steps).finish()`; collective.

        Examples:
            >>> def neighbours(bsp, value):
            ...     stream = bsp.stream("neighbours")
            ...     stream.send((bsp.pid + 1) % bsp.p, value)
            ...     yield
            ...     return stream.arrived[0].payload
            >>> pybsp.simulate(lambda bsp: bsp.carry_out("neighbours", neighbours(bsp, bsp.pid)), p=3).results
            [2, 0, 1]
        """
        self._gate.check(checked_label("bsp.carry_out", name, "name"))
        return self._superstep.rides.start(name, checked_steps("bsp.carry_out", steps)).finish()

    def stream(self, name: str, **arguments: Any) -> Stream:
        """The messages of one call of a function that rides; see `ride`, which has an example. Only inside of one.

        Args:
            name: of the function.
            **arguments: of the call that are equal on all processors; where they are not, an error on all says so.

        Raises:
            UsageError: no function rides whose generator runs.

        Examples:
            >>> def largest(bsp, value, scale):
            ...     stream = bsp.stream("largest", scale=scale)
            ...     for dest in range(bsp.p):
            ...         stream.send(dest, scale * value)
            ...     yield
            ...     return max(letter.payload for letter in stream.arrived)
            >>> pybsp.simulate(lambda bsp: bsp.ride("largest", largest(bsp, bsp.pid, 10)).finish(), p=3).results
            [20, 20, 20]
            >>> try:
            ...     pybsp.simulate(lambda bsp: bsp.ride("largest", largest(bsp, 1, bsp.pid)).finish(), p=2)
            ... except pybsp.UsageError as error:
            ...     print(error)
            largest: argument scale: expected the same on all processors, got 0 on processor 0 and 1 on processor 1
        """
        return self._superstep.rides.stream(name, {key: str(value) for key, value in arguments.items()})

    # -- checkpoints ----------------------------------------------------------------------------------------------

    def restore(self, default: Any) -> Any:
        """The state that the last checkpoint holds; `default` where there is none. Collective, and no superstep.

        To be called once, when the program has made its arrays and queues and before `checkpoint`. These are matched by
        the order in which they are made, and then hold what they held; so do the inbox, and the ledger. Large arrays
        of the state are memory of the file, copied where they are written to; one that is an array's `local` is that
        again.

        Arrays and queues that were made before it may be used after the next `sync`, as ever; where checkpoints are
        asked for at once.

        Another number of processors than saved, or arrays of other layouts, can go on where all arrays have layouts,
        the state is equal on all, and no message or item is unread: arrays are divided by the layouts that they have
        here, and the ledger begins anew.

        Args:
            default: what the program begins with; anything.

        Raises:
            CheckpointError: none of the checkpoints that there are can be used; of another program, or of another p or
                layout where something does not say how it is laid out.
            UsageError: called twice, inside of a part, with something sent, or a collective under way.

        BSP cost: none; the file is read.

        Examples:
            >>> import shutil, tempfile
            >>> def main(bsp, supersteps):
            ...     state = bsp.restore({"step": 0, "total": 0})
            ...     for step in range(state["step"], supersteps):
            ...         bsp.send(0, step)
            ...         bsp.sync()
            ...         state = {"step": step + 1, "total": state["total"] + sum(m.payload for m in bsp.inbox)}
            ...         bsp.checkpoint(state)
            ...     return state["total"], len(bsp.ledger)
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     first = pybsp.simulate(main, 5, p=2, checkpoint=f"{folder}/a", every=1).results
            ...     again = shutil.copytree(f"{folder}/a", f"{folder}/b")  # as another job would find it
            ...     first, pybsp.simulate(main, 10, p=2, checkpoint=again, every=1).results  # goes on after 5
            ([(20, 5), (0, 5)], [(90, 10), (0, 10)])
        """
        self._refuse_in_part("bsp.restore")
        saver = self._superstep.saver
        return default if saver is None else saver.restore(default)

    def checkpoint(self, state: Any) -> None:
        """Offer a state to be saved, at a superstep's boundary: it is where a checkpoint is due. Collective.

        A job that has died goes on from the last checkpoint when it is started again (`pybsp run --restarts`), and ends
        with the same result: `restore`, which has an example, gives this state. Saved with it are the registered
        arrays, what is in the inbox and in queues, and the ledger. Where no checkpoints are asked for
        (`run(..., checkpoint=DIR)`, PYBSP_CHECKPOINT, `pybsp run --checkpoint DIR`) nothing is done, nor refused but
        in a part.

        Args:
            state: anything that can be pickled. Arrays are written as they are; with None, numbers, str, bytes, lists,
                tuples, dicts, numpy's generators and `random.Random` nothing is pickled.

        Raises:
            UsageError: no `restore` before; other arrays and queues than there were then; inside of a part; with
                something sent since the last sync, or a collective under way; a state that cannot be pickled.

        BSP cost: none where none is due; else what writing takes, which `ledger.checkpoints` has.

        Examples:
            >>> def main(bsp):
            ...     state = bsp.restore(0)
            ...     bsp.sync()
            ...     bsp.checkpoint(state + 1)  # nobody has asked for any
            ...     return state
            >>> pybsp.simulate(main, p=2).results
            [0, 0]
        """
        superstep = self._superstep
        if superstep.saver is not None:
            superstep.saver.offer(state)
        elif superstep.agreement.members:
            self._refuse_in_part("bsp.checkpoint")

    def _refuse_in_part(self, operation: str) -> None:
        if self._superstep.agreement.members:
            raise usage_error(operation, "the whole machine", "a part made by bsp.split", "call it outside")

    # -- groups and parts -----------------------------------------------------------------------------------------

    def group(self, members: Iterable[SupportsIndex]) -> Group:
        """A numbering of some processors, with collectives on it; see `Group`, which has an example.

        Not collective, and no superstep: those that are in a group make it, with the same members, whenever they want;
        what they call on it is compared. A processor may be in as many groups as it likes, which may overlap.

        Args:
            members: pids in the order of the group's numbers, this processor's among them.

        Raises:
            UsageError: no processors, one twice, or this one is not among them.

        BSP cost: none.

        Examples:
            >>> from pybsp import collectives
            >>> def main(bsp):
            ...     p, pid = bsp.p, bsp.pid
            ...     around = [(pid - 1) % p, pid, (pid + 1) % p]  # each is in three neighbourhoods
            ...     groups = [bsp.group([(q - 1) % p, q, (q + 1) % p]) for q in around]
            ...     sums = [collectives.allreduce.start(group, pid, np.add) for group in groups]
            ...     while not all(ticket.done for ticket in sums):
            ...         bsp.sync()
            ...     return int(sums[1].value)
            >>> pybsp.simulate(main, p=4).results
            [4, 3, 6, 5]
        """
        self._gate.check("bsp.group")
        return self._group(checked_members(members, self.p, self.pid))

    def grid(self, rows: SupportsIndex, columns: SupportsIndex) -> Grid:
        """The processors as a grid: processor i * columns + j is in row i and column j; see `Grid`.

        All processors make the same one; no superstep.

        Raises:
            UsageError: no whole numbers of at least 1, or rows * columns is not p.

        BSP cost: none.

        Examples:
            >>> from pybsp import collectives
            >>> def main(bsp):
            ...     grid = bsp.grid(2, 2)
            ...     total = collectives.allreduce(grid.row, bsp.pid, np.add)
            ...     return int(total), collectives.allgather(grid.column, bsp.pid)
            >>> pybsp.simulate(main, p=4).results
            [(1, [0, 2]), (1, [1, 3]), (5, [0, 2]), (5, [1, 3])]
        """
        self._gate.check("bsp.grid")
        m, n = checked_grid(rows, columns, self.p)
        i, j = divmod(self.pid, n)
        row, column = tuple(range(i * n, (i + 1) * n)), tuple(range(j, self.p, n))
        return Grid(m, n, self._group(row, singles=n == 1), self._group(column, singles=m == 1))

    def _group(self, members: tuple[int, ...], singles: bool = False) -> Group:
        machine = self._machine_of(len(members))
        return Group(self._superstep, machine, members, singles or self.p == 1, self.send, self.work)

    def split(self, color: Any, key: Any = None) -> Split[BSP]:
        """A BSP machine of a subset of the processors, which synchronises independently: `with bsp.split(c) as part`.

        Collective, and itself a superstep with h = 0. While the block lasts, only the part is used. What it returns can
        be kept, and entered again (`with halves as part:`) without a superstep; see `Split`.

        Args:
            color: processors with equal colors make one part; any hashable value. None: no part (`part` is None).
            key: orders the processors of a part, then pid; None: by pid.

        Raises:
            UsageError: something was sent since the last sync, or a collective is under way; a color that has no hash,
                cannot be pickled or does not equal a copy of it; keys that do not compare.
            SyncError: another processor did something else.

        Examples:
            >>> def main(bsp):
            ...     with bsp.split(color=bsp.pid % 2) as part:
            ...         part.send(0, bsp.pid)
            ...         part.sync()
            ...         return part.p, part.pid, [message.payload for message in part.inbox]
            >>> pybsp.simulate(main, p=5).results
            [(3, 0, [0, 2, 4]), (2, 0, [1, 3]), (3, 1, []), (2, 1, []), (3, 2, [])]
        """
        self._gate.check("bsp.split")
        refuse_under_way("bsp.split", self._superstep.rides, "call bsp.sync() until ticket.done first")
        if self._superstep.pending():
            raise UsageError(
                "bsp.split: split is a superstep of its own in which nothing is sent, but something was sent "
                "since the last sync; call bsp.sync() first"
            )
        try:
            hash(color)
        except TypeError:
            raise argument_error("bsp.split", "color", "a hashable value", type(color).__name__) from None
        try:
            copied, _ = pickle.loads(pickle.dumps((color, key), 5))
        except Exception as error:
            got = f"{brief(color)} and {brief(key)} ({error})"
            raise usage_error("bsp.split: arguments color and key", "values that can be pickled", got) from None
        if copied != color:  # ranks have copies of it, virtual processors perhaps itself
            way_out = "a NaN, or an object without a `==` of its own, does not"
            raise argument_error("bsp.split", "color", "a value that equals a copy of it", brief(color), way_out)
        return Split(self._superstep, color, key, self._part)

    def _part(self, superstep: SuperstepEngine) -> BSP:
        """What the program sees of a part."""
        return BSP(superstep, self._machine_of(superstep.p))

    def _machine_of(self, p: int) -> BSPMachine | EBSPMachine:
        """The parameters of some of the processors."""
        machine = self._machines.get(p)
        if machine is None:  # to check its parameters takes a sixth of a split
            machine = self._machines[p] = resized(self.machine, p)
        return machine

    # -- costs ----------------------------------------------------------------------------------------------------

    def work(self, flops: float, kind: str = "") -> None:
        """Charge work to this superstep, on this processor; others may charge other amounts.

        Args:
            flops: floating-point operations, at least 0, or what else the machine's rate of that kind counts.
            kind: of work, whose rate is the machine's (`BSPMachine.rates`); "", or one that it does not know: by r.

        Raises:
            UsageError: no such number, or a kind that is no text.

        Examples:
            >>> def main(bsp):
            ...     bsp.work(1000 * bsp.pid)
            ...     bsp.work(500, kind="sort")
            ...     bsp.sync()
            >>> machine = pybsp.BSPMachine(p=3, g=0, l=0, r=1000, rates={"sort": 100})
            >>> ledger = pybsp.simulate(main, machine=machine).ledger
            >>> ledger[0].work, ledger[0].charged, ledger.kinds
            (2500.0, 7.0, {0: {'sort': 500.0}})
        """
        amount: Any = flops
        if isinstance(amount, (np.integer, np.floating)):
            amount = float(amount)  # sums of few bits would stay so, and may be infinite
        if not isinstance(amount, (int, float)) or not 0 <= amount <= _MOST:
            expected = f"a number of at least 0, and at most {_MOST:g}"
            raise argument_error("bsp.work", "flops", expected, brief(flops))
        if kind is not None and not (isinstance(kind, str) and kind == ""):
            if not is_kind(kind):
                expected = 'a text without control characters, as "sort"'
                raise argument_error("bsp.work", "kind", expected, brief(kind))
            self._account.log.note_kind(kind, float(amount))
        self._account.log.work += amount

    def time(self) -> float:
        """Seconds since the program began; virtual on virtual processors.

        Examples:
            >>> def main(bsp):
            ...     bsp.work(1e6)
            ...     return bsp.time()
            >>> machine = pybsp.BSPMachine(p=2, g=1e-8, l=1e-5, r=1e9)
            >>> pybsp.simulate(main, machine=machine).results
            [0.001, 0.001]
        """
        return self._account.time()

    def expect(
        self,
        supersteps: int | None = None,
        h: int | None = None,
        messages: int | None = None,
        work: float | None = None,
    ) -> Managed[None]:
        """Assert what the block costs at most on this processor, without talking to the others.

        Args:
            supersteps: syncs; `pybsp run --progress` then says how long they will take.
            h: words, the larger of sent and received in each superstep, summed.
            messages: likewise; what a queue sends to one processor is one.
            work: flop charged.

        Raises:
            CostError: it cost more; the text has both figures, and in which superstep most was counted.
            UsageError: a number below 0.

        Examples:
            >>> def main(bsp):
            ...     with bsp.expect(supersteps=1, h=2):
            ...         bsp.send((bsp.pid + 1) % bsp.p, [1.0, 2.0, 3.0])
            ...         bsp.sync()
            >>> try:
            ...     pybsp.simulate(main, p=2)
            ... except pybsp.CostError as error:
            ...     print(str(error).split(";")[0])
            bsp.expect on processor 0: h: expected at most 2, counted 6 (6 in superstep 0)
        """
        limits = {"supersteps": supersteps, "h": h, "messages": messages, "work": work}
        given = {name: most for name, most in limits.items() if most is not None}
        for name, most in given.items():
            if not (isinstance(most, (int, float, np.number)) and most >= 0):
                raise argument_error("bsp.expect", name, "None or a number of at least 0", brief(most))
        shown = ", ".join(f"{name}={brief(most)}" for name, most in given.items())
        return Managed(self._expecting(given), f"bsp.expect({shown})", self._gate.unentered)

    def _expecting(self, given: Mapping[str, float]) -> Iterator[None]:
        """The block of `expect`."""
        log, line = self._account.log, where()
        with log.counting(given.get("supersteps")) as counts:
            yield
            counts.update()
        unended = log.work - counts.before
        counts.work += unended
        if unended > counts.largest.get("work", (0.0,))[0]:
            counts.largest["work"] = unended, self._account.superstep, self._account.label
        over = []
        for name, most in given.items():
            got = getattr(counts, name)
            if got > most:
                largest, superstep, label = counts.largest.get(name, (0, 0, ""))
                place = f" ({largest:.16g} in {describe(superstep, label)})" if largest else ""
                over.append(f"{name}: expected at most {most}, counted {got}{place}")
        if over:
            raise CostError(f"bsp.expect on processor {self.pid}: {'; '.join(over)}; the block begins at {line}")

    @property
    def ledger(self) -> Ledger:
        """The records of all supersteps so far, combined over the processors. Collective, and no superstep.

        Examples:
            >>> def main(bsp):
            ...     bsp.send(0, np.zeros(100))
            ...     bsp.sync()
            ...     (record,) = bsp.ledger
            ...     return record.h, record.M
            >>> pybsp.simulate(main, p=4).results
            [(300, 300), (300, 300), (300, 300), (300, 300)]
        """
        self._gate.check("bsp.ledger")
        exchange_ledger(self._superstep, self.machine)
        totals = exchange_totals(self._superstep, self.machine)
        account, hosts, router = self._account, self._superstep.transport.hosts, self._superstep.router.name
        return Ledger(self.machine, account.log, account.virtual, totals, hosts, router, account.network)

    # -- life cycle -----------------------------------------------------------------------------------------------

    @property
    def pending(self) -> str:
        """What was sent since the last sync, in words ("bsp.send, queue.send"); empty where nothing was.

        What is made of supersteps of its own, as the collectives are, asks this before it begins.

        Examples:
            >>> def main(bsp):
            ...     bsp.send(0, "text")
            ...     pending = bsp.pending
            ...     bsp.sync()
            ...     return pending, bsp.pending
            >>> pybsp.simulate(main, p=1).results
            [('bsp.send', '')]
        """
        return self._superstep.pending()

    def abort(self, message: str) -> NoReturn:
        """End the whole job now, from any processor, without a sync.

        Raises:
            AbortError: where there is no MPI job of several ranks to end.
            UsageError: this process is none of the job, but was forked by one.

        Examples:
            >>> def main(bsp):
            ...     if bsp.pid == 1:
            ...         bsp.abort("no more input")
            >>> try:
            ...     pybsp.simulate(main, p=2)
            ... except pybsp.AbortError as error:
            ...     print(error)
            pybsp: processor 1 aborted in superstep 0: no more input
        """
        text = f"pybsp: processor {self.pid} aborted in {self._account.described()}: {message}"
        self._transport.abort(text)
        raise SystemExit(1)


def _require_bytes(argument: str, dtype: np.dtype[Any]) -> None:
    if not dtype.itemsize:
        way_out = '; say how long texts are at most, as "U20"' if dtype.kind in "SU" else ""
        raise usage_error(argument, "items of at least a byte", f"{dtype!r}, whose items have none{way_out}")
