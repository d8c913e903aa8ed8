"""`pybsp simulate`: a program on virtual processors in this process."""

from __future__ import annotations

import argparse
import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

from ..ground import settings
from ..ground.argument_types import some_text
from ..ground.failures import outcome, shorten
from ..routing.choice import named
from ..runs import simulation
from .configured import configured
from .programs import INTERRUPTED, add_count, add_program, environment_of, expecting


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add those of `simulate`."""
    add_count(parser, "-p", "-n", "processors", required=True)
    parser.add_argument("--measure", action="store_true", help="count the time of computing as work")
    parser.add_argument("--router", type=some_text, metavar="NAME", help="of programs that name none")
    add_program(parser)
    parser.set_defaults(action=_simulate)


def _simulate(options: argparse.Namespace) -> int:
    given = {key: getattr(options, key) for key in ("machine", "ledger", "trace")}
    environment = environment_of(options, configured(given, None))
    ledger, trace = environment.pop(settings.LEDGER, None), environment.pop(settings.TRACE, None)
    os.environ.update(environment)
    router = options.router or "direct"
    named(router)
    chosen = simulation.SimulateOptions(options.p, options.measure, ledger, trace=trace, router=router)
    program = [options.program, *options.arguments]
    return expecting(ledger or "", trace or "", options, lambda: run_here(program, chosen))


def run_here(program: Sequence[str], options: simulation.SimulateOptions) -> int:
    """Execute a program and its arguments in this process."""
    simulation.set_options(options)
    sys.argv = list(program)
    sys.path.insert(0, str(Path(program[0]).resolve().parent))
    try:
        runpy.run_path(program[0], run_name="__main__")
    except (Exception, KeyboardInterrupt) as error:  # the program's, not one about how this command was used
        shorten(error)
        sys.excepthook(type(error), error, error.__traceback__)
        return INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1
    except SystemExit as end:
        if not outcome(end).lone_exit:
            raise
        shorten(end)
        sys.excepthook(type(end), end, end.__traceback__)  # which Python would not call
        return end.code if isinstance(end.code, int) else 1
    finally:
        simulation.set_options(None)
    return 0
