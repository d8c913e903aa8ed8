"""A study's command: its options, progress, tables, figures as JSON, and pictures."""

from __future__ import annotations

import argparse
import importlib
import json
import platform
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from rich.console import Console, RenderableType
from rich.progress import track

import pybsp
from pybsp.errors import UsageError
from pybsp.ground.files import replacing, require_outputs
from pybsp.ground.versions import now

from .ranks import EMULATORS, EmulatedNetwork
from .tables import columns, table

T = TypeVar("T")
KINDS = (".pdf", ".png", ".svg")
WIDTH = 320  # of what is not printed on a terminal: no table is cut


class _Help(argparse.RawDescriptionHelpFormatter, argparse.ArgumentDefaultsHelpFormatter):
    """The text as it was written; the defaults that there are beside options."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        return action.help if action.default in (None, False) else super()._get_help_string(action)


class Study(argparse.ArgumentParser):
    """One run of a study.

    Args:
        text: what it studies: its module's.
        keep: the option that keeps all figures as JSON, "--json" or "--output"; "": there is none.
        plot: what --plot draws; "": nothing.
        quick: what --quick leaves out; "": there is no such option.

    Attributes:
        options: those that were read.
        results: all figures, by name.
    """

    def __init__(self, text: str | None, *, keep: str = "", plot: str = "", quick: str = "") -> None:
        super().__init__(description=text, formatter_class=_Help)
        self._keep = keep
        self.set_defaults(keep=None, plot=None)
        self.results: dict[str, Any] = {}
        if quick:
            self.add_argument("--quick", action="store_true", help=quick)
        if plot:
            self.add_argument("--plot", metavar="FILE", help=f"draw {plot}, as .png, .svg or .pdf; needs matplotlib")
        if keep:
            self.add_argument(keep, dest="keep", metavar="FILE", help="keep all figures, as JSON")
        self._console = Console(highlight=False)
        if not self._console.is_terminal:
            self._console.width = WIDTH

    def add_network(self, latency: int | None = None, rate: int | None = None) -> None:
        """Options of emulated hosts, which `network` takes; None: without these options there are none."""
        self.add_argument("--latency", type=int, default=latency, help="of emulated hosts, in microseconds")
        self.add_argument("--rate", type=int, default=rate, help="of their lines, in Mbit/s")
        self.add_argument("--emulator", choices=EMULATORS, default="script")

    def network(self, hosts: int) -> EmulatedNetwork | None:
        """So many emulated hosts, as the options have them; None: the ranks run here."""
        latency, rate = self.options.latency, self.options.rate
        if latency is None or rate is None:
            return None
        return EmulatedNetwork(hosts, latency, rate, emulator=self.options.emulator)

    def begin(self, arguments: Sequence[str] | None = None) -> argparse.Namespace:
        """Read the options, and end here, before anything is measured, where a file cannot be written or drawn."""
        self.options = self.parse_args(arguments)
        outputs = [(self._keep, self.options.keep), ("--plot", self.options.plot)]
        try:
            require_outputs(outputs)
        except UsageError as error:
            self.error(str(error))
        if self.options.plot:
            if Path(self.options.plot).suffix not in KINDS:
                self.error(f"--plot: expected a file that ends in one of {', '.join(KINDS)}, got {self.options.plot}")
            try:
                importlib.import_module("matplotlib").use("agg")
            except ImportError:
                self.error("--plot needs matplotlib: pip install matplotlib")
        return self.options

    def each(self, cases: Iterable[T], what: str = "") -> Iterator[T]:
        """The cases, one after the other, while a terminal shows how many are done."""
        console = Console(stderr=True)
        return iter(track(list(cases), what, console=console, transient=True, disable=not console.is_terminal))

    def show(self, *parts: RenderableType) -> None:
        """Print tables and lines."""
        for part in parts:
            self._console.print(part)

    def tell(self, name: str, found: object, *parts: RenderableType) -> None:
        """Put figures among the results, by name, and print the tables and lines that say what they are."""
        self.results[name] = found
        self.show(*parts)

    def rows(
        self,
        name: str,
        title: str,
        head: str,
        found: Sequence[Any],
        shown: Callable[[Any], Sequence[object]] | None = None,
    ) -> None:
        """Put rows among the results, and print them as a table.

        Args:
            found: rows; where they have no names for their figures, the columns' names are these.
            shown: what cells a row has; None: what it has.
        """
        plain = shown is None and not any(hasattr(row, "_asdict") for row in found)
        figures = [dict(zip(columns(head), row, strict=True)) for row in found] if plain else found
        self.tell(name, figures, table(title, head, map(shown, found) if shown else found))

    def end(self, results: Any = None, draw: Callable[[Any], Any] | None = None) -> None:
        """Keep the figures, and draw them, with a grid and, where there is none, a legend, where that was asked for.

        Args:
            results: what is written; an object also tells when and by what it was made; None: all `results`.
            draw: makes matplotlib's figure, of its pyplot.
        """
        results = self.results if results is None else results
        if self.options.keep:
            content = {**about(), "arguments": sys.argv[1:], **results} if isinstance(results, dict) else results
            try:
                with replacing(self.options.keep) as file:
                    file.write(json.dumps(_plain(content), indent=1) + "\n")
            except OSError as error:
                raise SystemExit(f"{self.prog}: {self.options.keep}: {error.strerror or error}") from error
        if self.options.plot and draw is not None:
            pyplot = importlib.import_module("matplotlib.pyplot")
            figure = draw(pyplot)
            its_own = any(axis.get_legend() for axis in figure.axes)
            for axis in figure.axes:
                axis.grid(alpha=0.3)
                if not its_own and axis.get_legend_handles_labels()[0]:
                    axis.legend(fontsize=8)
            figure.savefig(self.options.plot, dpi=130)
            pyplot.close(figure)


def read_figures(path: str, option: str, fits: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The object in a file that a command's --json wrote.

    Args:
        option: with which it is given, for errors.
        fits: whether an object is one of that command's.

    Raises:
        UsageError: it cannot be read, or is none.
    """
    try:
        content = json.loads(Path(path).read_text())
    except (OSError, ValueError) as error:
        raise UsageError(f"{option}: expected a file that --json wrote, got {path} ({error})") from None
    if not isinstance(content, dict) or not fits(content):
        raise UsageError(f"{option}: expected a file that --json wrote, got {path}")
    return content


def about() -> dict[str, Any]:
    """When and by what figures were made."""
    return {
        "date": now(),
        "host": platform.node(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "pybsp": pybsp.__version__,
    }


def _plain(value: Any) -> Any:
    """Tuples with names as JSON objects; numpy's values as JSON's."""
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {key if isinstance(key, str) else str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    return [_plain(part) for part in value] if isinstance(value, (list, tuple)) else value
