"""What the tests of pages of trainings share: one with something in every part of its page."""

from datetime import timedelta

from django.utils.timezone import now

from jobs.kinds.manifests import Grant
from jobs.kinds.training.kind import TRAINING
from jobs.models import Artifact, Attempt, Replica, UserSecret, Workload, WorkloadEvent
from tenants.models import Tenant
from tests.factories import make_job


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
