"""Which functions read what a line makes that runs while its module is imported.

Names are all that is looked at, wherever they stand: that finds too many rather than too few.
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

TOPS = ("jobs", "tenants", "portal")  # where the product lies
Span = tuple[int, int]  # the first and the last line


@dataclass(frozen=True)
class Part:
    """A function, or a statement outside of functions.

    Attributes:
        binds: the names of its module that it makes: its own, or that of the class around it.
        fields: what it adds to that class.
        uses: the names in it; a method uses its class.
        says: its texts and the names of its arguments, which may mean fields.
    """

    span: Span
    is_function: bool
    binds: frozenset[str]
    fields: frozenset[str]
    uses: frozenset[str]
    says: frozenset[str]


def parts_of(source: bytes) -> list[Part]:
    return list(_parts(ast.parse(source).body, ""))


def _parts(body: list[ast.stmt], around: str) -> Iterator[Part]:
    """Those of a module or of a class; `around` names the outermost class."""

    def outside(span: Span, names: set[str], *nodes: ast.AST) -> Part:
        binds, fields = ({around}, names) if around else (names, set())
        return Part(span, False, frozenset(binds), frozenset(fields), *_names(*nodes))

    for node in body:
        end = node.end_lineno or node.lineno
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                begin = node.body[0].lineno
                yield outside(
                    (node.lineno, begin - 1), {node.name}, *node.decorator_list, node.args
                )
                uses, says = _names(*node.body)
                yield Part((begin, end), True, frozenset(), frozenset(), uses | {around}, says)
            case ast.ClassDef():
                nodes = (*node.decorator_list, *node.bases, *node.keywords)
                yield outside((node.lineno, node.body[0].lineno - 1), {node.name}, *nodes)
                yield from _parts(node.body, around or node.name)
            case ast.If() | ast.Try() | ast.With():
                for field in ("body", "orelse", "finalbody"):
                    yield from _parts(getattr(node, field, []), around)
            case _:
                yield outside((node.lineno, end), _bound(node), node)


def _bound(node: ast.AST) -> set[str]:
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.alias(asname=str(name)):
            return {name}
        case ast.alias(name=name):
            return {name}
        case ast.comprehension():
            return set()
    return {name for child in ast.iter_child_nodes(node) for name in _bound(child)}


def _names(*nodes: ast.AST) -> tuple[frozenset[str], frozenset[str]]:
    """What is used and what is said, but for annotations, which need no more than a class."""
    uses, says, waiting = set(), set(), list(nodes)
    while waiting:
        node = waiting.pop()
        match node:
            case ast.ImportFrom(module=str(module)) if module.partition(".")[0] not in TOPS:
                continue
            case (
                ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name) | ast.alias(name=name)
            ):
                uses.add(name)
            case ast.keyword(arg=str(name)) | ast.Constant(value=str(name)):
                says.add(name)
        for field, value in ast.iter_fields(node):
            if field not in {"annotation", "returns"}:
                children = value if isinstance(value, list) else [value]
                waiting += [child for child in children if isinstance(child, ast.AST)]
    return frozenset(uses), frozenset(says)


def readers(parts: Mapping[str, list[Part]], path: str, line: int) -> dict[str, list[Span]]:
    """The functions that read what this line makes, or what is made of that, by path.

    A line of a function that is called meanwhile makes what this function does.
    """
    every = [part for of_file in parts.values() for part in of_file]
    made = [
        before if part.is_function else part
        for before, part in pairwise([*parts[path][:1], *parts[path]])
        if part.span[0] <= line <= part.span[1]
    ]
    fields = {name for part in made for name in part.fields}
    names = {name for part in made for name in part.binds}
    while more := {
        name
        for part in every
        if not part.is_function and part.uses & names
        for name in part.binds - names
    }:
        names |= more
    found = {
        file: [
            part.span
            for part in of_file
            if part.is_function and (part.uses & (names | fields) or part.says & fields)
        ]
        for file, of_file in parts.items()
    }
    return {file: spans for file, spans in found.items() if spans}
