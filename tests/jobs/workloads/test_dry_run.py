"""What the cluster itself would say to a request: asked by REST and on the form, answered by the reconciler."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db.models import F
from django.test import Client

from jobs.engine.dry_runs import DryRunsPass
from jobs.kinds.registry import KINDS
from jobs.leader.lease import Lease
from jobs.models import Workload
from jobs.questions import DryRun
from jobs.workloads import dry_run
from portal.cluster.errors import ClusterError, Forbidden, Invalid, error_of
from tenants.models import AuditEntry, Tenant
from tests.browsing import page_of
from tests.factories import make_tenant, smallest_body, submit_body
from tests.jobs.engine.simulation import Sim
from tests.jobs.workloads.typed import fields

pytestmark = pytest.mark.django_db(transaction=True)  # the reconciler has a connection of its own

TF_PS = {"topology": "tf-ps", "replicas": {"worker": {"count": 3}, "ps": {"count": 2}}}
MADE = ["Job worker", "Service", "ConfigMap", "Secret", "Deployment ps-0", "Deployment ps-1"]
SECURITY = (
    'pods "x" is forbidden: violates PodSecurity "restricted:latest": <b> runAsNonRoot != true'
)
QUOTA = "pods is forbidden: exceeded quota: team, requested: {asked}, used: {used}, limited: {hard}"


def answers(row: Any) -> Callable[[], None]:
    """What happens when the reconciler is woken: a new one looks once, at this cluster."""

    def look() -> None:
        lease = Lease(ttl_s=1e9)
        assert async_to_sync(lease.try_acquire)()
        async_to_sync(DryRunsPass(row, lease).run_once)()

    return look


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Sim:
    sim = Sim()
    monkeypatch.setattr(dry_run.live, "wake_reconciler", answers(sim))
    monkeypatch.setattr(dry_run, "WAIT_S", 0.5)
    return sim


def ask(client: Client, path: str = "jobs/?dry_run=All", **changes: Any) -> Any:
    return client.post(f"/api/v1/{path}", submit_body(**changes), content_type="application/json")


def over(asked: str, used: str, hard: str) -> ClusterError:
    text = QUOTA.format(asked=asked, used=used, hard=hard)
    return error_of(403, {"reason": "Forbidden", "message": text}, {})


def nothing_is_there(sim: Sim) -> bool:
    told = AuditEntry.objects.filter(verb="submit")
    # What has ended only counts.
    for row in DryRun.objects.all():
        if row.ended_at is None or row.documents or row.answer != []:
            return False
    return not any(row.exists() for row in (Workload.objects, told)) and not sim.mutations


@pytest.mark.parametrize(
    ("kind", "error", "state", "remarked"),
    [
        ("", None, "accepted", 0),
        ("Pod", Forbidden(403, "Forbidden", SECURITY), "refused", 2),
        ("Service", Invalid(422, "Invalid", "spec.ports: no"), "refused", 1),
        # What is used up is given back; what is more than there is never will be.
        ("Pod", over("requests.cpu=1,pods=1", "requests.cpu=8,pods=50", "requests.cpu=8,pods=50"), "queued", 2),
        ("Pod", over("requests.cpu=1500m", "requests.cpu=0", "requests.cpu=1"), "refused", 2),
        ("Pod", error_of(403, {"message": "status unknown for quota: team"}, {}), "queued", 2),
    ],
)  # fmt: skip
def test_the_cluster_says_of_each_object_what_it_would_say(
    client: Client, cluster: Sim, kind: str, error: Any, state: str, remarked: int
) -> None:
    cluster.refuses = lambda obj: error if obj["kind"] == kind else None
    answer = ask(client, **TF_PS)
    assert answer.status_code == 200, answer.content
    told = answer.json()
    assert (told["state"], told["fit"]["kind"]) == (state, "now")
    shown = [
        f"{one['kind']} {one['name'].partition('aaaaaa')[2][1:]}".strip() for one in told["objects"]
    ]
    assert shown == [*MADE, "Pod worker-0", "Pod ps-0-0"]
    assert [one["text"] for one in told["objects"] if one["text"]] == [str(error)] * remarked
    assert {one["state"] for one in told["objects"] if one["text"]} == ({state} if error else set())
    assert nothing_is_there(cluster)


def test_no_value_is_in_the_row_or_sent(
    client: Client, cluster: Sim, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: list[Any] = []

    def look() -> None:
        rows.extend(DryRun.objects.values_list("documents", flat=True))
        answers(cluster)()

    monkeypatch.setattr(dry_run.live, "wake_reconciler", look)
    source = {"url": "https://files.example/sesame.zip"}
    answer = ask(client, env={"PASSWORD": "sesame"}, source=source)
    assert answer.json()["state"] == "accepted", answer.content
    assert (len(rows), len(cluster.tried)) == (1, 5)
    assert "sesame" not in json.dumps([rows, cluster.tried])
    # Everything but the root would go with it.
    owners = [
        obj["metadata"].get("ownerReferences") for obj in cluster.tried if obj["kind"] != "Pod"
    ]
    assert owners[0] is None
    assert all(owner[0]["name"] == cluster.tried[0]["metadata"]["name"] for owner in owners[1:])


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_may_be_asked_about(client: Client, cluster: Sim, kind: str) -> None:
    body, path = smallest_body(KINDS[kind]), f"/api/v1/{kind}s/?dry_run=All"
    answer = client.post(path, body, content_type="application/json")
    assert answer.json()["state"] == "accepted", answer.content
    assert nothing_is_there(cluster)


def test_what_is_not_answered_says_so_and_leaves_nothing(client: Client, cluster: Sim) -> None:
    cluster.is_down = True
    answer = ask(client)
    [error] = answer.json()["errors"]
    assert (answer.status_code, error["code"]) == (504, "cluster_slow")
    assert nothing_is_there(cluster)
    for _ in range(dry_run.MOST_WAITING):
        assert dry_run._places.acquire(blocking=False)
    try:
        answer = ask(client)
    finally:
        dry_run._places.release(dry_run.MOST_WAITING)
    assert (answer.status_code, answer.json()["errors"][0]["code"]) == (503, "busy")
    assert int(answer.headers["Retry-After"]) > 0


@pytest.fixture
def bob() -> Client:
    found = Client(HTTP_HOST="localhost")
    found.force_login(make_tenant("bob").owner)
    return found


def refusal(answer: Any) -> tuple[int, str, bool]:
    """Status, code and whether it says when to come again; of a page the text."""
    if answer["Content-Type"].startswith("text/html"):
        return answer.status_code, page_of(answer).one(id="errors").text, False
    code = answer.json()["errors"][0]["code"]
    return answer.status_code, code, int(answer.headers.get("Retry-After", 0)) > 0


def test_one_of_a_person_is_asked_at_a_time_and_others_are_answered(
    client: Client, bob: Client, alice: Tenant, cluster: Sim, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Any] = []

    def meanwhile() -> None:
        """While the first one waits: by REST, as the command line does, and by the form."""
        monkeypatch.setattr(dry_run.live, "wake_reconciler", answers(cluster))
        told.extend(refusal(ask(client)) for _ in range(3))
        told.append(refusal(ask(client, topology="none")))  # not even read
        told.append(refusal(client.post("/trainings/new/", {**fields(), "check": "1"})))
        told.append(ask(bob).status_code)
        told.append(page_of(bob.post("/trainings/new/", {**fields(), "check": "1"})))
        answers(cluster)()

    monkeypatch.setattr(dry_run.live, "wake_reconciler", meanwhile)
    answer = ask(client)
    assert answer.json()["state"] == "accepted", answer.content
    again = (429, "too_many_dry_runs", True)
    assert told[:4] == [again] * 4
    assert "still checking" in told[4][1]
    assert told[5] == 200
    assert "The cluster accepts it" in told[6].one(id="told").text
    assert ask(client).status_code == 200
    assert nothing_is_there(cluster)
    # Whose process died in the middle of one asks again soon.
    DryRun.objects.create(asked_by=alice.owner, documents=[], answer=[])
    assert refusal(ask(client)) == again
    DryRun.objects.update(asked_at=F("asked_at") - timedelta(seconds=31))
    assert ask(client).status_code == 200


def test_a_person_asks_as_often_in_a_minute_as_one_submits_and_is_counted_apart(
    client: Client, bob: Client, cluster: Sim, settings: Any
) -> None:
    settings.SUBMITS_PER_MINUTE = 3
    cluster.is_down = True
    assert ask(client).status_code == 504  # counts as well
    cluster.is_down = False
    assert [ask(client).status_code for _ in range(2)] == [200, 200]
    assert refusal(ask(client)) == (429, "too_many_dry_runs", True)
    page = page_of(client.post("/trainings/new/", {**fields(), "check": "1"}))
    assert "3 dry runs in a minute" in page.one(id="errors").text
    assert ask(bob).status_code == 200
    assert [ask(client, "jobs/", name=f"a{n}").status_code for n in range(3)] == [201] * 3
    assert [ask(client, "jobs/", name="b").status_code, ask(bob).status_code] == [429, 200]
    # Nothing was asked of the cluster that was refused here.
    assert DryRun.objects.count() == 5
    DryRun.objects.update(asked_at=F("asked_at") - timedelta(minutes=1))
    assert ask(client).status_code == 200


@pytest.mark.parametrize(
    ("path", "changes", "code"),
    [
        ("jobs/?dry_run=server", {}, "invalid_choice"),
        ("jobs/?dry_run=", {}, "invalid_choice"),
        ("jobs/?dry_run=All", {"topology": "none"}, "invalid_choice"),
        ("jobs/?dry_run=All", {"replicas": {"worker": {"cpu": "900"}}}, "never_fits"),
    ],
)
def test_what_a_submit_would_refuse_is_not_asked(
    client: Client, cluster: Sim, path: str, changes: Any, code: str
) -> None:
    answer = ask(client, path, **changes)
    assert (answer.status_code, answer.json()["errors"][0]["code"]) == (400, code)
    assert not cluster.tried
    assert nothing_is_there(cluster)


def test_the_next_reconciler_answers_and_what_nobody_read_goes(alice: Tenant) -> None:
    documents = dry_run.preview_documents(
        KINDS["job"], KINDS["job"].read(submit_body(), tenant=alice, user=alice.owner), alice
    )
    sim = Sim(is_down=True)
    row = DryRun.objects.create(documents=documents)
    poisoned = DryRun.objects.create(documents=[{"kind": "Job"}])
    answers(sim)()
    assert not DryRun.objects.filter(answer__isnull=False).exists()
    sim.is_down = False
    answers(sim)()
    row.refresh_from_db()
    assert [one["state"] for one in row.answer] == ["accepted"] * 5
    assert DryRun.objects.get(pk=poisoned.pk).answer is None
    DryRun.objects.update(asked_at=F("asked_at") - timedelta(minutes=11))
    answers(sim)()
    assert not DryRun.objects.exists()


@pytest.mark.parametrize("typed", [fields(), {"view": "", "yaml": json.dumps(submit_body())}])
def test_the_form_shows_what_the_cluster_says(
    client: Client, cluster: Sim, typed: dict[str, str]
) -> None:
    asked = {**typed, "check": "1"}
    page = page_of(client.post("/trainings/new/", asked))
    assert "The cluster accepts it" in page.one(id="told").text
    cluster.refuses = lambda obj: Forbidden(403, "", SECURITY) if obj["kind"] == "Pod" else None
    page = page_of(client.post("/trainings/new/", asked))
    told = page.one(id="told").text
    assert "The cluster refuses it" in told
    assert SECURITY in told
    cluster.is_down = True
    page = page_of(client.post("/trainings/new/", asked))
    said_at = "yaml-error" if "yaml" in typed else "errors"
    assert "did not answer" in page.one(id=said_at).text
    assert nothing_is_there(cluster)
