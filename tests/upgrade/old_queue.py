"""0d1432e's own queue, asked line by line: its rows are written and read, and looks are decided, by its own code.

Run in a checkout of 0d1432e by its Python, with HOMEPORT_HOME; imports nothing of today's. The first line of input has
the workloads as JSON, the answer is the id of each. Each further line is a look, the answer has of each workload that was
reached [number, kind, code, room that it takes by node].
"""

import json
import os
import sys
from datetime import datetime
from typing import Any

GIB = 2**30


def write(asked: list[dict[str, Any]]) -> list[str]:
    """The rows, as a submit leaves them; their ids."""
    from jobs.models import Job
    from jobs.services.models import Service
    from tenants.models import Tenant, User

    tenants: dict[str, Any] = {}
    made = []
    for one in asked:
        name = one["namespace"]
        if name not in tenants:
            numbers = ("pods", "nodeports", "gpu_count", "cpu_millicores", "memory_bytes")
            tenants[name] = Tenant.objects.create(
                owner=User.objects.create(username=name, password="!"),
                namespace=f"hp-{name}",
                state="active",
                data_volume_bytes=GIB,
                log_volume_bytes=GIB,
                **{f"quota_{number}": one["quota"][number] for number in numbers},
            )
        whose = {"tenant": tenants[name], "owner": tenants[name].owner, "name": one["name"]}
        queued_at = datetime.fromisoformat(one["queued_at"])
        if one["kind"] == "notebook":
            [asks] = one["replicas"].values()
            row = Service.objects.create(
                **whose,
                kind="notebook",
                image="lab:1",
                requested_at=queued_at,
                seen_start=1,
                **{key: asks[key] for key in ("cpu_millicores", "memory_bytes", "gpu_count")},
            )
        else:
            row = Job.objects.create(
                **whose,
                topology="tf-ps",
                image="python:3.11-slim",
                command=["true"],
                replicas=one["replicas"],
                queued_at=queued_at,
                deadline_s=one["deadline_s"],
            )
        made.append(str(row.pk))
    return made


def decided(known: dict[str, Any], look: dict[str, Any]) -> list[list[Any]]:
    from jobs.rules.admission import Amount, NodeRoom, pack
    from jobs.rules.queue import TenantRoom, decide

    rooms = [
        NodeRoom(name, Amount(*whole), Amount(*free))
        for name, (whole, free) in look["nodes"].items()
    ]
    tenants = {
        pk: TenantRoom(Amount(*hard), Amount(*left)) for pk, (hard, left) in look["tenants"].items()
    }
    now = datetime.fromisoformat(look["now"])
    found = []
    for verdict in decide([known[pk] for pk in look["queue"]], tenants, rooms, now, most=10):
        taken = {}
        if verdict.fit.kind == "now":
            before = {room.name: room.free for room in rooms}
            rooms = pack(known[verdict.job_id].needs, rooms)
            given = {room.name: before[room.name] - room.free for room in rooms}
            taken = {
                name: [a.cpu, a.memory, a.gpu, a.pods] for name, a in given.items() if a != Amount()
            }
        found.append([verdict.job_id, verdict.fit.kind, verdict.fit.code, taken])
    return found


def main() -> None:
    import django

    os.environ["DJANGO_SETTINGS_MODULE"] = "portal.settings"
    sys.path.insert(0, os.getcwd())
    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    print(json.dumps(write(json.loads(sys.stdin.readline()))), flush=True)
    from jobs.reconciler import admit

    known = {one.waiting.job_id: one.waiting for one in admit.read().queued}
    for line in sys.stdin:
        print(json.dumps(decided(known, json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
