"""Mutants: of each statement of the code, the ways in which one wrong token or line could make it another."""

from __future__ import annotations

import ast
import itertools
import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
FOLDERS = ("pybsp", "collectives", "routing", "benchmarks/calibration/fits")

COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
    ast.Pow: ast.Mult,
}


class Mutant(NamedTuple):
    """One line of the code, wrong."""

    file: str  # from the root of the repository
    line: int
    before: str  # the line as it is
    after: str

    @property
    def name(self) -> str:
        return f"{self.file}:{self.line}: {self.after.strip()}"

    def applied(self, text: str) -> str:
        """The file's text with it."""
        lines = text.split("\n")
        assert lines[self.line - 1] == self.before, f"{self.file} has changed"
        lines[self.line - 1] = self.after
        return "\n".join(lines)


def drawn(number: int, seed: int) -> list[Mutant]:
    """Mutants of so many statements, each as likely as another, and of each statement one."""
    chance = random.Random(seed)
    shuffled = [*statements()]
    chance.shuffle(shuffled)
    found: list[Mutant] = []
    for file, statement in shuffled:
        if len(found) == number:
            break
        lines = (ROOT / file).read_text().split("\n")
        ways = sorted(set(mutants_of(file, lines, statement)))
        if ways:
            found.append(chance.choice(ways))
    return found


def files() -> list[str]:
    """The files whose statements are drawn from; links lead to folders that are listed themselves."""
    paths = [path for folder in FOLDERS for path in sorted((ROOT / folder).glob("**/*.py"))]
    kept = [path for path in paths if not any(part.is_symlink() for part in path.parents)]
    return sorted({str(path.relative_to(ROOT)) for path in kept})


@cache
def statements() -> tuple[tuple[str, ast.stmt], ...]:
    """All that are drawn from, with their files."""
    return tuple((file, statement) for file in files() for statement in statements_of(ROOT / file))


def statements_of(path: Path) -> Iterator[ast.stmt]:
    """The statements that do something: no imports, texts, declarations, or what only type checkers read."""
    quiet = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef, ast.Pass, ast.Global, ast.Nonlocal, ast.Try)

    def within(statements: list[ast.stmt]) -> Iterator[ast.stmt]:
        for statement in statements:
            if isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.unparse(statement.test):
                continue
            text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
            declared = isinstance(statement, ast.AnnAssign) and statement.value is None
            abstract = isinstance(statement, ast.Raise) and ast.unparse(statement) == "raise NotImplementedError"
            if not isinstance(statement, quiet) and not text and not declared and not abstract:
                yield statement
            for field in ("body", "orelse", "finalbody"):
                yield from within(getattr(statement, field, []))
            for other in (*getattr(statement, "handlers", []), *getattr(statement, "cases", [])):
                yield from within(other.body)

    yield from within(ast.parse(path.read_text()).body)


def mutants_of(file: str, lines: list[str], statement: ast.stmt) -> Iterator[Mutant]:
    """Those of one statement: of what stands in it, not in statements within.

    Two kinds of change make no other program, and are none: a False that is returned becomes None, which is as little
    true; and a `zip` no longer looks whether all are of one length, as they are where nothing else is wrong.
    """
    if _may_go(statement) and statement.lineno == statement.end_lineno:
        yield _replaced(file, lines, statement, "pass")
    if isinstance(statement, ast.Break | ast.Continue):
        yield _replaced(file, lines, statement, "break" if isinstance(statement, ast.Continue) else "continue")
    if isinstance(statement, ast.Return) and statement.value and not _is(statement.value, None, False):
        yield from _changed(file, lines, statement.value, "None")
    if isinstance(statement, ast.If | ast.While):
        yield from _changed(file, lines, statement.test, f"not ({ast.unparse(statement.test)})")
    for node in _expressions(statement):
        for text in _ways(node):
            yield from _changed(file, lines, node, text)


def _may_go(statement: ast.stmt) -> bool:
    """Whether the program without it is still one: a name that is never bound would be found by anything."""
    if isinstance(statement, ast.Assign):
        return not any(isinstance(target, ast.Name | ast.Tuple) for target in statement.targets)
    return isinstance(statement, ast.Expr | ast.AugAssign | ast.Raise | ast.Delete)


def _expressions(statement: ast.stmt) -> Iterator[ast.expr]:
    nodes: list[ast.AST] = [statement]
    while nodes:
        for field, value in ast.iter_fields(nodes.pop()):
            if field in ("annotation", "type_comment", "returns"):
                continue
            for node in itertools.filterfalse(_is_strict, value if isinstance(value, list) else [value]):
                if isinstance(node, ast.expr):
                    yield node
                if isinstance(node, ast.AST) and not isinstance(node, ast.stmt | ast.JoinedStr | ast.excepthandler):
                    nodes.append(node)


def _ways(node: ast.expr) -> Iterator[str]:
    """An expression, wrong."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        yield ast.unparse(ast.Compare(node.left, [COMPARED[type(node.ops[0])]()], node.comparators))
    elif isinstance(node, ast.BinOp) and type(node.op) in COMPUTED:
        yield f"({ast.unparse(ast.BinOp(node.left, COMPUTED[type(node.op)](), node.right))})"
    elif isinstance(node, ast.BoolOp):
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield f"({ast.unparse(ast.BoolOp(other, node.values))})"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield ast.unparse(node.operand)
    elif isinstance(node, ast.IfExp):
        yield f"({ast.unparse(ast.IfExp(node.test, node.orelse, node.body))})"
    elif isinstance(node, ast.Constant):
        if isinstance(node.value, bool):
            yield str(not node.value)
        elif isinstance(node.value, int | float):
            yield repr(node.value + 1)
    elif isinstance(node, ast.Call) and node.keywords:
        for gone in itertools.filterfalse(_is_strict, node.keywords):
            kept = [keyword for keyword in node.keywords if keyword is not gone]
            yield ast.unparse(ast.Call(node.func, node.args, kept))


def _changed(file: str, lines: list[str], node: ast.expr, text: str) -> Iterator[Mutant]:
    if node.lineno == node.end_lineno:
        yield _replaced(file, lines, node, text)


def _replaced(file: str, lines: list[str], node: ast.expr | ast.stmt, text: str) -> Mutant:
    before = lines[node.lineno - 1]
    raw = before.encode()  # columns of nodes count bytes
    after = (raw[: node.col_offset] + text.encode() + raw[node.end_col_offset :]).decode()
    return Mutant(file, node.lineno, before, after)


def _is(node: ast.expr, *values: object) -> bool:
    return isinstance(node, ast.Constant) and any(node.value is value for value in values)


def _is_strict(node: object) -> bool:
    return isinstance(node, ast.keyword) and node.arg == "strict"
