"""Which state a tenant is in, from what is wanted and what the cluster shows. Pure.

A tenant that is closed (suspended or being deleted) keeps its namespace with everything in it. The
jobs' part ends what runs; when that has been quiet for a while the quota goes down too, as a second
wall beside admission. It waits, because pods that rescue logs need a place as well.
"""

from collections.abc import Sequence

from tenants.models import Tenant
from tenants.reconcile.objects import State
from tenants.reconcile.store import NOT_CHANGED, ObjectStatus, TenantStatus

# A pod that rescues a log starts at most 20 s after the last replica has ended (jobs/engine).
QUIET_S = 60.0
LOOK_AGAIN_S = 1.0  # while pods of a closed tenant are still ending


def is_closed(tenant: Tenant) -> bool:
    """Whether nothing may run in it, as people want it now."""
    return tenant.desired != Tenant.Desired.ACTIVE


def status_of(tenant: Tenant, objects: Sequence[ObjectStatus], running: int) -> TenantStatus:
    """Where a tenant stands that is not being purged.

    Args:
        objects: what it is made of, as this pass left it.
        running: pods in its namespace that have not ended.
    """
    late = next((one for one in objects if one.state != State.READY), None)
    wrong = next((one for one in objects if NOT_CHANGED in one.detail), None)
    shown = late or wrong
    words = f"{shown.kind} {shown.name}: {shown.detail or shown.state}" if shown else ""
    if tenant.desired == Tenant.Desired.ACTIVE:
        state = Tenant.State.PROVISIONING if late else Tenant.State.ACTIVE
        return TenantStatus(state, words)
    ending = f"{count_text(running)} still ending" if running else ""
    if tenant.desired == Tenant.Desired.DELETED:
        return TenantStatus(Tenant.State.DELETING, ending or words)
    # Suspended means that nothing runs; a pod that saves a log afterwards changes nothing in that.
    if running and tenant.state != Tenant.State.SUSPENDED:
        return TenantStatus(None, ending)
    return TenantStatus(Tenant.State.SUSPENDED, ending or words)


def count_text(pods: int) -> str:
    """`1 pod is`, `3 pods are`."""
    return "1 pod is" if pods == 1 else f"{pods} pods are"
