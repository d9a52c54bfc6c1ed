"""Finds what a word on the command line means: an id, how an id begins, or a name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from .exits import NOT_FOUND, ClientError, usage_error
from .sanitize import one_line
from .terminal import Terminal

if TYPE_CHECKING:
    from .rest import Rest

FULL_ID = re.compile(r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}", re.IGNORECASE)
SHORT_ID = re.compile(r"[0-9a-f]{4,31}", re.IGNORECASE)
SHORT_LENGTH = 8
FINAL = frozenset({"succeeded", "failed", "stopped"})


def short_id(row: Any) -> str:
    """The beginning of an id, enough to name it by."""
    return str(row.get("id", ""))[:SHORT_LENGTH]


def find_job(
    rest: Rest, word: str, terminal: Terminal, *, one_of: str = "newest"
) -> dict[str, Any]:
    """The training that a word means.

    Args:
        rest: where to look.
        word: id, beginning of an id, or whole name.
        terminal: hears which of several was taken.
        one_of: which of several of a name is meant: "newest", "running" (the only one that has
            not ended), or "only" (there must be one).

    Raises:
        ClientError: none, or several where one is needed.
    """
    if FULL_ID.fullmatch(word):
        return _by_id(rest, word)
    named = [row for row in _named(rest, word) if row.get("name") == word]
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


def _by_id(rest: Rest, word: str) -> dict[str, Any]:
    try:
        found = rest.get(f"jobs/{word}/")
    except ClientError as error:
        if error.code != NOT_FOUND:
            raise
        raise ClientError(
            f"There is no training {word} that you may see.", "List them: homeport list", NOT_FOUND
        ) from error
    return found if isinstance(found, dict) else {}


def _named(rest: Rest, word: str) -> list[dict[str, Any]]:
    if not word or len(word) > 80:
        return []
    rows, _count = rest.page("jobs/", {"name": word, "page_size": 200})
    return rows


def _choose(
    rows: list[dict[str, Any]], word: str, terminal: Terminal, one_of: str
) -> dict[str, Any]:
    """REST lists the newest first."""
    if len(rows) == 1:
        return rows[0]
    if one_of == "running":
        unfinished = [row for row in rows if row.get("state") not in FINAL]
        if not unfinished:
            return rows[0]
        rows = unfinished
    if one_of == "newest" or len(rows) == 1:
        terminal.tell(
            f"{len(rows)} trainings are called {word!r}; this is the newest, {short_id(rows[0])}."
            if one_of == "newest"
            else f"Of the trainings called {word!r}, {short_id(rows[0])} has not ended.",
            "dim",
        )
        return rows[0]
    shown = ", ".join(f"{short_id(row)} ({row.get('state')})" for row in rows[:10])
    raise usage_error(f"{len(rows)} trainings are called {word!r}: {shown}.", "Give the id.")


def find_service(rest: Rest, kind: str, word: str) -> dict[str, Any]:
    """The notebook or TensorBoard that a word means; `kind` is the folder in REST.

    Raises:
        ClientError: none, or several.
    """
    rows = list(rest.every(f"{kind}/"))
    lower = word.lower()
    by_name = [row for row in rows if row.get("name") == word]
    by_id = [
        row for row in rows if len(word) >= 4 and str(row.get("id", "")).lower().startswith(lower)
    ]
    found = by_name or by_id
    title = {"notebooks": "notebook", "tensorboards": "TensorBoard"}[kind]
    if not found:
        raise ClientError(
            f"There is no {title} {one_line(word)!r} that you may see.",
            f"List them: homeport {title.lower()} list",
            NOT_FOUND,
        )
    if len(found) > 1:
        shown = ", ".join(f"{short_id(row)} ({row.get('state')})" for row in found[:10])
        raise usage_error(f"{len(found)} are called {word!r}: {shown}.", "Give the id.")
    return found[0]
