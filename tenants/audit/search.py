"""Finds rows of the audit trail, for the page, REST and the CSV file alike."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from django.db.models import QuerySet

from portal.web.lists import with_words
from tenants.models import AuditEntry


@dataclass(frozen=True)
class Search:
    """What is looked for; empty means any.

    Attributes:
        words: each must be in the person, the object, its id, the verb or the address.
        since, until: days in UTC, both included.
        unreadable: names of days that are none; they are not looked for.
    """

    words: str = ""
    person: str = ""
    verb: str = ""
    kind: str = ""
    result: str = ""
    since: date | None = None
    until: date | None = None
    unreadable: tuple[str, ...] = ()

    @property
    def is_narrowed(self) -> bool:
        wanted = (self.words, self.person, self.verb, self.kind, self.result)
        return any(wanted) or self.since is not None or self.until is not None


def read(query: Mapping[str, str]) -> Search:
    """The search of a query string: `q person verb kind result since until`."""
    unreadable = []

    def day(name: str) -> date | None:
        text = query.get(name, "").strip()
        if not text:
            return None
        try:
            return date.fromisoformat(text)
        except ValueError:
            unreadable.append(name)
            return None

    def text(name: str) -> str:
        return query.get(name, "").replace("\0", "").strip()[:150]

    since, until = day("since"), day("until")
    result = text("result")
    return Search(
        words=text("q"),
        person=text("person"),
        verb=text("verb")[:40],
        kind=text("kind")[:40],
        result=result if result in AuditEntry.Result.values else "",
        since=since,
        until=until,
        unreadable=tuple(unreadable),
    )


def find(search: Search) -> QuerySet[AuditEntry]:
    """The rows, the latest first."""
    columns = ("actor_name", "object_name", "object_id", "verb", "source_address")
    wanted = with_words(search.words, *columns)
    found: QuerySet[AuditEntry] = AuditEntry.objects.filter(wanted).order_by("-at", "-pk")
    exact: dict[str, Any] = {
        "actor_name": search.person,
        "verb": search.verb,
        "kind": search.kind,
        "result": search.result,
    }
    found = found.filter(**{name: value for name, value in exact.items() if value})
    if search.since is not None:
        found = found.filter(at__gte=datetime.combine(search.since, time.min, UTC))
    if search.until is not None:
        # The last representable day has no next one.
        end = datetime.combine(search.until, time.min, UTC)
        found = found.filter(at__lt=end + timedelta(days=1)) if search.until < date.max else found
    return found
