"""Which path each Kubernetes kind that Homeport uses has at the API server."""

from dataclasses import dataclass
from urllib.parse import quote


@dataclass(frozen=True)
class Kind:
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
    Kind("Namespace", "", "v1", "namespaces", is_namespaced=False),
    Kind("Node", "", "v1", "nodes", is_namespaced=False),
    Kind("PersistentVolume", "", "v1", "persistentvolumes", is_namespaced=False),
    Kind("StorageClass", "storage.k8s.io", "v1", "storageclasses", is_namespaced=False),
    Kind("ConfigMap", "", "v1", "configmaps"),
    Kind("Event", "", "v1", "events"),
    Kind("LimitRange", "", "v1", "limitranges"),
    Kind("PersistentVolumeClaim", "", "v1", "persistentvolumeclaims"),
    Kind("Pod", "", "v1", "pods"),
    Kind("ResourceQuota", "", "v1", "resourcequotas"),
    Kind("Secret", "", "v1", "secrets"),
    Kind("Service", "", "v1", "services"),
    Kind("ServiceAccount", "", "v1", "serviceaccounts"),
    Kind("Deployment", "apps", "v1", "deployments"),
    Kind("Job", "batch", "v1", "jobs"),
    Kind("NetworkPolicy", "networking.k8s.io", "v1", "networkpolicies"),
    Kind("RoleBinding", "rbac.authorization.k8s.io", "v1", "rolebindings"),
)
KINDS: dict[str, Kind] = {kind.name: kind for kind in _TABLE}


def get_kind(name: str) -> Kind:
    """The row of a kind.

    Raises:
        ValueError: Homeport does not use this kind.
    """
    kind = KINDS.get(name)
    if kind is None:
        raise ValueError(f"{name!r} is no kind that Homeport uses (known: {', '.join(KINDS)})")
    return kind
