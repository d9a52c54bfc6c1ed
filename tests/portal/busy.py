"""An installation with rows, written to all the time: `python -m tests.portal.busy seed|write|rows|more`.

`write` goes on until its input ends, and prints what it has committed. Each of its transactions adds an
event to a training and one to its revision, so that half of one would be seen. `rows` prints a digest
of every table.
"""

import hashlib
import json
import select
import sys
import threading
from typing import Any

import django

WRITERS = 3
SEALED = "values on their way to the cluster"


def seed() -> object:
    from jobs.models import Artifact, ReconcilerLease, Replica
    from tenants.models import Team, User
    from tests.factories import make_job, make_service, make_tenant

    team = Team.objects.create(name="vision")
    for name in ("alice", "bob", "mallory"):
        tenant = make_tenant(name, team=team)
        for number in range(20):
            # What COPY has to write in another way: tabs, breaks, backslashes, what is not ASCII.
            job = make_job(tenant, name=f'{name} {number}\\n\t"ü"\n', env={"A": "a\\tb\u2028"})
            replica = Replica.objects.create(workload=job, role="worker", index=0)
            Artifact.objects.create(
                workload=job,
                path=f"ä/{replica.pk}",
                size_bytes=2**40,
                mtime_ns=2**60,
                storage_key="k/k",
            )
        make_service(tenant)
    ReconcilerLease.objects.create(pk=1, holder="", epoch=7)
    User.objects.create_user("root", password="a long password", role="admin")
    return User.objects.count()


def write() -> None:
    from django.db import connection, transaction
    from django.db.models import F

    from jobs.models import UserSecret, Workload
    from tests.factories import make_job, make_tenant

    stop, lock = threading.Event(), threading.Lock()
    tenant = make_tenant("writer")

    def work(job: Any) -> None:
        number = 0
        while not stop.wait(0.005):  # SQLite gives the lock to who asks often
            number += 1
            with transaction.atomic():
                Workload.objects.filter(pk=job.pk).update(revision=F("revision") + 1)
                add_event(job, f"event {number}")
            with lock:
                sys.stdout.write(f"{job.pk} {number}\n")
                sys.stdout.flush()
        connection.close()

    secret = UserSecret.objects.create(tenant=tenant, name="wandb", sealed=SEALED)
    jobs = [make_job(tenant, name="written", revision=0) for _ in range(WRITERS)]
    threads = [threading.Thread(target=work, args=[job]) for job in jobs]
    for thread in threads:
        thread.start()
    select.select([sys.stdin], [], [])
    stop.set()
    for thread in threads:
        thread.join()
    secret.delete()


def add_event(job: Any, uid: str) -> None:
    from django.utils import timezone

    from jobs.models import WorkloadEvent

    WorkloadEvent.objects.create(
        workload=job,
        uid=uid,
        at=timezone.now(),
        source="homeport",
        reason="Written",
        message="x" * 200,
    )


def more() -> object:
    """Rows of which the database chooses the numbers."""
    from jobs.models import Workload, WorkloadEvent

    add_event(Workload.objects.first(), "one more")
    return WorkloadEvent.objects.count()


def rows() -> dict[str, Any]:
    from django.db import connection

    from jobs.models import Workload

    found: dict[str, Any] = {}
    with connection.cursor() as cursor:
        for table in sorted(connection.introspection.table_names(cursor)):
            cursor.execute(f'SELECT * FROM "{table}"')
            lines = sorted(repr(row) for row in cursor.fetchall())
            digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
            found[table] = [len(lines), digest]
        cursor.execute("SELECT epoch FROM jobs_reconcilerlease")
        found["epochs"] = [epoch for (epoch,) in cursor.fetchall()]
    written = Workload.objects.filter(name="written")
    found["written"] = {str(job.pk): [job.revision, job.events.count()] for job in written}
    return found


def main() -> None:
    django.setup()
    done = {"seed": seed, "write": write, "rows": rows, "more": more}[sys.argv[1]]()
    sys.stdout.write(json.dumps(done))


if __name__ == "__main__":
    main()
