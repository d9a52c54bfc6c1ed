"""Rows of a portal whose pages are measured: `python -m tests.bench.pages_seed`.

50 people with a namespace each and 200 trainings that have ended, one admin who sees them all. Prints the
admin's cookie as JSON.
"""

import json
import sys
from datetime import timedelta
from typing import Any
from uuid import UUID

import django

TENANTS, TRAININGS = 50, 200


def seed() -> object:
    from django.utils.timezone import now

    from jobs.models import Replica
    from tenants.actions import ensure_tenant
    from tenants.models import Tenant, User
    from tests.bench.seed import cookie_of
    from tests.factories import make_job

    tenants = []
    for number in range(TENANTS):
        user = User.objects.create(username=f"person-{number}", password="!")
        tenants.append(ensure_tenant(user=user))
    # The cluster has nothing of theirs, and the reconciler shall not make it while pages are measured.
    Tenant.objects.update(
        state=Tenant.State.GONE, desired=Tenant.Desired.PURGED, gone_at=now(), purge_data="delete"
    )
    plan = _plan()
    for number in range(TRAININGS):
        ended = now() - timedelta(minutes=7 * number + 60)
        job = make_job(
            tenants[number % TENANTS],
            name=f"sweep {number}",
            state=("succeeded", "succeeded", "failed")[number % 3],
            queued_at=ended - timedelta(minutes=42),
            admitted_at=ended - timedelta(minutes=41),
            started_at=ended - timedelta(minutes=40),
            finished_at=ended,
            cleaned_at=ended,
            plan=plan,
        )
        Replica.objects.create(
            job=job,
            role="worker",
            index=0,
            state=job.state,
            exit_code=0,
            started_at=job.started_at,
            finished_at=ended,
        )
    root = User.objects.create(username="root", password="!", role=User.Role.ADMIN)
    return {"cookie": cookie_of(root), "job": str(job.pk)}


def _plan() -> list[Any]:
    """What is kept of an admitted training with four workers: its manifests."""
    from jobs.manifests import Training, pod_settings, render_training

    each = {"cpu_millicores": 2000, "memory_bytes": 2**32, "gpu_count": 0}
    training = Training(
        job_id=UUID(int=1),
        name="sweep",
        namespace="u-ada-00000001",
        topology="tf-ps",
        image="tensorflow/tensorflow:2.21.0",
        command=["python", "train.py"],
        source=None,
        replicas={"worker": {"count": 4, **each}, "ps": {"count": 2, **each}},
        env={},
        cluster_flags=(),
        retries=0,
        deadline_s=None,
        ttl_s=86_400,
        shm_bytes=None,
    )
    return render_training(training, attempt=1, pods=pod_settings())


def main() -> None:
    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    call_command("collectstatic", interactive=False, verbosity=0)
    sys.stdout.write(json.dumps(seed()))


if __name__ == "__main__":
    main()
