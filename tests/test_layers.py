"""The layers of docs/explanation/design.md hold: which file imports which, by the sources; what importing pybsp loads.

An import counts wherever it stands, in a function too, and so does what a package file offers (pybsp/lazy.py). Imports
for type checkers alone are counted by themselves.
"""

from __future__ import annotations

import ast
import gc
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple

import pytest

from pybsp.cli import COMMANDS

from .launching import ended_well, python, run

ROOT = Path(__file__).parent.parent


class Layer(NamedTuple):
    """What lies on one level: modules with all that is in them, less what a longer name puts into another layer."""

    modules: str
    imports: str  # the layers below that it may import from


# From the ground up.
LAYERS = {
    "ground": Layer("_version compiled errors ground layouts lazy processes ways", ""),
    "machines": Layer("machines", "ground"),
    "transport": Layer("transport", "ground machines"),
    "messages": Layer("messages", "ground transport"),
    "logp": Layer("logp", "ground machines transport messages"),
    "bsp": Layer("arrays bsp checkpoints groups ledger parts rides supersteps", "ground machines transport messages"),
    "routers": Layer("routing", "ground machines transport messages"),
    "runs": Layer("logp.launch on_network runs testing", "ground machines transport messages logp bsp routers"),
    "collectives": Layer("collectives", "ground machines bsp"),
    "logp-on-bsp": Layer("routing.logp_on_bsp", "ground machines logp bsp collectives"),
    # Package files that offer what is in all of these; nothing below uses what they offer.
    "names": Layer("", "ground machines transport messages logp bsp routers runs collectives logp-on-bsp"),
    "benchmarks": Layer(
        "benchmarks", "ground machines transport messages logp bsp routers runs collectives logp-on-bsp names"
    ),
    "command": Layer(
        "__main__ cli commands pytest_plugin", "ground machines transport messages logp bsp routers runs benchmarks"
    ),
}
# What routes by LogP messages uses the LogP interface.
EXCEPTIONS = {("routing.logp", "logp")}
CHECKPOINTS = ("beginning", "failing", "relaid", "saver", "snapshot")
# For type checkers alone: what fills the pools, and the machine that they are pools of; what rides, and an array's
# patterns.
TYPES_ONLY = {
    *((f"checkpoints.{name}", "supersteps.superstep") for name in CHECKPOINTS),
    *((f"arrays.{name}", "supersteps.superstep") for name in ("array", "global_array", "pattern")),
    *((f"groups.{name}", "supersteps.superstep") for name in ("group", "rides", "shown")),
    *((f"ledger.{name}", "supersteps.superstep") for name in ("combining", "trace")),
    *((f"parts.{name}", "supersteps.superstep") for name in ("living", "totals")),
    *((f"rides.{name}", "supersteps.superstep") for name in ("ride", "shown")),
    ("supersteps.queues", "supersteps.superstep"),
    ("rides.notes", "rides.ride"),
    ("ledger.pictures", "ledger.records"),
    ("ledger.prediction", "ledger.ledger"),
    ("ledger.prediction_pictures", "ledger.prediction"),
    ("ledger.account", "parts.totals"),
    ("arrays.array", "arrays.pattern"),
}

MODULES = 30  # of pybsp's, that `import pybsp` loads at most
# What it never loads. Without numpy and greenlet it takes less time than to import these two, on any machine.
ELSEWHERE = ("numpy", "greenlet", "mpi4py", "rich", "matplotlib", "hypothesis", "scipy")
HEAVY = ("mpi4py.MPI", "rich", "matplotlib", "hypothesis", "subprocess", "numpy.ma")  # what runs do not load either
PRIVATE = 20  # methods of a class, at most, that only the class itself calls


class Import(NamedTuple):
    """One import: of a module by another, both without `pybsp.`; the package itself is ""."""

    by: str
    of: str
    line: int
    types_only: bool


@cache
def sources() -> dict[str, Path]:
    """The files of all modules, through the links."""
    found = {}
    for folder, _, names in os.walk(ROOT / "pybsp", followlinks=True):
        package = Path(folder).relative_to(ROOT / "pybsp").parts
        for name in names:
            if name.endswith(".py"):
                found[".".join((*package, name[:-3])).removesuffix("__init__").rstrip(".")] = Path(folder) / name
    return found


@cache
def parsed(module: str) -> ast.Module:
    looks = gc.isenabled()
    gc.disable()  # all of it stays: looking through it for garbage takes three times as long as parsing
    try:
        return ast.parse(sources()[module].read_text())
    finally:
        gc.freeze()
        if looks:
            gc.enable()


def is_package(module: str) -> bool:
    return sources()[module].name == "__init__.py"


def for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


@cache
def offered(module: str) -> Mapping[str, str]:
    """What a package file says to type checkers that it offers: names, and the modules that have them."""
    if not is_package(module):
        return {}
    return {
        alias.name: target
        for block in parsed(module).body
        if for_types(block)
        for statement in ast.walk(block)
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
        for target in [source_of(module, statement, alias.name)]
    }


def base_of(module: str, statement: ast.ImportFrom) -> str | None:
    """The module that an import is from, without `pybsp.`; None where it is none of ours."""
    if not statement.level:
        top, _, rest = (statement.module or "").partition(".")
        return rest if top == "pybsp" else None
    package = module.split(".") if module else []
    up = statement.level - is_package(module)
    return ".".join([*package[: len(package) - up], *([statement.module] if statement.module else [])])


def source_of(module: str, statement: ast.ImportFrom, name: str) -> str:
    """The module that a name comes from: itself, if it is one."""
    base = base_of(module, statement)
    assert base is not None
    inside = f"{base}.{name}".lstrip(".")
    return inside if inside in sources() else base


@cache
def imports_of(module: str) -> Sequence[Import]:
    """All imports of ours in a file."""

    def visit(node: ast.AST, types_only: bool) -> Iterator[Import]:
        if isinstance(node, ast.Import):
            for alias in node.names:
                top, _, rest = alias.name.partition(".")
                if top == "pybsp":
                    yield Import(module, rest, node.lineno, types_only)
        elif isinstance(node, ast.ImportFrom):
            base = base_of(module, node)
            for alias in node.names if base is not None else ():
                # What a package offers by a name is the package's, also where a module has that name.
                its_own = base != module and alias.name in offered(base or "")
                of = base or "" if its_own else source_of(module, node, alias.name)
                yield Import(module, of, node.lineno, types_only)
        types_only = types_only or (for_types(node) and not is_package(module))
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.expr):  # no import is in one
                yield from visit(child, types_only)

    return list(visit(parsed(module), False))


def graph(types: bool) -> dict[str, set[str]]:
    """Which modules each imports, those for type checkers alone included or not."""
    edges = {
        module: {found.of for found in imports_of(module) if found.of != module and (types or not found.types_only)}
        for module in sources()
    }
    edges["cli"] |= {command.module for command in COMMANDS.values()}  # which it imports by name
    return edges


def circle(edges: Mapping[str, set[str]]) -> list[str]:
    """Modules each of which imports the next, and the last the first; none where imports never come round."""
    left = {module: set(of) for module, of in edges.items()}
    while ends := {module for module, of in left.items() if not of & left.keys()}:
        left = {module: of for module, of in left.items() if module not in ends}
    way = [min(left)] if left else []
    while way and way.count(way[-1]) == 1:  # all that are left import one that is left
        way.append(min(left[way[-1]] & left.keys()))
    return way[way.index(way[-1]) : -1] if way else []


@cache
def layer_of(module: str) -> str:
    if offered(module):
        return "names"
    fitting = [
        (len(name), layer)
        for layer, (names, _) in LAYERS.items()
        for name in names.split()
        if f"{module}.".startswith(f"{name}.")
    ]
    assert fitting, f"{sources()[module]}: in no layer; say in LAYERS where it belongs"
    return max(fitting)[1]


def forbidden(found: Import) -> bool:
    below, here = layer_of(found.of), layer_of(found.by)
    if below == here or below in LAYERS[here].imports.split():
        return False
    return not any(f"{found.by}.".startswith(f"{by}.") and below == of for by, of in EXCEPTIONS)


def told(command: list[str]) -> set[str]:
    """The modules that a program prints as JSON, with the test's path."""
    return set(json.loads(ended_well(run(command)).splitlines()[-1]))


def ours(modules: set[str]) -> set[str]:
    return {module for module in modules if module.split(".")[0] == "pybsp"}


# -- what imports what -------------------------------------------------------------------------------------------------


def test_layers_are_in_order() -> None:
    names = list(LAYERS)
    for place, layer in enumerate(names):
        assert set(LAYERS[layer].imports.split()) <= set(names[:place]), layer


@pytest.mark.whole
def test_links_are_followed() -> None:
    for module in ("collectives.broadcast", "routing.networks.mesh", "benchmarks.calibration.command", "bsp", ""):
        assert module in sources()
    assert Import("bsp", "transport.router", 0, False) in [found._replace(line=0) for found in imports_of("bsp")]
    assert "collectives.broadcast" in graph(types=False)["collectives"]


def test_no_import_goes_up_or_around() -> None:
    wrong = [
        f"{sources()[found.by]}:{found.line}: {found.by} ({layer_of(found.by)}) imports {found.of or 'pybsp'} "
        f"({layer_of(found.of)})"
        for module in sources()
        for found in imports_of(module)
        if not found.types_only and forbidden(found)
    ]
    assert not wrong, "\n".join(wrong)


def test_nothing_below_imports_the_command_line() -> None:
    assert {module for module, of in graph(types=True).items() if "cli" in of} == {"__main__"}


def test_there_are_no_circles() -> None:
    assert circle(graph(types=False)) == []
    # One is found where it is.
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set()}) == ["b", "c"]


def test_imports_for_type_checkers_alone_make_no_circles_but_those_that_are_known() -> None:
    def known(module: str, of: set[str]) -> set[str]:
        return {one for one in of if (module, one) not in TYPES_ONLY}

    assert circle({module: known(module, of) for module, of in graph(types=True).items()}) == []
    up = {(one.by, one.of) for module in sources() for one in imports_of(module) if one.types_only}
    assert up >= TYPES_ONLY, "these are gone: take them out of TYPES_ONLY"


def test_no_class_hides_many_methods() -> None:
    many = {
        f"{sources()[module]}:{node.lineno}: {node.name}: {count}"
        for module in sources()
        for node in ast.walk(parsed(module))
        if isinstance(node, ast.ClassDef)
        for count in [sum(isinstance(one, ast.FunctionDef) and is_private(one.name) for one in node.body)]
        if count > PRIVATE
    }
    assert not many, many


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


# -- what is loaded ----------------------------------------------------------------------------------------------------


def test_importing_pybsp_loads_little() -> None:
    code = "import json, sys, pybsp; print(json.dumps(list(sys.modules)))"
    loaded = told([sys.executable, "-c", code])
    assert len(ours(loaded)) <= MODULES, sorted(ours(loaded))
    assert not loaded & {*ELSEWHERE}


def test_what_runs_need_is_little() -> None:
    """Networks, the simulated LogP machine, collectives, and routers that were not asked for are not loaded."""
    code = """
        import json, sys
        import numpy as np
        without = set(sys.modules)  # older ones of numpy load numpy.ma, and subprocess, themselves
        import pybsp
        from pybsp.runs.latency import typical
        pybsp.run, pybsp.simulate, typical(np.ones(9))
        print(json.dumps(list(set(sys.modules) - without)))
    """
    loaded = told([sys.executable, "-c", dedent(code)])
    assert not loaded & {*HEAVY}
    found = [one for one in ours(loaded) if one.startswith(("pybsp.collectives", "pybsp.routing.", "pybsp.logp"))]
    assert {*found} == {"pybsp.routing.choice", "pybsp.routing.sparse"}, sorted(found)


def test_pybsp_run_loads_nothing_heavy_and_each_command_its_own_options(tmp_path: Path) -> None:
    """Nor do the commands that are not named: what starts ranks is there as soon as Python is."""
    program = tmp_path / "program.py"
    program.write_text("")
    for arguments, heavy in (["run", "-n", "1", "--explain", str(program)], False), (["show", "--help"], True):
        code = f"""
            import contextlib, io, json, sys
            from pybsp.cli import main
            with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
                main({arguments!r})
            print(json.dumps(list(sys.modules)))
        """
        loaded = told([sys.executable, "-c", dedent(code)])
        assert bool(loaded & {*ELSEWHERE}) == heavy, sorted(loaded & {*ELSEWHERE})
        commands = {f"pybsp.{command.module}" for command in COMMANDS.values()}
        of_command = f"pybsp.{COMMANDS[arguments[0]].module}"
        assert loaded & commands >= {of_command}
        assert heavy or loaded & commands == {of_command}


@pytest.mark.parametrize("start", ["run(main)", "simulate(main, p=3)"])
def test_a_superstep_loads_nothing(tmp_path: Path, start: str) -> None:
    program = tmp_path / "program.py"
    text = f"""
        import json, sys
        import numpy as np
        import pybsp
        from pybsp import collectives
        loaded = set()
        def main(bsp):
            before = set(sys.modules)
            x, q = bsp.array(4), bsp.queue()
            bsp.send(0, np.arange(3.0)), bsp.send(0, "text", tag=1), q.send(0, 1.0)
            bsp.sync()
            x.put(0, 1.0, at=0)
            ticket = x.get(0)
            with bsp.expect(supersteps=5), bsp.superstep("exchange"):
                bsp.work(1)
            with bsp.split(0) as part:
                part.sync()
            assert len(ticket.value) == 4
            collectives.allreduce(bsp, 1, np.add), collectives.prefix_2d(bsp, np.ones(5), np.add)
            for name in collectives.__all__:
                getattr(collectives, name)
            loaded.update(set(sys.modules) - before)
        pybsp.{start}
        print(json.dumps(list(loaded)))
    """
    program.write_text(dedent(text))
    assert not ours(told(python(program)))


# -- what package files offer ------------------------------------------------------------------------------------------

PACKAGES = sorted(module for module in sources() if offered(module))


def test_package_files_import_nothing_that_they_hold() -> None:
    """But that of the transport, which is its interface."""
    for module in sources():
        if not is_package(module) or module.split(".")[0] in ("transport", "benchmarks"):
            continue
        loaded = {
            source_of(module, statement, alias.name)
            for statement in parsed(module).body
            if isinstance(statement, ast.ImportFrom) and base_of(module, statement) is not None
            for alias in statement.names
        }
        assert loaded <= {"lazy", "_version", "errors", "runs.exits"}, module


@pytest.mark.parametrize("name", PACKAGES)
def test_packages_offer_what_type_checkers_are_told(name: str) -> None:
    package = import_module(f"pybsp.{name}".rstrip("."))
    for offer, module in offered(name).items():
        found = import_module(f"pybsp.{module}")
        assert getattr(package, offer) is getattr(found, offer, found)
    public = {offer for offer in offered(name) if not offer.startswith("_")}
    assert public - {"baselines", "collectives", "ebsp", "routing"} <= set(package.__all__)
    assert set(package.__all__) <= {*vars(package)}
    assert {*package.__all__, *offered(name)} <= {*dir(package)}
    starred: dict[str, object] = {}
    exec(f"from {package.__name__} import *", starred)
    assert starred.keys() - {"__builtins__"} == {*package.__all__}


def test_a_name_is_the_function_also_where_its_module_was_imported_first() -> None:
    code = """
        import pybsp.collectives.broadcast, pybsp.routing.networks.network, pybsp.routing.logp_on_bsp.cycles
        from pybsp import collectives, routing
        from pybsp.routing import networks
        assert callable(collectives.broadcast) and callable(networks.network) and callable(routing.logp_on_bsp)
        import pybsp.collectives.prefix
        assert callable(collectives.prefix)
    """
    ended_well(run([sys.executable, "-c", dedent(code)]))


def test_an_unknown_name_is_an_error_as_pythons_own() -> None:
    import pybsp

    with pytest.raises(AttributeError, match=r"^module 'pybsp' has no attribute 'simulat'$") as caught:
        pybsp.simulat  # type: ignore[attr-defined]  # noqa: B018
    assert (caught.value.name, caught.value.obj) == ("simulat", pybsp)
    with pytest.raises(ImportError, match=r"^cannot import name 'simulat' from 'pybsp' \("):
        from pybsp import simulat  # type: ignore[attr-defined]  # noqa: F401
