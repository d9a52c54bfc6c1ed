"""The people who call, what each of them has, and how one call is sent without leaving a trace."""

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Self
from uuid import UUID, uuid4

from django.conf import settings
from django.db import connection, transaction
from django.http import HttpResponseBase
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls.converters import IntConverter, SlugConverter, UUIDConverter
from django.utils import timezone

from jobs.kinds.registry import WITH_GATE
from jobs.models import Artifact, Bundle, Template, UserSecret, Workload
from jobs.rules.states import WorkloadState
from portal.storage import get_store
from tenants.actions import create_token
from tenants.models import Team, Tenant, User
from tenants.people import passwords
from tenants.people.models import Session
from tests.factories import make_job, make_service, make_template, make_tenant, make_user
from tests.portal.routes.table import ADMIN, LEAD, MATE, OWNER, SOMEBODY, Rule
from tests.portal.routes.walk import Route

# alice owns; bob is in her team, lee leads it; olga leads another one; mallory is in none; root is
# an admin; dan was in alice's team and is disabled. Each of them has the same things.
PEOPLE = ("alice", "bob", "lee", "olga", "mallory", "root", "dan")
CALLERS = (*PEOPLE, "nobody")
NOT_PEOPLE = ("nobody", "dan")
HOST = "localhost"
# What a call may write although it was refused: who tried, and when somebody was last seen.
_TRACES = ("tenants_auditentry", "tenants_session", "tenants_apitoken", "tenants_user")


@dataclass(frozen=True)
class Things:
    """What one person has."""

    tenant: Tenant
    job: Workload
    bundle: Bundle
    artifact: Artifact
    template: Template
    served: dict[str, Workload]  # by their kinds
    token_id: UUID
    session_id: UUID
    cookie: str
    token: str

    @property
    def owner(self) -> User:
        return self.tenant.owner


def _things(name: str, team: Team | None) -> Things:
    tenant = make_tenant(name, team=team)
    if name == "root":
        User.objects.filter(pk=tenant.owner.pk).update(role="admin")
        tenant.owner.refresh_from_db()
    UserSecret.objects.create(tenant=tenant, name="wandb", kind="generic", keys=["WANDB_API_KEY"])
    job = make_job(tenant, state=WorkloadState.SUCCEEDED, finished_at=timezone.now())
    key = f"artifacts/{job.pk}"
    get_store().put_file(key, io.BytesIO(b"x"))
    artifact = Artifact.objects.create(
        workload=job,
        path="a",
        size_bytes=1,
        mtime_ns=1,
        storage_key=key,
        uploaded_at=timezone.now(),
    )
    spare, _ = create_token(by=tenant.owner, name="spare")
    _, plain = create_token(by=tenant.owner, name="used")
    session = Session.objects.create(
        session_key=f"spare-{name}",
        user=tenant.owner,
        expire_date=timezone.now() + timedelta(days=1),
    )
    client = Client()
    client.force_login(tenant.owner)
    cookie = client.cookies[settings.SESSION_COOKIE_NAME].value
    return Things(
        tenant,
        job,
        Bundle.objects.create(tenant=tenant, file_name="code.zip", sha256="0" * 64, size_bytes=1),
        artifact,
        make_template(tenant.owner),
        {kind: make_service(tenant, kind=kind, state="running") for kind in WITH_GATE},
        spare.pk,
        session.id,
        cookie,
        plain,
    )


class Scene:
    """Everybody with their things."""

    def __init__(self) -> None:
        vision, speech = (Team.objects.create(name=name) for name in ("vision", "speech"))
        teams = {"olga": speech, "mallory": None, "root": None}
        self.things = {name: _things(name, teams.get(name, vision)) for name in PEOPLE}
        vision.leads.add(self.things["lee"].owner)
        speech.leads.add(self.things["olga"].owner)
        User.objects.filter(username="dan").update(is_active=False)
        self.team_of = {name: teams.get(name, vision) for name in PEOPLE}
        self.leads = {"lee": vision, "olga": speech}
        self._client = Client(raise_request_exception=False, HTTP_HOST=HOST)
        self.join_key = passwords.link_for(make_user("invited")).key

    # --- who is who ---
    def relations(self, caller: str, whose: str | None) -> set[str]:
        """Of a caller to the person whose things are asked for (None: nobody's); see `table`."""
        found = {SOMEBODY}
        team = self.team_of[whose] if whose else None
        if caller == whose:
            found.add(OWNER)
        if team is not None and self.team_of[caller] == team:
            found.add(MATE)
        if team is not None and self.leads.get(caller) == team:
            found.add(LEAD)
        if caller == "root":
            found.add(ADMIN)
        return found

    @staticmethod
    def targets(caller: str, *, has_id: bool) -> dict[str, str | None]:
        """What is asked for -> whose; None: of nobody."""
        if not has_id:
            return {"own": caller}
        other = "olga" if caller == "alice" else "alice"
        return {"own": caller, "other's": other, "absent": None}

    # --- addresses ---
    def has_id(self, route: Route) -> bool:
        return any(isinstance(c, UUIDConverter) for c in route.converters.values())

    def address(self, route: Route, rule: Rule, whose: str | None) -> str | None:
        """The path about somebody's thing (None: with ids of nothing); None: they have none."""
        path = route.path
        for key, converter in route.converters.items():
            if isinstance(converter, UUIDConverter):
                found = uuid4() if whose is None else self._id(route, key, whose)
                if found is None:
                    return None
                path = path.replace(f"<uuid:{key}>", str(found))
            elif isinstance(converter, SlugConverter):
                value = {"key": self.join_key, "role": "worker"}.get(key, rule.slug)
                path = path.replace(f"<slug:{key}>", value)
            elif isinstance(converter, IntConverter):
                path = path.replace(f"<int:{key}>", "0" if key == "index" else "1")
            else:
                raise TypeError(f"{route.path}: what is {key}?")
        path = path.replace("^api/.*", "api/v1/no-such-thing/")
        return "/" + path.replace("^.*", "ws/no-such-thing/")

    def _id(self, route: Route, key: str, whose: str) -> UUID | None:
        things, name = self.things[whose], route.name
        by_key = {
            "artifact_id": things.artifact.pk,
            "job_id": things.job.pk,
            "service_id": things.served["notebook"].pk,
        }
        if key in by_key:
            return by_key[key]
        team = self.team_of[whose]
        # The first that the name begins with.
        by_name: dict[str, UUID | None] = {
            "token-revoke": things.token_id,
            "session-end": things.session_id,
            "person": things.owner.pk,
            "user": things.owner.pk,
            "team-": team.pk if team else None,
            "team": team.pk if team else None,
            "tenant": things.tenant.pk,
            "namespace": things.tenant.pk,
            **{kind: row.pk for kind, row in things.served.items()},
            "job": things.job.pk,
            "bundle": things.bundle.pk,
            "template": things.template.pk,
            "upload-delete": things.bundle.pk,
            "lead-stop": things.job.pk,
        }
        short = name.removeprefix("api-")
        # TensorBoards before teams: both begin alike.
        for start in sorted(by_name, key=len, reverse=True):
            if short.startswith(start):
                return by_name[start]
        raise LookupError(f"{name}: whose id is {key}?")

    # --- calls ---
    def send(
        self,
        caller: str,
        method: str,
        path: str,
        *,
        by: str = "session",
        form: str = "",
        body: Any = None,
        **extra: Any,
    ) -> HttpResponseBase:
        """One call, without CSRF.

        Args:
            by: `session` or `token`.
            form: what is sent, urlencoded; empty: the body.
            body: what is sent as JSON.
        """
        client = self._client
        client.cookies.clear()
        if caller != "nobody" and by == "session":
            client.cookies[settings.SESSION_COOKIE_NAME] = self.things[caller].cookie
        elif caller != "nobody":
            extra["HTTP_AUTHORIZATION"] = f"Token {self.things[caller].token}"
        data, kind = json.dumps(body or {}), "application/json"
        if form:
            data, kind = form, "application/x-www-form-urlencoded"
        return client.generic(method, path, data, content_type=kind, **extra)


@contextmanager
def undone() -> Iterator[None]:
    """Takes back what is done to the database inside."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


class Writes:
    """What a call writes, besides the traces that every call may leave."""

    def __init__(self) -> None:
        self._queries = CaptureQueriesContext(connection)

    def __enter__(self) -> Self:
        self._queries.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._queries.__exit__(*error)

    @property
    def found(self) -> list[str]:
        statements = [query["sql"] for query in self._queries.captured_queries]
        writes = [s for s in statements if s.startswith(("INSERT", "UPDATE", "DELETE"))]
        return [s for s in writes if not any(f'"{table}"' in s[:60] for table in _TRACES)]
