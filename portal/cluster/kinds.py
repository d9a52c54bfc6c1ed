"""Which path each Kubernetes kind that Homeport uses has at the API server."""

from dataclasses import dataclass
from urllib.parse import quote


@dataclass(frozen=True)
class ResourceKind:
    """One row of https://kubernetes.io/docs/reference/kubernetes-api/."""

    name: str
    group: str  # empty: the core group
    version: str
    plural: str
    is_namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None = None, name: str | None = None, sub: str = "") -> str:
        """Path of the collection (all namespaces when None), of an object or its subresource."""
        parts = ["/apis", self.group, self.version] if self.group else ["/api", self.version]
        if namespace is not None and self.is_namespaced:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        if name is not None:
            parts.append(quote(name, safe=""))
        if sub:
            parts.append(sub)
        return "/".join(parts)


_TABLE = (
    ResourceKind("Namespace", "", "v1", "namespaces", is_namespaced=False),
    ResourceKind("Node", "", "v1", "nodes", is_namespaced=False),
    ResourceKind("PersistentVolume", "", "v1", "persistentvolumes", is_namespaced=False),
    ResourceKind("StorageClass", "storage.k8s.io", "v1", "storageclasses", is_namespaced=False),
    ResourceKind("ConfigMap", "", "v1", "configmaps"),
    ResourceKind("Event", "", "v1", "events"),
    ResourceKind("LimitRange", "", "v1", "limitranges"),
    ResourceKind("PersistentVolumeClaim", "", "v1", "persistentvolumeclaims"),
    ResourceKind("Pod", "", "v1", "pods"),
    ResourceKind("ResourceQuota", "", "v1", "resourcequotas"),
    ResourceKind("Secret", "", "v1", "secrets"),
    ResourceKind("Service", "", "v1", "services"),
    ResourceKind("ServiceAccount", "", "v1", "serviceaccounts"),
    ResourceKind("Deployment", "apps", "v1", "deployments"),
    ResourceKind("Job", "batch", "v1", "jobs"),
    ResourceKind("NetworkPolicy", "networking.k8s.io", "v1", "networkpolicies"),
    ResourceKind("RoleBinding", "rbac.authorization.k8s.io", "v1", "rolebindings"),
    ResourceKind("PodGroup", "scheduling.k8s.io", "v1beta1", "podgroups"),
)
KINDS: dict[str, ResourceKind] = {kind.name: kind for kind in _TABLE}


def get_kind(name: str) -> ResourceKind:
    """The row of a kind.

    Raises:
        ValueError: Homeport does not use this kind.
    """
    kind = KINDS.get(name)
    if kind is None:
        raise ValueError(f"{name!r} is no kind that Homeport uses (known: {', '.join(KINDS)})")
    return kind
