"""The team page: who sees it, what is on it, stopping with a reason, the file."""

import csv
import io
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.utils import timezone

from jobs.models import Replica, Workload
from jobs.rules import reasons
from jobs.rules.states import WorkloadState
from tenants.models import AuditEntry, Team, Tenant, User
from tests.browsing import client_of, page_of
from tests.factories import make_job, make_service, make_tenant, make_user
from tests.jobs.usage.rows import make_interval
from tests.portal.markup import Markup

pytestmark = pytest.mark.django_db

GIB = 2**30
TWO_GPUS = {
    "worker": {"count": 2, "cpu_millicores": 1000, "memory_bytes": GIB, "gpu_count": 1},
}


@pytest.fixture
def team() -> Team:
    """`vision`: Ada and Lin, led by Lee (who has a namespace as well)."""
    made = Team.objects.create(name="vision")
    for name in ("ada", "lin", "lee"):
        make_tenant(name, team=made)
    made.leads.add(User.objects.get(username="lee"))
    return made


def tenant_of(name: str) -> Tenant:
    return Tenant.objects.select_related("owner").get(owner__username=name)


def rows_of(page: Markup, table: str) -> list[str]:
    """The words of each row in the body of the table of this class."""
    return [
        " ".join(element.text.split())
        for element in page.all("tr")
        if any(table in (a.get("class") or "") for a in element.ancestors)
        and any(a.tag == "tbody" for a in element.ancestors)
    ]


# --- who ---


@pytest.mark.parametrize("wanted", ["other", "nobody", "no uuid"])
def test_other_teams_are_not_there(team: Team, wanted: str):
    other = Team.objects.create(name="nlp")
    given = {"other": str(other.pk), "nobody": str(uuid4())}.get(wanted, wanted)
    assert client_of("lee").get(f"/team/?team={given}").status_code == 404
    assert client_of("lee").get(f"/team/gpu-hours.csv?team={given}").status_code == 404


def test_a_lead_of_several_teams_chooses(team: Team):
    nlp = Team.objects.create(name="nlp")
    nlp.leads.add(User.objects.get(username="lee"))
    make_tenant("eve", team=nlp)
    first = page_of(client_of("lee").get("/team/"))
    assert first.one("h1").text == "Team nlp"
    second = page_of(client_of("lee").get(f"/team/?team={team.pk}"))
    assert second.one("h1").text == "Team vision"
    assert len(rows_of(second, "team-people")) == 3
    assert "eve" not in second.text


def test_an_admin_without_teams_is_told_what_a_team_is(db: None):
    make_user("root", role="admin")
    assert "No team yet" in page_of(client_of("root").get("/team/")).text


# --- what they hold ---
def test_each_person_has_used_queued_and_hard_of_every_kind(team: Team):
    ada = tenant_of("ada")
    ada.observed_used = {"cpu": 3500, "memory": 4 * GIB, "gpu": 1, "storage": 20 * GIB}
    ada.save()
    make_job(ada, replicas=TWO_GPUS)
    page = page_of(client_of("lee").get("/team/"))
    row = next(row for row in rows_of(page, "team-people") if row.startswith("ada"))
    assert "GPU1 of 2 2 queued" in row.replace(" GPU", "GPU").replace("GPU 1", "GPU1")
    assert "3.5 of 8" in row
    assert "2 queued" in row
    assert "4 GiB of 16 GiB" in row
    assert "20 GiB promised" in row
    assert "of 20 GiB" not in row, "a promise is no use"
    assert "torage usage" not in page.text


def test_who_is_over_the_quota_is_told_that_nothing_new_starts(team: Team):
    ada = tenant_of("ada")
    ada.observed_used = {"gpu": 2}
    ada.quota_gpu_count = 1
    ada.save()
    page = page_of(client_of("lee").get("/team/"))
    assert "over by 1, nothing new starts" in page.text
    # It is the fullest, so it comes first.
    assert rows_of(page, "team-people")[0].startswith("ada")


def test_people_are_sorted_as_wished(team: Team):
    for name, used in (("ada", {"cpu": 8000}), ("lin", {"memory": 15 * GIB, "cpu": 1000})):
        tenant = tenant_of(name)
        tenant.observed_used = used
        tenant.save()

    def order(sort: str) -> list[str]:
        page = page_of(client_of("lee").get(f"/team/?sort={sort}"))
        return [row.split()[0] for row in rows_of(page, "team-people")]

    assert order("pressure") == ["ada", "lin", "lee"]
    assert order("memory") == ["lin", "ada", "lee"]
    assert order("name") == ["ada", "lee", "lin"]
    assert order("nonsense") == ["ada", "lin", "lee"]


def test_the_budget_says_what_is_left_to_give(team: Team):
    assert "has no budget" in page_of(client_of("lee").get("/team/")).text
    team.budget_gpu_count = 8
    team.budget_cpu_millicores = 20_000
    team.save()
    page = page_of(client_of("lee").get("/team/")).text
    assert "6 of 8 allocated" in page
    assert "2 available" in page
    assert "24 of 20 allocated" in page
    assert "4 over budget" in page


# --- what runs ---
def test_what_runs_says_whose_where_and_on_which_gpus(
    team: Team, django_assert_max_num_queries: Any
):
    job = make_job(
        tenant_of("ada"),
        name="resnet",
        replicas=TWO_GPUS,
        state=WorkloadState.RUNNING,
        started_at=timezone.now() - timedelta(hours=2),
    )
    for index, (node, gpus) in enumerate([("gpu-03", "1"), ("gpu-03", "0")]):
        Replica.objects.create(
            workload=job, role="worker", index=index, node=node, gpus=gpus, state="running"
        )
    Replica.objects.create(workload=job, role="ps", index=0, node="old", state="succeeded")
    make_service(
        tenant_of("lin"), name="explore", state="running", node="gpu-04", gpus="2", gpu_count=1
    )
    client = client_of("lee")
    with django_assert_max_num_queries(19):
        page = client.get("/team/")
    rows = rows_of(page_of(page), "team-work")
    ada = next(row for row in rows if "resnet" in row)
    assert "Running ada" in ada
    assert "gpu-03 GPU 0, 1" in ada
    assert "old" not in ada
    assert "2 h" in ada
    lin = next(row for row in rows if "explore" in row)
    assert "Notebook" in lin
    assert "gpu-04 GPU 2" in lin


def test_what_waits_says_why_and_runs_come_first(team: Team):
    make_job(
        tenant_of("lin"),
        name="waits",
        reason_code="quota",
        reason_text="needs 2 GPU, 1 is free of 2",
    )
    make_job(tenant_of("ada"), name="runs", state=WorkloadState.RUNNING)
    make_job(tenant_of("ada"), name="over", state=WorkloadState.SUCCEEDED)
    client = client_of("lee")
    rows = rows_of(page_of(client.get("/team/")), "team-work")
    assert ["runs" in row for row in rows] == [True, False]
    assert "needs 2 GPU, 1 is free of 2" in rows[1]
    assert "waits" in rows_of(page_of(client.get("/team/?show=waiting")), "team-work")[0]
    assert len(rows_of(page_of(client.get("/team/?show=running")), "team-work")) == 1


def test_nothing_of_other_teams_is_on_the_page(team: Team):
    eve = make_tenant("eve", team=Team.objects.create(name="nlp"))
    make_job(eve, name="secret thing", state=WorkloadState.RUNNING)
    make_service(eve, name="secret book")
    assert "secret" not in page_of(client_of("lee").get("/team/")).text


def test_long_lists_have_pages(team: Team):
    for i in range(52):
        make_job(tenant_of("ada"), name=f"job {i:02}", state=WorkloadState.RUNNING)
    client = client_of("lee")
    assert len(rows_of(page_of(client.get("/team/")), "team-work")) == 50
    assert len(rows_of(page_of(client.get("/team/?page=2")), "team-work")) == 2
    for i in range(52):
        make_tenant(f"person{i}", team=team)
    assert len(rows_of(page_of(client.get("/team/")), "team-people")) == 50
    assert len(rows_of(page_of(client.get("/team/?people=2")), "team-people")) == 5


# --- stopping ---
@pytest.mark.parametrize("make", [make_job, make_service])
def test_a_lead_stops_something_with_a_reason_that_its_owner_sees(team: Team, make: Any):
    thing = make(tenant_of("ada"), state="running")
    client = client_of("lee")
    page = page_of(client.get(f"/team/stop/{thing.pk}/"))
    assert "shown to ada with your name" in page.text
    answer = client.post(f"/team/stop/{thing.pk}/", {"reason": "the demo needs the GPU"})
    assert answer["Location"] == f"/team/?team={team.pk}"
    thing = type(thing).objects.get(pk=thing.pk)
    assert (thing.desired, thing.stop_reason) == ("stop", "the demo needs the GPU")
    assert thing.stopped_by == "lee"
    entry = AuditEntry.objects.get(verb="stop")
    assert (entry.actor_name, entry.detail["why"]) == ("lee", "the demo needs the GPU")
    path = "/trainings/" if thing.kind == "job" else "/notebooks/"
    told = page_of(client_of("ada").get(f"{path}{thing.pk}/")).text
    assert "lee stopped this" in told
    assert "the demo needs the GPU" in told


def test_without_a_reason_nothing_of_somebody_else_is_stopped(team: Team):
    job = make_job(tenant_of("ada"), state=WorkloadState.RUNNING)
    page = page_of(client_of("lee").post(f"/team/stop/{job.pk}/", {"reason": "   "}))
    assert "Give a reason: ada sees it." in page.text
    assert Workload.objects.get(pk=job.pk).desired == "run"


def test_the_own_work_needs_no_reason(team: Team):
    job = make_job(tenant_of("lee"), state=WorkloadState.RUNNING)
    answer = client_of("lee").post(f"/team/stop/{job.pk}/", {}, headers={"HX-Request": "true"})
    assert answer["HX-Refresh"] == "true"
    assert Workload.objects.get(pk=job.pk).desired == "stop"
    assert Workload.objects.get(pk=job.pk).stopped_by == ""


@pytest.mark.parametrize(
    ("by", "why", "text"),
    [
        ("", "", "Stopped on request."),
        ("", "it diverged", "Stopped: it diverged"),
        ("Lee", "it diverged", "Lee stopped this: it diverged"),
        ("Lee", "", "Lee stopped this: no reason was given."),
        ("Lee\n{who}", "a{b}\nc", "Lee {who} stopped this: a{b} c"),
    ],
)
def test_the_words_of_a_stop(by: str, why: str, text: str):
    assert reasons.stopped(by=by, why=why).text == text


# --- GPU-hours ---
def hours(tenant: Tenant, ago_h: float, **changes: Any) -> None:
    began_at = timezone.now() - timedelta(hours=ago_h)
    make_interval(tenant, began_at, **{"gpu_count": 2, **changes})


def test_the_chart_has_its_numbers_as_a_table(team: Team):
    assert "Nothing has run in the last 8 weeks" in page_of(client_of("lee").get("/team/")).text
    hours(tenant_of("ada"), 0.5)
    hours(tenant_of("lin"), 0.25)
    page = page_of(client_of("lee").get("/team/"))
    chart = page.one("div", class_="hours-chart")
    assert chart.get("role") == "img"
    assert "1.5 in total" in (chart.get("aria-label") or "")
    ada, lin = rows_of(page, "hours-table")
    assert ada.startswith("ada 1 ")
    assert lin.startswith("lin 0.5 ")


def test_the_file_has_a_line_for_each_person_and_week_and_no_formulas(team: Team):
    ada = tenant_of("ada")
    User.objects.filter(pk=ada.owner_id).update(first_name="=cmd|'/c calc'!A1")
    hours(ada, 0.5)
    hours(ada, 24 * 15, ended_at=timezone.now() - timedelta(hours=24 * 15 - 1))
    answer = client_of("lee").get(f"/team/gpu-hours.csv?team={team.pk}")
    assert answer["Content-Type"].startswith("text/csv")
    assert f'filename="gpu-hours-{team.name}-20' in answer["Content-Disposition"]
    rows = list(csv.DictReader(io.StringIO(answer.content.decode("utf-8-sig"), newline="")))
    assert sum(float(row["gpu_hours"]) for row in rows) == pytest.approx(3, abs=0.01)
    assert {row["user"] for row in rows} == {"ada"}
    assert {row["name"] for row in rows} == {"'=cmd|'/c calc'!A1"}
    assert rows[0]["week"] > rows[-1]["week"]
