"""Notebooks and TensorBoards in every state, for the database that `seed.py` fills. Rows only."""

from datetime import datetime, timedelta
from typing import Any

from jobs.rules import reasons
from tests.e2e.seed_use import use

GIB = 1024**3
LAB = "quay.io/jupyter/tensorflow-notebook:2026-11-01"
KEYS = ("requested", "admitted", "scheduled", "volumes", "image", "started", "ready")
SECONDS = (0, 1, 2, 4, 31, 33, 39)  # of each step after the request


def start_steps(asked: datetime, done: int, **now: Any) -> list[dict[str, Any]]:
    """The first `done` steps as done, one with what `now` says, the others to come."""
    rows: list[dict[str, Any]] = []
    for place, key in enumerate(KEYS):
        row: dict[str, Any] = {"key": key, "state": "wait", "at": None, "detail": ""}
        if place < done:
            at = asked + timedelta(seconds=SECONDS[place])
            row.update(state="done", at=at.isoformat())
        elif place == done and now:
            row.update(now)
        rows.append(row)
    return rows


def make_service(tenant: Any, asked: datetime, **changes: Any) -> Any:
    from tests import factories

    fields: dict[str, Any] = {
        "kind": "notebook",
        "image": LAB,
        "created_at": asked,
        "queued_at": asked,
        "observed_generation": changes.get("generation", 1),
        **changes,
    }
    return factories.make_service(tenant, **fields)


def event(workload: Any, at: datetime, reason: str, message: str, **changes: Any) -> None:
    from jobs.models import WorkloadEvent

    fields = {"source": "homeport", "subject": "", **changes}
    uid = f"seed-{workload.events.count()}"
    WorkloadEvent.objects.create(
        workload=workload, uid=uid, at=at, reason=reason, message=message, **fields
    )


def make_services(tenant: Any, jobs: dict[str, Any], at: datetime) -> dict[str, Any]:
    """One in each state that a person meets, by a short name."""
    return {**make_notebooks(tenant, at), **make_boards(tenant, jobs, at)}


def make_notebooks(tenant: Any, at: datetime) -> dict[str, Any]:
    asked = at - timedelta(hours=2, minutes=14)
    ready = asked + timedelta(seconds=39)
    running = make_service(
        tenant,
        asked,
        name="first look at the data",
        gpu_count=1,
        cpu_millicores=2000,
        memory_bytes=4 * GIB,
        state="running",
        started_at=ready,
        steps=start_steps(asked, 7),
        node="gpu-01",
        gpus="2",
        pod="first-look-at-the-data-k3v9qz-7c9d8-x2x7t",
        node_port=31204,
        generation=3,
    )
    use(running, "notebook", 0, 120, busy=0.03, gpus=1)
    event(running, asked, "Requested", "2 CPU, 4 GiB, 1 GPU.")
    event(running, asked + timedelta(seconds=2), "Scheduled", "Placed on gpu-01.", source="kubelet")
    event(running, ready, "Ready", "Responding")
    asked = at - timedelta(seconds=95)
    starting = make_service(
        tenant,
        asked,
        name="tokenizer trials",
        state="starting",
        steps=start_steps(asked, 4, state="now", detail="1.2 of 3.4 GiB"),
        node="gpu-01",
        pod="tokenizer-trials-m2p4xa-6f7b9-kk2lq",
        node_port=31377,
    )
    asked = at - timedelta(minutes=12)
    queued = make_service(
        tenant,
        asked,
        name="big model",
        gpu_count=2,
        cpu_millicores=4000,
        memory_bytes=8 * GIB,
        state="queued",
        steps=start_steps(asked, 1, state="now"),
        reason_code="quota",
        reason_text="Waiting for quota: needs 2 GPUs, 0 of 2 free",
        reason_next_step=reasons.ROWS["quota"][1],
    )
    asked = at - timedelta(minutes=40)
    failed = make_service(
        tenant,
        asked,
        name="my own image",
        image="registry.example/lab/jupyter-jax:latest",
        state="failed",
        finished_at=at - timedelta(minutes=37),
        steps=start_steps(asked, 4, state="failed", at=(at - timedelta(minutes=37)).isoformat()),
        reason_code="image_not_found",
        reason_text="Image registry.example/lab/jupyter-jax:latest was not found.",
        reason_next_step="Check its name and tag, or choose another image.",
        node="gpu-01",
    )
    event(failed, at - timedelta(minutes=38), "Failed", "Failed to pull image.", is_warning=True)
    asked = at - timedelta(days=3)
    stopped = make_service(
        tenant,
        asked,
        name="plots for the paper",
        state="stopped",
        desired="stop",
        started_at=asked + timedelta(seconds=39),
        finished_at=at - timedelta(days=2),
        steps=start_steps(asked, 7),
        reason_text="Stopped by Lee: the node is needed for the deadline tonight.",
    )
    return {
        "nb-running": running,
        "nb-starting": starting,
        "nb-queued": queued,
        "nb-failed": failed,
        "nb-stopped": stopped,
    }


def make_boards(tenant: Any, jobs: dict[str, Any], at: datetime) -> dict[str, Any]:
    board = {"kind": "tensorboard", "cpu_millicores": 500, "memory_bytes": GIB}
    asked = at - timedelta(minutes=25)
    chosen = [jobs["running"], jobs["succeeded"], jobs["failed"]]
    dirs = [
        {"title": job.name, "path": f"/log/jobs/{job.name.replace(' ', '-')}", "job": str(job.pk)}
        for job in chosen
    ]
    compared = make_service(
        tenant,
        asked,
        name="mnist compared",
        state="running",
        started_at=asked + timedelta(seconds=9),
        log_dirs=dirs,
        steps=start_steps(asked, 7),
        node="gpu-01",
        node_port=30411,
        **board,
    )
    asked = at - timedelta(days=1)
    everything = make_service(
        tenant,
        asked,
        name="everything",
        state="stopped",
        desired="stop",
        finished_at=at - timedelta(hours=20),
        started_at=asked + timedelta(seconds=9),
        steps=start_steps(asked, 7),
        event_files=0,
        **board,
    )
    return {"tb-running": compared, "tb-stopped": everything}
