"""Who may do what: the whole role table in one place.

Seeing is decided by the querysets' `visible_to`; what cannot be seen answers 404. What can be seen
but not done answers 403.
"""

from typing import Any

from tenants.models import Tenant, User


def leads(user: User, tenant: Tenant) -> bool:
    """Whether the user leads the tenant's team."""
    return tenant.team_id is not None and user.leads_teams.filter(pk=tenant.team_id).exists()


def may_submit(user: User, tenant: Tenant) -> bool:
    """Only the owner runs things in a tenant."""
    return tenant.owner_id == user.pk


def may_stop(user: User, tenant: Tenant) -> bool:
    """The owner, a lead of the team, an admin."""
    return tenant.owner_id == user.pk or user.is_admin or leads(user, tenant)


def may_open(user: User, service: Any) -> bool:
    """A notebook: its owner alone. A TensorBoard: leads of the team and admins as well.

    Args:
        service: a `jobs.services.models.Service`, which this room cannot name.
    """
    if service.owner_id == user.pk:
        return True
    return service.kind == "tensorboard" and (user.is_admin or leads(user, service.tenant))


def may_delete(user: User, tenant: Tenant) -> bool:
    """The owner and an admin: deleting takes logs and artifacts with it."""
    return tenant.owner_id == user.pk or user.is_admin


def may_read_values(user: User, tenant: Tenant) -> bool:
    """The owner alone: values of variables and addresses of code may be secrets."""
    return tenant.owner_id == user.pk


def may_change_quota(user: User, tenant: Tenant) -> bool:
    """An admin; a lead of the team, within the team's budget (`tenants/quota.py`)."""
    return user.is_admin or leads(user, tenant)


def may_manage_tenants(user: User) -> bool:
    """Only an admin makes, suspends, deletes and purges namespaces (`tenants/namespaces/`)."""
    return user.is_admin
