"""The page of one training: what it tells, and stopping and deleting from it."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils.timezone import now

from homeport_client import answers, trainings
from jobs.models import Attempt, Replica, Workload
from jobs.rules import reasons
from jobs.rules.states import WorkloadState
from jobs.rules.topologies import TOPOLOGIES
from jobs.workloads.idempotency import HEADER, REPLAYED
from tenants.models import Tenant
from tests.browsing import HTMX, read
from tests.factories import make_job, make_service, role_request
from tests.jobs.workloads.trainings import full_job
from tests.portal.markup import Markup, find_faults

pytestmark = pytest.mark.django_db


def _all_roles(topology: str) -> list[str]:
    return [role.name for role in TOPOLOGIES[topology].roles]


def test_the_configuration_follows_what_is_changed_after_the_submit(
    alice: Tenant, client: Client
) -> None:
    """A longer deadline, another priority, the commit that is known once its code was fetched."""
    source = {"git": "https://h.example/code.git", "ref": "main"}
    job = make_job(alice, state="running", deadline_s=3600, source=source)
    card = read(client, f"/trainings/{job.pk}/").one("section", id="job-request")
    assert card.get("data-live") == f"job:{job.pk}"
    assert "1 h" in card.text
    spec = {
        **job.spec,
        "priority": "low",
        "run_policy": {**job.spec["run_policy"], "deadline_s": 7200},
    }
    row = Workload.objects.filter(pk=job.pk)
    row.update(spec=spec, source_commit="c0ffee", revision=job.revision + 1)
    have = {**HTMX, "Homeport-Have": card.get("data-revision") or ""}
    answer = client.get(card.get("hx-get") or "", headers=have)
    assert answer.status_code == 200
    said = " ".join(Markup(answer.content.decode()).one("section", id="job-request").text.split())
    assert "Time limit2 h" in said
    assert "Prioritylow" in said
    assert "commit c0ffee" in said


def test_a_training_tells_all_there_is_to_know(alice: Tenant, client: Client) -> None:
    job = full_job(alice)
    counts = client.get(f"/api/v1/jobs/{job.pk}/").json()["replica_statuses"]
    assert counts["worker"] == {"active": 0, "succeeded": 0, "failed": 1}
    page = read(client, f"/trainings/{job.pk}/")
    assert not find_faults(page)
    for text in (
        "worker-1 ended with exit code 3.",
        "Read the end of its log.",
        "attempt 2 of 2",
        "worker-0 was killed.",
        "reason of ps-0",
        "1 replica of earlier attempts",
        "BackOff",
        "\u00d74",
        "Workers: 0 active, 0 succeeded, 1 failed",
        "Failed True failed worker-1 ended.",
        "later.bin",
        "uploading",
        "kind: Job",
        "wandb (variables)",
        "certs (files)",
        "main, secret repo",
        "name: user-hub-1",
        "secretName: user-repo-1",
        "SEED=7",
        "--task_index",
        "2 h",
        "2 workers, 1 parameter server",
        str(job.pk),
    ):
        assert text in page.text, text
    menu = [e.get("href") for e in page.all("a") if "?attempt=" in (e.get("href") or "")]
    assert menu == [f"/trainings/{job.pk}/?attempt={n}#log-pane" for n in (2, 1)]
    links = [e.text for e in page.all("a") if "/artifacts/" in (e.get("href") or "")]
    assert links == ["model/checkpoint"]
    assert page.one("section", id="log-pane").get("data-log-socket") == f"/ws/jobs/{job.pk}/logs/"
    names = [e.get("data-replica") for e in page.all("button") if e.get("data-replica") is not None]
    assert names == ["", "worker-0", "worker-1", "ps-0"]
    assert not page.all("a", id="stop")
    parts = [
        f"part/{name}/"
        for name in ("header", "replicas", "artifacts", "events", "request", "manifests")
    ]
    for state in WorkloadState:
        Workload.objects.update(state=state)
        for path in (f"/trainings/{job.pk}/", f"/api/v1/jobs/{job.pk}/"):
            shown = ("", *parts, "again/") if path.startswith("/t") else ("", "manifests/")
            answers = [client.get(path + name).status_code for name in shown]
            assert set(answers) == {200}, (state, path)


def test_a_failure_is_told_once_above_the_notes_with_the_way_to_its_log(
    alice: Tenant, client: Client
) -> None:
    why = "worker-1 ended with exit code 1: EOFError: <b>EOF</b> when reading a line"
    at = now()
    told = {"reason_code": "exit_code", "reason_text": why}
    next_step = "Read the end of its log."
    job = make_job(
        alice, state="failed", started_at=at, finished_at=at, reason_next_step=next_step, **told
    )
    for index, row in enumerate(({"state": "stopped"}, {"state": "failed", **told})):
        Replica.objects.create(workload=job, role="worker", index=index, attempt=1, **row)
    page = read(client, f"/trainings/{job.pk}/")
    shown = [one for one in page.all("strong") + page.all("td") if "EOFError" in one.text]
    assert [one.text for one in shown] == [why]
    text = page.text
    assert text.index("EOFError") < text.index("No checkpoint is known")
    link = page.one("a", id="reason-log")
    assert (link.get("href"), link.get("data-show-log")) == ("#log-pane", "worker-1")
    # What another replica says is told where it stands.
    Replica.objects.filter(index=0).update(state="failed", reason_text="worker-0 is other.")
    assert "worker-0 is other." in read(client, f"/trainings/{job.pk}/").text


@pytest.mark.parametrize(
    ("code", "facts"),
    [
        ("tasks_failed", {"count": 1, "most": 2}),
        ("ps_crash_loop", {"who": "worker-1", "count": 5}),
        ("retrying", {"number": 1, "most": 3}),
    ],
)
def test_a_sentence_within_the_reason_above_is_not_told_again_at_its_replica(
    alice: Tenant, client: Client, code: str, facts: dict[str, Any]
) -> None:
    cause = "worker-1 ended with exit code 1: EOFError"
    reason = reasons.make(code, cause=cause, **facts)
    job = make_job(alice, state="running", reason_code=code, reason_text=reason.text)
    Replica.objects.create(
        workload=job, role="worker", index=1, attempt=1, state="failed", reason_text=cause
    )
    page = read(client, f"/trainings/{job.pk}/")
    shown = [one.text for one in page.all("strong") + page.all("td") if "EOFError" in one.text]
    assert shown == [reason.text]


def test_a_large_array_shows_what_one_looks_for_and_runs_what_failed_again(
    alice: Tenant, client: Client
) -> None:
    asked = {"worker": {**role_request(), "count": 200}}
    job = make_job(alice, topology="array", replicas=asked, parallelism=5, state="running")
    states = {3: "failed", 17: "running", 18: "stopped"}
    Replica.objects.bulk_create(
        Replica(workload=job, role="worker", index=n, state=states.get(n, "succeeded"))
        for n in range(199)
    )
    page = read(client, f"/trainings/{job.pk}/")
    assert not find_faults(page)
    shown = [e.get("data-show-log") for e in page.all("button") if e.get("data-show-log")]
    assert (shown[:3], len(shown)) == (["worker-3", "worker-17", "worker-0"], 100)
    rerun = f"/api/v1/jobs/{job.pk}/rerun-failed/"
    assert not page.all("a", id="run-failed")
    assert client.post(rerun).json()["errors"][0]["code"] == "wrong_state"
    job.state = "failed"
    job.save()
    link = read(client, f"/trainings/{job.pk}/").one("a", id="run-failed")
    form = read(client, link.get("href"))
    assert not find_faults(form)
    assert form.one("input", id="indexes").get("value") == "3,17-18,199"
    made, again = [client.post(rerun, headers={HEADER: "k1"}) for _ in range(2)]
    assert (made.status_code, again.headers[REPLAYED]) == (201, "true")
    told = made.json()
    assert told == again.json()
    assert (told["indexes"], told["parallelism"], told["resources"]["worker"]["count"]) == (
        "3,17-18,199",
        5,
        200,
    )
    made = Workload.objects.get(pk=told["id"])
    assert made.replicas["worker"]["at_once"] == 4
    for index in (3, 199):
        Replica.objects.create(workload=made, role="worker", index=index, state="running")
    for path in ("/trainings/?q=&state=queued", f"/trainings/{made.pk}/"):
        page = read(client, path)
        assert "4 workers" in page.text, path
        assert "200 workers" not in page.text, path
    rows = client.get("/api/v1/jobs/", {"id": told["id"]}).json()["results"]
    assert trainings._replicas(rows[0]) == "4"
    assert answers.replica_names(rows[0]) == ["worker-3", "worker-17", "worker-18", "worker-199"]


def test_one_of_four_that_runs_again_is_one_worker(alice: Tenant, client: Client) -> None:
    asked = {"worker": {**role_request(), "count": 4, "at_once": 1, "indexes": "2"}}
    job = make_job(alice, topology="array", replicas=asked, indexes="2", state="failed")
    row = {"role": "worker", "index": 2, "state": "failed", "exit_code": 1}
    Replica.objects.create(workload=job, **row)
    assert "1 worker" in read(client, f"/trainings/{job.pk}/").one("div", class_="job-meta").text
    assert (
        "4 workers"
        not in read(client, f"/trainings/{job.pk}/").one("section", id="job-header").text
    )


SERVED = [
    (name, role.name)
    for name, topology in TOPOLOGIES.items()
    for role in topology.roles
    if not topology.is_array and role.name != topology.deciding(_all_roles(name)).name
]


@pytest.mark.parametrize(("topology", "role"), SERVED)
@pytest.mark.parametrize(
    ("state", "ended_ago_s", "run_policy", "words"),
    [
        ("succeeded", 6, {}, r"Stops in \d[^(]* \(the [a-z ]+ have ended\)\."),
        ("succeeded", 601, {}, r"Is being stopped \(the [a-z ]+ have ended\)\."),
        ("failed", 6, {}, r"Is being stopped \(the [a-z ]+ have ended\)\."),
        ("succeeded", 601, {"clean_policy": "none", "ttl_s": 7200}, r"Stops in 1 h 4\d min \("),
        ("running", 6, {}, ""),
    ],
)
def test_what_outlives_the_outcome_says_until_when(
    alice: Tenant,
    client: Client,
    topology: str,
    role: str,
    state: str,
    ended_ago_s: int,
    run_policy: dict[str, Any],
    words: str,
) -> None:
    at = now() - timedelta(seconds=ended_ago_s)
    replicas = {name: role_request() for name in _all_roles(topology)}
    job = make_job(
        alice, topology=topology, replicas=replicas, state=state, finished_at=at,
        deciders_ended_at=at, **run_policy,
    )  # fmt: skip
    row = Replica.objects.create(workload=job, role=role, index=0, state="running", started_at=at)
    (shown,) = client.get(f"/api/v1/jobs/{job.pk}/").json()["replicas"]
    if (topology, role, state, ended_ago_s) == ("mpi", "worker", "succeeded", 6):
        words = r"Is being stopped \(the launchers have ended\)\."  # they go at once
    assert re.match(words + ("" if words else r"\Z"), shown["reason"])
    page = read(client, f"/trainings/{job.pk}/").one("td", class_="cell-wide replica-why")
    assert re.match(words + ("" if words else r"\Z"), page.text.strip())
    Replica.objects.filter(pk=row.pk).update(state="stopped", exit_code=143, finished_at=at)
    (shown,) = client.get(f"/api/v1/jobs/{job.pk}/").json()["replicas"]
    assert shown["reason"] == "Ended by SIGTERM, as intended."


def test_a_queued_training_shows_its_way_and_that_it_waits(alice: Tenant, client: Client) -> None:
    job = make_job(alice, reason_text="Asks for 2 GPU, 0 are free.", reason_next_step="Wait.")
    page = read(client, f"/trainings/{job.pk}/")
    assert "Asks for 2 GPU, 0 are free." in page.text
    assert page.one("li", aria_current="step").text.split()[0] == "Queued"
    assert "all of them are created" in page.text


def test_what_was_resumed_runs_since_it_was_admitted_again(alice: Tenant, client: Client) -> None:
    first, second = now() - timedelta(hours=5), now() - timedelta(minutes=3)
    times = {"queued_at": second, "admitted_at": second, "started_at": first}
    job = make_job(alice, state="running", attempt=2, **times)
    attempt = {"number": 2, "cause": "resumed", "started_at": second + timedelta(minutes=1)}
    Attempt.objects.create(workload=job, **attempt)
    running = read(client, f"/trainings/{job.pk}/").one("li", aria_current="step").text
    assert "2 min" in running
    assert "5 h" not in running


def test_stopping_asks_first_and_then_says_so(alice: Tenant, client: Client) -> None:
    job = make_job(alice, state="running", started_at=now())
    path = f"/trainings/{job.pk}/stop/"
    dialog = read(client, path, headers=HTMX)
    assert "2 minutes to save" in dialog.text
    limited = make_job(alice, state="running", started_at=now(), deadline_s=3600)
    assert "1 minute to save" in read(client, f"/trainings/{limited.pk}/stop/", headers=HTMX).text
    assert not dialog.all("html")
    assert read(client, path).one("h2", id="dialog-title")
    answer = client.post(path, {"reason": "diverged"}, headers=HTMX)
    header = Markup(answer.content.decode())
    assert header.elements[0].get("id") == "job-header"
    assert "“diverged”" in header.text
    job.refresh_from_db()
    assert (job.desired, job.stop_reason) == ("stop", "diverged")
    assert client.post(path)["Location"] == f"/trainings/{job.pk}/"


def test_deleting_asks_first_and_then_it_is_gone(alice: Tenant, client: Client) -> None:
    job = make_job(alice, name="old one", state="failed", finished_at=now())
    path = f"/trainings/{job.pk}/delete/"
    assert "deleted permanently" in read(client, path, headers=HTMX).text
    assert Workload.objects.visible_to(alice.owner).exists()
    assert client.post(path)["Location"] == "/trainings/"
    assert "“old one” is deleted." in read(client, "/trainings/").text
    assert client.get(f"/trainings/{job.pk}/").status_code == 404


def test_a_lead_may_stop_but_not_delete(alice: Tenant, lead: Client) -> None:
    job = make_job(alice, state="running", started_at=now())
    page = read(lead, f"/trainings/{job.pk}/")
    assert page.all("a", id="stop")
    assert not page.all("a", id="delete")


def test_servers_without_a_master_show_how_a_notebook_reaches_them(
    alice: Tenant, client: Client
) -> None:
    worker = {"count": 2, "cpu_millicores": 1000, "memory_bytes": 2**30, "gpu_count": 0}
    row = make_job(
        alice,
        name="lab",
        state="running",
        topology="tf-ingraph",
        replicas={"worker": worker},
        attempt=2,
        image="tensorflow/tensorflow:2.21.0",
    )
    link = f"/notebooks/{make_service(alice, image='lab/jupyter').pk}/"
    assert not read(client, f"/trainings/{row.pk}/").all("a", href=link)  # it does not run yet
    for image, state, is_told in (
        ("lab/jupyter", "queued", False),
        ("tensorflow/tensorflow:2.19.1-jupyter", "running", True),
        ("tensorflow/tensorflow:2.21.1", "running", False),
    ):
        Workload.objects.filter(kind="notebook").update(image=image, state=state)
        page = read(client, f"/trainings/{row.pk}/")
        assert bool(page.all("a", href=link)) == (state == "running")
        assert bool(page.all("p", id="versions")) == is_told
    text = page.text
    [name] = re.findall(r"grpc://(lab-\w{6})-2-worker-0\.\1-2:2222 ", text)
    assert f"/data/master_client-{name}.ipynb Open notebook" in text
    for state in ("queued", "suspended", "stopped", "failed"):  # nothing answers there
        Workload.objects.filter(pk=row.pk).update(state=state)
        text = read(client, f"/trainings/{row.pk}/").text
        assert "master_client" not in text, state
        assert "Open notebook" not in text, state


@pytest.mark.parametrize(
    ("state", "code", "tone", "is_timed"),
    [
        ("starting", "image_missing", "restarting", True),
        ("starting", "container_config", "restarting", True),
        ("starting", "preparing", "starting", False),
        ("failed", "image_missing", "failed", False),
    ],
)
def test_a_wait_that_does_not_end_by_itself_is_amber_and_says_when_it_fails(
    alice: Tenant, client: Client, state: str, code: str, tone: str, is_timed: bool
) -> None:
    since = now() - timedelta(seconds=45)
    job = make_job(
        alice,
        state=state,
        reason_code=code,
        reason_text="Image a:9 not found. Did you mean a:8?",
        notes={"starting_since": since.isoformat()},
    )
    page = read(client, f"/trainings/{job.pk}/")
    note = page.one(class_=f"note tone-{tone} job-reason")
    assert note.text.count("Image a:9 not found. Did you mean a:8?") == 1
    assert bool(re.search(r"Fails in 4 min 1\d s\.", note.text)) == is_timed
