"""People, tenants and jobs for tests: Alice owns, Bob is in her team, Mallory is a stranger."""

from typing import Any

import msgspec
from django.utils import timezone

from jobs.kinds.base import WorkloadKind
from jobs.kinds.registry import KINDS
from jobs.kinds.spec import columns_of, spec_of
from jobs.kinds.training.document import as_body
from jobs.kinds.training.kind import TRAINING
from jobs.kinds.training.spec import RunPolicy, TrainingSpec
from jobs.models import Replica, Template, Workload
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


# What a body needs of fields that its kind's serializer requires.
_REQUIRED = {"name": "n", "image": "python:3.11-slim", "command": ["true"]}


def smallest_body(kind: WorkloadKind) -> dict[str, Any]:
    """The smallest body that asks for one of a kind."""
    return {
        name: _REQUIRED[name] for name, field in kind.serializer().fields.items() if field.required
    }


def new_job(tenant: Tenant, **changes: Any) -> Workload:
    """A training, not saved; changes are fields of its spec, of its run policy, or columns of its row."""
    wanted: dict[str, Any] = {
        "name": "my training",
        "topology": "single",
        "image": "python:3.11-slim",
        "command": ("python", "train.py"),
        "replicas": {"worker": role_request()},
        "observed_generation": 1,
        **changes,
    }
    policy = {name: wanted.pop(name) for name in RunPolicy.__struct_fields__ if name in wanted}
    return _new(tenant, TRAINING, {**wanted, "run_policy": policy})


def make_job(tenant: Tenant, **changes: Any) -> Workload:
    """The same, saved."""
    row = new_job(tenant, **changes)
    row.save()
    return row


def make_template(owner: User, **changes: Any) -> Template:
    """A template of the smallest training; changes are columns."""
    body = as_body(spec_of(new_job(Tenant(owner=owner)), TrainingSpec))
    wanted = {"name": "base", "spec": body, "updated_at": timezone.now(), **changes}
    template: Template = Template.objects.create(owner=owner, **wanted)
    return template


def new_service(tenant: Tenant, kind: str = "notebook", **changes: Any) -> Workload:
    """What is served behind a gate, not saved; queued unless told otherwise.

    `cpu_millicores`, `memory_bytes` and `gpu_count` are those of its one replica.
    """
    size = {name: changes.pop(name) for name in _SIZE if name in changes}
    wanted: dict[str, Any] = {
        "name": "my notebook",
        "image": "quay.io/jupyter/tensorflow-notebook:2026-11-01",
        "replicas": {kind: role_request(**{"memory_bytes": 2**31, **size})},
        **changes,
    }
    if wanted.get("observed_generation"):
        wanted.setdefault("attempt", wanted["observed_generation"])
    return _new(tenant, KINDS[kind], wanted)


def make_service(tenant: Tenant, **changes: Any) -> Workload:
    """The same, saved, with the row of its replica when something of that is given."""
    replica = {name: changes.pop(name) for name in _REPLICA if name in changes}
    row = new_service(tenant, **changes)
    row.save()
    if replica:
        Replica.objects.create(workload=row, role=row.kind, index=0, attempt=row.attempt, **replica)
    return row


_SIZE = ("cpu_millicores", "memory_bytes", "gpu_count")
_REPLICA = ("pod", "pod_uid", "node", "gpus", "restarts", "exit_code")


def role_request(**changes: Any) -> dict[str, int]:
    """What one replica asks for, as a row keeps it."""
    return {"count": 1, "cpu_millicores": 1000, "memory_bytes": 2**30, "gpu_count": 0, **changes}


def _new(tenant: Tenant, kind: WorkloadKind, wanted: dict[str, Any]) -> Workload:
    fields = set(kind.spec.__struct_fields__)
    needed = {one.name for one in msgspec.structs.fields(kind.spec) if one.required}
    wanted = {name: _REQUIRED[name] for name in needed & _REQUIRED.keys()} | wanted
    spec = msgspec.convert({k: v for k, v in wanted.items() if k in fields}, kind.spec)
    columns = {k: v for k, v in wanted.items() if k not in fields}
    return Workload(
        kind=kind.key, tenant=tenant, owner=tenant.owner, **{**columns_of(spec), **columns}
    )
