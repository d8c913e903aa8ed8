"""How the processors agree on checkpoints: when one is due, whether all parts are on disk, which one to go on from.

They meet for that (`SAVE`, which is no superstep) in a call of `bsp.checkpoint`. Which call it is, all know: where
supersteps decide, by counting; else by a flag, `FLAG_MEET`, that a processor adds to the next exchange that ends a
superstep. Processor 0 does when it is time, or when its part is on disk, and each when a signal has told it that the
job is to end. Small collectives have no place for a flag: after so many calls (`CALLS`) they meet without.

A checkpoint takes these steps:

1. All meet: one is due.
2. Each writes its part, from the memory of the program into that of the system. The program goes on.
3. A thread has the part on disk, and copies it to a second folder where there is one.
4. All meet: where all parts are on disk processor 0 writes the manifest, and takes old checkpoints away.
"""

from __future__ import annotations

import math
import socket
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import CheckpointError, UsageError
from ..ground import settings
from ..ground.announcing import announce
from ..ground.chunk import clock
from ..rides.ride import refuse_under_way
from ..supersteps.participant import Saving
from ..transport import FLAG_MEET, SAVE
from . import notice, relaid, snapshot
from .due import FIRST_COST, Every
from .folder import Folder, Manifest, lock
from .notice import ENDED, NoticeFile
from .part import SavedPart, Written, copy, sync, write
from .record import Recorder

if TYPE_CHECKING:
    from ..supersteps.superstep import SuperstepEngine

CALLS = 1024  # of bsp.checkpoint, at most, from one meeting to the next
LOOK = 1.0  # seconds, at most, until processor 0 looks whether there is a reason to meet
AGAIN = 0.05  # seconds until processor 0 asks again whether all parts are on disk


class PartOutcome(NamedTuple):
    """What has become of one processor's part in one folder.

    error: why it is not there; empty where it is on disk.
    blocked, writing: seconds that the program waited, and until it was on disk.
    """

    error: str
    written: Written
    blocked: float
    writing: float


class MeetingReport(NamedTuple):
    """What each processor says in a meeting of `bsp.checkpoint`.

    done: of its part, folder by folder.
    notice: whether it was told that the job is to end.
    due: whether one is due; processor 0's word counts.
    """

    done: list[PartOutcome]
    notice: bool
    due: bool


class FoundCheckpoints(NamedTuple):
    """What each processor says first in `bsp.restore`.

    highest: number of a checkpoint that was begun.
    shared: those that count in the folder that all see.
    jobs: that have gone on there; processor 0's word counts.
    """

    host: str
    highest: int
    shared: list[int]
    jobs: Sequence[str]


class Writing:
    """A part that is being written.

    Attributes:
        done: the folders that are done with, in their order.
        committed: folders in which all know how it has ended.
        lost: those of them in which it is lost.
    """

    def __init__(self, number: int, superstep: int, outcome: PartOutcome) -> None:
        self.number, self.superstep = number, superstep
        self.done: list[PartOutcome] = []
        self.committed = 0
        self.lost: list[int] = []
        self.thread: threading.Thread | None = None
        self._first = outcome

    def work(self, folders: Sequence[Folder], pid: int, finished: Callable[[], None]) -> None:
        """Have it on disk, in all folders."""
        enter, first = clock(), self._first
        source = folders[0].part(self.number, pid)
        for folder in folders:
            error = first.error
            try:
                if not error and folder is folders[0]:
                    sync(source)
                elif not error:
                    folder.make(self.number)
                    copy(source, folder.part(self.number, pid))
            except OSError as wrong:
                error = f"{folder.part(self.number, pid)}: {wrong.strerror or wrong}"
            self.done.append(first._replace(error=error, writing=first.blocked + clock() - enter))
            finished()

    def join(self) -> None:
        """Wait until it has ended, if it has begun: a signal may come before its start."""
        if self.thread is not None and self.thread.ident is not None:
            self.thread.join()


class RefusedError(CheckpointError):
    """A checkpoint is whole, and none to go on from: older ones are not, either."""


def check_boundary(engine: SuperstepEngine, operation: str) -> None:
    """Raise UsageError where a superstep goes on, with something sent or under way."""
    engine.gate.check(operation)
    refuse_under_way(operation, engine.rides, "call bsp.sync() until ticket.done first")
    if pending := engine.pending():
        raise UsageError(
            f"{operation}: expected a superstep's boundary, but something was sent since the last sync ({pending}); "
            "call it before sending, or call bsp.sync() first"
        )


def check_registered(engine: SuperstepEngine, things: Sequence[Any] | None) -> None:
    """Raise UsageError where the arrays and queues are other ones than `restore` found; None: it was not called."""
    if things is None:
        raise UsageError("bsp.checkpoint: expected bsp.restore(default) before it, which says where a run goes on")
    if list(engine.registrations.order) != things:
        raise UsageError(
            "bsp.checkpoint: expected the arrays and queues that there were at bsp.restore, by which a run that is "
            "started again finds them; make all before bsp.restore, and free those that are made later before "
            "bsp.checkpoint"
        )


class Saver(Saving):
    """The checkpoints of one run, as one processor sees them.

    Args:
        engine: of its machine.
        folders: where they go, the nearest first; the last is seen by all processors.
        every: when they are due.
        keep: how many are kept.
        program: what it is that saves.
        recorder: of what this processor gets.

    Attributes:
        notices: by which `pybsp run` says that the job is to end.
    """

    __slots__ = (
        "_account",
        "_at",
        "_cost",
        "_counted",
        "_counts",
        "_damaged",
        "_due_at",
        "_engine",
        "_every",
        "_folders",
        "_host",
        "_hosts",
        "_jobs",
        "_keep",
        "_left",
        "_log",
        "_look_at",
        "_notice",
        "_number",
        "_outgoing",
        "_program",
        "_recorder",
        "_rides",
        "_things",
        "_writing",
        "notices",
    )

    def __init__(
        self,
        engine: SuperstepEngine,
        folders: Sequence[Folder],
        every: Every,
        keep: int,
        program: str,
        recorder: Recorder | None = None,
    ) -> None:
        self._engine, self._folders, self._every, self._keep = engine, folders, every, keep
        self._program, self._account, self._log, self._recorder = program, engine.account, engine.account.log, recorder
        self._host, self._hosts = socket.gethostname(), [""]
        self._jobs: Sequence[str] = ()  # that have gone on in the shared folder; this one is the last
        self._things: list[Any] | None = None  # that are registered when the program begins; None before `restore`
        self._number, self._notice = 0, False
        self._damaged: set[int] = set()  # checkpoints that this job could not go on from
        self._counted: Path | None = None  # the last checkpoint that counts, in the farthest folder that has it
        path = settings.text(settings.NOTICE)
        self.notices = NoticeFile(Path(path) if path else None)
        self._outgoing, self._rides, self._counts = engine.mail.outgoing, engine.rides, bool(every.supersteps)
        self._left = 0  # calls until all meet
        self._at: float = math.inf  # the superstep in which one is due
        self._due_at = self._look_at = math.inf  # seconds, by `clock`
        self._cost = FIRST_COST
        self._writing: Writing | None = None

    def prepare(self) -> None:
        """Have folders that can be written; a CheckpointError where one cannot be."""
        for folder in self._folders:
            folder.prepare()

    # -- when ---------------------------------------------------------------------------------------------------------

    def offer(self, state: Any) -> None:
        # Time counts here: it is what a superstep pays where no checkpoint is due. So the clock is not looked at; the
        # time at which the last exchange ended is late enough.
        if self._outgoing or self._rides.riding or not self._engine.gate.limit:
            check_boundary(self._engine, "bsp.checkpoint")  # wrong also where none is due
        self._left = left = self._left - 1
        if left > 0 and not (self._counts and len(self._log) >= self._at):
            if self._account.log.left >= self._look_at:
                self._look()
            return
        computed = self._account.computed()
        self._meet(state, computed)
        self._account.set_computed(computed)  # without its cost, which the ledger has apart

    def heard(self) -> None:
        self._engine.flags = 0
        self._left = 0

    def warn(self) -> None:
        """The job is to end soon: save at the next occasion, and end."""
        self._notice = True
        self._look_at = 0.0

    def _look(self) -> None:
        """Have all meet in the first call of the next superstep, if there is a reason to."""
        now, engine = clock(), self._engine
        if engine.pid == 0 and self.notices.has_come():
            self._notice = True
        if self._notice or self._has_news() or now >= self._due_at:
            self._look_at = math.inf
            engine.flags = FLAG_MEET
            engine.participants[self] = None
        else:
            self._look_at = min(self._due_at, now + LOOK)

    def _has_news(self) -> bool:
        """Whether processor 0's part lies in another folder since all have met."""
        writing = self._writing
        return self._engine.pid == 0 and writing is not None and len(writing.done) > writing.committed

    def _finished(self) -> None:
        """A folder is done with; called by the thread."""
        if self._engine.pid == 0:
            self._look_at = 0.0

    def _schedule(self) -> None:
        """The next one is due so much later than now."""
        if self._counts:
            self._at = len(self._log) + self._every.supersteps
        elif self._engine.pid == 0:
            self._due_at = clock() + self._every.interval(self._cost)

    # -- saving -------------------------------------------------------------------------------------------------------

    def _meet(self, state: Any, computed: float) -> None:
        engine = self._engine
        check_boundary(engine, "bsp.checkpoint")
        check_registered(engine, self._things)
        reports = self._reports()
        notice = any(one.notice for one in reports)
        save = notice or reports[0].due
        if save and self._writing is not None:
            self._writing.join()
            reports = self._reports()
        self._commit(reports)
        if save:
            self._save(state, computed)
        if notice:
            self._end()
        self._wait()

    def _wait(self) -> None:
        """Meet again when it is time."""
        self._left = CALLS
        self._look_at = min(self._due_at, clock() + LOOK) if self._engine.pid == 0 else math.inf
        # In this order: a thread, or a signal, may say something meanwhile.
        if self._has_news():
            self._look_at = clock() + AGAIN
        if self._notice:
            self._look_at = 0.0

    def _reports(self) -> list[MeetingReport]:
        # One that is due by time waits for the one before it to be on disk.
        due = len(self._log) >= self._at or (self._writing is None and clock() >= self._due_at)
        done = [] if self._writing is None else list(self._writing.done)
        return self._exchange(MeetingReport(done, self._notice, due), "called bsp.checkpoint()")

    def _exchange(self, own: Any, what: str, declared: Any = None) -> list[Any]:
        """What each processor says."""
        engine = self._engine
        # Notes have the layout that they have in a sync: see `agreement.look_through`.
        arrival = engine.meet(SAVE, (own, declared, None), {})
        found = engine.settle(arrival, SAVE, what)
        assert found is not None
        return list(found)

    def _save(self, state: Any, computed: float) -> None:
        """Write this processor's part."""
        engine, pid, folders = self._engine, self._engine.pid, self._folders
        enter, error, written = clock(), "", Written(0, 0)
        self._number += 1
        tree, blocks = snapshot.take(engine, self._things or (), state, computed)
        path = folders[0].part(self._number, pid)
        try:
            folders[0].make(self._number)
            written = write(path, tree, blocks)
        except OSError as wrong:
            error = f"{path}: {wrong.strerror or wrong}"
        blocked = clock() - enter
        self._writing = writing = Writing(self._number, len(self._log), PartOutcome(error, written, blocked, 0.0))
        self._cost = blocked
        self._schedule()
        if engine.account.virtual:
            writing.work(folders, pid, self._finished)
            return
        writing.thread = threading.Thread(
            target=writing.work, args=(folders, pid, self._finished), name="pybsp checkpoint", daemon=True
        )
        writing.thread.start()

    def _commit(self, reports: Sequence[MeetingReport]) -> None:
        """Where all have a part in a folder the checkpoint counts there, if its manifest can be written too."""
        writing, pid = self._writing, self._engine.pid
        if writing is None:
            return
        last = len(self._folders) - 1
        ready = min(len(one.done) for one in reports)
        for number in range(writing.committed, ready):
            outcomes = [one.done[number] for one in reports]
            folder = self._folders[number]
            wrong = next((one.error for one in outcomes if one.error), "")
            if not wrong and self._sees_to(number):
                try:
                    manifest = Manifest(
                        self._program, self._jobs[-1], writing.superstep, [one.written for one in outcomes]
                    )
                    folder.commit(writing.number, manifest)
                    folder.prune(self._keep, self._damaged)
                except OSError as error:
                    wrong = f"{folder.place(writing.number)}: {error.strerror or error}"
            wrong = next(filter(None, self._exchange(wrong, "called bsp.checkpoint()")), "")
            if wrong:
                writing.lost.append(number)
                if pid == 0:
                    _print(f"this checkpoint is lost: {wrong}; what was saved before stays")
            if number == 0:
                self._cost = max(one.blocked for one in outcomes)
            place = folder.place(writing.number)
            if not wrong:
                if self._counted is None or self._counted.name != place.name:
                    size = sum(one.written.bytes for one in outcomes)
                    self._log.checkpoints.append((writing.superstep, size, self._cost))
                self._counted = place
        writing.committed = ready
        if ready > last:
            self._writing = None
            # Now, since all have copied what they were to copy from the nearest: the next one needs the room.
            for number in writing.lost:
                if self._sees_to(number):
                    self._folders[number].remove([writing.number])

    def _sees_to(self, number: int) -> bool:
        """Whether this processor is the one that writes manifests in a folder, and removes checkpoints."""
        if number == len(self._folders) - 1:
            return self._engine.pid == 0
        return self._engine.pid == self._hosts.index(self._host)

    def _end(self) -> None:
        """All have saved, as the job is to end: it does."""
        if self._writing is not None:
            self._writing.join()
        self._commit(self._reports())
        if self._engine.pid == 0:
            place = self._counted
            if place is None:
                _print("was told to end, and has saved nothing; started again, the program begins anew")
            elif place.name == self._folders[0].place(self._number).name:
                _print(f"was told to end: saved in {place}; started again, the program goes on from there")
            else:
                _print(f"was told to end, and could not save; started again, the program goes on from {place}")
            self.notices.answer()
        raise SystemExit(ENDED)

    def close(self) -> None:
        if self._writing is not None:
            self._writing.join()
            self._commit(self._reports())
        self._stop_listening()

    def give_up(self) -> None:
        if self._writing is not None:
            self._writing.join()
        self._stop_listening()

    def _listen(self) -> None:
        """The job may be given notice from now on."""
        notice.listen(self.warn)
        if self._engine.pid == 0:
            self.notices.heed()

    def _stop_listening(self) -> None:
        notice.leave(self.warn)
        if self._engine.pid == 0:
            self.notices.ignore()

    # -- going on -----------------------------------------------------------------------------------------------------

    def restore(self, default: Any) -> Any:
        engine, computed = self._engine, self._account.computed()
        check_boundary(engine, "bsp.restore")
        if self._things is not None:
            raise UsageError("bsp.restore: expected one call in a run, before the first bsp.checkpoint")
        self._listen()
        *near, shared = self._folders
        highest = max((number for folder in self._folders for number in folder.numbers()[-1:]), default=0)
        own = FoundCheckpoints(self._host, highest, shared.counted(), shared.begin_job() if engine.pid == 0 else ())
        reports: list[FoundCheckpoints] = self._exchange(
            own, "called bsp.restore()", engine.registrations.declared or None
        )
        self._hosts, self._jobs = [one.host for one in reports], reports[0].jobs
        self._number = max(one.highest for one in reports)
        self._things = list(engine.registrations.order)
        numbers = {number for one in reports for number in one.shared}
        if near:
            numbers.update(*self._exchange(self._nearer(near), "called bsp.restore()"))
        part = self._newest(sorted(numbers, reverse=True))
        if self._recorder is not None:
            assert part is None or isinstance(part, SavedPart)  # `_read` has seen to it
            self._recorder.restored(part)
        if part is None:
            state = default
        elif isinstance(part, SavedPart):
            state = snapshot.put_back(engine, self._things, part)
            computed = self._account.computed()
        else:
            state = relaid.put_back(engine, self._things, part)
        self._schedule()
        self._wait()
        self._account.set_computed(computed)
        return state

    def _nearer(self, folders: Sequence[Folder]) -> list[int]:
        """The checkpoints that count in this host's own folders, which are this job's alone from now on.

        Raises:
            CheckpointError: another job that goes on has one of them.
        """
        found: list[int] = []
        for place, folder in enumerate(folders):
            foreign = folder.foreign(self._jobs)
            found += (number for number in folder.counted() if number not in foreign)
            if self._sees_to(place):
                lock(folder.root, settings.seconds(settings.GRACE), self._host)
                folder.remove(foreign)
        return found

    def _newest(self, numbers: Sequence[int]) -> SavedPart | Sequence[SavedPart] | None:
        """This processor's part of the newest of these checkpoints that is whole; None where there are none.

        All parts of one that another number of processors has saved.

        Raises:
            CheckpointError: there are some, and none is whole; or the newest that is whole is of another program, or
                of another p and does not say how it is laid out.
        """
        damaged: list[str] = []
        for number in numbers:
            part: SavedPart | Sequence[SavedPart] | None = None
            complaint, refused = "", False
            try:
                part = self._read(number)
            except CheckpointError as error:
                complaint, refused = str(error), isinstance(error, RefusedError)
            reports = self._exchange((complaint, refused), "called bsp.restore()")
            complaints = [complaint for complaint, _ in reports if complaint]
            refusals = [complaint for complaint, refused in reports if refused]
            if refusals:
                raise CheckpointError(f"bsp.restore: {refusals[0]}; {self._begin_anew()}")
            if not complaints:
                if self._engine.pid == 0:
                    for one in damaged:
                        _print(f"a checkpoint cannot be used, and the one before it is: {one}")
                    _print(f"goes on from {self._folders[-1].place(number)}")
                self._counted = self._folders[-1].place(number)
                return part
            damaged.append(complaints[0])
            self._damaged.add(number)
        if not damaged:
            return None
        raise CheckpointError(f"bsp.restore: no checkpoint can be used: {'; '.join(damaged)}; {self._begin_anew()}")

    def _begin_anew(self) -> str:
        return "to begin anew, remove " + " and ".join(str(folder.path) for folder in self._folders)

    def _read(self, number: int) -> SavedPart | Sequence[SavedPart]:
        """This processor's part, or all that others have to share out, from the nearest folder that has it whole."""
        complaint: CheckpointError | None = None
        for folder in self._folders:
            try:
                manifest = folder.manifest(number)
                if folder is not self._folders[-1] and manifest.job not in self._jobs:
                    raise CheckpointError(f"{folder.place(number)}: it is of a job with another shared folder")
                if manifest.program != self._program:
                    raise RefusedError(f"{folder.place(number)}: it is of {manifest.program}, not of {self._program}")
                if len(manifest.parts) == self._engine.p:
                    own = folder.read(number, self._engine.pid)
                    if relaid.laid_out_alike(self._things or (), own):
                        return own
                if self._recorder is not None:
                    raise RefusedError(
                        f"{folder.place(number)}: {len(manifest.parts)} processors have saved it, and {self._engine.p} "
                        "are to go on: expected as many, and arrays of the same layouts, where a processor is recorded"
                    )
                parts = [folder.read(number, pid) for pid in range(len(manifest.parts))]
                if wrong := relaid.obstacle(self._engine, self._things or (), parts):
                    raise RefusedError(wrong)
                return parts
            except CheckpointError as error:  # noqa: PERF203
                if isinstance(error, RefusedError):
                    raise
                complaint = error
        assert complaint is not None
        raise complaint


def _print(text: str) -> None:
    announce(f"pybsp: {text}")
