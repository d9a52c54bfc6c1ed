"""Takes namespaces of the cluster over that no row knows, since the database was lost or is an older one.

Each becomes a row with the ids that it had: so what is in the cluster already is the tenant's own, and
the reconciler goes on with it.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Q

from portal.cluster import labels
from tenants.actions import tell
from tenants.audit.record import record
from tenants.models import Team, Tenant, User
from tenants.record import Record, read_record

Object = dict[str, Any]

OF_CHECKS = "u-network-check-"  # of the health page; nobody's


@dataclass(frozen=True)
class LostNamespace:
    """One that no row knows.

    Attributes:
        owner: its tenant's id, as its label says.
        found: whose it is; None: that cannot be read.
        problem: why it cannot be adopted, and what to do; empty: it can.
    """

    name: str
    owner: str
    found: Record | None = None
    problem: str = ""


def is_ours(thing: Object) -> bool:
    """Whether Homeport, this one or another, has made an object."""
    return (thing["metadata"].get("labels") or {}).get(labels.MANAGED_BY) == labels.MANAGER


def owner_of(thing: Object) -> str:
    """The id of the row that an object belongs to; empty: it says none."""
    return str((thing["metadata"].get("labels") or {}).get(labels.OWNER, ""))


def find_lost(
    namespaces: Sequence[Object], *, chosen: Collection[str], portals: Collection[str]
) -> list[LostNamespace]:
    """Those of the cluster's namespaces that are a Homeport's and no row's, by name.

    Args:
        chosen: names of those that are wanted where several are one person's.
        portals: what POD_PORTAL_URL was of installations that are no more.
    """
    rows = {str(pk) for pk in Tenant.objects.values_list("pk", flat=True)}
    lost = [
        _read(one)
        for one in sorted(namespaces, key=lambda one: str(one["metadata"]["name"]))
        if is_ours(one)
        and owner_of(one) not in rows
        and not one["metadata"]["name"].startswith(OF_CHECKS)
    ]
    judged = [_judged(one, {settings.POD_PORTAL_URL, *portals}, chosen) for one in lost]
    people = Counter(
        _name(one) for one in judged if not one.problem and (not chosen or one.name in chosen)
    )
    several = "is one of several of {}; name the one to adopt"
    return [
        replace(one, problem=several.format(_name(one)))
        if not one.problem and people[_name(one)] > 1
        else one
        for one in judged
    ]


def _name(lost: LostNamespace) -> str:
    return lost.found.user.username.lower() if lost.found else ""


def _read(namespace: Object) -> LostNamespace:
    meta = namespace["metadata"]
    lost = LostNamespace(meta["name"], owner_of(namespace))
    if "deletionTimestamp" in meta:
        return replace(lost, problem="it is being removed from the cluster")
    try:
        UUID(lost.owner)
    except ValueError:
        return replace(lost, problem=f"its label {labels.OWNER} is no id")
    try:
        found = read_record((meta.get("annotations") or {}).get(labels.RECORD, ""))
    except ValueError as error:
        return replace(lost, problem=str(error))
    return replace(lost, found=found)


def _judged(
    lost: LostNamespace, portals: Collection[str], chosen: Collection[str]
) -> LostNamespace:
    if lost.problem or lost.found is None:
        return lost
    problem = _why_not(lost, lost.found, portals)
    person = find_person(lost.found)
    # A user name may have gone to somebody else since.
    if not problem and person and person.pk != lost.found.user.id and lost.name not in chosen:
        problem = (
            f"{person.username} has a newer account than that; name {lost.name} if it is the same "
            "person"
        )
    return replace(lost, problem=problem)


def _why_not(lost: LostNamespace, found: Record, portals: Collection[str]) -> str:
    if found.portal not in portals:
        return (
            f"it is of another Homeport, {found.portal}; if that is no more, and only then, add "
            f"--from {found.portal}"
        )
    same = Tenant.objects.filter(namespace=lost.name).first()
    if same is not None and not _is_empty(same):
        return "another row has its name, and work of its own"
    person = find_person(found)
    home = Tenant.objects.current_tenant_of(person) if person else None
    if home is not None and home != same:
        return (
            f"{home.owner.username} has another namespace, {home.namespace}; purge that one, its "
            "data may be kept, then adopt this one"
        )
    try:
        new_person(found).clean_fields(exclude=["password"])
    except ValidationError as error:
        return f"its record names no person: {'; '.join(error.messages)}; correct it with kubectl"
    return ""


def _is_empty(tenant: Tenant) -> bool:
    """Whether a row has come to nothing: its namespace could not be made, as the name was taken."""
    related = (tenant.workloads, tenant.bundles, tenant.secrets, tenant.usage)
    is_new = tenant.state == Tenant.State.PROVISIONING
    return is_new and not any(rows.exists() for rows in related)


def find_person(found: Record) -> User | None:
    """Who has the id, or else the user name, of a record."""
    by_id = User.objects.filter(pk=found.user.id).first()
    return by_id or User.objects.filter(username__iexact=found.user.username).first()


def new_person(found: Record) -> User:
    """Somebody whom nobody knows any more, not saved: without a password, and nothing but a researcher."""
    one = found.user
    return User(
        id=one.id,
        username=one.username,
        first_name=one.first_name,
        last_name=one.last_name,
        email=one.email,
    )


@transaction.atomic
def adopt(lost: LostNamespace) -> Tenant:
    """Makes the rows of one without a problem.

    Raises:
        django.db.IntegrityError: what it was judged by has changed; nothing was done.
    """
    found = lost.found
    assert found is not None
    assert not lost.problem
    team = None
    if found.team is not None:
        known = Team.objects.filter(Q(pk=found.team.id) | Q(name=found.team.name)).first()
        team = known or Team.objects.create(id=found.team.id, name=found.team.name)
    person = find_person(found)
    is_new = person is None
    if person is None:
        person = new_person(found)
        person.team = team
        person.set_unusable_password()
        person.save(force_insert=True)
    Tenant.objects.filter(namespace=lost.name).delete()
    wanted = Tenant.Desired.ACTIVE if found.is_open else Tenant.Desired.SUSPENDED
    tenant: Tenant = Tenant.objects.create(
        id=UUID(lost.owner),
        owner=person,
        team=team,
        namespace=lost.name,
        desired=wanted,
        **found.columns,
    )
    record(by=None, verb="adopt", target=tenant, detail={"new_person": is_new})
    tell(tenant)
    return tenant
