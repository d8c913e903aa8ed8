"""One name, one meaning: what the identifiers and the classes of the wheel are called (docs/reference/glossary.md)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache

from .test_layers import ROOT, parsed, sources

# Words that say that something happened to a thing, and not what the thing is.
WORDS = {"said", "held", "made", "kept", "told", "wanted", "apart"}
# Identifiers that have one for a reason.
TERMS = {
    "held_out": "of data that nothing is fitted to, as in statistics",
    "kept": "a field of machine files",
}
# Names of two classes, which programs meet as pybsp.X and as pybsp.logp.X, or as what two packages offer.
PAIRS = {
    "Array": "a program's, and a network",
    "Grid": "of processors in groups, and of blocks in a matrix",
    "Multibutterfly": "a network of switches, and one of packets",
    "Outcome": "of a run, in failures, and of a run of the multibutterfly's protocol",
    "Message": "received in a superstep, and from a LogP network",
    "Simulation": "what a simulated run gives, of both models",
    "Trace": "of a run, of both models",
}
NOT_IN_THE_WHEEL = ("against_mpi", "programs", "reliability", "studies")


@cache
def files() -> dict[str, str]:
    """The modules of the wheel, and their paths."""
    found = {}
    for module, path in sources().items():
        if module.split(".")[0] == "benchmarks" and module.split(".")[1:2] and module.split(".")[1] in NOT_IN_THE_WHEEL:
            continue
        found[module] = str(path.resolve().relative_to(ROOT))
    return found


def identifiers(module: str) -> Iterator[tuple[str, int]]:
    """Names in a file, each with the line where it, or what it is part of, begins."""
    line = 1
    for node in ast.walk(parsed(module)):
        line = getattr(node, "lineno", line)
        for field, value in () if isinstance(node, ast.Constant) else ast.iter_fields(node):
            if isinstance(value, str) and field != "type_comment":
                yield value, line


def test_identifiers_are_not_said_made_held_kept_told_wanted_or_apart() -> None:
    assert "bsp" in files()
    assert "collectives.broadcast" in files()
    wrong = {
        f"{path}:{line}: {name}"
        for module, path in files().items()
        for name, line in [(module, 1), *identifiers(module)]
        if WORDS & {*name.lower().replace(".", "_").split("_")} and name.split(".")[-1].lower().strip("_") not in TERMS
    }
    assert not wrong, "what it is, in the field's words (docs/reference/glossary.md):\n" + "\n".join(sorted(wrong))


def test_a_class_has_a_name_of_its_own() -> None:
    found: dict[str, set[str]] = {}
    for module, path in files().items():
        for node in ast.walk(parsed(module)):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name.lstrip("_"), set()).add(path)
    shared = {name: sorted(paths) for name, paths in found.items() if len(paths) > 1 and name not in PAIRS}
    assert not shared, shared
