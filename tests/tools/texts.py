"""The texts that people read, as whole messages, out of the sources of one tree of files.

For `tests/repository/test_texts.py`. Whatever is filled in later, `%(name)s`, `%s`, `{name}` or the
expression of an f-string, reads `{}`, so that a message stays the same when a name changes.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from typing import TypeGuard

import jinja2
from jinja2 import nodes

ROOMS = ("portal", "jobs", "tenants", "templates")
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_TRANSLATED = re.compile(r"_|n?gettext(_lazy)?")
_FILLED_IN = re.compile(r"%\(\w+\)[a-z]|%[a-z](?![a-z])|\{[^{}]*\}")
_JINJA = jinja2.Environment(extensions=["jinja2.ext.i18n", "jinja2.ext.do"])


def message(text: str) -> str:
    """A text as it is compared: one line, and `{}` where something is filled in."""
    return " ".join(_FILLED_IN.sub("{}", text).split())


def messages_of(path: str, source: str) -> set[str]:
    """All messages of one file; none when it is neither Python nor a page."""
    if not path.startswith(ROOMS) or "/migrations/" in path:
        return set()
    if path.endswith(".py"):
        return {message(text) for text in _of_python(ast.parse(source))}
    if path.endswith(".html"):
        return {message(text) for text in _of_page(_JINJA.parse(source))}
    return set()


def paths_by_message(files: Mapping[str, str]) -> dict[str, list[str]]:
    """Message -> the files that have it, of `files`: path -> source."""
    found: dict[str, list[str]] = {}
    for path, source in files.items():
        for text in messages_of(path, source):
            found.setdefault(text, []).append(path)
    return found


def _of_page(page: nodes.Template) -> Iterator[str]:
    for call in page.find_all(nodes.Call):
        if isinstance(call.node, nodes.Name) and _TRANSLATED.fullmatch(call.node.name):
            yield from (
                argument.value
                for argument in call.args
                if isinstance(argument, nodes.Const) and isinstance(argument.value, str)
            )


def _of_python(module: ast.Module) -> Iterator[str]:
    """What is translated, and other strings of several words; no docstrings."""
    passed_over: set[ast.AST] = set()
    for node in ast.walk(module):  # from the outside in
        if isinstance(node, _DOCUMENTED) and isinstance(node.body[0], ast.Expr):
            passed_over.add(node.body[0].value)
        elif isinstance(node, ast.Call) and _is_translation(node.func):
            yield from (
                argument.value
                for argument in node.args
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
            )
        elif isinstance(node, ast.JoinedStr):
            passed_over.update(ast.walk(node))
            yield "".join(
                part.value if isinstance(part, ast.Constant) else "{}" for part in node.values
            )
        elif node not in passed_over and _is_several_words(node):
            yield node.value


def _is_several_words(node: ast.AST) -> TypeGuard[ast.Constant]:
    return (
        isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value.strip()
    )


def _is_translation(function: ast.expr) -> bool:
    return isinstance(function, ast.Name) and bool(_TRANSLATED.fullmatch(function.id))
