"""The command `emulate`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import TypeVar

from pybsp.errors import UsageError
from pybsp.ground.argument_types import whole_number

from .hosts import MOST
from .launch import emulate
from .link import TOPOLOGIES, Link, parse_change, parse_rate, parse_time

Value = TypeVar("Value")

LATE = 0.1  # of the latency; where frames come later than that on average, the emulation says so
LATE_SECONDS = 1e-4  # later than that is never worth a word


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add those of `pybsp emulate`, and what it does."""
    parser.description = (
        "Run a command under mpiexec across emulated hosts: a network namespace each, connected by a "
        "switch in user space with a known latency and line rate. Needs Linux, root and MPICH's mpiexec."
    )
    parser.add_argument("-n", "--hosts", type=_hosts, default=4, help=f"hosts, 1 to {MOST} (default: 4)")
    parser.add_argument("--ranks-per-host", type=_ranks, default=1, metavar="N", help="ranks a host (default: 1)")
    parser.add_argument("--latency", type=_parsed(parse_time), default=1e-3, help="one way (default: 1ms)")
    parser.add_argument(
        "--rate", type=_parsed(parse_rate), default=200e6, help="of every host's line (default: 200mbit)"
    )
    parser.add_argument(
        "--hop", type=_parsed(parse_time), default=0.0, metavar="TIME", help="more latency for each hop of the topology"
    )
    parser.add_argument("--topology", choices=TOPOLOGIES, default="flat", help="what a hop is (default: flat, none)")
    parser.add_argument(
        "--change",
        type=_parsed(parse_change),
        action="append",
        default=[],
        metavar="TIME:rate=RATE",
        help="another rate (or latency=TIME) from TIME after the start on; may be repeated",
    )
    parser.add_argument("program", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="as in: -- python program.py")
    parser.set_defaults(action=_emulate)


def _emulate(options: argparse.Namespace) -> int:
    command = options.program[1:] if options.program[:1] == ["--"] else options.program
    if not command:
        raise UsageError("expected a command after --, as in -- python program.py, got none")
    if (options.hop > 0) != (options.topology != "flat"):
        given = f"--hop {options.hop:g} s and --topology {options.topology}"
        raise UsageError(
            f"expected --hop beside --topology line or mesh, got {given}: one says nothing without the other"
        )
    link = Link(options.latency, options.rate, options.hop, options.topology)
    try:
        status, lateness = emulate(command, options.hosts, options.ranks_per_host, link, options.change)
    except KeyboardInterrupt:  # before the command was started
        return 130
    if lateness > max(LATE_SECONDS, LATE * options.latency):
        print(
            f"pybsp emulate: frames came {1e3 * lateness:.3g} ms late on average: this machine is too slow, or too "
            "busy, for this network",
            file=sys.stderr,
        )
    return status


def _hosts(text: str) -> int:
    return whole_number(text, 1, MOST, "a whole number")


def _ranks(text: str) -> int:
    return whole_number(text, 1, 1024, "a whole number")


def _parsed(parse: Callable[[str], Value]) -> Callable[[str], Value]:
    """A parser as argparse wants it."""

    def parsed(text: str) -> Value:
        try:
            return parse(text)
        except UsageError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parsed
