"""The table of kinds that onebox serves, and how each behaves on write and delete.

Plural names are unique over all groups here, so the plural alone names a kind inside the
process. `events.k8s.io/v1` events are a view of the same stored core events.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Obj = dict[str, Any]
"""A Kubernetes object as plain JSON values."""

STANDARD_VERBS = (
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
)


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind.

    Attributes:
        group: API group, "" for core.
        subresources: served below one object, without their verbs.
        has_generation: metadata.generation counts changes of the spec.
        first_generation: metadata.generation of a new object that does not count afterwards.
        returns_deleted: DELETE answers with the object and not with a Status.
        orphans_by_default: DELETE without a policy leaves dependents (upstream's old Job rule).
        create_warning: sentence sent in a Warning header with each create.
        stored_as: plural under which the objects are kept, when this is a view.
        is_review: a question that is answered, and not kept.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    has_generation: bool = False
    first_generation: int = 0
    returns_deleted: bool = False
    orphans_by_default: bool = False
    create_warning: str = ""
    stored_as: str = ""
    is_review: bool = False

    @property
    def api_version(self) -> str:
        """Give the value of `apiVersion` in objects of this kind."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def verbs(self) -> tuple[str, ...]:
        """Give the verbs; namespaces are deleted one by one, as with upstream."""
        if self.is_review:
            return ("create",)
        if self.plural == "namespaces":
            return tuple(verb for verb in STANDARD_VERBS if verb != "deletecollection")
        return STANDARD_VERBS

    @property
    def has_status(self) -> bool:
        """Tell whether the status has a subresource, so that other writes leave it alone."""
        return "status" in self.subresources

    @property
    def group_resource(self) -> str:
        """Give upstream's name in sentences: "pods", "jobs.batch"."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def singular(self) -> str:
        """Give the singular that kubectl accepts."""
        return self.kind.lower()

    @property
    def storage_plural(self) -> str:
        """Give the plural under which objects lie in the store."""
        return self.stored_as or self.plural


_UNENFORCED_RBAC = (
    "onebox stores RBAC objects but does not enforce them: whoever holds a token may do everything"
)
_UNENFORCED_POLICY = (
    "onebox stores NetworkPolicy objects but does not enforce them: pods of one namespace reach "
    "each other freely, those of different namespaces not at all (freely in a plain container)"
)


def _core(plural: str, kind: str, *short_names: str, **more: Any) -> Resource:
    return Resource("", "v1", plural, kind, short_names=short_names, **more)


def _rbac(plural: str, kind: str, *, namespaced: bool) -> Resource:
    return Resource(
        "rbac.authorization.k8s.io",
        "v1",
        plural,
        kind,
        namespaced=namespaced,
        create_warning=_UNENFORCED_RBAC,
    )


_ALL = ("all",)

RESOURCES: tuple[Resource, ...] = (
    _core("configmaps", "ConfigMap", "cm"),
    _core("events", "Event", "ev"),
    _core("limitranges", "LimitRange", "limits"),
    _core(
        "namespaces",
        "Namespace",
        "ns",
        namespaced=False,
        subresources=("finalize", "status"),
        returns_deleted=True,
    ),
    _core("nodes", "Node", "no", namespaced=False, subresources=("status",)),
    _core(
        "persistentvolumeclaims",
        "PersistentVolumeClaim",
        "pvc",
        subresources=("status",),
        returns_deleted=True,
    ),
    _core(
        "persistentvolumes",
        "PersistentVolume",
        "pv",
        namespaced=False,
        subresources=("status",),
        returns_deleted=True,
    ),
    _core(
        "pods",
        "Pod",
        "po",
        categories=_ALL,
        subresources=("binding", "log", "status"),
        has_generation=True,
        returns_deleted=True,
    ),
    _core(
        "resourcequotas",
        "ResourceQuota",
        "quota",
        subresources=("status",),
        returns_deleted=True,
    ),
    _core("secrets", "Secret"),
    _core("serviceaccounts", "ServiceAccount", "sa", returns_deleted=True),
    _core(
        "services",
        "Service",
        "svc",
        categories=_ALL,
        subresources=("status",),
        returns_deleted=True,
    ),
    Resource(
        "apps",
        "v1",
        "deployments",
        "Deployment",
        short_names=("deploy",),
        categories=_ALL,
        subresources=("scale", "status"),
        has_generation=True,
    ),
    Resource(
        "apps",
        "v1",
        "replicasets",
        "ReplicaSet",
        short_names=("rs",),
        categories=_ALL,
        subresources=("scale", "status"),
        has_generation=True,
    ),
    Resource(
        "batch",
        "v1",
        "jobs",
        "Job",
        categories=_ALL,
        subresources=("status",),
        has_generation=True,
        orphans_by_default=True,
    ),
    Resource("coordination.k8s.io", "v1", "leases", "Lease"),
    Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", has_generation=True),
    Resource(
        "networking.k8s.io",
        "v1",
        "networkpolicies",
        "NetworkPolicy",
        short_names=("netpol",),
        has_generation=True,
        create_warning=_UNENFORCED_POLICY,
    ),
    _rbac("clusterrolebindings", "ClusterRoleBinding", namespaced=False),
    _rbac("clusterroles", "ClusterRole", namespaced=False),
    _rbac("rolebindings", "RoleBinding", namespaced=True),
    _rbac("roles", "Role", namespaced=True),
    Resource(
        "scheduling.k8s.io",
        "v1",
        "priorityclasses",
        "PriorityClass",
        namespaced=False,
        short_names=("pc",),
        first_generation=1,
    ),
    Resource(
        "storage.k8s.io",
        "v1",
        "storageclasses",
        "StorageClass",
        namespaced=False,
        short_names=("sc",),
        returns_deleted=True,
    ),
)

EVENTS_VIEW = Resource(
    "events.k8s.io", "v1", "events", "Event", short_names=("ev",), stored_as="events"
)


def _review(group: str, plural: str, kind: str) -> Resource:
    return Resource(group, "v1", plural, kind, namespaced=False, is_review=True)


REVIEWS: tuple[Resource, ...] = (
    _review("authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview"),
    _review("authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview"),
    _review("authorization.k8s.io", "selfsubjectrulesreviews", "SelfSubjectRulesReview"),
)

BY_PLURAL: dict[str, Resource] = {resource.plural: resource for resource in RESOURCES}
SERVED: tuple[Resource, ...] = (*RESOURCES, EVENTS_VIEW, *REVIEWS)
BY_PATH: dict[tuple[str, str, str], Resource] = {
    (resource.group, resource.version, resource.plural): resource for resource in SERVED
}


def resource_named(plural: str) -> Resource:
    """Give the kind with this plural.

    Raises:
        KeyError: no such kind is served; a mistake of the caller, not of a user.
    """
    try:
        return BY_PLURAL[plural]
    except KeyError:
        raise KeyError(f"onebox serves no kind with the plural {plural!r}") from None


def group_versions() -> Iterator[tuple[str, str]]:
    """Give every (group, version) served, core first, each once."""
    yield from dict.fromkeys(sorted((r.group, r.version) for r in SERVED))
