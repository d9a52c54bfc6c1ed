"""Ends of what people store and queue: totals with arithmetic, caps, pace, and what goes by itself."""

import hashlib
import io
import zipfile
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from jobs import limits, retention, uploads
from jobs.kinds.training.kind import TRAINING
from jobs.models import Artifact, Bundle, LogSegment, ReplicaArchive, Workload
from jobs.pod_api import logs, runner
from jobs.rules.states import WorkloadState
from jobs.workloads import actions
from portal.errors import Refused
from portal.storage import get_store
from tenants.actions import MAX_TOKENS, create_token
from tenants.audit.record import record
from tenants.models import ApiToken, AuditEntry, Tenant
from tests.factories import make_job, make_tenant, submit_body
from tests.jobs.pods_door import Door, segment

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)


@pytest.fixture
def alice() -> Tenant:
    return make_tenant("alice")


@pytest.fixture
def rest(alice: Tenant) -> Client:
    _token, plain = create_token(by=alice.owner, name="t")
    return Client(HTTP_HOST="localhost", headers={"Authorization": f"Token {plain}"})


def archive(text: str) -> io.BytesIO:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        file.writestr(zipfile.ZipInfo("train.py"), text)  # always of one time
    made.seek(0)
    made.name = "code.zip"
    return made


def upload(rest: Client, text: str = "print(1)") -> Any:
    return rest.post("/api/v1/bundles/", {"file": archive(text)})


def errors(answer: Any) -> list[tuple[str, str]]:
    return [(error["code"], error["text"]) for error in answer.json()["errors"]]


def test_an_upload_goes_with_the_last_of_its_bytes(rest: Client, alice: Tenant) -> None:
    first, second = (upload(rest).json() for _ in range(2))
    key = Bundle.objects.get(pk=first["id"]).storage_key
    job = make_job(alice, source={"bundle": first["id"]})
    in_use = rest.delete(f"/api/v1/bundles/{first['id']}/")
    assert (in_use.status_code, errors(in_use)[0][0]) == (409, "in_use")
    # The other one goes while the training may be fetching: the bytes are still the first's.
    assert rest.delete(f"/api/v1/bundles/{second['id']}/").status_code == 204
    assert get_store().exists(key)
    Workload.objects.filter(pk=job.pk).update(state=WorkloadState.SUCCEEDED)
    assert rest.delete(f"/api/v1/bundles/{first['id']}/").status_code == 204
    assert not get_store().exists(key)
    assert rest.delete(f"/api/v1/bundles/{first['id']}/").status_code == 404
    assert AuditEntry.objects.filter(verb="delete", kind="bundle").count() == 2
    again = upload(rest)
    assert again.status_code == 201
    assert get_store().exists(key)


def test_an_upload_that_was_deleted_a_moment_ago_starts_no_training(
    rest: Client, alice: Tenant
) -> None:
    bundle = Bundle.objects.get(pk=upload(rest).json()["id"])
    body = submit_body(source={"bundle": str(bundle.pk)})
    checked = TRAINING.read(body, tenant=alice, user=alice.owner)
    uploads.delete(by=alice.owner, bundle=bundle)
    with pytest.raises(Refused) as refusal:
        actions.submit(by=alice.owner, tenant=alice, kind=TRAINING, spec=checked)
    assert [error.field for error in refusal.value.errors] == ["source.bundle"]
    assert not Workload.objects.exists()


@pytest.mark.parametrize("desired", ["deleted", "purged"])
def test_nothing_is_kept_for_a_namespace_that_is_being_deleted(
    rest: Client, alice: Tenant, desired: str
) -> None:
    kept = Bundle.objects.get(pk=upload(rest).json()["id"])
    Tenant.objects.filter(pk=alice.pk).update(desired=desired, state="deleting")
    for text, are_kept in (("print(1)", True), ("print(2)", False)):
        answer = upload(rest, text)
        [(code, said)] = errors(answer)
        assert (answer.status_code, code) == (409, "tenant_deleted")
        assert "Ask your admin" in said
        sha256 = hashlib.sha256(archive(text).read()).hexdigest()
        lone = Bundle(tenant=alice, sha256=sha256)
        assert get_store().exists(lone.storage_key) == are_kept
    assert Bundle.objects.get() == kept


def test_uploads_of_others_are_not_there(rest: Client) -> None:
    other = Bundle.objects.create(
        tenant=make_tenant("mallory"), file_name="a", sha256="a" * 64, size_bytes=1
    )
    assert rest.delete(f"/api/v1/bundles/{other.pk}/").status_code == 404
    assert Bundle.objects.filter(pk=other.pk).exists()


def test_uploads_are_deleted_by_page_too(rest: Client, alice: Tenant) -> None:
    made = upload(rest).json()
    browser = Client(HTTP_HOST="localhost")
    browser.force_login(alice.owner)
    page = browser.get("/uploads/").content.decode()
    assert "code.zip" in page
    assert "of uploads + 0 B of logs" in page
    address = f"/uploads/{made['id']}/delete/"
    assert "Delete permanently" in browser.get(address).content.decode()
    job = make_job(alice, source={"bundle": made["id"]})
    refused = browser.post(address)
    assert refused.status_code == 409
    assert "1 training that has not ended" in refused.content.decode()
    Workload.objects.filter(pk=job.pk).update(state=WorkloadState.STOPPED)
    assert browser.post(address)["Location"] == "/uploads/"
    assert "No uploads" in browser.get("/uploads/").content.decode()


def test_a_namespace_keeps_so_many_bytes_of_all_together(
    rest: Client, alice: Tenant, settings: Any
) -> None:
    settings.STORE_MAX_BYTES_PER_TENANT = 10_000
    job = make_job(alice)
    row = ReplicaArchive.objects.create(workload=job, role="worker", index=0, attempt=1)
    LogSegment.objects.create(
        archive=row, number=1, start_byte=0, size_bytes=4000, sha256="0" * 64, storage_key="x"
    )
    Artifact.objects.create(
        workload=job,
        path="a",
        size_bytes=5000,
        mtime_ns=0,
        storage_key="y",
        uploaded_at=timezone.now(),
    )
    # Announced and never sent: it holds nothing.
    Artifact.objects.create(workload=job, path="b", size_bytes=9000, mtime_ns=0, storage_key="z")
    assert upload(rest).status_code == 201
    assert upload(rest).status_code == 201  # the same content again
    stored = limits.stored_of(alice.pk)
    assert (stored.logs_bytes, stored.artifacts_bytes) == (4000, 5000)
    assert 0 < stored.uploads_bytes < 500
    full = upload(rest, "x" * 50_000 + uuid4().hex * 50)
    [(code, text)] = errors(full)
    assert (full.status_code, code) == (413, "store_full")
    assert "3.9 KiB of logs + 4.9 KiB of output files" in text
    assert "9.8 KiB" in text
    runner._ROOM.clear()
    assert runner.no_room(job, 3000)
    assert not runner.no_room(job, 1)  # which fits, whatever did not a moment ago
    settings.STORE_MAX_BYTES_PER_TENANT = 0
    runner._ROOM.clear()
    assert not runner.no_room(job, 10**15)


@pytest.mark.skipif(connection.vendor != "sqlite", reason="how SQLite says what it reads")
def test_the_sum_of_many_segments_reads_an_index_alone(alice: Tenant) -> None:
    with CaptureQueriesContext(connection) as seen:
        limits.stored_of(alice.pk)
    (query,) = [one["sql"] for one in seen if "jobs_logsegment" in one["sql"]]
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {query}")
        steps = [row[-1] for row in cursor.fetchall()]
    assert [step for step in steps if "USING COVERING INDEX segment_sizes" in step], steps


def test_the_queue_of_a_namespace_ends(rest: Client, alice: Tenant, settings: Any) -> None:
    settings.MAX_UNFINISHED_TRAININGS = 2
    for state in (WorkloadState.QUEUED, WorkloadState.RUNNING, WorkloadState.FAILED):
        make_job(alice, state=state)
    answer = rest.post("/api/v1/jobs/", submit_body(), content_type="application/json")
    assert (answer.status_code, errors(answer)[0][0]) == (409, "too_many_trainings")
    browser = Client(HTTP_HOST="localhost")
    browser.force_login(alice.owner)
    form = {"name": "x", "image": "python:3.11-slim", "command": "python x.py"}
    page = browser.post("/trainings/new/", {**form, "source_kind": "none", "topology": "single"})
    assert "2 trainings of this namespace are queued, running or suspended" in page.content.decode()
    Workload.objects.filter(state=WorkloadState.RUNNING).update(state=WorkloadState.STOPPED)
    answer = rest.post("/api/v1/jobs/", submit_body(), content_type="application/json")
    assert answer.status_code == 201


def test_nobody_fills_the_queue(rest: Client, alice: Tenant, settings: Any) -> None:
    settings.SUBMITS_PER_MINUTE, settings.MAX_QUEUED = 2, 3
    for _ in range(2):
        make_job(alice, state=WorkloadState.RUNNING)
        assert rest.post("/api/v1/jobs/", submit_body(), "application/json").status_code == 201
    for path, body in (("jobs", submit_body()), ("notebooks", {"name": "n"})):
        answer = rest.post(f"/api/v1/{path}/", body, "application/json")
        assert (answer.status_code, errors(answer)[0][0]) == (429, "too_many_submits")
        assert 1 <= int(answer["Retry-After"]) <= 60
    settings.SUBMITS_PER_MINUTE = 30
    assert rest.post("/api/v1/jobs/", submit_body(), "application/json").status_code == 201
    answer = rest.post("/api/v1/notebooks/", {"name": "n"}, "application/json")
    assert (answer.status_code, errors(answer)[0][0]) == (409, "queue_full")
    # What is stopped makes room at once.
    job = Workload.objects.filter(state=WorkloadState.QUEUED).first()
    Workload.objects.filter(pk=job.pk).update(state=WorkloadState.STOPPED)
    assert rest.post("/api/v1/notebooks/", {"name": "n"}, "application/json").status_code == 201


def test_nobody_writes_faster_than_is_allowed(rest: Client, alice: Tenant, settings: Any) -> None:
    settings.WRITES_PER_MINUTE = 3
    AuditEntry.objects.all()._raw_delete("default")
    for _ in range(3):
        assert upload(rest).status_code == 201
    calls = (
        upload(rest),
        rest.post("/api/v1/jobs/", submit_body(), content_type="application/json"),
        rest.post("/api/v1/notebooks/", {"name": "n"}, content_type="application/json"),
    )
    for answer in calls:
        assert (answer.status_code, errors(answer)[0][0]) == (429, "too_many_writes")
        assert 1 <= int(answer["Retry-After"]) <= 60
    # What makes room is never slowed down, and nobody else is.
    bundle = Bundle.objects.first()
    assert rest.delete(f"/api/v1/bundles/{bundle.pk}/").status_code == 204
    limits.check_pace(make_tenant("bob").owner)


def test_a_person_has_so_many_tokens(rest: Client, alice: Tenant) -> None:
    ApiToken.objects.bulk_create(
        ApiToken(user=alice.owner, digest=f"{n:064}", expires_at=timezone.now() + (n or -1) * DAY)
        for n in range(MAX_TOKENS)  # the first has ended; `rest` has one besides
    )
    browser = Client(HTTP_HOST="localhost")
    browser.force_login(alice.owner)
    page = browser.post("/account/", {"name": "one more"})
    assert page.status_code == 409
    assert f"You have {MAX_TOKENS} API tokens" in page.content.decode()


def test_a_log_has_so_many_segments(alice: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "MAX_SEGMENTS", 2)
    job = make_job(alice, state=WorkloadState.RUNNING)
    row = ReplicaArchive.objects.create(workload=job, role="worker", index=0, attempt=1)
    for number in (1, 2):
        LogSegment.objects.create(
            archive=row,
            number=number,
            start_byte=number,
            size_bytes=1,
            sha256="0" * 64,
            storage_key=str(number),
        )
    door = Door(job)
    assert door.post("replicas/worker/0/1/segments/", segment(3))[0] == 413


def test_what_is_past_its_time_goes_and_nothing_else(
    alice: Tenant, settings: Any, capsys: Any
) -> None:
    now = timezone.now()

    def bundle(name: str, days: int) -> Bundle:
        made = Bundle.objects.create(
            tenant=alice,
            file_name=name,
            sha256=f"{name:0>64}",
            size_bytes=7,
            created_at=now - days * DAY,
        )
        get_store().put_file(made.storage_key, io.BytesIO(b"content"))
        return made

    never, fresh, queued, ended = (
        bundle("a", 8),
        bundle("b", 6),
        bundle("c", 40),
        bundle("d", 90),
    )
    long_ago = bundle("e", 90)
    make_job(alice, source={"bundle": str(queued.pk)})
    for used, days in ((ended, 20), (long_ago, 50)):
        make_job(
            alice,
            source={"bundle": str(used.pk)},
            state=WorkloadState.SUCCEEDED,
            finished_at=now - days * DAY,
        )
    record(by=alice.owner, verb="upload", target=fresh)
    old = AuditEntry.objects.create(
        at=now - 401 * DAY, actor=alice.owner, actor_name="alice", verb="x", kind="y"
    )
    call_command("prune", "--dry-run")
    assert Bundle.objects.count() == 5
    assert "2  uploads  14 B" in capsys.readouterr().out
    counts = {row.what: row.count for row in retention.prune()}
    assert (counts["uploads"], counts["audit entries"]) == (2, 1)
    assert set(Bundle.objects.all()) == {fresh, queued, ended}
    assert not any(get_store().exists(row.storage_key) for row in (never, long_ago))
    assert all(get_store().exists(row.storage_key) for row in (fresh, queued, ended))
    assert not AuditEntry.objects.filter(pk=old.pk).exists()
    assert AuditEntry.objects.filter(verb="upload").exists()
    settings.BUNDLE_KEEP_DAYS = settings.AUDIT_KEEP_DAYS = 0
    assert uploads.unused(now + 9999 * DAY) == []


def test_a_pace_of_none_refuses_and_names_a_minute(alice: Tenant, settings: Any) -> None:
    settings.SUBMITS_PER_MINUTE = 0
    for check in (
        lambda: limits.check_dry_runs(alice.owner),
        lambda: limits.check_submits(alice.owner, alice),
    ):
        with pytest.raises(Refused) as refused:
            check()
        assert (refused.value.status, refused.value.retry_after_s) == (429, 60)
