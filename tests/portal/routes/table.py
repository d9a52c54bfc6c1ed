"""The table of who may call what; the tests beside it try every cell of it.

A caller stands in some relations to the person whose object an address names: `OWNER` (it is the
caller's own), `MATE` (same team), `LEAD` (leads that person's team), `ADMIN`; everybody is
`SOMEBODY`. An address without an id is about the caller, who is `OWNER`, `LEAD` of some team, `ADMIN`.

What comes of a call follows from a rule's line alone (`Rule.expected`):
- a method without an entry: 405;
- the caller is not let in at all (`let_in`): 403, whatever the id;
- an id that nobody has, or that the caller may not see (`sees`): 404;
- seen, but not among those of the method: 403;
- otherwise an answer, which may be that the body or the moment is wrong (400, 409), but not 403 or 404.
Without a person (nobody signed in, a disabled account): pages send to the sign-in, REST says 401.
"""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum

from jobs.kinds.base import WorkloadKind
from jobs.kinds.registry import KINDS, WITH_GATE

SOMEBODY, OWNER, MATE, LEAD, ADMIN = "somebody", "owner", "mate", "lead", "admin"
ALL = frozenset({SOMEBODY})
SEES = frozenset({OWNER, LEAD, ADMIN})  # `visible_to` of tenants, jobs and services
STOPS = SEES
OWNS = frozenset({OWNER})
DELETES = frozenset({OWNER, ADMIN})
GIVES = frozenset({LEAD, ADMIN})  # quota
ADMINS = frozenset({ADMIN})
LEADS = frozenset({LEAD, ADMIN})
MEMBERS = frozenset({OWNER, MATE, LEAD, ADMIN})

METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "TRACE")


class Door(Enum):
    """Who is spoken to."""

    PEOPLE = "people who signed in; nobody else"
    PUBLIC = "anybody, signed in or not"
    PODS = "pods, by the token of their own job or service; no person"


@dataclass(frozen=True)
class Rule:
    """One line of the table.

    Attributes:
        methods: method -> relations that may use it. HEAD goes as GET.
        sees: to whom the object exists.
        let_in: everybody else is told 403 before any object is looked for.
        slug: for `<slug:...>` in the path.
        form: sent in place of an empty body, where that would name nobody.
    """

    methods: dict[str, AbstractSet[str]]
    sees: AbstractSet[str] = ALL
    let_in: AbstractSet[str] = ALL
    door: Door = Door.PEOPLE
    slug: str = "header"
    form: str = ""

    def of(self, method: str) -> AbstractSet[str] | None:
        """Who may use the method; None: nobody, for there is no such method."""
        return self.methods.get("GET" if method == "HEAD" else method)

    def expected(self, method: str, relations: AbstractSet[str], *, is_there: bool) -> str:
        """`405`, `403`, `404` or `answer`.

        Args:
            relations: of the caller to whose object it is.
            is_there: the id is of something.
        """
        may = self.of(method)
        if may is None:
            return "405"
        if not self.let_in & relations:
            return "403"
        if not is_there or not self.sees & relations:
            return "404"
        return "answer" if may & relations else "403"


def _look(sees: AbstractSet[str] = SEES, slug: str = "header") -> Rule:
    return Rule({"GET": sees}, sees=sees, slug=slug)


def _form(may: AbstractSet[str], *, sees: AbstractSet[str] = SEES) -> Rule:
    """A page that asks, and does it."""
    return Rule({"GET": may, "POST": may}, sees=sees)


def _do(may: AbstractSet[str], *, sees: AbstractSet[str] = SEES) -> Rule:
    return Rule({"POST": may}, sees=sees)


def _mine(*methods: str, slug: str = "") -> Rule:
    """An address without an id, about the caller."""
    return Rule(dict.fromkeys(methods, ALL), slug=slug)


def _public(*methods: str) -> Rule:
    return Rule(dict.fromkeys(methods, ALL), door=Door.PUBLIC)


def _admins(*methods: str, slug: str = "", form: str = "") -> Rule:
    """A page for admins: 403 for everybody else, whatever the id."""
    return Rule(dict.fromkeys(methods, ADMINS), let_in=ADMINS, slug=slug, form=form)


def _leads(*methods: str, slug: str = "") -> Rule:
    """A page for leads, about their own team, and for admins."""
    return Rule(dict.fromkeys(methods, LEADS), let_in=LEADS, slug=slug)


def _pods(method: str) -> Rule:
    return Rule({method: OWNS}, sees=OWNS, door=Door.PODS)


def _each(names: Iterable[str], rule: Rule) -> dict[str, Rule]:
    return dict.fromkeys(names, rule)


def _served(kind: WorkloadKind) -> dict[str, Rule]:
    """Pages and REST of what is served behind a gate; leads and admins may look inside what is shared."""
    key, opens = kind.key, {"open_private": OWNS, "open_shared": SEES}[kind.open_verb]
    return {
        f"{key}s": _mine("GET"),
        f"{key}-new": _mine("GET", "POST"),
        f"{key}-fit": _mine("POST"),
        f"{key}s-stop": _mine("GET", "POST"),
        **_each((key, f"{key}-fragment", f"api-{key}-events", f"api-{key}-usage"), _look()),
        f"{key}-open": _form(opens),
        f"{key}-start": _do(OWNS),
        f"{key}-stop": _form(STOPS),
        f"{key}-delete": _form(DELETES),
        f"api-{key}s": _mine("GET", "POST"),
        f"api-{key}": Rule({"GET": SEES, "DELETE": DELETES}, sees=SEES),
        f"api-{key}-start": _do(OWNS),
        f"api-{key}-stop": _do(STOPS),
        f"api-{key}-open": _do(opens),
    }


_REPLICA = "internal/v1/jobs/<uuid:job_id>/replicas/<slug:role>/<int:index>/<int:attempt>"

TABLE: dict[str, Rule] = {
    # --- signing in, the own account ---
    **_each(("healthz", "livez", "readyz", "status", "oidc-callback"), _public("GET")),
    "sign-in": _public("GET", "POST"),
    "join": _public("GET", "POST"),
    "oidc-begin": _public("POST"),
    "sign-out": _public("POST"),
    "account": _mine("GET", "POST"),
    "password-change": _mine("POST"),
    "sessions-end": _mine("POST"),
    "session-end": _do(OWNS, sees=OWNS),
    "token-revoke": _do(OWNS, sees=OWNS),
    # --- the first page, the own namespace ---
    "home": _mine("GET"),
    "tenant-fragment": _mine("GET", slug="quota"),
    "tenant-make": _mine("POST"),
    "tenant-quota": _form(GIVES),
    # --- trainings ---
    "jobs": _mine("GET"),
    "jobs-prune": _mine("GET", "POST"),
    "job-new": _mine("GET", "POST"),
    "job-fit": _mine("POST"),
    **_each(("job", "job-again", "job-log-download", "job-artifact", "job-fragment"), _look()),
    "job-export": Rule({"GET": OWNS}, sees=SEES),
    "job-stop": _form(STOPS),
    **_each(("job-suspend", "job-resume", "job-priority", "job-order"), _do(STOPS)),
    "job-delete": _form(DELETES),
    "bundle-upload": _mine("POST"),
    "uploads": _mine("GET"),
    "upload-delete": Rule({"GET": OWNS, "POST": OWNS}, sees=OWNS),
    "secrets": _mine("GET"),
    "secret-new": _mine("GET", "POST"),
    **_each(("secret", "secret-delete"), _mine("GET", "POST", slug="wandb")),
    "templates": _mine("GET"),
    "template-rename": _do(OWNS, sees=OWNS),
    "template-delete": _form(OWNS, sees=OWNS),
    # --- what is served behind a gate ---
    **{name: rule for key in WITH_GATE for name, rule in _served(KINDS[key]).items()},
    "notebook-open": _form(OWNS),
    "api-notebook-open": _do(OWNS),
    "tensorboard-of": _mine("POST"),
    # --- the cluster, leads ---
    "nodes": _mine("GET"),
    "queue": _mine("GET"),
    **_each(("lead-team", "lead-fragment", "lead-hours"), _leads("GET", slug="holdings")),
    "lead-stop": _form(STOPS),
    # --- admins ---
    "scheduling": _admins("GET", "POST"),
    "node-use-again": _admins("POST"),
    "nodes-hold": _admins("GET", "POST"),
    "nodes-release": _admins("POST"),
    **_each(("api-holds", "api-holds-release"), _admins("POST")),
    **_each(("health", "people", "audit", "audit-csv", "namespaces"), _admins("GET")),
    "namespace-new": _admins("GET", "POST"),
    "namespace": _admins("GET"),
    "namespace-verb": _admins("GET", "POST", slug="suspend"),
    "person-invite": _admins("GET", "POST"),
    "person": _admins("GET", "POST"),
    "person-disable": _admins("GET", "POST"),
    "person-enable": _admins("POST"),
    "person-reset": _admins("GET", "POST"),
    "teams": _admins("GET", "POST"),
    "team-admin": _admins("GET", "POST"),
    "team-delete": _admins("GET", "POST"),
    **_each(
        ("team-member-add", "team-member-remove", "team-lead"),
        _admins("POST", form="username=alice"),
    ),
    # --- REST ---
    "api-schema": Rule({"GET": ALL}),
    "api-token": Rule({"POST": ALL, "DELETE": ALL}, door=Door.PUBLIC),
    "api-me": _mine("GET"),
    "api-nodes": _mine("GET"),
    "api-queue": _mine("GET"),
    "api-usage": _mine("GET"),
    "api-images": _mine("GET"),
    "api-bundles": _mine("GET", "POST"),
    "api-bundle": Rule({"DELETE": OWNS}, sees=OWNS),
    "api-secrets": _mine("GET"),
    "api-secret": _mine("GET", "PUT", "DELETE", slug="wandb"),
    "api-templates": _mine("GET", "POST"),
    "api-template": Rule(dict.fromkeys(("GET", "PUT", "DELETE"), OWNS), sees=OWNS),
    "api-jobs": _mine("GET", "POST"),
    "api-job-preview": _mine("POST"),
    "api-job-document": _mine("POST"),
    "api-job-prune": _mine("POST"),
    "api-job": Rule({"GET": SEES, "DELETE": DELETES}, sees=SEES),
    **_each(("api-job-stop", "api-job-suspend", "api-job-resume"), _do(STOPS)),
    **_each(("api-job-priority", "api-job-order"), _do(STOPS)),
    "api-job-deadline": _do(LEADS),
    "job-deadline": _do(LEADS),
    "api-job-rerun-failed": _do(OWNS),
    **_each(
        (
            "api-job-manifests",
            "api-job-events",
            "api-job-usage",
            "api-job-logs",
            "api-job-artifacts",
            "api-job-artifact",
        ),
        _look(),
    ),
    "api-job-export": Rule({"GET": OWNS}, sees=SEES),
    # For somebody else: admins only (`test_bodies.py`).
    "api-tenants": _mine("GET", "POST"),
    "api-tenant": Rule({"GET": SEES, "PATCH": GIVES}, sees=SEES),
    **_each(
        (f"api-tenant-{verb}" for verb in ("suspend", "resume", "delete", "restore", "purge")),
        _do(ADMINS),
    ),
    "api-users": _admins("GET", "POST"),
    "api-user": Rule({"GET": DELETES, "PATCH": ADMINS}, sees=DELETES),
    "api-user-reset": _do(ADMINS, sees=DELETES),
    "api-teams": Rule({"GET": ALL, "POST": ADMINS}),
    "api-team": Rule({"GET": MEMBERS, "PATCH": ADMINS, "DELETE": ADMINS}, sees=MEMBERS),
    "api-audit": _admins("GET"),
    "api-doctor": _admins("POST"),
    # Whatever else begins like REST: a sentence in JSON, and nothing else.
    "^api/.*": Rule({}, door=Door.PUBLIC),
    # --- pods ---
    **_each(
        (
            "internal/v1/jobs/<uuid:job_id>/source/",
            "internal/v1/jobs/<uuid:job_id>/commit/",
            f"{_REPLICA}/segments/",
            f"{_REPLICA}/segments/<int:number>/done/",
            f"{_REPLICA}/segments/<int:number>/drop/",
            f"{_REPLICA}/done/",
            f"{_REPLICA}/usage/",
            "internal/v1/jobs/<uuid:job_id>/artifacts/",
            "internal/v1/jobs/<uuid:job_id>/artifacts/done/",
            "internal/v1/services/<uuid:service_id>/gate/",
            "internal/v1/services/<uuid:service_id>/event-files/",
            "internal/v1/services/<uuid:service_id>/usage/<int:start>/",
        ),
        _pods("POST"),
    ),
    "internal/v1/jobs/<uuid:job_id>/hosts/": _pods("GET"),
}

# Routes that exist only where a setting asks for them.
BY_SETTING = {"oidc-begin", "oidc-callback"}

# Websockets: who hears something there; everybody else who is signed in is closed with 4404.
SOCKETS: dict[str, AbstractSet[str]] = {
    "ws/live/": ALL,
    "ws/jobs/<uuid:job_id>/logs/": SEES,
    "^.*": frozenset(),
}
