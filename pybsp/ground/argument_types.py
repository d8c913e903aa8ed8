"""What arguments of the command line may be: argparse's types and actions, whose errors name the option."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from ..processes.process import MOST_PROCESSORS


def count(text: str) -> int:
    """So many of something."""
    return whole_number(text, 1, MOST_PROCESSORS, "a whole number")


def add_np(parser: argparse._ActionsContainer, dest: str = "n") -> None:
    """Add what mpiexec calls the number of processors as well."""
    parser.add_argument("-np", type=count, dest=dest, help=argparse.SUPPRESS)


def processor(text: str) -> int:
    """A processor's number."""
    return whole_number(text, 0, MOST_PROCESSORS, "a processor's number")


def whole_number(text: str, least: int, most: int, what: str) -> int:
    """A whole number in that range, which is `what`."""
    # Not all that `isdigit` takes for one is a digit to `int`, nor does that read any number of them.
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= len(str(most)) else -1
    if not least <= number <= most:
        raise argparse.ArgumentTypeError(f"expected {what} from {least} to {most}, got {text!r:.40}")
    return number


def some_text(text: str) -> str:
    """Text that says something: none is of a shell's variable that is not set, and would be taken for no option."""
    if not text:
        raise argparse.ArgumentTypeError("expected text, got '', as of a variable that is not set; else leave it out")
    return text


class ProgramAction(argparse.Action):
    """Takes a program and all that follows for its arguments, a `--` too: Python would give it to the program."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        words = list(values or ())
        # A `--` before the program ends our options; later versions of Python have taken it away.
        namespace.program, *namespace.arguments = words[words[0] == "--" :]
