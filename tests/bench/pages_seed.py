"""Rows of a portal whose pages are measured: `python -m tests.bench.pages_seed`.

50 people who have asked for a namespace, which the portal makes when it starts, 200 trainings that have
ended, one admin who sees them all. Prints the admin's cookie, a token of the first person, who may use more
than the others, a training and the namespaces as JSON.
"""

import json
import sys
from datetime import timedelta
from typing import Any

import django

TENANTS, TRAININGS = 50, 200


def seed() -> object:
    from django.utils.timezone import now

    from jobs.models import Replica
    from tenants.actions import create_token, ensure_tenant
    from tenants.models import Tenant, User
    from tests.bench.seed import cookie_of
    from tests.factories import make_job

    tenants = []
    for number in range(TENANTS):
        user = User.objects.create(username=f"person-{number}", password="!")
        tenants.append(ensure_tenant(user=user))
    Tenant.objects.filter(pk=tenants[0].pk).update(
        quota_cpu_millicores=10**7, quota_memory_bytes=2**43, quota_pods=2000
    )
    first = tenants[0].owner
    _, token = create_token(by=first, name="bench")
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
            workload=job,
            role="worker",
            index=0,
            state=job.state,
            exit_code=0,
            started_at=job.started_at,
            finished_at=ended,
        )
    root = User.objects.create(username="root", password="!", role="admin")
    return {
        "cookie": cookie_of(root),
        "token": token,
        "job": str(job.pk),
        "namespaces": [tenant.namespace for tenant in tenants],
    }


def _plan() -> list[Any]:
    """What is kept of an admitted training with four workers: its manifests."""
    from jobs.kinds.training.kind import TRAINING
    from jobs.kinds.training.spec import TrainingSpec
    from jobs.rules.requests import RoleRequest
    from jobs.workloads.preview import preview_documents
    from tenants.models import Tenant

    spec = TrainingSpec(
        name="sweep",
        topology="tf-ps",
        image="tensorflow/tensorflow:2.21.0",
        command=("python", "train.py"),
        replicas={"worker": RoleRequest(4, 2000, 2**32), "ps": RoleRequest(2, 2000, 2**32)},
    )
    return preview_documents(TRAINING, spec, Tenant(namespace="u-ada-00000001"))


def main() -> None:
    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    call_command("collectstatic", interactive=False, verbosity=0)
    sys.stdout.write(json.dumps(seed()))


if __name__ == "__main__":
    main()
