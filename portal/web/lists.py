"""What lists share: their tabs, the search for words, and what tells whether they have changed."""

import hashlib
from dataclasses import dataclass
from typing import Any

from django.db.models import Q


@dataclass(frozen=True)
class Tab:
    """One tab above a list: what it is called, how many rows it would show, whether it is open.

    `key` stands in the address; the empty one is the tab that is open at first.
    """

    key: str
    title: Any  # a lazy text
    count: int
    is_here: bool


def with_words(words: str, *columns: str) -> Q:
    """Of rows: those that have each of the words in one of the columns."""
    found = Q()
    for word in words.split():
        one = [(f"{column}__icontains", word) for column in columns]
        found &= Q(*one, _connector=Q.OR)
    return found


def revision_of(*shown: Any) -> str:
    """Text that is another one when anything of this changes; short enough for a header."""
    return "~" + hashlib.sha256(repr(shown).encode()).hexdigest()[:16]
