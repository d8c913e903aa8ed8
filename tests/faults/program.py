"""Ranks on which one kind of fault shows, or all that can be caught one after the other.

mpiexec -n 3 python -m tests.faults.program left "raise, computing"
mpiexec -n 3 python -m tests.faults.program caught "raise, computing" "raise, pickling" ...
"""

from __future__ import annotations

import contextlib
import signal
import sys

from .kinds import KINDS, good, run
from .outcomes import WELL


def left(name: str) -> None:
    """Nobody catches what comes of it."""
    kind = KINDS[name]
    if kind.inside:
        run(kind.fault)
    else:
        kind.fault()
    sys.stdout.write(f"<{WELL}>\n")
    sys.stdout.flush()


def caught(names: list[str]) -> None:
    """All processors catch it, and the next run is right."""
    run(good, 0.5)
    for number, name in enumerate([one for one in names for _ in range(KINDS[one].times)]):
        print(f"{name} ...", file=sys.stderr, flush=True)
        raised = False
        try:
            run(KINDS[name].fault)
        except (Exception, SystemExit):
            raised = True
        except BaseException as error:
            raised = type(error).__name__ == "OwnBaseError"
        with contextlib.suppress(ValueError):
            signal.setitimer(signal.ITIMER_REAL, 0)
        assert raised, f"{name}: nothing was raised here"
        run(good, 10.0 * number)
    sys.stdout.write(f"<{WELL}>\n")
    sys.stdout.flush()


if __name__ == "__main__":
    if sys.argv[1] == "left":
        left(sys.argv[2])
    else:
        caught(sys.argv[2:])
