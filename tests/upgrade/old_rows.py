"""Rows in the tables that the version before the one table had: ordinary ones, odd ones, many.

They are written by the models as the migrations of that version leave them.
"""

import random
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.core.management.sql import emit_post_migrate_signal
from django.db import connections
from django.db.migrations.executor import MigrationExecutor

BEFORE = ("jobs", "0004_usage_moves_out")  # the last of jobs that 775ec61 has
NOW = datetime(2026, 11, 20, 9, 30, 15, 123456, tzinfo=UTC)
UNICODE = 'näme 训练 🚂 "quoted" \\ \n\ttabs'
LARGE_CHARS = 320 * 1024
GIB = 2**30
_REASON = {"reason_code": "exit_code", "reason_text": UNICODE, "reason_next_step": "look"}
_WHOLE_NOTES = {
    "said": 41,
    "children_of": "0e0b2a3c",
    "committed_at": "2026-11-20T09:00:00.000123+00:00",
    "again": ["pod_lost", UNICODE, ""],
    "leaving": "queue",
    "leaving_at": "2026-11-20T09:10:00+00:00",
    "leaving_why": ["not_placed", "why", "next"],
    "swept": True,
}


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


@dataclass
class OldTables:
    """The models of that version, on a database that has just its tables."""

    using: str

    def __post_init__(self) -> None:
        executor = MigrationExecutor(connections[self.using])
        leaves = executor.loader.graph.leaf_nodes()
        # Later ones of usage need more of jobs.
        usage = ("usage", "0002_any_kind")
        targets = [BEFORE, usage, *(key for key in leaves if key[0] not in (BEFORE[0], usage[0]))]
        executor.migrate(targets)
        self._apps = executor.loader.project_state(targets).apps
        emit_post_migrate_signal(verbosity=0, interactive=False, db=self.using, apps=self._apps)

    def model(self, name: str, app: str = "jobs") -> Any:
        return self._apps.get_model(app, name)

    def add(self, name: str, rows: Sequence[Any]) -> list[Any]:
        made: list[Any] = self.model(name).objects.using(self.using).bulk_create(rows, 500)
        return made

    def rows(self, name: str) -> list[dict[str, Any]]:
        """All columns of all rows, sorted by key."""
        return list(self.model(name).objects.using(self.using).order_by("pk").values())

    # --- who ---
    def person(self, name: str) -> tuple[Any, Any]:
        """Somebody with a namespace; their user and tenant."""
        user, tenant = self.model("User", "tenants"), self.model("Tenant", "tenants")
        owner = user.objects.using(self.using).create(username=name, password="!")
        numbers = ("pods", "nodeports", "gpu_count", "cpu_millicores", "memory_bytes")
        quota = {f"quota_{number}": 20 for number in numbers}
        volumes = {"data_volume_bytes": GIB, "log_volume_bytes": GIB}
        made = tenant.objects.using(self.using).create(
            owner=owner, namespace=f"hp-{name}", **quota, **volumes
        )
        return owner, made

    # --- what ---
    def training(self, tenant: Any, **changes: Any) -> Any:
        """One that is not written yet."""
        plain = {
            "tenant_id": tenant.pk,
            "owner_id": tenant.owner_id,
            "name": "training",
            "topology": "single",
            "image": "python:3.11-slim",
            "command": ["python", "train.py"],
            "replicas": {"worker": request(1)},
            "queued_at": NOW,
        }
        return self.model("Job")(**plain | changes)

    def service(self, tenant: Any, **changes: Any) -> Any:
        """A notebook, or another kind, that is not written yet."""
        plain = {
            "tenant_id": tenant.pk,
            "owner_id": tenant.owner_id,
            "kind": "notebook",
            "name": "notebook",
            "image": "lab:1",
            "cpu_millicores": 1500,
            "memory_bytes": 2 * GIB,
            "created_at": NOW,
            "requested_at": at(60),
        }
        return self.model("Service")(**plain | changes)


def request(count: int) -> dict[str, int]:
    return {"count": count, "cpu_millicores": 500, "memory_bytes": GIB, "gpu_count": 0}


def plan(chars: int) -> list[dict[str, Any]]:
    """As large as the manifests of a workload are."""
    return [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "data": "m" * chars}]


def write_odd(old: OldTables) -> None:
    """Each column with its default and with something else, all states, and what nobody expects."""
    _, theirs = old.person("alice")
    bob, other = old.person("bob")
    full = {
        "name": UNICODE.strip()[:80],
        "topology": "tf-ps",
        "command": ["sh", "-c", UNICODE, ""],
        "source": {"bundle": str(uuid.uuid4()), "sha256": "0" * 64, "file_name": UNICODE},
        "replicas": {"worker": request(2), "ps": request(1), "evaluator": request(1)},
        "env": {"A": UNICODE, "EMPTY": "", "B": "x" * 9000},
        "cluster_flags": ["worker_hosts", "job_name"],
        "success_policy": "all",
        "priority": "normal",
        "retries": 3,
        "deadline_s": 7200,
        "starting_deadline_s": 0,
        "clean_policy": "none",
        "ttl_s": 0,
        "shm_bytes": 2**33,
        "desired": "stop",
        "stop_requested_at": at(5),
        "stop_requested_by_id": bob.pk,
        "stop_reason": UNICODE,
        **_REASON,
        "attempt": 4,
        "requeued_count": 2,
        "not_before": at(30),
        "queued_at": at(-86400.5),
        "admitted_at": at(1),
        "started_at": at(2),
        "deciders_ended_at": at(3),
        "finished_at": at(4),
        "plan": plan(100),
        "root_uid": str(uuid.uuid4()),
        "cleaned_at": at(6),
        "memo": {
            **_WHOLE_NOTES,
            "spent_s": 812,
            "retries_used": 1,
            "restarts": {"ps-0": ["2026-11-20T09:00:00+00:00"]},
            "rescues": {"worker-0": 1},
            "rescued": ["worker-0"],
            "archive": "partial",
            "erased": True,
        },
        "revision": 2**40,
    }
    states = ("queued", "starting", "running", "stopping", "succeeded", "failed", "stopped")
    odd: list[dict[str, Any]] = [
        {},
        full,
        *({"state": state} for state in states),
        {"source": {"url": "https://host/train.py?a=b&c=d"}},
        {"source": {"path": "/data/train.py"}, "desired": "delete"},
        {"memo": {"said": 0, "nobody knows": {"this": [None, 1.5]}, "teardown": "not ours"}},
        {"memo": [], "command": [], "env": {}, "replicas": {}},
        {"command": ["python", "-c", "x" * LARGE_CHARS], "plan": plan(LARGE_CHARS)},
    ]
    jobs = old.add("Job", [old.training(theirs, **changes) for changes in odd])
    replica, event = old.model("Replica"), old.model("JobEvent")
    whole = {
        "incarnation": 3,
        "pod": "pod-0",
        "pod_uid": str(uuid.uuid4()),
        "node": "node-1",
        "gpus": "0,1",
        "state": "failed",
        "exit_code": 137,
        "reason_code": "oom",
        "reason_text": UNICODE,
        "restarts": 2,
        "started_at": at(7),
        "finished_at": at(8),
    }
    old.add(
        "Replica",
        [
            *(replica(job_id=job.pk, role="worker", index=n) for job in jobs for n in range(2)),
            replica(job_id=jobs[1].pk, role="ps", index=0, attempt=4, **whole),
        ],
    )
    told = {"at": at(9), "source": "kubelet", "reason": "Pulled", "message": UNICODE}
    more = {"is_warning": True, "subject": "pod/x", "count": 7}
    old.add(
        "JobEvent",
        [
            *(event(job_id=job.pk, uid=f"{job.pk}/{n}", **told) for job in jobs for n in range(3)),
            event(job_id=jobs[1].pk, uid="own-1", **told, **more),
        ],
    )
    archive = old.model("ReplicaArchive")
    where = {"job_id": jobs[1].pk, "role": "worker"}
    ended = {"is_complete": True, "by_rescue": True, "exit_code": 1, "exit_reason": "x"}
    kept = old.add(
        "ReplicaArchive",
        [
            archive(**where, index=0, attempt=1),
            archive(
                **where, index=1, attempt=4, pod_uid="u", skipped_bytes=9, completed_at=NOW, **ended
            ),
        ],
    )
    segment = {"number": 1, "start_byte": 0, "size_bytes": 7, "sha256": "1" * 64}
    old.add(
        "LogSegment", [old.model("LogSegment")(archive_id=kept[0].pk, storage_key="k", **segment)]
    )
    file = {"job_id": jobs[1].pk, "size_bytes": 2**40, "mtime_ns": 2**60, "storage_key": "k"}
    old.add(
        "Artifact",
        [
            old.model("Artifact")(path=UNICODE, **file),
            old.model("Artifact")(path="b", uploaded_at=NOW, **file),
        ],
    )
    _write_odd_services(old, theirs, other, jobs)


def _write_odd_services(old: OldTables, theirs: Any, other: Any, jobs: Sequence[Any]) -> None:
    uid = str(uuid.uuid4())
    full = {
        "name": UNICODE.strip()[:80],
        "gpu_count": 2,
        "desired": "stop",
        "start_count": 3000,
        "seen_start": 2999,
        "stop_requested_by_id": other.owner_id,
        "stop_reason": UNICODE,
        "state": "running",
        **_REASON,
        "steps": [{"key": "requested", "state": "done", "at": None, "detail": UNICODE}],
        "admitted_at": at(1),
        "ready_at": at(2),
        "ended_at": at(3),
        "not_before": at(4),
        "node": "node-2",
        "gpus": "3",
        "pod": "notebook-0",
        "node_port": 31234,
        "restarts": 5,
        "plan": plan(100),
        "root_uid": uid,
        "cleaned_at": at(5),
        "memo": {
            **_WHOLE_NOTES,
            "withdrawals": 4,
            "pod_uid": uid,
            "pod_restarts": 2,
            "crashes": ["2026-11-20T09:00:00+00:00"],
            "was_ready": True,
            "silent_since": "2026-11-20T09:00:00+00:00",
        },
        "event_files": 12,
        "revision": 77,
    }
    folder = {"title": UNICODE, "path": "/log/jobs/x", "job": str(jobs[0].pk)}
    states = ("queued", "starting", "running", "stopping", "stopped", "failed")
    odd: list[dict[str, Any]] = [
        {},  # nobody has looked at it yet
        {"kind": "tensorboard", "log_dirs": [folder, folder]},
        {"kind": "tensorboard", "log_dirs": [], "seen_start": 1, "state": "stopped"},
        full,
        {**full, "kind": "tensorboard", "memo": {}, "log_dirs": [folder]},
        *({"state": state, "seen_start": 1} for state in states),
        {"state": "stopped", "seen_start": 0, "desired": "delete"},
        {"seen_start": 2, "start_count": 2, "memo": {"withdrawals": 2}},
        {"seen_start": 1, "memo": {"withdrawals": "many", "pod_uid": "u" * 400, "else": 1}},
        {"seen_start": 1, "memo": {"withdrawals": 2**40, "pod_uid": None}},
        {"seen_start": 1, "memo": []},
        {"seen_start": 1, "steps": [{"text": "x" * LARGE_CHARS}], "plan": plan(LARGE_CHARS)},
    ]
    made = old.add("Service", [old.service(theirs, **changes) for changes in odd])
    event = old.model("ServiceEvent")
    told = {"at": at(9), "source": "homeport", "reason": "Started", "message": UNICODE}
    old.add(
        "ServiceEvent",
        [
            *(event(service_id=one.pk, uid=f"own-{n}", **told) for one in made for n in range(2)),
            event(
                service_id=made[3].pk,
                uid="x" * 80,
                start_count=2999,
                is_warning=True,
                subject="pod/x",
                count=4,
                **told,
            ),
        ],
    )


def write_many(old: OldTables, trainings: int, services: int) -> None:
    """As a lab that has worked for years has them, with replicas, events and manifests of the usual size."""
    _, tenant = old.person("carol")
    chosen = random.Random(12)
    replica, event = old.model("Replica"), old.model("JobEvent")
    for first in range(0, trainings, 500):
        jobs = old.add("Job", list(_trainings(old, tenant, min(500, trainings - first), chosen)))
        old.add(
            "Replica",
            [
                replica(job_id=job.pk, role=role, index=n, pod=f"{role}-{n}", state="succeeded")
                for job in jobs
                for role, asked in job.replicas.items()
                for n in range(asked["count"])
            ],
        )
        told = {"at": NOW, "source": "kubelet", "reason": "Pulled", "message": "m" * 120}
        old.add(
            "JobEvent",
            [event(job_id=job.pk, uid=str(n), **told) for job in jobs for n in range(20)],
        )
    notes = {**_WHOLE_NOTES, "pod_uid": "u" * 36, "withdrawals": 1}
    made = old.add(
        "Service",
        [
            old.service(
                tenant,
                kind=chosen.choice(("notebook", "tensorboard")),
                name=f"service {number}",
                seen_start=1,
                state=chosen.choice(("running", "stopped")),
                plan=plan(8_000),
                memo=notes,
            )
            for number in range(services)
        ],
    )
    event = old.model("ServiceEvent")
    told = {"at": NOW, "source": "homeport", "reason": "Started", "message": "m" * 120}
    rows = [event(service_id=one.pk, uid=str(n), **told) for one in made for n in range(20)]
    old.add("ServiceEvent", rows)


def _trainings(old: OldTables, tenant: Any, count: int, chosen: random.Random) -> Iterator[Any]:
    for _ in range(count):
        yield old.training(
            tenant,
            name=f"sweep {chosen.random()}",
            topology="tf-ps",
            replicas={"worker": request(chosen.randint(1, 4)), "ps": request(1)},
            env={f"V{n}": "x" * 40 for n in range(10)},
            queued_at=at(-chosen.randint(0, 10**7)),
            state=chosen.choice(("succeeded", "failed", "stopped")),
            cleaned_at=NOW,
            plan=plan(12_000),
            memo={**_WHOLE_NOTES, "archive": "complete"},
        )
