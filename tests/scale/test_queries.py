"""No page asks the database more often because there are more rows."""

from datetime import timedelta

import pytest

from tests.scale.addresses import addresses
from tests.scale.rows import Cast, fill
from tests.scale.sizes import SMALL
from tests.scale.visits import Visit, Visitor

pytestmark = pytest.mark.django_db


def visits(cast: Cast, role: str) -> dict[str, Visit]:
    visitor = Visitor({"researcher": cast.ada, "lead": cast.lead, "admin": cast.root}[role])
    return {address.title: visitor.visit(address) for address in addresses(cast)}


# The segments of a log are read when it is its turn, one query for each replica: those of all may be hundreds of thousands.
READ_IN_TURN = {"job-log-download", "api-job-logs"}


def count(title: str, visit: Visit) -> int:
    """The queries that must not become more."""
    if title not in READ_IN_TURN:
        return visit.queries
    return sum('FROM "jobs_logsegment" WHERE' not in text for text in visit.statements)


def more(title: str, few: Visit, many: Visit) -> str:
    """What is asked more often, for whoever has to repair it."""
    rest = list(few.statements)
    extra = []
    for statement in many.statements:
        begin = statement[:60]
        known = next((s for s in rest if s[:60] == begin), None)
        if known is None:
            extra.append(statement[:160])
        else:
            rest.remove(known)
    return f"{title}: {few.queries} queries became {many.queries}; more of {extra[:2]}"


@pytest.mark.parametrize("role", ["researcher", "lead", "admin"])
def test_queries_do_not_grow_with_the_rows(role: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Once a minute a visit is written down, which is nothing that grows.
    monkeypatch.setattr("tenants.people.sessions.PRECISION", timedelta(days=1))
    few = visits(fill(SMALL), role)
    many = visits(fill(SMALL.times(9)), role)  # on top of the first: ten times
    assert [title for title, visit in many.items() if visit.status >= 500] == []
    opened = [title for title, visit in many.items() if visit.status == 200]
    assert len(opened) > 30
    grown = [
        more(title, few[title], visit)
        for title, visit in many.items()
        if count(title, visit) > count(title, few[title])
    ]
    assert not grown, "\n".join(grown)
