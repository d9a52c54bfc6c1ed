"""A longer deadline: who may give it, of what, and that nobody's promise is moved by it."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import Client
from django.utils import timezone

from jobs.models import ReconcilerLease, Replica, Workload
from jobs.places import NodeReservation
from jobs.scheduling.models import NodeHold
from tenants.models import AuditEntry, Tenant
from tests.factories import make_job, make_tenant, make_user
from tests.jobs.fleet.rows import make_node

pytestmark = pytest.mark.django_db

HOUR_S = 3600


@pytest.fixture
def root() -> Client:
    client = Client(HTTP_HOST="localhost")
    client.force_login(make_user("root", role="admin"))
    return client


@pytest.fixture
def job(alice: Tenant) -> Workload:
    ends_by = timezone.now() + timedelta(seconds=HOUR_S)
    made = make_job(alice, state="running", deadline_s=HOUR_S)
    Workload.objects.filter(pk=made.pk).update(ends_by=ends_by)
    Replica.objects.create(workload=made, role="worker", index=0, node="a")
    return Workload.objects.get(pk=made.pk)


def give(client: Client, job: Workload, deadline_s: Any) -> tuple[int, str]:
    body = {"deadline_s": deadline_s}
    answer = client.post(f"/api/v1/jobs/{job.pk}/deadline/", body, "application/json")
    errors = answer.json().get("errors", [{"code": ""}])
    return answer.status_code, errors[0]["code"]


def test_a_lead_gives_more_time_once(job: Workload, client: Client, root: Client) -> None:
    assert give(client, job, 2 * HOUR_S) == (403, "permission_denied")
    for wrong in (HOUR_S - 1, 0, "soon", 10**9):
        assert give(root, job, wrong) == (400, "out_of_range"), wrong
    for _ in range(2):
        assert give(root, job, "2h") == (200, "")
    now = Workload.objects.get(pk=job.pk)
    assert now.spec["run_policy"]["deadline_s"] == 2 * HOUR_S
    assert now.ends_by == job.ends_by + timedelta(seconds=HOUR_S)
    assert AuditEntry.objects.get(verb="extend").detail == {"before": HOUR_S, "after": 2 * HOUR_S}
    Workload.objects.filter(pk=job.pk).update(state="queued")
    assert give(root, job, "3h") == (409, "wrong_state")
    endless = make_job(job.tenant, state="running")
    assert give(root, endless, "3h") == (409, "wrong_state")


@pytest.mark.parametrize(
    ("node", "starts_in_s", "deadline_s", "status"),
    [
        ("b", HOUR_S, 2 * HOUR_S, "kin"),  # its part of the quota is promised
        ("b", HOUR_S, 2 * HOUR_S, "unplaced"),
        ("a", HOUR_S, 2 * HOUR_S, "left"),  # nobody waits for it any more
        ("a", HOUR_S, HOUR_S + 1, 409),
        ("a", 2 * HOUR_S, 2 * HOUR_S, 200),  # it ends just in time
        ("a", 2 * HOUR_S, 2 * HOUR_S + 60, 409),
        ("b", HOUR_S, 9 * HOUR_S, 200),  # other nodes
        ("a", HOUR_S / 2, 9 * HOUR_S, 200),  # it fits beside
        ("a", None, 9 * HOUR_S, 200),  # nothing is promised yet
    ],
)
def test_a_promise_is_not_moved(
    job: Workload, root: Client, node: str, starts_in_s: Any, deadline_s: int, status: int | str
) -> None:
    whose = job.tenant if status == "kin" else make_tenant("bob")
    waits = make_job(whose, state="stopped" if status == "left" else "queued")
    if status == "unplaced":
        Replica.objects.update(node="")
    status = {"kin": 409, "unplaced": 409, "left": 200}.get(str(status), status)
    shift = None if starts_in_s is None else timedelta(seconds=starts_in_s - HOUR_S)
    at = None if shift is None else job.ends_by + shift
    NodeReservation.objects.create(workload=waits, room=[[node, [1, 1, 1, 1, 0]]], starts_at=at)
    code = "promised" if status == 409 else ""
    assert give(root, job, deadline_s) == (status, code)


def test_a_hold_is_not_outlasted(job: Workload, root: Client) -> None:
    NodeHold.objects.create(node="a", from_at=job.ends_by + timedelta(minutes=10), reason="disk")
    assert give(root, job, HOUR_S + 900) == (409, "held")
    Replica.objects.update(node="")
    assert give(root, job, HOUR_S + 900) == (409, "held"), "it may still come there"
    Replica.objects.update(node="a")
    assert give(root, job, HOUR_S + 600) == (200, ""), "it ends just in time"


@pytest.mark.django_db(transaction=True)
@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has one writer at a time")
@pytest.mark.parametrize("is_hold", [False, True], ids=["extension", "hold"])
def test_it_waits_for_what_is_being_promised(job: Workload, root: Client, is_hold: bool) -> None:
    ReconcilerLease.objects.get_or_create(pk=1)
    make_node("a")
    waits = make_job(make_tenant("bob"), state="queued")

    def ask() -> tuple[int, str]:
        try:
            if not is_hold:
                return give(root, job, 2 * HOUR_S)
            answer = root.post("/api/v1/holds/", {"node": "a"}, "application/json")
            return answer.status_code, answer.json()["errors"][0]["code"]
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as threads:
        with transaction.atomic():  # as a commit of the reconciler
            ReconcilerLease.objects.update(renewed_at=timezone.now())
            room = [["a", [1, 1, 1, 1, 0]]]
            NodeReservation.objects.create(workload=waits, room=room, starts_at=job.ends_by)
            asked = threads.submit(ask)
            with pytest.raises(TimeoutError):
                asked.result(timeout=1)
        assert asked.result(timeout=10) == (409, "promised")
