"""Priority and own order: who may give which, in which state, and what the queue is told of it."""

from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client
from django.utils import timezone

from jobs.engine.admission import admissions_of, write
from jobs.engine.queue_rows import read_queue
from jobs.engine.store import preempt
from jobs.models import Workload
from jobs.rules.admission import Fit
from jobs.rules.queue.look import Decision
from jobs.rules.queue.state import Preemption
from tenants.models import AuditEntry, Team, Tenant
from tests.factories import make_job, submit_body
from tests.pools import set_catalog

pytestmark = pytest.mark.django_db


def give(client: Client, job: Workload, priority: str) -> tuple[int, str]:
    answer = client.post(
        f"/api/v1/jobs/{job.pk}/priority/", {"priority": priority}, "application/json"
    )
    [error, *_] = answer.json().get("errors", [{"code": ""}])
    return answer.status_code, error["code"]


def test_only_leads_give_or_take_high(alice: Tenant, client: Client) -> None:
    job = make_job(alice, state="queued")
    assert give(client, job, "high") == (403, "permission_denied")
    assert give(client, job, "urgent") == (400, "invalid_choice")
    submit = client.post("/api/v1/jobs/", submit_body(priority="high"), "application/json")
    assert submit.status_code == 400
    assert [error["code"] for error in submit.json()["errors"]] == ["not_allowed"]
    assert give(client, job, "low") == (200, "")

    team = Team.objects.create(name="speech")
    Tenant.objects.filter(pk=alice.pk).update(team=team)
    team.leads.add(alice.owner)
    assert give(client, job, "high") == (200, "")
    team.leads.clear()
    assert give(client, job, "normal") == (403, "permission_denied")
    told = AuditEntry.objects.filter(verb="prioritize").order_by("pk")
    assert [one.detail for one in told] == [
        {"before": "normal", "after": "low"},
        {"before": "low", "after": "high"},
    ]
    Workload.objects.filter(pk=job.pk).update(state="failed", spec={})
    assert give(client, job, "low") == (409, "wrong_state")


def test_what_runs_on_borrowed_room_stays_low(
    alice: Tenant, client: Client, settings: Any, tmp_path: Path
) -> None:
    job = make_job(alice, state="running", priority="low")
    set_catalog(settings, tmp_path, borrowing="cluster")
    assert give(client, job, "normal") == (409, "wrong_state")
    # Raised while a look went on that gave it room, or stopped it.
    queued = make_job(alice, state="queued", priority="low")
    for row in (job, queued):
        Workload.objects.filter(pk=row.pk).update(spec={**row.spec, "priority": "normal"})
    found = Decision(read_queue(timezone.now()).queued[0], Fit("now"))
    low = replace(found, queued=replace(found.queued, priority="low"))
    assert write(admissions_of([low]), timezone.now()) == []
    assert preempt(Preemption(str(job.pk), str(queued.pk)), timezone.now()) is None
    assert preempt(Preemption(str(job.pk), str(uuid4())), timezone.now()) is None
    assert write(admissions_of([found]), timezone.now()) != []


def test_the_queue_is_told_of_priority_and_own_order(alice: Tenant, client: Client) -> None:
    jobs = [make_job(alice, name=name, state="queued") for name in ("first", "second", "third")]
    for job, to in ((jobs[1], "front"), (jobs[2], "front"), (jobs[0], "back")):
        client.post(f"/api/v1/jobs/{job.pk}/order/", {"to": to}, "application/json")
    give(client, jobs[0], "low")
    queued = read_queue(timezone.now()).queued
    ranked = sorted(queued, key=lambda one: one.rank)
    assert [one.name for one in ranked] == ["third", "second", "first"]
    assert [one.priority for one in ranked] == ["normal", "normal", "low"]
    Workload.objects.filter(pk=jobs[0].pk).update(state="running")
    page = client.post(f"/trainings/{jobs[0].pk}/order/", {"to": "front"})
    assert page.status_code == 409
    assert "not in the queue" in page.content.decode()
