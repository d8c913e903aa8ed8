"""The command `pybsp` (`python -m pybsp` is the same program)."""

from __future__ import annotations

import argparse
import contextlib
import errno
import importlib
import io
import os
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from ._version import __version__
from .errors import BSPError, nearest


class Command(NamedTuple):
    """One of `pybsp`'s.

    Args:
        text: what it does, in a line of --help.
        module: where its options and its action are, loaded when it is named.
        options: a function there, which adds them to a parser.
        program: where the options of a program come, if it takes one.
    """

    text: str
    module: str
    options: str = "add_options"
    program: str = ""


COMMANDS = {
    "run": Command("run a program on MPI ranks", "commands.run", program="PROGRAM"),
    "simulate": Command("run a program on virtual processors in one process", "commands.simulate", program="PROGRAM"),
    "report": Command("print a ledger, or a LogP trace: what it cost, beside what was predicted", "commands.report"),
    "replay": Command("run one processor of a recorded job alone", "commands.replay"),
    "doctor": Command("what there is to run on, what will not work, and what to type", "commands.doctor"),
    "predict": Command(
        "what a program, or a run, would take on another machine", "commands.predict", program="-- PROGRAM"
    ),
    "calibrate": Command(
        "measure g, l, L, o, G of this machine and write a machine file", "benchmarks.calibration.command"
    ),
    "show": Command(
        "print a machine file: parameters, intervals, errors, flags", "benchmarks.calibration.viewing", "add_show"
    ),
    "compare": Command("compare two machine files", "benchmarks.calibration.viewing", "add_compare"),
    "export": Command(
        "write a machine file's figures as other programs read them", "benchmarks.calibration.viewing", "add_export"
    ),
    "emulate": Command("run a program across emulated hosts with a known network", "benchmarks.emulation.command"),
}
RUNNING = ("run", "simulate", "replay")  # commands whose output, and errors, are a program's


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status: 0, 1 after a failure, 2 for wrong usage."""
    _open_outputs()
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):  # argparse says nothing of what cannot be written
            parser, words = _parser(), sys.argv[1:] if arguments is None else arguments
            _require_command(parser, words)
            options = parser.parse_args(words)
    except SystemExit:
        try:
            print(printed.getvalue(), end="", flush=True)  # of --help and --version
        except OSError as error:
            return _not_written("pybsp", error)
        raise
    prints = options.command not in RUNNING or getattr(options, "explain", False)  # what is printed is all its own
    if prints and isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # of labels and names of files that its encoding has not
    try:
        status: int = options.action(options)
        if prints:
            sys.stdout.flush()
    except BSPError as error:
        prefix = f"pybsp {options.command}: "
        print(prefix + str(error).removeprefix(prefix), file=sys.stderr)
        return 2
    except BrokenPipeError as error:
        if not prints:  # a program's
            raise
        return _not_written(f"pybsp {options.command}", error)
    except OSError as error:
        if not prints or error.errno != errno.ENOSPC:
            raise
        return _not_written(f"pybsp {options.command}", error)
    return status


def _open_outputs() -> None:
    """Outputs that are closed lead nowhere: else the next file that is opened, as a ledger, would be one of them."""
    for number, name in ((1, "stdout"), (2, "stderr")):
        try:
            os.fstat(number)
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, number)
            os.set_inheritable(number, True)
            if nowhere != number:
                os.close(nowhere)
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "w", closefd=False))


class CommandParser(argparse.ArgumentParser):
    """That of one command, whose module is loaded when it has something to parse.

    Args:
        command: which; none: its options are there.
    """

    def __init__(self, *args: Any, command: Command | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._command, self._program = command, command.program if command else ""

    def parse_known_args(  # type: ignore[override]  # what its overloads say of types goes through as it is
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> Any:
        """What argparse asks the parser of the command that is named; what that does not know is an error of it."""
        if self._command is not None:
            module = importlib.import_module(f".{self._command.module}", __package__)
            getattr(module, self._command.options)(self)
            self._command = None
        namespace, unknown = super().parse_known_args(args, namespace)
        if unknown:
            first = next((word for word in unknown if word != "--"), "...")
            behind = f"; options of the program come behind it: `{self.prog} [OPTION ...] {self._program} {first}`"
            # All begin alike, which makes none of them more likely.
            names = [name.removeprefix("--") for name in self._option_string_actions if name.startswith("--")]
            near = nearest(first.removeprefix("--").partition("=")[0], names, 0.7) if first.startswith("--") else ""
            meant = f"; did you mean --{near}?" if near else ""
            self.error(f"unrecognized arguments: {' '.join(unknown)}{meant}{behind if self._program else ''}")
        return namespace, unknown


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="pybsp", description="Run BSP programs and look at what they cost.")
    parser.add_argument("--version", action="version", version=f"pybsp {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=CommandParser)
    for name, command in COMMANDS.items():
        sentence = f"{command.text[0].upper()}{command.text[1:]}."
        commands.add_parser(name, help=command.text, description=sentence, command=command)
    return parser


def _require_command(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Where the first word is no command, end with an error that says what may be meant."""
    named = words[0] if words else "-"
    if named.startswith("-") or named in COMMANDS:
        return  # or argparse says what is wrong
    import shlex  # nobody else needs it

    if named.endswith(".py") or os.path.isfile(named):
        parser.error(f"{named!r} is no command, but a program: `{shlex.join(['pybsp', 'run', *words])}` would run it")
    near = nearest(named, COMMANDS)
    hint = f"; did you mean {near}?" if near else ""
    parser.error(f"argument COMMAND: expected one of {', '.join(COMMANDS)}, got {named!r:.40}{hint}")


def _not_written(command: str, error: OSError) -> int:
    """Nothing more is printed; the exit status: nothing has failed where the reader has seen enough, and gone."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    if isinstance(error, BrokenPipeError):
        return 0
    print(f"{command}: standard output cannot be written ({error.strerror})", file=sys.stderr)
    return 1
