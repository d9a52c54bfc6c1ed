"""Small changes to a program's text, each of which a good test notices.

Operators look at the syntax tree and change as little of the text as they can. Left alone is what no
test should notice: docstrings, annotations, texts for people, calls of the log, how a dataclass is made.
"""

import ast
import re
import warnings
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from types import CodeType
from typing import Any

Edit = tuple[int, int, str]  # from byte, to byte, what stands there instead


@dataclass(frozen=True)
class Mutant:
    """One change of one file.

    Attributes:
        line: of the first thing that is changed, from 1.
        runs_at: the line at which Python runs it: `line`, or the first of its statement.
        start: first byte of what is replaced.
        end: the byte after it.
        text: what stands there instead.
    """

    path: str
    line: int
    runs_at: int
    operator: str
    start: int
    end: int
    text: str

    def applied(self, source: bytes) -> bytes:
        return source[: self.start] + self.text.encode() + source[self.end :]

    def shown(self, source: bytes) -> tuple[str, str]:
        """The lines that it touches, before and after, each as one line."""
        first = source.rfind(b"\n", 0, self.start) + 1
        after_last = source.find(b"\n", self.end) % (len(source) + 1)
        changed = source[first : self.start] + self.text.encode() + source[self.end : after_last]
        before, after = (" ".join(t.decode().split()) for t in (source[first:after_last], changed))
        return before, after

    def is_program(self, source: bytes) -> bool:
        """Whether what it makes can be compiled, without a warning."""
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                compile(self.applied(source), self.path, "exec", dont_inherit=True)
            except (SyntaxError, ValueError):
                return False
        return True


class Source:
    """A program's text, found by the nodes of its tree."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.tree = ast.parse(text)
        self._starts = [0, *(match.end() for match in re.finditer(rb"\n", text))]

    def start(self, node: Any) -> int:
        return self._starts[node.lineno - 1] + int(node.col_offset)

    def end(self, node: Any) -> int:
        return self._starts[node.end_lineno - 1] + int(node.end_col_offset)

    def of(self, node: ast.AST) -> str:
        return self.text[self.start(node) : self.end(node)].decode()

    def replaced(self, node: ast.AST, text: str) -> Edit:
        return self.start(node), self.end(node), text

    def line(self, start: int) -> int:
        return bisect_right(self._starts, start)

    def lines_that_run(self) -> set[int]:
        """Lines of which a coverage tool can be told."""
        waiting, found = [compile(self.tree, "", "exec", dont_inherit=True)], set()
        while waiting:
            code = waiting.pop()
            found |= {line for _, _, line in code.co_lines() if line}
            waiting += [inner for inner in code.co_consts if isinstance(inner, CodeType)]
        return found


def mutants_of(path: str, text: bytes) -> list[Mutant]:
    """Every change that the operators know for one file.

    Some of them make no program (`is_program`).

    Raises:
        SyntaxError: it is no Python.
    """
    source = Source(text)
    that_run = source.lines_that_run()
    found = []
    for node, statement, function in _walk(source.tree, source.tree, None):
        for name, operator in OPERATORS.items():
            for start, end, new in operator(source, node, function):
                gap = re.match(rb"[\s,]*", text[start:end])
                line = source.line(start + (gap.end() if gap else 0))
                runs_at = line if line in that_run else statement.lineno
                found.append(Mutant(path, line, runs_at, name, start, end, new))
    return found


_Function = ast.FunctionDef | ast.AsyncFunctionDef | None


def _walk(
    node: ast.AST, statement: Any, function: _Function
) -> Iterator[tuple[ast.AST, Any, _Function]]:
    """Each node that may be changed, with the innermost statement and function around it."""
    if _is_left_alone(node):
        return
    if isinstance(node, ast.stmt):
        statement = node
    if not isinstance(node, ast.Module):
        yield node, statement, function
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        function = node
    for field, value in ast.iter_fields(node):
        if field in {"annotation", "returns"}:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _walk(child, statement, function)


def _is_left_alone(node: ast.AST) -> bool:
    match node:
        case ast.JoinedStr():  # Python 3.11 does not know where its parts are
            return True
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="log")))):
            return True
        case ast.Call(func=ast.Name(id="_" | "gettext_lazy" | "ngettext" | "dataclass")):
            return True
        case ast.Subscript(value=ast.Name(id="Literal")):
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
    return False


_COMPARISONS = {
    "==": "!=",
    "!=": "==",
    "<": ">=",
    ">=": "<",
    ">": "<=",
    "<=": ">",
    "is": "is not",
    "is not": "is",
    "in": "not in",
    "not in": "in",
}
_BOUNDARIES = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
_JUNCTIONS = {"and": "or", "or": "and"}
_SUMS = {"+": "-", "-": "+", "*": "//", "/": "*", "//": "*", "+=": "-=", "-=": "+="}
_TOKEN = re.compile(rb"is\s+not\b|not\s+in\b|[a-z]+|[^\s()\\\w#]+")

Operator = Callable[[Source, ast.AST, _Function], Iterator[Edit]]


def _token_changed(table: Mapping[str, str], *kinds: type[ast.AST]) -> Operator:
    """The operator that stands between two operands becomes the table's other one."""

    def operator(source: Source, node: ast.AST, function: _Function) -> Iterator[Edit]:
        if not isinstance(node, kinds):
            return
        for left, right in _pairs(node):
            begin = source.end(left)
            token = _TOKEN.search(source.text, begin, source.start(right))
            new = token and table.get(" ".join(token[0].decode().split()))
            if token and new:
                yield token.start(), token.end(), new

    return operator


def _pairs(node: ast.AST) -> list[tuple[ast.expr, ast.expr]]:
    match node:
        case ast.Compare():
            return list(pairwise([node.left, *node.comparators]))
        case ast.BoolOp():
            return list(pairwise(node.values))
        case (
            ast.BinOp(left=ast.JoinedStr() | ast.List())
            | ast.BinOp(right=ast.JoinedStr() | ast.List())
        ):
            return []  # texts and lists know no other operator
        case ast.BinOp():
            return [(node.left, node.right)]
        case ast.AugAssign():
            return [(node.target, node.value)]
    return []


def _condition_negated(source: Source, node: ast.AST, function: _Function) -> Iterator[Edit]:
    match node:
        case ast.If() | ast.While() | ast.IfExp():
            tests = [node.test]
        case ast.comprehension():
            tests = node.ifs
        case _:
            return
    for test in tests:
        match test:
            case ast.Compare(ops=[_]):  # that is "comparison changed"
                continue
            case ast.UnaryOp(op=ast.Not()):
                yield source.replaced(test, source.of(test.operand))
            case _:
                yield source.replaced(test, f"not ({source.of(test)})")


def _constant_changed(source: Source, node: ast.AST, function: _Function) -> Iterator[Edit]:
    match node:
        case ast.Constant(value=bool(value)):
            yield source.replaced(node, str(not value))
        case ast.Constant(value=int(value) | float(value)):
            yield source.replaced(node, str(value + 1))
        # A text with spaces is for people; one without is a key or a code.
        case ast.Constant(value=str(value)) if value and not re.search(r"\s", value):
            yield source.end(node) - 1, source.end(node) - 1, "X"


def _return_changed(source: Source, node: ast.AST, function: _Function) -> Iterator[Edit]:
    value = node.value if isinstance(node, ast.Return) else None
    if value is None or isinstance(value, ast.Constant):  # that is "constant changed"
        return
    match function:
        case (
            ast.FunctionDef(returns=ast.Name(id=kind))
            | ast.AsyncFunctionDef(returns=ast.Name(id=kind))
        ):
            new = {"bool": "not ({})", "int": "({}) + 1", "float": "({}) + 1", "str": "''"}
            yield source.replaced(value, new.get(kind, "None").format(source.of(value)))
        case _:
            yield source.replaced(value, "None")


def _statement_removed(source: Source, node: ast.AST, function: _Function) -> Iterator[Edit]:
    """Not where a name would be missing afterwards."""
    match node:
        case (
            ast.Expr(value=ast.Call() | ast.Await())
            | ast.Assign(targets=[ast.Attribute() | ast.Subscript()])
            | ast.AnnAssign(target=ast.Attribute() | ast.Subscript())
            | ast.AugAssign()
            | ast.Raise()
            | ast.Delete()
            | ast.Continue()
            | ast.Break()
            | ast.Return(value=None)
        ):
            yield source.replaced(node, "pass")


def _argument_dropped(source: Source, node: ast.AST, function: _Function) -> Iterator[Edit]:
    """A named one: without one that only has a place, nearly every call fails at once."""
    if not isinstance(node, ast.Call):
        return
    given = sorted([*node.args, *node.keywords], key=source.start)
    for before, each, after in zip([None, *given], given, [*given[1:], None], strict=False):
        if isinstance(each, ast.keyword) and each.arg:
            start = source.end(before) if before else source.start(each)
            is_first = before is None and after is not None
            yield start, source.start(after) if is_first else source.end(each), ""


def _arguments_swapped(source: Source, node: ast.AST, function: _Function) -> Iterator[Edit]:
    """Only names: with others, nearly every call fails at once."""
    match node:
        case ast.Call(func=ast.Name(id="min" | "max")):
            return
        case ast.Call():
            args = node.args
        case _:
            return
    for left, right in pairwise(args):
        if all(isinstance(arg, ast.Name | ast.Attribute) for arg in (left, right)):
            between = source.text[source.end(left) : source.start(right)].decode()
            swapped = source.of(right) + between + source.of(left)
            yield source.start(left), source.end(right), swapped


OPERATORS: Mapping[str, Operator] = {
    "comparison changed": _token_changed(_COMPARISONS, ast.Compare),
    "boundary moved": _token_changed(_BOUNDARIES, ast.Compare),
    "and/or swapped": _token_changed(_JUNCTIONS, ast.BoolOp),
    "arithmetic changed": _token_changed(_SUMS, ast.BinOp, ast.AugAssign),
    "condition negated": _condition_negated,
    "constant changed": _constant_changed,
    "return value changed": _return_changed,
    "statement removed": _statement_removed,
    "argument dropped": _argument_dropped,
    "arguments swapped": _arguments_swapped,
}
