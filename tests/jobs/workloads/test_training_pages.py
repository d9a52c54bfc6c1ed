"""Pages of trainings: the list, one training, stop, delete, downloads."""

import io
import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils.timezone import now

from homeport_client import answers, trainings
from jobs.kinds.manifests import Grant
from jobs.kinds.training.kind import TRAINING
from jobs.models import Artifact, Attempt, Replica, UserSecret, Workload, WorkloadEvent
from jobs.rules import reasons
from jobs.rules.states import WorkloadState
from jobs.rules.topologies import TOPOLOGIES
from jobs.workloads import training_page
from jobs.workloads.idempotency import HEADER, REPLAYED
from tenants.models import Tenant
from tests.browsing import HTMX, body_of, read
from tests.factories import make_job, make_service, make_tenant, role_request
from tests.portal.markup import Markup, find_faults

pytestmark = pytest.mark.django_db


def _all_roles(topology: str) -> list[str]:
    return [role.name for role in TOPOLOGIES[topology].roles]


# --- the list ---


def test_the_list_shows_own_trainings_by_state_and_name(alice: Tenant, client: Client) -> None:
    make_job(alice, name="mnist one", state="running", started_at=now())
    make_job(alice, name="mnist two", state="failed", finished_at=now(), reason_text="Too big.")
    make_job(alice, name="cifar", state="stopping", started_at=now())
    make_job(make_tenant("mallory"), name="mnist of mallory")
    everything = read(client, "/trainings/")
    assert "mnist of mallory" not in everything.text
    assert "Too big." in everything.text
    counts = [e.text for e in everything.all("span", class_="count")]
    assert counts == ["3", "0", "2", "0", "0", "1", "0"]
    running = read(client, "/trainings/?state=running")
    assert [e.text for e in running.all("a", class_="job-name")] == ["cifar", "mnist one"]
    both = read(client, "/trainings/?state=running&q=MNIST")
    assert [e.text for e in both.all("a", class_="job-name")] == ["mnist one"]
    assert both.one("a", id="tab-failed").get("href") == "?q=MNIST&state=failed"
    assert both.value("q") == "MNIST"


def test_pages_of_the_list_keep_the_question(alice: Tenant, client: Client) -> None:
    for number in range(30):
        make_job(alice, name=f"run {number}", queued_at=now() - timedelta(minutes=number))
    first = read(client, "/trainings/?q=run")
    assert len(first.all("a", class_="job-name")) == 25
    assert first.one("a", rel="next").get("href") == "?q=run&page=2"
    second = read(client, "/trainings/?q=run&page=2")
    assert [e.text for e in second.all("a", class_="job-name")] == [
        f"run {number}" for number in range(25, 30)
    ]
    assert read(client, "/trainings/?page=nonsense&state=nonsense").all("a", class_="job-name")


def test_going_back_in_the_browser_gives_the_whole_page(client: Client) -> None:
    restored = {**HTMX, "HX-History-Restore-Request": "true"}
    answer = client.get("/trainings/?q=x", headers=restored)
    assert Markup(answer.content.decode()).all("html")
    assert "HX-Request" in answer["Vary"]
    assert not read(client, "/trainings/?q=x", headers=HTMX).all("html")


def test_a_lead_sees_whose_trainings_they_are(alice: Tenant, client: Client, lead: Client) -> None:
    make_job(alice, name="of alice")
    shown = read(lead, "/trainings/").text
    assert "Owner" in shown
    assert "of alice" in shown
    assert "Owner" not in read(client, "/trainings/").text


def test_an_empty_list_offers_an_example(client: Client) -> None:
    page = read(client, "/trainings/")
    assert page.one("a", href="/trainings/new/?example=meet")
    assert "No training has “x”" in read(client, "/trainings/?q=x").text


# --- one training ---


def full_job(tenant: Tenant) -> Workload:
    """A training with something in every part of its page."""
    for name, kind in (
        ("wandb", "generic"),
        ("certs", "generic"),
        ("repo", "generic"),
        ("hub", "registry"),
    ):
        UserSecret.objects.create(
            tenant=tenant, name=name, kind=kind, keys=["token"], revisions=[1]
        )
    job = make_job(
        tenant,
        name="full",
        topology="tf-ps",
        replicas={
            role: {"count": n, "cpu_millicores": 500, "memory_bytes": 2**30, "gpu_count": n - 1}
            for role, n in (("worker", 2), ("ps", 1))
        },
        state="failed",
        attempt=2,
        retries=1,
        admitted_at=now() - timedelta(minutes=9),
        started_at=now() - timedelta(minutes=8),
        finished_at=now(),
        reason_text="worker-1 ended with exit code 3.",
        reason_next_step="Read the end of its log.",
        env={"SEED": "7"},
        secrets={"wandb": "env", "certs": "files"},
        source={"git": "https://h.example/code.git", "ref": "main", "secret": "repo"},
        cluster_flags=["task_index"],
        deadline_s=7200,
    )
    job.plan = TRAINING.render(job, 2, Grant())
    job.save()
    for number, cause, reason in ((1, "first", "worker-0 was killed."), (2, "retry", "")):
        Attempt.objects.create(
            workload=job, number=number, cause=cause, admitted_at=now(), reason_text=reason
        )
    for attempt, role, index in (
        (1, "worker", 0),
        (2, "worker", 0),
        (2, "worker", 1),
        (2, "ps", 0),
    ):
        Replica.objects.create(
            workload=job,
            role=role,
            index=index,
            attempt=attempt,
            state="failed" if (attempt, role, index) == (2, "worker", 1) else "stopped",
            exit_code=3,
            node="node",
            gpus="0",
            restarts=index,
            reason_text=f"reason of {role}-{index}",
        )
    WorkloadEvent.objects.create(
        workload=job, uid="1", at=now(), reason="BackOff", message="again", is_warning=True, count=4
    )
    changed = {"reason": "state", "message": "running -> failed: worker-1 ended."}
    WorkloadEvent.objects.create(workload=job, uid="2", at=now(), is_warning=True, **changed)
    for path, uploaded_at in (("model/checkpoint", now()), ("later.bin", None)):
        Artifact.objects.create(
            workload=job,
            path=path,
            size_bytes=3,
            mtime_ns=2**63 - 1,
            storage_key=f"{tenant.pk}/x",
            uploaded_at=uploaded_at,
        )
    return job


def files_of(client: Client, job: Workload) -> str:
    """What the card of files says."""
    answer = client.get(f"/trainings/{job.pk}/part/artifacts/", headers=HTMX)
    return " ".join(Markup(answer.content.decode()).text.split())


def test_files_are_counted_whole_and_only_those_that_are_there(
    alice: Tenant, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training_page, "MAX_ARTIFACTS", 3)
    job = make_job(alice, state="running")
    about = {"size_bytes": 2**20, "mtime_ns": 1}
    job.artifacts.create(path="a-announced.bin", storage_key="a", **about)
    for number in range(2):
        job.artifacts.create(path=f"b{number}", storage_key="b", uploaded_at=now(), **about)
    said = files_of(client, job)
    assert said.startswith("Files 2 files, 2 MiB ")
    assert "a-announced.bin 1 MiB uploading" in said
    assert "first" not in said
    for number in range(2, 5):
        job.artifacts.create(path=f"b{number}", storage_key="b", uploaded_at=now(), **about)
    said = files_of(client, job)
    assert said.startswith("Files 5 files, 5 MiB ")
    assert "b1" in said
    assert "b2" not in said
    assert said.endswith(
        f"The first 3 are listed. For all of them: homeport artifacts list {job.pk}"
    )
    Workload.objects.filter(pk=job.pk).update(state="failed", finished_at=now(), cleaned_at=now())
    said = files_of(client, job)
    assert said.startswith("Files 5 files, 5 MiB ")
    assert "uploading" not in said
    assert "a-announced.bin 1 MiB was not kept" in said
    job.artifacts.filter(uploaded_at__isnull=False).delete()
    assert files_of(client, job) == "Files a-announced.bin 1 MiB was not kept"


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


# --- downloads ---


def test_an_artifact_is_a_download_and_never_a_page(alice: Tenant, client: Client) -> None:
    from portal.storage import get_store

    job = make_job(alice)
    key = f"{alice.pk}/jobs/x/evil"
    get_store().put_file(key, io.BytesIO(b"<script>alert(1)</script>"))
    artifact = Artifact.objects.create(
        workload=job,
        path="re\u202esults/evil na\u202eme.html",
        size_bytes=25,
        mtime_ns=1,
        storage_key=key,
        uploaded_at=now(),
    )
    answer = client.get(f"/trainings/{job.pk}/artifacts/{artifact.pk}/")
    assert body_of(answer) == b"<script>alert(1)</script>"
    assert answer["Content-Type"] == "application/octet-stream"
    assert answer["Content-Disposition"] == 'attachment; filename="evil na-me.html"'
    page = client.get(f"/trainings/{job.pk}/").content.decode()
    assert "\u202e" not in page
    assert r"re\u202esults/" in page
    assert r"evil na\u202eme.html" in page
    assert answer["X-Content-Type-Options"] == "nosniff"


def test_an_artifact_that_has_not_arrived_is_not_there(alice: Tenant, client: Client) -> None:
    job = full_job(alice)
    missing = job.artifacts.get(path="later.bin")
    assert client.get(f"/trainings/{job.pk}/artifacts/{missing.pk}/").status_code == 404


def test_an_artifact_that_the_store_has_lost_is_not_there(alice: Tenant, client: Client) -> None:
    artifact = full_job(alice).artifacts.get(uploaded_at__isnull=False)
    Artifact.objects.filter(pk=artifact.pk).update(storage_key="nothing/under/this/key")
    for start in ("/trainings", "/api/v1/jobs"):
        path = f"{start}/{artifact.workload_id}/artifacts/{artifact.pk}/"
        answer = client.get(path)
        assert answer.status_code == 404
        assert "is no longer in the object store" in answer.content.decode()


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
