"""Nodes and the reconciler's report for `tests/e2e/seed.py`: a cluster at work, with a few troubles."""

from datetime import datetime, timedelta
from typing import Any

GIB = 1024**3
KINDS = (
    ("Namespace", 3), ("ResourceQuota", 3), ("LimitRange", 3), ("NetworkPolicy", 6),
    ("ServiceAccount", 3), ("PersistentVolumeClaim", 6), ("Job", 9), ("Deployment", 4),
    ("RoleBinding", 6), ("Service", 6), ("ConfigMap", 5), ("Pod", 31), ("Node", 4), ("Event", 212),
)  # fmt: skip


def condition(kind: str, status: str, at: datetime, message: str = "") -> dict[str, Any]:
    told = {"type": kind, "status": status, "reason": "KubeletReports", "message": message}
    return {**told, "since": at.isoformat()}


def holder(row: Any, gpu: int, gpus: str, at: datetime) -> dict[str, Any]:
    """A pod of this training or notebook."""
    name = "".join(c if c.isalnum() else "-" for c in row.name.lower())[:30].strip("-")
    return {
        "namespace": row.tenant.namespace,
        "pod": f"{name}-k3v9qz-{gpus.replace(',', '-')}",
        "owner": str(row.pk),
        "gpu": gpu,
        "gpus": gpus,
        "since": at.isoformat(),
    }


def make_nodes(rows: dict[str, Any], stranger: Any, at: datetime) -> None:
    """Four nodes: busy, broken in part, closed, and without GPUs but with trouble.

    `rows` are trainings and services by their short names, `stranger` is a tenant of another team.
    """
    from jobs.models import Node
    from jobs.scheduling.models import NodeHold

    NodeHold.objects.create(
        node="gpu-01", from_at=at + timedelta(hours=5), reason="New disk", held_by="root"
    )
    ready = condition("Ready", "True", at - timedelta(days=9), "kubelet is posting ready status")
    about = {"kubelet": "v1.33.2", "system": "Debian GNU/Linux 13", "machine": "amd64"}
    foreign = {
        "namespace": stranger.namespace,
        "pod": "llm-eval-7qk2ma-worker-0-x8d2f",
        "owner": "",
        "gpu": 1,
        "gpus": "2",
        "since": (at - timedelta(hours=6)).isoformat(),
    }
    system = {**foreign, "namespace": "gpu-operator", "pod": "dcgm-prober-x1", "gpus": "3"}
    big = {"cpu": 32000, "memory": 128 * GIB, "gpu": 4, "pods": 110}
    Node.objects.create(
        name="gpu-01",
        is_ready=True,
        capacity=big,
        allocatable=big,
        requested={"cpu": 21500, "memory": 94 * GIB, "gpu": 4, "pods": 17},
        labels={"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "zone": "rack-2"},
        conditions=[ready, condition("MemoryPressure", "False", at)],
        taints=[{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}],
        holders=[
            holder(rows["running"], 1, "0", at - timedelta(minutes=12)),
            holder(rows["running"], 1, "1", at - timedelta(minutes=12)),
            foreign,
            system,
        ],
        about=about,
    )
    Node.objects.create(
        name="gpu-02",
        is_ready=True,
        capacity=big,
        allocatable={**big, "gpu": 3},
        requested={"cpu": 4000, "memory": 16 * GIB, "gpu": 1, "pods": 9},
        labels={"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"},
        conditions=[
            ready,
            condition("DiskPressure", "True", at - timedelta(hours=2), "kubelet has disk pressure"),
        ],
        holders=[holder(rows["nb-running"], 1, "0", at - timedelta(hours=3))],
        about=about,
    )
    Node.objects.create(
        name="laptop.lab.example",
        is_ready=True,
        is_schedulable=False,
        capacity={**big, "cpu": 16000, "memory": 32 * GIB},
        allocatable={**big, "cpu": 16000, "memory": 30 * GIB},
        requested={"cpu": 500, "memory": GIB, "gpu": 0, "pods": 2},
        labels={"homeport.dev/simulated-gpu": "true"},
        conditions=[
            ready,
            condition("homeport.dev/CPUOvercommitted", "True", at, "16 CPUs on a machine with 4"),
            condition("homeport.dev/Isolation", "False", at, "Not enforced: NetworkPolicy, RBAC."),
        ],
        about={**about, "gpu_note": "This machine has no GPU: 4 simulated ones are offered."},
    )
    Node.objects.create(
        name="cpu-01",
        capacity={"cpu": 64000, "memory": 256 * GIB, "pods": 110},
        allocatable={"cpu": 64000, "memory": 250 * GIB, "pods": 110},
        requested={"cpu": 0, "memory": 0, "gpu": 0, "pods": 0},
        labels={"node-role.kubernetes.io/control-plane": ""},
        conditions=[
            condition("Ready", "Unknown", at - timedelta(minutes=4), "Kubelet stopped posting.")
        ],
        about=about,
    )


def report(at: datetime) -> dict[str, Any]:
    """What a reconciler writes that has two troubles."""
    tried = {"state": "yes", "text": "", "took_s": 0.004, "checked_at": at.isoformat()}
    return {
        "written_at": at.isoformat(),
        "started_at": (at - timedelta(hours=5)).isoformat(),
        "versions": {"homeport": "0.2.0", "python": "3.11.9", "django": "5.2.19"},
        "watches": [
            {
                "kind": kind,
                "objects": count,
                "is_synced": True,
                "heard_at": (at - timedelta(seconds=7 * place)).isoformat(),
                "problem": "",
                "unreadable": int(kind == "Pod"),
                "lists": 1,
                "connects": 4,
            }
            for place, (kind, count) in enumerate(KINDS)
        ],
        "ticks": {"lag_s": 0.118, "took_s": 0.031, "count": 9},
        "jobs": {"pending": 1, "under_way": 2, "resting": 0},
        "last_error": {
            "at": (at - timedelta(minutes=50)).isoformat(),
            "where": "portal.cluster.listwatch",
            "text": "the cluster cannot be watched: no connection to https://10.96.0.1:443",
        },
        "tasks": [{"name": "reconciler", "state": "running", "error": "", "restarts": 0}],
        "store": {**tried, "kind": "s3", "name": "homeport-archive", "took_s": 0.083},
        "channel_layer": {**tried, "kind": "redis"},
        "cluster": {
            "server": "https://10.96.0.1:443",
            "version": "v1.33.2",
            "is_old": False,
            "storage_class": {"state": "no", "detail": ""},
            "pod_security": {"state": "yes", "detail": ""},
            "metrics": {"state": "no", "detail": ""},
            "rights": {"state": "yes", "missing": [], "excess": [], "detail": ""},
            "class_name": "glusterfs",
            "checked_at": at.isoformat(),
        },
    }
