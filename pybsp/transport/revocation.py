"""What happens to a transport when an exception leaves one of its exchanges: it is *revoked*.

An exception may come at any point of an exchange: from a signal's handler, from memory that has run out, from MPI. What
was under way then can neither be completed nor be told from what comes next. So the processor that is left by it does
not use the transport again, and neither do the others:

    1. It sends all others a notice, on a communicator that no program uses (`revoke`).
    2. Whoever waits looks there now and then (`look`), which also moves on what MPI has under way. Who finds a
       notice leaves its own exchange likewise. Nobody can miss it for long: an exchange that one processor has left,
       or does not enter any more, no other completes.
    3. All meet on that communicator (`agree`): each tells each what it has to say, and waits for the others' words, but
       no longer than a grace period, after which the job is aborted.
    4. What is still under way is thrown away: posted receives are cancelled, and what arrives is received and forgotten
       until a last, empty message has come from each. Then the old communicator is empty, and is freed.

What follows takes a fresh communicator, boards and buffers. So nothing of a failed run can reach a later one.

The names are those of User-Level Failure Mitigation: Bland et al., *Post-failure recovery of MPI communication
capability* (2013), whose revocation MPI libraries do not offer without an error of a process.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterable
from itertools import repeat
from typing import TYPE_CHECKING, Any, Protocol

from ..errors import BSPError, ProcessorError
from ..ground.failures import Failure, failure_of, processor_error
from .probes import Probes
from .wire import FAILURE, LAST, NOTICE, PROBE

if TYPE_CHECKING:
    from mpi4py import MPI

    from .crossing import Crossing
    from .waiting import Waiter

SLACK = 1.0  # seconds that one who only learned of a failure waits longer than the one that failed: that one speaks


class RevokedError(BaseException):
    """Raised in a wait when another processor has left an exchange; never seen by programs, nor caught as theirs."""


class Member(Protocol):
    """Something with MPI requests on the communicator that is given up."""

    @property
    def comm(self) -> MPI.Intracomm:
        """That communicator."""

    def give_up(self) -> None:
        """Its communicator is revoked: from now on every call refuses."""

    def awaited(self) -> tuple[Iterable[int], Iterable[int]]:
        """Ranks known to be missing in the exchange that goes on; and all ranks of which that would be known here."""

    def receiving(self) -> Iterable[Any]:
        """Requests of receives that may be posted."""

    def sending(self) -> Iterable[Any]:
        """Requests of sends that may not have completed."""

    def forget(self) -> None:
        """All of them are complete: free what is persistent. Nothing is sent or received afterwards."""


class Revocation:
    """Whether the transports of a communicator are revoked, as one processor sees it.

    Args:
        comm: of all processors, used for nothing else.
        waiter: how this one waits.
        grace: gives the grace period, in seconds.

    Attributes:
        cause: what left an exchange here, or the failure of another; None: nothing is revoked.
        settled: the error that all know of, once they have met.
        probes: on their way over the communicator.
    """

    unsettled: list[Revocation] = []  # noqa: RUF012 - of this process: revoked, and the others not met yet

    def __init__(self, comm: MPI.Intracomm, waiter: Waiter, grace: Callable[[], float]) -> None:
        from mpi4py import MPI

        self.comm, self.p, self.pid = comm, comm.size, comm.rank
        self.probes = Probes(comm)
        self.cause: BaseException | None = None
        self.settled: ProcessorError | None = None
        self.members: list[Member] = []
        self._waiter, self.grace = waiter, grace
        self._iprobe, self._any_source, self._any_tag = comm.Iprobe, MPI.ANY_SOURCE, MPI.ANY_TAG
        self.byte, self._mpi_error = MPI.BYTE, MPI.Exception
        self.status = MPI.Status()
        self.crossing: Crossing | None = None  # where waits may cross
        self._noticing: list[Any] = []  # requests of the notices to the others
        self._telling: list[Any] = []  # requests of this processor's word to them
        self._arriving: list[tuple[int, int, bytearray, Any]] = []  # source, tag, text and request of what comes
        self._notices: dict[int, str] = {}  # by pid: what left an exchange there
        self._words: list[Any] = []  # by pid
        self._missing = set(range(self.p)) - {self.pid}
        self._last: list[Any] = []  # requests of the last, empty messages on the members' communicator
        self._open = set(self._missing)  # from whom that has not come
        self._barrier: Any = None
        self._emptied: Any = None  # the communicator that is given up

    @property
    def ended(self) -> bool:
        """Whether a processor has said that it ends its program with its failure."""
        return any(isinstance(word, Failure) and word.ends for word in self._words)

    def look(self) -> None:
        """Let MPI move on, in a wait; a RevokedError where another processor has left an exchange."""
        if self.cause is not None:
            raise RevokedError
        crossing = self.crossing
        while self._iprobe(self._any_source, self._any_tag, self.status):
            if self.status.Get_tag() != PROBE:
                raise RevokedError
            if crossing is None:
                self.probes.receive(self.status.Get_source())  # of a run before, where waits could cross: it is over
            else:
                crossing.take(self.status.Get_source())
        if crossing is not None:
            crossing.ask()

    def revoke(self, cause: BaseException) -> None:
        """An exchange is left by an exception here: all others are to know. Returns at once."""
        if self._noticing or self.p == 1:
            return
        # Where the next exception comes in between (the stack is full, or memory is), this goes on when it is called
        # again, further up.
        if self.cause is None:
            self.cause = cause
        if self not in self.unsettled:
            self.unsettled.append(self)
        for member in self.members:
            member.give_up()
        self._post(NOTICE, pickle.dumps(failure_of(self.cause, 0, "").summary[:200], 5), self._noticing)

    def refuse(self) -> None:
        """Something is to be exchanged on what is revoked.

        Raises:
            ProcessorError: what all know of.
            BSPError: what happened here, of which the others learn when the run ends.
        """
        if self.settled is not None:
            raise self.settled
        raise BSPError(
            f"an exchange was left by {type(self.cause).__name__} ({self.cause}), so what it carried is lost; nothing "
            "can be exchanged after it in this run"
        ) from self.cause

    def agree(self, failure: Failure | None, waits: float | None = None) -> list[Any]:
        """Meet all others, who do so too, and throw away what is under way.

        Args:
            failure: of this processor, if it has one.
            waits: seconds; None: a little longer than the grace period.

        Returns:
            what each says, by pid.

        Raises:
            TimeoutError: not all have come; the text says who.
        """
        if self.cause is None:
            self.revoke(RevokedError())
        deadline = time.perf_counter() + (self.grace() + SLACK if waits is None else waits)
        # 1. What the others say. (Where an exception comes in between, this goes on when it is called again.)
        if not self._words:
            self._words = [None] * self.p
        if not self._telling:
            self._words[self.pid] = failure
            self._post(FAILURE, pickle.dumps(failure, 5), self._telling)
        if not self._until(self._all_agreed, deadline):
            notices = "".join(
                f"; processor {pid} left an exchange by {what}" for pid, what in sorted(self._notices.items())
            )
            raise TimeoutError(
                f"processors {sorted(self._missing)[:16]} did not come to where failures are told{notices}"
            )
        # 2. What is under way.
        self._throw_away(deadline)
        if not any(isinstance(word, Failure) for word in self._words):
            self._words[self.pid] = failure_of(self.cause or RevokedError(), 0, "")
        self.settled = processor_error(self._words)
        if self in self.unsettled:
            self.unsettled.remove(self)
        return self._words

    def _all_agreed(self, _: object) -> bool:
        while self._missing and self._next():
            source, tag, text, request = self._arriving[0]
            request.Wait()
            if tag == FAILURE:
                self._words[source] = pickle.loads(text)
                self._missing.discard(source)
            elif tag == NOTICE:
                self._notices[source] = pickle.loads(text)
            del self._arriving[0]
        return not self._missing

    # Where an exception comes in between, what calls these two does so again. What they post, they keep in one step of
    # the interpreter: no handler of a signal can lose a request or post it twice.

    def _post(self, tag: int, text: bytes, requests: list[Any]) -> None:
        others = [pid for pid in range(self.p) if pid != self.pid]
        requests.extend(map(self.comm.Isend, repeat([text, len(text), self.byte]), others, repeat(tag)))

    def _next(self) -> bool:
        status = self.status
        if not self._arriving and self._iprobe(self._any_source, self._any_tag, status):
            source, tag = [status.Get_source()], [status.Get_tag()]
            text = bytearray(status.Get_count(self.byte))
            received = map(self.comm.Irecv, [[text, len(text), self.byte]], source, tag)
            self._arriving.extend(zip(source, tag, [text], received, strict=True))
        return bool(self._arriving)

    def _ended(self, request: Any) -> bool:
        return with_errors(request.Test, self._mpi_error)

    def _until(self, test: Callable[[object], bool], deadline: float) -> bool:
        return test(None) or self._waiter.until(test, None, deadline, looks=False)

    def _throw_away(self, deadline: float) -> None:
        """Empty the communicator that the members use, and free it."""
        from mpi4py import MPI

        # Every step may be left by another exception and is done again then, when this is called once more.
        if self._emptied is None:
            self._emptied = self.members[0].comm  # of all of them
        comm = self._emptied
        if not comm:
            return  # it has been freed
        receiving = [request for member in self.members for request in member.receiving() if not self._ended(request)]
        sending = [request for member in self.members for request in member.sending()]
        for request in receiving:  # not one that is inactive, for which a library may end the program
            with_errors(request.Cancel, self._mpi_error)
        # A send that is complete need not have arrived. Messages of a pair keep their order: behind the last one comes
        # nothing.
        if not self._last:
            nothing = [b"", 0, self.byte]
            others = [pid for pid in range(self.p) if pid != self.pid]
            self._last.extend(map(comm.Isend, repeat(nothing), others, repeat(LAST)))
        status = MPI.Status()

        def empty(requests: list[Any]) -> bool:
            # Another exception may strike between any two steps: the message is there until it is received, and is
            # looked at again then.
            while comm.Iprobe(MPI.ANY_SOURCE, MPI.ANY_TAG, status):
                source, tag = status.Get_source(), status.Get_tag()
                if tag == LAST:
                    self._open.discard(source)
                scrap = bytearray(status.Get_count(MPI.BYTE))
                comm.Recv([scrap, len(scrap), MPI.BYTE], source, tag)
            requests[:] = [request for request in requests if not self._ended(request)]
            return not requests and not self._open

        left = receiving + sending + self._noticing + self._telling + self._last
        if not self._until(lambda _: empty(left), deadline):
            raise TimeoutError("what was under way in the exchange did not end")
        # Nobody gives up the communicator before all have seen its end.
        if self._barrier is None:
            self._barrier = self.comm.Ibarrier()
        if not self._until(lambda _: bool(self._barrier.Test()), deadline):
            raise TimeoutError("what was under way in the exchange did not end on all processors")
        for member in self.members:
            member.forget()
        self.members.clear()
        comm.Free()


def with_errors(call: Callable[[], Any], mpi_error: type[BaseException]) -> bool:
    """The result of an MPI call; an error of it ends the request as well."""
    try:
        return call() is not False
    except mpi_error:
        return True
