"""The mutants of a module: its source with one small change each, made by mutmut's operators and a few of our own.

Excluded, because no test should depend on them: messages (`raise`, `assert`, logs, progress bars, help texts, labels of
tables and cards), type annotations, decorators, imports, and arguments that matter on a GPU alone. A mutant that
computes the same as the original is listed in `equivalent.yaml` with the reason.
"""

import ast
import difflib
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import libcst as cst
import libcst.matchers as m
import yaml
from libcst.metadata import MetadataWrapper, PositionProvider
from mutmut.mutation.mutators import mutation_operators, operator_arg_removal, operator_string

EQUIVALENT = Path(__file__).with_name("equivalent.yaml")
MESSAGE_CALLS = {"option", "print", "tqdm", "cast", "TypeVar", "getLogger", "isinstance", "ArgumentParser"}
MESSAGE_OBJECTS = {"logger", "warnings", "bar", "tqdm"}
MESSAGE_NAMES = {"label", "card_line", "__all__", "logger"}
# Texts, progress bars, checks of lengths that are equal, and what matters on a GPU alone.
MESSAGE_ARGUMENTS = {
    *("help", "metavar", "description", "prog", "desc", "unit", "unit_scale", "delay", "smoothing", "refresh"),
    *("strict", "device", "non_blocking", "check_invariants", "unsafe", "encoding"),
}


@dataclass(frozen=True)
class Mutant:
    """A changed source.

    Attributes:
        line: number of the changed line, from 1.
        last_line: the last line of its statement; a test that runs neither cannot detect the change.
        first_line: the first line of its statement.
        change: the removed and the added lines.
        code: the whole source.
    """

    line: int
    first_line: int
    last_line: int
    change: str
    code: str


def sample_mutants(root: Path, path: str, count: int | None, seed: int) -> list[Mutant]:
    """Return a random sample of a module's mutants, in the order of their lines; None returns all."""
    source = (root / path).read_text(encoding="utf-8")
    visitor = _Visitor()
    module = MetadataWrapper(cst.parse_module(source)).visit(visitor)
    equivalent = {one["change"].strip() for one in _equivalent().get(path, [])}
    changes = visitor.changes
    random.Random(f"{seed} {path}").shuffle(changes)
    mutants: dict[str, Mutant] = {}
    for old, new, line, span in changes:
        if count is not None and len(mutants) == count:
            break
        code = module.deep_replace(old, new).code
        change = _describe(source, code)
        if code not in mutants and change not in equivalent and _is_changed(source, code):
            mutants[code] = Mutant(line, *span, change, code)
    return sorted(mutants.values(), key=lambda mutant: (mutant.line, mutant.change))


def _equivalent() -> dict[str, list[dict[str, str]]]:
    return yaml.safe_load(EQUIVALENT.read_text(encoding="utf-8")) or {}


def _describe(old: str, new: str) -> str:
    lines = list(difflib.unified_diff(old.splitlines(), new.splitlines(), n=0, lineterm=""))[2:]
    return "\n".join(f"{line[0]} {line[1:].strip()}" for line in lines if not line.startswith("@@"))


def _is_changed(old: str, new: str) -> bool:
    try:
        return ast.dump(ast.parse(new)) != ast.dump(ast.parse(old))
    except SyntaxError:
        return False


def _lower_number(node: cst.Integer) -> Iterable[cst.CSTNode]:
    if node.evaluated_value >= 1:  # mutmut adds one
        yield node.with_changes(value=repr(node.evaluated_value - 1))


def _negate_condition(node: cst.If) -> Iterable[cst.CSTNode]:
    test = node.test.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    yield node.with_changes(test=cst.UnaryOperation(cst.Not(), test), whitespace_before_test=cst.SimpleWhitespace(" "))


def _drop_method(node: cst.Call) -> Iterable[cst.CSTNode]:
    """Replace `x.method()` by `x`: `scores.detach()`, `values.float()`."""
    if isinstance(node.func, cst.Attribute) and not node.args:
        yield node.func.value


def _drop_statement(node: cst.Expr) -> Iterable[cst.CSTNode]:
    if isinstance(node.value, cst.Call):
        yield cst.Pass()


def _one_string(node: cst.BaseString) -> Iterable[cst.CSTNode]:
    return islice(operator_string(node), 1)  # the others change upper and lower case


def _drop_argument(node: cst.Call) -> Iterable[cst.CSTNode]:
    """Drop an argument or replace it by None, unless it is one of `MESSAGE_ARGUMENTS`."""
    names = [argument.keyword.value if argument.keyword else "" for argument in node.args]
    for changed in operator_arg_removal(node):
        left = {id(argument) for argument in changed.args}
        if not any(
            name in MESSAGE_ARGUMENTS and id(argument) not in left
            for name, argument in zip(names, node.args, strict=True)
        ):
            yield changed


OPERATORS: list[tuple[type, Any]] = [
    *(
        (kind, {operator_string: _one_string, operator_arg_removal: _drop_argument}.get(operator, operator))
        for kind, operator in mutation_operators
    ),
    (cst.Integer, _lower_number),
    (cst.If, _negate_condition),
    (cst.Call, _drop_method),
    (cst.Expr, _drop_statement),
]


class _Visitor(cst.CSTVisitor):
    """Collects the changes of a module: (node, changed node, line, lines of the statement)."""

    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self) -> None:
        super().__init__()
        self.changes: list[tuple[cst.CSTNode, cst.CSTNode, int, tuple[int, int]]] = []
        self._statements: list[cst.CSTNode] = []

    def on_visit(self, node: cst.CSTNode) -> bool:
        if _is_message(node):
            return False
        if isinstance(node, cst.SimpleStatementLine):
            self._statements.append(node)
        for changed in _changes(node):
            # libcst knows the positions of some nodes only: operators have none.
            position = self.get_metadata(PositionProvider, node, None)
            statement = self.get_metadata(PositionProvider, self._statements[-1]) if self._statements else position
            if position and statement:
                is_block = isinstance(node, cst.If)
                last = position.start.line if is_block else statement.end.line
                self.changes.append((node, changed, position.start.line, (statement.start.line, last)))
        return True

    def on_leave(self, node: cst.CSTNode) -> None:
        if self._statements and self._statements[-1] is node:
            self._statements.pop()


def _changes(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    for kind, operator in OPERATORS:
        if isinstance(node, kind):
            yield from operator(node)


def _is_message(node: cst.CSTNode) -> bool:
    if isinstance(node, (cst.Raise, cst.Assert, cst.Annotation, cst.Decorator, cst.Import, cst.ImportFrom)):
        return True
    if isinstance(node, cst.If):
        return m.matches(node.test, m.Name("TYPE_CHECKING"))
    if isinstance(node, cst.Arg):
        return node.keyword is not None and node.keyword.value in MESSAGE_ARGUMENTS
    if isinstance(node, cst.Assign):
        return any(isinstance(one.target, cst.Name) and one.target.value in MESSAGE_NAMES for one in node.targets)
    if isinstance(node, cst.AnnAssign):
        return isinstance(node.target, cst.Name) and node.target.value in MESSAGE_NAMES
    if isinstance(node, cst.Expr):
        return isinstance(node.value, cst.BaseString) or _is_message(node.value)
    if not isinstance(node, cst.Call):
        return False
    if isinstance(node.func, cst.Attribute):
        return isinstance(node.func.value, cst.Name) and node.func.value.value in MESSAGE_OBJECTS
    return isinstance(node.func, cst.Name) and node.func.value in MESSAGE_CALLS
