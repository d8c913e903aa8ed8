"""What commands that run a program have in common: its options, and what becomes of its ledger."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from ..errors import LauncherError
from ..ground import settings
from ..ground.argument_types import ProgramAction, add_np, count, some_text
from ..ground.files import require_outputs
from .configured import VARIABLES, Choice

INTERRUPTED = 130  # the exit status after Ctrl-C


def add_count(parser: argparse.ArgumentParser, option: str, other: str, text: str, required: bool = False) -> None:
    """Add the number of processors: that option, or the other one, which other launchers and commands have."""
    names = parser.add_mutually_exclusive_group(required=required)
    names.add_argument(option, type=count, help=text)
    names.add_argument(other, type=count, dest=option[1:], metavar=option[1:].upper(), help=f"the same as {option}")
    add_np(names, option[1:])


def add_program(parser: argparse.ArgumentParser) -> None:
    """Add the program, and the options that all of these commands have."""
    parser.add_argument("--ledger", metavar="FILE", help="write what each BSP superstep cost, as JSON")
    parser.add_argument("--trace", metavar="FILE", help="write what each processor did, for ui.perfetto.dev")
    parser.add_argument(
        "--machine", type=some_text, metavar="FILE", help="the machine file to predict by (PYBSP_MACHINE)"
    )
    parser.add_argument("--checked", action="store_true", help="check what is too dear for every superstep")
    parser.add_argument(
        "program",
        nargs=argparse.PARSER,
        action=ProgramAction,
        help="a Python file that calls pybsp.run or pybsp.logp.run, and its arguments",
    )


def environment_of(options: argparse.Namespace, choices: Mapping[str, Choice]) -> dict[str, str]:
    """What was chosen, as the environment variables that `run` reads; files by whole paths, wherever programs go."""
    if re.fullmatch(r"python[\d.]*", Path(options.program).name) and options.arguments:
        own = shlex.join(["pybsp", options.command, *options.arguments])
        raise LauncherError(f"program {options.program}: expected the Python file itself, as in `{own}`")
    if not Path(options.program).is_file():
        why = "expected a file" if Path(options.program).exists() else "there is no such file"
        raise LauncherError(f"program {options.program}: {why}")
    files = {key: choices[key] for key in ("machine", "ledger", "trace") if key in choices}
    if "machine" in files:
        require_machine_file(files["machine"].value)
    named = {key: (choice.named(key), choice.value) for key, choice in files.items()}
    machine = named.pop("machine", ("", None))
    require_outputs([*named.values()], [machine, ("the program", options.program)])
    found = {VARIABLES[key]: str(Path(choice.value).resolve()) for key, choice in files.items()}
    return found | ({settings.CHECKED: "1"} if options.checked else {})


def require_machine_file(path: str) -> None:
    """Refuse a machine file that no program could be predicted by; a LogP program needs no BSP machine."""
    from ..machines.bsp import BSPMachine
    from ..machines.logp import LogPMachine

    present = [kind for kind in (BSPMachine, LogPMachine) if kind.is_in(path)]
    (present or [BSPMachine])[0].load(path)


def expecting(ledger: str, trace: str, options: argparse.Namespace, act: Callable[[], int], copies: int = 1) -> int:
    """Run a program, and say so where it ends well and no run has seen to these files, or none was made on its ranks.

    Args:
        ledger, trace: "": none is asked for.
        options: of the command.
        act: runs it; its exit status.
        copies: ranks that it runs on, where they are to say whether there was a run.
    """
    if not (ledger or trace) and copies == 1:
        return act()
    try:
        folder = tempfile.TemporaryDirectory(prefix="pybsp-")
    except OSError:
        if ledger or trace:
            raise
        return act()
    with folder as name:
        receipt = Path(name) / "receipt"
        os.environ[settings.RECEIPT] = str(receipt)
        status: object = 1
        try:
            status = found = act()
        except SystemExit as end:
            status = end.code
            raise
        finally:
            os.environ.pop(settings.RECEIPT, None)
            if not status:
                for text in _complaints(ledger, trace, str(receipt), options.program, copies):
                    print(f"pybsp {options.command}: {text}", file=sys.stderr)
    return found


def _complaints(ledger: str, trace: str, receipt: str, program: str, copies: int) -> list[str]:
    """What is to be told of a program that has ended well: see `expecting`."""
    found = []
    if ledger and not Path(receipt).exists():
        found.append(f"no BSP run has written the ledger {ledger}; pybsp.run(main)")
    if trace and not Path(receipt + settings.TRACE_WRITTEN).exists():
        found.append(f"no run has written the trace {trace}; pybsp.run(main), or pybsp.logp.run(main),")
    if found:
        return [f"{text} in {program} would, where main does not call sys.exit" for text in found]
    if Path(receipt + settings.WITHOUT_RUN).exists():
        found.append(
            f"no processor called pybsp.run: each of {copies} ranks went through {program} by itself; pybsp.run(main) "
            f"runs main on all, `python {program}` is one process"
        )
    return found
