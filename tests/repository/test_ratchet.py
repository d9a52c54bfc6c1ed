"""What is still to be mended never grows: the counts of today are those of `ratchet.toml` or lower."""

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TypeGuard

import pytest

from tests.repository.test_documents import ROOT, SOURCES, tracked
from tests.tools import effects
from tests.tools.program import last_word

FIGURES = tomllib.loads(Path(__file__).with_name("ratchet.toml").read_text())


@cache
def sources() -> dict[Path, str]:
    """Our modules without migrations, by their paths below the root."""
    found = {path.relative_to(ROOT): path for path in tracked() if path.suffix == ".py"}
    return {
        name: path.read_text()
        for name, path in found.items()
        if name.parts[0] in SOURCES and "migrations" not in name.parts
    }


def classes(node: ast.AST, *, is_inside: bool = False) -> Iterator[ast.ClassDef]:
    """All classes but those that Django names, and choices of a model's column."""
    for child in ast.iter_child_nodes(node):
        is_class = isinstance(child, ast.ClassDef)
        if is_class:
            is_column = is_inside and any("Choices" in last_word(base) for base in child.bases)
            if child.name not in {"Command", "DatabaseWrapper", "Meta"} and not is_column:
                yield child
        yield from classes(child, is_inside=is_inside or is_class)


@cache
def all_classes() -> list[ast.ClassDef]:
    return [one for text in sources().values() for one in classes(ast.parse(text))]


def class_names_defined_twice() -> list[str]:
    names = Counter(one.name for one in all_classes())
    return [name for name, count in names.items() if count > 1]


def exception_classes() -> list[str]:
    bases = [(one.name, {last_word(base) for base in one.bases}) for one in all_classes()]
    ours: set[str] = set()
    before = None
    while ours != before:
        before = set(ours)
        for name, above in bases:
            if any(base.endswith(("Error", "Exception")) or base in ours for base in above):
                ours.add(name)
    return [name for name, _ in bases if name in ours]


KIND = r"(?:job|notebook|tensorboard)"
OF_A_KIND = frozenset({"TRAINING", "NOTEBOOK", "TENSORBOARD"})
# Pods and laptops know kinds by what older versions told them; onebox and Kubernetes have a Job, too.
MAY_KNOW_KINDS = ("jobs/kinds/", "jobs/pod/", "jobs/client/")
IN_PAGES = re.compile(
    rf"""[!=]==?\s*['"]{KIND}['"]|['"]{KIND}['"]\s*:|\bis_(?:notebook|tensorboard)\b"""
)


def branches_on_kinds() -> list[str]:
    """Places outside of `jobs/kinds` that name a kind in order to do something else for it."""
    found = []
    for path, text in sources().items():
        if not str(path).startswith(MAY_KNOW_KINDS):
            places = [node for node in ast.walk(ast.parse(text)) if _names_a_kind(node)]
            found += [f"{path}:{node.lineno}" for node in places]
    for path in tracked():
        name = path.relative_to(ROOT)
        if (
            name.parts[0] in {"templates", "static"}
            and path.name != "icons.html"
            and path.suffix in {".html", ".js", ".j2"}
        ):
            for number, line in enumerate(path.read_text().splitlines(), 1):
                found += [f"{name}:{number}" for _ in IN_PAGES.finditer(line)]
    return found


def _names_a_kind(node: ast.AST) -> TypeGuard[ast.expr]:
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        return any(isinstance(side, ast.Constant) and _is_kind(side.value) for side in sides)
    return isinstance(node, ast.Name) and node.id in OF_A_KIND


def _is_kind(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(KIND, value) is not None


COUNTS = {
    one.__name__: one
    for one in (
        class_names_defined_twice,
        exception_classes,
        branches_on_kinds,
    )
}


def compare(what: str, found: list[str], figure: int) -> None:
    listed = "\n  ".join(["", *sorted(found)])
    assert len(found) <= figure, f"{what}: {len(found)}, where {figure} are known:{listed}"
    assert len(found) == figure, f"{what}: only {len(found)} are left; write that into ratchet.toml"


@pytest.mark.parametrize("what", COUNTS)
def test_counts(what: str) -> None:
    compare(what, COUNTS[what](), FIGURES["counts"][what])


def test_hidden_effects() -> None:
    for folder, found in effects.found_in(ROOT, FIGURES["effects"]).items():
        assert (ROOT / folder).exists(), f"{folder} is gone: remove its row from ratchet.toml"
        for sort, figure in zip("ab", FIGURES["effects"][folder], strict=True):
            told = [str(one) for one in found if one.sort == sort]
            compare(f"hidden effects of {folder}, {sort}", told, figure)
