"""The queue: places within each tenant, trainings and services together, cut to what one may see."""

from datetime import timedelta

import pytest
from django.utils.timezone import now

from tenants.models import Team, Tenant
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
    assert "first" not in page.text.replace("starts first", "")


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
