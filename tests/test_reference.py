"""The reference has every public name, and every one an example that does what it says.

Examples are in docstrings; what is public is what `__all__` names, and what a page of docs/reference/ shows. In
examples `np` is numpy and `pybsp` is pybsp.
"""

from __future__ import annotations

import contextlib
import doctest
import functools
import importlib
import inspect
import io
import os
import pkgutil
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import pybsp
from pybsp import collectives, layouts, logp, routing
from pybsp.collectives import baselines, ebsp
from pybsp.routing import networks, relations

from .launching import ended_well, run

PAGES = Path(__file__).parent.parent / "docs" / "reference"
ON_RANKS = ("pybsp.run", "pybsp.attach", "pybsp.logp.run")  # they need MPI, which is for a process of its own
# Whose examples take half a second and more: they start ranks, or route many packets.
LONG = (
    *("pybsp.start_ranks", "pybsp.ranks", "pybsp.Ranks", "pybsp.Execution", "pybsp.BSP"),
    *("pybsp.routing.networks.flow.flow", "pybsp.routing.networks.heat_map.heat_map"),
    *("pybsp.routing.networks.saturation", "pybsp.routing.networks.latency_against_load"),
)
# Names without a docstring of their own: a text, modules, a type, and the classes of networks by name.
WITHOUT = ("__version__", "layouts", "logp", "networks", "relations", "Program", "NETWORKS")


class Entry(NamedTuple):
    """A name that a page shows: its members are those that the page names, or all public ones."""

    name: str
    members: list[str] | None
    part: bool  # of the entry before: the cost or the plan of a collective

    @property
    def thing(self) -> Any:
        """What has this name."""
        names = self.name.split(".")
        for k in range(len(names) - 1, 0, -1):
            try:
                found: Any = importlib.import_module(".".join(names[:k]))
            except ModuleNotFoundError:
                continue
            for name in names[k:]:
                found = getattr(found, name)
            return found
        raise AssertionError(f"there is no {self.name}")

    def documented(self) -> Iterator[tuple[str, str]]:
        """Name and docstring of it, and of its members where it is a class."""
        thing = self.thing
        yield self.name, inspect.getdoc(thing) or ""
        if inspect.isclass(thing):
            for name, member in vars(thing).items():
                shown = not name.startswith("_") if self.members is None else name in self.members
                member = getattr(member, "__func__", member)
                if shown and (inspect.isfunction(member) or isinstance(member, (property, functools.cached_property))):
                    yield f"{self.name}.{name}", inspect.getdoc(member) or ""


def entries() -> Iterator[Entry]:
    """What the pages show."""
    for page in sorted(PAGES.glob("*.md")):
        for name, options in re.findall(r"^::: (\S+)\n((?:    .*\n)*)", page.read_text(), re.MULTILINE):
            members = re.search(r"members: (?:\[([^\]]*)\]|false)", options)
            listed = None if members is None else re.split(r",\s+", members[1]) if members[1] else []
            yield Entry(name, listed, "heading_level: 4" in options)


ENTRIES = list(entries())


def test_every_public_name_is_in_the_reference() -> None:
    shown = {id(entry.thing) for entry in ENTRIES}
    public = {
        f"{module.__name__}.{name}": getattr(module, name)
        for module in (pybsp, collectives, ebsp, baselines, layouts, logp, routing, networks)
        for name in module.__all__
        if name not in WITHOUT
    }
    for name, thing in vars(relations).items():
        if inspect.isfunction(thing) and thing.__module__ == relations.__name__ and not name.startswith("_"):
            public[f"{relations.__name__}.{name}"] = thing
    assert len(public) > 80
    assert [name for name, thing in public.items() if id(thing) not in shown] == []


@pytest.mark.parametrize("entry", [entry for entry in ENTRIES if not entry.part], ids=lambda entry: entry.name)
def test_every_public_name_has_an_example(entry: Entry) -> None:
    """A class shows each of its members, in its own example or in the member's."""
    (name, own), *members = entry.documented()
    assert ">>> " in own, name
    shown = "\n".join(line for line in own.splitlines() if re.match(r"\s*(>>>|\.\.\.) ", line))
    for member, text in members:
        assert ">>> " in text or re.search(rf"\b{member.rsplit('.', 1)[1]}\b", shown), member


def failures(entry: Entry) -> str:
    """What doctest says of examples that do something else than they say; some write files, in a folder that goes."""
    said = io.StringIO()
    runner = doctest.DocTestRunner()
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for name, text in entry.documented():
                names = {"np": np, "pybsp": pybsp}
                runner.run(doctest.DocTestParser().get_doctest(text, names, name, None, None), out=said.write)
        finally:
            os.chdir(here)
    return said.getvalue()


@pytest.mark.fast
@pytest.mark.parametrize(
    "entry",
    [
        pytest.param(entry, marks=[pytest.mark.whole] * (entry.name in LONG), id=entry.name)
        for entry in ENTRIES
        if entry.name not in ON_RANKS
    ],
)
def test_examples_do_what_they_say(entry: Entry) -> None:
    assert failures(entry) == ""


def other_examples() -> Iterator[doctest.DocTest]:
    """Those of docstrings that no page shows."""
    shown = {text.strip() for entry in ENTRIES for _, text in entry.documented()}
    finder, seen = doctest.DocTestFinder(), set[str]()
    for found in pkgutil.walk_packages(pybsp.__path__, "pybsp."):
        if found.name.endswith("__main__"):
            continue
        module = importlib.import_module(found.name)
        for test in finder.find(module, module.__name__, globs={**vars(module), "np": np, "pybsp": pybsp}):
            if test.examples and test.name not in seen and inspect.cleandoc(test.docstring or "") not in shown:
                seen.add(test.name)
                yield test


@pytest.mark.whole
def test_examples_that_no_page_shows_do_what_they_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    said, names = io.StringIO(), []
    for test in other_examples():
        doctest.DocTestRunner().run(test, out=said.write)
        names.append(test.name)
    assert "pybsp.ways.named" in names
    assert said.getvalue() == ""


def test_examples_of_what_needs_mpi_do_what_they_say() -> None:
    assert ended_well(run([sys.executable, "-m", "tests.test_reference"])) == ""


if __name__ == "__main__":
    with contextlib.redirect_stdout(io.StringIO()):
        said = [failures(entry) for entry in ENTRIES if entry.name in ON_RANKS]
    sys.exit("".join(said) or None)
