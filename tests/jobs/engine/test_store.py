"""How one tick is written and read: all jobs together, and one that is broken stops no other."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError
from django.utils.timezone import now
from pytest_django import DjangoAssertNumQueries

from jobs.engine import job_rows, store
from jobs.engine.rows import Change
from jobs.kinds.state import ArchiveRow, EventNote, Plan, ReplicaKey, ReplicaRow
from jobs.models import Job, Replica, ReplicaArchive
from jobs.rules.states import ReplicaState
from tenants.models import Tenant
from tests.factories import make_job, make_tenant

pytestmark = pytest.mark.django_db
KEY = ReplicaKey("worker", 0, 1)
RUNS = Plan(replicas=(ReplicaRow(KEY, pod="p", state=ReplicaState.RUNNING, restarts=3),))


@pytest.fixture
def tenant() -> Tenant:
    return make_tenant()


def jobs_of(tenant: Tenant, count: int) -> list[Job]:
    return [make_job(tenant, name=f"job {number}") for number in range(count)]


def changes(jobs: list[Job], **plan: Any) -> list[Change]:
    return [Change(job.pk, job_rows.KEY, Plan(**plan) if plan else RUNS, now()) for job in jobs]


def revision(job: Job) -> int:
    return Job.objects.get(pk=job.pk).revision


def test_many_jobs_cost_no_more_queries_than_one(
    tenant: Tenant, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    jobs = jobs_of(tenant, 21)
    with django_assert_num_queries(5):  # savepoint, revisions, what they are now, replicas, release
        store.save(changes(jobs[:1]))
    with django_assert_num_queries(5):
        store.save(changes(jobs[1:]))
    assert Replica.objects.filter(restarts=3).count() == 21
    with django_assert_num_queries(4):
        store.load([job.pk for job in jobs[:1]])
    with django_assert_num_queries(4):
        store.load([job.pk for job in jobs])


def test_each_job_is_one_revision_further(tenant: Tenant) -> None:
    job, other = jobs_of(tenant, 2)
    before = revision(job)
    first, second = store.save(
        [*changes([job], columns={"state": "running"}, replicas=RUNS.replicas), *changes([other])]
    )
    assert (first.workload_id, first.revision, first.tenant_id) == (job.pk, before + 1, tenant.pk)
    assert (second.workload_id, second.revision) == (other.pk, before + 1)
    assert revision(other) == before + 1
    assert Job.objects.get(pk=job.pk).state == "running"
    assert store.load([job.pk]).rows[job.pk].replicas == {KEY: RUNS.replicas[0]}


def test_what_is_read_is_what_was_written(tenant: Tenant) -> None:
    (job,) = jobs_of(tenant, 1)
    at = now()
    row = ReplicaRow(
        KEY,
        incarnation=2,
        pod="a pod",
        pod_uid="its uid",
        node="a node",
        gpus="0,3",
        state=ReplicaState.FAILED,
        exit_code=137,
        reason_code="oom",
        reason_text="It wanted more memory.",
        restarts=5,
        started_at=at,
        finished_at=at + timedelta(seconds=9),
    )
    other = ReplicaRow(ReplicaKey("ps", 1, 1))
    store.save(changes([job], replicas=(row, other)))
    kept = ArchiveRow(KEY, True, "its uid", 137, at)
    columns = {name: getattr(kept, name) for name in ("is_complete", "pod_uid", "exit_code")}
    ReplicaArchive.objects.create(
        job=job, role="worker", index=0, attempt=1, completed_at=at, **columns
    )
    loaded = store.load([job.pk]).rows[job.pk]
    assert list(loaded.replicas.values()) == [other, row]  # by role and index
    assert loaded.archives == {KEY: kept}


def test_one_that_cannot_be_written_stops_no_other(
    tenant: Tenant, caplog: pytest.LogCaptureFixture
) -> None:
    good, bad, fine = jobs_of(tenant, 3)
    before = revision(good)
    note = EventNote("homeport-1", "", "admitted", "It has room now.")
    broken = Plan(columns={"state": None}, replicas=RUNS.replicas, events=(note,))
    written = store.save(
        [
            *changes([good]),
            Change(bad.pk, job_rows.KEY, broken, now()),
            *changes([fine], events=(note,)),
        ]
    )
    assert [saved.workload_id for saved in written] == [good.pk, fine.pk]
    assert [revision(job) for job in (good, bad, fine)] == [before + 1, before, before + 1]
    assert not Replica.objects.filter(job=bad).exists()
    assert Replica.objects.filter(job=good).count() == fine.events.count() == 1
    assert str(bad.pk) in caplog.text


def test_a_database_that_fails_is_no_broken_job(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any) -> None:
        raise OperationalError("the disk is full")

    monkeypatch.setattr(job_rows, "save_replicas", fail)
    with pytest.raises(OperationalError):
        store.save(changes(jobs_of(tenant, 1)))


def test_a_row_that_is_gone_is_left_out(tenant: Tenant) -> None:
    job, gone = jobs_of(tenant, 2)
    wanted = changes([gone, job])
    gone.delete()
    assert [saved.workload_id for saved in store.save(wanted)] == [job.pk]


def test_a_row_is_deleted_and_told_of(tenant: Tenant) -> None:
    (job,) = jobs_of(tenant, 1)
    before = revision(job)
    (told,) = store.save(changes([job], delete_row=True))
    assert (told.workload_id, told.tenant_id, told.revision) == (job.pk, tenant.pk, before + 1)
    assert not Job.objects.exists()
    assert store.save(changes([job], delete_row=True)) == []


def test_a_replica_that_cannot_be_read_stops_only_its_job(tenant: Tenant) -> None:
    good, bad = jobs_of(tenant, 2)
    store.save(changes([good, bad]))
    Replica.objects.filter(job=bad).update(state="on holiday")
    loaded = store.load([good.pk, bad.pk])
    assert loaded.rows.keys() == {good.pk}
    assert "on holiday" in loaded.broken[bad.pk].text
