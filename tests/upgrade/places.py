"""Where each column of trainings and services is in the one table, or why it is gone."""

from collections.abc import Mapping, Sequence
from typing import Any

from jobs import models
from tests.portal.databases import ALIAS
from tests.upgrade.old_rows import OldTables

# Columns that nothing has any more, and why.
GONE = {
    "Job": {"priority": 'it only ever said "normal", which REST still answers'},
    "ServiceEvent": {"id": "counts the rows of a table; nobody is told it"},
}
SPEC = ("topology", "command", "source", "env", "cluster_flags", "shm_bytes")
POLICY = (
    *("success_policy", "retries", "deadline_s", "starting_deadline_s", "clean_policy", "ttl_s"),
)
SIZE = ("cpu_millicores", "memory_bytes", "gpu_count")
OF_BOTH = (
    *("id", "tenant_id", "owner_id", "name", "image", "desired", "stop_requested_by_id"),
    *("stop_reason", "state", "reason_code", "reason_text", "reason_next_step", "not_before"),
    *("admitted_at", "plan", "root_uid", "cleaned_at", "revision"),
)
OF_TRAININGS = (
    *("replicas", "stop_requested_at", "attempt", "requeued_count", "queued_at", "started_at"),
    *("deciders_ended_at", "finished_at"),
)
OF_SERVICES = {
    **{name: name for name in ("kind", "created_at", "steps", "node_port", "event_files")},
    "start_count": "generation",
    "requested_at": "queued_at",
    "seen_start": "observed_generation",
    "ready_at": "started_at",
    "ended_at": "finished_at",
}
OF_EVENTS = ("uid", "at", "is_warning", "source", "subject", "reason", "message", "count")
OF_REPLICAS = ("pod", "node", "gpus", "restarts")
STATES = {"queued": "pending", "stopping": "running"}  # of a service -> of its replica, if others
NOTES = {
    "said": "event_count",
    "again": "restart_reason",
    "leaving": "teardown",
    "leaving_at": "teardown_at",
    "leaving_why": "teardown_reason",
    "erased": "purged",
}


class Read(dict[str, Any]):
    """A row that knows which of its columns were asked for."""

    def __init__(self, row: Mapping[str, Any]) -> None:
        super().__init__(row)
        self.left = set(row)

    def __getitem__(self, name: str) -> Any:
        self.left.discard(name)
        return super().__getitem__(name)

    def some(self, *names: str) -> dict[str, Any]:
        return {name: self[name] for name in names}


def notes_of(memo: Any) -> Any:
    if not isinstance(memo, dict):
        return memo
    return {NOTES.get(key, key): value for key, value in memo.items() if key not in NOTES.values()}


def training(job: Read) -> dict[str, Any]:
    """The row that a training has now."""
    return {
        **job.some(*OF_BOTH, *OF_TRAININGS),
        "kind": "job",
        "created_at": job["queued_at"],
        "spec": {**job.some(*SPEC), "run_policy": job.some(*POLICY)},
        "generation": 1,
        "observed_generation": 1,
        "notes": notes_of(job["memo"]),
        "steps": [],
        "node_port": None,
        "event_files": None,
        "source_commit": "",
        "ends_by": None,
        "preempted_at": None,
        "preempted_for": "",
        "preempted_why": "",
        "stops_from": None,
        "rank": 0,
    }


def service(row: Read) -> dict[str, Any]:
    """The row that a notebook or a TensorBoard has now."""
    notes = notes_of(row["memo"])
    withdrawals = 0
    if isinstance(notes, dict):
        withdrawals = notes.pop("withdrawals", 0)
        notes.pop("pod_uid", None)
    folders = row["log_dirs"]
    is_board = row["kind"] == "tensorboard"
    assert is_board or folders == []
    return {
        **row.some(*OF_BOTH),
        **{now: row[before] for before, now in OF_SERVICES.items()},
        "replicas": {row["kind"]: {"count": 1, **row.some(*SIZE)}},
        "spec": {"log_dirs": folders} if is_board else {},
        "attempt": max(1, row["seen_start"]),
        "requeued_count": withdrawals if withdrawals in (0, 1, 2, 4) else 0,
        "notes": notes,
        "stop_requested_at": None,
        "deciders_ended_at": None,
        "source_commit": "",
        "ends_by": None,
        "preempted_at": None,
        "preempted_for": "",
        "preempted_why": "",
        "stops_from": None,
        "rank": 0,
    }


def replica(row: Read) -> dict[str, Any]:
    """The replica of a service that was started once."""
    uid = row["memo"].get("pod_uid") if isinstance(row["memo"], dict) else None
    return {
        **row.some(*OF_REPLICAS),
        "workload_id": row["id"],
        "role": row["kind"],
        "index": 0,
        "attempt": max(1, row["seen_start"]),
        "incarnation": 1,
        "pod_uid": uid if uid and len(uid) <= 36 else "",
        "state": STATES.get(row["state"], row["state"]),
        "exit_code": None,
        "reason_code": "",
        "reason_text": "",
        "started_at": None,
        "finished_at": None,
        **LATER["Replica"],
    }


def event(row: Read) -> dict[str, Any]:
    """An event of a service."""
    mine = {"workload_id": row["service_id"], "generation": row["start_count"]}
    return {**row.some(*OF_EVENTS), **mine}


def of_workload(row: Read) -> dict[str, Any]:
    """A row that belongs to a training, and is otherwise as it was."""
    kept = row.some(*(name for name in row if name != "job_id"))
    return {**kept, "workload_id": row["job_id"]}


def now(name: str, **chosen: Any) -> list[dict[str, Any]]:
    """All columns of rows of today."""
    rows = getattr(models, name).objects.using(ALIAS).filter(**chosen).order_by("pk")
    return list(rows.values())


def without_id(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name != "id"} for row in rows]


TABLES = (
    *("Job", "Service", "JobEvent", "ServiceEvent"),
    *("Replica", "ReplicaArchive", "LogSegment", "Artifact"),
)
# Columns that came with a later version, as rows of before have them.
LATER: Mapping[str, dict[str, Any]] = {
    "Replica": {"address": ""},
    "ReplicaArchive": {
        "checkpoint": "",
        "checkpoint_at": None,
        "restarts": 0,
        "run_start_byte": 0,
    },
}
Rows = Mapping[str, Sequence[Read]]


def rows_of(old: OldTables) -> Rows:
    """All rows of before."""
    return {name: [Read(row) for row in old.rows(name)] for name in TABLES}


def compare(before: Rows) -> None:
    """Looks for each row of before, column by column, in the migrated database."""
    jobs, services = before["Job"], before["Service"]
    assert now("Workload", kind="job") == [training(job) for job in jobs]
    assert now("Workload") == sorted(
        [*map(training, jobs), *map(service, services)], key=lambda row: row["id"]
    )
    pods = [replica(row) for row in services if row["seen_start"]]
    untouched = [row.some(*OF_REPLICAS) for row in services if not row["seen_start"]]
    assert untouched.count({"pod": "", "node": "", "gpus": "", "restarts": 0}) == len(untouched) > 0
    kept = [of_workload(row) | LATER["Replica"] for row in before["Replica"]]
    assert now("Replica")[: len(kept)] == kept
    assert without_id(now("Replica")[len(kept) :]) == pods
    kept = [of_workload(row) | {"generation": 1} for row in before["JobEvent"]]
    assert now("WorkloadEvent")[: len(kept)] == kept
    assert without_id(now("WorkloadEvent")[len(kept) :]) == [*map(event, before["ServiceEvent"])]
    for name in ("ReplicaArchive", "Artifact"):
        assert now(name) == [of_workload(row) | LATER.get(name, {}) for row in before[name]]
    assert now("LogSegment") == [row.some(*row) for row in before["LogSegment"]]


def all_were_read(before: Rows) -> None:
    """Looks for columns that were in no row compared."""
    for name, rows in before.items():
        assert rows, name
        assert set().union(*(row.left for row in rows)) == set(GONE.get(name, ())), name
    assert {row["priority"] for row in before["Job"]} == {"normal"}
