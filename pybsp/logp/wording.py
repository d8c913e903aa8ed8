"""What the errors at the end of a LogP program say, the same on every machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

NAMED = 10


def deadlock(p: int, waiting: Sequence[tuple[int, int]], left: Mapping[int, int]) -> str:
    """Who waits, for what nobody will send.

    Args:
        p: processors.
        waiting: those that wait, and since when.
        left: messages that were not received, by destination.
    """
    if len(waiting) == p:
        others = "all processors wait" if p > 1 else "it has no others"
    else:
        others = "the other one has ended" if p == 2 else "all others have ended"
    who = _listed([f"{pid} (since time {time})" for pid, time in waiting])
    who = f"processors {who} wait" if len(waiting) > 1 else f"processor {who} waits"
    return f"pybsp.logp: {who} in recv for messages that nobody will send: {others}, and nothing is in transit" + (
        f"; messages that were not received: {_counted(left)}" if left else ""
    )


def too_long(step: float) -> str:
    """An execution whose times, in steps of so many seconds, are too large."""
    return (
        "pybsp.logp: the execution takes 2^63 steps or more: expected fewer; compute less, or take a machine with a "
        f"step longer than {step} s"
    )


def unreceived(left: Mapping[int, int]) -> str:
    """Whose messages were not received."""
    number = sum(left.values())
    messages = "message was" if number == 1 else "messages were"
    return (
        f"pybsp.logp: the program has ended, and {number} {messages} not received: {_counted(left)}; each message "
        "needs a recv, or a poll that finds it"
    )


def _listed(items: Sequence[str]) -> str:
    """`0, 3 and 5`; of many the first ten."""
    shown = [*items[:NAMED], f"{len(items) - NAMED} more"] if len(items) > NAMED + 1 else list(items)
    return " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))


def _counted(left: Mapping[int, int]) -> str:
    """`2 to processor 0 and 1 to processor 3`."""
    return _listed([f"{count} to processor {dest}" for dest, count in left.items()])
