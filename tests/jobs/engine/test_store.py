"""How one tick is written and read: all jobs together, and one that is broken stops no other."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext
from django.utils.timezone import now
from pytest_django import DjangoAssertNumQueries

from jobs.engine import store
from jobs.engine.events import base_name
from jobs.engine.queue_rows import read_queue
from jobs.engine.reservations import ClosedNodes, avoided_nodes
from jobs.engine.rows import Change
from jobs.kinds.plan import EventNote, Plan
from jobs.kinds.state import ArchiveRow, AttemptRow, ReplicaKey, ReplicaRow
from jobs.models import WITH_WORK, Replica, ReplicaArchive, Workload
from jobs.places import NodeReservation
from jobs.rules.states import ReplicaState
from jobs.scheduling.models import NodeHold
from portal.cluster import names
from tenants.models import Tenant
from tests.factories import make_job, make_service, make_tenant, new_job

pytestmark = pytest.mark.django_db
GIVEN_BACK = [(goal, False) for goal in ("queue", "stop", "fail")]
KEY = ReplicaKey("worker", 0, 1)
RUNS = Plan(replicas=(ReplicaRow(KEY, pod="p", state=ReplicaState.RUNNING, restarts=3),))


@pytest.fixture
def tenant() -> Tenant:
    return make_tenant()


def jobs_of(tenant: Tenant, count: int) -> list[Workload]:
    """Trainings and notebooks in turn."""
    makers = [make_job, make_service]
    return [makers[number % 2](tenant, name=f"w {number}") for number in range(count)]


def changes(jobs: list[Workload], **plan: Any) -> list[Change]:
    return [Change(job.pk, Plan(**plan) if plan else RUNS, now()) for job in jobs]


def revision(job: Workload) -> int:
    return Workload.objects.get(pk=job.pk).revision


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
    assert Workload.objects.get(pk=job.pk).state == "running"
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
    attempt = AttemptRow(1, "first", at, at, at + timedelta(seconds=9), "oom", "No memory.", 137)
    past = AttemptRow(7, "retry")  # of another number than the row's
    store.save(changes([job], replicas=(row, other), attempts=(AttemptRow(1, "retry"), past)))
    store.save(changes([job], attempts=(attempt,)))
    kept = ArchiveRow(KEY, True, "its uid", 137, at)
    columns = {name: getattr(kept, name) for name in ("is_complete", "pod_uid", "exit_code")}
    ReplicaArchive.objects.create(
        workload=job, role="worker", index=0, attempt=1, completed_at=at, **columns
    )
    loaded = store.load([job.pk]).rows[job.pk]
    assert list(loaded.replicas.values()) == [other, row]  # by role and index
    assert loaded.archives == {KEY: kept}
    assert loaded.attempt == attempt
    assert job.attempts.count() == 2


def test_one_that_cannot_be_written_stops_no_other(
    tenant: Tenant, caplog: pytest.LogCaptureFixture
) -> None:
    good, bad, fine = jobs_of(tenant, 3)
    before = revision(good)
    note = EventNote("homeport-1", "", "admitted", "Admitted")
    broken = Plan(columns={"state": None}, replicas=RUNS.replicas, events=(note,))
    written = store.save(
        [
            *changes([good]),
            Change(bad.pk, broken, now()),
            *changes([fine], events=(note,)),
        ]
    )
    assert [saved.workload_id for saved in written] == [good.pk, fine.pk]
    assert [revision(job) for job in (good, bad, fine)] == [before + 1, before, before + 1]
    assert not Replica.objects.filter(workload=bad).exists()
    assert Replica.objects.filter(workload=good).count() == fine.events.count() == 1
    assert str(bad.pk) in caplog.text


def test_a_database_that_fails_is_no_broken_job(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any) -> None:
        raise OperationalError("the disk is full")

    monkeypatch.setattr(store, "save_replicas", fail)
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
    assert not Workload.objects.exists()
    assert store.save(changes([job], delete_row=True)) == []


def test_a_replica_that_cannot_be_read_stops_only_its_job(tenant: Tenant) -> None:
    good, bad = jobs_of(tenant, 2)
    store.save(changes([good, bad]))
    Replica.objects.filter(workload=bad).update(state="on holiday")
    loaded = store.load([good.pk, bad.pk])
    assert loaded.rows.keys() == {good.pk}
    assert "on holiday" in loaded.broken[bad.pk]


def test_what_may_have_work_is_found_without_a_look_at_all_rows(tenant: Tenant) -> None:
    over = {"cleaned_at": now(), "observed_generation": 1}
    Workload.objects.bulk_create(new_job(tenant, **over) for _ in range(2000))
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":  # it chooses by what it knows of the rows
            cursor.execute("ANALYZE jobs_workload")
    rows = Workload.objects.filter(WITH_WORK, tenant__state="active").order_by()
    assert "workloads_with_work" in rows.explain()


@pytest.mark.parametrize(("goal", "is_held"), [("", True), ("retry", True), *GIVEN_BACK])
def test_what_is_taken_down_for_good_or_for_the_queue_holds_no_room(
    tenant: Tenant, goal: str, is_held: bool
) -> None:
    rows = {"state": "running", "notes": {"teardown": goal} if goal else {}}
    make_job(tenant, **rows)
    make_service(tenant, **rows, observed_generation=1)
    make_service(tenant, observed_generation=1)  # without a queue nobody asks
    admitted = read_queue(now()).admitted
    assert [bool(one.requests) for one in admitted] == [is_held, is_held]


def test_between_two_attempts_all_room_is_held(tenant: Tenant) -> None:
    make_service(tenant, observed_generation=1)
    for state in ("restarting", "running"):
        job = make_job(tenant, name=state, state=state, notes={"teardown": "retry"})
        Replica.objects.create(workload=job, role="worker", index=0, attempt=1, state="succeeded")
    outstanding = {str(one.workload_id): dict(one.ended) for one in read_queue(now()).admitted}
    names = {str(job.pk): job.name for job in Workload.objects.all()}
    assert {names[pk]: ended for pk, ended in outstanding.items()} == {
        "restarting": {},
        "running": {"worker": 1},
    }


def test_an_attempt_keeps_off_nodes_that_are_kept_but_not_off_its_own(tenant: Tenant) -> None:
    soon, late = now() + timedelta(hours=1), now() + timedelta(hours=2)
    waits = make_job(tenant, observed_generation=1)
    room = [[name, [1, 1, 1, 1, 0]] for name in ("a", "b")]
    NodeReservation.objects.create(workload=waits, room=room, starts_at=soon)
    job = make_job(tenant, state="restarting", ends_by=late, attempt=2)
    for attempt, node in ((1, "b"), (2, "a")):
        where = {"role": "worker", "index": 0, "attempt": attempt, "node": node}
        Replica.objects.create(workload=job, **where)
    closed = ClosedNodes(now())
    assert avoided_nodes(job.pk, closed) == ("b",)
    Workload.objects.filter(pk=job.pk).update(ends_by=soon)
    assert avoided_nodes(job.pk, closed) == ()
    assert avoided_nodes(waits.pk, closed) == ()


def test_which_nodes_are_closed_is_read_once_for_all_that_try_again(tenant: Tenant) -> None:
    jobs = [make_job(tenant, name=f"w{i}", state="restarting", attempt=2) for i in range(3)]
    NodeHold.objects.create(node="held", from_at=now(), held_by="root")
    with CaptureQueriesContext(connection) as asked:
        assert len(store.save(changes(jobs, render=True, columns={"attempt": 2}))) == 3
    read = [one["sql"] for one in asked if 'FROM "scheduling_nodehold"' in one["sql"]]
    assert len(read) == 1
    for job in jobs:
        assert '"held"' in json.dumps(Workload.objects.get(pk=job.pk).plan)


def test_events_are_of_the_generation_that_is_observed(tenant: Tenant) -> None:
    rows = [
        make_job(tenant),
        make_service(tenant),
        make_service(tenant, generation=4, observed_generation=3),
    ]
    store.save(changes(rows, events=(EventNote("homeport-1", "", "admitted", "It has room."),)))
    assert [row.events.get().generation for row in rows] == [1, 1, 3]


def test_names_are_of_the_attempt_and_begin_with_those_of_the_generations_first(
    tenant: Tenant,
) -> None:
    rows = [
        make_job(tenant, name="a", attempt=2),
        make_service(tenant, name="b", generation=3, observed_generation=3),
        make_service(tenant, name="c", generation=1001, observed_generation=1001),
    ]
    loaded = {pk: found.row for pk, found in store.load([row.pk for row in rows]).rows.items()}
    found = [(loaded[row.pk].kube_name, base_name(loaded[row.pk])) for row in rows]
    first, third, many = (names.job_name(row.name, row.pk) for row in rows)
    assert found == [(f"{first}-2", first), (f"{third}-3", f"{third}-3"), (f"{many}-2",) * 2]
