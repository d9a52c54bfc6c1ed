"""What the panel beside the form of a new training says at once: room, pulls, commands, manifests."""

from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client

from jobs.models import Node, Replica, Workload
from tenants.models import Tenant
from tests.browsing import HTMX, page_of
from tests.factories import make_job, submit_body
from tests.jobs.workloads.typed import fields
from tests.portal.markup import Markup

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "Fits now"),
        ({"replicas.worker.gpu": "2"}, "Will be queued"),
        ({"replicas.worker.gpu": "3"}, "Does not fit"),
        ({"replicas.worker.cpu": "many"}, "Check the form"),
        ({"name": "", "command": ""}, "Fits now"),
    ],
)
def test_the_panel_tells_at_once_whether_it_fits(
    alice: Tenant, client: Client, changes: dict[str, str], words: str
) -> None:
    alice.observed_used = {**alice.observed_used, "gpu": 1}
    alice.save()
    answer = client.post("/trainings/new/fit/", fields(**changes), headers=HTMX)
    assert words in Markup(answer.content.decode()).text
    if words == "Fits now":
        # The scheduler would place nothing on nodes that are kept for others.
        Node.objects.update(taints=[{"key": "team", "value": "vision", "effect": "NoSchedule"}])
        answer = client.post("/trainings/new/fit/", fields(**changes), headers=HTMX)
        assert "Will be queued" in Markup(answer.content.decode()).text
    assert not Workload.objects.exists()


@pytest.mark.parametrize(
    ("kind", "asked", "sentence", "title", "bar"),
    [
        ("cpu", "3", "needs 3 CPU, 1.75 of 8 free", "Nodes", "CPU6.25 of 8 used1.75 free"),
        ("cpu", "9", "the largest node has 8", "Nodes", "CPU6.25 of 8 used"),
        ("gpu", "2", "needs 2 GPUs, 1 of 2 free", "Your quota", "GPU1 of 2 used1 free"),
        ("cpu", "1", "It starts right away.", "Your quota", "CPU0 of"),
        ("cpu", "many", "Check the form", "Your quota", "CPU0 of"),
    ],
)
def test_beside_what_lacks_stand_the_bars_of_that(
    alice: Tenant, client: Client, kind: str, asked: str, sentence: str, title: str, bar: str
) -> None:
    alice.observed_used = {**alice.observed_used, "gpu": 1}
    alice.observed_hard = {**alice.observed_hard, "cpu": 16_000}
    alice.save()
    Node.objects.update(
        allocatable={"cpu": 8000, "memory": 2**38, "gpu": 8, "pods": 100},
        requested={"cpu": 6250, "memory": 2**30, "gpu": 0, "pods": 5},
    )
    typed = fields(**{f"replicas.worker.{kind}": asked})
    page = Markup(client.post("/trainings/new/fit/", typed, headers=HTMX).content.decode())
    assert sentence in page.text
    assert page.one("h3", class_="fit-bars").text == title
    bars = ["".join(one.text.split("\n")) for one in page.all("div", class_="quota-line")]
    assert any("".join(one.split("  ")).startswith(bar) for one in bars), bars


def test_the_panel_tells_of_an_image_that_cannot_be_pulled(alice: Tenant, client: Client) -> None:
    tried = make_job(alice, state="starting", image="x:1", admitted_at=datetime.now(UTC))
    text = 'Failed to pull image "x:1": not found'
    event = {"at": tried.admitted_at, "reason": "Failed", "message": text, "count": 3}
    tried.events.create(uid="e", **event)
    for image, is_told in (("x:1", True), ("x:2", False)):
        typed = fields(topology="tf-ps") | {"replicas.ps.image": image}
        panel = page_of(client.post("/trainings/new/fit/", typed)).text
        assert ("x:1 could not be pulled three times" in panel) is is_told, panel


@pytest.mark.parametrize(
    ("count", "minutes_ago", "pulled_after", "is_told"),
    [
        (0, 5, None, ""),
        (1, 5, None, "once"),
        (3, 5, None, "3 times"),
        (3, 30, None, "3 times"),
        (3, 30, 20, ""),  # a pod with it began to run since
        (3, 30, 40, "3 times"),  # before
        (3, 120, None, "3 times"),  # though the queue's guard has forgotten it
        (3, 120, 150, "3 times"),
        (3, 120, 100, ""),
        (1, 6 * 24 * 60, None, "once"),
        (3, 8 * 24 * 60, None, ""),  # it says nothing of today's registry
    ],
)
def test_the_panel_is_not_green_while_the_last_pulls_failed(
    alice: Tenant,
    client: Client,
    count: int,
    minutes_ago: int,
    pulled_after: int | None,
    is_told: str,
) -> None:
    """Also when one workload may try it at once."""

    def ago(minutes: int) -> datetime:
        return datetime.now(UTC) - timedelta(minutes=minutes)

    tried = make_job(alice, state="failed", image="x:1", finished_at=ago(0), admitted_at=ago(240))
    if count:
        text = 'Failed to pull image "x:1": not found'
        event = {"reason": "Failed", "message": text, "count": count}
        tried.events.create(uid="e", at=ago(minutes_ago), **event)
    if pulled_after is not None:
        Replica.objects.create(workload=tried, role="worker", index=0, started_at=ago(pulled_after))
    page = page_of(client.post("/trainings/new/fit/", fields(image="x:1")))
    preview = client.post(
        "/api/v1/jobs/preview/", submit_body(image="x:1"), content_type="application/json"
    ).json()["fit"]
    assert preview["kind"] == "now"
    if not is_told:
        assert "Fits now It starts right away." in page.text
        assert preview["text"] == "Fits now."
        return
    since = ago(minutes_ago + (10 if count > 1 else 0)).strftime("%Y-%m-%d %H:")
    assert f"x:1 could not be pulled {is_told} since {since}" in page.text
    assert "(“not found”), and has not been pulled since." in page.text
    assert "Fits now, but may not start" in page.text
    assert not page.all(class_="fit-answer tone-ready")
    assert page.all(class_="fit-answer tone-stopping")
    assert f"could not be pulled {is_told}" in preview["text"]


def test_advice_on_a_deadline_below_the_usual_duration(alice: Tenant, client: Client) -> None:
    began = datetime(2026, 1, 1, tzinfo=UTC)
    for minutes in (10, 70, 80):
        ended = began + timedelta(minutes=minutes)
        make_job(alice, name="mnist", state="succeeded", started_at=began, deciders_ended_at=ended)
    said = "usually ran for 1 h 10 min, which is longer than the deadline of"
    for deadline, tells in (("1h", True), ("2h", False), ("", False)):
        typed = fields(deadline=deadline)
        answer = client.post("/trainings/new/fit/", typed, headers=HTMX)
        assert (said in Markup(answer.content.decode()).text) == tells


def test_the_panel_shows_the_command_of_each_replica(client: Client) -> None:
    typed = fields(
        topology="tf-ps",
        command="python train.py --dir {{log_dir}} && echo {{nothing}}",
        flags=["job_name", "task_index", "ps_hosts"],
        **{"replicas.worker.count": "2"},
    )
    page = Markup(client.post("/trainings/new/fit/", typed, headers=HTMX).content.decode())
    preview = page.one("div", id="preview")
    assert preview.get("hx-swap-oob") == "true"
    assert "--dir /log/jobs/mnist-xxxxxx" in preview.text
    assert "--job_name=worker --task_index=1" in preview.text
    assert "--job_name=ps --task_index=0" in preview.text
    assert "--ps_hosts=mnist-xxxxxx-ps-0.mnist-xxxxxx:2222" in preview.text
    assert "Not run by a shell: && is passed on as it stands" in preview.text
    assert "{{nothing}} is not a placeholder" in preview.text
    page = page_of(client.post("/trainings/new/fit/", fields(topology="tf-ingraph")))
    assert "No replica runs the command" in page.one("div", id="preview").text
    assert "Variables of worker-0" in page.text


def test_the_panel_shows_the_manifests_when_asked(client: Client) -> None:
    typed = fields(topology="tf-ps", show_manifests="1")
    page = Markup(client.post("/trainings/new/fit/", typed, headers=HTMX).content.decode())
    shown = page.one("pre", id="preview-manifests").text
    for kind in ("Job", "Service", "ConfigMap", "Deployment"):
        assert f"kind: {kind}" in shown
    assert "mnist-aaaaaa" in shown
