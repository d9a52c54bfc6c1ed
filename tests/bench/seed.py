"""Rows of a portal that is measured, as a program: `python -m tests.bench.seed JOBS EACH`.

Makes the database that the environment names, with as many people as `JOBS`, each with a session and a
training that runs in a pod of its own (`EACH` such sets: repeats must not meet each other's tails).
Prints them as JSON.
"""

import json
import sys
from typing import Any

import django


def cookie_of(user: Any) -> str:
    """A session of somebody, as signing in makes it."""
    from django.conf import settings
    from django.test import Client

    client = Client()
    client.force_login(user)
    return f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"


def seed(people: int, sets: int) -> object:
    """People with cookies, and for each set the ids of their jobs, in the same order."""
    from jobs.models import Replica
    from jobs.rules.states import ReplicaState, WorkloadState
    from tenants.actions import ensure_tenant
    from tenants.models import Tenant, User
    from tests.factories import make_job

    cookies, tenants = [], []
    for number in range(people):
        user = User.objects.create(username=f"person-{number}", password="!")
        tenant = ensure_tenant(user=user)
        Tenant.objects.filter(pk=tenant.pk).update(state=Tenant.State.ACTIVE)
        tenants.append(tenant)
        cookies.append(cookie_of(user))
    jobs = []
    for turn in range(sets):
        made = [make_job(tenant, state=WorkloadState.RUNNING) for tenant in tenants]
        jobs.append([str(job.pk) for job in made])
        for number, job in enumerate(made):
            Replica.objects.create(
                workload=job,
                role="worker",
                index=0,
                pod=f"pod-{turn}-{number}",
                pod_uid=f"uid-{turn}-{number}",
                state=ReplicaState.RUNNING,
            )
    return {"cookies": cookies, "jobs": jobs}


def main() -> None:
    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    call_command("collectstatic", interactive=False, verbosity=0)
    sys.stdout.write(json.dumps(seed(int(sys.argv[1]), int(sys.argv[2]))))


if __name__ == "__main__":
    main()
