"""Nodes and their holders for the tests of this folder, and its pages as somebody sees them."""

from typing import Any

from jobs.models import Node, Workload
from tenants.models import Tenant, User
from tests.browsing import client_of, page_of
from tests.portal.markup import Markup

GIB = 2**30


def make_node(name: str = "gpu-01", **changes: Any) -> Node:
    """A ready node of 8 GPUs, 64 CPUs and 256 GiB, of which nothing is asked for."""
    amounts = {"cpu": 64_000, "memory": 256 * GIB, "gpu": 8, "pods": 110}
    fields: dict[str, Any] = {
        "is_ready": True,
        "capacity": amounts,
        "allocatable": amounts,
        "requested": {"cpu": 0, "memory": 0, "gpu": 0, "pods": 0},
        "conditions": [
            {"type": "Ready", "status": "True", "reason": "", "message": "", "since": None}
        ],
        **changes,
    }
    return Node.objects.create(name=name, **fields)


def held_by(
    tenant: Tenant | None, row: Workload | None = None, gpu: int = 1, gpus: str = ""
) -> dict[str, Any]:
    """What a node tells of one pod; without a tenant one that is not Homeport's."""
    return {
        "namespace": tenant.namespace if tenant else "kube-system",
        "pod": f"pod-of-{row.pk if row else 'nobody'}",
        "owner": str(row.pk) if row else "",
        "gpu": gpu,
        "gpus": gpus,
        "since": "2026-11-20T10:00:00+00:00",
    }


def get(who: User, path: str, **headers: str) -> Any:
    """The answer to this person."""
    return client_of(who).get(path, headers=headers)


def read(who: User, path: str) -> Markup:
    return page_of(get(who, path))


def rest(who: User, path: str) -> Any:
    answer = get(who, path)
    assert answer.status_code == 200
    return answer.json()
