"""One successful change for each mutating route: who sends what, on which rows."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.core.files.uploadedfile import SimpleUploadedFile
from django.utils import timezone

from jobs.kinds.registry import KINDS, WITH_GATE
from jobs.models import Bundle, Node, UserSecret, Workload
from jobs.rules.states import WorkloadState
from jobs.scheduling.models import NodeHold
from tenants.actions import create_token, ensure_tenant
from tenants.models import Team, Tenant, User
from tenants.people import passwords
from tenants.people.models import Session
from tests.factories import (
    make_job,
    make_service,
    make_template,
    make_tenant,
    make_user,
    smallest_body,
    submit_body,
)

PASSWORD = "a long password"
NEW = {"new_password1": "orange tugboat 7", "new_password2": "orange tugboat 7"}
DOCTOR = {
    "kind": "doctor",
    "at": "2026-11-26T07:00:00+00:00",
    "version": "0.1.0",
    "took_s": 48,
    "checks": [{"name": "gate", "outcome": "failed", "words": "Closed.", "next_step": "Open it."}],
}


class World:
    """Rows that routes are about: Alice owns, Lee leads, Root is the admin."""

    def __init__(self) -> None:
        self.team = Team.objects.create(name="vision", budget_gpu_count=50)
        self.empty = Team.objects.create(name="empty")
        self.alice = make_tenant("alice", team=self.team)
        self.lee = make_tenant("lee", team=self.team)
        self.team.leads.add(self.lee.owner)
        self.root = make_user("root", role="admin")
        self.bob = make_user("bob")
        self.job = make_job(self.alice, state=WorkloadState.RUNNING)
        self.served = {
            kind: make_service(self.alice, kind=kind, state="running") for kind in WITH_GATE
        }
        self.bundle = Bundle.objects.create(
            tenant=self.alice, file_name="code.zip", sha256="0" * 64, size_bytes=1
        )
        self.template = make_template(self.alice.owner)
        self.token, self.plain = create_token(by=self.alice.owner, name="t")
        self.session = Session.objects.create(
            session_key="other",
            user=self.alice.owner,
            expire_date=timezone.now() + timedelta(days=1),
        )
        self.join_key = passwords.link_for(self.bob).key

    def leave(self) -> None:
        User.objects.update(team=None)
        Tenant.objects.update(team=None)

    def tenant(self, desired: str, **changes: Any) -> None:
        changes = {"desired": desired, "state": desired, **changes}
        Tenant.objects.filter(pk=self.alice.pk).update(**changes)


def _stopped(kind: str) -> Callable[[World], Any]:
    """What is of this kind does not run."""
    rows = Workload.objects.filter(kind=kind)
    return lambda world: rows.update(state="stopped", desired="stop")


def _failed_array(world: World) -> None:
    made = make_job(world.alice, topology="array", state="failed")
    columns = {name: getattr(made, name) for name in ("spec", "replicas", "state")}
    Workload.objects.filter(pk=world.job.pk).update(**columns)


def _suspended(world: World) -> None:
    Workload.objects.filter(pk=world.job.pk).update(state="suspended", desired="suspend")


def _queued(world: World) -> None:
    Workload.objects.filter(pk=world.job.pk).update(state="queued")


def _limited(world: World) -> None:
    spec = {**world.job.spec, "run_policy": {"deadline_s": 3600}}
    Workload.objects.filter(pk=world.job.pk).update(spec=spec)


def _node(world: World) -> None:
    Node.objects.create(name="n1")


def _held_node(world: World) -> None:
    NodeHold.objects.create(node="n1", from_at=timezone.now(), held_by="root")


def _deleted(world: World) -> None:
    later = timezone.now() - timedelta(days=1)
    world.tenant("deleted", state="deleting", purge_after=later, purge_data="keep")


@dataclass(frozen=True)
class Change:
    """Attributes:
    verb: of the one row that it writes.
    who: signs in before it; empty: nobody.
    body: a form for pages, JSON for REST; given the world.
    before: prepares the rows.
    token: sent as a header instead of a session.
    """

    verb: str
    who: str = "alice"
    body: Callable[[World], Any] = field(default=lambda world: {})
    before: Callable[[World], Any] = field(default=lambda world: None)
    token: Callable[[World], str] | None = None


def _names(team: str = "vision") -> Callable[[World], Any]:
    return lambda world: {
        "name": f"{team} two",
        "budget_cpu": "",
        "budget_memory": "",
        "budget_gpu": "9",
    }


def _typed(world: World) -> Any:
    return {"confirm": world.alice.namespace, "data": "keep"}


def _ended(world: World) -> None:
    make_job(world.alice, state="failed", finished_at=timezone.now())


def _of_any_age(world: World) -> Any:
    return {"older_than": "0s", "states": ["failed"]}


def _upload(world: World) -> Any:
    return {"file": SimpleUploadedFile("train.py", b"print(1)\n")}


def _secret(world: World) -> Any:
    return {"name": "wandb", "key": "k", "value": "v"}


def _values(world: World) -> Any:
    return {"data": {"k": "v"}}


def _has_secret(world: World) -> None:
    UserSecret.objects.create(tenant=world.alice, name="wandb", kind="generic")


def _smallest(kind: str) -> Callable[[World], Any]:
    return lambda world: smallest_body(KINDS[kind])


def _template(world: World) -> Any:
    return {"name": "other", "team": None, "spec": submit_body()}


def _training(world: World) -> Any:
    return {
        "name": "t",
        "topology": "single",
        "image": "python:3.11-slim",
        "command": "python train.py",
        "source_kind": "none",
        "worker_count": "1",
        "worker_cpu": "1",
        "worker_memory": "1Gi",
        "worker_gpu": "0",
    }


CHANGES: dict[tuple[str, str], Change] = {
    # --- signing in, the own account ---
    ("sign-in", "POST"): Change(
        "sign-in", "", lambda world: {"username": "alice", "password": PASSWORD}
    ),
    ("sign-out", "POST"): Change("sign-out"),
    ("join", "POST"): Change("join", "", lambda world: NEW, lambda world: make_home(world.bob)),
    ("account", "POST"): Change("create", body=lambda world: {"name": "x"}),
    ("password-change", "POST"): Change(
        "password", body=lambda world: {"old_password": PASSWORD, **NEW}
    ),
    ("sessions-end", "POST"): Change("end-sessions"),
    ("session-end", "POST"): Change("end-session"),
    ("token-revoke", "POST"): Change("revoke"),
    ("tenant-make", "POST"): Change("create", "root"),
    ("api-token", "POST"): Change(
        "create", "", lambda world: {"username": "alice", "password": PASSWORD}
    ),
    ("api-token", "DELETE"): Change("revoke", "", token=lambda world: world.plain),
    # --- people and teams ---
    ("person-invite", "POST"): Change(
        "invite", "root", lambda world: {"username": "ann", "role": "researcher"}
    ),
    ("person", "POST"): Change("change", "root", lambda world: {"role": "admin", "team": ""}),
    ("person-disable", "POST"): Change("disable", "root"),
    ("person-enable", "POST"): Change(
        "enable",
        "root",
        before=lambda world: User.objects.filter(username="alice").update(is_active=False),
    ),
    ("person-reset", "POST"): Change("reset", "root"),
    ("teams", "POST"): Change("create", "root", _names("new")),
    ("scheduling", "POST"): Change(
        "change", "root", lambda world: {"fair_share": "on", "aging_s": "3h"}
    ),
    ("node-use-again", "POST"): Change(
        "use-again",
        "root",
        lambda world: {"node": "gpu-01"},
        lambda world: Node.objects.create(name="gpu-01"),
    ),
    ("nodes-hold", "POST"): Change(
        "hold", "root", lambda world: {"node": "n1", "confirm": "yes"}, before=_node
    ),
    ("nodes-release", "POST"): Change("release", "root", lambda world: {"node": "n1"}, _held_node),
    ("api-holds", "POST"): Change("hold", "root", lambda world: {"node": "n1"}, before=_node),
    ("api-holds-release", "POST"): Change(
        "release", "root", lambda world: {"node": "n1"}, before=_held_node
    ),
    ("team-admin", "POST"): Change("change", "root", _names()),
    ("team-member-add", "POST"): Change("change", "root", lambda world: {"username": "bob"}),
    ("team-member-remove", "POST"): Change("change", "root", lambda world: {"username": "alice"}),
    ("team-lead", "POST"): Change(
        "change", "root", lambda world: {"username": "alice", "is_lead": "1"}
    ),
    ("team-delete", "POST"): Change("delete", "root"),
    ("api-users", "POST"): Change("invite", "root", lambda world: {"username": "ann"}),
    ("api-user", "PATCH"): Change("change", "root", lambda world: {"role": "admin"}),
    ("api-user-reset", "POST"): Change("reset", "root"),
    ("api-doctor", "POST"): Change("create", "root", lambda world: DOCTOR),
    ("api-teams", "POST"): Change("create", "root", lambda world: {"name": "new"}),
    ("api-team", "PATCH"): Change("change", "root", lambda world: {"budget": {"gpu": 9}}),
    ("api-team", "DELETE"): Change("delete", "root", before=lambda world: world.leave()),
    # --- namespaces ---
    ("namespace-new", "POST"): Change("create", "root", lambda world: {"owner": "bob"}),
    ("namespace-verb", "POST"): Change("suspend", "root"),
    ("tenant-quota", "POST"): Change("quota", "lee", lambda world: {"gpu": "1"}),
    ("api-tenants", "POST"): Change("create", "root", lambda world: {"owner": "bob"}),
    ("api-tenant", "PATCH"): Change("quota", "lee", lambda world: {"quota": {"gpu": 1}}),
    ("api-tenant-suspend", "POST"): Change("suspend", "root"),
    ("api-tenant-resume", "POST"): Change(
        "resume", "root", before=lambda world: world.tenant("suspended")
    ),
    ("api-tenant-delete", "POST"): Change("delete", "root", _typed),
    ("api-tenant-restore", "POST"): Change("restore", "root", before=_deleted),
    ("api-tenant-purge", "POST"): Change(
        "purge", "root", lambda world: {"confirm": world.alice.namespace}, _deleted
    ),
    # --- what runs ---
    ("job-new", "POST"): Change("submit", body=_training),
    ("jobs-prune", "POST"): Change("prune", body=_of_any_age, before=_ended),
    ("job-stop", "POST"): Change("stop"),
    ("job-suspend", "POST"): Change("suspend"),
    ("job-resume", "POST"): Change("resume", before=_suspended),
    ("job-priority", "POST"): Change("prioritize", body=lambda _: {"priority": "low"}),
    ("job-deadline", "POST"): Change(
        "extend", "root", lambda _: {"deadline_s": "7200"}, before=_limited
    ),
    ("job-order", "POST"): Change("reorder", body=lambda _: {"to": "back"}, before=_queued),
    ("job-delete", "POST"): Change("delete"),
    ("bundle-upload", "POST"): Change("upload", body=_upload),
    ("upload-delete", "POST"): Change("delete"),
    ("template-rename", "POST"): Change("change", body=lambda world: {"name": "other"}),
    ("template-delete", "POST"): Change("delete"),
    ("lead-stop", "POST"): Change("stop", "lee", lambda world: {"reason": "it hangs"}),
    ("api-bundles", "POST"): Change("upload", body=_upload),
    ("api-bundle", "DELETE"): Change("delete"),
    ("secret-new", "POST"): Change("create", body=_secret),
    ("secret", "POST"): Change("change", body=_secret, before=_has_secret),
    ("secret-delete", "POST"): Change("delete", before=_has_secret),
    ("api-secret", "PUT"): Change("change", body=_values, before=_has_secret),
    ("api-secret", "DELETE"): Change("delete", before=_has_secret),
    ("api-templates", "POST"): Change("create", body=_template),
    ("api-template", "PUT"): Change("change", body=_template),
    ("api-template", "DELETE"): Change("delete"),
    ("api-jobs", "POST"): Change("submit", body=lambda world: submit_body()),
    ("api-job-prune", "POST"): Change(
        "prune", body=lambda world: {**_of_any_age(world), "dry_run": False}, before=_ended
    ),
    ("api-job", "DELETE"): Change("delete"),
    ("api-job-stop", "POST"): Change("stop"),
    ("api-job-suspend", "POST"): Change("suspend"),
    ("api-job-rerun-failed", "POST"): Change("submit", before=_failed_array),
    ("api-job-resume", "POST"): Change("resume", before=_suspended),
    ("api-job-priority", "POST"): Change("prioritize", body=lambda _: {"priority": "low"}),
    ("api-job-deadline", "POST"): Change(
        "extend", "root", lambda _: {"deadline_s": 7200}, before=_limited
    ),
    ("api-job-order", "POST"): Change("reorder", body=lambda _: {"to": "back"}, before=_queued),
}
for _kind in WITH_GATE:
    _start = Change("start", before=_stopped(_kind))
    _create = Change("create", body=_smallest(_kind))
    CHANGES |= {
        (f"{_kind}-new", "POST"): _create,
        (f"{_kind}-start", "POST"): _start,
        (f"{_kind}-stop", "POST"): Change("stop"),
        (f"{_kind}-delete", "POST"): Change("delete"),
        (f"{_kind}s-stop", "POST"): Change("stop"),
        (f"api-{_kind}s", "POST"): _create,
        (f"api-{_kind}", "DELETE"): Change("delete"),
        (f"api-{_kind}-start", "POST"): _start,
        (f"api-{_kind}-stop", "POST"): Change("stop"),
    }
CHANGES[("tensorboard-of", "POST")] = Change(
    "create", body=lambda world: {"jobs": str(world.job.pk)}
)


def make_home(person: User) -> None:
    """So that joining makes no namespace beside it."""
    ensure_tenant(user=person)


# POST that only looks: previews of a form, and opening, which writes a row when it succeeds (that
# needs a gate; tests/jobs/workloads).
LOOKS = {"job-fit", "api-job-preview", "api-job-document", *(f"{kind}-fit" for kind in WITH_GATE)}
ELSEWHERE = {f"{api}{kind}-open" for kind in WITH_GATE for api in ("", "api-")}


def identity(world: World, name: str) -> Any:
    """The id in the address of a route."""
    if name in {"team-delete"}:
        return world.empty.pk
    ids = {
        "session-end": world.session.id,
        "token-revoke": world.token.pk,
        "person": world.alice.owner.pk,
        "api-user": world.alice.owner.pk,
        "team": world.team.pk,
        "api-team": world.team.pk,
        "namespace": world.alice.pk,
        "tenant": world.alice.pk,
        "api-tenant": world.alice.pk,
        **{f"{api}{key}": row.pk for key, row in world.served.items() for api in ("", "api-")},
        "job": world.job.pk,
        "api-job": world.job.pk,
        "lead-stop": world.job.pk,
        "upload-delete": world.bundle.pk,
        "api-bundle": world.bundle.pk,
        "template": world.template.pk,
        "api-template": world.template.pk,
    }
    fitting = [key for key in ids if name.startswith(key)]
    return ids[max(fitting, key=len)]
