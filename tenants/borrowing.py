"""How far work of low priority may go beyond a namespace's quota, as the catalog says.

The cluster's ResourceQuota is larger by so much; that work of normal and high priority stays within the
quota itself is admission's to see to, which is the only one that starts anything.
"""

from collections.abc import Mapping

from portal.catalog import borrowing
from tenants.models import Tenant

# More than a cluster has, and still numbers that every part of one can count with.
NO_LIMIT: Mapping[str, int] = {"cpu": 10**9, "memory": 2**60, "gpu": 10**6, "pods": 10**6}


def may_borrow(tenant: Tenant) -> bool:
    """Whether its work of low priority may go beyond its quota at all."""
    how = borrowing()
    return how == "cluster" or (how == "team" and tenant.team_id is not None)


def borrowed(tenant: Tenant) -> dict[str, int]:
    """By how much the cluster's quota is larger: cpu in millicores, memory in bytes, gpu, pods."""
    if not may_borrow(tenant):
        return dict.fromkeys(NO_LIMIT, 0)
    budget = tenant.team.budget if borrowing() == "team" and tenant.team else {}
    known = {kind: amount for kind, amount in budget.items() if amount is not None}
    return {**NO_LIMIT, **known}
