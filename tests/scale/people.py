"""Who is in a lab of any size: teams, people, their namespaces, tokens and sessions."""

import uuid
from datetime import datetime, timedelta

from portal.cluster import names
from tenants.actions import ensure_tenant
from tenants.models import ApiToken, Team, Tenant, TenantObject, User
from tenants.people.models import Session
from tests.scale.sizes import GIB, Size, bulk

OBJECTS = ("Namespace", "ResourceQuota", "LimitRange", "NetworkPolicy", "PersistentVolumeClaim")


def make_teams(size: Size) -> list[Team]:
    have = Team.objects.count()
    made = bulk(Team, (Team(name=f"team {have + n}") for n in range(size.teams)))
    leads = bulk(User, (User(username=f"lead-{have + n}", password="!") for n in range(size.teams)))
    for team, lead in zip(made, leads, strict=True):
        team.leads.add(lead)
    return list(Team.objects.order_by("created_at", "name")) if have else made


def make_tenants(size: Size, teams: list[Team], at: datetime) -> list[Tenant]:
    """All tenants, Ada's first; hers is in the first team."""
    ada = User.objects.filter(username="ada").first()
    if ada is None:
        ada = User.objects.create(username="ada", password="!", team=teams[0])
    first = ensure_tenant(user=ada)
    Tenant.objects.filter(pk=first.pk).update(
        state="active", team=teams[0], observed_hard=first.quota, observed_used=first.quota
    )
    have = User.objects.filter(username__startswith="person-").count()
    people = bulk(
        User,
        (
            User(
                username=f"person-{have + n}",
                first_name="Person",
                last_name=str(have + n),
                password="!",
                team=teams[n % len(teams)],
            )
            for n in range(size.tenants - 1)
        ),
    )
    quota = {
        field.attname: getattr(first, field.attname)
        for field in Tenant._meta.concrete_fields
        if field.attname.startswith(("quota_", "data_volume", "log_volume"))
    }
    tenants = bulk(
        Tenant,
        (
            Tenant(
                owner=person,
                team=person.team,
                namespace=names.namespace_name(person.username, person.pk),
                state="active" if n % 9 else "suspended",
                desired="active" if n % 9 else "suspended",
                observed_hard=first.quota,
                observed_used={"cpu": 1000 * (n % 8), "memory": GIB * n, "gpu": n % 3, "pods": n},
                created_at=at - timedelta(days=n % 300),
                **quota,
            )
            for n, person in enumerate(people)
        ),
    )
    bulk(
        TenantObject,
        (
            TenantObject(tenant=tenant, position=place, kind=kind, name=kind.lower(), state="ready")
            for tenant in [*tenants, *([] if first.objects_seen.exists() else [first])]
            for place, kind in enumerate(OBJECTS)
        ),
    )
    everybody = Tenant.objects.exclude(pk=first.pk).select_related("owner", "team")
    return [Tenant.objects.select_related("owner", "team").get(pk=first.pk), *everybody]


def make_account(size: Size, user: User, at: datetime) -> tuple[ApiToken, Session]:
    later = at + timedelta(days=30)
    tokens = bulk(
        ApiToken,
        (
            ApiToken(user=user, name=f"token {n}", digest=uuid.uuid4().hex, expires_at=later)
            for n in range(size.inside)
        ),
    )
    sessions = bulk(
        Session,
        (
            Session(session_key=uuid.uuid4().hex, user=user, session_data="", expire_date=later)
            for _ in range(size.inside)
        ),
    )
    return tokens[0], sessions[0]
