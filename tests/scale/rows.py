"""Fills a database with a lab of any size, in bulk: people, tenants, trainings, services, history.

Rows only: there is no cluster behind them. One person (`Cast.ada`) has a share of everything, so that
pages of one's own grow as well as those of a lead and of an admin. `fill` may be called again: what it
makes comes on top of what is there.
"""

import io
import itertools
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.utils.timezone import now

from jobs.models import (
    Artifact,
    Bundle,
    LogSegment,
    Node,
    ReconcilerLease,
    Replica,
    ReplicaArchive,
    Workload,
    WorkloadEvent,
)
from jobs.usage.models import UsageInterval
from portal.storage import get_store
from tenants.models import (
    ApiToken,
    AuditEntry,
    Team,
    Tenant,
    User,
)
from tenants.people.models import Session
from tests.e2e.seed_fleet import report
from tests.factories import make_service, make_template, new_job, new_service
from tests.scale.people import make_account, make_teams, make_tenants
from tests.scale.sizes import GIB, Size, bulk, shares

STORED = "scale/stored"  # the one object that all logs and artifacts share
STATES = ("succeeded", "succeeded", "failed", "succeeded", "stopped")


@dataclass
class Cast:
    """Whom and what pages are opened with."""

    ada: User
    lead: User
    root: User
    team: Team
    tenant: Tenant
    job: Workload
    artifact: Artifact
    services: dict[str, Workload]
    token: ApiToken
    session: Session


def fill(size: Size) -> Cast:
    """Makes all rows of this size."""
    at = now()
    teams = make_teams(size)
    root, _ = User.objects.get_or_create(username="root", defaults={"role": "admin"})
    tenants = make_tenants(size, teams, at)
    tenant = tenants[0]
    assert tenant.team is not None
    lead, _ = User.objects.get_or_create(username="lee", defaults={"team": tenant.team})
    tenant.team.leads.add(lead)
    _finished(size, tenants, at)
    going = _going(size, tenants, at)
    services = _services(size, tenants, at)
    _nodes(size, [*going, *services], at)
    _history(size, tenants, at)
    job = _inside_job(size, tenant, at)
    later = at + timedelta(days=1)  # nobody renews it here, and silence has a banner
    ReconcilerLease.objects.update_or_create(
        pk=1,
        defaults={
            "holder": "scale",
            "renewed_at": later,
            "cluster_ok_at": later,
            "health": report(at),
        },
    )
    artifact = job.artifacts.first()
    assert artifact is not None
    own = {kind: _inside_service(size, tenant, kind, at) for kind in ("notebook", "tensorboard")}
    token, session = make_account(size, tenant.owner, at)
    return Cast(tenant.owner, lead, root, tenant.team, tenant, job, artifact, own, token, session)


def _replicas(count: int, gpu: int) -> dict[str, dict[str, int]]:
    each = {"cpu_millicores": 2000, "memory_bytes": 4 * GIB}
    return {
        "worker": {"count": count, **each, "gpu_count": gpu},
        "ps": {"count": 1, **each, "gpu_count": 0},
    }


def _job(tenant: Tenant, number: int, **changes: Any) -> Workload:
    columns: dict[str, Any] = {
        "name": f"sweep lr {number % 7} seed {number}",
        "topology": "tf-ps",
        "image": "tensorflow/tensorflow:2.21.0",
        "command": ("python", "train.py", "--seed", str(number)),
        "replicas": _replicas(2, number % 3),
        **changes,
    }
    return new_job(tenant, **columns)


def _finished(size: Size, tenants: list[Tenant], at: datetime) -> None:
    """Ended trainings with all that they leave."""
    made = []
    for number, tenant in enumerate(shares(tenants, size.finished)):
        ended = at - timedelta(minutes=7 * number + 60)
        state = STATES[number % len(STATES)]
        words = {"reason_text": "worker-0 ended with exit code 1."} if state == "failed" else {}
        made.append(
            _job(
                tenant,
                number,
                state=state,
                queued_at=ended - timedelta(minutes=50),
                admitted_at=ended - timedelta(minutes=49),
                started_at=ended - timedelta(minutes=48),
                finished_at=ended,
                cleaned_at=ended,
                **words,
            )
        )
    bulk(Workload, made)
    _add_replicas(made, exit_code=0)
    bulk(WorkloadEvent, (event for job in made for event in _events(job, 3)))
    archives = bulk(
        ReplicaArchive,
        (
            ReplicaArchive(workload=job, role="worker", index=0, attempt=1, is_complete=True)
            for job in made
        ),
    )
    bulk(LogSegment, (_segment(archive, 16_000) for archive in archives))
    bulk(Artifact, (_artifact(job, "model.ckpt") for job in made))


def _events(row: Workload, count: int) -> Iterator[WorkloadEvent]:
    for number in range(count):
        yield WorkloadEvent(
            workload=row,
            uid=f"event-{number}",
            at=row.queued_at + timedelta(seconds=number),
            source="homeport",
            reason="Admitted",
            message="All replicas fit: quota and nodes have room.",
        )


def _artifact(job: Workload, path: str) -> Artifact:
    return Artifact(
        workload=job,
        path=path,
        size_bytes=16_000,
        mtime_ns=1,
        storage_key=STORED,
        uploaded_at=job.queued_at,
    )


def _going(size: Size, tenants: list[Tenant], at: datetime) -> list[Workload]:
    """Trainings that run, and those that wait with a reason; those that run are returned."""
    running = [
        _job(
            tenant,
            number,
            name=f"runs {number}",
            state="running",
            replicas=_replicas(2, 1),
            queued_at=at - timedelta(hours=3, minutes=number),
            admitted_at=at - timedelta(hours=2),
            started_at=at - timedelta(hours=2),
        )
        for number, tenant in enumerate(shares(tenants, size.running))
    ]
    queued = [
        _job(
            tenant,
            number,
            name=f"waits {number}",
            queued_at=at - timedelta(minutes=number),
            reason_code="quota",
            reason_text="Waiting for quota: needs 2 GPUs, 0 of 2 free",
            reason_next_step="It starts when something of yours ends.",
        )
        for number, tenant in enumerate(shares(tenants, size.queued))
    ]
    bulk(Workload, [*running, *queued])
    _add_replicas(running, gpus="0")
    return running


def _add_replicas(jobs: list[Workload], **columns: Any) -> None:
    """Two workers and a parameter server of each, in its state."""
    bulk(
        Replica,
        (
            Replica(workload=job, role=role, index=index, state=job.state, node="node-0", **columns)
            for job in jobs
            for role, index in (("worker", 0), ("worker", 1), ("ps", 0))
        ),
    )


def _services(size: Size, tenants: list[Tenant], at: datetime) -> list[Workload]:
    """Notebooks and TensorBoards; the notebooks that run are returned."""
    states = ("running", "stopped", "queued", "running", "stopped", "failed")
    made = [
        new_service(
            tenant,
            kind=kind,
            name=f"{kind} {number}",
            gpu_count=int(kind == "notebook"),
            state=states[number % len(states)],
            created_at=at - timedelta(hours=number),
            queued_at=at - timedelta(hours=number),
            started_at=at - timedelta(hours=number),
        )
        for kind in ("notebook", "tensorboard")
        for number, tenant in enumerate(shares(tenants, size.services))
    ]
    bulk(Workload, made)
    bulk(Replica, (Replica(workload=row, role=row.kind, index=0, node="node-0") for row in made))
    bulk(WorkloadEvent, (event for service in made for event in _events(service, 3)))
    return [row for row in made if row.state == "running" and row.kind == "notebook"]


def _nodes(size: Size, holding: list[Any], at: datetime) -> None:
    have = Node.objects.count()
    holders = itertools.cycle(holding)
    amounts = {"cpu": 64_000, "memory": 512 * GIB, "gpu": 8, "pods": 110}
    made = []
    for number in range(size.nodes):
        rows = [next(holders) for _ in range(6)]
        made.append(
            Node(
                name=f"node-{have + number}",
                is_ready=True,
                is_schedulable=number % 7 != 6,
                capacity=amounts,
                allocatable={**amounts, "gpu": 8 - (number % 5 == 4)},
                requested={"cpu": 24_000, "memory": 90 * GIB, "gpu": 6, "pods": 30},
                labels={"nvidia.com/gpu.product": "NVIDIA-H100", "zone": f"rack-{number % 4}"},
                conditions=[
                    {"type": "Ready", "status": "True", "reason": "", "message": "", "since": None}
                ],
                holders=[
                    {
                        "namespace": row.tenant.namespace,
                        "pod": f"pod-{number}-{place}",
                        "owner": str(row.pk),
                        "gpu": 1,
                        "gpus": str(place),
                        "since": at.isoformat(),
                    }
                    for place, row in enumerate(rows)
                ],
            )
        )
    bulk(Node, made)


def _history(size: Size, tenants: list[Tenant], at: datetime) -> None:
    verbs = ("job.submit", "job.stop", "sign_in", "tenant.quota")
    bulk(
        AuditEntry,
        (
            AuditEntry(
                at=at - timedelta(minutes=number),
                actor=tenant.owner,
                actor_name=tenant.owner.username,
                verb=verbs[number % len(verbs)],
                kind="job",
                object_id=str(tenant.pk),
                object_name=f"sweep {number}",
                source_address="10.1.2.3",
                detail={"from": 1, "to": number},
            )
            for number, tenant in enumerate(shares(tenants, size.audit))
        ),
    )
    bulk(
        UsageInterval,
        (
            UsageInterval(
                tenant=tenant,
                owner=tenant.owner,
                team=tenant.team,
                kind="job",
                object_id=uuid.uuid4(),
                object_name=f"sweep {number}",
                pod_uid=str(uuid.uuid4()),
                node="node-0",
                gpu_count=number % 4,
                cpu_millicores=2000,
                memory_bytes=4 * GIB,
                started_at=at - timedelta(minutes=5 * number + 45),
                ended_at=at - timedelta(minutes=5 * number) if number % 40 else None,
            )
            for number, tenant in enumerate(shares(tenants, size.usage))
        ),
    )


def _inside_job(size: Size, tenant: Tenant, at: datetime) -> Workload:
    """One training with many replicas, events and artifacts."""
    bundle = Bundle.objects.create(
        tenant=tenant, file_name="code.zip", sha256=uuid.uuid4().hex, size_bytes=1
    )
    make_template(tenant.owner, name=str(bundle.pk))
    job = _job(
        tenant,
        0,
        name="the one that is opened",
        source={"bundle": str(bundle.pk)},
        state="succeeded",
        attempt=2,
        replicas=_replicas(size.inside, 1),
        queued_at=at - timedelta(hours=9),
        admitted_at=at - timedelta(hours=9),
        started_at=at - timedelta(hours=8),
        finished_at=at - timedelta(hours=1),
        plan=[{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": n}} for n in "abcdef"],
    )
    job.save()
    bulk(
        Replica,
        (
            Replica(
                workload=job,
                role=role,
                index=index,
                attempt=attempt,
                state="succeeded",
                exit_code=0,
            )
            for attempt in (1, 2)
            for role, count in (("worker", size.inside), ("ps", 1))
            for index in range(count)
        ),
    )
    bulk(WorkloadEvent, _events(job, 4 * size.inside))
    bulk(Artifact, (_artifact(job, f"checkpoints/{n}") for n in range(4 * size.inside)))
    text = b"step 1 loss 0.5\n" * 1000
    get_store().put_file(STORED, io.BytesIO(text))
    archives = bulk(
        ReplicaArchive,
        (
            ReplicaArchive(workload=job, role="worker", index=index, attempt=2, is_complete=True)
            for index in range(size.inside)
        ),
    )
    bulk(LogSegment, (_segment(archive, len(text)) for archive in archives))
    return job


def _segment(archive: ReplicaArchive, size_bytes: int) -> LogSegment:
    where = {"number": 0, "start_byte": 0, "storage_key": STORED}
    return LogSegment(archive=archive, size_bytes=size_bytes, sha256="0", **where)


def _inside_service(size: Size, tenant: Tenant, kind: str, at: datetime) -> Workload:
    """One notebook or TensorBoard that has stopped, with many events; another one waits."""
    make_service(
        tenant,
        kind=kind,
        name=f"the {kind} that waits",
        reason_text="Waiting for quota: needs 1 CPU",
    )
    service = make_service(
        tenant,
        kind=kind,
        name=f"the {kind} that is opened",
        state="stopped",
        desired="stop",
        created_at=at - timedelta(days=1),
        finished_at=at - timedelta(hours=1),
    )
    bulk(WorkloadEvent, _events(service, 4 * size.inside))
    return service
