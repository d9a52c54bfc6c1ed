"""The queue: places within each tenant, trainings and services together, cut to what one may see."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils.timezone import now

from jobs.models import Workload
from tenants.models import Team, Tenant, User
from tests.factories import make_job, make_service, make_tenant, make_user
from tests.portal.markup import Markup, find_faults

pytestmark = pytest.mark.django_db


@pytest.fixture
def client() -> Client:
    return Client(headers={"host": "localhost"})


def read(client: Client, who: User, path: str = "/queue/") -> Markup:
    client.force_login(who)
    answer = client.get(path)
    assert answer.status_code == 200, answer.content[:500]
    page = Markup(answer.content.decode())
    assert find_faults(page) == []
    return page


def rest(client: Client, who: User, path: str = "/api/v1/queue/") -> Any:
    client.force_login(who)
    answer = client.get(path)
    assert answer.status_code == 200
    return answer.json()["results"]


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


def test_places_count_within_the_tenant(client: Client, alice: Tenant) -> None:
    bob = make_tenant("bob")
    make_job(bob, name="bobs", queued_at=now() - timedelta(hours=2))
    root = make_user("root", role="admin")
    found = [(p["position"], p["kind"], p["name"], p["owner"]) for p in rest(client, root)]
    assert found == [
        (1, "job", "bobs", "bob"),
        (1, "job", "first", "alice"),
        (2, "notebook", "between", "alice"),
        (3, "job", "last", "alice"),
    ]


def test_a_place_says_what_is_asked_for_and_why_it_waits(client: Client, alice: Tenant) -> None:
    first, between, last = rest(client, alice.owner)
    assert first["reason"] == {
        "code": "quota",
        "text": "Waiting for quota: needs 2 GPUs",
        "next_step": "Stop something.",
    }
    assert first["team"] == "vision"
    asked = [(p["cpu"], p["memory"], p["gpu"], p["pods"]) for p in (between, last)]
    assert asked == [("1", "2Gi", 1, 1), ("1500m", "3Gi", 6, 3)]
    page = read(client, alice.owner)
    assert "3 queued" in page.text
    for text in ("Waiting for quota: needs 2 GPUs", "Stop something.", "1 of 3", "3 of 3"):
        assert text in page.text
    for text in ("runs", "gives up", "deleted", "stopped book"):
        assert not page.all("a", href=f"/trainings/{text}/")
        assert text not in page.text


def test_others_are_not_in_it(client: Client, alice: Tenant) -> None:
    mallory = make_tenant("mallory")
    assert rest(client, mallory.owner) == []
    page = read(client, mallory.owner)
    assert "Nothing queued" in page.text
    assert "first" not in page.text.replace("first come", "").replace("First come, first", "")


def test_a_lead_sees_the_owners(client: Client, alice: Tenant) -> None:
    lee = make_user("lee")
    assert alice.team is not None
    alice.team.leads.add(lee)
    page = read(client, lee)
    assert "Owner" in page.text
    assert "vision" in page.text
    assert len(rest(client, lee)) == 3


def test_a_long_queue_is_paged_and_places_go_on_counting(client: Client, alice: Tenant) -> None:
    for number in range(60):
        make_job(
            alice, name=f"more {number}", queued_at=now() - timedelta(minutes=59 - number / 10)
        )
    page = read(client, alice.owner, "/queue/?page=2")
    assert "63 of 63" in page.text
    assert "51 of 63" in page.text
    second = rest(client, alice.owner, "/api/v1/queue/?page=2")
    assert [place["position"] for place in second] == list(range(51, 64))


def test_it_is_sent_again_only_when_something_changed(client: Client, alice: Tenant) -> None:
    page = read(client, alice.owner)
    have = page.one("div", id="queue").get("data-revision")
    headers = {"HX-Request": "true", "Homeport-Have": str(have)}
    assert client.get("/queue/", headers=headers).status_code == 204
    Workload.objects.filter(name="last").update(revision=7)
    assert client.get("/queue/", headers=headers).status_code == 200
