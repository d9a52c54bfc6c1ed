"""Fills a database with a lab at work: trainings in every state, for screenshots and page tests.

Rows only: there is no cluster behind them. `python -m tests.e2e.seed` fills the database that the
environment names (HOMEPORT_HOME), which must be migrated and empty.
"""

import os
from datetime import datetime, timedelta
from typing import Any

from jobs.rules import reasons
from tests.e2e.seed_fleet import make_nodes, report
from tests.e2e.seed_namespaces import make_namespaces
from tests.e2e.seed_people import make_people
from tests.e2e.seed_services import event, make_services
from tests.e2e.seed_team import make_team
from tests.e2e.seed_use import use

GIB = 1024**3
PASSWORD = "a long demo password"

WORKERS_AND_PS = {
    "worker": {"count": 2, "cpu_millicores": 1000, "memory_bytes": 2 * GIB, "gpu_count": 1},
    "ps": {"count": 1, "cpu_millicores": 1000, "memory_bytes": GIB, "gpu_count": 0},
}
OBJECTS = (
    ("Namespace", "{namespace}", ""),
    ("RoleBinding", "homeport-reconciler", ""),
    ("RoleBinding", "homeport-web", ""),
    ("ResourceQuota", "homeport", "8 CPU, 16Gi, 2 GPU, 20 pods"),
    ("LimitRange", "homeport", ""),
    ("NetworkPolicy", "homeport-boundary", ""),
    ("NetworkPolicy", "homeport-gate", ""),
    ("ServiceAccount", "homeport", ""),
    ("PersistentVolumeClaim", "data", "bound"),
    ("PersistentVolumeClaim", "log", "bound"),
    ("Secret", "homeport", ""),
)


def one(cpu_millicores: int = 1000, memory_bytes: int = 2 * GIB, gpu_count: int = 0) -> Any:
    """The replicas of a single training."""
    asked = {"cpu_millicores": cpu_millicores, "memory_bytes": memory_bytes}
    return {"worker": {"count": 1, **asked, "gpu_count": gpu_count}}


def seed() -> dict[str, Any]:
    """Makes people, tenants and trainings; rows, and what stands in addresses, by a short name."""
    from django.utils.timezone import now

    from jobs.models import ReconcilerLease, UserSecret
    from tenants.models import Team, User
    from tests.factories import make_template

    at = now()
    team = Team.objects.create(name="vision")
    people = {
        name: User.objects.create_user(name, password=PASSWORD, first_name=name.title(), team=team)
        for name in ("ada", "lin", "lee", "new")
    }
    User.objects.create_user("root", password=PASSWORD, first_name="Root", role="admin")
    team.leads.add(people["lee"])
    # Nobody renews this lease while pictures are taken, and a silent reconciler has a banner.
    later = at + timedelta(days=1)
    ReconcilerLease.objects.update_or_create(
        pk=1,
        defaults={
            "holder": "seed",
            "epoch": 1,
            "renewed_at": later,
            "cluster_ok_at": later,
            "health": report(at),
        },
    )
    tenant = make_tenant(people["ada"], at)
    make_tenant(people["lin"], at)
    make_tenant(people["new"], at, is_new=True)
    jobs = make_jobs(tenant, at)
    rows = {**jobs, **make_services(tenant, jobs, at)}
    for name, kind, keys in (
        ("wandb", "generic", ["WANDB_API_KEY"]),
        ("hub", "registry", ["server"]),
    ):
        UserSecret.objects.create(tenant=tenant, name=name, kind=kind, keys=keys, revisions=[1])
    rows["upload-code"] = tenant.bundles.latest("created_at")
    rows["template"] = make_template(tenant.owner)
    stranger = User.objects.create_user("mia", password=PASSWORD, first_name="Mia")
    make_nodes(rows, make_tenant(stranger, at), at)
    rows |= make_team(people["lee"], at)
    rows |= make_namespaces(at, make_tenant)
    return {**rows, **make_people(people["ada"], at)}


def make_tenant(owner: Any, at: datetime, *, is_new: bool = False) -> Any:
    """A tenant that is at work, or one whose objects are being made."""
    from tenants.actions import ensure_tenant
    from tenants.models import TenantObject

    tenant = ensure_tenant(user=owner)
    tenant.state = "provisioning" if is_new else "active"
    if not is_new:
        tenant.observed_hard = tenant.quota
        tenant.observed_used = {"cpu": 5000, "memory": 9 * GIB, "gpu": 2, "pods": 5, "nodeports": 3}
    tenant.save()
    for position, (kind, name, detail) in enumerate(OBJECTS):
        state = "ready"
        if is_new and position > 3:
            state, detail = ("waiting", "") if position == 4 else ("missing", "")
        TenantObject.objects.create(
            tenant=tenant,
            position=position,
            kind=kind,
            name=name.format(namespace=tenant.namespace),
            state=state,
            detail=detail,
            repaired_count=2 if (kind, name) == ("NetworkPolicy", "homeport-gate") else 0,
            since=at - timedelta(hours=3),
        )
    return tenant


def make_jobs(tenant: Any, at: datetime) -> dict[str, Any]:
    """One training in each state that a person meets, and a page more of finished ones."""
    jobs = {
        "running": running(tenant, at),
        "starting": starting(tenant, at),
        "queued": queued(tenant, at),
        "failed": failed(tenant, at),
        "succeeded": succeeded(tenant, at),
        "stopped": stopped(tenant, at),
        "stopping": stopping(tenant, at),
    }
    for number in range(1, 31):
        ended = at - timedelta(days=2, hours=3 * number)
        job = make_job(
            tenant,
            name=f"sweep lr {10 ** -(1 + number % 4)} seed {number}",
            replicas=one(gpu_count=number % 2),
            state="succeeded" if number % 5 else "failed",
            queued_at=ended - timedelta(minutes=42),
            admitted_at=ended - timedelta(minutes=41),
            started_at=ended - timedelta(minutes=40),
            finished_at=ended,
            reason_text="" if number % 5 else "worker-0 ended with exit code 1.",
        )
        replica(
            job,
            state=job.state,
            exit_code=0 if number % 5 else 1,
            started_at=job.started_at,
            finished_at=ended,
        )
    return jobs


def make_job(tenant: Any, **changes: Any) -> Any:
    from tests import factories

    fields: dict[str, Any] = {
        "image": "tensorflow/tensorflow:2.21.0",
        "command": ["python", "train.py", "--epochs", "20", "--data", "{{data_dir}}/cifar10"],
        "replicas": one(),
        **changes,
    }
    return factories.make_job(tenant, **fields)


def replica(job: Any, role: str = "worker", index: int = 0, **changes: Any) -> Any:
    from jobs.models import Replica

    stem = "".join(c if c.isalnum() else "-" for c in job.name.lower())[:30].strip("-")
    pod = changes.pop("pod", f"{stem}-k3v9qz-{role}-{index}-x{index}7tq")
    return Replica.objects.create(workload=job, role=role, index=index, pod=pod, **changes)


def running(tenant: Any, at: datetime) -> Any:
    """A distributed training in its twelfth minute."""
    from jobs.models import Bundle

    bundle = Bundle.objects.create(
        tenant=tenant, file_name="mnist-ps.zip", sha256="3f" * 32, size_bytes=48_213
    )
    began = at - timedelta(minutes=12, seconds=20)
    job = make_job(
        tenant,
        name="mnist, second try",
        topology="tf-ps",
        command=["python", "ps_v1.py", "--log_dir={{log_dir}}", "--steps=20000"],
        source={"bundle": str(bundle.pk), "sha256": bundle.sha256, "file_name": bundle.file_name},
        replicas=WORKERS_AND_PS,
        cluster_flags=["ps_hosts", "worker_hosts", "job_name", "task_index"],
        env={"TF_CPP_MIN_LOG_LEVEL": "1", "OMP_NUM_THREADS": "1"},
        state="running",
        retries=2,
        queued_at=began - timedelta(seconds=31),
        admitted_at=began - timedelta(seconds=28),
        started_at=began,
        plan=[
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "metadata": {
                    "name": "mnist-second-try-k3v9qz-worker",
                    "namespace": tenant.namespace,
                },
                "spec": {"completionMode": "Indexed", "completions": 2, "parallelism": 2},
            },
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": "mnist-second-try-k3v9qz", "namespace": tenant.namespace},
                "spec": {"clusterIP": "None", "publishNotReadyAddresses": True},
            },
        ],
    )
    for index in range(2):
        replica(job, index=index, state="running", node="gpu-01", gpus=str(index), started_at=began)
    replica(job, "ps", 0, state="running", node="gpu-01", restarts=1, started_at=began)
    for index in range(2):
        use(job, "worker", index, 24, busy=0.7 - 0.2 * index, gpus=1)
    use(job, "ps", 0, 24, busy=0.3)
    event(job, job.queued_at, "Queued", "Accepted: 3 CPU, 5 GiB, 2 GPUs in 3 replicas.")
    event(job, job.admitted_at, "Admitted", "All 3 replicas fit: quota and nodes have room.")
    pod = {"source": "kubelet", "subject": "worker-0"}
    event(job, job.admitted_at, "Pulled", "Image tensorflow/tensorflow:2.21.0 was there.", **pod)
    event(job, began, "Started", "Started container main.", **pod)
    event(
        job,
        began + timedelta(minutes=4),
        "BackOff",
        "The parameter server ended with exit code 1 and is started again.",
        source="kubelet",
        subject="ps-0",
        is_warning=True,
        count=2,
    )
    # Longer by itself than all that stands below it.
    for number in range(60):
        seen_at = began + timedelta(minutes=5, seconds=5 * number)
        event(job, seen_at, "Unhealthy", "Readiness probe failed.", is_warning=True, **pod)
    return job


def starting(tenant: Any, at: datetime) -> Any:
    """Pulls its image."""
    job = make_job(
        tenant,
        name="resnet50 warm-up",
        state="starting",
        queued_at=at - timedelta(seconds=50),
        admitted_at=at - timedelta(seconds=41),
        reason_code="image_pull",
        reason_text="worker-0 is pulling tensorflow/tensorflow:2.21.0 on gpu-01.",
        reason_next_step="No action needed; it starts automatically.",
    )
    replica(job, state="starting", node="gpu-01", reason_text="pulling the image")
    return job


def queued(tenant: Any, at: datetime) -> Any:
    """Waits for GPUs, with the arithmetic."""
    from jobs.places import QueuePlace

    job = make_job(
        tenant,
        name="large batch 4096",
        topology="tf-ps",
        replicas=WORKERS_AND_PS,
        state="queued",
        queued_at=at - timedelta(minutes=7),
        reason_code="quota",
        reason_text="Waiting for quota: needs 2 GPUs, 0 of 2 free",
        reason_next_step=reasons.ROWS["quota"][1],
    )
    event(job, job.queued_at, "Queued", "Waiting for quota: needs 2 GPUs, 0 of 2 free")
    QueuePlace.objects.create(
        workload=job,
        position=1,
        position_all=3,
        starts_at=at + timedelta(minutes=90),
        basis="deadline",
        rules=[
            "Order: what was submitted first, in the whole cluster, is tried first.",
            "Quota: its namespace has too little left.",
        ],
    )
    return job


def failed(tenant: Any, at: datetime) -> Any:
    """Ran out of memory at its second attempt."""
    ended = at - timedelta(hours=2)
    job = make_job(
        tenant,
        name="transformer-base",
        replicas=one(gpu_count=1),
        state="failed",
        attempt=2,
        retries=1,
        queued_at=ended - timedelta(minutes=33),
        admitted_at=ended - timedelta(minutes=33),
        started_at=ended - timedelta(minutes=31),
        finished_at=ended,
        reason_code="out_of_memory",
        reason_text="worker-0 used more than its 2 GiB of memory and was ended.",
        reason_next_step="Request more memory, or use a smaller batch.",
    )
    oom = {"reason_code": "out_of_memory", "reason_text": "used more than its memory (OOMKilled)"}
    replica(
        job,
        state="failed",
        exit_code=137,
        node="gpu-01",
        started_at=ended - timedelta(minutes=31),
        finished_at=ended - timedelta(minutes=16),
        **oom,
    )
    replica(
        job,
        attempt=2,
        pod="transformer-base-k3v9qz-2-worker-0-p9w2m",
        state="failed",
        exit_code=137,
        node="gpu-01",
        gpus="1",
        started_at=ended - timedelta(minutes=15),
        finished_at=ended,
        **oom,
    )
    event(job, ended, "OOMKilled", "Memory limit of 2 GiB reached.", is_warning=True)
    return job


def succeeded(tenant: Any, at: datetime) -> Any:
    """Left files behind."""
    from jobs.models import Artifact

    ended = at - timedelta(hours=5)
    job = make_job(
        tenant,
        name="mnist",
        topology="tf-ps",
        replicas=WORKERS_AND_PS,
        state="succeeded",
        queued_at=ended - timedelta(minutes=21),
        admitted_at=ended - timedelta(minutes=20, seconds=50),
        started_at=ended - timedelta(minutes=20),
        finished_at=ended,
        cleaned_at=ended + timedelta(minutes=1),
    )
    for role, index in (("worker", 0), ("worker", 1), ("ps", 0)):
        replica(
            job,
            role,
            index,
            state="succeeded" if role == "worker" else "stopped",
            exit_code=0 if role == "worker" else 143,
            node="gpu-01",
            gpus=str(index) if role == "worker" else "",
            reason_text="" if role == "worker" else "recycled 30 s after the workers ended",
            started_at=job.started_at,
            finished_at=ended,
        )
    files = (
        ("artifacts/confusion.png", 84_120),
        ("artifacts/report.json", 2_310),
        ("checkpoint", 271),
        ("events.out.tfevents.1763632800.worker-0", 1_204_551),
        ("graph.pbtxt", 512_004),
        ("model.ckpt-20000.data-00000-of-00001", 39_298_112),
        ("model.ckpt-20000.index", 1_204),
        ("model.ckpt-20000.meta", 251_008),
    )
    for path, size_bytes in files:
        Artifact.objects.create(
            workload=job,
            path=path,
            size_bytes=size_bytes,
            mtime_ns=int(ended.timestamp() * 1e9),
            storage_key=f"{tenant.pk}/seed/{path}",
            uploaded_at=ended,
        )
    return job


def stopped(tenant: Any, at: datetime) -> Any:
    ended = at - timedelta(days=1, hours=1)
    job = make_job(
        tenant,
        name="gan, wrong learning rate",
        state="stopped",
        desired="stop",
        queued_at=ended - timedelta(minutes=9),
        admitted_at=ended - timedelta(minutes=9),
        started_at=ended - timedelta(minutes=8),
        finished_at=ended,
        reason_text="Stopped by Ada: diverged after 200 steps.",
    )
    replica(job, state="stopped", exit_code=143, started_at=job.started_at, finished_at=ended)
    return job


def stopping(tenant: Any, at: datetime) -> Any:
    job = make_job(
        tenant,
        name="autoencoder",
        state="stopping",
        desired="stop",
        queued_at=at - timedelta(hours=1, minutes=12),
        admitted_at=at - timedelta(hours=1, minutes=11),
        started_at=at - timedelta(hours=1, minutes=10),
        stop_requested_at=at - timedelta(seconds=20),
        reason_text="Stopped by Ada; its replicas have two minutes to save what they have.",
    )
    replica(job, state="running", node="gpu-01", started_at=job.started_at)
    return job


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
    import django

    django.setup()
    jobs = seed()
    for name, job in jobs.items():
        print(f"{name} {getattr(job, 'pk', job)}")


if __name__ == "__main__":
    main()
