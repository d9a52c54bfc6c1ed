"""What a kind of workload is to everything that works on all kinds."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from django.utils.functional import Promise
from rest_framework.serializers import BaseSerializer

from jobs.kinds.form import Check, WorkloadForm
from jobs.kinds.lifecycle import Lifecycle
from jobs.kinds.manifests import Grant
from jobs.kinds.observe import CallResults, ReadPod
from jobs.kinds.pages import KindPages
from jobs.kinds.plan import Rescue
from jobs.kinds.serializer import SpecSerializer
from jobs.kinds.spec import WorkloadSpec
from jobs.kinds.state import LoadedRow, Observed, PodFacts, WorkloadRow
from jobs.models import Workload
from jobs.rules.amounts import Amount, ReplicaRequest
from jobs.rules.reasons import duration_text
from jobs.rules.requests import requests_of
from jobs.rules.states import WorkloadState
from portal.catalog import get_catalog
from portal.cluster.cache import ClusterCache
from portal.cluster.manifests import Object
from portal.web.rest import read
from tenants.models import Tenant, User

Observe = Callable[
    [ClusterCache, LoadedRow, CallResults, Sequence[PodFacts], Sequence[PodFacts]], Observed
]
Render = Callable[[Workload, int, Grant], list[Object]]
Complete = Callable[[WorkloadRow, Object, Object | None], Object]
RenderRescue = Callable[[Workload, int, Rescue], Object]
_NOTHING = Amount()


def _has_no_end(run_policy: Mapping[str, Any], topology: str, roles: Collection[str]) -> int | None:
    return None


def _short_grace_s(topology: str, roles: Collection[str]) -> int:
    return 120


def _is_placed_alone(row: WorkloadRow) -> int | None:
    return None


def _is_its_own_root(kube_name: str, _topology: str, _roles: Collection[str]) -> str:
    return kube_name


def _accept(tenant: Tenant, spec: Any) -> None:
    return None


def _no_hints(spec: Any) -> list[str]:
    return []


def _none_is_the_same(tenant: Tenant, spec: Any) -> None:
    return None


def _as_stored(workload: Workload, document: Object) -> Object:
    return document


@dataclass(frozen=True, kw_only=True)
class RestResource:
    """REST of a kind, in the words that its OpenAPI document has always had.

    Attributes:
        one: "a job", without the article.
        ask: what POST does of one: "submits".
        stop: of its `stop/`; "": nothing is to be said of it.
        answer: how one looks.
        list_answer: how each of a list looks; None: as one does.
        event_answer: how what happened to it looks.
    """

    one: str
    ask: str = "asks for"
    stop: str = ""
    answer: type[BaseSerializer[Any]]
    list_answer: type[BaseSerializer[Any]] | None = None
    event_answer: type[BaseSerializer[Any]]


@dataclass(frozen=True, kw_only=True)
class StopTexts:
    """What a dialog says before one that runs is stopped.

    Attributes:
        button: the answer that stops it.
        own: what becomes of it; `{grace}` is how long it has to end.
        of_other: the same to a lead or an admin; `{person}` is its owner.
    """

    button: Promise
    own: Promise
    of_other: Promise


@dataclass(frozen=True, kw_only=True, eq=False)
class WorkloadKind:
    """A kind of workloads.

    Attributes:
        key: as stored, and as REST, browsers and the names of its pages know it.
        noun: one of them in sentences, without an article: "notebook".
        title: of one of them, on pages.
        icon: its icon there, of `templates/icons.html`.
        record_kind: "job" or "service", as live frames and the audit trail call it.
        open_verb: the verb of `tenants/policy.py` that it takes to open one; "" when there is nothing to open.
        states: those that it may be in, in the order of its life.
        stop: what is said before one is stopped.
        grace_s: seconds from SIGTERM to SIGKILL of its pods.
        rest: how it looks there.
        pages: what they are called and say.
        has_roles: whether its replicas have roles; else it is always one pod.
        takes_code: whether it may start from an upload, which its spec has as `source.bundle`.
        spec: what it is asked for by.
        serializer: reads a body into the spec.
        form: asks a person for such a body, on a page.
        submit_verb: how the audit trail calls asking for one.
        can_restart: whether one that has ended can be started again.
        check_submit: what else must hold when one is submitted, in that transaction. Raises Refused.
        hints: what of such a spec is probably not meant as it is written, in sentences.
        find_same: the tenant's own that does already what such a spec asks for, one that runs first; None:
            there is none, or it takes several.
        request_field: the field of a body for one of what is asked for, `replicas.ROLE.cpu`; "" when it is
            about all of it.
        overhead: what each of its pods holds beside the main container.
        lifecycle: what follows from a look.
        read_pod: a pod by the names of its containers.
        observe: what the cache shows, with the pods that are there and those that were deleted.
        root_name: name of the root, of an attempt's NAME, the topology and the roles.
        together: fewest of its pods that are of use, and are placed together or not at all where the
            cluster can do that; None: each is placed by itself.
        lasts_s: of the run policy, the topology and the roles, for how many seconds it may hold room once
            it is admitted; None: as long as it likes.
        longest_grace_s: of the topology and the roles, for how many seconds it may hold room when it has been
            told to end.
        render: the manifests of an attempt. Raises ConfigurationError and ValueError when it cannot.
        with_private: a stored document with what of the request is not stored in it.
        complete: that document as it is sent, with its owner (None: it has none) and its secrets.
        render_rescue: the pod that saves the log of a lost replica, in the latest attempt; None: nothing of
            it is archived.
    """

    key: str
    noun: str
    title: Promise
    icon: str
    record_kind: str
    open_verb: str = ""
    states: tuple[WorkloadState, ...] = tuple(WorkloadState)
    stop: StopTexts
    grace_s: Callable[[Workload], int]
    rest: RestResource
    pages: KindPages
    has_roles: bool = False
    takes_code: bool = False
    spec: type[WorkloadSpec]
    serializer: type[SpecSerializer] = SpecSerializer
    form: type[WorkloadForm]
    submit_verb: str = "create"
    can_restart: bool = True
    check_submit: Callable[[Tenant, Any], None] = _accept
    hints: Callable[[Any], list[str]] = _no_hints
    find_same: Callable[[Tenant, Any], Workload | None] = _none_is_the_same
    request_field: Callable[[str], str] = str
    overhead: Amount = _NOTHING
    lifecycle: type[Lifecycle]
    read_pod: ReadPod
    observe: Observe
    root_name: Callable[[str, str, Collection[str]], str] = _is_its_own_root
    together: Callable[[WorkloadRow], int | None] = _is_placed_alone
    lasts_s: Callable[[Mapping[str, Any], str, Collection[str]], int | None] = _has_no_end
    longest_grace_s: Callable[[str, Collection[str]], int] = _short_grace_s
    render: Render
    with_private: Callable[[Workload, Object], Object] = _as_stored
    complete: Complete
    render_rescue: RenderRescue | None = None

    @property
    def has_gate(self) -> bool:
        """Whether it is served behind a gate, to be opened in a browser."""
        return bool(self.open_verb)

    @property
    def is_archived(self) -> bool:
        """Whether its logs and the files that it leaves are kept."""
        return self.render_rescue is not None

    def read(
        self,
        body: Mapping[str, Any],
        *,
        tenant: Tenant,
        user: User,
        written: Mapping[str, str] = MappingProxyType({}),
    ) -> WorkloadSpec:
        """The checked form of what a person sent.

        Args:
            written: dotted path -> how a document has a value that is no text, such as `0x1F` of 31.

        Raises:
            Refused: with every error found, not only the first.
        """
        context = {"tenant": tenant, "user": user, "catalog": get_catalog(), "written": written}
        spec: WorkloadSpec = read(self.serializer(data=body, context=context))
        return spec

    def reader(self, tenant: Tenant, user: User) -> Check:
        """Reads bodies for somebody."""

        def check(
            body: Mapping[str, Any], written: Mapping[str, str] = MappingProxyType({}), /
        ) -> WorkloadSpec:
            return self.read(body, tenant=tenant, user=user, written=written)

        return check

    def stop_text(self, workload: Workload, *, is_own: bool) -> str:
        """What becomes of one that is stopped, to its owner or to somebody else."""
        text = self.stop.own if is_own else self.stop.of_other
        grace = duration_text(self.grace_s(workload))
        return str(text).format(grace=grace, person=workload.owner.shown_name)

    def requests(self, replicas: Mapping[str, Mapping[str, Any]]) -> tuple[ReplicaRequest, ...]:
        """What scheduler and quota count of the column `replicas`."""
        return requests_of(replicas, self.overhead)
