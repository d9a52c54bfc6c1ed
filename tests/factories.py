"""People, tenants and jobs for tests: Alice owns, Bob is in her team, Mallory is a stranger."""

from typing import Any

from jobs.models import Job, Service
from tenants.actions import ensure_tenant
from tenants.models import Team, Tenant, User


def make_user(name: str, *, team: Team | None = None, role: str = "researcher") -> User:
    return User.objects.create_user(username=name, password="a long password", team=team, role=role)


def make_tenant(name: str = "alice", *, team: Team | None = None, active: bool = True) -> Tenant:
    """A tenant whose quota is observed as the default one, with nothing used."""
    tenant = ensure_tenant(user=make_user(name, team=team))
    if active:
        tenant.state = Tenant.State.ACTIVE
        tenant.observed_hard = tenant.quota
        tenant.observed_used = dict.fromkeys(tenant.quota, 0)
        tenant.save()
    return tenant


def submit_body(**changes: Any) -> dict[str, Any]:
    """The smallest body that is accepted, with changes."""
    return {
        "name": "my training",
        "image": "python:3.11-slim",
        "command": ["python", "train.py"],
        **changes,
    }


def make_job(tenant: Tenant, **changes: Any) -> Job:
    fields: dict[str, Any] = {
        "name": "my training",
        "topology": "single",
        "image": "python:3.11-slim",
        "command": ["python", "train.py"],
        "source": None,
        "replicas": {
            "worker": {
                "count": 1,
                "cpu_millicores": 1000,
                "memory_bytes": 2**30,
                "gpu_count": 0,
            }
        },
        **changes,
    }
    return Job.objects.create(tenant=tenant, owner=tenant.owner, **fields)


def make_service(tenant: Tenant, **changes: Any) -> Service:
    """A notebook, or with `kind="tensorboard"` a TensorBoard; queued unless told otherwise."""
    fields: dict[str, Any] = {
        "kind": Service.Kind.NOTEBOOK,
        "name": "my notebook",
        "image": "quay.io/jupyter/tensorflow-notebook:2026-11-01",
        "cpu_millicores": 1000,
        "memory_bytes": 2**31,
        **changes,
    }
    return Service.objects.create(tenant=tenant, owner=tenant.owner, **fields)
