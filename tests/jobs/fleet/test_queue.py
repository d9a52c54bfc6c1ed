"""The queue: places within each tenant, trainings and services together, cut to what one may see."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils.timezone import now

from jobs.kinds.answers import PLACE_FIELDS
from jobs.models import Workload
from jobs.places import QueuePlace
from jobs.rules.reasons import ROWS
from jobs.scheduling.models import Scheduling
from tenants.models import Team, Tenant
from tests.browsing import client_of, page_of
from tests.factories import make_job, make_service, make_tenant, make_user
from tests.jobs.fleet.rows import read, rest

pytestmark = pytest.mark.django_db


@pytest.fixture
def alice() -> Tenant:
    """Two trainings and between them a notebook wait; more is there that does not."""
    team = Team.objects.create(name="vision")
    tenant = make_tenant("alice", team=team)
    at = now() - timedelta(hours=1)
    words = {"reason_code": "quota", "reason_text": "Waiting for quota: needs 2 GPUs"}
    make_job(tenant, name="first", queued_at=at, reason_next_step="Stop something.", **words)
    make_service(tenant, name="between", queued_at=at + timedelta(minutes=1), gpu_count=1)
    replicas = {
        "worker": {"count": 3, "cpu_millicores": 500, "memory_bytes": 2**30, "gpu_count": 2}
    }
    make_job(tenant, name="last", queued_at=at + timedelta(minutes=2), replicas=replicas)
    make_job(tenant, name="runs", state="running", queued_at=at)
    make_job(tenant, name="gives up", desired="stop", queued_at=at)
    make_job(tenant, name="deleted", desired="delete", queued_at=at)
    make_service(tenant, name="stopped book", state="stopped", queued_at=at)
    return tenant


def test_places_count_within_the_tenant(alice: Tenant) -> None:
    bob = make_tenant("bob")
    make_job(bob, name="bobs", queued_at=now() - timedelta(hours=2))
    root = make_user("root", role="admin")
    found = [
        (p["position"], p["kind"], p["name"], p["owner"])
        for p in rest(root, "/api/v1/queue/")["results"]
    ]
    assert found == [
        (1, "job", "bobs", "bob"),
        (1, "job", "first", "alice"),
        (2, "notebook", "between", "alice"),
        (3, "job", "last", "alice"),
    ]


def test_a_place_says_what_is_asked_for_and_why_it_waits(alice: Tenant) -> None:
    first, between, last = rest(alice.owner, "/api/v1/queue/")["results"]
    assert first["reason"] == {
        "code": "quota",
        "text": "Waiting for quota: needs 2 GPUs",
        "next_step": "Stop something.",
    }
    assert first["team"] == "vision"
    asked = [(p["cpu"], p["memory"], p["gpu"], p["pods"]) for p in (between, last)]
    assert asked == [("1", "2Gi", 1, 1), ("1500m", "3Gi", 6, 3)]
    page = read(alice.owner, "/queue/")
    assert "3 queued" in page.text
    for text in ("Waiting for quota: needs 2 GPUs", "Stop something.", "1 of 3", "3 of 3"):
        assert text in page.text
    for text in ("runs", "gives up", "deleted", "stopped book"):
        assert not page.all("a", href=f"/trainings/{text}/")
        assert text not in page.text


def test_others_are_not_in_it(alice: Tenant) -> None:
    mallory = make_tenant("mallory")
    assert rest(mallory.owner, "/api/v1/queue/")["results"] == []
    page = read(mallory.owner, "/queue/")
    assert "Nothing queued" in page.text
    assert "first" not in page.one("section", aria_label="Queue").text


def test_the_page_says_the_rules_that_are_on_and_each_priority(alice: Tenant) -> None:
    def order() -> str:
        return read(alice.owner, "/queue/").one("p", class_="soft queue-order").text

    assert order().startswith("What was submitted first, in the whole cluster, is tried first.")
    assert "waited for 6 hours may go before all" in order()
    Scheduling.objects.create(fair_share=True, aging_s=48 * 3600)
    assert order().startswith("Fair share is on: the team that holds least for its weight")
    assert "waited for 48 hours may go before all" in order()
    for word in ("submitted first", "oldest"):
        assert word not in order()
    Workload.objects.filter(name="first").update(spec={"priority": "low"})
    Workload.objects.filter(name="last").update(spec={"priority": "high"})
    told = {"first": "low", "between": "normal", "last": "high"}
    places = rest(alice.owner, "/api/v1/queue/")["results"]
    assert {place["name"]: place["priority"] for place in places} == told
    page = read(alice.owner, "/queue/")
    assert [cell.text for cell in page.all("td", data_label="Priority")] == [*told.values()]


def test_what_to_do_next_fits_who_reads_it(alice: Tenant) -> None:
    step = ROWS["quota"][1]
    row = Workload.objects.get(name="first")
    Workload.objects.filter(pk=row.pk).update(reason_next_step=step)
    lee, root = make_user("lee"), make_user("root", role="admin")
    assert alice.team is not None
    alice.team.leads.add(lee)
    own = "Starts when enough of its namespace's work has ended; stop some, or give the namespace more quota."
    for who, words in ((alice.owner, step), (lee, own), (root, own)):
        place = rest(who, "/api/v1/queue/")["results"][0]
        assert place["reason"]["next_step"] == words
        assert rest(who, f"/api/v1/jobs/{row.pk}/")["reason"]["next_step"] == words
        for path in ("/queue/", f"/trainings/{row.pk}/"):
            assert words in read(who, path).text, path
    alice.team.leads.add(alice.owner)
    assert rest(alice.owner, "/api/v1/queue/")["results"][0]["reason"]["next_step"] == own


def test_a_lead_sees_the_owners(alice: Tenant) -> None:
    lee = make_user("lee")
    assert alice.team is not None
    alice.team.leads.add(lee)
    page = read(lee, "/queue/")
    assert "Owner" in page.text
    assert "vision" in page.text
    assert len(rest(lee, "/api/v1/queue/")["results"]) == 3


def test_a_long_queue_is_paged_and_places_go_on_counting(alice: Tenant) -> None:
    for number in range(60):
        make_job(
            alice, name=f"more {number}", queued_at=now() - timedelta(minutes=59 - number / 10)
        )
    page = read(alice.owner, "/queue/?page=2")
    assert "63 of 63" in page.text
    assert "51 of 63" in page.text
    second = rest(alice.owner, "/api/v1/queue/?page=2")["results"]
    assert [place["position"] for place in second] == list(range(51, 64))


def keep(name: str, position_all: int, wait_min: int | None, basis: str, cause=None) -> Workload:
    row = Workload.objects.get(name=name)
    at = None if wait_min is None else now() + timedelta(minutes=wait_min, seconds=10)
    rules = [
        "Order: what was submitted first, in the whole cluster, is tried first.",
        "Quota: its namespace has enough left.",
    ]
    QueuePlace.objects.create(
        workload=row, position=1, position_all=position_all, starts_at=at, basis=basis,
        cause=cause and cause.pk, rules=rules,
    )  # fmt: skip
    return row


def test_it_stands_in_the_order_in_which_it_is_asked(alice: Tenant) -> None:
    """What came after the last look at all of it stands behind, and is in no estimate yet."""
    keep("last", 3, None, "nothing")
    keep("between", 8, 0, "now")
    found = [
        (
            p["name"],
            p["position"],
            p["position_all"],
            p["start_estimate"] and p["start_estimate"]["at"],
        )
        for p in rest(alice.owner, "/api/v1/queue/")["results"]
    ]
    assert [one[:3] for one in found] == [("last", 1, 3), ("between", 2, 8), ("first", 3, None)]
    assert [bool(one[3]) for one in found] == [False, True, False]


def test_what_was_expected_long_ago_is_expected_no_more(alice: Tenant) -> None:
    """Nobody has looked at the queue since: the cluster is away, or there is no reconciler."""
    runs = Workload.objects.get(name="runs")
    row = keep("first", 1, -5, "deadline", runs)

    def shown_estimate() -> tuple[str, Any, str]:
        note = read(alice.owner, f"/trainings/{row.pk}/").one("div", id="queue-place").text
        [place] = rest(alice.owner, "/api/v1/queue/")["results"][:1]
        one = rest(alice.owner, f"/api/v1/jobs/{row.pk}/")
        assert one["start_estimate"] == place["start_estimate"]
        return note, place["start_estimate"]["at"], place["start_estimate"]["basis"]

    note, at, _ = shown_estimate()
    assert "Starts any moment now, when runs ends (deadline)." in note
    assert at is not None
    QueuePlace.objects.update(starts_at=now() - timedelta(minutes=16))
    note, at, basis = shown_estimate()
    too_old = "the last look at the queue is too long ago"
    assert f"When it starts cannot be estimated: {too_old}." in note
    assert (at, basis) == (None, too_old)


def test_a_page_says_the_place_what_is_lacking_and_when_because_of_what(alice: Tenant) -> None:
    bob = make_tenant("bob")
    book = make_service(bob, name="nlp", state="running")
    first = keep("first", 4, 90, "deadline", Workload.objects.get(name="runs"))
    last = keep("last", 5, None, "unlimited", book)
    root = make_user("root", role="admin")

    def told(user, row: Workload) -> str:
        """The lines, and what *Why?* opens."""
        note = read(user, f"/trainings/{row.pk}/").one("div", id="queue-place").text
        return " ".join(note.replace(".", ". ").split())

    assert told(alice.owner, first) == (
        "Position 1 in its namespace, 4 in the whole queue. Waiting for quota: needs 2 GPUs "
        "Starts in about 1 h 30 min, when runs ends (deadline). "
        "Why? Order: what was submitted first, in the whole cluster, is tried first. Quota: its namespace has enough left. "
        "Stop something."
    )
    begins = "When it starts cannot be estimated: "
    assert f"{begins}another person's notebook has no deadline." in told(alice.owner, last)
    assert f"{begins}notebook nlp has no deadline." in told(root, last)
    book.delete()
    assert f"{begins}what runs there has no deadline." in told(root, last)
    in_2h = now() + timedelta(hours=2, seconds=10)
    QueuePlace.objects.filter(workload=last).update(basis="usual", cause=first.pk, starts_at=in_2h)
    ahead = "when first, which is queued ahead of it and has yet to start, ends, if it takes as long as usual."
    assert f"May start in about 2 h, {ahead}" in told(alice.owner, last)
    place = rest(alice.owner, "/api/v1/queue/")["results"][0]
    assert place["start_estimate"]["basis"] == "when runs ends (deadline)"
    assert len(place["rules"]) == 2
    client, path = client_of(alice.owner), f"/api/v1/jobs/{first.pk}/"
    one = client.get(path)
    assert {name: one.json()[name] for name in PLACE_FIELDS} == {n: place[n] for n in PLACE_FIELDS}
    known = {"If-None-Match": one.headers["ETag"]}
    assert client.get(path, headers=known).status_code == 304
    header, queue = f"/trainings/{first.pk}/part/header/", "/queue/"
    shown = page_of(client.get(queue)).one("div", id="queue")
    part = page_of(client.get(header)).one("section", id="job-header")
    for each in (shown, part):
        assert "queue" in each.attributes["data-live"].split(), "it is told when places have moved"
    QueuePlace.objects.filter(pk=first.pk).update(position_all=3)
    for path_of, each in ((header, part), (queue, shown)):
        seen = {"HX-Request": "true", "Homeport-Have": each.attributes["data-revision"]}
        assert client.get(path_of, headers=seen).status_code == 200, "the row is the same"
    assert client.get(path, headers=known).json()["position_all"] == 3, "the row is the same"
    Workload.objects.filter(pk=first.pk).update(state="running")
    assert not rest(alice.owner, path)["rules"], "what a row says of before"
    assert not read(alice.owner, f"/trainings/{first.pk}/").all("div", id="queue-place")
    service = Workload.objects.get(name="between")
    keep("between", 6, 0, "now")
    note = read(alice.owner, f"/notebooks/{service.pk}/").one("div", id="queue-place")
    assert "Starts any moment now, with the next look at the queue." in note.text
    path = f"/api/v1/notebooks/{service.pk}/"
    with CaptureQueriesContext(connection) as waiting:
        assert rest(alice.owner, path)["position_all"] == 6
    Workload.objects.filter(pk=service.pk).update(state="running")
    with CaptureQueriesContext(connection) as running:
        assert rest(alice.owner, path)["position_all"] is None
    assert len(waiting) == len(running) + 1
