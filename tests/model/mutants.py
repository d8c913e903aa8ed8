"""Wrong protocols: the text of protocol.py with a line or two changed, and the world in which that is found."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from .protocol import Rank


class Mutant(NamedTuple):
    """What is wrong, where it is found, and the changes: (text, what it becomes)."""

    wrong: str
    world: str
    changes: tuple[tuple[str, str], ...]


def rank_of(mutant: Mutant) -> type[Rank]:
    """The ranks that have it."""
    return changed(*mutant.changes)


def changed(*changes: tuple[str, str]) -> type[Rank]:
    """The ranks of a protocol that differs in so much; each text is there once."""
    path = Path(__file__).with_name("protocol.py")
    source = path.read_text()
    for text, becomes in changes:
        assert source.count(text) == 1, f"{source.count(text)} times in protocol.py: {text}"
        source = source.replace(text, becomes)
    module = ModuleType(f"{__package__}.changed")
    module.__package__ = __package__
    exec(compile(source, str(path), "exec"), module.__dict__)
    found: type[Rank] = module.Rank
    return found


_NO_THROWING_AWAY = ("            yield from self.throw_away()\n", "")
_OLD_COMMUNICATOR = ("self.comm = self.window = self.epoch", "self.window = self.epoch")
_TAGS_FOR_SOME = (
    '                yield self.do("write", self.slot(self.own, k, "tag"), self.number << TAG_EPOCH_SHIFT)\n',
    "                pass\n",
)
_UNFINISHED_IN_USE = (
    "        used.update("
    "cell for transport in self.transports for sends in transport.unfinished for _, cell in sends)\n"
)
_WAITS = "self.cell, self.do, self.wait = rank.memory.cell, rank.do, rank.wait"
_NO_LOOKS = ("looks=self.control_in, moves=True, fails", "moves=True, fails")


def _one_parity(of: str) -> tuple[tuple[str, str], ...]:
    line = {
        "status": 'return self.cell("status", *self.at, self.ranks[k], self.number & 1)',
        "borrows": 'return self.cell("borrows", *self.at, self.ranks[k], self.number & 1)',
        "slot": 'return self.cell("slot", *self.at, self.ranks[k], self.number & 1, to, word)',
        "area": 'return self.cell("area", *self.at, self.ranks[self.own], self.number - before & 1, k)',
    }[of]
    one = line.replace("self.number & 1", "1").replace("self.number - before & 1", "before")
    return ((line, one),)


MUTANTS = (
    # -- the board
    Mutant("one status instead of two", "board", _one_parity("status")),
    Mutant("one row of borrows instead of two", "board", _one_parity("borrows")),
    Mutant("one slot instead of two", "board", _one_parity("slot")),
    Mutant("one area instead of two", "board, by message", _one_parity("area")),
    Mutant(
        "the status is written before slots and area",
        "board",
        (
            (
                "        used = 0\n        last",
                "        word = self.number << STATUS_EPOCH_SHIFT | kind | SOMETHING\n"
                '        yield self.do("write", self.status(self.own), word)\n'
                "        used = 0\n        last",
            ),
        ),
    ),
    Mutant(
        "the status is written before the borrows",
        "board, long kept",
        (
            (
                "        borrowed = yield from self.borrowed()\n        yield self.do",
                '        yield self.do("write", self.status(self.own), self.number << STATUS_EPOCH_SHIFT | what)\n'
                "        borrowed = yield from self.borrowed()\n        yield self.do",
            ),
        ),
    ),
    Mutant("tags are written only for whom there is something", "board, for itself", (_TAGS_FOR_SOME,)),
    Mutant(
        "an old manifest is taken: the number in a slot is not compared",
        "board, for itself",
        (_TAGS_FOR_SOME, ("if tag >> TAG_EPOCH_SHIFT != self.number:", "if False:")),
    ),
    Mutant("the flag of borrows is not set", "board", (("        return BORROWS\n", "        return 0\n"),)),
    Mutant(
        "the flag of borrows is not read on the fast path",
        "board",
        (("            if word & BORROWS:\n", "            if False:\n"),),
    ),
    Mutant(
        "the flag of borrows is not read on the other path",
        "board, begin and end",
        (("                if self.words[k] & BORROWS:\n", "                if False:\n"),),
    ),
    Mutant(
        "the borrows are not written",
        "board, long kept",
        (
            (
                '        yield self.do("write", self.borrows(self.own), tuple(row))\n',
                '        yield self.do("read", self.borrows(self.own))\n',
            ),
        ),
    ),
    Mutant(
        "the borrows of what is older than all ages are dropped",
        "board, long kept",
        (("1 << (age if age < self.ages else self.ages)", "1 << age if age < self.ages else 0"),),
    ),
    Mutant("what is received is not held", "board", (("self.board.got.append((", "id(("),)),
    Mutant(
        "memory is used again one exchange too early",
        "board",
        (("        found = []\n        reading = 1\n", "        found = []\n        reading = 0\n"),),
    ),
    Mutant(
        "a quiet exchange frees what is still read",
        "board",
        (("word, quiet = word | borrowed, False", "word |= borrowed"),),
    ),
    Mutant(
        "a quiet processor looks at one other alone",
        "board of three",
        (
            (
                "word, quiet = word | borrowed, False\n"
                '        yield self.do("write", self.status(self.own), word)\n'
                "        for k in self.others:",
                "word, quiet = word | borrowed, False\n"
                '        yield self.do("write", self.status(self.own), word)\n'
                "        for k in self.others[:1]:",
            ),
            (
                "            differs = word & BORROWS > 0\n            for k in self.others:",
                "            differs = word & BORROWS > 0\n            for k in self.others[:1]:",
            ),
        ),
    ),
    Mutant(
        "one waits for one other alone",
        "board of three",
        (
            (
                '"""As `wait`."""\n        for k in self.others:',
                '"""As `wait`."""\n        for k in self.others[:1]:',
            ),
        ),
    ),
    # -- records that are shown
    Mutant(
        "a record's memory is used again one exchange too early",
        "board, shown",
        (
            (
                'return self.cell("area", *self.at, self.ranks[k], self.number & 1, 0)',
                'return self.cell("area", *self.at, self.ranks[k], 1, 0)',
            ),
        ),
    ),
    Mutant(
        "the status is written before the record",
        "board, shown",
        (
            (
                '        yield self.do("write", self.record(self.own), text)\n'
                "        word = self.number << STATUS_EPOCH_SHIFT | kind | SHOWS\n",
                "        word = self.number << STATUS_EPOCH_SHIFT | kind | SHOWS\n",
            ),
            (
                '        yield self.do("write", self.status(self.own), word | borrowed)\n',
                '        yield self.do("write", self.status(self.own), word | borrowed)\n'
                '        yield self.do("write", self.record(self.own), text)\n',
            ),
        ),
    ),
    Mutant(
        "one who shows waits for one other alone",
        "board of three, shown",
        (
            (
                "            if seen != word:\n                alike = False\n        if not alike:",
                "            if seen != word and k == self.others[0]:\n"
                "                alike = False\n        if not alike:",
            ),
        ),
    ),
    Mutant(
        "the status does not tell that something is shown",
        "board, shown",
        (("| kind | SHOWS\n", "| kind\n"),),
    ),
    Mutant(
        "what others borrow is free where all show",
        "board, shown and lent",
        (
            (
                "            differs = borrowed > 0\n            for k in self.others:\n"
                "                if not differs:\n"
                '                    seen = yield self.do("read", self.status(k))\n'
                "                    differs = seen != word\n            if differs:\n"
                "                yield from self.finish()\n                return all(",
                "            differs = borrowed > 0\n            for k in self.others:\n"
                "                if not differs:\n"
                '                    seen = yield self.do("read", self.status(k))\n'
                "                    differs = seen & ~BORROWS != word\n            if differs:\n"
                "                yield from self.finish()\n                return all(",
            ),
        ),
    ),
    # -- parts
    Mutant(
        "a part begins at the smallest number that a member has used",
        "parts of three",
        (("max(number, *numbers)", "min(number, *numbers)"),),
    ),
    Mutant("a part begins at 0", "parts", (("rank.numbers.get(self.context, 0)", "0"),)),
    Mutant(
        "a part forgets what it has sent",
        "parts",
        (("        parent.sent += [(parent.number, data) for _, data in self.sent]\n", ""),),
    ),
    Mutant(
        "a part forgets what it reads",
        "parts",
        (("        parent.got += [(parent.number, where[k], cell, data) for _, k, cell, data in self.got]\n", ""),),
    ),
    # -- a leader
    Mutant(
        "a leader lets go before all are there",
        "leader of three",
        (
            (
                "            yield from board.come()\n            yield from board.finish()\n            speaks",
                "            yield from board.finish()\n            speaks",
            ),
        ),
    ),
    Mutant(
        "the word of a release is written before its text",
        "leader",
        (
            (
                "            word |= SOMETHING\n",
                '            word |= SOMETHING\n            yield self.do("write", self.release("word"), word)\n',
            ),
        ),
    ),
    # -- messages
    Mutant(
        "nothing moves MPI on in a wait on the board",
        "board, by message",
        (
            (
                _WAITS,
                _WAITS.replace("rank.wait", "rank.do"),
            ),
        ),
    ),
    Mutant(
        "heads' memory is used again before they have left",
        "messages",
        (("            yield from self.see_off_heads()\n            for d", "            for d"),),
    ),
    Mutant(
        "memory of unfinished sends is used again",
        "messages",
        (
            (
                _UNFINISHED_IN_USE,
                "",
            ),
        ),
    ),
    Mutant(
        "the end does not wait for unfinished sends",
        "messages",
        (("        yield from whole.see_off(keep=0)\n        yield from whole.see_off_heads()\n", ""),),
    ),
    # -- an exchange that was left by an exception
    Mutant(
        "nobody is told",
        "broken board",
        (
            ('        yield self.do("put", self.control_out, "notice")\n', "        return\n        yield"),
            ('        yield self.do("put", self.control_out, "word")\n', ""),
        ),
    ),
    Mutant("nobody looks for a notice", "broken messages", (_NO_LOOKS,)),
    Mutant(
        "one looks for a notice once in an exchange",
        "broken board",
        (
            _NO_LOOKS,
            (
                "        yield from transport.exchange(position)\n",
                '        yield Step("choose", ((0,),), looks=self.control_in)\n'
                "        yield from transport.exchange(position)\n",
            ),
        ),
    ),
    Mutant(
        "nobody looks for a notice on the board",
        "broken board",
        (
            (
                _WAITS,
                _WAITS.replace("rank.wait", "lambda *a: rank.wait(*a)._replace(looks=())"),
            ),
        ),
    ),
    Mutant(
        "nobody looks for a notice in a wait for unfinished sends",
        "broken messages, long manifests",
        (
            (
                'yield self.wait("sent", self.unfinished[0])',
                'yield self.wait("sent", self.unfinished[0])._replace(looks=())',
            ),
        ),
    ),
    Mutant(
        "a notice is taken for the word of the meeting",
        "broken board",
        (('            if what == "word":\n', "            if k in missing:\n"),),
    ),
    Mutant(
        "the meeting is over when one has come",
        "broken board of three",
        (("                missing.remove(k)\n", "                missing.clear()\n"),),
    ),
    Mutant("nothing is thrown away", "broken messages", (_NO_THROWING_AWAY,)),
    Mutant(
        "a broken exchange's messages mix with the next run",
        "broken messages",
        (_NO_THROWING_AWAY, _OLD_COMMUNICATOR),
    ),
    Mutant(
        "receives stay posted",
        "broken messages",
        (('        yield self.do("cancel", incoming)\n', ""),),
    ),
    Mutant(
        "throwing away ends with one's own sends",
        "broken messages",
        (
            (
                'empty = yield Step("scrapped", (incoming, (), barrier, self.world.p), moves=True, grace=True)',
                "empty = True",
            ),
        ),
    ),
    Mutant(
        "the next run uses the old boards",
        "broken board",
        (("self.comm = self.window = self.epoch", "self.comm = self.epoch"),),
    ),
)
