"""What counts as a hidden effect, and what does not."""

import pytest

from tests.tools import effects
from tests.tools.program import Program

CLASSES = """
import asyncio
import dataclasses
import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any, Protocol

from django.db import models

SEEN: dict[str, int] = {}
LIMITS = (1, 2)

class Notes:
    said: int = 0
    def __init__(self, words: list[str]) -> None:
        self.words = words
    def say(self, word: str) -> None:
        self.words.append(word)
    def count(self) -> int:
        return len(self.words)
    def copied(self) -> list[str]:
        return list(self.words)
    @property
    def counted(self) -> int:
        self.said += 1
        return self.said
    @property
    def last(self) -> list[str]:
        return self.words[-1:]

class Draft:
    limit = 3
    def __init__(self, row: "Row") -> None:
        self.row = row
        self.notes = Notes([])
        self.steps: list[Notes] = []
    def set(self, **columns: Any) -> None:
        self.row = replace(self.row, **columns)
    def note(self, word: str) -> None:
        self.set(word=word)
    def hook(self) -> None:
        pass
    def run(self) -> None:
        self.hook()
    def current(self) -> list[Notes]:
        return [one for one in self.steps if one.said]

class Special(Draft):
    def hook(self) -> None:
        self.note("x")

class Plain(Draft):
    pass

@dataclass(frozen=True)
class Row:
    state: str = ""
    words: tuple[str, ...] = ()

@dataclass
class Pair:
    number: int
    notes: Notes

class Table(models.Model):
    state = models.CharField()
    data = models.JSONField()

class Asked(Protocol):
    def note(self, word: str) -> None: ...

class Owner:
    def __init__(self, n: Notes | None = None) -> None:
        self.n = n or Notes([])

def tell(notes: Notes) -> None:
    notes.say("x")
"""

# What is written, and what is found of it: "a" or "b", and what is changed.
FOUND = {
    "a part is assigned": ("def f(row: Table): row.state = ''", "a row"),
    "a part of a part": ("def f(x): x.a.b[0].c += 1", "a x"),
    "an item, of anything": ("def f(x): x['a'] = 1", "a x"),
    "an item of anything's": ("def f(x: dict[str, Any]): x['a']['b'] = 1", "a x"),
    "an item is deleted": ("def f(x: dict[str, int]): del x['a']", "a x"),
    "a container's method": ("def f(x: list[int]): x.append(1)", "a x"),
    "no annotation": ("def f(x): x.items_.setdefault('a', []).append(1)", "a x"),
    "added in place": ("def f(x: list[int]): x += [1]", "a x"),
    "by a function of Python": ("def f(x: list[int]): heapq.heappush(x, 1)", "a x"),
    "a writer": ("def f(d: Draft): d.set(a=1)", "a d"),
    "a writer that calls one": ("def f(d: Draft): d.note('')", "a d"),
    "an inherited writer": ("def f(d: Plain): d.note('')", "a d"),
    "a writer of a subclass": ("def f(d: Draft): d.run()", "a d"),
    "through a Protocol": ("def f(d: Asked): d.note('')", "a d"),
    "or None": ("def f(d: 'Draft | None' = None): d and d.note('')", "a d"),
    "through an attribute": ("def f(d: Draft): d.notes.say('')", "a d"),
    "by a property that writes": ("def f(n: Notes): return n.counted + 1", "a n"),
    "through a function": ("def f(d: Draft): tell(d.notes)", "a d"),
    "through a keyword": ("def f(d: Draft): tell(notes=d.notes)", "a d"),
    "by setattr, vars": ("def f(x, y):\n setattr(x, 'a', 1)\n vars(y)['a'] = 1", "a x y"),
    "through its own name": ("def f(d: Draft): Draft.note(d, '')", "a d"),
    "an alias": ("def f(d: Draft):\n n = m = d.notes\n m.say('')", "a d"),
    "one of two": ("def f(d: Draft, n: Notes):\n m = n if d else d.notes\n m.say('')", "a d n"),
    "assigned in a branch": ("def f(x=None):\n if x is None:\n  x = []\n x.append(1)", "a x"),
    "unpacked": ("def f(d: Draft, n: int):\n k, (e, *_) = n, (d, n)\n e.note('')", "a d"),
    "walrus": ("def f(d: Draft):\n if n := d.notes: n.say('')", "a d"),
    "match": ("def f(d):\n match d:\n  case [x, *_]: x.append(1)", "a d"),
    "an alias of a later turn": (
        "def f(d: Draft):\n n = Notes([])\n for _ in '12':\n  n.say('')\n  n = d.notes",
        "a d",
    ),
    "in a loop": ("def f(ds: Iterable[Draft]):\n for d in ds: d.note('')", "a ds"),
    "in a loop over a copy": ("def f(ds: list[Draft]):\n for d in sorted(ds): d.note('')", "a ds"),
    "in a loop over pairs": (
        "def f(ds: dict[str, Draft]):\n for n, d in enumerate(ds.values()): d.note('')",
        "a ds",
    ),
    "items": ("def f(ds: dict[str, Draft]):\n for k, d in ds.items(): d.note('')", "a ds"),
    "in a comprehension": ("def f(ds: list[Draft]): return [d.note('') for d in ds]", "a ds"),
    "in a lambda": ("def f(d: Draft): return lambda: d.note('')", "a d"),
    "in a function inside": ("def f(d: Draft):\n def g(): d.note('')\n return g", "a d"),
    "in a thread": ("async def f(d: Draft): await asyncio.to_thread(tell, d.notes)", "a d"),
    "in another": ("async def f(d: Draft): await sync_to_async(tell)(d.notes)", "a d"),
    "an element of a replaced one": (
        "def f(d: Draft):\n e = replace(d)\n e.notes.words.append('')",
        "a d",
    ),
    "a row is saved": ("def f(row: Table): row.save()", "a row"),
    "a default": ("def f(x: list[int] = SEEN): x.append(1)", "a x"),
    "a given function's bound method": ("def f(d: Draft): d.steps.sort(key=d.set)", "a d"),
    "a parameter beside self": (
        "class C:\n def f(self, n: Notes): n.say('')",
        "a n",
    ),
    "is_ writes a global": ("def is_x(): SEEN['a'] = 1", "b global"),
    "has_ rebinds a global": ("def has_x():\n global N\n N = 1", "b global"),
    "may_ writes the database": ("def may_x(): Table.objects.filter().update(a=1)", "b global"),
    "a property writes self": (
        "class C:\n @property\n def is_x(self): self.n = 1; return True",
        "b self",
    ),
    "a method that writes by another": ("class C(Draft):\n def _may_x(self): self.run()", "b self"),
    "by super": ("class C(Draft):\n def is_x(self): super().note('')", "b self"),
    "by what it has or makes": ("class C(Owner):\n def is_x(self): self.n.say('')", "b self"),
    "a participle": ("class C(Draft):\n def _pods_ended(self): self.note('')", "b self"),
    "by a row of its own": ("def is_x():\n row = Table.objects.get()\n row.save()", "b global"),
    "both": ("def is_x(d: Draft): d.note('')", "a d, b d"),
}
NOT_FOUND = {
    "self": "class C:\n def f(self, n: int): self.n = n; self.m = []; self.m.append(n)",
    "what it made": "def f(row: Row):\n d = Draft(row)\n d.note('')\n d.notes.say('')\n return d",
    "a reader": "def f(d: Draft): return d.notes.count(), d.current()",
    "a list that is a copy": "def f(x: list[int]):\n y = list(x)\n y.append(1)\n y += [2]\n y[0] = 3",
    "the same name for a copy": "def f(x: list[int]):\n x = sorted(x)\n x.pop()",
    "a slice, a sum, a copy": "def f(x: list[int]):\n for y in (x[:], x + [1], x.copy()): y.append(1)",
    "a literal": "def f(x: dict[str, int]):\n y = {**x, 'a': 1}\n y['b'] = 2\n z = [*x]\n z.append(1)",
    "a comprehension": "def f(ds: list[Draft]):\n x = [d for d in ds]\n x.clear()",
    "a copy that a method gives": "def f(n: Notes): n.copied().append('')",
    "a copy that a property gives": "def f(n: Notes): n.last.append('')",
    "a lambda's own": "def f(x: list[int]): return lambda x: x.append(1)",
    "replace": "def f(row: Row):\n row = replace(row, state='')\n return dataclasses.replace(row)",
    "a number": "def f(n: int, at: datetime, x=0):\n n += 1\n x += 1",
    "a name bound anew": "def f(d: Draft):\n d = Draft(Row())\n d.note('')",
    "a method of others": "def f(client: asyncio.Lock, x: str): client.update(x); x.strip().add(1)",
    "a class that writes nothing by this name": "class C:\n def add(self, n): return n\n"
    "def f(c: C): c.add(1)",
    "keywords of its own": "def f(**more: Any): more.pop('a'); more['b'] = 1",
    "rows of a query": "def f(pk: int):\n row = Table.objects.get(pk=pk)\n row.state = ''",
    "a question that reads": "def is_x(d: Draft): return d.row.state in SEEN and LIMITS[0]",
    "a question with a list of its own": "def has_x(ds: list[Draft]):\n found = []\n"
    " found += [d.row for d in ds]\n found.sort()\n return found",
    "a cached property": "class C:\n @cached_property\n def is_x(self): return [1]",
    "a verb": "class C(Draft):\n def mark_ended(self): self.note('')",
    "an object of its own in its own list": "class C:\n def f(self, d: Draft):\n"
    "  self.ds = [d]\n  self.n = 1",
}


def found(source: str) -> str:
    """Findings below the classes: "a d" where a function changes its parameter d."""
    program = Program({"m": CLASSES + source})
    return ", ".join(
        " ".join([one.sort, *sorted(name.removeprefix("a ").split()[0] for name, _ in one.changes)])
        for one in effects.findings(program, {"m": "m.py"})
        if one.line > CLASSES.count("\n")
    )


@pytest.mark.parametrize("case", FOUND)
def test_found(case: str) -> None:
    source, expected = FOUND[case]
    assert found(source) == expected


@pytest.mark.parametrize("case", NOT_FOUND)
def test_not_found(case: str) -> None:
    assert not found(NOT_FOUND[case])


def test_exceptions(monkeypatch: pytest.MonkeyPatch) -> None:
    source = "def f(n: Notes): n.say('')\ndef g(d: Draft): d.note('')\ndef h(d: Draft): g(d)"
    assert found(source) == "a n, a d, a d"
    monkeypatch.setattr(effects, "EXCEPTIONS", {"m.Notes": "", "m.g": ""})
    assert found(source) == "a d"
