"""Namespaces in every part of their life, for pictures of the admin's pages."""

from datetime import datetime, timedelta
from typing import Any

GIB = 1024**3
_PEOPLE = (
    ("olga", "Olga", "Sorokina", "closed"),
    ("pablo", "Pablo", "Ibarra", "grace"),
    ("quinn", "Quinn", "Abara", "over"),
    ("rosa", "Rosa", "Lindqvist-Montgomery", "stuck"),
    ("sven", "Sven", "Ek", "gone"),
    ("tara", "Tara", "Iyer", "wide"),
)


def make_namespaces(at: datetime, make_tenant: Any) -> dict[str, Any]:
    """The tenants by short names: ns-closed, ns-grace, ns-over, ns-stuck, ns-gone, ns-wide."""
    from tenants.models import Team, User
    from tenants.namespaces import actions

    root = User.objects.get(username="root")
    speech = Team.objects.create(name="speech and language")
    found = {}
    for number, (name, first, last, what) in enumerate(_PEOPLE):
        person = User.objects.create_user(name, first_name=first, last_name=last, team=speech)
        tenant = make_tenant(person, at)
        tenant.created_at = at - timedelta(days=3 + 20 * number)
        tenant.save()
        found[f"ns-{what}"] = tenant
    closed, grace = found["ns-closed"], found["ns-grace"]
    actions.suspend(by=root, tenant=closed, why="GPU hours of this quarter are spent")
    _set(closed, state="suspended", observed_used=_used(), desired_at=at - timedelta(hours=5))
    words = {"confirm": grace.namespace, "data": "delete", "why": "left the lab in October"}
    actions.delete(by=root, tenant=grace, **words)
    _set(grace, state="deleting", observed_used=_used())
    _set(found["ns-over"], observed_used=_used(cpu=9000, memory=14 * GIB, gpu=4, pods=9))
    _set(found["ns-wide"], observed_used=_used(cpu=500, memory=GIB, pods=1), quota_gpu_count=0)
    _make_stuck(found["ns-stuck"], root)
    _make_gone(found["ns-gone"], root, at)
    return found


def _used(**some: int) -> dict[str, int]:
    return {"cpu": 0, "memory": 0, "gpu": 0, "pods": 0, "nodeports": 0, **some}


def _set(tenant: Any, **columns: Any) -> None:
    type(tenant).objects.filter(pk=tenant.pk).update(**columns)
    tenant.refresh_from_db()


def _purge(tenant: Any, root: Any, data: str) -> None:
    from tenants.namespaces import actions

    name, owner = tenant.namespace, tenant.owner.username
    actions.delete(by=root, tenant=tenant, confirm=name, data=data)
    actions.purge(by=root, tenant=tenant, confirm=name, confirm_early=owner)


def _make_stuck(tenant: Any, root: Any) -> None:
    """A purge that a finalizer holds up."""
    _purge(tenant, root, "delete")
    _set(
        tenant,
        state="deleting",
        observed_used=_used(),
        reason_text="PersistentVolumeClaim data is held by the finalizer snapshots.example.org/keep.",
        reason_next_step="The controller behind snapshots.example.org/keep must finish its work and "
        "take the finalizer off. If that controller is not there any more, take it off by hand: "
        "kubectl edit persistentvolumeclaim data, and remove it from metadata.finalizers.",
    )
    rows = tenant.objects_seen
    rows.exclude(name="data").delete()
    detail = "is held by the finalizer snapshots.example.org/keep"
    rows.update(state="waiting", detail=detail)


def _make_gone(tenant: Any, root: Any, at: datetime) -> None:
    from tenants.audit.record import record

    _purge(tenant, root, "keep")
    record(by=None, verb="purged", target=tenant)
    _set(tenant, state="gone", gone_at=at - timedelta(days=1))
    tenant.objects_seen.all().delete()
