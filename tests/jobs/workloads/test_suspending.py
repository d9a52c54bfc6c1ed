"""Suspending and resuming trainings: what each state answers, two at once, and what pages show of it."""

import pytest
from django.test import Client

from jobs.kinds.training.kind import TRAINING
from jobs.models import Workload
from jobs.team.workloads import TeamWorkloads
from jobs.workloads import actions
from jobs.workloads.usage import usage_lines
from tenants.models import AuditEntry, Tenant
from tests.browsing import HTMX, read
from tests.factories import make_job

pytestmark = pytest.mark.django_db

# State -> what suspending it answers, and resuming it then.
ANSWERS = {
    "queued": (200, 200),
    **dict.fromkeys(("starting", "running", "restarting"), (200, 409)),
    "suspended": (200, 200),
    **dict.fromkeys(("stopping", "succeeded", "failed", "stopped"), (409, 409)),
}


@pytest.mark.parametrize("state", TRAINING.states)
def test_another_state_is_told(alice: Tenant, client: Client, state: str) -> None:
    job = make_job(alice, state=state, desired="suspend" if state == "suspended" else "run")
    for verb, status in zip(("suspend", "resume"), ANSWERS[state], strict=True):
        answer = client.post(f"/api/v1/jobs/{job.pk}/{verb}/")
        assert answer.status_code == status
        if status == 409:
            [error] = answer.json()["errors"]
            assert error["code"] == "wrong_state"
            assert f"It is {state}" in error["text"]


def test_of_two_at_once_one_counts(alice: Tenant) -> None:
    job = make_job(alice, state="running")
    for verb, act, state in (
        ("suspend", actions.suspend, "suspended"),
        ("resume", actions.resume, "suspended"),
    ):
        for one in [Workload.objects.get(pk=job.pk), Workload.objects.get(pk=job.pk)]:
            act(by=alice.owner, workload=one)
        assert AuditEntry.objects.filter(verb=verb, kind="job").count() == 1
        Workload.objects.filter(pk=job.pk).update(state=state)
    again = Workload.objects.get(pk=job.pk)
    assert (again.desired, again.stop_requested_by) == ("run", None)
    assert again.queued_at > job.queued_at


def test_pages_have_a_button_and_a_tab_and_count_nothing_of_it(
    alice: Tenant, client: Client, lead: Client
) -> None:
    job = make_job(alice, state="running", attempt=1)
    page = read(client, f"/trainings/{job.pk}/")
    assert page.one("button", id="suspend").get("type") == "submit"
    assert not page.all("button", id="resume")
    header = client.post(f"/trainings/{job.pk}/suspend/", headers=HTMX)
    assert header.content.decode().lstrip().startswith('<section id="job-header"')
    Workload.objects.filter(pk=job.pk).update(state="suspended")
    page = read(lead, f"/trainings/{job.pk}/")
    assert page.one("button", id="resume")
    assert "It is suspended and holds nothing" in read(lead, f"/trainings/{job.pk}/stop/").text
    assert job.name in read(client, "/trainings/?state=suspended").text
    assert alice.team is not None
    assert not TeamWorkloads(alice.team).rows
    assert all(not line.queued for line in usage_lines(alice))
    client.post(f"/trainings/{job.pk}/resume/")
    assert Workload.objects.get().desired == "run"
