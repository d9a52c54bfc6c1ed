"""Finds what a word on the command line means: an id, how an id begins, or a name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .answers import FINAL, Json, short_id
from .exits import NOT_FOUND, ClientError, usage_error
from .sanitize import one_line
from .terminal import Terminal

if TYPE_CHECKING:
    from .rest import Rest

FULL_ID = re.compile(r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}", re.IGNORECASE)
SHORT_ID = re.compile(r"[0-9a-f]{4,31}", re.IGNORECASE)


def find_job(rest: Rest, word: str, terminal: Terminal, *, one_of: str = "newest") -> Json:
    """The training that a word means: id, beginning of an id, or whole name.

    `one_of` says which of several of a name: "newest", "running" (the only one that has not ended),
    or "only" (there must be one). The terminal hears which was taken.

    Raises:
        ClientError: none, or several where one is needed.
    """
    if FULL_ID.fullmatch(word):
        return _by_id(rest, word)
    named = []
    if 0 < len(word) <= 80:
        rows, _count = rest.page("jobs/", {"name": word, "page_size": 200})
        named = [row for row in rows if row.get("name") == word]
    if named:
        return _choose(named, word, terminal, one_of)
    if SHORT_ID.fullmatch(word.replace("-", "")):
        rows, count = rest.page("jobs/", {"id": word, "page_size": 5})
        if count == 1:
            return rows[0]
        if rows:
            shown = ", ".join(str(row.get("id")) for row in rows)
            raise usage_error(f"Several ids begin with {word}: {shown}.", "Give more of it.")
    raise ClientError(
        f"There is no training {one_line(word)!r} that you may see.",
        "List them: homeport list (with -A those of your team).",
        NOT_FOUND,
    )


def _by_id(rest: Rest, word: str) -> Json:
    try:
        found = rest.get(f"jobs/{word}/")
    except ClientError as error:
        if error.code == NOT_FOUND:
            error.text = f"There is no training {word} that you may see."
            error.next_step = "List them: homeport list"
        raise
    return found if isinstance(found, dict) else {}


def _choose(rows: list[Json], word: str, terminal: Terminal, one_of: str) -> Json:
    """Of several with a name; REST lists the newest first."""
    if one_of == "running" and len(rows) > 1:
        unfinished = [row for row in rows if row.get("state") not in FINAL]
        if len(unfinished) == 1:
            one = short_id(unfinished[0])
            terminal.tell(f"Of the trainings called {word!r}, {one} has not ended.", "dim")
        rows = unfinished or rows[:1]
    elif one_of == "newest" and len(rows) > 1:
        terminal.tell(
            f"{len(rows)} trainings are called {word!r}; this is the newest, {short_id(rows[0])}.",
            "dim",
        )
        rows = rows[:1]
    return _only(rows, f"trainings are called {word!r}")


def _only(rows: list[Json], are_called: str) -> Json:
    """The one there is."""
    if len(rows) == 1:
        return rows[0]
    shown = ", ".join(f"{short_id(row)} ({row.get('state')})" for row in rows[:10])
    raise usage_error(f"{len(rows)} {are_called}: {shown}.", "Give the id.")


def find_service(rest: Rest, title: str, word: str) -> Json:
    """The notebook or TensorBoard that a word means. Raises ClientError: none, or several."""
    name = title.lower()
    rows = list(rest.every(f"{name}s/"))
    begins = word.lower() if len(word) >= 4 else None
    found = [row for row in rows if row.get("name") == word] or [
        row for row in rows if begins and str(row.get("id", "")).lower().startswith(begins)
    ]
    if not found:
        raise ClientError(
            f"There is no {title} {one_line(word)!r} that you may see.",
            f"List them: homeport {name} list",
            NOT_FOUND,
        )
    return _only(found, f"are called {word!r}")
