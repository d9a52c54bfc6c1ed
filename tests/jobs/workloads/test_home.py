"""The first page: what runs comes first and is counted whole, however much waits."""

from datetime import timedelta

import pytest
from django.utils.timezone import now

from jobs.rules.states import Desired
from jobs.workloads import home
from tests.browsing import HTMX, client_of, read
from tests.factories import make_job, make_service, make_tenant
from tests.portal.markup import Markup

pytestmark = pytest.mark.django_db


def section(page: Markup, title: str) -> str:
    """What is written in the card under a heading."""
    return " ".join(page.one("section", aria_labelledby=title).text.split())


def test_what_runs_is_shown_and_counted_behind_any_number_that_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(home, "MAX_UNFINISHED", 3)
    alice, at = make_tenant("alice"), now() - timedelta(days=1)
    for number in range(4):
        queued_at = at + timedelta(seconds=number)
        make_job(alice, name=f"waits {number}", queued_at=queued_at)
        make_job(alice, name=f"held {number}", queued_at=at, state="suspended", desired="suspend")
    make_job(alice, name="deleted", queued_at=at, desired=Desired.DELETE)
    make_job(alice, name="the one that runs", state="running", started_at=now())
    make_service(alice, name="my lab", state="running", queued_at=at, started_at=at)
    for number in range(4):
        make_service(alice, name=f"lab {number}")
    client = client_of(alice)
    page = read(client, "/")
    assert section(page, "running-title").startswith("Running 1 the one that runs")
    queued = section(page, "waiting-title")
    assert queued.startswith("Queued 4 waits 0")
    assert queued.count("waits ") == 2
    assert (
        page.one("a", id="all-queued").get("href") == f"/trainings/?tenant={alice.pk}&state=queued"
    )
    assert not page.all("a", id="all-running")
    served = section(page, "services-title")
    assert "1 running" in served
    assert "my lab" in served

    have = {**HTMX, "Homeport-Have": page.one("div", id="now").get("data-revision") or ""}
    assert client.get("/tenant/part/now/", headers=have).status_code == 204
    make_job(alice, name="waits, too")  # beyond what is shown
    part = client.get("/tenant/part/now/", headers=have)
    assert part.status_code == 200
    assert section(Markup(part.content.decode()), "waiting-title").startswith("Queued 5")


def test_what_runs_beyond_what_is_shown_is_a_step_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(home, "MAX_UNFINISHED", 3)
    alice = make_tenant("alice")
    for number in range(5):
        make_job(alice, name=f"runs {number}", state="running", started_at=now())
        make_job(alice, name=f"waits {number}")
    page = read(client_of(alice), "/")
    assert section(page, "running-title").startswith("Running 5 runs 0")
    assert (
        page.one("a", id="all-running").get("href")
        == f"/trainings/?tenant={alice.pk}&state=running"
    )
    assert section(page, "waiting-title").startswith("Queued 5 All queued")
