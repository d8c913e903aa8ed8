"""What may come of a fault, and whether a job shows it."""

from __future__ import annotations

import re
from typing import NamedTuple

from tests.launching import Ended

WELL = "well"  # what a rank prints when its last run has given what is right


class Outcome(NamedTuple):
    """What is stated of a kind of fault.

    words: for people.
    code: whether the job's status is 0 (True), is not (False), or depends on the launcher (None).
    error: how the one traceback's last line begins, a regular expression; "": there is none; None: there may be some.
    well: whether all ranks end with right results.
    most: tracebacks, where there may be some.
    """

    words: str
    code: bool | None
    error: str | None
    well: bool = False
    most: int = 1

    def missed(self, ended: Ended, p: int) -> str:
        """What is wrong with how a job of p ranks ended; "" if nothing is."""
        printed = ended.out + ended.err
        tracebacks = said(printed)
        if self.code is not None and self.code != (ended.code == 0):
            return f"status {ended.code}"
        if self.well and ended.out.count(f"<{WELL}>") != p:
            return f"{ended.out.count(f'<{WELL}>')} of {p} ranks with right results"
        if self.error == "" and tracebacks:
            return f"{tracebacks} tracebacks where none is to be"
        if self.error:
            if tracebacks != 1:
                return f"{tracebacks} tracebacks instead of one"
            if not re.search(f"^{self.error}", ended.err, re.MULTILINE):
                return f"no line that begins with {self.error}"
        if tracebacks > self.most:
            return f"{tracebacks} tracebacks"
        return ""


# An exit of one processor alone is printed at once: nobody else would, and who catches it is not known then.
RECOVERS = Outcome("caught on all processors; the next run is right", True, None, well=True, most=1000)
GOES_ON = Outcome("goes on: all results are right", True, None, well=True)
GOES_ON_QUIETLY = Outcome("goes on: all results are right, and no traceback", True, "", well=True)
ENDS = Outcome("the job ends, with the launcher's words", False, None)


def said(printed: str) -> int:
    """Tracebacks, but those of causes, and of what Python itself has swallowed."""
    swallowed = printed.count("Exception ignored")
    causes = printed.count("The above exception was the direct cause") + printed.count("During handling of the above")
    return printed.count("Traceback (most recent call last)") - causes - swallowed


def fails(error: str) -> Outcome:
    """Non-zero, with one traceback."""
    return Outcome("ends non-zero, with one traceback", False, error)
