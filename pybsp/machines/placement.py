"""How processors lie on hosts, as machine files have it and as it is put in words."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from ..ground.decoding import each, fields, text, whole

PLACEMENT = fields({"placement": fields({}, {"hosts": each(text), "nodes": each(whole())})})


def nodes_of(hosts: Sequence[Hashable]) -> list[int]:
    """The host, or the node, of each processor as a number, in the order in which they first appear."""
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(host, len(numbers)) for host in hosts]


def spread(hosts: Sequence[str]) -> str:
    """How processors lie on hosts, in words."""
    nodes = nodes_of(hosts)
    count = max(nodes) + 1
    if count == 1:
        return "one host"
    return f"{count} hosts ({', '.join(map(str, nodes[:16]))}{', ...' if len(nodes) > 16 else ''})"


def some_of(hosts: Sequence[str]) -> str:
    names = sorted(set(hosts))
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
