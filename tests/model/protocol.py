"""What one rank does in the protocol: the steps of pybsp/transport/board.py, heads.py, flight.py and revocation.py, as
media/near.py, messages.py and mixed.py put them together, and no others.

Classes and methods have the names of the code that they stand for. Everything else is as small as it can be: a text is
a tuple that says what it is, who said it, to whom and when; so is data; the place of a text is the cell that holds it.
What each rank says in an exchange it chooses from `World.says`, and notes in cells that no protocol reads (*said*),
against which what arrives is held.

    quiet   nothing
    own     something for itself alone
    mail    a small manifest
    note    the same to all
    data    data that lies in the arena, and is read there
    laid    a manifest too long for the area, which lies in the arena
    late    a manifest that goes as a message, as area and arena are full
    send    data that goes as a message, as the arena is full
    show    a record for all, as small collectives on one node have it
    ...*    to all others, each its own; else to the next one
    ...+    by begin and end, and the next exchange's data may be written in between
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from pybsp.transport import RIDES, SYNC
from pybsp.transport.wire import (
    AGES,
    BORROWS,
    BY_MESSAGE,
    HAS,
    KIND_AND_FLAGS,
    SHOWS,
    SOMETHING,
    STATUS_EPOCH_SHIFT,
    TAG_EPOCH_SHIFT,
)

from .machine import DeliveryError, Memory, Program, RaisedError, RevokedError, Stateful, Step, WrongError

COUNTED = 3  # mask of the number in a head; 0xFFFF in the code, where more than four exchanges are run
SIZES = {"mail": 1, "note": 2, "data": 3, "laid": 4, "late": 5, "send": 6, "release": 7}


class World(NamedTuple):
    """What is explored.

    Attributes:
        script: what the program does: so many exchanges of all (an int), or those of a part (members, exchanges).
        says: what a processor may say in an exchange.
        nodes: the ranks of each node; those alone on theirs have no board.
        ages: AGES, which is made small where data is to get as old.
        keeps: exchanges that received data may be kept for.
        raises: exceptions that are raised inside exchanges.
        raisers: who may raise them; empty: anyone.
        lost: whether the rank that raises may never come to the meeting.
        led: whether the first rank leads, as in leaders.py; another node says something or nothing.
    """

    p: int
    script: tuple[Any, ...]
    says: tuple[str, ...]
    nodes: tuple[tuple[int, ...], ...]
    ages: int = AGES
    keeps: int = 3
    raises: int = 0
    raisers: tuple[int, ...] = ()
    lost: bool = False
    led: bool = False


class Board(Stateful):
    """As board.Board; slots have three words for each destination: place, tag and size."""

    def __init__(self, rank: Rank, ranks: Sequence[int], context: int, number: int, parent: Board | None) -> None:
        self.cell, self.do, self.wait = rank.memory.cell, rank.do, rank.wait
        self.refers, self.poison = rank.refers, rank.poison
        self.ranks, self.own = tuple(ranks), ranks.index(rank.own)
        self.others = tuple(k for k in range(len(ranks)) if k != self.own)
        self.number, self.parent, self.ages = number, parent, rank.world.ages
        self.at = ("window", rank.window, "context", context)
        self.words: list[int] = []
        self.sent: list[tuple[int, tuple[int, ...]]] = []
        self.got: list[tuple[int, int, int, Any]] = []

    # -- where things lie

    def status(self, k: int) -> int:
        return self.cell("status", *self.at, self.ranks[k], self.number & 1)

    def borrows(self, k: int) -> int:
        return self.cell("borrows", *self.at, self.ranks[k], self.number & 1)

    def slot(self, k: int, to: int, word: str) -> int:
        return self.cell("slot", *self.at, self.ranks[k], self.number & 1, to, word)

    def area(self, k: int, before: int = 0) -> int:
        return self.cell("area", *self.at, self.ranks[self.own], self.number - before & 1, k)

    def record(self, k: int) -> int:
        return self.cell("area", *self.at, self.ranks[k], self.number & 1, 0)

    def release(self, word: str) -> int:
        return self.cell("release", *self.at, word)

    # -- an exchange

    def meet(self, kind: int) -> Program:
        self.number += 1
        word = self.number << STATUS_EPOCH_SHIFT | kind
        quiet = True
        borrowed = yield from self.borrowed()
        if borrowed:
            word, quiet = word | borrowed, False
        yield self.do("write", self.status(self.own), word)
        for k in self.others:
            seen = yield self.do("read", self.status(k))  # the last look, when its patience is over
            if seen != word:
                quiet = False
        if not quiet:
            yield from self.come()
            differs = word & BORROWS > 0
            for k in self.others:
                if not differs:
                    seen = yield self.do("read", self.status(k))
                    differs = seen != word
            if differs:
                yield from self.finish()
                return all((seen ^ word) & ~BORROWS == 0 for seen in self.words)
        yield from self.use_again(0)
        return True

    def show(self, kind: int, text: Any) -> Program:
        """With the record, which its caller writes in the code."""
        self.number += 1
        yield self.do("write", self.record(self.own), text)
        word = self.number << STATUS_EPOCH_SHIFT | kind | SHOWS
        borrowed = yield from self.borrowed()
        alike = not borrowed
        yield self.do("write", self.status(self.own), word | borrowed)
        for k in self.others:
            seen = yield self.do("read", self.status(k))  # the last look, when its patience is over
            if seen != word:
                alike = False
        if not alike:
            yield from self.come()
            differs = borrowed > 0
            for k in self.others:
                if not differs:
                    seen = yield self.do("read", self.status(k))
                    differs = seen != word
            if differs:
                yield from self.finish()
                return all(seen & ~BORROWS == word for seen in self.words)
        yield from self.use_again(0)
        return True

    def enter(self, kind: int, texts: Sequence[tuple[int, str, Any, int]], data: tuple[int, ...]) -> Program:
        """Texts: (for whom, "area", "arena" or "message", what, its cell where it is in the arena)."""
        self.number += 1
        used = 0
        last = None
        place = 0
        if len(texts) < len(self.others):
            for k in self.others:
                yield self.do("write", self.slot(self.own, k, "tag"), self.number << TAG_EPOCH_SHIFT)
        for k, where, text, laid in texts:
            if where == "area" and text != last:
                place = self.area(used)
                used += 1
                yield self.do("write", place, text)
            elif where != "area":
                place = laid if where == "arena" else BY_MESSAGE
            last = text
            yield self.do("write", self.slot(self.own, k, "place"), place)
            yield self.do("write", self.slot(self.own, k, "tag"), self.number << TAG_EPOCH_SHIFT | HAS)
            yield self.do("write", self.slot(self.own, k, "size"), SIZES[text[3]])
        if data:
            self.sent.append((self.number, data))
        yield from self.say(kind | SOMETHING)

    def say(self, what: int) -> Program:
        borrowed = yield from self.borrowed()
        yield self.do("write", self.status(self.own), self.number << STATUS_EPOCH_SHIFT | what | borrowed)

    def come(self) -> Program:
        """As `wait`."""
        for k in self.others:
            yield self.wait("least", self.status(k), self.number << STATUS_EPOCH_SHIFT)

    def gather(self, kind: int) -> Program:
        yield from self.come()
        found = []
        reading = 1
        for k in self.others:
            word = yield self.do("read", self.status(k))
            if word & KIND_AND_FLAGS != kind:
                return None
            if word & SOMETHING:
                said = yield from self.manifest(k)
                if said is not None:
                    if said[0] == BY_MESSAGE:
                        return None
                    found.append((k, *said))
            if word & BORROWS:
                borrowed = yield from self.reading(k)
                reading |= borrowed
        yield from self.use_again(reading)
        return found

    def finish(self) -> Program:
        self.words = []
        for k in range(len(self.ranks)):
            word = yield self.do("read", self.status(k))
            self.words.append(word)
        reading = 1
        if self.sent:
            for k in self.others:
                if self.words[k] & BORROWS:
                    borrowed = yield from self.reading(k)
                    reading |= borrowed
        yield from self.use_again(reading)

    def manifests(self) -> Program:
        found = []
        for k in self.others:
            if self.words[k] & SOMETHING:
                said = yield from self.manifest(k)
                if said is not None:
                    found.append((k, *said))
        return found

    def manifest(self, k: int) -> Program:
        """What a slot says: place and size; None: there is nothing."""
        tag = yield self.do("read", self.slot(k, self.own, "tag"))
        if tag >> TAG_EPOCH_SHIFT != self.number:
            raise DeliveryError(f"a slot of exchange {tag >> TAG_EPOCH_SHIFT} in exchange {self.number}")
        if not tag & HAS:
            return None
        place = yield self.do("read", self.slot(k, self.own, "place"))
        size = yield self.do("read", self.slot(k, self.own, "size"))
        return place, size

    # -- memory that is read where it lies

    def reading(self, k: int) -> Program:
        """Which of this rank's data another one reads: bit k for that of k exchanges ago."""
        row = yield self.do("read", self.borrows(k))
        return row[self.own] if row else 0  # zeros, before anything is written

    def use_again(self, reading: int) -> Program:
        """As `Lent.release`."""
        before = self.sent
        self.sent = [entry for entry in before if self.bit(self.number - entry[0]) & reading]
        yield from self.poison(tuple(cell for entry in before if entry not in self.sent for cell in entry[1]))

    def borrowed(self) -> Program:
        self.got = [entry for entry in self.got if self.refers(entry[2], entry[3])]
        if not self.got:
            return 0
        row = [0] * len(self.ranks)
        for number, k, _, _ in self.got:
            row[k] |= self.bit(self.number - number)
        yield self.do("write", self.borrows(self.own), tuple(row))
        return BORROWS

    def bit(self, age: int) -> int:
        return 1 << (age if age < self.ages else self.ages)

    def retire(self) -> None:
        parent = self.parent
        assert parent is not None
        where = [parent.ranks.index(rank) for rank in self.ranks]
        parent.sent += [(parent.number, data) for _, data in self.sent]
        parent.got += [(parent.number, where[k], cell, data) for _, k, cell, data in self.got]
        self.sent = []
        self.got = []

    # -- a leader

    def let_go(self, text: Any, used: int) -> Program:
        word = yield self.do("read", self.status(self.own))
        if text is not None:
            word |= SOMETHING
            place = self.area(used)
            yield self.do("write", place, text)
            yield self.do("write", self.release("place"), place)
            yield self.do("write", self.release("size"), SIZES["release"])
        yield self.do("write", self.release("word"), word)

    def led(self) -> Program:
        yield self.wait("least", self.release("word"), self.number << STATUS_EPOCH_SHIFT)


class Transport(Stateful):
    """As the media: those of one's node meet on a board, the others by messages."""

    def __init__(self, rank: Rank, ranks: Sequence[int], context: int, parent: Transport | None) -> None:
        self.rank, self.do, self.wait = _Same(rank), rank.do, rank.wait
        self.ranks, self.pid, self.context = tuple(ranks), ranks.index(rank.own), context
        self.number = 0
        self.board: Board | None = None
        here = next(node for node in rank.world.nodes if rank.own in node)
        self.near = tuple(d for d, one in enumerate(ranks) if one in here)
        p = len(ranks)
        others = tuple((self.pid + k) % p for k in range(1, p))
        self.peers = tuple(d for d in others if d not in self.near)
        self.heads_out: tuple[tuple[int, int], ...] = ()
        self.unfinished: list[tuple[tuple[int, int], ...]] = []
        self.parent_board = None if parent is None else parent.board

    def make_board(self) -> Program:
        if len(self.near) == 1:
            return
        rank = self.rank.it
        ranks = [self.ranks[d] for d in self.near]
        number = rank.numbers.get(self.context, 0)
        if self.parent_board is not None:
            mine = rank.memory.cell("number", rank.own)
            yield self.do("write", mine, number)
            others = tuple(d for d in self.near if d != self.pid)
            incoming = tuple(self.channel(d, "manifest", False) for d in others)
            outgoing = tuple((self.channel(d, "manifest"), mine) for d in others)
            yield self.do("post", incoming)
            for channel, cell in outgoing:
                yield self.do("send", channel, cell)
            numbers = yield self.wait("received", incoming)
            yield self.wait("sent", outgoing)
            number = max(number, *numbers)
        self.board = Board(rank, ranks, self.context, number, self.parent_board)
        rank.boards.append(self.board)

    def channel(self, d: int, tag: str, out: bool = True) -> int:
        rank = self.rank.it
        ends = (rank.own, self.ranks[d]) if out else (self.ranks[d], rank.own)
        return rank.memory.channel(rank.comm, *ends, f"{tag} {self.context}")

    # -- an exchange

    def exchange(self, position: int) -> Program:
        """An exchange, with what this processor says in it; the position in the program tells it from all others."""
        rank = self.rank.it
        self.number += 1
        yield from self.see_off(keep=1)
        said = yield from rank.says(self, position)
        what, begins = said.what.rstrip("*+"), said.what.endswith("+")
        board = self.board
        all_near = not self.peers and board is not None
        if rank.world.led:
            arrived = yield from self.exchange_led(said, position)
        elif all_near and what == "quiet" and not begins:
            assert board is not None
            quiet = yield from board.meet(SYNC)
            arrived = {}
            if not quiet:
                arrived = yield from self.trade(())
        elif what == "show":
            assert all_near
            assert board is not None
            alike = yield from board.show(RIDES, (rank.own, -1, (rank.epoch, position), "show"))
            if alike:
                arrived = yield from self.records(board.others)
            else:
                arrived = yield from self.receive([], ())
        else:
            trades = all_near and not begins and what != "note"
            sends = yield from self.hand_over(said, trades)
            if begins:
                yield from rank.write_ahead(position)
            if trades:
                arrived = yield from self.trade(sends)
            else:
                arrived = yield from self.finish(sends)
        if board is not None:
            rank.numbers[self.context] = board.number
        yield from rank.check(self, position, arrived)
        # Of the exchange before nothing is read any more: states that differ in that are the same.
        yield Step("write", (rank.memory.cell("said", self.context, rank.own, ~self.number & 1), 0), local=True)
        if board is not None:
            for k in range(2):
                yield Step("write", (board.area(k, before=1), 0), local=True)

    def trade(self, sends: tuple[tuple[int, int], ...]) -> Program:
        """As `Near.exchange`, from `gather` on."""
        board = self.board
        assert board is not None
        found = yield from board.gather(SYNC)
        if found is not None and not sends:
            arrived = yield from self.texts(found)
            if all(text[3] not in ("send", "note") for text in arrived.values()):
                return arrived
        yield from board.finish()
        arrived = yield from self.receive([], sends)
        return arrived

    def finish(self, sends: tuple[tuple[int, int], ...]) -> Program:
        """As `_complete`."""
        board = self.board
        words: Sequence[Any] = ()
        if self.peers:
            words = yield self.wait("received", tuple(self.channel(d, "head", False) for d in self.peers))
            gone = yield self.do("tested", self.heads_out)
            if gone:
                self.heads_out = ()
        if board is not None:
            yield from board.come()
            yield from board.finish()
        arrived = yield from self.receive(words, sends)
        return arrived

    def hand_over(self, said: Said, trades: bool) -> Program:
        """As `_post`; or what `Near.exchange` does of that."""
        rank, board = self.rank.it, self.board
        near = [d for d, _, _ in said.texts if d in self.near]
        sends: list[tuple[int, int]] = []
        if trades:
            yield from self.post_data(sends, said)
        if board is not None:
            where = {"laid": "arena", "late": "message"}.get(said.what.rstrip("*+"), "area")
            texts = [(self.near.index(d), where, text, cell) for d, text, cell in said.texts if d in self.near]
            shared = said.buffers if near and where != "message" and said.what.rstrip("*+") != "send" else ()
            yield from board.enter(SYNC, texts, shared)
        # The heads.
        if self.peers:
            yield from self.see_off_heads()
            for d in self.peers:
                inline = next(
                    (t for to, t, _ in said.texts if to == d and t[3] in ("mail", "note", "data", "send")), None
                )
                long = any(to == d and t[3] in ("laid", "late") for to, t, _ in said.texts)
                word = (SYNC, self.number & COUNTED, "long" if long else "inline" if inline else "", inline)
                yield self.do("write", rank.memory.cell("head", rank.comm, rank.own, self.ranks[d], self.context), word)
            yield self.do("post", tuple(self.channel(d, "head", False) for d in self.peers))
            heads = []
            for d in self.peers:
                head = rank.memory.cell("head", rank.comm, rank.own, self.ranks[d], self.context)
                heads.append((self.channel(d, "head"), head))
                self.heads_out = tuple(heads)
                yield self.do("send", *heads[-1])
        # What is longer, behind all heads.
        for d, text, cell in said.texts:
            if text[3] == "late" or (text[3] == "laid" and d in self.peers):
                yield from self.isend(sends, d, "manifest", cell)
        if not trades:
            yield from self.post_data(sends, said)
        return tuple(sends)

    def post_data(self, sends: list[tuple[int, int]], said: Said) -> Program:
        for d, text, cell in said.texts:
            if text[3] == "send" or (text[3] == "data" and d in self.peers):
                yield from self.isend(sends, d, "data", cell)

    def isend(self, sends: list[tuple[int, int]], d: int, tag: str, cell: int) -> Program:
        channel = self.channel(d, tag)
        yield self.do("send", channel, cell)
        sends.append((channel, cell))
        self.rank.it.sending = tuple(sends)

    def receive(self, words: Sequence[Any], sends: tuple[tuple[int, int], ...]) -> Program:
        board = self.board
        arrived: dict[int, Any] = {}
        late: list[tuple[int, Any]] = []
        if board is not None:
            found = yield from board.manifests()
            late = [(self.near[k], size) for k, place, size in found if place == BY_MESSAGE]
            arrived = yield from self.texts([entry for entry in found if entry[1] != BY_MESSAGE])
            shown = yield from self.records([k for k in board.others if board.words[k] & SHOWS])
            arrived |= shown
        for s, word in zip(self.peers, words, strict=True):
            _, number, size, text = word
            if number != self.number & COUNTED:
                raise DeliveryError(f"a head of exchange {number} in exchange {self.number}")
            if size == "long":
                late.append((s, None))
            elif size:
                arrived[s] = text
        if late:
            channels = tuple(self.channel(s, "manifest", False) for s, _ in late)
            yield self.do("post", channels)
            texts = yield self.wait("received", channels)
            for (s, size), text in zip(late, texts, strict=True):
                if size is not None and size != SIZES[text[3]]:
                    raise DeliveryError("a manifest has not the size that was said")
                arrived[s] = text
        sources = tuple(
            s for s, text in arrived.items() if text[3] == "send" or (text[3] == "data" and s in self.peers)
        )
        if sources:
            channels = tuple(self.channel(s, "data", False) for s in sources)
            yield self.do("post", channels)
            data = yield self.wait("received", channels)
            for s, one in zip(sources, data, strict=True):
                if one != ("data", *arrived[s][:3]):
                    raise WrongError(f"{one} arrived with {arrived[s]}")
        if sends:
            gone = yield self.do("tested", sends)
            if not gone:
                self.unfinished.append(sends)
            self.rank.it.sending = ()
            if gone:
                yield from self.rank.it.poison(tuple(cell for _, cell in sends))
        return arrived

    def texts(self, found: Sequence[tuple[int, int, int]]) -> Program:
        """Read manifests where they lie, by source; data of theirs is read later, for as long as it is kept."""
        assert self.board is not None
        arrived: dict[int, Any] = {}
        for k, place, size in found:
            text = yield self.do("read", place)
            self.rank.it.readable(text, size)
            if text[3] == "data":
                data = ("data", *text[:3])
                self.board.got.append((self.board.number, k, text[4], data))
                if (text[4], data) not in self.rank.it.views:
                    self.rank.it.views.append((text[4], data))
            arrived[self.near[k]] = text
        return arrived

    def records(self, of: Sequence[int]) -> Program:
        """Read what these show, by source."""
        assert self.board is not None
        arrived: dict[int, Any] = {}
        for k in of:
            text = yield self.do("read", self.board.record(k))
            arrived[self.near[k]] = text
        return arrived

    # -- sends that nobody waits for

    def see_off_heads(self) -> Program:
        if self.heads_out:
            yield self.wait("sent", self.heads_out)
            self.heads_out = ()

    def see_off(self, keep: int) -> Program:
        while self.unfinished:
            if len(self.unfinished) > keep:
                yield self.wait("sent", self.unfinished[0])
            else:
                gone = yield self.do("tested", self.unfinished[0])
                if not gone:
                    return
            sends = self.unfinished.pop(0)
            yield from self.rank.it.poison(tuple(cell for _, cell in sends))

    # -- a leader, and those that it leads (leaders.py)

    def exchange_led(self, said: Said, position: int) -> Program:
        rank, board = self.rank.it, self.board
        assert board is not None
        quiet = said.what == "quiet"
        if quiet:
            board.number += 1
            yield from board.say(SYNC)
        else:
            texts = [(self.near.index(d), "area", text, cell) for d, text, cell in said.texts]
            yield from board.enter(SYNC, texts, said.buffers)
        others_said = rank.memory.cell("said of other nodes", position & 1)  # a note for the check
        if self.pid == 0:
            yield from board.come()
            yield from board.finish()
            speaks = yield Step("choose", ((False, True),), local=True)
            yield Step("write", (others_said, (position, speaks)), local=True)
            quiet = quiet and not speaks and board.words.count(board.words[0]) == len(board.words)
            yield from board.let_go(None if quiet else ("others", rank.epoch, position, speaks), len(said.texts))
        else:
            yield from board.led()
            yield from board.finish()
            word = yield self.do("read", board.release("word"))
            quiet = quiet and word == board.words[board.own]
            speaks = False
            if not quiet:
                place = yield self.do("read", board.release("place"))
                size = yield self.do("read", board.release("size"))
                text = yield self.do("read", place)
                if size != SIZES["release"] or not text or text[:3] != ("others", rank.epoch, position):
                    raise WrongError(f"{text} was read for what other nodes say")
                speaks = text[3]
            told = yield Step("read", (others_said,), local=True)
            if told != (position, speaks):
                raise WrongError(f"other nodes said {told}, and {speaks} arrived")
        if quiet:
            return {}
        found = yield from board.manifests()
        arrived = yield from self.texts(found)
        return arrived


class Said(NamedTuple):
    """What a processor says in an exchange: (to whom, text, cell of its data or of a long text), and buffers in use."""

    what: str
    texts: tuple[tuple[int, Any, int], ...]
    buffers: tuple[int, ...]


class _Same:
    """A reference that adds nothing to where a program is."""

    __slots__ = ("it",)

    def __init__(self, it: Rank) -> None:
        self.it = it

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same)

    def __hash__(self) -> int:
        return 0


class Rank(Stateful):
    """One rank: its program, and what is wrong with what it gets.

    Attributes:
        views: received data that the program refers to: (cell, what must be there).
        sending: sends of the exchange under way.
    """

    def __init__(self, world: World, memory: Memory, own: int) -> None:
        self.world, self.memory, self.own = world, memory, own
        self.epoch = 0
        self.comm = self.window = 0
        self.inside = False  # an exchange, where an exception may be raised
        self.raises = world.raises > 0 and (not world.raisers or own in world.raisers)
        self.numbers: dict[int, int] = {}
        self.boards: list[Board] = []
        self.views: list[tuple[int, Any]] = []
        self.kept = 0
        self.ahead = -1
        self.sending: tuple[tuple[int, int], ...] = ()
        self.transports: list[Transport] = []
        others = [rank for rank in range(world.p) if rank != own]
        self.control_in = tuple(memory.cell("control", rank, own) for rank in others) if world.raises else ()
        self.control_out = tuple(memory.cell("control", own, rank) for rank in others) if world.raises else ()

    def do(self, name: str, *arguments: Any) -> Step:
        """A step that waits for nobody."""
        return Step(name, arguments, fails=self.inside)

    def wait(self, name: str, *arguments: Any) -> Step:
        """A step that waits for others: it moves MPI on, and looks for notices."""
        return Step(name, arguments, looks=self.control_in, moves=True, fails=self.inside)

    # -- the program

    def program(self) -> Program:
        while True:
            broken = lost = False
            try:
                yield from self.run()
            except RaisedError:
                broken = True
                lost = self.world.lost
            except RevokedError:
                broken = True
            if not broken:
                return
            self.inside = False
            if self.epoch == self.world.raises:
                raise WrongError("a run is left though nobody in it has raised anything")
            yield from self.revoke()
            if lost:
                return
            yield from self.agree()
            yield from self.throw_away()
            self.renew()

    def run(self) -> Program:
        """The script, from its beginning."""
        every = range(self.world.p)
        whole = Transport(self, every, 0, None)
        self.transports = [whole]
        yield from whole.make_board()
        position = 0
        for item in self.world.script:
            if isinstance(item, int):
                for _ in range(item):
                    yield from self.superstep(whole, position)
                    position += 1
                continue
            members, exchanges = item
            if self.own in members:
                part = Transport(self, members, 1, whole)
                self.transports.append(part)
                yield from part.make_board()
                for k in range(exchanges):
                    yield from self.superstep(part, position + k)
                yield from part.see_off(keep=0)
                assert part.board is not None
                part.board.retire()
                self.boards.remove(part.board)
                self.transports.remove(part)
            position += exchanges
        self.inside = self.raises
        yield from whole.see_off(keep=0)
        yield from whole.see_off_heads()
        self.inside = False
        yield from self.look(-1)

    def superstep(self, transport: Transport, position: int) -> Program:
        yield from self.look(position)
        self.inside = self.raises
        yield from transport.exchange(position)
        self.inside = False

    def look(self, position: int) -> Program:
        """Keep received data, or see that it is as it was and drop it; at the end (-1) that."""
        if not self.views:
            return
        drop = yield Step("choose", (self.drops(position),), local=True)
        self.kept += 1
        if not drop:
            return
        yield from self.unchanged()
        self.views = []
        self.kept = 0

    def drops(self, position: int) -> tuple[bool, ...]:
        """Whether received data may be dropped now: what there is to choose from."""
        return (True,) if position < 0 or self.kept >= self.world.keeps else (False, True)

    def unchanged(self) -> Program:
        """What is kept is what was received."""
        for cell, data in self.views:
            found = yield self.do("read", cell)
            if found != data:
                raise WrongError(f"{data} was written over with {found}")

    def refers(self, cell: int, data: Any) -> bool:
        return (cell, data) in self.views

    # -- what is said

    def says(self, transport: Transport, position: int) -> Program:
        """Choose what to say, write what has to be written before the exchange, and note it for the others' checks."""
        what = yield Step("choose", (self.options(position),), local=True)
        p = len(transport.ranks)
        name = what.rstrip("*+")
        others = tuple((transport.pid + k) % p for k in range(1, p))
        to = (
            ()
            if name in ("quiet", "own")
            else tuple(sorted(others))
            if name in ("note", "show")
            else others
            if "*" in what
            else others[:1]
        )
        note = (self.epoch, position, name, tuple(transport.ranks[d] for d in to))
        yield Step(
            "write", (self.memory.cell("said", transport.context, self.own, transport.number & 1), note), local=True
        )
        texts = []
        taken: list[int] = []
        for d in () if name == "show" else to:
            whom = -1 if name == "note" else transport.ranks[d]
            cell = 0
            token: tuple[Any, ...] = (self.own, whom, (self.epoch, position), name)
            if name not in ("mail", "note"):
                cell = self.take(taken)
                taken.append(cell)
                if name in ("data", "send"):
                    token = (*token, cell)
                    if self.ahead < 0 or len(taken) > 1:
                        yield self.do("write", cell, ("data", *token[:3]))
                else:
                    yield self.do("write", cell, token)
            texts.append((d, token, cell))
        self.ahead = -1
        return Said(what, tuple(texts), tuple(taken))

    def options(self, position: int) -> tuple[str, ...]:
        """What there is to choose from."""
        return tuple(what for what in self.world.says if self.ahead < 0 or what.startswith("data"))

    def write_ahead(self, position: int) -> Program:
        """Between begin and end: the next exchange's data, perhaps."""
        last = sum(item if isinstance(item, int) else item[1] for item in self.world.script) - 1
        if (
            position == last
            or self.world.script != (last + 1,)
            or not any(w.startswith("data") for w in self.world.says)
        ):
            return
        ahead = yield Step("choose", ((False, True),), local=True)
        if ahead:
            cell = self.take([])
            yield self.do("write", cell, ("data", self.own, (self.own + 1) % self.world.p, (self.epoch, position + 1)))
            self.ahead = cell

    def take(self, taken: Sequence[int]) -> int:
        """The first buffer that nobody here refers to, as the pool has it."""
        if self.ahead >= 0 and not taken:
            return self.ahead
        used = self.used()
        used.update(taken)
        k = 0
        while (cell := self.memory.cell("arena", self.window, self.own, k)) in used:
            k += 1
        return cell

    def poison(self, cells: tuple[int, ...]) -> Program:
        """What is not used any more is written over at once."""
        for cell in cells:
            if cell not in self.used():
                yield Step("write", (cell, 0), local=True)

    def used(self) -> set[int]:
        """Buffers that something here refers to."""
        used = {cell for board in self.boards for _, data in board.sent for cell in data}
        used.update(cell for transport in self.transports for sends in transport.unfinished for _, cell in sends)
        used.update(cell for _, cell in self.sending)
        return used

    def readable(self, text: Any, size: int) -> None:
        """What lies where a manifest should is one."""
        if not text or SIZES[text[3]] != size:
            raise WrongError(f"{text}, of {size} bytes, was read for a manifest")

    def check(self, transport: Transport, position: int, arrived: dict[int, Any]) -> Program:
        """What was said is what has arrived."""
        for d, rank in enumerate(transport.ranks):
            if rank == self.own:
                continue
            note = yield Step(
                "read", (self.memory.cell("said", transport.context, rank, transport.number & 1),), local=True
            )
            if not note or note[:2] != (self.epoch, position):
                raise WrongError(f"the exchange is over before rank {rank} has entered it")
            name, to = note[2:]
            text = arrived.get(d)
            if (text is not None) != (self.own in to):
                raise WrongError(f"rank {rank} said {name} to {to}, and {text} arrived")
            whom = -1 if name in ("note", "show") else self.own
            if text is not None and (not text or text[:4] != (rank, whom, note[:2], name)):
                raise WrongError(f"rank {rank} said {name}, and {text} arrived")

    # -- when an exchange was left by an exception (revocation.py)

    def revoke(self) -> Program:
        yield self.do("put", self.control_out, "notice")

    def agree(self) -> Program:
        yield self.do("put", self.control_out, "word")
        missing = list(range(len(self.control_in)))
        while missing:
            k, what = yield Step("taken", (self.control_in,), moves=True, grace=True)
            if what == "word":
                missing.remove(k)

    def throw_away(self) -> Program:
        incoming = tuple(
            self.memory.channel(self.comm, source, self.own, f"{tag} {context}")
            for source in range(self.world.p)
            if source != self.own
            for tag in ("head", "manifest", "data")
            for context in range(1 + any(not isinstance(item, int) for item in self.world.script))
        )
        sends = [*self.sending]
        for transport in self.transports:
            sends += transport.heads_out
            for each in transport.unfinished:
                sends += each
        yield self.do("cancel", incoming)
        barrier = self.memory.cell("barrier", self.epoch)
        empty = False
        while not empty:
            empty = yield Step("scrapped", (incoming, tuple(sends), barrier, 0), moves=True, grace=True)
        yield self.do("join", barrier)
        empty = False
        while not empty:
            empty = yield Step("scrapped", (incoming, (), barrier, self.world.p), moves=True, grace=True)

    def renew(self) -> None:
        """A fresh communicator, boards and buffers."""
        self.epoch += 1
        self.comm = self.window = self.epoch
        self.numbers = {}
        self.boards = []
        self.views = []
        self.kept = 0
        self.ahead = -1
        self.sending = ()
