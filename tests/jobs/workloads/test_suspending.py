"""Suspending and resuming trainings: what each state answers, two at once, and what pages show of it."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from homeport_client.trainings import _lasted
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


def test_no_duration_has_time_in_which_it_was_suspended(alice: Tenant, client: Client) -> None:
    at = timezone.now()
    past = {name: at - timedelta(minutes=n) for name, n in (("a", 600), ("b", 540), ("c", 120))}
    job = make_job(alice, state="running", attempt=3, started_at=past["a"])
    make_job(alice, name="other", state="succeeded", started_at=past["a"], finished_at=past["b"])
    for number, began, ended, reason in (
        (1, past["a"], past["b"], "suspended"),
        (2, past["c"], at - timedelta(minutes=60), "signal"),  # it failed while it was suspended
        (3, at - timedelta(minutes=30), None, ""),
    ):
        times = {"admitted_at": began, "started_at": began, "ended_at": ended}
        cause = "first" if number == 1 else "resumed"
        job.attempts.create(number=number, cause=cause, reason_code=reason, **times)

    def told() -> tuple[str, set[int], set[str]]:
        page = read(client, f"/trainings/{job.pk}/").one("p", id="ran").text
        one = client.get(f"/api/v1/jobs/{job.pk}/").json()
        listed = client.get("/api/v1/jobs/?name=my").json()["results"]
        cells = [e.text for e in read(client, "/trainings/?q=my").all("td") if "h " in e.text]
        rows = (one, *listed)
        return page, {row["suspended_s"] for row in rows}, {_lasted(one), *cells[-1:]}

    assert told() == (
        "ran 2 h 30 min, without 7 h 30 min suspended",
        {27000},
        {"2h30m", "2 h 30 min"},
    )
    team = TeamWorkloads(job.tenant.team)
    assert [row.suspended_s for row in team.rows] == [27000]
    # What was suspended before it ran has lost nothing of its run.
    early = make_job(alice, name="early", state="running", started_at=past["c"])
    for number, began, ended in ((1, past["a"], past["b"]), (2, past["c"], None)):
        cause = ("first", "resumed")[number - 1]
        early.attempts.create(number=number, cause=cause, admitted_at=began, ended_at=ended)
    assert client.get(f"/api/v1/jobs/{early.pk}/").json()["suspended_s"] == 0
    # It is suspended again, and then stopped.
    ended = {"ended_at": at - timedelta(minutes=10), "reason_code": "suspended_by"}
    job.attempts.filter(number=3).update(**ended)
    Workload.objects.filter(pk=job.pk).update(state="stopped", finished_at=at)
    assert told() == (
        "ran 2 h 20 min, without 7 h 40 min suspended",
        {27600},
        {"2h20m", "2 h 20 min"},
    )


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
