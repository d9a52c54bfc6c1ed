"""Deleting finished trainings by age: which ones match, what is told before, how many go, who may."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import Client
from django.utils import timezone

from jobs import pruning, retention
from jobs.models import Artifact, LogSegment, ReplicaArchive, Workload
from jobs.rules.states import Desired, WorkloadState
from portal.environment.parsers import parse_days
from portal.errors import ConfigurationError
from tenants.audit.describe import describe
from tenants.models import AuditEntry, Team, Tenant
from tests.browsing import HTMX, client_of, page_of, read
from tests.factories import make_job, make_service, make_tenant, make_user
from tests.tenants.people.people import rest

pytestmark = pytest.mark.django_db
PAGE = "/trainings/prune/"


def ended(
    tenant: Tenant, name: str, days: float = 40, state: str = "succeeded", **more: Any
) -> Any:
    """One with 100 bytes of log in two segments, a file of 7 and one that never came."""
    at = timezone.now() - timedelta(days=days)
    job = make_job(tenant, name=name, state=state, finished_at=at, cleaned_at=at, **more)
    row = ReplicaArchive.objects.create(workload=job, role="worker", index=0, attempt=1)
    for number, size in ((1, 60), (2, 40)):
        LogSegment.objects.create(
            archive=row, number=number, start_byte=0, size_bytes=size, sha256="0" * 64
        )
    for path, size, at_all in (("a", 7, at), ("b", 9000, None)):
        Artifact.objects.create(
            workload=job, path=path, size_bytes=size, mtime_ns=0, uploaded_at=at_all
        )
    return job


@pytest.fixture
def alice() -> Tenant:
    """Has trainings of every sort that could be taken for one to delete."""
    alice = make_tenant("alice", team=Team.objects.create(name="vision"))
    ended(alice, "old")
    ended(alice, "older", days=99)
    ended(alice, "broken", state="failed")
    ended(alice, "recent", days=29.9)
    ended(alice, "ours no more", desired=Desired.DELETE)
    for state in sorted({*WorkloadState} - {"succeeded", "failed", "stopped"}):
        make_job(alice, name=state, state=state, queued_at=timezone.now() - timedelta(days=99))
    long_ago = timezone.now() - timedelta(days=99)
    make_service(alice, state="stopped", finished_at=long_ago, observed_generation=1)
    return alice


def prune(client: Client, query: str = "", **body: Any) -> Any:
    address = f"/api/v1/jobs/prune/{query}"
    return client.post(address, {"older_than": "30d", **body}, content_type="application/json")


def deleted() -> set[str]:
    return set(
        Workload.objects.filter(desired=Desired.DELETE)
        .exclude(name="ours no more")
        .values_list("name", flat=True)
    )


def test_nothing_goes_unless_it_is_said(alice: Tenant) -> None:
    told = prune(rest(alice.owner)).json()
    assert told.pop("before")
    assert "log volume stay" in told.pop("note")
    assert told == {
        "dry_run": True,
        "states": [
            {"state": "failed", "count": 1, "logs_bytes": 100, "artifacts_bytes": 7},
            {"state": "succeeded", "count": 2, "logs_bytes": 200, "artifacts_bytes": 14},
        ],
        "count": 3,
        "logs_bytes": 300,
        "artifacts_bytes": 21,
        "remaining": 3,
    }
    assert deleted() == set()
    assert not AuditEntry.objects.filter(verb="prune").exists()


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, {"old", "older", "broken"}),
        ({"states": ["failed", "stopped"]}, {"broken"}),
        ({"older_than": "60d"}, {"older"}),
        ({"older_than": 0}, {"old", "older", "broken", "recent"}),
        ({"older_than": "1000d"}, set()),
    ],
)
def test_only_what_matches_goes(alice: Tenant, body: dict[str, Any], expected: set[str]) -> None:
    ended(make_tenant("bob"), "of bob")
    before = dict(Workload.objects.values_list("name", "revision"))
    answer = prune(rest(alice.owner), dry_run=False, **body).json()
    assert (answer["count"], answer["remaining"]) == (len(expected), 0)
    assert deleted() == expected
    after = dict(Workload.objects.values_list("name", "revision"))
    assert {name for name in after if after[name] != before[name]} == expected
    entries = AuditEntry.objects.filter(verb="prune")
    assert [(row.actor_name, astuple(describe(row)), row.detail["count"]) for row in entries] == (
        [("alice", ("cleaned up", "finished trainings", alice.namespace), len(expected))]
        if expected
        else []
    )


def test_what_comes_of_age_after_it_was_shown_stays(alice: Tenant) -> None:
    shown = prune(rest(alice.owner), older_than="39d").json()
    client = client_of(alice)
    seen = read(client, f"{PAGE}?older_than=30d&states=succeeded").one("input", name="before")
    ended(alice, "of age since", days=30)
    chosen = {"older_than": "30d", "states": "succeeded", "before": seen.get("value")}
    assert client.post(PAGE, {**chosen, "before": "soon"}).status_code == 400
    client.post(PAGE, chosen)
    assert deleted() == {"old", "older"}
    # The earlier of the two counts, so that nobody deletes more than `older_than` says.
    now = timezone.now().isoformat()
    for before, gone in ((shown["before"], {"broken"}), (now, {"broken", "of age since"})):
        prune(rest(alice.owner), before=before, dry_run=False)
        assert deleted() == {"old", "older"} | gone


def test_a_call_deletes_so_many_the_oldest_first(
    alice: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruning, "MOST", 2)
    answers = [prune(rest(alice.owner), older_than=0, dry_run=False).json() for _ in range(3)]
    assert [(one["count"], one["remaining"]) for one in answers] == [(2, 2), (2, 0), (0, 0)]
    assert "recent" in deleted()
    assert "older" in deleted()
    assert AuditEntry.objects.filter(verb="prune").count() == 2


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has one writer at a time")
@pytest.mark.django_db(transaction=True)
def test_two_at_once_do_not_wait_for_each_other(alice: Tenant) -> None:
    def other() -> int:
        try:
            return int(prune(rest(alice.owner), dry_run=False).json()["count"])
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool, transaction.atomic():
        Workload.objects.select_for_update().get(name="older")
        assert pool.submit(other).result(timeout=20) == 2
    assert deleted() == {"old", "broken"}


@pytest.mark.parametrize(
    ("who", "status", "expected"),
    [
        ("root", 200, {"old", "older", "broken"}),
        ("lead", 403, set()),
        ("mallory", 404, set()),
    ],
)
def test_of_another_namespace_an_admin_may(
    alice: Tenant, who: str, status: int, expected: set[str]
) -> None:
    user = make_user(who, role="admin" if who == "root" else "researcher")
    if who == "lead":
        alice.team.leads.add(user)
    assert prune(rest(user), dry_run=False).json()["count"] == 0  # without a namespace: the own
    answer = prune(rest(user), f"?tenant={alice.pk}", dry_run=False)
    assert (answer.status_code, deleted()) == (status, expected)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"older_than": None}, "older_than"),
        ({"older_than": "soon"}, "older_than"),
        ({"older_than": -1}, "older_than"),
        ({"older_than": "999999d"}, "older_than"),
        ({"states": []}, "states"),
        ({"states": ["running"]}, "states"),
        ({"dry_run": "perhaps"}, "dry_run"),
        ({"files": True}, "files"),
        ({"before": "soon"}, "before"),
    ],
)
def test_what_cannot_be_meant_deletes_nothing(
    alice: Tenant, body: dict[str, Any], field: str
) -> None:
    answer = prune(rest(alice.owner), **{"dry_run": False, **body})
    assert answer.status_code == 400
    assert [error["field"].partition(".")[0] for error in answer.json()["errors"]] == [field]
    assert deleted() == set()


# --- the page ---
def test_the_page_counts_asks_and_tells(alice: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    client = client_of(alice)
    assert read(client, "/trainings/").one("a", href=PAGE)
    page = read(client, PAGE)
    assert "3 trainings, 321 B" in page.text
    assert "log volume stay" in page.text
    assert "Delete 3 trainings permanently" in page.text
    part = page_of(client.get(f"{PAGE}?older_than=30d&states=failed", headers=HTMX))
    assert "1 training, 107 B" in part.text
    assert not part.all("html")
    assert "Nothing to delete" in read(client, f"{PAGE}?older_than=365d&states=failed").text
    assert "Select at least one state" in read(client, f"{PAGE}?older_than=30d").text
    for lacking in ({"older_than": "30d"}, {"states": "failed"}, {}):
        assert client.post(PAGE, lacking).status_code == 400, lacking
    assert deleted() == set()
    monkeypatch.setattr(pruning, "MOST", 2)
    chosen = {"older_than": "30d", "states": ["failed", "succeeded"]}
    there = client.post(PAGE, chosen)["Location"]
    assert there == f"{PAGE}?older_than=30d&states=failed&states=succeeded"
    page = read(client, there)
    assert "2 trainings are deleted, 214 B of logs and files; 1 more to go." in page.text
    assert "Delete 1 training permanently" in page.text
    assert client.post(PAGE, chosen)["Location"] == "/trainings/"
    assert "1 training is deleted, 107 B of logs and files." in read(client, "/trainings/").text


def test_an_admin_cleans_up_in_the_namespace_of_the_list(alice: Tenant) -> None:
    lead, root = make_user("lee"), make_user("root", role="admin")
    alice.team.leads.add(lead)
    of_alice = f"?tenant={alice.pk}"
    assert not read(client_of(lead), f"/trainings/{of_alice}").all("a", href=f"{PAGE}{of_alice}")
    assert client_of(lead).get(f"{PAGE}{of_alice}").status_code == 403
    assert client_of(make_user("mallory")).get(f"{PAGE}{of_alice}").status_code == 404
    client = client_of(root)
    assert read(client, f"/trainings/{of_alice}").one("a", href=f"{PAGE}{of_alice}")
    assert "3 trainings" in read(client, f"{PAGE}{of_alice}").text
    chosen = {"older_than": "30d", "states": "failed", "tenant": str(alice.pk)}
    assert client.post(PAGE, chosen)["Location"] == f"/trainings/{of_alice}"
    assert deleted() == {"broken"}


# --- every night ---
def test_retention_deletes_everybodys_when_it_is_set(
    alice: Tenant, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruning, "MOST", 2)
    ended(make_tenant("bob"), "of bob")

    def trainings(**how: Any) -> tuple[int, int]:
        (row,) = [one for one in retention.prune(**how) if one.what == "finished trainings"]
        return row.count, row.size_bytes

    assert trainings() == (0, 0)
    settings.RETENTION_DAYS = 30
    assert trainings(is_dry=True) == (4, 428)
    assert deleted() == set()
    assert trainings() == (4, 428)
    assert deleted() == {"old", "older", "broken", "of bob"}
    assert trainings() == (0, 0)
    entries = AuditEntry.objects.filter(verb="prune")
    assert {row.actor_name for row in entries} == {"homeport"}
    assert sum(row.detail["count"] for row in entries) == 4


@pytest.mark.parametrize("text", ["-1", "36501", "a month", ""])
def test_a_retention_that_would_delete_everything_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError):
        parse_days(text)
